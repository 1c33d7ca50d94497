"""What a resource type of the provider is: plain data in, plain data out, devices in between.

Data is nested dicts, lists, strings, numbers and booleans. `inputs` is the desired state; `state` is the inputs as they
were last applied or observed, plus outputs. A resource type never sees Pulumi's wire types and never prints.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

Data = dict[str, Any]


class RefusedError(Exception):
    """Nothing was done, and the message says why; shown to the user as it is."""


@dataclass(frozen=True)
class Applied:
    """After create, update or read: the state to keep, and one line per device that failed.

    changed: what was done, one line each, for the log.
    """

    state: Data
    failures: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


class ResourceType(Protocol):
    """The six verbs, for one resource type. All block; the provider runs them in threads."""

    token: str
    """Pulumi type, such as 'bringup:power:RackOutlets'."""
    outputs: frozenset[str]
    """Keys of the state that are not inputs; they take no part in differences."""
    key: str
    """The input that is the resource's identity; a change of it replaces the resource."""

    def nothing_done(self, inputs: Data) -> Data:
        """The outputs of a resource that has never applied these inputs (before an import reads its devices)."""

    def check(self, inputs: Data) -> list[tuple[str, str]]:
        """(property, reason) for each input that cannot be applied."""

    def preview(self, inputs: Data, state: Data | None) -> list[str]:
        """What `apply` would change, as the devices themselves see it; never raises for a device that is silent."""

    def apply(self, inputs: Data, state: Data | None) -> Applied:
        """Bring the devices to `inputs` (create and update are this one upsert). Raises when nothing could be done."""

    def read(self, state: Data) -> Applied:
        """The state as observed; devices that cannot be asked keep their last known state and are named."""

    def delete(self, state: Data) -> list[str]:
        """Return the devices to a safe state; one line per device that could not be."""
