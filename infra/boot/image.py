"""Root images for network boot, with hash, package list and signature.

Out, in the folder of the role:

    image.json           parts with file, SHA-256 of the content on the disk, size (capacity/services/boot/images.py)
    image.signed.json    that file in a DSSE envelope signed by the site's evidence key
    sbom.cdx.json        packages, CycloneDX 1.5
    root.img.zst         ext4
    bootfs.img.zst       ext4 with what is in /boot, of an image for encrypted disks only: GRUB cannot open the root by a TPM
    esp.img.zst          FAT32 with shim, GRUB and a configuration that finds the root by its UUID
    core.img, boot.img   GRUB for BIOS
    cd.img               GRUB for BIOS on a CD (infra/boot/iso.py)
    vmlinuz, deploy.initrd      kernel, and the initramfs that writes the image (deploy.sh)

The same packages give the same hash: files are no newer than EPOCH, UUIDs follow from the role. Programs and modules come from
the image itself. No host key, machine id or password is in it. Needs root and the programs of TOOLS.

image.json also names the recipe that the image was made by (`recipe`): an image of another recipe is not reused.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jinja2
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner

from capacity.services.boot.disks import BIOS_MIB
from capacity.services.boot.scripts import consoles
from infra.boot.initramfs import CONSOLE, Entry, File, Link, archive
from inventory.debian import upstream
from inventory.paths import repo_root, write_file
from inventory.site import Site
from inventory.yaml_data import read_data

HERE = Path(__file__).parent
IMAGES_FILE = HERE / "images.yaml"
EPOCH = 1767225600
"""2026-01-01 UTC: files that are newer get this time, so that the day of building does not change the image."""
SCRATCH = ".build-"
PACKED = ".zst"
MIB = 2**20
SECTOR = 512
FIRST_LBA = 2048
"""Where sfdisk puts the first partition: at 1 MiB."""
ESP_FS_MIB = 40
"""FAT32 has 65,525 clusters at least (Microsoft, FAT32 file system specification): 33 MiB of 512 B clusters and the tables."""
SPARE_MIB = 64
PAYLOAD_TYPE = "application/vnd.bringup.image+json"
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "debugfs": "e2fsprogs",
    "mkfs.vfat": "dosfstools",
    "mcopy": "mtools",
    "zstd": "zstd",
}
"""Program -> Debian package."""
BUILD_LIMIT_S = 3600.0
QUERY_LIMIT_S = 60.0
"""For a program of the image to answer: ldd, modprobe."""
RECIPE_FILES = ("image.py", "initramfs.py", "deploy.sh", "udhcpc.script")
"""What makes an image of the packages, beside what `System` says."""
PINS = repo_root() / "playbooks/roles/base/templates/pins.j2"
PINS_FILE = "/etc/apt/preferences.d/bringup.pref"
"""The role `base` writes it on nodes from the same template."""
STORAGE_KIND = "{{ bringup_storage.kind }}"
"""How playbooks/group_vars name the site's shared storage."""
Progress = Callable[[str], None]
WAIT = """for unit in {units}; do
    if [ -e "$1/lib/systemd/system/$unit" ]; then chroot "$1" systemctl disable "$unit"; fi
done"""
"""A hook of mmdebstrap: services that the playbook configures are not enabled before."""

NOT_KEPT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
KEPT = ("/usr/share/doc/*/copyright",)
CLOUD_CFG = """# Written by `bringup image build`: the seed lies on the disk, and nothing is asked on the network.
datasource_list: [NoCloud, None]
system_info: {network: {renderers: [networkd]}}
locale: false
cloud_init_modules: [set_hostname, update_hostname, update_etc_hosts, users_groups, ssh]
cloud_config_modules: [set_passwords]
cloud_final_modules: [ssh_authkey_fingerprints, keys_to_console, scripts_user, final_message]
"""
"""Modules: what the seed asks for, and no more: a node's other settings are Ansible's. The console shows the host key before
scripts of the site run, so that a node whose script does not end can be logged in to.
"""
MDADM_CONF = """# Written by `bringup image build`: the mirror is found by what is on its drives, whichever of them are there.
HOMEHOST <ignore>
AUTO +1.x
MAILADDR root
"""
GRUB_CFG = """# Written by `bringup image build`. The links /vmlinuz and /initrd.img follow the newest kernel package.
set timeout=1
search --no-floppy --fs-uuid --set=root {files}
menuentry 'Linux' {{
    linux /vmlinuz root=UUID={root} ro {console} panic=30 {arguments}
    initrd /initrd.img
}}
"""
GRUB_BIOS = """search.fs_uuid {files} root
set prefix=($root){folder}
"""
"""GRUB's rescue parser runs this from the core image; then `normal` reads grub.cfg from the prefix."""
GRUB_EFI = """search --no-floppy --fs-uuid --set=root {files}
set prefix=($root){folder}
configfile ($root){folder}/grub.cfg
"""
CRYPTTAB = "root UUID={luks} none luks,initramfs\n"
"""Opened in the initramfs by clevis, which answers the question for a passphrase (clevis-initramfs); a person may, too."""
KERNEL_LINKS = "do_symlinks = yes\nlink_in_boot = yes\n"
"""kernel-img.conf(5): where /boot is apart, GRUB reads its links there."""
GRUB_CD = """search.file {config} root
set prefix=($root){folder}
"""
READING = ("biosdisk", "search", "linux", "normal", "configfile", "echo", "test", "minicmd")
BIOS_MODULES = (*READING, "part_gpt", "ext2", "mdraid1x", "diskfilter", "search_fs_uuid")
"""Modules of GRUB's core image: what reads a kernel from a mirror or a single drive."""
CD_MODULES = (*READING, "iso9660", "search_fs_file")
CD_CONFIG = "/boot/grub/grub.cfg"
"""Where a CD has GRUB's configuration."""


class ImageBuildError(Exception):
    """An image that cannot be built: what failed, and what to do."""


@dataclass(frozen=True)
class System:
    """What an image is made of: a row of images.yaml, chosen by operating system and role. `pins`: package and upstream version.
    `encrypted`: its root goes to LUKS2, and /boot is a file system of its own. `console`: serial line of its kernel.
    """

    role: str
    suite: str
    sources: tuple[str, ...]
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    modules: tuple[str, ...]
    arguments: str
    waiting: tuple[str, ...] = ()
    pins: tuple[tuple[str, str], ...] = ()
    encrypted: bool = False
    console: str = "ttyS0"

    @property
    def root_uuid(self) -> str:
        """UUID of the root file system: the same for every image of a role."""
        return self._uuid("")

    @property
    def boot_uuid(self) -> str:
        """UUID of the file system that has kernel and GRUB's configuration."""
        return self._uuid(":boot") if self.encrypted else self.root_uuid

    @property
    def luks_uuid(self) -> str:
        """UUID of the LUKS2 volume that the root lies in; '' for an image that is not encrypted."""
        return self._uuid(":luks") if self.encrypted else ""

    @property
    def grub_folder(self) -> str:
        """GRUB's folder on the file system `boot_uuid`."""
        return "/grub" if self.encrypted else "/boot/grub"

    def _uuid(self, of: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"bringup:image:{self.suite}:{self.role}{of}"))


def pins(site: Site) -> dict[str, str]:
    """Upstream version by package, from `versions` of the site file: those that playbooks/site.yml pins on its nodes."""
    listed = read_data(repo_root() / "playbooks" / "packages.yaml")
    by_component = listed["pinned_by"] | (
        listed["schedmd"]["pinned_by"] if site.scheduler.packages == "schedmd" else {}
    )
    return {
        package: site.versions[component]
        for component, packages in by_component.items()
        if component in site.versions
        for package in packages
    }


def configured(site: Site, role: str) -> tuple[str, ...]:
    """Packages of the distribution that playbooks/site.yml installs on nodes of a role, sorted; () for a role that it does not
    know. Slurm's are not among them where the site takes SchedMD's, which come from the site's own repository.
    """
    play = read_data(IMAGES_FILE)["configured_as"].get(role)
    if play is None:
        return ()
    playbooks = repo_root() / "playbooks"
    variables = read_data(playbooks / "group_vars" / "all.yml") | read_data(playbooks / "group_vars" / f"{play}.yml")
    listed = read_data(playbooks / "packages.yaml")
    fabric = ["infiniband" if site.fabric.kind == "ib" else "roce"] if role == "gpu" else []
    roles = [
        name.replace(STORAGE_KIND, site.storage.kind)
        for name in (*variables["node_roles"], *variables["telemetry_roles"], *fabric)
    ]
    if site.scheduler.kind == "kubernetes":
        controllers = sum(node.count for node in site.service_nodes if node.role == "controller")
        several = variables["kubernetes_roles_of_several"] if controllers > 1 else []
        roles = [name for name in roles if name not in variables["slurm_roles"]]
        roles += [*variables["kubernetes_roles"], *several]
    others = listed["schedmd"]["packages"] if site.scheduler.packages == "schedmd" else {}
    named = listed["packages"], listed["kubernetes_packages"], listed["on_machines_of"]
    found = {package for name in roles if name not in others for lists in named for package in lists.get(name, ())}
    return tuple(sorted({*found, *listed["on_machines"]}))


def system(
    os_key: str,
    role: str,
    *,
    virtual: bool = False,
    sources: Sequence[str] = (),
    more: Iterable[str] = (),
    pinned: Mapping[str, str] | None = None,
    encrypted: bool = False,
    console: str = "ttyS0",
) -> System:
    """The row for an operating system ('debian-12') and a role. `virtual`: the kernel for virtual machines, which is smaller.
    `sources`: lines of sources.list that replace the distribution's (a mirror, or a snapshot, which makes builds repeatable).
    `more`: packages beside the row's (`configured`). `pinned`: upstream version by package (`pins`).
    `encrypted`: for disks that the server's TPM unlocks; ImageBuildError for a system that none was built of. `console`: site
    provisioning.console.
    """
    said = read_data(IMAGES_FILE)
    if os_key not in said["systems"]:
        raise ImageBuildError(f"no image of {os_key} can be built; of {', '.join(said['systems'])} one can")
    if role not in said["roles"]:
        raise ImageBuildError(f"no role {role}; there are {', '.join(said['roles'])}")
    row = said["systems"][os_key]
    kernel = row["kernel_virtual" if virtual else "kernel"]
    if encrypted and "encrypted" not in row:
        can = [name for name, other in said["systems"].items() if "encrypted" in other]
        raise ImageBuildError(f"no image of {os_key} for encrypted disks can be built; of {', '.join(can)} one can")
    also = row["encrypted"] if encrypted else {"packages": [], "programs": [], "modules": []}
    return System(
        role=role,
        suite=row["suite"],
        sources=tuple(sources or row["sources"]),
        packages=tuple(
            sorted(
                {kernel, *said["packages"], *said["initramfs_packages"], *said["roles"][role], *also["packages"], *more}
            )
        ),
        programs=(*said["programs"], *also["programs"]),
        modules=(*said["modules"], *also["modules"]),
        arguments=said["arguments_virtual"] if virtual else "",
        waiting=tuple(said["waiting_units"]),
        pins=tuple(sorted((pinned or {}).items())),
        encrypted=encrypted,
        console=console,
    )


def recipe(of: System) -> str:
    """SHA-256 of all that an image is made by, but for what the archive has on the day: packages and pins, sources, settings, and
    the programs that build and write it.
    """
    digest = hashlib.sha256(json.dumps([asdict(of), grub_cfg(of)], sort_keys=True).encode())
    for path in (*(HERE / name for name in RECIPE_FILES), PINS):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def is_current(of: System, folder: Path) -> bool:
    """Whether the folder has a whole image of this recipe: each part is there, with the size that image.json says."""
    try:
        said = json.loads((folder / "image.json").read_text(encoding="utf-8"))
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        return said["recipe"] == recipe(of) and all(
            sizes.get(part["file"]) == part["file_size"] for part in said["parts"].values()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def missing_tools() -> list[str]:
    """Debian packages that building needs and this machine lacks."""
    return sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})


def build(of: System, folder: Path, signer: CryptoSigner | None, say: Progress) -> dict[str, Any]:
    """Build an image into `folder` and return what image.json says. An earlier image stays until the new one is whole; image.json
    is there only while the other files are those that it describes.
    """
    if lacking := missing_tools():
        raise ImageBuildError(f"missing: apt-get install {' '.join(lacking)}")
    if os.geteuid() != 0:
        raise ImageBuildError("building an image needs root: it makes the files of a whole system")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return _build(of, folder, signer, say)
    except OSError as error:
        raise ImageBuildError(f"no image was built in {folder}: {error}; the same command begins anew") from None


def _build(of: System, folder: Path, signer: CryptoSigner | None, say: Progress) -> dict[str, Any]:
    with alone_in(folder), tempfile.TemporaryDirectory(dir=folder, prefix=SCRATCH) as scratch:
        work = Path(scratch)
        tree, out = work / "tree", work / "out"
        tree.mkdir()
        out.mkdir()
        say(f"packages of {of.suite}: {of.sources[0]}")
        bootstrap(of, work / "root.tar")
        run(["tar", "--extract", "--file", work / "root.tar", "--directory", tree, "--numeric-owner", "--xattrs"])
        (work / "root.tar").unlink()
        packages = installed(tree)
        if faults := not_pinned(of, packages):
            raise ImageBuildError("; ".join(faults))
        kernel, release = newest_kernel(tree)
        say(f"root file system with {len(packages)} packages, kernel {release}")
        shutil.copyfile(kernel, out / "vmlinuz")
        if of.encrypted:
            (tree / "boot").rename(work / "boot")
            (tree / "boot").mkdir()
            os.utime(tree / "boot", (EPOCH, EPOCH))
            file_system(of.boot_uuid, work / "boot", out / "bootfs.img")
        file_system(of.root_uuid, tree, out / "root.img")
        say("ESP, GRUB for BIOS, initramfs")
        esp(of, tree, out / "esp.img")
        core, boot = bios_grub(of, tree)
        (out / "core.img").write_bytes(core)
        (out / "boot.img").write_bytes(boot)
        (out / "cd.img").write_bytes(cd_grub(tree))
        (out / "deploy.initrd").write_bytes(deploy_initramfs(of, tree, release))
        described = describe(of, out, packages)
        for part in described["parts"].values():
            if part["file"].endswith(PACKED):
                run(["zstd", "-q", "-10", "--rm", "-T0", out / part["file"].removesuffix(PACKED)])
        for part in described["parts"].values():
            part["file_size"] = (out / part["file"]).stat().st_size
        text = json.dumps(described, indent=1) + "\n"
        write_file(out / "sbom.cdx.json", json.dumps(sbom(described, packages), indent=1) + "\n")
        (folder / "image.json").unlink(missing_ok=True)
        for path in sorted(out.iterdir()):
            path.replace(folder / path.name)
        sign(folder, text, signer)
        write_file(folder / "image.json", text)
    return described


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """One build in a folder at a time. What a killed one left in it is removed first."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ImageBuildError(f"another build works in {folder}: wait for its end, then the same command") from None
        for left in folder.glob(f"{SCRATCH}*"):
            shutil.rmtree(left)
        yield


def not_pinned(of: System, packages: Mapping[str, str]) -> list[str]:
    """What was installed in another version than the pinned one: apt takes what there is where no source has the pin."""
    return [
        f"{package}: the site pins version {version}, {', '.join(of.sources)} gave {packages[package]}. Fix: pin under `versions` "
        "of the site file what the sources have, or name a source that has it (--source)"
        for package, version in of.pins
        if package in packages and upstream(packages[package]) != version
    ]


def describe(of: System, out: Path, packages: Mapping[str, str]) -> dict[str, Any]:
    """image.json of the uncompressed parts in `out`."""
    files = {
        "root": "root.img",
        "esp": "esp.img",
        "bios": "core.img",
        "mbr": "boot.img",
        "cd": "cd.img",
        "kernel": "vmlinuz",
        "initrd": "deploy.initrd",
    }
    if of.encrypted:
        files["boot"] = "bootfs.img"
    parts = {}
    for name, file in files.items():
        with (out / file).open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        shown = f"{file}{PACKED}" if name in ("root", "esp", "boot") else file
        parts[name] = {"file": shown, "sha256": digest, "size": (out / file).stat().st_size}
    version = str(parts["root"]["sha256"])[:12]
    return {
        "schema_version": 1,
        "role": of.role,
        "recipe": recipe(of),
        "version": version,
        "suite": of.suite,
        "sources": list(of.sources),
        "packages": len(packages),
        "arguments": of.arguments,
        **({"luks": of.luks_uuid} if of.encrypted else {}),
        "parts": parts,
    }


def sign(folder: Path, text: str, signer: CryptoSigner | None) -> None:
    """Write the envelope of image.json; without a signer an earlier one is removed, which would be of another image."""
    signed = folder / "image.signed.json"
    if signer is None:
        signed.unlink(missing_ok=True)
        return
    envelope = Envelope(text.encode(), PAYLOAD_TYPE, {})
    envelope.sign(signer)
    write_file(signed, json.dumps(envelope.to_dict(), indent=1) + "\n")


def grub_cfg(of: System) -> str:
    """GRUB's configuration of the installed system."""
    return GRUB_CFG.format(files=of.boot_uuid, root=of.root_uuid, console=consoles(of.console), arguments=of.arguments)


def bootstrap(of: System, tar: Path) -> None:
    """The root file system as a tar of mmdebstrap, which clamps times and leaves out machine id and host keys."""
    hooks = {
        "/etc/cloud/cloud.cfg.d/90-bringup.cfg": CLOUD_CFG,
        "/etc/mdadm/mdadm.conf": MDADM_CONF,
        "/boot/grub/grub.cfg": grub_cfg(of),
        "/etc/fstab": f"UUID={of.root_uuid} / ext4 errors=remount-ro 0 1\n",
        "/etc/hostname": "installing\n",
    }
    before: dict[str, str] = {}
    if of.encrypted:
        hooks["/etc/fstab"] += f"UUID={of.boot_uuid} /boot ext4 nodev,nosuid,noexec 0 2\n"
        hooks["/etc/crypttab"] = CRYPTTAB.format(luks=of.luks_uuid)
        before["/etc/kernel-img.conf"] = KERNEL_LINKS
    if of.pins:
        before[PINS_FILE] = preferences(of)
    with tempfile.TemporaryDirectory() as scratch:
        commands = [f'mkdir -p "$1{Path(path).parent}"' for path in hooks]
        for number, (path, text) in enumerate(hooks.items()):
            source = Path(scratch) / str(number)
            source.write_text(text)
            commands.append(f'install -m 644 {source} "$1{path}"')
        commands += [
            'rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/munge/munge.key',
            WAIT.format(units=" ".join(of.waiting)),
            'chroot "$1" systemctl enable systemd-networkd.service',
            'chroot "$1" update-initramfs -u -k all',
            'rm -rf "$1"/var/cache/ldconfig/aux-cache "$1"/var/log/*.log "$1"/var/log/apt "$1"/var/lib/apt/lists/*_*',
        ]
        argv: list[str | Path] = ["mmdebstrap", "--variant=minbase", "--mode=root", "--quiet", "--format=tar"]
        argv.append(f"--include={','.join(of.packages)}")
        argv += [f"--dpkgopt=path-exclude={path}" for path in NOT_KEPT] + [f"--dpkgopt=path-include={p}" for p in KEPT]
        argv += [f"--customize-hook={command}" for command in commands]
        for number, (path, text) in enumerate(before.items()):
            source = Path(scratch) / f"before{number}"
            source.write_text(text)
            argv.append(f'--setup-hook=install -D -m 644 {source} "$1{path}"')
        run([*argv, of.suite, tar, *of.sources])


def preferences(of: System) -> str:
    """The pins as apt reads them."""
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(PINS.read_text(encoding="utf-8")).render(base_pins=dict(of.pins))


def installed(tree: Path) -> dict[str, str]:
    """Version by package of a root file system."""
    said = run(["dpkg-query", f"--admindir={tree}/var/lib/dpkg", "-W", "-f", "${Package}\\t${Version}\\n"])
    return dict(line.split("\t") for line in said.splitlines())


def newest_kernel(tree: Path) -> tuple[Path, str]:
    """Path of the kernel in a tree, and its release."""
    releases = sorted(path.name for path in (tree / "lib/modules").iterdir())
    kernels = [(tree / "boot" / f"vmlinuz-{release}", release) for release in releases]
    there = [found for found in kernels if found[0].exists()]
    if not there:
        raise ImageBuildError("no kernel was installed: look at the packages of images.yaml")
    return there[-1]


def file_system(identity: str, tree: Path, image: Path) -> None:
    """An ext4 image of a tree with this UUID, the same for the same files: mke2fs takes the change times of the tree, so these are
    set.
    """
    used_mib = int(run(["du", "--summarize", "--block-size=1M", tree]).split()[0])
    size_mib = used_mib * 11 // 10 + SPARE_MIB
    features = "^metadata_csum_seed,^orphan_file"  # GRUB 2.06 reads no others
    argv = [
        "mke2fs",
        "-q",
        "-F",
        "-t",
        "ext4",
        "-O",
        features,
        "-m",
        "1",
        "-U",
        identity,
        "-E",
        f"hash_seed={identity}",
    ]
    environment = {**os.environ, "E2FSPROGS_FAKE_TIME": str(EPOCH), "SOURCE_DATE_EPOCH": str(EPOCH)}
    run([*argv, "-d", tree, image, f"{size_mib}M"], env=environment)
    inodes = int(run(["dumpe2fs", "-h", image]).partition("Inode count:")[2].split()[0])
    free = int(run(["dumpe2fs", "-h", image]).partition("Free inodes:")[2].split()[0])
    fields = ("ctime", "atime", "crtime", "ctime_extra", "atime_extra", "mtime_extra", "crtime_extra")
    script = image.with_suffix(".debugfs")
    with script.open("w") as file:
        for inode in (2, *range(11, 11 + inodes - free)):
            file.writelines(
                f"sif <{inode}> {field} {0 if field.endswith('extra') else f'@{EPOCH}'}\n" for field in fields
            )
    run(["debugfs", "-w", "-f", script, image], env=environment)
    script.unlink()


def esp(of: System, tree: Path, image: Path) -> None:
    """An EFI system partition: shim and signed GRUB at the path that firmware looks for by itself."""
    vendor = "ubuntu" if (tree / "etc/lsb-release").exists() else "debian"
    early = image.with_suffix(".cfg")
    early.write_text(GRUB_EFI.format(files=of.boot_uuid, folder=of.grub_folder))
    placed = {
        "EFI/BOOT/BOOTX64.EFI": inside(
            tree, "/usr/lib/shim/shimx64.efi.signed"
        ),  # a link by /etc/alternatives on Ubuntu
        "EFI/BOOT/grubx64.efi": inside(tree, "/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"),
        f"EFI/{vendor}/grub.cfg": early,
        "EFI/BOOT/grub.cfg": early,
    }
    if lacking := [str(source) for source in placed.values() if not source.exists()]:
        raise ImageBuildError(f"{', '.join(lacking)} not installed: look at the packages of images.yaml")
    number = hashlib.sha256(of.root_uuid.encode()).hexdigest()[:8]
    fat(image, 32, ESP_FS_MIB, number, placed)
    early.unlink()


def fat(image: Path, bits: int, size_mib: int, number: str, placed: Mapping[str, Path]) -> None:
    """A FAT file system of so many bits with files by their path, all of them below EFI. `number`: eight hex digits."""
    run(["mkfs.vfat", "-F", str(bits), "-s", "1", "-i", number, "--invariant", "-C", image, str(size_mib * 1024)])
    environment = {**os.environ, "MTOOLS_SKIP_CHECK": "1"}
    for made in dict.fromkeys(("EFI", *(str(Path(path).parent) for path in placed))):
        run(["mmd", "-i", image, f"::{made}"], env=environment)
    for path, source in placed.items():
        run(["mcopy", "-i", image, source, f"::{path}"], env=environment)


def bios_grub(of: System, tree: Path) -> tuple[bytes, bytes]:
    """GRUB's core image and boot sector for BIOS, as they lie in the first partition and in the first 440 bytes of a drive."""
    (tree / "tmp/early.cfg").write_text(GRUB_BIOS.format(files=of.boot_uuid, folder=of.grub_folder))
    argv = ["grub-mkimage", "-O", "i386-pc", "-p", of.grub_folder, "-c", "/tmp/early.cfg", "-o", "/tmp/core.img"]
    run(["chroot", tree, *argv, *BIOS_MODULES])
    core = placed_core((tree / "tmp/core.img").read_bytes(), FIRST_LBA)
    if len(core) > BIOS_MIB * MIB:
        raise ImageBuildError(f"GRUB's core image has {len(core)} bytes, more than its partition of {BIOS_MIB} MiB")
    return core, placed_boot((tree / "usr/lib/grub/i386-pc/boot.img").read_bytes(), FIRST_LBA)


def cd_grub(tree: Path) -> bytes:
    """GRUB for BIOS as El Torito starts it from a CD; it finds the CD by CD_CONFIG."""
    (tree / "tmp/early.cfg").write_text(GRUB_CD.format(config=CD_CONFIG, folder=str(Path(CD_CONFIG).parent)))
    argv = ["grub-mkimage", "-O", "i386-pc-eltorito", "-p", "/boot/grub", "-c", "/tmp/early.cfg", "-o", "/tmp/cd.img"]
    run(["chroot", tree, *argv, *CD_MODULES])
    return (tree / "tmp/cd.img").read_bytes()


def placed_boot(boot: bytes, core_lba: int) -> bytes:
    """The boot sector's 440 bytes of code, told where the core image begins (GRUB, include/grub/i386/pc/boot.h: kernel sector
    at 0x5c; the drive check at 0x66 is taken out, as grub-bios-setup does for hard drives).
    """
    if len(boot) != SECTOR:
        raise ImageBuildError(f"GRUB's boot.img has {len(boot)} bytes, not {SECTOR}")
    code = bytearray(boot[:440])
    struct.pack_into("<Q", code, 0x5C, core_lba)
    code[0x66:0x68] = b"\x90\x90"
    return bytes(code)


def placed_core(core: bytes, lba: int) -> bytes:
    """The core image, its first sector told where the rest is: the last block list of that sector begins 12 bytes before its
    end (GRUB, include/grub/offsets.h) with the number of the sector after it.
    """
    if len(core) <= SECTOR:
        raise ImageBuildError(f"GRUB's core image has only {len(core)} bytes")
    placed = bytearray(core)
    struct.pack_into("<Q", placed, SECTOR - 12, lba + 1)
    return bytes(placed)


def deploy_initramfs(of: System, tree: Path, release: str) -> bytes:
    """The initramfs that writes images, compressed: programs and modules of the image, and deploy.sh as init."""
    entries: dict[str, Entry] = {
        **CONSOLE,
        "init": File((HERE / "deploy.sh").read_bytes(), 0o755),
        "etc/udhcpc.script": File((HERE / "udhcpc.script").read_bytes(), 0o755),
        "bin/sh": Link("busybox"),
        "tmp/.keep": File(b""),
        "mnt/.keep": File(b""),
        "proc/.keep": File(b""),
        "sys/.keep": File(b""),
    }
    own = {"busybox", "kmod", *(Path(program).name for program in of.programs)}
    for applet in run(["chroot", tree, "/bin/busybox", "--list"]).split():
        if applet not in own:
            entries.setdefault(f"bin/{applet}", Link("busybox"))
    for program in ("modprobe", "insmod", "lsmod", "modinfo"):
        entries[f"bin/{program}"] = Link("kmod")
    for program in of.programs:
        entries[f"bin/{Path(program).name}"] = File(inside(tree, program).read_bytes(), 0o755)
        entries |= {path.lstrip("/"): File(inside(tree, path).read_bytes(), 0o755) for path in libraries(tree, program)}
    loaded, files = modules(tree, release, of.modules)
    entries |= {path: File((tree / path).read_bytes()) for path in files}
    entries["etc/modules.list"] = File(("\n".join(loaded) + "\n").encode())
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / "initrd"
        made.write_bytes(archive(entries))
        run(["zstd", "-q", "-15", "-T1", made])
        return made.with_name("initrd.zst").read_bytes()


def inside(tree: Path, path: str) -> Path:
    """A file of the tree whose links are followed within it."""
    seen = Path(path)
    for _ in range(16):
        at = tree / seen.relative_to("/")
        for parent in reversed(seen.parents):
            folder = tree / parent.relative_to("/")
            if folder.is_symlink():
                seen = Path("/") / parent.parent / os.readlink(folder) / seen.relative_to(parent)
                break
        else:
            if not at.is_symlink():
                return at
            seen = seen.parent / os.readlink(at)
        seen = Path(os.path.normpath(seen))
    raise ImageBuildError(f"{path}: links within the image go in a circle")


def libraries(tree: Path, program: str) -> list[str]:
    """Shared libraries that a program of the tree needs, by absolute path within it."""
    done = ended(["chroot", tree, "ldd", program], QUERY_LIMIT_S)
    return re.findall(r"(?:=> |^\s)(/\S+) \(0x", done.stdout, flags=re.MULTILINE)  # a static one has none


def modules(tree: Path, release: str, wanted: Iterable[str]) -> tuple[list[str], list[str]]:
    """Modules of `wanted` that the kernel has, and the files that they and what they depend on are, with modprobe's indexes."""
    folder = f"lib/modules/{release}"
    loaded, files = (
        [],
        {f"{folder}/{index}" for index in ("modules.dep", "modules.alias", "modules.builtin", "modules.softdep")},
    )
    for name in wanted:
        asked: list[str | Path] = ["chroot", tree, "modprobe", "--set-version", release, "--show-depends", name]
        done = ended(asked, QUERY_LIMIT_S)
        if done.returncode == 0:
            loaded.append(name)
            files |= set(_module_files(done.stdout, folder))
    return loaded, sorted(path for path in files if (tree / path).exists())


def _module_files(said: str, folder: str) -> Iterator[str]:
    for path in re.findall(r"^insmod (\S+)", said, flags=re.MULTILINE):
        yield folder + path.partition(folder.removeprefix("lib/modules"))[2]


def sbom(described: Mapping[str, Any], packages: Mapping[str, str]) -> dict[str, Any]:
    """The packages as CycloneDX 1.5; no time and no serial number, so that the same image has the same list."""
    root = described["parts"]["root"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "operating-system",
                "name": f"bringup-image-{described['role']}",
                "version": described["version"],
                "hashes": [{"alg": "SHA-256", "content": root["sha256"]}],
            }
        },
        "components": [
            {
                "type": "library",
                "name": name,
                "version": version,
                "purl": f"pkg:deb/{described['suite']}/{name}@{version}",
            }
            for name, version in sorted(packages.items())
        ],
    }


def run(argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> str:
    """Standard output of a program; ImageBuildError with its last words when it fails."""
    environment = dict(env or os.environ) | {"SOURCE_DATE_EPOCH": str(EPOCH), "LC_ALL": "C.UTF-8"}
    done = ended(argv, BUILD_LIMIT_S, environment)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
        raise ImageBuildError(f"{argv[0]} failed with exit status {done.returncode}:\n{tail}")
    return done.stdout


def ended(
    argv: Sequence[str | Path], limit_s: float, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """A program that has ended; ImageBuildError for one that does not within limit_s, or cannot be started."""
    words = list(map(str, argv))
    try:
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=env,
            stdin=subprocess.DEVNULL,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        raise ImageBuildError(
            f"{' '.join(words[:4])} did not end within {limit_s:g} s: look at the load of this machine and at what the sources "
            "answer, then the same command"
        ) from None
    except OSError as error:
        raise ImageBuildError(f"{words[0]} cannot be run: {error}") from None
