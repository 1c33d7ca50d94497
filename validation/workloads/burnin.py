"""Burn-in: memory test and matrix products on every GPU of a node, or on its CPU where there is none.

    RANK=0 LOCAL_RANK=0 burnin.py --duration-s 172800 --part-s 3600 --results FOLDER

One process a GPU, as srun or torchrun starts them; the processes do not talk to each other, so that a GPU that is lost ends the
load of its own node only. Each rank first tests its memory: it fills 95 % of what is free with patterns (the address of each word,
walking ones and zeros, random words) and reads all of it back. Then it multiplies the same matrices over and over, one precision
after the other, on the tensor cores where there are some. The GPU never waits for the host between two products. Every product
must equal the first one of its precision bit for bit, and the first ones of all GPUs of a model must be equal: `digest`. Rank 0
samples the node's GPUs through NVML and listens for XID errors all the while.

Every rank keeps its results in FOLDER/rank-N.json, written anew each hour and at its end:

    {"schema_version", "host", "device": "cpu" or the GPU's name, "torch", "took_s", "phase",
     "ended": false while it runs; a rank that was killed leaves it so,
     "rank": {"rank", "device", "uuid", "rounds", "wrong_products", "wrong_words",
              "memory": {"total_b", "tested_b", "sets": how often all patterns were written and read,
                         "patterns": {name: wrong words}, "first_wrong": null or {"pattern", "offset_b"}},
              "precisions": {name: {"rounds", "wrong_products", "digest", "first_gflops", "last_gflops"}},
              "not_supported": [precisions that the device refuses],
              "error": '' or what ended its load},
     "watch": null but for rank 0: {
       "gpus": [{"uuid", "serial", "slot", "pci_bus_id", "samples", "max_c", "max_memory_c", "least_margin_c",
                 "watts": {phase: median}, "limit_w", "default_limit_w",
                 "pcie": {"generation", "width", "max_generation", "max_width"}: the least while it computed,
                 "reasons": {name: samples}, "uncorrected": new errors, "corrected": new errors,
                 "remapped": rows remapped meanwhile, "remap_pending", "remap_failed",
                 "nvlink": null without NVLink, else {"links", "least_up": links up, the most and the least that a sample saw,
                   "seconds" between the first and the last sample, "new": {counter of NVLINK_ERRORS: new errors of all links}},
                 "not_supported": [what the GPU does not tell], "error"}],
       "xids": [{"uuid", "xid"}], "telemetry_error": ""}}

FOLDER/samples.csv has every sample of every GPU as it was read (SAMPLE_COLUMNS).

Phases are memory, prepare and the precisions. first_gflops and last_gflops are the medians of the first and the last part (at
most a third of the run each), in units of 10^9 operations a second (2 n^3 for a product); null for a precision that never got
to one. A rank whose GPU does not finish a batch within --stall-s says so and ends itself. Standard library, torch and, where
there is one, nvidia-ml-py only, so that it can be copied to a node alone.
"""

import argparse
import hashlib
import json
import math
import os
import signal
import socket
import stat
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

os.environ.setdefault(
    "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
)  # one workspace on every GPU: the same algorithm, the same bits

import torch
from torch import Tensor

SCHEMA_VERSION = 3
REASONS = {  # nvml.h: nvmlClocksEventReason…
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake": 0x80,
}
MEMORY_TEMPERATURE_FIELD = 82  # nvml.h: NVML_FI_DEV_MEMORY_TEMP
MAX_LINKS = 36  # nvml.h 13: NVML_NVLINK_MAX_LINKS
NVLINK_ERRORS = {
    "replay": 0,
    "recovery": 1,
    "crc_flit": 2,
    "crc_data": 3,
}  # nvml.h: NVML_NVLINK_ERROR_DL_…, up to NVLink 4
NVLINK_FIELDS = {"recovery_failed": 214}  # nvml.h: NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS, from NVLink 5
ALL_LINKS = 0xFFFFFFFF
"""Scope of a field that sums over all links of a GPU (nvml.h: scopeId of NVLink 5's counters)."""
SAMPLE_COLUMNS = (
    "time_s",
    "uuid",
    "phase",
    "power_w",
    "sm_mhz",
    "memory_mhz",
    "gpu_c",
    "memory_c",
    "margin_c",
    "reasons",
    "corrected",
    "uncorrected",
    "remapped_rows",
    "pcie_generation",
    "pcie_width",
    "pcie_replays",
    "nvlinks_up",
    "nvlink_errors",
)
"""Of samples.csv: Unix time, what the load did, NVML's values; reasons in hexadecimal, empty where the GPU does not tell it."""
IDLE_PHASES = ("", "memory", "prepare", "end")
"""Phases in which no products are computed: a PCIe link may be slower then."""
EVENT_WAIT_MS = 200
GPU_PRECISIONS = ("bf16", "fp16", "tf32", "fp64", "int8", "fp8")
CPU_PRECISIONS = ("fp32", "fp64")
CPU_SIZE, GPU_SIZE, SMALL_GPU_SIZE = 256, 16384, 8192
"""Rows of the matrices. Comparing a product moves 2 n^2 values, computing it takes 2 n^3 operations: the larger, the less of the
time goes to the comparison."""
SMALL_GPU_B = 40 << 30
"""Less memory than this does not hold the large matrices of all precisions at once (15 GB) with room to spare."""
CPU_BUFFER_B = 1 << 20
MEMORY_SHARE = 0.1
"""Of the duration, for the memory test; the patterns are written and read once at least."""
TESTED_SHARE = 0.95
"""Of the free memory."""
CHUNK_B = 256 << 20
WORD_B = 8
SLOT_S = 600.0
"""Longest time on one precision before the next has its turn."""
BATCH_S = 0.5
"""Length of the batches that the host hands to the GPU; one more is always queued."""
TELEMETRY_END_S = 10
ERROR_CHARACTERS = 250
"""Of a CUDA error: what happened. Advice for programmers follows."""
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


# ---- memory ----------------------------------------------------------------------------------------------------------
Pattern = tuple[str, Callable[[int, Tensor], None]]
"""Name, and what writes it into a chunk whose first word has this number."""


def patterns(seed: int) -> Iterator[Pattern]:
    """All patterns: the number of each word (an address line that is stuck shows), a single one and a single zero that walk
    through the bits, and random words."""

    def address(first: int, chunk: Tensor) -> None:
        torch.arange(first, first + len(chunk), out=chunk)

    def fill(value: int) -> Callable[[int, Tensor], None]:
        def written(_: int, chunk: Tensor) -> None:
            chunk.fill_(value)

        return written

    def random(first: int, chunk: Tensor) -> None:
        source = torch.Generator(chunk.device).manual_seed(seed + first)
        chunk.random_(generator=source)

    yield "address", address
    for bit in range(64):
        one = -(1 << 63) if bit == 63 else 1 << bit
        yield "walking ones", fill(one)
        yield "walking zeros", fill(~one)
    yield "random", random


def chunks(buffer: Tensor) -> Iterator[tuple[int, Tensor]]:
    """(number of its first word, view) of each part of the buffer."""
    words = max(1, min(CHUNK_B // WORD_B, len(buffer) // 64))
    for first in range(0, len(buffer), words):
        yield first, buffer[first : first + words]


def written_and_read(
    buffer: Tensor, pattern: Pattern, alive: Callable[[], None] = lambda: None
) -> tuple[int, int | None]:
    """(wrong words, number of the first one as a second reading finds it) of a pattern over the whole buffer. All of it is
    written before any of it is read, so that no cache answers. `alive` is called when the device has read all of it."""
    _, write = pattern
    for first, chunk in chunks(buffer):
        write(first, chunk)
    wrong = torch.zeros((), dtype=torch.int64, device=buffer.device)
    expected = torch.empty_like(next(chunks(buffer))[1])
    for first, chunk in chunks(buffer):
        want = expected[: len(chunk)]
        write(first, want)
        wrong += (chunk != want).sum()
    count = int(wrong)
    alive()
    if count:
        for first, chunk in chunks(buffer):
            want = expected[: len(chunk)]
            write(first, want)
            places = (chunk != want).nonzero()
            if len(places):
                return count, first + int(places[0])
    return count, None


def memory_test(
    device: torch.device, end: float, report: dict[str, Any], alive: Callable[[], None] = lambda: None
) -> None:
    """Patterns over the free memory until the clock (time.monotonic) says `end`, once at least; fills `report` in place."""
    free_b, total_b = torch.cuda.mem_get_info(device) if device.type == "cuda" else (0, 0)
    words = (int(free_b * TESTED_SHARE) if free_b else CPU_BUFFER_B) // WORD_B
    buffer = torch.empty(words, dtype=torch.int64, device=device)
    report.update(total_b=total_b or words * WORD_B, tested_b=words * WORD_B)
    found = report["patterns"]
    while not report["sets"] or time.monotonic() < end:
        for pattern in patterns(report["sets"]):
            wrong, place = written_and_read(buffer, pattern, alive)
            found[pattern[0]] = found.get(pattern[0], 0) + wrong
            if wrong and report["first_wrong"] is None:
                report["first_wrong"] = {
                    "pattern": pattern[0],
                    "offset_b": None if place is None else place * WORD_B,
                }
        report["sets"] += 1


# ---- products --------------------------------------------------------------------------------------------------------
def multiplier(precision: str, a: Tensor, b: Tensor) -> Callable[[], Tensor]:
    """What multiplies a and b (float32 on the device) in a precision, without waiting for the device.

    AttributeError if this torch does not know the precision, RuntimeError if it or the device cannot multiply in it: `burn` reports
    such a precision as not supported.
    """
    if precision == "int8":
        x, y = ((one * 32).clamp(-127, 127).to(torch.int8) for one in (a, b))
        return lambda: torch._int_mm(x, y)
    if precision == "fp8":
        kind = torch.float8_e4m3fn
        x, y = a.to(kind), b.t().contiguous().to(kind).t()  # the tensor cores want the second one by columns
        one = torch.ones((), device=a.device)
        return lambda: torch._scaled_mm(x, y, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    kind = {
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "tf32": torch.float32,
        "fp32": torch.float32,
        "fp64": torch.float64,
    }[precision]
    x, y = a.to(kind), b.to(kind)
    out = torch.empty(len(a), b.shape[1], dtype=kind, device=a.device)
    return lambda: torch.matmul(x, y, out=out)


def bits(tensor: Tensor) -> Tensor:
    """The same memory as whole numbers: compared as bits, a NaN equals itself."""
    return tensor.view(BITS[tensor.element_size()])


def digest(product: Tensor) -> str:
    """SHA-256 of the product's bytes, read in parts."""
    total = hashlib.sha256()
    for part in bits(product).split(1024):
        total.update(part.cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


class Clock:  # as in training.py: each program is copied to a node alone
    """Times on the device where it has a clock, without waiting for it; else the host's."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"

    def mark(self) -> Any:
        """A point in the device's queue."""
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, first: Any, last: Any) -> float:
        """Seconds; waits until the device has reached `last`."""
        if not self.cuda:
            return float(last - first)
        last.synchronize()
        return float(first.elapsed_time(last)) / 1e3


class Load:
    """The products of one precision: `rounds` so far, `speeds` of the batches as (time.monotonic, 10^9 operations a second)."""

    def __init__(self, name: str, a: Tensor, b: Tensor) -> None:
        self.name, self.multiply = name, multiplier(name, a, b)
        self.first = self.multiply().clone()
        self.digest = digest(self.first)
        self.operations = 2 * a.shape[0] * a.shape[1] * b.shape[1]
        self.wrong = torch.zeros((), dtype=torch.int64, device=a.device)
        self.clock, self.batch, self.rounds = Clock(a.device), 1, 0
        self.speeds: list[tuple[float, float]] = []

    def run(self, end: float, alive: Callable[[], None] = lambda: None) -> None:
        """Batch after batch until `end`, one at least. The host waits for a batch when the next one is already queued; `alive`
        is called after each."""
        queued: list[tuple[Any, Any, int]] = []
        begun = False
        while time.monotonic() < end or not begun:
            begun = True
            start = self.clock.mark()
            for _ in range(self.batch):
                self.wrong += (bits(self.multiply()) != bits(self.first)).any()
            queued.append((start, self.clock.mark(), self.batch))
            if len(queued) > 1:
                self._ended(queued.pop(0))
                alive()
        for one in queued:
            self._ended(one)

    def _ended(self, batch: tuple[Any, Any, int]) -> None:
        start, stop, count = batch
        seconds = max(self.clock.between(start, stop), 1e-9)
        self.rounds += count
        self.speeds.append((time.monotonic(), count * self.operations / seconds / 1e9))
        self.batch = max(1, min(1000, round(count * BATCH_S / seconds)))

    def report(self, part_s: float) -> dict[str, Any]:
        """What it found; see the module."""
        first, last = parts(self.speeds, part_s)
        return {
            "rounds": self.rounds,
            "wrong_products": int(self.wrong),
            "digest": self.digest,
            "first_gflops": first,
            "last_gflops": last,
        }


def parts(speeds: list[tuple[float, float]], part_s: float) -> tuple[float | None, float | None]:
    """Median speed of the first and of the last part, part_s seconds but at most a third of the run; None without any."""
    if not speeds:
        return None, None
    begin, end = speeds[0][0], speeds[-1][0]
    part = min(part_s, (end - begin) / 3)
    first = [speed for at, speed in speeds if at <= begin + part]
    last = [speed for at, speed in speeds if at >= end - part]
    return round(statistics.median(first), 3), round(statistics.median(last), 3)


def fatal(error: Exception) -> bool:
    """Whether the GPU or its memory is gone, rather than a kind of product missing."""
    return isinstance(error, torch.OutOfMemoryError) or (
        "CUDA error" in str(error) and "NOT_SUPPORTED" not in str(error)
    )


def matrices(size: int) -> tuple[Tensor, Tensor]:
    """The matrices of all ranks, made on the host: a GPU that computes wrongly has no part in them."""
    generator = torch.Generator(device="cpu").manual_seed(0)
    return torch.randn(size, size, generator=generator), torch.randn(size, size, generator=generator)


class Stopped(RuntimeError):
    """Somebody else ends the load: a signal."""


class Keeper:
    """Keeps the results of a rank: `told` is written to a file when it is due, and by a thread of its own when the rank hangs.

    alive() says that the device finished something, at(phase) that a phase begins. When neither came for stall_s seconds, the
    thread writes what was told last, with the error, and ends the process with status 1: no call on a device that hangs returns.
    """

    def __init__(self, path: Path, keep_s: float, stall_s: float) -> None:
        self.path, self.keep_s, self.stall_s = path, keep_s, stall_s
        self.begin = self.last = time.monotonic()
        self.due = self.begin + keep_s
        self.phase, self.told, self.ended = "", dict[str, Any](), threading.Event()
        threading.Thread(target=self._watch, name="hang", daemon=True).start()

    def at(self, phase: str) -> None:
        """A phase begins."""
        self.phase = phase
        self.alive()

    def alive(self) -> None:
        """The device finished something."""
        self.last = time.monotonic()

    def keep(self, told: dict[str, Any], *, ended: bool) -> None:
        """Write the results in place of those kept before; a reader never sees a part of them."""
        if ended:
            self.ended.set()
        self.told, self.due = told, time.monotonic() + self.keep_s
        now = {**told, "took_s": round(time.monotonic() - self.begin, 3), "phase": self.phase, "ended": ended}
        part = self.path.with_suffix(".part")
        with part.open("w") as file:
            json.dump(now, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path)

    def _watch(self) -> None:
        while not self.ended.wait(min(1.0, self.stall_s / 4)):
            if time.monotonic() - self.last > self.stall_s and not self.ended.is_set():
                error = f"the device finished nothing for {self.stall_s:g} s in phase {self.phase or 'start'}: it hangs"
                self.keep({**self.told, "rank": {**self.told["rank"], "error": error}}, ended=True)
                os._exit(1)


class Burn:
    """The load of one rank: memory test, then products; `report` is what is known so far, see the module for its shape."""

    def __init__(self, device: torch.device, part_s: float) -> None:
        self.device, self.part_s, self.problem = device, part_s, ""
        self.memory: dict[str, Any] = {
            "total_b": 0,
            "tested_b": 0,
            "sets": 0,
            "patterns": {},
            "first_wrong": None,
        }
        self.loads: list[Load] = []
        self.refused: list[str] = []
        self.told: dict[str, dict[str, Any]] = {}

    def report(self) -> dict[str, Any]:
        """What was found up to the last count."""
        return {
            "rounds": sum(one.rounds for one in self.loads),
            "wrong_products": sum(one["wrong_products"] for one in self.told.values()),
            "wrong_words": sum(self.memory["patterns"].values()),
            "memory": self.memory,
            "precisions": self.told,
            "not_supported": self.refused,
            "error": self.problem,
        }

    def count(self) -> None:
        """Ask the device for the results so far; waits for it."""
        self.told = {one.name: one.report(self.part_s) for one in self.loads}

    def run(
        self,
        given: tuple[Tensor, Tensor],
        end: float,
        at: Callable[[str], None] = lambda phase: None,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        """Until the clock (time.monotonic) says `end`. `at` is told each phase as it begins, `alive` what the device finished.

        A GPU that falls off the bus ends the load of its rank alone: `error` says how, the rest is what was counted before.
        """
        begin = time.monotonic()
        try:
            if self.device.type == "cuda":
                torch.set_float32_matmul_precision("high")  # float32 on the tensor cores: TF32
            at("memory")
            memory_test(self.device, begin + MEMORY_SHARE * (end - begin), self.memory, alive)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            at("prepare")
            a, b = (one.to(self.device) for one in given)
            for name in GPU_PRECISIONS if self.device.type == "cuda" else CPU_PRECISIONS:
                try:
                    self.loads.append(Load(name, a, b))
                    alive()
                except (RuntimeError, AttributeError) as error:
                    if fatal(error) or isinstance(error, Stopped):
                        raise
                    self.refused.append(name)
            left_s, began = max(end - time.monotonic(), 0.0), time.monotonic()
            slots = max(len(self.loads), math.ceil(left_s / SLOT_S)) if self.loads else 0
            for number in range(slots):
                current = self.loads[number % len(self.loads)]
                at(current.name)
                current.run(began + (number + 1) * left_s / slots, alive)
            self.count()
        except RuntimeError as error:  # torch raises its CUDA errors as this or as a kind of it
            self.problem = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]
        at("end")


# ---- telemetry -------------------------------------------------------------------------------------------------------
class Telemetry(threading.Thread):
    """Samples a node's GPUs and listens for XID errors until `stop` is set. `error` says what ended it, if anything; `phase` is
    what the load does now. Every sample is a line of `samples` (SAMPLE_COLUMNS) as well."""

    def __init__(self, sample_s: float, samples: TextIO) -> None:
        super().__init__(daemon=True)
        self.samples = samples
        samples.write(",".join(SAMPLE_COLUMNS) + "\n")
        self.sample_s, self.stop, self.error, self.phase = sample_s, threading.Event(), "", ""
        self.seen: dict[str, dict[str, Any]] = {}
        self.xids: list[dict[str, Any]] = []

    def run(self) -> None:
        try:
            import pynvml as nvml
        except ImportError:
            self.error = "this Python has no nvidia-ml-py"
            return
        try:
            nvml.nvmlInit()
            self._watch(nvml)
        except (nvml.NVMLError, OSError) as error:  # OSError: no room for samples
            self.error = f"{type(error).__name__}: {error}"

    def _watch(self, nvml: Any) -> None:
        handles, events = {}, nvml.nvmlEventSetCreate()
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                uuid = nvml.nvmlDeviceGetUUID(handle)
                self.seen[uuid] = self._new(nvml, handle, uuid)
                handles[uuid] = handle
                try:
                    nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
                except nvml.NVMLError_NotSupported:
                    self.seen[uuid]["missing"].add("XID events")
            except nvml.NVMLError as error:
                self.seen[f"GPU {index}"] = {"uuid": "", "serial": f"of GPU {index} unknown", "error": str(error)}
        due = 0.0
        while not self.stop.is_set():
            if time.monotonic() >= due:
                due = time.monotonic() + self.sample_s
                for uuid, handle in handles.items():
                    self._sample(nvml, handle, self.seen[uuid])
                self.samples.flush()
            try:
                event = nvml.nvmlEventSetWait_v2(events, EVENT_WAIT_MS)
                self.xids.append({"uuid": nvml.nvmlDeviceGetUUID(event.device), "xid": int(event.eventData)})
            except nvml.NVMLError_Timeout:
                continue
            except nvml.NVMLError as error:  # a GPU that is lost: the samples name it
                self.stop.wait(self.sample_s)
                self.error = self.error or f"XID events: {error}"

    @staticmethod
    def _ask(nvml: Any, handle: Any, into: dict[str, Any], name: str, function: str, *arguments: Any) -> Any:
        """What NVML says; None, and the name noted, where the GPU does not tell it."""
        try:
            return getattr(nvml, f"nvmlDeviceGet{function}")(handle, *arguments)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
            into["missing"].add(name)
            return None

    @classmethod
    def _new(cls, nvml: Any, handle: Any, uuid: str) -> dict[str, Any]:
        new: dict[str, Any] = {
            "uuid": uuid,
            "missing": set(),
            "watts": [],
            "celsius": [],
            "memory_celsius": [],
            "margins": [],
            "generations": [],
            "widths": [],
            "reasons": Counter(),
            "uncorrected": [],
            "corrected": [],
            "remapped": [],
            "links": [],
            "error": "",
        }
        pci = nvml.nvmlDeviceGetPciInfo(handle)
        default = cls._ask(nvml, handle, new, "default power limit", "PowerManagementDefaultLimit")
        new["serial"] = cls._ask(nvml, handle, new, "serial", "Serial") or ""
        new["slot"] = cls._ask(nvml, handle, new, "slot", "ModuleId")
        new["pci_bus_id"] = pci.busId if isinstance(pci.busId, str) else pci.busId.decode()
        new["default_limit_w"] = None if default is None else default / 1000
        new["max_generation"] = cls._ask(nvml, handle, new, "PCIe link", "MaxPcieLinkGeneration")
        new["max_width"] = cls._ask(nvml, handle, new, "PCIe link", "MaxPcieLinkWidth")
        return new

    def _sample(self, nvml: Any, handle: Any, into: dict[str, Any]) -> None:
        def ask(name: str, function: str, *arguments: Any) -> Any:
            return self._ask(nvml, handle, into, name, function, *arguments)

        def keep(key: str, value: Any) -> None:
            if value is not None:
                into[key].append(value)

        try:
            into["samples"] = into.get("samples", 0) + 1
            phase = self.phase
            watts = ask("power", "PowerUsage")
            keep("watts", None if watts is None else (phase, watts / 1000))
            celsius = ask("temperature", "Temperature", nvml.NVML_TEMPERATURE_GPU)
            keep("celsius", celsius)
            (memory,) = nvml.nvmlDeviceGetFieldValues(handle, [MEMORY_TEMPERATURE_FIELD])
            memory_celsius = None if memory.nvmlReturn else int(memory.value.uiVal)
            if memory_celsius is None:
                into["missing"].add("memory temperature")
            keep("memory_celsius", memory_celsius)
            margin = ask("margin to the slowdown temperature", "MarginTemperature")
            keep("margins", margin)
            reasons = ask("clock event reasons", "CurrentClocksEventReasons")
            into["reasons"].update(name for name, bit in REASONS.items() if (reasons or 0) & bit)
            errors = {}
            for key, kind in (
                ("uncorrected", nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
                ("corrected", nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            ):
                errors[key] = ask(f"{key} memory errors", "TotalEccErrors", kind, nvml.NVML_VOLATILE_ECC)
                keep(key, errors[key])
            limit = ask("power limit", "EnforcedPowerLimit")
            into["limit_w"] = None if limit is None else limit / 1000
            rows = ask("row remapping", "RemappedRows")
            if rows is not None:
                corrected, uncorrected, into["remap_pending"], into["remap_failed"] = rows
                into["remapped"].append(corrected + uncorrected)
            generation, width = (ask("PCIe link", f"CurrPcieLink{name}") for name in ("Generation", "Width"))
            if phase not in IDLE_PHASES:
                keep("generations", generation)
                keep("widths", width)
            up, link_errors = self._links(nvml, handle, into)
            row = (
                f"{time.time():.1f}",
                into["uuid"],
                phase,
                None if watts is None else watts / 1000,
                ask("clocks", "ClockInfo", nvml.NVML_CLOCK_SM),
                ask("clocks", "ClockInfo", nvml.NVML_CLOCK_MEM),
                celsius,
                memory_celsius,
                margin,
                None if reasons is None else f"{reasons:#x}",
                errors["corrected"],
                errors["uncorrected"],
                None if rows is None else rows[0] + rows[1],
                generation,
                width,
                ask("PCIe replays", "PcieReplayCounter"),
                up,
                sum(link_errors.values()) if link_errors else None,
            )
            self.samples.write(",".join("" if one is None else str(one) for one in row) + "\n")
        except nvml.NVMLError as error:
            into["error"] = f"{type(error).__name__}: {error}"

    @staticmethod
    def _links(nvml: Any, handle: Any, into: dict[str, Any]) -> tuple[int | None, dict[str, int]]:
        """(NVLinks that are up, errors of all links by counter) now; (None, {}) for a GPU without NVLink."""
        errors: Counter[str] = Counter()
        up = links = 0
        for link in range(MAX_LINKS):
            try:
                up += bool(nvml.nvmlDeviceGetNvLinkState(handle, link))
                links += 1
            except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
                break
            for name, number in NVLINK_ERRORS.items():
                try:
                    errors[name] += nvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, number)
                except (
                    nvml.NVMLError_NotSupported,
                    nvml.NVMLError_FunctionNotFound,
                    nvml.NVMLError_InvalidArgument,  # a counter that this generation of NVLink does not have
                ):
                    continue
        if not links:
            return None, {}
        values = nvml.nvmlDeviceGetFieldValues(handle, [(number, ALL_LINKS) for number in NVLINK_FIELDS.values()])
        told = {
            name: int(one.value.ullVal) for name, one in zip(NVLINK_FIELDS, values, strict=True) if not one.nvmlReturn
        }
        if not errors and not told:
            into["missing"].add("NVLink errors")
        into["links"].append((time.monotonic(), up, {**errors, **told}))
        return up, {**errors, **told}

    def end(self) -> None:
        """End the thread; report() says where it does not end."""
        self.stop.set()
        self.join(TELEMETRY_END_S)

    def report(self) -> dict[str, Any]:
        """What was seen so far, as plain data."""
        hangs = "NVML does not answer any more" if self.stop.is_set() and self.is_alive() else ""
        gpus = [self._told(one) for one in list(self.seen.values())]
        return {"gpus": gpus, "xids": list(self.xids), "telemetry_error": hangs or self.error}

    @staticmethod
    def _told(one: dict[str, Any]) -> dict[str, Any]:
        watts: dict[str, list[float]] = {}
        for phase, drawn in one.get("watts", []):
            watts.setdefault(phase, []).append(drawn)

        def grown(key: str) -> int | None:
            seen = one.get(key) or []
            return seen[-1] - seen[0] if seen else None

        return {
            "uuid": one["uuid"],
            "serial": one["serial"],
            "slot": one.get("slot"),
            "pci_bus_id": one.get("pci_bus_id", ""),
            "samples": one.get("samples", 0),
            "max_c": max(one.get("celsius", []), default=None),
            "max_memory_c": max(one.get("memory_celsius", []), default=None),
            "least_margin_c": min(one.get("margins", []), default=None),
            "pcie": {
                "generation": min(one.get("generations", []), default=None),
                "width": min(one.get("widths", []), default=None),
                "max_generation": one.get("max_generation"),
                "max_width": one.get("max_width"),
            },
            "watts": {phase: statistics.median(drawn) for phase, drawn in watts.items()},
            "limit_w": one.get("limit_w"),
            "default_limit_w": one.get("default_limit_w"),
            "reasons": dict(one.get("reasons", {})),
            "uncorrected": grown("uncorrected"),
            "corrected": grown("corrected"),
            "remapped": grown("remapped"),
            "remap_pending": one.get("remap_pending"),
            "remap_failed": one.get("remap_failed"),
            "nvlink": linked(one.get("links", [])),
            "not_supported": sorted(one.get("missing", ())),
            "error": one["error"],
        }


def linked(samples: list[tuple[float, int, dict[str, int]]]) -> dict[str, Any] | None:
    """What samples of a GPU's NVLinks (time, links up, errors) say in sum; see the module."""
    if not samples:
        return None
    (begin, _, before), (end, _, after) = samples[0], samples[-1]
    return {
        "links": max(up for _, up, _ in samples),
        "least_up": min(up for _, up, _ in samples),
        "seconds": round(end - begin, 1),
        "new": {name: after[name] - before[name] for name in after if name in before},
    }


def stopped(number: int, _: object) -> None:
    """SIGTERM, as Slurm sends it before it kills: the load ends and keeps what it has."""
    raise Stopped(f"ended by {signal.Signals(number).name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duration-s", type=float, required=True)
    parser.add_argument("--results", required=True, help="folder for the results; $NAME stands for a variable")
    parser.add_argument("--part-s", type=float, default=3600, help="length of the parts whose speeds are compared")
    parser.add_argument("--sample-s", type=float, default=60, help="seconds between two samples of the GPUs")
    parser.add_argument("--keep-s", type=float, default=3600, help="seconds between two writings of the results")
    parser.add_argument("--stall-s", type=float, default=300, help="a device that finishes nothing for so long hangs")
    parser.add_argument(
        "--computes-on",
        choices=("gpu", "cpu"),
        default="gpu" if torch.cuda.is_available() else "cpu",
        help="gpu ends the rank where PyTorch finds none; left out: a GPU where there is one",
    )
    options = parser.parse_args()
    gpu = options.computes_on == "gpu"
    if gpu and not torch.cuda.is_available():
        parser.error(f"--computes-on gpu: PyTorch {torch.__version__} finds no GPU that computes")
    number, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    folder = Path(os.path.expandvars(options.results))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & stat.S_IWOTH:
        parser.error(
            f"--results {folder}: a link, or a folder that another user made or everybody can write: remove it"
        )
    device = torch.device("cuda", local) if gpu else torch.device("cpu")
    device_name, uuid, size = "cpu", "", CPU_SIZE
    if gpu:
        torch.cuda.set_device(device)
        about = torch.cuda.get_device_properties(device)
        device_name, uuid = about.name, f"GPU-{about.uuid}"  # as NVML writes it
        size = GPU_SIZE if about.total_memory >= SMALL_GPU_B else SMALL_GPU_SIZE
    given = matrices(size)
    signal.signal(signal.SIGTERM, stopped)
    with (folder / "samples.csv").open("a") if local == 0 else open(os.devnull, "w") as samples:
        telemetry = Telemetry(options.sample_s, samples) if local == 0 else None
        keeper = Keeper(folder / f"rank-{number}.json", options.keep_s, options.stall_s)
        load = Burn(device, options.part_s)

        def keep(*, ended: bool = False) -> None:
            keeper.keep(
                {
                    "schema_version": SCHEMA_VERSION,
                    "host": socket.gethostname(),
                    "device": device_name,
                    "torch": torch.__version__,
                    "rank": {"rank": number, "device": device_name, "uuid": uuid, **load.report()},
                    "watch": telemetry.report() if telemetry else None,
                },
                ended=ended,
            )

        def at(phase: str) -> None:
            keeper.at(phase)
            if telemetry:
                telemetry.phase = phase

        def alive() -> None:
            keeper.alive()
            if time.monotonic() >= keeper.due:
                load.count()
                keep()

        if telemetry:
            telemetry.start()
        keep()
        load.run(given, keeper.begin + options.duration_s, at, alive)
        if telemetry:
            telemetry.end()
        keep(ended=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
