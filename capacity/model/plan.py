"""The Plan: one site's frames, findings and hashes. Data only: capacity.build makes it, capacity.outputs shows it."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from capacity.model import frames
from inventory.catalog import Catalog
from inventory.findings import Finding
from inventory.site import Site
from network import fabric


@dataclass(frozen=True, eq=False)
class Plan:
    """One site's plan. Frames are shared, not copied: do not change them in place.

    `catalog` is the catalogue that it was planned with: documents and checks read this one and no other.
    `gpus` is no frame of the plan but what was delivered (gpus.csv), beside which checks judge the plan's servers.
    """

    site: Site
    catalog: Catalog
    tree: fabric.FatTree | None
    devices: pd.DataFrame
    racks: pd.DataFrame
    placements: pd.DataFrame
    cables: pd.DataFrame
    feeds: pd.DataFrame
    circuits: pd.DataFrame
    outlets: pd.DataFrame
    elements: pd.DataFrame
    failures: pd.DataFrame
    waves: pd.DataFrame
    addresses: pd.DataFrame
    bom: pd.DataFrame
    schedule: pd.DataFrame
    zones: pd.DataFrame
    cooling_units: pd.DataFrame
    cooling_figures: pd.DataFrame
    cooling_options: pd.DataFrame
    activities: pd.DataFrame
    storage: pd.DataFrame
    gpus: pd.DataFrame
    findings: tuple[Finding, ...]
    hashes: Mapping[str, str]
    hash: str

    def __repr__(self) -> str:
        return f"Plan({self.site.name!r}, {len(self.devices)} devices, {len(self.findings)} findings, {self.hash[:12]})"

    @property
    def label(self) -> str:
        """The site's name, with what was changed in it."""
        return " ".join([self.site.name, *self.site.changes])

    @property
    def pdu_dialect(self) -> str:
        """How the site's rack PDUs are spoken to: `driver` of their model's catalogue entry.

        CatalogError for a model that is no rack PDU.
        """
        return self.catalog.rack_pdu(self.site.power.rack_pdu.model).driver

    def frames(self) -> dict[str, pd.DataFrame]:
        """The frames by name, in the order of capacity.model.frames.FRAMES."""
        return {name: getattr(self, name) for name in frames.FRAMES}
