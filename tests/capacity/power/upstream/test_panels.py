"""Where power panels stand, which racks they serve, and the conductors that follow from it."""

from collections.abc import Callable
from typing import cast

import numpy as np
import pandas as pd
import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.outputs.summary import summarise
from capacity.power.upstream import tree as trees
from inventory.site import load_site
from inventory.site.whatif import changed
from tests.capacity.power.upstream.test_load_flow import planned_and_solved
from tests.capacity.power.upstream.test_tree import with_electrical
from tests.capacity.sites import variant
from tests.findings import as_set, names, offers
from tests.plans import plan_of
from validation.check import Outcome
from validation.checks import test_electrical as electrical

Check = Callable[[str, Plan], Outcome]


def circuits_of(plan: Plan) -> pd.DataFrame:
    """Circuits with row and place of their rack and of their panel."""
    elements = plan.elements.set_index("name")
    panel = elements.loc[elements.loc[plan.circuits["circuit"], "upstream"]]
    rack = plan.racks.set_index("name").loc[plan.circuits["rack"]]
    return pd.DataFrame(
        {
            "panel": panel.index,
            "panel_row": panel["row"].to_numpy(),
            "row": rack["row"].to_numpy(),
            "metres": (panel["x_m"].to_numpy() - rack["x_m"].to_numpy()),
            "aisle": (panel["y_m"].to_numpy() - rack["y_m"].to_numpy()),
            "conductor_m": elements.loc[plan.circuits["circuit"], "conductor_m"].to_numpy(),
        }
    )


@pytest.mark.parametrize("name", ["h100-1000-ib", "b200-256-roce", "lab"])
def test_every_panel_stands_at_the_head_of_the_one_row_that_it_serves(name: str) -> None:
    plan = plan_of(name)
    ways = circuits_of(plan)
    assert (ways["panel_row"] == ways["row"]).all()
    panels = plan.elements[plan.elements["kind"] == "panel"]
    assert plan.site.electrical is not None
    width = plan.site.electrical.panels.width_m or plan.site.room.rack_pitch_m
    for _, row in panels.groupby("row"):
        assert np.diff(np.sort(row["x_m"])).min() >= width - 1e-6
    first_rack = plan.racks["x_m"].min() - plan.site.room.rack_pitch_m / 2
    assert panels["x_m"].max() + width / 2 <= first_rack + 1e-6
    assert not [f for f in plan.findings if f.id == "SPACE-RPP"]
    assert summarise(plan)["space"]["places"]["power_panels"] == len(panels)


@pytest.mark.parametrize("rows", [2, 3])
def test_a_conductor_goes_from_its_panel_along_the_row_across_the_aisle_and_over_the_tray(rows: int) -> None:
    """Two heads of two panels hold fewer than the three panels of a row; three heads hold all six, across the rows."""
    ways = circuits_of(
        plan := build(variant("b200-256-roce", room={"rpps_per_row": 3 if rows == 2 else 2, "rows": rows}))
    )
    by_hand = ways["metres"].abs() + ways["aisle"].abs() + 2 * 2.8 + 1.0
    assert ways["conductor_m"].to_numpy() == pytest.approx(by_hand.to_numpy(), abs=2e-3)
    crossing = int((ways["panel_row"] != ways["row"]).sum())
    said = [f for f in plan.findings if f.id == "SPACE-RPP"]
    assert [(f.severity, f.numbers["crossing"]) for f in said] == ([("info", crossing)] if rows == 3 else [])
    assert bool(crossing) == (rows == 3)


def test_panels_without_a_place_name_the_places_that_hold_them() -> None:
    """Six panels of 0.6 m a row: 3.6 m, five places of 0.8 m; with four of them one panel a row has no place."""
    site = load_site("h100-1000-ib")
    found = {}
    for places in (0, 4, 5):
        room = {"rpps_per_row": places, "racks_per_row": 24 + places}
        found[places] = [f for f in build(variant(site.name, room=room)).findings if f.id == "SPACE-RPP"]
    assert found[5] == []
    assert [f.severity for f in found[0] + found[4]] == ["error", "info"]
    assert found[0][0].numbers["without_place"] == 90
    # The racks have places enough beside the panels. An error is tried, information is not.
    assert [one.settings for one in found[0][0].remedies] == [{"room.rpps_per_row": 5}]
    assert [one.settings for one in found[4][0].remedies] == [{"room.rpps_per_row": 5, "room.racks_per_row": 29}]
    assert names(found[4][0], 4, 28)


def test_a_panel_that_narrows_the_aisle_is_told() -> None:
    deep = with_electrical("b200-256-roce", {"panels": {"depth_m": 1.9}})
    room = deep.room.model_copy(update={"aisle_min_m": 1.2})
    (found,) = [f for f in build(deep.model_copy(update={"room": room})).findings if f.id == "SPACE-RPP"]
    assert found.subject == "electrical.panels.depth_m"
    assert offers(found, "room.row_pitch_m", 3.1)


def test_busway_runs_over_its_row_and_each_stretch_carries_what_is_behind_it() -> None:
    """Drop to the last tap-off by hand: R of each stretch x the current of all loads from there on; and of its own drop."""
    site = with_electrical("gb300-nvl72-liquid", {"rack_conductor": {"length_m": None}})
    plan, (net, circuits, lengths, states, *_, along), result = planned_and_solved(site)
    assert set(lengths) == {2.8 + 1.0}
    rack_x = plan.racks.set_index("name").loc[circuits["rack"], "x_m"].to_numpy()
    assert along == pytest.approx(rack_x)
    mine = np.flatnonzero(net.tree.panel_of == net.tree.panel_of[0])
    last = mine[along[mine].argmax()]
    volts = circuits["voltage_v"].iloc[0]
    amps = states[0] * 1000 / volts / np.sqrt(3)
    r_ohm_m = net.electrical.panels.feeder.r_ohm_km / 1000
    places = np.unique(along[mine])
    drop_v = sum(
        (here - before) * r_ohm_m * amps[mine][along[mine] >= here - 1e-9].sum()
        for before, here in zip([0.0, *places[:-1]], places, strict=True)
    )
    drop_v += amps[last] * net.electrical.rack_conductor.r_ohm_km / 1000 * lengths[last]
    solved = result.element_pu[0, net.tree.panel_of[0]] - result.circuit_pu[0, last]
    assert solved * volts / np.sqrt(3) == pytest.approx(drop_v, rel=0.01)
    ends = plan.elements[(plan.elements["kind"] == "circuit") & (plan.elements["feed"] == "A")]
    assert ends.sort_values("conductor_m")["fault_ka"].is_monotonic_decreasing


SMALL_PANELS = (
    "electrical.panels.rating_a=100",
    "electrical.panels.feeder.ampacity_a=100",
    "room.rpps_per_row=9",
    "room.racks_per_row=21",
    "room.length_m=60",
)


def lines_by_hand(plan: Plan, panel: str, lost: str) -> dict[str, float]:
    """Line currents of a panel when feed `lost` is and servers keep to their cap of 13 kW: cord by cord, phase to neutral, and
    25 W of each PDU on all lines.
    """
    used = plan.outlets[plan.outlets["device"] != ""]
    drawn = used.groupby("device")["load_w"].sum().clip(upper=13_000.0)
    left = used[used["feed"] != lost].groupby("device").size()
    circuits = plan.circuits.set_index("circuit")
    above = plan.elements.set_index("name")["upstream"]
    pdus = circuits.loc[above.index[above == panel], "pdu"].tolist()
    cords = used[used["pdu"].isin(pdus)]
    watts = (drawn[cords["device"]].to_numpy() / left[cords["device"]].to_numpy()).tolist()
    volts = plan.site.power.voltage_v / 3**0.5
    total = pd.Series(watts, index=cords["phase"].to_numpy()).groupby(level=0).sum()
    return {line: (float(total[line]) + 25 * len(pdus) / 3) / volts for line in ("L1", "L2", "L3")}


def test_panels_are_filled_so_that_no_line_carries_too_much() -> None:
    plan = build(changed("b200-256-roce", list(SMALL_PANELS)))
    assert not [f for f in plan.findings if f.id in ("POWER-ELEMENT", "POWER-PHASE-LOAD")]
    panels = plan.elements[plan.elements["kind"] == "panel"]
    assert panels["worst_phase_a"].max() <= 80.0


def test_a_panel_is_judged_on_its_fullest_line_and_fewer_circuits_mend_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "by_fullest_line", lambda circuits, power_factor: circuits)
    plan = build(changed("b200-256-roce", list(SMALL_PANELS)))
    assert not [f for f in plan.findings if f.id == "POWER-ELEMENT"]
    (found,) = [f for f in plan.findings if f.id == "POWER-PHASE-LOAD"]
    assert (found.err, found.limit) == ("ERR-04", 80.0)
    panel = plan.elements.set_index("name").loc[found.subject]
    assert panel["worst_kw"] <= panel["limit_kw"]
    by_hand = max((lines_by_hand(plan, found.subject, lost) for lost in "BC"), key=lambda lines: max(lines.values()))
    assert panel["worst_phase_a"] == pytest.approx(max(by_hand.values()), abs=0.2)
    assert by_hand[str(panel["worst_phase"])] == max(by_hand.values())
    assert panel["worst_phase_a"] == pytest.approx(90, abs=1)
    outcome = cast(Check, electrical.test_panel_schedule_is_complete_and_breakers_interrupt_the_fault)("", plan)
    assert not outcome.passed
    assert outcome.detail == "90.3 A on one line of rpp-A-02 (6 such panels)"
    (fewer,) = [one for one in found.remedies if "electrical.panels.circuits" in one.settings]
    mended = build(changed("b200-256-roce", [*SMALL_PANELS, *as_set(fewer)]))
    assert not [f for f in mended.findings if f.id == "POWER-PHASE-LOAD"]


def test_lines_of_a_pdu_transformer_are_those_of_its_panels() -> None:
    plan = plan_of("b200-256-roce")
    panels = plan.elements[plan.elements["kind"] == "panel"]
    for unit in plan.elements[plan.elements["kind"] == "pdu_transformer"].to_dict("records"):
        behind = panels[panels["upstream"] == unit["name"]]
        even_a = behind["load_kw"].sum() * 1000 / (3**0.5 * 415)
        assert even_a <= unit["phase_a"] <= behind["phase_a"].sum() + 1e-6
        assert unit["phase_a"] <= unit["worst_phase_a"] <= unit["rating"] * 1000 / (3**0.5 * 415)
