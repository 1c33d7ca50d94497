"""Shared storage as something to buy: what the cluster needs, and how many building blocks of each technology give it.

    needs = needs_of(site, gpus, catalog)
    options(site, catalog, gpus)         one Option per building block of the catalogue, the site's choice marked

Size, write, read and metadata are sized separately (ERR-40): the largest of the four counts decides, and is named.
A stripe that is spread over enclosures takes one for each of its chunks, so that the loss of one costs one chunk (ERR-45).

Sources: RC-123 (usable space of drives with parity), RC-124 (checkpoint size and rate), RC-125 (links at 90 % of their raw
rate), RC-181 (checkpoint interval by Young, "A first order approximation to the optimum checkpoint interval", 1974).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields

import pandas as pd

from capacity.storage.load import LINK_EFFICIENCY, checkpoint_load, links_needed
from inventory.catalog import Catalog, StorageBlock
from inventory.catalog.gpus import LLAMA_3_GPU_HOURS, Interruptions
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from network.wiring.inband import inband_gbps, placed_block

MTTI_LIMIT = "gpu_mtti_h"
"""The site's own limit, which stands before the catalogue's figure of the GPU."""


@dataclass(frozen=True)
class Needs:
    """What the cluster asks of its storage. Rates in GB/s (10^9 bytes) and operations per second; None: not stated."""

    usable_pb: float
    checkpoint_tb: float
    write_gb_s: float
    read_gb_s: float | None
    metadata_ops_s: float | None
    retained_pb: float | None
    mtti_h: float
    interval_min: float
    rebuild_limit_h: float | None = None
    mtti_range_h: tuple[float, float] = (0.0, 0.0)
    interval_range_min: tuple[float, float] = (0.0, 0.0)
    mtti_source: str = ""

    @property
    def busiest_gb_s(self) -> float:
        """The larger of write and read."""
        return max(self.write_gb_s, self.read_gb_s or 0.0)


@dataclass(frozen=True)
class Option:
    """A technology sized for the needs. `bound` is the need that decides the count; `chosen` 1 for the site's own."""

    block: str
    title: str
    chosen: int
    shared_posix: int
    in_servers: int
    media: str
    drive_tb: float
    enclosures: int
    bound: str
    drives: int
    raw_pb: float
    usable_pb: float
    write_gb_s: float
    read_gb_s: float
    metadata_ops_s: float
    metadata_servers: int
    rebuild_h: float
    links: int
    link_gbps: float
    links_needed: int
    rack_u: float
    kw: float
    mass_kg: float


def mtti_h(gpus: int, gpu_hours: float = LLAMA_3_GPU_HOURS) -> float:
    """Mean time to interruption of a job on all GPUs, hours (RC-X4)."""
    return gpu_hours / gpus


@dataclass(frozen=True)
class Rate:
    """How rarely jobs are interrupted, with its source and that of its range."""

    figures: Interruptions
    source: str
    range_source: str


def interruptions(site: Site, catalog: Catalog) -> Rate:
    """limits.gpu_mtti_h of the site, else the catalogue's figure of its GPU."""
    gpu, stated = catalog.gpu(site.gpu.sku), site.limits.get(MTTI_LIMIT)
    known, (source, spread) = gpu.interruptions, gpu.interruptions_source
    if stated is None:
        return Rate(known, source, spread)
    own = known.model_copy(update={"gpu_hours": float(stated.value)})
    return Rate(own, f"site limits.{MTTI_LIMIT}: {stated.source}", spread)


def checkpoint_interval_s(write_s: float, mtti_hours: float) -> float:
    """Young's interval between checkpoints, seconds: sqrt(2 x write time x mean time to interruption)."""
    return math.sqrt(2 * write_s * mtti_hours * 3600)


def usable_pb(drives: int, tb: float, data: int, parity: int, spare: int = 0, formatted: float = 1.0) -> float:
    """Usable space: what parity, spare drives and the file system leave."""
    return (drives - spare) * tb * data / (data + parity) * formatted / 1000


def rebuild_h(tb: float, mb_s: float) -> float:
    """Hours until the data of a lost drive is whole again."""
    return tb * 1e6 / mb_s / 3600


def needs_of(site: Site, gpus: int, catalog: Catalog) -> Needs:
    """The needs of a site."""
    storage, checkpoint = site.storage, site.storage.checkpoint
    load = checkpoint_load(site)
    found, shared = interruptions(site, catalog), max(gpus, 1)
    rate = found.figures
    hours = mtti_h(shared, rate.gpu_hours)
    span = mtti_h(shared, rate.low_gpu_hours), mtti_h(shared, rate.high_gpu_hours)
    low, high = (checkpoint_interval_s(checkpoint.stall_s, each) / 60 for each in span)
    kept = checkpoint.retained
    return Needs(
        usable_pb=storage.usable_pb,
        checkpoint_tb=load.checkpoint_b / 1e12,
        write_gb_s=load.write_gb_s,
        read_gb_s=None if storage.read_gb_s_per_gpu is None else storage.read_gb_s_per_gpu * gpus,
        metadata_ops_s=None if storage.metadata_ops_s_per_gpu is None else storage.metadata_ops_s_per_gpu * gpus,
        retained_pb=None if kept is None else kept * load.checkpoint_b / 1e15,
        mtti_h=hours,
        interval_min=checkpoint_interval_s(checkpoint.stall_s, hours) / 60,
        rebuild_limit_h=storage.rebuild_limit_h,
        mtti_range_h=span,
        interval_range_min=(low, high),
        mtti_source=found.source,
    )


def enclosure_rates(block: StorageBlock, ports: int, link_gbps: float) -> tuple[float, float]:
    """(write, read) of one enclosure in GB/s: the least of its drives, its controllers and its links at `link_gbps`.

    A write also writes parity, so the drives give data/(data + parity) of their rate.
    """
    box, drive = block.enclosure, block.drive
    working = box.drives - box.spare_drives
    net = ports * link_gbps / 8 * LINK_EFFICIENCY
    share = box.data / (box.data + box.parity)
    return (
        min(working * drive.write_mb_s / 1000 * share, box.write_gb_s, net),
        min(working * drive.read_mb_s / 1000, box.read_gb_s, net),
    )


def size(site: Site, catalog: Catalog, block: StorageBlock, needs: Needs, chosen: bool = False) -> Option:
    """As few enclosures as meet every need that is stated, on links of the site's in-band network."""
    box, drive, meta = block.enclosure, block.drive, block.metadata
    body = catalog.device(box.device)
    ports, link_gbps = len(body.bringup.inband_ports), inband_gbps(site, catalog, box.device)
    each_pb = usable_pb(box.drives, drive.tb, box.data, box.parity, box.spare_drives, block.formatted)
    write, read = enclosure_rates(block, ports, link_gbps)
    counts = {"usable capacity": needs.usable_pb / each_pb, "checkpoint write rate": needs.write_gb_s / write}
    if needs.read_gb_s is not None:
        counts["read rate"] = needs.read_gb_s / read
    if needs.metadata_ops_s is not None and not meta.least:
        counts["metadata rate"] = needs.metadata_ops_s / meta.ops_s
    if box.spread:
        counts["spread of a stripe"] = box.least
    whole = {name: max(math.ceil(n - 1e-9), 1) for name, n in counts.items()}
    bound = max(whole, key=lambda name: whole[name])
    n = whole[bound]
    servers = max(meta.least, math.ceil((needs.metadata_ops_s or 0) / meta.ops_s - 1e-9)) if meta.least else 0
    drives = n * box.drives
    made_of = [(n, body)] + ([(servers, catalog.device(meta.device))] if servers else [])
    return Option(
        block=block.slug,
        title=block.title,
        chosen=int(chosen),
        shared_posix=int(block.shared_posix),
        in_servers=int(block.in_servers),
        media=drive.media,
        drive_tb=drive.tb,
        enclosures=n,
        bound=bound,
        drives=drives,
        raw_pb=drives * drive.tb / 1000,
        usable_pb=n * each_pb,
        write_gb_s=n * write,
        read_gb_s=n * read,
        metadata_ops_s=(servers or n) * meta.ops_s,
        metadata_servers=servers,
        rebuild_h=rebuild_h(drive.tb, drive.rebuild_mb_s),
        links=n * ports,
        link_gbps=link_gbps,
        links_needed=links_needed(needs.busiest_gb_s, link_gbps),
        rack_u=sum(count * device.u_height for count, device in made_of),
        kw=sum(count * device.bringup.power.nameplate_w for count, device in made_of) / 1000,
        mass_kg=sum(count * device.mass_kg for count, device in made_of) + drives * drive.kg,
    )


def chosen_block(site: Site, catalog: Catalog) -> StorageBlock | None:
    """The site's building block: the one it names, else the first of its kind; None for a kind without any."""
    if site.storage.block:
        return catalog.storage.get(site.storage.block)
    fitting = [block for block in catalog.storage.values() if site.storage.kind in block.kinds]
    return fitting[0] if fitting else None


def options(site: Site, catalog: Catalog, gpus: int) -> list[Option]:
    """Every building block of the catalogue sized for the site, its own choice first."""
    needs, own = needs_of(site, gpus, catalog), chosen_block(site, catalog)
    listed = [block for block in catalog.storage.values() if block is own or not block.in_servers]
    sized = [size(site, catalog, block, needs, block is own) for block in listed]
    return sorted(sized, key=lambda option: (-option.chosen, option.block))


def frame(sized: list[Option]) -> pd.DataFrame:
    """The `storage` frame."""
    columns = [f.name for f in fields(Option)]
    return pd.DataFrame([asdict(option) for option in sized], columns=columns)


def build(site: Site, catalog: Catalog, gpus: int) -> tuple[list[Option], list[Finding]]:
    """Options and findings of a site."""
    sized = options(site, catalog, gpus)
    needs = needs_of(site, gpus, catalog)
    own = next((option for option in sized if option.chosen), None)
    found = [*check_needs(site, needs), *check_retention(site, needs)]
    return sized, [*found, *(check_choice(site, catalog, own, sized) if own else [])]


def check_needs(site: Site, needs: Needs) -> list[Finding]:
    """STORAGE-NEEDS (ERR-40), for information: needs that the site file does not state and that are not sized for."""
    given: Mapping[str, object] = {
        "storage.read_gb_s_per_gpu": needs.read_gb_s,
        "storage.metadata_ops_s_per_gpu": needs.metadata_ops_s,
        "storage.checkpoint.retained": needs.retained_pb,
    }
    absent = [key for key, value in given.items() if value is None]
    if not absent:
        return []
    return [
        finding(
            "STORAGE-NEEDS",
            "storage",
            err="ERR-40",
            words={"keys": ", ".join(absent)},
            absent=len(absent),
            remedies=[remedy(fix="given")],
        )
    ]


def check_retention(site: Site, needs: Needs) -> list[Finding]:
    """STORAGE-RETENTION when the checkpoints that are kept fill the storage; STORAGE-INTERVAL when they are too rare.

    Rare: more than twice Young's interval, so that more is lost at each interruption than is saved in writing.
    """
    found: list[Finding] = []
    checkpoint = site.storage.checkpoint
    if needs.retained_pb is not None and needs.retained_pb > needs.usable_pb:
        fit = math.floor(needs.usable_pb * 1000 / needs.checkpoint_tb)
        enough_pb = math.ceil(needs.retained_pb * 1000) / 1000
        found.append(
            finding(
                "STORAGE-RETENTION",
                "storage.checkpoint.retained",
                limit=needs.usable_pb,
                limit_source="site storage.usable_pb",
                remedies=[
                    *([remedy({"storage.checkpoint.retained": fit}, fix="at-most")] if fit >= 1 else []),
                    remedy({"storage.usable_pb": enough_pb}, fix="at-least"),
                ],
                words={"retained": checkpoint.retained, "checkpoint_tb": needs.checkpoint_tb},
                retained_pb=needs.retained_pb,
            )
        )
    if checkpoint.interval_min is not None and checkpoint.interval_min > 2 * needs.interval_min:
        best_min = round(needs.interval_min, 1)
        found.append(
            finding(
                "STORAGE-INTERVAL",
                "storage.checkpoint.interval_min",
                limit=best_min,
                limit_source="Young 1974; interruptions as in arXiv 2407.21783 (RC-181)",
                remedies=[remedy({"storage.checkpoint.interval_min": best_min})],
                interval_min=checkpoint.interval_min,
                mtti_h=round(needs.mtti_h, 2),
            )
        )
    return found


def check_choice(site: Site, catalog: Catalog, own: Option, others: Iterable[Option]) -> list[Finding]:
    """STORAGE-REBUILD when a drive is rebuilt too slowly, with those of `others` that do better; STORAGE-UNPLACED, for
    information, while no block is named; STORAGE-TWICE when service nodes are storage servers beside the enclosures, which bring
    theirs.
    """
    found: list[Finding] = []
    limit = site.storage.rebuild_limit_h
    if limit is not None and own.rebuild_h > limit:
        found.append(
            finding(
                "STORAGE-REBUILD",
                "storage.block",
                limit=limit,
                limit_source="site storage.rebuild_limit_h",
                remedies=[
                    *(remedy({"storage.block": block}) for block in _faster_blocks(site, catalog, others, limit)),
                    remedy(fix="smaller-drives"),
                    remedy(fix="faster-block", mb_s=own.drive_tb * 1e6 / limit / 3600),
                ],
                words={"drive_tb": own.drive_tb, "block": own.block},
                rebuild_h=round(own.rebuild_h, 2),
            )
        )
    block = placed_block(site, catalog)
    if block is None and not own.in_servers:
        found.append(
            finding(
                "STORAGE-UNPLACED",
                "storage.block",
                remedies=[remedy({"storage.block": own.block}, fix="name-block"), remedy(fix="other-block")],
                words={"block": own.block, "kind": site.storage.kind, "rack_u": own.rack_u},
                enclosures=own.enclosures,
                kw=round(own.kw, 3),
                mass_kg=round(own.mass_kg, 1),
            )
        )
    nodes = sum(node.count for node in site.service_nodes if node.role == "storage")
    if block is not None and nodes:
        found.append(
            finding(
                "STORAGE-TWICE",
                "service_nodes.storage",
                remedies=[remedy({"storage.block": None}, fix="no-block"), remedy(fix="no-nodes")],
                words={"block": own.block},
                nodes=nodes,
                enclosures=own.enclosures,
            )
        )
    return found


def _faster_blocks(site: Site, catalog: Catalog, others: Iterable[Option], limit_h: float) -> list[str]:
    """Blocks of the site's kind of storage whose drives are rebuilt within `limit_h`, that of fewest enclosures first."""
    fitting = [
        one for one in others if one.rebuild_h <= limit_h and site.storage.kind in catalog.storage[one.block].kinds
    ]
    return [one.block for one in sorted(fitting, key=lambda one: one.enclosures)]
