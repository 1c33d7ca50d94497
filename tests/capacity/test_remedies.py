"""Each remedy that a plan prints, applied: the finding goes, and no new error comes. No part of its values does as much."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from capacity.build import build
from capacity.kept import Kept
from capacity.least import Fault, Tried, parts
from capacity.model import Plan
from capacity.remedies import Trial, applied, cheapest, fixes, proved, stands_against, tried
from capacity.sizes import complete
from inventory.findings import Finding, Remedy
from inventory.site import Site, parse_site, site_names
from inventory.site.loading import load_site
from tests.capacity.broken_sites import base, broken
from tests.capacity.random_sites import Drawn, sites
from tests.first_sites import FIRST, first_plan, first_site, text_of
from tests.plans import plan_of
from tests.seed import SEED


def false_remedies(site: Site) -> list[str]:
    """`false_remedies_of` the site's plan, as the planner has it before they are tried."""
    kept = Kept(most=2)
    return false_remedies_of(build(site, kept=kept), kept)


def false_remedies_of(plan: Plan, kept: Kept, id_: str = "") -> list[str]:
    """What does not mend of the remedies of a plan, and what mends with a part of its values, one of each kind: finding and keys;
    `id_`: of this finding alone.
    """
    site, found, seen = plan.site, [], set()
    for one in plan.findings:
        for way in one.remedies:
            kind = (one.id, *way.settings)
            if not way.settings or kind in seen or id_ not in ("", one.id):
                continue
            seen.add(kind)
            trial = tried(plan, one, way, kept)
            enough = next(
                (part for part in parts(way.settings) if tried(plan, one, Remedy(part, ""), kept).resolves), None
            )
            if not trial.resolves or enough is not None:
                why = trial.error or ("the finding stays" if trial.stays else f"new: {', '.join(trial.new)}")
                why = f"a part is enough: {enough}" if trial.resolves else why
                found.append(
                    f"{' '.join(site.changes)} {site.name}: {one.id} {one.subject}: {dict(way.settings)}: {why}"
                )
    return found


@pytest.mark.parametrize(
    ("after", "stays"),
    [
        (["r01", "r02"], True),
        (["r03", "r02"], True),  # another rack has it in place of the first
        (["r02"], False),
        ([], False),
    ],
)
def test_a_finding_of_another_subject_in_its_place_is_not_mended(
    monkeypatch: pytest.MonkeyPatch, after: list[str], stays: bool
) -> None:
    plan = first_plan("h100")
    one = Finding(id="POWER-CIRCUIT", severity="error", subject="r01", message="over", limit=None, limit_source="")

    def with_subjects(subjects: list[str]) -> Plan:
        return replace(plan, findings=tuple(replace(one, subject=subject) for subject in subjects))

    monkeypatch.setattr("capacity.remedies.planned", lambda site, **options: with_subjects(after))
    trial = tried(with_subjects(["r01", "r02"]), one, Remedy({"rack.servers": 3}, ""))
    assert trial.stays is stays
    assert trial.resolves is not stays


LONG = ("h100-1000-ib", "lab-metal")
"""The slowest sites, in `make soak` only. `make test` has another site with InfiniBand and air cooling (h100), and site lab."""


@pytest.mark.parametrize(
    "name",
    [*FIRST, *(pytest.param(name, marks=[pytest.mark.soak] if name in LONG else []) for name in site_names())],
)
def test_the_remedies_of_a_sound_site_mend(name: str) -> None:
    assert not false_remedies(first_site(name) if name in FIRST else load_site(name))


@pytest.mark.parametrize("seed", range(2))
def test_the_remedies_of_broken_sites_mend(seed: int) -> None:
    assert not [line for site in broken(seed, 2) for line in false_remedies(site)]


@pytest.mark.parametrize(
    ("name", "settings", "id_"),
    [
        ("gb300", ["room.altitude_m=2500"], "COOLING-RACK-AIR"),
        ("gb300", ["inband.spines=1", "storage.read_gb_s_per_gpu=5"], "STORAGE-NETWORK"),
        ("lab", ["power.rack_circuit.breaker_a=20"], "POWER-PDU-LOAD"),
        (
            "b200",
            ["cooling.supply_c=30", "power.feeds=[A]"],
            "POWER-PDU-LOAD",
        ),  # rack PDUs, and switches that follow by themselves
        ("b200", ["room.rpps_per_row=0"], "SPACE-RPP"),
        ("lab", ["room.rpps_per_row=0"], "SPACE-RPP"),  # the racks have room behind the panels
        ("h100", ["room.floor_load_kg_m2=400"], "SPACE-FLOOR-LOAD"),  # racks of storage are above it too
        ("lab", ["rack.servers=6", "limits.pdu_load_pct.value=20"], "POWER-PDU-LOAD"),  # panels on all places of a row
    ],
)
def test_remedies_that_did_not_mend_once_do(name: str, settings: list[str], id_: str) -> None:
    """Found by the run of the day."""
    kept = Kept(most=2)
    plan = build(complete(base(name).changed(settings)), kept=kept)
    assert any(one.id == id_ for one in plan.findings)
    assert not false_remedies_of(plan, kept, id_)


def test_a_remedy_counts_the_sizes_that_follow_from_it() -> None:
    """At 415 V the panels are others, and with them what each transformer carries."""
    site = complete(base("b200").changed(["power.voltage_v=208", "electrical.transformers.kva=100"]))
    plan = build(site)
    ((one, way),) = [
        (one, way) for one in plan.findings if one.id == "POWER-VOLTAGE" for way in one.remedies if way.settings
    ]
    assert way.settings.keys() == {"power.voltage_v", "electrical.transformers.kva"}
    assert tried(plan, one, way).resolves


WEAK_DOOR = [
    "room.rows=8",
    *(f"cooling.air.{one}" for one in ("kind=rear_door", "path=room", "sensible_kw=20", "airflow_m3_s=1.2")),
]


@pytest.mark.parametrize(
    ("name", "settings", "id_", "keys"),
    [
        (
            "h100-1000-ib",
            ["storage.block=lustre-hdd-60", "storage.rebuild_limit_h=12"],
            "STORAGE-REBUILD",
            {"storage.block"},
        ),
        ("gb300", ["cooling.coolant.loop.branch_bore_mm=25"], "COOLING-HEAD", {"cooling.coolant.rise_k"}),
        ("gb300", ["cooling.coolant.loop.branch_bore_mm=25"], "COOLING-HEAD", {"cooling.coolant.loop.branch_bore_mm"}),
        ("h100", ["cooling.plant.water_c=18"], "COOLING-COIL", {"cooling.plant.water_c"}),
        ("b200-256-roce", WEAK_DOOR, "COOLING-DOOR", {"rack.servers", "rack.power_limit_kw", "oob.switches"}),
        (
            "lab",
            ["electrical.rack_conductor.length_m=300"],
            "POWER-VOLTAGE-DROP",
            {"electrical.rack_conductor.r_ohm_km"},
        ),
        ("h100-1000-ib", [], "OS-END-OF-SUPPORT", {"limits.os_eol_min_months.value"}),
    ],
)
def test_what_was_said_in_words_is_a_value_that_mends(name: str, settings: list[str], id_: str, keys: set[str]) -> None:
    kept = Kept(most=2)
    plan = build(complete(base(name).changed(settings)), kept=kept)
    offered = [set(way.settings) for one in plan.findings if one.id == id_ for way in one.remedies]
    assert keys in offered
    assert not false_remedies_of(plan, kept, id_)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_the_remedies_of_100_broken_sites_of_the_day_mend(part: int) -> None:
    assert not [line for site in broken(SEED * 10 + part, 10) for line in false_remedies(site)]


def assert_proved(drawn: Drawn) -> None:
    """Of the plan that `bringup plan` prints every remedy mends, and no finding lost its words."""
    kept = Kept(most=2)
    plan = build(drawn.site, kept=kept)
    printed = proved(plan, kept)
    assert [one.remedies == () for one in printed.findings] == [one.remedies == () for one in plan.findings]
    assert not false_remedies_of(printed, kept)


DRAW = settings(phases=(Phase.generate,), deadline=None, database=None, suppress_health_check=list(HealthCheck))
"""A failing site is shown as drawn: each trial of a smaller one would be dozens of plans."""


@pytest.mark.soak
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("name", ["h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid"])
def test_the_remedies_of_random_sites_of_the_day_mend_as_they_are_printed(name: str, part: int) -> None:
    run = settings(DRAW, max_examples=8)(given(sites(name))(assert_proved))
    seed(SEED * 10 + part)(run)()


@pytest.mark.parametrize(
    ("fault", "settings", "text"),
    [
        (Fault(new=("OOB-PORTS", "SPACE-ROOM")), {}, "rack.servers: 3 (brings OOB-PORTS, SPACE-ROOM)"),
        (Fault(stays=True), {}, "rack.servers: 3 (not enough alone)"),
        (Fault(refused=True), {}, "rack.servers: 3 (refused by the site file)"),
        (Fault(new=("OOB-PORTS",)), {"rack.servers": 3, "oob.switches": 5}, "rack.servers: 3 with oob.switches: 5"),
        (Fault(), {"rack.servers": 3}, "rack.servers: 3"),
    ],
)
def test_a_remedy_that_does_not_mend_says_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, fault: Fault, settings: dict[str, int], text: str
) -> None:
    monkeypatch.setattr(Tried, "fault", lambda *_: fault)
    monkeypatch.setattr(Tried, "proved", lambda *_: settings or None)
    way = Remedy({"rack.servers": 3}, "rack.servers: 3")
    one = Finding("SPACE-RACK-U", "error", "r01", "Too high. Fix: rack.servers: 3.", remedies=(way,))
    (after,) = proved(replace(first_plan("h100"), findings=(one,))).findings
    assert after.message == f"Too high. Fix: {text}."
    assert [(dict(way.settings), way.text) for way in after.remedies] == [(settings, text)]


def test_a_remedy_that_the_site_file_refuses_is_not_printed_where_there_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Tried, "fault", lambda *_: Fault(refused=True))
    ways = (Remedy({"rack.servers": 99}, "rack.servers: 99"), Remedy({}, "a higher rack"))
    one = Finding("SPACE-RACK-U", "error", "r01", "Too high.", remedies=ways)
    (after,) = proved(replace(first_plan("h100"), findings=(one,))).findings
    assert after.message == "Too high. Fix: a higher rack."


def test_a_remedy_of_which_a_part_mends_is_that_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tried, "fault", lambda *_: Fault())
    monkeypatch.setattr(Tried, "proved", lambda *_: {"rack.servers": 3})
    ways = (
        Remedy({"rack.servers": 3, "room.rows": 2}, "fewer servers and more rows"),
        Remedy({"rack.servers": 3}, "rack.servers: 3"),
    )
    one = Finding("SPACE-RACK-U", "error", "r01", "Too high.", remedies=ways)
    (after,) = proved(replace(first_plan("h100"), findings=(one,))).findings
    assert [way.text for way in after.remedies] == ["rack.servers: 3"]


def test_what_is_sure_costs_a_first_plan_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tried, "fault", None)
    for name in FIRST:
        plan = first_plan(name)
        plan = replace(
            plan, findings=tuple(one for one in plan.findings if one.id != "FABRIC-SMALL")
        )  # tried at few servers
        assert proved(plan) is plan


SMALL_HALL = text_of("h100").replace("firm_mva: 1.2", "firm_mva: 0.6") + "oob: {switches: 1}\nroom: {rows: 1}\n"


def test_fixes_leave_no_error_that_the_site_file_can_mend() -> None:
    plan = build(complete(parse_site(SMALL_HALL)))
    found = fixes(plan)
    assert stands_against(plan)
    assert not stands_against(found.plan)
    assert found.settings.keys() == found.because.keys()
    assert {"oob.switches", "electrical.utility.firm_mva"} < found.settings.keys()
    assert found.settings.keys() & {"room.rows", "room.racks_per_row"}
    assert not stands_against(build(applied(plan.site, found.settings)))
    for part in parts(found.settings):
        assert len(part) < len(found.settings) - 1 or stands_against(build(applied(plan.site, part)))


def test_a_sound_plan_needs_no_fix() -> None:
    plan = build(first_site("h100"))
    assert not fixes(plan).settings
    assert fixes(plan).plan is plan


def costing(plan: Plan, factor: float, **settings: int) -> Trial:
    """A remedy that resolves, and with which all prices are `factor` times as high."""
    dearer = replace(plan, bom=plan.bom.assign(cost=plan.bom["cost"] * factor))
    made = {key.replace("__", "."): value for key, value in settings.items()}
    return Trial(Finding("SPACE-ROOM", "error", "room", ""), Remedy(made, ""), dearer)


def test_of_remedies_that_mend_the_one_that_adds_least_to_the_bill_is_taken() -> None:
    plan = plan_of("h100-1000-ib")
    assert plan.bom["cost"].sum() > 0
    more, less = costing(plan, 1.2, oob__switches=9), costing(plan, 1.1, room__rows=9)
    assert cheapest([more, less], plan) is less


def test_a_remedy_that_gives_something_up_is_taken_last_though_it_lowers_the_bill() -> None:
    plan = plan_of("h100-1000-ib")
    more, less = costing(plan, 1.2, oob__switches=9), costing(plan, 0.5, server__count=8)
    assert cheapest([less, more], plan) is more


def test_without_prices_the_stated_order_of_cost_stands() -> None:
    plan = build(first_site("h100"))
    plan = replace(plan, bom=plan.bom.assign(cost=0.0, price_source=""))
    rows, switches = costing(plan, 1.0, room__rows=9), costing(plan, 1.0, oob__switches=9)
    assert cheapest([rows, switches], plan) is switches
