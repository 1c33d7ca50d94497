"""Lanes, memory and drives of server models."""

from typing import Literal

import pytest

from capacity.space import server_design
from inventory.catalog import Board, Drives, LaneSwitch, Memory, load_catalog

SERVERS = ("nvidia-dgx-h100", "nvidia-dgx-b200", "nvidia-gb300-compute-tray", "lab-gpu-node")


@pytest.mark.parametrize("slug", SERVERS)
def test_shipped_models_have_no_fault(slug: str) -> None:
    model = load_catalog().device(slug)
    assert model.bringup.memory is not None
    assert server_design.board_faults(model) == []
    assert server_design.memory_faults(model.bringup.memory, model.bringup.cpus, model.bringup.memory_gib) == []
    assert [fault for d in model.bringup.drives for fault in server_design.drive_faults(d)] == []


def test_budget_of_a_board_by_hand() -> None:
    # Four switches with x16 up; behind each two GPUs, two NICs (64) and two drives (8): 72. On the CPUs 64 + 40 = 104.
    board = Board(
        cpu_lanes=80,
        pcie_gen=5,
        direct={"inband": 32, "boot": 8},
        switches=(LaneSwitch(count=4, up_lanes=16, down={"gpu": 32, "nic": 32, "drive": 8}),),
    )
    budget = server_design.lane_budget(board, 2)
    assert (budget.needed, budget.processors, budget.used) == (328, 160, 104)
    assert budget.oversubscription == (4.5,)
    assert budget.switches_needed
    assert budget.fits


def test_gpus_at_x8_are_a_fault() -> None:
    model = load_catalog().device("nvidia-dgx-h100")
    board = Board(cpu_lanes=80, pcie_gen=5, direct={"gpu": 64, "nic": 128})
    halved = model.model_copy(update={"bringup": model.bringup.model_copy(update={"board": board})})
    faults = server_design.board_faults(halved)
    assert "64 lanes for 8 gpus, 128 needed at x16" in faults
    assert any("192 lanes on processors that have 160" in fault for fault in faults)


def test_unequal_channels_name_what_fits() -> None:
    """ERR-44."""
    faults = server_design.memory_faults(Memory(dimm_gib=64, dimms=16, channels=12), 2, 1024)
    assert faults == ["16 modules on 24 channels leave channels unequal: take 24"]
    assert server_design.memory_faults(Memory(dimm_gib=64, dimms=72, channels=12), 2, 72 * 64)
    board = Memory(dimm_gib=64, dimms=16, channels=8, per_channel=2)
    assert server_design.balanced_gib(board, 2) == [1024, 2048]


def test_unequal_channels_never_name_more_modules_than_there_are_slots() -> None:
    for modules in (30, 60):
        faults = server_design.memory_faults(
            Memory(dimm_gib=64, dimms=modules, channels=12, per_channel=1), 2, modules * 64
        )
        assert faults == [f"{modules} modules on 24 channels leave channels unequal: take 24"]


def test_module_sizes_that_do_not_add_up_are_a_fault() -> None:
    assert server_design.memory_faults(Memory(dimm_gib=32, dimms=32, channels=8), 2, 2048) == [
        "32 modules of 32 GiB are 1024 GiB, the entry says 2048"
    ]


@pytest.mark.parametrize(("count", "level"), [(1, "1"), (3, "1"), (2, "5"), (3, "10")])
def test_arrays_that_cannot_be_made(count: int, level: Literal["1", "5", "10"]) -> None:
    assert server_design.drive_faults(Drives(use="data", count=count, tb=1, raid=level))


def test_endurance_of_a_mirror_is_that_of_one_drive() -> None:
    mirror = Drives(use="boot", count=2, tb=2, raid="1", dwpd=1)
    assert server_design.endurance_tb_per_day(mirror) == 2


def test_checkpoints_written_a_day() -> None:
    # 2.45 TB over 1,000 servers every 30 minutes: 48 x 2.45 GB.
    assert server_design.checkpoint_tb_per_day(2.45, 1000, 30) == pytest.approx(0.1176)
