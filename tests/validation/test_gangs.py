"""Gangs on a site's Kueue: what is asked, what is left, how it is judged. The cluster is a model of the test's own."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from capacity.model import Plan
from network.drivers.errors import BadAnswer
from tests.plans import plan_of
from validation import from_raw, kube
from validation.facts import gangs
from validation.facts.gangs import HALVES, ONE_BLOCK, TOO_MANY, ask, sizes
from validation.facts.kueue import workloads

GPU_NODES = [f"gpu{number:03}" for number in range(1, 5)]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab-kubernetes")


class Cluster:
    """Admits Jobs in the order of their creation while nodes are free. `whole` False: pod by pod, as without Kueue."""

    def __init__(
        self, nodes: Sequence[str], whole: bool = True, images: Sequence[str] = ("docker.io/lab/pause:1",)
    ) -> None:
        self.nodes, self.whole, self.images = list(nodes), whole, list(images)
        self.jobs: dict[str, int] = {}
        self.gpus: dict[str, int] = {}
        self.made: list[str] = []
        self.limits_s: list[int] = []

    def placed(self) -> dict[str, list[str]]:
        free, found = list(self.nodes), {}
        for name, pods in self.jobs.items():
            fits = self.gpus[name] <= 8 and (not self.whole or len(free) >= pods)
            taken = free[:pods] if fits else []
            free, found[name] = free[len(taken) :], taken
        return found

    def why(self, name: str) -> str:
        """In Kueue's words (version 0.15.0, pkg/cache/scheduler/tas_flavor_snapshot.go)."""
        fits = "doesn't allow to fit any of 1 pod(s)" if self.gpus[name] > 8 else "allows to fit only 1 out of 3 pod(s)"
        return f'topology "gpus" {fits}'

    def __call__(self, calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{"status": 200, "error": "", **self.answer(one)} for one in calls]

    def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
        verb, path = call["verb"], call["path"]
        if path.startswith("/api/v1/nodes/"):
            return {"body": {"status.images": [{"names": self.images}]}}
        if verb == "POST":
            name = call["body"]["metadata"]["name"]
            self.jobs[name] = call["body"]["spec"]["completions"]
            (container,) = call["body"]["spec"]["template"]["spec"]["containers"]
            self.gpus[name] = int(container["resources"]["limits"]["nvidia.com/gpu"])
            self.made.append(name)
            self.limits_s.append(call["body"]["spec"]["activeDeadlineSeconds"])
            return {"status": 201, "body": {}}
        if verb == "DELETE":
            return {"status": 200 if self.jobs.pop(path.rpartition("/")[2], None) else 404, "body": {}}
        if path == workloads(path.split("/")[-2]):
            waits = [name for name, nodes in self.placed().items() if not nodes]
            return {"body": {"items": [workload(name, self.why(name)) for name in waits]}}
        (name,) = re.findall(r"job-name%3D(\S+)", path)
        return {"body": {"items": [pod(node) for node in self.placed().get(name, ())]}}


def pod(node: str) -> dict[str, Any]:
    return {"metadata.labels": {}, "metadata.deletionTimestamp": None, "spec.nodeName": node, "status.phase": "Running"}


def workload(name: str, why: str) -> dict[str, Any]:
    waits = {"type": "QuotaReserved", "status": "False", "message": why}
    return {"metadata.ownerReferences": [{"name": name}], "status.conditions": [waits]}


def said_by(cluster: Cluster, plan: Plan) -> dict[str, Any]:
    said = ask(plan, cluster, sleep=lambda seconds: None)
    assert cluster.jobs == {}, "nothing is left"
    assert cluster.made == [*HALVES, ONE_BLOCK, TOO_MANY]
    return said


def test_gangs_that_start_whole_one_after_the_other_pass(plan: Plan) -> None:
    said = said_by(Cluster(GPU_NODES), plan)
    assert sizes(plan) == (3, 3)
    assert kube.gangs(said, plan) == ({"pods": 3, "beside": 0, "after": 3}, [])
    assert kube.one_block(said, plan) == ({"pods": 3, "blocks": 1, "of_blocks": 1}, [])


def test_a_pod_that_asks_for_more_gpus_than_a_node_has_waits(plan: Plan) -> None:
    said = said_by(Cluster(GPU_NODES), plan)["too_many"]
    assert said == {"gpus": 9, "pods": 0, "why": 'topology "gpus" doesn\'t allow to fit any of 1 pod(s)'}


def test_jobs_that_nobody_deletes_end_by_themselves_after_the_longest_trial(plan: Plan) -> None:
    cluster = Cluster(GPU_NODES)
    said_by(cluster, plan)
    assert min(cluster.limits_s) > 2 * gangs.START_S + gangs.HOLD_S
    assert max(cluster.limits_s) < 3600


def test_a_cluster_that_starts_pods_one_by_one_is_found(plan: Plan) -> None:
    value, problems = kube.gangs(said_by(Cluster(GPU_NODES, whole=False), plan), plan)
    assert value["beside"] == 1
    assert problems == ["1 pods of the second gang were there beside the first: not all or nothing"]


def test_a_cluster_in_use_is_no_evidence_and_says_so(plan: Plan) -> None:
    said = said_by(Cluster(GPU_NODES[:2]), plan)
    (problem,) = kube.gangs(said, plan)[1]
    assert (
        'neither of two gangs of 3 pods ran whole within 120 s, at most 0 pods did: topology "gpus" allows' in problem
    )
    assert problem.endswith("(ask again when half of the GPUs are idle)")
    assert '0 of 3 pods ran within 120 s: topology "gpus" allows' in kube.one_block(said, plan)[1][0]


def test_a_gang_in_two_blocks_is_found() -> None:
    plan = plan_of("h100-1000-ib")
    assert sizes(plan)[1] == 17
    nodes = [f"gpu{number:04}" for number in range(17, 34)]  # unit001 ends with gpu0032
    _, problems = kube.one_block({"block": {"nodes": nodes, "why": ""}}, plan)
    assert problems == ["they ran in blocks unit001, unit002"]


def test_a_node_without_the_pause_image_is_named_and_nothing_is_made(plan: Plan) -> None:
    cluster = Cluster(GPU_NODES, images=["docker.io/lab/busybox:1"])
    with pytest.raises(BadAnswer, match="read images of gpu001: expected the image of pod sandboxes"):
        ask(plan, cluster, sleep=lambda seconds: None)
    assert cluster.made == []


def test_jobs_are_deleted_when_the_api_server_is_lost_on_the_way(plan: Plan) -> None:
    cluster = Cluster(GPU_NODES)
    lost: list[str] = []

    def call(calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        if len(cluster.made) == 2 and not lost:
            lost.append("once")
            return [{"status": 0, "body": None, "error": "the connection was lost"} for _ in calls]
        return cluster(calls)

    with pytest.raises(BadAnswer, match="the connection was lost"):
        ask(plan, call, sleep=lambda seconds: None)
    assert cluster.jobs == {}


@pytest.mark.parametrize(("item", "part"), [("P-01.measured", "halves"), ("P-02.measured", "block")])
def test_the_gate_computes_the_value_again(item: str, part: str, plan: Plan) -> None:
    said = said_by(Cluster(GPU_NODES), plan)
    again = from_raw.computed(item, "", plan, kube.raw_of(said, part))
    assert isinstance(again, from_raw.Again)
    judge = {"halves": kube.gangs, "block": kube.one_block}[part]
    assert (again.value, list(again.problems)) == judge(said, plan)
