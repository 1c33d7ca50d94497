"""Whether a Kubernetes platform schedules as the steps about the scheduler ask (S156 to S160, S163), from plan and answers. Pure.

As in kube.py, each function gives the value of a record and what is wrong; checks and gate call the same ones.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from capacity.model import Plan
from capacity.services.platform import design
from capacity.services.platform.queues import CLOSED, LOCAL_QUEUE, OPEN, ROOT, TIME, moment
from capacity.services.platform.sharing import GPU_RESOURCE, profiles
from capacity.services.platform.tenancy import allowed_of
from capacity.services.platform.topology import GPU, node_labels
from capacity.services.slurm import design as accounts_of
from inventory.site.sections.software import has_mutating_policies
from validation import kube
from validation.facts import reservation_trial
from validation.facts.charged import GPUS, SEEN_S, USER
from validation.facts.gangs import BLOCK
from validation.kube import PREEMPTED, Judged

POLICY = (
    "PriorityClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ResourceQuota",
    "RoleBinding",
    "Cohort",
    "ClusterQueue",
    "LocalQueue",
)
"""Kinds of objects that say who may use how much in which tier."""
PREEMPTION = ("PriorityClass", "ClusterQueue", "Cohort")
PLACEMENT = ("Topology", "ResourceFlavor", "ClusterQueue")
"""Kinds of objects by which Kueue places a workload whole: a flavour with a topology assigns all pods before one starts
(https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/)."""
ACCOUNTING = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "Cohort", "ClusterQueue", "LocalQueue")
"""Kinds of objects that make the tree of accounts and write who made a pod."""
LOOK = "Look: systemctl status bringup-kubernetes-metrics on a controller"
OFF_S = 30.0
"""Between the time for which GPUs were counted, as two logins saw it, and what was recorded. A choice of ours."""
RUNTIME = "containerd://"
NO_NODE_HAS_THEM = "doesn't allow to fit any of 1 pod(s)"
"""What Kueue 0.15.0 says of one pod that fits on no node (pkg/cache/scheduler/tas_flavor_snapshot.go, notFitMessage)."""
TRIAL = f"reservation-{reservation_trial.NAME}"
OPENED_WITHIN_S = 60
"""In which a queue may still be as before: six rounds of what opens and closes them. A choice of ours."""
TIMER = "journalctl -u bringup-kubernetes-reservations on the controllers"
KIB = {"Ki": 1, "Mi": 1024, "Gi": 1024**2}


def registered(said: Mapping[str, Any], plan: Plan, name: str) -> Judged:
    """One GPU node as the API server knows it, beside what the node itself has (`hardware`: cpus, memory_kib)."""
    value, problems = kube.node(said, plan, name)
    found = said["nodes"].get(name)
    if not isinstance(found, Mapping):
        return {**value, "cpus": 0, "memory_kib": 0}, problems
    info, capacity = found["status.nodeInfo"] or {}, found["status.capacity"] or {}
    kubelet, pin = str(info.get("kubeletVersion", "")), plan.site.versions.get("kubernetes", "")
    runtime = str(info.get("containerRuntimeVersion", ""))
    cpus, memory_kib = kube.whole(capacity.get("cpu", "0")), _kib(capacity.get("memory", "0"))
    has = said["hardware"]
    problems = [
        *problems,
        *([f"its kubelet is {kubelet or 'of no version'}, pinned v{pin}"] if kubelet != f"v{pin}" else []),
        *([f"its pods run in {runtime or 'nothing'}, expected containerd"] if not runtime.startswith(RUNTIME) else []),
        *([f"{cpus} CPUs registered, the node has {has['cpus']}"] if cpus != has["cpus"] else []),
        *(
            [f"{memory_kib} KiB of memory registered, the node has {has['memory_kib']}"]
            if not 0 < memory_kib <= has["memory_kib"]
            else []
        ),
    ]
    return {**value, "cpus": cpus, "memory_kib": memory_kib}, problems


def _kib(quantity: Any) -> int:
    """KiB of a quantity of memory as a kubelet writes it (32Gi, 1014212Ki); 0 for another form."""
    text = str(quantity)
    number, unit = text[:-2], text[-2:]
    return int(number) * KIB[unit] if unit in KIB and number.isascii() and number.isdigit() and len(number) < 15 else 0


def consistent(plan: Plan) -> Judged:
    """Tiers as PriorityClasses, and for each account its quota, queue and place in the tree of cohorts."""
    wanted, objects = accounts_of(plan, plan.catalog), design(plan).objects
    classes = {one.name: one.body for one in objects if one.kind == "PriorityClass"}
    values = [body["value"] for body in classes.values()]
    quotas = {
        one.namespace: one.body["spec"]["hard"] for one in objects if (one.kind, one.name) == ("ResourceQuota", "gpus")
    }
    queues = {one.name: one.body["spec"] for one in objects if one.kind == "ClusterQueue"}
    cohorts = {one.name: one.body["spec"].get("parentName", "") for one in objects if one.kind == "Cohort"}
    local = {
        one.namespace: one.body["spec"]["clusterQueue"]
        for one in objects
        if one.kind == "LocalQueue" and one.name == LOCAL_QUEUE
    }
    allowed = allowed_of(wanted.accounts, design(plan).gpus, profiles(plan), plan.site.scheduler.reservations)
    limited = [one.name for one in wanted.accounts if one.max_gpus is not None]
    lowest = plan.site.tiers[-1:]
    problems = [
        *(["the classes are not the site's tiers, highest first"] if tuple(classes) != plan.site.tiers else []),
        *(["priorities do not fall from tier to tier"] if values != sorted(set(values), reverse=True) else []),
        *(
            f"{name} preempts others: it is the lowest tier"
            for name in lowest
            if classes.get(name, {}).get("preemptionPolicy") != "Never"
        ),
        *(
            f"{one.name} has no quota of {count} {'GPUs' if resource == GPU_RESOURCE else resource}"
            for one in wanted.accounts
            for resource, count in allowed[one.name].items()
            if _count(quotas.get(one.name, {}).get(f"requests.{resource}")) != count
        ),
        *(f"{one.name} has no queue of its own" for one in wanted.accounts if local.get(one.name) != one.name),
        *(
            f"the queue of {name} is below cohort {spec['cohort']}, which is not below {ROOT}"
            for name, spec in queues.items()
            if not _below_root(spec["cohort"], cohorts)
        ),
        *([] if limited else ["no account has a limit: add max_gpus to an account of scheduler.accounts"]),
    ]
    value = {"classes": len(classes), "accounts": len(wanted.accounts), "limited": len(limited)}
    return value, problems


def _count(quantity: str | None) -> int:
    """The GPUs of a quota of the plan (tenancy.quantity)."""
    return kube.whole((quantity or "").replace("k", "000"))


def _below_root(cohort: str, parents: Mapping[str, str]) -> bool:
    for _ in range(len(parents) + 1):
        if cohort == ROOT:
            return True
        cohort = parents.get(cohort, "")
    return False


def allocation(plan: Plan) -> Judged:
    """GPUs in the quota of all, and labels that tell each GPU node's place in every level of the topology."""
    labels, objects = node_labels(plan), design(plan)
    gpu = plan.devices[plan.devices["role"] == "gpu"]
    shared = {name for one in profiles(plan) for name in one.nodes}
    alone = gpu.loc[~gpu["name"].isin(shared), "model"]
    planned = sum(plan.catalog.device(str(model)).bringup.gpus for model in alone)
    quota: dict[str, int] = {}
    for queue in objects.objects:
        if queue.kind in ("Cohort", "ClusterQueue"):
            for found in queue.body["spec"]["resourceGroups"][0]["flavors"][0]["resources"]:
                quota[found["name"]] = quota.get(found["name"], 0) + _count(found["nominalQuota"])
    granted = quota.get(GPU_RESOURCE, 0)
    unit_of = dict(zip(gpu["name"], gpu["unit"], strict=True))
    blocks: dict[str, set[int]] = {}
    for name, one in labels.items():
        blocks.setdefault(one.get(BLOCK, ""), set()).add(unit_of.get(name, -1))
    mixed = [block or "no block" for block, units in blocks.items() if len(units) != 1]
    levels = objects.levels[:-1]
    problems = [
        *([f"{granted} GPUs to grant, {planned} planned"] if granted != planned else []),
        *(
            f"{quota.get(one.resource, 0)} {one.resource} to grant, {one.count} planned"
            for one in profiles(plan)
            if quota.get(one.resource, 0) != one.count
        ),
        *([] if set(labels) == set(unit_of) else ["a GPU node has no labels, or another node has"]),
        *(
            f"{name} has no label {level}"
            for name, one in labels.items()
            for level in (*levels, GPU)
            if level not in one
        ),
        *([f"{', '.join(mixed)} mix scalable units"] if mixed else []),
    ]
    return {"gpus": granted, "nodes": len(labels), "blocks": len(blocks), "levels": len(levels)}, problems


def enforced(said: Mapping[str, Any], plan: Plan) -> Judged:
    """The policy's objects as planned, and what it refuses: pods beyond quota and tier, Jobs beyond the limits of Kueue."""
    return kube.joined(kube.objects(said, plan, POLICY), kube.admitted(said, plan), kube.quotas(said, plan))


def preemption(said: Mapping[str, Any], plan: Plan) -> Judged:
    """Tiers and queues that say who yields to whom."""
    return kube.objects(said, plan, PREEMPTION)


def placed_whole(said: Mapping[str, Any], plan: Plan) -> Judged:
    """Queues that place all pods of a job at once, and nodes that offer all their GPUs: whole, unless the site file shares them."""
    value, problems = kube.objects(said, plan, PLACEMENT)
    planned = kube.planned_offers(plan)
    for name, offer in planned.items():
        offered = (said["nodes"].get(name) or {}).get("status.allocatable") or {}
        problems += [f"{name}: {why}" for why in kube.unlike_offer(offered, offer)]
    return {**value, "nodes": len(planned)}, problems


def allotted(said: Mapping[str, Any], plan: Plan, name: str) -> Judged:
    """One GPU node: its place as planned, pods that have what they were granted, and none that asks for more than a node has."""
    more = said["too_many"]
    asked, most = max(kube.planned_gpus(plan).values()) + 1, more["pods"]
    problems = [
        *([f"a pod that asks for {asked} GPUs of a node was made {most} times"] if most else []),
        *(
            []
            if NO_NODE_HAS_THEM in more["why"]
            else [f"a pod that asks for {asked} GPUs of a node: {_unproven(more['why'])}"]
        ),
        *([f"{more['gpus']} GPUs were asked for, planned {asked}"] if more["gpus"] != asked else []),
    ]
    return kube.joined(kube.node(said, plan, name), kube.granted(said["grants"], plan, name), ({}, problems))


def charged(said: Mapping[str, Any], plan: Plan) -> Judged:
    """The tree of accounts as planned, and GPU time of a Job charged to who made it, whomever it names."""
    one = said["charged"]
    value = {key: one[key] for key in ("gpus", "seen_s", "shown_s", "gone_s", "gpu_s")}
    return kube.joined(kube.objects(said, plan, ACCOUNTING), (value, list(_uncharged(one, plan))))


def _uncharged(one: Mapping[str, Any], plan: Plan) -> Iterator[str]:
    pin = plan.site.versions.get("kubernetes", "")
    if not has_mutating_policies(pin):
        yield f"Kubernetes {pin} has no policies that write who made a pod. Fix: versions.kubernetes 1.36 or later"
    asked = min(GPUS, max(kube.planned_gpus(plan).values()))
    if one["gpus"] != asked:
        yield f"a Job of {one['gpus']} GPUs was tried, planned {asked}"
    if not one["node"]:
        yield f"{one['gpus']} GPUs were free for no job: ask again when they are ({one['why'] or 'nobody says why it waits'})"
        return
    for what, key in (("was made", "made_by"), ("was to be changed", "after")):
        if one[key] != USER:
            yield f"the pod names {one[key] or 'nobody'} as it {what}, expected {USER}, who made its Job"
    if one["seen_s"] is None:
        yield f"Prometheus counted no GPU of {USER} within {SEEN_S:g} s. {LOOK}"
        return
    if one["counted"] != one["gpus"]:
        yield f"Prometheus counted {one['counted']:g} GPUs, the Job had {one['gpus']}"
    if one["others"]:
        yield f"Prometheus counted {one['others']:g} GPUs for the user whom the Job named"
    if one["gone_s"] is None:
        yield f"Prometheus still counted GPUs {SEEN_S:g} s after the Job was gone"
    elif not one["gpus"] * (one["shown_s"] - OFF_S) < one["gpu_s"] < one["gpus"] * (one["shown_s"] + OFF_S):
        yield (
            f"{one['gpu_s']:g} GPU-s were recorded, but {one['gpus']} GPUs were counted for {one['shown_s']:g} s, which is "
            f"{one['gpus'] * one['shown_s']:g} GPU-s (within {OFF_S:g} s of each GPU)"
        )


def _unproven(why: str) -> str:
    return f"not proven, it waits for another reason: {why}" if why else "nobody says why it waits"


def reservations(said: Mapping[str, Any], plan: Plan) -> Judged:
    """The queues of all reservations, open in their time and closed outside of it, and that of a trial beside them."""
    told, planned = said["reservation"], plan.site.scheduler.reservations
    queues = {str(one["queue"]): one for one in told["queues"]}
    at, problems = str(told["at"]), list[str]()
    if not at:
        why = told["why"] or "nothing"
        return {"reservations": len(planned), "at": at}, [f"the queues were not read: the trial of one gave {why}"]
    windows = {one.queue: (moment(one.start), moment(one.end)) for one in planned}
    for queue, window in windows.items():
        found = queues.get(queue)
        if found is None:
            problems.append(f"{queue} is not there: pulumi up makes it")
        elif (found["opens"], found["closes"]) != window:
            problems.append(f"{queue} is for {found['opens']} to {found['closes']}, planned {' to '.join(window)}")
    for queue, one in queues.items():
        wanted = OPEN if one["opens"] <= at < one["closes"] else CLOSED
        boundary = min(abs(_seconds(at) - _seconds(time)) for time in (one["opens"], one["closes"]))
        if queue not in windows and queue != TRIAL:
            problems.append(f"{queue} is a reservation that is not in the site file")
        elif (one["policy"] or OPEN) != wanted and (boundary > OPENED_WITHIN_S or queue == TRIAL):
            problems.append(f"{queue} is {one['policy'] or OPEN} at {at}, expected {wanted}: {TIMER}")
    problems += [] if TRIAL in queues else ["the reservation of the trial was not there in its time"]
    return {"reservations": len(planned), "at": at}, problems


def window(said: Mapping[str, Any], plan: Plan) -> Judged:
    """A reservation's owner that got its node in its time, from another account and by the lower priority, and not before."""
    told, most_s = said["reservation"], float(plan.site.limits["preempt_start_s"].value)
    before, node, start_s, end_s = told["before"], str(told["node"]), told["start_s"], told["end_s"]
    value = {"node": node, "account": str(told["account"]), "start_s": start_s, "end_s": end_s}
    if not node:
        return value, [f"no node was free for the trial: ask again when one is. {told['why']}".rstrip()]
    if start_s is None:
        return value, [f"the owner's job did not start in its time: {told['why'] or 'Kueue said nothing'}; {TIMER}"]
    problems = [
        *(
            [f"its queue was {before['policy']} before its time, expected {CLOSED}"]
            if before["policy"] != CLOSED
            else []
        ),
        *([f"the owner's job had {before['most']} pods before the time"] if before["most"] else []),
        *([] if before["why"] else ["Kueue did not say why the owner's job waited"]),
        *([f"the owner's job started {-start_s:g} s before the time"] if start_s < 0 else []),
        *([f"the owner's job started {start_s:g} s after the begin, limit {most_s:g}"] if start_s > most_s else []),
        *([f"it ran on {told['started_on']}, expected {node}"] if told["started_on"] != node else []),
        *(
            [
                f"Kueue took {node} from {told['account']} for the reason {told['evicted'] or '(none)'}, expected {PREEMPTED}"
            ]
            if told["evicted"] != PREEMPTED
            else []
        ),
        *([f"the owner's job ran on after the end: {TIMER}"] if end_s is None else []),
        *([] if told["back"] else [f"the job of {told['account']} did not run again after the reservation"]),
    ]
    return value, problems


def _seconds(text: str) -> float:
    """Unix time of a label; ValueError for what is none."""
    return datetime.strptime(text, TIME).replace(tzinfo=UTC).timestamp()
