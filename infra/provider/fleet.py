"""The same work on many devices at once: one result or one error per device, never a stop at the first bad one."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Generic, TypeVar

from inventory.secrets import SecretError
from network.drivers.errors import DeviceError, DeviceTimeout, Unreachable

Result = TypeVar("Result")

# Devices contacted at once per resource: both PDUs and all servers of a rack in one round (a 48 U rack holds at most
# 48 servers). A session is a thread that mostly waits.
WORKERS = 50


class Outcomes(Generic[Result]):
    """What became of each device: `done` maps device to result, `failed` maps device to one readable line."""

    def __init__(self) -> None:
        self.done: dict[str, Result] = {}
        self.failed: dict[str, str] = {}

    def reasons(self) -> list[str]:
        """The failures, in device order."""
        return [self.failed[device] for device in sorted(self.failed)]


def each(devices: Iterable[str], work: Callable[[str], Result], budget_s: float, operation: str) -> Outcomes[Result]:
    """Run `work(device)` for all devices in parallel; a device that is not done after `budget_s` counts as failed.

    The drivers keep their own, smaller budgets; this one holds when a driver itself hangs. Only errors of devices and
    of secrets are outcomes; any other exception is a defect and is raised.
    """
    names = list(devices)
    outcomes: Outcomes[Result] = Outcomes()
    pool = ThreadPoolExecutor(max_workers=max(1, min(WORKERS, len(names))), thread_name_prefix=operation)
    try:
        futures = {name: pool.submit(work, name) for name in names}
        for name, future in futures.items():
            try:
                outcomes.done[name] = future.result(timeout=budget_s)
            except (DeviceError, SecretError) as error:
                outcomes.failed[name] = line(name, error)
            except FutureTimeout:
                outcomes.failed[name] = str(DeviceTimeout(
                    name, operation, f"an end within {budget_s:g} s", "none",
                    "look at the device's management interface, then run the same command again"))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return outcomes


def line(device: str, error: Exception) -> str:
    """The error as one line that begins with the device's name."""
    text = " ".join(str(error).split())
    return text if text.startswith(device) else f"{device}: {text}"


class Reach:
    """Decides whether a preview still asks devices: after `misses` silent ones and no answer at all, it does not.

    A preview of a site that does not exist yet must not wait for a thousand silent addresses. One answer closes the
    question: from then on every device is asked.
    """

    def __init__(self, misses: int = 8) -> None:
        self._limit, self._missed, self._answered = misses, 0, False
        self._lock = threading.Lock()

    def open(self) -> bool:
        """True while asking makes sense."""
        with self._lock:
            return self._answered or self._missed < self._limit

    def saw(self, error: Exception | None) -> None:
        """Count an attempt: `error` is None for an answer."""
        with self._lock:
            if isinstance(error, Unreachable | DeviceTimeout | SecretError):
                self._missed += 1
            else:
                self._answered = True
