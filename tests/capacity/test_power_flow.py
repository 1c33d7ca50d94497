"""Load flow of the supply: by hand on single branches, and against pandapower on 150 racks of servers."""

from typing import Any

import numpy as np
import pytest

from capacity.plan import Plan, build
from capacity.power import failures, flow
from inventory.site import Site, load_site
from tests.capacity import oracle
from tests.capacity.sites import variant

Solved = tuple[tuple[Any, ...], flow.Flow]


def planned_and_solved(site: Site) -> tuple[Plan, tuple[Any, ...], flow.Flow]:
    """The plan of `site`, and arguments and result of its load flow."""
    calls: list[tuple[Any, ...]] = []
    solve = flow.solve

    def spy(*given: Any) -> flow.Flow:
        calls.append(given)
        return solve(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "solve", spy)
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
    lives, chosen = failures.alive(net.tree, np.zeros((1, len(net.tree.elements)), dtype=bool))
    panels = np.bincount(net.tree.panel_of, base, minlength=len(net.tree.elements)).astype(float)
    kw = failures.element_loads(net, lives, chosen, panels[None, :])[0, board]
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
        model, node[tree.sources[units, 0]].tolist(), node[units].tolist(), (volts[tree.sources[units, 0]] / 1000).tolist(),
        (volts[units] / 1000).tolist(), [facts.kva / 1000] * size, [facts.uk_pct] * size, [facts.load_loss_kw] * size,
        [facts.no_load_kw] * size,
    )  # fmt: skip
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
