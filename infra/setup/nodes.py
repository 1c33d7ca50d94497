"""`python -m infra.setup.nodes [--check]`: build what the lab's nodes are made of, so that `bringup lab up` need not.

With --check nothing is built; the exit status says whether all is there (0) or not (1).
"""

import sys

from infra.lab import base
from infra.lab.paths import LabError


def main(argv: list[str]) -> int:
    try:
        if "--check" in argv:
            return 0 if base.is_ready() else 1
        image = base.ensure(lambda text: print(f"  {text}", flush=True))
    except LabError as error:
        print(f"Lab nodes: {error}", file=sys.stderr)
        return 1
    print(f"  nodes: {image.root}, packages: {image.debs}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
