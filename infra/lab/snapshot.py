"""A configured lab, saved and restored in seconds.

    key = snapshot.key(site, plan)      what a saved lab depends on; another key is another lab
    snapshot.save(name, key)            servers shut down, disks are set aside, servers start again
    snapshot.restore(site, plan, key)   the lab as it was saved: same secrets, same disks, servers running

A saved disk is not copied, neither at the save nor at the restore: it becomes a read-only layer below the server's disk.
Saved labs lie in the cache folder, one per lab name, 0700 since they hold the lab's secrets. They are for tests and for
trials: `make demo` starts from factory state.
"""

import hashlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from capacity.model import Plan
from infra.lab import base, disk, node
from infra.lab.client import ask
from infra.lab.faults import active
from infra.lab.lab import load_spec, lock
from infra.lab.paths import LabError, LabPaths, cache_dir, repo_root, write_private
from infra.lab.planned import from_plan
from infra.lab.spec import LabSpec
from infra.lab.up import up
from inventory.delivered.assets import load_assets
from inventory.delivered.gpus import load_gpus
from inventory.site import Site

FORMAT = "1"  # raise it when a saved lab has other contents
SOURCES = ("inventory", "network", "capacity", "infra", "playbooks", "validation/workloads", "uv.lock")
"""What configures a lab, or says how its nodes are configured."""
MAX_AGE_DAYS = 60
"""The BMCs' certificate is valid for 90 days from the build of the lab."""
SHUTDOWN_BUDGET_S = 150.0
"""systemd waits 90 s for a service that does not stop."""
BOOT_BUDGET_S = 180.0
COPY_BUDGET_S = 120.0
POLL_S = 0.2

Progress = Callable[[str], None]


def key(site: Site, plan: Plan) -> str:
    """Digest of everything that a configured lab follows from: plan, playbooks and programs, base image, packages."""
    spec = from_plan(site, plan, load_assets(site), site.catalog, load_gpus(site))
    image, debs_stamp = base.wanted_image()
    digest = hashlib.sha256()
    for part in (FORMAT, spec.to_json(), plan.hash, image.root.name, debs_stamp):
        digest.update(part.encode() + b"\0")
    for path in sorted(path for source in SOURCES for path in _files(repo_root() / source)):
        digest.update(str(path.relative_to(repo_root())).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path] if path.exists() else []
    return [file for file in path.rglob("*") if file.is_file() and file.suffix not in (".pyc", ".md")]


def folder(name: str, saved_key: str) -> Path:
    """Where the saved lab is, if there is one."""
    return cache_dir() / "saved-labs" / name / saved_key


def exists(name: str, saved_key: str) -> bool:
    """Whether a lab was saved under this key, recently enough."""
    complete = folder(name, saved_key) / "complete"
    return complete.exists() and time.time() - complete.stat().st_mtime < MAX_AGE_DAYS * 86400


def save(name: str, saved_key: str, progress: Progress | None = None) -> Path:
    """Save a running lab and start it again; returns the folder. LabError when faults are in force, or a lab that was
    restored itself: its disks rest on an earlier saved lab. An earlier saved lab of this name is removed."""
    say = progress or (lambda text: None)
    paths, home = LabPaths(name), folder(name, saved_key)
    with lock(name):
        spec = load_spec(name)
        if faults := active(name):
            raise LabError(f"lab {name} has faults in force ({faults[0]['done']}): run `bringup lab repair` first")
        if layered := [server.name for server in spec.servers if node.layer(paths.device(server.name))]:
            raise LabError(f"lab {name} was restored from a saved lab itself (disk of {layered[0]})")
        began = time.monotonic()
        kept = ask(name, op="kept")
        _shut_down(spec, kept)
        shutil.rmtree(home.parent, ignore_errors=True)
        home.mkdir(parents=True, mode=0o700)
        write_private(home / "powerd.json", json.dumps(kept))
        for entry in (paths.secrets, paths.pki, paths.known_hosts):
            _copy(entry, home)
        (home / "devices").mkdir()
        for device in sorted((paths.root / "devices").iterdir()):
            _save_device(device, home / "devices" / device.name)
        (home / "complete").touch()
        _power_on(spec, kept)
        say(f"lab {name} saved: {time.monotonic() - began:.1f} s")
    return home


def restore(site: Site, plan: Plan, saved_key: str, progress: Progress | None = None) -> None:
    """Build the lab of a site as it was saved, and wait until its servers have booted."""
    home = folder(site.name, saved_key)
    if not exists(site.name, saved_key):
        raise LabError(
            f"no saved lab {site.name} for this plan and these playbooks: run `bringup lab save` when it stands"
        )
    if LabPaths(site.name).ready.exists():
        raise LabError(f"lab {site.name} is up: run `bringup lab down` first")
    up(site, plan, progress, saved=partial(put_back, home))
    _wait_for_boots(site.name, json.loads((home / "powerd.json").read_text()))


def _save_device(device: Path, target: Path) -> None:
    """Set a device's memory aside: small things are copied, a server's disk becomes the layer below a new one."""
    target.mkdir()
    for entry in device.iterdir():
        if entry.name in ("disk", "root", "work", "notify", "snmp"):
            continue
        _copy(entry, target)
    if (device / "disk").exists():
        _run("mv", str(device / "disk"), str(target / "disk"))
        (device / "layer").write_text(str(target / "disk"))


def put_back(home: Path, paths: LabPaths) -> None:
    """The files of a saved lab in the folder of a lab that is being built."""
    for name in ("secrets", "pki", "known_hosts", "powerd.json"):
        _copy(home / name, paths.root)
    for saved in sorted((home / "devices").iterdir()):
        device = paths.device(saved.name)
        device.mkdir(parents=True)
        for entry in saved.iterdir():
            if entry.name != "disk":
                _copy(entry, device)
        if (saved / "disk").exists():
            (device / "layer").write_text(str(saved / "disk"))


def _copy(source: Path, target: Path) -> None:
    _run("cp", "-a", "--sparse=always", str(source), str(target))


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=COPY_BUDGET_S, check=False)
    if done.returncode:
        raise LabError(f"{' '.join(argv)}: {done.stderr.strip()[-400:]}")


def _shut_down(spec: LabSpec, kept: dict[str, Any]) -> None:
    """Orderly: first those that use the storage, then the storage."""
    running = [server for server in spec.servers if kept["servers"][server.name]["on"]]
    for wave in (
        [server.name for server in running if server.role not in disk.ROLES],
        [server.name for server in running if server.role in disk.ROLES],
    ):
        for name in wave:
            ask(spec.name, op="reset", device=name, kind="GracefulShutdown")
        _until(spec.name, wave, lambda view: view["power"] == "Off", SHUTDOWN_BUDGET_S, "do not shut down")


def _power_on(spec: LabSpec, kept: dict[str, Any]) -> None:
    for name, server in kept["servers"].items():
        if server["on"]:
            ask(spec.name, op="reset", device=name, kind="On")
    _wait_for_boots(spec.name, kept)


def _wait_for_boots(name: str, kept: dict[str, Any]) -> None:
    servers = [server for server, state in kept["servers"].items() if state["on"]]
    _until(name, servers, lambda view: view["ready"], BOOT_BUDGET_S, "do not boot")


def _until(name: str, servers: list[str], true: Callable[[dict[str, Any]], bool], budget_s: float, what: str) -> None:
    end = time.monotonic() + budget_s
    while True:
        views = ask(name, op="view")
        left = [server for server in servers if not true(views[server])]
        if not left:
            return
        if time.monotonic() > end:
            raise LabError(f"{', '.join(left)} {what} within {budget_s:g} s; logs: {LabPaths(name).logs}")
        time.sleep(POLL_S)
