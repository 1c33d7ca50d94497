"""A kubeconfig of a member: what is asked of the API server, and what of its answer is taken."""

import base64
import datetime
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from infra.kube import certificates, members
from infra.kube.access import ClusterError, Connection, connect
from infra.kube.members import REQUESTS, kubeconfig, signed

Answered = dict[str, Any]
CONNECTION = Connection("https://10.0.0.1:6443", ssl.create_default_context(), {})
AUTHORITY = certificates.issue("ca")


class Cluster:
    """Plays the API of requests for certificates, and the controller that signs what is approved."""

    def __init__(
        self, public_key: ec.EllipticCurvePublicKey | None = None, status: Callable[[], Answered] | None = None
    ):
        self.kept: dict[str, Answered] = {}
        self.asked: list[Answered] = []
        self.removed: list[str] = []
        self._key, self._status = public_key, status

    def __call__(self, request: httpx.Request) -> httpx.Response:
        name = request.url.path.removeprefix(REQUESTS).strip("/").partition("/")[0]
        if request.method == "POST":
            one = json.loads(request.content)
            self.asked.append(one)
            self.kept[one["metadata"]["name"]] = one
            return httpx.Response(201, json=one)
        if request.method == "PUT":
            self.kept[name] = json.loads(request.content)
        elif request.method == "DELETE":
            self.removed.append(name)
        elif self._status:
            return httpx.Response(200, json=self.kept[name] | {"status": self._status()})
        else:
            self.kept[name]["status"]["certificate"] = base64.b64encode(self._signed(name)).decode()
        return httpx.Response(200, json=self.kept[name])

    def _signed(self, name: str) -> bytes:
        one = self.kept[name]
        assert one["status"]["conditions"][0]["type"] == "Approved"
        request = x509.load_pem_x509_csr(base64.b64decode(one["spec"]["request"]))
        now = datetime.datetime.now(datetime.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(AUTHORITY.certificate.subject)
            .public_key(self._key or request.public_key())
            .serial_number(1)
            .not_valid_before(now)
            .not_valid_after(now + datetime.timedelta(seconds=one["spec"]["expirationSeconds"]))
            .sign(AUTHORITY.key, hashes.SHA256())
        )
        return made.public_bytes(Encoding.PEM)


def ask(cluster: Cluster, days: float = 30) -> members.Signed:
    return signed(CONNECTION, "alice", days, httpx.MockTransport(cluster))


def test_a_member_gets_a_certificate_of_its_own_name_and_nothing_else(tmp_path: Path):
    cluster = Cluster()
    one = ask(cluster)
    (asked,) = cluster.asked
    assert (asked["spec"]["signerName"], asked["spec"]["expirationSeconds"]) == (members.SIGNER, 30 * 86_400)
    request = x509.load_pem_x509_csr(base64.b64decode(asked["spec"]["request"]))
    assert request.subject.rfc4514_string() == "CN=alice", "no group: what it may do hangs on the name"
    assert cluster.removed == [asked["metadata"]["name"]]
    assert "PRIVATE KEY" not in json.dumps(cluster.kept)
    administrators = certificates.kubeconfig(CONNECTION.server, AUTHORITY.pem, certificates.issue("admin"))
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig(administrators, one))
    assert connect(path).server == CONNECTION.server
    assert base64.b64encode(one.certificate).decode() in path.read_text()
    assert "admin" not in path.read_text()


def test_a_certificate_for_another_key_is_not_taken():
    cluster = Cluster(ec.generate_private_key(ec.SECP256R1()).public_key())
    with pytest.raises(ClusterError, match="signed another key or name"):
        ask(cluster)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"conditions": [{"type": "Failed", "message": "no signer"}]}, "Failed: no signer"),
        ({"certificate": "not base64!"}, "expected a certificate"),
        ({"certificate": "AAAA"}, "cannot be read"),
        ({"certificate": 7}, "expected a certificate, got TypeError"),
        ({}, "no certificate after 0 s: see whether kube-controller-manager runs"),
    ],
)
def test_what_the_cluster_answers_instead_is_named_and_the_request_removed(monkeypatch, status: Answered, said: str):
    monkeypatch.setattr(members, "SIGNED_S", 0.0)
    cluster = Cluster(status=lambda: status)
    with pytest.raises(ClusterError, match=said):
        ask(cluster)
    assert len(cluster.removed) == 1


def test_a_refusal_is_named_with_what_was_asked():
    refuse = httpx.MockTransport(lambda request: httpx.Response(403, json={"message": "user cannot create"}))
    with pytest.raises(ClusterError, match=rf"POST {REQUESTS}: 403 user cannot create"):
        signed(CONNECTION, "alice", 30, refuse)
