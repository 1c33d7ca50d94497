"""BMCs over Redfish: identity, power, boot override, secure boot, BIOS, accounts, supplies, clock, LED, event log, firmware.

    bmc = Bmc("10.77.0.61", credentials, name="gpu001", serial="SIM123", uuid="…")
    bmc.identity()["serial"]; bmc.state()["power"]; bmc.power("On")

Systems, BIOS and boot options go through the sushy library, the resources that it does not model through its
connector as plain JSON. TLS is verified against the CA of the credentials, or by their pin. Every public method has one total time
budget, raises only DeviceErrors (errors.py) and compares serial and UUID, when given, before it writes.

The login is a session where the BMC has a SessionService, HTTP Basic elsewhere. Each call ends its session, since BMCs
keep only a few; `with Bmc(...) as bmc:` keeps one session for all calls inside. PATCH carries the ETag of a read just
before it (If-Match).
"""

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NotRequired, TypeVar
from urllib.parse import urljoin, urlsplit

import requests
import sushy
import yaml
from requests.adapters import HTTPAdapter
from sushy.auth import AuthBase
from sushy.connector import Connector
from sushy.exceptions import (
    AccessError,
    ConnectionError,
    HTTPError,
    ResourceNotFoundError,
    SushyError,
    raise_for_response,
)
from typing_extensions import TypedDict

from network.drivers import answers, redfish_boot, redfish_power, redfish_syslog, tls
from network.drivers.answers import Flag, Line, Number, Setting, Source, Text, Whole
from network.drivers.budget import within
from network.drivers.credentials import BmcCredentials
from network.drivers.errors import (
    BadAnswer,
    DeviceError,
    DeviceTimeout,
    IdentityMismatch,
    LoginRefused,
    PasswordChangeRequired,
    Unreachable,
    UpdateFailed,
    UpdateGone,
    WriteRefused,
    compare_identity,
)
from network.drivers.redfish_boot import SETUP_MODE, SecureBoot, Tpm
from network.drivers.redfish_certificates import checked_request, first_of, request_body
from network.drivers.redfish_power import PowerSupplies, Thermal, told
from network.drivers.redfish_syslog import LogServers
from network.drivers.redfish_update import ENDED, Multipart, UpdateTask, failure, read_task

DEFAULT_BUDGET_S = 30.0
"""Time for one method call. BMCs of real servers answer a request in 0.2 to 3 s, and a call may need ten of them."""
LOGOUT_S = 3.0
"""For the end of a session. A BMC that does not answer in this time ends it by its own timeout."""
TOKEN_CHARACTERS = 4096
"""Longest X-Auth-Token that is taken: some BMCs send signed tokens of about 1,000."""
UNUSED_PROTOCOLS = ("IPMI", "Telnet")
"""Network services that a BMC is left without (S017): IPMI over LAN has cipher 0, Telnet sends passwords in clear. One that a BMC
does not name is one that it does not have (DSP0268, ManagerNetworkProtocol).
"""
OS_RUNNING = "OSRunning"
"""BootProgress.LastState once the operating system runs (DSP0268, ComputerSystem)."""
FORBIDDEN = 403
"""HTTP status for a login that is right and may not do this (DSP0266, section on privileges)."""
WRONG_LOGIN = "check credentials.bmc of the site file; a new BMC has its factory password"
MAY_NOT = "the login is right: give the account the role Administrator, or change its password if the BMC asks for that"
CHANGE_IT = "the login is right: name it in credentials.bmc.factory, and `pulumi up` changes its password to the site's"
CHANGE_REQUIRED = ".PasswordChangeRequired"
"""End of the message's id: Base.VERSION.PasswordChangeRequired (DMTF, Base message registry)."""
NO_SESSIONS = (404, 405, 501)
"""HTTP status of a BMC that names a SessionService and does not have it."""
PUSH_BUDGET_S = 600.0
"""For sending an image: 1.5 GB over a BMC's port of 100 Mbit/s take two minutes, and BMCs write while they read."""
TASK_POLL_S = 5.0
"""Between two reads of an update's task, which takes minutes."""
FIXED_SLOTS = (405,)
"""HTTP status of a BMC whose accounts are slots: they are neither made nor deleted, but filled and emptied by PATCH, as on
Dell's iDRAC (dell/redfish-ansible-module, scripts/delete-idrac-user.py)."""
RESERVED_SLOT = "1"
"""Id of the slot that iDRAC keeps for itself; not confirmed in a document."""
POLL_S = 0.2
BODY_BYTES = 8 << 20
"""Largest answer to one request. An expanded event log of 10,000 entries is about 5 MB."""
MEMBERS = 20_000
"""Most members of one collection, over all its pages."""
PRECONDITION_FAILED = 412
"""HTTP status of a PATCH whose If-Match names an older version of the resource."""
RESETS = ("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle")
"""Redfish ResetType values (DSP0268, Resource schema) that `power` accepts."""
BMC_RESETS = ("GracefulRestart", "ForceRestart")
"""Kinds of Manager.Reset, the gentler first (DSP0268, Manager schema)."""
NOT_INSTALLED = "Previous-"
"""Start of the id of a version that is only kept for a return, on Dell's iDRAC (Dell, iDRAC10 Redfish API guide,
SoftwareInventory)."""
ENDS_IN = {"On": "On", "ForceOff": "Off", "GracefulShutdown": "Off"}
"""PowerState after a reset that has a certain end; restarts end where they began."""

QUIRKS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("redfish_quirks.yaml").read_text())

logging.getLogger("sushy").addHandler(logging.NullHandler())  # what goes wrong is raised, not also printed

Answer = TypeVar("Answer")


class BmcIdentity(TypedDict):
    """What the server says it is. `manufacturer` is what evidence is classified by."""

    manufacturer: Line
    model: Line
    serial: Line
    uuid: Line
    hostname: Line
    bmc_model: Line
    bmc_firmware: Line


class SystemState(TypedDict):
    """Power and boot state of the server; texts are Redfish's own values, '' where the BMC does not tell.

    boot_s: seconds that the last start took until the operating system ran. memory_gib: what the system can use. None for what the
    BMC does not tell; recordings of before these were read lack all three.
    """

    power: Line
    health: Line
    led_on: Flag | None
    boot_target: Line
    boot_enabled: Line
    boot_progress: Line
    restore_policy: Line
    boot_s: NotRequired[Number | None]
    processors: NotRequired[Whole | None]
    memory_gib: NotRequired[Number | None]


class LogEntry(TypedDict):
    """One entry of the system event log."""

    id: Line
    created: Line
    severity: Line
    message: Text


class Media(TypedDict):
    """One virtual drive; image is '' where nothing is inserted."""

    id: Line
    types: list[Line]
    inserted: Flag
    image: Line


class Account(TypedDict):
    """One BMC account; never its password."""

    path: Line
    user: Line
    role: Line
    enabled: Flag


class FirmwareItem(TypedDict):
    """One item of the firmware inventory; `key` is its name, or its id where several items have one name."""

    key: Line
    version: Line
    path: Line


class ResourceGone(BadAnswer):
    """The BMC has no such resource (HTTP 404)."""


class Bmc:
    """One BMC. `name` appears in errors; `serial` and `uuid`, when given, are compared before every write.

    acted: hears of each power action that was followed: its ResetType, and the power state before and after it.
    """

    def __init__(
        self,
        address: str,
        credentials: BmcCredentials,
        budget_s: float = DEFAULT_BUDGET_S,
        *,
        name: str = "",
        serial: str = "",
        uuid: str = "",
        port: int = 443,
        acted: Callable[[str, str, str], None] | None = None,
    ) -> None:
        self.address, self.port, self.credentials, self.budget_s = address, port, credentials, budget_s
        self.acted = acted
        self.name, self.serial, self.uuid = name or address, serial, uuid
        self._root: Any = None
        self._login: _Login | None = None
        self._held = False
        self._identity_compared = False
        self._deadline, self._operation = 0.0, ""

    def __enter__(self) -> "Bmc":
        self._held = True
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session that is kept since `with`; nothing where there is none."""
        self._held = False
        self._log_out()

    # ---- reading -----------------------------------------------------------------------------------------------
    def identity(self) -> BmcIdentity:
        """Manufacturer, model, serial and UUID of the server, model and firmware of its BMC."""

        def read() -> BmcIdentity:
            system, manager = self._system(), self._first("/redfish/v1/Managers")
            return BmcIdentity(
                manufacturer=told(system.manufacturer),
                model=told(system.model),
                serial=told(system.serial_number),
                uuid=told(system.uuid),
                hostname=told(system.hostname),
                bmc_model=told(manager.get("Model")),
                bmc_firmware=told(manager.get("FirmwareVersion")),
            )

        return self._read("read identity", read, BmcIdentity)

    def compare_identity(self) -> None:
        """Raise IdentityMismatch unless this is the server with the serial and UUID given; writes do so by themselves."""
        self._call("compare identity", self._compare_identity)

    def state(self) -> SystemState:
        """Power state, health, LED, boot override, boot progress and power restore policy, freshly read."""

        def read() -> SystemState:
            body = self._system().json
            boot = body.get("Boot") or {}
            return SystemState(
                power=told(body.get("PowerState")),
                health=told((body.get("Status") or {}).get("Health")),
                led_on=_led(body),
                boot_target=told(boot.get("BootSourceOverrideTarget")),
                boot_enabled=told(boot.get("BootSourceOverrideEnabled")),
                boot_progress=told((body.get("BootProgress") or {}).get("LastState")),
                restore_policy=told(body.get("PowerRestorePolicy")),
                boot_s=_boot_s(body),
                processors=(body.get("ProcessorSummary") or {}).get("Count"),
                memory_gib=(body.get("MemorySummary") or {}).get("TotalSystemMemoryGiB"),
            )

        return self._read("read state", read, SystemState)

    def bios(self) -> dict[str, dict[str, Any]]:
        """{'current': attributes in force, 'pending': those that wait for the next boot and differ from them}."""

        def read() -> dict[str, dict[str, Any]]:
            bios = self._system().bios
            current, pending = dict(bios.attributes or {}), dict(bios.pending_attributes or {})
            return {"current": current, "pending": {k: v for k, v in pending.items() if current.get(k) != v}}

        return self._read("read BIOS attributes", read, dict[Line, dict[Line, Setting]])

    def secure_boot(self) -> SecureBoot | None:
        """Whether this boot and the next one verify what they start; None for a BMC without a SecureBoot resource."""

        def read() -> list[dict[str, Any]]:
            found = self._secure_boot()
            return [] if found is None else [redfish_boot.secure_boot(found[1])]

        return next(iter(self._read("read secure boot", read, list[SecureBoot])), None)

    def tpms(self) -> list[Tpm]:
        """The server's TPMs; empty where it has none, and where its BMC lists them as TrustedComponent only."""
        return self._read("read TPMs", lambda: redfish_boot.tpms(self._system().json), list[Tpm])

    def psus(self) -> PowerSupplies:
        """The power supplies of the server's chassis, their redundancy and the power drawn."""

        return self._read(
            "read power supplies", lambda: redfish_power.supplies(self._all_chassis(), self._json), PowerSupplies
        )

    def thermal(self) -> Thermal:
        """Temperatures and fans of all chassis that the BMC shows."""
        return self._read("read temperatures", lambda: redfish_power.thermal(self._all_chassis(), self._json), Thermal)

    def accounts(self) -> list[Account]:
        """The BMC's accounts that have a user name."""
        return self._call("read accounts", self._accounts)

    def roles(self) -> list[str]:
        """The roles that accounts can have; empty where the BMC does not list them."""
        return self._read("read roles", self._roles, list[Line])

    def sel(self) -> list[LogEntry]:
        """The system event log, oldest first as the BMC lists it."""

        def read() -> list[LogEntry]:
            entries = self._json(self._event_log()["Entries"]["@odata.id"])
            return [
                LogEntry(
                    id=str(e.get("Id", "")),
                    created=told(e.get("Created")),
                    severity=told(e.get("Severity")),
                    message=told(e.get("Message")),
                )
                for e in self._expanded(entries)
            ]

        return self._read("read event log", read, list[LogEntry])

    def firmware(self) -> dict[str, str]:
        """{component: version} of the update service's firmware inventory, by the keys of `firmware_items`."""
        return {item["key"]: item["version"] for item in self.firmware_items()}

    def firmware_items(self) -> list[FirmwareItem]:
        """What the firmware inventory says that runs; versions that are only kept for a return are left out."""

        def read() -> list[dict[str, Any]]:
            inventory = self._json(self._json("/redfish/v1/UpdateService")["FirmwareInventory"]["@odata.id"])
            found = [
                item for item in self._expanded(inventory) if not str(item.get("Id", "")).startswith(NOT_INSTALLED)
            ]
            names = Counter(item.get("Name") for item in found)
            return [
                {
                    "key": item["Name"] if item.get("Name") and names[item["Name"]] == 1 else item["Id"],
                    "version": told(item.get("Version")),
                    "path": item["@odata.id"],
                }
                for item in found
            ]

        return self._read("read firmware inventory", read, list[FirmwareItem])

    def nics(self) -> dict[str, str]:
        """{interface id: MAC address} of the server's own network ports."""

        def read() -> dict[str, str]:
            ports = self._json(self._system().json["EthernetInterfaces"]["@odata.id"])
            return {str(p["Id"]): told(p.get("MACAddress")) for p in self._expanded(ports)}

        return self._read("read network ports", read, dict[Line, Line])

    def ntp(self) -> list[str]:
        """The BMC's time servers; empty when NTP is off."""

        def read() -> list[str]:
            ntp = self._protocols()[1].get("NTP") or {}
            return (
                [server for server in ntp.get("NTPServers") or [] if server != ""] if ntp.get("ProtocolEnabled") else []
            )

        return self._read("read time servers", read, list[Line])

    def log_servers(self) -> LogServers:
        """The log servers that get the BMC's messages, and how many it takes; `most` is 0 where it shows none of the known ways."""
        return self._read("read log servers", lambda: self._log_servers()[1], LogServers)

    def protocols(self) -> dict[str, bool]:
        """{protocol: enabled} of the BMC's network services: IPMI, SSH, HTTPS, ..."""

        def read() -> dict[str, bool]:
            body = self._protocols()[1]
            return {k: v["ProtocolEnabled"] for k, v in body.items() if isinstance(v, dict) and "ProtocolEnabled" in v}

        return self._read("read network protocols", read, dict[Line, Flag])

    def login_refused(self, user: str, password: str) -> bool:
        """Whether the BMC refuses this login: the proof that a factory account is closed. Errors are not a refusal."""
        other = Bmc(
            self.address,
            replace(self.credentials, user=user, password=password),
            self.budget_s,
            name=self.name,
            port=self.port,
        )
        try:
            other._call("try a login", other._try_login)
        except PasswordChangeRequired:
            return False
        except LoginRefused:
            return True
        return False

    # ---- writing -----------------------------------------------------------------------------------------------
    def power(self, reset: str, wait: bool = True) -> bool:
        """Reset the server by one of RESETS; True when something was asked of it, False when it is there already.

        With wait, returns when the power state is the one that the reset ends in. Raises WriteRefused when the BMC
        refuses (a server without feed, for example) or the state is not reached within the budget.
        """
        if reset not in RESETS:
            raise ValueError(f"reset {reset!r} is none of {', '.join(RESETS)}")

        def write() -> bool:
            self._compare_identity()
            system, end = self._system(), ENDS_IN.get(reset)
            before = system.json.get("PowerState")
            if end is not None and before == end:
                return False
            system.reset_system(sushy.ResetType(reset))
            while wait and end is not None:
                now = self._system().json.get("PowerState")
                if now == end:
                    if self.acted is not None:
                        self.acted(reset, told(before), end)
                    break
                if time.monotonic() + POLL_S > self._deadline - 1:
                    raise WriteRefused(
                        self.name,
                        f"reset {reset}",
                        f"power {end} in {self.budget_s:g} s",
                        f"power {now}",
                        "look at the server's console and its power supplies",
                    )
                time.sleep(POLL_S)
            return True

        return self._call(f"reset {reset}", write)

    def set_boot(self, target: str, enabled: str = "Once") -> None:
        """Override the boot source ('Pxe', 'Hdd', 'Cd', ...) 'Once' or 'Continuous', or 'Disabled', and read it back.

        It is written to the system's Settings object where that one has the override (iDRAC10, AMI), else to the system.
        Raises WriteRefused for a source that the BMC does not list.
        """

        def write() -> None:
            self._compare_identity()
            system = self._system()
            boot = system.json.get("Boot") or {}
            quirks = _quirks(told(system.json.get("Manufacturer")))
            allowed = boot.get("BootSourceOverrideTarget@Redfish.AllowableValues") or []
            source = quirks["cd_target"] if target == "Cd" and quirks.get("cd_target") in allowed else target
            if allowed and source not in allowed and enabled != "Disabled":
                raise WriteRefused(
                    self.name,
                    "set boot override",
                    f"a boot source {source}",
                    f"{', '.join(map(str, allowed))}",
                    "choose one of these, or update the BMC's firmware",
                )
            wanted = {"BootSourceOverrideTarget": source, "BootSourceOverrideEnabled": enabled}
            mode = boot.get("BootSourceOverrideMode")
            sent = {**wanted, "BootSourceOverrideMode": mode} if quirks.get("sends_boot_mode") and mode else wanted
            path = self._boot_path(system)
            self._patch(path, {"Boot": sent})
            seen = self._json(path).get("Boot") or {}
            if path != system.path and _subset(seen, wanted) != wanted:  # taken over by the system at once
                seen = self._system().json.get("Boot") or {}
            self._read_back("set boot override", wanted, seen)

        self._call("set boot override", write)

    def media(self) -> list[Media]:
        """The drives for virtual media and what is inserted in them."""
        return self._read("read virtual media", lambda: [_media(m) for m in self._drives()], list[Media])

    def insert_media(self, image: str) -> bool:
        """Insert an image (http or https) as a CD and wait until the BMC has it; False when it is there already.

        Another image is ejected first. Raises WriteRefused where there is no drive, or the image does not arrive within
        the budget. ValueError for an address that is none or carries a login.
        """
        _image_address(image)

        def write() -> bool:
            self._compare_identity()
            drive = self._drive()
            if drive.get("Inserted") and drive.get("Image") == image:
                return False
            if drive.get("Inserted"):
                self._eject(drive)
            self._media_action(drive, "InsertMedia", {"Image": image, "Inserted": True, "WriteProtected": True})
            self._wait_for_media(drive["@odata.id"], True)
            return True

        return self._call("insert virtual media", write)

    def eject_media(self) -> bool:
        """Eject the virtual CD; False when none is inserted."""

        def write() -> bool:
            self._compare_identity()
            drive = self._drive()
            if not drive.get("Inserted"):
                return False
            self._eject(drive)
            return True

        return self._call("eject virtual media", write)

    def set_bios(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Set the attributes that differ; returns them. They are in force after the next boot: read `bios`."""

        def write() -> dict[str, Any]:
            self._compare_identity()
            bios = self._system().bios
            current = bios.attributes or {}
            unknown = sorted(set(attributes) - set(current))
            if unknown:
                raise WriteRefused(
                    self.name,
                    "set BIOS attributes",
                    "known attributes",
                    f"unknown: {', '.join(unknown)}",
                    "compare the profile with the attributes of this BIOS version; nothing was set",
                )
            pending = bios.pending_attributes or {}
            changes = {k: v for k, v in attributes.items() if pending.get(k, current[k]) != v}
            if changes:
                # A BMC that lists times may keep attributes pending until it is told one (DSP0266, settings resources).
                times = (bios.json.get("@Redfish.Settings") or {}).get("SupportedApplyTimes") or []
                bios.set_attributes(changes, apply_time=sushy.ApplyTime.ON_RESET if "OnReset" in times else None)
                bios = self._system().bios
                seen = {**(bios.attributes or {}), **(bios.pending_attributes or {})}
                self._read_back("set BIOS attributes", changes, {k: seen.get(k) for k in changes})
            return changes

        return self._call("set BIOS attributes", write)

    def set_secure_boot(self, on: bool) -> bool:
        """Have the next boot verify what it starts, or not, and read that back; False when it is set so already.

        WriteRefused for a BMC without a SecureBoot resource, and for a server without a platform key (SetupMode).
        """

        def write() -> bool:
            self._compare_identity()
            found = self._secure_boot()
            if found is None:
                way = "update the BMC's firmware, or set the attribute of its BIOS profile in the catalogue entry"
                raise WriteRefused(self.name, self._operation, "a SecureBoot resource", "none", way)
            path, body = found
            if body.get("SecureBootEnable") is on:
                return False
            if on and body.get("SecureBootMode") == SETUP_MODE:
                way = "enrol the maker's keys in its firmware setup (SecureBoot.ResetKeys, ResetAllKeysToDefault), then again"
                raise WriteRefused(self.name, self._operation, "a platform key", f"SecureBootMode {SETUP_MODE}", way)
            self._patch(path, {"SecureBootEnable": on})
            wanted = {"SecureBootEnable": on}
            self._read_back(self._operation, wanted, _subset(self._json(path), wanted))
            return True

        return self._call("set secure boot", write)

    def set_restore_policy(self, policy: str) -> None:
        """What the server does when its feed returns: 'AlwaysOn', 'AlwaysOff' or 'LastState'."""

        def write() -> None:
            self._compare_identity()
            system = self._system()
            if system.json.get("PowerRestorePolicy") != policy:
                self._patch(system.path, {"PowerRestorePolicy": policy})
            self._read_back(
                "set power restore policy",
                {"policy": policy},
                {"policy": self._system().json.get("PowerRestorePolicy")},
            )

        self._call("set power restore policy", write)

    def led(self, on: bool) -> None:
        """Light the identify LED, or put it out, and read it back."""

        def write() -> None:
            self._compare_identity()
            system = self._system()
            if "LocationIndicatorActive" in system.json:  # IndicatorLED is deprecated since ComputerSystem 1.13
                self._patch(system.path, {"LocationIndicatorActive": on})
            else:
                system.set_indicator_led(sushy.IndicatorLED.LIT if on else sushy.IndicatorLED.OFF)
            self._read_back("set identify LED", {"on": on}, {"on": _led(self._system().json)})

        self._call("set identify LED", write)

    def set_ntp(self, servers: list[str]) -> bool:
        """Make the BMC take its time from these servers; False when it does already."""

        def write() -> bool:
            self._compare_identity()
            path, body = self._protocols()
            wanted = {"ProtocolEnabled": bool(servers), "NTPServers": servers}
            if _subset(body.get("NTP") or {}, wanted) == wanted:
                return False
            self._patch(path, {"NTP": wanted})
            self._read_back("set time servers", wanted, _subset(self._protocols()[1].get("NTP") or {}, wanted))
            return True

        return self._call("set time servers", write)

    def disable_protocols(self, names: Sequence[str]) -> bool:
        """Switch these network services of the BMC off, those that it has; False when none of them is on."""

        def write() -> bool:
            self._compare_identity()
            path, body = self._protocols()
            on = [name for name in names if (body.get(name) or {}).get("ProtocolEnabled")]
            if not on:
                return False
            self._patch(path, {name: {"ProtocolEnabled": False} for name in on})
            now = self._protocols()[1]
            seen = {name: (now.get(name) or {}).get("ProtocolEnabled") for name in on}
            self._read_back("disable protocols", dict.fromkeys(on, False), seen)
            return True

        return self._call("disable protocols", write)

    def set_log_servers(self, servers: Sequence[str]) -> bool:
        """Make the BMC send its messages to these log servers, the first ones where it takes fewer; False when it does already.

        WriteRefused for a BMC that shows none of the known ways.
        """

        def write() -> bool:
            self._compare_identity()
            place, seen, members = self._log_servers()
            if redfish_syslog.as_planned(seen, servers):
                return False
            if not seen["most"]:
                raise WriteRefused(
                    self.name,
                    self._operation,
                    "a syslog subscription of EventService, or a maker's own setting",
                    "neither",
                    "update the BMC's firmware, or set them on its own page",
                )
            wanted = list(servers[: seen["most"]])
            if place.kind == "subscriptions":
                for member in members:
                    if redfish_syslog.host(member) not in wanted:
                        self._connected()._conn.delete(member["@odata.id"])
                for server in [server for server in wanted if server not in seen["servers"]]:
                    self._connected()._conn.post(place.path, data=redfish_syslog.subscription(server))
            else:
                self._patch(place.path, redfish_syslog.change(place, wanted))
            now = self._log_servers()[1]
            self._read_back(self._operation, {"log servers": sorted(wanted)}, {"log servers": sorted(now["servers"])})
            return True

        return self._call("set log servers", write)

    def ensure_account(self, user: str, password: str, role: str = "Administrator") -> bool:
        """Make an enabled account with this password and role exist; False when it does already and lets us in."""

        def write() -> bool:
            self._compare_identity()
            there = next((a for a in self._accounts() if a["user"] == user), None)
            roles = self._roles()
            if roles and role not in roles:
                raise WriteRefused(
                    self.name, self._operation, f"a role {role}", ", ".join(roles), "choose a role that the BMC has"
                )
            if there is None:
                self._make_account({"UserName": user, "Password": password, "RoleId": role, "Enabled": True})
            elif there["role"] != role or not there["enabled"] or self.login_refused(user, password):
                self._patch(there["path"], {"Password": password, "RoleId": role, "Enabled": True})
            else:
                return False
            if self.login_refused(user, password):
                raise WriteRefused(
                    self.name,
                    f"set account {user}",
                    "a login that works",
                    "login refused",
                    "check the BMC's password rules",
                )
            return True

        return self._call(f"set account {user}", write)

    def change_password(self, user: str, password: str) -> None:
        """Give an existing account another password and prove it by a login; our own login moves along."""

        def write() -> None:
            self._compare_identity()
            there = next((a for a in self._accounts() if a["user"] == user), None)
            if there is None:
                raise WriteRefused(
                    self.name,
                    f"change password of {user}",
                    "that account",
                    "no such account",
                    "compare the site file's accounts with the BMC's",
                )
            self._patch(there["path"], {"Password": password})
            if user == self.credentials.user:
                self._log_out()
                self.credentials = replace(self.credentials, password=password)
                self._root = None
            if self.login_refused(user, password):
                raise WriteRefused(
                    self.name,
                    f"change password of {user}",
                    "a login that works",
                    "login refused",
                    "check the BMC's password rules",
                )

        self._call(f"change password of {user}", write)

    def change_required_password(self, password: str) -> bool:
        """Change our account's password where the BMC asks for that before anything else; False where it does not ask.

        Which server this is cannot be compared before: a BMC answers such a login nothing but reads and changes of its own
        account (DSP0266, section on password change required handling). Our login moves along. WriteRefused where it does
        not work afterwards.
        """

        def write() -> bool:
            account = self._asks_for_change()
            if account is None:
                return False
            user = self.credentials.user
            if not account:
                raise BadAnswer(
                    self.name,
                    self._operation,
                    "PasswordChangeRequired with the address of the account (MessageArgs)",
                    "no address in it",
                    "change the password on the BMC's own page",
                )
            if (there := told(self._json(account).get("UserName"))) != user:
                raise BadAnswer(
                    self.name, self._operation, f"the account of {user}", f"that of {there}", "look at this BMC by hand"
                )
            self._patch(account, {"Password": password})
            self._log_out()
            self.credentials = replace(self.credentials, password=password)
            self._root = None
            if self.login_refused(user, password) or self._asks_for_change() is not None:
                raise WriteRefused(
                    self.name,
                    self._operation,
                    "a login that may do more",
                    "login refused, or another change asked for",
                    "check the BMC's password rules",
                )
            return True

        return self._call("change the password that the BMC wants changed", write)

    def disable_account(self, user: str) -> bool:
        """Take an account, such as the factory's, its login; False when it has none or is not there.

        WriteRefused for the account that this login uses: nobody could enable it again.
        """

        def write() -> bool:
            self._compare_identity()
            there = self._account_of_others(user)
            if there is None or not there["enabled"]:
                return False
            self._patch(there["path"], {"Enabled": False})
            self._read_back(self._operation, {"Enabled": False}, self._json(there["path"]))
            return True

        return self._call(f"disable account {user}", write)

    def delete_account(self, user: str) -> bool:
        """Remove an account; False when it is not there. WriteRefused for the account that this login uses."""

        def write() -> bool:
            self._compare_identity()
            there = self._account_of_others(user)
            if there is None:
                return False
            try:
                self._connected()._conn.delete(there["path"])
            except HTTPError as e:
                if e.status_code not in FIXED_SLOTS:
                    raise
                for change in ({"Enabled": False}, {"UserName": ""}):
                    self._patch(there["path"], change)
            if any(a["user"] == user for a in self._accounts()):
                raise WriteRefused(
                    self.name, self._operation, "no such account", "it is still there", "disable the account instead"
                )
            return True

        return self._call(f"delete account {user}", write)

    # ---- certificate -------------------------------------------------------------------------------------------
    def signing_request(self, subject: Mapping[str, str], names: Sequence[str] = ()) -> str:
        """A signing request (PEM) for the BMC's HTTPS certificate; the BMC makes the key and keeps it.

        `subject` has the keys of redfish_certificates.SUBJECT, `names` are further host names and addresses. WriteRefused
        where the BMC makes no requests, UnreadableAnswer for a request that is not this one or has a weak key.
        """

        def write() -> str:
            self._compare_identity()
            target = self._certificate_action("GenerateCSR")
            body = request_body(subject, names, self._certificates())
            said = self._connected()._conn.post(target, data=body).json()
            return checked_request(said.get("CSRString"), subject, self._source())

        request_body(subject, names, "")  # ValueError before anything is asked
        return self._call("make signing request", write)

    def install_certificate(self, pem: str) -> None:
        """Replace the BMC's HTTPS certificate and wait until the BMC presents it. ValueError for text that is no PEM."""
        wanted = first_of(pem)

        def write() -> None:
            self._compare_identity()
            collection = self._certificates()
            there = self._json(collection).get("Members") or []
            certificate = {"CertificateString": pem, "CertificateType": "PEM"}
            if there:
                target = self._certificate_action("ReplaceCertificate")
                body = {**certificate, "CertificateUri": {"@odata.id": there[0]["@odata.id"]}}
                self._connected()._conn.post(target, data=body)
            else:
                self._connected()._conn.post(collection, data=certificate)
            self._log_out()
            self._root = None  # the next connection is made under the new certificate
            while tls.presented(self.address, self.port) != wanted:
                if time.monotonic() + POLL_S > self._deadline - 1:
                    raise WriteRefused(
                        self.name,
                        self._operation,
                        "the new certificate",
                        "another one",
                        "reset the BMC: some present a new certificate after a restart only",
                    )
                time.sleep(POLL_S)

        self._call("install certificate", write)

    # ---- firmware ----------------------------------------------------------------------------------------------
    def simple_update(self, image: str, targets: Sequence[str] = ()) -> str:
        """Make the BMC fetch an image (http or https) and install it; returns the path of the task: see `follow_update`.

        `targets` are paths of the firmware inventory; without them the BMC decides. WriteRefused where the BMC has no
        SimpleUpdate or not this protocol. ValueError for an address that is none or carries a login.
        """
        protocol = _image_address(image)

        def write() -> str:
            self._compare_identity()
            service = self._json("/redfish/v1/UpdateService")
            action = (service.get("Actions") or {}).get("#UpdateService.SimpleUpdate") or {}
            allowed = action.get("TransferProtocol@Redfish.AllowableValues") or [protocol]
            if "target" not in action or protocol not in allowed:
                raise WriteRefused(
                    self.name,
                    self._operation,
                    f"SimpleUpdate over {protocol}",
                    f"SimpleUpdate over {', '.join(map(str, allowed))}" if "target" in action else "no SimpleUpdate",
                    "push the image as a file instead",
                )
            body = {"ImageURI": image, "TransferProtocol": protocol, **({"Targets": list(targets)} if targets else {})}
            return self._task_path(self._connected()._conn.post(action["target"], data=body))

        return self._call("start update", write)

    def push_update(self, image: Path, targets: Sequence[str] = (), *, budget_s: float = PUSH_BUDGET_S) -> str:
        """Send an image to the BMC (MultipartHttpPushUri); returns the path of the task: see `follow_update`.

        WriteRefused where the BMC takes no multipart push or no image of this size. OSError for a file that is not there.
        """
        size = image.stat().st_size

        def write() -> str:
            self._compare_identity()
            service = self._json("/redfish/v1/UpdateService")
            path, most = service.get("MultipartHttpPushUri"), service.get("MaxImageSizeBytes")
            if not isinstance(path, str):
                raise WriteRefused(
                    self.name,
                    self._operation,
                    "MultipartHttpPushUri",
                    "none",
                    "update by SimpleUpdate from a web server instead",
                )
            if isinstance(most, int) and size > most:
                raise WriteRefused(
                    self.name,
                    self._operation,
                    f"an image of at most {most} bytes",
                    f"{size} bytes",
                    "check that the image is made for this BMC",
                )
            connection = self._connected()._conn
            url = urljoin(f"https://{self.address}:{self.port}", path)
            with Multipart({"Targets": list(targets)}, image) as body:
                try:
                    said = connection._session.post(
                        url,
                        data=body,
                        headers=body.headers,
                        verify=connection._verify,
                        timeout=(tls.CONNECT_TIMEOUT_S, budget_s),
                    )
                except requests.RequestException as e:  # as sushy's connector does, which takes no files
                    raise ConnectionError(url=url, error=e) from e
            raise_for_response("POST", url, said)
            return self._task_path(said)

        return self._call("push update", write, budget_s)

    def running_tasks(self) -> list[str]:
        """Paths of the tasks that have not ended; empty where the BMC keeps no list of tasks."""

        def read() -> list[str]:
            service = self._connected().json.get("Tasks")
            if not isinstance(service, dict):
                return []
            tasks = self._json(self._json(service["@odata.id"])["Tasks"]["@odata.id"])
            return [task["@odata.id"] for task in self._expanded(tasks) if task.get("TaskState") not in ENDED]

        return self._read("read tasks", read, list[Line])

    def reset_bmc(self) -> None:
        """Restart the BMC itself; the server goes on. Its sessions end: give it a minute or more before the next call.

        GracefulRestart where the BMC lists it, else ForceRestart. WriteRefused for a BMC that has neither.
        """

        def write() -> None:
            self._compare_identity()
            manager = self._first("/redfish/v1/Managers")
            action = (manager.get("Actions") or {}).get("#Manager.Reset") or {}
            allowed = action.get("ResetType@Redfish.AllowableValues") or list(BMC_RESETS)
            kind = next((kind for kind in BMC_RESETS if kind in allowed), None)
            if "target" not in action or kind is None:
                raise WriteRefused(
                    self.name,
                    self._operation,
                    f"Manager.Reset with {' or '.join(BMC_RESETS)}",
                    f"Manager.Reset with {', '.join(map(str, allowed))}" if "target" in action else "no Manager.Reset",
                    "restart the BMC on its own page, or cut all outlets of the server for a while",
                )
            self._connected()._conn.post(action["target"], data={"ResetType": kind})

        self._call("restart BMC", write)
        self._drop()

    def update_task(self, task: str) -> UpdateTask:
        """How far the update is."""
        return self._read("read update task", lambda: read_task(self._json(task)), UpdateTask)

    def follow_update(
        self,
        task: str,
        budget_s: float,
        progress: Callable[[UpdateTask], None] = lambda task: None,
        *,
        poll_s: float = TASK_POLL_S,
    ) -> UpdateTask:
        """Wait until an update has ended; `progress` is called whenever its state or percentage has changed.

        A BMC that does not answer meanwhile is asked again: it may restart itself. Raises UpdateFailed, which names the
        message id, for an update that failed, its kind UpdateGone where the task is gone, DeviceTimeout when budget_s have passed.
        """
        deadline, last = time.monotonic() + budget_s, "no answer"
        shown: tuple[str, float | None] = ("", None)
        while True:
            try:
                seen = self.update_task(task)
            except (Unreachable, DeviceTimeout) as e:
                last = e.seen
            except ResourceGone as e:
                raise UpdateGone(
                    self.name,
                    "follow update",
                    f"task {task}",
                    "no such task",
                    "the BMC may have restarted: compare the version that runs (firmware inventory) with the wanted one",
                ) from e
            else:
                last = f"{seen['state']}, {seen['percent']} %" if seen["percent"] is not None else seen["state"]
                if (seen["state"], seen["percent"]) != shown:
                    shown = (seen["state"], seen["percent"])
                    progress(seen)
                if reason := failure(seen):
                    message_id, text, next_step = reason
                    raise UpdateFailed(self.name, "follow update", "task Completed", f"{message_id}: {text}", next_step)
                if seen["state"] in ENDED:
                    return seen
            if time.monotonic() + poll_s > deadline:
                raise DeviceTimeout(
                    self.name,
                    "follow update",
                    f"an update that ends in {budget_s:g} s",
                    last,
                    "leave the power on, then follow the same task again",
                )
            time.sleep(poll_s)

    def clear_sel(self) -> None:
        """Empty the system event log."""

        def write() -> None:
            self._compare_identity()
            log = self._event_log()
            self._connected()._conn.post(log["Actions"]["#LogService.ClearLog"]["target"], data={})

        self._call("clear event log", write)

    # ---- protocol ----------------------------------------------------------------------------------------------
    def _connected(self) -> Any:
        """The service root; connects on first use and after a failure, and logs in where the session has been ended."""
        if self._root is not None and self._login is not None:
            if not self._login.is_open:
                self._login.authenticate()
        else:
            conn = Connector(
                f"https://{self.address}:{self.port}",
                verify=False if self.credentials.pin else str(self.credentials.ca or "") or True,
                server_side_retries=1,
                default_request_timeout=max(1.0, self.budget_s - 1),
                connect_timeout=min(tls.CONNECT_TIMEOUT_S, self.budget_s),
            )
            for scheme in ("https://", "http://"):
                conn._session.mount(scheme, _Bounded(self))
            conn._session.trust_env = False  # a proxy of the environment does not lead to a management network
            self._login = _Login(self.credentials.user, self.credentials.password)
            self._root = sushy.Sushy(f"https://{self.address}:{self.port}", connector=conn, auth=self._login)
        return self._root

    def _try_login(self) -> None:
        """Log in. A session is a login by itself; HTTP Basic is tried on a resource that needs one."""
        self._connected()
        if self._login is not None and self._login.is_basic:
            self._json("/redfish/v1/Systems")

    def _asks_for_change(self) -> str | None:
        """None where our login may do what it may; else the account whose password has to be changed first, '' if not told."""
        self._connected()
        if self._login is not None and self._login.must_change is not None:
            return self._login.must_change
        try:
            self._json("/redfish/v1/Systems")
        except AccessError as e:
            if (account := _change_required(e.extended_info, e.code)) is None:
                raise
            return account
        return None

    def _drop(self) -> None:
        """Forget connection and session: a BMC that does not answer is not asked to end it either."""
        if self._login is not None:
            self._login.sessions.clear()
        self._root = self._login = None

    def _log_out(self) -> None:
        """End the session. What goes wrong does not matter: the BMC ends it by its own timeout."""
        login = self._login
        if login is None or not login.sessions:
            return
        self._deadline = time.monotonic() + LOGOUT_S
        with suppress(DeviceError, SushyError, TimeoutError):
            within(LOGOUT_S, login.close)

    def _system(self) -> Any:
        """A fresh read of the server. Where a BMC shows several systems (a GPU baseboard, say), the one expected."""
        systems = self._connected().get_system_collection().get_members()
        if not systems:
            raise BadAnswer(self.name, "read system", "one system", "an empty collection", "reset the BMC")
        return next((s for s in systems if self.uuid and str(s.uuid).lower() == self.uuid.lower()), systems[0])

    def _identifiers(self, system: Any) -> dict[str, str]:
        said = {"serial": told(system.serial_number), "uuid": told(system.uuid)}
        return answers.read(dict[Line, Line], said, self._source())

    def _source(self) -> Source:
        return Source(
            self.name, self._operation, "check that a BMC answers at this address and that its firmware is current"
        )

    def _compare_identity(self) -> None:
        if not self._identity_compared:
            system = self._system()
            compare_identity(
                self.name,
                {"serial": self.serial, "uuid": self.uuid},
                self._identifiers(system),
            )
            self._identity_compared = True

    def _json(self, path: str) -> dict[str, Any]:
        body: dict[str, Any] = self._connected()._conn.get(path).json()
        return body

    def _patch(self, path: str, body: Mapping[str, Any]) -> None:
        """PATCH under the ETag of a fresh read. Where another change came between (HTTP 412), once more with a new one."""
        connection = self._connected()._conn
        for last in (False, True):
            etag = _etag(connection.get(path), strong=last)
            try:
                connection.patch(path, data=body, headers={"If-Match": etag} if etag else None)
                return
            except HTTPError as e:
                if e.status_code != PRECONDITION_FAILED or last:
                    raise

    def _expanded(self, collection: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The members of a collection, whether the BMC puts them in or only links to them; follows its pages."""
        pages, members = set[str](), 0
        while True:
            for member in collection.get("Members", []):
                members += 1
                if members > MEMBERS:
                    raise self._source().unreadable(f"at most {MEMBERS} members", "more")
                yield member if set(member) - {"@odata.id"} else self._json(member["@odata.id"])
            if "Members@odata.nextLink" not in collection:
                return
            page = collection["Members@odata.nextLink"]
            if page in pages:
                raise self._source().unreadable("another page", f"page {page} again")
            pages.add(page)
            collection = self._json(page)

    def _first(self, collection: str) -> dict[str, Any]:
        return next(self._expanded(self._json(collection)))

    def _roles(self) -> list[str]:
        service = self._json("/redfish/v1/AccountService")
        if "Roles" not in service:
            return []
        found = [
            told(r.get("RoleId") or r.get("Id")) for r in self._expanded(self._json(service["Roles"]["@odata.id"]))
        ]
        return answers.read(list[Line], found, self._source())

    def _make_account(self, account: Mapping[str, Any]) -> None:
        """POST to the collection, or fill the first empty slot where the BMC has a fixed number of accounts."""
        collection = self._json("/redfish/v1/AccountService")["Accounts"]["@odata.id"]
        try:
            self._connected()._conn.post(collection, data=dict(account))
        except HTTPError as e:
            if e.status_code not in FIXED_SLOTS:
                raise
            slots = [
                slot["@odata.id"]
                for slot in self._expanded(self._json(collection))
                if slot.get("UserName") == "" and str(slot.get("Id")) != RESERVED_SLOT
            ]
            if not slots:
                raise WriteRefused(
                    self.name, self._operation, "an empty account slot", "none", "delete an account that is not used"
                ) from e
            self._patch(slots[0], account)

    def _certificates(self) -> str:
        """The collection of the BMC's HTTPS certificates."""
        path, body = self._protocols()
        link = ((body.get("HTTPS") or {}).get("Certificates") or {}).get("@odata.id")
        return link if isinstance(link, str) else f"{path}/HTTPS/Certificates"

    def _certificate_action(self, action: str) -> str:
        root = self._connected().json
        service = self._json(root["CertificateService"]["@odata.id"]) if "CertificateService" in root else {}
        known = (service.get("Actions") or {}).get(f"#CertificateService.{action}") or {}
        if not isinstance(known.get("target"), str):
            raise WriteRefused(
                self.name,
                self._operation,
                f"CertificateService.{action}",
                "no such action",
                "update the BMC's firmware, or set the certificate on its own page",
            )
        return str(known["target"])

    def _boot_path(self, system: Any) -> str:
        """Where the boot override is written."""
        settings = ((system.json.get("@Redfish.Settings") or {}).get("SettingsObject") or {}).get("@odata.id")
        if settings and "BootSourceOverrideTarget" in (self._json(settings).get("Boot") or {}):
            return str(settings)
        return str(system.path)

    def _secure_boot(self) -> tuple[str, dict[str, Any]] | None:
        """(path, body) of the SecureBoot resource; a BMC that links one and does not have it has none."""
        link = (self._system().json.get("SecureBoot") or {}).get("@odata.id")
        try:
            return (str(link), self._json(link)) if link else None
        except ResourceNotFoundError:
            return None

    def _drives(self) -> list[dict[str, Any]]:
        """Virtual media of the system (ComputerSystem 1.12 and later), else of the manager."""
        for owner in (self._system().json, self._first("/redfish/v1/Managers")):
            if "VirtualMedia" in owner:
                drives = list(self._expanded(self._json(owner["VirtualMedia"]["@odata.id"])))
                if drives:
                    return drives
        return []

    def _drive(self) -> dict[str, Any]:
        """The drive that takes CDs or DVDs."""
        drives = self._drives()
        for drive in drives:
            if {"CD", "DVD"} & set(drive.get("MediaTypes") or []):
                return drive
        raise WriteRefused(
            self.name,
            self._operation,
            "a virtual drive for CDs",
            ", ".join(str(d.get("Id")) for d in drives) or "no virtual media",
            "check the BMC's license and firmware, or boot by PXE",
        )

    def _eject(self, drive: Mapping[str, Any]) -> None:
        self._media_action(drive, "EjectMedia", {"Image": None, "Inserted": False})
        self._wait_for_media(drive["@odata.id"], False)

    def _media_action(self, drive: Mapping[str, Any], action: str, wanted: Mapping[str, Any]) -> None:
        """POST the action, or PATCH the drive where it has none (DSP0268, VirtualMedia)."""
        known = (drive.get("Actions") or {}).get(f"#VirtualMedia.{action}")
        if known:
            self._connected()._conn.post(known["target"], data={} if action == "EjectMedia" else dict(wanted))
        else:
            self._patch(drive["@odata.id"], {k: v for k, v in wanted.items() if k != "WriteProtected"})

    def _wait_for_media(self, path: str, inserted: bool) -> None:
        while bool((drive := self._json(path)).get("Inserted")) != inserted:
            if time.monotonic() + POLL_S > self._deadline - 1:
                raise WriteRefused(
                    self.name,
                    self._operation,
                    "an inserted image" if inserted else "an empty drive",
                    f"Inserted {drive.get('Inserted')}, ConnectedVia {drive.get('ConnectedVia')}",
                    "check that the BMC reaches the image's server, trusts its certificate, and gets byte ranges from it"
                    if inserted
                    else "eject it by hand on the BMC's page, or restart the BMC",
                )
            time.sleep(POLL_S)

    def _task_path(self, said: requests.Response) -> str:
        """The task that an update has started: the Task in the answer, else its Location (the task monitor)."""
        body = said.json() if said.content.strip() else {}
        if isinstance(body, dict) and "TaskState" in body and isinstance(body.get("@odata.id"), str):
            return str(body["@odata.id"])
        location = said.headers.get("Location")
        if location:
            return urlsplit(location).path
        raise BadAnswer(
            self.name,
            self._operation,
            "a task that can be followed",
            f"HTTP {said.status_code} without one",
            "look at the firmware inventory until the version changes",
        )

    def _all_chassis(self) -> Iterator[dict[str, Any]]:
        return self._expanded(self._json("/redfish/v1/Chassis"))

    def _protocols(self) -> tuple[str, dict[str, Any]]:
        path = self._first("/redfish/v1/Managers")["NetworkProtocol"]["@odata.id"]
        return path, self._json(path)

    def _log_servers(self) -> tuple[redfish_syslog.Place, LogServers, list[dict[str, Any]]]:
        """Where the BMC keeps its log servers, those in force, and its subscriptions to syslog."""
        root, manager = self._connected().json, self._first("/redfish/v1/Managers")
        place = redfish_syslog.place(root, manager, self._protocols(), self._json)
        members = []
        if place.kind == "subscriptions":
            members = [one for one in self._expanded(self._json(place.path)) if redfish_syslog.is_syslog(one)]
        said = {"servers": redfish_syslog.servers(place, members), "most": place.most}
        return place, answers.read(LogServers, said, self._source()), members

    def _event_log(self) -> dict[str, Any]:
        """The system event log: a log service named SEL, else the first; systems keep it, on some BMCs the manager."""
        for owner in (self._system().json, self._first("/redfish/v1/Managers")):
            if "LogServices" in owner:
                services = list(self._expanded(self._json(owner["LogServices"]["@odata.id"])))
                if services:
                    return next((s for s in services if s.get("Id", "").upper() == "SEL"), services[0])
        raise BadAnswer(self.name, "read event log", "a log service", "none", "check the BMC's firmware version")

    def _accounts(self) -> list[Account]:
        collection = self._json(self._json("/redfish/v1/AccountService")["Accounts"]["@odata.id"])
        accounts = [
            Account(path=a["@odata.id"], user=a["UserName"], role=told(a.get("RoleId")), enabled=bool(a.get("Enabled")))
            for a in self._expanded(collection)
            if told(a.get("UserName")) != ""
        ]
        return answers.read(list[Account], accounts, self._source())

    def _account_of_others(self, user: str) -> Account | None:
        """The account of this name, None where there is none; WriteRefused where this login uses it."""
        there = next((account for account in self._accounts() if account["user"] == user), None)
        if there is not None and user == self.credentials.user:
            raise WriteRefused(
                self.name,
                self._operation,
                "an account other than the one in use",
                f"{user} is logged in",
                "make an account of the site first (credentials.bmc), then do this with it",
            )
        return there

    def _read_back(self, operation: str, wanted: Mapping[str, Any], seen: Mapping[str, Any]) -> None:
        wrong = [k for k, v in wanted.items() if seen.get(k) != v]
        if wrong:
            raise WriteRefused(
                self.name,
                operation,
                ", ".join(f"{k} {wanted[k]}" for k in wrong),
                ", ".join(f"{k} {seen.get(k)}" for k in wrong),
                "check that this BMC supports the setting",
            )

    def _read(self, operation: str, work: Callable[[], object], shape: type[Answer]) -> Answer:
        """What work returns as this shape, within the budget; raises as `_call` does."""
        return self._call(operation, lambda: answers.read(shape, work(), self._source()))

    def _call(self, operation: str, work: Callable[[], Answer], budget_s: float | None = None) -> Answer:
        """Run work within the budget of this call, else of the BMC.

        Everything that goes wrong becomes a DeviceError that names this BMC.

        The session is ended afterwards unless `with` keeps it.
        """
        try:
            return self._bounded(operation, work, budget_s or self.budget_s)
        finally:
            if not self._held:
                self._log_out()

    def _bounded(self, operation: str, work: Callable[[], Answer], budget_s: float) -> Answer:
        self._deadline, self._operation = time.monotonic() + budget_s, operation
        try:
            return within(budget_s, work)
        except DeviceError as e:
            if isinstance(e, (Unreachable, DeviceTimeout)):
                self._drop()
            elif isinstance(e, IdentityMismatch):
                self._log_out()
                self._root = None
            raise
        except TimeoutError:
            self._drop()
            raise self._timeout(operation) from None
        except AccessError as e:
            self._root = None
            if _change_required(e.extended_info, e.code) is not None:
                raise PasswordChangeRequired(
                    self.name,
                    operation,
                    f"user {self.credentials.user} accepted",
                    f"HTTP {e.status_code}, its password must be changed first",
                    CHANGE_IT,
                ) from e
            raise LoginRefused(
                self.name,
                operation,
                f"user {self.credentials.user} accepted",
                f"HTTP {e.status_code}",
                MAY_NOT if e.status_code == FORBIDDEN else WRONG_LOGIN,
            ) from e
        except ResourceNotFoundError as e:
            raise ResourceGone(self.name, operation, "that resource", str(e), "check the BMC's firmware version") from e
        except HTTPError as e:
            kind = BadAnswer if operation.startswith("read") else WriteRefused
            raise kind(
                self.name,
                operation,
                "success",
                f"HTTP {e.status_code} {e.detail or ''}",
                "read the BMC's event log for its reason",
            ) from e
        except SushyError as e:
            self._drop()
            raise self._transport(operation, e) from e
        except Exception as e:  # sushy passes on whatever its parsers met: to us that is an answer that cannot be read
            raise self._source().unreadable("a Redfish resource", f"{type(e).__name__}: {e}") from e

    def _transport(self, operation: str, error: SushyError) -> DeviceError:
        """sushy wraps the library's exception: take it out again to tell a hanging BMC from an absent one."""
        cause = error.__context__
        if isinstance(cause, requests.exceptions.SSLError):
            return LoginRefused(
                self.name,
                operation,
                f"the certificate with SHA-256 {self.credentials.pin}"
                if self.credentials.pin
                else f"a certificate signed by {self.credentials.ca or 'a system CA'}",
                str(cause),
                "check credentials.bmc.ca and which device stands at this address; BMCs as delivered get a certificate of that CA "
                "by `bringup bmc requests`",
            )
        if isinstance(cause, requests.Timeout) or "timed out" in str(cause):
            return self._timeout(operation)
        if isinstance(cause, requests.ConnectionError):
            return Unreachable(
                self.name,
                operation,
                f"a BMC at {self.address}:{self.port}",
                str(cause),
                "check the BMC's management cable and address",
            )
        return self._source().unreadable("a Redfish resource", str(error))

    def _timeout(self, operation: str) -> DeviceTimeout:
        return DeviceTimeout(
            self.name,
            operation,
            f"an answer from {self.address} in {self.budget_s:g} s",
            "none",
            "reset the BMC (unplug both feeds if it ignores that), then run the same command again",
        )


class _Login(AuthBase):
    """A session, or HTTP Basic where the service root names no SessionService (DSP0266, section on authentication).

    sushy calls `authenticate` again after a refusal: a session that the BMC has ended is replaced once.
    """

    def __init__(self, user: str, password: str) -> None:
        super().__init__(user, password)
        self.sessions: list[str] = []
        self.is_open = self.is_basic = False
        self.must_change: str | None = None
        """The account that may do nothing before its password is changed, '' if it is not told; None where it may."""

    def _do_authenticate(self) -> None:
        root, connection = self._root_resource.json, self._connector
        path = ((root.get("Links") or {}).get("Sessions") or {}).get("@odata.id")
        self.is_basic = "SessionService" not in root or not isinstance(path, str)
        if not self.is_basic:
            connection._session.headers.pop("X-Auth-Token", None)
            login = {"UserName": self._username, "Password": self._password}
            try:
                made = connection.post(path, data=login, allow_reauth=False)
            except HTTPError as e:
                if e.status_code not in NO_SESSIONS:
                    raise
                self.is_basic = True
            else:
                token = made.headers.get("X-Auth-Token", "")
                if not 0 < len(token) <= TOKEN_CHARACTERS:
                    raise ValueError(f"a session needs a token of 1 to {TOKEN_CHARACTERS} characters, not {len(token)}")
                connection.set_http_session_auth(token)
                said = made.json()
                if session := made.headers.get("Location") or said.get("@odata.id"):
                    self.sessions.append(session)
                self.must_change = _change_required(said.get("@Message.ExtendedInfo"))
        if self.is_basic:
            connection.set_http_basic_auth(self._username, self._password)
        self.is_open = True

    def can_refresh_session(self) -> bool:
        """False: sushy authenticates anew instead."""
        return False

    def close(self) -> None:
        """Delete the sessions of this login; nothing where there are none. sushy calls it at the end of its root, too."""
        if not self.sessions:
            return
        sessions, self.sessions = self.sessions, []
        self.is_open = self.is_basic
        for path in sessions:
            with suppress(HTTPError):  # ended by the BMC already
                self._connector.delete(path, allow_reauth=False)
        self._connector._session.headers.pop("X-Auth-Token", None)


class _Bounded(HTTPAdapter):
    """The way of every answer of one BMC: at most BODY_BYTES, within the call's time, JSON cleaned by network.drivers.answers.

    Links and redirections that lead elsewhere are not followed: our login would go with them.
    """

    def __init__(self, bmc: Bmc) -> None:
        self._bmc = bmc
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        """Connections that hold a pinned certificate against its SHA-256, before anything is sent over them."""
        if pin := self._bmc.credentials.pin:
            options["assert_fingerprint"] = pin
        super().init_poolmanager(*arguments, **options)

    def send(self, request: requests.PreparedRequest, *arguments: Any, **options: Any) -> requests.Response:
        """The response, read to its end."""
        bmc, source = self._bmc, self._bmc._source()
        if time.monotonic() > bmc._deadline:
            raise requests.Timeout(f"timed out after {bmc.budget_s:g} s", request=request)
        link = urlsplit(str(request.url))
        if (link.scheme, link.hostname, link.port or 443) != ("https", urlsplit(f"//{bmc.address}").hostname, bmc.port):
            raise source.unreadable(f"a link to {bmc.address}:{bmc.port}", f"a link to {request.url}")
        options["stream"] = True
        response = super().send(request, *arguments, **options)
        try:
            body = bytearray()
            for chunk in response.iter_content(1 << 16):
                body += chunk
                if len(body) > BODY_BYTES:
                    raise source.unreadable(f"at most {BODY_BYTES} bytes", "more")
                if time.monotonic() > bmc._deadline:
                    raise requests.Timeout(f"timed out after {bmc.budget_s:g} s", request=request)
        finally:
            response.close()
        if body.strip() and response.ok:
            said = answers.load(bytes(body), source, most_bytes=BODY_BYTES)
            body = bytearray(json.dumps(said).encode())
            response.encoding = "utf-8"
        else:
            body = bytearray(answers.decoded(bytes(body)).encode())
        response._content = bytes(body)
        return response


def _etag(response: requests.Response, strong: bool) -> str:
    """The ETag of a resource, from the header or its @odata.etag; '' where it has none.

    strong: without the W/ of a weak one, with which If-Match never holds (RFC 9110, section 13.1.1).
    """
    said = response.headers.get("ETag") or response.json().get("@odata.etag") or ""
    if not isinstance(said, str) or not said.isprintable() or len(said) > answers.LINE_CHARACTERS:
        return ""
    return said.removeprefix("W/") if strong else said


def _change_required(messages: Any, code: Any = "") -> str | None:
    """The account whose password must be changed, by a BMC's messages; '' if it is not told, None without such a message.

    MessageArgs of PasswordChangeRequired are that account's URI (DMTF, Base message registry).
    """
    listed = messages if isinstance(messages, list) else [messages]
    for one in listed:
        if isinstance(one, dict) and str(one.get("MessageId", "")).endswith(CHANGE_REQUIRED):
            args = one.get("MessageArgs")
            path = urlsplit(str(args[0])).path if isinstance(args, list) and args else ""
            return path if path.startswith("/redfish/v1/") else ""
    return "" if str(code).endswith(CHANGE_REQUIRED) else None


def _image_address(image: str) -> str:
    """HTTP or HTTPS, as TransferProtocol names it. ValueError for another address or one that carries a login."""
    place = urlsplit(image)
    if place.scheme not in ("http", "https") or not place.hostname or "@" in place.netloc:
        raise ValueError(
            f"image {image.split('@')[-1]!r} must be http://HOST/PATH or https://HOST/PATH without a login"
        )
    return place.scheme.upper()


def _media(drive: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": told(drive.get("Id")),
        "types": drive.get("MediaTypes") or [],
        "inserted": drive.get("Inserted") or False,
        "image": told(drive.get("Image")),
    }


def _quirks(maker: str) -> dict[str, Any]:
    """What BMCs of this maker need beyond the standard; later entries of the file win."""
    return {key: value for one in QUIRKS if str(maker).lower().startswith(one["maker"]) for key, value in one.items()}


def _led(system: Mapping[str, Any]) -> bool | None:
    if "LocationIndicatorActive" in system:
        return bool(system["LocationIndicatorActive"])
    led = system.get("IndicatorLED")
    return None if led is None else led in ("Lit", "Blinking")


def _boot_s(system: Mapping[str, Any]) -> Any:
    """Seconds of the last start until its operating system ran; None where the BMC does not tell (DSP0268, ComputerSystem 1.18:
    BootProgress.LastBootTimeSeconds; before it BootProgress.LastStateTime, 1.13, and LastResetTime, 1.12).
    """
    progress = system.get("BootProgress") or {}
    if progress.get("LastBootTimeSeconds") is not None:
        return progress["LastBootTimeSeconds"]
    if progress.get("LastState") != OS_RUNNING:
        return None
    try:
        ended, began = (datetime.fromisoformat(str(at)) for at in (progress["LastStateTime"], system["LastResetTime"]))
        took = (ended - began).total_seconds()
    except (LookupError, ValueError, TypeError):  # not told, no time, or one of them without a zone
        return None
    return took if took > 0 else None


def _subset(body: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    return {key: body.get(key) for key in like}
