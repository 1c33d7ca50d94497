"""Write a plan to a folder: each frame as Parquet and CSV, summary.json, and a manifest of what was written.

The manifest SHA256SUMS names site and plan in a comment and has a line a file: `sha256sum -c SHA256SUMS` checks a folder that
was sent on. A CSV has no comment of its own, so that any program reads it; README.txt says what each file is.
"""

import hashlib
import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, parquet

from capacity.model import Plan
from capacity.outputs import readme
from capacity.outputs.summary import summarise
from capacity.outputs.tables import inert
from inventory.paths import write_file

MANIFEST = "SHA256SUMS"


def write_plan(plan: Plan, folder: Path) -> dict[str, Path]:
    """Write all files; returns their paths by name (`cables.parquet`, `cables.csv`, …, `summary.json`).

    Arrow writes the CSV ten times faster than pandas does, which shows from a thousand servers on.
    """
    quoting = csv.WriteOptions(quoting_style="needed")
    written = {}
    for name, frame in plan.frames().items():
        shown = inert(frame)
        table = pa.Table.from_pandas(frame, preserve_index=False)
        tables = {
            "parquet": table,
            "csv": table if shown is frame else pa.Table.from_pandas(shown, preserve_index=False),
        }
        for ending, write in (("parquet", parquet.write_table), ("csv", partial(csv.write_csv, write_options=quoting))):
            sink = pa.BufferOutputStream()
            write(tables[ending], sink)
            file = f"{name}.{ending}"
            written[file] = write_file(folder / file, sink.getvalue().to_pybytes())
    text = json.dumps(summarise(plan), indent=2, ensure_ascii=False) + "\n"
    written["summary.json"] = write_file(folder / "summary.json", text)
    written[readme.NAME] = write_file(folder / readme.NAME, readme.of_plan(plan))
    return written | {MANIFEST: write_manifest(plan, folder, written.values())}


def write_manifest(plan: Plan, folder: Path, files: Iterable[Path]) -> Path:
    """Write the manifest of `files`, which lie in `folder`, beside them."""
    lines = [f"# site {plan.site.name}, plan {plan.hash}"]
    for path in sorted(files):
        lines.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}")
    return write_file(folder / MANIFEST, "\n".join(lines) + "\n")
