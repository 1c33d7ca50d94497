"""What an image is described by, GRUB placed for BIOS, links followed within the tree, signatures."""

import errno
import json
import os
import re
import struct
import time
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.dsse import Envelope

from capacity.services.boot import parse_image
from infra.boot import image
from inventory.site import load_site
from inventory.site.sections.provisioning import ENCRYPTED_SYSTEMS
from inventory.yaml_data import read_data
from tests.playbooks.support import PLAYBOOKS, ansible
from validation.evidence.keys import signer_of

GPU = image.system("debian-12", "gpu")


def test_a_role_has_its_packages_and_one_kernel():
    assert "linux-image-amd64" in GPU.packages
    assert "linux-image-cloud-amd64" in image.system("debian-12", "gpu", virtual=True).packages
    assert set(image.system("debian-12", "management").packages) - set(GPU.packages) == {"dnsmasq-base", "ipxe"}


def test_the_image_of_compute_nodes_has_what_the_playbook_installs_on_them():
    site = load_site("lab-metal")
    more = image.configured(site, "gpu")
    assert {"chrony", "munge", "slurmd", "glusterfs-client", "rdma-core", "prometheus-node-exporter", "dmidecode"} <= {
        *more
    }
    made = image.system(site.os.key, "gpu", more=more)
    assert {*more} <= {*made.packages}
    assert "slurmd.service" in made.waiting
    assert "perftest" in more
    assert "perftest" in image.configured(load_site("b200-256-roce"), "gpu")
    other = site.model_copy(update={"scheduler": site.scheduler.model_copy(update={"packages": "schedmd"})})
    assert not {package for package in image.configured(other, "gpu") if "slurm" in package}


@pytest.mark.parametrize(("controllers", "balanced"), [(1, False), (3, True)])
def test_the_image_of_a_kubernetes_node_has_its_packages_and_none_of_slurm(controllers: int, balanced: bool):
    site = load_site("lab-kubernetes")
    nodes = tuple(
        one.model_copy(update={"count": controllers}) if one.role == "controller" else one for one in site.service_nodes
    )
    more = image.configured(site.model_copy(update={"service_nodes": nodes}), "gpu")
    assert {
        "containerd",
        "runc",
        "containernetworking-plugins",
        "nftables",
        "openssl",
        "chrony",
        "glusterfs-client",
    } <= {*more}
    assert not {package for package in more if "slurm" in package or package == "munge"}
    assert ("haproxy" in more) is balanced
    assert {"containerd.service", "haproxy.service"} <= {*image.system(site.os.key, "gpu", more=more).waiting}
    assert not {"containerd", "haproxy"} & {*image.configured(load_site("lab-metal"), "gpu")}


def test_the_installed_kernel_writes_to_the_serial_line_of_the_site():
    assert " console=tty0 console=ttyS0,115200n8 panic" in image.grub_cfg(GPU)
    other = image.system("debian-12", "gpu", console="ttyS1")
    assert " console=tty0 console=ttyS1,115200n8 panic" in image.grub_cfg(other)
    assert image.recipe(other) != image.recipe(GPU)


def test_the_image_has_the_versions_that_the_site_pins():
    site = load_site("lab-metal")
    pinned = image.pins(site)
    assert (pinned["slurmd"], pinned["openssh-server"]) == (site.versions["slurm"], site.versions["openssh"])
    made = image.system(site.os.key, "gpu", pinned=pinned)
    text = image.preferences(made)
    assert f"Package: munge\nPin: version {site.versions['munge']}-*\nPin-Priority: 1001\n" in text
    assert f"Package: openssh-server\nPin: version *:{site.versions['openssh']}-*\n" in text
    have = {"munge": f"{site.versions['munge']}-2", "openssh-server": f"1:{site.versions['openssh']}-2+deb12u7"}
    assert image.not_pinned(made, have) == []
    (fault,) = image.not_pinned(made, {**have, "munge": "9.9-1"})
    assert fault.startswith(f"munge: the site pins version {site.versions['munge']}, deb http://deb.debian.org")
    assert "gave 9.9-1" in fault


def test_schedmds_packages_are_pinned_where_the_site_takes_them():
    site = load_site("lab-metal")
    other = site.model_copy(update={"scheduler": site.scheduler.model_copy(update={"packages": "schedmd"})})
    assert image.pins(other)["slurm-smd-slurmd"] == site.versions["slurm"]
    assert "slurmd" not in image.pins(other)


def test_pins_are_written_as_the_role_base_writes_them(tmp_path):
    made = image.system("debian-12", "gpu", pinned={"munge": "0.5.15", "slurmd": "22.05.8"})
    template = PLAYBOOKS / "roles/base/templates/pins.j2"
    book = tmp_path / "book.yml"
    copied = {"content": f"{{{{ lookup('ansible.builtin.template', '{template}') }}}}", "dest": str(tmp_path / "pins")}
    tasks = [{"ansible.builtin.copy": copied, "vars": {"base_pins": dict(made.pins)}}]
    book.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    done = ansible("ansible-playbook", str(book), var=tmp_path)
    assert (tmp_path / "pins").read_text() == image.preferences(made), done.stdout + done.stderr


def test_each_service_that_waits_is_taken_up_by_a_role():
    roles = [path.read_text() for path in (PLAYBOOKS / "roles").glob("*/tasks/*.yml")]
    assert [unit for unit in GPU.waiting if not any(unit in text for text in roles)] == []


@pytest.mark.parametrize("role", ["controller", "management"])
def test_other_roles_get_their_packages_by_the_playbook(role):
    assert image.configured(load_site("lab-metal"), role) == ()


def test_roots_of_two_roles_have_two_uuids_and_those_of_one_role_the_same():
    assert (
        GPU.root_uuid == image.system("debian-12", "gpu", sources=["deb http://mirror/debian bookworm main"]).root_uuid
    )
    assert GPU.root_uuid != image.system("debian-12", "controller").root_uuid


@pytest.mark.parametrize(
    ("os_key", "role", "said"), [("rhel-9", "gpu", "no image of rhel-9"), ("debian-12", "x", "no role x")]
)
def test_what_cannot_be_built_is_refused(os_key, role, said):
    with pytest.raises(image.ImageBuildError, match=said):
        image.system(os_key, role)


def test_the_boot_sector_is_told_where_the_core_image_begins():
    code = image.placed_boot(bytes(512), 2048)
    assert len(code) == 440
    assert struct.unpack_from("<Q", code, 0x5C) == (2048,)
    assert code[0x66:0x68] == b"\x90\x90"


def test_the_core_image_is_told_where_its_second_sector_lies():
    core = bytes(range(256)) * 8
    placed = image.placed_core(core, 2048)
    assert struct.unpack_from("<Q", placed, 500) == (2049,)
    assert placed[:500] + placed[508:] == core[:500] + core[508:]


@pytest.mark.parametrize("content", [b"", bytes(511), bytes(513)])
def test_what_is_no_boot_sector_is_refused(content):
    with pytest.raises(image.ImageBuildError, match="boot.img has"):
        image.placed_boot(content, 2048)


def parts(folder: Path) -> None:
    for name in ("root.img", "esp.img", "core.img", "boot.img", "cd.img", "vmlinuz", "deploy.initrd"):
        (folder / name).write_bytes(name.encode())


def test_what_is_described_is_what_the_boot_server_reads(tmp_path):
    parts(tmp_path)
    described = image.describe(GPU, tmp_path, {"bash": "5.2"})
    read = parse_image(json.dumps(described), "image.json")
    assert (read.role, read.version) == ("gpu", read.parts["root"].sha256[:12])
    assert read.parts["root"].file == "root.img.zst"
    assert read.parts["mbr"].size == len(b"boot.img")


def test_the_package_list_names_each_package_with_version_and_the_image_with_its_hash(tmp_path):
    parts(tmp_path)
    described = image.describe(GPU, tmp_path, {"bash": "5.2"})
    listed = image.sbom(described, {"zlib1g": "1.2", "bash": "5.2"})
    assert [c["purl"] for c in listed["components"]] == ["pkg:deb/bookworm/bash@5.2", "pkg:deb/bookworm/zlib1g@1.2"]
    (digest,) = listed["metadata"]["component"]["hashes"]
    assert digest["content"] == described["parts"]["root"]["sha256"]


def test_a_signature_holds_for_the_description_and_for_no_other(tmp_path):
    signer = signer_of(Ed25519PrivateKey.generate())
    image.sign(tmp_path, "the description\n", signer)
    envelope = Envelope.from_dict(json.loads((tmp_path / "image.signed.json").read_text()))
    assert envelope.payload == b"the description\n"
    key = signer.public_key
    envelope.verify([key], 1)
    envelope.payload = b"another\n"
    with pytest.raises(Exception, match="signature"):
        envelope.verify([key], 1)


def test_an_image_that_is_not_signed_keeps_no_signature_of_an_earlier_one(tmp_path):
    image.sign(tmp_path, "one\n", signer_of(Ed25519PrivateKey.generate()))
    image.sign(tmp_path, "two\n", None)
    assert not (tmp_path / "image.signed.json").exists()


def test_links_of_a_tree_are_followed_within_it(tmp_path):
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "usr/bin/busybox").write_text("x")
    (tmp_path / "usr/bin/sh").symlink_to("/bin/busybox")
    assert image.inside(tmp_path, "/bin/sh").read_text() == "x"


def test_links_in_a_circle_are_refused(tmp_path):
    (tmp_path / "a").symlink_to("/b")
    (tmp_path / "b").symlink_to("/a")
    with pytest.raises(image.ImageBuildError, match="go in a circle"):
        image.inside(tmp_path, "/a")


def test_modules_are_named_by_their_path_in_the_tree():
    said = "insmod /lib/modules/6.1.0/kernel/drivers/md/raid1.ko \nbuiltin nvme\n"
    assert list(image._module_files(said, "lib/modules/6.1.0")) == ["lib/modules/6.1.0/kernel/drivers/md/raid1.ko"]


def tree_of(folder: Path, names: list[str]) -> Path:
    """A small tree whose files are made in this order."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name * 100)
        os.utime(path, (image.EPOCH, image.EPOCH))
    for parent, _, _ in os.walk(folder):
        os.utime(parent, (image.EPOCH, image.EPOCH))
    return folder


FILES = ["etc/a", "usr/bin/b", "usr/share/c", "usr/lib/shim/shimx64.efi.signed", "var/lib/d"]
FILES += ["usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"]


@pytest.mark.needs("mke2fs", "debugfs", "dumpe2fs")
def test_the_same_files_give_the_same_file_system_whenever_and_in_whatever_order_they_were_made(tmp_path):
    made = []
    for name, names in (("one", FILES), ("two", FILES[::-1])):
        (tmp_path / name).mkdir()
        image.file_system(GPU.root_uuid, tree_of(tmp_path / name / "tree", names), tmp_path / name / "root.img")
        made.append((tmp_path / name / "root.img").read_bytes())
        time.sleep(1.1)  # change times differ by a second at least
    assert made[0] == made[1]


@pytest.mark.needs("mkfs.vfat", "mcopy")
def test_the_same_files_give_the_same_esp_and_it_has_what_firmware_looks_for(tmp_path):
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        image.esp(GPU, tree_of(tmp_path / name / "tree", FILES), tmp_path / name / "esp.img")
        made.append((tmp_path / name / "esp.img").read_bytes())
        time.sleep(2.1)  # FAT counts two seconds
    assert made[0] == made[1]
    listed = image.run(["mdir", "-b", "-/", "-i", tmp_path / "one" / "esp.img", "::"])
    assert "::/EFI/BOOT/BOOTX64.EFI" in listed
    assert "::/EFI/debian/grub.cfg" in listed


@pytest.mark.needs("mkfs.vfat", "mcopy")
def test_the_shim_of_ubuntu_is_the_one_that_its_alternatives_name_within_the_image(tmp_path):
    tree = tree_of(tmp_path / "tree", [*FILES, "usr/lib/shim/shimx64.efi.signed.latest"])
    shim, alternative = tree / "usr/lib/shim/shimx64.efi.signed", tree / "etc/alternatives/shimx64.efi.signed"
    shim.unlink()
    shim.symlink_to("/etc/alternatives/shimx64.efi.signed")
    alternative.parent.mkdir()
    alternative.symlink_to("/usr/lib/shim/shimx64.efi.signed.latest")
    image.esp(GPU, tree, tmp_path / "esp.img")
    image.run(["mcopy", "-i", tmp_path / "esp.img", "::EFI/BOOT/BOOTX64.EFI", tmp_path / "found"])
    assert (tmp_path / "found").read_bytes() == (tree / "usr/lib/shim/shimx64.efi.signed.latest").read_bytes()
    alternative.unlink()
    with pytest.raises(image.ImageBuildError, match=r"alternatives/shimx64\.efi\.signed not installed"):
        image.esp(GPU, tree, tmp_path / "esp.img")


def whole(folder: Path, of: image.System) -> Path:
    """An image of these parts in a folder, as `build` leaves it."""
    parts(folder)
    described = image.describe(of, folder, {})
    for part in described["parts"].values():
        source = folder / part["file"].removesuffix(".zst")
        source.rename(folder / part["file"])
        part["file_size"] = (folder / part["file"]).stat().st_size
    (folder / "image.json").write_text(json.dumps(described))
    return folder


def test_an_image_is_reused_for_its_own_recipe_only(tmp_path):
    folder = whole(tmp_path, GPU)
    assert image.is_current(GPU, folder)
    for other in (
        image.system("debian-12", "gpu", more=["htop"]),
        image.system("debian-12", "gpu", pinned={"munge": "0.5.15"}),
        image.system("debian-12", "gpu", virtual=True),
        image.system("debian-12", "gpu", sources=["deb http://mirror/debian bookworm main"]),
    ):
        assert not image.is_current(other, folder)


@pytest.mark.parametrize("name", image.RECIPE_FILES)
def test_a_changed_program_makes_another_recipe(tmp_path, monkeypatch, name):
    before = image.recipe(GPU)
    for file in image.RECIPE_FILES:
        (tmp_path / file).write_bytes((image.HERE / file).read_bytes())
    monkeypatch.setattr(image, "HERE", tmp_path)
    assert image.recipe(GPU) == before
    with (tmp_path / name).open("a") as file:
        file.write("# changed\n")
    assert image.recipe(GPU) != before


@pytest.mark.parametrize("fault", ["cut", "gone", "of no recipe", "no JSON", "a list", "absent"])
def test_an_image_that_is_not_whole_is_not_reused(tmp_path, fault):
    folder = whole(tmp_path, GPU)
    said = json.loads((folder / "image.json").read_text())
    if fault == "cut":
        (folder / "root.img.zst").write_bytes(b"r")
    elif fault == "gone":
        (folder / "vmlinuz").unlink()
    elif fault == "of no recipe":
        (folder / "image.json").write_text(json.dumps({k: v for k, v in said.items() if k != "recipe"}))
    elif fault == "absent":
        (folder / "image.json").unlink()
    else:
        (folder / "image.json").write_text("{" if fault == "no JSON" else "[]")
    assert not image.is_current(GPU, folder)


def test_a_build_removes_what_a_killed_one_left_and_two_builds_do_not_meet(tmp_path):
    left = tmp_path / ".build-killed" / "tree"
    left.mkdir(parents=True)
    with image.alone_in(tmp_path):
        assert not left.exists()
        with pytest.raises(image.ImageBuildError, match="another build works in"), image.alone_in(tmp_path):
            pass


def test_a_program_that_does_not_end_is_named_with_its_time(monkeypatch):
    with pytest.raises(image.ImageBuildError, match=r"sleep 30 did not end within 0\.1 s"):
        image.ended(["sleep", "30"], 0.1)
    with pytest.raises(image.ImageBuildError, match="/no/such cannot be run"):
        image.run(["/no/such"])


def test_a_full_disk_is_named_with_its_folder(tmp_path, monkeypatch):
    def full(of, tar):
        raise OSError(errno.ENOSPC, "No space left on device", str(tar))

    monkeypatch.setattr(image, "bootstrap", full)
    monkeypatch.setattr(image, "missing_tools", list)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(image.ImageBuildError, match=rf"no image was built in {tmp_path}: .*No space left on device"):
        image.build(GPU, tmp_path, None, lambda text: None)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


ENCRYPTED = image.system("debian-12", "gpu", encrypted=True)


def test_an_image_for_encrypted_disks_adds_what_opens_and_what_writes_them():
    assert {"clevis-initramfs", "clevis-tpm2", "cryptsetup-initramfs"} <= set(ENCRYPTED.packages) - set(GPU.packages)
    assert set(ENCRYPTED.programs) - set(GPU.programs) == {"/sbin/cryptsetup", "/sbin/dmsetup"}
    assert "dm_crypt" in set(ENCRYPTED.modules) - set(GPU.modules)
    assert len({ENCRYPTED.root_uuid, ENCRYPTED.boot_uuid, ENCRYPTED.luks_uuid}) == 3
    assert (GPU.boot_uuid, GPU.luks_uuid, ENCRYPTED.root_uuid) == (GPU.root_uuid, "", GPU.root_uuid)
    with pytest.raises(
        image.ImageBuildError, match=r"no image of ubuntu-24\.04 for encrypted disks can be built; of debian-12"
    ):
        image.system("ubuntu-24.04", "gpu", encrypted=True)


def test_the_site_file_refuses_systems_of_which_no_image_for_encrypted_disks_is_built():
    rows = read_data(image.IMAGES_FILE)["systems"]
    assert {name for name, row in rows.items() if "encrypted" in row} == set(ENCRYPTED_SYSTEMS)


def test_an_image_for_encrypted_disks_is_described_with_its_volume_and_the_file_system_of_its_kernel(tmp_path):
    parts(tmp_path)
    (tmp_path / "bootfs.img").write_bytes(b"kernel")
    read = parse_image(json.dumps(image.describe(ENCRYPTED, tmp_path, {})), "image.json")
    assert (read.luks, read.parts["boot"].file) == (ENCRYPTED.luks_uuid, "bootfs.img.zst")
    assert set(read.needed) - set(parse_image(json.dumps(image.describe(GPU, tmp_path, {})), "image.json").needed) == {
        "boot"
    }


def asked_of_mmdebstrap(of, monkeypatch) -> dict[str, str]:
    """What mmdebstrap is to put into a tree, by path, and the packages that it is to install."""
    found = {}

    def run(argv, env=None):
        for word in map(str, argv):
            if match := re.match(r'--(?:setup|customize)-hook=install .*?(\S+) "\$1(\S+)"', word):
                found[match[2]] = Path(match[1]).read_text()
        return ""

    monkeypatch.setattr(image, "run", run)
    image.bootstrap(of, Path("root.tar"))
    return found


def test_grub_finds_the_kernel_where_the_root_cannot_be_read(monkeypatch):
    plain, encrypted = asked_of_mmdebstrap(GPU, monkeypatch), asked_of_mmdebstrap(ENCRYPTED, monkeypatch)
    assert set(encrypted) - set(plain) == {"/etc/crypttab", "/etc/kernel-img.conf"}
    assert f"--set=root {GPU.root_uuid}\n" in plain["/boot/grub/grub.cfg"]
    config = encrypted["/boot/grub/grub.cfg"]
    assert f"--set=root {ENCRYPTED.boot_uuid}\n" in config
    assert f"root=UUID={ENCRYPTED.root_uuid} " in config
    assert encrypted["/etc/crypttab"] == f"root UUID={ENCRYPTED.luks_uuid} none luks,initramfs\n"
    assert f"UUID={ENCRYPTED.boot_uuid} /boot ext4 " in encrypted["/etc/fstab"]
    assert plain["/etc/fstab"] == f"UUID={GPU.root_uuid} / ext4 errors=remount-ro 0 1\n"
