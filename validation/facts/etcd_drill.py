"""Questions about etcd: runs as root on a controller (from standard input), prints one JSON object.

Standard library only. The request, a JSON object as first argument, has the question (`ask`), the namespace for an object that is
made and deleted again (`namespace`), and the seconds for all of it (`budget_s`).

    encrypted   a Secret is made, and every Secret is read as etcd has it: how many of which provider
    restored    a ConfigMap is made, etcd is backed up, the ConfigMap is deleted; then the backup is restored into a folder of its
                own and served by an etcd of its own on loopback: which keys it has, and whether the ConfigMap is among them
    member      whether this member leads, and the last parts of its own keys with a prefix (`prefix`)

The cluster's etcd goes on meanwhile. What could not be asked is `error`.
"""

import base64
import contextlib
import hashlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PROGRAMS = "/opt/bringup/kubernetes/bin"
PKI = "/etc/kubernetes/pki"
KUBECONFIG = "/etc/kubernetes/admin.kubeconfig"
BACKUP = "/usr/local/libexec/bringup/etcd_backup.py"
PORT = 2379
PAGE = 500
"""Secrets of one answer: at most 1 MiB each, a few kB as a rule."""
FIRST, AFTER = "/registry/secrets/", "/registry/secrets0"
ALL, AFTER_ALL = "/registry/", "/registry0"
"""Kubernetes' prefix in etcd (kube-apiserver's default of --etcd-prefix); '0' follows '/' in ASCII."""
SHOWN = 5
ROOM = 3
"""Times the size of etcd's data that are free before a drill begins: backup, restored data, its log."""


class DrillError(Exception):
    """The message says what could not be done."""


class Drill:
    """Programs of this controller, all of them within one budget."""

    def __init__(self, programs: str, pki: str, kubeconfig: str, port: int, budget_s: float) -> None:
        self.programs, self.pki, self.kubeconfig, self.port = programs, pki, kubeconfig, port
        self.end = time.monotonic() + budget_s

    def run(self, argv: Sequence[str], stdin: str = "") -> str:
        left = self.end - time.monotonic()
        name = Path(argv[0]).name
        if left <= 0:
            raise DrillError(f"{name}: the time budget of all steps is spent")
        try:
            done = subprocess.run(
                argv, input=stdin, capture_output=True, encoding="utf-8", errors="replace", timeout=left, check=False
            )
        except FileNotFoundError:
            raise DrillError(f"{argv[0]} is not there: the role kubernetes installs it") from None
        except subprocess.TimeoutExpired:
            raise DrillError(f"{name} {argv[-1]}: no end within the time budget") from None
        if done.returncode:
            raise DrillError(f"{name}: {' '.join((done.stderr or done.stdout).split())[-400:]}")
        return done.stdout

    def kubectl(self, *words: str, stdin: str = "") -> str:
        return self.run([f"{self.programs}/kubectl", "--kubeconfig", self.kubeconfig, *words], stdin)

    def etcdctl(self, *words: str, port: int = 0) -> str:
        """What etcdctl says of the etcd at a port of this machine, the cluster's own unless another is given."""
        return self.run(
            [
                f"{self.programs}/etcdctl",
                f"--endpoints=https://127.0.0.1:{port or self.port}",
                f"--cacert={self.pki}/etcd-ca.crt",
                f"--cert={self.pki}/etcd-client.pem",
                f"--key={self.pki}/etcd-client.pem",
                *words,
            ]
        )

    @contextlib.contextmanager
    def made(self, kind: str, namespace: str, data: dict[str, str]) -> Iterator[str]:
        """The name of an object that is there for a while."""
        name = f"bringup-drill-{secrets.token_hex(6)}"
        body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "data": data}
        self.kubectl("create", "-f", "-", stdin=json.dumps(body))
        try:
            yield name
        finally:
            self.kubectl("delete", kind.lower(), name, "--namespace", namespace, "--ignore-not-found", "--wait=false")


def encrypted(drill: Drill, namespace: str) -> dict[str, Any]:
    """Secrets of this member of etcd by provider, and whether one that was just made is in clear there."""
    token = secrets.token_hex(24).encode()
    data = {"token": base64.b64encode(token).decode()}
    with drill.made("Secret", namespace, data) as name:
        own = f"{FIRST}{namespace}/{name}"
        providers: dict[str, int] = {}
        plain: list[str] = []
        clear, start = None, FIRST
        while start:
            said = json.loads(drill.etcdctl("get", start, AFTER, f"--limit={PAGE}", "--consistency=s", "-w", "json"))
            page = said.get("kvs") or []
            for one in page:
                key, value = base64.b64decode(one["key"]).decode(), base64.b64decode(one["value"])
                provider = provider_of(value)
                providers[provider] = providers.get(provider, 0) + 1
                if not provider and len(plain) < SHOWN:
                    plain.append(key.removeprefix(FIRST))
                if key == own:
                    clear = token in value or data["token"].encode() in value
            start = f"{key}\0" if len(page) == PAGE else ""
        back = json.loads(drill.kubectl("get", "secret", name, "--namespace", namespace, "-o", "json"))
    return {"providers": providers, "plain": plain, "clear": clear, "read_back": back.get("data") == data}


def provider_of(value: bytes) -> str:
    """The provider that encrypted a value, such as secretbox; '' for one in clear.

    The prefix k8s:enc:PROVIDER:VERSION:KEY: is that of k8s.io/apiserver, pkg/server/options/encryptionconfig/config.go.
    """
    parts = value[:80].split(b":", 3)
    return parts[2].decode(errors="replace") if parts[:2] == [b"k8s", b"enc"] and len(parts) == 4 else ""


def restored(drill: Drill, namespace: str) -> dict[str, Any]:
    """What an etcd made of a backup holds, beside what the cluster's etcd held at the revision of the backup."""
    with tempfile.TemporaryDirectory(prefix="bringup-drill-", dir="/var/tmp") as text:
        folder, token = Path(text), secrets.token_hex(24)
        size = size_of(drill)
        if (free := shutil.disk_usage(folder).free) < ROOM * size:
            raise DrillError(f"/var/tmp has {free >> 20} MiB free, a drill needs {ROOM * size >> 20} MiB")
        began = time.monotonic()
        with drill.made("ConfigMap", namespace, {"token": token}) as name:
            save = [sys.executable, "-I", BACKUP, "save", "--programs", drill.programs, "--folder", text, "--keep", "1"]
            backup = drill.run([*save, "--pki", drill.pki, "--endpoint", f"https://127.0.0.1:{drill.port}"]).split()[-1]
        saved = time.monotonic()
        status = json.loads(drill.run([f"{drill.programs}/etcdutl", "snapshot", "status", backup, "-w", "json"]))
        wanted = keys(drill, drill.port, f"--rev={status['revision']}")
        client, peer = free_ports(2)
        url = f"https://127.0.0.1:{peer}"
        own = ["--name=drill", f"--initial-cluster=drill={url}", f"--initial-advertise-peer-urls={url}"]
        restore = [sys.executable, "-I", BACKUP, "restore", "--programs", drill.programs, "--file", backup]
        drill.run([*restore, "--data", f"{text}/data", "--", *own])
        with served(drill, folder, client, peer, own):
            found = keys(drill, client)
            value = drill.etcdctl("get", f"/registry/configmaps/{namespace}/{name}", "--print-value-only", port=client)
        return {
            "bytes": Path(backup).stat().st_size,
            "keys": len(wanted),
            "restored": len(found),
            "same": digest(wanted) == digest(found),
            "deleted_since_is_back": token in value,
            "save_s": round(saved - began, 1),
            "restore_s": round(time.monotonic() - saved, 1),
        }


def size_of(drill: Drill) -> int:
    """Bytes of this member's data."""
    (said,) = json.loads(drill.etcdctl("endpoint", "status", "-w", "json"))
    return int(said["Status"]["dbSize"])


def keys(drill: Drill, port: int, *words: str) -> list[str]:
    """All keys of Kubernetes, in order."""
    return drill.etcdctl("get", ALL, AFTER_ALL, "--keys-only", *words, port=port).split()


def digest(words: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    with contextlib.ExitStack() as stack:
        return [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(count)]


@contextlib.contextmanager
def served(drill: Drill, folder: Path, client: int, peer: int, own: Sequence[str]) -> Iterator[None]:
    """An etcd of restored data on loopback, for those who have the certificate of the cluster's own clients."""
    roots = [f"--trusted-ca-file={drill.pki}/etcd-ca.crt", f"--peer-trusted-ca-file={drill.pki}/etcd-ca.crt"]
    pairs = [f"--{of}{part}-file={drill.pki}/etcd.pem" for of in ("", "peer-") for part in ("cert", "key")]
    url = f"https://127.0.0.1:{client}"
    addresses = [f"--listen-client-urls={url}", f"--advertise-client-urls={url}"]
    command = [
        f"{drill.programs}/etcd",
        f"--data-dir={folder}/data",
        *addresses,
        f"--listen-peer-urls=https://127.0.0.1:{peer}",
        *("--client-cert-auth", "--peer-client-cert-auth", "--log-level=warn"),
        *roots,
        *pairs,
        *own,
    ]
    with (folder / "etcd.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            while True:
                if process.poll() is not None:
                    last = (folder / "etcd.log").read_text(errors="replace").split()
                    raise DrillError(f"etcd of the restored data ended: {' '.join(last)[-400:]}")
                try:
                    drill.etcdctl("endpoint", "health", port=client)
                    break
                except DrillError:
                    if time.monotonic() > drill.end:
                        raise
                    time.sleep(0.5)
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def member(drill: Drill, prefix: str) -> dict[str, Any]:
    """This member itself: serializable reads ask no other."""
    (said,) = json.loads(drill.etcdctl("endpoint", "status", "-w", "json"))
    status = said["Status"]
    own = drill.etcdctl("get", prefix, "--prefix", "--keys-only", "--consistency=s").split()
    return {
        "leader": status["leader"] == status["header"]["member_id"],
        "names": [key.rpartition("/")[2] for key in own],
    }


ASKED = {
    "encrypted": lambda drill, request: encrypted(drill, request["namespace"]),
    "restored": lambda drill, request: restored(drill, request["namespace"]),
    "member": lambda drill, request: member(drill, request["prefix"]),
}


def main(request: dict[str, Any]) -> dict[str, Any]:
    drill = Drill(
        request.get("programs", PROGRAMS),
        request.get("pki", PKI),
        request.get("kubeconfig", KUBECONFIG),
        request.get("port", PORT),
        request["budget_s"],
    )
    try:
        return {**ASKED[request["ask"]](drill, request), "error": ""}
    except (DrillError, OSError, ValueError, LookupError) as error:
        return {"error": str(error) or type(error).__name__}


if __name__ == "__main__":
    os.umask(0o077)
    print(json.dumps(main(json.loads(sys.argv[1]))))
