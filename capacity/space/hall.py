"""The hall around the placed racks: places and aisles, depth and airflow of their devices, units kept together, the
cable that the places cost, and the smallest remedy for a rack or a hall that is too small.

In: the plan's frames. Out: findings and plain figures. Pure. Placement itself is capacity.space.placement.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.least import with_values
from capacity.model import Plan
from capacity.space import placement
from inventory.catalog import U_M, Catalog
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from inventory.site.sections.racks import NetworkRack, Rack

Floats = npt.NDArray[np.float64]

_COLUMN = {
    "SPACE-RACK-U": "u_height",
    "SPACE-RACK-MASS": "mass_kg",
    "SPACE-RACK-POWER": "nameplate_w",
    "SPACE-FLOOR-LOAD": "mass_kg",
}
"""Column of the devices that adds up to what each finding judges."""


def rack_places(site: Site) -> tuple[int, ...]:
    """The places in a row that racks may take: not those of power panels at its head and distribution units at its end, nor
    those kept for coolers.
    """
    room, air, coolant = site.room, site.cooling.air, site.cooling.coolant
    kept = room.rpps_per_row + (coolant.cdu_places_per_row if coolant is not None else 0)
    every = air.every_racks if air is not None else None
    behind = range(room.racks_per_row - kept)
    return tuple(room.rpps_per_row + p for p in behind if every is None or (p + 1) % (every + 1))


def check(
    site: Site, catalog: Catalog, devices: pd.DataFrame, racks: pd.DataFrame, placements: pd.DataFrame
) -> list[Finding]:
    """SPACE-DEPTH, SPACE-AIRFLOW, SPACE-PITCH, SPACE-AISLE, SPACE-WALKWAY and SPACE-UNIT-SPLIT."""
    return [
        *_depth(site, catalog, devices, racks, placements),
        *_airflow(site, catalog, devices),
        *_pitches(site, catalog, racks),
        *_aisles(site, catalog),
        *_walkways(site, catalog),
        *_units(site, devices, racks, placements),
    ]


def _depth(
    site: Site, catalog: Catalog, devices: pd.DataFrame, racks: pd.DataFrame, placements: pd.DataFrame
) -> list[Finding]:
    """SPACE-DEPTH when a device is deeper than the rack that it stands in."""
    model = devices.set_index("name")["model"]
    pairs = pd.DataFrame(
        {
            "model": model.reindex(placements["device"]).to_numpy(),
            "rack": racks.set_index("name")["model"].reindex(placements["rack"]).to_numpy(),
        }
    ).drop_duplicates()
    found = []
    pairs["depth_mm"] = pairs["model"].map(lambda slug: catalog.device(slug).bringup.depth_mm or 0)
    needed = pairs.groupby("rack")["depth_mm"].max()
    for slug, rack in pairs[["model", "rack"]].itertuples(index=False, name=None):
        deep, outer = catalog.device(slug).bringup.depth_mm, catalog.rack(rack).outer_depth
        if deep is not None and deep > outer:
            found.append(
                finding(
                    "SPACE-DEPTH",
                    slug,
                    limit=outer,
                    limit_source=f"catalogue {rack} outer_depth",
                    remedies=[*_deeper_racks(site, catalog, rack, float(needed[rack])), remedy(fix="deeper-rack")],
                    words={"rack": rack},
                    depth_mm=deep,
                )
            )
    return found


def _deeper_racks(site: Site, catalog: Catalog, slug: str, depth_mm: float) -> list[RemedyOf]:
    """The rack of the catalogue of least depth that holds devices of `depth_mm` and as much besides as rack `slug`, in its place.
    There is none where the rack comes with a rack-scale system, or where the aisles would be too narrow then.
    """
    rack, now = site.rack, catalog.rack(slug)
    keys = [
        f"rack.{key}model"
        for key, one in (("", rack), ("network.", rack.network), ("storage.", rack.storage))
        if one is not None and one.model == slug
    ]
    fitting = [
        one
        for one in catalog.racks.values()
        if one.outer_depth >= depth_mm
        and one.outer_width == now.outer_width
        and one.u_height >= now.u_height
        and (one.max_weight or 0) >= (now.max_weight or 0)
        and not _aisles(with_values(site, dict.fromkeys(keys, one.slug)), catalog)
    ]
    best = min(fitting, key=lambda one: (one.outer_depth, one.u_height, one.slug), default=None)
    if best is None or site.server.system or not keys:
        return []
    return [remedy(dict.fromkeys(keys, best.slug))]


def _airflow(site: Site, catalog: Catalog, devices: pd.DataFrame) -> list[Finding]:
    """SPACE-AIRFLOW (S107): a warning for a server that blows against its aisle, information for a switch that draws at
    its ports, which then face the cold aisle while the servers' ports are at the rear.
    """
    standing = devices[devices["busbar"] < 0]
    found = []
    models = standing["model"].to_numpy(dtype=object)
    for slug, kind in sorted(standing.groupby("model")["kind"].first().items()):
        airflow = catalog.device(str(slug)).airflow
        if kind == "server" and airflow == "rear-to-front":
            found.append(
                finding(
                    "SPACE-AIRFLOW",
                    str(slug),
                    case="server",
                    severity="warning",
                    limit_source="catalogue airflow",
                    remedies=[remedy(fix="front-to-rear")],
                    devices=float((models == slug).sum()),
                )
            )
        if kind == "switch" and airflow == "front-to-rear" and site.cooling.air is not None:
            found.append(
                finding(
                    "SPACE-AIRFLOW",
                    str(slug),
                    case="switch",
                    severity="info",
                    limit_source="catalogue airflow",
                    remedies=[remedy(fix="seal"), remedy(fix="reverse")],
                    devices=float((models == slug).sum()),
                )
            )
    return found


def rack_kinds(site: Site) -> list[Rack | NetworkRack]:
    """The kinds of rack that a site names: compute, and where they differ network and storage."""
    return [site.rack, *(kind for kind in (site.rack.network, site.rack.storage) if kind is not None)]


def rack_depth_m(site: Site, catalog: Catalog) -> float:
    """Outer depth of the site's deepest rack."""
    return max(catalog.rack(kind.model).outer_depth for kind in rack_kinds(site)) / 1000


def _pitches(site: Site, catalog: Catalog, racks: pd.DataFrame) -> list[Finding]:
    """SPACE-PITCH when racks stand closer to each other than they are wide, or rows than their racks are deep."""
    room = site.room
    sizes = [catalog.rack(slug) for slug in racks["model"].unique()]
    wide, deep = (
        max((getattr(one, f"outer_{side}") for one in sizes), default=0.0) / 1000 for side in ("width", "depth")
    )
    found = []
    if room.rack_pitch_m < wide - 1e-9:
        found.append(
            finding(
                "SPACE-PITCH",
                "room.rack_pitch_m",
                case="racks",
                limit=wide,
                limit_source="catalogue rack types, outer_width",
                remedies=[remedy({"room.rack_pitch_m": wide}, fix="at-least"), remedy(fix="narrower-racks")],
                words={"pitch_m": room.rack_pitch_m},
                rack_pitch_m=room.rack_pitch_m,
            )
        )
    if room.rows > 1 and room.row_pitch_m < deep - 1e-9:
        found.append(
            finding(
                "SPACE-PITCH",
                "room.row_pitch_m",
                case="rows",
                limit=deep,
                limit_source="catalogue rack types, outer_depth",
                remedies=[remedy({"room.row_pitch_m": deep}, fix="with-aisle")],
                words={"pitch_m": room.row_pitch_m},
                row_pitch_m=room.row_pitch_m,
            )
        )
    return found


def clear_aisle_m(site: Site, catalog: Catalog) -> float:
    """Clear width that is left between two rows of racks."""
    return site.room.row_pitch_m - rack_depth_m(site, catalog)


def _aisles(site: Site, catalog: Catalog) -> list[Finding]:
    """SPACE-AISLE when rows leave less than the least clear width between them."""
    room = site.room
    if room.aisle_min_m is None or room.rows < 2:
        return []
    depth, clear = rack_depth_m(site, catalog), clear_aisle_m(site, catalog)
    if clear >= room.aisle_min_m - 1e-9:
        return []
    return [
        finding(
            "SPACE-AISLE",
            "room.row_pitch_m",
            limit=room.aisle_min_m,
            limit_source="site room.aisle_min_m",
            remedies=[remedy({"room.row_pitch_m": round(room.aisle_min_m + depth, 9)})],
            words={"row_pitch_m": room.row_pitch_m},
            clear_m=round(clear, 3),
        )
    ]


def walkways_m(site: Site, catalog: Catalog) -> dict[str, float]:
    """Clear width of the walkways at the ends of the rows (key length_m) and beside the outer rows (width_m), where the
    site gives the hall's size.
    """
    room, clear = site.room, {}
    if room.length_m is not None:
        clear["length_m"] = (room.length_m - room.racks_per_row * room.rack_pitch_m) / 2
    if room.width_m is not None:
        clear["width_m"] = (room.width_m - (room.rows - 1) * room.row_pitch_m - rack_depth_m(site, catalog)) / 2
    return clear


def _walkways(site: Site, catalog: Catalog) -> list[Finding]:
    """SPACE-WALKWAY when the rows leave less than the least clear width around them, or do not fit between the walls."""
    room, least = site.room, site.room.walkway_min_m or 0.0
    found = []
    for key, clear in walkways_m(site, catalog).items():
        if clear >= least - 1e-9:
            continue
        size, missing = getattr(room, key), 2 * (least - clear)
        if key == "length_m":
            other, left = "racks_per_row", room.racks_per_row - math.ceil(missing / room.rack_pitch_m - 1e-9)
        else:
            other, left = "rows", room.rows - math.ceil(missing / room.row_pitch_m - 1e-9)
        larger = {f"room.{key}": math.ceil((size + missing) * 100 - 1e-6) / 100}
        found.append(
            finding(
                "SPACE-WALKWAY",
                f"room.{key}",
                case=key,
                limit=least,
                limit_source="site room.walkway_min_m" if least else f"site room.{key}, from wall to wall",
                remedies=[remedy(larger), *([remedy({f"room.{other}": left})] if left >= 1 else [])],
                words={"size_m": size, "places": room.racks_per_row, "rows": room.rows},
                clear_m=round(clear, 3),
            )
        )
    return found


def unit_spread(devices: pd.DataFrame, racks: pd.DataFrame, placements: pd.DataFrame) -> pd.DataFrame:
    """One row a scalable unit: its racks, and the places from its first to its last one (equal when kept together)."""
    servers = devices[devices["role"] == "gpu"]
    order = pd.Series(np.arange(len(racks)), index=racks["name"])
    place = order.reindex(placements.set_index("device")["rack"].reindex(servers["name"])).to_numpy()
    table = pd.DataFrame({"unit": servers["unit"].to_numpy(), "place": place}).dropna()
    found = table.groupby("unit")["place"].agg(["nunique", "min", "max"])
    return pd.DataFrame(
        {
            "unit": found.index,
            "racks": found["nunique"].to_numpy(),
            "places": (found["max"] - found["min"] + 1).astype(int).to_numpy(),
        }
    )


def _units(site: Site, devices: pd.DataFrame, racks: pd.DataFrame, placements: pd.DataFrame) -> list[Finding]:
    """SPACE-UNIT-SPLIT, for information, when other racks stand between those of a scalable unit."""
    spread = unit_spread(devices, racks, placements)
    split = spread[spread["places"] > spread["racks"]]
    if split.empty:
        return []
    worst = split.iloc[int((split["places"] - split["racks"]).to_numpy().argmax())]
    return [
        finding(
            "SPACE-UNIT-SPLIT",
            f"unit {int(worst['unit'])}",
            words={"others": int(worst["places"] - worst["racks"])},
            units=float(len(split)),
        )
    ]


def room(site: Site) -> placement.Room:
    """The hall as placement sees it: rows, places for racks in each, pitches and what the floor carries."""
    given, at = site.room, rack_places(site)
    return placement.Room(given.rows, len(at), given.rack_pitch_m, given.row_pitch_m, given.floor_load_kg_m2, at)


def positions(site: Site, racks: pd.DataFrame) -> list[Finding]:
    """SPACE-ROOM when the hall has fewer positions than racks: with the rows, or the places in a row, that hold all."""
    given = room(site)
    if len(racks) <= given.positions:
        return []
    per_row = len(rack_places(site))
    more_rows = [remedy({"room.rows": -(-len(racks) // per_row)})] if per_row else []
    longer = _longer_row(site, -(-len(racks) // site.room.rows))
    return [
        finding(
            "SPACE-ROOM",
            "room",
            limit=float(given.positions),
            limit_source="site room.rows x room.racks_per_row",
            remedies=[*more_rows, remedy({"room.racks_per_row": longer})],
            racks=len(racks),
        )
    ]


def least_change(
    site: Site, devices: pd.DataFrame, racks: pd.DataFrame, placements: pd.DataFrame
) -> Callable[[placement.Overload], list[RemedyOf]]:
    """What resolves the overload of a rack: the fewest servers less, else the limit that holds. Where a rack without servers loads
    the floor too much as well, servers are not the answer.
    """

    def remedies(over: placement.Overload) -> list[RemedyOf]:
        inside = devices[devices["name"].isin(placements.loc[placements["rack"] == over.rack, "device"])]
        column = _COLUMN[over.id]
        servers = inside[inside["role"] == "gpu"]
        if len(servers) and not site.server.system:
            each = float(servers[column].max()) / (1000 if column == "nameplate_w" else 1)
            if over.id == "SPACE-FLOOR-LOAD":
                each /= float(racks.loc[racks["name"] == over.rack, "mass_kg"].iloc[0]) / over.value
            fewer = math.ceil((over.value - over.limit) / each - 1e-9)
            if len(servers) > fewer and not over.without_servers:
                return [remedy({"rack.servers": len(servers) - fewer})]
        return [remedy({over.key: math.ceil(over.value)}, fix="at-least")]

    return remedies


def _longer_row(site: Site, racks: int) -> int:
    """Smallest racks_per_row with places for `racks` of a row, beside power panels and the places kept for coolers."""
    length = site.room.racks_per_row
    while len(rack_places(_with_row(site, length))) < racks:
        length += 1
    return length


def _with_row(site: Site, length: int) -> Site:
    return site.model_copy(update={"room": site.room.model_copy(update={"racks_per_row": length})})


def places(plan: Plan) -> dict[str, int]:
    """Places of racks in the hall: all of them, and what takes them."""
    room = plan.site.room
    inside = plan.cooling_units[plan.cooling_units["at"] == "row"]
    kept = room.rows * room.rpps_per_row
    taken = len(plan.racks) + len(inside.drop_duplicates(["row", "position"])) + kept
    return {
        "all": room.rows * room.racks_per_row,
        "racks": len(plan.racks),
        "cooling_units": len(inside.drop_duplicates(["row", "position"])),
        "kept_for_panels": kept,
        "power_panels": int(((plan.elements["kind"] == "panel") & (plan.elements["row"] >= 0)).sum())
        if plan.site.electrical is not None and plan.site.electrical.panels.kind == "rpp"
        else 0,
        "free": max(room.rows * room.racks_per_row - taken, 0),
        "blanking_panels_u": int((plan.racks["height_u"] - plan.racks["used_u"]).clip(lower=0).sum()),
    }


def cable_bound(plan: Plan) -> dict[str, float]:
    """Metres of compute cable that the plan has, and a lower bound for any place of the switches, servers as they stand.

    A way from a server over leaf, spine and core to any point is at least the horizontal distance to that point (triangle
    inequality; trays run at right angles). Every top switch of the tree reaches all servers alike, so all ways together are
    at least ways x mean distance of the servers to their median point, and ways are at least the cables of the stage with
    fewest per leaf. On top come the slack of each cable, and the rise to the tray and down for leaf cables to servers that
    cannot share a rack with their leaf. Trunks may share racks: they count without their rise. The bound is therefore
    below what can be built, since switches also need rack units, power and their own racks.
    """
    tree, cables, room = plan.tree, plan.cables, plan.site.room
    compute = cables[cables["fabric"] == "compute"]
    reached = float(compute["length_m"].sum())
    down = compute[compute["stage"] == "node-leaf"]
    if tree is None or down.empty:
        return {"reached_m": round(reached, 1), "bound_m": round(len(compute) * room.slack_m, 1)}
    place = plan.placements.set_index("device")[["x_m", "y_m", "z_m"]]
    servers = place.reindex(down["a_device"]).to_numpy(dtype=np.float64)
    up = compute.loc[compute["stage"] == "leaf-spine"].groupby("a_device").size()
    counts = down.groupby("b_device").size()
    share = (up.reindex(counts.index).fillna(0) / counts).clip(upper=1.0) if len(up) else counts * 0.0
    weight: Floats = np.asarray(share.reindex(down["b_device"]), dtype=np.float64)
    top = compute[compute["stage"] == "spine-core"].groupby("a_device").size()
    if len(top):
        below = compute.loc[compute["stage"] == "leaf-spine"].groupby("b_device").size()
        weight = weight * float((top / below.reindex(top.index)).clip(upper=1.0).min())
    across = float((weight * (_spread(servers[:, 0], weight) + _spread(servers[:, 1], weight))).sum())
    heights = [kind.height_u for kind in rack_kinds(plan.site)]
    rise = np.sort(np.maximum(2 * room.tray_height_m - servers[:, 2] - max(heights) * U_M, 0.0))
    apart = int(np.maximum(counts.to_numpy() - plan.site.rack.servers, 0).sum())
    bound = len(compute) * room.slack_m + across + float(rise[:apart].sum())
    return {"reached_m": round(reached, 1), "bound_m": round(min(bound, reached), 1)}


def _spread(at: Floats, weight: Floats) -> Floats:
    """Distance of each to the weighted median."""
    order = np.argsort(at, kind="stable")
    total = np.cumsum(weight[order])
    if not len(total) or total[-1] <= 0:
        return np.zeros_like(at)
    median = at[order][int(np.searchsorted(total, total[-1] / 2))]
    return np.asarray(np.abs(at - median), dtype=np.float64)


def figures(plan: Plan) -> dict[str, Any]:
    """Places, units kept together and cable beside its bound: plain data for the summary and the report."""
    spread = unit_spread(plan.devices, plan.racks, plan.placements)
    bound = cable_bound(plan)
    return {
        "places": places(plan),
        "units": {"count": len(spread), "split": int((spread["places"] > spread["racks"]).sum())},
        "compute_cable": {
            **bound,
            "over_bound": round(bound["reached_m"] / bound["bound_m"], 3) if bound["bound_m"] else 0.0,
        },
    }
