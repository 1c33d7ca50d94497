"""Everything that a boot server needs, by path below its folder. Each server has its own files, named by its MAC."""

import csv
import io
import ipaddress
from collections.abc import Mapping

from capacity.model import Plan
from capacity.services.boot import dhcp, installers, scripts, seeds
from capacity.services.boot.disks import sfdisk
from capacity.services.boot.images import Image
from capacity.services.boot.intents import Intents, hyphened
from capacity.services.boot.switches import switches

HTTP = "http"
"""Folder that is served by HTTP."""
NOTHING = "nothing.csv"
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
        if method == "image" and plan.site.provisioning.encrypt:
            nothing[device] = "provisioning.encrypt is tpm2: no image is written to encrypted disks yet"
            continue
        if method == "image" and image is None:
            nothing[device] = f"no image of role {host['role']}: bringup image build {host['role']}"
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
            made[f"{HTTP}/plan/{name}.env"] = scripts.deployment(plan, device, mac, laid_out.serials, image, given)
            made[f"{HTTP}/plan/{name}.sfdisk"] = sfdisk(laid_out)
            made |= {f"{HTTP}/seed/{name}/{f}": text for f, text in seeds.seed(plan, host, public_key).items()}
    made[NOTHING] = _csv(nothing)
    return made


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
