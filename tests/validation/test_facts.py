"""Gathering: every device is asked once, with drivers in memory; what one device does never touches the others."""

import json
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from capacity.model import Plan
from inventory.delivered.assets import load_assets
from network.drivers.credentials import BmcCredentials
from network.drivers.errors import BadAnswer, DeviceTimeout, LoginRefused, Unreachable
from network.drivers.ssh import Completed, SshHost
from tests.network.infiniband.fabrics import recorded
from tests.plans import plan_of
from tests.validation.test_recorded_facts import HEALTHY
from validation.facts import probes as acts
from validation.facts import telemetry
from validation.facts.answer import KINDS
from validation.facts.gather import GPU_PYTHON, OOB_PROBES, address_book, address_of, gather, gpus, probes
from validation.facts.probes import Logins
from validation.readings import PING_TARGETS

GATHER = sys.modules[gather.__module__]
"""The module: validation.facts has a function of its name."""
NODE_ANSWER = {
    "facts": {"os_release": {"ID": "debian", "VARIANT_ID": "simulated"}, "identity": {"uuid": "u-1"}},
    "errors": {"chrony": "RuntimeError: chronyc tracking: exit status 127"},
}
GPU_ANSWER = json.loads(HEALTHY.read_text())["nodes"]["gpu001"]["data"]["gpus"]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


class FakePdu:
    def __init__(
        self, address: str, credentials: object, budget_s: float, *, name: str, serial: str, dialect: str
    ) -> None:
        self.name, self.serial = name, serial

    def __enter__(self) -> "FakePdu":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def identity(self) -> dict[str, str]:
        if self.name == "pdu-r01-b":
            raise Unreachable(self.name, "read identity", "an SNMP agent", "no answer", "check its power")
        return {"sys_descr": "SIMULATED PDU", "serial": self.serial}

    def outlets(self) -> list[dict[str, Any]]:
        if self.name == "pdu-r02-a":
            raise KeyError(17)
        return [{"number": 1, "on": True}]

    def phases(self) -> list[dict[str, Any]]:
        return []

    def power_w(self) -> float:
        return 100.0


class FakeBmc:
    def __init__(
        self, address: str, credentials: object, budget_s: float, *, name: str, serial: str, uuid: str
    ) -> None:
        self.name, self.led_on = name, False
        self.known = (serial, uuid)

    def __enter__(self) -> "FakeBmc":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def identity(self) -> dict[str, str]:
        if self.name == "gpu003":
            raise LoginRefused(self.name, "log in", "user admin", "401", "check the account")
        return {"manufacturer": "SIMULATED", "serial": f"SN-{self.name}", "uuid": ""}

    def state(self) -> dict[str, Any]:
        return {"led_on": self.led_on}

    def led(self, on: bool) -> None:
        if self.name == "gpu003":
            raise LoginRefused(self.name, "set the LED", "user admin", "401", "check the account")
        self.led_on = on and self.name != "gpu002"

    def login_refused(self, user: str, password: str) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return dict


class FakeSwitch(FakePdu):
    def __init__(self, name: str, address: str, credentials: object, *, mgmt_mac: str) -> None:
        self.name, self.mac = name, mgmt_mac

    def facts(self) -> SimpleNamespace:
        if self.name == "spine02":
            raise BadAnswer(self.name, "read version", "FRRouting 8", "garbage", "log in by hand")
        return SimpleNamespace(
            hostname=self.name,
            mgmt_mac=self.mac,
            version="8.4.4",
            banner="SIMULATED",
            ports={"swp1": ("up", 9216)},
            held=None,
        )

    def get(self) -> str:
        return "running"

    def compare(self, wanted: str) -> str:
        return ""

    def saved(self) -> bool:
        return True

    def neighbours(self) -> dict[str, str]:
        return {}


def done(out: str) -> Completed:
    return Completed(0, out, "", 0.1)


class FakeNode(SshHost):
    def __init__(self, name: str, address: str, credentials: object, budget_s: float) -> None:
        self.name = name

    def run(self, command: Any, *, stdin: bytes = b"", **rest: Any) -> Completed:
        if command == [GPU_PYTHON, "-"]:
            return self.gpus()
        assert command == ["python3", "-"]
        if self.name == "gpu002":
            return done("Traceback (most recent call last)")
        if self.name == "gpu004":
            return done(json.dumps({"facts": {}, "errors": {"os_release": "OSError"}}))
        return done(json.dumps(NODE_ANSWER))

    def gpus(self) -> Completed:
        if self.name == "gpu003":
            raise BadAnswer(self.name, GPU_PYTHON, "exit status 0", "127: not found", "install the environment")
        return done(json.dumps(GPU_ANSWER) if self.name == "gpu001" else '{"devices": nul')


IBDIAGNET = Path(__file__).parents[1] / "data" / "modelled" / "ibdiagnet"


class FakeManagerHost:
    """A host with a subnet manager; what it says of the fabric was recorded on the lab's."""

    def __init__(self, name: str, address: str, credentials: object) -> None:
        self.name = name

    def fabric(self, budget_s: float) -> dict[str, Any]:
        if self.name == "ctl01":
            raise Unreachable(self.name, "read the fabric", "an SSH server", "nothing", "check its power")
        return {
            "ibnetdiscover": recorded("ibnetdiscover.txt"),
            "ibqueryerrors": recorded("ibqueryerrors.txt"),
            "manager": {"own": recorded("sminfo-master.txt"), "master": recorded("sminfo-master.txt")},
            "engine": "ftree",
            "pkeys": {"02420a0003000471": recorded("smpquery-pkeys.txt")},
            "lanes": {"02420a0005000080/1": recorded("smpquery-sl2vl.txt")},
            "arbitration": {"02420a0005000080/1": recorded("smpquery-vlarb.txt")},
        }

    def diagnose(self, budget_s: float) -> dict[str, Any]:
        files = {name: (IBDIAGNET / f"{name}.txt").read_text() for name in ("db_csv", "net_dump_ext", "sharp")}
        return {"began": 1.0, "ended": 3.5, "sharp_am": "active", **files}


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers in memory instead of those that talk to devices, and no secrets."""
    for name, fake in {
        "Pdu": FakePdu,
        "Bmc": FakeBmc,
        "Switch": FakeSwitch,
        "SshHost": FakeNode,
        "ManagerHost": FakeManagerHost,
    }.items():
        monkeypatch.setattr(GATHER, name, fake)
    for name in ("snmp_credentials", "switch_credentials", "node_credentials"):
        monkeypatch.setattr(GATHER, name, lambda site: None)
    monkeypatch.setattr(GATHER, "bmc_credentials", lambda *_: lambda name: BmcCredentials("admin", name))
    monkeypatch.setattr(GATHER, "factory_credentials", lambda *_: None)
    monkeypatch.setattr(telemetry, "SshHost", FakeNode)
    monkeypatch.setattr(telemetry, "node_credentials", lambda site: None)
    monkeypatch.setattr(GATHER.discover, "lldp", lambda host: {"swp1": {"far": "leaf01"}})


def test_every_device_of_the_plan_is_asked_and_nobody_else(plan, devices):
    facts = gather(plan)
    names = plan.devices.set_index("name")
    assert set(facts.pdus) == set(names.index[names["kind"] == "pdu"])
    assert set(facts.bmcs) == set(facts.nodes) == set(names.index[names["kind"] == "server"])
    assert set(facts.switches) == set(names.index[names["fabric"] == "inband"])
    assert set(facts.subnets) == {"mgm01", "ctl01"}


def test_of_some_devices_only_these_are_asked(plan, devices):
    facts = gather(plan, only={"gpu001", "leaf02"})
    asked = {kind: set(getattr(facts, kind)) for kind in KINDS if getattr(facts, kind)}
    assert asked == {"bmcs": {"gpu001"}, "nodes": {"gpu001"}, "switches": {"leaf02"}}


def test_the_fabric_is_read_from_every_host_with_a_subnet_manager(plan, devices):
    subnets = gather(plan).subnets
    assert subnets["ctl01"].error_kind == "Unreachable"
    data = subnets["mgm01"].data
    assert (len(data["nodes"]), len(data["links"])) == (46, 132)
    assert data["own"]["state"] == "MASTER"
    assert data["pkeys"] == {"02420a0003000471": [0x7FFF, 0x8001]}
    assert data["arbitration"]["02420a0005000080/1"] == {"low": {"0": 64}, "high": {"1": 64}}
    said = data["diagnosed"]
    assert said["ends"]["0002c90300000001/1"]["fec"] == "RS_FEC"
    assert said["ends"]["0002c90300000001/2"]["raw_ber"] is None
    assert (said["ended"] - said["began"], said["sharp_am"], sorted(said["trees"])) == (2.5, "active", ["0", "1"])
    (identity,) = subnets["mgm01"].identities
    assert (identity.device, identity.channel, identity.serial) == ("mgm01:ib0", "guid", "02420a0003008301")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"db_csv": "START_AR_INFO\nNodeGUID,e\n"}, "line 2 of ibdiagnet2.db_csv is the last"),
        (DeviceTimeout("mgm01", "diagnose", "an answer", "nothing", "wait"), "mgm01"),
    ],
)
def test_an_ibdiagnet_that_cannot_be_read_leaves_the_rest_of_the_fabric(plan, devices, monkeypatch, files, words):
    whole = FakeManagerHost.diagnose

    def diagnose(self: FakeManagerHost, budget_s: float) -> dict[str, Any]:
        if isinstance(files, Exception):
            raise files
        return whole(self, budget_s) | files

    monkeypatch.setattr(FakeManagerHost, "diagnose", diagnose)
    data = gather(plan).subnets["mgm01"].data
    assert set(data["diagnosed"]) == {"error"}
    assert words in data["diagnosed"]["error"]
    assert data["links"]


def test_counters_that_cannot_be_read_leave_the_rest_of_the_fabric(plan, devices, monkeypatch):
    whole = FakeManagerHost.fabric
    monkeypatch.setattr(FakeManagerHost, "fabric", lambda self, budget_s: whole(self, budget_s) | {"ibqueryerrors": ""})
    data = gather(plan).subnets["mgm01"].data
    assert "ibqueryerrors did not finish" in data["errors_unread"]
    assert data["links"]


def test_a_device_that_fails_leaves_an_error_and_the_others_their_answers(plan, devices):
    facts = gather(plan)
    failed = {
        (kind, name): answer.error_kind
        for kind in ("pdus", "bmcs", "switches", "nodes")
        for name, answer in getattr(facts, kind).items()
        if answer.error
    }
    assert failed == {
        ("pdus", "pdu-r01-b"): "Unreachable",
        ("pdus", "pdu-r02-a"): "UnreadableAnswer",
        ("bmcs", "gpu003"): "LoginRefused",
        ("switches", "spine02"): "BadAnswer",
        ("nodes", "gpu002"): "UnreadableAnswer",
        ("nodes", "gpu004"): "UnreadableAnswer",
    }
    assert all(facts.nodes[name].error.startswith(f"{name}: read facts: ") for name in ("gpu002", "gpu004"))
    assert facts.pdus["pdu-r02-a"].error.startswith("pdu-r02-a: read facts: expected facts, saw KeyError: 17; ")
    assert facts.bmcs["gpu003"].identities == ()


def test_a_telemetry_server_without_prometheus_is_named(plan, devices):
    answer = gather(plan).telemetry["mgm01"]
    assert answer.error.startswith("mgm01: ask Prometheus: expected its targets at http://127.0.0.1:9090, saw none")
    assert answer.error_kind == "BadAnswer"


def test_answers_carry_identities_of_their_channel(plan, devices):
    facts = gather(plan)
    (pdu,), (bmc,) = facts.pdus["pdu-r01-a"].identities, facts.bmcs["gpu001"].identities
    (switch,), (node,) = facts.switches["leaf01"].identities, facts.nodes["gpu001"].identities
    assert (pdu.channel, pdu.text) == ("snmp", "SIMULATED PDU")
    assert (bmc.channel, bmc.serial) == ("redfish", "SN-gpu001")
    assert (switch.channel, switch.text) == ("ssh", "SIMULATED")
    assert (node.channel, node.text, node.serial) == ("os-release", "ID=debian\nVARIANT_ID=simulated", "u-1")


def test_parts_that_a_node_could_not_read_come_with_its_answer(plan, devices):
    assert gather(plan).nodes["gpu001"].data["errors"] == NODE_ANSWER["errors"]


def test_gpu_nodes_alone_are_asked_for_their_gpus(plan, devices):
    nodes = gather(plan).nodes
    assert nodes["gpu001"].data["gpus"] == GPU_ANSWER
    assert "gpus" not in nodes["ctl01"].data


def test_a_node_that_cannot_tell_of_its_gpus_still_answers_for_itself(plan, devices):
    node = gather(plan).nodes["gpu003"]
    assert node.error == ""
    assert node.data["errors"] == NODE_ANSWER["errors"]
    assert (node.data["gpus"]["error_kind"], node.data["gpus"]["devices"]) == ("BadAnswer", [])


def test_a_truncated_answer_about_gpus_is_named_as_garbage():
    told = gpus(FakeNode("gpu009", "", None, 1.0), None)
    assert told["error_kind"] == "UnreadableAnswer"
    assert told["error"].startswith('gpu009: GPU facts: expected JSON, saw {"devices": nul; ')


@pytest.mark.parametrize("out", ["[]", "{}", '{"devices": {}}', "null"])
def test_an_answer_about_gpus_without_devices_is_named_as_garbage(monkeypatch, out):
    monkeypatch.setattr(FakeNode, "gpus", lambda self: done(out))
    told = gpus(FakeNode("gpu009", "", None, 1.0), None)
    assert (told["error_kind"], told["devices"]) == ("UnreadableAnswer", [])
    assert told["error"].startswith("gpu009: GPU facts: ")


def test_devices_are_asked_at_the_same_time(plan, devices, monkeypatch):
    def slow(self: FakeNode, command: Any, *, stdin: bytes = b"") -> Completed:
        time.sleep(0.3)
        return done(json.dumps(NODE_ANSWER))

    monkeypatch.setattr(FakeNode, "run", slow)
    facts = gather(plan)
    whole = datetime.fromisoformat(facts.ended) - datetime.fromisoformat(facts.started)
    assert whole.total_seconds() < sum(answer.seconds for answer in facts.nodes.values())


def test_a_node_pings_all_others_whole_and_tries_every_kind_of_management_address(plan):
    asked = probes(plan, "gpu001", address_book(plan))
    servers = plan.devices.loc[plan.devices["kind"] == "server", "name"].tolist()
    assert {ping["device"] for ping in asked["pings"]} == set(servers) - {"gpu001"}
    payload_b = plan.site.limits["df_ping_payload_b"].value
    assert {(ping["source"], ping["payload_b"]) for ping in asked["pings"]} == {
        (address_of(plan, "gpu001", "loopback"), payload_b)
    }
    assert {probe["port"] for probe in asked["connects"]} == {22, 443}
    assert all(probe["target"].startswith("10.77.0.") for probe in asked["connects"] + asked["silent"])


def test_probes_of_a_large_site_stay_few_and_are_made_quickly():
    large = plan_of("h100-1000-ib")
    book = address_book(large)
    began = time.process_time()
    asked = probes(large, "gpu0500", book)
    assert time.process_time() - began < 0.2
    assert PING_TARGETS <= len(asked["pings"]) < 2 * PING_TARGETS
    assert len(asked["connects"]) == 2 * OOB_PROBES
    assert len(asked["silent"]) == OOB_PROBES


def test_an_address_that_the_plan_does_not_have_is_named(plan):
    with pytest.raises(KeyError, match="leaf01 has no provisioning address in the plan"):
        address_of(plan, "leaf01", "provisioning")


def test_identity_leds_are_put_back_and_those_that_do_not_follow_are_named(plan, monkeypatch):
    made: dict[str, FakeBmc] = {}

    def bmc(*args: Any, name: str, **rest: Any) -> FakeBmc:
        made[name] = FakeBmc(*args, name=name, **rest)
        return made[name]

    monkeypatch.setattr(GATHER, "Bmc", bmc)
    monkeypatch.setattr(GATHER, "bmc_credentials", lambda *_: lambda name: None)
    result = acts.identify_leds(plan)
    assert result["gpu001"] == ""
    assert result["gpu002"] == "gpu002: identify LED set to True, reads back False"
    assert result["gpu003"].startswith("gpu003: set the LED: ")
    assert not any(bmc.led_on for bmc in made.values())
    listed = load_assets(plan.site).loc["gpu001"]
    assert made["gpu001"].known == (listed["serial"], listed["uuid"])
    assert all(made["gpu001"].known)


@pytest.mark.parametrize(
    ("status", "message", "seen"),
    [
        (255, "root@10.77.1.11: Permission denied (publickey).", "refused"),
        (0, "", "accepted"),
        (255, "ssh: Connection refused", "ssh: Connection refused"),
        (255, "", "no message"),
    ],
)
def test_a_login_counts_as_refused_only_when_the_server_said_so(plan, monkeypatch, tmp_path, status, message, seen):
    def run(argv: list[str], **rest: Any) -> SimpleNamespace:
        assert rest["timeout"] > 0
        return SimpleNamespace(returncode=0 if argv[0] == "ssh-keygen" else status, stderr=message)

    monkeypatch.setattr(subprocess, "run", run)
    credentials = SimpleNamespace(user="root", known_hosts=tmp_path / "known_hosts")
    monkeypatch.setattr(acts, "node_credentials", lambda site: credentials)
    assert acts.logins(plan)["gpu001"] == Logins(seen, seen)
