"""Bus bandwidth that the links of a cluster allow a collective, by operation and algorithm: plain numbers in and out.

    best = ceiling("all_reduce", domains=2, gpus=8, nic_gb_s=50, nvlink_gb_s=450)
    best["ring"].busbw_gb_s      # 400.0, bound by "NICs"

A domain is the set of GPUs that NVLink joins: a server of eight GPUs, or a rack of 72. Bus bandwidth is counted as nccl-tests
does (doc/PERFORMANCE.md): algorithm bandwidth times `factor`. GB/s are 10^9 bytes a second.

Between domains
    Ring: the data crosses the NICs of a domain once each way, so the bus bandwidth is that of all its NICs (RC-038).
    Hierarchical (also NCCL's NVLS tree): reduced within each domain first, then over m domains by rails. A NIC then carries
    2 (m-1)/m of its share of an all-reduce, so the bus bandwidth is NICs x m/(m-1) x (N-1)/N with N ranks in all.
    Two domains of eight GPUs with 8 NICs of 50 GB/s: 400 x 2 x 15/16 = 750 GB/s.
    All-to-all: each GPU sends (N - n)/N of its data through the NICs; the share of one GPU counts, not that of the domain.
Within a domain
    NVLink each way. With reduction in the NVSwitches (NVLS) an all-reduce gains a little: `NVLS_GAIN`. A hierarchical
    all-reduce of up to five servers of eight H100 is bound by NVLink, not by the NICs: over two servers it hides two dead NICs of
    eight. Send/recv by rails shows them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"]
Algorithm = Literal["ring", "hierarchical"]
Bound = Literal["NICs", "NVLink"]
OPERATIONS: tuple[Operation, ...] = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "send_recv",
)
ALGORITHMS: tuple[Algorithm, ...] = ("ring", "hierarchical")
NVLS_GAIN = 480 / 450
"""All-reduce within a domain over NVLink each way. H100: 476 GB/s is in the range expected (NVIDIA/nccl-tests issue 290), 450 GB/s
is the data sheet. Not confirmed for other generations. It is not SHARP of InfiniBand switches (ERR-36)."""


@dataclass(frozen=True)
class Ceiling:
    """Highest bus bandwidth, and what binds it."""

    busbw_gb_s: float
    bound_by: Bound


def factor(operation: Operation, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth, after nccl-tests' PERFORMANCE.md; 0 for a single rank, which moves nothing."""
    if ranks < 2:
        return 0.0
    share = (ranks - 1) / ranks
    return {"all_reduce": 2 * share, "broadcast": 1.0, "send_recv": 1.0}.get(operation, share)


def ceiling(
    operation: Operation, *, domains: int, gpus: int, nic_gb_s: float, nvlink_gb_s: float
) -> Mapping[Algorithm, Ceiling]:
    """The ceiling of each algorithm over `domains` NVLink domains of `gpus` GPUs.

    nic_gb_s: of one GPU's share of the NICs, each way. nvlink_gb_s: of one GPU, each way; 0 where there is no NVLink, and then
    nothing within a domain is known. Raises ValueError for less than one domain, GPU or NIC.
    """
    if domains < 1 or gpus < 1 or nic_gb_s <= 0 or nvlink_gb_s < 0:
        raise ValueError(
            f"no cluster: {domains} domains of {gpus} GPUs, NIC {nic_gb_s} GB/s, NVLink {nvlink_gb_s} GB/s"
        )
    gain = NVLS_GAIN if operation == "all_reduce" else 1.0
    nvlink = Ceiling(nvlink_gb_s * gain, "NVLink")
    if domains == 1:
        return dict.fromkeys(ALGORITHMS, nvlink)
    found: dict[Algorithm, Ceiling] = {}
    for algorithm in ALGORITHMS:
        nics = Ceiling(_between(operation, algorithm, domains, gpus, nic_gb_s), "NICs")
        found[algorithm] = min(nics, nvlink, key=lambda one: one.busbw_gb_s) if nvlink_gb_s else nics
    return found


def _between(operation: Operation, algorithm: Algorithm, domains: int, gpus: int, nic_gb_s: float) -> float:
    """What the NICs allow over at least two domains."""
    ranks, total = domains * gpus, gpus * nic_gb_s
    wider = domains / (domains - 1) * (ranks - 1) / ranks
    if operation == "send_recv":
        return nic_gb_s
    if operation == "all_to_all":
        return nic_gb_s * wider
    if operation == "broadcast" or algorithm == "ring":
        return total
    return total * wider
