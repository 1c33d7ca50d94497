"""What is told of a training rehearsal: who noticed, what it cost, whether the bits agree, and the pictures of it."""

import dataclasses
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest

from tests.validation.bench import with_parts
from tests.validation.recordings import CUT_STEP, GPU, end_event, made
from validation import training_picture, training_story
from validation.gate_report import render_page
from validation.runners.training import STEPS, Recording, metrics_of
from validation.training_story import Incomplete, differences, stragglers, tell


@pytest.fixture
def recording() -> Recording:
    return made()


def test_a_recording_survives_being_written(recording):
    assert Recording.from_json(recording.as_json()) == recording


def test_the_story_says_what_was_lost_and_how_long_it_took(recording):
    story = tell(recording)
    assert (story.victim, story.spare, story.cut_after_step, story.resumed_step) == ("gpu003", "gpu004", CUT_STEP, 20)
    assert (story.lost_steps, story.lost_s) == (6, 0.6)
    assert story.recovery_s == 30.0
    assert story.stages == {
        "noticed": 2.5,
        "node_down": 15.0,
        "requeued": 15.0,
        "running": 24.0,
        "resumed": 30.0,
        "caught_up": 30.6,
        "finished": 36.0,
        "power_back": 25.0,
        "node_back": 31.0,
    }
    assert story.equal


def test_the_pdus_that_were_told_to_cut_do_not_count_as_the_first_to_notice(recording):
    assert tell(recording).first_by == "BMC"
    recording.sightings = recording.sightings[:1]
    assert tell(recording).first_by == "Training"


def test_the_timeline_is_in_order_and_names_who_saw_what(recording):
    timeline = tell(recording).timeline
    assert [e["at"] for e in timeline] == sorted(e["at"] for e in timeline)
    seen = [(e["by"], e["what"]) for e in timeline]
    assert seen[0] == ("PDUs", "outlets of gpu003 switched off")
    assert ("Training", "rank 0: no step since step 26 for 3 s") in seen
    assert ("Training", "first step after the checkpoint of step 20") in seen
    assert seen[-1] == ("Training", "all steps done")


def test_lanes_show_what_each_node_did(recording):
    lanes = tell(recording).lanes
    assert list(lanes) == GPU
    assert [bar[0] for bar in lanes["gpu001"]] == ["training", "waiting", "starting", "training"]
    assert [bar[0] for bar in lanes["gpu003"]] == ["training", "dark", "starting"]
    assert [bar[0] for bar in lanes["gpu004"]] == ["alone", "starting", "training"]
    assert lanes["gpu003"][1] == ("dark", 0.0, 24.0)


def test_one_bit_of_difference_is_found_and_named(recording):
    assert differences(recording) == []
    recording.metrics["interrupted"]["2"][-2]["loss"] += 1e-15
    assert differences(recording) == [f"loss or gradient norm from step {STEPS} on (1 steps)"]
    recording.metrics["interrupted"]["0"][-1] = end_event(0, 1, 1033.0, 0.8000000000000002)
    assert [d.split(":")[0] for d in differences(recording)] == [
        "final loss",
        f"loss or gradient norm from step {STEPS} on (1 steps)",
    ]
    assert not tell(recording).equal


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda r: r.outage.clear(), "no power was cut: the recording has no outage"),
        (
            lambda r: (r.outage.clear(), r.problems.append("pdu-r02-a: no answer")),
            "no power was cut: pdu-r02-a: no answer",
        ),
        (lambda r: r.metrics["interrupted"]["0"].pop(), "run interrupted did not end"),
        (
            lambda r: r.metrics["interrupted"].update(
                {k: [{**e, "attempt": 0} for e in v] for k, v in r.metrics["interrupted"].items()}
            ),
            "the job was not started again",
        ),
        (
            lambda r: r.metrics["undisturbed"].update(
                {k: [{**e, "attempt": 1} for e in v] for k, v in r.metrics["undisturbed"].items()}
            ),
            "the undisturbed run has no steps of its first attempt",
        ),
    ],
)
def test_a_recording_without_its_story_says_what_is_missing(recording, spoil, why):
    spoil(recording)
    with pytest.raises(Incomplete, match=why):
        tell(recording)


def test_the_slow_rank_is_named_in_its_steps_and_nowhere_else(recording):
    assert stragglers(recording, "undisturbed") == {"31-40": 1}
    assert stragglers(recording, "interrupted") == {}


def test_series_that_are_not_finite_or_skip_a_step_are_named(recording):
    assert training_story.series_faults(recording) == []
    steps = recording.metrics["undisturbed"]["1"]
    steps[6]["loss"] = float("nan")
    del steps[10]
    assert training_story.series_faults(recording) == [
        "run undisturbed, rank 1: steps do not ascend one by one",
        "run undisturbed, rank 1, step 5: loss is nan",
    ]


def test_the_interval_between_checkpoints_is_youngs():
    assert training_story.checkpoint_interval_s(2.0, 10_000.0) == 200.0


def test_metrics_are_read_by_run_and_rank_and_torn_lines_left_out():
    out = (
        '==> undisturbed/metrics/rank-0000.jsonl <==\n{"event": "start"}\n{"event": "st\n{"event": "end"}\n\n'
        '==> alone/metrics/rank-0012.jsonl <==\n[1]\n{"event": "step"}\n'
    )
    assert metrics_of(out) == {
        "undisturbed": {"0": [{"event": "start"}, {"event": "end"}]},
        "alone": {"12": [{"event": "step"}]},
    }


@pytest.mark.parametrize("draw", [training_picture.by_time, training_picture.by_step])
def test_pictures_are_well_formed_and_stay_within_their_frame(recording, draw):
    picture = ET.fromstring(draw(tell(recording).as_dict()))
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    assert picture.attrib["aria-label"]
    for element in picture.iter("rect"):
        x, y = float(element.attrib["x"]), float(element.attrib["y"])
        assert 0 <= x <= x + float(element.attrib["width"]) <= width
        assert 0 <= y <= y + float(element.attrib["height"]) <= height


def test_flags_number_the_stages_as_the_picture_does(recording):
    story = tell(recording).as_dict()
    flags = training_picture.flags(story)
    assert flags[0] == (1, "BMC noticed first", 2.5)
    texts = [
        t.text
        for t in ET.fromstring(training_picture.by_time(story)).iter("text")
        if t.attrib.get("class") == "badge-number"
    ]
    assert texts == [str(count) for count, _, _ in flags]


def test_the_page_shows_the_story_only_where_there_is_one(recording, verdict_of_nothing):
    verdict, register = verdict_of_nothing
    assert "story-box" not in render_page(verdict, register).split("</style>")[1]
    page = render_page(verdict, register, tell(recording).as_dict())
    assert "came back to the same bits" in page
    assert "BMC noticed first" in page
    assert (0.8).hex() in page
    recording.outage["victim"] = "<script>"
    assert "<script>" not in render_page(verdict, register, tell(recording).as_dict())


@pytest.fixture
def verdict_of_nothing():
    from datetime import UTC, datetime

    from tests.plans import plan_of
    from validation.evidence.store import Contents
    from validation.register import load_register
    from validation.verdict import judge

    register = load_register()
    return judge(register, plan_of("lab"), Contents(), [], datetime.now(UTC), rehearsal=True), register


def changed(recording: Recording, run: str, rank: str, event: int, **what: Any) -> Recording:
    metrics = json.loads(json.dumps(recording.metrics))
    metrics[run][rank][event] |= what
    return dataclasses.replace(recording, metrics=metrics)


def without(recording: Recording, run: str, node: str) -> Recording:
    parts = {name: dict(nodes) for name, nodes in recording.parts.items()}
    del parts[run][node]
    return dataclasses.replace(recording, parts=parts)


def test_what_nodes_signed_of_a_training_is_what_is_judged() -> None:
    """gpu003 lost its power and signed nothing of the interrupted run."""
    recording = with_parts(made())
    assert "gpu003" not in recording.parts["interrupted"]
    assert training_story.unlike_parts(recording) == ""
    assert training_story.unlike_parts(Recording.from_json(recording.as_json())) == ""


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (
            lambda one: changed(one, "undisturbed", "1", 5, loss=0.1),
            "run undisturbed: rank 1, attempt 0 is not what gpu002 signed",
        ),
        (
            lambda one: changed(one, "interrupted", "0", 3, loss=0.1),
            "run interrupted: rank 0, attempt 0 is not what gpu001 signed",
        ),
        (
            lambda one: changed(one, "alone", "0", 0, host="gpu001"),
            "run alone: rank 0, attempt 0 is not what gpu004 signed",
        ),
        (lambda one: without(one, "alone", "gpu004"), "run alone: no node signed rank 0, attempt 0"),
        (lambda one: without(one, "interrupted", "gpu001"), "run interrupted: no node signed rank 0, attempt 0"),
        (
            lambda one: dataclasses.replace(one, metrics={**one.metrics, "alone": {}}),
            "run alone: rank 0, attempt 0 was signed and is left out",
        ),
        (
            lambda one: dataclasses.replace(
                one, parts={**one.parts, "alone": {"gpu001": one.parts["alone"]["gpu004"]}}
            ),
            "run alone: gpu001 signed rank 0, attempt 0, which was not its own",
        ),
        (
            lambda one: dataclasses.replace(one, outage={**one.outage, "victim": "gpu001"}),
            "run interrupted: no node signed rank 2, attempt 0",
        ),
    ],
    ids=["loss", "loss before the cut", "host", "unsigned", "survivor", "left out", "another node", "another victim"],
)
def test_events_that_no_node_signed_are_named(harm: Callable[[Recording], Recording], why: str) -> None:
    assert training_story.unlike_parts(harm(with_parts(made()))) == why
