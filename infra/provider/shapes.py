"""The two shapes of a resource: the devices of a rack, or one host.

A rack's resource has its devices under one input ({device: what is wanted}); one that fails stops no other. Its output
`results` says "done" or what went wrong of each. A host's resource has lines of drift, [] in what is wanted; its output
`pushed` has the lines that the last push changed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from infra.provider.diff import differences
from infra.provider.fleet import Outcomes, Reach, each, line
from infra.provider.resource import Applied, Data, RefusedError
from infra.provider.sites import Sites
from inventory.secrets import SecretError
from network.drivers.errors import DeviceError

Result = TypeVar("Result")
SILENT = "devices of this site do not answer; not asked"


class OfRack(ABC):
    """The devices of one rack."""

    key = "rack"
    devices: str
    """The input that has them by name."""
    one: str
    """What they are, for errors: 'read outlets', 'set outlets'."""
    everything: str
    """What an apply does to the devices that a preview could not ask."""
    everything_of_one: str
    budget_s: float
    """Per device and operation, over all driver calls."""
    preview_budget_s: float
    """Per driver call in a preview."""

    def __init__(self, sites: Sites, reach: Reach) -> None:
        self._sites, self._reach = sites, reach

    @abstractmethod
    def _observe(self, site: str, name: str, wanted: Data, budget_s: float) -> Data:
        """`wanted` with what the device says in place of what is wanted; budget_s is for one driver call."""

    def preview(self, inputs: Data, state: Data | None) -> list[str]:
        """What would change, device by device; one that does not answer is named."""
        if self._reach.closed():
            return [f"{inputs['rack']}: {SILENT}: {self.everything}"]
        site, wanted = inputs["site"], inputs[self.devices]
        outcome = self._each(
            wanted,
            lambda name: self._reach.ask(name, lambda: self._observe(site, name, wanted[name], self.preview_budget_s)),
            "read",
        )
        lines = [f"not reachable, {self.everything_of_one}: {reason}" for reason in outcome.reasons()]
        for name, seen in sorted(outcome.done.items()):
            lines += [f"{name} {difference}" for difference in differences(seen, wanted[name])]
        return lines

    def _each(self, names: Data | list[str], work: Callable[[str], Result], verb: str) -> Outcomes[Result]:
        return each(names, work, self.budget_s, f"{verb} {self.one}")

    def _applied(self, inputs: Data, state: Data | None, outcome: Outcomes[list[str]], more: Data) -> Applied:
        """The state after an upsert: what was done by device, else what was known; RefusedError when nothing was done."""
        if not outcome.done and state is None:
            raise RefusedError("; ".join(outcome.reasons()))
        wanted, before = inputs[self.devices], (state or {}).get(self.devices, {})
        kept = {
            name: wanted[name] if name in outcome.done else before[name]
            for name in wanted
            if name in outcome.done or name in before
        }
        changed = [text for name in sorted(outcome.done) for text in outcome.done[name]]
        results = _results(wanted, outcome)
        return Applied(inputs | {self.devices: kept, "results": results} | more, outcome.reasons(), changed)

    def _read(self, state: Data, budget_s: float, more: Data) -> Applied:
        """The state as observed; a device that cannot be asked keeps what is known of it."""
        site, known = state["site"], state[self.devices]
        outcome = self._each(known, lambda name: self._observe(site, name, known[name], budget_s), "read")
        seen = {self.devices: known | outcome.done, "results": _results(known, outcome)}
        return Applied(state | seen | more, outcome.reasons())


def _results(names: Data, outcome: Outcomes[Result]) -> dict[str, str]:
    return {name: outcome.failed.get(name, "done") for name in names}


class OfHost(ABC):
    """One host; `key` is the input with its name."""

    outputs = frozenset({"pushed"})
    key: str
    everything: str
    """What an apply does to a host that a preview could not ask."""

    def __init__(self, sites: Sites, reach: Reach) -> None:
        self._sites, self._reach = sites, reach

    @abstractmethod
    def _compare(self, inputs: Data) -> list[str]:
        """Lines that an apply would change: '- line' goes, '+ line' comes."""

    def _drift(self, changes: list[str]) -> list[str]:
        """These lines as drift."""
        return changes

    def nothing_done(self, inputs: Data) -> Data:
        """No push has changed anything."""
        return {"pushed": []}

    def preview(self, inputs: Data, state: Data | None) -> list[str]:
        """The lines that would change, or why the host could not be asked."""
        name = inputs[self.key]
        if self._reach.closed():
            return [f"{name}: {SILENT}: {self.everything}"]
        try:
            changes = self._reach.ask(name, lambda: self._compare(inputs))
        except (DeviceError, SecretError) as error:
            return [f"not reachable, {self.everything}: {line(name, error)}"]
        return [f"{name} {text}" for text in changes]

    def read(self, state: Data) -> Applied:
        """The state with the drift that is seen; a host that cannot be asked keeps what is known of it."""
        try:
            changes = self._compare(state)
        except (DeviceError, SecretError) as error:
            return Applied(state, [line(state[self.key], error)])
        return Applied(state | {"drift": self._drift(changes)})

    def _applied(self, inputs: Data, changed: list[str]) -> Applied:
        """The state after a push that changed these lines."""
        return Applied(
            inputs | {"drift": [], "pushed": changed}, changed=[f"{inputs[self.key]} {text}" for text in changed]
        )


def observed_only(inputs: Data) -> list[tuple[str, str]]:
    """Drift among the inputs of a host is refused."""
    return [("drift", "is observed, never wanted")] if inputs["drift"] else []
