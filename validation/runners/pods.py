"""A pod that runs its node's own programs, unprivileged. Pure."""

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
