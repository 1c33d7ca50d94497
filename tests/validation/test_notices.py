"""Notices of jobs and nodes: what acceptance does, what it hears, and how that is judged. The cluster and what is told of it are a
model of the test's own; tests/infra/test_notices.py has a real Kueue and the program of the role.
"""

import dataclasses
import http.client
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from capacity.model import Plan
from inventory.site.sections.credentials import NotificationCredentials
from network.drivers.errors import BadAnswer
from tests.plans import plan_of
from tests.validation.test_gangs import pod
from validation import from_raw, notices
from validation.facts import notices as facts
from validation.facts import notices_drill
from validation.facts.kueue import PRIORITIES, workloads

DRILL = Path(notices_drill.__file__)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab-kubernetes")


class Site:
    """A cluster with one free node and the program that tells events. evicts: whether Kueue evicts by priority; told: how often
    each event is told.
    """

    def __init__(self, evicts: bool = True, free: bool = True, told: Mapping[str, int] | None = None) -> None:
        self.evicts, self.free, self.told = evicts, free, told or {}
        self.now = 1000.0
        self.jobs: dict[str, dict[str, Any]] = {}
        self.classes: set[str] = set()
        self.heard: list[dict[str, Any]] | None = None
        self.acts: list[str] = []
        self.evicted: set[str] = set()
        self.late: list[dict[str, Any]] = []
        self.delay_s = 5.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def clock(self) -> float:
        return self.now

    def tell(self, event: str, job: str = "", node: str = "", reason: str = "") -> None:
        one = {"event": event, "job": job, "node": node, "reason": reason, "account": "commissioning" if job else ""}
        for number in range(self.told.get(event, 1)):
            assert self.heard is not None
            self.heard.append({**one, "id": f"{event}-{job}-{number}", "at_s": self.now + self.delay_s})

    def controller(self, request: Mapping[str, Any]) -> Any:
        self.acts.append(str(request["act"]))
        if request["act"] == "listen":
            self.heard = []
        if request["act"] == "heard":
            assert self.heard is not None
            return {"now_s": self.now, "heard": [one for one in self.heard if one["at_s"] <= self.now]}
        return {}

    def back(self) -> str:
        self.tell("node-return", node="gpu004")
        return "gpu004"

    def call(self, calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{"status": 200, "error": "", **self.answer(one)} for one in calls]

    def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
        verb, path, body = call["verb"], call["path"], call.get("body")
        if path.startswith("/api/v1/nodes/"):
            return {"body": {"status.images": [{"names": ["docker.io/lab/pause:1"]}]}}
        if verb == "POST" and body:
            name = body["metadata"]["name"]
            if path == PRIORITIES:
                self.classes.add(name)
            else:
                self.made(name, body)
            return {"status": 201, "body": {}}
        if verb == "DELETE":
            name = path.rpartition("/")[2]
            self.jobs.pop(name, None)
            self.classes.discard(name)
            return {"body": {}}
        if path == workloads("commissioning"):
            return {"body": {"items": [self.workload(name) for name in self.jobs]}}
        (name,) = re.findall(r"job-name%3D(\S+)", path)
        runs = name in self.jobs and name in (facts.HOLDS, facts.TAKES) and self.free and name not in self.evicted
        return {"body": {"items": [pod("gpu001")] if runs else []}}

    def made(self, name: str, body: Mapping[str, Any]) -> None:
        self.jobs[name] = dict(body)
        if name == facts.ENDS:
            self.tell("end", name, reason="Succeeded")
        if name == facts.FAILS:
            self.tell("fail", name, reason="Failed")
        if name == facts.TAKES and self.evicts:
            self.evicted.add(facts.HOLDS)
            self.tell("requeue", facts.HOLDS, reason="Preempted")

    def workload(self, name: str) -> dict[str, Any]:
        reason = {facts.ENDS: "Succeeded", facts.FAILS: "Failed"}.get(name, "")
        conditions = [{"type": "Finished", "status": "True", "reason": reason}] if reason else []
        if name == facts.HOLDS and not self.free:
            conditions.append({"type": "QuotaReserved", "status": "False", "message": "no free node"})
        stats = {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]}
        return {
            "metadata.ownerReferences": [{"name": name}],
            "status.conditions": conditions,
            "status.schedulingStats": stats if name in self.evicted else None,
        }


def said_by(site: Site, plan: Plan) -> dict[str, Any]:
    said = facts.ask(plan, site.call, site.controller, site.back, site.sleep, site.clock)
    assert (site.jobs, site.classes) == ({}, set()), "nothing is left"
    assert (site.acts[:2], site.acts[-1]) == (["stop", "listen"], "stop")
    return {"notices": said}


def test_each_event_is_heard_once_and_in_time(plan: Plan) -> None:
    said = said_by(Site(), plan)
    value, problems = notices.told(said, plan)
    assert problems == []
    assert value == {"events": 4, "slowest_s": 5.0}


@pytest.mark.parametrize(
    ("event", "what"), [("end", facts.ENDS), ("fail", facts.FAILS), ("requeue", facts.HOLDS), ("node-return", "gpu004")]
)
@pytest.mark.parametrize("times", [0, 2])
def test_an_event_that_is_not_heard_or_heard_twice_is_found(plan: Plan, event: str, what: str, times: int) -> None:
    problems = notices.told(said_by(Site(told={event: times}), plan), plan)[1]
    assert problems == [f"{event} of {what} arrived {times} times, expected 1: {notices.LOOK}"]


def test_a_notice_that_comes_too_late_is_found(plan: Plan) -> None:
    site = Site()
    site.delay_s = 65.0
    problems = notices.told(said_by(site, plan), plan)[1]
    assert problems == [f"a notice arrived after 65 s, expected within 60 s: {notices.LOOK}"]


def test_a_kueue_that_does_not_evict_proves_nothing(plan: Plan) -> None:
    problems = notices.told(said_by(Site(evicts=False), plan), plan)[1]
    assert problems == ["no job was evicted and queued again: ask again when a node is free"]


def test_a_cluster_without_a_free_node_proves_nothing(plan: Plan) -> None:
    problems = notices.told(said_by(Site(free=False), plan), plan)[1]
    assert problems == ["no job was evicted and queued again: no free node"]


def test_what_was_not_so_is_found(plan: Plan) -> None:
    said = said_by(Site(), plan)
    first = said["notices"]["heard"][0]
    for more, problem in (
        ({"event": "stop", "job": facts.TAKES, "node": ""}, f"stop of {facts.TAKES} arrived and was not so"),
        ({"id": first["id"], "node": "gpu001", "job": ""}, f"an id arrived twice: {notices.LOOK}"),
        (
            {"event": "end", "job": facts.ENDS, "node": "", "account": "research"},
            f"{facts.ENDS} is said to be of research",
        ),
    ):
        heard = [*said["notices"]["heard"], {**first, "id": "another", **more}]
        assert problem in notices.told({"notices": {**said["notices"], "heard": heard}}, plan)[1]


def test_another_node_may_come_back_meanwhile(plan: Plan) -> None:
    said = said_by(Site(), plan)
    more = {
        "event": "node-return",
        "job": "",
        "node": "gpu002",
        "id": "x",
        "account": "",
        "reason": "",
        "after_s": None,
    }
    heard = [*said["notices"]["heard"], more]
    assert notices.told({"notices": {**said["notices"], "heard": heard}}, plan)[1] == []


def test_the_gate_judges_the_raw_output(plan: Plan) -> None:
    said = said_by(Site(), plan)
    assert again("S164.measured", said, plan) == []
    heard = said["notices"]["heard"][1:]
    assert again("S164.measured", {"notices": {**said["notices"], "heard": heard}}, plan) == [
        f"node-return of gpu004 arrived 0 times, expected 1: {notices.LOOK}"
    ]
    assert again("S164.applied", {"files": {"ctl01": found()}}, plan) == []
    assert again("S164.applied", {"files": {}}, plan) == ["ctl01 was not asked"]


def again(item: str, said: Mapping[str, Any], plan: Plan) -> list[str]:
    computed = from_raw.computed(item, plan.site.name, plan, json.dumps(said).encode())
    assert isinstance(computed, from_raw.Again)
    return list(computed.problems)


def test_everything_is_deleted_where_the_listener_cannot_be_asked(plan: Plan) -> None:
    site = Site()

    def controller(request: Mapping[str, Any]) -> Any:
        if request["act"] == "heard":
            raise BadAnswer("ctl01", "hear", "an answer", "none", "look there")
        return site.controller(request)

    with pytest.raises(BadAnswer, match="look there"):
        facts.ask(plan, site.call, controller, site.back, site.sleep, site.clock)
    assert (site.jobs, site.classes) == ({}, set())
    assert site.acts[-1] == "stop"


# ---- what controllers have -------------------------------------------------------------------------------------------
def found(**more: Any) -> dict[str, Any]:
    """What the controller that sends has, on the lab's site."""
    modes = facts.PRIVATE | dict.fromkeys(facts.OTHERS, "0644")
    return {
        "timer": "active",
        "enabled": "enabled",
        "result": "success",
        "files": {path: {"mode": mode, "uid": 0} for path, mode in modes.items()},
        "hooks": {"accounts": [], "default": True, "operators": True},
        "failing": [],
        "round_age_s": 12.0,
        **more,
    }


def test_a_controller_as_planned_passes(plan: Plan) -> None:
    value, problems = notices.set_up({"files": {"ctl01": found()}}, plan)
    assert problems == []
    assert value == {"sender": "ctl01", "hooks": 2, "controllers": 1}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"timer": "inactive"}, f"bringup-notices.timer is inactive and enabled, expected it to run: {notices.AGAIN}"),
        ({"result": "exit-code"}, "bringup-notices.service ended with exit-code"),
        ({"round_age_s": None}, "its last round was never"),
        ({"round_age_s": 500.0}, "its last round was 500 s ago"),
        ({"failing": ["account:research"]}, "the webhook of account:research does not take messages"),
        ({"hooks": None}, "its hooks are not those of the site file"),
        (
            {"hooks": {"accounts": ["research"], "default": True, "operators": True}},
            "its hooks are not those of the site file",
        ),
        (
            {"files": {**found()["files"], facts.CONFIG: {"mode": "0644", "uid": 0}}},
            f"/etc/bringup/notices.json has mode 0644 and user 0, expected 0600 and root: {notices.AGAIN}",
        ),
        ({"files": {**found()["files"], facts.STATE: None}}, f"no /var/lib/bringup-notices: {notices.AGAIN}"),
    ],
)
def test_a_controller_that_differs_is_found(plan: Plan, more: dict[str, Any], problem: str) -> None:
    (said,) = notices.set_up({"files": {"ctl01": found(**more)}}, plan)[1]
    assert said.startswith(f"ctl01: {problem}")


def test_a_controller_that_does_not_send_has_nothing(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "controllers_of", lambda plan: ["ctl01", "ctl02"])
    nothing = found(timer="inactive", files=dict.fromkeys(found()["files"]), hooks=None, round_age_s=None)
    assert notices.set_up({"files": {"ctl01": found(), "ctl02": nothing}}, plan)[1] == []
    left = notices.set_up({"files": {"ctl01": found(), "ctl02": found()}}, plan)[1]
    assert f"ctl02: {facts.CONFIG}, and it sends nothing: run playbooks/site.yml" in left
    assert "ctl02: bringup-notices.timer runs, and it sends nothing: run playbooks/site.yml" in left


def with_hooks(plan: Plan, given: Any) -> Plan:
    """The plan of the same site with other webhooks."""
    credentials = plan.site.credentials.model_copy(update={"notifications": given})
    return dataclasses.replace(plan, site=plan.site.model_copy(update={"credentials_given": credentials}))


def test_a_site_that_tells_nobody_is_told_how(plan: Plan) -> None:
    silent = with_hooks(plan, None)
    nothing = found(timer="inactive", files=dict.fromkeys(found()["files"]), hooks=None, round_age_s=None)
    for problems in (
        notices.set_up({"files": {"ctl01": nothing}}, silent)[1],
        notices.told({"notices": {}}, silent)[1],
    ):
        assert problems == [notices.NOBODY]
    left = notices.set_up({"files": {"ctl01": found()}}, silent)[1]
    assert "ctl01: bringup-notices.timer runs, and it sends nothing: run playbooks/site.yml" in left


def test_accounts_and_operators_without_a_hook_are_named(plan: Plan) -> None:
    some = with_hooks(plan, NotificationCredentials(accounts={"research": "env:HOOK"}))
    own = found(hooks={"accounts": ["research"], "default": False, "operators": False})
    assert notices.set_up({"files": {"ctl01": own}}, some)[1] == [
        "no webhook for services, vision: add `default` to credentials.notifications",
        "no webhook for returned nodes: add `operators` to credentials.notifications",
    ]


@pytest.fixture
def port() -> Iterator[int]:
    """A port of a listener, which is stopped at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    yield number
    drill({"act": "stop", "port": number})


def drill(request: Mapping[str, Any]) -> dict[str, Any]:
    """What the program prints, as a controller runs it."""
    done = subprocess.run(
        [sys.executable, "-I", str(DRILL), json.dumps(request)], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stderr == ""
    return dict(json.loads(done.stdout))


def post(port: int, body: bytes) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("POST", "/", body)
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_listener_stays_hears_and_ends(port: int) -> None:
    assert drill({"act": "listen", "port": port, "budget_s": 60}) == {"listening": True}
    assert "in use" in drill({"act": "listen", "port": port, "budget_s": 60})["error"]
    one = {"id": "1", "event": "end", "job": "a", "text": "not kept"}
    bodies = [
        json.dumps(one),
        json.dumps({"event": "several", "events": [one, {**one, "id": "2"}]}),
        "no JSON",
        "[]",
        "7",
    ]
    assert [post(port, body.encode()) for body in bodies] == [200] * 5
    said = drill({"act": "heard", "port": port})
    assert [(heard["id"], heard["event"], heard["node"]) for heard in said["heard"]] == [
        ("1", "end", ""),
        ("1", "end", ""),
        ("2", "end", ""),
    ]
    assert 0 <= said["heard"][0]["at_s"] <= said["now_s"]
    drill({"act": "stop", "port": port})
    until_gone(port)


def test_a_listener_ends_by_itself(port: int) -> None:
    drill({"act": "listen", "port": port, "budget_s": 0.5})
    until_gone(port)


def until_gone(port: int) -> None:
    """Wait until nothing listens any more."""
    end = time.monotonic() + 10
    while "refused" not in drill({"act": "heard", "port": port}).get("error", ""):
        assert time.monotonic() < end
        time.sleep(0.1)


def test_the_state_of_a_controller_is_read_without_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices_drill, "unit", lambda name, word: f"{name} {word}")
    config, metrics = tmp_path / "notices.json", tmp_path / "bringup.prom"
    config.write_text(json.dumps({"accounts": {"research": "https://chat/secret"}, "operators": "https://chat/secret"}))
    config.chmod(0o600)
    metrics.write_text(
        f"# TYPE x gauge\nbringup_notices_round_seconds {time.time() - 5:.3f}\n"
        'bringup_notices_failing_since_seconds{hook="account:research"} 1764500000\n'
        'bringup_notices_failing_since_seconds{hook="operators"} 0\n'
    )
    away = tmp_path / "away"
    said = notices_drill.files([str(config), str(away)], str(config), str(metrics))
    assert said["files"][str(config)]["mode"] == "0600"
    assert said["files"][str(away)] is None
    assert said["hooks"] == {"accounts": ["research"], "default": False, "operators": True}
    assert said["failing"] == ["account:research"]
    assert 4 < said["round_age_s"] < 60
    assert "secret" not in json.dumps(said)
    nothing = notices_drill.files([], str(away), str(away))
    assert (nothing["hooks"], nothing["failing"], nothing["round_age_s"]) == (None, [], None)
