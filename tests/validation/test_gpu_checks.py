"""What steps say of GPUs that are ill or that do not tell everything: S026 and S034 on the lab's recorded facts, changed."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from capacity.model import Plan
from tests.plans import plan_of
from validation.burn_in import PATTERNS, PRECISIONS
from validation.check import Outcome
from validation.checks.test_burn_in import test_gpu_burn_in_ends_without_fault as burn_in_check
from validation.checks.test_gpus import test_listed_gpus_are_installed as installed_check
from validation.checks.test_gpus import test_pcie_links_of_gpus_and_nics_have_full_width as links_check
from validation.facts import Facts, gpu_facts
from validation.runners.burn_in import BurnIn

HEALTHY = Path(__file__).parent / "data" / "healthy.json"
NODE = "gpu001"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


@pytest.fixture
def facts() -> Facts:
    return Facts.read(HEALTHY)


def gpu_of(facts: Facts) -> dict[str, Any]:
    gpu: dict[str, Any] = facts.nodes[NODE].data["gpus"]["devices"][3]
    return gpu


def burnt_in(plan: Plan, facts: Facts, job_s: float = 9.0, errors: dict[str, str] | None = None) -> Outcome:
    """S034 after a run on CPUs of 9 s in which nothing happened."""
    products = {"rounds": 9, "wrong_products": 0, "digest": "", "first_gflops": 1.0, "last_gflops": 1.0}
    memory = {"total_b": 8, "tested_b": 8, "sets": 1, "patterns": dict.fromkeys(PATTERNS, 0), "first_wrong": None}
    told = {
        "samples": 9,
        "max_c": 40,
        "max_memory_c": 45,
        "watts": {"fp32": 70.0},
        "limit_w": 700.0,
        "default_limit_w": 700.0,
        "reasons": {},
        "uncorrected": 0,
        "remapped": 0,
        "remap_pending": 0,
        "remap_failed": 0,
        "not_supported": [],
        "error": "",
    }
    names = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    nodes = {}
    for number, name in enumerate(names):
        rank = {
            "rank": number,
            "device": "cpu",
            "uuid": "",
            "rounds": 9,
            "wrong_products": 0,
            "wrong_words": 0,
            "error": "",
        }
        rank |= {"memory": memory, "precisions": dict.fromkeys(PRECISIONS["cpu"], products), "not_supported": []}
        gpus = [
            {**told, "uuid": gpu["uuid"], "serial": gpu["serial"], "slot": gpu["module_id"]}
            for gpu in facts.nodes[name].data["gpus"]["devices"]
        ]
        node = {"ranks": [rank], "gpus": gpus, "xids": [], "telemetry_error": ""}
        nodes[name] = {**node, "device": "cpu", "duration_s": 9.0}
    done = BurnIn({NODE: 7}, {"nodes": nodes}, errors or {}, {NODE: job_s})
    return burn_in_check(NODE, plan, facts, done)


def xid(facts: Facts) -> None:
    address = gpu_of(facts)["pci_bus_id"].lower()[4:14]
    facts.nodes[NODE].data["gpus"]["xids"] = [{"pci_bus_id": address, "xid": 95, "text": "uncontained"}]


def ecc(facts: Facts) -> None:
    gpu_of(facts)["ecc"]["uncorrected"] = 3


def remapped(facts: Facts) -> None:
    gpu_of(facts)["remapped_rows"] = {"corrected": 0, "uncorrected": 1, "pending": 1, "failed": 0}


def hot(facts: Facts) -> None:
    gpu_of(facts)["clocks"]["reasons"] = ["hw_thermal_slowdown"]


def braked(facts: Facts) -> None:
    gpu_of(facts)["clocks"]["reasons"] = ["hw_power_brake"]


def test_healthy_gpus_pass_the_burn_in(plan: Plan, facts: Facts) -> None:
    outcome = burnt_in(plan, facts)
    assert outcome.passed, outcome.detail


def test_another_node_that_died_leaves_this_one_its_result(plan: Plan, facts: Facts) -> None:
    assert burnt_in(plan, facts, errors={"gpu002": "job 8 is NODE_FAIL"}).passed
    own = burnt_in(plan, facts, errors={NODE: "job 7 is TIMEOUT"})
    assert not own.passed
    assert "job 7 is TIMEOUT" in own.detail


def test_a_report_of_more_hours_than_its_job_had_fails(plan: Plan, facts: Facts) -> None:
    outcome = burnt_in(plan, facts, job_s=3.6)
    assert not outcome.passed
    assert outcome.detail == "the report says 0.0025 h and its job was over after 0.0010 h"


@pytest.mark.parametrize(
    ("harm", "finding"),
    [
        (xid, "GPU-XID"),
        (ecc, "GPU-ECC"),
        (remapped, "GPU-ROW-REMAP"),
        (hot, "GPU-THERMAL"),
        (braked, "GPU-POWER-BRAKE"),
    ],
)
def test_what_ails_a_gpu_before_the_load_fails_its_burn_in(
    plan: Plan, facts: Facts, harm: Callable[[Facts], None], finding: str
) -> None:
    harm(facts)
    outcome = burnt_in(plan, facts)
    assert not outcome.passed
    assert outcome.detail.startswith(f"before the load: {finding}: ")
    assert "SIM-GPU-1004" in outcome.detail


def test_what_a_gpu_does_not_tell_before_the_load_is_named(plan: Plan, facts: Facts) -> None:
    gpu_of(facts)["temperature"]["slowdown_c"] = None
    gpu_of(facts)["remapped_rows"] = None
    facts.nodes[NODE].data["gpus"]["xids"] = None
    outcome = burnt_in(plan, facts)
    assert outcome.passed, outcome.detail
    assert "not judged: gpu001 slot 4, serial SIM-GPU-1004: row remapping, slowdown temperature" in outcome.detail
    assert "not judged: gpu001 does not show its kernel's log: XIDs before this run" in outcome.detail
    assert isinstance(outcome.value, dict)
    assert len(outcome.value["not_judged"]) == 3


def test_a_gpu_without_pcie_counters_is_installed_and_its_counters_are_not_judged(plan: Plan, facts: Facts) -> None:
    gpu_of(facts)["pcie"] |= {"correctable": None, "non_fatal": None, "fatal": None}
    outcome = installed_check(NODE, plan, facts)
    assert outcome.passed, outcome.detail
    assert "no PCIe error counted" in outcome.detail
    assert "not judged: GPU 3 (slot 4, serial SIM-GPU-1004" in outcome.detail
    assert "has no counter of PCIe errors correctable, non_fatal, fatal" in outcome.detail


def test_a_pcie_link_that_a_gpu_does_not_tell_is_not_judged_and_the_others_are(plan: Plan, facts: Facts) -> None:
    gpu_of(facts)["pcie"] |= {"width": None, "generation": None}
    outcome = links_check(NODE, plan, facts)
    assert "does not tell its PCIe width, generation" in outcome.detail
    facts.nodes[NODE].data["gpus"]["devices"][0]["pcie"]["width"] = 8
    outcome = links_check(NODE, plan, facts)
    assert not outcome.passed
    assert "x8" in outcome.detail


def test_fewer_rdma_devices_than_cables_to_the_compute_fabric_fail(plan: Plan, facts: Facts) -> None:
    """A NIC that is gone from the bus has no row that could be narrow."""
    x16 = {"width": "16", "max_width": "16", "speed": "32.0 GT/s PCIe", "max_speed": "32.0 GT/s PCIe"}
    reading = facts.nodes[NODE].data["gpus"]
    reading |= {"container": "", "nics": {f"mlx5_{n}": x16 for n in range(8)}}
    assert links_check(NODE, plan, facts).passed
    del reading["nics"]["mlx5_3"]
    outcome = links_check(NODE, plan, facts)
    assert not outcome.passed
    assert "7 RDMA devices on the PCIe bus, 8 cables to the compute fabric" in outcome.detail


def test_a_counted_pcie_error_still_fails(plan: Plan, facts: Facts) -> None:
    gpu_of(facts)["pcie"] |= {"correctable": None, "fatal": 1}
    outcome = installed_check(NODE, plan, facts)
    assert not outcome.passed
    assert "PCIe errors {'fatal': 1}" in outcome.detail


class Nvml:
    """NVML of a driver that knows fewer fields than this program asks for. Modelled after nvml.h, no GPU was there."""

    NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_INVALID_ARGUMENT, NVML_ERROR_GPU_IS_LOST = 3, 2, 15
    NVMLError = type("NVMLError", (Exception,), {})
    NVMLError_NotSupported = type("NVMLError_NotSupported", (NVMLError,), {})
    NVMLError_FunctionNotFound = type("NVMLError_FunctionNotFound", (NVMLError,), {})
    NVMLError_InvalidArgument = type("NVMLError_InvalidArgument", (NVMLError,), {})

    def __init__(self, field: int) -> None:
        self.field = field

    def __getattr__(self, name: str) -> Any:
        if name.startswith("NVML_"):
            return 0
        if name in ("nvmlInit", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName", "nvmlDeviceGetUUID"):
            return lambda *_: "GPU-1"
        if name == "nvmlDeviceGetPciInfo":
            return lambda _: SimpleNamespace(busId="00000000:1B:00.0")
        if name == "nvmlDeviceGetFieldValues":
            return lambda *_: [SimpleNamespace(nvmlReturn=self.field, value=SimpleNamespace(uiVal=0))]
        return self._refuse

    def _refuse(self, *_: Any) -> Any:
        raise self.NVMLError_NotSupported()


@pytest.mark.parametrize("answer", [Nvml.NVML_ERROR_NOT_SUPPORTED, Nvml.NVML_ERROR_INVALID_ARGUMENT])
def test_a_field_that_the_driver_does_not_know_is_null_and_named(monkeypatch: pytest.MonkeyPatch, answer: int) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(answer))
    gpu = json.loads(json.dumps(gpu_facts.device(0)))
    assert gpu["pcie"]["correctable"] is gpu["recovery_action"] is gpu["temperature"]["memory_c"] is None
    assert {"pcie_correctable", "pcie_non_fatal", "pcie_fatal", "recovery_action"} <= set(gpu["not_supported"])


def test_a_field_of_a_lost_gpu_is_an_error_and_no_missing_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(Nvml.NVML_ERROR_GPU_IS_LOST))
    with pytest.raises(Nvml.NVMLError):
        gpu_facts.device(0)
