"""Everything that a boot server needs, by path below its folder. Each server has its own files, named by its MAC."""

import csv
import io
import ipaddress
from collections.abc import Mapping

from capacity.model import Plan
from capacity.services.boot import dhcp, installers, scripts, seeds
from capacity.services.boot.disks import Layout, drive_mib, sfdisk, shortage
from capacity.services.boot.images import Image
from capacity.services.boot.intents import BootError, Intents, hyphened
from capacity.services.boot.switches import switches

HTTP = "http"
"""Folder that is served by HTTP."""
NOTHING = "nothing.csv"
SECURE_BOOT_PCRS = "7"
"""State and certificates of Secure Boot (TCG PC Client Platform Firmware Profile)."""
Consents = Mapping[str, Mapping[str, str]]
"""Server -> serial number of a boot drive -> fingerprint of the content that may be overwritten."""


def files(
    plan: Plan,
    found: Intents,
    images: Mapping[str, Image],
    public_key: str,
    consents: Consents | None = None,
    switch_key: str = "",
) -> dict[str, str]:
    """The files by path. `images` by role; `public_key` and `switch_key` are lines of authorized_keys of servers and of
    compute switches ('' for none).

    A server without an image of its role gets an address but no script, and a line in nothing.csv.
    """
    made = {"dnsmasq.conf": dhcp.dnsmasq(plan, found), "kea-dhcp4.json": dhcp.kea(plan, found)}
    address = management_address(plan)
    booted = switches(plan, found, address, switch_key)
    if address is not None:
        made["dnsmasq-management.conf"] = dhcp.management_dnsmasq(plan, found, address, booted.options)
    made[f"{HTTP}/{dhcp.SCRIPT}"] = scripts.start(plan)
    made |= {f"{HTTP}/{path}": text for path, text in booted.files.items()}
    nothing = {**found.nothing, **booted.nothing}
    method = plan.site.provisioning.method
    for host in found.servers():
        device, mac, laid_out = host["device"], host["mac"], found.layouts[host["device"]]
        name, image = hyphened(mac), images.get(host["role"])
        if method == "image" and (
            why := without_image(plan, host["role"], image) or without_room(plan, host, laid_out, image)
        ):
            nothing[device] = why
            continue
        made[f"{HTTP}/by-mac/{name}.ipxe"] = scripts.of_server(plan, device, mac, image)
        if method == "autoinstall":
            answers = installers.autoinstall(plan, host, laid_out, public_key)
            made[f"{HTTP}/autoinstall/{name}/user-data"] = answers
            made[f"{HTTP}/autoinstall/{name}/meta-data"] = seeds.seed(plan, host, public_key)["meta-data"]
        elif method == "preseed":
            made[f"{HTTP}/preseed/{name}.cfg"] = installers.preseed(plan, host, laid_out, public_key)
        elif image is not None:
            given = (consents or {}).get(device, {})
            written = of_writing(plan, host, laid_out, image, public_key, given, dhcp.base_url(plan))
            made |= {f"{HTTP}/{path}": text for path, text in written.items()}
    made[NOTHING] = _csv(nothing)
    return made


def medium(
    plan: Plan, found: Intents, image: Image, public_key: str, consents: Consents | None = None
) -> dict[str, str]:
    """What a medium holds beside the image, by path: plan and seed of each server of the image's role, by its MAC. BootError, with
    what each of them lacks, where there is none, and for a server whose planned drives are too small.
    """
    if why := without_image(plan, image.role, image):
        raise BootError(why)
    made: dict[str, str] = {}
    for host in (host for host in found.servers() if host["role"] == image.role):
        device = host["device"]
        if why := without_room(plan, host, found.layouts[device], image):
            raise BootError(f"{device}: {why}")
        given = (consents or {}).get(device, {})
        made |= of_writing(plan, host, found.layouts[device], image, public_key, given, scripts.MEDIUM)
    if not made:
        role = plan.devices.set_index("name")["role"]
        lacking = [f"{device}: {why}" for device, why in sorted(found.nothing.items()) if role[device] == image.role]
        raise BootError(
            "\n".join([f"no server of role {image.role} can be written from a medium", *lacking])
            + ("" if lacking else f": {plan.site.name} plans none")
        )
    return made


def of_writing(
    plan: Plan,
    host: Mapping[str, str],
    laid_out: Layout,
    image: Image,
    public_key: str,
    given: Mapping[str, str],
    base: str,
) -> dict[str, str]:
    """What the initramfs reads for one server below `base`, by path: plan, disk layout and seed."""
    device, mac, name = host["device"], host["mac"], hyphened(host["mac"])
    seed = seeds.seed(plan, host, public_key, seeds.writing_id(image, laid_out.serials, given))
    further = {"DRIVE_MIB": str(drive_mib(laid_out, image.parts["root"].size))} | encryption(plan, image)
    return {
        f"plan/{name}.env": scripts.deployment(base, device, mac, laid_out.serials, image, given, further),
        f"plan/{name}.sfdisk": sfdisk(laid_out),
        **{f"seed/{name}/{file}": text for file, text in seed.items()},
    }


def without_image(plan: Plan, role: str, image: Image | None) -> str:
    """Why there is no image of a role that fits the site, and what to do; '' where there is one."""
    if image is None:
        return f"no image of role {role}: bringup image build {role}"
    encrypt = plan.site.provisioning.encrypt is not None
    if encrypt != bool(image.luks):
        kinds = ("plain", "encrypted") if encrypt else ("encrypted", "plain")
        return f"the image of role {role} is for {kinds[0]} disks, the site has {kinds[1]} ones: bringup image build {role}"
    return ""


def without_room(plan: Plan, host: Mapping[str, str], laid_out: Layout, image: Image | None) -> str:
    """Why an image does not fit on the planned boot drives of a server, and what to do; '' where it does."""
    if image is None:
        return ""
    why = shortage(plan.catalog.device(host["model"]), laid_out, image.parts["root"].size)
    return f"the image of role {image.role} {why}: larger drives, or an image with fewer packages" if why else ""


def encryption(plan: Plan, image: Image) -> dict[str, str]:
    """What the initramfs is told of encrypted disks: the public key that recovery keys are sealed to, and the PCRs that the TPM
    asks for. {} for an image that is not encrypted.
    """
    if not image.luks:
        return {}
    asked = plan.site.provisioning
    return {
        "LUKS": image.luks,
        "RECOVERY": asked.recovery_der,
        "PCRS": SECURE_BOOT_PCRS if asked.secure_boot else "",
    }


def management_address(plan: Plan) -> ipaddress.IPv4Address | None:
    """The boot server's own address in the management network: that of the first management node's leg."""
    servers = plan.devices.loc[plan.devices["role"] == "management", "name"]
    rows = plan.addresses[(plan.addresses["network"] == "oob") & plan.addresses["device"].isin(servers[:1])]
    return ipaddress.IPv4Interface(rows["address"].iloc[0]).ip if len(rows) else None


def _csv(nothing: Mapping[str, str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([("device", "why_it_gets_nothing"), *sorted(nothing.items())])
    return out.getvalue()
