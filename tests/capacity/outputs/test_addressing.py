"""Tables of addresses for other systems: each address once, under a name that DNS takes, with what the plan knows of it."""

import csv
import io
import ipaddress
import re

import pytest

from capacity.outputs.documents import installation
from capacity.outputs.documents.addressing import documents
from tests.network import dual_stack
from tests.plans import plan_of

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""RFC 1123, 2.1."""


def records(text, kind):
    """(owner, data) of each line of a zone."""
    return [
        (line.split()[0], line.split()[3])
        for line in text.splitlines()
        if not line.startswith(";") and f" {kind} " in line
    ]


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("site", ["b200-256-roce", "lab", "gb300-nvl72-liquid"])
def test_every_address_has_one_name_and_one_way_back(site):
    plan = plan_of(site)
    made = documents(plan)
    forward, reverse = records(made["dns-records.zone"], "A"), records(made["dns-reverse.zone"], "PTR")
    names = [name for name, _ in forward]
    assert len(set(names)) == len(names) == len(plan.addresses)
    assert all(LABEL.fullmatch(name) for name in names)
    assert {address for _, address in forward} == {text.partition("/")[0] for text in plan.addresses["address"]}
    back = dict(reverse)
    assert all(back[f"{ipaddress.ip_address(address).reverse_pointer}."] == name for name, address in forward)


def test_rails_loopbacks_and_bmcs_are_told_apart_by_their_names():
    made = documents(plan_of("b200-256-roce"))
    names = dict(records(made["dns-records.zone"], "A"))
    assert names["gpu001-rail0"] == "10.76.0.1"
    assert names["rol001-swp1s0"] == "10.76.0.0"
    assert names["rol001-lo"] == "10.78.0.1"
    assert {"gpu001", "gpu001-bmc", "rol001-oob", "spine01-lo"} <= set(names)


def test_both_families_have_one_name_and_each_its_way_back():
    made = documents(dual_stack.plan())
    first, second = (records(made["dns-records.zone"], kind) for kind in ("A", "AAAA"))
    names = dict(second)
    assert len(names) == len(second)
    assert set(names) < set(dict(first))
    assert names["gpu001-rail0"] == "fd00:76::1"
    assert {"rol001-lo", "gpu001-bmc"} <= set(names)
    back = dict(records(made["dns-reverse.zone"], "PTR"))
    assert all(back[f"{ipaddress.ip_address(address).reverse_pointer}."] == name for name, address in second)
    reserved = rows(made["dhcp-reservations.csv"])
    assert {row["network"] for row in reserved if ":" in row["address"]} == {"bmc"}
    netbox = {(row["dns_name"], row["address"]) for row in rows(made["netbox-ip-addresses.csv"])}
    assert {("gpu001-rail0", "10.76.0.1/31"), ("gpu001-rail0", "fd00:76::1/127")} <= netbox


def test_a_table_of_networks_has_the_room_of_both_families():
    found = {
        (row["network"], row["prefix"]): row for row in rows(installation.document(dual_stack.plan(), "networks.csv"))
    }
    assert found["rail", "fd00:76::/48"]["addresses"] == found["rail", "10.76.0.0/16"]["addresses"] == "512"
    assert found["rail", "fd00:76::/48"]["prefix_size"] == str(2**80)
    assert "fd00:76::1/127" in installation.document(dual_stack.plan(), "addresses.csv")


def test_reservations_have_the_mac_of_the_asset_list_and_no_prefix_length():
    plan = plan_of("lab")
    reserved = rows(documents(plan)["dhcp-reservations.csv"])
    leaf = next(row for row in reserved if row["device"] == "leaf01")
    assert (leaf["mac"], leaf["hostname"]) == ("02:42:10:00:03:01", "leaf01-oob")
    assert "/" not in leaf["address"]
    assert {row["network"] for row in reserved} == {"oob", "bmc", "provisioning"}


def test_netbox_gets_the_columns_of_its_import_and_the_far_end():
    addresses = rows(documents(plan_of("b200-256-roce"))["netbox-ip-addresses.csv"])
    assert list(addresses[0]) == ["address", "status", "role", "device", "interface", "dns_name", "description"]
    rail = next(row for row in addresses if row["dns_name"] == "gpu001-rail0")
    assert (rail["address"], rail["interface"], rail["description"]) == ("10.76.0.1/31", "rail0", "rail rol001 swp1s0")
    assert {row["role"] for row in addresses if row["interface"] == "lo"} == {"loopback"}
