"""Pods that run programs of their node, unprivileged: with the node's folders in their places, or apart from them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from capacity.services.platform.sharing import GPU_RESOURCE
from capacity.services.platform.topology import HOSTNAME
from validation.runners.jobset import FOLDERS, LOADER, PATH, plain


def node_pod(
    node: str,
    name: str,
    command: Sequence[str],
    image: str,
    *,
    limit_s: float,
    gpus: int = 0,
    resource: str = GPU_RESOURCE,
    labels: Mapping[str, str] | None = None,
    folders: Sequence[str] = (),
) -> dict[str, Any]:
    """The pod. It sees programs and libraries of its node read-only, asks for `gpus` of a resource, and ends after limit_s seconds.

    node: '' for any. folders: of the node, which it may write to.
    """
    given = {**FOLDERS, LOADER[0]: LOADER[1]} | {path: path for path in folders}
    container: dict[str, Any] = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": [plain(word) for word in command],
        "env": [{"name": "PATH", "value": PATH}],
        "volumeMounts": [
            {"name": f"v{at}", "mountPath": path, "readOnly": path not in folders} for at, path in enumerate(given)
        ],
        "securityContext": {"runAsUser": 0, "runAsGroup": 0, "privileged": False},
    }
    if gpus:
        container["resources"] = {"limits": {resource: str(gpus)}}
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {HOSTNAME: node} if node else {},
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "activeDeadlineSeconds": int(limit_s),
        "containers": [container],
        "volumes": [{"name": f"v{at}", "hostPath": {"path": path}} for at, path in enumerate(given.values())],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec}


APART = "/host"
"""Where a pod that stands apart has its node's /usr."""
LOADERS = {
    "amd64": ("x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
    "arm64": ("aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
}
"""By architecture: Debian's and Ubuntu's folder of libraries below /usr/lib, and the loader of programs in it
(https://wiki.debian.org/Multiarch/Tuples)."""


def apart(pod: Mapping[str, Any], architecture: str, runtime: str = "") -> dict[str, Any]:
    """The same pod with a /usr of its own, in which is what its runtime puts there; its node's programs run from APART.

    runtime: name of a RuntimeClass, '' for the node's own. KeyError for an architecture that LOADERS lacks.
    """
    folder, loader = LOADERS[architecture]
    libraries, (given,) = f"{APART}/usr/lib/{folder}", pod["spec"]["containers"]
    program, *words = given["command"]
    container = {
        **given,
        "command": [f"{libraries}/{loader}", "--library-path", libraries, f"{APART}{program}", *words],
        "env": [*given["env"], {"name": "PYTHONHOME", "value": f"{APART}/usr"}],
        "volumeMounts": [{"name": "usr", "mountPath": f"{APART}/usr", "readOnly": True}],
    }
    volumes = [{"name": "usr", "hostPath": {"path": "/usr", "type": "Directory"}}]
    spec = {**pod["spec"], "containers": [container], "volumes": volumes}
    return {**pod, "spec": spec | ({"runtimeClassName": runtime} if runtime else {})}
