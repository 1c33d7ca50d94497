"""GPUs that several pods share: time-slicing and MIG on named GPU servers of a site with Kubernetes.

What it makes of a server is computed in capacity/services/platform/sharing.py.
"""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from inventory.catalog import Catalog
from inventory.site.messages import MISSING, nearest
from inventory.site.rules import rule
from inventory.site.sections.servers import Gpu, Server
from inventory.site.sections.software import Scheduler
from inventory.site.values import Section
from inventory.site.yaml_source import Path, Problem

PREFIX = "gpu"
"""Of the names of GPU servers (capacity/space/devices.py)."""
Sharing = tuple["GpuSharing", ...]


class GpuSharing(Section):
    """GPU servers whose GPUs are shared in one way: by turns (time_slices), or divided in hardware (mig)."""

    servers: tuple[Annotated[str, Field(pattern=rf"^{PREFIX}[0-9]{{3,6}}$(?!\n)")], ...] = Field(
        min_length=1, description="GPU servers, such as gpu003; all GPUs of each."
    )
    time_slices: Annotated[int, Field(ge=2, le=64)] | None = Field(
        default=None,
        description="Pods that one GPU takes by turns. Nothing keeps their memory or their time apart.",
    )
    mig: Annotated[str, Field(pattern=r"^[1-9]g\.[1-9][0-9]{0,2}gb$(?!\n)")] | None = Field(
        default=None,
        description="MIG profile that each GPU is divided into, as often as it fits: one that the catalogue has for gpu.sku.",
    )

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the servers, from 1."""
        return tuple(int(name.removeprefix(PREFIX)) for name in self.servers)


@rule("gpu_sharing", "scheduler")
def sharing_is_for_kubernetes(catalog: Catalog, sharing: Sharing, scheduler: Scheduler) -> Iterator[Problem]:
    if sharing and scheduler.kind != "kubernetes":
        what = "an option of Kubernetes"
        yield Problem(("gpu_sharing",), what, f"scheduler.kind {scheduler.kind}", "no such key", "delete gpu_sharing")


@rule("gpu_sharing", "server")
def shared_servers_are_known_and_named_once(catalog: Catalog, sharing: Sharing, server: Server) -> Iterator[Problem]:
    seen: set[int] = set()
    for entry, one in enumerate(sharing):
        for place, (name, number) in enumerate(zip(one.servers, one.numbers, strict=True)):
            where: Path = ("gpu_sharing", entry, "servers", place)
            if not 1 <= number <= server.count:
                expected = f"one of {PREFIX}001 to {PREFIX}{server.count:03d}"
                yield Problem(where, "not a GPU server of this site", name, expected, "name another one, or delete it")
            elif number in seen:
                yield Problem(where, "a server given twice", name, "each server once", "delete it here or there")
            else:
                seen.add(number)
    if sharing and len(seen) >= server.count:
        yield Problem(
            ("gpu_sharing",),
            "no GPU server is left whole",
            f"{len(seen)} of {server.count} servers share their GPUs",
            "one server at least that does not: acceptance places jobs of whole servers",
            "delete a server",
        )


@rule("gpu_sharing", "server", "scheduler")
def own_gpus_of_accounts_are_there(
    catalog: Catalog, sharing: Sharing, server: Server, scheduler: Scheduler
) -> Iterator[Problem]:
    model = catalog.devices.get(server.model)
    own = sum(account.min_gpus or 0 for account in scheduler.accounts)
    reserved = sum(one.gpus for one in scheduler.reservations)
    if model is None or not own + reserved:
        return
    shared = sum(len(one.servers) for one in sharing)
    whole = max(0, server.count - shared) * model.bringup.gpus
    if own > whole:
        expected = f"at most the {whole} GPUs of servers that share none"
        yield Problem(("scheduler", "accounts"), "min_gpus of all accounts", str(own), expected, "lower min_gpus")
    elif own + reserved > whole:
        what, found = "GPUs of all reservations, with min_gpus of all accounts", str(own + reserved)
        expected = f"at most the {whole} GPUs of servers that share none"
        do = "lower gpus, or delete reservations that are over or far away"
        yield Problem(("scheduler", "reservations"), what, found, expected, do)


@rule("gpu_sharing", "gpu")
def shared_in_one_way_that_the_gpu_has(catalog: Catalog, sharing: Sharing, gpu: Gpu) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for entry, one in enumerate(sharing):
        where: Path = ("gpu_sharing", entry)
        if one.time_slices is None and one.mig is None:
            yield Problem(where, MISSING, "", "time_slices or mig", "add 'time_slices: 4', or a MIG profile")
        elif one.time_slices is not None and one.mig is not None:
            found = f"time_slices {one.time_slices} and mig {one.mig}"
            yield Problem(where, "two ways at once", found, "time_slices or mig", "delete one of them")
        if one.mig is not None:
            yield from _of_the_gpu(catalog, (*where, "mig"), one.mig, gpu)
        way = "time_slices" if one.time_slices is not None else f"mig {one.mig}"
        if way in first:
            expected = (
                "each MIG profile once, and one number of time slices: pods tell them apart by the resource alone"
            )
            do = f"move its servers to gpu_sharing[{first[way]}]"
            yield Problem(where, "a way given twice", way, expected, do)
        first.setdefault(way, entry)


def _of_the_gpu(catalog: Catalog, where: Path, profile: str, gpu: Gpu) -> Iterator[Problem]:
    model = catalog.gpus.get(gpu.sku)
    if model is None or profile in model.mig:
        return  # an unknown model is a problem of gpu.sku
    if not model.mig:
        do = f"use time_slices, or add mig to inventory/catalog/data/gpus/{gpu.sku}.yaml"
        expected = f"a GPU whose MIG profiles the catalogue knows: {gpu.sku} has none there"
        yield Problem(where, "a MIG profile of an unknown kind", profile, expected, do)
        return
    near = nearest(profile, list(model.mig))
    expected = f"one of {', '.join(model.mig)}"
    do = f"write {near}" if near else "choose one of these"
    yield Problem(where, f"not a MIG profile of {gpu.sku}", profile, expected, do, nearest=near)
