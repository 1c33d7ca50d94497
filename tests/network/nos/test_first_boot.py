"""First boot of switches: what is fetched is compared with what was rendered, and no login of the factory is left."""

import dataclasses
import hashlib
import json
import os
import re
import subprocess

import pytest
import yaml

from capacity.build import build
from inventory.site.sections.networks import NosImage
from inventory.site.whatif import changed
from network import roce
from network.nos import first_boot
from network.nos.cumulus import startup
from tests.capacity.services.boot.cases import PUBLIC_KEY
from tests.plans import plan_of

URL = "http://10.77.0.9/ztp/48-b0-2d-00-00-01"
IMAGE = NosImage(version="5.16.0", file="system.bin", sha256="ab" * 32)
PLAN = plan_of("b200-256-roce")
CONFIG = roce.structured_configs(PLAN, PUBLIC_KEY)["rol001"]


def made(system, image=IMAGE, config=CONFIG):
    return first_boot.files(config, system, URL, image)


@pytest.mark.parametrize("system", ["cumulus", "sonic"])
@pytest.mark.parametrize("image", [None, IMAGE])
def test_scripts_are_read_by_a_shell_and_hold_no_password(system, image, tmp_path):
    for name, text in made(system, image).items():
        assert not re.search("(?i)password|secret|passphrase", text), name
        if name.endswith(".sh"):
            (tmp_path / name).write_text(text)
            subprocess.run(["bash", "-n", tmp_path / name], check=True)


def test_cumulus_is_told_by_its_mark_and_takes_only_the_rendered_file():
    files = made("cumulus")
    script, text = files["provision.sh"], files["startup.yaml"]
    assert script.splitlines()[1] == "# CUMULUS-AUTOPROVISIONING"
    assert f"{hashlib.sha256(text.encode()).hexdigest()}  /etc/nvue.d/bringup.yaml" in script
    assert text == startup.render(CONFIG)
    assert first_boot.OPTION["cumulus"] == (239, "provision.sh")


def test_the_account_of_the_factory_is_locked_and_ours_opens_by_key():
    users = yaml.safe_load(made("cumulus")["startup.yaml"])[1]["set"]["system"]["aaa"]["user"]
    assert users["cumulus"] == {"state": "disabled"}
    assert users["netops"]["state"] == "enabled"
    script = made("sonic")["account.sh"]
    assert "passwd --lock admin" in script
    assert PUBLIC_KEY.rpartition(" ")[0] in script
    assert script.splitlines()[-1] == "passwd --status admin | grep -q '^admin L '"


@pytest.mark.parametrize("system", ["cumulus", "eos", "sonic"])
def test_a_switch_whose_factory_login_would_stay_gets_nothing(system):
    without = dataclasses.replace(CONFIG, management=dataclasses.replace(CONFIG.management, key=""))
    with pytest.raises(ValueError, match="rol001: no public key .* the default login would stay"):
        made(system, config=without)
    user = first_boot.DEFAULT_ACCOUNT[system]
    same = dataclasses.replace(CONFIG, management=dataclasses.replace(CONFIG.management, user=user))
    with pytest.raises(ValueError, match=f"credentials.switch.user is {user}"):
        made(system, config=same)


def test_the_account_that_has_the_key_is_never_the_disabled_one():
    management = dataclasses.replace(CONFIG.management, user="cumulus")
    assert "state: disabled" not in startup.render(dataclasses.replace(CONFIG, management=management))


def test_sonics_sections_run_in_order_and_one_that_fails_stops_the_rest():
    sections = json.loads(made("sonic")["ztp.json"])["ztp"]
    assert list(sections) == sorted(sections) == ["01-image", "02-account", "03-configdb-json"]
    assert all(section["halt-on-failure"] for section in sections.values())
    assert sections["03-configdb-json"]["url"]["source"] == f"{URL}/config_db.json"
    assert "01-image" not in json.loads(made("sonic", None)["ztp.json"])["ztp"]


def test_an_image_that_is_not_the_pinned_one_is_not_installed(tmp_path):
    """The script of SONiC runs here, with stand-ins for its programs."""
    script = made("sonic")["image.sh"].replace("/var/tmp/image", str(tmp_path / "image"))
    (tmp_path / "image.sh").write_text(script)
    for name, text in (
        ("sonic-installer", f'case $1 in list) cat {tmp_path}/runs ;; *) echo "$@" >>{tmp_path}/said ;; esac'),
        ("curl", f'while [ "$1" != -o ]; do shift; done; cp {tmp_path}/offered "$2"'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    def run(runs, offered, digest):
        (tmp_path / "runs").write_text(f"Current: SONiC-OS-{runs}\n")
        (tmp_path / "offered").write_text(offered)
        (tmp_path / "said").write_text("")
        text = script.replace(IMAGE.sha256, digest)
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", text], env=environment, capture_output=True, check=False)
        return done.returncode == 0, (tmp_path / "said").read_text()

    right = hashlib.sha256(b"the image").hexdigest()
    installed = f"install -y {tmp_path / 'image'}\n"
    assert run("5.16.0", "anything", right) == (True, "")
    assert run("5.15.0", "the image", right) == (True, installed)
    assert run("5.15.0", "another image", right) == (False, "")


def eos_config():
    arista = ["fabric.switch_model=arista-7060x6-64pe", "fabric.nos=eos", "fabric.mtu=9214"]
    return roce.structured_configs(build(changed("b200-256-roce", arista)), PUBLIC_KEY)["rol001"]


def test_eos_boots_with_an_account_that_opens_by_key_only_and_without_the_one_of_the_factory(tmp_path):
    """The script runs here, with stand-ins for its programs."""
    files = made("eos", config=eos_config())
    assert "no username admin\n" in files["startup-config"]
    assert PUBLIC_KEY.rpartition(" ")[0] in files["startup-config"]
    assert not re.search("(?i)password|secret|passphrase", files["startup-config"])
    (tmp_path / "offered").write_text(files["startup-config"])
    (tmp_path / "image").write_bytes(b"the image")
    for name, text in (
        ("FastCli", "echo Software image version: 4.33.1F"),
        (
            "curl",
            (
                'while [ "$1" != -o ]; do shift; done; '
                f'case $3 in */startup-config) cp {tmp_path}/offered "$2" ;; *) cp {tmp_path}/image "$2" ;; esac'
            ),
        ),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    def run(version, digest):
        flash = tmp_path / f"flash-{version}-{digest[:4]}"
        flash.mkdir()
        image = NosImage(version=version, file="EOS.swi", sha256=digest)
        script = first_boot.files(eos_config(), "eos", URL, image)["provision.sh"].replace(first_boot.FLASH, str(flash))
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, check=False)
        return done.returncode == 0, {path.name: path.read_text() for path in flash.iterdir()}

    right = hashlib.sha256(b"the image").hexdigest()
    done, flash = run("4.33.1F", right)
    assert done
    assert set(flash) == {"startup-config"}
    account, _, rest = flash["startup-config"].partition("\n")
    assert re.fullmatch("username netops privilege 15 role network-admin secret 0 [0-9a-f]{48}", account)
    assert rest == files["startup-config"]
    done, flash = run("4.34.0F", right)
    assert done
    assert flash["boot-config"] == "SWI=flash:/bringup.swi\n"
    done, flash = run("4.34.0F", "ab" * 32)
    assert not done
    assert not {"startup-config", "boot-config"} & set(flash)
