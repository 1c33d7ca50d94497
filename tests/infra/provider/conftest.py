"""A copy of the lab's site whose secrets exist, and the values by which a leak is recognised."""

from pathlib import Path

import pytest

from infra.provider.sites import Sites
from inventory.paths import site_dir
from inventory.site import Site, load_site

SECRETS = {
    "snmp_auth": "s3cret-auth-phrase",
    "snmp_priv": "s3cret-priv-phrase",
    "bmc_password": "s3cret-bmc-word",
    "bmc_factory_password": "s3cret-factory-word",
}


@pytest.fixture
def site_file(tmp_path: Path) -> Path:
    """A site.yaml like the lab's, with its secrets in files beside it and another name for the BMCs' factory account."""
    for name, value in SECRETS.items():
        (tmp_path / name).write_text(value + "\n")
    (tmp_path / "pki").mkdir()
    for name in ("ssh_ed25519", "known_hosts", "pki/bmc.pem"):
        (tmp_path / name).write_text("made for a test\n")
    text = (site_dir("lab") / "site.yaml").read_text()
    text = text.replace("/var/lib/bringup/labs/lab/secrets/", "").replace("/var/lib/bringup/labs/lab/", "")
    text = text.replace("bmc_password_{device}", "bmc_password").replace(
        "factory: {user: admin,", "factory: {user: ADMIN,"
    )
    path = tmp_path / "site.yaml"
    path.write_text(text)
    return path


@pytest.fixture
def site(site_file: Path) -> Site:
    return load_site(site_file)


@pytest.fixture
def sites() -> Sites:
    return Sites()
