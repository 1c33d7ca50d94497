#!/usr/bin/python3
"""Ansible module: waits until chrony is synchronised, and says what its time sources answer when it is not."""

import subprocess
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_clock
short_description: Waits until the clock follows a time source
description:
  - chronyd asks its sources eight times in the first 16 s (C(iburst)), then every 64 s. Later ones are asked at once.
options:
  budget_s: {description: Seconds to wait in all., type: int, default: 120}
"""
RETURN = r"""
tracking:
  description: Last line of C(chronyc -c tracking).
  type: str
  returned: always
"""

COMMAND_BUDGET_S = 10
POLL_S = 1.0
BURST_AFTER_S = 20.0
"""chrony.conf(5), iburst: 4 to 8 requests, 2 s apart."""
LEAP = 13
"""Cell of `chronyc -c tracking`: Normal, Insert second, Delete second or Not synchronised (chronyc(1))."""


def chronyc(*words: str) -> str:
    """What chronyc says; '' where chronyd does not answer."""
    done = subprocess.run(
        ["chronyc", "-n", *words], capture_output=True, text=True, timeout=COMMAND_BUDGET_S, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def synchronised(tracking: str) -> bool:
    cells = tracking.split(",")
    return len(cells) > LEAP and cells[LEAP] != "Not synchronised"


def wait(budget_s: float) -> str:
    """The last tracking line: synchronised, or the budget is used up."""
    began = time.monotonic()
    asked_again = False
    while not synchronised(seen := chronyc("-c", "tracking")):
        passed_s = time.monotonic() - began
        if passed_s >= budget_s:
            break
        if passed_s >= BURST_AFTER_S and not asked_again:
            chronyc("burst", "4/8")
            asked_again = True
        time.sleep(POLL_S)
    return seen


def main() -> None:
    module = AnsibleModule(
        argument_spec={"budget_s": {"type": "int", "default": 120}},
        supports_check_mode=True,
    )
    budget_s = module.params["budget_s"]
    try:
        tracking = wait(budget_s)
        sources = "" if synchronised(tracking) else chronyc("-c", "sources")
    except (OSError, subprocess.TimeoutExpired) as error:
        module.fail_json(msg=f"cannot ask chrony: {error}")
    if not synchronised(tracking):
        module.fail_json(
            msg=f"clock not synchronised after {budget_s} s: chronyc tracking says {tracking or 'nothing'}; sources: "
            f"{sources or 'none'}. See `chronyc -n sources` here and `chronyc -n clients` on the controllers.",
            tracking=tracking,
        )
    module.exit_json(changed=False, tracking=tracking)


if __name__ == "__main__":
    main()
