"""The out-of-band network: each management port has a path of cables to a management node, whatever the number of ports."""

import networkx
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.build import build
from inventory.site.whatif import changed
from network import fabric
from network.wiring import single_failures
from network.wiring.oob import management_ports, uplink_ports
from tests.findings import as_set, only
from tests.plans import plan_of

SITES = ["lab", "b200-256-roce", "h100-1000-ib", "gb300-nvl72-liquid"]
UPLINKS = {"four uplinks": ["u1", "u2", "u3", "u4"], "two uplinks": ["u1", "u2"], "one uplink": ["u1"], "none": []}


def planned(ends: int, ports: int, uplinks: list[str], held: pd.DataFrame | None = None) -> pd.DataFrame:
    """Cables of `ends` management ports over as few switches of `ports` ports as they take."""
    names = [f"p{n}" for n in range(1, ports + 1)]
    access = [f"oob{n}" for n in range(1, fabric.oob_access_count(ends, ports) + 1)]
    above = [f"oobagg{n}" for n in range(1, fabric.oob_aggregation_count(len(access), ports, len(uplinks)) + 1)]
    rows = {"device": [f"d{n}" for n in range(ends)], "port": "bmc", "stage": "bmc-oob", "rack": "r1"}
    return fabric.oob_links(pd.DataFrame(rows), access, above, names, held, None, uplinks)


def graph(links: pd.DataFrame) -> networkx.Graph:
    made = networkx.Graph()
    made.add_edges_from(zip(links["a_device"], links["b_device"], strict=True))
    return made


@settings(deadline=None, max_examples=25)
@given(ends=st.integers(1, 4000), ports=st.integers(4, 48), kind=st.sampled_from(sorted(UPLINKS)))
def test_every_management_port_has_a_path_and_no_cables_form_a_loop(ends: int, ports: int, kind: str) -> None:
    links = planned(ends, ports, UPLINKS[kind])
    assert networkx.is_tree(graph(links))
    assert links["a_device"].str.startswith("d").sum() == ends
    used = [end for side in "ab" for end in zip(links[f"{side}_device"], links[f"{side}_port"], strict=True)]
    assert len(used) == len(set(used))


@settings(deadline=None, max_examples=25)
@given(
    ends=st.integers(1, 1000),
    more=st.integers(1, 1000),
    ports=st.integers(4, 48),
    kind=st.sampled_from(sorted(UPLINKS)),
)
def test_growth_moves_only_cables_whose_port_joins_switches_now(ends: int, more: int, ports: int, kind: str) -> None:
    before = planned(ends, ports, UPLINKS[kind])
    after = planned(ends + more, ports, UPLINKS[kind], before)
    assert networkx.is_tree(graph(after))
    stood = dict(
        zip(before["a_device"] + ":" + before["a_port"], before["b_device"] + ":" + before["b_port"], strict=True)
    )
    stands = dict(
        zip(after["a_device"] + ":" + after["a_port"], after["b_device"] + ":" + after["b_port"], strict=True)
    )
    joining = {end for pair in stands.items() for end in pair if end.startswith("oobagg") and pair[0].startswith("oob")}
    joining |= {end for end in stands if end.startswith("oob")}
    moved = {end for end, far in stood.items() if stands[end] != far}
    assert all(stood[end] in joining for end in moved)


@pytest.mark.parametrize("kind", sorted(UPLINKS))
@pytest.mark.parametrize("ports", [4, 5, 48])
def test_more_access_switches_never_take_fewer_aggregation_switches(ports: int, kind: str) -> None:
    counts = [fabric.oob_aggregation_count(access, ports, len(UPLINKS[kind])) for access in range(1, 600)]
    assert counts == sorted(counts)
    assert counts[:2] == [0, 1]


def test_switches_without_uplinks_give_a_port_at_both_ends_of_each_cable_between_them() -> None:
    assert [fabric.oob_aggregation_count(access, 48, 0) for access in (48, 49, 94, 95, 96)] == [1, 2, 2, 3, 3]
    assert [fabric.oob_aggregation_count(access, 48, 4) for access in (48, 49, 96, 97)] == [1, 2, 2, 3]


def test_no_switch_is_more_than_three_switches_from_the_first_up_to_fifty_of_them() -> None:
    names = [f"oobagg{n}" for n in range(1, 54)]
    joins = fabric.oob_joins(names, ["p1"], UPLINKS["four uplinks"])
    far = networkx.single_source_shortest_path_length(networkx.Graph((a, b) for a, _, b, _ in joins), names[0])
    assert (len(far), max(far.values())) == (53, 3)


@pytest.mark.parametrize("site", SITES)
def test_shipped_sites_reach_each_management_port_from_a_management_node(site: str) -> None:
    plan = plan_of(site)
    oob = plan.cables[plan.cables["fabric"] == "oob"]
    reached = networkx.node_connected_component(graph(oob), "mgm01")
    assert set(management_ports(plan.devices, plan.catalog)["device"]) <= reached
    assert single_failures.apart(plan.cables, plan.devices).empty
    assert "OOB-APART" not in {one.id for one in plan.findings}


def test_aggregation_switches_are_joined_by_their_fastest_ports() -> None:
    plan = plan_of("h100-1000-ib")
    cable = plan.cables[plan.cables["a_device"] == "oobagg02"]
    assert cable[["a_port", "b_device", "b_port", "rate_gbps"]].values.tolist() == [
        ["swp49", "oobagg01", "swp49", 100.0]
    ]
    assert set(uplink_ports(plan.catalog.device("nvidia-sn2201"))) == {"swp49", "swp50", "swp51", "swp52"}
    assert uplink_ports(plan.catalog.device("lab-mgmt-switch-48")) == {}


def test_ports_behind_a_missing_cable_are_apart_and_the_first_is_named() -> None:
    plan = plan_of("h100-1000-ib")
    cables = plan.cables[plan.cables["a_device"] != "oobagg02"]
    behind = set(plan.cables.loc[plan.cables["b_device"] == "oobagg02", "a_device"])
    cut = single_failures.apart(cables, plan.devices)
    assert set(cut["b_device"]) <= behind
    assert len(cut) > 1000


def test_management_nodes_without_a_port_are_an_error_whose_remedy_gives_them_one() -> None:
    short = ["oob.switches=2"]
    found = only(build(changed("b200-256-roce", short)), "OOB-APART")
    assert found.remedies[0].settings == {"oob.switches": 4}
    mended = build(changed("b200-256-roce", [*short, *as_set(found.remedies[0])]))
    assert not {"OOB-APART", "OOB-PORTS"} & {one.id for one in mended.findings}
