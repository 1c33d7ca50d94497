"""docs/proven.md: the last run of each demo, soak and bench, with commit, date and result.

    python -m infra.proven run NAME COMMAND …     runs a command, notes how it ended in var/proven/NAME.json; its exit status
    python -m infra.proven write                  takes these notes into infra/proven.yaml and writes docs/proven.md

The Makefile runs them by the first; a person writes the page by the second, looks at it and commits it. A run of a checkout with
changes that are not committed is noted as such: its commit does not say what ran.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from inventory.paths import repo_root, var_dir, write_file
from inventory.yaml_data import read_data
from validation.program import program_state

DATA = Path(__file__).with_name("proven.yaml")
PAGE = repo_root() / "docs" / "proven.md"
NOTES = "proven"
NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
COMMIT = re.compile(r"[0-9a-f]{12}|")
HEAD = """# Last runs

<!-- Written by `python -m infra.proven write` from infra/proven.yaml. Do not edit by hand. -->

The last run of each demo, soak and bench that was noted here. Dates are UTC; times are of the whole command with its set-up done.
Load: average of the last minute at the beginning, over processors: above 1 the machine did other work, and times are upper bounds.

| Command | Result | Date | Commit | Took | Load |
|---|---|---|---|---|---|
"""


class ProvenError(Exception):
    """A note or an entry that is not one; the message names it."""


@dataclass(frozen=True)
class Run:
    """One run. `commit`: 12 hex digits, '' outside a checkout; `subject` is its first line; `clean`: nothing was changed since.
    `status`: exit status; negative for a signal. `began`: UTC, ISO 8601 to the minute.
    """

    name: str
    status: int
    began: str
    took_s: float
    load: float
    processors: int
    commit: str = ""
    subject: str = ""
    clean: bool = False

    @property
    def result(self) -> str:
        return "passed" if self.status == 0 else f"failed (exit status {self.status})"


def run_from(said: Any, where: str) -> Run:
    """A run from plain data. ProvenError, which names `where`, for anything else."""
    try:
        made = Run(**said)
        good = (
            NAME.fullmatch(made.name)
            and COMMIT.fullmatch(made.commit)
            and isinstance(made.status, int)
            and isinstance(made.clean, bool)
            and datetime.strptime(made.began, "%Y-%m-%dT%H:%MZ")
            and made.took_s >= 0
            and made.load >= 0
            and made.processors > 0
            and "\n" not in made.subject
        )
    except (TypeError, ValueError) as error:
        raise ProvenError(f"{where}: not the note of a run: {error}") from None
    if not good:
        raise ProvenError(f"{where}: not the note of a run: {said}")
    return made


def kept() -> dict[str, Run]:
    """The runs of infra/proven.yaml, by name."""
    found = [run_from(one, f"{DATA.name}, run {number}") for number, one in enumerate(read_data(DATA)["runs"], start=1)]
    return {one.name: one for one in found}


def newer(known: Mapping[str, Run], noted: Sequence[Run]) -> dict[str, Run]:
    """The last run by name: of those that are known and those that were noted."""
    last = dict(known)
    for one in noted:
        if one.name not in last or one.began >= last[one.name].began:
            last[one.name] = one
    return dict(sorted(last.items()))


def page(runs: Mapping[str, Run], names: Sequence[str]) -> str:
    """The page: a row for each of `names`, in their order, also for one without a run."""
    rows = []
    for name in names:
        one = runs.get(name)
        if one is None:
            rows.append(f"| `make {name}` | no run noted | | | | |")
            continue
        subject = one.subject.replace("|", "\\|")
        commit = f"{subject} ({one.commit}{'' if one.clean else ', with changes'})" if one.commit else "no checkout"
        day = one.began.replace("T", " ").removesuffix("Z")
        load = f"{one.load:.1f} / {one.processors}"
        rows.append(f"| `make {name}` | {one.result} | {day} | {commit} | {took(one.took_s)} | {load} |")
    return HEAD + "\n".join(rows) + "\n"


def took(seconds: float) -> str:
    """A time as a person reads it: 59 s, 12 min, 2.5 h."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def proven_targets(makefile: str) -> list[str]:
    """Targets of the Makefile whose runs are noted, in its order."""
    return list(dict.fromkeys(re.findall(r"-m infra\.proven run (\S+)", makefile)))


def noted(name: str, command: Sequence[str], notes: Path) -> int:
    """Run a command and note how it ended; its exit status, 128 + N for signal N."""
    if not NAME.fullmatch(name):
        raise ProvenError(f"{name!r} is no name of a run: small letters, digits and hyphens")
    state, began, load = program_state(), datetime.now(UTC), os.getloadavg()[0]
    clock = time.monotonic()
    process = subprocess.Popen(command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the command as well: it ends by itself
    signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())
    status = process.wait()
    made = Run(
        name,
        status,
        began.strftime("%Y-%m-%dT%H:%MZ"),
        round(time.monotonic() - clock, 1),
        round(load, 1),
        os.cpu_count() or 1,
        state.commit[:12],
        subject_of(state.commit),
        bool(state.commit) and not state.unclean,
    )
    write_file(notes / f"{name}.json", json.dumps(asdict(made), indent=1) + "\n")
    return status if status >= 0 else 128 - status


def subject_of(commit: str) -> str:
    """First line of a commit's message; '' where git does not say it."""
    argv = ["git", "-C", str(repo_root()), "log", "-1", "--format=%s", commit]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.stdout.strip() if commit and done.returncode == 0 else ""


def write(notes: Path) -> list[Path]:
    """Take the notes into infra/proven.yaml and write the page."""
    fresh = [run_from(json.loads(path.read_text()), str(path)) for path in sorted(notes.glob("*.json"))]
    runs = newer(kept(), fresh)
    text = "# The last run of each demo, soak and bench. `python -m infra.proven write` writes it and docs/proven.md.\n"
    text += yaml.safe_dump(
        {"schema_version": 1, "runs": [asdict(one) for one in runs.values()]}, sort_keys=False, width=120
    )
    names = proven_targets((repo_root() / "Makefile").read_text())
    return [write_file(DATA, text), write_file(PAGE, page(runs, names))]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command or write the page; see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m infra.proven", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run a command and note how it ended")
    run.add_argument("name")
    run.add_argument("command", nargs=argparse.REMAINDER)
    verbs.add_parser("write", help="write docs/proven.md")
    arguments = parser.parse_args(argv)
    notes = var_dir(NOTES)
    try:
        if arguments.verb == "run":
            return noted(arguments.name, arguments.command, notes)
        for path in write(notes):
            print(path)
    except ProvenError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
