"""Names that pods of GPU nodes ask for: what is asked, what pods may say, and what is wrong with it."""

import json
import socket
from typing import Any, cast

import pytest

from capacity.model import Plan
from network.drivers.ssh import SshHost
from tests.plans import plan_of
from tests.validation.test_granted import Api
from validation import from_raw, kube
from validation.runners import lookups
from validation.runners.kubernetes import Kubernetes
from validation.workloads import names as in_pod

NODE = "gpu001"
TIMES = {"began": "2026-11-30T12:00:10Z", "ended": "2026-11-30T12:00:11Z"}
GOOD: dict[str, Any] = {"servers": ["10.96.0.10"], "addresses": ["10.96.0.1"], "took_ms": 3, "why": "", **TIMES}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab-kubernetes")


class Named(Api):
    """Pods that end at once with this message."""

    def __init__(self, message: str) -> None:
        super().__init__()
        self.message = message

    def shown(self, made: Any) -> dict[str, Any]:
        ended = {"message": self.message, "startedAt": TIMES["began"], "finishedAt": TIMES["ended"]}
        return {**super().shown(made), "status.containerStatuses": [{"state": {"terminated": ended}}]}


def tried(api: Api, plan: Plan) -> dict[str, lookups.Lookup]:
    host = cast(SshHost, type("Controller", (), {"name": "ctl01"})())
    return lookups.try_names(plan, Kubernetes(api, host, {}, {}, "training"))


def test_a_pod_of_each_gpu_node_asks_and_is_deleted(plan: Plan) -> None:
    said = {part: value for part, value in GOOD.items() if part not in TIMES}
    api = Named(json.dumps(said))
    found = tried(api, plan)
    assert found == dict.fromkeys(("gpu001", "gpu002", "gpu003", "gpu004"), GOOD)
    assert kube.api_server_found(found[NODE]) == ({"took_ms": 3}, [])
    for pod in api.pods:
        assert "hostNetwork" not in pod["spec"], "a pod in the node's network asks the node's name servers"
        (container,) = pod["spec"]["containers"]
        assert container["command"][-1] == "kubernetes.default.svc.cluster.local."
    assert len(api.deleted) == 1


@pytest.mark.parametrize("message", ["no json", "[]", '{"addresses": "all"}', '{"servers": [["x"]]}'])
def test_a_pod_that_says_nothing_of_use_gives_the_reason(message: str, plan: Plan) -> None:
    assert "cannot be read" in kube.api_server_found(tried(Named(message), plan)[NODE])[1][0]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"servers": ["192.0.2.53"]}, "its name server is 192.0.2.53, expected 10.96.0.10"),
        ({"servers": []}, "its name server is none"),
        (
            {"addresses": ["192.0.2.1"]},
            "the API server's name has 192.0.2.1, expected 10.96.0.1: `kubectl -n kube-system",
        ),
        ({"addresses": []}, "the API server's name has no address, expected 10.96.0.1"),
        ({"addresses": [], "why": "Temporary failure"}, "has no address (Temporary failure), expected 10.96.0.1"),
        ({"began": "", "servers": [], "addresses": [], "why": "0/4 nodes are available"}, "0/4 nodes are available"),
    ],
)
def test_what_is_wrong_is_said(changed: dict[str, Any], why: str, plan: Plan) -> None:
    (problem,) = kube.api_server_found(GOOD | changed)[1]
    assert why in problem
    again = from_raw.computed("P-19.measured", NODE, plan, json.dumps(GOOD | changed).encode())
    assert isinstance(again, from_raw.Again)
    assert again.problems == [problem]


def test_the_gate_judges_again_from_the_raw_output(plan: Plan) -> None:
    again = from_raw.computed("P-19.measured", NODE, plan, json.dumps(GOOD).encode())
    assert isinstance(again, from_raw.Again)
    assert (again.value, again.problems) == ({"took_ms": 3}, [])


def test_name_servers_are_read_and_a_name_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# a comment\nsearch x.svc.cluster.local\nnameserver 10.96.0.10\nnameserver\noptions ndots:5\n"
    assert in_pod.servers(text) == ["10.96.0.10"]
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.96.0.1", 0))] * 2
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked: found)
    assert in_pod.look_up("kubernetes.")["addresses"] == ["10.96.0.1"]

    def fails(*asked: Any) -> Any:
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    said = in_pod.look_up("kubernetes.")
    assert said["addresses"] == []
    assert "Temporary failure" in str(said["why"])
