"""The program that makes evidence: its version and commit, and a hash per check file.

    state = program_state()             # version, commit, whether the checkout has changes that are not committed
    made = part_of("validation/checks/test_bmc.py")       # a hash over the file and all first-party files that it imports

In: the files of the checkout or of the installed packages, and `git`. Imports are read from the source, those inside
functions included, so nothing is run. Beside modules a part has the data files that a module names and that lie in its folder.
"""

import ast
import functools
import hashlib
import importlib.metadata
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from inventory.paths import repo_root

PACKAGES = ("inventory", "network", "capacity", "validation", "infra")
"""What is shipped (pyproject.toml)."""
CODE = (*PACKAGES, "playbooks")
APART = frozenset({"validation/steps.yaml"})
"""Data files that are hashed entry by entry elsewhere, so that one changed entry makes one item stale."""
GIT_TIMEOUT_S = 20
"""A choice of ours: `git status` of this checkout takes well under a second."""

_DATA = re.compile(r"""["']([\w.-]+\.(?:yaml|json|j2))["']""")

_CLAIM = re.compile(r"""@check\(\s*["'](S\d{3}\.[a-z]+)["']""")


@dataclass(frozen=True)
class State:
    """Which program runs. `commit` is '' for an installed package; `unclean` says why nobody knows what it is, '' if it is
    the commit that it names.
    """

    version: str
    commit: str
    unclean: str = ""


@dataclass(frozen=True)
class Part:
    """A file and all that it imports: `sha256` over all of them, `files` path to SHA-256."""

    sha256: str
    files: Mapping[str, str]


@functools.cache
def program_state() -> State:
    """The state of this program. A checkout that git cannot judge is unclean: nobody knows what it holds."""
    version = importlib.metadata.version("bringup")
    root = repo_root()
    if not (root / ".git").exists():
        return State(version, "")
    try:
        commit = _git("rev-parse", "HEAD").strip()
        changed = _git("status", "--porcelain", "--", *CODE, ":(exclude)inventory/sites").splitlines()
    except (OSError, subprocess.SubprocessError) as error:
        return State(version, "", f"git does not say what this checkout holds ({type(error).__name__})")
    if changed:
        return State(version, commit, f"{len(changed)} files are not as committed, such as {changed[0][3:][:80]}")
    return State(version, commit)


def _git(*arguments: str) -> str:
    """What git says of this checkout, whatever the environment says of another one."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    argv = ["git", "--no-optional-locks", "-C", str(repo_root()), *arguments]
    return subprocess.run(
        argv, capture_output=True, text=True, errors="replace", check=True, timeout=GIT_TIMEOUT_S, env=clean
    ).stdout


@functools.cache
def part_of(file: str) -> Part:
    """A check file, its conftest.py, and all first-party files that they import. `file` is relative to the root of the program,
    or the path of a file outside it. FileNotFoundError if it is not there.
    """
    conftest = str(Path(file).with_name("conftest.py"))
    waiting = [file, *([conftest] if (repo_root() / conftest).is_file() else [])]
    found: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name], needs = _file(name)
            waiting += needs
    return Part(digest_of(found), found)


@functools.cache
def checked_items() -> frozenset[str]:
    """The items of the register that a shipped check file claims, read from its source."""
    found = (_CLAIM.findall((repo_root() / name).read_text(encoding="utf-8")) for name in check_files())
    return frozenset(item for items in found for item in items)


def digest_of(files: Mapping[str, str]) -> str:
    """One hash over the hashes of files by name."""
    return hashlib.sha256("".join(f"{files[name]}  {name}\n" for name in sorted(files)).encode()).hexdigest()


def check_files() -> list[str]:
    """The shipped check files, relative to the root of the program."""
    root = repo_root()
    return sorted(str(path.relative_to(root)) for path in (root / "validation" / "checks").glob("test_*.py"))


def relative(path: Path) -> str:
    """The name of a file below the root of the program, or its whole path."""
    root = repo_root().resolve()
    found = path.resolve()
    return str(found.relative_to(root)) if found.is_relative_to(root) else str(found)


def sha256_of_file(name: str) -> str:
    """SHA-256 of a file of the program."""
    return hashlib.sha256((repo_root() / name).read_bytes()).hexdigest()


@functools.cache
def _file(name: str) -> tuple[str, tuple[str, ...]]:
    """SHA-256 of a file of the program, and the first-party files that it needs."""
    data = (repo_root() / name).read_bytes()
    needs = tuple(dict.fromkeys(_needs(name, data))) if name.endswith(".py") else ()
    return hashlib.sha256(data).hexdigest(), needs


def _needs(name: str, data: bytes) -> Iterator[str]:
    folder = Path(name).parent
    for node in ast.walk(ast.parse(data)):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield from _modules(one.name)
        elif isinstance(node, ast.ImportFrom):
            base = (
                ".".join((*folder.parts[: len(folder.parts) + 1 - node.level], node.module or "")) if node.level else ""
            )
            module = base.rstrip(".") or str(node.module)
            yield from _modules(module)
            for one in node.names:
                yield from _modules(f"{module}.{one.name}")
    for match in _DATA.finditer(data.decode(errors="replace")):
        beside = str(folder / match[1])
        if beside not in APART and (repo_root() / beside).is_file():
            yield beside


@functools.cache
def _modules(dotted: str) -> tuple[str, ...]:
    """The files of a dotted name: those of its packages on the way, and its own, where it is a module of ours."""
    parts = dotted.split(".")
    if parts[0] not in PACKAGES:
        return ()
    root, found = repo_root(), []
    for length in range(1, len(parts) + 1):
        path = "/".join(parts[:length])
        found += [name for name in (f"{path}/__init__.py", f"{path}.py") if (root / name).is_file()]
    return tuple(found)
