"""Options of a site ranked: every combination of some keys is planned, what cannot be built is left out and says why.

    result = explore(Base.read("h100-1000-ib"), axes("rack.servers=2..4,power.rack_circuit.breaker_a=60,80"))
    result.ranked        feasible options, the best one first
    result.ruled_out     the others, each with what rules it out

Feasible: the site file accepts the values, and the plan has no error finding. This is a full search over what was asked for,
not a heuristic: the first one is the best of these options by the order of the criteria, and `pareto` marks each option that
none of the others beats in everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.build import build
from capacity.model import Plan
from capacity.outputs.summary import answers
from capacity.procurement import bom
from capacity.sizes import complete
from inventory.findings import without_untried
from inventory.site import SiteError
from inventory.site.whatif import Axis, Base, combinations

CRITERIA = ("cost", "power", "racks", "date")
_COLUMNS = {"cost": "cost", "power": "facility_kw", "racks": "racks", "date": "go_live_p90"}


@dataclass(frozen=True)
class Result:
    """`ranked` has one column per axis and cost, facility_kw, pue, it_kw, racks, go_live_p90, gpus, unpriced, warnings, pareto;
    options alike in all criteria stand in the order of their warnings. `ruled_out` has the axes, `id` and `why`.
    """

    axes: tuple[str, ...]
    ranked: pd.DataFrame
    ruled_out: pd.DataFrame


def explore(base: Base, axes: Sequence[Axis], settings: Sequence[str] = (), by: Sequence[str] = CRITERIA) -> Result:
    """Plan every combination on top of `settings`; SiteError when a key is unknown or no value of an axis is valid."""
    names = tuple(axis.key for axis in axes)
    feasible: list[tuple[object, ...]] = []
    ruled_out: list[tuple[object, ...]] = []
    refused: list[SiteError] = []
    for chosen in combinations(axes):
        values = tuple(setting.partition("=")[2] for setting in chosen)
        try:
            plan = build(complete(base.changed([*settings, *chosen])))
        except SiteError as error:
            refused.append(error)
            first = error.problems[0]
            where = ".".join(map(str, first.path))
            why = f"{where}: {first.what}: {first.found}; expected {first.expected}"
            ruled_out.append((*values, "SITE-FILE", why))
            continue
        errors = [f for f in plan.findings if f.severity == "error"]
        if errors:
            why = without_untried(errors[0]).message + (f" (and {len(errors) - 1} more)" if len(errors) > 1 else "")
            ruled_out.append((*values, ", ".join(dict.fromkeys(f.id for f in errors)), why))
        else:
            feasible.append((*values, *measures(plan)))
    if refused and not feasible and len(refused) == len(ruled_out):
        raise refused[0]
    columns = [*names, "cost", "facility_kw", "pue", "it_kw", "racks", "go_live_p90", "gpus", "unpriced", "warnings"]
    ranked = pd.DataFrame(feasible, columns=columns)
    order = ranked.sort_values([*(_COLUMNS[criterion] for criterion in by), "warnings"], kind="stable").reset_index(
        drop=True
    )
    return Result(names, order.assign(pareto=pareto(order)), pd.DataFrame(ruled_out, columns=[*names, "id", "why"]))


def measures(plan: Plan) -> tuple[object, ...]:
    """What options are ranked by: cost, power of the facility, racks, go-live at P90; beside them PUE, nameplate of the IT,
    GPUs, unpriced lines and warnings.
    """
    said = answers(plan)
    return (
        bom.cost(plan.bom),
        said["facility_kw"],
        said["pue"],
        round(float(plan.devices["nameplate_w"].sum()) / 1000, 1),
        len(plan.racks),
        said["go_live_p90"],
        said["gpus"],
        bom.unpriced(plan.bom),
        sum(f.severity == "warning" for f in plan.findings),
    )


def pareto(options: pd.DataFrame) -> npt.NDArray[np.int64]:
    """1 for each option that no other one beats: at least as good in cost, power, racks and date, and better in one."""
    if options.empty:
        return np.zeros(0, dtype=np.int64)
    dates = pd.to_datetime(options["go_live_p90"]).to_numpy().astype("datetime64[D]").astype(np.int64)
    values = np.column_stack([options["cost"], options["facility_kw"], options["racks"], dates]).astype(np.float64)
    no_worse = (values[:, None, :] <= values[None, :, :]).all(axis=2)
    better = (values[:, None, :] < values[None, :, :]).any(axis=2)
    beaten = (no_worse & better).astype(np.int64).sum(axis=0)
    return np.asarray(beaten == 0, dtype=np.int64)
