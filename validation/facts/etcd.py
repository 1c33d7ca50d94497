"""What etcd of a Kubernetes site says of its secrets, and what a backup of it is worth (etcd_drill.py, which runs on a controller).

    encrypted(plan, "ctl01")      # this member's secrets by provider, and one that was just made
    restored(plan, "ctl01")       # a backup, served by an etcd of its own
    member(plan, "ctl01", "/registry/configmaps/a/b-")      # whether this member leads, and what it has itself

An object of the commissioning namespace is made and deleted again. Raises DeviceError where the controller could not be asked.
"""

from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from capacity.model import Plan
from capacity.services.slurm import CHECK_ACCOUNT
from network.drivers import answers
from network.drivers.answers import Flag, Line, Number, Source, Whole
from network.drivers.credentials import node_credentials
from network.drivers.errors import BadAnswer
from network.drivers.ssh import SshHost
from validation.facts.gather import address_of

PROGRAM = Path(__file__).with_name("etcd_drill.py").read_text()
BUDGET_S = 600.0
"""All steps of a drill. Saving, checking and restoring 8 GiB, the most that etcd suggests for its data, at 100 MB/s of a disk takes
about five minutes (https://etcd.io/docs/v3.6/dev-guide/limit/)."""


MEMBER_S = 30.0
"""Of one question to a member about a few keys. A choice of ours."""


class Encrypted(TypedDict):
    """Secrets of one member of etcd: how many by provider ('' in clear), names of some in clear; of the one that was made, whether
    etcd has it in clear (None: not at all) and the API server gave it back.
    """

    providers: dict[Line, Whole]
    plain: list[Line]
    clear: Flag | None
    read_back: Flag


class Restored(TypedDict):
    """A backup of `bytes`, in seconds; how many keys etcd had at its revision and the restored one has, whether they are the same,
    and whether what was deleted after the backup is there.
    """

    bytes: Whole
    keys: Whole
    restored: Whole
    same: Flag
    deleted_since_is_back: Flag
    save_s: Number
    restore_s: Number


class Own(TypedDict):
    """Whether a member of etcd leads the others, and the last parts of keys that it has itself."""

    leader: Flag
    names: list[Line]


def encrypted(plan: Plan, controller: str) -> Encrypted:
    """Secrets of the member of etcd on one controller."""
    said, source = _asked(plan, controller, "encrypted")
    return answers.read(Encrypted, said, source)


def restored(plan: Plan, controller: str) -> Restored:
    """A backup of the member of etcd on one controller, restored beside it."""
    said, source = _asked(plan, controller, "restored")
    return answers.read(Restored, said, source)


def member(plan: Plan, controller: str, prefix: str) -> Own:
    """The member of etcd on one controller, and its keys that begin with a prefix: what it has, whatever the others have."""
    said, source = _asked(plan, controller, "member", MEMBER_S, prefix=prefix)
    return answers.read(Own, said, source)


def _asked(plan: Plan, controller: str, question: str, budget_s: float = BUDGET_S, **more: str) -> tuple[Any, Source]:
    credentials = node_credentials(plan.site)
    host = SshHost(controller, address_of(plan, controller, "provisioning"), credentials, plan.site.timeouts.ssh_s)
    python = ("python3",) if credentials.user == "root" else ("sudo", "-n", "python3")
    request = {"ask": question, "namespace": CHECK_ACCOUNT, "budget_s": budget_s, **more}
    source = Source(controller, f"ask etcd ({question})", "run etcdctl on the controller")
    whole_s = budget_s + plan.site.timeouts.ssh_s
    said = host.program(PROGRAM, request, python=python, budget_s=whole_s, operation=source.operation)
    if isinstance(said, dict) and (why := said.pop("error", "")):
        raise BadAnswer(
            controller, source.operation, "an answer", str(why), "bring the cluster in order: playbooks/site.yml"
        )
    return said, source
