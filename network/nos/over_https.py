"""Switches that are configured over HTTPS: one connection, the comparison of the identity, what ends a wait for a confirmation."""

from abc import ABC, abstractmethod
from typing import ClassVar, Self

from network.drivers.credentials import HttpsCredentials
from network.drivers.errors import DeviceError, PushIncomplete, compare_identity
from network.drivers.https import HttpsDevice
from network.nos.driver import SwitchFacts, timer_was_faster


class OverHttps(ABC):
    """One switch. `name` appears in errors; `mgmt_mac`, when given, is compared before every write."""

    default_mgmt_port: ClassVar[str]
    default_port: ClassVar[int]

    def __init__(
        self,
        name: str,
        address: str,
        credentials: HttpsCredentials,
        *,
        mgmt_mac: str = "",
        mgmt_port: str = "",
        port: int = 0,
    ) -> None:
        self.name, self.mgmt_mac, self.mgmt_port = name, mgmt_mac, mgmt_port or self.default_mgmt_port
        self._device = HttpsDevice(name, address, credentials, port=port or self.default_port)
        self._identity_compared = False

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        """A new connection, and one question over it."""
        self.close()
        self._greet()

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        self._device.close()

    @abstractmethod
    def facts(self) -> SwitchFacts:
        """Host name, management MAC, release, banner before the login, and ports."""

    @abstractmethod
    def runs_previous(self) -> bool:
        """Whether the switch is back at the configuration before the last `commit`."""

    # ---- protocol ----------------------------------------------------------------------------------------------
    @abstractmethod
    def _greet(self) -> None:
        """Ask the switch something small."""

    def _compare_identity(self) -> None:
        if not self._identity_compared:
            seen = self.facts().mgmt_mac if self.mgmt_mac else ""
            compare_identity(self.name, {"mgmt_mac": self.mgmt_mac}, {"mgmt_mac": seen})
            self._identity_compared = True

    def _not_waiting(self, operation: str, seen: str) -> DeviceError:
        """Why nothing is left to confirm: the switch's timer was faster, or the switch runs a third configuration."""
        if self.runs_previous():
            return timer_was_faster(self.name, operation)
        return PushIncomplete(
            self.name,
            operation,
            "the intended configuration, confirmed",
            seen,
            "compare the switch with the plan, then run the same command again",
        )
