"""Virtual machines from power-on to SSH, one alone and four at once, as ratios to a start of the same image from its drives.

    python -m bench.metal [--at-once 1 4]

Site, image and stages are those of `make demo-metal`, without its faults. The site has four servers, two by BIOS and two by UEFI
(`site_of_four`). For each number of servers at once all drives are empty and BMCs as delivered; servers go through firmware, BIOS,
image and first boot to ready. Then all are shut down, and the first is started alone from its drives: that is what the ratios are
to. Ansible, Slurm and the checks, which accept a node, are not timed here.

Times depend on the machine, and nothing is asserted of them. Exit status 1 names a server that did not arrive within the
budgets of its steps. Needs root and the packages of `make demo-metal`.
"""

import argparse
import os
import shutil
import statistics
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console

from infra.lab.paths import LabPaths
from infra.metal import demo as metal
from infra.metal.demo import Demo
from infra.metal.prerequisites import missing
from infra.values_shown import table
from inventory.delivered.assets import ASSETS_FILE, load_assets
from inventory.delivered.gpus import GPUS_FILE, load_gpus
from inventory.paths import SITE_FILE, var_dir, write_file
from inventory.site.edit import edited
from inventory.site.whatif import Base

SITE, SERVERS = "bench-metal", 4
SETTINGS = (f"name={SITE}", f"server.count={SERVERS}", f"fabric.unit_nodes={SERVERS}")
"""What differs from the site of the demo; one unit of the fabric holds all servers there too."""
PROGRAM = "python -m bench.metal"


def site_of_four(folder: Path) -> Path:
    """Write the demo's site with four servers, and what was delivered; the site file. Secrets lie in a lab folder of its own."""
    base = Base.read(metal.SITE)
    text = edited(base.site.path.read_text(), base.site.given, base.changed(SETTINGS).given)
    shipped_lab = Path(base.site.credentials.ssh.known_hosts).parent
    assets, gpus = with_more(load_assets(base.site), load_gpus(base.site), SERVERS)
    write_file(folder / ASSETS_FILE, assets.to_csv())
    write_file(folder / GPUS_FILE, gpus.to_csv(index=False))
    return write_file(folder / SITE_FILE, text.replace(f"{shipped_lab}/", f"{LabPaths(SITE).root}/"))


def with_more(assets: pd.DataFrame, gpus: pd.DataFrame, count: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both lists with so many servers in all. Those that are added are as the first one, each with serial numbers, UUIDs and MACs
    of its own.
    """
    owners = assets.index.str.partition(":").get_level_values(0)
    first, there = owners[0], owners.nunique()
    all_assets, all_gpus = [assets], [gpus]
    for number in range(there + 1, count + 1):
        name = f"{first.rstrip('0123456789')}{number:03d}"
        parts = assets[owners == first].rename(index=lambda device, name=name: device.replace(first, name))
        own_uuid, own_mac = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.{SITE}")), f"{number:02x}"
        all_assets.append(
            parts.assign(
                serial=parts["serial"] + f"-{number}",
                uuid=parts["uuid"].where(parts["uuid"] == "", own_uuid),
                mgmt_mac=parts["mgmt_mac"].where(parts["mgmt_mac"] == "", parts["mgmt_mac"].str[:-2] + own_mac),
            )
        )
        cards = gpus[gpus["device"] == first]
        serials = cards["serial"] + f"-{number}"
        uuids = [f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{serial}.{SITE}')}" for serial in serials]
        all_gpus.append(cards.assign(device=name, serial=serials, uuid=uuids))
    return pd.concat(all_assets), pd.concat(all_gpus, ignore_index=True)


@dataclass(frozen=True)
class Arrival:
    """Seconds of a server after its power-on: until its drives were read back, and until it was ready: SSH under the key that its
    console showed, the planned image, cloud-init at its end.
    """

    server: str
    firmware: str
    written_s: float
    ssh_s: float


@dataclass(frozen=True)
class Run:
    """Servers at once. `bare_s`: seconds of the first one alone, from power-on by its drives to a login. `loads`: load average of
    the machine before and after.
    """

    arrivals: Sequence[Arrival]
    bare_s: float
    loads: tuple[float, float]

    @property
    def spread_s(self) -> float:
        """Seconds between the first and the last server that answers by SSH."""
        return max(one.ssh_s for one in self.arrivals) - min(one.ssh_s for one in self.arrivals)

    @property
    def median_s(self) -> float:
        """Seconds to SSH."""
        return statistics.median(one.ssh_s for one in self.arrivals)


def arrival(server: str, firmware: str, times: Mapping[str, float]) -> Arrival:
    """Of the Unix times of a writing (infra/metal/run.py)."""
    return Arrival(server, firmware, *(times[what] - times["on"] for what in ("written", "login")))


def run_of(demo: Demo, at_once: int) -> Run:
    """So many servers from nothing, and one of them from its drives; DemoError for what does not arrive. Drives are removed at
    its end; after an error they stay, with consoles and logs.
    """
    shutil.rmtree(demo.metal, ignore_errors=True)
    load_before = os.getloadavg()[0]
    with metal.standing(demo) as stand:
        bringing = stand.bringing
        names = [*bringing.servers][:at_once]
        metal.from_nothing(demo, bringing, stand.loads, names, short=True)
        for name in names:
            metal.read_back(demo, bringing, name, stand.image)
        loads = load_before, os.getloadavg()[0]
        for name in names:
            metal.shut_down(bringing, name)
        metal.started(bringing, demo, names[0])
        arrivals = [
            arrival(name, "UEFI" if bringing.servers[name].power.machine.uefi else "BIOS", bringing.times[name])
            for name in names
        ]
        bare_s = bringing.times[names[0]]["bare"]
    for drive in demo.metal.glob("*.raw"):
        drive.unlink()
    return Run(arrivals, bare_s, loads)


def shown(run: Run) -> list[list[str]]:
    """Rows of a run: times in seconds, and SSH as a multiple of the start from the drives."""
    return [
        [one.server, one.firmware, f"{one.written_s:.0f}", f"{one.ssh_s:.0f}", f"{one.ssh_s / run.bare_s:.1f}"]
        for one in run.arrivals
    ]


def summed_up(run: Run, alone: Run | None) -> list[str]:
    """What a run says as a whole; `alone`: a run of one server, to compare with."""
    said = [
        f"start of {run.arrivals[0].server} alone from its drives to a login: {run.bare_s:.0f} s",
        f"load of the machine: {run.loads[0]:.1f} at the beginning, {run.loads[1]:.1f} at the end",
    ]
    if len(run.arrivals) > 1:
        said.append(f"SSH: median {run.median_s:.0f} s, {run.spread_s:.0f} s between the first and the last")
    if alone is not None:
        said.append(f"SSH: {run.median_s / alone.median_s:.1f} times as long as one alone")
    return said


def measured(demo: Demo, numbers: Sequence[int]) -> int:
    """Run and print each number of servers at once, in this order."""
    console, alone = Console(), None
    with metal.claim(demo, foreign=True, program=PROGRAM):
        for at_once in numbers:
            run = run_of(demo, at_once)
            columns = ("server", "by", "#written, s", "#SSH, s", "#starts")
            console.print(table(f"{at_once} at once, from power-on", *columns, rows=shown(run)))
            for line in summed_up(run, alone):
                console.print(line, markup=False, highlight=False)
            if at_once == 1:
                alone = run
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 1 where a server does not arrive."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description=__doc__)
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, SERVERS], choices=range(1, SERVERS + 1))
    given = parser.parse_args(argv)
    demo = Demo(str(site_of_four(var_dir(SITE) / "site")), images=var_dir(metal.SITE) / "images")
    if obstacles := missing(demo.paths, demo.out, max(given.at_once)):
        print("servers from nothing: NOT RUN", *obstacles, sep="\n")
        return 0
    return metal.ended(demo, lambda: measured(demo, given.at_once), "The same command begins anew.")


if __name__ == "__main__":
    sys.exit(main())
