"""Ratings and inlet temperatures at altitude, by hand."""

import functools

import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.power import altitude
from inventory.site.whatif import changed
from tests.findings import only


@functools.cache
def at(metres: int, *settings: str) -> Plan:
    return build(changed("b200-256-roce", [f"room.altitude_m={metres}", *settings]))


@pytest.mark.parametrize(
    ("kind", "metres", "factor"),
    [
        ("ups", 0, 1.0),
        ("ups", 1000, 1.0),
        ("ups", 1250, 0.975),
        ("ups", 2000, 0.91),
        ("generator", 2000, 0.9),
        ("transformer", 2000, 0.96),
        ("low_voltage", 2000, 1.0),
        ("low_voltage", 3000, 0.99),
        ("medium_voltage", 2000, 0.98),
        ("medium_voltage", 4500, 0.93),
    ],
)
def test_factors_are_those_of_the_tables_and_between_them(kind: str, metres: float, factor: float) -> None:
    assert altitude.factor_at(kind, metres) == pytest.approx(factor)


@pytest.mark.parametrize("kind", altitude.KINDS)
def test_every_table_says_where_it_comes_from_and_falls_with_altitude(kind: str) -> None:
    assert altitude.tables()[kind]["source"]
    factors = [altitude.factor_at(kind, metres) for metres in range(0, 5001, 100)]
    assert factors[0] == 1
    assert factors == sorted(factors, reverse=True)


def test_ratings_of_the_supply_count_less_at_altitude() -> None:
    """2,000 m: UPS 0.91, generators 0.90, transformers 0.96, intake 0.98, low voltage as rated."""
    low, high = (at(metres).elements.groupby("kind")["limit_kw"].max() for metres in (100, 2000))
    share = high / low
    assert share["ups"] == pytest.approx(0.91)
    assert share["generator"] == pytest.approx(0.90)
    assert share["transformer"] == pytest.approx(0.96)
    assert share["intake"] == pytest.approx(0.98)
    assert (share["switchboard"], share["panel"]) == (pytest.approx(1), pytest.approx(1))
    said = only(at(2000), "POWER-ALTITUDE")
    assert (said.severity, said.numbers["altitude_m"]) == ("info", 2000)


def test_ratings_that_hold_at_the_site_are_taken_as_they_are() -> None:
    plan = at(2000, "electrical.ratings_at=site")
    assert plan.elements["limit_kw"].tolist() == at(100).elements["limit_kw"].tolist()
    assert "POWER-ALTITUDE" not in {one.id for one in plan.findings}


def test_the_permitted_inlet_falls_with_altitude() -> None:
    """Class A2: 1 K less for each 300 m above 900 m, so 30 C are 26.3 C at 2,000 m."""
    warm = only(at(2000, "cooling.class=A2", "cooling.supply_c=27"), "COOLING-INLET")
    assert warm.limit == pytest.approx(26.3)
    assert warm.numbers["max_c"] == pytest.approx(30 - 1100 / 300, abs=1e-3)
    assert "COOLING-INLET" not in {one.id for one in at(2000, "cooling.class=A2", "cooling.supply_c=26.3").findings}
    assert "COOLING-INLET" not in {one.id for one in at(100, "cooling.class=A2", "cooling.supply_c=27").findings}
