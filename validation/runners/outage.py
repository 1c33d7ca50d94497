"""Take the power of one server at its PDU outlets, watch it go, and give it back as it was.

    power = NodePower.of(plan, "gpu003")
    power.prepare()    # what must be as before afterwards
    power.cut()        # every outlet that feeds it, at all its PDUs at the same time
    power.restore()    # outlets on, BMC answers, server on, and the event log without the entries of this outage

Cutting outlets ends whatever runs on the server: whoever calls this asks site.validation.fault_injection first.
"""

import time
from collections.abc import Sequence

from capacity.model import Plan
from inventory.delivered.assets import load_assets
from network.drivers import parallel
from network.drivers.credentials import snmp_credentials
from network.drivers.errors import DeviceError, WriteRefused
from network.drivers.pdu import Pdu
from network.drivers.redfish import Bmc, LogEntry
from validation.facts.gather import address_of, asset, bmc_factory

BMC_START_S = 120.0
"""A BMC that lost its standby power answers again within two minutes (engineering experience, not looked up)."""
POLL_S = 0.5
BAD = ("Critical", "Warning")


class NodePower:
    """The outlets that feed one server, by PDU, and the server's BMC."""

    def __init__(self, name: str, outlets: Sequence[tuple[Pdu, Sequence[int]]], bmc: Bmc) -> None:
        self.name, self.outlets, self.bmc = name, tuple(outlets), bmc
        self.log: list[LogEntry] = []
        self._was_on: dict[str, list[int]] = {}
        self._log_was_clean = False

    @classmethod
    def of(cls, plan: Plan, name: str) -> "NodePower":
        """The power of a planned server."""
        site, assets = plan.site, load_assets(plan.site)
        snmp, snmp_s = snmp_credentials(site), site.timeouts.snmp_s

        rows = plan.outlets[plan.outlets["device"] == name]
        pdus = [
            (
                Pdu(
                    address_of(plan, str(pdu), "oob"),
                    snmp,
                    snmp_s,
                    name=str(pdu),
                    serial=asset(assets, str(pdu), "serial"),
                    dialect=plan.pdu_dialect,
                ),
                numbers.tolist(),
            )
            for pdu, numbers in rows.groupby("pdu")["outlet"]
        ]
        return cls(name, pdus, bmc_factory(plan, assets)(name))

    def prepare(self) -> None:
        """Look what must be as before afterwards: which outlets are on, and whether the event log is clean."""
        self._log_was_clean = not any(entry["severity"] in BAD for entry in self.bmc.sel())
        self._was_on = {
            pdu.name: [outlet["number"] for outlet in pdu.outlets() if outlet["on"] and outlet["number"] in numbers]
            for pdu, numbers in self.outlets
        }

    def cut(self) -> None:
        """Switch every outlet off. DeviceError when a PDU does not follow: then the server may still have power."""
        self._switch(False)

    def dark(self) -> bool:
        """Whether every outlet reads off and none of them delivers power."""
        return all(
            not outlet["on"] and not outlet["watts"]
            for pdu, numbers in self.outlets
            for outlet in pdu.outlets()
            if outlet["number"] in numbers
        )

    def bmc_answers(self, budget_s: float = 2.0) -> bool:
        """Whether the BMC answers within the budget."""
        probe = Bmc(
            self.bmc.address, self.bmc.credentials, budget_s, name=self.name, uuid=self.bmc.uuid, port=self.bmc.port
        )
        try:
            probe.state()
        except DeviceError:
            return False
        return True

    def restore(self) -> None:
        """Give the power back and wait until the server is on. Raises the DeviceError of the first device that fails.

        Only what was on before the cut is switched on. The event log is kept in `log`, and cleared only if it had
        nothing to complain of before the outage.
        """
        self._switch(True)
        end = time.monotonic() + BMC_START_S
        while not self.bmc_answers():
            if time.monotonic() > end:
                raise WriteRefused(
                    self.name,
                    "give the power back",
                    f"its BMC answers within {BMC_START_S:g} s",
                    "silence",
                    "look at the server's supplies and at its outlets",
                )
            time.sleep(POLL_S)
        if self.bmc.state()["power"] != "On":
            self.bmc.power("On")
        self.log = self.bmc.sel()
        if self._log_was_clean:
            self.bmc.clear_sel()

    def _switch(self, on: bool) -> None:
        answers = parallel.many(
            [pdu for pdu, _ in self.outlets],
            lambda pdu: pdu.set_outlets(dict.fromkeys(self._was_on.get(pdu.name, ()), on)),
        )
        for answer in answers.values():
            if isinstance(answer, DeviceError):
                raise answer
