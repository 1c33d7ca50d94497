"""What the lab of a Kubernetes site needs beside its nodes: programs, packages, images, and nodes that can run containers.

    ensure(print)             builds packages and images into the cache (`make setup-platform`)
    ready("1.36.3")           what is there, or what to run

In: the build of infra.toolchain.control_plane, the host's apt and compiler. Out: a package mirror of its own (a lab of Slurm does
not pay for it), image archives without a registry, and systemd-nspawn's options of a node that runs a kubelet.

The images are `lab/pause`, which holds a pod's namespaces, and `lab/busybox`, Debian's busybox as shell and HTTP server of tests.
infra/setup/controllers.py adds those of the controllers.
"""

import fcntl
import gzip
import hashlib
import io
import json
import platform
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from infra.lab import base
from infra.lab.paths import LabError, cache_dir, repo_root
from infra.toolchain import control_plane, controllers

PLACE = "/opt/bringup/kubernetes"
"""Where nodes have programs and images, as the roles expect them."""
PAUSE, BUSYBOX = "docker.io/lab/pause:1", "docker.io/lab/busybox:1"
IMAGE_PACKAGES = ("busybox-static",)
OWN_DISKS = ("containerd", "kubelet")
"""Folders of /var/lib that are no overlay: containerd's snapshots are overlays themselves."""
SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
"""What a kubelet sets, or ends; they are the host's, so a node gets files of its own in their places."""
OWN_SYSCTLS = "; ".join(
    [
        "mkdir -p /run/sysctl",
        *(
            f"echo {value} >/run/sysctl/{file}; mount --bind /run/sysctl/{file} /proc/sys/{name}"
            for name, value in SYSCTLS.items()
            for file in [name.replace("/", ".")]
        ),
    ]
)
PAUSE_SOURCE = r"""
/* Holds the namespaces of a pod and reaps its orphans. SIMULATED by bringup lab: stands for registry.k8s.io/pause. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void down(int s) { (void)s; _exit(0); }
static void reap(int s) { (void)s; while (waitpid(-1, NULL, WNOHANG) > 0); }
int main(void) { signal(SIGINT, down); signal(SIGTERM, down); signal(SIGCHLD, reap); for (;;) pause(); }
"""
APPLETS = (
    "sh",
    "cat",
    "echo",
    "env",
    "grep",
    "head",
    "hostname",
    "httpd",
    "id",
    "ip",
    "ls",
    "mkdir",
    "sleep",
    "test",
    "wc",
    "wget",
)


@dataclass(frozen=True)
class Prepared:
    """Folders of the cache: programs, images, package mirror; `toolkit` NVIDIA's programs that start a container with GPUs."""

    programs: Path
    images: Path
    debs: Path
    toolkit: Path | None = None

    @property
    def binds(self) -> tuple[str, ...]:
        """What nodes see of it, as systemd-nspawn takes it."""
        toolkit = sorted(self.toolkit.iterdir()) if self.toolkit else []
        return (
            f"{self.programs}:{PLACE}/bin",
            f"{self.images}:{PLACE}/images",
            # The lab's package of the toolkit is empty (nvidia.py).
            *(f"{path}:/usr/bin/{path.name}" for path in toolkit),
        )


def wanted_packages() -> list[str]:
    """Packages of the roles for Kubernetes, from playbooks/packages.yaml."""
    listed = yaml.safe_load((repo_root() / "playbooks" / "packages.yaml").read_text())
    return sorted({package for group in listed["kubernetes_packages"].values() for package in group})


def places() -> tuple[Path, Path, str]:
    """Where images and packages belong, and the stamp of the packages."""
    image, _ = base.wanted_image()
    digest = hashlib.sha256(Path(__file__).read_bytes() + image.root.name.encode()).hexdigest()
    stamp = hashlib.sha256("\0".join((image.root.name, *wanted_packages())).encode()).hexdigest()
    cache = cache_dir()
    return cache / f"kubernetes-images-{digest[:12]}", cache / f"kubernetes-debs-{stamp[:12]}", stamp


def ready(version: str) -> Prepared:
    """What was prepared for this version of Kubernetes. LabError where something is missing, with the way out."""
    programs, (images, debs, _) = control_plane.programs(), places()
    if programs is None or not images.exists() or not (debs / "stamp").exists():
        raise LabError("the lab of a Kubernetes site needs programs, packages and images: run `make setup-platform`")
    if version != control_plane.version():
        raise LabError(f"versions.kubernetes is {version}, the lab has {control_plane.version()}: pin that version")
    return Prepared(programs, images, debs, controllers.container_toolkit())


def ensure(say: Callable[[str], None]) -> None:
    """Build packages and images unless they are there. Safe against a second caller."""
    image = base.ensure(say)
    images, debs, stamp = places()
    with open(cache_dir() / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (debs / "stamp").exists():
            packages = wanted_packages()
            say(f"package mirror of Kubernetes nodes ({len(packages)} packages and what they need)")
            base.build_mirror(packages, image.root, debs, stamp)
        if not images.exists():
            say("images: lab/pause, lab/busybox")
            with base.scratch(images) as folder:
                build_images(folder)
                folder.rename(images)


def build_images(folder: Path) -> None:
    """Both images as archives in `folder`."""
    with tempfile.TemporaryDirectory() as text:
        work = Path(text)
        (work / "pause.c").write_text(PAUSE_SOURCE)
        base.run(["gcc", "-static", "-Os", "-o", "pause", "pause.c"], cwd=work)
        base.run(["apt-get", "download", *IMAGE_PACKAGES], cwd=work)
        for package in work.glob("*.deb"):
            base.run(["dpkg-deb", "-x", str(package), str(work / "root")])
        busybox = next(path for path in work.glob("root/**/busybox") if path.is_file())
        (folder / "pause.tar").write_bytes(archive(PAUSE, {"pause": work / "pause"}, {}, ["/pause"]))
        links = {f"bin/{name}": "busybox" for name in APPLETS}
        (folder / "busybox.tar").write_bytes(archive(BUSYBOX, {"bin/busybox": busybox}, links, ["/bin/sh"]))


def archive(
    name: str,
    files: Mapping[str, Path],
    links: Mapping[str, str],
    entrypoint: Sequence[str],
    user: str = "",
    env: Sequence[str] = (),
) -> bytes:
    """An image of one layer as an archive in OCI's layout, as `ctr images import` takes it: the same bytes for the same files.

    Source: opencontainers/image-spec v1.1, image-layout.md, manifest.md, config.md.
    """
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        folders = {str(parent) for path in (*files, *links) for parent in Path(path).parents if str(parent) != "."}
        for path in sorted({*folders, "tmp", "etc", "proc", "dev", "sys"}):
            info = tarfile.TarInfo(path)
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if path == "tmp" else 0o755
            tar.addfile(info)
        for path, source in sorted(files.items()):
            content = source.read_bytes()
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
        for path, target in sorted(links.items()):
            info = tarfile.TarInfo(path)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    packed = gzip.compress(layer.getvalue(), 6, mtime=0)
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": list(entrypoint), "Env": ["PATH=/bin", *env], **({"User": user} if user else {})},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]},
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:

        def add(path: str, content: bytes) -> None:
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content))

        def blob(content: bytes, kind: str) -> dict[str, object]:
            digest = hashlib.sha256(content).hexdigest()
            add(f"blobs/sha256/{digest}", content)
            media = f"application/vnd.oci.image.{kind}"
            return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}

        layers = [blob(packed, "layer.v1.tar+gzip")]
        made = blob(json.dumps(config).encode(), "config.v1+json")
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": made,
            "layers": layers,
        }
        listed = blob(json.dumps(manifest).encode(), "manifest.v1+json") | {
            "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.split(":")[-1]}
        }
        add("index.json", json.dumps({"schemaVersion": 2, "manifests": [listed]}).encode())
        add("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
    return out.getvalue()


# ---- nodes ----------------------------------------------------------------------------------------------------------
def node_options(folder: Path) -> list[str]:
    """systemd-nspawn's options of a node that runs a kubelet; makes the folders that they name."""
    for name in OWN_DISKS:
        (folder / name).mkdir(exist_ok=True)
    return [
        "--system-call-filter=@keyring",  # runc joins a session keyring
        "--bind=/dev/null:/dev/kmsg",  # the kubelet opens it, and learns nothing of the host's kernel
        *(f"--bind={folder / name}:/var/lib/{name}" for name in OWN_DISKS),
    ]


def empty(folder: Path) -> None:
    """What a new installation leaves of them: nothing."""
    for name in OWN_DISKS:
        shutil.rmtree(folder / name, ignore_errors=True)
