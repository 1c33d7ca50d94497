"""The root file system that all nodes share, and the package mirror that they install from.

Both are built once per host release and package list, under the cache folder, by the host's own debootstrap and apt.
In: the host's suite and mirror, `playbooks/packages.yaml`. Out: `base-<suite>/` (never written to afterwards: nodes
mount it as the lower layer of an overlay) and `debs-<suite>/` (a flat apt repository).
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.lab.paths import LabError, cache_dir, repo_root

# What every node has before anybody configures it: an init, a login over SSH, the Python that Ansible needs, and what the
# installer of a real server's operating system brings as well (perl, udev).
BASE_PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "openssh-server",
    "python3",
    "python3-apt",
    "iproute2",
    "iputils-ping",
    "ca-certificates",
    "libgomp1",
    "perl",
    "udev",
    "python3-requests",
    "libxml2",
    "pci.ids",
)
# Timers that would reach for mirrors on the internet, and a login prompt on a console that nobody reads.
MASKED_UNITS = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "console-getty.service")
BUILD_LIMIT_S = 1500.0
COMPRESSION = "zstd"  # of the packages in the mirror
RECIPE = "3"  # raise it when _build_root makes something else of the same packages
SIMULATED_OS_RELEASE = 'VARIANT="SIMULATED server of the bringup lab"\nVARIANT_ID=simulated\n'

Progress = Callable[[str], None]


@dataclass(frozen=True)
class BaseImage:
    """Folders of one host release: the node root and the flat apt repository."""

    suite: str
    root: Path
    debs: Path


def host_suite() -> str:
    """Code name of the host's own release, such as 'bookworm' or 'noble'."""
    release = platform.freedesktop_os_release()
    suite = release.get("VERSION_CODENAME")
    if not suite:
        raise LabError(
            "/etc/os-release has no VERSION_CODENAME: the lab's nodes can be built on Debian and Ubuntu only"
        )
    return suite


def wanted_packages() -> list[str]:
    """Packages that roles and `pulumi up` install on nodes, sorted, from playbooks/packages.yaml."""
    listed = yaml.safe_load((repo_root() / "playbooks" / "packages.yaml").read_text())
    return sorted({package for key in ("packages", "by_pulumi") for group in listed[key].values() for package in group})


def run(argv: list[str], **kwargs: Any) -> str:
    done = subprocess.run(
        argv, check=False, capture_output=True, text=True, timeout=BUILD_LIMIT_S, stdin=subprocess.DEVNULL, **kwargs
    )
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
        raise LabError(f"{argv[0]} failed with exit status {done.returncode}:\n{tail}")
    return str(done.stdout)


def _mirror(suite: str) -> str:
    """The archive that the host itself installs `suite` from."""
    rows = run(["apt-get", "indextargets", "--format", "$(CREATED_BY)|$(RELEASE)|$(COMPONENT)|$(REPO_URI)"])
    for row in rows.splitlines():
        created_by, release, component, uri = row.split("|")
        if (created_by, release, component) == ("Packages", suite, "main"):
            return uri
    raise LabError(
        f"the host's apt sources have no 'main' component of {suite}: run `apt-get update` and look at sources"
    )


@contextlib.contextmanager
def _stage(progress: Progress, text: str) -> Iterator[None]:
    began = time.monotonic()
    progress(text)
    yield
    progress(f"{text}: {time.monotonic() - began:.1f} s")


@contextlib.contextmanager
def scratch(target: Path) -> Iterator[Path]:
    """A folder beside `target` that all may read, gone afterwards unless it was renamed to it."""
    folder = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _build_root(suite: str, root: Path) -> None:
    new = root.with_name(root.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    include = ",".join(BASE_PACKAGES)
    run(["debootstrap", "--variant=minbase", f"--include={include}", suite, str(new), _mirror(suite)])
    for unwanted in (
        *new.glob("etc/ssh/ssh_host_*"),  # each node gets its own
        *new.glob("var/cache/apt/archives/*.deb"),
        *new.glob("var/lib/apt/lists/*_*"),
        *new.glob("etc/apt/sources.list*/*"),
        new / "etc/apt/sources.list",
    ):
        unwanted.unlink(missing_ok=True)
    for copied_from_host in ("etc/resolv.conf", "etc/hostname"):
        (new / copied_from_host).unlink(missing_ok=True)
        (new / copied_from_host).write_text("")
    for identity in ("etc/machine-id", "var/lib/dbus/machine-id"):  # a node's is its own UUID
        (new / identity).unlink(missing_ok=True)
    shutil.rmtree(new / "etc/update-motd.d", ignore_errors=True)  # four processes for each login
    release = new / "usr/lib/os-release"
    release.write_text(release.read_text() + SIMULATED_OS_RELEASE)
    for unit in MASKED_UNITS:
        (new / "etc/systemd/system" / unit).symlink_to("/dev/null")
    # A package list that is empty but new makes Ansible's cache_valid_time skip the first update.
    os.utime(new / "var/lib/apt/lists", (0, 0))
    new.rename(root)


def _make_cheap_to_unpack(debs: Path) -> None:
    """Compress every package anew, with zstd instead of xz: all nodes unpack theirs at the same time, on the cores of one host.

    Files, scripts and control data of a package stay; unpacking takes a tenth of the processor time.
    """

    def repack(package: Path) -> None:
        with tempfile.TemporaryDirectory(dir=debs) as folder:
            run(["dpkg-deb", "--raw-extract", str(package), f"{folder}/content"])
            run(
                [
                    "dpkg-deb",
                    "--nocheck",
                    f"-Z{COMPRESSION}",
                    "-z1",
                    "--build",
                    f"{folder}/content",
                    f"{folder}/package",
                ]
            )
            Path(folder, "package").replace(package)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(repack, sorted(debs.glob("*.deb"))))


def build_mirror(packages: list[str], root: Path, debs: Path, stamp: str) -> None:
    (debs / "partial").mkdir(parents=True, exist_ok=True)
    # Resolved against the base root's package database, so that everything missing there is fetched as well.
    run(
        [
            "apt-get",
            "-y",
            "--no-install-recommends",
            "--download-only",
            "-o",
            f"Dir::Cache::archives={debs}",
            "-o",
            f"Dir::State::status={root}/var/lib/dpkg/status",
            "-o",
            "Debug::NoLocking=1",
            "install",
            *packages,
        ]
    )
    _make_cheap_to_unpack(debs)
    index = run(["dpkg-scanpackages", "-m", "."], cwd=debs)
    (debs / "Packages.new").write_text(index)
    (debs / "Packages.new").rename(debs / "Packages")
    (debs / "stamp").write_text(stamp)


def _stamp(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def wanted_image() -> tuple[BaseImage, str]:
    """Where the image of this release and recipe belongs, and the stamp that its package mirror must carry."""
    suite = host_suite()
    root_stamp = _stamp(RECIPE, suite, *BASE_PACKAGES, *MASKED_UNITS, SIMULATED_OS_RELEASE)
    # The folder's name carries its recipe: a running lab keeps the root that it was started from.
    cache = cache_dir()
    image = BaseImage(
        suite, cache / f"base-{suite}-{root_stamp[:8]}", cache / f"debs-{suite}-{root_stamp[:8]}-{COMPRESSION}"
    )
    return image, _stamp(root_stamp, COMPRESSION, *wanted_packages())


def _mirror_is_current(image: BaseImage, debs_stamp: str) -> bool:
    stamp_file = image.debs / "stamp"
    return stamp_file.exists() and stamp_file.read_text() == debs_stamp


def is_ready() -> bool:
    """Whether `ensure` has nothing to build."""
    image, debs_stamp = wanted_image()
    return image.root.exists() and _mirror_is_current(image, debs_stamp)


def ensure(progress: Progress = lambda text: None) -> BaseImage:
    """Return the base image, building what is missing or out of date. Safe against a second caller at the same time.

    A first build downloads about 250 MB and takes a minute or two. Raises LabError with what the failing tool said.
    """
    image, debs_stamp = wanted_image()
    packages = wanted_packages()
    cache_dir().mkdir(parents=True, exist_ok=True)
    with open(cache_dir() / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not image.root.exists():
            with _stage(progress, f"node root file system ({image.suite}, first time only)"):
                _build_root(image.suite, image.root)
        if not _mirror_is_current(image, debs_stamp):
            with _stage(progress, f"package mirror for the nodes ({len(packages)} packages and what they need)"):
                build_mirror(packages, image.root, image.debs, debs_stamp)
    return image


if __name__ == "__main__":
    print(ensure(print))
