"""Reference cases and known errors: complete, cited, computed, and the source of their pages."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from inventory import references
from inventory.paths import repo_root
from inventory.references import CASES_FILE, ERRORS_FILE, KnownError, ReferenceCase, Row, known_errors, reference_cases
from inventory.references_page import cases_markdown, errors_markdown, executed, executed_of
from tests.arithmetic import value_of

FOLDERS = ("inventory", "network", "capacity", "validation", "infra", "playbooks", "bench", "docs", "tests")
SUFFIXES = {".py", ".yaml", ".yml", ".md", ".j2", ".txt", ".toml", ".json", ".sh", ".csv", ".html", ""}
OWN = {
    *(
        "inventory/reference_cases.yaml",
        "inventory/known_errors.yaml",
        "docs/reference-cases.md",
        "docs/known-errors.md",
    ),
    "tests/inventory/test_references.py",
}
"""The entries themselves, and what is made of them."""

ID = re.compile(r"\b(?:RC-[A-Z0-9]+[a-z]?|ERR-\d+)\b")
OUTSIDE = re.compile(
    r"requirements\.md|requirements,? section|of the requirements|\bsection 8\b|seed documents?\b|training-cluster plan|cookbook",
    re.IGNORECASE,
)
"""How documents that are not in the repository were cited."""

ENTRIES: dict[str, ReferenceCase | KnownError] = {**reference_cases(), **known_errors()}
ROWS = [(id_, row) for id_, entry in ENTRIES.items() for row in entry.arithmetic]


@cache
def texts() -> dict[str, str]:
    """The text files of the repository by path, but for what is generated into var/ and caches."""
    paths = [path for folder in FOLDERS for path in (repo_root() / folder).rglob("*") if path.suffix in SUFFIXES]
    paths += [path for path in repo_root().glob("*") if path.suffix in SUFFIXES and path.name != "uv.lock"]
    found = {}
    for path in sorted(paths):
        name = str(path.relative_to(repo_root()))
        if path.is_file() and "__pycache__" not in path.parts and name not in OWN:
            found[name] = path.read_text(encoding="utf-8", errors="replace")
    return found


@cache
def cited() -> dict[str, list[str]]:
    """Files that cite each id."""
    found: dict[str, list[str]] = {}
    for name, text in texts().items():
        for id_ in sorted(set(ID.findall(text))):
            found.setdefault(id_, []).append(name)
    return found


def test_every_cited_id_has_an_entry() -> None:
    assert len(texts()) > 500
    assert {id_: names for id_, names in cited().items() if id_ not in ENTRIES} == {}


def test_every_entry_is_cited() -> None:
    assert sorted(set(ENTRIES) - set(cited())) == []


def test_nothing_cites_a_document_outside_the_repository() -> None:
    own = {name: (repo_root() / name).read_text(encoding="utf-8") for name in OWN if not name.endswith(".py")}
    assert {name: found for name, text in {**texts(), **own}.items() if (found := OUTSIDE.findall(text))} == {}


def test_the_pages_are_those_of_the_entries() -> None:
    docs = repo_root() / "docs"
    pages = {"reference-cases.md": cases_markdown(), "known-errors.md": errors_markdown()}
    different = [name for name, text in pages.items() if (docs / name).read_text(encoding="utf-8") != text]
    assert different == [], "run: python -m inventory.references_page"


@pytest.mark.parametrize("path", [CASES_FILE, ERRORS_FILE], ids=lambda path: path.name)
def test_no_entry_stands_twice(path: Path) -> None:
    ids = re.findall(r"^((?:RC|ERR)-\w+):", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert ids
    assert len(ids) == len(set(ids))
    assert set(ids) <= set(ENTRIES)


@pytest.mark.parametrize("name", ["reference-cases.md", "known-errors.md", "findings.md"])
def test_links_lead_to_an_entry(name: str) -> None:
    docs = repo_root() / "docs"
    links = re.findall(r"\]\(([\w-]+\.md)#([\w-]+)\)", (docs / name).read_text(encoding="utf-8"))
    assert links
    headings = {
        page: {
            text.lower() for text in re.findall(r"^#+ (\S+)$", (docs / page).read_text(encoding="utf-8"), re.MULTILINE)
        }
        for page in {page for page, _ in links}
    }
    assert [(page, anchor) for page, anchor in links if anchor not in headings[page]] == []


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_related_ids_and_files_exist(entry: ReferenceCase | KnownError) -> None:
    assert [id_ for id_ in entry.related if id_ not in ENTRIES or id_ == entry.id] == []
    held_by = entry.held_by if isinstance(entry, ReferenceCase) else ()
    assert [path for path in held_by if entry.id not in (repo_root() / path).read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("entry", reference_cases().values(), ids=reference_cases())
def test_a_reference_case_is_computed_somewhere(entry: ReferenceCase) -> None:
    """By its own arithmetic or by an executable case; one without an executable case names what holds it."""
    assert entry.arithmetic or executed_of(entry.id)
    assert executed_of(entry.id) or entry.held_by
    assert entry.arithmetic or entry.result


def test_a_verdict_is_that_of_an_executable_case_of_its_id() -> None:
    modes: dict[str, set[str]] = {}
    for case in executed():
        modes.setdefault(case["id"].split()[0], set()).add(case["mode"])
    verdicts = {id_: entry.verdict for id_, entry in reference_cases().items()}
    assert {id_: one for id_, one in verdicts.items() if id_ in modes and one not in modes[id_]} == {}


def test_executable_cases_of_an_id_have_its_entry() -> None:
    named = {id_ for case in executed() for id_ in ID.findall(f"{case['id']} {case['source']} {case['expected']}")}
    assert sorted(named - set(ENTRIES)) == []


def half_a_digit(number: float) -> float:
    """Half of the last digit that is written: 0.005 of 17.29, 0.5 of 484."""
    text = repr(number)
    return 0.5 * 10.0 ** -(len(text.split(".")[1]) if "." in text else 0)


@pytest.mark.parametrize(("id_", "row"), ROWS, ids=[f"{id_} {row.what}" for id_, row in ROWS])
def test_an_expression_gives_the_result_that_stands_beside_it(id_: str, row: Row) -> None:
    value = value_of(row.expression)
    assert value == pytest.approx(row.result, rel=0, abs=half_a_digit(row.result) * (1 + 1e-9))


def numbers(value: Any) -> Iterator[float]:
    """All numbers in expected values."""
    if isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from numbers(part)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


EXECUTED_ROWS = [(id_, row) for id_, row in ROWS if row.case]


@pytest.mark.parametrize(("id_", "row"), EXECUTED_ROWS, ids=[f"{id_} {row.what}" for id_, row in EXECUTED_ROWS])
def test_a_result_is_that_of_its_executable_case(id_: str, row: Row) -> None:
    expected = {case["id"]: list(numbers(case["expected"])) for case in executed_of(id_)}
    assert row.result in expected[row.case]


def test_arithmetic_is_nothing_else() -> None:
    for text in ("__import__('os')", "open('x')", "'a' * 3", "a + 1", "sqrt(2).real"):
        with pytest.raises((KeyError, ValueError)):
            value_of(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ERR-01: {title: a, said: b, why: c, source: d}", "ERR-01 needs"),
        ("ERR-01: {title: a, said: b, why: c, instead: d, source: e, sources: f}", "ERR-01 needs"),
    ],
    ids=["a key is missing", "an unknown key"],
)
def test_an_entry_that_is_not_complete_is_named(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "known_errors.yaml"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setattr(references, "ERRORS_FILE", file)
    with pytest.raises(ValueError, match=told):
        references.known_errors.__wrapped__()
