"""`make test`: every test that this machine can run, those on the lab and the others at the same time.

    python -m tests.whole

Tests on the lab wait for machines that boot and for timers, so the others take the processors meanwhile. They run at a lower
priority: a lab that is kept waiting would miss time budgets that hold on a machine of its own.
Out: what the tests without the lab say as they run, then what those on the lab said. Exit status: 0 when both are green.
"""

import subprocess
import sys
from collections.abc import Sequence

from inventory.paths import repo_root, var_dir

PYTEST = (sys.executable, "-m", "pytest", "tests")
WITHOUT_LAB = ("nice", "-n", "10", *PYTEST, "-n", "auto", "-m", "not lab")
ON_LAB = (*PYTEST, "-n", "2", "--dist", "loadscope", "-m", "lab")


def both(shown: Sequence[str], kept: Sequence[str]) -> int:
    """Run two commands at once; print what `shown` says at once, and what `kept` says after it. The larger exit status.

    An interrupt reaches both, as they are of one terminal; this waits until they have tidied up.
    """
    said = var_dir("test") / "on-lab.txt"
    said.parent.mkdir(parents=True, exist_ok=True)
    with (
        said.open("wb") as output,
        subprocess.Popen(kept, cwd=repo_root(), stdout=output, stderr=subprocess.STDOUT) as second,
    ):
        print(f"At the same time, on the lab: {said}", flush=True)
        with subprocess.Popen(shown, cwd=repo_root()) as first:
            status = first.wait()
        status = max(status, second.wait(), key=abs)
    print(said.read_text(encoding="utf-8", errors="replace"), end="", flush=True)
    return abs(status)


if __name__ == "__main__":
    sys.exit(both(WITHOUT_LAB, ON_LAB))
