"""The Pulumi CLI that fits the pinned Python SDK.

In: PATH, the cache, the network. Out: `pulumi` and `pulumi-language-python` in one `bin` folder. In this order:

1. the `pulumi` on PATH, when it is at least as new as the SDK;
2. an earlier result in the cache;
3. Pulumi's own installer, https://get.pulumi.com;
4. where that host cannot be reached: a build from the Go modules that Pulumi publishes, with the language host in
   `cmd/pulumi-language-python`, since Pulumi's own one is not published as a module of a fitting version.
"""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import os
import platform
import shutil
import stat
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from infra.toolchain.golang import build_environment, ensure_go, parse_version
from infra.toolchain.paths import ToolchainError, cache_dir, pulumi_link, tools_dir

Progress = Callable[[str, float], None]  # what is being done, and which share of it (0 to 1) is finished

INSTALLER_URL = "https://get.pulumi.com/install.sh"
INSTALLER_ANSWER_S = 5.0  # a host that cannot be reached must not hold up the build
INSTALLER_LIMIT_S = 600.0
BUILD_LIMIT_S = 2400.0
VERSION_LIMIT_S = 30.0
MODULE = "github.com/pulumi/pulumi"
EXECUTABLES = ("pulumi", "pulumi-language-python")
HELPERS = ("cmd/pulumi-language-python-exec", "dist/pulumi-resource-pulumi-python")  # scripts of the SDK module


@dataclass(frozen=True)
class Cli:
    """An available CLI: its folder of executables and where it came from ('PATH', 'installer' or 'built')."""

    bin: Path
    origin: str


def sdk_version() -> str:
    """Version of the installed Pulumi SDK, which the CLI has to fit: '3.232.0'."""
    return importlib.metadata.version("pulumi")


def fits(version: str) -> bool:
    """Whether a CLI of this version ('v3.240.1') runs programs of the pinned SDK: same major, not older."""
    cli, sdk = parse_version(version.strip().removeprefix("v")), parse_version(sdk_version())
    return cli[0] == sdk[0] and cli >= sdk


def cli_version(pulumi: Path) -> str:
    """What `pulumi version` prints, such as 'v3.232.0'."""
    env = os.environ | {"PULUMI_SKIP_UPDATE_CHECK": "true"}
    run = subprocess.run(
        [pulumi, "version"], capture_output=True, text=True, env=env, timeout=VERSION_LIMIT_S, check=False
    )
    if run.returncode != 0:
        raise ToolchainError(f"{pulumi} version failed: {run.stderr.strip()}")
    return run.stdout.strip()


def on_path(search: str | None = None) -> Cli | None:
    """The CLI that the machine's owner installed, when it fits. This clone's own link does not count."""
    own = tools_dir().resolve()
    folders = (search if search is not None else os.environ.get("PATH", "")).split(os.pathsep)
    foreign = os.pathsep.join(f for f in folders if f and not Path(os.path.abspath(f)).is_relative_to(own))
    found = [shutil.which(name, path=foreign) for name in EXECUTABLES]
    if found[0] is None or found[1] is None or not fits(cli_version(Path(found[0]))):
        return None
    return Cli(Path(found[0]).parent, "PATH")


def installed() -> Cli | None:
    """The CLI that this clone links to, when it is complete and fits the SDK."""
    folder = pulumi_link() / "bin"
    if not all((folder / name).exists() for name in EXECUTABLES):
        return None
    version, origin = (pulumi_link() / "origin").read_text().split()
    outdated = version != sdk_version() or (origin == "built" and pulumi_link().resolve().name != built_name())
    return None if outdated else Cli(folder, origin)


def source_hash() -> str:
    """Hash of what the build is made from, so that a changed language host gives a new folder in the cache."""
    source = Path(__file__).parent
    digest = hashlib.sha256()
    for path in (source / "go.mod", source / "go.sum", *sorted((source / "cmd").rglob("*.go"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def built_name() -> str:
    """Folder in the cache of a CLI that was built from today's sources."""
    return f"pulumi-{sdk_version()}-{platform.machine()}-{source_hash()}"


def ensure(progress: Progress) -> Cli:
    """Make a fitting CLI available and return it. Takes seconds when it was built or downloaded before."""
    if (cli := installed() or on_path()) is not None:
        return cli
    cache = cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    downloaded, built = cache / f"pulumi-{sdk_version()}-{platform.machine()}-installer", cache / built_name()
    with locked(cache / "lock"):
        folder = next((known for known in (downloaded, built) if known.exists()), None)
        if folder is None:
            progress("asking get.pulumi.com", 0.0)
            folder = downloaded if run_installer(downloaded) else build(built, progress)
    link_to(folder)
    return Cli(pulumi_link() / "bin", (folder / "origin").read_text().split()[1])


def link_to(folder: Path) -> None:
    """Point this clone's link at a folder of the cache, in one step."""
    pulumi_link().parent.mkdir(exist_ok=True)
    new = pulumi_link().with_name("pulumi.new")
    new.unlink(missing_ok=True)
    new.symlink_to(folder)
    new.replace(pulumi_link())


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file: two clones that are set up at once build one after the other, and the second finds it done."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_installer(target: Path) -> bool:
    """Install the official release into `target`. False when its host does not answer, so that nothing was done."""
    try:
        with urllib.request.urlopen(INSTALLER_URL, timeout=INSTALLER_ANSWER_S) as response:
            script = response.read()
    except (urllib.error.URLError, TimeoutError):
        return False
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="installer-") as scratch:
        path = Path(scratch) / "install.sh"
        path.write_bytes(script)
        run(
            ["sh", str(path), "--version", sdk_version(), "--install-root", scratch, "--no-edit-path"],
            limit_s=INSTALLER_LIMIT_S,
        )
        finish(Path(scratch), target, "installer")
    return True


def build(target: Path, progress: Progress) -> Path:
    """Build the CLI and the language host from Go modules into `target`. About 4 CPU minutes and 1.1 GB of memory.

    The module and build caches (2.5 GB) stay after a failure, for the next try, and go after a success.
    """
    cache = target.parent
    progress(f"getting Go {'.'.join(map(str, parse_version(go_mod_version())))}", 0.0)
    go = ensure_go(cache)
    work = cache / "build"
    env = build_environment(work)
    source = Path(__file__).parent
    packages = [f"{MODULE}/pkg/v3/cmd/pulumi", "./cmd/..."]
    progress("downloading Go modules", 0.0)
    total = len(run([str(go), "list", "-deps", *packages], cwd=source, env=env, limit_s=BUILD_LIMIT_S).splitlines())
    with tempfile.TemporaryDirectory(dir=cache, prefix="pulumi-") as scratch:
        executables = Path(scratch) / "bin"
        executables.mkdir()
        stamp = f"-s -w -X {MODULE}/sdk/v3/go/common/version.Version=v{sdk_version()}"
        command = [str(go), "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", stamp]
        build_counting([*command, "-o", f"{executables}{os.sep}", *packages], source, env, total, progress)
        sdk = run([str(go), "list", "-m", "-f", "{{.Dir}}", f"{MODULE}/sdk/v3"], cwd=source, env=env, limit_s=60.0)
        for helper in HELPERS:
            shutil.copy(Path(sdk.strip()) / "python" / helper, executables)
        finish(Path(scratch), target, "built")
    shutil.rmtree(work)
    return target


def go_mod_version() -> str:
    """The Go version that go.mod asks for."""
    lines = (Path(__file__).parent / "go.mod").read_text().splitlines()
    return next(line.removeprefix("go ") for line in lines if line.startswith("go "))


def build_counting(
    command: list[str], cwd: Path, env: dict[str, str], total: int, progress: Progress, limit_s: float = BUILD_LIMIT_S
) -> None:
    """Run `go build -v`, which names each of `total` packages as it compiles it, and report the share."""
    deadline = time.monotonic() + limit_s
    said: list[str] = []
    with subprocess.Popen(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line.rstrip())
            progress("compiling Go packages", min(len(said) / total, 1.0))
            if time.monotonic() > deadline:
                process.kill()
                raise ToolchainError(f"go build did not finish within {limit_s:.0f} s")
    if process.returncode != 0:
        raise ToolchainError("go build failed:\n" + "\n".join(said[-15:]))


def finish(scratch: Path, target: Path, origin: str) -> None:
    """Check that the executables in scratch/bin run and fit, then move that folder to its final place."""
    executables = scratch / "bin"
    for path in executables.iterdir():
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    if not fits(seen := cli_version(executables / "pulumi")):
        raise ToolchainError(f"expected a Pulumi CLI that fits SDK {sdk_version()}, got {seen}")
    (scratch / "origin").write_text(f"{sdk_version()} {origin}\n")
    target.mkdir()
    for name in ("bin", "origin"):
        (scratch / name).rename(target / name)


def run(command: list[str], limit_s: float, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Output of a command; ToolchainError with its last words when it fails or takes longer than `limit_s`."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(f"{command[0]} {command[1]} did not finish within {limit_s:.0f} s") from error
    except subprocess.CalledProcessError as error:
        words = "\n".join((error.stderr or error.stdout).strip().splitlines()[-15:])
        raise ToolchainError(f"{' '.join(command)} failed ({error.returncode}):\n{words}") from error
    return done.stdout
