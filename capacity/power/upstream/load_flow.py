"""Load flow, voltage drop and fault level on the tree of the supply, with everything in order, with each feed lost, and with
each room lost that several feeds share.

In: the tree, the circuits with their load in each state, the conductors of the site file. Out: for each element and
circuit the lowest voltage, and the largest three-phase fault current. Solved by power-grid-model (balanced, iterative
Newton-Raphson). A UPS regulates its output and so is a source of its own; what it takes from its board is its output
over its efficiency: downstream first, then upstream. Power factors as in capacity.power.upstream.power_factor.

Formulae by hand, for small trees: I = P / (sqrt3 U pf), drop = I (R cos + X sin), and for a transformer
n (ur cos + ux sin) + (n (ux cos - ur sin))^2 / 200 in percent (IEC 60076-8).

Loads of one rack lie unevenly on the lines of their circuit, and the balanced flow would say too little: the drop of the rack
conductor is that of its worst line and the neutral (capacity.power.rack.line_currents)
in the worst single failure, behind the lowest
voltage of its panel or tap-off (`branch_pct`). Above it the racks of a panel even out, and the flow stays balanced.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.power.upstream import fault_level
from capacity.power.upstream.network import Network
from capacity.power.upstream.panels import taps
from capacity.power.upstream.switching import alive, element_loads
from capacity.power.upstream.tree import Tree
from inventory.site.sections.electrical import Electrical

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TAP_M = 0.01
"""Busway between two tap-offs at the same place: the solver knows no line without impedance."""


@dataclass(frozen=True, eq=False)
class Flow:
    """Per state (rows): voltage in per unit of elements, of circuits' ends and of their heads at panel or tap-off (NaN: dead),
    kVA of transformers.
    """

    element_pu: Floats
    circuit_pu: Floats
    head_pu: Floats
    transformer_kva: Floats


def _array(component: Any, **columns: Any) -> Any:
    from power_grid_model import DatasetType, initialize_array

    size = max(len(np.atleast_1d(values)) for values in columns.values())
    array = initialize_array(DatasetType.input, component, size)
    for name, values in columns.items():
        array[name] = values
    return array


def solve(
    net: Network,
    circuits: pd.DataFrame,
    lengths_m: Floats,
    states_kw: Floats,
    lost_feeds: list[tuple[str, ...]],
    along_m: Floats | None = None,
) -> Flow:
    """Voltages in every state; `states_kw` (states x circuits), `lost_feeds` names the lost feeds of each.
    `along_m` is the busway from its head to the tap-off of each circuit.
    """
    tree, e = net.tree, net.electrical
    elements = tree.elements
    size, states = len(elements), len(states_kw)
    panels = tree.rows("panel")
    below = _below(net, circuits, lengths_m, states_kw, net.factors.it, along_m)
    panel_kw = np.zeros((states, size))
    for state in range(states):
        panel_kw[state] = np.bincount(tree.panel_of, states_kw[state], minlength=size)
    failed = np.array([elements["feed"].isin(feeds).to_numpy() for feeds in lost_feeds])
    lives, chosen = alive(tree, failed)
    load = element_loads(net, lives, chosen, panel_kw)
    element_pu, kva = _above(tree, e, lives, chosen, load, net.factors.grid)
    element_pu[:, panels] = below["panels"]
    units = tree.rows("pdu_transformer")
    if len(units):
        element_pu[:, units] = below["units"]
    ups = tree.rows("ups")
    element_pu[:, ups] = np.where(lives[:, ups], 1.0, np.nan)
    circuit_lives = lives[:, tree.panel_of]
    element_pu[~lives] = np.nan
    ends_pu, head_pu = (np.where(circuit_lives, below[part], np.nan) for part in ("circuits", "heads"))
    return Flow(element_pu, ends_pu, head_pu, kva)


def drop_pct(per_unit: Floats) -> Floats:
    """Largest drop in percent over the states; dead states do not count."""
    lowest = np.where(np.isnan(per_unit), 1.0, per_unit).min(axis=0)
    return np.asarray(((1 - lowest) * 100).round(6), dtype=np.float64)


def branch_pct(flows: Flow, share: Floats) -> Floats:
    """Largest drop in percent at the end of each circuit, whose rack conductor loses `share` of the rated voltage at rated
    voltage. A load of constant power draws more at a lower one: u = u_head - share / u.
    """
    head = 1 - drop_pct(flows.head_pu) / 100
    end = (head + np.sqrt(np.maximum(head**2 - 4 * share, 0.0))) / 2
    return np.maximum(drop_pct(flows.circuit_pu), ((1 - end) * 100).round(6))


def _below(
    net: Network, circuits: pd.DataFrame, lengths_m: Floats, states_kw: Floats, pf: float, along_m: Floats | None
) -> dict[str, Floats]:
    """Per-unit voltages below the UPS outputs: panels, PDU transformers, circuit ends; states x each. Busway is a chain of
    its tap-offs, so that each stretch carries the loads behind it.
    """
    from power_grid_model import ComponentType, DatasetType, PowerGridModel, initialize_array

    tree, e = net.tree, net.electrical
    elements, panels, ups = tree.elements, tree.rows("panel"), tree.rows("ups")
    units = tree.rows("pdu_transformer")
    volts = circuits["voltage_v"].to_numpy(dtype=np.float64)
    count = len(circuits)
    node = np.full(len(elements), -1, dtype=np.int64)
    inner = np.concatenate([ups, units, panels])
    node[inner] = np.arange(len(inner))
    ends = len(inner) + np.arange(count)
    taken = len(inner) + count
    line_from = np.concatenate([node[tree.sources[panels, 0]], node[tree.panel_of]])
    line_to = np.concatenate([node[panels], ends])
    feeder, branch = e.panels.feeder, e.rack_conductor
    metres = np.concatenate([np.full(len(panels), feeder.length_m or 0.0), lengths_m])
    part = [feeder] * len(panels) + [branch] * count
    heads, tapped = node[tree.panel_of], np.zeros(0, dtype=np.int64)
    if along_m is not None and along_m.any():
        before, stretch = taps(tree, along_m)
        heads = tapped = taken + np.arange(count)
        taken += count
        line_from[len(panels) :] = tapped
        chain = np.where(before >= 0, tapped[before], node[tree.panel_of])
        line_from, line_to = np.concatenate([line_from, chain]), np.concatenate([line_to, tapped])
        metres = np.concatenate([metres, np.maximum(stretch, TAP_M)])
        part += [feeder] * count
    lines = _array(
        ComponentType.line,
        id=taken + np.arange(len(line_to)),
        from_node=line_from,
        to_node=line_to,
        from_status=1,
        to_status=1,
        r1=np.array([c.r_ohm_km for c in part]) * metres / 1000,
        x1=np.array([c.x_ohm_km for c in part]) * metres / 1000,
        c1=0.0,
        tan1=0.0,
    )
    taken += len(line_to)
    data: dict[Any, Any] = {
        ComponentType.node: _array(
            ComponentType.node,
            id=np.arange(len(inner) + count + len(tapped)),
            u_rated=np.concatenate(
                [elements["voltage_v"].to_numpy(dtype=np.float64)[inner], volts, volts[: len(tapped)]]
            ),
        ),
        ComponentType.line: lines,
        ComponentType.source: _array(
            ComponentType.source, id=taken + np.arange(len(ups)), node=node[ups], status=1, u_ref=1.0, sk=1e20
        ),
    }
    taken += len(ups)
    if len(units) and e.pdu_transformers is not None:
        data[ComponentType.transformer] = _transformers(
            e.pdu_transformers,
            taken + np.arange(len(units)),
            node[tree.sources[units, 0]],
            node[units],
            elements["voltage_v"].to_numpy(dtype=np.float64)[tree.sources[units, 0]],
            elements["voltage_v"].to_numpy(dtype=np.float64)[units],
        )
        taken += len(units)
    reactive = np.tan(np.arccos(pf))
    loads = _array(
        ComponentType.sym_load,
        id=taken + np.arange(count),
        node=ends,
        status=1,
        type=0,
        p_specified=states_kw[0] * 1000,
        q_specified=states_kw[0] * 1000 * reactive,
    )
    data[ComponentType.sym_load] = loads
    update = initialize_array(DatasetType.update, ComponentType.sym_load, states_kw.shape)
    update["id"] = loads["id"][None, :]
    update["p_specified"] = states_kw * 1000
    update["q_specified"] = states_kw * 1000 * reactive
    result = PowerGridModel(data, float(e.frequency_hz)).calculate_power_flow(
        update_data={ComponentType.sym_load: update}, output_component_types={ComponentType.node: ["u_pu"]}
    )
    pu = np.asarray(result[ComponentType.node]["u_pu"], dtype=np.float64)
    return {
        "panels": pu[:, node[panels]],
        "units": pu[:, node[units]],
        "circuits": pu[:, ends],
        "heads": pu[:, heads],
    }


def _transformers(facts: Any, ids: Ints, above: Ints, below: Ints, high_v: Floats, low_v: Floats) -> Any:
    from power_grid_model import ComponentType, WindingType

    rated = facts.kva * 1000  # the magnetising current is not among the site's data: no-load losses only
    return _array(
        ComponentType.transformer,
        id=ids,
        from_node=above,
        to_node=below,
        from_status=1,
        to_status=1,
        u1=high_v,
        u2=low_v,
        sn=rated,
        uk=facts.uk_pct / 100,
        pk=facts.load_loss_kw * 1000,
        i0=facts.no_load_kw * 1000 / rated,
        p0=facts.no_load_kw * 1000,
        winding_from=WindingType.delta,
        winding_to=WindingType.wye_n,
        clock=11,
        tap_side=0,
        tap_pos=0,
        tap_min=0,
        tap_max=0,
        tap_nom=0,
        tap_size=0.0,
    )


def _above(
    tree: Tree, e: Electrical, lives: npt.NDArray[np.bool_], chosen: Ints, load: Floats, pf: float
) -> tuple[Floats, Floats]:
    """Per-unit voltages from the intake to the boards, and the kVA of transformers; states x elements."""
    from power_grid_model import ComponentType, PowerGridModel

    elements = tree.elements
    size, states = len(elements), len(load)
    intakes, boards = tree.rows("intake"), tree.rows("switchboard")
    pu, kva = np.full((states, size), np.nan), np.zeros((states, size))
    pu[:, tree.rows("utility")] = 1.0
    volts = elements["voltage_v"].to_numpy(dtype=np.float64)
    kinds = elements["kind"].to_numpy(dtype=object)
    mv_v = e.utility.voltage_kv * 1000
    ratio = e.utility.x_over_r
    for state in range(states):
        feeding = chosen[state, boards]
        served = boards[(feeding >= 0) & (kinds[np.maximum(feeding, 0)] == "transformer") & lives[state, boards]]
        used = chosen[state, served]
        live = intakes[lives[state, intakes]]
        if not len(live):
            continue
        node = np.full(size, -1, dtype=np.int64)
        inner = np.concatenate([live, served])
        node[inner] = np.arange(len(inner))
        taken = len(inner)
        data: dict[Any, Any] = {
            ComponentType.node: _array(ComponentType.node, id=np.arange(taken), u_rated=volts[inner]),
            ComponentType.source: _array(
                ComponentType.source,
                id=taken + np.arange(len(live)),
                node=node[live],
                status=1,
                u_ref=1.0,
                sk=e.utility.fault_mva * 1e6,
                rx_ratio=1 / ratio,
            ),
        }
        taken += len(live)
        if len(served):
            ids = taken + np.arange(len(served))
            data[ComponentType.transformer] = _transformers(
                e.transformers,
                ids,
                node[tree.sources[used, 0]],
                node[served],
                np.full(len(served), mv_v),
                volts[served],
            )
            taken += len(served)
            watts = load[state, served] * 1000
            data[ComponentType.sym_load] = _array(
                ComponentType.sym_load,
                id=taken + np.arange(len(served)),
                node=node[served],
                status=1,
                type=0,
                p_specified=watts,
                q_specified=watts * np.tan(np.arccos(pf)),
            )
        result = PowerGridModel(data, float(e.frequency_hz)).calculate_power_flow(symmetric=True)
        pu[state, inner] = result[ComponentType.node]["u_pu"]
        if len(served):
            kva[state, used] = result[ComponentType.transformer]["s_from"] / 1000
            pu[state, used] = pu[state, served]
    return pu, kva


def fault_levels(
    tree: Tree, e: Electrical, circuits: pd.DataFrame, lengths_m: Floats, along_m: Floats | float = 0.0
) -> tuple[Floats, Floats]:
    """Largest initial three-phase fault current and its peak in kA (IEC 60909-0), at each element and behind these at the end
    of each circuit, with the conductors at 20 C (IEC 60909-0, maximum currents).

    From the grid through the normal source and the static bypass of the UPS; 0 for generators and what only they feed.
    """
    elements = tree.elements
    kinds = elements["kind"].to_numpy(dtype=object)
    volts = elements["voltage_v"].to_numpy(dtype=np.float64)
    ohm = np.zeros(len(elements), dtype=np.complex128)
    reached = np.zeros(len(elements), dtype=bool)
    feeder, branch = e.panels.feeder, e.rack_conductor
    for row in range(len(elements)):
        source = int(tree.sources[row, 0])
        if kinds[row] == "utility":
            ohm[row] = fault_level.network_ohm(e.utility.fault_mva, e.utility.x_over_r, volts[row])
            reached[row] = True
        elif source >= 0 and reached[source]:
            above = ohm[source] * (volts[row] / volts[source]) ** 2
            facts = {"transformer": e.transformers, "pdu_transformer": e.pdu_transformers}.get(kinds[row])
            if facts is not None:
                shape = (facts.kva, facts.uk_pct, facts.load_loss_kw)
                above += fault_level.transformer_correction(*shape) * fault_level.transformer_ohm(*shape, volts[row])
            if kinds[row] == "panel":
                above += complex(feeder.r20_ohm_km, feeder.x_ohm_km) * (feeder.length_m or 0.0) / 1000
            ohm[row], reached[row] = above, True
    at_end = ohm[tree.panel_of] + complex(branch.r20_ohm_km, branch.x_ohm_km) * lengths_m / 1000
    at_end = at_end + complex(feeder.r20_ohm_km, feeder.x_ohm_km) * along_m / 1000
    every = np.concatenate([np.where(reached, ohm, 1.0), at_end])
    at_v = np.concatenate([volts, circuits["voltage_v"].to_numpy(dtype=np.float64)])
    initial = np.where(np.append(reached, np.ones(len(circuits), dtype=bool)), fault_level.initial_ka(every, at_v), 0.0)
    return initial, fault_level.peak_ka(initial, every)
