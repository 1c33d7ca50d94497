"""Accounts, time service and Python paths of the lab."""

import http.client
import json
import socket
import struct
import threading
from urllib.parse import urlsplit

import pytest

from capacity.build import build
from infra.lab import keys, workstation
from infra.lab.accounts import accepts, account, with_password
from infra.lab.paths import LabPaths
from infra.lab.planned import from_plan
from infra.lab.up import NODE_VENV, python_binds
from infra.lab.workstation import NTP_EPOCH_OFFSET_S, ntp_reply, timestamp
from inventory.catalog import load_catalog
from inventory.delivered.assets import load_assets
from inventory.site import load_site

pytestmark = pytest.mark.clock


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


NOTIFICATION = {"version": "4", "status": "firing", "receiver": "site", "alerts": []}


@pytest.fixture
def receiver(tmp_path, monkeypatch):
    """(port, secret path, file) of the alert receiver as site `lab` has it, but on the loopback. Notices have one beside it."""
    monkeypatch.setenv("BRINGUP_LAB_HOME", str(tmp_path))
    site = load_site("lab")
    spec = from_plan(site, build(site), load_assets(site), load_catalog())
    paths = LabPaths(spec.name)
    keys.write_all(spec, paths)
    url = urlsplit(paths.secret("alert_webhook"))
    paths.alerts.parent.mkdir()
    files = {url._replace(netloc="127.0.0.1:0").geturl(): paths.alerts, paths.secret("notices_webhook"): paths.notices}
    server = workstation.webhook_server(files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1], url.path, paths.alerts
    server.shutdown()
    server.server_close()


def post(port: int, path: str, body: bytes) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("POST", path, body)
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_alert_receiver_takes_only_who_knows_its_secret_path(receiver):
    port, path, file = receiver
    body = json.dumps(NOTIFICATION).encode()
    assert post(port, path, body) == 200
    assert [post(port, other, body) for other in ("/alerts", "/", path[:-1], f"{path}/")] == [404] * 4
    assert [post(port, path, wrong) for wrong in (b"", b"[]", b"no JSON")] == [400] * 3
    assert [json.loads(line)["receiver"] for line in file.read_text().splitlines()] == ["site"]


def test_notices_have_a_path_and_a_file_of_their_own(receiver):
    port, path, file = receiver
    own = urlsplit((file.parent.parent / "secrets" / "notices_webhook").read_text().strip()).path
    assert own != path
    assert post(port, own, b'{"event": "end"}') == 200
    assert json.loads(file.with_name("notices.jsonl").read_text())["event"] == "end"
    assert not file.exists()


def test_a_client_that_says_nothing_keeps_no_other_from_the_alert_receiver(receiver):
    port, path, file = receiver
    with socket.create_connection(("127.0.0.1", port)) as silent:
        silent.send(b"POST ")
        assert post(port, path, json.dumps(NOTIFICATION).encode()) == 200
    assert len(file.read_text().splitlines()) == 1
