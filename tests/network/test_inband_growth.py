"""Growth of the in-band Ethernet: no port twice, and what stands stays."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network.fabric import emptiest_pairs, inband_links, leaf_pairs

ENDS = ["a_device", "a_port", "b_device", "b_port"]
LINKS_PER_NODE = 2


def wired(servers: list[str], leaves: int, spines: int, held: pd.DataFrame | None = None) -> pd.DataFrame:
    names = [f"l{i}" for i in range(leaves)]
    if held is None:
        pair = leaf_pairs(len(servers), leaves // LINKS_PER_NODE)
    else:
        pair = emptiest_pairs(servers, [LINKS_PER_NODE] * len(servers), names, LINKS_PER_NODE, held)
    return inband_links(
        servers,
        np.asarray(pair),
        [["eth1", "eth2"]] * len(servers),
        names,
        [f"s{i}" for i in range(spines)],
        LINKS_PER_NODE,
        held,
    )


def ends(links: pd.DataFrame) -> list[tuple[str, str]]:
    return [end for side in "ab" for end in zip(links[f"{side}_device"], links[f"{side}_port"], strict=True)]


def servers(count: int) -> list[str]:
    return [f"n{i}" for i in range(count)]


def test_spines_from_2_to_4_keep_every_cable_and_give_no_port_twice() -> None:
    old = wired(servers(12), 2, 2)
    new = wired(servers(12), 2, 4, old)
    assert len(set(ends(new))) == len(ends(new))
    assert len(old.merge(new, on=ENDS)) == len(old)


def test_a_trunk_cable_on_another_port_stays_when_servers_are_added() -> None:
    first = wired(servers(12), 2, 2)
    old = wired(servers(12), 2, 4, first)
    new = wired(servers(16), 2, 4, old)
    assert len(old.merge(new, on=ENDS)) == len(old)


def test_a_trunk_cable_on_another_port_stays_when_the_server_of_its_number_goes() -> None:
    first = wired(servers(12), 2, 2)
    old = wired(servers(12), 2, 4, first)
    left = [name for name in servers(12) if name != "n0"]
    new = wired(left, 2, 4, old)
    assert len(old[~old["a_device"].eq("n0")].merge(new, on=ENDS)) == len(old) - LINKS_PER_NODE


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 20), min_size=1, max_size=12), st.sampled_from([2, 4, 6]), st.integers(1, 5)),
        min_size=2,
        max_size=5,
    )
)
def test_any_growth_gives_no_port_twice_and_moves_nothing_that_stays(
    steps: list[tuple[set[int], int, int]],
) -> None:
    held: pd.DataFrame | None = None
    for chosen, leaves, spines in steps:
        names = [f"n{i}" for i in sorted(chosen)]
        made = wired(names, leaves, spines, held)
        assert len(set(ends(made))) == len(ends(made))
        trunk = made[made["stage"] == "leaf-spine"]
        assert len(trunk) == leaves * spines == len(trunk.drop_duplicates(["a_device", "b_device"]))
        if held is not None:
            stays = set(names) | set(made["b_device"]) | set(trunk["a_device"])
            both = held[held["a_device"].isin(stays) & held["b_device"].isin(stays)]
            assert len(both.merge(made, on=ENDS)) == len(both)
        held = made


@pytest.mark.parametrize("spines", [1, 2, 4])
def test_a_network_that_does_not_grow_keeps_every_cable_in_its_place(spines: int) -> None:
    links = wired(servers(12), 4, spines)
    pd.testing.assert_frame_equal(wired(servers(12), 4, spines, links), links)
