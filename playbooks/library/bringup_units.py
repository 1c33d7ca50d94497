#!/usr/bin/python3
"""Ansible module: systemd units enabled and started (or not), all of a role in one round trip."""

import math
import re
import subprocess
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_units
short_description: State of systemd units
description:
  - Reads all units with one C(systemctl show), changes only what differs and reads back that it took effect.
  - A unit that does not come up fails the task with the unit's own last words.
  - A unit is enabled before it is started, never while it runs under a name less. Where another unit names an alias of it
    (cloud-init.service names chronyd.service), systemd holds that alias as a unit of its own until chrony.service is enabled;
    then it may take the state of either, and so forget one that runs.
options:
  units:
    description: Units by name.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Unit name with suffix., type: str, required: true}
      enabled: {description: Starts at boot., type: bool, default: true}
      active: {description: Runs now., type: bool, default: true}
  daemon_reload: {description: Read changed unit files first., type: bool, default: false}
  restart:
    description: Units to restart. One that is neither enabled nor runs is left alone - the task that enables it starts it.
    type: list
    elements: str
    default: []
  reload: {description: 'Units to reload, as with C(restart).', type: list, elements: str, default: []}
  all_enabled:
    description: Starts every service and socket that is enabled and does not run, as a boot would. One that fails is no error.
    type: bool
    default: false
"""
RETURN = r"""
actions:
  description: What was done (in check mode, what would be), such as C(start chrony.service).
  type: list
  returned: always
"""

BUDGET_S = 60
"""For an answer of systemctl; on top of it a unit may take as long as systemd lets it start and stop."""
UNIT_LIMIT_S = 280
"""Of a command that waits for a unit, whatever its own limits: a task may take 300 s (ansible.cfg)."""
SPAN_S = {
    "y": 31557600,
    "month": 2629800,
    "w": 604800,
    "d": 86400,
    "h": 3600,
    "min": 60,
    "s": 1,
    "ms": 1e-3,
    "us": 1e-6,
}
ROUNDS = 2
LOG_LINES = "20"
"""Of a unit that does not come up: also what it did before its last start, with the time between."""
COMMANDS = {"reload": "reload-or-restart"}  # a service that has failed is corrected by its new configuration
PROPERTIES = "Id,Names,LoadState,ActiveState,UnitFileState,ConditionResult,TimeoutStartUSec,TimeoutStopUSec"
ENABLED = {"enabled", "enabled-runtime", "static", "indirect", "generated", "alias", "linked"}


class UnitError(Exception):
    """The message names the unit and what to look at."""


def systemctl(*words: str, budget_s: float = BUDGET_S) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["systemctl", *words], capture_output=True, text=True, timeout=budget_s, check=False)
    except subprocess.TimeoutExpired:
        raise UnitError(f"systemctl {' '.join(words)} took over {budget_s:g} s") from None


def seconds(span: str) -> float:
    """'1min 30s' -> 90, as `systemctl show` writes a time span; 'infinity' and what is no span have no end."""
    parts = [re.fullmatch(r"([\d.]+)([a-z]+)", part) for part in span.split()]
    if not parts or any(part is None or part[2] not in SPAN_S for part in parts):
        return math.inf
    return sum(float(part[1]) * SPAN_S[part[2]] for part in parts if part)


def unit_budget_s(state: dict[str, str]) -> float:
    """How long a command may wait for a unit: until systemd itself has given up on its stop and its start."""
    allowed = sum(seconds(state.get(name) or "0s") for name in ("TimeoutStartUSec", "TimeoutStopUSec"))
    return min(BUDGET_S + allowed, UNIT_LIMIT_S)


def show(names: list[str]) -> dict[str, dict[str, str]]:
    """Properties of each unit, by the name that was asked for (which may be an alias)."""
    done = systemctl("show", f"--property={PROPERTIES}", "--", *names)
    if done.returncode:
        raise UnitError(f"systemctl show {' '.join(names)}: {done.stderr.strip()}")
    blocks = [dict(line.split("=", 1) for line in block.splitlines()) for block in done.stdout.strip().split("\n\n")]
    return dict(zip(names, blocks, strict=True))


def plan_actions(units: list[dict[str, Any]], seen: dict[str, dict[str, str]], *, check: bool) -> list[tuple[str, str]]:
    """The (verb, unit) pairs that lead from what is seen to what is wanted."""
    actions = []
    for unit in units:
        name, state = unit["name"], seen[unit["name"]]
        missing = state["LoadState"] == "not-found"
        if missing and (unit["enabled"] or unit["active"]) and not check:
            raise UnitError(f"{name} does not exist; is its package installed?")
        runs = state["ActiveState"] in {"active", "reloading"}
        if unit["enabled"] != (state["UnitFileState"] in ENABLED) and not (missing and not unit["enabled"]):
            if unit["enabled"] and runs and aliases(name) - set(state["Names"].split()):
                actions.append(("stop", name))
                runs = False
            actions.append(("enable" if unit["enabled"] else "disable", name))
        if unit["active"] != runs:
            actions.append(("start" if unit["active"] else "stop", name))
    return actions


def aliases(name: str) -> set[str]:
    """Names that a unit gets when it is enabled (systemd.unit(5), Alias=)."""
    lines = systemctl("cat", "--", name).stdout.splitlines()
    return {word for line in lines if line.startswith("Alias=") for word in line.removeprefix("Alias=").split()}


def waits(name: str) -> bool:
    """Whether a unit is neither enabled nor runs: what enables it starts it."""
    state = show([name])[name]
    return state["UnitFileState"] not in ENABLED and state["ActiveState"] in {"inactive", "failed"}


def act(verb: str, name: str) -> None:
    done = systemctl(verb, "--", name, budget_s=unit_budget_s(show([name])[name]))
    if done.returncode == 0 and verb in {"start", "restart"}:
        state = show([name])[name]
        if state["ActiveState"] not in {"active", "reloading", "activating"}:
            why = "a condition of the unit is not met" if state["ConditionResult"] == "no" else "it ended at once"
            raise UnitError(f"{name} is {state['ActiveState']} after {verb}: {why}; see `systemctl status {name}`")
    if done.returncode:
        log = subprocess.run(
            ["journalctl", "--no-pager", "-b", "-n", LOG_LINES, "-o", "short-monotonic", "-u", name],
            capture_output=True,
            text=True,
            timeout=BUDGET_S,
            check=False,
        ).stdout.strip()
        raise UnitError(f"{verb} of {name} failed: {done.stderr.strip()}; its log ends with: {log or 'nothing'}")


def renew(verb: str, names: list[str], done: list[str], *, check: bool) -> None:
    """Restart or reload units, but for those that wait; appends to `done`."""
    for name in names:
        if waits(name):
            continue
        if not check:
            act(COMMANDS.get(verb, verb), name)
        done.append(f"{verb} {name}")


def settle(units: list[dict[str, Any]], done: list[str], *, check: bool) -> None:
    """Acts until what is read back is what was wanted; appends to `done`.

    One round is not always enough: enabling a unit enables those that its [Install] section names in Also= as well.
    """
    names = [unit["name"] for unit in units]
    for _ in range(ROUNDS):
        actions = plan_actions(units, show(names), check=check)
        for verb, name in actions:
            if not check:
                act(verb, name)
            done.append(f"{verb} {name}")
        if not actions or check:
            return
    left = plan_actions(units, show(names), check=check)
    if left:
        raise UnitError(
            f"does not last, something else undoes it: {', '.join(f'{verb} {name}' for verb, name in left)}"
        )


def active() -> set[str]:
    """Services and sockets that run."""
    done = systemctl("list-units", "--type=service,socket", "--state=active", "--plain", "--no-legend", "--full")
    return {line.split()[0] for line in done.stdout.splitlines() if line.strip()}


def enabled() -> set[str]:
    """Services and sockets that a boot starts."""
    done = systemctl("list-unit-files", "--state=enabled", "--no-legend", "--full", "*.service", "*.socket")
    return {line.split()[0] for line in done.stdout.splitlines() if line.strip()}


def start_enabled() -> list[str]:
    """Start what a boot would start. Returns what runs now and did not before."""
    before = active()
    systemctl("start", "default.target", budget_s=UNIT_LIMIT_S)
    return [f"start {name}" for name in sorted((active() - before) & enabled())]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "units": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "enabled": {"type": "bool", "default": True},
                    "active": {"type": "bool", "default": True},
                },
            },
            "daemon_reload": {"type": "bool", "default": False},
            "restart": {"type": "list", "elements": "str", "default": []},
            "reload": {"type": "list", "elements": "str", "default": []},
            "all_enabled": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    units = module.params["units"]
    done: list[str] = []
    try:
        if module.params["daemon_reload"] and not module.check_mode:
            systemctl("daemon-reload")
        for verb in ("restart", "reload"):
            renew(verb, module.params[verb], done, check=module.check_mode)
        if units:
            settle(units, done, check=module.check_mode)
        if module.params["all_enabled"] and not module.check_mode:
            done += start_enabled()
    except UnitError as error:
        module.fail_json(msg=str(error), changed=bool(done), actions=done)
    module.exit_json(changed=bool(done), actions=done)


if __name__ == "__main__":
    main()
