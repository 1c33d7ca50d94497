"""What a check rests on: all that it imports and reads, and nothing that only other checks use."""

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.paths import repo_root
from validation import program
from validation.checks import conftest
from validation.program import check_files, part_of, used_part

CHECKS = "validation/checks"
IMPORTED = """
import importlib.util, json, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("asked", sys.argv[1])
spec.loader.exec_module(importlib.util.module_from_spec(spec))
root = Path.cwd()
files = (getattr(one, "__file__", None) for one in list(sys.modules.values()))
print(json.dumps(sorted(str(Path(f).relative_to(root)) for f in files if f and Path(f).is_relative_to(root) and ".venv" not in f)))
"""


@pytest.mark.parametrize("file", ["test_design.py", "test_gpus.py", "test_nodes.py"])
def test_a_part_has_every_file_that_importing_the_check_runs(file: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, f"{CHECKS}/{file}"],
        cwd=repo_root(),
        capture_output=True,
        text=True,
        check=True,
    )
    ran = set(json.loads(done.stdout))
    assert ran
    assert ran <= set(part_of(f"{CHECKS}/{file}").files)


@pytest.mark.parametrize("file", check_files())
def test_a_part_has_every_fixture_that_the_check_asks_for(file: str) -> None:
    """By what pytest would resolve: arguments of the checks, and of the fixtures that these ask for."""
    text = Path(conftest.__file__).read_text()
    source = (repo_root() / file).read_text()
    tree = ast.parse(source)
    asked = {arg.arg for node in tree.body if isinstance(node, ast.FunctionDef) for arg in node.args.args}
    fixtures = {
        name: one for name in dir(conftest) if hasattr(one := getattr(conftest, name), "_fixture_function_marker")
    }
    assert fixtures
    waiting, needed = [name for name in asked if name in fixtures], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            function = inspect.unwrap(fixtures[name]._fixture_function)
            waiting += [one for one in inspect.signature(function).parameters if one in fixtures]
    kept = {
        node.name for node in ast.parse(used_part(text, program._names(tree))).body if isinstance(node, ast.FunctionDef)
    }
    assert needed <= kept


def test_a_check_of_the_plan_rests_on_no_driver_and_one_of_facts_on_no_job() -> None:
    design = set(part_of(f"{CHECKS}/test_purchase.py").files)
    assert not [
        name
        for name in design
        if name.startswith(("network/drivers/pdu", "validation/facts/gather", "validation/runners"))
    ]
    fabric = set(part_of(f"{CHECKS}/test_fabric.py").files)
    assert not [name for name in fabric if name.startswith("validation/runners")]
    assert "validation/runners/slurm.py" in part_of(f"{CHECKS}/test_scheduler.py").files


def test_what_is_read_as_text_is_part_of_a_check() -> None:
    """Programs for devices, and folders of data files."""
    files = set(part_of(f"{CHECKS}/test_fabric.py").files)
    assert {
        "validation/facts/node_facts.py",
        "validation/facts/gpu_facts.py",
        "network/nos/frr/on_device.sh",
        "network/drivers/pdu_dialects/apc-rpdu2.yaml",
        "validation/evidence/markers.yaml",
    } <= files
    assert "validation/workloads/burnin.py" in part_of(f"{CHECKS}/test_burn_in.py").files
    assert "validation/steps.yaml" not in files


@given(st.integers(2, 8), st.data())
def test_a_changed_statement_changes_the_part_that_uses_it_and_no_other(count: int, data: st.DataObject) -> None:
    """A module of functions that use each other at random: reachable ones count, others do not."""
    uses = {n: data.draw(st.sets(st.integers(0, count - 1), max_size=2)) for n in range(count)}
    asked = data.draw(st.sets(st.integers(0, count - 1), max_size=2))

    def module(changed: int | None = None) -> str:
        return "".join(
            f"def f{n}():\n    return {[f'f{m}' for m in sorted(uses[n])]!s}, {7 if n == changed else 0}\n\n".replace(
                "'", ""
            )
            for n in range(count)
        )

    reachable, waiting = set[int](), list(asked)
    while waiting:
        if (n := waiting.pop()) not in reachable:
            reachable.add(n)
            waiting += uses[n]
    names = {f"f{n}" for n in asked}
    for n in range(count):
        assert (used_part(module(n), names) != used_part(module(), names)) == (n in reachable)


@pytest.mark.parametrize(
    ("extra", "kept"),
    [
        ("import side_effect\n", True),
        ("from a import b\ndef g():\n    return b\n", False),
        ("print(1)\n", True),
        ("def pytest_configure():\n    pass\n", True),
        ("@pytest.fixture(autouse=True)\ndef always():\n    pass\n", True),
        ("if True:\n    x = 1\n", True),
        ("TABLE = ('f', 'g')\n", False),
    ],
)
def test_what_has_an_effect_unasked_is_always_part(extra: str, kept: bool) -> None:
    text = "def f():\n    pass\n"
    assert (used_part(text + extra, {"f"}) != used_part(text, {"f"})) == kept


def test_each_autouse_fixture_of_the_checks_is_followed_or_known_to_start_others_only() -> None:
    tree = ast.parse(Path(conftest.__file__).read_text())
    autouse = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any("autouse" in ast.dump(one) for one in node.decorator_list)
    }
    assert autouse == program.STARTERS


def test_imports_of_the_program_are_read_as_a_parser_reads_them() -> None:
    def ours(imports: Iterable[tuple[int, str, Sequence[str]]]) -> set[tuple[int, str, str]]:
        told = ((level, of, name) for level, of, names in imports for name in names)
        return {one for one in told if one[0] or (one[1] or one[2]).partition(".")[0] in program.PACKAGES}

    files = [path for package in program.PACKAGES for path in (repo_root() / package).rglob("*.py")]
    assert len(files) > 500
    texts = {path: path.read_text() for path in files if "import" in path.read_text()}
    assert {
        path for path, text in texts.items() if ours(program.imports(text)) != ours(program._parsed_imports(text))
    } == set()


@pytest.mark.parametrize(
    "text",
    [
        "import os\nimport infra.a, infra.b as c\n",
        "from infra import (\n    a,\n    b as c,\n)\nfrom .. import d\nfrom .e import f as g, h  # why\n",
        "def f():\n    from infra import a\n    if a: import infra.b\n",
        "x = 1; from infra import a\nimport infra.b; import infra.c\n",
        "from infra import a, \\\n    b\nif a: \\\n    import infra.c\n",
        "from infra import (  # a (b)\n    a,  # c)\n    b,\n)\n",
        "from infra import (a,\n  # )\n  b)\n",
        "try: import infra.a\nexcept ImportError: from infra import b\n",
        "from\tinfra\timport\ta\nimport\tinfra.b\n",
        "from infra import(a)\nfrom . import(b)\n",
        "from.a import b\nfrom infra import*\n",
        "from . a import b\nfrom infra . c import d\nimport infra . e\n",
    ],
)
def test_an_import_is_found_wherever_it_stands(text: str) -> None:
    told = [(level, of, tuple(names)) for level, of, names in program.imports(text)]
    assert sorted(told) == sorted((level, of, tuple(names)) for level, of, names in program._parsed_imports(text))
