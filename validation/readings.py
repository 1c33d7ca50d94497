"""The number that a check compares with its limit, from what a device said: for the check and, from its raw output, for the gate.

Pure. Rounded here, so that the number that was compared is the number that the record keeps.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from capacity.model import Plan
from inventory.catalog.devices import Extension
from inventory.findings import Finding
from inventory.site import Site
from network import compare, link_ends
from network.drivers.answers import Source
from network.drivers.errors import UnreadableAnswer
from network.drivers.redfish import OS_RUNNING
from network.infiniband.wire import FABRIC

MOST_NAMED = 5
"""Devices of one kind of fault that a sentence names."""

PING_TARGETS = 64
"""Other nodes that a node pings; on larger sites every n-th, so that all leaf pairs are still covered."""


def pinged(plan: Plan, node: str) -> list[str]:
    """The servers that a server pings, in the order of the plan."""
    others = [name for name in plan.devices.loc[plan.devices["kind"] == "server", "name"] if name != node]
    return others[:: max(1, len(others) // PING_TARGETS)]


def pings_missing(plan: Plan, node: str, pings: Iterable[Mapping[str, Any]]) -> list[str]:
    """What is wrong where a server did not ping all that it has to, or one of them did not answer whole."""
    whole = {ping["device"] for ping in pings if ping["ok"] is True}
    wanted = pinged(plan, node)
    lost = [name for name in wanted if name not in whole]
    if not wanted:
        return ["there is no other node to ping"]
    more = f" and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
    return [f"no whole answer from {', '.join(lost[:MOST_NAMED])}{more}"] if lost else []


def crossed_b(pings: Iterable[Mapping[str, Any]]) -> int:
    """The smallest payload that came back whole, bytes; 0 where none did."""
    return min((int(ping["payload_b"]) for ping in pings if ping["ok"]), default=0)


def offset_ms(offset_s: float) -> float:
    """How far a clock is off, milliseconds."""
    return round(abs(offset_s) * 1000, 6)


def p99_ms(day: Mapping[str, Any]) -> float:
    """The 99th percentile of a day's offsets by nearest rank, milliseconds; of fewer than a hundred it is the largest.

    ValueError where `largest_s` are not the largest hundredth and one more, the largest first.
    """
    count, largest = day["samples"], day["largest_s"]
    if count < 1 or len(largest) != count // 100 + 1 or sorted(largest, reverse=True) != list(largest):
        raise ValueError(f"{len(largest)} largest of {count} offsets, expected {count // 100 + 1} in descending order")
    return offset_ms(largest[-1])


def clock_faults(chrony: Mapping[str, Any], day: Mapping[str, Any], limit_ms: float, quarters: float) -> list[str]:
    """What is wrong with a clock beside the percentile of its offsets: its offset now, its leap status, too few samples."""
    now_ms = offset_ms(chrony["offset_s"])
    return [
        *([f"offset {now_ms:.3f} ms"] if now_ms > limit_ms else []),
        *([f"leap status {chrony['leap']}"] if chrony["leap"] not in ("Normal", "") else []),
        *(
            [f"samples in {day['quarters']} quarter hours of the last day, fewer than {quarters:g}"]
            if day["quarters"] < quarters
            else []
        ),
    ]


def half_line_a(site: Site) -> float:
    """Half of what a line of the smallest rack circuit carries continuously, amperes."""
    power = site.power
    circuits = (power.rack_circuit, power.network_circuit, power.storage_circuit)
    return min(one.breaker_a for one in circuits if one is not None) * power.derating / 2


def phases_missing(plan: Plan, pdu: str, read: int) -> list[str]:
    """What is wrong where another number of phases of a rack PDU was read than its circuit has."""
    planned = plan.circuits.loc[plan.circuits["pdu"] == pdu, "phases"]
    return [f"{read} of {wanted} phases were read" for wanted in planned.unique() if read != wanted]


def outlets_missing(plan: Plan, pdu: str, outlets: Iterable[Mapping[str, Any]]) -> list[str]:
    """What is wrong where an outlet of a rack PDU that the plan uses was not read."""
    read = [int(outlet["number"]) for outlet in outlets]
    used = plan.outlets.loc[(plan.outlets["pdu"] == pdu) & (plan.outlets["device"] != ""), "outlet"]
    lost = sorted({*used.astype(int)} - set(read))
    twice = len(read) - len(set(read))
    more = f" and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
    return [
        *([f"{pdu}: no reading of outlet {', '.join(map(str, lost[:MOST_NAMED]))}{more}"] if lost else []),
        *([f"{pdu}: {twice} outlets were read twice"] if twice else []),
    ]


def imbalance_pct(amps: Sequence[float], half_a: float) -> float:
    """By how much lines differ, percent of their mean, but of at least `half_a` (phase_balance.representative_pct).

    ZeroDivisionError where none carries a current.
    """
    mean = sum(amps) / len(amps)
    return round(100 * (max(amps) - min(amps)) / mean * min(mean / half_a, 1.0), 1)


def neutral_a(amps: Sequence[float]) -> float:
    """Current of the neutral of three phases, amperes, without harmonics: the vector sum of the line currents, which are 120
    degrees apart at the same power factor: sqrt(a2 + b2 + c2 - ab - bc - ca). The third harmonic adds to it three times, and no
    PDU says how much of it there is."""
    squares = sum(one * one for one in amps) - sum(one * other for one, other in itertools.combinations(amps, 2))
    return round(math.sqrt(max(0.0, squares)), 2)


def balance(plan: Plan, pdu: str, amps: Sequence[float], least_pct: float) -> tuple[dict[str, Any], list[str]]:
    """(value, what is wrong) of the phases of a rack PDU at one reading, but for their spread: whether the load is representative,
    and the current of the neutral.

    load_pct: of what the plan has the PDU carry, representative from least_pct on. neutral_a: None where its outlets lie between
    two lines, which need no neutral. The neutral is as large as a line (IEC 60364-5-52, 524.2.1; NEC 310.15(E) counts it as
    loaded), so a line's limit is its own.
    """
    circuit = plan.circuits[plan.circuits["pdu"] == pdu].iloc[0]
    volts = float(circuit["voltage_v"]) / (math.sqrt(3) if len(amps) > 1 else 1)
    planned_w, load_w = 1000 * float(circuit["load_kw"]), sum(amps) * volts * plan.site.power.power_factor
    value: dict[str, Any] = {
        "load_w": round(load_w),
        "load_pct": round(100 * load_w / planned_w, 1) if planned_w else None,
    }
    problems = []
    if value["load_pct"] is not None and value["load_pct"] < least_pct:
        problems.append(
            f"{load_w:,.0f} W are {value['load_pct']:g} % of the planned {planned_w:,.0f} W, representative is {least_pct:g} % or "
            "more: read again under load (bringup validation start, then pytest validation -k S088)"
        )
    to_neutral = not plan.outlets.loc[plan.outlets["pdu"] == pdu, "phase"].str.contains("-").any()
    value["neutral_a"] = neutral_a(amps) if len(amps) == 3 and to_neutral else None
    carries_a = float(circuit["breaker_a"]) * plan.site.power.derating
    if value["neutral_a"] is not None and value["neutral_a"] > carries_a:
        problems.append(f"the neutral carries {value['neutral_a']:g} A, its circuit {carries_a:g} A")
    return value, problems


def sample_s(duration_s: float) -> float:
    """Seconds between two samples of the GPUs under a load: one a minute, as S034 asks; a short run takes 40 of them."""
    return max(1.0, min(60.0, duration_s / 40))


def hours(seconds: float) -> float:
    """A duration in hours."""
    return round(seconds / 3600, 6)


def share_pct(power_w: float, usable_w: float) -> float:
    """How much of a PDU's usable power its load takes, percent."""
    return round(100 * power_w / usable_w, 1)


def apart_pct(whole_w: float, outlets_w: float) -> float:
    """By how much the power at PDUs and the sum of their outlets differ, percent of the power; 0 where there is none."""
    return 100 * abs(whole_w - outlets_w) / whole_w if whole_w else 0.0


def smallest_mtu(ports: Mapping[str, Mapping[str, Any]], wanted: Iterable[str]) -> int:
    """The smallest MTU of these ports, bytes; 0 for one that is not there, and where none is asked for."""
    return min((int(ports.get(port, {}).get("mtu", 0)) for port in wanted), default=0)


def healthy(psus: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The power supplies that a BMC calls enabled and healthy."""
    return [psu for psu in psus if psu["state"] == "Enabled" and psu["health"] == "OK"]


def supply_faults(supplies: Mapping[str, Any], *, rating_w: float, nominal_v: float, tolerance_pct: float) -> list[str]:
    """What is wrong with the healthy power supplies of a server, but for their number: input voltage, rating, redundancy."""
    live = healthy(supplies["psus"])
    off_voltage = [
        f"{psu['name']} {psu['input_v']} V"
        for psu in live
        if psu["input_v"] is None or abs(psu["input_v"] / nominal_v - 1) * 100 > tolerance_pct
    ]
    small = [f"{psu['name']} {psu['rating_w']} W" for psu in live if psu["rating_w"] != rating_w]
    degraded = [one["name"] or "redundancy" for one in supplies["redundancy"] if one["health"] != "OK"]
    return [
        *([f"input voltage off: {', '.join(off_voltage)}"] if off_voltage else []),
        *([f"rating is not {rating_w} W: {', '.join(small)}"] if small else []),
        *([f"redundancy lost: {', '.join(degraded)}"] if degraded else []),
    ]


def built_of(plan: Plan, server: str) -> Extension:
    """What the catalogue says of a server's model."""
    return plan.catalog.device(str(plan.devices.loc[plan.devices["name"] == server, "model"].iloc[0])).bringup


def self_test(plan: Plan, server: str, bmc: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(value, what is wrong) of a server's start, from its BMC's data: power, boot progress, event log, processors, memory (S031).

    start_s, how long the start took, is there only where the BMC tells it.
    """
    state, bad = bmc["state"], [one for one in bmc["event_log"] if one["severity"] in ("Critical", "Warning")]
    problems = [
        *([f"power is {state['power']}"] if state["power"] != "On" else []),
        *([f"boot progress is {state['boot_progress'] or 'not told'}"] if state["boot_progress"] != OS_RUNNING else []),
        *([f"{len(bad)} events in the log, first: {bad[0]['message']}"] if bad else []),
    ]
    told = {name: state.get(name) for name in ("processors", "memory_gib")}
    facts = built_of(plan, server)
    if facts.cpus and told["processors"] != facts.cpus:
        problems.append(f"{_counted(told['processors'])} processors, planned {facts.cpus}")
    module_gib = facts.memory.dimm_gib if facts.memory else 1
    if facts.memory_gib and (told["memory_gib"] is None or abs(told["memory_gib"] - facts.memory_gib) >= module_gib):
        problems.append(f"{_counted(told['memory_gib'])} GiB of memory, planned {facts.memory_gib:g} GiB")
    seen = {"power": state["power"], "boot_progress": state["boot_progress"], "events": len(bad)}
    took_s = state.get("boot_s")
    return seen | told | ({} if took_s is None else {"start_s": took_s}), problems


def _counted(number: float | None) -> str:
    return "the BMC does not tell its" if number is None else f"{number:g}"


def adapter_cables(plan: Plan, switch: str) -> pd.DataFrame:
    """The cables between adapters and a switch of the compute fabric, the adapters as their a ends."""
    cables = plan.cables
    at = (cables["fabric"] == FABRIC) & (cables["stage"] == "node-leaf") & (cables["b_device"] == switch)
    return cables[at]


def cabled_ports(plan: Plan, fabric: str) -> dict[str, list[str]]:
    """The ports of each device that the plan cables in a fabric, in the order of the cables."""
    cables = plan.cables[plan.cables["fabric"] == fabric]
    found: dict[str, list[str]] = {}
    for end in ("a", "b"):
        for device, port in zip(cables[f"{end}_device"], cables[f"{end}_port"], strict=True):
            found.setdefault(device, []).append(port)
    return found


def link_faults(text: str, node: str, rate_gbps: float, site: Site) -> list[str]:
    """What is wrong with a link of the compute fabric, from what mlxlink says of it at an adapter of this node (S047)."""
    ber, raw_ber = (float(site.limits[key].value) for key in ("link_ber_max", "link_raw_ber_max"))
    try:
        found = link_ends.parse(text, Source(node, "read links", "run mlxlink there by hand"))
    except UnreadableAnswer as error:
        return [f"cannot be read: {error}"]
    return list(link_ends.faults(found, rate_gbps=rate_gbps, raw_ber=raw_ber, ber=ber))


def neighbour_faults(plan: Plan, switch: str, ports: Mapping[str, Any], unjudged: Collection[str]) -> list[Finding]:
    """What a switch's own LLDP shows of its planned cables that is an error or a warning; `unjudged` devices may be unseen."""
    oldest_s = float(plan.site.limits["lldp_max_age_s"].value)
    found = compare.from_one_end(plan.cables, switch, ports, unjudged, max_age_s=oldest_s)
    return [one for one in found if one.severity in ("error", "warning")]


def all_reduce_mb_s(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """The best all-reduce over the whole job of a collectives sweep, algbw in MB/s (10^6 bytes); None where none was measured."""
    whole = (row for row in rows if (row["operation"], row["span"]) == ("all_reduce", "whole"))
    return max((row["algbw_mb_s"] for row in whole), default=None)
