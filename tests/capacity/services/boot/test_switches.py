"""First boot of compute and out-of-band switches: who gets what from the boot server, and why others get nothing."""

import subprocess

import pytest
import yaml

from capacity.build import build
from capacity.services.boot import files, intents
from inventory.delivered.assets import load_assets
from inventory.paths import site_dir
from inventory.site import load_site
from network import oob
from network.nos.cumulus import access
from tests.capacity.services.boot.cases import PUBLIC_KEY

MAC = "48:b0:2d:00:00:01"
OOB_MAC = "48:b0:2d:00:00:02"


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """The RoCE site with the MAC of one of its compute switches known, and a management node in its management network."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "site.yaml").write_text((site_dir("b200-256-roce") / "site.yaml").read_text())
    (folder / "assets.csv").write_text(
        f"device,manufacturer,serial,uuid,mgmt_mac,guid\nrol001,NVIDIA,MT1,,{MAC},\nrol002,NVIDIA,MT2,,,\n"
        f"oob01,NVIDIA,MT3,,{OOB_MAC},\noob02,NVIDIA,MT4,,,\n"
    )
    return build(load_site(folder / "site.yaml"))


def rendered(plan, key=PUBLIC_KEY):
    found = intents(plan, load_assets(plan.site))
    return files(plan, found, {}, "", switch_key=key)


def test_a_switch_with_a_known_mac_is_told_where_its_first_script_is(plan):
    made = rendered(plan)
    script = made["http/ztp/48-b0-2d-00-00-01/provision.sh"]
    option = next(line for line in made["dnsmasq-management.conf"].splitlines() if ",239," in line)
    url = option.removeprefix("dhcp-option=tag:rol001,239,")
    assert url.endswith("/ztp/48-b0-2d-00-00-01/provision.sh")
    assert url.rpartition("/")[0] + "/startup.yaml" in script
    (lease,) = [line for line in made["dnsmasq-management.conf"].splitlines() if MAC in line]
    assert lease.startswith(f"dhcp-host={MAC},set:rol001,")
    assert "rol002,MAC of rol002 is not known: add mgmt_mac to assets.csv" in made["nothing.csv"]


def test_an_out_of_band_switch_is_told_the_same_way(plan):
    made = rendered(plan)
    text = made["http/ztp/48-b0-2d-00-00-02/startup.yaml"]
    assert access.read(text) == oob.structured_configs(plan)["oob01"].model()
    assert "disabled" in str(yaml.safe_load(text)[1]["set"]["system"]["aaa"]["user"]["cumulus"])
    lines = made["dnsmasq-management.conf"].splitlines()
    assert sum(line.startswith("dhcp-option=tag:oob01,239,") for line in lines) == 1
    (lease,) = [line for line in lines if OOB_MAC in line]
    assert lease.startswith(f"dhcp-host={OOB_MAC},set:oob01,")
    assert "oob02,MAC of oob02 is not known: add mgmt_mac to assets.csv" in made["nothing.csv"]


def test_without_a_key_no_switch_is_provisioned(plan):
    made = rendered(plan, key="")
    assert not [name for name in made if "/ztp/" in name]
    assert "the default login would stay" in made["nothing.csv"]
    assert "239" not in made["dnsmasq-management.conf"]


@pytest.mark.needs("dnsmasq")
def test_dnsmasq_takes_the_options(plan, tmp_path):
    (tmp_path / "dnsmasq.conf").write_text(rendered(plan)["dnsmasq-management.conf"])
    command = ["dnsmasq", "--test", f"--conf-file={tmp_path / 'dnsmasq.conf'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "syntax check OK" in done.stderr, done.stderr
