"""A CD that writes an image without a network: for the first machine of a site, and where servers are started by virtual media.

    write(folder, image, found, "management.iso", "ttyS0")      into the folder of the image; returns its SHA-256
    plans(folder / "management.iso")                   what it has written, by MAC

It starts by BIOS and by UEFI (El Torito), through the shim and the GRUB of the image. On it:

    vmlinuz, deploy.initrd      of the image, which write and read back as at a start from the network
    images/ROLE/VERSION/        the other parts of the image
    plan/, seed/                of each server by its MAC (capacity/services/boot/files.py, medium)
    bringup-id                  ties kernel and content together: the initramfs takes the CD that its kernel names

The same image and the same plans give the same CD. No secret is on it: a seed has an address, names and a public key.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from capacity.services.boot.images import CD, Image
from capacity.services.boot.scripts import PANIC, consoles
from infra.boot.image import CD_CONFIG, EPOCH, QUERY_LIMIT_S, ImageBuildError, alone_in, ended, fat, run
from inventory.paths import write_file

TOOLS = {"xorriso": "xorriso", "mkfs.vfat": "dosfstools", "mcopy": "mtools", "zstd": "zstd"}
"""Program -> Debian package."""
PLANS = "plan"
STARTED_FROM = ("kernel", "initrd")
"""Parts that GRUB loads; the initramfs writes the others."""
ESP_MIB = 8
"""Shim and GRUB take 4 MiB; FAT16 has 4,085 clusters at least."""
GRUB_EFI = f"""search --no-floppy --file --set=root {CD_CONFIG}
set prefix=($root){Path(CD_CONFIG).parent}
configfile ($root){CD_CONFIG}
"""
GRUB_CFG = """# Written by `bringup image build --iso`.
set timeout=3
menuentry 'Write {role} {version} onto the planned boot drives' {{
    linux /vmlinuz {console} {panic} {arguments} bringup.medium={identity}
    initrd /deploy.initrd
}}
"""


def missing_tools() -> list[str]:
    """Debian packages that a CD needs and this machine lacks."""
    return sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})


def identity_of(image: Image, found: Mapping[str, str]) -> str:
    """12 hex digits: the same for the same image and the same files."""
    digest = hashlib.sha256(image.version.encode())
    for path, text in sorted(found.items()):
        digest.update(f"\0{path}\0{text}".encode())
    return digest.hexdigest()[:12]


def write(folder: Path, image: Image, found: Mapping[str, str], name: str, console: str) -> str:
    """Write the CD `name` beside the parts of the image in `folder`; returns its SHA-256, which also goes to NAME.sha256, as
    sha256sum has it. `found`: the files of `medium`. `console`: site provisioning.console. An earlier one stays until the new one
    is whole.
    """
    if lacking := missing_tools():
        raise ImageBuildError(f"missing: apt-get install {' '.join(lacking)}")
    if CD not in image.parts:
        raise ImageBuildError(f"{folder}: an image of an earlier version, without GRUB for CDs: build it again")
    try:
        with alone_in(folder), tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as scratch:
            work = Path(scratch)
            tree, made = work / "tree", work / "made.iso"
            _tree(tree, folder, image, found, console)
            _esp(work, folder / image.parts["esp"].file, tree / "efi.img")
            _xorriso(tree, f"BRINGUP_{image.role.upper()}", made)
            with made.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            made.replace(folder / name)
    except OSError as error:
        raise ImageBuildError(f"no CD was made in {folder}: {error}; the same command begins anew") from None
    write_file(folder / f"{name}.sha256", f"{digest}  {name}\n")
    return digest


def _tree(tree: Path, folder: Path, image: Image, found: Mapping[str, str], console: str) -> None:
    """What is on the CD but for the ESP. Parts are links to those of the image."""
    identity = identity_of(image, found)
    config = GRUB_CFG.format(
        role=image.role,
        version=image.version,
        console=consoles(console),
        panic=PANIC,
        arguments=image.arguments,
        identity=identity,
    )
    for path, text in {**found, "bringup-id": f"{identity}\n", CD_CONFIG.lstrip("/"): config}.items():
        write_file(tree / path, text)
    parts = tree / "images" / image.role / image.version
    parts.mkdir(parents=True)
    for name in image.needed:
        file = image.parts[name].file
        os.link(folder / file, (tree if name in STARTED_FROM else parts) / file)
    shutil.copyfile(
        folder / image.parts[CD].file, tree / "bios.img"
    )  # xorriso writes into it where the rest of it lies


def _esp(work: Path, packed: Path, image: Path) -> None:
    """The ESP that firmware finds on the CD: shim and GRUB of the image's ESP, with a configuration that finds the CD."""
    whole = work / "esp.img"
    run(["zstd", "-dq", packed, "-o", whole])
    config = work / "grub.cfg"
    config.write_text(GRUB_EFI)
    placed = {}
    for file in ("BOOTX64.EFI", "grubx64.efi"):
        run(["mcopy", "-i", whole, f"::EFI/BOOT/{file}", work / file])
        placed[f"EFI/BOOT/{file}"] = work / file
    placed |= {f"EFI/{place}/grub.cfg": config for place in ("BOOT", "debian", "ubuntu")}
    fat(image, 16, ESP_MIB, "b007cd00", placed)


def _xorriso(tree: Path, volume: str, made: Path) -> None:
    """As grub-mkrescue calls it (GRUB manual, Invoking grub-mkrescue; xorrisofs(1)): El Torito for BIOS and for UEFI."""
    argv: list[str | Path] = ["xorriso", "-as", "mkisofs", "-quiet", "-R", "-V", volume, "-o", made]
    argv += ["-b", "bios.img", "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", "--grub2-boot-info"]
    argv += ["-eltorito-alt-boot", "-e", "efi.img", "-no-emul-boot", "--set_all_file_dates", f"={EPOCH}", tree]
    run(argv)


def plans(cd: Path) -> dict[str, str]:
    """The plans on a CD, by MAC with hyphens. ImageBuildError for a file that is no CD or has none."""
    if shutil.which("xorriso") is None:
        raise ImageBuildError("missing: apt-get install xorriso")
    with tempfile.TemporaryDirectory() as scratch:
        argv: list[str | Path] = ["xorriso", "-indev", cd, "-osirrox", "on"]
        argv += ["-extract", f"/{PLANS}", f"{scratch}/{PLANS}"]
        done = ended(argv, QUERY_LIMIT_S)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
            raise ImageBuildError(f"xorriso cannot read {cd}, exit status {done.returncode}: {said}")
        return {path.stem: path.read_text(encoding="utf-8") for path in sorted(Path(scratch, PLANS).glob("*.env"))}
