"""What the API server writes into each pod of a tier as it is made: how long it may run, and its grace when it is ended.

A pod that asks for less time keeps it. Objects: https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/,
version v1, which API servers serve from 1.36 on.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from capacity.services.platform.objects import PlatformObject
from capacity.services.platform.topology import ACCOUNT
from inventory.site.sections.software import TierLimits
from inventory.site.values import Tier

API = "admissionregistration.k8s.io/v1"
SECONDS_PER_HOUR = 3600
DEADLINE, GRACE = "activeDeadlineSeconds", "terminationGracePeriodSeconds"
NEW_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


def written(limits: TierLimits) -> dict[str, int]:
    """{field of a pod: seconds that the API server writes into one that gives none}, of the limits that are given."""
    found = {}
    if limits.max_hours is not None:
        found[DEADLINE] = max(1, round(limits.max_hours * SECONDS_PER_HOUR))
    if limits.grace_s is not None:
        found[GRACE] = limits.grace_s
    return found


def policies(tiers: Mapping[Tier, TierLimits]) -> Iterator[PlatformObject]:
    """A policy and its binding for each tier with such a limit. It holds in the namespaces of accounts."""
    for tier, limits in tiers.items():
        if not (fields := written(limits)):
            continue
        conditions = [{"name": "tier", "expression": f"object.spec.?priorityClassName.orValue('') == '{tier}'"}]
        yield from mutating(f"tier-{tier}", in_accounts(conditions, _expression(fields)))


def in_accounts(
    conditions: Sequence[Mapping[str, str]], written_as: str, rule: Mapping[str, Sequence[str]] = NEW_PODS
) -> dict[str, Any]:
    """What a policy says that writes into objects in namespaces of accounts. conditions and written_as are CEL; rule: which
    requests, by default pods as they are made.
    """
    constraints = {
        "namespaceSelector": {"matchExpressions": [{"key": ACCOUNT, "operator": "Exists"}]},
        "resourceRules": [dict(rule)],
    }
    return {
        "matchConstraints": constraints,
        "matchConditions": list(conditions),
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": written_as}}],
    }


def mutating(name: str, spec: Mapping[str, Any]) -> Iterator[PlatformObject]:
    """A policy and its binding."""
    yield PlatformObject(API, "MutatingAdmissionPolicy", name, {"spec": spec})
    yield PlatformObject(API, "MutatingAdmissionPolicyBinding", name, {"spec": {"policyName": name}})


def _expression(fields: Mapping[str, int]) -> str:
    """In CEL: the time that the pod gives, at most the tier's; the tier's grace."""
    values = {GRACE: str(fields[GRACE])} if GRACE in fields else {}
    if DEADLINE in fields:
        given, most = f"object.spec.?{DEADLINE}.orValue({fields[DEADLINE]})", fields[DEADLINE]
        values[DEADLINE] = f"{given} < {most} ? {given} : {most}"
    inside = ", ".join(f"{key}: {value}" for key, value in sorted(values.items()))
    return f"Object{{spec: Object.spec{{{inside}}}}}"
