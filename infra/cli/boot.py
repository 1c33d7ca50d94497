"""boot: what a boot server needs to install the site's servers over the network, and who gets nothing; starts from a CD."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.cli.common import (
    JUDGED_NO,
    OK,
    UsageError,
    add_out,
    add_site,
    add_verb,
    planned,
    public_key,
    standard_console,
)
from inventory.paths import var_dir, write_file

if TYPE_CHECKING:
    from inventory.site import Site

NO_LOGIN = "No login: the public key beside credentials.ssh.key does not exist (KEY.pub), so seeds hold none"
CONSOLE_BYTES = 16 << 20
"""Most of a console's text that is read."""


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    boot = verbs.add_parser("boot", help="network boot of the servers: what the boot server serves to which MAC")
    parts = boot.add_subparsers(title="verbs", metavar="VERB", required=True)
    render = add_verb(
        parts,
        "render",
        run_render,
        "write DHCP, iPXE scripts, seeds and installers' answers of every server whose MAC and boot drives are known",
    )
    add_site(render)
    render.add_argument(
        "--overwrite",
        action="append",
        default=[],
        metavar="SERVER:SERIAL:SHA256",
        help="consent to overwrite this drive while it has this content, as the stop foreign-content names both; may be repeated. "
        "Consents of earlier calls stay",
    )
    render.add_argument(
        "--withdraw",
        action="append",
        default=[],
        metavar="SERVER[:SERIAL]",
        help="take back the consents of earlier calls to this server's drives, or to one of them; may be repeated",
    )
    add_out(render)
    collect = add_verb(
        parts,
        "collect",
        run_collect,
        "record in installed.json what was read back, as the boot server's reports have it, and what the nodes say that they run",
    )
    add_site(collect)
    add_out(collect)
    enrol = add_verb(
        parts,
        "enrol",
        run_enrol,
        "take the host key that a server showed on its console at its first boot into credentials.ssh.known_hosts",
    )
    add_site(enrol)
    enrol.add_argument("server", metavar="SERVER", help="name of the server")
    enrol.add_argument(
        "console",
        metavar="FILE",
        type=Path,
        help="text of its console, as the BMC's serial over LAN shows it (- for input)",
    )
    media = add_verb(
        parts,
        "media",
        run_media,
        "start a server that is off once from a CD that its BMC mounts, so that it is written (bringup image build ROLE --iso)",
    )
    add_site(media)
    media.add_argument("server", metavar="SERVER", help="name of the server")
    act = media.add_mutually_exclusive_group(required=True)
    act.add_argument(
        "url", metavar="URL", nargs="?", help="where the BMC fetches it: http://HOST:PORT/ROLE.iso, or https"
    )
    act.add_argument(
        "--eject", action="store_true", help="take the CD out instead, and leave power and boot order as they are"
    )
    times = add_verb(
        parts,
        "times",
        run_times,
        "say how long imaging all GPU servers takes, rack by rack, over the boot server's link; needs the image of role gpu",
    )
    add_site(times)
    add_out(times)


def run_collect(arguments: argparse.Namespace) -> int:
    from capacity.services import boot
    from capacity.services.boot import consents, record
    from infra.boot.collect import collect
    from inventory.delivered.assets import load_assets

    plan = planned(arguments.site)
    if plan.site.provisioning.method != "image":
        raise UsageError(
            f"site provisioning.method is {plan.site.provisioning.method}: its installer reads no image back, so there is nothing "
            "to record; write method: image where the read-back is wanted"
        )
    path = var_dir(plan.site.name, arguments.out) / record.FILE
    try:
        before = record.from_text(path.read_text(encoding="utf-8"), str(path)) if path.exists() else {}
        found = collect(plan, load_assets(plan.site), before)
    except (boot.BootError, record.RecordError) as error:
        raise UsageError(str(error)) from None
    write_file(path, record.to_text(found.records), durable=True)
    heard, console = found.heard, standard_console()
    servers = len(heard.written) + len(heard.standing) + len(heard.working) + len(heard.silent)
    lines = [f"{len(found.records)} servers are recorded as installed: {path}"]
    if heard.working:
        lines.append(f"Being written: {', '.join(heard.working)}")
    if heard.silent:
        lines.append(f"{len(heard.silent)} of {servers} servers have never reported to the boot server")
    lines += [f"{name} stands at {why}" for name, why in heard.standing.items()]
    if found.asked:
        given = f"bringup boot render {shlex.quote(str(arguments.site))} {consents.overwrites(found.asked)}"
        lines.append(f"If nothing on these drives is needed: {given}, then playbooks/boot.yml")
    lines += [f"Refused: {fault}" for fault in found.faults]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return JUDGED_NO if heard.standing or found.faults else OK


def run_enrol(arguments: argparse.Namespace) -> int:
    from capacity.services.boot.seeds import console_keys
    from infra.boot.enrol import EnrolError, enrol, fingerprint_of
    from inventory.secrets import site_path

    plan = planned(arguments.site)
    rows = plan.addresses[plan.addresses["network"] == "provisioning"]
    addresses = dict(zip(rows["device"], rows["address"].str.partition("/")[0], strict=True))
    if arguments.server not in addresses:
        raise UsageError(f"no server {arguments.server} in the plan of {arguments.site}")
    with sys.stdin.buffer if str(arguments.console) == "-" else arguments.console.open("rb") as file:
        keys = console_keys(file.read(CONSOLE_BYTES).decode(errors="replace"))
    if not keys:
        raise UsageError(
            f"{arguments.console} shows no host key of {arguments.server}: the block BEGIN SSH HOST KEY KEYS is shown once, at "
            "the first start after a writing"
        )
    address, known_hosts = addresses[arguments.server], plan.site.credentials.ssh.known_hosts
    try:
        fingerprints = [fingerprint_of(key) for key in keys]
        enrol(site_path(known_hosts, plan.site.dir), address, keys)
    except EnrolError as error:
        raise UsageError(str(error)) from None
    many = "key" if len(keys) == 1 else "keys"
    print(f"{arguments.server}: {len(keys)} host {many} enrolled for {address}, {', '.join(fingerprints)}")
    return OK


def run_media(arguments: argparse.Namespace) -> int:
    from infra.install import media
    from inventory.delivered import power_acts
    from inventory.delivered.assets import load_assets
    from validation.facts.gather import bmc_factory

    plan = planned(arguments.site)
    name = arguments.server
    if name not in set(plan.devices.loc[plan.devices["kind"] == "server", "name"]):
        raise UsageError(f"no server {name} in the plan of {arguments.site}")
    bmc = bmc_factory(plan, load_assets(plan.site))(name)
    bmc.budget_s = max(bmc.budget_s, media.INSERT_S)
    bmc.acted = power_acts.recorder(power_acts.folder_of(var_dir(plan.site.name)), name, bmc.serial)
    with bmc:
        if arguments.eject:
            print(f"{name}: {'the CD is out' if bmc.eject_media() else 'no CD is in'}")
            return OK
        try:
            media.start(name, bmc, arguments.url)
        except ValueError as error:
            raise UsageError(str(error)) from None
    print(
        f"{name}: started from {arguments.url}. Its console shows the writing and, at its first boot, its host key: "
        f"bringup boot enrol {arguments.site} {name} FILE, then bringup boot media {arguments.site} {name} --eject"
    )
    return OK


def run_times(arguments: argparse.Namespace) -> int:
    from capacity.services import boot
    from capacity.services.boot import waves
    from infra.boot.built import IMAGES, load_images, sent_bytes

    plan = planned(arguments.site)
    folder = var_dir(plan.site.name, arguments.out) / IMAGES
    try:
        image = load_images(folder)["gpu"]
    except boot.ImageError as error:
        raise UsageError(str(error)) from None
    except KeyError:
        raise UsageError(f"no image of role gpu in {folder}: bringup image build gpu --site {arguments.site}") from None
    sent = sent_bytes(folder, image)
    written = image.parts["root"].size
    found = waves.figures(plan, sent, written)
    console = standard_console()
    table = waves.imaging(plan, sent, written).groupby("wave", sort=True)
    for wave, rows in table:
        console.print(
            f"wave {wave}: {len(rows)} racks, {rows['servers'].sum()} servers, ready after {rows['ready_s'].max() / 60:.0f} min",
            highlight=False,
        )
    console.print(
        f"{found['servers']} servers fetch {sent / 1e6:.0f} MB each, {found['sent_tb']:.2f} TB in all: {found['sending_h']:.2f} h "
        f"of a link of {plan.site.provisioning.link_gbps:g} Gb/s (site provisioning.link_gbps); all are ready after "
        f"{found['ready_h']:.1f} h, with two starts of {waves.POWER_ON_S / 2:.0f} s each (not confirmed).",
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        f"With provisioning.installed_by pulumi, {waves.racks_at_once(plan, sent)} racks may be written at once, the first one "
        "alone until a server has started from the image. Pulumi's own limit counts racks that wait as well: pulumi up --parallel "
        "N, by default four for each processor of the workstation; more than 64 are never handled at once.",
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        f"Caches near the racks to send within {waves.TARGET_S / 3600:g} h: {found['caches']}. One multicast stream a rack would "
        f"send {found['multicast_tb']:.2f} TB; nothing here sends multicast.",
        highlight=False,
        soft_wrap=True,
    )
    return OK


def run_render(arguments: argparse.Namespace) -> int:
    from capacity.outputs.files import write_manifest
    from capacity.services import boot
    from capacity.services.boot import consents
    from infra.boot.built import IMAGES, load_images
    from inventory.delivered.assets import load_assets
    from network import roce

    plan = planned(arguments.site)
    out = var_dir(plan.site.name, arguments.out)
    folder = out / "boot"
    try:
        found = boot.intents(plan, load_assets(plan.site))
        images = load_images(out / IMAGES)
        key = key_of_nodes(plan.site)
        configured = plan.site.fabric.nos or plan.site.oob.nos
        switch_key = public_key(plan.site, "switch") if plan.site.credentials_given and configured else ""
        given = consents.kept(offered(folder), arguments.withdraw, found)
        for server, drives in consents.parse(arguments.overwrite, found).items():
            given[server] = {**given.get(server, {}), **drives}
        made = boot.files(plan, found, images, key, given, switch_key)
    except (boot.BootError, boot.ImageError, consents.ConsentError, roce.PublicKeyError) as error:
        raise UsageError(str(error)) from None
    written = [write_file(folder / name, text) for name, text in made.items()]
    for stale in stale_files(folder, written):
        stale.unlink()
    write_manifest(plan, folder, written)
    served = sum(name.endswith(".ipxe") and "/by-mac/" in name for name in made)
    console = standard_console()
    lines = [
        f"{served} of {len(found.hosts) + len(found.nothing)} servers boot from {boot.boot_server(plan)}: {folder}"
    ]
    if not key:
        lines.append(NO_LOGIN)
    if first := sum(
        name.startswith(f"{boot.HTTP}/ztp/") and name.endswith(("/config_db.json", "/startup.yaml", "/startup-config"))
        for name in made
    ):
        lines.append(f"{first} switches are configured at their first boot; this was never run on a device")
    lines += [
        f"{server}: {serial} may be overwritten while it holds {content} (--withdraw {server}:{serial})"
        for server, drives in sorted(given.items())
        for serial, content in sorted(drives.items())
    ]
    rows = made["nothing.csv"].splitlines()[1:]
    lines += [f"{len(rows)} devices get nothing:" if rows else "Every device boots.", *(f"  {row}" for row in rows)]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return OK


def offered(folder: Path) -> dict[str, dict[str, str]]:
    """Consents of the rendering in this folder: server -> serial number -> content. UsageError for a plan that cannot be read."""
    from capacity.services.boot.files import HTTP
    from capacity.services.boot.starting import OfferError, parse_offer

    given = {}
    for path in sorted((folder / HTTP / "plan").glob("*.env")):
        try:
            offer = parse_offer(path.read_text(encoding="utf-8"))
        except (OfferError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: {error}; remove it, and its consents with it, then render again") from None
        given[offer.server] = dict(offer.consents)
    return given


def key_of_nodes(site: "Site") -> str:
    """The public key that opens the nodes: the file beside credentials.ssh.key; '' without one."""
    return public_key(site, "ssh") if site.credentials_given else ""


def stale_files(folder: Path, written: list[Path]) -> list[Path]:
    """Files of an earlier rendering: a server that is gone, or gets nothing now, must not find its script any more."""
    kept = {*written, folder / "SHA256SUMS"}
    return [path for path in folder.rglob("*") if path.is_file() and path not in kept]
