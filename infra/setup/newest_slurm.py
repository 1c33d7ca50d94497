"""`python -m infra.setup.newest_slurm [--check]`: unpack the newest Debian's slurmctld, for tests/playbooks/test_newest_slurm.py.

In: Debian's testing suite (`SUITE`) from the host's keyring. Out: `slurm-<suite>/` in the cache, a root file system with
slurmctld, munged and their dependencies, unpacked and not configured; nothing of the host's own packages changes.
With --check nothing is fetched; the exit status says whether the tree is there (0) or not (1).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from infra.lab.paths import LabError, cache_dir

SUITE = "testing"
MIRROR = "http://deb.debian.org/debian"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PACKAGES = ("slurmctld", "slurm-client", "munge", "base-files", "coreutils", "dash")
BUDGET_S = 300


def tree() -> Path:
    """The unpacked root file system."""
    return cache_dir() / f"slurm-{SUITE}"


def is_ready() -> bool:
    return (tree() / "usr/sbin/slurmctld-wlm").exists()


def _run(argv: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=BUDGET_S, check=False, env=environment)
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(argv[:2])} took over {BUDGET_S} s") from None
    if done.returncode:
        raise LabError(f"{argv[0]} failed: {done.stderr.strip()[-800:]}")


def ensure() -> Path:
    """Fetch and unpack with an apt of its own: sources, lists, cache and package status are in the working folder."""
    if is_ready():
        return tree()
    if not KEYRING.exists():
        raise LabError(f"{KEYRING} is missing: apt-get install debian-archive-keyring")
    work = tree().with_name(tree().name + ".new")
    shutil.rmtree(work, ignore_errors=True)
    for name in ("parts", "lists/partial", "cache/archives/partial", "root"):
        (work / name).mkdir(parents=True)
    (work / "status").touch()
    (work / "sources.list").write_text(f"deb [signed-by={KEYRING}] {MIRROR} {SUITE} main\n")
    settings = (
        f"Dir::Etc::sourcelist={work}/sources.list",
        f"Dir::Etc::sourceparts={work}/parts",
        f"Dir::State::lists={work}/lists",
        f"Dir::State::status={work}/status",
        f"Dir::Cache={work}/cache",
        "Acquire::Languages=none",
        "Acquire::Retries=3",
        "APT::Sandbox::User=root",
    )
    apt = ["apt-get", "-q", "-y", *(word for setting in settings for word in ("-o", setting))]
    _run([*apt, "update"])
    _run([*apt, "--no-install-recommends", "--download-only", "install", *PACKAGES])
    for deb in sorted((work / "cache/archives").glob("*.deb")):
        _run(["dpkg-deb", "-x", str(deb), str(work / "root")])
    (work / "root").rename(tree())
    shutil.rmtree(work)
    return tree()


def main(argv: list[str]) -> int:
    if "--check" in argv:
        return 0 if is_ready() else 1
    try:
        print(f"  slurmctld: {ensure()}")
    except LabError as error:
        print(f"Newest slurmctld: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
