"""Load flow of the supply: by hand on single branches, and against pandapower on 150 racks of servers."""

from typing import Any

import numpy as np
import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.power.rack import line_currents
from capacity.power.upstream import load_flow, switching
from inventory.site import Site, load_site
from inventory.site.whatif import changed
from tests.capacity import oracle
from tests.capacity.power.upstream.test_tree import with_electrical
from tests.capacity.sites import variant

Solved = tuple[tuple[Any, ...], load_flow.Flow]


def planned_and_solved(site: Site) -> tuple[Plan, tuple[Any, ...], load_flow.Flow]:
    """The plan of `site`, and arguments and result of its load flow."""
    calls: list[tuple[Any, ...]] = []
    solve = load_flow.solve

    def spy(*given: Any) -> load_flow.Flow:
        calls.append(given)
        return solve(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load_flow, "solve", spy)
        plan = build(site)
    return plan, calls[0], solve(*calls[0])


@pytest.fixture(scope="module")
def solved() -> Solved:
    """Arguments and result of the load flow of 450 servers in 150 racks, with PDU transformers in the tree."""
    site = variant("h100-1000-ib", server={"count": 450})
    small = load_site("b200-256-roce").electrical
    assert small is not None
    assert site.electrical is not None
    electrical = site.electrical.model_copy(update={"pdu_transformers": small.pdu_transformers})
    plan, given, result = planned_and_solved(site.model_copy(update={"electrical": electrical}))
    assert (plan.placements["device"].str.startswith("gpu")).sum() == 450
    return given, result


def test_voltage_drop_of_a_branch_is_that_of_the_hand_formula(solved: Solved) -> None:
    """dU = I (R cos phi + X sin phi), I = P / (sqrt3 U), at power factor 1: dU / U = P R / U^2, at the
    voltage of the rack."""
    (net, circuits, lengths, states, *_), result = solved
    electrical = net.electrical
    panel = net.tree.panel_of[0]
    volts = circuits["voltage_v"].iloc[0]
    ohm = electrical.rack_conductor.r_ohm_km * lengths[0] / 1000
    by_hand = states[0, 0] * 1000 * ohm / volts**2 / result.circuit_pu[0, 0]
    solved_drop = result.element_pu[0, panel] - result.circuit_pu[0, 0]
    assert solved_drop == pytest.approx(by_hand, rel=0.01)


def test_drop_of_a_transformer_is_that_of_the_hand_formula(solved: Solved) -> None:
    """IEC 60076-8: n (ur cos + ux sin) + (n (ux cos - ur sin))^2 / 200 in percent, cos phi = 1; and its load."""
    (net, *_), result = solved
    facts = net.electrical.transformers
    rows = [r for r in net.tree.rows("transformer") if result.transformer_kva[0, r] > 0]
    row = rows[0]
    board = next(b for b in net.tree.rows("switchboard") if net.tree.sources[b, 0] == row)
    base = net.base_kw()
    lives, chosen = switching.alive(net.tree, np.zeros((1, len(net.tree.elements)), dtype=bool))
    panels = np.bincount(net.tree.panel_of, base, minlength=len(net.tree.elements)).astype(float)
    kw = switching.element_loads(net, lives, chosen, panels[None, :])[0, board]
    n, ur = kw / facts.kva, facts.load_loss_kw / facts.kva * 100
    ux = np.sqrt(facts.uk_pct**2 - ur**2)
    by_hand = n * ur + (n * ux) ** 2 / 200
    intake = net.tree.sources[row, 0]
    assert (result.element_pu[0, intake] - result.element_pu[0, board]) * 100 == pytest.approx(by_hand, rel=0.01)
    assert result.transformer_kva[0, row] == pytest.approx(kw * (1 + facts.load_loss_kw / facts.kva * n), rel=0.01)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("state", [0, 2])
def test_150_racks_agree_with_pandapower(solved: Solved, state: int) -> None:
    """Every node from the UPS outputs to the racks, with everything in order and with feed B lost."""
    (net, circuits, lengths, states, *_), result = solved
    tree, electrical = net.tree, net.electrical
    ups, units, panels = (tree.rows(kind) for kind in ("ups", "pdu_transformer", "panel"))
    assert len(circuits) >= 450
    inner = np.concatenate([ups, units, panels])
    node = np.full(len(tree.elements), -1)
    node[inner] = np.arange(len(inner))
    volts = tree.elements["voltage_v"].to_numpy()
    ends = len(inner) + np.arange(len(circuits))
    model = oracle.network()
    oracle.buses(model, [*(volts[inner] / 1000), *(circuits["voltage_v"] / 1000)])
    oracle.put(model, "ext_grid", bus=node[ups], vm_pu=1.0, va_degree=0.0, name="")
    facts = electrical.pdu_transformers
    size = len(units)
    oracle.transformers(
        model,
        node[tree.sources[units, 0]].tolist(),
        node[units].tolist(),
        (volts[tree.sources[units, 0]] / 1000).tolist(),
        (volts[units] / 1000).tolist(),
        [facts.kva / 1000] * size,
        [facts.uk_pct] * size,
        [facts.load_loss_kw] * size,
        [facts.no_load_kw] * size,
    )
    feeder, branch = electrical.panels.feeder, electrical.rack_conductor
    metres = np.concatenate([np.full(len(panels), feeder.length_m), lengths])
    kinds = [feeder] * len(panels) + [branch] * len(circuits)
    oracle.lines(
        model,
        [*node[tree.sources[panels, 0]], *node[tree.panel_of]],
        [*node[panels], *ends],
        [k.r_ohm_km * m / 1000 for k, m in zip(kinds, metres, strict=True)],
        [k.x_ohm_km * m / 1000 for k, m in zip(kinds, metres, strict=True)],
    )
    oracle.loads(model, ends.tolist(), states[state].tolist())
    theirs = oracle.voltages(model)
    alive = ~np.isnan(result.circuit_pu[state])
    assert alive.sum() == (states[state] > 0).sum()
    dropped = 1 - theirs[ends][alive]
    assert np.allclose(1 - result.circuit_pu[state][alive], dropped, rtol=0.01)
    assert dropped.max() > 0.005


def drop_by_phasors(between: bool, watts: list[float], volts: float, pf: float, ohm: complex) -> float:
    """Largest share of its voltage that a leg loses: currents of four conductors as phasors, the loads at their rated voltage."""
    turn = np.exp(-2j * np.pi / 3 * np.arange(3))
    of_legs = volts * np.exp(1j * np.pi / 6) * turn if between else volts / np.sqrt(3) * turn
    legs = np.conj(np.array(watts[:3]) * (1 + 1j * np.tan(np.arccos(pf))) / of_legs)
    lines = legs - np.roll(legs, 1) if between else legs
    lines = lines + np.conj(watts[3] / 3 * (1 + 1j * np.tan(np.arccos(pf))) / (volts / np.sqrt(3) * turn))
    lost = ohm * (lines - np.roll(lines, -1) if between else lines + lines.sum())
    return float((lost / of_legs).real.max())


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("watts", [[6500, 3250, 3250, 75], [0, 0, 0, 9000], [100, 4000, 0, 0], [3000, 3000, 3000, 0]])
@pytest.mark.parametrize("pf", [1.0, 0.9])
def test_drop_of_the_worst_leg_is_that_of_the_phasors(between: bool, watts: list[float], pf: float) -> None:
    ohm = complex(0.322, 0.033)
    legs = line_currents.Legs(np.zeros(0, dtype=np.int64), between, np.array([415.0]), np.array([3]), pf)
    ours = float(legs.drop_share(np.array([watts], dtype=float), slice(None), ohm)[0])
    assert ours == pytest.approx(drop_by_phasors(between, watts, 415.0, pf, ohm))


def test_drop_of_unevenly_loaded_lines_counts_the_neutral() -> None:
    """b200, 200 m of 1.61 Ohm/km: L1 carries 27.16 A and the neutral 13.54 A, (27.16 + 13.54) A x 0.322 Ohm = 13.1 V of 239.6 V,
    5.47 %. At the lower voltage of the rack, behind the drop of the feeder, the same watts draw more: u = u_head - 0.0547 / u.
    """
    plan, _, result = planned_and_solved(with_electrical("b200-256-roce", {"rack_conductor": {"length_m": 200.0}}))
    row = int((plan.circuits["circuit"] == "cb-r01-b").to_numpy().argmax())
    circuit = plan.elements[plan.elements["name"] == "cb-r01-b"].iloc[0]
    assert plan.circuits["worst_phase_a"].iloc[row] == pytest.approx(27.16, abs=0.01)
    phase_v = 415 / np.sqrt(3)
    share = (27.163 + 3250 / phase_v) * 1.61 * 0.2 / phase_v
    assert share == pytest.approx(0.0547, abs=1e-4)
    head = np.nanmin(result.head_pu[:, row])
    end = (head + np.sqrt(head**2 - 4 * share)) / 2
    assert circuit["drop_pct"] == pytest.approx((1 - end) * 100, abs=2e-3)
    assert "POWER-VOLTAGE-DROP" in {f.id for f in plan.findings}


def test_the_drop_is_that_of_the_worst_single_failure() -> None:
    """gb300 with feeds A and B in one room: its loss leaves two of four shelves' circuits with the whole busbar, evenly on
    their lines.
    """
    values = [
        "server.power.seed_w=6300",
        "server.power.measured_w=6400",
        "server.power.cap_w=6400",
        "ups.module_kw=700",
    ]
    values += ["electrical.rooms.A=er-1", "electrical.rooms.B=er-1", "electrical.rack_conductor.length_m=60"]
    plan, _, result = planned_and_solved(changed("gb300-nvl72-liquid", values))
    row = int((plan.circuits["circuit"] == "cb-r01-3").to_numpy().argmax())
    circuit, end = plan.circuits.iloc[row], plan.elements.set_index("name").loc["cb-r01-3"]
    assert circuit["worst_case"] == circuit["phase_case"] == end["worst_case"] == "er-1"
    share = circuit["worst_phase_a"] * 1.61 * 0.06 / (415 / np.sqrt(3))
    head = np.nanmin(result.head_pu[:, row])
    assert end["drop_pct"] == pytest.approx((1 - head + share / (head - share)) * 100, rel=1e-3)
    feed_lost = np.nanmin(result.circuit_pu[:4, row])
    assert end["drop_pct"] > 1.2 * (1 - feed_lost) * 100
