"""Time of comparing 100,000 links of Ethernet, all seen from both ends and as planned, with the plan.

    python -m bench.links

Prints processor time of one process; exit status 1 with a finding.
"""

import sys
import time

import pandas as pd

from network.compare import topology
from network.discover import Port

LINKS, PORTS, PER_SERVER = 100_000, 48, 8
GOAL_S = 1.0
"""The goal for a machine that does nothing else."""


def main() -> int:
    """Exit status 1 when it finds a difference."""
    servers = [f"gpu{n // PER_SERVER:06}" for n in range(LINKS)]
    adapters = [f"eth{n % PER_SERVER}" for n in range(LINKS)]
    leaves = [f"leaf{n // PORTS:05}" for n in range(LINKS)]
    ports = [f"swp{n % PORTS + 1}" for n in range(LINKS)]
    cables = pd.DataFrame(
        {
            "fabric": "inband",
            "stage": "node-leaf",
            "a_device": servers,
            "a_port": adapters,
            "b_device": leaves,
            "b_port": ports,
        }
    )
    answered: dict[str, dict[str, Port]] = {}
    for server, adapter, leaf, port in zip(servers, adapters, leaves, ports, strict=True):
        for near, near_port, far, far_port in ((server, adapter, leaf, port), (leaf, port, server, adapter)):
            seen: Port = {"state": "up", "far": far, "far_port": far_port, "age_s": 1, "ttl_s": 3}
            answered.setdefault(near, {})[near_port] = seen
    start = time.process_time()
    findings = topology(cables, answered)
    seconds = time.process_time() - start
    print(f"{LINKS:,} links compared with the plan in {seconds:.2f} s, goal {GOAL_S:g} s, {len(findings)} findings")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
