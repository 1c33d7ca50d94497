"""Shipped site files: short, made of reference designs, and the same sites as when every key is written out."""

from collections.abc import Iterator
from typing import Any

import pytest

from inventory.catalog import load_catalog
from inventory.paths import site_dir
from inventory.site import load_site, parse_site, site_names
from inventory.site.effective import complete
from inventory.site.explain import explain
from inventory.site.references import NAMED_LISTS, entry_name, leaves
from tests.full_sites import full_text

MOST_LINES = 120
WIDEST = 132
ROOM_OF_BLOCKS = ("electrical", "ups_blocks", "most_modules")
MORE = {
    "h100-1000-ib": {ROOM_OF_BLOCKS},
    "b200-256-roce": {ROOM_OF_BLOCKS},
    "gb300-nvl72-liquid": {ROOM_OF_BLOCKS, ("purchase", "prices", "dimm")},
}
"""What the designs give a site besides: the price of a part that none of its servers has, and room for more modules in a UPS
block than the site states."""
IN_FULL = ("h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid", "lab")


def values(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Leaves with their keys; texts that say where a number comes from excepted."""
    if isinstance(node, dict) and node:
        for key, inner in node.items():
            yield from values(inner, (*path, key))
    elif isinstance(node, tuple | list) and node:
        for n, inner in enumerate(node):
            name = entry_name(path, inner) if path in NAMED_LISTS else n
            yield from values(inner, (*path, name))
    elif not path or path[-1] not in ("source", "ampacity_source"):
        yield path, node


@pytest.mark.parametrize("name", site_names())
def test_a_shipped_file_has_at_most_120_lines_that_a_screen_shows(name: str) -> None:
    lines = (site_dir(name) / "site.yaml").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MOST_LINES
    assert [n for n, line in enumerate(lines, start=1) if len(line) > WIDEST] == []


@pytest.mark.parametrize("name", IN_FULL)
def test_designs_give_the_values_that_the_site_has_when_all_are_written_out(name: str) -> None:
    short, full = (
        dict(values(site.model_dump(by_alias=True, exclude={"based_on", "confirmed"})))
        for site in (load_site(name), parse_site(full_text(name)))
    )
    differ = {path: (full.get(path), short.get(path)) for path in full | short if full.get(path) != short.get(path)}
    assert {path[:3] for path in differ} == MORE.get(name, set())


@pytest.mark.parametrize("name", site_names())
def test_a_shipped_site_states_its_sizes(name: str) -> None:
    effective = load_site(name).effective
    assert set(effective.open) <= {"room.rpps_per_row"}
    assert not effective.ladders


@pytest.mark.parametrize("name", site_names())
def test_a_shipped_site_repeats_no_value_of_its_designs(name: str) -> None:
    given = load_site(name).given
    designs = complete({"based_on": given["based_on"]}, load_catalog())
    theirs = {path: value for path, value in leaves(designs.value) if (path not in designs.sized())}
    alike = {path for path, value in leaves(given) if path in theirs and theirs[path] == value}
    named = {path for path in alike if path[:-2] in NAMED_LISTS and path[-1] in NAMED_LISTS[path[:-2]]}
    assert {path for path in alike - named if path[-1] != "source"} == {("based_on",)}


@pytest.mark.parametrize(
    ("key", "kind", "design"),
    [
        ("room.rows", "given", ""),
        ("electrical.utility.firm_mva", "given", ""),
        ("cooling.plant.chiller_kw", "reference", "air-fan-wall-towers"),
        ("cooling.air.rise_k", "reference", "air-fan-wall"),
        ("fabric.switch_model", "reference", "dgx-superpod-h100"),
        ("server.power.nameplate_w", "catalogue", ""),
    ],
)
def test_explain_tells_whose_value_it_is(key: str, kind: str, design: str) -> None:
    (origin,) = explain(load_site("h100-1000-ib"), key).origins.values()
    assert (origin.kind, origin.design) == (kind, design)
