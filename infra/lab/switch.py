"""Ethernet switches: one set of namespaces each, with FRRouting, sshd, lldpd and snmpd as on a whitebox running FRR.

The network namespace, and with it the ports, belongs to the lab and outlives a power cut; all else is one process tree
under switch_init.sh. The switch's flash (saved configuration, home folder, host key) is a folder of the lab's state.
"""

import os
import re
import subprocess
from pathlib import Path

from infra.lab import net
from infra.lab.paths import LabError, LabPaths, lab_home, write_private
from infra.lab.spec import SSH_KEY_EXCHANGE, LabSpec, Switch
from network import nos

SIMULATED_BY = "SIMULATED by bringup lab"
INIT = Path(__file__).with_name("switch_init.sh")
UPLINKS = "uplinks.sh"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
TOOL_BUDGET_S = 15.0
WITHHELD = (
    "audit_control",
    "audit_read",
    "block_suspend",
    "bpf",
    "mac_admin",
    "mac_override",
    "perfmon",
    "sys_boot",
    "sys_module",
    "sys_pacct",
    "sys_rawio",
    "sys_time",
    "syslog",
    "wake_alarm",
)
"""Capabilities over the host's one kernel, clock and hardware: no daemon of a switch needs them (see capabilities(7))."""
SNMPD_PRIV = {"AES128": "AES", "AES192": "AES-192", "AES256": "AES-256"}
"""Names in the site file and in snmpd.conf(5)."""


def nos_version() -> str:
    """Version of the FRRouting that the host has installed, such as '8.4.4'."""
    shown = subprocess.run(
        ["/usr/lib/frr/zebra", "--version"], capture_output=True, text=True, check=True, timeout=TOOL_BUDGET_S
    ).stdout
    found = re.search(r"version (\S+)", shown)
    return found[1] if found else "unknown"


def os_release(version: str) -> str:
    """What /etc/os-release of a switch says."""
    return (
        f'NAME="FRRouting"\nID=frr\nVERSION_ID="{version}"\nPRETTY_NAME="FRRouting {version}"\n'
        f'VARIANT="{SIMULATED_BY}"\nVARIANT_ID=simulated\n'
    )


def description(version: str) -> str:
    """The system description that a switch announces over LLDP."""
    return f"{SIMULATED_BY}, FRRouting {version}"


def snmp_agent(spec: LabSpec, switch: Switch, version: str, auth: str, priv: str) -> str:
    """snmpd.conf of a switch: read-only for the site's SNMPv3 user, with authentication and privacy.

    A plug that moves is a new interface of the same name; without fading out, snmpd would report both for five minutes.
    """
    user = spec.snmp
    return (
        f"agentAddress udp:{switch.address}:161\n"
        f'createUser {user.user} {user.auth_protocol.replace("SHA", "SHA-").replace("SHA-1", "SHA")} "{auth}" '
        f'{SNMPD_PRIV[user.priv_protocol]} "{priv}"\n'
        f"rouser {user.user} authpriv\ninterface_fadeout 0\nsysDescr {description(version)}\nsysName {switch.name}\n"
    )


def start(spec: LabSpec, switch: Switch, version: str) -> "subprocess.Popen[bytes]":
    """Power on: boot with the saved configuration. Returns at once; the boot takes about a second."""
    paths = LabPaths(spec.name)
    flash = paths.device(switch.name)
    agent = snmp_agent(spec, switch, version, paths.secret("snmp_auth"), paths.secret("snmp_priv"))
    write_private(flash / "snmp" / "snmpd.conf", agent)
    write_private(flash / UPLINKS, (nos.folder("frr", UPLINKS) / UPLINKS).read_text())
    env = {
        "PATH": PATH,
        "NAME": switch.name,
        "ROLE": switch.role,
        "MGMT": spec.oob.cidr(switch.address),
        "PORTS": " ".join(switch.ports),
        "OPERATOR": spec.switch_user,
        "SSH_KEY_EXCHANGE": SSH_KEY_EXCHANGE,
        "PUBLIC_KEY": (paths.secrets / "ssh_ed25519.pub").read_text().strip(),
        "FLASH": str(flash),
        "LAB_HOME": str(lab_home()),
        "SIMULATED_BY": SIMULATED_BY,
        "OS_RELEASE": os_release(version),
        "DESCRIPTION": description(version),
    }
    argv: list[str | Path] = [
        *net.without(WITHHELD),
        *net.enter(spec.namespace(switch.name)),
        "unshare",
        "--uts",
        "--ipc",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "bash",
        INIT,
    ]
    return net.spawn(
        f"{spec.scope}/{switch.name}", argv, paths.logs / f"{switch.name}.log", env=env, nice=net.DEVICE_NICE
    )


def cut(spec: LabSpec, switch: Switch) -> None:
    """Power off: the light goes first, so that no neighbour hears a goodbye, then every process."""
    ports = [*switch.ports, *(("ws-oob", "ws-prov") if switch.role == "oob" else ())]
    net.ip([f"link set {port} down" for port in ports], spec.namespace(switch.name), force=True)
    net.cgroup_kill(f"{spec.scope}/{switch.name}")


def init_pid(spec: LabSpec, switch: str) -> int | None:
    """PID, as the host sees it, of the switch's PID 1."""
    return net.init_pid(f"{spec.scope}/{switch}")


def is_ready(spec: LabSpec, switch: str) -> bool:
    pid = init_pid(spec, switch)
    return pid is not None and os.path.exists(f"/proc/{pid}/root/run/ready")


def inside(spec: LabSpec, switch: str) -> list[str]:
    """argv prefix that runs a program on the switch as root, as from its serial console."""
    pid = init_pid(spec, switch)
    if pid is None:
        raise LabError(f"{switch} has no power or has crashed: nothing can run on it")
    return net.join(pid)
