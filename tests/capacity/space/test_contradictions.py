"""Site keys against the facts of the catalogue that they repeat."""

import pytest

from capacity.build import build
from capacity.space.contradictions import check_catalog
from inventory.findings import Finding
from inventory.site import Site, load_site, parse_site, site_names
from inventory.site.whatif import changed
from tests.first_sites import FIRST, text_of

B200 = ("gpu.sku=nvidia-b200-sxm-180gb", "gpu.tdp_w=1000")


def found(site: Site) -> dict[str, Finding]:
    return {one.subject: one for one in check_catalog(site, site.catalog)}


@pytest.mark.parametrize("name", site_names())
def test_no_shipped_site_contradicts_the_catalogue(name: str) -> None:
    assert found(load_site(name)) == {}


@pytest.mark.parametrize("name", FIRST)
def test_no_site_of_a_reference_design_contradicts_the_catalogue(name: str) -> None:
    assert found(parse_site(text_of(name))) == {}


def test_a_b200_in_a_dgx_h100_is_an_error_with_both_ways_out() -> None:
    one = found(changed("h100-1000-ib", B200))["gpu.sku"]
    assert one.severity == "error"
    assert one.remedies[0].settings["gpu.sku"] == "nvidia-h100-sxm5-80gb"
    assert "nvidia-dgx-b200" in one.remedies[-1].text
    assert found(changed("h100-1000-ib", [*B200, *(f"{k}={v}" for k, v in one.remedies[0].settings.items())])) == {}


def test_a_nameplate_below_that_of_the_model_is_a_warning_that_names_it() -> None:
    power = "server.power={seed_w: 6000, measured_w: 6000, nameplate_w: 6000}"
    one = found(changed("h100-1000-ib", [power]))["server.power.nameplate_w"]
    assert (one.severity, one.limit, one.numbers["nameplate_w"]) == ("warning", 10200, 6000)
    assert dict(one.remedies[0].settings) == {"server.power.nameplate_w": 10200}
    assert "DGX H100/H200 user guide" in one.message


def test_a_nameplate_above_that_of_the_model_is_an_info() -> None:
    one = found(changed("h100-1000-ib", ["server.power.nameplate_w=11000"]))["server.power.nameplate_w"]
    assert one.severity == "info"


def test_what_was_measured_below_the_nameplate_contradicts_nothing() -> None:
    assert found(changed("h100-1000-ib", ["server.power.measured_w=7000", "server.power.seed_w=6500"])) == {}


def test_ports_faster_than_those_of_the_model_are_an_error_and_slower_ones_are_none() -> None:
    faster = ["fabric.switch_model=nvidia-q3400-ra", "server.nic.rate_gbps=800"]
    one = found(changed("h100-1000-ib", faster))["server.nic.rate_gbps"]
    assert (one.severity, one.limit) == ("error", 400)
    assert found(changed("h100-1000-ib", ["server.nic.rate_gbps=200"])) == {}


def test_a_plan_says_it() -> None:
    ids = [one.id for one in build(changed("lab", ["server.power.nameplate_w=10000"])).findings]
    assert "CATALOG-CONTRADICTS" in ids
