"""The database of slurmdbd: SQL that survives any password, and a password that appears nowhere."""

import subprocess

import pytest

from tests.playbooks.support import load

module = load("library/bringup_mariadb.py")


@pytest.mark.parametrize(
    ("text", "literal"), [("plain", "'plain'"), ("it's", "'it''s'"), ("a\\", "'a\\\\'"), ("'; DROP", "'''; DROP'")]
)
def test_any_password_is_one_literal(text: str, literal: str):
    assert module.quoted(text) == literal


def test_names_are_quoted():
    assert "`odd``name`" in module.statements("odd`name", "slurm", "x")


def test_the_password_is_in_no_argument(monkeypatch):
    calls = []

    def run(argv, **options):
        calls.append((argv, options))
        return subprocess.CompletedProcess(argv, 0, stdout="", stderr="")

    monkeypatch.setattr(module.subprocess, "run", run)
    assert module.fits("slurm_acct_db", "slurm", "hidden")
    (argv, options), *_ = calls
    assert not any("hidden" in word for word in argv)
    assert options["env"]["MYSQL_PWD"] == "hidden"
    assert options["timeout"] == module.BUDGET_S


def test_a_database_that_hangs_is_an_error_within_the_budget(monkeypatch):
    def hang(argv, **_):
        raise subprocess.TimeoutExpired(argv, module.BUDGET_S)

    monkeypatch.setattr(module.subprocess, "run", hang)
    with pytest.raises(module.DatabaseError, match="did not answer within 30 s"):
        module.fits("slurm_acct_db", "slurm", "hidden")
