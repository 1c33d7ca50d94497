"""What runs beside Kubernetes, from Go modules: Kueue, JobSet, kwok, CoreDNS, NVIDIA's device plugin and container toolkit.

    python -m infra.toolchain.controllers            build what is missing, after saying how long it takes
    python -m infra.toolchain.controllers --check    change nothing; exit status 0 when all are there, 1 when one is not

In: $GOPROXY; kubectl of infra.toolchain.control_plane, which renders the manifests; a C compiler for NVIDIA's programs, which load
NVIDIA's library. Out: folders in the cache, with `bin/NAME` and `manifests/NAME.yaml`: the controllers, and one each for CoreDNS,
device plugin and toolkit, which the lab's nodes alone need. A module is pinned here by version and hash, and all that it requires
by its own go.sum. So its manifests are pinned as well: they are files of the module, and kubectl is of one version.
"""

import hashlib
import json
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.toolchain import control_plane
from infra.toolchain.control_plane import GO_VERSION, NICE
from infra.toolchain.golang import build_environment, ensure_go, room_for, told
from infra.toolchain.paths import ToolchainError, cache_dir
from infra.toolchain.pulumi_cli import Progress, build_counting, locked, run

CPU_MINUTES = 18
"""Measured module by module: kueue 371, jobset 179, kwok 130, device plugin 39, coredns 262, toolkit 68 s. This program was not
timed whole."""
DISK_GB = 4
"""Measured: modules and compiled packages while the controllers build; the others follow one by one. 0.3 GB stay."""
MEMORY_GB = 2
"""Measured: Kueue's linker, 1.6 GB."""
BUILD_LIMIT_S = 3 * 3600.0


@dataclass(frozen=True)
class Program:
    """One controller. `package` is what is built; `manifests` the folders of its module that kustomize renders, in this order."""

    name: str
    module: str
    version: str
    hash: str
    package: str
    manifests: tuple[str, ...]

    @property
    def pinned(self) -> str:
        return f"{self.module}@{self.version}"


PROGRAMS = (
    Program(
        "kwok",
        "sigs.k8s.io/kwok",
        "v0.8.0",
        "h1:OTIOTwgROqPMovcTwxICx2eYQ4AwLpSx5EpjbDKF4SQ=",
        "./cmd/kwok",
        (
            "kustomize/crd",
            "kustomize/stage/node/fast",
            "kustomize/stage/node/heartbeat-with-lease",
            "kustomize/stage/pod/general",
        ),
    ),
    Program(
        "kueue",
        "sigs.k8s.io/kueue",
        "v0.15.0",
        "h1:9Khzc2ne6/eWuZx5o+R4KlVBzh3kZkTIMzpPC2e8Spg=",
        "./cmd/kueue",
        ("config/default",),
    ),
    Program(
        "jobset",
        "sigs.k8s.io/jobset",
        "v0.11.0",
        "h1:1r2uTNQmylnqG/WCSSDADgNkHryvyUaCNCOgvSPWpN8=",
        ".",
        ("config/default",),
    ),
)
"""Hashes: Sum of `go mod download -json`, which asks the public checksum database (https://sum.golang.org/lookup/MODULE@VERSION)."""


DEVICE_PLUGIN = Program(
    "nvidia-device-plugin",
    "github.com/NVIDIA/k8s-device-plugin",
    "v0.18.0",
    "h1:zTAcR+pU90bEFwLD6WVFn2F77h8bDzqpIuqn+O2Sl/s=",
    "./cmd/nvidia-device-plugin",
    (),
)
"""Its manifest is a file of the module that needs no rendering (third_party/k8s-device-plugin)."""


TOOLKIT = tuple(
    Program(
        name,
        "github.com/NVIDIA/nvidia-container-toolkit",
        "v1.18.0",
        "h1:bXoKq9C1WHU5fF6VqXvX3RkMzpp4ihTUgBPrh66vTf0=",
        f"./cmd/{name}",
        (),
    )
    for name in ("nvidia-container-runtime", "nvidia-ctk")
)
"""The two programs of NVIDIA's container toolkit that start a container with GPUs."""
COREDNS = Program(
    "coredns",
    "github.com/coredns/coredns",
    "v1.14.2",
    "h1:L6ECLwm4Fjg7NJamtGBFDBjk/uqvCJjfgAEhrxh5zJo=",
    ".",
    (),
)
"""The cluster's DNS, with the plugins that the project's image has."""
CONTAINER_TOOLKIT = ("nvidia-container-toolkit", TOOLKIT)
"""Its folder's name, and what is in it."""


def folder(name: str = "controllers", programs: Sequence[Program] = PROGRAMS) -> Path:
    """Where the build of today's pins is, or will be."""
    digest = hashlib.sha256(repr(tuple(programs)).encode()).hexdigest()
    return cache_dir() / f"{name}-{platform.machine()}-{digest[:12]}"


def controllers() -> Path | None:
    """The folder with `bin` and `manifests`; None before `make setup-controllers`."""
    return folder() if folder().is_dir() else None


def device_plugin() -> Path | None:
    """The device plugin's program, which the lab's nodes run; None before `make setup-controllers`."""
    found = folder(DEVICE_PLUGIN.name, [DEVICE_PLUGIN])
    return found / "bin" / DEVICE_PLUGIN.name if found.is_dir() else None


def container_toolkit() -> Path | None:
    """The folder of the toolkit's programs, which the lab's nodes run; None before `make setup-controllers`."""
    found = folder(*CONTAINER_TOOLKIT)
    return found / "bin" if found.is_dir() else None


def coredns() -> Path | None:
    """CoreDNS, which the lab's nodes run; None before `make setup-controllers`."""
    found = folder(COREDNS.name, [COREDNS])
    return found / "bin" / COREDNS.name if found.is_dir() else None


def announcement() -> str:
    """What a build costs, for the person who starts it."""
    names = ", ".join(
        f"{one.name} {one.version.removeprefix('v')}" for one in (*PROGRAMS, DEVICE_PLUGIN, COREDNS, *TOOLKIT)
    )
    return (
        f"{names} will be built from Go modules into {folder()}: about {CPU_MINUTES} minutes of processor time and the download of "
        f"0.4 GB, {DISK_GB} GB of disk while they build and 0.3 GB afterwards, {MEMORY_GB} GB of memory. A run that was stopped "
        "goes on where it was."
    )


def ensure(progress: Progress) -> Path:
    """Build what is not there; the folder with `bin` and `manifests`."""
    cache = cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / "controllers.lock"):
        made = controllers() or build(folder(), PROGRAMS, progress)
        if device_plugin() is None:
            build(folder(DEVICE_PLUGIN.name, [DEVICE_PLUGIN]), [DEVICE_PLUGIN], progress, cgo=True)
        if coredns() is None:
            build(folder(COREDNS.name, [COREDNS]), [COREDNS], progress)
        if container_toolkit() is None:
            build(folder(*CONTAINER_TOOLKIT), TOOLKIT, progress, cgo=True)
        return made


def all_there() -> bool:
    """Whether nothing is left to build."""
    return None not in (controllers(), device_plugin(), coredns(), container_toolkit())


def build(target: Path, programs: Sequence[Program], progress: Progress, cgo: bool = False) -> Path:
    """Build programs into `target`. The caches of modules and packages stay after a failure, and go after a success."""
    kubernetes = control_plane.programs()
    if kubernetes is None:
        raise ToolchainError("kubectl of Kubernetes' build writes the manifests: run make setup-platform first")
    cache = target.parent
    work = cache / "build-controllers"
    room_for(work, DISK_GB)
    progress(f"getting Go {GO_VERSION}", 0.0)
    go = str(ensure_go(cache, GO_VERSION))
    env = build_environment(work) | {"CGO_ENABLED": str(int(cgo))}
    with tempfile.TemporaryDirectory(dir=cache, prefix="controllers-") as scratch:
        made = Path(scratch) / "made"
        for part in ("bin", "manifests"):
            (made / part).mkdir(parents=True)
        for one in programs:
            progress(f"downloading {one.pinned}", 0.0)
            source = download(one, go, env, cache)
            if one.manifests:
                (made / "manifests" / f"{one.name}.yaml").write_text(render(one, source, kubernetes))
            total = len(
                run([go, "list", "-deps", one.package], cwd=source, env=env, limit_s=BUILD_LIMIT_S).splitlines()
            )
            command = ["nice", "-n", str(NICE), go, "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w"]
            build_counting(
                [*command, "-o", str(made / "bin" / one.name), one.package], source, env, total, progress, BUILD_LIMIT_S
            )
        made.rename(target)
    shutil.rmtree(work)
    return target


def download(one: Program, go: str, env: Mapping[str, str], cwd: Path) -> Path:
    """The unpacked module. ToolchainError where it is not the pinned one."""
    # -mod=readonly has no meaning outside a module, and `go mod download` refuses it
    outside = {**env, "GOFLAGS": "-modcacherw"}
    said = json.loads(run([go, "mod", "download", "-json", one.pinned], cwd=cwd, env=outside, limit_s=BUILD_LIMIT_S))
    if said["Sum"] != one.hash:
        raise ToolchainError(f"{one.pinned}: expected {one.hash}, got {said['Sum']}. Nothing of it was used")
    return Path(said["Dir"])


def render(one: Program, source: Path, kubernetes: Path) -> str:
    """The manifests of a module as kustomize writes them."""
    parts = [
        run([str(kubernetes / "kubectl"), "kustomize", str(source / part)], limit_s=120.0) for part in one.manifests
    ]
    return "---\n".join(parts)


def main(argv: list[str]) -> int:
    if all_there():
        if "--check" not in argv:
            print(f"Kueue, JobSet, kwok, CoreDNS, NVIDIA's device plugin and toolkit are in {cache_dir()}.")
        return 0
    if "--check" in argv:
        return 1
    print(announcement(), flush=True)
    return told("controllers", ensure, "make setup-controllers")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
