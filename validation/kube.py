"""Whether a Kubernetes platform is as planned, from what its API server said (facts/kube.py). Pure.

Each function gives the value of a record and what is wrong: the checks use them, and the gate again, on the raw output.
"""

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from capacity.model import Plan
from capacity.services.cluster import API_SERVICE, DNS_SERVICE
from capacity.services.objects_seen import seen_as
from capacity.services.platform import PlatformObject, design
from capacity.services.platform.runtime import runtime_of
from capacity.services.platform.sharing import GPU_RESOURCE, SHARING, Offer, offers
from capacity.services.platform.topology import HOSTNAME, OUT_OF_SERVICE, node_labels
from inventory.site import Site
from validation.facts.gangs import BLOCK, HALVES, START_S, sizes
from validation.facts.kube import Trial, rights, trials
from validation.facts.kueue import COUNT, count
from validation.facts.quotas import Trial as Quota
from validation.facts.quotas import trials as quota_trials
from validation.facts.reclaim import pair as reclaim_pair
from validation.workloads.granted import DRIVER

Judged = tuple[dict[str, Any], list[str]]
SHOWN = 6
NOTICED_S = 65.0
"""Seconds until a silent kubelet is missed: the node controller's grace of 50 s, its period of 5 s (kube-controller-manager 1.36,
--node-monitor-grace-period, --node-monitor-period) and 10 s between two reports of a kubelet (nodeStatusUpdateFrequency)."""
VENDOR = GPU_RESOURCE.partition("/")[0]
UNFIT_S = 65.0
"""Seconds until a node that is not fit is out of service: 30 s between two checks, 30 s that one may take (role kubelet,
kubelet_health_interval_s and kubelet_health_budget_s), and 5 s to read it."""
OFFERED_S = 15.0
"""Seconds until a node offers one GPU less: 10 s between two reports of a kubelet (nodeStatusUpdateFrequency), and 5 s for the
driver, the device plugin and us, a choice of ours."""
TAKEN_OVER_S = 60.0
"""Seconds until a pod runs that is made as an API server is lost with its scheduler: 17 s until another leads (kube-scheduler 1.36,
--leader-elect-lease-duration and --leader-elect-retry-period), the rest for a busy cluster, a choice of ours."""
BACK_S = 120.0
"""Seconds until what was stopped is as before. A choice of ours."""
PROVIDER = "secretbox"
"""Of the role kubernetes_control_plane (encryption.yaml.j2)."""
PREEMPTED = "Preempted"
"""Reason of the condition Requeued of a workload that yielded to another (Kueue 0.15.0, WorkloadEvictedByPreemption)."""
_OF_GPUS = rf"for {re.escape(GPU_RESOURCE)} in flavor [^,]{{1,99}}, "
BEYOND_LIMIT = re.compile(rf"insufficient quota {_OF_GPUS}.{{1,200}}> maximum capacity \(({COUNT.pattern})\)")
NO_MORE_NOW = re.compile(rf"insufficient unused quota {_OF_GPUS}({COUNT.pattern}) more needed")
"""What Kueue 0.15.0 says of a workload that asks for more than its queue may ever hold, and of one for which too much is in use
(pkg/scheduler/flavorassigner/flavorassigner.go, fitsResourceQuota)."""
UNLIMITED = "unlimited"
"""Memory that a process may pin, as workloads/granted.py says it."""
NO_PODS = ("node.kubernetes.io/", OUT_OF_SERVICE)
"""Taints that the node controller sets on a node that it cannot use, and the one of acceptance and of a node's health check."""


def objects(said: Mapping[str, Any], plan: Plan, kinds: Sequence[str] = ()) -> Judged:
    """Each object of the plan, compared with the one that the API server has: what the plan sets has to be there, unchanged.

    kinds: only objects of these; none: all.
    """
    wanted = [one for one in design(plan).objects if not one.partial and (not kinds or one.kind in kinds)]
    live: Mapping[str, Any] = said["objects"]
    problems = [why for one in wanted if (why := _unlike_planned(one, live.get(one.key)))]
    value = {"objects": len(wanted), "as_planned": len(wanted) - len(problems)}
    return value, _with_way_out(problems, "pulumi preview --diff shows them, pulumi up puts them back")


def _unlike_planned(one: PlatformObject, found: Any) -> str:
    """In what a live object differs from the plan's; '' in nothing."""
    if not isinstance(found, Mapping):
        return f"{one.key}: {found or 'is not there'}"
    seen = seen_as(one.manifest, found)
    changed = [key for key, value in one.manifest.items() if seen.get(key) != value]
    return f"{one.key}: {', '.join(changed)} {'is' if len(changed) == 1 else 'are'} not as planned" if changed else ""


def by_hand(said: Mapping[str, Any], plan: Plan) -> Judged:
    """An object that was changed by hand and put back: the comparison with the plan sees the first, and nothing afterwards."""
    one = next((one for one in design(plan).objects if one.key == said["key"]), None)
    if one is None:
        return {"found": False}, [f"the plan has no {said['key']}"]
    found, left = _unlike_planned(one, said["changed"]), _unlike_planned(one, said["back"])
    problems = [] if found else [f"{one.key} was changed by hand, and the comparison with the plan does not see it"]
    problems += [f"after it was put back, {left}"] if left else []
    return {"object": one.key, "found": bool(found)}, problems


def kubelet_stopped(said: Mapping[str, Any]) -> Judged:
    """A kubelet that was stopped: missed within its grace, its pod running on, and nothing started anew when it came back."""
    problems = [
        *(
            [f"the cluster missed the kubelet after {said['noticed_s']:g} s, expected {NOTICED_S:g} s at most"]
            if said["noticed_s"] > NOTICED_S
            else []
        ),
        *([] if said["ran_on"] else ["the process of the pod was gone while the kubelet was stopped"]),
        *([] if said["same_container"] else ["the pod was started anew when the kubelet came back"]),
    ]
    return {key: said[key] for key in ("node", "noticed_s", "back_s")}, problems


def node_unfit(said: Mapping[str, Any]) -> Judged:
    """A node whose clock followed nobody: out of service in time with its reason, no other beside it, and what its health check may
    not do refused."""
    taken = [one["what"] for one in said["tried"] if not one["said"]]
    problems = [
        *(
            [f"{said['node']} was out of service after {said['noticed_s']:g} s, expected {UNFIT_S:g} s at most"]
            if said["noticed_s"] > UNFIT_S
            else []
        ),
        *([] if said["taint"] == "unfit" else [f"its taint is {said['taint'] or 'not there'}, not unfit"]),
        *(
            []
            if said["reason"].startswith("bringup: ")
            else [f"the reason {said['reason']!r} is not the health check's"]
        ),
        *([f"{', '.join(said['others'])} went out of service as well"] if said["others"] else []),
        *([f"the API server lets a node's health check {', '.join(taken)}"] if taken else []),
        *([] if said["tried"] else ["nothing was tried of what a node's health check may not do"]),
    ]
    return {key: said[key] for key in ("node", "noticed_s", "back_s", "reason")}, problems


def one_gpu_less(said: Mapping[str, Any], plan: Plan, name: str) -> Judged:
    """A node one of whose GPUs reported an XID: it offered one less, gave no pod that one, and offered all after the repair."""
    planned, given = planned_gpus(plan)[name], set(said["given"])
    value = {key: said[key] for key in ("before", "offered", "noticed_s", "after", "back_s")}
    if said["why"]:
        return value, [said["why"]]
    problems = [
        *([f"{said['before']} GPUs were on offer, planned {planned}"] if said["before"] != planned else []),
        *(
            [f"a GPU reported an XID, and {said['offered']} of {said['before']} stayed on offer, expected one less"]
            if said["offered"] != said["before"] - 1
            else []
        ),
        *(
            [f"the offer fell after {said['noticed_s']:g} s, expected {OFFERED_S:g} s at most"]
            if said["noticed_s"] > OFFERED_S
            else []
        ),
        *([f"a pod was given {said['uuid']}, which had reported the XID"] if said["uuid"] in given else []),
        *(
            [f"a pod that asked for {said['offered']} GPUs was given {len(given)}"]
            if len(given) != said["offered"]
            else []
        ),
        *(
            [f"{said['after']} of {said['before']} GPUs are on offer after the repair"]
            if said["after"] != said["before"]
            else []
        ),
    ]
    return value, problems


def served_on(said: Mapping[str, Any], plan: Plan) -> Judged:
    """The API server of a controller was lost: the others answered, GPU nodes reported to them and stayed ready, a pod started."""
    value = {key: said[key] for key in ("nodes", "calls", "failed", "start_s", "away_s", "back_s")}
    if said["why"]:
        return value, [said["why"]]
    wanted, start_s = len(planned_offers(plan)), said["start_s"]
    problems = [
        *([f"{said['failed']} of {said['calls']} calls to the other API servers failed"] if said["failed"] else []),
        *([f"the others know {said['nodes']} nodes, planned {wanted}"] if said["nodes"] != wanted else []),
        *([f"not ready meanwhile: {', '.join(said['not_ready'])}"] if said["not_ready"] else []),
        *([f"did not report to the others: {', '.join(said['silent'])}"] if said["silent"] else []),
        *([f"a new pod did not start within {said['away_s']:g} s"] if start_s is None else []),
        *(
            [f"a new pod started after {start_s:g} s, expected {TAKEN_OVER_S:g} s at most"]
            if start_s is not None and start_s > TAKEN_OVER_S
            else []
        ),
        *([f"it was not ready {said['back_s']:g} s after its start"] if said["back_s"] > BACK_S else []),
    ]
    return value, problems


def nothing_lost(said: Mapping[str, Any]) -> Judged:
    """A member of etcd was lost: what the API server took before and meanwhile is there, at the others and at that member."""
    seen = ("members", "leader", "written", "while_away", "refused", "back_s")
    value = {key: said[key] for key in seen} | {"lost": len(said["lost"]) + len(said["lost_by_member"])}
    if said["why"]:
        return value, [said["why"]]
    problems = [
        *([f"{len(said['lost'])} objects are lost: {shown(said['lost'])}"] if said["lost"] else []),
        *(
            [f"the member that was away lacks {len(said['lost_by_member'])} objects: {shown(said['lost_by_member'])}"]
            if said["lost_by_member"]
            else []
        ),
        *([] if said["while_away"] else [f"none of {said['members']} members took an object while one was away"]),
        *([f"it did not have all objects {said['back_s']:g} s after its start"] if said["back_s"] > BACK_S else []),
    ]
    return value, problems


@functools.lru_cache(maxsize=2)
def _planned(plan: Plan) -> tuple[Mapping[str, Mapping[str, str]], Mapping[str, Offer]]:
    """Labels and offer of all GPU nodes, computed once for a plan: each node is a subject of its own."""
    return node_labels(plan), offers(plan)


def planned_offers(plan: Plan) -> Mapping[str, Offer]:
    """What each GPU node offers."""
    return _planned(plan)[1]


def planned_gpus(plan: Plan) -> Mapping[str, int]:
    """The GPUs of each GPU node that shares none of them."""
    return {name: one.count for name, one in planned_offers(plan).items() if not one.profile}


def unlike_offer(allocatable: Mapping[str, Any], planned: Offer) -> list[str]:
    """In what the resources of a node differ from its planned offer: of other resources of the maker there is to be none."""
    found = {key: whole(value) for key, value in allocatable.items() if key.startswith(f"{VENDOR}/")}
    offered = found.pop(planned.resource, 0)
    what = "GPUs" if planned.resource == GPU_RESOURCE else planned.resource
    return [
        *([f"{offered} {what} are on offer, planned {planned.count}"] if offered != planned.count else []),
        *(f"{count} {key} are on offer, planned none" for key, count in sorted(found.items()) if count),
    ]


def node(said: Mapping[str, Any], plan: Plan, name: str) -> Judged:
    """One GPU node: ready, open for pods, in its place, with all its GPUs on offer, whole or shared as planned."""
    found = said["nodes"].get(name)
    places, planned = _planned(plan)
    offer = planned[name]
    if not isinstance(found, Mapping):
        return {"ready": False, "gpus": 0}, [f"the API server knows no node {name}: its kubelet has not registered it"]
    labels, wanted = found["metadata.labels"] or {}, {**places[name], HOSTNAME: name}
    shared = labels.get(SHARING, "")
    conditions = {one["type"]: one["status"] for one in found["status.conditions"] or ()}
    ready = conditions.get("Ready") == "True"
    allocatable = found["status.allocatable"] or {}
    taints = [str(one["key"]) for one in found["spec.taints"] or () if str(one["key"]).startswith(NO_PODS)]
    problems = [
        *([] if ready else [f"Ready is {conditions.get('Ready', 'not said')}"]),
        *(["it takes no pods: it is cordoned"] if found["spec.unschedulable"] else []),
        *([f"taints {', '.join(taints)}"] if taints else []),
        *(
            f"label {key} is {labels.get(key, 'missing')}, planned {value}"
            for key, value in wanted.items()
            if labels.get(key) != value
        ),
        *(
            [f"its GPUs are {_way(shared)}, planned {_way(offer.profile)}: playbooks/gpu_sharing.yml changes it"]
            if shared != offer.profile
            else []
        ),
        *unlike_offer(allocatable, offer),
    ]
    return {"ready": ready, "gpus": whole(allocatable.get(offer.resource, "0"))}, problems


def _way(profile: str) -> str:
    return f"shared as {profile}" if profile else "whole"


def granted(said: Mapping[str, Any], plan: Plan, name: str) -> Judged:
    """Pods of one GPU node that asked for GPUs at the same time: each has as many as it asked for, and no GPU is with two."""
    if (offer := planned_offers(plan)[name]).profile:
        return _shared(said, offer, plan)
    gpus, pods = offer.count, {trial: one for trial, one in said.items() if one["asked"]}
    problems = [f"{trial}: {one['why']}" for trial, one in pods.items() if one["why"]]
    asked = sum(one["asked"] for one in pods.values())
    if asked != gpus:
        problems.append(f"{asked} GPUs were asked for, planned {gpus}")
    if gpus > 1 and len(pods) < 2:
        problems.append("one pod asked for all GPUs: only two can show that none has those of the other")
    if problems:
        return {"gpus": 0, "pods": len(pods)}, problems
    problems += [*_not_as_asked(pods), *_not_served(pods, plan.site)]
    uuids = [uuid for one in pods.values() for uuid in one["uuids"]]
    minors = [minor for one in pods.values() for minor in one["opened"]]
    if len(set(uuids)) != len(uuids) or len(set(minors)) != len(minors):
        problems.append("two pods have the same GPU")
    problems += _not_together(pods)
    return {"gpus": len(set(uuids)), "pods": len(pods)}, problems


def _shared(said: Mapping[str, Any], offer: Offer, plan: Plan) -> Judged:
    """Pods of a node that shares its GPUs, each of which asked for one part: each reaches the GPU of its part alone.

    Time slices may be of one GPU; two instances of MIG are never the same.
    """
    pods = {trial: one for trial, one in said.items() if one["asked"]}
    problems = [f"{trial}: {one['why']}" for trial, one in pods.items() if one["why"]]
    if [one["asked"] for one in pods.values()] != [1, 1]:
        problems.append(f"two pods had to ask for one {offer.resource} each")
    if problems:
        return {"gpus": 0, "pods": len(pods)}, problems
    problems += [*_not_as_asked(pods), *_not_served(pods, plan.site)]
    uuids = [uuid for one in pods.values() for uuid in one["uuids"]]
    kind = "MIG-" if offer.mig else "GPU-"
    problems += [f"{uuid} is not of {offer.profile}" for uuid in uuids if not uuid.startswith(kind)]
    if offer.mig and len(set(uuids)) != len(uuids):
        problems.append("two pods have the same instance of MIG")
    problems += _not_together(pods)
    return {"gpus": len(set(uuids)), "pods": len(pods)}, problems


def _not_as_asked(pods: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for trial, one in pods.items():
        for what, found in (("UUIDs", one["uuids"]), ("device files", one["seen"]), ("GPUs to open", one["opened"])):
            if len(set(found)) != one["asked"]:
                yield f"{trial}: asked for {one['asked']} GPUs and has {len(set(found))} {what}"
        if one["seen"] != one["opened"]:
            yield f"{trial}: it sees {_minors(one['seen'])} and may open {_minors(one['opened'])}"


def _not_served(pods: Mapping[str, Mapping[str, Any]], site: Site) -> Iterator[str]:
    """Pods with GPUs that lack what their programs need: the driver's libraries, and on InfiniBand the RDMA devices of the node."""
    runtime, rdma = runtime_of(site), site.fabric.kind == "ib"
    for trial, one in pods.items():
        if runtime and (lacking := sorted({*DRIVER} - {*one["driver"]})):
            yield (
                f"{trial}: the runtime {runtime} did not put {' and '.join(lacking)} of the driver into it: "
                "the last line of `nvidia-ctk cdi generate >/dev/null` on the node says what is missing"
            )
        of_node = {*one["rdma_of_node"]} if rdma else set()
        if absent := of_node - {*one["rdma"]}:
            yield f"{trial}: it lacks {len(absent)} of the {len(of_node)} RDMA devices of its node: `ls /dev/infiniband` there"
        if of_node and one["may_pin"] != UNLIMITED:
            pins = one["may_pin"] or "no"
            yield f"{trial}: it may pin {pins} bytes, RDMA needs no limit: playbooks/site.yml (role kubelet) sets LimitMEMLOCK"


def _not_together(pods: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    if max(one["began"] for one in pods.values()) >= min(one["ended"] for one in pods.values()):
        yield "the pods did not run at the same time, so that they could have had the same GPUs: run it again"


def none_granted(said: Mapping[str, Any]) -> Judged:
    """A pod of one GPU node that asked for no GPU: it was given none, sees none and may open none."""
    one = said["none"]
    if one["why"]:
        return {"gpus": 0}, [one["why"]]
    has = {"was given": one["uuids"], "sees": one["seen"], "may open": one["opened"]}
    problems = [f"it asked for no GPU and {what} {len(found)}" for what, found in has.items() if found]
    beside = {"libraries of the driver": one["driver"], "RDMA devices": one["rdma"]}
    problems += [f"it asked for no GPU and has {len(found)} {what}" for what, found in beside.items() if found]
    return {"gpus": max(len(found) for found in has.values())}, problems


def _minors(minors: Sequence[int]) -> str:
    return ", ".join(f"/dev/nvidia{minor}" for minor in minors) or "no GPU"


def api_server_found(one: Mapping[str, Any]) -> Judged:
    """What a pod of one GPU node learnt of the API server's name: its address as a service, from the cluster's DNS."""
    servers, addresses = ", ".join(one["servers"]) or "none", ", ".join(one["addresses"]) or "no address"
    problems = []
    if not one["began"]:
        problems.append(one["why"])
    elif one["servers"] != [DNS_SERVICE]:
        problems.append(
            f"its name server is {servers}, expected {DNS_SERVICE}: playbooks/site.yml (role kubelet) sets it for new pods"
        )
    elif one["addresses"] != [API_SERVICE]:
        why = f" ({one['why']})" if one["why"] else ""
        problems.append(
            f"the API server's name has {addresses}{why}, expected {API_SERVICE}: `kubectl -n kube-system get pods -o wide "
            "-l k8s-app=kube-dns` shows the DNS, `systemctl status kube-proxy` on the node what leads there"
        )
    return {"took_ms": one["took_ms"]}, problems


def encrypted(said: Mapping[str, Any]) -> Judged:
    """Secrets of one member of etcd: all encrypted by PROVIDER, and among them the one that was made."""
    providers: Mapping[str, int] = said["providers"]
    others = {name or "in clear": count for name, count in providers.items() if name != PROVIDER}
    named = f", such as {', '.join(said['plain'])}" if said["plain"] else ""
    problems = [
        *(f"{count} Secrets are {name}{named if name == 'in clear' else ''}" for name, count in others.items()),
        *(["etcd does not have the Secret that was made a moment ago"] if said["clear"] is None else []),
        *(["the Secret that was made can be read in etcd"] if said["clear"] else []),
        *([] if said["read_back"] else ["the API server does not give the Secret back that was made"]),
    ]
    way_out = (
        "the role kubernetes_control_plane sets encryption; what was there before is encrypted when it is written again"
    )
    value = {"secrets": sum(providers.values()), "encrypted": providers.get(PROVIDER, 0)}
    return value, _with_way_out(problems, way_out)


def restored(said: Mapping[str, Any]) -> Judged:
    """A backup that was restored: the keys of its revision, and among them what was deleted since."""
    problems = [
        *([] if said["keys"] else ["etcd holds no key of Kubernetes"]),
        *(
            []
            if said["same"]
            else [f"the restored etcd has {said['restored']} keys, the backup's revision {said['keys']}"]
        ),
        *([] if said["deleted_since_is_back"] else ["an object that was deleted after the backup is not in it"]),
    ]
    seen = ("bytes", "keys", "save_s", "restore_s")
    return {key: said[key] for key in seen}, problems


def who_may(said: Mapping[str, Any], plan: Plan) -> Judged:
    """Every right that the plan gives or withholds, and what the authorizer said. A question that was not asked is a problem."""
    answers = {_right(one): one["said"] for one in said["rights"]}
    wrong, allowed, asked = [], 0, 0
    for right in rights(plan):
        asked += 1
        answer = answers.get((right.user, right.namespace, right.group, right.resource, right.verb))
        allowed += answer is True
        if answer is not right.wanted:
            where = f"in {right.namespace}" if right.namespace else "of the cluster"
            what = f"{right.user} {right.verb} {right.resource} {where}"
            told = answer if isinstance(answer, str) else "not asked" if answer is None else _may(answer)
            wrong.append(f"{what}: {told}, planned {_may(right.wanted)}")
    return {"asked": asked, "allowed": allowed, "wrong": len(wrong)}, wrong


def admitted(said: Mapping[str, Any], plan: Plan) -> Judged:
    """Pods that were tried: what fits is admitted, everything else refused by the rule that is meant for it."""
    answers = {(one["namespace"], one["user"], one["name"]): one for one in said["trials"]}
    wrong, refused, tried = [], 0, 0
    for trial in trials(plan):
        tried += 1
        answer = answers.get((trial.namespace, trial.user, trial.name))
        refused += answer is not None and answer["status"] == 403
        if why := _unlike(trial, answer):
            wrong.append(f"{trial.namespace}, {trial.name}: {why}")
    return {"pods": tried, "refused": refused, "wrong": len(wrong)}, wrong


def gangs(said: Mapping[str, Any], plan: Plan) -> Judged:
    """Two gangs over half: one ran whole, the other had no pod meanwhile, and ran whole after it."""
    halves, wanted = said["halves"], sizes(plan)[0]
    first, samples = halves["first"], halves["samples"]
    why = f": {halves['why']}" if halves["why"] else ""
    if first not in HALVES:
        most = max((max(one[0], one[2]) for one in samples), default=0)
        ran = f"neither of two gangs of {wanted} pods ran whole within {START_S:g} s, at most {most} pods did{why}"
        value = {"pods": wanted, "beside": 0, "after": 0}
        return value, _with_way_out([ran], "ask again when half of the GPUs are idle")
    other = 3 if first == HALVES[0] else 1
    beside = max((one[other] for one in samples), default=0)
    after = max((one[0] for one in halves["then"]), default=0)
    problems = [
        *([f"{beside} pods of the second gang were there beside the first: not all or nothing"] if beside else []),
        *(
            [f"{after} of {wanted} pods of the second gang ran within {START_S:g} s after the first"]
            if after != wanted
            else []
        ),
    ]
    return {"pods": wanted, "beside": beside, "after": after}, problems


def one_block(said: Mapping[str, Any], plan: Plan) -> Judged:
    """A gang that has to stand in one block: its nodes, each once, in one block of the plan."""
    nodes, wanted = list(said["block"]["nodes"]), sizes(plan)[1]
    places, _ = _planned(plan)
    blocks = sorted({places[one].get(BLOCK, "") for one in nodes if one in places})
    why = f": {said['block']['why']}" if said["block"]["why"] else ""
    problems = [
        *([f"{len(nodes)} of {wanted} pods ran within {START_S:g} s{why}"] if len(nodes) != wanted else []),
        *(f"{one} is no GPU node of the plan" for one in nodes if one not in places),
        *(["two pods with all GPUs of a node ran on one node"] if len(set(nodes)) != len(nodes) else []),
        *([f"they ran in blocks {', '.join(blocks)}"] if len(blocks) > 1 else []),
    ]
    all_blocks = len({one.get(BLOCK, "") for one in places.values()})
    return {"pods": len(nodes), "blocks": len(blocks), "of_blocks": all_blocks}, problems


def preempted(said: Mapping[str, Any], plan: Plan) -> Judged:
    """A job of the lowest tier that yielded to one of the highest: evicted by Kueue, it wrote a checkpoint and went on there."""
    tiers, written = plan.site.tiers, [str(one).split() for one in said["said"]]
    steps = {word: int(step) for word, step in written}
    start_s = (_moment(said["started"]) - _moment(said["asked"])).total_seconds()
    checkpoint, resumed = steps.get("checkpoint"), steps.get("resumed")
    most_s = float(plan.site.limits["preempt_start_s"].value)
    problems = [
        *([f"the urgent job waited {start_s:g} s"] if start_s > most_s else []),
        *(
            [f"{said['yielding_tier']} yielded to {said['urgent_tier']}, which does not stand above it"]
            if not tiers.index(said["urgent_tier"]) < tiers.index(said["yielding_tier"])
            else []
        ),
        *(
            [f"Kueue evicted the job for the reason {said['evicted'] or '(none)'}, expected {PREEMPTED}"]
            if said["evicted"] != PREEMPTED
            else []
        ),
        *(["it wrote no checkpoint in its grace time"] if checkpoint is None else []),
        *([f"it resumed at {resumed}, its checkpoint was {checkpoint}"] if resumed != checkpoint else []),
        *(
            [f"it was started {said['starts']} times and wrote {len(written)} lines, expected 2 of each"]
            if (said["starts"], len(written)) != (2, 2)
            else []
        ),
    ]
    value = {"start_s": start_s, "grace_s": said["grace_s"], "checkpoint_step": checkpoint, "resumed_step": resumed}
    return value, problems


def reclaimed(said: Mapping[str, Any], plan: Plan) -> Judged:
    """A job of one account that yielded its node to one of another account and of a higher priority, and a third of a lower one
    that got nothing."""
    told, wanted = said["reclaim"], reclaim_pair(plan)
    if wanted is None:
        return {"found": "no two accounts may hold a node each: none takes from another"}, []
    yields, takes = wanted
    if (told.get("yields"), told.get("takes")) != wanted:
        return {"found": ""}, [f"accounts {yields} and {takes} were not tried"]
    node = told["node"]
    value = {"found": f"{takes} took {node} from {yields} by priority, and {yields} did not get it back by a lower one"}
    if not node:
        return {"found": ""}, [
            f"no node was free for the job of {yields}: ask again when one is. {told['why']}".rstrip()
        ]
    problems = [
        *(
            [f"the job of {takes} did not get {node}: {told['why'] or 'Kueue said nothing'}"]
            if told["took"] != node
            else []
        ),
        *(
            [f"Kueue evicted the job of {yields} for the reason {told['evicted'] or '(none)'}, expected {PREEMPTED}"]
            if told["evicted"] != PREEMPTED
            else []
        ),
        *([f"a job of a lower priority got {told['most']} pods"] if told["most"] else []),
        *([] if told["why"] else ["Kueue did not say that the job of the lower priority waits"]),
        *([] if told["stayed"] else [f"the job of {takes} did not run on beside one of a lower priority"]),
    ]
    return value, problems


def _moment(text: str) -> datetime:
    """A time as the API server writes it."""
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def quotas(said: Mapping[str, Any], plan: Plan) -> Judged:
    """Jobs beyond the limit of an account, alone or beside another's: Kueue made no pod of them, and named that limit."""
    wanted, tried = list(quota_trials(plan)), list(said["quotas"])
    per_node = min(planned_gpus(plan).values())
    problems = []
    for trial in wanted:
        one = next((one for one in tried if all(one.get(key) == value for key, value in asdict(trial).items())), None)
        if why := _over_quota(trial, one, per_node):
            beside = f" beside {trial.beside} of {trial.first}" if trial.first else ""
            problems.append(f"{trial.pods} nodes for {trial.second}{beside}, limit {trial.limit} GPUs: {why}")
    return {"limits": len(wanted), "held": len(wanted) - len(problems)}, problems


def held_to_quotas(said: Mapping[str, Any], plan: Plan) -> Judged:
    """What the API server refuses of an account's pods, and what Kueue does not admit of its Jobs."""
    return joined(admitted(said, plan), quotas(said, plan))


def joined(*judged: Judged) -> Judged:
    """Several judgements as one."""
    value: dict[str, Any] = {}
    problems: list[str] = []
    for one, wrong in judged:
        value |= one
        problems += wrong
    return value, problems


def _over_quota(trial: Quota, one: Mapping[str, Any] | None, per_node: int) -> str:
    if one is None:
        return "not tried"
    if one["ran"] != trial.beside:
        return f"{one['ran']} of {trial.beside} pods of {trial.first} ran: ask again when their GPUs are idle"
    if one["most"]:
        return f"{one['most']} pods were made"
    beyond, unused = BEYOND_LIMIT.search(one["why"]), NO_MORE_NOW.search(one["why"])
    if beyond and not trial.first:
        most = count(beyond[1])
        return "" if most == trial.limit else f"Kueue holds it to {most} GPUs"
    if unused and trial.first:
        needed = (trial.beside + trial.pods) * per_node - trial.limit
        if count(unused[1]) == needed and one["free"] >= trial.pods * per_node:
            return ""
    if unused:
        return f"not proven: the cluster is busy, ask again when it is idle: {one['why']}"
    return f"Kueue named no quota: {one['why'] or 'it said nothing'}"


def raw_of(said: Mapping[str, Any], *parts: str) -> bytes:
    """Parts of what was said, as evidence keeps them."""
    return json.dumps({part: said[part] for part in parts}, sort_keys=True).encode()


def shown(problems: Sequence[str]) -> str:
    """The first of many problems, and how many there are."""
    more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    return "; ".join(problems[:SHOWN]) + more


def _with_way_out(problems: list[str], way_out: str) -> list[str]:
    return [*problems[:-1], f"{problems[-1]} ({way_out})"] if problems else []


def _right(one: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    return one["user"], one["namespace"], one["group"], one["resource"], one["verb"]


def _may(allowed: bool) -> str:
    return "allowed" if allowed else "refused"


def _unlike(trial: Trial, answer: Mapping[str, Any] | None) -> str:
    if answer is None:
        return "not tried"
    if not trial.refused_by:
        if answer["status"] != 201:
            return f"refused: {answer['said']}"
        found = {key: answer["written"].get(key) for key in trial.written}
        return "" if found == trial.written else f"the API server made it {found}, planned {dict(trial.written)}"
    if answer["status"] == 201:
        return f"admitted, expected a refusal with {trial.refused_by!r}"
    good = answer["status"] == 403 and trial.refused_by in answer["said"]
    return "" if good else f"expected a refusal with {trial.refused_by!r}, got {answer['said']}"


def whole(quantity: Any) -> int:
    """A whole number as the API server writes one; 0 for another form."""
    text = str(quantity)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
