"""S053.applied on a node of both IP families, and what of its addresses a node tells. Modelled."""

import json
from typing import Any, cast

import pytest

from network.wiring import ipv6
from tests.network import dual_stack
from validation.checks import test_nodes as nodes
from validation.facts import Answer, Facts, node_facts

PLAN = dual_stack.lab()
PLANNED = ["provisioning", "loopback", "link"]


def told(without: str = "") -> Facts:
    """What ctl01 tells: all its planned addresses but one, and a probe of the out-of-band network without an answer."""
    rows = ipv6.both(PLAN.site, PLAN.catalog, PLAN.addresses)
    mine = rows[(rows["device"] == "ctl01") & rows["network"].isin(PLANNED)]
    links: dict[str, Any] = {}
    for interface, address in mine[["interface", "address"]].itertuples(index=False, name=None):
        if address != without:
            links.setdefault(interface, {"addresses": []})["addresses"].append(address)
    probe = {"device": "gpu002", "target": "10.77.0.61", "port": 443, "seen": "no answer"}
    data = {"errors": {}, "links": links, "connects": [probe], "silent": [], "forwards": False}
    return Facts(nodes={"ctl01": Answer("ctl01", "ssh", data=data)})


def test_a_node_with_both_addresses_of_each_port_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "pkeys_of", lambda *_: ([], {}))  # of its InfiniBand ports, which have no IP addresses
    outcome = nodes.test_node_has_its_addresses_and_cannot_reach_management("ctl01", PLAN, told(), {})
    assert (outcome.passed, cast(dict[str, Any], outcome.value)["addresses"]) == (
        True,
        7,
    )  # eth0, and both families of lo, eth1 and eth2


@pytest.mark.parametrize("lacking", ["fd00:16::b/128", "172.16.0.11/32", "fd00:18::11/127"])
def test_an_address_of_either_family_that_is_missing_is_named(lacking: str) -> None:
    outcome = nodes.test_node_has_its_addresses_and_cannot_reach_management("ctl01", PLAN, told(lacking), {})
    assert not outcome.passed
    assert f"lacks {lacking}" in outcome.detail


def test_a_node_tells_its_routed_addresses_of_both_families(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [
        {"family": "inet", "local": "172.18.0.1", "prefixlen": 31, "scope": "global"},
        {"family": "inet6", "local": "fd00:18::1", "prefixlen": 127, "scope": "global"},
        {"family": "inet6", "local": "fe80::1", "prefixlen": 64, "scope": "link"},
    ]
    said = json.dumps([{"ifname": "eth1", "mtu": 9000, "addr_info": addresses}])
    monkeypatch.setattr(node_facts, "output", lambda *argv: said)
    assert node_facts.links()["eth1"]["addresses"] == ["172.18.0.1/31", "fd00:18::1/127"]
