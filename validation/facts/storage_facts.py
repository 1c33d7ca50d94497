"""What a node says of the shared file system: runs there from standard input, prints one JSON object.

Standard library only, no changes to the node. A call on a dead mount can wait in the kernel for ever, deaf to signals, so
each one runs in a child that is given its seconds, is then killed, and is never waited for.

Request (first argument): {"mount_point", "needed_by": [service…], "budget_s", "volume"}; volume is the GlusterFS volume on
a server of it, else "".

Answer:
{"mount": {"source", "type", "options": […]} or {},             as the kernel lists it, without touching it
 "usage": {"total_b", "free_b", "inodes", "inodes_free"} or {"error": "no answer within 5 s"},
 "unit": {"active", "sub", "enabled", "what", "type", "options", "after": […], "fragment", "loaded"},
 "retry": {"active", "enabled"},                                the timer that mounts again
 "needed_by": {"slurmd.service": {"active", "requires", "after"}},
 "booted_at": s, "mounted_at": s, "installed_at": s,            Unix time: start of this system, of the mount, of its unit
 "server": {…}, "routes": [{"destination", "interfaces"}]}      on a GlusterFS server: gluster_facts(), routes()
"""

import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

UNIT = (
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "What",
    "Type",
    "Options",
    "After",
    "Requires",
    "FragmentPath",
    "ActiveEnterTimestampMonotonic",
)
STATVFS = (
    "import json,os,sys\ns = os.statvfs(sys.argv[1])\n"
    "print(json.dumps({'total_b': s.f_blocks * s.f_frsize, 'free_b': s.f_bavail * s.f_frsize, 'inodes': s.f_files,"
    " 'inodes_free': s.f_favail}))"
)
DEFAULT_BUDGET_S = 5.0


class NoAnswerError(Exception):
    """A command failed or did not end in time; the text says which."""


def run(*argv: str, budget_s: float) -> str:
    """Output of a command. NoAnswerError after budget_s, without waiting for a child that cannot die."""
    try:
        child = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    except FileNotFoundError:
        raise NoAnswerError(f"{argv[0]} is not installed") from None
    try:
        out, err = child.communicate(timeout=budget_s)
    except subprocess.TimeoutExpired:
        child.kill()
        raise NoAnswerError(f"no answer within {budget_s:g} s") from None
    if child.returncode:
        said = (err.strip() or out.strip()).splitlines() or ["no message"]
        raise NoAnswerError(said[-1])
    return out


def mounted(mount_point: str, mountinfo: str) -> dict[str, Any]:
    """Source, type and options of the file system at mount_point; {} when there is none. The last mount is on top."""
    found: dict[str, Any] = {}
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        if left.split()[4] == mount_point:
            kind, source, options = right.split()[:3]
            found = {
                "source": source,
                "type": kind,
                "options": sorted({*left.split()[5].split(","), *options.split(",")}),
            }
    return found


def usage(mount_point: str, budget_s: float) -> dict[str, Any]:
    """Sizes in bytes and inodes, or why there are none."""
    try:
        found: dict[str, Any] = json.loads(run(sys.executable, "-c", STATVFS, mount_point, budget_s=budget_s))
    except NoAnswerError as error:
        return {"error": str(error)}
    return found


def show(name: str, budget_s: float) -> dict[str, str]:
    text = run("systemctl", "show", f"--property={','.join(UNIT)}", "--", name, budget_s=budget_s)
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def started_at(pid: int) -> float:
    """Unix time at which a process started (proc(5), stat field 22, in clock ticks since the machine's start)."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


def mount_unit(where: str) -> str:
    """Name of the unit that mounts something there, as `systemd-escape --path --suffix=mount` gives it for plain names."""
    return where.strip("/").replace("-", "\\x2d").replace("/", "-") + ".mount"


def client(request: dict[str, Any]) -> dict[str, Any]:
    """Mount, unit and what depends on it."""
    where, budget_s = request["mount_point"], float(request.get("budget_s", DEFAULT_BUDGET_S))
    name = mount_unit(where)
    unit, retry = show(name, budget_s), show("bringup-shared.timer", budget_s)
    services = {service: show(service, budget_s) for service in request.get("needed_by", [])}
    entered_us = int(unit.get("ActiveEnterTimestampMonotonic") or 0)
    mount = mounted(where, Path("/proc/self/mountinfo").read_text())
    fragment = Path(unit.get("FragmentPath") or "/nonexistent")
    return {
        "mount": mount,
        "usage": usage(where, budget_s) if mount else {"error": "not mounted"},
        "unit": {
            "loaded": unit["LoadState"],
            "active": unit["ActiveState"],
            "sub": unit["SubState"],
            "enabled": unit.get("UnitFileState", ""),
            "what": unit.get("What", ""),
            "type": unit.get("Type", ""),
            "options": unit.get("Options", ""),
            "after": unit.get("After", "").split(),
            "fragment": str(fragment),
        },
        "retry": {"active": retry["ActiveState"], "enabled": retry.get("UnitFileState", "")},
        "needed_by": {
            service: {
                "active": seen["ActiveState"],
                "requires": name in seen.get("Requires", "").split(),
                "after": name in seen.get("After", "").split(),
            }
            for service, seen in services.items()
        },
        "booted_at": started_at(1),
        "mounted_at": time.time() - time.monotonic() + entered_us / 1e6 if entered_us else 0.0,
        "installed_at": fragment.stat().st_mtime if fragment.exists() else 0.0,
    }


def text(node: ET.Element, name: str) -> str:
    return (node.findtext(name) or "").strip()


def number(node: ET.Element, name: str) -> int:
    value = text(node, name)
    return int(value) if value.isdigit() else 0


def ask(*words: str, budget_s: float) -> ET.Element:
    """Gluster's answer as XML. NoAnswerError in its own words when it refuses."""
    out = run("gluster", "--mode=script", "--xml", *words, budget_s=budget_s)
    try:
        answer = ET.fromstring(out)
    except ET.ParseError as error:
        raise NoAnswerError(f"gluster {' '.join(words)}: {error}: {out[:100]!r}") from None
    if text(answer, "opRet") != "0":
        raise NoAnswerError(f"gluster {' '.join(words)}: {text(answer, 'opErrstr') or text(answer, 'output')}")
    return answer


def volume_of(info: ET.Element, name: str) -> dict[str, Any]:
    """One volume of `gluster volume info`; {} when it is not there."""
    for node in info.iter("volume"):
        if text(node, "name") == name:
            return {
                "status": text(node, "statusStr"),
                "type": text(node, "typeStr"),
                "replicas": number(node, "replicaCount"),
                "options": {text(option, "name"): text(option, "value") for option in node.findall("options/option")},
            }
    return {}


def bricks_of(detail: ET.Element) -> list[dict[str, Any]]:
    """Bricks of `gluster volume status NAME detail`: online or not, sizes in bytes, file system."""
    return [
        {
            "name": f"{text(node, 'hostname')}:{text(node, 'path')}",
            "online": text(node, "status") == "1",
            "total_b": number(node, "sizeTotal"),
            "free_b": number(node, "sizeFree"),
            "inodes": number(node, "inodesTotal"),
            "inodes_free": number(node, "inodesFree"),
            "file_system": text(node, "fsName"),
        }
        for node in detail.iter("node")
    ]


def clients_of(status: ET.Element) -> list[str]:
    """Addresses of the connected clients, of `gluster volume status NAME clients`."""
    return sorted({text(node, "hostname").rpartition(":")[0] for node in status.iter("client")})


def gluster_facts(volume: str, budget_s: float) -> dict[str, Any]:
    """{"version", "units": {unit: state}, "listening": ["172.16.0.12:24007"…], "volume", "bricks", "clients"}, or "error"."""
    found: dict[str, Any] = {
        "units": {"glusterd.service": show("glusterd.service", budget_s)["ActiveState"]},
        "listening": listening(budget_s),
        "version": "",
        "volume": {},
        "bricks": [],
        "clients": [],
    }
    try:
        found["version"] = run("gluster", "--version", budget_s=budget_s).split()[1]
        found["volume"] = volume_of(ask("volume", "info", budget_s=budget_s), volume)
        found["bricks"] = bricks_of(ask("volume", "status", volume, "detail", budget_s=budget_s))
        found["clients"] = clients_of(ask("volume", "status", volume, "clients", budget_s=budget_s))
    except NoAnswerError as error:
        found["error"] = str(error)
    return found


def routes(budget_s: float) -> list[dict[str, Any]]:
    """IPv4 routes: destination, and the interfaces of all its equal-cost next hops. Of several routes to a destination,
    the one with the lowest metric."""
    found: dict[str, tuple[int, list[str]]] = {}
    for route in json.loads(run("ip", "-j", "-4", "route", "show", budget_s=budget_s)):
        metric = route.get("metric", 0)
        if route["dst"] not in found or metric < found[route["dst"]][0]:
            found[route["dst"]] = (metric, [hop.get("dev", "") for hop in route.get("nexthops", [route])])
    return [{"destination": destination, "interfaces": ports} for destination, (_, ports) in found.items()]


def listening(budget_s: float) -> list[str]:
    """Addresses and ports at which gluster's daemons take connections."""
    lines = run("ss", "-H", "-ltnp", budget_s=budget_s).splitlines()
    return sorted(line.split()[3] for line in lines if "gluster" in line)


def main() -> None:
    request = json.loads(sys.argv[1])
    budget_s = float(request.get("budget_s", DEFAULT_BUDGET_S))
    try:
        facts = client(request)
        if request.get("volume"):
            facts |= {"server": gluster_facts(request["volume"], budget_s), "routes": routes(budget_s)}
    except (NoAnswerError, OSError, LookupError, ValueError) as error:
        facts = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)  # a child that waits in the kernel for a dead mount must not hold this process either
