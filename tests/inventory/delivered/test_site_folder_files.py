"""Files that people put beside the site file: a pipe, or one without end, is named and not waited for."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inventory.catalog import CatalogError
from inventory.catalog.loading import site_catalog
from inventory.delivered.as_built import load_as_built
from inventory.delivered.assets import AssetError, load_assets
from inventory.delivered.firmware import BundleError, bundle_hashes, load_bundles
from inventory.delivered.gpus import load_gpus
from inventory.imports.core import stored
from inventory.secrets import SecretError, resolve
from inventory.site import Site, SiteError, load_site

READERS: dict[str, Callable[[Site], Any]] = {
    "assets.csv": load_assets,
    "gpus.csv": load_gpus,
    "as_built.csv": load_as_built,
    "firmware/server.yaml": load_bundles,
    "firmware/other.yaml": bundle_hashes,
    "imports/manifest.csv": lambda site: stored.load(site.dir, "imports/manifest.csv"),
    "catalog/device-types/own.yaml": lambda site: site_catalog(site.dir).device("own"),
    "site.yaml": lambda site: load_site(site.path),
    "word": lambda site: resolve("file:word", site.dir),
}


@pytest.fixture
def own(tmp_path: Path) -> Site:
    lab = load_site("lab")
    shutil.copy(lab.path, tmp_path / "site.yaml")
    return load_site(tmp_path / "site.yaml")


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_in_the_sites_folder_is_not_waited_for(own: Site, name: str) -> None:
    place = own.dir / name
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(place)
    with pytest.raises(
        (OSError, SiteError, BundleError, SecretError, CatalogError), match="no regular file|no such file|not found"
    ) as error:
        READERS[name](own)
    assert place.name in f"{error.value}{getattr(error.value, 'filename', '')}"


@pytest.mark.parametrize("name", ["assets.csv", "site.yaml", "word"])
def test_a_file_without_end_is_not_read_whole(own: Site, name: str) -> None:
    with (own.dir / name).open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises((OSError, SiteError, SecretError), match="bytes, more than the"):
        READERS[name](own)


def test_a_list_that_is_no_utf_8_is_named_with_its_line(own: Site) -> None:
    (own.dir / "assets.csv").write_bytes(b"device,serial\ng\xfc,1\n")
    with pytest.raises(AssetError, match="assets.csv:2: byte 0xfc is not UTF-8"):
        load_assets(own)
