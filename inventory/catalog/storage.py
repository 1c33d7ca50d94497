"""Building blocks of shared storage: drives, enclosures and metadata servers."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from inventory.catalog.entry import Entry


class StorageDrive(Entry):
    """A drive of the shared storage."""

    media: Literal["hdd", "nvme"] = Field(description="Kind of drive.")
    tb: float = Field(gt=0, description="Capacity, TB (10^12 bytes).")
    write_mb_s: float = Field(gt=0, description="Sequential write rate, MB/s.")
    read_mb_s: float = Field(gt=0, description="Sequential read rate, MB/s.")
    rebuild_mb_s: float = Field(gt=0, description="Rate at which the data of a lost drive is written again, MB/s.")
    kg: float = Field(description="Mass, kilograms.", ge=0)


class StorageEnclosure(Entry):
    """Drives and what serves them, bought as one: a JBOD with its share of servers, or a flash server."""

    device: str = Field(description="Device type slug; its weight is without drives, its nameplate with them.")
    drives: int = Field(description="Drives in one enclosure.", gt=0)
    spare_drives: int = Field(ge=0, description="Drives (or their room) that are kept free for rebuilds.")
    data: int = Field(gt=0, description="Data drives (or chunks) of a stripe.")
    parity: int = Field(ge=0, description="Parity drives (or chunks) of a stripe.")
    spread: bool = Field(
        default=False, description="Whether every chunk of a stripe lies in another enclosure, whose loss costs one."
    )
    write_gb_s: float = Field(gt=0, description="Most that its controllers write, GB/s.")
    read_gb_s: float = Field(gt=0, description="Most that its controllers read, GB/s.")

    @property
    def least(self) -> int:
        """Enclosures that there are at least: one a chunk where stripes are spread over them (ERR-45)."""
        return self.data + self.parity if self.spread else 1


class StorageMetadata(Entry):
    """Servers of the metadata; count 0 where every enclosure serves metadata too."""

    ops_s: float = Field(gt=0, description="Operations per second of one server, or of one enclosure.")
    least: int = Field(ge=0, description="Servers that there are at least; 0: the enclosures do it.")
    device: str = Field(default="", description="Device type slug of a server; '' where the enclosures do it.")


class StorageBlock(Entry):
    """A building block of shared storage and what one of it gives."""

    slug: str = Field(description="Id: the name of the file, and storage.block of site files.")
    title: str = Field(description="What it is.")
    kinds: tuple[str, ...] = Field(min_length=1, description="Kinds of storage.kind that run on it.")
    shared_posix: bool = Field(description="Whether jobs mount it as a file system.")
    in_servers: bool = Field(
        default=False, description="Whether the storage servers of the plan hold it: nothing is bought."
    )
    suits: str = Field(description="What it is good at.")
    watch: str = Field(description="What to look out for.")
    licence: str = Field(description="What its software costs in licences.")
    formatted: float = Field(gt=0, le=1, description="Share of the space after parity that files get.")
    drive: StorageDrive = Field(description="One of its drives.")
    enclosure: StorageEnclosure = Field(description="What is bought as one.")
    metadata: StorageMetadata = Field(description="What serves the metadata.")
    sources: Mapping[str, str] = Field(
        description="Key (or prefix of keys) -> where its numbers come from.", min_length=1
    )

    @property
    def devices(self) -> tuple[str, ...]:
        """Device types that it is made of."""
        return (self.enclosure.device, *((self.metadata.device,) if self.metadata.least else ()))
