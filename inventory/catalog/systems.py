"""Rack-scale systems: racks that are bought whole."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from inventory.catalog.entry import Entry


class SystemPart(Entry):
    """Devices of one model in a rack-scale system: one for each rack unit in ``u``, which is the lowest it fills."""

    role: Literal["compute", "nvlink", "oob", "shelf"] = Field(description="What the devices do.")
    model: str = Field(description="Device type slug.")
    u: tuple[int, ...] = Field(
        description="Lowest rack unit of each device, from the bottom of the rack.", min_length=1
    )


class System(Entry):
    """A rack that is bought whole: trays on a DC busbar, the power shelves that feed it, one NVLink domain."""

    slug: str = Field(description="Id: the name of the file, and server.system of site files.")
    manufacturer: str = Field(description="Maker, as it prints its name.")
    model: str = Field(description="The maker's name of the model.")
    rack: str = Field(description="Rack type slug.")
    parts: tuple[SystemPart, ...] = Field(description="What it is made of.")
    sources: Mapping[str, str] = Field(
        description="Key (or prefix of keys) -> where its numbers come from.", min_length=1
    )

    def part(self, role: str) -> SystemPart | None:
        """The part with a role, None if the system has none."""
        return next((part for part in self.parts if part.role == role), None)

    def count(self, role: str) -> int:
        """Devices with a role."""
        return sum(len(part.u) for part in self.parts if part.role == role)
