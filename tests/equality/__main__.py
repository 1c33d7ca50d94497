"""`python -m tests.equality`: compare a tree with the baseline, record the baseline, or compare two records.

Exit status: 0 nothing differs, 1 something does, 2 the comparison could not be made.
"""

import argparse
import fnmatch
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from .records import ACCEPTED, BASELINE, Records, dumped, loaded, read_accepted, read_text, report, write_text

HERE = Path(__file__).resolve().parent
OWN_TREE = HERE.parents[1]
IN_CHILD = "EQUALITY_TREE"
"""Set in the process that imports the tree's product."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run as the arguments say; the exit status."""
    given = arguments(argv)
    if given.diff:
        before, after = (loaded(read_text(path)) for path in given.diff)
        return told(report(before, after, messages=given.messages))
    tree = given.tree.resolve()
    if os.environ.get(IN_CHILD) != str(tree):
        return in_tree(tree, sys.argv[1:] if argv is None else list(argv))
    began = time.monotonic()
    found = collected(tree, given.only, given.jobs, given.every)
    print(
        f"{len({site for site, _ in found})} sites and recordings, {len(found)} records "
        f"in {time.monotonic() - began:.0f} s with {given.jobs} processes",
        file=sys.stderr,
    )
    if given.out:
        write_text(given.out, dumped(found))
    if given.record:
        write_text(given.baseline, dumped(found))
        return 0
    before = loaded(read_text(given.baseline))
    part = bool(given.only) or given.every > 1
    if part:
        before = {key: value for key, value in before.items() if wanted(key[0], given.only, given.every)}
    return told(report(before, found, read_accepted(given.accepted), given.messages, whole=not part))


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.equality", description="Compare a tree with the baseline.")
    parser.add_argument("--tree", type=Path, default=OWN_TREE, metavar="DIR", help="tree to import (default: this one)")
    parser.add_argument("--only", action="append", default=[], metavar="GLOB", help="only these sites and recordings")
    parser.add_argument("--messages", action="store_true", help="compare texts of findings and checks, too")
    parser.add_argument("--record", action="store_true", help="write the baseline anew")
    parser.add_argument("--baseline", type=Path, default=BASELINE, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--accepted", type=Path, default=ACCEPTED, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the records to FILE")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: CPUs)")
    parser.add_argument("--diff", type=Path, nargs=2, metavar="FILE", help="compare two files of records, nothing else")
    parser.add_argument(
        "--every",
        type=int,
        default=1,
        metavar="N",
        help="of the random sites only each N-th: a quick look while moving code",
    )
    given = parser.parse_args(argv)
    if given.record and (given.only or given.every > 1):
        parser.error("a baseline is of all sites: leave out --only and --every")
    for name in ("baseline", "accepted", "out"):
        path = getattr(given, name)
        setattr(given, name, path.resolve() if path else None)
    return given


def in_tree(tree: Path, words: Sequence[str]) -> int:
    """The same command in a process that imports the product of `tree`, and this package beside it."""
    if not (tree / "infra" / "cli").is_dir():
        print(f"{tree}: no tree of Bringup: infra/cli is not there", file=sys.stderr)
        return 2
    paths = [str(tree), str(HERE.parent)]
    environment = {**os.environ, IN_CHILD: str(tree), "PYTHONPATH": os.pathsep.join(paths)}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-P", "-m", HERE.name, *map(absolute, words)]
    return subprocess.run(command, cwd=tree, env=environment, check=False).returncode


def absolute(word: str) -> str:
    """A word of the command line that names a file, from any folder."""
    return (
        str(Path(word).resolve())
        if not word.startswith("-") and os.sep in word and Path(word).parent.exists()
        else word
    )


def wanted(name: str, globs: Sequence[str], every: int = 1) -> bool:
    """Whether --only names it, and --every does not leave it out."""
    if name.startswith("random-") and int(name.rpartition("-")[2]) % every:
        return False
    return not globs or any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def collected(tree: Path, globs: Sequence[str], jobs: int, every: int = 1) -> Records:
    """Records of all wanted sites and recordings, by a pool of processes."""
    from . import collect
    from .product import Tree

    product = Tree()
    if product.root != tree:
        raise RuntimeError(f"{product.root} was imported, not {tree}")
    todo = [name for name in collect.names(product) if wanted(name, globs, every)]
    if not todo:
        raise SystemExit(f"--only {' '.join(globs)}: no such site or recording")
    collector = collect.Collector(product)
    _COLLECTORS.append(collector)  # before the fork: the processes have it without reading anything again
    records: Records = {}
    if jobs == 1:
        for name in todo:
            records |= collector.collect(name)
        return records
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        for number, found in enumerate(pool.map(_collect, todo), 1):
            records |= found
            if sys.stderr.isatty():
                print(f"\r{number}/{len(todo)} {todo[number - 1]:40}", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r" + " " * 50 + "\r", end="", file=sys.stderr)
    return records


_COLLECTORS: list[Any] = []


def _collect(name: str) -> Records:
    found: Records = _COLLECTORS[-1].collect(name)
    return found


def told(lines: Sequence[str]) -> int:
    """Print the lines of a report; the exit status."""
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
