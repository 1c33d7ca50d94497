"""docs/architecture.md tells where a change belongs; what it names exists."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from inventory.paths import repo_root

PAGE = (repo_root() / "docs" / "architecture.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^\| (\d+) \| (.+?) \| `([^`]+)` \|$", PAGE, flags=re.MULTILINE)


def test_the_page_has_twenty_examples() -> None:
    assert [int(number) for number, _, _ in EXAMPLES] == list(range(1, 21))


@pytest.mark.parametrize(("change", "place"), [(change, place) for _, change, place in EXAMPLES])
def test_the_place_of_a_change_exists(change: str, place: str) -> None:
    assert (repo_root() / place).exists(), f"{change}: {place} does not exist"


def test_every_folder_and_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`((?:inventory|network|capacity|validation|infra|playbooks|tests)/[\w./-]*)`", PAGE))
    named |= set(re.findall(r"^    ((?:[a-z]+/)+)  ", PAGE, flags=re.MULTILINE))
    assert len(named) > 20
    assert sorted(path for path in named if not (repo_root() / path).exists()) == []


LAYERS = ("inventory", "network", "capacity", "validation", "infra")
STARTED = ("infra/cli", "infra/__main__.py", "infra/provider/__main__.py")
"""What a person or Pulumi starts imports what it needs when it runs, so that `bringup --help` and `pulumi up` start fast."""


INDENTED = re.compile(r"^(?:[ \t]|.*[:;]).*\bimport\b", flags=re.MULTILINE)
"""An import that does not start at the left margin. Only such an import can be inside a function or a block."""


@functools.cache
def blocks_with_own_imports() -> dict[str, set[type[ast.AST]]]:
    """Modules that import our own code inside a block, with the kinds of block: a function, or `if TYPE_CHECKING`.

    Modules in STARTED are left out: they import late to start fast. No circle hides behind such imports: import-linter reads them
    like all others (contract acyclic_siblings).
    """
    found: dict[str, set[type[ast.AST]]] = {}
    for layer in LAYERS:
        for path in sorted((repo_root() / layer).rglob("*.py")):
            name, text = str(path.relative_to(repo_root())), path.read_text(encoding="utf-8")
            if not name.startswith(STARTED) and INDENTED.search(text):
                found[name] = {
                    type(block)
                    for block in ast.walk(ast.parse(text))
                    if isinstance(block, ast.FunctionDef | ast.AsyncFunctionDef)
                    or (isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test))
                    if any(map(own, ast.walk(block)))
                }
    return found


def own(node: ast.AST) -> bool:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    return any(Path(name.replace(".", "/")).parts[:1] in [(layer,) for layer in LAYERS] for name in names)


def test_no_function_imports_our_own_code_but_in_what_is_started() -> None:
    functions = {ast.FunctionDef, ast.AsyncFunctionDef}
    assert not {name for name, kinds in blocks_with_own_imports().items() if kinds & functions}


def test_type_checking_hides_no_import_of_our_own_but_in_what_is_started() -> None:
    assert not {name for name, kinds in blocks_with_own_imports().items() if ast.If in kinds}


LOADED = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    if {"pytest", "tests"} & sys.modules.keys():
        sys.exit(f"{name} loads what only tests need")
"""


def test_a_bench_loads_nothing_of_the_tests() -> None:
    """It measures programs as they run, and starts without anything of the tests."""
    names = [f"bench.{path.stem}" for path in sorted((repo_root() / "bench").glob("*.py"))]
    assert names
    command = [sys.executable, "-c", LOADED, *names]
    done = subprocess.run(
        command, cwd=repo_root(), check=False, timeout=120, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == 0, done.stderr
