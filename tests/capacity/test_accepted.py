"""The accepted state: what stands keeps its names, places, addresses and ports, and what is otherwise is said."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from capacity.accepted import COLUMNS, TRUNKS, changes, files_of, growth, load_standing, write
from capacity.build import build, planned
from capacity.model import Plan
from capacity.outputs.documents.installation import transceivers
from capacity.sizes import load_site
from inventory.site import Site, SiteError
from inventory.site.accepted import AcceptedError
from inventory.site.accepted import read as read_values
from inventory.site.needs import credentials_missing
from inventory.site.new import Wanted, site_text
from tests.capacity.counts import no_fabric_of_fewer_spines_has_the_links_and_the_ports
from tests.findings import only, values
from tests.seed import SEED

VERSION = "test"


def site_file(folder: Path, servers: int, gpu: str = "h100", fabric: str = "ib", more: str = "") -> Path:
    """A site of a few lines in a folder."""
    path = folder / "site.yaml"
    path.write_text(site_text(Wanted("hall", gpu=gpu, fabric=fabric, servers=servers)) + more)
    return path


def grow(path: Path, before: int, after: int) -> Site:
    """The same site file with more servers, as a person changes it."""
    text = path.read_text()
    assert f"count: {before}" in text
    path.write_text(text.replace(f"count: {before}", f"count: {after}"))
    return load_site(path)


_FIRST: dict[str, Plan] = {}
"""Plans of sites without an accepted state, by the text of the site file."""


def accept(path: Path) -> Plan:
    """Plan a site that has no accepted state, and accept it."""
    assert not (path.parent / "accepted").exists()
    text = path.read_text()
    if text not in _FIRST:
        _FIRST[text] = build(load_site(path))
    site = _FIRST[text].site.model_copy()
    site._path = path
    plan = replace(_FIRST[text], site=site)
    write(path.parent, files_of(plan, VERSION))
    return plan


def kept(old: Plan, new: Plan) -> None:
    """What stands is called, placed, addressed and connected as before; trunks excepted."""
    for name, columns in COLUMNS.items():
        before, after = (plan.frames()[name][list(columns)] for plan in (old, new))
        if name == "cables":
            before = before[~before["stage"].isin(TRUNKS)]
        merged = before.merge(after, on=list(columns), how="left", indicator=True)
        lost = merged[merged["_merge"] == "left_only"]
        assert lost.empty, f"{name}\n{lost.head()}"


def assert_each_port_has_one_cable(plan: Plan) -> None:
    """No port of a device has two cables."""
    ends = pd.concat(
        plan.cables[[f"{end}_device", f"{end}_port"]].set_axis(["device", "port"], axis="columns") for end in "ab"
    )
    assert ends[ends.duplicated()].empty


def ids(plan: Plan) -> set[str]:
    return {one.id for one in plan.findings if one.id.startswith("ACCEPTED-")}


@pytest.mark.parametrize(
    ("gpu", "fabric", "before", "after"),
    [
        ("h100", "ib", 8, 12),
        ("b200", "roce", 8, 20),
        ("gb300", "ib", 18, 54),
        ("h100", "ib", 30, 34),
        pytest.param("h100", "ib", 8, 120, marks=pytest.mark.soak),
    ],
)
def test_a_grown_site_changes_nothing_that_stands(
    tmp_path: Path, gpu: str, fabric: str, before: int, after: int
) -> None:
    path = site_file(tmp_path, before, gpu, fabric)
    old = accept(path)
    new = build(grow(path, before, after))
    kept(old, new)
    assert_each_port_has_one_cable(new)
    standing = load_standing(new.site)
    assert standing is not None
    found = changes(standing, new.frames())
    assert len(found["added devices"]) == len(new.devices) - len(old.devices)
    assert sum(name.startswith("gpu") for name in found["added devices"]) == after - before
    assert not found["gone devices"]
    assert not found["moved devices"]
    assert not found["readdressed interfaces"]
    assert not found["recabled devices"]
    assert ids(new) <= {"ACCEPTED-RESTATED", "ACCEPTED-RECABLED"}


@settings(
    max_examples=2, phases=(Phase.generate,), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(st.integers(2, 40), st.integers(1, 30), st.sampled_from([("h100", "ib"), ("b200", "roce"), ("mi355x", "roce")]))
def test_random_growth_changes_nothing_that_stands(
    tmp_path_factory: pytest.TempPathFactory, before: int, more: int, kind: tuple[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("grown")
    path = site_file(folder, before, *kind)
    old = accept(path)
    new = build(grow(path, before, before + more))
    kept(old, new)
    assert_each_port_has_one_cable(new)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_random_growth_of_the_day_changes_nothing_that_stands(tmp_path: Path, part: int) -> None:
    import random

    draw = random.Random(SEED * 100 + part)
    kind, before = draw.choice([("h100", "ib"), ("b200", "roce"), ("mi355x", "roce")]), draw.randint(2, 120)
    path = site_file(tmp_path, before, *kind)
    old = accept(path)
    new = build(grow(path, before, before + draw.randint(1, 80)))
    kept(old, new)
    assert_each_port_has_one_cable(new)


def test_two_more_inband_spines_move_no_cable_and_give_no_port_twice(tmp_path: Path) -> None:
    path = site_file(tmp_path, 8, more="inband: {spines: 2}\n")
    old = accept(path)
    path.write_text(path.read_text().replace("spines: 2", "spines: 4"))
    new = build(load_site(path))
    assert_each_port_has_one_cable(new)
    columns = list(COLUMNS["cables"])
    laid, now = (plan.cables.loc[plan.cables["fabric"] == "inband", columns] for plan in (old, new))
    assert len(laid.merge(now, on=columns[1:])) == len(laid)
    assert len(now) - len(laid) == 2 * old.site.inband.leaves


def test_a_port_that_an_accepted_state_has_twice_is_given_once(tmp_path: Path) -> None:
    old = accept(site_file(tmp_path, 8))
    laid = old.cables.copy()
    rows = laid.index[laid["fabric"].eq("oob") & laid["stage"].eq("bmc-oob")][:2]
    laid.loc[rows[1], ["b_device", "b_port"]] = laid.loc[rows[0], ["b_device", "b_port"]]
    new = build(old.site, baseline=replace(old, cables=laid))
    assert_each_port_has_one_cable(new)
    assert "CABLE-PORT" not in {one.id for one in new.findings}


def test_growth_says_of_each_device_and_cable_what_happens_to_it(tmp_path: Path) -> None:
    path = site_file(tmp_path, 8)
    old = accept(path)
    new = build(grow(path, 8, 12))
    standing = load_standing(new.site)
    assert standing is not None
    found = growth(standing, new.frames())
    cables = found[found["kind"] == "cable"]
    after = set(zip(cables["a_after"], cables["b_after"], strict=True)) - {("", "")}
    before = set(zip(cables["a_before"], cables["b_before"], strict=True)) - {("", "")}
    for plan, ends in ((old, before), (new, after)):
        a, b = (plan.cables[f"{side}_device"] + ":" + plan.cables[f"{side}_port"] for side in "ab")
        assert ends == set(zip(a, b, strict=True))
    assert len(cables) == len(after | before)
    added = cables[cables["change"] == "add"]
    assert (added["hours"] == 0.5).all()
    assert (cables.loc[cables["change"] == "stay", "hours"] == 0).all()
    devices = found[found["kind"] == "device"]
    assert dict(devices["change"].value_counts()) == {
        "stay": len(old.devices),
        "add": len(new.devices) - len(old.devices),
    }


def test_growth_prices_the_transceivers_that_it_adds(tmp_path: Path) -> None:
    path = site_file(tmp_path, 8)
    old = accept(path)
    new = build(grow(path, 8, 12))
    standing = load_standing(new.site)
    assert standing is not None
    found = growth(standing, new.frames(), transceivers(new))
    optics = found[found["kind"] == "transceiver"]
    added = optics[optics["change"] == "add"]
    bill = new.bom[new.bom["item"] == "transceiver"]
    assert len(optics) == bill["quantity"].sum() == len(transceivers(new))
    assert len(added) == len(transceivers(new)) - len(transceivers(old))
    assert (added["price"] == bill["unit_price"].iloc[0]).all()
    assert (optics.loc[optics["change"] == "stay", "price"] == 0).all()


def test_what_is_added_without_a_price_has_none_and_is_not_free(tmp_path: Path) -> None:
    path = site_file(tmp_path, 8)
    accept(path)
    new = build(grow(path, 8, 12))
    standing = load_standing(new.site)
    assert standing is not None
    frames = dict(new.frames())
    frames["bom"] = frames["bom"].assign(unit_price=0.0, price_source="")
    found = growth(standing, frames)
    assert found.loc[found["change"] == "add", "price"].isna().all()
    assert (found.loc[found["change"] != "add", "price"] == 0).all()
    priced = growth(standing, new.frames())
    assert (priced.loc[(priced["change"] == "add") & (priced["kind"] == "device"), "price"] > 0).any()


@pytest.mark.parametrize(("least", "moves"), [(1, True), (8, False)])
def test_spines_of_the_final_size_keep_every_trunk_in_its_place(tmp_path: Path, least: int, moves: bool) -> None:
    """40 servers are two units and have eight spines, 8 servers are one and have four."""
    path = site_file(tmp_path, 8, more=f"fabric: {{least_spines: {least}}}\n")
    accept(path)
    new = build(grow(path, 8, 40))
    standing = load_standing(new.site)
    assert standing is not None
    assert bool(changes(standing, new.frames())["recabled trunks"]) == moves
    assert ("ACCEPTED-RECABLED" in ids(new)) == moves
    assert not [one for one in new.findings if one.id.startswith("FABRIC-") and one.severity == "error"]
    no_fabric_of_fewer_spines_has_the_links_and_the_ports(new)


def test_another_number_of_tiers_is_said(tmp_path: Path) -> None:
    path = site_file(tmp_path, 8, more="fabric: {tiers: 1}\n")
    accept(path)
    path.write_text(path.read_text().replace("tiers: 1", "tiers: 2"))
    found = only(build(load_site(path)), "ACCEPTED-TIERS")
    assert found.severity == "warning"
    assert values(found, "fabric.tiers") == [1]


def test_without_a_change_the_plan_is_that_which_was_accepted(tmp_path: Path) -> None:
    path = site_file(tmp_path, 16)
    old = accept(path)
    new = build(load_site(path))
    for name, frame in old.frames().items():
        pd.testing.assert_frame_equal(frame, new.frames()[name], obj=name)
    assert not ids(new)


def test_equal_plans_are_accepted_in_equal_bytes(tmp_path: Path) -> None:
    path = site_file(tmp_path, 8)
    assert files_of(build(load_site(path)), VERSION) == files_of(build(load_site(path)), VERSION)


def test_references_to_secrets_are_not_kept(tmp_path: Path) -> None:
    paste = credentials_missing("hall").paste
    plan = build(load_site(site_file(tmp_path, 8, more=paste)))
    assert plan.site.credentials.snmp.user == "bringup"
    assert "vault:" not in "".join(files_of(plan, VERSION).values())


def test_a_device_that_the_site_no_longer_has_is_named(tmp_path: Path) -> None:
    accept(site_file(tmp_path, 12))
    new = build(load_site(site_file(tmp_path, 8)))
    (gone,) = [one for one in new.findings if one.id == "ACCEPTED-GONE"]
    assert gone.numbers["count"] == 4
    assert "gpu009" in gone.message


def test_a_changed_prefix_is_named_with_what_it_readdresses(tmp_path: Path) -> None:
    path = site_file(tmp_path, 8)
    accept(path)
    path.write_text(path.read_text().replace("oob: 10.64.0.0/16", "oob: 10.74.0.0/16"))
    found = {one.subject for one in build(load_site(path)).findings if one.id.startswith("ACCEPTED-")}
    assert found >= {"readdressed interfaces", "addressing.oob"}


def test_a_value_that_a_design_would_change_stays_and_is_named(tmp_path: Path) -> None:
    path = site_file(tmp_path, 8)
    old = accept(path)
    values = path.parent / "accepted" / "values.jsonl"
    lines = [json.loads(line) for line in values.read_text().splitlines()]
    for line in lines:
        if line["key"] == ["cooling", "plant", "chiller_cop"]:
            line["value"] = 5.0
    rewrite(path.parent, values, "\n".join(json.dumps(line) for line in lines) + "\n")
    new = build(load_site(path))
    assert new.site.cooling.plant is not None
    assert new.site.cooling.plant.chiller_cop == 5.0
    (changed,) = [one for one in new.findings if one.id == "ACCEPTED-CHANGED"]
    assert (changed.subject, "5.0" in changed.message, "5.5" in changed.message) == (
        "cooling.plant.chiller_cop",
        True,
        True,
    )
    kept(old, new)


def rewrite(folder: Path, path: Path, text: str) -> None:
    """A file of the accepted state as another version would have written it, with a manifest that fits."""
    from hashlib import sha256

    from capacity.accepted import digest_of

    path.write_text(text)
    manifest = folder / "accepted" / "manifest.json"
    head = json.loads(manifest.read_text())
    head["sha256"][path.name] = sha256(text.encode()).hexdigest()
    head["hash"] = digest_of(head["sha256"])
    manifest.write_text(json.dumps(head))


def test_an_accepted_size_grows_and_does_not_shrink(tmp_path: Path) -> None:
    accept(site_file(tmp_path, 64))
    assert load_site(site_file(tmp_path, 16)).room.rows == 2
    assert load_site(site_file(tmp_path, 160)).room.rows > 2


def test_an_accepted_contract_does_not_grow_by_itself(tmp_path: Path) -> None:
    accept(site_file(tmp_path, 8))
    new = planned(load_site(site_file(tmp_path, 16)))
    assert "POWER-UTILITY" in {one.id for one in new.findings if one.severity == "error"}


BREAKS: list[tuple[str, Any, str]] = [
    ("cables.csv", lambda text: text.replace("gpu001", "gpu002"), "changed after it was accepted"),
    ("devices.csv", None, "cannot be read"),
    ("manifest.json", None, "cannot be read"),
    ("manifest.json", lambda text: text.replace('"format": 1', '"format": 2'), "reads up to 1"),
    ("manifest.json", lambda text: "[]", "cannot be read"),
    ("values.jsonl", lambda text: "{}\n" + text, "values.jsonl:1: no accepted value"),
]


@pytest.mark.parametrize(("name", "change", "says"), BREAKS)
def test_a_broken_state_is_refused_with_place_and_way_out(tmp_path: Path, name: str, change: Any, says: str) -> None:
    path = site_file(tmp_path, 8)
    accept(path)
    broken = tmp_path / "accepted" / name
    if change is None:
        broken.unlink()
    else:
        broken.write_text(change(broken.read_text()))
    with pytest.raises(SiteError) as caught:
        build(load_site(path))
    text = " ".join(str(caught.value).split())
    assert says in text
    assert name in text
    assert "accept anew with `bringup accept`" in text or "use a newer version" in text


@pytest.fixture(scope="module")
def standing_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A small site whose plan was accepted."""
    path = site_file(tmp_path_factory.mktemp("standing"), 1)
    accept(path)
    return load_site(path)


@pytest.mark.parametrize("name", ["manifest.json", "values.jsonl", "devices.csv", "cables.csv"])
@pytest.mark.parametrize("odd", ["pipe", "three GiB", "folder"])
def test_a_file_of_the_accepted_state_that_cannot_be_read_is_named(
    standing_site: Site, tmp_path: Path, name: str, odd: str
) -> None:
    """Planning and freezing read each of them: a pipe made them wait for ever."""
    shutil.copytree(standing_site.dir, tmp_path, dirs_exist_ok=True)
    place = tmp_path / "accepted" / name
    place.unlink()
    if odd == "pipe":
        os.mkfifo(place)
    elif odd == "folder":
        place.mkdir()
    else:
        with place.open("wb") as file:
            file.truncate(3 << 30)
    moved = standing_site.model_copy()
    moved._path = tmp_path / "site.yaml"
    with pytest.raises(SiteError) as error:
        load_standing(moved)
    said = " ".join(str(error.value).split())
    assert f"{name}: cannot be read: " in said
    assert "no regular file" in said or "bytes, more than the" in said
    if name == "values.jsonl":
        with pytest.raises(AcceptedError, match=rf"{name}: cannot be read"):
            read_values(tmp_path)
