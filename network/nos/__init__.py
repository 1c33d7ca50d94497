"""Network operating systems. Each is a folder: template.j2 (structured config -> text), driver.py (class Switch) and
capabilities.yaml (what it can do, with caveats)."""

from pathlib import Path

FOLDER = Path(__file__).parent


def folder(nos: str) -> Path:
    """The folder of one network OS. Raises ValueError that names the known ones."""
    known = sorted(p.parent.name for p in FOLDER.glob("*/driver.py"))
    if nos not in known:
        raise ValueError(f"network OS {nos!r} is none of {', '.join(known)}")
    return FOLDER / nos
