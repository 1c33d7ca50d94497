"""The site's CA on BMCs as delivered, which present a certificate that nobody has signed.

    asked = request(contact, subject)             the BMC's account is the site's; a signing request of a key that the BMC made
    faults(pem, asked.csr, address, ca, now)      why the certificate from the CA must not be installed; [] if it may be
    install(contact, asked.pin, pem)              from now on the BMC answers under the CA

Nothing can verify a first connection. It is pinned to the certificate that is presented, and so is the second one: who was asked is
who gets the certificate. The BMC's serial number is compared before each write.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from infra.install.takeover import AccountBmc, take_over
from network.drivers import tls
from network.drivers.credentials import BmcCredentials
from network.drivers.errors import Unreachable
from network.drivers.redfish import BmcIdentity

PARTS = {"C": "Country", "ST": "State", "L": "City", "O": "Organization", "OU": "OrganizationalUnit"}
"""What of a subject is the same for all BMCs: attributes of RFC 4514, parameters of CertificateService.GenerateCSR (DSP0268)."""
LONGEST_CHAIN = 5
"""Certificates from a BMC's to that of the CA."""


class CertificateBmc(AccountBmc, Protocol):
    """What is needed of `network.drivers.redfish.Bmc`."""

    def identity(self) -> BmcIdentity: ...

    def signing_request(self, subject: Mapping[str, str], names: Sequence[str] = ()) -> str: ...

    def install_certificate(self, pem: str) -> None: ...


@dataclass(frozen=True)
class Contact:
    """One BMC. ca: of the site; connect: makes its driver with credentials; own, factory: as the site file has them."""

    name: str
    address: str
    ca: Path
    connect: Callable[[BmcCredentials], CertificateBmc]
    own: BmcCredentials
    factory: BmcCredentials | None
    port: int = 443


class Requested(NamedTuple):
    """A signing request as PEM, and SHA-256 of the certificate under which the BMC gave it."""

    csr: str
    pin: str


def subject_of(text: str) -> dict[str, str]:
    """The parts of a subject that all BMCs have in common, from RFC 4514 text: C=DE,ST=Bavaria,L=Munich,O=Example,OU=BMC.

    ValueError where one of them is missing, empty or there twice, and for any other.
    """
    found = [(part.rfc4514_attribute_name, str(part.value)) for part in x509.Name.from_rfc4514_string(text)]
    if sorted(name for name, value in found if value) != sorted(PARTS):
        raise ValueError(f"a subject has each of {', '.join(PARTS)} once")
    return {PARTS[name]: value for name, value in found}


def presented_pin(contact: Contact) -> str:
    """SHA-256 of the certificate that the BMC presents now; '' where it presents none."""
    presented = tls.presented(contact.address, contact.port)
    return hashlib.sha256(presented).hexdigest() if presented else ""


def request(contact: Contact, subject: Mapping[str, str]) -> Requested:
    """Take the BMC over, if it is not yet, and have it make a key and a signing request. DeviceError where it does not."""
    pin = presented_pin(contact)
    if not pin:
        raise Unreachable(
            contact.name,
            "look at its certificate",
            f"a BMC at {contact.address}:{contact.port}",
            "none",
            "check the BMC's management cable and address",
        )
    own = _pinned(contact.own, pin)
    take_over(contact.name, contact.connect, own, contact.factory and _pinned(contact.factory, pin))
    csr = contact.connect(own).signing_request({**subject, "CommonName": contact.name}, [contact.address])
    return Requested(csr, pin)


def install(contact: Contact, pin: str, pem: str) -> None:
    """Give the BMC its certificate, and log in under the site's CA. `pin` is that of the request."""
    contact.connect(_pinned(contact.own, pin)).install_certificate(pem)
    contact.connect(contact.own).identity()


def extensions(address: str) -> str:
    """What the CA writes into the certificate beside the subject, as `openssl x509 -extfile` takes it: BMCs leave names out of
    their requests, and a client compares the address with these names alone (RFC 9525).
    """
    return f"subjectAltName=IP:{address}\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n"


def faults(pem: bytes, csr: bytes, address: str, ca: bytes, now: datetime) -> list[str]:
    """Why a certificate (PEM, with its intermediates) must not be installed for this request, a sentence each; [] if it may be.
    ca: certificates of the site's CA, PEM.

    ValueError where `csr` or `ca` cannot be read.
    """
    wanted, anchors = x509.load_pem_x509_csr(csr), x509.load_pem_x509_certificates(ca)
    try:
        leaf, *between = x509.load_pem_x509_certificates(pem)
        alternative = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        addresses = alternative.get_values_for_type(x509.IPAddress)
    except x509.ExtensionNotFound:
        addresses = []
    except ValueError as error:
        return [f"it is no certificate in PEM: {error}"]
    spki = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    named = ", ".join(map(str, addresses)) or "none"
    return [
        *(
            ["it has another key than the request"]
            if leaf.public_key().public_bytes(*spki) != wanted.public_key().public_bytes(*spki)
            else []
        ),
        *([f"it names address {named}, the BMC has {address}"] if IPv4Address(address) not in addresses else []),
        *(
            [f"it is valid from {leaf.not_valid_before_utc:%Y-%m-%d} to {leaf.not_valid_after_utc:%Y-%m-%d}"]
            if not leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc
            else []
        ),
        *([] if _leads_to(leaf, between, anchors) else ["no chain leads from it to credentials.bmc.ca"]),
    ]


def _leads_to(leaf: x509.Certificate, between: list[x509.Certificate], anchors: list[x509.Certificate]) -> bool:
    current = leaf
    for _ in range(LONGEST_CHAIN):
        if any(_issued(current, anchor) for anchor in anchors):
            return True
        above = [one for one in between if one != current and _issued(current, one)]
        if not above:
            return False
        current = above[0]
    return False


def _issued(one: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        one.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _pinned(credentials: BmcCredentials, pin: str) -> BmcCredentials:
    return replace(credentials, ca=None, pin=pin)
