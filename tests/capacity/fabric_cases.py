"""Functions that compute the reference cases of the fabric and of its collectives (tests/data/reference_cases.yaml)."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from inventory.catalog import load_catalog
from inventory.site import load_site
from network import lossless, roce_host
from network.expected import ceiling, factor
from network.wiring import cabling


def reach_flagged(table: str, rate_gbps: float, lengths_m: list[float]) -> list[list[str]]:
    """ERR ids of CABLE-REACH for a cable of each length with the part that reaches it."""
    parts = pd.DataFrame([part.model_dump() for part in load_catalog().media(table).parts])
    flags = []
    for length in lengths_m:
        ends = {"a_device": "a", "a_port": "1", "b_device": "b", "b_port": "1", "cable_id": "C1", "stage": "node-leaf"}
        cables = pd.DataFrame([{**ends, "rate_gbps": rate_gbps, "length_m": length}])
        cables["part"] = cabling.select_parts(cables["rate_gbps"], cables["length_m"].to_numpy(), parts)[
            "part"
        ].to_numpy()
        flags.append([found.err or "" for found in cabling.check_reach(cables, parts, table)])
    return flags


def ecn_kib(bandwidth_delay_kib: int, xoff_kib: int, mtu: int) -> list[float]:
    """Where marking begins and ends, KiB."""
    made = lossless.ecn_thresholds(bandwidth_delay_kib * 1024, xoff_kib * 1024, mtu)
    assert made is not None
    return [made.minimum / 1024, made.maximum / 1024]


def mtus(site: str) -> dict[str, float]:
    """MTU of hosts on the rails, and what the site asks of the in-band network, B."""
    limits = load_site(site).limits
    asked = {name: limits[name].value for name in ("df_ping_payload_b", "switch_mtu_min_b")}
    return {"host": roce_host.HOST_MTU, **asked}


def ring_and_domain(domains: list[int], gpus: int, nic_gb_s: float, nvlink_gb_s: float) -> list[list[Any]]:
    """Bus bandwidth of a ring all-reduce over so many servers, GB/s, and what binds it."""
    found = [
        ceiling("all_reduce", domains=count, gpus=gpus, nic_gb_s=nic_gb_s, nvlink_gb_s=nvlink_gb_s)["ring"]
        for count in domains
    ]
    return [[one.busbw_gb_s, one.bound_by] for one in found]


COMPUTE: dict[str, Callable[..., Any]] = {
    "reach_flagged": reach_flagged,
    "ecn_kib": ecn_kib,
    "mtus": mtus,
    "ring_and_domain": ring_and_domain,
    "bus_factors": lambda operation, ranks: [factor(operation, count) for count in ranks],
}
