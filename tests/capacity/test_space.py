"""Where devices stand."""

import pandas as pd
import pytest

from capacity.plan import Plan, build
from inventory.site import load_site
from tests.capacity.sites import variant


@pytest.fixture(scope="module")
def large() -> Plan:
    return build(load_site("h100-1000-ib"))


def racks_of(plan: Plan, **where: object) -> pd.Series:
    """Rack index (0-based, in floor order) of the devices that have these column values."""
    devices = plan.devices
    for column, value in where.items():
        devices = devices[devices[column] == value]
    order = {name: i for i, name in enumerate(plan.racks["name"])}
    return plan.placements.set_index("device")["rack"].loc[devices["name"]].map(order)


def test_leaves_stand_within_the_middle_of_their_unit(large: Plan) -> None:
    for unit in (0, 7, 20):
        servers = racks_of(large, role="gpu", unit=unit)
        leaves = racks_of(large, role="leaf", unit=unit)
        middle = (servers.min() + servers.max()) / 2
        assert (abs(leaves - middle) <= 2.5).all()
        assert leaves.min() >= servers.min()
        assert leaves.max() <= servers.max()


def test_spines_and_cores_stand_in_racks_of_their_own_in_the_middle_of_the_room(large: Plan) -> None:
    spines = racks_of(large, role="spine", fabric="compute")
    servers = racks_of(large, role="gpu")
    assert not set(spines) & set(servers)
    assert servers.min() < spines.min()
    assert spines.max() < servers.max()


def test_a_unit_is_never_split_by_the_network_racks(large: Plan) -> None:
    for unit in range(31):
        servers = racks_of(large, role="gpu", unit=unit)
        assert servers.max() - servers.min() <= 11


def test_no_rack_exceeds_its_power_limit_although_leaves_share_it(large: Plan) -> None:
    assert large.racks["nameplate_kw"].max() <= large.site.rack.power_limit_kw


def test_a_room_without_spare_positions_puts_switches_beside_the_servers() -> None:
    lab = build(load_site("lab"))
    assert set(lab.placements["rack"]) == {"r01", "r02"}


def test_servers_stand_below_switches() -> None:
    plan = build(load_site("lab"))
    places = plan.placements.merge(plan.devices, left_on="device", right_on="name")
    for _, rack in places.groupby("rack"):
        top_of_servers = (rack.loc[rack["kind"] == "server", "u_bottom"]).max()
        assert (rack.loc[rack["kind"] == "switch", "u_bottom"] > top_of_servers).all()


def test_rack_mass_counts_the_rack_its_devices_and_its_pdus() -> None:
    plan = build(load_site("lab"))
    devices = plan.devices.merge(plan.placements, left_on="name", right_on="device")
    of_first = devices[devices["rack"] == "r01"]
    assert plan.racks.loc[0, "mass_kg"] == pytest.approx(140 + of_first["mass_kg"].sum())


def test_a_rack_that_its_servers_overload_is_named() -> None:
    plan = build(variant("lab", rack={"servers": 4}))
    found = {f.id: f for f in plan.findings if f.severity == "error"}
    assert found["SPACE-RACK-POWER"].numbers["nameplate_kw"] > 40
    assert found["SPACE-RACK-POWER"].limit == 34.5


def test_racks_without_gpu_servers_have_limits_of_their_own() -> None:
    site = load_site("gb300-nvl72-liquid")
    assert site.rack.network is not None
    weak = site.rack.network.model_copy(update={"power_limit_kw": 7.0})
    changes: dict[str, dict[str, object]] = {"room": {"racks_per_row": 40}, "oob": {"switches": 4}}
    found = build(variant(site.name, rack={"network": weak}, **changes)).findings
    assert [(f.id, f.limit_source) for f in found if f.severity == "error"] == [
        ("SPACE-RACK-POWER", "site rack.network.power_limit_kw")
    ]
