"""What each further signer of an attestation states under their own signature: name, time, outcome, and of which attestation.

    said = statement(payload, subject, item, name, at, outcome)     # `bringup attest --countersign` signs it beside the attestation
    own = stated(contents)                                          # all of a log, by the SHA-256 of the attestation
    keys = counting(own, entry, now)                                # who signed an attestation and stated what it says

The first signer states this in the form itself. The gate asks each further one for such a statement, in a line before the
attestation.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from validation.evidence.mode import same_person
from validation.evidence.record import RESULTS, STATEMENT_TYPE
from validation.evidence.store import Contents, Entry
from validation.evidence.strict import Refused, moment, text

COUNTERSIGNATURE = "urn:bringup:countersignature:v1"
SKEW = timedelta(minutes=5)
"""By how much clocks of two signers may differ; as in the verdict."""


@dataclass(frozen=True)
class Said:
    """One statement: of which item, by whom, when and with which outcome; the keys that signed it and its line."""

    item: str
    name: str
    at: datetime
    outcome: str
    signers: frozenset[str]
    line: int


Stated = Mapping[str, Sequence[Said]]
"""Statements by the SHA-256 of what their attestation signs."""


def statement(payload: bytes, subject: str, item: str, name: str, at: datetime, outcome: str) -> Mapping[str, Any]:
    """The statement; ``payload`` is what the signatures of the attestation cover, ``subject`` its first subject."""
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": subject, "digest": {"sha256": hashlib.sha256(payload).hexdigest()}}],
        "predicateType": COUNTERSIGNATURE,
        "predicate": {"schema_version": 1, "item": item, "name": name, "at": at.isoformat(), "outcome": outcome},
    }


def stated(contents: Contents) -> Stated:
    """All statements of a log, in its order. ValueError names the line of one that is none."""
    found: dict[str, list[Said]] = {}
    for one in contents.statements:
        if one.predicate_type != COUNTERSIGNATURE:
            continue
        try:
            item, name, outcome = (text(one.predicate, key) for key in ("item", "name", "outcome"))
            if not name.strip() or outcome not in RESULTS:
                raise Refused(f"it needs a name, and an outcome of {', '.join(RESULTS)}")
            said = Said(item, name, moment(one.predicate.get("at"), "at"), outcome, one.signers, one.line)
        except ValueError as error:
            raise ValueError(f"line {one.line}: not a countersignature: {error}") from None
        found.setdefault(one.digest, []).append(said)
    return found


def counting(own: Stated, entry: Entry, now: datetime) -> frozenset[str]:
    """The keys of an attestation whose holders stated before it what it says, each as a person of their own."""
    record = entry.record
    people = {same_person(str(record.form.get("name", "")))}
    keys: set[str] = set()
    for said in own.get(entry.payload, ()) if entry.payload else ():
        same = (said.item, said.outcome) == (record.item, record.result)
        both = said.signers & entry.signers
        if not same or said.line >= entry.line or len(both) != 1:  # a name is that of one signer
            continue
        if record.ended - SKEW <= said.at <= now + SKEW and same_person(said.name) not in people:
            people.add(same_person(said.name))
            keys |= both
    return frozenset(keys)
