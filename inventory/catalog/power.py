"""Power of a device: its inlets, its supplies and what it draws; and the connectors of cords."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from inventory.catalog.entry import Entry, as_tuple


class PowerPort(Entry):
    """A supply's inlet (NetBox ``power-ports``)."""

    name: str = Field(description="Name of the inlet.")
    type: str = Field(description="Connector, a key of catalog/connectors.yaml.")
    maximum_draw: int | None = Field(default=None, description="Watts.")
    allocated_draw: int | None = Field(default=None, description="Watts.")


class Psu(Entry):
    """Power supplies of a device (of a power shelf: its modules); in a server type what the model is sold with."""

    count: int = Field(description="Supplies.")
    rating_w: float = Field(description="Output rating of one supply, watts.")
    redundancy: str = Field(description="Needed + spare: 4+2.")
    input_v_min: float = Field(description="Least input, volts.")
    input_v_max: float = Field(description="Most input, volts.")
    efficiency: float = Field(description="Output over input, 0 to 1.", gt=0, le=1)


class PowerProfiles(Entry):
    """Draw at the inlets, watts; the same three profiles as in the site file."""

    seed_w: float = Field(description="Figure of early planning, watts.")
    measured_w: float = Field(description="Most that was measured in training, watts.")
    nameplate_w: float = Field(description="Rated maximum input, watts.")


class Connector(Entry):
    """A power connector: what it mates with and what it carries."""

    mates: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = Field(description="Connectors that it goes into.")
    iec_a: float = Field(description="Rated current, IEC, amperes.")
    nec_a: float = Field(description="Rated current, North America, amperes.")
    source: str = Field(description="Where its ratings come from.")
