#!/usr/bin/python3
"""The RoCE side of a server: names, addresses, routes and the lossless class of its rails.

    roce_host.py show [FILE]      what the rails are set to, and where that differs from FILE, as one JSON object
    roce_host.py apply [FILE]     set what differs, then show; exit 1 where something still does

FILE (default /etc/bringup/roce.json) has the rails, each with the value of every setting; network/roce_host.py writes it. Standard
library, iproute2 (ip, rdma, dcb), ethtool and, for adaptive routing, mlxreg of NVIDIA's MFT. Needs root.

Rail i is the adapter nearest to GPU i on PCIe. GPUs are counted in the order of their PCI addresses, as NVML counts them. Where
that leaves a choice, nothing is set: FILE can name an adapter by its PCI address ("pci" of a rail).

Switching PFC toggles the link on mlx5 (drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c), so only what differs is set.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SYS = Path("/sys")
PROC = Path("/proc")
WANTED = "/etc/bringup/roce.json"
BUDGET_S = 20
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
GPU_VENDOR, GPU_CLASSES = "0x10de", ("0x0300", "0x0302")
"""NVIDIA; VGA and 3D controllers."""
RULE_PRIORITY = 10000
"""Routing rules of the rails lie before those of the main table (32766)."""


class RoceError(Exception):
    """Why the rails cannot be set, with what to do."""


def run(*argv: str) -> str:
    """stdout of a command. RoceError with what it said where it fails, is not installed or outlives its budget."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=BUDGET_S, check=False)
    except FileNotFoundError:
        raise RoceError(f"{argv[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise RoceError(f"{' '.join(argv[:4])}: no end within {BUDGET_S} s") from None
    if done.returncode:
        raise RoceError(f"{' '.join(argv[:6])}: exit status {done.returncode}: {done.stderr.strip()[-200:]}")
    return done.stdout


def told(*argv: str) -> Any:
    """What a command prints as JSON; {} where it prints nothing."""
    said = run(*argv)
    return json.loads(said) if said.strip() else {}


def read(path: Path) -> str:
    """A file's text without blanks around it; '' where it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


# ---- which adapter is which rail -------------------------------------------------------------------------------------
def path_of(device: Path) -> list[str]:
    """PCI addresses from the root port down to a kernel device."""
    return [part for part in device.resolve().parts if ADDRESS.fullmatch(part)]


def gpus() -> list[list[str]]:
    """Paths of the GPUs on PCIe, in the order of their addresses."""
    found = []
    for place in sorted((SYS / "bus/pci/devices").glob("*")):
        if read(place / "vendor") == GPU_VENDOR and read(place / "class").startswith(GPU_CLASSES):
            found.append(path_of(place))
    return found


@dataclass(frozen=True)
class Adapter:
    """An RDMA device whose port is Ethernet: `path` on PCIe, `netdev` its interface."""

    rdma: str
    netdev: str
    path: tuple[str, ...]

    @property
    def pci(self) -> str:
        return self.path[-1]


def adapters() -> list[Adapter]:
    """All of them, in the order of their PCI addresses. One without an interface is left out: it carries no IP."""
    found = []
    for place in sorted((SYS / "class/infiniband").glob("*")):
        path = path_of(place / "device")
        netdevs = sorted(one.name for one in (place / "device" / "net").glob("*"))
        if read(place / "ports/1/link_layer") == "Ethernet" and path and netdevs:
            found.append(Adapter(place.name, netdevs[0], tuple(path)))
    return sorted(found, key=lambda one: one.pci)


def nearness(one: Sequence[str], other: Sequence[str]) -> int:
    """Bridges that two PCIe paths share."""
    shared = 0
    for left, right in zip(one[:-1], other[:-1], strict=False):
        if left != right:
            break
        shared += 1
    return shared


def rails_of(rails: Sequence[Mapping[str, Any]]) -> dict[str, Adapter]:
    """{name of a rail: its adapter}. RoceError where PCIe leaves a choice, or an adapter is missing."""
    here, places = adapters(), gpus()
    by_pci = {one.pci: one for one in here}
    found: dict[str, Adapter] = {}
    for rail in rails:
        name, pci = rail["name"], rail.get("pci", "")
        if pci:
            if pci not in by_pci:
                seen = ", ".join(by_pci) or "none"
                raise RoceError(f"{name}: no Ethernet RDMA adapter at {pci}; there are {seen}")
            found[name] = by_pci[pci]
            continue
        index = int(rail["rail"])
        if index >= len(places):
            raise RoceError(f"{name}: it is the adapter of GPU {index}, and the kernel shows {len(places)} GPUs")
        shared = {one: nearness(one.path, places[index]) for one in here}
        most = max(shared.values(), default=0)
        nearest = [one for one, bridges in shared.items() if bridges == most]
        if most == 0 or len(nearest) != 1:
            shown = ", ".join(f"{one.rdma} {one.pci}" for one in nearest[:4]) or "none"
            raise RoceError(
                f"{name}: PCIe leaves open which adapter is nearest to GPU {index} ({shown}); name its PCI address in "
                "roce_adapters"
            )
        found[name] = nearest[0]
    taken: dict[str, str] = {}
    for name, adapter in found.items():
        if (other := taken.setdefault(adapter.pci, name)) != name:
            raise RoceError(f"{name} and {other} are both the adapter {adapter.rdma} at {adapter.pci}")
    return found


# ---- settings: how each is read and set ------------------------------------------------------------------------------
def do(*argv: str) -> None:
    run(*argv)


def write(place: Path, text: str) -> None:
    try:
        place.write_text(text)
    except OSError as error:
        raise RoceError(f"{place}: {error.strerror}") from None


IPV4, IPV6 = "-4", "-6"
"""Options of ip(8)."""


def family_of(text: str) -> str:
    """The family of an address or a prefix."""
    return IPV6 if ":" in text else IPV4


def link(dev: str) -> dict[str, Any]:
    return dict(told("ip", "-json", "link", "show", "dev", dev)[0])


def addresses(dev: str, family: str = IPV4) -> list[str]:
    """Addresses of an interface with their prefix lengths; of IPv6 without the link-local one, which the kernel gives."""
    scope = ("scope", "global") if family == IPV6 else ()
    shown = told("ip", "-json", family, "address", "show", "dev", dev, *scope)
    given = [
        one for part in shown for one in part.get("addr_info", ()) if one
    ]  # {} stands for one that scope leaves out
    return sorted(f"{one['local']}/{one['prefixlen']}" for one in given)


def set_addresses(dev: str, wanted: Sequence[str], family: str = IPV4) -> None:
    for address in addresses(dev, family):
        if address not in wanted:
            do("ip", "address", "del", address, "dev", dev)
    # Until the kernel has looked for duplicates, it takes an IPv6 address for no route's source.
    at_once = ("nodad",) if family == IPV6 else ()
    for address in wanted:
        do("ip", "address", "replace", address, "dev", dev, *at_once)


def route(dev: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """The route to the wanted prefix in the wanted table, if it leaves by this interface.

    All tables are asked: iproute2 fails for one that has no route yet. It leaves the name of the main table out.
    """
    table, prefix = wanted["table"], wanted["prefix"]
    for one in told("ip", "-json", family_of(prefix), "route", "show", "table", "all", "exact", prefix):
        if one.get("dev") == dev and str(one.get("table", "main")) == table:
            told_of = {"gateway": str(one.get("gateway", "")), "source": str(one.get("prefsrc", ""))}
            return {"prefix": prefix, "table": table, **told_of}
    return {}


def set_route(dev: str, wanted: Mapping[str, str]) -> None:
    where = ("via", wanted["gateway"], "dev", dev, "src", wanted["source"], "table", wanted["table"])
    do("ip", family_of(wanted["prefix"]), "route", "replace", wanted["prefix"], *where)


def rule(dev: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """The table that packets from the wanted address are routed by; the first rule decides."""
    source = wanted["source"]
    rules = told("ip", "-json", family_of(source), "rule", "show")
    tables = [str(one["table"]) for one in rules if one.get("src") == source]
    return {"source": source, "table": tables[0]} if tables else {}


def set_rule(dev: str, wanted: Mapping[str, str]) -> None:
    source, table = wanted["source"], wanted["table"]
    family = family_of(source)
    while rule(dev, wanted):
        do("ip", family, "rule", "del", "from", source)
    do("ip", family, "rule", "add", "from", source, "lookup", table, "priority", str(RULE_PRIORITY + int(table)))


def sysctl(dev: str, key: str, version: str = "ipv4") -> Path:
    return PROC / "sys/net" / version / "conf" / dev / key


def pause(dev: str) -> dict[str, bool]:
    """Pause frames for all traffic, which exclude PFC (ethtool -a)."""
    said = run("ethtool", "-a", dev)
    return {key: bool(re.search(rf"^{key.upper()}:\s+on$", said, re.MULTILINE)) for key in ("rx", "tx")}


def set_pause(dev: str, wanted: Mapping[str, bool]) -> None:
    do("ethtool", "-A", dev, *(word for key, on in wanted.items() for word in (key, "on" if on else "off")))


def dcb(part: str, dev: str) -> dict[str, Any]:
    return dict(told("dcb", "-j", part, "show", "dev", dev))


def numbered(values: Sequence[Any]) -> list[str]:
    """dcb(8)'s array syntax: 0:off 1:on …"""
    return [f"{index}:{value}" for index, value in enumerate(values)]


def dscp_priority(dev: str) -> dict[str, int]:
    return {str(dscp): priority for dscp, priority in dcb("app", dev).get("dscp_prio", ())}


def set_dscp_priority(dev: str, wanted: Mapping[str, int]) -> None:
    """On mlx5 the first such entry makes the adapter trust DSCP (en_dcbnl.c, mlx5e_dcbnl_ieee_setapp)."""
    do("dcb", "app", "replace", "dev", dev, "dscp-prio", *(f"{dscp}:{priority}" for dscp, priority in wanted.items()))


def set_pfc(dev: str, wanted: Sequence[bool]) -> None:
    do("dcb", "pfc", "set", "dev", dev, "prio-pfc", *numbered(["on" if one else "off" for one in wanted]))


def queues(dev: str) -> dict[str, list[Any]]:
    shown = dcb("ets", dev)
    return {key: shown[key] for key in ("prio-tc", "tc-bw", "tc-tsa")}


def set_queues(dev: str, wanted: Mapping[str, Sequence[Any]]) -> None:
    do("dcb", "ets", "set", "dev", dev, *(word for key in sorted(wanted) for word in (key, *numbered(wanted[key]))))


def connection_manager(rdma: str, key: str, value: str = "") -> str | None:
    """A default of RDMA connections (Documentation/ABI/testing/configfs-rdma_cm), set where a value is given; None without it."""
    root = SYS / "kernel/config/rdma_cm"
    if not root.is_dir():
        return None
    device = root / rdma
    made = not device.is_dir()
    try:
        if made:
            device.mkdir()
        place = device / "ports/1" / key
        if value:
            write(place, value)
        return place.read_text().strip()
    except OSError as error:
        raise RoceError(f"{device}: {error.strerror}") from None
    finally:
        if made and device.is_dir():
            device.rmdir()


def set_connection_manager(rdma: str, key: str, value: str) -> None:
    connection_manager(rdma, key, value)


def traffic_class(adapter: Adapter) -> str | None:
    """Of all RDMA packets, where the driver has it (DOCA-OFED): 'Global tclass=106'."""
    return read(traffic_class_file(adapter)).partition("=")[2] or None


def traffic_class_file(adapter: Adapter) -> Path:
    return SYS / "class/infiniband" / adapter.rdma / "tc/1/traffic_class"


def reacts_file(adapter: Adapter, side: str, priority: str) -> Path:
    """DOCA-OFED's switch of ECN: roce_np notifies the sender, roce_rp slows down."""
    return SYS / "class/net" / adapter.netdev / "ecn" / side / "enable" / priority


def reacts(adapter: Adapter, side: str, wanted: Mapping[str, str]) -> dict[str, str] | None:
    said = {priority: read(reacts_file(adapter, side, priority)) for priority in wanted}
    return said if any(said.values()) else None


def set_reacts(adapter: Adapter, side: str, wanted: Mapping[str, str]) -> None:
    for priority, flag in wanted.items():
        write(reacts_file(adapter, side, priority), flag)


def cnp_dscp_file(adapter: Adapter) -> Path:
    """Mark of congestion notifications: of DOCA-OFED, else of the kernel's driver (cc_params of mlx5_ib)."""
    own = SYS / "class/net" / adapter.netdev / "ecn/roce_np/cnp_dscp"
    return own if own.exists() else SYS / "kernel/debug/mlx5" / adapter.pci / "cc_params/np_cnp_dscp"


ACCELERATED = re.compile(r"^adaptive_routing_forced_en\s*\|\s*(0x[0-9a-fA-F]{1,8})\s*$", re.MULTILINE)


def adaptive_routing(adapter: Adapter) -> bool | None:
    """Whether an adapter lets its packets take any path and puts them in order again (register ROCE_ACCL); None without mlxreg."""
    if shutil.which("mlxreg") is None:
        return None
    found = ACCELERATED.search(run("mlxreg", "-d", adapter.pci, "--reg_name", "ROCE_ACCL", "--get"))
    return None if found is None else int(found[1], 16) == 1


def set_adaptive_routing(adapter: Adapter, wanted: bool) -> None:
    value = f"adaptive_routing_forced_en={'0x1' if wanted else '0x0'}"
    do("mlxreg", "-d", adapter.pci, "--reg_name", "ROCE_ACCL", "--set", value, "--yes")


Way = tuple[Callable[[Adapter, Any], Any], Callable[[Adapter, Any], None]]
SETTINGS: Mapping[str, Way] = {
    "mtu": (
        lambda on, _: link(on.netdev)["mtu"],
        lambda on, mtu: do("ip", "link", "set", "dev", on.netdev, "mtu", str(mtu)),
    ),
    "up": (
        lambda on, _: "UP" in link(on.netdev)["flags"],
        lambda on, _: do("ip", "link", "set", "dev", on.netdev, "up"),
    ),
    "addresses": (lambda on, _: addresses(on.netdev), lambda on, wanted: set_addresses(on.netdev, wanted)),
    "route_rail": (lambda on, wanted: route(on.netdev, wanted), lambda on, wanted: set_route(on.netdev, wanted)),
    "route_fabric": (lambda on, wanted: route(on.netdev, wanted), lambda on, wanted: set_route(on.netdev, wanted)),
    "rule": (lambda on, wanted: rule(on.netdev, wanted), lambda on, wanted: set_rule(on.netdev, wanted)),
    "accept_ra_ipv6": (
        lambda on, _: read(sysctl(on.netdev, "accept_ra", "ipv6")),
        lambda on, value: write(sysctl(on.netdev, "accept_ra", "ipv6"), value),
    ),
    "addresses_ipv6": (
        lambda on, _: addresses(on.netdev, IPV6),
        lambda on, wanted: set_addresses(on.netdev, wanted, IPV6),
    ),
    "route_rail_ipv6": (lambda on, wanted: route(on.netdev, wanted), lambda on, wanted: set_route(on.netdev, wanted)),
    "route_fabric_ipv6": (lambda on, wanted: route(on.netdev, wanted), lambda on, wanted: set_route(on.netdev, wanted)),
    "rule_ipv6": (lambda on, wanted: rule(on.netdev, wanted), lambda on, wanted: set_rule(on.netdev, wanted)),
    "arp_ignore": (
        lambda on, _: read(sysctl(on.netdev, "arp_ignore")),
        lambda on, value: write(sysctl(on.netdev, "arp_ignore"), value),
    ),
    "arp_announce": (
        lambda on, _: read(sysctl(on.netdev, "arp_announce")),
        lambda on, value: write(sysctl(on.netdev, "arp_announce"), value),
    ),
    "rp_filter": (
        lambda on, _: read(sysctl(on.netdev, "rp_filter")),
        lambda on, value: write(sysctl(on.netdev, "rp_filter"), value),
    ),
    "dcbx": (
        lambda on, _: sorted(key for key, is_set in dcb("dcbx", on.netdev).items() if is_set),
        lambda on, wanted: do("dcb", "dcbx", "set", "dev", on.netdev, *wanted),
    ),
    "dscp_priority": (
        lambda on, _: dscp_priority(on.netdev),
        lambda on, wanted: set_dscp_priority(on.netdev, wanted),
    ),
    "global_pause": (lambda on, _: pause(on.netdev), lambda on, wanted: set_pause(on.netdev, wanted)),
    "pfc": (lambda on, _: dcb("pfc", on.netdev)["prio-pfc"], lambda on, wanted: set_pfc(on.netdev, wanted)),
    "queues": (lambda on, _: queues(on.netdev), lambda on, wanted: set_queues(on.netdev, wanted)),
    "default_roce_mode": (
        lambda on, _: connection_manager(on.rdma, "default_roce_mode"),
        lambda on, value: set_connection_manager(on.rdma, "default_roce_mode", value),
    ),
    "default_roce_tos": (
        lambda on, _: connection_manager(on.rdma, "default_roce_tos"),
        lambda on, value: set_connection_manager(on.rdma, "default_roce_tos", value),
    ),
    "traffic_class": (
        lambda on, _: traffic_class(on),
        lambda on, value: write(traffic_class_file(on), value),
    ),
    "roce_np": (
        lambda on, wanted: reacts(on, "roce_np", wanted),
        lambda on, wanted: set_reacts(on, "roce_np", wanted),
    ),
    "roce_rp": (
        lambda on, wanted: reacts(on, "roce_rp", wanted),
        lambda on, wanted: set_reacts(on, "roce_rp", wanted),
    ),
    "cnp_dscp": (
        lambda on, _: read(cnp_dscp_file(on)) or None,
        lambda on, value: write(cnp_dscp_file(on), value),
    ),
    "adaptive_routing": (lambda on, _: adaptive_routing(on), set_adaptive_routing),
}
"""{setting: how it is read and how it is set}, in the order of setting. None is read where the driver does not have it."""
UNREADABLE = (RoceError, OSError, ValueError, KeyError, IndexError, TypeError, AttributeError)
"""What an answer in another form raises."""


# ---- the program -----------------------------------------------------------------------------------------------------
def rename(name: str, adapter: Adapter) -> list[str]:
    """Give interface and RDMA device of an adapter the name of its rail; what was renamed."""
    done = []
    if adapter.netdev != name:
        if (SYS / "class/net" / name).exists():
            raise RoceError(f"{name}: another interface has this name; remove the rule that gave it")
        do("ip", "link", "set", "dev", adapter.netdev, "down")
        do("ip", "link", "set", "dev", adapter.netdev, "name", name)
        done.append(f"{adapter.netdev} is {name}")
    if adapter.rdma != name:
        if (SYS / "class/infiniband" / name).exists():
            raise RoceError(f"{name}: another RDMA device has this name; remove the rule that gave it")
        do("rdma", "dev", "set", adapter.rdma, "name", name)
        done.append(f"{adapter.rdma} is {name}")
    return done


def show(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """{"rails": {rail: {"pci", "netdev", "rdma", "values": {setting: value}, "differs": [settings], "unread": {setting: why}}},
    "error": why no rail could be told from another}."""
    try:
        chosen = rails_of(wanted["rails"])
    except RoceError as error:
        return {"rails": {}, "error": str(error)}
    found = {}
    for rail in wanted["rails"]:
        adapter = chosen[rail["name"]]
        values: dict[str, Any] = {}
        unread: dict[str, str] = {}
        for name, (get, _) in SETTINGS.items():
            if name in rail["settings"]:
                try:
                    values[name] = get(adapter, rail["settings"][name])
                except UNREADABLE as error:
                    unread[name] = str(error)[:300]
        differs = [] if {adapter.netdev, adapter.rdma} == {rail["name"]} else ["name"]
        differs += [name for name, value in values.items() if value is not None and value != rail["settings"][name]]
        about = {"pci": adapter.pci, "netdev": adapter.netdev, "rdma": adapter.rdma}
        found[rail["name"]] = {**about, "values": values, "differs": differs, "unread": unread}
    return {"rails": found, "error": ""}


def apply(wanted: Mapping[str, Any], done: list[str]) -> None:
    """Set what differs and add it to `done`. RoceError at the first thing that cannot be set."""
    if not (SYS / "kernel/config/rdma_cm").is_dir():
        do("modprobe", "rdma_cm")
    for name, adapter in rails_of(wanted["rails"]).items():
        done += rename(name, adapter)
    chosen = rails_of(wanted["rails"])
    for rail in wanted["rails"]:
        adapter = chosen[rail["name"]]
        for name, (get, put) in SETTINGS.items():
            if name not in rail["settings"]:
                continue
            value = get(adapter, rail["settings"][name])
            if value is not None and value != rail["settings"][name]:
                put(adapter, rail["settings"][name])
                done.append(f"{rail['name']} {name}")


def main(arguments: Sequence[str]) -> int:
    act = arguments[0] if arguments else ""
    if act not in ("show", "apply") or len(arguments) > 2:
        print(__doc__, file=sys.stderr)
        return 2
    wanted = json.loads(Path(arguments[1] if len(arguments) > 1 else WANTED).read_text())
    done: list[str] = []
    if act == "apply":
        try:
            apply(wanted, done)
        except UNREADABLE as error:
            print(json.dumps({"rails": {}, "error": f"{error}", "done": done}))
            return 1
    shown = show(wanted)
    print(json.dumps({**shown, "done": done}))
    differs = shown["error"] or any(one["differs"] or one["unread"] for one in shown["rails"].values())
    return 1 if differs and act == "apply" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
