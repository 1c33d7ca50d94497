"""`make soak`: every test marked `soak`, with a seed of the day, and the figures of the run.

    SOAK_SEED=20260101 python -m tests.soak     the run of that day again

Out: JUnit files and figures.md in var/soak. Exit status 0 when nothing failed and something ran.
"""

import datetime
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from inventory.paths import repo_root, var_dir

INSTALLER_INITRD = (
    var_dir("soak") / "installer/usr/lib/debian-installer/images/12/amd64/text/debian-installer/amd64/initrd.gz"
)
"""Of Debian's installer, which infra/setup/installer.sh fetches before `make soak`."""
NO_TESTS = 5
"""Exit status of pytest when it selects none."""
PARTS = {
    "without the lab": ("-n", "auto", "--maxschedchunk=1", "-m", "soak and not lab"),  # some take half an hour
    "on the lab": ("-n", "2", "--dist", "loadscope", "-m", "soak and lab"),
}


@dataclass
class Row:
    """Figures of one test function over all its parameters."""

    runs: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0


def rows(junit: Path) -> dict[str, Row]:
    """{module::test: figures} of a JUnit file, parameters summed."""
    found: dict[str, Row] = defaultdict(Row)
    for case in ElementTree.parse(junit).iter("testcase"):
        row = found[f"{case.get('classname', '')}::{case.get('name', '').partition('[')[0]}"]
        row.runs += 1
        row.failed += case.find("failure") is not None or case.find("error") is not None
        row.skipped += case.find("skipped") is not None
        row.seconds += float(case.get("time", "0"))
    return dict(found)


def table(found: dict[str, Row]) -> Iterable[str]:
    """The figures as a Markdown table."""
    yield "| Test | runs | failed | skipped | seconds |"
    yield "|---|---|---|---|---|"
    for test, row in sorted(found.items()):
        yield f"| `{test}` | {row.runs} | {row.failed} | {row.skipped} | {row.seconds:.0f} |"


def main() -> int:
    """Run all parts; the worst exit status of them. A part without any test (pytest's status 5) is no failure."""
    seed = os.environ.get("SOAK_SEED") or datetime.datetime.now(datetime.UTC).strftime("%Y%m%d")
    folder = var_dir("soak")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"SOAK_SEED={seed}", flush=True)
    lines, began, failed, ran = [f"SOAK_SEED={seed}", ""], time.monotonic(), False, 0
    for part, options in PARTS.items():
        junit = folder / f"{part.replace(' ', '-')}.xml"
        junit.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "tests", *options, f"--junitxml={junit}"]
        status = subprocess.run(command, cwd=repo_root(), env={**os.environ, "SOAK_SEED": seed}, check=False).returncode
        found = rows(junit) if junit.exists() else {}
        ran += sum(row.runs - row.skipped for row in found.values())
        failed |= status not in (0, NO_TESTS)
        lines += [f"## {part[0].upper()}{part[1:]}", "", *table(found), ""] if status != NO_TESTS else []
    lines.append(f"{ran} tests ran in {(time.monotonic() - began) / 60:.1f} minutes.")
    (folder / "figures.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
