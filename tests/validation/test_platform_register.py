"""The platform's register: read with the 195 steps on a site of Kubernetes alone, and counted apart wherever a verdict is shown."""

import dataclasses
import io
import json
from collections.abc import Callable

import pytest
from rich.console import Console

from inventory.site import Site
from tests.validation.bench import NOW, SmallPlan
from validation import freeze
from validation.evidence import Contents, Record
from validation.evidence.record import from_statement, to_statement
from validation.gate_report import as_json, print_verdict, render_page
from validation.junit import junit_of
from validation.program import checks_of_items
from validation.register import Register, load_register, of_platform, register_for
from validation.runners.engine import failed_items
from validation.verdict import GATE_ITEM, Verdict, judge
from validation.waive import Waiver, asked_of, refused

LEAST = 12
"""Items that issue 16 asks for."""
OF_SEVERAL = ("P-08.measured", "P-09.measured")


@pytest.fixture(scope="module")
def kubernetes_site(lab_site: Site) -> Site:
    return lab_site.model_copy(
        update={"scheduler": lab_site.scheduler.model_copy(update={"kind": "kubernetes", "accounts": ()})}
    )


@pytest.fixture(scope="module")
def whole(kubernetes_site: Site) -> Register:
    return register_for(kubernetes_site)


def judged(site: Site, *, rehearsal: bool = False) -> Verdict:
    made = register_for(site)
    checked = checks_of_items(site.scheduler.kind)
    return judge(made, SmallPlan(site), Contents(()), (), NOW, rehearsal=rehearsal, checked=checked)


def test_a_site_with_kubernetes_has_the_platforms_items_after_all_others(whole: Register) -> None:
    names = list(whole.items)
    apart = [name for name in names if of_platform(name)]
    assert len(apart) >= LEAST
    assert names == [*load_register().items, *apart]
    assert [step.applies for step in whole.steps.values() if of_platform(step.id)] == ["kubernetes"] * 19


def test_another_site_has_none_of_them(lab_site: Site) -> None:
    assert register_for(lab_site) == load_register()
    assert not any(map(of_platform, load_register().items))
    verdict = judged(lab_site)
    assert not verdict.platform
    assert not [item for item in verdict.items if of_platform(item.item)]
    page = render_page(verdict, register_for(lab_site))
    assert "platform" not in as_json(verdict, register_for(lab_site))
    assert "Kubernetes platform" not in page
    assert "Kubernetes platform" not in terminal(verdict, register_for(lab_site))


def terminal(verdict: Verdict, register: Register) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_verdict(verdict, register, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_gate_names_them_and_counts_them_apart(kubernetes_site: Site, whole: Register) -> None:
    verdict = judged(kubernetes_site)
    apart = [item for item in verdict.items if of_platform(item.item)]
    assert sum(verdict.platform.values()) == len(apart)
    assert sum(verdict.counts.values()) == len(load_register().items)
    data = json.loads(json.dumps(as_json(verdict, whole)))
    assert data["platform"]["items"] == [item.item for item in apart]
    assert data["platform"]["counts"] == {"missing": len(apart) - len(OF_SEVERAL), "not_applicable": len(OF_SEVERAL)}
    assert sum(data["counts"].values()) == len(load_register().items)
    assert not set(data["missing"]["no_check"] + data["missing"]["evidence"]) & {item.item for item in apart}
    page, text = render_page(verdict, whole), terminal(verdict, whole)
    assert f"Kubernetes platform: {len(apart)} items, counted apart from the 195 steps" in page
    assert f"Kubernetes platform, {len(apart)} items apart: {len(apart) - len(OF_SEVERAL)} missing" in text
    assert "Kubernetes platform (P-)" in text
    for item in apart:
        assert f'<td class="id row">{item.item}</td>' in page
        assert item.item in junit_of(data)


def test_every_item_of_the_platform_has_a_check(kubernetes_site: Site, whole: Register) -> None:
    verdict = judged(kubernetes_site)
    assert {name for name in whole.items if of_platform(name)} <= checks_of_items("kubernetes").keys()
    assert as_json(verdict, whole)["platform"]["missing"]["no_check"] == []
    assert "no check can prove it yet" not in render_page(verdict, whole).partition("Kubernetes platform (P-)")[2]


def test_a_check_of_one_workload_manager_is_none_of_a_site_with_the_other(
    lab_site: Site, kubernetes_site: Site
) -> None:
    known = checks_of_items("kubernetes")
    assert "S164.measured" in known
    assert "S164.measured" not in checks_of_items("slurm")
    assert {"S097.computed", "S034.measured", "S157.applied"} <= known.keys()
    assert "S164.measured" in judged(lab_site).no_check
    assert "S164.measured" not in judged(kubernetes_site).no_check


def test_the_lab_exercises_more_of_other_items_with_kubernetes(whole: Register) -> None:
    item, alone = whole.items["S164.measured"], load_register().items["S164.measured"]
    assert (alone.lab_exercisable, item.lab_exercisable) == (False, True)
    assert dataclasses.replace(alone, lab_exercisable=True, lab_reason="") == item


def test_go_live_waits_for_them(kubernetes_site: Site) -> None:
    (own,) = [item for item in judged(kubernetes_site).items if item.item == GATE_ITEM]
    assert "18 of the platform" in own.detail


def test_items_about_several_controllers_do_not_apply_to_a_site_with_one(kubernetes_site: Site) -> None:
    found = {item.item: item.detail for item in judged(kubernetes_site).items if item.item in OF_SEVERAL}
    assert found == dict.fromkeys(OF_SEVERAL, "the plan has no redundant controllers")


def test_a_rehearsal_names_what_it_does_not_exercise(kubernetes_site: Site, whole: Register) -> None:
    verdict = judged(kubernetes_site, rehearsal=True)
    exercised = {name for name in whole.exercised_items() if of_platform(name)}
    for item in verdict.items:
        if of_platform(item.item):
            assert (item.status == "not_exercised") == (item.item not in exercised)
            assert item.detail


def test_what_a_rehearsal_exercises_has_a_check_and_the_other_way_round(whole: Register) -> None:
    exercised = {name for name in whole.exercised_items() if of_platform(name)}
    assert exercised == {name for name in checks_of_items() if of_platform(name)}


def test_what_no_check_asks_on_a_site_an_external_report_closes(
    lab_site: Site, kubernetes_site: Site, whole: Register
) -> None:
    plan, alone = SmallPlan(kubernetes_site), load_register()
    assert asked_of(alone, alone.items["S164.measured"], SmallPlan(lab_site)) == []
    assert asked_of(whole, whole.items["S164.measured"], plan) == ["lab"]
    assert asked_of(whole, whole.items["P-05.measured"], plan) == ["lab"]
    assert asked_of(whole, whole.items["S097.computed"], plan) == ["lab"]


def test_records_and_waivers_of_them_are_taken(
    record: Callable[..., Record], whole: Register, kubernetes_site: Site
) -> None:
    made = record("P-01.measured", subject="lab")
    assert from_statement(to_statement(made))[0].item == "P-01.measured"
    waiver = Waiver("P-01.measured", "lab", "Jane", NOW.replace(year=NOW.year + 1), "in a week")
    assert refused(whole, waiver, NOW, ["lab"], ["lab"]) is None
    assert "no item P-01.measured" in str(refused(load_register(), waiver, NOW, ["lab"], ["lab"]))
    assert failed_items("bringup: P-12.measured: 7 of 8 GPUs") == ["P-12.measured"]


def test_a_freeze_holds_their_file_where_they_apply(whole: Register) -> None:
    assert freeze.PLATFORM in freeze.tables_of(whole)
    assert freeze.PLATFORM not in freeze.tables_of(load_register())
    item = whole.items["P-01.measured"]
    assert f"program.{freeze.PLATFORM}#P-01.measured" in freeze.inputs_of("validation/gate.py", item, whole, "")
    changed = dataclasses.replace(
        whole, steps={**whole.steps, "P-01": dataclasses.replace(whole.steps["P-01"], title="x")}
    )
    assert freeze.item_digest(changed, item) != freeze.item_digest(whole, item)
