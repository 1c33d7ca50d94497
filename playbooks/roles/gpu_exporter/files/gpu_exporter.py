#!/usr/bin/env python3
"""Prometheus exporter for NVIDIA GPUs over NVML, with DCGM's field names.

    gpu_exporter.py --listen 10.0.1.11:9400

Names, units and meaning of DCGM_FI_* are those of NVIDIA's DCGM (dcgm_fields.h) as dcgm-exporter presents them, labels too:
gpu (index), UUID, pci_bus_id, device, modelName; and serial. Beside them:
    bringup_gpu_library_up{reason}     1, or 0 with NVML's error (LibraryNotFound, DriverNotLoaded, no answer …)
    bringup_gpu_lost{gpu, …}           1 when NVML says that the GPU has fallen off the bus
    bringup_gpu_collection_seconds     how long reading all GPUs took
    process_cpu_seconds_total          what the exporter itself has cost
A field that a GPU does not support is left out for it. NVML calls can hang together with their driver: they run in one thread
of their own, and a scrape that it does not answer in time is told so. Nothing is changed on a GPU.
"""

import argparse
import http.server
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

SCRAPE_BUDGET_S = 4.0
"""How long a scrape waits for NVML; below the shortest scrape interval that makes sense (5 s)."""
EVENT_WAIT_MS = 1000
XID_MEMORY_S = 600.0
"""DCGM_FI_DEV_XID_ERRORS shows the last XID for ten minutes: long enough for every alert, short enough to clear."""
REGISTER_AGAIN_S = 10.0
MIB = 1 << 20

Labels = dict[str, str]
Sample = tuple[Labels, float]


@dataclass(frozen=True)
class Field:
    """One DCGM field: how it is read from a device handle, with the `pynvml` module in hand."""

    name: str
    kind: str
    text: str
    read: Callable[[Any, Any], float]


def memory_temperature(nvml: Any, gpu: Any) -> float:
    (value,) = nvml.nvmlDeviceGetFieldValues(gpu, [nvml.NVML_FI_DEV_MEMORY_TEMP])
    if value.nvmlReturn != nvml.NVML_SUCCESS:
        raise nvml.NVMLError(value.nvmlReturn)
    return float(value.value.uiVal)


def ecc(kind: str) -> Callable[[Any, Any], float]:
    def read(nvml: Any, gpu: Any) -> float:
        return float(nvml.nvmlDeviceGetTotalEccErrors(gpu, getattr(nvml, kind), nvml.NVML_VOLATILE_ECC))

    return read


def remapped(index: int) -> Callable[[Any, Any], float]:
    """Of nvmlDeviceGetRemappedRows: 0 correctable, 1 uncorrectable, 2 pending, 3 failure."""
    return lambda nvml, gpu: float(nvml.nvmlDeviceGetRemappedRows(gpu)[index])


def nvlink_errors(counter: str) -> Callable[[Any, Any], float]:
    """Sum of an error counter over the active NVLinks; NotSupported where the GPU has none."""

    def read(nvml: Any, gpu: Any) -> float:
        total, links = 0, 0
        for link in range(nvml.NVML_NVLINK_MAX_LINKS):
            try:
                if not nvml.nvmlDeviceGetNvLinkState(gpu, link):
                    continue
                total += nvml.nvmlDeviceGetNvLinkErrorCounter(gpu, link, getattr(nvml, counter))
            except (nvml.NVMLError_InvalidArgument, nvml.NVMLError_NotSupported):
                break
            links += 1
        if not links:
            raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
        return float(total)

    return read


GAUGE, COUNTER = "gauge", "counter"
FIELDS = (
    Field(
        "DCGM_FI_DEV_SM_CLOCK",
        GAUGE,
        "SM clock, MHz.",
        lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),
    ),
    Field(
        "DCGM_FI_DEV_MEM_CLOCK",
        GAUGE,
        "Memory clock, MHz.",
        lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM),
    ),
    Field(
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
        GAUGE,
        "Why the clocks are low, bits of nvmlClocksEventReasons.",
        lambda nvml, gpu: nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu),
    ),
    Field("DCGM_FI_DEV_MEMORY_TEMP", GAUGE, "Memory temperature, degrees Celsius.", memory_temperature),
    Field(
        "DCGM_FI_DEV_GPU_TEMP",
        GAUGE,
        "GPU temperature, degrees Celsius.",
        lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
    ),
    Field("DCGM_FI_DEV_POWER_USAGE", GAUGE, "Power, W.", lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000),
    Field(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        COUNTER,
        "Energy since the driver was loaded, mJ.",
        lambda nvml, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu),
    ),
    Field(
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        COUNTER,
        "PCIe replays.",
        lambda nvml, gpu: nvml.nvmlDeviceGetPcieReplayCounter(gpu),
    ),
    Field(
        "DCGM_FI_DEV_GPU_UTIL",
        GAUGE,
        "Share of time with any kernel on the GPU, %; says nothing about how busy it was.",
        lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
    ),
    Field(
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        GAUGE,
        "Share of time with memory traffic, %.",
        lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).memory,
    ),
    Field(
        "DCGM_FI_DEV_FB_FREE",
        GAUGE,
        "Free frame buffer, MiB.",
        lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).free / MIB,
    ),
    Field(
        "DCGM_FI_DEV_FB_USED",
        GAUGE,
        "Used frame buffer, MiB.",
        lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).used / MIB,
    ),
    Field(
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        COUNTER,
        "Corrected memory errors since the driver was loaded.",
        ecc("NVML_MEMORY_ERROR_TYPE_CORRECTED"),
    ),
    Field(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        COUNTER,
        "Uncorrected memory errors since the driver was loaded.",
        ecc("NVML_MEMORY_ERROR_TYPE_UNCORRECTED"),
    ),
    Field("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", COUNTER, "Rows remapped after corrected errors.", remapped(0)),
    Field("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", COUNTER, "Rows remapped after uncorrected errors.", remapped(1)),
    Field("DCGM_FI_DEV_ROW_REMAP_PENDING", GAUGE, "1: a row is remapped at the next reset.", remapped(2)),
    Field("DCGM_FI_DEV_ROW_REMAP_FAILURE", GAUGE, "1: a row could not be remapped.", remapped(3)),
    Field(
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        COUNTER,
        "NVLink CRC errors, all links.",
        nvlink_errors("NVML_NVLINK_ERROR_DL_CRC_FLIT"),
    ),
    Field(
        "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
        COUNTER,
        "NVLink replays, all links.",
        nvlink_errors("NVML_NVLINK_ERROR_DL_REPLAY"),
    ),
    Field(
        "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
        COUNTER,
        "NVLink recoveries, all links.",
        nvlink_errors("NVML_NVLINK_ERROR_DL_RECOVERY"),
    ),
)
XID = Field("DCGM_FI_DEV_XID_ERRORS", GAUGE, "The last XID within ten minutes, else 0.", lambda nvml, gpu: 0)
LOST = Field("bringup_gpu_lost", GAUGE, "1: the GPU has fallen off the bus.", lambda nvml, gpu: 0)


@dataclass
class Collected:
    """Samples by field name; `reason` says why there are none."""

    reason: str = ""
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, name: str, labels: Labels, value: float) -> None:
        self.samples.setdefault(name, []).append((labels, float(value)))


class Reader:
    """Reads all GPUs through `nvml` (the pynvml module). Remembers what lost GPUs were called, and recent XIDs."""

    def __init__(self, nvml: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self.nvml, self.clock = nvml, clock
        self.names: dict[int, Labels] = {}
        self.xids: dict[str, tuple[int, float]] = {}

    def collect(self) -> Collected:
        """Everything that can be read now; never raises for what NVML says."""
        began, found = self.clock(), Collected()
        try:
            self.nvml.nvmlInit()
            count = self.nvml.nvmlDeviceGetCount()
        except self.nvml.NVMLError as error:
            return Collected(reason=short(error))
        try:
            for index in range(max(count, len(self.names))):
                self._read(index, found)
        finally:
            self.nvml.nvmlShutdown()
        found.seconds = self.clock() - began
        return found

    def _read(self, index: int, found: Collected) -> None:
        nvml = self.nvml
        try:
            gpu = nvml.nvmlDeviceGetHandleByIndex(index)
            labels = self.names[index] = identity(nvml, gpu, index)
        except (nvml.NVMLError_GpuIsLost, nvml.NVMLError_NotFound, nvml.NVMLError_InvalidArgument):
            found.add(LOST.name, self.names.get(index, {"gpu": str(index)}), 1)
            return
        except nvml.NVMLError as error:
            found.reason = found.reason or short(error)
            return
        lost = 0
        for one in FIELDS:
            try:
                found.add(one.name, labels, one.read(nvml, gpu))
            except nvml.NVMLError_GpuIsLost:
                lost = 1
                break
            except nvml.NVMLError:  # this GPU or driver does not have the field: it is left out
                continue
        found.add(LOST.name, labels, lost)
        if not lost:
            xid, seen = self.xids.get(labels["UUID"], (0, 0.0))
            found.add(XID.name, labels, xid if self.clock() - seen < XID_MEMORY_S else 0)

    def watch(self) -> None:
        """Wait for XID events of all GPUs, for ever. Registers again where the driver or a GPU has gone."""
        nvml = self.nvml
        while True:
            try:
                nvml.nvmlInit()
                try:
                    self._wait(nvml)
                finally:
                    nvml.nvmlShutdown()
            except nvml.NVMLError:  # no driver yet, a lost GPU: the scrape tells
                time.sleep(REGISTER_AGAIN_S)

    def _wait(self, nvml: Any) -> None:
        events = nvml.nvmlEventSetCreate()
        until = self.clock() + REGISTER_AGAIN_S  # a GPU that comes back is registered within that time
        try:
            for index in range(nvml.nvmlDeviceGetCount()):
                try:
                    nvml.nvmlDeviceRegisterEvents(
                        nvml.nvmlDeviceGetHandleByIndex(index), nvml.nvmlEventTypeXidCriticalError, events
                    )
                except nvml.NVMLError:  # lost, or without events: the others go on
                    continue
            while self.clock() < until:
                try:
                    event = nvml.nvmlEventSetWait_v2(events, EVENT_WAIT_MS)
                except nvml.NVMLError_Timeout:
                    continue
                uuid = nvml.nvmlDeviceGetUUID(event.device)
                self.xids[uuid] = (int(event.eventData), self.clock())
        finally:
            nvml.nvmlEventSetFree(events)


def identity(nvml: Any, gpu: Any, index: int) -> Labels:
    """Labels of a GPU."""
    labels = {
        "gpu": str(index),
        "UUID": nvml.nvmlDeviceGetUUID(gpu),
        "pci_bus_id": nvml.nvmlDeviceGetPciInfo(gpu).busId,
        "device": f"nvidia{nvml.nvmlDeviceGetMinorNumber(gpu)}",
        "modelName": nvml.nvmlDeviceGetName(gpu),
    }
    try:
        labels["serial"] = nvml.nvmlDeviceGetSerial(gpu)
    except nvml.NVMLError:  # boards without a serial number in their InfoROM
        labels["serial"] = ""
    return {key: value.decode() if isinstance(value, bytes) else str(value) for key, value in labels.items()}


def short(error: Exception) -> str:
    """'DriverNotLoaded' of NVMLError_DriverNotLoaded."""
    return type(error).__name__.removeprefix("NVMLError_")


class Worker:
    """Runs `collect` in one thread, so that a hanging driver holds that thread and nothing else."""

    def __init__(self, collect: Callable[[], Collected], budget_s: float = SCRAPE_BUDGET_S) -> None:
        self.collect, self.budget_s = collect, budget_s
        self.ask, self.done, self.scraping = threading.Event(), threading.Event(), threading.Lock()
        self.found = Collected(reason="no answer")
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self.ask.wait()
            self.ask.clear()
            try:
                self.found = self.collect()
            except Exception as error:  # noqa: BLE001  a fault of ours must show in the metrics, and the next scrape tries again
                traceback.print_exc()  # for the journal; the metrics have room for a name only
                self.found = Collected(reason=type(error).__name__)
            self.done.set()

    def scrape(self) -> Collected:
        """Fresh samples, or reason 'no answer' when NVML does not answer within the budget."""
        with self.scraping:
            self.done.clear()
            self.ask.set()
            return self.found if self.done.wait(self.budget_s) else Collected(reason="no answer")


def render(found: Collected) -> str:
    """The samples in Prometheus' text format."""
    reason = {"reason": found.reason}
    lines = list(family("bringup_gpu_library_up", GAUGE, "1: NVML answers.", [(reason, float(not found.reason))]))
    lines += family("bringup_gpu_collection_seconds", GAUGE, "Time to read all GPUs.", [({}, found.seconds)])
    lines += family("process_cpu_seconds_total", COUNTER, "CPU time of the exporter.", [({}, time.process_time())])
    for one in (*FIELDS, XID, LOST):
        if one.name in found.samples:
            lines += family(one.name, one.kind, one.text, found.samples[one.name])
    return "\n".join(lines) + "\n"


def family(name: str, kind: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        inner = ",".join(f'{key}="{escaped(one)}"' for key, one in labels.items())
        yield f"{name}{{{inner}}} {value:.15g}" if inner else f"{name} {value:.15g}"


def escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def handler(worker: Worker) -> type[http.server.BaseHTTPRequestHandler]:
    """Request handler of /metrics."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/metrics":
                self.send_error(404, "metrics are at /metrics")
                return
            body = render(worker.scrape()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """One line a scrape would fill the journal."""

    return Handler


def main() -> None:
    import pynvml

    parser = argparse.ArgumentParser(description="NVIDIA GPUs over NVML, with DCGM's field names")
    parser.add_argument("--listen", required=True, metavar="ADDRESS:PORT")
    address, _, port = parser.parse_args().listen.rpartition(":")
    reader = Reader(pynvml)
    threading.Thread(target=reader.watch, daemon=True).start()
    http.server.ThreadingHTTPServer((address, int(port)), handler(Worker(reader.collect))).serve_forever()


if __name__ == "__main__":
    main()
