"""Certificates for BMCs as delivered, against a Redfish service over TLS whose certificate nobody trusts."""

import datetime
import subprocess

import pytest
from cryptography import x509

from infra.install.certificates import Contact, extensions, faults, install, request, subject_of
from network.drivers import tls
from network.drivers.credentials import BmcCredentials
from network.drivers.errors import LoginRefused, Unreachable
from network.drivers.redfish import Bmc
from tests.network.drivers.test_redfish import certificate, service, with_certificates
from tests.network.tls import self_signed

pytestmark = pytest.mark.clock


__all__ = ["certificate", "service", "with_certificates"]
SUBJECT = "C=DE,ST=Bavaria,L=Munich,O=Example,OU=BMC"
SIGN = "openssl x509 -req -in gpu001.csr -extfile gpu001.ext -CA ca.pem -CAkey ca.key -days 825 -out gpu001.pem"
"""As docs/network-boot.md has it."""


@pytest.fixture
def contact(with_certificates, tmp_path):
    """A BMC with its factory's password and a certificate of its own, and a site with another CA."""
    ca, key = self_signed(tmp_path)
    key.rename(tmp_path / "ca.key")
    own, factory = BmcCredentials("admin", "site-pw", ca), BmcCredentials("admin", "factory-pw", ca)

    def connect(credentials):
        return Bmc("127.0.0.1", credentials, 10, name="gpu001", serial="SN1", port=with_certificates.port)

    return Contact("gpu001", "127.0.0.1", ca, connect, own, factory, with_certificates.port)


def signed(folder, ca, csr, address="127.0.0.1"):
    """What the CA gives for a request, by the command of the documentation."""
    (folder / "ca.pem").write_bytes(ca.read_bytes())
    (folder / "gpu001.csr").write_text(csr)
    (folder / "gpu001.ext").write_text(extensions(address))
    subprocess.run(SIGN.split(), cwd=folder, check=True, capture_output=True, timeout=30)
    return (folder / "gpu001.pem").read_text()


def against(pem, csr, contact, now=None):
    return faults(
        pem.encode(), csr.encode(), contact.address, contact.ca.read_bytes(), now or datetime.datetime.now(datetime.UTC)
    )


def test_a_delivered_bmc_is_taken_over_and_answers_under_the_sites_ca(contact, with_certificates, tmp_path):
    assert not tls.verified(contact.address, contact.ca, contact.port)
    with pytest.raises(LoginRefused, match="bringup bmc requests"):
        contact.connect(contact.own).identity()
    asked = request(contact, subject_of(SUBJECT))
    assert with_certificates.passwords == {"admin": "site-pw"}
    pem = signed(tmp_path, contact.ca, asked.csr)
    assert against(pem, asked.csr, contact) == []
    install(contact, asked.pin, pem)
    assert tls.verified(contact.address, contact.ca, contact.port)
    assert contact.connect(contact.own).identity()["serial"] == "SN1"


def test_another_bmc_than_the_one_that_was_asked_gets_no_login(contact, with_certificates, tmp_path):
    asked = request(contact, subject_of(SUBJECT))
    before = list(with_certificates.writes)
    with pytest.raises(LoginRefused, match=f"expected the certificate with SHA-256 {'0' * 64}"):
        install(contact, "0" * 64, signed(tmp_path, contact.ca, asked.csr))
    assert with_certificates.writes == before


def test_what_the_ca_gave_is_compared_before_a_bmc_gets_it(contact, tmp_path):
    asked, again = request(contact, subject_of(SUBJECT)), request(contact, subject_of(SUBJECT))
    pem = signed(tmp_path, contact.ca, asked.csr)
    assert against(pem, again.csr, contact) == ["it has another key than the request"]
    assert against(signed(tmp_path, contact.ca, asked.csr, "127.0.0.9"), asked.csr, contact) == [
        "it names address 127.0.0.9, the BMC has 127.0.0.1"
    ]
    late = x509.load_pem_x509_certificate(pem.encode()).not_valid_after_utc
    (old,) = against(pem, asked.csr, contact, late)
    assert old.startswith("it is valid from ")
    other = tmp_path / "other"
    other.mkdir()
    ca, key = self_signed(other)
    key.rename(other / "ca.key")
    assert against(signed(other, ca, asked.csr), asked.csr, contact) == ["no chain leads from it to credentials.bmc.ca"]
    (unread,) = against("hello", asked.csr, contact)
    assert unread.startswith("it is no certificate in PEM")


def test_an_address_where_nothing_answers_is_named(contact, tmp_path):
    silent = Contact("gpu001", "127.0.0.1", contact.ca, contact.connect, contact.own, None, port=1)
    with pytest.raises(Unreachable, match="gpu001: look at its certificate"):
        request(silent, subject_of(SUBJECT))


@pytest.mark.parametrize("text", ["", "C=DE", f"{SUBJECT},CN=gpu001", "C=DE,C=DE,ST=B,L=M,O=E", "hello"])
def test_a_subject_that_lacks_a_part_or_has_another_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="subject|RFC|parse|attribute|^$"):
        subject_of(text)
