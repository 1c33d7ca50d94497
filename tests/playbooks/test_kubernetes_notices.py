"""Notices of ended jobs and returned nodes: what is an event, to whom it goes, and that it arrives once.

The API server and the hooks are servers of the test's own; tests/infra/test_notices.py asks a real one with a real Kueue.
"""

import contextlib
import http.server
import itertools
import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.kube.certificates import CLIENT, SERVER, Pair, issue
from tests.playbooks.support import load

module = load("roles/kubernetes_notices/files/kubernetes_notices.py")

AT = "2026-11-30T12:00:00Z"
MAX_S = 10.0
"""Of what a test waits for."""


def condition(kind: str, reason: str = "", message: str = "", status: str = "True") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": AT}


def workload(
    job: str, *conditions: Any, account: str = "research", evicted: dict[str, int] | None = None
) -> dict[str, Any]:
    """A workload of Kueue as its API server has it. evicted: {reason, with a cause after a slash: how often}."""
    stats = [
        {"reason": reason.partition("/")[0], "underlyingCause": reason.partition("/")[2], "count": count}
        for reason, count in (evicted or {}).items()
    ]
    owner = {"kind": "Job", "name": job, "controller": True}
    metadata = {"uid": f"uid-{account}-{job}", "name": f"job-{job}-1", "namespace": account, "ownerReferences": [owner]}
    return {"metadata": metadata, "status": {"conditions": list(conditions), "schedulingStats": {"evictions": stats}}}


def ended(job: str, reason: str = "Succeeded", message: str = "", account: str = "research") -> dict[str, Any]:
    return workload(job, condition("Finished", reason, message), account=account)


def node(name: str, *, ready: bool = True, taint: str = "", why: str = "", cordoned: bool = False) -> dict[str, Any]:
    taints = [{"key": "bringup.local/out-of-service", "value": taint, "effect": "NoSchedule"}] if taint else []
    return {
        "metadata": {"name": name, "annotations": {"bringup.local/out-of-service-reason": why} if why else {}},
        "spec": {"taints": taints, **({"unschedulable": True} if cordoned else {})},
        "status": {"conditions": [condition("Ready", status="True" if ready else "Unknown")]},
    }


class Quiet(http.server.BaseHTTPRequestHandler):
    timeout = MAX_S

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@contextlib.contextmanager
def serving(handler: type[Quiet], tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of a server on loopback."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(MAX_S)


class Hook:
    """A webhook that keeps what it takes. status: its answers; it sends none where this is 0; refused: a status for some messages;
    slow_s: before an answer.
    """

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.status, self.slow_s, self.url = 200, 0.0, ""
        self.refused: Callable[[dict[str, Any]], int] = lambda message: 0
        self.headers: dict[str, str] = {}
        hook = self

        class Handler(Quiet):
            def do_POST(self) -> None:
                said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.paths.append(self.path)
                hook.taken.append(said)
                time.sleep(hook.slow_s)
                if status := hook.refused(said) or hook.status:
                    self.send_response(status)
                    self.send_header("Location", "/elsewhere")
                    for name, value in hook.headers.items():
                        self.send_header(name, value)
                    self.end_headers()

        self.handler = Handler

    @property
    def jobs(self) -> list[tuple[str, str]]:
        """(event, job or node) of each message, in the order in which they came."""
        return [(one["event"], one["job"] or one["node"]) for one in self.taken]


class Api:
    """An API server with workloads and nodes. broken: what it answers instead, as bytes; pages: objects of an answer."""

    def __init__(self) -> None:
        self.workloads: list[Any] = []
        self.nodes: list[Any] = []
        self.broken: tuple[int, bytes] | None = None
        self.pages = 0
        self.asked: list[str] = []
        api = self

        class Handler(Quiet):
            def do_GET(self) -> None:
                api.asked.append(self.path)
                status, content = api.broken or (200, api.answer(self.path))
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self.handler = Handler

    def answer(self, path: str) -> bytes:
        items = self.nodes if path.startswith("/api/v1/nodes") else self.workloads
        if not self.pages:
            return json.dumps({"metadata": {}, "items": items}).encode()
        start = int(path.partition("&continue=")[2] or 0)
        end = start + self.pages
        return json.dumps(
            {"metadata": {"continue": str(end)} if end < len(items) else {}, "items": items[start:end]}
        ).encode()


@pytest.fixture(scope="module")
def authority() -> Pair:
    return issue("ca")


@pytest.fixture(scope="module")
def server_tls(authority: Pair, tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A server of 127.0.0.1 that the authority has signed."""
    own = issue("kube-apiserver", authority=authority, addresses=["127.0.0.1"], usages=[SERVER])
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(own.pem + own.key_pem)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(path)
    return tls


class Controller:
    """The program with its files, and rounds of it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.config: dict[str, Any] = {}
        self.status = 0

    def round(self, code: int = 0) -> None:
        """One run of the program, as the timer starts it."""
        (self.folder / "notices.json").write_text(json.dumps(self.config))
        given = [
            f"--{name}={self.folder / file}" for name, file in (("state", "state.json"), ("metrics", "notices.prom"))
        ]
        found = module.main(
            [f"--config={self.folder / 'notices.json'}", *given, f"--pki={self.folder}", f"--api-port={self.port}"]
        )
        assert found == code

    @property
    def state(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "state.json").read_text()))

    @property
    def metrics(self) -> dict[str, float]:
        lines = (self.folder / "notices.prom").read_text().splitlines()
        return {name: float(value) for name, value in (line.split(" ") for line in lines if not line.startswith("#"))}


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Hook]]:
    monkeypatch.setattr(module, "RETRY_S", 0)
    monkeypatch.setattr(module, "RETRY_MAX_S", 0)
    made = {name: Hook() for name in ("research", "default", "operators", "drill")}
    with contextlib.ExitStack() as stack:
        for name, one in made.items():
            one.url = f"http://127.0.0.1:{stack.enter_context(serving(one.handler))}/services/{name}?token=secret"
        yield made


@pytest.fixture
def controller(
    api: Api, hooks: dict[str, Hook], authority: Pair, server_tls: ssl.SSLContext, tmp_path: Path
) -> Iterator[Controller]:
    """A controller on which the program has run once."""
    client = issue("bringup:notices", authority=authority, usages=[CLIENT])
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    (tmp_path / "notices.pem").write_bytes(client.pem + client.key_pem)
    with serving(api.handler, server_tls) as port:
        made = Controller(tmp_path, port)
        made.config = {
            "accounts": {"research": hooks["research"].url},
            "default": hooks["default"].url,
            "operators": hooks["operators"].url,
            "names": ["research", "vision", "commissioning"],
            "drill": {"account": "commissioning", "url": hooks["drill"].url},
        }
        api.workloads = [ended("old"), workload("runs")]
        api.nodes = [node("gpu001"), node("gpu002", taint="unfit", why="chrony does not answer")]
        made.round()
        yield made


def test_nothing_that_was_there_at_the_first_start_is_told(controller: Controller, hooks: dict[str, Hook]) -> None:
    controller.round()
    assert [one.taken for one in hooks.values()] == [[], [], [], []]


def test_each_event_arrives_once_with_its_fields(controller: Controller, api: Api, hooks: dict[str, Hook]) -> None:
    api.workloads = [
        ended("old"),
        ended("runs", message="Job finished successfully"),
        ended("breaks", "Failed", "Job has reached the specified backoff limit"),
        workload("yields", condition("Evicted", "Preempted", "to a higher tier"), evicted={"Preempted": 1}),
        workload("idle", evicted={"Deactivated/RequeuingLimitExceeded": 1}),
    ]
    for _ in range(3):
        controller.round()
    assert hooks["research"].jobs == [("end", "runs"), ("fail", "breaks"), ("requeue", "yields"), ("stop", "idle")]
    done, failed, requeued, stopped = hooks["research"].taken
    assert done == {
        "text": "research: Job runs has completed",
        "id": done["id"],
        "event": "end",
        "account": "research",
        "job": "runs",
        "kind": "Job",
        "namespace": "research",
        "node": "",
        "reason": "Succeeded",
        "message": "Job finished successfully",
        "time": AT,
    }
    assert failed["text"] == "research: Job breaks has failed (Failed): Job has reached the specified backoff limit"
    assert requeued["text"] == "research: Job yields was evicted (Preempted) and is queued again: to a higher tier"
    assert stopped["reason"] == "Deactivated/RequeuingLimitExceeded"
    assert len({one["id"] for one in hooks["research"].taken}) == 4
    assert hooks["research"].paths[0] == "/services/research?token=secret"
    assert hooks["default"].taken == hooks["operators"].taken == hooks["drill"].taken == []


def test_a_job_that_is_evicted_again_and_ends_is_told_each_time(
    controller: Controller, api: Api, hooks: dict[str, Hook]
) -> None:
    for seen in (
        workload("runs", condition("Evicted", "Preempted"), evicted={"Preempted": 1}),
        workload("runs", condition("Evicted", "Preempted", status="False"), evicted={"Preempted": 1}),
        workload("runs", condition("Evicted", "NodeFailures"), evicted={"Preempted": 1, "NodeFailures": 1}),
        workload("runs", condition("Finished", "Succeeded"), evicted={"Preempted": 2, "NodeFailures": 1}),
    ):
        api.workloads = [seen]
        controller.round()
    assert [(one["event"], one["reason"]) for one in hooks["research"].taken] == [
        ("requeue", "Preempted"),
        ("requeue", "NodeFailures"),
        ("requeue", "Preempted"),
        ("end", "Succeeded"),
    ]
    assert len({one["id"] for one in hooks["research"].taken}) == 4


def test_an_account_without_a_hook_has_the_default_and_one_of_no_account_none(
    controller: Controller, api: Api, hooks: dict[str, Hook]
) -> None:
    api.workloads = [
        ended("a", account="vision"),
        ended("b", account="kube-system"),
        ended("c", account="commissioning"),
    ]
    controller.round()
    assert hooks["default"].jobs == [("end", "a")]
    assert hooks["drill"].jobs == [("end", "c")]
    assert hooks["research"].taken == []


def test_acceptances_own_jobs_are_no_news_of_the_account_that_they_are_tried_in(
    controller: Controller, api: Api, hooks: dict[str, Hook]
) -> None:
    controller.round()
    api.workloads = [ended("bringup-waits", account="research"), ended("mine", account="research")]
    controller.round()
    assert (hooks["research"].jobs, hooks["drill"].jobs) == ([("end", "mine")], [("end", "bringup-waits")])


def test_an_account_with_neither_is_told_nothing_and_nothing_waits(
    controller: Controller, api: Api, hooks: dict[str, Hook]
) -> None:
    controller.config["default"] = None
    api.workloads = [ended("a", account="vision")]
    controller.round()
    assert controller.state["waiting"] == []
    controller.config["default"] = hooks["default"].url
    controller.round()
    assert hooks["default"].taken == [], "what ended before an account had a hook is old"


def test_operators_are_told_of_a_node_that_is_back_and_not_before(
    controller: Controller, api: Api, hooks: dict[str, Hook]
) -> None:
    for one in (
        node("gpu002", ready=False, taint="unfit", why="chrony does not answer"),
        node("gpu002", taint="unfit", why="chrony does not answer"),
        node("gpu002", cordoned=True),
    ):
        api.nodes = [node("gpu001"), one]
        controller.round()
        assert hooks["operators"].taken == []
    api.nodes = [node("gpu001"), node("gpu002")]
    controller.round()
    controller.round()
    (told,) = hooks["operators"].taken
    assert told["text"] == "Node gpu002 is back in service. It was out: cordoned"
    assert (told["event"], told["node"], told["account"]) == ("node-return", "gpu002", "")
    assert [one["id"] for one in hooks["drill"].taken] == [told["id"]], "acceptance hears it as well"


def test_a_node_that_is_out_twice_is_told_twice(controller: Controller, api: Api, hooks: dict[str, Hook]) -> None:
    for ready in (False, True, False, True):
        api.nodes = [node("gpu001", ready=ready)]
        controller.round()
    assert hooks["operators"].jobs == [("node-return", "gpu001")] * 2
    assert len({one["id"] for one in hooks["operators"].taken}) == 2


@pytest.mark.parametrize("status", [0, 302, 404, 500])
def test_a_hook_that_does_not_take_a_message_gets_it_later_with_the_same_id(
    status: int, controller: Controller, api: Api, hooks: dict[str, Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks["research"].status = status
    api.workloads = [ended("a"), ended("b", account="vision")]
    controller.round()
    assert hooks["default"].jobs == [("end", "b")], "another hook is not kept waiting"
    assert len(controller.state["waiting"]) == 1
    assert controller.metrics['bringup_notices_waiting{hook="account:research"}'] == 1
    since = controller.metrics['bringup_notices_failing_since_seconds{hook="account:research"}']
    assert 0 <= time.time() - since < MAX_S
    controller.round()
    assert controller.metrics['bringup_notices_failing_since_seconds{hook="account:research"}'] == since
    hooks["research"].status = 204
    controller.round()
    controller.round()
    assert hooks["research"].jobs == [("end", "a")] * 3
    assert len({one["id"] for one in hooks["research"].taken}) == 1
    assert controller.metrics['bringup_notices_failing_since_seconds{hook="account:research"}'] == 0
    assert "/elsewhere" not in hooks["research"].paths, "no redirection is followed"


def test_a_failing_hook_is_tried_less_and_less_often(
    controller: Controller, api: Api, hooks: dict[str, Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 15)
    monkeypatch.setattr(module, "RETRY_MAX_S", 300)
    begin, clock = time.time(), [0.0]
    monkeypatch.setattr(module.time, "time", lambda: begin + clock[0])
    hooks["research"].status = 500
    api.workloads = [ended("a")]
    tried = []
    for after_s in range(0, 1500, 15):
        clock[0] = float(after_s)
        before = len(hooks["research"].taken)
        controller.round()
        tried += [after_s] if len(hooks["research"].taken) > before else []
    assert tried[:6] == [0, 15, 30, 60, 120, 240]
    assert {later - earlier for earlier, later in itertools.pairwise(tried[6:])} == {300}


def test_a_clock_that_was_set_back_keeps_nothing_from_being_sent(
    controller: Controller, api: Api, hooks: dict[str, Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 15)
    monkeypatch.setattr(module, "RETRY_MAX_S", 300)
    hooks["research"].status = 500
    api.workloads = [ended("a")]
    controller.round()
    earlier = time.time() - 86_400
    monkeypatch.setattr(module.time, "time", lambda: earlier)
    hooks["research"].status = 200
    controller.round()
    assert controller.state["waiting"] == []


def of_job(name: str, status: int) -> Callable[[dict[str, Any]], int]:
    return lambda message: status if message["job"] == name else 0


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_message_that_a_hook_will_never_take_is_given_up_and_keeps_no_other(
    status: int, controller: Controller, api: Api, hooks: dict[str, Hook], capsys: pytest.CaptureFixture[str]
) -> None:
    """Two accounts have the default's URL."""
    controller.config["names"].append("language")
    hooks["default"].refused = of_job("a", status)
    api.workloads = [ended("a", account="vision"), ended("b", account="vision"), ended("c", account="language")]
    controller.round()
    assert hooks["default"].jobs == [("end", "a"), ("end", "b"), ("end", "c")]
    assert controller.state["waiting"] == []
    assert controller.metrics['bringup_notices_dropped{hook="account:vision"}'] == 1
    assert controller.metrics['bringup_notices_failing_since_seconds{hook="account:vision"}'] == 0
    assert f"account:vision: status {status}" in capsys.readouterr().err


def test_a_hook_that_fails_with_one_accounts_message_takes_those_of_others(
    controller: Controller, api: Api, hooks: dict[str, Hook]
) -> None:
    controller.config["names"].append("language")
    hooks["default"].refused = of_job("a", 500)
    api.workloads = [ended("a", account="vision"), ended("c", account="language")]
    controller.round()
    assert [one["event"]["job"] for one in controller.state["waiting"]] == ["a"]
    assert controller.metrics['bringup_notices_failing_since_seconds{hook="account:language"}'] == 0


@pytest.mark.parametrize(("after", "waited_s"), [("40", 45), ("", 15), ("soon", 15), ("100000", 300)])
def test_a_hook_that_wants_no_more_for_a_while_is_left_alone_and_is_not_failing(
    after: str,
    waited_s: int,
    controller: Controller,
    api: Api,
    hooks: dict[str, Hook],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 15)
    monkeypatch.setattr(module, "RETRY_MAX_S", 300)
    begin, clock = time.time(), [0.0]
    monkeypatch.setattr(module.time, "time", lambda: begin + clock[0])
    controller.config["names"].append("language")
    hooks["default"].status, hooks["default"].headers = 429, {"Retry-After": after} if after else {}
    api.workloads = [ended("a", account="vision"), ended("b", account="language")]
    controller.round()
    assert len(hooks["default"].taken) == 1, "the second account's is not tried"
    assert controller.state["failing"] == {}
    hooks["default"].status = 200
    while len(hooks["default"].taken) == 1 and clock[0] < 900:
        clock[0] += 15
        controller.round()
    assert (clock[0], hooks["default"].jobs) == (waited_s, [("end", "a"), ("end", "a"), ("end", "b")])


def test_a_hook_that_takes_too_few_is_failing_after_a_while(
    controller: Controller, api: Api, hooks: dict[str, Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_MAX_S", 300)
    begin, clock = time.time(), [0.0]
    monkeypatch.setattr(module.time, "time", lambda: begin + clock[0])
    hooks["research"].status = 429
    api.workloads = [ended("a")]
    found = []
    for clock[0] in (0.0, 250.0, 400.0):
        controller.round()
        found.append(controller.metrics['bringup_notices_failing_since_seconds{hook="account:research"}'])
    assert found == [0, 0, pytest.approx(begin, abs=1)]


def test_many_accounts_of_one_url_have_a_message_each(controller: Controller, api: Api, hooks: dict[str, Hook]) -> None:
    names = [f"team-{number}" for number in range(30)]
    controller.config["names"] += names
    api.workloads = [ended(f"{job}-{name}", account=name) for name in names for job in ("a", "b", "c")]
    controller.round()
    assert [one["account"] for one in hooks["default"].taken] == names
    assert {one["event"] for one in hooks["default"].taken} == {"several"}


def test_a_hook_that_nothing_waits_for_is_no_more_failing(
    controller: Controller, api: Api, hooks: dict[str, Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks["research"].status = 500
    api.workloads = [ended("a")]
    controller.round()
    monkeypatch.setattr(module, "KEPT_S", 0)
    controller.round()
    assert controller.metrics['bringup_notices_failing_since_seconds{hook="account:research"}'] == 0
    assert controller.metrics['bringup_notices_dropped{hook="account:research"}'] == 1


def test_a_message_of_many_is_short_enough_for_chat_programs(
    controller: Controller, api: Api, hooks: dict[str, Hook]
) -> None:
    api.workloads = [ended(f"{'j' * 60}-{number}", "Failed", message="m" * 1000) for number in range(50)]
    controller.round()
    (told,) = hooks["research"].taken
    assert len(told["text"]) < 5000


def test_a_slow_hook_holds_up_no_other_and_is_given_up_in_time(
    controller: Controller, api: Api, hooks: dict[str, Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEND_S", 0.3)
    hooks["research"].slow_s = 2.0
    api.workloads = [*(ended(f"a{number}") for number in range(8)), ended("b", account="vision")]
    began = time.monotonic()
    controller.round()
    assert time.monotonic() - began < 2.0, "its other messages wait for the next try"
    assert hooks["default"].jobs == [("end", "b")]
    assert len(controller.state["waiting"]) == 8


def test_a_hook_that_sends_a_byte_now_and_then_does_not_hold_the_round(
    controller: Controller, api: Api, hooks: dict[str, Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Drip(Quiet):
        def do_POST(self) -> None:
            with contextlib.suppress(OSError):
                for sign in b"HTTP/1.1 200 OK\r\nX: " + b"a" * 400:
                    self.wfile.write(bytes([sign]))
                    time.sleep(0.02)

    monkeypatch.setattr(module, "SEND_S", 0.2)
    monkeypatch.setattr(module, "SEND_ALL_S", 0.5)
    with serving(Drip) as port:
        controller.config["accounts"]["research"] = f"http://127.0.0.1:{port}/"
        api.workloads = [ended("a"), ended("b", account="vision")]
        began = time.monotonic()
        controller.round()
        assert time.monotonic() - began < 4.0
    assert hooks["default"].jobs == [("end", "b")]
    assert controller.metrics['bringup_notices_failing_since_seconds{hook="account:research"}'] > 0


def test_many_events_of_an_account_are_one_message(controller: Controller, api: Api, hooks: dict[str, Hook]) -> None:
    burst = [
        *(ended(f"job-{number}") for number in range(990)),
        *(ended(f"bad-{number}", "Failed") for number in range(10)),
    ]
    api.workloads = [*burst, ended("b", account="vision")]
    controller.round()
    controller.round()
    (told,) = hooks["research"].taken
    assert (told["event"], told["account"], told["counts"]) == ("several", "research", {"end": 990, "fail": 10})
    assert [one["job"] for one in told["events"]] == [
        *(f"bad-{number}" for number in range(10)),
    ], "failures are named first"
    assert told["text"].splitlines()[0] == "research: 1000 events: 990 end, 10 fail"
    assert told["text"].splitlines()[-1] == "and 990 more"
    assert hooks["default"].jobs == [("end", "b")]
    assert controller.state["waiting"] == []


def test_what_ended_while_the_program_was_away_is_told_when_it_is_back(
    controller: Controller, api: Api, hooks: dict[str, Hook]
) -> None:
    api.workloads = [ended("old"), ended("runs"), ended("new")]
    controller.round()
    assert hooks["research"].jobs == [("end", "runs"), ("end", "new")]


def test_what_was_taken_is_noted_at_once_and_the_rest_is_sent_later(
    controller: Controller, api: Api, hooks: dict[str, Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third message hangs beyond all limits, as where the program is killed meanwhile."""
    api.workloads = [ended(f"a{number}") for number in range(5)]
    real, posts, over = module.post, list[str](), threading.Event()
    seen: list[list[str]] = []

    def hangs(url: str, content: bytes) -> Any:
        posts.append(url)
        if len(posts) < 3:
            return real(url, content)
        time.sleep(0.2)  # the second one is noted meanwhile
        seen.append([one["event"]["job"] for one in controller.state["waiting"]])
        over.wait(MAX_S)
        return module.Taken("given up")

    monkeypatch.setattr(module, "SAVE_S", 0)
    monkeypatch.setattr(module, "post", hangs)
    monkeypatch.setattr(module, "SEND_ALL_S", 0.3)
    monkeypatch.setattr(module, "SEND_S", 0.3)
    controller.round()
    assert seen == [["a2", "a3", "a4"]], "a new start would send these alone"
    assert controller.metrics['bringup_notices_failing_since_seconds{hook="account:research"}'] > 0
    over.set()
    monkeypatch.setattr(module, "post", real)
    controller.round()
    assert hooks["research"].jobs == [("end", f"a{number}") for number in range(5)]


def test_an_event_that_was_noted_and_not_sent_is_sent_after_a_new_start(
    controller: Controller, api: Api, hooks: dict[str, Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*given: Any) -> None:
        raise KeyboardInterrupt

    api.workloads = [ended("a")]
    with monkeypatch.context() as patch:
        patch.setattr(module, "send", killed)
        with pytest.raises(KeyboardInterrupt):
            controller.round()
    api.workloads = []  # gone from the cluster meanwhile
    controller.round()
    assert hooks["research"].jobs == [("end", "a")]


def test_the_state_is_for_root_alone_has_no_url_and_as_much_as_there_are_objects(
    controller: Controller, api: Api, hooks: dict[str, Hook]
) -> None:
    api.workloads = [ended(f"a{number}") for number in range(100)]
    controller.round()
    path = controller.folder / "state.json"
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert len(controller.state["workloads"]) == 100
    hooks["research"].status = 500
    api.workloads, api.nodes = [ended("last")], [node("gpu001")]
    controller.round()
    assert list(controller.state["workloads"]) == ["uid-research-last"]
    assert list(controller.state["nodes"]) == ["gpu001"]
    for name in ("state.json", "notices.prom"):
        text = (controller.folder / name).read_text()
        assert "token" not in text
        assert "127.0.0.1" not in text


@pytest.mark.parametrize("content", ["", "{", "[]", '{"workloads": {}}', '{"workloads": {"a": [1, 2]}, "nodes": {}}'])
def test_a_state_that_cannot_be_read_is_a_first_start(
    content: str, controller: Controller, api: Api, hooks: dict[str, Hook], capsys: pytest.CaptureFixture[str]
) -> None:
    (controller.folder / "state.json").write_text(content)
    api.workloads = [ended("runs")]
    controller.round()
    assert "nothing is told of what was before now" in capsys.readouterr().err
    api.workloads = [ended("runs"), ended("next")]
    controller.round()
    assert hooks["research"].jobs == [("end", "next")]


@pytest.mark.parametrize(
    "broken",
    [
        (200, b""),
        (200, b"[]"),
        (200, b'{"items": 7}'),
        (200, b"[" * 100_000),
        (200, b'{"items": []'),
        (403, b'{"message": "forbidden"}'),
        (500, b"\xff\x00<!channel>"),
    ],
)
def test_what_is_no_list_changes_nothing_and_is_said(
    broken: tuple[int, bytes],
    controller: Controller,
    api: Api,
    hooks: dict[str, Hook],
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = controller.state
    api.broken, api.workloads = broken, [ended("runs")]
    controller.round()
    assert controller.state == before
    assert capsys.readouterr().err.startswith("API server: /apis/kueue")
    api.broken = None
    controller.round()
    controller.round()
    assert hooks["research"].jobs == [("end", "runs")]


def test_an_api_server_that_is_away_does_not_keep_messages_from_being_sent(
    controller: Controller, api: Api, hooks: dict[str, Hook]
) -> None:
    hooks["research"].status = 500
    api.workloads = [ended("a")]
    controller.round()
    hooks["research"].status, api.broken = 200, (503, b"")
    controller.round()
    assert hooks["research"].jobs == [("end", "a")] * 2
    assert controller.state["waiting"] == []


def test_a_round_in_which_a_list_was_not_read_is_none(
    controller: Controller, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = controller.metrics["bringup_notices_round_seconds"]
    for status in (403, 404, 503):
        api.broken = (status, b"{}")
        controller.round()
        assert controller.metrics["bringup_notices_round_seconds"] == before, status
    api.broken = None
    controller.round()
    assert controller.metrics["bringup_notices_round_seconds"] > before


def test_without_kueue_nodes_are_told_and_the_round_counts(
    controller: Controller, api: Api, hooks: dict[str, Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    (controller.folder / "state.json").unlink()
    real = module.ask

    def ask(port: int, path: str, pki: Path) -> bytes:
        if path.startswith(module.WORKLOADS):
            raise module.MissingError("the server could not find the requested resource")
        return bytes(real(port, path, pki))

    monkeypatch.setattr(module, "ask", ask)
    controller.round()
    api.nodes = [node("gpu001"), node("gpu002")]
    controller.round()
    assert hooks["operators"].jobs == [("node-return", "gpu002")]
    assert controller.metrics["bringup_notices_round_seconds"] > 0
    monkeypatch.setattr(module, "ask", real)
    api.workloads = [ended("before")]
    controller.round()
    assert hooks["research"].taken == [], "what ended before the first look is no news"


def test_a_configuration_that_was_never_good_is_a_round_that_never_was(controller: Controller) -> None:
    (controller.folder / "notices.prom").unlink()
    controller.config["default"] = "ftp://chat.example/"
    controller.round(code=1)
    assert controller.metrics == {"bringup_notices_round_seconds": 0}


@pytest.mark.parametrize(
    "odd",
    [
        None,
        {},
        {"metadata": {"uid": "x y", "namespace": "research", "name": "a"}},
        {"metadata": {"uid": "odd", "namespace": "a\nb", "name": "a"}, "status": {}},
        {"metadata": {"uid": "odd", "namespace": "research", "name": "a"}, "status": {"conditions": [7]}},
        ended("odd", reason="<!channel>"),
        workload("odd", evicted={"Preempted": -1}),
        workload("odd", evicted={"Preempted": 1 << 40}),
        {**workload("odd"), "status": {"schedulingStats": {"evictions": [{"reason": "A", "count": True}]}}},
    ],
)
def test_a_workload_that_cannot_be_read_keeps_no_other_from_being_told(
    odd: Any, controller: Controller, api: Api, hooks: dict[str, Hook], capsys: pytest.CaptureFixture[str]
) -> None:
    api.workloads = [odd, ended("good")]
    controller.round()
    controller.round()
    assert hooks["research"].jobs == [("end", "good")]
    assert "a workload cannot be read" in capsys.readouterr().err


def test_a_node_that_cannot_be_read_stays_as_it_was(controller: Controller, api: Api, hooks: dict[str, Hook]) -> None:
    odd = {"metadata": {"name": "gpu002"}, "spec": {"taints": [None]}, "status": {}}
    for one in (odd, node("gpu002")):
        api.nodes = [one]
        controller.round()
    assert hooks["operators"].jobs == [("node-return", "gpu002")]


def test_a_text_mentions_nobody_and_is_bounded(controller: Controller, api: Api, hooks: dict[str, Hook]) -> None:
    hostile = "<!channel> @all [look](https://evil.example) \x1b[31m\r\n" + "x" * 5000
    api.workloads = [ended("a", "Failed", hostile)]
    controller.round()
    (told,) = hooks["research"].taken
    assert told["message"].startswith("(!channel) at all (look)(https://evil.example)")
    assert len(told["message"]) <= module.MESSAGE_MAX
    for text in (told["text"], told["message"]):
        assert text.isprintable()
        assert not set("<>@[]") & set(text)


def test_lists_are_read_page_by_page(controller: Controller, api: Api, hooks: dict[str, Hook]) -> None:
    api.pages, api.asked = 3, []
    api.workloads = [ended(f"a{number}") for number in range(8)]
    controller.round()
    assert len(hooks["research"].taken) == 8
    asked = [path.partition("?")[2] for path in api.asked if path.startswith(module.WORKLOADS)]
    assert asked == ["limit=500", "limit=500&continue=3", "limit=500&continue=6"]


def test_a_list_without_an_end_is_given_up(
    controller: Controller, api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "PAGE_MAX", 5)
    monkeypatch.setattr(api, "answer", lambda path: b'{"metadata": {"continue": "again"}, "items": []}')
    controller.round()
    assert "more than 5 pages" in capsys.readouterr().err


def test_an_answer_beyond_its_bound_is_refused(
    controller: Controller, api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "BODY_MAX", 100)
    api.workloads = [ended("a")]
    before = controller.state
    controller.round()
    assert "more than 100 bytes" in capsys.readouterr().err
    assert controller.state == before


def test_what_an_older_backup_of_the_cluster_brings_back_is_not_told_again(
    controller: Controller, api: Api, hooks: dict[str, Hook]
) -> None:
    over = workload("runs", condition("Finished", "Succeeded"), evicted={"Preempted": 1})
    for seen in (over, workload("runs"), over):
        api.workloads = [seen]
        controller.round()
    assert hooks["research"].jobs == [("requeue", "runs"), ("end", "runs")]


def test_nobody_at_the_drills_address_is_no_failure(controller: Controller, api: Api, hooks: dict[str, Hook]) -> None:
    with serving(Quiet) as port:
        pass  # nobody listens there now
    controller.config["drill"]["url"] = f"http://127.0.0.1:{port}/"
    api.workloads, api.nodes = [ended("a", account="commissioning")], [node("gpu002")]
    controller.round()
    assert controller.state["waiting"] == []
    assert controller.state["failing"] == {}
    assert hooks["operators"].jobs == [("node-return", "gpu002")]


def test_events_are_given_up_after_a_day_and_counted(
    controller: Controller, api: Api, hooks: dict[str, Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks["research"].status = 500
    api.workloads = [ended("a"), ended("b")]
    controller.round()
    later = time.time() + module.KEPT_S + 1
    monkeypatch.setattr(module.time, "time", lambda: later)
    controller.round()
    assert controller.state["waiting"] == []
    assert controller.metrics['bringup_notices_dropped{hook="account:research"}'] == 2


def test_no_more_events_wait_than_the_bound(
    controller: Controller, api: Api, hooks: dict[str, Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 20)
    hooks["research"].status = 500
    api.workloads = [ended(f"a{number}") for number in range(50)]
    controller.round()
    waiting = [one["event"]["job"] for one in controller.state["waiting"]]
    assert waiting == [f"a{number}" for number in range(30, 50)]
    assert controller.metrics['bringup_notices_dropped{hook="account:research"}'] == 30


def test_a_hook_that_is_no_more_configured_leaves_nothing(
    controller: Controller, api: Api, hooks: dict[str, Hook]
) -> None:
    hooks["research"].status = 500
    api.workloads = [ended("a")]
    controller.round()
    controller.config |= {"accounts": {}, "default": None}
    controller.round()
    assert (controller.state["waiting"], controller.state["failing"]) == ([], {})
    assert not [name for name in controller.metrics if "research" in name]


BAD_URLS = [
    "",
    "ftp://example.org/secret",
    "https://",
    "https://user:secret@example.org/",
    "https://a b/secret",
    "https://h:0/secret",
    7,
    None,
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_what_is_no_webhook_is_refused_by_its_accounts_name(
    url: Any, controller: Controller, capsys: pytest.CaptureFixture[str]
) -> None:
    controller.config["accounts"]["research"] = url
    controller.round(code=1)
    said = capsys.readouterr().err
    assert said.startswith("the webhook of research is no http or https URL")
    assert "secret" not in said.replace("correct its secret", "")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"accounts": {}, "names": ["a b"]}'])
def test_a_configuration_that_is_none_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "notices.json"
    path.write_text(content)
    with pytest.raises(module.ConfigError, match="not the configuration that the role writes"):
        module.configured(path)


def test_failures_of_hooks_are_said_without_their_urls(
    controller: Controller, api: Api, hooks: dict[str, Hook], capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Quiet) as port:
        pass
    for url in (
        f"http://127.0.0.1:{port}/secret",
        "http://host.invalid/secret",
        f"https://127.0.0.1:{controller.port}/secret",
    ):
        controller.config["accounts"]["research"] = url
        api.workloads = [*api.workloads, ended(f"a{len(api.workloads)}")]
        controller.round()
        said = capsys.readouterr().err
        assert said.startswith("account:research: ")
        for part in ("secret", "127.0.0.1", "host.invalid"):
            assert part not in said


def test_a_hook_over_tls_is_verified(
    controller: Controller,
    api: Api,
    server_tls: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hook = Hook()
    with serving(hook.handler, server_tls) as port:
        controller.config["accounts"]["research"] = f"https://127.0.0.1:{port}/"
        api.workloads = [ended("a")]
        controller.round()
        assert hook.taken == []
        assert "SSLCertVerificationError" in capsys.readouterr().err
        monkeypatch.setenv("SSL_CERT_FILE", str(controller.folder / "ca.crt"))
        controller.round()
    assert hook.jobs == [("end", "a")]


def test_the_api_server_is_verified_and_asked_with_the_own_certificate(
    controller: Controller, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    (controller.folder / "ca.crt").write_bytes(issue("another").pem)
    controller.round()
    assert "CERTIFICATE_VERIFY_FAILED" in capsys.readouterr().err
    (controller.folder / "notices.pem").unlink()
    controller.round()
    assert "API server: " in capsys.readouterr().err


def test_the_metrics_say_when_the_last_round_was(controller: Controller) -> None:
    assert 0 <= time.time() - controller.metrics["bringup_notices_round_seconds"] < MAX_S
    assert not [name for name in controller.metrics if "drill" in name or "commissioning" in name]
