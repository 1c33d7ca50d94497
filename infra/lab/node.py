"""Servers' operating systems: systemd-nspawn with a real systemd, a disk that outlives power cuts, and real links.

The disk is the upper layer of an overlay over the shared base root; the overlay is mounted in the node's own mount
namespace and vanishes with it. A network namespace lives from power-on to power-off, so that no old socket survives.
The ports wait in the bay meanwhile: a cable stays plugged when the server at its end has no power.
"""

import os
import shlex
import shutil
import socket
import subprocess
from pathlib import Path

from infra.lab import disk, gpus, ib, kubernetes, net
from infra.lab.paths import LabError, LabPaths
from infra.lab.spec import SSH_KEY_EXCHANGE, LabSpec, Server

MIRROR_PORT = 8080
GPU_MIRROR = "nvidia"  # folder of the mirror that NVIDIA's packages are in
KUBERNETES_MIRROR = "kubernetes"  # folder of the mirror that packages of a Kubernetes site are in
NSPAWN_RUN = "/run/systemd/nspawn"
BOOT_SOURCE_VARIABLE = "BRINGUP_BOOT_SOURCE"
COMMAND_BUDGET_S = 60.0  # systemctl waits this long at most for the daemons that faults stop and start
SHOWN = 400  # characters of a command and of its last words in a message
SHARED_DEVICES = ("/dev/fuse",)
"""Devices of the host that nodes use as their own: each open file of /dev/fuse is a connection by itself."""


def notify_socket(spec: LabSpec, server: Server) -> socket.socket:
    """Where systemd inside the node says READY=1 (sd_notify) once it has reached its default target."""
    path = LabPaths(spec.name).device(server.name) / "notify"
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(path))
    return listener


def start(spec: LabSpec, server: Server, boot_source: str) -> "subprocess.Popen[bytes]":
    """Power on and boot. boot_source Pxe means a network installation: it starts from an empty disk."""
    paths = LabPaths(spec.name)
    folder, namespace = paths.device(server.name), spec.namespace(server.name)
    if boot_source == "Pxe":
        shutil.rmtree(folder / "disk", ignore_errors=True)
        (folder / "layer").unlink(missing_ok=True)
        kubernetes.empty(folder)
    _seed(spec, server, paths)
    net.ip([f"netns add {namespace}"])
    net.ip(
        [f"link set {net.short(f'{server.name}.{port}')} netns {namespace} name {port}" for port in server.ports],
        spec.namespace("bay"),
    )
    net.ip(
        [
            "link set lo up",
            *(f"link set {port} up" for port in server.ports),
            f"address add {spec.provisioning.cidr(server.address)} dev eth0",
        ],
        namespace,
    )
    options = [
        "systemd-nspawn",
        "-q",
        "--register=no",
        "--keep-unit",
        "-b",
        "-D",
        str(folder / "root"),
        f"--uuid={server.uuid}",
        f"--machine={namespace}",
        f"--hostname={server.name}",
        "--link-journal=no",
        "--resolv-conf=off",
        "--timezone=off",
        "--console=read-only",
        "--notify-ready=yes",
        "--capability=CAP_NET_ADMIN",  # nspawn withholds it where the network namespace is not its own making
        f"--network-namespace-path={net.NETNS / namespace}",
        f"--setenv={BOOT_SOURCE_VARIABLE}={boot_source}",
        *(f"--bind-ro={path}" for path in (*spec.bind_read_only, *ib.binds(spec, server.name))),
        *(gpus.node_options(paths.hardware(server.name), server.gpus) if server.gpus else ()),
        *(f"--bind={device}" for device in SHARED_DEVICES if Path(device).exists()),
    ]
    data_disk = server.role in disk.ROLES
    if data_disk:
        disk.insert(folder)
        options += disk.nspawn_options(folder)
    runs_pods = server.name in spec.workers
    if runs_pods:
        options += kubernetes.node_options(folder)
    saved = layer(folder)
    lower = f"{saved}:{spec.base_root}" if saved else spec.base_root
    layers = f"lowerdir={lower},upperdir={folder / 'disk'},workdir={folder / 'work'},volatile"
    # What `volatile` leaves there says that a crash of the host may have lost data: a lab does not outlive its host.
    shutil.rmtree(folder / "work" / "work" / "incompat", ignore_errors=True)
    # nspawn keeps locks and propagation folders there, and a power cut is no clean exit: let them vanish with the node.
    script = (
        f"mkdir -p {NSPAWN_RUN} && mount -t tmpfs tmpfs {NSPAWN_RUN} && "
        f"mount -t overlay overlay -o {shlex.quote(layers)} {shlex.quote(str(folder / 'root'))} && "
        f"{disk.mount_script(folder) if data_disk else ''}"
        f"exec {shlex.join(options)}"
    )
    return net.spawn(
        f"{spec.scope}/{server.name}",
        ["unshare", "-m", "--propagation", "slave", "sh", "-c", script],
        paths.logs / f"{server.name}.log",
        env={**os.environ, "NOTIFY_SOCKET": str(folder / "notify"), "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network"},
        more=net.kubelet_roots() if runs_pods else (),
    )


def cut(spec: LabSpec, server: Server) -> None:
    """Power off. The links go first: a dying kernel would still send FINs and warn its peers."""
    namespace, bay = spec.namespace(server.name), spec.namespace("bay")
    net.ip(
        [f"link set {port} down" for port in server.ports]
        + [f"link set {port} netns {bay} name {net.short(f'{server.name}.{port}')}" for port in server.ports],
        namespace,
        force=True,
    )
    net.cgroup_kill(f"{spec.scope}/{server.name}")
    net.ip([f"netns del {namespace}"], force=True)


def _seed(spec: LabSpec, server: Server, paths: LabPaths) -> None:
    """Write what the installer would have: host key, operator's key, name, and where packages come from."""
    folder = paths.device(server.name)
    for name in ("root", "work"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    disk = folder / "disk"
    if disk.exists():
        return
    if layer(folder):
        disk.mkdir(mode=0o755)
        return
    for name in ("etc/ssh", "etc/apt/sources.list.d", "root/.ssh"):
        (disk / name).mkdir(parents=True)
    disk.chmod(0o755)
    (disk / "root").chmod(0o700)
    for name in ("ssh_host_ed25519_key", "ssh_host_ed25519_key.pub"):
        shutil.copy2(folder / "ssh" / name, disk / "etc/ssh" / name)
    (disk / "etc/ssh/sshd_config.d").mkdir(exist_ok=True)
    (disk / "etc/ssh/sshd_config.d/50-lab.conf").write_text(f"KexAlgorithms {SSH_KEY_EXCHANGE}\n")
    shutil.copyfile(paths.secrets / "ssh_ed25519.pub", disk / "root/.ssh/authorized_keys")
    (disk / "root/.ssh/authorized_keys").chmod(0o600)
    (disk / "etc/hostname").write_text(server.name + "\n")
    # systemd-nspawn prefers this file to its --uuid option, and shows either to the node as container_uuid.
    (disk / "etc/machine-id").write_text(server.uuid.replace("-", "") + "\n")
    _let_confine(disk / "etc/systemd/system", server.name in spec.workers)
    hosts = "".join(f"{other.address} {other.name}\n" for other in spec.servers)
    (disk / "etc/hosts").write_text("127.0.0.1 localhost\n" + hosts)
    ib.seed(spec, server.name, disk)
    (disk / "etc/apt/sources.list.d/lab.list").write_text(
        f"deb [trusted=yes] http://{spec.provisioning.host}:{MIRROR_PORT} ./\n"
        + (f"deb [trusted=yes] http://{spec.provisioning.host}:{MIRROR_PORT}/{GPU_MIRROR} ./\n" if server.gpus else "")
        + (
            f"deb [trusted=yes] http://{spec.provisioning.host}:{MIRROR_PORT}/{KUBERNETES_MIRROR} ./\n"
            if spec.workers
            else ""
        )
    )


def _let_confine(units: Path, runs_pods: bool) -> None:
    """A unit that makes the controllers writable early in the boot: nspawn mounts the node's own hierarchies read-only."""
    name, target = "lab-cgroups.service", units / "sysinit.target.wants"
    target.mkdir(parents=True)
    controllers = (*net.CONFINING, *(net.KUBELET if runs_pods else ()))
    mounts = " ".join(f"/sys/fs/cgroup/{controller}" for controller in controllers)
    (units / name).write_text(
        "[Unit]\nDescription=Control groups as on a machine of its own\nDefaultDependencies=no\nBefore=sysinit.target\n"
        "[Service]\nType=oneshot\n"
        f"ExecStart=/bin/sh -c 'for m in {mounts}; do [ ! -d $m ] || mount -o remount,rw,bind $m; done'\n"
        + (f"ExecStart=/bin/sh -c '{kubernetes.OWN_SYSCTLS}'\n" if runs_pods else "")
    )
    (target / name).symlink_to(f"../{name}")


def layer(folder: Path) -> Path | None:
    """The saved disk (snapshot.py) that the disk of the server with this folder rests on."""
    note = folder / "layer"
    return Path(note.read_text()) if note.exists() else None


def leader_pid(spec: LabSpec, server: str) -> int | None:
    """PID, as the host sees it, of the node's systemd."""
    return net.init_pid(f"{spec.scope}/{server}")


def running_pid(spec: LabSpec, server: str) -> int:
    """PID of the node's systemd. LabError when the server is off."""
    pid = leader_pid(spec, server)
    if pid is None:
        raise LabError(f"{server} is off: switch it on first")
    return pid


def inside(spec: LabSpec, server: str) -> list[str]:
    """argv prefix that runs a program as the node's own root, as from its console. LabError when it is off."""
    return net.join(running_pid(spec, server))


def run(spec: LabSpec, server: str, *command: str, budget_s: float = COMMAND_BUDGET_S) -> str:
    """Output of a command on a running node. LabError with what it said when it fails or takes longer than budget_s."""
    shown = f"{server}: {' '.join(command)[:SHOWN]}"
    try:
        done = subprocess.run(
            [*inside(spec, server), *command],
            capture_output=True,
            text=True,
            timeout=budget_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"{shown}: no end after {budget_s:g} s; look at it with `bringup lab exec`") from None
    if done.returncode:
        raise LabError(f"{shown}: {(done.stderr + done.stdout).strip()[-SHOWN:]}")
    return done.stdout
