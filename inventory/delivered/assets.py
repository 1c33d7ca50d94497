"""What was delivered: ``assets.csv`` beside the site file, one line per device.

A host channel adapter is a device of its own, DEVICE:PORT: ``gpu001:ib3`` is the adapter behind port ib3 of gpu001, and
its ``guid`` is the GUID of that port. The ``guid`` of an InfiniBand switch is its node GUID.

Intent (the site file) and delivery are hashed separately, so that a swapped NIC does not make every record stale.
Drivers compare a device's own identity with these columns before they write anything to it.
"""

import csv
import hashlib
import io
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

from inventory.paths import MAX_TABLE, read_file
from inventory.site import Site

ASSETS_FILE = "assets.csv"
IDENTIFIERS = ("serial", "uuid", "mgmt_mac", "guid")
COLUMNS = ("device", "manufacturer", *IDENTIFIERS)
MAC = re.compile(r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")
GUID = re.compile(r"^[0-9a-f]{16}$")

Judge = Callable[[list[list[str]]], Iterator[tuple[int, str]]]
"""Rows without their header -> (line number, what is wrong with it)."""


class AssetError(Exception):
    """Everything that is wrong with one asset file; the message names each line."""


def load_assets(site: Site) -> pd.DataFrame:
    """The assets of a site: index ``device``; columns manufacturer, serial, uuid, mgmt_mac, guid, all text.

    A cell that does not apply to a device is the empty text (a PDU has no UUID); what was only discovered so far has a GUID and no
    serial. A site without ``assets.csv`` has
    had nothing delivered yet: the frame is empty. Raises AssetError for a missing column, a malformed or repeated
    device, serial, UUID, MAC or GUID.
    """
    path = site.dir / ASSETS_FILE
    if not path.exists():
        return pd.DataFrame(columns=list(COLUMNS), dtype=str).set_index("device")
    return parse_assets(text_of(path), path)


def parse_assets(text: str, path: Path = Path(ASSETS_FILE)) -> pd.DataFrame:
    """The frame of ``load_assets`` from CSV text; ``path`` is only named in messages."""
    return table(text, path, COLUMNS, _problems).set_index("device")


def text_of(path: Path) -> str:
    """A list of the site's folder as text. OSError for what is no regular file, AssetError for what is no UTF-8."""
    data = read_file(path, MAX_TABLE)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise AssetError(
            f"{path}:{line}: byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from None


def table(text: str, path: Path, columns: tuple[str, ...], judge: Judge) -> pd.DataFrame:
    """CSV text with exactly these columns, each line judged, as a frame of text."""
    rows = list(csv.reader(io.StringIO(text)))
    header = tuple(rows[0]) if rows else ()
    if header != columns:
        raise AssetError(f"{path}:1: columns are {', '.join(header) or 'missing'}; expected {', '.join(columns)}")
    problems = [f"{path}:{n}: {problem}" for n, problem in judge(rows[1:])]
    if problems:
        raise AssetError("\n".join(problems))
    return pd.DataFrame(rows[1:], columns=list(columns), dtype=str)


def assets_hash(assets: pd.DataFrame) -> str:
    """SHA-256 over the assets' values; the order of lines does not matter."""
    ordered = assets.sort_index()
    return hashlib.sha256(ordered.to_csv(lineterminator="\n").encode()).hexdigest()


def _problems(rows: list[list[str]]) -> Iterator[tuple[int, str]]:
    seen: dict[tuple[str, str], int] = {}
    for n, row in enumerate(rows, start=2):
        if len(row) != len(COLUMNS):
            yield n, f"{len(row)} cells, expected {len(COLUMNS)} ({', '.join(COLUMNS)})"
            continue
        cells = dict(zip(COLUMNS, row, strict=True))
        if not cells["device"]:
            yield n, "device is empty"
        discovered = cells["guid"] and not cells["uuid"] and not cells["mgmt_mac"]  # its GUID tells it apart
        if not cells["serial"] and not discovered:
            yield n, f"{cells['device']}: serial is empty: a device without serial cannot be told from another"
        for column, form, valid in _FORMS:
            if cells[column] and not valid(cells[column]):
                yield n, f"{cells['device']}: {column} {cells[column]!r} is not of the form {form}"
        for column in ("device", "serial", "uuid", "mgmt_mac", "guid"):
            value = cells[column]
            key = (column, value.strip().casefold())  # as the gate compares them
            if value and key in seen:
                yield n, f"{cells['device']}: {column} {value} is already in line {seen[key]}"
            elif value:
                seen[key] = n


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


_FORMS: tuple[tuple[str, str, Callable[[str], object]], ...] = (
    ("uuid", "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx, lower case", _is_uuid),
    ("mgmt_mac", "02:00:5e:00:00:01, lower case", MAC.fullmatch),
    ("guid", "16 hex digits, lower case", GUID.fullmatch),
)


def asset_aliases(assets: pd.DataFrame, gpus: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Per device, every identifier that the lists of assets and of GPUs hold for it; a server's GPUs are part of it."""
    uuids = gpus.groupby("device")["uuid"].apply(tuple).to_dict()
    return {
        str(device): (*(str(value) for value in row if value), *uuids.get(device, ()))
        for device, row in zip(assets.index, assets[list(IDENTIFIERS)].itertuples(index=False, name=None), strict=True)
    }
