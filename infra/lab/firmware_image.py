"""Firmware images that the lab's BMCs install: what they bring, and a hash over it that a BMC verifies.

    data = make("lab-gpu-node", {"BIOS": "2.1"})
    read(data, "lab-gpu-node")                  # {"BIOS": "2.1"}; ValueError for an altered one or another model's

No image of a real device: the lab's BMCs take nothing else, and real ones do not take these.
"""

import hashlib
import json
from collections.abc import Mapping

MAGIC = b"BRINGUP LAB FIRMWARE\n"


def make(model: str, versions: Mapping[str, str]) -> bytes:
    """An image for a model that brings these versions, by item of the firmware inventory."""
    payload = json.dumps({"model": model, "versions": dict(versions)}, sort_keys=True).encode()
    return MAGIC + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload


def read(data: bytes, model: str) -> dict[str, str]:
    """What an image brings. ValueError for what is none, is altered, or is made for another model."""
    head, _, payload = data.removeprefix(MAGIC).partition(b"\n")
    if not data.startswith(MAGIC) or hashlib.sha256(payload).hexdigest().encode() != head:
        raise ValueError("not an image of the lab, or an altered one")
    said = json.loads(payload)
    if said["model"] != model:
        raise ValueError(f"made for {said['model']}, not for {model}")
    return {str(item): str(version) for item, version in said["versions"].items()}
