"""Golden figures of the shipped sites, and of sites of a few lines (tests/first_sites.py).

`python -m tests.capacity.golden` writes them, tests only read them.

They hold what a person reviews in a diff: counts, loads, zones, dates, and which findings there are. Every other figure, frame
and file is held by `make equality`; the words of findings are in findings.yaml.
"""

import json
from pathlib import Path
from typing import Any

from capacity.build import build
from capacity.model import Plan
from capacity.outputs.summary import summarise
from inventory.site import load_site
from tests.first_sites import FIRST, first_plan, text_of

FOLDER = Path(__file__).parents[1] / "data" / "golden"
SITES = ("lab", "h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid")


REVIEWED = (
    *("devices", "fabric", "cables", "racks", "power_kw", "electrical", "heat", "space", "critical_item", "go_live"),
    *("purchase", "storage"),
)


def summary(site: str) -> dict[str, Any]:
    """The figures of the plan's summary that a person reviews."""
    return reviewed(build(load_site(site)))


def first(name: str) -> dict[str, Any]:
    """The same of the site of a few lines, with its text."""
    return {"site_file": text_of(name).splitlines(), **reviewed(first_plan(name))}


def reviewed(plan: Plan) -> dict[str, Any]:
    """The figures of a plan that a person reviews."""
    full = summarise(plan)
    return {key: full[key] for key in REVIEWED if key in full} | {
        "zones": full["cooling"]["zones"],
        "findings": [f"{item['severity']} {item['id']} {item['subject']}" for item in full["findings"]["items"]],
    }


def path(site: str) -> Path:
    """The golden file of a site."""
    return FOLDER / f"summary-{site}.json"


def main() -> None:
    """Write the golden files anew; review them as a diff."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = {site: summary(site) for site in SITES} | {f"first-{name}": first(name) for name in FIRST}
    for site, figures in made.items():
        path(site).write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        print(path(site))


if __name__ == "__main__":
    main()
