"""Assumptions at both ends of their range: what each end makes of the plan, what is refused, and which matter most."""

import functools
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import yaml

from capacity.build import build, planned
from capacity.kept import Kept
from capacity.outputs.report import assumptions as section
from capacity.sizes import complete
from capacity.whatif import sensitivity
from capacity.whatif.sensitivity import Sensitivity
from inventory.site import Site, load_site, parse_site, typical_halls
from inventory.site.effective import offers
from inventory.site.new import Wanted, site_text
from inventory.site.references import Span
from inventory.site.whatif import Base

PRICE = "purchase.prices.server nvidia-dgx-h100.unit_price"
TRANSFORMER = "leadtimes.transformer.max_weeks"
COP = "cooling.plant.chiller_cop"
HALL = typical_halls.Like(("dgx-superpod-h100",), "ib", "air")
JUDGED = ("rack.servers", COP, PRICE, TRANSFORMER)


def base(**changes: Any) -> Base:
    """Eight servers on the design of the DGX H100, with some keys given."""
    text = site_text(Wanted("small", gpu="h100", fabric="ib", servers=8))
    site = parse_site(yaml.safe_dump({**yaml.safe_load(text), **changes}))
    return Base(site, site.given, "small/site.yaml")


_every = sensitivity.assumptions


def only(*keys: str) -> Callable[[Site], list[sensitivity.Assumption]]:
    """A function in the place of `assumptions`, which gives these keys alone."""
    return lambda site: [one for one in _every(site) if one.key in keys]


@functools.cache
def small() -> Sensitivity:
    """The study of four of its assumptions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sensitivity, "assumptions", only(*JUDGED))
        return sensitivity.study(base(), workers=1)


def change(key: str, end: str, measure: str) -> float:
    frame = small().frame
    return float(frame.loc[(frame["key"] == key) & (frame["end"] == end), f"{measure}_change"].iloc[0])


@pytest.mark.parametrize("slug", sorted(offers().values()))
def test_every_offered_design_gives_ranges_of_its_assumptions(slug: str) -> None:
    site = parse_site(
        yaml.safe_dump({"schema_version": 1, "name": "hall", "based_on": [slug], "server": {"count": 72}})
    )
    judged = sensitivity.assumptions(site)
    assert len(judged) >= (30 if slug == "dgx-superpod-h100" else 25)
    assert all(one.span.low < one.span.high for one in judged)


def test_each_end_changes_what_it_should() -> None:
    servers_and_spare = 9
    assert change(PRICE, "high", "cost") == pytest.approx(servers_and_spare * 60_000)
    assert change(PRICE, "low", "cost") == pytest.approx(-servers_and_spare * 60_000)
    assert change(PRICE, "high", "facility_kw") == 0
    assert change(COP, "low", "facility_kw") > 0 > change(COP, "high", "facility_kw")
    assert change("rack.servers", "low", "racks") == 2
    assert change(TRANSFORMER, "low", "go_live_days") < 0 < change(TRANSFORMER, "high", "go_live_days")


def test_the_end_that_is_the_value_changes_nothing() -> None:
    assert change("rack.servers", "high", "racks") == 0


def test_keys_are_ranked_by_their_largest_relative_effect() -> None:
    effects = [row["effect"] for row in small().by_key()]
    assert effects == sorted(effects, reverse=True)
    assert small().by_key()[0]["key"] == "rack.servers"
    assert small().by_key()[0]["effect"] == pytest.approx(2 / small().base["racks"])


def test_the_plan_of_an_end_is_that_of_a_site_with_the_value() -> None:
    given = base(cooling={"plant": {"chiller_cop": 4.5}})
    own = sensitivity.measures(planned(given.site))
    assert own["facility_kw"] - small().base["facility_kw"] == pytest.approx(change(COP, "low", "facility_kw"))


def test_a_refused_end_is_kept_with_what_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = sensitivity.Assumption(COP, 5.5, "air-fan-wall", Span(low=-1, high=5.5, source="test"))
    monkeypatch.setattr(sensitivity, "assumptions", lambda site: [bad])
    low, high = sensitivity.study(base(), workers=1).frame.to_dict("records")
    assert COP in low["refused"]
    assert low["facility_kw"] != low["facility_kw"]
    assert high["refused"] == ""


def test_processes_find_what_one_process_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensitivity, "assumptions", only(PRICE))
    told: list[tuple[int, int]] = []
    found = sensitivity.study(base(), workers=2, progress=lambda done, all_: told.append((done, all_)))
    ours = small().frame[small().frame["key"] == PRICE].reset_index(drop=True)
    assert found.frame.equals(ours)
    assert told[-1] == (2, 2)


def test_confirmed_values_are_settled_and_given_ones_marked() -> None:
    site = base(confirmed=["cooling.plant"], electrical={"tariff": {"energy_per_mwh": 55}}).site
    origins = {one.key: one.origin for one in sensitivity.assumptions(site)}
    assert COP not in origins
    assert origins["electrical.tariff.energy_per_mwh"] == "given"
    assert "electrical.tariff.energy_per_mwh" not in {one.key for one in sensitivity.that_matter(site)}


def test_a_given_price_outside_of_the_range_has_one_in_proportion() -> None:
    """450,000 for a module of 500 kW was judged at 40,000 to 100,000, the range about 60,000 of a module of 250 kW."""
    key = "purchase.prices.ups module.unit_price"
    source = {"item": "ups module", "source": "test"}

    def span(price: float) -> Span:
        site = base(purchase={"prices": [{**source, "unit_price": price}]}).site
        (one,) = (one for one in sensitivity.assumptions(site) if one.key == key)
        return one.span

    assert (span(450_000).low, span(450_000).high) == pytest.approx((300_000, 750_000))
    assert "in proportion" in span(450_000).source
    assert (span(60_000).low, span(60_000).high) == (span(70_000).low, span(70_000).high) == (40_000, 100_000)


def test_a_site_without_designs_takes_the_ranges_of_the_one_that_fits() -> None:
    site = load_site("h100-1000-ib")
    spans = sensitivity.spans_of(site)
    assert PRICE in spans
    assert len(sensitivity.assumptions(site)) >= 25


def test_without_a_study_a_typical_hall_says_what_matters_most() -> None:
    """Weeks of installation and the length of feeders were named, which move neither date nor cost."""
    first = [one.key for one in sensitivity.that_matter(base().site)]
    assert set(first[:5]) >= {"rack.servers", "storage.usable_pb", TRANSFORMER, PRICE}
    assert "electrical.panels.feeder.length_m" not in first[:20]


def test_what_no_hall_has_stands_last(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = typical_halls.halls()[COP]
    monkeypatch.setattr(typical_halls, "halls", lambda: {COP: rows})
    monkeypatch.setattr(sensitivity, "assumptions", only(*JUDGED))
    assert sensitivity.that_matter(base().site)[0].key == COP
    (price,) = (one for one in sensitivity.assumptions(base().site) if one.key == PRICE)
    assert sensitivity.in_typical_hall(base().site, price) is None
    assert sensitivity.moved(base().site, price, small().base) == {}


def test_shares_of_a_typical_hall_are_taken_of_the_plan_and_days_are_days() -> None:
    site, measured = base().site, {"facility_kw": 200.0, "racks": 10, "cost": 1e6, "go_live_days": 1000}
    by_key = {one.key: one for one in sensitivity.assumptions(site)}
    price, transformer = (typical_halls.typical(key, HALL) for key in (PRICE, TRANSFORMER))
    assert price is not None
    assert transformer is not None
    assert sensitivity.moved(site, by_key[PRICE], measured) == {"cost": pytest.approx(price.most("cost") * 1e6)}
    assert sensitivity.moved(site, by_key[TRANSFORMER], measured) == {"go_live_days": transformer.most("go_live_days")}


def test_a_study_of_the_site_goes_before_a_typical_hall() -> None:
    (price,) = (one for one in sensitivity.assumptions(base().site) if one.key == PRICE)
    assert sensitivity.moved(base().site, price, small().base, small()) == {"cost": pytest.approx(9 * 60_000)}


def test_a_study_says_what_matters_most() -> None:
    assert sensitivity.that_matter(base().site, small())[0].key == "rack.servers"


def test_a_study_survives_its_file(tmp_path: Any) -> None:
    small().frame.to_csv(tmp_path / "sensitivity.csv", index=False)
    again = sensitivity.read(pd.read_csv(tmp_path / "sensitivity.csv"))
    assert again.by_key() == small().by_key()
    assert again.base["racks"] == small().base["racks"]


def test_the_tornado_draws_the_longest_bar_first_and_nothing_that_does_not_move() -> None:
    drawn = section.tornado(small().by_key(), "cost", "Cost, USD")
    assert drawn.index(PRICE) < drawn.index("rack.servers")
    assert TRANSFORMER not in drawn
    assert section.tornado(small().by_key(), "pue", "PUE").count("tornado-low") >= 1
    assert section.tornado([], "cost", "Cost") == ""


@pytest.mark.parametrize(
    "values",
    [{"cooling.air.rise_k": 12}, {"room.slack_m": 3.0}, {"storage.usable_pb": 8}, {PRICE: 1.0}, {"rack.servers": 2}],
    ids=lambda values: next(iter(values)),
)
def test_a_plan_with_kept_results_is_the_plan_without(values: dict[str, Any]) -> None:
    given = base()
    kept = Kept()
    planned(given.with_values({}), kept=kept)
    with_kept = planned(given.with_values(values), kept=kept.below())
    alone = build(with_kept.site)
    assert with_kept.hash == alone.hash
    assert [one.as_dict() for one in with_kept.findings] == [one.as_dict() for one in alone.findings]
    assert with_kept.site.effective.value == complete(given.with_values(values)).effective.value
