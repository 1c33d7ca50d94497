"""The load step of training: all GPUs stop or start together, against each UPS block, each generator plant and the grid.

In: the network of the failures, the site's swing. Out: for each element the largest step that reaches it with everything in
order or after any single failure, what it permits, and the figures of the worst ones.

A block takes the step on the modules that it needs, a plant on the sets that it needs: redundant ones may be out. After the
loss of a feed the other blocks take its share of every server, so that the step of each grows. The step of a block is at its
output; above it counts over the UPS efficiency, losses of transformers left out.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.power.operation import standby
from capacity.power.upstream import single_failures
from capacity.power.upstream.network import Network
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from inventory.site.sections.electrical import Electrical, LoadSwing

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Steps:
    """Per element: largest step in kW, the single failure that causes it ('' for none), what it permits (0: no limit)."""

    kw: Floats
    case: npt.NDArray[np.object_]
    limit_kw: Floats


def permitted_kw(electrical: Electrical, elements: pd.DataFrame) -> Floats:
    """Largest step of each UPS block and generator plant, on what it needs of its modules or sets; 0 elsewhere."""
    kind = elements["kind"].to_numpy(dtype=object)
    blocks, sets = electrical.ups_blocks, electrical.generators
    limit = np.zeros(len(elements))
    limit_kw = elements["limit_kw"].to_numpy(dtype=np.float64)
    limit[kind == "ups"] = limit_kw[kind == "ups"] / blocks.permitted_load * (blocks.max_step_pct or 0.0) / 100
    plants = kind == "generators"
    limit[plants] = limit_kw[plants] * ((sets.max_step_pct if sets else None) or 0.0) / 100
    return limit


def full_w(site: Site, failed: bool) -> float:
    """Draw of a GPU server at work, at most its power cap after a failure."""
    power = site.server.power
    return min(power.measured_w, power.cap_w) if failed and power.cap_w is not None else power.measured_w


def steps(site: Site, net: Network) -> Steps:
    """The steps of all elements of `net`; zeros where the site gives no swing."""
    electrical, elements = net.electrical, net.tree.elements
    if electrical.swing is None:
        zeros = np.zeros(len(elements))
        return Steps(zeros, np.full(len(elements), "", dtype=object), zeros)
    each = [full_w(site, failed) - electrical.swing.idle_w for failed in (False, True)]
    normal, lost = (net.groups.servers * watts for watts in each)
    none = {"no_load_kw": 0.0, "load_loss_kw": 0.0}
    pdu = electrical.pdu_transformers
    lossless = electrical.model_copy(
        update={
            "transformers": electrical.transformers.model_copy(update=none),
            "pdu_transformers": pdu.model_copy(update=none) if pdu is not None else None,
        }
    )
    moved = replace(
        net,
        electrical=lossless,
        groups=replace(net.groups, normal_w=normal.astype(np.float64), lost_w=lost.astype(np.float64)),
        end_kw=np.zeros_like(net.end_kw),
        mechanical_kw=0.0,
    )
    return Steps(*single_failures.worst(moved), permitted_kw(electrical, elements))


def at_utility_kw(site: Site, electrical: Electrical, given: LoadSwing, servers: int) -> float:
    """The step of all GPUs of so many servers together, as the utility sees it: over the efficiency of the UPS."""
    step = standby.swing_kw(servers, site.server.power.measured_w, given.idle_w)
    return step / electrical.ups_blocks.efficiency


def figures(site: Site, electrical: Electrical, elements: pd.DataFrame) -> list[dict[str, Any]]:
    """The step against each limit: subject (utility, ups, generators), the element and the failure that decide, step_kw,
    permitted_kw, floor_w (draw to hold per server). `elements` as the plan's frame.
    """
    swing = electrical.swing
    if swing is None:
        return []
    rows: list[tuple[str, str, str, float, float]] = []
    if electrical.utility.max_step_mw is not None:
        limit_kw = electrical.utility.max_step_mw * 1000
        rows.append(("utility", "utility", "", at_utility_kw(site, electrical, swing, site.server.count), limit_kw))
    for kind in ("ups", "generators"):
        part = elements[(elements["kind"] == kind) & (elements["step_limit_kw"] > 0)]
        if part.empty:
            continue
        top = part.iloc[int((part["step_kw"] / part["step_limit_kw"]).to_numpy().argmax())]
        rows.append((kind, str(top["name"]), str(top["step_case"]), float(top["step_kw"]), float(top["step_limit_kw"])))
    found = []
    for subject, element, failure, kw, limit in rows:
        at_work = full_w(site, bool(failure))
        floor = at_work - (at_work - swing.idle_w) * min(limit / max(kw, 1e-9), 1.0)
        found.append(
            {
                "subject": subject,
                "element": element,
                "failure": failure,
                "step_kw": round(kw, 3),
                "permitted_kw": round(limit, 3),
                "floor_w": round(floor, 1),
            }
        )
    return found


def check_swing(site: Site, electrical: Electrical, elements: pd.DataFrame) -> list[Finding]:
    """POWER-SWING: all GPUs from full load to idle in a second, and back, against UPS, generators and grid."""
    found = []
    for row in figures(site, electrical, elements):
        if row["step_kw"] <= row["permitted_kw"] + 1e-6:
            continue
        found.append(
            finding(
                "POWER-SWING",
                row["subject"],
                case=f"{row['subject']}-after-loss" if row["failure"] else row["subject"],
                limit=row["permitted_kw"],
                limit_source=f"site electrical, largest step of {row['subject']}",
                step_kw=row["step_kw"],
                floor_w=row["floor_w"],
                words={"element": row["element"], "lost": row["failure"]},
                remedies=[remedy(fix="power-smoothing"), remedy(fix="ramp")],
            )
        )
    return found
