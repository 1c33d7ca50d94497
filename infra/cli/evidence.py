"""Verbs about the cluster as built: compare it with the plan, attest, waive, judge."""

import argparse
import hashlib
import json
import re
import sys
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.cli.common import (
    CANNOT,
    JUDGED_NO,
    OK,
    SITE_HELP,
    UsageError,
    add_from,
    add_out,
    add_set,
    add_site,
    add_site_option,
    add_verb,
    page_of,
    planned,
    standard_console,
)

if TYPE_CHECKING:
    from validation.waive import Report


def add(verbs: Any) -> None:
    """Add the verbs to the command line."""
    compare = add_verb(
        verbs,
        "compare",
        run_compare,
        "ask every device what it is and name each difference from the plan; with a second site or --set: compare two plans",
    )
    add_site(compare)
    compare.add_argument(
        "other", metavar="OTHER", nargs="?", help="compare the plans of SITE and OTHER instead of asking devices"
    )
    add_set(compare, "compare SITE with what it becomes with this key changed (with OTHER: change the key in OTHER)")
    compare.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="two plans: the page's file, the workbook is FILE.xlsx beside it (default: DIR/compare.html)",
    )
    compare.add_argument("--facts", type=Path, metavar="FILE", help="judge these recorded facts instead of asking")
    compare.add_argument("--json", action="store_true", help="print the findings as JSON and nothing else")
    add_from(compare)
    add_out(compare)

    attest = add_verb(verbs, "attest", run_attest, "print, sign or countersign the form of an attested item")
    attest.add_argument("form", metavar="FORM", nargs="?", type=Path, help="filled-in form to sign as its first signer")
    add_site_option(attest)
    attest.add_argument("--template", metavar="ITEM", help="print the empty form of this item (S091.attested)")
    attest.add_argument(
        "--countersign",
        metavar="FILE",
        type=Path,
        help="add your signature to a pending attestation; without --key and --name: show it",
    )
    attest.add_argument("--name", default="", help="your name, with --countersign")
    add_key(attest, required=False)
    add_out(attest)

    waive = add_verb(
        verbs, "waive", run_waive, "accept an open item or a plan finding until a date, signed by who answers for it"
    )
    waive.add_argument("item", metavar="ITEM", help="evidence item (S047.measured) or id of a plan finding")
    add_site_option(waive)
    waive.add_argument("--subject", default="*", help="asset or finding subject that it covers (default: all)")
    waive.add_argument("--owner", required=True, help="person who answers for it")
    waive.add_argument(
        "--expires", type=date.fromisoformat, required=True, metavar="YYYY-MM-DD", help="its last day (UTC)"
    )
    waive.add_argument("--reason", required=True, help="why it is acceptable until then")
    report = waive.add_argument_group(
        "external report",
        "closes an item for which there is no check, or the part that its check does not cover; two approvers sign",
    )
    report.add_argument("--external-report", type=Path, metavar="FILE", help="the report; the evidence folder keeps it")
    report.add_argument("--instrument", default="", help="what measured: make, model, serial")
    report.add_argument("--calibrated", type=date.fromisoformat, metavar="YYYY-MM-DD", help="day of its calibration")
    report.add_argument("--reading", type=float, metavar="NUMBER", help="what it read")
    report.add_argument("--unit", default="", help="unit of reading and limit")
    bound = report.add_mutually_exclusive_group()
    bound.add_argument(
        "--at-most", type=float, metavar="LIMIT", help="the limit, where the reading may not be above it"
    )
    bound.add_argument("--at-least", type=float, metavar="LIMIT", help="the limit, where it may not be below it")
    add_key(waive, required=True)
    add_out(waive)

    gate = add_verb(
        verbs, "gate", run_gate, "judge the evidence of every commissioning step; exit 0 only when go-live is allowed"
    )
    gate.add_argument("--site", metavar="SITE", required=True, help=SITE_HELP)
    gate.add_argument(
        "--rehearsal", action="store_true", help="judge only what the site's lab can exercise; can never allow go-live"
    )
    gate.add_argument("--json", action="store_true", help="print the verdict as JSON and nothing else")
    gate.add_argument(
        "--anchor",
        metavar="PLACE",
        help="where the length of the evidence log is kept, out of reach of who can write the evidence: a file, an http(s) "
        "address, or git:REPOSITORY; a log that does not extend it is broken",
    )
    gate.add_argument(
        "--verify",
        metavar="FILE",
        type=Path,
        help="say whether this verdict (page, JSON or JUnit XML) is the one that the gate wrote; with --anchor also whether the "
        "log has gone on since",
    )
    add_out(gate)


def add_key(arguments: argparse.ArgumentParser, required: bool) -> None:
    """--key, the private key that signs."""
    arguments.add_argument(
        "--key",
        required=required,
        metavar="REFERENCE",
        help="your ed25519 private key: file:PATH, env:NAME or vault:PATH#FIELD",
    )


def end_of(day: date) -> datetime:
    """The moment at which a day ends, UTC."""
    return datetime.combine(day + timedelta(days=1), time.min, tzinfo=UTC)


def run_compare(arguments: argparse.Namespace) -> int:

    from capacity.outputs.documents.progress import in_words, progress
    from capacity.outputs.documents.work import work_list
    from capacity.outputs.tables import csv_text
    from infra import screens
    from inventory.delivered.as_built import load_as_built
    from inventory.delivered.assets import load_assets
    from inventory.paths import var_dir
    from network import as_built
    from validation.diagnose import diagnose, observers
    from validation.facts import Facts, gather

    if arguments.other or arguments.settings:
        return compare_plans(arguments)
    if arguments.html:
        raise UsageError("--html is for two plans: name a second site, or change a key with --set")
    plan = planned(arguments.site, start=arguments.start)
    if plan.site.scheduler.not_built:
        raise UsageError(f"{plan.site.scheduler.not_built}. Two plans are compared with --set, or with a second site")
    installed = load_as_built(plan.site)
    if arguments.facts:
        facts, recorded = Facts.read(arguments.facts), arguments.facts
    else:
        facts = gather(plan)
        recorded = facts.write(var_dir(plan.site.name, arguments.out) / "facts")
    findings = [*as_built.differences(plan.cables, installed), *diagnose(plan, load_assets(plan.site), facts)]
    if arguments.json:
        print(json.dumps({"facts": str(recorded), "findings": [finding.as_dict() for finding in findings]}, indent=2))
    else:
        screens.show_findings(standard_console(), findings, "that --json prints")
        print(f"Facts: {recorded}")
        made = progress(plan, findings, installed, observers(plan, facts))
        progress_file = var_dir(plan.site.name, arguments.out) / "progress.csv"
        progress_file.parent.mkdir(parents=True, exist_ok=True)
        progress_file.write_text(csv_text(made))
        print(f"Cabling: {in_words(made)}, by row, bundle and day: {progress_file}")
        file = var_dir(plan.site.name, arguments.out) / "work-list.csv"
        file.unlink(missing_ok=True)  # that of an earlier comparison
        if not (work := work_list(plan, findings)).empty:
            file.write_text(csv_text(work))
            print(f"Work list, one walk of {work['step'].max()} steps: {file}")
    if facts.unreadable():  # the others are compared all the same
        return CANNOT
    return JUDGED_NO if any(finding.severity == "error" for finding in findings) else OK


def compare_plans(arguments: argparse.Namespace) -> int:
    """Two plans side by side: a table, and a page with the bill of materials line by line."""

    from capacity.whatif import page as comparison
    from capacity.whatif.compare import compare
    from infra import screens
    from inventory.paths import var_dir

    if arguments.facts:
        raise UsageError("--facts judges devices: leave it out to compare two plans")
    if arguments.other and arguments.start:
        raise UsageError(
            "--from goes with one site: leave it out to compare two sites, or OTHER to change keys with --set"
        )
    page = page_of(arguments.html)
    first = planned(arguments.site, start=arguments.start)
    made = compare(first, planned(arguments.other or arguments.site, arguments.settings, arguments.start))
    page = comparison.write(made, page or var_dir(first.site.name, arguments.out) / "compare.html")
    if arguments.json:
        print(json.dumps(made.as_dict(), indent=2, ensure_ascii=False))
    else:
        screens.show_comparison(standard_console(), made, page)
    return OK


def run_attest(arguments: argparse.Namespace) -> int:
    from inventory.delivered.assets import asset_aliases, load_assets
    from inventory.paths import var_dir
    from validation import attest, gate
    from validation.register import register_for

    plan = planned(arguments.site)
    register = register_for(plan.site)
    if arguments.template:
        item = register.items.get(arguments.template)
        subjects = register.subjects(item, plan) if item else []
        sys.stdout.write(attest.template(register, plan.site, arguments.template, subjects))
        return OK
    if arguments.countersign and not (arguments.key or arguments.name):
        for line in attest.shown(attest.pending_records(arguments.countersign)):
            print(line)
        return OK
    if not arguments.key or (arguments.countersign and not arguments.name):
        raise UsageError("signing needs --key, and countersigning also --name")
    folder = var_dir(plan.site.name, arguments.out)
    return attest.run(
        plan.site,
        register,
        plan,
        folder,
        key=arguments.key,
        form=arguments.form,
        pending=arguments.countersign,
        name=arguments.name,
        approve=lambda: gate.approved(plan.site, folder, datetime.now(UTC)),
        known=asset_aliases(load_assets(plan.site), plan.gpus),
    )


def run_waive(arguments: argparse.Namespace) -> int:
    from inventory.paths import var_dir
    from validation.evidence.keys import signer_from
    from validation.evidence.trust import open_store, recorder_of
    from validation.register import register_for
    from validation.waive import APPROVER_ROLE, Waiver, WaiverError, asked_of, refused, waive

    report, content = report_of(arguments)
    plan = planned(arguments.site)
    register = register_for(plan.site)
    if re.match(r"S\d|P-\d", arguments.item) and arguments.item not in register.items:
        raise WaiverError(f"the register has no item {arguments.item}")
    folder = var_dir(plan.site.name, arguments.out) / "evidence"
    store = open_store(plan.site, folder, plan=plan.hash, recorder=recorder_of(plan.site))
    key = signer_from(arguments.key, Path.cwd())
    item = register.items.get(arguments.item)
    waiver = Waiver(arguments.item, arguments.subject, arguments.owner, end_of(arguments.expires), arguments.reason)
    waiver = replace(waiver, report=report)
    known = register.subjects(item, plan) if item else []
    asked = asked_of(register, item, plan) if item else None
    if reason := refused(register, waiver, datetime.now(UTC), known, asked):
        raise WaiverError(reason)
    store.enroll(key, role="approver", owner=arguments.owner)
    if content:
        store.keep(content)
    waive(store, register, waiver, [key], datetime.now(UTC), known, asked)
    print(f"{waiver.item} {waiver.subject} is waived by {waiver.owner} until {arguments.expires}")
    approvers, key_id = plan.site.attest.roles.get(APPROVER_ROLE), key.public_key.keyid
    if approvers is None or key_id not in approvers.keys:
        print(
            f"The gate does not count it at go-live: the key {key_id} is not pinned for the role {APPROVER_ROLE}. "
            f"Fix: add it to attest.roles.{APPROVER_ROLE}.keys, or sign with a key that is there"
        )
    return OK


def report_of(arguments: argparse.Namespace) -> "tuple[Report | None, bytes]":
    """The external report of the arguments and its content. UsageError for one that lacks a part, or cannot be read."""
    from validation.evidence import strict
    from validation.waive import BOUNDS, Report

    path = arguments.external_report
    limit = arguments.at_least if arguments.at_most is None else arguments.at_most
    given = (arguments.instrument, arguments.calibrated, arguments.reading, arguments.unit, limit)
    if path is None:
        if any(one not in ("", None) for one in given):
            raise UsageError(
                "--instrument, --calibrated, --reading, --unit and a limit belong to --external-report FILE"
            )
        return None, b""
    if any(one in ("", None) for one in given):
        raise UsageError(
            "--external-report needs --instrument, --calibrated, --reading, --unit, and --at-most or --at-least"
        )
    try:
        content = strict.read(path.parent, path.name, strict.MAX_LINE)
    except strict.Refused as error:
        raise UsageError(f"--external-report: {error}") from None
    if not content:
        raise UsageError(f"--external-report {path} is empty")
    bound = BOUNDS[1] if arguments.at_most is None else BOUNDS[0]
    digest = hashlib.sha256(content).hexdigest()
    made = Report(digest, arguments.instrument, arguments.calibrated, arguments.reading, arguments.unit, bound, limit)
    return made, content


def run_gate(arguments: argparse.Namespace) -> int:
    from capacity.sizes import load_site
    from inventory.paths import var_dir
    from inventory.site import SiteError
    from validation import gate

    try:
        site = load_site(arguments.site)
    except SiteError:
        given = Path(arguments.site)
        name = given.parent.name if given.suffix else given.name
        if not arguments.verify and (name or arguments.out):
            reason = f"the site file of {arguments.site} cannot be used; bringup plan {arguments.site} says why"
            gate.not_judged(var_dir(name, arguments.out), name, reason, rehearsal=arguments.rehearsal)
        raise
    if arguments.verify:
        return gate.verify(site, arguments.verify, anchor=arguments.anchor, out=arguments.out)
    return gate.run(
        site, rehearsal=arguments.rehearsal, as_json=arguments.json, out=arguments.out, anchor=arguments.anchor
    )
