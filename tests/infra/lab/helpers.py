"""A site like `lab` under another name and other prefixes, so that tests never meet a lab that somebody uses."""

import shutil
from pathlib import Path

from inventory.delivered.firmware import FIRMWARE_DIR
from inventory.paths import site_dir


def other_site(folder: Path, name: str, octet: int) -> Path:
    """Copy of site lab as `folder`/`name`/site.yaml with networks 10.`octet`.0.0/24 and 10.`octet`.1.0/24."""
    home = folder / name
    home.mkdir(parents=True)
    source = site_dir("lab")
    for table in source.glob("*.csv"):
        shutil.copy(table, home / table.name)
    shutil.copytree(source / FIRMWARE_DIR, home / FIRMWARE_DIR)
    text = (source / "site.yaml").read_text()
    for old, new in (
        ("\nname: lab\n", f"\nname: {name}\n"),
        ("10.77.", f"10.{octet}."),
        ("/labs/lab/", f"/labs/{name}/"),
    ):
        assert old in text, f"site lab has no {old.strip()!r} any more"
        text = text.replace(old, new)
    (home / "site.yaml").write_text(text)
    return home / "site.yaml"
