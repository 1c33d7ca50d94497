"""Power actions that a server's BMC was asked for and that its power state followed: the last one of each server.

    Bmc(…, acted=recorder(folder_of(var_dir(site.name)), "gpu001", serial))     writes power-acts/gpu001.json
    kept(folder)["gpu001"]                                                      PowerAct(…, "On", "Off", "On", …)

Pulumi, roll-outs of firmware and `bringup bmc restart` write them; the check of S016 reads them.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from inventory.paths import read_file, write_file

FOLDER = "power-acts"
"""Its name in the folder of a site's outputs."""
ACT_BYTES = 4096
TEXT = re.compile(r"[ -~]{1,200}")


class PowerActError(Exception):
    """A record of a power action that cannot be read; the message names the file."""


@dataclass(frozen=True)
class PowerAct:
    """One action. reset: Redfish ResetType; before, after: PowerState as read before it and once it was reached; at: Unix time.

    serial: of the server as assets.csv had it when it was asked.
    """

    server: str
    serial: str
    reset: str
    before: str
    after: str
    at: float


def folder_of(outputs: Path) -> Path:
    """Where the records lie in the folder of a site's outputs."""
    return outputs / FOLDER


def recorder(folder: Path, server: str, serial: str) -> Callable[[str, str, str], None]:
    """What writes (reset, before, after) of a server as its last power action."""

    def write(reset: str, before: str, after: str) -> None:
        act = PowerAct(server, serial, reset, before, after, round(time.time(), 3))
        write_file(folder / f"{server}.json", json.dumps(asdict(act), indent=1) + "\n", durable=True)

    return write


def kept(folder: Path) -> dict[str, PowerAct]:
    """The last power action of each server that has one. PowerActError for a file that is no such record."""
    return {act.server: act for act in map(_read, sorted(folder.glob("*.json")))}


def _read(path: Path) -> PowerAct:
    try:
        act = PowerAct(**json.loads(read_file(path, ACT_BYTES)))
        texts = (act.server, act.serial, act.reset, act.before, act.after)
        if act.server != path.stem or not all(isinstance(text, str) and TEXT.fullmatch(text) for text in texts):
            raise ValueError("another shape")
        if isinstance(act.at, bool) or not isinstance(act.at, int | float):
            raise TypeError("no time")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise PowerActError(
            f"{path}: no record of a power action ({error}); remove the file and restart the server"
        ) from None
    return act
