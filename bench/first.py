"""One verb on a new site of ten lines: `python -m bench.first plan|explain-size|explain-value`; what `make bench` times.

The site has 64 servers of eight H100 on InfiniBand, as from `bringup new`, in a temporary folder, with its outputs.
Exit status: that of the verb.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from infra.cli import main as bringup
from inventory.paths import SITE_FILE, write_file

VERBS = {
    "plan": ("plan", ()),
    "explain-size": ("explain", ("oob.switches",)),
    "explain-value": ("explain", ("rack.servers",)),
}


def main(arguments: Sequence[str]) -> int:
    """Run what VERBS has under `arguments[0]`; KeyError for another name."""
    from inventory.site.new import Wanted, site_text

    verb, rest = VERBS[arguments[0]]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BRINGUP_VAR"] = folder
        text = site_text(Wanted("first", gpu="h100", fabric="ib", servers=64, power_kw=1200.0))
        path = write_file(Path(folder) / "site" / SITE_FILE, text)
        return bringup([verb, str(path), *rest])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
