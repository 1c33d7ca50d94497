"""The embedded lab: virtual switches, PDUs, BMCs and servers that speak the real protocols, built from a site's Plan.

    up.up(site, plan)       build it; every device answers and is in factory state
    status(name)            {device: state}
    fault(name, FAULT, …)   break something; FAULTS lists what; repair(name) undoes all of it
    down(name)              leave nothing behind but the cache

`up` and `snapshot` know the planner and are not imported here: the daemons import this package and start fast.
Product code knows nothing of this package: it meets the devices at their addresses.
"""

from infra.lab.faults import FAULTS, active, fault, repair
from infra.lab.lab import down, exec_argv, is_up, load_spec, status
from infra.lab.paths import LabError, LabPaths

__all__ = [
    "FAULTS",
    "LabError",
    "LabPaths",
    "active",
    "down",
    "exec_argv",
    "fault",
    "is_up",
    "load_spec",
    "repair",
    "status",
]
