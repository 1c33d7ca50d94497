#!/usr/bin/python3
"""Ansible module: Slurm's priority classes, accounts and users as wanted; reads slurmdbd first, changes what differs."""

import re
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_slurm_accounts
short_description: Quality-of-service classes, accounts and users in slurmdbd
description:
  - Reads classes and associations with sacctmgr and runs one sacctmgr command for each thing that differs.
  - Whatever else slurmdbd has stays. In check mode, where slurmdbd does not answer, all is reported as missing.
  - Waits until slurmctld has made cluster and GPUs known to slurmdbd, which limits on GPUs need.
options:
  cluster: {description: Name of the cluster., type: str, required: true}
  qos: {description: Classes - name priority preempts grace_s max_wall_min max_gpus max_gpus_per_user., type: list, elements: dict}
  accounts: {description: Accounts - name parent shares qos max_gpus users; parents first., type: list, elements: dict}
  start_budget_s: {description: Seconds that slurmdbd and slurmctld have to start., type: int, default: 30}
"""
RETURN = r"""
actions:
  description: The sacctmgr commands that were run (in check mode, would be).
  type: list
  returned: always
"""

BUDGET_S = 30
POLL_S = 0.25
UNLIMITED = "-1"  # sacctmgr(1): "To clear a previously set value use the modify command with a new value of -1"
QOS_COLUMNS = ("Name", "Priority", "Preempt", "GraceTime", "Flags", "MaxWall", "GrpTRES", "MaxTRESPU")
ASSOCIATION_COLUMNS = ("Account", "User", "ParentName", "Share", "QOS", "DefaultQOS", "GrpTRES")
FLAGS = "DenyOnLimit"  # a job that can never fit is refused at once, with the limit's name

Row = dict[str, str]


@dataclass(frozen=True)
class State:
    """What slurmdbd has: whether slurmctld has registered, classes, and associations of the cluster."""

    registered: bool = False
    classes: list[Row] = field(default_factory=list)
    associations: list[Row] = field(default_factory=list)


class AccountingError(Exception):
    """The message says what sacctmgr answered and where to look."""


def rows(text: str, columns: tuple[str, ...]) -> list[Row]:
    """Rows of `sacctmgr --parsable2 --noheader` by column name."""
    return [dict(zip(columns, line.split("|"), strict=True)) for line in text.splitlines() if line.strip()]


def minutes(text: str) -> int | None:
    """'1-02:30:00' -> 1590; None for no limit. The form is [days-]hours:minutes:seconds."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    return (int(found[1] or 0) * 24 + int(found[2])) * 60 + int(found[3]) if found else None


def seconds(text: str) -> int:
    """'00:01:30' -> 90; 0 for nothing."""
    whole = minutes(text)
    return 0 if whole is None else whole * 60 + int(text[-2:])


def gpus(tres: str) -> int | None:
    """'cpu=4,gres/gpu=16' -> 16; None when GPUs are not limited."""
    found = re.search(r"(?:^|,)gres/gpu=(\d+)", tres)
    return int(found[1]) if found else None


def words(names: str) -> set[str]:
    return {name for name in names.split(",") if name}


def number(value: int | None) -> str:
    return UNLIMITED if value is None else str(value)


def class_settings(wanted: dict[str, Any], seen: Row | None) -> list[str]:
    """The key=value words that a class lacks; all of them when it is not there."""
    limits = {"MaxWall": minutes, "GrpTRES": gpus, "MaxTRESPU": gpus}
    found: dict[str, Any] = {}
    if seen is not None:
        found = {
            "Priority": int(seen["Priority"] or 0),
            "GraceTime": seconds(seen["GraceTime"]),
            "Preempt": words(seen["Preempt"]),
            "Flags": words(seen["Flags"]),
            **{key: read(seen[key]) for key, read in limits.items()},
        }
    target = {
        "Priority": (wanted["priority"], str(wanted["priority"])),
        "GraceTime": (wanted["grace_s"], str(wanted["grace_s"])),
        "Preempt": (set(wanted["preempts"]), ",".join(wanted["preempts"])),
        "Flags": ({FLAGS}, FLAGS),
        "MaxWall": (wanted["max_wall_min"], number(wanted["max_wall_min"])),
        "GrpTRES": (wanted["max_gpus"], f"gres/gpu={number(wanted['max_gpus'])}"),
        "MaxTRESPU": (wanted["max_gpus_per_user"], f"gres/gpu={number(wanted['max_gpus_per_user'])}"),
    }
    if seen is None:  # what a new class has anyway is not said
        found = {"Preempt": set(), "MaxWall": None, "GrpTRES": None, "MaxTRESPU": None}
    return [f"{key}={text}" for key, (value, text) in target.items() if key not in found or found[key] != value]


def account_settings(wanted: dict[str, Any], seen: Row | None) -> list[str]:
    """The key=value words that an account lacks; all of them when it is not there."""
    found: dict[str, Any] = {"GrpTRES": None}
    if seen is not None:
        found = {
            "Parent": seen["ParentName"],
            "Fairshare": int(seen["Share"] or 0),
            "QOS": words(seen["QOS"]),
            "DefaultQOS": seen["DefaultQOS"],
            "GrpTRES": gpus(seen["GrpTRES"]),
        }
    target = {
        "Parent": (wanted["parent"], wanted["parent"]),
        "Fairshare": (wanted["shares"], str(wanted["shares"])),
        "QOS": (set(wanted["qos"]), ",".join(wanted["qos"])),
        # The lowest class: whoever wants more says so.
        "DefaultQOS": (wanted["qos"][-1], wanted["qos"][-1]),
        "GrpTRES": (wanted["max_gpus"], f"gres/gpu={number(wanted['max_gpus'])}"),
    }
    return [f"{key}={text}" for key, (value, text) in target.items() if key not in found or found[key] != value]


def changes(cluster: str, qos: list[dict[str, Any]], accounts: list[dict[str, Any]], seen: State) -> list[list[str]]:
    """The sacctmgr commands that lead from what is seen to what is wanted. Lower classes come before those that preempt
    them, accounts before their children."""
    todo: list[list[str]] = []
    known = {row["Name"]: row for row in seen.classes}
    for wanted in reversed(qos):
        name = wanted["name"]
        settings = class_settings(wanted, known.get(name))
        if name not in known:
            todo.append(["add", "qos", f"Name={name}", *settings])
        elif settings:
            todo.append(["modify", "qos", "where", f"Name={name}", "set", *settings])
    own = {row["Account"]: row for row in seen.associations if not row["User"]}
    users = {(row["Account"], row["User"]) for row in seen.associations if row["User"]}
    for wanted in accounts:
        name = wanted["name"]
        settings = account_settings(wanted, own.get(name))
        if name not in own:
            todo.append(["add", "account", f"Name={name}", f"Cluster={cluster}", *settings])
        elif settings:
            todo.append(["modify", "account", "where", f"Name={name}", f"Cluster={cluster}", "set", *settings])
        missing = [user for user in wanted["users"] if (name, user) not in users]
        if missing:
            todo.append(["add", "user", f"Name={','.join(missing)}", f"Account={name}", f"Cluster={cluster}"])
    return todo


def sacctmgr(*argv: str) -> str:
    try:
        done = subprocess.run(
            ["sacctmgr", *argv], capture_output=True, text=True, timeout=BUDGET_S, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise AccountingError(
            f"sacctmgr {' '.join(argv)} took over {BUDGET_S} s; see `journalctl -u slurmdbd`"
        ) from None
    # sacctmgr says "Nothing new added." with status 1 when somebody else was faster.
    if done.returncode and "Nothing new added" not in done.stdout:
        raise AccountingError(f"sacctmgr {' '.join(argv)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def read(cluster: str) -> State:
    show = ("--noheader", "--parsable2", "show")
    named = f"format={','.join(ASSOCIATION_COLUMNS)}"
    return State(
        cluster in sacctmgr(*show, "cluster", "format=Cluster").split()
        and "gres/gpu" in sacctmgr(*show, "tres", "type=gres", "format=Type,Name").replace("|", "/").split(),
        rows(sacctmgr(*show, "qos", f"format={','.join(QOS_COLUMNS)}"), QOS_COLUMNS),
        rows(sacctmgr(*show, "association", f"cluster={cluster}", named), ASSOCIATION_COLUMNS),
    )


def read_when_it_answers(cluster: str, budget_s: float) -> State:
    """The same; daemons that have just started are waited for."""
    end = time.monotonic() + budget_s
    while True:
        problem = f"slurmctld has not registered cluster {cluster} and its GPUs; see `journalctl -u slurmctld`"
        try:
            seen = read(cluster)
            if seen.registered:
                return seen
        except AccountingError as error:
            problem = str(error)
        if time.monotonic() > end:
            raise AccountingError(problem)
        time.sleep(POLL_S)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "qos": {"type": "list", "elements": "dict", "required": True},
            "accounts": {"type": "list", "elements": "dict", "required": True},
            "start_budget_s": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    check = module.check_mode
    cluster, qos, accounts = (module.params[key] for key in ("cluster", "qos", "accounts"))
    done: list[str] = []
    try:
        try:
            seen = read_when_it_answers(cluster, 0 if check else module.params["start_budget_s"])
        except (AccountingError, FileNotFoundError):
            if not check:
                raise
            seen = State()
        for command in changes(cluster, qos, accounts, seen):
            if not check:
                sacctmgr("--immediate", *command)
            done.append(f"sacctmgr {' '.join(command)}")
        left = changes(cluster, qos, accounts, read(cluster)) if done and not check else []
        if left:
            raise AccountingError(f"does not last: {'; '.join(' '.join(command) for command in left)}")
    except (AccountingError, OSError) as error:
        module.fail_json(msg=str(error), changed=bool(done), actions=done)
    module.exit_json(changed=bool(done), actions=done)


if __name__ == "__main__":
    main()
