import os
import stat
import subprocess
from pathlib import Path

import pytest

from infra import env
from infra.toolchain.pulumi_cli import Cli
from inventory.paths import repo_root


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An output folder of the test's own, with a space and a quote in its name."""
    folder = tmp_path / "it's var"
    monkeypatch.setenv("BRINGUP_VAR", str(folder))
    return folder


def evaluated(script: str, name: str) -> str:
    """Value of a variable after a shell has evaluated the exports."""
    shell = subprocess.run(
        ["/bin/sh", "-c", 'eval "$1"; printenv "$2"', "sh", script, name], capture_output=True, text=True, check=True
    )
    return shell.stdout.removesuffix("\n")


def test_exports_survive_a_shell_whatever_is_in_the_path(outputs: Path) -> None:
    variables = env.exports({"PATH": "/opt/it's here:/usr/bin"})
    script = env.script(variables)
    for name, value in variables.items():
        assert evaluated(script, name) == value


def test_own_folders_come_first_on_the_path_and_once() -> None:
    venv, tools = Path("/clone/.venv/bin"), Path("/clone/.tools/pulumi/bin")
    path = env.search_path("/usr/bin:/clone/.venv/bin::/bin", [venv, tools])
    assert path == "/clone/.venv/bin:/clone/.tools/pulumi/bin:/usr/bin:/bin"


def test_backend_that_the_person_chose_is_kept(outputs: Path) -> None:
    chosen = {"PATH": "/bin", "PULUMI_BACKEND_URL": "s3://team-state"}
    assert env.exports(chosen)["PULUMI_BACKEND_URL"] == "s3://team-state"


def test_backend_of_another_clone_is_replaced(outputs: Path) -> None:
    other = {"PATH": "/bin", "BRINGUP_ROOT": "/srv/old", "PULUMI_BACKEND_URL": "file:///srv/old/var/pulumi/state"}
    assert env.exports(other)["PULUMI_BACKEND_URL"] == (outputs / "pulumi" / "state").as_uri()


def test_passphrase_that_the_person_set_leaves_no_second_one(outputs: Path) -> None:
    assert "PULUMI_CONFIG_PASSPHRASE_FILE" not in env.exports({"PATH": "/bin", "PULUMI_CONFIG_PASSPHRASE": "x"})


def test_evaluating_twice_changes_nothing(outputs: Path) -> None:
    once = env.exports({"PATH": "/usr/bin:/bin"})
    assert env.exports({"PATH": "/usr/bin:/bin"} | once) == once


def test_plugin_downloads_are_off_only_for_a_cli_built_here(tmp_path: Path) -> None:
    name = "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"
    assert name in env.defaults(repo_root(), tmp_path, own_build=True)
    assert name not in env.defaults(repo_root(), tmp_path, own_build=False)


def test_passphrase_is_private_random_and_kept(outputs: Path) -> None:
    env.prepare()
    file = outputs / "pulumi" / "passphrase"
    first = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(first.strip()) >= 32
    env.prepare()
    assert file.read_text() == first


def test_passphrase_itself_is_not_exported(outputs: Path) -> None:
    env.prepare()
    passphrase = (outputs / "pulumi" / "passphrase").read_text().strip()
    assert passphrase not in env.script(env.exports(os.environ))


def test_mitogen_is_a_strategy_that_ansible_finds(outputs: Path) -> None:
    variables = env.mitogen()
    assert variables["ANSIBLE_STRATEGY"] == "mitogen_linear"
    assert (Path(variables["ANSIBLE_STRATEGY_PLUGINS"]) / "mitogen_linear.py").is_file()
    assert not any(name.startswith("ANSIBLE_STRATEGY") for name in env.exports({"PATH": "/bin"}))


@pytest.mark.parametrize(
    ("origin", "plugin", "ours"),
    [("built", "", True), ("installer", "", False), ("built", "resource-kubernetes-v4.34.2", False), (None, "", False)],
)
def test_our_kubernetes_provider_is_on_the_path_only_where_pulumis_cannot_be_had(
    origin: str | None, plugin: str, ours: bool, tmp_path: Path
) -> None:
    if plugin:
        (tmp_path / plugin).mkdir()
    cli = Cli(Path("/cli"), origin) if origin else None
    assert bool(env.own_kubernetes_plugin(cli, tmp_path)) is ours


def test_the_provider_that_the_engine_takes_is_told(tmp_path: Path) -> None:
    assert env.kubernetes_plugin({"PATH": str(tmp_path)}) == "Pulumi's own pulumi-resource-kubernetes"
    ours = {"PATH": str(env.OWN_KUBERNETES)}
    assert env.kubernetes_plugin(ours).startswith("Bringup's pulumi-resource-kubernetes, since Pulumi's cannot")
    assert env.kubernetes_plugin(ours | {"PULUMI_IGNORE_AMBIENT_PLUGINS": "true"}).startswith("Pulumi's own")
    (tmp_path / env.KUBERNETES_PLUGIN).write_text("#!/bin/sh\n")
    (tmp_path / env.KUBERNETES_PLUGIN).chmod(0o755)
    assert (
        env.kubernetes_plugin({"PATH": str(tmp_path)}) == f"{tmp_path}/pulumi-resource-kubernetes, which stands on PATH"
    )
