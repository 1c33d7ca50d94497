"""`make demo-metal`: two empty virtual machines become accepted nodes, one by BIOS and one by UEFI, with faults on the way.

Stages: build the image (once), render, take the BMCs over, both servers from a silent BMC to a login, past a garbled BMC, a MAC
that is not listed, and that of another server; then for one of them, while the other runs on: an unknown MAC and a second machine
with its own on the segment, another DHCP server, a wrong drive and one that is too small, drives with foreign content and the
consent to overwrite them, a truncated and an altered image, the power cut while the image is written, cloud-init that does not
end, and the same consent a second time; then either drive taken out of each. Each fault is a named state, and the same call
brings the server on. At the end `installed.json` says what was seen, and checks of the step register judge it; of a server that is
then built otherwise (another drive, a card beside its switch, GPUs that are not those of the list) they name what is wrong. Exit
status 0 when all went as said.

A run that is killed leaves nothing in the way of the next one (infra/metal/claim.py); what the machine lacks is named before
anything is begun (infra/metal/prerequisites.py).

State is kept in var/lab-metal: a second run starts both servers from their drives, finds them as they were left, and writes
nothing. `--anew` begins with empty drives. Power is switched by BMCs over Redfish (infra/metal/bmcs.py), which are taken over from
their factory account and pinned by the site's certificate. Each server is inspected, flashed with its firmware bundle and gets its
BIOS profile before its image. Then Ansible configures the nodes, with a light node as their controller: the second run changes
nothing, and both are idle in Slurm.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from capacity.build import build
from capacity.model import Plan
from capacity.services import boot, slurm
from capacity.services.boot import collected, consents, record
from capacity.services.boot.intents import Intents, hyphened
from capacity.services.boot.life import SAFE_STOPS, Life, Report
from capacity.services.boot.starting import Target
from infra.boot import collect, iso
from infra.boot import image as images
from infra.boot.enrol import EnrolError
from infra.firmware.apply import Outcome
from infra.install.bring import Delivered
from infra.install.takeover import take_over
from infra.lab.base import ensure as controller_base
from infra.lab.keys import TEXT_SECRETS, bmc_certificate, bmc_password, signing_key, ssh_key, text_secret
from infra.lab.paths import LabError, LabPaths
from infra.lab.planned import DELIVERED_FIRMWARE, components
from infra.lab.powerd import BMC_RESTART_S, GARBLED
from infra.lab.spec import Server as Spec
from infra.metal import faults as wire
from infra.metal import firmware
from infra.metal.accepted import configured, states
from infra.metal.bmcs import Bmcs, Load
from infra.metal.cd import Cd, by_cd
from infra.metal.claim import Claim
from infra.metal.controller import Controller, light_spec
from infra.metal.gpus import UNPACK, Simulated, packed
from infra.metal.inband import Port, commands, inband_ports
from infra.metal.machines import UNLINKED_CARDS_AT, WITHOUT_LINK, Drive, Machine, Power, slot_of
from infra.metal.prerequisites import missing
from infra.metal.run import Access, Bringing, Server
from infra.metal.segment import Network, Segment
from infra.playbook import total
from inventory.delivered import power_acts
from inventory.delivered.assets import load_assets
from inventory.delivered.firmware import Bundle
from inventory.paths import repo_root, var_dir, write_file
from inventory.site import load_site
from network.drivers.credentials import BmcCredentials, bmc_credentials, factory_credentials
from network.drivers.errors import DeviceError
from network.drivers.redfish import UNUSED_PROTOCOLS, Bmc
from validation.evidence.keys import signer_from

SITE = "lab-metal"
ROLE = "gpu"
FIRMWARES = ("BIOS", "UEFI")
"""Servers start by these in turn."""
INSPECT_S = 300.0
"""Ten answers of a BMC that takes its whole budget (BMC_S)."""
BUDGET_S = {"inspect": INSPECT_S, "image": 1800.0, "first-boot": 1200.0}
"""Choice of the demo: without KVM, writing took 158 s and a first boot 150 s at a load of 12 (docs/network-boot.md)."""
BMC_S = 30.0
"""One Redfish call: the emulator shares two processors with two machines."""
OTHER_DRIVE, OTHER_GPU = "sim-drive-other", "sim-gpu-other"
LIMITED, BRAKED, STRANGE = 3, 4, 5
"""GPUs, by their number, that get half of their power, feel the power brake, or are others than listed."""
POWER_BRAKE = 0x80
"""nvml.h: nvmlClocksEventReasonHwPowerBrakeSlowdown."""
SPARE_LOW = 0x01
"""NVM Express base specification, SMART log: critical warning, available spare below its threshold."""
STRANGER = "52:54:00:78:00:ff"
MARK_AT, MARK_BYTES = 32 * 1024, 512
"""Where the initramfs marks what it writes."""
HEAD_BYTES, TAIL_BYTES = 2 << 20, 1 << 20
"""What the content of a drive is known by (infra/boot/deploy.sh)."""
NODE_CHECKS: tuple[str, ...] = (
    "base_system",
    "self_test",
    "identify_led",
    "bmc_is_set_up",
    "time_source",
)
NODE_CHECKS += ("clock_offset", "passwords_and_unknown")
"""Names of the checks that judge a node: S032, S031, S016, S017, S144, S147.measured."""
BUILT_CHECKS = ("drives_are_as_planned", "gpu_cards_sit", "gpu_cards_have")
"""What a node is built of: S018.measured, S022.measured, S027.observed."""
NODE_CHECKS += BUILT_CHECKS
FAULT_CHECKS = ("mirrored", "installed_over_the_network")
"""Of a node as well, after the faults: S019.applied, once it was seen to start from each of its drives alone, and S142.applied,
once one was written twice.
"""
SITE_CHECK = "network_boot"
"""Of the site: S142.generated."""
JUDGE_S = 900.0
"""For all checks of both nodes: choice of the demo, their own budgets hold within."""
IDLE_S = 300.0
"""For Slurm to call configured nodes idle: ten of their health checks."""
SHUTDOWN_S = 120.0
"""Longer than systemd's default time for a service to stop, 90 s (systemd-system.conf(5), DefaultTimeoutStopSec)."""
TWIN_S = 600.0
"""For a machine to start from the network and to stop."""
SHOWN_WORDS = 6
"""Of a command in a message."""
WRITING_S = 8.0
"""After so long the power is cut while the image is written, which takes half a minute."""


GOES_ON = "The same command goes on where each server stands."
FAULTS_OF_FILES = (images.ImageBuildError, boot.BootError, boot.ImageError, record.RecordError, EnrolError)


class DemoError(Exception):
    """Something did not go as said."""


class Demo:
    """The demo: its site, plan, folders, and what it says. `site`: a name or a file; `images`: the folder that keeps images."""

    def __init__(self, site: str = SITE, images: Path | None = None) -> None:
        loaded = load_site(site)
        self.site_file = loaded.path
        self.assets = load_assets(loaded)
        self.plan: Plan = build(loaded, assets=self.assets)
        self.paths, self.out = LabPaths(loaded.name), var_dir(loaded.name)
        self.boot, self.metal = self.out / "boot", self.out / "metal"
        self.images = images or self.out / "images"
        self.simulated = Simulated(self.plan, self.metal / "nvml")
        self.began = time.monotonic()

    @property
    def namespace(self) -> str:
        """The network namespace of the segment."""
        return f"bringup-{self.paths.name}"

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:7.1f} s  {text}", flush=True)

    def keys(self) -> None:
        """The operator's key, the key that signs images and evidence, and what else the site names: made once."""
        own = [bmc_password(name) for name in self.addresses("bmc")]
        made: dict[str, Callable[[Path], object]] = dict.fromkeys([*TEXT_SECRETS, *own], text_secret)
        made |= {
            "ssh_ed25519": lambda path: ssh_key(path, f"operator@{self.paths.name}"),
            "evidence_ed25519": signing_key,
        }
        for name, make in made.items():
            if not (self.paths.secrets / name).exists():
                make(self.paths.secrets / name)
        if not (self.paths.pki / "bmc.pem").exists():
            bmc_certificate(self.paths, self.addresses("bmc").values())

    def image(self) -> boot.Image:
        """The image of the GPU nodes, built where there is none of its recipe."""
        site, folder = self.plan.site, self.images / ROLE
        of = images.system(
            site.os.key,
            ROLE,
            virtual=True,
            more=images.configured(site, ROLE),
            pinned=images.pins(site),
            console=site.provisioning.console,
        )
        if not images.is_current(of, folder):
            if (folder / "image.json").exists():
                self.say("The image on this machine is of another recipe, or not whole: building it anew")
            key = signer_from(f"file:{self.paths.secrets / 'evidence_ed25519'}", Path("/"))
            images.build(of, folder, key, self.say)
        return boot.parse_image((folder / "image.json").read_text(), str(folder / "image.json"))

    def render(self, found: Intents, image: boot.Image, overwrite: Sequence[str] = ()) -> list[str]:
        """What `bringup boot render` writes, where it differs; the names of these files. The image's files are put where the boot
        server serves them.
        """
        key = (self.paths.secrets / "ssh_ed25519.pub").read_text()
        made = boot.files(self.plan, found, {ROLE: image}, key, consents.parse(overwrite, found))
        changed = [
            name
            for name, text in made.items()
            if not (self.boot / name).exists() or (self.boot / name).read_text() != text
        ]
        for name in changed:
            write_file(self.boot / name, made[name])
        served = self.boot / boot.HTTP / "images" / image.role / image.version
        served.mkdir(parents=True, exist_ok=True)
        for part in image.parts.values():
            target = served / part.file
            target.unlink(missing_ok=True)
            os.link(self.images / ROLE / part.file, target)
        return changed

    def loads(self, powers: Mapping[str, Power]) -> dict[str, Load]:
        """What the emulator shows of the machines."""
        rows = {str(row["name"]): row for row in self.plan.devices.to_dict("records")}
        addresses = self.addresses("bmc")
        site = self.plan.site
        delivered = factory_credentials(site, self.assets) or bmc_credentials(site, self.assets)
        adapters = self.plan.cables[self.plan.cables["stage"] == "node-leaf"]["a_device"].value_counts()
        made = {}
        for name, power in powers.items():
            row, psu = rows[name], self.plan.site.server.supplies
            facts = self.plan.catalog.device(str(row["model"])).bringup
            spec = Spec(
                name=name,
                role=ROLE,
                model=str(row["model"]),
                serial=power.machine.serial,
                uuid=power.machine.uuid,
                bmc_address=addresses[name],
                bmc_mac=str(self.assets.at[name, "mgmt_mac"]),
                address=self.addresses("provisioning")[name],
                mac=power.machine.mac,
                ports=(),
                psus=int(row["psu_count"]),
                psus_needed=1,
                psu_rating_w=float(psu.rating_w),
                input_v=float(psu.input_v),
                load_w=float(row["measured_w"]),
                bios_version=DELIVERED_FIRMWARE,
                bmc_version=DELIVERED_FIRMWARE,
                components=components(
                    [(slot, firmware.DELIVERED_GPU) for slot in range(1, self.gpus(name) + 1)], adapters[name]
                ),
                cpus=facts.cpus,
                memory_gib=facts.memory_gib,
            )
            factory = delivered(name)
            made[name] = Load(spec, power, factory.user, factory.password, self.metal / "bmc" / f"{name}.json")
        return made

    def gpus(self, name: str) -> int:
        """Planned GPUs of a node."""
        nodes = slurm.design(self.plan, self.plan.catalog).plain()["nodes"]
        return next(int(node["gpus"]) for node in nodes if node["name"] == name)

    def bundle(self, load: Load, **how: Any) -> Bundle:
        """The firmware bundle of the machines' model."""
        return firmware.bundle(self.metal / "firmware", load.spec.model, load.bmc["firmware"], **how)

    def taken_over(self, name: str) -> Bmc:
        """The driver of a BMC with the site's account, once the factory's is closed. DeviceError for another server."""
        site, address = self.plan.site, self.addresses("bmc")[name]
        own, delivered = bmc_credentials(site, self.assets)(name), factory_credentials(site, self.assets)
        serial, uuid = str(self.assets.at[name, "serial"]), str(self.assets.at[name, "uuid"])
        acted = power_acts.recorder(power_acts.folder_of(self.out), name, serial)

        def connect(credentials: BmcCredentials) -> Bmc:
            return Bmc(address, credentials, BMC_S, name=name, serial=serial, uuid=uuid, acted=acted)

        if take_over(name, connect, own, delivered(name) if delivered else None):
            self.say(f"{name}: BMC {connect(own).identity()['serial']} taken over, the factory's login refused")
        connect(own).set_ntp([str(server) for server in site.addressing.ntp])
        connect(own).disable_protocols(UNUSED_PROTOCOLS)
        connect(own).set_log_servers([str(server) for server in site.addressing.syslog])
        return connect(own)

    def addresses(self, network: str) -> dict[str, str]:
        """Address without prefix length by device, in a network of the plan."""
        rows = self.plan.addresses[self.plan.addresses["network"] == network]
        return dict(zip(rows["device"], rows["address"].str.partition("/")[0], strict=True))

    def powers(self, found: Intents, namespace: str, ports: Sequence[Port]) -> dict[str, Power]:
        """The machines that the plan's GPU servers are."""
        made = {}
        for number, host in enumerate(found.servers(), start=1):
            name = host["device"]
            drives = tuple(Drive(serial, self.metal / f"{serial}.raw") for serial in found.layouts[name].serials)
            machine = Machine(
                name,
                host["mac"],
                f"tap{number}",
                FIRMWARES[(number - 1) % len(FIRMWARES)] == "UEFI",
                drives,
                self.metal,
                serial=str(self.assets.at[name, "serial"]),
                uuid=str(self.assets.at[name, "uuid"]),
                inband=tuple((port.mac, port.tap) for port in ports if port.device == name),
                cards=tuple(slot_of(card) for card in range(self.gpus(name))),
            )
            made[name] = Power(machine, namespace)
        return made

    def servers(
        self, found: Intents, powers: Mapping[str, Power], image: boot.Image, loads: Mapping[str, Load]
    ) -> dict[str, Server]:
        """The machines with their BMCs and nodes."""
        profile, ssh = self.plan.catalog, self.plan.site.credentials.ssh
        made = {}
        for host in found.servers():
            name, machine = host["device"], powers[host["device"]].machine
            access = Access(
                host["address"].partition("/")[0],
                ssh.user,
                self.paths.secrets / "ssh_ed25519",
                self.paths.known_hosts,
            )
            target = Target(
                name, image.role, image.version, image.parts["root"].sha256, tuple(found.layouts[name].serials)
            )
            bios = dict(profile.device(host["model"]).bringup.bios)
            delivered = Delivered(machine.serial, machine.uuid, host["mac"], bios)
            wanted = self.bundle(loads[name])

            def differs(inventory: Mapping[str, str], wanted: Bundle = wanted) -> list[str]:
                return wanted.faults(inventory, lambda package: True)

            made[name] = Server(powers[name], access, self.taken_over(name), target, delivered, differs)
        return made


class Proofs:
    """What was seen and holds until it is undone, kept in a file: that the faults were tried, and which drives start a server.

    A writing undoes what was seen of a server's drives; another image undoes all.
    """

    def __init__(self, file: Path, image: str) -> None:
        self.file = file
        said = json.loads(file.read_text()) if file.exists() else {}
        self.said: dict[str, Any] = said if said.get("image") == image else {"image": image, "alone": {}}

    def has(self, what: str) -> bool:
        return what in self.said

    def tried(self, what: str) -> None:
        self._keep({**self.said, what: time.time()})

    def alone(self, server: str, written: float) -> tuple[str, ...]:
        """Serial numbers of the drives that a server, last written then, was seen to start from alone."""
        said = self.said["alone"].get(server, {})
        return tuple(sorted(said.get("drives", ()))) if said.get("written") == written else ()

    def started(self, server: str, written: float, serial: str) -> None:
        """A server, last written then, started from this drive alone."""
        drives = [*self.alone(server, written), serial]
        self._keep(
            {**self.said, "alone": {**self.said["alone"], server: {"written": written, "drives": sorted({*drives})}}}
        )

    def _keep(self, said: Mapping[str, Any]) -> None:
        self.said = dict(said)
        write_file(self.file, json.dumps(self.said, indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; see the module's text for the exit status."""
    parser = argparse.ArgumentParser(prog="python -m infra.metal", description=__doc__)
    parser.add_argument(
        "--short",
        action="store_true",
        help="without the faults: nothing is written twice and no drive is taken out, so S142.applied and S019 are not judged",
    )
    parser.add_argument("--anew", action="store_true", help="begin with empty drives, whatever an earlier run left")
    parser.add_argument(
        "--clear", action="store_true", help="remove processes and networks of a killed run, of any clone, and end"
    )
    arguments = parser.parse_args(argv)
    demo = Demo()
    if obstacles := missing(demo.paths, demo.out, demo.plan.site.server.count):
        print("\n".join(obstacles), file=sys.stderr)
        return 2
    return ended(demo, lambda: claimed(demo, short=arguments.short, anew=arguments.anew, clear=arguments.clear))


def ended(demo: Demo, act: Callable[[], int], again: str = GOES_ON) -> int:
    """Exit status of this act; what ends it otherwise is said in one line. `again`: what the same command would do."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # machines and network end with this program
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        return act()
    except (DemoError, LabError, DeviceError, *FAULTS_OF_FILES, OSError) as error:
        demo.say(f"FAILED: {error}")
    except subprocess.TimeoutExpired as error:
        demo.say(f"FAILED: {late(error)}. {again}")
    except subprocess.CalledProcessError as error:
        demo.say(f"FAILED: {shown(error.cmd)} ended with exit status {error.returncode}: {last_words(error)}")
    except KeyboardInterrupt:
        demo.say(f"Stopped. {again}")
        return 128 + signal.SIGINT
    return 1


def shown(command: Any) -> str:
    """A command as a person reads it, its first words."""
    return " ".join(map(str, [command] if isinstance(command, str | bytes) else list(command)[:SHOWN_WORDS]))


def late(error: subprocess.TimeoutExpired) -> str:
    """The message for a program that did not end in time."""
    return f"{shown(error.cmd)} did not end within {error.timeout:g} s. Next: look at the load of this machine, then run this again"


def last_words(error: subprocess.CalledProcessError) -> str:
    said = error.stderr or error.stdout or b""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def claimed(demo: Demo, *, short: bool, anew: bool, clear: bool) -> int:
    """The demo, alone on this machine; with `clear` only what a killed run has left is removed."""
    with claim(demo, foreign=clear):
        if clear:
            demo.say("Nothing of an earlier run is left.")
            return 0
        if anew:
            shutil.rmtree(demo.metal, ignore_errors=True)
        with standing(demo) as stand:
            bringing = stand.bringing
            stages(demo, bringing, stand.found, stand.image, stand.segment, stand.loads, short=short)
            with Controller(demo.plan, demo.paths, stand.segment, stand.ports, demo.say) as controller:
                accept(demo, bringing, stand.segment, controller, short=short)
            for name in bringing.servers:
                shut_down(bringing, name)
    demo.say("All went as said.")
    return 0


def claim(demo: Demo, *, foreign: bool, program: str = "make demo-metal") -> Claim:
    """This machine for one run of a program; `foreign`: what a killed run of another clone has left is removed too."""
    light = light_spec(demo.plan)
    namespaces = [demo.namespace, light.namespace("bay"), *(light.namespace(server.name) for server in light.servers)]
    return Claim(demo.paths, repo_root(), namespaces, light.scope, demo.say, foreign=foreign, program=program)


@dataclasses.dataclass(frozen=True)
class Stand:
    """Segment, boot server, BMCs and machines, and what was rendered for them."""

    bringing: Bringing
    found: Intents
    image: boot.Image
    segment: Segment
    loads: Mapping[str, Load]
    ports: Sequence[Port]


@contextlib.contextmanager
def standing(demo: Demo) -> Iterator[Stand]:
    """All servers of the plan for as long as the block lasts, off at its beginning and its end; their image is built and served."""
    controller_base(demo.say)
    found = boot.intents(demo.plan, demo.assets)
    prefix = demo.plan.site.addressing.provisioning.prefixlen
    light = light_spec(demo.plan).servers[0].name
    ports = inband_ports(demo.plan, [*(host["device"] for host in found.servers()), light])
    network = Network(
        demo.namespace,
        f"{boot.boot_server(demo.plan)}/{prefix}",
        [f"tap{n + 1}" for n in range(len(found.hosts) + 1)],
        commands(ports, demo.plan.site.inband.mtu, {p.tap: f"{p.tap}x" for p in ports if p.device == light}),
    )
    demo.keys()
    image = demo.image()
    changed = demo.render(found, image)
    demo.say(f"Rendered for network boot: {len(changed) or 'no'} files changed")
    with Segment(network, demo.boot, demo.metal) as segment:
        powers = demo.powers(found, network.namespace, ports)
        loads = demo.loads(powers)
        try:
            with Bmcs(demo.paths, segment, loads):
                bringing = Bringing(segment, demo.servers(found, powers, image, loads), demo.metal / "lives", BUDGET_S)
                yield Stand(bringing, found, image, segment, loads, ports)
        finally:
            for power in powers.values():
                power.off()


def stages(
    demo: Demo,
    bringing: Bringing,
    found: Intents,
    image: boot.Image,
    segment: Segment,
    loads: Mapping[str, Load],
    *,
    short: bool,
) -> None:
    """The stages in their order; DemoError at the first that does not go as said."""
    names = list(bringing.servers)
    stood = [name for name, life in bringing.lives.items() if life.step == "ready"]
    held, told = contents(bringing, stood), len(reports_of(bringing, stood))
    proofs = Proofs(demo.metal / "proofs.json", image.version)
    if todo := [name for name in names if name not in stood]:
        demo.say(f"{', '.join(todo)}: from the network to a login; image {image.version}")
        before_anything(demo, bringing, loads, todo[0])
        if from_nothing(demo, bringing, loads, todo, short=short or proofs.has("firmware")):
            proofs.tried("firmware")
    running(demo, bringing, names, image)
    if stood:
        unchanged(demo, bringing, stood, held, told)
    if not short and not proofs.has("faults"):
        faults(demo, bringing, found, image, segment)
        proofs.tried("faults")
    if not short and not proofs.has("cd"):
        written_from_cd(demo, bringing, found, image, names[-1])
        proofs.tried("cd")
    due = {
        name: [serial for serial in serials(bringing, name) if serial not in alone(bringing, proofs, name)]
        for name in names
    }
    if not short and any(due.values()):
        for name in names:
            shut_down(bringing, name)
        for lost in (0, 1):
            without_drive(demo, bringing, proofs, names, lost)
        running(demo, bringing, names, image)
    record_all(demo, bringing, proofs, names)


def from_nothing(
    demo: Demo, bringing: Bringing, loads: Mapping[str, Load], names: Sequence[str], *, short: bool
) -> bool:
    """Servers as delivered, at once to a login: firmware, BIOS, image, first boot. Whether their firmware was rolled out;
    `short`: without its faults. DemoError for the first that stops.
    """
    behind = due_for_firmware(demo, bringing, loads, names)
    if behind:
        for name, life in bringing.bring(behind, demo.say).items():
            if life.stopped != "firmware-behind":
                raise DemoError(
                    f"{name} stands at {life.step} {life.stopped or 'without a stop'}, expected firmware-behind: {life.text}"
                )
        firmware_of(demo, bringing, loads, behind, short=short)
    brought(bringing.bring(names, demo.say))
    return bool(behind)


def accept(demo: Demo, bringing: Bringing, segment: Segment, controller: Controller, *, short: bool) -> None:
    """Running nodes are configured, take jobs, and are judged; the second run of the playbook changes nothing."""
    names = list(bringing.servers)
    for name in names:
        simulate(demo, bringing, name)
    hosts = [controller.name, *names]
    first = configured(segment, demo.site_file, hosts, demo.metal / "playbook-1.log")
    demo.say(f"Playbook, first run: {total(first)}")
    second = configured(segment, demo.site_file, hosts, demo.metal / "playbook-2.log")
    demo.say(f"Playbook, second run: {total(second)}")
    if changed := [host for host, row in second.items() if row["changed"]]:
        raise DemoError(f"the second run of the playbook changed {', '.join(changed)}: {demo.metal / 'playbook-2.log'}")
    deadline = time.monotonic() + IDLE_S
    while {(seen := states(controller)).get(name) for name in names} != {"idle"}:
        if time.monotonic() > deadline:
            raise DemoError(
                f"in Slurm after {IDLE_S:g} s: {seen or 'no node'}, expected idle. Next: scontrol show node on {controller.name}"
            )
        time.sleep(2.0)
    demo.say(f"Slurm: {', '.join(f'{name} {state}' for name, state in seen.items())}")
    judge(demo, segment, names, NODE_CHECKS if short else (*NODE_CHECKS, *FAULT_CHECKS))
    proofs = Proofs(demo.metal / "proofs.json", next(iter(bringing.servers.values())).target.version)
    if not short and not proofs.has("built"):
        built_otherwise(demo, bringing, segment, names[0])
        proofs.tried("built")


def simulate(
    demo: Demo, bringing: Bringing, name: str, changed: Mapping[int, Mapping[str, int | str]] | None = None
) -> None:
    """A node gets its simulated GPUs; `changed`: other values by number."""
    if bringing.ask(name, UNPACK, packed(demo.simulated.files(name, changed))) is None:
        raise DemoError(
            f"{name}: cannot make /dev/nvidia* and the state of its GPUs. Next: systemd-tmpfiles --create on the node"
        )


def built_otherwise(demo: Demo, bringing: Bringing, segment: Segment, name: str) -> None:
    """One server with another drive, which warns and has no link; a card without link beside its switch; a GPU at another power
    limit, one under the power brake, and one that the list does not have. Each check names what it is about; as it was, all pass.
    """
    power = bringing.servers[name].power
    whole = power.machine
    first, second = whole.drives
    other = dataclasses.replace(second, serial=OTHER_DRIVE, warning=SPARE_LOW, linked=False)
    listed = demo.plan.gpus[demo.plan.gpus["device"] == name].sort_values("pci_bus_id")
    default_mw = int(demo.simulated.states(name)[LIMITED]["power.default_limit_mw"])
    changed: dict[int, dict[str, int | str]] = {
        0: {"pci.bus_id": f"00000000:00:{UNLINKED_CARDS_AT:02X}.0"},
        LIMITED: dict.fromkeys(("power.limit_mw", "power.enforced_limit_mw"), default_mw // 2),
        BRAKED: {"clock.event_reasons": POWER_BRAKE},
        STRANGE: {"serial": OTHER_GPU, "uuid": f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, OTHER_GPU)}"},
    }
    serial = [str(one) for one in listed["serial"]]
    said = [
        f"no drive has the serial number {second.serial} of boot1 in assets.csv",
        f"serial {OTHER_DRIVE}) warns (critical warning 0x{SPARE_LOW:02x})",
        f"serial {OTHER_DRIVE}) has a link of x0, planned x1",
        f"GPU 0000:00:{UNLINKED_CARDS_AT:02x}.0 has a link of x0, planned x1",
        "GPUs behind PCIe switches: [1, 2, 2, 2], planned [2, 2, 2, 2]",
        f"{serial[LIMITED]} at",
        f"power limit {default_mw / 2000:g} W, default {default_mw / 1000:g} W",
        serial[BRAKED],
        OTHER_GPU,
    ]
    shut_down(bringing, name)
    power.machine = dataclasses.replace(whole, drives=(first, other), cards=(WITHOUT_LINK, *whole.cards[1:]))
    try:
        started(bringing, demo, name)
        simulate(demo, bringing, name, changed)
        refused(demo, segment, name, BUILT_CHECKS, said)
        shut_down(bringing, name)
    finally:
        power.off()
        power.machine = whole
    started(bringing, demo, name)
    simulate(demo, bringing, name)
    _, last, log = checked(demo, segment, [name], BUILT_CHECKS, "--no-record")
    if passed(log.read_text()) != len(BUILT_CHECKS):
        raise DemoError(f"{name}, as it was: {len(BUILT_CHECKS)} checks were to pass, seen: {last}. Next: read {log}")
    demo.say(f"{name}: another drive and misplaced cards named by {len(BUILT_CHECKS)} checks; as it was, they pass")


def started(bringing: Bringing, demo: Demo, name: str) -> None:
    """A server that is off, started from its drives to a login."""
    if not bringing.start([name], demo.say)[name]:
        raise DemoError(
            f"{name} did not come to a login. Next: read {bringing.servers[name].power.machine.console('disk')}"
        )


def refused(demo: Demo, segment: Segment, name: str, checks: Sequence[str], said: Sequence[str]) -> None:
    """Each of these checks fails for a node, and their words are among what is said."""
    _, last, log = checked(demo, segment, [name], checks, "--no-record")
    words = log.read_text()
    if not re.search(rf"\b{len(checks)} failed\b", last) or passed(words):
        raise DemoError(f"{name}: {len(checks)} checks were to fail, seen: {last}. Next: read {log}")
    if unsaid := [text for text in said if text not in words]:
        raise DemoError(f"{name}: the checks fail without a word of {'; '.join(unsaid)}. Next: read {log}")


def written_from_cd(demo: Demo, bringing: Bringing, found: Intents, image: boot.Image, name: str) -> None:
    """A machine is written once more, from a CD that its BMC shows; consent to what its drives hold is on the CD."""
    shut_down(bringing, name)
    given = [f"{name}:{serial}:{held}" for serial, held in contents(bringing, [name]).items()]
    key = (demo.paths.secrets / "ssh_ed25519.pub").read_text()
    folder, file = demo.images / ROLE, f"{ROLE}.iso"
    files = boot.medium(demo.plan, found, image, key, consents.parse(given, found))
    iso.write(folder, image, files, file, demo.plan.site.provisioning.console)
    if why := by_cd(bringing, name, Cd(folder / file, str(boot.boot_server(demo.plan))), demo.say):
        raise DemoError(f"{name}: {why}")


def faults(demo: Demo, bringing: Bringing, found: Intents, image: boot.Image, segment: Segment) -> None:
    """What goes wrong with one server, one thing after the other, while the others run on; in the end it is ready again."""
    victim, *others = bringing.servers
    boots = {name: bringing.run(name, "cat /proc/sys/kernel/random/boot_id") for name in others}
    held = contents(bringing, others)
    shut_down(bringing, victim)
    unknown_mac(demo, bringing, segment, victim)
    twin(demo, bringing, victim)
    bringing.again(victim)
    rogue_dhcp(demo, bringing, segment, victim)
    wrong_drive(demo, bringing, victim)
    small_drive(demo, bringing, victim)
    foreign(demo, bringing, victim)
    consented(demo, bringing, found, image, victim)
    broken_images(demo, bringing, image, victim)
    power_cut(demo, bringing, victim)
    unfinished_seed(demo, bringing, segment, victim)
    read_back(demo, bringing, victim, image)
    consent_again(demo, bringing, found, image, victim)
    again = {name: bringing.run(name, "cat /proc/sys/kernel/random/boot_id") for name in others}
    if None in again.values() or again != boots or contents(bringing, others) != held:
        raise DemoError(f"{', '.join(others)} did not run on as it was: boots {boots}, then {again}")
    demo.say(f"{', '.join(others)}: ran on, same boot, drives as they were")


def before_anything(demo: Demo, bringing: Bringing, loads: Mapping[str, Load], name: str) -> None:
    """A BMC that says nothing, one that says what is no Redfish, a port with a MAC that is not listed, and one with the MAC of
    another server: named stops, before anything of the server is touched.
    """
    if bringing.lives[name].step != "inspect":
        return
    faults = [("hangs", True, "bmc-silent"), *(("garbles", kind, "bmc-garbled") for kind in GARBLED)]
    for fault, how, state in faults:
        loads[name].bmc[fault] = how
        try:
            bringing.budgets["inspect"] = 5.0
            expect(demo, bringing.bring([name], demo.say), name, state)
        finally:
            bringing.budgets["inspect"] = INSPECT_S
            loads[name].bmc[fault] = type(how)()
    power = bringing.servers[name].power
    whole = power.machine
    others = [server.power.machine.mac for other, server in bringing.servers.items() if other != name]
    for mac in (STRANGER, *others):
        power.machine = dataclasses.replace(whole, mac=mac)
        try:
            expect(demo, bringing.bring([name], demo.say), name, "not-as-delivered")
        finally:
            power.machine = whole


def due_for_firmware(demo: Demo, bringing: Bringing, loads: Mapping[str, Load], names: Iterable[str]) -> list[str]:
    """Servers before their image whose BMC does not list the bundle: those that are left, where a roll-out was stopped half-way."""
    before = [name for name in names if bringing.lives[name].step in ("inspect", "firmware")]
    return [
        name for name in before if demo.bundle(loads[name]).faults(loads[name].bmc["firmware"], lambda package: True)
    ]


def firmware_of(
    demo: Demo, bringing: Bringing, loads: Mapping[str, Load], names: Sequence[str], *, short: bool
) -> None:
    """The roll-out of the bundle. Before it the first server refuses an altered image, gets one that brings another version and
    goes back, hangs, and loses its BMC in the middle: each named, and nothing of the other servers is touched.
    """
    plan, first = demo.plan, names[0]
    bmcs = {name: cast(Bmc, bringing.servers[name].bmc) for name in names}
    rack = plan.placements.set_index("device")["rack"]
    servers = pd.DataFrame(
        [(name, loads[name].spec.model, rack[name]) for name in names], columns=["name", "model", "rack"]
    )

    def tried(wanted: Bundle, said: str, run: Callable[[Callable[[], Outcome]], Outcome] = lambda act: act()) -> None:
        before = {name: bmc.firmware() for name, bmc in bmcs.items()}
        outcome = run(lambda: firmware.rolled_out(servers, bmcs, wanted, demo.say)[0])
        if len(outcome.failed) != 1 or said not in outcome.failed[0] or outcome.untouched != len(names) - 1:
            raise DemoError(f"firmware: expected {said!r}, saw {outcome}")
        if {name: bmc.firmware() for name, bmc in bmcs.items()} != before:
            raise DemoError(f"firmware: {said}, and yet versions changed")
        demo.say(f"firmware: {outcome.failed[0]}; {outcome.untouched} of later stages untouched, versions as before")

    with firmware.StandingStill([bringing.servers[name].power for name in names]):
        if not short:
            load = loads[first]
            tried(demo.bundle(load, names=["NIC"], altered="NIC"), "VerificationFailed")
            tried(demo.bundle(load, names=["GPU"], wrong="GPU"), "the previous release runs again")
            load.bmc["update_hangs"] = True
            tried(demo.bundle(load, names=["BIOS"]), "the earlier version still runs")
            load.bmc["update_hangs"] = False
            load.reset_bmc()
            time.sleep(2 * BMC_RESTART_S)
            lost = demo.bundle(load, names=["BMC"])
            tried(lost, "no such task", lambda act: firmware.restarted_in_the_middle(load, act))
            time.sleep(2 * BMC_RESTART_S)
        wanted = demo.bundle(loads[first])
        outcome, mixed = firmware.rolled_out(servers, bmcs, wanted, demo.say)
        for line in mixed:
            demo.say(f"firmware: {line}")
        if outcome.failed:
            raise DemoError("; ".join(outcome.failed))
        left = [name for name, bmc in bmcs.items() if wanted.faults(bmc.firmware(), lambda package: True)]
        if left:
            raise DemoError(f"firmware: {', '.join(left)} does not run its bundle after the roll-out")


def serials(bringing: Bringing, name: str) -> list[str]:
    return [drive.serial for drive in bringing.servers[name].power.machine.drives]


def reports_of(bringing: Bringing, names: Iterable[str]) -> list[Report]:
    """What these servers told the boot server so far."""
    told = bringing.segment.reports()
    return [one for name in names for one in told.get(hyphened(bringing.servers[name].power.machine.mac), [])]


def written(bringing: Bringing, name: str) -> list[Report]:
    """Its writings that were read back, in order."""
    return [report for report in reports_of(bringing, [name]) if report.state == "written"]


def alone(bringing: Bringing, proofs: Proofs, name: str) -> tuple[str, ...]:
    return proofs.alone(name, written(bringing, name)[-1].time)


def contents(bringing: Bringing, names: Iterable[str]) -> dict[str, str]:
    """By serial number of these servers' drives: SHA-256 of what their content is known by."""
    return {
        drive.serial: content(drive.file)
        for name in names
        for drive in bringing.servers[name].power.machine.drives
        if drive.file.exists()
    }


def content(file: Path) -> str:
    """SHA-256 over the first 2 MiB and the last MiB of a drive."""
    with file.open("rb") as drive:
        head = drive.read(HEAD_BYTES)
        drive.seek(-TAIL_BYTES, os.SEEK_END)
        return hashlib.sha256(head + drive.read(TAIL_BYTES)).hexdigest()


def brought(lives: dict[str, Life]) -> None:
    for name, life in lives.items():
        if life.step != "ready":
            raise DemoError(f"{name} stands at {life.step}: {life.stopped} {life.text}")


def running(demo: Demo, bringing: Bringing, names: Sequence[str], image: boot.Image) -> None:
    """All servers run the image, started from their drives where they were off."""
    for name, said in bringing.start(names, demo.say).items():
        if said.split()[1:2] != [image.version]:
            raise DemoError(
                f"{name} runs {said or 'nothing that lets us in'}, the image is {image.version}: "
                "begin with empty drives (--anew), or consent to overwrite them"
            )
    for name in names:
        read_back(demo, bringing, name, image)


def read_back(demo: Demo, bringing: Bringing, name: str, image: boot.Image) -> None:
    """The hash that the initramfs read from both drives is the image's, and the node is what the seed says."""
    last = written(bringing, name)[-1]
    if not last.text.startswith(image.parts["root"].sha256):
        raise DemoError(f"{name}: read back {last.text}, planned {image.parts['root'].sha256}")
    said = bringing.ask(name, "hostname; findmnt -no SOURCE /") or ""
    if said.split()[:1] != [name]:
        raise DemoError(f"{name} calls itself {said!r}")
    demo.say(f"{name}: image read back from both drives, root on {said.split()[-1]}")


def unchanged(demo: Demo, bringing: Bringing, names: Sequence[str], held: Mapping[str, str], told: int) -> None:
    """Servers that an earlier run brought to ready were not written: no report, and the mark of each writing as it was."""
    if contents(bringing, names) != held or len(reports_of(bringing, names)) != told:
        raise DemoError(f"{', '.join(names)}: ready before this run, and yet written by it")
    demo.say(f"{', '.join(names)}: ready before; nothing was written")


def record_all(demo: Demo, bringing: Bringing, proofs: Proofs, names: Sequence[str]) -> None:
    """Write installed.json from what servers reported and what they say of themselves now."""
    heard = collected.writings(boot.intents(demo.plan, demo.assets), bringing.segment.spool())
    said: dict[str, collected.Answer | str] = {
        name: collect.parse(bringing.run(name, f"sh -c {shlex.quote(collect.QUESTION)}") or "", name, time.time())
        for name in heard.written
    }
    uuids = {name: str(demo.assets.at[name, "uuid"]) for name in names}
    made, faults = collected.installed(heard, said, uuids, {})
    if faults := [*heard.faults, *heard.standing.values(), *faults]:
        raise DemoError("; ".join(faults))
    if missing_records := sorted({*names} - {one.server for one in made}):
        raise DemoError(f"no report says that {', '.join(missing_records)} was written")
    whole = []
    for one in made:
        times = bringing.times.get(one.server, {})
        took = {
            what: round(times[what] - times["on"], 1) for what in ("written", "login") if {what, "on"} <= times.keys()
        }
        if "login" in took and times.get("bare"):
            ratio = took["login"] / times["bare"]
            demo.say(
                f"{one.server}: power-on to login {took['login']:.0f} s, {ratio:.1f} times a start of this image from its drives"
            )
        seen = alone(bringing, proofs, one.server)
        whole.append(dataclasses.replace(one, alone=seen, written_s=took.get("written"), login_s=took.get("login")))
    path = write_file(demo.out / record.FILE, record.to_text(whole))
    demo.say(f"Recorded: {path}")


def judge(demo: Demo, segment: Segment, names: Sequence[str], checks: Sequence[str]) -> None:
    """Let the checks of the step register judge these nodes from within the segment, and sign their records. All must pass, and
    none may be left out.
    """
    status, last, log = checked(demo, segment, names, checks, also=SITE_CHECK)
    if status != 0:
        raise DemoError(f"not accepted: {last} (exit status {status}): {log}")
    wanted = len(checks) * len(names) + 1
    if passed(log.read_text()) != wanted:
        raise DemoError(f"not accepted: {wanted} checks were to pass, seen: {last}. Next: read {log}")
    demo.say(f"Accepted: {wanted} checks passed; {log}")


def checked(
    demo: Demo, segment: Segment, names: Sequence[str], checks: Sequence[str], *options: str, also: str = ""
) -> tuple[int, str, Path]:
    """Run these checks for these nodes, and the check `also` of the site: (exit status, what pytest says last, its log)."""
    chosen = f"(({' or '.join(checks)}) and ({' or '.join(names)}))" + (f" or {also}" if also else "")
    argv = [sys.executable, "-m", "pytest", "validation", "--site", str(demo.site_file), "-k", chosen]
    argv += ["-q", "-p", "no:cacheprovider", *options]
    log = demo.metal / ("built.log" if options else "judge.log")
    with log.open("w") as file:
        done = subprocess.run(
            segment.enter(argv),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            check=False,
            timeout=JUDGE_S,
            cwd=repo_root(),
        )
    last = (log.read_text().strip().splitlines() or ["nothing"])[-1]
    return done.returncode, last.strip("= "), log


def passed(said: str) -> int:
    """How many tests have passed, by pytest's last line of that kind."""
    found = re.findall(r"(?:^|[ ,])(\d+) passed\b.* in [\d.]+s", said, re.MULTILINE)
    return int(found[-1]) if found else 0


def expect(demo: Demo, lives: dict[str, Life], name: str, state: str) -> None:
    life = lives[name]
    if life.stopped != state:
        raise DemoError(
            f"{name} stands at {life.step} {life.stopped or 'without a stop'}, expected {state}: {life.text}"
        )
    demo.say(f"{name}: stopped as {state}")


def shut_down(bringing: Bringing, name: str) -> None:
    """A clean end, so that both drives hold the same."""
    power = bringing.servers[name].power
    if power.is_on:
        bringing.run(name, "sync; systemctl poweroff")
    deadline = time.monotonic() + SHUTDOWN_S
    while power.is_on and time.monotonic() < deadline:
        time.sleep(1)
    power.off()


def without_drive(demo: Demo, bringing: Bringing, proofs: Proofs, names: Sequence[str], lost: int) -> None:
    """Servers start from the drive that is left, all at once. What they write then is not kept."""
    whole = {name: bringing.servers[name].power.machine for name in names}
    for name in names:
        power = bringing.servers[name].power
        left = tuple(drive for number, drive in enumerate(whole[name].drives) if number != lost)
        power.machine = dataclasses.replace(whole[name], drives=left, kept=False)
        power.on("disk")
    said: dict[str, str | None] = dict.fromkeys(names)
    deadline = time.monotonic() + BUDGET_S["first-boot"]

    def due() -> list[str]:
        return [name for name in names if said[name] is None and bringing.servers[name].power.is_on]

    while time.monotonic() < deadline and (waiting := due()):
        for name in waiting:
            said[name] = bringing.run(name, "hostname; grep -o '\\[[U_]*\\]$' /proc/mdstat")
        time.sleep(1)
    for name in names:
        power, mirror = bringing.servers[name].power, said[name]
        state = "on" if power.is_on else f"off: {power.machine.log}"
        power.off()
        power.machine = whole[name]
        gone, left_drive = whole[name].drives[lost].serial, whole[name].drives[1 - lost].serial
        if mirror is None or "_" not in mirror:
            raise DemoError(f"{name} does not start without its drive {gone}: it says {mirror!r} and is {state}")
        proofs.started(name, written(bringing, name)[-1].time, left_drive)
        demo.say(f"{name}: starts without {gone}, mirror {mirror.split()[-1]}")


def unknown_mac(demo: Demo, bringing: Bringing, segment: Segment, name: str) -> None:
    """A machine whose MAC is not in the list gets nothing and is named."""
    server = bringing.servers[name]
    whole = server.power.machine
    server.power.machine = dataclasses.replace(whole, mac=STRANGER, name="stranger", drives=())
    server.power.on("network")
    deadline = time.monotonic() + TWIN_S
    while STRANGER not in (seen := strangers(segment.dhcp_log.read_text(errors="replace"))):
        if time.monotonic() > deadline:
            break
        time.sleep(1)
    server.power.off()
    server.power.machine = whole
    if STRANGER not in seen:
        raise DemoError(f"the unknown MAC {STRANGER} was not named; seen: {', '.join(seen) or 'none'}")
    demo.say(f"unknown MAC {STRANGER}: no address, named from the log of DHCP")


def strangers(log: str) -> list[str]:
    """MACs that asked dnsmasq for an address and were ignored."""
    return sorted({line.split()[-2] for line in log.splitlines() if line.endswith(" ignored")})


def marks(power: Power) -> list[bytes]:
    """What stands on each drive where the initramfs marks its writing."""
    found = []
    for drive in power.machine.drives:
        with drive.file.open("rb") as file:
            file.seek(MARK_AT)
            found.append(file.read(MARK_BYTES))
    return found


def set_marks(power: Power, texts: Sequence[bytes]) -> None:
    for drive, text in zip(power.machine.drives, texts, strict=True):
        with drive.file.open("r+b") as file:
            file.seek(MARK_AT)
            file.write(text.ljust(MARK_BYTES, b"\0"))


def foreign(demo: Demo, bringing: Bringing, name: str) -> None:
    """Somebody else's data where the mark of our writing was."""
    power = bringing.servers[name].power
    power.off()
    set_marks(power, [b"somebody else's data"] * len(power.machine.drives))
    demo.say(f"{name}: both drives hold something else")


def consented(demo: Demo, bringing: Bringing, found: Intents, image: boot.Image, name: str) -> None:
    """Drives that hold something are refused, all in one stop, until there is consent to what lies on them."""
    expect(demo, bringing.bring([name], demo.say), name, "foreign-content")
    mac = hyphened(bringing.servers[name].power.machine.mac)
    given = consents.asked_for({name: bringing.segment.reports()[mac]})[name]
    demo.render(found, image, given)
    demo.say(f"{name}: consent to {' and '.join(text.split(':')[1] for text in given)}")


def consent_again(demo: Demo, bringing: Bringing, found: Intents, image: boot.Image, name: str) -> None:
    """The consent that was used holds no second time. With its mark back, the server counts as written, and is only started."""
    power = bringing.servers[name].power
    shut_down(bringing, name)
    ours = marks(power)
    foreign(demo, bringing, name)
    bringing.again(name)
    expect(demo, bringing.bring([name], demo.say), name, "foreign-content")
    demo.say(f"{name}: the same consent holds no second time")
    demo.render(found, image)
    set_marks(power, ours)
    writings = len(written(bringing, name))
    brought(bringing.bring([name], demo.say))
    if len(written(bringing, name)) != writings:
        raise DemoError(f"{name} has the image on its drives and was written again")
    demo.say(f"{name}: started from the network with the image on its drives, and not written again")


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
        if file.read(HEAD_BYTES).strip(b"\0"):
            raise DemoError("the drive that was not planned was written")


def small_drive(demo: Demo, bringing: Bringing, name: str) -> None:
    """The planned serial number on a drive that the image does not fit on."""
    power = bringing.servers[name].power
    whole = power.machine
    drive = wire.small(whole.drives[0])
    power.machine = dataclasses.replace(whole, drives=(drive, *whole.drives[1:]))
    lives = bringing.bring([name], demo.say)
    power.machine = whole
    expect(demo, lives, name, "disk-too-small")
    drive.file.unlink()


def twin(demo: Demo, bringing: Bringing, name: str) -> None:
    """A second machine with the MAC of a planned one, which is off: it gets that one's script; its drive is not planned."""
    power = bringing.servers[name].power
    whole = power.machine
    other = Drive("sim-drive-twin", whole.folder / "sim-drive-twin.raw").ensure()
    told = len(reports_of(bringing, [name]))
    power.machine = dataclasses.replace(whole, name="twin", drives=(other,), serial="sim-twin", uuid="")
    power.on("network")
    deadline = time.monotonic() + TWIN_S
    while not (said := [one for one in reports_of(bringing, [name])[told:] if one.state in SAFE_STOPS]):
        if time.monotonic() > deadline:
            break
        time.sleep(1)
    power.off()
    power.machine = whole
    if [one.state for one in said] != ["wrong-disk"]:
        raise DemoError(
            f"two machines with the MAC {whole.mac}: expected wrong-disk, heard {[one.state for one in said]}"
        )
    with other.file.open("rb") as file:
        if file.read(HEAD_BYTES).strip(b"\0"):
            raise DemoError(f"the drive of a second machine with the MAC {whole.mac} was written")
    other.file.unlink()
    demo.say(f"two machines with the MAC {whole.mac}: the second stopped as wrong-disk, its drive is as it was")


def rogue_dhcp(demo: Demo, bringing: Bringing, segment: Segment, name: str) -> None:
    """Another DHCP server on the segment: the server is not switched on while it answers."""
    with wire.another_dhcp(segment):
        lives = bringing.bring([name], demo.say)
        expect(demo, lives, name, "rogue-dhcp")
    if wire.ROGUE_ADDRESS not in lives[name].text or bringing.servers[name].power.is_on:
        raise DemoError(
            f"{name}: the other DHCP server {wire.ROGUE_ADDRESS} was not named before the start: {lives[name].text}"
        )


def broken_images(demo: Demo, bringing: Bringing, image: boot.Image, name: str) -> None:
    """The boot server serves half of the image, then an image that unpacks and is another one."""
    root = image.parts["root"].file
    served = demo.boot / boot.HTTP / "images" / image.role / image.version / root
    whole = served.read_bytes()
    for data, state in ((whole[: len(whole) // 2], "image-broken"), (wire.altered(served), "image-altered")):
        with wire.replaced(served, data):
            expect(demo, bringing.bring([name], demo.say), name, state)


def power_cut(demo: Demo, bringing: Bringing, name: str) -> None:
    """The power goes while the image is written; the same call writes it again, without a consent."""
    cuts: list[threading.Timer] = []

    def watch(server: str, life: Life) -> None:
        if life.step == "image" and "to SIM" in life.text and not cuts:
            cuts.append(threading.Timer(WRITING_S, bringing.servers[server].power.off))
            cuts[0].start()

    expect(demo, bringing.bring([name], demo.say, watch), name, "power-off")
    demo.say(f"{name}: power cut {WRITING_S:g} s after writing began; the same call again")


def unfinished_seed(demo: Demo, bringing: Bringing, segment: Segment, name: str) -> None:
    """The server is written, and a script of its seed does not end; once what it waits for is there, the same call goes on."""
    server = bringing.servers[name]
    folder = demo.boot / boot.HTTP
    seed = folder / "seed" / hyphened(server.power.machine.mac) / "user-data"
    asked = len(segment.log_of_http())
    with wire.waiting_seed(folder, seed, segment.network.address.partition("/")[0]) as page:
        bringing.budgets["seed"] = 1.0
        try:
            expect(demo, bringing.bring([name], demo.say), name, "seed-unfinished")
        finally:
            del bringing.budgets["seed"]
        if not wire.waits(segment, server.access.address, asked):
            raise DemoError(f"{name}: stopped as seed-unfinished, and yet its script has asked for nothing")
        demo.say(f"{name}: cloud-init waits for {page.name}, which is put there; the same call again")
    brought(bringing.bring([name], demo.say))
