"""The control plane on loopback, as far as it can be held without starting it; tests marked `platform` start it."""

import stat
from pathlib import Path

import pytest
from cryptography import x509

from infra.kube import certificates
from infra.kube.access import ClusterError, connect
from infra.kube.local import Ports, commands, running

PORTS = Ports(1001, 1002, 1003, 1004, 1005)


def flags(tmp_path: Path, program: str) -> dict[str, str]:
    _, *given = commands(Path("/programs"), tmp_path, PORTS)[program]
    return dict(one.removeprefix("--").split("=", 1) for one in given)


def test_etcd_starts_first_and_everything_listens_on_loopback_alone(tmp_path: Path) -> None:
    made = commands(Path("/programs"), tmp_path, PORTS)
    assert list(made) == ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
    for program in list(made)[1:]:
        assert flags(tmp_path, program)["bind-address"] == "127.0.0.1", program
    etcd = flags(tmp_path, "etcd")
    assert {etcd["listen-client-urls"], etcd["listen-peer-urls"]} == {
        "https://127.0.0.1:1002",
        "https://127.0.0.1:1003",
    }
    assert etcd["client-cert-auth"] == "true"


def test_nobody_is_let_in_without_rights(tmp_path: Path) -> None:
    api = flags(tmp_path, "kube-apiserver")
    assert api["authorization-mode"] == "Node,RBAC"
    assert "NodeRestriction" in api["enable-admission-plugins"]


def test_every_file_that_is_named_is_written_and_every_key_is_the_owners_alone(tmp_path: Path) -> None:
    certificates.write(tmp_path / "pki", "https://127.0.0.1:1001")
    for program in commands(Path("/programs"), tmp_path, PORTS):
        for name, value in flags(tmp_path, program).items():
            if value.startswith(f"{tmp_path}/pki"):
                assert Path(value).is_file(), (program, name)
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700
    assert {stat.S_IMODE(one.stat().st_mode) for one in (tmp_path / "pki").iterdir()} == {0o600}


def test_the_kubeconfig_of_the_administrator_is_one_that_we_take(tmp_path: Path) -> None:
    certificates.write(tmp_path / "pki", "https://127.0.0.1:1001")
    assert connect(tmp_path / "pki" / "admin.kubeconfig").server == "https://127.0.0.1:1001"


def test_each_certificate_is_of_its_authority_and_for_its_use() -> None:
    cluster, etcd = certificates.issue("ca"), certificates.issue("etcd-ca")
    client = certificates.issue("alice", ["team"], cluster, usages=[certificates.CLIENT]).certificate
    client.verify_directly_issued_by(cluster.certificate)
    with pytest.raises(ValueError):
        client.verify_directly_issued_by(etcd.certificate)
    assert client.subject.rfc4514_string() == "CN=alice,O=team"
    usage = client.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [certificates.CLIENT]
    assert not client.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def programs(folder: Path, **scripts: str) -> Path:
    folder.mkdir()
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        (folder / name).write_text(f"#!/bin/sh\n{scripts.get(name.replace('-', '_'), 'exec sleep 600')}\n")
        (folder / name).chmod(0o755)
    return folder


def test_a_program_that_ends_is_named_with_its_last_words(tmp_path: Path) -> None:
    made = programs(tmp_path / "bin", etcd="echo 'no space left on device' >&2; exit 3")
    with (
        pytest.raises(ClusterError, match=r"^etcd ended with 3: no space left on device$"),
        running(made, tmp_path),
    ):
        pass


def test_a_server_that_does_not_get_ready_is_named_and_everything_is_stopped(tmp_path: Path) -> None:
    made = programs(tmp_path / "bin", etcd=f"echo $$ > {tmp_path}/pid; exec sleep 600")
    with (
        pytest.raises(ClusterError, match=r"API server https://127\.0\.0\.1:\d+ is not ready in time.*Logs: "),
        running(made, tmp_path, ready_s=1.0),
    ):
        pass
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
