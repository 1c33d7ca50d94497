"""The pods of the platform's own controllers, on a control plane without kubelets. For tests that carry `platform`.

Real: Kueue, with the configuration, the rights, the Service and the Secret that the cluster has for it. It runs in a root folder of
its own and not in a container, and what a kubelet would do for it (binding, mounting the Secret, reporting it ready) is done here.
Pods of JobSet and of the device plugin are reported as ready and do not run. SIMULATED.
"""

import base64
import contextlib
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.kube import certificates
from infra.kube.controllers import KUEUE, prepare, start
from infra.kube.local import ControlPlane, process
from infra.kube.manifests import CONFIGURATION
from tests.control_plane import Cluster

ROUND_S = 0.5
NAMESPACES = ("jobset-system", "kube-system", KUEUE.namespace)
SECRET = f"/api/v1/namespaces/{KUEUE.namespace}/secrets/kueue-webhook-server-cert"
SETTINGS = f"/api/v1/namespaces/{KUEUE.namespace}/configmaps/kueue-manager-config"
MOUNTED = "tmp/k8s-webhook-server/serving-certs"


def own_address() -> str:
    """An address of this machine that is not loopback's, which an endpoint of a Service may not have."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("no address beside loopback: the API server could not reach Kueue's webhook")
        return str(one.getsockname()[0])


@contextlib.contextmanager
def pods_played(plane: ControlPlane, made: Path, folder: Path, node: str) -> Iterator[None]:
    """Play the pods of NAMESPACES until the end. made: infra.toolchain.controllers.controllers()."""
    stop, address = threading.Event(), own_address()
    thread = threading.Thread(target=_play, args=(plane, made, folder, node, address, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _play(plane: ControlPlane, made: Path, folder: Path, node: str, address: str, stop: threading.Event) -> None:
    cluster, kueue = Cluster(plane.kubeconfig), None
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.http.close)
        while not stop.wait(ROUND_S):
            for namespace in NAMESPACES:
                for pod in (cluster.get(f"/api/v1/namespaces/{namespace}/pods") or {"items": []})["items"]:
                    if not pod["spec"].get("nodeName"):
                        _bind(cluster, pod, node)
                if namespace != KUEUE.namespace:
                    cluster.play_kubelet(namespace, lambda image: False)
            settings = cluster.get(SETTINGS)
            if kueue is None and settings is not None and cluster.get(SECRET) is not None:
                kueue = stack.enter_context(process("kueue", _prepared(plane, made, folder, settings), folder))
            if kueue is not None:
                if kueue.poll() is not None:  # it ends where it could not give its webhooks their certificate in time
                    kueue = stack.enter_context(process("kueue", start(folder / "kueue"), folder))
                _mount(cluster, folder / "kueue" / MOUNTED)
                if _is_ready(address):
                    cluster.play_kubelet(KUEUE.namespace, lambda image: False, address)


def _prepared(plane: ControlPlane, made: Path, folder: Path, settings: dict[str, Any]) -> list[str]:
    given = yaml.safe_load(settings["data"][CONFIGURATION]) | {"leaderElection": {"leaderElect": False}}
    prepare(KUEUE, folder / "kueue", made, plane.server, certificates.load(plane.folder / "pki" / "ca"), given)
    return start(folder / "kueue")


def _bind(cluster: Cluster, pod: dict[str, Any], node: str) -> None:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    cluster.post(f"/api/v1/namespaces/{namespace}/pods/{name}/binding", binding)


def _mount(cluster: Cluster, folder: Path) -> None:
    """What Kueue has written into its Secret, as files; a kubelet does it within a minute."""
    content = (cluster.get(SECRET) or {}).get("data") or {}
    for name, value in content.items():
        file, now = folder / name, base64.b64decode(value)
        if not file.exists() or file.read_bytes() != now:
            certificates.private(file, now)


def _is_ready(address: str) -> bool:
    with (
        contextlib.suppress(urllib.error.URLError, OSError),
        urllib.request.urlopen(f"http://{address}:8081/readyz", timeout=2.0) as answer,
    ):
        return bool(answer.status == 200)
    return False
