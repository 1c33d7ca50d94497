"""A controller without its API server, or its member of etcd: what is done, what is undone, and what is wrong with the result."""

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from capacity.model import Plan
from network.drivers.errors import BadAnswer
from network.drivers.ssh import Completed, SshHost
from tests.plans import plan_of
from validation import from_raw, kube
from validation.facts import etcd
from validation.facts.kube import ApiServer
from validation.register import register_for
from validation.runners import control_plane
from validation.runners.control_plane import Member
from validation.runners.kubernetes import Kubernetes

NODES = ["gpu001", "gpu002", "gpu003", "gpu004"]
SERVED: dict[str, Any] = {
    "nodes": 4,
    "calls": 60,
    "failed": 0,
    "not_ready": [],
    "silent": [],
    "start_s": 18.2,
    "away_s": 31.0,
    "back_s": 6.5,
    "why": "",
}
KEPT: dict[str, Any] = {
    "members": 3,
    "leader": True,
    "written": 118,
    "while_away": 40,
    "refused": 2,
    "lost": [],
    "lost_by_member": [],
    "back_s": 3.1,
    "why": "",
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab-kubernetes")


def test_others_that_serve_on_pass_and_so_do_objects_that_are_all_there(plan: Plan) -> None:
    assert kube.served_on(SERVED, plan)[1] == []
    value, problems = kube.nothing_lost(KEPT)
    assert (value["lost"], value["leader"], problems) == (0, True, [])


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"failed": 2}, "2 of 60 calls to the other API servers failed"),
        ({"nodes": 3}, "the others know 3 nodes, planned 4"),
        ({"not_ready": ["gpu002"]}, "not ready meanwhile: gpu002"),
        ({"silent": ["gpu001", "gpu003"]}, "did not report to the others: gpu001, gpu003"),
        ({"start_s": None, "away_s": 90}, "a new pod did not start within 90 s"),
        ({"start_s": 61}, "started after 61 s, expected 60 s at most"),
        ({"back_s": 121}, "not ready 121 s after its start"),
        ({"why": "the API server of ctl02 is not ready"}, "the API server of ctl02"),
    ],
)
def test_what_is_wrong_without_an_api_server_is_said(changed: dict[str, Any], why: str, plan: Plan) -> None:
    assert why in kube.served_on(SERVED | changed, plan)[1][0]
    again = from_raw.computed("P-08.measured", "ctl01", plan, json.dumps(SERVED | changed).encode())
    assert isinstance(again, from_raw.Again)
    assert why in again.problems[0]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"lost": ["kept-b03"]}, "1 objects are lost: kept-b03"),
        ({"lost_by_member": ["kept-c01", "kept-c02"]}, "lacks 2 objects: kept-c01; kept-c02"),
        ({"while_away": 0, "members": 2}, "none of 2 members took an object while one was away"),
        ({"back_s": 121}, "did not have all objects 121 s after its start"),
        ({"why": "ctl02 is not ready again"}, "ctl02 is not ready again"),
    ],
)
def test_what_is_wrong_without_a_member_of_etcd_is_said(changed: dict[str, Any], why: str, plan: Plan) -> None:
    assert why in kube.nothing_lost(KEPT | changed)[1][0]
    again = from_raw.computed("P-09.measured", "ctl01", plan, json.dumps(KEPT | changed).encode())
    assert isinstance(again, from_raw.Again)
    assert why in again.problems[0]


def test_a_site_with_one_controller_has_neither_to_prove(plan: Plan) -> None:
    register = register_for(plan.site)
    for item in ("P-08.measured", "P-09.measured"):
        assert register.items[item].subjects == ("redundant_controllers",)
        assert register.subjects(register.items[item], plan) == []


class Site:
    """Three controllers and four nodes. Every look at the leases finds them renewed."""

    def __init__(self) -> None:
        self.down: dict[str, set[str]] = {name: set() for name in ("ctl01", "ctl02", "ctl03")}
        self.history: list[tuple[str, str, tuple[str, ...]]] = []
        self.pods, self.maps = dict[str, Any](), dict[str, Any]()
        self.reports, self.silent, self.not_ready, self.unfit = 0, set[str](), set[str](), set[str]()
        self.placed = set[str]()
        self.lost_by_member = ""
        self.fails = ""

    def members(self) -> list[Member]:
        return [Member(cast(SshHost, Controller(self, name)), ApiServer(Api(self, name), name)) for name in self.down]

    def engine(self) -> Kubernetes:
        hosts = {name: cast(SshHost, None) for name in NODES}
        return Kubernetes(Api(self, "ctl01"), cast(SshHost, Controller(self, "ctl01")), hosts, {}, "training")

    def body(self, verb: str, path: str, given: Any) -> Any:
        where, _, query = path.partition("?")
        name = where.rpartition("/")[2]
        if where == "/readyz":
            return "ok"
        if where.startswith("/api/v1/nodes"):
            ready = [
                {
                    "metadata.name": one,
                    "metadata.annotations": {},
                    "metadata.resourceVersion": "1",
                    "spec.taints": [{"key": "bringup.local/out-of-service"}] if one in self.unfit else [],
                    "spec.unschedulable": False,
                    "status.conditions": [{"type": "Ready", "status": "False" if one in self.not_ready else "True"}],
                }
                for one in NODES
            ]
            return {"items": ready} if name == "nodes" else {"status.images": [{"names": ["registry.k8s.io/pause:3"]}]}
        if "leases" in where:
            self.reports += 1
            times = {one: 0 if one in self.silent else self.reports for one in NODES}
            return {"items": [{"metadata.name": one, "spec.renewTime": str(at)} for one, at in times.items()]}
        kept = self.maps if "configmaps" in where else self.pods
        if verb == "POST":
            kept[given["metadata"]["name"]] = given
            self.placed |= set(given.get("spec", {}).get("nodeSelector", {}).values())
        elif verb == "DELETE":
            kept.clear()
        elif query:
            return {"items": [{"metadata.name": one} for one in kept]}
        return {"kind": "x", "status.phase": "Running"}


class Api:
    """An API server, which is away while it or its member of etcd is down."""

    def __init__(self, site: Site, name: str) -> None:
        self.site, self.name = site, name

    def __call__(self, calls: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return [self.answer(one) for one in calls]

    def answer(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.site.down[self.name] or (self.site.fails and self.site.fails in call["path"]):
            return {"status": 0, "body": None, "error": "connection refused"}
        body = self.site.body(call["verb"], call["path"], call.get("body"))
        return {"status": 201 if call["verb"] == "POST" else 200, "body": body, "error": ""}


class Controller:
    """A machine whose units are killed and started."""

    def __init__(self, site: Site, name: str) -> None:
        self.site, self.name = site, name

    def run(self, command: str) -> Completed:
        units = tuple(dict.fromkeys(re.findall(r"([a-z-]+)\.service", command)))
        verb = "kill" if "systemctl kill --signal=KILL" in command else "start"
        assert verb == "kill" or "systemctl start --no-block" in command
        self.site.history.append((self.name, verb, units))
        self.site.down[self.name] = set(units) if verb == "kill" else set()
        return Completed(0, "", "", 0.0)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site()

    def member(plan: Plan, controller: str, prefix: str) -> etcd.Own:
        names = [name for name in made.maps if name != made.lost_by_member or controller != "ctl02"]
        return {"leader": controller == "ctl01", "names": names}

    monkeypatch.setattr(etcd, "member", member)
    for name, seconds in (("POLL_S", 0.001), ("KILL_AFTER_S", 0.001), ("AWAY_S", 0.5), ("BACK_S", 0.5)):
        monkeypatch.setattr(control_plane, name, seconds)
    return made


def test_api_servers_are_killed_one_after_the_other_and_started_again(site: Site, plan: Plan) -> None:
    said = control_plane.lose_api_servers(site.members(), site.engine())
    assert [kube.served_on(one, plan)[1] for one in said.values()] == [[], [], []]
    assert [(name, verb) for name, verb, _ in site.history] == [
        (name, verb) for name in site.down for verb in ("kill", "start")
    ]
    assert {units for _, _, units in site.history} == {control_plane.API_SERVER}
    assert site.pods == {}


def test_nodes_that_do_not_report_and_are_not_ready_are_named(site: Site) -> None:
    site.silent, site.not_ready = {"gpu003"}, {"gpu004"}
    said = control_plane.lose_api_servers(site.members(), site.engine())["ctl02"]
    assert (said["silent"], said["not_ready"]) == (["gpu003"], ["gpu004"])


def test_the_pod_is_for_a_node_that_takes_pods_and_where_there_is_none_nothing_is_killed(site: Site) -> None:
    site.unfit = {"gpu001", "gpu004"}
    control_plane.lose_api_servers(site.members(), site.engine())
    assert site.placed == {"gpu003"}
    site.history, site.unfit = [], set(NODES)
    with pytest.raises(BadAnswer, match="a GPU node that takes pods"):
        control_plane.lose_api_servers(site.members(), site.engine())
    assert site.history == []


def test_none_is_killed_while_another_is_away(site: Site) -> None:
    site.down["ctl03"] = {"kube-apiserver"}
    said = control_plane.lose_api_servers(site.members(), site.engine())
    assert all("the API server of ctl03 is not ready" in one["why"] for one in said.values())
    assert site.history == []


def test_an_api_server_is_started_again_where_the_others_fail(site: Site, plan: Plan) -> None:
    site.fails = "leases"
    said = control_plane.lose_api_servers(site.members(), site.engine())
    assert "calls to the other API servers failed" in kube.served_on(said["ctl01"], plan)[1][0]
    assert not any(site.down.values())


def test_members_of_etcd_are_killed_while_objects_are_made_and_lose_none(site: Site, plan: Plan) -> None:
    said = control_plane.lose_etcd(plan, site.members())
    assert [kube.nothing_lost(one)[1] for one in said.values()] == [[], [], []]
    assert [one["leader"] for one in said.values()] == [True, False, False]
    assert said["ctl01"]["written"] == 3 * control_plane.WRITES
    assert {units for _, _, units in site.history} == {control_plane.ETCD}
    assert (site.maps, list(filter(None, site.down.values()))) == ({}, [])


def test_what_a_member_lacks_when_it_is_back_is_named(site: Site, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=0))
    site.lost_by_member = "bringup-kept-00000000-b05"
    said = control_plane.lose_etcd(plan, site.members())
    assert said["ctl02"]["lost_by_member"] == [site.lost_by_member]
    assert said["ctl03"]["lost_by_member"] == []


def test_a_member_is_started_again_where_the_others_fail(site: Site, plan: Plan) -> None:
    site.fails = "labelSelector"
    with pytest.raises(BadAnswer, match="connection refused"):
        control_plane.lose_etcd(plan, site.members())
    assert site.history[-1][:2] == ("ctl01", "start")
    assert not any(site.down.values())
