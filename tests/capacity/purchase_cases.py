"""Functions that compute the reference cases of purchase, time and storage (tests/data/reference_cases.yaml)."""

from collections.abc import Callable
from typing import Any

from capacity.space import server_design
from capacity.storage import load, sizing
from inventory.catalog import Drives, Memory
from inventory.site import load_site
from tests.plans import plan_of


def memory_findings(channels: int, dimms: int, dimm_gib: float, per_channel: int) -> dict[str, Any]:
    memory = Memory(dimm_gib=dimm_gib, dimms=dimms, channels=channels, per_channel=per_channel)
    return {"gib": dimms * dimm_gib, "balanced": not server_design.memory_faults(memory, 2, dimms * dimm_gib)}


def balanced_gib(channels: list[int], dimm_gib: list[float]) -> list[float]:
    """Capacity of two processors with one module a channel."""
    made = [
        Memory(dimm_gib=gib, dimms=2 * wide, channels=wide, per_channel=1)
        for wide, gib in zip(channels, dimm_gib, strict=True)
    ]
    return [server_design.balanced_gib(memory, 2)[0] for memory in made]


def drives(tb: float, arrays: list[list[Any]]) -> list[float]:
    return [server_design.usable_tb(Drives(use="data", count=count, tb=tb, raid=level)) for count, level in arrays]


def lanes(gpus: int, nics: list[int], nvme: list[int], processors: int) -> dict[str, Any]:
    needed = [server_design.lanes_needed(gpus, n, d) for n, d in zip(nics, nvme, strict=True)]
    return {"needed": needed, "switches": [n > processors for n in needed]}


def enclosures(drives: int, tb: float, data: int, parity: int, need_pb: float) -> dict[str, float]:
    each = sizing.usable_pb(drives, tb, data, parity)
    return {"raw_pb": drives * tb / 1000, "usable_pb": each, "exact": need_pb / each, "boxes": -(-need_pb // each)}


def storage_of_site(site: str) -> dict[str, Any]:
    from capacity import build as plan

    own = plan.build(load_site(site)).storage.iloc[0]
    return {
        "block": own["block"],
        "enclosures": int(own["enclosures"]),
        "bound": own["bound"],
        "drives": int(own["drives"]),
    }


def bill_quantity(site: str, item: str) -> int:
    bill = plan_of(site).bom
    return int(bill.loc[bill["item"] == item, "quantity"].sum())


COMPUTE: dict[str, Callable[..., Any]] = {
    "memory_findings": memory_findings,
    "balanced_gib": balanced_gib,
    "bill_quantity": bill_quantity,
    "drive_usable_tb": drives,
    "lane_needs": lanes,
    "enclosures": enclosures,
    "storage_of_site": storage_of_site,
    "checkpoint_rate_gb_s": lambda params_b, bytes_per_param, stall_s: [
        load.checkpoint_rate_gb_s(p, bytes_per_param, stall_s) for p in params_b
    ],
    "links_needed": lambda need_gb_s, links_gbps: [load.links_needed(need_gb_s, g) for g in links_gbps],
    "mtti_h": sizing.mtti_h,
    "checkpoint_interval_min": lambda write_s, mtti_hours: [
        sizing.checkpoint_interval_s(w, mtti_hours) / 60 for w in write_s
    ],
}
