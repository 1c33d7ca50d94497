"""Ports of a device and the cages that they share.

Interface names may carry ranges, ``p[1-64]``, ``swp[1-64]s[0-1]`` or ``Ethernet[1-64]/[1,5]``, as in NetBox.
"""

import functools
import itertools
import re
from typing import Literal, NamedTuple

from pydantic import Field

from inventory.catalog.entry import Entry

RANGE = re.compile(r"\[(\d+(?:[-,]\d+)+)\]")
"""Numbers in a name: [1-64], [1,5] or both, [1,5-7]."""

FORM_OF_TYPE = {
    "osfp": "osfp",
    "qsfp112": "qsfp112",
    "qsfp56": "qsfp56",
    "qsfp28": "qsfp28",
    "qsfpdd": "qsfp-dd",
    "sfp28": "sfp28",
}
"""End of a NetBox interface type (`400gbase-x-qsfp112`): form of its cage; twisted pair (`1000base-t`) is 8p8c."""

Form = Literal["osfp", "qsfp-dd", "qsfp112", "qsfp56", "qsfp28", "sfp28", "8p8c"]
Top = Literal["", "finned", "flat"]


def expanded(name: str) -> list[str]:
    """The names that the ranges of a name stand for, the last range running fastest: p[1-2] is p1 and p2."""
    return list(_expanded(name))


@functools.lru_cache(maxsize=1024)
def _expanded(name: str) -> tuple[str, ...]:
    fixed = RANGE.split(name)[::2]
    ranges = [_numbers(given) for given in RANGE.findall(name)]
    return tuple(
        fixed[0] + "".join(f"{n}{tail}" for n, tail in zip(numbers, fixed[1:], strict=True))
        for numbers in itertools.product(*ranges)
    )


def _numbers(given: str) -> list[int]:
    """The numbers of 1,5-7."""
    ends = [part.split("-") for part in given.split(",")]
    return [n for part in ends for n in range(int(part[0]), int(part[-1]) + 1)]


class Interface(Entry):
    """A port, or ranges of ports (NetBox ``interfaces``)."""

    name: str = Field(description="Name of the port, or of several with ranges: p[1-64].")
    type: str = Field(description="NetBox's interface type: 400gbase-x-osfp.")
    mgmt_only: bool = Field(default=False, description="Whether it serves management only.")

    def names(self) -> list[str]:
        """The port names that its ranges stand for, the last range running fastest."""
        return expanded(self.name)


class Cage(NamedTuple):
    """A kind of cage: its form, the top of the plugs that it takes and its ports; form '' where a model does not say it."""

    form: str
    top: str
    ports: int

    def __str__(self) -> str:
        words = (f"{self.ports}-port" if self.ports > 1 else "", self.form, self.top)
        return " ".join(word for word in words if word) or "unknown"


class Cages(Entry):
    """Cages of a device: which of its ports share one, and what plugs into it."""

    ports: tuple[str, ...] = Field(
        min_length=1, description="Ports in the order of their cages; names with ranges as in interfaces."
    )
    each: int = Field(default=1, gt=0, description="Ports of one cage: those that follow one another share it.")
    form: Form = Field(description="Form of the plugs.")
    top: Top = Field(
        default="",
        description="OSFP: plugs with fins (air-cooled switches) or flat (cards with a heat sink of their own).",
    )

    def names(self) -> list[str]:
        """The ports, ranges expanded."""
        return [name for given in self.ports for name in expanded(given)]


def form_of(interface_type: str) -> str:
    """Form of the cage of a NetBox interface type; '' where it does not say one."""
    if re.search(r"base-tx?$", interface_type):
        return "8p8c"
    return FORM_OF_TYPE.get(interface_type.rsplit("-", 1)[-1], "")
