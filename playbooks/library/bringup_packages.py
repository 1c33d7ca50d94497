#!/usr/bin/python3
"""Ansible module: Debian packages in the pinned upstream version, with one look at dpkg when all is well."""

import os
import subprocess
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_packages
short_description: Debian packages, some pinned to an upstream version
description:
  - Asks dpkg first. Package lists are fetched and apt-get runs only when a package is missing or of another version.
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
"""

LOCK_WAIT_S = 60
HOLD_BUDGET_S = 60
APT = ["apt-get", "-q", "-y", "-o", f"DPkg::Lock::Timeout={LOCK_WAIT_S}", "-o", "Acquire::Retries=3"]
KEEP_CONFIG = ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]


class PackageError(Exception):
    """The message names the package and what apt said."""


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


def candidate(package: str, pin: str, madison: str) -> str:
    """The full version to install: the first that `apt-cache madison` lists with the pinned upstream version."""
    rows = [[cell.strip() for cell in line.split("|")] for line in madison.splitlines()]
    offered = [row[1] for row in rows if len(row) > 1 and row[0] == package]
    for version in offered:
        if upstream(version) == pin:
            return version
    raise PackageError(
        f"{package}: the site pins version {pin}; this node's sources offer {', '.join(offered) or 'no version at all'}"
    )


def run(argv: list[str], budget_s: float) -> str:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=budget_s, check=False, env=environment)
    except subprocess.TimeoutExpired:
        raise PackageError(f"{' '.join(argv[:2])} took over {budget_s:.0f} s") from None
    if done.returncode:
        errors = [line for line in (done.stderr + done.stdout).splitlines() if line.startswith(("E:", "dpkg: error"))]
        raise PackageError(f"{argv[0]} failed: {' '.join(errors) or done.stderr.strip()}")
    return done.stdout


def query(packages: list[str]) -> str:
    argv = ["dpkg-query", "-W", "-f", "${Status}\t${Package}\t${Version}\n", *packages]
    # Exit status 1 means that some of them are unknown to dpkg, which is an answer.
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout


def install(packages: list[str], pins: dict[str, str], budget_s: float) -> None:
    end = time.monotonic() + budget_s
    run([*APT, "update"], budget_s)
    words = []
    for package in packages:
        if package in pins:
            words.append(
                f"{package}={candidate(package, pins[package], run(['apt-cache', 'madison', package], left(end)))}"
            )
        else:
            words.append(package)
    allowed = ["--allow-downgrades", "--allow-change-held-packages"]
    run([*APT, *KEEP_CONFIG, "--no-install-recommends", *allowed, "install", *words], left(end))


def left(end: float) -> float:
    """Seconds until `end`; at least one, so that what ran out of time says so by its name."""
    return max(end - time.monotonic(), 1.0)


def main() -> None:
    spec: dict[str, Any] = {
        "packages": {"type": "list", "elements": "str", "required": True},
        "pins": {"type": "dict", "default": {}},
        "hold": {"type": "bool", "default": False},
        "budget_s": {"type": "int", "default": 280},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    packages, pins = module.params["packages"], module.params["pins"]
    try:
        seen = query(packages)
        todo = wrong(packages, pins, installed_versions(seen))
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
