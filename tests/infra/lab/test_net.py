"""Which prefixes the lab refuses on a machine that uses them already."""

import pytest

from infra.lab.net import conflict, short

WANTED = {"addressing.oob": "10.77.0.0/24", "addressing.provisioning": "10.77.1.0/24"}
ADDRESS = "2: eth0    inet {} brd 10.255.255.255 scope global eth0"


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("10.77.1.9/24", "addressing.provisioning 10.77.1.0/24 overlaps 10.77.1.9/24 (interface eth0) of this machine"),
        ("10.0.0.4/8", "addressing.oob 10.77.0.0/24 overlaps 10.0.0.4/8 (interface eth0) of this machine"),
        ("192.168.1.4/24", ""),
    ],
)
def test_an_address_of_the_machine(address, found):
    assert conflict(WANTED, [ADDRESS.format(address)], []) == found


@pytest.mark.parametrize(
    ("route", "found"),
    [
        (
            "10.77.0.128/25 via 192.168.1.1 dev eth0",
            "addressing.oob 10.77.0.0/24 overlaps 10.77.0.128/25 (route via eth0) of this machine",
        ),
        (
            "10.77.0.7 dev tun0 scope link",
            "addressing.oob 10.77.0.0/24 overlaps 10.77.0.7 (route via tun0) of this machine",
        ),
        (
            "10.77.1.0/24 via 192.168.1.1 dev eth0",
            "addressing.provisioning 10.77.1.0/24 overlaps 10.77.1.0/24 (route via eth0) of this machine",
        ),
        ("10.0.0.0/8 via 192.168.1.1 dev tun0 metric 50", ""),
        ("default via 192.168.1.1 dev eth0", ""),
    ],
)
def test_a_route_of_the_machine(route, found):
    assert conflict(WANTED, [], [route]) == found


def test_the_two_networks_of_a_lab_may_not_overlap():
    wanted = {"addressing.oob": "10.77.0.0/16", "addressing.provisioning": "10.77.1.0/24"}
    assert conflict(wanted, [], []) == "addressing.oob 10.77.0.0/16 and addressing.provisioning 10.77.1.0/24 overlap"


def test_long_interface_names_stay_distinct_within_the_kernels_limit():
    names = {short(f"gpu{number:012d}.bmc") for number in range(50)}
    assert len(names) == 50
    assert max(map(len, names)) <= 15
    assert short("gpu001.bmc") == "gpu001.bmc"
