#!/usr/bin/python3
"""Ansible module: waits until Slurm has its nodes, and names those that did not register."""

import subprocess
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_slurm_nodes
short_description: Waits for compute nodes to register with slurmctld
options:
  nodes: {description: Names of the nodes to wait for., type: list, elements: str, required: true}
  budget_s: {description: Seconds to wait in all., type: int, default: 60}
"""
RETURN = r"""
states:
  description: State of every node as sinfo prints it.
  type: dict
  returned: always
"""

COMMAND_BUDGET_S = 10
POLL_S = 0.5
# sinfo(1), "NODE STATE CODES", compact form; a trailing * stands for a node that does not answer. A drained node has
# registered.
ABSENT = {"down", "unk", "fail", "failg", "futr", "inval", "boot", "pow_dn", "pow_up"}


def states(sinfo: str) -> dict[str, str]:
    """Node -> state, from lines 'NODE STATE'."""
    return dict(line.split() for line in sinfo.splitlines() if line.strip())


def absent(nodes: list[str], seen: dict[str, str]) -> list[str]:
    """Those of `nodes` that are not registered, with the reason."""
    reasons = {node: seen.get(node, "unknown to slurmctld") for node in nodes}
    return [
        f"{node} ({state})"
        for node, state in reasons.items()
        if node not in seen or state.endswith("*") or state.rstrip("*~#!%$@^-+") in ABSENT
    ]


def query() -> dict[str, str]:
    argv = ["sinfo", "--noheader", "--Node", "--format", "%N %t"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=COMMAND_BUDGET_S, check=False)
    # While slurmctld starts it does not answer yet: no node is known.
    return states(done.stdout) if done.returncode == 0 else {}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "str", "required": True},
            "budget_s": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    nodes, budget_s = module.params["nodes"], module.params["budget_s"]
    end = time.monotonic() + budget_s
    try:
        while (missing := absent(nodes, seen := query())) and time.monotonic() < end:
            time.sleep(POLL_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        module.fail_json(msg=f"cannot ask Slurm for its nodes: {error}")
    if missing:
        module.fail_json(
            msg=f"not registered with slurmctld after {budget_s} s: {', '.join(missing)}. "
            "See `journalctl -u slurmd` there and `scontrol show node` here.",
            states=seen,
        )
    module.exit_json(changed=False, states=seen)


if __name__ == "__main__":
    main()
