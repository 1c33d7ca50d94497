"""Supply that the building already has: whether it carries the cluster, and the smallest change after which it does.

In: the site's counts of UPS blocks, transformers and generators (`installed`), and what a supply is planned from. Out: for
each kind of element that is over its limit the ways out, each found by planning the supply again with that change; the
counts with what has to be added; what of the planned elements is bought.

A way out corrects the elements of its own kind. The smallest change is the one that takes or adds the least share of what is
there: blocks of the blocks, servers of the servers, watts of a server's nameplate.
"""

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.power.rack import distribution
from capacity.power.rack.budget import Power
from capacity.power.upstream import single_failures
from capacity.power.upstream.network import Network
from capacity.power.upstream.tree import Tree
from capacity.space.devices import BUSBAR
from inventory.findings import RemedyOf, remedy
from inventory.site import Site
from inventory.site.sections.electrical import MOST_INSTALLED, MOST_MODULES, Electrical, Installed

Floats = npt.NDArray[np.float64]
Plan = Callable[[Site, Electrical, Power, pd.DataFrame], Network]
"""Plans the supply of a site with another section `electrical`, other loads and their circuits."""

Whole = Callable[[Site], Network]
"""Plans a changed site anew as far as its supply: fabric, racks, cooling and all."""

RELEVANT = frozenset({"ups", "transformer", "switchboard", "generators"})
"""Kinds whose load hangs on how many stand there."""
KINDS = {"ups_blocks": "ups", "transformers": "transformer", "generators": "generator"}
"""Key of the site's electrical: the elements that it counts."""
NOUNS = {"ups_blocks": "UPS block", "transformers": "transformer", "generators": "generator"}
TOGETHER = 40
"""Rounds in which kinds are added to that fall short because another was: each adds one to a feed."""
MOST_SERVERS_PLANNED = 2048
"""Servers up to which fewer of them are planned anew with all that hangs on them: bounds the time of a plan with findings. Above
it the number named is that of the racks as they are, which is on the safe side of a smaller fabric."""
CAP_STEP_W = 10.0
"""Step of the power cap that is looked for."""


@dataclass(frozen=True)
class Way:
    """The ways out for one kind of element: `remedies`, the smallest change first; what has to be `more` of `key` on each
    feed (empty where no number of them helps); `numbers` for the finding.
    """

    key: str
    remedies: tuple[RemedyOf, ...]
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
    whole: Whole | None = None


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
    if kind not in RELEVANT:
        return ""
    return next((key for key in keys if counted(electrical, feeds, key)), "")


def ways(case: Case, elements: pd.DataFrame) -> dict[str, Way]:
    """Remedies by kind of element, for kinds whose existing elements the site counts and some of which are overloaded."""
    found: dict[str, Way] = {}
    over = elements[(elements["worst_kw"] > elements["limit_kw"] + 1e-6) & (elements["limit_kw"] > 0)]
    for kind, alike in over.groupby("kind", sort=False):
        key = key_of(case.electrical, case.site.power.feeds, str(kind))
        if key:
            sound = RELEVANT - set(over["kind"])
            found[str(kind)] = _way(case, key, str(kind), sound | {str(kind)}, alike)
    return found


def enlarged(case: Case, found: Mapping[str, Way]) -> tuple[Electrical, dict[str, Way]]:
    """The section with all that has to be added so that everything carries its load together, and the ways, with what is
    more of one kind because of another.
    """
    feeds, electrical = case.site.power.feeds, case.electrical
    counts = {key: counted(electrical, feeds, key) for key in KINDS if counted(electrical, feeds, key)}
    for way in found.values():
        for feed, added in way.more.items():
            have = counted(electrical, feeds, way.key)[feed]
            counts[way.key][feed] = max(counts[way.key][feed], have + added)
    lacking = any(way.more for way in found.values())
    if not lacking:
        return electrical, dict(found)
    free = electrical
    for key in counts:
        free = with_counts(free, key, {})
    as_needed = case.plan(case.site, free, case.power, case.circuits).tree.elements
    enough = as_needed[as_needed["kind"] == "ups"].groupby("feed").size()
    for _ in range(TOGETHER):
        for key, given in counts.items():
            electrical = with_counts(electrical, key, given)
        net, lacking = case.plan(case.site, electrical, case.power, case.circuits), False
        worst = single_failures.worst(net)[0]
        for kind in ("generators", "switchboard", "transformer", "ups"):
            key = key_of(electrical, feeds, kind)
            if not key or lacking or (kind in found and not found[kind].more):
                continue
            for feed, by in _over(net, {kind}, worst).items():
                if by <= 0 or feed not in counts[key]:
                    continue
                of = key
                if kind == "ups" and counts[key][feed] >= enough[feed] and feed in counts.get("transformers", {}):
                    of = "transformers"  # there are blocks enough, and some stand idle for want of one
                counts[of][feed], lacking = min(counts[of][feed] + 1, MOST_INSTALLED), True
        if not lacking:
            break
    ways = {
        kind: _together(way, counted(case.electrical, feeds, way.key), counts[way.key]) for kind, way in found.items()
    }
    return electrical, ways


def _together(way: Way, standing: Mapping[str, int], counts: Mapping[str, int]) -> Way:
    """`way` with what is more of its key where other kinds are added to as well."""
    more = {feed: counts[feed] - standing[feed] for feed in standing if counts[feed] > standing[feed]}
    if not way.more or more == way.more:
        return way
    together = _installed(way.key, standing, more, "more-installed-together")
    numbers = {**way.numbers, f"{way.key}_more": sum(more.values())}
    return replace(way, remedies=(*way.remedies, together), numbers=numbers)


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


@dataclass(frozen=True)
class Standing:
    """What of the planned elements stands there: their names, how many of each kind, and the boards among them whose transfer
    switch stands there, since the generators do.
    """

    names: frozenset[str] = frozenset()
    kinds: Mapping[str, int] = field(default_factory=dict)
    switched: frozenset[str] = frozenset()


NONE = Standing()


def planned(tree: Tree) -> pd.DataFrame:
    """The elements of `tree` with the names of their sources, as far as the bill of materials reads them."""
    upstream, others = sources(tree)
    columns = ["name", "kind", "feed", "rating", "unit", "voltage_v"]
    return tree.elements[columns].assign(upstream=upstream, alternates=others)


def standing(electrical: Electrical, elements: pd.DataFrame) -> Standing:
    """What of `elements` (as `planned`) stands there; a transformer stands there with its board."""
    number = elements.groupby(["kind", "feed"]).cumcount()
    feeds = tuple(elements["feed"].unique())
    stands = np.zeros(len(elements), dtype=bool)
    for key, kind in KINDS.items():
        counts = elements["feed"].map(counted(electrical, feeds, key)).fillna(0)
        stands |= ((elements["kind"] == kind) & (number < counts)).to_numpy()
    names = set(elements.loc[stands, "name"])
    boards = elements[(elements["kind"] == "switchboard") & elements["upstream"].isin(names)]
    plants = elements[elements["kind"] == "generators"]
    ready = {
        bus
        for bus, sets in zip(plants["name"], plants["alternates"], strict=True)
        if not names.isdisjoint(sets.split("; "))
    }
    switched = [not ready.isdisjoint(text.split("; ")) for text in boards["alternates"]]
    kinds = {str(kind): int(count) for kind, count in elements[stands].groupby("kind").size().items()}
    return Standing(
        frozenset(names | set(boards["name"])),
        kinds | ({"switchboard": len(boards)} if len(boards) else {}),
        frozenset(boards.loc[switched, "name"]),
    )


def least(over: Callable[[int], float], most: int, guess: int, start: float) -> int:
    """Smallest number from 1 to `most` with which nothing is over, 0 for none. `over` is by what share it is, negative where
    there is room, and `start` is that of none; more helps more. It is looked for in a straight line between what is known.
    """
    (bad, left), (good, right) = (0, start), (most + 1, 0.0)
    at, step, side = guess, 1, 0
    while good - bad > 1 and bad < most:
        at = min(max(at, bad + 1), min(good - 1, most))
        now = over(at)
        if now <= 0:
            side = min(side, 0) - 1
            good, right = at, now
        else:
            side = max(side, 0) + 1
            slope = (left - now) / (at - bad)
            bad, left = at, now
        if good > most:
            at, step = at + max(math.ceil(now / slope) if slope > 0 else 0, step), step * 2
        elif abs(side) > 2:
            at = (bad + good) // 2
        else:
            at = bad + math.ceil((good - bad) * left / max(left - right, 1e-12)) + (-1 if side > 0 else 0)
    return good if good <= most else 0


def _over(net: Network, kinds: Set[str], worst: Floats | None = None) -> dict[str, float]:
    """Feed -> by what share of its limit the fullest element of these kinds is over it, negative where it has room."""
    elements, worst = net.tree.elements, single_failures.worst(net)[0] if worst is None else worst
    limit = elements["limit_kw"].to_numpy(dtype=np.float64)
    mine = elements["kind"].isin(kinds).to_numpy() & (limit > 0)
    share = pd.Series((worst[mine] - 1e-6) / limit[mine] - 1)
    return {str(f): float(v) for f, v in share.groupby(elements["feed"].to_numpy()[mine]).max().items()}


def _most(over: Mapping[str, float]) -> float:
    return max(over.values(), default=-1.0)


def _way(case: Case, key: str, kind: str, kinds: Set[str], over: pd.DataFrame) -> Way:
    """All changes that correct elements of `kind`, the smallest first; they leave none of `kinds` over."""
    share = float((over["worst_kw"] / over["limit_kw"]).max())
    standing = counted(case.electrical, case.site.power.feeds, key)
    found: list[tuple[float, RemedyOf]] = []
    numbers: dict[str, float] = {"installed": sum(standing.values())}
    more = _more(case, key, kinds, over)
    if more:
        added = sum(more.values())
        found.append((added / sum(standing.values()), _installed(key, standing, more)))
        numbers[f"{key}_more"] = added
    if key == "ups_blocks" and kind == "ups" and (modules := _modules(case, kinds, share)):
        have = case.electrical.ups_blocks.frame_modules
        found.append(((modules - have) / have, remedy({"electrical.ups_blocks.modules_per_block": modules})))
        numbers["modules_per_block"] = modules
    if (over["load_kw"] <= over["limit_kw"] + 1e-6).all() and (cap := _cap(case, kinds, share)):
        at_most = _drawn_w(case.site)
        found.append(((at_most - cap) / at_most, remedy({"server.power.cap_w": cap}, fix="cap")))
        numbers["cap_w"] = cap
    if fewer := _fewer(case, kinds, share):
        loads, racks = fewer
        servers = int(loads["servers"].sum())
        left = case.site.server.count - servers
        figures: dict[str, Any] = {"fewer": servers, "freed_kw": loads["kw"].sum(), "racks": racks}
        fewer_servers = remedy(
            {"server.count": left} if left else {}, fix="fewer-servers" if left else "no-servers", **figures
        )
        found.append((servers / case.site.server.count, fewer_servers))
        numbers["servers_fewer"] = servers
    remedies = [one for _, one in sorted(found, key=lambda one: one[0])]
    if not remedies:
        return Way(key, (remedy(fix="larger-rating"), remedy(fix="less-load")), {}, numbers)
    return Way(key, tuple(remedies), more, numbers)


def _installed(key: str, standing: Mapping[str, int], more: Mapping[str, int], fix: str = "more-installed") -> RemedyOf:
    """The existing elements and `more` of them, as counts by feed."""
    counts = {feed: count + more.get(feed, 0) for feed, count in standing.items()}
    return remedy({f"electrical.{key}.installed_by_feed": counts}, fix=fix, added=sum(more.values()))


def _more(case: Case, key: str, kinds: Set[str], over: pd.DataFrame) -> dict[str, int]:
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
            known[added] = _over(net, kinds)
        return known[added]

    def of_feed(feed: str) -> Callable[[int], float]:
        return lambda added: left(added).get(feed, -1.0)

    made = {
        feed: least(of_feed(feed), most, math.ceil(standing[feed] * (share - 1) - 1e-9), share - 1)
        for feed, share in shares.items()
    }
    if not all(made.values()):
        return {}
    if len(set(made.values())) > 1:
        counts = {feed: count + made.get(feed, 0) for feed, count in standing.items()}
        net = case.plan(case.site, with_counts(case.electrical, key, counts), case.power, case.circuits)
        if _most(_over(net, kinds)) > 0:
            return dict.fromkeys(made, max(made.values()))
    return made


def _modules(case: Case, kinds: Set[str], share: float) -> int:
    """Modules of each block that carry the load; 0 for none that a block may have."""
    blocks, doubled = case.electrical.ups_blocks, 2 if case.site.ups.redundancy == "2n" else 1
    have = blocks.frame_modules

    def over(added: int) -> float:
        changed = blocks.model_copy(update={"modules_per_block": have + added * doubled})
        electrical = case.electrical.model_copy(update={"ups_blocks": changed})
        return _most(_over(case.plan(case.site, electrical, case.power, case.circuits), kinds))

    added = least(over, (MOST_MODULES - have) // doubled, math.ceil(have * (share - 1) / doubled - 1e-9), share - 1)
    return have + added * doubled if added else 0


def _drawn_w(site: Site) -> float:
    power = site.server.power
    return min(power.nameplate_w, power.cap_w) if power.cap_w is not None else power.nameplate_w


def _cap(case: Case, kinds: Set[str], share: float) -> float:
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
            update={
                "server": site.server.model_copy(update={"power": site.server.power.model_copy(update={"cap_w": cap})})
            }
        )
        saved = np.zeros(len(power.fed))
        saved[groups.index] = groups["servers"] * max(each - cap, 0.0)
        lost = np.minimum(power.fed["lost_w"], power.fed[profile] - saved)
        changed = replace(power, fed=power.fed.assign(lost_w=lost))
        circuits = loaded(capped, changed, case.circuits)
        return _most(_over(case.plan(capped, case.electrical, changed, circuits), kinds))

    steps = least(over, most, math.ceil(at_most * (1 - 1 / share) / CAP_STEP_W), share - 1)
    return at_most - CAP_STEP_W * steps if steps else 0.0


def _server_loads(case: Case) -> pd.DataFrame:
    """Loads that hold GPU servers, by row of `fed`: servers, kW at the site's profile."""
    fed, site = case.power.fed, case.site
    mine = fed[fed["role"].isin(["gpu", BUSBAR])]
    busbars = int((mine["role"] == BUSBAR).sum())
    each = site.server.count // busbars if busbars else 1
    return pd.DataFrame({"servers": each, "kw": mine[f"{site.power.profile}_w"] / 1000}, index=mine.index)


def _fewer(case: Case, kinds: Set[str], share: float) -> tuple[pd.DataFrame, int] | None:
    """The last loads with GPU servers without which the others are carried, and how many racks that leaves without any.

    Racks, switches and storage stay as they are in the first guess; from there the site is planned anew with fewer servers,
    where `whole` can: its fabric and cooling draw less, and its panels are filled anew.
    """
    loads, site = _server_loads(case), case.site

    def over(count: int) -> float:
        power = without(case, loads.index[-count:])
        circuits = loaded(case.site, power, case.circuits)
        return _most(_over(case.plan(case.site, case.electrical, power, circuits), kinds))

    count = least(over, len(loads), math.ceil(len(loads) * (1 - 1 / share)), share - 1)
    whole = case.whole
    if whole is not None and site.server.count <= MOST_SERVERS_PLANNED:
        each = int(loads["servers"].iloc[0])

        def still_over(count: int) -> float:
            server = site.server.model_copy(update={"count": site.server.count - count * each})
            return _most(_over(whole(site.model_copy(update={"server": server})), kinds))

        count = least(still_over, len(loads) - 1, count or len(loads) - 1, share - 1) or count
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
