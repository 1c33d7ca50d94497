"""What a boot server serves: DHCP of two servers alike, iPXE scripts, seeds without secrets, answers of installers."""

import base64
import dataclasses
import fnmatch
import ipaddress
import json
import re
import subprocess
from typing import Any

import jsonschema
import pandas as pd
import pytest
import yaml
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from capacity.build import build
from capacity.services.boot import BootError, ImageError, files, intents, medium, parse_image
from capacity.services.boot.dhcp import dnsmasq
from capacity.services.boot.files import of_writing
from capacity.services.boot.installers import curtin
from capacity.services.boot.scripts import MEDIUM
from capacity.services.boot.seeds import console_keys
from inventory.paths import repo_root
from inventory.site.sections.provisioning import Provisioning
from inventory.site.whatif import changed
from network.wiring import ipv6
from tests.capacity.services.boot.cases import (
    ENCRYPTED_IMAGE,
    IMAGE,
    LUKS,
    PUBLIC_KEY,
    RECOVERY,
    RECOVERY_PEM,
    all_delivered,
    delivered,
    image,
)
from tests.plans import plan_of

PLAN = plan_of("lab")
ASSETS = all_delivered(PLAN)
SCHEMA = repo_root() / "third_party" / "subiquity" / "autoinstall-schema.json"


ENCRYPTED: dict[str, Any] = {"encrypt": "tpm2", "recovery_key": RECOVERY_PEM}


def rendered(method="image", os="debian", images=None, **more):
    plan = plan_of("lab")
    provisioning = Provisioning(method=method, **more)
    system = plan.site.os.model_copy(update={"name": os})
    plan = dataclasses.replace(plan, site=plan.site.model_copy(update={"provisioning": provisioning, "os": system}))
    found = intents(plan, ASSETS)
    return files(plan, found, {"gpu": image()} if images is None else images, PUBLIC_KEY)


@pytest.mark.needs("dnsmasq")
@pytest.mark.parametrize("name", ["dnsmasq.conf", "dnsmasq-management.conf"])
def test_dnsmasq_takes_its_configuration(name, tmp_path):
    path = tmp_path / "dnsmasq.conf"
    path.write_text(rendered()[name].replace("/srv/bringup/boot/tftp", str(tmp_path)))
    done = subprocess.run(["dnsmasq", "--test", f"--conf-file={path}"], capture_output=True, text=True, check=False)
    assert "syntax check OK" in done.stderr, done.stderr


def test_a_mac_that_is_not_known_gets_no_lease_of_either_server():
    made = rendered()
    assert "dhcp-ignore=tag:!known" in made["dnsmasq.conf"].splitlines()
    assert "dhcp-range=10.77.1.0,static,255.255.255.0,3600" in made["dnsmasq.conf"].splitlines()
    (subnet,) = json.loads(made["kea-dhcp4.json"])["Dhcp4"]["subnet4"]
    assert "pools" not in subnet


def test_kea_reserves_what_dnsmasq_leases():
    made = rendered()
    leased = {
        tuple(line.removeprefix("dhcp-host=").split(",")[:3])
        for line in made["dnsmasq.conf"].splitlines()
        if line.startswith("dhcp-host=")
    }
    (subnet,) = json.loads(made["kea-dhcp4.json"])["Dhcp4"]["subnet4"]
    assert {(r["hw-address"], r["ip-address"], r["hostname"]) for r in subnet["reservations"]} == leased


def test_bmcs_get_their_planned_address_in_the_management_network():
    line = next(line for line in rendered()["dnsmasq-management.conf"].splitlines() if ",gpu001," in line)
    row = PLAN.addresses.query("device == 'gpu001' and network == 'bmc'").iloc[0]
    assert line == f"dhcp-host={row['mac']},{row['address'].split('/')[0]},gpu001,3600"


def dual_stack(prefix="fd00:77::/64"):
    """The lab with a prefix for IPv6 of its BMCs."""
    plan = build(changed("lab", [f"addressing.bmc_ipv6={prefix}"]))
    return plan, files(plan, intents(plan, ASSETS), {"gpu": image()}, PUBLIC_KEY)["dnsmasq-management.conf"]


@pytest.mark.needs("dnsmasq")
@pytest.mark.parametrize("prefix", ["fd00:77::/48", "fd00:77::/64", "fd00:77::/112"])
def test_dnsmasq_takes_the_second_family_of_bmcs(prefix, tmp_path):
    (tmp_path / "dnsmasq.conf").write_text(dual_stack(prefix)[1])
    done = subprocess.run(
        ["dnsmasq", "--test", f"--conf-file={tmp_path / 'dnsmasq.conf'}"], capture_output=True, text=True, check=False
    )
    assert "syntax check OK" in done.stderr, done.stderr


def test_bmcs_get_their_ipv6_address_as_the_table_of_reservations_has_it_and_pdus_none():
    plan, text = dual_stack()
    second = ipv6.addresses(plan.site, plan.catalog, plan.addresses).set_index("device")["address"]
    hosts = [line.removeprefix("dhcp-host=").split(",") for line in text.splitlines() if line.startswith("dhcp-host=")]
    given = {line[-2]: line[2] for line in hosts if line[2].startswith("[")}
    assert given == {device: f"[{address.partition('/')[0]}]" for device, address in second.items()}
    assert "gpu001" in given
    assert "pdu-r01-a" in {line[-2] for line in hosts} - set(given)


@pytest.mark.parametrize(("name", "prefix"), [("", None), ("-management", None), ("-management", "fd00:77::/64")])
def test_dnsmasq_may_give_all_reserved_addresses_and_keep_as_many_leases_of_earlier_files_as_it_would(name, prefix):
    text = dual_stack(prefix)[1] if prefix else rendered()[f"dnsmasq{name}.conf"]
    reserved = [
        field
        for line in text.splitlines()
        if line.startswith("dhcp-host=")
        for field in line.split(",")
        if re.fullmatch(r"[0-9.]+\.[0-9]+|\[.*\]", field)
    ]
    assert f"dhcp-lease-max={1000 + len(reserved)}" in text.splitlines()


def test_all_servers_may_fetch_their_loader_at_once():
    many = pd.DataFrame(
        {"device": [f"gpu{n:03}" for n in range(300)], "mac": "02:5e:00:00:00:01", "address": "10.77.1.9/24"}
    )
    found = intents(PLAN, ASSETS)
    assert "tftp-max=300" in dnsmasq(PLAN, dataclasses.replace(found, hosts=many)).splitlines()
    assert "tftp-max=50" in dnsmasq(PLAN, found).splitlines()


def test_advertisements_send_bmcs_to_dhcp_and_to_no_router():
    _, text = dual_stack("fd00:77::/48")
    lines = text.splitlines()
    assert "dhcp-range=fd00:77::,static,64,3600" in lines
    assert {"enable-ra", "ra-param=*,0,0"} <= set(lines)
    own = next(line.partition("=")[2] for line in lines if line.startswith("listen-address=fd00"))
    first = next(line.partition("=")[2] for line in lines if line.startswith("listen-address=10."))
    assert int(ipaddress.ip_address(own)) & 0xFFFF == int(ipaddress.ip_address(first)) & 0xFF
    assert "enable-ra" not in rendered()["dnsmasq-management.conf"]


def test_a_script_names_its_kernel_initramfs_and_plan():
    made = rendered()
    script = made["http/by-mac/02-5e-00-00-00-00.ipxe"]
    assert script.startswith("#!ipxe\n")
    assert "/images/gpu/0123456789ab/vmlinuz initrd=installer.initrd" in script
    assert "bringup.plan=http://10.77.1.17/plan/02-5e-00-00-00-00.env" in script


@pytest.mark.parametrize(("method", "os"), [("image", "debian"), ("autoinstall", "ubuntu"), ("preseed", "debian")])
def test_a_kernel_writes_to_the_serial_line_of_the_site(method, os):
    name = "http/by-mac/02-5e-00-00-00-00.ipxe"
    assert " console=tty0 console=ttyS0,115200n8 " in rendered(method, os)[name]
    assert " console=tty0 console=ttyS1,115200n8 " in rendered(method, os, console="ttyS1")[name]


def test_a_kernel_that_panics_restarts_and_gets_the_arguments_of_its_image():
    described = IMAGE.replace('"role"', '"arguments": "no_timer_check", "role"')
    made = rendered(images={"gpu": parse_image(described, "image.json")})
    assert " panic=30 no_timer_check bringup.plan=" in made["http/by-mac/02-5e-00-00-00-00.ipxe"]


def test_a_server_without_an_image_of_its_role_has_a_lease_but_no_script():
    made = rendered(images={})
    assert not [name for name in made if "by-mac" in name]
    assert "gpu001,no image of role gpu: bringup image build gpu\n" in made["nothing.csv"]
    assert ",gpu001," in made["dnsmasq.conf"]


@pytest.mark.parametrize(
    ("encrypted", "more", "said"),
    [
        (False, ENCRYPTED, "is for plain disks, the site has encrypted ones"),
        (True, {}, "is for encrypted disks, the site has plain"),
    ],
)
def test_an_image_is_not_written_onto_disks_of_the_other_kind(encrypted, more, said):
    made = rendered(images={"gpu": image(encrypted=encrypted)}, **more)
    assert not [name for name in made if "by-mac" in name]
    assert f"the image of role gpu {said}" in made["nothing.csv"]
    with pytest.raises(BootError, match=said):
        on_medium(image(encrypted=encrypted), **more)


def test_an_image_that_the_planned_drives_are_too_small_for_is_not_offered():
    said = json.loads(IMAGE)
    said["parts"]["root"]["size"] = 10**15
    large = parse_image(json.dumps(said), "image.json")
    made = rendered(images={"gpu": large})
    assert not [name for name in made if "by-mac" in name]
    assert "the image of role gpu needs 953674" in made["nothing.csv"]
    with pytest.raises(BootError, match="gpu001: the image of role gpu needs 953674"):
        on_medium(large)


def told_of_encryption(secure_boot=None):
    provisioning = Provisioning(**ENCRYPTED, secure_boot=secure_boot)
    plan = dataclasses.replace(PLAN, site=PLAN.site.model_copy(update={"provisioning": provisioning}))
    found = intents(plan, ASSETS)
    host = next(host for host in found.servers() if host["device"] == "gpu001")
    return of_writing(plan, host, found.layouts["gpu001"], image(encrypted=True), PUBLIC_KEY, {}, MEDIUM)


def test_encrypted_disks_are_written_with_volume_recovery_key_and_the_pcrs_that_the_tpm_asks_for():
    made, plain = told_of_encryption(), on_medium()
    name = "plan/02-5e-00-00-00-00"
    told = dict(line.split("=", 1) for line in made[f"{name}.env"].splitlines())
    before = dict(line.split("=", 1) for line in plain[f"{name}.env"].splitlines())
    assert int(told.pop("DRIVE_MIB").strip("'")) == int(before.pop("DRIVE_MIB").strip("'")) + 1024 + 16
    assert {key: told[key] for key in before} == before
    assert set(told) - set(before) == {"BOOT_FILE", "BOOT_SHA256", "BOOT_SIZE", "LUKS", "RECOVERY", "PCRS"}
    assert (told["LUKS"], told["PCRS"]) == (f"'{LUKS}'", "''")
    der = RECOVERY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert base64.b64decode(told["RECOVERY"].strip("'")) == der
    assert "size=1024MiB" in made[f"{name}.sfdisk"]
    served = rendered(images={"gpu": image(encrypted=True)}, **ENCRYPTED)
    assert f"LUKS='{LUKS}'\n" in served[f"http/{name}.env"]
    assert "http/by-mac/02-5e-00-00-00-00.ipxe" in served
    assert "PCRS='7'\n" in told_of_encryption(secure_boot=True)[f"{name}.env"]


def test_the_plan_of_a_writing_is_plain_assignments_that_a_shell_reads():
    text = rendered()["http/plan/02-5e-00-00-00-00.env"]
    done = subprocess.run(
        ["sh", "-c", f'{text}\necho "$DEVICE|$SERIALS|$CONSENTS|$ROOT_SIZE"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "gpu001|DISK-gpu001-0 DISK-gpu001-1||1073741824\n"


def test_a_serial_number_with_a_quote_cannot_become_a_command():
    assets = delivered({"gpu001": "02:5e:00:00:00:01"})
    assets.loc["gpu001:boot0", "serial"] = "S1';reboot;'"
    with pytest.raises(BootError, match="gpu001: SERIALS must hold no quote"):
        files(PLAN, intents(PLAN, assets), {"gpu": image()}, "")


def test_a_serial_number_with_blanks_would_be_two_and_is_refused():
    assets = delivered({"gpu001": "02:5e:00:00:00:01"})
    assets.loc["gpu001:boot0", "serial"] = "S1 S2"
    with pytest.raises(BootError, match="gpu001: serial number 'S1 S2' has blanks"):
        files(PLAN, intents(PLAN, assets), {"gpu": image()}, "")


def test_a_seed_names_its_server_and_lets_one_key_in_and_no_password():
    made = rendered()
    data = yaml.safe_load(made["http/seed/02-5e-00-00-00-00/user-data"])
    assert data["hostname"] == "gpu001"
    assert data["ssh_pwauth"] is False
    (user,) = data["users"]
    assert user["lock_passwd"] is True
    assert user["ssh_authorized_keys"] == [PUBLIC_KEY.rpartition(" ")[0]]
    network = yaml.safe_load(made["http/seed/02-5e-00-00-00-00/network-config"])
    assert network["ethernets"]["eth0"]["match"] == {"macaddress": "02:5e:00:00:00:00"}


@pytest.mark.parametrize(("method", "os"), [("image", "debian"), ("autoinstall", "ubuntu"), ("preseed", "debian")])
def test_nothing_that_is_served_holds_a_secret(method, os):
    made = rendered(method, os)
    for name, text in made.items():
        assert "PRIVATE KEY" not in text, name
        assert "$6$" not in text, name
        assert "file:/" not in text, name


def test_a_public_key_of_another_form_is_refused():
    with pytest.raises(BootError, match="expected one line of OpenSSH"):
        files(PLAN, intents(PLAN, ASSETS), {"gpu": image()}, "ssh-ed25519 AAAA'; reboot")


def test_ubuntus_answers_fit_its_schema():
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    made = rendered("autoinstall", "ubuntu", proxy="http://10.77.1.1:3142")
    texts = [text for name, text in made.items() if name.startswith("http/autoinstall/") and name.endswith("user-data")]
    assert len(texts) == len(PLAN.devices.query("kind == 'server'"))
    for text in texts:
        answers = yaml.safe_load(text)["autoinstall"]
        jsonschema.validate(answers, schema)
        assert answers["proxy"] == "http://10.77.1.1:3142"


def test_ubuntu_mirrors_the_root_and_makes_both_esps_bootable():
    text = rendered("autoinstall", "ubuntu")["http/autoinstall/02-5e-00-00-00-00/user-data"]
    storage = yaml.safe_load(text)["autoinstall"]["storage"]["config"]
    raid = next(action for action in storage if action["type"] == "raid")
    assert (raid["raidlevel"], raid["devices"]) == (1, ["boot0-3", "boot1-3"])
    esps = [action for action in storage if action.get("flag") == "boot"]
    assert [esp["grub_device"] for esp in esps] == [True, True]
    known = {action["id"] for action in storage}
    for action in storage:
        assert {action.get("device"), action.get("volume"), *action.get("devices", ())} - {None} <= known


def test_ubuntu_finds_its_drives_as_udev_names_them_and_makes_no_swap_file():
    text = rendered("autoinstall", "ubuntu")["http/autoinstall/02-5e-00-00-00-00/user-data"]
    storage = yaml.safe_load(text)["autoinstall"]["storage"]
    assert storage["swap"] == {"size": 0}
    first, second = (action["match"]["serial"] for action in storage["config"] if action["type"] == "disk")
    for seen in ("SATA_SSD_7_DISK-gpu001-0", "NVME_DRIVE_3_84TB_DISK-gpu001-0_1", "DISK-gpu001-0"):
        assert fnmatch.fnmatchcase(seen, first)
        assert not fnmatch.fnmatchcase(seen, second)


def test_a_serial_number_with_a_wildcard_matches_itself_only():
    layout = dataclasses.replace(intents(PLAN, ASSETS).layouts["gpu001"], serials=("S[1]*",))
    (pattern,) = (action["match"]["serial"] for action in curtin(layout) if action["type"] == "disk")
    assert fnmatch.fnmatchcase("MODEL_S[1]*_1", pattern)
    assert not fnmatch.fnmatchcase("MODEL_S1x_1", pattern)


def test_debians_answers_are_one_question_a_line_and_find_drives_by_serial_number():
    text = rendered("preseed")["http/preseed/02-5e-00-00-00-00.cfg"]
    for line in text.splitlines():
        owner, question, kind = line.split(" ")[:3]
        assert owner == "d-i"
        assert "/" in question
        assert kind in ("string", "boolean", "select", "multiselect", "password", "note")
    assert "for serial in DISK-gpu001-0 DISK-gpu001-1;" in text


@pytest.mark.parametrize("key", ["partman/early_command string", "preseed/late_command string"])
def test_commands_of_debians_answers_are_valid_shell(key):
    text = rendered("preseed")["http/preseed/02-5e-00-00-00-00.cfg"]
    command = next(line.partition(key)[2] for line in text.splitlines() if key in line)
    assert command
    subprocess.run(["sh", "-n", "-c", command], check=True)


PRESEED = "http/preseed/02-5e-00-00-00-00.cfg"


def answers_of(**given):
    return dict(re.findall(r"^d-i (\S+) \S+ ?(.*)$", rendered("preseed", **given)[PRESEED], re.MULTILINE))


def test_debians_installer_fetches_its_packages_through_the_sites_proxy():
    assert answers_of()["mirror/http/proxy"] == ""
    assert answers_of(proxy="http://10.77.1.1:3142")["mirror/http/proxy"] == "http://10.77.1.1:3142"


def test_what_debians_installer_asks_before_it_has_its_answers_is_answered_by_the_kernels_arguments():
    script = rendered("preseed")["http/by-mac/02-5e-00-00-00-00.ipxe"]
    assert not PLAN.site.addressing.dns
    for argument in ("hostname=gpu001", "netcfg/no_default_route=true", "netcfg/get_nameservers=", "priority=critical"):
        assert f" {argument} " in script


def ran(command, folder, programs):
    """Run a command of the answers with these programs in its way, and paths of the installer below a folder."""
    (folder / "bin").mkdir()
    for name, text in programs.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / "bin" / name).chmod(0o755)
    for path in ("/target", "/mnt", "/proc/mounts"):
        command = re.sub(rf"(?<![\w.]){path}(?=[/ ;])(?! *\[)", f"{folder}{path}", command)
    env = {"PATH": f"{folder}/bin:/usr/bin:/bin"}
    return subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, check=False)


FINDS = {
    "list-devices": "echo /dev/sda /dev/nvme0n1 /dev/sdb | tr ' ' '\\n'",
    "debconf-set": 'echo "$1=$2"',
}


def test_debian_takes_the_drives_with_the_planned_serial_numbers_whatever_their_order(tmp_path):
    udev = 'case $5 in *sda) n=1;; *nvme0n1) n=0;; *) n=00;; esac; echo "ID_SERIAL_SHORT=DISK-gpu001-$n"'
    done = ran(answers_of()["partman/early_command"], tmp_path, {**FINDS, "udevadm": udev})
    assert done.stdout.splitlines() == [
        "partman-auto/disk=/dev/nvme0n1 /dev/sda",
        "grub-installer/bootdev=/dev/nvme0n1 /dev/sda",
        "partman-auto-raid/recipe=1 2 0 ext4 / /dev/nvme0n1p3#/dev/sda3 .",
    ]
    assert done.returncode == 0


def test_debian_is_not_installed_without_one_of_its_drives(tmp_path):
    udev = 'case $5 in *sda) echo "ID_SERIAL_SHORT=DISK-gpu001-0";; esac'
    done = ran(answers_of()["partman/early_command"], tmp_path, {**FINDS, "udevadm": udev})
    assert (done.returncode, done.stdout) == (1, "")


def test_debians_second_esp_is_filled_and_either_may_be_missing(tmp_path):
    for name in ("target/boot/efi/EFI/BOOT", "target/etc", "target/root/.ssh", "mnt", "proc"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "target/boot/efi/EFI/BOOT/BOOTX64.EFI").write_text("loader")
    (tmp_path / "proc/mounts").write_text(f"/dev/nvme0n1p2 {tmp_path}/target/boot/efi vfat rw 0 0\n")
    (tmp_path / "target/etc/fstab").write_text(
        "UUID=1 / ext4 errors=remount-ro 0 1\nUUID=2-3  /boot/efi       vfat    umask=0077      0       1\n"
    )
    programs = {
        "debconf-get": "echo /dev/nvme0n1 /dev/sda",
        "mount": f'echo "$@" >>{tmp_path}/mounted',
        "umount": "",
        "in-target": "",
    }
    done = ran(answers_of()["preseed/late_command"], tmp_path, programs)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mounted").read_text() == f"-t vfat /dev/sda2 {tmp_path}/mnt\n"
    assert (tmp_path / "mnt/EFI/BOOT/BOOTX64.EFI").read_text() == "loader"
    root, esp = (tmp_path / "target/etc/fstab").read_text().splitlines()
    assert root.split()[3] == "errors=remount-ro"
    assert esp.split()[3] == "nofail,umask=0077"
    assert (tmp_path / "target/root/.ssh/authorized_keys").read_text().startswith("ssh-ed25519 ")


def test_an_installation_of_debian_that_fails_at_its_end_is_no_success(tmp_path):
    (tmp_path / "target/root/.ssh").mkdir(parents=True)
    done = ran(answers_of()["preseed/late_command"], tmp_path, {"in-target": "exit 3"})
    assert done.returncode == 3


CONSOLE = """[  OK  ] Finished cloud-final\r
-----BEGIN SSH HOST KEY FINGERPRINTS-----\r
256 SHA256:abc root@gpu001 (ED25519)\r
-----END SSH HOST KEY FINGERPRINTS-----\r
-----BEGIN SSH HOST KEY KEYS-----\r
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOLD root@gpu001\r
-----END SSH HOST KEY KEYS-----\r
"""


def test_host_keys_are_read_from_the_console_of_the_last_first_boot():
    again = CONSOLE.replace("AAAAIOLD", "AAAAINEW")
    assert console_keys(CONSOLE + again) == ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINEW",)


def test_a_console_without_keys_gives_none():
    assert console_keys("Debian GNU/Linux 12 gpu001 ttyS0\nssh-ed25519 AAAA\n") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not the description of an image"),
        ("[]", "not the description of an image"),
        (IMAGE.replace('"esp"', '"other"'), "parts are missing: esp"),
        (IMAGE.replace("0" * 64, "0" * 63), "part root has no valid file, sha256 and size"),
        (IMAGE.replace('"role"', f'"luks": "{LUKS}", "role"'), "parts are missing: boot"),
        (IMAGE.replace('"esp"', '"boot"').replace('"role"', '"luks": "x", "role"'), "parts are missing: esp"),
        (json.dumps(ENCRYPTED_IMAGE | {"luks": "x; reboot"}), "is no UUID of a LUKS2 volume"),
        (IMAGE.replace("root.img.zst", "../root"), "part root has no valid file, sha256 and size"),
        (IMAGE.replace('"role"', '"arguments": "a; reboot", "role"'), "are no arguments of a kernel"),
        (IMAGE.replace('"version": "0123456789ab"', '"version": "a/b"'), "cannot name a folder"),
    ],
)
def test_what_is_no_image_is_refused(text, said):
    with pytest.raises(ImageError, match=said):
        parse_image(text, "images/gpu/image.json")


def on_medium(of=None, assets=ASSETS, consents=None, **more):
    plan = dataclasses.replace(PLAN, site=PLAN.site.model_copy(update={"provisioning": Provisioning(**more)}))
    return medium(plan, intents(plan, assets), of or image(), PUBLIC_KEY, consents)


def test_a_medium_has_plan_and_seed_of_each_server_of_its_role_and_names_no_address_of_a_boot_server():
    made, served = on_medium(), rendered()
    name = "02-5e-00-00-00-00"
    gpus = PLAN.devices.loc[PLAN.devices["role"] == "gpu", "name"]
    assert len([path for path in made if path.endswith(".env")]) == len(gpus)
    for file in (f"seed/{name}/user-data", f"seed/{name}/network-config", f"plan/{name}.sfdisk"):
        assert made[file] == served[f"http/{file}"]
    text = made[f"plan/{name}.env"]
    assert "http" not in text
    assert f"LAYOUT='/medium/plan/{name}.sfdisk'\nSEED='/medium/seed/{name}'\nREPORT=''\n" in text
    assert "IMAGES='/medium/images/gpu/0123456789ab'\n" in text


def test_a_consent_goes_to_its_servers_plan_on_the_medium():
    made = on_medium(consents={"gpu001": {"DISK-gpu001-0": "ab" * 32}})
    assert f"CONSENTS='DISK-gpu001-0={'ab' * 32}'\n" in made["plan/02-5e-00-00-00-00.env"]
    assert "CONSENTS=''\n" in made["plan/02-5e-00-00-00-01.env"]


def test_a_medium_for_nobody_is_refused_with_what_each_server_lacks():
    with pytest.raises(BootError, match="no server of role gpu(?s:.)*gpu001: MAC of eth0 is not known"):
        on_medium(assets=delivered({}))
