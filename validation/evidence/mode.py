"""Evidence mode: what the identities that a check met on its way allow to be claimed by its record alone.

In: the identities that every touched device gave on every channel (SNMP sysDescr, Redfish Manufacturer, SSH banner...).
Out: ``unproven`` < ``simulated`` < ``replayed`` < ``real``, the weakest of all touched devices. No record is ``real`` by
itself: the gate finds that out from all records of a run (channels.py).

This is the only place that knows how a simulator declares itself; the patterns are data (``markers.yaml``).
"""

import functools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

Mode = Literal["unproven", "simulated", "replayed", "real"]
STRENGTH: Mapping[Mode, int] = {"unproven": 0, "simulated": 1, "replayed": 2, "real": 3}
PINNED = "pinned"
"""How the host key was enrolled over whose session something was read: the only way that counts for go-live."""


@dataclass(frozen=True)
class Identity:
    """What one device said about itself on one channel, or what another device saw of it.

    ``device``    the asset's name in the plan
    ``channel``   how it was asked: ``snmp``, ``redfish``, ``ssh``, ``os-release``, ``nvml``, ``lldp``, ``guid``, ...
    ``text``      its own words: sysDescr, Manufacturer, os-release, banner, product name
    ``serial``    the identifier that proves which asset it is (serial, UUID, MAC or GUID as the inventory lists it)
    ``observer``  the other device that saw it; empty for what the device itself said
    ``enrolled``  how the host key of the session was enrolled: ``pinned``, ``first-use``, or empty without SSH
    ``message``   for a challenge: what the device was given to sign; ``signature`` its signature (sshsig.py)
    """

    device: str
    channel: str
    text: str = ""
    serial: str = ""
    observer: str = ""
    enrolled: str = ""
    message: str = ""
    signature: str = ""


@functools.cache
def _markers() -> tuple[tuple[re.Pattern[str], frozenset[str]], ...]:
    data = yaml.safe_load((Path(__file__).parent / "markers.yaml").read_text(encoding="utf-8"))
    return tuple((re.compile(m["pattern"], re.MULTILINE), frozenset(m["channels"])) for m in data["markers"])


BLANK = "\u115f\u1160\u2800"
"""Letters and symbols without ink, after NFKD: fillers of Hangul (also U+3164 and U+FFA0), the empty Braille pattern."""


_NO_LETTER = frozenset({"Cf", "Cc", "Mn", "Me"})


def normalised(text: str) -> str:
    """Text as markers are searched in it: NFKD, lower case, without accents and invisible characters, one space for several."""
    shown = "".join(map(_shown, text))
    return "\n".join(" ".join(line.split()) for line in shown.split("\n"))


@functools.lru_cache(maxsize=65536)
def same_person(name: str) -> str:
    """A name for comparing: case, spaces, Unicode form and invisible characters make no other person."""
    return " ".join(normalised(name).split())


@functools.lru_cache(maxsize=65536)
def _shown(letter: str) -> str:
    """One character as markers are searched in it.

    By itself: to put thousands of accents on one letter in order takes the square of their number, and they are left out.
    """
    return "".join(
        c
        for c in unicodedata.normalize("NFKD", letter).casefold()
        if c == "\n"
        or c.isspace()
        or not (c in BLANK or unicodedata.combining(c) or unicodedata.category(c) in _NO_LETTER)
    )


def weakest(modes: Iterable[Mode]) -> Mode:
    """The weakest of the modes; ``unproven`` if there is none."""
    return min(modes, key=lambda mode: STRENGTH[mode], default="unproven")


@functools.lru_cache(maxsize=65536)
def declares_simulation(identity: Identity) -> bool:
    """True if the device calls itself simulated on this channel."""
    text = normalised(f"{identity.text}\n{identity.serial}")
    return any(
        (not channels or identity.channel in channels) and pattern.search(text) for pattern, channels in _markers()
    )


def classify(identities: Iterable[Identity], *, replayed: bool = False) -> Mode:
    """The mode of a record that touched the devices of ``identities``: the weakest of all of them, never ``real``.

    A device is ``simulated`` if it says so on any channel. Everything else is ``unproven``, also no identity at all.

    ``replayed``: the data come from a recording or an import, which is never stronger than ``replayed``.
    """
    by_device: dict[str, list[Identity]] = defaultdict(list)
    for identity in identities:
        by_device[identity.device].append(identity)
    mode = weakest(
        "simulated" if any(declares_simulation(identity) for identity in found) else "unproven"
        for found in by_device.values()
    )
    return weakest((mode, "replayed")) if replayed else mode
