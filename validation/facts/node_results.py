"""What the ranks of a load kept on their nodes, and each node's signature on its own part of it.

    run = begin(plan, "collectives", store)                  # a name and a nonce; the nodes sign where the site pins host keys
    script += run.step("/var/tmp/bringup-x-$SLURM_JOB_ID")   # the last lines of a batch script: each node signs what it kept
    kept = collect(plan, hosts, jobs, folder, out, run)      # parts, errors, signatures that hold, and why others do not
    remove(hosts, jobs, folder, out)

The node signs at the end of the load, not when somebody reads it: what is changed afterwards is another result. The collector
only joins the parts. workloads/sign_result.py is what runs on the node.
"""

import base64
import hashlib
import json
import secrets
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from capacity.model import Plan
from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.errors import DeviceError, Unreachable
from network.drivers.parallel import at_once
from network.drivers.ssh import SshHost
from validation.evidence.mode import Identity
from validation.evidence.results import NAMESPACE, RUN, Place, faults, message_of, signed_result
from validation.evidence.sshsig import MAX_SIGNATURE
from validation.facts.gather import HOST_KEY
from validation.host_keys import pinned_host_keys, pins_node_keys

PROGRAM = Path(__file__).parent.parent / "workloads" / "sign_result.py"
READ_BUDGET_S = 60.0
"""To read what a node kept: three days of samples are a few megabytes. A choice of this program."""
FIX = "let ssh-keygen -Y sign with /etc/ssh/ssh_host_ed25519_key work there as root, and pin that key in known_hosts"
OPERATION = "read what its ranks kept"


class Answer(TypedDict):
    """What a node printed: its result in base64, its signature on it ('' for none)."""

    result: str
    message: str
    signature: str


class _Read(Answer):
    """And the end of what the job printed."""

    said: str


class KeptRanks(TypedDict):
    """What a node keeps of a job, and signs: the file of each rank, and what lies beside them."""

    ranks: list[str]
    samples: str


@dataclass(frozen=True)
class Run:
    """One run of a load: the nodes sign its name, its nonce and where it belongs. signed: whether they are asked to."""

    place: Place
    name: str
    nonce: str
    signed: bool

    def configuration(self) -> dict[str, dict[str, Any]]:
        """What evidence says of it (Outcome.configuration)."""
        return {RUN: {"id": self.name, "nonce": self.nonce}} if self.signed else {}

    def order(self) -> dict[str, str] | None:
        """What a node is told to sign (sign_result.py); None for nothing."""
        if not self.signed:
            return None
        message = message_of(self.place, "DEVICE", self.name, self.nonce, "TIME", "SHA256")
        return {"message": message, "namespace": NAMESPACE, "key": HOST_KEY}

    def ordered(self, device: str, program: str, request: object) -> dict[str, Any]:
        """What PROGRAM is asked, so that it runs a program on a device and signs what that prints."""
        return {"do": "run", "device": device, "program": program, "request": request, "sign": self.order()}

    def step(self, folder: str) -> str:
        """The lines of a batch script in which each node of the job signs what its ranks kept; '' where none is asked to."""
        if not self.signed:
            return ""
        order = json.dumps({"do": "sign", "folder": folder, "sign": self.order()})
        program = shlex.join(["python3", "-c", PROGRAM.read_text(), order])
        return f'srun --overlap --ntasks="$SLURM_NNODES" --ntasks-per-node=1 {program} || echo "not signed: $?"\n'


@dataclass(frozen=True)
class Kept:
    """What nodes kept. raw: each node's part, as it signed it; ranks and samples: the files in it, and said: the end of the job's
    output.

    errors: why a node has no part. signed: the signatures that hold; unsigned: why a node of a site that pins host keys has none.
    """

    raw: Mapping[str, bytes] = field(default_factory=dict)
    ranks: Mapping[str, list[str]] = field(default_factory=dict)
    samples: Mapping[str, str] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    signed: Mapping[str, Identity] = field(default_factory=dict)
    unsigned: Mapping[str, str] = field(default_factory=dict)


def begin(plan: Plan, what: str, store: str) -> Run:
    """A run that nobody has signed for before. store: id of the evidence store; '': nothing is recorded, and no node signs."""
    place = Place(plan.site.name, store)
    return Run(place, f"{what}-{secrets.token_hex(4)}", secrets.token_hex(16), bool(store) and pins_node_keys(plan))


def collect(plan: Plan, hosts: Mapping[str, SshHost], jobs: Mapping[str, int], folder: str, out: str, run: Run) -> Kept:
    """What the ranks of these jobs kept, by node. folder: without the number of the job, which follows it. out: the file of what a
    job printed, %j for the number."""
    found = _on_all(hosts, "read", folder, out, jobs)
    raw, ranks, samples, said, errors, signatures = {}, {}, {}, {}, {}, {}
    for node in jobs:
        source = Source(node, OPERATION)
        try:
            if isinstance(found[node], DeviceError):
                raise found[node]
            told: Any = answers.read(_Read, found[node], source)
            result = result_of(told, source)
            kept: Any = answers.read(KeptRanks, answers.load(result, source), source)
        except DeviceError as error:
            errors[node] = str(error)
            continue
        raw[node], ranks[node], samples[node], said[node] = result, kept["ranks"], kept["samples"], told["said"]
        signatures[node] = signature_of(node, told)
    signed, unsigned = judged(plan, run, raw, signatures)
    return Kept(raw, ranks, samples, said, errors, signed, unsigned)


def judged(
    plan: Plan, run: Run, raw: Mapping[str, bytes], signatures: Mapping[str, Identity]
) -> tuple[dict[str, Identity], dict[str, str]]:
    """(signatures that hold, why the others do not), by node; nothing where the nodes were not asked to sign."""
    signed, unsigned = {}, {}
    keys = pinned_host_keys(plan) if run.signed else {}
    for node, result in raw.items() if run.signed else ():
        why = faults(
            signatures[node],
            place=run.place,
            device=node,
            nonce=run.nonce,
            sha256=hashlib.sha256(result).hexdigest(),
            at=datetime.now(UTC),
            keys=keys.get(node, frozenset()),
        )
        if why:
            unsigned[node] = why if "Fix:" in why else f"{why}. Fix: {FIX}"
        else:
            signed[node] = signatures[node]
    return signed, unsigned


def result_of(told: Answer, source: Source) -> bytes:
    """The result that a node printed; UnreadableAnswer for one that is not in base64."""
    try:
        return base64.b64decode(told["result"], validate=True)
    except ValueError:
        raise source.unreadable("a result in base64", told["result"][:40]) from None


def signature_of(node: str, told: Answer) -> Identity:
    """The signature that a node printed."""
    return signed_result(node, told["message"][:MAX_SIGNATURE], told["signature"][:MAX_SIGNATURE])


def remove(hosts: Mapping[str, SshHost], jobs: Mapping[str, int], folder: str, out: str) -> None:
    """Remove what the jobs left on their nodes; a node that does not answer keeps it."""
    _on_all(hosts, "remove", folder, out, jobs)


def side_by_side(raw: Mapping[str, bytes], **more: str) -> bytes:
    """The parts of all nodes as one raw output: {"parts": {node: what it signed}}, and what the collector adds."""
    return json.dumps({"parts": {node: part.decode(errors="replace") for node, part in raw.items()}, **more}).encode()


def left_unsigned(unsigned: Mapping[str, str], nodes: Collection[str]) -> list[str]:
    """What a passing check says of nodes that did not sign their part, as sentences."""
    return [f"not signed by {node}: {why}" for node, why in unsigned.items() if node in nodes]


def _on_all(hosts: Mapping[str, SshHost], what: str, folder: str, out: str, jobs: Mapping[str, int]) -> dict[str, Any]:
    """What the program printed on each node, as JSON; the DeviceError of a node where it did not get done."""

    def on(node: str) -> Any:
        order = {"do": what, "folder": f"{folder}{jobs[node]}", "out": out.replace("%j", str(jobs[node]))}
        try:
            return hosts[node].program(PROGRAM.read_text(), order, budget_s=READ_BUDGET_S, operation=OPERATION)
        except DeviceError as error:
            return error

    no_way = {node: Unreachable(node, OPERATION, "a GPU node", "none", "run it there by hand") for node in jobs}
    return {**no_way, **at_once([node for node in jobs if node in hosts], on)}
