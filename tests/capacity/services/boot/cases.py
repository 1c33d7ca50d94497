"""The lab's plan with delivered boot ports and boot drives, for the tests of network boot."""

import json

import pandas as pd

from capacity.model import Plan
from capacity.services.boot import Image, parse_image
from inventory.delivered.assets import COLUMNS

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHVzZWQgYnkgdGVzdHMgb25seSwgbm8ga2V5IGF0IGFsbA== test"
_PARTS = {
    "root": ("root.img.zst", 1073741824),
    "esp": ("esp.img", 268435456),
    "bios": ("core.img", 120000),
    "mbr": ("boot.img", 440),
    "kernel": ("vmlinuz", 8000000),
    "initrd": ("deploy.initrd", 9000000),
}
IMAGE = json.dumps(
    {
        "role": "gpu",
        "version": "0123456789ab",
        "parts": {
            name: {"file": file, "sha256": str(digit) * 64, "size": size}
            for digit, (name, (file, size)) in enumerate(_PARTS.items())
        },
    }
)


def image(role: str = "gpu") -> Image:
    return parse_image(IMAGE.replace('"gpu"', f'"{role}"'), "image.json")


def servers(plan: Plan) -> list[str]:
    return list(plan.devices.loc[plan.devices["kind"] == "server", "name"])


def delivered(macs: dict[str, str], drives: int = 2) -> pd.DataFrame:
    """An asset list: a boot port and so many boot drives for each server of `macs`."""
    rows = []
    for server, mac in macs.items():
        rows.append((f"{server}:eth0", "maker", f"NIC-{server}", "", mac, ""))
        rows += [(f"{server}:boot{n}", "maker", f"DISK-{server}-{n}", "", "", "") for n in range(drives)]
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=str).set_index("device")


def all_delivered(plan: Plan) -> pd.DataFrame:
    return delivered({server: f"02:5e:00:00:00:{n:02x}" for n, server in enumerate(servers(plan))})
