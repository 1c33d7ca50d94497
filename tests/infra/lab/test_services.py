"""Accounts, time service and Python paths of the lab."""

import struct

import pytest

from infra.lab.accounts import accepts, account, with_password
from infra.lab.lab import NODE_VENV, python_binds
from infra.lab.workstation import NTP_EPOCH_OFFSET_S, ntp_reply, timestamp


def test_an_account_accepts_its_password_only():
    known = {"1": account("admin", "first-password")}
    assert accepts(known, "admin", "first-password")
    assert not accepts(known, "admin", "other")
    assert not accepts(known, "root", "first-password")


def test_a_changed_password_closes_the_old_one():
    known = {"1": with_password(account("admin", "factory-word"), "site-password")}
    assert accepts(known, "admin", "site-password")
    assert not accepts(known, "admin", "factory-word")


def test_a_disabled_account_is_refused():
    assert not accepts({"1": {**account("admin", "password"), "enabled": False}}, "admin", "password")


def test_an_account_does_not_hold_its_password():
    assert "first-password" not in repr(account("admin", "first-password"))


def test_ntp_reply_returns_the_clients_timestamp_and_the_servers_time():
    request = bytes([0x23, 0, 6, 0xEC]) + bytes(36) + timestamp(1000.5)
    reply = ntp_reply(request, received=2000.25, sent=2000.5)
    assert len(reply) == 48
    assert reply[0] == 0x24  # version 4, mode 4 (server), no leap warning
    assert reply[24:32] == timestamp(1000.5)
    seconds, fraction = struct.unpack("!II", reply[40:48])
    assert seconds - NTP_EPOCH_OFFSET_S + fraction / 2**32 == 2000.5


def test_a_short_ntp_request_is_refused():
    with pytest.raises(ValueError, match="48 bytes or more, not 12"):
        ntp_reply(bytes(12), 0.0, 0.0)


def test_an_interpreter_outside_usr_travels_with_its_environment(tmp_path):
    home = tmp_path / "python3"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python3").touch()
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").touch()
    (venv / "bin" / "python").symlink_to(home / "bin" / "python3")
    assert python_binds(venv) == [f"{venv}:{NODE_VENV}", str(home)]


def test_a_folder_that_is_no_environment_is_not_bound(tmp_path):
    assert python_binds(tmp_path) == []
