"""First bill of materials: counts of what the plan places, cables and cords, without spares and without prices.

Each line names the commissioning step that buys it.
"""

import numpy as np
import pandas as pd

from inventory.catalog import Catalog
from inventory.site import Site

LENGTH_BINS_M = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 10000)
"""Lengths in which cables are counted, metres: a cable is bought in the next longer one."""

_STEPS = {"gpu": "S009", "controller": "S009", "storage": "S123", "rack_pdu": "S086", "oob": "S040"}


def build(
    site: Site, catalog: Catalog, devices: pd.DataFrame, racks: pd.DataFrame, cables: pd.DataFrame, cords: pd.DataFrame
) -> pd.DataFrame:
    """The `bom` frame; `cords` has columns inlet and connector, one row per connected supply."""
    rows: list[tuple[str, str, int, str, str, str]] = []
    server = catalog.device(site.server.model)
    rows.append(
        (
            "gpu",
            site.gpu.sku,
            site.server.count * server.bringup.gpus,
            "each",
            "S001",
            f"{server.bringup.gpus} per GPU server",
        )
    )
    counts = devices.groupby(["kind", "role", "fabric", "model"], sort=False).size()
    for (kind, role, fabric, model), quantity in counts.items():  # type: ignore[misc]
        what = f"{fabric} {role}".strip()
        rows.append((kind, model, int(quantity), "each", _STEPS.get(role, "S040"), what))
    rows.append(
        (
            "nic port",
            f"{site.server.nic.rate_gbps}G",
            site.server.count * site.server.nic.ports,
            "each",
            "S039",
            "fabric ports of GPU servers",
        )
    )
    rows.append(("rack", site.rack.model, len(racks), "each", "S083", "all racks of the plan"))
    bins = np.array(LENGTH_BINS_M)
    known = cables[cables["part"] != ""]
    length = bins[np.minimum(np.searchsorted(bins, known["length_m"].to_numpy(dtype=np.float64)), len(bins) - 1)]
    for (part, metres), group in known.assign(bin=length).groupby(["part", "bin"], sort=True):  # type: ignore[misc]
        rows.append(
            ("cable", f"{part}, {metres:g} m", len(group), "each", "S045", ", ".join(sorted(set(group["stage"]))))
        )
    for (inlet, connector), quantity in cords.groupby(["inlet", "connector"], sort=True).size().items():  # type: ignore[misc]
        rows.append(("cord", f"{connector} to {inlet}", int(quantity), "each", "S087", "one per power supply"))
    circuit = site.power.rack_circuit
    pdus = int((devices["kind"] == "pdu").sum())
    rows.append(
        (
            "breaker",
            f"{circuit.breaker_a:g} A, {circuit.phases}-phase, {site.power.voltage_v:g} V",
            pdus,
            "each",
            "S085",
            "one per rack PDU",
        )
    )
    return pd.DataFrame(rows, columns=["item", "model", "quantity", "unit", "step", "note"])
