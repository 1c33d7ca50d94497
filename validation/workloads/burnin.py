"""Burn-in: matrix products and memory patterns on every GPU, or on the CPU where there is none; a plain torchrun program.

    torchrun --nnodes N --nproc-per-node G burnin.py --duration-s 172800 --part-s 3600

Each rank multiplies the same two matrices over and over, in between writes patterns into a buffer and reads them back.
Every product must equal the first one bit for bit, every pattern must come back. The first rank of a node samples its GPUs
through NVML and listens for XID errors all the while. Rank 0 prints one JSON object:

    {"schema_version", "device": "cpu" or the GPU's name, "backend", "world_size", "duration_s", "nodes": {host: {
       "ranks": [{"rank", "device", "uuid", "rounds", "wrong_products", "wrong_bytes", "first_gflops", "last_gflops",
                  "error": '' or what ended its load}],
       "gpus": [{"uuid", "serial", "samples", "max_c", "median_w", "limit_w", "reasons": {name: samples},
                 "uncorrected": new errors, "remap_pending", "remap_failed", "error"}],
       "xids": [{"uuid", "xid"}], "telemetry_error": ""}}}

first_gflops and last_gflops are the medians of the first and the last part (at most a third of the run each), in units of
10^9 floating-point operations a second (2 n^3 for a product); null for a rank that never got to one. duration_s is the
shortest time of a rank whose load went to its end, of all ranks where none did. Standard library, torch and, where there is
one, nvidia-ml-py only, so that it can be copied to a node alone.
"""

import argparse
import json
import os
import socket
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

SCHEMA_VERSION = 1
PATTERNS = (0x00, 0xFF, 0x55, 0xAA)
"""All bits off, all on, and both checkerboards."""
REASONS = {  # nvml.h: nvmlClocksEventReason…
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake": 0x80,
}
EVENT_WAIT_MS = 200
CPU_SIZE, GPU_SIZE = 384, 8192
CPU_BUFFER_MIB = 4
GPU_BUFFER_SHARE = 0.8
TELEMETRY_END_S = 10
ERROR_CHARACTERS = 300
"""Of a CUDA error: what happened. Advice for programmers follows."""


def load(device: torch.device, size: int, end: float) -> dict[str, Any]:
    """Products and patterns until the clock (time.monotonic) says `end`; see the module for the result.

    A GPU that falls off the bus ends the load of its rank alone: `error` says how, the rest is what was counted before.
    """
    speeds: list[tuple[float, float]] = []
    wrong_products = wrong_bytes = 0
    problem = ""
    try:
        free_b = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
        buffer_b = int(free_b * GPU_BUFFER_SHARE) // 2 if free_b else CPU_BUFFER_MIB << 20
        generator = torch.Generator(device="cpu").manual_seed(0)
        a, b = (torch.rand(size, size, generator=generator).to(device) for _ in range(2))
        buffer = torch.empty(buffer_b, dtype=torch.uint8, device=device)
        first = a @ b
        while time.monotonic() < end or not speeds:
            begin = time.perf_counter()
            product = a @ b
            if device.type == "cuda":
                torch.cuda.synchronize()
            speeds.append((time.monotonic(), 2 * size**3 / (time.perf_counter() - begin) / 1e9))
            wrong_products += not torch.equal(product, first)
            pattern = PATTERNS[len(speeds) % len(PATTERNS)]
            buffer.fill_(pattern)
            wrong_bytes += int((buffer != pattern).sum())
    except RuntimeError as error:  # torch raises its CUDA errors as this or as a kind of it
        problem = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]
    return {
        "rounds": len(speeds),
        "wrong_products": wrong_products,
        "wrong_bytes": wrong_bytes,
        "speeds": speeds,
        "error": problem,
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


class Telemetry(threading.Thread):
    """Samples a node's GPUs and listens for XID errors until `stop` is set. `error` says what ended it, if anything."""

    def __init__(self, sample_s: float) -> None:
        super().__init__(daemon=True)
        self.sample_s, self.stop, self.error = sample_s, threading.Event(), ""
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
        except nvml.NVMLError as error:
            self.error = f"{type(error).__name__}: {error}"

    def _watch(self, nvml: Any) -> None:
        handles, events = {}, nvml.nvmlEventSetCreate()
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                uuid = nvml.nvmlDeviceGetUUID(handle)
                self.seen[uuid] = self._new(nvml, handle, uuid)
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
                handles[uuid] = handle
            except nvml.NVMLError as error:
                self.seen[f"GPU {index}"] = {"uuid": "", "serial": f"GPU {index}", "error": str(error)}
        due = 0.0
        while not self.stop.is_set():
            if time.monotonic() >= due:
                due = time.monotonic() + self.sample_s
                for uuid, handle in handles.items():
                    self._sample(nvml, handle, self.seen[uuid])
            try:
                event = nvml.nvmlEventSetWait_v2(events, EVENT_WAIT_MS)
                self.xids.append({"uuid": nvml.nvmlDeviceGetUUID(event.device), "xid": int(event.eventData)})
            except nvml.NVMLError_Timeout:
                continue
            except nvml.NVMLError as error:  # a GPU that is lost: the samples name it
                self.stop.wait(self.sample_s)
                self.error = self.error or f"XID events: {error}"

    @staticmethod
    def _new(nvml: Any, handle: Any, uuid: str) -> dict[str, Any]:
        serial = nvml.nvmlDeviceGetSerial(handle)
        return {
            "uuid": uuid,
            "serial": serial,
            "watts": [],
            "celsius": [],
            "reasons": Counter(),
            "errors": [],
            "error": "",
        }

    @staticmethod
    def _sample(nvml: Any, handle: Any, into: dict[str, Any]) -> None:
        try:
            into["watts"].append(nvml.nvmlDeviceGetPowerUsage(handle) / 1000)
            into["celsius"].append(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
            bits = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
            into["reasons"].update(name for name, bit in REASONS.items() if bits & bit)
            counted = nvml.nvmlDeviceGetTotalEccErrors(
                handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            )
            into["errors"].append(counted)
            into["limit_w"] = nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000
            _, _, into["remap_pending"], into["remap_failed"] = nvml.nvmlDeviceGetRemappedRows(handle)
        except nvml.NVMLError as error:
            into["error"] = f"{type(error).__name__}: {error}"

    def report(self) -> dict[str, Any]:
        """What was seen, as plain data; ends the thread, or says that it does not end."""
        self.stop.set()
        self.join(TELEMETRY_END_S)
        gpus = []
        for one in list(self.seen.values()):
            watts, celsius, errors = (one.get(key) or [] for key in ("watts", "celsius", "errors"))
            gpus.append(
                {
                    "uuid": one["uuid"],
                    "serial": one["serial"],
                    "samples": len(watts),
                    "max_c": max(celsius, default=None),
                    "median_w": statistics.median(watts) if watts else None,
                    "limit_w": one.get("limit_w"),
                    "reasons": dict(one.get("reasons", {})),
                    "uncorrected": errors[-1] - errors[0] if errors else None,
                    "remap_pending": one.get("remap_pending"),
                    "remap_failed": one.get("remap_failed"),
                    "error": one["error"],
                }
            )
        hangs = "NVML does not answer any more" if self.is_alive() else ""
        return {"gpus": gpus, "xids": list(self.xids), "telemetry_error": hangs or self.error}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duration-s", type=float, required=True)
    parser.add_argument("--part-s", type=float, default=3600, help="length of the parts whose speeds are compared")
    parser.add_argument("--sample-s", type=float, default=60, help="seconds between two samples of the GPUs")
    parser.add_argument("--timeout-s", type=int, default=120, help="a rank that is this much late ends the job")
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
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    device_name, uuid = "cpu", ""
    if gpu:
        torch.cuda.set_device(device)
        device_name = torch.cuda.get_device_name(device)
        uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"  # as NVML writes it
    # gloo on GPUs as well: it only gathers the reports, also those of ranks whose GPU was lost
    dist.init_process_group("gloo", timeout=timedelta(seconds=options.timeout_s + options.duration_s))
    watch: Callable[[], dict[str, Any]] | None = None
    if int(os.environ["LOCAL_RANK"]) == 0:
        telemetry = Telemetry(options.sample_s)
        telemetry.start()
        watch = telemetry.report
    dist.barrier()
    begin = time.monotonic()
    done = load(device, GPU_SIZE if gpu else CPU_SIZE, begin + options.duration_s)
    took_s = time.monotonic() - begin
    first, last = parts(done.pop("speeds"), options.part_s)
    mine = {
        "host": socket.gethostname(),
        "took_s": took_s,
        "watch": watch() if watch else None,
        "rank": {
            "rank": dist.get_rank(),
            "device": device_name,
            "uuid": uuid,
            **done,
            "first_gflops": first,
            "last_gflops": last,
        },
    }
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    if dist.get_rank() == 0:
        nodes: dict[str, Any] = {}
        for one in everyone:
            node = nodes.setdefault(
                one["host"], {"ranks": [], "gpus": [], "xids": [], "telemetry_error": "nobody watched"}
            )
            node["ranks"].append(one["rank"])
            node.update(one["watch"] or {})
        whole = [one for one in everyone if not one["rank"]["error"]]
        report = {
            "schema_version": SCHEMA_VERSION,
            "device": device_name,
            "backend": dist.get_backend(),
            "torch": torch.__version__,
            "world_size": dist.get_world_size(),
            "duration_s": round(min(one["took_s"] for one in whole or everyone), 3),
            "nodes": nodes,
        }
        print(json.dumps(report), flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
