"""Powers of the site file in another unit than their key's."""

import pytest

from capacity.least import with_values
from capacity.power.operation.utility import check_units
from inventory.findings import Finding
from tests.findings import offers
from tests.first_sites import FIRST, first_plan, first_site
from tests.plans import plan_of


def found(key: str, value: float) -> list[Finding]:
    """The findings of the 32 B200 servers, which draw 0.66 MVA at 13.8 kV, with one value changed."""
    site = with_values(first_site("b200"), {key: value})
    assert site.electrical is not None
    return check_units(site, site.electrical, first_plan("b200").elements)


@pytest.mark.parametrize(
    ("key", "value", "meant"),
    [
        ("electrical.utility.firm_mva", 1200, 1.2),
        ("electrical.utility.max_step_mw", 500, 0.5),
        ("cooling.plant.chiller_kw", 0.3, 300),
        ("cooling.plant.reject_kw", 0.35, 350),
    ],
)
def test_a_value_in_the_next_unit_is_named_with_what_was_meant(key: str, value: float, meant: float) -> None:
    (slip,) = found(key, value)
    assert (slip.id, slip.subject) == ("POWER-UNIT-SLIP", key)
    assert offers(slip, key, meant)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("electrical.utility.firm_mva", 95),  # 3,974 A at 13.8 kV: a line of a large campus
        ("electrical.utility.max_step_mw", 10),
        ("cooling.plant.chiller_kw", 30),
    ],
)
def test_a_large_service_and_small_machines_are_no_slips(key: str, value: float) -> None:
    assert found(key, value) == []


def test_no_plan_of_a_shipped_or_first_site_has_a_slip() -> None:
    plans = [plan_of("h100-1000-ib"), plan_of("lab"), *map(first_plan, FIRST)]
    assert not [one for plan in plans for one in plan.findings if one.id == "POWER-UNIT-SLIP"]
