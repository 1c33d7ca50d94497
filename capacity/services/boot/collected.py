"""From the boot server's spool of reports to the record of installed servers. Whatever stands in the spool is checked first.

    spool = read(text, "boot server 10.77.1.1")      reports by MAC; lines that are no reports are faults
    heard = writings(found, spool)                   by server its last writing, if it was read back to the end
    records, faults = installed(heard, answers, uuids, before)

A report says what an initramfs wrote and read back; what runs is said by the node itself (`Answer`). Pure: no clock, no network.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from typing_extensions import TypedDict

from capacity.services.boot.consents import remedy
from capacity.services.boot.intents import Intents, hyphened
from capacity.services.boot.life import DONE, SAFE_STOPS, WORKING, Report
from capacity.services.boot.record import Installed, read_back
from network.drivers import answers
from network.drivers.answers import Line, Number, Source, Text
from network.drivers.errors import UnreadableAnswer, same_identifier

SPOOL = "/var/lib/bringup/boot/reports.jsonl"
"""Where the role boot_server keeps the reports."""
STATES = (*WORKING, *DONE, *SAFE_STOPS)
MOST_FAULTS = 20
"""Lines that are no reports and are named one by one; the rest is counted."""
_MAC = re.compile(r"[0-9a-f]{2}(?:-[0-9a-f]{2}){5}")
_WRITING = re.compile(r"image (\S+) (\S+) to .*")


class _Report(TypedDict):
    """One line of the spool (playbooks/roles/boot_server/files/boot_server.py)."""

    time: Number
    mac: Line
    address: Line
    state: Line
    text: Text


@dataclass(frozen=True)
class Spool:
    """`reports` by MAC with hyphens, in the order of the spool; `faults` names the lines that are no reports."""

    reports: Mapping[str, Sequence[Report]]
    faults: Sequence[str] = ()


@dataclass(frozen=True)
class Writing:
    """The last writing of a server that was read back.

    at: Unix time of its report `written`; writings: how many there were; alike: how many of them gave its SHA-256.
    """

    server: str
    role: str
    mac: str
    version: str
    sha256: str
    drives: tuple[str, ...]
    at: float
    writings: int
    alike: int


@dataclass(frozen=True)
class Heard:
    """What the spool says of the servers that boot from the network.

    written   server -> its last writing
    standing  server -> why it is not written to the end: its newest state and text
    working   servers that are being written just now
    silent    servers that never reported
    faults    what was refused, each with a name
    """

    written: Mapping[str, Writing] = field(default_factory=dict)
    standing: Mapping[str, str] = field(default_factory=dict)
    working: Sequence[str] = ()
    silent: Sequence[str] = ()
    faults: Sequence[str] = ()


@dataclass(frozen=True)
class Answer:
    """What a node says of itself: text of /etc/bringup-image, UUID and maker by its firmware, and what it started by. `at`: when
    it was asked, Unix time.
    """

    running: str
    uuid: str
    maker: str
    firmware: str
    at: float


def read(text: str, where: str) -> Spool:
    """The reports of a spool. A line that is none is a fault with its number and taken for nothing; no exception."""
    reports: dict[str, list[Report]] = defaultdict(list)
    faults = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        source = Source(
            f"{where}, line {number}", "read a report", "no server is recorded from this line; look at it by hand"
        )
        try:
            said = answers.read(_Report, answers.load(line, source), source)
            if not _MAC.fullmatch(said["mac"]):
                raise source.unreadable("a MAC with hyphens", said["mac"])
            if said["state"] not in STATES:
                raise source.unreadable("a state of the initramfs", said["state"])
            if said["time"] <= 0:
                raise source.unreadable("a Unix time", str(said["time"]))
        except UnreadableAnswer as error:
            faults.append(str(error))
            continue
        reports[said["mac"]].append(Report(float(said["time"]), said["state"], said["text"], said["address"]))
    if len(faults) > MOST_FAULTS:
        faults = [*faults[:MOST_FAULTS], f"{where}: {len(faults) - MOST_FAULTS} more lines are no reports"]
    return Spool(dict(reports), faults)


def writings(found: Intents, spool: Spool) -> Heard:
    """By server what its reports say. Reports of other MACs, from other addresses, or that contradict each other are refused."""
    hosts = {hyphened(host["mac"]): host for host in found.servers()}
    faults = list(spool.faults)
    for mac in sorted(set(spool.reports) - set(hosts)):
        said = spool.reports[mac]
        faults.append(
            f"{mac} is no boot port of the plan and reported {len(said)} times, last {said[-1].state} from {said[-1].address}: "
            "find that server; where a port was replaced, take its lines out of the spool"
        )
    written: dict[str, Writing] = {}
    standing: dict[str, str] = {}
    working, silent = [], []
    for mac, host in hosts.items():
        server, said = host["device"], spool.reports.get(mac, ())
        if not said:
            silent.append(server)
            continue
        if fault := _fault(host, said):
            faults.append(f"{server}: {fault}")
        elif said[-1].state in WORKING:
            working.append(server)
        elif said[-1].state not in DONE:
            standing[server] = f"{said[-1].state}: {said[-1].text}; {remedy(server, said[-1].state, said[-1].text)}"
        else:
            try:
                written[server] = _last(host, said)
            except ValueError as error:
                faults.append(f"{server}: {error}")
    owners: dict[str, list[str]] = defaultdict(list)
    for one in written.values():
        for serial in one.drives:
            owners[serial].append(one.server)
    for serial, servers in owners.items():
        if len(servers) > 1:
            faults.append(
                f"drive {serial} was written in {' and '.join(servers)}: one of them reports for the other, or it was moved; "
                "none of them is recorded"
            )
            for server in servers:
                written.pop(server, None)
    return Heard(written, standing, working, silent, faults)


def _fault(host: Mapping[str, str], said: Sequence[Report]) -> str:
    """Why the reports of a server cannot be its own; '' where they can."""
    planned = host["address"].partition("/")[0]
    if strange := sorted({report.address for report in said} - {planned}):
        return f"reports came from {', '.join(strange)}, planned {planned}: find out what answers there; it is not recorded"
    return ""


def _last(host: Mapping[str, str], said: Sequence[Report]) -> Writing:
    """The last writing of a server that reported the end of one. ValueError where the reports do not fit together."""
    ends = [number for number, report in enumerate(said) if report.state == "written"]
    if not ends:
        raise ValueError(
            "its drives hold the image, and the spool has no report of the writing: write it once more, or bring the old spool back"
        )
    end = said[ends[-1]]
    sha256, drives = read_back(end.text)
    if doubled := sorted({serial for serial in drives if drives.count(serial) > 1}):
        raise ValueError(
            f"{', '.join(doubled)} is named twice as read back: a drive answers in two places; not recorded"
        )
    begun = [
        match for report in said[: ends[-1]] if (match := _WRITING.fullmatch(report.text)) and report.state == "writing"
    ]
    if not begun:
        raise ValueError("written without a report of which image was begun; not recorded")
    role, version = begun[-1].groups()
    if role != host["role"]:
        raise ValueError(f"the image of role {role} was written, planned is {host['role']}; not recorded")
    alike = sum(said[number].text.startswith(f"{sha256} ") for number in ends)
    return Writing(host["device"], role, host["mac"], version, sha256, drives, end.time, len(ends), alike)


def installed(
    heard: Heard, said: Mapping[str, Answer | str], uuids: Mapping[str, str], before: Mapping[str, Installed]
) -> tuple[list[Installed], list[str]]:
    """(records of installed servers, a sentence for each server that gets no new record and why).

    said: by server of `heard.written` its answer, or why it gave none. uuids: by server as delivered ('' where not listed). before:
    the records so far. A server that gives no answer keeps the record of the same writing; one that never reported keeps its own.
    """
    records, faults = [before[name] for name in heard.silent if name in before], []
    for server, writing in heard.written.items():
        answer, old = said[server], before.get(server)
        same = old if old is not None and (old.sha256, old.drives, old.written_at) == _mark(writing) else None
        if isinstance(answer, str):
            kept = "; its record of the same writing is kept" if same else "; not recorded"
            faults.append(f"{server}: does not say what it runs: {answer}{kept}")
            records += [same] if same else []
            continue
        planned = uuids.get(server, "")
        if planned and not same_identifier(planned, answer.uuid):
            faults.append(f"{server}: UUID {answer.uuid} answers at its address, delivered was {planned}; not recorded")
            continue
        records.append(
            Installed(
                server=server,
                role=writing.role,
                mac=writing.mac,
                uuid=answer.uuid.lower(),
                maker=answer.maker,
                firmware=answer.firmware,
                version=writing.version,
                sha256=writing.sha256,
                drives=writing.drives,
                running=answer.running,
                writings=writing.writings,
                alike=writing.alike,
                written_s=same.written_s if same else None,
                login_s=same.login_s if same else None,
                alone=same.alone if same else (),
                written_at=writing.at,
                seen_at=answer.at,
            )
        )
    return records, faults


def _mark(writing: Writing) -> tuple[str, tuple[str, ...], float | None]:
    return writing.sha256, writing.drives, writing.at
