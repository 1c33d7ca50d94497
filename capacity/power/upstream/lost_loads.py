"""What single failures take down or slow down: POWER-FAILURE (ERR-05, a room: ERR-45), and the least change that prevents it.

In: the frame `failures`, the network and its loads. Out: findings.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.power import rooms
from capacity.power.rack import psus
from capacity.power.rack.psus import supplies_by_model
from capacity.power.upstream.network import Network
from capacity.power.upstream.redistribution import redistribute
from capacity.power.upstream.single_failures import single_failures
from capacity.power.upstream.switching import alive
from capacity.worst import top_row
from inventory.catalog import Catalog
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from inventory.site.sections.electrical import Electrical

Ints = npt.NDArray[np.int64]

TAKEN = {"servers_lost": "servers", "loads_lost": "other-loads", "servers_reduced": "reduced"}
"""Column of the frame `failures`: case of the finding."""

LISTED = 4
"""Names of one role in a message; the others are counted."""


def loads_lost(net: Network, row: int) -> Ints:
    """Rows of the loads that go dark in the failure of this row of `study`."""
    tree = net.tree
    names, _, (failure, element) = single_failures(tree)
    if row < len(names):
        failed = np.zeros((1, len(tree.elements)), dtype=bool)
        failed[0, element[failure == row]] = True
        dead = np.flatnonzero(~alive(tree, failed)[0][0, tree.panel_of])
    else:
        dead = np.array([row - len(names)], dtype=np.int64)
    out = redistribute(net, np.zeros(len(dead), dtype=np.int64), dead, 1)
    return out.affected_load[out.dark]


def check_failures(
    site: Site, catalog: Catalog, electrical: Electrical, frame: pd.DataFrame, net: Network, fed: pd.DataFrame
) -> list[Finding]:
    """POWER-FAILURE: no single failure may take GPU servers down, nor switches, storage or service nodes, without which the
    servers stand still. Judged per element and per room, never by counting; `fed` are the loads of `net`.

    Without generators the loss of the only line is the risk that POWER-NO-GENERATOR names, and is not judged here.
    """
    if not site.generator.present:
        alone = ["grid", "utility"] if electrical.utility.services == 1 else ["grid"]
        frame = frame[~frame["kind"].isin(alone)]
    found = []
    together = frame["kind"].isin(["room", "grid"])
    for err, part in (("ERR-05", frame[~together]), ("ERR-45", frame[together])):
        for taken in TAKEN:
            losing = part[(part[taken] > 0) & ((part["servers_lost"] > 0) == (taken == "servers_lost"))]
            if taken == "servers_reduced":
                losing = losing[losing["loads_lost"] == 0]  # the load that is named is then a server
            if losing.empty:
                continue
            worst = top_row(losing, losing[taken])
            loads = ""
            if taken == "loads_lost":
                row = int(losing.index.to_numpy()[losing[taken].to_numpy().argmax()])
                loads = _listed(fed.iloc[loads_lost(net, row)])
            found.append(
                finding(
                    "POWER-FAILURE",
                    str(worst["failure"]),
                    case=TAKEN[taken],
                    severity="warning" if taken == "servers_reduced" else "error",
                    limit=float(worst["needed_w"]),
                    limit_source=f"site server supplies {site.server.supplies.redundancy}"
                    if taken != "loads_lost"
                    else "catalogue psu.redundancy",
                    err=err,
                    **dict[str, Any]({taken: int(worst[taken])}),
                    failures=len(losing),
                    left_w=float(worst["left_w"]),
                    supplies_left=int(worst["supplies_left"]),
                    words={
                        "loads": loads,
                        "lost_kw": float(worst["lost_kw"]),
                        "load": worst["tightest_group"],
                        "supplies": int(worst["supplies"]),
                    },
                    remedies=_failure_remedies(site, catalog, electrical, worst, fed),
                )
            )
    return found


def _listed(lost: pd.DataFrame) -> str:
    """Loads by role: '2 management (mgm01, mgm02), 6 leaf (leaf01, leaf02, leaf03, leaf04, …)'."""
    return ", ".join(
        f"{len(names)} {role} ({', '.join(names.head(LISTED))}{', …' if len(names) > LISTED else ''})"
        for role, names in lost.groupby("role", sort=False)["name"]
    )


def _failure_remedies(
    site: Site, catalog: Catalog, electrical: Electrical, worst: dict[str, Any], fed: pd.DataFrame
) -> list[RemedyOf]:
    """The least change after which this failure takes nothing down."""
    if worst["kind"] == "room":
        sharing = [f for f in site.power.feeds if rooms.room_of(site, f) == worst["failure"]]
        if len(sharing) > 1:
            return [rooms.apart(site, sharing)]
    if worst["kind"] in ("utility", "grid"):
        return [remedy(fix="second-line"), remedy(fix="generators")]
    if not worst["servers_lost"] and not worst["servers_reduced"]:
        load = fed[fed["name"] == worst["tightest_group"]].iloc[0]
        known = {slug: group for (_, slug), group in supplies_by_model(site, catalog).items()}
        group = known.get(load["model"])
        if group is None:
            return [remedy(fix="psu-on-two-feeds", model=load["model"])]
        return psus.feed_loss_remedies(group, load["nameplate_w"], load["nameplate_w"], servers=0)
    power, system = site.server.power, site.server.system
    trays = catalog.system(system).count("compute") if system else 1
    server_w = min(power.nameplate_w, power.cap_w or np.inf)
    group, needed_w = group_of(site), float(worst["needed_w"])
    group = group if power.cap_w is None else psus.under_cap(group, needed_w)
    split_key = f"server.{'psu' if site.server.psu else 'shelves'}.split_by_feed"
    return psus.feed_loss_remedies(
        group, power.nameplate_w, needed_w, trays, server_w, power.measured_w, split_key, site.power.feeds
    )


def group_of(site: Site) -> psus.Supplies:
    """The supplies of a server, or of a rack-scale system, as the site says."""
    group = site.server.supplies
    return psus.Supplies(group.count, int(group.redundancy.split("+")[0]), group.rating_w, dict(group.split_by_feed))
