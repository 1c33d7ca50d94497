"""The typical hall that a site is compared with, and what is told of it."""

import pytest

from inventory.site import SiteError
from inventory.site.explain import explain
from inventory.site.references import Span
from inventory.site.typical_halls import Like, halls, typical
from tests.first_sites import first_site

TRANSFORMER = "leadtimes.transformer.max_weeks"


def test_a_hall_of_the_same_designs_is_taken() -> None:
    own = Like(("dgx-superpod-b300",), "ib", "air")
    found = typical("rack.servers", own)
    assert found is not None
    assert found.hall == own


def test_without_one_it_is_a_hall_of_the_same_cooling_and_fabric() -> None:
    found = typical("purchase.prices.rack.unit_price", Like(("own-design",), "roce", "air"))
    assert found is not None
    assert (found.hall.fabric, found.hall.cooling) == ("roce", "air")


def test_the_same_plausible_range_goes_before_the_same_design() -> None:
    wide = next(one for one in halls()["rack.servers"] if (one.low, one.high) == (1, 2))
    found = typical("rack.servers", Like(("dgx-superpod-h100",), "ib", "air"), Span(low=1, high=2, source="test"))
    assert found == wide


def test_a_key_that_no_hall_has_is_none() -> None:
    assert typical("server.count", Like((), "ib", "air")) is None


def test_a_lead_time_tells_what_it_means_and_by_how_many_days_it_moves_go_live() -> None:
    told = explain(first_site("h100"), TRANSFORMER)
    assert told.meaning == "Longest quoted lead time, weeks."
    assert told.decides == "the latest safe date of each order, and the date of go-live"
    (hall,) = told.halls
    low, high = hall.changes["go_live_days"]
    assert low is not None
    assert high is not None
    assert low < -200 < 200 < high


def test_a_price_tells_what_it_means_and_how_far_it_moves_the_cost() -> None:
    told = explain(first_site("h100"), "purchase.prices.server nvidia-dgx-h100.unit_price")
    assert told.meaning == "Price of one unit."
    assert told.decides.startswith("the cost of the plan")
    assert told.halls[0].most("cost") > 0.1
    assert told.halls[0].most("facility_kw") == 0


def test_an_entry_and_a_section_tell_the_most_important_of_their_keys() -> None:
    entry = explain(first_site("h100"), "leadtimes.transformer")
    assert entry.meaning.startswith("Lead times by item")
    assert [one.key for one in entry.halls] == [TRANSFORMER]
    section = explain(first_site("h100"), "leadtimes")
    assert section.halls[0].key == TRANSFORMER
    effects = [one.effect for one in section.halls]
    assert effects == sorted(effects, reverse=True)


def test_a_key_of_an_entry_that_nobody_gives_has_its_default_and_one_of_no_entry_is_unknown() -> None:
    told = explain(first_site("h100"), "leadtimes.transformer.likely_weeks")
    assert told.meaning.startswith("Most likely lead time")
    with pytest.raises(SiteError) as caught:
        explain(first_site("h100"), "leadtimes.transfomer.max_weeks")
    assert caught.value.problems[0].nearest == TRANSFORMER
