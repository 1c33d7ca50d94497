"""Faults of storage servers: daemons that die, and a data disk that is really full."""

import os
import signal
from pathlib import Path

from infra.lab import disk, net, node
from infra.lab.fault import Arguments, SoftwareFault, Undo
from infra.lab.paths import LabError, LabPaths
from infra.lab.spec import LabSpec

FILLER = ".filled-by-a-fault"
LEFT_B = 4 * 1024**2
"""What the filler leaves free, for the file system's own notes about it."""
DAEMONS = ("glusterd", "glusterfsd")


def lose(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    """Stop the storage service of a server and kill its bricks, as a crash would."""
    server = _server(spec, arguments)
    node.run(spec, server, "systemctl", "stop", "glusterd.service")
    for pid in net.cgroup_pids(f"{spec.scope}/{server}"):
        if _command(pid) in DAEMONS:
            os.kill(pid, signal.SIGKILL)
    return f"storage daemons of {server} have died", {"server": server}


def find_again(spec: LabSpec, undo: Undo) -> None:
    """Start the service, which starts its bricks. Clients reconnect by themselves."""
    node.run(spec, undo["server"], "systemctl", "start", "glusterd.service")


def fill(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    """Fill a server's data disk. LabError on a machine where the disk is a folder, which has no end."""
    server = _server(spec, arguments)
    filler = _data(spec, server) / FILLER
    if not disk.is_bounded(LabPaths(spec.name).device(server)):
        raise LabError(f"the data disk of {server} has no end: this machine has no loop devices to make one")
    handle = os.open(filler, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        room = os.fstatvfs(handle)
        # Blocks that are reserved and not written: as full as written ones, and free for the disk behind the image.
        os.posix_fallocate(handle, 0, max(1, room.f_bavail * room.f_frsize - LEFT_B))
    finally:
        os.close(handle)
    return f"data disk of {server} is full", {"server": server}


def empty(spec: LabSpec, undo: Undo) -> None:
    """Remove what filled the disk."""
    (_data(spec, undo["server"]) / FILLER).unlink(missing_ok=True)


def _server(spec: LabSpec, arguments: Arguments) -> str:
    if len(arguments) > 1:
        raise LabError("this fault takes one storage server")
    servers = [server.name for server in spec.servers if server.role in disk.ROLES]
    name = arguments[0] if arguments else next(iter(servers), "")
    if name not in servers:
        raise LabError(f"{name or 'nothing'} is no storage server; there are {', '.join(servers) or 'none'}")
    return name


def _data(spec: LabSpec, server: str) -> Path:
    """The data disk as the server sees it: it is mounted in the server's own mount namespace only."""
    return Path(f"/proc/{node.running_pid(spec, server)}/root{disk.MOUNT_POINT}")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # it has ended
        return ""


STORAGE_FAULTS = {
    "storage-lost": SoftwareFault("the daemons of a storage server die", "[SERVER]", lose, find_again),
    "disk-full": SoftwareFault("the data disk of a storage server is full", "[SERVER]", fill, empty),
}
