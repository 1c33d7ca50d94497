"""Write a plan to a folder: each frame as Parquet and CSV, and summary.json."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from capacity.plan import Plan


def write_plan(plan: "Plan", folder: Path) -> dict[str, Path]:
    """Write all files; returns their paths by name (`cables.parquet`, `cables.csv`, …, `summary.json`)."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for name, frame in plan.frames().items():
        for suffix in ("parquet", "csv"):
            path = folder / f"{name}.{suffix}"
            if suffix == "parquet":
                frame.to_parquet(path, index=False)
            else:
                frame.to_csv(path, index=False, lineterminator="\n")
            written[path.name] = path
    summary = folder / "summary.json"
    summary.write_text(json.dumps(plan.summary(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    written[summary.name] = summary
    return written
