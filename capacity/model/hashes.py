"""Hashes of a plan: one a slice of its input and one a frame, and one of the whole."""

from collections.abc import Callable, Mapping

import pandas as pd

from capacity.model import frames
from inventory.delivered.assets import assets_hash
from inventory.delivered.firmware import bundle_hashes
from inventory.delivered.gpus import gpus_hash
from inventory.imports.core import stored
from inventory.site import Site

DELIVERED = ("assets", "gpus", "import.", "firmware.")
"""Hashes, or what they begin with, of what was delivered: no part of the plan's own hash."""


def slices(
    site: Site,
    assets: pd.DataFrame,
    gpus: pd.DataFrame,
    built: Mapping[str, pd.DataFrame],
    frame_hash: Callable[[pd.DataFrame], str] = frames.frame_hash,
) -> dict[str, str]:
    """Hash per site key (`site.fabric`), of the assets, of the GPUs, per imported file and per frame (`frame.cables`).

    MACs come from the assets, so `frame.addresses` leaves them out: a swapped NIC changes `assets` only.
    """
    hashes = {f"site.{key}": value for key, value in site.slices().items()} | delivered(site, assets, gpus)
    for name, frame in built.items():
        hashes[f"frame.{name}"] = (
            frames.frame_hash(frame.drop(columns="mac")) if name == "addresses" else frame_hash(frame)
        )
    return hashes


def delivered(site: Site, assets: pd.DataFrame, gpus: pd.DataFrame) -> dict[str, str]:
    """Hashes of what was delivered: assets, GPUs, imported files, firmware bundles."""
    files = {f"import.{name}": value for name, value in stored.hashes(site.dir).items()}
    files |= {f"firmware.{name}": value for name, value in bundle_hashes(site).items()}
    return {"assets": assets_hash(assets), "gpus": gpus_hash(gpus), **files}


def whole(hashes: Mapping[str, str]) -> str:
    """Hash of the plan: all slices but what was delivered."""
    intent = sorted((key, value) for key, value in hashes.items() if not key.startswith(DELIVERED))
    return frames.digest("\n".join(f"{key} {value}" for key, value in intent))
