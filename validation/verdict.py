"""The verdict: from register, plan and verified evidence to an answer, item by item. Pure; validation/gate.py does I/O.

    verdict = judge(register, plan, contents, waivers, now)

Go-live is allowed only if every item whose step applies to the site has, for every asset that the plan selects, fresh
passing evidence that counts: device kinds (applied, measured, observed) in the mode ``real`` (channels.py), computed and
generated ones with the hashes of today's inputs, attested ones with every signature that they need. A rehearsal judges the items
that the embedded lab can exercise, accepts simulated evidence, and never allows go-live.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, Literal, get_args

from inventory.findings import Finding, without_untried
from inventory.site import Site
from inventory.site.explain import unconfirmed
from inventory.site.yaml_source import Path
from validation import approvals, countersignatures, order, rejudge
from validation.approvals import Approved
from validation.device_identity import DEVICES, digests_of, rows_of
from validation.evidence import results
from validation.evidence.begun import Begun, begun_checks, in_order
from validation.evidence.channels import Ledger
from validation.evidence.mode import PINNED, STRENGTH, Mode, declares_simulation, weakest
from validation.evidence.record import WORKLOAD, Record
from validation.evidence.store import Contents, Entry
from validation.evidence.trust import COLLECTOR_ROLE, RECORDER_ROLE, Trust, recorder_keys, trust_of
from validation.forms import EMPTY, RowsOfAssets, began, contradictions, faults, off_plan, unfounded
from validation.freeze import INPUT, PROGRAM, Freezes, Frozen, freezes_of, signers_shown, unlike
from validation.limit_floors import laxer
from validation.limits import PREFIX, limit_inputs
from validation.register import FewerChannels, Floor, Item, PlanView, Register, natural, of_platform
from validation.waive import (
    ALL_SUBJECTS,
    APPROVER_ROLE,
    SIGNERS_OF_FAILED,
    SIGNERS_OF_REPORT,
    Waiver,
    approvers,
    asked_of,
    counted,
    unwaived_errors,
)

Status = Literal[
    "fail",
    "missing",
    "stale",
    "out_of_order",
    "unproven",
    "simulated",
    "assumed",
    "partial",
    "waived",
    "external",
    "pass",
    "not_applicable",
    "not_exercised",
]
WORST_FIRST: tuple[Status, ...] = get_args(Status)
"""The statuses as they stand above: of an item's subjects the worst decides."""
CLOSED: frozenset[Status] = frozenset({"pass", "external", "waived", "not_applicable"})
INPUT_KINDS = frozenset({"computed", "generated"})
GATE_ITEM = "S195.generated"
APPROVAL_ITEM = "S195.attested"
SHOWN_ASSUMPTIONS = 3
SHOWN_CLOCKS = 5
SHOWN_CHANGES = 12
SHOWN_UNASKED = 3
SHOWN_OWNERS = 3
SHOWN_DETAIL = 4000
"""Characters of a detail that a verdict repeats: signers and devices write what it quotes."""
CLOCK_SKEW = timedelta(minutes=5)

Word = Literal["GO-LIVE", "NO GO-LIVE", "REHEARSAL PASSED", "REHEARSAL UNPROVEN", "REHEARSAL NOT PASSED"]


@dataclass(frozen=True)
class SubjectVerdict:
    """One asset of one item: its status and why; ``mode`` of the evidence that decided, None if there is none."""

    subject: str
    status: Status
    detail: str = ""
    mode: Mode | None = None
    ended: datetime | None = None


@dataclass(frozen=True)
class ItemVerdict:
    """One item: the status of its worst subject, that subject first in ``subjects``."""

    item: str
    step: str
    kind: str
    group: str
    title: str
    status: Status
    detail: str
    premature: bool = False
    subjects: tuple[SubjectVerdict, ...] = ()

    @property
    def mode(self) -> Mode | None:
        """The weakest mode of the evidence of its subjects."""
        modes = [s.mode for s in self.subjects if s.mode is not None]
        return weakest(modes) if modes else None


@dataclass(frozen=True)
class Needs:
    """What items wait for that neither a check nor a form mends: next_steps.py makes lines of work of it.

    signers: by attested item the roles that sign it here, one for each person. roles: keys that the site file still has to pin, by
    role. freeze: 'none' where none is in force, 'unlike' where the gate has another configuration, else ''. devices: servers and
    switches without a pinned host key. never_ended: items of which a check began and never ended.
    """

    signers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    roles: Mapping[str, int] = field(default_factory=dict)
    freeze: Literal["", "none", "unlike"] = ""
    devices: frozenset[str] = frozenset()
    never_ended: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Verdict:
    """The answer of the gate. ``word`` is its headline, ``reasons`` lists the reasons against go-live."""

    site: str
    rehearsal: bool
    word: Word
    exit_code: int
    mode: Mode | None
    plan_hash: str
    judged: datetime
    items: tuple[ItemVerdict, ...]
    reasons: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    errors: tuple[Finding, ...] = ()
    counts: Mapping[Status, int] = field(default_factory=dict)
    """Of the items of the 195 steps; those of the platform stand apart."""
    platform: Mapping[Status, int] = field(default_factory=dict)
    """The same of the platform's items; empty on a site without Kubernetes."""
    fewer_channels: tuple[tuple[FewerChannels, tuple[str, ...]], ...] = ()
    """Devices of the plan that cannot show three channels, by what the register says of them."""
    no_check: tuple[str, ...] = ()
    """Missing items that no check can prove yet; all others that are missing lack only their evidence."""
    needs: Needs = Needs()


def judge(
    register: Register,
    plan: PlanView,
    contents: Contents,
    waivers: Sequence[Waiver],
    now: datetime,
    *,
    rehearsal: bool = False,
    asset_ids: Mapping[str, Iterable[str]] | None = None,
    today: Frozen | None = None,
    host_keys: Mapping[str, frozenset[str]] | None = None,
    checked: Mapping[str, Sequence[str]] | None = None,
    from_raw: rejudge.FromRaw | None = None,
) -> Verdict:
    """The verdict on a site. Pure. ValueError names the line of a freeze that is none.

    ``today`` is what the work tree has of what a freeze fixes: at go-live the freeze in force must have the same (None:
    not compared).

    ``asset_ids`` gives, per device, the identifiers (serial, UUID, MAC, GUID) that the inventory holds today; evidence
    that met another one there is stale, because the device has been replaced since. ``host_keys`` gives, per device, the
    host keys that were pinned (channels.Ledger). ``checked`` are the items that a check can prove, each with the
    selectors that its checks are limited to (none: all subjects); None: not known.
    ``from_raw`` computes values again from raw outputs (from_raw.Reader); None: they are not.
    """
    bench, notices = _bench(register, plan, contents, waivers, now, rehearsal, asset_ids or {}, host_keys or {})
    bench = replace(bench, from_raw=from_raw, checked=checked)
    valid = bench.waivers
    decided = _decisive(bench, bench.events)
    bench = replace(bench, latest=decided.latest)
    judged = {item.id: _judge_item(bench, item, decided) for item in register.items.values()}
    late = _late(bench, judged, decided)
    if not rehearsal:
        bench = replace(bench, late=late)
        again = {item for item, _ in late}
        judged |= {item: _judge_item(bench, register.items[item], decided) for item in again}
    errors = unwaived_errors(plan.findings, valid, now)
    judged = _with_premature(register, judged, rehearsal=rehearsal)
    if not rehearsal:
        judged[GATE_ITEM] = _gate_item(judged, errors)
    items = tuple(judged.values())
    notices = [*contents.notices, *_clock_notices(bench.events, now), *_floor_notices(register, plan.site), *notices]
    if not rehearsal:
        notices += _role_notices(judged.values(), register, plan.site)
    elif late:
        notices.append(_late_notice(late))
    modes = [s.mode for i in items if i.kind in order.DEVICE_KINDS for s in i.subjects if s.mode is not None]
    mode = weakest(modes) if modes else None
    word, exit_code, reasons = _word(plan.site, items, errors, mode, rehearsal)
    if not rehearsal and (against := _freeze_reasons(bench.freezes, today)):
        word, exit_code, reasons = "NO GO-LIVE", 1, [*against, *reasons]
    notices[:0] = _freeze_notices(bench.freezes, rehearsal=rehearsal)
    if (
        not rehearsal
        and (contents.entries or contents.statements)
        and not contents.head_signers & recorder_keys(plan.site)
    ):
        word, exit_code = "NO GO-LIVE", 1
        reasons.insert(
            0,
            "head.json is signed by no key that the site file pins for the role recorder: a cut tail of the log could not "
            "be noticed. Fix: add the recorder's fingerprint to attest.roles.recorder.keys",
        )
    return Verdict(
        site=plan.site.name,
        rehearsal=rehearsal,
        word=word,
        exit_code=exit_code,
        mode=mode,
        plan_hash=plan.hash,
        judged=now,
        items=items,
        reasons=tuple(reasons),
        notices=tuple(notices),
        errors=tuple(errors),
        counts=_by_status(one for one in items if not of_platform(one.item)),
        platform=_by_status(one for one in items if of_platform(one.item)),
        fewer_channels=tuple(
            (one, tuple(bench.selected[one.select])) for one in register.fewer_channels if bench.selected[one.select]
        ),
        no_check=tuple(i.item for i in items if i.status == "missing" and not _can_ask(bench, i)),
        needs=_needs(bench, items, decided, today),
    )


def _by_status(items: Iterable[ItemVerdict]) -> dict[Status, int]:
    counts = Counter(item.status for item in items)
    return {status: counts[status] for status in WORST_FIRST if counts[status]}


def _needs(bench: "_Bench", items: Sequence[ItemVerdict], decided: "_Decided", today: Frozen | None) -> Needs:
    site, register = bench.plan.site, bench.register
    applying = [register.items[one.item] for one in items if one.status != "not_applicable"]
    signers = {item.id: item.signers_on(site) for item in applying if item.kind == "attested"}
    never_ended = frozenset(item for (item, _), event in decided.latest.items() if isinstance(event, Begun))
    if bench.rehearsal:
        return Needs(signers=signers, never_ended=never_ended)
    wanted = {COLLECTOR_ROLE: 1, RECORDER_ROLE: 1, APPROVER_ROLE: SIGNERS_OF_FAILED}
    for roles in signers.values():
        for role, count in Counter(roles).items():
            wanted[role] = max(count, wanted.get(role, 0))
    pinned = {role: len(set(holder.keys)) for role, holder in site.attest.roles.items()}
    kinds = zip(bench.plan.devices["name"], bench.plan.devices["kind"], strict=True)
    return Needs(
        signers=signers,
        roles={role: short for role, count in wanted.items() if (short := count - pinned.get(role, 0)) > 0},
        freeze="none"
        if bench.freezes.current is None
        else "unlike"
        if today is not None and unlike(bench.freezes.current, today)
        else "",
        devices=frozenset(
            str(name) for name, kind in kinds if kind in ("server", "switch") and not bench.host_keys.get(str(name))
        ),
        never_ended=never_ended,
    )


def _can_ask(bench: "_Bench", item: ItemVerdict) -> bool:
    """Whether a check asks any of the subjects of a missing item."""
    lacking = [one.subject for one in item.subjects if one.status == "missing"]
    return not lacking or len(bench.unasked(item, lacking)) < len(lacking)


def _ledger(
    plan: PlanView,
    trust: Trust,
    contents: Contents,
    collected: Sequence[Entry],
    asset_ids: Mapping[str, Iterable[str]],
    host_keys: Mapping[str, frozenset[str]],
    *,
    rehearsal: bool,
) -> Ledger:
    """What all records that a collector signed say of each device; one that roles.json silences still speaks against it."""
    silenced = [
        entry
        for entry in (contents.entries if len(collected) < len(contents.entries) else ())
        if not trust.collected(entry.signers, rehearsal=rehearsal)
        and trust.collected(entry.signers, rehearsal=rehearsal, failed=True)
    ]
    return Ledger(
        collected,
        speaking_against=silenced,
        kinds={str(name): str(kind) for name, kind in zip(plan.devices["name"], plan.devices["kind"], strict=True)},
        identifiers=asset_ids,
        host_keys=host_keys,
        site=plan.site.name,
        store=contents.store,
    )


def approved(
    register: Register,
    plan: PlanView,
    contents: Contents,
    waivers: Sequence[Waiver],
    now: datetime,
    *,
    asset_ids: Mapping[str, Iterable[str]] | None = None,
    host_keys: Mapping[str, frozenset[str]] | None = None,
    from_raw: rejudge.FromRaw | None = None,
) -> Approved:
    """What approvals of go-live that are signed now are about; arguments and ValueError as in `judge`."""
    bench, _ = _bench(register, plan, contents, waivers, now, False, asset_ids or {}, host_keys or {})
    bench = replace(bench, from_raw=from_raw)
    return approvals.bound(_counting(bench), bench.waivers, bench.freezes, contents, plan.hash)


def _bench(
    register: Register,
    plan: PlanView,
    contents: Contents,
    waivers: Sequence[Waiver],
    now: datetime,
    rehearsal: bool,
    asset_ids: Mapping[str, Iterable[str]],
    host_keys: Mapping[str, frozenset[str]],
) -> "tuple[_Bench, list[str]]":
    """What every item is judged by, and notices of waivers that do not count."""
    trust = trust_of(plan.site, contents)
    selected = register.select_all(plan)
    valid, notices = counted(
        waivers,
        register,
        trust,
        now,
        rehearsal=rehearsal,
        subjects=_once(lambda item: register.subjects(item, plan, selected=selected)),
        asked=_once(lambda item: asked_of(register, item, plan, selected)),
    )
    collected = [one for one in contents.entries if trust.collected(one.signers, rehearsal=rehearsal)]
    bench = _Bench(
        register,
        plan,
        trust,
        valid,
        now,
        rehearsal,
        {device: frozenset(name.casefold() for name in names if name) for device, names in asset_ids.items()},
        selected,
        tuple(unconfirmed(plan.site)),
        freezes_of(contents, trust),
        contents,
        in_order(contents.entries, begun_checks(contents)),
        _ledger(plan, trust, contents, collected, asset_ids, host_keys, rehearsal=rehearsal),
        host_keys,
        results.first_uses((entry.line, entry.record) for entry in collected),
        countersignatures.stated(contents),
        digests_of(asset_ids, host_keys),
        RowsOfAssets(plan),
    )
    return bench, notices


def _once(of: Callable[[Item], Sequence[str]]) -> Callable[[Item], Sequence[str]]:
    """The function with what it said of each item kept: thousands of waivers may be about one."""
    known: dict[str, Sequence[str]] = {}

    def kept(item: Item) -> Sequence[str]:
        if item.id not in known:
            known[item.id] = of(item)
        return known[item.id]

    return kept


@dataclass(frozen=True)
class _Bench:
    """What every item is judged by. ``latest`` is what decides in the whole log, once that is known."""

    register: Register
    plan: PlanView
    trust: Trust
    waivers: Sequence[Waiver]
    now: datetime
    rehearsal: bool
    listed: Mapping[str, frozenset[str]]
    """By device the identifiers that the inventory lists today, without regard to case."""
    selected: Mapping[str, list[str]]
    assumed: Sequence[Path]
    freezes: Freezes
    contents: Contents
    events: "Sequence[Entry | Begun]"
    """Records and checks that have begun, in the order of the log."""
    ledger: Ledger
    host_keys: Mapping[str, frozenset[str]]
    first_uses: Mapping[tuple[str, str, str], int]
    countersigned: countersignatures.Stated
    devices: Mapping[str, str]
    """Hashes of what assets.csv and known_hosts say of each device today."""
    rows_of_assets: RowsOfAssets
    from_raw: rejudge.FromRaw | None = None
    latest: "Mapping[tuple[str, str], Entry | Begun] | None" = None
    late: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Why records that pass came before what their group comes after; empty in a rehearsal."""
    checked: Mapping[str, Sequence[str]] | None = None
    _waivers: dict[tuple[str, str], list[Waiver]] = field(default_factory=dict)
    """Waivers by the item and subject that they name."""
    _touched: dict[int, tuple[bool, list[str]]] = field(default_factory=dict)
    _rows: dict[tuple[str, ...], Mapping[str, str]] = field(default_factory=dict)
    """Hashes over the rows of devices, by their names."""
    _changed: dict[tuple[int, str], list[str]] = field(default_factory=dict)
    """By the id of the identities, or inputs, of a record: the memory of a log has equal ones as one object."""

    def touched(self, record: Record) -> tuple[bool, list[str]]:
        """Whether a device that a record touched declares itself simulated, and the planned devices that it touched."""
        if (found := self._touched.get(id(record.identities))) is None:
            names = {self.ledger.owner(identity.device) for identity in record.identities}
            simulated = any(declares_simulation(identity) for identity in record.identities)
            found = self._touched[id(record.identities)] = (simulated, sorted(names, key=natural))
        return found

    def changed(self, item: Item, record: Record) -> list[str]:
        """The inputs of a record, and the files of its check, that are others today."""
        key = (id(record.inputs), record.subject if item.kind == "attested" else "")
        if (found := self._changed.get(key)) is None:
            judged_by = {name.removeprefix(PREFIX) for name in record.inputs if name.startswith(PREFIX)}
            today = {"plan": self.plan.hash, **limit_inputs(self.plan.site.limits, judged_by)}
            if item.kind == "attested":
                today |= self.rows_of_assets.of(record.subject)
            hashes = self.plan.hashes
            found = sorted(n for n in _of_plan(record) if (today.get(n) or hashes.get(n)) != record.inputs[n])
            if not self.rehearsal and item.kind != "attested" and self.freezes.current is not None:
                found += self.freezes.changed(record)
            self._changed[key] = found
        return found

    def devices_changed(self, record: Record) -> list[str]:
        """Rows of assets.csv and known_hosts that are others today than those that a record rests on."""
        subject, touched = self.ledger.owner(record.subject), self.touched(record)[1]
        devices = tuple(name for name in {*touched, subject} if self.ledger.planned(name))
        if (wanted := self._rows.get(devices)) is None:
            wanted = self._rows[devices] = rows_of(devices, self.devices)
        if record.configuration.get(DEVICES) == wanted:
            return []
        return self.freezes.devices_changed(record, devices, self.devices)

    def waivers_of(self, item: str, subject: str) -> list[Waiver]:
        """The waivers that cover an item of a subject, in the order of the log."""
        if not self._waivers:
            for waiver in self.waivers:
                self._waivers.setdefault((waiver.item, waiver.subject), []).append(waiver)
        found = [*self._waivers.get((item, subject), ()), *self._waivers.get((item, ALL_SUBJECTS), ())]
        return sorted(found, key=lambda waiver: waiver.line)

    def unasked(self, item: "Item | ItemVerdict", subjects: Sequence[str]) -> list[str]:
        """Those of an item's subjects that no check asks; what people sign needs none."""
        name = item.id if isinstance(item, Item) else item.item
        if self.checked is None or item.kind == "attested" or name == GATE_ITEM:
            return []
        if name not in self.checked:
            return list(subjects)
        only = self.checked[name]
        able = {one for selector in only for one in self.selected[selector]}
        return [one for one in subjects if only and one not in able]

    def subjects(self, item: Item, *, lab: bool) -> list[str]:
        return self.register.subjects(item, self.plan, lab=lab, selected=self.selected)


@dataclass(frozen=True)
class _Decided:
    """By item and subject: what decides (``latest``), the line of the first pass that counted when it was made (``first``), and
    where a failure decides, the line since which one does (``failing``)."""

    latest: Mapping[tuple[str, str], Entry | Begun]
    first: Mapping[tuple[str, str], int]
    failing: Mapping[tuple[str, str], int]

    def failing_since(self, key: tuple[str, str]) -> int:
        """The line since which an item fails for a subject; of a pass that the gate judges a failure, its own."""
        one = self.latest.get(key)
        return self.failing.get(key, one.line if one else 0)


def _late(bench: _Bench, judged: Mapping[str, ItemVerdict], decided: _Decided) -> dict[tuple[str, str], str]:
    """Why records that pass do not count by the order of the groups."""
    decides = {key: one.line for key, one in decided.latest.items()}
    known: dict[str, int] = {}
    for one in bench.events:
        if isinstance(one, Entry):
            known.setdefault(one.record.subject, one.line)
    passed = order.Passed(bench.register, judged, decided.first, known, bench.plan.site.name)
    return passed.late(decides, order.runs_end(bench.events))


def _late_notice(late: Mapping[tuple[str, str], str]) -> str:
    items = list(dict.fromkeys(item for item, _ in late))
    shown = ", ".join(items[:SHOWN_CHANGES]) + (
        f" and {len(items) - SHOWN_CHANGES} more" if items[SHOWN_CHANGES:] else ""
    )
    return f"out of order, and would not count at go-live: {shown} ({next(iter(late.values()))})"


def _decisive(bench: _Bench, events: Iterable[Entry | Begun]) -> _Decided:
    """What decides on each item and subject, by the order of the log and no clock.

    The last record that counts does; only where none counts, the last one. A failure whose signer counts does always. What
    has begun and was never ended is such a failure.
    """
    decisive: dict[tuple[str, str], Entry | Begun] = {}
    last: dict[tuple[str, str], Entry | Begun] = {}
    first: dict[tuple[str, str], int] = {}
    failing: dict[tuple[str, str], int] = {}
    begun: dict[tuple[str, str], Begun] = {}
    for event in events:
        if isinstance(event, Begun):
            key = (event.item, event.subject)
            if not bench.trust.collected(event.signers, rehearsal=bench.rehearsal, failed=event.state == "begun"):
                continue
            if event.state != "begun":
                begun.pop(key, None)
                continue
            if key in begun:
                decisive[key] = begun[key]
                failing.setdefault(key, begun[key].line)
            begun[key] = event
            continue
        record = event.record
        key = (record.item, record.subject)
        item = bench.register.items.get(record.item)
        if item is None:
            continue
        last[key] = event
        if _signed_by_whom_counts(bench, item, event):
            begun.pop(key, None)
            if record.result != "FAILED":
                if _not_by_a_freeze(bench, item, event) or _signed_before(bench, item, record, decisive.get(key)):
                    continue
                if key not in first and _counted_then(bench, item, event):
                    first[key] = event.line
                if not _mode_counts(bench, item, event):
                    continue
            before = decisive.get(key)
            if isinstance(before, Entry) and before.line == event.line and before.record.result == "FAILED":
                continue  # one batch has no order of its own
            decisive[key] = event
            if record.result == "FAILED":
                failing.setdefault(key, event.line)
            else:
                failing.pop(key, None)
    for key, waiting in begun.items():
        failing.setdefault(key, waiting.line)
    return _Decided({**last, **decisive, **begun}, first, failing)


def _signed_before(bench: _Bench, item: Item, record: Record, before: Entry | Begun | None) -> bool:
    """Whether an attestation was signed first before the failure that it follows in the log.

    It can wait for its last signer, who may bring it when another signer has found the asset faulty since.
    """
    if item.kind != "attested" or not isinstance(before, Entry) or before.record.result != "FAILED":
        return False
    return record.ended < before.record.ended <= bench.now + CLOCK_SKEW


def _signed_by_whom_counts(bench: _Bench, item: Item, entry: Entry) -> bool:
    failed = entry.record.result == "FAILED"
    if item.kind != "attested":
        return bench.trust.collected(entry.signers, rehearsal=bench.rehearsal, failed=failed)
    if failed:
        wanted = item.signers_on(bench.plan.site)
        held = {role for key in entry.signers for role in bench.trust.roles_of_failure(key, rehearsal=bench.rehearsal)}
        return bool(held & set(wanted))
    return not _lacking(bench, item, entry)


def _lacking(bench: _Bench, item: Item, entry: Entry) -> str:
    """Which signature or statement an attestation lacks to count, '' for none.

    Its first signer states in the form what was done, and with which key. Each further one states name, time and outcome under a
    signature of their own, beside the one on the form.
    """
    wanted, rehearsal = item.signers_on(bench.plan.site), bench.rehearsal
    if lacking := bench.trust.missing_roles(wanted, entry.signers, rehearsal=rehearsal):
        return f"no counting signature of {', '.join(lacking)}, each by another key"
    if len(wanted) < 2:
        return ""
    first, role = countersignatures.first_signer(entry.record), str(entry.record.form.get("role"))
    if first in entry.signers and role in wanted and role in bench.trust.roles(first, rehearsal=rehearsal):
        own = countersignatures.counting(bench.countersigned, entry, bench.now)
        others = list(wanted)
        others.remove(role)
        if not bench.trust.missing_roles(tuple(others), own, rehearsal=rehearsal):
            return ""
    return (
        f"{len(wanted)} people sign it ({', '.join(wanted)}): the first with the key and role that the form names; each after the "
        "first states name, time and outcome under their own signature before it counts. Fix: sign the form again (bringup "
        "attest), and countersign it, each as another person (bringup attest --countersign)"
    )


def _mode_counts(bench: _Bench, item: Item, entry: Entry) -> bool:
    """Whether a passing record, made under a freeze, has a mode that can count: in a rehearsal all but recordings, which judge
    nothing.
    """
    if item.kind not in order.DEVICE_KINDS:
        return True
    if bench.rehearsal:
        return _mode_of(bench, entry)[0] != "replayed"
    return (
        _mode_of(bench, entry)[0] == "real"
        and entry.record.configuration.get(WORKLOAD, {}).get("workloads_on") != "cpu"
        and not _not_by_its_node(bench, item, entry)
    )


def _counted_then(bench: _Bench, item: Item, entry: Entry) -> bool:
    """Whether a passing record, made under a freeze, could count then: a device that was replaced since takes nothing from the
    order.
    """
    return item.kind not in order.DEVICE_KINDS or bench.rehearsal or entry.mode not in ("simulated", "replayed")


def _not_by_its_node(bench: _Bench, item: Item, entry: Entry) -> str:
    """Why a node did not itself sign its part of a result, where the site pins host keys and the item asks for it; else ''."""
    credentials, record = bench.plan.site.credentials_given, entry.record
    if bench.rehearsal or item.id not in results.ITEMS or credentials is None or credentials.ssh.host_keys != PINNED:
        return ""
    if not (nonce := results.nonce_of(record)):
        return "it does not say of which run it is, so no signature of a node counts for it; run the check again"
    first = bench.first_uses.get((record.item, record.subject, nonce), entry.line)
    if first < entry.line:
        return f"its run counted already for the record in line {first}: what nodes signed counts once"
    place = results.Place(bench.plan.site.name, bench.contents.store)
    if item.id in results.OF_ITS_SUBJECT:
        return results.why_unsigned(record, place, bench.host_keys)
    parts = bench.from_raw.parts(item, record) if bench.from_raw else "its raw output was not read"
    if isinstance(parts, str):
        return parts
    return results.why_unsigned(record, place, bench.host_keys, parts)


def _clock_notices(events: Iterable[Entry | Begun], now: datetime) -> list[str]:
    """Records whose end runs back behind one that stands before it in the log, or ahead of now, by more than the skew.

    What people attest and what was recorded earlier lies in the past by its nature.
    """
    odd: list[str] = []
    latest: datetime | None = None
    ahead = now + CLOCK_SKEW
    for entry in events:
        if isinstance(entry, Begun):
            continue
        record = entry.record
        if record.kind == "attested" or record.replayed:
            continue
        if record.ended > ahead:
            why = "which lies in the future"
        elif latest is not None and record.ended < latest - CLOCK_SKEW:
            why = f"before a record above it ({latest:%Y-%m-%d %H:%M:%S %Z})"
        else:
            why = ""
        if why:
            name = f"line {entry.line}: {record.item} {record.subject} ended {record.ended:%Y-%m-%d %H:%M:%S %Z}"
            odd.append(f"{name}, {why}: check the clock of {record.host}")
        latest = max(record.ended, latest) if latest is not None else record.ended
    more = [f"{len(odd) - SHOWN_CLOCKS} more records whose clock runs back or ahead"] if len(odd) > SHOWN_CLOCKS else []
    return odd[:SHOWN_CLOCKS] + more


def _judge_item(bench: _Bench, item: Item, decided: _Decided) -> ItemVerdict:
    def verdict(status: Status, detail: str, subjects: Sequence[SubjectVerdict] = ()) -> ItemVerdict:
        title = bench.register.title(item, bench.plan.site)
        return ItemVerdict(item.id, item.step, item.kind, item.group, title, status, detail, subjects=tuple(subjects))

    if reason := bench.register.not_applicable(item, bench.plan.site):
        return verdict("not_applicable", reason)
    if bench.rehearsal and not item.lab_exercisable:
        return verdict("not_exercised", item.lab_reason)
    names = bench.subjects(item, lab=bench.rehearsal)
    if not names:
        return verdict("not_applicable", f"the plan has no {', '.join(item.subjects).replace('_', ' ')}")
    subjects = [
        _waived(
            bench,
            item,
            _judge_subject(bench, item, name, decided.latest.get((item.id, name))),
            decided.failing_since((item.id, name)),
        )
        for name in names
    ]
    lax = "; ".join(laxer(item, bench.plan.site))
    if lax and not bench.rehearsal and not item.partial:  # no waiver makes a limit of a step laxer
        why = f"{lax}. Fix: set the limit to what the step allows, and run the check again"
        subjects = [replace(one, status="unproven", detail=why) if one.status in CLOSED else one for one in subjects]
    subjects.sort(key=lambda s: (WORST_FIRST.index(s.status), natural(s.subject)))
    worst = subjects[0]
    alike = sum(s.status == worst.status for s in subjects)
    passed = [one for one in subjects if one.status == "pass"]
    if passed and worst.status in CLOSED:
        shown = worst.detail if len(subjects) == 1 and worst.detail else f"{len(passed)} of {len(subjects)}"
        detail = shown + (f"; {item.lab_reason}" if _partial(bench, item) else "")
        detail += f"; rehearsal only: {lax}" if lax else ""
        if item.partial:  # also where other subjects were waived: their waivers are not about what passed
            why = f"the check does not cover: {item.partial}" + ("" if bench.rehearsal or not lax else f"; {lax}")
            open_parts = [replace(one, status="partial", detail=why) for one in passed]
            parts = [_waived(bench, item, one) for one in open_parts]
            if lax and not bench.rehearsal:  # a report may close it, a waiver may not
                parts = [new if new.status == "external" else old for old, new in zip(open_parts, parts, strict=True)]
            rest = [*parts, *(one for one in subjects if one.status != "pass")]
            rest.sort(key=lambda s: WORST_FIRST.index(s.status))
            if rest[0].status in CLOSED:
                return verdict(rest[0].status, f"{why}; {rest[0].detail}; the rest passed: {detail}", rest)
            return verdict("partial", f"{why}; the rest passed: {detail}", subjects)
    if worst.status != "pass":
        others = f" (and {alike - 1} more of {len(subjects)})" if alike > 1 else f" (of {len(subjects)})"
        detail = f"{worst.subject}: {worst.detail}" + (others if len(subjects) > 1 else "")
        detail += _nobody_asks(
            bench.unasked(item, [s.subject for s in subjects if s.status == worst.status == "missing"])
        )
    return verdict(worst.status, detail, subjects)


def _nobody_asks(subjects: Sequence[str]) -> str:
    """Words on subjects that no check asks."""
    if not subjects:
        return ""
    more = f" and {len(subjects) - SHOWN_UNASKED} more" if len(subjects) > SHOWN_UNASKED else ""
    return f"; no check asks {', '.join(subjects[:SHOWN_UNASKED])}{more} yet"


def _partial(bench: _Bench, item: Item) -> bool:
    """Whether a rehearsal judges only a part of the item's subjects on this site."""
    return bench.rehearsal and len(bench.subjects(item, lab=False)) > len(bench.subjects(item, lab=True))


def _judge_subject(bench: _Bench, item: Item, subject: str, entry: Entry | Begun | None) -> SubjectVerdict:
    if entry is None:
        return SubjectVerdict(subject, "missing", "no evidence")
    if isinstance(entry, Begun):
        why = "the run was killed, could not write, or goes on; run the check again"
        detail = f"begun {entry.at:%Y-%m-%d %H:%M:%S %Z} (line {entry.line}) and never ended: {why}"
        return SubjectVerdict(subject, "fail", detail, None, entry.at)
    record = entry.record
    mode, doubt = _mode_of(bench, entry) if item.kind in order.DEVICE_KINDS else (None, "")

    def verdict(status: Status, detail: str) -> SubjectVerdict:
        shown = detail if len(detail) <= SHOWN_DETAIL else f"{detail[:SHOWN_DETAIL]}… ({len(detail):,} characters)"
        return SubjectVerdict(subject, status, shown, mode, record.ended)

    if fault := _fault(bench, item, record):
        return verdict("fail", fault)
    if reason := _staleness(bench, item, entry):
        return verdict("stale", reason)
    if item.kind == "attested":
        if empty := _empty(item, record):
            return verdict("missing", f"the form lacks {', '.join(empty)}")
        if lacking := _lacking(bench, item, entry):
            return verdict("missing", lacking)
        if wrong := off_plan(item, record.form, (subject,), bench.plan, bench.listed):
            return verdict("fail", f"the form does not fit the plan: {'; '.join(wrong)}")
    elif item.kind in order.DEVICE_KINDS:
        if mode == "replayed":
            return verdict("unproven", "comes from a recording or an import")
        if mode == "unproven" and bench.trust.collected(entry.signers, rehearsal=bench.rehearsal):
            return verdict("unproven", doubt)
        if not bench.rehearsal and record.configuration.get(WORKLOAD, {}).get("workloads_on") == "cpu":
            return verdict(
                "unproven", "the workload computed on CPUs and proves nothing about GPUs (validation.workloads_on)"
            )
        if mode != "simulated" and (why := _not_by_its_node(bench, item, entry)):
            return verdict("unproven", why)
        if mode == "simulated" and not bench.rehearsal:
            return verdict("simulated", "a device that it touched declares itself simulated")
    if item.kind != "attested" and not bench.trust.collected(entry.signers, rehearsal=bench.rehearsal):
        return verdict("simulated", f"not signed with a key that attest.roles.{COLLECTOR_ROLE} of the site file pins")
    if reason := _not_by_a_freeze(bench, item, entry):
        return verdict("stale", reason)
    if item.kind in order.DEVICE_KINDS and not bench.rehearsal and (rows_changed := bench.devices_changed(record)):
        shown = ", ".join(rows_changed[:SHOWN_CHANGES])
        return verdict("stale", f"{shown} changed since {record.ended:%Y-%m-%d %H:%M}; run the check again")
    if reason := _assumption(bench, item, record):
        return verdict("assumed", reason)
    if reason := bench.late.get((item.id, subject)):
        return verdict("out_of_order", reason)
    return verdict("pass", record.detail)


def _not_by_a_freeze(bench: _Bench, item: Item, entry: Entry) -> str | None:
    """Why the program that made a record does not count at go-live. What people attest rests on no program."""
    if bench.rehearsal or item.kind == "attested":
        return None
    return bench.freezes.why_not(entry.record, entry.line)


def _counting(bench: _Bench, events: Iterable[Entry | Begun] | None = None) -> dict[tuple[str, str], Entry]:
    """The records that decide and count, by item and subject, but for those of the gate's own step; ``events``: None for all."""
    found = {}
    latest = bench.latest if events is None else None
    if latest is None:
        latest = _decisive(bench, bench.events if events is None else events).latest
    for key, one in latest.items():
        if isinstance(one, Entry) and one.record.result != "FAILED" and key[0] not in (GATE_ITEM, APPROVAL_ITEM):
            item = bench.register.items[key[0]]
            if _counts(bench, item, one):
                found[key] = one
    return found


def _counts(bench: _Bench, item: Item, entry: Entry) -> bool:
    """Whether signers, program and mode of a passing record are such that can count."""
    return (
        _signed_by_whom_counts(bench, item, entry)
        and not _not_by_a_freeze(bench, item, entry)
        and _mode_counts(bench, item, entry)
    )


def _approvals_stale(bench: _Bench, record: Record, at_line: int) -> str | None:
    """Why the approvals of go-live, which stand in a line of the log, do not hold any more, or None."""
    line = approvals.line_of(record)
    if line is None:
        return "it does not say which records it approves; sign the form of S195 again"
    if line >= at_line:
        return (
            f"it approves the log up to line {line}, and stands in line {at_line} itself; sign the form of S195 again"
        )
    log = bench.contents
    items = bench.register.items
    failed = [
        (one.record.item, one.record.subject, one.line)
        for one in log.entries
        if one.line > line
        and (item := items.get(one.record.item)) is not None
        and _fails(bench, item, one)
        and _signed_by_whom_counts(bench, item, one)
    ]
    failed += [(one.item, one.subject, one.line) for one in _never_ended(bench) if one.line > line]
    then = _counting(bench, (one for one in bench.events if one.line <= line))
    days = bench.plan.site.attest.approval_days
    if why := approvals.why_stale(record, line, then, failed, bench.waivers, bench.freezes, log, bench.now, days):
        return why
    since = {key: one.line for key, one in _counting(bench).items() if key not in then}
    for (name, subject), at in sorted(since.items(), key=lambda one: one[1]):
        return f"{name} {subject} had not passed when it was signed (it did in line {at}): sign the form of S195 again"
    return None


def _fails(bench: _Bench, item: Item, entry: Entry) -> bool:
    """Whether a record is a failure: it says so, or it counts and lies below the floor or was judged by a late limit."""
    if entry.record.result == "FAILED":
        return True
    return _fault(bench, item, entry.record) is not None and _counts(bench, item, entry)


def _never_ended(bench: _Bench) -> list[Begun]:
    """The checks that began, and before whose end the same check began again, or the log ends: they count as failed."""
    waiting: dict[tuple[str, str], Begun] = {}
    lost: list[Begun] = []
    for event in bench.events:
        if isinstance(event, Entry):
            item = bench.register.items.get(event.record.item)
            if item is not None and _signed_by_whom_counts(bench, item, event):
                waiting.pop((event.record.item, event.record.subject), None)
            continue
        key = (event.item, event.subject)
        if event.item not in bench.register.items or not bench.trust.collected(
            event.signers, rehearsal=bench.rehearsal, failed=event.state == "begun"
        ):
            continue
        before = waiting.pop(key, None)
        if event.state == "begun":
            lost += [before] if before is not None else []
            waiting[key] = event
    return [*lost, *waiting.values()]


def _freeze_reasons(freezes: Freezes, today: Frozen | None) -> list[str]:
    """Why nothing may go live by the freeze in force, or without one."""
    if freezes.current is None:
        return ["no freeze is in force: two approvers sign it with bringup freeze"]
    if today is None or not (found := unlike(freezes.current, today)):
        return []
    more = f", and {len(found) - SHOWN_CHANGES} more" if len(found) > SHOWN_CHANGES else ""
    shown = "; ".join(found[:SHOWN_CHANGES])
    return [
        f"the gate would judge by another configuration than the freeze in force: {shown}{more}. Fix: restore it, or freeze anew"
    ]


def _freeze_notices(freezes: Freezes, *, rehearsal: bool) -> list[str]:
    """Which freeze is in force, and by whom. A rehearsal needs none and says so; at go-live its absence is a reason."""
    if freezes.current is None:
        return ["no freeze"] if rehearsal else []
    return [f"freeze {freezes.current.digest[:16]} by {signers_shown(freezes.by)}"]


def _assumption(bench: _Bench, item: Item, record: Record) -> str | None:
    """What nobody has confirmed of that which the record rests on: sections of the site file and limits that it names as inputs.

    A result of the model that names no section rests on all of them. What people attest rests on what they saw.
    """
    if item.kind == "attested":
        return None
    named = [("limits", name.removeprefix(PREFIX)) for name in record.inputs if name.startswith(PREFIX)]
    sections: list[Path] = [(name.removeprefix("site."),) for name in record.inputs if name.startswith("site.")]
    if item.kind in INPUT_KINDS and not sections:
        sections = [()]
    rests_on = [*named, *sections]
    found = [path for path in bench.assumed if any(path[: len(one)] == one for one in rests_on)]
    if not found:
        return None
    shown = ", ".join(".".join(map(str, path)) for path in found[:SHOWN_ASSUMPTIONS])
    more = f" and {len(found) - SHOWN_ASSUMPTIONS} more" if len(found) > SHOWN_ASSUMPTIONS else ""
    return f"rests on {shown}{more}, which nobody has confirmed for this site: write the values, or add the keys to confirmed"


def _mode_of(bench: _Bench, entry: Entry) -> tuple[Mode, str]:
    """The mode of a record and, where it is unproven, why.

    It is real if the record has no marker and is no recording, its subject is among the devices that it touched, and the
    ledger proves each of them. What the record itself claims to be is never enough.
    """
    record = entry.record
    if entry.mode in ("simulated", "replayed"):
        return entry.mode, ""
    if record.replayed:
        return "replayed", ""
    if not record.identities:
        return "unproven", "it names no device that it touched, so nothing shows where it comes from"
    simulated, devices = bench.touched(record)
    if simulated:
        return "unproven", "one of the devices that it touched declares itself simulated"
    subject = bench.ledger.owner(record.subject)
    if bench.ledger.planned(subject) and subject not in devices:
        return "unproven", f"it touched {', '.join(devices[:3])}, and not {subject}, which it is about"
    doubts = [f"{name}: {why}" for name in devices if (why := bench.ledger.doubt(name, record.ended))]
    if not doubts:
        return "real", ""
    more = f" (and {len(doubts) - 1} more devices)" if len(doubts) > 1 else ""
    return "unproven", f"nothing proves that {doubts[0].replace(':', ' is the real asset:', 1)}{more}"


def _fault(bench: _Bench, item: Item, record: Record) -> str | None:
    """Why the record is a failure, or None."""
    if record.result == "FAILED":
        return record.detail or "failed without a word"
    if record.ended > bench.now + CLOCK_SKEW:
        return f"it is dated in the future ({record.ended:%Y-%m-%d %H:%M %Z})"
    if record.limit_frozen is not None and record.limit_frozen > record.started:
        return "its limit was fixed after the run had begun"
    if item.floor is not None and (why := _below_floor(item.floor, record, bench.plan.site)):
        return why
    if item.kind == "attested" and (why := _untrue(bench, item, record)):
        return why
    if why := rejudge.fault(item, record, bench.plan.site):
        return why
    return bench.from_raw.doubt(item, record) if bench.from_raw else None


def _untrue(bench: _Bench, item: Item, record: Record) -> str | None:
    """Why no form may say what this one does, or None. A form with empty fields is unfinished, and says nothing yet."""
    if _empty(item, record):
        return None
    form = record.form
    wrong = faults(item, form, (record.subject,), began(bench.plan.site)) + contradictions(
        form, record.result, record.ended
    )
    wrong += unfounded(item, form, bench.plan.site)
    return f"the form cannot be true: {'; '.join(wrong)}" if wrong else None


def _empty(item: Item, record: Record) -> list[str]:
    return [name for name in item.form if record.form.get(name) in EMPTY]


def _below_floor(floor: Floor, record: Record, site: Site) -> str | None:
    minimum = effective_floor(floor, site)
    if floor.quantity == "duration_h":
        found: Any = (record.ended - record.started) / timedelta(hours=1)
    else:
        found = record.value
    if isinstance(found, bool) or not isinstance(found, int | float):
        return f"its value {found!r} is not a number, but it has the floor {minimum:g} {floor.unit} ({floor.source})"
    if found < minimum:
        return f"{found:g} {floor.unit} is below the floor of {minimum:g} {floor.unit} ({floor.source})"
    return None


def effective_floor(floor: Floor, site: Site) -> float:
    """The floor, or the site's own limit where that is higher."""
    limit = site.limits.get(floor.site_limit)
    return max(floor.minimum, limit.value) if limit else floor.minimum


def _floor_notices(register: Register, site: Site) -> list[str]:
    """Limits of the site that are laxer than the register allows; the page lists them."""
    items = register.items.values()
    applying = [item for item in items if item.limits and not register.not_applicable(item, site)]
    lax = [f"{item.id}: rehearsal only: {text}" for item in applying for text in laxer(item, site)]
    return lax + [
        f"{item.id}: site limits.{item.floor.site_limit} is {limit.value:g} {limit.unit}, below the floor of "
        f"{item.floor.minimum:g} {item.floor.unit} ({item.floor.source}); the floor holds"
        for item in items
        if item.floor and (limit := site.limits.get(item.floor.site_limit)) and limit.value < item.floor.minimum
    ]


def _role_notices(judged: Iterable[ItemVerdict], register: Register, site: Site) -> list[str]:
    """Which roles nobody can sign for, because the site file pins no key for them, and which key both collects and records."""
    needed, twice = Counter[str](), Counter[str]()
    for found in judged:
        if found.status != "not_applicable":
            signers = Counter(register.items[found.item].signers_on(site))
            needed.update(signers.keys())
            twice.update(role for role, signatures in signers.items() if signatures > 1)
    keys = {role: frozenset(holder.keys) for role, holder in site.attest.roles.items()}
    pinned = {role: len(held) for role, held in keys.items()}

    def items(count: int) -> str:
        return f"{count} attested item{'s' if count != 1 else ''} cannot be closed"

    return [
        *(
            f"{key} collects and records: who holds it can cut or reorder the log, as far as no anchor shows it. Fix: another key "
            f"for credentials.evidence.recorder and attest.roles.{RECORDER_ROLE}.keys"
            for key in sorted(keys.get(COLLECTOR_ROLE, frozenset()) & keys.get(RECORDER_ROLE, frozenset()))
        ),
        *(
            f"attest.roles.{role} of the site file pins no key, so {items(count)}"
            for role, count in sorted(needed.items())
            if not pinned.get(role)
        ),
        *(
            f"attest.roles.{role} of the site file asks for a second signer and pins one key, so {items(count)}"
            for role, count in sorted(twice.items())
            if pinned.get(role) == 1
        ),
    ]


def _staleness(bench: _Bench, item: Item, entry: Entry) -> str | None:
    """Why the record no longer speaks about today's plan and devices, or None."""
    record = entry.record
    if item.kind in INPUT_KINDS and not _of_plan(record):
        return "it does not say which inputs it was made from"
    if item.kind == "attested" and (
        unnamed := sorted(bench.rows_of_assets.of(record.subject).keys() - record.inputs.keys())
    ):
        return f"it does not say what {', '.join(unnamed)} was; attest it again"
    if item.id == APPROVAL_ITEM and "plan" not in record.inputs:
        return "it does not say which plan it approves"
    if changed := bench.changed(item, record):
        more = f" and {len(changed) - SHOWN_CHANGES} more" if len(changed) > SHOWN_CHANGES else ""
        return f"{', '.join(changed[:SHOWN_CHANGES])}{more} changed since {record.ended:%Y-%m-%d %H:%M}"
    if why := rejudge.limit_changed(record, bench.plan.site):
        return why
    if bench.from_raw and (why := bench.from_raw.limit_changed(item, record)):
        return why
    for identity in record.identities:
        known = bench.listed.get(identity.device, frozenset())
        listed_then = record.aliases.get(identity.device)
        if identity.serial and (known or listed_then) and identity.serial.casefold() not in known:
            return f"{identity.device} was {identity.serial} then, which the inventory does not list for it today"
    if item.id == APPROVAL_ITEM and (why := _approvals_stale(bench, record, entry.line)):
        return why
    for device, names in record.aliases.items():
        today_ids = bench.listed.get(device, frozenset())
        if gone := [name for name in names if name and name.casefold() not in today_ids]:
            return f"assets.csv listed {gone[0]} for {device} then, and does not today"
    if item.max_age_days is not None and bench.now - record.ended > timedelta(days=item.max_age_days):
        return f"{(bench.now - record.ended).days} days old, {item.kind} evidence lasts {item.max_age_days:g}"
    if (expiry := record.form.get("expiry")) not in EMPTY and not _lasts(str(expiry), bench.now):
        return f"it expired on {expiry}"
    return None


def _of_plan(record: Record) -> set[str]:
    """The inputs of a record that plan and site file have: neither its freeze and program, nor what it approves."""
    return {n for n in record.inputs if n != INPUT and not n.startswith((PROGRAM, approvals.PREFIX))}


def _lasts(expiry: str, now: datetime) -> bool:
    """Whether a YYYY-MM-DD date has not passed; a text that is no date never lasts."""
    try:
        return date.fromisoformat(expiry) >= now.date()
    except ValueError:
        return False


def _waived(bench: _Bench, item: Item, found: SubjectVerdict, failing_since: int = 0) -> SubjectVerdict:
    """What waivers make of a subject. Of a failure only those count that were signed after it: nobody accepts what is to come."""
    if found.status in CLOSED or not item.waivable:
        return found
    about = bench.waivers_of(item.id, found.subject)
    if not about:
        return found
    covers_part = item.partial and found.subject in asked_of(bench.register, item, bench.plan, bench.selected)
    gap = "partial" if covers_part else "missing"  # a check that covers a part has to run: a report closes the rest
    if found.status == gap and (reported := _reported(bench, found, [w for w in about if w.report])):
        return reported
    covering = [waiver for waiver in about if waiver.report is None]
    if not covering:
        return found
    if found.status == "fail" and not bench.rehearsal:
        covering = [waiver for waiver in covering if waiver.line > failing_since]
        if (signers := approvers(covering, bench.trust, rehearsal=False)) < SIGNERS_OF_FAILED:
            detail = (
                f"waived by {signers} of {SIGNERS_OF_FAILED} approvers since it failed in line {failing_since}, each with a key "
                "and a name (--owner) of their own"
            )
            return replace(found, detail=f"{found.detail} ({detail})")
    first, others = covering[0], covering[1:]
    more = "".join(f", and {waiver.owner}" for waiver in others[:SHOWN_OWNERS])
    more += f", and {len(others) - SHOWN_OWNERS} more" if len(others) > SHOWN_OWNERS else ""
    detail = (
        f"{first.owner}{more} until {min(w.expires for w in covering):%Y-%m-%d}: {first.reason} (was {found.status})"
    )
    return SubjectVerdict(found.subject, "waived", detail, found.mode, found.ended)


def _reported(bench: _Bench, found: SubjectVerdict, covering: Sequence[Waiver]) -> SubjectVerdict | None:
    """What external reports make of a subject without evidence, or with it for a part only; None if there is none.

    Two approvers sign the same report.
    """
    for report in {waiver.report for waiver in covering}:
        alike = [waiver for waiver in covering if waiver.report == report]
        expires, owner = min(w.expires for w in alike), alike[0].owner
        if approvers(alike, bench.trust, rehearsal=bench.rehearsal) >= SIGNERS_OF_REPORT:
            return SubjectVerdict(found.subject, "external", f"{owner} until {expires:%Y-%m-%d}: {report}")
    if covering:
        lacks = (
            f"an external report needs {SIGNERS_OF_REPORT} approvers, each with a key and a name (--owner) of their own"
        )
        return replace(found, detail=f"{found.detail} ({lacks})")
    return None


def _with_premature(
    register: Register, judged: Mapping[str, ItemVerdict], *, rehearsal: bool
) -> dict[str, ItemVerdict]:
    """Mark items that have evidence although a group that their own group comes after is not proven yet."""
    open_groups: set[str] = set()
    for item in register.items.values():
        closed = CLOSED | ({"not_exercised", "partial"} if rehearsal else {"not_exercised"})
        if not item.closes_later and judged[item.id].status not in closed:
            open_groups.add(item.group)
    unproven: dict[str, bool] = {}

    def behind(group: str) -> bool:
        if group not in unproven:
            after = register.groups[group].after
            unproven[group] = any(g in open_groups or behind(g) for g in after)
        return unproven[group]

    return {
        name: replace(found, premature=True) if behind(found.group) and any(s.ended for s in found.subjects) else found
        for name, found in judged.items()
    }


def _gate_item(judged: Mapping[str, ItemVerdict], errors: Sequence[Finding]) -> ItemVerdict:
    """The item that is the gate's own report: it passes when all steps before it are closed."""
    own = judged[GATE_ITEM]
    open_items = [i.item for i in judged.values() if i.step != own.step and i.status not in CLOSED]
    if open_items or errors:
        apart = sum(map(of_platform, open_items))
        also = f"{apart} of the platform, " if any(map(of_platform, judged)) else ""
        detail = f"{len(open_items) - apart} items of S001-S194 are open, {also}{len(errors)} plan errors"
        return replace(own, status="missing", detail=f"no go-live report: {detail}", subjects=())
    return replace(own, status="pass", detail="every step before it is closed", subjects=())


def _word(
    site: Site, items: Sequence[ItemVerdict], errors: Sequence[Finding], mode: Mode | None, rehearsal: bool
) -> tuple[Word, int, list[str]]:
    count = Counter(item.status for item in items)
    reasons = [f"{one.id} {one.subject}: {one.message}" for one in map(without_untried, errors)]
    texts: tuple[tuple[Status, str], ...] = (
        ("fail", "failed"),
        ("missing", "without evidence"),
        ("stale", "with stale evidence"),
        ("out_of_order", "recorded before what they build on had passed"),
        ("unproven", "whose evidence is unproven: no device marker and no proof of the real asset"),
        ("simulated", "whose evidence is simulated"),
        ("assumed", "that rest on assumptions nobody has confirmed"),
        ("partial", "whose check covers only a part of the step"),
    )
    reasons += [f"{count[s]} item{'s' if count[s] != 1 else ''} {text}" for s, text in texts if count[s]]
    if rehearsal:
        if errors or count["fail"] or count["missing"] or count["stale"]:
            return "REHEARSAL NOT PASSED", 1, reasons
        if count["unproven"]:
            return "REHEARSAL UNPROVEN", 0, reasons
        return "REHEARSAL PASSED", 0, reasons
    if mode is not None and STRENGTH[mode] < STRENGTH["real"]:
        reasons.insert(0, f"the evidence is {mode}")
    if site.example:
        reasons.insert(0, "the site file says example: true, and an example site never goes live")
    if reasons:
        return "NO GO-LIVE", 1, reasons
    return "GO-LIVE", 0, reasons
