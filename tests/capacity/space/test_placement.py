"""Racks of switches, service nodes and storage are as few as hold them."""

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.build import build
from capacity.sizes import complete
from capacity.space.placement import COMPUTE, RackLimits, Room, Space, _Search, place
from inventory.site import parse_site
from inventory.site.new import Wanted, site_text
from tests.capacity import counts
from tests.capacity.packing import fit

KINDS = {
    # model: rack units, kg, W, supplies, inlet
    "nvidia-q3400-ra": (4, 60.0, 7000.0, 8, "c20"),
    "nvidia-sn5600": (2, 23.5, 2092.0, 4, "c20"),
    "nvidia-qm9700": (1, 14.8, 1720.0, 2, "c14"),
    "nvidia-sn4600c": (2, 15.5, 690.0, 2, "c14"),
    "nvidia-sn2201": (1, 7.41, 112.0, 2, "c14"),
    "generic-service-node-2u": (2, 30.0, 1200.0, 2, "c14"),
}
ROOM = Room(rows=10, racks_per_row=20, rack_pitch_m=0.8, row_pitch_m=3.0, floor_load_kg_m2=1500.0)


def placed(counts: dict[str, int], power_kw: float, outlets: int) -> Space:
    """These devices without servers, in racks of 48 U."""
    models = [model for model, count in counts.items() for _ in range(count)]
    columns = pd.DataFrame(
        [KINDS[model] for model in models], columns=["u_height", "mass_kg", "nameplate_w", "psu_count", "inlet"]
    )
    devices = columns.assign(
        name=[f"d{i:03d}" for i in range(len(models))],
        model=models,
        kind="switch",
        role="spine",
        fabric="",
        unit=-1,
        busbar=-1,
    )
    rack = RackLimits("rack-48u-800", 48, 4, 140.0, 1360.0, power_kw, 0.8, 1.2)
    inlets = {model: str(inlet) for model, (*_, inlet) in KINDS.items()}
    sockets = {"c14": outlets, "c20": outlets}
    return place(devices, 32, (rack, rack, rack), ROOM, inlets, [sockets] * 3, 48)


@given(
    counts=st.dictionaries(st.sampled_from(sorted(KINDS)), st.integers(1, 6), min_size=1),
    power_kw=st.sampled_from([8.0, 12.0, 17.0, 25.0, 34.4]),
    outlets=st.sampled_from([16, 24, 36]),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_no_fewer_racks_would_hold_the_devices(counts: dict[str, int], power_kw: float, outlets: int) -> None:
    racks = len(placed(counts, power_kw, outlets).racks)
    needs = [
        [u, kg, w / 1000, supplies * (inlet == "c14"), supplies * (inlet == "c20")]
        for u, kg, w, supplies, inlet in (KINDS[model] for model, count in counts.items() for _ in range(count))
    ]
    limits = np.array([48, 1360, power_kw, outlets, outlets], dtype=np.float64)
    assert fit(np.array(needs), limits, racks)
    assert not fit(np.array(needs), limits, racks - 1)


def test_tiers_stand_together_where_that_takes_no_rack_more() -> None:
    """Two racks of 30 kW are filled one after the other; 71 kW ask for three in any order."""
    space = placed({"nvidia-q3400-ra": 8, "nvidia-sn4600c": 8, "generic-service-node-2u": 8}, 30.0, 40)
    racks = space.placements["rack"].tolist()
    assert racks == sorted(racks)


def test_a_light_switch_stands_beside_heavy_ones_where_that_saves_a_rack() -> None:
    """Four racks of 30 kW hold 112 kW of 16 large switches and leave 2 kW each, which two light ones fill."""
    space = placed({"nvidia-q3400-ra": 16, "nvidia-sn4600c": 8}, 30.0, 40)
    assert len(space.racks) == 4
    assert space.racks["use"].ne(COMPUTE).all()


def test_switches_that_nearly_fill_the_power_and_the_outlets_of_their_racks_stand_evenly() -> None:
    """Twelve GB200 racks: 66 fabric switches, 20 others and 5 nodes ask for 95 % of four racks in both."""
    plan = build(complete(parse_site(site_text(Wanted("hall", gpu="gb200", fabric="ib", servers=216)))), what_ifs=False)
    assert (plan.racks["model"] == "rack-48u-800").sum() == 5  # one of them has the storage
    counts.one_rack_less_does_not_hold_the_switches_and_service_nodes_nor_the_storage(plan)


def test_a_search_that_has_too_many_ways_ends_and_finds_none() -> None:
    """Forty kinds of devices whose needs fill no rack exactly: all ways of filling one are more than can be tried."""
    rng = np.random.default_rng(1)
    search = _Search(np.repeat(rng.uniform(0.03, 0.2, (40, 3)).round(9), 3, axis=0))
    assert search.racks(1, 1) == []
    search.racks(14, 14)
    assert search.steps <= 1.01 * search.MOST_STEPS


def test_switches_that_join_the_management_network_stand_amid_those_that_they_join() -> None:
    servers, access, joining = 400, 100, 3
    server = {"u_height": 8, "mass_kg": 130.0, "nameplate_w": 10200.0, "psu_count": 6, "inlet": "c20"}
    switch = dict(
        zip(("u_height", "mass_kg", "nameplate_w", "psu_count", "inlet"), KINDS["nvidia-sn2201"], strict=True)
    )
    rows = [
        *(
            {**server, "name": f"node{i:03d}", "model": "server", "kind": "server", "role": "gpu"}
            for i in range(servers)
        ),
        *({**switch, "name": f"oob{i:03d}", "model": "nvidia-sn2201", "role": "oob"} for i in range(access)),
        *({**switch, "name": f"oobagg{i:02d}", "model": "nvidia-sn2201", "role": "oob"} for i in range(joining)),
    ]
    devices = pd.DataFrame(rows).fillna({"kind": "switch"}).assign(fabric="oob", unit=-1, busbar=-1)
    rack = RackLimits("rack-48u-800", 48, 4, 140.0, 1360.0, 44.0, 0.8, 1.2)
    sockets = {"c14": 24, "c20": 24}
    inlets = {"server": "c20", "nvidia-sn2201": "c14"}
    space = place(devices, 32, (rack, rack, rack), ROOM, inlets, [sockets] * 3, 48)
    at = space.placements.set_index("device")["rack"].str.removeprefix("r").astype(int)
    for number in range(joining):
        joined = at[[f"oob{i:03d}" for i in range(access)][48 * number : 48 * (number + 1)]]
        middle = (joined.min() + joined.max()) / 2
        assert abs(at[f"oobagg{number:02d}"] - middle) <= 1
