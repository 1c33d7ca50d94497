"""iPXE scripts: one that all start with, and one per MAC.

Scripts are the same for BIOS and UEFI: UEFI's kernel finds its initramfs by `initrd=NAME` on the kernel line.
"""

from collections.abc import Mapping

from capacity.model import Plan
from capacity.services.boot.dhcp import base_url
from capacity.services.boot.images import Image
from capacity.services.boot.intents import BootError, hyphened

MEDIUM = "/medium"
"""Where the initramfs mounts the medium that it was started from (infra/boot/deploy.sh)."""
PANIC = "panic=30"
"""A kernel that panics restarts after 30 s, so that it is no server that stands still without a word."""
FAILED = """:failed
echo
echo {device} ({mac}) could not be booted from the network. The firmware goes on with its next boot device.
sleep 10
exit 1
"""
START = """#!ipxe
chain --replace {base}/by-mac/${{netX/mac:hexhyp}}.ipxe || goto unknown
:unknown
echo
echo ${{netX/mac}} has no script here: bringup boot render says why. The firmware goes on with its next boot device.
sleep 10
exit 1
"""


def consoles(serial: str) -> str:
    """Arguments of a kernel for the screen and for the serial line of the site (provisioning.console), which is /dev/console."""
    return f"console=tty0 console={serial},115200n8"


def start(plan: Plan) -> str:
    """The script that every iPXE loads first; it chains to the one of its MAC."""
    return START.format(base=base_url(plan))


def of_server(plan: Plan, device: str, mac: str, image: Image | None) -> str:
    """The script of one server, by the site's way of installing. `image` is needed where that is `image`."""
    base, method = base_url(plan), plan.site.provisioning.method
    if method == "image":
        if image is None:
            raise ValueError(f"{device}: no image")
        folder = f"{base}/images/{image.role}/{image.version}"
        kernel, initrd = (f"{folder}/{image.parts[name].file}" for name in ("kernel", "initrd"))
        more = f"{PANIC} {image.arguments}".strip()
        arguments = f"{more} bringup.plan={base}/plan/{hyphened(mac)}.env bringup.mac={mac}"
    elif method == "autoinstall":
        kernel, initrd = f"{base}/installer/vmlinuz", f"{base}/installer/initrd"
        seed = f"{base}/autoinstall/{hyphened(mac)}/"
        arguments = f"ip=dhcp url={base}/installer/live-server.iso autoinstall ds=nocloud;s={seed}"
    else:
        kernel, initrd = f"{base}/installer/linux", f"{base}/installer/initrd.gz"
        early = "" if plan.site.addressing.dns else "netcfg/get_nameservers= "
        arguments = f"DEBIAN_FRONTEND=text auto=true priority=critical hostname={device} interface={mac} "
        arguments += f"netcfg/no_default_route=true {early}url={base}/preseed/{hyphened(mac)}.cfg"
    console = consoles(plan.site.provisioning.console)
    return (
        f"#!ipxe\n"
        f"echo {device} ({mac})\n"
        f"kernel {kernel} initrd=installer.initrd {console} {arguments} || goto failed\n"
        f"initrd --name installer.initrd {initrd} || goto failed\n"
        f"boot || goto failed\n"
    ) + FAILED.format(device=device, mac=mac)


def deployment(
    base: str,
    device: str,
    mac: str,
    serials: tuple[str, ...],
    image: Image,
    consents: Mapping[str, str],
    further: Mapping[str, str] | None = None,
) -> str:
    """What the initramfs is told of one server, as assignments of a POSIX shell. `base`: base_url() of the boot server, or MEDIUM,
    where nobody listens to reports.

    `consents` maps the serial number of a boot drive to the fingerprint of the content that may be overwritten. `further`:
    what else it is told (files.of_writing). Every value is checked to be free of quotes before it is written.
    """
    if spaced := [serial for serial in serials if serial != "".join(serial.split())]:
        raise BootError(f"{device}: serial number {spaced[0]!r} has blanks, which no drive reports: correct assets.csv")
    values = {
        "DEVICE": device,
        "ROLE": image.role,
        "VERSION": image.version,
        "SERIALS": " ".join(serials),
        "CONSENTS": " ".join(f"{serial}={fingerprint}" for serial, fingerprint in sorted(consents.items())),
        "IMAGES": f"{base}/images/{image.role}/{image.version}",
        "LAYOUT": f"{base}/plan/{hyphened(mac)}.sfdisk",
        "SEED": f"{base}/seed/{hyphened(mac)}",
        "REPORT": "" if base == MEDIUM else f"{base}/report/{hyphened(mac)}",
    }
    for name, part in sorted(image.parts.items()):
        values |= {
            f"{name.upper()}_FILE": part.file,
            f"{name.upper()}_SHA256": part.sha256,
            f"{name.upper()}_SIZE": str(part.size),
        }
    values |= further or {}
    if bad := [name for name, value in values.items() if set(value) & set("'\n\\")]:
        raise BootError(f"{device}: {', '.join(bad)} must hold no quote, backslash or line end")
    return "".join(f"{name}='{value}'\n" for name, value in values.items())
