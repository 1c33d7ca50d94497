"""What every network OS's driver can do: the verbs that a push is made of (network/push.py).

    switch = choose.driver("cumulus")("rol001", "10.77.0.13", credentials, mgmt_mac="02:…")
    switch.connect()
    if switch.load(config):              # refused by the switch's own check, or the difference
        switch.commit(confirm_s=40)      # applied; the switch falls back by itself after 40 s ...
        switch.confirm()                 # ... unless this call arrives; saved for the next boot
    switch.close()

Every method raises only DeviceErrors (network/drivers/errors.py). `PushRefused` means that nothing was changed, and
`PushRolledBack` that the earlier configuration is back.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from network.drivers.errors import PushRefused, PushRolledBack


@dataclass(frozen=True)
class SwitchFacts:
    """What a switch says about itself. version: of its network OS; ports: {name: (operational state, MTU in bytes)}; held: ports to
    servers that it keeps down because no uplink has a route, None where nothing on it tracks its uplinks.
    """

    hostname: str
    mgmt_mac: str
    version: str
    banner: str
    ports: dict[str, tuple[str, int]]
    held: tuple[str, ...] | None = None


class Driver(Protocol):
    """One switch. `name` appears in errors."""

    name: str
    apply_s: float
    """Allowed per switch between the start of `commit` and the start of judging; the rollback timer is longer by it."""

    def __enter__(self) -> Self:
        """The driver, connected."""

    def __exit__(self, *_: object) -> None:
        """Close the connection."""

    def connect(self) -> None:
        """Open a new connection; an open one is closed first."""

    def close(self) -> None:
        """Close the connection; safe to call twice."""

    def facts(self) -> SwitchFacts:
        """Host name, management MAC, software version, login banner and ports."""

    def get(self) -> str:
        """The running configuration."""

    def compare(self, config: str) -> str:
        """What would change: one '- line' or '+ line' each; '' when the switch runs this configuration."""

    def neighbours(self) -> dict[str, str]:
        """{port or address: BGP state} of every configured IPv4 unicast neighbour; 'Established' where the session is up."""

    def saved(self) -> bool:
        """Whether the configuration for the next boot is the running one."""

    def load(self, config: str) -> str:
        """Stage a configuration, let the switch check it, and return the difference as `compare` does."""

    def commit(self, confirm_s: int) -> None:
        """Apply what `load` staged. Unless `confirm` comes within confirm_s seconds, the switch goes back by itself."""

    def confirm(self) -> None:
        """Keep the applied configuration and save it."""

    def save(self) -> None:
        """Save the running configuration for the next boot."""

    def rollback(self) -> None:
        """Go back to the configuration before `commit` and check that it is there. Raises PushIncomplete otherwise."""

    def runs_previous(self) -> bool:
        """Whether the switch is back at the configuration before the last `commit`."""


@runtime_checkable
class CountsQueues(Protocol):
    """A driver that also reads counters of queues and of pauses. Not every system's does."""

    def queue_counters(self, ports: Iterable[str]) -> dict[str, dict[str, int]]:
        """{port: {"sent/3": frames of queue 3, "marked/3", "dropped/3", "pauses_sent/3", "pauses_received/3": of priority 3}}."""


@runtime_checkable
class TellsLinks(Protocol):
    """A driver that also reads the ends of links: FEC, bit error rates, optical power. Not every system's does."""

    def link_ends(self, ports: Iterable[str]) -> dict[str, dict[str, str]]:
        """{port: what the system says of its end, by the names of network.switch_ends}, without ports that it does not have."""


class Make(Protocol):
    """How a driver is made; `credentials` are of the kind that its class takes, `mgmt_mac` is compared before a write."""

    def __call__(self, name: str, address: str, credentials: Any, *, mgmt_mac: str = "") -> Driver:
        """The driver of one switch, not yet connected."""


def another_push(name: str, operation: str, seen: str) -> PushRefused:
    """The refusal of a push while another one waits for its confirmation."""
    return PushRefused(
        name,
        operation,
        "no other push",
        seen,
        "wait until the switch's own timer has put the earlier configuration back, then run the same command again",
    )


def changed_meanwhile(name: str, operation: str, difference: str = "") -> PushRefused:
    """The refusal to apply what was compared with a configuration that runs no more."""
    return PushRefused(
        name,
        operation,
        "the configuration that the difference was made for",
        f"changed since by somebody else: {difference}" if difference else "changed since by somebody else",
        "find out who configures this switch, then run the same command again; nothing was changed",
    )


def timer_was_faster(name: str, operation: str) -> PushRolledBack:
    """A confirmation that came too late."""
    return PushRolledBack(
        name,
        operation,
        "a confirmation in time",
        "the switch's rollback timer ran out first",
        "the earlier configuration is back; check that the new one keeps the management port, then run it again",
    )
