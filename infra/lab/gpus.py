"""The GPUs of a node as hardware: one state file per GPU, which the node's libnvidia-ml.so.1 reads (nvml/nvml.c).

    state = factory(gpu, model)          what a new GPU says, {key: value}
    write(folder, [gpu, ...], model)     all files of a node, and its device files
    change(folder, index, keys, events)  set keys, append events; the library sees it at once
    restore(folder, gpu, model)          as new, events forgotten

The folder is the node's hardware: it outlives power cuts and new installations, and the node sees it read-only. Values
that the catalogue knows come from there. The others (temperatures, clocks, idle power) are plausible, measured on nothing.
"""

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from infra.lab.spec import Gpu, GpuModel

STATE, DEVICES = "gpu", "dev"
IN_NODE = "/run/bringup-lab-hardware/gpu"
"""Where the node's library looks for the state files."""
MARKER = "SIMULATED "
GIB = 1 << 30
DEVICE_MAJOR, CONTROL_MINOR = 195, 255  # Linux Documentation/admin-guide/devices.txt, "Nvidia graphics devices"
BRAND_NVIDIA = 14  # nvml.h: NVML_BRAND_NVIDIA
ARCHITECTURE_HOPPER = 9  # nvml.h: NVML_DEVICE_ARCH_HOPPER
H100_PCI_ID = 0x233010DE  # pci.ids: 10de 2330, GH100 [H100 SXM5 80GB]
NVLINK_VERSION_4 = 6  # nvml.h: NVML_NVLINK_VERSION_4_0
PCIE_ERROR_FIELDS = range(173, 184)  # nvml.h: NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS to …_LANE_ERROR
IDLE = 0x1  # nvml.h: nvmlClocksEventReasonGpuIdle
ALL_REASONS = 0x1FF
DEFAULT_LINK_SPEED_MBPS = 26562  # what nvidia-smi nvlink -s shows for a link of an H100: 26.562 GB/s

Value = int | str


def factory(gpu: Gpu, model: GpuModel) -> dict[str, Value]:
    """The state of a healthy, idle GPU that has just been delivered. Key names are those of nvml/nvml.c."""
    power_mw = round(model.tdp_w * 1000)
    keys: dict[str, Value] = {
        "name": MARKER + model.name,
        "serial": gpu.serial,
        "uuid": gpu.uuid,
        "vbios": gpu.vbios,
        "inforom": gpu.inforom,
        "part_number": "SIM-0000-000",
        "minor": gpu.index,
        "module_id": gpu.slot,
        "brand": BRAND_NVIDIA,
        "architecture": ARCHITECTURE_HOPPER,
        "cuda_capability.major": 9,
        "cuda_capability.minor": 0,
        "pci.bus_id": gpu.pci_bus_id,
        "pci.device_id": H100_PCI_ID,
        "memory.total": round(model.memory_gib * GIB),
        "memory.reserved": GIB // 2,
        "memory.used": 0,
        "utilization.gpu": 0,
        "utilization.memory": 0,
        "temperature.gpu": 32 + gpu.index % 4,
        "temperature.memory": 41,
        "temperature.threshold.shutdown": 95,
        "temperature.threshold.slowdown": 92,
        "temperature.threshold.mem_max": 95,
        "temperature.threshold.gpu_max": 87,
        "pstate": 0,
        "power.usage_mw": power_mw // 10 + 350 * gpu.index,
        "power.limit_mw": power_mw,
        "power.default_limit_mw": power_mw,
        "power.enforced_limit_mw": power_mw,
        "power.min_limit_mw": power_mw // 4,
        "power.max_limit_mw": power_mw,
        "power.energy_mj": 0,
        "clock.event_reasons": IDLE,
        "clock.event_reasons.supported": ALL_REASONS,
        "compute_mode": 0,
        "mig.current": 0,
        "mig.pending": 0,
        "pcie.gen": model.pcie_gen,
        "pcie.max_gen": model.pcie_gen,
        "pcie.width": model.pcie_width,
        "pcie.max_width": model.pcie_width,
        "pcie.replay": 0,
        **{f"field.{number}": 0 for number in PCIE_ERROR_FIELDS},
        "ecc.current": 1,
        "ecc.pending": 1,
        "recovery_action": 0,
        "nvlink.count": model.nvlinks,
        "nvlink.state": 1,
        "nvlink.version": NVLINK_VERSION_4,
        "nvlink.speed_mbps": DEFAULT_LINK_SPEED_MBPS,
    }
    for counter in ("volatile", "aggregate"):
        keys |= {
            f"ecc.{kind}.{counter}.{place}": 0 for kind in ("corrected", "uncorrected") for place in ("dram", "sram")
        }
    for domain, mhz in (("graphics", 1980), ("sm", 1980), ("memory", 2619), ("video", 1545)):
        keys |= {f"clock.{domain}": mhz, f"clock.max.{domain}": mhz}
    keys |= {f"remap.{kind}": 0 for kind in ("corrected", "uncorrected", "pending", "failed")}
    keys |= {f"remap.banks.{rest}": 640 if rest == "max" else 0 for rest in ("max", "high", "partial", "low", "none")}
    keys |= {f"nvlink.error.{kind}": 0 for kind in ("replay", "recovery", "crc_flit", "crc_data", "ecc_data")}
    return keys


def write(folder: Path, gpus: Iterable[Gpu], model: GpuModel) -> None:
    """Create the state files below `folder`/gpu and the device files nvidia<N> and nvidiactl below `folder`/dev."""
    for name in (STATE, DEVICES):
        (folder / name).mkdir(parents=True)
    minors = {"nvidiactl": CONTROL_MINOR}
    for gpu in gpus:
        restore(folder, gpu, model)
        minors[f"nvidia{gpu.index}"] = gpu.index
    for name, minor in minors.items():
        path = folder / DEVICES / name
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(DEVICE_MAJOR, minor))
        path.chmod(0o666)


def restore(folder: Path, gpu: Gpu, model: GpuModel) -> None:
    """Put a GPU back into its factory state."""
    _replace(folder / STATE / f"gpu{gpu.index}", [f"{key}={value}" for key, value in factory(gpu, model).items()])


def change(folder: Path, index: int, keys: Mapping[str, Value], events: Sequence[str] = ()) -> None:
    """Set keys of GPU `index` and append event lines such as 'xid=79'."""
    path = folder / STATE / f"gpu{index}"
    kept = [line for line in path.read_text().splitlines() if line.partition("=")[0] not in keys]
    _replace(path, [*kept, *(f"{key}={value}" for key, value in keys.items()), *events])


def remove(folder: Path, index: int, keys: Iterable[str]) -> None:
    """Take keys of GPU `index` away."""
    path, gone = folder / STATE / f"gpu{index}", set(keys)
    _replace(path, [line for line in path.read_text().splitlines() if line.partition("=")[0] not in gone])


def read(folder: Path, index: int) -> dict[str, str]:
    """Keys of GPU `index`; of events only the last of each kind."""
    pairs = (line.partition("=") for line in (folder / STATE / f"gpu{index}").read_text().splitlines())
    return {key: value for key, _, value in pairs}


def _replace(path: Path, lines: Sequence[str]) -> None:
    """In one step, so that a reader never sees half a file."""
    new = path.with_suffix(".new")
    new.write_text("".join(f"{line}\n" for line in lines))
    new.rename(path)


def node_options(folder: Path, gpus: Iterable[Gpu]) -> list[str]:
    """systemd-nspawn's options that put the GPUs of `folder` into a node."""
    names = ["nvidiactl", *(f"nvidia{gpu.index}" for gpu in gpus)]
    return [
        f"--bind-ro={folder / STATE}:{IN_NODE}",
        *(f"--bind={folder / DEVICES / name}:/dev/{name}" for name in names),
    ]
