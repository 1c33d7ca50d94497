"""`bringup:power:RackOutlets`: outlet states, labels and alarm currents of every PDU of one rack (SNMPv3).

Inputs:
    site: name or path of the site; rack: its name
    pdus: {pdu: {address, serial, dialect, near_overload_a, overload_a, outlets: {"1": {name, on}}}}
Only outlets that are named here are touched. Output `results`: {pdu: "done" or what went wrong}.

Deleting the resource leaves every outlet as it is: an outlet that goes off takes a running server with it.
"""

from typing import Any, Protocol

from infra.provider.diff import differences
from infra.provider.fleet import Reach
from infra.provider.resource import Applied, Data
from infra.provider.shapes import OfRack
from infra.provider.sites import Sites
from network.drivers.credentials import SnmpCredentials
from network.drivers.errors import compare_identity
from network.drivers.pdu import APC, DIALECTS, Outlet, Pdu, PduIdentity, Phase

PREVIEW_BUDGET_S = 4.0
"""Per PDU in a preview: an agent that is there answers a walk of 48 outlets in well under a second."""
APPLY_BUDGET_S = 30.0
"""Per driver call: 48 relays at up to half a second each."""
PDU_BUDGET_S = 120.0
"""Per PDU and operation, over all driver calls."""


class PduDriver(Protocol):
    """What this resource needs of `network.drivers.pdu.Pdu`."""

    def identity(self) -> PduIdentity: ...

    def outlets(self) -> list[Outlet]: ...

    def phases(self) -> list[Phase]: ...

    def set_outlets(self, wanted: dict[int, bool]) -> None: ...

    def set_names(self, wanted: dict[int, str]) -> None: ...

    def set_thresholds(self, phase: int, near_overload_a: int, overload_a: int) -> None: ...

    def close(self) -> None: ...


class Connect(Protocol):
    """Makes the driver of one PDU."""

    def __call__(self, credentials: SnmpCredentials, name: str, pdu: Data, budget_s: float) -> PduDriver: ...


def connect_pdu(credentials: SnmpCredentials, name: str, pdu: Data, budget_s: float) -> Pdu:
    """The SNMP driver; it compares the serial before its first write."""
    dialect = pdu.get("dialect", APC)  # a state of an earlier version has none
    return Pdu(pdu["address"], credentials, budget_s, name=name, serial=pdu["serial"], dialect=dialect)


class RackOutlets(OfRack):
    """Resource type; see the module's text."""

    token = "bringup:power:RackOutlets"
    outputs = frozenset({"results"})
    devices = "pdus"
    one = "outlets"
    everything = "all outlets will be set"
    everything_of_one = "all its outlets will be set"
    budget_s = PDU_BUDGET_S
    preview_budget_s = PREVIEW_BUDGET_S

    def __init__(self, sites: Sites, reach: Reach, connect: Connect = connect_pdu) -> None:
        super().__init__(sites, reach)
        self._connect = connect

    def nothing_done(self, inputs: Data) -> Data:
        return {"results": {}}

    def check(self, inputs: Data) -> list[tuple[str, str]]:
        """Outlets must be numbered from 1 and the warning current must not exceed the alarm current."""
        wrong = []
        for name, pdu in inputs["pdus"].items():
            if pdu.get("dialect", APC) not in DIALECTS:
                there = ", ".join(DIALECTS)
                wrong.append(
                    (f'pdus["{name}"].dialect', f"{name}: no PDU dialect {pdu['dialect']!r}; there are {there}")
                )
            bad = [number for number in pdu["outlets"] if not number.isdigit() or int(number) < 1]
            if bad:
                wrong.append((f'pdus["{name}"].outlets', f"{name}: outlets are numbered from 1, not {', '.join(bad)}"))
            if pdu["near_overload_a"] > pdu["overload_a"]:
                wrong.append(
                    (
                        f'pdus["{name}"].near_overload_a',
                        f"{name}: warns at {pdu['near_overload_a']} A, above its alarm at {pdu['overload_a']} A",
                    )
                )
        return wrong

    def apply(self, inputs: Data, state: Data | None) -> Applied:
        site, wanted = inputs["site"], inputs["pdus"]
        outcome = self._each(wanted, lambda name: self._set(site, name, wanted[name]), "set")
        return self._applied(inputs, state, outcome, {})

    def read(self, state: Data) -> Applied:
        return self._read(state, APPLY_BUDGET_S, {})

    def delete(self, state: Data) -> list[str]:
        """Nothing is switched: see the module's text."""
        return []

    def _observe(self, site: str, name: str, wanted: Data, budget_s: float) -> Data:
        driver = self._connect(self._sites.snmp(site), name, wanted, budget_s)
        try:
            compare_identity(name, {"serial": wanted["serial"]}, {"serial": driver.identity()["serial"]})
            return observed(wanted, driver.outlets(), driver.phases())
        finally:
            driver.close()

    def _set(self, site: str, name: str, wanted: Data) -> list[str]:
        """Write what differs; returns the differences that were corrected."""
        driver = self._connect(self._sites.snmp(site), name, wanted, APPLY_BUDGET_S)
        try:
            phases = driver.phases()
            found = list(differences(observed(wanted, driver.outlets(), phases), wanted))
            if not found:
                return []
            outlets = {int(number): outlet for number, outlet in wanted["outlets"].items()}
            driver.set_names({number: outlet["name"] for number, outlet in outlets.items()})
            for phase in phases:
                if thresholds(phase) != (wanted["near_overload_a"], wanted["overload_a"]):
                    driver.set_thresholds(phase["phase"], wanted["near_overload_a"], wanted["overload_a"])
            driver.set_outlets({number: outlet["on"] for number, outlet in outlets.items()})
            return [f"{name} {difference}" for difference in found]
        finally:
            driver.close()


def observed(pdu: Data, outlets: list[Outlet], phases: list[Phase]) -> Data:
    """The desired state of one PDU with every value replaced by what the device says.

    Outlets that the PDU does not have are absent. Alarm currents are those of the first phase that differs from what
    is wanted, so that one wrong phase shows.
    """
    wanted = (pdu["near_overload_a"], pdu["overload_a"])
    seen = [thresholds(phase) for phase in phases]
    near_overload_a, overload_a = next((pair for pair in seen if pair != wanted), wanted)
    there: dict[str, Any] = {
        str(outlet["number"]): {"name": outlet["name"], "on": outlet["on"]}
        for outlet in outlets
        if str(outlet["number"]) in pdu["outlets"]
    }
    return pdu | {"near_overload_a": near_overload_a, "overload_a": overload_a, "outlets": there}


def thresholds(phase: Phase) -> tuple[float | None, float | None]:
    """(warning, alarm) current of a phase in amperes."""
    return phase["near_overload_a"], phase["overload_a"]
