"""Secret references resolve at the moment of use and never show a value."""

from pathlib import Path

import pytest

from inventory.secret_tables import Owner
from inventory.secrets import SecretError, for_devices, reference_path, resolve


def test_a_file_is_read_beside_the_site_without_its_line_end(tmp_path: Path) -> None:
    (tmp_path / "bmc").write_text("s3cret\n", encoding="utf-8")
    assert resolve("file:bmc", tmp_path).get_secret_value() == "s3cret"
    assert resolve(f"file:{tmp_path}/bmc", Path("/")).get_secret_value() == "s3cret"


def test_an_environment_variable_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BMC_PASSWORD", "s3cret")
    assert resolve("env:BMC_PASSWORD", tmp_path).get_secret_value() == "s3cret"


def test_the_value_is_hidden_in_every_printed_form(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BMC_PASSWORD", "s3cret")
    secret = resolve("env:BMC_PASSWORD", tmp_path)
    assert "s3cret" not in f"{secret} {secret!r} {[secret]}"


@pytest.mark.parametrize("reference", ["hunter2", "plain:hunter2", "file:", "env: "])
def test_what_is_no_reference_is_refused_without_showing_it(reference: str, tmp_path: Path) -> None:
    with pytest.raises(SecretError) as caught:
        resolve(reference, tmp_path)
    assert "hunter2" not in str(caught.value)


def test_a_missing_variable_file_or_empty_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    (tmp_path / "empty").touch()
    for reference, message in [
        ("env:NOT_SET", "NOT_SET is not set"),
        ("file:missing", "No such file"),
        ("file:empty", "is empty"),
    ]:
        with pytest.raises(SecretError, match=message):
            resolve(reference, tmp_path)


def fake_vault(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = folder / "vault"
    command.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_vault_is_asked_for_path_and_field(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_vault(tmp_path, 'echo "$@"', monkeypatch)
    assert resolve("vault:kv/bmc#password", tmp_path).get_secret_value() == "kv get -field=password kv/bmc"


def test_a_vault_that_refuses_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_vault(tmp_path, 'echo "permission denied" >&2; exit 2', monkeypatch)
    with pytest.raises(SecretError, match="exited 2: permission denied"):
        resolve("vault:kv/bmc#password", tmp_path)


def test_a_vault_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_vault(tmp_path, "exec sleep 30", monkeypatch)
    monkeypatch.setattr("inventory.secrets.VAULT_BUDGET_S", 0.2)
    with pytest.raises(SecretError, match=r"no answer from vault within 0\.2 s"):
        resolve("vault:kv/bmc#password", tmp_path)


def test_a_vault_reference_needs_a_field(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="PATH#FIELD"):
        resolve("vault:kv/bmc", tmp_path)


def test_only_file_references_have_a_path(tmp_path: Path) -> None:
    assert reference_path("file:keys/id", tmp_path) == tmp_path / "keys" / "id"
    with pytest.raises(SecretError, match="not a file"):
        reference_path("env:KEY", tmp_path)


def test_each_device_has_the_secret_that_its_name_or_serial_leads_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gpu001").write_text("of-the-file\n", encoding="utf-8")
    monkeypatch.setenv("BMC_gpu001", "of-the-variable")
    fake_vault(tmp_path, 'echo "$@"', monkeypatch)
    owner = Owner("gpu001", "S1")
    for reference, secret in [
        ("file:{device}", "of-the-file"),
        ("env:BMC_{device}", "of-the-variable"),
        ("vault:kv/bmc/{serial}#password", "kv get -field=password kv/bmc/S1"),
    ]:
        assert for_devices(reference, tmp_path)(owner).get_secret_value() == secret
        with pytest.raises(SecretError, match="each device has its own secret there"):
            resolve(reference, tmp_path)


def test_what_devices_share_is_read_once_and_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_vault(tmp_path, "echo asked >> $0.log; echo s3cret", monkeypatch)
    shared, own = for_devices("vault:kv/bmc#x", tmp_path), for_devices("vault:kv/{device}#x", tmp_path)
    for _ in range(2):
        assert shared(Owner("gpu001")) == shared(Owner("gpu002")) == own(Owner("gpu001"))
    assert (tmp_path / "vault.log").read_text().count("asked") == 2
    with pytest.raises(SecretError, match="No such file"):
        for_devices("file:missing", tmp_path)


@pytest.mark.parametrize("serial", ["../../etc/shadow", "a/b", ".hidden", "-field", "a b", "x\n", "#"])
def test_a_serial_leads_to_no_other_place(serial: str, tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="the serial of gpu001 has characters other than"):
        for_devices("file:secrets/{serial}", tmp_path)(Owner("gpu001", serial))


def test_a_device_without_serial_is_named(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match=r"gpu001 has no serial; add it to assets\.csv"):
        for_devices("file:{serial}", tmp_path)(Owner("gpu001"))


def test_a_table_is_read_beside_the_site(tmp_path: Path) -> None:
    (tmp_path / "bmc.csv").write_text("device,password\ngpu001,s3cret\n", encoding="utf-8")
    (tmp_path / "bmc.csv").chmod(0o600)
    found = for_devices("table:bmc.csv#password", tmp_path)
    assert found(Owner("gpu001")).get_secret_value() == "s3cret"
    with pytest.raises(SecretError, match="no row of device gpu002"):
        found(Owner("gpu002"))
    with pytest.raises(SecretError, match="expected table:PATH#COLUMN"):
        for_devices("table:bmc.csv", tmp_path)
