"""The chassis of a switch, read from a real SNMPv3 agent (snmpsim) with modelled answers."""

from pathlib import Path

import pytest

from network.drivers.errors import BadAnswer, DeviceTimeout
from network.drivers.switch_agent import CHASSIS, PHYSICAL_CLASS, SERIAL, SwitchAgent, software
from tests.network.drivers.test_pdu import USER, free_udp_port, running_agents

pytestmark = pytest.mark.clock

MODELLED = (Path(__file__).parents[2] / "data/modelled/switch/entity.snmprec").read_text()
CASES = {
    "modelled": MODELLED,
    "no entity mib": "".join(line for line in MODELLED.splitlines(keepends=True) if ".47.1" not in line),
    "two chassis": MODELLED.replace(f"{SERIAL}.1|", f"{PHYSICAL_CLASS}.1000|2|{CHASSIS}\n{SERIAL}.1|"),
    "no serial": "".join(line for line in MODELLED.splitlines(keepends=True) if not line.startswith(f"{SERIAL}.1|")),
    "many parts": f"{PHYSICAL_CLASS}.1|2|{CHASSIS}\n"
    + "".join(f"{PHYSICAL_CLASS}.{n}|2|10\n" for n in range(2, 1502))
    + f"{SERIAL}.1|4|MT2134X01234\n",
}


@pytest.fixture(scope="module")
def agents(tmp_path_factory):
    ports = {case: free_udp_port() for case in CASES}
    given = {ports[case]: ("apc-rpdu2", records) for case, records in CASES.items()}
    with running_agents(tmp_path_factory.mktemp("agents"), given):
        yield {case: SwitchAgent("127.0.0.1", USER, 10, name="leaf01", port=port) for case, port in ports.items()}


def test_the_serial_is_that_of_the_chassis_and_of_no_part(agents):
    said = {"sys_descr": "Example Systems SN-64 switch, software 5.1", "serial": "MT2134X01234", "model": "SN-64"}
    assert agents["modelled"].chassis() == said


def test_a_switch_of_many_parts_is_read_whole(agents):
    assert agents["many parts"].chassis()["serial"] == "MT2134X01234"


@pytest.mark.parametrize(("case", "seen"), [("no entity mib", "0 of 0 parts"), ("two chassis", "2 of 6 parts")])
def test_not_exactly_one_chassis_names_what_to_do(agents, case, seen):
    with pytest.raises(BadAnswer, match=f"leaf01: read chassis: expected one chassis.*{seen}.*ENTITY-MIB"):
        agents[case].chassis()


def test_an_agent_that_knows_no_serial_gives_none(agents):
    assert agents["no serial"].chassis()["serial"] == ""


def test_silence_speaks_of_a_switch():
    with pytest.raises(DeviceTimeout, match="check the switch's power"):
        SwitchAgent("127.0.0.1", USER, 0.2, name="leaf01", port=free_udp_port()).chassis()


@pytest.mark.parametrize(
    ("nos", "sys_descr", "version"),
    [
        ("cumulus", "Cumulus-Linux 5.3.0 (Linux Kernel UTC)", "5.3.0"),
        ("cumulus", "Cumulus Linux 3.7.10 (Linux Kernel 4.1.33-1+cl3u24)", "3.7.10"),
        ("eos", "Arista Networks EOS version 4.20.7M running on an Arista Networks vEOS", "4.20.7M"),
        (
            "sonic",
            "SONiC Software Version: SONiC.202311.1-8c08d87 - HwSku: ACS-SN5600 - Distribution: Debian 11.8 - Kernel: 5.10.0",
            "202311.1-8c08d87",
        ),
        ("cumulus", "Arista Networks EOS version 4.20.7M running on an Arista Networks vEOS", ""),
        ("eos", "Arista Networks EOS version 4.2", ""),  # cut short
    ],
)
def test_the_version_of_a_switch_is_in_the_words_of_its_system(nos, sys_descr, version):
    assert software(nos, sys_descr) == version
