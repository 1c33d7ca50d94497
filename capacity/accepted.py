"""The accepted state of a site: values and allocation that later plans start from, kept beside the site file.

    files = files_of(plan)                # what `bringup accept` writes to accepted/
    standing = load_standing(site)        # what `build` starts from: names, places, addresses, ports
    judged(site, standing, frames)        # findings: differences between a plan and the accepted state
    growth(standing, frames, optics)      # one row a device, cable and transceiver: stay, add, move or remove

Of the frames only what was allocated is kept: what a device is called and where it stands, what is plugged into what, which
addresses it has. What follows from the catalogue (power, mass, part numbers) is worked out anew.
"""

import hashlib
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from capacity.model import Plan, frames
from inventory.findings import Finding, finding, remedy
from inventory.paths import read_file, write_file
from inventory.site import Site, SiteError, accepted, messages
from inventory.site.accepted import FOLDER, FORMAT, MANIFEST, VALUES, WAY_OUT, AcceptedError, AcceptedValue
from inventory.site.explain import origin_of
from inventory.site.loading import shown_path
from inventory.site.references import at
from inventory.site.yaml_source import Path as KeyPath

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "devices": ("name", "kind", "role", "fabric", "model", "unit", "rail", "asn", "busbar"),
    "racks": ("name", "model", "row", "position"),
    "placements": ("device", "rack", "u_bottom", "u_height"),
    "addresses": tuple(frames.ADDRESSES),
    "cables": ("cable_id", "fabric", "stage", "a_device", "a_port", "b_device", "b_port"),
}
"""What is kept of each frame of a plan."""
TRUNKS = ("leaf-spine", "spine-core")
"""Stages of cables that are laid anew where a tier gets more switches."""
MAX_BYTES = 500_000_000
"""Largest file that is read. A cable takes 52 bytes (16 DGX H100), and 1,000,000 GPUs have 3.6 million cables (docs/speed.md)."""
MAX_MANIFEST = 1 << 20
"""A manifest has a name and a hash of each file, under a kilobyte."""
SHOWN = 3
PLUG_H = 0.25
"""Hours to plug or unplug one end of a cable, with the way there and the label: a rule of this suite, not confirmed."""
GROWTH = (
    "change",
    "kind",
    "fabric",
    "name",
    "a_before",
    "b_before",
    "a_after",
    "b_after",
    "hours",
    "price",
    "currency",
)


@dataclass(frozen=True)
class Standing:
    """What was allocated, as frames of capacity.model.frames; columns that are not kept are empty. `digest` names the state."""

    devices: pd.DataFrame
    racks: pd.DataFrame
    placements: pd.DataFrame
    addresses: pd.DataFrame
    cables: pd.DataFrame
    digest: str


def values_of(site: Site) -> dict[KeyPath, AcceptedValue]:
    """Every effective value of a site with its origin; secrets' references are left to the site file."""
    found: dict[KeyPath, AcceptedValue] = {}
    for path in site.effective.origins:
        if path[0] != "credentials":
            origin = origin_of(site, path)
            value = at(site.effective.value, path)
            found[tuple(map(str, path))] = AcceptedValue(value, origin.kind, origin.source, origin.design)
    return found


def files_of(plan: Plan, version: str, despite: Sequence[str] = ()) -> dict[str, str]:
    """The files of the accepted state by name, accepted `despite` error findings. Equal plans give equal bytes."""
    texts = {VALUES: accepted.dumped(values_of(plan.site))}
    made = plan.frames()
    for name, columns in COLUMNS.items():
        texts[f"{name}.csv"] = made[name][list(columns)].to_csv(index=False, lineterminator="\n")
    sums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(texts.items())}
    head = {"format": FORMAT, "site": plan.site.name, "bringup": version, "despite": sorted(despite), "sha256": sums}
    head["hash"] = digest_of(sums)
    return texts | {MANIFEST: json.dumps(head, indent=2, ensure_ascii=False) + "\n"}


def digest_of(sums: Mapping[str, str]) -> str:
    """One hash of the folder, over the hashes of its files by name."""
    return hashlib.sha256("".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode()).hexdigest()


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write an accepted state; the manifest last, so that a killed run leaves a folder that is refused, not half a state."""
    for name in sorted(files, key=lambda name: (name == MANIFEST, name)):
        write_file(folder / FOLDER / name, files[name])
    return folder / FOLDER


def load_standing(site: Site) -> Standing | None:
    """The accepted state that plans of a site start from, by default the one beside its file; None where nothing was accepted.
    SiteError for a state that was changed by hand.
    """
    if not site.accepted:
        return None
    try:
        return _standing(site.accepted_folder)
    except AcceptedError as error:
        raise SiteError(shown_path(site.path), [messages.unusable_accepted(str(error))]) from None


def _standing(folder: Path) -> Standing:
    texts = {}
    head = _manifest(folder / MANIFEST)
    for name in (VALUES, *(f"{frame}.csv" for frame in COLUMNS)):
        path = folder / name
        try:
            texts[name] = read_file(path, MAX_BYTES)
        except OSError as error:
            raise AcceptedError(f"{path}: cannot be read: {error.strerror}; {WAY_OUT}") from None
        if hashlib.sha256(texts[name]).hexdigest() != head["sha256"].get(name):
            raise AcceptedError(
                f"{path}: not the file that {MANIFEST} names, so it was changed after it was accepted; {WAY_OUT}"
            )
    read = {name: _frame(name, texts[f"{name}.csv"], folder / f"{name}.csv") for name in COLUMNS}
    return Standing(**read, digest=str(head["hash"]))


def _manifest(path: Path) -> dict[str, Any]:
    try:
        head = json.loads(read_file(path, MAX_MANIFEST))
        if not isinstance(head, dict) or not isinstance(head["sha256"], dict):
            raise TypeError("no manifest")
        if not isinstance(head["format"], int) or head["format"] > FORMAT:
            raise AcceptedError(
                f"{path}: format {head['format']}, and this version reads up to {FORMAT}; use a newer version"
            )
        if head["hash"] != digest_of(head["sha256"]):
            raise AcceptedError(f"{path}: its hash is not that of the files it names; {WAY_OUT}")
    except OSError as error:
        raise AcceptedError(f"{path}: cannot be read: {error.strerror}; {WAY_OUT}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AcceptedError(f"{path}: cannot be read: {error!r}; {WAY_OUT}") from None
    return head


def _frame(name: str, data: bytes, path: Path) -> pd.DataFrame:
    kinds = {column: kind for column, (kind, _) in frames.FRAMES[name].items()}
    try:
        read = pd.read_csv(io.BytesIO(data), dtype={c: kinds[c] for c in COLUMNS[name]}, keep_default_na=False)
        for column, kind in kinds.items():
            if column not in read:
                read[column] = kind()
        return frames.conform(name, read)
    except (ValueError, KeyError, TypeError) as error:
        raise AcceptedError(f"{path}: no frame of {name}: {error}; {WAY_OUT}") from None


def changes(standing: Standing, made: Mapping[str, pd.DataFrame]) -> dict[str, list[str]]:
    """What a plan does with an accepted state: names of devices and cables, by what happens to them."""
    old, new = standing.devices["name"], made["devices"]["name"]
    stays = set(old) & set(new)
    places = _differ(standing.placements, made["placements"], ["device"], ["rack", "u_bottom"])
    addresses = _differ(standing.addresses, made["addresses"], ["device", "interface"], ["address"])
    cables = _differ(standing.cables, made["cables"], ["cable_id"], ["a_device", "a_port", "b_device", "b_port"])
    trunks = set(standing.cables.loc[standing.cables["stage"].isin(TRUNKS), "cable_id"])
    gone = set(standing.cables["cable_id"]) - set(made["cables"]["cable_id"])
    return {
        "added devices": sorted(set(new) - set(old)),
        "added racks": sorted(set(made["racks"]["name"]) - set(standing.racks["name"])),
        "added cables": sorted(set(made["cables"]["cable_id"]) - set(standing.cables["cable_id"])),
        "gone devices": sorted(set(old) - set(new)),
        "moved devices": [one for one in places if one in stays],
        "readdressed interfaces": [one for one in addresses if one.split(" ")[0] in stays],
        "recabled trunks": sorted({one for one in cables if one in trunks} | (gone & trunks)),
        "recabled devices": [one for one in cables if one not in trunks],
    }


UNPRICED = (math.nan, "")


def growth(
    standing: Standing, made: Mapping[str, pd.DataFrame], transceivers: pd.DataFrame | None = None
) -> pd.DataFrame:
    """One row a device, a cable and a transceiver, columns GROWTH: what happens to it between the accepted state and a plan.

    ``a_*`` and ``b_*`` are the ends of a cable as DEVICE:PORT; of a device ``a_*`` is its place, RACK U. A cable that is the same
    at one end only is moved there. ``hours`` count plugs, PLUG_H each; ``price`` is that of what is added, by the bill of
    materials, of a fibre without its optics: NaN where it has no price, which is an empty cell in growth.csv, and 0 for what is not
    bought. ``transceivers`` are those of the plan (device, cage, ports, transceiver: capacity.outputs.documents). One is added
    where no port of its cage had a cable. Which are taken out is not known: the accepted state has no parts.
    """
    rows = [*_device_growth(standing, made), *_cable_growth(standing, made)]
    if transceivers is not None:
        rows += _optics_growth(standing, made, transceivers)
    order = {"remove": 0, "move": 1, "add": 2, "stay": 3}
    return pd.DataFrame(sorted(rows, key=lambda row: (order[str(row[0])], str(row[1]))), columns=list(GROWTH))


def _device_growth(standing: Standing, made: Mapping[str, pd.DataFrame]) -> Iterator[tuple[Any, ...]]:
    def places(frame: pd.DataFrame) -> dict[str, str]:
        columns = frame[["device", "rack", "u_bottom"]].itertuples(index=False, name=None)
        return {device: f"{rack} U{u_bottom}" for device, rack, u_bottom in columns}

    before, after = places(standing.placements), places(made["placements"])
    old = set(standing.devices["name"])
    bill = _priced(made["bom"])
    prices = dict(zip(bill["model"], zip(bill["unit_price"], bill["currency"], strict=True), strict=True))
    now = made["devices"]
    for name, fabric, model in now[["name", "fabric", "model"]].itertuples(index=False, name=None):
        was, will = before.get(name, ""), after.get(name, "")
        change = "add" if name not in old else "stay" if was == will else "move"
        price = prices.get(model, UNPRICED) if change == "add" else (0.0, "")
        yield (change, "device", fabric, name, was, "", will, "", 0.0, *price)
    gone = standing.devices[~standing.devices["name"].isin(now["name"])]
    for name, fabric in gone[["name", "fabric"]].itertuples(index=False, name=None):
        yield ("remove", "device", fabric, name, before.get(name, ""), "", "", "", 0.0, 0.0, "")


def _cable_growth(standing: Standing, made: Mapping[str, pd.DataFrame]) -> Iterator[tuple[Any, ...]]:
    def ends(frame: pd.DataFrame, *more: str) -> list[tuple[Any, ...]]:
        a, b = (frame[f"{side}_device"] + ":" + frame[f"{side}_port"] for side in "ab")
        return list(zip(a, b, frame["fabric"], *(frame[column] for column in more), strict=True))

    old, price_of = ends(standing.cables), _cable_prices(made["bom"])
    stays = {(a, b) for a, b, _ in old} & {(a, b) for a, b, *_ in ends(made["cables"])}
    by_end = {end: (a, b) for a, b, _ in old if (a, b) not in stays for end in (a, b)}
    moved: set[tuple[str, str]] = set()
    for a, b, fabric, part, length_m in ends(made["cables"], "part", "length_m"):
        was = next((by_end[end] for end in (a, b) if end in by_end and by_end[end] not in moved), None)
        if (a, b) in stays:
            yield ("stay", "cable", fabric, a, a, b, a, b, 0.0, 0.0, "")
        elif was is not None:
            moved.add(was)
            yield ("move", "cable", fabric, a, *was, a, b, 2 * PLUG_H * len({a, b} - set(was)), 0.0, "")
        else:
            yield ("add", "cable", fabric, a, "", "", a, b, 2 * PLUG_H, *price_of(part, length_m))
    for a, b, fabric in old:
        if (a, b) not in stays and (a, b) not in moved:
            yield ("remove", "cable", fabric, a, a, b, "", "", 2 * PLUG_H, 0.0, "")


def _optics_growth(
    standing: Standing, made: Mapping[str, pd.DataFrame], transceivers: pd.DataFrame
) -> Iterator[tuple[Any, ...]]:
    used = {end for side in "ab" for end in standing.cables[f"{side}_device"] + ":" + standing.cables[f"{side}_port"]}
    laid = made["cables"]
    fabric_of = {
        (device, port): fabric
        for side in "ab"
        for device, port, fabric in laid[[f"{side}_device", f"{side}_port", "fabric"]].itertuples(
            index=False, name=None
        )
    }
    bill = _priced(made["bom"])
    bill = bill[bill["item"] == "transceiver"]
    prices = dict(zip(bill["model"], zip(bill["unit_price"], bill["currency"], strict=True), strict=True))
    columns = transceivers[["device", "cage", "ports", "transceiver"]]
    for device, cage, listed, model in columns.itertuples(index=False, name=None):
        ports = listed.split(", ")
        stays = any(f"{device}:{port}" in used for port in ports)
        at, fabric = f"{device}:{'+'.join(ports)}", fabric_of[device, ports[0]]
        price = (0.0, "") if stays else prices.get(model, UNPRICED)
        change = "stay" if stays else "add"
        yield (
            change,
            "transceiver",
            fabric,
            f"{device} cage {cage}: {model}",
            at if stays else "",
            "",
            at,
            "",
            0.0,
            *price,
        )


def _cable_prices(bill: pd.DataFrame) -> Callable[[str, float], tuple[float, str]]:
    """The price of a cable of a part and length: that of the shortest one of the bill that reaches."""
    known: dict[str, list[tuple[float, float, str]]] = {}
    lines = _priced(bill[bill["item"] == "cable"])
    for model, price, currency in lines[["model", "unit_price", "currency"]].itertuples(index=False, name=None):
        part, _, length = model.rpartition(", ")
        known.setdefault(part, []).append((float(length.removesuffix(" m")), price, currency))

    def price_of(part: str, length_m: float) -> tuple[float, str]:
        fitting = [(price, currency) for length, price, currency in sorted(known.get(part, [])) if length >= length_m]
        return fitting[0] if fitting else UNPRICED

    return price_of


def _priced(bill: pd.DataFrame) -> pd.DataFrame:
    """The lines of a bill that have a price."""
    return bill[bill["price_source"] != ""]


def _tiers(devices: pd.DataFrame) -> int:
    """Tiers of the compute fabric by the roles of its switches; 0 without one."""
    roles = set(devices.loc[(devices["kind"] == "switch") & (devices["fabric"] == "compute"), "role"])
    return 3 if "core" in roles else 2 if "spine" in roles else len(roles & {"leaf"})


def _differ(old: pd.DataFrame, new: pd.DataFrame, key: list[str], columns: list[str]) -> list[str]:
    """Keys of both frames of which a column differs."""
    both = old[[*key, *columns]].merge(new[[*key, *columns]], on=key, suffixes=("", "_new"))
    unlike = pd.Series(False, index=both.index)
    for column in columns:
        unlike |= both[column] != both[f"{column}_new"]
    return both.loc[unlike, key].astype(str).agg(" ".join, axis=1).tolist() if unlike.any() else []


def judged(site: Site, standing: Standing | None, made: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    """Report differences between the plan and the accepted state.

    ACCEPTED-CHANGED and -RESTATED: values. ACCEPTED-TIERS: the compute fabric gets another number of tiers.
    ACCEPTED-GONE, -MOVED and -RECABLED: devices, addresses, ports and trunk cables.
    """
    for id_, found in (("ACCEPTED-CHANGED", site.effective.superseded), ("ACCEPTED-RESTATED", site.effective.restated)):
        for path, (old, new) in found.items():
            key = ".".join(map(str, path))
            yield finding(id_, key, words={"old": _short(old), "new": _short(new)})
    if standing is None:
        return
    tiers, wanted = _tiers(standing.devices), _tiers(made["devices"])
    if tiers != wanted and tiers and wanted:
        trunk = standing.cables[(standing.cables["fabric"] == "compute") & standing.cables["stage"].isin(TRUNKS)]
        yield finding(
            "ACCEPTED-TIERS",
            "fabric.tiers",
            tiers=tiers,
            wanted=wanted,
            trunk=len(trunk),
            remedies=[remedy({"fabric.tiers": tiers}), remedy(fix="carried-out")],
        )
    found_changes = changes(standing, made)
    for kind, id_, case, fix in (
        ("gone devices", "ACCEPTED-GONE", "", "taken-out"),
        ("moved devices", "ACCEPTED-MOVED", "places", "carried-out"),
        ("readdressed interfaces", "ACCEPTED-MOVED", "addresses", "carried-out"),
        ("recabled devices", "ACCEPTED-MOVED", "ports", "carried-out"),
        ("recabled trunks", "ACCEPTED-RECABLED", "", "interruption"),
    ):
        names = found_changes[kind]
        if names:
            shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
            ways = [remedy(fix="undone"), remedy(fix=fix)]
            yield finding(id_, kind, case=case, count=len(names), words={"names": shown}, remedies=ways)


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
