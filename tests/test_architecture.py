"""docs/architecture.md tells where a change belongs; what it names exists."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
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


def modules() -> Iterator[tuple[str, ast.Module]]:
    for layer in LAYERS:
        for path in sorted((repo_root() / layer).rglob("*.py")):
            yield str(path.relative_to(repo_root())), ast.parse(path.read_text(encoding="utf-8"))


def own(node: ast.AST) -> bool:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    return any(Path(name.replace(".", "/")).parts[:1] in [(layer,) for layer in LAYERS] for name in names)


def test_no_function_imports_our_own_code_but_in_what_is_started() -> None:
    found = {
        path
        for path, tree in modules()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if own(node) and not path.startswith(STARTED)
    }
    assert not found


def test_type_checking_hides_no_import_of_our_own_but_in_what_is_started() -> None:
    found = {
        path
        for path, tree in modules()
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
        if own(node) and not path.startswith(STARTED)
    }
    assert not found


@pytest.mark.parametrize("path", sorted((repo_root() / "bench").glob("*.py")), ids=lambda path: path.stem)
def test_a_bench_loads_nothing_of_the_tests(path: Path) -> None:
    """It measures programs as they run, and starts without anything of the tests."""
    code = f"import sys, bench.{path.stem}; sys.exit('pytest' in sys.modules or 'tests' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repo_root(), check=False, timeout=120, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0
