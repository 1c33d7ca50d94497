"""Site keys that repeat facts of the catalogue and say something else: the GPU of a server model, its nameplate, its ports.

In: site and catalogue. Out: findings CATALOG-CONTRADICTS, each with the catalogue's value as a remedy where the site file
takes it. What was measured below the nameplate contradicts nothing. What the site file cannot mean at all (another number
of supplies, more watts than the GPU draws) is refused by its rules. Pure.
"""

from collections.abc import Iterator
from typing import Any

from inventory.catalog import Catalog, DeviceType
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from inventory.site.effective import port_gbps

SAME = 0.01
"""Share by which a nameplate may differ from the catalogue's: data sheets round."""


def check_catalog(site: Site, catalog: Catalog) -> list[Finding]:
    """Keys of the site that contradict the entry of its server model."""
    device = catalog.device(site.server.model)
    return [*_gpu(site, catalog, device), *_nameplate(site, device), *_ports(site, device)]


def _gpu(site: Site, catalog: Catalog, device: DeviceType) -> Iterator[Finding]:
    sold = device.bringup.gpu_models
    if not sold or site.gpu.sku in sold:
        return
    holding = [one.slug for one in catalog.devices.values() if site.gpu.sku in one.bringup.gpu_models]
    remedies = [remedy(_gpu_settings(catalog, slug)) for slug in sold if slug in catalog.gpus]
    if holding:
        remedies.append(remedy(fix="server", servers=", ".join(sorted(holding))))
    yield finding(
        "CATALOG-CONTRADICTS",
        "gpu.sku",
        case="gpu",
        severity="error",
        words={"found": site.gpu.sku, "sold": ", ".join(sold), "model": device.slug, "why": _source(device, "gpus")},
        remedies=remedies,
        limit_source=f"catalogue {device.slug} gpu_models",
    )


def _gpu_settings(catalog: Catalog, slug: str) -> dict[str, Any]:
    gpu = catalog.gpu(slug)
    return {"gpu.sku": slug, "gpu.form_factor": gpu.form_factor, "gpu.tdp_w": gpu.tdp_w}


def _nameplate(site: Site, device: DeviceType) -> Iterator[Finding]:
    power, rated_w = site.server.power, device.bringup.power.nameplate_w
    if abs(power.nameplate_w - rated_w) <= SAME * rated_w:
        return
    lower = power.nameplate_w < rated_w
    taken = max(power.seed_w, power.measured_w, power.cap_w or 0) <= rated_w
    yield finding(
        "CATALOG-CONTRADICTS",
        "server.power.nameplate_w",
        case="nameplate",
        severity="warning" if lower else "info",
        words={"model": device.slug, "why": _source(device, "power.nameplate_w")},
        remedies=[*([remedy({"server.power.nameplate_w": rated_w})] if taken else []), remedy(fix="own-entry")],
        limit=rated_w,
        limit_source=f"catalogue {device.slug} power.nameplate_w",
        nameplate_w=power.nameplate_w,
    )


def _ports(site: Site, device: DeviceType) -> Iterator[Finding]:
    ports = device.bringup.fabric_ports
    rated = port_gbps(device, ports[0]) if ports else None
    if rated is None or site.server.nic.rate_gbps <= rated:
        return
    yield finding(
        "CATALOG-CONTRADICTS",
        "server.nic.rate_gbps",
        case="port",
        severity="error",
        words={"model": device.slug, "why": _source(device, "interfaces", top=True)},
        remedies=[remedy({"server.nic.rate_gbps": rated}), remedy(fix="own-entry")],
        limit=rated,
        limit_source=f"catalogue {device.slug} interfaces",
        rate_gbps=site.server.nic.rate_gbps,
    )


def _source(device: DeviceType, key: str, top: bool = False) -> str:
    """Where a figure of an entry comes from: the source of the longest key that its own begins with."""
    whole = key if top else f"bringup.{key}"
    steps = [whole[:n] for n in range(len(whole), 0, -1) if n == len(whole) or whole[n] == "."]
    found = next((device.sources[one] for one in steps if one in device.sources), "no source given")
    return found.strip().rstrip(".")
