"""A load as a JobSet (jobset.x-k8s.io/v1alpha2, JobSet 0.11.0): one Indexed Job, one pod on each node. Pure.

    made = jobset(load, place)

Pods run in the network of their node: RDMA devices, their GIDs and NCCL's interfaces are the host's, and no CNI or DNS is between
the ranks. Ranks meet at an address of the plan. The image does not matter: programs, libraries and PyTorch are the node's own,
mounted read-only, as a job of Slurm sees them. So the image is that of the pod sandbox, which each node has.

Where the candidates are as many as the pods, each pod is numbered by its node's place in the plan, as Slurm orders ranks. With more
candidates (a load that may lose a node) the Job numbers them, and they meet node 0 at a Service's address.
"""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capacity.services.platform.sharing import GPU_RESOURCE
from capacity.services.platform.topology import HOSTNAME, OUT_OF_SERVICE, PREFIX
from inventory.site.sections.software import LOADS
from validation.facts.gather import HOST_KEY
from validation.facts.node_results import PROGRAM as SIGNER
from validation.runners.engine import OUTPUT, PYTHON, Load

API = "jobset.x-k8s.io/v1alpha2"
POD = Path(__file__).parent.parent / "workloads" / "pod.py"
RUN, JOB, LOAD, COUNT = f"{PREFIX}/run", f"{PREFIX}/job", f"{PREFIX}/load", f"{PREFIX}/pods"
"""Labels: the run that began a load, its number, its name on every pod, and how many pods it has."""
INDEX = "batch.kubernetes.io/job-completion-index"
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
RESTARTS = 3
"""Of a load that starts anew when a node fails. A choice of ours."""
KEPT_S = 30 * 86400
"""A JobSet that nobody collects goes by itself after so long. A choice of ours: a burn-in lasts days and is collected later."""
END_S = 5
"""From SIGTERM to SIGKILL: ranks have nothing to save then. A choice of ours."""
FILES = ("/etc/passwd", "/etc/nsswitch.conf", "/etc/ld.so.cache")
FOLDERS = {"/usr": "/usr", "/lib": "/usr/lib", "/bin": "/usr/bin", "/opt/bringup/venv": "/opt/bringup/venv"}
"""What a pod sees of its node, read-only: path in the pod, path on the node. Distributions of today have /lib and /bin in /usr."""
DRIVER = {"/run": "/run"}
"""Where NVML looks for the state of the driver's daemons, such as nvidia-persistenced and the Fabric Manager."""
LOADER = ("/lib64", "/usr/lib64")
"""Where programs of x86-64 look for their loader. Other machines have none, and containerd makes an empty folder then."""
RDMA_FILES = ("/etc/nccl.conf",)
RDMA_FOLDERS = {"/etc/libibverbs.d": "/etc/libibverbs.d"}
KEPT = "/var/tmp"
"""Where ranks leave their results, on the node."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Place:
    """Where a load goes. candidates: address in the provisioning network by node, in the order of the plan. rendezvous: address
    of a Service that leads to node 0, '' where no pod needs one. image: of the pods. drained: whether the nodes are out of
    service."""

    number: int
    run: str
    candidates: Mapping[str, str]
    image: str
    priority: str
    rendezvous: str = ""
    drained: bool = False


def name_of(number: int) -> str:
    """The name of a load's objects."""
    return f"bringup-{number}"


def fixed(load: Load, candidates: Mapping[str, str]) -> bool:
    """Whether each candidate gets a pod, so that ranks are numbered by the plan."""
    return len(candidates) == load.nodes


def needs_rendezvous(load: Load, candidates: Mapping[str, str]) -> bool:
    """Whether pods find node 0 by a Service alone."""
    return load.nodes > 1 and not fixed(load, candidates)


def service(number: int, run: str, ports: Sequence[int]) -> dict[str, Any]:
    """The Service that leads to node 0 of a load, wherever it runs."""
    spec = {
        "selector": {JOB: str(number), INDEX: "0"},
        "publishNotReadyAddresses": True,
        "ports": [{"name": f"ranks-{port}", "port": port, "protocol": "TCP"} for port in ports],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(number, run), "spec": spec}


def jobset(load: Load, place: Place) -> dict[str, Any]:
    """The JobSet of a load."""
    pods = load.nodes
    job = {
        "completionMode": "Indexed",
        "parallelism": pods,
        "completions": pods,
        "backoffLimit": 0,
        "template": {
            "metadata": {"labels": _labels(place.number, place.run) | {LOAD: load.name}},
            "spec": pod(load, place),
        },
    }
    spec = {
        "network": {"enableDNSHostnames": False},
        # One lost pod ends the Job (backoffLimit 0), and the set starts anew as a whole.
        "failurePolicy": {"maxRestarts": RESTARTS if load.again else 0, "restartStrategy": "BlockingRecreate"},
        "ttlSecondsAfterFinished": KEPT_S,
        "replicatedJobs": [{"name": "ranks", "replicas": 1, "template": {"spec": job}}],
    }
    metadata = _metadata(place.number, place.run)
    metadata["labels"][COUNT] = str(pods)
    return {"apiVersion": API, "kind": "JobSet", "metadata": metadata, "spec": spec}


def pod(load: Load, place: Place) -> dict[str, Any]:
    """The specification of each of its pods."""
    gpu = load.workload.computes_on == "gpu"
    mounts, volumes = _mounts(load, gpu)
    resources = {"resources": {"limits": {GPU_RESOURCE: str(load.workload.ranks_per_node)}}} if gpu else {}
    container = {
        "name": "ranks",
        "image": place.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/python3", "-c", plain(POD.read_text()), plain(json.dumps(order(load, place)))],
        "env": _environment(place.number),
        "volumeMounts": mounts,
        "securityContext": _security(gpu),
        **resources,
    }
    tolerations = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, {"key": OUT_OF_SERVICE}]
    return {
        "restartPolicy": "Never",
        "hostNetwork": True,
        "dnsPolicy": "Default",
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "priorityClassName": place.priority,
        "terminationGracePeriodSeconds": END_S,
        "activeDeadlineSeconds": 60 * load.limit_min,
        "affinity": _affinity(list(place.candidates)),
        **({"tolerations": [{"operator": "Exists", **one} for one in tolerations]} if place.drained else {}),
        "containers": [container],
        "volumes": volumes,
    }


def order(load: Load, place: Place) -> dict[str, Any]:
    """What workloads/pod.py is told."""
    known, computes_on = fixed(load, place.candidates), ("--computes-on", load.workload.computes_on)
    carried = load.program if isinstance(load.program, Path) else None
    signs = load.run is not None and load.run.signed and load.results
    return {
        "python": PYTHON,
        "program": "" if carried else str(load.program),
        "carried": _packed(carried) if carried else "",
        "launches": [{"arguments": [*computes_on, *one.arguments], "port": one.port} for one in load.launches],
        "ranks": load.workload.ranks_per_node,
        "cores": load.workload.cores_per_rank,
        "count": load.nodes,
        "nodes": list(place.candidates) if known else [],
        "master": next(iter(place.candidates.values())) if known else place.rendezvous,
        "beside": {"command": load.beside.command, "file": load.beside.file} if load.beside else None,
        "output": load.output or OUTPUT.replace("%j", "{job}"),
        "shared_output": bool(load.output),
        "signer": _packed(SIGNER) if signs else "",
        "sign": {"do": "sign", "folder": load.results, "sign": load.run.order()} if load.run and signs else None,
    }


def _environment(number: int) -> list[dict[str, Any]]:
    """Beside the index, which the Job adds. The last is torch's own name for how often a run was started anew."""
    fields = {
        "NODE": "spec.nodeName",
        "HOST_IP": "status.hostIP",
        "TORCHELASTIC_RESTART_COUNT": f"metadata.labels['{ATTEMPT}']",
    }
    told = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
    return [{"name": "BRINGUP_JOB", "value": str(number)}, {"name": "PATH", "value": PATH}, *told]


def _security(gpu: bool) -> dict[str, Any]:
    """On GPU nodes privileged: no device plugin offers /dev/infiniband, and RDMA locks memory (IPC_LOCK), which is part of it."""
    root = {"runAsUser": 0, "runAsGroup": 0, "readOnlyRootFilesystem": True}
    return {**root, "privileged": True} if gpu else {**root, "privileged": False, "allowPrivilegeEscalation": False}


def _mounts(load: Load, gpu: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    signs = load.run is not None and load.run.signed and load.results
    given: list[tuple[str, dict[str, Any], bool]] = [
        (path, {"hostPath": {"path": source, "type": "Directory"}}, True)
        for path, source in {**FOLDERS, **DRIVER, **(RDMA_FOLDERS if gpu else {})}.items()
    ]
    given.append((LOADER[0], {"hostPath": {"path": LOADER[1]}}, True))
    files = (*FILES, *(RDMA_FILES if gpu else ()), *([HOST_KEY] if signs else ()))
    given += [(path, {"hostPath": {"path": path, "type": "File"}}, True) for path in files]
    given += [(path, {"hostPath": {"path": path, "type": "Directory"}}, False) for path in (KEPT, *load.folders)]
    given += [("/tmp", {"emptyDir": {}}, False), ("/dev/shm", {"emptyDir": {"medium": "Memory"}}, False)]
    names = [f"v{number}" for number in range(len(given))]
    mounts = [
        {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}
        for name, (path, _, read_only) in zip(names, given, strict=True)
    ]
    return mounts, [{"name": name, **source} for name, (_, source, _) in zip(names, given, strict=True)]


def _affinity(candidates: list[str]) -> dict[str, Any]:
    """On these nodes alone, and no two pods of loads on one node: each load has its nodes for itself."""
    here = [{"key": HOSTNAME, "operator": "In", "values": candidates}]
    apart = {"labelSelector": {"matchExpressions": [{"key": LOAD, "operator": "Exists"}]}, "topologyKey": HOSTNAME}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {
        "nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": here}]}},
        "podAntiAffinity": {required: [apart]},
    }


def _metadata(number: int, run: str) -> dict[str, Any]:
    return {"name": name_of(number), "namespace": LOADS, "labels": _labels(number, run)}


def _labels(number: int, run: str) -> dict[str, str]:
    return {RUN: run, JOB: str(number)}


def _packed(program: Path) -> str:
    return base64.b64encode(gzip.compress(program.read_bytes(), mtime=0)).decode()


def plain(text: str) -> str:
    """A word of a command that reaches the program as it is: Kubernetes replaces $(NAME), and takes $$ for one dollar."""
    return text.replace("$", "$$")
