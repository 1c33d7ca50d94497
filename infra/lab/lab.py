"""A lab that is there: look at it, enter its devices, take it down. up.py builds it.

Nothing here knows a site or a Plan: the lab is described by its spec (spec.py).
"""

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from infra.lab import ib, net, node, switch
from infra.lab.client import ask
from infra.lab.paths import LabError, LabPaths, lab_home
from infra.lab.spec import LabSpec, Network, SnmpUser

PROBE_BUDGET_S = 5.0
DAEMONS = ("powerd", "workstation", "bmc", "pdu")
DOWN_BUDGET_S = 20.0
LOCK_POLL_S = 0.1
Progress = Callable[[str], None]


def down(name: str, progress: Progress | None = None) -> bool:
    """Remove the lab: processes, namespaces, mounts, control groups, files. False when there was none."""
    say = progress or (lambda text: None)
    check_root()
    with lock(name):
        spec = _known_spec(name)
        there = traces(spec)
        if there:
            began = time.monotonic()
            clean(spec)
            say(f"lab {name} is down: {time.monotonic() - began:.1f} s")
        else:
            say(f"no lab {name}")
    return there


def is_up(name: str) -> bool:
    """Whether the lab was built completely and its power daemon answers."""
    paths = LabPaths(name)
    if not paths.ready.exists():
        return False
    try:
        ask(name, PROBE_BUDGET_S, op="pid")
    except LabError:
        return False
    daemons = [*DAEMONS, *((ib.DAEMON, ib.TIMEOUTS) if load_spec(name).ib_switches else ())]
    return all(net.cgroup_pids(f"bringup-{name}/{daemon}") for daemon in daemons)


def status(name: str) -> dict[str, dict[str, Any]]:
    """{device: state} of all switches and servers: power, ready, ac, supplies, watts, boots. LabError when down."""
    if not LabPaths(name).ready.exists():
        raise LabError(f"lab {name} is not up: run `bringup lab up`")
    secret = ("accounts",)
    return {
        device: {key: value for key, value in view.items() if key not in secret}
        for device, view in ask(name, op="view").items()
    }


def load_spec(name: str) -> LabSpec:
    """The spec that a running lab was built from. LabError when there is no such lab."""
    paths = LabPaths(name)
    if not paths.spec.exists():
        running = sorted(path.parent.name for path in lab_home().glob("*/ready")) if lab_home().is_dir() else []
        raise LabError(f"no lab {name}; running: {', '.join(running) or 'none'}")
    return LabSpec.from_json(paths.spec.read_text())


def exec_argv(name: str, device: str, argv: list[str]) -> list[str]:
    """The command that runs `argv` as root on a switch or a running server, as from its console."""
    spec = load_spec(name)
    kind = spec.kind(device)
    if kind == "switch":
        return [*switch.inside(spec, device), *argv]
    if kind == "server":
        return [*node.inside(spec, device), *argv]
    raise LabError(f"{device} is a {'PDU' if kind == 'pdu' else 'simulated InfiniBand switch'}: it has no shell")


def _known_spec(name: str) -> LabSpec:
    """The lab's spec, or enough of one to find everything by name when the file is gone."""
    paths = LabPaths(name)
    try:
        return LabSpec.from_json(paths.spec.read_text())
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        nothing = Network("192.0.2.0/32", "192.0.2.0")
        return LabSpec(name, nothing, nothing, SnmpUser("", "", ""), "", "", (), (), (), (), ())


def traces(spec: LabSpec) -> bool:
    """Whether anything of this lab exists."""
    return (
        LabPaths(spec.name).root.exists()
        or bool(_own_namespaces(spec))
        or any((root / spec.scope).exists() for root in net.CGROUP_ROOTS)
        or any(Path(f"/sys/class/net/{spec.uplink(which)}").exists() for which in ("oob", "prv"))
    )


def _own_namespaces(spec: LabSpec) -> list[str]:
    """Namespaces of this lab, not of another whose name begins with this one's."""
    others = [
        f"bringup-{path.name}-"
        for path in (lab_home().iterdir() if lab_home().is_dir() else ())
        if path.is_dir() and path.name.startswith(f"{spec.name}-")
    ]
    # With the hyphen, so that the name of another lab itself (the segment of demo-metal) counts as its own too.
    return [name for name in net.namespaces(spec.scope) if not f"{name}-".startswith(tuple(others) or ("\0",))]


def clean(spec: LabSpec, *, keep_logs: bool = False) -> None:
    """Remove everything of the lab, from whatever state it is in."""
    paths = LabPaths(spec.name)
    net.cgroup_kill(spec.scope)
    own = set(_own_namespaces(spec))
    end = time.monotonic() + DOWN_BUDGET_S
    while left := [pid for pid, namespace in net.namespace_pids(spec.scope).items() if namespace in own]:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > end:
            raise LabError(f"processes of lab {spec.name} do not end: {', '.join(map(str, left))}")
        time.sleep(0.05)
    net.ip([f"link del {spec.uplink(which)}" for which in ("oob", "prv")], force=True)
    net.ip([f"netns del {name}" for name in sorted(own)], force=True)
    if keep_logs and paths.logs.is_dir():
        for path in paths.root.iterdir():
            if path != paths.logs:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    elif paths.root.exists():
        shutil.rmtree(paths.root)


@contextlib.contextmanager
def lock(name: str, wait_s: float = 0.0) -> Iterator[None]:
    """One `up`, `down`, fault or repair of a lab at a time; LabError where another goes on for longer than `wait_s`.

    Where there is no lab afterwards, its lock goes too.
    """
    path, end = lab_home() / f".{name}.lock", time.monotonic() + wait_s
    with contextlib.ExitStack() as opened:
        while not _is_ours(opened.enter_context(_open_in_lab_home(path)), path):
            opened.close()
            if time.monotonic() >= end:
                raise LabError(f"another `bringup lab` is working on lab {name}: wait for it")
            time.sleep(LOCK_POLL_S)
        try:
            yield
        finally:
            if not LabPaths(name).root.exists():
                path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # another lab is in it
        lab_home().rmdir()


def _is_ours(file: IO[str], path: Path) -> bool:
    """Whether the lock could be taken: no other has it, and no `down` that ended meanwhile has removed its file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(file.fileno()).st_ino == path.stat().st_ino
    except (BlockingIOError, FileNotFoundError):
        return False


def _open_in_lab_home(path: Path) -> IO[str]:
    """The `down` of another lab may remove the emptied folder between its making and its use: make it again."""
    while True:
        try:
            lab_home().mkdir(parents=True, exist_ok=True)
            return open(path, "w")
        except (FileNotFoundError, FileExistsError):
            if lab_home().is_file():
                raise


def check_root() -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        raise LabError("the lab needs root on Linux: it makes network namespaces and mounts")
