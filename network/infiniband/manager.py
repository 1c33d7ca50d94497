"""A host that runs a subnet manager, over SSH: read, compare, apply, remove. Same verbs as a switch.

    host = ManagerHost("ctl01", "10.77.1.15", credentials, start_s=30)
    host.compare(wanted)     what a push would change, '- ' and '+ ' lines; [] when nothing
    host.apply(wanted)       packages, files, unit; returns when this host's subnet manager is master or standby
    host.remove()            no subnet manager
    host.fabric()            what infiniband-diags say of the whole fabric, raw
    host.diagnose()          what ibdiagnet writes of it, raw

`Wanted` carries the GUID of the host's own adapter port: a host that has no such port is another one, and nothing is
started on it. All calls raise DeviceErrors that name the host and keep a total time budget.
"""

import difflib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from typing_extensions import TypedDict

from inventory.debian import upstream
from network.drivers import answers
from network.drivers.answers import Flag, Line, Number, Source, Text, Whole
from network.drivers.credentials import SshCredentials
from network.drivers.errors import DeviceTimeout, IdentityMismatch, PushIncomplete, Unreachable
from network.drivers.ssh import SshHost
from network.infiniband.ibdiagnet import SECTIONS
from network.infiniband.subnet import CONFIG, LOG, PACKAGES, PARTITIONS, ROOTS, UNIT, UNIT_FILE

PROGRAM = Path(__file__).with_name("on_host.py").read_text()
PATHS = (CONFIG, PARTITIONS, ROOTS, UNIT_FILE)
READ_BUDGET_S = 60.0
APPLY_BUDGET_S = 600.0
"""Package lists and packages over a slow mirror (twice 240 s), then the start."""
START_S = 120.0
"""Until a started manager is master or standby: a first sweep of 8,192 adapters takes up to 29 s (measured with ibsim)."""
ELECTION_S = 15.0
"""How long a running manager may be between master and standby while it is read: one that met another or lost it elects."""
FABRIC_BUDGET_S = 300.0
POLL_S = 0.5
WHOLE_DIAGNOSIS = ("--get_phy_info", "--routing", "--sharp")
"""ibdiagnet's options (IBUtils2 Utility Documentation 2.23): bit errors and FEC of each port, adaptive routing, SHARP trees."""
COUNTERS_ALONE: tuple[str, ...] = ()
"""Counters of ports are collected without any option."""


class _Managers(TypedDict):
    """What sminfo says of the host's own subnet manager and of the master; '' for no answer."""

    own: Text
    master: Text


class _State(TypedDict):
    """Answer of on_host.py to `read`, `apply` and `remove`."""

    files: dict[Line, Text]
    newer: list[Line]
    unit: dict[Line, Line]
    packages: dict[Line, Line]
    ports: list[Line]
    manager: _Managers
    engine: Line


class _Fabric(TypedDict):
    """Answer to `fabric`: texts of infiniband-diags, for network.infiniband.parse."""

    ibnetdiscover: Text
    ibqueryerrors: Text
    manager: _Managers
    engine: Line
    pkeys: dict[Line, Text]
    lanes: dict[Line, Text]
    arbitration: dict[Line, Text]


class _Diagnosed(TypedDict):
    """Answer to `diagnose`: files of ibdiagnet, for network.infiniband.ibdiagnet."""

    began: Number
    ended: Number
    db_csv: Text
    net_dump_ext: Text
    sharp: Text
    sharp_am: Line


class _Watch(TypedDict):
    """Answer to `watch`."""

    master: Flag
    sent: Whole
    lost: list[Line]
    watched_s: Number


Shape = TypeVar("Shape")


@dataclass(frozen=True)
class Wanted:
    """What a host shall run: files {path: text}, its adapter port, versions {package: upstream version} to install."""

    guid: str
    files: Mapping[str, str]
    pins: Mapping[str, str] = field(default_factory=dict)


class ManagerHost:
    """One host; `ready_s` is how long a host that boots may take until it answers SSH."""

    def __init__(
        self,
        name: str,
        address: str,
        credentials: SshCredentials,
        *,
        budget_s: float = READ_BUDGET_S,
        ready_s: float = 0.0,
        start_s: float = START_S,
    ) -> None:
        self.name, self.ready_s, self.start_s, self.budget_s = name, ready_s, start_s, budget_s
        self._ssh = SshHost(name, address, credentials, budget_s)

    def read(self) -> dict[str, Any]:
        """Files, unit, packages, adapter ports, what the manager answers, its routing engine (keys as in on_host.py)."""
        return self._data("read", {}, self.budget_s, _State)

    def compare(self, wanted: Wanted) -> list[str]:
        """Lines by which the host differs from what is wanted: '+ ' comes with a push, '- ' goes."""
        state = self.read()
        self._check_identity(wanted, state)
        return differences(wanted, state)

    def apply(self, wanted: Wanted) -> list[str]:
        """Bring the host to what is wanted and return the lines that changed; nothing is restarted when none did.

        Raises IdentityMismatch before the first write when the adapter is another one, and PushIncomplete when the
        manager does not come up.
        """
        self._wait_ready()
        state = self.read()
        self._check_identity(wanted, state)
        changes = differences(wanted, state)
        if not changes:
            return []
        request = {"files": dict(wanted.files), "pins": dict(wanted.pins), "guid": wanted.guid, "start_s": self.start_s}
        state = self._data("apply", request, APPLY_BUDGET_S, _State)
        if left := differences(wanted, state):
            raise PushIncomplete(
                self.name,
                "start the subnet manager",
                "files, unit and port as planned",
                "; ".join(left[:4]),
                f"look at `journalctl -u {UNIT}` and {LOG} on the host",
            )
        return changes

    def remove(self) -> None:
        """Stop the manager, keep it from starting, remove its files; the packages stay."""
        self._call("remove", {}, self.budget_s)

    def fabric(self, budget_s: float = FABRIC_BUDGET_S) -> dict[str, Any]:
        """Raw answers of the whole fabric as seen from this host (keys as in on_host.py)."""
        return self._data("fabric", {"budget_s": budget_s / 3}, budget_s, _Fabric)

    def diagnose(
        self, budget_s: float, options: Sequence[str] = WHOLE_DIAGNOSIS, not_before: float = 0.0
    ) -> dict[str, Any]:
        """Files of ibdiagnet (keys as in on_host.py), of a run that starts at `not_before`, in seconds since 1970."""
        sections = {name: list(columns) for name, columns in SECTIONS.items()}
        request = {"budget_s": budget_s, "options": list(options), "not_before": not_before, "sections": sections}
        waits_s = max(0.0, not_before - time.time())
        return self._data("diagnose", request, waits_s + budget_s + self.budget_s, _Diagnosed)

    def watch(self, lids: Sequence[int], budget_s: float) -> dict[str, Any]:
        """Ask these ports by LID until this host's manager is the master: {master, sent, lost, watched_s}."""
        request = {"lids": [str(lid) for lid in lids], "budget_s": budget_s}
        return self._data("watch", request, budget_s + self.budget_s, _Watch)

    def stop(self) -> None:
        """Stop the service; its configuration stays."""
        self._call("stop", {}, self.budget_s)

    def start(self) -> None:
        """Start the service as it is configured."""
        self._call("start", {}, self.budget_s)

    def _check_identity(self, wanted: Wanted, state: Mapping[str, Any]) -> None:
        if state["ports"] and wanted.guid not in state["ports"]:
            raise IdentityMismatch(
                self.name,
                "compare identity",
                f"adapter port {wanted.guid}",
                f"{', '.join(state['ports'])}",
                "find which host answers at this address, or correct assets.csv; nothing was written",
            )

    def _wait_ready(self) -> None:
        """Until the host takes logins: it may have been powered on a moment ago."""
        end = time.monotonic() + self.ready_s
        while True:
            try:
                self._ssh.run("true", budget_s=min(self.budget_s, max(1.0, self.ready_s)))
            except (Unreachable, DeviceTimeout):
                if time.monotonic() > end:
                    raise
                time.sleep(POLL_S)
            else:
                return

    def _data(self, verb: str, request: Mapping[str, Any], budget_s: float, shape: type[Shape]) -> dict[str, Any]:
        """The answer to a verb as plain data of this shape."""
        said = self._call(verb, request, budget_s)
        return cast(dict[str, Any], answers.read(shape, said, self._source(verb)))

    def _source(self, verb: str) -> Source:
        return Source(self.name, f"subnet manager: {verb}", "run infiniband-diags on the host by hand")

    def _call(self, verb: str, request: Mapping[str, Any], budget_s: float) -> dict[str, Any]:
        whole = {
            "paths": list(PATHS),
            "unit": UNIT,
            "packages": list(PACKAGES),
            "log": LOG,
            "election_s": ELECTION_S,
            **request,
        }
        text = f"sys.argv.insert(1, {verb!r})\n{PROGRAM}"
        said = self._ssh.program(text, whole, budget_s=budget_s, operation=f"subnet manager: {verb}")
        answer = answers.read(dict[str, Any], said, self._source(verb))
        if "error" in answer:
            raise PushIncomplete(
                self.name,
                f"subnet manager: {verb}",
                "success",
                str(answer["error"]),
                "correct this on the host, then run it again",
            )
        return answer


def differences(wanted: Wanted, state: Mapping[str, Any]) -> list[str]:
    """'path: + line' and 'path: - line' for files; '~ …' for packages, unit and a manager that runs on older files."""
    changes = []
    for package in PACKAGES:
        have, pin = state["packages"].get(package, ""), wanted.pins.get(package, "")
        if not have or (pin and upstream(have) != pin):
            changes.append(f"~ package {package}: {have or 'missing'} => {pin or 'newest'}")
    for path, text in wanted.files.items():
        old = state["files"].get(path, "").splitlines()
        for line in difflib.unified_diff(old, text.splitlines(), lineterm="", n=0):
            if line[0] in "+-" and not line.startswith(("+++", "---")):
                changes.append(f"{line[0]} {path}: {line[1:]}")
    unit = {"active": "", "enabled": "", **state["unit"]}
    if unit["active"] != "active":
        changes.append(f"~ {UNIT}: {unit['active']} => active")
    elif state["newer"]:
        changes.append(f"~ {UNIT}: runs with older files than {', '.join(state['newer'])} => restarted")
    elif not any(word in state["manager"]["own"] for word in ("MASTER", "STANDBY")):
        changes.append(f"~ {UNIT}: runs and is neither master nor standby => restarted")
    if unit["enabled"] != "enabled":
        changes.append(f"~ {UNIT}: {unit['enabled'] or 'unknown'} => enabled")
    return changes
