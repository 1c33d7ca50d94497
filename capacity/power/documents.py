"""Documents of the supply: panel schedule, lockout and tagout sheets, labels of the elements.

Frames with one row a line, written by capacity.documents. Lockout follows the sequence of NFPA 70E 120.5 and the five
safety rules of EN 50110-1 clause 6.2: isolate, secure, prove dead, earth, guard. The safety officer approves them; they
replace neither the arc-flash study nor the maker's manual.
"""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from capacity.plan import Plan

LEGS = ("L1", "L2", "L3")
PANEL_COLUMNS = (
    "panel", "feed", "room", "main_a", "position", "poles", "circuit", "breaker_a", "phases", "rack", "end",
    "l1_a", "l2_a", "l3_a", "load_kw", "worst_kw", "usable_kw", "fault_ka",
)  # fmt: skip
LOCKOUT_COLUMNS = ("isolation_point", "kind", "room", "step", "action")


def phase_amps(plan: "Plan") -> pd.DataFrame:
    """Line currents L1, L2, L3 in A per circuit end (rack PDU or shelf) with all feeds up, at the outlets' loads.

    Outlets between two lines: I1 = sqrt(a^2 + b^2 + a b) of the currents a, b of the two outlets' groups at 120 degrees.
    What is not on outlets (power shelves, the PDU's own draw) is taken as balanced.
    """
    circuits, pf = plan.circuits, plan.site.power.power_factor
    volts = circuits["voltage_v"].to_numpy(dtype=np.float64)
    loads = plan.outlets.groupby(["pdu", "phase"], sort=False)["load_w"].sum().unstack(fill_value=0)
    loads = loads.reindex(circuits["pdu"], fill_value=0.0)

    def amps(phase: str, at: np.ndarray) -> np.ndarray:
        watts = loads[phase].to_numpy(dtype=np.float64) if phase in loads else np.zeros(len(circuits))
        return np.asarray(watts / pf / at)

    star = [amps(leg, volts / np.sqrt(3)) for leg in LEGS]
    a, b, c = (amps(pair, volts) for pair in ("L1-L2", "L2-L3", "L3-L1"))
    delta = [np.sqrt(x**2 + y**2 + x * y) for x, y in ((a, c), (a, b), (b, c))]
    rest = circuits["load_kw"].to_numpy(dtype=np.float64) * 1000 - loads.sum(axis=1).to_numpy(dtype=np.float64)
    even = np.maximum(rest, 0.0) / pf / volts / np.sqrt(3)
    return pd.DataFrame({leg: star[i] + delta[i] + even for i, leg in enumerate(LEGS)}, index=circuits["circuit"])


def panel_schedule(plan: "Plan") -> pd.DataFrame:
    """One row a branch circuit: panel, position, breaker, rack, phase currents, load normal and worst (S083).

    Poles are numbered as in a panel of two columns: odd on the left, even on the right, a three-pole breaker takes three
    of one column. Tap-offs of busway are numbered along the run.
    """
    elements = plan.elements.set_index("name")
    if elements.empty:
        return pd.DataFrame(columns=list(PANEL_COLUMNS))
    circuits = plan.circuits
    panel = elements.loc[circuits["circuit"], "upstream"].to_numpy(dtype=object)
    place = pd.Series(panel).groupby(panel).cumcount().to_numpy()
    first = 6 * (place // 2) + place % 2 + 1
    electrical = plan.site.electrical
    busway = electrical is not None and electrical.panels.kind == "busway"
    poles = [f"tap {p + 1}" if busway else f"{f}-{f + 2}-{f + 4}" for p, f in zip(place, first, strict=True)]
    amps = phase_amps(plan).round(2)
    rows = pd.DataFrame(
        {
            "panel": panel,
            "feed": circuits["feed"].to_numpy(),
            "room": elements.loc[panel, "domain"].to_numpy(),
            "main_a": elements.loc[panel, "rating"].to_numpy(),
            "position": place + 1,
            "poles": poles,
            "circuit": circuits["circuit"].to_numpy(),
            "breaker_a": circuits["breaker_a"].to_numpy(),
            "phases": circuits["phases"].to_numpy(),
            "rack": circuits["rack"].to_numpy(),
            "end": circuits["pdu"].to_numpy(),
            **{f"{leg.lower()}_a": amps[leg].to_numpy() for leg in LEGS},
            "load_kw": circuits["load_kw"].round(3).to_numpy(),
            "worst_kw": elements.loc[circuits["circuit"], "worst_kw"].round(3).to_numpy(),
            "usable_kw": circuits["usable_kw"].round(3).to_numpy(),
            "fault_ka": elements.loc[circuits["circuit"], "fault_ka"].round(2).to_numpy(),
        }
    )
    return rows.sort_values(["panel", "position"], kind="stable").reset_index(drop=True)


_STORED = {
    "ups": "Open and lock the battery breaker and the static-bypass supply; wait for the DC link to discharge as the "
    "maker's manual says",
    "generator": "Controller to off, starting battery disconnected, fuel valve closed; lock and tag each",
    "generators": "All sets of the plant off and locked, as their own sheets say",
    "intake": "Rack the breaker out and close the earthing switch",
    "transformer": "Earth both sides: secondary windings can be fed back",
    "pdu_transformer": "Earth both sides: secondary windings can be fed back",
    "utility": "The grid company isolates and earths its end; its permit is on this sheet",
    "mechanical": "Chillers, pumps and fans stopped and locked at their own disconnects",
}
_LAST = (
    "Return: all persons clear, earths and tools away, each tag taken off by who hung it, close in reverse order, check"
)


def lockout_sheets(plan: "Plan") -> pd.DataFrame:
    """One row a step, for every element that can be isolated, rack circuits included (S095)."""
    if plan.elements.empty:
        return pd.DataFrame(columns=list(LOCKOUT_COLUMNS))
    elements = plan.elements
    lost = plan.failures.drop_duplicates("failure").set_index("failure").reindex(elements["name"])
    name, kind = elements["name"], elements["kind"]
    dark = lost["dead_circuits"].to_numpy(dtype=np.int64), lost["servers_lost"].to_numpy(dtype=np.int64)
    affected = lost["loads_affected"].to_numpy(dtype=np.int64)
    what = [
        f"Permit and second signature. Without {n}: {c} rack circuits dead, {a} devices on fewer supplies, {s} GPU servers dark"
        + ("; drain them first" if s else "")
        for n, c, a, s in zip(name, dark[0], affected, dark[1], strict=True)
    ]
    source = elements["upstream"].where(elements["upstream"] != "", "its own source")
    steps: list[tuple[int, pd.Series]] = [
        (1, pd.Series(what, index=elements.index)),
        (2, "Open the breaker of " + source + " towards " + name + ", lock it with a personal lock, hang the tag"),
        (3, "Block the transfer: open and lock " + elements["alternates"] + " towards " + name),
        (4, kind.map(_STORED).fillna("")),
        (5, "Prove the tester, prove " + name + " dead between all phases, to neutral and to earth ("
         + elements["voltage_v"].map("{:g}".format) + " V, largest fault current "
         + elements["fault_ka"].map("{:.1f}".format) + " kA), prove the tester again"),
        (6, "Earth and short-circuit where the drawing shows it; cover what stays live beside " + name),
        (7, pd.Series(_LAST, index=elements.index) + " load and phase currents of " + name),
    ]  # fmt: skip
    table = pd.concat(
        [
            pd.DataFrame(
                {"isolation_point": name, "kind": kind, "room": elements["domain"], "order": order, "action": text}
            )
            for order, text in steps
        ]
    )
    needed = (table["order"] != 3) | (elements["alternates"].reindex(table.index) != "")
    needed &= table["action"] != ""
    table = table[needed.to_numpy()].sort_values("order", kind="stable").sort_index(kind="stable")
    table["step"] = table.groupby(level=0).cumcount() + 1
    return table[list(LOCKOUT_COLUMNS)].reset_index(drop=True)


def element_labels(plan: "Plan") -> pd.DataFrame:
    """One label an element above the rack circuits: what it is, what feeds it, its rating and fault level (S089)."""
    above = plan.elements[plan.elements["kind"] != "circuit"]
    fed = ("fed from " + above["upstream"]).where(above["upstream"] != "", "source")
    other = (", or " + above["alternates"]).where(above["alternates"] != "", "")
    text = (
        fed + other + ", feed " + above["feed"].where(above["feed"] != "", "all") + ", "
        + above["rating"].map("{:g}".format) + " " + above["unit"] + ", " + above["voltage_v"].map("{:g}".format) + " V"
        + (", " + above["fault_ka"].map("{:.1f}".format) + " kA").where(above["fault_ka"] > 0, "")
    )  # fmt: skip
    return pd.DataFrame({"at": above["name"], "label": text})
