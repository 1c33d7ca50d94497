"""Checks of the supply and the cooling fail where the plan is wrong, and not only where it has a finding."""

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.outputs.documents import installation
from capacity.outputs.documents import power as power_documents
from capacity.outputs.summary import summarise
from inventory.site import load_site
from inventory.site.whatif import changed
from tests.capacity.outputs.one_line import drawn_wrong
from tests.capacity.power.upstream.test_tree import with_electrical
from tests.capacity.sites import variant
from tests.plans import plan_of
from validation import readings
from validation.check import Outcome
from validation.checks import test_design as design
from validation.checks import test_electrical as electrical
from validation.checks import test_power as power
from validation.facts import Facts

Check = Callable[[str, Plan], Outcome]


def test_a_bill_with_fewer_ups_modules_than_the_blocks_take_fails() -> None:
    check = cast(Check, electrical.test_ups_modules_and_battery)
    plan = plan_of("h100-1000-ib")
    assert check(plan.site.name, plan).passed
    bill = plan.bom.assign(quantity=plan.bom["quantity"].where(plan.bom["item"] != "ups module", 24))
    outcome = check(plan.site.name, dataclasses.replace(plan, bom=bill))
    assert not outcome.passed
    assert outcome.detail == "12 blocks take 60 modules and the bill has 24"


def test_modules_of_blocks_that_stand_there_are_not_asked_of_the_bill() -> None:
    check = cast(Check, electrical.test_ups_modules_and_battery)
    plan = build(changed("b200-256-roce", ["electrical.ups_blocks.installed=1"]))
    assert "ups module" not in set(plan.bom["item"])
    assert check("", plan).passed
    twice = plan.bom.assign(item=plan.bom["item"].where(plan.bom.index > 0, "ups module"))
    outcome = check("", dataclasses.replace(plan, bom=twice))
    assert not outcome.passed
    assert outcome.detail.startswith("0 blocks beside the 3 that stand there take 0 modules and the bill has ")


def test_battery_seconds_with_a_fraction_are_no_contradiction() -> None:
    """The summary rounds to tenths of a second."""
    site = load_site("h100-1000-ib")
    given = site.generator.model_copy(update={"start_s": 10.04})
    outcome = cast(Check, electrical.test_ups_modules_and_battery)(
        "", build(site.model_copy(update={"generator": given}))
    )
    assert outcome.passed, outcome.detail


def test_without_a_load_flow_the_voltage_drop_is_not_zero_but_not_shown() -> None:
    plan = build(with_electrical("b200-256-roce", {"rack_conductor": {"r_ohm_km": 50.0, "length_m": 5000.0}}))
    outcome = cast(Check, electrical.test_feeders_carry_their_panels_within_the_voltage_drop)("", plan)
    assert not outcome.passed
    assert "POWER-FLOW" in outcome.detail
    assert "largest_drop_pct" not in summarise(plan)["electrical"]["panels"]
    assert "largest_drop_pct" in summarise(plan_of("b200-256-roce"))["electrical"]["panels"]


def test_a_load_flow_below_the_hand_formula_of_the_feeder_fails() -> None:
    check = cast(Check, electrical.test_feeders_carry_their_panels_within_the_voltage_drop)
    for name in ("h100-1000-ib", "lab"):
        plan = plan_of(name)
        assert check(name, plan).passed
        flat = plan.elements.assign(drop_pct=plan.elements["drop_pct"] * 0.9)
        outcome = check(name, dataclasses.replace(plan, elements=flat))
        assert not outcome.passed
        assert "the feeder alone takes" in outcome.detail


def test_a_profile_below_the_nameplate_fails_the_item_of_power_profiles() -> None:
    plan = build(variant("lab", power={"profile": "measured"}))
    outcome = cast(Check, design.test_server_power_profiles)("", plan)
    assert not outcome.passed
    assert "POWER-PROFILE" in outcome.detail


def test_a_pdu_that_reads_nothing_is_not_at_zero_load() -> None:
    check = cast(Callable[..., Outcome], power.test_both_pdus_of_a_rack_answer_below_half_load)
    plan = plan_of("lab")
    rack = str(plan.racks["name"].iloc[0])
    names = plan.circuits.loc[plan.circuits["rack"] == rack, "pdu"].tolist()
    read = {n: SimpleNamespace(error="", data={"power_w": 900.0}, identities=(), raw=b"") for n in names}
    assert check(rack, plan, cast(Facts, SimpleNamespace(pdus=read))).passed
    read[names[1]].data["power_w"] = None
    outcome = check(rack, plan, cast(Facts, SimpleNamespace(pdus=read)))
    assert not outcome.passed
    assert outcome.detail.startswith(f"no reading of the whole load from {names[1]}")


def test_a_circuit_is_judged_in_the_worst_failure_and_on_its_fullest_line() -> None:
    check = cast(Check, design.test_circuit_carries_its_worst_load)
    plan = plan_of("b200-256-roce")
    subject = str(plan.circuits["circuit"].iloc[0])
    assert check(subject, plan).passed
    failed = plan.elements.assign(worst_kw=plan.elements["worst_kw"].where(plan.elements["name"] != subject, 40.0))
    assert not check(subject, dataclasses.replace(plan, elements=failed)).passed
    lines = plan.circuits.assign(worst_phase_a=49.0)  # 60 A at 80 % carry 48 A
    outcome = check(subject, dataclasses.replace(plan, circuits=lines))
    assert not outcome.passed
    assert "49.0 A on one line" in outcome.detail


def test_phases_that_are_uneven_after_the_loss_of_a_feed_only_fail() -> None:
    check = cast(Check, design.test_phases_of_a_pdu_are_balanced)
    plan = plan_of("h100-1000-ib")
    subject = str(plan.circuits["pdu"].iloc[0])
    assert check(subject, plan).passed
    lost = dataclasses.replace(plan, circuits=plan.circuits.assign(loss_imbalance_pct=70.0))
    outcome = check(subject, lost)
    assert not outcome.passed
    assert "by 70.0 % after the loss of a feed" in outcome.detail


def observed_phases(amps: dict[str, list[float | None]]) -> Outcome:
    """S088.observed of the lab's first PDU of feed A, for the phases that each PDU of the feed reads."""
    check = cast(Callable[..., Outcome], power.test_phase_load_is_balanced)
    read = {
        name: SimpleNamespace(
            error="", data={"phases": [{"phase": i + 1, "amps": a} for i, a in enumerate(own)]}, identities=(), raw=b""
        )
        for name, own in amps.items()
    }
    lab = plan_of("lab")
    limit = lab.site.limits["board_imbalance_pct"].model_copy(update={"value": 10.0})
    site = lab.site.model_copy(update={"limits": {**lab.site.limits, "board_imbalance_pct": limit}})
    return check("pdu-r01-a", dataclasses.replace(lab, site=site), cast(Facts, SimpleNamespace(pdus=read)))


def test_rack_pdus_that_are_uneven_alone_and_even_on_their_panel_pass() -> None:
    outcome = observed_phases({"pdu-r01-a": [30.0, 20.0, 10.0], "pdu-r02-a": [10.0, 20.0, 30.0]})
    assert outcome.passed, outcome.detail
    assert cast(Any, outcome.value)["board"] == {"name": "rpp-A-01", "amps": [40.0, 40.0, 40.0], "imbalance_pct": 0.0}
    assert cast(Any, outcome.value)["imbalance_pct"] == pytest.approx(
        20 / 24 * 100, abs=0.1
    )  # of half of 48 A, not of 20 A


def test_phases_that_are_read_without_a_representative_load_are_not_judged_even() -> None:
    """The lab plans 12,095 W for this PDU: 3 x 8 A at 240 V are 5,751 W."""
    outcome = observed_phases({"pdu-r01-a": [8.0, 8.0, 8.0], "pdu-r02-a": [8.0, 8.0, 8.0]})
    assert not outcome.passed
    assert outcome.detail.startswith(
        "5,750 W are 47.5 % of the planned 12,095 W, representative is 50 % or more: read again"
    )
    assert observed_phases({"pdu-r01-a": [9.0, 9.0, 9.0], "pdu-r02-a": [9.0, 9.0, 9.0]}).passed


def test_the_neutral_carries_the_vector_sum_of_the_lines() -> None:
    assert readings.neutral_a([20.0, 20.0, 20.0]) == 0
    assert readings.neutral_a([20.0, 0.0, 0.0]) == 20
    assert readings.neutral_a([30.0, 20.0, 10.0]) == pytest.approx(17.32)
    outcome = observed_phases({"pdu-r01-a": [50.0, 0.0, 0.0], "pdu-r02-a": [0.0, 50.0, 50.0]})
    assert not outcome.passed
    assert "the neutral carries 50 A, its circuit 48 A" in outcome.detail
    assert cast(Any, outcome.value)["neutral_a"] == 50


def test_outlets_between_two_lines_have_no_neutral() -> None:
    lab = plan_of("lab")
    between = dataclasses.replace(lab, outlets=lab.outlets.assign(phase="L1-L2"))
    value, problems = readings.balance(between, "pdu-r01-a", [50.0, 0.0, 0.0], 50)
    assert (value["neutral_a"], problems) == (None, [])


def test_a_panel_whose_lines_differ_by_more_than_its_limit_fails() -> None:
    outcome = observed_phases({"pdu-r01-a": [30.0, 20.0, 10.0], "pdu-r02-a": [30.0, 20.0, 10.0]})
    assert not outcome.passed
    assert "the lines of rpp-A-01 by 44.4 % (limit 10 %" in outcome.detail  # 40 A of half of 180 A


def test_a_pdu_that_tells_nothing_fails_itself_and_not_the_others_of_its_panel() -> None:
    outcome = observed_phases({"pdu-r01-a": [20.0, 20.0, 20.0], "pdu-r02-a": [20.0, None, 20.0]})
    assert outcome.passed
    assert "the lines of rpp-A-01 are judged at pdu-r02-a, which does not tell" in outcome.detail
    silent = observed_phases({"pdu-r01-a": [20.0, None, 20.0], "pdu-r02-a": [20.0, 20.0, 20.0]})
    assert not silent.passed


def test_a_plan_whose_panel_is_uneven_fails_the_computed_item() -> None:
    check = cast(Check, design.test_phases_of_a_pdu_are_balanced)
    plan = plan_of("h100-1000-ib")
    subject = str(plan.circuits["pdu"].iloc[0])
    outcome = check(subject, dataclasses.replace(plan, outlets=plan.outlets.assign(phase="L1")))
    assert not outcome.passed
    assert "the lines of rpp-A-01 differ by" in outcome.detail
    assert "of all panels of feed A differ by" in outcome.detail


def test_a_conductor_that_nobody_judged_fails_the_item_of_feeders() -> None:
    bare = with_electrical("b200-256-roce", {"rack_conductor": {"ampacity_a": None, "ampacity_source": None}})
    outcome = cast(Check, electrical.test_feeders_carry_their_panels_within_the_voltage_drop)("", build(bare))
    assert not outcome.passed
    assert "POWER-CONDUCTOR" in outcome.detail


def test_a_lockout_sheet_that_leaves_a_breaker_closed_or_earths_too_early_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check, plan = cast(Check, electrical.test_lockout_sheets_cover_every_isolation_point), plan_of("b200-256-roce")
    assert check("", plan).passed
    sheets = installation.documents(plan)["lockout-sheets.csv"]
    closed = sheets.replace("tx-A-1 and swb-A-1", "tx-A-1 and its board")
    early = sheets.replace("Prove the tester on a known", "Earth and prove the tester on a known")
    told = {
        "towards what can be alive, first tx-A-1 towards swb-A-1": closed,
        "earth before absence of voltage is proven": early,
    }
    for what, text in told.items():
        monkeypatch.setattr(installation, "document", lambda *_, text=text: text)
        outcome = check("", plan)
        assert not outcome.passed
        assert what in outcome.detail


SITES = ["lab", pytest.param("h100-1000-ib", marks=pytest.mark.soak), "b200-256-roce", "gb300-nvl72-liquid"]


@pytest.mark.parametrize("name", SITES)
def test_the_supply_of_a_shipped_site_hangs_together(name: str) -> None:
    plan = plan_of(name)
    outcome = cast(Check, electrical.test_one_line_and_panel_schedules_show_the_whole_supply)("", plan)
    assert outcome.passed, outcome.detail
    assert cast(dict[str, int], outcome.value)["circuits"] == len(plan.circuits)


@pytest.mark.parametrize(
    ("name", "column", "now", "detail"),
    [
        ("rpp-A-01", "load_kw", 1.0, "the circuits of rpp-A-01 do not add up to its load"),
        ("pdutx-A-1", "upstream", "", "hang on no source, first cb-r01-a ends at pdutx-A-1"),
        ("pdutx-A-1", "upstream", "rpp-A-01", "hang on no source, first cb-r01-a ends at a circle"),
    ],
)
def test_a_supply_that_does_not_hang_together_fails(name: str, column: str, now: Any, detail: str) -> None:
    plan = plan_of("b200-256-roce")
    elements = plan.elements.copy()
    elements.loc[elements["name"] == name, column] = now
    check = cast(Check, electrical.test_one_line_and_panel_schedules_show_the_whole_supply)
    outcome = check("", dataclasses.replace(plan, elements=elements))
    assert not outcome.passed
    assert detail in outcome.detail


@pytest.mark.parametrize("name", SITES)
def test_what_can_be_alive_beside_an_element_is_counted_as_the_lockout_sheets_do(name: str) -> None:
    elements = plan_of(name).elements
    behind, sources = power_documents.fed_back(elements), power_documents.sources_of(elements)
    by_sheets = {one: {*given, *behind.get(one, [])} for one, given in zip(elements["name"], sources, strict=True)}
    assert {one: set(others) for one, others in electrical.alive_beside(elements).items()} == by_sheets


@pytest.mark.parametrize("name", SITES)
def test_the_one_line_diagram_shows_the_whole_supply(name: str) -> None:
    plan = plan_of(name)
    assert drawn_wrong(plan, installation.documents(plan)["one-line.svg"])[0] == []


@pytest.mark.parametrize(
    ("was", "now", "detail"),
    [
        (">mv-A  ", ">mv-Z  ", "mv-A is not drawn"),
        (">swb-B-1<", "><", "feed B: swb-B-1 is neither drawn nor counted"),
        ("rpp-A-01: 400", "rpp-A-02: 400", "rpp-A-02 is drawn with "),
        ("genbus-A: ", "genbus-Z: ", "genbus-A is not drawn; genbus-Z is drawn and the tree has none"),
    ],
)
def test_a_diagram_that_says_otherwise_than_the_tree_is_seen(was: str, now: str, detail: str) -> None:
    plan = plan_of("b200-256-roce")
    drawing = installation.documents(plan)["one-line.svg"]
    assert was in drawing
    assert detail in "; ".join(drawn_wrong(plan, drawing.replace(was, now))[0])


@pytest.mark.parametrize("name", SITES)
def test_the_panel_schedule_hangs_circuits_where_the_tree_does(name: str) -> None:
    plan = plan_of(name)
    back = design.read_document(installation.documents(plan)["panel-schedule.csv"])
    on = plan.elements.set_index("name").loc[plan.circuits["circuit"], "upstream"]
    assert dict(zip(back["circuit"], back["panel"], strict=True)) == on.to_dict()
    sums = back["load_kw"].astype(float).groupby(back["panel"]).sum()
    apart = (sums - plan.elements.set_index("name").loc[sums.index, "load_kw"]).abs()
    assert (apart <= 0.001 * back.groupby("panel").size()).all()
