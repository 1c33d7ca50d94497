"""Kubernetes as one binary: etcd, the control plane, kubectl and the programs of a node, built from Go modules into the cache.

    python -m infra.toolchain.control_plane            build what is missing, after saying how long it takes
    python -m infra.toolchain.control_plane --check    change nothing; exit status 0 when it is there, 1 when it is not
    python -m infra.toolchain.control_plane --folder   the folder with the programs, for the role kubernetes; status 1 without them

In: kubernetes/{go.mod, go.sum, main.go}, which pin every module by version and hash; $GOPROXY. Out: a folder in the cache whose
`bin` holds the binary and a link per program. docs/decisions/0381-kubernetes-is-built-from-its-modules.md says why it is built.
"""

import platform
import re
import shutil
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from infra.toolchain.golang import build_environment, ensure_go, room_for, told
from infra.toolchain.paths import ToolchainError, cache_dir
from infra.toolchain.pulumi_cli import Progress, build_counting, locked, run

SOURCE = Path(__file__).parent / "kubernetes"
GO_VERSION = "1.26.8"
"""At least that of go.mod; its hash is in golang.py."""
PROGRAMS = (
    "etcd",
    "etcdctl",
    "etcdutl",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kubeadm",
    "kubelet",
    "kube-proxy",
)
BINARY = "kubernetes"
CPU_MINUTES = 12
"""Measured: 698 s of processor time from empty caches, download apart (2 cores, Go 1.26.8, 2,910 packages)."""
DISK_GB = 5
"""Measured: modules 1.2 GB and compiled packages 3.4 GB while it builds; 0.17 GB stay."""
MEMORY_GB = 3
"""Measured: the linker's peak is 2.6 GB."""
BUILD_LIMIT_S = 3 * 3600.0
"""A busy machine took 42 minutes; only a build that stands still takes longer than this."""
NICE = 10


def version() -> str:
    """The release that go.mod pins: '1.36.3'."""
    found = re.search(r"^\s*k8s\.io/kubernetes v(\S+)$", (SOURCE / "go.mod").read_text(), re.M)
    if found is None:
        raise ToolchainError(f"{SOURCE / 'go.mod'}: no line `k8s.io/kubernetes vX.Y.Z`")
    return found[1]


def folder() -> Path:
    """Where the build of today's sources is, or will be."""
    digest = sha256(b"".join((SOURCE / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))).hexdigest()
    return cache_dir() / f"kubernetes-{version()}-{platform.machine()}-{digest[:12]}"


def programs() -> Path | None:
    """The folder with the programs; None before `make setup-platform`."""
    return folder() / "bin" if (folder() / "bin" / BINARY).exists() else None


def announcement() -> str:
    """What a build costs, for the person who starts it."""
    return (
        f"Kubernetes {version()} will be built from Go modules into {folder()}: about {CPU_MINUTES} minutes of processor time "
        f"(half of it on two idle cores) and the download of 1.2 GB, {DISK_GB} GB of disk while it builds and 0.2 GB afterwards, "
        f"{MEMORY_GB} GB of memory. A run that was stopped goes on where it was."
    )


def ensure(progress: Progress) -> Path:
    """Build unless it is there; the folder with the programs."""
    cache = cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / "kubernetes.lock"):
        return programs() or build(folder(), progress)


def build(target: Path, progress: Progress) -> Path:
    """Build into `target`. The caches of modules and packages stay after a failure, for the next try, and go after a success."""
    cache = target.parent
    work = cache / "build-kubernetes"
    room_for(work, DISK_GB)
    progress(f"getting Go {GO_VERSION}", 0.0)
    go = str(ensure_go(cache, GO_VERSION))
    env = build_environment(work)
    progress("downloading Go modules", 0.0)
    total = len(run([go, "list", "-deps", "."], cwd=SOURCE, env=env, limit_s=BUILD_LIMIT_S).splitlines())
    with tempfile.TemporaryDirectory(dir=cache, prefix="kubernetes-") as scratch:
        made = Path(scratch) / "bin"
        made.mkdir()
        command = ["nice", "-n", str(NICE), go, "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", stamp()]
        build_counting([*command, "-o", str(made / BINARY), "."], SOURCE, env, total, progress, BUILD_LIMIT_S)
        for name in PROGRAMS:
            (made / name).symlink_to(BINARY)
        told = run([str(made / "kube-apiserver"), "--version"], limit_s=60.0).strip()
        if told != f"Kubernetes v{version()}":
            raise ToolchainError(f"built from {SOURCE}: expected Kubernetes v{version()}, the program says {told}")
        target.mkdir()
        made.rename(target / "bin")
    shutil.rmtree(work)
    return target / "bin"


def stamp() -> str:
    """Linker flags: without them the server calls itself v0.0.0-master."""
    major, minor = version().split(".")[:2]
    server, client = "k8s.io/component-base/version", "k8s.io/client-go/pkg/version"
    values = {
        f"{server}.gitVersion": f"v{version()}",
        f"{server}.gitMajor": major,
        f"{server}.gitMinor": minor,
        f"{client}.gitVersion": f"v{version()}",
    }
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in values.items())])


def main(argv: list[str]) -> int:
    if "--folder" in argv:
        print(
            programs() or "no Kubernetes in the cache: run make setup-platform",
            file=sys.stdout if programs() else sys.stderr,
        )
        return 0 if programs() else 1
    if programs() is not None:
        if "--check" not in argv:
            print(f"Kubernetes {version()} is in {folder()}.")
        return 0
    if "--check" in argv:
        return 1
    print(announcement(), flush=True)
    return told(f"Kubernetes {version()}", ensure, "make setup-platform")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
