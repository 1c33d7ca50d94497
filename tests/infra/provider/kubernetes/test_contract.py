"""The provider against a real API server, through Pulumi's engine: what a provider below `pulumi_kubernetes` has to do.

Another provider of the same types can be held to it: put its `pulumi-resource-kubernetes` in place of ours (stack.py).
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.layers.platform import FORCE
from tests.control_plane import Cluster, cluster, control_plane, wait_for
from tests.infra.provider.kubernetes.stack import Stack

__all__ = ["cluster", "control_plane"]

pytestmark = pytest.mark.platform

OURS = {"app.kubernetes.io/managed-by": "bringup"}


@pytest.fixture
def stack(tmp_path: Path, cluster: Cluster) -> Iterator[Stack]:
    made = Stack(tmp_path, cluster.kubeconfig)
    yield made
    made.run("destroy", "--yes", "--skip-preview")


@pytest.fixture
def space(request: pytest.FixtureRequest) -> str:
    """A namespace of the test's own."""
    return request.node.name.removeprefix("test_").replace("_", "-")[:50].rstrip("-")


def an_object(kind: str, name: str, space: str = "", api: str = "v1", **body: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": OURS, "annotations": dict(FORCE)} | ({"namespace": space} if space else {})
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **body}


def a_map(space: str, **data: str) -> dict[str, Any]:
    return an_object("ConfigMap", "settings", space, data=data)


def test_created_as_declared_and_a_second_run_changes_nothing(stack: Stack, cluster: Cluster, space: str) -> None:
    stack.declare([an_object("Namespace", space), a_map(space, colour="red", size="1")])
    foreseen = stack.preview()
    assert {step["op"] for step in foreseen.values()} == {"create"}
    assert {f"Namespace/{space}", f"ConfigMap/{space}/settings"} <= foreseen.keys()
    assert cluster.get(f"/api/v1/namespaces/{space}") is None, "a preview wrote"
    first = stack.up()
    assert first.status == 0, first.text
    live = cluster.get(f"/api/v1/namespaces/{space}/configmaps/settings")
    assert live is not None
    assert live["data"] == {"colour": "red", "size": "1"}
    assert stack.preview() == {}
    second = stack.up()
    assert second.status == 0, second.text
    assert second.counts.keys() == {"unchanged"}
    again = cluster.get(f"/api/v1/namespaces/{space}/configmaps/settings")
    assert again is not None
    assert again["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]


def test_a_change_is_made_in_place_and_leaves_what_others_own(stack: Stack, cluster: Cluster, space: str) -> None:
    stack.declare([an_object("Namespace", space), a_map(space, colour="red", size="1")])
    assert stack.up().status == 0
    path = f"/api/v1/namespaces/{space}/configmaps/settings"
    before = cluster.patch(path, {"data": {"theirs": "kept"}, "metadata": {"labels": {"team": "b"}}})
    stack.declare([an_object("Namespace", space), a_map(space, colour="blue")])
    step = stack.preview()[f"ConfigMap/{space}/settings"]
    assert step["op"] == "update"
    assert {"data.colour", "data.size"} == set(step["detailedDiff"])
    done = stack.up()
    assert done.counts["updated"] == 1, done.text
    live = cluster.get(path)
    assert live is not None
    assert live["data"] == {"colour": "blue", "theirs": "kept"}
    assert live["metadata"]["labels"]["team"] == "b"
    assert live["metadata"]["uid"] == before["metadata"]["uid"]


def test_drift_is_found_by_preview_and_put_back_by_up(stack: Stack, cluster: Cluster, space: str) -> None:
    objects = [an_object("Namespace", space), a_map(space, colour="red"), an_object("ConfigMap", "other", space)]
    stack.declare(objects)
    assert stack.up().status == 0
    path = f"/api/v1/namespaces/{space}/configmaps"
    cluster.patch(f"{path}/settings", {"data": {"colour": "green"}})
    cluster.delete(f"{path}/other")
    steps = stack.preview()
    assert steps[f"ConfigMap/{space}/settings"]["detailedDiff"].keys() == {"data.colour"}
    assert {name: step["op"] for name, step in steps.items()} == {
        f"ConfigMap/{space}/settings": "update",
        f"ConfigMap/{space}/other": "create",
    }
    live = cluster.get(f"{path}/settings")
    assert live is not None
    assert live["data"] == {"colour": "green"}, "a preview wrote"
    done = stack.up()
    assert (done.status, done.counts["updated"], done.counts["created"]) == (0, 1, 1), done.text
    live = cluster.get(f"{path}/settings")
    assert live is not None
    assert live["data"] == {"colour": "red"}
    assert cluster.get(f"{path}/other") is not None


def test_without_force_a_field_of_somebody_else_is_a_conflict_by_name(
    stack: Stack, cluster: Cluster, space: str
) -> None:
    polite = a_map(space, colour="red")
    del polite["metadata"]["annotations"]
    stack.declare([an_object("Namespace", space), polite])
    assert stack.up().status == 0
    cluster.patch(f"/api/v1/namespaces/{space}/configmaps/settings", {"data": {"colour": "green"}}, manager="kim")
    done = stack.up()
    assert done.status != 0
    assert 'conflict with "kim"' in done.text
    assert ".data.colour" in done.text


def test_what_cannot_be_changed_is_replaced(stack: Stack, cluster: Cluster, space: str) -> None:
    tier = an_object(
        "PriorityClass", space, api="scheduling.k8s.io/v1", value=1000, globalDefault=False, description="a"
    )
    stack.declare([tier])
    assert stack.up().status == 0
    path = f"/apis/scheduling.k8s.io/v1/priorityclasses/{space}"
    before = cluster.get(path)
    stack.declare([tier | {"value": 2000}])
    assert stack.preview()[f"PriorityClass/{space}"]["op"] in ("replace", "delete-replaced", "create-replacement")
    done = stack.up()
    assert (done.status, done.counts["replaced"]) == (0, 1), done.text
    live = cluster.get(path)
    assert live is not None
    assert before is not None
    assert live["value"] == 2000
    assert live["metadata"]["uid"] != before["metadata"]["uid"]


def test_what_is_no_longer_declared_is_deleted_and_nothing_else(stack: Stack, cluster: Cluster, space: str) -> None:
    stack.declare([an_object("Namespace", space), a_map(space, colour="red"), an_object("ConfigMap", "other", space)])
    assert stack.up().status == 0
    stack.declare([an_object("Namespace", space), a_map(space, colour="red")])
    assert stack.preview()[f"ConfigMap/{space}/other"]["op"] == "delete"
    done = stack.up()
    assert (done.status, done.counts["deleted"]) == (0, 1), done.text
    assert cluster.get(f"/api/v1/namespaces/{space}/configmaps/other") is None
    assert cluster.get(f"/api/v1/namespaces/{space}/configmaps/settings") is not None
    gone = stack.run("destroy", "--yes", "--skip-preview")
    assert gone.status == 0, gone.text
    assert cluster.get(f"/api/v1/namespaces/{space}") is None, "destroy ended before the namespace was gone"


def test_what_is_there_already_and_not_ours_is_refused_by_name(stack: Stack, cluster: Cluster, space: str) -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": space}, "data": {"colour": "theirs"}}
    assert cluster.post("/api/v1/namespaces/default/configmaps", theirs).status_code == 201
    stack.declare([an_object("ConfigMap", space, "default", data={"colour": "ours"})])
    done = stack.up()
    assert done.status != 0
    assert f"ConfigMap default/{space} exists and is not ours" in done.text
    live = cluster.get(f"/api/v1/namespaces/default/configmaps/{space}")
    assert live is not None
    assert live["data"] == {"colour": "theirs"}


def a_definition(group: str, kind: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 8}}},
        },
    }
    names = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower(), "listKind": f"{kind}List"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    spec = {"group": group, "names": names, "scope": "Namespaced", "versions": versions}
    return an_object("CustomResourceDefinition", f"{names['plural']}.{group}", api="apiextensions.k8s.io/v1", spec=spec)


def test_a_definition_and_its_objects_come_in_one_run(stack: Stack, cluster: Cluster, space: str) -> None:
    group = "contract.example"
    one = an_object("Gang", "a", space, api=f"{group}/v1", spec={"size": 4})
    stack.declare([a_definition(group, "Gang"), an_object("Namespace", space), one])
    done = stack.up()
    assert done.status == 0, done.text
    path = f"/apis/{group}/v1/namespaces/{space}/gangs/a"
    live = cluster.get(path)
    assert live is not None
    assert live["spec"] == {"size": 4}
    assert stack.up().counts.keys() == {"unchanged"}
    cluster.patch(path, {"spec": {"size": 5}})
    assert stack.preview()[f"Gang/{space}/a"]["detailedDiff"].keys() == {"spec.size"}
    stack.declare([a_definition(group, "Gang"), an_object("Namespace", space), one | {"spec": {"size": 9}}])
    done = stack.up()
    assert done.status != 0
    assert "spec.size" in done.text
    assert "less than or equal to 8" in done.text


def test_a_definition_whose_names_another_one_has_is_refused_by_name(stack: Stack, cluster: Cluster) -> None:
    stack.declare([a_definition("names.example", "Gang")])
    assert stack.up().status == 0
    second = a_definition("names.example", "Gang")
    second["metadata"]["name"] = "crews.names.example"
    second["spec"]["names"] |= {"plural": "crews", "singular": "crew"}  # the same kind
    stack.declare([a_definition("names.example", "Gang"), second])
    done = stack.up()
    assert done.status != 0
    assert "crews.names.example" in done.text
    assert "is already in use" in done.text


def test_a_kind_that_the_cluster_does_not_serve_is_named(stack: Stack, space: str) -> None:
    stack.declare([an_object("Namespace", space), an_object("Crew", "a", space, api="absent.example/v1", spec={})])
    done = stack.up()
    assert done.status != 0
    assert "the cluster has no kind Crew in absent.example/v1: install what brings it first" in done.text


def test_labels_go_to_a_node_that_is_registered_and_come_off_again(stack: Stack, cluster: Cluster, space: str) -> None:
    patch = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": space, "labels": {"rack": "r01"}}}
    stack.declare([patch])
    done = stack.up()
    assert done.status != 0
    assert f"Node {space} is not registered: start its kubelet" in done.text
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": space, "labels": {"of": "kubelet"}}}
    assert cluster.post("/api/v1/nodes", node).status_code == 201
    assert stack.up().status == 0
    live = cluster.get(f"/api/v1/nodes/{space}")
    assert live is not None
    assert live["metadata"]["labels"].items() >= {"rack": "r01", "of": "kubelet"}.items()
    stack.declare([])
    assert stack.up().status == 0
    live = cluster.get(f"/api/v1/nodes/{space}")
    assert live is not None, "the node is the cluster's"
    assert "rack" not in live["metadata"]["labels"]


def test_a_secret_is_refused_since_it_would_stand_in_the_state(stack: Stack, space: str) -> None:
    stack.declare([an_object("Namespace", space), an_object("Secret", "s", space, stringData={"word": "hush"})])
    done = stack.up()
    assert done.status != 0
    assert "this provider keeps no Secrets" in done.text


# --- Roll-outs: the controllers are real; that a container started is reported by the test in place of a kubelet. ---


def a_deployment(space: str, image: str) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": image}]}}
    spec = {
        "replicas": 2,
        "progressDeadlineSeconds": 4,
        "selector": {"matchLabels": {"app": "a"}},
        "template": template,
    }
    return an_object("Deployment", "a", space, api="apps/v1", spec=spec)


@pytest.fixture
def kubelet(cluster: Cluster, space: str) -> Iterator[None]:
    """SIMULATED: reports pods of the test's namespace as ready, unless their image is called broken."""
    ended = threading.Event()

    def play() -> None:
        own = Cluster(cluster.kubeconfig)
        while not ended.wait(0.3):
            own.play_kubelet(space, lambda image: "broken" in image)

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    yield
    ended.set()
    thread.join(30)


@pytest.mark.usefixtures("kubelet")
def test_a_failed_roll_out_is_named_and_rolled_back(stack: Stack, cluster: Cluster, space: str) -> None:
    path = f"/apis/apps/v1/namespaces/{space}/deployments/a"
    stack.declare([an_object("Namespace", space), a_deployment(space, "lab/a:1")])
    done = stack.up()
    assert done.status == 0, done.text
    stack.declare([an_object("Namespace", space), a_deployment(space, "lab/broken:2")])
    done = stack.up()
    assert done.status != 0
    assert f"Deployment {space}/a: not rolled out after" in done.text
    assert "ImagePullBackOff: no such image" in done.text
    assert "Rolled back: what was there before runs again" in done.text
    live = cluster.get(path)
    assert live is not None
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "lab/a:1"
    assert wait_for(lambda: (cluster.get(path) or {})["status"].get("availableReplicas") == 2)
    assert stack.preview()[f"Deployment/{space}/a"]["op"] == "update", "the broken revision is still declared"
    stack.declare([an_object("Namespace", space), a_deployment(space, "lab/a:1")])
    assert stack.up().counts.keys() == {"unchanged"}


@pytest.mark.usefixtures("kubelet")
def test_a_first_roll_out_that_fails_stays_and_is_tried_again(stack: Stack, cluster: Cluster, space: str) -> None:
    stack.declare([an_object("Namespace", space), a_deployment(space, "lab/broken:1")])
    done = stack.up()
    assert done.status != 0
    assert "ImagePullBackOff" in done.text
    assert "It stays as it is for you to look at" in done.text
    assert cluster.get(f"/apis/apps/v1/namespaces/{space}/deployments/a") is not None
    again = stack.up()
    assert again.status != 0, "a second run must not call it unchanged"
    stack.declare([an_object("Namespace", space), a_deployment(space, "lab/a:2")])
    done = stack.up()
    assert done.status == 0, done.text
