"""SLURM-ORIGIN: the pinned version of Slurm can be had from where the site takes its packages."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from capacity.services.slurm_origin import check_slurm_origin
from inventory.findings import Finding
from inventory.paths import repo_root
from inventory.site import Site, load_site, site_names
from inventory.site.whatif import changed
from inventory.slurm_packages import load_slurm_packages
from tests.findings import as_set, names, values

REPOSITORY = "{name: site, url: 'https://packages.example.com/slurm', suites: [s], components: [main], key: site.asc}"
GIVEN = f"os.repositories=[{REPOSITORY}]"
NONE = "os.repositories=[]"


def site(release: str, pinned: str, *settings: str) -> Site:
    """The lab on another release, with another pin."""
    name, _, version = release.partition("-")
    return changed("lab", [f"os.name={name}", f'os.version="{version}"', f'versions.slurm="{pinned}"', *settings])


def only(found: Site) -> Finding:
    (one,) = check_slurm_origin(found)
    assert (one.id, one.subject) == ("SLURM-ORIGIN", "scheduler.packages")
    return one


@pytest.mark.parametrize("name", site_names())
def test_the_shipped_sites_say_where_slurm_comes_from(name: str) -> None:
    assert check_slurm_origin(load_site(name)) == []


@pytest.mark.parametrize("release", load_slurm_packages().distribution_versions)
def test_the_version_of_each_release_is_had_from_it_and_another_is_not(release: str) -> None:
    have = load_slurm_packages().distribution_versions[release].version
    assert check_slurm_origin(site(release, have)) == []
    other = only(site(release, "25.05.3"))
    assert other.severity == "error"
    assert names(other, "25.05.3", have)
    assert values(other, "versions.slurm") == [have]


@pytest.mark.parametrize(
    ("start", "severity"),
    [
        (site("ubuntu-24.04", "25.05.3"), "error"),
        (site("ubuntu-24.04", "25.05.3", GIVEN), "warning"),
        (site("ubuntu-24.04", "25.05.3", "scheduler.packages=schedmd"), "error"),
        (site("ubuntu-24.04", "23.11.4", "scheduler.packages=schedmd"), "error"),
        (site("debian-12", "22.05.8", "scheduler.packages=schedmd", GIVEN), "error"),
        (site("debian-13", "22.05.8", "scheduler.packages=schedmd", GIVEN), "error"),
    ],
)
def test_every_remedy_with_settings_resolves_it(start: Site, severity: str) -> None:
    found = only(start)
    assert found.severity == severity
    applied = [one for one in found.remedies if one.settings]
    assert applied
    for one in applied:
        assert check_slurm_origin(changed("lab", [*start.changes, *as_set(one)])) == []


def test_packages_built_of_a_release_need_a_repository_that_has_them() -> None:
    settings = ["ubuntu-24.04", "25.05.3", "scheduler.packages=schedmd"]
    assert names(only(site(*settings)), "os.repositories")
    assert check_slurm_origin(site(*settings, GIVEN)) == []
    without = changed("h100-1000-ib", [NONE])
    assert only(without).severity == "error"


@pytest.mark.parametrize(("pinned", "packaged"), [("23.11", True), ("23.11.0", True), ("23.02.7", False)])
def test_releases_without_debian_packaging_cannot_be_built(pinned: str, packaged: bool) -> None:
    found = check_slurm_origin(site("debian-13", pinned, "scheduler.packages=schedmd", GIVEN))
    assert (found == []) is packaged


def test_a_release_of_which_nothing_is_known_is_a_warning_without_remedy() -> None:
    found = only(site("debian-11", "20.11.7"))
    assert (found.severity, found.remedies) == ("warning", ())


def test_names_of_the_daemons_are_those_that_the_roles_install() -> None:
    listed: dict[str, Any] = yaml.safe_load(Path(repo_root(), "playbooks", "packages.yaml").read_text())
    daemons = load_slurm_packages().daemons
    assert set(daemons["distribution"]) <= set(listed["pinned_by"]["slurm"])
    assert set(daemons["schedmd"]) <= set(listed["schedmd"]["pinned_by"]["slurm"])
