"""Logins at an issuer, with a real API server: what a token gives, and which are refused. The issuer is the test's own; it signs
with keys that it made, as one of OpenID Connect does (RFC 7519, OpenID Connect Discovery 1.0).
"""

import base64
import http.server
import json
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jinja2
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from capacity.services.platform import design
from capacity.services.platform.logins import authentication
from infra.kube.access import connect
from infra.kube.certificates import SERVER, issue, private
from infra.kube.local import running
from infra.toolchain.control_plane import programs
from inventory.site.sections.logins import Login
from tests.capacity.services.test_logins import logging_in
from tests.playbooks.support import PLAYBOOKS
from validation.facts.kube import path_of

pytestmark = pytest.mark.platform

TEMPLATE = PLAYBOOKS / "roles" / "kubernetes_control_plane" / "templates" / "authentication.yaml.j2"
WAIT_S = 60.0


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """Answers for its discovery document and its keys over TLS on loopback, and signs tokens."""

    def __init__(self, folder: Path) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        authority = issue("issuer-ca")
        pair = issue("issuer", authority=authority, usages=[SERVER], addresses=["127.0.0.1"])
        self.ca = authority.pem.decode()
        private(folder / "issuer.pem", pair.pem + pair.key_pem)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / "issuer.pem")

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(handler) -> None:
                body = json.dumps(self.answer(handler.path)).encode()
                handler.send_response(200)
                handler.send_header("Content-Type", "application/json")
                handler.end_headers()
                handler.wfile.write(body)

            def log_message(handler, format: str, *args: object) -> None:
                """Nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path: str) -> dict[str, Any]:
        if path == "/keys":
            numbers = self.key.public_key().public_numbers()
            modulus = encoded(numbers.n.to_bytes(256, "big"))
            return {"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": modulus, "e": "AQAB"}]}
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "authorization_endpoint": f"{self.url}/auth",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def token(self, user: str, *groups: str, key: rsa.RSAPrivateKey | None = None, **other: Any) -> str:
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": "bringup",
            "sub": "1",
            "exp": now + 600,
            "iat": now,
            "preferred_username": user,
            "groups": list(groups),
            **other,
        }
        head = {"alg": "RS256", "kid": "1", "typ": "JWT"}
        text = ".".join(encoded(json.dumps(part).encode()) for part in (head, claims))
        signature = (key or self.key).sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{encoded(signature)}"


class Server:
    """The API server as a bearer of tokens asks it."""

    def __init__(self, issuer: Issuer, http_client: httpx.Client, bare: httpx.Client) -> None:
        self.issuer, self.http, self._bare = issuer, http_client, bare

    def who(self, token: str) -> tuple[int, str, list[str]]:
        """(status, name, groups) of a token."""
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        answer = self.as_(token, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", json=review)
        found = answer.json().get("status", {})
        info = found.get("userInfo", {}) if isinstance(found, dict) else {}
        return answer.status_code, info.get("username", ""), info.get("groups", [])

    def as_(self, token: str, verb: str, path: str, **more: Any) -> httpx.Response:
        return self._bare.request(verb, path, headers={"Authorization": f"Bearer {token}"}, **more)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An API server that reads what the role writes for an issuer."""
    folder = tmp_path_factory.mktemp("logins")
    issuer = Issuer(folder)
    login = Login(issuer=issuer.url, audience="bringup", ca="issuer-ca.pem")
    environment = jinja2.Environment(autoescape=False)
    environment.filters |= {"combine": lambda first, second: {**first, **second}, "to_json": json.dumps}
    text = environment.from_string(TEMPLATE.read_text()).render(
        bringup_kubernetes={"authentication": authentication(login, "1.36.3"), "login_ca": "issuer-ca.pem"},
        lookup=lambda plugin, path: issuer.ca.rstrip(),
    )
    written = folder / "authentication.yaml"
    written.write_text(text)
    kubernetes = programs()
    assert kubernetes is not None
    plane_folder = tmp_path_factory.mktemp("control-plane")
    with running(kubernetes, plane_folder, api_server={"authentication-config": str(written)}) as plane:
        connection = connect(plane.kubeconfig)
        bare = ssl.create_default_context(cafile=str(plane.folder / "pki" / "ca.crt"))
        with (
            httpx.Client(base_url=connection.server, verify=connection.tls) as administrator,
            httpx.Client(base_url=connection.server, verify=bare) as anyone,
        ):
            for one in design(logging_in(vision=("vision team",))).objects:
                if one.kind in ("Namespace", "RoleBinding") or one.key == "ClusterRole/bringup-member":
                    kind = {"Content-Type": "application/apply-patch+yaml"}
                    done = administrator.patch(
                        path_of(one), json=one.manifest, headers=kind, params={"fieldManager": "trial"}
                    )
                    assert done.status_code in (200, 201), done.text
            made = Server(issuer, administrator, anyone)
            end = time.monotonic() + WAIT_S
            while made.who(issuer.token("alice"))[0] != 201 and time.monotonic() < end:
                time.sleep(0.5)  # until it has fetched the issuer's keys
            yield made
    issuer.server.shutdown()


def test_a_token_gives_the_name_and_groups_with_their_prefix(server: Server) -> None:
    status, name, groups = server.who(server.issuer.token("alice", "vision team", "system:masters"))
    assert (status, name) == (201, "alice")
    assert set(groups) == {"login:vision team", "login:system:masters", "system:authenticated"}


def test_members_of_a_group_may_what_its_account_may_and_nothing_elsewhere(server: Server) -> None:
    member, stranger = server.issuer.token("erin", "vision team"), server.issuer.token("erin", "other")
    jobs = "/apis/batch/v1/namespaces/{}/jobs"
    assert server.as_(member, "GET", jobs.format("vision")).status_code == 200
    assert server.as_(member, "GET", jobs.format("research")).status_code == 403
    assert server.as_(stranger, "GET", jobs.format("vision")).status_code == 403
    assert server.as_(server.issuer.token("alice"), "GET", jobs.format("research")).status_code == 200, "a user by name"


@pytest.mark.parametrize(
    "name", ["kube-apiserver-kubelet-client", "bringup-admin", "bringup:metrics", "system:admin", "etcd", "Alice", ""]
)
def test_a_name_of_a_program_is_none_of_a_user(server: Server, name: str) -> None:
    assert server.who(server.issuer.token(name, "vision team"))[0] == 401


def test_a_token_for_somebody_else_of_another_key_or_over_is_refused(server: Server) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert server.who(server.issuer.token("alice", key=other))[0] == 401
    assert server.who(server.issuer.token("alice", aud="another"))[0] == 401
    assert server.who(server.issuer.token("alice", exp=int(time.time()) - 60))[0] == 401
    assert server.who(server.issuer.token("alice", iss="https://127.0.0.1:1"))[0] == 401
