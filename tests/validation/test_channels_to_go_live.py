"""From answers below the drivers to GO-LIVE: Redfish bodies, outputs of SSH commands and SNMP values of modelled devices.

Everything above them is the product: drivers, gathering, challenges, checks, records, log, anchor and gate. The register is cut
to a few items of servers, switches and PDUs; the answers are modelled after the drivers' documents, none was recorded on metal.
"""

import copy
import dataclasses
import itertools
import json
import math
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from inspect import signature as signature_of
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from pysnmp.proto import rfc1902
from rich.console import Console
from securesystemslib.signer import CryptoSigner

from capacity.build import build
from capacity.model import Plan
from inventory.delivered.assets import asset_aliases, load_assets
from inventory.site import Site
from network.drivers.credentials import BmcCredentials, SnmpCredentials, SshCredentials
from network.drivers.errors import BadAnswer, Unreachable, WriteRefused
from network.drivers.pdu import OIDS, Pdu
from network.drivers.ssh import Completed, SshHost
from network.drivers.switch_agent import CHASSIS, SERIAL, SYS_DESCR, SwitchAgent
from network.nos.frr.driver import Switch
from tests.network.drivers import redfish_in_memory
from tests.network.drivers.test_redfish import RESOURCES
from tests.validation.bench import STORE, public_of, signature, whole_pings, with_key
from validation import freeze, gate, plugin, program
from validation.check import check_of
from validation.checks import (
    test_bmc,
    test_fabric,
    test_nodes,
    test_power,
)
from validation.evidence import Entry, Identity, Record
from validation.evidence.channels import Ledger
from validation.evidence.store import Store
from validation.facts import challenges, gather
from validation.register import Register
from validation.verdict import GATE_ITEM

GATHER = sys.modules[gather.__module__]
Collect = Callable[..., Store]
CHECKS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "S020.observed": (test_bmc.test_every_power_supply_is_present, ("gpu_servers",)),
    "S061.applied": (test_fabric.test_switch_software_has_pinned_version, ("inband_leaves",)),
    "S054.measured": (test_nodes.test_jumbo_frames_cross_unfragmented, ("gpu_servers",)),
    "S054.applied": (test_nodes.test_every_inband_port_has_jumbo_frames, ("inband_leaves",)),
    "S086.observed": (test_power.test_both_pdus_of_a_rack_answer_below_half_load, ("racks",)),
    "S088.observed": (test_power.test_phase_load_is_balanced, ("pdus",)),
    "S084.observed": (test_power.test_every_outlet_reports_its_power, ("pdus",)),
}


class Metal:
    """Modelled devices of the lab's plan that do not declare themselves simulated."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.assets = load_assets(plan.site)
        self.keys = {name: Ed25519PrivateKey.generate() for name in self.plan.devices["name"]}
        book = GATHER.address_book(self.plan)
        self.names = {address: device for (device, _), address in book.items()}
        self.address = {
            name: book.get((name, "provisioning" if kind == "server" else "oob"))
            for name, kind in zip(self.plan.devices["name"], self.plan.devices["kind"], strict=True)
        }
        self.store = ""
        """Id of the evidence store for which nodes sign."""
        self.off: set[tuple[str, int]] = set()
        self.without: set[str] = set()
        """Channels that give no answer."""
        self.shut: set[tuple[str, str]] = set()
        self.tables: dict[tuple[str, str], list[dict[str, Any]]] = {}
        """What out-of-band switches tell of their MAC tables, by switch and port."""
        self.stuck = False
        """Whether a port that was shut stays so."""
        self.services = {book[name, "bmc"]: Service(self, name) for name in self.servers}

    @property
    def servers(self) -> list[str]:
        return list(self.plan.devices.loc[self.plan.devices["kind"] == "server", "name"])

    def known_hosts(self, *, comment: str = "factory") -> str:
        lines = (f"{self.address[name]} ssh-ed25519 {public_of(key)} {comment}" for name, key in self.keys.items())
        return "\n".join(lines) + "\n"

    def asset(self, name: str, column: str) -> str:
        return str(self.assets.at[name, column])

    # -- Redfish ---------------------------------------------------------------------------------------------------------
    def power(self, server: str) -> dict[str, Any]:
        rows = self.plan.outlets[self.plan.outlets["device"] == server]
        row = self.plan.devices.set_index("name").loc[server]
        psu = self.plan.catalog.device(str(row["model"])).bringup.psu
        volts = self.plan.site.server.supplies.input_v
        supplies = [
            {
                "Name": f"PSU{n}",
                "Status": {"State": "Enabled", "Health": "OK"},
                "LineInputVoltage": 0 if (pdu, outlet) in self.off and "supply-lost" not in self.without else volts,
                "PowerCapacityWatts": psu.rating_w if psu else 0,
            }
            for n, (pdu, outlet) in enumerate(zip(rows["pdu"], rows["outlet"], strict=True))
        ]
        return {"PowerSupplies": supplies, "Redundancy": [], "PowerControl": [{"PowerConsumedWatts": 500}]}

    # -- SSH -------------------------------------------------------------------------------------------------------------
    def ssh(self, host: SshHost, text: str, stdin: bytes, *_: Any) -> Completed:
        name = self.names[host.address]
        if text == GATHER.SIGN and "ssh-signature" not in self.without:
            return Completed(0, signature(stdin.decode(), self.keys[name]), "", 0.1)
        if text.startswith("bridge -j fdb show brport "):
            return Completed(0, json.dumps(self.tables.get((name, text.split()[-1]), [])), "", 0.1)
        if text == "sh -s":
            return Completed(0, self.lldp(name), "", 0.1)
        if text.startswith("cat /sys/class/net/"):
            return Completed(0, "down\n" if self.far_end_of(name, text.split("/")[4]) in self.shut else "up\n", "", 0.1)
        if text == "python3 -" and "os-release" not in self.without:
            return Completed(0, json.dumps({"facts": self.facts(name, stdin), "errors": {}}), "", 0.1)
        raise Unreachable(name, "run a command", "an answer", "none", "this device is modelled without it")

    def lldp(self, name: str) -> str:
        found = []
        for row in self.plan.cables.to_dict("records"):
            for near, far in (("a", "b"), ("b", "a")):
                if row[f"{near}_device"] == name and "lldp" not in self.without and row["fabric"] == "inband":
                    device = row[f"{far}_device"]
                    chassis = {"id": [{"value": self.asset(device, "mgmt_mac")}], "name": [{"value": device}]}
                    port = {"id": [{"value": row[f"{far}_port"]}], "ttl": [{"value": "3"}]}
                    age = "0 day, 00:10:00"
                    found.append({"name": row[f"{near}_port"], "age": age, "chassis": [chassis], "port": [port]})
        ports = "\n".join(f"{one['name']} up" for one in found)
        return f"{ports}\n\n" + json.dumps({"lldp": [{"interface": found}]})

    def facts(self, name: str, stdin: bytes) -> dict[str, Any]:
        made: dict[str, Any] = {
            "os_release": {"ID": "debian", "VERSION_ID": "12"},
            "identity": {"uuid": self.asset(name, "uuid")},
            "guids": {},
            "pings": [
                {**ping, "target": "192.0.2.1", "source": "", "received": 1} for ping in whole_pings(self.plan, name)
            ],
        }
        if name == "ctl01":
            states = {"gpu001": "drained", "gpu002": "idle", "gpu003": "drained", "gpu004": "draining"}
            nodes = {node: {"state": state, "reason": "acceptance"} for node, state in states.items()}
            made["slurm"] = {"version": "24", "detected": {}, "answers": True, "nodes": nodes}
        if name == "mgm01" and "arp" not in self.without:
            pdus = self.plan.devices.loc[self.plan.devices["kind"] == "pdu", "name"]
            made["macs"] = {self.address[pdu]: self.asset(pdu, "mgmt_mac") for pdu in pdus}
        return made

    def far_end_of(self, name: str, interface: str) -> tuple[str, str]:
        """Switch and port at the other end of a node's cable."""
        cables = self.plan.cables
        for near, far in (("a", "b"), ("b", "a")):
            rows = cables[(cables[f"{near}_device"] == name) & (cables[f"{near}_port"] == interface)]
            if len(rows):
                return str(rows.iloc[0][f"{far}_device"]), str(rows.iloc[0][f"{far}_port"])
        return "", ""

    # -- the switches' SSH channels --------------------------------------------------------------------------------------
    def verb(self, switch: Switch, verb: str, arguments: tuple[str, ...], stdin: bytes) -> tuple[int, str, str]:
        if "ssh" in self.without:
            raise Unreachable(switch.name, verb, "an answer", "none", "this device is modelled without it")
        if verb == "shut" and "port-shut" not in self.without:
            self.shut.add((switch.name, arguments[0]))
        if verb == "open" and not self.stuck:
            self.shut.discard((switch.name, arguments[0]))
        pin = self.plan.site.versions["frr"]
        facts = f"hostname {switch.name}\nmgmt_mac {self.asset(switch.name, 'mgmt_mac')}\nversion {pin}\n"
        facts += "tracks_uplinks yes\n"
        cables = self.plan.cables
        ports = {
            *cables.loc[cables["a_device"] == switch.name, "a_port"],
            *cables.loc[cables["b_device"] == switch.name, "b_port"],
        }
        facts += "".join(f"port {port} up 9216\n" for port in sorted(ports))
        return 0, {"facts": facts, "bgp": "{}"}.get(verb, ""), ""

    # -- SNMP ------------------------------------------------------------------------------------------------------------
    def get(self, pdu: Pdu, oids: list[str]) -> list[Any]:
        if "snmp" in self.without:
            raise Unreachable(pdu.name, "read", "an SNMP agent", "none", "this device is modelled without it")
        texts = {oid: field for field, oid in OIDS["identity"].items()}
        said = {"serial": self.asset(pdu.name, "serial"), "sys_descr": "rack PDU"}
        return [
            rfc1902.OctetString(said.get(texts[oid], "text").encode()) if oid in texts else rfc1902.Integer32(100)
            for oid in oids
        ]

    def agent_get(self, agent: SwitchAgent, oids: list[str]) -> list[Any]:
        """The chassis of a switch in the ENTITY-MIB (RFC 6933)."""
        if "switch-snmp" in self.without:
            raise Unreachable(agent.name, "read", "an SNMP agent", "none", "this device is modelled without it")
        said = {SYS_DESCR: "switch", f"{SERIAL}.1": self.asset(agent.name, "serial")}
        return [rfc1902.OctetString(said.get(oid, "model").encode()) for oid in oids]

    def walk(self, pdu: Pdu, column: str) -> dict[int, Any]:
        numbers = [int(n) for n in self.plan.outlets.loc[self.plan.outlets["pdu"] == pdu.name, "outlet"]]
        if column == OIDS["outlet"]["state"]:
            states = OIDS["state_values"]
            return {n: rfc1902.Integer32(states["off" if (pdu.name, n) in self.off else "on"]) for n in numbers}
        if column == OIDS["outlet"]["name"]:
            return {n: rfc1902.OctetString(f"outlet {n}".encode()) for n in numbers}
        if column == OIDS["phase"]["amps"]["oid"]:  # all that the plan has it carry, even on three phases
            circuit = self.plan.circuits[self.plan.circuits["pdu"] == pdu.name].iloc[0]
            amps = float(circuit["load_kw"]) * 1000 / math.sqrt(3) / float(circuit["voltage_v"])
            return {n: rfc1902.Integer32(round(amps / OIDS["phase"]["amps"]["scale"])) for n in (1, 2, 3)}
        in_outlets = column.startswith("1.3.6.1.4.1.318.1.1.26.9")
        return {n: rfc1902.Integer32(10) for n in (numbers if in_outlets else (1, 2, 3))}

    def set(self, pdu: Pdu, oid: str, value: Any) -> None:
        place = (pdu.name, int(oid.rsplit(".", 1)[1]))
        if int(value) == OIDS["control_values"]["off"]:
            self.off.add(place)
        else:
            self.off.discard(place)


class Service(dict[str, Any]):
    """The Redfish service of one server; its supplies follow the outlets."""

    def __init__(self, metal: Metal, name: str) -> None:
        super().__init__(copy.deepcopy(RESOURCES))
        self.metal, self.name = metal, name
        self["Systems/1"] |= {
            "Manufacturer": "Example Systems",
            "SerialNumber": metal.asset(name, "serial"),
            "UUID": metal.asset(name, "uuid"),
        }

    def get(self, path: str, default: Any = None) -> Any:
        if "redfish" in self.metal.without:
            return {"status": 500}
        return self.metal.power(self.name) if path == "Chassis/1/Power" else super().get(path, default)


@pytest.fixture
def site(real_site: Site, signer: CryptoSigner, tmp_path: Path) -> Site:
    """A site that is no example, pins host keys and roles, and allows challenges."""
    return pinning(real_site, signer, tmp_path)


def pinning(site: Site, signer: CryptoSigner, folder: Path) -> Site:
    """The site with the collector's key, host keys pinned in `folder/known_hosts`, and leave for challenges."""
    made = with_key(site, folder / "key", signer)
    pinned = {"host_keys": "pinned", "known_hosts": str(folder / "known_hosts")}
    given = made.credentials
    credentials = given.model_copy(
        update={
            "ssh": given.ssh.model_copy(update=pinned),
            "switch": given.switch.model_copy(update=pinned),
            "evidence": given.evidence.model_copy(update={"role": "collector"}),
        }
    )
    validation = made.validation.model_copy(update={"challenges": True})
    return made.model_copy(update={"credentials_given": credentials, "validation": validation})


@pytest.fixture(scope="module")
def plan(real_site: Site) -> Plan:
    """Of all sites of this module: their credentials differ, of which nothing is planned."""
    return build(real_site)


@pytest.fixture
def metal(site: Site, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Metal:
    return modelled(dataclasses.replace(plan, site=site), tmp_path, monkeypatch)


def modelled(plan: Plan, folder: Path, patch: pytest.MonkeyPatch) -> Metal:
    """The devices of a plan, whose host keys are in `folder/known_hosts`, and credentials for them."""
    made = Metal(plan)
    (folder / "known_hosts").write_text(made.known_hosts())
    ssh = SshCredentials("root", folder / "key", folder / "known_hosts")
    for module in (GATHER, challenges):
        for name, credentials in {
            "snmp_credentials": SnmpCredentials("ops", "a" * 8, "p" * 8),
            "bmc_credentials": lambda name: BmcCredentials("admin", "secret"),
            "switch_credentials": ssh,
            "node_credentials": ssh,
            "factory_credentials": None,
        }.items():
            patch.setattr(module, name, lambda *_, made=credentials: made, raising=False)
    patch.setattr(GATHER.telemetry, "reads", lambda plan, book: {})
    patch.setattr(GATHER.subnet, "managers", lambda plan: [])
    attach(made, patch)
    return made


def attach(made: Metal, patch: pytest.MonkeyPatch) -> None:
    """Let these devices answer what the drivers ask: Redfish over HTTP, commands over SSH, objects over SNMP."""
    redfish_in_memory.serve(patch, made.services)
    transport = SimpleNamespace(get_banner=lambda: b"")
    connection = SimpleNamespace(remote_conn_pre=SimpleNamespace(get_transport=lambda: transport, close=lambda: None))
    patch.setattr(Switch, "connect", lambda self: setattr(self, "_connection", connection))
    patch.setattr(Switch, "_execute", lambda switch, *given: made.verb(switch, *given))
    patch.setattr(SshHost, "_run", lambda host, *given: made.ssh(host, *given))
    patch.setattr(challenges.shut, "__kwdefaults__", {"seen_s": 0.0})
    patch.setattr(challenges.cut, "__kwdefaults__", {"seen_s": 0.0})

    async def get(self: Pdu, operation: str, oids: list[str]) -> list[Any]:
        return made.get(self, oids)

    async def walk(self: Pdu, operation: str, column: str) -> dict[int, Any]:
        return made.walk(self, column)

    async def put(self: Pdu, operation: str, oid: str, value: Any) -> None:
        made.set(self, oid, value)

    for module in (plugin, gate):  # one plan for all: building it again costs a second
        patch.setattr(module, "build", lambda site, **_: dataclasses.replace(made.plan, site=site))
    for name, fake in {"_ask": get, "_walk": walk, "_set": put}.items():
        patch.setattr(Pdu, name, fake)

    async def agent_get(self: SwitchAgent, operation: str, oids: list[str]) -> list[Any]:
        return made.agent_get(self, oids)

    async def agent_walk(self: SwitchAgent, operation: str, column: str) -> dict[int, Any]:
        return {1: rfc1902.Integer32(CHASSIS), 2: rfc1902.Integer32(10)}

    patch.setattr(SwitchAgent, "_ask", agent_get)
    patch.setattr(SwitchAgent, "_walk", agent_walk)


@pytest.fixture
def cut(register: Register, monkeypatch: pytest.MonkeyPatch) -> Register:
    """The register with a few items of servers, switches and PDUs, and the gate's own."""
    items = {
        item: dataclasses.replace(register.items[item], subjects=subjects) for item, (_, subjects) in CHECKS.items()
    }
    made = dataclasses.replace(register, items={**items, GATE_ITEM: register.items[GATE_ITEM]})
    for module in (gate, plugin):
        monkeypatch.setattr(module, "register_for", lambda site: made)
    return made


@pytest.fixture
def approvers(people: dict[str, CryptoSigner], monkeypatch: pytest.MonkeyPatch) -> dict[str, CryptoSigner]:
    return who_freezes(people, monkeypatch)


def who_freezes(people: Mapping[str, CryptoSigner], patch: pytest.MonkeyPatch) -> dict[str, CryptoSigner]:
    """Who freezes, by name. The program is taken for committed and the site for accepted: this clone may be neither."""
    patch.setattr(program, "program_state", lambda: program.State("1", "c0ffee"))
    patch.setattr(freeze, "_accepted", lambda site: {"accepted/values.jsonl": "ab" * 32})
    return {"Jane": people["approver"], "Joe": people["second approver"]}


@pytest.fixture
def collect(signer: CryptoSigner, cut: Register, approvers: dict[str, CryptoSigner]) -> Collect:
    """Freeze, run checks as the plugin does and sign what they find."""
    return lambda site, out, items=tuple(CHECKS): collected(site, out, signer, cut, approvers, items)


def collected(
    site: Site, out: Path, signer: CryptoSigner, cut: Register, approvers: Mapping[str, CryptoSigner], items: Any
) -> Store:
    session = plugin.Session(site, out, signer)
    frozen = freeze.frozen_today(session.plan, cut)
    for name, key in approvers.items():
        freeze.sign(site, session.store, frozen, name, key, datetime.now(UTC))
    for item in items:
        function, _ = CHECKS[item]
        made = check_of(function)
        assert made is not None
        for subject in cut.subjects(cut.items[item], session.plan):
            session.begin(made, subject)
            session.flush()
            given = {"subject": subject, "plan": session.plan, "facts": session.facts}
            outcome = function(**{name: given[name] for name in signature_of(function).parameters})
            session.settle(made, subject, outcome, datetime.now(UTC), set())
    session.flush()
    return session.store


def judged(site: Site, out: Path) -> tuple[int, dict[str, Any]]:
    said = StringIO()
    status = gate.run(
        site, out=out, anchor=str(out.with_name(f"{out.name}-anchor.json")), console=Console(file=said, width=300)
    )
    return status, json.loads((out / "reports" / "gate.json").read_text())


def statuses(data: dict[str, Any]) -> dict[str, str]:
    return {item["id"]: item["status"] for item in data["items"]}


def test_honest_answers_reach_go_live_and_no_two_channels_do(
    site: Site, metal: Metal, collect: Collect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    store = collect(site, out)
    status, data = judged(site, out)
    assert statuses(data) == dict.fromkeys([*CHECKS, GATE_ITEM], "pass"), [item["detail"] for item in data["items"]]
    assert (status, data["verdict"], data["mode"]) == (0, "GO-LIVE", "real")
    assert not metal.off, "every outlet is on again"

    entries = store.verify().entries

    def ledger_of(given: Any) -> Ledger:
        kinds = dict(zip(metal.plan.devices["name"], metal.plan.devices["kind"], strict=True))
        known = asset_aliases(metal.assets, metal.plan.gpus)
        pinned = gate.pinned_host_keys(metal.plan)
        return Ledger(given, kinds=kinds, identifiers=known, host_keys=pinned, site=site.name, store=STORE)

    for device in ("gpu001", "leaf01", "pdu-r01-a"):
        whole = ledger_of(entries)
        assert whole.doubt(device, datetime.now(UTC)) is None
        channels = {(i.channel, i.observer) for e in entries for i in parts(e) if whole.owner(i.device) == device}
        assert len(channels) >= 3
        for pair in itertools.combinations(sorted(channels), 2):
            left = [only(entry, device, pair) for entry in entries]
            assert ledger_of(left).doubt(device, datetime.now(UTC)) is not None, pair

    monkeypatch.undo()
    full = gate._judged(site, store.verify(), [], datetime.now(UTC), store.path, rehearsal=False)
    assert full.word == "NO GO-LIVE"
    assert full.no_check


def parts(entry: Entry) -> tuple[Any, ...]:
    return (*entry.record.identities, *entry.record.channels)


def only(entry: Entry, device: str, pair: tuple[tuple[str, str], ...]) -> Entry:
    """The entry in which two channels of the device are left."""

    def kept(found: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(i for i in found if i.device.split(":")[0] != device or (i.channel, i.observer) in pair)

    record = entry.record
    changed = dataclasses.replace(record, identities=kept(record.identities), channels=kept(record.channels))
    return dataclasses.replace(entry, record=changed)


@pytest.mark.parametrize("channel", ["ssh-signature", "lldp", "redfish", "snmp", "arp", "supply-lost"])
def test_without_one_channel_there_is_no_go_live(
    site: Site, metal: Metal, collect: Collect, tmp_path: Path, channel: str
) -> None:
    metal.without.add(channel)
    out = tmp_path / "out"
    collect(site, out)
    status, data = judged(site, out)
    assert (status, data["verdict"]) == (1, "NO GO-LIVE")
    assert not metal.off


def plugged_in(metal: Metal) -> dict[str, tuple[str, str]]:
    """The out-of-band switch and port of each PDU."""
    cables, pdus = metal.plan.cables, set(metal.plan.devices.loc[metal.plan.devices["kind"] == "pdu", "name"])
    both = cables[["a_device", "b_device", "b_port"]], cables[["b_device", "a_device", "a_port"]]
    rows = [row for each in both for row in each.itertuples(index=False, name=None)]
    return {device: (switch, port) for device, switch, port in rows if device in pdus}


def test_the_table_of_an_out_of_band_switch_stands_for_the_neighbour_of_a_pdu(
    site: Site, metal: Metal, collect: Collect, tmp_path: Path
) -> None:
    metal.without.add("arp")
    for pdu, place in plugged_in(metal).items():
        learned = {
            "mac": metal.asset(pdu, "mgmt_mac"),
            "ifname": place[1],
            "flags": [],
            "master": "bridge",
            "state": "",
        }
        metal.tables[place] = [{"mac": "02:00:00:00:00:01", "ifname": place[1], "state": "permanent"}, learned]
    out = tmp_path / "out"
    collect(site, out)
    status, data = judged(site, out)
    assert (status, data["verdict"]) == (0, "GO-LIVE"), [item["detail"] for item in data["items"]]


@pytest.mark.parametrize(
    "table",
    [
        [],
        [{"mac": "", "state": ""}],
        [{"state": ""}],
        {"mac": "x"},
        [{"mac": "MAC", "state": "permanent"}],
        [{"mac": "02:00:00:00:00:01", "state": ""}],
        [{"mac": "MAC", "state": ""}, *({"mac": f"02:00:00:00:00:0{n}", "state": ""} for n in range(9))],
    ],
)
def test_a_table_without_the_pdu_at_its_port_proves_nothing(metal: Metal, table: Any) -> None:
    pdu, place = next(iter(plugged_in(metal).items()))
    mac = metal.asset(pdu, "mgmt_mac")
    metal.tables[place] = json.loads(json.dumps(table).replace("MAC", mac))
    seen = GATHER._pdus(metal.plan, GATHER.address_book(metal.plan), metal.assets)
    target = next(one for one in seen if one.device == pdu)
    target.read()
    assert mac not in {one.serial for one in target.seen if one.channel == "fdb"}


def test_a_switch_whose_key_is_not_pinned_is_not_asked_for_its_table(metal: Metal, tmp_path: Path) -> None:
    pdu, place = next(iter(plugged_in(metal).items()))
    metal.tables[place] = [{"mac": metal.asset(pdu, "mgmt_mac"), "state": ""}]
    assert GATHER._plugged_into(metal.plan, {pdu}) == {pdu: place}
    (tmp_path / "known_hosts").write_text(metal.known_hosts(comment="first-use"))
    assert GATHER._plugged_into(metal.plan, {pdu}) == {}


def test_the_serial_of_a_switchs_agent_is_a_channel_beside_its_ssh_key(metal: Metal, site: Site) -> None:
    """A switch with one neighbour that is asked has three channels by it, and two without it."""
    known, pinned = asset_aliases(metal.assets, metal.plan.gpus), gate.pinned_host_keys(metal.plan)
    kinds = dict(zip(metal.plan.devices["name"], metal.plan.devices["kind"], strict=True))

    def doubt(*, serial: str | None = None) -> str | None:
        facts = GATHER.gather(metal.plan, STORE)
        answer = facts.switches["leaf01"]
        seen = [one for one in (*answer.identities, *facts.channels()["leaf01"]) if one.channel != "lldp"]
        neighbour = next(one for one in facts.channels()["leaf01"] if one.channel == "lldp")
        if serial:
            seen = [dataclasses.replace(one, serial=serial) if one.channel == "snmp" else one for one in seen]
        now = datetime.now(UTC)
        record = Record("S061", "applied", "leaf01", "PASSED", now, now, "t", "1", identities=(*seen, neighbour))
        entries = [Entry(record, frozenset(), 1, record.mode)]
        return Ledger(entries, kinds=kinds, identifiers=known, host_keys=pinned, site=site.name, store=STORE).doubt(
            "leaf01", now
        )

    assert doubt() is None
    assert "does not list" in (doubt(serial="another") or "")
    metal.without.add("switch-snmp")
    assert "2 of 3 independent channels" in (doubt() or "")


@pytest.mark.parametrize("fault", ["first use", "another host key", "no asset list", "collector not pinned"])
def test_without_one_key_or_the_asset_list_there_is_no_go_live(
    site: Site, metal: Metal, collect: Collect, tmp_path: Path, fault: str, monkeypatch: Any
) -> None:
    out = tmp_path / "out"
    collect(site, out)
    if fault == "first use":
        (tmp_path / "known_hosts").write_text(metal.known_hosts(comment="first-use"))
    elif fault == "another host key":
        metal.keys = {name: Ed25519PrivateKey.generate() for name in metal.keys}
        (tmp_path / "known_hosts").write_text(metal.known_hosts())
    elif fault == "no asset list":
        monkeypatch.setattr(gate, "load_assets", lambda site: metal.assets.iloc[:0])
    else:
        roles = {name: role for name, role in site.attest.roles.items() if name != "collector"}
        site = site.model_copy(update={"attest": site.attest.model_copy(update={"roles": roles})})
    status, data = judged(site, out)
    assert (status, data["verdict"]) == (1, "NO GO-LIVE")
    assert statuses(data)["S020.observed"] != "pass"


# -- a port that is shut -----------------------------------------------------------------------------------------------
def test_a_shut_port_is_seen_at_the_drained_server_and_opened_again(metal: Metal) -> None:
    seen = challenges.port_shuts(metal.plan, {"gpu001"})
    assert {one.device for one in seen} == set(challenges.fit_ports(metal.plan, {"gpu001"}))
    assert {(one.channel, one.observer, one.enrolled) for one in seen} == {("port-shut", "gpu001", "pinned")}
    assert {one.serial for one in seen} == {metal.asset(one.device, "mgmt_mac") for one in seen}
    assert not metal.shut


def test_a_shut_port_is_a_challenge_of_the_switch(metal: Metal) -> None:
    one = challenges.port_shuts(metal.plan, {"gpu001"})[0]
    others = [dataclasses.replace(one, channel="lldp", observer=observer) for observer in ("gpu002", "gpu003")]
    kinds = dict(zip(metal.plan.devices["name"], metal.plan.devices["kind"], strict=True))

    def doubt(*given: Identity) -> str | None:
        now = datetime.now(UTC)
        record = Record("S061", "applied", one.device, "PASSED", now, now, "t", "1", identities=given)
        known = asset_aliases(metal.assets, metal.plan.gpus)
        entries = [Entry(record, frozenset(), 1, record.mode)]
        pinned = gate.pinned_host_keys(metal.plan)
        return Ledger(entries, kinds=kinds, identifiers=known, host_keys=pinned, site="lab", store=STORE).doubt(
            one.device, now
        )

    assert doubt(one, *others) is None
    assert doubt(one, others[0]) is not None
    assert "has answered no challenge" in (doubt(*others, dataclasses.replace(one, channel="ssh")) or "")
    assert doubt(dataclasses.replace(one, enrolled="first-use"), *others) is not None
    assert doubt(dataclasses.replace(one, observer=one.device), *others) is not None
    assert doubt(dataclasses.replace(one, observer="stranger"), *others) is not None


@pytest.mark.parametrize("why", ["not drained", "no challenges", "first use"])
def test_no_port_is_shut_without_leave(metal: Metal, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    monkeypatch.setattr(Switch, "shut", lambda *_: pytest.fail("a port was shut"))
    site = metal.plan.site
    if why == "no challenges":
        site = site.model_copy(update={"validation": site.validation.model_copy(update={"challenges": False})})
    if why == "first use":
        ssh = site.credentials.ssh.model_copy(update={"host_keys": "first-use"})
        site = site.model_copy(update={"credentials_given": site.credentials.model_copy(update={"ssh": ssh})})
    drained = set() if why == "not drained" else {"gpu001"}
    assert challenges.port_shuts(dataclasses.replace(metal.plan, site=site), drained) == ()


def test_the_way_to_a_server_is_never_shut(metal: Metal) -> None:
    way = metal.plan.addresses
    ways = {(row["device"], row["interface"]) for row in way[way["network"] == "provisioning"].to_dict("records")}
    fit = challenges.fit_ports(metal.plan, set(metal.servers))
    assert fit
    assert not {(server, interface) for places in fit.values() for _, server, interface in places} & ways
    every = way.assign(network="provisioning")
    assert challenges.fit_ports(dataclasses.replace(metal.plan, addresses=every), set(metal.servers)) == {}


@settings(deadline=None)
@given(st.integers(0, 12), st.sets(st.integers(0, 11)))
def test_each_switch_and_port_may_come_first(count: int, signed: set[int]) -> None:
    fit = {f"leaf{n}": [(f"swp{m}", "gpu001", "eth1") for m in range(n % 3 + 1)] for n in range(count)}
    silent = {name for n, name in enumerate(fit) if n not in signed}
    orders = [challenges.in_order(fit, fit.keys() - silent, str(seed)) for seed in range(200)]
    for order in orders:
        names = [name for name, _ in order]
        assert sorted(names) == sorted(fit)
        assert set(names[: len(silent)]) == silent, "what signed a challenge comes last"
        assert {name: sorted(places) for name, places in order} == fit
    if count:
        assert {order[0][0] for order in orders} == (silent or set(fit))
        assert {tuple(places[0]) for order in orders for _, places in order} == {
            tuple(p) for f in fit.values() for p in f
        }


def test_a_port_without_link_is_passed_over_for_another_of_its_switch(
    metal: Metal, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = challenges.fit_ports(metal.plan, {"gpu001", "gpu002"})
    assert all(len(places) == 2 for places in fit.values())
    monkeypatch.setattr(challenges, "has_link", _dark(challenges.has_link, "gpu001"))
    for seed in range(8):
        seen = challenges.port_shuts(metal.plan, {"gpu001", "gpu002"}, seed=str(seed))
        assert {one.device for one in seen} == set(fit)
        assert {one.observer for one in seen} == {"gpu002"}


def _dark(look: Callable[[SshHost, str], bool], silent: str) -> Callable[[SshHost, str], bool]:
    def has_link(node: SshHost, interface: str) -> bool:
        if node.name == silent:
            raise Unreachable(node.name, "read", "an answer", "none", "look")
        return look(node, interface)

    return has_link


def test_the_switchs_system_gives_the_driver_that_shuts_a_port(metal: Metal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that cannot shut a port for a time is left alone; one that can is driven by its own driver."""
    asked: list[str] = []

    def driver(system: str) -> type[Switch]:
        asked.append(system)
        return Switch

    monkeypatch.setattr(challenges, "driver", driver)
    assert challenges.port_shuts(metal.plan, {"gpu001"})
    assert set(asked) == {metal.plan.site.inband.nos}
    monkeypatch.setattr(challenges, "capabilities", lambda system: {"features": {}})
    monkeypatch.setattr(challenges, "driver", lambda system: pytest.fail("a switch was asked"))
    assert challenges.port_shuts(metal.plan, {"gpu001"}) == ()


def test_a_switch_whose_server_sees_nothing_has_no_such_channel(metal: Metal) -> None:
    metal.without.add("port-shut")
    assert challenges.port_shuts(metal.plan, {"gpu001"}) == ()


def test_no_port_is_shut_with_a_login_that_may_not_open_it(metal: Metal, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = BadAnswer("leaf01", "open", "exit status 0", "2: not permitted", "look")

    def no(*_: Any) -> None:
        raise refused

    monkeypatch.setattr(Switch, "open", no)
    assert challenges.port_shuts(metal.plan, {"gpu001"}) == ()
    assert not metal.shut


def test_a_link_that_does_not_come_back_is_named(metal: Metal) -> None:
    metal.stuck = True
    with pytest.raises(WriteRefused, match="look at the port"):
        challenges.port_shuts(metal.plan, {"gpu001"})


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Unreachable("gpu001", "read", "an answer", "none", "look")])
def test_a_port_is_opened_again_when_the_challenge_is_interrupted(
    metal: Metal, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Between shutting and looking: the first look, before the port is shut, finds the link."""
    looks = iter([True])

    def look(*_: Any) -> bool:
        if next(looks, False):
            return True
        assert metal.shut
        raise error

    monkeypatch.setattr(challenges, "has_link", look)
    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            challenges.port_shuts(metal.plan, {"gpu001"})
    else:
        monkeypatch.setattr(challenges, "fit_ports", lambda *_: {"leaf01": [("swp1", "gpu001", "eth1")]})
        assert challenges.port_shuts(metal.plan, {"gpu001"}) == ()
    assert not metal.shut
