"""Network operating systems. Each is a folder: template.j2 (structured config -> text), driver.py (class Switch) and
capabilities.yaml (what it can do, with caveats). One without driver.py is rendered only: no verb pushes to it."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from inventory.yaml_data import read_data

FOLDER = Path(__file__).parent


def folder(nos: str, holds: str = "driver.py") -> Path:
    """The folder of one network OS that holds a file. Raises ValueError that names those that do."""
    known = sorted(p.parent.name for p in FOLDER.glob(f"*/{holds}"))
    if nos not in known:
        raise ValueError(f"network OS {nos!r} is none of {', '.join(known)}")
    return FOLDER / nos


def has_driver(nos: str) -> bool:
    """Whether a network OS has a driver, or is rendered only."""
    return (FOLDER / nos / "driver.py").is_file()


@cache
def capabilities(nos: str) -> Mapping[str, Any]:
    """What capabilities.yaml says of one network OS, with a driver or without. Raises FileNotFoundError for an unknown one."""
    data: Mapping[str, Any] = read_data(FOLDER / nos / "capabilities.yaml")
    return data
