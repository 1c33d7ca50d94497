"""UPS modules far above what the blocks carry.

In: the frame `elements`. Out: finding POWER-UPS-LIGHT, where one module carries twice the worst load of every block, or more, and
modules of a lower rating are made.
"""

import numpy as np
import pandas as pd

from capacity.power.upstream import tree as trees
from capacity.worst import ROUNDING, top_row
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from inventory.site.sections.electrical import Electrical

RATINGS_KW = (20, 50, 100, 250)
"""Power modules that modular UPSs come in: planning figures after makers' lines of 2025, not confirmed against data sheets."""
LIGHT = 2
"""How many times its worst load a module carries where it counts as light: a rule of this suite, not confirmed."""


def check(site: Site, electrical: Electrical, elements: pd.DataFrame) -> list[Finding]:
    """One finding for all blocks, which have modules of one rating. None where blocks stand there, or the site counts modules."""
    blocks = elements[elements["kind"] == "ups"]
    settled = electrical.ups_blocks
    if blocks.empty or settled.modules_per_block is not None:
        return []
    if any(settled.standing(feed) is not None for feed in blocks["feed"].unique()):
        return []
    each_kw = trees.module_kw(site, electrical)
    worst = top_row(blocks, blocks["worst_kw"])
    if float(blocks["limit_kw"].max()) > each_kw + ROUNDING:
        return []
    per_kw = each_kw / site.ups.module_kw
    enough = [one for one in RATINGS_KW if one * per_kw >= float(worst["worst_kw"]) - ROUNDING]
    if not enough or enough[0] * LIGHT > site.ups.module_kw:
        return []
    return [
        finding(
            "POWER-UPS-LIGHT",
            "ups.module_kw",
            limit=round(each_kw, 3),
            limit_source="site ups.module_kw and electrical.ups_blocks.permitted_load",
            module_kw=site.ups.module_kw,
            modules=float(np.round(blocks["rating"].sum() / site.ups.module_kw)),
            worst_kw=round(float(worst["worst_kw"]), 3),
            words={"block": worst["name"]},
            remedies=[remedy({"ups.module_kw": enough[0]}, fix="smaller")],
        )
    ]
