"""Reports of drift: what a check-mode run of the playbooks would have changed, one dated file a run, and what they prove together.

    path = write(folder, report(plan, drift, began))     `bringup validation drift SITE`, by hand or by a timer
    faults(reports, plan_hash, "gpu001", 3600, now)      what they lack for S143, a sentence each
    timer(site_file, every_s, program)                   text of a systemd service and timer that make them

A report names host, role, task and files of each change. It has no content of files and nothing that the run printed, so that no
secret is in it; it is bounded, and says what it left out.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from capacity.model import Plan
from inventory.paths import read_file
from validation.runners.ansible import Drift

FOLDER = "drift"
"""Its name in the folder of the site's outputs, beside the evidence."""
SCHEMA_VERSION = 1
STAMP = "%Y%m%dT%H%M%S.%fZ"
MOST_LINES, MOST_PATHS, MOST_CHARACTERS = 1000, 20, 200
"""Changes and failures in a report, files of a change, characters of a text."""
MAX_BYTES = 16 << 20
KEPT = 400
"""Reports that are kept; the oldest go."""
READ = 50
"""Newest reports that are judged."""
LATE, STALE_S = 2.0, 7 * 24 * 3600.0
"""A schedule has stopped when the newest report is older than a week and than so many of its longest intervals: one run of a
schedule may fail, two may not."""
BAD = ("changed", "failed", "unreachable")


class ReportError(Exception):
    """A file that is no report of drift; the message names it and what to do."""


@dataclass(frozen=True)
class Report:
    """One run. `hosts`: counts by host. `changes`: host, role, task, files; `failures`: host, role, task. `left_out`: how many of
    both are not in it. `error`: why there is no result."""

    site: str
    plan_hash: str
    began: datetime
    ended: datetime
    error: str = ""
    hosts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    changes: Sequence[Mapping[str, Any]] = ()
    failures: Sequence[Mapping[str, Any]] = ()
    left_out: int = 0

    def drifted(self) -> list[str]:
        """Hosts with a change, a failure or no answer."""
        return [name for name, counts in self.hosts.items() if any(counts[kind] for kind in BAD)]


def report(plan: Plan, drift: Drift, began: datetime, ended: datetime) -> Report:
    """The report of a run."""
    changes = [
        {**_where(one), "files": [_short(path) for path in one.get("paths", ())][:MOST_PATHS]} for one in drift.changes
    ]
    failures = [_where(one) for one in drift.failures]  # a message may quote what was refused
    kept, more = changes[:MOST_LINES], failures[:MOST_LINES]
    hosts = {name: {key: int(count) for key, count in counts.items()} for name, counts in drift.hosts.items()}
    left_out = len(changes) + len(failures) - len(kept) - len(more)
    # the error of a run ends with what it printed, which may show the content of files
    error = _short(drift.error.partition("): ")[0])
    return Report(plan.site.name, plan.hash, began, ended, error, hosts, kept, more, left_out)


def write(folder: Path, one: Report) -> Path:
    """The report as a file of its own below the folder of a site's outputs, written whole; older ones than KEPT are removed."""
    home = folder / FOLDER
    home.mkdir(parents=True, exist_ok=True)
    said = {
        "schema_version": SCHEMA_VERSION,
        "site": one.site,
        "plan_hash": one.plan_hash,
        "began": one.began.isoformat(),
        "ended": one.ended.isoformat(),
        "error": one.error,
        "hosts": one.hosts,
        "changes": one.changes,
        "failures": one.failures,
        "left_out": one.left_out,
    }
    path = home / f"{one.ended:{STAMP}}.json"
    new = path.with_suffix(".part")
    new.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    new.replace(path)
    for old in sorted(home.glob("*.json"))[:-KEPT]:
        old.unlink(missing_ok=True)
    return path


def read(folder: Path) -> list[Report]:
    """The newest reports below the folder of a site's outputs, oldest first. ReportError for a file that is none."""
    return [_parsed(path) for path in sorted((folder / FOLDER).glob("*.json"))[-READ:]]


def _parsed(path: Path) -> Report:
    try:
        said = json.loads(read_file(path, MAX_BYTES))
        if said["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema_version {said['schema_version']!r}, this program reads {SCHEMA_VERSION}")
        began, ended = datetime.fromisoformat(said["began"]), datetime.fromisoformat(said["ended"])
        hosts = {
            str(name): {str(key): int(count) for key, count in counts.items()} for name, counts in said["hosts"].items()
        }
        if lacks := [name for name, counts in hosts.items() if set(BAD) - set(counts)]:
            raise ValueError(f"{lacks[0]} has no count of {', '.join(BAD)}")
        if began.tzinfo is None or ended.tzinfo is None or ended < began:
            raise ValueError("its times are not in order, or have no time zone")
        changes = [{**_where(one), "files": [_short(path) for path in one["files"]]} for one in said["changes"]]
        failures = [_where(one) for one in said["failures"]]
        texts = _short(said["site"]), _short(said["plan_hash"])
        error, left_out = _short(said["error"]), int(said["left_out"])
        return Report(*texts, began, ended, error, hosts, changes, failures, left_out)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ReportError(
            f"{path}: no report of drift ({type(error).__name__}: {error}): set it aside, and run bringup validation drift again"
        ) from None


def faults(reports: Sequence[Report], plan_hash: str, host: str, apart_s: float, now: datetime) -> list[str]:
    """What the reports lack to show that drift of a host is reported by a schedule and that there is none; [] for nothing.

    Reports of another plan do not count. From the newest on back, reports without drift have to reach over `apart_s` at least.
    """
    ours = [one for one in reports if one.plan_hash == plan_hash]
    ours.sort(key=lambda one: one.ended)
    how = "bringup validation drift, by a timer (--every)"
    if not ours:
        return [f"no report of drift under this plan: {how}"]
    newest = ours[-1]
    if newest.ended > now:
        return [
            f"the newest report of drift is of {_minute(newest.ended)}, which is still to come: set the clock right"
        ]
    clean: list[Report] = []
    for one in reversed(ours):
        if why := _unclean(one, host):
            if not clean:
                return [f"report of drift of {_minute(one.ended)}: {why}"]
            break
        clean.append(one)
    reach_s = (newest.began - clean[-1].began).total_seconds()
    if len(clean) < 2 or reach_s < apart_s:
        said = "one report" if len(clean) == 1 else f"{len(clean)} reports within {reach_s:g} s"
        return [f"{said} without drift, wanted are two that are {apart_s:g} s apart: {how}"]
    gaps = [(late.began - early.began).total_seconds() for late, early in itertools.pairwise(clean)]
    if (now - newest.ended).total_seconds() > max(STALE_S, LATE * max(gaps)):
        return [f"the newest report of drift is of {_minute(newest.ended)}: nothing makes them any more; {how}"]
    return []


def _unclean(one: Report, host: str) -> str:
    """What a report says against a host; '' for nothing."""
    if one.error:
        return f"the run had no result: {one.error}"
    counts = one.hosts.get(host)
    if counts is None or not counts.get("ok"):
        return f"{host} was not in the run"
    wrong = [f"{counts[kind]} {kind}" for kind in BAD if counts[kind]]
    named = [f"{line['role']}: {line['task']}" for line in (*one.changes, *one.failures) if line["host"] == host]
    return ", ".join(wrong) + (f" ({'; '.join(named[:3])})" if named else "") if wrong else ""


def timer(site_file: Path, name: str, every_s: int, command: Sequence[str], root: Path) -> str:
    """Text of two units of systemd for the management node, which run `command` every so many seconds.

    `OnCalendar` cannot say any interval, so the timer counts from the last run (systemd.timer(5)).
    """
    unit = f"bringup-drift-{name}"
    words = " ".join('"' + word.replace("%", "%%").replace('"', '\\"') + '"' for word in command)
    return f"""\
# /etc/systemd/system/{unit}.service
[Unit]
Description=Report of drift of site {name}
After=network-online.target

[Service]
Type=oneshot
WorkingDirectory={root}
ExecStart={words}
# 1: something drifted, which the report says
SuccessExitStatus=1

# /etc/systemd/system/{unit}.timer
[Unit]
Description=Report of drift of site {name}, every {every_s} s ({site_file})

[Timer]
OnBootSec=15min
OnUnitActiveSec={every_s}s
RandomizedDelaySec={max(1, every_s // 60)}s

[Install]
WantedBy=timers.target
"""


def _where(one: Mapping[str, Any]) -> dict[str, str]:
    return {key: _short(one[key]) for key in ("host", "role", "task")}


def _short(text: object) -> str:
    said = " ".join(str(text).split())
    return said if len(said) <= MOST_CHARACTERS else said[: MOST_CHARACTERS - 1] + "…"


def _minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
