"""A total time budget around a blocking call.

Socket timeouts bound each read, not the whole call: a device that sends a byte a second passes them all. So the call
runs in a daemon thread that is abandoned when the budget ends; its own socket timeouts end the thread soon after.
"""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def within(budget_s: float, call: Callable[[], Answer]) -> Answer:
    """The call's result or its exception; TimeoutError when budget_s seconds have passed."""
    outcome: queue.SimpleQueue[tuple[Answer | None, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            outcome.put((call(), None))
        except BaseException as e:
            outcome.put((None, e))
            if not isinstance(e, Exception):
                raise

    threading.Thread(target=work, daemon=True).start()
    try:
        answer, error = outcome.get(timeout=budget_s)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]  # without an error it is what call() returned
