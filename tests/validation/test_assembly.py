"""Is a server built as planned? Machine facts of a DGX H100 as its catalogue entry has it, and one thing wrong at a time."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from inventory.catalog.loading import load_catalog
from tests.plans import plan_of
from validation import assembly
from validation.check import Outcome
from validation.checks import test_assembly as checks
from validation.facts import Answer, Facts

DGX = load_catalog().device("nvidia-dgx-h100")
TRAY = load_catalog().device("nvidia-gb300-compute-tray")
VIRTUAL = load_catalog().device("lab-virtual-node")
GPUS = [f"0000:{bus:02x}:00.0" for bus in range(0x10, 0x18)]
NICS = [f"0000:{bus:02x}:00.0" for bus in range(0x20, 0x28)]
GUIDS = {port: f"b8cef60300{rail:06x}" for rail, port in enumerate(DGX.bringup.fabric_ports)}
ESPS = ("5b3a8f5e-0a4b-4a3e-9a55-0d6f2f8b7c01", "5b3a8f5e-0a4b-4a3e-9a55-0d6f2f8b7c02")

HEALTHY = Path(__file__).parent / "data" / "healthy.json"
Change = Callable[[dict[str, Any]], None]


def link(path: list[str], width: int = 16, speed_gts: float = 32.0, numa: int = 0) -> dict[str, Any]:
    return {
        "path": path,
        "numa": numa,
        "width": width,
        "max_width": width,
        "speed_gts": speed_gts,
        "max_speed_gts": speed_gts,
    }


DRIVES = {place: f"S{n}" for n, place in enumerate(("boot0", "boot1", *(f"data{n}" for n in range(8))))}
"""Delivered serial numbers by their names in the asset list."""


def dgx() -> dict[str, Any]:
    """Four PCIe switches with two GPUs and two adapters each; two processors of eight channels with two modules each."""
    pcie = {}
    for place, address in [*enumerate(GPUS), *enumerate(NICS)]:
        switch = place // 2
        bridges = [f"0000:0{switch}:01.0", f"0000:4{switch}:00.0", f"0000:5{switch}:{int(address[5:7], 16):02x}.0"]
        pcie[address] = link([*bridges, address], numa=switch // 2)
    drives = []
    for number in range(10):
        address = f"0000:{0x30 + number:02x}:00.0"
        pcie[address] = link(["0000:00:02.0", address], width=4)
        boot = number < 2
        drives.append(
            {
                "name": f"nvme{number}",
                "pcie": address,
                "model": "boot drive" if boot else "data drive",
                "serial": f"S{number}",
                "firmware": "1.0" if boot else "2.0",
                "size_b": 1_920_383_410_176 if boot else 3_840_755_982_336,
                "critical_warning": 0,
                "percent_used": 0,
                "media_errors": 0,
            }
        )
    slots = [
        {
            "locator": f"DIMM {number}",
            "bank": "",
            "size_mib": 64 * 1024,
            "speed_mts": 4800,
            "configured_mts": 4400,
            "serial": f"M{number}",
            "part": "",
        }
        for number in range(32)
    ]
    controllers = [
        {
            "name": f"mc{number}",
            "corrected": 0,
            "uncorrected": 0,
            "modules": [
                {"location": f"channel {channel} slot {slot}", "size_mib": 64 * 1024}
                for channel in range(2)
                for slot in range(2)
            ],
        }
        for number in range(8)
    ]
    members = [{"partition": f"nvme{n}n1p2", "disk": f"nvme{n}n1", "state": "in_sync"} for n in range(2)]
    loaders = {"EFI/BOOT/BOOTX64.EFI": "a" * 64}
    return {
        "container": "",
        "errors": {},
        "memory": slots,
        "controllers": controllers,
        "pcie": pcie,
        "adapters": {
            f"mlx5_{rail}": {"pcie": address, "guid": GUIDS[port]}
            for rail, (port, address) in enumerate(zip(GUIDS, NICS, strict=True))
        },
        "interfaces": {},
        "drives": drives,
        "arrays": [{"name": "md0", "level": "raid1", "state": "clean", "disks": 2, "degraded": 0, "members": members}],
        "boot": {
            "firmware": "uefi",
            "partitions": [
                {"name": f"nvme{n}n1p1", "disk": f"nvme{n}n1", "uuid": ESPS[n], "loaders": loaders} for n in range(2)
            ],
            "entries": [{"id": f"000{n}", "partition": ESPS[n], "active": True} for n in range(2)],
        },
    }


JUDGES: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "memory": lambda machine: assembly.memory_faults(machine, DGX),
    "drives": lambda machine: assembly.drive_faults(machine, DGX, None, DRIVES),
    "mirror": lambda machine: assembly.mirror_faults(machine, DGX),
    "risers": lambda machine: assembly.riser_faults(machine, DGX, GPUS),
    "adapters": lambda machine: assembly.adapter_faults(machine, DGX, GPUS, GUIDS),
}


@pytest.mark.parametrize("judge", JUDGES.values(), ids=JUDGES)
def test_a_server_built_as_its_catalogue_entry_has_no_fault(judge: Callable[[dict[str, Any]], Iterator[str]]):
    assert list(judge(dgx())) == []


def module_gone(machine: dict[str, Any]) -> None:
    machine["memory"][5]["size_mib"] = 0
    machine["controllers"][1]["modules"][1]["size_mib"] = 0


def module_moved(machine: dict[str, Any]) -> None:
    """The number is right; two modules of one channel are in another."""
    modules = machine["controllers"][1]["modules"]
    modules[2]["location"] = modules[3]["location"] = "channel 0 slot 2"


def entry_of(second: str) -> Change:
    def change(machine: dict[str, Any]) -> None:
        machine["boot"]["entries"][1] |= {"partition": second}

    return change


def change_of(*path: Any, value: Any) -> Change:
    def change(machine: dict[str, Any]) -> None:
        place: Any = machine
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


FAULTS: list[tuple[str, Change, str]] = [
    ("memory", module_gone, "31 memory modules, planned 32"),
    ("memory", module_gone, "channel mc1 channel 0 has 64 GiB, others 128 GiB"),
    ("memory", module_moved, "15 memory channels have modules, planned 16"),
    ("memory", change_of("memory", 3, "size_mib", value=32 * 1024), "DIMM 3 has 32 GiB, planned 64"),
    ("memory", change_of("memory", 3, "configured_mts", value=4000), "DIMM 3 runs at 4000 MT/s, planned 4400"),
    ("memory", change_of("memory", 3, "serial", value="M4"), "2 memory modules say the serial number M4"),
    ("memory", change_of("controllers", 2, "corrected", value=9), "mc2 counts 9 corrected and 0 uncorrected errors"),
    ("memory", change_of("controllers", value=[]), "the kernel shows no memory controller"),
    ("drives", change_of("drives", 3, "critical_warning", value=4), "nvme3 (data drive, serial S3) warns"),
    ("drives", change_of("pcie", "0000:33:00.0", "width", value=2), "link of x2, planned x4"),
    ("drives", change_of("drives", 3, "size_b", value=1_920_383_410_176), "7 of 8 data drives of 3.84 TB"),
    ("drives", change_of("drives", 3, "size_b", value=1_920_383_410_176), "of 1.92 TB is not planned"),
    ("drives", change_of("drives", 3, "firmware", value="2.1"), "data drive: firmware 2.0, 2.1 on one server"),
    ("drives", change_of("drives", 3, "serial", value="S4"), "2 drives say the serial number 'S4'"),
    ("mirror", change_of("arrays", value=[]), "no RAID 1 of the kernel"),
    ("mirror", change_of("arrays", 0, "degraded", value=1), "md0 lacks 1 members"),
    ("mirror", change_of("arrays", 0, "state", value="inactive"), "md0 is inactive"),
    ("mirror", change_of("arrays", 0, "members", 1, "state", value="faulty"), "1 disks in sync of 2, planned 2"),
    ("mirror", change_of("arrays", 0, "members", 1, "disk", value="nvme0n1"), "1 disks in sync of 2, planned 2"),
    ("mirror", change_of("boot", "partitions", 1, "loaders", value={}), "nvme1n1 has no EFI system partition with"),
    ("mirror", entry_of("00000000-0000-0000-0000-000000000000"), "no boot entry of the firmware starts from nvme1n1"),
    ("mirror", change_of("boot", "entries", 1, "active", value=False), "no boot entry of the firmware starts from"),
    (
        "mirror",
        change_of("boot", "partitions", 1, "loaders", value={"EFI/BOOT/BOOTX64.EFI": "b" * 64}),
        "the boot programs on nvme0n1 and nvme1n1 differ",
    ),
    ("mirror", change_of("boot", "firmware", value="bios"), "it started in BIOS mode"),
    ("risers", change_of("pcie", GPUS[2], "width", value=8), "GPU 0000:12:00.0 has a link of x8, planned x16"),
    (
        "risers",
        change_of("pcie", GPUS[2], "path", value=["0000:00:01.0", "0000:40:00.0", "0000:50:09.0", GPUS[2]]),
        "GPUs behind PCIe switches: [1, 2, 2, 3], planned [2, 2, 2, 2]",
    ),
    ("adapters", change_of("pcie", NICS[1], "width", value=8), "ib1 (mlx5_1, 0000:21:00.0) runs at 32 GT/s x8"),
    ("adapters", change_of("pcie", NICS[1], "speed_gts", value=16.0), "runs at 16 GT/s x16, planned 32 GT/s x16"),
    ("adapters", change_of("adapters", "mlx5_1", "guid", value="0" * 16), f"no adapter has the GUID {GUIDS['ib1']}"),
    (
        "adapters",
        lambda machine: machine["adapters"].update(
            mlx5_1={"pcie": NICS[6], "guid": GUIDS["ib1"]}, mlx5_6={"pcie": NICS[1], "guid": GUIDS["ib6"]}
        ),
        "ib1 (mlx5_1, 0000:26:00.0) is behind another PCIe switch than the GPU of its rail, 0000:11:00.0",
    ),
]


@pytest.mark.parametrize(("judge", "change", "said"), FAULTS, ids=[said for _, _, said in FAULTS])
def test_each_fault_is_named(judge: str, change: Change, said: str):
    machine = dgx()
    change(machine)
    faults = list(JUDGES[judge](machine))
    assert any(said in fault for fault in faults), faults


def test_a_pinned_drive_firmware_holds_for_every_model():
    faults = list(assembly.drive_faults(dgx(), DGX, "2.0", DRIVES))
    assert faults == ["boot drive: firmware 1.0, pinned 2.0"]


def test_soldered_memory_has_no_modules_to_count():
    machine = dgx()
    machine["memory"], machine["controllers"] = [], machine["controllers"][:1]
    assert list(assembly.memory_faults(machine, TRAY)) == []


def test_on_a_board_without_switches_rail_and_gpu_share_a_numa_node():
    ports = TRAY.bringup.fabric_ports
    guids = {port: GUIDS[f"ib{rail}"] for rail, port in enumerate(ports)}
    machine = dgx()
    for rail in range(len(ports)):
        for address in (GPUS[rail], NICS[rail]):
            machine["pcie"][address] = link([f"0000:0{rail}:00.0", address], speed_gts=64.0, numa=rail // 2)
    gpus = GPUS[: len(ports)]
    assert list(assembly.adapter_faults(machine, TRAY, gpus, guids)) == []
    machine["pcie"][GPUS[0]]["numa"] = 1
    (fault,) = assembly.adapter_faults(machine, TRAY, gpus, guids)
    assert fault == f"ib0 (mlx5_0, {NICS[0]}) is on NUMA node 0, the GPU of its rail, {GPUS[0]}, on 1"


# ---- the checks ------------------------------------------------------------------------------------------------------
SERVER = "gpu001"


def outcome_of(machine: dict[str, Any], delivered: Mapping[str, str] = DRIVES) -> Outcome:
    lab = plan_of("lab")
    plan = dataclasses.replace(lab, devices=lab.devices.assign(model=DGX.slug))
    facts = Facts(nodes={SERVER: Answer(SERVER, "ssh", {"machine": machine})})
    return checks.test_drives_are_as_planned_and_healthy(SERVER, plan, facts, lambda server: delivered)


def test_a_check_gives_what_it_judged_and_fails_by_name():
    good = outcome_of(dgx())
    assert good.passed
    assert [drive["serial"] for drive in cast(dict[str, Any], good.value)["drives"]] == [
        f"S{number}" for number in range(10)
    ]
    machine = dgx()
    machine["drives"][0]["critical_warning"] = 1
    assert outcome_of(machine).detail == "nvme0 (boot drive, serial S0) warns (critical warning 0x01)"


def test_all_drives_are_those_of_the_asset_list():
    said = outcome_of(dgx(), {**DRIVES, "data3": "S99"}).detail
    assert said == (
        "no drive has the serial number S99 of data3 in assets.csv; nvme5 (data drive, serial S5) is not in assets.csv"
    )
    boot = {place: serial for place, serial in DRIVES.items() if place.startswith("boot")}
    assert outcome_of(dgx(), {**boot, "data0": "S2"}).detail == (
        f"assets.csv has no line {', '.join(f'DEVICE:data{n}' for n in range(1, 8))} with the delivered serial number"
    )


def virtual(width: int = 1) -> dict[str, Any]:
    """The machine of the demo: two drives and eight cards behind four switches, each link of one lane."""
    machine = dgx()
    machine["drives"] = [{**drive, "size_b": 3 * 2**30} for drive in machine["drives"][:2]]
    for place in machine["pcie"].values():
        place["width"] = place["max_width"] = width
    return machine


def test_the_links_of_an_emulated_machine_have_the_lanes_that_its_entry_says():
    assert list(assembly.drive_faults(virtual(), VIRTUAL, None, {"boot0": "S0", "boot1": "S1"})) == []
    assert list(assembly.riser_faults(virtual(), VIRTUAL, GPUS)) == []


def test_an_emulated_device_without_a_link_is_named():
    assert "nvme0 (boot drive, serial S0) has a link of x0, planned x1" in assembly.drive_faults(
        virtual(0), VIRTUAL, None, {}
    )
    assert f"GPU {GPUS[0]} has a link of x0, planned x1" in assembly.riser_faults(virtual(0), VIRTUAL, GPUS)


def test_no_server_that_is_sold_has_emulated_links():
    emulated = [device.slug for device in load_catalog().devices.values() if device.bringup.emulated_lanes]
    assert emulated == [VIRTUAL.slug]
    assert VIRTUAL.manufacturer == "Bringup"


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (
            {"error": "gpu001: run a Python program: no end within 120 s", "error_kind": "DeviceTimeout"},
            "no end within",
        ),
        ({"container": "", "errors": {"drives": "RuntimeError: nvme is not installed"}}, "nvme is not installed"),
        ({"container": "", "errors": {}}, "drives could not be read: nothing came"),
    ],
)
def test_what_could_not_be_read_is_no_pass(machine: dict[str, Any], said: str):
    outcome = outcome_of(machine)
    assert not outcome.passed
    assert said in outcome.detail


def test_a_container_is_not_judged_by_the_hardware_of_its_host():
    with pytest.raises(pytest.skip.Exception, match="it shows the hardware of its host"):
        outcome_of({"container": "systemd-nspawn", "errors": {}})


def thermal(**changes: Any) -> dict[str, Any]:
    fan = {"chassis": "1", "name": "Fan 1", "state": "Enabled", "health": "OK", "rpm": 8000, "percent": 50}
    air = [
        {"chassis": "1", "name": "Inlet", "context": "Intake", "celsius": 24.0, "health": "OK"},
        {"chassis": "1", "name": "Exhaust", "context": "Exhaust", "celsius": 40.0, "health": ""},
    ]
    return {"fans": [fan, {**fan, "name": "Fan 2"}], "temperatures": air, **changes}


def fans_of(said: dict[str, Any], *others: dict[str, Any]) -> Outcome:
    """What the check says of a server; `others` are what the BMCs of the servers of its model say."""
    plan, beside = plan_of("lab"), {"power_supplies": {"consumed_w": 6000.0}}
    names = plan.devices.loc[plan.devices["role"] == "gpu", "name"]
    bmcs = {name: Answer(name, "redfish", {**beside, **one}) for name, one in zip(names, (said, *others), strict=False)}
    most = assembly.most_fans(plan, {name: bmc.data for name, bmc in bmcs.items()})
    return checks.test_fans_turn_and_the_air_leaves_warmer(SERVER, plan, Facts(bmcs=bmcs), most)


def test_a_fan_that_a_server_of_the_model_shows_and_this_one_does_not_is_missing():
    one = {"thermal": thermal(fans=thermal()["fans"][:1])}
    absent = {"thermal": thermal(fans=[thermal()["fans"][0], {**thermal()["fans"][1], "state": "Absent"}])}
    for said in (one, absent):
        outcome = fans_of(said, {"thermal": thermal()})
        assert not outcome.passed
        assert "the BMC shows 1 fans, that of gpu002, of the same model, 2" in outcome.detail
        assert fans_of(said, one).passed


def test_turning_fans_and_warmer_exhaust_pass():
    outcome = fans_of({"thermal": thermal()})
    assert outcome.passed
    value = cast(dict[str, Any], outcome.value)
    assert (value["inlet_c"], value["outlet_c"]) == (24.0, 40.0)


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"thermal": thermal(fans=[])}, "the BMC shows no fan"),
        ({"thermal": thermal(fans=[{**thermal()["fans"][0], "rpm": 0, "percent": 0}])}, "fans that do not turn: Fan 1"),
        ({"thermal": thermal(fans=[{**thermal()["fans"][0], "health": "Critical"}])}, "Fan 1 is Enabled, Critical"),
        ({"thermal": thermal(temperatures=[])}, "does not tell the temperature of the air"),
        (
            {"thermal": thermal(temperatures=[{**one, "celsius": 30.0} for one in thermal()["temperatures"]])},
            "look for fans that blow the other way",
        ),
        ({"thermal_unread": "gpu001: read temperatures: no chassis"}, "no chassis"),
        ({}, "it was not asked for fans and temperatures"),
    ],
)
def test_air_that_does_not_move_as_it_should_fails(said: dict[str, Any], named: str):
    outcome = fans_of(said)
    assert not outcome.passed
    assert named in outcome.detail


def test_gpu_addresses_are_those_of_the_kernel():
    facts = Facts.read(HEALTHY)
    assert checks.gpu_addresses(facts.nodes[SERVER])[:2] == ["0000:1b:00.0", "0000:43:00.0"]
