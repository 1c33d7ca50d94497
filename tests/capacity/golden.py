"""Golden summaries of the shipped sites: `python -m tests.capacity.golden` writes them, tests only read them.

Hashes are left out: they change with every comment-free edit of a site file, and tell no reader what changed.
"""

import json
from pathlib import Path
from typing import Any

from capacity.build import build
from capacity.outputs.summary import summarise
from inventory.site import load_site

FOLDER = Path(__file__).parents[1] / "data" / "golden"
SITES = ("lab", "h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid")


def summary(site: str) -> dict[str, Any]:
    """The plan's summary without hashes."""
    full = summarise(build(load_site(site)))
    return {key: value for key, value in full.items() if key not in ("inputs", "plan_hash")}


def path(site: str) -> Path:
    """The golden file of a site."""
    return FOLDER / f"summary-{site}.json"


def main() -> None:
    """Write the golden files anew; review them as a diff."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for site in SITES:
        path(site).write_text(json.dumps(summary(site), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        print(path(site))


if __name__ == "__main__":
    main()
