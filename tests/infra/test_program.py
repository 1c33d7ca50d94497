"""The Pulumi program against Pulumi's mocks: which resources it declares, with which inputs, and when it refuses."""

import asyncio
import dataclasses
import json
import shutil
from datetime import UTC, datetime

import pulumi
import pytest

import infra.__main__ as program
from capacity.accepted import files_of, write
from infra.boot.built import IMAGES
from infra.provider.resource_types import resource_types
from inventory.findings import Finding, Remedy
from inventory.paths import repo_root, site_dir
from inventory.site import SiteError
from tests.capacity.services.boot.cases import IMAGE, image
from tests.plans import plan_of

NOW = datetime(2027, 1, 1, tzinfo=UTC)


class Recorder(pulumi.runtime.Mocks):
    """Keeps what the program registers: {(type, name): inputs}."""

    def __init__(self):
        self.registered = {}

    def new_resource(self, args):
        self.registered[args.typ, args.name] = args.inputs
        return args.name, args.inputs

    def call(self, args):
        return {}


def declare(stack="lab", config=None):
    recorder = Recorder()
    asyncio.set_event_loop(asyncio.new_event_loop())  # the mocks want a current one; other tests close theirs
    pulumi.runtime.set_mocks(recorder, project="bringup", stack=stack)
    pulumi.runtime.set_all_config(config or {})
    pulumi.runtime.test(program.program)()
    return recorder.registered


@pytest.fixture(scope="module")
def lab():
    return declare()


@pytest.mark.parametrize("site", ["b200-256-roce", "gb300-nvl72-liquid"])
def test_shipped_sites_of_other_kinds_are_declared_too(site):
    plan = plan_of(site)
    made = declare(site, {"bringup:site": site, "bringup:layers": '["power", "network", "nodes"]'})
    assert sorted(of_type(made, "bringup:power:RackOutlets")) == sorted(plan.outlets["rack"].unique())
    servers = plan.devices.loc[plan.devices["kind"] == "server", "name"]
    racks = plan.placements.loc[plan.placements["device"].isin(servers), "rack"].unique()
    assert sorted(of_type(made, "bringup:nodes:Servers")) == sorted(racks)


def test_a_stack_can_start_from_another_accepted_state(tmp_path, monkeypatch):
    started = []

    def build(site, **_):
        started.append(site)
        return plan_of("lab")

    monkeypatch.setattr(program, "build", build)
    write(tmp_path, files_of(plan_of("lab"), "1"))
    declare(config={"bringup:from": str(tmp_path), "bringup:layers": "[]"})
    assert started[0].accepted_folder == tmp_path / "accepted"
    assert started[0].accepted


def test_a_stack_names_a_folder_that_has_no_accepted_state(tmp_path):
    with pytest.raises(SiteError, match="no accepted state"):
        declare(config={"bringup:from": str(tmp_path), "bringup:layers": "[]"})


def of_type(registered, kind):
    return {name: inputs for (typ, name), inputs in registered.items() if typ == kind}


def test_one_resource_per_rack_and_per_inband_switch(lab):
    plan = plan_of("lab")
    assert sorted(of_type(lab, "bringup:power:RackOutlets")) == sorted(plan.racks["name"])
    assert sorted(of_type(lab, "bringup:nodes:Servers")) == sorted(plan.racks["name"])
    inband = plan.devices[plan.devices["fabric"] == "inband"]["name"]
    assert sorted(of_type(lab, "bringup:network:SwitchConfig")) == sorted(inband)


def test_every_supply_has_an_outlet_that_is_on(lab):
    labels = [
        outlet["name"]
        for rack in of_type(lab, "bringup:power:RackOutlets").values()
        for pdu in rack["pdus"].values()
        for outlet in pdu["outlets"].values()
        if outlet["on"]
    ]
    assert {f"gpu{n:03d} psu{p}" for n in range(1, 5) for p in (1, 2)} <= set(labels)
    assert len(labels) == len(set(labels))


def test_pdus_alarm_at_the_breaker_and_warn_at_its_continuous_rating(lab):
    pdus = [pdu for rack in of_type(lab, "bringup:power:RackOutlets").values() for pdu in rack["pdus"].values()]
    assert {(pdu["near_overload_a"], pdu["overload_a"]) for pdu in pdus} == {(48, 60)}


def test_devices_carry_the_identity_of_the_asset_list(lab):
    servers = of_type(lab, "bringup:nodes:Servers")
    assert all(server["serial"] and server["uuid"] for rack in servers.values() for server in rack["servers"].values())
    assert all(switch["mgmt_mac"] for switch in of_type(lab, "bringup:network:SwitchConfig").values())


def test_the_providers_own_check_accepts_every_input(lab):
    types = resource_types()
    failures = [
        types[kind].check({key: value for key, value in inputs.items() if key not in types[kind].outputs})
        for (kind, _), inputs in lab.items()
        if kind in types
    ]
    assert failures == [[]] * 12


def test_no_credential_is_an_input(lab):
    text = json.dumps(
        list(of_type(lab, "bringup:nodes:Servers").values()) + list(of_type(lab, "bringup:power:RackOutlets").values())
    )
    assert [word for word in ("password", "secret", "ssh_ed25519", "vault:", "file:") if word in text] == []


def test_layers_can_be_chosen():
    registered = declare(config={"bringup:layers": '["network"]'})
    assert of_type(registered, "bringup:power:RackOutlets") == of_type(registered, "bringup:nodes:Servers") == {}
    assert len(of_type(registered, "bringup:network:SwitchConfig")) == 6


def test_the_site_may_have_another_name_than_the_stack():
    registered = declare(stack="staging", config={"bringup:site": "lab", "bringup:layers": '["power"]'})
    assert {rack["site"] for rack in of_type(registered, "bringup:power:RackOutlets").values()} == {"lab"}


@pytest.mark.parametrize(
    ("given", "reference"),
    [
        ("lab", "lab"),
        ("/etc/site.yaml", "/etc/site.yaml"),
        ("inventory/sites/lab/site.yaml", str(repo_root() / "inventory/sites/lab/site.yaml")),
    ],
)
def test_a_relative_site_path_counts_from_the_clone(given, reference):
    assert program.site_reference(given) == reference


def test_an_unknown_layer_is_named():
    with pytest.raises(program.ProgramError, match="no layer nodse; there are power, network, nodes"):
        program.chosen(["power", "nodse"])


def test_layers_come_in_their_order():
    assert program.chosen(["nodes", "power"]) == ("power", "nodes")


OVERLOAD = Finding("POWER-FEED-LOSS", "error", "r01/A", "r01/A would carry 61 A of 60 A")


def planned_with(finding):
    return dataclasses.replace(plan_of("lab"), findings=(finding,))


def test_a_plan_with_errors_is_refused_by_name(monkeypatch, tmp_path):
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path))
    with pytest.raises(
        program.ProgramError, match=r"1 error finding\(s\).*\n  POWER-FEED-LOSS r01/A: r01/A would carry"
    ):
        program.refuse(planned_with(OVERLOAD), NOW)


def test_a_refusal_names_no_value_that_nobody_tried(monkeypatch, tmp_path):
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path))
    way = Remedy({"power.rack_circuit.breaker_a": 80}, "power.rack_circuit.breaker_a: 80")
    one = dataclasses.replace(OVERLOAD, message=f"{OVERLOAD.message}. Fix: {way.text}.", remedies=(way,))
    with pytest.raises(program.ProgramError, match="61 A of 60 A. Fix: a remedy that bringup plan prints") as refused:
        program.refuse(planned_with(one), NOW)
    assert way.text not in str(refused.value)


def test_warnings_are_no_reason_to_refuse():
    program.refuse(planned_with(Finding("SCHEDULE-LATE", "warning", "gpu", "late")), NOW)


def test_devices_lists_management_and_node_addresses():
    devices = program.devices(plan_of("lab"))
    assert devices["gpu001"].keys() == {"management", "node"}
    assert devices["leaf01"].keys() == {"management"}


@pytest.mark.parametrize("by", ["pulumi", "hand"])
def test_servers_are_installed_where_the_site_says_so_after_their_rack_is_on(tmp_path, monkeypatch, by):
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path / "var"))
    images = tmp_path / "var" / "lab-metal" / IMAGES / "gpu"
    images.mkdir(parents=True)
    (images / "image.json").write_text(IMAGE)
    for part in image().parts.values():
        (images / part.file).write_bytes(b"x")
    shutil.copytree(site_dir("lab-metal"), tmp_path / "site")
    site = tmp_path / "site" / "site.yaml"
    site.write_text(site.read_text().replace("provisioning: {", f"provisioning: {{installed_by: {by}, "))
    made = declare("lab-metal", {"bringup:site": str(site), "bringup:layers": '["nodes", "installations"]'})
    installed = of_type(made, "bringup:nodes:Installed")
    assert {name for rack in installed.values() for name in rack["servers"]} == (
        {"gpu001", "gpu002"} if by == "pulumi" else set()
    )
    assert set(installed) <= set(of_type(made, "bringup:nodes:Servers"))
