"""One namespace per account: who may do what there, how many GPUs, which tiers, and no traffic from elsewhere."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from capacity.services.platform.logins import GROUPS
from capacity.services.platform.objects import PlatformObject
from capacity.services.platform.sharing import GPU_RESOURCE, Profile
from capacity.services.platform.topology import ACCOUNT
from capacity.services.slurm import Account, Qos
from inventory.site.sections.reservations import Reservation
from inventory.site.sections.software import LOADS

SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")
"""Above every tier, and the API server takes them from any user
(https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods/)."""
MEMBER = "bringup-member"
TIER_STEP = 1000
"""Between the priorities of two tiers, so that a class of the site's own fits between; Kubernetes allows up to 1e9 for users."""
RULES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    # API group, resources, verbs. No member changes quotas, rights, network policies or queues.
    (
        "",
        ("configmaps", "persistentvolumeclaims", "pods", "secrets", "services"),
        ("create", "delete", "get", "list", "patch", "update", "watch"),
    ),
    ("", ("pods/exec", "pods/portforward"), ("create", "get")),
    ("", ("events", "pods/log", "pods/status", "resourcequotas"), ("get", "list", "watch")),
    ("batch", ("jobs",), ("create", "delete", "get", "list", "patch", "update", "watch")),
    ("batch", ("jobs/status",), ("get",)),
    ("jobset.x-k8s.io", ("jobsets",), ("create", "delete", "get", "list", "patch", "update", "watch")),
    ("jobset.x-k8s.io", ("jobsets/status",), ("get",)),
    ("kueue.x-k8s.io", ("localqueues", "workloads"), ("get", "list", "watch")),
)


def gpus_allowed(accounts: Sequence[Account], site_gpus: int) -> dict[str, int]:
    """{account: GPUs that its own work may hold}: the least of its limit, of those above it, and of the site's GPUs."""
    allowed = {"root": site_gpus}
    for account in accounts:  # parents come first
        above = allowed[account.parent]
        allowed[account.name] = above if account.max_gpus is None else min(above, account.max_gpus)
    del allowed["root"]
    return allowed


def priority_classes(qos: Sequence[Qos]) -> Iterator[PlatformObject]:
    """One per tier, the highest first. None is the default of pods that name none: these are refused (`tier_quotas`)."""
    for tier in qos:
        body = {
            "value": tier.priority * TIER_STEP,
            "globalDefault": False,
            "preemptionPolicy": "PreemptLowerPriority" if tier.preempts else "Never",
            "description": f"Tier {tier.name} of the site file; preempts {', '.join(tier.preempts) or 'none'}.",
        }
        yield PlatformObject("scheduling.k8s.io/v1", "PriorityClass", tier.name, body)


def member_role() -> PlatformObject:
    """What the users of an account may do in its namespace."""
    rules = [
        {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)} for group, resources, verbs in RULES
    ]
    return PlatformObject("rbac.authorization.k8s.io/v1", "ClusterRole", MEMBER, {"rules": rules})


def allowed_of(
    accounts: Sequence[Account], site_gpus: int, shared: Sequence[Profile], reservations: Sequence[Reservation] = ()
) -> dict[str, dict[str, int]]:
    """{account: {resource: how many its own work may hold}}. site_gpus: whole ones.

    A limit of GPUs holds for whole GPUs, and for the parts of as many GPUs in each way of sharing. Reservations come on top of it.
    """
    allowed = gpus_allowed(accounts, site_gpus)
    for given in reservations:
        allowed[given.account] = min(site_gpus, allowed[given.account] + given.gpus)
    found = {name: {GPU_RESOURCE: count} for name, count in allowed.items()}
    for one in shared:
        for name, count in gpus_allowed(accounts, one.gpus).items():
            found[name][one.resource] = count * one.per_gpu
    return found


def namespaces(
    accounts: Sequence[Account],
    tiers: Sequence[str],
    site_gpus: int,
    shared: Sequence[Profile] = (),
    groups: Mapping[str, Sequence[str]] = MappingProxyType({}),
    reservations: Sequence[Reservation] = (),
) -> Iterator[PlatformObject]:
    """Everything of each account's namespace, the namespace first. site_gpus: whole ones; groups: of the issuer, by account."""
    allowed = allowed_of(accounts, site_gpus, shared, reservations)
    for account in accounts:
        yield PlatformObject("v1", "Namespace", account.name, {}, labels=_namespace_labels(account.name))
        hard = {f"requests.{resource}": quantity(count) for resource, count in allowed[account.name].items()}
        yield _quota(account.name, "gpus", hard)
        yield from _tier_quotas(account, tiers)
        if account.users or groups.get(account.name):
            yield _members(account, groups.get(account.name, ()))
        yield from _network(account.name)


def loads() -> Iterator[PlatformObject]:
    """The namespace of acceptance's loads, for administrators alone: no RoleBinding is in it.

    They need what Pod Security `baseline` refuses: the network of the node and its folders, and on GPU nodes its RDMA devices. In
    the namespace of the account `commissioning` its users could start such pods. Loads name their nodes and no queue, since Kueue
    would choose others; the queue there (queues.py) is for the trial of preemption.
    """
    labels = (("pod-security.kubernetes.io/enforce", "privileged"),)
    yield PlatformObject("v1", "Namespace", LOADS, {}, labels=labels)
    yield from _network(LOADS)


def quantity(count: int) -> str:
    """A whole number as the API server writes it: 8000 as 8k, so that what is read back is what was written.

    Source: k8s.io/apimachinery/pkg/api/resource, canonical form of DecimalSI.
    """
    for power, suffix in ((18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if count and count % 10**power == 0:
            return f"{count // 10**power}{suffix}"
    return str(count)


def _namespace_labels(account: str) -> tuple[tuple[str, str], ...]:
    # Pod Security (https://kubernetes.io/docs/concepts/security/pod-security-standards/): no privileged pods, no host paths.
    return (
        (ACCOUNT, account),
        ("pod-security.kubernetes.io/enforce", "baseline"),
        ("pod-security.kubernetes.io/warn", "restricted"),
    )


def _quota(
    namespace: str, name: str, hard: Mapping[str, str], scope: Mapping[str, Any] | None = None
) -> PlatformObject:
    spec: dict[str, Any] = {"hard": dict(hard)}
    if scope:
        spec["scopeSelector"] = {"matchExpressions": [dict(scope)]}
    return PlatformObject("v1", "ResourceQuota", name, {"spec": spec}, namespace=namespace)


def _tier_quotas(account: Account, tiers: Sequence[str]) -> Iterator[PlatformObject]:
    """No pod of a tier that the account may not use, and none without a tier: the name of the quota is what the user reads."""
    foreign = [*(tier for tier in tiers if tier not in account.qos), *SYSTEM_CLASSES]
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": foreign}
    yield _quota(account.name, "tier-not-of-this-account", {"pods": "0"}, scope)
    scope = {"scopeName": "PriorityClass", "operator": "DoesNotExist"}
    yield _quota(account.name, "priority-class-missing", {"pods": "0"}, scope)


def _members(account: Account, groups: Sequence[str]) -> PlatformObject:
    named = [*(("User", user) for user in account.users), *(("Group", f"{GROUPS}{group}") for group in groups)]
    body = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": MEMBER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name} for kind, name in named],
    }
    return PlatformObject("rbac.authorization.k8s.io/v1", "RoleBinding", "members", body, namespace=account.name)


def _network(namespace: str) -> Iterator[PlatformObject]:
    """Nothing in or out, but between pods of the namespace and to the cluster's DNS."""
    dns = {
        "to": [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
                "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
            }
        ],
        "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
    }
    own: list[dict[str, Any]] = [{"podSelector": {}}]
    specs: dict[str, dict[str, Any]] = {
        "default-deny": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        "same-namespace": {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": own}],
            "egress": [{"to": own}],
        },
        "dns": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [dns]},
    }
    for name, spec in specs.items():
        yield PlatformObject("networking.k8s.io/v1", "NetworkPolicy", name, {"spec": spec}, namespace=namespace)
