"""The life of a server: each step named, bounded in time, stopped by name, resumed by the same command."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacity.services.boot import intents
from capacity.services.boot.consents import ConsentError, asked_for, parse
from capacity.services.boot.life import (
    BUDGET_S,
    DONE,
    SAFE_STOPS,
    STEPS,
    WORKING,
    Life,
    Report,
    Seen,
    advance,
    from_dict,
    reimaged,
    resumed,
)
from inventory.paths import repo_root
from tests.capacity.services.boot.cases import delivered
from tests.plans import plan_of

IMAGE = "0123456789ab"
AS_PLANNED = Seen(inspected=(), firmware=(), bios=())


def at(step: str, **more) -> Life:
    return Life("gpu001", step, since=1000.0, **more)


def test_a_server_that_is_as_planned_goes_through_every_step_in_order():
    life, steps, actions, now = Life("gpu001"), [], [], 1000.0
    seen = AS_PLANNED
    while life.step != "ready":
        life, action = advance(life, seen, now, IMAGE)
        steps.append(life.step)
        actions.append(action)
        now += 1
        if life.step == "image" and life.started:
            seen = replace(seen, reports=(Report(now, "written", "hash"),))
        if life.step == "first-boot":
            seen = replace(seen, running=IMAGE)
    assert list(dict.fromkeys(steps)) == list(STEPS[1:])
    assert actions == ["wait", "wait", "wait", "boot-from-network", "boot-from-disk", "none"]
    assert life.image == IMAGE


def test_a_server_that_is_not_as_delivered_is_not_touched():
    life, action = advance(at("inspect"), Seen(inspected=("serial S1, delivered S2",)), 1001, IMAGE)
    assert (life.step, life.stopped, life.text, action) == (
        "inspect",
        "not-as-delivered",
        "serial S1, delivered S2",
        "none",
    )


@pytest.mark.parametrize(("step", "seen", "action"), [
    ("firmware", Seen(firmware=("BIOS 1, pinned 2",)), "update-firmware"),
    ("bios", Seen(bios=("BootMode Bios, planned Uefi",)), "set-bios"),
])  # fmt: skip
def test_what_differs_is_brought_about_once_and_then_waited_for(step, seen, action):
    life, first = advance(at(step), seen, 1001, IMAGE)
    life, second = advance(life, seen, 1002, IMAGE)
    assert (first, second, life.step) == (action, "wait", step)


def test_a_step_that_takes_too_long_is_stopped_with_its_name_and_budget():
    life, action = advance(at("firmware"), Seen(), 1000 + BUDGET_S["firmware"] + 1, IMAGE)
    assert (life.stopped, life.text, action) == ("timed-out", "firmware took longer than 5400 s", "none")


def test_a_report_of_an_earlier_writing_does_not_count():
    old = Report(900.0, "written", "hash")
    life, action = advance(at("image"), Seen(reports=(old,)), 1001, IMAGE)
    assert action == "boot-from-network"
    life, action = advance(life, Seen(reports=(old,)), 1002, IMAGE)
    assert (life.step, action) == ("image", "wait")
    life, action = advance(life, Seen(reports=(old, Report(1003.0, "written"))), 1004, IMAGE)
    assert (life.step, action) == ("first-boot", "boot-from-disk")


@pytest.mark.parametrize("state", SAFE_STOPS)
def test_each_state_in_which_the_initramfs_stops_is_kept_by_name_and_the_same_command_resumes(state):
    seen = Seen(reports=(Report(1001.0, state, "why"),))
    life, action = advance(at("image", started=True), seen, 1002, IMAGE)
    assert (life.step, life.stopped, life.text, action) == ("image", state, "why", "none")
    again = resumed(life, 2000.0)
    assert (again.step, again.stopped, again.since) == ("image", "", 2000.0)
    again, action = advance(again, seen, 2001, IMAGE)
    assert action == "boot-from-network"
    again, action = advance(again, seen, 2002, IMAGE)
    assert (again.stopped, action) == ("", "wait"), "the stop of the first attempt is not taken for one of the second"


def test_every_state_of_the_initramfs_is_known():
    script = (repo_root() / "infra/boot/deploy.sh").read_text()
    stops = set(re.findall(r"(?:^|\|\| |; )\s*stop ([a-z][a-z-]+) ", script, flags=re.MULTILINE))
    told = set(re.findall(r"^\s*report ([a-z-]+) ", script, flags=re.MULTILINE))
    assert stops == set(SAFE_STOPS)
    assert told == {*WORKING, *DONE}


def test_a_node_that_runs_another_image_is_stopped():
    life, _ = advance(at("first-boot"), Seen(running="ffff"), 1001, IMAGE)
    assert (life.stopped, life.text) == ("other-image", "the node runs image ffff, planned 0123456789ab")


def test_only_a_ready_server_is_imaged_anew_and_begins_at_the_image():
    assert reimaged(at("ready", image=IMAGE), 5000.0).step == "image"
    with pytest.raises(ValueError, match="gpu001 is at bios"):
        reimaged(at("bios"), 5000.0)


@pytest.mark.parametrize("step", ["image", "first-boot"])
def test_a_server_that_goes_off_while_it_is_waited_for_is_stopped_and_starts_its_step_again(step):
    seen = Seen(reports=(Report(1001.0, "writing"),), on=False)
    life, _ = advance(at(step, started=True), seen, 1002, IMAGE)
    assert (life.step, life.stopped) == (step, "power-off")
    assert resumed(life, 2000.0) == Life("gpu001", step, since=2000.0, told=life.told)


def test_a_server_that_went_off_in_its_first_boot_is_switched_on_by_the_same_command():
    stopped, _ = advance(at("first-boot", started=True), Seen(on=False), 1002, IMAGE)
    again, action = advance(resumed(stopped, 2000.0), Seen(on=False), 2001, IMAGE)
    assert (again.stopped, action) == ("", "boot-from-disk")
    assert advance(again, Seen(on=True), 2002, IMAGE) == (again, "log-in")


def test_a_server_that_was_just_switched_on_for_its_first_boot_is_logged_in_to():
    assert advance(at("first-boot"), Seen(on=True), 1001, IMAGE)[1] == "log-in"


def test_the_last_word_of_a_server_that_went_off_is_taken_first():
    seen = Seen(reports=(Report(1001.0, "written", "hash"),), on=False)
    assert advance(at("image", started=True), seen, 1002, IMAGE)[0].step == "first-boot"


def test_a_server_that_runs_is_resumed_as_it_is():
    assert resumed(at("bios", started=True), 5000.0) == at("bios", started=True)


STATES = st.sampled_from([*WORKING, *DONE, *SAFE_STOPS])
DIFFERS = st.sampled_from([None, (), ("x",)])
SEEN = st.builds(
    Seen,
    inspected=DIFFERS,
    firmware=DIFFERS,
    bios=DIFFERS,
    reports=st.lists(st.builds(Report, st.floats(0, 1e4), STATES), max_size=3).map(tuple),
    running=st.sampled_from([None, IMAGE, "ffff"]),
    on=st.sampled_from([None, True, False]),
)


@given(st.lists(st.tuples(SEEN, st.floats(0, 4000)), max_size=30))
def test_no_step_is_left_out_or_taken_back_and_a_stop_stays_until_it_is_resumed(events):
    life, now = Life("gpu001"), 1.0
    for seen, seconds in events:
        now += seconds
        after, action = advance(life, seen, now, IMAGE)
        assert STEPS.index(after.step) - STEPS.index(life.step) in (0, 1)
        assert from_dict(after.as_dict()) == after
        if after.stopped or after.step == "ready":
            assert action == "none"
            assert advance(after, seen, now + 1e6, IMAGE) == (after, "none")
        life = resumed(after, now)


def test_a_record_of_another_program_is_refused():
    with pytest.raises(ValueError, match="no step 'cloud'"):
        from_dict({"server": "gpu001", "step": "cloud"})
    with pytest.raises(ValueError, match="not the record of a server"):
        from_dict({"name": "gpu001"})


FOUND = intents(plan_of("lab"), delivered({"gpu001": "02:5e:00:00:00:01"}))
CONTENT = "ab" * 32


def test_a_refusal_names_the_consent_that_it_asks_for_and_that_consent_is_taken():
    refusal = Report(5.0, "foreign-content", f"drive DISK-gpu001-1 holds {CONTENT}")
    asked = asked_for({"gpu001": [Report(1.0, "started"), refusal], "gpu002": [Report(1.0, "written")], "gpu003": []})
    assert parse(asked["gpu001"], FOUND) == {"gpu001": {"DISK-gpu001-1": CONTENT}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"gpu002:DISK-gpu001-1:{CONTENT}", "no server gpu002 that boots"),
        (f"gpu001:OTHER:{CONTENT}", "OTHER is no boot drive of gpu001; these are: DISK-gpu001-0, DISK-gpu001-1"),
        ("gpu001:DISK-gpu001-1:all", "the content is 64 hex digits"),
        ("gpu001", "no drive is no boot drive"),
    ],
)
def test_a_consent_that_names_no_planned_drive_or_content_is_refused(text, said):
    with pytest.raises(ConsentError, match=said):
        parse([text], FOUND)
