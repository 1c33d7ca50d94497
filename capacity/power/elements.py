"""The frame `elements`: every element between the grid and the racks with its load, lines, voltage drop and place.

In: the tree, the circuits, the study of failures, the load flow and the load steps. Out: the frame without its fault levels;
first the tree, then the circuits.
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
    tree: trees.Tree,
    circuits: pd.DataFrame,
    study: single_failures.Study,
    flows: load_flow.Flow,
    end_pct: Floats,
    at: panels.Layout,
    steps: load_step.Steps,
) -> pd.DataFrame:
    """The `elements` frame without fault levels: tree, then circuits, at whose end `end_pct` of the voltage is lost."""
    row, x_m, y_m = np.full(len(tree.elements), -1, dtype=np.int64), *np.zeros((2, len(tree.elements)))
    for values, of_panels in ((row, at.row), (x_m, at.x_m), (y_m, at.y_m)):
        values[tree.rows("panel")] = of_panels
    above = tree.elements
    names = np.array([*above["name"], ""], dtype=object)
    upstream, others = existing_plant.sources(tree)
    with np.errstate(all="ignore"):
        drop = load_flow.drop_pct(flows.element_pu)
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
        drop_pct=drop,
        row=row,
        x_m=x_m.round(3),
        y_m=np.where(row >= 0, y_m, 0.0).round(3),
        conductor_m=above["length_m"],
        step_kw=steps.kw.round(6),
        step_case=steps.case,
        step_limit_kw=steps.limit_kw.round(6),
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
            "drop_pct": end_pct,
            "rating_ka": 0.0,
            "row": row[tree.panel_of],
            "x_m": x_m[tree.panel_of].round(3),
            "y_m": np.where(row >= 0, y_m, 0.0)[tree.panel_of].round(3),
            "conductor_m": (at.length_m + at.along_m).round(3),
            "step_kw": 0.0,
            "step_case": "",
            "step_limit_kw": 0.0,
        }
    )
    return pd.concat([upper, lower], ignore_index=True)
