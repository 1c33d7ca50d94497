"""A twin of RoCE compute switches: what their configuration is read back as, run by FRRouting in network namespaces.

Two leaves of two rails, both spines and all cables between them, with two servers of `b200-256-roce` at these leaves. The files are
those for the site's own system, which cannot run here; that all systems say the same is tests/network/nos. Kernel's routes and
pings are looked at. QoS and packet filters need a switch's chip and are not part of it.
"""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_interface, ip_network
from pathlib import Path
from typing import Any

import pytest

from infra.lab import net
from network import roce, roce_host
from network.nos.model import Model
from tests.validation.test_roce import CONFIGS, PLAN

pytestmark = pytest.mark.lab

LEAVES, SPINES = ("rol001", "rol002"), ("ros001", "ros002")
SERVERS = ("gpu001", "gpu002")
RAILS = ("rail0", "rail1")
FRR = "/usr/lib/frr"
BUDGET_S = 60.0
SYSCTLS = (
    "net.ipv4.ip_forward=1",
    "net.ipv6.conf.all.forwarding=1",
    "net.ipv6.conf.default.accept_dad=0",
    "net.ipv4.fib_multipath_hash_policy=1",
)


def bgpd_conf(model: Model) -> str:
    """What a model says of routing, in FRRouting's words."""
    lines = [
        f"hostname {model.hostname}",
        f"router bgp {model.asn}",
        f" bgp router-id {model.router_id}",
        " bgp bestpath as-path multipath-relax",
        *([" bgp graceful-shutdown"] if model.drained else []),
        " neighbor FABRIC peer-group",
        " neighbor FABRIC remote-as external",
        *(f" neighbor {port} interface peer-group FABRIC" for port in sorted(model.neighbours)),
        " address-family ipv4 unicast",
        *_routes(model, 4),
        " exit-address-family",
        *(
            [" address-family ipv6 unicast", "  neighbor FABRIC activate", *_routes(model, 6), " exit-address-family"]
            if model.ipv6
            else []
        ),
    ]
    return "\n".join(lines) + "\n"


def _routes(model: Model, family: int) -> list[str]:
    """What a switch announces of one family."""
    return [
        "  redistribute connected",
        *(f"  aggregate-address {prefix} summary-only" for prefix in aggregates(model, family)),
    ]


def aggregates(model: Model, family: int) -> list[str]:
    """The prefixes of a leaf's servers of one family; a spine has none."""
    return sorted(prefix for prefix in model.aggregates if ip_network(prefix).version == family)


@dataclass
class Twin:
    """Namespaces by device, and the running daemons by switch."""

    scope: str
    folder: Path
    models: dict[str, Model]

    def namespace(self, device: str) -> str:
        return f"{self.scope}-{device}"

    def inside(self, device: str, *command: str) -> subprocess.CompletedProcess[str]:
        argv = [*net.enter(self.namespace(device)), *command]
        return subprocess.run(argv, capture_output=True, text=True, timeout=BUDGET_S, check=False)

    def hops(self, device: str, prefix: str) -> set[str]:
        """Ports by which a switch sends to a prefix."""
        shown = self.inside(device, "ip", f"-{ip_network(prefix).version}", "route", "show", prefix).stdout
        return set(re.findall(r"\bdev (\S+)", shown))

    def pings(self, server: str, source: str, target: str) -> bool:
        return self.inside(server, "ping", "-c", "1", "-W", "2", "-I", source, target).returncode == 0


def cables_between(plan: Any) -> list[tuple[str, str, str, str]]:
    """(device, port, device, port) of the slice's cables, with servers' ports by the names of their rails."""
    rail = {
        (host, one["port"] if "port" in one else f"rail{one['rail']}"): one["name"]
        for host, given in roce_host.wanted(plan).items()
        for one in given["rails"]
    }
    cables = plan.cables[plan.cables["fabric"] == "compute"]
    found = []
    for a, a_port, b, b_port in cables[["a_device", "a_port", "b_device", "b_port"]].itertuples(index=False, name=None):
        if a in LEAVES and b in SPINES:
            found.append((a, a_port, b, b_port))
        elif a in SERVERS and b in LEAVES:
            found.append((a, rail.get((a, a_port), a_port), b, b_port))
    return found


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    """The slice, running. Its models are read back from the rendered files."""
    system = roce.SYSTEMS[str(PLAN.site.fabric.nos)]
    models = {name: system.read(system.render(CONFIGS[name])) for name in (*LEAVES, *SPINES)}
    made = Twin(f"twin{os.getpid()}", tmp_path_factory.mktemp("twin"), models)
    with contextlib.ExitStack() as stack:
        wire(made, stack)
        for name, model in models.items():
            start(made, name, model, stack)
        yield made


def wire(twin: Twin, stack: contextlib.ExitStack) -> None:
    """Namespaces, cables and addresses; gone when the stack closes."""
    devices = [*twin.models, *SERVERS]
    for device in devices:
        net.ip([f"netns add {twin.namespace(device)}"])
        stack.callback(net.ip, [f"netns del {twin.namespace(device)}"], force=True)
        subprocess.run([*net.enter(twin.namespace(device)), "sysctl", "-qw", *SYSCTLS], check=True, timeout=BUDGET_S)
    net.ip(
        f"link add {a_port} netns {twin.namespace(a)} type veth peer name {b_port} netns {twin.namespace(b)}"
        for a, a_port, b, b_port in cables_between(PLAN)
    )
    cabled = {
        (device, port) for a, a_port, b, b_port in cables_between(PLAN) for device, port in ((a, a_port), (b, b_port))
    }
    for name, model in twin.models.items():
        given = [
            f"addr add {address} dev {port}"
            for port, address in sorted(model.addresses)
            if port == "lo" or (name, port) in cabled
        ]
        up = ["link set lo up", *(f"link set {port} up" for device, port in sorted(cabled) if device == name)]
        net.ip([*up, *given], twin.namespace(name))
    for server in SERVERS:
        net.ip(["link set lo up"], twin.namespace(server))
        for rail in rails_of(server):
            net.ip([f"link set {rail['name']} up"], twin.namespace(server))
            for suffix in ("", "_ipv6"):
                of_family(twin, server, rail["name"], rail["settings"], suffix)


def of_family(twin: Twin, server: str, port: str, said: dict[str, Any], suffix: str) -> None:
    """Addresses, routes and rule of one family on a server's rail."""
    rule = said[f"rule{suffix}"]
    net.ip(
        [
            *(f"addr add {address} dev {port}{' nodad' if suffix else ''}" for address in said[f"addresses{suffix}"]),
            *(
                f"route add {route['prefix']} via {route['gateway']} src {route['source']} table {route['table']}"
                for route in (said[f"route_rail{suffix}"], said[f"route_fabric{suffix}"])
            ),
        ],
        twin.namespace(server),
    )
    added = twin.inside(
        server, "ip", "-6" if suffix else "-4", "rule", "add", "from", rule["source"], "table", rule["table"]
    )
    assert added.returncode == 0, added.stderr


def rails_of(server: str) -> list[dict[str, Any]]:
    return [one for one in roce_host.wanted(PLAN)[server]["rails"] if one["name"] in RAILS]


def start(twin: Twin, name: str, model: Model, stack: contextlib.ExitStack) -> None:
    """zebra and bgpd of one switch, with folders of their own."""
    script = (
        "for folder in /run/frr /etc/frr /var/tmp; do mount -t tmpfs tmpfs $folder; done; chown frr:frr /run/frr; "
        'printf "%s" "$CONF" >/etc/frr/bgpd.conf; echo "hostname $NAME" >/etc/frr/zebra.conf; chown frr:frr /etc/frr/*; '
        f"{FRR}/zebra -d -F datacenter && {FRR}/bgpd -d -F datacenter && exec sleep infinity"
    )
    argv = [
        *net.enter(twin.namespace(name)),
        *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-euc", script),
    ]
    env = {**os.environ, "CONF": bgpd_conf(model), "NAME": name}
    log = (twin.folder / f"{name}.log").open("w")
    daemon = subprocess.Popen(argv, env=env, stdout=log, stderr=log)
    stack.callback(daemon.wait, 10)
    stack.callback(daemon.kill)


def until(reached: Callable[[], bool]) -> bool:
    end = time.monotonic() + BUDGET_S
    while not (done := reached()) and time.monotonic() < end:
        time.sleep(0.5)
    return done


def aggregate(model: Model, family: int) -> str:
    """The one prefix of a leaf's servers."""
    (found,) = aggregates(model, family)
    return found


def loopback(model: Model, family: int) -> str:
    """The address of a switch, as its neighbours' routes name it."""
    own = (ip_interface(address) for port, address in model.addresses if port == "lo")
    (found,) = [str(one.ip) for one in own if one.version == family]
    return found


def source(server: str, rail: str, family: int) -> str:
    """The address of a server on a rail."""
    (found,) = [one["settings"] for one in rails_of(server) if one["name"] == rail]
    return str(found["rule_ipv6" if family == 6 else "rule"]["source"])


def ports_between(one: str, others: tuple[str, ...]) -> set[str]:
    return {a_port for a, a_port, b, _ in cables_between(PLAN) if a == one and b in others} | {
        b_port for a, _, b, b_port in cables_between(PLAN) if b == one and a in others
    }


both_families = pytest.mark.parametrize("family", [4, 6])


@both_families
def test_a_leaf_reaches_the_other_rail_by_every_link_to_every_spine(twin: Twin, family: int) -> None:
    prefix = aggregate(twin.models["rol002"], family)
    wanted = ports_between("rol001", SPINES)
    assert len(wanted) == 32
    assert until(lambda: twin.hops("rol001", prefix) == wanted), twin.hops("rol001", prefix) ^ wanted


@both_families
def test_leaves_announce_their_aggregate_and_no_link(twin: Twin, family: int) -> None:
    leaves = [twin.models[name] for name in LEAVES]
    own = aggregate(leaves[0], family)
    assert until(lambda: twin.hops("ros001", own) == ports_between("ros001", ("rol001",)))
    shown = twin.inside("ros001", "ip", f"-{family}", "route", "show", "proto", "bgp").stdout
    routes = {line.split()[0] for line in shown.splitlines() if not line[0].isspace()}
    assert routes == {one for leaf in leaves for one in (aggregate(leaf, family), loopback(leaf, family))}


@both_families
def test_servers_reach_each_other_on_their_rail_and_across_rails(twin: Twin, family: int) -> None:
    for rail, other in (("rail0", "rail0"), ("rail0", "rail1"), ("rail1", "rail0")):
        own, target = source("gpu001", rail, family), source("gpu002", other, family)
        assert until(partial(twin.pings, "gpu001", own, target)), (own, target)


@both_families
def test_without_one_spine_the_other_carries_all(twin: Twin, family: int) -> None:
    prefix = aggregate(twin.models["rol002"], family)
    net.ip([f"link set {port} down" for port in ports_between("ros001", LEAVES)], twin.namespace("ros001"))
    try:
        assert until(lambda: twin.hops("rol001", prefix) == ports_between("rol001", ("ros002",)))
        own, target = source("gpu001", "rail0", family), source("gpu002", "rail1", family)
        assert until(lambda: twin.pings("gpu001", own, target))
    finally:
        net.ip([f"link set {port} up" for port in ports_between("ros001", LEAVES)], twin.namespace("ros001"))
