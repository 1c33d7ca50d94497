"""Pushes to the lab's real FRR switches: clean, refused, killed at any moment, and one that shuts its own door."""

import json
import multiprocessing
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pandas as pd
import pytest

from capacity.build import build
from capacity.model import Plan
from infra import lab
from infra.lab.up import up
from inventory.delivered.assets import load_assets
from inventory.site import load_site
from network import compare, discover
from network import push as push_module
from network.drivers.credentials import switch_credentials
from network.drivers.errors import DeviceError
from network.drivers.parallel import many
from network.drivers.ssh import SshHost
from network.nos.frr import nftables
from network.nos.frr.driver import Switch
from network.push import Target, preview, push, targets
from network.render import render_filter, render_structured, structured_config
from tests.infra.lab.helpers import small_site

pytestmark = pytest.mark.lab

NAME, OCTET = "pushlab", 92
SEED = 20260101
KILLS = 4


@dataclass
class Fabric:
    """A lab's switches, with the intended configuration of each."""

    plan: Plan
    assets: pd.DataFrame
    targets: dict[str, Target]


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    """All switches configured; each test leaves them so."""
    lab.down(NAME)
    try:
        site = load_site(small_site(tmp_path_factory.mktemp("site"), NAME, OCTET, gpu_nodes=1))
        plan = build(site)
        up(site, plan)
        assets = load_assets(site)
        found = {target.name: target for target in targets(plan, assets)}
        assert {p.name: p.result for p in push(found.values())} == dict.fromkeys(found, "applied")
        yield Fabric(plan, assets, found)
    finally:
        lab.down(NAME)


def test_a_second_push_changes_nothing_and_shows_no_difference(fabric):
    assert {p.result for p in push(fabric.targets.values())} == {"no-change"}
    assert {preview(target) for target in fabric.targets.values()} == {""}


def table_on(switch: str) -> str:
    return subprocess.run(
        [*lab.exec_argv(NAME, switch, ["nft", "--stateless", "list", "table", "inet", "bringup"])],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    ).stdout


def test_each_switch_has_its_filter_and_saved_it(fabric):
    for name, target in fabric.targets.items():
        table, _ = nftables.cut(target.config)
        assert table_on(name) == table
        saved = subprocess.run(
            lab.exec_argv(NAME, name, ["cat", "/etc/frr/filter.nft"]),
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        assert saved.stdout == table


def vtysh(switch: str, *commands: str) -> str:
    argv = ["vtysh", *(word for command in commands for word in ("-c", command))]
    done = subprocess.run(lab.exec_argv(NAME, switch, argv), capture_output=True, text=True, timeout=30, check=True)
    return done.stdout


def state_of(at: str, port: str, wanted: str) -> str:
    """State of the BGP session on a port, as soon as it is the wanted one; after 20 s whatever it is."""
    deadline = time.monotonic() + 20
    while True:
        peers = json.loads(vtysh(at, "show bgp ipv4 unicast summary json"))["peers"]
        state = str(peers[port]["state"])
        if state == wanted or time.monotonic() > deadline:
            return state
        time.sleep(0.5)


def test_a_leaf_that_announces_too_much_loses_its_session_alone(fabric):
    leaf = fabric.targets["leaf02"]
    (asn,) = re.findall(r"^router bgp (\d+)$", leaf.config, re.M)
    (most,) = re.findall(r"maximum-prefix (\d+) restart", leaf.config)
    loopbacks = fabric.plan.site.addressing.loopbacks
    assert loopbacks is not None
    # FRR counts before it takes an update, so one route too many would not show.
    extra = [f"{address}/32" for address in list(loopbacks.hosts())[-2 * int(most) :]]
    trunk = fabric.plan.cables[
        (fabric.plan.cables["a_device"] == "leaf02") & (fabric.plan.cables["b_device"] == "spine01")
    ]
    port = str(trunk.iloc[0]["b_port"])

    def announce(no: str) -> None:
        bgp = (f"router bgp {asn}", "address-family ipv4 unicast", *(f"{no}network {each}" for each in extra))
        vtysh("leaf02", "configure terminal", *(f"{no}ip route {each} blackhole" for each in extra), *bgp)

    assert state_of("spine01", port, "Established") == "Established"
    announce("")
    assert state_of("spine01", port, "Idle (PfxCt)") == "Idle (PfxCt)"
    peers = json.loads(vtysh("spine01", "show bgp ipv4 unicast summary json"))["peers"]
    assert {name: peer["state"] for name, peer in peers.items() if name != port} == dict.fromkeys(
        set(peers) - {port}, "Established"
    )
    announce("no ")
    for spine in ("spine01", "spine02"):
        vtysh(spine, "clear bgp *")
    assert state_of("spine01", port, "Established") == "Established"
    assert preview(leaf) == ""


def ways(at: str, to: str) -> set[str]:
    """Ports by which the kernel of a switch reaches an address."""
    argv = lab.exec_argv(NAME, at, ["ip", "-j", "route", "show", to])
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
    return {hop["dev"] for route in json.loads(done.stdout) for hop in route.get("nexthops", [route])}


def ways_within_20s(at: str, to: str, wanted: set[str]) -> set[str]:
    deadline = time.monotonic() + 20
    while (found := ways(at, to)) != wanted and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


def test_traffic_goes_by_others_before_a_switch_in_maintenance_goes(fabric):
    plan, target = fabric.plan, fabric.targets["spine01"]
    loopbacks = plan.addresses[plan.addresses["network"] == "loopback"].set_index("device")["address"]
    here, there = (loopbacks[leaf].split("/")[0] for leaf in ("leaf01", "leaf02"))
    up = plan.cables[(plan.cables["a_device"] == "leaf01") & (plan.cables["stage"] == "leaf-spine")]
    by = dict(zip(up["b_device"], up["a_port"], strict=True))
    assert ways_within_20s("leaf01", there, set(by.values())) == set(by.values())
    config = {**structured_config(plan, "spine01"), "drained": True}
    drained = render_filter(plan, "spine01") + render_structured(config, "frr")
    assert "bgp graceful-shutdown" in preview(replace(target, config=drained))
    assert [p.result for p in push([replace(target, config=drained)])] == ["applied"]
    try:
        others = set(by.values()) - {by["spine01"]}
        assert ways_within_20s("leaf01", there, others) == others
        assert state_of("leaf01", by["spine01"], "Established") == "Established"
        ping = lab.exec_argv(NAME, "leaf01", ["ping", "-q", "-i", "0.1", "-c", "50", "-I", here, there])
        sent = subprocess.Popen(ping, stdout=subprocess.PIPE, text=True)
        time.sleep(1)
        for port in plan.cables.loc[plan.cables["b_device"] == "spine01", "b_port"]:
            down = lab.exec_argv(NAME, "spine01", ["ip", "link", "set", port, "down"])
            subprocess.run(down, timeout=30, check=True)
        assert "50 packets transmitted, 50 received" in sent.communicate(timeout=60)[0]
    finally:
        for port in plan.cables.loc[plan.cables["b_device"] == "spine01", "b_port"]:
            subprocess.run(lab.exec_argv(NAME, "spine01", ["ip", "link", "set", port, "up"]), timeout=30, check=True)
        assert [p.result for p in push([target])] == ["applied"]
    assert ways_within_20s("leaf01", there, set(by.values())) == set(by.values())


def test_a_filter_alone_is_pushed_and_put_back(fabric):
    leaf = fabric.targets["leaf01"]
    wide = replace(
        leaf,
        config=leaf.config.replace(
            "hook forward priority filter; policy drop", "hook forward priority filter; policy accept"
        ),
    )
    for wanted, diff in ((wide, "policy accept;"), (leaf, "policy drop;")):
        (pushed,) = push([wanted], neighbours_s=0)
        assert pushed.result == "applied", pushed.note
        assert pushed.diff.splitlines()[1].endswith(diff)
        assert pushed.diff.count("\n") == 1
        assert preview(wanted) == ""


def test_a_filter_that_nft_does_not_take_is_refused(fabric):
    leaf = fabric.targets["leaf01"]
    (pushed,) = push([replace(leaf, config=leaf.config.replace("tcp dport 179", "tcp dport 70000", 1))], neighbours_s=0)
    assert (pushed.result, "70000" in pushed.note) == ("refused", True), pushed.note
    assert preview(leaf) == ""


def test_a_filter_without_the_neighbours_is_rolled_back(fabric):
    """It drops BGP, so that no session comes back within the time for judging."""
    leaf = fabric.targets["leaf01"]
    deaf = "".join(
        line for line in leaf.config.splitlines(keepends=True) if " 179 " not in line and " 3784 " not in line
    )
    (pushed,) = push([replace(leaf, config=deaf)], neighbours_s=0, kept_s=15)
    assert pushed.result == "rolled-back", pushed.note
    assert preview(leaf) == ""
    assert table_on("leaf01") == nftables.cut(leaf.config)[0]


def test_the_trunks_are_seen_as_planned_while_the_servers_are_off(fabric):
    credentials = switch_credentials(fabric.plan.site)
    hosts = [SshHost(target.name, target.address, credentials) for target in fabric.targets.values()]
    deadline = time.monotonic() + 20  # LLDP sends every second here
    servers = set(fabric.plan.devices.loc[fabric.plan.devices["kind"] == "server", "name"])
    while True:
        seen = many(hosts, discover.lldp)
        answered = {name: ports for name, ports in seen.items() if not isinstance(ports, Exception)}
        found = compare.topology(fabric.plan.cables, answered, set(seen) - set(answered), dark=servers)
        if not found or time.monotonic() > deadline:
            break
        time.sleep(1)
    assert found == []


def test_a_line_that_frr_does_not_know_is_refused_and_the_other_switches_are_pushed(fabric):
    leaf, spine = fabric.targets["leaf01"], fabric.targets["spine01"]
    changed = replace(spine, config=spine.config.replace("description leaf01 swp1", "description changed"))
    refused, applied = push([replace(leaf, config=leaf.config + "routr bgp 1\n"), changed], neighbours_s=0)
    assert (refused.result, applied.result) == ("refused", "applied")
    assert "% Unknown command" in refused.note
    assert "routr bgp 1" in refused.note
    assert applied.diff.splitlines()[-1] == "+ interface swp1 / description changed"
    assert push([spine], neighbours_s=0)[0].result == "applied"
    assert preview(leaf) == ""


def test_another_switch_than_the_planned_one_is_not_written_to(fabric):
    leaf = fabric.targets["leaf01"]
    (pushed,) = push([replace(leaf, mgmt_mac="02:00:00:00:00:99", config=leaf.config + "! x\n")], neighbours_s=0)
    assert pushed.result == "refused"
    assert "expected mgmt_mac 02:00:00:00:00:99" in pushed.note


def test_a_push_that_shuts_its_own_door_is_undone_by_the_switch(fabric, monkeypatch):
    monkeypatch.setattr(push_module, "CONFIRM_MARGIN_S", 4)
    monkeypatch.setattr(Switch, "apply_s", 4)
    leaf = fabric.targets["leaf01"]
    shut = replace(leaf, config=leaf.config + "interface eth0\n shutdown\nexit\n")
    began = time.monotonic()
    (pushed,) = push([shut], neighbours_s=0)
    assert pushed.result == "rolled-back"
    assert time.monotonic() - began < 90
    assert preview(leaf) == ""


def test_a_push_killed_at_any_moment_is_repaired_by_the_next(fabric):
    leaf = fabric.targets["leaf01"]
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([push.__module__])  # imported once, not by each push
    ready = processes.Process()
    ready.start()
    ready.join()
    moments, killed = random.Random(SEED), 0
    for n in range(KILLS):
        config = leaf.config.replace("description spine01 swp1", f"description round {n}")
        changed = replace(leaf, config=config)
        child = processes.Process(target=push, args=([changed],), kwargs={"neighbours_s": 0})
        child.start()
        time.sleep(moments.uniform(0.0, 3.0))
        child.kill()
        child.join()
        killed += child.exitcode == -signal.SIGKILL
        wanted = leaf if n % 2 else changed
        (pushed,) = push([wanted], neighbours_s=0)
        assert pushed.ok, pushed.note
        assert preview(wanted) == ""
    assert killed > 0
    assert push([leaf], neighbours_s=0)[0].ok


def test_after_a_power_cut_a_switch_filters_as_it_saved(fabric):
    """What was added by hand and not saved is gone, and nothing is there twice."""
    leaf, end = fabric.targets["leaf02"], time.monotonic() + 90
    by_hand = ["nft", "add", "rule", "inet", "bringup", "forward", "accept"]
    subprocess.run(lab.exec_argv(NAME, "leaf02", by_hand), timeout=30, check=True)
    assert preview(leaf) != ""
    lab.fault(NAME, "node-power-lost", ["leaf02"])
    lab.repair(NAME)
    while (difference := differs(leaf)) is None:
        assert time.monotonic() < end, "leaf02 does not boot"
        time.sleep(1)
    assert difference == ""
    assert table_on("leaf02") == nftables.cut(leaf.config)[0]


def differs(target: Target) -> str | None:
    """The difference of a switch; None while it does not answer."""
    try:
        return preview(target)
    except DeviceError:
        return None
