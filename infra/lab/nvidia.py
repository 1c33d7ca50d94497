"""NVIDIA's packages for the lab's nodes: simulated, under NVIDIA's own names, in the versions that the site pins.

In: the packages of a LabSpec (from inventory/gpu_stack.yaml) and the C sources in nvml/. Out: a flat apt repository that
the lab's package mirror serves. Its libnvidia-ml.so.1 is compiled against NVIDIA's nvml.h and reads the node's simulated
GPUs; nvidia-smi and nvidia-persistenced use that library. Its libcuda.so finds no GPU. All else is a version and a
description that says SIMULATED: no kernel module, no CUDA, no NCCL is in it. Every driver package is there in a second
version, for the fault wrong-driver.
"""

import fcntl
import hashlib
import importlib.resources
import importlib.util
import json
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from infra.lab import base
from infra.lab.paths import LabError, cache_dir
from infra.lab.spec import LabSpec
from inventory.gpu_stack import load_stack, release

SOURCES = Path(__file__).with_name("nvml")
OTHER_DRIVERS = ("580.82.07", "570.172.08")
"""Releases of NVIDIA's Unix driver archive; the first that the site does not pin is the other version."""
REVISION = "1"
LIBRARY = ("libnvidia-ml", "libnvidia-compute")  # how the package with libnvidia-ml.so.1 begins, Debian and Ubuntu
COMPILE_BUDGET_S = 120.0
CFLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-Wno-deprecated-declarations")
DECLARED = re.compile(r"DECLDIR +(nvml[A-Za-z0-9_]+) *\(")
PERSISTENCED_UNIT = """[Unit]
Description=NVIDIA Persistence Daemon (SIMULATED by bringup lab)

[Service]
ExecStart=/usr/bin/nvidia-persistenced
Restart=on-failure

[Install]
WantedBy=multi-user.target
"""
NO_CUDA = """/* libcuda.so, SIMULATED by bringup lab: NVIDIA's container toolkit looks for the driver where this file is.
   Without a SONAME, so that no program finds it as libcuda.so.1. 100: CUDA_ERROR_NO_DEVICE (CUDA Driver API, CUresult). */
int cuInit(unsigned int flags) { (void)flags; return 100; }
"""
FABRICMANAGER = """#!/bin/sh
# Fabric Manager, SIMULATED by bringup lab: it has a version, and no NVSwitch to manage.
if [ "$1" = --version ]; then echo "Fabric Manager version is : {version}"; exit 0; fi
echo "no NVSwitch device in this node" >&2
exit 1
"""


@dataclass(frozen=True)
class Binaries:
    """What was compiled for one driver version. `library`: NVML. `cuda`: a libcuda.so that finds no GPU."""

    library: Path
    cuda: Path
    smi: Path
    persistenced: Path


def other_driver(pinned: str) -> str:
    """The driver version that the repository carries beside the pinned one."""
    return next(version for version in OTHER_DRIVERS if version != pinned)


def driver_packages(spec: LabSpec) -> dict[str, str]:
    """The packages of the driver itself, with the pinned version: those that change with the driver."""
    version = _driver(spec)
    return {name: pin for name, pin in spec.gpu_packages if pin == version and "fabricmanager" not in name}


def _driver(spec: LabSpec) -> str:
    return next((pin for name, pin in spec.gpu_packages if name.startswith(LIBRARY)), "")


def ensure(spec: LabSpec) -> Path | None:
    """The repository for this site's pins, built unless it is there; None for a site that pins no driver.

    It is in the cache, and labs with the same pins share it. Safe against a second caller. LabError with the compiler's
    words.
    """
    if not spec.gpu_packages:
        return None
    target = cache_dir() / f"nvidia-{_stamp(spec)[:16]}"
    cache_dir().mkdir(parents=True, exist_ok=True)
    with open(cache_dir() / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _build(spec, target)
    return target


def _stamp(spec: LabSpec) -> str:
    digest = hashlib.sha256(json.dumps([spec.gpu_packages, spec.cuda, platform.machine()]).encode())
    for source in (Path(__file__), header(), *sorted(SOURCES.glob("*.c"))):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def header() -> Path:
    """NVIDIA's nvml.h, from the Python package nvidia-nvml-dev. LabError when it is not installed."""
    if importlib.util.find_spec("nvidia"):
        for folder in importlib.resources.files("nvidia").iterdir():  # cu12, cu13: one per CUDA major
            candidate = Path(str(folder)) / "include" / "nvml.h"
            if candidate.is_file():
                return candidate
    raise LabError("the lab's GPUs need nvml.h of the Python package nvidia-nvml-dev: run `make setup`")


# ---- compiling ------------------------------------------------------------------------------------------------------
def compile_all(folder: Path, driver: str) -> Binaries:
    """Compile library and programs of one driver version into `folder`."""
    newest = load_stack().newest_cuda(driver) or (0, 0)
    include = f"-I{header().parent}"
    defines = (f'-DDRIVER_VERSION="{driver}"', f"-DCUDA_VERSION={newest[0] * 1000 + newest[1] * 10}")
    made = folder / "nvml.o"
    _run("gcc", *CFLAGS, "-fPIC", include, *defines, "-c", "-o", str(made), str(SOURCES / "nvml.c"))
    library = folder / "libnvidia-ml.so.1"
    # All other functions of nvml.h become aliases of one that answers NOT_SUPPORTED, as on metal without the feature.
    written = {line.split()[-1] for line in _run("nm", "-g", "--defined-only", str(made)).splitlines()}
    missing = sorted(set(DECLARED.findall(header().read_text(errors="replace"))) - written)
    aliases = folder / "aliases"
    aliases.write_text("".join(f"-Wl,--defsym,{name}=nvml_not_supported\n" for name in missing))
    _run("gcc", "-shared", "-pthread", f"-Wl,-soname,{library.name}", "-o", str(library), str(made), f"@{aliases}")
    programs = {}
    for source in ("nvidia_smi", "nvidia_persistenced"):
        programs[source] = folder / source.replace("_", "-")
        _run("gcc", *CFLAGS, include, "-o", str(programs[source]), str(SOURCES / f"{source}.c"), str(library))
    cuda = folder / "libcuda.so"
    (folder / "cuda.c").write_text(NO_CUDA)
    _run("gcc", *CFLAGS, "-shared", "-fPIC", "-o", str(cuda), str(folder / "cuda.c"))
    return Binaries(library, cuda, programs["nvidia_smi"], programs["nvidia_persistenced"])


def _run(*argv: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=COMPILE_BUDGET_S, check=False, stdin=subprocess.DEVNULL, cwd=cwd
    )
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
        raise LabError(f"{argv[0]} failed with exit status {done.returncode}:\n{tail}")
    return done.stdout


# ---- packaging ------------------------------------------------------------------------------------------------------
def _build(spec: LabSpec, target: Path) -> None:
    driver = _driver(spec)
    packages = [*spec.gpu_packages, *((name, other_driver(driver)) for name in driver_packages(spec))]
    with base.scratch(target) as folder:
        binaries = {}
        for version in (driver, other_driver(driver)):
            (folder / version).mkdir()
            binaries[version] = compile_all(folder / version, version)
        repository = folder / "repository"
        repository.mkdir()
        for name, pin in packages:
            _package(spec, folder, repository, name, pin, binaries.get(pin))
        (repository / "Packages").write_text(_run("dpkg-scanpackages", "-m", ".", cwd=repository))
        repository.rename(target)


def _package(spec: LabSpec, folder: Path, repository: Path, name: str, pin: str, binaries: Binaries | None) -> None:
    root = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=folder))
    root.chmod(0o755)
    for prefixes, fill in CONTENTS:
        if name.startswith(prefixes):
            fill(spec, root, pin, binaries)
    version = _version(spec, name, pin)
    library = next((other for other in driver_packages(spec) if other.startswith(LIBRARY)), name)
    needs_library = name in driver_packages(spec) and name != library
    (root / "DEBIAN").mkdir()
    fields = {
        "Package": name,
        "Version": version,
        "Architecture": _run("dpkg", "--print-architecture").strip(),
        "Maintainer": "bringup lab <lab@bringup.invalid>",
        "Section": "misc",
        "Priority": "optional",
        "Depends": f"libc6, {library} (= {version})" if needs_library else "libc6",
        "Description": f"SIMULATED by bringup lab: stands for NVIDIA's {name}",
    }
    (root / "DEBIAN" / "control").write_text("".join(f"{key}: {value}\n" for key, value in fields.items()))
    _run("dpkg-deb", "--build", "--root-owner-group", "-Zgzip", str(root), str(repository))


def _version(spec: LabSpec, name: str, pin: str) -> str:
    """The Debian version: NCCL's names its CUDA, the toolkit's own is in its name."""
    if name.startswith("libnccl"):
        return f"{pin}-{REVISION}+cuda{spec.cuda}"
    if name.startswith("cuda-toolkit"):
        major, minor = release(spec.cuda)
        return f"{major}.{minor}.0-{REVISION}"
    return f"{pin}-{REVISION}"


def _fill_library(spec: LabSpec, root: Path, pin: str, binaries: Binaries | None) -> None:
    if binaries:
        place = root / "usr/lib" / _run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
        place.mkdir(parents=True)
        library = place / binaries.library.name.replace(".so.1", f".so.{pin}")
        shutil.copy(binaries.library, library)
        (place / binaries.library.name).symlink_to(library.name)
        shutil.copy(binaries.cuda, place / f"libcuda.so.{pin}")


def _fill_smi(spec: LabSpec, root: Path, pin: str, binaries: Binaries | None) -> None:
    if binaries:
        _program(root, "nvidia-smi").write_bytes(binaries.smi.read_bytes())


def _fill_persistenced(spec: LabSpec, root: Path, pin: str, binaries: Binaries | None) -> None:
    if binaries:
        _program(root, "nvidia-persistenced").write_bytes(binaries.persistenced.read_bytes())
        unit = root / "lib/systemd/system/nvidia-persistenced.service"
        unit.parent.mkdir(parents=True)
        unit.write_text(PERSISTENCED_UNIT)


def _fill_fabricmanager(spec: LabSpec, root: Path, pin: str, binaries: Binaries | None) -> None:
    _program(root, "nv-fabricmanager").write_text(FABRICMANAGER.format(version=pin))


def _fill_toolkit(spec: LabSpec, root: Path, pin: str, binaries: Binaries | None) -> None:
    """Where CUDA's own installation says its version."""
    place = root / f"usr/local/cuda-{spec.cuda}" / "version.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({"cuda": {"name": "CUDA SDK (SIMULATED)", "version": spec.cuda}}) + "\n")


def _program(root: Path, name: str) -> Path:
    path = root / "usr/bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(0o755)
    return path


CONTENTS: tuple[tuple[tuple[str, ...], Callable[[LabSpec, Path, str, Binaries | None], None]], ...] = (
    (LIBRARY, _fill_library),
    (("nvidia-driver-cuda", "nvidia-utils"), _fill_smi),
    (("nvidia-persistenced", "nvidia-utils"), _fill_persistenced),
    (("nvidia-fabricmanager",), _fill_fabricmanager),
    (("cuda-toolkit",), _fill_toolkit),
)
"""By the beginning of a package's name: what is in it, on Debian and on Ubuntu."""
