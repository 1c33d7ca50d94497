"""The program that makes evidence: its version and commit, and a hash per check file.

    state = program_state()             # version, commit, whether the checkout has changes that are not committed
    made = part_of("validation/checks/test_bmc.py")       # a hash over the file and all first-party files that it imports

In: the files of the checkout or of the installed packages, and `git`. Imports are read from the source, those inside
functions included, so nothing is run. Beside modules a part has the files that a module names and that lie in its folder. Of
the conftest.py beside a check file, which gives fixtures to all of them, a part has what the check uses.
"""

import ast
import functools
import hashlib
import importlib.metadata
import os
import re
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from inventory.paths import repo_root

PACKAGES = ("inventory", "network", "capacity", "validation", "infra")
"""What is shipped (pyproject.toml)."""
CODE = (*PACKAGES, "playbooks")
APART = frozenset({"validation/steps.yaml", "validation/platform_steps.yaml"})
"""Data files that are hashed entry by entry elsewhere, so that one changed entry makes one item stale."""
GIT_TIMEOUT_S = 20
"""A choice of ours: `git status` of this checkout takes well under a second."""

GATHERED = {"facts": "validation/facts/gather.py"}
"""Fixtures of validation/plugin.py whose answers a check judges, and the file that makes them."""
STARTERS = frozenset({"run_meanwhile", "drill_begun"})
"""Fixtures of checks/conftest.py with ``autouse`` that only start what others give: what they use is no part of a check that
asks for none of these."""
_DATA = re.compile(r"""["']([\w.-]+\.(?:yaml|json|j2|py|sh))["']""")
"""A file that lies beside a module, which reads it as text: data, or a program for a device."""
_FOLDER = re.compile(r"""with_name\(["']([\w-]+)["']\)""")
_ELSEWHERE = re.compile(r"""["']([\w-]+)["']\s*/\s*["']([\w.-]+\.\w+)["']""")
"""A file in a folder beside the module or beside the module's own folder."""

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^()#]*\)|[^\n#(]*)|import[ \t]+([^\n#]*))", re.MULTILINE
)
_BEGINS_AS_IMPORT = re.compile(r"^[ \t]*(?:from\b[^\n]*\bimport\b|import\b)", re.MULTILINE)
_ODD_IMPORT = re.compile(
    r"[;:][ \t]*(?:import[ \t]|from[ \t]+[\w.]+[ \t]+import\b)|^[ \t]*(?:from|import)[ \t][^\n]*\\\n|\\\n[ \t]*(?:from|import)[ \t]"
    r"|^[ \t]*from[ \t]+[\w.]+[ \t]+import[ \t]*\([^()]*#",
    re.MULTILINE,
)
"""An import that does not begin its line, has a comment among its names, or goes on behind a backslash."""

_WORD = re.compile(r"\w+")
ANNOTATION = 60
"""Characters of a text in which names are looked for: a type between quotes, or the name of a fixture. Longer ones are prose."""


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
    """A check file, what it uses of the conftest.py beside it, and all first-party files that these import. `file` is relative
    to the root of the program, or the path of a file outside it. FileNotFoundError if it is not there.

    The used part of a conftest.py has the name ``PATH#NAME OF THE CHECK FILE``.
    """
    found: dict[str, str] = {}
    conftest = str(Path(file).with_name("conftest.py"))
    tree = ast.parse((repo_root() / file).read_bytes())
    asked = _names(tree)
    waiting = [file, *(GATHERED[name] for name in sorted(asked & set(GATHERED)))]
    if (repo_root() / conftest).is_file():
        text = (repo_root() / conftest).read_text(encoding="utf-8")
        used = used_part(text, asked)
        found[f"{conftest}#{Path(file).stem}"] = hashlib.sha256(used.encode()).hexdigest()
        more = _names(ast.parse(used)) & set(GATHERED)
        waiting += [*_needs(conftest, used.encode()), *(GATHERED[name] for name in sorted(more))]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name], needs = _file(name)
            waiting += needs
    return Part(digest_of(found), found)


def used_part(text: str, asked: Collection[str]) -> str:
    """The statements of a module that some names rest on: those that bind them, and what these use in turn.

    Hooks of pytest (``pytest_*``), fixtures with ``autouse`` but for STARTERS, statements that bind no name and imports whose name
    nothing uses are always among them: they have an effect without being asked for.
    """
    lines, statements = text.splitlines(keepends=True), _statements(text)
    wanted = set(asked)
    kept: set[int] = set()
    while more := [
        (n, one)
        for n, one in enumerate(statements)
        if n not in kept and (one.by_itself or not wanted.isdisjoint(one.binds))
    ]:
        kept |= {n for n, _ in more}
        wanted = wanted.union(*(one.uses for _, one in more))
    return "".join(_source(one.node, lines, wanted) for n, one in enumerate(statements) if n in kept)


@dataclass(frozen=True)
class _Statement:
    """A statement of a module, the names that it binds and uses, and whether it has an effect without being asked for."""

    node: ast.stmt
    binds: frozenset[str]
    uses: Collection[str]
    by_itself: bool


@functools.lru_cache(maxsize=2)
def _statements(text: str) -> Sequence[_Statement]:
    """The statements of a module: a conftest.py is asked about for each check file beside it."""
    body = [(node, _bound(node), _names(node)) for node in ast.parse(text).body]
    anywhere = set[str]().union(*(uses for node, _, uses in body if not isinstance(node, ast.Import | ast.ImportFrom)))
    return [_Statement(node, binds, uses, not binds or _by_itself(node, binds, anywhere)) for node, binds, uses in body]


def _by_itself(node: ast.stmt, bound: Collection[str], anywhere: Collection[str]) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return not set(bound) & set(anywhere)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        used = any("autouse" in ast.dump(one) for one in node.decorator_list) and node.name not in STARTERS
        return used or node.name.startswith("pytest_")
    return False


def _bound(node: ast.stmt) -> frozenset[str]:
    """The names that a statement of a module binds; none for one whose effect is not to bind a name."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return frozenset([node.name])
    if isinstance(node, ast.Import | ast.ImportFrom):
        return frozenset((one.asname or one.name.partition(".")[0]) for one in node.names)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if all(isinstance(one, ast.Name) for one in targets):
            return frozenset(one.id for one in targets if isinstance(one, ast.Name))
    return frozenset()


def _names(tree: ast.AST) -> set[str]:
    """Names that some source mentions: as a name, an argument (a fixture), an attribute, an import, or a short text.

    The texts of a table of a module (an assignment without a call) name nothing: they order or describe.
    """
    found: set[str] = set()
    table = isinstance(tree, ast.Assign | ast.AnnAssign) and not any(
        isinstance(one, ast.Call) for one in ast.walk(tree)
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not table:
            found.update(_WORD.findall(node.value) if len(node.value) < ANNOTATION else ())
    return found


def _source(node: ast.stmt, lines: Sequence[str], wanted: Collection[str]) -> str:
    """The source of a statement; of an import of several names, those that are wanted."""
    if isinstance(node, ast.ImportFrom) and len(node.names) > 1:
        names = [one for one in node.names if (one.asname or one.name) in wanted] or node.names
        return ast.unparse(ast.ImportFrom(node.module, names, node.level)) + "\n"
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(one.lineno for one in decorators)])
    return "".join(lines[first - 1 : node.end_lineno])


@functools.cache
def checks_of_items(manager: str = "") -> Mapping[str, tuple[str, ...]]:
    """The items of the register that a shipped check file claims, read from its source, each with the selectors that its checks
    are limited to; none: all subjects of the item. manager: only checks that run with this workload manager; '' for all.
    """
    found: dict[str, list[tuple[str, ...]]] = {}
    for item, of, only in _claims():
        if not manager or of in ("", manager):
            found.setdefault(item, []).append(only)
    return {item: () if () in only else tuple(dict.fromkeys(chain(*only))) for item, only in found.items()}


@functools.cache
def _claims() -> Sequence[tuple[str, str, tuple[str, ...]]]:
    """Item, workload manager and selectors of each shipped check, as its decorator has them: written out, as a literal."""
    found = []
    for name in check_files():
        for node in ast.parse((repo_root() / name).read_text(encoding="utf-8")).body:
            for call in getattr(node, "decorator_list", ()):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "check":
                    told = {one.arg: one.value for one in call.keywords if one.arg in ("only", "manager")}
                    said = {key: ast.literal_eval(value) for key, value in told.items()}
                    found.append((ast.literal_eval(call.args[0]), said.get("manager", ""), said.get("only", ())))
    return found


def checked_items() -> frozenset[str]:
    """The items of the register that a shipped check file claims."""
    return frozenset(checks_of_items())


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


def imports(text: str) -> Iterable[tuple[int, str, Sequence[str]]]:
    """(dots, module, names) of each import of a source, wherever it stands. Those of `import a, b` have neither dots nor module.

    They are read line by line, in a tenth of the time of a parser; what looks like an import in a text counts too. A source with an
    import that cannot be read so is parsed.
    """
    found = _IMPORT.findall(text)
    if _ODD_IMPORT.search(text) or len(found) != len(_BEGINS_AS_IMPORT.findall(text)):
        return _parsed_imports(text)
    read = [(len(dots), of, _imported(names or plain)) for dots, of, names, plain in found]
    return _parsed_imports(text) if any("" in names for _, _, names in read) else read


def _imported(names: str) -> list[str]:
    """The names of an import without those that they get; '' for one that is written in another way than `a.b` or `a.b as c`."""
    told = filter(None, (one.split() for one in names.strip(" \t()").split(",")))
    return [words[0] if len(words) == 1 or words[1] == "as" else "" for words in told]


def _parsed_imports(text: str) -> Iterator[tuple[int, str, Sequence[str]]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield 0, "", [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or "", [one.name for one in node.names]


def _needs(name: str, data: bytes) -> Iterator[str]:
    folder = Path(name).parent
    text, root = data.decode(errors="replace"), repo_root()
    for level, of, names in imports(text):
        base = ".".join((*folder.parts[: len(folder.parts) + 1 - level], of)).rstrip(".") if level else of
        if base:
            yield from _modules(base)
        for one in names:
            yield from _modules(f"{base}.{one}" if base else one)
    beside = [f"{folder}/{match}" for match in _DATA.findall(text)]
    for inside, match in _ELSEWHERE.findall(text):
        beside += [f"{base}/{inside}/{match}" for base in (folder, folder.parent)]
    for match in _FOLDER.findall(text):
        found = sorted((root / folder / match).glob("*.*"))
        beside += [str(path.relative_to(root)) for path in found if path.is_relative_to(root)]
    beside = [one.removeprefix("./") for one in beside]
    yield from (one for one in beside if one not in {name, *APART} and os.path.isfile(os.path.join(root, one)))


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
