"""A Go compiler new enough to build the Pulumi CLI, or Kubernetes.

In: PATH, $GOPROXY. Out: the path of a `go` command. Distributions ship older releases, but the Go project publishes
every release as a module, `golang.org/toolchain`, on the same proxies that serve all other modules. That module is
what the `go` command itself downloads when it switches versions (https://go.dev/doc/toolchain); here it is downloaded
directly, for machines that have no `go` at all, and compared with the hash in the public checksum database.
"""

import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

from infra.toolchain.paths import ToolchainError

GO_VERSION = "1.25.8"  # the same as in go.mod
# https://sum.golang.org/lookup/golang.org/toolchain@v0.0.1-go1.25.8.linux-amd64, and 1.26.8
TOOLCHAIN_HASHES = {
    "1.25.8": {"linux-amd64": "h1:MkNvPo+gHdMv6KJDtF7Ut6u/EG5iJRIfJv5eKmh7bNM="},
    "1.26.8": {"linux-amd64": "h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM="},
}
GOARCH = {"x86_64": "amd64", "aarch64": "arm64"}
DEFAULT_PROXY = "https://proxy.golang.org"
DOWNLOAD_TIMEOUT_S = 60.0  # without a byte arriving


def ensure_go(cache: Path, version: str = GO_VERSION) -> Path:
    """Path of a `go` of at least `version`: the one on PATH when it is new enough, else a downloaded one."""
    found = shutil.which("go")
    if found and go_version(Path(found)) >= parse_version(version):
        return Path(found)
    target = f"{platform.system().lower()}-{GOARCH.get(platform.machine(), platform.machine())}"
    root = cache / f"go{version}.{target}"
    if not (root / "bin" / "go").exists():
        download_go(target, root, version)
    return root / "bin" / "go"


def build_environment(work: Path) -> dict[str, str]:
    """Environment of a build that go.sum pins whole: this Go, modules and compiled packages below `work`, no cgo."""
    return os.environ | {
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-mod=readonly -modcacherw",
        "GOMODCACHE": str(work / "modules"),
        "GOCACHE": str(work / "objects"),
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }


def room_for(work: Path, disk_gb: float) -> None:
    """ToolchainError where the disk has not the room of a build; one that was begun has taken its room already."""
    if (free := shutil.disk_usage(work.parent).free) < disk_gb * 10**9 and not work.exists():
        raise ToolchainError(
            f"{work.parent}: {free / 1e9:.1f} GB are free, the build needs {disk_gb} GB. Free some, or set BRINGUP_CACHE to a "
            "larger disk"
        )


def told(name: str, ensure: Callable[[Callable[[str, float], None]], Path], again: str) -> int:
    """Build as a command does: its progress at each tenth, then where it is. again: the command that goes on after a failure."""
    said: set[tuple[str, int]] = set()

    def say(what: str, share: float) -> None:
        step = (what, int(share * 10))
        if step not in said:
            said.add(step)
            print(f"  {what} {share:.0%}" if share else f"  {what}", flush=True)

    try:
        print(f"  {name}: {ensure(say)}")
    except ToolchainError as error:
        print(f"{name}: {error}", file=sys.stderr)
        print(f"Let GOPROXY be reached (https://go.dev/ref/mod#module-proxy); then run {again} again.", file=sys.stderr)
        return 1
    return 0


def parse_version(text: str) -> tuple[int, ...]:
    """(1, 25, 8) from '1.25.8', and (1, 26) from '1.26rc1': the leading numbers."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    if match is None:
        raise ToolchainError(f"not a version number: {text!r}")
    return tuple(int(part) for part in match.group().split("."))


def go_version(go: Path) -> tuple[int, ...]:
    """Version of an installed Go, such as (1, 25, 8); (0,) for one that does not run or is a development build."""
    # GOTOOLCHAIN=local: ask this one, without switching to what a go.mod in the current folder wants.
    env = os.environ | {"GOTOOLCHAIN": "local"}
    run = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=env, timeout=30, check=False)
    match = re.fullmatch(r"go(\d.*)\s*", run.stdout)
    return parse_version(match.group(1)) if run.returncode == 0 and match else (0,)


def proxies(goproxy: str) -> list[str]:
    """The module proxies in a GOPROXY list, in order; 'direct' and 'off' are none."""
    entries = re.split(r"[,|]", goproxy or DEFAULT_PROXY)
    return [entry.strip().rstrip("/") for entry in entries if entry.strip().startswith(("https://", "http://"))]


def module_hash(archive: Path) -> str:
    """The 'h1:' hash of a module zip: SHA-256 over its sorted list of file hashes and names.

    Source: golang.org/x/mod/sumdb/dirhash, Hash1.
    """
    listing = hashlib.sha256()
    with zipfile.ZipFile(archive) as module:
        for name in sorted(module.namelist()):
            listing.update(f"{hashlib.sha256(module.read(name)).hexdigest()}  {name}\n".encode())
    return "h1:" + base64.b64encode(listing.digest()).decode()


def download_go(target: str, root: Path, version: str = GO_VERSION) -> None:
    """Download, verify and unpack the Go toolchain module for `target` (such as 'linux-amd64') into `root`."""
    pinned = TOOLCHAIN_HASHES[version].get(target)
    if pinned is None:
        raise ToolchainError(f"no Go {version} download is pinned for {target}: install Go >= {version} on PATH")
    module_version = f"v0.0.1-go{version}.{target}"
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent, prefix="go-") as scratch:
        archive = Path(scratch) / "toolchain.zip"
        fetch_module(module_version, archive)
        if (seen := module_hash(archive)) != pinned:
            raise ToolchainError(f"golang.org/toolchain@{module_version}: expected {pinned}, got {seen}")
        with zipfile.ZipFile(archive) as module:
            module.extractall(scratch)
        unpacked = Path(scratch) / f"golang.org/toolchain@{module_version}"
        for folder in ("bin", "pkg/tool"):  # module zips carry no file modes
            for path in (unpacked / folder).rglob("*"):
                path.chmod(0o755)
        unpacked.rename(root)


def fetch_module(version: str, archive: Path) -> None:
    """Write golang.org/toolchain@version to `archive` from the first proxy of $GOPROXY that has it."""
    failures = []
    for proxy in proxies(os.environ.get("GOPROXY", "")):
        url = f"{proxy}/golang.org/toolchain/@v/{version}.zip"
        try:
            with urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_S) as response, archive.open("wb") as file:
                shutil.copyfileobj(response, file)
            return
        except (urllib.error.URLError, TimeoutError) as error:
            failures.append(f"{url}: {error}")
    detail = "; ".join(failures) or f"GOPROXY={os.environ.get('GOPROXY', '')!r} names no proxy"
    raise ToolchainError(
        f"cannot download golang.org/toolchain {version}: {detail}. Install that Go, or a newer one, on PATH instead."
    )
