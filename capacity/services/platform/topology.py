"""Where each GPU node stands, as labels, and the levels that a scheduler may keep a gang within.

Levels from wide to narrow. Kueue takes a node into account only where it carries the label of every level
(https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/), so a level that some nodes lack is none.
"""

from collections.abc import Iterator

from capacity.model import Plan
from capacity.services.platform.objects import PlatformObject
from capacity.services.slurm import COMPUTE_ROLES, gpu_type

PREFIX = "bringup.local"
GPU = f"{PREFIX}/gpu"
OUT_OF_SERVICE = f"{PREFIX}/out-of-service"
"""Taint of a node that runs no jobs."""
ACCOUNT = f"{PREFIX}/account"
"""Label of the namespace of an account: its name."""
LEVELS = tuple(f"{PREFIX}/{level}" for level in ("hall", "fabric-pod", "block", "rail-group", "nvlink-domain", "rack"))
HOSTNAME = "kubernetes.io/hostname"
"""The kubelet sets it itself."""


def node_labels(plan: Plan) -> dict[str, dict[str, str]]:
    """{node: {label: value}} of each GPU node.

    hall           the site: a site file plans one data hall
    fabric-pod     part of the compute fabric below its cores, where there are several
    block          scalable unit
    rail-group     nodes whose rails end on the same leaves; named after the first of these
    nvlink-domain  servers that share NVLink, where it reaches beyond one
    rack           rack
    """
    rows = plan.devices[plan.devices["role"].isin(COMPUTE_ROLES)]
    rack = dict(zip(plan.placements["device"], plan.placements["rack"], strict=True))
    leaves = _first_leaf(plan)
    pod_units = plan.tree.pod_units if plan.tree is not None and plan.tree.pods > 1 else 0
    gpu = gpu_type(plan.catalog.gpu(plan.site.gpu.sku))
    labels: dict[str, dict[str, str]] = {}
    for name, unit, domain in rows[["name", "unit", "nvlink_domain"]].itertuples(index=False, name=None):
        places = {
            "hall": plan.site.name,
            "fabric-pod": f"pod{unit // pod_units + 1:02d}" if pod_units and unit >= 0 else "",
            "block": f"unit{unit + 1:03d}" if unit >= 0 else "",
            "rail-group": leaves.get(name, ""),
            "nvlink-domain": f"nvl{domain + 1:03d}" if domain >= 0 else "",
            "rack": rack.get(name, ""),
        }
        labels[name] = {f"{PREFIX}/{level}": value for level, value in places.items() if value} | {GPU: gpu}
    return labels


def levels(plan: Plan) -> tuple[str, ...]:
    """The labels that every GPU node carries, wide to narrow, and its host name at the end."""
    labels = list(node_labels(plan).values())
    return (*(level for level in LEVELS if all(level in one for one in labels)), HOSTNAME)


def label_patches(plan: Plan) -> Iterator[PlatformObject]:
    """The labels of each GPU node; the kubelet registers the node itself."""
    for name, labels in node_labels(plan).items():
        yield PlatformObject("v1", "Node", name, {}, labels=tuple(labels.items()), partial=True)


def _first_leaf(plan: Plan) -> dict[str, str]:
    """{server: first of the leaves of the compute fabric that it is cabled to}."""
    leaves = set(plan.devices.loc[plan.devices["role"] == "leaf", "name"])
    rows = plan.cables[plan.cables["fabric"] == "compute"]
    first: dict[str, str] = {}
    for one, other in rows[["a_device", "b_device"]].itertuples(index=False, name=None):
        for server, leaf in ((one, other), (other, one)):
            if leaf in leaves and server not in leaves:
                first[server] = min(leaf, first.get(server, leaf))
    return first
