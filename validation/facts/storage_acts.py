"""Acts on the shared file system that prove it and leave no trace: a canary from every node to the others, and writes.

Every act has a time budget on the node (`timeout`) and one for its connection; a node that gets neither done says so and
stops no other.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from capacity.model import Plan
from capacity.storage.load import shared
from network.drivers import answers
from network.drivers.answers import Flag, Line, Number, Source, Whole
from network.drivers.credentials import node_credentials
from network.drivers.errors import DeviceError
from network.drivers.parallel import at_once
from network.drivers.ssh import SshHost
from validation.evidence.mode import Identity
from validation.facts import node_results
from validation.facts.gather import address_of
from validation.facts.storage import clients

ACT_BUDGET_S = 20.0
"""Time for a canary on one node; it takes milliseconds on a healthy mount. `timeouts.ssh_s` comes on top."""
CANARY_B = 65536
MAKE_BUDGET_S = 120.0
"""Time in which nodes are asked in turn to make the folder: a few whose mounts hang must not stop the others."""
REMOVE_TRIES = 3
"""Nodes that are asked in turn to clean up: each may use up its budget on a mount that hangs."""
READERS = 64
"""Other nodes whose canaries a node reads; on larger sites every n-th, as with pings."""
PHASES = ("file per process", "shared file")
"""The two writes, as a record names them."""
STORAGE_WRITE = Path(__file__).parent.parent / "workloads" / "storage_write.py"

MAKE = """
import json, os, pathlib, sys
folder = pathlib.Path(json.loads(sys.argv[1])["folder"])
if not os.path.ismount(folder.parent):
    sys.exit(f"{folder.parent} is not mounted")
folder.mkdir(mode=0o700, exist_ok=True)
print(json.dumps(folder.is_dir()))
"""
WRITE_CANARY = f"""
import hashlib, json, os, pathlib, sys
request = json.loads(sys.argv[1])
content = hashlib.shake_256((request["nonce"] + " " + request["name"]).encode()).digest({CANARY_B})
path = pathlib.Path(request["folder"], request["name"])
with open(path, "wb") as file:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())
print(json.dumps(hashlib.sha256(content).hexdigest()))
"""
READ_CANARIES = """
import hashlib, json, pathlib, sys
request = json.loads(sys.argv[1])
found = {}
for name in request["names"]:
    try:
        found[name] = hashlib.sha256(pathlib.Path(request["folder"], name).read_bytes()).hexdigest()
    except OSError as error:
        found[name] = error.strerror
print(json.dumps({"nonce": request["nonce"], "read": found}))
"""
REMOVE = """
import json, pathlib, shutil, sys
folder = pathlib.Path(json.loads(sys.argv[1])["folder"])
if folder.exists():
    shutil.rmtree(folder)
print(json.dumps(not folder.exists()))
"""


class _Phase(TypedDict):
    """When a node began and ended to write, Unix times in seconds."""

    began: Number
    ended: Number


class _Phases(TypedDict):
    """What a node printed of its writes: bytes of each, and when."""

    size_b: Whole
    own: _Phase
    shared: _Phase


@dataclass(frozen=True)
class Canary:
    """One node's part: why it could not write or read, or what is left to clean up ('' else), and per other node '' or
    what it read.

    raw: what it printed of its reading, which it signs on a site that pins host keys: `signed`, or why that does not hold.
    """

    error: str = ""
    read: Mapping[str, str] = field(default_factory=dict)
    cleaned: bool = False
    raw: bytes = b""
    signed: Mapping[str, Identity] = field(default_factory=dict)
    unsigned: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class _Reading(TypedDict):
    """What READ_CANARIES prints: the nonce of the run, and per node the SHA-256 that was read, or why nothing was."""

    nonce: Line
    read: dict[Line, Line]


def canary_sha256(nonce: str, name: str) -> str:
    """The hash of a node's canary: its content follows from the run's nonce and the node's name, so that nobody says it."""
    return hashlib.sha256(hashlib.shake_256(f"{nonce} {name}".encode()).digest(CANARY_B)).hexdigest()


def canaries_read(raw: bytes, node: str) -> dict[str, str]:
    """Per other node '' or what this one read in place of its canary; UnreadableAnswer for what is no reading."""
    source = Source(node, "read canaries")
    told: Any = answers.read(_Reading, answers.load(raw.decode(errors="replace"), source), source)
    return {
        name: "" if seen == canary_sha256(told["nonce"], name) else f"read {seen}"
        for name, seen in told["read"].items()
    }


def read_by(names: Sequence[str], node: str) -> list[str]:
    """The other nodes whose canaries a node reads."""
    return [other for other in names if other != node][:: max(1, len(names) // READERS)]


def canaries(plan: Plan, store: str = "") -> dict[str, Canary]:
    """Every client writes a file that nobody had before, then reads those of the others, and says and signs what it read. Cleaned
    up after. store: id of the evidence store that the nodes sign for; '': they sign nothing."""
    names, folder = clients(plan), f"{shared(plan.site, plan.devices).mount_point}/.bringup-{secrets.token_hex(4)}"
    if not_made := _not_made(plan, names, folder):
        return dict.fromkeys(names, Canary(not_made))
    run = node_results.begin(plan, "canaries", store)
    asked = {"folder": folder, "nonce": run.nonce}
    written = _on_all(plan, names, WRITE_CANARY, Line, lambda name: {**asked, "name": name})
    there = [name for name in names if not isinstance(written[name], DeviceError)]
    wanted = {name: read_by(names, name) for name in there}
    read = _on_all(
        plan,
        there,
        node_results.PROGRAM.read_text(),
        node_results.Answer,
        lambda name: run.ordered(name, READ_CANARIES, {**asked, "names": wanted[name]}),
    )
    left = _removed(plan, sorted(names, key=lambda name: isinstance(read.get(name), DeviceError | None)), folder)
    found = {}
    for name in names:
        error = written[name] if isinstance(written[name], DeviceError) else read.get(name)
        try:
            if isinstance(error, DeviceError):
                raise error
            part = node_results.result_of(read[name], Source(name, "read canaries"))
            seen = canaries_read(part, name)
        except DeviceError as problem:
            found[name] = Canary("; ".join(filter(None, (str(problem), left))))
            continue
        unwritten = dict.fromkeys(set(wanted[name]) - set(there), "it wrote none")
        seen = {other: unwritten.get(other) or seen.get(other, "nothing was read") for other in wanted[name]}
        said = {name: node_results.signature_of(name, read[name])}
        signed, unsigned = node_results.judged(plan, run, {name: part}, said)
        found[name] = Canary(left, seen, not left, part, signed, unsigned, run.configuration())
    return found


@dataclass(frozen=True)
class WriteRate:
    """All clients at once. bytes: of all together; seconds: from the first write to the last fsync."""

    clients: int
    bytes: int
    seconds: float

    @property
    def gb_s(self) -> float:
        return self.bytes / self.seconds / 1e9

    def plain(self) -> dict[str, float]:
        """As a record keeps it."""
        return {"clients": self.clients, "bytes": self.bytes, "seconds": round(self.seconds, 4), "gb_s": self.gb_s}


@dataclass(frozen=True)
class Writes:
    """Checkpoint writes: a file each, one file for all; or what went wrong.

    raw: the parts of all nodes, side by side. signed, unsigned: whose signature on its part holds, and why others' do not.
    """

    own: WriteRate | None = None
    shared: WriteRate | None = None
    error: str = ""
    raw: bytes = b""
    signed: Mapping[str, Identity] = field(default_factory=dict)
    unsigned: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def rates(texts: Mapping[str, str]) -> tuple[WriteRate, WriteRate]:
    """(to files of their own, to a shared one) from what each node printed; UnreadableAnswer where that is none of a write."""
    times = [_phases(node, text) for node, text in texts.items()]
    written_b = sum(one["size_b"] for one in times)
    if not times or not written_b:
        raise Source("the nodes", "write checkpoints").unreadable("bytes that were written", "none")

    def rate(phase: str) -> WriteRate:
        took_s = max(one[phase]["ended"] for one in times) - min(one[phase]["began"] for one in times)
        return WriteRate(len(times), written_b, took_s)

    return rate("own"), rate("shared")


def _phases(node: str, text: str) -> Any:
    source = Source(node, "write checkpoints")
    return answers.read(_Phases, answers.load(text, source), source)


def checkpoint_writes(plan: Plan, size_b: int, budget_s: float, store: str = "") -> Writes:
    """All GPU nodes write size_b bytes each, first to files of their own, then to a shared one. Cleaned up after.

    budget_s: for each of the two phases, with the wait for the slowest login. store: as for `canaries`.
    """
    names = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    folder = f"{shared(plan.site, plan.devices).mount_point}/.bringup-{secrets.token_hex(4)}"
    ranks = {name: rank for rank, name in enumerate(names)}

    def request(name: str) -> dict[str, Any]:
        return {"folder": folder, "rank": ranks[name], "clients": len(names), "size_b": size_b, "budget_s": budget_s}

    if not_made := _not_made(plan, names, folder):
        return Writes(error=not_made)
    run = node_results.begin(plan, "storage", store)
    program = STORAGE_WRITE.read_text()
    said = _on_all(
        plan,
        names,
        node_results.PROGRAM.read_text(),
        node_results.Answer,
        lambda name: run.ordered(name, program, request(name)),
        budget_s=2 * budget_s,
    )
    left = _removed(plan, sorted(names, key=lambda name: isinstance(said[name], DeviceError)), folder)
    failed = [str(answer) for answer in said.values() if isinstance(answer, DeviceError)]
    if failed:
        return Writes(error="; ".join(filter(None, (*failed, left))))
    try:
        parts = {name: node_results.result_of(said[name], Source(name, "write checkpoints")) for name in names}
        own, one = rates({name: part.decode(errors="replace") for name, part in parts.items()})
    except DeviceError as error:
        return Writes(error="; ".join(filter(None, (str(error), left))))
    signatures = {name: node_results.signature_of(name, said[name]) for name in names}
    signed, unsigned = node_results.judged(plan, run, parts, signatures)
    raw = node_results.side_by_side(parts)
    return Writes(own, one, left, raw, signed, unsigned, run.configuration())


def _not_made(plan: Plan, names: Sequence[str], folder: str) -> str:
    """Make a folder of the shared file system from the first of these nodes that can; '', or why none did.

    One node makes it before any other looks: GlusterFS showed a folder that several made at once to some of them only.
    """
    end = time.monotonic() + MAKE_BUDGET_S
    said = "no node can be asked"
    for name in names:
        answer = _on_all(plan, [name], MAKE, Flag, lambda _: {"folder": folder})[name]
        if answer is True:
            return ""
        said = str(answer) if isinstance(answer, DeviceError) else f"{name}: {folder} is not there after it was made"
        if time.monotonic() > end:
            break
    return f"no node made {folder}, the last one says: {said}"


def _removed(plan: Plan, names: Sequence[str], folder: str) -> str:
    """Remove a folder of the shared file system from the first of these nodes that can; '', or what a person must do."""
    said = "no node can be asked"
    for name in names[:REMOVE_TRIES]:
        answer = _on_all(plan, [name], REMOVE, Flag, lambda _: {"folder": folder})[name]
        if answer is True:
            return ""
        said = str(answer) if isinstance(answer, DeviceError) else f"{name}: it is still there"
    return f"remove {folder} by hand: {said}"


def _on_all(
    plan: Plan,
    names: list[str],
    program: str,
    shape: Any,
    request: Callable[[str], Any],
    budget_s: float = ACT_BUDGET_S,
) -> dict[str, Any]:
    """What the program printed on each node, as data of this shape; the DeviceError of a node where it did not get done."""
    credentials, ssh_s = node_credentials(plan.site), plan.site.timeouts.ssh_s
    operation = "act on shared storage"

    def act(name: str) -> Any:
        host = SshHost(name, address_of(plan, name, "provisioning"), credentials, budget_s + ssh_s)
        timeout = ("timeout", "--kill-after=1", f"{budget_s:g}")
        try:
            said = host.program(program, request(name), python=(*timeout, "python3"), operation=operation)
            return answers.read(shape, said, Source(name, operation, "run python3 on the node by hand"))
        except DeviceError as error:
            return error

    return at_once(names, act)
