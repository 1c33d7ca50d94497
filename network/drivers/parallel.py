"""The same work on many devices at the same time: one that fails stops no other.

    at_once(names, read)                    {name: what read(name) gave}
    within(names, read, 30, "read facts")   the same, or the DeviceError of each; one that hangs is a DeviceTimeout
    many(drivers, Pdu.outlets)              the same for drivers, by their names, each with its own time budget

An exception that is no DeviceError is a defect and is raised.
"""

import time
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Protocol, TypeVar

from network.drivers.errors import DeviceError, DeviceTimeout

WORKERS = 48
"""Devices asked at once: all servers of a 48 U rack in one round. A session is a thread that mostly waits."""


class Named(Protocol):
    """A device driver: all that is needed here is what to call it."""

    name: str


Device = TypeVar("Device", bound=Named)
Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


def at_once(keys: Iterable[Key], work: Callable[[Key], Result], workers: int = WORKERS) -> dict[Key, Result]:
    """What `work` gives for each key, all at the same time, in the order of the keys. Its exceptions are raised."""
    todo = list(keys)
    with ThreadPoolExecutor(_threads(workers, todo)) as pool:
        return dict(zip(todo, pool.map(work, todo), strict=True))


def many(devices: Iterable[Device], work: Callable[[Device], Result]) -> dict[str, Result | DeviceError]:
    """{name: result, or the DeviceError that this device raised}."""
    by_name = {device.name: device for device in devices}
    return at_once(by_name, _guarded(lambda name: work(by_name[name])))


def within(
    names: Iterable[str], work: Callable[[str], Result], budget_s: float, operation: str
) -> dict[str, Result | DeviceError]:
    """As `many`, by name; a device that is not done after `budget_s` is a DeviceTimeout, and its thread is left behind.

    The drivers keep their own, smaller budgets; this one holds when a driver itself hangs.
    """
    todo, outcomes = list(names), dict[str, Result | DeviceError]()
    pool = ThreadPoolExecutor(_threads(WORKERS, todo), thread_name_prefix=operation)
    try:
        futures = {name: pool.submit(_guarded(work), name) for name in todo}
        end = time.monotonic() + budget_s
        for name, future in futures.items():
            try:
                outcomes[name] = future.result(timeout=max(end - time.monotonic(), 0.0))
            except FutureTimeout:
                outcomes[name] = DeviceTimeout(
                    name,
                    operation,
                    f"an end within {budget_s:g} s",
                    "none",
                    "look at the device's management interface, then run the same command again",
                )
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return outcomes


def _threads(workers: int, todo: list[Key]) -> int:
    return max(1, min(workers, len(todo)))


def _guarded(work: Callable[[str], Result]) -> Callable[[str], Result | DeviceError]:
    def guarded(name: str) -> Result | DeviceError:
        try:
            return work(name)
        except DeviceError as error:
            return error

    return guarded
