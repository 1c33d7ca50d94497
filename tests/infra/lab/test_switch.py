"""The SNMP agent of a switch."""

from dataclasses import replace

import pytest

from capacity.build import build
from infra.lab import switch
from infra.lab.planned import from_plan
from infra.lab.spec import LabSpec
from inventory.catalog import load_catalog
from inventory.delivered.assets import load_assets
from inventory.site import load_site


@pytest.fixture(scope="module")
def spec() -> LabSpec:
    site = load_site("lab")
    return from_plan(site, build(site), load_assets(site), load_catalog())


def test_the_agent_lets_only_the_sites_user_read_with_authentication_and_privacy(spec):
    lines = switch.snmp_agent(spec, spec.switch("leaf01"), "8.4.4", "a" * 32, "b" * 32).splitlines()
    assert f'createUser ops SHA-256 "{"a" * 32}" AES "{"b" * 32}"' in lines
    assert [line for line in lines if "user" in line.lower()][1:] == ["rouser ops authpriv"]
    assert f"agentAddress udp:{spec.switch('leaf01').address}:161" in lines


def test_the_agent_declares_that_the_switch_is_simulated(spec):
    assert "sysDescr SIMULATED by bringup lab" in switch.snmp_agent(spec, spec.switch("leaf01"), "8.4.4", "a", "b")


@pytest.mark.parametrize(("protocol", "name"), [("SHA1", "SHA"), ("SHA224", "SHA-224"), ("SHA512", "SHA-512")])
def test_protocols_have_the_names_of_snmpd(spec, protocol, name):
    other = replace(spec, snmp=replace(spec.snmp, auth_protocol=protocol))
    assert f"createUser ops {name} " in switch.snmp_agent(other, other.switch("leaf01"), "8.4.4", "a", "b")
