"""What the PKI module makes once, makes anew and leaves alone, with the openssl of this machine."""

import copy
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.playbooks.support import load

module = load("library/bringup_pki.py")

KUBELET = {
    "host": "gpu001",
    "name": "kubelet",
    "authority": "ca",
    "user": "system:node:gpu001",
    "groups": ["system:nodes"],
    "addresses": ["10.79.1.11", "gpu001"],
    "usages": ["server", "client"],
}


@pytest.fixture
def wanted(tmp_path: Path) -> dict[str, Any]:
    return {
        "folder": str(tmp_path / "pki"),
        "organisation": "lab Kubernetes",
        "authorities": ["ca", "etcd-ca"],
        "authority_days": 3650,
        "days": 365,
        "renew_days": 90,
        "secrets": {"tokens.key": "rsa", "encryption.key": "random"},
        "certificates": [copy.deepcopy(KUBELET)],
    }


def certificate(answer: dict[str, Any]) -> x509.Certificate:
    return x509.load_pem_x509_certificate(answer["certificates"]["gpu001"]["kubelet"].encode())


def test_a_second_run_makes_nothing_and_says_the_same(wanted: dict[str, Any]) -> None:
    first = module.settle(wanted, check=False)
    second = module.settle(wanted, check=False)
    assert len(first["made"]) == 5
    assert second["made"] == []
    assert {**first, "made": []} == second


def test_the_certificate_says_what_was_asked_and_is_signed_by_its_authority(wanted: dict[str, Any]) -> None:
    answer = module.settle(wanted, check=False)
    made = certificate(answer)
    names = {NameOID.COMMON_NAME: "system:node:gpu001", NameOID.ORGANIZATION_NAME: "system:nodes"}
    assert {oid: made.subject.get_attributes_for_oid(oid)[0].value for oid in names} == names
    alternative = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert alternative.get_values_for_type(x509.DNSName) == ["gpu001"]
    assert [str(one) for one in alternative.get_values_for_type(x509.IPAddress)] == ["10.79.1.11"]
    used = set(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    assert used == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    authority = x509.load_pem_x509_certificate(answer["authorities"]["ca"].encode())
    made.verify_directly_issued_by(authority)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is True


def test_key_and_certificate_are_one_file_that_root_alone_reads(wanted: dict[str, Any]) -> None:
    answer = module.settle(wanted, check=False)
    path = Path(wanted["folder"], "gpu001", "kubelet.pem")
    text = answer["certificates"]["gpu001"]["kubelet"]
    assert path.read_text() == text
    key = load_pem_private_key(text[text.index("-----BEGIN PRIVATE") :].encode(), None)
    assert key.public_key() == certificate(answer).public_key()
    folder = Path(wanted["folder"])
    assert {stat.S_IMODE(one.stat().st_mode) for one in folder.rglob("*") if one.is_file()} == {0o600}
    assert {stat.S_IMODE(one.stat().st_mode) for one in (folder, *folder.rglob("*")) if one.is_dir()} == {0o700}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("user", "system:node:gpu002"),
        ("groups", ["system:masters"]),
        ("addresses", ["10.79.1.12"]),
        ("usages", ["client"]),
        ("authority", "etcd-ca"),
    ],
)
def test_a_certificate_that_was_asked_otherwise_is_made_anew(wanted: dict[str, Any], key: str, value: Any) -> None:
    before = certificate(module.settle(wanted, check=False))
    wanted["certificates"][0][key] = value
    answer = module.settle(wanted, check=False)
    assert answer["made"] == ["certificate gpu001/kubelet"]
    assert certificate(answer).public_key() != before.public_key()
    assert module.settle(wanted, check=False)["made"] == []


def test_a_certificate_is_renewed_before_its_end_and_authority_and_secrets_stay(wanted: dict[str, Any]) -> None:
    wanted["days"] = 91
    before = module.settle(wanted, check=False)
    assert module.settle(wanted, check=False)["made"] == []
    wanted |= {"days": 365, "renew_days": 92}
    after = module.settle(wanted, check=False)
    assert after["made"] == ["certificate gpu001/kubelet"]
    assert certificate(after).not_valid_after_utc > certificate(before).not_valid_after_utc
    for kept in ("authorities", "authority_keys", "secrets"):
        assert after[kept] == before[kept]


def test_a_certificate_of_an_earlier_authority_is_made_anew(wanted: dict[str, Any]) -> None:
    module.settle(wanted, check=False)
    Path(wanted["folder"], "ca.crt").unlink()
    answer = module.settle(wanted, check=False)
    assert answer["made"] == ["authority ca", "certificate gpu001/kubelet"]
    certificate(answer).verify_directly_issued_by(x509.load_pem_x509_certificate(answer["authorities"]["ca"].encode()))


def test_an_authority_whose_making_was_stopped_is_made_again(
    wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is written first: without its certificate there is no authority."""
    whole = module.openssl

    def stopped(*words: str, given: str = "") -> str:
        if words[0] == "req":
            raise module.PkiError("stopped")
        return str(whole(*words, given=given))

    monkeypatch.setattr(module, "openssl", stopped)
    with pytest.raises(module.PkiError, match="stopped"):
        module.settle(wanted, check=False)
    monkeypatch.setattr(module, "openssl", whole)
    assert "authority ca" in module.settle(wanted, check=False)["made"]


def test_check_mode_foretells_and_writes_nothing(wanted: dict[str, Any]) -> None:
    foretold = module.settle(wanted, check=True)["made"]
    assert not Path(wanted["folder"]).exists()
    assert module.settle(wanted, check=False)["made"] == foretold


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("host", "../etc"),
        ("name", "a/b"),
        ("user", "x/CN=root"),
        ("groups", ["a\nb"]),
        ("addresses", ["a,DNS:b"]),
        ("authority", "of-nobody"),
        ("usages", ["anything"]),
    ],
)
def test_a_name_that_would_be_read_as_something_else_is_refused(wanted: dict[str, Any], where: str, text: Any) -> None:
    wanted["certificates"][0][where] = text
    with pytest.raises(module.PkiError):
        module.settle(wanted, check=False)
    assert not Path(wanted["folder"]).exists()
