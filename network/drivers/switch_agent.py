"""What the SNMP agent of a switch says that the switch is: its chassis in the ENTITY-MIB (RFC 6933).

    seen = SwitchAgent("10.77.0.13", credentials, name="leaf01").chassis()
    seen["serial"]       # '' where the agent has none

    software("cumulus", seen["sys_descr"])    # "5.9.1"; '' where the words are of another system

It is a way to the switch beside SSH: the ledger of channels counts it apart. Failures are DeviceErrors (errors.py).
"""

import re

from typing_extensions import TypedDict

from network.drivers import answers
from network.drivers.answers import Line
from network.drivers.errors import BadAnswer
from network.drivers.snmp import Agent

SYS_DESCR = "1.3.6.1.2.1.1.1.0"
"""SNMPv2-MIB sysDescr (RFC 3418)."""
PHYSICAL_CLASS = "1.3.6.1.2.1.47.1.1.1.1.5"
"""ENTITY-MIB entPhysicalClass (RFC 6933): one row for each chassis, module, port, sensor, by entPhysicalIndex."""
SERIAL = "1.3.6.1.2.1.47.1.1.1.1.11"
"""ENTITY-MIB entPhysicalSerialNum (RFC 6933): the number on the component itself; empty where the agent does not know it."""
MODEL = "1.3.6.1.2.1.47.1.1.1.1.13"
"""ENTITY-MIB entPhysicalModelName (RFC 6933)."""
CHASSIS = 3
"""IANA-ENTITY-MIB PhysicalClass chassis(3)."""


SOFTWARE = {
    "cumulus": re.compile(r"Cumulus[- ]Linux ([0-9][\w.+~-]{0,63})"),
    "eos": re.compile(r"Arista Networks EOS version ([0-9][\w.+~-]{0,63}) "),
    "sonic": re.compile(r"SONiC Software Version: SONiC\.([\w.+~-]{1,96})"),
}
"""Where the version stands in sysDescr, by network OS: "Cumulus-Linux 5.3.0 (Linux Kernel ...)" and "Arista Networks EOS version
4.20.7M running on ..." as printed in published walks of such switches; SONiC's is written by sysDescr_pass.py of docker-snmp
(sonic-net/sonic-buildimage), "SONiC Software Version: SONiC.202311.1-8c08d87 - HwSku: ..."."""


class Chassis(TypedDict):
    """A switch by its agent. `sys_descr` is what evidence is classified by."""

    sys_descr: Line
    serial: Line
    model: Line


def software(nos: str, sys_descr: str) -> str:
    """The version of a network OS in the words of its agent; '' where they are not of that system."""
    found = SOFTWARE[nos].search(sys_descr)
    return found[1] if found else ""


class SwitchAgent(Agent):
    """The agent of one switch."""

    _device = "switch"
    most_rows = 8192
    """Parts of a switch, a choice of ours: 128 ports with a transceiver of ten sensors each are some 1,500."""

    def chassis(self) -> Chassis:
        """The one chassis of the switch. BadAnswer where the agent shows none, or several: a stack is no switch of a plan."""

        async def read() -> Chassis:
            operation = "read chassis"
            classes = await self._walk(operation, PHYSICAL_CLASS)
            found = sorted(row for row, value in classes.items() if self._integer(operation, value) == CHASSIS)
            if len(found) != 1:
                raise BadAnswer(
                    self.name,
                    operation,
                    "one chassis in entPhysicalTable",
                    f"{len(found)} of {len(classes)} parts",
                    "switch on the ENTITY-MIB of the switch's SNMP agent, and let the SNMP user read it",
                )
            values = await self._ask(operation, [SYS_DESCR, f"{SERIAL}.{found[0]}", f"{MODEL}.{found[0]}"])
            said = {
                field: self._text(operation, value)
                for field, value in zip(Chassis.__annotations__, values, strict=True)
            }
            return answers.read(Chassis, said, self._source(operation))

        return self._run("read chassis", read())
