"""Names on the wire: which port of the plan a node of the discovered fabric is, on DGX H100, Q3400 and with other names."""

import re
from pathlib import Path

import pytest

from bench.fabric import made_up_guids
from network.infiniband import compare, parse
from network.infiniband.wire import on_the_wire
from tests.findings import names, only_of
from tests.network.infiniband.fabrics import as_tools_write, recorded
from tests.plans import plan_of

MODELLED = Path(__file__).parents[2] / "data" / "modelled" / "infiniband"
NDR, XDR = "h100-1000-ib", "gb300-nvl72-liquid"
HEALTHY = recorded("ibnetdiscover.txt")


def findings(plan, guids, text):
    return compare.topology(plan, parse.discovery(text), guids)


# ---- the shipped sites ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("names", ["rdma_devices", "rdma_names"])
def test_a_healthy_ndr_fabric_is_clean_by_guid_and_by_name(names, listed):
    plan = plan_of(NDR)
    guids = made_up_guids(plan)
    text = as_tools_write(plan, guids, "4xNDR", names, managed="MQM9700", sharp=65)
    assert findings(plan, guids if listed else {}, text) == []


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize(("planes", "rate"), [(1, "4xXDR"), (4, "1xXDR")])
def test_a_healthy_xdr_fabric_is_clean_with_one_node_a_switch_and_with_four(planes, rate, listed):
    plan = plan_of(XDR)
    guids = made_up_guids(plan)
    text = as_tools_write(plan, guids, rate, planes=planes, managed="Q3400_RA")
    assert findings(plan, guids if listed else {}, text) == []


def test_a_lost_plane_is_a_slow_link():
    plan = plan_of(XDR)
    guids = made_up_guids(plan)
    text = as_tools_write(plan, guids, "1xXDR", planes=4, managed="Q3400_RA")
    (key,) = set(re.findall(r'Ca\t4 "(\S+)"\t\t# "gpu007 mlx5_1"', text))
    kept = [line for line in text.split("\n") if f'"{key}"[3]' not in line]
    start = next(at for at, line in enumerate(kept) if line.startswith(f'Ca\t4 "{key}"'))
    assert kept[start + 3].startswith("[3]")
    found = findings(plan, guids, "\n".join(kept[: start + 3] + kept[start + 4 :]))
    assert [(one.id, one.ports[0]) for one in found] == [("LINK-RATE", "gpu007:ib1")]
    assert names(found[0], "600 Gb/s", "800 Gb/s")


# ---- single names ----------------------------------------------------------------------------------------------------
def test_compute_ports_of_a_dgx_h100_are_eight_of_its_twelve_devices():
    wire = on_the_wire(plan_of(NDR))
    found = [wire.adapter(f"gpu0001 mlx5_{number}") for number in range(12)]
    rails = {0: 0, 3: 1, 4: 2, 5: 3, 6: 4, 9: 5, 10: 6, 11: 7}
    assert found == [f"gpu0001:ib{rails[number]}" if number in rails else "" for number in range(12)]


@pytest.mark.parametrize(
    ("label", "port"),
    [
        ("gpu0001 ibp64s0", "gpu0001:ib1"),
        ("gpu0001.hall.example.com ibp220s0", "gpu0001:ib7"),
        ("gpu0001 HCA-1", ""),
        ("gpu0001 ibp11s0f0", ""),
        ("gpu0001", ""),
        ("gpu9999 mlx5_0", ""),
        ("ctl02 mlx5_2", "ctl02:ib0"),
        ("ctl02 HCA-1", "ctl02:ib0"),
        ("", ""),
    ],
)
def test_an_adapter_is_known_by_host_and_device(label, port):
    assert on_the_wire(plan_of(NDR)).adapter(label) == port


@pytest.mark.parametrize(
    ("label", "switch"),
    [
        ("MF0;ibl001:Q3400_RA/U3", "ibl001"),
        ("ibl001.hall.example.com", "ibl001"),
        ("MF0;ibl001.hall.example.com:Q3400_RA/U1", "ibl001"),
        ("ibl001 of another hall", ""),
        ("MF0;ibl999:Q3400_RA/U1", ""),
        ("Quantum Mellanox Technologies", ""),
    ],
)
def test_a_switch_is_known_by_the_name_in_its_description(label, switch):
    assert on_the_wire(plan_of(XDR)).switch(label) == switch


def test_ports_of_a_q3400_have_the_number_of_their_place():
    wire = on_the_wire(plan_of(XDR))
    assert [wire.port("ibl001", number) for number in (1, 2, 3, 144, 145, 149)] == [
        "sw1p1",
        "sw1p2",
        "sw2p1",
        "sw72p2",
        "fnm1",
        "149",
    ]


def test_routers_and_planes_of_a_q3400_are_read():
    found = parse.discovery((MODELLED / "ibnetdiscover-q3400.txt").read_text())
    named = compare.identify(found, {}, on_the_wire(plan_of(XDR)))
    assert set(named.names.values()) == {"ibl001", "ibs001", "gpu001:ib0"}
    assert len(named.inside) == 1
    assert not named.foreign
    seen = compare.edges(found, named, on_the_wire(plan_of(XDR)))
    there = {
        (end, far): rate for end, far, rate in seen[["end", "far", "rate_gbps"]].itertuples(index=False, name=None)
    }
    assert there["gpu001:ib0", "ibl001:sw1p1"] == 800
    assert there["ibl001:sw37p1", "ibs001:sw1p1"] == 800


# ---- one name for several --------------------------------------------------------------------------------------------
def test_two_adapters_with_one_name_are_one_finding_and_none_is_bound():
    plan = plan_of("lab")
    text = HEALTHY.replace("gpu002 mlx5_4", "gpu001 mlx5_4")
    found = findings(plan, {}, text)
    (one,) = found
    assert (one.id, one.subject, one.ports) == ("NODE-NAME-TWICE", "gpu001", ("gpu001:ib4",))
    assert names(one, "ibl005:p1", "ibl005:p2", "02420a0003000141", "02420a0003000241")


def test_two_switches_with_one_name_are_one_finding_and_none_is_bound():
    plan = plan_of("lab")
    found = findings(plan, {}, HEALTHY.replace('"ibs002"', '"ibs001"'))
    assert {one.id for one in found} == {"NODE-NAME-TWICE", "DEVICE-SILENT"}
    assert only_of(found, "NODE-NAME-TWICE").subject == "ibs001"
    assert only_of(found, "DEVICE-SILENT").subject == "ibs002"


def test_a_cloned_name_beside_the_listed_adapter_is_another_adapter():
    plan = plan_of("lab")
    known = made_up_guids(plan)
    text = as_tools_write(plan, known, "4xHDR")
    listed = {name: guid for name, guid in known.items() if name != "gpu002:ib4"}
    found = findings(plan, listed, text.replace("gpu002 mlx5_4", "gpu001 mlx5_4"))
    assert [one.id for one in found if one.ports == ("gpu001:ib4",)] == ["ADAPTER-EXCHANGED"]
    assert not any("gpu001:ib4" in one.ports for one in found if one.id.startswith("TOPOLOGY"))
