"""Firmware of the demo's servers: bundles that are made for them, and roll-outs over BMCs in memory."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from capacity.services.boot.life import Life
from infra.lab import bmc_firmware, firmware_image
from infra.lab.bmc_firmware import Updates
from infra.lab.paths import LabError
from infra.lab.planned import components
from infra.metal import firmware
from infra.metal.demo import due_for_firmware
from network.drivers.errors import UpdateFailed

ITEMS = {"BIOS": "1.0.0", "BMC": "1.0.0", **dict(components([(1, "96.0"), (2, "96.0")], 1))}


def bmc_data() -> dict[str, Any]:
    return {"firmware": dict(ITEMS), "firmware_pending": {}, "updates": {}, "update_hangs": False}


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bmc_firmware, "UPDATE_S", 0.0)


def ended(bmc: dict[str, Any], number: str) -> str:
    for _ in range(1000):
        if (state := str(bmc["updates"][number]["state"])) != "Running":
            return state
        threading.Event().wait(0.005)
    return "Running"


def test_new_firmware_of_gpus_and_adapters_runs_after_the_next_start_of_the_server() -> None:
    bmc, seen = bmc_data(), list[dict[str, str]]()
    updates = Updates("gpu001", bmc, threading.RLock(), changed=lambda new: seen.append(dict(new)))
    assert ended(bmc, updates.begin({"HGX_FW_GPU_SXM_1": "97.0", "NIC_1": "28.9", "BMC": "1.1.0"}, "")) == "Completed"
    assert bmc["firmware"] == ITEMS, "installed, not in effect"
    updates.host_starts()
    assert {k: v for k, v in bmc["firmware"].items() if v != ITEMS[k]} == {"HGX_FW_GPU_SXM_1": "97.0", "NIC_1": "28.9"}
    updates.bmc_starts()
    assert (bmc["firmware"]["BMC"], bmc["updates"]) == ("1.1.0", {})
    assert seen == [{"HGX_FW_GPU_SXM_1": "97.0", "NIC_1": "28.9"}, {"BMC": "1.1.0"}]


def test_a_refused_update_changes_nothing_and_two_at_once_are_refused() -> None:
    bmc = bmc_data()
    updates = Updates("gpu001", bmc, threading.RLock())
    assert ended(bmc, updates.begin({"BIOS": "2"}, "Update.1.0.VerificationFailed")) == "Exception"
    updates.host_starts()
    assert bmc["firmware"] == ITEMS
    bmc["update_hangs"] = True
    updates.begin({"BIOS": "2"}, "")
    with pytest.raises(LabError, match="is under way"):
        updates.begin({"BIOS": "3"}, "")


def test_a_bundle_brings_each_item_of_its_packages_and_keeps_the_delivered_release(tmp_path: Path) -> None:
    made = firmware.bundle(tmp_path, "lab-gpu-node", ITEMS)
    assert [package.name for package in made.packages] == ["BMC", "BIOS", "GPU", "NIC"]
    gpu = made.packages[2]
    assert gpu.items(ITEMS) == dict.fromkeys(
        ("HGX_FW_GPU_SXM_1", "HGX_FW_GPU_SXM_2"), ("96.0", firmware.VERSIONS["GPU"])
    )
    assert gpu.previous is not None
    assert gpu.previous.behind(ITEMS) == {}
    assert (
        firmware_image.read(gpu.image.path.read_bytes(), "lab-gpu-node")["HGX_FW_GPU_SXM_2"] == firmware.VERSIONS["GPU"]
    )
    assert all(package.image.fault() == "" for package in made.packages)


def test_an_altered_image_has_the_hash_of_its_bundle_and_is_refused_by_the_bmc(tmp_path: Path) -> None:
    (package,) = firmware.bundle(tmp_path, "m", ITEMS, ["NIC"], altered="NIC").packages
    assert package.image.fault() == ""
    with pytest.raises(ValueError, match="altered"):
        firmware_image.read(package.image.path.read_bytes(), "m")


def test_a_wrong_image_brings_another_version_than_its_bundle_says(tmp_path: Path) -> None:
    (package,) = firmware.bundle(tmp_path, "m", ITEMS, ["GPU"], wrong="GPU").packages
    assert firmware_image.read(package.image.path.read_bytes(), "m")["HGX_FW_GPU_SXM_1"] != firmware.VERSIONS["GPU"]


class Server:
    """A BMC in memory whose updates take effect at once."""

    def __init__(self, name: str, refuses: bool = False) -> None:
        self.name, self.refuses, self.versions = name, refuses, {"NIC_1": "1"}

    def firmware(self) -> dict[str, str]:
        return dict(self.versions)

    def firmware_items(self) -> list[dict[str, str]]:
        return [{"key": key, "version": version, "path": key} for key, version in self.versions.items()]

    def running_tasks(self) -> list[str]:
        return []

    def state(self) -> dict[str, str]:
        return {"power": "Off", "boot_progress": "None"}

    def psus(self) -> dict[str, list[dict[str, str]]]:
        return {"psus": []}

    def push_update(self, image: Path, targets: Any = (), *, budget_s: float = 0) -> str:
        return "/task"

    def follow_update(self, task: str, budget_s: float, progress: Any = None, *, poll_s: float = 0) -> None:
        if self.refuses:
            raise UpdateFailed(self.name, "follow update", "Completed", "VerificationFailed", "")
        self.versions["NIC_1"] = firmware.VERSIONS["NIC"]

    def power(self, reset: str, wait: bool = True) -> bool:
        return True


def rolled_out(folder: Path, *bmcs: Any) -> tuple[Any, list[str]]:
    servers = pd.DataFrame([(bmc.name, "m", "r1") for bmc in bmcs], columns=["name", "model", "rack"])
    wanted = firmware.bundle(folder, "m", {"NIC_1": "1"}, ["NIC"])
    return firmware.rolled_out(servers, {bmc.name: bmc for bmc in bmcs}, wanted, lambda text: None)


def test_mixed_versions_are_told_after_the_first_server(tmp_path: Path) -> None:
    outcome, mixed = rolled_out(tmp_path, Server("gpu001"), Server("gpu002"))
    assert outcome.failed == ()
    assert mixed[:2] == [
        f"after m: one server: m NIC: {firmware.VERSIONS['NIC']} on 1 server (NIC_1)",
        f"after m: one server: m NIC: 1 instead of {firmware.VERSIONS['NIC']} on 1 server (NIC_1): gpu002",
    ]
    assert len(mixed) == 3


def test_a_failure_of_the_first_server_leaves_the_others(tmp_path: Path) -> None:
    second = Server("gpu002")
    outcome, mixed = rolled_out(tmp_path, Server("gpu001", refuses=True), second)
    assert (len(outcome.failed), outcome.untouched, mixed) == (1, 1, [])
    assert "the earlier version still runs" in outcome.failed[0]
    assert second.versions == {"NIC_1": "1"}


@dataclass
class Journalled:
    """Servers of the demo with the step at which each stands."""

    steps: dict[str, str]

    @property
    def lives(self) -> dict[str, Life]:
        return {name: Life(name, step) for name, step in self.steps.items()}


class Bundles:
    """What is needed of the demo: bundles made for a BMC."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def bundle(self, load: Any) -> Any:
        return firmware.bundle(self.folder, "m", load.bmc["firmware"])


def flashed(names: Sequence[str]) -> dict[str, str]:
    """An inventory after these packages of the bundle."""
    new = {
        item: version
        for name, version in firmware.VERSIONS.items()
        for item in ITEMS
        if firmware.fits(item, firmware.PATTERNS[name]) and name in names
    }
    return {**ITEMS, **new}


def test_after_a_roll_out_that_was_stopped_half_way_only_those_that_are_left_are_flashed(tmp_path: Path) -> None:
    inventories = {
        "gpu001": flashed(list(firmware.VERSIONS)),
        "gpu002": flashed(["BMC"]),
        "gpu003": dict(ITEMS),
        "gpu004": dict(ITEMS),
    }
    loads = {name: SimpleNamespace(bmc={"firmware": inventory}) for name, inventory in inventories.items()}
    stand = Journalled({"gpu001": "firmware", "gpu002": "firmware", "gpu003": "inspect", "gpu004": "image"})
    left = due_for_firmware(cast(Any, Bundles(tmp_path)), cast(Any, stand), cast(Any, loads), list(inventories))
    assert left == ["gpu002", "gpu003"], "gpu001 runs its bundle, gpu004 is past that step"
