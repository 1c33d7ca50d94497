"""Slurm's policy: who may use what (S157, S163), which GPUs a job gets (S158), who yields (S160), what is kept free (S162).

The jobs behind these checks run once (fixture `trials`), as the two users of the checks' account.
"""

from collections import defaultdict

from capacity.model import Plan
from capacity.services.slurm import CHECK_ACCOUNT, Design, design
from validation import slurm_policy
from validation.check import Outcome, check, site_limit
from validation.checks.conftest import Policy
from validation.checks.test_scheduler import all_identities
from validation.facts import Facts
from validation.runners.slurm_trials import Trials

SCHEDULER = ("site.scheduler", "site.tiers")


def designed(plan: Plan) -> Design:
    return design(plan, plan.catalog)


@check("S157.generated", inputs=(*SCHEDULER, "site.storage", "frame.devices", "site.gpu"), manager="slurm")
def test_priority_classes_and_accounts_are_consistent(subject: str, plan: Plan) -> Outcome:
    wanted = designed(plan)
    tiers, names = plan.site.tiers, [account.name for account in wanted.accounts]
    limited = [q for q in wanted.qos if q.max_wall_min or q.max_gpus or q.max_gpus_per_user]
    priorities = [q.priority for q in wanted.qos]
    problems = [
        *(
            ["the classes are not the site's tiers, highest first"]
            if tuple(q.name for q in wanted.qos) != tiers
            else []
        ),
        *(["priorities do not fall from tier to tier"] if priorities != sorted(set(priorities), reverse=True) else []),
        *(
            [
                f"{q.name} preempts {', '.join(q.preempts)}"
                for q in wanted.qos
                if q.preempts != tiers[tiers.index(q.name) + 1 :]
            ]
        ),
        *(
            [
                f"{a.name} stands before its parent {a.parent}"
                for place, a in enumerate(wanted.accounts)
                if a.parent not in ("root", *names[:place])
            ]
        ),
        *([f"{a.name} has no class" for a in wanted.accounts if not a.qos]),
        *([] if limited else ["no tier has a limit: add scheduler.tier_limits to the site file"]),
    ]
    users = sum(len(account.users) for account in wanted.accounts)
    good = f"{len(wanted.qos)} classes, {len(limited)} with limits; {len(names)} accounts with {users} users"
    return Outcome(
        not problems,
        {"classes": len(wanted.qos), "accounts": len(names)},
        "; ".join(problems) or good,
        raw=repr(wanted).encode(),
    )


@check("S157.applied", inputs=(*SCHEDULER, "site.storage", "assets", "frame.devices", "site.gpu"), manager="slurm")
def test_priority_classes_and_accounts_are_applied_and_enforced(
    subject: str, plan: Plan, facts: Facts, policy: Policy, trials: Trials
) -> Outcome:
    identities = all_identities(plan, facts)
    if policy.accounting is None:
        return Outcome(False, None, policy.error, identities=identities)
    wanted, refusal = designed(plan), trials.grants.over_limit
    problems = [
        *slurm_policy.class_differences(wanted, policy.accounting),
        *slurm_policy.account_differences(wanted, policy.accounting),
        *slurm_policy.partition_differences(policy.partitions),
        *(
            [f"AccountingStorageEnforce is {policy.config.get('AccountingStorageEnforce')}: limits do not hold"]
            if not {"associations", "limits", "qos"}
            <= set(policy.config.get("AccountingStorageEnforce", "").split(","))
            else []
        ),
        *(
            [trials.grants.error or "no limit was tried: no tier has one"]
            if refusal is None
            else []
            if refusal.refused and policy.over_limit_reason in refusal.said
            else [
                (
                    f"a job over the limit was {'refused with: ' + refusal.said if refusal.refused else 'accepted'}; "
                    f"expected a refusal with {policy.over_limit_reason}"
                )
            ]
        ),
    ]
    value = {"classes": len(wanted.qos), "accounts": len(wanted.accounts), "refusal": refusal.said if refusal else ""}
    good = f"{len(wanted.qos)} classes and {len(wanted.accounts)} accounts as in the site file; {policy.over_limit_reason} refused"
    return Outcome(
        not problems, value, "; ".join(problems) or good, identities=identities, raw=policy.accounting.raw.encode()
    )


@check(
    "S158.generated",
    inputs=("site.scheduler", "site.gpu", "site.fabric", "frame.devices", "site.storage", "site.tiers"),
    manager="slurm",
)
def test_gpus_and_topology_match_the_plan(subject: str, plan: Plan) -> Outcome:
    wanted = designed(plan)
    gpu = plan.devices[plan.devices["role"] == "gpu"]
    planned = sum(plan.catalog.device(str(model)).bringup.gpus for model in gpu["model"])
    granted = sum(node.gpus for node in wanted.nodes)
    placed = [name for switch in wanted.switches for name in switch.nodes]
    unit_of = dict(zip(gpu["name"], gpu["unit"], strict=True))
    mixed = [s.name for s in wanted.switches if s.nodes and len({unit_of[name] for name in s.nodes}) != 1]
    problems = [
        *([f"{granted} GPUs to grant, {planned} planned"] if granted != planned else []),
        *(["a node is below no leaf group or below two"] if sorted(placed) != sorted(unit_of) else []),
        *([f"{', '.join(mixed)} mix scalable units"] if mixed else []),
    ]
    value = {"gpus": granted, "type": wanted.gpu_type, "leaf_groups": len({*unit_of.values()})}
    good = f"{granted} GPUs of type {wanted.gpu_type} on {len(unit_of)} nodes in {value['leaf_groups']} leaf groups"
    return Outcome(not problems, value, "; ".join(problems) or good, raw=repr(wanted.switches).encode())


@check(
    "S158.applied",
    inputs=("site.scheduler", "site.gpu", "frame.devices", "assets", "site.storage", "site.tiers"),
    manager="slurm",
)
def test_job_gets_the_gpus_it_asked_for_and_no_other(
    subject: str, plan: Plan, facts: Facts, policy: Policy, trials: Trials
) -> Outcome:
    node, wanted, grants = facts.nodes[subject], designed(plan), trials.grants
    gpus = next(item.gpus for item in wanted.nodes if item.name == subject)
    gres = f"gpu:{wanted.gpu_type}:{gpus}"
    known = policy.nodes.get(subject)
    seen = grants.seen.get(subject)
    leaf = next((switch.name for switch in wanted.switches if subject in switch.nodes), "")
    refused = grants.too_many is not None and grants.too_many.refused
    problems = [
        *([policy.error] if policy.error else []),
        *(
            [f"Slurm has {known.gres if known else 'nothing'}, planned {gres}"]
            if known is None or known.gres.split("(")[0] != gres
            else []
        ),
        *(
            [
                difference
                for difference in slurm_policy.topology_differences(wanted, policy.topology)
                if difference.startswith(f"switch {leaf}:")
            ]
        ),
        *([f"a job for {gpus + 1} GPUs of a node was not refused"] if not refused else []),
        *(
            [grants.error or "no process of the trial ran here"]
            if seen is None
            else [
                *(
                    [f"one GPU was asked for, CUDA_VISIBLE_DEVICES was {seen['visible']!r}"]
                    if len(str(seen["visible"]).split(",")) != 1 or not seen["visible"]
                    else []
                ),
                *(
                    [
                        f"one GPU was granted, the process could open {len(seen['allowed'])}: device files are not confined"
                    ]
                    if len(seen["allowed"]) != 1
                    else []
                ),
            ]
        ),
    ]
    value = {"gres": known.gres if known else "", "leaf_group": leaf, **(dict(seen) if seen else {})}
    good = f"{gres} below {leaf}; one GPU asked for, one visible, one to open; {gpus + 1} refused"
    return Outcome(
        not problems,
        value,
        "; ".join(problems) or good,
        identities=node.identities,
        raw=grants.job.output if grants.job else None,
    )


@check("S160.applied", inputs=(*SCHEDULER, "assets", "frame.devices", "site.gpu", "site.storage"), manager="slurm")
def test_preempted_jobs_are_requeued_after_their_grace_time(
    subject: str, plan: Plan, facts: Facts, policy: Policy
) -> Outcome:
    identities = all_identities(plan, facts)
    if policy.accounting is None:
        return Outcome(False, None, policy.error, identities=identities)
    wanted = {"PreemptType": "preempt/qos", "PreemptMode": "REQUEUE", "JobRequeue": "1"}
    problems = [
        *[
            f"{key} is {policy.config.get(key)}, expected {value}"
            for key, value in wanted.items()
            if policy.config.get(key) != value
        ],
        *slurm_policy.class_differences(designed(plan), policy.accounting),
    ]
    grace = {q.name: q.grace_s for q in designed(plan).qos if q.priority < len(plan.site.tiers)}
    good = "preempted jobs are requeued; grace: " + ", ".join(f"{name} {value} s" for name, value in grace.items())
    return Outcome(
        not problems,
        {"grace_s": grace},
        "; ".join(problems) or good,
        identities=identities,
        raw=policy.accounting.raw.encode(),
    )


@check(
    "S160.measured",
    inputs=(*SCHEDULER, "site.limits", "assets", "frame.devices", "site.gpu", "site.storage", "site.versions"),
    manager="slurm",
)
def test_preempting_job_starts_in_time_and_its_victim_resumes(
    subject: str, plan: Plan, facts: Facts, trials: Trials
) -> Outcome:
    limit, seen = site_limit(plan.site, "preempt_start_s"), trials.preemption
    identities = all_identities(plan, facts)
    if seen.error:
        return Outcome(
            False, None, f"{seen.error}; its output: {seen.output[-300:]}", limit=limit, identities=identities
        )
    if lacks := [key for key in ("SubmitTime", "StartTime") if not seen.urgent.get(key)]:
        why = f"Slurm does not say the {' and '.join(lacks)} of the urgent job"
        return Outcome(False, None, why, limit=limit, identities=identities, raw=seen.as_json())
    problems = [
        *([f"it waited {seen.start_s:g} s"] if seen.start_s > float(limit.value) else []),
        *seen.faults,
    ]
    value = {
        "start_s": seen.start_s,
        "restarts": seen.restarts,
        "checkpoint_step": seen.checkpoint,
        "resumed_step": seen.resumed,
    }
    good = f"started after {seen.start_s:g} s; the victim wrote step {seen.checkpoint}, was requeued and went on from there"
    return Outcome(
        not problems,
        value,
        "; ".join(problems) or good,
        unit="s",
        limit=limit,
        identities=identities,
        raw=seen.as_json(),
    )


@check(
    "S162.applied",
    inputs=("site.scheduler", "assets", "frame.devices", "site.gpu", "site.storage", "site.tiers"),
    manager="slurm",
)
def test_reservation_is_as_requested(subject: str, plan: Plan, facts: Facts, trials: Trials) -> Outcome:
    seen = trials.window
    fields = seen.reservation
    problems = (
        [seen.error]
        if seen.error
        else [
            *(["the reservation is not there"] if not fields else []),
            *(
                [f"it has {fields.get('NodeCnt')} nodes, asked for {len(seen.nodes)}"]
                if fields and fields.get("NodeCnt") != str(len(seen.nodes))
                else []
            ),
            *(["it starts in the past"] if fields and fields.get("State") == "ACTIVE" else []),
        ]
    )
    good = f"{fields.get('ReservationName')}: {fields.get('Nodes')} for {fields.get('Users')} from {fields.get('StartTime')}"
    return Outcome(
        not problems,
        dict(fields),
        "; ".join(problems) or good,
        identities=all_identities(plan, facts),
        raw=repr(fields).encode(),
    )


@check(
    "S162.measured",
    inputs=("site.scheduler", "assets", "frame.devices", "site.gpu", "site.storage", "site.tiers", "site.versions"),
    manager="slurm",
)
def test_reserved_window_is_free_for_its_owner(subject: str, plan: Plan, facts: Facts, trials: Trials) -> Outcome:
    seen = trials.window
    owner, inside, after = seen.owner, seen.other_inside, seen.other_after
    early = owner.get("StartTime", "") < seen.reservation.get("StartTime", "")
    problems = (
        [seen.error]
        if seen.error
        else [
            *(
                [f"the owner's job is {owner.get('JobState')} ({owner.get('Reason')})"]
                if owner.get("JobState") not in ("RUNNING", "COMPLETED")
                else []
            ),
            *(["the owner's job started before the window"] if early else []),
            *(
                [f"it got {owner.get('NumNodes')} nodes of {len(seen.nodes)}"]
                if owner.get("NumNodes") != str(len(seen.nodes))
                else []
            ),
            *(
                [f"another user's job was {inside.get('JobState')} in the window"]
                if inside.get("JobState") != "PENDING"
                else []
            ),
            *(
                [f"the other job did not start after the window: {after.get('JobState')} ({after.get('Reason')})"]
                if after.get("JobState") not in ("RUNNING", "COMPLETED")
                else []
            ),
        ]
    )
    value = {"nodes": list(seen.nodes), "owner": owner.get("JobState"), "other_inside": inside.get("Reason")}
    good = (
        f"the owner started on {len(seen.nodes)} nodes at {owner.get('StartTime')}; another user's job waited "
        f"({inside.get('Reason')}) and ran after the window"
    )
    return Outcome(
        not problems,
        value,
        "; ".join(problems) or good,
        identities=all_identities(plan, facts),
        raw=repr((owner, inside, after)).encode(),
    )


@check(
    "S163.applied",
    inputs=("site.scheduler", "assets", "frame.devices", "site.gpu", "site.storage", "site.tiers"),
    manager="slurm",
)
def test_usage_is_charged_to_accounts_in_gpu_hours(
    subject: str, plan: Plan, facts: Facts, policy: Policy, trials: Trials
) -> Outcome:
    identities = all_identities(plan, facts)
    if policy.accounting is None:
        return Outcome(False, None, policy.error, identities=identities)
    gpu_s: dict[str, int] = defaultdict(int)
    for row in trials.usage:
        gpu_s[row["Account"] or "(none)"] += int(row["ElapsedRaw"] or 0) * (slurm_policy.gpus(row["AllocTRES"]) or 0)
    tracked = policy.config.get("AccountingStorageTRES", "").split(",")
    problems = [
        *slurm_policy.account_differences(designed(plan), policy.accounting),
        *(["slurmdbd does not count GPUs (AccountingStorageTRES)"] if "gres/gpu" not in tracked else []),
        *([trials.usage_error] if trials.usage_error else []),
        *(
            []
            if trials.usage_error or (set(gpu_s) == {CHECK_ACCOUNT} and gpu_s[CHECK_ACCOUNT] > 0)
            else [f"the trials' GPU time is charged to {dict(gpu_s)}, expected {CHECK_ACCOUNT} alone"]
        ),
    ]
    good = f"{len(trials.usage)} runs of the trials: {gpu_s.get(CHECK_ACCOUNT, 0)} GPU-seconds, all charged to {CHECK_ACCOUNT}"
    return Outcome(
        not problems,
        {"gpu_s": dict(gpu_s)},
        "; ".join(problems) or good,
        unit="GPU-s",
        identities=identities,
        raw=repr(trials.usage).encode(),
    )
