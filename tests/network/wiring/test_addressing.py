"""Address allocation: sequential, stable, inside the prefix, and honest when the prefix is too small."""

import ipaddress

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from network.wiring.addressing import dotted, host_addresses, link_addresses, offsets_in_use

LINKS = pd.DataFrame(
    {
        "a_device": ["gpu001", "gpu001"],
        "a_port": ["eth1", "eth2"],
        "b_device": ["leaf01", "leaf02"],
        "b_port": ["swp3", "swp3"],
    }
)


def test_hosts_get_sequential_addresses_from_the_first_offset() -> None:
    frame, short, _ = host_addresses("oob", "10.77.0.0/24", [("a", "eth0"), ("b", "eth0")], 11, {})
    assert frame["address"].tolist() == ["10.77.0.11/24", "10.77.0.12/24"]
    assert short is None


def test_a_held_address_stays_and_is_given_to_nobody_else() -> None:
    held = {("b", "eth0", "oob"): "10.77.0.11/24"}
    frame, _, _ = host_addresses("oob", "10.77.0.0/24", [("a", "eth0"), ("b", "eth0")], 11, held)
    assert dict(zip(frame["device"], frame["address"], strict=True)) == {"a": "10.77.0.12/24", "b": "10.77.0.11/24"}


def test_a_held_address_of_another_prefix_is_dropped() -> None:
    held = {("a", "eth0", "oob"): "10.99.0.11/24"}
    frame, _, _ = host_addresses("oob", "10.77.0.0/24", [("a", "eth0")], 11, held)
    assert frame["address"].tolist() == ["10.77.0.11/24"]


def test_a_prefix_too_small_gives_what_it_has_and_says_how_much_is_missing() -> None:
    frame, short, _ = host_addresses("oob", "10.77.0.0/29", [(f"d{i}", "eth0") for i in range(9)], 1, {})
    assert frame["address"].tolist() == [f"10.77.0.{i}/29" for i in range(1, 7)]
    assert short is not None
    assert (short.needed, short.available) == (9, 6)


def test_a_link_has_the_leaf_on_the_even_address_and_names_both_peers() -> None:
    frame, short = link_addresses("172.18.0.0/16", LINKS, {})
    assert short is None
    assert frame["address"].tolist() == ["172.18.0.0/31", "172.18.0.1/31", "172.18.0.2/31", "172.18.0.3/31"]
    assert frame["device"].tolist() == ["leaf01", "gpu001", "leaf02", "gpu001"]
    assert frame["peer_device"].tolist() == ["gpu001", "leaf01", "gpu001", "leaf02"]
    assert frame["peer_interface"].tolist() == ["eth1", "swp3", "eth2", "swp3"]


def test_a_held_link_keeps_its_pair() -> None:
    frame, _ = link_addresses("172.18.0.0/16", LINKS, {("gpu001", "eth2", "link"): "172.18.0.1/31"})
    pairs = {(d, i): a for d, i, a in zip(frame["device"], frame["interface"], frame["address"], strict=True)}
    assert pairs["gpu001", "eth2"] == "172.18.0.1/31"
    assert pairs["gpu001", "eth1"] == "172.18.0.3/31"


def test_addresses_in_use_are_offsets_into_their_prefix() -> None:
    assert offsets_in_use("10.77.0.0/24", ["10.77.0.11/24", "10.78.0.1/24"]) == {11}


@settings(max_examples=60, deadline=None)
@given(
    st.integers(22, 30),
    st.integers(0, 300),
    st.integers(1, 20),
    st.sets(st.integers(1, 200), max_size=30),
)
def test_addresses_never_repeat_and_never_leave_the_prefix(
    length: int, count: int, first: int, taken: set[int]
) -> None:
    net = ipaddress.IPv4Network(f"10.0.0.0/{length}")
    frame, short, used = host_addresses("n", str(net), [(f"d{i}", "e") for i in range(count)], first, {}, taken)
    hosts = [ipaddress.IPv4Interface(a).ip for a in frame["address"]]
    offsets = {int(host) - int(net.network_address) for host in hosts}
    assert len(offsets) == len(hosts)
    assert not offsets & taken
    assert all(first <= offset < net.num_addresses - 1 for offset in offsets)
    assert offsets | taken == used
    assert (short is None) == (len(hosts) == count)
    assert dotted(np.array([int(h) for h in hosts], dtype=np.int64)) == [str(h) for h in hosts]
