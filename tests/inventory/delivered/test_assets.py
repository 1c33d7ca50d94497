"""Asset lists: what the lab presents, and what a broken list says."""

import pytest

from inventory.delivered.assets import COLUMNS, AssetError, assets_hash, load_assets, parse_assets
from inventory.paths import site_dir
from inventory.site import load_site

HEADER = ",".join(COLUMNS)
GPU = "gpu001,NVIDIA,1234,d9c71cca-32b0-5fa1-8289-5008d84ff583,02:42:10:00:01:01,02420a0003000001"
PDU = "pdu-r01-a,APC,5A1,,02:42:10:00:06:01,"


def test_the_lab_lists_every_device_that_it_builds() -> None:
    assets = load_assets(load_site("lab"))
    servers = ["gpu001", "gpu002", "gpu003", "gpu004", "ctl01", "sto01", "mgm01"]
    switches = ["leaf01", "leaf02", "leaf03", "leaf04", "spine01", "spine02", "oob01"]
    pdus = ["pdu-r01-a", "pdu-r01-b", "pdu-r02-a", "pdu-r02-b"]
    infiniband = [*(f"ibl{n:03d}" for n in range(1, 9)), *(f"ibs{n:03d}" for n in range(1, 5))]
    adapters = [f"gpu{n:03d}:ib{rail}" for n in range(1, 5) for rail in range(8)] + ["ctl01:ib0", "mgm01:ib0"]
    assert sorted(assets.index) == sorted(servers + switches + pdus + infiniband + adapters)
    assert set(assets.index[assets["guid"] != ""]) == {*infiniband, *adapters}
    assert (assets.loc[servers, "uuid"] != "").all()


def test_identities_of_the_lab_declare_themselves_and_are_locally_administered() -> None:
    assets = load_assets(load_site("lab"))
    assert assets["manufacturer"].str.startswith("SIMULATED").all()
    assert assets["serial"].str.startswith("SIM-").all()
    assert assets.loc[assets["mgmt_mac"] != "", "mgmt_mac"].str.startswith("02:").all()
    assert assets.loc[assets["guid"] != "", "guid"].str.startswith("02420a").all()


def test_a_site_without_a_list_has_no_assets() -> None:
    assets = load_assets(load_site("h100-1000-ib"))
    assert assets.empty
    assert list(assets.columns) == list(COLUMNS[1:])


def test_a_cell_that_does_not_apply_is_empty_text() -> None:
    assert parse_assets(f"{HEADER}\n{PDU}\n").loc["pdu-r01-a", "uuid"] == ""


def test_the_hash_ignores_the_order_of_lines_but_not_a_serial() -> None:
    first = assets_hash(parse_assets(f"{HEADER}\n{GPU}\n{PDU}\n"))
    assert first == assets_hash(parse_assets(f"{HEADER}\n{PDU}\n{GPU}\n"))
    assert first != assets_hash(parse_assets(f"{HEADER}\n{GPU.replace('1234', '1235')}\n{PDU}\n"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([GPU, GPU.replace("gpu001", "gpu002")], "assets.csv:3: gpu002: serial 1234 is already in line 2"),
        (
            [GPU.replace("1234", "ab1"), GPU.replace("gpu001", "gpu002").replace("1234", " AB1")],
            "serial  AB1 is already",
        ),
        ([GPU, PDU.replace("pdu-r01-a", "gpu001")], "assets.csv:3: gpu001: device gpu001 is already in line 2"),
        (
            [GPU, PDU.replace("02:42:10:00:06:01", "02:42:10:00:01:01")],
            "assets.csv:3: pdu-r01-a: mgmt_mac 02:42:10:00:01:01 is already in line 2",
        ),
        ([GPU.replace("02:42:10:00:01:01", "02-42-10-00-01-01")], "mgmt_mac '02-42-10-00-01-01' is not of the form"),
        ([GPU.replace("d9c71cca-", "D9C71CCA-")], "uuid 'D9C71CCA-"),
        ([GPU.replace(",1234,", ",,")], "gpu001: serial is empty"),
        ([GPU + ",extra"], "assets.csv:2: 7 cells, expected 6"),
    ],
)
def test_a_broken_line_is_named(rows: list[str], message: str) -> None:
    with pytest.raises(AssetError) as caught:
        parse_assets("\n".join([HEADER, *rows]) + "\n")
    assert message in str(caught.value)


def test_all_broken_lines_are_named_at_once() -> None:
    with pytest.raises(AssetError) as caught:
        parse_assets(f"{HEADER}\n{GPU.replace(',1234,', ',,')}\n{PDU.replace('5A1', '')}\n")
    assert len(str(caught.value).splitlines()) == 2


def test_another_header_is_refused() -> None:
    with pytest.raises(AssetError, match="expected device, manufacturer, serial"):
        parse_assets("name,serial\n")


def test_the_as_built_list_of_the_lab_starts_empty() -> None:
    lines = (site_dir("lab") / "as_built.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("cable_id,a_device,a_port,b_device,b_port")
