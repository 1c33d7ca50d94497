"""Which tests can run on this machine, in which order, and what the summary says about those that cannot.

Tests carry `lab` or `gpu` when they need more than Python. A marked test whose needs are not met is skipped with the
need as its reason, and the terminal summary counts the skipped tests per reason, so that a green run on a laptop
cannot be mistaken for a full one. Tests that carry `soak` are long for thoroughness: they run where the environment
variable SOAK_SEED holds a seed (`make soak` sets it to today's date, as in 20261123), and are skipped elsewhere.
"""

import fcntl
import functools
import gc
import importlib.util
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from infra import collector
from infra.lab import LabError, kubernetes
from infra.lab.up import TOOLS
from infra.metal.segment import LOADERS
from infra.toolchain.avd import AVD
from infra.toolchain.control_plane import programs, version
from infra.toolchain.controllers import controllers
from tests.loadable import stages_kept
from tests.plans import plans_kept
from tests.soak import INSTALLER_INITRD
from tests.standing import standing

__all__ = ["plans_kept", "stages_kept", "standing"]

settings.register_profile(  # a test that waits for a core draws as long as it takes
    "bringup", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("bringup")

SYSTEM_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


@functools.cache
def lab_obstacle() -> str | None:
    """Why the embedded lab cannot run here, or None when it can."""
    if not sys.platform.startswith("linux"):
        return f"the lab needs Linux, this is {sys.platform}"
    if os.geteuid() != 0:
        return "the lab needs root"
    missing = {package for tool, package in TOOLS.items() if shutil.which(tool, path=SYSTEM_PATH) is None}
    if missing:
        return f"the lab needs {', '.join(sorted(missing))}: run make setup"
    probe = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, timeout=10, check=False
    )
    if probe.returncode != 0:
        return "the lab needs the right to create network namespaces and mounts"
    return None


NOT_BY_SETUP = frozenset({"chromium", "pdftotext"})
"""Programs that tests of pages use where they are, and that make setup does not install."""
OF_METAL = frozenset({"dnsmasq", "mcopy", "mkfs.vfat", "mmdebstrap", "qemu-system-x86_64", "swtpm", "xorriso", "zstd"})
"""Programs of infra/setup/packages-metal.txt."""


@functools.cache
def gpu_obstacle() -> str | None:
    """Why no NVIDIA GPU can be used here, or None when one can."""
    if not Path("/dev/nvidiactl").exists():
        return "no NVIDIA GPU with a loaded driver"
    return None


def missing(what: str) -> str | None:
    """Why a test that needs `what` cannot run: `root`, `torch`, `pyavd`, `kueue`, `kubernetes-lab`, `ipxe`, `debian-installer`
    or the name of a program; None when it can.
    """
    if what == "root":
        return None if os.geteuid() == 0 else "needs root"
    if what == "torch":
        return None if importlib.util.find_spec("torch") else "needs torch: run make setup (extra lab or gpu)"
    if what == "pyavd":
        return None if AVD.exists() else "needs pyavd in .tools/avd: run make setup"
    if what == "kueue":
        return None if controllers() else "needs Kueue: run make setup-controllers"
    if what == "kubernetes-lab":
        try:
            kubernetes.ready(version())
        except LabError as why:
            return str(why)
        return None
    if what == "ipxe":
        return None if all(path.exists() for path in LOADERS.values()) else "needs iPXE: run infra/setup/metal.sh"
    if what == "debian-installer":
        return (
            None if INSTALLER_INITRD.exists() else "needs Debian's installer, which make soak fetches where apt has it"
        )
    if shutil.which(what, path=SYSTEM_PATH):
        return None
    if what in NOT_BY_SETUP:
        return f"needs {what}"
    return f"needs {what}: run {'infra/setup/metal.sh' if what in OF_METAL else 'make setup'}"


def soak_obstacle() -> str | None:
    """Why the long runs do not run: they do where `make soak` gave a seed."""
    return None if os.environ.get("SOAK_SEED") else "runs in make soak"


@functools.cache
def platform_obstacle() -> str | None:
    """Why no Kubernetes control plane can be started here, or None when one can."""
    return None if programs() else "no Kubernetes in the cache: run make setup-platform"


OBSTACLES: dict[str, Callable[[], str | None]] = {
    "lab": lab_obstacle,
    "gpu": gpu_obstacle,
    "platform": platform_obstacle,
    "soak": soak_obstacle,
}


def pytest_report_header() -> str | None:
    """The seed of a soak, which repeats it: SOAK_SEED=20261123 make soak."""
    seed = os.environ.get("SOAK_SEED")
    return f"soak seed: {seed}" if seed else None


class OneWorkerPerLab(LoadScopeScheduling):
    """`--dist loadscope`: tests that share a lab run in one worker.

    Modules named `…on_lab` share the standing lab; of the others that need a lab, those of one folder.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = Path(nodeid.split("::", 1)[0])
        if on_standing_lab(module):
            return "standing"
        return str(module.parent if names(self.config.rootpath / module, "lab") else module)


def on_standing_lab(module: Path) -> bool:
    return module.stem.endswith("on_lab")


@functools.cache
def names(module: Path, *markers: str) -> bool:
    """Whether a module of tests names one of the markers."""
    text = module.read_text(encoding="utf-8")
    return any(f"mark.{marker}" in text for marker in markers)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """xdist's own groups (`--dist loadgroup`) do not work with this pytest: 3.8.0 sets a field that it no longer reads."""
    return OneWorkerPerLab(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: a worker more than cores, since one in eight seconds of a worker goes by in waiting for what a test started."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m lab`, `-m platform` and `-m "lab or clock"` import only modules that name a marker: the others take 20 s a worker."""
    markers = _markers_alone(config)
    if not markers or collection_path.suffix != ".py":
        return None
    return None if names(collection_path, *markers) else True


def _markers_alone(config: pytest.Config) -> list[str]:
    """The markers of a run of some modules; none for a run of all."""
    markers = config.getoption("markexpr").split(" or ")
    return markers if set(markers) <= {"lab", "platform", "clock"} else []


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Workers that collect all tests do so one after another: in a fresh clone the first compiles them, which takes 12 s of a core,
    and the others read what it wrote.
    """
    opened = os.open(Path(__file__).parent, os.O_RDONLY)
    try:
        if not _markers_alone(session.config):
            fcntl.flock(opened, fcntl.LOCK_EX)
        return (yield)
    finally:
        os.close(opened)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip marked tests that cannot run; put those of the standing lab, of other labs and of time budgets after all others,
    which fail faster. The standing lab's are the longest chain, so they begin before those that run beside them. Tests that
    start virtual machines take longest of all and come first.
    """
    for item in items:
        for marker, obstacle in OBSTACLES.items():
            if item.get_closest_marker(marker) and (reason := obstacle()):
                item.add_marker(pytest.mark.skip(reason=f"{marker}: {reason}"))
        for need in item.iter_markers("needs"):
            for reason in filter(None, map(missing, need.args)):
                item.add_marker(pytest.mark.skip(reason=reason))
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if any("qemu-system-x86_64" in need.args for need in item.iter_markers("needs")):
        return -1
    if item.get_closest_marker("lab"):
        return 1 if on_standing_lab(item.path) else 2
    return 3 if item.get_closest_marker("clock") else 0


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is loaded by now lives to the end: the collector of garbage does not look through it again."""
    gc.collect()
    gc.freeze()
    collector.seldom()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests did not run, and why."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        longrepr = report.longrepr
        reason = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
        reasons[reason.removeprefix("Skipped: ")] += 1
    if deselected := len(terminalreporter.stats.get("deselected", [])):
        reasons["deselected on the command line"] += deselected
    if reasons:
        terminalreporter.section("tests that did not run")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:5d}  {reason}")
