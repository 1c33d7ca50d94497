"""Sizes that are worked out: the least with which the plan has no error; what the file states is kept and judged."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, seed, settings
from hypothesis import strategies as st

from capacity import sizes as sized
from capacity import stages
from capacity.build import build
from capacity.kept import Kept
from capacity.model import Plan
from capacity.power.rack import breakers
from capacity.sizes import complete, first_rung, load_site
from inventory.catalog import Catalog
from inventory.delivered.assets import load_assets
from inventory.findings import Finding
from inventory.paths import catalog_dir
from inventory.site import Site, SiteError, loading, parse_site
from inventory.site.explain import origin_of
from inventory.site.new import Wanted, site_text
from inventory.site.references import Ladder, at
from inventory.site.yaml_source import Problem
from tests.capacity import counts
from tests.capacity.broken_sites import BREAKS, base
from tests.capacity.sites import variant
from tests.first_sites import FIRST, first_plan, first_site, text_of
from tests.seed import SEED

COUNTS = ("room.rows", "room.rpps_per_row", "inband.leaves", "inband.spines", "oob.switches")
"""Sizes that are numbers of things."""
REDUNDANT = ("inband.leaves", "inband.spines")
"""Of these two stand in any case: the second carries what the first loses."""


SIZED_BY = ("SPACE-RPP", "INBAND-OVERSUBSCRIBED", "INBAND-SPINE", "POWER-PDU-LOAD", "COOLING-RIDE-THROUGH")
"""Findings that are no errors, and that sizes are worked out by all the same: panels at the head of their row, an in-band
network that carries its storage also after the loss of a spine, circuits that are loaded to the share of `limits`, and a store
of water that carries a hall with fans on the UPS until its chillers are back."""


def errors(plan: Plan) -> set[tuple[str, str]]:
    """Id and subject of the findings that stand against the plan or that ask for a larger size."""
    return {(one.id, one.subject) for one in plan.findings if one.severity == "error" or one.id in SIZED_BY}


def sizes(site: Site) -> dict[str, Any]:
    """Every size that was worked out, by key."""
    return {".".join(map(str, path)): at(site.effective.value, path) for path in site.effective.sized()}


def smaller(site: Site) -> dict[str, dict[str, Any]]:
    """Each size that has a smaller one: its key -> all sizes with this one a step lower."""
    known = sizes(site)
    found: dict[str, dict[str, Any]] = {}
    for key in COUNTS:
        least = 2 if key in REDUNDANT else 0 if key == "room.rpps_per_row" else 1
        if key in known and known[key] > least:
            found[key] = {**known, key: known[key] - 1}
    for key, ladder in site.effective.ladders.items():
        rung = {name: known[ladder.full_key(name)] for name in ladder.rungs[0]}
        n = [dict(one) for one in ladder.rungs].index(rung)
        if n:
            found[key] = {**known, **ladder.values(ladder.rungs[n - 1])}
    firm = "electrical.utility.firm_mva"
    if firm in known:
        found[firm] = {**known, firm: round(known[firm] - 0.01, 2)}
    return found


def assert_least(site: Site) -> None:
    """No error finding of a size as it is, and one of each that is a step lower.

    Remedies are not looked at, so that none are tried; stages that a size does not touch are planned once.
    """
    kept = Kept()
    plan = build(site, kept=kept, what_ifs=False)
    at_size = errors(plan)
    for key, known in smaller(site).items():
        more = errors(build(loading.with_sizes(site, known), kept=kept.below(), what_ifs=False)) - at_size
        assert more, f"{site.name}: {key} could be smaller than {sizes(site).get(key, known)}"
    if not [one for one in plan.findings if one.severity == "error"]:
        for judge in counts.ALL:
            judge(plan)


@pytest.mark.parametrize("name", FIRST)
def test_the_sizes_of_the_first_sites_are_least(name: str) -> None:
    assert_least(first_site(name))


ONLY_DRAW = (Phase.explicit, Phase.generate)
"""A failing site is shown as drawn: making it smaller would plan hundreds of others."""
DESIGNS = (
    *(("h100", "ib"), ("h200", "ib"), ("b200", "ib"), ("b200", "roce"), ("b300", "ib"), ("b300", "roce")),
    *(("gb200", "ib"), ("gb300", "ib"), ("mi355x", "roce")),
)
"""GPU and fabric of each design that `bringup new` knows."""
DRAWN = st.builds(
    lambda design, n, code: Wanted(
        "drawn",
        gpu=design[0],
        fabric=design[1],
        servers=18 * (n % 12 + 1) if design[0].startswith("gb") else n,
        power_code=code,
    ),
    st.sampled_from(DESIGNS),
    st.integers(1, 160),
    st.sampled_from(["nec", "iec"]),
)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(4))
def test_the_sizes_of_100_sites_of_the_day_are_least(part: int) -> None:
    @settings(max_examples=25, phases=ONLY_DRAW, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(DRAWN)
    def least(wanted: Wanted) -> None:
        assert_least(complete(parse_site(site_text(wanted))))

    seed(SEED * 10 + part)(least)()


@settings(max_examples=2, phases=ONLY_DRAW, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(DRAWN)  # the least site first: one server
def test_the_sizes_of_some_sites_are_least(wanted: Wanted) -> None:
    assert_least(complete(parse_site(site_text(wanted))))


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize(
    "wanted",
    [
        ("inband.spines",),
        ("room.rows", "room.rpps_per_row"),
        ("oob.switches",),
        ("electrical.transformers.kva", "electrical.transformers.load_loss_kw"),
        ("power.pue",),
    ],
    ids=lambda wanted: wanted[0],
)
def test_a_size_that_is_wanted_alone_is_that_of_the_whole_site(name: str, wanted: tuple[str, ...]) -> None:
    alone, whole = sizes(complete(parse_site(text_of(name)), wanted=wanted)), sizes(first_site(name))
    assert {key: alone[key] for key in wanted if key in whole} == {key: whole[key] for key in wanted if key in whole}


def test_sizes_of_the_hall_are_worked_out_without_ratings_and_dates() -> None:
    alone = complete(parse_site(text_of("h100")), wanted=("oob.switches",))
    least = parse_site(text_of("h100"))
    assert alone.power.pue == least.power.pue
    assert alone.schedule.need_date == least.schedule.need_date


@pytest.mark.parametrize(("places", "asked"), [(0, True), (4, True), (5, False)])
def test_places_for_panels_are_asked_for_before_cables_and_supply_are_planned(places: int, asked: bool) -> None:
    site = variant("h100-1000-ib", room={"rpps_per_row": places, "racks_per_row": 24 + places})
    built: stages.Built = {"assets": load_assets(site), "baseline": None, "trials": None}
    for stage in (stages.fabric, stages.storage, stages.devices, stages.places):
        built = {**built, **stage(site, site.catalog, built)[0]}
    early = sized.panel_places(site, site.catalog, built)[1]
    late = [one for one in build(site, what_ifs=False).findings if one.id == "SPACE-RPP"]
    assert [one.remedies for one in early] == [one.remedies for one in late]
    assert bool(early) == asked


def test_a_stated_size_is_kept_and_judged() -> None:
    site = complete(parse_site(text_of("h100") + "oob: {switches: 1}\nroom: {rows: 1}\n"))
    assert site.oob.switches == 1
    assert site.room.rows == 1
    assert "oob.switches" not in site.effective.open
    ids = {id_ for id_, _ in errors(build(site))}
    assert {"OOB-PORTS", "SPACE-RACKS"} & ids


def test_one_stated_rating_keeps_the_whole_ladder_of_it() -> None:
    more = "    transformers: {kva: 2500, load_loss_kw: 20, no_load_kw: 3}\n"
    text = text_of("h100").replace(
        "electrical: {utility: {firm_mva: 1.2}}", "electrical:\n    utility: {firm_mva: 1.2}\n" + more.rstrip()
    )
    site = complete(parse_site(text))
    assert at(site.effective.value, ("electrical", "transformers", "kva")) == 2500
    assert "electrical.transformers" not in site.effective.ladders
    assert origin_of(site, ("electrical", "transformers", "uk_pct")).kind == "reference"


def test_the_sizes_of_a_site_with_hardware_of_its_own_are_worked_out_with_it(tmp_path: Path) -> None:
    shipped = (catalog_dir() / "device-types" / "nvidia-qm9700.yaml").read_text()
    own = tmp_path / "catalog" / "device-types" / "our-switch.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(shipped.replace("slug: nvidia-qm9700", "slug: our-switch"))
    (tmp_path / "site.yaml").write_text(
        site_text(Wanted("own", gpu="h100", fabric="ib", servers=8)) + "fabric: {switch_model: our-switch}\n"
    )
    site = load_site(tmp_path / "site.yaml")
    assert site.fabric.switch_model == "our-switch"
    assert not errors(build(site))


def test_a_hall_that_is_too_small_keeps_its_error() -> None:
    site = complete(parse_site(text_of("h100").replace("firm_mva: 1.2", "firm_mva: 0.6")))
    short = [one for one in build(site).findings if one.id == "POWER-UTILITY"]
    assert [one.severity for one in short] == ["error"]
    assert short[0].remedies


def test_a_site_that_states_all_sizes_is_not_planned_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capacity.sizes.sized", None)
    site = loading.load_site("lab")
    assert complete(site) is site


def test_the_date_is_the_earliest_at_which_nothing_is_late() -> None:
    plan = first_plan("h100")
    assert not [one for one in plan.findings if one.id.startswith("SCHEDULE-LATE")]


LADDER = Ladder(
    key="x", source="test", rungs=({"kva": 100, "loss": 1}, {"kva": 200, "loss": 2}, {"kva": 400, "loss": 3})
)


@pytest.mark.parametrize(
    ("needed", "now", "kva"), [(100.1, 100, 200), (200, 100, 200), (201, 200, 400), (9000, 200, 400)]
)
def test_the_next_rung_is_the_first_that_carries_it_or_the_last(needed: float, now: float, kva: float) -> None:
    assert first_rung(LADDER, "kva", needed, now)["kva"] == kva


def test_there_is_no_rung_above_the_last() -> None:
    assert first_rung(LADDER, "kva", 9000, 400) == {}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["electrical.panels.rating_a=60"], "at most 20"),
        (["electrical.panels.rating_a=100", "room.racks_per_row=5"], "fewer than racks_per_row, 5"),
    ],
)
def test_a_size_that_the_site_file_refuses_says_what_it_was_computed_from(changes: list[str], expected: str) -> None:
    with pytest.raises(SiteError) as raised:
        complete(base("h100").changed(changes))
    (problem,) = raised.value.problems
    assert problem.path == ("room", "rpps_per_row")
    assert expected in problem.expected
    assert re.search(
        r"^\d+, computed and not in the file: room.rpps_per_row \d+, as few .*; SPACE-RPP: ", problem.found
    )
    given = ", ".join(sorted(one.replace("=", ": ") for one in changes))
    assert problem.do.startswith(f"change a value of the site file ({given}), or of its reference designs (electrical.")


SMALL_ROOMS = st.lists(
    st.sampled_from([one for one in BREAKS if one.startswith(("room", "electrical", "power"))]), max_size=3
)


@settings(max_examples=5, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(("h100", "b200")), SMALL_ROOMS)
@example("b200", ["electrical.panels.rating_a=60", "room.racks_per_row=4"])
def test_what_the_site_file_takes_and_its_sizes_break_is_never_said_of_the_file(name: str, changes: list[str]) -> None:
    try:
        site = base(name).changed(changes)
    except SiteError:
        return
    assert all("computed and not in the file" in one.found for one in problems_of_sizes(site))


def problems_of_sizes(site: Site) -> tuple[Problem, ...]:
    """What is wrong with the site when its sizes are worked out."""
    try:
        complete(site)
    except SiteError as error:
        return error.problems
    return ()


@pytest.mark.parametrize("name", FIRST)
def test_a_first_plan_rides_through_a_loss_of_the_utility(name: str) -> None:
    """Air is counted to what the servers permit; a store carries the coils of the hall, and it is no larger than asked for."""
    plan = first_plan(name)
    ride, figures = plan.site.cooling.ride_through, plan.cooling_figures
    assert ride is not None
    assert not [one for one in plan.findings if one.id in ("COOLING-RIDE-THROUGH", "COOLING-INLET-TRIP")]
    if plan.site.cooling.kind == "air":
        span = plan.site.catalog.device(plan.site.server.model).bringup.inlet_c
        assert span is not None
        assert ride.trip_c == span.max
    flow_l_s = figures[(figures["item"] == "plant") & (figures["quantity"] == "facility water")]["value"].iloc[0]
    away_s = figures[figures["quantity"] == "without cooling after a loss of utility"]["value"].iloc[0] * 60
    assert 0 < ride.storage_m3 <= 2 * flow_l_s * away_s / 1000


def test_a_warm_supply_is_said_by_the_supply_and_not_by_a_trip_that_nobody_wrote() -> None:
    site = parse_site(f"{text_of('h100')}cooling: {{supply_c: 31}}\n")
    found = {one.id: one for one in build(site, what_ifs=False).findings}
    assert found["COOLING-INLET"].limit == 30
    assert "COOLING-INLET-TRIP" not in found
    assert origin_of(site, ("cooling", "ride_through", "trip_c")).source.startswith("5 K above the supply air")


def test_at_altitude_ride_through_counts_to_less_than_the_catalogue_has() -> None:
    high, low = (
        build(parse_site(f"{text_of('h100')}room: {{altitude_m: {metres}}}\n"), what_ifs=False)
        for metres in (1900, 900)
    )
    minutes = [
        float(frame.loc[frame["quantity"] == "no cooling, air and metal", "value"].iloc[0])
        for frame in (high.cooling_figures, low.cooling_figures)
    ]
    assert minutes[0] < minutes[1]
    assert not [one for one in high.findings if one.id == "COOLING-INLET-TRIP"]


def circuits_of(text: str) -> tuple[Any, ...]:
    """Breakers and PDUs of racks of switches and storage of a first site with these lines."""
    power = complete(parse_site(f"{text_of('h100')}{text}")).power
    return tuple(
        (power.circuit(f"{use}_circuit").breaker_a, power.pdu_model(use)) for use in ("rack", "network", "storage")
    )


def test_racks_of_switches_and_storage_have_the_lightest_circuits_that_carry_them() -> None:
    large, light = (60, "rack-pdu-60a-415v"), (30, "rack-pdu-30a-415v")
    assert circuits_of("") == (large, light, (20, "rack-pdu-30a-415v"))


def test_circuits_of_switches_are_as_large_as_their_load_before_a_supply_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    def rack_power(site: Site, catalog: Catalog, built: stages.Built) -> tuple[stages.Built, list[Finding]]:
        seen.append(site.power.circuit("network_circuit").breaker_a)
        return stages.rack_power(site, catalog, built)

    with_eye = tuple(rack_power if one is stages.rack_power else one for one in sized.SUPPLY)
    monkeypatch.setattr(sized, "SUPPLY", with_eye)
    complete(parse_site(text_of("h100")))
    assert set(seen) == {30}


@pytest.mark.parametrize(
    ("power", "network"),
    [
        ("{network_circuit: {breaker_a: 40}}", (40, "rack-pdu-60a-415v")),  # its PDUs are those of the other racks
        ("{network_circuit: null}", (60, "rack-pdu-60a-415v")),
        ("{rack_pdu: {model: rack-pdu-60a-415v}}", (60, "rack-pdu-60a-415v")),
    ],
)
def test_circuits_and_pdus_that_the_file_states_are_kept(power: str, network: tuple[int, str]) -> None:
    assert circuits_of(f"power: {power}\n")[1] == network


def test_circuits_whose_lines_nobody_looked_at_are_sized_by_their_load_alone() -> None:
    """And no line current is made up for them."""
    site = complete(parse_site(text_of("h100")))
    built: stages.Built = {"assets": load_assets(site), "baseline": None, "trials": None}
    for stage in (stages.fabric, stages.storage, stages.devices, stages.places, sized.panel_places):
        built = {**built, **stage(site, site.catalog, built)[0]}
    loads = built["circuit_loads"]
    needed_a = breakers.least_a(site, loads)
    assert "worst_phase_a" not in loads
    assert 0 < needed_a < breakers.least_a(site, loads.assign(worst_phase_a=needed_a + 1))
