"""The GPU exporter against an NVML in memory: DCGM's names, lost GPUs, missing fields, a driver that hangs."""

import re
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tests.playbooks.support import load

pytestmark = pytest.mark.clock


exporter: Any = load("roles/gpu_exporter/files/gpu_exporter.py")
UUIDS = ["GPU-aaaa", "GPU-bbbb"]


class NVMLError(Exception):
    pass


class Nvml:
    """Two GPUs. `lost`: indexes that have fallen off the bus; `absent`: functions that these GPUs do not support."""

    def __init__(self) -> None:
        self.lost: set[int] = set()
        self.absent: set[str] = set()
        self.init_error: NVMLError | None = None
        self.NVMLError = NVMLError
        for name in ("GpuIsLost", "NotFound", "InvalidArgument", "NotSupported", "Timeout", "LibraryNotFound"):
            setattr(self, f"NVMLError_{name}", type(f"NVMLError_{name}", (NVMLError,), {}))
        self.NVML_NVLINK_MAX_LINKS, self.NVML_SUCCESS, self.NVML_ERROR_NOT_SUPPORTED = 18, 0, 3

    def __getattr__(self, name: str) -> Any:
        if name.startswith("NVML_") or name == "nvmlEventTypeXidCriticalError":
            return name
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return lambda *arguments: self.answer(name, *arguments)

    def answer(self, name: str, *arguments: Any) -> Any:
        if name in self.absent:
            raise self.NVMLError_NotSupported()
        if name == "nvmlInit" and self.init_error:
            raise self.init_error
        gpu = arguments[0] if arguments else None
        if name.startswith("nvmlDeviceGet") and name != "nvmlDeviceGetCount" and gpu in self.lost:
            raise self.NVMLError_GpuIsLost()
        values = {
            "nvmlDeviceGetCount": len(UUIDS),
            "nvmlDeviceGetHandleByIndex": gpu,
            "nvmlDeviceGetUUID": UUIDS[gpu] if gpu in (0, 1) else "",
            "nvmlDeviceGetSerial": f"SN{gpu}",
            "nvmlDeviceGetMinorNumber": gpu,
            "nvmlDeviceGetName": "NVIDIA H100",
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId=f"0000:1{gpu}:00.0"),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(free=3 << 20, used=1 << 20),
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=97, memory=31),
            "nvmlDeviceGetRemappedRows": (1, 2, 1, 0),
            "nvmlDeviceGetPowerUsage": 412_500,
            "nvmlDeviceGetFieldValues": [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=66))],
            "nvmlDeviceGetNvLinkState": 1,
            "nvmlDeviceGetNvLinkErrorCounter": 2,
            "nvmlDeviceGetTemperature": 58,
        }
        if name == "nvmlDeviceGetNvLinkState" and arguments[1] >= 4:
            raise self.NVMLError_InvalidArgument()
        return values.get(name, 7)


@pytest.fixture
def nvml() -> Nvml:
    return Nvml()


def values(found: Any, name: str) -> list[float]:
    return [value for _, value in found.samples.get(name, [])]


def test_every_gpu_reports_every_field_with_its_identity(nvml):
    found = exporter.Reader(nvml).collect()
    assert found.reason == ""
    for one in (*exporter.FIELDS, exporter.XID, exporter.LOST):
        assert [labels["UUID"] for labels, _ in found.samples[one.name]] == UUIDS, one.name
    labels, _ = found.samples["DCGM_FI_DEV_GPU_TEMP"][1]
    assert labels == {
        "gpu": "1",
        "UUID": "GPU-bbbb",
        "pci_bus_id": "0000:11:00.0",
        "device": "nvidia1",
        "modelName": "NVIDIA H100",
        "serial": "SN1",
    }


def test_values_have_dcgms_units(nvml):
    found = exporter.Reader(nvml).collect()
    assert values(found, "DCGM_FI_DEV_POWER_USAGE") == [412.5, 412.5]  # W of mW
    assert values(found, "DCGM_FI_DEV_FB_FREE") == [3, 3]  # MiB of bytes
    assert values(found, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS") == [2, 2]
    assert values(found, "DCGM_FI_DEV_ROW_REMAP_PENDING") == [1, 1]
    assert values(found, "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL") == [8, 8]  # 2 on each of 4 links


def test_a_lost_gpu_is_named_and_the_others_go_on(nvml):
    reader = exporter.Reader(nvml)
    reader.collect()
    nvml.lost = {1}
    found = reader.collect()
    assert [(labels["UUID"], value) for labels, value in found.samples["bringup_gpu_lost"]] == [
        ("GPU-aaaa", 0),
        ("GPU-bbbb", 1),
    ]
    assert [labels["UUID"] for labels, _ in found.samples["DCGM_FI_DEV_GPU_TEMP"]] == ["GPU-aaaa"]


def test_a_gpu_that_was_lost_before_the_exporter_began_is_told_by_its_index(nvml):
    nvml.lost = {0}
    assert exporter.Reader(nvml).collect().samples["bringup_gpu_lost"][0] == ({"gpu": "0"}, 1)


def test_a_field_that_a_gpu_does_not_have_is_left_out(nvml):
    nvml.absent = {"nvmlDeviceGetRemappedRows", "nvmlDeviceGetNvLinkState"}
    found = exporter.Reader(nvml).collect()
    assert not {name for name in found.samples if "REMAP" in name or "NVLINK" in name}
    assert values(found, "DCGM_FI_DEV_GPU_TEMP") == [58, 58]


def test_a_missing_library_is_a_metric(nvml):
    nvml.init_error = nvml.NVMLError_LibraryNotFound()
    text = exporter.render(exporter.Reader(nvml).collect())
    assert 'bringup_gpu_library_up{reason="LibraryNotFound"} 0\n' in text
    assert "DCGM_FI" not in text


def test_an_xid_is_shown_for_ten_minutes(nvml):
    now = [1000.0]
    reader = exporter.Reader(nvml, clock=lambda: now[0])
    reader.xids["GPU-aaaa"] = (79, 1000.0)
    now[0] += exporter.XID_MEMORY_S - 1
    assert values(reader.collect(), "DCGM_FI_DEV_XID_ERRORS") == [79, 0]
    now[0] += 2
    assert values(reader.collect(), "DCGM_FI_DEV_XID_ERRORS") == [0, 0]


def test_a_driver_that_hangs_costs_a_scrape_its_budget_and_comes_back():
    wait = threading.Event()
    collected: list[Any] = []

    def collect() -> Any:
        if not collected:
            wait.wait(10)
        collected.append(1)
        return exporter.Collected()

    worker = exporter.Worker(collect, budget_s=0.1)
    assert worker.scrape().reason == "no answer"
    assert worker.scrape().reason == "no answer"
    wait.set()
    for _ in range(50):
        if worker.scrape().reason == "":
            return
    pytest.fail("the worker does not answer after the driver came back")


def test_a_fault_of_the_reader_is_a_metric_and_not_the_end():
    def collect() -> Any:
        raise KeyError("surprise")

    worker = exporter.Worker(collect, budget_s=5)
    assert worker.scrape().reason == "KeyError"
    assert worker.scrape().reason == "KeyError"


def test_the_text_is_what_prometheus_reads(nvml):
    text = exporter.render(exporter.Reader(nvml).collect())
    sample = re.compile(r'[a-zA-Z_]+(\{(\w+="[^"]*",?)+\})? -?[0-9.e+]+')
    for line in text.splitlines():
        assert line.startswith(("# HELP ", "# TYPE ")) or sample.fullmatch(line), line
    assert exporter.escaped('a"b\\c\nd') == 'a\\"b\\\\c\\nd'
