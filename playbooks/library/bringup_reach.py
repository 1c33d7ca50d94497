#!/usr/bin/python3
"""Ansible module: waits until the in-band fabric answers, and names the leaf ports that do not."""

import subprocess
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_reach
short_description: Waits for in-band gateways and hosts
description:
  - Pings all addresses in parallel until each has answered once or the time budget is spent.
  - Silent gateways are warnings as long as one answers, since links are redundant; no answer at all is a failure, and
    so is a silent host.
options:
  gateways:
    description: The node's links into the fabric.
    type: list
    elements: dict
    required: true
    suboptions:
      interface: {description: Port of this node., type: str, required: true}
      address: {description: Address of the leaf on this link., type: str, required: true}
      leaf: {description: Name of the leaf., type: str, required: true}
      port: {description: Port of the leaf., type: str, required: true}
  hosts:
    description: Hosts behind the fabric that must answer too.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the host., type: str, required: true}
      address: {description: In-band address of the host., type: str, required: true}
  budget_s:
    description: Seconds to wait in all.
    type: int
    default: 30
"""
RETURN = r"""
silent:
  description: Addresses that did not answer.
  type: list
  returned: always
"""

GRACE_S = 3.0


def ping(address: str, interface: str | None) -> subprocess.Popen[bytes]:
    argv = ["ping", "-n", "-q", "-c", "1", "-W", "1", *(["-I", interface] if interface else []), address]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait(gateways: dict[str, str], hosts: list[str], budget_s: float, grace_s: float) -> list[str]:
    """Addresses that stay silent. `gateways` maps address to interface.

    Waits for the whole budget, but only `grace_s` more for links whose loss the others already make up for.
    """
    silent: dict[str, str | None] = {**gateways, **dict.fromkeys(hosts)}
    end = time.monotonic() + budget_s
    while silent:
        running = {address: ping(address, interface) for address, interface in silent.items()}
        for address, process in running.items():
            if process.wait(timeout=10) == 0:
                del silent[address]
        if not silent.keys() & set(hosts) and len(silent) < len(gateways):
            end = min(end, time.monotonic() + grace_s)
            grace_s = budget_s  # the clock runs once
        if time.monotonic() >= end:
            break
        if silent:
            time.sleep(0.3)
    return list(silent)


def judge(
    gateways: list[dict[str, Any]], hosts: list[dict[str, Any]], silent: list[str], budget_s: int
) -> tuple[str, list[str]]:
    """(failure or '', warnings)."""
    dead = [
        f"{gateway['interface']} -> {gateway['leaf']} port {gateway['port']} ({gateway['address']})"
        for gateway in gateways
        if gateway["address"] in silent
    ]
    lost = [f"{host['name']} ({host['address']})" for host in hosts if host["address"] in silent]
    if dead and len(dead) == len(gateways):
        return (
            f"the in-band fabric does not answer after {budget_s} s: {', '.join(dead)}. "
            "Check that these leaves are configured (`pulumi preview --refresh`) and the cables are plugged as planned."
        ), []
    if lost:
        return (
            f"no answer over the in-band fabric after {budget_s} s from {', '.join(lost)}, although a leaf answers. "
            "Check the routing between the leaves (`vtysh -c 'show bgp summary'`)."
        ), []
    return "", [f"in-band link without answer: {link}" for link in dead]


def main() -> None:
    link = {"interface": {"type": "str", "required": True}, "address": {"type": "str", "required": True}}
    link |= {"leaf": {"type": "str", "required": True}, "port": {"type": "str", "required": True}}
    host = {"name": {"type": "str", "required": True}, "address": {"type": "str", "required": True}}
    module = AnsibleModule(
        argument_spec={
            "gateways": {"type": "list", "elements": "dict", "required": True, "options": link},
            "hosts": {"type": "list", "elements": "dict", "default": [], "options": host},
            "budget_s": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    gateways, hosts, budget_s = (module.params[key] for key in ("gateways", "hosts", "budget_s"))
    ports = {item["address"]: item["interface"] for item in gateways}
    try:
        silent = wait(ports, [item["address"] for item in hosts], budget_s, GRACE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        module.fail_json(msg=f"cannot ping: {error}")
    failure, warnings = judge(gateways, hosts, silent, budget_s)
    for text in warnings:
        module.warn(text)
    if failure:
        module.fail_json(msg=failure, silent=silent)
    module.exit_json(changed=False, silent=silent)


if __name__ == "__main__":
    main()
