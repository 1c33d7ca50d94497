"""What the approvals of go-live (S195) are about: the records that count, the open waivers and the freeze, up to a line of the log.

    said = bound(counting, waivers, freezes, contents, plan_hash)     # what `bringup attest` signs with the form
    why_stale(record, ...)                                            # why the approvals do not hold any more, or None

The inputs of the record are `plan`, `freeze`, `approved.log` (SHA-256 of the last line then), `approved.records` (over item, asset
and line of each record that counted) and one `approved.waiver ...` per open waiver.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from validation.evidence import strict
from validation.evidence.record import Record
from validation.evidence.store import Contents, Entry
from validation.freeze import INPUT, Freezes
from validation.waive import Waiver

PREFIX = "approved."
LOG, RECORDS, WAIVERS = f"{PREFIX}log", f"{PREFIX}records", f"{PREFIX}waiver "
STATE = "approved"
"""The part of a record's configuration that says up to which line the log was approved, and how much stood there."""

Counting = Mapping[tuple[str, str], Entry]


@dataclass(frozen=True)
class Approved:
    """What approvals are bound to, as a record has it."""

    inputs: Mapping[str, str]
    configuration: Mapping[str, Mapping[str, Any]]


def bound(
    counting: Counting, waivers: Sequence[Waiver], freezes: Freezes, contents: Contents, plan_hash: str
) -> Approved:
    """What approvals that are signed now are about. Without a freeze in force they name none, and do not count."""
    line = last_line(contents)
    inputs = {"plan": plan_hash, LOG: _log(contents, line), RECORDS: _records(counting, contents)}
    inputs |= {_name(waiver): _digest(waiver) for waiver in waivers}
    if freezes.current is not None:
        inputs[INPUT] = freezes.current.digest
    return Approved(inputs, {STATE: {"line": line, "records": len(counting), "waivers": len(waivers)}})


def line_of(record: Record) -> int | None:
    """The line up to which a record approves the log; None for one that does not say it."""
    line = record.configuration.get(STATE, {}).get("line")
    return line if type(line) is int and line >= 0 else None


def last_line(contents: Contents) -> int:
    """The number of the last line of a log."""
    entries = (entry.line for entry in contents.entries)
    statements = (statement.line for statement in contents.statements)
    return max(len(contents.digests), *entries, *statements, 0)


def why_stale(
    record: Record,
    line: int,
    counted_then: Counting,
    failed_since: Iterable[tuple[str, str, int]],
    waivers: Sequence[Waiver],
    freezes: Freezes,
    contents: Contents,
    now: datetime,
    days: float,
) -> str | None:
    """Why approvals do not hold any more, or None. `counted_then` are the records up to `line` that count, `failed_since` the
    failures behind it: item, subject, line."""
    if now - record.ended > timedelta(days=days):
        return f"the approvals lapsed: signed on {record.ended:%Y-%m-%d}, and they last {days:g} days (attest.approval_days)"
    current = freezes.current.digest if freezes.current else ""
    if record.inputs.get(INPUT, "") != current or not current:
        return "another freeze is in force than the one that was approved"
    if record.inputs.get(LOG) != _log(contents, line):
        return f"records were lost: line {line} of the log is not the one that was approved"
    if record.inputs.get(RECORDS) != _records(counted_then, contents):
        return f"records were lost: other records count up to line {line} of the log than those that were approved"
    for item, subject, at_line in failed_since:
        return f"{item} {subject} failed after the approvals (line {at_line})"
    for waiver in waivers:
        if waiver.line > line or record.inputs.get(_name(waiver)) != _digest(waiver):
            return f"the waiver of {waiver.item} {waiver.subject} by {waiver.owner} was not approved"
    return None


def _log(contents: Contents, line: int) -> str:
    return contents.digests[line - 1] if 0 < line <= len(contents.digests) else hashlib.sha256(b"").hexdigest()


def _records(counting: Counting, contents: Contents) -> str:
    said = [[*key, entry.line, _log(contents, entry.line)] for key, entry in sorted(counting.items())]
    return hashlib.sha256(strict.canonical(said)).hexdigest()


def _name(waiver: Waiver) -> str:
    return f"{WAIVERS}{waiver.item} {waiver.subject} {_digest(waiver)[:12]}"


def _digest(waiver: Waiver) -> str:
    said = [
        waiver.item,
        waiver.subject,
        waiver.owner,
        waiver.expires.isoformat(),
        waiver.reason,
        sorted(waiver.signers),
        str(waiver.report),
    ]
    return hashlib.sha256(strict.canonical(said)).hexdigest()
