"""Factory manifests: serial, MAC, rack, rack unit and credential reference per device, merged into the site's lists.

    manifest = read_manifest(fields(table, "manifest"), site, catalog, devices, placements)
    merged = merge(manifest, assets, gpus, kept)         -> assets.csv, gpus.csv, imports/manifest.csv
    text = export(kept, assets, gpus, placements)        -> the manifest that holds all of it again

A manifest has one row per device, adapter or GPU; one row per server with columns "GPU1 serial", "GPU2 serial", … is
unfolded. Rows are matched to the plan's devices by name, else by rack and rack unit, else by the serial that the asset
list has already. Secrets in clear text are refused where the table is read (`tables.fields`).
"""

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from inventory.catalog import Catalog, DeviceType, Gpu
from inventory.delivered.assets import COLUMNS, GUID, IDENTIFIERS, MAC
from inventory.delivered.gpus import GPU_COLUMNS, GPU_UUID, PCI_BUS_ID
from inventory.findings import Finding, finding, remedy
from inventory.imports.core.result import Imported, some
from inventory.imports.core.source import number
from inventory.imports.core.tables import (
    LINE,
    UNKNOWN_COLUMN,
    Fields,
    csv_text,
    known,
    plain,
    records,
    together,
    unknown_columns,
    without_secrets,
)

MANIFEST_FILE = "imports/manifest.csv"
FIELDS = tuple(known("manifest"))
MATCH = "plan_device"
KIND_AS_SENT = "kind (file)"
KINDS = ("device", "adapter", "gpu", "component")
UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

_WIDE = re.compile(
    r"^gpu\s?(\d{1,2}) (serial|serial number|serial no|sn|s n|uuid|pci address|pci bus id|part|part number)$"
)
_WIDE_FIELD = {
    "uuid": "uuid",
    "pci address": "pci_bus_id",
    "pci bus id": "pci_bus_id",
    "part": "part",
    "part number": "part",
}
_MANGLED = re.compile(r"^\d(\.\d+)?[eE]\+?\d+$")
_COMPONENTS = {
    "psu",
    "supply",
    "cpu",
    "processor",
    "dimm",
    "memory",
    "ram",
    "nvme",
    "ssd",
    "hdd",
    "drive",
    "disk",
    "fan",
    "riser",
    "board",
    "motherboard",
    "baseboard",
    "bmc",
    "cable",
    "transceiver",
    "optic",
    "component",
    "part",
}
_FORM_FACTOR = {
    "sxm": "sxm",
    "sxm4": "sxm",
    "sxm5": "sxm",
    "sxm6": "sxm",
    "hgx": "sxm",
    "oam": "oam",
    "ubb": "oam",
    "pcie": "pcie",
    "nvl": "pcie",
    "hhhl": "pcie",
}


_OTHER_CHIPS = frozenset({"a100", "b300", "l40s", "gb200", "h800", "h20"})
"""Chips that vendors deliver in place of others and the catalogue has no entry of."""


@dataclass(frozen=True)
class Manifest:
    """A manifest on the plan's names: columns of FIELDS, then `unknown`, LINE and MATCH.

    `kind` is device, adapter, gpu or component (a part that the lists have no line for: a supply, a drive); what the file
    said instead is in the column 'kind (file)'. MATCH is the device of the plan, '' where there is none.
    """

    rows: pd.DataFrame
    unknown: tuple[str, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Expected:
    """What the plan says: catalogue slug per device, (rack, lowest rack unit) -> device, and the GPU."""

    models: Mapping[str, str]
    places: Mapping[tuple[str, int], str]
    gpu: str

    @classmethod
    def of(cls, devices: pd.DataFrame, placements: pd.DataFrame, gpu: str) -> "Expected":
        """From the plan's frames `devices` (name, model) and `placements` (device, rack, u_bottom)."""
        models = dict(zip(devices["name"].astype(str), devices["model"].astype(str), strict=True))
        at = zip(placements["rack"], placements["u_bottom"], placements["device"], strict=True)
        return cls(models, {(str(rack), int(u)): str(device) for rack, u, device in at if u > 0}, gpu)


def read_manifest(
    given: Fields,
    expected: Expected,
    catalog: Catalog,
    skus: Mapping[str, str] | None = None,
    assets: pd.DataFrame | None = None,
) -> Manifest:
    """The manifest's rows on the plan's names, with a finding for everything that does not fit. Never raises."""
    findings = [one for one in given.findings if one.id != UNKNOWN_COLUMN]
    rows = _long(given.frame)
    extras = _extras(rows)
    findings += unknown_columns(MANIFEST_FILE, extras)
    rows = rows.reindex(columns=[*FIELDS, *extras, LINE], fill_value="")
    rows = _forms(rows, findings)
    rows = _kinds(rows, catalog, skus or {})
    rows[MATCH] = _devices(rows, expected, assets, findings)
    rows["device"] = rows["device"].where(rows[MATCH] == "", rows[MATCH])
    findings += _places(rows, expected)
    findings += _duplicates(rows)
    findings += wrong_skus(rows, expected, catalog, skus or {})
    unknown = tuple(name for name in rows.columns if name not in FIELDS and name not in (LINE, MATCH))
    return Manifest(rows.reset_index(drop=True), unknown, tuple(findings))


def merge(
    manifest: Manifest,
    assets: pd.DataFrame,
    gpus: pd.DataFrame,
    kept: pd.DataFrame | None = None,
    replace: bool = False,
) -> Imported:
    """The site's lists with the manifest's identifiers in them.

    A row of the lists that the manifest does not have stays; so does a cell that the manifest leaves empty. Where both
    have a value and they differ, that is an error unless `replace`. `kept` is the manifest of earlier imports.
    """
    findings = list(manifest.findings)
    rows = manifest.rows[manifest.rows[MATCH] != ""]
    table = assets.reset_index().reindex(columns=list(COLUMNS), fill_value="")
    book = {row["device"]: row for row in records(table)}
    for row in records(rows[rows["kind"].isin(["device", "adapter"])]):
        name = f"{row['device']}:{row['port']}" if row["kind"] == "adapter" else row["device"]
        old = book.setdefault(name, dict.fromkeys(COLUMNS, "") | {"device": name})
        _take(old, row, ("manufacturer", *IDENTIFIERS), name, findings, replace)
    cards = {(row["device"], row["slot"]): row for row in records(gpus)}
    bare = []
    for row in records(rows[(rows["kind"] == "gpu") & (rows["slot"] != "")]):
        key = (row["device"], row["slot"])
        card = cards.get(key, dict.fromkeys(GPU_COLUMNS, "") | {"device": key[0], "slot": key[1]})
        _take(card, row, ("serial", "uuid", "pci_bus_id"), f"{key[0]} slot {key[1]}", findings, replace)
        if card["uuid"] and card["pci_bus_id"]:
            cards[key] = card
        else:
            bare.append(f"{key[0]} slot {key[1]}")
    if bare:
        findings.append(
            finding(
                "IMPORT-GPU-INCOMPLETE",
                "gpus.csv",
                words={"names": some(bare), "file": MANIFEST_FILE},
                remedies=[remedy(fix="running")],
                gpus=len(bare),
            )
        )
    whole, stayed = _together(kept, manifest.rows.drop(columns=[LINE, MATCH]))
    findings += stayed
    findings += _repeats(book.values(), ("serial", "uuid", "mgmt_mac", "guid"), "assets.csv", lambda row: row["device"])
    findings += _repeats(
        cards.values(), ("serial", "uuid"), "gpus.csv", lambda row: f"{row['device']} slot {row['slot']}"
    )
    assets_frame = pd.DataFrame(list(book.values()), columns=list(COLUMNS))
    gpu_frame = pd.DataFrame(list(cards.values()), columns=list(GPU_COLUMNS))
    files = {"assets.csv": csv_text(assets_frame), MANIFEST_FILE: csv_text(whole)}
    if len(gpu_frame):
        files["gpus.csv"] = csv_text(gpu_frame)
    kinds = manifest.rows["kind"].value_counts().to_dict()
    summary = f"{len(manifest.rows)} rows: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}"
    return Imported(manifest.rows, summary, tuple(findings), files)


def export(
    kept: pd.DataFrame | None, assets: pd.DataFrame, gpus: pd.DataFrame, placements: pd.DataFrame
) -> pd.DataFrame:
    """One manifest of all that is known: the rows of earlier imports, and each line of assets.csv and gpus.csv.

    Columns are FIELDS, then the columns that earlier files had beyond them. Rack and rack unit are the manifest's where
    it has them, else the plan's.
    """
    at = {
        str(device): (str(rack), str(u) if u else "")
        for device, rack, u in zip(placements["device"], placements["rack"], placements["u_bottom"], strict=True)
    }
    lines = []
    for device, row in assets.iterrows():
        name, _, port = str(device).partition(":")
        line = {column: str(row[column]) for column in ("manufacturer", *IDENTIFIERS)}
        lines.append({**line, "device": name, "port": port, "kind": "adapter" if port else "device"})
    lines += [{**row, "kind": "gpu"} for row in records(gpus)]
    listed = pd.DataFrame([dict.fromkeys(FIELDS, "") | line for line in lines], columns=list(FIELDS), dtype=str)
    whole, _ = _together(kept, listed)
    here = whole["kind"].eq("device") & whole["rack"].eq("") & whole["u"].eq("")
    whole.loc[here, "rack"] = [at.get(name, ("", ""))[0] for name in whole.loc[here, "device"]]
    whole.loc[here, "u"] = [at.get(name, ("", ""))[1] for name in whole.loc[here, "device"]]
    return whole


def wrong_skus(rows: pd.DataFrame, expected: Expected, catalog: Catalog, skus: Mapping[str, str]) -> list[Finding]:
    """Parts that are not what the plan has at that device, and GPUs of another form factor (ERR-07)."""
    findings: list[Finding] = []
    unknown: dict[str, int] = {}
    gpu = catalog.gpus.get(expected.gpu)
    for row in records(rows[rows["part"] != ""]):
        part, device = row["part"], row["device"]
        if row["kind"] == "gpu" and gpu is not None:
            said = form_factor(part)
            verdict = same_gpu(part, gpu, catalog, skus)
            if said and said != gpu.form_factor:
                findings.append(
                    finding(
                        "IMPORT-FORM-FACTOR",
                        device or row["serial"],
                        case="delivery",
                        err="ERR-07",
                        words={
                            "part": part,
                            "line": row.get(LINE, "?"),
                            "delivered": said,
                            "gpu": gpu.slug,
                            "planned": gpu.form_factor,
                        },
                        remedies=[remedy(fix="return"), remedy(fix="sku")],
                    )
                )
            elif verdict is False:
                findings.append(_wrong(row, gpu.slug))
            elif verdict is None:
                unknown[part] = unknown.get(part, 0) + 1
        elif row["kind"] == "device" and device in expected.models:
            slug = expected.models[device]
            found = skus.get(part) or slug_of(part, catalog)
            if found is None:
                unknown[part] = unknown.get(part, 0) + 1
            elif found != slug:
                findings.append(_wrong(row, slug, found))
    findings += [
        finding("IMPORT-SKU-UNKNOWN", part, remedies=[remedy(fix="map")], rows=count) for part, count in unknown.items()
    ]
    return findings


def slug_of(part: str, catalog: Catalog) -> str | None:
    """The device type that a part number, model or slug means; None where the catalogue has none such."""
    wanted = plain(part)
    for slug, device in catalog.devices.items():
        if wanted in _device_names(slug, device):
            return slug
    return None


def _device_names(slug: str, device: DeviceType) -> set[str]:
    names = {slug, device.model, f"{device.manufacturer} {device.model}", device.part_number}
    return {plain(name) for name in names if name}


def form_factor(text: str) -> str | None:
    """sxm or pcie, where a description says so; None where it says neither, or both."""
    found = {_FORM_FACTOR[word] for word in plain(text).split() if word in _FORM_FACTOR}
    return found.pop() if len(found) == 1 else None


def chips(catalog: Catalog) -> set[str]:
    """Names of chips that a GPU's description can say: those of the catalogue, and some that it does not have."""
    return {plain(gpu.model).split()[0] for gpu in catalog.gpus.values()} | _OTHER_CHIPS


def same_gpu(part: str, gpu: Gpu, catalog: Catalog, skus: Mapping[str, str]) -> bool | None:
    """Whether a part is this GPU: True, False where it is surely another one, None where it cannot be told."""
    if part in skus:
        return skus[part] == gpu.slug
    by_name = {plain(name): g.slug for g in catalog.gpus.values() for name in (g.slug, g.model, g.nvml_name) if name}
    if plain(part) in by_name:
        return by_name[plain(part)] == gpu.slug
    names = chips(catalog)
    own = next((word for word in plain(f"{gpu.model} {gpu.slug}").split() if word in names), None)
    said = names.intersection(plain(part).split())
    if own is None or not said:
        return None
    return True if own in said and form_factor(part) == gpu.form_factor else None if own in said else False


def _wrong(row: Mapping[str, str], planned: str, model: str = "") -> Finding:
    """Another part than planned is delivered; `model` is the device type that the part number means."""
    return finding(
        "IMPORT-WRONG-SKU",
        row["device"] or row["serial"],
        case="delivery-model" if model else "delivery",
        severity="error",
        words={"part": row["part"], "model": model, "line": row.get(LINE, "?"), "planned": planned},
        remedies=[remedy(fix="note"), remedy(fix="model")],
    )


def _extras(frame: pd.DataFrame) -> list[str]:
    return [str(c) for c in frame.columns if c not in (*FIELDS, LINE, MATCH)]


def _long(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns 'GPU1 serial', 'GPU 2 UUID', … unfolded to one row per GPU below the server's own row."""
    wide = {column: match for column in frame.columns if (match := _WIDE.match(plain(str(column))))}
    if not wide:
        return frame
    rows = []
    for row in records(frame):
        cards: dict[str, dict[str, str]] = {}
        for column, match in wide.items():
            value = str(row.pop(column))
            if value:
                cards.setdefault(match[1], {})[_WIDE_FIELD.get(match[2], "serial")] = value
        rows.append(row)
        shared = {key: row[key] for key in ("device", "rack", "u", LINE) if key in row}
        for slot, card in sorted(cards.items(), key=lambda item: int(item[0])):
            rows.append({**shared, **card, "slot": str(int(slot)), "kind": "gpu", "parent": row.get("serial", "")})
    return pd.DataFrame(rows).fillna("")


def _forms(rows: pd.DataFrame, findings: list[Finding]) -> pd.DataFrame:
    """Identifiers in the forms of the asset list; what cannot be brought into them is an error and left as it is."""
    rows = rows.copy()
    rows["rack"] = rows["rack"].str.strip()
    rows["u"] = [re.sub(r"^(?:[uU]|RU)?0*(\d+)(?:[uU])?$", r"\1", text) for text in rows["u"]]
    rows["slot"] = [re.sub(r"^0+(\d)", r"\1", text) for text in rows["slot"]]
    for column, bring, form in (
        ("mgmt_mac", _mac, "xx:xx:xx:xx:xx:xx"),
        ("guid", _guid, "xxxxxxxxxxxxxxxx"),
        ("uuid", lambda text: text.lower().replace("gpu-", "GPU-"), "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"),
        ("pci_bus_id", _pci, "xxxxxxxx:xx:xx.x"),
    ):
        brought = [bring(text) if text else "" for text in rows[column]]
        for text, value, line in zip(rows[column], brought, rows[LINE], strict=True):
            if text and not _FORMS[column](value):
                findings.append(
                    finding(
                        "IMPORT-FORM",
                        f"line {line}",
                        words={"column": column, "value": text, "form": form},
                        remedies=[remedy(fix="correct"), remedy(fix="map")],
                    )
                )
        rows[column] = brought
    mangled = rows[rows["serial"].str.fullmatch(_MANGLED)]
    if len(mangled):
        findings.append(
            finding(
                "IMPORT-SERIAL-MANGLED",
                f"line {mangled[LINE].iloc[0]}",
                words={"serial": mangled["serial"].iloc[0]},
                remedies=[remedy(fix="original"), remedy(fix="text")],
                rows=len(mangled),
            )
        )
    return rows


def _mac(text: str) -> str:
    bare = re.sub(r"[^0-9a-f]", "", text.lower())
    return ":".join(bare[n : n + 2] for n in range(0, 12, 2)) if len(bare) == 12 else text


def _guid(text: str) -> str:
    bare = re.sub(r"[^0-9a-f]", "", text.lower().removeprefix("0x"))
    return bare if len(bare) == 16 else text


def _pci(text: str) -> str:
    match = re.fullmatch(r"(?:([0-9A-F]{4}|[0-9A-F]{8}):)?([0-9A-F]{2}:[0-9A-F]{2}\.[0-7])", text.upper())
    return f"{(match[1] or '0').rjust(8, '0')}:{match[2]}" if match else text


_FORMS: Mapping[str, Callable[[str], object]] = {
    "mgmt_mac": MAC.fullmatch,
    "guid": GUID.fullmatch,
    "uuid": lambda text: UUID.fullmatch(text) or GPU_UUID.fullmatch(text),
    "pci_bus_id": PCI_BUS_ID.fullmatch,
}


def _kinds(rows: pd.DataFrame, catalog: Catalog, skus: Mapping[str, str]) -> pd.DataFrame:
    """Rows with one of KINDS as their kind, and what the file said where it said something else."""
    names = {plain(n) for g in catalog.gpus.values() for n in (g.slug, g.model, g.nvml_name) if n}
    gpu_parts = {part for part, slug in skus.items() if slug in catalog.gpus}
    kinds = [_kind(row, names, gpu_parts) for row in records(rows)]
    said = [text if text and text != kind else "" for text, kind in zip(rows["kind"], kinds, strict=True)]
    if any(said):
        earlier = rows[KIND_AS_SENT] if KIND_AS_SENT in rows.columns else [""] * len(rows)
        rows[KIND_AS_SENT] = [old or text for old, text in zip(earlier, said, strict=True)]
    return rows.assign(kind=kinds)


def _kind(row: Mapping[str, str], gpu_names: set[str], gpu_parts: set[str]) -> str:
    said = plain(row["kind"])
    if said in KINDS:
        return said
    words = set(said.split())
    if words & {"server", "node", "switch", "pdu", "chassis", "system"}:
        return "device"
    if words & {"gpu", "accelerator"} or row["uuid"].startswith("GPU-") or row["part"] in gpu_parts:
        return "gpu"
    if row["part"] and plain(row["part"]) in gpu_names:
        return "gpu"
    if words & {"adapter", "nic", "hca"}:
        return "adapter" if row["port"] else "component"
    return "component" if words & _COMPONENTS or row["parent"] else "device"


def _devices(rows: pd.DataFrame, expected: Expected, assets: pd.DataFrame | None, findings: list[Finding]) -> list[str]:
    """The plan's device of each row: by name, by rack and unit, by its own serial or its parent's."""
    serials: dict[str, str] = {}
    if assets is not None and len(assets):
        serials = {str(serial): str(name).partition(":")[0] for name, serial in assets["serial"].items() if serial}
    names = {name.lower(): name for name in expected.models}
    places = {(rack.lower(), u): device for (rack, u), device in expected.places.items()}
    found: list[str] = []
    lost: list[tuple[str, str]] = []
    for last in (False, True):  # a part may stand above the chassis that it names as its parent
        found, lost = [], []
        for row in records(rows):
            name, u = row["device"], number(row["u"])
            device = name if name in expected.models else names.get(name.lower(), "")
            if not name and u is not None:
                device = places.get((row["rack"].lower(), int(u)), "")
            if not name and not device:
                device = serials.get(row["serial"] if row["kind"] == "device" else row["parent"], "")
            found.append(device)
            if not device:
                lost.append((row[LINE], name or f"{row['serial']} ({row['rack'] or '?'}, U {row['u'] or '?'})"))
            elif row["kind"] == "device" and row["serial"] and not last:
                serials[row["serial"]] = device
    if lost:
        findings.append(_lost(lost, expected))
    return found


def _lost(rows: Sequence[tuple[str, str]], expected: Expected) -> Finding:
    """Rows of (line, name) that are no device of the plan, with the device whose name is nearest to the first."""
    names = [name for _, name in rows]
    near = difflib.get_close_matches(names[0], list(expected.models)[:20000], n=1, cutoff=0.6)
    return finding(
        "IMPORT-NO-DEVICE",
        f"line {rows[0][0]}",
        case="manifest-nearest" if near else "manifest",
        severity="warning",
        words={"names": some(names), "nearest": ", ".join(near), "file": MANIFEST_FILE},
        remedies=[remedy(fix="name"), remedy(fix="place")],
        rows=len(rows),
    )


def _places(rows: pd.DataFrame, expected: Expected) -> list[Finding]:
    """Devices that the manifest has in another rack or rack unit than the plan."""
    planned = {device: place for place, device in expected.places.items()}
    wrong = []
    for row in records(rows[(rows["kind"] == "device") & (rows[MATCH] != "")]):
        u = number(row["u"])
        if not row["rack"] or row[MATCH] not in planned:
            continue
        rack, planned_u = planned[row[MATCH]]
        if row["rack"].lower() != rack.lower() or (u is not None and u != planned_u):
            place = " ".join(filter(None, (row[MATCH], row["rack"], row["u"] and f"U{row['u']}")))
            wrong.append((row[LINE], place, f"{row[MATCH]} {rack} U{planned_u}"))
    if not wrong:
        return []
    return [
        finding(
            "IMPORT-PLACE",
            f"line {wrong[0][0]}",
            limit_source="plan placements",
            words={
                "places": some(place for _, place, _ in wrong),
                "planned": some(planned_place for _, _, planned_place in wrong),
            },
            remedies=[remedy(fix="move"), remedy(fix="file")],
            rows=len(wrong),
        )
    ]


def _duplicates(rows: pd.DataFrame) -> list[Finding]:
    """Identifiers and places that the manifest gives twice, and devices without a serial."""
    listed = records(rows)
    found = list(_repeats(listed, ("serial", "uuid", "mgmt_mac", "guid"), "manifest", lambda row: f"line {row[LINE]}"))
    placed = [row for row in listed if row["kind"] != "component" and row["device"]]
    for row in placed:
        row["place"] = " ".join(filter(None, _place(row)))
    found += _repeats(placed, ("place",), "manifest", lambda row: f"line {row[LINE]}")
    bare = [row for row in placed if not row["serial"] and row[MATCH]]
    if bare:
        found.append(
            finding("IMPORT-NO-SERIAL", f"line {bare[0][LINE]}", remedies=[remedy(fix="scan")], rows=len(bare))
        )
    return found


def _repeats(
    rows: Iterable[Mapping[str, str]], columns: tuple[str, ...], where: str, name: Callable[[Mapping[str, str]], str]
) -> Iterator[Finding]:
    for column in columns:
        seen: dict[str, str] = {}
        for row in rows:
            value = row[column]
            if value and value in seen:
                yield finding(
                    "IMPORT-DUPLICATE",
                    value,
                    case="identifier",
                    words={"list": where, "column": column, "first": seen[value], "second": name(row)},
                    remedies=[remedy(fix="label")],
                )
            elif value:
                seen[value] = name(row)


def _take(
    old: dict[str, str],
    row: Mapping[str, str],
    columns: tuple[str, ...],
    name: str,
    findings: list[Finding],
    replace: bool,
) -> None:
    for column in columns:
        new = str(row[column])
        if not new or new == old.get(column, ""):
            continue
        if old.get(column) and not replace:
            findings.append(
                finding(
                    "IMPORT-REPLACES",
                    name,
                    words={"column": column, "listed": old[column], "given": new},
                    remedies=[remedy(fix="replace"), remedy(fix="correct")],
                )
            )
            continue
        old[column] = new


def _place(row: Mapping[str, str]) -> tuple[str, str, str, str]:
    """What there can be only one of: the device itself, the adapter behind a port, the GPU in a slot."""
    slot = row["slot"] if row["kind"] == "gpu" else ""
    return row["device"], row["port"] if row["kind"] == "adapter" else "", row["kind"], slot


def _key(row: Mapping[str, str]) -> tuple[str, ...]:
    if row["device"] and row["kind"] != "component":
        return ("at", *_place(row))
    return ("serial", row["serial"]) if row["serial"] else tuple(row.values())


def _together(kept: pd.DataFrame | None, new: pd.DataFrame) -> tuple[pd.DataFrame, list[Finding]]:
    """Earlier rows updated with new ones cell by cell; FIELDS, then the other columns of both; nothing is dropped."""
    told: list[Finding] = []
    if kept is not None:  # an earlier version kept secrets under headings that it did not know
        kept = kept.copy()
        for name in map(str, kept.columns):
            kept[name], found = without_secrets(list(kept[name]), name, range(2, len(kept) + 2), name == "credential")
            told += [dataclasses.replace(one, subject=f"{MANIFEST_FILE} {one.subject}") for one in found]
    whole, findings = together(kept, new, _key, MANIFEST_FILE, cells=True)
    findings += told
    return whole.reindex(columns=[*FIELDS, *_extras(whole)], fill_value=""), findings
