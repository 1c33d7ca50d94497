"""One lab that stands: brought up, applied and configured once, by the commands that a person would type.

All tests that need a configured lab share it (fixture `standing`). A test that breaks something mends it again. Where
the same plan, playbooks and base image have been configured before, it is restored from the lab saved then
(infra/lab/snapshot.py); BRINGUP_FRESH_LAB=1 configures it anew. The first run of the playbooks uses mitogen as `make demo`
does, and in `make soak` plain Ansible.
"""

import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import pytest

from capacity.build import build
from capacity.model import Plan
from infra import lab
from infra.env import environment, mitogen
from infra.lab import snapshot
from inventory.delivered import power_acts
from inventory.delivered.assets import load_assets
from inventory.findings import Finding
from inventory.paths import repo_root
from inventory.site import Site, load_site
from network.drivers.credentials import bmc_credentials
from network.drivers.redfish import Bmc
from tests.infra.lab.helpers import other_site
from tests.playbooks.support import Run, play
from validation import drift_reports
from validation.diagnose import diagnose
from validation.facts import Facts, gather
from validation.facts.gather import address_of
from validation.facts.storage import clients

NAME = "teststand"
OCTET = 90
SOAK = bool(os.environ.get("SOAK_SEED"))
NOTES = ("first-run-plain.json",) if SOAK else ("first-run-plain.json", "first-run.json")
"""The first run of a saved lab, by plain Ansible or by mitogen: those that this run of the tests takes, the one it writes last."""
COMMAND_BUDGET_S = 600
RESTORED_BUDGET_S = 120
UNTIL_S = 60.0
"""A boot, the timer's round of ten seconds, and a busy machine."""
"""Routes, subnet manager, scheduler, mounts and the first scrape of a lab whose servers have just booted."""


@dataclass
class Standing:
    """A configured lab and the environment of the tools. State, evidence and reports lie in `var`."""

    site: Site
    plan: Plan
    var: Path
    env: dict[str, str] = field(repr=False)
    first: Run | None = None
    """The first run of the playbooks; in a lab that was restored, the run before it was saved."""

    @property
    def name(self) -> str:
        return self.site.name

    @property
    def power_acts(self) -> Path:
        """Records of the power actions by which Pulumi has switched the servers on."""
        return power_acts.folder_of(self.var / self.name)

    @property
    def servers(self) -> list[str]:
        """Names of all servers of the plan."""
        names: list[str] = self.plan.devices.loc[self.plan.devices["kind"] == "server", "name"].tolist()
        return names

    def run(
        self, *command: str, check: bool = True, budget_s: float = COMMAND_BUDGET_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the clone, with the lab's environment; its output is in the failure when it fails."""
        done = subprocess.run(
            command,
            cwd=repo_root(),
            env=self.env,
            capture_output=True,
            text=True,
            timeout=budget_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if check and done.returncode:
            told = shown(done.stdout + done.stderr)
            pytest.fail(f"$ {shlex.join(command)}\nexit status {done.returncode}\n{told}", pytrace=False)
        return done

    def pulumi(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`pulumi WORDS -s STACK --non-interactive`."""
        return self.run("pulumi", *words, "-s", self.name, "--non-interactive", "--color=never", check=check)

    def shell(self, host: str, command: str) -> str:
        """Output of a shell command inside a device."""
        return self.run(*lab.exec_argv(self.name, host, ["sh", "-c", command]), budget_s=60).stdout

    def report_drift(self) -> None:
        """Two reports of drift, which S143 asks for: once for a lab that was stood up or restored."""
        for _ in range(2 - len(drift_reports.read(self.var / self.name))):
            self.run("bringup", "validation", "drift", str(self.site.path), check=False)

    def validate(self, target: str = "validation", check: bool = True) -> subprocess.CompletedProcess[str]:
        """`pytest TARGET --site SITE`, in a pytest of its own; all checks after two reports of drift, if there are none yet."""
        if target == "validation":
            self.report_drift()
        return self.run("pytest", target, "--site", str(self.site.path), "-p", "no:cacheprovider", check=check)

    def gate(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`bringup gate --site SITE WORDS`."""
        return self.run("bringup", "gate", "--site", str(self.site.path), *words, check=False)

    def facts(self, *devices: str) -> Facts:
        """Fresh facts of these devices, without names of all."""
        return gather(self.plan, only=devices or None)

    def findings(self) -> list[Finding]:
        """What is wrong with the devices now."""
        return diagnose(self.plan, load_assets(self.site), self.facts())

    def in_service(self) -> bool:
        """Whether Slurm has every node in service: one question, where a gathering costs 15 s of processor time."""
        return self.shell("ctl01", "sinfo -h -o %T || true").split() == ["idle"]

    def reads_shared(self, node: str) -> bool:
        """Whether the shared file system answers on a node."""
        return self.shell(node, "ls /shared 2>&1 || true").strip() == "jobs"

    def clear_event_logs(self) -> None:
        """Clear every BMC's event log, as operators do once they know what its entries came from (S031 judges the rest)."""
        assets, credentials = load_assets(self.site), bmc_credentials(self.site, load_assets(self.site))
        budget_s = self.site.timeouts.bmc_s
        for name in self.servers:
            serial = str(assets.at[name, "serial"])
            Bmc(address_of(self.plan, name, "bmc"), credentials(name), budget_s, name=name, serial=serial).clear_sel()


def shown(output: str, most: int = 4000) -> str:
    """The end of a command's output; before it what Pulumi's section Diagnostics says, which is seldom at the end."""
    start = output.find("\nDiagnostics:")
    diagnostics = output[start : start + most] if start >= 0 else ""
    return f"{diagnostics}\n[...]\n{output[-most:]}" if diagnostics else output[-most:]


@pytest.fixture(scope="session")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """The standing lab of this test run, up since the first test that asked for it."""
    folder = tmp_path_factory.mktemp("standing")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("PULUMI_")]:
            patch.delenv(name)
        patch.setenv("BRINGUP_VAR", str(folder / "var"))
        lab.down(NAME)
        try:
            yield stand(other_site(folder, NAME, OCTET), folder / "var")
        finally:
            lab.down(NAME)
            (repo_root() / "infra" / "stacks" / f"Pulumi.{NAME}.yaml").unlink(missing_ok=True)


def stand_up(site_file: Path, var: Path) -> Standing:
    """From nothing to a configured lab, by the documented commands."""
    site = load_site(site_file)
    stand = Standing(site, build(site), var, environment() | mitogen())
    stand.run("bringup", "lab", "up", "--site", str(site_file))
    stand.run("pulumi", "config", "set", "bringup:site", str(site_file), "-s", site.name)
    stand.pulumi("up", "--yes", "--skip-preview")
    stand.first = play(site_file, var, options={} if SOAK else mitogen())
    if stand.first.code:
        pytest.fail(f"ansible-playbook ended with {stand.first.code}\n{stand.first.output[-4000:]}", pytrace=False)
    return stand


def stand(site_file: Path, var: Path) -> Standing:
    """A configured lab: restored where it was saved, else set up by the documented commands and saved."""
    site = load_site(site_file)
    key = snapshot.key(site, build(site))
    notes = [snapshot.folder(site.name, key) / name for name in NOTES]
    kept = next((note for note in notes if note.exists()), None)
    if snapshot.exists(site.name, key) and kept and not os.environ.get("BRINGUP_FRESH_LAB"):
        return restored(site, var, key, kept)
    stand = stand_up(site_file, var)
    snapshot.save(stand.name, key)
    notes[-1].write_text(json.dumps(asdict(stand.first) if stand.first else {}))
    shutil.copytree(stand.power_acts, notes[-1].parent / power_acts.FOLDER, dirs_exist_ok=True)
    wait_until_whole(stand)
    return stand


def restored(site: Site, var: Path, key: str, note: Path) -> Standing:
    """The lab as it was saved. Its stack is not: no test here runs Pulumi on it."""
    stand = Standing(site, build(site), var, environment() | mitogen(), Run(**json.loads(note.read_text())))
    snapshot.restore(site, stand.plan, key)
    shutil.copytree(note.parent / power_acts.FOLDER, stand.power_acts)
    wait_until_whole(stand)
    return stand


def until_all_read_shared(stand: Standing) -> None:
    """Until every client reads the shared file system: each tries again on its own clock of some seconds."""
    for name in clients(stand.plan):
        until(partial(stand.reads_shared, name), f"{name} has no shared storage again")


def until(true: Callable[[], bool], otherwise: str) -> None:
    """Look every half a second for UNTIL_S; `otherwise` says what has not come about."""
    end = time.monotonic() + UNTIL_S
    while not true():
        assert time.monotonic() < end, f"{otherwise} within {UNTIL_S:g} s"
        time.sleep(0.5)


def wait_until_whole(stand: Standing) -> None:
    """Until a full gathering finds nothing wrong: what was restored is what was saved."""
    end = time.monotonic() + RESTORED_BUDGET_S
    while not stand.in_service() and time.monotonic() < end:
        time.sleep(1)
    while found := stand.findings():
        if time.monotonic() > end:
            lines = "\n".join(f"{finding.id} {finding.subject}: {finding.message}" for finding in found)
            pytest.fail(f"the lab is not whole {RESTORED_BUDGET_S} s after its servers booted:\n{lines}", pytrace=False)
        time.sleep(4)
