#!/usr/bin/python3
"""Ansible module: asks and tells a Kubernetes API server through kubectl: ready, objects as given, nodes Ready and labelled."""

import json
import subprocess
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_kubernetes
short_description: Waits for an API server and for nodes, and applies objects
description:
  - First waits until the API server says that it is ready, then applies the objects that differ, then waits for the nodes and gives
    them their labels. All of it shares one time budget.
options:
  kubectl: {description: The program., type: path, required: true}
  kubeconfig: {description: How to reach the API server., type: path, required: true}
  objects: {description: Manifests to apply on the server's side., type: list, elements: dict, default: []}
  nodes: {description: Names of nodes that must be Ready., type: list, elements: str, default: []}
  labels: {description: Labels that each of these nodes gets., type: dict, default: {}}
  budget_s: {description: Seconds to wait in all., type: int, default: 120}
"""
RETURN = r"""
actions: {description: What was done (in check mode, what would be)., type: list, returned: always}
"""

COMMAND_S = 60
POLL_S = 0.5
MANAGER = "bringup-roles"
DIFFERS = 1
"""kubectl diff: 'Exit status: 0 No differences were found. 1 Differences were found. >1 kubectl or diff failed with an error.'"""


class KubernetesError(Exception):
    """The message names what did not come about and where to look."""


class Kubectl:
    """One API server."""

    def __init__(self, program: str, kubeconfig: str) -> None:
        self.start = [program, f"--kubeconfig={kubeconfig}", f"--request-timeout={COMMAND_S // 2}s"]

    def run(self, *words: str, given: str = "", good: tuple[int, ...] = (0,)) -> "subprocess.CompletedProcess[str]":
        try:
            done = subprocess.run(
                [*self.start, *words], input=given, capture_output=True, text=True, timeout=COMMAND_S, check=False
            )
        except FileNotFoundError:
            raise KubernetesError(f"{self.start[0]} is not there: the role kubernetes installs it") from None
        except subprocess.TimeoutExpired:
            raise KubernetesError(f"kubectl {words[0]}: no answer within {COMMAND_S} s") from None
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


def settle(parameters: dict[str, Any], *, check: bool) -> list[str]:
    """Make it so; what was done."""
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
    return done


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubectl": {"type": "path", "required": True},
            "kubeconfig": {"type": "path", "required": True},
            "objects": {"type": "list", "elements": "dict", "default": []},
            "nodes": {"type": "list", "elements": "str", "default": []},
            "labels": {"type": "dict", "default": {}},
            "budget_s": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    try:
        done = settle(module.params, check=module.check_mode)
    except (KubernetesError, OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(done), actions=done)


if __name__ == "__main__":
    main()
