"""Whether events of jobs and nodes are told, each once: a listener on the controller that tells them, and acts that make some.

    files(plan)                               # by controller, what is there of the program that sends (notices_drill.py)
    ask(plan, over_ssh(plan), at(plan), back) # plain data; DeviceError where controller or API server do not answer

Events of acceptance's account, and of nodes, are also sent to an address of the controller itself (cluster.NOTICES_DRILL), where
nobody listens but this trial. Jobs without work in the namespace `commissioning`, below every tier: one that ends well, one that
fails, and one that Kueue evicts and queues again, since another one needs its node. All are deleted at the end.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from capacity.model import Plan
from capacity.services.cluster import NOTICES_DRILL
from capacity.services.slurm import CHECK_ACCOUNT
from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.errors import BadAnswer, DeviceError
from validation.facts.gangs import POLL_S, START_S, Site
from validation.facts.kube import CallApi, controller, controller_of, controllers_of
from validation.facts.kueue import workloads
from validation.facts.quotas import BELOW_ALL
from validation.facts.reclaim import LEAST_BUT_ONE

PROGRAM = Path(__file__).with_name("notices_drill.py").read_text()
ENDS, FAILS, HOLDS, TAKES = (
    "bringup-notice-ends",
    "bringup-notice-fails",
    "bringup-notice-holds",
    "bringup-notice-takes",
)
JOBS = (ENDS, FAILS, HOLDS, TAKES)
FAIL_S = 10
"""How long the Job may run that fails: its pods end by themselves only at the end of it."""
ARRIVE_S = 60.0
"""From an event until its notice is there: a round of the program each 15 s, and 45 s for a busy machine. A choice of ours."""
LATE_S = 40.0
"""How long is looked for a second notice of the same event: two rounds and 10 s."""
SETTLE_S = 30.0
"""How long is waited first, so that a node which came back before is told before: two rounds."""
LISTEN_S = 1800.0
"""The most that a listener stays: the trial of a node (600 s), three waits for Jobs, and half as much again."""
ASK_S = 30.0
FIELDS = ("metadata.ownerReferences", "status.conditions", "status.schedulingStats")
FINISHED = "Finished"
CONFIG, STATE = "/etc/bringup/notices.json", "/var/lib/bringup-notices"
METRICS = "/var/lib/prometheus/node-exporter/bringup-notices.prom"
PRIVATE = {CONFIG: "0600", STATE: "0700", f"{STATE}/state.json": "0600", "/etc/kubernetes/pki/notices.pem": "0600"}
"""What root alone may read, with its mode."""
OTHERS = (
    "/etc/systemd/system/bringup-notices.timer",
    "/etc/systemd/system/bringup-notices.service",
    "/usr/local/libexec/bringup/kubernetes_notices.py",
)
At = Callable[[Mapping[str, Any]], Any]
"""Requests to notices_drill.py on a controller, and its answers."""


def at(plan: Plan, name: str = "") -> At:
    """notices_drill.py on a controller, by default the first one, which tells events."""
    host = controller(plan, name)
    python = ("python3",) if plan.site.credentials.ssh.user == "root" else ("sudo", "-n", "python3")

    def run(request: Mapping[str, Any]) -> Any:
        what = f"notices: {request['act']}"
        budget_s = ASK_S + plan.site.timeouts.ssh_s
        said = host.program(PROGRAM, dict(request), python=python, budget_s=budget_s, operation=what)
        if not isinstance(said, Mapping) or "error" in said:
            seen = str(said.get("error")) if isinstance(said, Mapping) else "none"
            step = "systemctl status bringup-notices.timer there; ss -ltnp says who listens"
            raise BadAnswer(host.name, what, "an answer", answers.line(seen[:200]), step)
        return said

    return run


def files(plan: Plan) -> dict[str, Any]:
    """By controller: units, files and hooks of the program that sends."""
    request = {"act": "files", "paths": [*PRIVATE, *OTHERS], "config": CONFIG, "metrics": METRICS}
    return {name: at(plan, name)(request) for name in controllers_of(plan)}


def ask(
    plan: Plan,
    call: CallApi,
    on_controller: At,
    back: Callable[[], str],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """What happened and what was told of it. back: takes a node out of service and back, and gives its name.

    jobs: {Job: {"finished": Kueue's reason or '', "evictions": {reason: how often}}}; node: that one; why: Kueue's words where no
    node was free. heard: each notice, with the seconds since this trial saw its cause (after_s, None for one without).
    """
    watch = Watch(Site(plan, call, sleep), on_controller, clock)
    sleep(SETTLE_S)
    with listening(on_controller), watch.site.priority(BELOW_ALL) as low, watch.site.priority(LEAST_BUT_ONE) as high:
        node = back()
        watch.seen["node-return", node] = [clock()]
        lower, higher = watch.site.of(CHECK_ACCOUNT, low), watch.site.of(CHECK_ACCOUNT, high)
        with lower.job(ENDS, 1, gpus=1, succeeds=True), lower.job(FAILS, 1, gpus=1, limit_s=FAIL_S):
            watch.until(lambda: all(watch.jobs[name]["finished"] for name in (ENDS, FAILS)), sleep)
            with lower.job(HOLDS, 1, gpus=lower.largest):
                lower.until(HOLDS, 1)
                _, nodes, why = lower.seen(HOLDS)
                with contextlib.ExitStack() as stack:
                    if nodes:
                        stack.enter_context(higher.job(TAKES, 1, gpus=lower.largest, node=nodes[0]))
                        watch.until(lambda: bool(watch.jobs[HOLDS]["evictions"]), sleep)
                    watch.until(watch.complete, sleep, ARRIVE_S)
                    sleep(LATE_S)
                    watch.look()
                    return {"jobs": watch.jobs, "node": node, "why": why, "heard": watch.heard()}


@contextlib.contextmanager
def listening(on_controller: At) -> Iterator[None]:
    """A listener on the controller while the body runs."""
    port = urlsplit(NOTICES_DRILL).port
    with contextlib.suppress(DeviceError):  # one that an earlier trial left
        on_controller({"act": "stop", "port": port})
    on_controller({"act": "listen", "port": port, "budget_s": LISTEN_S})
    try:
        yield
    finally:
        with contextlib.suppress(DeviceError):  # it ends by itself as well
            on_controller({"act": "stop", "port": port})


class Watch:
    """What Kueue says of the Jobs, when this was seen, and what was told.

    seen: {(event, Job or node): when each was seen, by `clock`}.
    """

    def __init__(self, site: Site, on_controller: At, clock: Callable[[], float]) -> None:
        self.site, self._on_controller, self._clock = site, on_controller, clock
        self.jobs: dict[str, dict[str, Any]] = {name: {"finished": "", "evictions": {}} for name in JOBS}
        self.seen: dict[tuple[str, str], list[float]] = {}

    def until(self, what: Callable[[], bool], sleep: Callable[[float], None], within_s: float = START_S) -> None:
        """Look until it is so, or the time is up."""
        for _ in range(int(within_s / POLL_S)):
            self.look()
            if what():
                return
            sleep(POLL_S)

    def look(self) -> None:
        """Ask Kueue for the state of the Jobs."""
        (body,) = self.site.ask({"verb": "GET", "path": workloads(CHECK_ACCOUNT), "fields": FIELDS})
        now = self._clock()
        with self.site.reading("read the workloads of the trial"):
            for one in body["items"]:
                owners = [owner["name"] for owner in one["metadata.ownerReferences"] or ()]
                for name in (name for name in JOBS if name in owners):
                    self._note(name, one, now)

    def _note(self, name: str, one: Mapping[str, Any], now: float) -> None:
        told = self.jobs[name]
        for condition in one["status.conditions"] or ():
            if (condition["type"], condition["status"]) == (FINISHED, "True") and not told["finished"]:
                told["finished"] = str(condition["reason"])
                self.seen.setdefault(("end" if told["finished"] == "Succeeded" else "fail", name), []).append(now)
        for eviction in (one["status.schedulingStats"] or {}).get("evictions") or ():
            reason, count = str(eviction["reason"]), int(eviction["count"])
            before = told["evictions"].get(reason, 0)
            told["evictions"][reason] = max(before, count)
            self.seen.setdefault(("requeue", name), []).extend([now] * (count - before))

    def complete(self) -> bool:
        """Whether something was told of all that was seen."""
        heard = [(one["event"], one["job"] or one["node"]) for one in self._raw()["heard"]]
        return all(heard.count(what) >= len(times) for what, times in self.seen.items())

    def _raw(self) -> Mapping[str, Any]:
        source = Source(controller_of(self.site.plan), "hear notices", "run the trial again")
        said = self._on_controller({"act": "heard", "port": urlsplit(NOTICES_DRILL).port})
        with answers.reading(source, "notices as notices_drill.py has them"):
            return {"now_s": float(said["now_s"]), "heard": [dict(one) for one in said["heard"]]}

    def heard(self) -> list[dict[str, Any]]:
        """Notices about the Jobs and about nodes, in the order in which they came."""
        said = self._raw()
        offset = self._clock() - said["now_s"]
        times = {what: sorted(own) for what, own in self.seen.items()}
        found = []
        for one in said["heard"]:
            what = (one["event"], one["job"] or one["node"])
            if one["node"] or one["job"] in JOBS:
                cause = times[what].pop(0) if times.get(what) else None
                after_s = None if cause is None else max(0.0, round(offset + float(one["at_s"]) - cause, 1))
                kept = {name: str(one[name]) for name in ("id", "event", "job", "node", "account", "reason")}
                found.append({**kept, "after_s": after_s})
        return found
