"""`make setup-platform`: what tests, lab and demo of a Kubernetes site need, built into the cache once.

    python -m infra.setup.platform

Kubernetes' programs first (infra/toolchain/control_plane.py), then packages and images of the lab's nodes.
"""

import sys

from infra.lab import kubernetes
from infra.lab.paths import LabError
from infra.toolchain import control_plane

PACKAGES_MB = 70
"""Measured: 67 MB of packages with what they need, under a minute on two cores."""


def main() -> int:
    """Build what is missing; exit status 1 when something could not be had."""
    if (status := control_plane.main([])) != 0:
        return status
    print(f"Packages and images of the lab's nodes: about {PACKAGES_MB} MB, a minute, once.", flush=True)
    try:
        kubernetes.ensure(lambda text: print(f"  {text}", flush=True))
    except LabError as error:
        print(f"Kubernetes in the lab: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
