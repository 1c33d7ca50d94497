"""GPUs."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from inventory.catalog.entry import Entry


class Interruptions(Entry):
    """How rarely a training job is interrupted, as hours of one GPU between two interruptions, with the published range."""

    gpu_hours: float = Field(gt=0, description="Hours of one GPU for each interruption.")
    low_gpu_hours: float = Field(gt=0, description="The same in the published cluster that is interrupted most.")
    high_gpu_hours: float = Field(gt=0, description="The same in the published cluster that is interrupted least.")


LLAMA_3_GPU_HOURS = 54 * 24 * 16_384 / 419
"""419 unexpected interruptions in 54 days on 16,384 H100 (arXiv 2407.21783, table 5): RC-X4."""
UNKNOWN_SOURCE = "not confirmed for this GPU: as 16,384 H100 (arXiv 2407.21783, table 5)"
RANGE_SOURCE = (
    "not confirmed: A100 clusters: "
    "OPT-175B, about 105 restarts by hardware in 60 days on 992 GPUs (arXiv 2205.01068, section 2.5); Meta "
    "RSC-2, 2.34 failures in 1,000 days of a node of 8 GPUs (arXiv 2410.21680)"
)
UNKNOWN = Interruptions(
    gpu_hours=LLAMA_3_GPU_HOURS,
    low_gpu_hours=992 * 60 * 24 / 105,
    high_gpu_hours=1000 * 24 * 8 / 2.34,
)
"""For a model without a figure of its own: as 16,384 H100."""


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
    mig: Mapping[str, Annotated[int, Field(ge=1, le=8)]] = Field(
        default={}, description="MIG profiles, and how many instances of each fit on one GPU; empty where not known."
    )
    interruptions: Interruptions = Field(default=UNKNOWN, description="How often jobs on such GPUs are interrupted.")
    sources: Mapping[str, str] = Field(
        description="Key (or prefix of keys) -> where its numbers come from.", min_length=1
    )

    @property
    def interruptions_source(self) -> tuple[str, str]:
        """Where `interruptions` is from, and where its range is from."""
        given = self.sources
        return given.get("interruptions", UNKNOWN_SOURCE), given.get("interruptions.low_gpu_hours", RANGE_SOURCE)
