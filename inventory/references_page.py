"""``python -m inventory.references_page``: write docs/reference-cases.md and docs/known-errors.md.

In: the entries of references.py, the findings that name them, and the executable cases of tests/data/reference_cases.yaml, whose
inputs and expected numbers stand in no second place. Out: two Markdown pages.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from inventory.findings_registry import registry
from inventory.paths import repo_root, write_file
from inventory.references import KnownError, ReferenceCase, Row, known_errors, link, reference_cases
from inventory.yaml_data import read_data

EXECUTED = "tests/data/reference_cases.yaml"
_NOTE = "<!-- Written by `python -m inventory.references_page` from inventory/{file}. Do not edit by hand. -->"

CASES_HEAD = f"""# Reference cases

{_NOTE.format(file="reference_cases.yaml")}

Numbers and decisions that the planner must reproduce. Code, data and findings cite them by id. `reproduce`: the source states the
number. `derived`: it follows from the source. `flag`: a finding or a refusal must name the fault. `range`: both ends are carried,
never their mean. An expression of the arithmetic is Python and can be pasted; `make test` evaluates each and compares it with the
result. Executable cases are those of `{EXECUTED}`: the planner computes the expected value from the inputs.

A planning figure without a published source is an assumption for early planning. Replace it by a quote, a data sheet or a
measurement.
"""

ERRORS_HEAD = f"""# Known errors

{_NOTE.format(file="known_errors.yaml")}

Statements that are often met in plans, quotes and guides for AI clusters and that are wrong or incomplete. Each entry says why, and
what Bringup does instead. Findings name the entry that they guard against. An expression of the arithmetic is Python and can be
pasted; `make test` evaluates each and compares it with the result.
"""


@cache
def executed() -> tuple[Mapping[str, Any], ...]:
    """The executable cases."""
    return tuple(read_data(repo_root() / EXECUTED))


def executed_of(id_: str) -> list[Mapping[str, Any]]:
    """The executable cases that name `id_` in their id or source."""
    return [one for one in executed() if re.search(rf"\b{id_}\b", f"{one['id']} {one['source']}")]


def cases_markdown() -> str:
    """The page of the reference cases as text."""
    return "\n".join([CASES_HEAD, *(_case(one) for one in reference_cases().values())])


def errors_markdown() -> str:
    """The page of the known errors as text."""
    return "\n".join([ERRORS_HEAD, *(_error(one) for one in known_errors().values())])


def _case(one: ReferenceCase) -> str:
    lines = [f"## {one.id}", "", f"**{one.title}** ({one.verdict})", "", one.statement, ""]
    lines += [f"Inputs: {one.inputs}", "", f"Formula: {one.formula}", "", *_arithmetic(one.arithmetic)]
    if one.result:
        lines += [f"Result: {one.result}", ""]
    lines += [f"Source: {one.source}", "", *_executed(one.id), *_relations(one.id, one.related)]
    if one.held_by:
        lines += ["Held by: " + ", ".join(f"`{path}`" for path in one.held_by), ""]
    return "\n".join(lines)


def _error(one: KnownError) -> str:
    lines = [
        f"## {one.id}",
        "",
        f"**{one.title}**",
        "",
        f"Often said: {one.said}",
        "",
        f"Why it is wrong: {one.why}",
        "",
    ]
    lines += [*_arithmetic(one.arithmetic), f"Bringup: {one.instead}", "", f"Source: {one.source}", ""]
    lines += [*_executed(one.id), *_relations(one.id, one.related)]
    return "\n".join(lines)


def _arithmetic(rows: Iterable[Row]) -> list[str]:
    lines = [
        f"| {row.what} | `{row.expression}` | {_number(row.result)}{f' {row.unit}' if row.unit else ''} |"
        for row in rows
    ]
    return ["| Arithmetic | Expression | Result |", "|---|---|---|", *lines, ""] if lines else []


def _executed(id_: str) -> list[str]:
    lines = [f"| {one['id']} | {_plain(one['inputs'])[1:-1]} | {_plain(one['expected'])} |" for one in executed_of(id_)]
    return ["| Executable case | Inputs | Expected |", "|---|---|---|", *lines, ""] if lines else []


def _relations(id_: str, related: Iterable[str]) -> list[str]:
    lines = [f"Related: {', '.join(map(link, related))}", ""] if related else []
    found = [entry.id for entry in registry().values() if id_ in entry.related]
    if found:
        lines += ["Findings: " + ", ".join(f"[{one}](findings.md#{one.lower()})" for one in found), ""]
    return lines


def _number(value: float) -> str:
    return f"{value:,}"


def _plain(value: Any) -> str:
    """Inputs or expected values in one cell of a table."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_plain(part)}" for key, part in value.items()) + "}" if value else "none"
    if isinstance(value, list):
        return "[" + ", ".join(_plain(part) for part in value) + "]" if value else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "") else f"`{value}`" if isinstance(value, str) else str(value)


if __name__ == "__main__":
    docs = repo_root() / "docs"
    for name, text in (("reference-cases.md", cases_markdown()), ("known-errors.md", errors_markdown())):
        print(f"wrote {write_file(docs / name, text)}")
