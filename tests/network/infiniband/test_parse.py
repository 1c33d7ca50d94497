"""Output of infiniband-diags, as the lab's fabric gave it, and garbage."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network.infiniband import parse
from tests.network.infiniband.fabrics import recorded


def test_discovery_finds_every_node_and_every_link_from_both_ends():
    found = parse.discovery(recorded("ibnetdiscover.txt"))
    assert found.nodes["kind"].value_counts().to_dict() == {"adapter": 34, "switch": 12}
    assert len(found.links) == 2 * 66
    ends = set(zip(found.links["key"], found.links["port"], strict=True))
    assert ends == set(zip(found.links["far_key"], found.links["far_port"], strict=True))
    assert set(found.links["rate_gbps"]) == {200.0}


def test_an_adapter_is_known_by_its_port_guid_and_has_a_lid():
    nodes = parse.discovery(recorded("ibnetdiscover.txt")).nodes.set_index("label")
    assert nodes.loc["gpu001 mlx5_7", "guid"] == "02420a0003000171"
    assert (nodes["lid"] > 0).all()
    assert nodes["lid"].is_unique


def test_an_adapter_alone_on_its_port_is_a_discovery_without_links():
    alone = 'vendid=0x2c9\nCa\t1 "H-02420a0003008100"\t\t# "ctl01 mlx5_0"\n'
    assert parse.discovery(alone).links.empty


def test_a_manager_says_its_state_priority_and_port():
    assert parse.subnet_manager(recorded("sminfo-master.txt")) == {
        "lid": 1,
        "guid": "02420a0003008301",
        "priority": 15,
        "state": "MASTER",
    }


def test_counters_name_the_port_and_not_the_sum_over_all_ports():
    assert parse.counters(recorded("ibqueryerrors-symbol-errors.txt")) == {
        ("02420a0005000030", 5): {"SymbolErrorCounter": 1000}
    }
    assert parse.counters(recorded("ibqueryerrors.txt")) == {}


def test_pkeys_leave_empty_places_out():
    assert parse.pkeys(recorded("smpquery-pkeys.txt")) == {0x7FFF, 0x8001}


def test_lanes_are_given_per_input_port():
    tables = parse.lanes(recorded("smpquery-sl2vl.txt"))
    assert tables == [[0, 1, *[0] * 14]] * len(tables)
    assert tables


def test_arbitration_leaves_lanes_without_weight_out():
    assert parse.arbitration(recorded("smpquery-vlarb.txt")) == {"low": {0: 64}, "high": {1: 64}}


@pytest.mark.parametrize(
    "reader", [parse.discovery, parse.subnet_manager, parse.counters, parse.pkeys, parse.lanes, parse.arbitration]
)
@pytest.mark.parametrize("text", ["", "ibwarn: [12] mad_rpc: _do_madrpc failed", "\x00\xff garbage"])
def test_what_is_no_answer_is_an_error_and_not_an_empty_answer(reader, text):
    with pytest.raises(ValueError):
        reader(text)


def test_a_discovery_cut_short_is_refused_with_its_line():
    whole = recorded("ibnetdiscover.txt")
    with pytest.raises(ValueError, match=r"line \d+ of ibnetdiscover"):
        parse.discovery(whole[: len(whole) // 2])


def test_a_discovery_doubled_is_refused_with_the_line_of_the_second_copy():
    whole = recorded("ibnetdiscover.txt")
    again = whole.count("\n") + whole[: whole.index("Switch")].count("\n") + 1
    with pytest.raises(ValueError, match=f"line {again} of ibnetdiscover shows S-"):
        parse.discovery(whole + whole)


def test_a_port_that_is_there_twice_is_refused():
    whole = recorded("ibnetdiscover.txt")
    row = next(line for line in whole.split("\n") if line.startswith("[1]"))
    with pytest.raises(ValueError, match="shows port 1 of S-.* a second time"):
        parse.discovery(whole.replace(row, f"{row}\n{row}", 1))


def test_a_garbled_line_is_refused_and_named():
    whole = recorded("ibnetdiscover.txt")
    row = next(line for line in whole.split("\n") if line.startswith("[5]"))
    number = whole[: whole.index(row)].count("\n") + 1
    with pytest.raises(ValueError, match=f"line {number} of ibnetdiscover is not one"):
        parse.discovery(whole.replace(row, row.replace('"', "?"), 1))


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 100_000), length=st.integers(1, 400), put=st.text(max_size=20))
def test_a_damaged_discovery_is_refused_or_shows_every_link_from_both_ends(cut, length, put):
    whole = recorded("ibnetdiscover.txt")
    at = cut % len(whole)
    try:
        found = parse.discovery(whole[:at] + put + whole[at + length :])
    except ValueError:
        return
    ends = set(zip(found.links["key"], found.links["port"], strict=True))
    assert ends == set(zip(found.links["far_key"], found.links["far_port"], strict=True))
