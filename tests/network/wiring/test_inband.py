"""Ports of the in-band network: what is said of switches that have too few, and models of the catalogue that have enough."""

import pytest

from capacity.sizes import INBAND, complete
from capacity.stages import Built
from inventory.delivered.assets import load_assets
from inventory.findings import Finding
from inventory.site import Site, parse_site
from inventory.site.new import Wanted, site_text
from inventory.site.whatif import with_settings

SIZES = ("inband.leaves", "inband.spines")


def sized(servers: int, **settings: object) -> Site:
    """A site of a few lines with its in-band network worked out."""
    site = parse_site(site_text(Wanted("hall", gpu="h100", fabric="ib", servers=servers)))
    return complete(with_settings(site, {f"inband.{key}": value for key, value in settings.items()}), wanted=SIZES)


def of_ports(site: Site) -> list[Finding]:
    built: Built = {"assets": load_assets(site), "baseline": None, "trials": None}
    findings: list[Finding] = []
    for stage in INBAND:
        added, found = stage(site, site.catalog, built)
        built = {**built, **added}
        findings += found
    return [one for one in findings if one.id == "INBAND-PORTS"]


def test_a_network_that_no_number_of_leaves_makes_is_told_as_a_whole() -> None:
    (found,) = of_ports(sized(2200))
    assert found.subject == "inband.leaves"
    assert "4,678 links" in found.message
    assert "76 leaves of nvidia-sn4600c" in found.message  # 62 ports of each beside two spines
    assert found.limit == 64
    (way,) = found.remedies
    assert dict(way.settings) == {"inband.leaf_model": "nvidia-sn5600"}
    assert not of_ports(sized(2200, leaf_model="nvidia-sn5600"))


def test_a_network_that_no_switch_of_the_catalogue_makes_is_told_plainly() -> None:
    (found,) = of_ports(sized(9000))
    (way,) = found.remedies
    assert not way.settings
    assert "no switches of this maker in the catalogue carry so many" in way.text
    assert "16,128 links" in way.text  # 128 leaves x (128 ports - 2 spines)


@pytest.mark.parametrize("settings", [{"leaves": 4}, {"spines": 60}])
def test_each_remedy_mends_the_ports(settings: dict[str, int]) -> None:
    site = sized(600, **settings)
    (found,) = of_ports(site)
    assert found.remedies
    for way in found.remedies:
        changed = {key.removeprefix("inband."): value for key, value in way.settings.items()}
        assert changed
        assert not of_ports(sized(600, **settings | changed))


def test_where_larger_switches_do_not_exist_fewer_spines_leave_the_ports() -> None:
    settings = {"leaf_model": "nvidia-sn5600", "spine_model": "nvidia-sn5600", "leaves": 128, "spines": 100}
    (found,) = of_ports(sized(2000, **settings))
    (way,) = found.remedies
    assert way.settings.keys() == {"inband.spines"}
    assert not of_ports(sized(2000, **settings | {"spines": way.settings["inband.spines"]}))
