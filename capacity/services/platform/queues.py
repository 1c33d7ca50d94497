"""Kueue's view of the plan: one flavour of GPU node with its topology, and a tree of quotas like the tree of accounts.

All quota stands at the root: what the GPU nodes have. Every account borrows from there, up to its limit; so an account can use
what others leave, as in Slurm, and the limit of an account holds for all accounts below it. Kueue's words for these: nominalQuota
of the root cohort, borrowingLimit of cohorts and cluster queues (https://kueue.sigs.k8s.io/docs/concepts/cohort/). GPUs that are an
account's own stand in its queue instead, with their part of CPUs and memory: others borrow them, and it takes them back
(reclaimWithinCohort). A workload that has to borrow any resource it asks for preempts lower priorities alone (Kueue v0.15.0,
QuantitiesFitInQuota and its callers).

A reservation is such a queue as well, which the role kubernetes_reservations opens for its time alone; others borrow its GPUs at
all other times, since Kueue counts the quota of a closed queue (v0.15.0, Cache.Snapshot). It is below the root, and not in its
account's cohort: there the account's other work would be within these GPUs, which nobody could take back.

v1beta1 is the version in which Kueue 0.15.0 stores its objects; v1beta2 needs its conversion webhook.
"""

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from capacity.services.platform.objects import PlatformObject
from capacity.services.platform.sharing import GPU_RESOURCE, Profile, whole
from capacity.services.platform.tenancy import quantity
from capacity.services.platform.topology import GPU, PREFIX
from capacity.services.slurm import CHECK_ACCOUNT, Account, Node
from inventory.site.sections.reservations import Reservation
from inventory.site.sections.software import LOADS

API = "kueue.x-k8s.io/v1beta1"
NAMESPACE = "kubernetes.io/metadata.name"
"""Label of each namespace that the API server sets."""
ROOT = "root"
"""The cohort above all; no account may have this name (inventory/site/sections/software.py)."""
MEMORY = "memory"
LOCAL_QUEUE = "default"
"""Kueue puts a job that names no queue into the local queue of this name."""
LOADS_QUEUE = "acceptance"
"""The local queue of acceptance's loads, for those that try Kueue itself; all others name their nodes and no queue."""


OPENS, CLOSES = f"{PREFIX}/opens", f"{PREFIX}/closes"
"""Labels of a reservation's queue: its window, as TIME has it."""
TIME = "%Y%m%dT%H%M%SZ"
"""In UTC, in the basic form of ISO 8601: a label has no colon."""
CLOSED, OPEN = "HoldAndDrain", "None"
"""stopPolicy of a cluster queue that starts nothing and evicts what runs, and of one that is open. That of a local queue would do
the same, but nobody who waits for its GPUs would be looked at again (v0.15.0, QueueAssociatedInadmissibleWorkloadsAfter)."""


def amounts_of(nodes: Sequence[Node], shared: Sequence[Profile] = ()) -> dict[str, int]:
    """{resource: amount} of GPU nodes, memory in MiB. CPUs and memory only where the catalogue knows them of every node."""
    totals = {GPU_RESOURCE: sum(node.gpus for node in whole(nodes, shared))}
    totals |= {one.resource: one.count for one in shared}
    if all(node.cpus for node in nodes):
        totals["cpu"] = sum(node.cpus for node in nodes)
    if all(node.memory_mib for node in nodes):
        totals[MEMORY] = sum(node.memory_mib for node in nodes)
    return totals


def own_amounts(
    nodes: Sequence[Node], own: Mapping[str, int], shared: Sequence[Profile] = ()
) -> dict[str, dict[str, int]]:
    """{account: {resource: amount}} of accounts with GPUs of their own: as large a part of the CPUs and the memory of the nodes
    with whole GPUs as of their GPUs, rounded down.
    """
    known, alone = amounts_of(nodes, shared), amounts_of(whole(nodes, shared))
    part = {name: amount for name, amount in alone.items() if name in known}
    return {
        account: {name: amount * gpus // part[GPU_RESOURCE] for name, amount in part.items()}
        for account, gpus in own.items()
    }


def capacity_of(
    nodes: Sequence[Node], shared: Sequence[Profile] = (), own: Iterable[Mapping[str, int]] = ()
) -> dict[str, str]:
    """{resource: quantity} of all GPU nodes, without what `own_amounts` gave to accounts and reservations."""
    given = list(own)
    left = {name: amount - sum(one.get(name, 0) for one in given) for name, amount in amounts_of(nodes, shared).items()}
    return _quantities(left)


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: mebibytes(amount) if name == MEMORY else quantity(amount) for name, amount in amounts.items()}


def mebibytes(count: int) -> str:
    """MiB in the largest unit that is whole, as Kueue writes what it reads: 4096 as 4Gi (canonical form of BinarySI)."""
    for power, suffix in ((3, "Pi"), (2, "Ti"), (1, "Gi")):
        if count and count % 1024**power == 0:
            return f"{count // 1024**power}{suffix}"
    return f"{count}Mi"


def flavour(gpu: str, topology: str, levels: Sequence[str]) -> Iterator[PlatformObject]:
    """The topology, and the flavour whose nodes it orders."""
    body: dict[str, Any] = {"spec": {"levels": [{"nodeLabel": level} for level in levels]}}
    yield PlatformObject(API, "Topology", topology, body)
    body = {"spec": {"nodeLabels": {GPU: gpu}, "topologyName": topology}}
    yield PlatformObject(API, "ResourceFlavor", gpu, body)


def queues(
    accounts: Sequence[Account],
    totals: Mapping[str, str],
    flavor: str,
    shared: Sequence[Profile] = (),
    own: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
    reserved: Mapping[Reservation, Mapping[str, int]] = MappingProxyType({}),
) -> Iterator[PlatformObject]:
    """Cohorts from the root down, then a cluster queue and a local queue per account and reservation. totals: without those of
    `own`, the amounts that are an account's own.
    """
    per_gpu = {GPU_RESOURCE: 1} | {one.resource: one.per_gpu for one in shared}
    parents = {account.parent for account in accounts}
    yield PlatformObject(API, "Cohort", ROOT, {"spec": {"resourceGroups": _groups(totals, flavor)}})
    nothing = dict.fromkeys(totals, "0")

    below = _with_those_below(accounts, {account: amounts[GPU_RESOURCE] for account, amounts in own.items()})

    def limited(account: Account, nominal: Mapping[str, str]) -> list[dict[str, Any]]:
        most = account.max_gpus
        limits = {} if most is None else {name: quantity(most * count) for name, count in per_gpu.items()}
        if most is not None:  # what is its own is not borrowed
            limits[GPU_RESOURCE] = quantity(most - below.get(account.name, 0))
        return _groups(nominal, flavor, limits)

    for account in accounts:
        if account.name in parents:
            cohort = {"parentName": account.parent, "resourceGroups": limited(account, nothing)}
            yield PlatformObject(API, "Cohort", account.name, {"spec": cohort})
    for account in accounts:
        amounts = own.get(account.name, {})
        above = account.name if account.name in parents else account.parent
        groups = limited(account, {**nothing, **_quantities(amounts)})
        yield _queue(account.name, above, _selects(account.name), groups, own=bool(amounts))
        yield PlatformObject(
            API, "LocalQueue", LOCAL_QUEUE, {"spec": {"clusterQueue": account.name}}, namespace=account.name
        )

    for one, amounts in reserved.items():
        yield from reservation(one, amounts, list(totals), flavor)

    body = {"spec": {"clusterQueue": CHECK_ACCOUNT}}
    yield PlatformObject(API, "LocalQueue", LOADS_QUEUE, body, namespace=LOADS)


def reservation(
    one: Reservation, amounts: Mapping[str, int], covered: Sequence[str], flavor: str
) -> Iterator[PlatformObject]:
    """The quota of a reservation and its queue. It borrows no GPUs. covered: resources that every quota names."""
    quota = {**dict.fromkeys(covered, "0"), **_quantities(amounts)}
    groups = _groups(quota, flavor, {GPU_RESOURCE: "0"})
    window = ((OPENS, moment(one.start)), (CLOSES, moment(one.end)))
    yield replace(_queue(one.queue, ROOT, _selects(one.account), groups, own=True), labels=window)
    yield PlatformObject(API, "LocalQueue", one.name, {"spec": {"clusterQueue": one.queue}}, namespace=one.account)


def moment(time: datetime.datetime) -> str:
    """A time as the label of a queue has it."""
    return time.astimezone(datetime.UTC).strftime(TIME)


def _queue(
    name: str, cohort: str, selects: Mapping[str, Any], groups: Sequence[Mapping[str, Any]], own: bool
) -> PlatformObject:
    """own: it has GPUs of its own, which it takes back from whoever borrows them."""
    spec = {
        "cohort": cohort,
        "namespaceSelector": dict(selects),
        "queueingStrategy": "BestEffortFIFO",
        "resourceGroups": list(groups),
        "preemption": {
            "withinClusterQueue": "LowerPriority",
            "reclaimWithinCohort": "Any" if own else "LowerPriority",
            "borrowWithinCohort": {"policy": "LowerPriority"},
        },
    }
    return PlatformObject(API, "ClusterQueue", name, {"spec": spec})


def _with_those_below(accounts: Sequence[Account], own: Mapping[str, int]) -> dict[str, int]:
    """{account: GPUs that are its own or those of accounts below it}."""
    parents = {account.name: account.parent for account in accounts}
    found: dict[str, int] = {}
    for name, gpus in own.items():
        while name in parents:
            found[name] = found.get(name, 0) + gpus
            name = parents[name]
    return found


def _selects(account: str) -> dict[str, Any]:
    """The namespaces whose jobs an account's queue takes: its own; that of the checks also takes acceptance's loads."""
    if account != CHECK_ACCOUNT:
        return {"matchLabels": {NAMESPACE: account}}
    return {"matchExpressions": [{"key": NAMESPACE, "operator": "In", "values": [account, LOADS]}]}


def _groups(quota: Mapping[str, str], flavor: str, limits: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """limits: the most of each resource that may be borrowed; of others as much as there is."""
    resources = []
    for name, nominal in quota.items():
        limit = {"borrowingLimit": limits[name]} if limits and name in limits else {}
        resources.append({"name": name, "nominalQuota": nominal, **limit})
    return [{"coveredResources": list(quota), "flavors": [{"name": flavor, "resources": resources}]}]
