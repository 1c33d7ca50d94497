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
