"""The step register: complete, consistent, and honest about what the lab can exercise."""

import copy
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from typing import Any

import pytest
import yaml

from inventory.groups import GROUPS
from inventory.site import Site, load_site
from inventory.site.sections.acceptance import AttestRole
from inventory.yaml_data import read_data
from network.render import switches
from tests.plans import plan_of
from tests.validation.bench import SmallPlan
from validation import checks
from validation.checks import test_infiniband
from validation.register import (
    STEPS_FILE,
    Register,
    RegisterError,
    exercised_items,
    natural,
    of_platform,
    parse_register,
    site_value,
)


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    loaded: dict[str, Any] = read_data(STEPS_FILE)
    return loaded


def test_steps_run_from_1_to_195_without_gaps(register: Register) -> None:
    assert list(register.steps) == [f"S{number:03}" for number in range(1, 196)]


def test_items_per_kind_are_those_of_the_plan(register: Register) -> None:
    kinds = Counter(item.kind for item in register.items.values())
    assert kinds == {"computed": 53, "generated": 32, "applied": 68, "measured": 61, "observed": 39, "attested": 72}
    assert len(register.items) == 325


def test_every_step_has_an_item(register: Register) -> None:
    assert {item.step for item in register.items.values()} == set(register.steps)


def test_steps_per_folder_are_those_of_the_plan(register: Register) -> None:
    folders = Counter(step.folder for step in register.steps.values())
    assert folders == {"infra": 21, "playbooks": 41, "inventory": 20, "network": 22, "validation": 34, "capacity": 57}


def test_phases_have_the_sizes_of_the_plan(register: Register) -> None:
    phases = Counter(step.phase for step in register.steps.values())
    assert list(phases.values()) == [35, 35, 25, 25, 20, 25, 20, 10]


def test_every_step_is_in_one_of_fifteen_groups(register: Register) -> None:
    assert list(register.groups) == [f"D{number:02}" for number in range(15)]
    assert {step.group for step in register.steps.values()} == set(register.groups)


def test_groups_come_only_after_earlier_ones(register: Register) -> None:
    assert all(earlier < name for name, group in register.groups.items() for earlier in group.after)


def test_groups_are_owned_by_the_inventory_alone(register: Register) -> None:
    assert register.groups is GROUPS
    assert "groups" not in yaml.safe_load(STEPS_FILE.read_text())


def test_device_side_halves_close_later_in_the_groups_that_the_inventory_names(register: Register) -> None:
    late = {item.group for item in register.items.values() if item.closes_later}
    assert late
    assert late <= {name for name, group in GROUPS.items() if group.halves_later} == {"D00", "D01", "D02", "D03", "D04"}


def test_steps_that_only_people_can_prove(register: Register) -> None:
    kinds: dict[str, set[str]] = {}
    for item in register.items.values():
        kinds.setdefault(item.step, set()).add(item.kind)
    only = [step for step, found in kinds.items() if found == {"attested"}]
    assert only == [
        "S002",
        "S005",
        "S013",
        "S015",
        "S023",
        "S024",
        "S025",
        "S028",
        "S091",
        "S092",
        "S093",
        "S111",
        "S193",
    ]


def test_safety_items_need_two_signers_and_cannot_be_waived(register: Register) -> None:
    safety = [register.items[f"{step}.attested"] for step in ["S091", "S092", "S093", "S095", "S111", "S113"]]
    assert all(len(item.signers) == 2 and "safety-officer" in item.signers for item in safety)
    assert not any(item.waivable for item in safety)


def test_a_form_asks_for_each_field_once(register: Register) -> None:
    for item in register.items.values():
        assert len(set(item.form)) == len(item.form), item.id


def test_burn_in_lasts_at_least_48_hours(register: Register) -> None:
    floor = register.items["S034.measured"].floor
    assert floor is not None
    assert (floor.quantity, floor.minimum) == ("duration_h", 48)


def test_an_item_with_a_floor_cannot_be_waived(register: Register) -> None:
    assert not any(item.waivable for item in register.items.values() if item.floor)


def test_the_limits_that_a_step_states_are_known_and_have_one_bound_and_a_source(register: Register) -> None:
    floors = {item.id: item.limits for item in register.items.values() if item.limits}
    balance = {"S088.computed", "S088.observed"}
    assert {
        "S034.measured",
        "S054.applied",
        "S066.measured",
        "S143.applied",
        "S144.observed",
        "S176.measured",
    } | balance == set(floors)
    assert all((one.least is None) != (one.most is None) and one.source for limits in floors.values() for one in limits)


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": "time_offset_ms", "source": "x"},
        {"limit": "time_offset_ms", "min": 1, "max": 2, "source": "x"},
        {"limit": "time_offset_ms", "max": 1},
        {"limit": "no_such_limit", "max": 1, "source": "x"},
    ],
)
def test_a_limit_floor_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    data = read_data(STEPS_FILE)
    data["steps"] = [dict(step) for step in data["steps"]]
    data["steps"][0] |= {"items": [{**data["steps"][0]["items"][0], "limits": [wrong]}]}
    with pytest.raises(RegisterError, match=r"S001\.computed: .*limits"):
        parse_register(data)


def test_what_the_lab_cannot_exercise_has_a_specific_reason(register: Register) -> None:
    for item in register.items.values():
        if not item.lab_exercisable:
            assert len(item.lab_reason) > 15, item.id


def test_the_lab_exercises_no_attested_item(register: Register) -> None:
    assert not [name for name in register.exercised_items() if name.endswith(".attested")]


def test_device_halves_of_planned_steps_close_later(register: Register) -> None:
    assert register.items["S020.observed"].closes_later
    assert not register.items["S020.computed"].closes_later
    assert not register.items["S084.applied"].closes_later, "the first kind of a step decides its group"
    assert not register.items["S144.observed"].closes_later, "from D05 on devices answer"


def test_site_file_keys_of_conditions_and_limits_exist(register: Register, lab_site: Site) -> None:
    keys = {condition.key for conditions in register.applies.values() for condition in conditions}
    assert {key for key in keys if site_value(lab_site, key) is None} == set()


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("S022.attested", "site key gpu.form_factor is sxm, the step needs pcie"),
        ("S055.applied", "site key fabric.kind is ib, the step needs roce"),
        ("S081.attested", "site key generator.present is false, the step needs true"),
        ("S111.attested", "site key cooling.kind is air, the step needs liquid"),
        ("S114.computed", "site key cooling.chilled_water is false, the step needs true"),
        ("S127.applied", "site key storage.kind is glusterfs, the step needs lustre"),
    ],
)
def test_a_step_that_does_not_apply_names_the_site_key(
    register: Register, lab_site: Site, item: str, reason: str
) -> None:
    assert register.not_applicable(register.items[item], lab_site) == reason


def test_infiniband_steps_apply_to_an_infiniband_site_only(register: Register, lab_site: Site) -> None:
    item = register.items["S058.applied"]
    roce = lab_site.model_copy(update={"fabric": lab_site.fabric.model_copy(update={"kind": "roce"})})
    assert register.not_applicable(item, lab_site) is None
    assert register.not_applicable(item, roce) == "site key fabric.kind is roce, the step needs ib"


def test_ethernet_steps_apply_wherever_the_in_band_network_is_ethernet(register: Register, lab_site: Site) -> None:
    assert register.not_applicable(register.items["S054.applied"], lab_site) is None


def test_infiniband_checks_are_about_infiniband_switches_only(register: Register) -> None:
    claims = [value.__check__ for value in vars(test_infiniband).values() if hasattr(value, "__check__")]
    assert {claim.item for claim in claims} == {
        "S048.applied",
        "S049.applied",
        "S050.applied",
        "S060.applied",
        "S062.measured",
    }
    roce, infiniband = plan_of("b200-256-roce"), plan_of("h100-1000-ib")
    for claim in claims:
        able = [{name for only in claim.only for name in register.select(only, plan)} for plan in (roce, infiniband)]
        assert able[0] == set(), claim.item
        assert able[1], claim.item


@pytest.mark.parametrize(
    ("site", "item", "reason"),
    [
        ("b200-256-roce", "S100.computed", "site key cooling.air.kind is in_row, the step needs crah or fan_wall"),
        ("b200-256-roce", "S101.computed", None),
        ("h100-1000-ib", "S100.computed", None),
        ("h100-1000-ib", "S101.computed", "site key cooling.air.kind is fan_wall, the step needs in_row"),
        ("gb300-nvl72-liquid", "S100.computed", "site key cooling.kind is liquid, the step needs air"),
        ("lab", "S101.attested", "site key cooling.air.kind is crah, the step needs in_row"),
    ],
)
def test_room_units_and_in_row_coolers_are_steps_where_the_site_has_them(
    register: Register, site: str, item: str, reason: str | None
) -> None:
    assert register.not_applicable(register.items[item], load_site(site)) == reason


def test_selectors_pick_the_assets_of_the_plan(register: Register, lab_site: Site) -> None:
    plan = SmallPlan(lab_site)
    found = {name: register.subjects(register.items[name], plan) for name in register.items}
    assert found["S034.measured"] == ["gpu001", "gpu002"]
    assert found["S017.applied"] == ["gpu001", "gpu002", "ctl01", "sto01"]
    assert found["S048.applied"] == ["leaf01", "spine01", "ibl001", "ibs001"]
    assert found["S054.applied"] == ["leaf01", "spine01", "gpu001", "gpu002", "ctl01", "sto01"]
    assert found["S085.computed"] == ["cb-r01-a", "cb-r01-b"]
    assert found["S086.observed"] == ["r01"]
    assert found["S036.computed"] == ["lab"]
    assert found["S126.applied"] == ["sto01"]  # no metadata servers of their own


def test_the_lab_part_of_the_subjects_leaves_out_what_it_has_not(register: Register, lab_site: Site) -> None:
    plan = SmallPlan(lab_site)
    assert register.subjects(register.items["S061.applied"], plan, lab=True) == ["leaf01", "spine01"]
    assert "ibl001" in register.subjects(register.items["S062.measured"], plan, lab=True)


def test_lab_parts_are_parts(register: Register, lab_site: Site) -> None:
    plan = SmallPlan(lab_site)
    for item in register.items.values():
        assert set(register.subjects(item, plan, lab=True)) <= set(register.subjects(item, plan)), item.id


def test_default_roles_of_a_site_are_those_that_items_ask_for(register: Register) -> None:
    asked = {role for item in register.items.values() for role in item.signers}
    assert asked == set(register.roles)
    assert all(re.fullmatch(r"[a-z][-a-z]*", role) and AttestRole(title=text) for role, text in register.roles.items())


def _step(data: dict[str, Any], changes: dict[str, Any] | None = None, **item: Any) -> dict[str, Any]:
    changed = copy.deepcopy(data)
    changed["steps"][0] |= changes or {}
    changed["steps"][0]["items"][1] |= item
    return changed


@pytest.mark.parametrize(
    ("changes", "item", "message"),
    [
        ({"group": "D99"}, {}, "step S001: group: unknown D99"),
        ({"applies": "never"}, {}, "step S001: applies: unknown never"),
        ({}, {"subjects": "toasters"}, "item S001.attested: subjects: unknown toasters"),
        ({}, {"signers": ["nobody"]}, "item S001.attested: signers: unknown nobody"),
        ({}, {"signers": []}, "item S001.attested: attested items, and only they, name their signers"),
        ({}, {"id": "S002.attested"}, "item S002.attested of step S001 has the kind 'attested'"),
        ({}, {"kind": "guessed"}, "item S001.attested of step S001 has the kind 'guessed'"),
        ({}, {"colour": "red"}, "item S001.attested: unknown keys colour"),
        ({}, {"lab_exercisable": {"reason": ""}}, "item S001.attested: what the lab cannot exercise needs a reason"),
    ],
)
def test_a_register_that_contradicts_itself_is_refused(
    data: dict[str, Any], changes: dict[str, Any], item: dict[str, Any], message: str
) -> None:
    with pytest.raises(RegisterError, match=re.escape(message)):
        parse_register(_step(data, changes, **item))


def test_a_step_listed_twice_is_refused(data: dict[str, Any]) -> None:
    doubled = copy.deepcopy(data)
    doubled["steps"].append(doubled["steps"][0])
    with pytest.raises(RegisterError, match="step S001 is listed twice"):
        parse_register(doubled)


@pytest.mark.parametrize("site", ["lab", "h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid"])
def test_each_device_has_three_channels_to_show_or_is_named(register: Register, site: str) -> None:
    plan = plan_of(site)
    selected = register.select_all(plan)
    named = {name for one in register.fewer_channels for name in selected[one.select]}
    kinds = set(plan.devices.loc[plan.devices["kind"].isin(["server", "pdu"]), "name"])
    roce = set(register.select("compute_switches", plan)) if plan.site.fabric.kind == "roce" else set()
    asked = {*kinds, *switches(plan), *roce}  # no check asks RoCE switches yet; they can be asked
    assert named == set(plan.devices["name"]) - asked


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"select": "toasters"}, "fewer_channels: select: unknown toasters"),
        ({"items": ["S999.attested"]}, "fewer_channels pdus: items: unknown S999.attested"),
        ({"colour": "red"}, "each of fewer_channels has the keys select, because, proof and items"),
    ],
)
def test_what_is_said_of_fewer_channels_names_what_is_there(
    data: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    one = {"select": "pdus", "because": "old", "proof": "a label", "items": ["S001.attested"]}
    with pytest.raises(RegisterError, match=re.escape(message)):
        parse_register({**data, "fewer_channels": [one | changes]})


def test_names_sort_by_their_numbers() -> None:
    assert sorted(["leaf10", "leaf2", "gpu1"], key=natural) == ["gpu1", "leaf2", "leaf10"]


def claimed_items() -> set[str]:
    """Items that a check of ``validation/checks`` is tied to."""
    claimed = set()
    for module in pkgutil.iter_modules(checks.__path__):
        if module.name.startswith("test_"):
            found = vars(importlib.import_module(f"{checks.__name__}.{module.name}")).values()
            claimed |= {made.item for value in found if (made := getattr(value, "__check__", None))}
    return claimed


def test_every_check_is_called_with_a_subject() -> None:
    for module in pkgutil.iter_modules(checks.__path__):
        if module.name.startswith("test_"):
            for value in vars(importlib.import_module(f"{checks.__name__}.{module.name}")).values():
                if getattr(value, "__check__", None):
                    assert "subject" in inspect.signature(value).parameters, f"pytest cannot collect {value.__name__}"


PARTLY_EXERCISED = {"S029.measured", "S033.applied", "S034.measured", "S061.generated", "S171.observed"}
"""Their checks run in the lab, but it lacks a part that the item asks for (the register says which): NICs on PCIe, a kernel
module, 48 hours on GPUs, an image of a switch, a facility meter."""


PLANNED_ELSEWHERE = {"S101.computed", "S108.computed", "S109.computed", "S114.computed"}
"""Computed items of equipment that the lab's site does not have, and other shipped sites do."""
JUDGED_ON_IMPORTED_FILES = {
    "S003.observed",
    "S004.computed",
    "S008.generated",
    "S008.computed",
    "S171.computed",
    "S184.generated",
}
"""Their checks judge files that a delivery, meters or months of use leave; without these files they are skipped."""


NEEDS_GPUS = {"S151.measured"}
"""Their checks are skipped where the site's GPUs do not compute."""


BUILT_OF_HARDWARE = {
    "S014.measured",
    "S018.measured",
    "S019.applied",
    "S022.measured",
    "S027.observed",
    "S041.measured",
}
"""Their checks read what a machine is built of, and skip a container, which shows its host. S027 is about GPU cards."""


NEEDS_LINKS = {"S047.measured", "S057.applied", "S057.measured", "S058.applied", "S058.measured", "S170.observed"}
"""Adapters and switches with links of their own."""
ROUTED = {"S052.applied"}
"""Its check reads the routes that take the place of LAG and MLAG; the register says that the lab has neither."""
NEEDS_ROCE_ADAPTERS = {"S055.applied", "S055.measured", "S056.applied", "S056.measured"}
"""Their checks read adapters of a RoCE fabric; the lab's is InfiniBand."""


INSTALLED_OVER_THE_NETWORK = {"S142.generated", "S142.applied"}
"""Their checks need delivered boot ports and a record of the installation, as `make demo-metal` leaves it."""

ON_KUBERNETES_ALONE = {"S164.applied", "S164.measured"}
"""Items that have no check with Slurm (platform_steps.yaml)."""


def test_every_item_that_the_lab_exercises_has_a_check_and_the_other_way_round() -> None:
    others = PARTLY_EXERCISED | PLANNED_ELSEWHERE | JUDGED_ON_IMPORTED_FILES | NEEDS_GPUS | BUILT_OF_HARDWARE
    others |= NEEDS_LINKS | ROUTED | NEEDS_ROCE_ADAPTERS | INSTALLED_OVER_THE_NETWORK | ON_KUBERNETES_ALONE
    claimed = {name for name in claimed_items() if not of_platform(name)}
    assert claimed == exercised_items() | others
    assert not exercised_items() & others
