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
