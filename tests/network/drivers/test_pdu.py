"""The PDU driver against a real SNMPv3 agent (snmpsim) with three outlets, and against what is no PDU at all."""

import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from network.drivers.credentials import SnmpCredentials
from network.drivers.errors import BadAnswer, DeviceTimeout, IdentityMismatch, LoginRefused, WriteRefused
from network.drivers.parallel import many
from network.drivers.pdu import Pdu

RPDU2 = "1.3.6.1.4.1.318.1.1.26"
USER = SnmpCredentials("ops", "auth-passphrase", "priv-passphrase")
RECORDS = [
    ("1.3.6.1.2.1.1.1.0", "4", "SIMULATED test PDU"),
    ("1.3.6.1.2.1.1.5.0", "4", "pdu"),
    (f"{RPDU2}.2.1.3.1", "4", "pdu-r01-a"),
    (f"{RPDU2}.2.1.6.1", "4", "7.1.4"),
    (f"{RPDU2}.2.1.8.1", "4", "AP8868"),
    (f"{RPDU2}.2.1.9.1", "4", "ZA1234"),
    (f"{RPDU2}.4.3.1.5.1", "2", "43"),
    (f"{RPDU2}.6.1.1.6.1", "2:relay", "near/1"),
    (f"{RPDU2}.6.1.1.7.1", "2:relay", "over/1"),
    (f"{RPDU2}.6.3.1.5.1", "2", "107"),
    (f"{RPDU2}.6.3.1.6.1", "2", "240"),
    (f"{RPDU2}.6.3.1.7.1", "2", "-1"),
    *((f"{RPDU2}.9.2.1.1.3.{n}", "4:relay", f"name/{n}") for n in (1, 2, 3)),
    *((f"{RPDU2}.9.2.3.1.5.{n}", "2:relay", f"state/{n}") for n in (1, 2, 3)),
    *((f"{RPDU2}.9.2.4.1.5.{n}", "2:relay", f"control/{n}") for n in (1, 2, 3)),
    *((f"{RPDU2}.9.4.3.1.6.{n}", "2", "27") for n in (1, 2)),
    *((f"{RPDU2}.9.4.3.1.7.{n}", "2", "620") for n in (1, 2)),
]


def free_udp_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextmanager
def running_agent(folder, port):
    """An agent on 127.0.0.1 that answers; it ends with the context."""
    responder = Path(sys.executable).with_name("snmpsim-command-responder")
    if not responder.exists():
        pytest.skip("needs snmpsim (uv sync --extra lab)")
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / ".snmprec").write_text("".join(f"{'|'.join(row)}\n" for row in RECORDS))
    command = [
        str(responder),
        "--v3-engine-id=auto",
        f"--v3-user={USER.user}",
        f"--v3-auth-key={USER.auth}",
        "--v3-auth-proto=SHA256",
        f"--v3-priv-key={USER.priv}",
        "--v3-priv-proto=AES128",
        f"--data-dir={folder / 'data'}",
        f"--cache-dir={folder / 'cache'}",
        f"--agent-udpv4-endpoint=127.0.0.1:{port}",
        f"--variation-modules-dir={Path(__file__).with_name('snmp_variation')}",
        "--process-user=root",
        "--process-group=root",
        "--logging-method=null",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 30
            while True:
                try:
                    Pdu("127.0.0.1", USER, 2, port=port).identity()
                    break
                except DeviceTimeout:
                    assert process.poll() is None, "snmpsim ended"
                    assert time.monotonic() < deadline, "snmpsim does not answer"
            yield port
        finally:
            process.kill()


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    """Port of a running agent."""
    with running_agent(tmp_path_factory.mktemp("snmp"), free_udp_port()) as port:
        yield port


@pytest.fixture
def pdu(agent):
    return Pdu("127.0.0.1", USER, name="pdu-r01-a", serial="ZA1234", port=agent)


def test_identity_comes_from_the_device(pdu):
    assert pdu.identity() == {
        "sys_descr": "SIMULATED test PDU",
        "sys_name": "pdu",
        "name": "pdu-r01-a",
        "firmware": "7.1.4",
        "model": "AP8868",
        "serial": "ZA1234",
    }


def test_readings_are_scaled_and_what_is_not_metered_is_none(pdu):
    assert pdu.power_w() == 430
    assert pdu.phases() == [
        {"phase": 1, "amps": 10.7, "volts": 240, "watts": None, "near_overload_a": 48, "overload_a": 60}
    ]
    outlets = {o["number"]: o for o in pdu.outlets()}
    assert outlets[1] == {"number": 1, "name": "Outlet 1", "on": True, "amps": 2.7, "watts": 620}
    assert (outlets[3]["amps"], outlets[3]["watts"]) == (None, None)


def test_an_outlet_is_switched_and_read_back(pdu):
    for on in (True, False):
        pdu.set_outlet(2, on)
        assert {o["number"]: o["on"] for o in pdu.outlets()}[2] is on


def test_a_label_is_written_and_read_back(pdu):
    pdu.set_name(1, "gpu001")
    assert pdu.outlets()[0]["name"] == "gpu001"
    pdu.set_name(1, "Outlet 1")


def test_a_label_that_the_pdu_cuts_is_refused_with_what_stands_there(pdu):
    with pytest.raises(WriteRefused, match=r"pdu-r01-a: label outlets: .*'gpu001 psu 1', saw 1 'gpu001 psu'"):
        pdu.set_name(1, "gpu001 psu 1")
    pdu.set_name(1, "Outlet 1")


def test_thresholds_are_written_and_read_back(pdu):
    pdu.set_thresholds(1, 40, 50)
    assert (pdu.phases()[0]["near_overload_a"], pdu.phases()[0]["overload_a"]) == (40, 50)
    pdu.set_thresholds(1, 48, 60)


def test_a_relay_that_does_not_move_is_named(agent):
    pdu = Pdu("127.0.0.1", USER, 2, name="pdu-r01-a", port=agent)
    with pytest.raises(WriteRefused, match="pdu-r01-a: switch outlets: expected outlet 3 off, saw outlet 3 on"):
        pdu.set_outlet(3, False)


def test_an_outlet_that_does_not_exist_is_refused_before_any_is_switched(pdu):
    with pytest.raises(WriteRefused, match=r"expected outlets \[9\], saw outlets 1 to 3"):
        pdu.set_outlets({1: False, 9: False})
    assert pdu.outlets()[0]["on"]


def test_another_serial_than_planned_is_never_written_to(agent):
    pdu = Pdu("127.0.0.1", USER, name="pdu-r01-a", serial="ZA9999", port=agent)
    for write in (lambda: pdu.set_outlet(1, False), lambda: pdu.set_name(1, "x"), lambda: pdu.set_thresholds(1, 1, 2)):
        with pytest.raises(IdentityMismatch, match="expected serial ZA9999, saw serial ZA1234"):
            write()
    assert pdu.outlets()[0]["on"]
    assert pdu.phases()[0]["near_overload_a"] == 48


@pytest.mark.parametrize(
    "user",
    [
        SnmpCredentials("nobody", USER.auth, USER.priv),
        SnmpCredentials(USER.user, "wrong-passphrase", USER.priv),
        SnmpCredentials(USER.user, USER.auth, USER.priv, auth_protocol="SHA512"),
    ],
    ids=["unknown user", "wrong passphrase", "other protocol"],
)
def test_refused_credentials_name_the_user_and_no_secret(agent, user):
    with pytest.raises(LoginRefused, match=f"expected SNMPv3 user {user.user} accepted") as refused:
        Pdu("127.0.0.1", user, 6, name="pdu-r01-a", port=agent).identity()
    assert user.auth not in str(refused.value)
    assert user.priv not in str(refused.value)


def test_a_pdu_that_does_not_answer_is_named_within_the_budget():
    began = time.monotonic()
    with pytest.raises(DeviceTimeout, match="^pdu-r01-a: read outlets: "):
        Pdu("127.0.0.1", USER, 1.0, name="pdu-r01-a", port=free_udp_port()).outlets()
    assert time.monotonic() - began < 3


def test_garbage_on_the_port_ends_within_the_budget():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        s.settimeout(3)

        def answer():
            try:
                _, peer = s.recvfrom(65535)
                s.sendto(b"\x30\x82\xff\xff garbage", peer)
            except TimeoutError:
                return

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises((DeviceTimeout, BadAnswer), match="^pdu-x: "):
            Pdu("127.0.0.1", USER, 1.0, name="pdu-x", port=s.getsockname()[1]).identity()
        thread.join()


def test_one_dead_pdu_among_many_stops_no_other(agent):
    pdus = [
        Pdu("127.0.0.1", USER, name="alive", port=agent),
        Pdu("127.0.0.1", USER, 1, name="dead", port=free_udp_port()),
    ]
    answers = many(pdus, Pdu.power_w)
    assert answers["alive"] == 430
    assert isinstance(answers["dead"], DeviceTimeout)


def test_an_agent_that_starts_again_is_understood_again(tmp_path):
    port = free_udp_port()
    for _ in range(2):
        with running_agent(tmp_path, port):
            time.sleep(1.2)  # the second agent's clock must stand before the first one's for this to be a test
