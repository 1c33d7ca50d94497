#!/usr/bin/python3
"""Settings in the firmware of a server's InfiniBand adapters (link type, relaxed ordering, ATS), by mlxconfig.

    nic_settings.py show [FILE]      what the next boot has that differs from FILE, as one JSON object
    nic_settings.py apply [FILE]     set what differs, then show; exit 1 where something still does

FILE (default /etc/bringup/nic-settings.json): "settings" {name in mlxconfig: number} and "guids", of planned adapters. Only these
are touched: a link type on another adapter would take a network away. `restart` names adapters that run other values than the
next boot does. Standard library, and mlxconfig of NVIDIA's MFT or mstconfig of the package mstflint. Needs root.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

SYS = Path("/sys")
WANTED = "/etc/bringup/nic-settings.json"
PROGRAMS = ("mlxconfig", "mstconfig")
BUDGET_S = 60
"""For one adapter: a query takes 1 to 3 s; not confirmed in a document."""
ROW = re.compile(r"^[* ]\s*([A-Z][A-Z0-9_]*)\s+(\S+)\s+(\S+)\s+(\S+)\s*$", flags=re.MULTILINE)
"""Name, default, current and next boot, as `--enable_verbosity query` prints them; `*` marks values that are not the default."""
NUMBER = re.compile(r"(?:.*\()?(0x[0-9a-fA-F]+|\d+)\)?")


class SettingsError(Exception):
    """Why adapters cannot be read or set, with what to do."""


def run(*argv: str) -> str:
    """stdout of a command. SettingsError with what it said where it fails or outlives its budget."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=BUDGET_S, check=False)
    except subprocess.TimeoutExpired:
        raise SettingsError(f"{' '.join(argv[:4])}: no end within {BUDGET_S} s") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-200:]
        raise SettingsError(f"{' '.join(argv[:6])}: exit status {done.returncode}: {said}")
    return done.stdout


def program() -> str:
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found
    raise SettingsError("neither mlxconfig nor mstconfig is installed: NVIDIA's MFT, or the package mstflint")


def guids_of(device: Path) -> Iterator[str]:
    """GUIDs of an RDMA device, 16 hex digits: its own, and those of its ports."""
    yield (device / "node_guid").read_text().strip().replace(":", "")
    for gid in sorted(device.glob("ports/*/gids/0")):
        yield gid.read_text().strip().replace(":", "")[16:]


def adapters(planned: Sequence[str]) -> dict[str, str]:
    """PCI address by GUID of the planned adapters. SettingsError names those that are not there."""
    found = {
        guid: device.joinpath("device").resolve().name
        for device in sorted((SYS / "class/infiniband").glob("*"))
        for guid in guids_of(device)
        if guid in planned
    }
    if not planned:
        raise SettingsError("assets.csv has no GUID of an adapter of this server: nothing is set")
    if lacking := sorted(set(planned) - set(found)):
        raise SettingsError(
            f"no adapter has the GUID {', '.join(lacking)}: compare assets.csv with ibstat on this server"
        )
    return found


def number(shown: str) -> int:
    """3 for `IB(3)` and for `3`. SettingsError for what has no number."""
    match = NUMBER.fullmatch(shown)
    if match is None:
        raise SettingsError(f"{shown!r} is no value with a number")
    return int(match.group(1), 0)


def read(pci: str, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """(value in force, value of the next boot) by name."""
    said = run(program(), "-d", pci, "--enable_verbosity", "query", *names)
    rows = {name: (number(now), number(after)) for name, _, now, after in ROW.findall(said) if name in names}
    if lacking := sorted(set(names) - set(rows)):
        raise SettingsError(
            f"{pci}: mlxconfig shows no {', '.join(lacking)}: this adapter or its firmware does not have it"
        )
    return rows


def show(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """`differs` by PCI address {name: [next boot, wanted]}; `restart`: addresses that run other values than their next boot."""
    differs: dict[str, dict[str, list[int]]] = {}
    restart: list[str] = []
    for pci in sorted(set(adapters(wanted["guids"]).values())):
        seen = read(pci, list(wanted["settings"]))
        wrong = {name: [seen[name][1], value] for name, value in wanted["settings"].items() if seen[name][1] != value}
        differs |= {pci: wrong} if wrong else {}
        restart += [pci] if any(now != after for now, after in seen.values()) else []
    return {"differs": differs, "restart": restart}


def apply(wanted: Mapping[str, Any]) -> list[str]:
    """Set what differs; what was done."""
    done = []
    for pci, wrong in show(wanted)["differs"].items():
        pairs = [f"{name}={value}" for name, (_, value) in wrong.items()]
        run(program(), "-y", "-d", pci, "set", *pairs)
        done.append(f"{pci}: {' '.join(pairs)}")
    return done


def main(argv: Sequence[str]) -> int:
    if len(argv) not in (1, 2) or argv[0] not in ("show", "apply"):
        print(__doc__, file=sys.stderr)
        return 2
    said: dict[str, Any] = {"done": [], "differs": {}, "restart": [], "error": ""}
    try:
        wanted = json.loads(Path(argv[1] if len(argv) == 2 else WANTED).read_text())
        if argv[0] == "apply":
            said["done"] = apply(wanted)
        said |= show(wanted)
    except (SettingsError, OSError, ValueError, KeyError) as error:
        said["error"] = str(error)
    print(json.dumps(said))
    return 1 if said["error"] or (said["differs"] and argv[0] == "apply") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
