"""Whether users and operators are told what happens to jobs and nodes (S164), on a site of Kubernetes. Pure.

As in kube.py, each function gives the value of a record and what is wrong; checks and gate call the same ones.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from capacity.model import Plan
from capacity.services.cluster import notices_from
from capacity.services.slurm import CHECK_ACCOUNT
from validation.facts.kube import controllers_of
from validation.facts.notices import ARRIVE_S, ENDS, FAILS, HOLDS, JOBS, OTHERS, PRIVATE
from validation.kube import PREEMPTED, Judged

ROUND_S = 120.0
"""Oldest that the last round may be: one each 15 s, and hooks that do not answer for 30 s (role kubernetes_notices)."""
NOBODY = (
    "nobody is told how jobs end: add `notifications` with `default` or `accounts`, and `operators`, to credentials in the site "
    "file (docs/kubernetes.md), then run playbooks/site.yml"
)
AGAIN, LOOK = "run playbooks/site.yml", "journalctl -u bringup-notices on that controller"


def without_a_hook(plan: Plan) -> list[str]:
    """What the site file lacks: accounts that nobody is told of, and operators."""
    given = plan.site.credentials.notifications
    if given is None or not notices_from(plan):
        return [NOBODY]
    silent = [one.name for one in plan.site.scheduler.accounts if one.name not in given.accounts and not given.default]
    return [
        *([f"no webhook for {', '.join(silent)}: add `default` to credentials.notifications"] if silent else []),
        *([] if given.operators else ["no webhook for returned nodes: add `operators` to credentials.notifications"]),
    ]


def set_up(said: Mapping[str, Any], plan: Plan) -> Judged:
    """The program that sends on its controller, with the hooks of the site file and files for root alone; nothing on others."""
    given, sender, controllers = plan.site.credentials.notifications, notices_from(plan), controllers_of(plan)
    problems = without_a_hook(plan)
    for name in controllers:
        found = said["files"].get(name)
        if found is None:
            problems.append(f"{name} was not asked")
        elif name == sender:
            problems += [f"{name}: {one}" for one in _of_sender(found)]
            wanted = given and {
                "accounts": sorted(given.accounts),
                "default": bool(given.default),
                "operators": bool(given.operators),
            }
            if found["hooks"] != wanted:
                problems.append(f"{name}: its hooks are not those of the site file: run playbooks/site.yml")
        else:
            left = [path for path, one in found["files"].items() if one] + (
                ["bringup-notices.timer runs"] if found["timer"] == "active" else []
            )
            problems += [f"{name}: {one}, and it sends nothing: run playbooks/site.yml" for one in left]
    hooks = 0 if given is None else len(given.accounts) + bool(given.default) + bool(given.operators)
    return {"sender": sender, "hooks": hooks, "controllers": len(controllers)}, problems


def _of_sender(found: Mapping[str, Any]) -> Iterator[str]:
    if (found["timer"], found["enabled"]) != ("active", "enabled"):
        yield f"bringup-notices.timer is {found['timer']} and {found['enabled'] or 'not there'}, expected it to run: {AGAIN}"
    if found["result"] != "success":
        yield f"bringup-notices.service ended with {found['result'] or 'nothing'}: journalctl -u bringup-notices"
    for path, mode in PRIVATE.items():
        one = found["files"].get(path)
        if one is None:
            yield f"no {path}: {AGAIN}"
        elif (one["mode"], one["uid"]) != (mode, 0):
            yield f"{path} has mode {one['mode']} and user {one['uid']}, expected {mode} and root: {AGAIN}"
    yield from (f"no {path}: {AGAIN}" for path in OTHERS if found["files"].get(path) is None)
    age_s = found["round_age_s"]
    if age_s is None or not 0 <= age_s <= ROUND_S:
        yield f"its last round was {'never' if age_s is None else f'{age_s:g} s ago'}, expected within {ROUND_S:g} s: {LOOK}"
    yield from (
        f"the webhook of {hook} does not take messages: journalctl -u bringup-notices" for hook in found["failing"]
    )


def told(said: Mapping[str, Any], plan: Plan) -> Judged:
    """End, failure, eviction and a node's return, each told once and in time, and nothing that was not so."""
    if not notices_from(plan):
        return {"events": 0, "slowest_s": 0.0}, [NOBODY]
    trial = said["notices"]
    jobs, node, heard = trial["jobs"], str(trial["node"]), trial["heard"]
    problems = list(_not_shown(jobs, trial))
    wanted: dict[tuple[str, str], int] = {("node-return", node): 1}
    for name in JOBS:
        finished, evictions = str(jobs[name]["finished"]), sum(int(count) for count in jobs[name]["evictions"].values())
        if finished:
            wanted["end" if finished == "Succeeded" else "fail", name] = 1
        if evictions:
            wanted["requeue", name] = evictions
    counts: dict[tuple[str, str], int] = {}
    for one in heard:
        what = (str(one["event"]), str(one["job"]) or str(one["node"]))
        counts[what] = counts.get(what, 0) + 1
    for (event, name), count in wanted.items():
        if (times := counts.get((event, name), 0)) != count:
            problems.append(f"{event} of {name} arrived {times} times, expected {count}: {LOOK}")
    # other nodes may come back meanwhile
    problems += [
        f"{event} of {name} arrived and was not so"
        for event, name in counts
        if event != "node-return" and (event, name) not in wanted
    ]
    if len({str(one["id"]) for one in heard}) != len(heard):
        problems.append(f"an id arrived twice: {LOOK}")
    problems += [
        f"{one['job']} is said to be of {one['account']}"
        for one in heard
        if one["job"] and one["account"] != CHECK_ACCOUNT
    ]
    slowest_s = max((float(one["after_s"]) for one in heard if one["after_s"] is not None), default=0.0)
    if slowest_s > ARRIVE_S:
        problems.append(f"a notice arrived after {slowest_s:g} s, expected within {ARRIVE_S:g} s: {LOOK}")
    return {"events": len(heard), "slowest_s": slowest_s}, problems


def _not_shown(jobs: Mapping[str, Any], trial: Mapping[str, Any]) -> Iterator[str]:
    """What the trial was to make and did not."""
    if jobs[ENDS]["finished"] != "Succeeded":
        yield f"the job that was to end well: {jobs[ENDS]['finished'] or 'did not end'}"
    if jobs[FAILS]["finished"] != "Failed":
        yield f"the job that was to fail: {jobs[FAILS]['finished'] or 'did not end'}"
    if not jobs[HOLDS]["evictions"].get(PREEMPTED):
        yield f"no job was evicted and queued again: {trial['why'] or 'ask again when a node is free'}"
    if not trial["node"]:
        yield "no node came back into service"
