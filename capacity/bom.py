"""First bill of materials: counts of what the plan places, cables and cords, without spares and without prices.

Each line names the commissioning step that buys it.
"""

import numpy as np
import pandas as pd

from capacity.cooling.coolant import distribution_units
from capacity.frames import counts
from inventory.catalog import Catalog
from inventory.site import Site

LENGTH_BINS_M = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 10000)
"""Lengths in which cables are counted, metres: a cable is bought in the next longer one."""

_STEPS = {
    "gpu": "S009", "controller": "S009", "storage": "S123", "rack_pdu": "S086", "power_shelf": "S020", "oob": "S040",
}  # fmt: skip
_RACK_NOTE = "all racks of the plan"


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
    processors = site.server.count * server.bringup.cpus
    if processors:
        rows.append(("cpu", site.server.model, processors, "each", "S011", f"{server.bringup.cpus} per GPU server"))
    for (kind, role, fabric, model), quantity in counts(devices, ["kind", "role", "fabric", "model"]):
        what = f"{fabric} {role}".strip()
        rows.append((kind, model, quantity, "each", _STEPS.get(role, "S040"), what))
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
    rows += [("rack", model, quantity, "each", "S083", _RACK_NOTE) for (model,), quantity in counts(racks, ["model"])]
    if site.server.system:
        systems = int(devices["busbar"].max()) + 1
        rows.append(
            ("system", site.server.system, systems, "each", "S009", "racks bought whole, with what stands in them")
        )
    loop = site.cooling.coolant
    if loop is not None:
        liquid_kw = float((devices["nameplate_w"] * (1 - devices["air_fraction"])).sum()) / 1000
        units = distribution_units(liquid_kw, loop.cdu_kw, site.cooling.n_plus)
        rows.append(("cdu", f"{loop.cdu_kw:g} kW", units, "each", "S108", f"{site.cooling.n_plus} to spare"))
    bins = np.array(LENGTH_BINS_M)
    known = cables[cables["part"] != ""]
    length = bins[np.minimum(np.searchsorted(bins, known["length_m"].to_numpy(dtype=np.float64)), len(bins) - 1)]
    tally: dict[tuple[str, float], tuple[int, set[str]]] = {}
    for part, metres, stage, quantity in _tally(known.assign(bin=length)):
        before, stages = tally.get((part, metres), (0, set()))
        tally[part, metres] = (before + quantity, {*stages, stage})
    for (part, metres), (quantity, stages) in sorted(tally.items()):
        rows.append(("cable", f"{part}, {metres:g} m", quantity, "each", "S045", ", ".join(sorted(stages))))
    for (inlet, connector), quantity in sorted(counts(cords[cords["connector"] != ""], ["inlet", "connector"])):
        rows.append(("cord", f"{connector} to {inlet}", quantity, "each", "S087", "one per power supply"))
    for kind, circuit, what in (
        ("pdu", site.power.rack_circuit, "rack PDU"),
        ("shelf", site.power.shelf_circuit, "power shelf"),
    ):
        ends = int((devices["kind"] == kind).sum())
        if circuit is not None and ends:
            rating = f"{circuit.breaker_a:g} A, {circuit.phases}-phase, {site.power.voltage_v:g} V"
            rows.append(("breaker", rating, ends, "each", "S085", f"one per {what}"))
    return pd.DataFrame(rows, columns=["item", "model", "quantity", "unit", "step", "note"])


def _tally(cables: pd.DataFrame) -> list[tuple[str, float, str, int]]:
    """(part, length bin in metres, stage, cables) of cables with a column `bin`."""
    sizes = cables.groupby(["part", "bin", "stage"]).size()
    keys = sizes.index.to_frame(index=False)
    columns = (keys["part"].astype(str), keys["bin"].astype(float), keys["stage"].astype(str), sizes.astype(int))
    return list(zip(*(column.tolist() for column in columns), strict=True))
