"""Firmware that a BMC lists against the bundle of its model: S007 judges GPUs and their baseboard, S017 the rest."""

import re
from collections.abc import Callable, Mapping

from capacity.model import Plan
from inventory.delivered.firmware import Bundle, Package

OF_GPUS = re.compile(r"GPU|NVSwitch|HGX|HMC|FPGA|VBIOS|InfoROM|baseboard", re.IGNORECASE)
"""What names a part of the GPU baseboard in firmware inventories: NVIDIA, DGX H100/H200 firmware update guide, section on the HGX
items HGX_FW_GPU_SXM_1, HGX_FW_NVSwitch_0, HGX_FW_BMC_0, HGX_FW_FPGA_0.
"""
OF_BASEBOARD = re.compile(r"NVSwitch|FPGA|HMC|HGX_FW_BMC|baseboard", re.IGNORECASE)
"""Those of them that are of the baseboard itself; its own BMC, HGX_FW_BMC_0, is the HMC (same source)."""


def of_gpus(package: Package) -> bool:
    """Whether a package is of GPUs, their switches or their baseboard."""
    return any(OF_GPUS.search(name) for name in (package.name, *package.versions))


def unproven(plan: Plan, server: str, inventory: Mapping[str, str], bundles: Mapping[str, Bundle]) -> list[str]:
    """Why what a BMC lists {item: version} does not prove the firmware of a server's GPUs and baseboard, a sentence each.

    A server with modules needs a bundle that says what their baseboard runs, and a BMC that lists the baseboard; whatever a BMC
    lists of it the bundle has to name. Cards have no baseboard: NVML says what they run, and a bundle is judged where there is one.
    """
    model, modules = _model(plan, server), plan.site.gpu.form_factor != "pcie"
    bundle = bundles.get(model)
    if bundle is None:
        how = f"write what was qualified to firmware/{model}.yaml beside the site file (docs/firmware.md)"
        return [f"no firmware bundle of {model} says what its GPUs and their baseboard run: {how}"] if modules else []
    listed = {item: runs for item, runs in inventory.items() if OF_GPUS.search(item)}
    named = {item for package in bundle.packages for item in package.items(listed)}
    faults = firmware_faults(plan, server, inventory, bundles, of_gpus)
    faults += [
        f"{item} {runs} is in no package of bundle {bundle.bundle}: say which version was qualified"
        for item, runs in listed.items()
        if item not in named
    ]
    if modules and not any(OF_BASEBOARD.search(item) for item in listed):
        faults.append("the BMC lists no firmware of the GPU baseboard (NVSwitch, FPGA or HMC)")
    return faults


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
