"""`bringup:nodes:Servers`: account, clock, boot, BIOS and power of every server of one rack (Redfish).

Inputs:
    site: name or path of the site; rack: its name
    servers: {server: {address, serial, uuid, login, factory_login, ntp: [...], syslog: [...], protocols_off: [...], boot,
        bios: {...}, secure_boot, power}}
        login          "site": the site's account lets us in
        factory_login  "refused": the factory's account (credentials.bmc.factory) does not; "" when the site names none
        syslog         log servers of the BMC; one that takes fewer gets the first ones. [] leaves it as it is
        protocols_off  network services of the BMC that are off, or that it does not have
        boot           boot source override, "Disabled" for none
        bios           attributes of the BIOS profile that must have these values
        secure_boot    whether the next boot verifies what it starts; without the key it stays as it is
        power          "On"; without the key it stays as it is, for servers that `bringup:nodes:Installed` switches on
Outputs: `results` {server: "done" or what went wrong}; `powered_on` [servers that we switched on];
    `firmware` {server: {component: version}} as observed.

Deleting the resource shuts down the servers in `powered_on` and leaves every other server as it is. Accounts keep the
site's password: a factory password would open the BMC to everybody.
"""

from collections.abc import Callable
from typing import Any, Protocol

from infra.install.takeover import take_over
from infra.provider.diff import differences
from infra.provider.fleet import Reach, each
from infra.provider.ledger import PowerLedger
from infra.provider.resource import Applied, Data
from infra.provider.shapes import OfRack
from infra.provider.sites import Sites, limit
from infra.stack import powered_on_dir
from inventory.delivered import power_acts
from inventory.paths import var_dir
from inventory.site import Site
from network.drivers.credentials import BmcCredentials
from network.drivers.errors import LoginRefused, PasswordChangeRequired, WriteRefused, compare_identity
from network.drivers.redfish import DEFAULT_BUDGET_S, Bmc, BmcIdentity, SystemState
from network.drivers.redfish_boot import SecureBoot
from network.drivers.redfish_syslog import LogServers, as_planned

PREVIEW_BUDGET_S = 5.0
"""Per driver call in a preview; it makes four or five of them."""
SHUTDOWN_BUDGET_S = 180.0
"""For a graceful shutdown before it is forced: twice systemd's default time for a service to stop (90 s)."""
SERVER_BUDGET_S = 600.0
"""Per server and operation, over all driver calls: a shutdown that ends in a forced one, on a slow BMC."""


class BmcDriver(Protocol):
    """What this resource needs of `network.drivers.redfish.Bmc`. `with` keeps one session for all calls inside."""

    def __enter__(self) -> "BmcDriver": ...

    def __exit__(self, *_: object) -> None: ...

    def identity(self) -> BmcIdentity: ...

    def state(self) -> SystemState: ...

    def bios(self) -> dict[str, dict[str, Any]]: ...

    def ntp(self) -> list[str]: ...

    def log_servers(self) -> LogServers: ...

    def firmware(self) -> dict[str, str]: ...

    def login_refused(self, user: str, password: str) -> bool: ...

    def power(self, reset: str, wait: bool = True) -> bool: ...

    def set_boot(self, target: str, enabled: str = "Once") -> None: ...

    def secure_boot(self) -> SecureBoot | None: ...

    def set_secure_boot(self, on: bool) -> bool: ...

    def set_bios(self, attributes: dict[str, Any]) -> dict[str, Any]: ...

    def set_ntp(self, servers: list[str]) -> bool: ...

    def set_log_servers(self, servers: list[str]) -> bool: ...

    def protocols(self) -> dict[str, bool]: ...

    def disable_protocols(self, names: list[str]) -> bool: ...

    def ensure_account(self, user: str, password: str, role: str = "Administrator") -> bool: ...

    def change_password(self, user: str, password: str) -> None: ...

    def change_required_password(self, password: str) -> bool: ...

    def compare_identity(self) -> None: ...


Acted = Callable[[str, str, str], None]
"""Hears of a power action: ResetType, power state before and after it."""


class Connect(Protocol):
    """Makes the driver of one BMC, with these credentials; `acted` hears of power actions."""

    def __call__(
        self, name: str, server: Data, credentials: BmcCredentials, budget_s: float, acted: Acted | None = None
    ) -> BmcDriver: ...


def connect_bmc(
    name: str, server: Data, credentials: BmcCredentials, budget_s: float, acted: Acted | None = None
) -> Bmc:
    """The Redfish driver; it compares serial and UUID before its first write."""
    known = {"name": name, "serial": server["serial"], "uuid": server["uuid"]}
    return Bmc(server["address"], credentials, budget_s, **known, acted=acted)


def recorded(site: Site, name: str, server: Data) -> Acted:
    """What keeps the last power action of a server, which S016 asks for."""
    return power_acts.recorder(power_acts.folder_of(var_dir(site.name)), name, server["serial"])


def site_ledger(site: Site) -> PowerLedger:
    """The ledger in the site's output folder."""
    return PowerLedger(powered_on_dir(site.name))


class Servers(OfRack):
    """Resource type; see the module's text."""

    token = "bringup:nodes:Servers"
    outputs = frozenset({"results", "powered_on", "firmware"})
    devices = "servers"
    one = "server"
    everything = "all servers will be set"
    everything_of_one = "everything about it will be set"
    budget_s = SERVER_BUDGET_S
    preview_budget_s = PREVIEW_BUDGET_S

    def __init__(
        self,
        sites: Sites,
        reach: Reach,
        connect: Connect = connect_bmc,
        ledger: Callable[[Site], PowerLedger] = site_ledger,
    ) -> None:
        super().__init__(sites, reach)
        self._connect, self._ledger = connect, ledger

    def nothing_done(self, inputs: Data) -> Data:
        return {"results": {}, "powered_on": [], "firmware": {}}

    def check(self, inputs: Data) -> list[tuple[str, str]]:
        """Only states that can be brought about are accepted."""
        return [
            (f'servers["{name}"].{key}', f"{name}: {key} can only be {wanted}, not {server.get(key)!r}")
            for name, server in sorted(inputs["servers"].items())
            for key, allowed, wanted in (
                ("power", ("On", None), "On"),
                ("login", ("site",), "site"),
                ("factory_login", ("refused", ""), "refused"),
                ("boot", ("Disabled",), "Disabled"),
            )
            if server.get(key) not in allowed
        ]

    def apply(self, inputs: Data, state: Data | None) -> Applied:
        wanted, ledger = inputs["servers"], self._ledger(self._sites.get(inputs["site"]))
        outcome = self._each(wanted, lambda name: self._set(inputs["site"], ledger, name, wanted[name]), "set")
        seen = {name: firmware for name, (_, firmware) in outcome.done.items()}
        more = {"powered_on": ours(ledger, wanted), "firmware": (state or {}).get("firmware", {}) | seen}
        return self._applied(inputs, state, outcome.of(lambda done: done[0]), more)

    def read(self, state: Data) -> Applied:
        site = self._sites.get(state["site"])
        return self._read(state, call_budget_s(site), {"powered_on": ours(self._ledger(site), state["servers"])})

    def delete(self, state: Data) -> list[str]:
        """Shut down what we powered on, by this resource or by the installation after it."""
        site, known = self._sites.get(state["site"]), state["servers"]
        ledger = self._ledger(site)
        running = sorted({*state["powered_on"], *ours(ledger, known)} & set(known))
        return each(
            running,
            lambda name: self._shut_down(state["site"], ledger, name, known[name]),
            SERVER_BUDGET_S,
            "shut down",
        ).reasons()

    def _observe(self, reference: str, name: str, server: Data, budget_s: float) -> Data:
        """`server` with what the BMC says in place of what is wanted. A refused login is an observation, no error.

        A BMC that lets only its factory account in is read with that. One that wants that password changed first shows no more.
        """
        own, factory = self._sites.bmc(reference, name), self._sites.factory(reference, name)
        with self._connect(name, server, own, budget_s) as bmc:
            try:
                now = bmc.state()
            except LoginRefused:
                if factory is None:
                    raise
            else:
                return self._observed(bmc, name, server, now, factory) | {"login": "site"}
        with self._connect(name, server, factory, budget_s) as bmc:
            try:
                now = bmc.state()
            except PasswordChangeRequired:  # it shows nothing else before that
                return server | {"login": "refused", "factory_login": "accepted"}
            return self._observed(bmc, name, server, now, factory) | {"login": "refused"}

    def _observed(
        self, bmc: BmcDriver, name: str, server: Data, now: SystemState, factory: BmcCredentials | None
    ) -> Data:
        """`server` with what a BMC says that lets us in."""
        seen = bmc.identity()
        compare_identity(
            name, {"serial": server["serial"], "uuid": server["uuid"]}, {"serial": seen["serial"], "uuid": seen["uuid"]}
        )
        bios = bmc.bios() if server["bios"] else {"current": {}, "pending": {}}
        in_force = bios["current"] | bios["pending"]
        return server | {
            "factory_login": "" if factory is None else login(bmc, factory),
            "ntp": bmc.ntp(),
            "syslog": log_servers(bmc, server.get("syslog", [])),
            "protocols_off": protocols_off(bmc, server.get("protocols_off", [])),
            "boot": "Disabled" if now["boot_enabled"] == "Disabled" else now["boot_target"],
            "bios": {key: in_force.get(key) for key in server["bios"]},
            **({"secure_boot": secure_boot(bmc)} if "secure_boot" in server else {}),
            **({"power": now["power"]} if "power" in server else {}),
        }

    def _set(self, reference: str, ledger: PowerLedger, name: str, wanted: Data) -> tuple[list[str], dict[str, str]]:
        """Write what differs; returns the differences that were corrected, and the firmware observed."""
        site = self._sites.get(reference)
        budget_s = call_budget_s(site)
        found = list(differences(self._observe(reference, name, wanted, budget_s), wanted))
        self._take_over(reference, name, wanted, budget_s)
        own = self._sites.bmc(reference, name)
        with self._connect(name, wanted, own, budget_s) as bmc:
            now = bmc.state()
            bmc.set_ntp(wanted["ntp"])
            bmc.disable_protocols(wanted["protocols_off"])
            if now["boot_enabled"] != "Disabled":
                bmc.set_boot("None", "Disabled")
            if wanted["bios"]:
                bmc.set_bios(wanted["bios"])
            if "secure_boot" in wanted:
                bmc.set_secure_boot(wanted["secure_boot"])
            if "power" in wanted and now["power"] != "On":
                ledger.add(name, wanted["serial"])
                self._connect(name, wanted, own, power_budget_s(site), recorded(site, name, wanted)).power("On")
            if wanted["syslog"]:  # last: a BMC that cannot do this has all else set
                bmc.set_log_servers(wanted["syslog"])
            return [f"{name} {difference}" for difference in found], bmc.firmware()

    def _take_over(self, reference: str, name: str, wanted: Data, budget_s: float) -> None:
        """Close the factory's account: the site's account gets the site's password, the factory's password goes."""
        take_over(
            name,
            lambda credentials: self._connect(name, wanted, credentials, budget_s),
            self._sites.bmc(reference, name),
            self._sites.factory(reference, name),
        )

    def _shut_down(self, reference: str, ledger: PowerLedger, name: str, server: Data) -> None:
        own = self._sites.bmc(reference, name)
        try:
            self._connect(name, server, own, SHUTDOWN_BUDGET_S).power("GracefulShutdown")
        except WriteRefused:
            self._connect(name, server, own, power_budget_s(self._sites.get(reference))).power("ForceOff")
        ledger.remove(name)


def login(bmc: BmcDriver, account: BmcCredentials) -> str:
    """Whether the BMC lets this account in: "accepted" or "refused"."""
    return "refused" if bmc.login_refused(account.user, account.password) else "accepted"


def log_servers(bmc: BmcDriver, planned: list[str]) -> list[str]:
    """The planned log servers where the BMC sends to them, or to as many as it takes; else those that it sends to."""
    if not planned:
        return []
    seen = bmc.log_servers()
    return planned if as_planned(seen, planned) else seen["servers"]


def protocols_off(bmc: BmcDriver, planned: list[str]) -> list[str]:
    """Those of the network services that are planned to be off which the BMC has off, or does not have."""
    on = bmc.protocols() if planned else {}
    return [name for name in planned if not on.get(name)]


def secure_boot(bmc: BmcDriver) -> bool | None:
    """Whether the next boot verifies what it starts; None where the BMC does not tell."""
    seen = bmc.secure_boot()
    return None if seen is None else seen["enabled"]


def call_budget_s(site: Site) -> float:
    """Time for one call of the driver: the site's budget for its BMCs."""
    return site.timeouts.bmc_s


def power_budget_s(site: Site) -> float:
    """Time for a reset until the power state has followed it."""
    return limit(site, "power_on_s", DEFAULT_BUDGET_S)


def ours(ledger: PowerLedger, servers: Data) -> list[str]:
    """The servers that we powered on, by name."""
    return [name for name in sorted(servers) if ledger.has(name, servers[name]["serial"])]
