"""Answers of the distributions' own installers: Ubuntu autoinstall and Debian preseed, one file a server.

Both lay the boot drives out as disks.py says. Drives are named by serial number, never by their order.
"""

import glob
import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from capacity.model import Plan
from capacity.services.boot.disks import Layout
from capacity.services.boot.seeds import authorized, network, user_data

MIB = 2**20
PART = "part() { case $1 in *[0-9]) echo ${1}p$2;; *) echo $1$2;; esac; }"
"""Function of a shell: the partition of a drive."""
OTHER_ESPS = (
    f"{PART}; for d in $(debconf-get partman-auto/disk); do p=$(part $d 2); "
    'grep -q "^$p /target/boot/efi " /proc/mounts && continue; '
    "mount -t vfat $p /mnt; cp -r /target/boot/efi/. /mnt/; umount /mnt; done"
)
"""Debian's installer fills the ESP that is mounted at /boot/efi only."""
ESP_MAY_BE_MISSING = "sed -i '/[[:space:]]\\/boot\\/efi[[:space:]]/s/umask=/nofail,umask=/' /target/etc/fstab"
"""Without it a server whose drive with that ESP is gone ends in the emergency shell (systemd.mount(5))."""
MIRROR, MIRROR_FOLDER = "deb.debian.org", "/debian"


def autoinstall(plan: Plan, host: Mapping[str, str], found: Layout, public_key: str) -> str:
    """user-data of Ubuntu's installer: autoinstall version 1, storage as curtin actions."""
    answers: dict[str, Any] = {
        "version": 1,
        "locale": "C.UTF-8",
        "keyboard": {"layout": "us"},
        "timezone": "Etc/UTC",
        "network": network(plan, host),
        "ssh": {"install-server": True, "allow-pw": False},
        "storage": {"swap": {"size": 0}, "config": curtin(found)},  # else a swap file: no kubelet starts with one
        "user-data": user_data(plan, host["device"], public_key),
        "shutdown": "reboot",
    }
    if plan.site.provisioning.proxy:
        answers["proxy"] = plan.site.provisioning.proxy
    text = yaml.safe_dump({"autoinstall": answers}, sort_keys=False, width=1000)
    return f"#cloud-config\n{text}"


def curtin(found: Layout) -> list[dict[str, Any]]:
    """curtin's storage actions: both boot drives alike, an ESP on each, the root file system on a mirror.

    Ubuntu's installer compares `serial` by fnmatch with udev's ID_SERIAL: MODEL_SERIAL of a SATA drive, with the namespace
    behind it of an NVMe drive. That of a SAS drive is its WWN, and no serial number matches it.
    """
    actions: list[dict[str, Any]] = []
    uefi = found.firmware == "uefi"
    members = []
    for n, serial in enumerate(found.serials):
        disk = f"boot{n}"
        actions.append(
            {
                "id": disk,
                "type": "disk",
                "match": {"serial": f"*{glob.escape(serial)}*"},
                "ptable": "gpt",
                "wipe": "superblock-recursive",
                "preserve": False,
                "grub_device": not uefi,
            }
        )
        for part in found.partitions:
            named = f"{disk}-{part.number}"
            action: dict[str, Any] = {
                "id": named,
                "type": "partition",
                "device": disk,
                "number": part.number,
                "size": part.size_mib * MIB if part.size_mib else -1,
                "wipe": "superblock",
                "preserve": False,
            }
            if part.number == 1:
                action["flag"] = "bios_grub"
            elif part.number == 2:
                action |= {"flag": "boot", "grub_device": uefi}
            else:
                members.append(named)
            actions.append(action)
        actions.append({"id": f"{disk}-esp", "type": "format", "volume": f"{disk}-2", "fstype": "fat32"})
    volume = members[0]
    if found.mirrored:
        volume = "md0"
        actions.append({"id": volume, "type": "raid", "name": "md0", "raidlevel": 1, "devices": members})
    actions += [
        {"id": "root-format", "type": "format", "volume": volume, "fstype": "ext4"},
        {"id": "root-mount", "type": "mount", "device": "root-format", "path": "/"},
    ]
    if uefi:
        actions.append({"id": "esp-mount", "type": "mount", "device": "boot0-esp", "path": "/boot/efi"})
    return actions


def preseed(plan: Plan, host: Mapping[str, str], found: Layout, public_key: str) -> str:
    """Answers of Debian's installer (installation guide, appendix B). The boot drives are found by serial number."""
    find = (
        f"paths=; for serial in {shlex.join(found.serials)}; do at=; for d in $(list-devices disk); do "
        'if udevadm info -q property -n "$d" | grep -qxF "ID_SERIAL_SHORT=$serial"; then at=$d; fi; done; '
        '[ -n "$at" ] || exit 1; paths="$paths $at"; done; debconf-set partman-auto/disk "${paths# }"; '
        'debconf-set grub-installer/bootdev "${paths# }"'
    )
    if found.mirrored:
        find += (
            f'; set -- $paths; {PART}; debconf-set partman-auto-raid/recipe "1 2 0 ext4 / $(part $1 3)#$(part $2 3) ."'
        )
    recipe = [
        (
            f"bringup :: {found.partitions[0].size_mib} 10 {found.partitions[0].size_mib} free $iflabel{{ gpt }} "
            "$reusemethod{ } method{ biosgrub } ."
        ),
        (
            f"{found.partitions[1].size_mib} 20 {found.partitions[1].size_mib} fat32 $iflabel{{ gpt }} $reusemethod{{ }} "
            "method{ efi } format{ } ."
        ),
        "4096 30 -1 raid $iflabel{ gpt } method{ raid } ."
        if found.mirrored
        else "4096 30 -1 ext4 $iflabel{ gpt } method{ format } format{ } use_filesystem{ } filesystem{ ext4 } mountpoint{ / } .",
    ]
    login = plan.site.credentials_given.ssh.user if plan.site.credentials_given else "root"
    home = "/root" if login == "root" else f"/home/{login}"
    late = [f"in-target install -d -m 700 {home}/.ssh"]
    if login != "root":
        late.insert(0, f"in-target useradd --create-home --shell /bin/bash {login}")
        late.append(f"echo '{login} ALL=(ALL) NOPASSWD:ALL' > /target/etc/sudoers.d/{login}")
    if public_key:
        late.append(f"echo '{authorized(public_key)}' > /target{home}/.ssh/authorized_keys")
    if login != "root":
        late.append(f"in-target chown -R {login}: {home}/.ssh")
    if found.mirrored and found.firmware == "uefi":
        late += [OTHER_ESPS, ESP_MAY_BE_MISSING]
    answers = {
        "debian-installer/language string": "en",
        "debian-installer/country string": "US",
        "debian-installer/locale string": "C.UTF-8",
        "keyboard-configuration/xkb-keymap select": "us",
        "netcfg/get_hostname string": host["device"],
        "netcfg/get_domain string": "",
        "mirror/country string": "manual",
        "mirror/http/hostname string": MIRROR,
        "mirror/http/directory string": MIRROR_FOLDER,
        "mirror/http/proxy string": plan.site.provisioning.proxy or "",
        "clock-setup/utc boolean": "true",
        "time/zone string": "Etc/UTC",
        "passwd/root-login boolean": "true",
        "passwd/root-password-crypted password": "!",
        "passwd/make-user boolean": "false",
        "partman/early_command string": find,
        "partman-auto/method string": "raid" if found.mirrored else "regular",
        "partman-partitioning/default_label string": "gpt",
        "partman-auto/expert_recipe string": " ".join(recipe),
        "partman-efi/non_efi_system boolean": "true",
        "partman-partitioning/confirm_write_new_label boolean": "true",
        "partman/choose_partition select": "finish",
        "partman-md/confirm boolean": "true",
        "partman-md/confirm_nooverwrite boolean": "true",
        "partman/confirm boolean": "true",
        "partman/confirm_nooverwrite boolean": "true",
        "partman-md/device_remove_md boolean": "true",
        "partman-lvm/device_remove_lvm boolean": "true",
        "partman-basicfilesystems/no_swap boolean": "false",
        "pkgsel/run_tasksel boolean": "false",
        "pkgsel/update-policy select": "none",
        "pkgsel/include string": "openssh-server mdadm python3 sudo",
        "grub-installer/only_debian boolean": "true",
        "grub-installer/force-efi-extra-removable boolean": "true",
        "finish-install/reboot_in_progress note": "",
        "preseed/late_command string": "set -e; " + "; ".join(late),
    }
    if plan.site.addressing.ntp:
        answers["clock-setup/ntp-server string"] = str(plan.site.addressing.ntp[0])
    return "".join(f"d-i {key} {value}".rstrip() + "\n" for key, value in answers.items())
