"""What each further signer of an attestation states under their own signature: name, time, outcome, and of which attestation.

    said = statement(payload, subject, item, name, at, outcome)     # `bringup attest --countersign` signs it beside the attestation
    own = stated(contents)                                          # all of a log, by the SHA-256 of the attestation
    keys = counting(own, entry, now)                                # who signed an attestation and stated what it says
    record = by(record, key_id); key_id = first_signer(record)      # whose key signed the form first

The first signer states this in the form itself, which names the own key. The gate asks each further one for such a statement,
in a line before the attestation.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from validation.evidence.mode import same_person
from validation.evidence.record import RESULTS, STATEMENT_TYPE, Record
from validation.evidence.store import Contents, Entry
from validation.evidence.strict import Refused, moment, text

COUNTERSIGNATURE = "urn:bringup:countersignature:v1"
FIRST = "first signer"
"""The part of a record's configuration that names the key of who filled in its form."""
SKEW = timedelta(minutes=5)
"""By how much clocks of two signers may differ; as in the verdict."""
SAID_OF_ONE_KEY = 8
"""Statements of one key about one attestation that are heard, the first ones: `bringup attest` writes one."""


@dataclass(frozen=True)
class Said:
    """One statement: of which item, by whom, when and with which outcome; the keys that signed it and its line."""

    item: str
    name: str
    at: datetime
    outcome: str
    signers: frozenset[str]
    line: int


@dataclass(frozen=True)
class Stated:
    """All statements of a log, by the SHA-256 of what their attestation signs."""

    all: dict[str, list[Said]] = field(default_factory=dict)
    _heard: dict[tuple[str, int], list[tuple[str, Said]]] = field(default_factory=dict)

    def heard(self, entry: Entry) -> Sequence[tuple[str, Said]]:
        """What the signers of an attestation stated before it, with the key of each: a name is that of one signer.

        The records of one form share their statements, so these are looked through once.
        """
        key = (entry.payload, entry.line)
        if key not in self._heard:
            found, count = [], Counter[str]()
            for said in self.all.get(entry.payload, ()) if entry.payload else ():
                both = said.signers & entry.signers
                if said.line < entry.line and len(both) == 1:
                    (one,) = both
                    count[one] += 1
                    if count[one] <= SAID_OF_ONE_KEY:
                        found.append((one, said))
            self._heard[key] = found
        return self._heard[key]


def by(record: Record, key_id: str) -> Record:
    """An attestation as the holder of a key signs it first."""
    return replace(record, configuration={**record.configuration, FIRST: {"key": key_id}})


def first_signer(record: Record) -> str:
    """The id of the key that an attestation says it was signed with first, '' if it says none."""
    key_id = record.configuration.get(FIRST, {}).get("key")
    return key_id if isinstance(key_id, str) else ""


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
    found = Stated()
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
        found.all.setdefault(one.digest, []).append(said)
    return found


def counting(own: Stated, entry: Entry, now: datetime) -> frozenset[str]:
    """The keys of an attestation whose holders stated before it what it says, each as a person of their own; its first signer,
    whose word is the form, is left out."""
    record, first = entry.record, first_signer(entry.record)
    people = {same_person(str(record.form.get("name", ""))), ""}  # a name that nobody sees is none
    keys: set[str] = set()
    for key, said in own.heard(entry):
        same = key != first and (said.item, said.outcome) == (record.item, record.result)
        if same and record.ended - SKEW <= said.at <= now + SKEW and same_person(said.name) not in people:
            people.add(same_person(said.name))
            keys.add(key)
    return frozenset(keys)
