#!/usr/bin/python3
"""Ansible module: the few facts on which the roles depend, an order of magnitude faster than `setup`."""

import os
import re
import subprocess
from collections.abc import Callable

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_probe
short_description: Container kind, cgroup version and controllers, memory, NUMA nodes, swap, name servers, membership of a cluster
options: {}
"""
RETURN = r"""
ansible_facts:
  description: >-
    C(bringup_probe) with C(container) (what C(systemd-detect-virt --container) says, empty on a machine of its own) and
    C(cgroup) (C(v1), which includes hybrid, or C(v2)), C(confining) (controllers that a daemon
    may make groups in), C(memory_mib), C(numa_nodes) (how many the kernel has), C(swap) (what it swaps to) and C(resolv_conf)
    (the file that names the servers which are asked in the end: systemd-resolved's, where /etc/resolv.conf names its stub on
    127.0.0.53) and C(kubernetes_member) (whether a run has given it certificates of a cluster's authorities).
  type: dict
  returned: always
"""

BUDGET_S = 20
RESOLVED, RESOLV_CONF = "/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"
"""systemd-resolved.service(8), /etc/resolv.conf."""
NUMA = "/sys/devices/system/node"
MEMBER = "/etc/kubernetes/pki/ca.crt"
"""Of the role kubernetes."""
CONTROLLERS = ("cpuset", "devices", "freezer", "memory")


def cgroup_version(mountinfo: str) -> str:
    """'v2' when the unified hierarchy is mounted on /sys/fs/cgroup, else 'v1' (which includes hybrid)."""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        if left.split()[4] == "/sys/fs/cgroup" and right.split()[0] == "cgroup2":
            return "v2"
    return "v1"


def container_kind(detect_virt: str) -> str:
    """'' for `none`."""
    kind = detect_virt.strip()
    return "" if kind == "none" else kind


def memory_mib(meminfo: str) -> int:
    """Installed memory as the kernel shows it, MiB."""
    found = re.search(r"^MemTotal:\s+(\d+) kB$", meminfo, re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


def numa_nodes(entries: list[str]) -> int:
    """NUMA nodes among the entries of /sys/devices/system/node, with those that have neither CPUs nor memory; 1 without any."""
    return max(1, sum(re.fullmatch(r"node\d+", entry) is not None for entry in entries))


def swap_of(swaps: str) -> list[str]:
    """Devices and files of /proc/swaps, which has one line of heading."""
    return [line.split()[0] for line in swaps.splitlines()[1:] if line.strip()]


def confining(version: str, container: str, writable: Callable[[str], bool]) -> list[str]:
    """The cgroup controllers that a daemon may make groups in. A container with cgroup v2 may not attach device filters."""
    if version == "v2":
        return [] if container else list(CONTROLLERS)
    return [name for name in CONTROLLERS if writable(f"/sys/fs/cgroup/{name}")]


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    argv = ["systemd-detect-virt", "--container"]
    try:
        with open("/proc/self/mountinfo", encoding="utf-8") as stream:
            cgroup = cgroup_version(stream.read())
        with open("/proc/meminfo", encoding="utf-8") as stream:
            memory = memory_mib(stream.read())
        swaps = ""
        if os.path.exists("/proc/swaps"):  # not in a kernel without swap
            with open("/proc/swaps", encoding="utf-8") as stream:
                swaps = stream.read()
        # Exit status 1 means `none`.
        virt = subprocess.run(argv, capture_output=True, text=True, timeout=BUDGET_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        module.fail_json(msg=f"cannot probe this node: {error}")
    probe = {
        "container": container_kind(virt),
        "cgroup": cgroup,
        "memory_mib": memory,
        "numa_nodes": numa_nodes(os.listdir(NUMA) if os.path.isdir(NUMA) else []),
        "swap": swap_of(swaps),
        "resolv_conf": RESOLVED if os.path.exists(RESOLVED) else RESOLV_CONF,
        "kubernetes_member": os.path.exists(MEMBER),
        "confining": confining(cgroup, container_kind(virt), lambda path: os.access(path, os.W_OK)),
    }
    module.exit_json(changed=False, ansible_facts={"bringup_probe": probe})


if __name__ == "__main__":
    main()
