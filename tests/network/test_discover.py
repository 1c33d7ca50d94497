"""LLDP answers as switches give them, whole and cut short."""

import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from network import compare, discover
from network.drivers.credentials import SshCredentials
from network.drivers.errors import BadAnswer
from network.drivers.ssh import Completed, SshHost

RECORDED = (Path(__file__).parent / "data" / "lldp" / "leaf2.txt").read_text()


def test_a_recorded_answer_gives_every_port_with_its_neighbour():
    ports = discover.parse("leaf2", RECORDED)
    assert {name: (p["far"], p["far_port"]) for name, p in ports.items() if p["far"]} == {
        "swp1": ("spine1", "swp2"),
        "swp2": ("spine2", "swp2"),
        "swp3": ("host1", "eth2"),
        "swp4": ("host2", "eth2"),
    }
    assert ports["swp1"]["state"] == "up"
    assert ports["swp1"]["ttl_s"] == 3
    assert ports["eth0"] == {"state": "up", "far": "", "far_port": "", "age_s": 0, "ttl_s": 0}


def test_the_script_starts_no_program_for_a_port_and_a_file_without_state_has_none(tmp_path):
    (tmp_path / "swp1").mkdir()
    (tmp_path / "swp1" / "operstate").write_text("up\n")
    (tmp_path / "bonding_masters").touch()
    (tmp_path / "lldpcli").write_text('#!/bin/sh\necho "{\\"lldp\\": [{}]}"\n')
    (tmp_path / "lldpcli").chmod(0o755)
    script = discover.SCRIPT.replace("/sys/class/net", str(tmp_path)).replace("/usr/sbin", str(tmp_path))
    done = subprocess.run(
        ["/bin/sh"], input=script, capture_output=True, text=True, timeout=20, env={"PATH": "/nowhere"}, check=True
    )
    ports = discover.parse("leaf1", done.stdout)
    assert {name: ports[name]["state"] for name in ("swp1", "bonding_masters")} == {"swp1": "up", "bonding_masters": ""}


def test_of_two_neighbours_on_a_port_the_later_one_counts():
    ages = iter(["0 day, 00:01:00", "1 day, 00:00:00"])
    entry = (
        '{{"name": "swp1", "age": "{}", "chassis": [{{"name": [{{"value": "{}"}}]}}],'
        ' "port": [{{"id": [{{"value": "swp1"}}], "ttl": [{{"value": "120"}}]}}]}}'
    )
    both = ", ".join(entry.format(next(ages), name) for name in ("new", "old"))
    ports = discover.parse("leaf1", f'swp1 up\n\n{{"lldp": [{{"interface": [{both}]}}]}}')
    assert (ports["swp1"]["far"], ports["swp1"]["age_s"]) == ("new", 60)


def test_a_device_without_neighbours_has_ports_without_a_far_end():
    assert discover.parse("leaf1", 'swp1 down\n\n{"lldp": [{}]}')["swp1"]["state"] == "down"


def test_an_lldpd_that_does_not_answer_is_named_with_what_lldpcli_said(monkeypatch):
    said = "unable to connect to socket /run/lldpd.socket\n"
    monkeypatch.setattr(SshHost, "run", lambda *_, **__: Completed(1, "swp1 up\n\n", said, 0.1))
    with pytest.raises(
        BadAnswer, match=r"^leaf1: read LLDP neighbours: .*exit status 1: unable .*; check that lldpd runs"
    ):
        discover.lldp(SshHost("leaf1", "10.0.0.1", SshCredentials("ops", Path("key"), Path("known_hosts")), 5))


@pytest.mark.parametrize("length", [0, 3, 40, 400, len(RECORDED) - 3])
def test_an_answer_cut_short_names_the_device(length):
    with pytest.raises(BadAnswer, match=re.compile("^leaf2: read LLDP neighbours: expected ")):
        discover.parse("leaf2", RECORDED[:length])


@pytest.mark.parametrize("text", ["", "\x00\xff garbage", "swp1 up\n\n[]", 'swp1 up\n\n{"lldp": {"interface": {}}}'])
def test_garbage_names_the_device(text):
    with pytest.raises(BadAnswer, match="^leaf2: "):
        discover.parse("leaf2", text)


# ---- names of neighbours (tests/data/modelled/lldp) ------------------------------------------------------------------
MODELLED = Path(__file__).parents[1] / "data" / "modelled" / "lldp"


def test_what_a_host_says_goes_before_the_firmware_of_its_network_card():
    ports = discover.parse("leaf01", (MODELLED / "firmware-beside-lldpd.txt").read_text())
    assert (ports["swp3"]["far"], ports["swp3"]["far_port"]) == ("gpu001.hall.example.com", "94:6d:ae:01:02:03")
    assert ports["swp3"]["far_port_also"] == "eth1"
    assert (ports["swp4"]["far"], ports["swp4"]["far_port"]) == ("94:6d:ae:0a:0b:0c", "94:6d:ae:0a:0b:0c")


def test_domains_macs_and_aliases_of_ports_are_the_plans_devices_and_ports():
    ports = discover.parse("leaf01", (MODELLED / "firmware-beside-lldpd.txt").read_text())
    rows = [
        ("inband", "node-leaf", "gpu001", "eth1", "leaf01", "swp3"),
        ("inband", "leaf-spine", "leaf01", "swp1", "spine01", "swp1"),
    ]
    columns = ["fabric", "stage", "a_device", "a_port", "b_device", "b_port"]
    found = compare.topology(pd.DataFrame(rows, columns=columns), {"leaf01": ports})
    assert [(one.id, one.ports) for one in found] == [("TOPOLOGY-FOREIGN", ("leaf01:swp4",))]
