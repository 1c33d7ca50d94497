"""Judging GPUs: one finding per cause, with node, slot and serial; recordings of whole sites are in data/."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from capacity.model import Plan
from inventory.findings_registry import registry
from tests.findings import names
from tests.plans import plan_of
from validation import gpu_health
from validation.gpu_health import (
    Listed,
    Wanted,
    address,
    hardware_xids,
    is_hardware,
    listed_on,
    of_gpu,
    of_node,
    untold,
    wanted_of,
)

HEALTHY = Path(__file__).parent / "data" / "healthy.json"
DRIVER = "580.95.05"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


@pytest.fixture(scope="module")
def wanted(plan: Plan) -> Wanted:
    return wanted_of(plan)


@pytest.fixture(scope="module")
def listed(plan: Plan) -> list[Listed]:
    return listed_on(plan.gpus, "gpu001")


@pytest.fixture
def reading() -> dict[str, Any]:
    return deepcopy(json.loads(HEALTHY.read_text())["nodes"]["gpu001"]["data"]["gpus"])


def test_a_healthy_node_has_no_finding(reading, listed, wanted):
    assert of_node("gpu001", reading, listed, wanted, DRIVER) == []


@pytest.mark.parametrize(
    ("changes", "finding", "named"),
    [
        ({"ecc": {"enabled": True, "uncorrected": 3}}, "GPU-ECC", ["3 uncorrectable"]),
        ({"ecc": {"enabled": False, "uncorrected": 0}}, "GPU-ECC", ["off"]),
        ({"inforom": "G520.0100"}, "GPU-FIRMWARE", ["inforom G520.0100", "inforom G520.0200.00.05"]),
        ({"recovery_action": 2}, "GPU-XID", ["driver", "node reboot"]),
        (
            {"clocks": {"reasons": ["sw_thermal_slowdown"]}, "temperature": {"gpu_c": 91, "slowdown_c": 92}},
            "GPU-THERMAL",
            ["sw_thermal_slowdown", 91, 92],
        ),
        (
            {"clocks": {"reasons": ["sw_thermal_slowdown"]}, "temperature": {"gpu_c": None, "slowdown_c": 92}},
            "GPU-THERMAL",
            ["sw_thermal_slowdown", "temperatures"],
        ),
        ({"temperature": {"gpu_c": 93, "slowdown_c": 92}}, "GPU-THERMAL", [93, 92, "yet"]),
        (
            {"temperature": {"gpu_c": 89, "slowdown_c": None, "margin_c": -2, "slowdown_margin_c": -2}},
            "GPU-THERMAL",
            ["-2 °C from its temperature limit", "yet"],
        ),
        ({"clocks": {"reasons": ["hw_power_brake"]}}, "GPU-POWER-BRAKE", ["power brake"]),
        ({"pcie": {"width": 8, "generation": 5, "max_generation": 5}}, "GPU-PCIE", ["x8", "x16"]),
        ({"pcie": {"width": 16, "generation": 5, "max_generation": 5, "fatal": 2}}, "GPU-PCIE", ["2 fatal"]),
        (
            {"pcie": {"width": 8, "generation": 5, "max_generation": 5, "non_fatal": 3}},
            "GPU-PCIE",
            ["x8", "x16", "3 non-fatal"],
        ),
        ({"nvlinks": {"up": 17, "down": [7], "errors": {}}}, "GPU-NVLINK", [7, "down"]),
        ({"nvlinks": {"up": 16, "down": [], "errors": {}}}, "GPU-NVLINK", [16, 18]),
    ],
)
def test_a_sick_gpu_has_the_finding_of_its_cause_alone(reading, wanted, changes, finding, named):
    (found,) = of_gpu("gpu001", {**reading["devices"][3], **changes}, wanted)
    assert (found.id, found.subject, found.ports) == (finding, "gpu001", ("gpu001:slot4",))
    assert names(found, "slot 4", "SIM-GPU-1004", *named)
    assert found.remedies


def test_a_gpu_with_margin_left_is_not_hot_and_needs_no_slowdown_temperature(reading, wanted):
    told = {"gpu_c": 89, "memory_c": 80, "slowdown_c": None, "shutdown_c": None, "margin_c": 3, "slowdown_margin_c": -2}
    assert of_gpu("gpu001", {**reading["devices"][3], "temperature": told}, wanted) == []
    reading["devices"][3]["temperature"] = told
    assert not [text for text in untold("gpu001", reading) if "slowdown" in text]


@pytest.mark.parametrize(
    ("rows", "fix"), [({"pending": 0, "failed": 1}, "replace"), ({"pending": 1, "failed": 0}, "reset")]
)
def test_a_row_that_cannot_be_remapped_asks_for_another_gpu_and_one_that_waits_for_a_reset(reading, wanted, rows, fix):
    (found,) = of_gpu("gpu001", {**reading["devices"][3], "remapped_rows": rows}, wanted)
    assert (found.id, found.ports) == ("GPU-ROW-REMAP", ("gpu001:slot4",))
    assert [one.text for one in found.remedies] == [registry()["GPU-ROW-REMAP"].fixes[fix]]


@pytest.mark.parametrize("reasons", [["gpu_idle"], ["sw_power_cap"], ["applications_clocks", "sync_boost"], [], None])
def test_reasons_that_are_normal_are_no_finding(reading, wanted, reasons):
    assert of_gpu("gpu001", {**reading["devices"][0], "clocks": {"reasons": reasons}}, wanted) == []


def test_an_idle_link_may_run_at_a_lower_generation_and_a_busy_one_may_not(reading, wanted):
    gpu = {**reading["devices"][0], "pcie": {"width": 16, "generation": 1, "max_generation": 5}}
    assert of_gpu("gpu001", gpu, wanted) == []
    (found,) = of_gpu("gpu001", {**gpu, "clocks": {"reasons": ["sw_power_cap"]}}, wanted)
    assert names(found, "generation", 1, 5)


def test_a_pending_row_explains_the_memory_error_and_the_reset_that_is_asked_for(reading, wanted):
    changes = {
        "remapped_rows": {"pending": 1, "failed": 0},
        "ecc": {"enabled": True, "uncorrected": 1},
        "recovery_action": 1,
    }
    found = of_gpu("gpu001", {**reading["devices"][0], **changes}, wanted, [48, 94])
    assert [finding.id for finding in found] == ["GPU-ROW-REMAP"]


def test_a_hardware_xid_of_the_kernels_log_is_given_to_its_gpu(reading, listed, wanted):
    reading["xids"] = [
        {"pci_bus_id": "0000:52:00", "xid": 95, "text": "uncontained"},
        {"pci_bus_id": "0000:52:00", "xid": 95, "text": "again"},
        {"pci_bus_id": "0000:1b:00", "xid": 13, "text": "a program's fault"},
    ]
    (found,) = of_node("gpu001", reading, listed, wanted, DRIVER)
    assert (found.id, found.ports) == ("GPU-XID", ("gpu001:slot3",))
    assert names(found, 95)


@pytest.mark.parametrize(
    ("xid", "hardware"), [(13, False), (31, False), (63, False), (48, True), (79, True), (999, True)]
)
def test_xids_that_a_program_causes_do_not_count_against_the_gpu(xid, hardware):
    assert is_hardware(xid) is hardware
    assert hardware_xids([{"pci_bus_id": "0000:1b:00", "xid": xid}]) == {"0000:1b:00": [xid] if hardware else []}


TRAY = ("00000008:01:00.0", "00000009:01:00.0", "00000018:01:00.0", "00000019:01:00.0")
"""The four GPUs of a GB200 compute tray as `nvidia-smi` has them. The two of a superchip report the serial of their board, and
their modules are 2, 1, 4, 3 (NVIDIA/k8s-test-infra pull request 727). Modelled: not read by this project."""


def tray(reading: dict[str, Any]) -> list[Listed]:
    """Makes a reading that of a tray; returns the list that belongs to it."""
    reading["count"] = 4
    reading["devices"] = reading["devices"][:4]
    for gpu, at, module in zip(reading["devices"], TRAY, (2, 1, 4, 3), strict=True):
        gpu |= {"pci_bus_id": at, "module_id": module, "serial": f"16502250000{gpu['index'] // 2}"}
    return [Listed(str(g["module_id"]), g["serial"], g["uuid"], g["pci_bus_id"]) for g in reading["devices"]]


def test_two_gpus_of_a_superchip_share_a_serial_and_are_told_apart(reading, wanted):
    listed = tray(reading)
    assert of_node("gpu001", reading, listed, wanted, DRIVER) == []
    del reading["devices"][1]
    reading["count"] = 3
    (found,) = of_node("gpu001", reading, listed, wanted, DRIVER)
    assert (found.id, found.ports) == ("GPU-LOST", ("gpu001:slot1",))


def test_an_xid_of_one_gpu_of_a_gb300_tray_is_not_given_to_its_three_neighbours(reading, wanted):
    listed = tray(reading)
    reading["xids"] = [{"pci_bus_id": "0009:01:00", "xid": 95, "text": "uncontained"}]
    (found,) = of_node("gpu001", reading, listed, wanted, DRIVER)
    assert (found.id, found.ports) == ("GPU-XID", ("gpu001:slot1",))


RESET = {"xid": 154, "text": "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"}
ASKED = {"xid": 154, "text": "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"}


@pytest.mark.parametrize(
    ("events", "left"),
    [
        ([{"xid": 95}, ASKED], [95]),
        ([{"xid": 95}, ASKED, RESET], []),
        ([{"xid": 95}, ASKED, RESET, {"xid": 119}], [119]),
    ],
)
def test_a_reset_clears_the_xids_before_it(events, left):
    assert hardware_xids([{"pci_bus_id": "0000:1b:00", **one} for one in events]) == {"0000:1b:00": left}


def test_a_reset_of_one_gpu_clears_no_other():
    log = [{"pci_bus_id": "0008:01:00", "xid": 95}, {"pci_bus_id": "0009:01:00", **RESET}]
    assert hardware_xids(log) == {"0008:01:00": [95], "0009:01:00": []}


@pytest.mark.parametrize(
    ("said", "normal"),
    [
        ("00000000:1B:00.0", "0000:1b:00"),
        ("0000:1b:00", "0000:1b:00"),
        ("1b:00", "0000:1b:00"),
        ("00010000:03:00.0", "10000:03:00"),
        (":::", ":::"),
        ("", ""),
    ],
)
def test_pci_addresses_of_nvml_and_of_the_kernel_are_the_same_text(said, normal):
    assert address(said) == normal


def test_a_gpu_that_is_gone_after_a_reboot_is_named_by_slot_and_serial(reading, listed, wanted):
    reading["devices"] = [gpu for gpu in reading["devices"] if gpu["index"] != 4]
    reading["count"] = 7
    (found,) = of_node("gpu001", reading, listed, wanted, DRIVER)
    assert (found.id, found.ports) == ("GPU-LOST", ("gpu001:slot5",))
    assert names(found, "SIM-GPU-1005")
    assert names(found, 7, 8)


def test_two_gpus_that_changed_places_are_two_findings(reading, listed, wanted):
    one, other = reading["devices"][0], reading["devices"][1]
    one["serial"], other["serial"] = other["serial"], one["serial"]
    one["uuid"], other["uuid"] = other["uuid"], one["uuid"]
    found = of_node("gpu001", reading, listed, wanted, DRIVER)
    assert [(finding.id, finding.ports) for finding in found] == [
        ("GPU-IDENTITY", ("gpu001:slot1",)),
        ("GPU-IDENTITY", ("gpu001:slot2",)),
    ]
    assert names(found[0], "slot 1", 2)


@pytest.mark.parametrize(
    ("kind", "fix"),
    [
        ("LibraryNotFound", "libraries"),
        ("DriverNotLoaded", "module"),
        ("LibRmVersionMismatch", "reboot"),
        ("Hang", "xid-and-reboot"),
        ("Garbage", "nvidia-smi"),
    ],
)
def test_a_node_whose_gpus_cannot_be_asked_is_one_finding_that_says_what_to_do(reading, listed, wanted, kind, fix):
    answer = {**reading, "error": "said so", "error_kind": kind, "devices": [], "count": 0}
    (found,) = of_node("gpu001", answer, listed, wanted, DRIVER)
    assert found.id == "GPU-UNREADABLE"
    assert names(found, kind, "said so")
    assert [one.text for one in found.remedies] == [registry()["GPU-UNREADABLE"].fixes[fix]]


def test_without_a_list_of_gpus_health_is_still_judged(reading, wanted):
    reading["devices"][0]["vbios"] = "other"
    reading["devices"][5] = {"index": 5, "error": "GPU is lost", "error_kind": "GpuIsLost"}
    found = of_node("gpu001", reading, [], wanted, DRIVER)
    assert [(f.id, f.ports) for f in found] == [("GPU-LOST", ("gpu001:gpu5",)), ("GPU-FIRMWARE", ("gpu001:slot1",))]


def test_every_xid_of_the_table_is_in_one_class():
    numbers = [xid for known in gpu_health.xid_classes().values() for xid in known]
    assert len(numbers) == len(set(numbers))
