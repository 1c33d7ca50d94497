"""Servers: PCIe lanes, memory, drives, and the air that they take in."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from inventory.catalog.entry import Entry


class NicSlot(Entry):
    """How a fabric port of a server reaches its host; the usable rate follows from it, not from the card (ERR-09)."""

    pcie_gen: Literal[3, 4, 5, 6] = Field(description="PCIe generation of the slot.")
    x16: Literal[1, 2] = Field(description="x16 connections behind one port; 2 is socket direct.")


class LaneSwitch(Entry):
    """PCIe switches of a board: ports to the processors and ports to devices, in lanes each."""

    count: int = Field(description="Switches of this kind on the board.")
    up_lanes: int = Field(description="Lanes of one switch to its processor.")
    down: Mapping[str, int] = Field(
        description="Devices behind one switch: what (gpu, nic, drive) -> lanes of all of them."
    )


class Board(Entry):
    """Lanes of a server board: what its processors have and what hangs on them directly or behind switches."""

    cpu_lanes: int = Field(description="PCIe lanes of one processor.")
    pcie_gen: Literal[3, 4, 5, 6] = Field(description="PCIe generation of the board.")
    direct: Mapping[str, int] = Field(
        default_factory=dict, description="Devices on the processors: what -> lanes of all."
    )
    switches: tuple[LaneSwitch, ...] = Field(default=(), description="PCIe switches.")
    coherent: tuple[str, ...] = Field(
        default=(), description="Devices that reach their processor by another link than PCIe (NVLink-C2C): gpu."
    )

    def lanes(self, device: str) -> int:
        """Lanes that all devices of a kind have."""
        return self.direct.get(device, 0) + sum(s.count * s.down.get(device, 0) for s in self.switches)


class Memory(Entry):
    """How a server's memory is made up."""

    dimm_gib: float = Field(gt=0, description="Size of one module (or package), GiB.")
    dimms: int = Field(gt=0, description="Modules in the server.")
    channels: int = Field(gt=0, description="Memory channels of one processor.")
    per_channel: int = Field(default=2, gt=0, description="Slots per channel.")
    gb_s: float = Field(default=0, description="Bandwidth of one channel, GB/s; 0 where not known.")
    soldered: bool = Field(default=False, description="Memory on the board: nothing to populate.")

    @property
    def balanced(self) -> tuple[int, ...]:
        """Modules of one processor that fill every channel alike (ERR-44): one a channel up to `per_channel`."""
        return tuple(n * self.channels for n in range(1, self.per_channel + 1))


class Drives(Entry):
    """Drives of one kind in a server."""

    use: Literal["boot", "data"] = Field(description="What they hold.")
    count: int = Field(description="Drives in the server.", gt=0)
    tb: float = Field(gt=0, description="Capacity of one drive, TB (10^12 bytes).")
    raid: Literal["0", "1", "5", "10"] = Field(description="RAID level.")
    dwpd: float = Field(default=0, description="Drive writes per day over its warranty; 0 where not known.")
    warranty_years: float = Field(description="Years of warranty that dwpd counts over.", default=5)


class InletRange(Entry):
    """Air temperatures at the inlet that a vendor permits in operation, Celsius."""

    min: float = Field(description="Least, Celsius.")
    max: float = Field(description="Most, Celsius.")
