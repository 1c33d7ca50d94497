"""Secrets and keys of one lab, made anew at every `up` and gone with `down`.

secrets/{snmp_auth, snmp_priv, bmc_factory_password, munge_key, slurmdbd_password}   random text
secrets/bmc_password_<server> what the server's BMC gets when it is taken over; each another one
secrets/alert_webhook         where alerts go: a URL of the operator's workstation that nobody guesses
secrets/notices_webhook       where notices about jobs and nodes go: another one there
secrets/ssh_ed25519{,.pub}     the operator's key, for switches and nodes
secrets/evidence_ed25519       PKCS#8 PEM; signs evidence with the role `lab`, which counts nowhere else
pki/bmc.pem, pki/bmc.key       one self-signed certificate for all BMC addresses
devices/<name>/ssh/            host keys; known_hosts lists them
"""

import datetime
import ipaddress
import secrets
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from infra.lab.paths import LabPaths, write_private
from infra.lab.spec import LabSpec

CERTIFICATE_DAYS = 90
WEBHOOK_PORT = 9095
TEXT_SECRETS = ("snmp_auth", "snmp_priv", "bmc_factory_password", "munge_key", "slurmdbd_password")


def write_all(spec: LabSpec, paths: LabPaths) -> None:
    """Create every secret, key and certificate of the lab."""
    for secret in (*TEXT_SECRETS, *(bmc_password(server.name) for server in spec.servers)):
        text_secret(paths.secrets / secret)
    for name, path in (("alert_webhook", "alerts"), ("notices_webhook", "notices")):
        url = f"http://{spec.provisioning.host}:{WEBHOOK_PORT}/{path}/{secrets.token_urlsafe(24)}"
        write_private(paths.secrets / name, f"{url}\n")
    ssh_key(paths.secrets / "ssh_ed25519", f"operator@{spec.name}")
    signing_key(paths.secrets / "evidence_ed25519")
    known = []
    hosts = {s.name: s.address for s in spec.switches} | {s.name: s.address for s in spec.servers}
    for name, address in hosts.items():
        public = ssh_key(paths.device(name) / "ssh" / "ssh_host_ed25519_key", name)
        known.append(f"{address} {public}\n")
    write_private(paths.known_hosts, "".join(known))
    bmc_certificate(paths, [server.bmc_address for server in spec.servers])


def bmc_password(server: str) -> str:
    """Name of the secret that is the password of the site's account on a server's BMC."""
    return f"bmc_password_{server}"


def text_secret(target: Path) -> None:
    """Make a password: 32 hex digits."""
    write_private(target, secrets.token_hex(16) + "\n")


def ssh_key(target: Path, comment: str) -> str:
    """Make an ed25519 key pair, TARGET and TARGET.pub; returns the public half."""
    key = Ed25519PrivateKey.generate()
    write_private(target, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    write_private(target.with_name(target.name + ".pub"), f"{public} {comment}\n")
    return public


def signing_key(target: Path) -> None:
    """Make a key that signs evidence."""
    key = Ed25519PrivateKey.generate()
    write_private(target, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())


def bmc_certificate(paths: LabPaths, bmcs: Iterable[str]) -> None:
    """Make the certificate of the BMCs at these addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"SIMULATED BMCs of bringup lab {paths.name}")])
    now = datetime.datetime.now(datetime.UTC)
    addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in bmcs]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=CERTIFICATE_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    write_private(paths.pki / "bmc.key", pem)
    write_private(paths.pki / "bmc.pem", certificate.public_bytes(Encoding.PEM).decode())
