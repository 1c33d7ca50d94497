"""What all entries of the catalogue have in common."""

from typing import Any

from pydantic import BaseModel, ConfigDict


def hyphens(name: str) -> str:
    """The key of a field in a file of NetBox."""
    return name.replace("_", "-")


class Entry(BaseModel):
    """Base of the catalogue's models."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def as_tuple(value: Any) -> Any:
    """A list as the tuple that a frozen model holds."""
    return tuple(value) if isinstance(value, list) else value
