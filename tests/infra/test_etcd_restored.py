"""A real etcd: written to, backed up, emptied, restored and read again, with the roles' own program and certificates."""

import contextlib
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.kube.local import free_ports
from infra.toolchain.control_plane import programs
from tests.playbooks.support import load
from validation.facts import etcd_drill

pytestmark = pytest.mark.platform

backup = load("roles/kubernetes_control_plane/files/etcd_backup.py")
pki = load("library/bringup_pki.py")
READY_S = 120.0
OWN = ["127.0.0.1", "localhost"]


class Etcd:
    """etcd of one member on loopback, as the role starts it."""

    def __init__(self, programs: Path, folder: Path, certificates: Path) -> None:
        self.programs, self.data, self.log = programs, folder / "etcd", folder / "etcd.log"
        self.pki = certificates
        client, peers = free_ports(2)
        self.url, self.peers = f"https://127.0.0.1:{client}", f"https://127.0.0.1:{peers}"

    def command(self) -> list[str]:
        given = {
            "name": "ctl01",
            "data-dir": self.data,
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": self.peers,
            "initial-advertise-peer-urls": self.peers,
            "initial-cluster": f"ctl01={self.peers}",
            "initial-cluster-token": "lab",
            **dict.fromkeys(("cert-file", "key-file", "peer-cert-file", "peer-key-file"), self.pki / "etcd.pem"),
            **dict.fromkeys(("trusted-ca-file", "peer-trusted-ca-file"), self.pki / "etcd-ca.crt"),
            "client-cert-auth": "true",
            "peer-client-cert-auth": "true",
            "log-level": "warn",
        }
        return [str(self.programs / "etcd"), *(f"--{key}={value}" for key, value in given.items())]

    def ask(self, *words: str) -> str:
        """What etcdctl says."""
        known = [
            f"--endpoints={self.url}",
            f"--cacert={self.pki}/etcd-ca.crt",
            f"--cert={self.pki}/etcd-client.pem",
            f"--key={self.pki}/etcd-client.pem",
        ]
        done = subprocess.run(
            [str(self.programs / "etcdctl"), *known, *words], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            end = time.monotonic() + READY_S
            while True:
                assert process.poll() is None, self.log.read_text()[-1000:]
                with contextlib.suppress(AssertionError):
                    self.ask("endpoint", "health")
                    break
                assert time.monotonic() < end, self.log.read_text()[-1000:]
                time.sleep(0.2)
            yield
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture
def etcd(tmp_path: Path) -> Etcd:
    """Not yet running, with certificates by the module of the roles."""
    found = programs()
    assert found is not None
    wanted: dict[str, Any] = {"host": "ctl01", "authority": "etcd-ca", "groups": []}
    made = pki.settle(
        {
            "folder": str(tmp_path / "pki"),
            "organisation": "lab",
            "authorities": ["etcd-ca"],
            "authority_days": 3650,
            "days": 365,
            "renew_days": 90,
            "secrets": {},
            "certificates": [
                wanted | {"name": "etcd", "user": "etcd", "addresses": OWN, "usages": ["server", "client"]},
                wanted | {"name": "etcd-client", "user": "kube-apiserver", "addresses": [], "usages": ["client"]},
            ],
        },
        check=False,
    )
    assert len(made["made"]) == 3
    folder = tmp_path / "pki" / "ctl01"
    (folder / "etcd-ca.crt").write_text(made["authorities"]["etcd-ca"])
    return Etcd(found, tmp_path, folder)


def certificate_of(path: Path) -> bytes:
    """The certificate of a file that also has its key, DER."""
    text = path.read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERT") : text.index("-----BEGIN PRIVATE")])


def served(etcd: Etcd) -> bytes:
    """The certificate that a client is shown now, DER."""
    context = ssl.create_default_context(cafile=str(etcd.pki / "etcd-ca.crt"))
    context.load_cert_chain(etcd.pki / "etcd-client.pem")
    port = int(etcd.url.rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port), 10) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as wrapped,
    ):
        return wrapped.getpeercert(binary_form=True) or b""


def revision(etcd: Etcd) -> int:
    return int(etcd.ask("endpoint", "status", "-w", "fields").partition('"Revision" : ')[2].split()[0])


def test_what_was_deleted_after_a_backup_is_there_again(etcd: Etcd, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    with etcd.running():
        etcd.ask("put", "/registry/a", "first")
        saved = backup.save(etcd.programs, folder, 3, etcd.url, str(etcd.pki))
        etcd.ask("put", "/registry/b", "after the backup")
        etcd.ask("del", "/registry/a")
        assert etcd.ask("get", "/registry/a") == ""
        seen = revision(etcd)
    member = ["--name=ctl01", f"--initial-cluster=ctl01={etcd.peers}", "--initial-cluster-token=lab"]
    aside = backup.restore(etcd.programs, saved, etcd.data, [*member, f"--initial-advertise-peer-urls={etcd.peers}"])
    with etcd.running():
        assert etcd.ask("get", "/registry/a", "--print-value-only") == "first"
        assert etcd.ask("get", "/registry/b") == ""
        assert revision(etcd) > seen, "a client would believe that it has seen what comes"
        etcd.ask("put", "/registry/c", "taken again")
    assert (Path(aside) / "member").is_dir()


def test_a_renewed_certificate_is_served_without_a_restart(etcd: Etcd) -> None:
    with etcd.running():
        etcd.ask("put", "/registry/a", "first")
        before = served(etcd)
        both: dict[str, dict[str, Any]] = {
            name: {"host": "ctl01", "name": name, "authority": "etcd-ca", "groups": []}
            for name in ("etcd", "etcd-client")
        }
        both["etcd"] |= {"user": "etcd", "addresses": OWN, "usages": ["server", "client"]}
        both["etcd-client"] |= {"user": "kube-apiserver", "addresses": [], "usages": ["client"]}
        wanted = {
            "organisation": "lab",
            "authorities": ["etcd-ca"],
            "authority_days": 3650,
            "days": 400,
            "renew_days": 366,
        }
        made = pki.settle(
            wanted | {"folder": str(etcd.pki.parent), "secrets": {}, "certificates": list(both.values())}, check=False
        )
        assert sorted(made["made"]) == ["certificate ctl01/etcd", "certificate ctl01/etcd-client"]
        assert etcd.ask("get", "/registry/a", "--print-value-only") == "first"
        assert served(etcd) == certificate_of(etcd.pki / "etcd.pem") != before


def test_a_backup_of_half_a_file_is_refused_and_the_data_stays(etcd: Etcd, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    with etcd.running():
        etcd.ask("put", "/registry/a", "first")
        saved = backup.save(etcd.programs, folder, 3, etcd.url, str(etcd.pki))
    content = saved.read_bytes()
    saved.write_bytes(content[: len(content) // 2])
    with pytest.raises(backup.BackupError):
        backup.restore(etcd.programs, saved, etcd.data, ["--name=ctl01"])
    with etcd.running():
        assert etcd.ask("get", "/registry/a", "--print-value-only") == "first"


KUBECTL = """#!/usr/bin/python3
# Stands in for the API server: writes and deletes a ConfigMap in etcd, with bytes before it that are no text, as of protobuf.
import json, subprocess, sys
etcdctl = {etcdctl!r}
if "create" in sys.argv:
    made = json.load(sys.stdin)
    key = "/registry/configmaps/{{namespace}}/{{name}}".format(**made["metadata"])
    subprocess.run([*etcdctl, "put", key], input=b"k8s\\x00\\xfa" + json.dumps(made).encode(), check=True)
else:
    name, namespace = sys.argv[sys.argv.index("configmap") + 1], sys.argv[sys.argv.index("--namespace") + 1]
    subprocess.run([*etcdctl, "del", f"/registry/configmaps/{{namespace}}/{{name}}"], check=True)
"""


def test_a_drill_serves_the_backup_beside_the_cluster(
    etcd: Etcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its etcd has the ConfigMap that the cluster's has no more, and the cluster's is as it was."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("etcd", "etcdctl", "etcdutl"):
        (folder / name).symlink_to(etcd.programs / name)
    known = [f"--{key}={etcd.pki}/{name}" for key, name in (("cacert", "etcd-ca.crt"), ("cert", "etcd-client.pem"))]
    command = [str(folder / "etcdctl"), f"--endpoints={etcd.url}", *known, f"--key={etcd.pki}/etcd-client.pem"]
    (folder / "kubectl").write_text(KUBECTL.format(etcdctl=command))
    (folder / "kubectl").chmod(0o755)
    monkeypatch.setattr(etcd_drill, "BACKUP", backup.__file__)
    given: dict[str, Any] = {
        "programs": str(folder),
        "pki": str(etcd.pki),
        "kubeconfig": "none",
        "namespace": "commissioning",
    }
    given["port"] = int(etcd.url.rpartition(":")[2])
    with etcd.running():
        etcd.ask("put", "/registry/pods/a/b", "first")
        said = etcd_drill.main({**given, "ask": "restored", "budget_s": 2 * READY_S})
        assert said["error"] == ""
        assert etcd.ask("get", "/registry", "--prefix", "--keys-only").split() == ["/registry/pods/a/b"]
    assert (said["keys"], said["restored"], said["same"], said["deleted_since_is_back"]) == (2, 2, True, True)
    assert not list(Path("/var/tmp").glob("bringup-drill-*"))
