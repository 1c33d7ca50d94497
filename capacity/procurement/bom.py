"""Bill of materials: every item that the plan places or connects, with spares, owner, tranche, order date and price.

Each line names the commissioning step that buys it. What comes inside something else (the GPUs of a server) is a line of
its own, since spares and counts are asked for it, and says in `supplied_with` what it comes in.

Not counted here, because the plan does not place or route them: building works, pipes and cable trays, conductors above the
feeders of the panels, tools, software licences.
"""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.model.frames import counts
from capacity.power.operation import standby
from capacity.procurement import spares
from capacity.storage.sizing import Option
from inventory.catalog import Catalog, Plug, StorageBlock
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from inventory.site.sections.purchase import Purchase, Tranche
from network.optics import Fitted
from network.wiring.inband import placed_block

LENGTH_BINS_M = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 10000)
"""Lengths in which cables are counted, metres: a cable is bought in the next longer one."""

_STEPS = {
    "gpu": "S009",
    "controller": "S009",
    "storage": "S123",
    "rack_pdu": "S086",
    "power_shelf": "S020",
    "oob": "S040",
}
_RACK_NOTE = "all racks of the plan"
LEADS: Mapping[str, str] = {
    "gpu": "gpu",
    "cpu": "server",
    "dimm": "server",
    "drive": "server",
    "supply": "server",
    "nic port": "server",
    "cold plate": "server",
    "server": "server",
    "system": "server",
    "switch": "switch",
    "pdu": "pdu",
    "shelf": "pdu",
    "rack": "rack",
    "manifold": "cooling",
    "cdu": "cooling",
    "cable": "optics",
    "transceiver": "optics",
    "cord": "pdu",
    "breaker": "switchgear",
    "ups module": "ups",
    "blanking panel": "rack",
    "storage enclosure": "storage",
    "storage drive": "storage",
    "metadata server": "storage",
    "cooling unit": "cooling",
    "floor tile": "cooling",
    "containment": "cooling",
    "chiller": "cooling",
    "water pump": "cooling",
    "cooling tower": "cooling",
    "dry cooler": "cooling",
    "leak sensor": "cooling",
    "shut-off valve": "cooling",
    "medium voltage switchgear": "switchgear",
    "transformer": "transformer",
    "switchboard": "switchgear",
    "transfer switch": "switchgear",
    "generator": "generator",
    "pdu transformer": "switchgear",
    "panel": "switchgear",
    "conductor": "switchgear",
    "busway": "switchgear",
    "tap-off box": "switchgear",
    "ups battery": "ups",
    "coolant": "cooling",
    "room sensor": "cooling",
}
"""The item of leadtimes that an item of the bill waits for; `lead_of` applies it."""
SPARED = frozenset(
    {
        "gpu",
        "cpu",
        "dimm",
        "drive",
        "supply",
        "nic port",
        "server",
        "switch",
        "pdu",
        "shelf",
        "cable",
        "transceiver",
        "cord",
        "storage drive",
        "cdu",
    }
)
"""Items of which spares are kept; of the others a replacement is ordered when it is needed."""
DEFAULT_RESTOCK_WEEKS = 12.0
"""Time until a replacement arrives where neither the site nor a lead time says so: a rule of this suite, not a source."""
EVERYBODY = "*"
IN_TRAY = frozenset({"gpu", "cpu", "nic port", "drive", "dimm"})
"""What is replaced with the compute tray of a rack-scale system: the tray is the part that is exchanged in the field."""
_IN_TRAY_RULE = "replaced with its compute tray, which is the spare"


@dataclass(frozen=True)
class Line:
    """One line before prices and spares."""

    item: str
    model: str
    quantity: int
    step: str
    note: str
    supplied_with: str = ""
    unit: str = "each"


def build(
    site: Site,
    catalog: Catalog,
    devices: pd.DataFrame,
    racks: pd.DataFrame,
    cables: pd.DataFrame,
    fitted: Fitted,
    cords: pd.DataFrame,
    circuits: pd.DataFrame,
    elements: pd.DataFrame,
    storage: Option | None = None,
    order_by: Mapping[tuple[str, str], str] | None = None,
    others: Sequence["Line"] = (),
) -> tuple[pd.DataFrame, list[Finding]]:
    """The `bom` frame and findings about prices.

    `cords` has columns inlet, connector and length_m, one row per connected supply; `circuits` as in the plan; `elements` are
    those of the supply that are bought, for its UPS blocks; `storage` is the chosen building block; `order_by` maps items of
    leadtimes and tranches to latest safe order dates ('' for all tranches); `others` are lines that other parts of the plan
    count.
    """
    lines = [
        *_servers(site, catalog, devices, storage),
        *_racks(site, devices, racks),
        *_cables(catalog, cables, fitted),
        *_power(site, devices, cords, circuits, elements),
        *_storage(catalog, storage),
        *others,
    ]
    lines.append(Line("label", "cable end", 2 * len(cables), "S046", "two per link, as in cable-labels.csv"))
    frame = _priced(site, [line for line in lines if line.quantity], order_by or {})
    return frame, [*check_prices(site.purchase, frame), *check_leads(site, frame)]


def _servers(site: Site, catalog: Catalog, devices: pd.DataFrame, storage: Option | None) -> list[Line]:
    model = catalog.device(site.server.model)
    parts = model.bringup
    inside, count = f"server {site.server.model}", site.server.count
    lines = [Line("gpu", site.gpu.sku, count * parts.gpus, "S001", f"{parts.gpus} per GPU server", inside)]
    lines.append(Line("cpu", site.server.model, count * parts.cpus, "S011", f"{parts.cpus} per GPU server", inside))
    if parts.memory and not parts.memory.soldered:
        each = parts.memory.dimms
        lines.append(
            Line("dimm", f"{parts.memory.dimm_gib:g} GiB", count * each, "S012", f"{each} per GPU server", inside)
        )
    for drives in parts.drives:
        note = f"{drives.count} per GPU server, {drives.use}, RAID {drives.raid}"
        lines.append(Line("drive", f"NVMe {drives.tb:g} TB", count * drives.count, "S018", note, inside))
    if parts.air_fraction < 1:
        chips = parts.gpus + parts.cpus
        note = f"{chips} per GPU server: GPUs and processors"
        lines.append(Line("cold plate", site.server.model, count * chips, "S110", note, inside))
    block = placed_block(site, catalog)
    bought = _bodies(block, storage) if block and storage else {}
    for (kind, role, fabric, slug), quantity in counts(devices, ["kind", "role", "fabric", "model"]):
        if role in ("storage", "metadata"):
            quantity -= bought.get(slug, 0)
        what = f"{fabric} {role}".strip()
        system = site.server.system
        part = system and slug in {p.model for p in catalog.system(system).parts}
        lines.append(Line(kind, slug, quantity, _STEPS.get(role, "S040"), what, f"system {system}" if part else ""))
        lines += _supplies(catalog, slug, quantity, what, f"{kind} {slug}")
    nic = site.server.nic
    lines.append(
        Line("nic port", f"{nic.rate_gbps}G", count * nic.ports, "S039", "fabric ports of GPU servers", inside)
    )
    return lines


def _supplies(catalog: Catalog, slug: str, quantity: int, what: str, inside: str) -> list[Line]:
    supplies = catalog.device(slug).bringup.psu
    if supplies is None:
        return []
    rating, note = f"{supplies.rating_w:g} W of {slug}", f"{supplies.count} per {what}"
    return [Line("supply", rating, quantity * supplies.count, "S020", note, inside)]


def _bodies(block: StorageBlock, storage: Option) -> dict[str, int]:
    """Device types of the storage that is bought, and how many of each."""
    return dict(zip(block.devices, (storage.enclosures, storage.metadata_servers), strict=False))


def _racks(site: Site, devices: pd.DataFrame, racks: pd.DataFrame) -> list[Line]:
    whole = f"system {site.server.system}"
    in_systems = int(devices["busbar"].max()) + 1 if site.server.system else 0
    lines = []
    for (model,), quantity in counts(racks, ["model"]):
        bought = in_systems if model == site.rack.model else 0
        if bought:
            lines.append(Line("rack", model, min(bought, quantity), "S009", "racks of rack-scale systems", whole))
        lines.append(Line("rack", model, quantity - min(bought, quantity), "S009", _RACK_NOTE))
    if site.server.system:
        lines.append(
            Line("system", site.server.system, in_systems, "S009", "racks bought whole, with what stands in them")
        )
    free_u = int((racks["height_u"] - racks["used_u"]).clip(lower=0).sum())
    lines.append(Line("blanking panel", "1U", free_u, "S106", "rack units without a device"))
    wet = int(((devices["role"] == "gpu") & (devices["air_fraction"] < 1)).sum())
    if site.cooling.coolant is not None and wet:
        manifolds = in_systems or math.ceil(wet / site.rack.servers)
        inside = whole if site.server.system else ""
        lines.append(Line("manifold", site.rack.model, manifolds, "S109", "one pair per liquid-cooled rack", inside))
    return lines


def ordered_m(length_m: pd.Series) -> npt.NDArray[np.float64]:
    """Metres of the cables that are bought for these routes, of LENGTH_BINS_M the next longer ones."""
    bins = np.array(LENGTH_BINS_M)
    return bins[np.minimum(np.searchsorted(bins, length_m.to_numpy(dtype=np.float64)), len(bins) - 1)]


def _cables(catalog: Catalog, cables: pd.DataFrame, fitted: Fitted) -> list[Line]:
    """Cables as they are bought, by model and length bin, and a transceiver for each cage with fibre."""
    parts, pieces = fitted.parts, fitted.pieces
    metres = ordered_m(pieces["length_m"])
    stages, names = pd.factorize(cables["stage"])
    bought = pd.DataFrame({"part": pieces["part"], "metres": metres, "stage": stages[pieces["cable"]]})
    found: dict[tuple[str, float], tuple[int, set[str]]] = {}
    sizes = bought.groupby(["part", "metres", "stage"]).size().reset_index(name="quantity")
    for part, length, stage, quantity in sizes.itertuples(index=False, name=None):
        key = parts[part].fibre or parts[part].part, length
        before, known = found.get(key, (0, set()))
        found[key] = (before + int(quantity), {*known, str(names[stage])})
    several = {given.part for given in parts if given.shape != "fibre" and any(plug.ports > 1 for plug in given.plugs)}
    fibres = {given.fibre for given in parts if given.fibre}
    lines = [
        Line(
            "cable",
            f"{model}, {length:g} m",
            quantity,
            "S045",
            ", ".join(sorted(used))
            + (f"; {catalog.fibre(model)}" if model in fibres else "")
            + ("; one carries the links of a cage" if model in several else ""),
        )
        for (model, length), (quantity, used) in sorted(found.items())
    ]
    optics: dict[str, tuple[Plug, int]] = {}
    for number, quantity in fitted.plugs.loc[fitted.plugs["fibre"], "plug"].value_counts().items():
        plug = fitted.known[number]
        optics[plug.name] = plug, int(quantity) + optics.get(plug.name, (plug, 0))[1]
    for name, (plug, quantity) in sorted(optics.items()):
        ports = f"one per cage of {plug.ports} ports" if plug.ports > 1 else "one per port"
        note = f"{ports}, {plug.power_w:g} W each" + (f"; as {plug.number}" if plug.number else "")
        lines.append(Line("transceiver", name, quantity, "S045", note))
    return lines


def _power(
    site: Site, devices: pd.DataFrame, cords: pd.DataFrame, circuits: pd.DataFrame, elements: pd.DataFrame
) -> list[Line]:
    plugged = cords[cords["connector"] != ""].groupby(["inlet", "connector", "length_m"]).size().reset_index(name="n")
    lines = [
        Line("cord", f"{connector} to {inlet}, {length:g} m", int(quantity), "S087", "one per power supply")
        for inlet, connector, length, quantity in plugged.itertuples(index=False, name=None)
    ]
    ratings = circuits.groupby([circuits["pdu"].str.startswith("shelf-"), "breaker_a", "phases"], sort=False).size()
    for quantity, (shelf, breaker_a, phases) in zip(
        ratings.sort_index(), ratings.sort_index().index.tolist(), strict=True
    ):
        rating = f"{breaker_a:g} A, {phases}-phase, {site.power.voltage_v:g} V"
        lines.append(
            Line("breaker", rating, int(quantity), "S085", f"one per {'power shelf' if shelf else 'rack PDU'}")
        )
    it_kw = float(devices[f"{site.power.profile}_w"].sum()) / 1000
    modules = standby.planned_modules(site, elements, it_kw)
    blocks = f"{int((elements['kind'] == 'ups').sum())} planned blocks" if len(elements) else "one block"
    if site.electrical is not None and (
        site.electrical.ups_blocks.installed or site.electrical.ups_blocks.installed_by_feed
    ):
        blocks += " beside those that stand there"
    note = f"{blocks}, IT load at {site.power.profile}, {site.ups.redundancy} each"
    lines.append(Line("ups module", f"{site.ups.module_kw:g} kW", modules, "S078", note))
    return lines


def _storage(catalog: Catalog, chosen: Option | None) -> list[Line]:
    if chosen is None or chosen.in_servers:
        return []
    inside = f"storage enclosure {chosen.block}"
    note = f"{chosen.bound} decides"
    lines = [
        Line("storage enclosure", chosen.block, chosen.enclosures, "S123", note),
        Line(
            "storage drive",
            f"{chosen.media} {chosen.drive_tb:g} TB",
            chosen.drives,
            "S123",
            "in the enclosures",
            inside,
        ),
    ]
    if chosen.metadata_servers:
        lines.append(Line("metadata server", chosen.block, chosen.metadata_servers, "S126", "metadata on flash"))
    bodies = _bodies(catalog.storage[chosen.block], chosen)
    for item, (slug, count) in zip(("storage enclosure", "metadata server"), bodies.items(), strict=False):
        lines += _supplies(catalog, slug, count, item, f"{item} {chosen.block}")
    return lines


def lead_of(item: str, supplied_with: str, leadtimes: Container[str]) -> str:
    """The item of leadtimes that an item of the bill waits for; '' where the site has no lead time for it.

    A power supply waits for what it comes in (`supplied_with`). GPUs stand in for servers without a lead time of their own.
    """
    waits_with = (
        next((whole for whole in LEADS if supplied_with.startswith(f"{whole} ")), "") if item == "supply" else item
    )
    lead = LEADS.get(waits_with, "")
    if lead == "server" and lead not in leadtimes:
        lead = "gpu"
    return lead if lead in leadtimes else ""


def spare_count(
    purchase: Purchase, item: str, quantity: int, lead_weeks: float | None, inside: Mapping[str, int] | None = None
) -> tuple[int, str]:
    """(spares, how they were counted) of a part: all lines of an item and model together.

    `inside`: items that are replaced with it when they fail, and how many there are of each. Only what is replaced takes a
    spare: FailureRate.replaced_pct of the failures.
    """
    if item not in SPARED:
        return 0, ""
    rule = purchase.spares
    known = rule.rates.get(item)
    parts = {name: n for name, n in (inside or {}).items() if name in rule.rates}
    if parts:
        weeks = rule.restock_weeks or lead_weeks or DEFAULT_RESTOCK_WEEKS
        rates = rule.rates
        counted = {**parts, **({item: quantity} if known else {})}
        mean = sum(spares.expected_failures(n, rates[name].replaced_afr_pct, weeks) for name, n in counted.items())
        words = ", ".join(f"{name} {rates[name].replaced_afr_pct:.3g} %" for name in counted)
        return (
            spares.poisson_spares(mean, rule.confidence_pct / 100),
            f"{words} a year replaced with it over {weeks:g} weeks at {rule.confidence_pct:g} %",
        )
    if known is None:
        return spares.share_spares(quantity, rule.share_pct), f"{rule.share_pct:g} % without a failure rate"
    weeks = rule.restock_weeks or lead_weeks or DEFAULT_RESTOCK_WEEKS
    mean = spares.expected_failures(quantity, known.replaced_afr_pct, weeks)
    count = spares.poisson_spares(mean, rule.confidence_pct / 100)
    rate = f"{known.afr_pct:g} % a year"
    if known.replaced_pct < 100:
        rate += f", {known.replaced_pct:g} % of it replaced ({known.replaced_source or 'share not confirmed'}),"
    return count, f"{rate} over {weeks:g} weeks at {rule.confidence_pct:g} %: {known.source}"


def ordered(bom: pd.DataFrame) -> pd.Series:
    """Pieces that are bought, per line of a bill: with the spares, and of what comes inside something else only those."""
    return bom["spares"] + bom["quantity"].where(bom["supplied_with"] == "", 0)


def cost(bom: pd.DataFrame) -> float:
    """Cost of all priced lines with spares, in the site's currency."""
    return round(float(bom["cost"].sum()), 2)


def unpriced(bom: pd.DataFrame) -> int:
    """Lines that would have to be paid and have no price."""
    return int(((ordered(bom) > 0) & (bom["price_source"] == "")).sum())


NO_QUOTE = ("planning figure", "not confirmed", "no quote", "not a quote", "estimate")
"""Words by which the source of a price says that it is an estimate."""


def is_estimate(source: str) -> bool:
    """Whether the source of a price says that nobody quoted it."""
    return any(word in source.lower() for word in NO_QUOTE)


def estimated(bom: pd.DataFrame) -> float:
    """That part of `cost` whose prices are estimates."""
    return round(float(bom.loc[bom["price_source"].map(is_estimate).astype(bool), "cost"].sum()), 2)


def money(value: float, currency: str) -> str:
    """'40.7 M USD', below a million '950 USD'."""
    return f"{value / 1e6:,.1f} M {currency}" if value >= 1e6 else f"{value:,.0f} {currency}"


def caveats(cost_of_lines: float, without_price: int, guessed: float, currency: str) -> str:
    """What a cost leaves out and how much of it is estimated: 'without 16 unpriced lines, all of it estimated'; '' for neither."""
    lines = "1 unpriced line" if without_price == 1 else f"{without_price} unpriced lines"
    of_it = "all" if guessed >= cost_of_lines - 0.005 else money(guessed, currency)
    return ", ".join(
        [*([f"without {lines}"] if without_price else []), *([f"{of_it} of it estimated"] if guessed >= 0.005 else [])]
    )


def total(cost_of_lines: float, without_price: int, currency: str, guessed: float = 0.0) -> str:
    """A cost in words that never counts a line without a price as 0, and says how much of it is `guessed`: '400.0 M USD without
    16 unpriced lines, 380.0 M USD of it estimated'.
    """
    if not cost_of_lines:
        return "no prices" if without_price else f"0 {currency}"
    said = caveats(cost_of_lines, without_price, guessed, currency)
    between = "" if not said else " " if without_price else ", "
    return f"{money(cost_of_lines, currency)}{between}{said}"


def total_of(bom: pd.DataFrame, currency: str) -> str:
    """`total` of a bill."""
    return total(cost(bom), unpriced(bom), currency, estimated(bom))


def _priced(site: Site, lines: Sequence[Line], order_by: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    purchase = site.purchase
    rows: list[tuple[object, ...]] = []
    rates: list[float] = []
    parts_of = [split(purchase, line.item, line.quantity) for line in lines]
    spared = _spares(site, lines, parts_of)
    for line, parts, (kept, why) in zip(lines, parts_of, spared, strict=True):
        lead = lead_of(line.item, line.supplied_with, site.leadtimes)
        owner = purchase.owners.get(line.item) or purchase.owners.get(EVERYBODY, "")
        price, currency, rate, source = unit_price(purchase, line.item, line.model)
        for (tranche, quantity), spare in zip(parts, kept, strict=True):
            day = order_by.get((lead, tranche), order_by.get((lead, ""), ""))
            rows.append(
                (
                    line.item,
                    line.model,
                    quantity,
                    line.unit,
                    line.step,
                    line.note,
                    spare,
                    why,
                    line.supplied_with,
                    owner,
                    tranche,
                    lead,
                    day,
                    price,
                    currency if source else "",
                    source,
                )
            )
            rates.append(rate)
    columns = [
        "item",
        "model",
        "quantity",
        "unit",
        "step",
        "note",
        "spares",
        "spares_rule",
        "supplied_with",
        "owner",
        "tranche",
        "lead_item",
        "order_by",
        "unit_price",
        "currency",
        "price_source",
    ]
    frame = pd.DataFrame(rows, columns=columns)
    frame.insert(len(columns) - 1, "cost", ordered(frame) * frame["unit_price"] * rates)
    return frame


def _spares(
    site: Site, lines: Sequence[Line], parts_of: Sequence[Sequence[tuple[str, int]]]
) -> list[tuple[list[int], str]]:
    """Per line, the spares of each of its tranches and how they were counted.

    A spare serves wherever its part stands, so the lines of a model share one pool; of several lead times the longest counts.
    """
    pools: dict[tuple[str, str], list[int]] = {}
    for number, line in enumerate(lines):
        pools.setdefault((line.item, line.model), []).append(number)
    found: list[tuple[list[int], str]] = [([], "")] * len(lines)
    for (item, _), members in pools.items():
        leads = (lead_of(item, lines[n].supplied_with, site.leadtimes) for n in members)
        weeks = max((site.leadtimes[lead].max_weeks for lead in leads if lead), default=None)
        quantity = sum(lines[n].quantity for n in members)
        if site.server.system and item in IN_TRAY:
            count, why = 0, _IN_TRAY_RULE
        else:
            tray = site.server.system and item == "server" and lines[members[0]].model == site.server.model
            inside = _inside_tray(lines) if tray else None
            count, why = spare_count(site.purchase, item, quantity, weeks, inside)
        shares = iter(_shares(count, [quantity for n in members for _, quantity in parts_of[n]]))
        for n in members:
            found[n] = [next(shares) for _ in parts_of[n]], why
    return found


def _inside_tray(lines: Sequence[Line]) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in lines:
        if line.item in IN_TRAY:
            found[line.item] = found.get(line.item, 0) + line.quantity
    return found


def unit_price(purchase: Purchase, item: str, model: str) -> tuple[float, str, float, str]:
    """(unit price, its currency, rate into purchase.currency, source); source '' where there is no price."""
    fitting = [p for p in purchase.prices if p.item == item and (p.model is None or model.startswith(p.model))]
    if not fitting:
        return 0.0, purchase.currency, 1.0, ""
    best = max(fitting, key=lambda p: len(p.model or ""))
    currency = best.currency or purchase.currency
    rate = 1.0 if currency == purchase.currency else purchase.exchange[currency].rate
    return best.unit_price, currency, rate, best.source


def tranches_of(purchase: Purchase, item: str) -> list[Tranche]:
    """The tranches in which an item of the bill comes: those that name it, else those without items."""
    return [t for t in purchase.tranches if item in t.items] or [t for t in purchase.tranches if not t.items]


def split(purchase: Purchase, item: str, quantity: int) -> list[tuple[str, int]]:
    """(tranche, quantity) of an item; one part where there are none."""
    naming = tranches_of(purchase, item)
    if not naming:
        return [("", quantity)]
    parts = _shares(quantity, [t.share_pct for t in naming])
    return [(t.name, n) for t, n in zip(naming, parts, strict=True) if n] or [(naming[0].name, 0)]


def _shares(quantity: int, weights: Sequence[float]) -> list[int]:
    """A quantity in parts like the weights, by largest remainder, so that the parts add up; all in the first without weights."""
    total = sum(weights)
    if not total:
        return [quantity, *(0 for _ in weights[1:])]
    exact = [quantity * weight / total for weight in weights]
    parts = [math.floor(x + 1e-9) for x in exact]
    by_rest = sorted(range(len(parts)), key=lambda i: (parts[i] - exact[i], i))
    for i in by_rest[: quantity - sum(parts)]:
        parts[i] += 1
    return parts


def check_leads(site: Site, frame: pd.DataFrame) -> list[Finding]:
    """BOM-NO-LEAD: what is bought by itself and has no order date, because its lead time is missing.

    Labels and the like, which no item of leadtimes stands for, are taken off the shelf.
    """
    bought = frame[(frame["order_by"] == "") & (frame["supplied_with"] == "") & (ordered(frame) > 0)]
    bought = bought.assign(lead=[LEADS.get(item, "") for item in bought["item"]])
    found = []
    for lead, lines in bought[bought["lead"] != ""].groupby("lead", sort=True):
        items = ", ".join(dict.fromkeys(lines["item"]))
        found.append(
            finding(
                "BOM-NO-LEAD",
                f"leadtimes.{lead}",
                err="ERR-25",
                remedies=[remedy(fix="lead-time")],
                words={"items": items},
                lines=len(lines),
            )
        )
    return found


def check_prices(purchase: Purchase, frame: pd.DataFrame) -> list[Finding]:
    """BOM-UNPRICED, for information: lines that cost nothing in the total because nobody priced them.

    Said only where there are prices at all.
    """
    if not purchase.prices:
        return []
    bought = frame[ordered(frame) > 0]
    open_ = bought[bought["price_source"] == ""]
    if open_.empty:
        return []
    items = ", ".join(dict.fromkeys(open_["item"]))
    return [
        finding(
            "BOM-UNPRICED",
            "purchase.prices",
            limit_source="site purchase.prices",
            words={"items": items},
            lines=len(open_),
            remedies=[remedy(fix="prices")],
            priced=int((bought["price_source"] != "").sum()),
        )
    ]
