"""Time of planning: `python bench/plan.py` prints seconds for build, summary and write of the shipped sites.

With `--large` also a cluster of 12,500 servers (100,000 GPUs) on 128-port switches. Nothing is asserted: numbers depend on
the machine.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from capacity.compare import compare
from capacity.plan import Plan, build
from inventory.site import Site, load_site
from inventory.whatif import Base

SITES = ("lab", "h100-1000-ib")


def large_site() -> Site:
    """The shipped large site with 12,500 servers; its room, ports and prefixes grow with it."""
    site = load_site("h100-1000-ib")
    changes = {
        "server": {"count": 12_500},
        "fabric": {"kind": "roce", "switch_model": "nvidia-sn5600", "radix": 128, "unit_nodes": 64},
        "inband": {"leaves": 520},
        "oob": {"switches": 1_000},
        "room": {"rows": 200, "racks_per_row": 40},
    }
    return site.model_copy(update={key: getattr(site, key).model_copy(update=value) for key, value in changes.items()})


def timed(label: str, action: Callable[[], object]) -> object:
    """Run `action` and print its wall time in seconds."""
    start = time.perf_counter()
    result = action()
    print(f"{label:<28}{time.perf_counter() - start:8.2f} s")
    return result


def measure(name: str, site: Site) -> None:
    """Print the times of one site."""
    plan = timed(f"{name} build", lambda: build(site))
    if not isinstance(plan, Plan):
        raise TypeError(f"build returned {type(plan).__name__}")
    timed(f"{name} summary", plan.summary)
    with tempfile.TemporaryDirectory() as folder:
        timed(f"{name} write", lambda: plan.write(Path(folder)))
    print(f"{name}: {len(plan.devices):,} devices, {len(plan.cables):,} cables, {len(plan.outlets):,} outlets")


def measure_what_if(name: str) -> None:
    """Print the time of a what-if: changed site, plan, comparison with the site's own plan."""
    base = Base.read(name)
    plan = build(base.site)

    def answer() -> object:
        return compare(plan, build(base.changed(["rack.servers=2"])))

    timed(f"{name} what-if", answer)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Time of planning, per site and stage.")
    parser.add_argument("--large", action="store_true", help="also plan 12,500 servers (100,000 GPUs)")
    arguments = parser.parse_args()
    for name in SITES:
        measure(name, load_site(name))
        measure_what_if(name)
    if arguments.large:
        measure("100,000 GPUs", large_site())


if __name__ == "__main__":
    main()
