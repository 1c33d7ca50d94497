"""What stands in the building already: whether it carries the cluster, and the smallest change after which it does.

In: the site's counts of UPS blocks, transformers and generators (`installed`), and what a supply is planned from. Out: for
each kind of element that is over its limit the ways out, each found by planning the supply again with that change; the
counts with what has to be added; what of the planned elements is bought.

A way out mends the elements of its own kind. The smallest change is the one that takes or adds the least share of what is
there: blocks of the blocks, servers of the servers, watts of a server's nameplate.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.power import distribution, failures
from capacity.power.budget import Power
from capacity.power.tree import Tree
from inventory.schema import Electrical, Installed
from inventory.site import Site

Floats = npt.NDArray[np.float64]
Plan = Callable[[Site, Electrical, Power, pd.DataFrame], failures.Network]
"""Plans the supply of a site with another section `electrical`, other loads and their circuits."""

KINDS = {"ups_blocks": "ups", "transformers": "transformer", "generators": "generator"}
"""Key of the site's electrical: the elements that it counts."""
NOUNS = {"ups_blocks": "UPS block", "transformers": "transformer", "generators": "generator"}
CAP_STEP_W = 10.0
"""Step of the power cap that is looked for."""


@dataclass(frozen=True)
class Way:
    """The ways out for one kind of element: `text`, the smallest change first; what has to be `more` of `key` on each feed
    (empty where no number of them mends it); `numbers` for the finding.
    """

    key: str
    text: str
    more: Mapping[str, int]
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Case:
    """What is planned, and how to plan it with something changed."""

    site: Site
    electrical: Electrical
    power: Power
    circuits: pd.DataFrame
    plan: Plan


def part(electrical: Electrical, key: str) -> Installed | None:
    """The section of a kind of equipment that may stand there; None for generators that the site does not have."""
    found: Installed | None = getattr(electrical, key)
    return found


def counted(electrical: Electrical, feeds: tuple[str, ...], key: str) -> dict[str, int]:
    """Feed -> how many stand there; only feeds of which the site says so."""
    given = part(electrical, key)
    counts = {feed: given.standing(feed) for feed in feeds} if given is not None else {}
    return {feed: count for feed, count in counts.items() if count is not None}


def with_counts(electrical: Electrical, key: str, counts: Mapping[str, int], **others: Any) -> Electrical:
    """The section with these counts by feed instead of what it says, and other values of that key."""
    given = part(electrical, key)
    assert given is not None
    changed = given.model_copy(update={"installed": None, "installed_by_feed": dict(counts), **others})
    return electrical.model_copy(update={key: changed})


def key_of(electrical: Electrical, feeds: tuple[str, ...], kind: str) -> str:
    """The count that an overload of this kind of element hangs on; '' where the site counts nothing that it hangs on.

    A transformer that the load counts is one to a UPS block: with too few blocks, each of them is too large for it.
    """
    keys = {"ups": ("ups_blocks",), "generators": ("generators",)}.get(kind, ("transformers", "ups_blocks"))
    if kind not in ("ups", "generators", "transformer", "switchboard"):
        return ""
    return next((key for key in keys if counted(electrical, feeds, key)), "")


def ways(case: Case, elements: pd.DataFrame) -> dict[str, Way]:
    """The ways out by kind of element, for kinds of which the site counts what stands there and some are over."""
    found = {}
    over = elements[(elements["worst_kw"] > elements["limit_kw"] + 1e-6) & (elements["limit_kw"] > 0)]
    for kind, alike in over.groupby("kind", sort=False):
        key = key_of(case.electrical, case.site.power.feeds, str(kind))
        if key:
            found[str(kind)] = _way(case, key, str(kind), alike)
    return found


def mended(case: Case, found: Mapping[str, Way]) -> Electrical:
    """The section with all that has to be added."""
    electrical, feeds = case.electrical, case.site.power.feeds
    for way in found.values():
        standing = counted(case.electrical, feeds, way.key)
        have = counted(electrical, feeds, way.key)
        counts = {feed: max(have[feed], standing[feed] + way.more.get(feed, 0)) for feed in standing}
        electrical = with_counts(electrical, way.key, counts)
    return electrical


def sources(tree: Tree) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.object_]]:
    """Names of the normal source and of the others ('; ' between) of each element; of a plant's bus all are others."""
    names = np.array([*tree.elements["name"], ""], dtype=object)
    kinds = tree.elements["kind"].to_numpy(dtype=object)
    plant = kinds == "generators"
    upstream = np.where(plant, "", names[tree.sources[:, 0]])
    others = [
        "; ".join(str(names[i]) for i in row[0 if bus else 1 :] if i >= 0)
        for row, bus in zip(tree.sources, plant, strict=True)
    ]
    return upstream, np.array(others, dtype=object)


def bought(electrical: Electrical, tree: Tree) -> pd.DataFrame:
    """The elements of `tree` that do not stand there: name, kind, feed, rating, unit, voltage_v, upstream, alternates; with
    `kept`, how many of its kind the site has, and `switched`, whether its transfer switch stands there.
    """
    upstream, others = sources(tree)
    frame = tree.elements[["name", "kind", "feed", "rating", "unit", "voltage_v"]].assign(
        upstream=upstream, alternates=others
    )
    number = frame.groupby(["kind", "feed"]).cumcount()
    stands = np.zeros(len(frame), dtype=bool)
    for key, kind in KINDS.items():
        counts = frame["feed"].map(counted(electrical, tuple(frame["feed"].unique()), key)).fillna(0)
        stands |= ((frame["kind"] == kind) & (number < counts)).to_numpy()
    standing = set(frame.loc[stands, "name"])
    stands |= ((frame["kind"] == "switchboard") & frame["upstream"].isin(standing)).to_numpy()
    plants = frame[frame["kind"] == "generators"].set_index("name")["alternates"]
    ready = {bus for bus, sets in plants.items() if not standing.isdisjoint(str(sets).split("; "))}
    switched = stands & frame["alternates"].map(lambda text: not ready.isdisjoint(text.split("; "))).to_numpy()
    kept = frame["kind"].map(frame[stands].groupby("kind").size()).fillna(0).astype(np.int64)
    return frame.assign(stands=stands, switched=switched, kept=kept)


def least(over: Callable[[int], float], most: int, guess: int, start: float) -> int:
    """Smallest number from 1 to `most` with which nothing is over, 0 for none. `over` is by how much it is, 0 for nothing, and
    `start` is that of none; more helps more. Between what is known it is looked for in a straight line.
    """
    bad, left, good, step = 0, start, most + 1, 1
    at = guess
    while good - bad > 1 and bad < most:
        at = min(max(at, bad + 1), min(good - 1, most))
        now = over(at)
        if now <= 0:
            good, at = at, at - max((at - bad) // 4, 1)
            continue
        slope = (left - now) / (at - bad)
        bad, left = at, now
        at, step = at + max(math.ceil(now / slope) if slope > 0 else 0, step), step * 2
        if good <= most:
            at = min(at, (bad + good + 1) // 2)
    return good if good <= most else 0


def _over(net: failures.Network, kind: str) -> dict[str, float]:
    """Feed -> largest load over its limit, less 1, of the feeds where elements of this kind are over."""
    elements, worst = net.tree.elements, failures.worst_kw(net)
    limit = elements["limit_kw"].to_numpy(dtype=np.float64)
    over = (elements["kind"] == kind).to_numpy() & (worst > limit + 1e-6) & (limit > 0)
    share = pd.Series(worst[over] / limit[over] - 1)
    return {str(f): float(v) for f, v in share.groupby(elements["feed"].to_numpy()[over]).max().items()}


def _most(over: Mapping[str, float]) -> float:
    return max(over.values(), default=0.0)


def _way(case: Case, key: str, kind: str, over: pd.DataFrame) -> Way:
    """All changes that mend elements of `kind`, the smallest first."""
    share = float((over["worst_kw"] / over["limit_kw"]).max())
    standing = counted(case.electrical, case.site.power.feeds, key)
    found: list[tuple[float, str]] = []
    numbers: dict[str, float] = {"installed": sum(standing.values())}
    more = _more(case, key, kind, over)
    if more:
        added = sum(more.values())
        found.append((added / sum(standing.values()), _counted_text(key, standing, more)))
        numbers["more"] = added
    if key == "ups_blocks" and kind == "ups" and (modules := _modules(case, share)):
        have = case.electrical.ups_blocks.modules_per_block
        found.append(((modules - have) / have, f"electrical.ups_blocks.modules_per_block {modules} instead of {have}"))
        numbers["modules_per_block"] = modules
    if (over["load_kw"] <= over["limit_kw"] + 1e-6).all() and (cap := _cap(case, kind, share)):
        at_most = _drawn_w(case.site)
        found.append(((at_most - cap) / at_most, f"server.power.cap_w {cap:g}, in force before a feed is lost"))
        numbers["cap_w"] = cap
    if fewer := _fewer(case, kind, share):
        loads, racks = fewer
        servers = int(loads["servers"].sum())
        found.append(
            (servers / case.site.server.count,
             f"{servers:,} GPU servers fewer ({loads['kw'].sum():,.0f} kW" + (f", {racks} racks" if racks else "") + ")")
        )  # fmt: skip
        numbers["servers_fewer"] = servers
    if not found:
        return Way(key, "no number of them mends it: a larger rating does", {}, numbers)
    texts = [text for _, text in sorted(found, key=lambda one: one[0])]
    return Way(key, "The smallest change that mends it: " + "; or ".join(texts), more, numbers)


def _counted_text(key: str, standing: Mapping[str, int], more: Mapping[str, int]) -> str:
    parts = []
    for added in sorted(set(more.values()), reverse=True):
        feeds = [feed for feed in more if more[feed] == added]
        noun = NOUNS[key] + ("s" if added > 1 else "")
        now = " and ".join(sorted({str(standing[feed] + added) for feed in feeds}))
        where = f"feed {feeds[0]}" if len(feeds) == 1 else f"each of the feeds {', '.join(feeds)}"
        parts.append(f"{added} {noun} more on {where} ({now} there)")
    return " and ".join(parts)


def _more(case: Case, key: str, kind: str, over: pd.DataFrame) -> dict[str, int]:
    """Feed -> how many more of what `key` counts carry the load; {} where no number does."""
    standing = counted(case.electrical, case.site.power.feeds, key)
    short = over.groupby("feed", sort=False)
    shares = {
        str(feed): float((part["worst_kw"] / part["limit_kw"]).max()) for feed, part in short if str(feed) in standing
    }
    if len(shares) < over["feed"].nunique():
        return {}
    free = {feed: count for feed, count in standing.items() if feed not in shares}
    planned = case.plan(case.site, with_counts(case.electrical, key, free), case.power, case.circuits).tree.elements
    needs = planned[planned["kind"] == KINDS[key]].groupby("feed").size()
    most = max(int(needs.get(feed, 0)) - standing[feed] for feed in shares)
    if most < 1:
        return {}
    known: dict[int, dict[str, float]] = {}

    def left(added: int) -> dict[str, float]:
        if added not in known:
            counts = {feed: count + added * (feed in shares) for feed, count in standing.items()}
            net = case.plan(case.site, with_counts(case.electrical, key, counts), case.power, case.circuits)
            known[added] = _over(net, kind)
        return known[added]

    def of_feed(feed: str) -> Callable[[int], float]:
        return lambda added: left(added).get(feed, 0.0)

    made = {
        feed: least(of_feed(feed), most, math.ceil(standing[feed] * (share - 1) - 1e-9), share - 1)
        for feed, share in shares.items()
    }
    if not all(made.values()):
        return {}
    if len(set(made.values())) > 1:
        counts = {feed: count + made.get(feed, 0) for feed, count in standing.items()}
        net = case.plan(case.site, with_counts(case.electrical, key, counts), case.power, case.circuits)
        if _over(net, kind):
            return dict.fromkeys(made, max(made.values()))
    return made


def _modules(case: Case, share: float) -> int:
    """Modules of each block that carry the load; 0 for none that a block may have."""
    blocks, doubled = case.electrical.ups_blocks, 2 if case.site.ups.redundancy == "2n" else 1
    have = blocks.modules_per_block

    def over(added: int) -> float:
        changed = blocks.model_copy(update={"modules_per_block": have + added * doubled})
        electrical = case.electrical.model_copy(update={"ups_blocks": changed})
        return _most(_over(case.plan(case.site, electrical, case.power, case.circuits), "ups"))

    added = least(over, (MODULES - have) // doubled, math.ceil(have * (share - 1) / doubled - 1e-9), share - 1)
    return have + added * doubled if added else 0


MODULES = 20
"""Most modules that the site file takes for a block."""


def _drawn_w(site: Site) -> float:
    power = site.server.power
    return min(power.nameplate_w, power.cap_w) if power.cap_w is not None else power.nameplate_w


def _cap(case: Case, kind: str, share: float) -> float:
    """Largest power cap of a server, no lower than its measured draw, that carries the load after a failure; 0 for none."""
    site, power = case.site, case.power
    at_most, least_w = _drawn_w(site), site.server.power.measured_w
    most = int((at_most - least_w) // CAP_STEP_W)
    profile = f"{site.power.profile}_w"
    each = float(getattr(site.server.power, profile))
    groups = _server_loads(case)

    def over(steps: int) -> float:
        cap = at_most - steps * CAP_STEP_W
        capped = site.model_copy(
            update={"server": site.server.model_copy(
                update={"power": site.server.power.model_copy(update={"cap_w": cap})})}
        )  # fmt: skip
        saved = np.zeros(len(power.fed))
        saved[groups.index] = groups["servers"] * max(each - cap, 0.0)
        lost = np.minimum(power.fed["lost_w"], power.fed[profile] - saved)
        changed = replace(power, fed=power.fed.assign(lost_w=lost))
        circuits = loaded(capped, changed, case.circuits)
        return _most(_over(case.plan(capped, case.electrical, changed, circuits), kind))

    steps = least(over, most, math.ceil(at_most * (1 - 1 / share) / CAP_STEP_W), share - 1)
    return at_most - CAP_STEP_W * steps if steps else 0.0


def _server_loads(case: Case) -> pd.DataFrame:
    """Loads that hold GPU servers, by row of `fed`: servers, kW at the site's profile."""
    fed, site = case.power.fed, case.site
    mine = fed[fed["role"].isin(["gpu", distribution.BUSBAR])]
    busbars = int((mine["role"] == distribution.BUSBAR).sum())
    each = site.server.count // busbars if busbars else 1
    return pd.DataFrame({"servers": each, "kw": mine[f"{site.power.profile}_w"] / 1000}, index=mine.index)


def _fewer(case: Case, kind: str, share: float) -> tuple[pd.DataFrame, int] | None:
    """The last loads with GPU servers without which the others are carried, and how many racks that leaves without any."""
    loads = _server_loads(case)

    def over(count: int) -> float:
        power = without(case, loads.index[-count:])
        circuits = loaded(case.site, power, case.circuits)
        return _most(_over(case.plan(case.site, case.electrical, power, circuits), kind))

    count = least(over, len(loads), math.ceil(len(loads) * (1 - 1 / share)), share - 1)
    if not count:
        return None
    gone, cord = loads.iloc[-count:], case.power.cord.frame
    racks = cord.groupby("device_index")["rack"].first()
    kept = set(racks.reindex(loads.index[:-count]))
    return gone, len(set(racks.reindex(gone.index)) - kept)


def without(case: Case, rows: pd.Index) -> Power:
    """The power plan with these loads gone, and the rack PDUs or shelves that fed nothing else."""
    power, index = case.power, case.power.cord.frame["device_index"].to_numpy(dtype=np.int64)
    fed = power.fed.copy()
    fed.loc[rows, [*distribution.PROFILES, "lost_w"]] = 0.0
    gone = np.zeros(len(fed), dtype=bool)
    gone[rows] = True
    ends = power.cord.frame["pdu_index"].to_numpy(dtype=np.int64)
    size = len(power.end_w)
    empty = (np.bincount(ends, minlength=size) > 0) & (np.bincount(ends[~gone[index]], minlength=size) == 0)
    return replace(power, fed=fed, end_w=np.where(empty, 0.0, power.end_w))


def loaded(site: Site, power: Power, circuits: pd.DataFrame) -> pd.DataFrame:
    """The circuits with their load, normal and with any feed lost, for the loads of `power`."""
    index = power.cord.frame["device_index"].to_numpy(dtype=np.int64)
    normal_w, lost_w = (
        power.fed[name].to_numpy(dtype=np.float64)[index] for name in (f"{site.power.profile}_w", "lost_w")
    )
    normal, lost = distribution.circuit_loads_kw(power.cord, normal_w, lost_w, power.end_w)
    own = pd.Index(site.power.feeds).get_indexer(pd.Index(circuits["feed"]))
    lost[np.arange(len(circuits)), own] = 0.0
    return circuits.assign(load_kw=normal.round(6), worst_kw=np.maximum(lost.max(axis=1), normal).round(6))
