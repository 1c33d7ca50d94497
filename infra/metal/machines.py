"""One server as a QEMU virtual machine: which firmware, which drives, what it starts from.

    machine = Machine("gpu001", "52:54:00:78:00:01", "tap1", uefi=False, drives=(Drive("SIM-DR-1001A", path), …), folder=folder)
    command(machine, "network")       the command line
    Power(machine).on("network")      starts it; it ends when the guest reboots or switches off
    Power(machine).on("cd", iso)      starts it from an ISO

A reboot ends the machine, as a BMC's boot override `Once` does: what it starts from next is said anew.
"""

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

From = Literal["network", "disk", "cd"]
MEMORY_MIB = 1152
"""The kernel keeps some of it: Slurm plans with 95 % of the catalogue's 1,024 MiB."""
CPUS = 2
DRIVE_GIB = 3
MAKER, PRODUCT = "SIMULATED (bringup lab)", "virtual machine"
"""What the firmware says of itself: evidence that comes from it is of a simulated server."""
ROOT_PORTS_AT, SWITCHES_AT = 0x10, 0x18
"""PCI devices of the root complex from which on drives and PCIe switches have their root ports."""
CARDS_PER_SWITCH = 2
WITHOUT_LINK = "pcie.0"
"""Where a device is a part of the root complex: it has no PCIe link."""
UNLINKED_CARDS_AT = 0x08
"""PCI devices of the root complex from which on cards without a link are."""
CARD = "virtio-serial-pci,class=0x0380"
"""Stands in for a GPU card, which QEMU does not model: an unused virtio serial device that reports the class of a display."""
OVMF_CODE = Path("/usr/share/OVMF/OVMF_CODE_4M.fd")
OVMF_VARS = Path("/usr/share/OVMF/OVMF_VARS_4M.fd")
SECURE_CODE, SECURE_VARS = OVMF_CODE.with_name("OVMF_CODE_4M.secboot.fd"), OVMF_VARS.with_name("OVMF_VARS_4M.ms.fd")
"""UEFI with Secure Boot on: keys of Microsoft, which signed the shim of the distribution."""
TPM_READY_S = 10.0
"""For swtpm to make its socket."""


@dataclass(frozen=True)
class Drive:
    """An NVMe drive: serial number, and the file that it is. `warning`: the critical warning of its SMART log. `linked`: it has a
    PCIe link.
    """

    serial: str
    file: Path
    warning: int = 0
    linked: bool = True

    def ensure(self) -> "Drive":
        """Make it, empty, where it does not exist."""
        if not self.file.exists():
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("wb") as made:
                made.truncate(DRIVE_GIB * 2**30)
        return self


@dataclass(frozen=True)
class Machine:
    """A server: `tap` is its port on the provisioning network, `folder` keeps firmware variables and consoles. What it writes to
    its drives is gone with its power where `kept` is False. `serial` and `uuid` are what its firmware says of it (SMBIOS type 1).
    `inband`: MAC and tap of its other ports, in their order. `cards`: where each GPU card is: slot_of(n), or WITHOUT_LINK.
    `still`: its power comes on and its processors do not start. `tpm`: it has a TPM 2.0, whose state is in `folder`. `secure`: it
    starts by UEFI with Secure Boot.
    """

    name: str
    mac: str
    tap: str
    uefi: bool
    drives: tuple[Drive, ...]
    folder: Path
    kept: bool = True
    serial: str = ""
    uuid: str = ""
    inband: tuple[tuple[str, str], ...] = ()
    cards: tuple[str, ...] = ()
    still: bool = False
    tpm: bool = False
    secure: bool = False

    def console(self, start: From) -> Path:
        """The file of its serial console when started from there."""
        return self.folder / f"{self.name}-{start}.log"

    @property
    def log(self) -> Path:
        """What QEMU says of it."""
        return self.folder / f"{self.name}.qemu"

    @property
    def tpm_folder(self) -> Path:
        """What its TPM keeps; another machine's opens nothing of it."""
        return self.folder / f"{self.name}.tpm"

    @property
    def firmware(self) -> tuple[Path, Path]:
        """Code and variables of its UEFI as delivered."""
        return (SECURE_CODE, SECURE_VARS) if self.secure else (OVMF_CODE, OVMF_VARS)


def slot_of(card: int) -> str:
    """The slot of card n, from 0: two of them are behind each PCIe switch."""
    return f"slot{card}"


def _board(machine: Machine) -> list[str]:
    """PCIe switches and the cards in their slots. Bus numbers follow from the order of the root ports, so an empty slot keeps its
    own, and cards keep their addresses.
    """
    argv = []
    for switch in range(-(-len(machine.cards) // CARDS_PER_SWITCH)):
        root = f"pcie-root-port,id=root{switch},bus=pcie.0,addr={SWITCHES_AT + switch:#x},chassis={100 + switch}"
        argv += ["-device", root, "-device", f"x3130-upstream,id=switch{switch},bus=root{switch}"]
        for place in range(CARDS_PER_SWITCH):
            card = switch * CARDS_PER_SWITCH + place
            port = f"xio3130-downstream,id={slot_of(card)},bus=switch{switch},chassis={110 + card},slot={place}"
            argv += ["-device", f"{port},addr={place:#x}"]
    for number, where in enumerate(machine.cards):
        at = f",addr={UNLINKED_CARDS_AT + number:#x}" if where == WITHOUT_LINK else ""
        argv += ["-device", f"{CARD},id=card{number},bus={where}{at}"]
    return argv


def command(machine: Machine, start: From, cd: Path | None = None) -> list[str]:
    """The command line of QEMU. The port comes first or last in the boot order, the drives in theirs; a CD comes before or after
    all of them. It is a SCSI drive: the kernel for virtual machines has no USB. ValueError for a start from a CD that is not there.
    """
    if start == "cd" and cd is None:
        raise ValueError(f"{machine.name}: no CD is inserted")
    argv = ["qemu-system-x86_64", "-name", machine.name, "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "qemu64"]
    argv += ["-machine", "q35,smm=on" if machine.secure else "q35", "-smp", str(CPUS), "-m", str(MEMORY_MIB)]
    argv += ["-display", "none", "-vga", "none", "-monitor", "none", "-no-reboot"]
    argv += ["-serial", f"file:{machine.console(start)}", "-device", "virtio-rng-pci"]
    argv += ["-smbios", f"type=1,manufacturer={MAKER},product={PRODUCT},serial={machine.serial}"]
    if machine.still:
        argv.append("-S")
    if machine.uuid:
        argv += ["-uuid", machine.uuid]
    if machine.uefi:
        argv += ["-drive", f"if=pflash,format=raw,readonly=on,file={machine.firmware[0]}"]
        argv += ["-drive", f"if=pflash,format=raw,file={machine.folder / machine.name}.vars"]
    if machine.secure:
        argv += ["-global", "driver=cfi.pflash01,property=secure,value=on"]
    if machine.tpm:
        argv += ["-chardev", f"socket,id=tpm,path={machine.tpm_folder / TPM_SOCKET}"]
        argv += ["-tpmdev", "emulator,id=tpm0,chardev=tpm", "-device", "tpm-tis,tpmdev=tpm0"]
    first = 1 if start == "network" else len(machine.drives) + 2
    argv += ["-netdev", f"tap,id=port,ifname={machine.tap},script=no,downscript=no"]
    argv += ["-device", f"virtio-net-pci,netdev=port,mac={machine.mac},bootindex={first}"]
    for number, (mac, tap) in enumerate(machine.inband, start=1):
        argv += ["-netdev", f"tap,id=inband{number},ifname={tap},script=no,downscript=no"]
        argv += ["-device", f"virtio-net-pci,netdev=inband{number},mac={mac},romfile="]
    options = "format=raw,cache=unsafe,discard=unmap" + ("" if machine.kept else ",snapshot=on")
    if cd is not None:
        place = 0 if start == "cd" else len(machine.drives) + 3
        argv += [
            "-drive",
            f"if=none,id=cd,file={cd},format=raw,media=cdrom,readonly=on",
            "-device",
            "virtio-scsi-pci,id=scsi",
        ]
        argv += ["-device", f"scsi-cd,drive=cd,bus=scsi.0,bootindex={place}"]
    for number, drive in enumerate(machine.drives, start=1):
        argv += ["-drive", f"if=none,id=drive{number},file={drive.file},{options}"]
        slot = f"pcie-root-port,id=bay{number},bus=pcie.0,addr={ROOT_PORTS_AT + number:#x},chassis={number}"
        argv += ["-device", slot]
        options_of = f"serial={drive.serial},smart_critical_warning={drive.warning},bootindex={number + 1}"
        bus = f"bay{number}" if drive.linked else WITHOUT_LINK
        argv += ["-device", f"nvme,drive=drive{number},bus={bus},{options_of}"]
    return argv + _board(machine)


TPM_SOCKET = "socket"


def tpm_command(machine: Machine) -> list[str]:
    """The command line of the machine's TPM (swtpm(8)), which ends with the machine."""
    state, socket = f"dir={machine.tpm_folder}", machine.tpm_folder / TPM_SOCKET
    return ["swtpm", "socket", "--tpm2", "--terminate", "--tpmstate", state, "--ctrl", f"type=unixio,path={socket}"]


def start_tpm(machine: Machine) -> "subprocess.Popen[bytes]":
    """Start the machine's TPM and wait for its socket. OSError where it does not come within TPM_READY_S."""
    socket = machine.tpm_folder / TPM_SOCKET
    machine.tpm_folder.mkdir(parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)
    with (machine.folder / f"{machine.name}.swtpm").open("ab") as log:
        process = subprocess.Popen(tpm_command(machine), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    deadline = time.monotonic() + TPM_READY_S
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise OSError(f"{machine.name}: swtpm does not answer: {log.name}")
        time.sleep(0.05)
    return process


class Power:
    """The power switch of a machine, which stands in a network namespace."""

    def __init__(self, machine: Machine, namespace: str) -> None:
        self.machine, self.namespace = machine, namespace
        self.process: subprocess.Popen[bytes] | None = None
        self.tpm: subprocess.Popen[bytes] | None = None

    @property
    def is_on(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def on(self, start: From, cd: Path | None = None) -> None:
        """Switch on, with this ISO in its CD drive; off first where it is on."""
        self.off()
        machine = self.machine
        machine.folder.mkdir(parents=True, exist_ok=True)
        variables = machine.folder / f"{machine.name}.vars"
        if machine.uefi and not variables.exists():
            shutil.copyfile(machine.firmware[1], variables)
        for drive in machine.drives:
            drive.ensure()
        machine.console(start).unlink(missing_ok=True)
        if machine.tpm:
            self.tpm = start_tpm(machine)
        with machine.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, *command(machine, start, cd)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def off(self) -> None:
        """Cut the power."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process = None
        if self.tpm is not None:
            self.tpm.kill()
            self.tpm.wait()
        self.tpm = None
