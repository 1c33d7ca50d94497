"""A member's kubeconfig at a real API server: it knows the user by the certificate that its controller manager signed."""

from pathlib import Path

import httpx
import pytest

from infra.kube.access import connect
from infra.kube.local import ControlPlane
from infra.kube.members import REQUESTS, kubeconfig, signed
from tests.control_plane import Cluster, cluster, control_plane

__all__ = ["cluster", "control_plane"]

pytestmark = pytest.mark.platform

RIGHTS = "/apis/rbac.authorization.k8s.io/v1"


def test_a_member_is_known_by_name_and_may_what_is_bound_to_it(
    control_plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    one = signed(connect(control_plane.kubeconfig), "alice", 1)
    path = tmp_path / "kubeconfig-alice"
    path.write_text(kubeconfig(control_plane.kubeconfig.read_text(), one))
    connection = connect(path)
    with httpx.Client(base_url=connection.server, verify=connection.tls, timeout=30) as alice:
        who = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        said = alice.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json=who).json()
        assert said["status"]["userInfo"]["username"] == "alice"
        assert alice.get("/api/v1/namespaces/default/pods").status_code == 403
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "alice"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}],
        }
        assert cluster.post(f"{RIGHTS}/namespaces/default/rolebindings", binding).status_code == 201
        assert alice.get("/api/v1/namespaces/default/pods").status_code == 200
        assert alice.get("/api/v1/namespaces/kube-system/pods").status_code == 403
    left = cluster.get(REQUESTS)
    assert left is not None
    assert left["items"] == []
