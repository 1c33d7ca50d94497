"""Kueue, JobSet and the device plugin as a site has them: what is changed of the published manifests, and what is refused."""

import dataclasses
import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from capacity.services.platform.sharing import CONFIG, SHARING
from capacity.services.platform.topology import GPU, OUT_OF_SERVICE
from infra.kube import manifests
from infra.kube.manifests import DEVICE_PLUGIN, JOBSET, KUEUE, SOURCES, ManifestError, installed, pinned
from infra.toolchain import controllers
from inventory.paths import repo_root

WORKLOADS = {
    "jobset": ("Deployment", "jobset-controller-manager"),
    "kueue": ("Deployment", "kueue-controller-manager"),
    "k8s-device-plugin": ("DaemonSet", "nvidia-device-plugin-daemonset"),
}


def workload(name: str, registry: str | None = None) -> dict[str, Any]:
    """The one workload of a release."""
    (found,) = [one for one in installed(registry)[name] if one["kind"] in ("Deployment", "DaemonSet")]
    assert (found["kind"], found["metadata"]["name"]) == WORKLOADS[name]
    return found


def containers(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    template: dict[str, Any] = found["spec"]["template"]["spec"]
    return list(template["containers"])


@pytest.mark.parametrize("source", SOURCES, ids=lambda one: one.name)
def test_an_altered_manifest_is_refused_by_name(source: manifests.Source, tmp_path: Path) -> None:
    copy = tmp_path / source.file
    copy.parent.mkdir()
    shutil.copy(repo_root() / "third_party" / source.file, copy)
    assert pinned(source, tmp_path)
    with copy.open("a") as file:
        file.write("# altered\n")
    with pytest.raises(ManifestError, match=rf"{copy}: SHA-256 .* expected {source.sha256} .*git checkout"):
        pinned(source, tmp_path)
    copy.unlink()
    with pytest.raises(ManifestError, match=rf"{copy}: No such file or directory\. Restore it: git checkout"):
        pinned(source, tmp_path)


@pytest.mark.parametrize("source", [KUEUE, JOBSET], ids=lambda one: one.name)
def test_manifests_and_programs_are_of_one_version(source: manifests.Source) -> None:
    (program,) = [one for one in controllers.PROGRAMS if one.name == source.name]
    assert program.version == source.version
    assert source.image.endswith(f":{source.version}")


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("jobset", "registry.k8s.io/jobset/jobset:v0.11.0"),
        ("kueue", "registry.k8s.io/kueue/kueue:v0.15.0"),
        ("k8s-device-plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.18.0"),
    ],
)
def test_images_are_those_that_the_projects_publish_or_the_sites_own(name: str, image: str) -> None:
    assert [one["image"] for one in containers(workload(name))] == [image]
    own = f"registry.example:5000/hall/{image.partition('/')[2]}"
    assert [one["image"] for one in containers(workload(name, "registry.example:5000/hall"))] == [own]


@pytest.mark.parametrize("name", [one.name for one in SOURCES])
def test_what_others_need_comes_first_and_what_runs_comes_last(name: str) -> None:
    kinds = [one["kind"] for one in installed()[name]]
    first = [kind for kind in kinds if kind in ("CustomResourceDefinition", "Namespace")]
    assert kinds[: len(first)] == sorted(first)
    assert kinds[-1] == WORKLOADS[name][0]
    assert "APIService" not in kinds


def test_kueue_manages_jobs_and_jobsets_and_is_asked_about_nothing_else() -> None:
    """One that is down would refuse the pods of everybody."""
    objects = installed()["kueue"]
    asked = {
        resource
        for one in objects
        for hook in one.get("webhooks", ())
        for rule in hook["rules"]
        for resource in rule["resources"]
    }
    assert asked >= {"jobs", "jobsets", "clusterqueues", "workloads"}
    assert not asked & {"pods", "deployments", "statefulsets"}
    (settings,) = [one["data"][manifests.CONFIGURATION] for one in objects if one["kind"] == "ConfigMap"]
    settings = yaml.safe_load(settings)
    assert settings["integrations"] == {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]}
    assert settings["leaderElection"]["leaderElect"] is True, "all other keys are those of the release"


def test_another_configuration_starts_the_controller_anew() -> None:
    def mark(source: manifests.Source) -> str:
        (found,) = [one for one in manifests.adapted(source, pinned(source)) if one["kind"] == "Deployment"]
        annotations: dict[str, str] = found["spec"]["template"]["metadata"]["annotations"]
        return annotations["bringup.local/configuration"]

    assert mark(KUEUE) == mark(KUEUE)
    assert mark(KUEUE) != mark(dataclasses.replace(KUEUE, settings={}))


@pytest.mark.parametrize("name", ["kueue", "jobset"])
def test_no_job_takes_a_controllers_place(name: str) -> None:
    pod = workload(name)["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert {one["key"] for one in pod["tolerations"]} == {"node-role.kubernetes.io/control-plane"}
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in pod["affinity"]["nodeAffinity"]


@pytest.mark.parametrize("name", ["kueue", "jobset"])
def test_several_replicas_run_on_different_nodes_and_are_drained_one_by_one(name: str) -> None:
    def of(replicas: int) -> dict[str, dict[str, Any]]:
        return {one["kind"]: one for one in installed(replicas=replicas)[name]}

    alone, several = of(1), of(2)
    assert several.keys() - alone.keys() == {"PodDisruptionBudget"}
    deployment, budget = several["Deployment"], several["PodDisruptionBudget"]
    assert (alone["Deployment"]["spec"]["replicas"], deployment["spec"]["replicas"]) == (1, 2)
    assert budget["spec"] == {"maxUnavailable": 1, "selector": deployment["spec"]["selector"]}
    assert budget["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    (spread,) = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "DoNotSchedule")
    assert "topologySpreadConstraints" not in alone["Deployment"]["spec"]["template"]["spec"]


def test_only_one_of_several_replicas_acts() -> None:
    """Both ask for the same lease."""
    for name in ("kueue", "jobset"):
        (settings,) = [one["data"][manifests.CONFIGURATION] for one in installed()[name] if one["kind"] == "ConfigMap"]
        assert yaml.safe_load(settings)["leaderElection"]["leaderElect"] is True


def test_the_device_plugin_runs_on_gpu_nodes_and_sees_their_driver() -> None:
    assert manifests.GPU_LABEL == GPU
    found = workload("k8s-device-plugin")
    pod = found["spec"]["template"]["spec"]
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    not_shared = {"key": SHARING, "operator": "DoesNotExist"}
    assert term == {"matchExpressions": [{"key": GPU, "operator": "Exists"}, not_shared]}
    (container,) = containers(found)
    mounts = {one["name"]: one for one in container["volumeMounts"]}
    assert mounts["driver-root"] == {"name": "driver-root", "mountPath": "/driver-root", "readOnly": True}
    assert {one["name"] for one in pod["volumes"]} == mounts.keys()
    assert {"name": "DEVICE_DISCOVERY_STRATEGY", "value": "nvml"} in container["env"]
    assert {"name": "DEVICE_LIST_STRATEGY", "value": "volume-mounts"} in container["env"], (
        "an image could name all GPUs"
    )


@pytest.mark.parametrize(("rdma", "said"), [(True, "true"), (False, "false")])
def test_pods_with_gpus_have_the_rdma_devices_of_their_node_where_the_site_says_so(rdma: bool, said: str) -> None:
    for found in installed(shared={"time-slices-4": "a: 1\n"}, rdma=rdma)["k8s-device-plugin"]:
        (container,) = containers(found)
        assert {"name": "MOFED_ENABLED", "value": said} in container["env"]


def test_a_device_plugin_starts_anew_on_a_node_out_of_service() -> None:
    taint = {"key": OUT_OF_SERVICE, "value": "S026.measured", "effect": "NoSchedule"}
    for found in installed(shared={"time-slices-4": "a: 1\n"})["k8s-device-plugin"]:
        tolerated = found["spec"]["template"]["spec"]["tolerations"]
        (ours,) = [one for one in tolerated if one["key"] == taint["key"]]
        assert ours["operator"] == "Exists"
        assert ours.get("effect", taint["effect"]) == taint["effect"]


def test_an_update_takes_down_a_tenth_of_the_device_plugins_at_once() -> None:
    for found in installed(shared={"time-slices-4": "a: 1\n"})["k8s-device-plugin"]:
        assert found["spec"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}


def test_nodes_of_each_way_of_sharing_have_a_device_plugin_of_their_own() -> None:
    """A node's pods keep theirs until its label says otherwise, and no two run on one node."""
    texts = {"time-slices-4": "a: 1\n", "mig-1g.10gb": "b: 1\n"}
    usual, slices, mig = installed(shared=texts)["k8s-device-plugin"]
    names = ["nvidia-device-plugin-daemonset", "nvidia-device-plugin-time-slices-4", "nvidia-device-plugin-mig-1g-10gb"]
    assert [one["metadata"]["name"] for one in (usual, slices, mig)] == names
    for one, profile in ((slices, "time-slices-4"), (mig, "mig-1g.10gb")):
        template = one["spec"]["template"]
        assert one["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
        required = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = required["nodeSelectorTerms"]
        assert {"key": SHARING, "operator": "In", "values": [profile]} in term["matchExpressions"]
        (container,) = containers(one)
        assert {"name": "CONFIG_FILE", "value": f"/config/{profile}.yaml"} in container["env"]
        assert {"name": "config", "configMap": {"name": CONFIG}} in template["spec"]["volumes"]
        assert {"name": "config", "mountPath": "/config", "readOnly": True} in container["volumeMounts"]
    selectors = [one["spec"]["selector"]["matchLabels"]["name"] for one in (usual, slices, mig)]
    assert len(set(selectors)) == 3
    assert usual == installed()["k8s-device-plugin"][0]


def test_another_configuration_of_sharing_starts_its_device_plugin_anew() -> None:
    first, same, other = (installed(shared={"mig-1g.10gb": text})["k8s-device-plugin"][1] for text in ("a", "a", "b"))
    assert first == same != other


def test_secrets_are_empty_and_their_controllers_may_fill_them() -> None:
    for name in ("kueue", "jobset"):
        objects = installed()[name]
        (secret,) = [one for one in objects if one["kind"] == "Secret"]
        assert secret.keys() == {"apiVersion", "kind", "metadata"}
        rights = [
            verb
            for one in objects
            if one["kind"] == "Role"
            for rule in one["rules"]
            if "secrets" in rule["resources"]
            for verb in rule["verbs"]
        ]
        assert "update" in rights


def test_what_is_adapted_leaves_the_published_file_as_it_was() -> None:
    before = hashlib.sha256(repr(pinned(DEVICE_PLUGIN)).encode()).hexdigest()
    installed("registry.example")
    assert hashlib.sha256(repr(pinned(DEVICE_PLUGIN)).encode()).hexdigest() == before
