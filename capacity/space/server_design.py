"""What a server model is made of, judged from the catalogue: PCIe lanes (S010), memory channels (S012), drives (S018).

Pure. Sources: RC-029 (lanes), RC-012 and ERR-44 (balanced memory), RC-018 and ERR-14 (local drives).
"""

from dataclasses import dataclass

from inventory.catalog import Board, DeviceType, Drives, Memory

LANES_PER_X16 = 16


@dataclass(frozen=True)
class LaneBudget:
    """Lanes of a board. `needed` by all devices, `processors` what the CPUs have, `used` what hangs on them;
    `oversubscription` of each kind of PCIe switch: lanes of its devices over its lanes to the processor.
    """

    needed: int
    processors: int
    used: int
    switches: int
    oversubscription: tuple[float, ...]

    @property
    def switches_needed(self) -> bool:
        """Whether the devices have more lanes than the processors (RC-029)."""
        return self.needed > self.processors

    @property
    def fits(self) -> bool:
        """Whether what hangs on the processors fits their lanes."""
        return self.used <= self.processors


def lanes_needed(gpus: int, nics: int, drives: int, per_drive: int = 4) -> int:
    """Lanes of GPUs and NICs at x16 and of drives at x4."""
    return (gpus + nics) * LANES_PER_X16 + drives * per_drive


def lane_budget(board: Board, cpus: int) -> LaneBudget:
    """The lane budget of a board with so many processors."""
    behind = sum(switch.count * sum(switch.down.values()) for switch in board.switches)
    up = sum(switch.count * switch.up_lanes for switch in board.switches)
    direct = sum(board.direct.values())
    return LaneBudget(
        needed=direct + behind,
        processors=cpus * board.cpu_lanes,
        used=direct + up,
        switches=sum(switch.count for switch in board.switches),
        oversubscription=tuple(round(sum(s.down.values()) / s.up_lanes, 3) for s in board.switches),
    )


def board_faults(model: DeviceType) -> list[str]:
    """What does not hold for a board, in words: lanes that do not exist, GPUs and NICs at less than x16."""
    board, parts = model.bringup.board, model.bringup
    if board is None:
        return [f"the catalogue has no lane map of {model.slug}"]
    budget = lane_budget(board, parts.cpus)
    faults = []
    if not budget.fits:
        faults.append(f"{budget.used} lanes on processors that have {budget.processors}")
    for device, count in (("gpu", parts.gpus), ("nic", len(parts.fabric_ports))):
        want = count * LANES_PER_X16
        if device not in board.coherent and board.lanes(device) < want:
            faults.append(f"{board.lanes(device)} lanes for {count} {device}s, {want} needed at x16")
    return faults


def memory_faults(memory: Memory, cpus: int, installed_gib: float) -> list[str]:
    """What is unbalanced: modules that do not fill every channel alike, or do not add up to what is installed (ERR-44)."""
    faults = []
    channels = cpus * memory.channels
    total = memory.dimms * memory.dimm_gib
    if not memory.soldered:
        if memory.dimms % channels:
            whole = [gib / memory.dimm_gib for gib in balanced_gib(memory, cpus)]
            near = [n for n in whole if abs(n - memory.dimms) < channels] or whole[-1:]
            fits = " or ".join(f"{n:g}" for n in near)
            faults.append(f"{memory.dimms} modules on {channels} channels leave channels unequal: take {fits}")
        elif memory.dimms // channels > memory.per_channel:
            faults.append(f"{memory.dimms // channels} modules a channel, and the board has {memory.per_channel} slots")
    if abs(total - installed_gib) > 1e-6:
        faults.append(
            f"{memory.dimms} modules of {memory.dimm_gib:g} GiB are {total:g} GiB, the entry says {installed_gib:g}"
        )
    return faults


def balanced_gib(memory: Memory, cpus: int) -> list[float]:
    """Capacities that fill every channel alike, in GiB: one module a channel up to all slots of the board."""
    return [n * memory.channels * cpus * memory.dimm_gib for n in range(1, memory.per_channel + 1)]


def usable_tb(drives: Drives) -> float:
    """Usable capacity of the drives of a server by their RAID level, TB (RC-018)."""
    n, each = drives.count, drives.tb
    return {"0": n * each, "1": each, "5": (n - 1) * each, "10": n * each / 2}[drives.raid]


def endurance_tb_per_day(drives: Drives) -> float:
    """Data that may be written to the array a day over the warranty, TB: mirrors write twice, RAID 5 its parity too."""
    raw = drives.count * drives.tb * drives.dwpd
    return raw * usable_tb(drives) / (drives.count * drives.tb)


def checkpoint_tb_per_day(checkpoint_tb: float, servers: int, interval_min: float) -> float:
    """What each server writes a day when all share the checkpoint of one job and write it locally first (ERR-14)."""
    return checkpoint_tb / servers * 24 * 60 / interval_min


def drive_faults(drives: Drives) -> list[str]:
    """Numbers of drives that a RAID level cannot be made of."""
    least = {"0": 1, "1": 2, "5": 3, "10": 4}[drives.raid]
    if drives.count < least or (drives.raid == "10" and drives.count % 2) or (drives.raid == "1" and drives.count != 2):
        return [f"RAID {drives.raid} of {drives.count} drives"]
    return []
