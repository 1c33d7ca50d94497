"""Verbs about the hardware catalogue: catalog, schema --catalog, and import netbox-device-type into a site's own."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from infra.cli import main
from inventory.catalog import load_catalog
from inventory.imports.netbox import device_types
from inventory.paths import catalog_dir, site_dir
from inventory.site import load_site

pytestmark = pytest.mark.usefixtures("plans_kept")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    shutil.copytree(site_dir("lab"), folder)
    return folder


def written(folder: Path, text: str) -> Path:
    path = folder.parent / "sent.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def own_switch() -> str:
    body = yaml.safe_load((catalog_dir() / "device-types" / "nvidia-qm9700.yaml").read_text(encoding="utf-8"))
    return yaml.safe_dump({**body, "slug": "our-switch"}, sort_keys=False)


def test_a_complete_device_type_becomes_an_entry_of_the_site(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent = written(site, own_switch())
    assert main(["import", "netbox-device-type", str(sent), "--site", str(site), "--write"]) == 0
    assert "our-switch" in capsys.readouterr().out.splitlines()[-1]
    assert load_site(site).catalog.device("our-switch").slug == "our-switch"
    assert "our-switch" not in load_catalog().devices


def test_a_device_type_of_the_library_says_what_is_missing_for_planning(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = device_types.device_types(load_catalog(), ["nvidia-qm9700"]).replace("nvidia-qm9700", "our-switch")
    assert main(["import", "netbox-device-type", str(written(site, library)), "--site", str(site), "--write"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "Not for planning yet" in last
    assert "bringup.power.nameplate_w" in last
    assert (site / "imports" / "device-types" / "our-switch.yaml").exists()
    assert not (site / "catalog").exists()


def test_a_device_type_of_the_shipped_catalogue_writes_no_entry(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent = written(site, own_switch().replace("our-switch", "nvidia-qm9700"))
    assert main(["import", "netbox-device-type", str(sent), "--site", str(site), "--write"]) == 0
    assert "IMPORT-DEVICE-SHIPPED" in capsys.readouterr().out
    assert not (site / "catalog").exists()
    assert load_site(site).catalog is load_catalog()


def test_an_unknown_connector_is_refused_with_the_nearest(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent = written(site, own_switch().replace("iec-60320-c14", "iec-60320-c15"))
    assert main(["import", "netbox-device-type", str(sent), "--site", str(site), "--write", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert "nearest: iec-60320-c" in " ".join(one["message"] for one in found if one["severity"] == "error")
    assert not (site / "catalog").exists()


def test_the_list_names_every_entry_and_what_the_site_brought(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = site / "catalog" / "device-types"
    own.mkdir(parents=True)
    (own / "our-switch.yaml").write_text(own_switch(), encoding="utf-8")
    assert main(["catalog", "list", "--site", str(site), "--json"]) == 0
    entries = {one["id"]: one for one in json.loads(capsys.readouterr().out)["entries"]}
    assert entries["our-switch"]["own"]
    assert not entries["nvidia-qm9700"]["own"]
    assert {*load_catalog().devices, *load_catalog().gpus, *load_catalog().connectors} <= set(entries)
    assert main(["catalog", "list", "rack-pdu"]) == 0
    assert "rack-pdu-63a-400v" in capsys.readouterr().out


def test_a_list_with_a_broken_file_names_it_and_says_no(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = site / "catalog" / "gpus"
    own.mkdir(parents=True)
    (own / "our-gpu.yaml").write_text("slug: our-gpu\n", encoding="utf-8")
    assert main(["catalog", "list", "--site", str(site)]) == 1
    assert "our-gpu.yaml: not a valid catalogue entry" in capsys.readouterr().out
    assert main(["catalog", "show", "our-gpu", "--site", str(site)]) == 2
    assert main(["catalog", "show", "nvidia-dgx-h100", "--site", str(site)]) == 0


@pytest.mark.parametrize(
    "entry", ["nvidia-dgx-h100", "amd-mi355x", "rack-48u-600", "nvidia-gb200-nvl72", "lustre-flash"]
)
def test_every_number_of_an_entry_is_shown_with_its_source(entry: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "show", entry, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    unsourced = [one["key"] for one in values if one["value"].replace(".", "").isdigit() and not one["source"]]
    assert [key for key in unsourced if key != "width" and not key.endswith("].name")] == []


def test_media_and_connectors_are_shown_with_their_sources(capsys: pytest.CaptureFixture[str]) -> None:
    for entry, source in (("ethernet-400g", "IEEE 802.3db"), ("iec-60320-c22", "IEC 60320-1")):
        assert main(["catalog", "show", entry, "--json"]) == 0
        assert source in capsys.readouterr().out


def test_an_unknown_entry_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "show", "nvidia-dgx-h10"]) == 2
    assert "nearest: nvidia-dgx-h100" in capsys.readouterr().err


def test_the_schema_of_the_catalogue_takes_every_shipped_entry_and_refuses_unknown_keys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    assert main(["schema", "--catalog"]) == 0
    checker = jsonschema.Draft202012Validator(json.loads(capsys.readouterr().out))
    for path in sorted(catalog_dir().rglob("*.yaml")):
        assert checker.is_valid(yaml.safe_load(path.read_text(encoding="utf-8"))), path
    entry = yaml.safe_load((catalog_dir() / "gpus" / "nvidia-gb300.yaml").read_text(encoding="utf-8"))
    assert not checker.is_valid({**entry, "tdp": 5})
