"""Installation layer: one `bringup:nodes:Installed` per rack, on sites with provisioning.installed_by: pulumi."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pulumi

from capacity.model import Plan
from capacity.services import boot
from capacity.services.boot.waves import order, racks_at_once
from infra.boot.built import load_images, sent_bytes
from infra.layers.addresses import management_addresses, serials, uuids


class Installed(pulumi.CustomResource):
    """The images of one rack's servers; inputs as in infra/provider/installed.py."""

    def __init__(self, name: str, inputs: Mapping[str, Any], options: pulumi.ResourceOptions) -> None:
        super().__init__("bringup:nodes:Installed", name, {**inputs, "results": None, "steps": None}, options)


class Installations(pulumi.ComponentResource):
    """The installation layer. `racks` are inputs of Installed by rack; `servers` maps a rack to the resource that takes its BMCs
    over.
    """

    def __init__(self, racks: Mapping[str, Mapping[str, Any]], servers: Mapping[str, pulumi.Resource]) -> None:
        super().__init__("bringup:layers:Installations", "installations")
        for rack, inputs in racks.items():
            after = [servers[rack]] if rack in servers else []
            Installed(rack, inputs, pulumi.ResourceOptions(parent=self, depends_on=after))
        self.register_outputs({})


def to_install(plan: Plan, assets: pd.DataFrame, site_reference: str, images: Path) -> dict[str, dict[str, Any]]:
    """As `rack_images`; what is not installed is said in the output of the run."""
    try:
        made, nothing = rack_images(plan, assets, site_reference, images)
    except (boot.BootError, boot.ImageError, OSError) as error:
        pulumi.log.warn(f"nothing is installed: {error}")
        return {}
    for server, why in nothing.items():
        pulumi.log.warn(f"{server} is not installed: {why}")
    return made


def servers_of(racks: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Names of the servers in inputs of Installed by rack."""
    return {name for inputs in racks.values() for name in inputs["servers"]}


def rack_images(
    plan: Plan, assets: pd.DataFrame, site_reference: str, folder: Path
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Inputs of Installed by rack, and the servers that are in none, with the reason. `folder` has the built images. BootError for
    contradicting MACs, ImageError and OSError for an image that is not whole.

    The boot server is in none: it cannot install itself. Where servers are written from CDs there is none.
    """
    found, images, media = boot.intents(plan, assets), load_images(folder), plan.site.provisioning.media
    sent = max((sent_bytes(folder, image) for image in images.values()), default=1)
    bmc, serial, uuid, places = management_addresses(plan), serials(assets), uuids(assets), order(plan)
    at_once, own = racks_at_once(plan, sent), "" if media else str(boot.boot_server(plan))
    racks: dict[str, dict[str, Any]] = {}
    nothing = {name: why for name, why in found.nothing.items() if name in serial}
    for host in found.servers():
        name, rack, node = host["device"], host["rack"], host["address"].partition("/")[0]
        image = images.get(host["role"])
        if node == own:
            continue
        if image is None:
            nothing[name] = f"no image of role {host['role']}: bringup image build {host['role']}"
            continue
        inputs = racks.setdefault(
            rack,
            {
                "site": site_reference,
                "rack": rack,
                "place": list(places.get(rack, (1, 0))),
                "at_once": at_once,
                "servers": {},
            },
        )
        inputs["servers"][name] = {
            "address": bmc[name],
            "node": node,
            "serial": serial.get(name, ""),
            "uuid": uuid.get(name, ""),
            "model": host["model"],
            "role": image.role,
            "mac": host["mac"],
            "drives": list(found.layouts[name].serials),
            "image": image.version,
            "sha256": image.parts["root"].sha256,
            "bios": dict(plan.catalog.device(host["model"]).bringup.bios),
        }
    return dict(sorted(racks.items())), nothing
