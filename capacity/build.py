"""The planner: a site file in, its Plan out, through the stages in their order.

    plan = build(load_site("lab"))
    plan.devices, plan.cables, …      pandas frames, columns in capacity.model.frames
    plan.findings                     what does not hold, with the numbers and the source of each limit

Deterministic: equal inputs give equal frames and hashes on every machine.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from capacity import sizes
from capacity.accepted import Standing, judged, load_standing
from capacity.kept import Kept
from capacity.model import Plan, frames, hashes
from capacity.stages import STAGES, Built, WhatIfs, plan_frames
from inventory.catalog import Catalog
from inventory.delivered.assets import load_assets
from inventory.delivered.gpus import load_gpus
from inventory.findings import Finding
from inventory.site import Site
from inventory.site.whatif import with_settings

_SEVERITY_ORDER = {"error": 0, "warning": 1, "info": 2}


def planned(
    site: Site,
    catalog: Catalog | None = None,
    assets: pd.DataFrame | None = None,
    kept: Kept | None = None,
    what_ifs: bool = True,
) -> Plan:
    """The plan of a site with its open sizes worked out. `kept` and `what_ifs` as in `build`."""
    kept = Kept(most=2) if kept is None else kept
    catalog, assets = catalog or site.catalog, load_assets(site) if assets is None else assets
    return build(sizes.sized(site, catalog, assets, kept), catalog, assets, kept=kept, what_ifs=what_ifs)


@frames.with_python_strings
def build(
    site: Site,
    catalog: Catalog | None = None,
    assets: pd.DataFrame | None = None,
    baseline: Plan | Standing | None = None,
    kept: Kept | None = None,
    what_ifs: bool = True,
) -> Plan:
    """Plan a site.

    `catalog` and `assets` default to the site's catalogue and to the asset list beside the site file. `baseline` is what
    stands, an earlier plan of the same site or its accepted state (by default the one beside the site file): devices that it
    has keep their names, places, addresses, and their ports on leaves and management switches. Of the trunk each
    pair of switches keeps as many cables as it has in the new fabric.
    `kept` are results of stages from plans of the same site with other values, which are taken over where nothing that they
    were made from has changed. Without `what_ifs` remedies that have to be tried by planning on are left out.
    Never raises for a site that loads, but SiteError where the accepted state beside it is broken: what cannot be built becomes
    an error finding, and the frames hold the rest.
    """
    catalog = catalog or site.catalog
    standing = load_standing(site) if baseline is None else None
    assets = load_assets(site) if assets is None else assets
    built: Built = {
        "assets": assets,
        "baseline": baseline or standing,
        "trials": _what_ifs(site, catalog, assets, Kept(kept, most=2)) if what_ifs else None,
    }
    findings: list[Finding] = []
    for stage in STAGES:
        added, found = kept.run(stage, site, catalog, built) if kept else stage(site, catalog, built)
        built = {**built, **added}
        findings += found
    conform = kept.frame if kept else frames.conform
    made = {name: conform(name, frame) for name, frame in plan_frames(built).items()}
    findings += judged(site, standing, made)
    gpus = load_gpus(site)
    slices = hashes.slices(site, built["assets"], gpus, made, kept.frame_hash if kept else frames.frame_hash)
    if built["weather"] is not None:
        slices["weather"] = built["weather"].digest
    return Plan(
        site=site,
        catalog=catalog,
        tree=built["tree"],
        findings=tuple(sorted(findings, key=lambda f: (_SEVERITY_ORDER[f.severity], f.id, f.subject))),
        hashes=slices,
        hash=hashes.whole(slices),
        gpus=gpus,
        **made,
    )


def _what_ifs(site: Site, catalog: Catalog, assets: pd.DataFrame, kept: Kept) -> WhatIfs:
    """What-ifs of a site, with its open sizes but the need date, from which nothing follows."""
    asked = {".".join(map(str, path)) for path in site.effective.sized()} - {sizes.NEED_DATE}
    made: dict[str, Site] = {}

    def sized(site: Site, values: Mapping[str, Any]) -> Site:
        key = repr(sorted(values.items()))
        if key not in made:
            made[key] = sizes.sized(with_settings(site, values), catalog, assets, kept, asked)
        return made[key]

    return WhatIfs(kept, sized)
