"""Network operating systems. Each is a folder: template.j2 (structured config -> text), driver.py (class Switch) and
capabilities.yaml (what it can do, with caveats)."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from network.nos.frr.driver import Switch

FOLDER = Path(__file__).parent


def folder(nos: str) -> Path:
    """The folder of one network OS. Raises ValueError that names the known ones."""
    known = sorted(p.parent.name for p in FOLDER.glob("*/driver.py"))
    if nos not in known:
        raise ValueError(f"network OS {nos!r} is none of {', '.join(known)}")
    return FOLDER / nos


def driver(nos: str) -> "type[Switch]":
    """The driver class of one network OS."""
    folder(nos)
    switch: type[Switch] = import_module(f"network.nos.{nos}.driver").Switch
    return switch
