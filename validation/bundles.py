"""Firmware that a BMC lists against the bundle of its model: S007 judges GPUs and their baseboard, S017 the rest."""

import re
from collections.abc import Callable, Mapping

from capacity.model import Plan
from inventory.delivered.firmware import Bundle, Package

OF_GPUS = re.compile(r"GPU|NVSwitch|HGX|HMC|FPGA|VBIOS|InfoROM|baseboard", re.IGNORECASE)
"""What names a part of the GPU baseboard in firmware inventories: NVIDIA, DGX H100/H200 firmware update guide, section on the HGX
items HGX_FW_GPU_SXM_1, HGX_FW_NVSwitch_0, HGX_FW_BMC_0, HGX_FW_FPGA_0.
"""


def of_gpus(package: Package) -> bool:
    """Whether a package is of GPUs, their switches or their baseboard."""
    return any(OF_GPUS.search(name) for name in (package.name, *package.versions))


def packages_of(plan: Plan, server: str, bundles: Mapping[str, Bundle]) -> list[str]:
    """Names of the packages of a server's bundle that are of its GPUs."""
    bundle = bundles.get(_model(plan, server))
    return [package.name for package in bundle.packages if of_gpus(package)] if bundle else []


def firmware_faults(
    plan: Plan,
    server: str,
    inventory: Mapping[str, str],
    bundles: Mapping[str, Bundle],
    judged: Callable[[Package], bool],
) -> list[str]:
    """What differs between what a server's BMC lists {item: version} and its bundle; [] without a bundle of its model."""
    bundle = bundles.get(_model(plan, server))
    return bundle.faults(inventory, judged) if bundle else []


def _model(plan: Plan, server: str) -> str:
    return str(plan.devices.loc[plan.devices["name"] == server, "model"].iloc[0])
