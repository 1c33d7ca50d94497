"""Read the boot server's reports over SSH, ask the nodes what they run, and make the record of installed servers of both.

    found = collect(plan, assets, before)       `bringup boot collect` writes found.records to installed.json

Everything has a time budget; what is read is bounded and checked (capacity/services/boot/collected.py) before it is recorded.
"""

import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from capacity.model import Plan
from capacity.services import boot
from capacity.services.boot import collected, consents
from capacity.services.boot.collected import Answer, Heard
from capacity.services.boot.consents import CONTENT
from capacity.services.boot.intents import hyphened
from capacity.services.boot.record import Installed
from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.credentials import node_credentials
from network.drivers.errors import BadAnswer, DeviceError, compare_identity
from network.drivers.parallel import within
from network.drivers.ssh import SshHost

IMAGE_NOTE = "/etc/bringup-image"
"""What the initramfs leaves on the root file system: role, version and SHA-256 of the image."""
QUESTION = f"""as_root() {{ if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }}
printf '%s\\n' "$(cat {IMAGE_NOTE} 2>/dev/null)"
printf '%s\\n' "$(as_root cat /sys/class/dmi/id/product_uuid)"
printf '%s\\n' "$(cat /sys/class/dmi/id/sys_vendor)"
if [ -d /sys/firmware/efi ]; then echo uefi; else echo bios; fi
"""
"""A shell script that tells, a line each: image, UUID, maker, and what the node started by."""
NODES_BUDGET_S = 600.0
"""For all nodes: 1,000 that are off, 48 at a time, each 5 s until its connection is given up, take 105 s."""

Connect = Callable[[str, str, float], SshHost]
"""Name, address and budget in seconds of one call -> the host."""


@dataclass(frozen=True)
class Collected:
    """The records, what the spool says of the other servers, what was refused, each with a name, and the consents that servers ask
    for (consents.asked_for).
    """

    records: list[Installed]
    heard: Heard
    faults: list[str]
    asked: list[str]


def collect(
    plan: Plan, assets: pd.DataFrame, before: Mapping[str, Installed], connect: Connect | None = None
) -> Collected:
    """The record as the boot server and the nodes tell it. DeviceError where the boot server cannot be read; boot.BootError for
    contradicting MACs in the asset list; SecretError without a login.
    """
    found = boot.intents(plan, assets)
    reach = connect or _over_ssh(plan)
    budget_s = plan.site.timeouts.ssh_s
    server = boot_server_name(plan)
    spool = collected.read(spool_of(reach(server, str(boot.boot_server(plan)), budget_s)), server)
    heard = collected.writings(found, spool)
    reports = {host["device"]: spool.reports.get(hyphened(host["mac"]), ()) for host in found.servers()}
    asked_for = consents.asked_for({name: reports[name] for name in heard.standing})
    addresses = {host["device"]: host["address"].partition("/")[0] for host in found.servers()}
    asked = within(
        heard.written, lambda name: ask(reach(name, addresses[name], budget_s)), NODES_BUDGET_S, "ask what runs"
    )
    said = {name: str(answer) if isinstance(answer, DeviceError) else answer for name, answer in asked.items()}
    uuids = {str(name): str(uuid) for name, uuid in assets["uuid"].items()}
    records, faults = collected.installed(heard, said, uuids, before)
    return Collected(
        records, heard, [*heard.faults, *faults], [consent for asked in asked_for.values() for consent in asked]
    )


def boot_server_name(plan: Plan) -> str:
    """The management node that answers at the boot server's address; without one what it is."""
    rows = plan.addresses[plan.addresses["network"] == "provisioning"]
    names = rows.loc[rows["address"].str.partition("/")[0] == str(boot.boot_server(plan)), "device"]
    return str(names.iloc[0]) if len(names) else "boot server"


def spool_of(host: SshHost, absent: str | None = None) -> str:
    """The text of the boot server's reports; `absent` where there is no such file, BadAnswer without it."""
    done = host.run(["cat", "--", collected.SPOOL], check=False)
    if done.status and absent is not None and "No such file" in done.err:
        return absent
    if done.status:
        raise BadAnswer(
            host.name,
            f"read {collected.SPOOL}",
            "the reports of servers that were installed",
            done.err.strip() or f"exit status {done.status}",
            "set it up with playbooks/boot.yml; the file comes with the first report",
        )
    return done.out


def ask(host: SshHost) -> Answer:
    """What a node says of itself. DeviceError where it does not, or not in four lines."""
    return parse(host.run("sh -s", stdin=QUESTION.encode()).out, host.name, time.time())


@dataclass(frozen=True)
class Told:
    """What a node says of its image, and what its drives hold by serial number: SHA-256 of their first 2 MiB and last MiB.
    `seeding_s`: seconds since its start where cloud-init still runs.
    """

    running: str
    contents: Mapping[str, str]
    seeding_s: float | None = None


SEED = re.compile(r"seed (done|[0-9]{1,9})")
ON_NODE = Path(__file__).with_name("on_node.sh").read_text()


def ask_drives(host: SshHost, uuid: str, serials: Sequence[str]) -> Told:
    """What a node runs and what these drives of it hold. IdentityMismatch for another UUID than that one ('' for any)."""
    return parse_drives(host.run("sh -s", stdin=script_for(serials).encode()).out, host.name, uuid, serials)


def script_for(serials: Sequence[str]) -> str:
    """The shell script that tells what a node runs and what these drives of it hold."""
    return f"WANTED={shlex.quote(' '.join(serials))}\n{ON_NODE}"


def parse_drives(text: str, name: str, uuid: str, serials: Sequence[str]) -> Told:
    """The answer of on_node.sh. UnreadableAnswer for anything else."""
    source = Source(name, "ask what its drives hold", "log in and look at /etc/bringup-image and /sys/block by hand")
    lines = [answers.line(one) for one in text.splitlines()]
    if len(lines) < 3:
        raise source.unreadable("image, UUID and seed", f"{len(lines)} lines")
    compare_identity(name, {"UUID": uuid}, {"UUID": lines[1]})
    seed = SEED.fullmatch(lines[2])
    if seed is None:
        raise source.unreadable("seed done, or seed and seconds", lines[2])
    contents = dict(line.partition(" ")[::2] for line in lines[3:])
    if (
        len(contents) != len(lines) - 3
        or set(contents) - {*serials}
        or not all(map(CONTENT.fullmatch, contents.values()))
    ):
        raise source.unreadable("planned serial numbers, each once with 64 hex digits", "; ".join(lines[3:]) or "none")
    return Told(lines[0], contents, None if seed[1] == "done" else float(seed[1]))


def parse(text: str, name: str, at: float) -> Answer:
    """The answer to QUESTION. UnreadableAnswer for anything else."""
    source = Source(name, "ask what runs", "log in and look at /etc/bringup-image and /sys/class/dmi/id by hand")
    lines = [answers.line(one) for one in text.splitlines()]
    if len(lines) != 4:
        raise source.unreadable("four lines: image, UUID, maker, bios or uefi", f"{len(lines)} lines")
    running, uuid, maker, firmware = lines
    if firmware not in ("bios", "uefi") or not uuid:
        raise source.unreadable("a UUID, and bios or uefi", f"{uuid or 'no UUID'}, {firmware}")
    return Answer(running, uuid, maker, firmware, at)


def _over_ssh(plan: Plan) -> Connect:
    credentials = node_credentials(plan.site)
    return lambda name, address, budget_s: SshHost(name, address, credentials, budget_s)
