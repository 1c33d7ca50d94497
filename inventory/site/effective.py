"""The effective site: what the file says, completed by reference designs, the catalogue and sizes that are worked out.

Order: site file, `based_on` reference designs, catalogue, computed. Every leaf has an origin: which of these it comes from, and
the source that stands behind it. Nothing that the file says is changed; `key: null` drops what a design gives there.

Sizes (rows, panels, leaves, ratings of transformers) start here at their least; `capacity.sizes` raises those that the
plan's findings ask for. Pure: nested values in, nested values out.
"""

import datetime
import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from inventory.catalog import Catalog, DeviceType
from inventory.site import messages
from inventory.site.accepted import AcceptedValue
from inventory.site.references import (
    NAMED_LISTS,
    Contradiction,
    Joined,
    Ladder,
    ReferenceError,
    Span,
    at,
    entry_name,
    joined,
    leaves,
    merged,
    reference,
    reference_names,
    without,
)
from inventory.site.rules import device_of_kind, unknown_slug
from inventory.site.yaml_source import Path, Problem

Kind = Literal["given", "reference", "catalogue", "computed", "default"]
Values = Mapping[str, Any]

INFINIBAND_GBPS = {"edr": 100, "hdr": 200, "ndr": 400, "xdr": 800}
"""Data rate of a port of four lanes by generation (IBTA roadmap)."""


@dataclass(frozen=True)
class Origin:
    """Where a value comes from: the kind, and the document or entry behind it. `design` is the slug of a reference design."""

    kind: Kind
    source: str = ""
    design: str = ""


@dataclass(frozen=True)
class Size:
    """A size that is worked out where the site file does not state it: its least value, and in words how it follows."""

    start: Callable[[Values], Any]
    how: str


def _fixed(value: Any) -> Callable[[Values], Any]:
    return lambda values: value


def _day_of_prices(values: Values) -> datetime.date:
    """The day that the lead times are as of: nothing is ordered before."""
    days = [entry.get("as_of") for entry in (values.get("leadtimes") or {}).values() if isinstance(entry, Mapping)]
    return max((day for day in days if isinstance(day, datetime.date)), default=datetime.date(2026, 1, 1))


SIZES: Mapping[str, Size] = {
    "room.rows": Size(_fixed(1), "as few rows as hold all racks"),
    "room.rpps_per_row": Size(_fixed(0), "as few places as the row's panels need"),
    "inband.leaves": Size(_fixed(2), "as few leaves as have the ports, two for redundancy"),
    "inband.spines": Size(_fixed(2), "as few spines as carry the storage's traffic, two for redundancy"),
    "oob.switches": Size(_fixed(1), "as few switches as have the ports"),
    "power.pue": Size(_fixed(1.0), "the PUE that the planned components add up to on the design day"),
    "electrical.utility.firm_mva": Size(_fixed(0.01), "what the facility draws, with the margin for growth"),
    "schedule.need_date": Size(
        _day_of_prices, "the earliest date for which no order is late, with every duration at its longest"
    ),
}
"""Sizes by key. Everything else that has a size (racks, blocks of UPS, transformers, coolers, pumps, switches of the compute
fabric) is a count that the planner works out in any case."""


@dataclass
class Effective:
    """Nested values of the whole site, with the origin of each leaf."""

    value: dict[str, Any]
    origins: dict[Path, Origin] = field(default_factory=dict)
    open: tuple[str, ...] = ()
    """Keys of sizes that nobody states."""
    ladders: Mapping[str, Ladder] = field(default_factory=dict)
    """Ladders of keys of which the file states no rung."""
    spans: Mapping[str, Span] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    superseded: Mapping[Path, tuple[Any, Any]] = field(default_factory=dict)
    """Accepted values that designs, catalogue or planner would change today: accepted and today's. The accepted one counts."""
    restated: Mapping[Path, tuple[Any, Any]] = field(default_factory=dict)
    """Accepted values that the site file has changed since: accepted and today's. The file's counts."""
    unsized: "Unsized | None" = field(default=None, repr=False, compare=False)

    def origin(self, path: Path) -> Origin | None:
        """Origin of the value at a path, or of the leaf that it stands in."""
        for n in range(len(path), 0, -1):
            if (found := self.origins.get(path[:n])) is not None:
                return found
        return None

    def sized(self) -> frozenset[Path]:
        """Paths of the sizes that are worked out because the file does not state them."""
        rungs = {path for ladder in self.ladders.values() for path in ladder.paths()}
        return frozenset(tuple(key.split(".")) for key in self.open) | rungs


@dataclass(frozen=True)
class Unsized:
    """The effective site before its sizes: what it is made of, and what designs and catalogue give."""

    given: Values
    catalog: Catalog
    made: Effective
    base: Joined


def complete(
    given: Values,
    catalog: Catalog,
    computed: Values | None = None,
    accepted: Mapping[Path, AcceptedValue] | None = None,
    unsized: Unsized | None = None,
) -> Effective:
    """The effective site of what a file says. `computed` are sizes by key, as far as they have been worked out; `accepted`
    values go before what designs, catalogue and planner say. `unsized` of an earlier call is used again where it was made of
    the same objects `given` and `catalog`.
    """
    made = _completed(given, catalog, computed, unsized)
    if accepted and not made.problems:
        _frozen(made, accepted, computed or {})
    return made


GROW = ("room.rows", "inband.leaves", "inband.spines", "oob.switches", "power.pue")
"""Accepted sizes that grow with the site: more of the same stands beside what stands. Others are judged as if the file said so."""


def _frozen(made: Effective, accepted: Mapping[Path, AcceptedValue], computed: Values) -> None:
    """Put the accepted values in the place of those that nobody stated."""
    superseded, restated = {}, {}
    for path, one in accepted.items():
        now = at(made.value, path)
        origin = made.origins.get(path)
        if origin is None or "given" in (origin.kind, one.kind):
            if now != one.value:
                restated[path] = (one.value, now)
            continue
        key = messages.dotted(path)
        if key in GROW and key in made.open:
            if now is None or one.value > now:
                made.value = _put(made.value, path, one.value)
            continue
        if now != one.value and key not in made.open and path not in made.sized():
            superseded[path] = (one.value, now)
        if now != one.value:
            made.value = _put(made.value, path, one.value)
        made.origins[path] = Origin(cast(Kind, one.kind), one.source, one.design)
    kept = {messages.dotted(path) for path in accepted} - set(GROW)
    made.open = tuple(key for key in made.open if key not in kept)
    made.ladders = {
        key: ladder for key, ladder in made.ladders.items() if kept.isdisjoint(map(messages.dotted, ladder.paths()))
    }
    made.superseded, made.restated = superseded, restated


def _completed(given: Values, catalog: Catalog, computed: Values | None, unsized: Unsized | None) -> Effective:
    if unsized is None or unsized.given is not given or unsized.catalog is not catalog:
        unsized = _unsized(given, catalog)
    before = unsized.made
    made = replace(before, origins=dict(before.origins), problems=list(before.problems), unsized=unsized)
    _sizes(made, computed or {}, unsized.base)
    return made


def _unsized(given: Values, catalog: Catalog) -> Unsized:
    problems: list[Problem] = []
    base = _base(given, problems)
    dropped = _dropped(given, base)
    value = merged(_without_all(base.value, dropped), _without_all(given, dropped))
    stated = {path for path, _ in leaves(given)}
    origins = {path: Origin("given", _own_source(given, path)) for path in stated - dropped} | {
        path: Origin("reference", reference(slug).source_of(path), slug)
        for path, slug in base.origins.items()
        if not any(path[:n] in stated for n in range(1, len(path) + 1))
    }
    made = Effective(value, origins, problems=problems, spans=base.spans())
    _sources_of_changed(given, base, made)
    _contradictions(base, made)
    _facts(made, catalog)
    _unknown_hardware(made, catalog)
    if base.order:
        _fits(made, catalog)
    return Unsized(given, catalog, made, base)


def _dropped(given: Values, base: Joined) -> set[Path]:
    """Keys with which the file drops what a design gives: `null` where a mapping or a value of the design would stand."""
    found = {path for path, value in leaves(given) if value is None and at(base.value, path) is not None}
    return {path for path in found if at(without(base.value, path), path) is None}


def _without_all(values: Values, paths: set[Path]) -> dict[str, Any]:
    return functools.reduce(without, paths, dict(values))


def _base(given: Values, problems: list[Problem]) -> Joined:
    slugs = given.get("based_on", ())
    known = reference_names()
    if "based_on" not in given:
        problems += _misspelt(given)
    if not isinstance(slugs, tuple):
        near = messages.nearest(str(slugs), known)
        do = f"write [{near}]" if near else "write the names in brackets: [dgx-superpod-h100]"
        problems.append(
            Problem(("based_on",), "not a list", messages.shown(slugs), "a list of reference designs", do, nearest=near)
        )
        slugs = ()
    good: list[str] = []
    for n, slug in enumerate(slugs):
        if isinstance(slug, str) and slug in known:
            good.append(slug)
            continue
        near = messages.nearest(str(slug), known)
        do = f"write {near}" if near else "choose one of these"
        found = str(slug)[:60]
        problems.append(
            Problem(
                ("based_on", n), "an unknown reference design", found, f"one of {', '.join(known)}", do, nearest=near
            )
        )
    try:
        return joined(good)
    except ReferenceError as error:
        text = str(error)
        problems.append(Problem(("based_on",), "a reference design that cannot be read", text, "", "correct its file"))
        return Joined()


def _misspelt(given: Values) -> Iterator[Problem]:
    """A key that is meant to be `based_on`."""
    for key in given:
        if messages.nearest(key, ["based_on"]):
            do = "rename the key to based_on"
            yield Problem((key,), messages.UNKNOWN_KEY, key, "based_on, a list of reference designs", do, "based_on")


def no_design(given: Values, missing: Sequence[str]) -> Problem:
    """The problem of a file that names no reference design and lacks many sections: the designs of its GPU or server, or all."""
    stated = [(path, at(given, path)) for path in (("gpu", "sku"), ("server", "model"), ("server", "system"))]
    fitting = [
        slug
        for slug in offers().values()
        if any(name is not None and at(joined([slug]).value, path) == name for path, name in stated)
    ]
    slugs = fitting or list(offers().values())
    return Problem(
        ("based_on",),
        "no reference design",
        f"no section {', '.join(missing)}",
        "these sections, or a design that gives them",
        f"add based_on: [{slugs[0]}]" + (f"; or one of {', '.join(slugs[1:])}" if len(slugs) > 1 else ""),
    )


SITE_FILE = "site file"


def _own_source(given: Values, path: Path) -> str:
    """Where a value of the file comes from: the file, and what the `source` of its section says, which goes with the file's own
    values and not with those that a design gives beside them.
    """
    if path[-1] == "source":
        return SITE_FILE
    for n in range(len(path), 0, -1):
        section = at(given, path[:n])
        said = section.get("source") if isinstance(section, Mapping) else None
        if isinstance(said, str):
            return f"{SITE_FILE}: {said}"
    return SITE_FILE


def _sources_of_changed(given: Values, base: Joined, made: Effective) -> None:
    """A `source` says where its neighbours come from: where the file changes one of them, it says so."""
    changed: dict[Path, list[str]] = {}
    for path, _ in leaves(given):
        changed.setdefault(path[:-1], []).append(str(path[-1]))
    for parent, keys in changed.items():
        old = at(base.value, (*parent, "source"))
        if isinstance(old, str) and "source" not in keys and base.origins.get((*parent, "source")):
            text = f"site file for {', '.join(keys)}; the rest: {old}"
            made.value = _put(made.value, (*parent, "source"), text)


def _contradictions(base: Joined, made: Effective) -> None:
    """Pairs of designs that say different things of keys of which the file says nothing: one problem a pair.

    Designs are named as the file lists them, since only those can be left out, not those that they are made of.
    """
    pairs: dict[tuple[str, str], list[Contradiction]] = {}
    for one in base.contradictions:
        origin = made.origins.get(one.path)
        if origin is not None and origin.kind == "reference":
            pairs.setdefault((base.listed(one.first), base.listed(one.second)), []).append(one)
    for (first, second), found in pairs.items():
        keys = [messages.dotted(one.path) for one in found]
        rest = f"; and {len(found) - SHOWN_CONTRADICTIONS} more keys" if len(found) > SHOWN_CONTRADICTIONS else ""
        shown = (
            f"{key} {messages.shown(one.values[0])} and {messages.shown(one.values[1])}"
            for key, one in zip(keys[:SHOWN_CONTRADICTIONS], found, strict=False)
        )
        made.problems.append(
            Problem(
                ("based_on",),
                f"two reference designs that contradict each other, {first} and {second}",
                "; ".join(shown) + rest,
                "one value of each key",
                f"leave one of the two out, or write in the site file what is meant: {', '.join(keys[:MOST_NAMED])}"
                + (f" and {len(keys) - MOST_NAMED} more" if len(keys) > MOST_NAMED else ""),
            )
        )


def _fits(made: Effective, catalog: Catalog) -> None:
    """Servers of one way of cooling on a plant of another."""
    kind = at(made.value, ("cooling", "kind"))
    device = catalog.devices.get(str(at(made.value, ("server", "model"))))
    origin = made.origins.get(("cooling", "kind"))
    if device is None or kind not in ("air", "liquid") or origin is None or origin.kind != "reference":
        return
    needs = "liquid" if device.bringup.air_fraction < WET_FROM else "air"
    if kind == needs:
        return
    others = [slug for slug in reference_names() if at(reference(slug).values, ("cooling", "kind")) == needs]
    made.problems.append(
        Problem(
            ("based_on",),
            "a reference design that does not fit the servers",
            f"{origin.design}, a plant of kind {kind}",
            f"a plant of kind {needs}: {device.slug} gives {device.bringup.air_fraction * 100:g} % of its heat to the air",
            f"write {others[0]} in place of {origin.design}"
            if others
            else f"describe a plant of kind {needs} in cooling",
            nearest=others[0] if others else "",
        )
    )


MOST_NAMED = 10
"""Keys of a contradiction that are named: with more of them, the designs are not meant to go together."""
SHOWN_CONTRADICTIONS = 3
"""Keys of a contradiction that are shown with their values."""
WET_FROM = 0.5
"""A server that gives less of its heat to the air is made for a coolant loop."""


def _facts(made: Effective, catalog: Catalog) -> None:
    """Facts of hardware, from the catalogue, and what follows from them, where neither file nor designs state them."""
    for facts in (_gpu, _system, _server, _supplies, _nic, _fabric, _racks, _trip):
        for path, value, source in facts(made.value, catalog):
            if value is None or not _absent(made.value, path):
                continue
            made.value = _put(made.value, path, value)
            kind: Kind = "catalogue" if source.startswith("catalogue") else "computed"
            made.origins[path] = Origin(kind, source)


def _unknown_hardware(made: Effective, catalog: Catalog) -> None:
    """Hardware that the catalogue does not have, where it should give facts that nobody states: these are not missing."""
    sku = str(at(made.value, ("gpu", "sku")))
    if sku not in catalog.gpus and sku not in catalog.broken and _asked_for(made, ("gpu", "sku"), ("gpu", "tdp_w")):
        known = list(catalog.gpus)
        made.problems.append(unknown_slug(("gpu", "sku"), sku, known, "GPU", "inventory/catalog/data/gpus"))
    for path, fact, kind in (
        (("server", "model"), ("server", "power", "nameplate_w"), "server"),
        (("fabric", "switch_model"), ("fabric", "radix"), "switch"),
    ):
        if _asked_for(made, path, fact) and str(at(made.value, path)) not in catalog.broken:
            made.problems += device_of_kind(catalog, path, str(at(made.value, path)), kind)


def _asked_for(made: Effective, path: Path, fact: Path) -> bool:
    """Whether hardware is named at a path, and a fact of it stated nowhere."""
    return isinstance(at(made.value, path), str) and _absent(made.value, fact)


def _absent(values: Any, path: Path) -> bool:
    """Whether a path is not there, and could be: all above it are mappings or not there either."""
    for step in path:
        if not isinstance(values, Mapping):
            return False
        if step not in values:
            return True
        values = values[step]
    return False


Facts = Iterator[tuple[Path, Any, str]]


def _gpu(values: Values, catalog: Catalog) -> Facts:
    entry = catalog.gpus.get(str(at(values, ("gpu", "sku"))))
    if entry is not None:
        yield ("gpu", "form_factor"), entry.form_factor, f"catalogue {entry.slug}"
        yield ("gpu", "tdp_w"), float(entry.tdp_w), _source(entry.slug, entry.sources, "tdp_w")


def _system(values: Values, catalog: Catalog) -> Facts:
    system = catalog.systems.get(str(at(values, ("server", "system"))))
    if system is None:
        return
    source = _source(system.slug, system.sources, "parts")
    tray = system.part("compute")
    if tray is not None:
        yield ("server", "model"), tray.model, source
    yield ("rack", "model"), system.rack, source
    yield ("rack", "servers"), system.count("compute"), source


def _server(values: Values, catalog: Catalog) -> Facts:
    device = _device(values, catalog, "server", "model")
    if device is None:
        return
    for key in ("seed_w", "measured_w", "nameplate_w"):
        watts = getattr(device.bringup.power, key)
        yield ("server", "power", key), float(watts), _source(device.slug, device.sources, f"bringup.power.{key}")


def _supplies(values: Values, catalog: Catalog) -> Facts:
    """Supplies of a server, or the shelves of its system, shared among the feeds as evenly as they can be."""
    feeds = at(values, ("power", "feeds"))
    volts = at(values, ("power", "voltage_v"))
    device = _device(values, catalog, "server", "model")
    system = catalog.systems.get(str(at(values, ("server", "system"))))
    if device is None or not isinstance(feeds, tuple) or not feeds or not isinstance(volts, int | float):
        return
    if system is not None:
        shelf = system.part("shelf")
        entry = catalog.devices.get(shelf.model) if shelf else None
        if shelf is None or entry is None or entry.bringup.psu is None:
            return
        psu, key, count = entry.bringup.psu, "shelves", len(shelf.u)
        rating_w = psu.count * psu.rating_w
        served = [part for part in system.parts if part.role != "shelf" and part.model in catalog.devices]
        load_w = sum(catalog.devices[part.model].bringup.power.nameplate_w * len(part.u) for part in served)
        needed = min(math.ceil(load_w / rating_w), count)
        redundancy, input_v = f"{needed}+{count - needed}", float(volts)
        source = _source(entry.slug, entry.sources, "bringup.psu")
        why = f"{load_w / 1000:.0f} kW of the trays at nameplate on shelves of {rating_w / 1000:g} kW"
    elif device.bringup.psu is not None and at(values, ("server", "shelves")) is None:
        psu, key, count = device.bringup.psu, "psu", device.bringup.psu.count
        rating_w, redundancy = psu.rating_w, psu.redundancy
        to_neutral = round(volts / math.sqrt(3))
        input_v = float(to_neutral if psu.input_v_min <= to_neutral <= psu.input_v_max else volts)
        source = _source(device.slug, device.sources, "bringup.psu")
        why = source
    else:
        return
    share = ("server", key)
    yield (*share, "count"), count, source
    yield (*share, "rating_w"), float(rating_w), source
    yield (*share, "redundancy"), redundancy, why
    yield (*share, "input_v"), input_v, f"power.voltage_v of {volts:g} V, as the supply takes it"
    count = at(values, (*share, "count")) or count
    if isinstance(count, int) and all(isinstance(feed, str) for feed in feeds):
        split = {feed: count // len(feeds) + (n < count % len(feeds)) for n, feed in enumerate(feeds)}
        yield (
            (*share, "split_by_feed"),
            split,
            f"{count} supplies over the feeds {', '.join(feeds)}, as even as they go",
        )


def _nic(values: Values, catalog: Catalog) -> Facts:
    device = _device(values, catalog, "server", "model")
    if device is None or not device.bringup.fabric_ports:
        return
    source = _source(device.slug, device.sources, "interfaces")
    slot = device.bringup.nic_slot
    board = device.bringup.board
    stated = at(values, ("server", "nic")) is not None
    yield ("server", "nic", "ports"), len(device.bringup.fabric_ports), source
    rate = port_gbps(device, device.bringup.fabric_ports[0])
    switch = _device(values, catalog, "fabric", "switch_model")
    if rate and switch is not None and switch.kind == "switch" and switch.bringup.rate_gbps < rate:
        yield (
            ("server", "nic", "rate_gbps"),
            int(switch.bringup.rate_gbps),
            f"catalogue {switch.slug}: slower than the NIC",
        )
    yield ("server", "nic", "rate_gbps"), rate, source
    yield ("server", "nic", "pcie_gen"), slot.pcie_gen if slot else board.pcie_gen if board else None, source
    if not stated and slot is not None and slot.x16 != 1:
        yield ("server", "nic", "x16_per_port"), slot.x16, source


def port_gbps(device: DeviceType, port: str) -> int | None:
    """Rate of a port by its interface type, Gb/s; None where the type does not say it."""
    kind = next((one.type for one in device.interfaces if port in one.names()), "")
    if kind.startswith("infiniband-"):
        return INFINIBAND_GBPS.get(kind.removeprefix("infiniband-"))
    found = re.match(r"(\d+)gbase-", kind)
    return int(found[1]) if found else None


def _fabric(values: Values, catalog: Catalog) -> Facts:
    switch = _device(values, catalog, "fabric", "switch_model")
    if switch is not None and switch.kind == "switch":
        source = _source(switch.slug, switch.sources, "bringup.data_ports")
        yield ("fabric", "radix"), switch.bringup.data_ports, source
    ports = at(values, ("server", "nic", "ports"))
    if isinstance(ports, int):
        yield ("fabric", "rails"), ports, "one rail per NIC port of a server (ERR-11)"


def _racks(values: Values, catalog: Catalog) -> Facts:
    for path in (("rack",), ("rack", "network"), ("rack", "storage")):
        entry = catalog.racks.get(str(at(values, (*path, "model"))))
        if entry is None:
            continue
        yield (*path, "height_u"), entry.u_height, _source(entry.slug, entry.sources, "u_height")
        yield (*path, "mass_limit_kg"), float(entry.max_weight), _source(entry.slug, entry.sources, "max_weight")


TRIP_C = 35.0
"""Servers of which no limit is known: most are made for class A2, 10 to 35 C (ASHRAE TC 9.9, thermal guidelines, 5th edition)."""
TRIP_ABOVE_K = 5.0


def _trip(values: Values, catalog: Catalog) -> Facts:
    """The air at which servers throttle or stop: the most that their entry permits at the inlet. Supply air that is warmer is
    a finding of its own (COOLING-INLET), and says nothing of the minutes to a trip: these count 5 K from it.
    """
    path = ("cooling", "ride_through", "trip_c")
    device = _device(values, catalog, "server", "model")
    if device is None or not isinstance(at(values, path[:-1]), Mapping):
        return
    span = device.bringup.inlet_c
    most_c = float(span.max) if span is not None else TRIP_C
    source = (
        _source(device.slug, device.sources, "bringup.inlet_c")
        if span is not None
        else "planning figure: class A2, as the catalogue has no inlet limit of the servers"
    )
    own = at(values, ("cooling", "air", "supply_c"))
    supply_c = (
        own if own is not None or at(values, ("cooling", "kind")) != "air" else at(values, ("cooling", "supply_c"))
    )
    if isinstance(supply_c, int | float) and supply_c >= most_c:
        most_c, source = (
            supply_c + TRIP_ABOVE_K,
            f"{TRIP_ABOVE_K:g} K above the supply air, which is at {most_c:g} C ({source}) or above",
        )
    yield path, most_c, source


def _device(values: Values, catalog: Catalog, *path: str) -> DeviceType | None:
    return catalog.devices.get(str(at(values, path)))


def _source(slug: str, sources: Mapping[str, str], key: str) -> str:
    """The source of a figure of a catalogue entry: of the longest key that its own begins with."""
    keys = [key[:n] for n in range(len(key), 0, -1) if n == len(key) or key[n] == "."]
    found = next((sources[one] for one in keys if one in sources), "")
    return f"catalogue {slug}: {found}" if found else f"catalogue {slug}"


def _sizes(made: Effective, computed: Values, base: Joined) -> None:
    """Sizes that nobody states, at their least or as far as they have been worked out."""
    open_: list[str] = []
    for key, size in SIZES.items():
        path = tuple(key.split("."))
        if not isinstance(at(made.value, path[:-1]), Mapping) or not _absent(made.value, path):
            continue
        open_.append(key)
        made.value = _put(made.value, path, computed[key] if key in computed else size.start(made.value))
        made.origins[path] = Origin("computed", size.how)
    ladders = {}
    for key, ladder in base.ladders().items():
        stated = {path for path in ladder.paths() if _given(made, path)}
        if ladder.yields_to and (stated or any(_given(made, tuple(one.split("."))) for one in ladder.yields_to)):
            for unstated in set(ladder.paths()) - stated:
                made.value = _without_section(made.value, unstated)
                made.origins.pop(unstated, None)
            continue
        if stated:
            continue
        ladders[key] = ladder
        for rung_path in ladder.paths():
            dotted = messages.dotted(rung_path)
            made.origins[rung_path] = Origin("computed", f"the smallest that carries its load: {ladder.source}")
            if dotted in computed:
                made.value = _put(made.value, rung_path, computed[dotted])
    made.open, made.ladders = tuple(open_), ladders


def _given(made: Effective, path: Path) -> bool:
    """Whether the file states the value at a path, or drops it."""
    origin = made.origins.get(path)
    return at(made.value, path) is None if origin is None else origin.kind == "given"


def _without_section(value: Any, path: Path) -> Any:
    """Nested values without one of them, and without its section where that held nothing else."""
    rest = without(value, path)
    return rest if at(rest, path[:-1]) else without(rest, path[:-1])


def _put(value: Any, path: Path, new: Any) -> Any:
    """A copy of nested values with one of them set; entries of lists that are joined by names are found by these."""
    return _put_at(value, path, new, ())


def _put_at(value: Any, path: Path, new: Any, above: Path) -> Any:
    if not path:
        return new
    if isinstance(value, tuple) and above in NAMED_LISTS:
        return tuple(
            _put_at(entry, path[1:], new, (*above, path[0])) if entry_name(above, entry) == path[0] else entry
            for entry in value
        )
    inner = dict(value) if isinstance(value, Mapping) else {}
    inner[str(path[0])] = _put_at(inner.get(str(path[0])), path[1:], new, (*above, path[0]))
    return inner


@functools.cache
def offers() -> Mapping[tuple[str, str, str], str]:
    """Reference designs that `bringup new` can begin with: GPU, fabric and cooling -> slug."""
    found = {}
    for slug in reference_names():
        offer = reference(slug).offers
        if offer is not None:
            found[offer.gpu, offer.fabric, offer.cooling] = slug
    return found
