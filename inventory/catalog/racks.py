"""Racks."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from inventory.catalog.entry import Entry

U_M = 0.04445
"""Height of a rack unit in metres (EIA-310: 1.75 inch)."""


class RackType(Entry):
    """A rack (NetBox rack type)."""

    manufacturer: str = Field(description="Maker, as it prints its name.")
    model: str = Field(description="The maker's name of the model.")
    slug: str = Field(description="Id: the name of the file, and what site files name.")
    form_factor: str = Field(description="NetBox's form of the rack.")
    width: int = Field(description="Inches between the posts.")
    u_height: int = Field(description="Rack units.")
    outer_width: float = Field(description="Width, in outer_unit.")
    outer_depth: float = Field(description="Depth, in outer_unit.")
    outer_unit: Literal["mm"] = Field(description="Unit of width and depth.")
    weight: float = Field(description="Mass of the empty rack, in weight_unit.")
    max_weight: float = Field(description="Mass that it carries, in weight_unit.")
    weight_unit: Literal["kg"] = Field(description="Unit of both masses.")
    sources: Mapping[str, str] = Field(
        description="Key (or prefix of keys) -> where its numbers come from.", min_length=1
    )
