"""What rules of the site file are made of; the rules stand in inventory/site/sections/, beside the sections they judge.

A rule spans several keys, or a key and the hardware catalogue. Each reads the sections that it names and runs when these
are valid by themselves, so that one bad section does not hide the faults of the others. What a plan computes (loads,
counts, distances) is not judged by rules: that gives findings, not site errors.
"""

from collections.abc import Callable, Iterator

from inventory.catalog import Catalog
from inventory.site.messages import nearest
from inventory.site.yaml_source import Path, Problem

SAME_VOLTAGE = 0.05
"""Share by which two names of one voltage may differ (400 and 415 V)."""
Rule = Callable[..., Iterator[Problem]]
RULES: list[tuple[tuple[str, ...], Rule]] = []


def rule(*sections: str) -> Callable[[Rule], Rule]:
    """Register a rule with the sections that it needs; they are passed in that order, after the catalogue."""

    def register(function: Rule) -> Rule:
        RULES.append((sections, function))
        return function

    return register


def unknown_slug(path: Path, slug: str, known: list[str], what: str, folder: str) -> Problem:
    near = nearest(slug, known)
    do = f"write {near}, or add {folder}/{slug}.yaml" if near else f"choose one of these, or add {folder}/{slug}.yaml"
    return Problem(path, f"an unknown {what}", slug, f"one of {', '.join(sorted(known))}", do, nearest=near)


def device_of_kind(catalog: Catalog, path: Path, slug: str, kind: str) -> Iterator[Problem]:
    known = [d.slug for d in catalog.devices.values() if d.kind == kind]
    if slug not in catalog.devices:
        yield unknown_slug(path, slug, known, f"{kind} model", "inventory/catalog/data/device-types")
    elif catalog.devices[slug].kind != kind:
        found = f"{slug}, a {catalog.devices[slug].kind}"
        yield Problem(path, f"not a {kind}", found, f"one of {', '.join(sorted(known))}", f"name a {kind}")
