"""Power of a device: its inlets, its supplies and what it draws; and the connectors of cords."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from inventory.catalog.entry import Entry, as_tuple


class PowerPort(Entry):
    """A supply's inlet (NetBox ``power-ports``)."""

    name: str
    type: str = Field(description="Connector, a key of catalog/connectors.yaml.")
    maximum_draw: int | None = Field(default=None, description="Watts.")
    allocated_draw: int | None = Field(default=None, description="Watts.")


class Psu(Entry):
    """Power supplies of a device (of a power shelf: its modules); in a server type what the model is sold with."""

    count: int
    rating_w: float = Field(description="Output rating of one supply, watts.")
    redundancy: str = Field(description="Needed + spare: 4+2.")
    input_v_min: float
    input_v_max: float
    efficiency: float = Field(gt=0, le=1)


class PowerProfiles(Entry):
    """Draw at the inlets, watts; the same three profiles as in the site file."""

    seed_w: float
    measured_w: float
    nameplate_w: float


class Connector(Entry):
    """A power connector: what it mates with and what it carries."""

    mates: Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
    iec_a: float = Field(description="Rated current, IEC, amperes.")
    nec_a: float = Field(description="Rated current, North America, amperes.")
    source: str
