"""GPUs that pods share, from the site file to what nodes offer, accounts may hold and the device plugin reads."""

import dataclasses
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity.model import Plan
from capacity.services.platform import design
from capacity.services.platform.sharing import GPU_RESOURCE, SHARED_RESOURCE, Offer, offers, profiles, whole_nodes
from capacity.services.platform.tenancy import allowed_of, gpus_allowed
from capacity.services.platform.topology import node_labels
from capacity.services.slurm import Account
from inventory.catalog import load_catalog
from inventory.site.sections.sharing import GpuSharing
from tests.plans import plan_of

SLICES = GpuSharing(servers=("gpu003",), time_slices=4)
MIG = GpuSharing(servers=("gpu004",), mig="1g.10gb")
INSTANCES = "nvidia.com/mig-1g.10gb"


def shared(*ways: GpuSharing) -> Plan:
    """The lab's plan, four nodes of eight H100, with GPUs shared."""
    plan = plan_of("lab-kubernetes")
    return dataclasses.replace(plan, site=plan.site.model_copy(update={"gpu_sharing": ways}))


def bodies(plan: Plan, kind: str) -> dict[str, Any]:
    return {f"{one.namespace}/{one.name}".lstrip("/"): one.body for one in design(plan).objects if one.kind == kind}


def resources(plan: Plan, kind: str, name: str, which: str) -> dict[str, str]:
    (group,) = bodies(plan, kind)[name]["spec"]["resourceGroups"]
    assert group["coveredResources"] == [one["name"] for one in group["flavors"][0]["resources"]]
    return {one["name"]: one[which] for one in group["flavors"][0]["resources"] if which in one}


def test_each_node_offers_what_its_profile_makes_of_its_gpus() -> None:
    assert offers(shared(SLICES, MIG)) == {
        "gpu001": Offer(GPU_RESOURCE, 8),
        "gpu002": Offer(GPU_RESOURCE, 8),
        "gpu003": Offer(SHARED_RESOURCE, 32, "time-slices-4", "", 4, "nvidia-device-plugin-time-slices-4"),
        "gpu004": Offer(INSTANCES, 56, "mig-1g.10gb", "1g.10gb", 7, "nvidia-device-plugin-mig-1g-10gb"),
    }
    assert [one.name for one in whole_nodes(shared(SLICES, MIG))] == ["gpu001", "gpu002"]


def test_all_that_is_on_offer_stands_at_the_root_each_under_its_own_name() -> None:
    plan = shared(SLICES, MIG)
    quota = resources(plan, "Cohort", "root", "nominalQuota")
    assert {name: quota[name] for name in (GPU_RESOURCE, SHARED_RESOURCE, INSTANCES)} == {
        GPU_RESOURCE: "16",
        SHARED_RESOURCE: "32",
        INSTANCES: "56",
    }
    assert quota["cpu"] == resources(plan_of("lab-kubernetes"), "Cohort", "root", "nominalQuota")["cpu"]


def test_a_limit_of_gpus_holds_for_the_parts_of_as_many_gpus() -> None:
    plan = shared(SLICES, MIG)
    (hard,) = [one["spec"]["hard"] for name, one in bodies(plan, "ResourceQuota").items() if name == "research/gpus"]
    assert hard == {  # 24 GPUs may be held: all 16 that are whole, and all parts
        f"requests.{GPU_RESOURCE}": "16",
        f"requests.{SHARED_RESOURCE}": "32",
        f"requests.{INSTANCES}": "56",
    }
    assert resources(plan, "ClusterQueue", "services", "borrowingLimit") == {
        GPU_RESOURCE: "8",
        SHARED_RESOURCE: "32",
        INSTANCES: "56",
    }
    assert resources(plan, "ClusterQueue", "commissioning", "borrowingLimit") == {}


def test_pulumi_labels_no_node_as_shared() -> None:
    """The label follows the drain of a node; a plan that set it would share GPUs of running pods."""
    assert node_labels(shared(SLICES)) == node_labels(plan_of("lab-kubernetes"))


def test_the_device_plugin_renames_slices_and_refuses_two_for_one_pod() -> None:
    (data,) = [one["data"] for one in bodies(shared(SLICES, MIG), "ConfigMap").values()]
    assert yaml.safe_load(data["time-slices-4.yaml"]) == {
        "version": "v1",
        "sharing": {
            "timeSlicing": {
                "renameByDefault": True,
                "failRequestsGreaterThanOne": True,
                "resources": [{"name": GPU_RESOURCE, "replicas": 4}],
            }
        },
    }
    assert yaml.safe_load(data["mig-1g.10gb.yaml"]) == {"version": "v1", "flags": {"migStrategy": "mixed"}}


def test_a_site_that_shares_nothing_has_no_configuration() -> None:
    assert bodies(plan_of("lab-kubernetes"), "ConfigMap") == {}
    assert profiles(plan_of("lab-kubernetes")) == ()


def slices_of_compute(profile: str) -> int:
    return int(profile.partition("g.")[0])


@pytest.mark.parametrize("gpu", [one for one in load_catalog().gpus.values() if one.mig], ids=lambda one: one.slug)
def test_mig_profiles_of_the_catalogue_fit_on_their_gpu(gpu: Any) -> None:
    """A GPU has 7 slices of compute and 8 of memory (NVIDIA Multi-Instance GPU User Guide, Concepts, Partitioning)."""
    for profile, count in gpu.mig.items():
        memory_gb = int(profile.partition(".")[2].removesuffix("gb"))
        assert slices_of_compute(profile) * count <= 7
        assert (memory_gb - 1) * count <= gpu.memory_gib, "names round up"
    assert {1, 2, 3, 4, 7} == {slices_of_compute(profile) for profile in gpu.mig}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 40) | st.none(), st.integers(1, 64), st.integers(0, 32))
def test_no_account_holds_more_parts_than_there_are(most: int | None, per_gpu: int, gpus: int) -> None:
    plan = shared(GpuSharing(servers=("gpu003",), time_slices=2))
    (one,) = profiles(plan)
    one = dataclasses.replace(one, per_gpu=per_gpu, gpus=gpus)
    accounts = [Account("a", "root", 1, (), most, ()), Account("b", "a", 1, (), None, ())]
    found = allowed_of(accounts, 8, [one])
    assert found["a"] == found["b"]
    assert found["a"][GPU_RESOURCE] == gpus_allowed(accounts, 8)["a"]
    assert found["a"][one.resource] == (one.count if most is None else min(one.count, most * per_gpu))
