"""image: build the root image of a role for network boot, with its hash, its packages and a signature; a CD that writes it."""

import argparse
from typing import TYPE_CHECKING, Any

from infra.cli.boot import NO_LOGIN, key_of_nodes
from infra.cli.common import OK, UsageError, add_out, add_site_option, add_verb, planned, progress_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from securesystemslib.signer import CryptoSigner

    from inventory.site import Site


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    image = verbs.add_parser("image", help="root images for network boot: build one for a role of the site")
    parts = image.add_subparsers(title="verbs", metavar="VERB", required=True)
    build = add_verb(
        parts,
        "build",
        run_build,
        "build the root image of a role (gpu, controller, storage, management) with hash, package list and signature; "
        "needs root",
    )
    build.add_argument("role", metavar="ROLE", help="role of the servers: gpu, controller, storage, management")
    add_site_option(build)
    build.add_argument("--virtual", action="store_true", help="with the kernel for virtual machines, which is smaller")
    build.add_argument(
        "--source",
        dest="sources",
        action="append",
        default=[],
        metavar="LINE",
        help="line of sources.list instead of the distribution's archive, as 'deb URL bookworm main'; may be repeated. A snapshot "
        "of the archive makes builds of another day the same",
    )
    build.add_argument(
        "--iso",
        action="store_true",
        help="also make ROLE.iso, a CD that writes the image on the role's delivered servers without a network (bringup boot "
        "media); an image of the same recipe is not built again",
    )
    build.add_argument(
        "--overwrite",
        action="append",
        default=[],
        metavar="SERVER:SERIAL:SHA256",
        help="with --iso: consent to overwrite this drive while it has this content, as for bringup boot render; may be repeated",
    )
    add_out(build)


def run_build(arguments: argparse.Namespace) -> int:
    from infra.boot import image
    from infra.boot.built import IMAGES
    from inventory.paths import var_dir
    from inventory.site import load_site

    site = load_site(arguments.site)
    if arguments.overwrite and not arguments.iso:
        raise UsageError("--overwrite belongs to --iso; for network boot: bringup boot render --overwrite")
    more = image.configured(site, arguments.role)
    of = image.system(
        site.os.key,
        arguments.role,
        virtual=arguments.virtual,
        sources=arguments.sources,
        more=more,
        pinned=image.pins(site),
        encrypted=site.provisioning.encrypt is not None,
        console=site.provisioning.console,
    )
    signer = site_signer(site)
    folder = var_dir(site.name, arguments.out) / IMAGES / arguments.role
    say = progress_lines()
    if arguments.iso and image.is_current(of, folder):
        say(f"{folder}: an image of the same recipe")
        return run_iso(arguments, folder, say)
    described = image.build(of, folder, signer, say)
    root = described["parts"]["root"]
    say(f"{folder}: image {described['version']}, {described['packages']} packages, {root['size'] // 2**20} MiB")
    say(f"root file system: SHA-256 {root['sha256']}")
    say(f"signed by {signer.public_key.keyid}" if signer else "not signed: credentials.evidence.key does not exist")
    return run_iso(arguments, folder, say) if arguments.iso else OK


def run_iso(arguments: argparse.Namespace, folder: "Path", say: "Callable[[str], None]") -> int:
    """Make the CD of the image in the folder."""
    from capacity.services import boot
    from capacity.services.boot import consents
    from infra.boot import iso
    from inventory.delivered.assets import load_assets

    plan = planned(arguments.site)
    try:
        found = boot.intents(plan, load_assets(plan.site))
        made = boot.parse_image((folder / "image.json").read_text(encoding="utf-8"), str(folder / "image.json"))
        key = key_of_nodes(plan.site)
        files = boot.medium(plan, found, made, key, consents.parse(arguments.overwrite, found))
    except (boot.BootError, boot.ImageError, consents.ConsentError) as error:
        raise UsageError(str(error)) from None
    name = f"{arguments.role}.iso"
    digest = iso.write(folder, made, files, name, plan.site.provisioning.console)
    servers = sum(path.endswith(".env") for path in files)
    say(f"{folder / name}: image {made.version} for {servers} servers, SHA-256 {digest}")
    if not key:
        say(NO_LOGIN)
    return OK


def site_signer(site: "Site") -> "CryptoSigner | None":
    """The signer of the site's evidence key; None for a site without credentials, or whose key file does not exist."""
    from inventory.secrets import reference_path, split
    from validation.evidence.keys import signer_from

    if site.credentials_given is None:
        return None
    reference = site.credentials_given.evidence.key
    if split(reference)[0] == "file" and not reference_path(reference, site.dir).exists():
        return None
    return signer_from(reference, site.dir)
