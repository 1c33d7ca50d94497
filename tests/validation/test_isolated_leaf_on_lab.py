"""A leaf of the in-band network that lost all uplinks: servers keep the shared storage by their other leaf."""

import shlex
from collections.abc import Iterator
from functools import partial

import pytest

from infra import lab
from tests.standing import Standing, until
from validation.checks.test_fabric import trunk_ports
from validation.facts.gather import address_of
from validation.facts.storage import clients

pytestmark = pytest.mark.lab

FLOWS = 16
"""Connections that spread over both leaves by their source ports."""
GLUSTERD_PORT = 24007


@pytest.fixture(autouse=True)
def repaired(standing: Standing) -> Iterator[None]:
    yield
    lab.repair(standing.name)
    settled(standing)
    standing.clear_event_logs()


CONNECT_REPEATEDLY = """import socket, sys
for _ in range(int(sys.argv[3])):
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2])), 1).close()
        print("up")
    except OSError:
        pass
"""
"""Arguments: server, port, number of connections. Prints a line for each connection made within a second."""


def connections(standing: Standing, node: str) -> int:
    """How many of FLOWS new connections from a node to the storage server come about within a second."""
    server = address_of(standing.plan, "sto01", "loopback")
    program = shlex.join(["python3", "-I", "-c", CONNECT_REPEATEDLY, server, str(GLUSTERD_PORT), str(FLOWS)])
    return standing.shell(node, program).split().count("up")


def held(standing: Standing, leaf: str) -> list[str]:
    return standing.shell(leaf, "cat /run/bringup-uplinks/held").split()


def all_reach(standing: Standing, node: str) -> bool:
    return connections(standing, node) == FLOWS


def settled(standing: Standing) -> None:
    for node in clients(standing.plan):
        until(partial(all_reach, standing, node), f"{node} does not reach sto01 by all its links")


def isolate(standing: Standing, leaf: str) -> None:
    for port in trunk_ports(standing.plan, leaf):
        lab.fault(standing.name, "link-down", [f"{leaf}:{port}"])


def leaf_of(standing: Standing, server: str) -> str:
    cables = standing.plan.cables
    return str(cables.loc[(cables["fabric"] == "inband") & (cables["a_device"] == server), "b_device"].iloc[0])


@pytest.mark.parametrize("server", ["gpu001", "sto01"])
def test_servers_of_a_leaf_without_uplinks_reach_storage_by_their_other_leaf(standing: Standing, server: str) -> None:
    leaf = leaf_of(standing, server)
    cables = standing.plan.cables
    ports = set(cables.loc[(cables["b_device"] == leaf) & (cables["stage"] == "node-leaf"), "b_port"])
    assert held(standing, leaf) == []
    isolate(standing, leaf)
    until(lambda: set(held(standing, leaf)) == ports, f"{leaf} does not hold its ports to servers down")
    settled(standing)
    for node in clients(standing.plan):
        assert standing.shell(node, "timeout 20 ls /shared").split() == ["jobs"]
    lab.repair(standing.name)
    until(lambda: held(standing, leaf) == [], f"{leaf} does not give its ports back")


def test_without_tracking_a_leaf_without_uplinks_swallows_connections(standing: Standing) -> None:
    """What the program is there for; it also shows that these connections do use both leaves."""
    leaf = leaf_of(standing, "gpu001")
    standing.shell(leaf, "kill -STOP $(cat /run/bringup-uplinks/pid)")
    try:
        isolate(standing, leaf)
        until(lambda: connections(standing, "gpu001") < FLOWS, "no connection is lost")
    finally:
        standing.shell(leaf, "kill -CONT $(cat /run/bringup-uplinks/pid)")
    settled(standing)


def test_what_a_leaf_holds_down_is_read_back(standing: Standing) -> None:
    isolate(standing, "leaf01")
    until(lambda: held(standing, "leaf01") != [], "leaf01 holds no port down")
    said = standing.facts("leaf01", "leaf02").switches
    assert said["leaf01"].data["held"] == held(standing, "leaf01")
    assert said["leaf02"].data["held"] == []
