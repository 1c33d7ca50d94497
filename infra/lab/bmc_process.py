"""The command that serves simulated BMCs (infra/lab/bmc.py): one process for all, Redfish over TLS on port 443 of each address."""

import sys
from collections.abc import Iterable
from pathlib import Path

from infra.lab.paths import LabPaths


def command(paths: LabPaths, addresses: Iterable[str], threads: int) -> list[str | Path]:
    """For a process with BRINGUP_LAB in its environment. A request that hangs holds one of the threads."""
    return [
        sys.executable,
        "-m",
        "gunicorn",
        "-w1",
        f"--threads={threads}",
        "--log-level=warning",
        f"--certfile={paths.pki / 'bmc.pem'}",
        f"--keyfile={paths.pki / 'bmc.key'}",
        "--no-control-socket",
        f"--worker-tmp-dir={paths.root / 'bmc'}",
        *(f"--bind={address}:443" for address in addresses),
        "infra.lab.bmc:app",
    ]
