"""The platform layer against Pulumi's mocks: what is declared, in which order, and when it is refused."""

import asyncio
import dataclasses
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pulumi
import pytest
from pulumi.runtime.mocks import MockMonitor

import infra.__main__ as program
from capacity.model import Plan
from capacity.services.platform import design
from capacity.services.platform.sharing import whole_nodes
from infra.kube import dns
from infra.kube.access import kubeconfig_of
from infra.kube.manifests import installed
from infra.layers import platform as layer
from inventory.site.sections.sharing import GpuSharing
from tests.infra.test_program import Recorder
from tests.plans import plan_of


def declared(plan: Plan | None = None) -> tuple[dict[tuple[str, str], Any], dict[str, list[str]]]:
    """({(type, name): inputs}, {name: names of what it depends on}) of a platform; of the lab's where no plan is given."""
    needs: dict[str, list[str]] = {}
    register = MockMonitor.RegisterResource

    def watched(monitor: MockMonitor, request: Any) -> Any:
        if request.type != "pulumi:pulumi:Stack":  # registered once in a process
            needs[request.name] = sorted(urn.rpartition("::")[2] for urn in request.dependencies)
        return register(monitor, request)

    recorder = Recorder()
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(recorder, project="bringup", stack="lab")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MockMonitor, "RegisterResource", watched)
        pulumi.runtime.test(lambda: layer.Platform(plan or plan_of("lab"), "/nowhere/kubeconfig") and None)()
    return recorder.registered, needs


@pytest.fixture(scope="module")
def lab() -> tuple[dict[tuple[str, str], Any], dict[str, list[str]]]:
    return declared()


def test_each_object_is_declared_once_with_its_body(lab: Any) -> None:
    made, _ = lab
    names = Counter(name for _, name in made)
    assert {name for name, count in names.items() if count > 1} == set()
    own_dns = dns.objects("10.96.0.10", nodes=4, upstream=False)
    wanted = {
        layer.key_of(one): one for objects in (own_dns, *installed(replicas=2, rdma=True).values()) for one in objects
    }
    wanted |= {one.key: one.manifest for one in design(plan_of("lab")).objects}
    for key, manifest in wanted.items():
        (inputs,) = [inputs for (_, name), inputs in made.items() if name == key]
        assert inputs.keys() == manifest.keys(), key
        labels = manifest["metadata"].get("labels", {}).items() - {("app.kubernetes.io/managed-by", "kustomize")}
        assert inputs["metadata"]["labels"].items() >= labels, key
        assert inputs["metadata"]["name"] == manifest["metadata"]["name"]
        assert {part: inputs[part] for part in manifest if part != "metadata"} == {
            part: manifest[part] for part in manifest if part != "metadata"
        }, key


def test_every_resource_is_of_a_type_of_pulumi_kubernetes(lab: Any) -> None:
    made, _ = lab
    others = {kind for kind, _ in made if not kind.startswith("kubernetes:") and kind != "pulumi:providers:kubernetes"}
    assert others == {"bringup:layers:Platform"}
    assert {kind for kind, name in made if name.startswith("Node/")} == {"kubernetes:core/v1:NodePatch"}


def test_a_second_run_declares_the_same(lab: Any) -> None:
    assert declared() == lab


def test_objects_wait_for_their_namespace_and_custom_resources_for_their_definition(lab: Any) -> None:
    made, needs = lab
    definitions = {
        inputs["spec"]["names"]["kind"]: name
        for (_, name), inputs in made.items()
        if name.startswith("CustomResourceDefinition/")
    }
    assert set(definitions) >= {"Topology", "ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue", "JobSet"}
    for one in design(plan_of("lab")).objects:
        wanted = [f"Namespace/{one.namespace}"] if one.namespace else []
        wanted += [definitions[one.kind]] if one.kind in definitions else []
        assert set(wanted) <= set(needs[one.key]), one.key


def test_a_controller_starts_when_its_release_is_there_and_its_objects_when_it_has_started(lab: Any) -> None:
    _, needs = lab
    runs = "Deployment/kueue-system/kueue-controller-manager"
    release = {
        "CustomResourceDefinition/clusterqueues.kueue.x-k8s.io",
        "ConfigMap/kueue-system/kueue-manager-config",
        "Secret/kueue-system/kueue-webhook-server-cert",
        "Service/kueue-system/kueue-webhook-service",
        "ValidatingWebhookConfiguration/kueue-validating-webhook-configuration",
        "ClusterRoleBinding/kueue-manager-rolebinding",
    }
    assert release <= set(needs[runs])
    assert not {one for one in needs[runs] if "jobset-system" in one}, "one that does not start keeps no other back"
    for one in design(plan_of("lab")).objects:
        assert (runs in needs[one.key]) == one.api_version.startswith("kueue."), one.key


def test_a_device_plugin_starts_when_its_configuration_is_there_and_waits_for_no_other() -> None:
    plan = plan_of("lab-kubernetes")
    ways = (GpuSharing(servers=("gpu003",), time_slices=4), GpuSharing(servers=("gpu004",), mig="1g.10gb"))
    _, needs = declared(dataclasses.replace(plan, site=plan.site.model_copy(update={"gpu_sharing": ways})))
    plugins = [name for name in needs if name.startswith("DaemonSet/kube-system/nvidia-device-plugin")]
    assert len(plugins) == 3
    assert [needs[name] for name in plugins] == [["ConfigMap/kube-system/bringup-device-plugin"]] * 3


def test_a_device_plugin_has_as_much_time_as_its_nodes_need(lab: Any) -> None:
    made, _ = lab
    budgets = {
        name: inputs["metadata"]["annotations"].get("pulumi.com/timeoutSeconds")
        for (_, name), inputs in made.items()
        if name.startswith(("DaemonSet/", "Deployment/"))
    }
    nodes = len(whole_nodes(plan_of("lab")))
    assert {name: budget for name, budget in budgets.items() if budget} == {
        "DaemonSet/kube-system/nvidia-device-plugin-daemonset": str(600 + nodes)
    }
    assert int(layer.in_time({"metadata": {}}, 1000)["metadata"]["annotations"]["pulumi.com/timeoutSeconds"]) == 1600


def test_no_content_of_a_secret_is_declared(lab: Any) -> None:
    made, _ = lab
    secrets = [inputs for (kind, _), inputs in made.items() if kind == "kubernetes:core/v1:Secret"]
    assert len(secrets) == 2
    assert all(inputs.keys() == {"apiVersion", "kind", "metadata"} for inputs in secrets)


def test_every_object_carries_the_mark_of_the_layer_and_no_node_does(lab: Any) -> None:
    made, _ = lab
    for (kind, name), inputs in made.items():
        if kind.startswith("kubernetes:"):
            labels = inputs["metadata"]["labels"]
            assert (labels.get("app.kubernetes.io/managed-by") == "bringup") != name.startswith("Node/"), name


def a_site(kind: str = "kubernetes") -> Any:
    return SimpleNamespace(name="hall", scheduler=SimpleNamespace(kind=kind), versions={"kubernetes": "1.36.3"})


def test_a_site_of_slurm_has_no_platform_and_says_so_where_the_stack_names_it() -> None:
    assert program.cluster_of(a_site("slurm"), "kubeconfig", None) == ""
    with pytest.raises(program.ProgramError, match=r"scheduler\.kind of hall is slurm: delete platform"):
        program.cluster_of(a_site("slurm"), "kubeconfig", ["platform"])


def test_a_platform_without_a_kubeconfig_is_refused_where_the_stack_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path))
    how = "bringup kubeconfig hall, or pulumi config set bringup:kubeconfig PATH"
    with pytest.raises(program.ProgramError, match=f"there is no kubeconfig: {how}"):
        program.cluster_of(a_site(), None, ["power", "platform"])
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", said.append)
    assert program.cluster_of(a_site(), None, None) == ""
    assert said == [f"platform: left out, since there is no kubeconfig. Once the cluster runs: {how}"]
    assert program.cluster_of(a_site(), "kubeconfig", ["power"]) == ""


def test_a_kubeconfig_that_was_fetched_is_taken_unless_another_is_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path))
    monkeypatch.setattr(program, "connect", lambda path: path)
    monkeypatch.setattr(program, "version", lambda connection: "v1.36.3")
    fetched = kubeconfig_of("hall")
    fetched.parent.mkdir()
    fetched.touch()
    assert program.cluster_of(a_site(), None, None) == str(fetched)
    assert program.cluster_of(a_site(), "/k", None) == "/k"


def test_a_kubeconfig_that_is_not_there_is_named() -> None:
    with pytest.raises(program.ProgramError, match=r"platform: kubeconfig /nowhere/k cannot be read: No such file"):
        program.cluster_of(a_site(), "/nowhere/k", None)


@pytest.mark.parametrize(("told", "taken"), [("v1.36.9", True), ("v1.35.3", False), ("v2.36.3", False)])
def test_the_api_server_has_the_pinned_minor_version(told: str, taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "connect", lambda path: path)
    monkeypatch.setattr(program, "version", lambda connection: told)
    if taken:
        assert program.cluster_of(a_site(), "/k", None) == "/k"
    else:
        with pytest.raises(program.ProgramError, match=rf"API server is {told}, versions\.kubernetes pins 1\.36\.3"):
            program.cluster_of(a_site(), "/k", None)
