"""Certificates of a control plane: authorities of its own, and a certificate for each that talks to another.

    write(folder, "https://127.0.0.1:6443")      # folder/*.crt, *.key (0600), *.kubeconfig (0600)

Three authorities, since each trusts other callers: `ca` for the API server's clients, `etcd-ca` for etcd's, `front-proxy-ca` for
servers behind the API server (https://kubernetes.io/docs/setup/best-practices/certificates/).
"""

import base64
import datetime
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS = 30
SERVICES = "10.96.0.0/16"
"""Addresses of Services; the API server's own is the first of it."""
LOCAL = ("127.0.0.1", "localhost")
API_NAMES = (
    "10.96.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
RSA_BITS = 2048
"""Of the key that signs service accounts' tokens; the API server takes RSA and ECDSA, and RS256 is what every client knows."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def issue(
    name: str,
    groups: Sequence[str] = (),
    authority: Pair | None = None,
    addresses: Sequence[str] = (),
    usages: Sequence[x509.ObjectIdentifier] = (),
    days: float = DAYS,
) -> Pair:
    """A certificate: an authority where none signs it. For clients, `name` is the user and `groups` the user's groups."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    signer = authority.key if authority else key
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.certificate.subject if authority else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if addresses:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_address, addresses))), critical=False)
    return Pair(builder.sign(signer, hashes.SHA256()), key)


def write(folder: Path, server: str) -> None:
    """Everything that `infra.kube.local` starts with, and a kubeconfig of an administrator for `server`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authorities = {name: issue(name) for name in ("ca", "etcd-ca", "front-proxy-ca")}
    cluster, etcd = authorities["ca"], authorities["etcd-ca"]
    pairs = authorities | {
        "apiserver": issue("kube-apiserver", authority=cluster, addresses=(*LOCAL, *API_NAMES), usages=[SERVER]),
        "etcd": issue("etcd", authority=etcd, addresses=LOCAL, usages=[SERVER, CLIENT]),
        "apiserver-etcd": issue("kube-apiserver", authority=etcd, usages=[CLIENT]),
        "front-proxy": issue("front-proxy-client", authority=authorities["front-proxy-ca"], usages=[CLIENT]),
    }
    for name, pair in pairs.items():
        private(folder / f"{name}.crt", pair.pem)
        private(folder / f"{name}.key", pair.key_pem)
    tokens = rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    private(folder / "tokens.key", tokens.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    private(folder / "tokens.pub", tokens.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    for name, user, groups in (
        ("admin", "admin", ["system:masters"]),
        ("controller-manager", "system:kube-controller-manager", []),
        ("scheduler", "system:kube-scheduler", []),
    ):
        client = issue(user, groups, cluster, usages=[CLIENT])
        private(folder / f"{name}.kubeconfig", kubeconfig(server, cluster.pem, client).encode())


def load(path: Path) -> Pair:
    """The pair that `write` left as `path`.crt and `path`.key."""
    key = load_pem_private_key(path.with_suffix(".key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey), f"{path}.key: issue() makes keys of elliptic curves"
    return Pair(x509.load_pem_x509_certificate(path.with_suffix(".crt").read_bytes()), key)


def kubeconfig(server: str, authority_pem: bytes, client: Pair) -> str:
    """A kubeconfig with everything embedded."""
    cluster = {"server": server, "certificate-authority-data": _base64(authority_pem)}
    return kubeconfig_for(cluster, "local", by_certificate(client.pem, client.key_pem))


def by_certificate(certificate: bytes, key: bytes) -> dict[str, str]:
    """The user of a kubeconfig that has a certificate and its key, PEM."""
    return {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}


def kubeconfig_for(cluster: Mapping[str, Any], name: str, user: Mapping[str, Any]) -> str:
    """A kubeconfig; `cluster` and `user` as it has them, `name` for all three parts."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": dict(cluster)}],
            "users": [{"name": name, "user": dict(user)}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        }
    )


def _address(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def private(path: Path, data: bytes) -> None:
    """A file that its owner alone may read."""
    path.touch(mode=0o600)
    path.write_bytes(data)
