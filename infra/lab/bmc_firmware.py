"""Firmware that a simulated BMC lists and updates: what runs, what waits for a start, and updates that are under way.

    updates = Updates("gpu001", bmc, lock, log)     `bmc` is what the BMC remembers (powerd.py, bmc_as_delivered)
    number = updates.begin({"BIOS": "2.1"}, "")     ends after UPDATE_S, not at all while bmc["update_hangs"]
    updates.host_starts(); updates.bmc_starts()     what was installed takes effect; a BMC that starts forgets updates under way

The BMC's own item takes effect with its restart, every other (BIOS, GPUs, adapters) with the next start of the server.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from infra.lab.paths import LabError

BMC_ITEM, BIOS_ITEM = "BMC", "BIOS"
UPDATE_S = 3.0
"""How long a firmware update takes here: made up, so that tests wait seconds where metal takes minutes."""


def gpu_item(slot: int) -> str:
    """Name of a GPU's firmware in the inventory, as HGX baseboards give it (NVIDIA, DGX H100/H200 firmware update guide)."""
    return f"HGX_FW_GPU_SXM_{slot}"


BASEBOARD = (*(f"HGX_FW_NVSwitch_{number}" for number in range(4)), "HGX_FW_FPGA_0", "HGX_FW_BMC_0")
"""What a BMC lists of an eight-GPU baseboard beside its GPUs: NVSwitches, FPGA, and its own BMC, the HMC (same source)."""


def adapter_item(number: int) -> str:
    """Name of an adapter's firmware in the inventory, counted from 1."""
    return f"NIC_{number}"


class Updates:
    """The firmware of one BMC. `changed` hears {item: version} of what has come into effect."""

    def __init__(
        self,
        name: str,
        bmc: dict[str, Any],
        lock: threading.RLock,
        log: Callable[[str], None] = lambda text: None,
        changed: Callable[[Mapping[str, str]], None] = lambda versions: None,
    ) -> None:
        self._name, self._bmc, self._lock, self._log, self._changed = name, bmc, lock, log, changed

    def begin(self, versions: Mapping[str, str], refused: str) -> str:
        """Number of an update of some items; `refused`: the message id that it ends with instead. LabError while another runs."""
        with self._lock:
            updates = self._bmc["updates"]
            if any(update["state"] == "Running" for update in updates.values()):
                raise LabError(f"an update of {self._name} is under way")
            number = str(max(map(int, updates), default=0) + 1)
            updates[number] = {"versions": dict(versions), "state": "Running", "percent": 40, "message": ""}
            timer = threading.Timer(UPDATE_S, self._end, (number, refused))
            timer.daemon = True
            timer.start()
            return number

    def _end(self, number: str, refused: str) -> None:
        with self._lock:
            update = self._bmc["updates"].get(number)
            if update is None or self._bmc["update_hangs"]:  # a BMC that has restarted meanwhile knows of no update
                return
            update.update(state="Exception" if refused else "Completed", percent=100, message=refused)
            if not refused:
                self._bmc["firmware_pending"].update(update["versions"])
                self._log(f"Firmware of {', '.join(update['versions'])} installed, not in effect yet")

    def host_starts(self) -> None:
        """The server starts."""
        self._run([item for item in self._bmc["firmware_pending"] if item != BMC_ITEM])

    def bmc_starts(self) -> None:
        """The BMC starts anew: it forgets updates that were under way and runs its own new version."""
        with self._lock:
            self._bmc["updates"] = {}
            self._run([item for item in self._bmc["firmware_pending"] if item == BMC_ITEM])

    def _run(self, items: list[str]) -> None:
        with self._lock:
            new = {item: self._bmc["firmware_pending"].pop(item) for item in items}
            self._bmc["firmware"].update(new)
        if new:
            self._changed(new)
