"""README.txt of a folder of outputs: site, plan, and what each file is. CSV files carry no comments, so it stands for their stamp.

of_plan(plan), of_documents(plan, names) -> text      pure; descriptions are in files.yaml
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from capacity.model import Plan
from capacity.model.frames import FRAMES
from inventory.yaml_data import read_data

NAME = "README.txt"


@cache
def described() -> Mapping[str, Mapping[str, str]]:
    """`plan`: what each frame holds; `documents`: what each document is, by name or pattern."""
    found: Mapping[str, Mapping[str, str]] = read_data(Path(__file__).with_name("files.yaml"))
    return found


def of_plan(plan: Plan) -> str:
    """The list of a plan's folder, with the columns of each table."""
    lines = _head(plan)
    lines += ["summary.json: figures and findings", "purchase.xlsx: bill of materials, order dates and programme"]
    lines += ["report.html: the report, in any browser", "SHA256SUMS: every file with its hash", ""]
    for name, columns in FRAMES.items():
        lines += [f"{name}.csv, {name}.parquet: {described()['plan'][name]}"]
        lines += [f"  {column}: {meaning}" for column, (_, meaning) in columns.items()]
    return "\n".join(lines) + "\n"


def of_documents(plan: Plan, names: Iterable[str]) -> str:
    """The list of the documents that are written for a plan."""
    return "\n".join([*_head(plan), *(f"{name}: {document(name)}" for name in names)]) + "\n"


def document(name: str) -> str:
    """What a document is; KeyError for one that files.yaml does not describe."""
    listed = described()["documents"]
    return listed[next((pattern for pattern in listed if fnmatch(name, pattern)), name)]


def _head(plan: Plan) -> list[str]:
    return [f"site {plan.label}, plan {plan.hash}", ""]
