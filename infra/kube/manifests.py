"""Kueue, JobSet and NVIDIA's device plugin as a site's cluster runs them: from pinned manifests to objects.

    installed()                          # {name: its objects}, in an order in which they can be applied
    installed("registry.example/hall")   # the same, with images of a registry of the site's own

In: files of third_party, unchanged from their release and pinned by SHA-256. Out: plain data. ManifestError names a file that is
missing or altered. What is changed on the way stands in `adapted`, with the reason.
"""

import copy
import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from capacity.services.platform.sharing import CONFIG, SHARING, plugin_of
from capacity.services.platform.topology import OUT_OF_SERVICE
from inventory.paths import repo_root

GPU_LABEL = "bringup.local/gpu"
"""The platform layer gives it to each GPU node of the plan (capacity/services/platform/topology.py)."""
CONFIGURED = "bringup.local/configuration"
"""Annotation of a pod: its configuration."""
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
CONFIGURATION = "controller_manager_config.yaml"
LEFT_OUT = frozenset({"APIService"})
"""Kueue's lists of pending workloads: an API that the server would call without a check of its certificate, and which, when it is
down, keeps namespaces from being deleted."""
AWAY_AT_ONCE = "10%"
"""Device plugins that an update takes down at once, where Kubernetes' default is one: 1,000 nodes would take hours. The offer of a
node is gone for some seconds meanwhile, its pods run on. A choice of ours."""
DRIVER_ROOT = "/driver-root"
"""Where the device plugin looks for the host's driver (k8s-device-plugin v0.18.0, api/config/v1/consts.go)."""

Object = dict[str, Any]


class ManifestError(Exception):
    """A pinned manifest is missing or altered; the text is for the user."""


@dataclass(frozen=True)
class Source:
    """One file of third_party. `image` is the one that the project publishes; what the file names is that of its own tests."""

    name: str
    version: str
    file: str
    sha256: str
    image: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the controller's configuration that differ from the file's."""
    groups: frozenset[str] = frozenset()
    """API groups whose webhooks are kept; all where it is empty."""


JOBSET = Source(
    "jobset",
    "v0.11.0",
    "jobset/manifests.yaml",
    "b954f572ab689fb6012871161747645865914ea7588bf741963e464ae4e07e92",
    "registry.k8s.io/jobset/jobset:v0.11.0",
)
KUEUE = Source(
    "kueue",
    "v0.15.0",
    "kueue/manifests.yaml",
    "20dd1ecf01346a8dada4edae14380726edc3e1356cb17906377e1cb9b0c07272",
    "registry.k8s.io/kueue/kueue:v0.15.0",
    settings={
        "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]},
        "featureGates": {"VisibilityOnDemand": False},
    },
    groups=frozenset({"batch", "jobset.x-k8s.io", "kueue.x-k8s.io"}),
)
DEVICE_PLUGIN = Source(
    "k8s-device-plugin",
    "v0.18.0",
    "k8s-device-plugin/nvidia-device-plugin-compat-with-cpumanager.yml",
    "17e9f6706c5dbb5d2dd74800d682e6787694b8f11dec6cd64a8637c9d02aeb9e",
    "nvcr.io/nvidia/k8s-device-plugin:v0.18.0",
)
SOURCES = (JOBSET, KUEUE, DEVICE_PLUGIN)
"""JobSet first: Kueue looks for its kinds when it starts."""
ORDER = ("CustomResourceDefinition", "Namespace", "", "Deployment", "DaemonSet")
"""Kinds first and last; '' stands for all others. Webhooks come before their controller, which gives them its certificate."""


def installed(
    registry: str | None = None,
    folder: Path | None = None,
    shared: Mapping[str, str] | None = None,
    replicas: int = 1,
    rdma: bool = False,
) -> dict[str, list[Object]]:
    """{name: objects} of all three, those first that others need. ManifestError.

    shared: the device plugin's configuration by profile, for nodes whose GPUs are shared. Each profile has a DaemonSet of its own.
    replicas: pods of each Deployment. rdma: pods with GPUs get the RDMA devices of their node.
    """
    found = {source.name: adapted(source, pinned(source, folder), registry, replicas, rdma) for source in SOURCES}
    (plugin,) = found[DEVICE_PLUGIN.name]
    found[DEVICE_PLUGIN.name] += [_of_profile(plugin, name, text) for name, text in (shared or {}).items()]
    return found


def pinned(source: Source, folder: Path | None = None) -> list[Object]:
    """The documents of a file, as it was published. ManifestError where it is not the pinned one."""
    path = (folder or repo_root() / "third_party") / source.file
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}. Restore it: git checkout {path.parent}") from None
    if (seen := hashlib.sha256(content).hexdigest()) != source.sha256:
        raise ManifestError(
            f"{path}: SHA-256 {seen}, expected {source.sha256} ({source.name} {source.version}). "
            f"Restore it: git checkout {path.parent}"
        )
    return copy.deepcopy(_parsed(content))


def adapted(
    source: Source,
    documents: Sequence[Object],
    registry: str | None = None,
    replicas: int = 1,
    rdma: bool = False,
) -> list[Object]:
    """The objects of a file as a site has them. Pure.

    images        those that the project publishes, by version; pulled once, as a version does not change
    place         on nodes of the control plane where these run pods, else on any; the device plugin on GPU nodes of the plan,
                  also on those out of service
    replicas      of a controller, each on a node of its own; a drain takes one after the other
    priority      above every tier of the site, so that no job takes a controller's place
    configuration the keys of `settings`; a change of it starts the controller anew
    webhooks      those of kinds that the controller is to manage: one that is down refuses pods of everybody
    update        of the device plugin on a tenth of its nodes at once
    driver        the host's, in sight of the device plugin, which has no NVIDIA runtime around it here
    rdma          whether a pod with GPUs has the RDMA devices of its node
    grants        a mount for each GPU, which members cannot make themselves (Pod Security forbids them the host's paths)
    """
    found = []
    for one in documents:
        if one["kind"] in LEFT_OUT:
            continue
        if "webhooks" in one and source.groups:
            one["webhooks"] = [hook for hook in one["webhooks"] if _groups(hook) <= source.groups]
        if CONFIGURATION in one.get("data", {}):
            one["data"][CONFIGURATION] = configuration(source, one["data"][CONFIGURATION])
        found.append(one)
    written = "".join(one["data"][CONFIGURATION] for one in found if CONFIGURATION in one.get("data", {}))
    for one in list(found):
        if one["kind"] in ("Deployment", "DaemonSet"):
            template = one["spec"]["template"]
            for container in template["spec"]["containers"]:
                container |= {"image": image(source, registry), "imagePullPolicy": "IfNotPresent"}
            if one["kind"] == "DaemonSet":
                one["spec"]["updateStrategy"]["rollingUpdate"] = {"maxUnavailable": AWAY_AT_ONCE}
                _place_plugin(template["spec"], rdma)
            else:
                _place_controller(template["spec"])
                if replicas > 1:
                    found.append(several(one, replicas))
            if written:
                mark = {CONFIGURED: digest(written)}
                template["metadata"]["annotations"] = template["metadata"].get("annotations", {}) | mark
    return sorted(found, key=lambda one: ORDER.index(one["kind"] if one["kind"] in ORDER else ""))


def image(source: Source, registry: str | None = None) -> str:
    """The image's name, as `image_name`."""
    return image_name(source.image, registry)


def image_name(published: str, registry: str | None) -> str:
    """The name of an image in a registry of the site's own, which has it under its own path: `REGISTRY/kueue/kueue:v0.15.0`."""
    return f"{registry}/{published.partition('/')[2]}" if registry else published


def configuration(source: Source, given: str) -> str:
    """A controller's configuration: the file's, with the keys of `settings`."""
    return yaml.safe_dump(yaml.safe_load(given) | dict(source.settings), sort_keys=True)


def _groups(hook: Mapping[str, Any]) -> set[str]:
    return {group for rule in hook["rules"] for group in rule["apiGroups"]}


def _place_controller(pod: Object) -> None:
    preferred = {"weight": 100, "preference": {"matchExpressions": [{"key": CONTROL_PLANE, "operator": "Exists"}]}}
    pod |= {
        "priorityClassName": "system-cluster-critical",
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}},
        "tolerations": [{"key": CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"}],
    }


def several(deployment: Object, replicas: int) -> Object:
    """Give a Deployment so many pods on different nodes. The budget that lets a drain take one of them at a time."""
    spec, metadata = deployment["spec"], deployment["metadata"]
    spec["replicas"] = replicas
    spec["template"]["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": spec["selector"],
            "matchLabelKeys": ["pod-template-hash"],  # or a roll-out would need a node more than there are pods
            "nodeTaintsPolicy": "Honor",
        }
    ]
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {name: copy.deepcopy(metadata[name]) for name in ("name", "namespace", "labels")},
        "spec": {"maxUnavailable": 1, "selector": copy.deepcopy(spec["selector"])},
    }


def _place_plugin(pod: Object, rdma: bool) -> None:
    _require(pod, {"key": SHARING, "operator": "DoesNotExist"})
    # A node out of service is to show that its GPUs are whole again, with a plugin that was started anew.
    pod["tolerations"].append({"key": OUT_OF_SERVICE, "operator": "Exists"})
    pod["volumes"].append({"name": "driver-root", "hostPath": {"path": "/", "type": "Directory"}})
    for container in pod["containers"]:
        container["volumeMounts"].append({"name": "driver-root", "mountPath": DRIVER_ROOT, "readOnly": True})
        settings = {
            # Its choice by itself looks for the library that NVIDIA's container toolkit would put into the container.
            "DEVICE_DISCOVERY_STRATEGY": "nvml",
            # An environment variable is anybody's: an image that sets it would have all GPUs of the node.
            "DEVICE_LIST_STRATEGY": "volume-mounts",
            # It tells the container toolkit so, which looks for /dev/infiniband.
            "MOFED_ENABLED": str(rdma).lower(),
        }
        container["env"] += [{"name": name, "value": value} for name, value in settings.items()]


def _require(pod: Object, *expressions: Object) -> None:
    """Place a pod on GPU nodes of the plan of which all of these hold."""
    term = {"matchExpressions": [{"key": GPU_LABEL, "operator": "Exists"}, *expressions]}
    pod["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }


def _of_profile(plugin: Object, name: str, text: str) -> Object:
    """The device plugin on nodes of one profile, with its configuration; another configuration starts it anew."""
    made = copy.deepcopy(plugin)
    called = plugin_of(name)
    made["metadata"]["name"] = called
    made["spec"]["selector"]["matchLabels"] = {"name": called}
    template = made["spec"]["template"]
    template["metadata"]["labels"] = {"name": called}
    template["metadata"]["annotations"] = {CONFIGURED: digest(text)}
    pod = template["spec"]
    _require(pod, {"key": SHARING, "operator": "In", "values": [name]})
    pod["volumes"].append({"name": "config", "configMap": {"name": CONFIG}})
    for container in pod["containers"]:
        container["volumeMounts"].append({"name": "config", "mountPath": "/config", "readOnly": True})
        container["env"].append({"name": "CONFIG_FILE", "value": f"/config/{name}.yaml"})
    return made


def digest(text: str) -> str:
    """Of a configuration, for the annotation CONFIGURED."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.lru_cache(maxsize=len(SOURCES))
def _parsed(content: bytes) -> list[Object]:
    return [one for one in yaml.load_all(content, yaml.CSafeLoader) if one]
