"""Compare what was observed with what was intended. Pure: frames and facts in, Findings out.

Each kind of difference is reported once, with the device and the ports that a technician needs:

    TOPOLOGY-SWAPPED   two cables or more are exchanged; names the fewest exchanges of plugs that put them right
    TOPOLOGY-PLACES    devices that stand in the place of others: all their cables are exchanged
    TOPOLOGY-SHIFTED   plugs of one device that are all as many ports further than planned
    TOPOLOGY-CUT-OFF   switches that are alive and have no path to the rest of the fabric: none of the cables between has a link;
                       a switch that answers and sees nothing at all is one of them
    TOPOLOGY-EXTRA     a cable that the plan does not have, or one end of a planned cable at another port
    TOPOLOGY-FOREIGN   a device that the plan does not have, at a port that is planned or free
    TOPOLOGY-PARALLEL  links between the same two switches that are exchanged among each other, for information
    TOPOLOGY-MISSING   a planned cable over which nothing is seen, with its link up
    TOPOLOGY-STALE     a device keeps neighbours longer than the limit, so what it sees may be of the past
    LINK-DOWN          a planned cable whose port has no link
    DEVICE-SILENT      a device that does not answer; nothing is said about its cables
    ANSWER-UNREADABLE  a device that answers what cannot be read: a field of another type, too much, no JSON
    BMC-TIMEOUT        a BMC that takes connections and does not answer
    LOGIN-REFUSED      a device that refuses our account
    IDENTITY-MISMATCH  a device that is another one than the plan's
    CONFIG-DRIFT       a switch whose running or saved configuration differs from the rendered one
    OUTLET-STATE       a PDU outlet that is off while the plan feeds a supply from it, or that does not exist
    TELEMETRY-SILENT   a server that is up, and its Prometheus does not answer (found in validation.diagnose)
    FEED-LOST          a rack's feed without power: silent PDUs, supplies without input (found in validation.diagnose)
    SUPPLY-DARK        a supply without input though its outlet is on (found in validation.diagnose)
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from inventory.findings import Finding, finding, remedy
from network import graph, moves
from network.discover import Port
from network.drivers.errors import same_identifier
from network.drivers.pdu import Outlet
from network.moves import Edge, End

NO_LINK = ("down", "lowerlayerdown", "notpresent", "dormant")
"""Operational states of a port without a usable link (RFC 2863 ifOperStatus, as Linux spells them)."""
TRUNKS = ("leaf-spine", "spine-core")
"""Stages of cables between switches of a fabric: exchanged ones between the same two switches carry the same traffic."""


NOT_SEEN = ("TOPOLOGY-MISSING", "LINK-DOWN")
"""Findings of a planned cable over which a device sees nothing."""


def topology(
    cables: pd.DataFrame,
    answered: Mapping[str, Mapping[str, Port]],
    silent: Iterable[str] = (),
    *,
    max_age_s: float | None = None,
    dark: Collection[str] = (),
    fabric: str = "inband",
    rail_of: Callable[[End], int] = lambda end: -1,
    planned_devices: Collection[str] = (),
) -> list[Finding]:
    """Differences between the planned cables of a fabric and what its devices see by LLDP.

    cables: the plan's frame. answered: {device: network.discover.lldp of it}; a cable is judged from either end.
    silent: devices that were asked and did not answer, one finding each. dark: devices that are known to be down and
    reported elsewhere, no finding. Cables that end at a silent or dark device cannot be judged.
    max_age_s: limit on how old a sighting can be (its time to live). rail_of: the rail of an end, -1 for none; wrong cables that
    join several rails say so. planned_devices: devices of the plan that may be in no cable of `cables`: they are never foreign.
    """
    silent = sorted(set(silent))
    laid = list(zip(_ends(cables), cables["fabric"].tolist(), cables["stage"].tolist(), strict=True))
    planned = {near: far for (a, b), of, _ in laid if of == fabric for near, far in ((a, b), (b, a))}
    elsewhere = {end for cable, of, _ in laid if of != fabric for end in cable}
    unjudged = {*silent, *dark}
    answered = _by_planned_names(answered, {*planned, *elsewhere})
    down = {f"{d}:{p}" for d, ports in answered.items() for p, port in ports.items() if port["state"] in NO_LINK}
    seen = _edges(answered, down, elsewhere)
    wrong = {edge for edge in seen if planned.get(edge[0]) != edge[1] and not _devices(edge) & unjudged}
    found = [silence(device) for device in silent] + _stale(answered, max_age_s, planned)
    places = _places(planned, wrong, seen, unjudged)
    found += _in_places_of_others(places)
    moved = {edge for edge in wrong if _by_places(edge, planned, places)}
    touched = {end for edge in moved for end in edge}
    known = {*planned_devices, *(_device(end) for end in (*planned, *elsewhere))}
    trunk = {end for cable, _, stage in laid if stage in TRUNKS for end in cable}
    ports = moves.in_order([*planned, *(end for edge in seen for end in edge)]) if wrong - moved else {}
    for fault in moves.faults(planned, wrong - moved):
        unplanned = len(fault.seen) == 1 and not set(fault.seen[0]) <= set(planned)
        if unplanned or not fault.exchanges or {_device(end) for end in fault.ends} & unjudged:
            found += [
                _extra(edge, planned, rail_of) if _devices(edge) <= known else _foreign(edge, planned, known)
                for edge in fault.seen
            ]
            touched |= {end for edge in fault.seen for end in edge}
        elif fault.ends <= trunk and _parallel_only(fault):
            found.append(_parallel(fault))
            touched |= fault.ends
        elif shift := moves.shift(fault, planned, ports):
            found.append(_shifted(fault, shift, rail_of))
            touched |= fault.ends
        else:
            found.append(_swapped(fault, rail_of))
            touched |= fault.ends
    unseen = [
        cable
        for cable in sorted({moves.edge(a, b) for a, b in planned.items()} - seen)
        if not (set(cable) & touched or _devices(cable) & unjudged or not _devices(cable) & set(answered))
    ]
    switches = {*cables.loc[cables["fabric"] == fabric, "b_device"], *(_device(end) for end in trunk)}
    explained: set[Edge] = set()
    for switch, dark_cables in _alone(planned, seen, unseen, switches & set(answered)):
        found.append(_switch_alone(switch, dark_cables))
        explained |= set(dark_cables)
    unseen = [cable for cable in unseen if cable not in explained]
    for part, between in _cut_off(planned, seen, unseen, switches):
        found.append(_part_cut_off(part, between))
        explained |= set(between)
    found += [_link_down(cable) if set(cable) & down else _missing(cable) for cable in unseen if cable not in explained]
    return found


def from_one_end(
    cables: pd.DataFrame,
    device: str,
    ports: Mapping[str, Port],
    unjudged: Collection[str] = (),
    *,
    max_age_s: float | None = None,
) -> list[Finding]:
    """Differences between a device's planned in-band cables and what this device alone sees of them.

    unjudged: devices at which a cable may end that is not seen, since they are down or did not answer; a cable that is seen and is
    another one is a difference there too.
    """
    ends = (cables["a_device"] == device) | (cables["b_device"] == device)
    known = {*cables["a_device"], *cables["b_device"]}
    found = topology(cables[ends], {device: ports}, max_age_s=max_age_s, planned_devices=known)
    return [
        one
        for one in found
        if one.id not in NOT_SEEN or not {_device(port) for port in one.ports} & (set(unjudged) - {device})
    ]


def outlets(pdu: str, planned: pd.DataFrame, seen: Sequence[Outlet]) -> list[Finding]:
    """Outlets that should feed a supply and do not. planned: the plan's outlets of this PDU, indexed by number, with
    columns device and psu; spare outlets (device '') are not judged."""
    state = {outlet["number"]: outlet["on"] for outlet in seen}
    found = []
    for number, row in planned[planned["device"] != ""].iterrows():
        if state.get(int(str(number))) is True:
            continue
        found.append(
            finding(
                "OUTLET-STATE",
                pdu,
                case="off" if int(str(number)) in state else "absent",
                ports=(f"{pdu}:{number}",),
                words={"outlet": number, "device": row["device"], "psu": row["psu"]},
            )
        )
    return found


def config(switch: str, diff: str, saved: bool = True) -> list[Finding]:
    """CONFIG-DRIFT from a driver's diff ('- line' / '+ line', '' for none) and whether the running lines are saved."""
    if diff:
        lines = diff.splitlines()
        return [finding("CONFIG-DRIFT", switch, case="differs", lines=len(lines), words={"diff": "; ".join(lines)})]
    if not saved:
        return [finding("CONFIG-DRIFT", switch, case="not-saved")]
    return []


def identity(device: str, expected: Mapping[str, str], seen: Mapping[str, str]) -> list[Finding]:
    """IDENTITY-MISMATCH when a planned, non-empty field (serial, uuid, mgmt_mac) differs from what the device says."""
    wrong = [field for field, want in expected.items() if want and not same_identifier(want, seen.get(field, ""))]
    if not wrong:
        return []
    words = {
        "seen": ", ".join(f"{field} {seen.get(field) or 'empty'}" for field in wrong),
        "planned": ", ".join(f"{field} {expected[field]}" for field in wrong),
    }
    return [finding("IDENTITY-MISMATCH", device, case="differs", words=words)]


def no_answer(device: str, channel: str, error_kind: str, message: str) -> Finding:
    """The finding for a device that could not be read.

    channel: 'redfish'...; error_kind: class name of the DeviceError; message: its text, which is that of the finding.
    """
    ids = {
        "IdentityMismatch": "IDENTITY-MISMATCH",
        "UnknownHostKey": "IDENTITY-MISMATCH",
        "LoginRefused": "LOGIN-REFUSED",
        "PasswordChangeRequired": "LOGIN-REFUSED",
        "UnreadableAnswer": "ANSWER-UNREADABLE",
    }
    if channel == "redfish":
        ids |= {"DeviceTimeout": "BMC-TIMEOUT", "LoginNotGiven": "LOGIN-REFUSED"}
    return finding(ids.get(error_kind, "DEVICE-SILENT"), device, case="device-error", words={"problem": message})


def silence(device: str) -> Finding:
    """DEVICE-SILENT: the one finding for a device that did not answer."""
    return finding("DEVICE-SILENT", device, case="no-answer")


# ---- cables ----------------------------------------------------------------------------------------------------------
def _ends(cables: pd.DataFrame) -> list[tuple[End, End]]:
    a = (cables["a_device"] + ":" + cables["a_port"]).tolist()
    b = (cables["b_device"] + ":" + cables["b_port"]).tolist()
    return list(zip(a, b, strict=True))


def _by_planned_names(answered: Mapping[str, Mapping[str, Port]], ends: Collection[End]) -> dict[str, dict[str, Port]]:
    """Sightings with the plan's names: a far device without its domain, a far port by the other name that it gives."""
    devices = {_device(end) for end in ends}

    def by_plan(port: Port) -> Port:
        far, far_port, short = port["far"], port["far_port"], port["far"].partition(".")[0]
        if far not in devices and short in devices and " " not in far:
            far = short
        also = port.get("far_port_also", "")
        if also and f"{far}:{far_port}" not in ends and f"{far}:{also}" in ends:
            far_port = also
        return (
            port if (far, far_port) == (port["far"], port["far_port"]) else {**port, "far": far, "far_port": far_port}
        )

    return {device: {name: by_plan(port) for name, port in ports.items()} for device, ports in answered.items()}


def _devices(edge: tuple[End, End]) -> set[str]:
    return {_device(end) for end in edge}


def _device(end: End) -> str:
    return end.rpartition(":")[0]


def _edges(
    answered: Mapping[str, Mapping[str, Port]], down: Collection[End], elsewhere: Collection[End]
) -> set[tuple[End, End]]:
    """The cables seen, each once. Where both ends see different neighbours, the later sighting is the cable of today."""
    sight = {
        f"{device}:{name}": (f"{port['far']}:{port['far_port']}", port["age_s"])
        for device, ports in answered.items()
        for name, port in ports.items()
        if port["far"] and f"{device}:{name}" not in down and f"{device}:{name}" not in elsewhere
    }
    edges = set()
    for end, (far, age_s) in sight.items():
        back, back_age_s = sight.get(far, (end, age_s))
        if back == end or age_s <= back_age_s:
            edges.add(moves.edge(end, far))
    return edges


def _places(
    planned: Mapping[End, End], wrong: Collection[Edge], seen: Collection[Edge], unjudged: Collection[str]
) -> dict[str, str]:
    """{device: the device in whose place it stands}, where both are planned, judged, and have a wrong cable."""
    if not wrong:
        return {}
    with_wrong = {device for edge in wrong for device in _devices(edge)}
    devices = {_device(end) for end in planned} & with_wrong - set(unjudged)
    found = moves.in_places_of_others(planned, seen)
    return {device: place for device, place in found.items() if {device, place} <= devices}


def _by_places(edge: Edge, planned: Mapping[End, End], places: Mapping[str, str]) -> bool:
    """Whether a wrong cable is right for the place in which the device at one of its ends stands."""
    for end, far in (edge, edge[::-1]):
        place = places.get(_device(end))
        if place is not None and planned.get(f"{place}:{end.rpartition(':')[2]}") == far:
            return True
    return False


def _in_places_of_others(places: Mapping[str, str]) -> list[Finding]:
    """TOPOLOGY-PLACES, one for each set of devices that changed places among themselves."""
    found, done = [], set()
    for start in sorted(places):
        group, device = [], start
        while device in places and device not in done:
            done.add(device)
            group.append(device)
            device = places[device]
        if group:
            words = {"places": ", ".join(f"{one} stands in the place of {places[one]}" for one in group)}
            fixes = [remedy(fix="places"), remedy(fix="as-built")]
            found.append(finding("TOPOLOGY-PLACES", group[0], words=words, remedies=fixes))
    return found


def _cut_off(
    planned: Mapping[End, End], seen: Collection[Edge], unseen: Sequence[Edge], switches: Collection[str]
) -> list[tuple[list[str], list[Edge]]]:
    """(switches, the cables without a link to the rest) of each part of the fabric that is alive and has no path to the rest.

    Without a path are parts that no seen cable joins to the largest one, though the plan does. Servers join no switches. A
    single cable that cuts off a part is a cable of its own.
    """
    if len(unseen) < 2:
        return []

    def node(end: End) -> str:
        return _device(end) if _device(end) in switches else end

    wanted = graph.joined((node(a), node(b)) for a, b in planned.items())
    there = graph.joined((node(a), node(b)) for a, b in seen)
    parts: dict[int, list[str]] = {}
    for name, part in there.items():
        parts.setdefault(part, []).append(name)
    size = {part: (sum(name in switches for name in names), len(names), -part) for part, names in parts.items()}
    largest: dict[int, tuple[int, int, int]] = {}
    for name, part in there.items():
        if name in wanted:
            largest[wanted[name]] = max(largest.get(wanted[name], size[part]), size[part])
    main = {-negative for _, _, negative in largest.values()}
    between: dict[int, list[Edge]] = {}
    for cable in unseen:
        ends = [there[node(end)] for end in cable if node(end) in switches and node(end) in there]
        apart = {part for part in ends if part not in main}
        if len(ends) == 2 and ends[0] != ends[1] and apart:
            between.setdefault(min(apart, key=size.__getitem__), []).append(cable)
    return [
        (sorted(name for name in parts[part] if name in switches), cut)
        for part, cut in sorted(between.items())
        if len(cut) > 1
    ]


def _alone(
    planned: Mapping[End, End], seen: Collection[Edge], unseen: Sequence[Edge], answering: Collection[str]
) -> list[tuple[str, list[Edge]]]:
    """(switch, its planned cables without a link) of each switch that answers and sees nothing, where these are several.

    A cable between two of them is named with the first.
    """
    with_link = {device for edge in seen for device in _devices(edge)}
    wanted = Counter(_device(end) for end in planned)
    dark: dict[str, list[Edge]] = {}
    for cable in unseen:
        for device in sorted(_devices(cable)):
            if device in answering and device not in with_link and wanted[device] > 1:
                dark.setdefault(device, []).append(cable)
                break
    return sorted(dark.items())


def _switch_alone(switch: str, cables: Sequence[Edge]) -> Finding:
    return finding(
        "TOPOLOGY-CUT-OFF",
        switch,
        case="alone",
        ports=tuple(end for cable in cables for end in cable),
        words={"seen": _cables(cables)},
        remedies=[remedy(fix="bundle"), remedy(fix="alone")],
        cables=len(cables),
    )


def _part_cut_off(part: Sequence[str], between: Sequence[Edge]) -> Finding:
    others = sorted({device for cable in between for device in _devices(cable)} - set(part))
    return finding(
        "TOPOLOGY-CUT-OFF",
        part[0],
        case="switch" if len(part) == 1 else "part",
        ports=tuple(end for cable in between for end in cable),
        words={"part": ", ".join(part), "others": ", ".join(others), "seen": _cables(between)},
        remedies=[remedy(fix="bundle")],
        cables=len(between),
    )


def _shifted(fault: moves.Fault, shift: moves.Shift, rail_of: Callable[[End], int]) -> Finding:
    """TOPOLOGY-SHIFTED, with the plugs in the order in which each finds its port free, or only the one that went around in it."""
    fault = moves.carried(fault, (moves.Exchange(*plug) for plug in shift.plugs[: len(fault.exchanges)]))
    further = f"{abs(shift.by)} port{'s' * (abs(shift.by) > 1)} {'further' if shift.by > 0 else 'back'}"
    return _exchanged("TOPOLOGY-SHIFTED", fault, rail_of, device=shift.device, further=further, plugs=len(shift.plugs))


def _swapped(fault: moves.Fault, rail_of: Callable[[End], int]) -> Finding:
    return _exchanged("TOPOLOGY-SWAPPED", fault, rail_of)


def _exchanged(id_: str, fault: moves.Fault, rail_of: Callable[[End], int], **more: Any) -> Finding:
    """A finding about cables that exchanges of plugs put right; `more` are its words and numbers."""
    pairs = [(exchange.one, exchange.two) for exchange in fault.exchanges]
    named = [end for pair in pairs for end in pair]
    rest = tuple(sorted(fault.ends - set(named)))
    rails = _rails((*named, *rest), rail_of)
    after = "-missing" if fault.missing else "-left" if fault.left else ""
    words = {
        "seen": _cables(fault.seen),
        "planned": _cables(fault.planned),
        "rails": ", ".join(map(str, rails)),
        "missing": _cables([fault.missing] if fault.missing else []),
        "left": _cables([fault.left] if fault.left else []),
        "steps": ", then ".join(f"at {one} and {two}" for one, two in pairs),
        **more,
    }
    return finding(
        id_,
        _device(named[0]),
        case=("mixed-rails" if len(rails) > 1 else "planned-rails") + after,
        ports=(*named, *rest),
        words=words,
        remedies=[remedy(fix=f"swap{after}"), *([] if len(rails) > 1 else [remedy(fix="as-built")])],
        exchanges=len(pairs),
    )


def _cables(edges: Iterable[Edge]) -> str:
    return ", ".join(f"{a} -- {b}" for a, b in edges)


def _extra(edge: tuple[End, End], planned: Mapping[End, End], rail_of: Callable[[End], int]) -> Finding:
    x, y = edge
    rails = _rails(edge, rail_of)
    return finding(
        "TOPOLOGY-EXTRA",
        _device(x),
        case="mixed-rails" if len(rails) > 1 else "planned-rails",
        ports=edge,
        words={
            "cable": f"{x} -- {y}",
            "planned": ", ".join(f"{end} -- {planned.get(end, 'nothing')}" for end in edge),
            "rails": ", ".join(map(str, rails)),
        },
    )


def _foreign(edge: Edge, planned: Mapping[End, End], known: Collection[str]) -> Finding:
    """A device that is in no cable of the plan, at a port of one that is."""
    near, far = sorted(edge, key=lambda end: _device(end) not in known)
    return finding(
        "TOPOLOGY-FOREIGN",
        _device(near),
        case="planned" if near in planned else "free",
        ports=(near,),
        words={
            "port": near,
            "there": _device(far),
            "there_port": far.rpartition(":")[2],
            "planned": planned.get(near, ""),
        },
    )


def _parallel_only(fault: moves.Fault) -> bool:
    """Whether all cables of a fault are between the same two devices, and as many as planned."""
    pairs = {frozenset(_devices(edge)) for edge in (*fault.seen, *fault.planned)}
    return len(pairs) == 1 and fault.missing is None and fault.left is None


def _parallel(fault: moves.Fault) -> Finding:
    """Links between the same two switches, exchanged among each other."""
    one, other = sorted(_devices(fault.seen[0]))
    return finding(
        "TOPOLOGY-PARALLEL",
        one,
        ports=tuple(sorted(fault.ends)),
        words={"other": other, "seen": _cables(fault.seen), "planned": _cables(fault.planned)},
    )


def _rails(ends: Iterable[End], rail_of: Callable[[End], int]) -> list[int]:
    """The rails of these ends, each once."""
    return sorted({rail for end in ends for rail in [rail_of(end)] if rail >= 0})


def _missing(cable: tuple[End, End]) -> Finding:
    return finding("TOPOLOGY-MISSING", _device(cable[0]), ports=cable, words={"cable": f"{cable[0]} -- {cable[1]}"})


def _link_down(cable: tuple[End, End]) -> Finding:
    return finding("LINK-DOWN", _device(cable[0]), ports=cable, words={"cable": f"{cable[0]} -- {cable[1]}"})


def _stale(
    answered: Mapping[str, Mapping[str, Port]], max_age_s: float | None, planned: Mapping[End, End]
) -> list[Finding]:
    """Ports of the fabric where a vanished neighbour would still be shown after the limit."""
    if max_age_s is None:
        return []
    found = []
    for device, ports in sorted(answered.items()):
        old = {n: p["ttl_s"] for n, p in ports.items() if f"{device}:{n}" in planned and p["ttl_s"] > max_age_s}
        if old:
            found.append(
                finding(
                    "TOPOLOGY-STALE",
                    device,
                    limit=max_age_s,
                    limit_source="site limits.lldp_max_age_s",
                    ports=tuple(f"{device}:{n}" for n in sorted(old)),
                    ttl_s=float(max(old.values())),
                    remedies=[
                        remedy(fix="shorter-hold"),
                        remedy({"limits.lldp_max_age_s.value": math.ceil(max(old.values()))}, sure=True),
                    ],
                    words={"interfaces": ", ".join(sorted(old))},
                )
            )
    return found
