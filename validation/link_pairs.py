"""Both ends of the links of a switch: what each of them shows that is wrong, and in what the two differ (S170). Pure.

    said = asked(plan, "rol001", Seen(facts, guids, devices, again))     # plain data: what both ends of each link said
    found = judge(plan, "rol001", said)                                  # the same from a record's raw output

An end is known by what can be asked of it:
    adapters of the compute fabric     mlxlink, and ibdiagnet on InfiniBand
    switches of an InfiniBand fabric   ibdiagnet
    switches that run Linux, servers' ports in the in-band network     ethtool
    Cumulus Linux                      NVUE: FEC, bit error rates
    SONiC                              its databases: FEC, bit error rates, light
    Arista EOS                         its show commands: bit error rate before FEC, light
    other Ethernet switches            their SNMP agent, by Prometheus: state and rate, no FEC, bit errors or light
Rates of counters come from Prometheus, or on InfiniBand from two runs of ibdiagnet.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from capacity.model import Plan
from capacity.services import telemetry
from network import counters, ethtool, link_ends, switch_ends
from network.counters import Rates
from network.drivers.answers import Source
from network.drivers.errors import UnreadableAnswer
from network.infiniband import compare
from network.infiniband.wire import FABRIC, on_the_wire
from network.link_ends import LinkEnd
from validation.facts import Facts
from validation.infiniband import NOT_DIAGNOSED, best_view, discovered

INBAND = "inband"
BORDERS = 4
"""Intervals by which two series of a rate may be apart: each is sampled up to one interval beside both borders of the window."""
IB_WORD_B = 4
"""Bytes of a word in which InfiniBand counts data (IBA 16.1.4.11)."""
OF_SERVER = {INBAND: "node", FABRIC: "rail"}
"""Whose series (facts.telemetry.series) a server's ports of a fabric are in."""


@dataclass(frozen=True)
class Seen:
    """What the ends were asked. ``devices`` {server: {RDMA device: its end}}; ``again`` what ibdiagnet wrote later in the run."""

    facts: Facts
    guids: Mapping[str, str]
    devices: Mapping[str, Mapping[str, str]]
    again: Mapping[str, Any]


@dataclass(frozen=True)
class Found:
    """The verdict on a switch. ``unshown``: {what is not shown: number of ends}."""

    value: dict[str, Any]
    problems: list[str]
    unshown: dict[str, int]


def cables_of(plan: Plan, switch: str) -> pd.DataFrame:
    """The data cables of a switch: columns a, b ('DEVICE:PORT'), fabric, rate_gbps."""
    cables = plan.cables
    at = cables["fabric"].isin([FABRIC, INBAND]) & ((cables["a_device"] == switch) | (cables["b_device"] == switch))
    mine = cables[at]
    return pd.DataFrame(
        {
            "a": mine["a_device"] + ":" + mine["a_port"],
            "b": mine["b_device"] + ":" + mine["b_port"],
            "fabric": mine["fabric"],
            "rate_gbps": mine["rate_gbps"],
        }
    )


# ---- what was said ---------------------------------------------------------------------------------------------------
def asked(plan: Plan, switch: str, seen: Seen) -> dict[str, Any]:
    """What both ends of each link of a switch said: {"ends": {end: {tool: its words}}, "unread": {end: why}, "rates" or
    "readings", "window_s", "apart_s"}.
    """
    rows = cables_of(plan, switch)
    ends = list(dict.fromkeys([*rows["a"], *rows["b"]]))
    if set(rows["fabric"]) == {FABRIC} and plan.site.fabric.kind == "ib":
        return _on_infiniband(plan, ends, seen)
    return _on_ethernet(plan, dict(zip([*rows["a"], *rows["b"]], [*rows["fabric"]] * 2, strict=True)), seen)


def _on_infiniband(plan: Plan, ends: list[str], seen: Seen) -> dict[str, Any]:
    view = best_view(seen.facts)
    first: Mapping[str, Any] = {"error": "no host with a subnet manager answers: see S060"} if view is None else {}
    if view is not None:
        first = view.data.get("diagnosed", NOT_DIAGNOSED)
    if view is None or "error" in first:
        return {"ends": {}, "unread": dict.fromkeys(ends, str(first["error"])), "readings": {}, "times": []}
    found, wire = discovered(view), on_the_wire(plan)
    planes = compare.planes(found, compare.identify(found, seen.guids, wire), wire)
    said: dict[str, dict[str, Any]] = {}
    readings: dict[str, list[dict[str, int]]] = {}
    unread: dict[str, str] = {}
    for end in ends:
        places = [[f"{guid}/{port}" for guid in sorted(guids)] for guids, port in planes.get(end, ())]
        rows = [next((first["ends"][one] for one in place if one in first["ends"]), None) for place in places]
        if not rows or None in rows:
            unread[end] = "it is not in what ibdiagnet wrote"
            continue
        said[end] = {"ibdiagnet": rows, **_of_adapter(end, seen)}
        readings[end] = [_summed(one.get("counters", {}), places) for one in (first, seen.again)]
    times = [[one.get("began"), one.get("ended")] for one in (first, seen.again)]
    said_again = {"again": str(seen.again["error"])} if "error" in seen.again else {}
    return {"ends": said, "unread": unread | said_again, "readings": readings, "times": times}


def _summed(counted: Mapping[str, Mapping[str, int]], places: list[list[str]]) -> dict[str, int]:
    """Counters of an end: the sum over its planes, of those that every plane has."""
    each = [next((counted[one] for one in place if one in counted), {}) for place in places]
    common = set(each[0]).intersection(*each[1:]) if each else set()
    return {name: sum(one[name] for one in each) for name in sorted(common)}


def _of_adapter(end: str, seen: Seen) -> dict[str, Any]:
    """What mlxlink says of an adapter's end, nothing for other ends."""
    host, _, _ = end.partition(":")
    machine = _machine(seen, host)
    names = [name for name, at in seen.devices.get(host, {}).items() if at == end and name in machine.get("links", {})]
    return {"mlxlink": machine["links"][names[0]]} if names else {}


def _machine(seen: Seen, device: str) -> Mapping[str, Any]:
    answer = seen.facts.nodes.get(device) or seen.facts.switches.get(device)
    found: Mapping[str, Any] = {} if answer is None or answer.error else answer.data.get("machine", {})
    return found


def _of_driver(plan: Plan, facts: Facts, switch: str, port: str) -> dict[str, Any]:
    """What the driver of a switch's system read of an end, by the system's name; {} where it reads none."""
    answer = facts.roce_switches.get(switch)
    row = {} if answer is None or answer.error else answer.data.get("ends", {}).get(port)
    return {str(plan.site.fabric.nos): dict(row)} if row else {}


def _unread(facts: Facts, device: str) -> str:
    """Why the ends of a switch that answered could not be read; '' where they were, or where its driver reads none."""
    answer = facts.roce_switches.get(device)
    return "" if answer is None or answer.error else str(answer.data.get("ends_error", ""))


def _on_ethernet(plan: Plan, ends: Mapping[str, str], seen: Seen) -> dict[str, Any]:
    answer = next(iter(seen.facts.telemetry.values()), None)
    if answer is None or answer.error:
        why = "the plan has no telemetry server" if answer is None else answer.error
        return {"ends": {}, "unread": dict.fromkeys(ends, why), "rates": {}, "apart_s": 0.0}
    series: Mapping[str, Any] = answer.data.get("series", {})
    interval_s = telemetry.interval_s(plan.site)
    switches = set(plan.devices.loc[plan.devices["kind"] == "switch", "name"])
    said: dict[str, dict[str, Any]] = {}
    rates: dict[str, dict[str, Any]] = {}
    unread: dict[str, str] = {}
    for end, fabric in ends.items():
        device, _, port = end.partition(":")
        owner = "switch" if device in switches else OF_SERVER[fabric]
        row = {
            name: series.get(f"{owner}_{name}", {}).get(device, {}).get(port)
            for name in (*COUNTED, "samples", "up", "mbps")
        }
        own = _of_adapter(end, seen) if fabric == FABRIC else {}
        kernel = _machine(seen, device).get("ethtool", {}).get(port)
        own |= {"ethtool": dict(kernel)} if kernel and not own else {}
        if owner == "switch" and (said_itself := _of_driver(plan, seen.facts, device, port)):
            own |= said_itself
        if owner == "switch" and not own and None not in (row["up"], row["mbps"]):
            own = {"prometheus": {"up": row["up"], "mbps": row["mbps"]}}
        if own:
            said[end] = own
        else:
            unread[end] = "neither mlxlink, ethtool nor the telemetry says anything of it"
        covered_s = ((row["samples"] or 1) - 1) * interval_s
        rates[end] = {**{name: row[name] for name in COUNTED}, "covered_s": covered_s}
    return {"ends": said, "unread": unread, "rates": rates, "apart_s": BORDERS * interval_s}


NOT_TWICE = "not read twice"
"""Beside the ends: {switch or end: why one of its two readings is not known}, where there is one."""


def of_drivers(
    plan: Plan, switch: str, facts: Facts, later: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """{end: {system: its words}} of the switches' ends of a switch's links, as far as drivers read them, and NOT_TWICE. `later`:
    second readings, {switch: {"ends": {port: words}} or {"ends_error": why}}.
    """
    rows = cables_of(plan, switch)
    found: dict[str, dict[str, Any]] = {}
    once: dict[str, str] = {}
    for end in dict.fromkeys([*rows["a"], *rows["b"]]):
        device, _, port = end.partition(":")
        if why := _unread(facts, device):
            once[device] = why
        if not (said := _of_driver(plan, facts, device, port)):
            continue
        second = later.get(device, {})
        words_again = second.get("ends", {}).get(port, {})
        if "ends_error" in second:
            once[device] = second["ends_error"]
        elif second and not words_again:
            once[end] = f"{device} did not name it the second time"
        found[end] = {system: switch_ends.again(words, words_again) for system, words in said.items()}
    return found | ({NOT_TWICE: once} if once else {})


def of_diagnoses(plan: Plan, switch: str, seen: Seen) -> dict[str, dict[str, Any]]:
    """{end: {"ibdiagnet": its planes}} of the switches' ends of an InfiniBand switch's links, and NOT_TWICE; {} where ibdiagnet
    says nothing.

    Each plane has the end's symbol errors between two runs of ibdiagnet (`errors`), those that FEC left, and the seconds from the
    end of the first to the begin of the second (`counted_s`); neither where a counter began anew or was read once.
    """
    rows, switches = cables_of(plan, switch), set(plan.devices.loc[plan.devices["kind"] == "switch", "name"])
    ends = [end for end in dict.fromkeys([*rows["a"], *rows["b"]]) if end.partition(":")[0] in switches]
    said = _on_infiniband(plan, ends, seen)
    found: dict[str, dict[str, Any]] = {}
    for end, words in said["ends"].items():
        first, second = (one.get("symbol_errors") for one in said["readings"][end])
        soaked: dict[str, float] = {}
        if first is not None and second is not None and second >= first:
            (_, ended), (began, _) = said["times"]
            soaked = {"errors": second - first, "counted_s": began - ended}
        found[end] = {"ibdiagnet": [{**plane, **soaked} for plane in words["ibdiagnet"]]}
    why = said["unread"].get("again")
    return found | ({NOT_TWICE: {switch: why}} if why else {})


COUNTED = ("sent", "received", "errors", "drops", "frames", "resets")
"""What is asked of each port by Prometheus: rates, and how often its counter began anew."""


@dataclass(frozen=True)
class Soaked:
    """Ends of switches that were judged: ``timed`` by what they count and for how long, ``untimed`` by what they show;
    ``without_raw`` of both show no bit error rate before FEC.
    """

    problems: list[str]
    timed: int
    untimed: int
    without_raw: int


def soaked(plan: Plan, switch: str, said: Mapping[str, Any]) -> Soaked:
    """What is wrong with the ends of switches on a switch's links, from what `of_drivers` or `of_diagnoses` gave (S047). An end
    that says how long its counters ran has to have run for as long as the limit takes. KeyError, TypeError and ValueError for
    other data.
    """
    raw_ber, ber = (float(plan.site.limits[key].value) for key in ("link_raw_ber_max", "link_ber_max"))
    problems = [
        f"{name}: errors were not read twice: {why}. Fix: remove the cause, then run the checks again"
        for name, why in dict(said.get(NOT_TWICE, {})).items()
    ]
    timed = untimed = without_raw = 0
    for a, b, rate_gbps in cables_of(plan, switch)[["a", "b", "rate_gbps"]].itertuples(index=False, name=None):
        for end in (a, b):
            for tool, words in (said[end] if isinstance(said.get(end), dict) else {}).items():
                try:
                    found = _parsed(tool, words, Source(end.partition(":")[0], "read a link"))
                except UnreadableAnswer as error:
                    problems.append(f"{end} cannot be read: {error}")
                    continue
                knows = found.errors is not None and found.counted_s is not None
                timed, untimed = timed + knows, untimed + (not knows)
                without_raw += found.raw_ber is None
                judge_end = partial(link_ends.faults, needs_raw=False) if knows else link_ends.seen
                problems += [
                    f"{end} {text}" for text in judge_end(found, rate_gbps=rate_gbps, raw_ber=raw_ber, ber=ber)
                ]
    return Soaked(problems, timed, untimed, without_raw)


# ---- the judgement ---------------------------------------------------------------------------------------------------
def judge(plan: Plan, switch: str, said: Mapping[str, Any]) -> Found:
    """What is wrong with the links of a switch, from what `asked` kept. KeyError and TypeError for other data."""
    rows = cables_of(plan, switch)
    problems: list[str] = []
    unshown: dict[str, int] = {}
    compared, drops_s, began_anew = 0, 0.0, 0
    if read_once := "again" in said["unread"]:
        problems.append(f"counters were read once: {said['unread']['again']}")
    for a, b, rate_gbps in rows[["a", "b", "rate_gbps"]].itertuples(index=False, name=None):
        ends = [_end(plan, name, said, rate_gbps, problems, unshown) for name in (a, b)]
        if ends[0] is None or ends[1] is None:
            continue
        problems += [f"{a} and {b}: {text}" for text in link_ends.unlike(ends[0], ends[1])]
        if read_once:
            continue
        counted = _counted(said, a, b)
        faults = [f"{a} and {b}: counters of both ends are not known"]
        if counted is not None:
            faults = list(_faults_of_counters(plan, a, b, rate_gbps, counted, "readings" in said))
            drops_s += sum(end.drops_s for end in counted.ends)
            began_anew += any(end.cleared for end in counted.ends)
        problems += faults
        compared += not faults
    value = {
        "links": len(rows),
        "counters_alike": compared,
        "counters_began_anew": began_anew,
        "drops_s": round(drops_s, 3),
        "faults": len(problems),
    }
    return Found(value, problems, unshown)


def _end(
    plan: Plan, name: str, said: Mapping[str, Any], rate_gbps: float, problems: list[str], unshown: dict[str, int]
) -> LinkEnd | None:
    """What one end shows; its faults go to `problems`. None where nothing is known of it."""
    if name not in said["ends"]:
        problems.append(f"{name} is not known: {said['unread'].get(name, 'it was not asked')}")
        return None
    raw_ber, ber = (float(plan.site.limits[key].value) for key in ("link_raw_ber_max", "link_ber_max"))
    try:
        every = [
            _parsed(tool, words, Source(name.partition(":")[0], "read a link"))
            for tool, words in said["ends"][name].items()
        ]
    except UnreadableAnswer as error:
        problems.append(f"{name} cannot be read: {error}")
        return None
    shown = [text for end in every for text in link_ends.seen(end, rate_gbps=rate_gbps, raw_ber=raw_ber, ber=ber)]
    problems += [f"{name} {text}" for text in dict.fromkeys(shown)]  # two tools may say the same
    lacking = set(every[0].unshown).intersection(*(end.unshown for end in every[1:]))
    for what in [*sorted(lacking), *([] if any(end.rx_dbm for end in every) else ["light"])]:
        unshown[what] = unshown.get(what, 0) + 1
    return every[0]


def _parsed(tool: str, words: Any, source: Source) -> LinkEnd:
    """An end in the words of a tool; KeyError for a tool that is none."""
    return TOOLS[tool](words, source)


def _of_planes(rows: list[Mapping[str, Any]], source: Source) -> LinkEnd:
    """An end as ibdiagnet writes it: planes of one link together, with the worst of their bit errors."""
    states = {(row["state"], row["physical"]) for row in rows}
    down = next((one for one in sorted(states) if one[0] != "ACT"), None)
    state, physical = down or min(states)
    known = {name: [row[name] for row in rows if row[name] is not None] for name in ("raw_ber", "effective_ber")}
    return LinkEnd(
        state=state,
        physical=physical,
        rate_gbps=sum(row["rate_gbps"] for row in rows),
        fec=rows[0]["fec"],
        raw_ber=max(known["raw_ber"], default=None),
        errors=rows[0].get("errors"),
        counted_s=rows[0].get("counted_s"),
        lanes=sum(row["lanes"] for row in rows),
        effective_ber=max(known["effective_ber"], default=None),
    )


def _of_agent(row: Mapping[str, float], source: Source) -> LinkEnd:
    """A switch's port by IF-MIB: ifOperStatus 1 is up (RFC 2863)."""
    up = row["up"] == 1
    rate_gbps = row["mbps"] / 1000 if up else 0.0
    return LinkEnd("Up" if up else "Down", "LinkUp" if up else "LinkDown", rate_gbps, "", None, None, None)


@dataclass(frozen=True)
class _Counted:
    """Rates of the two ends of a link, the seconds that they were counted for, and by how much both may be read apart."""

    ends: tuple[Rates, Rates]
    window_s: float
    apart_s: float


TOOLS: Mapping[str, Callable[[Any, Source], LinkEnd]] = {
    "mlxlink": link_ends.parse,
    "ethtool": ethtool.link_end,
    "ibdiagnet": _of_planes,
    "cumulus": switch_ends.cumulus,
    "sonic": switch_ends.sonic,
    "eos": switch_ends.eos,
    "prometheus": _of_agent,
}


def _counted(said: Mapping[str, Any], a: str, b: str) -> _Counted | None:
    """What both ends counted; None where one of them is not known."""
    try:
        if "readings" in said:
            (one_began, one_ended), (two_began, two_ended) = said["times"]
            window_s, apart_s = two_began - one_began, (one_ended - one_began) + (two_ended - two_began)
            first, second = (_between(said["readings"][end], window_s) for end in (a, b))
            return _Counted((first, second), window_s, apart_s)
        window_s = min(said["rates"][end]["covered_s"] for end in (a, b))
        return _Counted((_rates(said["rates"][a]), _rates(said["rates"][b])), window_s, said["apart_s"])
    except (KeyError, TypeError, ValueError):
        return None


def _faults_of_counters(
    plan: Plan, a: str, b: str, rate_gbps: float, counted: _Counted, read_twice: bool
) -> Iterator[str]:
    """What the counters of two ends show: errors, counters that began anew, and bytes that one sends and the other does not get."""
    worst = float(telemetry.limit(plan.site, "port_errors_per_s").value)
    for name, end in zip((a, b), counted.ends, strict=True):
        if end.errors_s > worst:
            yield f"{name} counts {end.errors_s:.3g} errors a second, limit {worst:g}"
    # Prometheus goes on from a counter that began anew; between two readings nobody knows what it had counted before
    if read_twice and (anew := [name for name, end in zip((a, b), counted.ends, strict=True) if end.cleared]):
        yield f"{', '.join(anew)}: counters were cleared between two readings. Fix: run the checks again"
    elif counted.apart_s > counters.LEAST_SHARE * counted.window_s:
        needed_s = math.ceil(counted.apart_s / counters.LEAST_SHARE)
        yield f"{a} and {b}: counted for {counted.window_s:.0f} s, a comparison takes {needed_s} s"
    else:
        slack = counters.slack_b_s(rate_gbps, counted.apart_s, counted.window_s)
        yield from counters.unlike(a, counted.ends[0], b, counted.ends[1], slack)


def _between(readings: list[Mapping[str, int]], window_s: float) -> Rates:
    first, second = readings
    return counters.rates(first, second, window_s, word_b=IB_WORD_B)


def _rates(row: Mapping[str, Any]) -> Rates:
    """TypeError for a rate that Prometheus did not give. A counter that never began anew has no series of that."""
    sent, received, errors, drops, frames = (
        float(row[name]) for name in ("sent", "received", "errors", "drops", "frames")
    )
    return Rates(sent, received, errors, drops, frames, ("data",) if row["resets"] else ())
