"""What a node says of itself: runs there (as a file, or from standard input), prints one JSON object.

Standard library only, no changes to the node. The request, a JSON object as first argument, may ask for probes: DF
pings and TCP connects, each with its own time budget. A part that fails is reported under "errors", and the rest
still comes.
"""

import base64
import binascii
import grp
import gzip
import hashlib
import json
import os
import platform
import pwd
import re
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

COMMAND_BUDGET_S = 20
"""systemctl took over 8 s on a virtual machine without KVM. Three commands that hang use up `timeouts.ssh_s` (60 s)."""
NOT_INSTALLED, OUT_OF_TIME = 127, 124
"""Exit statuses of `run` for a command that is not there, and for one whose budget ran out."""
FILES = (
    "/etc/chrony/chrony.conf",
    "/etc/munge/munge.key",
    "/etc/passwd",
    "/etc/shadow",
    "/etc/slurm/slurm.conf",
    "/etc/slurm/slurmdbd.conf",
    "/etc/ssh/sshd_config",
    "/etc/ssh/sshd_config.d/00-bringup.conf",
    "/etc/sudoers",
    "/etc/sysctl.d/60-bringup.conf",
)
"""Files whose mode and owner keep a node safe, where it has them."""
SYSCTLS = (
    "net.ipv4.conf.all.ignore_routes_with_linkdown",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.conf.default.rp_filter",
    "net.ipv4.fib_multipath_hash_policy",
    "net.ipv4.ip_forward",
    "net.ipv6.conf.all.forwarding",
)
"""Kernel parameters that role `base` sets."""


TRACKING = "/var/log/chrony/tracking.log"
"""chrony.conf(5), `log tracking`: date, time (UTC), source, stratum, frequency, skew, offset (s), leap status, and six more."""
TRACKING_CELLS = 14
TRACKING_BYTES = 8 << 20
"""Of each log: a line has 130 bytes, and the shortest usual interval (minpoll 6, 64 s) makes 1,350 a day."""
TRACKING_LOGS = 8
BANNER_EVERY = 32
"""Lines of a log from one banner to the next while chronyd runs (chrony.conf(5), logbanner)."""
DAY_S, QUARTER_S = 86_400.0, 900.0


def run(*argv: str) -> tuple[int, str]:
    """(exit status, stdout) of a command; 127 where it is not installed, 124 when its budget ran out."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=COMMAND_BUDGET_S, check=False)
    except FileNotFoundError:
        return NOT_INSTALLED, ""
    except subprocess.TimeoutExpired:
        return OUT_OF_TIME, ""
    return done.returncode, done.stdout


def output(*argv: str, ok: tuple[int, ...] = (0,)) -> str:
    """stdout of a command; RuntimeError with the exit status where that is not one of `ok`: no line is no answer then."""
    status, out = run(*argv)
    if status not in ok:
        named = " ".join(word for word in argv if not re.match(r"-\w", word) and " " not in word)
        why = f": no end within {COMMAND_BUDGET_S:g} s" if status == OUT_OF_TIME else ""
        raise RuntimeError(f"{named}: exit status {status}{why}")
    return out


def read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def os_release() -> dict[str, str]:
    pairs = (line.split("=", 1) for line in read("/etc/os-release").splitlines() if "=" in line)
    return {key: value.strip('"') for key, value in pairs}


def image() -> str:
    """Role, version and SHA-256 of the image that was written over the network; '' for another installation."""
    return read("/etc/bringup-image")


def identity() -> dict[str, str]:
    environment = Path("/proc/1/environ").read_bytes().split(b"\0") if os.geteuid() == 0 else []
    container = next((e.split(b"=", 1)[1].decode() for e in environment if e.startswith(b"container_uuid=")), "")
    return {
        "uuid": container or read("/sys/class/dmi/id/product_uuid"),
        "serial": "" if container else read("/sys/class/dmi/id/product_serial"),
        "boot_id": read("/proc/sys/kernel/random/boot_id"),
        "hostname": socket.gethostname(),
    }


def started_at() -> float:
    """Unix time at which process 1 began, and with it the operating system; in a container its own (proc(5): starttime is field 22
    of stat, in ticks since the boot that btime names)."""
    booted = next(int(line.split()[1]) for line in read("/proc/stat").splitlines() if line.startswith("btime "))
    ticks = int(read("/proc/1/stat").rpartition(")")[2].split()[19])
    return booted + ticks / os.sysconf("SC_CLK_TCK")


def links() -> dict[str, dict[str, Any]]:
    return {
        link["ifname"]: {
            "mtu": link["mtu"],
            "mac": link.get("address", ""),
            "state": link.get("operstate", ""),
            "addresses": [
                f"{a['local']}/{a['prefixlen']}"
                for a in link.get("addr_info", [])
                if a["family"] == "inet" or a.get("scope") == "global"
            ],
        }
        for link in json.loads(output("ip", "-j", "address", "show"))
    }


def routes() -> Any:
    return json.loads(output("ip", "-j", "route", "show"))


def sshd() -> dict[str, str]:
    settings: dict[str, list[str]] = {}
    for line in output("/usr/sbin/sshd", "-T").splitlines():
        key, _, value = line.partition(" ")
        settings.setdefault(key, []).append(value)
    return {key: " ".join(values) for key, values in settings.items()}


def chrony() -> dict[str, Any]:
    """Offset in seconds and stratum of `chronyc tracking` (CSV form: name, address, stratum, time, offset, …)."""
    cells = output("chronyc", "-n", "-c", "tracking").strip().split(",")
    return {
        "reference": cells[1],
        "stratum": int(cells[2]),
        "offset_s": float(cells[4]),
        "rms_offset_s": float(cells[6]),
        "leap": cells[-1],
    }


def clock_day() -> dict[str, Any]:
    """Offsets of the last day in chrony's tracking log: their number, their quarter hours, the largest hundredth and one more.

    The log outlives restarts, and of rotated logs those are read that were written to within the day. A line that does not
    end, a banner, and a line of a clock without a source (leap status ?) are no samples; `updates` has what else is none.
    """
    now = time.time()
    offsets: list[float] = []
    quarters = set()
    for cells in (cells for lines in tracking_lines(now - DAY_S) for cells in updates(lines)):
        try:
            at = datetime.fromisoformat(f"{cells[0]}T{cells[1]}+00:00").timestamp()
            offset = abs(float(cells[6]))
        except ValueError:
            continue
        if now - DAY_S <= at <= now + 1 and offset < float("inf"):
            offsets.append(offset)
            quarters.add(int(at // QUARTER_S))
    largest = sorted(offsets, reverse=True)[: len(offsets) // 100 + 1]
    return {"samples": len(offsets), "quarters": len(quarters), "largest_s": largest}


def updates(lines: list[str]) -> Iterator[list[str]]:
    """The cells of each update of the clock in a log, but for the first one after chronyd has started.

    That one says how wrong the clock ran before: after a boot, by as much as a second, which is what its hardware clock tells. A
    start shows by a banner that is not due; where a log begins in the middle its first banner is taken as due.
    """
    since_banner = 0 if lines and lines[0].startswith("=") else -len(lines)
    started = False
    for line in lines:
        cells = line.split()
        if cells[:1] == ["Date"]:
            started = started or 0 <= since_banner != BANNER_EVERY
            since_banner = 0
        if len(cells) < TRACKING_CELLS or not re.fullmatch(r"\d{4}-\d\d-\d\d", cells[0]):
            continue
        since_banner += 1
        if cells[7] == "?":
            continue
        if not started:
            yield cells
        started = False


def tracking_lines(since: float) -> list[list[str]]:
    """Whole lines of each log that was written to since then, at most of its last TRACKING_BYTES. OSError without any log."""
    logs = {path: path.stat() for path in Path(TRACKING).parent.glob(f"{Path(TRACKING).name}*")}
    found = sorted((log for log in logs.items() if stat.S_ISREG(log[1].st_mode)), key=lambda log: -log[1].st_mtime)
    if not found:
        raise FileNotFoundError(f"no {TRACKING}: chrony does not log what it tracks")
    lines: list[list[str]] = []
    for path, status in found[:TRACKING_LOGS]:
        if status.st_mtime < since:
            continue
        if path.suffix == ".gz":
            with gzip.open(path) as packed:
                data = packed.read(TRACKING_BYTES)
            skipped = False
        else:
            with path.open("rb") as log:
                log.seek(max(0, status.st_size - TRACKING_BYTES))
                skipped = log.tell() > 0
                data = log.read(TRACKING_BYTES)
        text = data.decode("ascii", "replace").split("\n")
        lines.append(text[skipped:-1])
    return lines


def packages() -> dict[str, str]:
    out = output("dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n")
    rows = (line.split(" ") for line in out.splitlines())
    return {name: version for name, version, state in rows if state == "installed"}


def units() -> dict[str, Any]:
    """Failed units, and the state of every loaded service."""
    failed = [
        line.split()[0] for line in output("systemctl", "--failed", "--plain", "--no-legend").splitlines() if line
    ]
    out = output("systemctl", "list-units", "--type=service", "--all", "--plain", "--no-legend")
    services = {}
    for line in out.splitlines():
        cells = line.split()
        if len(cells) >= 4:
            services[cells[0].removesuffix(".service")] = f"{cells[2]}/{cells[3]}"
    return {"system": run("systemctl", "is-system-running")[1].strip(), "failed": failed, "services": services}


def listening() -> list[str]:
    """TCP and UDP sockets that take traffic from other machines, as 'tcp/22'."""
    found = set()
    for kind in ("tcp", "udp"):
        for line in output("ss", "-H", "-ln", f"--{kind}").splitlines():
            cells = line.split()
            local = cells[3] if len(cells) > 3 else ""
            host, _, port = local.rpartition(":")
            if not host.startswith(("127.", "[::1]")) and port.isdigit():
                found.add(f"{kind}/{port}")
    return sorted(found)


def listeners() -> dict[str, str]:
    """Programs that hold the sockets of `listening`, as 'tcp/22': 'sshd'; '' where the kernel does not tell this user."""
    found: dict[str, set[str]] = {}
    for kind in ("tcp", "udp"):
        for line in output("ss", "-H", "-lnp", f"--{kind}").splitlines():
            cells = line.split()
            host, _, port = (cells[3] if len(cells) > 3 else "").rpartition(":")
            if not host.startswith(("127.", "[::1]")) and port.isdigit():
                found.setdefault(f"{kind}/{port}", set()).update(re.findall(r'\(\("([^"]*)"', line))
    return {socket: " ".join(sorted(programs)) for socket, programs in found.items()}


def keys() -> dict[str, list[str]]:
    """Fingerprints of the keys that may log in, per 'account path'; a line that holds no key comes as 'unreadable line N'.

    The files are those that sshd's AuthorizedKeysFile names, and OpenSSH's defaults.
    """
    patterns = {".ssh/authorized_keys", ".ssh/authorized_keys2", *sshd().get("authorizedkeysfile", "").split()}
    found = {}
    for user in pwd.getpwall():
        for pattern in sorted(patterns - {"none"}):
            named = pattern.replace("%u", user.pw_name).replace("%h", user.pw_dir).replace("%U", str(user.pw_uid))
            path = Path(user.pw_dir, named.replace("%%", "%"))
            try:
                lines = path.read_text(errors="replace").splitlines()
            except (FileNotFoundError, NotADirectoryError):
                continue
            found[f"{user.pw_name} {path}"] = [
                fingerprint(line) or f"unreadable line {number}"
                for number, line in enumerate(lines, 1)
                if line.strip() and not line.lstrip().startswith("#")
            ]
    return found


def fingerprint(line: str) -> str:
    """'SHA256:…' of the key in a line of authorized_keys(5), as ssh-keygen -l prints it; '' where there is none.

    The key stands behind its type, at the beginning of the line or behind the options. What looks like a key inside an option
    is none.
    """
    for words in (line.split(), line[options_end(line) :].split()):
        if len(words) > 1 and re.match(r"(sk-)?(ssh|ecdsa)-", words[0]):
            try:
                blob = base64.b64decode(words[1], validate=True)
            except binascii.Error:
                continue
            return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return ""


def options_end(line: str) -> int:
    """Where the options of a line of authorized_keys(5) end, as sshd finds it: at the first blank outside of quotes."""
    at, quoted = len(line) - len(line.lstrip(" \t")), False
    while at < len(line) and (quoted or line[at] not in " \t"):
        if line[at : at + 2] == '\\"':
            at += 1
        elif line[at] == '"':
            quoted = not quoted
        at += 1
    return at


def sudo() -> list[str]:
    """Rules of sudoers(5) as 'path: rule', without comments and Defaults, and who is in a group that a rule names."""
    included = Path("/etc/sudoers.d")
    paths = [Path("/etc/sudoers"), *(sorted(included.iterdir()) if included.is_dir() else ())]
    rules = []
    for path in paths:
        if not path.is_file() or (path.parent == included and ("." in path.name or path.name.endswith("~"))):
            continue
        rules += [f"{path}: {rule}" for rule in sudo_rules(path.read_text(errors="replace"))]
    named = {name for rule in rules for name in re.findall(r": %(\S+)", rule)}
    for group in grp.getgrall():
        if group.gr_name in named:
            inside = {*group.gr_mem, *(user.pw_name for user in pwd.getpwall() if user.pw_gid == group.gr_gid)}
            rules += [f"group {group.gr_name}: {member}" for member in sorted(inside)]
    return rules


def sudo_rules(text: str) -> list[str]:
    """The rules of a file of sudoers(5), continued lines joined.

    A comment ends at its line's end, also behind a backslash. A line of Defaults is left out only where it does not go on.
    """
    rules, lines = [], iter(text.split("\n"))
    for line in lines:
        first = line.strip()
        comment = first.startswith("#") and not re.match(r"#\d|#incl", first)
        if comment or (re.match(r"Defaults([\s@:!>]|$)", first) and not line.endswith("\\")):
            continue
        while line.endswith("\\"):
            line = f"{line[:-1]} {next(lines, '')}"
        rules += [" ".join(line.split())] if line.strip() else []
    return rules


CRON_FOLDERS = ("/etc/cron.d", "/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly")
CRON_SPOOLS = ("/var/spool/cron/crontabs", "/var/spool/cron")


def scheduled() -> dict[str, str]:
    """What runs by itself: each cron file and timer with the package that owns its file; '' where none does.

    A file that a package ships and somebody changed is 'changed, PACKAGE'. Names: a path, or a timer's unit name.
    """
    places = {"/etc/crontab", "/etc/anacrontab"}
    for folder in (*CRON_FOLDERS, *CRON_SPOOLS):
        if Path(folder).is_dir():
            places |= {str(path) for path in Path(folder).iterdir() if path.is_file() and path.name != ".placeholder"}
    names = {path: path for path in places if Path(path).exists()}
    timers = {name for name, state in unit_states("*.timer").items() if state not in ("masked", "disabled")}
    out = output("systemctl", "list-units", "--type=timer", "--plain", "--no-legend")  # with those made while it runs
    timers |= {line.split()[0] for line in out.splitlines() if line.strip()}
    names |= unit_files(sorted(name for name in timers if "@." not in name))
    packaged = owners([path for path in names.values() if path])
    return {name: packaged.get(path, "") for name, path in names.items()}


def unit_files(units: list[str]) -> dict[str, str]:
    """The file of each unit, '' for none; asked at once, since one call takes seconds on a slow machine."""
    if not units:
        return {}
    out = output("systemctl", "show", "--property=FragmentPath", *units)
    found = [line.partition("=")[2].strip() for line in out.splitlines() if line.startswith("FragmentPath=")]
    if len(found) != len(units):
        raise ValueError(f"systemctl show told the files of {len(found)} units, {len(units)} were asked for")
    return dict(zip(units, found, strict=True))


def owners(paths: list[str]) -> dict[str, str]:
    """The package that each path belongs to, as dpkg knows it. A configuration file other than shipped is 'changed, PACKAGE'.

    /lib is /usr/lib on merged systems, and dpkg may know either name.
    """
    asked = {path: {path, path.removeprefix("/usr"), f"/usr{path}"} for path in paths}
    status, out = run("dpkg-query", "-S", *sorted({name for names in asked.values() for name in names}))
    if status in (NOT_INSTALLED, OUT_OF_TIME):
        raise RuntimeError(f"dpkg-query -S: exit status {status}")
    known = {path: package for package, _, path in (line.partition(": ") for line in out.splitlines()) if path}
    shipped = dict(re.findall(r"^ (/\S+) ([0-9a-f]{32})", output("dpkg-query", "-W", "-f", "${Conffiles}\n"), re.M))
    found = {}
    for path, names in asked.items():
        package = next((known[name] for name in sorted(names) if name in known), "")
        if package and path in shipped:
            content = hashlib.md5(Path(path).read_bytes(), usedforsecurity=False).hexdigest()  # as dpkg records it
            package = package if content == shipped[path] else f"changed, {package}"
        if package:
            found[path] = package
    return found


def accounts() -> list[str]:
    """Accounts that can log in: an empty shell is /bin/sh (passwd(5))."""
    return [row[0] for row in passwd() if len(row) == 7 and row[6] not in NO_LOGIN]


NO_LOGIN = {
    f"{folder}/{name}"
    for folder in ("/bin", "/sbin", "/usr/bin", "/usr/sbin")
    for name in ("nologin", "false", "sync", "shutdown", "halt")
}
"""Shells that let nobody in, by their whole path: a program of such a name elsewhere may be anything."""


def users() -> dict[str, str]:
    """Each local account: 'uid:gid:home:shell'.

    The C library also takes a line that repeats a name (and then the first one), has another number of fields, or writes its
    user id otherwise, such as 00: such a line comes as 'NAME (line N)', a name that no account has.
    """
    found: dict[str, str] = {}
    for number, row in enumerate(passwd(), 1):
        if not row[0].strip() or row[0].startswith("#"):
            continue
        plain = len(row) == 7 and re.fullmatch("0|[1-9][0-9]*", row[2]) and row[0] not in found
        name = row[0] if plain and row[0] == row[0].strip() else f"{row[0].strip()} (line {number})"
        found[name] = ":".join(row[at] for at in (2, 3, 5, 6)) if plain else ":".join(row[2:])
    return found


def passwd() -> list[list[str]]:
    """The fields of each line of /etc/passwd; RuntimeError where it cannot be read."""
    text = read("/etc/passwd")
    if not text:
        raise RuntimeError("/etc/passwd could not be read")
    return [line.split(":") for line in text.split("\n")]


def enabled() -> dict[str, str]:
    """What starts at boot: each service's unit file and its state, such as 'enabled', 'disabled' or 'static'."""
    return {name.removesuffix(".service"): state for name, state in unit_states("*.service").items()}


def unit_states(pattern: str) -> dict[str, str]:
    """The state of each unit file of this pattern. systemd looks for drop-ins of every unit that it has to tell of, in 20 folders,
    and `--type` only leaves out lines of what it told.
    """
    out = output("systemctl", "list-unit-files", "--plain", "--no-legend", pattern)
    rows = (line.split() for line in out.splitlines())
    return {row[0]: row[1] for row in rows if len(row) >= 2}


def files() -> dict[str, str]:
    """Mode and owner of each of FILES that is there: '0600 root:root'."""
    found = {}
    for path in FILES:
        try:
            seen = os.stat(path)
        except FileNotFoundError:
            continue
        found[path] = f"{stat.S_IMODE(seen.st_mode):04o} {owner(seen.st_uid, seen.st_gid)}"
    return found


def owner(uid: int, gid: int) -> str:
    """'user:group', each as UNKNOWN where the node has no name for its number: stat(1) prints the same."""
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = "UNKNOWN"
    try:
        group = grp.getgrgid(gid).gr_name
    except KeyError:
        group = "UNKNOWN"
    return f"{user}:{group}"


def sysctls() -> dict[str, str]:
    """Value in force of each of SYSCTLS that the kernel has."""
    paths = {key: Path("/proc/sys", *key.split(".")) for key in SYSCTLS}
    return {key: " ".join(path.read_text().split()) for key, path in paths.items() if path.exists()}


def mounts() -> dict[str, str]:
    """Device and type of what is mounted at each path; of several at one path the first."""
    found: dict[str, str] = {}
    for line in Path("/proc/mounts").read_text().splitlines():
        device, path, kind, *_ = line.split()
        if device != "rootfs":
            found.setdefault(path, f"{device} {kind}")
    return found


def slurm() -> dict[str, Any]:
    """Version, what slurmd detects, and whether slurmctld answers this node; empty where Slurm is not installed.

    A controller also says which state slurmctld has for each node, with the reason, and whether slurmdbd answers.
    """
    version = output("sinfo", "--version", ok=(0, NOT_INSTALLED))
    if not version:
        return {}
    pairs = dict(re.findall(r"(\w+)=(\S+)", output("slurmd", "-C", ok=(0, NOT_INSTALLED))))
    # It says DOWN as well when slurmctld refuses this node's credentials.
    answers = " is UP" in run("scontrol", "ping")[1]
    found: dict[str, Any] = {"version": version.split()[-1], "detected": pairs, "answers": answers}
    if shutil.which("slurmctld") is None:
        return found
    found["accounting_answers"] = run("sacctmgr", "--noheader", "--parsable2", "show", "cluster")[0] == 0
    if answers:
        rows = output("sinfo", "--Node", "--noheader", "--format=%N|%T|%200E").splitlines()
        cells = [line.split("|", 2) for line in rows]
        found["nodes"] = {name: {"state": state, "reason": reason.strip()} for name, state, reason in cells}
    return found


def forwards() -> bool:
    """Whether the node passes packets on between its interfaces."""
    return "1" in (read(f"/proc/sys/net/{key}").strip() for key in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"))


def forwarded() -> list[str]:
    """Rules of the chain that says what a node of Kubernetes passes on (role kubernetes), in order; [] where it has none."""
    lines = output("nft", "list", "chain", "inet", "bringup_pods", "forward", ok=(0, 1, NOT_INSTALLED)).splitlines()
    return [line.strip() for line in lines if line.startswith("\t\t") and line.strip() != "}"]


def hardware() -> dict[str, Any]:
    memory = re.search(r"MemTotal:\s+(\d+) kB", read("/proc/meminfo"))
    return {"cpus": os.cpu_count(), "memory_kib": int(memory[1]) if memory else 0, "machine": platform.machine()}


def ping(probe: dict[str, Any]) -> dict[str, Any]:
    """One DF ping of `payload_b` bytes from our loopback address: does it come back whole?"""
    status, out = run(
        "ping",
        "-n",
        "-c",
        "2",
        "-i",
        "0.2",
        "-W",
        "1",
        "-M",
        "do",
        "-s",
        str(probe["payload_b"]),
        "-I",
        probe["source"],
        probe["target"],
    )
    answered = re.search(r"(\d+) received", out)
    return {**probe, "ok": status == 0, "received": int(answered[1]) if answered else 0}


def connect(probe: dict[str, Any]) -> dict[str, Any]:
    """Can this node open a TCP connection to `target`:`port`? 'open', 'refused' or 'no answer'."""
    try:
        with socket.create_connection((probe["target"], probe["port"]), timeout=probe["budget_s"]):
            return {**probe, "seen": "open"}
    except ConnectionRefusedError:
        return {**probe, "seen": "refused"}
    except OSError:
        return {**probe, "seen": "no answer"}


def silent(probe: dict[str, Any]) -> dict[str, Any]:
    """Does nobody answer an ordinary ping to `target`? `error` where ping says neither, as where it is not installed."""
    status, _ = run("ping", "-n", "-c", "1", "-W", "1", probe["target"])
    if status in (0, 1):  # ping(8): 1 when no packet came back, 2 for another error
        return {**probe, "answered": status == 0}
    if status not in (NOT_INSTALLED, OUT_OF_TIME) and not routed(probe["target"]):
        return {**probe, "answered": False}
    return {**probe, "answered": False, "error": f"ping: exit status {status}"}


def routed(target: str) -> bool:
    """Whether this node has a route to an address; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        return probe.connect_ex((target, 9)) == 0


def guids() -> dict[str, str]:
    """Node GUID of each host channel adapter, 16 hex digits."""
    return {
        path.parent.name: read(str(path)).replace(":", "") for path in Path("/sys/class/infiniband").glob("*/node_guid")
    }


def macs(addresses: list[str]) -> dict[str, str]:
    """MAC of each address that this node's neighbour table holds after a ping."""
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda address: run("ping", "-n", "-c", "1", "-W", "1", address), addresses))
    found = json.loads(output("ip", "-j", "neigh", "show") or "[]")
    return {row["dst"]: row["lladdr"] for row in found if row.get("dst") in addresses and row.get("lladdr")}


PARTS: dict[str, Callable[[], Any]] = {
    "os_release": os_release,
    "image": image,
    "identity": identity,
    "started_at": started_at,
    "links": links,
    "routes": routes,
    "sshd": sshd,
    "chrony": chrony,
    "clock_day": clock_day,
    "packages": packages,
    "units": units,
    "listening": listening,
    "listeners": listeners,
    "keys": keys,
    "sudo": sudo,
    "scheduled": scheduled,
    "accounts": accounts,
    "users": users,
    "enabled": enabled,
    "files": files,
    "sysctls": sysctls,
    "mounts": mounts,
    "slurm": slurm,
    "hardware": hardware,
    "forwards": forwards,
    "forwarded": forwarded,
    "kernel": platform.release,
    "command_line": lambda: read("/proc/cmdline"),
}


def main() -> None:
    request = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    facts: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name, part in PARTS.items():
        try:
            facts[name] = part()
        except (OSError, RuntimeError, ValueError, IndexError, KeyError, StopIteration) as error:
            errors[name] = f"{type(error).__name__}: {error}"
    with ThreadPoolExecutor(16) as pool:
        facts["pings"] = list(pool.map(ping, request.get("pings", [])))
        facts["connects"] = list(pool.map(connect, request.get("connects", [])))
        facts["silent"] = list(pool.map(silent, request.get("silent", [])))
    asked: dict[str, Callable[[], Any]] = {"guids": guids, "macs": lambda: macs(request["macs"])}
    for name in [name for name in asked if request.get(name)]:
        try:
            facts[name] = asked[name]()
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            errors[name] = f"{type(error).__name__}: {error}"
    print(json.dumps({"facts": facts, "errors": errors}))


if __name__ == "__main__":
    main()
