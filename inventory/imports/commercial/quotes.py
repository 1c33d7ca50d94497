"""Vendor quotes and bills of materials, compared line by line with the plan's bill of materials.

    quote = read_quote(fields(table, "quote"))
    result = compare(quote, plan.bom, catalog, skus, servers=…, sockets=…, gpu=…)

A line is matched by the map's `skus`, by a catalogue name or part number, by the words of a GPU or a cord, or by the BOM's
own description; what is matched to nothing is reported with the nearest BOM line. Prices are summed per currency.
"""

import difflib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from inventory.catalog import Catalog, Memory
from inventory.findings import Finding, finding, remedy
from inventory.imports.core.result import Imported, some
from inventory.imports.core.source import number
from inventory.imports.core.tables import LINE, Fields, csv_text, plain, records
from inventory.imports.delivery.manifest import chips, form_factor, same_gpu, slug_of
from inventory.site.sections.schedule import LeadTime

FOLDER = "imports/quotes"
PRICE_TOLERANCE = 0.005
"""Share by which a line's total may differ from quantity x unit price: rounding of unit prices."""

_CORD = re.compile(r"\bC(13|14|19|20)\b", re.IGNORECASE)
_MACHINE = frozenset({"server", "system", "chassis", "node"})
_ACCESSORY = frozenset(
    {
        "for",
        "kit",
        "rail",
        "rails",
        "cable",
        "cord",
        "psu",
        "supply",
        "supplies",
        "fan",
        "fans",
        "memory",
        "dimm",
        "drive",
        "ssd",
        "transceiver",
    }
)
"""Words of lines that name a machine and are parts of it."""
_SERVICE = frozenset({"support", "service", "warranty", "licence", "license", "spare", "upgrade", "training"})
"""Words of lines that name a machine and are neither it nor a part of it."""
_AIRFLOW = re.compile(r"(m[a-z]{2}\d+ [a-z]{2}\d)([fr])([a-z]?)")
_LENGTH = re.compile(r"(?<![\w.])(\d+(?:[.,]\d+)?)\s?(m|meter|metre|meters|metres|ft|feet)\b", re.IGNORECASE)
_FEMALE = ("13", "19")
_DIMM = re.compile(
    r"\b(\d{2,3})\s?GB\b.*\b(?:DDR[45]|R?DIMM)\b|\b(?:DDR[45]|R?DIMM)\b.*\b(\d{2,3})\s?GB\b", re.IGNORECASE
)
_ATX = re.compile(r"\b(?:24[- ]?pin|ATX|EPS12V|8[- ]?pin (?:PCIe|CPU))\b", re.IGNORECASE)
_LUSTRE = re.compile(r"\b(?:OSS|MDS|OST|MDT)\b|\bobject storage server\b", re.IGNORECASE)
_GFCI = re.compile(r"\bGFCI\b|\bRCBO?\b.*\b30 ?mA\b", re.IGNORECASE)


@dataclass(frozen=True)
class Quote:
    """`rows`: the fields of a quote as sent, `quantity_n`, `unit_price_n`, `total_price_n` as numbers (NaN for none)."""

    rows: pd.DataFrame
    findings: tuple[Finding, ...]


def read_quote(given: Fields) -> Quote:
    """The lines of a quote that have a part or a description, and what is wrong with their numbers."""
    names = ["line", "part", "description", "quantity", "unit", "unit_price", "total_price", "currency", "lead_weeks"]
    frame = given.frame.reindex(columns=[*names, *given.unknown, LINE], fill_value="")
    stated = given.currencies.get("total_price") or given.currencies.get("unit_price", "")
    frame["currency"] = [
        row["currency"] or ("" if _currency(row) or not row["unit_price"] + row["total_price"] else stated)
        for row in records(frame)
    ]
    findings = list(given.findings)
    told = frame[(frame["part"] != "") | (frame["quantity"] != "")].reset_index(drop=True)
    if len(rest := frame[(frame["part"] == "") & (frame["quantity"] == "")]):
        findings.append(finding("IMPORT-QUOTE-TEXT", f"line {rest[LINE].iloc[0]}", lines=len(rest)))
    rows = pd.concat([told, rest], ignore_index=True)
    for name in ("quantity", "unit_price", "total_price", "lead_weeks"):
        rows[f"{name}_n"] = pd.to_numeric(pd.Series([number(cell) for cell in rows[name]], dtype="float64"))
    for row in records(told):
        quantity = number(row["quantity"])
        if quantity is None or quantity < 0 or quantity != int(quantity):
            findings.append(
                finding(
                    "IMPORT-QUANTITY",
                    f"line {row[LINE]}",
                    words={"quantity": row["quantity"], "part": row["part"] or row["description"]},
                )
            )
        findings += _price(row, quantity)
    currencies = sorted({_currency(row) for row in records(told)} - {""})
    if len(currencies) > 1:
        findings.append(finding("IMPORT-CURRENCY", "quote", words={"currencies": ", ".join(currencies)}))
    return Quote(rows, tuple(findings))


def compare(
    quote: Quote,
    bom: pd.DataFrame,
    catalog: Catalog,
    skus: Mapping[str, str],
    *,
    gpu: str,
    servers: int,
    sockets: int,
    memory: Memory | None = None,
    storage: str = "",
    leadtimes: Mapping[str, LeadTime] | None = None,
) -> Imported:
    """Per BOM line what is needed and what is quoted; per quote line what it is.

    `bom` has columns item, model, quantity, supplied_with and order (what is bought: with spares, without what comes inside
    something else); `gpu` is the site's GPU slug, `sockets` the processors of one server, `memory` how a server's memory is
    made up, `storage` the site's storage.kind, `leadtimes` those of the site, which the BOM's column lead_item names (needed
    to judge quoted lead times). A vendor may list what comes inside something else or leave it out: both
    agree. The result's rows have item, model, needed (to order), inside (comes inside something else), quoted, difference,
    amount, currency, verdict, lines.
    """
    findings = list(quote.findings)
    needed: dict[tuple[str, str], int] = defaultdict(int)
    inside: dict[tuple[str, str], int] = defaultdict(int)
    wholes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in records(bom):
        key = row["item"], row["model"]
        needed[key] += int(float(row["order"]))
        if row["supplied_with"]:
            inside[key] += int(float(row["quantity"]))
            wholes[key].add(row["supplied_with"])
    if any(_cord_without_length(f"{row['part']} {row['description']}", needed) for row in records(quote.rows)):
        needed, inside = _cords_together(needed), _cords_together(inside)
    waits = {row["item"]: row["lead_item"] for row in records(bom) if row.get("lead_item")} if leadtimes else {}
    spare_dimms = sum(count for (item, _), count in needed.items() if item == "dimm")
    quoted: dict[tuple[str, str], float] = defaultdict(float)
    amount: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    lines: dict[tuple[str, str], list[str]] = defaultdict(list)
    matches = []
    apart: dict[str, float] = defaultdict(float)
    for row in records(quote.rows):
        text = f"{row['part']} {row['description']}".strip()
        match = _match(row, needed, catalog, skus, gpu) if row["part"] or row["quantity"] else None
        matches.append(f"{match[0]}: {match[1]}" if match else "")
        findings += _judge(row, text, catalog, gpu, storage)
        findings += _dimms(row, text, servers, sockets, memory, spare_dimms)
        asked = number(row["total_price"]) or (number(row["unit_price"]) or 0) * (number(row["quantity"]) or 0)
        if match is None:
            if row["part"] or row["quantity"]:
                findings.append(_unmatched(row, needed))
                apart[_currency(row)] += asked
            continue
        quoted[match] += number(row["quantity"]) or 0
        amount[match][_currency(row)] += asked
        lines[match].append(row[LINE])
        if leadtimes and (lead := waits.get(match[0], "")) in leadtimes:
            findings += _lead(row, match, lead, leadtimes[lead])
    rows = []
    systems_quoted = {model for item, model in quoted if item == "system"}
    bought = {f"{item} {model}": item for (item, model), count in quoted.items() if count}
    for key in [*needed, *(key for key in quoted if key not in needed)]:
        item, model = key
        have = int(quoted.get(key, 0))
        least, most = needed.get(key, 0), needed.get(key, 0) + inside.get(key, 0)
        want = min((least, most), key=lambda count: abs(have - count))
        arrives = next((bought[whole] for whole in wholes[key] if whole in bought), "")
        if key in inside and not arrives and systems_quoted:
            arrives = "system"
        if not have and most and not (least == 0 and arrives):
            want = least or most
        if key not in needed:
            verdict = "wrong SKU" if any(other[0] == item and not quoted.get(other) for other in needed) else "extra"
        else:
            verdict = _verdict(key, least, most, have, arrives, systems_quoted, catalog)
        findings += _difference(key, want, have, verdict, lines[key], list(needed))
        sums = {currency: value for currency, value in amount[key].items() if value}
        rows.append(
            [
                item,
                model,
                least,
                most - least,
                have,
                have - want,
                " + ".join(f"{value:.2f}" for value in sums.values()),
                " + ".join(sums),
                verdict,
                " ".join(lines[key]),
            ]
        )
    columns = ["item", "model", "needed", "inside", "quoted", "difference", "amount", "currency", "verdict", "lines"]
    table = pd.DataFrame(rows, columns=columns)
    totals: dict[str, float] = defaultdict(float)
    for sums in amount.values():
        for currency, value in sums.items():
            totals[currency] += value
    for currency, value in apart.items():
        totals[currency] += value
    money = _money(totals) or "no prices"
    if _money(apart):
        money += f" (of these {_money(apart)} in lines that are matched to nothing)"
    counts = ", ".join(f"{n} {verdict}" for verdict, n in table["verdict"].value_counts().items())
    kept = quote.rows.drop(columns=[name for name in quote.rows.columns if str(name).endswith("_n")] + [LINE])
    files = {"lines.csv": csv_text(kept.assign(bom_line=matches)), "comparison.csv": csv_text(table)}
    return Imported(table, f"{len(quote.rows)} lines, {money}; BOM lines: {counts}", tuple(findings), files)


def _money(sums: Mapping[str, float]) -> str:
    return ", ".join(f"{value:,.2f} {currency}".strip() for currency, value in sums.items() if value)


def cord_of(text: str) -> tuple[str, str] | None:
    """(outlet end, inlet end) of a cord in NetBox's names, from the two C numbers of a description; None for no cord.

    The end that plugs onto the device has the odd number (C13, C19), the other one goes into the outlet (C14, C20); two
    odd or two even numbers are no cord that exists (ERR-16), and are returned in the order of the text.
    """
    found = _CORD.findall(text)
    if len(found) != 2:
        return None
    first, second = (f"iec-60320-c{n}" for n in found)
    return (first, second) if (found[0] in _FEMALE) == (found[1] in _FEMALE) or found[0] in _FEMALE else (second, first)


def _match(
    row: Mapping[str, str], needed: Mapping[tuple[str, str], int], catalog: Catalog, skus: Mapping[str, str], gpu: str
) -> tuple[str, str] | None:
    text = f"{row['part']} {row['description']}"
    by_model: dict[str, tuple[str, str]] = {}
    names = {plain(row["part"]), plain(row["description"])}
    said = names | {plain(row["line"])}
    for key in needed:
        if plain(key[1]) in names and plain(key[0]) in said:  # the BOM's own item and model, as in our workbook
            return key
    for key in needed:
        by_model.setdefault(plain(key[1]), key)
    for name in (row["part"], row["description"]):
        slug = skus.get(name) or (slug_of(name, catalog) if name else None)
        if slug is not None and slug in catalog.devices:
            kind = catalog.device(slug).kind
            return next((key for key in needed if key[1] == slug and key[0] == kind), (kind, slug))
        if slug is not None:
            return by_model.get(plain(slug), ("gpu" if slug in catalog.gpus else "item", slug))
        if name and plain(name) in by_model:
            return by_model[plain(name)]
    site_gpu = catalog.gpus.get(gpu)
    words = set(plain(text).split())
    if site_gpu is not None and not words & {*_MACHINE, "dgx", "hgx"}:
        for name in (row["part"], row["description"], text):
            if name and same_gpu(name, site_gpu, catalog, skus):
                return ("gpu", gpu)
    if cord := cord_of(text):
        model, metres = f"{cord[0]} to {cord[1]}", length_of(text)
        keys = [key for key in needed if key[0] == "cord" and key[1].partition(", ")[0] == model]
        if len(keys) == 1 and (metres is None or keys[0][1] == model):
            return keys[0]
        return ("cord", model if metres is None else f"{model}, {metres:g} m")
    for name in (row["part"], row["description"]):
        if name and (numbered := _by_number(name, needed, catalog)):
            return numbered
    return None if _other_airflow(row["part"], catalog) else _whole_machine(words, needed, catalog)


def length_of(text: str) -> float | None:
    """Metres that a description states: '2 m', '1.5m', '6 ft'."""
    found = _LENGTH.search(text)
    if not found:
        return None
    value = float(found[1].replace(",", "."))
    return value if found[2].lower().startswith("m") else round(value * 0.3048 * 2) / 2


def _cord_without_length(text: str, needed: Mapping[tuple[str, str], int]) -> bool:
    return cord_of(text) is not None and length_of(text) is None and any(item == "cord" for item, _ in needed)


def _cords_together(counted: Mapping[tuple[str, str], int]) -> defaultdict[tuple[str, str], int]:
    """Cords of all lengths as one line, for a quote that states no length."""
    made: defaultdict[tuple[str, str], int] = defaultdict(int)
    for (item, model), count in counted.items():
        made[item, model.partition(", ")[0] if item == "cord" else model] += count
    return made


def _by_number(name: str, needed: Mapping[tuple[str, str], int], catalog: Catalog) -> tuple[str, str] | None:
    """The transceiver or cable of the media tables that a maker's part number means: MMA4Z00-NS, MCP7Y00-N003.

    The last three signs of a cable's number are its length: 003 for 3 m, 01A for 1.5 m (NVIDIA LinkX; not confirmed).
    """
    parts = [part for table in catalog.media_tables.values() for part in table.parts]
    named = [(("transceiver", plug.name), plug.number) for p in parts if p.shape == "fibre" for plug in p.plugs]
    lengthy = [(p.part, plug.number) for p in parts if p.shape != "fibre" for plug in p.plugs]
    lengthy += [(model, fibre.number) for model, fibre in catalog.fibres.items()]
    wanted = plain(name)
    found = [key for key, number_ in named if number_ and plain(number_) == wanted]
    for model, number_ in lengthy:
        stem = number_.removesuffix("xxx")
        if stem != number_ and (size := re.fullmatch(rf"{re.escape(stem)}(\d\d)([\dA])", name.strip(), re.IGNORECASE)):
            metres = int(size[1]) + 0.5 if size[2].upper() == "A" else int(size[1] + size[2])
            found.append(("cable", f"{model}, {metres:g} m"))
    return next((key for key in found if key in needed), found[0] if found else None)


def _whole_machine(words: set[str], needed: Mapping[tuple[str, str], int], catalog: Catalog) -> tuple[str, str] | None:
    """The server, system or switch whose name a line has: "Chassis DGX H100", "DGX H100 640GB", "SN4600C 64x100G".

    A server needs a word for a whole machine beside its name, or a name that no part of it has (DGX). Descriptions of switches
    list supplies and rail kits that come with them, which is told from such a part by the word switch.
    """
    whole = "switch" in words and "for" not in words
    if words & (_SERVICE if whole else _ACCESSORY | _SERVICE):
        return None
    named = [
        key
        for key in needed
        if key[1] in catalog.devices
        and set(name := plain(catalog.device(key[1]).model).split()) <= words
        and (key[0] == "switch" or (key[0] in ("server", "system") and ("dgx" in name or words & _MACHINE)))
    ]
    return named[0] if len(named) == 1 else None


def _other_airflow(part: str, catalog: Catalog) -> bool:
    """Whether a part number is a switch's of the catalogue with the air the other way: MQM9700-NS2R for MQM9700-NS2F.

    The last F or R of NVIDIA's numbers of switches is the airflow, from the ports or to them.
    """
    other = {"f": "r", "r": "f"}
    numbers = {plain(device.part_number) for device in catalog.devices.values() if device.kind == "switch"}
    found = _AIRFLOW.fullmatch(plain(part))
    return found is not None and f"{found[1]}{other[found[2]]}{found[3]}" in numbers


def _judge(row: Mapping[str, str], text: str, catalog: Catalog, gpu: str, storage: str) -> list[Finding]:
    """What a line's words say against the standards, whatever it is matched to."""
    place, found = f"line {row[LINE]}", []
    site_gpu = catalog.gpus.get(gpu)
    if (
        site_gpu is not None
        and (said := form_factor(text))
        and said != site_gpu.form_factor
        and chips(catalog) & set(plain(text).split())
    ):
        found.append(
            finding(
                "IMPORT-FORM-FACTOR",
                place,
                case="quote",
                err="ERR-07",
                words={"text": text, "quoted": said, "gpu": gpu, "planned": site_gpu.form_factor},
                remedies=[remedy(fix="quote"), remedy(fix="site")],
            )
        )
    if cord := cord_of(text):
        first = catalog.connectors.get(cord[0])
        if first is not None and cord[1] not in first.mates and _pair(cord) is None:
            found.append(
                finding(
                    "IMPORT-CORD-PAIR",
                    place,
                    limit_source=first.source,
                    err="ERR-16",
                    words={"text": text, "first": cord[0], "second": cord[1]},
                    first_a=first.iec_a,
                )
            )
    if _ATX.search(text):
        found.append(
            finding("IMPORT-ATX-LEADS", place, err="ERR-17", words={"text": text}, remedies=[remedy(fix="ask")])
        )
    if storage and storage != "lustre" and _LUSTRE.search(text):
        found.append(
            finding(
                "IMPORT-LUSTRE-PARTS",
                place,
                err="ERR-40",
                words={"text": text, "storage": storage},
                remedies=[remedy(fix="ask")],
            )
        )
    if _GFCI.search(text):
        found.append(
            finding("IMPORT-GFCI", place, err="ERR-20", words={"text": text}, remedies=[remedy(fix="breakers")])
        )
    return found


def _dimms(
    row: Mapping[str, str], text: str, servers: int, sockets: int, memory: Memory | None, spares: int
) -> list[Finding]:
    """Modules that do not fill every channel of every processor alike (S012, ERR-44); `spares` may be among them."""
    dimm, quantity = _DIMM.search(text), number(row["quantity"])
    if not dimm or not servers or not sockets or not quantity or quantity == spares:
        return []
    place, size = f"line {row[LINE]}", int(dimm[1] or dimm[2])
    if memory is None:
        return [
            finding(
                "IMPORT-DIMM-BALANCE",
                place,
                case="unknown",
                severity="info",
                words={"modules": quantity, "size_gb": size},
            )
        ]
    if memory.soldered:
        return [
            finding(
                "IMPORT-DIMM-BALANCE",
                place,
                case="soldered",
                severity="warning",
                limit_source="catalogue memory.soldered",
                err="ERR-44",
                words={"modules": quantity, "size_gb": size},
                remedies=[remedy(fix="ask")],
            )
        ]
    if any(count / servers / sockets in memory.balanced for count in (quantity, quantity - spares)):
        return []
    per_socket = quantity / servers / sockets
    return [
        finding(
            "IMPORT-DIMM-BALANCE",
            place,
            case="unbalanced",
            severity="warning",
            limit_source="catalogue memory",
            err="ERR-44",
            words={
                "modules": quantity,
                "server_gb": per_socket * sockets * size,
                "balanced": ", ".join(map(str, memory.balanced)),
                "channels": memory.channels,
                "slots": memory.per_channel,
            },
            modules_per_socket=per_socket,
            size_gb=size,
        )
    ]


def _pair(cord: tuple[str, str]) -> str | None:
    """The size of a cord whose ends are a plug and a socket of one size, None for others."""
    sizes = {"13": "10 A", "14": "10 A", "19": "16 A", "20": "16 A"}
    first, second = cord[0][-2:], cord[1][-2:]
    return sizes[first] if sizes[first] == sizes[second] and first != second else None


def _price(row: Mapping[str, str], quantity: float | None) -> list[Finding]:
    unit, total = number(row["unit_price"]), number(row["total_price"])
    if (
        unit is None
        or total is None
        or quantity is None
        or abs(unit * quantity - total) <= PRICE_TOLERANCE * max(abs(total), 1)
    ):
        return []
    return [
        finding(
            "IMPORT-PRICE",
            f"line {row[LINE]}",
            limit=PRICE_TOLERANCE,
            limit_source="rounding of unit prices",
            words={"quantity": quantity, "unit_price": unit},
            remedies=[remedy(fix="ask")],
            computed=unit * quantity,
            stated=total,
        )
    ]


def _lead(row: Mapping[str, str], match: tuple[str, str], item: str, planned: LeadTime) -> list[Finding]:
    """A lead time that is longer than the site's, or that no number can be read from."""
    quoted, place, what = row["lead_weeks"], f"line {row[LINE]}", " ".join(match)
    weeks = number(quoted)
    if weeks is None and quoted:
        words = {"lead_time": quoted, "part": what, "item": item}
        return [finding("IMPORT-QUOTE-LEAD", place, case="unread", words=words, remedies=[remedy(fix="longest")])]
    if weeks is None or weeks <= planned.max_weeks:
        return []
    return [
        finding(
            "IMPORT-QUOTE-LEAD",
            place,
            case="longer",
            limit=planned.max_weeks,
            limit_source=f"site leadtimes.{item}: {planned.source}",
            words={"part": what},
            remedies=[remedy({f"leadtimes.{item}.max_weeks": weeks}, fix="plan", sure=True)],
            weeks=weeks,
        )
    ]


def _currency(row: Mapping[str, str]) -> str:
    if row["currency"]:
        return row["currency"].upper()
    for sign, name in (
        ("$", "USD"),
        ("€", "EUR"),
        ("£", "GBP"),
        ("EUR", "EUR"),
        ("USD", "USD"),
        ("CHF", "CHF"),
        ("GBP", "GBP"),
    ):
        if sign in row["total_price"] + row["unit_price"]:
            return name
    return ""


def _unmatched(row: Mapping[str, str], needed: Mapping[tuple[str, str], int]) -> Finding:
    models = {model: item for item, model in needed}
    text = row["description"] or row["part"]
    near = difflib.get_close_matches(text.lower(), list(models), n=1, cutoff=0.5)
    nearest = f"{models[near[0]]} {near[0]}" if near else ""
    return finding(
        "IMPORT-QUOTE-UNMATCHED",
        f"line {row[LINE]}",
        case="nearest" if near else "no-nearest",
        words={"quantity": row["quantity"] or "?", "text": text, "nearest": nearest},
        remedies=[remedy(fix="map", name=row["part"] or text)],
    )


def _verdict(
    key: tuple[str, str],
    least: int,
    most: int,
    have: int,
    arrives: str,
    systems_quoted: set[str],
    catalog: Catalog,
) -> str:
    """Of a line of the BOM: `least` are to be ordered, `most` with what comes inside `arrives`, if that is quoted."""
    if have:
        return "agrees" if have in (least, most) else "quantity differs"
    if not least and not most:
        return "agrees"
    if not least and arrives:
        return f"in the {arrives}"
    stands_in = (
        part.model for system in systems_quoted if system in catalog.systems for part in catalog.system(system).parts
    )
    return "in the system" if key[1] in stands_in and (not least or least == most) else "missing"


def _difference(
    key: tuple[str, str], want: int, have: int, verdict: str, lines: list[str], needed: Sequence[tuple[str, str]]
) -> list[Finding]:
    item, model = key
    place, listed = f"{item} {model}", ", ".join(lines)
    if verdict == "missing":
        return [finding("IMPORT-QUOTE-MISSING", place, needed=want, quoted=have)]
    if verdict == "quantity differs":
        return [
            finding(
                "IMPORT-QUOTE-QUANTITY",
                place,
                case="too-few" if have < want else "too-many",
                limit=want,
                limit_source="plan BOM, to order",
                words={"lines": listed, "difference": abs(have - want)},
                needed=want,
                quoted=have,
            )
        ]
    if verdict == "wrong SKU":
        return [
            finding(
                "IMPORT-WRONG-SKU",
                place,
                case="quote",
                severity="error",
                words={
                    "lines": listed,
                    "planned": some(other for other_item, other in needed if other_item == item),
                    "item": item,
                },
                remedies=[remedy(fix="quote"), remedy(fix="site")],
                needed=want,
                quoted=have,
            )
        ]
    if verdict == "extra":
        return [finding("IMPORT-QUOTE-EXTRA", place, words={"lines": listed}, needed=want, quoted=have)]
    return []
