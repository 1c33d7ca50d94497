"""Many devices at the same time: one that fails stops no other."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from network.drivers.errors import DeviceError

DEFAULT_WORKERS = 32
"""Threads mostly wait for a device; 32 keep two cores busy with the cryptography of their logins."""


class Named(Protocol):
    """A device driver: all that is needed here is what to call it."""

    name: str


Device = TypeVar("Device", bound=Named)
Answer = TypeVar("Answer")


def many(
    devices: Iterable[Device], fn: Callable[[Device], Answer], workers: int = DEFAULT_WORKERS
) -> dict[str, Answer | DeviceError]:
    """Call fn for every device in parallel: {name: result, or the DeviceError that this device raised}."""

    def guarded(device: Device) -> Answer | DeviceError:
        try:
            return fn(device)
        except DeviceError as e:
            return e

    todo = list(devices)
    with ThreadPoolExecutor(max(1, min(workers, len(todo)))) as pool:
        return dict(zip([device.name for device in todo], pool.map(guarded, todo), strict=True))
