"""What the lab builds is computed from the Plan alone."""

from dataclasses import replace

import pytest

from capacity.build import build
from capacity.model import Plan
from infra.lab.paths import LabError
from infra.lab.planned import from_plan, supplies_needed
from infra.lab.spec import LabSpec, port_mac
from inventory.catalog import load_catalog
from inventory.delivered.assets import load_assets
from inventory.delivered.gpus import load_gpus
from inventory.site import Site, load_site


@pytest.fixture(scope="module")
def site() -> Site:
    return load_site("lab")


@pytest.fixture(scope="module")
def plan(site: Site) -> Plan:
    return build(site)


@pytest.fixture(scope="module")
def spec(site: Site, plan: Plan) -> LabSpec:
    return from_plan(site, plan, load_assets(site), load_catalog())


def test_builds_the_ethernet_fabric_servers_and_pdus_of_the_plan(spec):
    assert [s.name for s in spec.servers] == ["gpu001", "gpu002", "gpu003", "gpu004", "ctl01", "sto01", "mgm01"]
    assert sorted((s.role, s.name) for s in spec.switches) == [
        ("leaf", "leaf01"),
        ("leaf", "leaf02"),
        ("leaf", "leaf03"),
        ("leaf", "leaf04"),
        ("oob", "oob01"),
        ("spine", "spine01"),
        ("spine", "spine02"),
    ]
    assert [p.name for p in spec.pdus] == ["pdu-r01-a", "pdu-r01-b", "pdu-r02-a", "pdu-r02-b"]


def test_compute_switches_are_nodes_of_the_simulator_and_take_no_ethernet_cable(spec):
    devices = {device for cable in spec.cables for device, _ in cable.ends}
    infiniband = {switch.name for switch in spec.ib_switches}
    assert not devices & infiniband
    assert devices | infiniband == set(spec.names())
    assert {device for cable in spec.ib_cables for device, _ in cable.ends} > infiniband


def test_every_device_presents_the_identity_of_the_asset_list(site, spec):
    assets = load_assets(site)
    for server in spec.servers:
        assert (server.serial, server.uuid, server.bmc_mac) == tuple(
            assets.loc[server.name][["serial", "uuid", "mgmt_mac"]]
        )
    for device in (*spec.switches, *spec.pdus):
        assert (device.serial, device.mac) == tuple(assets.loc[device.name][["serial", "mgmt_mac"]])


def test_a_pdu_has_exactly_the_outlets_of_the_plan(plan, spec):
    planned = {(row.pdu, row.outlet, row.device or "", row.psu) for row in plan.outlets.itertuples()}
    assert {(o.pdu, o.number, o.device, o.psu) for o in spec.outlets} == planned


def test_survives_json(spec):
    assert LabSpec.from_json(spec.to_json()) == spec


def test_two_labs_share_no_kernel_name(spec):
    other = replace(spec, name="lab2")
    for kind in ("oob", "prv"):
        assert spec.uplink(kind) != other.uplink(kind)
        assert len(replace(spec, name="a-very-long-site-name").uplink(kind)) <= 15
    assert spec.namespace("leaf01") != other.namespace("leaf01")


def test_mac_of_an_unlisted_port_is_stable_local_and_its_own():
    assert port_mac("lab", "gpu001", "eth1") == port_mac("lab", "gpu001", "eth1")
    assert port_mac("lab", "gpu001", "eth1") != port_mac("lab", "gpu001", "eth2")
    assert int(port_mac("lab", "gpu001", "eth1")[:2], 16) & 0b11 == 0b10


@pytest.mark.parametrize(
    ("redundancy", "count", "needed"), [("1+1", 2, 1), ("4+2", 6, 4), ("N+1", 3, 2), ("N+N", 4, 1), ("", 2, 1)]
)
def test_supplies_needed(redundancy, count, needed):
    assert supplies_needed(redundancy, count) == needed


def test_a_device_without_asset_is_named(site, plan):
    assets = load_assets(site).drop(index=["leaf03", "gpu002"])
    with pytest.raises(LabError, match=r"lists no gpu002, leaf03: the lab cannot give them an identity"):
        from_plan(site, plan, assets, load_catalog())


def test_an_unknown_device_is_answered_with_those_there_are(spec):
    with pytest.raises(LabError, match=r"lab lab has no device leaf99; it has gpu001, .*pdu-r02-b"):
        spec.kind("leaf99")


def test_gpus_are_those_of_the_list_in_the_order_of_their_addresses(site, plan):
    gpus = load_gpus(site)
    spec = from_plan(site, plan, load_assets(site), load_catalog(), gpus.iloc[::-1])
    assert LabSpec.from_json(spec.to_json()) == spec
    for server in spec.servers:
        listed = gpus[gpus["device"] == server.name].sort_values("pci_bus_id")
        assert [gpu.serial for gpu in server.gpus] == listed["serial"].tolist()
        assert [gpu.index for gpu in server.gpus] == list(range(len(listed)))
    assert spec.server("gpu001").gpus[0].vbios == site.versions["vbios"]
    assert dict(spec.gpu_packages)["libnvidia-ml1"] == site.versions["driver"]


def test_a_site_without_a_list_of_gpus_is_built_without(spec):
    assert spec.gpu_model is None
    assert not any(server.gpus for server in spec.servers)


def test_gpus_that_are_not_numbered_modules_cannot_be_built(site, plan):
    gpus = load_gpus(site).replace({"slot": {"3": "riser-3"}})
    with pytest.raises(LabError, match="SXM modules with numbers, not riser-3"):
        from_plan(site, plan, load_assets(site), load_catalog(), gpus)
