"""The administrator's kubeconfig comes to this machine whole, readable by its owner alone, or not at all."""

import stat
import subprocess
from pathlib import Path
from typing import cast

import pytest

from infra.kube import fetched
from infra.kube.access import ClusterError, Connection
from network.drivers.ssh import Completed, SshHost
from tests.infra.test_kube_access import kubeconfig
from validation.facts.kube import KUBECONFIG


class Controller:
    """Runs what it is given here, with the kubeconfig at `there`."""

    name = "ctl1"

    def __init__(self, there: Path) -> None:
        self.there = there

    def run(self, command: str, check: bool = True) -> Completed:
        text = command.replace(KUBECONFIG, str(self.there))
        done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, timeout=30, check=False)
        return Completed(done.returncode, done.stdout, done.stderr, 0.0)


def fetch(there: Path, target: Path) -> str:
    return fetched.fetch(cast(SshHost, Controller(there)), target)


def answers(monkeypatch: pytest.MonkeyPatch, why: str = "") -> list[str]:
    """Stand in for the API server's answer; the servers that were asked."""
    asked: list[str] = []

    def version(connection: Connection) -> str:
        asked.append(connection.server)
        if why:
            raise ClusterError(why)
        return "v1.36.3"

    monkeypatch.setattr(fetched, "version", version)
    return asked


def test_a_kubeconfig_is_kept_once_its_server_has_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, there, target = answers(monkeypatch), kubeconfig(tmp_path), tmp_path / "site" / "kubeconfig"
    assert fetch(there, target) == "v1.36.3"
    assert asked == ["https://127.0.0.1:6443"]
    assert target.read_bytes() == there.read_bytes()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["kubeconfig"]


def test_one_that_is_kept_stays_where_the_new_one_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, target = kubeconfig(tmp_path), tmp_path / "kept"
    target.write_text("before")
    answers(monkeypatch, "API server does not answer")
    with pytest.raises(ClusterError, match="does not answer"):
        fetch(there, target)
    there.write_text("no kubeconfig")
    with pytest.raises(ClusterError, match=r"kubeconfig ctl1:/etc/kubernetes/admin\.kubeconfig: current-context"):
        fetch(there, target)
    with pytest.raises(ClusterError, match=r"ctl1: .* cannot be read: .*role kubernetes_control_plane writes it"):
        fetch(tmp_path / "absent", target)
    assert target.read_text() == "before"
    assert not target.with_name(".kept.new").exists()
