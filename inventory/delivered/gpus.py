"""The GPUs that were delivered: ``gpus.csv`` beside the site file, one line per GPU.

In: the file, or its text. Out: a frame of text, one row per GPU, and its hash. A GPU belongs to the server that it is in;
assets.py has the servers.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from inventory.delivered.assets import table, text_of
from inventory.site import Site

GPUS_FILE = "gpus.csv"
GPU_COLUMNS = ("device", "slot", "serial", "uuid", "pci_bus_id")
GPU_UUID = re.compile(r"^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
PCI_BUS_ID = re.compile(r"^[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7]$")


def load_gpus(site: Site) -> pd.DataFrame:
    """The GPUs of a site, one row each: columns device, slot, serial, uuid, pci_bus_id, all text.

    slot is the module ID that the vendor numbers SXM modules by (1 to 8), or the slot number of a PCIe card. uuid and
    pci_bus_id are written as NVML does. A site without ``gpus.csv`` has had none delivered yet: the frame is empty.
    Raises AssetError for a missing column, a malformed cell, or a serial, UUID, slot or address given twice.
    """
    path = site.dir / GPUS_FILE
    if not path.exists():
        return pd.DataFrame(columns=list(GPU_COLUMNS), dtype=str)
    return parse_gpus(text_of(path), path)


def parse_gpus(text: str, path: Path = Path(GPUS_FILE)) -> pd.DataFrame:
    """The frame of ``load_gpus`` from CSV text; ``path`` is only named in messages."""
    return table(text, path, GPU_COLUMNS, _problems)


def gpus_hash(gpus: pd.DataFrame) -> str:
    """SHA-256 over the GPUs' values; the order of lines does not matter."""
    return hashlib.sha256(
        gpus.sort_values(["device", "slot"]).to_csv(index=False, lineterminator="\n").encode()
    ).hexdigest()


def _problems(rows: list[list[str]]) -> Iterator[tuple[int, str]]:
    seen: dict[tuple[str, ...], int] = {}
    for n, row in enumerate(rows, start=2):
        if len(row) != len(GPU_COLUMNS):
            yield n, f"{len(row)} cells, expected {len(GPU_COLUMNS)} ({', '.join(GPU_COLUMNS)})"
            continue
        cells = dict(zip(GPU_COLUMNS, row, strict=True))
        name = f"{cells['device']} slot {cells['slot']}"
        for column in ("device", "slot", "serial"):
            if not cells[column]:
                yield n, f"{name}: {column} is empty"
        for column, form, pattern in (
            ("uuid", "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx, lower case", GPU_UUID),
            ("pci_bus_id", "00000000:1B:00.0, upper case", PCI_BUS_ID),
        ):
            if not pattern.fullmatch(cells[column]):
                yield n, f"{name}: {column} {cells[column]!r} is not of the form {form}"
        for key in (("serial",), ("uuid",), ("device", "slot"), ("device", "pci_bus_id")):
            value = (*key, *(cells[column] for column in key))
            if value in seen:
                yield n, f"{name}: {key[-1]} {cells[key[-1]]} is already in line {seen[value]}"
            seen.setdefault(value, n)
