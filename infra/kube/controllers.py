"""Kueue, JobSet and kwok beside a control plane of `infra.kube.local`, on loopback. For tests and trials.

    with beside(plane, kubernetes, made, folder):      # infra.toolchain: control_plane.programs(), controllers.controllers()
        ...                                            # their definitions, rights and webhooks are applied, and they are ready

All three run so in tests. The programs are the real ones. Each signs in with a certificate of its own service account, so that it
has the rights of its own manifests. Its webhooks are called at a port of loopback, with a certificate of the cluster's authority.
kwok plays the kubelet of those nodes alone that carry the annotation of `SIMULATED`.
"""

import contextlib
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.kube import certificates
from infra.kube.access import ClusterError
from infra.kube.local import HOST, POLL_S, READY_S, ControlPlane, free_ports, last_words, process

SIMULATED = {"kwok.x-k8s.io/node": "fake"}
"""Annotation of a node that kwok plays."""
LEASE_S = 200
"""kwok renews each node's lease four times in this time: 20 writes a second for 1,000 nodes."""
APPLY_S = 300.0
LEFT_OUT = frozenset({"APIService", "Deployment", "Secret", "Service", "ServiceMonitor"})
"""Kinds that a controller outside of the cluster has no use for; the cluster's authority gives it its certificate."""
CERTIFICATE_FOLDERS = (
    "tmp/k8s-webhook-server/serving-certs",
    "tmp/k8s-metrics-server/serving-certs",
    "etc/kueue/metrics/certs",
)
"""Where the two look for certificates: of webhooks, of JobSet's metrics, of Kueue's."""
CALLS = {"qps": 300, "burst": 500}
"""A second, to the API server: above the defaults (50, 100), since one machine asks for thousands of pods."""


@dataclass(frozen=True)
class Controller:
    """A controller with webhooks. `settings` are those of its configuration that a site has, ports apart."""

    name: str
    namespace: str
    account: str
    settings: Mapping[str, Any]

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.account}"


KUEUE = Controller(
    "kueue",
    "kueue-system",
    "kueue-controller-manager",
    {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]},
        # Visibility serves lists of pending workloads and needs an APIService of its own.
        "featureGates": {"VisibilityOnDemand": False},
        "internalCertManagement": {"enable": False},
    },
)
JOBSET = Controller(
    "jobset",
    "jobset-system",
    "jobset-controller-manager",
    {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "internalCertManagement": {"enable": False},
    },
)


def adapted(manifests: Sequence[Mapping[str, Any]], port: int, authority_pem: bytes) -> list[dict[str, Any]]:
    """The objects that a controller on loopback needs, with its webhooks at `port`. Pure.

    clientConfig names a path of a Service; here the same path at 127.0.0.1, checked against the authority.
    """

    def client(config: Mapping[str, Any]) -> dict[str, Any]:
        url = f"https://{HOST}:{port}{config['service']['path']}"
        return {"url": url, "caBundle": b64encode(authority_pem).decode()}

    found: list[dict[str, Any]] = []
    for given in manifests:
        one = dict(given)
        if one["kind"] in LEFT_OUT:
            continue
        if "webhooks" in one:
            one["webhooks"] = [hook | {"clientConfig": client(hook["clientConfig"])} for hook in one["webhooks"]]
        conversion = one.get("spec", {}).get("conversion", {})
        if conversion.get("strategy") == "Webhook":
            called = conversion["webhook"] | {"clientConfig": client(conversion["webhook"]["clientConfig"])}
            one["spec"] = one["spec"] | {"conversion": conversion | {"webhook": called}}
        found.append(one)
    return found


def configuration(one: Controller, webhook: int, health: int) -> dict[str, Any]:
    """The controller's own configuration on loopback. Pure."""
    return {
        **one.settings,
        "health": {"healthProbeBindAddress": f"{HOST}:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": HOST, "port": webhook},
        "leaderElection": {"leaderElect": False},
        "clientConnection": CALLS,
    }


@contextlib.contextmanager
def beside(
    plane: ControlPlane,
    kubernetes: Path,
    made: Path,
    folder: Path,
    wanted: Sequence[Controller] = (KUEUE, JOBSET),
    ready_s: float = READY_S,
) -> Iterator[Mapping[str, subprocess.Popen[bytes]]]:
    """Apply what they need, start kwok and the controllers wanted, wait until they are ready, and stop them at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    kubectl = [str(kubernetes / "kubectl"), "--kubeconfig", str(plane.kubeconfig)]
    ports = free_ports(2 * len(wanted) + 1)
    with contextlib.ExitStack() as stack:
        processes: dict[str, subprocess.Popen[bytes]] = {}
        apply(kubectl, documents(made / "manifests" / "kwok.yaml"), folder / "kwok.yaml")
        kwok = [
            str(made / "bin" / "kwok"),
            f"--kubeconfig={plane.kubeconfig}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-annotation-selector={','.join(f'{key}={value}' for key, value in SIMULATED.items())}",
            "--enable-crds=Stage",
            f"--node-lease-duration-seconds={LEASE_S}",
            "--v=WARN",
            "--cidr=10.128.0.0/9",
            "--node-ip=10.64.0.1",
            f"--server-address={HOST}:{ports.pop()}",
        ]
        processes["kwok"] = stack.enter_context(process("kwok", kwok, folder))
        end = time.monotonic() + ready_s
        for one in wanted:
            webhook, health = ports.pop(), ports.pop()
            root = folder / one.name
            authority = certificates.load(plane.folder / "pki" / "ca")
            prepare(one, root, made, plane.server, authority, configuration(one, webhook, health))
            manifests = adapted(documents(made / "manifests" / f"{one.name}.yaml"), webhook, authority.pem)
            apply(kubectl, manifests, folder / f"{one.name}.yaml")
            processes[one.name] = stack.enter_context(process(one.name, start(root), folder))
            _wait_ready(one.name, f"http://{HOST}:{health}/readyz", folder, processes[one.name], end)
        yield processes


def prepare(
    one: Controller, root: Path, made: Path, server: str, authority: certificates.Pair, settings: Mapping[str, Any]
) -> None:
    """The root folder that a controller runs in, as its container would be: it looks for certificates at fixed paths."""
    root.mkdir(mode=0o700)
    shutil.copy(made / "bin" / one.name, root / "manager")
    serving = certificates.issue(
        one.name, authority=authority, addresses=certificates.LOCAL, usages=[certificates.SERVER]
    )
    for place in CERTIFICATE_FOLDERS:
        (root / place).mkdir(parents=True)
        certificates.private(root / place / "tls.crt", serving.pem)
        certificates.private(root / place / "tls.key", serving.key_pem)
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{one.namespace}"]
    client = certificates.issue(one.user, groups, authority, usages=[certificates.CLIENT])
    certificates.private(root / "kubeconfig", certificates.kubeconfig(server, authority.pem, client).encode())
    (root / "config.yaml").write_text(yaml.safe_dump(dict(settings)))


def start(root: Path) -> list[str]:
    """The command of a controller in its root folder; who is not root becomes root of a user namespace of its own."""
    alone = [] if os.geteuid() == 0 else ["--map-root-user"]
    return [
        *("unshare", *alone, f"--root={root}", "--wd=/"),
        *("/manager", "--config=/config.yaml", "--kubeconfig=/kubeconfig", "--zap-log-level=1"),
    ]


def documents(path: Path) -> list[dict[str, Any]]:
    """The documents of a YAML file."""
    return [one for one in yaml.load_all(path.read_text(), yaml.CSafeLoader) if one]


def apply(kubectl: Sequence[str], manifests: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Apply objects on the server's side, definitions first, and wait until these are served."""
    definitions = [one for one in manifests if one["kind"] == "CustomResourceDefinition"]
    spaces = [one for one in manifests if one["kind"] == "Namespace"]
    rest = [one for one in manifests if one not in definitions and one not in spaces]
    for some in ([*definitions, *spaces], rest):
        if not some:
            continue
        file.write_text(yaml.dump_all(some, Dumper=yaml.CSafeDumper))
        _call([*kubectl, "apply", "--server-side", "--force-conflicts", "-f", str(file)])
        if some is not rest and definitions:
            names = [f"crd/{one['metadata']['name']}" for one in definitions]
            _established([*kubectl, "wait", "--for=condition=Established", f"--timeout={APPLY_S:g}s", *names])


def _established(command: Sequence[str]) -> None:
    """Wait for definitions. A new one has conditions of null for a moment, and kubectl ends there instead of waiting."""
    end = time.monotonic() + APPLY_S
    while True:
        try:
            return _call(command)
        except ClusterError as error:
            if "accessor error" not in str(error) or time.monotonic() > end:
                raise
        time.sleep(POLL_S)


def _call(command: Sequence[str]) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * APPLY_S, check=False
    )
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(command[3:])}: {' | '.join(done.stderr.splitlines()[-8:])[-2000:]}")


def _wait_ready(name: str, url: str, folder: Path, started: subprocess.Popen[bytes], end: float) -> None:
    while True:
        if started.poll() is not None:
            raise ClusterError(f"{name} ended with {started.returncode}: {last_words(folder / f'{name}.log')}")
        with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=2.0) as answer:
            if answer.status == 200:
                return
        if time.monotonic() > end:
            raise ClusterError(f"{name} is not ready in time: {last_words(folder / f'{name}.log')}")
        time.sleep(POLL_S)
