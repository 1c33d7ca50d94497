"""Reference cases and known errors: the numbers that the product must reproduce, and the usual statements that it refuses.

In: reference_cases.yaml and known_errors.yaml beside this module. Out: `reference_cases()` and `known_errors()`, by id. Code, data
and documents cite these ids (RC-085a, ERR-05) instead of explaining them again. What is executed stands in
tests/data/reference_cases.yaml. `python -m inventory.references_page` writes docs/reference-cases.md and docs/known-errors.md.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from inventory.yaml_data import read_data

Verdict = Literal["reproduce", "derived", "flag", "range"]

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

CASES_FILE = Path(__file__).with_name("reference_cases.yaml")
ERRORS_FILE = Path(__file__).with_name("known_errors.yaml")


@dataclass(frozen=True)
class Row:
    """One line of arithmetic that a reader can repeat.

    ``what``        what is computed
    ``expression``  Python arithmetic with numbers only; sqrt, ceil and floor may be called
    ``result``      its value, rounded to the digits that are written
    ``unit``        of the result; "" for counts and ratios
    ``case``        the executable case whose expected numbers hold the result; "" where none does
    """

    what: str
    expression: str
    result: float
    unit: str = ""
    case: str = ""


@dataclass(frozen=True)
class ReferenceCase:
    """A number, or a decision, that the product must reproduce.

    ``statement``  what is stated
    ``inputs``     from which figures
    ``formula``    how the result follows from them
    ``result``     the result in words, where it is no number of `arithmetic`
    ``source``     the published document, or that there is none
    ``verdict``    reproduce: the source's own number; derived: it follows from it; flag: a finding must be raised;
                   range: both ends are carried
    ``related``    known errors and other cases that it belongs to
    ``held_by``    files that hold it, where no executable case does
    """

    id: str
    title: str
    statement: str
    inputs: str
    formula: str
    source: str
    verdict: Verdict
    arithmetic: tuple[Row, ...] = ()
    result: str = ""
    related: tuple[str, ...] = ()
    held_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class KnownError:
    """A statement that is often met and is wrong or incomplete.

    ``said``     the statement
    ``why``      why it is wrong
    ``instead``  what Bringup does
    ``source``   the published document, or that there is none
    ``related``  reference cases and other errors that it belongs to
    """

    id: str
    title: str
    said: str
    why: str
    instead: str
    source: str
    arithmetic: tuple[Row, ...] = ()
    related: tuple[str, ...] = ()


@cache
def reference_cases() -> Mapping[str, ReferenceCase]:
    """All reference cases by id, in the order of the file. ValueError names the entry that is not complete."""
    return MappingProxyType({id_: ReferenceCase(id_, **given) for id_, given in _read(CASES_FILE, ReferenceCase)})


@cache
def known_errors() -> Mapping[str, KnownError]:
    """All known errors by id, in the order of the file. ValueError names the entry that is not complete."""
    return MappingProxyType({id_: KnownError(id_, **given) for id_, given in _read(ERRORS_FILE, KnownError)})


def link(id_: str) -> str:
    """A reference case or known error as a link between pages of docs/; any other id as it is."""
    for page, ids in (("reference-cases.md", reference_cases()), ("known-errors.md", known_errors())):
        if id_ in ids:
            return f"[{id_}]({page}#{anchor(id_)})"
    return id_


def anchor(id_: str) -> str:
    """The anchor of an entry on its page, as Markdown renderers make it of the heading."""
    return id_.lower()


def _read(path: Path, kind: type[ReferenceCase] | type[KnownError]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The fields of each entry: texts, tuples of ids and paths, rows of arithmetic."""
    known = {one.name: one.default for one in fields(kind) if one.name != "id"}
    lists = {name for name, default in known.items() if default == ()}
    raw = read_data(path)
    for id_, value in raw.items():
        missing = [name for name, default in known.items() if default is MISSING and not value.get(name)]
        if missing or set(value) - set(known):
            raise ValueError(
                f"{path.name}: {id_} needs {', '.join(sorted(set(known) - lists - {'result'}))}, and no other keys"
            )
        if value.get("verdict", "derived") not in VERDICTS:
            raise ValueError(f"{path.name}: {id_}: verdict is one of {', '.join(VERDICTS)}")
        made = {name: tuple(part) if name in lists else part for name, part in value.items()}
        made["arithmetic"] = tuple(Row(**row) for row in value.get("arithmetic", ()))
        yield id_, made
