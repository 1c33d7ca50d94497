"""One lab that stands: brought up, applied and configured once, by the commands that a person would type.

The tests of this folder share it. A test that breaks something mends it again, and says so by `standing.findings() == []`.
"""

import os
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from capacity.plan import Plan, build
from infra import lab
from infra.env import environment
from inventory.assets import load_assets
from inventory.findings import Finding
from inventory.paths import repo_root
from inventory.site import Site, load_site
from tests.infra.lab.helpers import other_site
from validation.diagnose import diagnose
from validation.facts import Facts, gather

NAME = "teststand"
OCTET = 90
COMMAND_BUDGET_S = 600


@dataclass
class Standing:
    """A configured lab and the environment of the tools. State, evidence and reports lie in `var`."""

    site: Site
    plan: Plan
    var: Path
    env: dict[str, str] = field(repr=False)

    @property
    def name(self) -> str:
        return self.site.name

    def run(
        self, *command: str, check: bool = True, budget_s: float = COMMAND_BUDGET_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the clone, with the lab's environment; its output is in the failure when it fails."""
        done = subprocess.run(
            command, cwd=repo_root(), env=self.env, capture_output=True, text=True, timeout=budget_s, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if check and done.returncode:
            tail = (done.stdout + done.stderr)[-4000:]
            pytest.fail(f"$ {shlex.join(command)}\nexit status {done.returncode}\n{tail}", pytrace=False)
        return done

    def pulumi(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`pulumi WORDS -s STACK --non-interactive`."""
        return self.run("pulumi", *words, "-s", self.name, "--non-interactive", "--color=never", check=check)

    def playbook(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`ansible-playbook playbooks/site.yml -i SITE WORDS`."""
        return self.run("ansible-playbook", "playbooks/site.yml", "-i", str(self.site.path), *words, check=check)

    def validate(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`pytest validation --site SITE WORDS`, in a pytest of its own."""
        return self.run(
            "pytest", "validation", "--site", str(self.site.path), "-p", "no:cacheprovider", *words, check=check
        )

    def gate(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`bringup gate --site SITE WORDS`."""
        return self.run("bringup", "gate", "--site", str(self.site.path), *words, check=False)

    def facts(self) -> Facts:
        """Fresh facts of all devices."""
        return gather(self.plan)

    def findings(self) -> list[Finding]:
        """What is wrong with the devices now."""
        return diagnose(self.plan, load_assets(self.site), self.facts())


@pytest.fixture(scope="session")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """The standing lab of this session."""
    folder = tmp_path_factory.mktemp("standing")
    site = load_site(other_site(folder, NAME, OCTET))
    var = folder / "var"
    before = {
        name: os.environ.get(name) for name in ("BRINGUP_VAR", "PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE_FILE")
    }
    for name in before:
        os.environ.pop(name, None)
    os.environ["BRINGUP_VAR"] = str(var)
    lab.down(site.name)
    try:
        stand = Standing(site, build(site), var, environment())
        lab.up(site, stand.plan)
        stand.run("pulumi", "stack", "init", site.name)
        stand.run("pulumi", "config", "set", "bringup:site", str(site.path), "-s", site.name)
        stand.pulumi("up", "--yes", "--skip-preview")
        stand.playbook()
        yield stand
    finally:
        lab.down(site.name)
        (repo_root() / "infra" / "stacks" / f"Pulumi.{site.name}.yaml").unlink(missing_ok=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
