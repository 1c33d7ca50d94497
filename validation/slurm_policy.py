"""What Slurm answers, compared with its design: classes, accounts and topology. Pure; text in, differences out.

Each difference is a sentence that names the class, account or switch, what the site file wants and what slurmdbd or
slurmctld has.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from capacity.services.slurm import Account, Design, Qos
from validation.runners.slurm import ASSOCIATION_LIMITS, Accounting

BUILT_IN_CLASSES = {"normal"}
BUILT_IN_ACCOUNTS = {"root"}
BUILT_IN_USERS = {("root", "root")}
"""(account, user) that slurmdbd makes with a cluster."""
PARTITION = "all"
"""The one partition that slurm.conf has (playbooks/roles/slurm_config)."""
REFUSED_AT_ONCE = "DenyOnLimit"


def minutes(text: str) -> int | None:
    """'1-02:30:00' -> 1590; None where nothing is limited. Slurm's form is [days-]hours:minutes:seconds."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    return (int(found[1] or 0) * 24 + int(found[2])) * 60 + int(found[3]) if found else None


def seconds(text: str) -> int:
    """'00:01:30' -> 90; 0 for an empty text."""
    whole = minutes(text)
    return 0 if whole is None else whole * 60 + int(text[-2:])


def gpus(resources: str) -> int | None:
    """'cpu=4,gres/gpu=16' -> 16; None when GPUs are not named."""
    found = re.search(r"(?:^|,)gres/gpu=(\d+)", resources)
    return int(found[1]) if found else None


def class_differences(design: Design, seen: Accounting) -> list[str]:
    """Priority classes: what is missing, other than wanted, or unknown to the site file."""
    rows = {row["Name"]: row for row in seen.classes}
    found = [text for qos in design.qos for text in _class(qos, rows.get(qos.name))]
    known = {qos.name for qos in design.qos} | BUILT_IN_CLASSES
    return found + [f"class {name} is not in the site file" for name in rows if name not in known]


def account_differences(design: Design, seen: Accounting) -> list[str]:
    """Accounts and users: what is missing, other than wanted, or unknown to the site file."""
    own = [row for row in seen.associations if row["Cluster"] == design.cluster]
    rows = {row["Account"]: row for row in own if not row["User"]}
    users = {(row["Account"], row["User"]) for row in own if row["User"]}
    found = [text for account in design.accounts for text in _account(account, rows.get(account.name))]
    wanted = {(account.name, user) for account in design.accounts for user in account.users}
    found += [f"user {user} is not in account {name}" for name, user in sorted(wanted - users)]
    known = {account.name for account in design.accounts} | BUILT_IN_ACCOUNTS
    found += [f"account {name} is not in the site file" for name in rows if name not in known]
    strangers = sorted(users - wanted - BUILT_IN_USERS)
    return (
        found
        + [f"user {user} of account {name} is not in the site file" for name, user in strangers if name in known]
        + [
            f"user {row['User']} of account {row['Account']} has a limit of its own, {row['GrpTRES']}, that is not in the site file"
            for row in own
            if row["User"] and row["GrpTRES"]
        ]
        + [
            f"{_owner(row)} has the limit {name} {row[name]}, and no site file has such limits"
            for row in own
            for name in ASSOCIATION_LIMITS
            if row.get(name)
        ]
    )


def _owner(row: Mapping[str, str]) -> str:
    return f"user {row['User']} of account {row['Account']}" if row["User"] else f"account {row['Account']}"


def partition_differences(seen: Mapping[str, str]) -> list[str]:
    """Partitions by their state: one that takes no jobs, is missing, or that no playbook wrote."""
    found = [] if PARTITION in seen else [f"partition {PARTITION} is missing"]
    found += [f"partition {name} is {state} and starts no jobs" for name, state in seen.items() if state != "up"]
    return found + [
        f"partition {name} is not in the configuration of the playbooks" for name in seen if name != PARTITION
    ]


def topology_differences(design: Design, seen: Mapping[str, Sequence[str]]) -> list[str]:
    """Lowest switches: the nodes that Slurm has below each, against the plan's leaf groups."""
    wanted = {switch.name: set(switch.nodes) for switch in design.switches if switch.nodes}
    found = [f"switch {name}: Slurm does not have it" for name in wanted if name not in seen]
    for name, nodes in seen.items():
        if set(nodes) != wanted.get(name, set()):
            found.append(
                f"switch {name}: has {', '.join(sorted(nodes))}, planned {', '.join(sorted(wanted.get(name, ())))}"
            )
    return found


def _class(wanted: Qos, row: Mapping[str, str] | None) -> Iterator[str]:
    if row is None:
        yield f"class {wanted.name} is missing"
        return
    pairs = {
        "priority": (wanted.priority, int(row["Priority"] or 0)),
        "preempts": (sorted(wanted.preempts), sorted(filter(None, row["Preempt"].split(",")))),
        "grace time, s": (wanted.grace_s, seconds(row["GraceTime"])),
        "longest run, min": (wanted.max_wall_min, minutes(row["MaxWall"])),
        "GPUs of all its jobs": (wanted.max_gpus, gpus(row["GrpTRES"])),
        "GPUs of one user": (wanted.max_gpus_per_user, gpus(row["MaxTRESPU"])),
        "refuses at once what breaks a limit": (True, REFUSED_AT_ONCE in row["Flags"].split(",")),
    }
    yield from _unlike(f"class {wanted.name}", pairs)


def _account(wanted: Account, row: Mapping[str, str] | None) -> Iterator[str]:
    if row is None:
        yield f"account {wanted.name} is missing"
        return
    pairs = {
        "parent": (wanted.parent, row["ParentName"]),
        "shares": (wanted.shares, int(row["Share"] or 0)),
        "classes": (sorted(wanted.qos), sorted(filter(None, row["QOS"].split(",")))),
        "GPUs": (wanted.max_gpus, gpus(row["GrpTRES"])),
    }
    yield from _unlike(f"account {wanted.name}", pairs)


def _unlike(what: str, pairs: Mapping[str, tuple[object, object]]) -> Iterator[str]:
    for name, (wanted, found) in pairs.items():
        if wanted != found:
            yield f"{what}: {name} is {_shown(found)}, the site file wants {_shown(wanted)}"


def _shown(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return "unlimited" if value is None else str(value)
