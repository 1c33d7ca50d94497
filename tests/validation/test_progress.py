"""What a run says while it waits, and in which order its checks wait."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from validation.checks import conftest
from validation.progress import Waiting, note

pytestmark = pytest.mark.clock


def until(said: list[str], count: int) -> list[str]:
    end = time.monotonic() + 10
    while len(said) < count and time.monotonic() < end:
        time.sleep(0.01)
    return said


def test_a_wait_says_what_for_with_the_newest_detail_and_more_than_once():
    said: list[str] = []
    waiting = Waiting(said.append, every_s=0.05)
    with waiting.on("burn_in (Load on all GPU nodes)"):
        note("job 7 RUNNING gpu[001-004]")
        assert len(until(said, 2)) >= 2
    waiting.close()
    assert said[0].startswith("waiting 0 s: burn_in (Load on all GPU nodes)")
    assert said[1].endswith(": job 7 RUNNING gpu[001-004]")


def test_what_is_short_says_nothing():
    waiting = Waiting(lambda _: None, every_s=5)
    with waiting.on("facts"):
        assert waiting.line(time.monotonic()) == ""
        assert waiting.line(time.monotonic() + 6).startswith("waiting 6 s: facts")
    assert waiting.line(time.monotonic() + 60) == ""
    waiting.close()


def test_the_innermost_wait_counts_and_forgets_the_details_of_others():
    waiting = Waiting(lambda _: None, every_s=0)
    with waiting.on("rehearsal"):
        note("job 7")
        with waiting.on("scheduler"):
            assert waiting.line(time.monotonic()).endswith(": scheduler")
    waiting.close()


def test_what_goes_on_in_the_background_is_not_what_is_waited_for():
    waiting = Waiting(lambda _: None, every_s=0)
    with waiting.on("burn_in"):
        note("job 7")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(note, "job 8 of the trials").result()
        assert waiting.line(time.monotonic()).endswith(": burn_in: job 7")
    waiting.close()


def test_jobs_that_measure_run_after_everything_that_acts_on_nodes():
    places = [conftest.place_in_order({name, "plan", "facts"}) for name in ("facts", *conftest.ORDER)]
    assert places == sorted(set(places))
    assert conftest.place_in_order({"drift", "rehearsal"}) == conftest.place_in_order({"rehearsal"})
    measuring = [conftest.place_in_order({name}) for name in ("collectives", "burn_in", "rehearsal")]
    assert min(measuring) > max(conftest.place_in_order({name}) for name in ("drift", "trials", "takeover", "canaries"))


def test_every_name_of_the_order_is_a_fixture():
    assert all(hasattr(conftest, name) for name in conftest.ORDER)
