"""What is told of a key: value, origin, source, range, findings, readers; and what counts as confirmed."""

import dataclasses

import pytest

from inventory.paths import repo_root
from inventory.site import SiteError, load_site, parse_site
from inventory.site.explain import assumptions, explain, readers
from inventory.site.references import leaves
from tests.first_sites import first_site, text_of
from tests.full_sites import full_text


def test_a_value_of_a_design_says_design_source_and_range() -> None:
    key = "cooling.plant.chiller_cop"
    told = explain(first_site("h100"), key)
    origin = told.origins[key]
    assert (origin.kind, origin.design) == ("reference", "air-fan-wall")
    assert origin.source
    assert told.span is not None
    assert told.span.low <= told.values[key] <= told.span.high
    assert not told.confirmed
    assert told.findings


def test_a_fact_of_hardware_names_the_catalogue_and_needs_no_confirmation() -> None:
    told = explain(first_site("h100"), "gpu.tdp_w")
    assert told.values == {"gpu.tdp_w": 700}
    assert told.origins["gpu.tdp_w"].source.startswith("catalogue nvidia-h100-sxm5-80gb")
    assert told.confirmed


def test_a_size_that_is_worked_out_is_told_as_such() -> None:
    told = explain(first_site("h100"), "room.rows")
    assert told.origins["room.rows"].kind == "computed"
    assert told.values["room.rows"] == 2
    assert not told.confirmed
    assert not explain(first_site("h100"), "electrical.transformers.kva").confirmed


def test_what_follows_from_the_hardware_alone_needs_no_confirmation() -> None:
    told = explain(first_site("h100"), "server.psu.split_by_feed")
    assert told.values == {f"server.psu.split_by_feed.{feed}": 2 for feed in "ABC"}
    assert {origin.kind for origin in told.origins.values()} == {"computed"}
    assert told.confirmed


def test_a_section_lists_its_leaves_with_an_origin_each() -> None:
    told = explain(first_site("h100"), "fabric")
    assert {"fabric.kind", "fabric.radix", "fabric.rails", "fabric.bisection"} <= told.values.keys()
    assert {told.origins[key].kind for key in ("fabric.kind", "fabric.radix")} == {"reference", "catalogue"}


def test_a_list_that_is_joined_by_names_says_the_origin_of_each_entry() -> None:
    told = explain(first_site("h100"), "service_nodes")
    assert told.values["service_nodes.controller.count"] == 3
    assert {origin.kind for origin in told.origins.values()} == {"reference"}
    assert not told.confirmed


def test_a_key_that_nobody_sets_has_the_default_of_the_schema() -> None:
    told = explain(load_site("h100-1000-ib"), "purchase.spares.share_pct")
    assert told.meaning
    assert told.confirmed


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(SiteError) as caught:
        explain(first_site("h100"), "cooling.suply_c")
    assert caught.value.problems[0].nearest == "cooling.supply_c"


def test_confirmed_settles_a_key_and_all_below_a_section() -> None:
    before = {key for key, _, _ in assumptions(parse_site(text_of("h100")))}
    site = parse_site(text_of("h100") + "confirmed: [cooling.supply_c, room]\n")
    after = {key for key, _, _ in assumptions(site)}
    settled = before - after
    assert "cooling.supply_c" in settled
    assert "room.row_pitch_m" in settled
    assert all(key == "cooling.supply_c" or key.startswith("room.") for key in settled)
    assert explain(site, "cooling.supply_c").confirmed


def test_confirmed_refuses_a_key_that_there_is_not() -> None:
    with pytest.raises(SiteError) as caught:
        parse_site(text_of("h100") + "confirmed: [cooling.suply_c]\n")
    assert caught.value.problems[0].nearest == "cooling.supply_c"


def test_a_shipped_site_assumes_nothing_that_it_states() -> None:
    site = load_site("h100-1000-ib")
    assumed = {key for key, _, _ in assumptions(site)}
    assert assumed
    assert not assumed & {".".join(map(str, path)) for path, _ in leaves(site.given)}
    assert not list(assumptions(parse_site(full_text("lab"))))


def test_units_of_limits_and_names_of_entries_are_no_assumptions() -> None:
    assumed = {key for key, _, _ in assumptions(first_site("h100"))}
    assert {"limits.pdu_load_pct.value", "purchase.prices.gpu.unit_price"} <= assumed
    names = {"limits.pdu_load_pct.unit", "purchase.prices.gpu.item", "purchase.prices.server nvidia-dgx-h100.model"}
    assert not names & assumed


def test_the_readers_of_a_key_are_modules_that_name_it() -> None:
    found = readers(("cooling", "air", "rise_k"))
    assert "capacity/cooling/units.py" in found
    for name in found:
        assert ".rise_k" in (repo_root() / name).read_text()


def test_what_is_told_is_data() -> None:
    told = explain(first_site("h100"), "rack.servers")
    assert dataclasses.asdict(told)["values"] == {"rack.servers": 4}


def test_readers_of_a_common_word_are_those_that_name_its_section() -> None:
    found = readers(("rack", "servers"))
    assert "capacity/space/hall.py" in found
    assert "infra/lab/net.py" not in found
