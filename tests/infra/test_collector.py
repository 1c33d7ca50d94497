"""Python's garbage collector in processes whose objects stay."""

import subprocess
import sys

from inventory.paths import repo_root


def test_it_runs_seldom_and_finds_nothing_at_the_end() -> None:
    program = (
        "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0)); "
        "from infra import collector; before = gc.get_threshold(); collector.seldom(); "
        "print(gc.get_threshold()[0] > 100 * before[0], gc.get_threshold()[1:] == before[1:], gc.isenabled())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=repo_root(), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["True True True", "True"]
