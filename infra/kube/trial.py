"""A cluster for proofs of scheduling: a control plane with Kueue and JobSet, and simulated nodes in the places of a plan.

    with trial(plan, kubernetes, made, folder) as cluster:     # as infra.kube.controllers.beside
        cluster.create(gang("a", "research", "training", pods=32, level=BLOCK))
        cluster.wait(lambda: len(cluster.running("research", "a")) == 32)

Real: API server, etcd, the controllers of Kubernetes, its scheduler, Kueue, JobSet, and the platform's objects. SIMULATED: nodes
and pods. kwok reports each pod as running once it is bound, and ends it after the time that the gang was given; nothing computes.
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from capacity.model import Plan
from capacity.services.platform import design
from capacity.services.platform.sharing import GPU_RESOURCE
from capacity.services.platform.topology import HOSTNAME, node_labels
from capacity.services.slurm import design as nodes_of
from infra.kube.access import ClusterError, connect
from infra.kube.controllers import SIMULATED, beside
from infra.kube.local import running
from validation.facts.api_calls import kept
from validation.facts.gangs import job
from validation.facts.kube import path_of

PAUSE = "registry.k8s.io/pause:3.10.1"
"""The image that each node says it has."""
CALL_S = 60.0
AT_ONCE = 16
WAIT_S = 300.0
POLL_S = 0.2
LONG_S = 86_400
"""A gang that is to run until it is deleted or preempted."""
GPUS_PER_POD = 8
PODS_PER_NODE = "110"
"""As a kubelet offers by default (maxPods)."""

Object = dict[str, Any]


def node(name: str, labels: Mapping[str, str], gpus: int, cpus: int, memory_mib: int) -> Object:
    """A node that kwok plays."""
    offers = {GPU_RESOURCE: str(gpus), "cpu": str(cpus), "memory": f"{memory_mib}Mi", "pods": PODS_PER_NODE}
    metadata = {"name": name, "labels": {**labels, HOSTNAME: name}, "annotations": dict(SIMULATED)}
    status = {"allocatable": offers, "capacity": offers, "images": [{"names": [PAUSE]}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def gang(
    name: str,
    namespace: str,
    tier: str,
    pods: int,
    level: str = "",
    gpus: int = GPUS_PER_POD,
    runs_s: int = LONG_S,
    grace_s: int = 1,
) -> Object:
    """A Job as validation.facts.gangs.job makes it, whose pods run for runs_s and take grace_s to end once they are told to."""
    return lasting(job(name, namespace, tier, pods, gpus, PAUSE, level, grace_s, LONG_S), runs_s, grace_s)


def lasting(made: Object, runs_s: int = LONG_S, grace_s: int = 1) -> Object:
    """The same Job, of whose pods kwok knows how long they run; else it ends them at once."""
    # kwok's stages: they end at random between delay and jitter, which for a deletion is the end of the pod's grace
    ends = {f"pod-complete.stage.kwok.x-k8s.io/{part}": f"{runs_s}s" for part in ("delay", "jitter-delay")}
    ends["pod-delete.stage.kwok.x-k8s.io/delay"] = f"{grace_s}s"
    made["spec"]["template"]["metadata"]["annotations"] |= ends
    return made


@contextlib.contextmanager
def trial(plan: Plan, kubernetes: Path, made: Path, folder: Path, nodes: int | None = None) -> Iterator["Trial"]:
    """Start it all, and stop it at the end. folder: new, and the caller's to delete. nodes: the first of the plan, or all."""
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(running(kubernetes, folder))
        stack.enter_context(beside(plane, kubernetes, made, folder / "controllers"))
        cluster = Trial(plane.kubeconfig)
        stack.callback(cluster.http.close)
        cluster.fill(plan, nodes)
        yield cluster


class Trial:
    """An administrator's calls to the cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        connection = connect(kubeconfig)
        self.http = httpx.Client(
            base_url=connection.server,
            verify=connection.tls,
            headers=dict(connection.headers),
            timeout=CALL_S,
            limits=httpx.Limits(max_connections=AT_ONCE),
        )

    def fill(self, plan: Plan, nodes: int | None = None) -> None:
        """The platform's objects of the plan, and a node for each of its first GPU servers."""
        places = node_labels(plan)
        servers = {one.name: one for one in nodes_of(plan, plan.catalog).nodes}
        for one in design(plan).objects:
            if not one.partial:
                kind = {"Content-Type": "application/apply-patch+yaml"}
                self._call("PATCH", path_of(one), json=one.manifest, headers=kind, params={"fieldManager": "trial"})
        wanted = [
            node(name, labels, servers[name].gpus, servers[name].cpus, servers[name].memory_mib)
            for name, labels in itertools.islice(places.items(), nodes)
        ]
        self.create_all(wanted)
        self.wait(lambda: self._ready_nodes() == len(wanted), "nodes are ready")

    def create(self, manifest: Mapping[str, Any]) -> Object:
        """Create a Node or an object of a namespace."""
        return self._call("POST", _folder(manifest), json=dict(manifest))

    def create_all(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self.create, manifests))

    def delete(self, manifest: Mapping[str, Any]) -> None:
        """Delete an object with its pods, and wait until they are gone."""
        metadata = manifest["metadata"]
        path = f"{_folder(manifest)}/{metadata['name']}"
        self._call("DELETE", path, params={"propagationPolicy": "Foreground"})
        self.wait(lambda: self.http.get(path).status_code == 404, f"{path} is gone")

    def delete_all(self, namespace: str) -> None:
        """Delete all Jobs of a namespace, and wait until their pods are gone."""
        # the API server answers when the last of them is deleted, one after the other
        background = {"propagationPolicy": "Background"}
        self._call("DELETE", f"/apis/batch/v1/namespaces/{namespace}/jobs", params=background, timeout=WAIT_S)
        self.wait(lambda: not self.pods(namespace), f"no pod is left in {namespace}")

    def pods(self, namespace: str, job: str = "") -> list[Object]:
        """The pods of a Job, or of a namespace."""
        selector = {"labelSelector": f"batch.kubernetes.io/job-name={job}"} if job else {}
        return list(self._call("GET", f"/api/v1/namespaces/{namespace}/pods", params=selector)["items"])

    def running(self, namespace: str, job: str = "") -> list[Object]:
        """Those that run and are not told to end."""
        return [
            one
            for one in self.pods(namespace, job)
            if one["status"].get("phase") == "Running" and "deletionTimestamp" not in one["metadata"]
        ]

    def job(self, namespace: str, name: str) -> Object:
        return self._call("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")

    def all_succeeded(self, namespace: str) -> bool:
        """Whether every Job of one pod in a namespace has ended well. The answer is small, however many there are."""
        unended = {"fieldSelector": "status.successful=0", "limit": "1"}
        return not self._call("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs", params=unended)["items"]

    def workload(self, namespace: str, job: str) -> Object | None:
        """What Kueue keeps of a Job; None before it has seen it."""
        uid = self.job(namespace, job)["metadata"]["uid"]
        path = f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{namespace}/workloads"
        found = self._call("GET", path, params={"labelSelector": f"kueue.x-k8s.io/job-uid={uid}"})["items"]
        return found[0] if found else None

    def condition(self, namespace: str, job: str, kind: str) -> Object:
        """A condition of a Job's workload; {} where it has none."""
        found = self.workload(namespace, job)
        conditions: list[Object] = ((found or {}).get("status") or {}).get("conditions") or []
        return next((one for one in conditions if one["type"] == kind), {})

    def wait(self, what: Callable[[], bool], name: str = "", within_s: float = WAIT_S) -> float:
        """Seconds until `what` was true; ClusterError where it is not in time."""
        began = time.monotonic()
        while not what():
            if time.monotonic() - began > within_s:
                raise ClusterError(f"after {within_s:g} s: not so that {name or what}")
            time.sleep(POLL_S)
        return time.monotonic() - began

    def answers(self, calls: Sequence[Mapping[str, Any]]) -> list[Object]:
        """Calls of validation/facts/api_calls.py, as over_ssh answers them on a site."""
        return [self._answer(one) for one in calls]

    def _answer(self, one: Mapping[str, Any]) -> Object:
        given = {"Impersonate-User": "user", "Impersonate-Group": "group", "Content-Type": "type"}
        headers = {name: one[key] for name, key in given.items() if one.get(key)}
        answer = self.http.request(one["verb"], one["path"], json=one.get("body"), headers=headers)
        body = answer.json()
        if one.get("fields"):
            body = {"items": [kept(item, list(one["fields"])) for item in body.get("items", ())]}
        elif one.get("only"):
            body = kept(body, list(one["only"]))
        return {"status": answer.status_code, "body": body, "error": ""}

    def _ready_nodes(self) -> int:
        listed = self._call("GET", "/api/v1/nodes", params={"resourceVersion": "0"})["items"]
        return sum(
            any(one["type"] == "Ready" and one["status"] == "True" for one in found["status"].get("conditions") or ())
            and not found["spec"].get("taints")
            for found in listed
        )

    def _call(self, verb: str, path: str, **more: Any) -> Object:
        answer = self.http.request(verb, path, **more)
        if answer.status_code >= 300:
            raise ClusterError(f"{verb} {path}: {answer.status_code} {answer.text[:500]}")
        found = answer.json()
        return found if isinstance(found, dict) else {}


def _folder(manifest: Mapping[str, Any]) -> str:
    """Where objects of its kind are."""
    group = manifest["apiVersion"]
    space = f"/namespaces/{manifest['metadata']['namespace']}" if "namespace" in manifest["metadata"] else ""
    return f"/{'apis' if '/' in group else 'api'}/{group}{space}/{manifest['kind'].lower()}s"
