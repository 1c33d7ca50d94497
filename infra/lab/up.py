"""Build the lab of a site: from nothing, or from the files of a saved lab.

`up` needs root on Linux. It leaves every device in factory state: switches with a management address only, outlets on,
servers off. What an earlier run of the same lab left behind, whole or in pieces, is removed first; other labs and all
else on the machine are left alone. What a running lab needs, its daemons and its faults among it, is in lab.py.
"""

import http.client
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from capacity.model import Plan
from infra.lab import base, bmc_process, gpus, ib, keys, kubernetes, net, node, nvidia, pdu
from infra.lab.lab import PROBE_BUDGET_S, Progress, check_root, clean, is_up, lock, status, traces
from infra.lab.paths import LabError, LabPaths, lab_home, repo_root, write_private
from infra.lab.planned import from_plan
from infra.lab.spec import LabSpec
from inventory.delivered.assets import load_assets
from inventory.delivered.gpus import load_gpus
from inventory.secrets import reference_path
from inventory.site import Site

READY_BUDGET_S = 180.0  # seconds on an idle machine; a disk that still writes back a fresh set-up can take two minutes
POLL_S = 0.1
BMC_THREADS = 32  # a hanging BMC holds the threads of its clients, all others must go on
UNIX_PATH_MAX = 107
INOTIFY_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
INOTIFY_INSTANCES = 1024
"""Linux gives root 128 for all its processes; each node's systemd and its services take about ten."""
TOOLS = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "systemd-nspawn": "systemd-container",
    "debootstrap": "debootstrap",
    "dpkg-scanpackages": "dpkg-dev",
    "gcc": "gcc",
    "nm": "binutils",
    "vtysh": "frr",
    "lldpd": "lldpd",
    "sshd": "openssh-server",
    "mkfs.ext4": "e2fsprogs",
    "ibsim": "ibsim-utils",
    "snmpd": "snmpd",
    "nft": "nftables",
    "setcap": "libcap2-bin",
}
NODE_VENV = "/opt/bringup/venv"
"""Where nodes have the Python environment of the workloads (role `workloads` makes it on real nodes)."""


def up(
    site: Site,
    plan: Plan,
    progress: Progress | None = None,
    *,
    venv: Path | None = None,
    saved: Callable[[LabPaths], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """Build the lab of a site and return its status. A lab that is up already is left as it is.

    saved: puts the files of a saved lab in place (snapshot.py), instead of new secrets and empty devices.
    venv: Python environment that nodes see read-only at NODE_VENV; by default the one that runs this.
    LabError says what is missing on this machine, what overlaps, or which device did not answer and why.
    """
    say = progress or (lambda text: None)
    spec = from_plan(site, plan, load_assets(site), plan.catalog, load_gpus(site))
    paths = LabPaths(spec.name)
    _check_machine(paths)
    _check_credentials(site, paths)
    with lock(spec.name):
        if is_up(spec.name):
            running = LabSpec.from_json(paths.spec.read_text())
            wanted = replace(
                spec,
                base_root=running.base_root,
                debs=running.debs,
                gpu_debs=running.gpu_debs,
                kubernetes_debs=running.kubernetes_debs,
                bind_read_only=running.bind_read_only,
            )
            if running != wanted:
                raise LabError(f"lab {spec.name} is up, but was built from another plan: run `bringup lab down` first")
            say(f"lab {spec.name} is up already")
            return status(spec.name)
        if traces(spec):
            say("an earlier run left something behind: removing it")
            clean(spec)
        if problem := net.overlaps(spec):
            raise LabError(f"{problem}: choose another prefix in the site file")
        cluster = kubernetes.ready(site.versions["kubernetes"]) if spec.workers else None
        image = base.ensure(say)
        _raise_inotify_limit(say)
        spec = replace(
            spec,
            base_root=str(image.root),
            debs=str(image.debs),
            gpu_debs=str(nvidia.ensure(spec) or ""),
            kubernetes_debs=str(cluster.debs) if cluster else "",
            bind_read_only=(*python_binds(venv or Path(sys.prefix)), *(cluster.binds if cluster else ())),
        )
        began = time.monotonic()
        try:
            _build(spec, paths, say, saved)
        except BaseException:
            clean(spec, keep_logs=True)
            raise
        say(f"lab {spec.name} is up: {time.monotonic() - began:.1f} s")
    return status(spec.name)


def python_binds(venv: Path) -> list[str]:
    """What nodes need of a virtual environment to run it: itself at NODE_VENV, and its interpreter if not in /usr."""
    if not (venv / "pyvenv.cfg").exists():
        return []
    interpreter = Path(os.path.realpath(venv / "bin" / "python"))
    home = interpreter.parents[1]
    binds = [f"{venv}:{NODE_VENV}"]
    return binds if home == Path("/usr") else [*binds, str(home)]


def _build(spec: LabSpec, paths: LabPaths, say: Progress, saved: Callable[[LabPaths], None] | None = None) -> None:
    """Everything from nothing, or from the files of a saved lab; on return every device answers."""
    lab_home().mkdir(parents=True, exist_ok=True, mode=0o755)
    paths.root.mkdir(mode=0o700)
    paths.logs.mkdir()
    write_private(paths.spec, spec.to_json())
    if saved:
        saved(paths)
    else:
        keys.write_all(spec, paths)
    say(f"network: {len(spec.switches)} switches, {len(spec.cables)} cables")
    net.build(spec)
    for server in spec.servers:
        if server.gpus and spec.gpu_model and not saved:
            gpus.write(paths.hardware(server.name), server.gpus, spec.gpu_model)
    if spec.ib_switches:
        say(f"InfiniBand: {len(spec.ib_switches)} switches, {len(spec.ib_cables)} cables")
        ib.build(spec)
    say(f"devices: {len(spec.pdus)} PDUs, {len(spec.servers)} BMCs, daemons")
    daemons = _start_daemons(spec, paths)
    _wait(spec, paths, daemons)
    paths.ready.touch()


def _start_daemons(spec: LabSpec, paths: LabPaths) -> dict[str, "subprocess.Popen[bytes]"]:
    binaries = Path(sys.executable).parent
    env = {
        "PATH": f"{binaries}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": str(repo_root()),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "BRINGUP_LAB": spec.name,
        "BRINGUP_LAB_HOME": str(lab_home()),
        "BRINGUP_POWER_SOCKET": str(paths.power_socket),
        "LANG": "C.UTF-8",
        "HOME": str(paths.root),
    }
    arguments = pdu.write_agents(spec, paths)
    (paths.root / "bmc").mkdir(exist_ok=True)
    standby = net.enter(spec.namespace("standby"))
    commands: dict[str, list[str | Path]] = {
        "powerd": [sys.executable, "-m", "infra.lab.powerd", spec.name],
        "pdu": [
            *standby,
            binaries / "snmpsim-command-responder",
            f"--args-from-file={arguments}",
            "--logging-method=null",
            f"--variation-modules-dir={Path(__file__).with_name('snmp_variation')}",
            "--process-user=root",
            "--process-group=root",
            f"--cache-dir={paths.root / 'pdu' / 'cache'}",
        ],
        "bmc": [
            *standby,
            *bmc_process.command(paths, (server.bmc_address for server in spec.servers), BMC_THREADS),
        ],
        "workstation": [sys.executable, "-m", "infra.lab.workstation", spec.name],
    }
    # First, since powerd writes to its console at once.
    simulator = ib.start(spec, paths, env) if spec.ib_switches else {}
    return simulator | {
        name: net.spawn(
            f"{spec.scope}/{name}", argv, paths.logs / f"{name}.log", env=env, cwd=paths.root, nice=net.DEVICE_NICE
        )
        for name, argv in commands.items()
    }


def _wait(spec: LabSpec, paths: LabPaths, daemons: dict[str, "subprocess.Popen[bytes]"]) -> None:
    """Until every device answers in its own protocol. LabError names those that do not, and the log to read."""
    probes: dict[str, Callable[[], bool]] = {f"switch {s.name}": ssh_probe(s.address) for s in spec.switches}
    probes |= {f"PDU {p.name}": _snmp_probe(p.address) for p in spec.pdus}
    probes |= {f"SNMP of switch {s.name}": _snmp_probe(s.address) for s in spec.switches}
    probes |= {f"BMC of {s.name}": _redfish_probe(s.bmc_address, paths.pki / "bmc.pem") for s in spec.servers}
    if spec.ib_switches:
        probes["InfiniBand simulator"] = lambda: ib.is_ready(paths)
    probes["package mirror"] = _tcp_probe(spec.provisioning.host, node.MIRROR_PORT)
    end = time.monotonic() + READY_BUDGET_S
    with ThreadPoolExecutor(16) as pool:
        while probes:
            for name, process in daemons.items():
                if process.poll() is not None:
                    raise LabError(
                        f"{name} ended with status {process.returncode}: {_tail(paths.logs / f'{name}.log')}"
                    )
            answers = dict(zip(probes, pool.map(lambda probe: probe(), probes.values()), strict=True))
            probes = {what: probe for what, probe in probes.items() if not answers[what]}
            if probes and time.monotonic() > end:
                raise LabError(f"no answer after {READY_BUDGET_S:g} s from {', '.join(probes)}; logs: {paths.logs}")
            if probes:
                time.sleep(POLL_S)


def _tail(log: Path, lines: int = 5) -> str:
    return " | ".join(log.read_text(errors="replace").strip().splitlines()[-lines:]) or "no output"


def _tcp_probe(address: str, port: int) -> Callable[[], bool]:
    def probe() -> bool:
        try:
            with socket.create_connection((address, port), PROBE_BUDGET_S):
                return True
        except OSError:
            return False

    return probe


def ssh_probe(address: str) -> Callable[[], bool]:
    def probe() -> bool:
        try:
            with socket.create_connection((address, 22), PROBE_BUDGET_S) as connection:
                connection.settimeout(PROBE_BUDGET_S)
                return connection.recv(64).startswith(b"SSH-2.0")
        except OSError:
            return False

    return probe


def _redfish_probe(address: str, ca: Path) -> Callable[[], bool]:
    def probe() -> bool:
        context = ssl.create_default_context(cafile=str(ca))
        connection = http.client.HTTPSConnection(address, timeout=PROBE_BUDGET_S, context=context)
        try:
            connection.request("GET", "/redfish/v1/")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return probe


def _snmp_probe(address: str) -> Callable[[], bool]:
    """An SNMPv3 discovery (RFC 3414, section 4): any agent answers it with a Report, without a login."""

    def tlv(tag: int, *parts: bytes) -> bytes:
        content = b"".join(parts)
        return bytes([tag, len(content)]) + content

    number, empty = tlv(2, b"\0"), tlv(4)
    header = tlv(0x30, tlv(2, b"\x01"), tlv(2, b"\x05\xc0"), tlv(4, b"\x04"), tlv(2, b"\x03"))
    security = tlv(4, tlv(0x30, empty, number, number, empty, empty, empty))
    request = tlv(
        0x30, tlv(2, b"\x03"), header, security, tlv(0x30, empty, empty, tlv(0xA0, number, number, number, tlv(0x30)))
    )

    def probe() -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(0.5)
            try:
                client.connect((address, 161))
                client.send(request)
                return bool(client.recv(1500))
            except OSError:
                return False

    return probe


def _check_machine(paths: LabPaths) -> None:
    check_root()
    search = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    missing = [package for tool, package in TOOLS.items() if not shutil.which(tool, path=search)]
    if missing:
        raise LabError(f"the lab needs {', '.join(missing)}: run `make setup`")
    if len(str(paths.power_socket)) > UNIX_PATH_MAX:
        raise LabError(f"{paths.root} is too long a path for the lab's sockets: set BRINGUP_LAB_HOME to a shorter one")


def _raise_inotify_limit(say: Progress) -> None:
    """Without an inotify instance a node's systemd stops half-way through its boot, and says so only in its journal."""
    allowed = int(INOTIFY_LIMIT.read_text())
    if allowed < INOTIFY_INSTANCES:
        INOTIFY_LIMIT.write_text(str(INOTIFY_INSTANCES))
        say(f"fs.inotify.max_user_instances of this machine raised from {allowed} to {INOTIFY_INSTANCES}")


def _check_credentials(site: Site, paths: LabPaths) -> None:
    """The site file must look for its secrets where the lab puts them."""
    credentials = site.credentials
    pairs = {
        "credentials.snmp.auth": (credentials.snmp.auth, paths.secrets / "snmp_auth"),
        "credentials.snmp.priv": (credentials.snmp.priv, paths.secrets / "snmp_priv"),
        "credentials.bmc.password": (credentials.bmc.password, paths.secrets / keys.bmc_password("{device}")),
        "credentials.bmc.ca": (f"file:{credentials.bmc.ca}", paths.pki / "bmc.pem"),
        "credentials.ssh.key": (credentials.ssh.key, paths.secrets / "ssh_ed25519"),
        "credentials.ssh.known_hosts": (f"file:{credentials.ssh.known_hosts}", paths.known_hosts),
        "credentials.switch.key": (credentials.switch.key, paths.secrets / "ssh_ed25519"),
        "credentials.switch.known_hosts": (f"file:{credentials.switch.known_hosts}", paths.known_hosts),
        "credentials.evidence.key": (credentials.evidence.key, paths.secrets / "evidence_ed25519"),
    }
    if credentials.alerts:
        pairs["credentials.alerts.webhook"] = (credentials.alerts.webhook, paths.secrets / "alert_webhook")
    if told := credentials.notifications:
        given = {"default": told.default, "operators": told.operators}
        given |= {f"accounts.{name}": reference for name, reference in told.accounts.items()}
        for key, reference in given.items():
            if reference:
                pairs[f"credentials.notifications.{key}"] = (reference, paths.secrets / "notices_webhook")
    for key, (reference, place) in pairs.items():
        if not reference.startswith("file:") or reference_path(reference, site.dir) != place:
            raise LabError(f"{key} of site {site.name} is {reference}, but the lab would put it at file:{place}")
