"""A total time budget around a blocking call.

Socket timeouts bound each read, not the whole call: a device that sends a byte a second passes them all. So the call
runs in a daemon thread that is abandoned when the budget ends; its own socket timeouts end the thread soon after.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Answer = TypeVar("Answer")


def within(budget_s: float, call: Callable[[], Answer]) -> Answer:
    """The call's result or its exception; TimeoutError when budget_s seconds have passed."""
    outcome: Future[Answer] = Future()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as e:
            outcome.set_exception(e)
            if not isinstance(e, Exception):
                raise

    threading.Thread(target=work, daemon=True).start()
    return outcome.result(timeout=budget_s)
