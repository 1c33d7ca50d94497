"""Evidence mode: what the identities that a check met on its way allow to be claimed.

In: the identities that every touched device gave on every channel (SNMP sysDescr, Redfish Manufacturer, SSH banner...).
Out: ``unproven`` < ``simulated`` < ``replayed`` < ``real``, the weakest of all touched devices.

This is the only place that knows how a simulator declares itself; the patterns are data (``markers.yaml``).
"""

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

Mode = Literal["unproven", "simulated", "replayed", "real"]
STRENGTH: Mapping[Mode, int] = {"unproven": 0, "simulated": 1, "replayed": 2, "real": 3}


@dataclass(frozen=True)
class Identity:
    """What one device said about itself on one channel.

    ``device``   the asset's name in the plan
    ``channel``  how it was asked: ``snmp``, ``redfish``, ``ssh``, ``os-release``, ``nvml``, ``lldp``, ``guid``, ...
    ``text``     its own words: sysDescr, Manufacturer, os-release, banner, product name
    ``serial``   the identifier that proves which asset it is (serial, UUID, MAC or GUID as the inventory lists it)
    """

    device: str
    channel: str
    text: str = ""
    serial: str = ""


@dataclass(frozen=True)
class _Rules:
    markers: tuple[tuple[re.Pattern[str], frozenset[str]], ...]
    group_of: Mapping[str, str]
    real_needs_groups: int


@functools.cache
def _rules() -> _Rules:
    data = yaml.safe_load((Path(__file__).parent / "markers.yaml").read_text(encoding="utf-8"))
    return _Rules(
        markers=tuple((re.compile(m["pattern"], re.MULTILINE), frozenset(m["channels"])) for m in data["markers"]),
        group_of={channel: group for group, channels in data["independent"].items() for channel in channels},
        real_needs_groups=int(data["real_needs_groups"]),
    )


def weakest(modes: Iterable[Mode]) -> Mode:
    """The weakest of the modes; ``unproven`` if there is none."""
    return min(modes, key=lambda mode: STRENGTH[mode], default="unproven")


def declares_simulation(identity: Identity) -> bool:
    """True if the device calls itself simulated on this channel."""
    text = f"{identity.text}\n{identity.serial}" if identity.channel == "guid" else identity.text
    return any(
        (not channels or identity.channel in channels) and pattern.search(text)
        for pattern, channels in _rules().markers
    )


def classify(
    identities: Iterable[Identity],
    *,
    replayed: bool = False,
    aliases: Mapping[str, Sequence[str]] | None = None,
) -> Mode:
    """The mode of evidence that touched the devices of ``identities``: the weakest of all of them.

    A device is ``simulated`` if it says so on any channel. It is ``real`` only if at least three independent channels
    agree on which asset it is, and none disagrees. ``aliases`` gives, per device, all identifiers that the inventory
    holds for the one asset (serial, UUID, MAC, GUID), so that channels which read different identifiers can agree;
    without it they must read the same one. Everything else is ``unproven``, also no identity at all.

    ``replayed``: the data come from a recording or an import, which is never stronger than ``replayed``.
    """
    by_device: dict[str, list[Identity]] = defaultdict(list)
    for identity in identities:
        by_device[identity.device].append(identity)
    mode = weakest(_device_mode(found, (aliases or {}).get(device, ())) for device, found in by_device.items())
    return weakest((mode, "replayed")) if replayed else mode


def _device_mode(identities: Sequence[Identity], aliases: Sequence[str]) -> Mode:
    if any(declares_simulation(identity) for identity in identities):
        return "simulated"
    rules = _rules()
    known = {alias.casefold() for alias in aliases if alias}
    seen = {identity.serial.casefold() for identity in identities if identity.serial}
    agreed = bool(seen) and (seen <= known if known else len(seen) == 1)
    groups = {rules.group_of[i.channel] for i in identities if i.serial and i.channel in rules.group_of}
    return "real" if agreed and len(groups) >= rules.real_needs_groups else "unproven"
