"""Rendered configurations of the lab's switches against golden files.

After an intended change: `BRINGUP_UPDATE_GOLDEN=1 pytest tests/network/test_render.py`, then review the diff.
"""

import ipaddress
import os
import re
import subprocess
from pathlib import Path

import pytest

from network.nos.frr.driver import REFUSED
from network.render import render, render_filter, render_structured, structured_config, switches
from tests.network import dual_stack
from tests.plans import plan_of

GOLDEN = Path(__file__).parent / "data" / "golden"
DEFAULTS = [
    r"detect-multiplier 3",
    r"(transmit|receive)-interval 300",
    r"no bgp ebgp-requires-policy",
    r"maximum-paths",
    r"bgp log-neighbor-changes",
    r"bgp deterministic-med",
]
"""Lines that equal a default of `frr defaults datacenter` in FRR 8.4: frr-reload would add them for ever."""


@pytest.fixture(scope="module")
def plan():
    return plan_of("lab")


def test_every_switch_of_the_lab_renders_to_its_golden_files(plan):
    texts = {f"{name}.conf": render(plan, name) for name in switches(plan)}
    texts |= {f"{name}.nft": render_filter(plan, name) for name in switches(plan)}
    assert len(texts) == 12
    for name, text in texts.items():
        path = GOLDEN / name
        if os.environ.get("BRINGUP_UPDATE_GOLDEN"):
            path.write_text(text)
        assert text == path.read_text(), f"{name} differs from {path}"
    assert {path.name for path in GOLDEN.glob("*.*")} == set(texts)


@pytest.mark.needs("vtysh")
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("", ""),
        ("router bgp 65101", "router bgp 5000000000"),
        ("router-id 172.16.0.3", "router-id 172.16.0.300"),
        ("ip address 172.18.0.0/31", "ip address 172.18.0.0/33"),
        ("remote-as external", "remote-as foreign"),
        ("neighbor swp1 interface", "neighbor swp1 port"),
        ("network 172.16.0.7/32", "network 172.16.0.7/99"),
        ("permit 172.16.0.0/20 ge 32", "permit 172.16.0.0/20 ge 33"),
        ("route-map LOOPBACKS permit", "route-map LOOPBACKS allow"),
        ("transmit-interval 1000", "transmit-interval 1"),
        ("receive-interval 1000", "receive-interval often"),
        ("as-path multipath-relax", "as-path multipath-loose"),
        ("route-map LOOPBACKS in", "route-map LOOPBACKS inward"),
        ("maximum-prefix 26 restart 1", "maximum-prefix 0 restart 1"),
        ("log syslog informational", "log syslog chatty"),
        ("match ip address prefix-list", "match ip addresses prefix-list"),
        ("address-family ipv4 unicast", "address-family ipv5 unicast"),
        ("bgp graceful-shutdown", "bgp graceful-stop"),
        ("ip route 172.16.0.7/32 172.18.0.1", "ip route 172.16.0.7/40 172.18.0.1"),
    ],
)
def test_frrs_own_parser_takes_the_text_and_refuses_one_wrong_value(plan, tmp_path, right, wrong):
    text = render_structured({**structured_config(plan, "leaf01"), "drained": True}, "frr")
    assert right in text
    (tmp_path / "new.conf").write_text(text.replace(right, wrong, 1))
    command = ["vtysh", "-C", "-f", str(tmp_path / "new.conf")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if REFUSED.match(line)]
    assert bool(said) == bool(wrong), done.stdout + done.stderr


@pytest.mark.needs("vtysh")
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("", ""),
        ("ipv6 address fd00:18::/127", "ipv6 address fd00:18::/129"),
        ("ipv6 route fd00:16::7/128 fd00:18::1", "ipv6 route fd00:16::7/200 fd00:18::1"),
        ("address-family ipv6 unicast", "address-family ipv6 unicasts"),
        ("network fd00:16::7/128", "network fd00:16::7/200"),
        ("neighbor FABRIC route-map LOOPBACKS-IPV6 in", "neighbor FABRIC route-map LOOPBACKS-IPV6 inward"),
        ("permit fd00:16::/64 ge 128", "permit fd00:16::/64 ge 129"),
        ("match ipv6 address prefix-list", "match ipv6 addresses prefix-list"),
    ],
)
def test_frrs_own_parser_takes_both_families_and_refuses_one_wrong_value(tmp_path, right, wrong):
    text = render(dual_stack.lab(), "leaf01")
    assert right in text
    (tmp_path / "new.conf").write_text(text.replace(right, wrong, 1))
    command = ["vtysh", "-C", "-f", str(tmp_path / "new.conf")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if REFUSED.match(line)]
    assert bool(said) == bool(wrong), done.stdout + done.stderr


def test_a_leaf_of_both_families_routes_and_announces_each_server_by_both(plan):
    both, plain = (structured_config(one, "leaf01") for one in (dual_stack.lab(), plan))
    assert {key: value for key, value in both.items() if key in ("hosts", "networks", "fabric")} == {
        key: value for key, value in plain.items() if key in ("hosts", "networks", "fabric")
    }
    assert (plain["ipv6"], plain["solicited"]) == (None, [])
    second = both["ipv6"]
    assert set(second["hosts"]) == {host["port"] for host in both["hosts"]}
    for host in both["hosts"]:
        own = second["hosts"][host["port"]]
        # the same place in its prefix: 172.18.0.4/31 and fd00:18::4/127
        places = {int(ipaddress.ip_interface(one["address"]).ip) & 0xFFFF for one in (own, host)}
        assert len(places) == 1
        assert ipaddress.ip_address(own["peer"]) in ipaddress.ip_interface(own["address"]).network
        assert own["loopback"] in second["networks"]
    assert len(second["networks"]) == len(both["networks"])


def test_a_spine_of_both_families_has_a_loopback_and_no_link():
    config = structured_config(dual_stack.lab(), "spine01")
    assert config["ipv6"]["hosts"] == {}
    assert config["ipv6"]["networks"] == [config["ipv6"]["loopback"]]


def test_no_switch_renders_its_management_port_or_a_line_that_equals_a_default(plan):
    for name in switches(plan):
        text = render(plan, name)
        assert not re.search(r"\beth0\b", text)
        assert [pattern for pattern in DEFAULTS if re.search(pattern, text)] == []


def test_bfd_is_as_slow_as_the_site_limits_it_and_says_nothing_of_the_default(plan):
    config = structured_config(plan, "leaf01")
    assert config["bfd_ms"] * 3 == plan.site.limits["bfd_detect_s"].value * 1000
    assert "transmit-interval 1000" in render_structured(config, "frr")
    assert structured_config(plan_of("h100-1000-ib"), switches(plan_of("h100-1000-ib"))[0])["bfd_ms"] is None
    for same_as_default in (None, 300):
        text = render_structured({**config, "bfd_ms": same_as_default}, "frr")
        assert "neighbor FABRIC bfd\n" in text
        assert "profile" not in text


def test_both_ends_of_every_trunk_name_each_other(plan):
    ends = {
        (name, port["port"], port["far"], port["far_port"])
        for name in switches(plan)
        for port in structured_config(plan, name)["fabric"]
    }
    assert ends
    assert {(far, far_port, name, port) for name, port, far, far_port in ends} == ends


def test_each_server_is_announced_by_both_leaves_of_its_links(plan):
    leaves: dict[str, set[str]] = {}
    for name in switches(plan):
        config = structured_config(plan, name)
        for host in config["hosts"]:
            assert host["loopback"] in config["networks"]
            leaves.setdefault(host["far"], set()).add(name)
    servers = set(plan.devices.loc[plan.devices["kind"] == "server", "name"])
    assert {server: len(names) for server, names in leaves.items()} == dict.fromkeys(servers, 2)


def test_a_name_that_is_no_in_band_switch_is_refused_with_those_that_are(plan):
    with pytest.raises(ValueError, match=r"'oob01' is no in-band switch.*leaf01"):
        structured_config(plan, "oob01")


def test_an_unknown_network_os_is_refused_with_those_that_exist(plan):
    with pytest.raises(ValueError, match="'junos' is none of frr"):
        render_structured(structured_config(plan, "leaf01"), "junos")


def test_a_neighbour_may_announce_twice_the_planned_loopbacks_and_no_more(plan):
    loopbacks = plan.addresses.loc[plan.addresses["network"] == "loopback", "address"]
    most = [re.findall(r"maximum-prefix (\d+) restart 1$", render(plan, name), re.M) for name in switches(plan)]
    assert most == [[str(2 * loopbacks.nunique())]] * len(most)
