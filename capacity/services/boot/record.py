"""The record of servers that were installed over the network: what was written, what was read back, and what runs now.

    text = to_text(records)                 what `installed.json` in the site's outputs holds
    records = from_text(text, "…/installed.json")     server -> Installed; RecordError for anything else

Who installs writes it: `bringup boot collect` from the reports of the boot server, `make demo-metal` for its virtual machines. The
checks of S019, S032 and S142 read it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from capacity.services.boot.images import Image

FILE = "installed.json"
"""Its name in the folder of the site's outputs."""
SCHEMA_VERSION = 1
READ_BACK = re.compile(r"([0-9a-f]{64}) read back from (\S+(?: \S+)*)")
"""The text of the report `written` (infra/boot/deploy.sh)."""
_TEXTS = ("server", "role", "mac", "uuid", "maker", "firmware", "version", "sha256", "running")
_SECONDS = ("written_s", "login_s")
_TIMES = ("written_at", "seen_at")
"""Records of before these were kept have none; of before `alike` was kept, one writing counts."""


class RecordError(Exception):
    """A record of installed servers that cannot be read; the message names the file."""


@dataclass(frozen=True)
class Installed:
    """One server.

    mac       of the port that it was installed over
    uuid      of the server, and `maker`, as its firmware tells them to the system that runs
    firmware  "bios" or "uefi": what it started by
    version   of the image that was planned when it was written
    sha256    of the root file system as the initramfs read it back from each of `drives` (serial numbers)
    running   what the node says it runs: role, version and SHA-256, from the file that the initramfs left
    writings  how often an image was written to it and read back; `alike`: how many of them gave the SHA-256 of the last one
    written_s, login_s    from power-on of the last writing to the read-back, and to the first login; None: not measured
    alone     serial numbers of the drives that it was seen to start from with no other boot drive in it, since the last writing
    written_at, seen_at    Unix times: of the report that it was read back, and of `running`; None: not recorded
    """

    server: str
    role: str
    mac: str
    uuid: str
    maker: str
    firmware: str
    version: str
    sha256: str
    drives: tuple[str, ...]
    running: str
    writings: int
    written_s: float | None = None
    login_s: float | None = None
    alone: tuple[str, ...] = ()
    written_at: float | None = None
    seen_at: float | None = None
    alike: int = 1

    @property
    def raw(self) -> bytes:
        """The record as canonical JSON: what evidence keeps as raw output."""
        return json.dumps(asdict(self), sort_keys=True, indent=1).encode()


def read_back(text: str) -> tuple[str, tuple[str, ...]]:
    """SHA-256 and serial numbers of the drives in the text of a report `written`. ValueError for another text."""
    match = READ_BACK.fullmatch(text)
    if match is None:
        raise ValueError(f"not what a server reports when it is written: {text!r}")
    return match.group(1), tuple(match.group(2).split())


def to_text(records: Sequence[Installed]) -> str:
    """The file's text; servers are sorted, so the same records give the same text."""
    servers = [asdict(one) for one in sorted(records, key=lambda one: one.server)]
    return json.dumps({"schema_version": SCHEMA_VERSION, "servers": servers}, indent=1) + "\n"


def from_text(text: str, where: str) -> dict[str, Installed]:
    """Server -> its record. RecordError, which names `where`, for a text that is no such record."""
    try:
        said = json.loads(text)
        if said["schema_version"] != SCHEMA_VERSION:
            raise RecordError(
                f"{where}: schema_version {said['schema_version']!r}, this program reads {SCHEMA_VERSION}; use what wrote it"
            )
        records = [_installed(one) for one in said["servers"]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(
            f"{where}: no record of installed servers: {type(error).__name__}: {error}; set the file aside and install the "
            "servers again"
        ) from None
    found = {one.server: one for one in records}
    if len(found) != len(records):
        raise RecordError(f"{where}: a server stands there twice; delete the older entry")
    return found


def _installed(said: Mapping[str, Any]) -> Installed:
    if extra := set(said) - {field.name for field in fields(Installed)}:
        raise ValueError(f"unknown keys {', '.join(sorted(extra))}")
    for name in _TEXTS:
        if not isinstance(said[name], str):
            raise TypeError(f"{name} is no text")
    for name in ("drives", "alone"):
        if not isinstance(said[name], list) or not all(isinstance(serial, str) for serial in said[name]):
            raise TypeError(f"{name} is no list of serial numbers")
    for name in _SECONDS:
        if said[name] is not None and (isinstance(said[name], bool) or not isinstance(said[name], int | float)):
            raise TypeError(f"{name} is no number of seconds")
    for name in _TIMES:
        if (value := said.get(name)) is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TypeError(f"{name} is no Unix time")
    for name in ("writings", "alike"):
        if isinstance(number := said.get(name, 1), bool) or not isinstance(number, int):
            raise TypeError(f"{name} is no whole number")
    return Installed(**{**said, "drives": tuple(said["drives"]), "alone": tuple(said["alone"])})


def faults(one: Installed, image: Image, mac: str, serials: Sequence[str]) -> list[str]:
    """What differs between the record of a server and the plan, as sentences; [] when its installation is proven.

    image: the built image of its role. mac, serials: of its boot port and its boot drives, from the boot intents.
    """
    root = image.parts["root"].sha256
    problems = []
    if one.mac != mac:
        problems.append(f"it was installed over {one.mac}, planned {mac}")
    if one.sha256 != root:
        problems.append(f"{one.sha256[:12]} was read back, the image of role {image.role} is {root[:12]}")
    if missing := [serial for serial in serials if serial not in one.drives]:
        problems.append(f"nothing was read back from {', '.join(missing)}")
    if strange := [serial for serial in one.drives if serial not in serials]:
        problems.append(f"{', '.join(strange)} was written and is not planned")
    if one.running.split() != [image.role, image.version, root]:
        problems.append(
            f"the node runs {one.running or 'no image that it knows of'}, planned {image.role} {image.version}"
        )
    return problems


def starts_from_each(one: Installed | None, serials: Sequence[str]) -> bool:
    """Whether the server was seen to start from each of these drives alone, since it was written."""
    return one is not None and bool(serials) and set(serials) <= set(one.alone)
