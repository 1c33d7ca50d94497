"""A kubeconfig for a member of an account: a certificate of the cluster's authority with the user's name.

    signed(connect(kubeconfig_of("site")), "alice", days=90)     # Signed(key, certificate); ClusterError says what is wrong
    kubeconfig(admin_text, one)                                  # text of a kubeconfig for the same cluster
    login_kubeconfig(admin_text, "site", login)                  # one without a key, for all who log in at the site's issuer

The key is made here, its request is approved with the administrator's rights and removed again
(https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/). What the member may do, the bindings of
the account's namespace say (capacity/services/platform/tenancy.py): who is in no account any more has a certificate and no rights.
"""

import base64
import binascii
import contextlib
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from infra.kube.access import ClusterError, Connection, no_answer
from infra.kube.certificates import by_certificate, kubeconfig_for
from inventory.site.sections.logins import Login
from inventory.yaml_data import handed_in

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER = "kubernetes.io/kube-apiserver-client"
CALL_S = 10.0
SIGNED_S = 30.0
"""From the approval to the certificate; the controller manager signs within a second."""
POLL_S = 0.2
LEAST_S = 600
"""The least that a request may ask for (expirationSeconds)."""
WAY_OUT = "See what kube-controller-manager says, which signs, and whether the kubeconfig names the right cluster"
RIGHTS = "It is asked with the administrator's rights: take them anew with bringup kubeconfig SITE"

Object = dict[str, Any]


@dataclass(frozen=True)
class Signed:
    """A member's key and certificate, PEM, and when the certificate ends."""

    user: str
    key: bytes = field(repr=False)
    certificate: bytes
    ends: str


def signed(connection: Connection, user: str, days: float, transport: httpx.BaseTransport | None = None) -> Signed:
    """A key, and the certificate that the cluster's authority gave it for `user`, for so many days or fewer: the controller manager
    bounds them (cluster-signing-duration). ClusterError.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    wanted = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": f"bringup-member-{secrets.token_hex(6)}"},
        "spec": {
            "request": base64.b64encode(request.public_bytes(Encoding.PEM)).decode(),
            "signerName": SIGNER,
            "expirationSeconds": max(LEAST_S, int(days * 86_400)),
            "usages": ["digital signature", "client auth"],
        },
    }
    with httpx.Client(
        base_url=connection.server,
        verify=connection.tls,
        headers=dict(connection.headers),
        timeout=CALL_S,
        transport=transport,
    ) as client:
        certificate = _signed(client, connection, wanted)
    made = _parsed(certificate, key, user)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Signed(user, pem, made.public_bytes(Encoding.PEM), f"{made.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")


def kubeconfig(administrators: str, one: Signed) -> str:
    """The administrator's kubeconfig with the member in its place: the same cluster, other credentials."""
    return kubeconfig_for(_cluster(administrators), one.user, by_certificate(one.certificate, one.key))


def login_kubeconfig(administrators: str, site: str, login: Login) -> str:
    """One for all who log in at the site's issuer: it holds no secret, and starts kubectl's plugin oidc-login
    (https://github.com/int128/kubelogin), which opens a browser.
    """
    arguments = ["oidc-login", "get-token", f"--oidc-issuer-url={login.issuer}", f"--oidc-client-id={login.audience}"]
    starts = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "kubectl",
        "args": arguments,
        "interactiveMode": "IfAvailable",
        "installHint": "kubectl has no plugin oidc-login: see https://github.com/int128/kubelogin",
    }
    return kubeconfig_for(_cluster(administrators), site, {"exec": starts})


def _cluster(administrators: str) -> Object:
    given = handed_in(administrators)
    current = next(entry for entry in given["contexts"] if entry["name"] == given["current-context"])
    named = next(entry for entry in given["clusters"] if entry["name"] == current["context"]["cluster"])
    return dict(named["cluster"])


def _signed(client: httpx.Client, connection: Connection, wanted: Object) -> bytes:
    name = wanted["metadata"]["name"]
    asked = _call(client, connection, "POST", REQUESTS, wanted)
    try:
        said = {
            "type": "Approved",
            "status": "True",
            "reason": "BringupKubeconfig",
            "message": "asked for by bringup kubeconfig --user",
        }
        asked["status"] = {"conditions": [said]}
        _call(client, connection, "PUT", f"{REQUESTS}/{name}/approval", asked)
        end = time.monotonic() + SIGNED_S
        while True:
            status = _call(client, connection, "GET", f"{REQUESTS}/{name}").get("status", {})
            if failed := [one for one in status.get("conditions", ()) if one.get("type") in ("Failed", "Denied")]:
                why = str(failed[0].get("message", ""))[:300]
                raise ClusterError(f"{name}: {failed[0]['type']}: {why}. {WAY_OUT}")
            if status.get("certificate"):
                return base64.b64decode(status["certificate"], validate=True)
            if time.monotonic() > end:
                raise ClusterError(
                    f"{name}: no certificate after {SIGNED_S:g} s: see whether kube-controller-manager runs, which signs"
                )
            time.sleep(POLL_S)
    except (binascii.Error, TypeError, AttributeError, KeyError) as error:
        raise ClusterError(f"{name}: expected a certificate, got {type(error).__name__}. {WAY_OUT}") from None
    finally:
        with contextlib.suppress(ClusterError):  # the cluster removes it by itself within an hour
            _call(client, connection, "DELETE", f"{REQUESTS}/{name}")


def _call(client: httpx.Client, connection: Connection, verb: str, url: str, body: Object | None = None) -> Object:
    try:
        answer = client.request(verb, url, json=body)
        said = answer.json()
    except httpx.HTTPError as error:
        raise ClusterError(no_answer(connection, error, CALL_S)) from None
    except (ValueError, RecursionError):
        said = None
    if answer.status_code >= 400 or not isinstance(said, dict):
        why = " ".join(str(said.get("message", "")).split())[:300] if isinstance(said, dict) else "no JSON"
        raise ClusterError(f"{verb} {url}: {answer.status_code} {why}. {RIGHTS}")
    return said


def _parsed(pem: bytes, key: ec.EllipticCurvePrivateKey, user: str) -> x509.Certificate:
    """The certificate, which is for this key and this user and no other."""
    try:
        made = x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise ClusterError(f"{user}: the signed certificate cannot be read: {error}. {WAY_OUT}") from None
    names = [attribute.value for attribute in made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if made.public_key() != key.public_key() or names != [user]:
        raise ClusterError(f"{user}: the cluster signed another key or name: {', '.join(map(str, names))}. {WAY_OUT}")
    return made
