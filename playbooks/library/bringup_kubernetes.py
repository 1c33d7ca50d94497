#!/usr/bin/python3
"""Ansible module: asks and tells a Kubernetes API server through kubectl: ready, objects as given, nodes Ready and labelled, and
how the GPUs of a node are shared.
"""

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_kubernetes
short_description: Waits for an API server and for nodes, applies objects, changes how the GPUs of a node are shared
description:
  - First waits until the API server says that it is ready, then applies the objects that differ, then waits for the nodes and gives
    them their labels. All of it shares one time budget.
  - C(vacate) and C(share) are the two ends of a change of how a node's GPUs are shared. In between nothing uses them. C(vacate)
    does nothing where the node's label says that they are as wanted, and C(share) waits for nothing where nothing was changed.
options:
  kubectl: {description: The program., type: path, required: true}
  kubeconfig: {description: How to reach the API server., type: path, required: true}
  objects: {description: Manifests to apply on the server's side., type: list, elements: dict, default: []}
  nodes: {description: Names of nodes that must be Ready., type: list, elements: str, default: []}
  labels: {description: Labels that each of these nodes gets., type: dict, default: {}}
  vacate:
    description: Cordons a node, sees that no pod on it has a GPU, and ends its device plugin. C(evict) drains the node for that.
    type: dict
  share:
    description: Labels the node, waits until it offers C(count) of C(resource), and uncordons it unless somebody else cordoned it.
    type: dict
  budget_s: {description: Seconds to wait in all., type: int, default: 120}
"""
RETURN = r"""
actions: {description: What was done (in check mode, what would be)., type: list, returned: success}
in_use: {description: Whether pods hold GPUs of the node that is to be vacated. It is as before., type: bool, returned: failure}
"""

COMMAND_S = 60
POLL_S = 0.5
MANAGER = "bringup-roles"
SHARING, CHANGING = "bringup.local/gpu-sharing", "changing"
"""Label that the device plugins of the platform layer select nodes by (capacity/services/platform/sharing.py): none, or the way of
sharing. No device plugin runs on a node with the second."""
CLOSED = "bringup.local/closed-for-gpu-sharing"
"""Annotation of a node that this module has cordoned."""
VENDOR = "nvidia.com/"
PLUGIN_SPACE, PLUGIN_LABEL, PLUGIN = "kube-system", "name", "nvidia-device-plugin"
OVER = ("Succeeded", "Failed")
SHOWN = 5
DIFFERS = 1
"""kubectl diff: 'Exit status: 0 No differences were found. 1 Differences were found. >1 kubectl or diff failed with an error.'"""


class KubernetesError(Exception):
    """The message names what did not come about and where to look."""


class InUseError(KubernetesError):
    """Pods hold GPUs of a node, which is as it was."""


class Kubectl:
    """One API server."""

    def __init__(self, program: str, kubeconfig: str) -> None:
        self.start = [program, f"--kubeconfig={kubeconfig}", f"--request-timeout={COMMAND_S // 2}s"]

    def run(
        self, *words: str, given: str = "", good: tuple[int, ...] = (0,), within_s: float = COMMAND_S
    ) -> "subprocess.CompletedProcess[str]":
        try:
            done = subprocess.run(
                [*self.start, *words], input=given, capture_output=True, text=True, timeout=within_s, check=False
            )
        except FileNotFoundError:
            raise KubernetesError(f"{self.start[0]} is not there: the role kubernetes installs it") from None
        except subprocess.TimeoutExpired:
            raise KubernetesError(f"kubectl {words[0]}: no answer within {within_s:.0f} s") from None
        if done.returncode not in good:
            raise KubernetesError(f"kubectl {words[0]}: {(done.stderr or done.stdout).strip()[-500:]}")
        return done

    def wait_ready(self, end: float) -> None:
        said = ""
        while True:
            try:
                self.run("get", "--raw", "/readyz")
                return
            except KubernetesError as error:
                said = str(error)
            if time.monotonic() > end:
                raise KubernetesError(
                    f"the API server is not ready in time: {said}. See `journalctl -u kube-apiserver -u etcd`"
                )
            time.sleep(POLL_S)

    def nodes(self) -> dict[str, dict[str, Any]]:
        listed = json.loads(self.run("get", "nodes", "-o", "json").stdout)
        return {one["metadata"]["name"]: one for one in listed["items"]}

    def node(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("get", "node", name, "-o", "json").stdout)
        return found

    def pods(self, node: str) -> list[dict[str, Any]]:
        """Pods on a node that are not over."""
        told = self.run("get", "pods", "-A", f"--field-selector=spec.nodeName={node}", "-o", "json")
        return [one for one in json.loads(told.stdout)["items"] if one.get("status", {}).get("phase") not in OVER]


def not_ready(wanted: list[str], seen: dict[str, dict[str, Any]]) -> list[str]:
    """Those of `wanted` that are not Ready, each with what is known of it."""
    found = []
    for name in wanted:
        if name not in seen:
            found.append(f"{name} (not registered)")
            continue
        conditions = seen[name].get("status", {}).get("conditions", [])
        ready = next((one for one in conditions if one["type"] == "Ready"), {"status": "Unknown"})
        if ready["status"] != "True":
            found.append(
                f"{name} ({ready.get('reason') or 'no condition'}: {ready.get('message') or 'it says nothing'})"
            )
    return found


def missing_labels(wanted: dict[str, str], node: dict[str, Any]) -> dict[str, str]:
    have = node["metadata"].get("labels", {})
    return {key: value for key, value in wanted.items() if have.get(key) != value}


def way(node: dict[str, Any]) -> str:
    """How the GPUs of a node are shared; '' for whole ones."""
    return str(node["metadata"].get("labels", {}).get(SHARING, ""))


def with_gpus(pods: list[dict[str, Any]]) -> list[str]:
    """Those that were given GPUs or parts of them."""
    return [
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in pods
        if any(
            resource.startswith(VENDOR)
            for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
            for resource in container.get("resources", {}).get("limits", {})
        )
    ]


def vacate(server: Kubectl, wanted: dict[str, Any], end: float, *, check: bool) -> list[str]:
    """No pod with a GPU and no device plugin on the node; what was done, nothing where its GPUs are as wanted."""
    name = wanted["node"]
    node = server.node(name)
    if way(node) == wanted["profile"]:
        return []
    plugin = wanted["plugin"]
    if server.run("get", "daemonset", plugin, "-n", PLUGIN_SPACE, good=(0, 1)).returncode:
        raise KubernetesError(f"{PLUGIN_SPACE} has no DaemonSet {plugin}: `pulumi up` declares it, run it first")
    done = [f"share GPUs of {name} as {wanted['profile'] or 'whole'}"]
    if check:
        return done
    ours = not node["spec"].get("unschedulable") or CLOSED in node["metadata"].get("annotations", {})
    if ours:
        server.run("annotate", "--overwrite", "node", name, f"{CLOSED}=true")
        server.run("cordon", name)
    step = "Wait until they are over, or evict them: -e drain=true"
    if with_gpus(server.pods(name)) and wanted["evict"]:
        left_s = max(1, int(end - time.monotonic()))
        words = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", f"--timeout={left_s}s")
        try:
            server.run("drain", name, *words, within_s=left_s + COMMAND_S)
        except KubernetesError as error:  # what counts is whether pods still have GPUs
            step = f"{error}. Wait until they are over, or end them"
    if holders := with_gpus(server.pods(name)):
        if ours:
            reopen(server, name)
        more = f" and {len(holders) - SHOWN} more" if len(holders) > SHOWN else ""
        raise InUseError(f"{name}: pods have GPUs: {', '.join(holders[:SHOWN])}{more}. {step}")
    server.run("label", "--overwrite", "node", name, f"{SHARING}={CHANGING}")
    while left := [one for one in server.pods(name) if is_plugin(one)]:
        if time.monotonic() > end:
            raise KubernetesError(f"{name}: {left[0]['metadata']['name']} does not end; the node stays cordoned")
        time.sleep(POLL_S)
    return done


def is_plugin(pod: dict[str, Any]) -> bool:
    metadata = pod["metadata"]
    label = str(metadata.get("labels", {}).get(PLUGIN_LABEL, ""))
    return metadata["namespace"] == PLUGIN_SPACE and label.startswith(PLUGIN)


def share(
    server: Kubectl, wanted: dict[str, Any], end: float, *, check: bool, warn: Callable[[str], None]
) -> list[str]:
    """The label of the way of sharing, and the node open for pods once it offers what is wanted; what was done. A node that no run
    has changed or closed is only warned of where it offers something else.
    """
    name, profile, planned = wanted["node"], wanted["profile"], {wanted["resource"]: wanted["count"]}
    node = server.node(name)
    if way(node) == profile and CLOSED not in node["metadata"].get("annotations", {}):
        if on_offer(node) != planned:
            warn(f"{differs(node, wanted)}; nothing was changed here. See kubectl -n {PLUGIN_SPACE} get pods -o wide")
        return []
    done = []
    if way(node) != profile:
        if check:
            return []  # foretold by vacate
        server.run("label", "--overwrite", "node", name, f"{SHARING}={profile}" if profile else f"{SHARING}-")
        done.append(f"label {name}")
        node = server.node(name)
    while on_offer(node) != planned:
        if time.monotonic() > end:
            raise KubernetesError(
                f"{differs(node, wanted)}; it stays as it is, cordoned where this run has cordoned it. "
                f"See kubectl -n {PLUGIN_SPACE} get pods -o wide"
            )
        time.sleep(POLL_S)
        node = server.node(name)
    if CLOSED in node["metadata"].get("annotations", {}):
        done.append(f"uncordon {name}")
        if not check:
            reopen(server, name)
    return done


def on_offer(node: dict[str, Any]) -> dict[str, int]:
    """GPUs and parts of them that a node has for pods, by resource."""
    found = {key: str(count) for key, count in node.get("status", {}).get("allocatable", {}).items()}
    counts = {key: int(text) if text.isdigit() else -1 for key, text in found.items() if key.startswith(VENDOR)}
    return {key: count for key, count in counts.items() if count}


def differs(node: dict[str, Any], wanted: dict[str, Any]) -> str:
    """What a node offers, beside what is planned."""
    seen = ", ".join(f"{count} {resource}" for resource, count in on_offer(node).items()) or "no GPU"
    return f"{wanted['node']} offers {seen}, planned {wanted['count']} {wanted['resource']}"


def reopen(server: Kubectl, name: str) -> None:
    """Pods may come again."""
    server.run("uncordon", name)
    server.run("annotate", "node", name, f"{CLOSED}-")


def settle(parameters: dict[str, Any], *, check: bool, warn: Callable[[str], None]) -> list[str]:
    """Make it so; what was done. warn: told what is off and no failure."""
    end = time.monotonic() + parameters["budget_s"]
    server = Kubectl(parameters["kubectl"], parameters["kubeconfig"])
    server.wait_ready(end)
    done: list[str] = []
    for manifest in parameters["objects"]:
        text, side = (
            json.dumps(manifest),
            ("--server-side", f"--field-manager={MANAGER}", "--force-conflicts", "-f", "-"),
        )
        if server.run("diff", *side, given=text, good=(0, DIFFERS)).returncode == DIFFERS:
            done.append(f"apply {manifest['kind']}/{manifest['metadata']['name']}")
            if not check:
                server.run("apply", *side, given=text)
    wanted: list[str] = parameters["nodes"]
    seen = server.nodes() if wanted else {}
    while absent := not_ready(wanted, seen):
        if time.monotonic() > end:
            unknown = sorted(seen.keys() - set(wanted))
            others = f" Registered and not in the plan: {', '.join(unknown)}." if unknown else ""
            raise KubernetesError(
                f"not Ready after {parameters['budget_s']} s: {'; '.join(absent)}.{others} See `journalctl -u kubelet` there"
            )
        time.sleep(POLL_S)
        seen = server.nodes()
    for name in wanted:
        if lacking := missing_labels(parameters["labels"], seen[name]):
            done.append(f"label {name}")
            if not check:
                server.run("label", "--overwrite", "node", name, *(f"{key}={value}" for key, value in lacking.items()))
    if parameters.get("vacate"):
        done += vacate(server, parameters["vacate"], end, check=check)
    if parameters.get("share"):
        done += share(server, parameters["share"], end, check=check, warn=warn)
    return done


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubectl": {"type": "path", "required": True},
            "kubeconfig": {"type": "path", "required": True},
            "objects": {"type": "list", "elements": "dict", "default": []},
            "nodes": {"type": "list", "elements": "str", "default": []},
            "labels": {"type": "dict", "default": {}},
            "vacate": {"type": "dict"},
            "share": {"type": "dict"},
            "budget_s": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    try:
        done = settle(module.params, check=module.check_mode, warn=module.warn)
    except (KubernetesError, OSError, ValueError) as error:
        module.fail_json(msg=str(error), in_use=isinstance(error, InUseError))
    module.exit_json(changed=bool(done), actions=done)


if __name__ == "__main__":
    main()
