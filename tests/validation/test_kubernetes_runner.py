"""The Kubernetes runner against an API server in memory: how loads end, budgets, garbage, refusals, and nodes out of service.

The forms of objects are those of the API's reference (https://kubernetes.io/docs/reference/kubernetes-api/) and of JobSet 0.11.0
(api/jobset/v1alpha2). Written by hand; what a real API server takes is in tests/infra/test_loads_on_control_plane.py.
"""

import contextlib
import copy
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity.services.platform.topology import OUT_OF_SERVICE
from network.drivers.errors import BadAnswer, DeviceError, DeviceTimeout
from network.drivers.ssh import Completed, SshHost
from tests.plans import plan_of
from validation.check import check_of
from validation.facts.api_calls import kept
from validation.program import check_files, checks_of_items
from validation.register import of_platform
from validation.runners import burn_in, engine, jobset, kubernetes, slurm
from validation.runners.engine import Launch, Load, Workload
from validation.runners.engines import engine_of
from validation.runners.jobset import COUNT, INDEX, JOB
from validation.runners.kubernetes import Kubernetes

pytestmark = pytest.mark.clock

ADDRESSES = {f"gpu00{n}": f"10.0.0.{n}" for n in (1, 2, 3, 4)}
LOG = b"rank 0: done\n"


class Api:
    """An API server with four nodes. `pods` makes the pods of a JobSet and its status; by default nothing happens."""

    def __init__(self) -> None:
        self.nodes = {name: node(name) for name in ADDRESSES}
        self.objects: dict[str, dict[str, Any]] = {}
        self.pods: Callable[[dict[str, Any]], list[dict[str, Any]]] = lambda made: []
        self.before: Callable[[Mapping[str, Any]], dict[str, Any] | None] = lambda call: None
        self.calls: list[Mapping[str, Any]] = []

    def __call__(self, calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        self.calls += calls
        return [{"error": "", **(self.before(one) or self.answer(one))} for one in json.loads(json.dumps(list(calls)))]

    def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
        url = urlsplit(call["path"])
        path = url.path.split("/")
        plural, name = path[-2], path[-1]
        status: int = 200
        body: Any = None
        if call["verb"] == "POST":
            status, body = 201, call["body"]
            if body["kind"] == "Service":
                body["spec"]["clusterIP"] = "10.96.7.7"
            self.objects[f"{url.path}/{body['metadata']['name']}"] = body
        elif call["verb"] == "DELETE" and "labelSelector" in url.query:
            self.objects = {key: one for key, one in self.objects.items() if not selected(one, url.query)}
            body = {}
        elif call["verb"] == "DELETE":
            status, body = (200, {}) if self.objects.pop(url.path, None) else (404, {"message": "not found"})
        elif call["verb"] == "PATCH":
            status, body = self.patch(self.nodes[name], call["body"])
        elif call.get("text"):
            body = LOG.decode()
        elif plural == "nodes":
            body = self.nodes[name]
        elif name == "nodes":
            body = {"items": list(self.nodes.values())}
        elif name == "jobsets":
            body = {"items": [self.stands(one) for one in self.sets() if selected(one, url.query)]}
        elif name == "pods":
            found = [pod for one in self.sets() if selected(one, url.query) for pod in self.pods(one)]
            body = {"items": found}
        if status < 300 and "fields" in call:
            body = {"items": [kept(one, call["fields"]) for one in body["items"]]}
        elif status < 300 and "only" in call:
            body = kept(body, call["only"])
        return {"status": status, "body": body}

    def sets(self) -> list[dict[str, Any]]:
        return [one for one in self.objects.values() if one["kind"] == "JobSet"]

    def stands(self, made: dict[str, Any]) -> dict[str, Any]:
        """A JobSet as its controller leaves it: over when all of its pods are."""
        found = self.pods(made)
        phases = [one["status"]["phase"] for one in found]
        attempts = [int(one["metadata"]["labels"][jobset.ATTEMPT]) for one in found]
        status: dict[str, Any] = {"restarts": max(attempts, default=0)}
        if phases and all(one == "Succeeded" for one in phases):
            status["terminalState"] = "Completed"
        elif "Failed" in phases:
            said = {"type": "Failed", "status": "True", "message": "jobset failed due to one or more job failures"}
            status |= {"terminalState": "Failed", "conditions": [said]}
        return {**made, "status": status}

    def patch(self, one: dict[str, Any], body: Mapping[str, Any]) -> tuple[int, Any]:
        """A merge patch (RFC 7386) of a node, as the API server makes it."""
        if body["metadata"]["resourceVersion"] != one["metadata"]["resourceVersion"]:
            return 409, {"message": "the object has been modified"}
        merge(one, body)
        one["metadata"]["resourceVersion"] += "1"
        return 200, one


def merge(one: dict[str, Any], patch: Mapping[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            one.pop(key, None)
        elif isinstance(value, dict):
            merge(one.setdefault(key, {}), value)
        else:
            one[key] = value


def selected(one: Mapping[str, Any], query: str) -> bool:
    labels, text = one["metadata"]["labels"], unquote(parse_qs(query)["labelSelector"][0])
    if found := re.fullmatch(r"(\S+) in \((.*)\)", text):
        return labels.get(found[1]) in found[2].split(",")
    key, _, value = text.partition("=")
    return key in labels and (not value or labels[key] == value)


def node(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "resourceVersion": "1", "annotations": {}},
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": ["docker.io/lab/busybox:1"]}, {"names": ["docker.io/lab/pause:1"]}],
        },
    }


def pods(phase: str, attempt: int = 0, **more: Any) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    """Pods on the first nodes, all in one phase; `more` goes into the status of the last."""

    def made(one: dict[str, Any]) -> list[dict[str, Any]]:
        found = [pod(one, index, phase, attempt) for index in range(int(one["metadata"]["labels"][COUNT]))]
        found[-1]["status"] |= more
        return found

    return made


def pod(of: Mapping[str, Any], index: int, phase: str, attempt: int = 0) -> dict[str, Any]:
    times = {
        "startedAt": "2026-11-29T07:00:00Z",
        "finishedAt": "2026-11-29T07:01:30Z",
        "exitCode": int(phase == "Failed"),
    }
    state = {"running": {"startedAt": times["startedAt"]}} if phase == "Running" else {"terminated": times}
    labels = {JOB: of["metadata"]["labels"][JOB], INDEX: str(index), jobset.ATTEMPT: str(attempt)}
    return {
        "metadata": {"name": f"{of['metadata']['name']}-ranks-0-{index}-x", "labels": labels},
        "spec": {"nodeName": f"gpu00{index + 1}"},
        "status": {
            "phase": phase,
            "conditions": [],
            "containerStatuses": [{"state": state if phase != "Pending" else {}}],
        },
    }


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "POLL_S", 0.0)


@pytest.fixture
def api() -> Api:
    return Api()


def runner(call: Any, hosts: Mapping[str, Any] | None = None) -> Kubernetes:
    controller = SshHost("ctl01", "10.0.0.9", cast(Any, None))
    return Kubernetes(call, controller, cast(Any, hosts or {}), ADDRESSES, "experimentation")


def load(nodes: int = 2, **more: Any) -> Load:
    return Load("bringup-x", nodes, Workload("cpu", 1), "/shared/x.py", (Launch(("--a",)),), limit_min=1, **more)


# ---- how a load ends ---------------------------------------------------------------------------------------------------
def test_a_load_is_waited_for_its_log_fetched_and_its_objects_deleted(api: Api) -> None:
    turns = iter([pods("Pending"), pods("Running"), pods("Succeeded")])
    scheduler = runner(api)
    number = scheduler.begin(load())

    def next_turn(call: Mapping[str, Any]) -> None:
        if call["verb"] == "GET" and "/jobsets?" in call["path"]:
            api.pods = next(turns, api.pods)

    api.before = next_turn
    job = scheduler.wait(number, budget_s=10)
    assert (job.job_id, job.state, job.ok, job.output, job.nodes) == (number, "COMPLETED", True, LOG, "gpu001,gpu002")
    assert scheduler.names(job.nodes) == ["gpu001", "gpu002"]
    assert api.objects == {}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, "FAILED"),
        ({"reason": "DeadlineExceeded", "message": "Pod was active on the node longer than specified"}, "TIMEOUT"),
        (
            {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]},
            "NODE_FAIL",
        ),
        (
            {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]},
            "PREEMPTED",
        ),
        ({"containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]}, "OUT_OF_MEMORY"),
    ],
)
def test_a_load_that_ends_otherwise_is_a_result_with_slurms_name_for_it(api: Api, status: Any, state: str) -> None:
    scheduler = runner(api)
    number = scheduler.begin(load())
    api.pods = pods("Failed", **status)
    job = scheduler.wait(number, budget_s=10)
    assert (job.state, job.ok) == (state, False)
    assert state in engine.FINAL
    assert "jobset failed due to one or more job failures" in job.reason
    assert api.objects == {}


def test_what_keeps_a_pod_is_the_reason_of_a_load_that_outlives_its_budget(api: Api) -> None:
    scheduler = runner(api)
    number = scheduler.begin(load(4))
    unplaced = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/4 nodes are available",
    }
    api.pods = pods("Pending", conditions=[unplaced])
    job = scheduler.wait(number, budget_s=0.0)
    assert job.state == "BUDGET"
    assert "Unschedulable: 0/4 nodes are available" in job.reason
    assert api.objects == {}


def test_a_load_runs_only_when_all_of_its_pods_do(api: Api) -> None:
    scheduler = runner(api)
    number = scheduler.begin(load(2))
    api.pods = lambda made: [pod(made, 0, "Running")]
    assert scheduler.look(number).state == "PENDING"
    api.pods = pods("Running")
    assert scheduler.look(number).state == "RUNNING"


def lost(call: Mapping[str, Any]) -> None:
    raise DeviceTimeout("ctl01", "ask the API server", "an end within 80 s", "none", "look at the controller")


REFUSED = {"status": 0, "body": None, "error": "Connection refused"}


@pytest.mark.parametrize("away", [lost, lambda call: REFUSED, lambda call: {"status": 500, "body": None}])
def test_an_api_server_that_is_away_for_a_while_is_asked_again(api: Api, away: Any) -> None:
    scheduler = runner(api)
    number = scheduler.begin(load())
    api.pods, turns = pods("Succeeded"), iter([away, away])
    api.before = lambda call: next(turns, lambda call: None)(call)
    assert scheduler.wait(number, budget_s=10).ok


def test_one_that_stays_away_ends_with_the_budget_and_is_named(api: Api) -> None:
    scheduler = runner(api)
    number = scheduler.begin(load())
    api.before = lost
    job = scheduler.wait(number, budget_s=0.01)
    assert job.state == "BUDGET"
    assert job.reason.startswith("ctl01: ask the API server: ")


def test_a_wait_that_is_broken_off_deletes_the_load(api: Api) -> None:
    scheduler = runner(api)
    number = scheduler.begin(load())

    def interrupt(call: Mapping[str, Any]) -> None:
        if call["verb"] == "GET":
            raise KeyboardInterrupt

    api.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        scheduler.wait(number, budget_s=10)
    assert api.objects == {}


def test_the_end_of_a_run_deletes_what_is_left_and_ends_waits(api: Api) -> None:
    scheduler, other = runner(api), runner(api)
    number, kept_one = scheduler.begin(load()), other.begin(load())
    for one in (scheduler, other):
        job = {"kind": "Job", "metadata": {"name": one.run, "labels": {jobset.RUN: one.run}}}
        one.ask({"verb": "POST", "path": kubernetes.JOBS, "body": job, "only": ("kind",)})
    scheduler.close()
    assert [path for path in api.objects if path.startswith(kubernetes.JOBS)] == [f"{kubernetes.JOBS}/{other.run}"]
    assert {one["metadata"]["labels"][JOB] for one in api.sets()} == {str(kept_one)}
    with pytest.raises(BadAnswer, match="the run was ended"):
        scheduler.wait(number, budget_s=10)
    with pytest.raises(BadAnswer, match="the run was ended"):
        scheduler.begin(load())


def test_a_run_that_began_nothing_asks_nobody_at_its_end(api: Api) -> None:
    runner(api).close()
    assert api.calls == []


# ---- beginning ---------------------------------------------------------------------------------------------------------
def test_nodes_that_take_no_pods_are_no_candidates(api: Api) -> None:
    api.nodes["gpu001"]["spec"] = {"unschedulable": True}
    api.nodes["gpu002"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    scheduler = runner(api)
    scheduler.begin(load(2))
    (made,) = api.sets()
    order = json.loads(
        made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["command"][3]
    )
    assert (order["nodes"], order["master"]) == (["gpu003", "gpu004"], "10.0.0.3")
    with pytest.raises(BadAnswer, match="3 nodes ready, saw 2: gpu003, gpu004"):
        scheduler.begin(load(3))


def test_a_load_with_a_spare_node_meets_at_a_service_that_goes_with_it(api: Api) -> None:
    scheduler = runner(api)
    number = scheduler.begin(load(2))
    (made,) = api.sets()
    text = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["command"][3]
    assert json.loads(text)["master"] == "10.96.7.7"
    assert [one["kind"] for one in api.objects.values()] == ["Service", "JobSet"]
    scheduler.cancel(number)
    assert api.objects == {}


def test_a_refused_load_says_why_and_leaves_nothing(api: Api) -> None:
    def refuse(call: Mapping[str, Any]) -> dict[str, Any] | None:
        if call["verb"] == "POST" and "/jobsets" in call["path"]:
            return {"status": 404, "body": {"message": "the server could not find the requested resource"}}
        return None

    api.before = refuse
    with pytest.raises(BadAnswer, match="the server could not find the requested resource"):
        runner(api).begin(load(2))
    assert api.objects == {}


def test_where_one_of_many_is_refused_the_others_are_deleted(api: Api) -> None:
    seen = iter([None, {"status": 403, "body": {"message": "forbidden by a webhook"}}])
    api.before = lambda call: next(seen, None) if call["verb"] == "POST" else None
    with pytest.raises(BadAnswer, match="forbidden by a webhook"):
        runner(api).begin_on_each(load(1), ["gpu001", "gpu002", "gpu003"])
    assert api.objects == {}


def webhook_down(api: Api, times: int) -> None:
    """The second JobSet that is made meets a webhook that does not answer, so many times; one that is there is refused."""
    said = 'Internal error occurred: failed calling webhook "mjobset.kb.io": context deadline exceeded'
    left = iter([None, *[{"status": 500, "body": {"message": said}}] * times])

    def before(call: Mapping[str, Any]) -> dict[str, Any] | None:
        if call["verb"] != "POST" or "/jobsets" not in call["path"]:
            return None
        if f"{call['path'].partition('?')[0]}/{call['body']['metadata']['name']}" in api.objects:
            return {"status": 409, "body": {"message": "already exists"}}
        return next(left, None)

    api.before = before


def test_a_webhook_that_does_not_answer_is_asked_again_and_each_load_is_made_once(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook_down(api, times=2)
    made = runner(api)
    monkeypatch.setattr(made, "nap", lambda seconds: None)
    begun = made.begin_on_each(load(1), ["gpu001", "gpu002"])
    assert len(begun) == len(api.sets()) == 2


def test_one_that_stays_away_is_named_and_leaves_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    webhook_down(api, times=9)
    monkeypatch.setattr("validation.runners.kubernetes.WEBHOOK_S", 0.0)
    with pytest.raises(BadAnswer, match=r"mjobset\.kb\.io.*context deadline exceeded"):
        runner(api).begin_on_each(load(1), ["gpu001", "gpu002"])
    assert api.objects == {}


def test_a_node_without_the_image_of_sandboxes_is_named(api: Api) -> None:
    api.nodes["gpu001"]["status"]["images"] = []
    with pytest.raises(BadAnswer, match="the image of pod sandboxes"):
        runner(api).begin(load(4))


# ---- reading -----------------------------------------------------------------------------------------------------------
def test_how_long_a_load_ran_is_what_its_containers_say(api: Api) -> None:
    scheduler = runner(api)
    number = scheduler.begin(load())
    api.pods = pods("Succeeded")
    assert scheduler.standing([number])[number] == engine.Standing("COMPLETED", "", 90.0)
    assert scheduler.standing([number, 1]).keys() == {number}
    assert scheduler.standing([]) == {}


def test_after_a_restart_only_the_pods_of_the_new_attempt_count(api: Api) -> None:
    scheduler = runner(api)
    number = scheduler.begin(load(2, again=True))
    before, after = pods("Running", 0), pods("Running", 1)
    api.pods = lambda made: [*before(made), *after(made)[:1]]
    seen = scheduler.look(number, "gpu002")
    assert (seen.state, seen.restarts, seen.first, seen.node) == ("PENDING", 1, "gpu001", "IDLE")
    api.pods = after
    assert scheduler.look(number).state == "RUNNING"


KEYS = st.sampled_from(["items", "status", "metadata.name", "metadata.labels", "spec.taints", JOB])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.sampled_from([200, 201, 404, None, "200"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_garbage_is_an_error_of_the_controller_and_never_another(body: Any, status: Any) -> None:
    scheduler = runner(lambda calls: [{"status": status, "body": body, "error": ""} for _ in calls])
    for ask in (
        scheduler.nodes,
        lambda: scheduler.standing([7]),
        lambda: scheduler.look(7, "gpu001"),
        lambda: scheduler.drain("gpu001"),
        lambda: scheduler.begin(load(1)),
        lambda: scheduler.resume("gpu001"),
    ):
        with contextlib.suppress(DeviceError):
            ask()


@pytest.mark.parametrize("answer", [7, None, "x", []])
def test_an_answer_that_is_none_is_an_error_of_the_controller(answer: Any) -> None:
    with pytest.raises(BadAnswer):
        runner(lambda calls: [answer for _ in calls]).nodes()


# ---- nodes out of service ----------------------------------------------------------------------------------------------
WHY = "bringup: S026.measured: 7 of 8 GPUs are there"
FOREIGN = [{"key": "example.com/mine", "effect": effect} for effect in ("NoSchedule", "NoExecute")]


def test_a_node_that_is_taken_out_of_service_says_why_and_since_when_and_comes_back(api: Api) -> None:
    scheduler = runner(api)
    api.nodes["gpu001"]["spec"] = {"taints": FOREIGN}
    before = copy.deepcopy(api.nodes["gpu001"]["spec"])
    assert not scheduler.drain("gpu001").drained
    scheduler.drain_again("gpu001", WHY)
    drain = scheduler.drain("gpu001")
    assert (drain.drained, drain.state, drain.reason) == (True, "IDLE+DRAIN", WHY)
    assert abs((drain.since - datetime.now(UTC)).total_seconds()) < 60
    *others, own = api.nodes["gpu001"]["spec"]["taints"]
    assert others == FOREIGN, "each effect of a key is a taint of its own"
    assert (own["key"], own["value"], own["effect"]) == (OUT_OF_SERVICE, "S026.measured", "NoSchedule")
    assert scheduler.nodes()["gpu001"].state == "drained"
    scheduler.resume("gpu001")
    assert {**api.nodes["gpu001"]["spec"], "unschedulable": False} == {**before, "unschedulable": False}
    assert scheduler.nodes()["gpu001"].ready


def test_a_node_that_was_drained_again_keeps_the_time_of_its_first_drain(api: Api) -> None:
    scheduler = runner(api)
    first = engine.Drain("gpu001", "IDLE+DRAIN", WHY, datetime(2026, 11, 20, 8, 0, 0, tzinfo=UTC))
    scheduler.drain_again("gpu001", first.again)
    found = scheduler.drain("gpu001")
    assert (found.reason, found.since) == (WHY, first.since)


def test_a_node_that_its_health_check_tainted_is_drained_also_while_it_is_silent(api: Api) -> None:
    taint = {"key": OUT_OF_SERVICE, "value": "unfit", "effect": "NoSchedule", "timeAdded": "2026-11-29T06:00:00Z"}
    api.nodes["gpu001"]["spec"] = {"taints": [taint]}
    assert runner(api).drain("gpu001").drained
    api.nodes["gpu001"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert runner(api).drain("gpu001").state == "DOWN+DRAIN+NOT_RESPONDING"


def test_a_cordon_of_a_person_is_a_drain_without_a_reason(api: Api) -> None:
    taint = {"key": kubernetes.CORDON, "effect": "NoSchedule", "timeAdded": "2026-11-29T06:00:00Z"}
    api.nodes["gpu001"]["spec"] = {"unschedulable": True, "taints": [taint]}
    found = runner(api).drain("gpu001")
    assert (found.drained, found.reason, found.since) == (True, "", datetime(2026, 11, 29, 6, tzinfo=UTC))
    api.nodes["gpu001"]["spec"]["taints"] = []
    with pytest.raises(BadAnswer, match="does not say since when"):
        runner(api).drain("gpu001")


def test_a_node_that_somebody_changes_meanwhile_is_left_as_it_is(api: Api) -> None:
    def meanwhile(call: Mapping[str, Any]) -> None:
        if call["verb"] == "PATCH":
            api.nodes["gpu001"]["metadata"]["resourceVersion"] = "99"

    api.before = meanwhile
    with pytest.raises(BadAnswer, match="the object has been modified"):
        runner(api).drain_again("gpu001", WHY)
    assert api.nodes["gpu001"]["spec"] == {}


def test_nodes_with_a_controller_are_named_and_those_with_loads_and_daemons_are_not(api: Api) -> None:
    owners = [("gpu001", "Job"), ("gpu002", "DaemonSet"), ("gpu003", "ReplicaSet"), ("gpu004", "ReplicaSet")]
    pods: list[dict[str, Any]] = [
        {"metadata": {"ownerReferences": [{"kind": kind}]}, "spec": {"nodeName": name}} for name, kind in owners
    ]
    pods.append({"metadata": {}, "spec": {"nodeName": "gpu002"}})
    asked = list[str]()

    def listed(call: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(call["path"])
        return {"status": 200, "body": {"items": [kept(one, call["fields"]) for one in pods]}}

    api.before = listed
    assert sorted(runner(api).serving(["gpu001", "gpu002", "gpu003"])) == ["gpu003"]
    assert asked == ["/api/v1/pods?fieldSelector=status.phase%3DRunning"]


def test_a_node_without_power_is_given_up_and_taken_back(api: Api) -> None:
    scheduler = runner(api)
    scheduler.give_up("gpu001")
    (taint,) = api.nodes["gpu001"]["spec"]["taints"]
    assert (taint["key"], taint["effect"]) == ("node.kubernetes.io/out-of-service", "NoExecute")
    assert scheduler.look(1, "gpu001").node == "DOWN+NOT_RESPONDING"
    scheduler.back("gpu001")
    assert scheduler.look(1, "gpu001").node == "IDLE"


# ---- the burn-in -------------------------------------------------------------------------------------------------------
PROGRAM = """
import json, os, sys
from pathlib import Path
folder = Path(os.path.expandvars(sys.argv[sys.argv.index("--results") + 1]))
folder.mkdir(parents=True)
number = int(os.environ["RANK"])
rank = {"rank": number, "device": "cpu", "uuid": "", "rounds": 9, "wrong_products": 0, "wrong_words": 0, "precisions": {},
        "memory": {"total_b": 8, "tested_b": 8, "sets": 1, "patterns": {}, "first_wrong": None}, "not_supported": [], "error": ""}
watch = {"gpus": [], "xids": [], "telemetry_error": "no NVML"} if number == 0 else None
said = {"device": "cpu", "took_s": 9.0, "phase": "end", "ended": True, "rank": rank, "watch": watch}
(folder / f"rank-{number}.json").write_text(json.dumps(said))
print("burnt")
"""


class Here(SshHost):
    """A node whose commands run on this machine."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "10.0.0.1", cast(Any, None))

    def run(
        self, command: str | Sequence[str], *, stdin: bytes = b"", check: bool = True, budget_s: float | None = None
    ) -> Completed:
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=check)
        return Completed(done.returncode, done.stdout.decode(), done.stderr.decode(), 0.1)


@pytest.fixture
def burning(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubernetes:
    """A cluster whose pods run their command here, once, when somebody looks."""
    program = tmp_path / "burnin.py"
    program.write_text(PROGRAM)
    monkeypatch.setattr(burn_in, "PROGRAM", program)
    monkeypatch.setattr(burn_in, "POLL_S", 0.0)
    monkeypatch.setattr(burn_in, "FOLDER", f"{tmp_path}/results-")
    monkeypatch.setattr(jobset, "PYTHON", sys.executable)
    for module in (jobset, burn_in):
        monkeypatch.setattr(module, "OUTPUT", f"{tmp_path}/%j.out")
    ran: dict[str, str] = {}

    def run(made: dict[str, Any]) -> list[dict[str, Any]]:
        name, number = made["metadata"]["name"], made["metadata"]["labels"][JOB]
        spec = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        (on,) = spec["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]
        if name not in ran:
            given_ = {"NODE": on, "HOST_IP": ADDRESSES[on], "JOB_COMPLETION_INDEX": "0", "BRINGUP_JOB": number}
            command = [word.replace("$$", "$") for word in spec["containers"][0]["command"]]
            # a carried program is written to the pod's own /tmp
            command[2] = command[2].replace('"/tmp/program.py"', f'"{tmp_path}/{name}.py"')
            environment = {"PATH": os.environ["PATH"], **given_}
            command[0] = sys.executable
            done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
            ran[name] = "Failed" if done.returncode else "Succeeded"
        found = pod(made, 0, ran[name])
        found["spec"]["nodeName"] = on
        return [found]

    api.pods = run
    return runner(api, {name: Here(name) for name in ADDRESSES})


def test_a_burn_in_gives_the_same_report_as_with_slurm_and_leaves_nothing(
    burning: Kubernetes, api: Api, tmp_path: Path
) -> None:
    done = burn_in.run(plan_of("lab-kubernetes"), burning)
    assert done.errors == {}
    assert list(done.report["nodes"]) == list(ADDRESSES)
    assert done.report["nodes"]["gpu002"]["ranks"][0]["rank"] == 1
    assert done.report["nodes"]["gpu002"]["duration_s"] == 9.0
    assert done.seconds == dict.fromkeys(ADDRESSES, 90.0)
    assert api.objects == {}
    assert not [*tmp_path.glob("results-*"), *tmp_path.glob("*.out")]


def test_a_pod_that_fails_costs_its_own_node_alone(burning: Kubernetes, tmp_path: Path) -> None:
    (tmp_path / "burnin.py").write_text(PROGRAM + "\nassert number or os.environ['NODE'] != 'gpu003', 'a bad GPU'\n")
    done = burn_in.run(plan_of("lab-kubernetes"), burning)
    assert done.errors.keys() == {"gpu003"}
    assert "is FAILED" in done.errors["gpu003"]
    assert "a bad GPU" in done.errors["gpu003"]


def test_a_node_out_of_service_burns_in_and_stays_out_of_service(burning: Kubernetes, api: Api) -> None:
    plan = plan_of("lab-kubernetes")
    burning.drain_again("gpu002", WHY)
    drained = burn_in.drains(burning, ["gpu002"])
    started = burn_in.start(plan, burning, ["gpu002"], drained)
    burn_in.open_up(burning, started)
    assert burning.drain("gpu002").drained
    (made,) = api.sets()
    tolerated = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["tolerations"]
    assert OUT_OF_SERVICE in {one["key"] for one in tolerated}
    done = burn_in.collect(plan, burning, started)
    burn_in.close(burning, started)
    assert (done.errors, list(done.report["nodes"])) == ({}, ["gpu002"])
    found = burning.drain("gpu002")
    assert (found.drained, found.reason) == (True, WHY)


def test_a_node_without_a_kubelet_can_take_no_burn_in(burning: Kubernetes, api: Api) -> None:
    api.nodes["gpu002"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    with pytest.raises(burn_in.NodeNotFree, match="gpu002 is DOWN"):
        burn_in.drains(burning, ["gpu002"])


# ---- which checks --------------------------------------------------------------------------------------------------------
OF_MANAGER = {
    "slurm": {"scheduler", "slurm_nodes", "policy", "trials"},
    "kubernetes": {"platform", "platform_said", "gangs_said", "quotas_said", "charged_said", "grants", "yielded"},
}
"""Fixtures of checks/conftest.py that ask one workload manager."""


def test_a_check_that_asks_one_workload_manager_says_so() -> None:
    seen = set()
    for file in check_files():
        module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
        for value in vars(module).values():
            made = check_of(value) if callable(value) else None
            if made is None or of_platform(made.item):
                continue
            uses = {*inspect.signature(value).parameters}
            asks = {name for name, fixtures in OF_MANAGER.items() if fixtures & uses}
            assert asks <= {made.manager}, f"{made.item} in {file}"
            seen |= asks
    assert seen == set(OF_MANAGER)


def test_each_item_that_is_checked_with_slurm_is_checked_with_kubernetes() -> None:
    assert checks_of_items("slurm").keys() <= checks_of_items("kubernetes").keys()


def test_a_site_is_driven_through_its_own_workload_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "connect", lambda plan: "slurm")
    monkeypatch.setattr(kubernetes, "connect", lambda plan: "kubernetes")
    assert [str(engine_of(plan_of(site))) for site in ("lab", "lab-kubernetes")] == ["slurm", "kubernetes"]
