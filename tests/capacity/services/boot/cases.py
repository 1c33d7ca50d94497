"""The lab's plan with delivered boot ports and boot drives, for the tests of network boot."""

import json

import pandas as pd
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

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


LUKS = "0b0f4b6e-57a5-5d3c-9a5e-0d6c33a1f0aa"
_BOOT = {"file": "bootfs.img.zst", "sha256": "6" * 64, "size": 60000000}
ENCRYPTED_IMAGE = json.loads(IMAGE) | {"luks": LUKS, "parts": {**json.loads(IMAGE)["parts"], "boot": _BOOT}}
RECOVERY = rsa.generate_private_key(public_exponent=65537, key_size=3072)
RECOVERY_PEM = RECOVERY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def image(role: str = "gpu", *, encrypted: bool = False) -> Image:
    said = ENCRYPTED_IMAGE if encrypted else json.loads(IMAGE)
    return parse_image(json.dumps({**said, "role": role}), "image.json")


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
