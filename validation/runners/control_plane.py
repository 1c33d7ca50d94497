"""What a control plane of several controllers does without one of them: each in turn loses its API server, or its member of etcd.

    members = members_of(plan)                    # the controllers, each with its own API server
    said = lose_api_servers(members, engine)      # {controller: what was asked of the others meanwhile}
    said = lose_etcd(plan, members)               # {controller: what was written meanwhile, and where it is}

The program is killed, as when a machine ends, and started again afterwards, by the host itself where nobody is left to do it
(`platform_trials.without`). None is stopped while another does not answer. Raise DeviceError where a controller cannot be reached.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from capacity.model import Plan
from capacity.services.platform.topology import PREFIX
from capacity.services.slurm import CHECK_ACCOUNT
from network.drivers.answers import Flag, Line, Number, Whole
from network.drivers.errors import DeviceError
from network.drivers.ssh import SshHost
from validation.facts import etcd, kube
from validation.facts.kube import NODES, ApiServer
from validation.progress import note
from validation.runners.kubernetes import PODS, Kubernetes
from validation.runners.platform_trials import READY, last_ready, without
from validation.runners.pods import node_pod

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
MAPS = f"/api/v1/namespaces/{CHECK_ACCOUNT}/configmaps"
OF_TRIAL = f"{PREFIX}/kept"
"""Label of the objects of one trial."""
RENEWALS = 2
"""Reports of a kubelet that have to come while an API server is away: the first may have been on its way."""
AWAY_S = 90.0
"""Until all nodes have reported that often, every 10 s, and a pod has started, for which another scheduler takes over after at most
17 s (kube-scheduler 1.36, --leader-elect-lease-duration, --leader-elect-retry-period). A choice of ours."""
BACK_S = 180.0
POLL_S = 1.0
CALLS_S = 30.0
"""All calls of one question. A choice of ours."""
WRITES = 40
"""Objects of one of three rounds: before, as the member is killed, and while it is away."""
KILL_AFTER_S = 0.3
"""From the begin of the second round to the kill. A choice of ours; that a write was under way then is not shown."""
API_SERVER = ("kube-scheduler", "kube-controller-manager", "kube-apiserver")
"""With the API server of a controller go those that ask it alone."""
ETCD = ("etcd",)


@dataclass(frozen=True)
class Member:
    """A controller, and its API server as it is asked from there."""

    host: SshHost
    api: ApiServer

    @property
    def name(self) -> str:
        return self.host.name


class Served(TypedDict):
    """What the others did while the API server of a controller was away: calls asked of them and how many failed, nodes that were
    not ready at some time, nodes that reported less than RENEWALS times, seconds until a new pod ran (None: it did not), seconds
    that it was away and until it was ready again. `why`: what kept the trial from being made.
    """

    nodes: Whole
    calls: Whole
    failed: Whole
    not_ready: list[Line]
    silent: list[Line]
    start_s: Number | None
    away_s: Number
    back_s: Number
    why: Line


class Kept(TypedDict):
    """Objects of three rounds, the second as a member of etcd was killed, the third while it was away: how many the API server took
    and refused, and took of the third; those that it does not have any more; those that the member does not have once it is back,
    after `back_s`. `leader`: whether that member led the others.
    """

    members: Whole
    leader: Flag
    written: Whole
    while_away: Whole
    refused: Whole
    lost: list[Line]
    lost_by_member: list[Line]
    back_s: Number
    why: Line


def members_of(plan: Plan) -> list[Member]:
    """The controllers of a plan."""
    return [
        Member(kube.controller(plan, name), ApiServer(kube.over_ssh(plan, CALLS_S, name), name))
        for name in kube.controllers_of(plan)
    ]


# ---- an API server ------------------------------------------------------------------------------------------------------------
def lose_api_servers(members: Sequence[Member], engine: Kubernetes) -> dict[str, Served]:
    """By controller, one after the other. A pod is started meanwhile on a node that takes pods; BadAnswer where there is none."""
    node = last_ready(engine, "kill an API server")
    said: dict[str, Served] = {}
    for member in members:
        others = [one for one in members if one is not member]
        if why := _unready(members):
            said[member.name] = Served(
                nodes=0, calls=0, failed=0, not_ready=[], silent=[], start_s=None, away_s=0, back_s=0, why=why
            )
            continue
        note(f"{member.name}: its API server is killed")
        said[member.name] = _without_api_server(member, others, node)
    return said


def _without_api_server(member: Member, others: Sequence[Member], node: str) -> Served:
    name = f"bringup-served-{uuid.uuid4().hex[:8]}"
    asked = others[0].api
    made = node_pod(node, name, ["/bin/sleep", f"{int(AWAY_S)}"], asked.image([node]), limit_s=2 * AWAY_S)
    watch = _Watch()
    try:
        with without(member.host, API_SERVER, kill=True):
            began = time.monotonic()
            watch.ask(asked, {"verb": "POST", "path": PODS, "body": made, "only": ("metadata.name",)})
            while time.monotonic() - began < AWAY_S:
                for other in others:
                    watch.look(other.api)
                pod = watch.ask(asked, {"verb": "GET", "path": f"{PODS}/{name}", "only": ("status.phase",)})
                if watch.start_s is None and pod is not None and pod.get("status.phase") == "Running":
                    watch.start_s = round(time.monotonic() - began, 1)
                if watch.start_s is not None and not watch.silent:
                    break
                time.sleep(POLL_S)
            away_s = round(time.monotonic() - began, 1)
        back_s = _until(lambda: not _unready([member]))
    finally:
        with contextlib.suppress(DeviceError):  # the pod ends by itself
            path = f"{PODS}/{name}?gracePeriodSeconds=0"
            asked.ask({"verb": "DELETE", "path": path, "only": ("kind",)}, accept=(200, 202, 404))
    return Served(
        nodes=len(watch.renewals),
        calls=watch.calls,
        failed=watch.failed,
        not_ready=sorted(watch.not_ready),
        silent=watch.silent,
        start_s=watch.start_s,
        away_s=away_s,
        back_s=back_s,
        why="",
    )


class _Watch:
    """What the other API servers say meanwhile."""

    def __init__(self) -> None:
        self.calls = self.failed = 0
        self.not_ready = set[str]()
        self.renewals: dict[str, list[str]] = {}
        self.start_s: float | None = None

    @property
    def silent(self) -> list[str]:
        """Nodes whose reports are too few; the first that was seen came before."""
        return sorted(name for name, times in self.renewals.items() if len(times) <= RENEWALS)

    def ask(self, api: ApiServer, call: Mapping[str, Any]) -> Any:
        """The body of an answer; None where there was none, which is counted."""
        self.calls += 1
        try:
            (body,) = api.ask(call)
        except DeviceError:
            self.failed += 1
            return None
        return body

    def look(self, api: ApiServer) -> None:
        """At all nodes and their reports."""
        nodes = self.ask(api, {"verb": "GET", "path": NODES, "fields": ("metadata.name", "status.conditions")})
        leases = self.ask(api, {"verb": "GET", "path": LEASES, "fields": ("metadata.name", "spec.renewTime")})
        with api.reading("read nodes and their leases"):
            for one in (nodes or {"items": ()})["items"]:
                states = {state["type"]: state["status"] for state in one["status.conditions"] or ()}
                self.renewals.setdefault(str(one["metadata.name"]), [])
                if states.get(READY) != "True":
                    self.not_ready.add(str(one["metadata.name"]))
            for one in (leases or {"items": ()})["items"]:
                times, at = self.renewals.get(str(one["metadata.name"])), str(one["spec.renewTime"])
                if times is not None and at not in times:
                    times.append(at)


# ---- a member of etcd ---------------------------------------------------------------------------------------------------------
def lose_etcd(plan: Plan, members: Sequence[Member]) -> dict[str, Kept]:
    """By controller, one after the other."""
    said: dict[str, Kept] = {}
    for member in members:
        others = [one for one in members if one is not member]
        if why := _unready(members):
            said[member.name] = Kept(
                members=len(members),
                leader=False,
                written=0,
                while_away=0,
                refused=0,
                lost=[],
                lost_by_member=[],
                back_s=0,
                why=why,
            )
            continue
        note(f"{member.name}: its member of etcd is killed")
        said[member.name] = _without_member(plan, member, others)
    return said


def _without_member(plan: Plan, member: Member, others: Sequence[Member]) -> Kept:
    run, api = uuid.uuid4().hex[:8], others[0].api
    prefix = f"/registry/configmaps/{CHECK_ACCOUNT}/bringup-kept-{run}-"
    chosen = f"{MAPS}?labelSelector={OF_TRIAL}%3D{run}"
    written, refused = set[str](), 0
    leader = etcd.member(plan, member.name, prefix)["leader"]

    def write(part: str) -> int:
        """Objects that were taken of one round."""
        nonlocal refused
        names = [f"bringup-kept-{run}-{part}{number:02d}" for number in range(WRITES)]
        answers = api.call(
            [{"verb": "POST", "path": MAPS, "body": _map(name, run), "only": ("kind",)} for name in names]
        )
        taken = [name for name, answer in zip(names, answers, strict=True) if answer.get("status") == 201]
        refused += len(names) - len(taken)
        written.update(taken)
        return len(taken)

    try:
        write("a")
        with ThreadPoolExecutor(1) as pool:
            at_the_end = pool.submit(write, "b")
            time.sleep(KILL_AFTER_S)
            with without(member.host, ETCD, kill=True):
                at_the_end.result()
                while_away = write("c")
                (body,) = api.ask({"verb": "GET", "path": chosen, "fields": ("metadata.name",)})
                with api.reading("list ConfigMaps"):
                    lost = sorted(written - {str(one["metadata.name"]) for one in body["items"]})
        own = _Own(plan, member.name, prefix, written)
        back_s = _until(own.complete)
    finally:
        api.ask({"verb": "DELETE", "path": chosen, "only": ("kind",)})
    return Kept(
        members=len(others) + 1,
        leader=leader,
        written=len(written),
        while_away=while_away,
        refused=refused,
        lost=lost,
        lost_by_member=sorted(own.missing),
        back_s=back_s,
        why="" if _until(lambda: not _unready([member])) < BACK_S else f"{member.name} is not ready again",
    )


def _map(name: str, run: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {OF_TRIAL: run}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"name": name}}


class _Own:
    """What the member that was lost has itself, without asking the others."""

    def __init__(self, plan: Plan, controller: str, prefix: str, written: set[str]) -> None:
        self.plan, self.controller, self.prefix, self.missing = plan, controller, prefix, written

    def complete(self) -> bool:
        """Whether it has all that was written."""
        try:
            has = etcd.member(self.plan, self.controller, self.prefix)["names"]
        except DeviceError:
            return False
        self.missing = self.missing - set(has)
        return not self.missing


# ---- both ---------------------------------------------------------------------------------------------------------------------
def _unready(members: Sequence[Member]) -> str:
    """Which of these controllers' API servers say that they are not ready, as a sentence; '' where all are."""
    silent = []
    for member in members:
        try:
            member.api.ask({"verb": "GET", "path": "/readyz", "text": True})
        except DeviceError:
            silent.append(member.name)
    return f"the API server of {', '.join(silent)} is not ready: no other is taken away" if silent else ""


def _until(holds: Callable[[], bool]) -> float:
    """Seconds until it holds; BACK_S or more where the budget is spent."""
    began = time.monotonic()
    while not holds() and time.monotonic() - began < BACK_S:
        time.sleep(POLL_S)
    return round(time.monotonic() - began, 1)
