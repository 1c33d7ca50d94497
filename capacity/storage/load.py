"""Shared storage: what every server mounts, and what checkpoints ask of it.

Pure. In: a site and the plan's devices. Sources: S121, S124 and S125 of the commissioning steps; RC-125 (efficiency of a
storage link, 41 GB/s over four links of 100 Gb/s).
"""

import math
from dataclasses import dataclass

import pandas as pd

from inventory.catalog import Catalog
from inventory.site import Site
from network.wiring.inband import inband_gbps, inband_ports

MOUNT_POINT = "/shared"
VOLUME = "shared"
LINK_EFFICIENCY = 0.9
"""Share of a link's raw rate that storage traffic reaches (RC-125)."""
BUILT_KINDS = ("glusterfs",)
"""Kinds of storage whose servers the roles set up; all others are mounted from `storage.source`."""


@dataclass(frozen=True)
class Shared:
    """The shared file system of a site. source: what is mounted, as mount(8) takes it; '' where the site does not say."""

    kind: str
    source: str
    mount_point: str
    volume: str
    servers: tuple[str, ...]


def shared(site: Site, devices: pd.DataFrame) -> Shared:
    """The shared file system of a site. devices: the plan's frame, of which name, kind and role are read."""
    servers = devices.loc[(devices["kind"] == "server") & (devices["role"] == "storage"), "name"].tolist()
    own = f"{servers[0]}:/{VOLUME}" if servers else ""
    source = own if site.storage.kind in BUILT_KINDS else site.storage.source or ""
    return Shared(site.storage.kind, source, MOUNT_POINT, VOLUME, tuple(servers))


def checkpoint_rate_gb_s(params_b: float, bytes_per_param: float, stall_s: float) -> float:
    """GB/s that write one checkpoint within the stall (RC-124); parameters in billions, so that bytes come out as GB."""
    return params_b * bytes_per_param / stall_s


def links_needed(need_gb_s: float, link_gbps: float) -> int:
    """Links that carry a rate: ceil(need / (raw x efficiency)) (RC-125); rounding of the division adds none."""
    return math.ceil(need_gb_s / (link_gbps / 8 * LINK_EFFICIENCY) - 1e-9)


@dataclass(frozen=True)
class CheckpointLoad:
    """What one checkpoint of the largest model asks for. Sizes in bytes, rates in GB/s (10^9 bytes a second)."""

    checkpoint_b: float
    stall_s: float
    write_gb_s: float
    held: float
    """How many checkpoints the usable capacity holds."""


def checkpoint_load(site: Site) -> CheckpointLoad:
    """Size of a checkpoint (parameters times bytes each), and the rate that writes it within the permitted stall."""
    checkpoint, usable_b = site.storage.checkpoint, site.storage.usable_pb * 1e15
    size_b = checkpoint.params_b * 1e9 * checkpoint.bytes_per_param
    rate = checkpoint_rate_gb_s(checkpoint.params_b, checkpoint.bytes_per_param, checkpoint.stall_s)
    return CheckpointLoad(size_b, checkpoint.stall_s, rate, usable_b / size_b)


@dataclass(frozen=True)
class StorageLinks:
    """In-band links of the servers that hold data, and how many are needed. Rates in GB/s."""

    servers: tuple[str, ...]
    links: int
    gb_s_each: float
    needed: int

    @property
    def gb_s(self) -> float:
        return self.links * self.gb_s_each


def storage_links(site: Site, catalog: Catalog, devices: pd.DataFrame, need_gb_s: float) -> StorageLinks:
    """Links of all storage servers but those of metadata, and how many `need_gb_s` takes; each at the slowest one's rate."""
    held = devices[(devices["kind"] == "server") & (devices["role"] == "storage")]
    links = sum(len(inband_ports(site, catalog, model)) for model in held["model"])
    gbps = min((inband_gbps(site, catalog, model) for model in held["model"].unique()), default=site.inband.rate_gbps)
    needed = links_needed(need_gb_s, gbps)
    return StorageLinks(tuple(held["name"]), links, gbps / 8 * LINK_EFFICIENCY, needed)
