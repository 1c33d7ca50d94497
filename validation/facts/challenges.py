"""Challenges that change something and look for it at another device.

    seen = outlet_cuts(plan, drained={"gpu001"})     # identities of PDUs and servers, for the ledger of channels
    seen = port_shuts(plan, drained={"gpu001"}, seed="a8")      # identities of switches

An outlet of a PDU is switched off, and the server that hangs there loses a supply. A port of a switch is shut, and the server at
the far end loses its link. Only for a site that says validation.challenges, and only at drained servers: with at least two
supplies that all have input, and by a port that is not the way to the server. What was changed is changed back whatever happens,
a port also by the switch's own timer; what then does not come back is raised as a DeviceError.
"""

import random
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import cast

from capacity.model import Plan
from inventory.delivered.assets import load_assets
from network.drivers.credentials import node_credentials, snmp_credentials, switch_credentials
from network.drivers.errors import DeviceError, WriteRefused
from network.drivers.pdu import Pdu
from network.drivers.redfish import Bmc
from network.drivers.ssh import SshHost
from network.nos import capabilities
from network.nos.choose import driver
from network.nos.frr.driver import Switch
from validation.evidence import Identity
from validation.evidence.mode import PINNED
from validation.facts.answer import Facts
from validation.facts.gather import address_of, asset, bmc_factory

SEEN_S = 30.0
"""Until a BMC reports that a supply has lost or regained its input (engineering experience, not looked up)."""
LINK_S = 10.0
"""Until a server reports that its link is lost or back (engineering experience, not looked up: links train for up to seconds)."""
SPARE_S = 10
"""After the time for a lost link, until the switch opens the port by itself."""
PORTS_S = 300.0
"""All ports of a run together: switches that are not reached by then give no such channel in this run."""
POLL_S = 0.5
Place = tuple[str, str, str]
"""A port of a switch, the server at its far end, and the server's interface."""


def drained_nodes(facts: Facts) -> set[str]:
    """Nodes that a Slurm controller calls drained, which run nothing; one that another controller calls otherwise is not."""
    said = [node.data.get("slurm", {}).get("nodes", {}) for node in facts.nodes.values()]
    states = [(name, one["state"]) for nodes in said for name, one in nodes.items()]
    return {name for name, state in states if state == "drained"} - {
        name for name, state in states if state != "drained"
    }


def outlet_cuts(plan: Plan, drained: Collection[str]) -> tuple[Identity, ...]:
    """What PDUs and BMCs show when one outlet of each PDU is cut. A PDU without a fit server, or that shows nothing, has none.

    Raises DeviceError if an outlet does not come back.
    """
    if not plan.site.validation.challenges:
        return ()
    assets, snmp, budget_s = load_assets(plan.site), snmp_credentials(plan.site), plan.site.timeouts.snmp_s
    made, found = bmc_factory(plan, assets), []
    rows = plan.outlets[plan.outlets["device"].isin(list(drained))]
    for name, outlets in rows.groupby("pdu"):
        row = outlets.iloc[0]
        server, number, serial = str(row["device"]), int(row["outlet"]), asset(assets, str(name), "serial")
        address, dialect = address_of(plan, str(name), "oob"), plan.pdu_dialect
        with Pdu(address, snmp, budget_s, name=str(name), serial=serial, dialect=dialect) as pdu:
            bmc = made(server)
            try:
                seen_pdu, seen_server = pdu.identity(), bmc.identity()
            except DeviceError:
                continue
            if not cut(pdu, number, bmc):
                continue
        text = f"outlet {number} off and on: a supply of {server} lost its input and regained it"
        found += [
            Identity(str(name), "outlet-cut", text, seen_pdu["serial"], observer=server),
            Identity(server, "supply-lost", text, seen_server["serial"], observer=str(name)),
        ]
    return tuple(found)


def with_input(bmc: Bmc) -> int:
    """How many supplies of a server are healthy and have input."""
    return sum(
        psu["state"] == "Enabled" and psu["health"] == "OK" and bool(psu["input_v"]) for psu in bmc.psus()["psus"]
    )


def cut(pdu: Pdu, number: int, bmc: Bmc, *, seen_s: float = SEEN_S) -> bool:
    """Whether exactly one supply lost its input while the outlet was off, and all had it before and afterwards.

    False without a cut for a server that would lose its last supply, or has lost one already.
    """
    supplies = bmc.psus()["psus"]
    before = with_input(bmc)
    if before < 2 or before != len(supplies):
        return False
    try:
        pdu.set_outlet(number, False)
        lost = _becomes(bmc, before - 1, seen_s)
    finally:
        pdu.set_outlet(number, True)
    if not _becomes(bmc, before, seen_s):
        raise WriteRefused(
            pdu.name,
            f"switch outlet {number} on again",
            f"{before} supplies of {bmc.name} with input",
            f"{with_input(bmc)}",
            "look at the outlet and at the supply; the server runs on its other supplies",
        )
    return lost


def port_shuts(
    plan: Plan, drained: Collection[str], signed: Collection[str] = (), *, seed: str = ""
) -> tuple[Identity, ...]:
    """What drained servers show when a port of their switch is shut, one port of each switch, one after the other.

    Switches that have ``signed`` a challenge come last. ``seed`` draws the order of the rest and the port, so that a run that
    reaches only a part of the switches within its time reaches others than the last run. A switch without a fit port, or whose
    server shows nothing, has none. None at all without pinned host keys of switches and nodes (they would prove nothing), or where
    the switches' system has no way to shut a port for a time. Raises DeviceError if a link does not come back.
    """
    given, system = plan.site.credentials, plan.site.inband.nos
    if not plan.site.validation.challenges or {given.ssh.host_keys, given.switch.host_keys} != {PINNED}:
        return ()
    if not capabilities(system)["features"].get("timed_port_shut", {}).get("supported"):
        return ()
    assets, found = load_assets(plan.site), []
    end = time.monotonic() + PORTS_S
    for name, places in in_order(fit_ports(plan, drained), signed, seed):
        if time.monotonic() > end:
            break
        mac = asset(assets, name, "mgmt_mac")
        made = driver(system)(name, address_of(plan, name, "oob"), switch_credentials(plan.site), mgmt_mac=mac)
        switch = cast(Switch, made)  # timed_port_shut is a feature of this driver alone
        try:
            with switch:
                seen = switch.facts().mgmt_mac
                if (linked := _linked(plan, places, end)) is None:
                    continue
                (port, server, interface), node = linked
                lost = shut(switch, port, node, interface)
        except WriteRefused:
            raise
        except DeviceError:
            continue  # the port is open: shut raises WriteRefused for one that is not
        if lost:
            text = f"{port} shut and opened: {interface} of {server} lost its link and has it again"
            found.append(Identity(name, "port-shut", text, seen, observer=server, enrolled=PINNED))
    return tuple(found)


def _linked(plan: Plan, places: Sequence[Place], end: float) -> tuple[Place, SshHost] | None:
    """The first of some ports whose server answers and has a link there, and that server; None where the time is over before."""
    for place in places:
        if time.monotonic() > end:
            return None
        _, server, interface = place
        address, budget_s = address_of(plan, server, "provisioning"), plan.site.timeouts.ssh_s
        node = SshHost(server, address, node_credentials(plan.site), budget_s)
        try:
            if has_link(node, interface):
                return place, node
        except DeviceError:
            continue
    return None


def in_order(fit: dict[str, list[Place]], signed: Collection[str], seed: str) -> list[tuple[str, list[Place]]]:
    """Switches and their ports in the order in which they are tried: those without a signature first, else drawn by the seed."""
    lot = random.Random(seed)
    names = lot.sample(sorted(fit), len(fit))
    names.sort(key=lambda name: name in signed)
    return [(name, lot.sample(fit[name], len(fit[name]))) for name in names]


def fit_ports(plan: Plan, drained: Collection[str]) -> dict[str, list[Place]]:
    """By switch, its in-band ports with a drained server at the far end.

    Never the interface by which the server is reached.
    """
    way = plan.addresses[plan.addresses["network"] == "provisioning"]
    ways = set(zip(way["device"], way["interface"], strict=True))
    kinds = dict(zip(plan.devices["name"], plan.devices["kind"], strict=True))
    found: dict[str, list[Place]] = defaultdict(list)
    for row in plan.cables[plan.cables["fabric"] == "inband"].to_dict("records"):
        for near, far in (("a", "b"), ("b", "a")):
            switch, server, interface = str(row[f"{near}_device"]), str(row[f"{far}_device"]), str(row[f"{far}_port"])
            fit = kinds[switch] == "switch" and kinds[server] == "server" and server in drained
            if fit and (server, interface) not in ways:
                found[switch].append((str(row[f"{near}_port"]), server, interface))
    return dict(found)


def has_link(node: SshHost, interface: str) -> bool:
    """Whether an interface of a node is up, as its kernel says."""
    return node.run(f"cat /sys/class/net/{shlex.quote(interface)}/operstate").out.strip() == "up"


def shut(switch: Switch, port: str, node: SshHost, interface: str, *, seen_s: float = LINK_S) -> bool:
    """Whether the node's link was lost while the port was shut. The port is open again when this returns or raises.

    Raises WriteRefused if the link does not come back, or the switch cannot be told to open the port: its timer opens it then.
    """
    opens_s = int(seen_s) + SPARE_S
    switch.open(port)  # it has a link: this changes nothing, and fails where the login may not open ports
    try:
        switch.shut(port, opens_s)
        lost = _until(lambda: not has_link(node, interface), seen_s)
    finally:
        try:
            switch.open(port)
        except DeviceError as error:
            raise WriteRefused(
                switch.name,
                f"open {port} again",
                "the switch to take the order",
                f"{error}",
                f"it opens the port by itself {opens_s} s after it was shut; look at the port then",
            ) from error
    if not _until(lambda: has_link(node, interface), seen_s):
        raise WriteRefused(
            switch.name,
            f"open {port} again",
            f"{interface} of {node.name} with a link",
            "none",
            f"look at the port ({switch.name}: ip link show {port}) and at the cable; the server is drained",
        )
    return lost


def _becomes(bmc: Bmc, wanted: int, seen_s: float) -> bool:
    return _until(lambda: with_input(bmc) == wanted, seen_s)


def _until(holds: Callable[[], bool], seen_s: float) -> bool:
    """Whether it holds within so many seconds; it is asked once at least."""
    end = time.monotonic() + seen_s
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True
