"""What says which device is which: its row in assets.csv and its pinned host keys, as hashes that a freeze fixes.

    digests = digests_of(asset_ids, host_keys)          # {"assets.csv#gpu001": ..., "known_hosts#gpu001": ...}
    said = configuration_of(["gpu001"], digests)        # what a record about these devices rests on

In: per device and part (DEVICE:PORT) the identifiers that the inventory lists, per device the host keys that the site pins.
"""

import hashlib
from collections.abc import Iterable, Mapping

from capacity.model import Plan
from inventory.delivered.assets import asset_aliases, load_assets
from validation.evidence import strict
from validation.host_keys import pinned_host_keys

FILES = ("assets.csv", "known_hosts")
DEVICES = "devices"
"""The part of a record's configuration that says what both files had of its devices: file to SHA-256."""


def digests_today(plan: Plan) -> dict[str, str]:
    """`digests_of` of the files as they are now."""
    return digests_of(asset_aliases(load_assets(plan.site), plan.gpus), pinned_host_keys(plan))


def digests_of(asset_ids: Mapping[str, Iterable[str]], host_keys: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """SHA-256 by `FILE#DEVICE`, of each device that a file knows. Order and case of identifiers are the same to it."""
    rows: dict[str, dict[str, list[str]]] = {}
    for name, identifiers in asset_ids.items():
        rows.setdefault(_owner(name), {})[name] = sorted(one.casefold() for one in identifiers if one)
    found = {f"{FILES[0]}#{device}": _digest(parts) for device, parts in rows.items()}
    return found | {f"{FILES[1]}#{device}": _digest(sorted(keys)) for device, keys in host_keys.items() if keys}


def configuration_of(devices: Iterable[str], digests: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """What a record about these devices says of them (Record.configuration)."""
    return {DEVICES: rows_of(devices, digests)}


def rows_of(devices: Iterable[str], digests: Mapping[str, str]) -> dict[str, str]:
    """By file, a hash over the rows of these devices; parts count as the device that they belong to."""
    names = sorted({_owner(device) for device in devices})
    return {file: _digest([[one, digests.get(f"{file}#{one}", "")] for one in names]) for file in FILES}


def changed(devices: Iterable[str], then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The rows of these devices that differ, as `FILE#DEVICE`."""
    names = sorted({_owner(device) for device in devices})
    rows = [f"{file}#{one}" for file in FILES for one in names]
    return [row for row in rows if then.get(row) != now.get(row)]


def _owner(name: str) -> str:
    return name.partition(":")[0]


def _digest(said: object) -> str:
    return hashlib.sha256(strict.canonical(said)).hexdigest()
