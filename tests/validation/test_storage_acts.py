"""Acts on shared storage against nodes in memory: what one node does never hides the others, and what stays is named."""

import ast
import base64
import errno
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from capacity.model import Plan
from capacity.storage.load import shared
from network.drivers.errors import DeviceTimeout
from network.drivers.ssh import Completed, SshHost
from tests.plans import plan_of
from tests.validation.bench import pinned_to, signature
from validation.evidence.results import NAMESPACE, Place, message_of
from validation.facts import node_results
from validation.facts import storage_acts as acts
from validation.facts.storage import clients
from validation.workloads import storage_write

PHASE = {"began": 0.0, "ended": 1.0}
WRITTEN = {"size_b": 1 << 20, "own": PHASE, "shared": {"began": 2.0, "ended": 2.5}}


def measured(result: bytes, message: str = "", signed: str = "") -> str:
    """What a node prints of its writes."""
    return json.dumps({"result": base64.b64encode(result).decode(), "message": message, "signature": signed})


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


def request_of(program: str) -> Any:
    """What a program is asked (ssh.with_request)."""
    return json.loads(ast.literal_eval(program.splitlines()[1].removeprefix("sys.argv.append(").removesuffix(")")))


def read_by(program: str, **odd: str) -> bytes:
    """What a node prints of the canaries that it is asked to read."""
    asked = request_of(program)["request"]
    read = {name: acts.canary_sha256(asked["nonce"], name) for name in asked["names"]}
    return json.dumps({"nonce": asked["nonce"], "read": read | odd}).encode()


class Node(SshHost):
    """Answers by the program that it is given; `odd` nodes answer otherwise: {(act, node or '*'): text, None for none}."""

    odd: dict[tuple[str, str], str | None]
    removals: list[str]

    def __init__(self, name: str, *_: object) -> None:
        self.name = name

    def run(self, command: Any, *, stdin: bytes = b"", **rest: Any) -> Completed:
        program = stdin.decode()
        act = next(act for act, text in PROGRAMS.items() if program.endswith(text))
        act = "read" if act == "measure" and request_of(program)["program"] == acts.READ_CANARIES else act
        if act == "remove":
            self.removals.append(self.name)
        out = self.odd.get((act, self.name), self.odd.get((act, "*"), ANSWERS[act](program)))
        if out is None:
            raise DeviceTimeout(self.name, act, "an end within 20 s", "none", "look at the node")
        return Completed(0, out, "", 0.1)


PROGRAMS = {
    "make": acts.MAKE,
    "write": acts.WRITE_CANARY,
    "remove": acts.REMOVE,
    "measure": node_results.PROGRAM.read_text(),
}
ANSWERS: dict[str, Callable[[str], str]] = {
    "make": lambda _: "true",
    "write": lambda _: '"hash"',
    "read": lambda program: measured(read_by(program)),
    "remove": lambda _: "true",
    "measure": lambda _: measured(json.dumps(WRITTEN).encode()),
}


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., type[Node]]:
    """Let these odd answers be given; returns the class, which keeps who removed."""
    monkeypatch.setattr(acts, "SshHost", Node)
    monkeypatch.setattr(acts, "node_credentials", lambda _: SimpleNamespace())
    monkeypatch.setattr("secrets.token_hex", lambda _: "0123abcd")

    def give(odd: dict[tuple[str, str], str | None]) -> type[Node]:
        Node.odd, Node.removals = odd, []
        return Node

    return give


def test_canaries_are_read_by_all_and_removed_once(plan, nodes):
    used = nodes({})
    found = acts.canaries(plan)
    assert all(one.error == "" and one.cleaned and not any(one.read.values()) for one in found.values())
    assert used.removals == [clients(plan)[0]]


@pytest.mark.parametrize("act", ["write", "read"])
def test_a_node_that_prints_no_json_fails_alone(plan, nodes, act):
    nodes({(act, "gpu002"): "Traceback"})
    found = acts.canaries(plan)
    assert found["gpu002"].error.startswith("gpu002: act on shared storage: expected JSON, saw Traceback")
    assert {name for name, one in found.items() if one.error} == {"gpu002"}


@pytest.mark.parametrize("first", [None, "false", "Traceback"])
def test_where_the_first_node_cannot_make_the_folder_the_next_does(plan, nodes, first):
    nodes({("make", clients(plan)[0]): first})
    assert all(one.error == "" for one in acts.canaries(plan).values())
    assert acts.checkpoint_writes(plan, 2**20, 5.0).error == ""


def test_a_folder_that_no_node_makes_is_the_error_of_all(plan, nodes):
    used = nodes({("make", "*"): None})
    folder = f"{shared(plan.site, plan.devices).mount_point}/.bringup-0123abcd"
    said = f"no node made {folder}, the last one says: {clients(plan)[-1]}: "
    assert all(one.error.startswith(said) for one in acts.canaries(plan).values())
    assert acts.checkpoint_writes(plan, 2**20, 5.0).error.startswith(f"no node made {folder}")
    assert used.removals == []


@pytest.mark.parametrize("first", [None, "false", "Traceback"])
def test_where_the_first_node_cannot_remove_the_next_does(plan, nodes, first):
    names = clients(plan)
    used = nodes({("remove", names[0]): first})
    assert all(one.cleaned for one in acts.canaries(plan).values())
    assert used.removals == names[:2]


def test_nodes_that_answered_are_asked_first_to_remove(plan, nodes):
    names = clients(plan)
    used = nodes({("write", names[0]): None, ("read", names[1]): None})
    acts.canaries(plan)
    assert used.removals == [names[2]]


def test_a_folder_that_nobody_can_remove_is_named(plan, nodes):
    used = nodes({("remove", "*"): None})
    found = acts.canaries(plan)
    folder = f"{shared(plan.site, plan.devices).mount_point}/.bringup-0123abcd"
    assert all(one.error.startswith(f"remove {folder} by hand: ") and not one.cleaned for one in found.values())
    assert len(used.removals) == acts.REMOVE_TRIES
    assert f"remove {folder} by hand: " in acts.checkpoint_writes(plan, 2**20, 5.0).error


def test_a_canary_that_reads_otherwise_is_named_and_its_hash_is_said_by_nobody(plan, nodes, tmp_path):
    """The programs themselves, on a folder of this machine: what is read follows from nonce and name alone."""
    asked = {"folder": str(tmp_path), "nonce": "ab" * 16}

    def ran(program: str, **request: Any) -> bytes:
        argv = [sys.executable, "-c", program, json.dumps({**asked, **request})]
        return subprocess.run(argv, capture_output=True, check=True).stdout

    for name in ("gpu001", "gpu002", "gpu003"):
        assert json.loads(ran(acts.WRITE_CANARY, name=name)) == acts.canary_sha256(asked["nonce"], name)
    (tmp_path / "gpu002").write_bytes(b"stale")
    (tmp_path / "gpu003").unlink()
    found = acts.canaries_read(ran(acts.READ_CANARIES, names=["gpu001", "gpu002", "gpu003"]), "gpu004")
    assert (found["gpu001"], found["gpu003"]) == ("", "read No such file or directory")
    assert found["gpu002"] == f"read {hashlib.sha256(b'stale').hexdigest()}"


def test_files_of_a_measurement_are_removed_by_a_node_that_wrote(plan, nodes):
    used = nodes({("measure", "gpu001"): None})
    found = acts.checkpoint_writes(plan, 2**20, 5.0)
    assert found.error.startswith("gpu001: ")
    assert "by hand" not in found.error
    assert used.removals == ["gpu002"]
    nodes({})
    assert acts.checkpoint_writes(plan, 2**20, 5.0).error == ""


def test_rates_are_those_of_all_nodes_together(plan, nodes):
    late = {**WRITTEN, "own": {"began": 0.5, "ended": 4.0}}
    nodes({("measure", "gpu002"): measured(json.dumps(late).encode())})
    found = acts.checkpoint_writes(plan, 2**20, 5.0)
    assert (found.own, found.shared) == (acts.WriteRate(4, 4 << 20, 4.0), acts.WriteRate(4, 4 << 20, 0.5))
    parts = json.loads(found.raw)["parts"]
    assert acts.rates(parts) == (found.own, found.shared)
    assert (found.signed, found.unsigned, found.configuration) == ({}, {}, {})


@pytest.mark.parametrize("said", [b"", b"[]", b'{"own": {}}', b'{"size_b": 1, "own": {"began": 1}, "shared": {}}'])
def test_a_node_that_prints_no_times_spoils_the_measurement(plan, nodes, said):
    nodes({("measure", "gpu002"): measured(said)})
    assert acts.checkpoint_writes(plan, 2**20, 5.0).error.startswith("gpu002: write checkpoints")
    nodes({("measure", "gpu003"): json.dumps({"result": "no base64", "message": "", "signature": ""})})
    assert "a result in base64" in acts.checkpoint_writes(plan, 2**20, 5.0).error


def test_each_node_signs_the_times_of_its_own_writes(plan, nodes, tmp_path):
    """gpu001 and gpu002 have keys, gpu003 signs with that of gpu001, and gpu004 signs nothing."""
    keys = {node: Ed25519PrivateKey.generate() for node in ("gpu001", "gpu002", "gpu003")}
    pinned = pinned_to(plan, tmp_path, keys)
    result = json.dumps(WRITTEN).encode()

    def said(node: str, key: Ed25519PrivateKey) -> str:
        nonce = "0123abcd" * 4
        at = datetime.now(UTC).isoformat()
        digest = hashlib.sha256(result).hexdigest()
        message = message_of(Place(plan.site.name, "a-store"), node, "storage-0123abcd", nonce, at, digest)
        return measured(result, message, signature(message, key, NAMESPACE))

    signer = {"gpu001": "gpu001", "gpu002": "gpu002", "gpu003": "gpu001"}
    nodes({("measure", node): said(node, keys[by]) for node, by in signer.items()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("secrets.token_hex", lambda count: "0123abcd" * (count // 4))
        found = acts.checkpoint_writes(pinned, 2**20, 5.0, "a-store")
    assert (found.error, sorted(found.signed)) == ("", ["gpu001", "gpu002"])
    assert "no pinned host key of gpu003" in found.unsigned["gpu003"]
    assert "no signed result" in found.unsigned["gpu004"]
    assert found.configuration == {"run": {"id": "storage-0123abcd", "nonce": "0123abcd" * 4}}


def test_a_file_that_another_client_makes_at_the_same_moment_is_written_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Seen on GlusterFS: FileExistsError of a call that makes a file and does not ask for a new one."""
    opened, refusals = os.open, iter([True, True, False])

    def refused(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT and next(refusals):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", refused)
    storage_write.write(tmp_path / "file", 3, 5)
    assert not list(refusals)
    assert (tmp_path / "file").stat().st_size == 8
