#!/usr/bin/python3
"""Ansible module: Debian packages in the pinned upstream version, with one look at dpkg when all is well."""

import base64
import fcntl
import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import fetch_url

DOCUMENTATION = r"""
module: bringup_packages
short_description: Debian packages, some pinned to an upstream version
description:
  - Asks dpkg first. Package lists are fetched and apt-get runs only when a package is missing or of another version.
  - Package lists that this module fetched are fetched again after 10 minutes, or when the node's sources changed.
  - Services of new packages are enabled and not started. They start with the configuration that their role writes, never with
    the one of the package. A run that replaces a package with services of its own starts and restarts as the packages want.
  - With C(preflight) nothing is installed. The answer says which packages no repository has. Repositories that the node
    does not have yet are read with lists and keys in a temporary folder. Only the node's own package lists are renewed.
options:
  packages:
    description: Package names.
    type: list
    elements: str
    required: true
  pins:
    description: Upstream version (without epoch and Debian revision) by package name.
    type: dict
    default: {}
  hold:
    description: Whether the packages are held, so that no other run of apt changes them.
    type: bool
    default: false
  budget_s:
    description: Seconds for apt-get in all.
    type: int
    default: 280
  preflight:
    description: Whether to say what cannot be had and to install nothing. Check mode makes no difference.
    type: bool
    default: false
  repositories:
    description: >-
      With preflight, the repositories that the node gets in the play (name, uris, suites, components, keyring, and either
      key_base64 or key_url and fingerprint).
    type: list
    elements: dict
    default: []
"""
RETURN = r"""
installed:
  description: Packages that were (in check mode, would be) installed or brought to the pinned version.
  type: list
  returned: always
held:
  description: Packages that were (in check mode, would be) put on hold.
  type: list
  returned: always
missing:
  description: With preflight, what no repository has, each with package, pin ('' for any version) and offered versions.
  type: list
  returned: preflight
problems:
  description: With preflight, why a source or a key could not be read.
  type: list
  returned: preflight
"""

LOCK_WAIT_S = 60
HOLD_BUDGET_S = 60
FETCH_BUDGET_S = 30
APT = ["apt-get", "-q", "-y", "-o", f"DPkg::Lock::Timeout={LOCK_WAIT_S}", "-o", "Acquire::Retries=3"]
SOURCES = Path("/etc/apt")
STAMP = Path("/run/bringup-apt-lists")
"""When this module last fetched the package lists (its mtime), and from which sources (a digest). Gone after a boot."""
FRESH_S = 600
SCRIPTS = Path("/var/lib/dpkg/info")
"""Where dpkg keeps the maintainer scripts of installed packages."""
UPDATES = Path("/var/lib/dpkg/updates")
"""What dpkg is doing, in files named by digits; empty when it came to its end. apt-get refuses to run otherwise."""
LOCKS = [Path("/var/lib/dpkg/lock-frontend"), Path("/var/lib/dpkg/lock")]
KEPT = ["--force-confdef", "--force-confold"]
KEEP_CONFIG = [word for option in KEPT for word in ("-o", f"Dpkg::Options::={option}")]


class PackageError(Exception):
    """The message names the package and what apt said."""


class TooSlowError(PackageError):
    """A program did not end within its budget."""


def upstream(version: str) -> str:
    """'1:9.2p1-2+deb12u7' -> '9.2p1' (Debian policy 5.6.12: [epoch:]upstream[-revision])."""
    rest = version.split(":", 1)[-1]
    return rest.rpartition("-")[0] or rest


def installed_versions(dpkg_output: str) -> dict[str, str]:
    """Package -> version, from lines 'STATUS\tPACKAGE\tVERSION' of dpkg-query; only fully installed ones."""
    lines = [line.split("\t") for line in dpkg_output.splitlines()]
    return {package: version for status, package, version in lines if status.split()[1:] == ["ok", "installed"]}


def held(dpkg_output: str) -> set[str]:
    """Packages on hold, from the same lines."""
    lines = [line.split("\t") for line in dpkg_output.splitlines()]
    return {package for status, package, _ in lines if status.split()[:1] == ["hold"]}


def wrong(packages: list[str], pins: dict[str, str], have: dict[str, str]) -> list[str]:
    """Packages that are missing or whose upstream version is not the pinned one."""
    return [
        package
        for package in packages
        if package not in have or (package in pins and upstream(have[package]) != pins[package])
    ]


def offers(madison: str) -> dict[str, list[str]]:
    """Package -> versions, each once, in the order of `apt-cache madison`: 'slurmd | 22.05.8-4 | http://mirror ./ Packages'."""
    found: dict[str, list[str]] = {}
    for line in madison.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        # `Sources` are rows of source packages, which cannot be installed.
        if len(cells) > 2 and not cells[2].endswith(" Sources") and cells[1] not in found.setdefault(cells[0], []):
            found[cells[0]].append(cells[1])
    return found


def not_offered(packages: list[str], pins: dict[str, str], offered: dict[str, list[str]]) -> list[dict[str, Any]]:
    """Packages that cannot be had: none of the offered versions is the pinned one, or there is none at all."""
    return [
        {"package": package, "pin": pins.get(package, ""), "offered": offered.get(package, [])}
        for package in packages
        if not any(package not in pins or upstream(version) == pins[package] for version in offered.get(package, []))
    ]


def candidate(package: str, pin: str, madison: str) -> str:
    """The full version to install: the first that `apt-cache madison` lists with the pinned upstream version."""
    offered = offers(madison).get(package, [])
    for version in offered:
        if upstream(version) == pin:
            return version
    raise PackageError(
        f"{package}: the site pins version {pin}; this node's sources offer {', '.join(offered) or 'no version at all'}"
    )


def run(argv: list[str], budget_s: float, more: Mapping[str, str] = MappingProxyType({})) -> str:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", **more}
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=budget_s, check=False, env=environment)
    except subprocess.TimeoutExpired:
        raise TooSlowError(
            f"{' '.join(argv[:2])} took over {budget_s:.0f} s and was ended; run the playbook again"
        ) from None
    if done.returncode:
        errors = [line for line in (done.stderr + done.stdout).splitlines() if line.startswith(("E:", "dpkg: error"))]
        raise PackageError(f"{argv[0]} failed: {' '.join(errors) or done.stderr.strip()}")
    return done.stdout


def query(packages: list[str]) -> str:
    argv = ["dpkg-query", "-W", "-f", "${Status}\t${Package}\t${Version}\n", *packages]
    # Exit status 1 means that some of them are unknown to dpkg, which is an answer.
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout


def sources_digest() -> str:
    """Changes with any source of the node."""
    files = [SOURCES / "sources.list", *sorted((SOURCES / "sources.list.d").glob("*"))]
    read = [f"{path}\0{path.read_text(errors='replace')}" for path in files if path.is_file()]
    return hashlib.sha256("\0".join(read).encode()).hexdigest()


def lists_are_fresh() -> bool:
    """Whether this module fetched the node's package lists a moment ago, from the sources that the node has now."""
    try:
        return 0 <= time.time() - STAMP.stat().st_mtime < FRESH_S and STAMP.read_text() == sources_digest()
    except OSError:
        return False


def update(budget_s: float) -> None:
    """Fetch the node's package lists. A source that does not answer is an error, and leaves no stamp."""
    run([*APT, "-o", "APT::Update::Error-Mode=any", "update"], budget_s)
    STAMP.write_text(sources_digest())


def on_node(repository: dict[str, Any]) -> bool:
    """Whether the node's own sources have the repository as it is wanted: its lists are then among the node's."""
    wanted = [f"URIs: {repository['uris']}", f"Suites: {' '.join(repository['suites'])}"]
    if repository.get("components"):
        wanted.append(f"Components: {' '.join(repository['components'])}")
    try:
        lines = (SOURCES / "sources.list.d" / f"{repository['name']}.sources").read_text().splitlines()
        if "key_base64" in repository and Path(repository["keyring"]).read_bytes() != given_key(repository):
            return False
    except OSError:
        return False
    return all(line in lines for line in wanted)


def given_key(repository: dict[str, Any]) -> bytes:
    """The key that the site gives for a repository."""
    return base64.b64decode(repository["key_base64"], validate=True)


def write_key(repository: dict[str, Any], folder: Path, fetch: Callable[[str], bytes], end: float) -> Path:
    """The repository's key in a file of `folder`: the site's, or the published one if it has the fingerprint."""
    if "key_base64" in repository:
        # apt tells an armoured key from a binary one by the end of its name.
        key = folder / f"key{Path(repository['keyring']).suffix}"
        key.write_bytes(given_key(repository))
        return key
    key = folder / "key.asc"
    key.write_bytes(fetch(repository["key_url"]))
    colons = run(["gpg", "--batch", "--homedir", str(folder), "--with-colons", "--show-keys", str(key)], left(end))
    if f"fpr:::::::::{repository['fingerprint']}:" not in colons:
        raise PackageError(f"{repository['key_url']} gave a key without the fingerprint {repository['fingerprint']}")
    return key


def offered_by(repository: dict[str, Any], packages: list[str], fetch: Callable[[str], bytes], budget_s: float) -> str:
    """`apt-cache madison` of a repository that the node does not have, with everything in a folder that goes away again."""
    end = time.monotonic() + budget_s
    with tempfile.TemporaryDirectory(prefix="bringup-preflight-") as made:
        folder = Path(made)
        folder.chmod(0o755)  # apt fetches as the user _apt
        for name in ("parts", "lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True)
        key = write_key(repository, folder, fetch, end)
        # A path as suite ('/') has no components.
        components = " ".join(repository.get("components") or [])
        (folder / "parts" / "wanted.sources").write_text(
            f"Types: deb\nURIs: {repository['uris']}\nSuites: {' '.join(repository['suites'])}\n"
            + (f"Components: {components}\n" if components else "")
            + f"Signed-By: {key}\n"
        )
        private = [
            word
            for setting in (
                "Dir::Etc::sourcelist=/dev/null",
                f"Dir::Etc::sourceparts={folder}/parts",
                f"Dir::State::lists={folder}/lists",
                f"Dir::Cache={folder}/cache",
            )
            for word in ("-o", setting)
        ]
        run([*APT, *private, "-o", "APT::Update::Error-Mode=any", "update"], left(end))
        return run(["apt-cache", *private, "madison", *packages], left(end))


def look(
    packages: list[str],
    pins: dict[str, str],
    repositories: list[dict[str, Any]],
    fetch: Callable[[str], bytes],
    budget_s: float,
) -> tuple[list[dict[str, Any]], list[str]]:
    """What cannot be had of `packages`, and what kept the sources from being read. Changes nothing but package lists."""
    end = time.monotonic() + budget_s
    problems = []
    if not lists_are_fresh():
        try:
            update(left(end))
        except PackageError as error:
            problems.append(str(error))
    seen = run(["apt-cache", "madison", *packages], left(end))
    for repository in repositories:
        if on_node(repository):
            continue
        # What the node's sources have already needs no second list.
        lacking = [row["package"] for row in not_offered(packages, pins, offers(seen))]
        if not lacking:
            break
        try:
            seen += offered_by(repository, lacking, fetch, left(end))
        except (PackageError, OSError) as error:
            problems.append(f"repository {repository['name']}: {error}")
    return not_offered(packages, pins, offers(seen)), problems


def install(packages: list[str], pins: dict[str, str], budget_s: float) -> None:
    end = time.monotonic() + budget_s
    finish(end)
    fresh = lists_are_fresh()
    if not fresh:
        renew(left(end))
    try:
        install_from_lists(packages, pins, end)
    except TooSlowError:
        raise
    except PackageError:
        if not fresh:
            raise
        # The lists are minutes old: the archive may have replaced a file since.
        renew(left(end))
        install_from_lists(packages, pins, end)


def interrupted() -> bool:
    """Whether dpkg is in the middle of its work, or was ended there: by its budget, or by a power cut."""
    return UPDATES.is_dir() and any(file.name.isdecimal() for file in UPDATES.iterdir())


def finish(end: float) -> None:
    """Bring what dpkg was ended in to its end. What another program is at is waited for; apt-get names it."""
    if interrupted():
        wait_for_dpkg(min(left(end), LOCK_WAIT_S))
    if not interrupted():
        return
    try:
        run(["dpkg", *KEPT, "--configure", "-a"], left(end))
    except TooSlowError:
        raise
    except PackageError:  # a package was unpacked before what it depends on
        run([*APT, *KEEP_CONFIG, "--fix-broken", "install"], left(end))


def wait_for_dpkg(budget_s: float) -> None:
    """Wait until nobody has dpkg's locks, or the budget is spent."""
    end = time.monotonic() + budget_s
    for lock in LOCKS:
        with lock.open("a") as file:
            while time.monotonic() < end:
                try:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    time.sleep(1)
                else:
                    break


def renew(budget_s: float) -> None:
    """Fetch the package lists for an installation: a source that does not answer need not be the one that has the package."""
    STAMP.unlink(missing_ok=True)
    run([*APT, "update"], budget_s)
    STAMP.write_text(sources_digest())


def install_from_lists(packages: list[str], pins: dict[str, str], end: float) -> None:
    words = []
    for package in packages:
        if package in pins:
            words.append(
                f"{package}={candidate(package, pins[package], run(['apt-cache', 'madison', package], left(end)))}"
            )
        else:
            words.append(package)
    allowed = ["--allow-downgrades", "--allow-change-held-packages"]
    argv = [*APT, *KEEP_CONFIG, "--no-install-recommends", *allowed]
    if any(acts_on_services(package) for package in replaced(run([*argv, "--simulate", "install", *words], left(end)))):
        run([*argv, "install", *words], left(end))
        return
    # With SYSTEMD_OFFLINE=1 systemctl starts, stops and reloads nothing; units are still enabled.
    run([*argv, "install", *words], left(end), {"SYSTEMD_OFFLINE": "1"})
    run(["systemctl", "daemon-reload"], left(end))


def replaced(simulated: str) -> list[str]:
    """Installed packages that a simulated run replaces or removes: 'Inst udev [252.38-1] (252.39-1 …)'; a new one has no [ ]."""
    lines = [line.split() for line in simulated.splitlines()]
    return [
        words[1]
        for words in lines
        if words[:1] == ["Remv"] or (words[:1] == ["Inst"] and words[2:] and words[2].startswith("["))
    ]


def acts_on_services(package: str, scripts: Path = SCRIPTS) -> bool:
    """Whether a maintainer script of an installed package starts, stops or restarts something."""
    name = package.split(":", 1)[0]
    return any(
        word in script.read_text(errors="replace")
        for pattern in (f"{name}.p*", f"{name}:*.p*")
        for script in scripts.glob(pattern)
        for word in ("systemctl", "invoke-rc.d", "deb-systemd-invoke", "service ")
    )


def left(end: float) -> float:
    """Seconds until `end`; at least one, so that what ran out of time says so by its name."""
    return max(end - time.monotonic(), 1.0)


def main() -> None:
    spec: dict[str, Any] = {
        "packages": {"type": "list", "elements": "str", "required": True},
        "pins": {"type": "dict", "default": {}},
        "hold": {"type": "bool", "default": False},
        "budget_s": {"type": "int", "default": 280},
        "preflight": {"type": "bool", "default": False},
        "repositories": {"type": "list", "elements": "dict", "default": []},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    packages, pins = module.params["packages"], module.params["pins"]

    def fetch(url: str) -> bytes:
        answer, info = fetch_url(module, url, timeout=FETCH_BUDGET_S)
        if info["status"] != 200:
            raise PackageError(f"{url}: {info['msg']}")
        return bytes(answer.read())

    try:
        seen = query(packages)
        todo = wrong(packages, pins, installed_versions(seen))
        if module.params["preflight"]:
            repositories, budget_s = module.params["repositories"], module.params["budget_s"]
            missing, problems = look(todo, pins, repositories, fetch, budget_s) if todo else ([], [])
            module.exit_json(changed=False, missing=missing, problems=problems)
        if todo and not module.check_mode:
            install(todo, pins, module.params["budget_s"])
            still = wrong(todo, pins, installed_versions(query(todo)))
            if still:
                raise PackageError(f"apt-get reported success, yet these are not as planned: {', '.join(still)}")
            seen = query(packages)  # a change of version may have ended a hold
        loose = [package for package in packages if package not in held(seen)] if module.params["hold"] else []
        if loose and not module.check_mode:
            run(["apt-mark", "hold", *loose], HOLD_BUDGET_S)
    except (PackageError, OSError, subprocess.TimeoutExpired) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(todo or loose), installed=todo, held=loose)


if __name__ == "__main__":
    main()
