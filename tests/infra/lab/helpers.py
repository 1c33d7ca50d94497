"""A site like `lab` under another name and other prefixes, so that tests never meet a lab that somebody uses."""

import shutil
from pathlib import Path

from inventory.delivered.firmware import FIRMWARE_DIR
from inventory.paths import site_dir

OCTETS = {"lab": "10.77.", "lab-kubernetes": "10.79."}
"""What the lab's own networks begin with."""


def other_site(folder: Path, name: str, octet: int, of: str = "lab") -> Path:
    """Copy of site lab, or another of the lab's, as `folder`/`name`/site.yaml with networks 10.`octet`.0.0/24 and
    10.`octet`.1.0/24.
    """
    home = folder / name
    home.mkdir(parents=True)
    source = site_dir(of)
    for table in source.glob("*.csv"):
        shutil.copy(table, home / table.name)
    shutil.copytree(source / FIRMWARE_DIR, home / FIRMWARE_DIR)
    text = (source / "site.yaml").read_text()
    for old, new in (
        (f"\nname: {of}\n", f"\nname: {name}\n"),
        (OCTETS[of], f"10.{octet}."),
        (f"/labs/{of}/", f"/labs/{name}/"),
    ):
        assert old in text, f"site {of} has no {old.strip()!r} any more"
        text = text.replace(old, new)
    (home / "site.yaml").write_text(text)
    return home / "site.yaml"


def three_controllers(folder: Path, name: str, octet: int) -> Path:
    """The lab's site with Kubernetes, with two controllers more and their adapters."""
    path = other_site(folder, name, octet, of="lab-kubernetes")
    one = "{role: controller, model: lab-service-node, count: 1}"
    text = path.read_text()
    assert one in text
    path.write_text(text.replace(one, one.replace("count: 1", "count: 3")))
    with (path.parent / "assets.csv").open("a") as assets:
        for number in (2, 3):
            maker, serial, mac = (
                "SIMULATED (bringup lab)",
                f"SIM-SN-29{number:02d}",
                f"02:42:10:00:02:{number + 16:02x}",
            )
            uuid = f"00000000-0000-4000-8000-0000000029{number:02d}"
            assets.write(f"ctl{number:02d},{maker},{serial},{uuid},{mac},\n")
            assets.write(f"ctl{number:02d}:ib0,{maker},SIM-CA-9{number}00,,,02420a00030091{number}1\n")
    return path
