"""The runtime that gives a pod the libraries of NVIDIA's driver, and the policy by which pods of members with GPUs get it.

Its program is that of NVIDIA's container toolkit, which the role `nvidia` installs and the role `kubelet` tells containerd of. A
pod in runc has the device files of its GPUs alone, which is enough for programs of the node: loads of acceptance run so.
Objects: https://kubernetes.io/docs/concepts/containers/runtime-class/, node.k8s.io/v1.
"""

from collections.abc import Iterator

from capacity.services.platform.objects import PlatformObject
from capacity.services.platform.tier_limits import in_accounts, mutating
from inventory.site import Site
from inventory.site.sections.software import has_mutating_policies

NAME = "nvidia"
"""Of the RuntimeClass, and of the runtime in containerd's configuration (role kubelet)."""
ASKS = (
    "(object.spec.containers + object.spec.?initContainers.orValue([])).exists(one, "
    "has(one.resources) && has(one.resources.limits) && one.resources.limits.exists(name, name.startsWith('nvidia.com/')))"
)
"""In CEL: whether a container asks for whole GPUs or parts of them, which Kubernetes wants as limits."""


def runtime_of(site: Site) -> str:
    """The RuntimeClass of pods with GPUs; '' on a site without NVIDIA's driver."""
    return NAME if "driver" in site.versions else ""


def objects(site: Site) -> Iterator[PlatformObject]:
    """The RuntimeClass, and its policy where the API server knows such policies; nothing on a site without NVIDIA's driver.

    A pod that names a class keeps it. Without the policy members name the class themselves.
    """
    if not runtime_of(site):
        return
    yield PlatformObject("node.k8s.io/v1", "RuntimeClass", NAME, {"handler": NAME})
    if has_mutating_policies(site.versions.get("kubernetes", "")):
        conditions = [
            {"name": "gpus", "expression": ASKS},
            {"name": "no-class", "expression": "!has(object.spec.runtimeClassName)"},
        ]
        spec = in_accounts(conditions, f"Object{{spec: Object.spec{{runtimeClassName: '{NAME}'}}}}")
        yield from mutating("gpu-runtime", spec)
