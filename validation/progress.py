"""What a run of the checks waits for, said while it waits: one line every few seconds, never more than one for a short check.

    waiting = Waiting(write, every_s=5)
    with waiting.on("burn-in of the GPU nodes"):      # says "waiting 10 s: burn-in of the GPU nodes: job 7 RUNNING"
        note("job 7 RUNNING")                         # the newest detail, from anywhere

Lines are whole lines: a log shows what a terminal shows.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

EVERY_S = 5.0
_newest = {"detail": ""}


def note(detail: str) -> None:
    """Keep the newest detail of what is waited for. The main thread waits; what other threads do meanwhile is not it."""
    if threading.current_thread() is threading.main_thread():
        _newest["detail"] = detail


class Waiting:
    """Says what is waited for, from a thread of its own. `write` gets one line without its end."""

    def __init__(self, write: Callable[[str], None], every_s: float = EVERY_S) -> None:
        self.write, self.every_s = write, every_s
        self._subjects: list[tuple[str, float]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._speak, name="progress", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def on(self, subject: str) -> Iterator[None]:
        """While the block runs, `subject` is what is waited for; the innermost block counts."""
        note("")
        self._subjects.append((subject, time.monotonic()))
        try:
            yield
        finally:
            self._subjects.pop()
            note("")

    def close(self) -> None:
        """Say nothing more."""
        self._stop.set()
        self._thread.join()

    def line(self, now: float) -> str:
        """What to say at this time (time.monotonic()); '' when nothing has been waited for long enough."""
        subjects = list(self._subjects)
        if not subjects or now - subjects[-1][1] < self.every_s:
            return ""
        subject, since = subjects[-1]
        detail = _newest["detail"]
        return f"waiting {now - since:.0f} s: {subject}" + (f": {detail}" if detail else "")

    def _speak(self) -> None:
        while not self._stop.wait(self.every_s):
            if text := self.line(time.monotonic()):
                self.write(text)
