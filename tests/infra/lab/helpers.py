"""Sites like `lab` under other names and other prefixes, so that tests never meet a lab that somebody uses."""

import shutil
from pathlib import Path

from inventory.delivered.firmware import FIRMWARE_DIR
from inventory.paths import site_dir

OCTETS = {"lab": "10.77.", "lab-kubernetes": "10.79."}
"""What the lab's own networks begin with."""
GPU_NODES = 4
"""Of site lab."""


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
    shutil.copy(source / "site.yaml", home / "site.yaml")
    replace(
        home / "site.yaml",
        (f"\nname: {of}\n", f"\nname: {name}\n"),
        (OCTETS[of], f"10.{octet}."),
        (f"/labs/{of}/", f"/labs/{name}/"),
    )
    return home / "site.yaml"


def replace(site_file: Path, *changes: tuple[str, str]) -> None:
    """Replace texts of a site file by others; each must stand there."""
    text = site_file.read_text()
    for old, new in changes:
        assert old in text, f"site {site_file.parent.name} has no {old.strip()!r} any more"
        text = text.replace(old, new)
    site_file.write_text(text)


def small_site(folder: Path, name: str, octet: int, gpu_nodes: int = GPU_NODES) -> Path:
    """The lab's site with one pair of leaves instead of two, and with its first `gpu_nodes` GPU nodes, two a rack."""
    path = other_site(folder, name, octet)
    server = "\nserver:\n  count: {}\n"
    replace(
        path, ("spines: 2, leaves: 4}", "spines: 2, leaves: 2}"), (server.format(GPU_NODES), server.format(gpu_nodes))
    )
    absent = {"leaf03", "leaf04", *(f"gpu{number:03d}" for number in range(gpu_nodes + 1, GPU_NODES + 1))}
    for table in ("assets.csv", "gpus.csv"):
        rows = (path.parent / table).read_text().splitlines(keepends=True)
        there = [row for row in rows if row.partition(",")[0].partition(":")[0] not in absent]
        (path.parent / table).write_text("".join(there))
    return path


def three_controllers(folder: Path, name: str, octet: int) -> Path:
    """The lab's site with Kubernetes, with two controllers more and their adapters."""
    path = other_site(folder, name, octet, of="lab-kubernetes")
    one = "{role: controller, model: lab-service-node, count: 1}"
    replace(path, (one, one.replace("count: 1", "count: 3")))
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
