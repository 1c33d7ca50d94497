"""What an import of ibnetdiscover proposes for assets.csv, and what it says of the rest."""

from pathlib import Path

import pytest

from bench.fabric import discovered_text, made_up_guids
from infra.cli import main
from inventory.delivered.assets import load_assets, parse_assets
from inventory.site import load_site
from network.infiniband import parse, proposed
from tests.findings import names
from tests.full_sites import full_text
from tests.network.infiniband.fabrics import recorded
from tests.plans import plan_of

EMPTY = parse_assets("device,manufacturer,serial,uuid,mgmt_mac,guid\n")


@pytest.fixture(scope="module")
def plan():
    return plan_of("lab")


def cut(plan, keep):
    cables = plan.cables[plan.cables["fabric"] == "compute"]
    changed = type("Changed", (), {"cables": cables[keep(cables)]})()
    return discovered_text(changed, made_up_guids(plan), "4xHDR")


def propose(plan, text, assets=EMPTY):
    return proposed.imported(plan, parse.discovery(text), assets)


def test_the_recorded_fabric_proposes_the_guids_of_the_lab(plan):
    made = propose(plan, recorded("ibnetdiscover.txt"))
    listed = load_assets(plan.site)["guid"]
    read = parse_assets(made.files["assets.csv"])["guid"]
    assert {*plan.devices.loc[plan.devices["fabric"] == "compute", "name"]} <= {*read.index}
    assert read.to_dict().items() <= listed.to_dict().items()
    assert [one.id for one in made.findings] == []


def test_a_list_that_has_all_of_it_stays(plan):
    made = propose(plan, recorded("ibnetdiscover.txt"), load_assets(plan.site))
    assert (made.files, made.findings) == ({}, ())


def test_lines_of_the_list_keep_what_they_have(plan):
    listed = load_assets(plan.site).copy()
    listed.loc["ibl003", "guid"] = ""
    read = parse_assets(propose(plan, recorded("ibnetdiscover.txt"), listed).files["assets.csv"])
    assert read.to_csv() == load_assets(plan.site).to_csv()


def test_two_leaves_without_uplinks_are_one_finding_with_one_label_to_read(plan):
    late = {"ibl007", "ibl008"}
    text = cut(plan, lambda c: ~(c["stage"].eq("leaf-spine") & c[["a_device", "b_device"]].isin(late).any(axis=1)))
    (found,) = [one for one in propose(plan, text).findings if one.id == "IMPORT-GUID-CHOICE"]
    assert names(found, "2 switches", "ibl007, ibl008", "one label tells", "read the GUID on the label of ibl007")


def test_a_leaf_with_two_uplinks_is_said_to_hang_on_too_few(plan):
    few = {"ibs003", "ibs004"}
    text = cut(plan, lambda c: ~(c["a_device"].eq("ibl003") & c["b_device"].isin(few)))
    (found,) = [one for one in propose(plan, text).findings if one.id == "IMPORT-GUID-CHOICE"]
    assert names(found, "fewer than 3", "ibl003")


def test_another_guid_in_the_list_is_a_finding_and_stays(plan):
    listed = load_assets(plan.site).copy()
    listed.loc["ibl003", "guid"] = "00000000000000ff"
    made = propose(plan, recorded("ibnetdiscover.txt"), listed)
    (found,) = [one for one in made.findings if one.id == "IMPORT-GUID-AGAINST"]
    assert found.subject == "ibl003"
    assert names(found, "00000000000000ff")
    assert made.files == {}


def test_a_site_without_infiniband_has_nothing_to_bind():
    with pytest.raises(ValueError, match="no InfiniBand switches"):
        propose(plan_of("b200-256-roce"), recorded("ibnetdiscover.txt"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "site.yaml").write_text(full_text("lab"))
    (tmp_path / "discovered.txt").write_text(recorded("ibnetdiscover.txt"))
    return tmp_path


def bring(folder: Path, *more: str) -> int:
    file = folder / "discovered.txt"
    return main(["import", "ibnetdiscover", str(file), "--site", str(folder / "site.yaml"), *more])


def test_the_verb_shows_the_list_and_writes_it_only_when_told(folder, capsys):
    assert bring(folder) == 0
    assert "add --write" in capsys.readouterr().out
    assert not (folder / "assets.csv").exists()
    assert bring(folder, "--write") == 0
    assert len(load_assets(load_site(str(folder / "site.yaml")))) > 40


def test_a_text_that_was_cut_short_names_its_line(folder, capsys):
    text = (folder / "discovered.txt").read_text()
    (folder / "discovered.txt").write_text(text[: len(text) // 2])
    assert bring(folder, "--write") == 2
    assert "line " in capsys.readouterr().err
    assert not (folder / "assets.csv").exists()


def test_devices_in_another_order_on_all_servers_are_one_finding(plan):
    text = recorded("ibnetdiscover.txt")
    for one, other in (("mlx5_2", "mlx5_5"), ("mlx5_3", "mlx5_4")):
        text = text.replace(one, "held").replace(other, one).replace("held", other)
    made = propose(plan, text)
    (found,) = [one for one in made.findings if one.id == "IMPORT-GUID-AGAINST"]
    assert names(
        found, "call themselves another port of the host", "bringup.rdma_devices", "gpu001 mlx5_5 at gpu001:ib2"
    )
    bound = parse_assets(made.files["assets.csv"]).index
    assert "gpu001:ib2" not in bound
    assert "gpu001:ib0" in bound
