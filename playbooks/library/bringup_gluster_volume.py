#!/usr/bin/python3
"""Ansible module: one GlusterFS volume over the bricks of the storage servers, created, set and started."""

import subprocess
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_gluster_volume
short_description: A GlusterFS volume
description:
  - Brings the servers into one pool, creates the volume if there is none, sets options that differ and starts it. Run it
    on one server.
  - A volume that exists with other bricks or another replica count is left alone and fails the task, because to change
    either moves data.
options:
  name: {description: Name of the volume., type: str, required: true}
  servers: {description: Storage servers by name., type: list, elements: str, required: true}
  brick: {description: Folder of the brick on every server., type: path, required: true}
  replicas: {description: Copies of each file., type: int, required: true}
  options: {description: Volume options by name; all values are text., type: dict, default: {}}
  budget_s: {description: Seconds for the pool and the volume in all., type: int, default: 60}
"""
RETURN = r"""
actions:
  description: What was done (in check mode, what would be).
  type: list
  returned: always
"""

POLL_S = 0.2


class GlusterError(Exception):
    """The message names the volume or peer, what was expected, what was seen and what to do."""


@dataclass(frozen=True)
class Volume:
    """What `gluster volume info` says of a volume."""

    bricks: tuple[str, ...]
    replicas: int
    started: bool
    options: dict[str, str] = field(default_factory=dict)


class Gluster:
    """The gluster command line with one total time budget."""

    def __init__(self, budget_s: float) -> None:
        self.end = time.monotonic() + budget_s

    def ask(self, *words: str) -> ET.Element:
        """The answer to a command as XML. GlusterError with gluster's own words when it refuses."""
        command = f"gluster {' '.join(words)}"
        left_s = self.end - time.monotonic()
        if left_s <= 0:
            raise GlusterError(f"{command}: no time left in the budget; is glusterd of every server up and reachable?")
        try:
            done = subprocess.run(
                ["gluster", "--mode=script", "--xml", *words],
                capture_output=True,
                text=True,
                timeout=left_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise GlusterError(
                f"{command} did not end in {left_s:.0f} s; see /var/log/glusterfs/glusterd.log"
            ) from None
        try:
            answer = ET.fromstring(done.stdout)
        except ET.ParseError:
            said = (done.stderr or done.stdout).strip()
            raise GlusterError(f"{command}: expected XML, exit status {done.returncode}: {said}") from None
        if answer.findtext("opRet") != "0":
            raise GlusterError(f"{command}: {answer.findtext('opErrstr') or answer.findtext('output')}")
        return answer


def volumes(info: ET.Element) -> dict[str, Volume]:
    """Volumes by name, from the XML of `gluster volume info`."""
    found = {}
    for node in info.iter("volume"):
        bricks = tuple((brick.findtext("name") or "") for brick in node.iter("brick"))
        options = {
            (option.findtext("name") or ""): (option.findtext("value") or "")
            for option in node.findall("options/option")
        }
        found[node.findtext("name") or ""] = Volume(
            bricks, int(node.findtext("replicaCount") or 1), node.findtext("statusStr") == "Started", options
        )
    return found


def peers(status: ET.Element) -> dict[str, bool]:
    """Other servers of the pool by every name they have: whether they are connected, from `gluster peer status`."""
    found = {}
    for peer in status.iter("peer"):
        names = {peer.findtext("hostname") or "", *(name.text or "" for name in peer.iter("hostname"))}
        found.update(dict.fromkeys(names, peer.findtext("connected") == "1"))
    return found


def wanted_bricks(servers: list[str], brick: str) -> tuple[str, ...]:
    """One brick a server, in the order of the servers, so that copies of a file never share one."""
    return tuple(f"{server}:{brick}" for server in servers)


def differing(wanted: dict[str, str], seen: dict[str, str]) -> dict[str, str]:
    """The wanted options that the volume does not have."""
    return {name: value for name, value in wanted.items() if seen.get(name) != value}


def join_pool(gluster: Gluster, others: list[str], *, check: bool) -> list[str]:
    """Probe the servers that are not in the pool and wait until all are connected."""
    seen = peers(gluster.ask("peer", "status"))
    new = [name for name in others if name not in seen]
    if check:
        return [f"probe {name}" for name in new]
    for name in new:
        gluster.ask("peer", "probe", name)
    while away := [name for name in others if not peers(gluster.ask("peer", "status")).get(name)]:
        if time.monotonic() + POLL_S > gluster.end:
            raise GlusterError(
                f"not connected to the pool: {', '.join(away)}; look at glusterd there and at port 24007"
            )
        time.sleep(POLL_S)
    return [f"probe {name}" for name in new]


def apply(gluster: Gluster, parameters: dict[str, Any], *, check: bool) -> list[str]:
    """Bring pool and volume to what is wanted; returns what was done, or in check mode what would be."""
    name, servers, replicas = parameters["name"], parameters["servers"], parameters["replicas"]
    bricks = wanted_bricks(servers, parameters["brick"])
    options = {key: str(value) for key, value in parameters["options"].items()}
    done = join_pool(gluster, servers[1:], check=check)
    volume = volumes(gluster.ask("volume", "info")).get(name)
    if volume is None:
        done.append(f"create {name}")
        if not check:
            copies = ["replica", str(replicas)] if replicas > 1 else []
            gluster.ask("volume", "create", name, *copies, *bricks)
        volume = Volume(bricks, replicas, started=False)
    if (volume.bricks, volume.replicas) != (bricks, replicas):
        raise GlusterError(
            f"volume {name} has {volume.replicas} copies over {', '.join(volume.bricks)}, the site wants {replicas} over "
            f"{', '.join(bricks)}; to change that moves data: do it by hand (gluster volume add-brick, replace-brick)"
        )
    changed = differing(options, volume.options)
    if changed:
        done.append(f"set {', '.join(sorted(changed))}")
        if not check:
            gluster.ask("volume", "set", name, *(word for pair in sorted(changed.items()) for word in pair))
    if not volume.started:
        done.append(f"start {name}")
        if not check:
            gluster.ask("volume", "start", name)
    if done and not check:
        seen = volumes(gluster.ask("volume", "info")).get(name)
        if seen is None or not seen.started or differing(options, seen.options):
            raise GlusterError(f"volume {name} does not keep what was set: {seen}; see /var/log/glusterfs/glusterd.log")
    return done


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "servers": {"type": "list", "elements": "str", "required": True},
            "brick": {"type": "path", "required": True},
            "replicas": {"type": "int", "required": True},
            "options": {"type": "dict", "default": {}},
            "budget_s": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    try:
        actions = apply(Gluster(module.params["budget_s"]), module.params, check=module.check_mode)
    except FileNotFoundError:
        if not module.check_mode:
            module.fail_json(msg="gluster is not installed; is the package glusterfs-server?")
        actions = [f"create {module.params['name']}"]
    except (GlusterError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(actions), actions=actions)


if __name__ == "__main__":
    main()
