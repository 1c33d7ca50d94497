"""A control plane of its own on this machine's loopback: etcd, API server, controller manager, scheduler. For tests and trials.

    with running(programs, folder) as plane:     # programs: infra.toolchain.control_plane.programs()
        plane.kubeconfig                         # an administrator's

The programs are the real ones; what is missing is nodes, so no pod runs. Keys, data and logs are in `folder`, which should be new
and is the caller's to delete. etcd does not wait for the disk: after a power cut its data is lost.
"""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from infra.kube import certificates
from infra.kube.access import ClusterError

READY_S = 300.0
"""An idle machine takes 3 to 6 s, one with twenty processes a core took 99 s (measured)."""
STOP_S = 30.0
"""The API server takes over 3 s to end its connections (measured)."""
POLL_S = 0.1
LAST_WORDS = 5
"""Lines of the log of a program that ended."""
HOST = "127.0.0.1"
NODE_LOST_S = 300
"""From a node's last lease until it counts as lost. The default is 50 s, and a busy machine renews those of 1,000 nodes later."""


@dataclass(frozen=True)
class Ports:
    """Ports on loopback: API server, etcd for clients and for its peers, controller manager, scheduler."""

    api: int
    etcd: int
    peers: int
    manager: int
    scheduler: int


@dataclass(frozen=True)
class ControlPlane:
    """One that runs. `processes` is {program: pid}."""

    folder: Path
    server: str
    processes: Mapping[str, int]

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "pki" / "admin.kubeconfig"


def commands(
    programs: Path, folder: Path, ports: Ports, api_server: Mapping[str, str] = MappingProxyType({})
) -> dict[str, list[str]]:
    """{program: its command}, in the order in which they start. api_server: further arguments of it. Pure.

    --endpoint-reconciler-type none: loopback cannot be the address of a Service. --enable-aggregator-routing: webhooks are reached
    at their endpoints, as no kube-proxy runs here. Rates of calls are above the defaults, since one machine asks for thousands.
    """
    pki = folder / "pki"
    etcd, peers = (f"https://{HOST}:{port}" for port in (ports.etcd, ports.peers))
    given: dict[str, dict[str, str]] = {
        "etcd": {
            "data-dir": str(folder / "etcd"),
            "listen-client-urls": etcd,
            "advertise-client-urls": etcd,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
            "cert-file": f"{pki}/etcd.crt",
            "key-file": f"{pki}/etcd.key",
            "client-cert-auth": "true",
            "trusted-ca-file": f"{pki}/etcd-ca.crt",
            "peer-cert-file": f"{pki}/etcd.crt",
            "peer-key-file": f"{pki}/etcd.key",
            "peer-client-cert-auth": "true",
            "peer-trusted-ca-file": f"{pki}/etcd-ca.crt",
            "unsafe-no-fsync": "true",
            "log-level": "warn",
        },
        "kube-apiserver": {
            "bind-address": HOST,
            "advertise-address": HOST,
            "secure-port": str(ports.api),
            "endpoint-reconciler-type": "none",
            "etcd-servers": etcd,
            "etcd-cafile": f"{pki}/etcd-ca.crt",
            "etcd-certfile": f"{pki}/apiserver-etcd.crt",
            "etcd-keyfile": f"{pki}/apiserver-etcd.key",
            "tls-cert-file": f"{pki}/apiserver.crt",
            "tls-private-key-file": f"{pki}/apiserver.key",
            "client-ca-file": f"{pki}/ca.crt",
            "authorization-mode": "Node,RBAC",
            "allow-privileged": "true",  # Pod Security refuses it per namespace; device plugins need it
            "enable-admission-plugins": "NodeRestriction",
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": f"{pki}/tokens.pub",
            "service-account-signing-key-file": f"{pki}/tokens.key",
            "service-cluster-ip-range": certificates.SERVICES,
            "requestheader-client-ca-file": f"{pki}/front-proxy-ca.crt",
            "requestheader-allowed-names": "front-proxy-client",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "proxy-client-cert-file": f"{pki}/front-proxy.crt",
            "proxy-client-key-file": f"{pki}/front-proxy.key",
            "enable-aggregator-routing": "true",
            "profiling": "false",
        },
    }
    for program, port in (("controller-manager", ports.manager), ("scheduler", ports.scheduler)):
        kubeconfig = f"{pki}/{program}.kubeconfig"
        given[f"kube-{program}"] = {
            "kubeconfig": kubeconfig,
            "authentication-kubeconfig": kubeconfig,
            "authorization-kubeconfig": kubeconfig,
            "bind-address": HOST,
            "secure-port": str(port),
            "cert-dir": str(folder / program),
            "leader-elect": "false",
            "kube-api-qps": "300",
            "kube-api-burst": "500",
        }
    given["kube-apiserver"] |= api_server
    given["kube-controller-manager"] |= {
        "root-ca-file": f"{pki}/ca.crt",
        "service-account-private-key-file": f"{pki}/tokens.key",
        "cluster-signing-cert-file": f"{pki}/ca.crt",
        "cluster-signing-key-file": f"{pki}/ca.key",
        "use-service-account-credentials": "true",
        "node-monitor-grace-period": f"{NODE_LOST_S}s",
    }
    return {name: [str(programs / name), *(f"--{key}={value}" for key, value in given[name].items())] for name in given}


@contextlib.contextmanager
def running(
    programs: Path,
    folder: Path,
    ready_s: float = READY_S,
    api_server: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[ControlPlane]:
    """Start all four, wait until the API server is ready, and stop them in reverse at the end. api_server: as for commands."""
    ports = Ports(*free_ports(5))
    server = f"https://{HOST}:{ports.api}"
    certificates.write(folder / "pki", server)
    end = time.monotonic() + ready_s
    with contextlib.ExitStack() as stack:
        processes: dict[str, subprocess.Popen[bytes]] = {}
        for name, command in commands(programs, folder, ports, api_server).items():
            processes[name] = stack.enter_context(process(name, command, folder))
            if name == "kube-apiserver":
                _wait_ready(server, folder, processes, end)
        yield ControlPlane(folder, server, {name: process.pid for name, process in processes.items()})


@contextlib.contextmanager
def process(name: str, command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One program with its log in `folder`; ended at the end, and killed where it does not end in time."""
    with (folder / f"{name}.log").open("wb") as log:
        # A group of its own: an interrupt from the keyboard ends them in order, and not all at once.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(server: str, folder: Path, processes: Mapping[str, subprocess.Popen[bytes]], end: float) -> None:
    tls = ssl.create_default_context(cafile=str(folder / "pki" / "ca.crt"))
    while True:
        for name, process in processes.items():
            if process.poll() is not None:
                raise ClusterError(f"{name} ended with {process.returncode}: {last_words(folder / f'{name}.log')}")
        try:
            with urllib.request.urlopen(f"{server}/readyz", timeout=2.0, context=tls) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        if time.monotonic() > end:
            raise ClusterError(
                f"API server {server} is not ready in time: {last_words(folder / 'kube-apiserver.log')}. Logs: {folder}/*.log"
            )
        time.sleep(POLL_S)


def last_words(log: Path) -> str:
    """The last lines of a log, in one."""
    return " | ".join(log.read_text(errors="replace").splitlines()[-LAST_WORDS:])[-1000:] or "it said nothing"


def free_ports(count: int) -> list[int]:
    """Ports that nobody listened on a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]
