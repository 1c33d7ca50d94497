"""Documents of the supply: panel schedule, lockout and tagout sheets, labels of the elements.

Frames with one row a line, written by
capacity.outputs.documents.installation. Lockout follows the five safety rules of EN 50110-1 clause 6.2
(disconnect completely, secure against reconnection, prove dead, earth and short-circuit, guard what stays live) and the
process of NFPA 70E 120.5, where the tester is proven before and after each test. The safety officer approves the sheets;
they replace neither the arc-flash study nor the manufacturer's manual.
"""

import numpy as np
import pandas as pd

from capacity.model import Plan
from capacity.power.rack import line_currents

PANEL_COLUMNS = (
    "panel",
    "feed",
    "room",
    "fed_from",
    "voltage_v",
    "main_a",
    "spare_places",
    "spare_poles",
    "position",
    "poles",
    "circuit",
    "breaker_a",
    "phases",
    "rack",
    "end",
    "l1_a",
    "l2_a",
    "l3_a",
    "worst_line_a",
    "worst_line",
    "worst_line_when",
    "carries_a",
    "load_kw",
    "worst_kw",
    "usable_kw",
    "conductor",
    "ampacity_a",
    "fault_ka",
    "peak_ka",
    "end_rating_ka",
)
UNKNOWN = "unknown"
LOCKOUT_COLUMNS = ("isolation_point", "kind", "room", "step", "action")


def phase_amps(plan: Plan) -> pd.DataFrame:
    """Line currents L1, L2, L3 in A per circuit end (rack PDU or shelf) with all feeds up, at the outlets' loads.

    What is not on outlets (power shelves, the PDU's own draw) lies evenly on all lines.
    """
    circuits, outlets = plan.circuits, plan.outlets
    of_outlet, between = line_currents.of_outlets(outlets["phase"].tolist())
    at = pd.Index(circuits["pdu"]).get_indexer(pd.Index(outlets["pdu"])).astype(np.int64)
    watts = outlets["load_w"].to_numpy(dtype=np.float64)
    rest = circuits["load_kw"].to_numpy(dtype=np.float64) * 1000 - np.bincount(at, watts, minlength=len(circuits))
    legs = line_currents.Legs(
        of_outlet,
        between,
        circuits["voltage_v"].to_numpy(dtype=np.float64),
        circuits["phases"].to_numpy(dtype=np.int64),
        plan.site.power.power_factor,
    )
    table = legs.line_a(line_currents.leg_watts(of_outlet, at, watts, np.maximum(rest, 0.0)))
    return pd.DataFrame(table, columns=list(line_currents.LINES), index=circuits["circuit"])


def panel_schedule(plan: Plan) -> pd.DataFrame:
    """One row a branch circuit: panel, position, breaker, rack, line currents, load normal and worst, conductor, fault level
    and rating at its end (S083), each "unknown" where nothing states it.

    Poles are numbered as in a panel of two columns: odd on the left, even on the right, a three-pole breaker takes three
    of one column. Tap-offs of busway are numbered along the run.
    """
    elements = plan.elements.set_index("name")
    if elements.empty:
        return pd.DataFrame(columns=list(PANEL_COLUMNS))
    circuits = plan.circuits
    panel = elements.loc[circuits["circuit"], "upstream"].to_numpy(dtype=object)
    place = pd.Series(panel).groupby(panel).cumcount().to_numpy()
    taken = pd.Series(panel).groupby(panel).transform("size").to_numpy()
    electrical = plan.site.electrical
    conductor = electrical.rack_conductor if electrical else None
    busway = electrical is not None and electrical.panels.kind == "busway"
    poles = [f"tap {p + 1}" if busway else _poles(p) for p in place.tolist()]
    places = electrical.panels.circuits if electrical else 0
    amps = phase_amps(plan).round(2)
    rows = pd.DataFrame(
        {
            "panel": panel,
            "feed": circuits["feed"].to_numpy(),
            "room": elements.loc[panel, "domain"].to_numpy(),
            "fed_from": elements.loc[panel, "upstream"].to_numpy(),
            "voltage_v": elements.loc[panel, "voltage_v"].to_numpy(),
            "main_a": elements.loc[panel, "rating"].to_numpy(),
            "spare_places": places - taken,
            "spare_poles": [spare_poles(used, places, busway) for used in taken.tolist()],
            "position": place + 1,
            "poles": poles,
            "circuit": circuits["circuit"].to_numpy(),
            "breaker_a": circuits["breaker_a"].to_numpy(),
            "phases": circuits["phases"].to_numpy(),
            "rack": circuits["rack"].to_numpy(),
            "end": circuits["pdu"].to_numpy(),
            **{f"{leg.lower()}_a": amps[leg].to_numpy() for leg in line_currents.LINES},
            "worst_line_a": circuits["worst_phase_a"].round(2).to_numpy(),
            "worst_line": circuits["worst_phase"].to_numpy(),
            "worst_line_when": circuits["phase_case"].to_numpy(),
            "carries_a": (circuits["breaker_a"] * plan.site.power.derating).round(2).to_numpy(),
            "load_kw": circuits["load_kw"].round(3).to_numpy(),
            "worst_kw": elements.loc[circuits["circuit"], "worst_kw"].round(3).to_numpy(),
            "usable_kw": circuits["usable_kw"].round(3).to_numpy(),
            "conductor": conductor.size if conductor else "",
            "ampacity_a": (conductor.ampacity_a if conductor else None) or UNKNOWN,
            "fault_ka": elements.loc[circuits["circuit"], "fault_ka"].round(2).to_numpy(),
            "peak_ka": elements.loc[circuits["circuit"], "peak_ka"].round(2).to_numpy(),
            "end_rating_ka": [
                f"{ka:g}" if ka > 0 else UNKNOWN for ka in elements.loc[circuits["circuit"], "rating_ka"]
            ],
        }
    )
    return rows.sort_values(["panel", "position"], kind="stable").reset_index(drop=True)


def _poles(place: int) -> str:
    """Poles of a three-pole breaker at a place of a panel, counted from 0: '1-3-5', '2-4-6', '7-9-11'."""
    first = 6 * (place // 2) + place % 2 + 1
    return f"{first}-{first + 2}-{first + 4}"


def spare_poles(used: int, places: int, busway: bool = False) -> str:
    """Which poles are free where the first `used` of `places` are taken: '20-22-24, 25 to 42'; tap-offs of a busway; ''."""
    if used >= places:
        return ""
    if busway:
        return f"tap {used + 1} to tap {places}"
    parts, start = [], used + used % 2
    if used % 2:
        parts.append(_poles(used))
    if (pairs := (places - start) // 2) > 0:
        parts.append(f"{3 * start + 1} to {3 * start + 6 * pairs}")
    if places > start and (places - start) % 2:
        parts.append(_poles(places - 1))
    return ", ".join(parts)


SELF_FED = ("utility", "generator", "ups")
"""Kinds that are alive without a source in the tree: the grid, a set that runs, a battery behind an inverter."""
_FIRST = {
    "ups": "Transfer its load or shut it down as the manufacturer says",
    "generator": "Controller to off; starting battery disconnected, fuel valve closed, heater and charger off: lock and tag each",
    "utility": "The grid company isolates, locks and earths its end; its permit is on this sheet",
    "mechanical": "Stop chillers, pumps and fans; open, lock and tag their own disconnects",
}
"""What is done before breakers are opened."""
_OWN = {
    "intake": "Rack all these breakers out",
    "ups": "Open, lock and tag its input breaker, static-bypass supply, maintenance bypass (wrap-around), output breaker and "
    "battery breaker",
}
"""What is opened beside the breakers between it and its neighbours."""
_STORED = {
    "ups": "Wait until the capacitors of DC link and filters are discharged: the time that the manufacturer's manual gives",
    "intake": "Discharge and block the springs of its breaker drives",
    "generator": "Wait for standstill; block the shaft where the manufacturer says so",
    "mechanical": "Wait until the capacitors of the drives are discharged: the time that their manual gives",
}
_EARTH = {
    "utility": "Earth and short-circuit the incoming line at its termination",
    "intake": "Earth and short-circuit: close the earthing switch, or the portable set on the busbar",
    "transformer": "Earth and short-circuit both sides: each winding can be fed through the other",
    "pdu_transformer": "Earth and short-circuit both sides: each winding can be fed through the other",
}
_EARTH_ELSE = "Earth and short-circuit where the drawing shows an earthing point or a conductor can be fed or charged"
_LAST = "Return: all persons clear, earths and tools away, each lock and tag off by who hung it, close in reverse order, check"


def sources_of(elements: pd.DataFrame) -> list[tuple[str, ...]]:
    """Elements that can feed each row of `elements`: the normal one first."""
    others = elements["alternates"].str.split("; ")
    return [
        tuple(name for name in (normal, *rest) if name)
        for normal, rest in zip(elements["upstream"], others, strict=True)
    ]


def fed_back(elements: pd.DataFrame) -> dict[str, list[str]]:
    """For each element above the circuits, the elements behind it that can be alive while it is dead, in order.

    Such a one has another source, or is a UPS (its battery), or has something of these behind it: a transformer is fed
    back from the board behind it.
    """
    above = elements[elements["kind"] != "circuit"]
    given = dict(zip(above["name"], sources_of(above), strict=True))
    behind: dict[str, list[str]] = {name: [] for name in given}
    for name, sources in given.items():
        for source in sources:
            behind[source].append(name)
    alive = dict(zip(above["name"], above["kind"].isin(SELF_FED), strict=True))

    def lives(name: str) -> bool:
        return alive[name] or len(given[name]) > 1

    for name in reversed(list(given)):
        alive[name] = bool(alive[name]) or any(lives(other) for other in behind[name])
    return {name: [other for other in others if lives(other)] for name, others in behind.items()}


def _opened(name: str, kind: str, sources: tuple[str, ...], behind: list[str]) -> list[str]:
    """What is opened, locked and tagged before work at an element, one action each."""
    lock = "lock it with a personal lock, hang the tag"
    if kind == "circuit":
        return [f"Open breaker {name} in {sources[0]}, {lock}; pull the plug of its rack PDU or shelf"]
    steps = [_FIRST[kind]] if kind in _FIRST else []
    steps += [f"Open the breaker between {source} and {name}, {lock}" for source in sources[:1]]
    steps += [f"Block the transfer: open the breaker between {other} and {name}, {lock}" for other in sources[1:]]
    steps += [
        f"{other} can be alive from another side: open the breaker between {name} and {other}, {lock}"
        for other in behind
    ]
    return [*steps, *([_OWN[kind]] if kind in _OWN else [])]


def lockout_sheets(plan: Plan) -> pd.DataFrame:
    """One row a step, for every element that can be isolated, rack circuits included (S095).

    All sources and everything behind that can be alive is opened and locked, stored energy released, absence of voltage
    proven with a tester that is proven before and after, and only then earthed.
    """
    if plan.elements.empty:
        return pd.DataFrame(columns=list(LOCKOUT_COLUMNS))
    elements = plan.elements
    lost = plan.failures.drop_duplicates("failure").set_index("failure").reindex(elements["name"])
    sources, behind = sources_of(elements), fed_back(elements)
    volts = dict(zip(elements["name"], elements["voltage_v"], strict=True))
    rows: list[tuple[str, str, str, int, str]] = []
    figures = lost[["dead_circuits", "loads_affected", "servers_lost"]].to_numpy(dtype=np.int64).tolist()
    for element, given, (dark, fewer, servers) in zip(elements.to_dict("records"), sources, figures, strict=True):
        name, kind = str(element["name"]), str(element["kind"])
        at = {element["voltage_v"], *(volts[source] for source in given)}
        fault = f"{element['fault_ka']:.1f} kA" if element["fault_ka"] > 0 else "not computed (generators)"
        where = " and ".join(f"{v:g} V" for v in sorted(at, reverse=True))
        actions = [
            f"Permit and second signature. Without {name}: rack circuits dead {dark:,}, devices on fewer supplies {fewer:,}, "
            f"GPU servers dark {servers:,}" + ("; drain them first" if servers else ""),
            *_opened(name, kind, given, behind.get(name, [])),
            "Look that each opened one is apart, where blades or a withdrawn breaker can be seen",
            *([_STORED[kind]] if kind in _STORED else []),
            "Prove the tester on a known source",
            f"Prove {name} dead on all poles: all phases, neutral and earth ({where}, largest fault current {fault})",
            "Prove the tester again on the known source",
            f"{_EARTH.get(kind, _EARTH_ELSE)}; cover what stays live beside {name}",
            f"{_LAST} load and phase currents of {name}",
        ]
        rows += [(name, kind, str(element["domain"]), step + 1, text) for step, text in enumerate(actions)]
    return pd.DataFrame(rows, columns=list(LOCKOUT_COLUMNS))


def power_labels(outlets: pd.DataFrame, circuits: pd.DataFrame, elements: pd.DataFrame) -> pd.DataFrame:
    """One row a label: each cord with its outlet and source circuit, each PDU or shelf with its circuit and panel, and each
    element above the circuits (S089).
    """
    used = outlets[outlets["device"] != ""]
    circuit = used["pdu"].map(circuits.set_index("pdu")["circuit"])
    label = used["pdu"] + " outlet " + used["outlet"].astype(str) + ", feed " + used["feed"] + ", circuit " + circuit
    cords = pd.DataFrame({"at": used["device"] + " PSU " + used["psu"].astype(str), "label": label})
    panels = elements.set_index("name")["upstream"].reindex(circuits["circuit"]).fillna("")
    panel = pd.Series((", panel " + panels).where(panels != "", "").to_numpy(), index=circuits.index)
    breaker = ", feed " + circuits["feed"] + ", " + circuits["breaker_a"].map("{:g}".format) + " A"
    ends = pd.DataFrame({"at": circuits["pdu"], "label": circuits["circuit"] + breaker + panel})
    return pd.concat([cords, ends, element_labels(elements)], ignore_index=True)


def element_labels(elements: pd.DataFrame) -> pd.DataFrame:
    """One label an element above the rack circuits: what it is, what feeds it, its rating and fault level (S089)."""
    above = elements[elements["kind"] != "circuit"]
    if above.empty:
        return pd.DataFrame({"at": [], "label": []}, dtype=str)
    fed = ("fed from " + above["upstream"]).where(above["upstream"] != "", "source")
    other = (", or " + above["alternates"]).where(above["alternates"] != "", "")
    text = (
        fed
        + other
        + ", feed "
        + above["feed"].where(above["feed"] != "", "all")
        + ", "
        + above["rating"].map("{:g}".format)
        + " "
        + above["unit"]
        + ", "
        + above["voltage_v"].map("{:g}".format)
        + " V"
        + (", " + above["fault_ka"].map("{:.1f}".format) + " kA").where(above["fault_ka"] > 0, "")
    )
    return pd.DataFrame({"at": above["name"], "label": text})
