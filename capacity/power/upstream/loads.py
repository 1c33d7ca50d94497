"""The loads that the supply carries: those of the racks with what feeds them, and those beside IT.

In: the site, the catalogue and the power plan of the racks. Out: kW, and the groups of loads of network.py.
"""

import numpy as np
import numpy.typing as npt

from capacity.power import facility
from capacity.power.rack.budget import Power
from capacity.power.rack.psus import supplies_by_model
from capacity.power.upstream.network import Groups
from capacity.power.upstream.power_factor import power_factors
from capacity.space.devices import BUSBAR
from inventory.catalog import Catalog
from inventory.site import Site
from inventory.site.sections.electrical import Electrical

Floats = npt.NDArray[np.float64]


def all_circuits_kw(site: Site, power: Power) -> float:
    """Load of all circuits with everything in order."""
    return (float(power.fed[f"{site.power.profile}_w"].sum()) + float(power.end_w.sum())) / 1000


def mechanical_kw(site: Site, electrical: Electrical, it_kw: float) -> float:
    """Load beside IT, to size its boards: facility load by PUE, less IT and losses of its UPS and transformers at rated
    load. `build` then takes the losses at the planned load.
    """
    facts = electrical.transformers
    rated_kw = facts.kva * power_factors(site).of("transformer")
    losses = it_kw / electrical.ups_blocks.efficiency * (1 + (facts.load_loss_kw + facts.no_load_kw) / rated_kw) - it_kw
    return max(facility.itemised_kw(it_kw, site.power.pue) - it_kw - losses, 0.0) * mechanical_efficiency(
        site, electrical
    )


def mechanical_efficiency(site: Site, electrical: Electrical) -> float:
    """Share of the power beside IT that reaches the motors: that of a UPS where cooling is on it, else all."""
    return electrical.ups_blocks.efficiency if site.ups.scope == "it_and_cooling" else 1.0


def load_groups(site: Site, catalog: Catalog, power: Power, profile: str) -> Groups:
    """The loads of the plan with what their supplies are; those of GPU servers need no more than their power cap."""
    fed = power.fed
    known = supplies_by_model(site, catalog)
    roles, models = fed["role"].tolist(), fed["model"].tolist()
    by_model = {slug: group for (_, slug), group in known.items()}
    busbar = known.get((BUSBAR, site.server.system or ""))
    groups = [busbar if role == BUSBAR else by_model.get(model) for role, model in zip(roles, models, strict=True)]
    count = fed["supplies"].to_numpy(dtype=np.int64)
    normal, lost = fed[profile].to_numpy(dtype=np.float64), fed["lost_w"].to_numpy(dtype=np.float64)
    nameplate = fed["nameplate_w"].to_numpy(dtype=np.float64)
    capped = np.array([role in ("gpu", BUSBAR) for role in roles]) & (site.server.power.cap_w is not None)
    drop = np.where(capped, nameplate - _saved_by_cap(site, catalog, np.array(roles, dtype=object)), nameplate)
    rating = np.array([g.rating_w if g else np.inf for g in groups])
    needed = np.array([g.needed if g else 1 for g in groups], dtype=np.int64)
    fewer = np.ceil(np.where(np.isfinite(rating), drop / rating, 1)).astype(np.int64)
    trays = catalog.system(site.server.system).count("compute") if site.server.system else 0
    servers = np.array([1 if r == "gpu" else trays if r == BUSBAR else 0 for r in roles], dtype=np.int64)
    return Groups(
        fed["name"].to_numpy(dtype=object),
        normal,
        lost,
        drop,
        np.where(capped, np.minimum(needed, fewer), needed),
        count,
        np.where(np.isfinite(rating), rating, nameplate + 1),
        servers,
        np.array([g.reduced_on if g else 0 for g in groups], dtype=np.int64),
    )


def _saved_by_cap(site: Site, catalog: Catalog, roles: npt.NDArray[np.object_]) -> Floats:
    """Watts that the power cap takes off the nameplate of a server, and of all trays of a busbar."""
    cap, nameplate = site.server.power.cap_w, site.server.power.nameplate_w
    saved = nameplate - min(cap, nameplate) if cap is not None else 0.0
    trays = catalog.system(site.server.system).count("compute") if site.server.system else 0
    return np.where(roles == "gpu", saved, np.where(roles == BUSBAR, saved * trays, 0.0))
