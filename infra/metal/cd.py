"""A machine that is written from a CD that its BMC shows, as the first machine of a site is.

by_cd(bringing, "gpu002", Cd(file, address), say)       '' where it runs the image, else why it does not
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from infra.install import media
from infra.metal.run import POLL_S, Bringing, Say
from network.drivers.errors import DeviceError

PORT = 8000
WRITTEN = "bringup: written"
"""What the initramfs says on the console (infra/boot/deploy.sh, report)."""


@dataclass(frozen=True)
class Cd:
    """An ISO, and the address of the boot server that it is served from."""

    file: Path
    address: str

    @property
    def url(self) -> str:
        return f"http://{self.address}:{PORT}/{self.file.name}"


def by_cd(bringing: Bringing, name: str, cd: Cd, say: Say) -> str:
    """Start a machine that is off from the CD, and wait until it runs what was written; '' or why it does not."""
    server, segment = bringing.servers[name], bringing.segment
    # It gives no byte ranges; the BMC here fetches the whole CD, which not every real one does.
    argv: list[str | Path] = [sys.executable, "-m", "http.server", str(PORT), "--bind", cd.address]
    segment.start([*argv, "--directory", cd.file.parent], segment.state / "cd.log")
    reports, began = len(segment.spool().reports.get(server.delivered.hyphened, ())), time.monotonic()
    bringing.forget(name)
    console = server.power.machine.console("disk")
    console.unlink(missing_ok=True)
    media.start(name, server.bmc, cd.url)
    budget_s = bringing.budgets["image"] + bringing.budgets["first-boot"]
    while time.monotonic() - began < budget_s and server.power.is_on:
        try:
            told = bringing.told(name)
        except DeviceError:
            time.sleep(POLL_S)
            continue
        server.bmc.eject_media()
        text = server.power.machine.console("cd").read_text(errors="replace")
        if WRITTEN not in text:
            return f"it runs {told.running} and its console shows no writing from the CD"
        if len(segment.spool().reports.get(server.delivered.hyphened, ())) != reports:
            return "it reported to the boot server: it was written over the network"
        if told.running != server.target.note:
            return f"it runs {told.running}, expected {server.target.note}"
        say(f"{name}: written from a CD and started from its drives after {time.monotonic() - began:.0f} s")
        return ""
    state = "does not let us in" if server.power.is_on else "went off"
    return f"it {state}, {time.monotonic() - began:.0f} s after its start from the CD: {server.power.machine.console('cd')}"
