"""The provider against a real API server, through Pulumi's engine: what a provider below `pulumi_kubernetes` has to do.

A fixture runs `pulumi up` on one stack in this order, and keeps what was said and what the cluster held. Each test looks at
one part:

1. `first`: FIRST is created; `again`: the same once more.
2. `drift`: somebody changes three objects, and a preview has to find them.
3. `refused`: CHANGED is declared, with REFUSED, which the cluster or the provider has to refuse.
4. `corrected`: CORRECTED is declared, and everything goes through.
5. `end`: the stack is destroyed.

To hold another provider of the same types to it, put its `pulumi-resource-kubernetes` in place of ours
(tests/pulumi_cli.py).
"""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from infra.layers.platform import FORCE
from tests.control_plane import Cluster, cluster, control_plane
from tests.infra.provider.kubernetes.stack import Outcome, Stack

__all__ = ["cluster", "control_plane"]

pytestmark = pytest.mark.platform

OURS = {"app.kubernetes.io/managed-by": "bringup"}
SPACE = "contract"
GROUP = "contract.example"
MAPS = f"/api/v1/namespaces/{SPACE}/configmaps"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SPACE}/deployments"
GANGS = f"/apis/{GROUP}/v1/namespaces/{SPACE}/gangs"
TIER = "/apis/scheduling.k8s.io/v1/priorityclasses/contract"
NODE = "/api/v1/nodes/contract-1"
Object = dict[str, Any]


def an_object(kind: str, name: str, space: str = "", api: str = "v1", forced: bool = True, **body: Any) -> Object:
    metadata: Object = {"name": name, "labels": OURS} | ({"namespace": space} if space else {})
    if forced:
        metadata["annotations"] = dict(FORCE)
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **body}


def a_map(name: str, forced: bool = True, **data: str) -> Object:
    return an_object("ConfigMap", name, SPACE, forced=forced, data=data)


def a_node(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"rack": "r01"}}}


def a_tier(value: int) -> Object:
    return an_object("PriorityClass", "contract", api="scheduling.k8s.io/v1", value=value, globalDefault=False)


def a_definition(kind: str, plural: str) -> Object:
    size = {"type": "integer", "maximum": 8}
    spec = {"type": "object", "properties": {"size": size}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    body = {
        "group": GROUP,
        "names": {"kind": kind, "plural": plural, "singular": plural[:-1], "listKind": f"{kind}List"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    return an_object("CustomResourceDefinition", f"{plural}.{GROUP}", api="apiextensions.k8s.io/v1", spec=body)


def a_gang(name: str, size: int) -> Object:
    return an_object("Gang", name, SPACE, api=f"{GROUP}/v1", spec={"size": size})


def a_deployment(name: str, image: str) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "a", "image": image}]}}
    spec = {
        "replicas": 2,
        "progressDeadlineSeconds": 5,
        "selector": {"matchLabels": {"app": name}},
        "template": template,
    }
    return an_object("Deployment", name, SPACE, api="apps/v1", spec=spec)


STANDING = [an_object("Namespace", SPACE), a_definition("Gang", "gangs"), a_gang("a", 4)]
"""Declared from the beginning to the end."""
UNTIL_CORRECTED = [a_map("other", a="1"), a_map("polite", forced=False, colour="red"), a_node("contract-1")]
"""Declared in FIRST and CHANGED alike. `polite` takes no field that somebody else has set."""
FIRST = [
    *STANDING,
    *UNTIL_CORRECTED,
    a_map("settings", colour="red", size="1"),
    a_tier(1000),
    a_deployment("a", "lab/a:1"),
]
CHANGED = [
    *STANDING,
    *UNTIL_CORRECTED,
    a_map("settings", colour="blue"),
    a_tier(2000),
    a_deployment("a", "lab/broken:2"),
]
"""Changes in place, one that needs another object, and an image that does not start."""
REFUSED = [
    a_map("theirs", colour="ours"),
    a_gang("b", 9),
    a_node("contract-2"),
    {"apiVersion": "absent.example/v1", "kind": "Crew", "metadata": {"name": "a", "namespace": SPACE}, "spec": {}},
    a_deployment("b", "lab/broken:1"),
]
"""An object of somebody else, a size above the definition's, a node that is not there, a kind that is not, a broken image."""
CORRECTED = [
    *STANDING,
    a_map("settings", colour="blue"),
    a_map("polite", colour="red"),
    a_tier(2000),
    a_deployment("a", "lab/a:1"),
    a_deployment("b", "lab/b:1"),
]
"""CHANGED with images that start and without what was refused: `polite` now takes its field, two objects are gone."""


@dataclass
class Story:
    """What was said, and what stood in the cluster after each part."""

    steps: dict[str, dict[str, Object]] = field(default_factory=dict)
    said: dict[str, Outcome] = field(default_factory=dict)
    live: dict[tuple[str, str], Object | None] = field(default_factory=dict)

    def look(self, part: str, cluster: Cluster) -> None:
        paths = [f"{MAPS}/{name}" for name in ("settings", "other", "polite", "theirs")]
        paths += [f"{DEPLOYMENTS}/a", f"{DEPLOYMENTS}/b", TIER, NODE, f"/api/v1/namespaces/{SPACE}"]
        paths += [f"{GANGS}/a", f"{GANGS}/b"]
        for path in paths:
            self.live[part, path] = cluster.get(path)

    def at(self, part: str, path: str) -> Object:
        found = self.live[part, path]
        assert found is not None, f"{path} is not there after: {part}"
        return found


@contextlib.contextmanager
def kubelet(cluster: Cluster) -> Iterator[None]:
    """SIMULATED: reports pods of the namespace as ready, unless their image is called broken. The controllers are real."""
    ended, own = threading.Event(), Cluster(cluster.kubeconfig)

    def play() -> None:
        while not ended.wait(0.3):
            with contextlib.suppress(AssertionError):  # a pod that went between two calls
                own.play_kubelet(SPACE, lambda image: "broken" in image)

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    yield
    ended.set()
    thread.join(60)
    own.http.close()


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Story:
    told, stack = Story(), Stack(tmp_path_factory.mktemp("contract"), cluster.kubeconfig)
    registered = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "contract-1", "labels": {"of": "kubelet"}}}
    assert cluster.post("/api/v1/nodes", registered).status_code == 201

    def up(part: str) -> None:
        told.said[part] = stack.up()
        told.look(part, cluster)

    with kubelet(cluster):
        stack.declare(FIRST)
        told.steps["first"] = stack.preview()
        told.look("previewed", cluster)
        up("first")
        up("again")
        cluster.patch(
            f"{MAPS}/settings", {"data": {"colour": "green", "theirs": "kept"}, "metadata": {"labels": {"t": "b"}}}
        )
        cluster.delete(f"{MAPS}/other")
        cluster.patch(f"{GANGS}/a", {"spec": {"size": 5}})
        told.steps["drift"] = stack.preview()
        told.look("drift", cluster)
        cluster.patch(f"{MAPS}/polite", {"data": {"colour": "green"}}, manager="kim")
        theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}, "data": {"colour": "theirs"}}
        assert cluster.post(MAPS, theirs).status_code == 201
        stack.declare(CHANGED + REFUSED)
        up("refused")
        stack.declare(CORRECTED)
        told.steps["corrected"] = stack.preview()
        up("corrected")
        told.said["end"] = stack.run("destroy", "--yes", "--skip-preview")
        told.look("end", cluster)
    return told


def keys(objects: list[Object]) -> set[str]:
    return {
        "/".join(part for part in (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) if part)
        for one in objects
    }


def test_a_preview_names_what_it_will_create_and_writes_nothing(story: Story) -> None:
    assert {step["op"] for step in story.steps["first"].values()} == {"create"}
    assert keys(FIRST) <= story.steps["first"].keys()
    assert story.live["previewed", f"/api/v1/namespaces/{SPACE}"] is None


def test_everything_is_created_as_declared_a_definition_and_its_objects_in_one_run(story: Story) -> None:
    assert story.said["first"].status == 0, story.said["first"].text
    assert story.at("first", f"{MAPS}/settings")["data"] == {"colour": "red", "size": "1"}
    assert story.at("first", f"{GANGS}/a")["spec"] == {"size": 4}
    assert story.at("first", TIER)["value"] == 1000
    assert story.at("first", f"{DEPLOYMENTS}/a")["status"]["availableReplicas"] == 2, "up did not wait"


def test_a_second_run_changes_nothing(story: Story) -> None:
    assert story.said["again"].status == 0, story.said["again"].text
    assert story.said["again"].counts.keys() == {"unchanged"}
    for path in (f"{MAPS}/settings", f"{GANGS}/a", TIER, NODE):
        first, again = (story.at(part, path)["metadata"]["resourceVersion"] for part in ("first", "again"))
        assert first == again, path


def test_a_preview_finds_drift_to_the_field_and_writes_nothing(story: Story) -> None:
    steps = story.steps["drift"]
    assert {name: step["op"] for name, step in steps.items()} == {
        f"ConfigMap/{SPACE}/settings": "update",
        f"ConfigMap/{SPACE}/other": "create",
        f"Gang/{SPACE}/a": "update",
    }
    assert steps[f"ConfigMap/{SPACE}/settings"]["detailedDiff"].keys() == {"data.colour"}
    assert steps[f"Gang/{SPACE}/a"]["detailedDiff"].keys() == {"spec.size"}
    assert story.at("drift", f"{MAPS}/settings")["data"]["colour"] == "green"
    assert story.live["drift", f"{MAPS}/other"] is None


def test_drift_is_put_back_and_changes_are_made_in_place_beside_what_others_own(story: Story) -> None:
    settings = story.at("refused", f"{MAPS}/settings")
    assert settings["data"] == {"colour": "blue", "theirs": "kept"}
    assert settings["metadata"]["labels"]["t"] == "b"
    assert settings["metadata"]["uid"] == story.at("first", f"{MAPS}/settings")["metadata"]["uid"]
    assert story.at("refused", f"{MAPS}/other")["data"] == {"a": "1"}
    assert story.at("refused", f"{GANGS}/a")["spec"] == {"size": 4}


def test_what_cannot_be_changed_is_replaced(story: Story) -> None:
    before, after = story.at("first", TIER), story.at("refused", TIER)
    assert after["value"] == 2000
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert story.said["refused"].counts["replaced"] == 1


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        (f"ConfigMap/{SPACE}/polite", ['conflict with "kim"', ".data.colour"]),
        (
            f"ConfigMap/{SPACE}/theirs",
            [f"ConfigMap {SPACE}/theirs exists and is not ours", "Delete it, or give it this label"],
        ),
        (f"Gang/{SPACE}/b", ["spec.size", "less than or equal to 8"]),
        ("Node/contract-2", ["Node contract-2 is not registered: start its kubelet under this name"]),
        (f"Crew/{SPACE}/a", ["the cluster has no kind Crew in absent.example/v1: install what brings it first"]),
    ],
)
def test_what_is_refused_is_named_with_the_way_out(resource: str, words: list[str], story: Story) -> None:
    assert story.said["refused"].status != 0
    for word in words:
        assert word in story.said["refused"].of(resource), story.said["refused"].text[-6000:]


def test_what_is_refused_is_left_as_it_was(story: Story) -> None:
    assert story.at("refused", f"{MAPS}/polite")["data"] == {"colour": "green"}
    assert story.at("refused", f"{MAPS}/theirs")["data"] == {"colour": "theirs"}
    assert story.live["refused", f"{GANGS}/b"] is None


def test_a_failed_roll_out_is_named_and_rolled_back(story: Story) -> None:
    said = story.said["refused"].of(f"Deployment/{SPACE}/a")
    assert f"Deployment {SPACE}/a: not rolled out after" in said
    assert "ImagePullBackOff: no such image" in said
    assert "Rolled back: what was there before runs again" in said
    live = story.at("refused", f"{DEPLOYMENTS}/a")
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "lab/a:1"
    assert live["status"]["availableReplicas"] == 2
    assert f"Deployment/{SPACE}/a" not in story.steps["corrected"], "what was rolled back is what the state holds"


def test_a_first_roll_out_that_fails_stays_and_is_tried_again(story: Story) -> None:
    said = story.said["refused"].of(f"Deployment/{SPACE}/b")
    assert "ImagePullBackOff" in said
    assert "It stays as it is for you to look at" in said
    assert story.at("refused", f"{DEPLOYMENTS}/b")["status"].get("availableReplicas", 0) == 0
    assert story.steps["corrected"][f"Deployment/{SPACE}/b"]["op"] == "update"
    assert story.at("corrected", f"{DEPLOYMENTS}/b")["status"]["availableReplicas"] == 2


def test_what_is_no_longer_declared_is_deleted_and_nothing_else(story: Story) -> None:
    corrected = story.said["corrected"]
    assert corrected.status == 0, corrected.text
    deleted = {name for name, step in story.steps["corrected"].items() if step["op"] == "delete"}
    assert deleted == {f"ConfigMap/{SPACE}/other", "Node/contract-1"}
    assert story.live["corrected", f"{MAPS}/other"] is None
    assert story.at("corrected", f"{MAPS}/theirs")["data"] == {"colour": "theirs"}


def test_labels_of_a_node_come_and_go_and_the_node_stays(story: Story) -> None:
    assert story.at("first", NODE)["metadata"]["labels"].items() >= {"rack": "r01", "of": "kubelet"}.items()
    assert "rack" not in story.at("corrected", NODE)["metadata"]["labels"]
    assert story.at("end", NODE)["metadata"]["labels"]["of"] == "kubelet"


def test_destroy_ends_when_everything_is_gone(story: Story) -> None:
    assert story.said["end"].status == 0, story.said["end"].text
    assert story.live["end", f"/api/v1/namespaces/{SPACE}"] is None
    assert story.live["end", TIER] is None


@pytest.mark.usefixtures("story")
def test_a_definition_whose_names_another_one_has_is_refused_by_name(cluster: Cluster, tmp_path: Path) -> None:
    assert cluster.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", a_definition("Gang", "gangs")
    ).is_success
    stack = Stack(tmp_path, cluster.kubeconfig)
    stack.declare([a_definition("Gang", "crews")])  # the same kind
    done = stack.up()
    assert done.status != 0
    said = done.of(f"CustomResourceDefinition/crews.{GROUP}")
    assert f"CustomResourceDefinition crews.{GROUP}: the cluster does not serve it" in said
    assert '"Gang' in said
    assert "is already in use" in said
