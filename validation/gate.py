"""The gate's edge: read plan and evidence, judge, print, write the reports. ``bringup gate`` is a skin over ``run``.

Exit status: 0 go-live is allowed (or the rehearsal has nothing failed, missing or stale), 1 it is not, 2 the evidence
cannot be trusted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from rich.console import Console
from securesystemslib.signer import CryptoSigner

from capacity.build import build
from capacity.model import Plan
from inventory.delivered.assets import asset_aliases, load_assets
from inventory.paths import clear_odd, var_dir, write_file
from inventory.secrets import SecretError
from inventory.site import Site
from network.drivers.errors import one_line
from validation import countersignatures
from validation import verdict as verdicts
from validation.approvals import Approved
from validation.device_identity import digests_of
from validation.evidence import anchor as anchors
from validation.evidence import seal, strict
from validation.evidence.begun import begun_checks
from validation.evidence.keys import SigningKeyError
from validation.evidence.memory import Memory
from validation.evidence.record import raw_path
from validation.evidence.store import Contents, IntegrityError, collector_paused
from validation.evidence.trust import Trust, lab_key, open_store, recorder_keys, recorder_of, trust_of
from validation.freeze import FreezeError, Frozen, freezes_of, frozen_today
from validation.from_raw import Reader
from validation.gate_report import NOT_JUDGED, broken_json, print_verdict, render_broken_page, render_page
from validation.gate_report import as_json as verdict_json
from validation.host_keys import pinned_host_keys
from validation.junit import junit_of
from validation.program import checks_of_items, part_of
from validation.register import Register, register_for
from validation.training_story import SCHEMA_VERSION as STORY_VERSION
from validation.verdict import Verdict, judge
from validation.waive import Waiver, counted, waivers_of

BROKEN_EXIT = 2
READER = "validation/evidence/store.py"
"""The file that reads the log: what it and all that it imports hash to, is the program of a memory."""
STORY_ITEM = "S188.measured"
STORY_STANDS = ("pass", "simulated", "unproven", "assumed", "waived")
MAX_STORY = 4 << 20
"""Bytes of the story of a training run that a page shows: a point takes about 40, and a run has hundreds. A choice of ours."""
NO_STORY = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, TemplateError)
FIRST_ANCHOR = (
    "the anchor was not there and was made now: an older copy of the whole evidence folder would not have been noticed"
)
NO_ANCHOR = "no anchor: an older copy of the whole evidence folder would not be noticed (bringup gate --anchor)"

__all__ = ["BROKEN_EXIT", "counted_waivers", "judge", "judge_site", "not_judged", "pinned_host_keys", "run", "verify"]


def run(
    site: Site,
    *,
    rehearsal: bool = False,
    as_json: bool = False,
    out: Path | None = None,
    console: Console | None = None,
    now: datetime | None = None,
    anchor: str | None = None,
) -> int:
    """Judge the site, print the verdict (``as_json``: as JSON), write it to ``reports/`` and return the exit status.

    ``out`` replaces ``var/<site>``; ``anchor`` is where the length of the log is kept (see anchor.place). The page of an
    earlier run is replaced before anything is read. Broken evidence gives status 2 and a report that says so. Errors of the
    site, its assets or its catalogue are raised as they are.
    """
    now = now or datetime.now(UTC)
    folder = var_dir(site.name, out)
    console = console or Console()
    page = _page(folder, rehearsal)
    _write(page, *_pair(site.name, ("the judgement has not ended; run bringup gate again",), now, NOT_JUDGED))
    try:
        with collector_paused():
            place = anchors.place(anchor, site.name, _guarded(folder)) if anchor else None
            before = place.read() if place else None  # first: checks append and other gates move it while a log is read
            contents, waivers = read(site, folder / "evidence")
            if place and (behind := anchors.compare(before, contents)):
                raise IntegrityError(folder / "evidence", behind)
            verdict = _judged(site, contents, waivers, now, folder / "evidence", rehearsal=rehearsal)
        if place:
            place.write(contents)
    except (IntegrityError, anchors.AnchorError) as error:
        broken = error.broken if isinstance(error, IntegrityError) else (str(error),)
        html, data = _pair(site.name, broken, now)
        _write(page, html, data)
        if as_json:
            print(json.dumps(data, indent=2))
        else:
            console.print(f"EVIDENCE BROKEN ({site.name}): {error}", style="bold red", markup=False, highlight=False)
            console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)
        return BROKEN_EXIT
    unanchored = NO_ANCHOR if not anchor else FIRST_ANCHOR if before is None else ""
    notices = (*filter(None, [unanchored]), *verdict.notices)
    signer, why = _sealer(site)
    if why:
        notices = (*notices, f"this verdict is not signed, so a change of its file would not be noticed: {why}")
    verdict = replace(verdict, notices=notices)
    register = register_for(site)
    data = verdict_json(verdict, register)
    html, story = _rendered(verdict, register, training_story(verdict, contents, trust_of(site, contents)))
    if story:
        data["training"] = story
    data["log"] = {"store": contents.store, "lines": len(contents.digests), "last": contents.last}
    seal.write(page, site.name, signer, _write(page, html, data))
    if as_json:
        print(json.dumps(data, indent=2))
    else:
        print_verdict(verdict, register, console, page=page)
    return verdict.exit_code


def _rendered(
    verdict: Verdict, register: Register, story: Mapping[str, Any] | None
) -> tuple[str, Mapping[str, Any] | None]:
    """The page, and the story that it shows: a collector may have signed anything as one."""
    try:
        if story and (size := len(json.dumps(story))) > MAX_STORY:
            raise ValueError(f"{size} bytes, at most {MAX_STORY} are shown")
        return render_page(verdict, register, story), story
    except NO_STORY as error:
        if story is None:
            raise
        why = one_line(f"the story of the training run cannot be shown ({type(error).__name__}: {error})")
        return render_page(replace(verdict, notices=(*verdict.notices, why)), register), None


def _sealer(site: Site) -> tuple[CryptoSigner | None, str]:
    """The key that signs verdicts, or why there is none."""
    try:
        signer = recorder_of(site)
    except (SecretError, SigningKeyError) as error:
        return None, str(error)
    if signer.public_key.keyid not in recorder_keys(site) | lab_key(site):
        return None, f"attest.roles.recorder.keys of the site file does not pin {signer.public_key.keyid}"
    return signer, ""


def verify(
    site: Site, file: Path, *, anchor: str | None = None, out: Path | None = None, console: Console | None = None
) -> int:
    """Whether a verdict (page or JSON) is the one that the gate of this site wrote: its exit status then, else 2.

    With an ``anchor`` also whether it is about the log as it is now: an older verdict has a seal that holds.
    """
    console = console or Console()
    try:
        data = seal.check(file, site.name, recorder_keys(site) | lab_key(site))
        log = data.get("log", {})
        if anchor and (why := _older(log, anchors.place(anchor, site.name, _guarded(var_dir(site.name, out))))):
            raise seal.SealError(f"{file}: {why}")
    except (seal.SealError, anchors.AnchorError) as error:
        console.print(str(error), style="bold red", markup=False, highlight=False, soft_wrap=True)
        return BROKEN_EXIT
    told = f"{data['verdict']} ({data['site']}), on {log.get('lines', 0)} lines of the log"
    console.print(f"{file}: unchanged since {data['judged']}: {told}", markup=False, highlight=False, soft_wrap=True)
    return int(data["exit_code"])


def _guarded(folder: Path) -> tuple[Path, ...]:
    """The folders that an anchor guards: evidence may be a link to another disk."""
    return folder, folder / "evidence"


def _older(log: Mapping[str, Any], place: anchors.Place) -> str:
    """Why a verdict on a log, which the recorder signed, is not about the log as its anchor knows it; '' if it is."""
    now = place.read()
    if now is None:
        return f"there is no anchor at {place.shown}, which says whether the log has gone on since"
    if (log.get("store"), log.get("lines"), log.get("last")) == (now.store, now.lines, now.last):
        return ""
    return f"is a verdict on {log.get('lines', 0)} lines of the log, its anchor has {now.lines}; run bringup gate again"


def not_judged(folder: Path, name: str, reason: str, *, rehearsal: bool) -> None:
    """Replace the page of an earlier run, if there is one: the site is about to be read, or could not be."""
    page = _page(folder, rehearsal)
    if any(page.with_suffix(suffix).exists() for suffix in (".html", ".json", ".junit.xml")):
        _write(page, *_pair(name, (reason,), datetime.now(UTC), NOT_JUDGED))


def judge_site(site: Site, folder: Path, now: datetime, *, rehearsal: bool = False) -> Verdict:
    """Read plan and evidence of a site and judge them. IntegrityError if the evidence cannot be trusted."""
    return judge_with_log(site, folder, now, rehearsal=rehearsal)[0]


def judge_with_log(site: Site, folder: Path, now: datetime, *, rehearsal: bool = False) -> tuple[Verdict, Contents]:
    """As `judge_site`, and what the log holds, which is read once."""
    evidence = folder / "evidence"
    with collector_paused():
        contents, waivers = read(site, evidence)
        verdict = _judged(site, contents, waivers, now, evidence, rehearsal=rehearsal)
    return verdict, contents


def read(site: Site, path: Path) -> tuple[Contents, list[Waiver]]:
    """What the log of a site holds, and its waivers. IntegrityError if it cannot be trusted."""
    signer, _ = _sealer(site)
    memory = Memory(signer, part_of(READER).sha256) if signer else None
    contents = open_store(site, path).verify(memory)
    try:
        begun_checks(contents)
        freezes_of(contents, trust_of(site, contents))
        countersignatures.stated(contents)
        waivers = waivers_of(contents)
        for digest in sorted({waiver.report.sha256 for waiver in waivers if waiver.report}):
            if strict.sha256_of(path, raw_path(digest)) != digest:
                raise strict.Refused(f"{raw_path(digest)}: the external report has been changed")
        return contents, waivers
    except FileNotFoundError as error:
        raise IntegrityError(path, [f"an external report is missing: {error}"]) from None
    except ValueError as error:
        raise IntegrityError(path, [str(error)]) from None


def _page(folder: Path, rehearsal: bool) -> Path:
    return folder / "reports" / f"{'rehearsal' if rehearsal else 'gate'}.html"


def _pair(name: str, broken: tuple[str, ...], now: datetime, *word: str) -> tuple[str, dict[str, Any]]:
    return render_broken_page(name, broken, now, *word), broken_json(name, broken, now, *word)


def _judged(
    site: Site,
    contents: Contents,
    waivers: list[Waiver],
    now: datetime,
    evidence: Path,
    *,
    rehearsal: bool,
) -> Verdict:
    devices = _read_devices(site, evidence)
    plan = devices.plan
    today, why = (None, "") if rehearsal else _today(devices)
    register = register_for(site)
    verdict = judge(
        register,
        plan,
        contents,
        waivers,
        now,
        rehearsal=rehearsal,
        asset_ids=devices.asset_ids,
        today=today,
        host_keys=devices.host_keys,
        checked=checks_of_items(site.scheduler.kind),
        from_raw=devices.raw,
    )
    if why:
        return replace(verdict, word="NO GO-LIVE", exit_code=1, reasons=(why, *verdict.reasons))
    return verdict


@dataclass(frozen=True)
class _Devices:
    """The plan, and which device is which. Read once: what is compared with the freeze is what is judged by."""

    plan: Plan
    asset_ids: Mapping[str, tuple[str, ...]]
    host_keys: Mapping[str, frozenset[str]]
    raw: Reader


def _read_devices(site: Site, evidence: Path) -> _Devices:
    assets = load_assets(site)
    plan = build(site, assets=assets)
    return _Devices(plan, asset_aliases(assets, plan.gpus), pinned_host_keys(plan), Reader(plan, evidence, assets))


def _today(read: _Devices) -> tuple[Frozen | None, str]:
    """What the work tree has of what a freeze fixes, or why that cannot be said."""
    try:
        return frozen_today(read.plan, register_for(read.plan.site), digests_of(read.asset_ids, read.host_keys)), ""
    except FreezeError as error:
        return None, str(error)


def training_story(verdict: Verdict, contents: Contents, trust: Trust) -> Mapping[str, Any] | None:
    """The story of the newest training run that lost a node, where its evidence passed and speaks about today's site."""
    standing = {s.ended for i in verdict.items if i.item == STORY_ITEM for s in i.subjects if s.status in STORY_STANDS}
    for entry in contents.entries:
        record = entry.record
        if not trust.collected(entry.signers, rehearsal=verdict.rehearsal):
            continue
        if record.item == STORY_ITEM and record.ended in standing and record.result == "PASSED":
            value = record.value
            if isinstance(value, Mapping) and value.get("schema_version") == STORY_VERSION:
                return value
    return None


def approved(site: Site, folder: Path, now: datetime) -> Approved:
    """What approvals of go-live that are signed now are about. IntegrityError as in judge_site."""
    contents, waivers = read(site, folder / "evidence")
    devices = _read_devices(site, folder / "evidence")
    return verdicts.approved(
        register_for(site),
        devices.plan,
        contents,
        waivers,
        now,
        asset_ids=devices.asset_ids,
        host_keys=devices.host_keys,
        from_raw=devices.raw,
    )


def counted_waivers(site: Site, out: Path | None, now: datetime, *, rehearsal: bool = False) -> list[Waiver]:
    """The waivers of a site that are valid now and signed by a key that counts. IntegrityError as in judge_site."""
    contents, waivers = read(site, var_dir(site.name, out) / "evidence")
    return counted(waivers, register_for(site), trust_of(site, contents), now, rehearsal=rehearsal)[0]


def _write(page: Path, html: str, data: Mapping[str, Any]) -> dict[str, str]:
    """Page, and JSON and JUnit XML beside it, each replaced in one step so that no reader sees half of one; the seal goes first.

    Returns what was written, by suffix.
    """
    clear_odd(page.with_name(f"{page.stem}.seal.json"))
    seal.remove(page)
    texts = {".html": html, ".json": json.dumps(data, indent=2) + "\n", ".junit.xml": junit_of(data)}
    for suffix, text in texts.items():
        path = page.with_suffix(suffix)
        clear_odd(path)
        write_file(path, text, follow=False)
    return texts
