"""`bringup bmc`, with a Redfish service over TLS in place of a site's BMCs."""

import subprocess

import pytest

from infra import cli
from infra.cli import bmc
from infra.cli.common import CANNOT, OK
from infra.install.certificates import presented_pin
from tests.infra.install.test_certificates import SIGN, SUBJECT, certificate, contact, service, with_certificates
from tests.network.tls import self_signed

pytestmark = pytest.mark.clock


__all__ = ["certificate", "contact", "service", "with_certificates"]


@pytest.fixture
def calls(contact, monkeypatch, tmp_path):
    """The verbs of `bringup bmc` on this BMC, with a folder."""
    monkeypatch.setattr(bmc, "_contacts", lambda arguments: (lambda name: contact, ["gpu001"]))
    folder = tmp_path / "certificates"

    def call(verb, *more):
        return cli.main(["bmc", verb, "lab", "--dir", str(folder), *more])

    return call, folder


def sign(folder, contact):
    """What the CA does with the request in the folder."""
    for name, content in (("ca.pem", contact.ca), ("ca.key", contact.ca.with_name("ca.key"))):
        (folder / name).write_bytes(content.read_bytes())
    subprocess.run(SIGN.split(), cwd=folder, check=True, capture_output=True, timeout=30)


def test_requests_are_written_signed_by_hand_and_installed(calls, contact, capsys):
    call, folder = calls
    assert call("requests", "--subject", SUBJECT) == OK
    assert f"gpu001: wrote {folder}/gpu001.csr" in capsys.readouterr().out
    assert call("certificates") == OK
    assert f"left as it is: there is no {folder}/gpu001.pem" in capsys.readouterr().out
    sign(folder, contact)
    assert call("certificates") == OK
    assert "gpu001: answers under credentials.bmc.ca" in capsys.readouterr().out
    assert call("requests", "--subject", SUBJECT) == OK
    assert "answers under credentials.bmc.ca already" in capsys.readouterr().out
    assert call("requests", "--subject", SUBJECT, "--server", "gpu001") == OK
    assert f"gpu001: wrote {folder}/gpu001.csr" in capsys.readouterr().out


def test_a_bmc_that_has_its_certificate_is_left_alone_and_a_renewal_is_installed(
    calls, contact, with_certificates, capsys
):
    call, folder = calls
    call("requests", "--subject", SUBJECT)
    sign(folder, contact)
    assert call("certificates") == OK
    writes = list(with_certificates.writes)
    for more in ((), ("--server", "gpu001")):
        assert call("certificates", *more) == OK
        assert "gpu001: answers under credentials.bmc.ca already" in capsys.readouterr().out
    assert with_certificates.writes == writes
    before = presented_pin(contact)
    assert call("requests", "--subject", SUBJECT, "--server", "gpu001") == OK
    sign(folder, contact)
    assert call("certificates") == OK
    assert presented_pin(contact) != before
    assert "gpu001: answers under credentials.bmc.ca\n" in capsys.readouterr().out


def test_a_request_that_waits_for_the_ca_is_kept_while_the_bmc_has_the_certificate_that_it_was_made_under(
    calls, contact, with_certificates, capsys
):
    call, folder = calls
    call("requests", "--subject", SUBJECT)
    sign(folder, contact)
    writes = list(with_certificates.writes)
    assert call("requests", "--subject", SUBJECT) == OK
    assert f"gpu001: kept {folder}/gpu001.csr" in capsys.readouterr().out
    assert with_certificates.writes == writes
    assert call("certificates") == OK
    asked = (folder / "gpu001.csr").read_text()
    (folder / "gpu001.pin").write_text("0" * 64)
    contact.ca.write_bytes(self_signed(folder)[0].read_bytes())
    assert call("requests", "--subject", SUBJECT) == OK
    assert (folder / "gpu001.csr").read_text() != asked


def test_what_is_no_answer_to_the_request_is_named_and_not_installed(calls, with_certificates, capsys):
    call, folder = calls
    assert call("requests", "--subject", SUBJECT) == OK
    (folder / "gpu001.pem").write_text("hello")
    before = list(with_certificates.writes)
    assert call("certificates") == CANNOT
    assert "gpu001: install certificate: expected the answer to" in capsys.readouterr().err
    assert with_certificates.writes == before


def test_a_subject_without_a_country_asks_nobody(calls, with_certificates, capsys):
    call, _ = calls
    assert call("requests", "--subject", "O=Example") == CANNOT
    assert "a subject has each of C, ST, L, O, OU once" in capsys.readouterr().err
    assert with_certificates.writes == []


def test_a_server_that_is_not_planned_is_refused(capsys):
    assert cli.main(["bmc", "certificates", "lab", "--dir", "x", "--server", "gpu999"]) == CANNOT
    assert "lab has no server gpu999" in capsys.readouterr().err
