"""Every path and secret reference of a shipped site resolves the same way in drivers, provider, inventory plugin, checks."""

import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from capacity.build import build
from capacity.outputs.ansible_hosts import hosts_of
from infra.provider.sites import Sites
from inventory.catalog import load_catalog
from inventory.delivered.assets import load_assets
from inventory.paths import site_dir
from inventory.secrets import SecretError, is_per_device, resolve
from inventory.site import Site, load_site, needs, site_names
from inventory.site.sections.credentials import BmcCredentials, FactoryAccount
from network.drivers import credentials
from network.drivers.errors import LoginNotGiven

LAB_HOMES = tuple(f"/var/lib/bringup/labs/{name}/" for name in ("lab", "lab-metal", "lab-kubernetes"))
SECRETS = (
    *("snmp_auth", "snmp_priv", "bmc_password_gpu001", "bmc_factory_password", "slurmdbd_password", "alert_webhook"),
    "notices_webhook",
    *("ssh_ed25519", "evidence_ed25519"),
)


@pytest.fixture(params=site_names())
def site(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A copy of a shipped site with its files where it says they are, read from another folder than its own."""
    folder, home, elsewhere, tools = (tmp_path / name for name in ("site", "home", "elsewhere", "tools"))
    shutil.copytree(site_dir(request.param), folder)
    text = (folder / "site.yaml").read_text(encoding="utf-8")
    for lab_home in LAB_HOMES:
        text = text.replace(lab_home, "")
    (folder / "site.yaml").write_text(text, encoding="utf-8")
    for path in (
        *(folder / name for name in ("pki/bmc-ca.pem", "pki/bmc.pem", "known_hosts")),
        *(folder / "secrets" / name for name in SECRETS),
        *(home / name for name in (".ssh/id_ed25519", ".ssh/known_hosts", ".config/bringup/evidence_ed25519")),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{path.name}\n", encoding="utf-8")
    labels = home / ".config/bringup" / f"{request.param}-bmc-labels.csv"
    labels.write_text("device,factory\ngpu001,F-gpu001\n", encoding="utf-8")
    labels.chmod(0o600)
    elsewhere.mkdir()
    tools.mkdir()
    (tools / "vault").write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    (tools / "vault").chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    monkeypatch.chdir(elsewhere)
    return load_site(folder / "site.yaml")


def bmc_of_gpu001(site: Site) -> credentials.BmcCredentials:
    return credentials.bmc_credentials(site, load_assets(site))("gpu001")


def test_drivers_and_provider_resolve_every_credential(site: Site) -> None:
    bmc, switch, node = (
        bmc_of_gpu001(site),
        credentials.switch_credentials(site),
        credentials.node_credentials(site),
    )
    found = (bmc.ca, switch.key, switch.known_hosts, node.key, node.known_hosts)
    assert all(path is not None and path.is_absolute() and path.is_file() for path in found)
    assert credentials.snmp_credentials(site).auth
    assert bmc.password
    provider, reference = Sites(), str(site.path)
    assert (provider.bmc(reference, "gpu001"), provider.switch(reference), provider.node(reference)) == (
        bmc,
        switch,
        node,
    )
    factory = provider.factory(reference, "gpu001")
    assert (factory is None) == (site.credentials.bmc.factory is None)
    assert factory is None or (factory.ca == bmc.ca and factory.password)
    given = site.credentials
    others = [given.evidence.key, given.slurmdbd and given.slurmdbd.password, given.alerts and given.alerts.webhook]
    assert all(resolve(reference, base=site.dir).get_secret_value() for reference in others if reference)


def test_each_bmc_of_a_site_has_a_password_of_its_own_and_a_factory_account_that_is_closed(site: Site) -> None:
    """Both are what S017 wants: one reference for all BMCs fails it, and so does a factory login that nobody can try."""
    pasted = yaml.safe_load(needs.credentials_missing(site.name).paste)["credentials"]["bmc"]
    for bmc in (site.credentials.bmc, BmcCredentials.model_validate(pasted)):
        assert is_per_device(bmc.password)
        assert bmc.factory is not None


def test_the_inventory_plugin_gives_openssh_the_same_paths(site: Site) -> None:
    common, node = hosts_of(build(site), load_catalog()).common, credentials.node_credentials(site)
    assert common["ansible_ssh_private_key_file"] == str(node.key)
    assert f"-oUserKnownHostsFile={node.known_hosts}" in shlex.split(common["ansible_ssh_common_args"])


def test_an_unreadable_file_is_an_error_that_names_its_key(site: Site) -> None:
    node, ca = credentials.node_credentials(site), bmc_of_gpu001(site).ca
    assert ca is not None
    for path, key, read in [
        (ca, "credentials.bmc.ca", bmc_of_gpu001),
        (node.key, "credentials.ssh.key", credentials.node_credentials),
        (node.known_hosts, "credentials.ssh.known_hosts", credentials.node_credentials),
    ]:
        path.rename(path.with_suffix(".away"))
        with pytest.raises(SecretError, match=rf"^{key}: cannot read {path}: No such file"):
            read(site)
        path.mkdir()
        with pytest.raises(SecretError, match=rf"^{key}: cannot read {path}: no regular file"):
            read(site)
        path.rmdir()
        path.with_suffix(".away").rename(path)


def test_a_path_of_an_unknown_user_is_an_error_that_names_it(site: Site) -> None:
    text = site.path.read_text(encoding="utf-8")
    for given in ("pki/bmc-ca.pem", "pki/bmc.pem"):
        text = text.replace(f"ca: {given}", "ca: ~no-such-user/ca.pem")
    site.path.write_text(text, encoding="utf-8")
    with pytest.raises(SecretError, match="~no-such-user/ca.pem: no home directory"):
        bmc_of_gpu001(load_site(site.path))


def with_labels(site: Site, rows: str, mode: int = 0o600) -> Site:
    """The site with a table of its BMCs' passwords, of the factory and its own."""
    table = site.dir.parent / "labels" / "bmc.csv"
    table.parent.mkdir()
    table.write_text(f"serial,factory,own\n{rows}", encoding="utf-8")
    table.chmod(mode)
    bmc = site.credentials.bmc
    factory = FactoryAccount.model_validate({"user": "admin", "password": f"table:{table}#factory"})
    own = bmc.model_copy(update={"password": "table:../labels/bmc.csv#own", "factory": factory})
    return site.model_copy(update={"credentials_given": site.credentials.model_copy(update={"bmc": own})})


@pytest.mark.parametrize("site", ["lab"], indirect=True)
def test_each_bmc_has_the_passwords_of_its_label(site: Site) -> None:
    assets = load_assets(site)
    serials = {name: str(assets.at[name, "serial"]) for name in ("gpu001", "gpu002")}
    labelled = with_labels(site, "".join(f"{serial},F-{name},O-{name}\n" for name, serial in serials.items()))
    own, factory = credentials.bmc_credentials(labelled, assets), credentials.factory_credentials(labelled, assets)
    assert factory is not None
    for name in serials:
        assert (own(name).password, factory(name).password) == (f"O-{name}", f"F-{name}")
    with pytest.raises(LoginNotGiven, match=r"gpu003: .*credentials\.bmc\.password.* no row of device gpu003 serial"):
        own("gpu003")
    provider = Sites(lambda reference: labelled)
    assert provider.bmc("lab", "gpu002") == own("gpu002")
    assert provider.factory("lab", "gpu002") == factory("gpu002")


@pytest.mark.parametrize("site", ["lab"], indirect=True)
def test_a_table_that_others_can_read_opens_no_bmc(site: Site) -> None:
    labelled = with_labels(site, "S1,secret-of-the-label,x\n", 0o640)
    with pytest.raises(SecretError, match="mode 0640 .* expected 0600") as caught:
        credentials.factory_credentials(labelled, load_assets(site))
    assert "secret-of-the-label" not in str(caught.value)
