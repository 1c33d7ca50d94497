"""What a machine is built of, as its firmware and its kernel tell: runs there, prints one JSON object. A request
{"ethtool": [names]} asks for these interfaces alone: a switch that runs Linux has no more that is of interest.

Standard library, dmidecode, nvme-cli, efibootmgr and lsblk. It needs root, by sudo where the login has none. Nothing is changed: an
EFI system partition that is not mounted is mounted read-only in a mount namespace that ends with the command.

    {"container": kind of container that the node is, or "": a container shows the hardware of its host, so nothing else is read,
     "memory": [{"locator", "bank", "size_mib": 0 for an empty slot, "speed_mts", "configured_mts", "serial", "part"}],
     "controllers": [{"name": "mc0", "corrected", "uncorrected", "modules": [{"location": "channel 0 slot 0", "size_mib"}]}],
     "pcie": {"0000:1b:00.0": {"class": "0x030200", "path": [bridge, …, device], "numa": node or -1,
                               "width", "max_width", "speed_gts", "max_speed_gts"}} of GPUs, network adapters and drives,
     "adapters": {"mlx5_0": {"pcie", "guid"}} of RDMA devices, "interfaces": {"eth1": {"pcie", "mac"}},
     "drives": [{"name": "nvme0", "pcie", "model", "serial", "firmware", "size_b",
                 "critical_warning", "percent_used", "media_errors"}],
     "arrays": [{"name": "md0", "level", "state", "disks": planned, "degraded": missing,
                 "members": [{"partition", "disk", "state"}]}],
     "boot": {"firmware": "uefi" or "bios", "partitions": [{"name", "disk", "uuid", "loaders": {"EFI/BOOT/BOOTX64.EFI": SHA-256}}],
              "entries": [{"id": "0001", "partition": uuid, "active": true}]},
     "roce": {"error", "rails": {"rail0": {"pci", "netdev", "rdma", "values": {setting: JSON}, "unread": {setting: why}}}}, or {}
             where the role that sets RoCE adapters has not run,
     "links": {RDMA device: what `mlxlink --json -c -m` prints of its port}; {} without RDMA devices,
     "ethtool": {interface on PCIe, or asked for: {"link", "fec", "module", "statistics": what ethtool prints of it}},
    "errors": {part: why it could not be read}}

Sizes of memory are MiB, speeds of memory MT/s, speeds of links GT/s.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

COMMAND_BUDGET_S = 20
SYS = Path("/sys")
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
CLASSES = ("0x02", "0x0108", "0x03", "0x12")
"""PCI classes (PCI Code and ID Assignment Specification): network, NVMe, display, processing accelerator."""
ESP = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
"""Partition type of an EFI system partition (UEFI specification, Table 5.7)."""
LOADERS = 64
"""Most boot programs of one partition that are read."""
ROCE = Path("/usr/local/lib/bringup/roce_host.py")
"""What sets the adapters of a RoCE fabric and reads them back (role roce)."""
SIZE_MIB = {"kb": 1 / 1024, "mb": 1, "gb": 1024, "tb": 1024 * 1024}
"""dmidecode's units; each is a power of two."""


def output(*argv: str, root: bool = False) -> str:
    """stdout of a command. RuntimeError with what it said where it fails, is not installed or outlives its budget."""
    command = ["sudo", "-n", *argv] if root and os.geteuid() != 0 else list(argv)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_BUDGET_S, check=False)
    except FileNotFoundError:
        raise RuntimeError(f"{argv[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{argv[0]}: no end within {COMMAND_BUDGET_S:g} s") from None
    if done.returncode:
        raise RuntimeError(f"{argv[0]}: exit status {done.returncode}: {done.stderr.strip()[-200:]}")
    return done.stdout


def text_of(path: Path) -> str:
    """A file's text without blanks around it; '' where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def whole(said: str) -> int:
    """The first whole number in a text; 0 where there is none."""
    found = re.search(r"\d+", said)
    return int(found[0]) if found else 0


def memory() -> list[dict[str, Any]]:
    return modules(output("dmidecode", "-t", "memory", root=True))


def modules(said: str) -> list[dict[str, Any]]:
    """The slots in what `dmidecode -t memory` prints (SMBIOS type 17, DSP0134), empty ones too."""
    found = []
    for block in said.split("\n\n"):
        lines = block.strip().splitlines()
        if len(lines) < 2 or lines[1].strip() != "Memory Device":
            continue
        pairs = (line.strip().partition(": ") for line in lines[2:])
        told = {key: value for key, _, value in pairs}
        amount, _, unit = told.get("Size", "").partition(" ")
        found.append(
            {
                "locator": told.get("Locator", ""),
                "bank": told.get("Bank Locator", ""),
                "size_mib": int(int(amount) * SIZE_MIB[unit.lower()])
                if amount.isdigit() and unit.lower() in SIZE_MIB
                else 0,
                "speed_mts": whole(told.get("Speed", "")),
                # Before dmidecode 3.3 it was called a clock.
                "configured_mts": whole(
                    told.get("Configured Memory Speed") or told.get("Configured Clock Speed") or ""
                ),
                "serial": told.get("Serial Number", ""),
                "part": told.get("Part Number", ""),
            }
        )
    return found


def controllers() -> list[dict[str, Any]]:
    """Memory controllers of the kernel's EDAC drivers; counts are since the driver was loaded."""
    return [
        {
            "name": place.name,
            "corrected": whole(text_of(place / "ce_count")),
            "uncorrected": whole(text_of(place / "ue_count")),
            "modules": [
                {"location": text_of(one / "dimm_location"), "size_mib": whole(text_of(one / "size"))}
                for one in sorted(place.glob("dimm[0-9]*")) + sorted(place.glob("rank[0-9]*"))
            ],
        }
        for place in sorted((SYS / "devices/system/edac/mc").glob("mc[0-9]*"))
    ]


def pcie() -> dict[str, dict[str, Any]]:
    found = {}
    for link in sorted((SYS / "bus/pci/devices").glob("*")):
        kind = text_of(link / "class")
        if not kind.startswith(CLASSES):
            continue
        found[link.name] = {
            "class": kind,
            "path": [part for part in link.resolve().parts if ADDRESS.fullmatch(part)],
            "numa": int(text_of(link / "numa_node") or -1),
            "width": whole(text_of(link / "current_link_width")),
            "max_width": whole(text_of(link / "max_link_width")),
            "speed_gts": speed_gts(text_of(link / "current_link_speed")),
            "max_speed_gts": speed_gts(text_of(link / "max_link_speed")),
        }
    return found


def speed_gts(said: str) -> float:
    """GT/s in the kernel's '32.0 GT/s PCIe'; 0 for 'Unknown'."""
    found = re.match(r"(\d+(?:\.\d+)?) GT/s", said)
    return float(found[1]) if found else 0.0


def address_of(device: Path) -> str:
    """PCI address of the function that a kernel device belongs to; '' for one that is not on PCIe."""
    parts = [part for part in (device / "device").resolve().parts if ADDRESS.fullmatch(part)]
    return parts[-1] if (device / "device").exists() and parts else ""


def adapters() -> dict[str, dict[str, str]]:
    return {
        path.name: {"pcie": address_of(path), "guid": text_of(path / "node_guid").replace(":", "")}
        for path in sorted((SYS / "class/infiniband").glob("*"))
    }


def interfaces() -> dict[str, dict[str, str]]:
    return {
        path.name: {"pcie": address_of(path), "mac": text_of(path / "address")}
        for path in sorted((SYS / "class/net").glob("*"))
        if address_of(path)
    }


def drives() -> list[dict[str, Any]]:
    found = []
    for place in sorted((SYS / "class/nvme").glob("nvme[0-9]*")):
        if text_of(place / "transport") not in ("pcie", ""):
            continue  # NVMe over fabrics is no drive of this machine
        health = json.loads(output("nvme", "smart-log", f"/dev/{place.name}", "--output-format=json", root=True))
        found.append(
            {
                "name": place.name,
                "pcie": address_of(place),
                "model": text_of(place / "model"),
                "serial": text_of(place / "serial"),
                "firmware": text_of(place / "firmware_rev"),
                # A namespace below its controller is nvme0n1, or nvme0c0n1 where the kernel joins paths; sectors of 512 B.
                "size_b": sum(whole(text_of(one / "size")) * 512 for one in place.glob("nvme*n[0-9]*")),
                "critical_warning": number(health["critical_warning"]),
                "percent_used": number(health.get("percent_used", health.get("percentage_used", 0))),
                "media_errors": number(health.get("media_errors", 0)),
            }
        )
    return found


def number(said: Any) -> int:
    """A value of nvme-cli's JSON: a number; a text for counters of 128 bits (2.3, Debian 12); or an object for the byte of
    critical warnings.
    """
    return int(said["value"] if isinstance(said, dict) else said)


def disk_of(partition: str) -> str:
    """The disk that a partition lies on; a whole disk is its own."""
    place = (SYS / "class/block" / partition).resolve()
    return place.parent.name if (place / "partition").exists() else partition


def arrays() -> list[dict[str, Any]]:
    found = []
    for place in sorted((SYS / "class/block").glob("md*")):
        md = place / "md"
        if text_of(md / "level") in ("", "container"):  # Intel's and DDF's containers hold the arrays
            continue
        members = [(one.name.removeprefix("dev-"), text_of(one / "state")) for one in sorted(md.glob("dev-*"))]
        found.append(
            {
                "name": place.name,
                "level": text_of(md / "level"),
                "state": text_of(md / "array_state"),
                "disks": whole(text_of(md / "raid_disks")),
                "degraded": whole(text_of(md / "degraded")),
                "members": [{"partition": name, "disk": disk_of(name), "state": state} for name, state in members],
            }
        )
    return found


def boot() -> dict[str, Any]:
    if not (SYS / "firmware/efi").exists():
        return {"firmware": "bios", "partitions": [], "entries": []}
    listed = json.loads(output("lsblk", "--json", "--list", "--output", "NAME,PARTTYPE,PARTUUID,MOUNTPOINT"))
    partitions = [
        {
            "name": row["name"],
            "disk": disk_of(row["name"]),
            "uuid": row["partuuid"] or "",
            "loaders": loaders(row["name"], row["mountpoint"] or ""),
        }
        for row in listed["blockdevices"]
        if (row["parttype"] or "").lower() == ESP
    ]
    return {"firmware": "uefi", "partitions": partitions, "entries": list(entries(output("efibootmgr", "-v")))}


SUMS = 'cd "$1" && find EFI -iname "*.efi" -type f -exec sha256sum {} +'


def loaders(partition: str, mounted_on: str) -> dict[str, str]:
    """SHA-256 of each boot program on an EFI system partition, by its path there."""
    if mounted_on:
        said = output("sh", "-c", SUMS, "sh", mounted_on, root=True)
    else:
        script = f'mount -o ro "$2" "$1" && {SUMS}'
        said = output("unshare", "--mount", "sh", "-c", script, "sh", "/mnt", f"/dev/{partition}", root=True)
    rows = (line.split("  ", 1) for line in said.splitlines()[:LOADERS])
    return {path: digest for digest, path in rows}


def entries(said: str) -> Iterator[dict[str, Any]]:
    """Boot entries that start from a partition, in what `efibootmgr -v` prints."""
    for line in said.splitlines():
        found = re.match(r"Boot([0-9A-F]{4})(\*?) .*HD\(\d+,GPT,([0-9a-fA-F-]{36})", line)
        if found:
            yield {"id": found[1], "active": bool(found[2]), "partition": found[3].lower()}


def roce() -> dict[str, Any]:
    """Settings of the RoCE adapters, each as JSON: their shapes differ."""
    if not ROCE.exists():
        return {}
    said = json.loads(output("python3", str(ROCE), "show", root=True))
    rails = {
        name: {
            **{key: rail[key] for key in ("pci", "netdev", "rdma", "unread")},
            "values": {key: json.dumps(value, sort_keys=True) for key, value in rail["values"].items()},
        }
        for name, rail in said["rails"].items()
    }
    return {"error": said["error"], "rails": rails}


def links() -> dict[str, str]:
    """The ports of the RDMA devices in mlxlink's words, or why it says nothing."""
    devices = sorted(path.name for path in (SYS / "class/infiniband").glob("*"))

    def said(name: str) -> str:
        try:
            return output("mlxlink", "-d", name, "--json", "-c", "-m", root=True)
        except RuntimeError as error:
            return str(error)

    return {name: said(name) for name in devices}


ETHTOOL = {"link": [], "fec": ["-I", "--show-fec"], "module": ["-m"], "statistics": ["-S"]}
STATISTICS = re.compile(r"\b(?:rx_bits|rx_corrected_bits|rx_pcs_symbol_err)_phy:")
"""What of a driver's statistics is kept: one of a hundred rows or more."""


def ethtool(names: list[str]) -> dict[str, dict[str, str]]:
    """ethtool's own words of interfaces; a question that a driver does not answer gives ''."""

    def said(name: str, options: list[str]) -> str:
        try:
            return output("ethtool", *options, name, root=True)
        except RuntimeError:
            return ""

    found = {name: {what: said(name, options) for what, options in ETHTOOL.items()} for name in names}
    for texts in found.values():
        texts["statistics"] = "".join(filter(STATISTICS.search, texts["statistics"].splitlines(keepends=True)))
    return found


PARTS: dict[str, Callable[[], Any]] = {
    "memory": memory,
    "controllers": controllers,
    "pcie": pcie,
    "adapters": adapters,
    "interfaces": interfaces,
    "drives": drives,
    "arrays": arrays,
    "boot": boot,
    "roce": roce,
    "links": links,
    "ethtool": lambda: ethtool(list(interfaces())),
}


def container() -> str:
    """What systemd-detect-virt calls the container that this is; '' on a machine of its own, a virtual one too."""
    done = subprocess.run(
        ["systemd-detect-virt", "--container"], capture_output=True, text=True, timeout=COMMAND_BUDGET_S, check=False
    )
    return done.stdout.strip().removeprefix("none")


def main() -> None:
    found: dict[str, Any] = {"container": container(), "errors": {}}
    asked = json.loads(sys.argv[1]).get("ethtool") if len(sys.argv) > 1 else None
    parts = PARTS if asked is None else {"ethtool": lambda: ethtool(asked)}
    for name, part in parts.items() if not found["container"] else ():
        try:
            found[name] = part()
        except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
            found["errors"][name] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


if __name__ == "__main__":
    main()
