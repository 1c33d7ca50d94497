"""Entries of a site's own, beside its site file; and files of the catalogue that cannot be used."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from inventory.catalog import Catalog, CatalogError, load_catalog, site_catalog
from inventory.paths import catalog_dir, site_dir
from inventory.site import SiteError, load_site
from tests.full_sites import full_text

SHIPPED = catalog_dir() / "device-types" / "nvidia-qm9700.yaml"


def entry(folder: Path, kind: str = "device-types", shipped: Path = SHIPPED, **changes: Any) -> Path:
    """A shipped entry in a site's own catalogue, with some keys changed; named by its slug."""
    body = {**yaml.safe_load(shipped.read_text(encoding="utf-8")), **changes}
    path = folder / "catalog" / kind / f"{body['slug']}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(body, sort_keys=False), encoding="utf-8")
    return path


def site_in(folder: Path, *changes: tuple[str, str]) -> Path:
    text = full_text("h100-1000-ib")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "site.yaml").write_text(text, encoding="utf-8")
    return folder / "site.yaml"


def test_a_site_plans_with_an_entry_of_its_own_that_no_other_site_sees(tmp_path: Path) -> None:
    entry(tmp_path, slug="our-switch", weight=15.5)
    site = load_site(site_in(tmp_path, ("nvidia-qm9700", "our-switch")))
    assert site.catalog.device("our-switch").mass_kg == 15.5
    assert site.catalog.is_own("our-switch")
    assert not site.catalog.is_own("nvidia-qm9700")
    assert "our-switch" not in load_catalog().devices
    assert load_site("h100-1000-ib").catalog is load_catalog()


def test_a_folder_without_entries_gives_the_shipped_catalogue(tmp_path: Path) -> None:
    assert site_catalog(tmp_path) is load_catalog()
    (tmp_path / "catalog").mkdir()
    assert site_catalog(tmp_path) is load_catalog()


def test_an_own_entry_is_read_again_after_it_was_changed(tmp_path: Path) -> None:
    entry(tmp_path, slug="our-switch", weight=15.5)
    assert site_catalog(tmp_path).device("our-switch").mass_kg == 15.5
    entry(tmp_path, slug="our-switch", weight=160.25)
    assert site_catalog(tmp_path).device("our-switch").mass_kg == 160.25


def test_an_own_entry_with_the_slug_of_a_shipped_one_stops_the_sites_that_use_it(tmp_path: Path) -> None:
    path = entry(tmp_path)
    with pytest.raises(SiteError, match=r"fabric.switch_model(.|\n)*in the shipped catalogue already") as caught:
        load_site(site_in(tmp_path))
    assert str(path) in str(caught.value)
    assert len(caught.value.problems) == 1
    shutil.copy(site_dir("lab") / "site.yaml", tmp_path / "site.yaml")
    assert load_site(tmp_path / "site.yaml").name == "lab"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"u_hight": 1}, "u_hight: unknown key; write u_height"),
        ({"weight": "heavy"}, "weight: .*found 'heavy'"),
        (
            {"power-ports": [{"name": "P1", "type": "iec-60320-c15"}]},
            "power-ports.P1: unknown power connector .*write iec",
        ),
        ({"sources": {}}, "sources"),
    ],
)
def test_a_wrong_entry_names_file_place_and_way_out(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = entry(tmp_path, slug="our-switch", **changes)
    with pytest.raises(CatalogError, match=said) as caught:
        site_catalog(tmp_path).device("our-switch")
    assert str(path) in str(caught.value)
    assert site_catalog(tmp_path).device("nvidia-qm9700").slug == "nvidia-qm9700"


def test_a_file_that_is_no_yaml_names_its_line(tmp_path: Path) -> None:
    path = entry(tmp_path, slug="our-switch")
    path.write_text("slug: our-switch\nmodel: [", encoding="utf-8")
    with pytest.raises(CatalogError, match=r"our-switch\.yaml, line \d+: not YAML"):
        site_catalog(tmp_path).device("our-switch")


def test_an_entry_that_is_made_of_a_broken_one_is_broken_too(tmp_path: Path) -> None:
    shipped = catalog_dir() / "systems" / "nvidia-gb300-nvl72.yaml"
    parts = yaml.safe_load(shipped.read_text(encoding="utf-8"))["parts"]
    parts[1]["model"] = "our-tray"
    entry(tmp_path, "systems", shipped, slug="our-rack", parts=parts)
    with pytest.raises(CatalogError, match="our-rack is made of our-tray: there is no our-tray"):
        site_catalog(tmp_path).system("our-rack")


def test_own_connectors_join_the_shipped_ones(tmp_path: Path) -> None:
    ports = [{"name": "P1", "type": "our-plug"}, {"name": "P2", "type": "our-plug"}]
    changes: dict[str, Any] = {"power-ports": ports}
    entry(tmp_path, slug="our-switch", **changes)
    body = {"our-plug": {"mates": ["our-socket"], "iec_a": 16, "nec_a": 20, "source": "its data sheet"}}
    (tmp_path / "catalog" / "connectors.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    own = site_catalog(tmp_path)
    assert own.connector("our-plug").mates == ("our-socket",)
    assert own.device("our-switch").inlet_type == "our-plug"
    assert "iec-60320-c19" in own.connectors


def test_the_shipped_catalogue_is_whole() -> None:
    assert load_catalog().broken == {}
    assert Catalog(catalog_dir()).broken == {}
