"""The freeze: what two approvers fixed before go-live, and what of it a record rests on.

    now = frozen_today(plan, register)        # accepted state, register, tables, limits, catalogue, devices, program
    store.append_statements([statement(now, "Jane Doe", at)], key)      # one approver; the other one signs the same
    freezes_of(contents, trust).current       # the last one that two approvers signed

A freeze is one statement by each of two approvers about the same digest: `FREEZE` has all that is frozen, `SECOND` the digest
alone. Both stand in the evidence log, so its order says which freeze is in force. A freeze that comes into force voids all
halves that were signed before it. A half lapses as approvals of go-live do (attest.approval_days).

A record names the freeze and the hashes that it rests on among its inputs: `freeze`, `program.<check file>` (over the file and
all that it imports) and `program.validation/steps.yaml#<item>`. Its limits are the inputs `limit.<key>`. Its
configuration has `devices` (device_identity.py): hashes over the rows of assets.csv and known_hosts of those that it touched. A
server that is replaced makes the records about it stale, and asks two approvers for a freeze; records of other devices count on.
"""

import bisect
import dataclasses
import functools
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from securesystemslib.signer import CryptoSigner

from capacity.model import Plan
from inventory.catalog import read_yaml
from inventory.paths import read_file, repo_root
from inventory.site import Site
from inventory.site.accepted import FOLDER
from network.drivers.errors import one_line, printable
from validation import device_identity, program
from validation.device_identity import digests_today
from validation.evidence import strict
from validation.evidence.mode import same_person
from validation.evidence.record import STATEMENT_TYPE, Record
from validation.evidence.store import Contents, Entry, IntegrityError, Statement, Store
from validation.evidence.strict import Refused
from validation.evidence.trust import Trust, trust_of
from validation.limits import limit_digest
from validation.register import Item, Register, of_platform

FREEZE = "urn:bringup:freeze:v1"
SECOND = "urn:bringup:freeze-second:v1"
APPROVER_ROLE = "approver"
SIGNERS = 2
INPUT = "freeze"
PROGRAM = "program."
STEPS = "validation/steps.yaml"
PLATFORM = "validation/platform_steps.yaml"
TABLES = (
    STEPS,
    "validation/forms.yaml",
    "validation/evidence/markers.yaml",
    "validation/xids.yaml",
    "inventory/limits.yaml",
)
GATE = "validation/gate.py"
ACCEPT = "run `bringup accept` first: it writes accepted/ beside the site file"
MAX_ACCEPTED = 100
"""Files of accepted/ that are read; `bringup accept` writes seven."""
SHOWN = 12
SHOWN_TEXT = 200
SECTIONS = ("accepted", "tables", "items", "limits", "catalogue", "devices", "files", "checks")
"""Parts of a freeze: name to SHA-256 each, but for `checks`, which also list their files."""
FORMS = {1: tuple(one for one in SECTIONS if one != "devices"), 2: SECTIONS}
"""Parts by schema_version: freezes of earlier versions stay in the log, and have no devices."""


class FreezeError(Exception):
    """A freeze that cannot be signed as things are; the message says why and what to do."""


@dataclass(frozen=True)
class Frozen:
    """What is frozen: name to SHA-256 in each part of `SECTIONS`, and the program (version, commit, unclean).

    ``closures`` are the files of each check file; their hashes stand in ``parts["files"]``.
    """

    site: str
    parts: Mapping[str, Mapping[str, str]]
    closures: Mapping[str, tuple[str, ...]]
    program: Mapping[str, str]

    @functools.cached_property
    def said(self) -> Mapping[str, Any]:
        """As plain data, as the statement has it."""
        checks = {
            name: {"sha256": digest, "files": list(self.closures.get(name, ()))}
            for name, digest in self.parts["checks"].items()
        }
        plain = {name: dict(self.parts[name]) for name in SECTIONS if name != "checks" and name in self.parts}
        version = 2 if "devices" in self.parts else 1
        return {"schema_version": version, "site": self.site, "program": dict(self.program), **plain, "checks": checks}

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 over all of it: the name of the freeze."""
        return hashlib.sha256(strict.canonical(self.said)).hexdigest()

    @functools.cached_property
    def inputs(self) -> Mapping[str, str]:
        """The hashes that a record may rest on, by the names that its inputs have."""
        items = {f"{PROGRAM}{file_of(item)}#{item}": digest for item, digest in self.parts["items"].items()}
        return items | {f"{PROGRAM}{name}": digest for name, digest in self.parts["checks"].items()}


@dataclass(frozen=True)
class Freezes:
    """The freezes of a log. ``known`` are those that two approvers signed, with the line at which each first was;
    ``current`` is the one in force, ``by`` who signed it and when. ``half`` waits for its second signer.
    """

    known: Mapping[str, tuple[int, Frozen]] = field(default_factory=dict)
    current: Frozen | None = None
    by: tuple[tuple[str, datetime], ...] = ()
    half: "tuple[Frozen, str, frozenset[str], datetime] | None" = None

    def why_not(self, record: Record, line: int) -> str | None:
        """Why a record does not count at go-live by the program that made it, whatever it found; None if it does."""
        digest = record.inputs.get(INPUT)
        if digest is None:
            return "it was recorded without a freeze; run bringup freeze, then the check again"
        known = self.known.get(digest)
        if known is None or known[0] >= line:
            return f"it names the freeze {digest[:16]}, which two approvers had not signed when it was recorded"
        unclean = record.configuration.get(PROGRAM_STATE, {}).get("unclean", "it does not say which program made it")
        if unclean != "":
            return f"its program is no commit that a freeze could name: {one_line(str(unclean), SHOWN_TEXT)}"
        if not any(name.startswith(PROGRAM) for name in record.inputs):
            return "it does not say which check made it"
        return None

    def changed(self, record: Record) -> list[str]:
        """The files of the freeze in force that differ from those that a record rests on."""
        now = self.current.inputs if self.current else {}
        names: list[str] = []
        for name, digest in sorted(record.inputs.items()):
            if name.startswith(PROGRAM) and now.get(name) != digest:
                names += self._files(record, name.removeprefix(PROGRAM))
        return list(dict.fromkeys(names))

    def devices_changed(self, record: Record, devices: Iterable[str], today: Mapping[str, str]) -> list[str]:
        """Rows of assets.csv and known_hosts that a record about these devices rests on and that are others today.

        ``today`` are their hashes (device_identity.digests_of). Where no freeze says what the rows were, the file is named.
        """
        said = record.configuration.get(device_identity.DEVICES, {})
        files = [name for name, digest in device_identity.rows_of(devices, today).items() if said.get(name) != digest]
        then = self.known.get(record.inputs.get(INPUT, ""))
        rows = device_identity.changed(devices, then[1].parts.get("devices", {}), today) if then and files else []
        return [row for row in rows if row.partition("#")[0] in files] or files

    def _files(self, record: Record, name: str) -> list[str]:
        """Which files of a check differ between the freeze of a record and the one in force; the check's own if none does."""
        then = self.known.get(record.inputs.get(INPUT, ""))
        if then is None or self.current is None:
            return [name]
        old, new = then[1].parts["files"], self.current.parts["files"]
        files = {*then[1].closures.get(name, ()), *self.current.closures.get(name, ())}
        return sorted(file for file in files if old.get(file) != new.get(file)) or [name]


PROGRAM_STATE = "program"
"""The part of a record's configuration that says which program made it: version, commit, unclean."""


def configuration() -> dict[str, dict[str, str]]:
    """What a record says of the program that makes it."""
    return {PROGRAM_STATE: dataclasses.asdict(program.program_state())}


def inputs_of(file: str, item: Item, register: Register, freeze: str) -> dict[str, str]:
    """The inputs of a record that a check file makes for an item under a freeze ('': none is in force)."""
    made = {
        f"{PROGRAM}{file}": program.part_of(file).sha256,
        f"{PROGRAM}{file_of(item.id)}#{item.id}": item_digest(register, item),
    }
    return made | ({INPUT: freeze} if freeze else {})


def file_of(item: str) -> str:
    """The file of the register that has an item."""
    return PLATFORM if of_platform(item) else STEPS


def item_digest(register: Register, item: Item) -> str:
    """SHA-256 of all that the register says of an item: step, selectors and conditions included."""
    step = register.steps[item.step]
    said = {
        "item": dataclasses.asdict(item),
        "step": dataclasses.asdict(step),
        "applies": [dataclasses.asdict(one) for one in register.applies[step.applies]],
        "selectors": {n: dataclasses.asdict(register.selectors[n]) for n in (*item.subjects, *item.lab_subjects)},
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def frozen_today(plan: Plan, register: Register, devices: Mapping[str, str] | None = None) -> Frozen:
    """What a freeze of the plan's site would fix now. FreezeError without an accepted state, or for one that cannot be read.

    devices: what device_identity.digests_of said of the lists that somebody has read already; None: they are read.
    """
    site = plan.site
    checks = {name: program.part_of(name) for name in (*program.check_files(), GATE)}
    files = {name: digest for part in checks.values() for name, digest in part.files.items()}
    return Frozen(
        site.name,
        {
            "accepted": _accepted(site),
            "tables": {name: program.sha256_of_file(name) for name in tables_of(register)},
            "items": {item.id: item_digest(register, item) for item in register.items.values()},
            "limits": limits_today(site),
            "catalogue": _catalogue(site),
            "devices": digests_today(plan) if devices is None else dict(devices),
            "files": files,
            "checks": {name: part.sha256 for name, part in checks.items()},
        },
        {name: tuple(sorted(part.files)) for name, part in checks.items()},
        dataclasses.asdict(program.program_state()),
    )


def tables_of(register: Register) -> tuple[str, ...]:
    """The tables that a freeze holds: those of the platform only where the register has it."""
    return (*TABLES, PLATFORM) if any(map(of_platform, register.steps)) else TABLES


def limits_today(site: Site) -> dict[str, str]:
    """SHA-256 of each limit of a site, as records have it."""
    return {key: limit_digest(limit) for key, limit in site.limits.items()}


def _accepted(site: Site) -> dict[str, str]:
    folder = site.dir / FOLDER
    if not folder.is_dir():
        raise FreezeError(f"{folder} is not there, and a freeze signs it; {ACCEPT}")
    names = sorted(path.name for path in folder.iterdir())
    if not names or len(names) > MAX_ACCEPTED:
        raise FreezeError(f"{folder} has {len(names)} files, 1 to {MAX_ACCEPTED} are expected; {ACCEPT}")
    try:
        return {f"{FOLDER}/{name}": strict.sha256_of(folder, name) for name in names}
    except (Refused, FileNotFoundError) as error:
        raise FreezeError(f"{folder}: {error}; {ACCEPT}") from None


def _catalogue(site: Site) -> dict[str, str]:
    """The files of the catalogue entries that a site names, and of those that these name."""
    paths = site.catalog.paths
    waiting = [text for text in _texts(site.effective.value) if text in paths]
    found: dict[str, str] = {}
    seen: set[str] = set()
    while waiting:
        slug = waiting.pop()
        if slug not in seen:
            seen.add(slug)
            path = paths[slug]
            found[_shown(path, site)] = hashlib.sha256(read_file(path, strict.MAX_SMALL)).hexdigest()
            waiting += [text for text in _texts(read_yaml(path)) if text in paths]
    return found


def _shown(path: Any, site: Site) -> str:
    for base in (repo_root(), site.dir):
        if path.is_relative_to(base):
            return str(path.relative_to(base))
    return str(path)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def differences(old: Frozen | None, new: Frozen) -> list[str]:
    """What differs between two freezes, a line a name; all that is new where there is no old one is said in numbers."""
    if old is None:
        return [f"{name}: {len(new.parts[name])}" for name in SECTIONS if name in new.parts]
    found = []
    for key in ("version", "commit", "unclean"):
        if old.program.get(key) != new.program.get(key):
            found.append(f"program {key}: {old.program.get(key) or 'none'} -> {new.program.get(key) or 'none'}")
    for section in SECTIONS:
        before, after = old.parts.get(section, {}), new.parts.get(section, {})
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                how = "added" if name not in before else "removed" if name not in after else "changed"
                found.append(f"{section} {name}: {how}")
    return found


def unlike(frozen: Frozen, today: Frozen) -> list[str]:
    """Why a gate with the configuration of today may not judge by a freeze: what it judges by and what differs."""
    found = [
        line
        for line in differences(frozen, today)
        if line.split()[0] in ("accepted", "tables", "limits", "catalogue", "devices")
    ]
    if frozen.parts["checks"].get(GATE) != today.parts["checks"].get(GATE):
        old, new = frozen.parts["files"], today.parts["files"]
        files = sorted({*frozen.closures.get(GATE, ()), *today.closures.get(GATE, ())})
        changed = [name for name in files if old.get(name) != new.get(name)]
        found.append(f"the gate's program: {', '.join(changed[:SHOWN]) or GATE} changed")
    if why := today.program["unclean"]:
        found.append(f"the gate's program: {one_line(why, SHOWN_TEXT)}")
    return found


def statement(frozen: Frozen, name: str, at: datetime) -> Mapping[str, Any]:
    """The statement of the first approver: all that is frozen."""
    return _statement(FREEZE, frozen, name, at, {"frozen": frozen.said})


def second(frozen: Frozen, name: str, at: datetime) -> Mapping[str, Any]:
    """The statement of the second approver: the digest, whose content the first one's statement has."""
    return _statement(SECOND, frozen, name, at, {})


def _statement(kind: str, frozen: Frozen, name: str, at: datetime, more: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": frozen.site, "digest": {"sha256": frozen.digest}}],
        "predicateType": kind,
        "predicate": {"schema_version": 1, "name": name, "at": at.isoformat(), "freeze": frozen.digest, **more},
    }


def parsed(said: Any) -> Frozen:
    """What is frozen, from plain data of a log. ValueError names what is wrong."""
    version = said.get("schema_version") if isinstance(said, dict) else None
    if type(version) is not int or version not in FORMS:
        raise Refused(f"schema_version must be one of {', '.join(map(str, FORMS))}")
    strict.fields(said, "schema_version", "site", "program", *FORMS[version])
    running = strict.fields(said["program"], "version", "commit", "unclean")
    parts: dict[str, dict[str, str]] = {}
    closures: dict[str, tuple[str, ...]] = {}
    for section in FORMS[version]:
        if not isinstance(said[section], dict):
            raise Refused(f"{section} must be an object")
        parts[section] = {}
        for name in said[section]:
            if section == "checks":
                part = strict.fields(said[section][name], "sha256", "files")
                if not isinstance(part["files"], list) or not all(isinstance(one, str) for one in part["files"]):
                    raise Refused(f"files of {name} must be a list of texts")
                parts[section][name], closures[name] = strict.digest(part), tuple(part["files"])
            else:
                parts[section][name] = strict.digest(said[section], name)
    return Frozen(strict.text(said, "site"), parts, closures, {name: strict.text(running, name) for name in running})


@dataclass
class _Half:
    """Who has signed a digest since the last freeze came into force: name, keys, moment and line of each.

    Of the same keys only two people are kept, the newest signature of each: one key may sign a hundred thousand names.
    """

    frozen: Frozen | None = None
    last: tuple[str, frozenset[str], datetime] | None = None
    _signed: dict[frozenset[str], dict[str, "_Signed"]] = field(default_factory=dict)

    def add(self, name: str, keys: frozenset[str], when: datetime, line: int) -> None:
        """One more signature."""
        self.last = name, keys, when
        people = self._signed.setdefault(keys, {})
        if len(people) < SIGNERS or same_person(name) in people:
            people[same_person(name)] = _Signed(name, when, line)

    def signers(self, apart: "Callable[[_Signed, _Signed], bool]") -> tuple[tuple[str, datetime], ...]:
        """Two of them with different names and different keys which are not too far ``apart``; () if there are no two."""
        for (keys, people), (more, others) in itertools.combinations_with_replacement(self._signed.items(), 2):
            if len(keys | more) >= SIGNERS:
                for (person, one), (other, two) in itertools.product(people.items(), others.items()):
                    if person != other and not apart(one, two):
                        return tuple(sorted(((s.name, s.when) for s in (one, two)), key=lambda signed: signed[1]))
        return ()


class _Signed(NamedTuple):
    """One signature of a half."""

    name: str
    when: datetime
    line: int


def freezes_of(contents: Contents, trust: Trust) -> Freezes:
    """The freezes of a verified log. All keys that the site file pins for the role approver count, and no others.

    What roles.json says of them is not asked: nobody signs it, and a key that it silenced would bring an older freeze back.

    ValueError names the line of a statement that is no freeze.
    """

    @functools.cache
    def entries() -> list[Entry]:
        return sorted(contents.entries, key=lambda entry: entry.line)

    @functools.cache
    def lapses(half: _Signed) -> float:
        """The line of the first record behind a half that ended when the half had lapsed; endless if none did."""
        start = bisect.bisect_right(entries(), half.line, key=lambda entry: entry.line)
        behind = itertools.islice(entries(), start, None)
        late = (entry.line for entry in behind if entry.record.ended - half.when > trust.approvals_last)
        return next(late, math.inf)

    def apart(one: _Signed, two: _Signed) -> bool:
        """Whether the earlier of two halves had lapsed: by their dates, or by that of a record between them."""
        if abs(one.when - two.when) > trust.approvals_last:
            return True
        first, last = sorted((one, two), key=lambda signed: signed.line)
        return lapses(first) < last.line

    known: dict[str, tuple[int, Frozen]] = {}
    halves: dict[str, _Half] = {}
    current: Frozen | None = None
    by: tuple[tuple[str, datetime], ...] = ()
    for said in sorted(contents.statements, key=lambda one: one.line):
        if said.predicate_type not in (FREEZE, SECOND):
            continue
        name, when, digest, frozen = _read(said)
        keys = frozenset(key for key in said.signers if APPROVER_ROLE in trust.pinned.get(key, ()))
        if len(keys) != 1 or not same_person(name):  # a name is that of one signer, and can be seen
            continue
        half = halves.setdefault(digest, _Half(known[digest][1] if digest in known else None))
        half.frozen = frozen or half.frozen
        half.add(name, keys, when, said.line)
        if half.frozen is not None and not half.frozen.program["unclean"] and (found := half.signers(apart)):
            current, by = half.frozen, found
            known.setdefault(digest, (said.line, half.frozen))
            halves.clear()
    waiting = [(half.frozen, *half.last) for half in halves.values() if half.frozen is not None and half.last]
    return Freezes(known, current, by, waiting[-1] if waiting else None)


def _read(said: Statement) -> tuple[str, datetime, str, Frozen | None]:
    try:
        name, digest = strict.text(said.predicate, "name"), strict.digest(said.predicate, "freeze")
        when = strict.moment(said.predicate.get("at"), "at")
        if not name.strip():
            raise Refused("name is empty")
        frozen = parsed(said.predicate.get("frozen")) if said.predicate_type == FREEZE else None
        if said.digest != digest or (frozen is not None and (frozen.digest != digest or frozen.site != said.subject)):
            raise Refused("its digest or its site is that of another freeze")
    except ValueError as error:
        raise ValueError(f"line {said.line}: not a freeze: {error}") from None
    return name, when, digest, frozen


def signers_shown(by: Iterable[tuple[str, datetime]]) -> str:
    """Who signed, and when."""
    return " and ".join(f"{name} ({when:%Y-%m-%d})" for name, when in by)


def read_freezes(site: Site, store: Store) -> Freezes:
    """The freezes in the log of a site. IntegrityError for a log that is broken, or a freeze in it that is none."""
    contents = store.verify()
    try:
        return freezes_of(contents, trust_of(site, contents))
    except ValueError as error:
        raise IntegrityError(store.path, [str(error)]) from None


def seen(site: Site, store: Store, now: Frozen) -> list[str]:
    """What a signer sees before signing: what is frozen, and what changed since the freeze in force."""
    found = read_freezes(site, store)
    lines = [
        f"site {site.name}, program {now.program['version']} {now.program['commit'] or '(no checkout)'}",
        *(f"  {line}" for line in differences(None, now)),
        f"freeze {now.digest}",
    ]
    if found.current is None:
        return [*lines, "there is no freeze in force"]
    lines.append(f"in force: {found.current.digest[:16]} by {signers_shown(found.by)}")
    changed = differences(found.current, now)
    return [*lines, *(f"  changed: {printable(line)}" for line in changed)] if changed else [*lines, "nothing changed"]


def sign(site: Site, store: Store, now: Frozen, name: str, key: CryptoSigner, at: datetime) -> str:
    """Sign what is frozen, as the first or the second approver. Returns what that led to.

    FreezeError if the key is not pinned for the role approver, the program is not as committed, the freeze is in force already,
    the first half is about something else, or the same key or the same name has signed it already.
    """
    key_id, name = key.public_key.keyid, one_line(name, SHOWN_TEXT).strip()
    holder = site.attest.roles.get(APPROVER_ROLE)
    if not name:
        raise FreezeError("--as is empty; give your name")
    if holder is None or key_id not in holder.keys:
        raise FreezeError(
            f"the key {key_id} is not pinned for {APPROVER_ROLE}; if it is yours, have it added to "
            f"attest.roles.{APPROVER_ROLE}.keys in {site.path}"
        )
    if why := now.program["unclean"]:
        raise FreezeError(f"the program cannot be frozen: {why}. Fix: commit or undo the changes, then freeze again")
    found = read_freezes(site, store)
    if found.current is not None and found.current.digest == now.digest:
        raise FreezeError(f"this freeze is in force already, by {signers_shown(found.by)}")
    lasts = timedelta(days=site.attest.approval_days)
    lapsed = found.half is not None and abs(at - found.half[3]) > lasts
    if found.half is None or found.half[0].digest != now.digest or lapsed:
        _enroll(store, key, name)
        store.append_statements([statement(now, name, at)], key)
        again = ""
        if found.half:
            how = f"has lapsed ({lasts.days} days)" if lapsed else "is about something else"
            again = f"; the half that {printable(found.half[1])} signed on {found.half[3]:%Y-%m-%d} {how}"
        return f"signed by {name}{again}; a second approver signs with: bringup freeze {site.name} --as NAME --key REFERENCE"
    _, first, keys, _ = found.half
    if key_id in keys:
        raise FreezeError(
            f"this key has signed it already, as {printable(first)}; a second approver signs with another key"
        )
    if same_person(first) == same_person(name):
        raise FreezeError(f"{printable(first)} has signed it already; the second approver is another person")
    _enroll(store, key, name)
    store.append_statements([second(now, name, at)], key)
    return f"freeze {now.digest[:16]} is in force, by {printable(first)} and {name}"


def _enroll(store: Store, key: CryptoSigner, name: str) -> None:
    store.enroll(key, role=APPROVER_ROLE, owner=name)
