"""The documents that people build from: complete, unambiguous, and the same for the same plan."""

import dataclasses
import io
import json
import re
from xml.etree import ElementTree

import pandas as pd
import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.outputs.documents.installation import documents, fabric_failures
from capacity.outputs.documents.power import _poles, spare_poles
from capacity.outputs.report.mechanical import floor_plan
from inventory.site import load_site
from inventory.site.whatif import changed
from tests.plans import plan_of

SITES = ("lab", pytest.param("h100-1000-ib", marks=pytest.mark.soak), "b200-256-roce", "gb300-nvl72-liquid")
"""The largest site is in `make soak` only. gb300-nvl72-liquid has InfiniBand too, b200-256-roce air cooling."""


@pytest.fixture(scope="module", params=SITES)
def plan(request: pytest.FixtureRequest) -> Plan:
    return plan_of(request.param)


@pytest.fixture(scope="module")
def papers(plan: Plan) -> dict[str, str]:
    return documents(plan)


def table(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)


def test_every_document_names_its_site_and_plan(plan, papers):
    for name, text in papers.items():
        if name.endswith(".csv"):
            assert f"\n{name}: " in papers["README.txt"]
        elif not name.endswith(".json"):
            assert plan.site.name in text
            assert plan.hash in text
        else:
            assert (json.loads(text)["site"], json.loads(text)["plan"]) == (plan.site.name, plan.hash)


def test_a_spreadsheet_finds_the_headings_in_the_first_row_of_every_csv(papers):
    for name, text in papers.items():
        if name.endswith(".csv"):
            assert re.fullmatch(r"[a-z0-9_]+(,[a-z0-9_]+)*", text.splitlines()[0]), name


def test_the_same_site_gives_the_same_bytes(plan, papers):
    assert documents(build(load_site(plan.site.name))) == papers


def test_switches_are_upgraded_in_windows_that_leave_a_way(plan, papers):
    windows = table(papers["switch-upgrade.csv"])
    switches = plan.devices[(plan.devices["kind"] == "switch") & plan.devices["fabric"].isin(["compute", "inband"])]
    assert sorted(windows["switch"]) == sorted(switches["name"])
    alone = windows[(windows["fabric"] == "inband") | (windows["role"] != "leaf")]
    assert not alone["window"].duplicated().any()
    assert (alone["drained"] == "").all()
    units = windows[(windows["fabric"] == "compute") & (windows["role"] == "leaf")].drop_duplicates("window")
    drained = " ".join(units["drained"]).split()
    assert sorted(drained) == sorted(plan.devices.loc[plan.devices["role"] == "gpu", "name"])


def test_the_cable_schedule_has_every_cable_once_with_both_places(plan, papers):
    schedule = table(papers["cable-schedule.csv"])
    assert schedule["cable_id"].tolist() == plan.cables["cable_id"].tolist()
    racks = set(plan.racks["name"])
    for column in ("a_place", "b_place"):
        assert set(schedule[column].str.split(" ").str[0]) <= racks
    assert (schedule["length_m"].astype(float) > 0).all()
    assert (schedule["part"] != "").all()


def test_every_drawing_prints_its_site_and_plan(plan, papers):
    drawings = {name: text for name, text in papers.items() if name.endswith(".svg")}
    assert {"one-line.svg", "floor-plan.svg", "cooling-schematic.svg", "gantt.svg"} <= set(drawings)
    for name, text in drawings.items():
        shown = [e.text or "" for e in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
        assert f"plan {plan.hash}" in shown, name
        assert any(words.startswith(f"site {plan.site.name}, inputs as of ") for words in shown), name
        assert "var(--" not in text, name  # viewers of drawings know no CSS variables


def test_every_rack_is_in_an_elevation_and_every_device_in_the_table_of_racks(plan, papers):
    listed = table(papers["rack-contents.csv"])
    assert set(listed["device"]) == set(plan.placements["device"])
    elevations = {name: text for name, text in papers.items() if name.startswith("elevation-")}
    counted = 0
    for name, text in elevations.items():
        words = [e.text or "" for e in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
        rack = name.removeprefix("elevation-").removesuffix(".svg")
        standing = listed[(listed["rack"] == rack) & (listed["u_height"] != "0")]["device"]
        assert set(standing) <= set(words)
        counted += next(int(found[1]) for w in words if (found := re.match(r"(\d+) racks? of this kind", w)))
    assert counted == len(plan.racks)


def test_each_transceiver_of_the_bill_has_its_cage_in_the_list(plan, papers):
    listed = table(papers["transceivers.csv"])
    bought = plan.bom[plan.bom["item"] == "transceiver"].set_index("model")["quantity"]
    assert listed["transceiver"].value_counts().to_dict() == bought.to_dict()
    assert not listed.duplicated(["device", "cage"]).any()
    cables = plan.cables
    fibre = cables[cables["part"].isin(listed["part"])]
    ends = set(zip(fibre["a_device"], fibre["a_port"], strict=True)) | set(
        zip(fibre["b_device"], fibre["b_port"], strict=True)
    )
    served = {(d, p) for d, ports in zip(listed["device"], listed["ports"], strict=True) for p in ports.split(", ")}
    assert served == ends
    assert (listed["place"] != "").all()


def test_a_cable_between_twin_cages_is_one_piece_for_its_links(plan, papers):
    schedule = table(papers["cable-schedule.csv"])
    assert schedule["piece"].nunique() == plan.bom.loc[plan.bom["item"] == "cable", "quantity"].sum()
    assert set(schedule["piece"]) <= set(schedule["cable_id"])


def test_every_cable_has_one_label_at_each_end_and_no_two_labels_are_alike(plan, papers):
    labels = table(papers["cable-labels.csv"])
    assert len(labels) == 2 * len(plan.cables)
    assert labels.groupby("cable_id")["end"].agg("".join).eq("AB").all()
    assert labels["label"].is_unique


def test_the_labels_of_a_cable_are_each_others_mirror(papers):
    labels = table(papers["cable-labels.csv"]).pivot(index="cable_id", columns="end", values="label")
    here, there = labels["A"].str.split(" > ", expand=True), labels["B"].str.split(" > ", expand=True)
    assert (here[0] == there[1]).all()
    assert (here[1] == there[0]).all()


def test_every_supply_is_on_one_outlet_and_no_outlet_has_two(plan, papers):
    cords = table(papers["outlet-map.csv"])
    supplies = plan.devices.set_index("name")["psu_count"]
    assert not cords.duplicated(["device", "psu"]).any()
    assert not cords.duplicated(["pdu", "outlet"]).any()
    counted = cords.groupby("device").size()
    assert counted.to_dict() == supplies[counted.index].to_dict()


def test_every_cord_and_every_pdu_has_a_power_label(plan, papers):
    labels = table(papers["power-labels.csv"])
    above = set(plan.elements.loc[plan.elements["kind"] != "circuit", "name"])
    assert len(labels) == int((plan.outlets["device"] != "").sum()) + len(plan.circuits) + len(above)
    assert above <= set(labels["at"])
    assert labels["at"].is_unique
    assert set(plan.circuits["pdu"]) <= set(labels["at"])


def test_addresses_are_all_there_and_counted_per_network(plan, papers):
    addresses, networks = table(papers["addresses.csv"]), table(papers["networks.csv"])
    assert addresses["address"].tolist() == plan.addresses["address"].tolist()
    counted = dict(zip(networks["network"], networks["addresses"].astype(int), strict=True))
    assert counted == plan.addresses["network"].value_counts().to_dict()


def test_the_topology_has_every_fabric_cable_and_its_ends(plan, papers):
    data = json.loads(papers["topology.json"])
    fabric = plan.cables[plan.cables["fabric"].isin(["compute", "inband"])]
    assert [edge["cable_id"] for edge in data["edges"]] == fabric["cable_id"].tolist()
    ends = {edge[side] for edge in data["edges"] for side in ("a_device", "b_device")}
    assert {node["name"] for node in data["nodes"]} == ends


def test_a_document_of_an_empty_room_has_its_heads(plan):
    bare = dataclasses.replace(plan, cables=plan.cables.iloc[:0], outlets=plan.outlets.iloc[:0])
    papers = documents(bare)
    assert list(table(papers["cable-labels.csv"])) == ["cable_id", "end", "label", "fibre"]
    assert table(papers["outlet-map.csv"]).empty


def test_every_circuit_has_a_place_in_a_panel_and_every_element_a_lockout_sheet(plan, papers):
    schedule, sheets = table(papers["panel-schedule.csv"]), table(papers["lockout-sheets.csv"])
    assert sorted(schedule["circuit"]) == sorted(plan.circuits["circuit"])
    assert not schedule.duplicated(["panel", "position"]).any()
    assert set(sheets["isolation_point"]) == set(plan.elements["name"])
    ups = sheets[sheets["isolation_point"].str.startswith("ups-")].groupby("isolation_point")["action"].agg(" ".join)
    assert ups.str.contains("battery breaker").all()


def test_phase_amps_of_the_panel_schedule_carry_the_load_of_the_circuit(plan, papers):
    """Phase to neutral, power factor 1: the three line currents times the phase voltage are the circuit's load."""
    schedule = (
        table(papers["panel-schedule.csv"]).set_index("circuit").astype({"l1_a": float, "l2_a": float, "l3_a": float})
    )
    amps = schedule[["l1_a", "l2_a", "l3_a"]].sum(axis=1)
    circuits = plan.circuits.set_index("circuit")
    kw = amps.reindex(circuits.index) * circuits["voltage_v"] / 3**0.5 / 1000
    assert (kw - circuits["load_kw"]).abs().max() < 0.02


def test_the_one_line_diagram_is_well_formed_and_names_every_feed(plan, papers):
    root = ElementTree.fromstring(papers["one-line.svg"])
    words = " ".join(node.text or "" for node in root.iter() if node.tag.endswith("text"))
    assert all(f"Feed {feed}, room" in words for feed in plan.site.power.feeds)


def alive_without(plan: Plan) -> dict[str, set[str]]:
    """Of each element above the circuits, the neighbours that a source still reaches when it is out, by a search over the
    drawing in which current may flow both ways. Sources: the grid, generators, UPS batteries.
    """
    above = plan.elements[plan.elements["kind"] != "circuit"]
    near: dict[str, set[str]] = {name: set() for name in above["name"]}
    for name, upstream, others in zip(above["name"], above["upstream"], above["alternates"], strict=True):
        for source in filter(None, [upstream, *others.split("; ")]):
            near[name].add(source)
            near[source].add(name)
    own = set(above.loc[above["kind"].isin(["utility", "generator", "ups"]), "name"])

    def reached(start: str, out: str) -> bool:
        seen, left = {out}, [start]
        while left:
            here = left.pop()
            if here in own:
                return True
            seen.add(here)
            left += near[here] - seen
        return False

    return {name: {other for other in others if reached(other, name)} for name, others in near.items()}


def test_a_lockout_sheet_opens_every_neighbour_that_can_be_alive_and_earths_after_proving(plan, papers):
    sheets = table(papers["lockout-sheets.csv"])
    wanted = alive_without(plan) | {
        c: {p} for c, p in plan.elements.loc[plan.elements["kind"] == "circuit", ["name", "upstream"]].to_numpy()
    }
    assert set(wanted) == set(sheets["isolation_point"])
    for name, sheet in sheets.groupby("isolation_point", sort=False):
        actions = sheet.sort_values("step", key=lambda s: s.astype(int))["action"].tolist()
        opened = [
            (n, a) for n, a in enumerate(actions) if "pen the breaker between" in a or a.startswith("Open breaker")
        ]
        for other in wanted[name]:
            assert any(other in a.replace(",", "").replace(";", "").split() for _, a in opened), (name, other)
        assert all("lock" in a and "tag" in a for _, a in opened)
        order = [
            next(n for n, a in enumerate(actions) if a.startswith(start))
            for start in ("Prove the tester on", f"Prove {name} dead on all poles", "Prove the tester again", "Earth")
        ]
        assert order == sorted(order)
        assert max(n for n, _ in opened) < order[0]
        assert not any(" 0.0 kA" in a for a in actions)


def test_lockout_of_what_was_unsafe_to_work_on(plan, papers):
    """A transformer is fed back from its board, a generator from the bus of the others, a line from the other line's boards."""
    steps = table(papers["lockout-sheets.csv"]).groupby("isolation_point")["action"].agg(" / ".join)
    assert "open the breaker between tx-A-1 and swb-A-1" in steps["tx-A-1"]
    assert all(
        word in steps["ups-A-1"] for word in ("input breaker", "static-bypass", "output breaker", "battery", "manual")
    )
    if "gen-A-1" in steps:
        assert "open the breaker between gen-A-1 and genbus-A" in steps["gen-A-1"]
        assert "not computed (generators)" in steps["gen-A-1"]
    for feed in plan.site.power.feeds:
        assert f"between utility-1 and mv-{feed}" in steps["utility-1"]


def test_a_panel_schedule_says_voltage_source_spare_places_and_never_0_for_unknown():
    plan = build(
        changed(
            "b200-256-roce",
            ["electrical.rack_conductor.ampacity_a=null", "electrical.rack_conductor.ampacity_source=null"],
        )
    )
    schedule = table(documents(plan)["panel-schedule.csv"])
    elements = plan.elements.set_index("name")
    assert schedule["fed_from"].tolist() == elements.loc[schedule["panel"], "upstream"].tolist()
    assert set(schedule["voltage_v"].astype(float)) == {415.0}
    used = schedule.groupby("panel")["circuit"].transform("size")
    electrical = plan.site.electrical
    assert electrical is not None
    assert set(schedule["spare_places"].astype(int) + used) == {electrical.panels.circuits}
    assert (schedule["spare_poles"] != "").tolist() == (schedule["spare_places"].astype(int) > 0).tolist()
    assert set(schedule["ampacity_a"]) == {"unknown"}
    assert "0" not in set(schedule["end_rating_ka"])


@pytest.mark.parametrize("places", [14, 21, 28])
def test_a_panel_schedule_names_the_poles_that_are_free(places):
    """The poles of taken places and the free ones are all poles of the panel, each once."""
    for used in range(places + 1):
        taken = [pole for place in range(used) for pole in _numbers(_poles(place))]
        free = _numbers(spare_poles(used, places))
        whole = [pole for place in range(places) for pole in _numbers(_poles(place))]
        assert sorted([*taken, *free]) == sorted(whole)
    assert spare_poles(7, 14) == "20-22-24, 25 to 42"
    assert spare_poles(4, 14) == "13 to 42"
    assert spare_poles(5, 20, busway=True) == "tap 6 to tap 20"


def _numbers(poles):
    """Numbers that '20-22-24, 25 to 42' stands for."""
    found: list[int] = []
    for part in filter(None, poles.split(", ")):
        low, _, high = part.partition(" to ")
        found += range(int(low), int(high) + 1) if high else map(int, part.split("-"))
    return found


@pytest.mark.parametrize("name", ["b200-256-roce", "gb300-nvl72-liquid"])
def test_the_floor_plan_has_dimensions_in_metres(name):
    plan = plan_of(name)
    room, drawn = plan.site.room, documents(plan)["floor-plan.svg"]
    assert f"row {room.racks_per_row * room.rack_pitch_m:.2f} m" in drawn
    assert f"place {room.rack_pitch_m:.2f} m" in drawn
    assert f"hall {room.length_m:.2f} x {room.width_m:.2f} m" in drawn
    assert (f"pitch {room.row_pitch_m:.2f} m" in drawn) == (room.rows > 1)


@pytest.mark.parametrize("name", ["h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid"])
def test_no_dimension_of_the_floor_plan_lies_on_a_unit_a_rack_or_other_words(name):
    """Words of 10 px are taken as 6 px a letter wide."""
    plan = plan_of(name)
    drawn = ElementTree.fromstring(floor_plan(plan))
    boxes = [
        tuple(float(box.attrib[side]) for side in ("x", "y", "width", "height"))
        for box in drawn.iter("rect")
        if box.get("class") in ("m-unit", "m-rack", "m-panel")
    ]
    words = {}
    for one in drawn.iter("text"):
        said, x, y = one.text or "", float(one.attrib["x"]), float(one.attrib["y"])
        wide = 6.0 * len(said)
        shift = {"m-end": wide, "m-mid": wide / 2}.get(one.get("class", "").split(" ")[-1], 0.0)
        words[said, x, y] = (x - shift, y - 8, wide, 9.0)
    measured = re.compile(r"(row|place|rack|aisle|pitch) [\d.]+ m")
    dimensions = {key: box for key, box in words.items() if measured.fullmatch(key[0])}
    assert len(dimensions) == (5 if plan.site.room.rows > 1 else 3)
    across = float(drawn.attrib["viewBox"].split()[2])
    for key, (x, y, wide, tall) in dimensions.items():
        assert x >= 0, key
        assert x + wide <= across, key
        for ox, oy, owide, otall in [*boxes, *(box for other, box in words.items() if other != key)]:
            assert x + wide <= ox or ox + owide <= x or y + tall <= oy or oy + otall <= y, key


def test_what_a_lost_switch_leaves_of_the_fabric_is_listed_by_kind():
    """1,000 servers on three tiers: a spine is 1 of 4 x 32 x 32 ports of half of the planes (tests/network/test_residual.py)."""
    plan = plan_of("h100-1000-ib")
    rows = fabric_failures(plan).set_index("lost")
    assert list(rows.index) == ["leaf", "spine", "leaf-spine bundle", "core", "spine-core bundle"]
    assert rows["of"].tolist()[:2] == [256, 256]
    assert rows.at["leaf", "endpoints_cut_off"] == 32
    assert rows.at["spine", "bisection_left_pct"] == round(100 * (4096 - 32) / 4096, 3)
    assert rows.at["leaf", "bisection_left_gbps"] == 4000 * 400
