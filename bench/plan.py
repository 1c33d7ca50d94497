"""Time of planning: `python -m bench.plan` prints seconds and memory for the shipped sites, `--large` for 100,000 GPUs and
`--largest` for 1,000,000 too, each in a process of its own.

The large sites are `h100-1000-ib` with more servers, and with room, ports, prefixes, grid and boards to match. Nothing
is asserted: numbers depend on the machine. Error findings of a site are printed: what a finding stops is not planned.
"""

import argparse
import copy
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar
from unittest import mock

from capacity.build import build
from capacity.delivered import delivered
from capacity.model import Plan
from capacity.outputs.files import write_plan
from capacity.outputs.summary import summarise
from capacity.power.upstream import single_failures
from capacity.whatif.compare import compare
from capacity.whatif.sensitivity import study
from inventory.catalog import Catalog, load_catalog
from inventory.delivered.assets import COLUMNS, parse_assets
from inventory.site import Site, parse_site
from inventory.site.new import Wanted, site_text
from inventory.site.whatif import Base

SITES = ("lab", "h100-1000-ib")
SWITCH = "nvidia-sn5600"
WHAT_IFS = ("rack.servers=2", "power.pue=1.3", "power.rack_circuit.breaker_a=80")
GPUS_PER_SERVER = 8
LIMIT_S = 1800.0
MOST_TRIED = 12_800
"""Servers up to which remedies are tried, and the catalogue has the switches."""
T = TypeVar("T")


def large_site(servers: int) -> Site:
    """`h100-1000-ib` with so many servers on RoCE; strict where a site file is, up to 12,800 servers."""
    mva = servers * 0.0145
    racks = math.ceil(servers / 3 * 1.12) + 200
    site = Base.read("h100-1000-ib").changed(
        [
            f"server.count={servers}",
            "fabric.kind=roce",
            "fabric.congestion_control=dcqcn",
            "fabric.subnet_managers=[]",
            f"fabric.switch_model={SWITCH}",
            "fabric.radix=128",
            "fabric.unit_nodes=64",
            f"inband.spine_model={SWITCH}",
            f"inband.leaf_model={SWITCH}",
            "inband.links_per_node=1",
            "inband.spines=8",
            f"inband.leaves={min(math.ceil(servers / 100), 128)}",
            f"oob.switches={math.ceil(servers * 3.65 / 47) + 20}",
            f"room.rows={math.ceil(racks / 40)}",
            "room.racks_per_row=47",
            "room.rpps_per_row=7",
            "room.length_m=null",
            "room.width_m=null",
            f"electrical.waves.energised_kw={servers * 1.6:.0f}",
            "electrical.utility.voltage_kv=138",
            f"electrical.utility.firm_mva={mva * 1.3:.0f}",
            f"electrical.utility.fault_mva={min(mva * 30, 15_000):.0f}",
            "electrical.medium_voltage.rating_a=6300",
            "electrical.medium_voltage.rating_ka=63",
            "electrical.panels.circuits=10",
            "electrical.switchboards.rating_ka=85",
            "addressing.oob=10.0.0.0/10",
            "addressing.provisioning=10.64.0.0/12",
            "addressing.loopbacks=10.80.0.0/12",
            "addressing.links=10.96.0.0/11",
        ]
    )
    if servers <= 12_800:
        return site
    fabric = site.fabric.model_copy(update={"radix": 256, "unit_nodes": 128})
    inband = site.inband.model_copy(update={"leaves": math.ceil(servers / 100)})
    return site.model_copy(update={"fabric": fabric, "inband": inband})


def larger_switches() -> Catalog:
    """The catalogue with 256 ports to the large switch: no switch in it joins 1,000,000 endpoints in three tiers."""
    catalog = copy.copy(load_catalog())
    device = catalog.device(SWITCH)
    ports = tuple(
        port if port.mgmt_only else port.model_copy(update={"name": "swp[1-128]s[0-1]"}) for port in device.interfaces
    )
    bringup = device.bringup.model_copy(update={"data_ports": 256})
    larger = device.model_copy(update={"interfaces": ports, "bringup": bringup})
    catalog.devices = {**catalog.devices, SWITCH: larger}
    return catalog


def timed(label: str, action: Callable[[], T]) -> T:
    """Run `action` and print its wall time in seconds."""
    start = time.perf_counter()
    result = action()
    print(f"{label:<52}{time.perf_counter() - start:8.2f} s", flush=True)
    return result


def measure(name: str, site: Site, catalog: Catalog | None = None, tried: bool = True) -> Plan:
    """Print the times of one site: planned, and planned with the remedies of its findings tried, each of which plans on."""
    began = _processor_s()
    plan = timed(f"{name} build", lambda: build(site, catalog, what_ifs=False))
    print(f"{name}: {_processor_s() - began:.1f} s of processor time")
    if tried:
        plan = timed(f"{name} build, remedies tried", lambda: build(site, catalog))
    timed(f"{name} summary", lambda: summarise(plan))
    with tempfile.TemporaryDirectory() as folder:
        timed(f"{name} write", lambda: write_plan(plan, Path(folder)))
    memory_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{name}: {len(plan.devices):,} devices, {len(plan.cables):,} cables, {len(plan.elements):,} elements of the supply, "
        f"{memory_gb:.1f} GB"
    )
    for finding in plan.findings:
        if finding.severity == "error":
            print(f"  {finding.id}: {finding.message}")
    return plan


def measure_what_if(name: str) -> None:
    """Print the time of what-ifs: changed site, plan, comparison with the site's own plan, which is at hand."""
    base = Base.read(name)
    plan = build(base.site)
    summarise(plan)
    for setting in WHAT_IFS:

        def answer(setting: str = setting) -> object:
            return compare(plan, build(base.changed([setting])))

        timed(f"{name} --set {setting}", answer)


def measure_sensitivity() -> None:
    """Print the time of assumptions at both ends, of 1,000 servers: with sizes stated, and with sizes worked out for each end."""
    first = parse_site(site_text(Wanted("first", gpu="h100", fabric="ib", servers=1000)))
    bases = {"h100-1000-ib": Base.read("h100-1000-ib"), "1,000 H100 in ten lines": Base(first, first.given, "first")}
    for name, base in bases.items():
        began, start = _processor_s(), time.perf_counter()
        found = timed(f"{name} sensitivity, 2 processes", partial(study, base, workers=2))
        share = 30 / len(found.by_key())
        print(
            f"{name}: {len(found.by_key())} assumptions; 30 of them {share * (time.perf_counter() - start):.0f} s, "
            f"{share * (_processor_s() - began):.0f} s of processor time"
        )


def _processor_s() -> float:
    """Processor time of this process and of those that it has waited for, seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure_failures(name: str) -> None:
    """Print the time of every single failure of a site's supply."""
    with mock.patch.object(single_failures, "study", wraps=single_failures.study) as study:
        build(Base.read(name).site)
    supply = study.call_args_list[0].args  # the first is that of the supply, those after it of its waves
    found = timed(f"{name} every single failure", lambda: single_failures.study(*supply))
    print(f"{name}: {len(found.frame):,} failures")


def measure_delivery(name: str, plan: Plan) -> None:
    """Print the time from an asset list of every device to the plan with it; nothing may have moved."""
    own = plan.addresses.loc[plan.addresses["network"].isin(["oob", "bmc"]), "device"].drop_duplicates().tolist()
    rows = [f"{device},ACME,S{i},,{_mac(i)}," for i, device in enumerate(own)]
    text = "\n".join([",".join(COLUMNS), *rows, ""])

    def planned() -> Plan:
        return delivered(plan, parse_assets(text), plan.gpus)

    after = timed(f"{name} after {len(own):,} assets", planned)
    print(f"{name}: every name as before: {after.hash == plan.hash and after.devices.equals(plan.devices)}")


def _mac(number: int) -> str:
    return f"02:00:{number >> 24 & 255:02x}:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"


def measure_large(gpus: int) -> None:
    """The times of one large site."""
    servers = gpus // GPUS_PER_SERVER
    name = f"{gpus:,} GPUs"
    catalog = larger_switches() if servers > MOST_TRIED else None
    plan = measure(name, large_site(servers), catalog, tried=servers <= MOST_TRIED)
    measure_delivery(name, plan)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Time of planning, per site and stage.")
    parser.add_argument("--large", action="store_true", help="also plan 100,000 GPUs")
    parser.add_argument("--largest", action="store_true", help="also plan 100,000 and 1,000,000 GPUs")
    parser.add_argument("--gpus", type=int, help="plan so many GPUs and nothing else")
    given = parser.parse_args(arguments)
    if given.gpus:
        measure_large(given.gpus)
        return
    for name in SITES:
        measure(name, Base.read(name).site)
        measure_what_if(name)
        measure_failures(name)
    measure_sensitivity()
    sizes = [100_000] * (given.large or given.largest) + [1_000_000] * given.largest
    for gpus in sizes:
        subprocess.run([sys.executable, "-m", "bench.plan", "--gpus", str(gpus)], check=True, timeout=LIMIT_S)


if __name__ == "__main__":
    main()
