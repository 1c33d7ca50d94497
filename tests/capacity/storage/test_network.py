"""What the in-band network carries between GPU servers and storage: by hand, on small fabrics and on shipped sites."""

import pandas as pd
import pytest

from capacity.build import build
from capacity.storage import network
from capacity.storage.network import Reach
from tests.capacity.sites import variant
from tests.findings import offers

ROLES = {"g": "gpu", "s": "storage", "l": "leaf", "p": "spine"}
LINK_GB_S = 100 / 8 * 0.9


def reach(*pairs: str) -> Reach | None:
    """`pairs` as 'g1 l1': links of 100 Gb/s; the first letter says what a device is."""
    ends = [pair.split() for pair in pairs]
    cables = pd.DataFrame(ends, columns=["a_device", "b_device"]).assign(fabric="inband", rate_gbps=100.0)
    names = sorted({name for pair in ends for name in pair})
    return network.reach(cables, pd.DataFrame({"name": names, "role": [ROLES[name[0]] for name in names]}))


def test_nothing_crosses_the_spines_where_both_hang_on_the_same_leaves() -> None:
    # Two clients with two links each and one server with two: its two links bind, the thin spine does not matter.
    found = reach("g1 l1", "g1 l2", "g2 l1", "g2 l2", "s1 l1", "s1 l2", "l1 p1", "l2 p1")
    assert found is not None
    assert (found.kind, found.at) == ("storage", "s1")
    assert found.gb_s == pytest.approx(2 * LINK_GB_S)


def test_a_client_uses_only_the_leaf_that_it_shares() -> None:
    # s1 hangs on l1 and l2, g1 on l2 and l3: both use their link at l2 alone.
    found = reach("g1 l2", "g1 l3", "s1 l1", "s1 l2", "l1 p1", "l2 p1", "l3 p1")
    assert found is not None
    assert found.gb_s == pytest.approx(LINK_GB_S)


def test_the_uplink_of_the_storage_leaf_binds() -> None:
    # Four clients on leaves of their own, storage with four links on one leaf with one uplink: everything crosses it.
    found = reach(*(f"g{n} l{n}" for n in range(1, 5)), *["s1 l9"] * 4, *(f"l{n} p1" for n in (1, 2, 3, 4, 9)))
    assert found is not None
    assert (found.kind, found.at) == ("uplink", "l9")
    assert found.gb_s == pytest.approx(LINK_GB_S)


def test_half_of_the_traffic_stays_on_the_leaf() -> None:
    # One client beside the storage, one elsewhere: half crosses the only uplink, so that twice its rate is carried.
    found = reach("g1 l1", "g1 l1", "g1 l1", "g2 l2", "g2 l2", "g2 l2", *["s1 l1"] * 4, "l1 p1", "l2 p1")
    assert found is not None
    assert found.kind == "uplink"
    assert found.gb_s == pytest.approx(2 * LINK_GB_S)


def test_without_storage_there_is_nothing_to_say() -> None:
    assert reach("g1 l1", "l1 p1") is None


@pytest.mark.parametrize("site", ["gb300-nvl72-liquid", "b200-256-roce", "h100-1000-ib", "lab"])
def test_shipped_sites_carry_what_they_ask_for(site: str) -> None:
    assert not [f for f in build(variant(site)).findings if f.id == "STORAGE-NETWORK"]


def test_reads_beyond_the_spines_are_named_and_the_spines_that_carry_them_mend_it() -> None:
    wish = {"read_gb_s_per_gpu": 1.3}  # 576 GPUs: 748.8 GB/s
    plan = build(variant("gb300-nvl72-liquid", storage=wish))
    (found,) = [f for f in plan.findings if f.id == "STORAGE-NETWORK"]
    assert found.severity == "error"
    assert (found.numbers["need_gb_s"], found.limit) == (748.8, 432)
    assert offers(found, "inband.spines", 7)
    assert offers(found, "storage.read_gb_s_per_gpu", 0.75)
    for change in ({"storage": wish, "inband": {"spines": 7}}, {"storage": {"read_gb_s_per_gpu": 0.75}}):
        mended = build(variant("gb300-nvl72-liquid", **change))
        assert not [f for f in mended.findings if f.id == "STORAGE-NETWORK"], change
