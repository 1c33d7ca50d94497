"""What plain `pulumi`, `ansible-playbook` and `pytest` need in their environment to work on this clone.

In: the clone, the caller's environment. Out: variables, and a folder for Pulumi's state with its passphrase file.
Variables that choose a Pulumi backend, a passphrase or an Ansible configuration and that the person has set win over
ours, so that a shared backend is used by setting PULUMI_BACKEND_URL as usual.
"""

import importlib.util
import os
import secrets
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from infra.toolchain.paths import pulumi_link
from infra.toolchain.pulumi_cli import Cli, installed
from inventory.paths import repo_root, var_dir

KUBERNETES_PLUGIN = "pulumi-resource-kubernetes"
OWN_KUBERNETES = repo_root() / "infra" / "provider" / "kubernetes" / "bin"
KEEP_WHEN_SET = (
    "PULUMI_BACKEND_URL",
    "PULUMI_CONFIG_PASSPHRASE_FILE",
    "PULUMI_SKIP_CHECKPOINTS",
    "PULUMI_CONTINUE_ON_ERROR",
    "ANSIBLE_CONFIG",
)


def pulumi_dir() -> Path:
    """Folder of Pulumi's state and passphrase, shared by all sites of this clone."""
    return var_dir("pulumi")


def defaults(root: Path, state: Path, own_build: bool) -> dict[str, str]:
    """Variables other than PATH: `root` is the clone, `state` Pulumi's folder.

    `own_build`: the CLI was built here because Pulumi's download host cannot be reached; then its attempts to download
    plugins would only take time to fail.
    """
    values = {
        "BRINGUP_ROOT": str(root),
        "PULUMI_BACKEND_URL": (state / "state").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(state / "passphrase"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_SKIP_CHECKPOINTS": "true",  # docs/decisions/0051-pulumi-checkpoints.md
        "PULUMI_CONTINUE_ON_ERROR": "true",  # one bad device leaves the others finished
        "ANSIBLE_CONFIG": str(root / "ansible.cfg"),
    }
    if own_build:
        values["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
    return values


def mitogen() -> dict[str, str]:
    """Variables that make mitogen Ansible's strategy: one Python per node for the whole run, instead of one per task.

    An option: ansible-core calls strategies of third parties deprecated (docs/decisions/0168-mitogen-as-an-option.md).
    """
    spec = importlib.util.find_spec("ansible_mitogen")
    if spec is None or spec.origin is None:
        return {}
    plugins = Path(spec.origin).parent / "plugins" / "strategy"
    return {"ANSIBLE_STRATEGY": "mitogen_linear", "ANSIBLE_STRATEGY_PLUGINS": str(plugins)}


def search_path(current: str, folders: list[Path]) -> str:
    """PATH with our folders first, each once."""
    ours = [str(folder) for folder in folders]
    return os.pathsep.join([*ours, *(entry for entry in current.split(os.pathsep) if entry and entry not in ours)])


def exports(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables to set, given those that are set already."""
    cli = installed()
    values = defaults(repo_root(), pulumi_dir(), own_build=cli is not None and cli.origin == "built")
    for name in KEEP_WHEN_SET:
        if is_own_choice(name, environ):
            values[name] = environ[name]
    if environ.get("PULUMI_CONFIG_PASSPHRASE"):
        del values["PULUMI_CONFIG_PASSPHRASE_FILE"]
    plugins = Path(environ.get("PULUMI_HOME") or Path.home() / ".pulumi") / "plugins"
    folders = [
        repo_root() / ".venv" / "bin",
        *([pulumi_link() / "bin"] if cli else []),
        *own_kubernetes_plugin(cli, plugins),
    ]
    return {"PATH": search_path(environ.get("PATH", ""), folders)} | values


def own_kubernetes_plugin(cli: Cli | None, plugins: Path) -> list[Path]:
    """The folder of our own `pulumi-resource-kubernetes`, where Pulumi's is not installed and cannot be downloaded."""
    if cli is None or cli.origin != "built" or any(plugins.glob(f"{KUBERNETES_PLUGIN.removeprefix('pulumi-')}-v*")):
        return []
    return [OWN_KUBERNETES]


def kubernetes_plugin(environ: Mapping[str, str]) -> str:
    """Which provider the engine takes for the types of `pulumi_kubernetes`, in words for the person who runs it."""
    found = shutil.which(KUBERNETES_PLUGIN, path=environ.get("PATH", ""))
    if found is None or environ.get("PULUMI_IGNORE_AMBIENT_PLUGINS", "").lower() in ("1", "true"):
        return f"Pulumi's own {KUBERNETES_PLUGIN}"
    if Path(found).parent.resolve() == OWN_KUBERNETES.resolve():
        return f"Bringup's {KUBERNETES_PLUGIN}, since Pulumi's cannot be downloaded here (docs/kubernetes.md)"
    return f"{found}, which stands on PATH"


def is_own_choice(name: str, environ: Mapping[str, str]) -> bool:
    """Whether the person chose this value, rather than an earlier `bringup env` of this or another clone."""
    value = environ.get(name)
    earlier = environ.get("BRINGUP_ROOT")
    return bool(value) and not (earlier and earlier in str(value))


def prepare() -> None:
    """Create the state folder and, once, a random passphrase that only its owner can read.

    The passphrase encrypts what a stack's configuration marks as secret. Losing it means setting those values again.
    """
    state = pulumi_dir()
    (state / "state").mkdir(parents=True, exist_ok=True)
    try:
        file = os.open(state / "passphrase", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(file, "w") as passphrase:
        passphrase.write(secrets.token_urlsafe(32) + "\n")


def script(variables: Mapping[str, str]) -> str:
    """Shell commands that set the variables, quoted for `eval` in any POSIX shell."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def environment() -> dict[str, str]:
    """The whole environment for a subprocess that runs one of the tools; prepares what it needs."""
    prepare()
    return dict(os.environ) | exports(os.environ)
