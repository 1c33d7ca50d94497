"""Racks."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from inventory.catalog.entry import Entry

U_M = 0.04445
"""Height of a rack unit in metres (EIA-310: 1.75 inch)."""


class RackType(Entry):
    """A rack (NetBox rack type)."""

    manufacturer: str
    model: str
    slug: str
    form_factor: str
    width: int = Field(description="Inches between the posts.")
    u_height: int
    outer_width: float
    outer_depth: float
    outer_unit: Literal["mm"]
    weight: float
    max_weight: float
    weight_unit: Literal["kg"]
    sources: Mapping[str, str] = Field(min_length=1)
