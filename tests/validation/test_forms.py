"""Fields of attestation forms: each refuses what it may not say, readings are compared, and rows of the plan make them stale."""

import dataclasses
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity.model import Plan
from inventory.site import Site
from tests.plans import plan_of
from tests.validation.bench import NOW, form_of
from validation import forms
from validation.evidence import Entry, Record
from validation.evidence.store import Contents
from validation.forms import COMPARED, ROWS, Field, fields
from validation.register import Item, Register
from validation.verdict import judge

WRONG: Mapping[str, tuple[Any, ...]] = {
    "number": ("12 V", "n/a", True, float("nan"), float("inf"), 10**400, {"a": 1}),
    "count": (1.5, "3", -1, True),
    "day": ("yesterday", "2027-13-01", "27.02.2027", "20270227", 20270227.5, datetime(2027, 2, 27)),
    "result": ("ok", "yes", 1, ["passed"]),
    "serial": ("two words", "", "\x1b[2J", "x" * 65, 1.5, 42798),
    "text": ("\x1b[2J", ["a\x1b[31m"], "two\nlines", "   ", True and [""], {"a": None}),
}


def attested(register: Register) -> list[Item]:
    return [item for item in register.items.values() if item.kind == "attested"]


def test_each_field_of_each_form_has_its_kind(register: Register) -> None:
    asked = {name for item in attested(register) for name in item.form}
    assert asked <= set(fields())
    assert set(fields()) - asked <= {"calibration", "expiry"}


def test_each_form_of_the_register_can_be_filled_in(register: Register) -> None:
    for item in attested(register):
        assert forms.faults(item, form_of(item), ("one",)) == [], item.id


def wrong_of(field: Field) -> list[Any]:
    """Values that a field may not have; empty ones are asked for elsewhere."""
    found = [one for one in WRONG[field.kind] if one not in forms.EMPTY]
    if field.kind in ("number", "count"):
        found += [field.least - 1, field.most + 1]
    if field.kind == "text":
        return found
    return found


def test_each_field_of_each_form_refuses_each_wrong_value(register: Register) -> None:
    for item in attested(register):
        form = form_of(item)
        for name in item.form:
            field = fields()[name]
            for value in wrong_of(field):
                given = [value] if field.many and not isinstance(value, list | dict) else value
                said = forms.faults(item, {**form, name: given}, ("one",))
                assert any(name in one for one in said), (item.id, name, value)


def test_a_field_of_several_assets_has_one_value_for_each(register: Register) -> None:
    item = register.items["S049.attested"]
    form = form_of(item)
    two = ("leaf01", "leaf02")
    said = forms.faults(item, form, two)
    assert {one.split()[0].rstrip(":") for one in said} == {"serial", "rack_unit"}
    each = {"serial": {"leaf01": "A1", "leaf02": "A2"}, "rack_unit": {"leaf01": 40, "leaf02": 41}}
    assert forms.faults(item, form | each, two) == []
    assert forms.of_subject(form | each, "leaf02") == form | {"serial": "A2", "rack_unit": 41}
    wrong = {**each, "rack_unit": {"leaf01": 40, "leaf02": "top"}}
    assert forms.faults(item, form | wrong, two) == ["rack_unit of leaf02 'top' expected a number, 1 to 100"]
    for odd in ({"leaf01": "A1"}, {"leaf01": "A1", "leaf02": "A2", "leaf03": "A3"}):
        assert "serial: expected one value for each" in forms.faults(item, form | each | {"serial": odd}, two)[0]


@pytest.mark.parametrize(
    ("item", "changes", "why"),
    [
        ("S091.attested", {"calibration": "2027-02-28"}, "calibration 2027-02-28 lies after the act"),
        ("S091.attested", {"calibration": "2024-02-01"}, "is more than 731 days before the act"),
        ("S193.attested", {"expiry": "2027-01-01"}, "expiry 2027-01-01 lies before the act"),
        ("S091.attested", {"date": "2026-01-31"}, "date 2026-01-31 lies before the first day of the site, 2026-02-01"),
        ("S085.attested", {"trip_test": "failed at 5 In"}, "outcome is passed, and trip_test failed"),
        ("S111.attested", {"drop_kpa": 20, "pressure_kpa": 10}, "drop_kpa 20 is more than pressure_kpa 10"),
        ("S089.attested", {"mismatches": 3, "sample_size": 2}, "mismatches 3 is more than sample_size 2"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(
    register: Register, item: str, changes: dict[str, Any], why: str
) -> None:
    one = register.items[item]
    form = form_of(one) | {"outcome": "passed"}
    assert forms.faults(one, form, ("one",), date(2026, 2, 1)) == []
    assert any(why in said for said in forms.faults(one, form | changes, ("one",), date(2026, 2, 1)))


# -- plan, site file and asset list ----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def lab() -> Plan:
    return plan_of("lab")


def right(lab: Plan, item: str) -> dict[tuple[str, str], tuple[str, Any, Any]]:
    """For each compared field a subject, what it should say, and what it must not."""
    circuit, switch = lab.circuits.iloc[0], "leaf01"
    place = int(lab.placements.loc[lab.placements["device"] == switch, "u_bottom"].iloc[0])
    ups, generator = lab.site.ups, lab.site.generator
    return {
        ("S013.attested", "chassis_serial"): ("gpu001", "SN-7", "SN-8"),
        ("S015.attested", "chassis_serial"): ("gpu001", "SN-7", "SN-8"),
        ("S049.attested", "serial"): (switch, "sn-7", "SN-8"),
        ("S049.attested", "rack_unit"): (switch, place, place + 1),
        ("S050.attested", "serial"): (switch, "SN-7", "SN-8"),
        ("S050.attested", "rack_unit"): (switch, place, place + 1),
        ("S078.attested", "autonomy_min"): ("lab", ups.autonomy_min, ups.autonomy_min - 0.1),
        ("S081.attested", "start_s"): ("lab", generator.start_s or 1, (generator.start_s or 1) + 0.1),
        ("S081.attested", "ride_through_margin_s"): ("lab", ups.margin_s, ups.margin_s - 1),
        ("S085.attested", "rating_a"): (circuit["circuit"], circuit["breaker_a"], circuit["breaker_a"] + 3),
    }


@pytest.mark.parametrize("key", COMPARED, ids=" ".join)
def test_a_reading_other_than_planned_or_listed_is_refused(lab: Plan, register: Register, key: tuple[str, str]) -> None:
    generator = lab.site.generator.model_copy(update={"present": True, "start_s": 10.0})
    lab = dataclasses.replace(lab, site=lab.site.model_copy(update={"generator": generator}))
    item, name = register.items[key[0]], key[1]
    subject, good, bad = right(lab, item.id)[key]
    known = {"gpu001": ("SN-7",), "leaf01": ("SN-7",)}

    def said(value: Any, outcome: str = "passed") -> list[str]:
        all_right = {one: right(lab, item.id)[item.id, one][1] for i, one in COMPARED if i == item.id}
        form = form_of(item) | all_right | {name: value, "outcome": outcome}
        return forms.off_plan(item, form, (subject,), lab, known)

    assert said(good) == []
    assert [one for one in said(bad) if one.startswith(f"{name} of {subject} is ")]
    assert said(bad, "failed") == [], "a failed inspection says what was found"


# -- rows of the plan ------------------------------------------------------------------------------------------------------
def with_frame(plan: Plan, name: str, frame: pd.DataFrame) -> Plan:
    changed: dict[str, Any] = {name: frame}
    return dataclasses.replace(plan, **changed)


PLACES = {"circuits": "S085.attested", "racks": "S087.attested", "placements": "S014.attested"}


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_attestation_rests_on_its_own_rows_and_on_no_others(lab: Plan, data: st.DataObject) -> None:
    frame, column = data.draw(st.sampled_from(ROWS))
    table: pd.DataFrame = getattr(lab, frame)
    row = data.draw(st.integers(0, len(table) - 1))
    cell = data.draw(st.sampled_from([name for name in table.columns if name != column]))
    changed = table.copy()
    changed[cell] = changed[cell].astype(object)
    changed.iat[row, list(table.columns).index(cell)] = "another"
    other = with_frame(lab, frame, changed)
    own = table[column].iloc[row]
    subjects = {*lab.circuits["circuit"], *lab.racks["name"], *lab.placements["device"]}
    assert {one for one in subjects if forms.rows(lab, one) != forms.rows(other, one)} == {own}


@pytest.mark.parametrize("frame", PLACES)
def test_the_gate_calls_an_attestation_stale_whose_row_changed(
    lab: Plan, register: Register, real_site: Site, frame: str
) -> None:
    item = register.items[PLACES[frame]]
    plan = dataclasses.replace(lab, site=real_site)
    column = dict(ROWS)[frame]
    subjects = register.subjects(item, plan)
    records = [
        Record(
            item.step,
            "attested",
            one,
            "PASSED",
            NOW,
            NOW,
            "bringup attest",
            "1",
            form=form_of(item),
            inputs=forms.rows(plan, one),
        )
        for one in subjects
    ]
    only = dataclasses.replace(register, items={item.id: item, "S195.generated": register.items["S195.generated"]})

    def stale(now: Plan) -> set[str]:
        log = tuple(Entry(one, frozenset(), line, one.mode) for line, one in enumerate(records, 1))
        verdict = judge(only, now, Contents(log), (), NOW)
        found = next(one for one in verdict.items if one.item == item.id)
        return {one.subject for one in found.subjects if one.status == "stale"}

    assert stale(plan) == set()
    table = getattr(plan, frame).copy()
    at = list(table[column]).index(subjects[-1])
    number = table.select_dtypes("number").columns[0]
    table.iat[at, list(table.columns).index(number)] += 1
    assert stale(with_frame(plan, frame, table)) == {subjects[-1]}
    assert stale(dataclasses.replace(plan, cables=plan.cables.iloc[:0], outlets=plan.outlets.iloc[:0])) == set()
