"""Which sites the checks and the burn-in can test: those with NVIDIA's GPUs, which are read through NVML.

In: a site. Out: why it cannot be tested, or nothing. Pure.
"""

from inventory.site import Site

ONLY_NVIDIA = (
    "the GPU checks and the burn-in read NVIDIA's NVML and compute with CUDA, others are not supported; test these GPUs with "
    "their maker's own tools"
)
TESTED = "NVIDIA"
"""The maker whose GPUs the checks read, as the catalogue prints it."""


def why_not_tested(site: Site) -> str | None:
    """Why a site cannot be tested; None where it can, or where the catalogue has no entry for its GPUs."""
    gpu = site.catalog.gpus.get(site.gpu.sku)
    if gpu is None or gpu.manufacturer == TESTED:
        return None
    return f"gpu.sku {gpu.slug} of {site.name} is of {gpu.manufacturer}: {ONLY_NVIDIA}"
