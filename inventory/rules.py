"""Rules of the site file that span several keys, or a key and the hardware catalogue.

Each rule reads the sections that it names and runs when these are valid by themselves, so that one bad section does
not hide the faults of the others. What a plan computes (loads, counts, distances) is not judged here: that gives
findings, not site errors.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from inventory.catalog import Catalog, load_catalog
from inventory.messages import nearest
from inventory.schema import SiteModel
from inventory.yamlsource import Problem

Rule = Callable[..., Iterator[Problem]]
_RULES: list[tuple[tuple[str, ...], Rule]] = []


def rule(*sections: str) -> Callable[[Rule], Rule]:
    """Register a rule with the sections that it needs; they are passed in that order, after the catalogue."""

    def register(function: Rule) -> Rule:
        _RULES.append((sections, function))
        return function

    return register


def check(raw: Mapping[str, Any], catalog: Catalog | None = None) -> list[Problem]:
    """The problems that the rules see in a parsed site file."""
    valid = _valid_sections(raw)
    known = catalog or load_catalog()
    return [
        problem
        for sections, function in _RULES
        if all(name in valid for name in sections)
        for problem in function(known, *(valid[name] for name in sections))
    ]


def _valid_sections(raw: Mapping[str, Any]) -> dict[str, Any]:
    valid: dict[str, Any] = {}
    for name, field in SiteModel.model_fields.items():
        key = field.alias or name
        if key not in raw:
            if not field.is_required():
                valid[key] = field.default
            continue
        try:
            valid[key] = _adapter(name).validate_python(raw[key], strict=True)
        except ValidationError:
            continue  # reported by the whole model's validation
    return valid


_ADAPTERS: dict[str, TypeAdapter[Any]] = {}


def _adapter(name: str) -> TypeAdapter[Any]:
    if name not in _ADAPTERS:
        _ADAPTERS[name] = TypeAdapter(SiteModel.model_fields[name].rebuild_annotation())
    return _ADAPTERS[name]
