"""One run of the demo at a time on a machine, and nothing left of a run that was killed.

    with Claim(paths, clone, namespaces, scope, say):       the demo; LabError while another one runs

A run notes in the lab's folder which clone it is of, its process and its mark. The mark is a variable of its environment, so
that each process that it starts carries it: QEMU, dnsmasq, the BMCs, Ansible. After a run that was killed, the next one of the
same clone ends these processes, the control group of its light node, and its network namespaces with their taps. Processes without
the mark are left alone, and so is what another clone has left: `python -m infra.metal --clear` removes that too.
"""

import contextlib
import fcntl
import json
import os
import signal
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from infra.lab import net
from infra.lab.paths import LabError, LabPaths, write_private

MARK = "BRINGUP_METAL_RUN"
END_S = 10.0
"""For killed processes to be gone."""
PROC = Path("/proc")


class Claim:
    """The machine is this run's for as long as the block lasts. `foreign`: leftovers of another clone are removed as well.
    `program`: how a person calls it.
    """

    def __init__(
        self,
        paths: LabPaths,
        clone: Path,
        namespaces: Sequence[str],
        scope: str,
        say: Callable[[str], None],
        *,
        foreign: bool = False,
        program: str = "make demo-metal",
    ) -> None:
        self.paths, self.clone, self.namespaces, self.scope, self.say = paths, clone, tuple(namespaces), scope, say
        self.foreign, self.program = foreign, program
        self.mark = uuid.uuid4().hex

    @property
    def record(self) -> Path:
        return self.paths.root / "metal-run.json"

    def __enter__(self) -> "Claim":
        self.paths.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = (self.paths.root / "metal-run.lock").open("w")  # not inherited: the lock ends with this program
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            said = self._said()
            raise LabError(
                f"another {self.program} runs on this machine: process {said.get('pid', 'unknown')} of "
                f"{said.get('clone', 'an unknown clone')}. Wait for its end, or stop it: kill {said.get('pid', 'PID')}"
            ) from None
        try:
            self._clear()
        except BaseException:
            self._lock.close()
            raise
        write_private(
            self.record,
            json.dumps({"clone": str(self.clone), "pid": os.getpid(), "mark": self.mark, "began": time.time()}) + "\n",
        )
        os.environ[MARK] = self.mark
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.environ.pop(MARK, None)
        left = self._there()
        if not left and not marked(self.mark):
            self.record.unlink(missing_ok=True)
        self._lock.close()

    def _said(self) -> dict[str, object]:
        """The note of the last run; {} where there is none, or none that can be read."""
        try:
            said = json.loads(self.record.read_text())
        except (OSError, ValueError):
            return {}
        return said if isinstance(said, dict) else {}

    def _there(self) -> list[str]:
        return [name for name in self.namespaces if (net.NETNS / name).exists()]

    def _clear(self) -> None:
        """Remove what a killed run has left. LabError for what is not this clone's."""
        said, there = self._said(), self._there()
        if not said and not there:
            return
        mark = str(said.get("mark", ""))
        running = marked(mark) if mark else []
        if not there and not running:
            return
        whose = str(said.get("clone", ""))
        if whose != str(self.clone) and not self.foreign:
            what = ", ".join([*there, *(f"process {pid}" for pid in running)])
            raise LabError(
                f"a killed {self.program} of {whose or 'an unknown clone'} has left {what}. Fix: {self.program} there, or here "
                "python -m infra.metal --clear, which removes it"
            )
        self.say(
            f"A killed run has left {len(running)} processes and {', '.join(there) or 'no network'}: removing them"
        )
        end_processes(mark)
        net.cgroup_kill(self.scope)
        if there:
            net.ip([f"netns delete {name}" for name in there], force=True)
        self.paths.power_socket.unlink(missing_ok=True)
        if still := self._there():
            raise LabError(f"network namespaces stay: {', '.join(still)}. Look at: ip netns pids {still[0]}")


def marked(mark: str) -> list[int]:
    """Processes with this mark in their environment, but for this one."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for folder in PROC.glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it ended while we looked
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return sorted(found)


def end_processes(mark: str) -> None:
    """SIGKILL to each process with this mark until none is there. LabError where one stays."""
    if not mark:
        return
    end = time.monotonic() + END_S
    while left := marked(mark):
        if time.monotonic() > end:
            raise LabError(f"processes of the killed run do not end: {', '.join(map(str, left))}")
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
