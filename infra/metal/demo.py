"""`make demo-metal`: two empty virtual machines become nodes that let us in, one by BIOS and one by UEFI; then it goes wrong.

Stages: build the image (once), render, both servers from the network to a login, either drive taken out, an unknown MAC,
drives with foreign content and the consent to overwrite them, a wrong drive, a truncated image, the power cut while the image
is written. Each fault is a named state, and the same call brings the server on. Exit status 0 when all went as said.

Power is switched by this program and not by a BMC; nothing of inspection, firmware and BIOS settings is exercised.
"""

import argparse
import dataclasses
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from capacity.build import build
from capacity.model import Plan
from capacity.services import boot
from capacity.services.boot import consents
from capacity.services.boot.intents import Intents, hyphened
from capacity.services.boot.life import Life
from infra.boot import image as images
from infra.lab.keys import signing_key, ssh_key
from infra.lab.paths import LabError, LabPaths
from infra.metal.machines import OVMF_CODE, Drive, Machine, Power
from infra.metal.run import Access, Bringing, Server
from infra.metal.segment import TOOLS, Network, Segment
from inventory.delivered.assets import load_assets
from inventory.paths import var_dir, write_file
from inventory.site import load_site
from validation.evidence.keys import signer_from

SITE = "lab-metal"
ROLE = "gpu"
UEFI = ("gpu002",)
"""Servers that start by UEFI; the others by BIOS."""
BUDGET_S = {"image": 1800.0, "first-boot": 1200.0}
"""Without KVM and beside other work a machine is twenty times slower than its host."""
STRANGER = "52:54:00:78:00:ff"
MARK_AT = 32 * 1024
"""Where the initramfs marks what it writes."""
SHUTDOWN_S = 120.0
WRITING_S = 8.0
"""After so long the power is cut while the image is written, which takes half a minute."""


class DemoError(Exception):
    """Something did not go as said."""


class Demo:
    """The demo: its site, plan, folders, and what it says."""

    def __init__(self) -> None:
        site = load_site(SITE)
        self.plan: Plan = build(site, assets=load_assets(site))
        self.paths, self.out = LabPaths(SITE), var_dir(SITE)
        self.boot, self.metal = self.out / "boot", self.out / "metal"
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:7.1f} s  {text}", flush=True)

    def keys(self) -> None:
        """The operator's key and the key that signs images, made once."""
        for name, make in (
            ("ssh_ed25519", lambda path: ssh_key(path, f"operator@{SITE}")),
            ("evidence_ed25519", signing_key),
        ):
            if not (self.paths.secrets / name).exists():
                make(self.paths.secrets / name)

    def image(self) -> boot.Image:
        """The image of the GPU nodes, built where there is none."""
        folder = self.out / "images" / ROLE
        if not (folder / "image.json").exists():
            key = signer_from(f"file:{self.paths.secrets / 'evidence_ed25519'}", Path("/"))
            of = images.system(self.plan.site.os.key, ROLE, virtual=True)
            images.build(of, folder, key, self.say)
        return boot.parse_image((folder / "image.json").read_text(), str(folder / "image.json"))

    def render(self, found: Intents, image: boot.Image, overwrite: Sequence[str] = ()) -> None:
        """What `bringup boot render` writes, and the image's files where the boot server serves them."""
        key = (self.paths.secrets / "ssh_ed25519.pub").read_text()
        made = boot.files(self.plan, found, {ROLE: image}, key, consents.parse(overwrite, found))
        for name, text in made.items():
            write_file(self.boot / name, text)
        served = self.boot / boot.HTTP / "images" / image.role / image.version
        served.mkdir(parents=True, exist_ok=True)
        for part in image.parts.values():
            target = served / part.file
            target.unlink(missing_ok=True)
            os.link(self.out / "images" / ROLE / part.file, target)

    def servers(self, found: Intents, namespace: str) -> dict[str, Server]:
        """The machines that the plan's GPU servers are."""
        made = {}
        for number, host in enumerate(found.servers(), start=1):
            name = host["device"]
            drives = tuple(Drive(serial, self.metal / f"{serial}.raw") for serial in found.layouts[name].serials)
            machine = Machine(name, host["mac"], f"tap{number}", name in UEFI, drives, self.metal)
            ssh = self.plan.site.credentials.ssh
            access = Access(
                host["address"].partition("/")[0],
                ssh.user,
                self.paths.secrets / "ssh_ed25519",
                self.metal / "known_hosts",
            )
            made[name] = Server(Power(machine, namespace), access)
        return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; see the module's text for the exit status."""
    parser = argparse.ArgumentParser(prog="python -m infra.metal", description=__doc__)
    parser.add_argument("--short", action="store_true", help="only from the network to a login")
    arguments = parser.parse_args(argv)
    if obstacle := missing():
        print(obstacle, file=sys.stderr)
        return 2
    demo = Demo()
    found = boot.intents(demo.plan, load_assets(demo.plan.site))
    prefix = demo.plan.site.addressing.provisioning.prefixlen
    network = Network(
        f"bringup-{SITE}",
        f"{boot.boot_server(demo.plan)}/{prefix}",
        [f"tap{n + 1}" for n in range(len(found.hosts) + 1)],
    )
    demo.keys()
    shutil.rmtree(demo.metal, ignore_errors=True)
    try:
        image = demo.image()
        demo.render(found, image)
        with Segment(network, demo.boot, demo.metal) as segment:
            servers = demo.servers(found, network.namespace)
            bringing = Bringing(segment, servers, image.version, demo.metal / "lives.json", BUDGET_S)
            try:
                stages(demo, bringing, found, image, segment, short=arguments.short)
            finally:
                for server in servers.values():
                    server.power.off()
    except (DemoError, LabError, images.ImageBuildError) as error:
        demo.say(f"FAILED: {error}")
        return 1
    demo.say("All went as said.")
    return 0


def stages(demo: Demo, bringing: Bringing, found: Intents, image: boot.Image, segment: Segment, *, short: bool) -> None:
    """The stages in their order; DemoError at the first that does not go as said."""
    names = list(bringing.servers)
    demo.say(f"{', '.join(names)}: from empty drives, over the network, to a login; image {image.version}")
    brought(bringing.bring(names, demo.say))
    for name in names:
        read_back(demo, bringing, name, image)
    demo.say("The same call again: nothing to do")
    if any(life.step != "ready" for life in bringing.bring(names, demo.say).values()):
        raise DemoError("a ready server did not stay ready")
    if short:
        return
    for name in names:
        shut_down(bringing, name)
        for lost in (0, 1):
            without_drive(demo, bringing, name, lost)
    victim = names[0]
    unknown_mac(demo, bringing, segment, victim)
    foreign_content(demo, bringing, found, image, victim)
    wrong_drive(demo, bringing, victim)
    truncated(demo, bringing, image, victim)
    power_cut(demo, bringing, victim)


def brought(lives: dict[str, Life]) -> None:
    for name, life in lives.items():
        if life.step != "ready":
            raise DemoError(f"{name} stands at {life.step}: {life.stopped} {life.text}")


def read_back(demo: Demo, bringing: Bringing, name: str, image: boot.Image) -> None:
    """The hash that the initramfs read from both drives is the image's, and the node is what the seed says."""
    mac = hyphened(bringing.servers[name].power.machine.mac)
    last = [report for report in bringing.segment.reports()[mac] if report.state == "written"][-1]
    if not last.text.startswith(image.parts["root"].sha256):
        raise DemoError(f"{name}: read back {last.text}, planned {image.parts['root'].sha256}")
    said = bringing.run(name, "hostname; findmnt -no SOURCE /") or ""
    if said.split()[:1] != [name]:
        raise DemoError(f"{name} calls itself {said!r}")
    demo.say(f"{name}: image read back from both drives, root on {said.split()[-1]}")


def expect(demo: Demo, lives: dict[str, Life], name: str, state: str) -> None:
    life = lives[name]
    if life.stopped != state:
        raise DemoError(
            f"{name} stands at {life.step} {life.stopped or 'without a stop'}, expected {state}: {life.text}"
        )
    demo.say(f"{name}: stopped as {state}, power off")


def shut_down(bringing: Bringing, name: str) -> None:
    """A clean end, so that both drives hold the same."""
    power = bringing.servers[name].power
    bringing.run(name, "sync; systemctl poweroff")
    deadline = time.monotonic() + SHUTDOWN_S
    while power.is_on and time.monotonic() < deadline:
        time.sleep(1)
    power.off()


def without_drive(demo: Demo, bringing: Bringing, name: str, lost: int) -> None:
    """A server starts from the drive that is left. What it writes then is not kept."""
    power = bringing.servers[name].power
    whole = power.machine
    left = tuple(drive for number, drive in enumerate(whole.drives) if number != lost)
    power.machine = dataclasses.replace(whole, drives=left, kept=False)
    power.on("disk")
    said = None
    deadline = time.monotonic() + BUDGET_S["first-boot"]
    while said is None and power.is_on and time.monotonic() < deadline:
        said = bringing.run(name, "hostname; grep -o '\\[[U_]*\\]$' /proc/mdstat")
        time.sleep(1)
    power.off()
    power.machine = whole
    if said is None or "_" not in said:
        raise DemoError(f"{name} does not start without its drive {whole.drives[lost].serial}: {said!r}")
    demo.say(f"{name}: starts without {whole.drives[lost].serial}, mirror {said.split()[-1]}")


def unknown_mac(demo: Demo, bringing: Bringing, segment: Segment, name: str) -> None:
    """A machine whose MAC is not in the list gets nothing and is named."""
    server = bringing.servers[name]
    whole = server.power.machine
    server.power.machine = dataclasses.replace(whole, mac=STRANGER, name="stranger", drives=())
    server.power.on("network")
    deadline = time.monotonic() + 120
    while not (seen := strangers(segment.dhcp_log.read_text(errors="replace"))) and time.monotonic() < deadline:
        time.sleep(1)
    server.power.off()
    server.power.machine = whole
    if STRANGER not in seen:
        raise DemoError(f"the unknown MAC {STRANGER} was not named; seen: {', '.join(seen) or 'none'}")
    demo.say(f"unknown MAC {STRANGER}: no address, named from the log of DHCP")


def strangers(log: str) -> list[str]:
    """MACs that asked dnsmasq for an address and were ignored."""
    return sorted({line.split()[-2] for line in log.splitlines() if line.endswith(" ignored")})


def foreign(demo: Demo, bringing: Bringing, name: str) -> None:
    """Somebody else's data where the mark of our writing was."""
    power = bringing.servers[name].power
    power.off()
    for drive in power.machine.drives:
        with drive.file.open("r+b") as file:
            file.seek(MARK_AT)
            file.write(b"somebody else's data".ljust(512, b"\0"))
    demo.say(f"{name}: both drives hold something else")


def foreign_content(demo: Demo, bringing: Bringing, found: Intents, image: boot.Image, name: str) -> None:
    """A server that runs is not written again without consent to what lies on each drive; the consent holds once."""
    foreign(demo, bringing, name)
    bringing.again(name)
    given: list[str] = []
    for _ in bringing.servers[name].power.machine.drives:
        expect(demo, bringing.bring([name], demo.say), name, "foreign-content")
        mac = hyphened(bringing.servers[name].power.machine.mac)
        given.append(consents.asked_for({name: bringing.segment.reports()[mac]})[name])
        demo.render(found, image, given)
    demo.say(f"{name}: consent to {' and '.join(text.split(':')[1] for text in given)}")
    brought(bringing.bring([name], demo.say))
    read_back(demo, bringing, name, image)
    foreign(demo, bringing, name)
    bringing.again(name)
    expect(demo, bringing.bring([name], demo.say), name, "foreign-content")
    demo.say(f"{name}: the same consent holds no second time")


def wrong_drive(demo: Demo, bringing: Bringing, name: str) -> None:
    """A drive with another serial number than the planned one."""
    power = bringing.servers[name].power
    whole = power.machine
    other = Drive("sim-drive-other", whole.folder / "sim-drive-other.raw").ensure()
    power.machine = dataclasses.replace(whole, drives=(whole.drives[0], other))
    lives = bringing.bring([name], demo.say)
    power.machine = whole
    expect(demo, lives, name, "wrong-disk")
    with other.file.open("rb") as file:
        if file.read(2**20).strip(b"\0"):
            raise DemoError("the drive that was not planned was written")


def truncated(demo: Demo, bringing: Bringing, image: boot.Image, name: str) -> None:
    """The boot server serves half of the image; drives are empty again, so that it is written."""
    for drive in bringing.servers[name].power.machine.drives:
        drive.file.unlink()
    served = demo.boot / boot.HTTP / "images" / image.role / image.version / image.parts["root"].file
    whole = demo.out / "images" / ROLE / image.parts["root"].file
    half = served.with_suffix(".half")
    half.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    half.replace(served)
    expect(demo, bringing.bring([name], demo.say), name, "image-broken")
    served.unlink()
    os.link(whole, served)


def power_cut(demo: Demo, bringing: Bringing, name: str) -> None:
    """The power goes while the image is written; the same call writes it again, without a consent."""
    cut: list[float] = []

    def watch(server: str, life: Life) -> None:
        if life.step == "image" and "to SIM" in life.text and not cut:
            cut.append(time.monotonic())
        if cut and cut[-1] and time.monotonic() - cut[-1] > WRITING_S:
            bringing.servers[server].power.off()
            raise PowerCutError

    try:
        bringing.bring([name], demo.say, watch)
    except PowerCutError:
        demo.say(f"{name}: power cut {WRITING_S:g} s after writing began; the same call again")
    else:
        raise DemoError(f"{name} was written before the power could be cut")
    brought(bringing.bring([name], demo.say))


class PowerCutError(Exception):
    """The power was cut on purpose."""


def missing() -> str:
    """What this machine lacks for the demo; '' for nothing."""
    if os.geteuid() != 0:
        return "The demo makes networks and file systems: it needs root on Linux."
    packages = sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})
    packages += [] if OVMF_CODE.exists() else ["ovmf"]
    packages += [] if Path("/usr/lib/ipxe/undionly.kpxe").exists() else ["ipxe", "ipxe-qemu"]
    return f"missing: apt-get install {' '.join(packages)}" if packages else ""
