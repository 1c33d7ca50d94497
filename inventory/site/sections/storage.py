"""Shared storage and checkpoints of a site file."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from inventory.catalog import Catalog
from inventory.site.rules import rule, unknown_slug
from inventory.site.values import Section, Slug, Text
from inventory.site.yaml_source import Problem


class Checkpoint(Section):
    """What a training checkpoint weighs and how long it may stall the job."""

    bytes_per_param: Annotated[float, Field(ge=1, le=64)] = Field(
        description="Bytes per parameter (weights and optimiser)."
    )
    params_b: Annotated[float, Field(gt=0, le=100_000)] = Field(
        description="Parameters of the largest model, billions."
    )
    stall_s: Annotated[float, Field(gt=0, le=3600)] = Field(description="Permitted stall while writing, seconds.")
    interval_min: Annotated[float, Field(gt=0, le=10_080)] | None = Field(
        default=None, description="Time between two checkpoints, minutes; the interval that costs least without it."
    )
    retained: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None, description="Checkpoints that are kept on the shared storage at one time."
    )


class Storage(Section):
    """Shared storage."""

    kind: Literal["glusterfs", "nfs", "lustre", "weka", "gpfs", "ceph"] = Field(
        description="Shared file system; which kinds the roles set up is in docs/roles.md."
    )
    source: Text | None = Field(
        default=None,
        description="What the nodes mount, as mount(8) takes it (filer:/export, mgs@o2ib:/fs), where the file system is "
        "not built by the roles.",
    )
    usable_pb: Annotated[float, Field(gt=0, le=10_000)] = Field(description="Usable capacity, petabytes (10^15 bytes).")
    checkpoint: Checkpoint = Field(description="Checkpoint load that the storage must take.")
    block: Slug | None = Field(
        default=None,
        description="Building block that the storage is bought in: a slug in inventory/catalog/data/storage. Its enclosures are "
        "devices of the plan; while none is named, the first one of this kind is sized and nothing is placed.",
    )
    read_gb_s_per_gpu: Annotated[float, Field(gt=0, le=100)] | None = Field(
        default=None, description="Training data that one GPU reads, gigabytes per second (10^9 bytes)."
    )
    metadata_ops_s_per_gpu: Annotated[float, Field(gt=0, le=100_000)] | None = Field(
        default=None,
        description="Metadata operations (open, stat, create) that the work of one GPU asks for, per second.",
    )
    rebuild_limit_h: Annotated[float, Field(gt=0, le=1000)] | None = Field(
        default=None, description="Longest acceptable rebuild of one drive, hours."
    )


@rule("storage")
def storage_block_is_known(catalog: Catalog, storage: Storage) -> Iterator[Problem]:
    if storage.block is None:
        return
    path = ("storage", "block")
    fitting = sorted(slug for slug, block in catalog.storage.items() if storage.kind in block.kinds)
    if storage.block not in catalog.storage:
        yield unknown_slug(
            path, storage.block, sorted(catalog.storage), "building block", "inventory/catalog/data/storage"
        )
    elif storage.block not in fitting:
        yield Problem(
            path,
            "a building block of another file system",
            storage.block,
            f"one of {', '.join(fitting)}, which storage.kind {storage.kind} runs on"
            if fitting
            else "a block of this kind",
            "change storage.block or storage.kind",
        )
