"""What the GPUs of a node say of themselves through NVML: runs there under a Python that has nvidia-ml-py, prints one
JSON object.

The request, a JSON object as first argument: budget_s, the seconds that one GPU may take. Every GPU is asked by a process
of its own, which is killed when its time is up: a driver call that hangs cannot be ended otherwise, and one lost GPU must
not hide the seven others. Nothing is changed on the node.

    {"driver": "580.95.05", "nvml": "13.580.95.05", "cuda": "13.0", "count": 8,
     "error": "" or why there is nothing to ask, "error_kind": NVML's name of it (LibraryNotFound, DriverNotLoaded, Hang…),
     "device_files": ["nvidia0", …], "module": kernel module's version or "", "module_flavour": "open", "closed" or "",
     "fabric_manager": version or "", "nvswitches": number of NVSwitch devices, "nccl_conf": {key: value},
     "cuda_toolkits": {"13.0": version as its version.json has it}, "framework_cuda": that PyTorch was built for, or "",
     "container": kind of container that the node is, or "" for a machine of its own,
     "nics": {"mlx5_0": {"width", "max_width", "speed", "max_speed"}} of RDMA devices on PCIe, as the kernel has it,
     "held": packages that dpkg holds,
     "xids": [{"pci_bus_id", "xid", "text"}] of the kernel's log since boot, or null where it cannot be read,
     "devices": [{"index": 0, "error": "", "error_kind": "",
                  "name", "serial", "uuid", "pci_bus_id", "module_id", "minor", "vbios", "inforom", "part_number",
                  "persistence": bool, "mig": bool, "recovery_action": 0 none, 1 reset GPU, … (nvmlDeviceGpuRecoveryAction),
                  "memory": {"total_b", "used_b"}, "utilization_pct",
                  "ecc": {"enabled", "corrected", "uncorrected", "corrected_ever", "uncorrected_ever"},
                  "remapped_rows": {"corrected", "uncorrected", "pending", "failed"},
                  "clocks": {"sm_mhz", "memory_mhz", "max_sm_mhz", "max_memory_mhz", "reasons": ["gpu_idle", …]},
                  "power": {"draw_w", "limit_w", "default_limit_w", "energy_j"},
                  "temperature": {"gpu_c", "memory_c", "slowdown_c", "shutdown_c",
                                  "margin_c": left to its temperature limit (T.LIMIT), "slowdown_margin_c": where it slows down},
                  "pcie": {"generation", "width", "max_generation", "max_width", "replays",
                           "correctable", "non_fatal", "fatal"},  counts of errors since the driver was loaded
                  "nvlinks": {"up": number of links, "down": [link, …], "errors": {"7": {"replay": 900}} of links that count some},
                  "not_supported": ["mig", …]}]}

A value that the GPU does not have is null, and its name is in not_supported. Counters of ecc without "ever" are since the
driver was loaded. Units stand in the names.
"""

import functools
import importlib
import importlib.util
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEFAULT_BUDGET_S = 5.0
COMMAND_BUDGET_S = 5
KERNEL_LOG_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+),? ?(.*)")
REASONS = {  # nvml.h: nvmlClocksEventReason…
    "gpu_idle": 0x1,
    "applications_clocks": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake": 0x80,
    "display_clocks": 0x100,
}
RECOVERY_ACTION_FIELD = 230  # nvml.h: NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
MEMORY_TEMPERATURE_FIELD = 82  # nvml.h: NVML_FI_DEV_MEMORY_TEMP
SLOWDOWN_MARGIN_FIELD = 194  # nvml.h: NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT
NVLINK_ERRORS = {"replay": 0, "recovery": 1, "crc_flit": 2, "crc_data": 3}  # nvml.h: NVML_NVLINK_ERROR_DL_…
PCIE_ERROR_FIELDS = {"correctable": 173, "non_fatal": 179, "fatal": 180}  # nvml.h: NVML_FI_DEV_PCIE_COUNT_…
MAX_LINKS = 36  # nvml.h 13: NVML_NVLINK_MAX_LINKS


def names_of(bits: int) -> list[str]:
    """Names of the clock event reasons in a bit mask."""
    return [name for name, bit in REASONS.items() if bits & bit]


def apart_each(works: list[Callable[[], Any]], budget_s: float) -> list[dict[str, Any]]:
    """The result of each work, from a process of its own, all at the same time and with one budget: {"value": …}, or
    {"error", "error_kind"} (Hang when it had to be killed)."""
    started = []
    for work in works:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _answer(work, writer)
        os.close(writer)
        started.append((child, reader))
    end = time.monotonic() + budget_s
    return [_collect(child, reader, end, budget_s) for child, reader in started]


def _answer(work: Callable[[], Any], writer: int) -> None:
    """In the child: write the result and leave without the interpreter's farewell, which would flush shared buffers."""
    try:
        answer = {"value": work()}
    except Exception as error:  # noqa: BLE001  # whatever it is, the parent reports it by its name
        answer = {"error": str(error), "error_kind": type(error).__name__.removeprefix("NVMLError_")}
    try:
        data = json.dumps(answer).encode()
        while data:
            data = data[os.write(writer, data) :]
    finally:
        os._exit(0)


def _collect(child: int, reader: int, end: float, budget_s: float) -> dict[str, Any]:
    parts = []
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            break
        part = os.read(reader, 65536)
        if not part:
            break
        parts.append(part)
    os.close(reader)
    os.kill(child, signal.SIGKILL)
    text = b"".join(parts)
    if _reaped(child) and text:
        try:
            return json.loads(text)
        except ValueError:
            pass
    if text or time.monotonic() < end:
        return {"error": f"the process that asked died: {text[:80]!r}", "error_kind": "Garbage"}
    return {"error": f"no answer within {budget_s:g} s", "error_kind": "Hang"}


def _reaped(child: int) -> bool:
    """Whether the killed child is gone; one that hangs in the kernel cannot be, and is left behind."""
    for _ in range(20):
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.01)
    return False


def system() -> dict[str, Any]:
    """Versions and the number of GPUs."""
    import pynvml as nvml

    nvml.nvmlInit()
    cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
    return {
        "driver": nvml.nvmlSystemGetDriverVersion(),
        "nvml": nvml.nvmlSystemGetNVMLVersion(),
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}",
        "count": nvml.nvmlDeviceGetCount(),
    }


def device(index: int) -> dict[str, Any]:
    """Everything of one GPU. Raises NVMLError for a GPU that cannot be asked at all."""
    import pynvml as nvml

    nvml.nvmlInit()
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    missing: list[str] = []

    def ask(name: str, function: str, *arguments: Any) -> Any:
        try:
            return getattr(nvml, f"nvmlDeviceGet{function}")(handle, *arguments)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
            missing.append(name)
            return None

    def field(name: str, number: int) -> int | None:
        (value,) = nvml.nvmlDeviceGetFieldValues(handle, [number])
        if value.nvmlReturn in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_INVALID_ARGUMENT):  # or a driver too old
            missing.append(name)
            return None
        if value.nvmlReturn:
            raise nvml.NVMLError(value.nvmlReturn)
        return int(value.value.siVal if value.valueType == nvml.NVML_VALUE_TYPE_SIGNED_INT else value.value.uiVal)

    def links() -> dict[str, Any]:
        up, down, errors = 0, [], {}
        for link in range(MAX_LINKS):
            try:
                state = bool(nvml.nvmlDeviceGetNvLinkState(handle, link))
            except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
                break
            up += state
            down += [] if state else [link]
            counted = {name: ask("nvlink_errors", "NvLinkErrorCounter", link, n) for name, n in NVLINK_ERRORS.items()}
            if some := {name: count for name, count in counted.items() if count}:
                errors[str(link)] = some
        return {"up": up, "down": down, "errors": errors}

    pci = nvml.nvmlDeviceGetPciInfo(handle)
    memory = ask("memory", "MemoryInfo")
    ecc_mode, mig = ask("ecc", "EccMode"), ask("mig", "MigMode")
    rows = ask("remapped_rows", "RemappedRows")
    reasons = ask("clock_reasons", "CurrentClocksEventReasons")
    counters = {
        "corrected": (nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_VOLATILE_ECC),
        "uncorrected": (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC),
        "corrected_ever": (nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_AGGREGATE_ECC),
        "uncorrected_ever": (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_AGGREGATE_ECC),
    }
    utilization = ask("utilization", "UtilizationRates")
    answer = {
        "index": index,
        "name": nvml.nvmlDeviceGetName(handle),
        "serial": ask("serial", "Serial"),
        "uuid": nvml.nvmlDeviceGetUUID(handle),
        "pci_bus_id": pci.busId if isinstance(pci.busId, str) else pci.busId.decode(),
        "module_id": ask("module_id", "ModuleId"),
        "minor": ask("minor", "MinorNumber"),
        "vbios": ask("vbios", "VbiosVersion"),
        "inforom": ask("inforom", "InforomImageVersion"),
        "part_number": ask("part_number", "BoardPartNumber"),
        "persistence": truth(ask("persistence", "PersistenceMode")),
        "mig": truth(mig[0]) if mig else None,
        "recovery_action": field("recovery_action", RECOVERY_ACTION_FIELD),
        "memory": {"total_b": memory.total, "used_b": memory.used} if memory else None,
        "utilization_pct": utilization.gpu if utilization else None,
        "ecc": {
            "enabled": truth(ecc_mode[0]) if ecc_mode else None,
            **{name: ask(f"ecc_{name}", "TotalEccErrors", *which) for name, which in counters.items()},
        },
        "remapped_rows": dict(zip(("corrected", "uncorrected", "pending", "failed"), rows, strict=True))
        if rows
        else None,
        "clocks": {
            "sm_mhz": ask("sm_clock", "ClockInfo", nvml.NVML_CLOCK_SM),
            "memory_mhz": ask("memory_clock", "ClockInfo", nvml.NVML_CLOCK_MEM),
            "max_sm_mhz": ask("max_sm_clock", "MaxClockInfo", nvml.NVML_CLOCK_SM),
            "max_memory_mhz": ask("max_memory_clock", "MaxClockInfo", nvml.NVML_CLOCK_MEM),
            "reasons": None if reasons is None else names_of(reasons),
        },
        "power": {
            "draw_w": thousandth(ask("power", "PowerUsage")),
            "limit_w": thousandth(ask("power_limit", "EnforcedPowerLimit")),
            "default_limit_w": thousandth(ask("default_power_limit", "PowerManagementDefaultLimit")),
            "energy_j": thousandth(ask("energy", "TotalEnergyConsumption")),
        },
        "temperature": {
            "gpu_c": ask("temperature", "Temperature", nvml.NVML_TEMPERATURE_GPU),
            "memory_c": field("memory_temperature", MEMORY_TEMPERATURE_FIELD),
            "slowdown_c": ask("slowdown_temperature", "TemperatureThreshold", nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
            "shutdown_c": ask("shutdown_temperature", "TemperatureThreshold", nvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN),
            "margin_c": ask("temperature_margin", "MarginTemperature"),
            "slowdown_margin_c": field("slowdown_margin", SLOWDOWN_MARGIN_FIELD),
        },
        "pcie": {
            "generation": ask("pcie_generation", "CurrPcieLinkGeneration"),
            "width": ask("pcie_width", "CurrPcieLinkWidth"),
            "max_generation": ask("max_pcie_generation", "MaxPcieLinkGeneration"),
            "max_width": ask("max_pcie_width", "MaxPcieLinkWidth"),
            "replays": ask("pcie_replays", "PcieReplayCounter"),
            **{name: field(f"pcie_{name}", number) for name, number in PCIE_ERROR_FIELDS.items()},
        },
        "nvlinks": links(),
    }
    return {**answer, "not_supported": sorted(set(missing))}


def truth(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def thousandth(value: int | None) -> float | None:
    """Watts of milliwatts, joules of millijoules."""
    return None if value is None else value / 1000


def command(*argv: str) -> str | None:
    """Output of a command; None where it is not installed, fails or takes too long."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=COMMAND_BUDGET_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def kernel_xids(log: str) -> list[dict[str, Any]]:
    """XID errors in a kernel log."""
    found = (KERNEL_LOG_XID.search(line) for line in log.splitlines())
    return [{"pci_bus_id": one[1], "xid": int(one[2]), "text": one[3]} for one in found if one]


def text_of(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def framework_cuda() -> str:
    """The CUDA release that this Python's PyTorch was built for; its version file is read, as an import takes seconds."""
    spec = importlib.util.find_spec("torch")
    place = Path(spec.origin).with_name("version.py") if spec and spec.origin else None
    found = re.search(r"^cuda\b.*= '([0-9.]+)'", text_of(str(place)), re.MULTILINE) if place else None
    return found[1] if found else ""


def nics() -> dict[str, dict[str, str]]:
    """PCIe links of the RDMA devices."""
    names = {
        "width": "current_link_width",
        "max_width": "max_link_width",
        "speed": "current_link_speed",
        "max_speed": "max_link_speed",
    }
    return {
        path.name: {key: text_of(f"{path}/device/{file}") for key, file in names.items()}
        for path in sorted(Path("/sys/class/infiniband").glob("*"))
        if (path / "device" / "current_link_width").exists()
    }


def software() -> dict[str, Any]:
    """What is around the GPUs on this node."""
    kernel = command("journalctl", "-k", "-b", "-o", "cat", "--no-pager")
    module = text_of("/proc/driver/nvidia/version")
    version = re.search(r"(\d+\.\d+(?:\.\d+)?)", module)
    manager = re.search(r"(\d+\.\d+(?:\.\d+)?)", command("nv-fabricmanager", "--version") or "")
    toolkits = {}
    for path in Path("/usr/local").glob("cuda-*/version.json"):
        try:
            toolkits[path.parent.name.removeprefix("cuda-")] = str(json.loads(path.read_text())["cuda"]["version"])
        except (OSError, ValueError, KeyError) as error:
            toolkits[path.parent.name.removeprefix("cuda-")] = f"unreadable: {type(error).__name__}"
    settings = (line.partition("=") for line in text_of("/etc/nccl.conf").splitlines() if not line.startswith("#"))
    return {
        "device_files": sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*")),
        "module": version[1] if version else "",
        "module_flavour": "" if not module else "open" if "Open Kernel Module" in module else "closed",
        "fabric_manager": manager[1] if manager else "",
        "nvswitches": len(list(Path("/dev").glob("nvidia-nvswitch[0-9]*"))),
        "nccl_conf": {key.strip(): value.strip() for key, _, value in settings if key.strip()},
        "cuda_toolkits": toolkits,
        "framework_cuda": framework_cuda(),
        "container": (command("systemd-detect-virt", "--container") or "").strip(),
        "nics": nics(),
        "held": (command("apt-mark", "showhold") or "").split(),
        "xids": None if kernel is None or not kernel.strip() else kernel_xids(kernel),
    }


def main() -> None:
    request = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    budget_s = float(request.get("budget_s", DEFAULT_BUDGET_S))
    empty = {"driver": "", "nvml": "", "cuda": "", "count": 0}
    if importlib.util.find_spec("pynvml"):
        importlib.import_module("pynvml")  # once, not in each process; the library itself is loaded there
    (answer,) = apart_each([system], budget_s)
    found = answer.get("value", empty)
    works: list[Callable[[], Any]] = [functools.partial(device, index) for index in range(found["count"])]
    devices = [
        {"index": index, "error": one.get("error", ""), "error_kind": one.get("error_kind", ""), **one.get("value", {})}
        for index, one in enumerate(apart_each(works, budget_s))
    ]
    errors = {"error": answer.get("error", ""), "error_kind": answer.get("error_kind", "")}
    print(json.dumps({**empty, **found, **errors, **software(), "devices": devices}))


if __name__ == "__main__":
    main()
