"""`pulumi` on a lab of the tests' own: the program, the engine, the provider and devices that really switch.

The tests run in order. Each leaves the lab as planned, except the preview of two changes: the test after it repairs these.
State, passphrase and ledger of Pulumi are in a temporary folder.
"""

import json
import os
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from capacity.build import build
from infra import lab
from infra.env import environment
from infra.lab.paths import LabPaths
from infra.lab.up import up
from infra.provider.planned import inputs_by_key
from infra.provider.provider import input_differences
from infra.provider.resource_types import resource_types
from infra.stack import powered_on_dir, start_over
from inventory.delivered.assets import load_assets
from inventory.paths import repo_root
from inventory.site import load_site
from network.drivers.credentials import bmc_credentials, snmp_credentials, switch_credentials
from network.drivers.pdu import Pdu
from network.drivers.redfish import Bmc
from network.nos.frr.driver import Switch
from tests import pulumi_cli
from tests.infra.lab.helpers import small_site

pytestmark = pytest.mark.lab

NAME, OCTET = "testlab-pulumi", 97
RUN_LIMIT_S = 300
MOMENTS, QUICK_MOMENT = 20, 1
"""Kills in all, every second of a run that creates, and the one of `make test`: of a run that creates. The others soak."""
SEED = int(os.environ.get("SOAK_SEED", "3"))
ORPHAN_LIMIT_S = 10.0


class Rig:
    """A lab, its stack, and the inputs that the program computes for it."""

    def __init__(self, site_file):
        self.site_file = site_file
        self.site = load_site(site_file)
        self.plan = build(self.site)
        self.env = environment()
        self.inputs = inputs_by_key(self.plan, str(site_file))
        self.output = []
        self.up_s = 0.0
        """How long the longest `pulumi up` took that was not killed."""

    def pulumi(self, *arguments):
        """Run the CLI to its end; returns exit status and output."""
        status, output = pulumi_cli.call(self.command(*arguments), repo_root(), self.env, RUN_LIMIT_S)
        self.output.append(output)
        return status, output

    def command(self, *arguments):
        return ["pulumi", *arguments, "--stack", NAME, "--non-interactive", "--color=never"]

    def up(self, *arguments):
        began = time.monotonic()
        status, output = self.pulumi("up", "--yes", "--skip-preview", *arguments)
        assert status == 0, output
        self.up_s = max(self.up_s, time.monotonic() - began)

    def unchanged(self):
        status, output = self.pulumi("preview", "--expect-no-changes")
        assert status == 0, output

    def changes(self, *arguments):
        """{name: operation} of what a preview would change."""
        done = subprocess.run(
            self.command("preview", "--json", *arguments),
            cwd=repo_root(),
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT_S,
            check=True,
        )
        return {
            step["urn"].rpartition("::")[2]: step["op"]
            for step in json.loads(done.stdout)["steps"]
            if step["op"] not in ("same", "refresh")
        }

    def forget(self):
        """Lose the state of the stack and the ledger."""
        start_over(NAME)
        assert self.pulumi("config", "set", "bringup:site", str(self.site_file))[0] == 0

    def differences(self):
        """What the devices themselves say is not as planned, asked without Pulumi."""
        types = resource_types()

        def ask(token, inputs):
            kind = types[token]
            observed = kind.read(inputs | kind.nothing_done(inputs))
            return observed.failures + [str(found) for found in input_differences(kind, observed.state, inputs)]

        with ThreadPoolExecutor(16) as pool:
            asked = [
                pool.submit(ask, token, inputs)
                for token, resources in self.inputs.items()
                for inputs in resources.values()
            ]
        return [line for lines in asked for line in lines.result()]

    def pdu(self, name):
        inputs = next(
            rack["pdus"][name] for rack in self.inputs["bringup:power:RackOutlets"].values() if name in rack["pdus"]
        )
        return Pdu(inputs["address"], snmp_credentials(self.site), name=name)

    def server(self, name):
        inputs = next(
            rack["servers"][name] for rack in self.inputs["bringup:nodes:Servers"].values() if name in rack["servers"]
        )
        return Bmc(inputs["address"], bmc_credentials(self.site, load_assets(self.site))(name), name=name)

    def switch(self, name):
        inputs = self.inputs["bringup:network:SwitchConfig"][name]
        return Switch(name, inputs["address"], switch_credentials(self.site))

    def powers(self):
        names = sorted(name for rack in self.inputs["bringup:nodes:Servers"].values() for name in rack["servers"])
        with ThreadPoolExecutor(8) as pool:
            return dict(zip(names, pool.map(lambda name: self.server(name).state()["power"], names), strict=True))


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pulumi")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("PULUMI_")]:
            patch.delenv(name)
        patch.setenv("BRINGUP_VAR", str(folder / "var"))
        lab.down(NAME)
        rig = Rig(small_site(folder, NAME, OCTET, gpu_nodes=2))
        try:
            up(rig.site, rig.plan)
            rig.forget()
            yield rig
        finally:
            lab.down(NAME)
            (repo_root() / "infra" / "stacks" / f"Pulumi.{NAME}.yaml").unlink(missing_ok=True)


def test_preview_of_a_new_lab_shows_what_its_devices_say(rig):
    status, output = rig.pulumi("preview")
    assert status == 0, output
    assert 'gpu001 ~ power: "Off" => "On"' in output
    assert 'gpu001 ~ login: "refused" => "site"' in output
    assert "leaf01 + router bgp" in output
    assert '"gpu001 psu1"' in output


def test_up_brings_every_device_to_the_plan(rig):
    assert rig.differences()
    rig.up()
    assert rig.differences() == []
    assert set(rig.powers().values()) == {"On"}


def test_the_factory_login_is_refused_and_the_sites_works(rig):
    factory = LabPaths(NAME).secret("bmc_factory_password")
    assert rig.server("gpu001").login_refused(rig.site.credentials.bmc.factory.user, factory)
    assert rig.server("gpu001").state()["power"] == "On"


def outlet_of_gpu001(rig):
    outlets = rig.plan.outlets
    return outlets[outlets["device"] == "gpu001"].iloc[0]


def test_a_preview_after_the_first_up_shows_exactly_one_outlet_and_one_switch_line(rig):
    first = outlet_of_gpu001(rig)
    rig.pdu(first["pdu"]).set_outlet(int(first["outlet"]), False)
    lab.fault(NAME, "switch-config-drift", ["leaf01"])
    assert rig.changes() == {first["rack"]: "update", "leaf01": "update"}
    assert rig.server("gpu001").state()["power"] == "On"  # the other feed carries it


def test_hung_garbled_and_exchanged_bmcs_are_named_the_others_are_finished_and_the_same_command_repairs(rig):
    rack = next(rack["servers"] for rack in rig.inputs["bringup:nodes:Servers"].values() if "gpu001" in rack["servers"])
    neighbour = next(name for name in rack if name != "gpu001")
    garbled, exchanged = "ctl01", "sto01"
    assert not {garbled, exchanged} & set(rack)
    for name in (neighbour, exchanged):
        rig.server(name).power("ForceOff")
    lab.fault(NAME, "bmc-hang", ["gpu001"])
    lab.fault(NAME, "bmc-garbled", [garbled, "types"])
    lab.fault(NAME, "identity-changed", [exchanged])
    status, output = rig.pulumi("up", "--yes", "--skip-preview")
    assert status != 0
    assert "gpu001: " in output
    assert f"{garbled}: " in output
    assert f"{exchanged}: compare identity" in output
    assert rig.server(neighbour).state()["power"] == "On"
    assert all(outlet["on"] for outlet in rig.pdu(outlet_of_gpu001(rig)["pdu"]).outlets())
    with rig.switch("leaf01") as switch:
        assert switch.compare(rig.inputs["bringup:network:SwitchConfig"]["leaf01"]["config"]) == ""
    lab.repair(NAME)
    assert rig.server(exchanged).state()["power"] == "Off", "another server's BMC is not written"
    rig.up()
    assert rig.differences() == []


def disturb(rig, rng):
    """Two switches lose their configuration, one outlet and one server their power, one outlet its label."""
    factory = "frr defaults datacenter\nhostname {}\nservice integrated-vtysh-config\n!\n"

    def reset(name):
        with rig.switch(name) as switch:
            if switch.load(factory.format(name)):
                switch.commit(60)
                switch.confirm()

    outlets = rig.plan.outlets
    cords = outlets[outlets["device"].str.startswith("gpu")]
    cut, renamed = (cords.iloc[rng.randrange(len(cords))] for _ in range(2))
    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(reset, name) for name in rng.sample(sorted(rig.inputs["bringup:network:SwitchConfig"]), 2)]
        work.append(pool.submit(rig.pdu(cut["pdu"]).set_outlet, int(cut["outlet"]), False))
        work.append(pool.submit(rig.pdu(renamed["pdu"]).set_name, int(renamed["outlet"]), "somebody's"))
        work.append(pool.submit(rig.server(rng.choice(sorted(rig.powers()))).power, "ForceOff"))
    for done in work:
        done.result()


def ours(folder):
    """Provider processes of this test's stack (by their environment)."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, variables = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        if b"infra/provider" in command and f"BRINGUP_VAR={folder}".encode() in variables:
            found.append(process.name)
    return found


@pytest.mark.parametrize(
    "moment",
    [pytest.param(moment, marks=() if moment == QUICK_MOMENT else pytest.mark.soak) for moment in range(MOMENTS)],
)
def test_a_killed_run_is_completed_by_the_documented_commands(rig, moment):
    """The moment lies within the time that a whole run takes."""
    if not rig.up_s:
        rig.up()
    rng = random.Random(SEED * 1000 + moment)
    disturb(rig, rng)
    if moment % 2:
        rig.forget()  # so that the run creates: every create meets devices that are configured already
    process = subprocess.Popen(
        rig.command("up", "--yes", "--skip-preview"),
        cwd=repo_root(),
        env=rig.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(rng.uniform(0.05, 1.0) * rig.up_s)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + ORPHAN_LIMIT_S
    while ours(os.environ["BRINGUP_VAR"]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert ours(os.environ["BRINGUP_VAR"]) == []
    assert rig.pulumi("cancel", "--yes")[0] == 0
    rig.up()
    assert rig.differences() == []


@pytest.mark.soak
def test_after_all_kills_nothing_is_left_to_change(rig):
    rig.unchanged()


def test_no_secret_is_in_state_log_or_output(rig):
    names = ("snmp_auth", "snmp_priv", "bmc_password_gpu001", "bmc_factory_password")
    values = {LabPaths(NAME).secret(name) for name in names}
    folder = Path(os.environ["BRINGUP_VAR"])
    texts = {str(path): path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file()}
    texts["state"] = rig.pulumi("stack", "export", "--show-secrets")[1]
    texts |= {f"output {number}": text for number, text in enumerate(rig.output)}
    assert "RackOutlets" in texts["state"]
    assert [where for where, text in texts.items() if any(value in text for value in values)] == []


def test_resources_that_pulumi_forgot_are_imported_as_they_are(rig):
    state = json.loads(rig.pulumi("stack", "export")[1])
    urns = [row["urn"] for row in state["deployment"]["resources"]]
    forgotten = {("bringup:network:SwitchConfig", "leaf01"): "network", ("bringup:nodes:Servers", "r01"): "nodes"}
    lost = [next(urn for urn in urns if urn.endswith("::".join(one))) for one in forgotten]
    status, output = rig.pulumi("state", "delete", *lost, "--yes", "--force")
    assert status == 0, output
    for (token, name), layer in forgotten.items():
        parent = next(urn for urn in urns if urn.endswith(f"::{layer}"))
        options = (
            "--parent",
            f"{layer}={parent}",
            "--protect=false",
            "--generate-code=false",
            "--yes",
            "--skip-preview",
        )
        status, output = rig.pulumi("import", token, name, f"{rig.site_file}/{name}", *options)
        assert status == 0, output
    rig.unchanged()


@pytest.mark.soak
def test_destroy_powers_off_only_what_up_powered_on(rig):
    rig.server("gpu001").power("ForceOff")
    rig.forget()
    rig.up()  # everything else runs already: only gpu001 is ours
    assert sorted(path.name for path in powered_on_dir(NAME).iterdir()) == ["gpu001"]
    status, output = rig.pulumi("destroy", "--yes", "--skip-preview")
    assert status == 0, output
    assert {name for name, power in rig.powers().items() if power == "Off"} == {"gpu001"}
    assert all(outlet["on"] for outlet in rig.pdu(rig.plan.outlets["pdu"].iloc[0]).outlets())
    with rig.switch("leaf01") as switch:
        assert switch.neighbours() == {}


@pytest.mark.soak
def test_what_was_destroyed_is_brought_up_again(rig):
    status, output = rig.pulumi("destroy", "--yes", "--skip-preview")
    assert status == 0, output
    assert rig.differences()
    rig.up()
    assert rig.differences() == []
