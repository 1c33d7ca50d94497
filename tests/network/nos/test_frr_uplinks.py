"""Uplink tracking of an FRR leaf: its program, round by round, with a kernel and a clock of files."""

import os
import subprocess
from pathlib import Path

import pytest

from network import nos
from network.nos.frr.driver import ON_DEVICE, parse_facts
from network.render import render
from tests.network import dual_stack
from tests.plans import plan_of

PROGRAM = nos.folder("frr", "uplinks.sh") / "uplinks.sh"
HEAD = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
WAY = HEAD + "swp1 010010AC 00000000 0007 0 0 20 FFFFFFFF 0 0 0\n"
"""A route by an uplink: BGP unnumbered, so its gateway is of the other family and not in this table."""
NO_WAY = HEAD + "swp3 07000010 01000012 0007 0 0 0 FFFFFFFF 0 0 0\neth0 00004D0A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n"
IP = """#!/bin/sh
echo "$4 $5" >>said
case $5 in down) echo 0x1002 ;; up) echo 0x1003 ;; esac >"ports/$4/flags"
[ "$5" = up ] || [ "$(cat "ipv6/$4/keep_addr_on_down" 2>/dev/null)" = 1 ] || rm -f "ipv6/$4/addresses"
"""
"""A port that goes down loses its IPv6 addresses, unless it is to keep them (Linux, ip-sysctl: keep_addr_on_down)."""
SLEEP = """#!/bin/sh
n=$(($(cat round) + 1))
echo $n >round
[ -e "routes.$n" ] || { kill "$PPID"; exit; }
cp "routes.$n" routes
"""
"""A second passes: the next round's routes, and the end after the last."""


class Leaf:
    """leaf01 of site lab: swp1 and swp2 lead to spines, the rest to servers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "frr.conf").write_text(
            render(plan_of("lab"), "leaf01") + "interface eth0\n ip address 10.77.0.12/31\nexit\n"
        )
        self.servers = ["swp3", "swp4", "swp5", "swp6"]
        for port in ("eth0", "swp1", "swp2", *self.servers):
            (folder / "ports" / port).mkdir(parents=True)
            (folder / "ports" / port / "flags").write_text("0x1003\n")
        for name, text in (("ip", IP), ("sleep", SLEEP)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    def through(self, *rounds: str) -> list[str]:
        """What the program does with the ports while the kernel shows these routes, one table a round."""
        for old in self.folder.glob("routes*"):
            old.unlink()
        for n, text in enumerate(rounds):
            (self.folder / (f"routes.{n}" if n else "routes")).write_text(text)
        (self.folder / "round").write_text("0")
        (self.folder / "said").write_text("")
        env = {
            "PORTS": "swp1 swp2",  # of another program
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "UPLINKS_CONFIG": "frr.conf",
            "UPLINKS_PAUSE": "sleep",
            "UPLINKS_IPV6": "ipv6",
            "UPLINKS_ROUTES": "routes",
            "UPLINKS_PORTS": "ports",
            "UPLINKS_STATE": "state",
        }
        subprocess.run(["sh", PROGRAM], cwd=self.folder, env=env, check=True, timeout=60, stdout=subprocess.DEVNULL)
        return (self.folder / "said").read_text().splitlines()


@pytest.fixture
def leaf(tmp_path: Path) -> Leaf:
    return Leaf(tmp_path)


def test_a_leaf_without_a_route_by_its_uplinks_takes_its_ports_to_servers_down(leaf: Leaf) -> None:
    said = leaf.through(WAY, *[NO_WAY] * 5)
    assert said[: len(leaf.servers)] == [f"{port} down" for port in leaf.servers]


def test_fewer_looks_in_a_row_without_a_route_change_nothing(leaf: Leaf) -> None:
    assert leaf.through(WAY, *[NO_WAY] * 4, WAY, *[NO_WAY] * 4, WAY) == []


def test_ports_come_up_once_the_route_has_stayed(leaf: Leaf) -> None:
    down, up = ([f"{port} {state}" for port in leaf.servers] for state in ("down", "up"))
    assert leaf.through(*[NO_WAY] * 5, WAY, NO_WAY, WAY, WAY) == [*down, *up]


def test_a_port_that_somebody_else_took_down_stays_down(leaf: Leaf) -> None:
    (leaf.folder / "ports" / "swp4" / "flags").write_text("0x1002\n")
    assert [line for line in leaf.through(*[NO_WAY] * 5, WAY, WAY) if "swp4" in line] == []


def test_a_port_that_somebody_takes_up_meanwhile_goes_down_again_and_is_noted_once(leaf: Leaf) -> None:
    (leaf.folder / "state").mkdir()
    (leaf.folder / "state" / "held").write_text("swp4\n")
    assert leaf.through(*[NO_WAY] * 5, WAY, WAY).count("swp4 up") == 1


def test_the_end_of_the_program_gives_the_ports_back(leaf: Leaf) -> None:
    assert leaf.through(*[NO_WAY] * 5)[-1] == "swp6 up"
    assert not (leaf.folder / "state" / "pid").exists()


def test_ports_keep_their_ipv6_addresses_while_they_are_down(leaf: Leaf) -> None:
    text = render(dual_stack.lab(), "leaf01")
    (leaf.folder / "frr.conf").write_text(text)
    planned = {}
    for port in leaf.servers:
        addresses = leaf.folder / "ipv6" / port / "addresses"
        addresses.parent.mkdir(parents=True)
        (addresses.parent / "keep_addr_on_down").write_text("0\n")
        planned[addresses] = text.partition(f"interface {port}\n")[2].partition("ipv6 address ")[2].split()[0]
        addresses.write_text(planned[addresses])
    assert len(set(planned.values())) == len(leaf.servers)
    said = leaf.through(*[NO_WAY] * 5, WAY, WAY)
    assert said == [f"{port} {state}" for state in ("down", "up") for port in leaf.servers]
    assert {path: path.read_text() for path in planned if path.exists()} == planned


@pytest.mark.parametrize("lines", ["", "hostname leaf01\n", "interface swp3\n ip address 172.18.0.0/31\nexit\n"])
def test_without_uplinks_in_the_saved_configuration_nothing_happens(leaf: Leaf, lines: str) -> None:
    (leaf.folder / "frr.conf").write_text(lines)
    assert leaf.through(*[NO_WAY] * 5) == []


FACTS = "hostname leaf01\nmgmt_mac 02:42:10:00:03:01\nversion 8.4.4\nport swp3 down 9216\n"


@pytest.mark.parametrize(
    ("said", "held"), [("", None), ("tracks_uplinks yes\n", ()), ("tracks_uplinks yes\nheld swp3\n", ("swp3",))]
)
def test_the_driver_reads_whether_a_leaf_tracks_its_uplinks(said: str, held: tuple[str, ...] | None) -> None:
    assert parse_facts("leaf01", FACTS + said).held == held


def test_the_switchs_side_looks_where_the_program_writes() -> None:
    default = next(line for line in PROGRAM.read_text().splitlines() if line.startswith("STATE="))
    folder = default.partition(":-")[2].rstrip("}")
    assert f"tracker={folder}\n" in ON_DEVICE
    assert f"RuntimeDirectory={Path(folder).name}\n" in PROGRAM.with_suffix(".service").read_text()
