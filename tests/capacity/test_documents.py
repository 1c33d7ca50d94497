"""The documents that people build from: complete, unambiguous, and the same for the same plan."""

import dataclasses
import io
import json

import pandas as pd
import pytest

from capacity.documents import documents
from capacity.plan import Plan, build
from inventory.site import load_site

SITES = ("lab", "h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid")


@pytest.fixture(scope="module", params=SITES)
def plan(request: pytest.FixtureRequest) -> Plan:
    return build(load_site(request.param))


@pytest.fixture(scope="module")
def papers(plan: Plan) -> dict[str, str]:
    return documents(plan)


def table(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text), comment="#", dtype=str, keep_default_na=False)


def test_every_document_names_its_site_and_plan(plan, papers):
    for name, text in papers.items():
        if name.endswith(".csv"):
            assert text.splitlines()[0] == f"# site {plan.site.name}, plan {plan.hash}"
        elif name.endswith(".md"):
            assert plan.site.name in text.splitlines()[0]
            assert f"Plan {plan.hash}." in text.splitlines()[2]
        else:
            assert (json.loads(text)["site"], json.loads(text)["plan"]) == (plan.site.name, plan.hash)


def test_the_same_site_gives_the_same_bytes(plan, papers):
    assert documents(build(load_site(plan.site.name))) == papers


def test_the_cable_schedule_has_every_cable_once_with_both_places(plan, papers):
    schedule = table(papers["cable-schedule.csv"])
    assert schedule["cable_id"].tolist() == plan.cables["cable_id"].tolist()
    racks = set(plan.racks["name"])
    for column in ("a_place", "b_place"):
        assert set(schedule[column].str.split(" ").str[0]) <= racks
    assert (schedule["length_m"].astype(float) > 0).all()
    assert (schedule["part"] != "").all()


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
    assert len(labels) == int((plan.outlets["device"] != "").sum()) + len(plan.circuits)
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
    assert list(table(papers["cable-labels.csv"])) == ["cable_id", "end", "label"]
    assert table(papers["outlet-map.csv"]).empty
