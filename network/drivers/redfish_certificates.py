"""A BMC's HTTPS certificate: what a signing request asks for, and whether the BMC's answer is one for it.

    body = request_body(subject, ["10.77.0.61"], collection)      # of CertificateService.GenerateCSR
    csr = checked_request(pem, subject, source)                    # PEM; UnreadableAnswer for another one

The key is made by the BMC and never leaves it. Fields: DSP0268, CertificateService schema, action GenerateCSR.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from network.drivers.answers import Source, reading

SUBJECT = ("CommonName", "Organization", "OrganizationalUnit", "City", "State", "Country")
"""Parameters of the subject; the schema requires all of them."""
REQUEST_CHARACTERS = 32_768
"""Longest signing request: one for RSA 4096 with 20 names has about 2,500."""
RSA_BITS, EC_BITS = 2048, 256
"""Weakest keys that are signed (CA/Browser Forum, baseline requirements for TLS certificates, 6.1.5)."""


def request_body(subject: Mapping[str, str], names: Sequence[str], collection: str) -> dict[str, Any]:
    """Body of GenerateCSR. ValueError for a subject that lacks a field or has another one."""
    wrong = sorted(set(SUBJECT) ^ {key for key, value in subject.items() if value})
    if wrong:
        raise ValueError(f"a certificate's subject has {', '.join(SUBJECT)}; look at {', '.join(wrong)}")
    body = {**subject, "CertificateCollection": {"@odata.id": collection}}
    return {**body, "AlternativeNames": list(names)} if names else body


def checked_request(said: object, subject: Mapping[str, str], source: Source) -> str:
    """The signing request as PEM. UnreadableAnswer where it is none, is not self-signed, names another host or has a weak key."""
    if not isinstance(said, str) or len(said) > REQUEST_CHARACTERS:
        raise source.unreadable(f"a signing request of at most {REQUEST_CHARACTERS} characters", "another answer")
    with reading(source, "a signing request in PEM"):
        request = x509.load_pem_x509_csr(said.encode())
        key = request.public_key()
        valid = request.is_signature_valid
        names = [str(one.value) for one in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not valid:
        raise source.unreadable("a signing request signed by its own key", "another signature")
    if names != [subject["CommonName"]]:
        raise source.unreadable(
            f"a signing request for {subject['CommonName']}", f"one for {', '.join(names) or 'nobody'}"
        )
    if isinstance(key, rsa.RSAPublicKey):
        bits, least = key.key_size, RSA_BITS
    elif isinstance(key, ec.EllipticCurvePublicKey):
        bits, least = key.key_size, EC_BITS
    else:
        raise source.unreadable("an RSA or EC key", type(key).__name__)
    if bits < least:
        raise source.unreadable(f"a key of at least {least} bits", f"{bits} bits")
    return request.public_bytes(serialization.Encoding.PEM).decode()


def first_of(pem: str) -> bytes:
    """The first certificate of a PEM chain, as DER. ValueError where there is none."""
    return x509.load_pem_x509_certificates(pem.encode())[0].public_bytes(serialization.Encoding.DER)
