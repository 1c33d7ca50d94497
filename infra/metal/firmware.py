"""Firmware of the demo's servers: a bundle made for their emulated BMCs, and a roll-out that goes wrong in four ways, then right.

    bundle(folder, model, items)             BMC, BIOS, GPUs and adapters, with images of the lab's own form
    rolled_out(...)                          the roll-out of infra/firmware/apply.py, one server, then the others of its rack

Servers that are off stand still while their firmware is brought into effect: their power is on and their processors do not start,
so that no drive is touched before its time.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from infra.firmware import flash, rollout
from infra.firmware.apply import Outcome, roll_out
from infra.lab import firmware_image
from infra.lab.bmc_firmware import BIOS_ITEM, BMC_ITEM, UPDATE_S
from infra.metal.bmcs import Load
from infra.metal.machines import Power
from inventory.delivered.firmware import Bundle
from network.drivers.redfish import Bmc

VERSIONS = {"BMC": "1.1.0", "BIOS": "1.2.0", "GPU": "96.00.99.00.01", "NIC": "28.43.2026"}
"""Made up; they only differ from what was delivered."""
DELIVERED_GPU = "96.00.89.00.01"
PATTERNS = {"BMC": BMC_ITEM, "BIOS": BIOS_ITEM, "GPU": "HGX_FW_GPU_SXM_*", "NIC": "NIC_*"}
EFFECTS = {"BMC": "bmc_reset", "BIOS": "host_restart", "GPU": "host_restart", "NIC": "host_restart"}
BEGUN_S = 40 * UPDATE_S
"""For an update to be under way: so long as forty updates of the simulated BMC take, since it shares its processors."""
POLL_S = 0.5
SHOWN_S = 20.0
"""For a new version to show: these machines have no self-test, and their BMCs are back after 3 s (BMC_RESTART_S)."""


def bundle(
    folder: Path,
    model: str,
    items: Mapping[str, str],
    names: Sequence[str] = tuple(VERSIONS),
    *,
    altered: str = "",
    wrong: str = "",
) -> Bundle:
    """The bundle of these packages, its images written to `folder`. `items`: what the BMC lists, {item: version}.

    altered: a package whose image the BMC refuses, wrong: one whose image brings another version than the bundle says.
    """
    folder.mkdir(parents=True, exist_ok=True)

    def release(name: str, version: str, brings: str, kind: str) -> dict[str, Any]:
        own = [item for item in items if fits(item, PATTERNS[name])]
        data = firmware_image.make(model, dict.fromkeys(own, brings))
        if name == altered and kind == "new":
            data = data[:-1] + b" "
        file = folder / f"{name}-{kind}.bin"
        file.write_bytes(data)
        image = {"file": file.name, "sha256": hashlib.sha256(data).hexdigest(), "folder": folder}
        return {"image": image, "versions": {PATTERNS[name]: version}}

    packages = []
    for name in names:
        before = next(version for item, version in items.items() if fits(item, PATTERNS[name]))
        brings = "0.0.0" if name == wrong else VERSIONS[name]
        packages.append(
            {
                **release(name, VERSIONS[name], brings, "new"),
                "name": name,
                "takes_effect": EFFECTS[name],
                "budget_min": 1,
                "previous": release(name, before, before, "before"),
            }
        )
    return Bundle.model_validate(
        {"bundle": "demo 1", "model": model, "source": "made up for make demo-metal", "packages": packages}
    )


def fits(item: str, pattern: str) -> bool:
    """Whether a pattern of a bundle means an item."""
    return item.startswith(pattern[:-1]) if pattern.endswith("*") else item == pattern


class StandingStill:
    """For as long as the block lasts, machines that are switched on do not start their processors."""

    def __init__(self, powers: Sequence[Power]) -> None:
        self._powers = powers

    def __enter__(self) -> None:
        for power in self._powers:
            power.machine = replace(power.machine, still=True)

    def __exit__(self, *_: object) -> None:
        for power in self._powers:
            power.off()
            power.machine = replace(power.machine, still=False)


def doors(bmc: Bmc) -> flash.Doors:
    """The ways to a server of the demo: nobody's jobs run on it, and it has no outlets."""

    def no_outlets() -> None:
        raise flash.FlashError(bmc.name, "activating", "the demo has no rack PDUs")

    return flash.Doors(bmc, bmc, lambda: "", no_outlets, poll_s=POLL_S, boot_s=SHOWN_S, return_s=SHOWN_S)


def versions_told(bmcs: Mapping[str, Bmc], wanted: Bundle) -> list[str]:
    """What runs against the bundle, a line for each package and version."""
    inventories = {name: bmc.firmware() for name, bmc in bmcs.items()}
    return rollout.told(rollout.versions(inventories, dict.fromkeys(bmcs, wanted)))


def rolled_out(
    servers: pd.DataFrame, bmcs: Mapping[str, Bmc], wanted: Bundle, say: Callable[[str], None]
) -> tuple[Outcome, list[str]]:
    """The roll-out to these servers (columns name, model, rack), and the versions as they were told after each stage."""
    mixed: list[str] = []

    def after(stage: rollout.Stage) -> None:
        mixed.extend(f"after {stage.name}: {line}" for line in versions_told(bmcs, wanted))

    outcome = roll_out(
        rollout.stages(servers, len(servers)), dict.fromkeys(bmcs, wanted), lambda name: doors(bmcs[name]), say, after
    )
    return outcome, mixed


def restarted_in_the_middle(load: Load, act: Callable[[], Outcome]) -> Outcome:
    """What `act` comes to when the BMC of `load` restarts while its update is under way."""
    load.bmc["update_hangs"] = True

    def restart() -> None:
        deadline = time.monotonic() + BEGUN_S
        while not any(one["state"] == "Running" for one in load.bmc["updates"].values()):
            if time.monotonic() > deadline:
                return
            time.sleep(POLL_S)
        load.bmc["update_hangs"] = False
        load.reset_bmc()

    threading.Thread(target=restart, daemon=True).start()
    return act()
