"""Devices of the lab's plan that answer every question of the checks, below the drivers and without a simulator's marker.

What nodes print is that of the lab's healthy recording (data/healthy.json), with what names a simulator taken out. What the
lab cannot have (memory modules, drives, PCIe trees, links of adapters) is modelled. Nothing here was recorded on metal.
"""

import ast
import base64
import copy
import dataclasses
import hashlib
import json
import re
import shlex
import shutil
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pysnmp.proto import rfc1902
from requests.adapters import HTTPAdapter

from bench.fabric import discovered_text
from capacity.build import build
from capacity.model import Plan
from capacity.power.rack.circuits import pdu_thresholds_a
from capacity.services.telemetry import load as load_rules
from infra.cli.imports import IMPORTS
from inventory.delivered import power_acts
from inventory.delivered.assets import load_assets
from inventory.delivered.firmware import FIRMWARE_DIR
from inventory.secrets import reference_path
from inventory.site import Site
from inventory.site.sections.acceptance import Limit
from network.drivers.errors import Unreachable
from network.drivers.pdu import OIDS, Pdu
from network.drivers.ssh import Completed, SshHost
from network.infiniband import subnet
from network.infiniband.manager import PROGRAM as MANAGER
from network.nos.frr.driver import Switch
from network.render import whole
from tests.network.drivers.test_redfish import link, members
from tests.network.infiniband.fabrics import recorded
from tests.plans import plan_of
from tests.validation import modelled_links
from tests.validation.bench import A_DAY, public_of, signature
from tests.validation.modelled_slurm import Cluster
from tests.validation.test_channels_to_go_live import GATHER, Metal, Service
from validation import drift_reports, readings
from validation.checks import test_scheduler
from validation.checks.test_power import label, planned_outlets
from validation.evidence.mode import PINNED
from validation.evidence.results import NAMESPACE
from validation.facts import node_results, revoked, storage, storage_acts
from validation.facts.gather import address_of
from validation.facts.telemetry import DRILL
from validation.facts.telemetry import FACTS as TELEMETRY_FACTS
from validation.gpu_health import address
from validation.runners import local, slurm_trials, training
from validation.runners.ansible import Drift
from validation.runners.slurm import Slurm

HEALTHY = json.loads((Path(__file__).parent / "data" / "healthy.json").read_text())
IMPORTED = Path(__file__).parents[1] / "data" / "imports"
MODELLED = Path(__file__).parents[1] / "data" / "modelled"
ADAPTER = json.loads((MODELLED / "mlxlink" / "ndr.json").read_text())
FACTORY = "as-delivered"
GIB_MIB = 1024
TB = 10**12
TRAINING = ("mountpoint -q ", "umask 077; mkdir -p ", "mkdir -p /shared/jobs", "cd /shared/jobs", "rm -rf /shared/jobs")
"""Commands by which a training makes, reads and removes its folder on the shared storage."""
OUTLET_W = 10
"""What each outlet delivers (Metal.walk)."""
GPUS_PER_SWITCH = 2
"""GPUs and adapters below each PCIe switch of lab-gpu-node: 32 lanes of 16."""


def unmarked(said: Any) -> Any:
    """A recorded answer without the words by which the lab's devices say that they are simulated."""
    if isinstance(said, dict):
        return {key: unmarked(value) for key, value in said.items()}
    if isinstance(said, list):
        return [unmarked(value) for value in said]
    return said.replace("SIMULATED ", "") if isinstance(said, str) else said


def own_password(server: str) -> str:
    """Of the site's account on a server's BMC."""
    return f"the password of {server}"


def with_credentials(site: Site, folder: Path) -> Site:
    """The site with keys and passwords in a folder, and host keys pinned in `folder/known_hosts`."""
    own = Ed25519PrivateKey.generate()
    texts = {
        "ssh": own.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode(),
        "word": "a long password",
        "factory": FACTORY,
        "ca.pem": "",
        **{f"bmc-{name}": own_password(name) for name in plan_of("lab").devices["name"]},
    }
    for name, text in texts.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    (folder / "ssh.pub").write_text(f"ssh-ed25519 {public_of(own)} operator\n")
    given, word, of_bmcs = site.credentials, f"file:{folder / 'word'}", f"file:{folder / 'bmc-{device}'}"
    pinned = {"key": f"file:{folder / 'ssh'}", "known_hosts": str(folder / "known_hosts"), "host_keys": PINNED}
    assert given.bmc.factory is not None
    factory = given.bmc.factory.model_copy(update={"password": f"file:{folder / 'factory'}"})
    made = given.model_copy(
        update={
            "snmp": given.snmp.model_copy(update={"auth": word, "priv": word}),
            "bmc": given.bmc.model_copy(update={"password": of_bmcs, "ca": str(folder / "ca.pem"), "factory": factory}),
            "ssh": given.ssh.model_copy(update=pinned),
            "switch": given.switch.model_copy(update=pinned),
        }
    )
    return site.model_copy(update={"credentials_given": made})


MORE_LIMITS = {
    "link_ber_max": (1e-12, "errors/bit"),
    "link_raw_ber_max": (2.4e-4, "errors/bit"),
    "collectives_busbw_pct": (80, "%"),
    "energy_loss_pct": (2, "%"),
    "transport_temperature_min_c": (-20, "C"),
    "drift_reports_apart_s": (3600, "s"),
    "transport_temperature_max_c": (60, "C"),
    "transport_humidity_max_pct": (90, "%"),
    "transport_shock_max_g": (20, "g"),
}
"""Limits that the lab's site file lacks, since the lab has neither such links nor such files."""


def with_limits(site: Site) -> Site:
    """The site with limits for what the lab does not have, and with workloads on its GPUs."""
    more = {key: Limit(value=value, unit=unit, source="test") for key, (value, unit) in MORE_LIMITS.items()}
    validation = site.validation.model_copy(update={"workloads_on": "gpu", "fault_injection": False})
    return site.model_copy(update={"limits": {**site.limits, **more}, "validation": validation})


LOCAL, ASSIGNED = "02420a00", "b83fd200"
"""Starts of GUIDs: those of the lab are locally administered, which no vendor assigns."""


def delivered(site: Site, folder: Path) -> Site:
    """The site in a folder of its own, with what was delivered and imported: lists, manifest, scan, tests, loggers, meters, use."""
    for name in ("assets.csv", "gpus.csv", "as_built.csv"):
        (folder / name).write_text((site.dir / name).read_text().replace(LOCAL, ASSIGNED))
    with (folder / "assets.csv").open("a") as lists:
        lists.writelines(f"{place},modelled,{serial},,,\n" for place, serial in _drives(plan_of("lab")))
    shutil.copytree(site.dir / FIRMWARE_DIR, folder / FIRMWARE_DIR)
    plan, gpus = plan_of("lab"), list(plan_of("lab").gpus.itertuples())
    sent = [f"{one.device},gpu,H100 SXM5 80GB,{one.serial},r01,1,{one.slot},{one.device}" for one in gpus]
    scans = [f"{one.serial},H100 SXM5 80GB,2026-11-02T09:00:00Z,scanner 3" for one in gpus]
    tests = [f"{one.serial},{600 + number},700,t{number}" for number, one in enumerate(gpus)]
    files = {
        "manifest": "\n".join(["device,kind,part,serial,rack,u,slot,parent", *sent]).encode(),
        "scan": "\n".join(["barcode,part,scanned,scanner", *scans]).encode(),
        "gpu-tests": "\n".join(["GPU serial,TFLOPS,Power (W),Run", *tests]).encode(),
        **{kind: (IMPORTED / f"{kind}.csv").read_bytes() for kind in ("transport", "energy", "usage")},
    }
    made = site.model_copy()
    made._path = folder / "site.yaml"
    plan = dataclasses.replace(plan, site=made)
    for kind, data in files.items():
        options = Namespace(
            kind=kind, file=Path(f"{kind}.csv"), map=IMPORTED / "manifest_map.yaml", encoding=None, replace=False
        )
        if kind != "manifest":
            options.map = None
        for name, text in IMPORTS[kind](plan, data, options).files.items():
            if Path(name).parts[0] == "imports":
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text)
    return made


def _drives(plan: Plan) -> Iterator[tuple[str, str]]:
    """(place in the asset list, serial number) of each drive, as `WholeSite` has them in its servers."""
    for name, model in plan.devices.loc[plan.devices["kind"] == "server", ["name", "model"]].itertuples(index=False):
        for kind in plan.catalog.device(str(model)).bringup.drives:
            yield from ((f"{name}:{kind.use}{n}", f"{name}-{kind.use}{n}") for n in range(kind.count))


class WholeSite(Metal):
    """Every device of the plan, asked by whatever check."""

    def __init__(self, site: Site) -> None:
        super().__init__(build(site))
        self.services = {address: _WholeService(self, one.name) for address, one in self.services.items()}
        self.recorded = {
            name: {**unmarked(answer["data"]), "clock_day": A_DAY} for name, answer in HEALTHY["nodes"].items()
        }
        self.stopped: set[str] = set()
        self.accepts = Path()
        self.guids = subnet.guid_book(self.assets)
        self.slurm = Cluster(self.plan, lambda node, message: signature(message, self.keys[node], NAMESPACE))
        self.programs: dict[str, Callable[[str, Any], Any]] = {
            GATHER.NODE_FACTS: self.node_facts,
            GATHER.GPU_FACTS: self.gpu_facts,
            GATHER.MACHINE_FACTS: self.machine_facts,
            storage.PROGRAM: self.storage_facts,
            TELEMETRY_FACTS: self.telemetry_facts,
            DRILL: self.fire_drill,
            MANAGER: self.manager,
            node_results.PROGRAM.read_text(): self.slurm_result,
            storage_acts.MAKE: lambda name, request: True,
            storage_acts.WRITE_CANARY: lambda name, request: "ab" * 32,
            storage_acts.REMOVE: lambda name, request: True,
            revoked.PROGRAM: self.key_of_a_check,
        }

    # -- SSH -------------------------------------------------------------------------------------------------------------
    def ssh(self, host: SshHost, text: str, stdin: bytes, *more: Any) -> Completed:
        name, program = self.names[host.address], stdin.decode()
        for source, answer in self.programs.items():
            if program.endswith(source):
                return Completed(0, json.dumps(answer(name, asked(program[: -len(source)]))), "", 0.1)
        if text == "sh -s" or text == GATHER.SIGN or text.startswith(("cat /sys/class/net/", "bridge -j fdb show ")):
            return super().ssh(host, text, stdin, *more)
        if self.plan.devices.set_index("name").at[name, "role"] == "controller":
            if (jobs := self.slurm.command(text, stdin)) is not None:
                status, out, err = jobs
                return Completed(status, out, err, 0.1)
            if text.startswith(TRAINING):
                return Completed(0, self.slurm.metrics() if "tail -v" in text else "", "", 0.1)
        if printed := re.match(r"cat /var/tmp/bringup-(\d+)\.out; rm ", text):
            return Completed(0, self.slurm.output(int(printed[1])), "", 0.1)
        said = self.shell(name, shlex.split(text))
        return Completed(*(said if isinstance(said, tuple) else (0, said)), "", 0.1)

    def key_of_a_check(self, name: str, request: Any) -> dict[str, Any]:
        """A server that lets in who is authorised (a file below `accepts`), and nobody whose key is revoked."""
        login = self.accepts / f"{request['login']}@{address_of(self.plan, name, 'provisioning')}"
        if request["verb"] == "authorise":
            login.touch()
        else:
            login.unlink(missing_ok=True)
        users = request["users"]
        places = {"revoked": "/etc/ssh/revoked_keys", "pattern": "/etc/ssh/authorized_keys.d/%u"}
        return {**places, "user": users[0] if users else "", "known": users}

    def slurm_result(self, name: str, request: Any) -> Any:
        return self.slurm.result(name, request)

    def shell(self, name: str, words: list[str]) -> str | tuple[int, str]:
        """What a node's own tools say, as testinfra asks them; (exit status, output) where the status matters."""
        data = self.node_facts(name, None)["facts"]
        match words:
            case ["uname", option]:
                return {"-s": "Linux", "-r": data["kernel"], "-m": "x86_64"}[option]
            case ["cat", "/etc/os-release"]:
                return "".join(f'{key}="{value}"\n' for key, value in data["os_release"].items())
            case ["command", "-v", program]:
                return f"/usr/bin/{program}\n"
            case ["test", _, path]:
                there = (
                    path in data["files"]
                    or path == "/run/systemd/system/"
                    or path.replace("/", ".").removeprefix(".proc.sys.") in data["sysctls"]
                )
                return 0 if there else 1, ""
            case ["dpkg-query", "-f", shape, "-W", package]:
                version = data["packages"].get(package)
                return (
                    (1, "") if version is None else f"install ok installed{f' {version}' if 'Version' in shape else ''}"
                )
            case ["systemctl", "list-unit-files", *_, pattern]:
                return 0 if pattern.removeprefix("^").removesuffix(".service") in data["enabled"] else 1, ""
            case ["systemctl", "is-active", unit]:
                state = data["units"]["services"].get(unit.removesuffix(".service"), "").partition("/")[0]
                return 0 if state == "active" else 3, state
            case ["systemctl", "is-enabled", unit]:
                return 0, data["enabled"][unit.removesuffix(".service")]
            case ["stat", "-Lc", what, path]:
                mode, _, owner = data["files"][path].partition(" ")
                user, _, group = owner.partition(":")
                return {"%a": mode, "%U": user, "%G": group}[what]
            case [program, "-n", key] if program.endswith("sysctl"):
                return str(data["sysctls"][key])
            case ["cat", "/proc/mounts"]:
                lines = [(path, *device.split()) for path, device in data["mounts"].items()]
                return "".join(f"{device} {path} {kind} rw 0 0\n" for path, device, kind in lines)
            case ["id", *option, user]:
                uid, gid, *_ = data["users"].get(user, ":").split(":")
                return {"": "", "-u": uid, "-g": gid}["".join(option)] if user in data["users"] else (1, "")
            case ["getent", "passwd", user]:
                return passwd(user, data["users"][user])
            case ["cat", "/etc/passwd"]:
                return "\n".join(passwd(user, entry) for user, entry in data["users"].items())
        raise Unreachable(name, shlex.join(words), "an answer", "none", "this site is modelled without it")

    def node_facts(self, name: str, request: Any) -> dict[str, Any]:
        data = copy.deepcopy(self.recorded[name])
        for part in ("gpus", "storage", "machine", "errors"):
            data.pop(part, None)
        for key in ("VARIANT", "VARIANT_ID"):
            data["os_release"].pop(key, None)
        asked = super().facts(name, b"")
        data["guids"] = asked["guids"]
        if "macs" in asked:
            data["macs"] = asked["macs"]
        if name == "ctl01":
            data["slurm"]["nodes"] = asked["slurm"]["nodes"]
        public = reference_path(self.plan.site.credentials.ssh.key, self.plan.site.dir).with_name("ssh.pub").read_text()
        digest = hashlib.sha256(base64.b64decode(public.split()[1])).digest()
        print_of = "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
        data["keys"] = {place: [print_of] for place in data["keys"]}
        services = ("chrony", "lldpd", "munge", "prometheus-node-exporter", "slurmctld", "slurmd", "slurmdbd", "ssh")
        data["enabled"] = {one: "enabled" for one in services if one in data["units"]["services"]}
        data["files"] = {
            "/etc/passwd": "0644 root:root",
            "/etc/shadow": "0640 root:shadow",
            "/etc/sudoers": "0440 root:root",
        }
        data["sysctls"] = {"net.ipv4.ip_forward": "0", "net.ipv4.conf.all.rp_filter": "2"}
        mount = self.recorded[name]["storage"].get("mount") or {}
        shared = {"/shared": f"{mount['source']} {mount['type']}"} if mount else {}
        data["mounts"] = {"/": "/dev/md0 ext4", **shared}
        return {"facts": data, "errors": {}}

    def gpu_facts(self, name: str, request: Any) -> dict[str, Any]:
        said = copy.deepcopy(self.recorded[name]["gpus"])
        x16 = {"width": "16", "max_width": "16", "speed": "32.0 GT/s PCIe", "max_speed": "32.0 GT/s PCIe"}
        nics = {f"mlx5_{n}": x16 for n in range(len(said["devices"]))}
        return {**said, "container": "", "module": said["driver"], "module_flavour": "open", "xids": [], "nics": nics}

    def machine_facts(self, name: str, request: Any) -> dict[str, Any]:
        """dmidecode, EDAC, sysfs, nvme-cli, md and efibootmgr of a server that is built as its catalogue entry says."""
        if request and "ethtool" in request:
            return {
                "container": "",
                "errors": {},
                "ethtool": modelled_links.kernel(self.plan, name, request["ethtool"]),
            }
        device = self.plan.catalog.device(str(self.plan.devices.set_index("name").at[name, "model"])).bringup
        made: dict[str, Any] = {
            "container": "",
            "errors": {},
            "ethtool": modelled_links.kernel(self.plan, name),
            "memory": [],
            "controllers": [],
            "pcie": {},
            "adapters": {},
        }
        made |= {"interfaces": {}, "drives": [], "arrays": [], "links": {}}
        if memory := device.memory:
            size = int(memory.dimm_gib * GIB_MIB)
            made["memory"] = [
                {"locator": f"DIMM {n}", "bank": "", "size_mib": size, "speed_mts": 4800, "configured_mts": 4800}
                | {"serial": f"{name}-M{n}", "part": "P1"}
                for n in range(memory.dimms)
            ]
            modules = [
                [
                    {"location": f"channel {channel} slot {slot}", "size_mib": size}
                    for channel in range(memory.channels)
                    for slot in range(memory.per_channel)
                ]
                for _ in range(device.cpus)
            ]
            made["controllers"] = [
                {"name": f"mc{n}", "corrected": 0, "uncorrected": 0, "modules": each} for n, each in enumerate(modules)
            ]
        gpus = [f"{address(gpu['pci_bus_id'])}.0" for gpu in self.recorded[name].get("gpus", {}).get("devices", [])]
        full = {"width": 16, "max_width": 16, "speed_gts": 32.0, "max_speed_gts": 32.0}
        for n, (port, rdma) in enumerate(zip(device.fabric_ports, device.rdma_devices, strict=True)):
            own, above = f"0001:{n:02x}:00.0", [f"root{n // GPUS_PER_SWITCH}", f"up{n // GPUS_PER_SWITCH}"]
            numa = n * 2 // max(1, len(device.fabric_ports))
            made["pcie"][own] = {"path": [*above, f"down{n}", own], "numa": numa, **full}
            made["adapters"][rdma] = {"pcie": own, "guid": self.guids.get(f"{name}:{port}", "")}
            made["links"][rdma] = json.dumps(ADAPTER).replace("IB-NDR", "IB-HDR")
            if n < len(gpus):
                made["pcie"][gpus[n]] = {"path": [*above, f"down-gpu{n}", gpus[n]], "numa": numa, **full}
        for kind in device.drives:
            for n in range(kind.count):
                place = f"0002:{len(made['drives']):02x}:00.0"
                made["pcie"][place] = {"path": ["rootd", place], "numa": 0, **full, "width": 4, "max_width": 4}
                drive: dict[str, Any] = {
                    "name": f"nvme{len(made['drives'])}n1",
                    "pcie": place,
                    "model": f"NVMe {kind.tb:g} TB",
                }
                drive |= {"serial": f"{name}-{kind.use}{n}", "firmware": "1.0", "size_b": int(kind.tb * TB)}
                made["drives"].append(drive | {"critical_warning": 0, "percent_used": 1, "media_errors": 0})
        boot = [drive["name"] for drive in made["drives"]][:2]
        if boot:
            sync = [{"partition": f"{disk}p2", "disk": disk, "state": "in_sync"} for disk in boot]
            made["arrays"] = [
                {"name": "md0", "level": "raid1", "state": "clean", "disks": 2, "degraded": 0, "members": sync}
            ]
        parts: list[dict[str, Any]] = [
            {"name": f"{d}p1", "disk": d, "uuid": f"{d}-esp", "loaders": {"/EFI/BOOT": "ab"}} for d in boot
        ]
        entries = [{"id": f"000{n}", "partition": part["uuid"], "active": True} for n, part in enumerate(parts)]
        return {**made, "boot": {"firmware": "uefi", "partitions": parts, "entries": entries}}

    def storage_facts(self, name: str, request: Any) -> dict[str, Any]:
        return dict(self.recorded[name]["storage"])

    def telemetry_facts(self, name: str, request: Any) -> dict[str, Any]:
        said = copy.deepcopy(HEALTHY["telemetry"][name]["data"])
        gpus = said.pop("gpus")
        said["queries"]["gpu_fields"] = [
            {"labels": {"UUID": uuid, "instance": gpu["instance"], "__name__": field}, "value": 1.0}
            for uuid, gpu in gpus.items()
            for field in gpu["fields"]
        ]
        said.pop("errors")
        said["series"] = modelled_links.telemetry_series(self.plan)
        return {"facts": said, "errors": {}}

    def fire_drill(self, name: str, request: Any) -> dict[str, Any]:
        rules = {rule.alert: rule.severity for rule in load_rules(self.plan.site)}
        each = {alert: {"severity": rules[alert], "delivered_s": 10.3, "cleared_s": 4.9} for alert in request["expect"]}
        return {"alerts": each, "unit_tests": {"status": 0, "output": "SUCCESS"}}

    # -- the InfiniBand subnet -------------------------------------------------------------------------------------------
    def manager(self, name: str, request: Any) -> dict[str, Any]:
        """What a host with a subnet manager says to network/infiniband/on_host.py's verbs."""
        verb, _ = request
        first, second = subnet.managers(self.plan)[:2]
        if verb in ("stop", "start"):
            self.stopped = {first} if verb == "stop" else set()
            return {}
        master = second if first in self.stopped else first
        if verb == "diagnose":
            return {"error": "ibdiagnet is not installed"}
        if verb == "watch":
            return {"master": True, "sent": 100, "lost": [], "watched_s": 4.5}
        said = {"own": "" if name in self.stopped else self.sminfo(name, master), "master": self.sminfo(master, master)}
        if verb == "read":
            return {
                "files": {},
                "newer": [],
                "unit": {},
                "packages": {},
                "ports": [],
                "manager": said,
                "engine": "ftree",
            }
        seen = HEALTHY["subnets"][subnet.managers(self.plan)[0]]["data"]
        return {
            "ibnetdiscover": discovered_text(self.plan, self.guids, "4xHDR"),
            "ibqueryerrors": recorded("ibqueryerrors.txt"),
            "manager": said,
            "engine": "ftree",
            "pkeys": {
                port.replace(LOCAL, ASSIGNED): " ".join(f"0x{key:04x}" for key in keys)
                for port, keys in seen["pkeys"].items()
            },
            "lanes": {port.replace(LOCAL, ASSIGNED): recorded("smpquery-sl2vl.txt") for port in seen["lanes"]},
            "arbitration": {
                port.replace(LOCAL, ASSIGNED): recorded("smpquery-vlarb.txt") for port in seen["arbitration"]
            },
        }

    def sminfo(self, name: str, master: str) -> str:
        guid, state = self.guids[subnet.manager_port(self.plan, name)], "MASTER" if name == master else "STANDBY"
        priority = 15 - subnet.managers(self.plan).index(name)
        return f"sminfo: sm lid 1 sm guid 0x{guid}, activity count 7 priority {priority} state 3 SMINFO_{state}"

    # -- switches --------------------------------------------------------------------------------------------------------
    def verb(self, switch: Switch, verb: str, arguments: tuple[str, ...], stdin: bytes) -> tuple[int, str, str]:
        if verb in ("running", "saved"):
            return 0, whole(self.plan, switch.name), ""
        if verb == "bgp":
            peers = HEALTHY["switches"][switch.name]["data"]["neighbours"]
            said = {"ipv4Unicast": {"peers": {peer: {"state": state} for peer, state in peers.items()}}}
            return 0, json.dumps(said), ""
        if verb in ("compare", "diff"):
            return 0, "", ""
        return super().verb(switch, verb, arguments, stdin)

    # -- PDUs ------------------------------------------------------------------------------------------------------------
    def get(self, pdu: Pdu, oids: list[str]) -> list[Any]:
        found = super().get(pdu, oids)
        texts = {oid: field for field, oid in OIDS["identity"].items()}
        for n, oid in enumerate(oids):
            if texts.get(oid) == "firmware":
                found[n] = rfc1902.OctetString(self.plan.site.versions["pdu"].encode())
            elif oid == OIDS["device"]["power"]["oid"]:
                found[n] = rfc1902.Integer32(
                    len(planned_outlets(self.plan, pdu.name)) * OUTLET_W // OIDS["device"]["power"]["scale"]
                )
        return found

    def walk(self, pdu: Pdu, column: str) -> dict[int, Any]:
        rows = planned_outlets(self.plan, pdu.name)
        if column == OIDS["outlet"]["name"]:
            names = {
                int(row["outlet"]): label(row["device"], row["psu"]) for row in rows.reset_index().to_dict("records")
            }
            return {n: rfc1902.OctetString(name.encode()) for n, name in names.items()}
        breaker_a = self.plan.circuits.loc[self.plan.circuits["pdu"] == pdu.name, "breaker_a"].iloc[0]
        limits = pdu_thresholds_a(float(breaker_a), self.plan.site.power.derating)
        for field, value in zip(("near_overload_a", "overload_a"), limits, strict=True):
            if column == OIDS["phase"].get(field):
                return {n: rfc1902.Integer32(int(value)) for n in (1, 2, 3)}
        return super().walk(pdu, column)


def passwd(user: str, entry: str) -> str:
    """A line of /etc/passwd: node facts tell uid, gid, home and shell."""
    uid, gid, home, shell = entry.split(":")
    return f"{user}:x:{uid}:{gid}::{home}:{shell}"


def asked(head: str) -> Any:
    """The request that came with a program. Callers send both as one Python text, the request in calls before the program
    (ssh.with_request). A subnet manager's host gets a verb as well: [verb, request].
    """
    calls = [
        node.value for node in ast.parse(head).body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
    words = [ast.literal_eval(call.args[-1]) for call in calls]
    return [*words[1:], json.loads(words[0])] if len(words) > 1 else json.loads(words[0])


class _WholeService(Service):
    """A server's BMC that is set up as the plan has it."""

    def __init__(self, metal: Metal, name: str) -> None:
        super().__init__(metal, name)
        self.name, site = name, metal.plan.site
        built = readings.built_of(metal.plan, name)
        self["Systems/1"] |= {
            "PowerState": "On",
            "BootProgress": {"LastState": "OSRunning", "LastBootTimeSeconds": 61.5},
            "ProcessorSummary": {"Count": built.cpus},
            "MemorySummary": {"TotalSystemMemoryGiB": built.memory_gib},
        }
        self["Managers/1"]["FirmwareVersion"] = site.versions["bmc"]
        time_servers = [str(one) for one in site.addressing.ntp]
        self["Managers/1/NetworkProtocol"]["NTP"] = {"ProtocolEnabled": True, "NTPServers": time_servers}
        log_server = {"State": "Enabled", "Address": str(site.addressing.syslog[0]), "Port": 514}
        self["Managers/1/NetworkProtocol"]["Oem"] = {"Nvidia": {"Rsyslog": log_server}}
        inventory = "UpdateService/FirmwareInventory"
        runs = HEALTHY["bmcs"][name]["data"]["firmware"] | {one: site.versions[one.lower()] for one in ("BIOS", "BMC")}
        self[inventory] = members(*(f"{inventory}/{item}" for item in runs))
        for item, version in runs.items():
            self[f"{inventory}/{item}"] = {"Id": item, "Name": item, "Version": version}
        self["Chassis/1"] |= {"Thermal": link("Chassis/1/Thermal")}
        well = {"State": "Enabled", "Health": "OK"}
        self["Chassis/1/Thermal"] = {
            "Fans": [{"Name": f"Fan {n}", "Reading": 9000, "ReadingUnits": "RPM", "Status": well} for n in (1, 2)],
            "Temperatures": [
                {"Name": "Inlet", "ReadingCelsius": 24, "PhysicalContext": "Intake", "Status": well},
                {"Name": "Outlet", "ReadingCelsius": 38, "PhysicalContext": "Exhaust", "Status": well},
            ],
        }


def guarded(patch: pytest.MonkeyPatch, services: dict[str, Any]) -> None:
    """BMCs that take their own password alone and keep what is written, above redfish_in_memory.serve."""
    served = HTTPAdapter.send
    logins = {
        host: f"Basic {base64.b64encode(f'admin:{own_password(one.name)}'.encode()).decode()}"
        for host, one in services.items()
    }

    def send(self: HTTPAdapter, request: requests.PreparedRequest, *more: Any, **named: Any) -> requests.Response:
        url = urlsplit(str(request.url))
        said = served(self, request, *more, **named)
        if request.headers.get("Authorization", logins[str(url.hostname)]) != logins[str(url.hostname)]:
            said.status_code = 401
        elif request.method == "PATCH":
            resource = services[str(url.hostname)][url.path.removeprefix("/redfish/v1").strip("/")]
            resource |= json.loads(request.body) if isinstance(request.body, bytes | str) else {}
        return said

    patch.setattr(HTTPAdapter, "send", send)


SSH = """#!/bin/sh
case "$*" in
  *" -N "*) exit 255 ;;
esac
for word in "$@"; do
  case "$word" in
    *@*) [ -e "$(dirname "$0")/accepts/$word" ] && exit 0 ;;
  esac
done
echo "operator@node: Permission denied (publickey)." >&2
exit 255
"""


def with_a_client(patch: pytest.MonkeyPatch, folder: Path, made: WholeSite) -> None:
    """OpenSSH's client as the checks start it themselves, against servers that take keys alone: those that are authorised."""
    (folder / "accepts").mkdir(parents=True)
    made.accepts = folder / "accepts"
    (folder / "ssh").write_text(SSH)
    (folder / "ssh").chmod(0o755)
    patch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def in_no_time(patch: pytest.MonkeyPatch) -> None:
    """Jobs that run in no time are not waited for."""
    patch.setattr(Slurm, "nap", lambda scheduler, seconds: scheduler._still_open())
    for module in (slurm_trials, training, test_scheduler):
        patch.setattr(module, "time", SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None}))


def with_reports_of_drift(made: WholeSite, out: Path) -> None:
    """Two reports of a schedule, three hours apart, that nothing drifted."""
    counts = {"ok": 90, "changed": 0, "unreachable": 0, "failed": 0}
    for hours in (4, 1):
        at = datetime.now(UTC) - timedelta(hours=hours)
        hosts = Drift(hosts=dict.fromkeys(made.servers, counts))
        drift_reports.write(out, drift_reports.report(made.plan, hosts, at, at))


def with_power_acts(made: WholeSite, out: Path) -> None:
    """Each server was switched on by `pulumi up`."""
    serials = load_assets(made.plan.site)["serial"]
    for name in made.servers:
        power_acts.recorder(power_acts.folder_of(out), name, str(serials[name]))("On", "Off", "On")


def with_ansible(patch: pytest.MonkeyPatch, made: WholeSite) -> None:
    """`ansible-playbook --check` of a site that is as the playbooks have it: what it prints, and its callback's summary."""
    counts = {"ok": 90, "changed": 0, "unreachable": 0, "failed": 0, "skipped": 12}
    rows = "".join(f"{name} : {' '.join(f'{key}={n}' for key, n in counts.items())}\n" for name in made.servers)

    def run(
        argv: Sequence[str], budget_s: float, cwd: Path, env: Mapping[str, str], stop: object = None
    ) -> local.Ended:
        folder = Path(env["BRINGUP_VAR"]) / "lab" / "ansible"
        folder.mkdir(parents=True)
        summary = {"hosts": dict.fromkeys(made.servers, counts), "changes": [], "failures": []}
        (folder / "run.json").write_text(json.dumps(summary))
        return local.Ended(0, f"PLAY RECAP ****\n{rows}".encode(), b"")

    patch.setattr(local, "run", run)
