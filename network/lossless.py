"""Lossless Ethernet for RoCEv2: headroom of a port, the fill level at which it pauses its peer, and the ECN thresholds below it.
PFC is what loses nothing; ECN only makes pauses rare (ERR-13).

    chip = chips()["nvidia-sn5600"]
    headroom = headroom_bytes(400, 10.0, 9216, chip)      # 228352
    xoff = xoff_bytes(chip.buffer_bytes, 128, 128 * headroom)
    ecn = ecn_thresholds(bandwidth_delay_bytes(400, rtt_ns(3, 38.0, chip, 1000)), xoff, 9216)

Plain numbers in and out; figures of chips come from lossless.yaml, which names a source for each.

Headroom
    What still arrives after a port has decided to pause its peer. After SONiC's dynamic headroom calculation
    (sonic-net/sonic-swss, cfgmgr/buffer_headroom_mellanox.lua), which follows IEEE 802.1Qbb annex O:

        cells x (MTU that delays the pause frame + bytes in flight both ways + MAC and PHY + response of the peer) + MTU

    The last term is the frame that the peer has just begun. `cells` is the memory that a frame of 64 bytes takes over its
    length: all traffic is assumed to be such frames. The response of the peer is the pause time limit of IEEE 802.3 31B.3.7.
    Bytes in flight: 2 x length x rate / 1.98e8 m/s.
XOFF
    Fill level of a port's lossless queue at which it pauses, when all ports are congested at once and share what the headrooms
    leave: (buffer - sum of headrooms) / ports. Zhu et al., "Congestion Control for Large-Scale RDMA Deployments" (DCQCN),
    SIGCOMM 2015, section 4, for one lossless class.
ECN
    Marking begins at one bandwidth-delay product of the longest path and is certain at four of them: Li et al., "HPCC",
    SIGCOMM 2019, section 5.1, has this ratio for DCQCN (100 KB and 400 KB at 25 Gb/s). It ends one MTU below XOFF at the latest,
    since a queue that pauses before it marks never tells the sender (DCQCN, section 4).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from inventory.yaml_data import read_data

FIBRE_M_S = 1.98e8
"""Speed of a signal in fibre (SONiC's headroom calculation has the same figure)."""
QUANTUM_BYTES = 64
"""A pause quantum: 512 bit times."""
SMALLEST_FRAME = 64
KIB = 1024
ECN_SPREAD = 4
"""Upper over lower ECN threshold (module docstring)."""

CongestionControl = Literal["dcqcn", "pfc_only", "spectrum_x"]
LoadBalancing = Literal["ecmp", "dynamic", "adaptive"]


@dataclass(frozen=True)
class Chip:
    """Figures of a switch chip: bytes, and nanoseconds through the switch."""

    buffer_bytes: int
    cell_bytes: int
    mac_phy_bytes: int
    switch_ns: int
    sources: Mapping[str, str]


@dataclass(frozen=True)
class Intent:
    """What the lossless class of a fabric shall be, whatever system the switches run.

    Packets with `dscp` have PFC priority `priority` and egress queue `traffic_class`, which gets `share_pct` of a congested port;
    congestion notifications (`cnp_dscp`) have a queue of their own that is served first. The rest goes to queue 0.
    """

    congestion_control: CongestionControl
    load_balancing: LoadBalancing
    mtu: int
    dscp: int
    priority: int
    traffic_class: int
    cnp_dscp: int
    cnp_class: int
    share_pct: int
    watchdog_ms: int

    @property
    def marks(self) -> bool:
        """Whether switches mark packets (ECN)."""
        return self.congestion_control != "pfc_only"


@dataclass(frozen=True)
class Ecn:
    """Queue lengths in bytes: marking begins at `minimum`, `probability_pct` of packets are marked at `maximum`."""

    minimum: int
    maximum: int
    probability_pct: int


@cache
def _data() -> Mapping[str, object]:
    data: Mapping[str, object] = read_data(Path(__file__).with_suffix(".yaml"))
    return data


@cache
def chips() -> Mapping[str, Chip]:
    """{slug of a switch model: figures of its chip}; a model without figures is absent."""
    switches = _data()["switches"]
    assert isinstance(switches, dict)
    return {slug: Chip(**figures) for slug, figures in switches.items()}


def nic_ns() -> int:
    """Nanoseconds through an adapter, from wire to wire."""
    value = _data()["nic_ns"]
    assert isinstance(value, int)
    return value


def pause_bytes(rate_gbps: float) -> int:
    """Bytes that a peer may send after a pause frame has reached it; of the next higher rate where this one is not listed.

    Raises ValueError above the highest listed rate.
    """
    quanta = _data()["pause_quanta"]
    assert isinstance(quanta, dict)
    listed = [rate for rate in sorted(quanta) if rate >= rate_gbps]
    if not listed:
        raise ValueError(f"{rate_gbps:g} Gb/s: no pause response listed above {max(quanta)} Gb/s")
    return int(quanta[listed[0]]) * QUANTUM_BYTES


def in_flight_bytes(rate_gbps: float, length_m: float) -> float:
    """Bytes on a cable of `length_m` metres, both ways together."""
    return 2 * length_m / FIBRE_M_S * rate_gbps * 1e9 / 8


def cell_factor(cell_bytes: int) -> float:
    """Most memory over length of a frame: of one with 64 bytes, or of one that is a byte longer than a cell."""
    if cell_bytes > 2 * SMALLEST_FRAME:
        return cell_bytes / SMALLEST_FRAME
    return 2 * cell_bytes / (1 + cell_bytes)


def headroom_bytes(rate_gbps: float, length_m: float, mtu: int, chip: Chip) -> int:
    """Headroom of one port and one lossless class, in whole KiB (formula: module docstring)."""
    late = mtu + in_flight_bytes(rate_gbps, length_m) + chip.mac_phy_bytes + pause_bytes(rate_gbps)
    return math.ceil((mtu + late * cell_factor(chip.cell_bytes)) / KIB) * KIB


def headrooms(
    rates_gbps: npt.NDArray[np.float64], lengths_m: npt.NDArray[np.float64], mtu: int, chip: Chip
) -> npt.NDArray[np.int64]:
    """`headroom_bytes` of each port."""
    made = np.empty(len(rates_gbps), dtype=np.int64)
    for rate in np.unique(rates_gbps):
        at = rates_gbps == rate
        late = mtu + in_flight_bytes(float(rate), 1.0) * lengths_m[at] + chip.mac_phy_bytes + pause_bytes(float(rate))
        made[at] = np.ceil((mtu + late * cell_factor(chip.cell_bytes)) / KIB) * KIB
    return made


def xoff_bytes(buffer_bytes: int, ports: int, headroom_total: int) -> int:
    """Fill level at which each of `ports` congested ports pauses its peer; 0 where the headrooms take the whole buffer."""
    return max(0, (buffer_bytes - headroom_total) // max(ports, 1) // KIB * KIB)


def rtt_ns(hops: int, path_m: float, chip: Chip, nic: int) -> float:
    """Round trip through `hops` switches and `path_m` metres of cable one way, and one adapter at each end."""
    return 2 * (hops * chip.switch_ns + path_m / FIBRE_M_S * 1e9 + nic)


def bandwidth_delay_bytes(rate_gbps: float, rtt: float) -> float:
    """Bytes that a path holds: Gb/s times nanoseconds are bits."""
    return rate_gbps * rtt / 8


def ecn_thresholds(bandwidth_delay: float, xoff: int, mtu: int, probability_pct: int = 100) -> Ecn | None:
    """Thresholds in whole KiB below `xoff`; None where not even one MTU fits between marking and XOFF.

    Where one bandwidth-delay product does not fit below XOFF, marking begins at a quarter of what fits, and senders slow down
    before the path is full. A probability of 100 % at the upper threshold is the default of Cumulus Linux 5.16 (`nv show qos
    roce`).
    """
    most = (xoff - mtu) // KIB * KIB
    if most < max(mtu, ECN_SPREAD * KIB):
        return None
    least = math.ceil(bandwidth_delay / KIB) * KIB
    if least >= most:
        least = most // ECN_SPREAD // KIB * KIB
    return Ecn(least, min(ECN_SPREAD * least, most), probability_pct)
