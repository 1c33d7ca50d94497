"""Pulumi stacks of labs: a lab in factory state needs a stack that knows nothing of an earlier lab.

Devices of a real site keep what they were given; a lab that is built anew does not, under the same names and serials.
State of the earlier lab would make `pulumi up` believe that all is done.
"""

import json
import shutil
import subprocess
from pathlib import Path

from infra.env import environment
from infra.kube.access import kubeconfig_of
from inventory.delivered import power_acts
from inventory.paths import repo_root, var_dir

CALL_LIMIT_S = 60.0


class StackError(Exception):
    """The Pulumi CLI refused; the text is what it said."""


def powered_on_dir(site_name: str) -> Path:
    """Folder of the ledger of servers that were powered on (infra/provider/ledger.py)."""
    return var_dir(site_name) / "pulumi" / "powered-on"


def start_over(name: str) -> None:
    """Make an empty stack `name`, dropping the state of an earlier one and the kubeconfig of its cluster, but no configuration.

    Does nothing where there is no Pulumi CLI. Raises StackError with the CLI's own words.
    """
    kubeconfig_of(name).unlink(missing_ok=True)
    env = environment()
    if shutil.which("pulumi", path=env["PATH"]) is None:
        return
    shutil.rmtree(powered_on_dir(name), ignore_errors=True)
    shutil.rmtree(power_acts.folder_of(var_dir(name)), ignore_errors=True)
    stacks = {stack["name"].rpartition("/")[2] for stack in json.loads(_pulumi(env, "stack", "ls", "--json"))}
    if name in stacks:
        _pulumi(env, "cancel", "--stack", name, "--yes")
        _pulumi(env, "stack", "rm", name, "--yes", "--force", "--preserve-config")
    drop_salt(repo_root() / "infra" / "stacks" / f"Pulumi.{name}.yaml")
    _pulumi(env, "stack", "select", name, "--create")


def drop_salt(config: Path) -> None:
    """Take the passphrase's salt out of the configuration of a stack that does not exist, unless it keeps secrets.

    A salt that outlived its passphrase (`rm -r var`) would make every later command fail with 'incorrect passphrase'.
    """
    if not config.exists() or "secure:" in config.read_text():
        return
    kept = [line for line in config.read_text().splitlines() if not line.startswith("encryptionsalt:")]
    if kept:
        config.write_text("\n".join(kept) + "\n")
    else:
        config.unlink()


def _pulumi(env: dict[str, str], *arguments: str) -> str:
    command = ["pulumi", *arguments, "--non-interactive", "--color=never"]
    done = subprocess.run(
        command,
        cwd=repo_root(),
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CALL_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise StackError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
