"""Checks that have begun: a line before a check starts, so that a run that is killed cannot leave the earlier pass standing.

A record of the same item and subject ends what has begun. A check that was skipped writes a line with the state ``skipped``.
What has begun and was never ended is a failure (validation/verdict.py).
"""

import functools
import hashlib
import json
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from validation.evidence.record import STATEMENT_TYPE
from validation.evidence.store import Contents, Entry
from validation.evidence.strict import Refused, moment, text

BEGUN = "urn:bringup:begun:v1"
STATES = ("begun", "skipped")


@dataclass(frozen=True)
class Begun:
    """One check that has begun, or (``skipped``) ended without a result."""

    item: str
    subject: str
    state: str
    at: datetime
    signers: frozenset[str]
    line: int
    run: str = ""


def statement(item: str, subject: str, state: str, at: datetime, run: str) -> Mapping[str, Any]:
    """The in-toto statement of a check that begins or was skipped; ``run`` names the run."""
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": subject, "digest": {"sha256": digest_of(item, subject)}}],
        "predicateType": BEGUN,
        "predicate": {"schema_version": 1, "item": item, "state": state, "at": at.isoformat(), "run": run},
    }


def digest_of(item: str, subject: str) -> str:
    """The digest of a subject of statements about one item of it: of waivers too."""
    return hashlib.sha256(f'{{"item": {_quoted(item)}, "subject": {_quoted(subject)}}}'.encode()).hexdigest()


_quoted = functools.lru_cache(maxsize=65536)(json.dumps)
"""JSON of a text: a log names the same items and devices many times."""


def begun_checks(contents: Contents) -> list[Begun]:
    """All of them in the order of the log, made once. ValueError names the line of one that is none."""
    if BEGUN not in contents.made:
        contents.made[BEGUN] = _begun_checks(contents)
    return list(contents.made[BEGUN])


def _begun_checks(contents: Contents) -> list[Begun]:
    found = []
    for one in contents.statements:
        if one.predicate_type != BEGUN:
            continue
        try:
            state = text(one.predicate, "state")
            if state not in STATES:
                raise Refused(f"state {state!r} is none of {', '.join(STATES)}")
            at = moment(one.predicate.get("at"), "at")
            item, run = text(one.predicate, "item"), text(one.predicate, "run")
            if one.digest != digest_of(item, one.subject):
                raise Refused(f"the digest of {one.subject} is that of another subject or item")
            found.append(Begun(item, one.subject, state, at, one.signers, one.line, run))
        except ValueError as error:
            raise ValueError(f"line {one.line}: not a check that has begun: {error}") from None
    return found


def in_order(entries: Iterable[Entry], begun: Iterable[Begun]) -> "list[Entry | Begun]":
    """Records and checks that have begun in the order of the log; of one line the records first: they end what began before."""
    return sorted([*entries, *begun], key=operator.attrgetter("line"))
