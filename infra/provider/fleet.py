"""The devices of a resource: one result or one error for each, and no thousand questions to a site that is not there."""

import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from inventory.secrets import SecretError
from network.drivers import parallel
from network.drivers.errors import DeviceError, DeviceTimeout, LoginNotGiven, Unreachable

Result = TypeVar("Result")
Part = TypeVar("Part")


class Outcomes(Generic[Result]):
    """What became of each device: `done` maps device to result, `failed` maps device to one readable line."""

    def __init__(self) -> None:
        self.done: dict[str, Result] = {}
        self.failed: dict[str, str] = {}

    def of(self, part: Callable[[Result], Part]) -> "Outcomes[Part]":
        """The same outcomes with a part of each result."""
        outcomes: Outcomes[Part] = Outcomes()
        outcomes.done = {device: part(result) for device, result in self.done.items()}
        outcomes.failed = self.failed
        return outcomes

    def reasons(self) -> list[str]:
        """The failures, in device order."""
        return [self.failed[device] for device in sorted(self.failed)]


def each(devices: Iterable[str], work: Callable[[str], Result], budget_s: float, operation: str) -> Outcomes[Result]:
    """Run `work(device)` for all devices in parallel; a device that is not done after `budget_s` counts as failed.

    Only errors of devices and of secrets are outcomes; any other exception is a defect and is raised.
    """

    def guarded(device: str) -> Result | SecretError:
        try:
            return work(device)
        except SecretError as error:
            return error

    outcomes: Outcomes[Result] = Outcomes()
    for name, answer in parallel.within(devices, guarded, budget_s, operation).items():
        if isinstance(answer, DeviceError | SecretError):
            outcomes.failed[name] = line(name, answer)
        else:
            outcomes.done[name] = answer
    return outcomes


def line(device: str, error: Exception) -> str:
    """The error as one line that begins with the device's name."""
    text = " ".join(str(error).split())
    return text if text.startswith(device) else f"{device}: {text}"


class NotAsked(Unreachable):
    """A preview did not ask this device because none of the first devices that it asked has answered."""


class Reach:
    """Decides whether a preview still asks devices: when the first `probes` are all silent, it asks no other.

    A preview of a site that does not exist yet must not wait for a thousand silent addresses. Until somebody answers,
    only `probes` devices are asked and the others wait for their result; one answer opens the way to all.
    """

    def __init__(self, probes: int = 8) -> None:
        self._probes, self._asked, self._silent, self._answered = probes, 0, 0, False
        self._changed = threading.Condition()

    def closed(self) -> bool:
        """True when all probes were silent."""
        with self._changed:
            return self._closed()

    def ask(self, device: str, work: Callable[[], Result]) -> Result:
        """`work()`, unless nobody answers: then NotAsked. An error other than silence counts as an answer."""
        with self._changed:
            self._changed.wait_for(lambda: self._answered or self._closed() or self._asked < self._probes)
            if self._closed():
                raise NotAsked(
                    device,
                    "preview",
                    "an answer",
                    f"none from the first {self._probes} devices asked",
                    "check the management network and the credentials of the site",
                )
            self._asked += 1
        try:
            result = work()
        except (Unreachable, DeviceTimeout, LoginNotGiven, SecretError):
            self._note(answered=False)
            raise
        except DeviceError:
            self._note(answered=True)
            raise
        self._note(answered=True)
        return result

    def _closed(self) -> bool:
        return not self._answered and self._silent >= self._probes

    def _note(self, answered: bool) -> None:
        with self._changed:
            self._answered |= answered
            self._silent += not answered
            self._changed.notify_all()
