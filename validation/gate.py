"""The gate's edge: read plan and evidence, judge, print, write the reports. ``bringup gate`` is a skin over ``run``.

Exit status: 0 go-live is allowed (or the rehearsal has nothing failed, missing or stale), 1 it is not, 2 the evidence
cannot be trusted.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from capacity.build import build
from inventory.delivered.assets import asset_aliases, load_assets
from inventory.paths import var_dir, write_file
from inventory.site import Site
from validation.evidence.store import Contents, IntegrityError, Store
from validation.evidence.trust import trust_of
from validation.gate_report import as_json as verdict_json
from validation.gate_report import broken_json, print_verdict, render_broken_page, render_page
from validation.register import load_register
from validation.training_story import SCHEMA_VERSION as STORY_VERSION
from validation.verdict import Verdict, judge
from validation.waive import Waiver, counted, waivers_of

BROKEN_EXIT = 2
STORY_ITEM = "S188.measured"
STORY_STANDS = ("pass", "simulated", "unproven", "assumed", "waived")

__all__ = ["BROKEN_EXIT", "counted_waivers", "judge", "judge_site", "run"]


def run(
    site: Site,
    *,
    rehearsal: bool = False,
    as_json: bool = False,
    out: Path | None = None,
    console: Console | None = None,
    now: datetime | None = None,
) -> int:
    """Judge the site, print the verdict (``as_json``: as JSON), write it to ``reports/`` and return the exit status.

    ``out`` replaces ``var/<site>``. Broken evidence gives status 2 and a report that says so, in place of any earlier
    one. Errors of the site, its assets or its catalogue are raised as they are.
    """
    now = now or datetime.now(UTC)
    folder = var_dir(site.name, out)
    console = console or Console()
    name = "rehearsal" if rehearsal else "gate"
    page = folder / "reports" / f"{name}.html"
    try:
        contents = Store.open(folder / "evidence").verify()
    except IntegrityError as error:
        data = broken_json(site.name, error.broken, now)
        _write(page, render_broken_page(site.name, error.broken, now), data)
        if as_json:
            print(json.dumps(data, indent=2))
        else:
            console.print(f"EVIDENCE BROKEN ({site.name}): {error}", style="bold red", markup=False, highlight=False)
            console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)
        return BROKEN_EXIT
    verdict = _judged(site, contents, now, rehearsal=rehearsal)
    data = verdict_json(verdict)
    story = training_story(verdict, contents)
    if story:
        data["training"] = story
    _write(page, render_page(verdict, load_register(), story), data)
    if as_json:
        print(json.dumps(data, indent=2))
    else:
        print_verdict(verdict, load_register(), console, page=page)
    return verdict.exit_code


def judge_site(site: Site, folder: Path, now: datetime, *, rehearsal: bool = False) -> Verdict:
    """Read plan and evidence of a site and judge them. IntegrityError if the evidence cannot be trusted."""
    return _judged(site, Store.open(folder / "evidence").verify(), now, rehearsal=rehearsal)


def _judged(site: Site, contents: Contents, now: datetime, *, rehearsal: bool) -> Verdict:
    plan = build(site)
    return judge(
        load_register(),
        plan,
        contents,
        waivers_of(contents),
        now,
        rehearsal=rehearsal,
        asset_ids=asset_aliases(load_assets(site), plan.gpus),
    )


def training_story(verdict: Verdict, contents: Contents) -> Mapping[str, Any] | None:
    """The story of the newest training run that lost a node, where its evidence passed and speaks about today's site."""
    standing = {s.ended for i in verdict.items if i.item == STORY_ITEM for s in i.subjects if s.status in STORY_STANDS}
    for entry in contents.entries:
        record = entry.record
        if record.item == STORY_ITEM and record.ended in standing and record.result == "PASSED":
            value = record.value
            if isinstance(value, Mapping) and value.get("schema_version") == STORY_VERSION:
                return value
    return None


def counted_waivers(site: Site, out: Path | None, now: datetime, *, rehearsal: bool = False) -> list[Waiver]:
    """The waivers of a site that are valid now and signed by a key that counts. IntegrityError as in judge_site."""
    contents = Store.open(var_dir(site.name, out) / "evidence").verify()
    return counted(waivers_of(contents), trust_of(site, contents), now, rehearsal=rehearsal)[0]


def _write(page: Path, html: str, data: Mapping[str, Any]) -> None:
    """Page and JSON beside it, each replaced in one step so that a reader never sees half of one."""
    write_file(page, html)
    write_file(page.with_suffix(".json"), json.dumps(data, indent=2) + "\n")
