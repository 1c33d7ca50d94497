"""A bundle rolled out on the lab by the command itself: updates that work, fail, hang and lose their BMC."""

import hashlib
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from infra import lab
from infra.lab import firmware_image
from infra.lab.client import ask
from tests.infra.lab.conftest import RunningLab

pytestmark = pytest.mark.lab
MODEL = "lab-gpu-node"
BUDGET_S = 120


@pytest.fixture(scope="module", autouse=True)
def taken_over(running):
    """The site's account exists on the BMCs, as after `pulumi up`; all servers are off."""
    from infra.lab.accounts import account
    from infra.lab.keys import bmc_password

    for server in running.spec.servers:
        password = running.paths.secret(bmc_password(server.name))
        known = {"1": account("admin", password)}
        ask(running.name, op="update", device=server.name, key="accounts", value=known)


def bundle(running: RunningLab, bios: str, bmc: str, *, altered: bool = False, budget_min: int = 1) -> Path:
    """Write a bundle of BMC and BIOS beside the site file; returns that file."""
    folder = running.site.dir / "firmware"
    folder.mkdir(exist_ok=True)
    packages = []
    for item, version, effect in (("BMC", bmc, "bmc_reset"), ("BIOS", bios, "host_restart")):
        data = firmware_image.make(MODEL, {item: version})
        if altered and item == "BIOS":
            data = data[:-2] + b'"}'
        (folder / f"{item}.bin").write_bytes(data)
        packages.append(
            {
                "name": item,
                "image": {"file": f"{item}.bin", "sha256": hashlib.sha256(data).hexdigest()},
                "versions": {item: version},
                "takes_effect": effect,
                "budget_min": budget_min,
            }
        )
    content = {"bundle": "lab 1", "model": MODEL, "source": "made by this test", "packages": packages}
    (folder / "lab.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return running.site.dir / "site.yaml"


def bringup(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "infra.cli", "firmware", *arguments],
        capture_output=True,
        text=True,
        timeout=BUDGET_S,
        check=False,
    )


def runs(running: RunningLab, server: str) -> dict[str, str]:
    return running.view(server)["firmware"]


def test_a_bundle_is_planned_rolled_out_by_stages_and_then_nothing_is_left(running):
    site = str(bundle(running, "9.1", "9.2"))
    plan = bringup("plan", site)
    assert plan.returncode == 1, plan.stderr
    assert "lab-gpu-node BIOS: " in plan.stdout
    assert "instead of 9.1 on 4 servers (BIOS): gpu001, gpu002, gpu003, gpu004" in plan.stdout
    assert "stage 1, lab-gpu-node: one server: gpu001\nstage 2, lab-gpu-node: rack r01: gpu002\n" in plan.stdout
    done = bringup("apply", site)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 servers brought to their bundles, 0 had them" in done.stdout
    assert "after lab-gpu-node: one server: lab-gpu-node BIOS is mixed (BIOS): " in done.stdout
    assert "no package runs in two versions on 4 servers that answer" in done.stdout
    for server in ("gpu001", "gpu004"):
        assert {item: runs(running, server)[item] for item in ("BIOS", "BMC")} == {"BIOS": "9.1", "BMC": "9.2"}
        assert running.view(server)["power"] == "Off"
    assert bringup("plan", site).returncode == 0
    again = bringup("apply", site)
    assert (again.returncode, "0 servers brought to their bundles, 4 had them" in again.stdout) == (0, True)


def test_a_server_that_is_on_is_left_alone_while_nobody_knows_of_its_jobs(running):
    site = str(bundle(running, "9.0", "9.2"))
    ask(running.name, op="reset", device="gpu004", kind="On")
    try:
        done = bringup("apply", site, "--server", "gpu004")
        assert done.returncode == 2
        assert "gpu004: refused: it is on, and whether jobs run on it is not known" in done.stderr
        assert "where no scheduler stands yet, say --no-scheduler" in done.stderr
        assert runs(running, "gpu004")["BIOS"] == "9.1"
    finally:
        ask(running.name, op="reset", device="gpu004", kind="ForceOff")


def test_an_image_that_the_bmc_refuses_stops_after_the_first_server(running):
    before = runs(running, "gpu002")
    done = bringup("apply", str(bundle(running, "9.3", "9.2", altered=True)))
    assert done.returncode == 2
    assert "gpu001: installing: BIOS: gpu001: follow update: expected task Completed" in done.stderr
    assert "VerificationFailed" in done.stderr
    assert "the earlier version still runs" in done.stderr
    assert "stopped after this stage: 3 servers of later stages are untouched" in done.stderr
    assert runs(running, "gpu002") == before


@pytest.mark.soak
def test_a_bmc_that_restarts_in_the_middle_is_named_and_the_same_command_goes_on(running):
    site, before = str(bundle(running, "9.1", "9.4")), runs(running, "gpu001")["BMC"]
    lab.fault(running.name, "update-hangs", ["gpu001"])
    started = subprocess.Popen(
        [sys.executable, "-m", "infra.cli", "firmware", "apply", site, "--server", "gpu001"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    while not any(one["state"] == "Running" for one in running.view("gpu001")["updates"].values()):
        assert time.monotonic() < end, "no update was begun"
        time.sleep(0.1)
    lab.repair(running.name)  # restarts the BMC
    _, said = started.communicate(timeout=900)
    assert started.returncode == 2
    assert "no such task" in said
    assert runs(running, "gpu001")["BMC"] == before
    assert bringup("apply", site, "--server", "gpu001").returncode == 0
    assert runs(running, "gpu001")["BMC"] == "9.4"


def test_servers_that_serve_the_cluster_and_silent_bmcs_are_refused_before_anything_changes(running):
    site = str(bundle(running, "9.5", "9.4"))
    lab.fault(running.name, "bmc-hang", ["gpu003"])
    try:
        done = bringup("apply", site, "--server", "gpu003", "--server", "gpu004")
        assert done.returncode == 2
        assert "gpu003" in done.stderr
        assert "nothing was changed" in done.stderr
        assert runs(running, "gpu004")["BIOS"] != "9.5"
    finally:
        lab.repair(running.name)
