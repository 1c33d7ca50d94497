"""One piece of evidence, and its form as an in-toto statement.

A record says: this item of the register (step and kind), for this subject, gave this result, against this limit from
this source, with this tool and command, on these devices, from these inputs. As a statement it is an in-toto
Statement v1 with the predicate ``https://in-toto.io/attestation/test-result/v0.1``; what that predicate has no field
for stands in one vendor field, ``bringup_record``.
"""

import functools
import hashlib
import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, cast, get_args

from validation.evidence.mode import STRENGTH, Identity, Mode, classify, weakest
from validation.evidence.strict import Refused, fields, moment, text
from validation.evidence.strict import digest as strict_digest

Kind = Literal["computed", "generated", "applied", "measured", "observed", "attested"]
Result = Literal["PASSED", "WARNED", "FAILED"]
KINDS: tuple[Kind, ...] = get_args(Kind)
RESULTS: tuple[Result, ...] = get_args(Result)

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
RAW_NAME = "raw output"
WORKLOAD = "workload"
"""The part of a record's configuration that says on what a torch job computed: workloads_on, device, backend, ranks."""

_TEXTS = ("tool", "tool_version", "command", "unit", "limit_source", "host", "detail")
_ALWAYS = ("device", "channel", "text", "serial")
_OPTIONAL = ("observer", "enrolled", "message", "signature")
"""Fields of an identity that stand in a statement only where they say something."""
_STEP = re.compile(r"S\d{3}|P-\d{2}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TEST_LISTS: Mapping[str, str] = {"PASSED": "passedTests", "WARNED": "warnedTests", "FAILED": "failedTests"}


@dataclass(frozen=True)
class Attachment:
    """A file that belongs to a record (a test report, a photo); the store keeps it under its SHA-256."""

    name: str
    sha256: str

    def __post_init__(self) -> None:
        if self.name == RAW_NAME or not self.name or not _SHA256.fullmatch(self.sha256):
            raise ValueError(f"attachment {self.name!r} needs a name of its own and a SHA-256 in lower-case hex")


@dataclass(frozen=True)
class Record:
    """One result for one item and one subject.

    ``step``, ``kind``      the item: ``S062``, ``measured``
    ``subject``             the asset's name in the plan, or the site's name
    ``result``              PASSED, WARNED (passed, but worth a look) or FAILED
    ``started``, ``ended``  with a time zone
    ``value``, ``unit``     what was found (anything that JSON holds)
    ``limit``               what it was judged against, ``limit_source`` where that comes from and ``limit_frozen``
                            when it was fixed (it must not be later than ``started``)
    ``tool``...``command``  what produced it; ``host`` where that ran
    ``raw``                 raw output; the store keeps it under its SHA-256 (``raw_sha256``)
    ``identities``          what every touched device said about itself (the evidence mode follows from them)
    ``channels``            what else was seen in this run of the touched devices and the subject, also by other devices
                            (see channels.Ledger); it is no part of what the record is about
    ``aliases``             per device, all identifiers that the inventory held for it when the check ran
    ``inputs``              the input slices that the item depends on, name to SHA-256 (subset of ``plan.hashes``)
    ``configuration``       how it was measured, by name: a workload's device, backend and ranks
    ``replayed``            True for a recording or an import
    ``form``                for attested items: the filled-in form; ``attachments`` the files that it names
    ``detail``              one sentence for the reader

    Raises ValueError for a value that cannot be evidence.
    """

    step: str
    kind: Kind
    subject: str
    result: Result
    started: datetime
    ended: datetime
    tool: str
    tool_version: str
    command: str = ""
    value: Any = None
    unit: str = ""
    limit: Any = None
    limit_source: str = ""
    limit_frozen: datetime | None = None
    raw: bytes | None = field(default=None, repr=False, compare=False)
    raw_sha256: str = ""
    identities: tuple[Identity, ...] = ()
    channels: tuple[Identity, ...] = ()
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    replayed: bool = False
    form: Mapping[str, Any] = field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()
    host: str = field(default_factory=socket.gethostname)
    detail: str = ""

    def __post_init__(self) -> None:
        if not _STEP.fullmatch(self.step):
            raise ValueError(f"step {self.step!r} is not of the form S034")
        if self.kind not in KINDS:
            raise ValueError(f"{self.step}: kind {self.kind!r} is none of {', '.join(KINDS)}")
        if self.result not in RESULTS:
            raise ValueError(f"{self.item}: result {self.result!r} is none of {', '.join(RESULTS)}")
        if not self.subject:
            raise ValueError(f"{self.item}: the subject is empty")
        for name in ("started", "ended"):
            if getattr(self, name).tzinfo is None:
                raise ValueError(f"{self.item} {self.subject}: {name} has no time zone")
        if self.limit_frozen is not None and self.limit_frozen.tzinfo is None:
            raise ValueError(f"{self.item} {self.subject}: limit_frozen has no time zone")
        if self.ended < self.started:
            raise ValueError(f"{self.item} {self.subject}: ended before it started")
        if self.limit is not None and not self.limit_source:
            raise ValueError(f"{self.item} {self.subject}: a limit without a source")
        for name, digest in self.inputs.items():
            if not _SHA256.fullmatch(digest):
                raise ValueError(f"{self.item} {self.subject}: input {name} is not given by a lower-case SHA-256")
        for name in ("value", "limit", "form", "configuration"):
            if (found := getattr(self, name)) is None or found == {}:
                continue
            try:
                json.dumps(found, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{self.item} {self.subject}: {name} is not plain JSON data: {error}") from None
        if self.raw is not None:
            object.__setattr__(self, "raw_sha256", hashlib.sha256(self.raw).hexdigest())

    @functools.cached_property
    def item(self) -> str:
        """The register's item id, such as ``S062.measured``."""
        return f"{self.step}.{self.kind}"

    @property
    def mode(self) -> Mode:
        """What the touched devices allow to be claimed (see mode.classify)."""
        return classify(self.identities, replayed=self.replayed)


def raw_path(sha256: str) -> str:
    """Where the store keeps a raw output, relative to its root."""
    return f"raw/{sha256[:2]}/{sha256}"


def to_statement(record: Record) -> dict[str, Any]:
    """The in-toto Statement v1 of a record, as JSON-able data."""
    configuration: list[dict[str, Any]] = [
        {"name": name, "digest": {"sha256": digest}} for name, digest in sorted(record.inputs.items())
    ]
    configuration += [
        {"name": name, "annotations": dict(said), "digest": {"sha256": _sha256(json.dumps(said, sort_keys=True))}}
        for name, said in sorted(record.configuration.items())
    ]
    files = [(RAW_NAME, record.raw_sha256)] if record.raw_sha256 else []
    files += [(attachment.name, attachment.sha256) for attachment in record.attachments]
    configuration += [{"name": name, "uri": raw_path(sha), "digest": {"sha256": sha}} for name, sha in files]
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": record.subject, "digest": {"sha256": _asset_digest(record)}}],
        "predicateType": TEST_RESULT,
        "predicate": {
            "result": record.result,
            "configuration": configuration,
            _TEST_LISTS[record.result]: [record.item],
            "bringup_record": _vendor_field(record),
        },
    }


def _vendor_field(record: Record) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "step": record.step,
        "kind": record.kind,
        "value": record.value,
        "unit": record.unit,
        "limit": record.limit,
        "limit_source": record.limit_source,
        "limit_frozen": record.limit_frozen.isoformat() if record.limit_frozen else None,
        "tool": record.tool,
        "tool_version": record.tool_version,
        "command": record.command,
        "started": record.started.isoformat(),
        "ended": record.ended.isoformat(),
        "host": record.host,
        "mode": record.mode,
        "replayed": record.replayed,
        "identities": [_said(identity) for identity in record.identities],
        **({"channels": [_said(identity) for identity in record.channels]} if record.channels else {}),
        "aliases": {device: list(names) for device, names in sorted(record.aliases.items())},
        "form": dict(record.form),
        "detail": record.detail,
    }


def from_statement(statement: Mapping[str, Any]) -> tuple[Record, Mode]:
    """The record of a statement (without raw bytes) and its mode.

    The mode is the weaker of what was recorded and what today's markers say. What was recorded as simulated or replayed stays
    so, even where today's markers see nothing: the gate proves only unproven records. ValueError for a statement that
    ``to_statement`` cannot have made: each field is typed before it is used.
    """
    predicate = _mapping(statement, "predicate")
    ours = _mapping(predicate, "bringup_record")
    parts = predicate.get("configuration")
    if not isinstance(parts, list):
        raise Refused("configuration must be a list")
    inputs = {}
    configuration = {}
    raw_sha256 = ""
    attachments = []
    for part in parts:
        name, digest = text(part, "name"), strict_digest(_mapping(part, "digest"))
        if "annotations" in part:
            configuration[name] = _mapping(part, "annotations")
            if _sha256(json.dumps(configuration[name], sort_keys=True)) != digest:
                raise Refused(f"the digest of {name} is that of another configuration")
        elif "uri" in part:
            if text(part, "uri") != raw_path(digest):
                raise Refused(f"{name} must lie in {raw_path(digest)}")
            if name != RAW_NAME:
                attachments.append(Attachment(name, digest))
            elif raw_sha256:
                raise Refused("two raw outputs")
            else:
                raw_sha256 = digest
        else:
            inputs[name] = digest
    for name in _TEXTS:
        text(ours, name)
    mode = text(ours, "mode")
    if mode not in STRENGTH or type(ours.get("replayed")) is not bool:
        raise Refused("mode or replayed is none of ours")
    frozen = ours.get("limit_frozen")
    subject, digest_of_subject = subject_of(statement)
    record = Record(
        step=text(ours, "step"),
        kind=cast(Kind, text(ours, "kind")),
        subject=subject,
        result=cast(Result, text(predicate, "result")),
        started=moment(ours.get("started"), "started"),
        ended=moment(ours.get("ended"), "ended"),
        tool=ours["tool"],
        tool_version=ours["tool_version"],
        command=ours["command"],
        value=ours.get("value"),
        unit=ours["unit"],
        limit=ours.get("limit"),
        limit_source=ours["limit_source"],
        limit_frozen=None if frozen is None else moment(frozen, "limit_frozen"),
        raw_sha256=raw_sha256,
        identities=tuple(_identity(said) for said in _list(ours, "identities")),
        channels=tuple(_identity(said) for said in _list(ours, "channels")) if "channels" in ours else (),
        aliases={device: _texts(names, device) for device, names in _mapping(ours, "aliases").items()},
        inputs=inputs,
        configuration=configuration,
        replayed=ours["replayed"],
        form=_mapping(ours, "form"),
        attachments=tuple(attachments),
        host=ours["host"],
        detail=ours["detail"],
    )
    if predicate.get(_TEST_LISTS[record.result]) != [record.item]:
        raise Refused(f"{_TEST_LISTS[record.result]} must name {record.item} alone")
    if digest_of_subject != _asset_digest(record):
        raise Refused(f"the digest of the subject {record.subject} is that of another asset")
    claimed, today = cast(Mode, mode), record.mode
    return record, claimed if claimed in ("simulated", "replayed") and today == "unproven" else weakest(
        (claimed, today)
    )


def subject_of(statement: Mapping[str, Any]) -> tuple[str, str]:
    """Name and SHA-256 of the one subject of a statement; ValueError if there are several, or it has no digest."""
    found = statement.get("subject")
    if not isinstance(found, list) or len(found) != 1:
        raise Refused("a statement has one subject")
    if not (name := text(found[0], "name")):
        raise Refused("the subject has no name")
    return name, strict_digest(_mapping(found[0], "digest"))


def _mapping(data: Any, name: str) -> Mapping[str, Any]:
    found = data.get(name) if type(data) is dict or isinstance(data, Mapping) else None
    if not isinstance(found, dict):
        raise Refused(f"{name} must be an object")
    return found


def _list(data: Mapping[str, Any], name: str) -> list[Any]:
    found = data.get(name)
    if not isinstance(found, list):
        raise Refused(f"{name} must be a list")
    return found


def _texts(found: Any, name: str) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise Refused(f"{name} must be a list of texts")
    return tuple(found)


def _said(identity: Identity) -> dict[str, str]:
    more = {name: getattr(identity, name) for name in _OPTIONAL if getattr(identity, name)}
    return {**{name: getattr(identity, name) for name in _ALWAYS}, **more}


def _identity(said: Any) -> Identity:
    """An identity; equal ones are one object, because a log says the same of a device many times."""
    try:
        return _identity_of(tuple(said.items()))
    except (AttributeError, TypeError):  # no object, or one that holds others
        raise Refused(f"an identity must be an object of texts with {', '.join(_ALWAYS)}") from None


@functools.lru_cache(maxsize=65536)
def _identity_of(items: tuple[tuple[str, Any], ...]) -> Identity:
    said = dict(items)
    fields(said, *_ALWAYS, *(name for name in _OPTIONAL if name in said))
    return Identity(**{name: text(said, name) for name in said})


def _asset_digest(record: Record) -> str:
    serials = sorted({identity.serial for identity in record.identities if identity.serial})
    return _digest_of_asset(record.subject, tuple(serials))


@functools.lru_cache(maxsize=65536)
def _digest_of_asset(subject: str, serials: tuple[str, ...]) -> str:
    return _sha256(json.dumps({"asset": subject, "serials": serials}, sort_keys=True))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
