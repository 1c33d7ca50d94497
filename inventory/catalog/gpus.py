"""GPUs."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from inventory.catalog.entry import Entry


class Gpu(Entry):
    """A GPU model."""

    slug: str
    manufacturer: str
    model: str
    form_factor: Literal["sxm", "oam", "pcie"]
    tdp_w: float
    memory_gib: float
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
    sources: Mapping[str, str] = Field(min_length=1)
