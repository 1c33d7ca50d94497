"""The frame `elements`: every element between the grid and the racks with its load, lines, voltage drop and place.

In: the tree, the circuits, the study of failures, the places of panels; then the load flow and the load steps. Out: the frame
without its fault levels; first the tree, then the circuits.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.power.operation import load_step
from capacity.power.rack import line_currents
from capacity.power.upstream import existing_plant, load_flow, panels, single_failures
from capacity.power.upstream import tree as trees
from capacity.power.upstream.loading import MAINS

Floats = npt.NDArray[np.float64]


def elements_frame(
    tree: trees.Tree, circuits: pd.DataFrame, study: single_failures.Study, at: panels.Layout
) -> pd.DataFrame:
    """The `elements` frame without voltages, load steps and fault levels: tree, then circuits."""
    row, x_m, y_m = np.full(len(tree.elements), -1, dtype=np.int64), *np.zeros((2, len(tree.elements)))
    for values, of_panels in ((row, at.row), (x_m, at.x_m), (y_m, at.y_m)):
        values[tree.rows("panel")] = of_panels
    above = tree.elements
    names = np.array([*above["name"], ""], dtype=object)
    upstream, others = existing_plant.sources(tree)
    upper = above.assign(
        end="",
        upstream=upstream,
        alternates=others,
        phases=3,
        load_kw=study.normal_kw.round(6),
        worst_kw=study.worst_kw.round(6),
        worst_case=study.worst_case,
        phase_a=study.lines.normal_a.round(6),
        worst_phase_a=study.lines.worst_a.round(6),
        worst_phase=np.where(
            above["kind"].isin(MAINS), np.array(line_currents.LINES, dtype=object)[study.lines.line], ""
        ),
        phase_case=study.lines.case,
        row=row,
        x_m=x_m.round(3),
        y_m=np.where(row >= 0, y_m, 0.0).round(3),
        conductor_m=above["length_m"],
    )
    lower = pd.DataFrame(
        {
            "name": circuits["circuit"],
            "end": circuits["pdu"],
            "kind": "circuit",
            "upstream": names[tree.panel_of],
            "alternates": "",
            "feed": circuits["feed"],
            "domain": above["domain"].to_numpy(dtype=object)[tree.panel_of],
            "voltage_v": circuits["voltage_v"],
            "phases": circuits["phases"],
            "rating": circuits["breaker_a"],
            "unit": "A",
            "limit_kw": circuits["usable_kw"],
            "load_kw": circuits["load_kw"],
            "worst_kw": circuits["worst_kw"],
            **{
                column: circuits[column]
                for column in ("worst_case", "phase_a", "worst_phase_a", "worst_phase", "phase_case")
            },
            "rating_ka": 0.0,
            "row": row[tree.panel_of],
            "x_m": x_m[tree.panel_of].round(3),
            "y_m": np.where(row >= 0, y_m, 0.0)[tree.panel_of].round(3),
            "conductor_m": (at.length_m + at.along_m).round(3),
        }
    )
    return pd.concat([upper, lower], ignore_index=True)


def with_flow(elements: pd.DataFrame, flows: load_flow.Flow, end_pct: Floats, steps: load_step.Steps) -> pd.DataFrame:
    """`elements` with voltages and load steps; at the end of the circuits `end_pct` of the voltage is lost."""
    with np.errstate(all="ignore"):
        drop = load_flow.drop_pct(flows.element_pu)
    none = np.zeros(len(end_pct))
    return elements.assign(
        drop_pct=np.concatenate([drop, end_pct]),
        step_kw=np.concatenate([steps.kw.round(6), none]),
        step_case=np.concatenate([steps.case, np.full(len(end_pct), "", dtype=object)]),
        step_limit_kw=np.concatenate([steps.limit_kw.round(6), none]),
    )
