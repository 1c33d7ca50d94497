"""The supplies of one load: how many are needed, and what is left when some of them or a whole feed is lost.

A load is a device with supplies of its own, or the DC busbar of a rack, whose supplies are the rack's power shelves.
A supply delivers at most its rating; redundancy is stated per model as needed+spare ("4+2"), because a model may need
more supplies than the arithmetic says. Loads are input watts, compared with output ratings, which errs on the safe
side. Under a power cap fewer supplies are needed: the loss of a feed is judged at the cap.

Sources: the k-of-n arithmetic is that of ERR-02 and ERR-05; DGX H100 4+2 and DGX B200 5+1 are per-model facts of the
catalogue.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from capacity.power.facility import units_for
from capacity.space.devices import BUSBAR
from inventory.catalog import Catalog
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from network.wiring.inband import placed_block


@dataclass(frozen=True)
class Supplies:
    """The supplies of one load: `needed` of `count` carry full load; `by_feed` says how many sit on each feed. On `reduced_on`
    or more, but too few for full load, it goes on at reduced performance; 0 where it does not.
    """

    count: int
    needed: int
    rating_w: float
    by_feed: Mapping[str, int]
    reduced_on: int = 0


def counts_for(load_w: float, rating_w: float) -> dict[str, int]:
    """Supplies for `load_w` at each redundancy: n, n+1, n+2, 2n."""
    return {redundancy: units_for(load_w, rating_w, redundancy) for redundancy in ("n", "n+1", "n+2", "2n")}


def under_cap(supplies: Supplies, capped_w: float) -> Supplies:
    """`supplies` with as many needed as carry `capped_w`, and no more than carry full load."""
    return replace(supplies, needed=min(supplies.needed, counts_for(capped_w, supplies.rating_w)["n"]))


def left_after_w(count: int, rating_w: float, lost: int) -> float:
    """Watts that `count` supplies of `rating_w` deliver when `lost` of them are gone."""
    return max(count - lost, 0) * rating_w


def feed_loss_remedies(
    supplies: Supplies,
    nameplate_w: float,
    load_w: float,
    servers: int = 1,
    server_w: float | None = None,
    least_w: float = 1.0,
    split_key: str = "",
    feeds: tuple[str, ...] = (),
) -> list[RemedyOf]:
    """The changes after which the loss of any one feed leaves enough, the least first: a power cap, more feeds, and where
    neither helps stronger or more supplies.

    `load_w` is what the supplies have to deliver: a server's, or that of a busbar with `servers` servers of which each
    may draw `server_w` (None: the load is the server's); `nameplate_w` is a server's. A cap costs no hardware: it takes
    what is missing off the servers, in equal parts, and is offered where they keep `least_w`: no site file takes a cap below
    what they were measured to draw. Nothing else can be capped (`servers` 0). `split_key` is the site key that splits the
    supplies over `feeds`, where there is one.
    """
    worst = max(supplies.by_feed.values())
    left = left_after_w(supplies.count, supplies.rating_w, worst)
    spare = supplies.count - supplies.needed
    feeds_needed = math.ceil(supplies.count / spare) if spare else 0
    remedies = []
    short = left < load_w or supplies.count - worst < supplies.needed
    cap = math.floor((load_w if server_w is None else server_w) - max(load_w - left, 0.0) / max(servers, 1) + 1e-6)
    if left > 0 and short and cap >= least_w and servers:
        remedies.append(remedy({"server.power.cap_w": cap}, fix="cap", below_pct=(1 - cap / nameplate_w) * 100))
    if feeds_needed > len([f for f in supplies.by_feed.values() if f]):
        figures: dict[str, Any] = {"feeds_needed": feeds_needed, "most": spare, "count": supplies.count}
        if split_key and feeds_needed <= len(feeds):
            split = dict.fromkeys(feeds, 0) | _even_split(supplies.count, feeds[:feeds_needed])
            remedies.append(remedy({split_key: split}, fix="split", **figures))
        else:
            remedies.append(remedy(fix="more-feeds", **figures))
    return remedies or [remedy(fix="higher-rating"), remedy(fix="one-supply-more")]


def redundancy_remedies(supplies: Supplies, load_w: float, key: str = "") -> list[RemedyOf]:
    """What gives a load a spare supply: counting on as many as it takes, stronger ones, or more of them. `key` is the site
    key of the supplies, where the site states them.
    """
    wanted = counts_for(load_w, supplies.rating_w)
    n, count = wanted["n"], supplies.count
    if n < count:
        redundancy = f"{n}+{count - n}"
        if key:
            return [remedy({f"{key}.redundancy": redundancy}, fix="redundancy", enough=n)]
        return [remedy(fix="redundancy-catalogue", enough=n, redundancy=redundancy)]
    remedies = []
    if count > 1:
        stronger_w = math.ceil(load_w / (count - 1) - 1e-9)
        stated: dict[str, Any] = {f"{key}.rating_w": stronger_w} if key else {}
        if key and supplies.needed != count - 1:
            stated[f"{key}.redundancy"] = f"{count - 1}+1"
        remedies.append(remedy(stated, fix="stronger" if key else "stronger-catalogue", stronger_w=stronger_w))
    return [*remedies, remedy(fix="more-supplies", more=wanted["n+1"])]


def check(
    subject: str,
    supplies: Supplies,
    load_w: float,
    source: str,
    capped_w: float | None = None,
    servers: int = 0,
    nameplate_w: float = 0.0,
    least_w: float = 1.0,
    key: str = "",
    feeds: tuple[str, ...] = (),
) -> list[Finding]:
    """Findings on the supplies of one load of `load_w` at nameplate: POWER-PSU-REDUNDANCY (ERR-02), POWER-FEED-LOSS
    (ERR-05) per feed.

    `capped_w` is what the load draws at most under its power cap, None without one; `servers` GPU servers of `nameplate_w`
    each are in the load, 0 where nothing can be capped, and no cap may be below `least_w`. `key` is the site key of the
    supplies, where the site states them, and `feeds` are the feeds of the site. Where the cap is what saves the load,
    POWER-CAP says so, for information.
    """
    found: list[Finding] = []
    spare = supplies.count - supplies.needed
    carried = left_after_w(supplies.count, supplies.rating_w, spare)
    if carried < load_w or spare < 1:
        found.append(
            finding(
                "POWER-PSU-REDUNDANCY",
                subject,
                case="short" if spare > 0 else "no-spare",
                limit=load_w,
                limit_source=source,
                err="ERR-02",
                count=supplies.count,
                needed=supplies.needed,
                left_w=carried,
                load_w=load_w,
                words={"rating_w": supplies.rating_w, "spare": spare},
                remedies=redundancy_remedies(supplies, load_w, key),
            )
        )
    any_feed, split_key = any(supplies.by_feed.values()), f"{key}.split_by_feed" if key else ""
    remedies = (
        feed_loss_remedies(supplies, nameplate_w, load_w, servers, nameplate_w, least_w, split_key, feeds)
        if any_feed
        else []
    )
    lost_feeds = check_feeds(subject, supplies, load_w, supplies.needed, source, remedies)
    if capped_w is None:
        return found + lost_feeds
    capped = under_cap(supplies, capped_w)
    drawn_w = nameplate_w - (load_w - capped_w) / max(servers, 1)
    remedies = (
        feed_loss_remedies(capped, nameplate_w, capped_w, servers, drawn_w, least_w, split_key, feeds)
        if any_feed
        else []
    )
    still_lost = check_feeds(subject, supplies, capped_w, capped.needed, f"{source}, power cap", remedies)
    if lost_feeds and not still_lost:
        worst = max(supplies.by_feed.values())
        left = left_after_w(supplies.count, supplies.rating_w, worst)
        found.append(
            finding(
                "POWER-CAP",
                subject,
                limit=capped_w,
                limit_source="site server.power.cap_w",
                err="ERR-05",
                left_w=left,
                capped_w=capped_w,
                load_w=load_w,
                words={"left": supplies.count - worst, "count": supplies.count},
            )
        )
    return found + still_lost


def check_feeds(
    subject: str, supplies: Supplies, load_w: float, needed: int, source: str, remedies: list[RemedyOf]
) -> list[Finding]:
    """POWER-FEED-LOSS for each feed whose loss leaves fewer than `needed` supplies, or too few watts for `load_w`, with the
    same `remedies`.
    """
    found = []
    for feed, lost in sorted(supplies.by_feed.items()):
        survivors = supplies.count - lost
        left = left_after_w(supplies.count, supplies.rating_w, lost)
        if lost and (left < load_w or survivors < needed):
            reduced = 0 < supplies.reduced_on <= survivors
            found.append(
                finding(
                    "POWER-FEED-LOSS",
                    f"{subject}/{feed}",
                    case="reduced" if reduced else "watts" if left < load_w else "supplies",
                    severity="warning" if reduced else "error",
                    limit=load_w,
                    limit_source=source,
                    err="ERR-05",
                    lost=lost,
                    left=survivors,
                    needed=needed,
                    left_w=left,
                    load_w=load_w,
                    words={"feed": feed, "count": supplies.count, "reduced_on": supplies.reduced_on},
                    remedies=remedies,
                )
            )
    return found


def supplies_by_model(site: Site, catalog: Catalog) -> dict[tuple[str, str], Supplies]:
    """Supplies of each (role, model) that has any: GPU servers, or the busbars of rack-scale systems, as the site says,
    others as the catalogue says.
    """
    group = site.server.supplies
    needed = int(group.redundancy.split("+")[0])
    first = (BUSBAR, site.server.system) if site.server.system else ("gpu", site.server.model)
    sold = catalog.device(site.server.model).bringup.psu if not site.server.system else None
    reduced_on = (sold.reduced_on or 0) if sold is not None and sold.count == group.count else 0
    result = {first: Supplies(group.count, needed, group.rating_w, dict(group.split_by_feed), reduced_on)}
    block = placed_block(site, catalog)
    others: list[tuple[str, str]] = [(node.role, node.model) for node in site.service_nodes]
    others += zip(("storage", "metadata"), block.devices if block else (), strict=False)
    others += [
        ("switch", model)
        for model in (site.fabric.switch_model, site.inband.spine_model, site.inband.leaf_model, site.oob.switch_model)
    ]
    for role, slug in others:
        model = catalog.device(slug)
        if model.bringup.psu is not None:
            result[role, slug] = Supplies(
                model.bringup.psu.count,
                int(model.bringup.psu.redundancy.split("+")[0]),
                model.bringup.psu.rating_w,
                _even_split(model.bringup.psu.count, site.power.feeds),
            )
    return result


def _even_split(count: int, feeds: tuple[str, ...]) -> dict[str, int]:
    split = dict.fromkeys(feeds, 0)
    for i in range(count):
        split[feeds[i % len(feeds)]] += 1
    return split
