"""Paths that a leaf keeps open beside each other, read back from its rendering and from texts that lack a part of it."""

import pytest

from network import render
from network.nos.frr import paths
from tests.network import dual_stack
from tests.plans import plan_of

PLAN = plan_of("lab")
TEXT = render.whole(PLAN, "leaf01")
PLANNED = paths.read(TEXT)


def test_a_rendering_is_read_back_with_all_its_servers_and_neighbours() -> None:
    assert PLANNED.neighbours == {"swp1", "swp2"}
    assert len(PLANNED.hosts) == 4
    assert all(len(hops) == 1 and loopback in PLANNED.announced for loopback, hops in PLANNED.hosts.items())
    assert (PLANNED.relaxed, PLANNED.most, PLANNED.bfd) == (True, None, True)
    assert list(PLANNED.unlike(PLANNED)) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (" bgp bestpath as-path multipath-relax\n", "", "uses one path of several"),
        ("  neighbor FABRIC route-map LOOPBACKS in\n", "  maximum-paths 1\n", "uses 1 of 2 equal paths"),
        (" neighbor FABRIC bfd\n neighbor FABRIC bfd profile FABRIC\n", "", "has no BFD with its neighbours"),
        (" neighbor swp2 interface peer-group FABRIC\n", "", "has no BGP neighbour on swp2"),
        ("ip route 172.16.0.7/32 172.18.0.1\n", "", "has nothing as next hop of 172.16.0.7/32, planned 172.18.0.1"),
        ("172.16.0.7/32 172.18.0.1\n", "172.16.0.7/32 172.18.0.5\n", "has 172.18.0.5 as next hop of 172.16.0.7/32"),
        ("  network 172.16.0.7/32\n", "", "does not announce 172.16.0.7/32"),
    ],
)
def test_a_path_that_is_closed_is_named(old: str, new: str, words: str) -> None:
    assert old in TEXT
    (fault,) = paths.read(TEXT.replace(old, new)).unlike(PLANNED)
    assert words in fault


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("ipv6 route fd00:16::7/128 fd00:18::1\n", "", "has nothing as next hop of fd00:16::7/128, planned fd00:18::1"),
        ("  network fd00:16::7/128\n", "", "does not announce fd00:16::7/128"),
    ],
)
def test_a_closed_path_of_ipv6_is_named(old: str, new: str, words: str) -> None:
    text = render.whole(dual_stack.lab(), "leaf01")
    planned = paths.read(text)
    assert len(planned.hosts) == 2 * len(PLANNED.hosts)
    assert list(planned.unlike(planned)) == []
    (fault,) = paths.read(text.replace(old, new)).unlike(planned)
    assert words in fault


def test_text_without_bgp_is_refused() -> None:
    with pytest.raises(ValueError, match="no `router bgp`"):
        paths.read("frr version 8.4.4\nend\n")
