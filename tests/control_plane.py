"""A Kubernetes control plane for the tests that carry `platform`: one per test process, with etcd empty at first.

Real: etcd, API server, controller manager, scheduler. Not there: kubelets, so that no container ever runs; where a test needs
pods to become ready, it says so and plays the kubelet itself (`play_kubelet`).
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.kube.access import connect
from infra.kube.local import ControlPlane, running
from infra.toolchain.control_plane import programs

CALL_S = 30.0
Object = dict[str, Any]


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = programs()
    assert folder is not None
    with running(folder, tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def cluster(control_plane: ControlPlane) -> Iterator["Cluster"]:
    made = Cluster(control_plane.kubeconfig)
    yield made
    made.http.close()


class Cluster:
    """An administrator's calls to the API server, independent of the provider under test."""

    def __init__(self, kubeconfig: Path) -> None:
        connection = connect(kubeconfig)
        self.kubeconfig = kubeconfig
        self.http = httpx.Client(base_url=connection.server, verify=connection.tls, timeout=CALL_S)

    def get(self, path: str) -> Object | None:
        answer = self.http.get(path)
        return None if answer.status_code == 404 else self._known(answer)

    def post(self, path: str, body: Mapping[str, Any], user: str = "") -> httpx.Response:
        return self.http.post(path, json=body, headers={"Impersonate-User": user} if user else {})

    def patch(self, path: str, body: Mapping[str, Any], manager: str = "somebody") -> Object:
        kind = {"Content-Type": "application/merge-patch+json"}
        return self._known(
            self.http.patch(path, content=json.dumps(body), headers=kind, params={"fieldManager": manager})
        )

    def delete(self, path: str) -> None:
        self._known(self.http.delete(path))

    def path(self, manifest: Mapping[str, Any]) -> str:
        """Where an object is."""
        group, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        root = f"/{'apis' if '/' in group else 'api'}/{group}"
        listed = self.get(root)
        assert listed is not None, group
        served = {one["kind"]: one["name"] for one in listed["resources"] if "/" not in one["name"]}
        space = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        return f"{root}{space}/{served[kind]}/{metadata['name']}"

    def find(self, manifest: Mapping[str, Any]) -> Object | None:
        """The object as it is; None where there is none."""
        return self.get(self.path(manifest))

    def version(self, manifest: Mapping[str, Any]) -> str:
        """What changes with every write of an object."""
        live = self.find(manifest)
        return "" if live is None else str(live["metadata"]["resourceVersion"])

    def may(self, user: str, verb: str, resource: str, namespace: str = "", group: str = "", sub: str = "") -> bool:
        """What the API server's own authorizer says (SubjectAccessReview)."""
        attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace, "subresource": sub}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": ["system:authenticated"], "resourceAttributes": attributes},
        }
        answer = self._known(self.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review))
        return bool(answer["status"]["allowed"])

    def play_kubelet(self, namespace: str, broken: Callable[[str], bool], address: str = "") -> None:
        """What a kubelet would report of each pod of a namespace: ready, or an image that cannot be pulled. SIMULATED.

        address: the pods' own, for Services.
        """
        listed = self.get(f"/api/v1/namespaces/{namespace}/pods")
        for pod in (listed or {"items": []})["items"]:
            containers: Sequence[Object] = pod["spec"]["containers"]
            bad = any(broken(one["image"]) for one in containers)
            state = (
                {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
                if bad
                else {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
            )
            status: Object = {
                "phase": "Pending" if bad else "Running",
                "conditions": [{"type": kind, "status": str(not bad)} for kind in ("Ready", "ContainersReady")],
                "containerStatuses": [
                    {
                        "name": one["name"],
                        "image": one["image"],
                        "imageID": "",
                        "ready": not bad,
                        "restartCount": 0,
                        "state": state,
                    }
                    for one in containers
                ],
            }
            if address:
                status |= {"podIP": address, "podIPs": [{"ip": address}]}
            if pod["metadata"].get("deletionTimestamp"):
                gone = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
                self.http.request("DELETE", gone, json={"gracePeriodSeconds": 0})
            else:
                self.patch(f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/status", {"status": status})

    @staticmethod
    def _known(answer: httpx.Response) -> Object:
        assert answer.status_code < 300, f"{answer.request.method} {answer.request.url}: {answer.text[:500]}"
        found = answer.json()
        assert isinstance(found, dict)
        return found


def wait_for(what: Callable[[], bool], within_s: float = CALL_S) -> bool:
    """Whether `what` became true in time."""
    end = time.monotonic() + within_s
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
