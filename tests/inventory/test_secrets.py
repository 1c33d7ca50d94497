"""Secret references resolve at the moment of use and never show a value."""

from pathlib import Path

import pytest

from inventory.secrets import SecretError, reference_path, resolve


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
