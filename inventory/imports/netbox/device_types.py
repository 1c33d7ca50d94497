"""NetBox: device types as catalogue entries, and the site's racks, devices and power feeds in its import columns.

`read_device_type` takes a YAML file of the community device-type library. What Bringup needs beyond it (supplies and
their redundancy, power profiles, heat split, sources) is named finding by finding; a file that holds a `bringup` and a
`sources` block already becomes a catalogue entry. Numbers are checked as decimals, since 4.02 is no multiple of 0.01 in
binary. `racks`, `devices`, `panels` and `feeds` give tables under the headings of NetBox's bulk import; `compare`
judges a table exported from NetBox against them.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from inventory.catalog import Catalog, CatalogError, DeviceType
from inventory.findings import Finding, finding, remedy
from inventory.imports.core.result import Imported, some
from inventory.imports.core.source import ImportFault, number
from inventory.imports.core.tables import plain, records
from inventory.site import yaml_source

FOLDER = "imports/device-types"
REQUIRED = ("manufacturer", "model", "slug", "u_height", "is_full_depth")
NETBOX_KEYS = {
    "manufacturer",
    "model",
    "slug",
    "part_number",
    "u_height",
    "is_full_depth",
    "airflow",
    "weight",
    "weight_unit",
    "front_image",
    "rear_image",
    "subdevice_role",
    "comments",
    "description",
    "default_platform",
    "exclude_from_utilization",
    "is_powered",
    "console-ports",
    "console-server-ports",
    "power-ports",
    "power-outlets",
    "interfaces",
    "front-ports",
    "rear-ports",
    "module-bays",
    "device-bays",
    "inventory-items",
    "tags",
    "custom_fields",
    "attributes",
    "profile",
}
"""Keys of a device type in the library's schema."""
OWN_KEYS = {"bringup", "sources"}
KEPT = {
    "manufacturer",
    "model",
    "slug",
    "part_number",
    "u_height",
    "is_full_depth",
    "weight",
    "weight_unit",
    "airflow",
    "comments",
    "interfaces",
    "power-ports",
    "power-outlets",
    *OWN_KEYS,
}
"""Keys that a catalogue entry has; the others are kept in the file as sent, beside the entry."""
COMPONENT_KEYS: Mapping[str, tuple[str, ...]] = {
    "interfaces": ("name", "type", "mgmt_only"),
    "power-ports": ("name", "type", "maximum_draw", "allocated_draw"),
    "power-outlets": ("name", "type", "power_port", "feed_leg", "bank"),
}
NEEDED: Mapping[str, str] = {
    "bringup.kind": "kind",
    "bringup.power.seed_w": "seed-w",
    "bringup.power.measured_w": "measured-w",
    "bringup.power.nameplate_w": "nameplate-w",
    "bringup.air_fraction": "air-fraction",
}
"""Keys that every catalogue entry has beyond NetBox's, each with the fix of IMPORT-DEVICE-NEEDS that says what it holds."""
NEEDED_BY_KIND: Mapping[str, Mapping[str, str]] = {
    "server": {
        "bringup.psu": "psu",
        "bringup.gpus": "gpus",
        "bringup.fabric_ports": "fabric-ports",
        "bringup.nic_slot": "nic-slot",
        "bringup.inband_ports": "inband-ports",
    },
    "switch": {
        "bringup.fabric": "fabric",
        "bringup.data_ports": "data-ports",
        "bringup.rate_gbps": "rate-gbps",
        "bringup.psu": "psu",
    },
    "pdu": {"bringup.pdu": "pdu"},
    "shelf": {"bringup.psu": "shelf-psu"},
}
"""The same by kind of device."""
_DOCUMENT = re.compile(r"^---(?:[ \t].*)?(?:\r?\n|\Z)", re.MULTILINE)
"""The line that starts a YAML document."""
_PHASES = {1: "single-phase", 3: "three-phase"}


def read_device_types(text: str, path: Path, catalog_folder: Path, catalog: Catalog | None = None) -> Imported:
    """One device type, or several as the YAML documents of one file: each with its own findings and file.

    The rows of several have the column device_type before them. Two documents of one slug are an error.
    """
    documents = [part for part in _DOCUMENT.split(text) if part.strip()]
    if len(documents) < 2:
        return read_device_type(text, path, catalog_folder, catalog)
    rows, summaries, findings = [], [], []
    files: dict[str, str] = {}
    for document in documents:
        one = read_device_type(document, path, catalog_folder, catalog)
        slug = one.summary.partition(": ")[0].partition(" (")[0]
        if twice := files.keys() & one.files.keys():
            findings.append(
                finding(
                    "IMPORT-DUPLICATE",
                    slug,
                    case="device-type",
                    words={"file": path.name, "path": min(twice)},
                    remedies=[remedy(fix="remove")],
                )
            )
        rows.append(one.rows.assign(device_type=slug)[["device_type", *one.rows.columns]])
        summaries.append(one.summary)
        findings += one.findings
        files |= one.files
    summary = f"{len(documents)} device types: {'; '.join(summaries)}"
    return Imported(pd.concat(rows, ignore_index=True), summary, tuple(findings), files)


def read_device_type(text: str, path: Path, catalog_folder: Path, catalog: Catalog | None = None) -> Imported:
    """A device type of the library. ImportFault for text that is no YAML mapping; findings for everything else.

    `files` has the file as sent; once `bringup` and `sources` are complete, also the entry in `catalog_folder`, which is
    relative to the site's folder. With `catalog`, what it has already or does not know is judged too.
    """
    raw, decimals = _mapping(text, path)
    findings = _format(raw, decimals)
    slug = str(raw.get("slug", "")) or "unnamed"
    unknown = sorted(set(raw) - NETBOX_KEYS - OWN_KEYS)
    if unknown:
        findings.append(finding("IMPORT-UNKNOWN-KEY", slug, words={"names": some(unknown)}))
    if beyond := sorted((set(raw) & NETBOX_KEYS) - KEPT):
        findings.append(finding("IMPORT-NETBOX-KEY", slug, words={"names": some(beyond)}))
    findings += _strange_parts(raw, slug)
    kind = _kind(raw)
    missing = {
        key: finding("IMPORT-DEVICE-NEEDS", f"{slug}: {key}", words={"key": key}, remedies=[remedy(fix=fix)])
        for key, fix in _needed(raw, kind).items()
    }
    findings += missing.values()
    rows = pd.DataFrame(
        [[key, "missing", one.remedies[0].text] for key, one in missing.items()], columns=["key", "state", "what"]
    )
    files = {f"{FOLDER}/{slug}.yaml": text}
    if any(f.severity == "error" for f in findings):
        return Imported(rows, f"{slug}: not a valid device type", tuple(findings), {})
    state = f"{len(missing)} thing(s) missing for a catalogue entry"
    if not missing:
        entry, problems = _entry(raw)
        problems += _connectors(raw, catalog) if catalog is not None else []
        findings += [
            finding(
                "IMPORT-DEVICE-INVALID",
                f"{slug}: {where}",
                words={"problem": problem},
                remedies=[remedy(fix="correct")],
            )
            for where, problem in problems
        ]
        state = "complete: a catalogue entry" if not problems else "not a valid catalogue entry"
        if catalog is not None and slug in catalog.devices and not catalog.is_own(slug):
            findings.append(finding("IMPORT-DEVICE-SHIPPED", slug, remedies=[remedy(fix="slug")]))
            state = "in the shipped catalogue already"
        elif not problems:
            files[str(catalog_folder / "device-types" / f"{slug}.yaml")] = entry
    return Imported(rows, f"{slug} ({kind}): {state}", tuple(findings), files)


def device_types(catalog: Catalog, slugs: Sequence[str]) -> str:
    """The device types in the library's format, one YAML document each: NetBox's keys only."""
    documents = []
    for slug in slugs:
        entry = catalog.device(slug).model_dump(
            by_alias=True, exclude_none=True, mode="json", exclude={"bringup", "sources"}
        )
        entry = {key: value for key, value in entry.items() if value not in ("", [])}
        for outlet in entry.get("power-outlets", []):
            outlet["description"] = f"bank {outlet.pop('bank')}"
        documents.append(yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=120))
    return "---\n" + "---\n".join(documents)


def racks(site: str, plan_racks: pd.DataFrame, catalog: Catalog) -> pd.DataFrame:
    """Racks under the headings of NetBox's rack import; masses in whole kilograms."""
    rows = []
    for row in records(plan_racks):
        kind = catalog.rack(row["model"])
        rows.append(
            [
                site,
                row["name"],
                "planned",
                str(kind.width),
                row["height_u"],
                f"{kind.outer_width:g}",
                f"{kind.outer_depth:g}",
                kind.outer_unit,
                f"{kind.weight:g}",
                f"{kind.max_weight:g}",
                kind.weight_unit,
            ]
        )
    columns = [
        "site",
        "name",
        "status",
        "width",
        "u_height",
        "outer_width",
        "outer_depth",
        "outer_unit",
        "weight",
        "max_weight",
        "weight_unit",
    ]
    return pd.DataFrame(rows, columns=columns, dtype=str)


def devices(
    site: str, plan_devices: pd.DataFrame, placements: pd.DataFrame, assets: pd.DataFrame, catalog: Catalog
) -> pd.DataFrame:
    """Devices under the headings of NetBox's device import; position is the lowest rack unit, '' for zero-U devices."""
    at = {row["device"]: row for row in records(placements)}
    serials = assets["serial"].to_dict() if len(assets) else {}
    rows = []
    for row in records(plan_devices):
        name, place, kind = row["name"], at.get(row["name"]), catalog.device(row["model"])
        u = place["u_bottom"] if place and place["u_bottom"] != "0" else ""
        rows.append(
            [
                name,
                row["role"],
                kind.manufacturer,
                kind.model,
                str(serials.get(name, "")),
                site,
                place["rack"] if place else "",
                u,
                "front" if u else "",
                "planned",
            ]
        )
    columns = ["name", "role", "manufacturer", "device_type", "serial", "site", "rack", "position", "face", "status"]
    return pd.DataFrame(rows, columns=columns, dtype=str)


def panels(site: str, circuits: pd.DataFrame, panel_of: Mapping[str, str] | None = None) -> pd.DataFrame:
    """The planned panels of the circuits; without a planned supply one per feed, for NetBox wants a panel above each power
    feed. `panel_of` gives the panel of each circuit.
    """
    names = [_panel_above(row, panel_of) for row in records(circuits)]
    return pd.DataFrame([[site, name] for name in sorted(set(names))], columns=["site", "name"])


def _panel_above(row: Mapping[str, Any], panel_of: Mapping[str, str] | None) -> str:
    return (panel_of or {}).get(row["circuit"]) or _panel(row["feed"])


def feeds(
    site: str, circuits: pd.DataFrame, derating: float, panel_of: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Power feeds under the headings of NetBox's import: one per circuit of a rack PDU or power shelf, below its planned panel
    (`panel_of`). The first circuit of a rack is its primary feed, the others are redundant.

    NetBox counts three-phase power as sqrt(3) x V x A with V line to line, as the plan does; max_utilization is the
    derating of the electrical code in percent.
    """
    first = circuits.groupby("rack", sort=False)["circuit"].first().to_dict()
    rows = [
        [
            site,
            _panel_above(row, panel_of),
            row["rack"],
            row["circuit"],
            "planned",
            "primary" if first[row["rack"]] == row["circuit"] else "redundant",
            "ac",
            _PHASES[int(float(row["phases"]))],
            f"{float(row['voltage_v']):g}",
            f"{float(row['breaker_a']):g}",
            f"{100 * derating:g}",
        ]
        for row in records(circuits)
    ]
    columns = [
        "site",
        "power_panel",
        "rack",
        "name",
        "status",
        "type",
        "supply",
        "phase",
        "voltage",
        "amperage",
        "max_utilization",
    ]
    return pd.DataFrame(rows, columns=columns, dtype=str)


COMPARED: Mapping[str, tuple[str, ...]] = {
    "racks": ("u_height", "width", "outer_width", "outer_depth", "weight", "max_weight"),
    "devices": ("role", "manufacturer", "device_type", "rack", "position", "face", "serial"),
    "power feeds": ("power_panel", "rack", "type", "supply", "phase", "voltage", "amperage", "max_utilization"),
}
"""Columns in which a table of NetBox is judged against the plan, by what it lists. Site and status are NetBox's own."""
UNIT_OF: Mapping[str, str] = {
    "outer_width": "outer_unit",
    "outer_depth": "outer_unit",
    "weight": "weight_unit",
    "max_weight": "weight_unit",
}
"""Columns whose unit stands in another one."""
_UNITS: Mapping[str, float] = {
    "mm": 1.0,
    "millimeters": 1.0,
    "in": 25.4,
    "inches": 25.4,
    "g": 0.001,
    "grams": 0.001,
    "kg": 1.0,
    "kilograms": 1.0,
    "oz": 0.028349523125,
    "ounces": 0.028349523125,
    "lb": 0.45359237,
    "pounds": 0.45359237,
}
"""NetBox's units in millimetres and kilograms, by value and by label: the international inch and pound, exact."""
_ROUNDED = 0.002
"""Share by which a number may differ after it was converted: units are rounded when they are entered."""


def compare(what: str, planned: pd.DataFrame, sent: pd.DataFrame) -> Imported:
    """A table exported from NetBox against the plan's: rows by `name`, both ways, and the columns of COMPARED.

    A column that the export does not have, or an empty cell, is not judged. Numbers are compared as numbers, in the plan's
    unit. Each row of a name that is given twice is judged.
    """
    columns = [column for column in COMPARED[what] if column in sent.columns]
    ours = {row["name"]: row for row in records(planned)}
    named = [row for row in records(sent) if row["name"]]
    theirs = {row["name"]: row for row in named}
    findings = []
    rows = []
    counts = Counter(row["name"] for row in named)
    if twice := [name for name, count in counts.items() if count > 1]:
        rows += [[name, "name", name, f"{counts[name]} rows"] for name in twice]
        findings.append(
            finding(
                "IMPORT-NETBOX-TWICE",
                what,
                words={"names": some(twice)},
                remedies=[remedy(fix="delete")],
                count=len(twice),
            )
        )
    for row in named:
        name = row["name"]
        for column in columns if name in ours else ():
            mine = ours[name][column]
            if row[column] and mine and not _alike(column, row, ours[name]):
                rows.append([name, column, mine, row[column]])
                findings.append(
                    finding(
                        "IMPORT-NETBOX-DIFFERS",
                        name,
                        words={"column": column, "netbox": row[column], "planned": mine},
                        remedies=[remedy(fix="netbox"), remedy(fix="plan")],
                    )
                )
    if extra := sorted(theirs.keys() - ours.keys()):
        rows += [[name, "name", "", name] for name in extra]
        findings.append(
            finding(
                "IMPORT-NETBOX-MISSING",
                what,
                case="netbox-only",
                severity="warning",
                words={"names": some(extra)},
                count=len(extra),
            )
        )
    if absent := sorted(ours.keys() - theirs.keys()):
        rows += [[name, "name", name, ""] for name in absent]
        findings.append(
            finding(
                "IMPORT-NETBOX-MISSING",
                what,
                case="plan-only",
                severity="info",
                words={"names": some(absent)},
                remedies=[remedy(fix="export")],
                count=len(absent),
            )
        )
    table = pd.DataFrame(rows, columns=["name", "column", "plan", "netbox"])
    return Imported(table, f"{len(named)} {what}, {len(table)} differences from the plan", tuple(findings))


def _panel(feed: str) -> str:
    return f"feed-{str(feed).lower()}"


def _alike(column: str, sent: Mapping[str, str], planned: Mapping[str, str]) -> bool:
    """Whether a cell of NetBox says the same as the plan, whatever its unit."""
    unit = UNIT_OF.get(column, "")
    theirs, ours = (_UNITS.get(row.get(unit, "").strip().lower()) for row in (sent, planned))
    one, other = number(sent[column]), number(planned[column])
    if theirs is None or ours is None or theirs == ours or one is None or other is None:
        return _same(sent[column], planned[column])
    return math.isclose(one * theirs, other * ours, rel_tol=_ROUNDED)


def _same(left: str, right: str) -> bool:
    one, other = number(left), number(right)
    return plain(left) == plain(right) or (one is not None and one == other)


def _mapping(text: str, path: Path) -> tuple[dict[str, Any], dict[str, Decimal]]:
    """The YAML mapping, and the numbers at its top level as decimals."""
    document = yaml_source.parse(text)
    if document.problems:
        first = document.problems[0]
        what = f"{first.what}: {first.found}" if first.found else first.what
        raise ImportFault(path, what, first.do, first.mark.line if first.mark else None)
    if not isinstance(document.value, dict):
        raise ImportFault(path, "not a YAML mapping", "give the file of one device type")
    decimals = {}
    for key in ("u_height", "weight"):
        try:
            if (key,) in document.texts:
                decimals[key] = Decimal(document.texts[(key,)])
        except InvalidOperation:
            continue
    return document.value, decimals


def _format(raw: Mapping[str, Any], decimals: Mapping[str, Decimal]) -> list[Finding]:
    """What the library's schema asks for and the file does not have."""
    slug = str(raw.get("slug", "unnamed"))
    correct = [remedy(fix="correct")]
    found = [
        finding("IMPORT-NETBOX-FORMAT", f"{slug}: {key}", case="required", words={"key": key}, remedies=correct)
        for key in REQUIRED
        if raw.get(key) in (None, "")
    ]
    if raw.get("slug") and not set(slug) <= set("-abcdefghijklmnopqrstuvwxyz0123456789_"):
        found.append(
            finding("IMPORT-NETBOX-FORMAT", f"{slug}: slug", case="slug", words={"value": slug}, remedies=correct)
        )
    for key, step in (("u_height", Decimal("0.5")), ("weight", Decimal("0.01"))):
        if raw.get(key) is None:
            continue
        value = decimals.get(key)
        if value is None or not value.is_finite() or value < 0 or value % step:
            found.append(
                finding(
                    "IMPORT-NETBOX-FORMAT",
                    f"{slug}: {key}",
                    case="step",
                    words={"value": raw[key], "step": step},
                    remedies=correct,
                )
            )
    if (raw.get("weight") is None) != (raw.get("weight_unit") is None):
        found.append(finding("IMPORT-NETBOX-FORMAT", f"{slug}: weight", case="unit", remedies=correct))
    for key in COMPONENT_KEYS:
        found += _format_of_components(raw.get(key) or (), key, slug)
    ports = {str(port.get("name")) for port in _components(raw, "power-ports")}
    for outlet in _components(raw, "power-outlets"):
        if outlet.get("power_port") and str(outlet["power_port"]) not in ports:
            found.append(
                finding(
                    "IMPORT-NETBOX-FORMAT",
                    f"{slug}: power-outlets.{outlet.get('name')}",
                    case="outlet",
                    words={"port": outlet["power_port"]},
                    remedies=correct,
                )
            )
    return found


def _format_of_components(parts: Any, key: str, slug: str) -> list[Finding]:
    """What the schema asks for in the list under `key`: mappings, each with a name of its own and a type."""
    correct = [remedy(fix="correct")]
    if not isinstance(parts, tuple) or not all(isinstance(part, dict) for part in parts):
        return [finding("IMPORT-NETBOX-FORMAT", f"{slug}: {key}", case="list", words={"key": key}, remedies=correct)]
    found = []
    names = [str(part.get("name", "")) for part in parts]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        found.append(
            finding(
                "IMPORT-NETBOX-FORMAT",
                f"{slug}: {key}",
                case="name-twice",
                words={"name": twice[0]},
                remedies=correct,
            )
        )
    found += [
        finding(
            "IMPORT-NETBOX-FORMAT",
            f"{slug}: {key}.{part.get('name', '?')}",
            case="field",
            words={"field": field},
            remedies=correct,
        )
        for part in parts
        for field in ("name", "type")
        if not part.get(field)
    ]
    return found


def _components(raw: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The mappings in the list under a key; none where it holds something else, which `_format` reports."""
    parts = raw.get(key)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, tuple) else []


def _strange_parts(raw: Mapping[str, Any], slug: str) -> list[Finding]:
    strange = sorted(
        {
            f"{key}.{field}"
            for key, fields in COMPONENT_KEYS.items()
            for part in _components(raw, key)
            for field in part
            if field not in fields
        }
    )
    return [finding("IMPORT-NETBOX-KEY", f"{slug}: parts", words={"names": some(strange)})] if strange else []


def _kind(raw: Mapping[str, Any]) -> str:
    own = raw.get("bringup")
    if isinstance(own, dict) and own.get("kind"):
        return str(own["kind"])
    if raw.get("power-outlets"):
        return "pdu"
    types = [str(part.get("type", "")) for part in _components(raw, "interfaces")]
    return "switch" if sum("infiniband" in t or "base-x" in t for t in types) >= 16 else "server"


def _needed(raw: Mapping[str, Any], kind: str) -> dict[str, str]:
    """What a catalogue entry has to have and the file does not: key -> fix of IMPORT-DEVICE-NEEDS."""
    drafted = isinstance(raw.get("bringup"), dict)  # who wrote the block has seen what its kind asks for
    wanted = {**NEEDED, **({} if drafted else NEEDED_BY_KIND.get(kind, {}))}
    missing = {key: fix for key, fix in (wanted | _for_planning(raw, kind)).items() if _at(raw, key) is None}
    if raw.get("weight") is None:
        missing["weight"] = "weight"
    if not raw.get("power-ports") and not drafted:
        missing["power-ports"] = "power-ports"
    if not raw.get("sources"):
        missing["sources"] = "sources"
    return missing


def _for_planning(raw: Mapping[str, Any], kind: str) -> dict[str, str]:
    """What the plan of a site with such servers takes from their entry, and nothing else says: key -> fix."""
    if kind != "server":
        return {}
    wanted = {"bringup.inband_ports": "inband-ports"}
    if _at(raw, "bringup.gpus") and _at(raw, "bringup.board") is None:  # a board has the generation, too
        wanted["bringup.nic_slot"] = "nic-slot"
    return wanted


def _at(raw: Mapping[str, Any], key: str) -> Any:
    found: Any = raw
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _entry(raw: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """The catalogue entry as YAML, and what the catalogue would refuse in it."""
    from pydantic import ValidationError

    plain = {key: _lists(value) for key, value in raw.items() if key in KEPT}
    for key, fields in COMPONENT_KEYS.items():
        if key in plain:
            plain[key] = [{field: part[field] for field in fields if field in part} for part in plain[key]]
    for outlet in plain.get("power-outlets", []):
        outlet["name"] = str(outlet["name"])
    try:
        DeviceType.model_validate(plain)
    except ValidationError as error:
        return "", [(".".join(map(str, e["loc"])), e["msg"]) for e in error.errors()]
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120), []


def _connectors(raw: Mapping[str, Any], catalog: Catalog) -> list[tuple[str, str]]:
    """Connectors that the catalogue does not have, with the nearest that it has."""
    found = []
    for key in ("power-ports", "power-outlets"):
        for part in _components(raw, key):
            try:
                catalog.connector(str(part.get("type")))
            except CatalogError as error:
                found.append((f"{key}.{part.get('name', '?')}.type", str(error)))
    return found


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, tuple) else value
