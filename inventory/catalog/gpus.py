"""GPUs."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from inventory.catalog.entry import Entry


class Gpu(Entry):
    """A GPU model."""

    slug: str = Field(description="Id: the name of the file, and gpu.sku of site files.")
    manufacturer: str = Field(description="Maker, as it prints its name.")
    model: str = Field(description="The maker's name of the model.")
    form_factor: Literal["sxm", "oam", "pcie"] = Field(description="Baseboard module (sxm, oam) or card (pcie).")
    tdp_w: float = Field(description="Thermal design power, watts.")
    memory_gib: float = Field(description="Memory, as the maker counts it.")
    nvlink_gb_s: float = Field(description="Both directions together, gigabytes per second; 0 where there is none.")
    aux_connectors: int = Field(
        description="Power connectors on the card itself; a baseboard module has none (ERR-07)."
    )
    peak_tflops: float = Field(
        default=0, description="Dense BF16 rate on tensor cores, TFLOP/s; 0 where not known (MFU is then not reported)."
    )
    nvml_name: str = Field(default="", description="Product name as NVML says it.")
    pcie_gen: int = Field(default=0, description="PCIe generation; 0 where not known (not judged).")
    pcie_width: int = Field(default=0, description="PCIe lanes; 0 where not known (not judged).")
    nvlinks: int = Field(default=0, description="NVLink links that must be up.")
    sources: Mapping[str, str] = Field(
        description="Key (or prefix of keys) -> where its numbers come from.", min_length=1
    )
