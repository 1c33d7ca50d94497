"""Every reader of what a device says, fuzzed: it gives typed data without control characters, or a DeviceError.

No other exception leaves a driver, and no answer takes unbounded time or memory. Recorded answers are mutated: a value of
another type, a missing key, a text that is cut short or holds escape sequences; besides, answers are made up.
"""

import asyncio
import copy
import io
import json
import socket
import threading
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pysnmp.proto import rfc1902, rfc1905

from network import discover
from network.drivers import answers
from network.drivers.answers import JSON_DEPTH, Source
from network.drivers.credentials import BmcCredentials, SnmpCredentials
from network.drivers.errors import DeviceError, DeviceTimeout, UnreadableAnswer
from network.drivers.pdu import DIALECTS, OIDS, Pdu
from network.drivers.redfish import BODY_BYTES, Bmc
from network.drivers.snmp import WALK_ROWS
from network.drivers.ssh import Completed, SshHost
from network.infiniband import parse
from network.infiniband.manager import ManagerHost
from network.nos.frr import driver as frr
from tests.hostile import controls, cut_and_pasted, lines_split, mutated, values
from tests.network.drivers import redfish_in_memory
from tests.network.drivers.test_redfish import RESOURCES, V1
from tests.network.infiniband.fabrics import recorded

pytestmark = pytest.mark.clock

SOURCE = Source("gpu001", "read")
LLDP = (Path(__file__).parent / "data" / "lldp" / "leaf2.txt").read_text()
STATES, NEIGHBOURS = LLDP.split("\n\n", 1)
FACTS = "hostname leaf01\nmgmt_mac 02:42:10:00:04:01\nversion 8.4.4\nport eth0 up 1500\nport swp1 up 9216\n"
BGP = {"ipv4Unicast": {"peers": {"swp1": {"state": "Established"}, "swp2": {"state": "Idle"}}}}
FUZZ = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


def read(call: Any) -> Any:
    """What a reader returns, None for a DeviceError; its text is one printable line."""
    refused, said = "", None
    try:
        said = call()
    except DeviceError as error:
        refused = str(error)
    assert refused.isprintable()
    assert len(refused) < 1500
    assert not controls(said)
    return said


# ---- the boundary itself ---------------------------------------------------------------------------------------------
@FUZZ
@given(values)
def test_any_json_becomes_clean_data_or_is_refused(value):
    read(lambda: answers.load(json.dumps(value), SOURCE))


@FUZZ
@given(st.binary(max_size=200))
def test_any_bytes_become_clean_data_or_are_refused(said):
    read(lambda: answers.load(said, SOURCE))
    assert not controls(answers.decoded(said))
    assert answers.line(said.decode("latin-1")).isprintable()


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def test_nesting_is_bounded():
    assert answers.load(nested(JSON_DEPTH), SOURCE)
    for levels in (JSON_DEPTH + 1, 100_000):
        with pytest.raises(UnreadableAnswer, match=f"gpu001: read: expected at most {JSON_DEPTH} levels of nesting"):
            answers.load(nested(levels), SOURCE)


def test_many_small_values_are_refused_before_they_take_memory():
    said = "[" + "[]," * 2_000_000 + "[]]"
    tracemalloc.start()
    with pytest.raises(UnreadableAnswer, match="expected at most 1000000 values"):
        answers.load(said, SOURCE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("said", ["NaN", "-Infinity", "1e999", "1" * 30, "1" * 5000, b"\xff\xfe", "", '{"a":'])
def test_numbers_that_are_none_and_broken_json_are_refused(said):
    with pytest.raises(UnreadableAnswer):
        answers.load(said, SOURCE)


# ---- LLDP and switches -----------------------------------------------------------------------------------------------
@FUZZ
@given(mutated(json.loads(NEIGHBOURS)))
def test_lldp_with_other_values(neighbours):
    assert not lines_split(read(lambda: discover.parse("leaf2", f"{STATES}\n\n{json.dumps(neighbours)}")))


@FUZZ
@given(st.one_of(cut_and_pasted(LLDP), st.text()))
def test_lldp_with_another_text(text):
    assert not lines_split(read(lambda: discover.parse("leaf2", text)))


@FUZZ
@given(st.one_of(cut_and_pasted(FACTS), st.text()), st.binary(max_size=100))
def test_facts_and_banner_of_a_switch(text, banner):
    read(lambda: vars(frr.parse_facts("leaf01", text, answers.decoded(banner))))


@FUZZ
@given(mutated(BGP))
def test_bgp_neighbours_with_other_values(summary):
    assert not lines_split(read(lambda: frr.parse_neighbours("leaf01", json.dumps(summary))))


# ---- SSH: banners and programs ---------------------------------------------------------------------------------------
class Shell(SshHost):
    """A host whose every command leaves this behind."""

    def __init__(self, out: str, err: str = "", status: int = 0) -> None:
        self.name, self.address, self.port, self.budget_s = "gpu001", "192.0.2.1", 22, 1.0
        self.credentials = SimpleNamespace(user="u", key="k", known_hosts="h")  # type: ignore[assignment]
        self.done = Completed(status, out, err, 0.1)

    def run(self, *_: Any, **__: Any) -> Completed:
        return self.done

    def _run(self, *_: Any) -> Completed:
        return self.done


@FUZZ
@given(st.text())
def test_a_banner_and_what_ssh_says_without_a_session(text):
    read(Shell("", text).banner)
    assert str(Shell("")._no_session("run true", text)).isprintable()


@FUZZ
@given(st.one_of(values.map(json.dumps), st.text()), st.text())
def test_what_a_program_prints(out, err):
    read(lambda: Shell(out, err).program("pass", {}))


# ---- SNMP ------------------------------------------------------------------------------------------------------------
snmp_values = st.one_of(
    st.binary(max_size=300).map(rfc1902.OctetString),
    st.integers(-(2**31), 2**31 - 1).map(rfc1902.Integer32),
    st.integers(0, 2**32 - 1).map(rfc1902.Gauge32),
    st.integers(0, 2**64 - 1).map(rfc1902.Counter64),
    st.just(rfc1902.IpAddress("192.0.2.1")),
    st.just(rfc1902.ObjectIdentifier("1.3.6.1")),
    st.just(rfc1902.Null("")),
    st.just(rfc1905.NoSuchInstance("")),
    st.just(rfc1905.endOfMibView),
)


@FUZZ
@given(
    st.sampled_from(sorted(DIALECTS)),
    st.lists(snmp_values, min_size=8, max_size=8),
    st.dictionaries(st.integers(-1, 2**31), snmp_values, max_size=4),
)
def test_snmp_values_of_any_type(dialect, scalars, rows):
    class Answering(Pdu):
        """Answers each question with the drawn values, without a network."""

        async def _ask(self, operation: str, oids: Any) -> list[Any]:
            return scalars[: len(oids)]

        async def _walk(self, operation: str, column: str) -> dict[int, Any]:
            return rows

    pdu = Answering("192.0.2.1", SnmpCredentials("u", "a", "p"), 1, name="pdu-r01-a", serial="S", dialect=dialect)
    writes = (lambda: pdu.set_outlets({1: True}), lambda: pdu.set_thresholds(1, 4, 5))
    for call in (pdu.identity, pdu.outlets, pdu.phases, pdu.power_w, pdu.lacks, *writes):
        assert not lines_split(read(call))


def test_an_agent_that_invents_rows_for_ever_is_stopped(monkeypatch):
    pdu = Pdu("192.0.2.1", SnmpCredentials("u", "a", "p"), 5, name="pdu-r01-a")
    pdu._dialect_compared = True
    sent = 0

    async def rows(*_: Any, **__: Any) -> Any:
        nonlocal sent
        while True:
            sent += 1
            yield None, 0, 0, [(f"{OIDS['outlet']['state']}.{sent}", rfc1902.Integer32(2))]
            await asyncio.sleep(0)

    async def session() -> tuple[Any, ...]:
        return ()

    monkeypatch.setattr("network.drivers.snmp.snmp.bulk_walk_cmd", rows)
    pdu._session = session  # type: ignore[method-assign]
    with pytest.raises(UnreadableAnswer, match=f"pdu-r01-a: read outlets: expected at most {WALK_ROWS} rows"):
        pdu.outlets()
    assert sent == WALK_ROWS + 1


@pytest.mark.parametrize("said", [b"", b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", b"\x1b[2J" * 300, bytes(range(256))])
def test_datagrams_that_are_no_snmp_are_no_answer(said):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.settimeout(5)

        def answer() -> None:
            for _ in range(2):
                try:
                    agent.sendto(said, agent.recvfrom(4096)[1])
                except OSError:
                    return

        threading.Thread(target=answer, daemon=True).start()
        pdu = Pdu("127.0.0.1", SnmpCredentials("u", "a" * 8, "p" * 8), 1, name="pdu-r01-a", port=agent.getsockname()[1])
        began = time.monotonic()
        with pytest.raises((DeviceTimeout, UnreadableAnswer), match="^pdu-r01-a: read identity: "):
            pdu.identity()
        assert time.monotonic() - began < 20


# ---- Redfish ---------------------------------------------------------------------------------------------------------
READS = (
    "identity",
    "state",
    "bios",
    "psus",
    "accounts",
    "sel",
    "firmware",
    "nics",
    "ntp",
    "protocols",
    "thermal",
    "roles",
    "media",
)


def bmc(budget_s: float = 5) -> Bmc:
    return Bmc("192.0.2.61", BmcCredentials("admin", "pw"), budget_s, name="gpu001", serial="SN1", uuid="U")


@FUZZ
@given(mutated(RESOURCES, most=4))
def test_redfish_resources_with_other_values(resources):
    served = resources if isinstance(resources, dict) else {"": resources}
    with pytest.MonkeyPatch.context() as patch:
        redfish_in_memory.serve(patch, {"192.0.2.61": served})
        one = bmc()
        for name in READS:
            read(getattr(one, name))
        read(lambda: one.set_ntp(["192.0.2.9"]))
        read(lambda: one.set_boot("Pxe"))
        for path in list(served)[:3]:
            read(lambda path=path: one.update_task(f"{V1}/{path}"))


DELL: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data/modelled/redfish/dell-idrac10.json").read_text())
TASKS = {
    "TaskService/Tasks/1": {
        "TaskState": "Running",
        "PercentComplete": 4,
        "Messages": [{"MessageId": "a", "Message": "b"}],
    }
}


@FUZZ
@given(mutated(DELL | TASKS, most=3))
def test_subsystems_and_tasks_with_other_values(resources):
    changed = resources if isinstance(resources, dict) else {}
    served = {
        path: {**RESOURCES.get(path, {}), **body} if isinstance(body, dict) else body for path, body in changed.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        redfish_in_memory.serve(patch, {"192.0.2.61": {**RESOURCES, **served}})
        one = bmc()
        read(one.psus)
        read(one.thermal)
        read(lambda: one.update_task(f"{V1}/TaskService/Tasks/1"))


@FUZZ
@given(st.sampled_from(sorted(RESOURCES)), st.one_of(st.binary(max_size=100), values.map(json.dumps).map(str.encode)))
def test_a_redfish_body_of_any_bytes(path, body):
    with pytest.MonkeyPatch.context() as patch:
        redfish_in_memory.serve(patch, {"192.0.2.61": {**RESOURCES, path: body}})
        one = bmc()
        for name in READS:
            read(getattr(one, name))


def identity_of(patch: pytest.MonkeyPatch, **system: Any) -> tuple[Any, list[str]]:
    resources = copy.deepcopy(RESOURCES)
    resources["Systems/1"] |= system
    asked = redfish_in_memory.serve(patch, {"192.0.2.61": resources, "203.0.113.9": RESOURCES})
    return bmc().identity(), asked


@pytest.mark.parametrize("value", [123456, True, ["SN1"], {"a": 1}, 1.5])
def test_a_serial_that_is_no_text_is_named(monkeypatch, value):
    with pytest.raises(UnreadableAnswer, match="^gpu001: read identity: expected text at serial, saw "):
        identity_of(monkeypatch, SerialNumber=value)


def test_null_is_a_value_that_the_bmc_does_not_tell(monkeypatch):
    assert identity_of(monkeypatch, SerialNumber=None)[0]["serial"] == ""


def test_control_characters_of_a_bmc_are_shown_as_escapes(monkeypatch):
    assert identity_of(monkeypatch, Model="H100\x1b[2J\nx")[0]["model"] == r"H100\x1b[2J\nx"


@pytest.mark.parametrize("body", [nested(100_000).encode(), b'"' + b"x" * BODY_BYTES + b'"'], ids=["deep", "long"])
def test_a_body_that_is_too_deep_or_too_long_is_refused(monkeypatch, body):
    redfish_in_memory.serve(monkeypatch, {"192.0.2.61": {**RESOURCES, "Systems/1": body}})
    with pytest.raises(UnreadableAnswer, match="^gpu001: read identity: expected at most "):
        bmc().identity()


class Drip(io.RawIOBase):
    """A body that comes byte by byte and never ends, until it is closed."""

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        time.sleep(0.02)
        into[:1] = b" "
        return 1


def test_a_body_that_never_ends_takes_no_longer_than_the_budget(monkeypatch):
    drip = Drip()
    redfish_in_memory.serve(monkeypatch, {"192.0.2.61": {**RESOURCES, "Systems/1": drip}})
    began = time.monotonic()
    with pytest.raises(DeviceTimeout, match="^gpu001: read identity: expected .*1 s"):
        bmc(budget_s=1).identity()
    drip.close()
    assert time.monotonic() - began < 20


def test_a_collection_whose_pages_lead_in_a_circle_ends(monkeypatch):
    resources = copy.deepcopy(RESOURCES)
    entries = "Systems/1/LogServices/SEL/Entries"
    resources[entries]["Members@odata.nextLink"] = f"{V1}/{entries}"
    asked = redfish_in_memory.serve(monkeypatch, {"192.0.2.61": resources})
    with pytest.raises(UnreadableAnswer, match="gpu001: read event log: expected another page"):
        bmc().sel()
    assert len(asked) < 30


@pytest.mark.parametrize("link", ["https://203.0.113.9/redfish/v1/Chassis", "http://192.0.2.61/x", "//203.0.113.9/x"])
def test_a_link_to_another_host_is_not_followed_with_our_login(monkeypatch, link):
    resources = {**RESOURCES, "Chassis": {"Members": [{"@odata.id": link}]}}
    asked = redfish_in_memory.serve(monkeypatch, {"192.0.2.61": resources, "203.0.113.9": RESOURCES})
    with pytest.raises(UnreadableAnswer, match="^gpu001: read power supplies: expected a (link to|Redfish resource)"):
        bmc().psus()
    assert {url.split("/")[2] for url in asked} == {"192.0.2.61:443"}


# ---- InfiniBand ------------------------------------------------------------------------------------------------------
PARSERS = {
    "ibnetdiscover.txt": lambda text: [frame.to_numpy().tolist() for frame in vars(parse.discovery(text)).values()],
    "sminfo-master.txt": parse.subnet_manager,
    "ibqueryerrors-symbol-errors.txt": parse.counters,
    "smpquery-pkeys.txt": parse.pkeys,
    "smpquery-sl2vl.txt": parse.lanes,
    "smpquery-vlarb.txt": parse.arbitration,
}


@pytest.mark.parametrize("name", PARSERS)
@settings(FUZZ, max_examples=15)
@given(data=st.data())
def test_output_of_infiniband_diags(name, data):
    text = data.draw(st.one_of(cut_and_pasted(recorded(name)), st.text()))

    def call() -> Any:
        with answers.reading(SOURCE, "what infiniband-diags print"):
            return PARSERS[name](text)

    assert not lines_split(read(call))


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("filler", ["\n", " ", '"', "[", "|", "0", "Switch\t1 "])
def test_a_megabyte_of_one_character_is_parsed_in_a_second(name, filler):
    text = recorded(name) + filler * ((1 << 20) // len(filler))
    began = time.process_time()
    with suppress(UnreadableAnswer), answers.reading(SOURCE, "what infiniband-diags print"):
        PARSERS[name](text)
    assert time.process_time() - began < 1


STATE = {
    "files": {"/etc/opensm/opensm.conf": "guid 0x1\n"},
    "newer": [],
    "unit": {"active": "active", "enabled": "enabled", "started_s": "1.5"},
    "packages": {"opensm": "3.3.23-2"},
    "ports": ["02420a0003008301"],
    "manager": {"own": recorded("sminfo-master.txt"), "master": recorded("sminfo-master.txt")},
    "engine": "ftree",
}


@FUZZ
@given(mutated(STATE))
def test_the_state_of_a_subnet_manager_with_other_values(state):
    host = ManagerHost("ctl01", "192.0.2.15", None)  # type: ignore[arg-type]
    host._ssh = Shell(json.dumps(state))
    read(host.read)
    read(host.fabric)


# ---- bounds of plain data --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("number", [-(1 << 63), 0, (1 << 64) - 1])
def test_numbers_of_64_bits_are_kept(number: int):
    assert answers.plain([number], SOURCE) == [number]
    assert answers.read(list[answers.Whole], [number], SOURCE) == [number]
    assert answers.read(list[answers.Number], [number], SOURCE) == [number]


@pytest.mark.parametrize("number", [-(1 << 63) - 1, 1 << 64])
def test_a_number_of_65_bits_is_refused(number: int):
    with pytest.raises(UnreadableAnswer, match="64 bits"):
        answers.plain({"counter": number}, SOURCE)
    for shape in (list[answers.Whole], list[answers.Number]):
        with pytest.raises(UnreadableAnswer):
            answers.read(shape, [number], SOURCE)


@pytest.mark.parametrize("keys", [("a\x1b", "a\\x1b"), ("k" * 300, "k" * 400)])
def test_two_keys_that_clean_to_one_are_refused(keys: tuple[str, str]):
    with pytest.raises(UnreadableAnswer, match="keys that differ"):
        answers.plain(dict.fromkeys(keys, 1), SOURCE)
    assert answers.plain({keys[0]: 1}, SOURCE) == {answers.line(keys[0]): 1}


def test_objects_of_a_job_are_found_among_other_lines_and_cleaned():
    said = b'srun: noise\n{"host": "gpu001\\u001b[2J"}\n[1]\n{"host": "gpu002"}\n'
    assert answers.objects(said, SOURCE) == [{"host": "gpu001\\x1b[2J"}, {"host": "gpu002"}]
    with pytest.raises(UnreadableAnswer):
        answers.objects(b'{"host": ', SOURCE)
