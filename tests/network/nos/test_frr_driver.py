"""The pure half of the FRR driver: answers of a switch, whole and broken, and what must never be pushed away."""

import getpass
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from network import nos
from network.drivers.credentials import SshCredentials
from network.drivers.errors import BadAnswer, IdentityMismatch, PushRefused, PushRolledBack, Unreachable, WriteRefused
from network.nos.choose import driver
from network.nos.frr.driver import ON_DEVICE, Switch, parse_diff, parse_facts, parse_neighbours, with_management
from tests.network.sshd import serving

pytestmark = pytest.mark.clock

RELOAD_TEST = """
Lines To Delete
===============
interface swp1
 no description hand made

Lines To Add
============
interface swp1
 description spine1 swp1
ip route 172.16.0.7/32 172.18.0.1
router bgp 65101
router bgp 65101
 bgp router-id 172.16.0.3
router bgp 65101
 address-family ipv4 unicast
router bgp 65101
 address-family ipv4 unicast
  network 172.16.0.3/32\x20
"""


def test_a_difference_is_one_line_each_with_its_section():
    assert parse_diff(RELOAD_TEST).splitlines() == [
        "- interface swp1 / no description hand made",
        "+ interface swp1 / description spine1 swp1",
        "+ ip route 172.16.0.7/32 172.18.0.1",
        "+ router bgp 65101 / bgp router-id 172.16.0.3",
        "+ router bgp 65101 / address-family ipv4 unicast / network 172.16.0.3/32",
    ]


def test_no_difference_is_an_empty_text():
    assert parse_diff("\n") == ""


def test_the_lines_of_the_management_port_are_carried_over():
    running = (
        "hostname leaf1\n!\nip route 0.0.0.0/0 10.0.0.1 eth0\nip route 10.1.0.0/24 10.2.0.1\n"
        "interface eth0\n ip address 10.0.0.9/24\nexit\n!\ninterface swp1\n description old\nexit\n!\n"
    )
    assert with_management("hostname leaf1\n", running, "eth0") == (
        "hostname leaf1\nip route 0.0.0.0/0 10.0.0.1 eth0\ninterface eth0\n ip address 10.0.0.9/24\nexit\n"
    )


def test_without_lines_about_the_management_port_the_configuration_stays_as_it_is():
    running = "interface eth01\n description x\nexit\n"
    assert with_management("hostname leaf1\n", running, "eth0") == "hostname leaf1\n"


FACTS = "hostname leaf1\nmgmt_mac 02:42:10:00:03:01\nversion 8.4.4\nport eth0 up 1500\nport swp1 down 9216\n"


def test_facts_are_read():
    facts = parse_facts("leaf1", FACTS, "SIMULATED")
    assert (facts.hostname, facts.mgmt_mac, facts.version, facts.banner) == (
        "leaf1",
        "02:42:10:00:03:01",
        "8.4.4",
        "SIMULATED",
    )
    assert facts.ports == {"eth0": ("up", 1500), "swp1": ("down", 9216)}


@pytest.mark.parametrize("text", ["", FACTS[:20], FACTS.replace("9216", ""), "port swp1 up many\n"])
def test_facts_cut_short_name_the_switch(text):
    with pytest.raises(BadAnswer, match="^leaf1: read facts"):
        parse_facts("leaf1", text)


def test_neighbours_are_read_and_a_switch_without_bgp_has_none():
    text = '{"ipv4Unicast": {"peers": {"swp1": {"state": "Established"}, "swp2": {"state": "Idle"}}}}'
    assert parse_neighbours("leaf1", text) == {"swp1": "Established", "swp2": "Idle"}
    assert parse_neighbours("leaf1", "{}") == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"ipv4Unicast": {"peers": {"swp1": {}}}}', "% BGP instance not found"])
def test_neighbours_that_are_no_json_of_frr_name_the_switch(text):
    with pytest.raises(BadAnswer, match="^leaf1: read BGP neighbours"):
        parse_neighbours("leaf1", text)


def test_every_network_os_folder_is_complete():
    for name in ("frr",):
        assert {path.name for path in nos.folder(name).iterdir()} >= {"template.j2", "driver.py", "capabilities.yaml"}
        assert driver(name) is Switch


class Channel:
    """What paramiko's exec_command returns for a command that ends like this."""

    def __init__(self, status, out=b"", err=b""):
        self.status, self.texts = status, (out, err)
        self.channel = self

    def exec_command(self, command, timeout):
        return self, Stream(self, self.texts[0]), Stream(self, self.texts[1])

    def write(self, data):
        """Standard input is not looked at."""

    def shutdown_write(self):
        """Standard input ends."""

    def recv_exit_status(self):
        return self.status


class Stream:
    def __init__(self, channel, text):
        self.channel, self.text = channel, text

    def read(self, size=-1):
        return self.text


def connected(channel):
    switch = Switch("leaf01", "192.0.2.1", SshCredentials("netops", Path("key"), Path("known_hosts")))
    switch._connection = SimpleNamespace(remote_conn_pre=channel)
    return switch


def test_a_connection_that_closes_during_a_command_is_unreachable():
    with pytest.raises(Unreachable, match="^leaf01: running: .*the connection closed"):
        connected(Channel(-1)).get()


def test_a_verb_that_fails_gives_its_complaint():
    with pytest.raises(
        BadAnswer, match="^leaf01: running: expected exit status 0, saw 91: another push holds the lock"
    ):
        connected(Channel(91, err=b"another push holds the lock")).get()


def test_a_timer_that_was_faster_than_the_confirmation_is_a_rollback():
    with pytest.raises(PushRolledBack, match="^leaf01: confirm configuration: .*rollback timer ran out first"):
        connected(Channel(95)).confirm()


def test_lines_that_vtysh_refuses_with_exit_status_0_are_refused(monkeypatch):
    """vtysh 8.4 -C ends with 0 where lines behind the refused one are taken again."""
    switch, asked = connected(Channel(0, out=b"line 51: % Unknown command[4]: router bgp 5000000000\n")), []
    monkeypatch.setattr(switch, "_compare_identity", lambda: None)
    monkeypatch.setattr(switch, "_stage", lambda config: None)
    monkeypatch.setattr(switch, "_verb", lambda verb, *_, **__: asked.append(verb))
    with pytest.raises(PushRefused, match="^leaf01: check configuration: .*line 51: % Unknown command"):
        switch.load("router bgp 5000000000\n")
    assert asked == ["takeover", "rollback"]


def test_an_upload_that_arrives_changed_is_refused_before_the_diff():
    with pytest.raises(BadAnswer, match="^leaf01: upload configuration"):
        connected(Channel(0, out=b"hostname leaf01\n"))._stage("hostname leaf01\n")


def test_a_switch_that_does_not_exist_is_named_within_the_budget():
    credentials = SshCredentials("netops", Path("key"), Path("known_hosts"))
    with pytest.raises(Unreachable, match="^leaf01: connect: expected an SSH server at 127.0.0.1:1"):
        Switch("leaf01", "127.0.0.1", credentials, port=1).connect()


@pytest.mark.needs("sshd")
@pytest.mark.parametrize(
    ("known_hosts", "lines", "error", "said"),
    [
        ("other_hosts", (), IdentityMismatch, "saw another one; find out which device answers here"),
        ("no_hosts", (), IdentityMismatch, "saw none for it; add the switch's host key"),
        (
            "known_hosts",
            ("KexAlgorithms sntrup761x25519-sha512@openssh.com",),
            BadAnswer,
            "no acceptable kex algorithm",
        ),
    ],
)
def test_a_server_that_cannot_be_trusted_or_understood_is_no_silent_one(tmp_path, known_hosts, lines, error, said):
    with serving(tmp_path, *lines) as port:
        credentials = SshCredentials(getpass.getuser(), tmp_path / "user", tmp_path / known_hosts)
        with pytest.raises(error, match=f"^leaf01: connect: .*{said}"):
            Switch("leaf01", "127.0.0.1", credentials, port=port).connect()


def test_a_port_that_was_shut_is_opened_by_the_switch_itself(tmp_path: Path) -> None:
    """The program ends at once; what opens the port is left behind on the switch."""
    said = tmp_path / "said"
    (tmp_path / "ip").write_text(f'#!/bin/sh\necho "$@" >>{said}\n')
    (tmp_path / "ip").chmod(0o755)
    env = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    argv = ["sh", "-c", ON_DEVICE, "bringup-push", "shut", "swp1", "1"]
    subprocess.run(argv, env=env, check=True, timeout=60)
    assert said.read_text().splitlines()[0] == "link set dev swp1 down"
    end = time.monotonic() + 60
    while len(said.read_text().splitlines()) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    assert said.read_text().splitlines() == ["link set dev swp1 down", "link set dev swp1 up"]


def test_a_port_that_is_shut_keeps_its_ipv6_addresses(tmp_path: Path) -> None:
    keeps = tmp_path / "swp1/keep_addr_on_down"
    keeps.parent.mkdir()
    keeps.write_text("0\n")
    (tmp_path / "ip").write_text(f'#!/bin/sh\n[ "$5" = up ] || cp {keeps} {tmp_path}/when_down\n')
    (tmp_path / "ip").chmod(0o755)
    env = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    text = ON_DEVICE.replace("/proc/sys/net/ipv6/conf", str(tmp_path))
    subprocess.run(["sh", "-c", text, "bringup-push", "shut", "swp1", "0"], env=env, check=True, timeout=60)
    assert (tmp_path / "when_down").read_text() == "1\n"


class Comparing:
    """The switch's side of a comparison, with a vtysh and an frr-reload that count their questions."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.text = folder, ON_DEVICE.replace("/usr/lib/frr/frr-reload.py", str(folder / "frr-reload.py"))
        self.runs("hostname leaf01")
        self.says("+ line\n")
        for name, text in {
            "vtysh": 'cat "$HOME/running"',
            "nft": 'echo "No such file or directory" >&2; exit 1',
            "frr-reload.py": 'echo asked >>"$HOME/asked"; cat "$HOME/said"; cat "$HOME/log" >&2',
        }.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)

    def runs(self, running: str) -> None:
        (self.folder / "running").write_text(running)

    def says(self, said: str, log: str = "") -> None:
        (self.folder / "said").write_text(said)
        (self.folder / "log").write_text(log)

    def compare(self, config: str) -> tuple[int, str]:
        """Exit status, and what frr-reload says or said."""
        env = {"HOME": str(self.folder), "PATH": f"{self.folder}:{os.environ['PATH']}"}
        argv = ["sh", "-c", self.text, "bringup-push", "compare"]
        done = subprocess.run(argv, env=env, input=config, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout.partition("# bringup: filter")[0]

    def asked(self) -> int:
        return len((self.folder / "asked").read_text().splitlines())


def test_frr_reload_is_asked_again_once_the_switch_or_the_file_has_changed(tmp_path: Path) -> None:
    comparing = Comparing(tmp_path)
    assert [comparing.compare("router bgp 1\n") for _ in range(2)] == [(0, "+ line\n")] * 2
    assert comparing.asked() == 1
    comparing.says("- other\n")
    comparing.runs("hostname leaf01\nrouter bgp 1")
    assert comparing.compare("router bgp 1\n") == (0, "- other\n")
    comparing.says("+ third\n")
    assert comparing.compare("router bgp 2\n") == (0, "+ third\n")
    assert comparing.asked() == 3


@pytest.mark.parametrize(("running", "log", "status"), [("", "", 0), ("hostname leaf01", "ERROR: vtysh failed\n", 93)])
def test_what_frr_reload_says_without_an_answer_of_the_switch_or_with_an_error_is_not_used_again(
    tmp_path: Path, running: str, log: str, status: int
) -> None:
    comparing = Comparing(tmp_path)
    comparing.runs(running)
    comparing.says("+ line\n", log)
    assert comparing.compare("router bgp 1\n")[0] == status
    comparing.says("+ line\n")
    assert comparing.compare("router bgp 1\n") == (0, "+ line\n")
    assert comparing.asked() == 2


def test_the_way_to_a_switch_is_never_shut(monkeypatch: pytest.MonkeyPatch) -> None:
    switch = Switch("leaf01", "192.0.2.1", SshCredentials("ops", Path("key"), Path("known_hosts")), mgmt_port="eth0")
    monkeypatch.setattr(Switch, "_compare_identity", lambda self: None)
    monkeypatch.setattr(Switch, "_verb", lambda *_: pytest.fail("an order was given"))
    with pytest.raises(WriteRefused, match="the management port"):
        switch.shut("eth0", 10)
