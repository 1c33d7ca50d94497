"""GPU nodes whose GPUs several pods share: which resource they offer, how many of it, and the device plugin's configuration.

    for one in profiles(plan): one.resource, one.count, one.nodes

A whole GPU is nvidia.com/gpu and nothing else is: a time slice is nvidia.com/gpu.shared, an instance of MIG has the name of its
profile. Names and keys: k8s-device-plugin v0.18.0, api/config/v1 (renameByDefault, failRequestsGreaterThanOne) and
internal/rm/rm.go (names of MIG resources with the strategy `mixed`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from capacity.model import Plan
from capacity.services.platform.objects import PlatformObject
from capacity.services.platform.topology import PREFIX
from capacity.services.slurm import COMPUTE_ROLES, Node
from capacity.services.slurm import design as nodes_of

GPU_RESOURCE = "nvidia.com/gpu"
"""What NVIDIA's device plugin offers of a GPU that is whole (https://github.com/NVIDIA/k8s-device-plugin)."""
SHARED_RESOURCE = f"{GPU_RESOURCE}.shared"
SHARING = f"{PREFIX}/gpu-sharing"
"""Label of a node whose GPUs are shared: the name of its profile. playbooks/gpu_sharing.yml sets it once the node is drained, and
`pulumi up` does not."""
PLUGIN = "nvidia-device-plugin-daemonset"
"""The device plugin's DaemonSet on nodes with whole GPUs."""
CONFIG_NAMESPACE, CONFIG = "kube-system", "bringup-device-plugin"
"""The ConfigMap with the device plugin's configuration of each profile, in the namespace of its DaemonSet."""


@dataclass(frozen=True)
class Profile:
    """One way of sharing. name: value of SHARING; per_gpu: how many of `resource` a GPU makes; nodes, gpus: that are shared so."""

    name: str
    resource: str
    per_gpu: int
    nodes: tuple[str, ...]
    gpus: int
    mig: str = ""

    @property
    def count(self) -> int:
        """How many of `resource` all of its nodes offer."""
        return self.gpus * self.per_gpu

    @property
    def text(self) -> str:
        """The device plugin's configuration file."""
        return yaml.safe_dump(self._config(), sort_keys=False)

    def _config(self) -> dict[str, Any]:
        if self.mig:
            return {"version": "v1", "flags": {"migStrategy": "mixed"}}
        slices = {
            "renameByDefault": True,
            # Two slices are no more of a GPU than one: a pod that asks for two is refused.
            "failRequestsGreaterThanOne": True,
            "resources": [{"name": GPU_RESOURCE, "replicas": self.per_gpu}],
        }
        return {"version": "v1", "sharing": {"timeSlicing": slices}}


@dataclass(frozen=True)
class Offer:
    """What a node offers to pods. profile: of its sharing, '' where its GPUs are whole; mig: MIG profile; plugin: its DaemonSet."""

    resource: str
    count: int
    profile: str = ""
    mig: str = ""
    per_gpu: int = 1
    plugin: str = PLUGIN


def plugin_of(profile: str) -> str:
    """The device plugin's DaemonSet on nodes of a profile; in a form that labels and names of pods take."""
    return f"nvidia-device-plugin-{profile.replace('.', '-')}"


def profiles(plan: Plan) -> tuple[Profile, ...]:
    """The ways in which GPUs of the plan are shared, in the order of the site file."""
    rows = plan.devices[plan.devices["role"].isin(COMPUTE_ROLES)]
    names = dict(zip(rows["index"].tolist(), rows["name"].tolist(), strict=True))
    gpus = {one.name: one.gpus for one in nodes_of(plan, plan.catalog).nodes}
    return tuple(_profiles(plan, names, gpus))


def _profiles(plan: Plan, names: dict[int, str], gpus: dict[str, int]) -> Iterator[Profile]:
    fit = plan.catalog.gpu(plan.site.gpu.sku).mig
    for one in plan.site.gpu_sharing:
        nodes = tuple(names[number] for number in one.numbers)
        count = sum(gpus[name] for name in nodes)
        if one.time_slices is not None:
            yield Profile(f"time-slices-{one.time_slices}", SHARED_RESOURCE, one.time_slices, nodes, count)
        elif one.mig is not None:
            yield Profile(f"mig-{one.mig}", f"nvidia.com/mig-{one.mig}", fit[one.mig], nodes, count, one.mig)


def whole(nodes: Sequence[Node], shared: Sequence[Profile]) -> tuple[Node, ...]:
    """The nodes whose GPUs are not shared."""
    others = {name for one in shared for name in one.nodes}
    return tuple(node for node in nodes if node.name not in others)


def whole_nodes(plan: Plan) -> tuple[Node, ...]:
    """The GPU nodes of the plan whose GPUs are not shared."""
    return whole(nodes_of(plan, plan.catalog).nodes, profiles(plan))


def offers(plan: Plan) -> dict[str, Offer]:
    """What each GPU node offers."""
    of = {name: one for one in profiles(plan) for name in one.nodes}
    found = {}
    for node in nodes_of(plan, plan.catalog).nodes:
        one = of.get(node.name)
        found[node.name] = (
            Offer(one.resource, node.gpus * one.per_gpu, one.name, one.mig, one.per_gpu, plugin_of(one.name))
            if one
            else Offer(GPU_RESOURCE, node.gpus)
        )
    return found


def configuration(shared: Sequence[Profile]) -> Iterator[PlatformObject]:
    """The device plugin's configuration of each profile, under the profile's name."""
    if shared:
        data = {f"{one.name}.yaml": one.text for one in shared}
        yield PlatformObject("v1", "ConfigMap", CONFIG, {"data": data}, namespace=CONFIG_NAMESPACE)
