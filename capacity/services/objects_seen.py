"""What differs between an object as it was wanted and as the cluster has it. Pure, and without pandas: the provider starts with it.

Only what we set is compared: `seen_as(wanted, live)` is the part of `live` that `wanted` names. Kubernetes leaves zero values out
of what it answers (False, 0, "", {}), so one that is wanted counts as seen when the key is absent.
"""

from collections.abc import Mapping, Sequence
from typing import Any

IMMUTABLE: dict[str, tuple[tuple[str, ...], ...]] = {
    # Fields that the API server or the CRD's own rules let nobody change; kubernetes.io/docs/reference, Kueue's api/v1beta1.
    "ClusterRoleBinding": (("roleRef",),),
    "DaemonSet": (("spec", "selector"),),
    "Deployment": (("spec", "selector"),),
    "RoleBinding": (("roleRef",),),
    "PriorityClass": (("value",), ("preemptionPolicy",)),
    "Topology": (("spec", "levels"),),
    "ResourceFlavor": (("spec",),),  # where it names a topology, as ours do
    "LocalQueue": (("spec", "clusterQueue"),),
    "ResourceQuota": (("spec", "scopeSelector"),),
}
IDENTITY = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))


def seen_as(wanted: Any, live: Any) -> Any:
    """The part of `live` that `wanted` names, with zero values where `live` leaves them out."""
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        seen = {}
        for key, value in wanted.items():
            if key in live:
                seen[key] = seen_as(value, live[key])
            elif not value:
                seen[key] = value
        return seen
    if _is_list(wanted) and _is_list(live) and len(wanted) == len(live):
        return [seen_as(one, other) for one, other in zip(wanted, live, strict=True)]
    return live


def replaced(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Property paths that differ and cannot be changed in place."""
    paths = (*IDENTITY, *IMMUTABLE.get(str(new.get("kind")), ()))
    return [".".join(path) for path in paths if _at(old, path) != _at(new, path)]


def _at(data: Any, path: Sequence[str]) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
