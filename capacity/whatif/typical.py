"""The study of a typical hall of each reference design: what `bringup plan` ranks the assumptions of other halls by.

`python -m capacity.whatif.typical` plans both ends of every assumption of each hall of `HALLS` and writes
inventory/site/typical_halls.csv (some minutes); review it as a diff. It is made anew when ranges or values of reference designs
change, or when the planner does.
"""

import csv
import io
import sys
from collections.abc import Iterator
from typing import Any

from capacity.whatif.sensitivity import Sensitivity, study
from inventory.paths import write_file
from inventory.site import Site, parse_site
from inventory.site.new import Wanted, site_text
from inventory.site.typical_halls import COLUMNS, DAYS, FILE, MEASURES, SHARES, like
from inventory.site.whatif import Base

HALLS = (
    Wanted("typical", gpu="h100", fabric="ib", servers=64),
    Wanted("typical", gpu="h100", fabric="ib", servers=64, power_code="iec"),
    Wanted("typical", gpu="h200", fabric="ib", servers=64),
    Wanted("typical", gpu="b200", fabric="ib", servers=64),
    Wanted("typical", gpu="b200", fabric="roce", servers=32),
    Wanted("typical", gpu="b300", fabric="ib", servers=64),
    Wanted("typical", gpu="b300", fabric="roce", servers=32),
    Wanted("typical", gpu="mi355x", fabric="roce", servers=32),
    Wanted("typical", gpu="gb200", fabric="ib", racks=8, cooling="liquid"),
    Wanted("typical", gpu="gb300", fabric="ib", racks=8, cooling="liquid"),
    Wanted("typical", gpu="gb300", fabric="ib", racks=8, cooling="liquid", power_code="iec"),
)
"""A hall of each design that `bringup new` offers, and one of each way of cooling at 400/230 V. 256 or 512 GPUs, or eight racks."""

DIGITS = 4


def hall_of(wanted: Wanted) -> Site:
    """The site of a typical hall, its sizes not yet worked out."""
    return parse_site(site_text(wanted))


def rows(site: Site, found: Sensitivity) -> Iterator[dict[str, Any]]:
    """The rows of a hall, columns COLUMNS: changes as shares of the hall's measures, those of the date in days."""
    hall = like(site)
    for one in found.by_key():
        row = {
            "designs": " ".join(hall.designs),
            "fabric": hall.fabric,
            "cooling": hall.cooling,
            "servers": site.server.count,
            "key": one["key"],
            "value": f"{one['value']:.10g}",
            "effect": _rounded(one["effect"]),
        }
        for end in ("low", "high"):
            row[end] = f"{one[end]['at']:.10g}"
            for measure in MEASURES:
                change = one[end][f"{measure}_change"]
                refused = change is None or change != change
                share = change / found.base[measure] if measure in SHARES and not refused else change
                row[f"{measure}_{end}"] = "" if refused else f"{share:g}" if measure == DAYS else _rounded(share)
        yield row


def _rounded(share: float) -> str:
    return f"{round(share, DIGITS) + 0.0:g}"


def text_of(all_rows: list[dict[str, Any]]) -> str:
    """The file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(all_rows)
    return out.getvalue()


def main() -> None:
    """Study every hall and write the file anew."""
    made: list[dict[str, Any]] = []
    for wanted in HALLS:
        site = hall_of(wanted)
        found = study(Base(site, site.given, "typical"))
        made += sorted(rows(site, found), key=lambda row: str(row["key"]))
        print(" ".join(site.based_on), site.server.count, f"{len(found.by_key())} assumptions", file=sys.stderr)
    write_file(FILE, text_of(made))
    print(FILE)


if __name__ == "__main__":
    main()
