"""A plan after a delivery: MACs and hashes of what was delivered; nothing else changes."""

from dataclasses import replace

import pandas as pd

from capacity.model import Plan, frames, hashes
from inventory.delivered.gpus import load_gpus
from network.wiring import addressing


def delivered(plan: Plan, assets: pd.DataFrame, gpus: pd.DataFrame | None = None) -> Plan:
    """The plan of the same site after a delivery: `assets` and `gpus` as `load_assets` and `load_gpus` give them.

    No name, place, port or address depends on what is delivered: every frame but the MACs of `addresses` stays, and so does
    the hash of the plan. Equal to `build(site, catalog, assets)`.
    """
    gpus = load_gpus(plan.site) if gpus is None else gpus
    servers = plan.devices.loc[plan.devices["kind"] == "server", "name"]
    addresses = frames.conform("addresses", addressing.with_macs(plan.addresses, servers, assets))
    intent = {key: value for key, value in plan.hashes.items() if not key.startswith(hashes.DELIVERED)}
    return replace(plan, addresses=addresses, gpus=gpus, hashes=intent | hashes.delivered(plan.site, assets, gpus))
