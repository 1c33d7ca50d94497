"""The Ansible module that waits for chrony: how long, when it asks again, and when it gives up."""

import subprocess

import pytest

from tests.playbooks.support import load
from tests.playbooks.test_node_check import TRACKING, UNSYNCHRONISED

clock = load("library/bringup_clock.py")
NEAR = TRACKING.format(offset_s="-0.000158840", leap="Normal")


@pytest.fixture
def chrony(monkeypatch):
    """chronyd whose answer follows from the seconds that passed and the words that it was given; the list of these words."""
    now = [0.0]
    asked: list[tuple[str, ...]] = []

    def begin(answer):
        def chronyc(*words: str) -> str:
            asked.append(words)
            return answer(now[0], asked)

        monkeypatch.setattr(clock, "chronyc", chronyc)
        return asked

    monkeypatch.setattr(clock.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(clock.time, "sleep", lambda span_s: now.__setitem__(0, now[0] + span_s))
    return begin


def test_a_clock_that_is_synchronised_is_asked_once(chrony):
    asked = chrony(lambda now_s, asked: NEAR)
    assert clock.wait(60) == NEAR
    assert asked == [("-c", "tracking")]


def test_a_first_answer_is_waited_for(chrony):
    asked = chrony(lambda now_s, asked: NEAR if now_s >= 8 else UNSYNCHRONISED)
    assert clock.wait(60) == NEAR
    assert ("burst", "4/8") not in asked


def test_sources_that_came_late_are_asked_at_once(chrony):
    asked = chrony(lambda now_s, asked: NEAR if ("burst", "4/8") in asked else UNSYNCHRONISED)
    assert clock.wait(60) == NEAR
    assert asked.count(("burst", "4/8")) == 1


@pytest.mark.parametrize("answer", [UNSYNCHRONISED, "", "garbage"])
def test_a_clock_that_never_follows_ends_with_the_budget(chrony, answer: str):
    asked = chrony(lambda now_s, asked: answer)
    assert not clock.synchronised(clock.wait(60))
    assert len(asked) == 62  # one a second, and one burst


def test_a_chronyd_that_does_not_answer_says_nothing(monkeypatch):
    monkeypatch.setattr(
        clock.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1, "506 Cannot talk to daemon\n", "")
    )
    assert clock.chronyc("tracking") == ""
