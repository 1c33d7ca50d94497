"""Findings that follow from the site file alone."""

import datetime

from capacity.cooling.air import check_supply_air
from capacity.power.operation.standby import check_ride_through
from capacity.services.os_support import check_os_support
from capacity.stages import site_findings
from inventory.site import load_site, site_names
from tests.capacity.sites import variant
from tests.findings import names
from tests.first_sites import first_site


def test_supply_air_of_a_dense_class_is_judged_by_its_own_band() -> None:
    site = variant("h100-1000-ib", cooling={"supply_c": 24.0})
    assert [(f.id, f.limit, f.err) for f in check_supply_air(site)] == [("COOLING-SUPPLY", 22.0, "ERR-26")]
    assert check_supply_air(variant("h100-1000-ib", cooling={"supply_c": 24.0, "class_": "A2"})) == []


def test_supply_of_liquid_is_no_air_temperature() -> None:
    assert check_supply_air(variant("lab", cooling={"kind": "liquid", "supply_c": 40.0})) == []


def test_batteries_must_outlast_the_start_of_the_generators() -> None:
    site = variant("h100-1000-ib", ups={"autonomy_min": 0.1}, generator={"present": True, "start_s": 10.0})
    assert [(f.id, f.severity, f.limit) for f in check_ride_through(site)] == [("POWER-RIDE-THROUGH", "error", 45.0)]


def test_without_generators_batteries_must_outlast_a_checkpoint_and_the_risk_is_named() -> None:
    site = variant("lab", ups={"autonomy_min": 0.5})
    assert [f.id for f in check_ride_through(site)] == ["POWER-RIDE-THROUGH", "POWER-NO-GENERATOR"]
    assert [f.id for f in check_ride_through(load_site("lab"))] == ["POWER-NO-GENERATOR"]


def test_support_must_outlast_go_live_by_the_limit() -> None:
    need = load_site("lab").schedule.need_date
    soon = variant("lab", os={"eol_date": need + datetime.timedelta(days=200)})
    late = variant("lab", os={"eol_date": need + datetime.timedelta(days=400)})
    (found,) = check_os_support(soon)
    assert (found.id, "6.6 months after" in found.message) == ("OS-END-OF-SUPPORT", True)
    gone = variant("lab", os={"eol_date": need - datetime.timedelta(days=61)})
    assert "2.0 months before" in check_os_support(gone)[0].message
    assert check_os_support(late) == []


def test_a_computed_date_of_go_live_is_called_computed() -> None:
    """Transformers of 160 weeks make it 2030; no person has said so."""
    (found,) = check_os_support(first_site("gb300"))
    assert names(found, "computes", "schedule.need_date", "leadtimes")
    stated = variant("lab", os={"eol_date": load_site("lab").schedule.need_date})
    assert not names(check_os_support(stated)[0], "computes")


def test_shipped_sites_break_none_of_these_rules_as_an_error() -> None:
    assert [f for name in site_names() for f in site_findings(load_site(name)) if f.severity == "error"] == []
