"""Rack PDUs: what they are fed with, and their outlets."""

from typing import Literal

from pydantic import Field

from inventory.catalog.entry import Entry


class PowerOutlet(Entry):
    """An outlet of a rack PDU (NetBox ``power-outlets``); name is the outlet's number."""

    name: str = Field(description="Number of the outlet.")
    type: str = Field(description="Connector, a key of connectors.yaml.")
    power_port: str = Field(default="", description="The inlet that feeds it.")
    feed_leg: Literal["A", "B", "C"] = Field(description="Phase leg: A is L1, B is L2, C is L3.")
    bank: str = Field(description="Breaker that the outlet hangs on.")


class Pdu(Entry):
    """What a rack PDU is fed with and how it is spoken to."""

    driver: Literal["apc-rpdu2", "raritan-px", "sentry4"] = Field(
        description="How it is spoken to over SNMP: APC rPDU2, Raritan/Legrand PX, Server Technology Sentry4; the name of a "
        "file in network/drivers/pdu_dialects."
    )
    input_type: str = Field(description="Connector of its input, a key of connectors.yaml.")
    input_a: float = Field(description="Rated input current, amperes per phase.")
    phases: Literal[1, 3] = Field(description="Phases of its input.")
    voltage_v: float = Field(description="Line-to-line input voltage, volts.")
    outlet_v: float = Field(description="Voltage at the outlets, volts.")
    bank_a: float = Field(description="Breaker of one bank, amperes.")
