"""Settings of a what-if: as strict as the site file."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.site import SiteError, load_site
from inventory.site.references import at
from inventory.site.whatif import Base, axes, changed, combinations
from tests.first_sites import first_site


def test_values_are_typed_by_the_schema() -> None:
    site = changed("lab", ["rack.servers=3", "power.feeds=[A, B]", "schedule.need_date=2028-01-01", "room.slack_m=2"])
    assert site.rack.servers == 3
    assert site.schedule.need_date.year == 2028
    assert site.room.slack_m == 2.0
    assert site.path == load_site("lab").path


def test_a_key_inside_a_mapping_of_a_design_that_is_joined_as_a_whole_can_be_set() -> None:
    site = first_site("h100")
    feeder = Base(site, site.given, "site.yaml").changed(["electrical.panels.feeder.length_m=300"]).effective.value
    assert at(feeder, ("electrical", "panels", "feeder", "length_m")) == 300
    assert at(feeder, ("electrical", "panels", "feeder", "size")) == "600 kcmil Cu"


def test_a_changed_site_says_so_and_the_site_itself_does_not() -> None:
    assert changed("lab", ["rack.servers=3"]).changes == ("rack.servers=3",)
    assert changed("lab", []).changes == ()


@pytest.mark.parametrize(
    "key", ["service_nodes[1].count=2", "service_nodes.1.count=2", "service_nodes.storage.count=2"]
)
def test_entries_of_lists_by_number_and_by_name(key: str) -> None:
    site = changed("lab", [key])
    assert [n.count for n in site.service_nodes] == [1, 2, 1]


def test_optional_sections_that_the_file_lacks_can_be_set() -> None:
    assert changed("lab", ["purchase.spares.confidence_pct=99"]).purchase.spares.confidence_pct == 99


@pytest.mark.parametrize(
    ("setting", "key", "nearest"),
    [
        ("rakc.servers=3", "rakc", "rack"),
        ("rack.servrs=3", "rack.servrs", "servers"),
        ("power.rack_circuit.breaker=60", "power.rack_circuit.breaker", "breaker_a"),
        ("service_nodes.storge.count=3", "service_nodes.storge", "storage"),
        ("rack.servers=two", "rack.servers", ""),
        ("rack.servers=3.5", "rack.servers", ""),
        ("server.model=nvidia-dgx-h1000", "server.model", "nvidia-dgx-h100"),
    ],
)
def test_error_names_the_key_and_the_nearest_valid_one(setting: str, key: str, nearest: str) -> None:
    with pytest.raises(SiteError) as error:
        changed("lab", [setting])
    problem = error.value.problems[0]
    assert ".".join(map(str, problem.path)) == key
    assert nearest in problem.nearest
    assert f"--set {setting}" in str(error.value)


def test_every_wrong_setting_is_named() -> None:
    with pytest.raises(SiteError) as error:
        changed("lab", ["rack.servrs=3", "service_nodes.storge.count=3", "nonsense"])
    assert len(error.value.problems) == 3


@pytest.mark.parametrize("setting", ["[=", ".=1", "]=x", "..[=[A]"])
def test_a_setting_whose_key_has_no_name_is_refused(setting: str) -> None:
    """It replaced the whole site file, and ended in a traceback."""
    with pytest.raises(SiteError, match="a setting without a key"):
        changed("lab", [setting])


def test_settings_that_break_a_rule_of_several_keys_are_refused() -> None:
    with pytest.raises(SiteError, match="a range that ends before it starts"):
        changed("lab", ["leadtimes.gpu.min_weeks=60"])


def test_axes_of_ranges_and_lists() -> None:
    found = axes("rack.servers=2..4,power.rack_circuit.breaker_a=60,80,x.y=[A, B],1..9..4,power.pue=1.1..1.3..0.1")
    assert [(a.key, a.values) for a in found] == [
        ("rack.servers", ("2", "3", "4")),
        ("power.rack_circuit.breaker_a", ("60", "80")),
        ("x.y", ("[A, B]", "1", "5", "9")),
        ("power.pue", ("1.1", "1.2", "1.3")),
    ]
    assert len(list(combinations(found))) == 72


def test_a_key_given_twice_is_one_axis() -> None:
    found = axes("rack.servers=2..3,room.slack_m=2,rack.servers=3,5")
    assert [(a.key, a.values) for a in found] == [("rack.servers", ("2", "3", "5")), ("room.slack_m", ("2",))]


def test_a_range_without_end_is_refused_before_it_is_written_out() -> None:
    with pytest.raises(SiteError, match="too many options") as error:
        axes(f"x=1..{10**30}")
    assert str(10**30) in str(error.value)


@pytest.mark.parametrize("text", ["60,80", "rack.servers=6..2", "rack.servers=1..9999", "power.pue=1.1..1.3"])
def test_axes_that_cannot_be_searched_are_refused(text: str) -> None:
    with pytest.raises(SiteError, match="--over"):
        axes(text)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_no_setting_crashes(text: str) -> None:
    with contextlib.suppress(SiteError):
        BASE.changed([text])


BASE = Base.read("lab")


def test_servers_take_no_as_numbers() -> None:
    site = changed("lab", ["server.count=2000", "inband.asn_base=65500"])
    assert site.inband.as_number("leaf", site.inband.leaves) == 65500 + site.inband.leaves
