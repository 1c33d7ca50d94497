"""Which racks are written at the same time: the first alone until an image has been seen to work, then as many as the link carries.

    with turns.turn((wave, place), at_once=4, proven=False):      waits until it is this rack's turn
        ...
        turns.worked()                                            a server started from the image

Racks that wait are taken in their order: an earlier wave of energisation first. Nothing waits for a rack that nobody asked for.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

Place = tuple[int, int]
"""Wave of energisation, place in the order of the racks."""


class NotBegunError(Exception):
    """An earlier rack was written and none of its servers started from the image."""


class Turns:
    """The racks of one run."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[Place] = []
        self._working: list[Place] = []
        self._proven, self._failed = False, ""

    @contextmanager
    def turn(self, place: Place, at_once: int, *, proven: bool) -> Iterator[None]:
        """The block is this rack's turn. `proven`: a server of the site is ready with this image already. NotBegunError where
        the image failed on the rack before and never worked.
        """
        with self._changed:
            self._proven |= proven
            self._waiting.append(place)
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: self._may_begin(place, at_once))
                if self._failed and not self._proven:
                    raise NotBegunError(self._failed)
            finally:
                self._waiting.remove(place)
                self._changed.notify_all()
            self._working.append(place)
        try:
            yield
        finally:
            with self._changed:
                self._working.remove(place)
                self._changed.notify_all()

    def worked(self) -> None:
        """A server was written and started from the image, whether its host key is enrolled or not yet: from now on several racks
        are written at once.
        """
        with self._changed:
            self._proven = True
            self._changed.notify_all()

    def failed(self, why: str) -> None:
        """The image was written or started, and did not bring a server to ready."""
        with self._changed:
            self._failed = self._failed or why
            self._changed.notify_all()

    def _may_begin(self, place: Place, at_once: int) -> bool:
        if self._failed and not self._proven:
            return True  # to be told that it does not begin
        earlier_wave = any(wave < place[0] for wave, _ in self._working)
        most = at_once if self._proven else 1
        return place == min(self._waiting) and not earlier_wave and len(self._working) < most
