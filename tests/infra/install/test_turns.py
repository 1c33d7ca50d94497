"""Whose turn it is to be written: the first rack alone, then several, waves in their order, and none after an image that failed."""

import threading

import pytest

from infra.install.turns import NotBegunError, Turns

LIMIT_S = 10.0


class Rack:
    """A rack in a thread of its own that works until it is let go."""

    def __init__(self, turns: Turns, place: tuple[int, int], at_once: int = 2, proven: bool = False) -> None:
        self.works, self.let_go, self.refused = threading.Event(), threading.Event(), ""

        def run() -> None:
            try:
                with turns.turn(place, at_once, proven=proven):
                    self.works.set()
                    self.let_go.wait(LIMIT_S)
            except NotBegunError as error:
                self.refused = str(error)

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def end(self) -> None:
        self.let_go.set()
        self.thread.join(LIMIT_S)


def begins(rack: Rack) -> bool:
    return rack.works.wait(LIMIT_S)


def waits(rack: Rack) -> bool:
    return not rack.works.wait(0.05)


def test_until_a_server_is_ready_one_rack_works_and_then_as_many_as_the_link_carries() -> None:
    turns = Turns()
    first = Rack(turns, (1, 0))
    assert begins(first)
    second, third = Rack(turns, (1, 1)), Rack(turns, (1, 2))
    assert waits(second)
    turns.worked()
    assert begins(second)
    assert waits(third), "two at once"
    first.end()
    assert begins(third)
    second.end()
    third.end()


def test_racks_of_a_later_wave_wait_for_those_that_work_in_an_earlier_one() -> None:
    turns = Turns()
    first = Rack(turns, (1, 5), proven=True)
    assert begins(first)
    later = Rack(turns, (2, 0))
    assert waits(later)
    first.end()
    assert begins(later)
    later.end()


def test_after_an_image_that_failed_the_racks_that_wait_do_not_begin() -> None:
    turns = Turns()
    first = Rack(turns, (1, 0))
    assert begins(first)
    second = Rack(turns, (1, 1))
    turns.failed("gpu001 stands as image-altered")
    first.end()
    second.thread.join(LIMIT_S)
    assert second.refused == "gpu001 stands as image-altered"
    with pytest.raises(NotBegunError), turns.turn((1, 2), 2, proven=False):
        pass


def test_a_failure_after_the_image_has_worked_stops_nobody() -> None:
    turns = Turns()
    turns.worked()
    turns.failed("gpu009 stands as image-broken")
    rack = Rack(turns, (1, 0))
    assert begins(rack)
    rack.end()
    assert rack.refused == ""
