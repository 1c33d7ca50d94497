"""The shipped sites as files that state every key themselves, without reference designs.

Tests that change a key of a file by its text read these, since a shipped file states only what no reference design gives.
`tests/inventory/site/test_shipped_sites.py` holds that each is the same site as the shipped one.

    text = full_text("lab")
"""

from pathlib import Path

FOLDER = Path(__file__).parent / "data" / "sites_in_full"


def full_text(name: str) -> str:
    """The site file in full."""
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
