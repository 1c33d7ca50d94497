"""Findings on the compute fabric, and what they offer: applied to the counts alone, which are what they are about."""

import pytest

from inventory.findings import Finding
from inventory.site import Site, load_site
from inventory.site.whatif import changed
from network.wiring.compute import compute_tree


@pytest.mark.parametrize(
    ("id_", "site", "settings"),
    [
        ("FABRIC-RADIX", "h100-1000-ib", ["fabric.unit_nodes=40"]),
        ("FABRIC-RADIX", "h100-1000-ib", ["fabric.leaf_uplinks=40"]),
        ("FABRIC-TIERS", "h100-1000-ib", ["fabric.tiers=2"]),
        ("FABRIC-BISECTION", "h100-1000-ib", ["fabric.leaf_uplinks=16"]),
        ("FABRIC-SINGLE-SPINE", "b200-256-roce", ["server.count=8", "fabric.unit_nodes=8"]),
    ],
)
def test_each_remedy_of_a_fabric_mends_it(id_: str, site: str, settings: list[str]) -> None:
    broken = changed(site, settings)
    (found,) = [one for one in found_of(broken) if one.id == id_]
    ways = [way for way in found.remedies if way.settings]
    assert ways
    for way in ways:
        mended = changed(site, [*settings, *(f"{key}={value}" for key, value in way.settings.items())])
        assert not [one for one in found_of(mended) if one.severity != "info" and one.id.startswith("FABRIC-")], way


def found_of(site: Site) -> list[Finding]:
    return compute_tree(site, site.catalog)[1]


def test_the_shipped_fabrics_have_more_than_one_spine() -> None:
    for name in ("h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid"):
        assert "FABRIC-SINGLE-SPINE" not in {one.id for one in found_of(load_site(name))}


def test_a_tier_that_uses_few_ports_says_what_fills_it_and_what_the_next_step_costs() -> None:
    site = changed("b200-256-roce", ["server.count=288"])
    (found,) = [one for one in found_of(site) if one.subject == "fabric/spine"]
    assert (found.id, found.severity) == ("FABRIC-PORTS-IDLE", "info")
    fill = int(found.numbers["fill"])
    full, larger = (changed("b200-256-roce", [f"server.count={count}"]) for count in (fill, fill + 1))
    one, after, before = (compute_tree(each, each.catalog)[0] for each in (full, larger, site))
    assert one is not None
    assert after is not None
    assert before is not None
    assert one.spines + one.cores == before.spines + before.cores
    assert (after.spines - one.spines, after.cores - one.cores) == (found.numbers["spine"], found.numbers["core"])


def test_leaves_of_small_units_say_which_units_fill_them() -> None:
    (found,) = [one for one in found_of(load_site("b200-256-roce")) if one.id == "FABRIC-PORTS-IDLE"]
    assert (found.subject, found.numbers["fill"]) == ("fabric/leaf", 64)
