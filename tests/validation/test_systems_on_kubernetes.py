"""The table of systems in docs/kubernetes.md: what it names is there, and nothing is left open without a word."""

import re

import pytest

from inventory.paths import repo_root
from validation.program import checks_of_items

HEADING = "## Systems of the register"
SYSTEMS = {"SYS-28", "SYS-29", "SYS-30", "SYS-31", "SYS-34", "SYS-35", "SYS-50"}
ITEM = re.compile(r"\b(?:S\d{3}|P-\d{2})\.[a-z]+\b")


def rows() -> list[tuple[str, str, str, str]]:
    """System, clause, what holds it, what is missing."""
    page = (repo_root() / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    table = page.partition(HEADING)[2].partition("\n## ")[0]
    lines = [line.strip().strip("|").split("|") for line in table.splitlines() if line.startswith("| SYS-")]
    return [(system.strip(), clause.strip(), held.strip(), missing.strip()) for system, clause, held, missing in lines]


ROWS = rows()


def test_every_system_has_its_clauses() -> None:
    assert {system for system, *_ in ROWS} == SYSTEMS
    assert len({row[:2] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("system", "clause", "held", "missing"), ROWS, ids=[" ".join(row[:2]) for row in ROWS])
def test_each_clause_is_held_by_a_check_or_says_what_is_missing(
    system: str, clause: str, held: str, missing: str
) -> None:
    assert held or missing
    checks = checks_of_items("kubernetes")
    assert [item for item in ITEM.findall(held) if item not in checks] == []
    files = re.findall(r"`(\S+/\S+\.\w+)`", held)
    assert [name for name in files if not (repo_root() / name).is_file()] == []
    assert not held or ITEM.search(held) or files, "neither a check nor a test"
