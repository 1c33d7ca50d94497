#!/usr/bin/python3
"""Ansible module: the NVIDIA driver loaded, and its version as the driver itself says it."""

import re
import subprocess
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_nvidia
short_description: NVIDIA driver loaded and of the pinned version
description:
  - Loads the kernel module where it is not loaded, then asks C(nvidia-smi) for the driver's version and compares it with
    the pin. In a container the module is the host's and is not touched.
  - A GPU that does not answer does not fail the task; the checks of the GPUs name it.
options:
  driver: {description: Pinned version of the driver., type: str, required: true}
  container: {description: Whether the node is a container., type: bool, default: false}
"""
RETURN = r"""
driver:
  description: Version that the running driver says; empty in check mode where nothing is installed yet.
  type: str
  returned: always
nvswitches:
  description: Number of NVSwitch devices that the driver shows.
  type: int
  returned: always
"""

BUDGET_S = 90
LOADED = Path("/proc/driver/nvidia/version")
DRIVER_VERSION = re.compile(r"Driver Version: *([0-9.]+)")


class DriverError(Exception):
    """The message says what was run, what it said and what to do."""


def run(*argv: str) -> str:
    """Everything that a command says. DriverError when it is missing or does not end."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=BUDGET_S, check=False)
    except FileNotFoundError:
        raise DriverError(f"{argv[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise DriverError(
            f"{argv[0]} gave no answer in {BUDGET_S} s: the driver hangs; look at the kernel's log"
        ) from None
    return done.stdout + done.stderr


def version_in(said: str, pinned: str) -> str:
    """The driver's version in what nvidia-smi said. DriverError when there is none or it is not the pinned one."""
    found = DRIVER_VERSION.search(said)
    if not found:
        raise DriverError(f"nvidia-smi names no driver version: {said.strip()[:300]!r}; is the driver's module loaded?")
    if found[1] != pinned:
        raise DriverError(
            f"the running driver is {found[1]}, pinned {pinned}: reboot the node, so that the new one is loaded"
        )
    return found[1]


def main() -> None:
    spec = {"driver": {"type": "str", "required": True}, "container": {"type": "bool", "default": False}}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    load = not module.params["container"] and not LOADED.exists()
    driver = ""
    try:
        if load and not module.check_mode:
            said = run("modprobe", "nvidia")
            if not LOADED.exists():
                raise DriverError(f"modprobe nvidia did not load the driver: {said.strip()[:300] or 'it said nothing'}")
        try:
            driver = version_in(run("nvidia-smi"), module.params["driver"])
        except DriverError:
            if not module.check_mode:  # in check mode the package may not be there yet, or about to be changed
                raise
    except (DriverError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=load, driver=driver, nvswitches=len(list(Path("/dev").glob("nvidia-nvswitch[0-9]*"))))


if __name__ == "__main__":
    main()
