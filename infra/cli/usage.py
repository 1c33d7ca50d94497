"""usage: GPU-hours by account and user, as the site's Prometheus has recorded them."""

import argparse
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from infra.cli.common import OK, UsageError, add_site, add_verb, planned, standard_console

if TYPE_CHECKING:
    from collections.abc import Iterable

    from capacity.model import Plan
    from validation.usage import Row, Usage

MOST_DAYS = 400
"""A year and a month; Prometheus keeps less on most sites. A choice of ours."""
DAYS = 7
GAPS_SHOWN = 10


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    text = "GPU-hours by account and user on a site of Kubernetes, from its Prometheus"
    made = add_verb(verbs, "usage", run_usage, text)
    add_site(made)
    made.add_argument("--days", type=float, metavar="N", help=f"the last N days (default: {DAYS})")
    made.add_argument("--since", metavar="TIME", help="from then on, UTC: 2026-11-01 or 2026-11-01T08:00")
    made.add_argument("--until", metavar="TIME", help="up to then, UTC (default: now)")
    made.add_argument(
        "--by", choices=("account", "user"), help="a row for each account, or each user (default: for both)"
    )
    made.add_argument("--json", action="store_true", help="as JSON")


def run_usage(arguments: argparse.Namespace) -> int:
    since, until = _period(arguments, datetime.now(UTC))
    plan = planned(arguments.site)
    if plan.site.scheduler.kind != "kubernetes":
        span = f"start={since:%Y-%m-%dT%H:%M} end={until:%Y-%m-%dT%H:%M}"
        raise UsageError(
            f"{plan.site.name} runs Slurm, whose database keeps GPU time. On its controller, in the controller's local time: "
            f"sreport cluster AccountUtilizationByUser -T gres/gpu -t Hours {span}"
        )
    found, silent = _asked(plan, int(since.timestamp()), int(until.timestamp()))
    if arguments.json:
        print(json.dumps(_plain(plan.site.name, found, arguments.by, silent), indent=2))
        return OK
    _show(plan.site.name, found, arguments.by)
    for why in silent:
        standard_console().print(f"left out: {why}", markup=False, highlight=False, soft_wrap=True)
    return OK


def _period(arguments: argparse.Namespace, now: datetime) -> tuple[datetime, datetime]:
    """Whole minutes, UTC."""
    if arguments.days is not None and arguments.since:
        raise UsageError("--days and --since are two ways to say the same: give one of them")
    until = _time("--until", arguments.until) if arguments.until else now.replace(second=0, microsecond=0)
    days = DAYS if arguments.days is None else arguments.days
    if not 0 < days <= MOST_DAYS:
        raise UsageError(f"--days {days:g}: more than 0 and at most {MOST_DAYS}")
    minutes = max(1, round(days * 1440))
    since = _time("--since", arguments.since) if arguments.since else until - timedelta(minutes=minutes)
    if not since < until <= now + timedelta(minutes=1):
        raise UsageError(
            f"{since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC: the time has to begin before it ends, in the past"
        )
    if until - since > timedelta(days=MOST_DAYS):
        raise UsageError(f"{(until - since).days} days: ask for {MOST_DAYS} at most")
    return since, until


def _time(option: str, text: str) -> datetime:
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text}: expected a time such as 2026-11-01 or 2026-11-01T08:00") from None
    return (given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)).replace(second=0, microsecond=0)


def _asked(plan: "Plan", since: int, until: int) -> "tuple[Usage, list[str]]":
    """What the telemetry servers have, and which did not answer; the error of the first where none did."""
    from capacity.services import telemetry
    from network.drivers.errors import DeviceError
    from validation.facts.usage import over_ssh, used
    from validation.usage import usage

    answered, errors = [], []
    for ask in over_ssh(plan).values():
        try:
            answered.append(used(ask, since, until, telemetry.interval_s(plan.site)))
        except DeviceError as error:
            errors.append(error)
    if not answered:
        raise errors[0] if errors else UsageError(f"{plan.site.name} has no telemetry server: add one to service_nodes")
    found = usage(plan, answered)
    if not found.observed_h:
        kept_d = telemetry.limit(plan.site, "telemetry_retention_d").value
        raise UsageError(
            f"no sample from {_shown(since)} to {_shown(until)} UTC. Prometheus keeps {kept_d:g} days "
            "(limits.telemetry_retention_d). Controllers write "
            "samples each minute: systemctl status bringup-kubernetes-metrics there; playbooks/site.yml installs "
            "that and the rules"
        )
    return found, [str(error) for error in errors]


def _shown(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def _rows(found: "Usage", by: str | None) -> "Iterable[Row]":
    from validation.usage import by_account, by_user

    return by_account(found) if by == "account" else by_user(found) if by == "user" else found.rows


def _show(site: str, found: "Usage", by: str | None) -> None:
    from rich.table import Table
    from rich.text import Text

    console = standard_console()

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    asked_h = (found.until - found.since) / 3600
    say(
        f"{site}, {_shown(found.since)} to {_shown(found.until)} UTC: {found.gpus} GPUs, samples of {found.observed_h:.1f} of "
        f"{asked_h:.1f} h, in which they could give {found.capacity_h:.1f} GPU-hours"
    )
    table = Table(box=None, pad_edge=False)
    if by != "user":
        table.add_column("account")
    if by != "account":
        table.add_column("user")
    numbers = ["GPU-hours", *(["with accounts below"] if by == "account" else []), "share %"]
    for name in numbers:
        table.add_column(name, justify="right")
    for row in _rows(found, by):
        names = [*([row.account] if by != "user" else []), *([row.user] if by != "account" else [])]
        below = [f"{found.with_below(row.account):.2f}"] if by == "account" else []
        values = [f"{row.gpu_hours:.2f}", *below, f"{found.share_pct(row.gpu_hours):.2f}"]
        table.add_row(*(Text(cell) for cell in (*names, *values)))
    console.print(table)
    nobody = sum(row.gpu_hours for row in found.unattributed)
    say(f"unattributed: {nobody:.2f} GPU-hours")
    for row in found.unattributed:
        say(f"  {row.account}: {row.gpu_hours:.2f} GPU-hours, {row.why}")
    for resource, hours in found.other.items():
        say(f"not counted: {hours:.2f} h of {resource}, which the plan does not have")
    if found.gaps:
        say(f"no sample: {sum(gap.hours for gap in found.gaps):.1f} h")
    for gap in found.gaps[:GAPS_SHOWN]:
        say(f"  {_shown(gap.since)} to {_shown(gap.until)}: {gap.hours:.1f} h")
    if len(found.gaps) > GAPS_SHOWN:
        say(f"  and {len(found.gaps) - GAPS_SHOWN} more: --json has all")


def _plain(site: str, found: "Usage", by: str | None, silent: list[str]) -> dict[str, Any]:
    rows = [
        {
            **({"account": row.account} if by != "user" else {}),
            **({"parent": found.parents[row.account]} if by != "user" else {}),
            **({"user": row.user} if by != "account" else {}),
            "gpu_hours": round(row.gpu_hours, 4),
            **({"with_below_gpu_hours": round(found.with_below(row.account), 4)} if by == "account" else {}),
            "share_pct": round(found.share_pct(row.gpu_hours), 4),
        }
        for row in _rows(found, by)
    ]
    return {
        "site": site,
        "since": datetime.fromtimestamp(found.since, UTC).isoformat(),
        "until": datetime.fromtimestamp(found.until, UTC).isoformat(),
        "gpus": found.gpus,
        "observed_h": round(found.observed_h, 4),
        "capacity_gpu_hours": round(found.capacity_h, 4),
        "rows": rows,
        "left_out": silent,
        "unattributed": [
            {"account": row.account, "user": row.user, "gpu_hours": round(row.gpu_hours, 4), "why": row.why}
            for row in found.unattributed
        ],
        "not_counted_h": {resource: round(hours, 4) for resource, hours in found.other.items()},
        "without_sample": [
            {
                "since": datetime.fromtimestamp(gap.since, UTC).isoformat(),
                "until": datetime.fromtimestamp(gap.until, UTC).isoformat(),
                "hours": round(gap.hours, 4),
            }
            for gap in found.gaps
        ],
    }
