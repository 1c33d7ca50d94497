"""Devices that live in memory, behind the driver interfaces that the provider's resource types use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.provider.servers import Acted
from network.drivers.credentials import BmcCredentials
from network.drivers.errors import (
    IdentityMismatch,
    LoginRefused,
    PasswordChangeRequired,
    Unreachable,
    WriteRefused,
)


@dataclass
class FakePdu:
    """A PDU with `size` outlets that are on and unnamed; `silent` makes it unreachable."""

    name: str
    size: int = 4
    silent: bool = False
    stranger: bool = False
    writes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = dict.fromkeys(range(1, self.size + 1), "")
        self.on = dict.fromkeys(range(1, self.size + 1), True)
        self.alarms = dict.fromkeys((1, 2, 3), (0, 0))

    def _answer(self, write: str = "") -> None:
        if self.silent:
            raise Unreachable(self.name, "read outlets", "an SNMP answer", "none", "check its management cable")
        if write and self.stranger:
            raise IdentityMismatch(self.name, "compare identity", "serial A", "serial B", "find the device")
        if write:
            self.writes.append(write)

    def identity(self) -> Any:
        self._answer()
        return {"serial": "S2" if self.stranger else "S1"}

    def outlets(self) -> list[Any]:
        self._answer()
        return [
            {"number": n, "name": self.names[n], "on": on, "amps": None, "watts": None} for n, on in self.on.items()
        ]

    def phases(self) -> list[Any]:
        self._answer()
        return [
            {"phase": p, "amps": None, "volts": None, "watts": None, "near_overload_a": near, "overload_a": over}
            for p, (near, over) in self.alarms.items()
        ]

    def set_outlets(self, wanted: Mapping[int, bool]) -> None:
        self._answer("outlets")
        self.on.update(wanted)

    def set_names(self, wanted: Mapping[int, str]) -> None:
        self._answer("names")
        self.names.update(wanted)

    def set_thresholds(self, phase: int, near_overload_a: int, overload_a: int) -> None:
        self._answer(f"thresholds {phase}")
        self.alarms[phase] = (near_overload_a, overload_a)

    def close(self) -> None:
        """Nothing to give back."""


@dataclass
class FakeServer:
    """A server and its BMC, as delivered: off, one-time network boot pending, factory account only when `factory`."""

    name: str
    passwords: dict[str, str]
    serial: str
    silent: bool = False
    power_state: str = "Off"
    ignores_shutdown: bool = False
    boot: tuple[str, str] = ("Pxe", "Once")
    servers: list[str] = field(default_factory=list)
    log_servers: list[str] = field(default_factory=list)
    most_log_servers: int = 8
    protocols: dict[str, bool] = field(default_factory=lambda: {"IPMI": True, "SSH": True})
    must_change: set[str] = field(default_factory=set)
    secure_boot: bool = False
    planned_serial: str = ""
    bios_current: dict[str, Any] = field(default_factory=lambda: {"NumaPerSocket": "4", "Sriov": "Disabled"})
    bios_pending: dict[str, Any] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    sessions: int = 0


class FakeBmc:
    """One session with a FakeServer."""

    def __init__(self, server: FakeServer, credentials: BmcCredentials, acted: Acted | None = None) -> None:
        self.server, self.credentials, self.acted = server, credentials, acted
        self.held = False

    def __enter__(self) -> "FakeBmc":
        self.held = True
        self.server.sessions += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.held = False

    def _answer(self, write: str = "") -> None:
        self.server.sessions += not self.held
        if self.server.silent:
            raise Unreachable(self.server.name, "read state", "a BMC", "nothing", "check its cable")
        if self.server.passwords.get(self.credentials.user) != self.credentials.password:
            raise LoginRefused(self.server.name, "read state", "login", "HTTP 401", "check credentials.bmc")
        if self.credentials.user in self.server.must_change:
            raise PasswordChangeRequired(self.server.name, "read state", "login", "HTTP 403", "change its password")
        if write:
            self.server.writes.append(write)

    def identity(self) -> Any:
        self._answer()
        return {"serial": self.server.serial, "uuid": ""}

    def state(self) -> Any:
        self._answer()
        target, enabled = self.server.boot
        return {
            "power": self.server.power_state,
            "health": "OK",
            "led_on": False,
            "boot_target": target,
            "boot_enabled": enabled,
            "boot_progress": "",
            "restore_policy": "",
        }

    def bios(self) -> dict[str, dict[str, Any]]:
        self._answer()
        return {"current": dict(self.server.bios_current), "pending": dict(self.server.bios_pending)}

    def ntp(self) -> list[str]:
        self._answer()
        return list(self.server.servers)

    def log_servers(self) -> Any:
        self._answer()
        return {"servers": list(self.server.log_servers), "most": self.server.most_log_servers}

    def firmware(self) -> dict[str, str]:
        self._answer()
        return {"BIOS": "1.0.0"}

    def login_refused(self, user: str, password: str) -> bool:
        if self.server.silent:
            self._answer()
        return self.server.passwords.get(user) != password

    def power(self, reset: str, wait: bool = True) -> bool:
        self._answer(reset)
        if reset == "GracefulShutdown" and self.server.ignores_shutdown:
            raise WriteRefused(self.server.name, "reset GracefulShutdown", "power Off", "power On", "look at it")
        before, self.server.power_state = self.server.power_state, "On" if reset == "On" else "Off"
        if self.acted is not None:
            self.acted(reset, before, self.server.power_state)
        return True

    def set_boot(self, target: str, enabled: str = "Once") -> None:
        self._answer(f"boot {target} {enabled}")
        self.server.boot = (target, enabled)

    def set_bios(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        self._answer("bios")
        self.server.bios_pending |= attributes
        return dict(attributes)

    def set_ntp(self, servers: list[str]) -> bool:
        self._answer("ntp")
        self.server.servers = list(servers)
        return True

    def set_log_servers(self, servers: list[str]) -> bool:
        self._answer("log servers")
        if not self.server.most_log_servers:
            raise WriteRefused(self.server.name, "set log servers", "a way", "neither", "update the BMC's firmware")
        self.server.log_servers = list(servers[: self.server.most_log_servers])
        return True

    def secure_boot(self) -> Any:
        self._answer()
        return {"enabled": self.server.secure_boot, "in_force": False, "mode": "DeployedMode"}

    def set_secure_boot(self, on: bool) -> bool:
        self._answer(f"secure boot {on}")
        self.server.secure_boot = on
        return True

    def protocols(self) -> dict[str, bool]:
        self._answer()
        return dict(self.server.protocols)

    def disable_protocols(self, names: list[str]) -> bool:
        self._answer("protocols")
        self.server.protocols.update({name: False for name in names if name in self.server.protocols})
        return True

    def ensure_account(self, user: str, password: str, role: str = "Administrator") -> bool:
        self._answer(f"account {user}")
        self.server.passwords[user] = password
        return True

    def change_password(self, user: str, password: str) -> None:
        self._answer(f"password of {user}")
        self.server.passwords[user] = password
        if user == self.credentials.user:
            self.credentials = BmcCredentials(user, password, self.credentials.ca)

    def change_required_password(self, password: str) -> bool:
        if self.credentials.user not in self.server.must_change:
            return False
        self.server.must_change.discard(self.credentials.user)
        self.server.passwords[self.credentials.user] = password
        self.credentials = BmcCredentials(self.credentials.user, password, self.credentials.ca)
        return True

    def compare_identity(self) -> None:
        self._answer()
        if self.server.planned_serial not in ("", self.server.serial):
            raise IdentityMismatch(
                self.server.name,
                "compare identity",
                f"serial {self.server.planned_serial}",
                f"serial {self.server.serial}",
                "find it",
            )
