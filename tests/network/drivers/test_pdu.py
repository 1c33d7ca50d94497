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
from network.drivers.pdu import DIALECTS, Pdu

pytestmark = pytest.mark.clock

RPDU2 = "1.3.6.1.4.1.318.1.1.26"
USER = SnmpCredentials("ops", "auth-passphrase", "priv-passphrase")
RECORDS = [
    ("1.3.6.1.2.1.1.1.0", "4", "SIMULATED test PDU"),
    ("1.3.6.1.2.1.1.2.0", "6", "1.3.6.1.4.1.318.1.3.4.6"),
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


APC = "".join(f"{'|'.join(row)}\n" for row in RECORDS)
MODULES = Path(__file__).with_name("snmp_variation")
MODELLED = {path.stem: path for path in sorted((Path(__file__).parents[2] / "data/modelled/pdu").glob("*.snmprec"))}

ONE_PHASE = """1.3.6.1.4.1.13742.6.3.3.3.1.5.1.1|2|2
1.3.6.1.4.1.13742.6.3.3.4.1.7.1.1.1|66|1
1.3.6.1.4.1.13742.6.3.3.4.1.7.1.1.4|66|0
1.3.6.1.4.1.13742.6.3.3.5.1.1.1.1.1|2|1
1.3.6.1.4.1.13742.6.3.3.5.1.1.1.1.2|2|4
1.3.6.1.4.1.13742.6.5.2.3.1.4.1.1.1|66|95
1.3.6.1.4.1.13742.6.5.2.3.1.4.1.1.4|66|230
"""
"""Inlet of a PX of one phase: two poles, L1 and neutral, and sensors of the inlet alone."""


@contextmanager
def running_agents(folder, agents, modules=MODULES):
    """Agents on 127.0.0.1 that answer: {port: (dialect, records)}; they end with the context."""
    responder = Path(sys.executable).with_name("snmpsim-command-responder")
    if not responder.exists():
        pytest.skip("needs snmpsim (uv sync --extra lab)")
    command = [
        str(responder),
        f"--cache-dir={folder / 'cache'}",
        f"--variation-modules-dir={modules}",
        "--process-user=root",
        "--process-group=root",
        "--logging-method=null",
    ]
    for port, (_, records) in agents.items():
        data = folder / str(port)
        data.mkdir(exist_ok=True)
        (data / ".snmprec").write_text(records)
        command += [
            "--v3-engine-id=auto",
            f"--v3-user={USER.user}",
            f"--v3-auth-key={USER.auth}",
            "--v3-auth-proto=SHA256",
            f"--v3-priv-key={USER.priv}",
            "--v3-priv-proto=AES128",
            f"--data-dir={data}",
            f"--agent-udpv4-endpoint=127.0.0.1:{port}",
        ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 30
            for port, (dialect, _) in agents.items():
                while True:
                    try:
                        Pdu("127.0.0.1", USER, 2, port=port, dialect=dialect).identity()
                        break
                    except BadAnswer:  # it answers, and is no PDU
                        break
                    except DeviceTimeout:
                        assert process.poll() is None, "snmpsim ended"
                        assert time.monotonic() < deadline, "snmpsim does not answer"
            yield
        finally:
            process.kill()


@contextmanager
def running_agent(folder, port):
    """One APC agent on 127.0.0.1 that answers; it ends with the context."""
    with running_agents(folder, {port: ("apc-rpdu2", APC)}):
        yield port


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
    assert time.monotonic() - began < 15


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


@pytest.fixture(scope="module")
def ports(tmp_path_factory):
    """{dialect: port} of running agents, one for each modelled dialect, and two small models of Raritan."""
    texts = {dialect: (dialect, path.read_text()) for dialect, path in MODELLED.items()}
    nameplate = ("1.3.6.1.2.1.1", "1.3.6.1.4.1.13742.6.3.2")
    rows = MODELLED["raritan-px"].read_text().splitlines(keepends=True)
    plain = "".join(row for row in rows if row.startswith(nameplate))
    texts |= {"bare": ("raritan-px", plain), "one phase": ("raritan-px", plain + ONE_PHASE)}
    agents = {free_udp_port(): text for text in texts.values()}
    with running_agents(tmp_path_factory.mktemp("dialects"), agents):
        yield dict(zip(texts, agents, strict=True))


@pytest.fixture(params=list(MODELLED))
def modelled(request, ports):
    return Pdu("127.0.0.1", USER, name="pdu-b", dialect=request.param, port=ports[request.param])


def test_every_dialect_has_every_object_its_document_and_its_maker():
    tables = {"identity": {"sys_descr", "sys_name", "name", "firmware", "model", "serial"}, "device": {"power"}}
    tables |= {"outlet": {"name", "state", "control", "amps", "watts"}, "state_values": {"on", "off"}}
    tables |= {"phase": {"amps", "volts", "watts", "near_overload_a", "overload_a"}, "control_values": {"on", "off"}}
    assert sorted(DIALECTS) == ["apc-rpdu2", "raritan-px", "sentry4"]
    for oids in DIALECTS.values():
        assert {table: keys - set(oids[table]) for table, keys in tables.items()} == {table: set() for table in tables}
        assert oids["document"]
        assert oids["sys_object_id"]


def test_an_unknown_dialect_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="pdu-b: no PDU dialect 'eaton'; there are apc-rpdu2, raritan-px, sentry4"):
        Pdu("127.0.0.1", USER, name="pdu-b", dialect="eaton")


def test_a_dialect_is_read_in_amperes_volts_and_watts(modelled):
    volts = {"raritan-px": 239, "sentry4": 239.4}[modelled.dialect]
    amps = {"raritan-px": (10.701, 10.702, 10.703), "sentry4": (10.71, 10.72, 10.73)}[modelled.dialect]
    assert modelled.power_w() == 7506
    assert [(p["phase"], p["amps"], p["volts"], p["watts"]) for p in modelled.phases()] == [
        (n, amps[n - 1], volts, 2500 + n) for n in (1, 2, 3)
    ]
    assert {(p["near_overload_a"], p["overload_a"]) for p in modelled.phases()} == {(48, 60)}
    outlets = [(o["number"], o["name"], o["on"], o["amps"], o["watts"]) for o in modelled.outlets()]
    assert outlets == [
        (1, "Outlet 1", True, 2.7, 620),
        (2, "Outlet 2", False, 0, 0),
        (3, "Outlet 3", True, 0, None),
    ]


def test_the_identity_of_a_dialect_has_serial_and_model(modelled):
    identity = modelled.identity()
    serial, model = {
        "raritan-px": ("QVJ4870001", "PX3-5902V"),
        "sentry4": ("ABCDB0000042", "C2WG36TE-YQME2M99"),
    }[modelled.dialect]
    assert (identity["serial"], identity["model"]) == (serial, model)


def test_outlet_label_and_alarm_of_a_dialect_are_written_and_read_back(modelled):
    for on in (False, True):
        modelled.set_outlet(1, on)
        assert modelled.outlets()[0]["on"] is on
    modelled.set_name(1, "gpu001 psu1")
    assert modelled.outlets()[0]["name"] == "gpu001 psu1"
    modelled.set_name(1, "Outlet 1")
    modelled.set_thresholds(2, 40, 50)
    assert [(p["near_overload_a"], p["overload_a"]) for p in modelled.phases()] == [(48, 60), (40, 50), (48, 60)]
    modelled.set_thresholds(2, 48, 60)


def test_thresholds_that_are_stored_and_not_compared_are_enabled(ports):
    pdu = Pdu("127.0.0.1", USER, name="pdu-b", dialect="raritan-px", port=ports["raritan-px"])
    pdu.set_thresholds(3, 48, 60)
    (enabled,) = pdu._run("read", pdu._get("read", ["1.3.6.1.4.1.13742.6.3.3.6.1.25.1.1.3.1"]))
    assert bytes(enabled) == b"\xb0"  # lowerCritical stays, upperWarning and upperCritical are added


def test_an_outlet_without_switching_is_named_and_refused_before_another_is_switched(modelled):
    assert modelled.lacks() == ["switching of outlets 3"]
    with pytest.raises(WriteRefused, match=r"expected outlets \[3\] that this PDU switches.* nothing was switched"):
        modelled.set_outlets({1: False, 3: False})
    assert modelled.outlets()[0]["on"]


def test_a_pdu_that_answers_as_another_dialect_is_refused_with_both(ports):
    pdu = Pdu("127.0.0.1", USER, name="pdu-b", dialect="raritan-px", port=ports["sentry4"])
    for call in (pdu.identity, pdu.outlets, lambda: pdu.set_outlet(1, False)):
        with pytest.raises(
            IdentityMismatch,
            match=r"speaks Raritan PX \(driver raritan-px .*saw Server Technology Sentry4 \(driver sentry4",
        ):
            call()


def test_a_model_that_meters_and_switches_nothing_is_read_and_named(ports):
    pdu = Pdu("127.0.0.1", USER, name="pdu-b", dialect="raritan-px", port=ports["bare"])
    assert (pdu.outlets(), pdu.phases(), pdu.power_w()) == ([], [], None)
    assert pdu.lacks() == ["outlets", "current of phases", "alarm currents of phases", "total power"]
    with pytest.raises(WriteRefused, match="expected alarm currents of this phase, saw none"):
        pdu.set_thresholds(1, 10, 20)


def test_a_model_of_one_phase_is_read_from_its_inlet(ports):
    phases = Pdu("127.0.0.1", USER, name="pdu-b", dialect="raritan-px", port=ports["one phase"]).phases()
    none = {"watts": None, "near_overload_a": None, "overload_a": None}
    assert phases == [{"phase": 1, "amps": 9.5, "volts": 230, **none}]
