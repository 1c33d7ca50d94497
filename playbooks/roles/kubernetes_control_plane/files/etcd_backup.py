#!/usr/bin/python3
"""Backups of etcd: made, checked, thinned out, and brought back. Standard library only.

    etcd_backup.py save --programs DIR --folder DIR --keep N       a new backup; the last line says its path
    etcd_backup.py restore --programs DIR --file FILE --data DIR -- ARGUMENTS OF etcdutl
                                                                    new data of etcd from a backup; etcd must not run

A backup holds all objects of the cluster; its secrets are as encrypted as they are in etcd. The data that a restore replaces stays
beside it, under a name with the time.
"""

import argparse
import contextlib
import datetime
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SAVE_S, CHECK_S, RESTORE_S = 300, 120, 300
PREFIX, SUFFIX = "etcd-", ".db"
BUMP = 1_000_000_000
"""Added to the revision, so that no client believes that it has seen what comes (etcd, "Disaster recovery", for Kubernetes)."""
PKI = "/etc/kubernetes/pki"


class BackupError(Exception):
    """The message says what failed and what is left."""


def run(argv: Sequence[str], budget_s: float) -> str:
    """Output of a program; BackupError with its last words."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=budget_s, check=False)
    except FileNotFoundError:
        raise BackupError(f"{argv[0]} is not there: the role kubernetes installs it") from None
    except subprocess.TimeoutExpired:
        raise BackupError(f"{argv[0]} {argv[1]}: no end after {budget_s} s") from None
    if done.returncode:
        raise BackupError(f"{Path(argv[0]).name}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


def now() -> str:
    """The time, UTC, so that names sort by it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def save(programs: Path, folder: Path, keep: int, endpoint: str, pki: str) -> Path:
    """A new backup in `folder`, of which the newest `keep` stay. One that etcdutl cannot read is none."""
    new = folder / f".new-{now()}"
    try:
        run(
            [
                str(programs / "etcdctl"),
                f"--endpoints={endpoint}",
                f"--cacert={pki}/etcd-ca.crt",
                f"--cert={pki}/etcd-client.pem",
                f"--key={pki}/etcd-client.pem",
                "snapshot",
                "save",
                str(new),
            ],
            SAVE_S,
        )
        run([str(programs / "etcdutl"), "snapshot", "status", str(new)], CHECK_S)
        with open(new, "rb") as stream:
            os.fsync(stream.fileno())
        new.chmod(0o600)
        path = folder / f"{PREFIX}{now()}{SUFFIX}"
        new.rename(path)
    finally:
        for left in folder.glob(".new-*"):
            with contextlib.suppress(FileNotFoundError):
                left.unlink()
    for old in backups(folder)[:-keep]:
        old.unlink()
    return path


def backups(folder: Path) -> list[Path]:
    """Backups, the newest last: their names are their times."""
    return sorted(folder.glob(f"{PREFIX}*{SUFFIX}"))


def restore(programs: Path, file: Path, data: Path, arguments: Sequence[str]) -> str:
    """New data of etcd from a backup; what was there before is set aside. Returns where, '' where nothing was."""
    if not file.is_file():
        known = ", ".join(path.name for path in backups(file.parent)[-3:]) if file.parent.is_dir() else ""
        raise BackupError(f"{file}: no such backup; the newest beside it: {known or 'none'}")
    run([str(programs / "etcdutl"), "snapshot", "status", str(file)], CHECK_S)
    new = data.with_name(f"{data.name}.new-{now()}")
    run(
        [
            str(programs / "etcdutl"),
            "snapshot",
            "restore",
            str(file),
            f"--data-dir={new}",
            f"--bump-revision={BUMP}",
            "--mark-compacted",
            *arguments,
        ],
        RESTORE_S,
    )
    aside = data.with_name(f"{data.name}.before-{now()}")
    if data.exists():
        data.rename(aside)
    new.rename(data)
    data.chmod(0o700)
    return str(aside) if aside.exists() else ""


def main(argv: Sequence[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("save", "restore"):
        one = verbs.add_parser(verb)
        one.add_argument("--programs", type=Path, required=True)
        if verb == "save":
            one.add_argument("--folder", type=Path, required=True)
            one.add_argument("--keep", type=int, required=True)
            one.add_argument("--endpoint", default="https://127.0.0.1:2379")
            one.add_argument("--pki", default=PKI)
        else:
            one.add_argument("--file", type=Path, required=True)
            one.add_argument("--data", type=Path, required=True)
            one.add_argument("arguments", nargs="*")
    given = parser.parse_args(argv)
    try:
        if given.verb == "save":
            print(save(given.programs, given.folder, max(given.keep, 1), given.endpoint, given.pki))
        else:
            aside = restore(given.programs, given.file, given.data, given.arguments)
            print(f"{given.data} is {given.file.name}; what was there: {aside or 'nothing'}")
    except (BackupError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
