"""The plan of the shipped sites: golden summaries, hashes, files, and growth from a baseline."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from capacity.build import build
from capacity.delivered import delivered
from capacity.model import Plan
from capacity.model.frames import FRAMES
from capacity.outputs.files import write_plan
from capacity.outputs.summary import summarise
from inventory.delivered.assets import load_assets
from tests.capacity import golden
from tests.capacity.sites import variant
from tests.plans import plan_of


@pytest.fixture(scope="module")
def lab() -> Plan:
    return plan_of("lab")


@pytest.fixture(scope="module")
def grown(lab: Plan) -> Plan:
    return build(variant("lab", server={"count": 8}, room={"racks_per_row": 8}, oob={"switches": 2}), baseline=lab)


@pytest.mark.parametrize("site", golden.SITES)
def test_summary_equals_its_golden_file(site: str) -> None:
    expected = json.loads(golden.path(site).read_text(encoding="utf-8"))
    assert json.loads(json.dumps(golden.summary(site))) == expected, (
        "changed on purpose? python -m tests.capacity.golden"
    )


@pytest.mark.parametrize("site", golden.SITES)
def test_shipped_sites_have_no_error_findings(site: str) -> None:
    assert [f for f in plan_of(site).findings if f.severity == "error"] == []


def test_the_large_site_has_the_fabric_of_the_reference_architecture() -> None:
    summary = summarise(plan_of("h100-1000-ib"))
    assert summary["devices"]["switches"]["compute"] == {"leaf": 256, "spine": 256, "core": 128}
    stages = {stage: sum(media.values()) for stage, media in summary["cables"]["compute"].items()}
    assert stages == {"node-leaf": 8000, "manager-leaf": 2, "leaf-spine": 8192, "spine-core": 8192}


def test_the_lab_is_named_and_wired_as_its_devices_expect(lab: Plan) -> None:
    names = set(lab.devices["name"])
    assert {"gpu001", "gpu004", "ctl01", "sto01", "leaf04", "spine02", "oob01", "pdu-r01-a", "pdu-r02-b"} <= names
    ends = lab.cables.set_index("cable_id")[["b_device", "b_port"]].apply(tuple, axis=1)
    assert ends["leaf03:swp2"] == ("spine02", "swp3")
    assert ends["gpu001:eth1"] == ("leaf01", "swp3")
    assert ends["gpu003:eth2"] == ("leaf04", "swp3")
    assert lab.cables.loc[lab.cables["cable_id"] == "gpu001:eth0", "stage"].item() == "node-provisioning"


def test_the_lab_has_the_addresses_that_its_devices_expect(lab: Plan) -> None:
    addresses = lab.addresses.set_index(["device", "interface"])["address"]
    assert addresses["spine01", "eth0"] == "10.77.0.11/24"
    assert addresses["pdu-r01-a", "eth0"] == "10.77.0.41/24"
    assert addresses["gpu001", "bmc"] == "10.77.0.61/24"
    assert addresses["gpu001", "eth0"] == "10.77.1.11/24"
    assert addresses["leaf01", "swp3"] == "172.18.0.0/31"
    assert addresses["gpu001", "eth1"] == "172.18.0.1/31"


def test_assets_name_exactly_devices_and_adapters_of_the_plan(lab: Plan) -> None:
    compute = lab.cables[lab.cables["fabric"] == "compute"]
    adapters = set(compute["a_device"] + ":" + compute["a_port"])
    assert set(load_assets(lab.site).index) <= set(lab.devices["name"]) | adapters


def test_hash_is_the_same_in_another_process(lab: Plan) -> None:
    code = "from capacity.build import build; from inventory.site import load_site; print(build(load_site('lab')).hash)"
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout.strip() == lab.hash, done.stderr


def test_a_changed_asset_changes_the_hash_of_the_assets_only(lab: Plan) -> None:
    assets = load_assets(lab.site)
    assets.loc["leaf01", "mgmt_mac"] = "02:42:10:00:03:99"
    other = build(lab.site, assets=assets)
    assert {key for key in lab.hashes if lab.hashes[key] != other.hashes[key]} == {"assets"}
    assert other.hash == lab.hash
    assert "02:42:10:00:03:99" in set(other.addresses["mac"])


@pytest.mark.parametrize("name", ["lab", "b200-256-roce"])
def test_a_delivery_gives_the_plan_that_planning_anew_gives(name: str) -> None:
    before = plan_of(name)
    ports = before.addresses.loc[before.addresses["network"].isin(["oob", "bmc"]), "device"].drop_duplicates()
    assets = pd.DataFrame(
        {
            "manufacturer": "ACME",
            "serial": [f"S{i}" for i in range(len(ports))],
            "uuid": "",
            "mgmt_mac": [f"02:00:00:00:{i // 256:02x}:{i % 256:02x}" for i in range(len(ports))],
            "guid": "",
        },
        index=pd.Index(ports, name="device"),
    )
    after, anew = delivered(before, assets), build(before.site, assets=assets)
    assert dict(after.hashes) == dict(anew.hashes)
    assert after.hash == anew.hash == before.hash
    for frame, other in zip(after.frames().values(), anew.frames().values(), strict=True):
        pd.testing.assert_frame_equal(frame, other)
    assert set(assets["mgmt_mac"]) == set(after.addresses["mac"]) - {""}


def test_a_changed_fabric_changes_its_slice_and_the_plan(lab: Plan) -> None:
    other = build(variant("lab", fabric={"bisection": 0.5}))
    assert lab.hashes["site.fabric"] != other.hashes["site.fabric"]
    assert lab.hashes["site.power"] == other.hashes["site.power"]
    assert lab.hash != other.hash


def test_write_gives_every_frame_back(lab: Plan, tmp_path: Path) -> None:
    written = write_plan(lab, tmp_path)
    for name, frame in lab.frames().items():
        pd.testing.assert_frame_equal(pd.read_parquet(written[f"{name}.parquet"]), frame)
        csv = pd.read_csv(written[f"{name}.csv"], keep_default_na=False)
        assert list(csv.columns) == list(FRAMES[name])
        assert len(csv) == len(frame)
    assert json.loads(written["summary.json"].read_text(encoding="utf-8"))["plan_hash"] == lab.hash


def test_growth_keeps_names_places_and_addresses(lab: Plan, grown: Plan) -> None:
    for frame, keys in (
        ("placements", ["device"]),
        ("addresses", ["device", "interface", "network"]),
        ("racks", ["name"]),
    ):
        columns = ["name", "row", "position", "x_m", "y_m"] if frame == "racks" else list(FRAMES[frame])
        before = getattr(lab, frame)[columns]
        kept = before.merge(getattr(grown, frame)[columns], how="left", indicator=True)
        assert (kept["_merge"] == "both").all(), (frame, keys)
    assert set(lab.devices["name"]) <= set(grown.devices["name"])


def test_growth_keeps_the_cables_of_nodes_and_management(lab: Plan, grown: Plan) -> None:
    stay = ["cable_id", "a_device", "a_port", "b_device", "b_port", "length_m", "part"]
    before = lab.cables[lab.cables["stage"].ne("leaf-spine")][stay]
    assert (before.merge(grown.cables[stay], how="left", indicator=True)["_merge"] == "both").all()


def test_growth_adds_devices_without_new_errors(grown: Plan) -> None:
    assert (grown.devices["role"] == "gpu").sum() == 8
    assert [f for f in grown.findings if f.severity == "error"] == []
    assert not grown.addresses["address"].duplicated().any()


def test_names_keep_their_width_when_the_count_gains_a_digit() -> None:
    room = {"rows": 40, "racks_per_row": 40}
    small = build(variant("h100-1000-ib", server={"count": 998}, room=room))
    large = build(variant("h100-1000-ib", server={"count": 1001}, room=room), baseline=small)
    assert set(small.devices["name"]) <= set(large.devices["name"])
