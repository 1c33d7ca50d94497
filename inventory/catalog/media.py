"""Cables and optics: parts with their reach, and the plugs that go into cages."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from inventory.catalog.entry import Entry, as_tuple
from inventory.catalog.ports import Cage, Form, Top

ACCEPTS: Mapping[str, tuple[str, ...]] = {
    "qsfp56": ("qsfp56", "qsfp28"),
    "qsfp112": ("qsfp112", "qsfp56", "qsfp28"),
    "qsfp-dd": ("qsfp-dd", "qsfp56", "qsfp28"),
}
"""Form of a cage: forms of plugs that it takes, where that is more than its own. A QSFP112 cage takes slower QSFPs and the
card shifts down (NVIDIA LinkX 100G-PAM4 product line overview); a QSFP-DD cage takes QSFPs (QSFP-DD MSA)."""

Medium = Literal["dac", "acc", "mmf", "smf", "cat6a"]


class Plug(Entry):
    """What a part puts into a cage: a transceiver that is bought by itself, or the fixed end of a cable."""

    name: str = Field(description="Name of the class of plug.")
    form: Form = Field(description="Form of the plug.")
    top: Top = Field(default="", description="'' for one that is made for either.")
    ports: int = Field(default=1, gt=0, description="Ports that it fills: all of its cage.")
    power_w: float = Field(default=0, ge=0, description="Most that it draws, watts; 0 for passive copper.")
    number: str = Field(default="", description="A maker's part number, as an example of the class.")
    source: str = Field(default="", description="Where its draw comes from.")

    def fits(self, cage: Cage) -> bool:
        """Whether it goes into such a cage; a cage of unknown form takes any plug of one port."""
        if not cage.form:
            return self.ports == 1
        form = self.form in ACCEPTS.get(cage.form, (cage.form,))
        return form and self.ports == cage.ports and self.top in ("", cage.top)


class MediaPart(Entry):
    """A kind of cable for one rate.

    fibre: each link has a fibre of its own between two transceivers. straight: a cable with its plugs on, which carries all
    ports of a cage to one other cage. splitter: one plug in a cage of several ports, a tail for each of them.
    """

    part: str = Field(description="Name of the class of part.")
    medium: Medium = Field(description="Copper passive (dac), active (acc), fibre (mmf, smf), twisted pair (cat6a).")
    shape: Literal["fibre", "straight", "splitter"] = Field(description="How it joins cages: see above.")
    rate_gbps: float = Field(description="Rate of one link.")
    reach_m: float = Field(description="Longest, metres.", gt=0)
    min_m: float = Field(default=0, description="Shortest, metres.")
    fibre: str = Field(
        default="", description="The fibre between two transceivers; '' where the plugs are on the cable."
    )
    plugs: Annotated[tuple[Plug, ...], BeforeValidator(as_tuple)] = Field(
        description="What goes into cages.", min_length=1
    )
    source: str = Field(description="Where its reach comes from.")

    def plug(self, cage: Cage) -> Plug | None:
        """What it puts into such a cage."""
        return next((plug for plug in self.plugs if plug.fits(cage)), None)

    def joins(self, a: Cage, b: Cage) -> bool:
        """Whether it has a plug for either cage, and its shape goes from one to the other."""
        if self.plug(a) is None or self.plug(b) is None:
            return False
        return self.shape == "fibre" or (a.ports == b.ports) == (self.shape == "straight")


class MediaTable(Entry):
    """Parts with their reach, per part and not per class."""

    slug: str = Field(description="Id: the name of the file, and media.reach_table of site files.")
    title: str = Field(description="What the table is about.")
    parts: Annotated[tuple[MediaPart, ...], BeforeValidator(as_tuple)] = Field(description="Its kinds of cables.")
