"""Adapters as servers tell of them, judged against the plan. The answers are made from what the plan wants: nothing here was read
from an adapter."""

import dataclasses
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from capacity.model import Plan
from capacity.services.telemetry import ports as planned_ports
from network.drivers.answers import Source
from network.roce_host import wanted
from tests.plans import plan_of
from validation import roce
from validation.checks import test_fabric as fabric
from validation.checks import test_roce as checks
from validation.checks import test_telemetry as telemetry
from validation.facts import Answer, Facts
from validation.facts.shapes import machine_of
from validation.from_raw import FROM_RAW, Again

PLAN = plan_of("b200-256-roce")
WANTED = wanted(PLAN)["gpu001"]
SOURCE = Source("gpu001", "read facts: machine")


def healthy() -> dict[str, Any]:
    """What a server tells whose adapters are as planned, with DOCA-OFED's driver."""
    rails = {
        rail["name"]: {
            "pci": f"0000:{rail['rail']:02x}:00.0",
            "netdev": rail["name"],
            "rdma": rail["name"],
            "values": {key: json.dumps(value, sort_keys=True) for key, value in rail["settings"].items()},
            "unread": {},
        }
        for rail in WANTED["rails"]
    }
    return {"error": "", "rails": rails}


def found(said: dict[str, Any], names: tuple[str, ...] = roce.LOSSLESS + roce.MARKED) -> list[str]:
    whole = machine_of({"container": "", "errors": {}, "roce": said}, SOURCE)
    return list(roce.faults(whole["roce"], WANTED, names))


def changed(setting: str, value: Any) -> dict[str, Any]:
    said = healthy()
    said["rails"]["rail5"]["values"][setting] = json.dumps(value)
    return said


def test_every_setting_belongs_to_one_item_and_adapters_as_planned_have_no_fault() -> None:
    ours = set(WANTED["rails"][0]["settings"]) - {"arp_ignore", "arp_announce", "rp_filter"}
    assert set(roce.LOSSLESS) | set(roce.MARKED) == ours
    assert not set(roce.LOSSLESS) & set(roce.MARKED)
    assert found(healthy()) == []


@pytest.mark.parametrize("setting", [*roce.LOSSLESS, *roce.MARKED])
def test_another_value_of_any_setting_is_named_with_its_rail(setting: str) -> None:
    (fault,) = found(changed(setting, "something else"))
    assert fault.startswith(f'rail5: {setting} is "something else", planned ')


def test_of_a_table_only_the_rows_that_differ_are_shown() -> None:
    table = {str(dscp): dscp // 8 for dscp in range(64)}
    (fault,) = found(changed("dscp_priority", table))
    assert fault.count("planned") == roce.MOST_SHOWN
    assert "8 is 1, planned 0" in fault
    assert "and 50 more" in fault


def test_what_only_nvidias_driver_has_is_left_open_and_nothing_else_is() -> None:
    assert found(changed("roce_np", None)) == []
    assert roce.not_judged(changed("roce_np", None), roce.LOSSLESS) == ["roce_np"]
    assert found(changed("pfc", None)) != []


def test_a_missing_rail_a_wrong_name_and_what_cannot_be_read_are_named() -> None:
    said = healthy()
    del said["rails"]["rail2"]
    said["rails"]["rail3"]["rdma"] = "mlx5_3"
    said["rails"]["rail4"]["unread"]["pfc"] = "dcb is not installed"
    said["rails"]["rail6"]["values"]["pfc"] = "{"
    assert found(said, ("pfc",)) == [
        "rail2: the server does not tell of it",
        "rail3: its interface is rail3 and its RDMA device mlx5_3",
        "rail4: pfc could not be read: dcb is not installed",
        "rail6: pfc was not told",
    ]


def test_a_server_without_the_program_and_one_whose_rails_are_unclear_say_what_to_do() -> None:
    assert found({}) == ["roce_host.py is not on the server: run the playbooks (role roce)"]
    unclear = "rail0: PCIe leaves open which adapter is nearest to GPU 0"
    assert found({"error": unclear, "rails": {}}) == [unclear]


def facts(said: dict[str, Any]) -> Facts:
    machine = machine_of({"container": "", "errors": {}, "roce": said}, SOURCE)
    return Facts(nodes={"gpu001": Answer("gpu001", "ssh", data={"machine": machine})})


CHECKS: list[Callable[..., Any]] = [
    checks.test_adapters_have_one_lossless_class,
    checks.test_adapters_mark_rocev2_as_planned,
]


@pytest.mark.parametrize("check", CHECKS)
def test_the_checks_pass_on_adapters_as_planned_and_name_what_is_not(check: Callable[..., Any]) -> None:
    outcome = check("gpu001", PLAN, facts(healthy()), wanted(PLAN))
    assert (outcome.passed, "not judged" in outcome.detail) == (True, False)
    said = changed("pfc", [False] * 8)
    said["rails"]["rail5"]["values"]["default_roce_tos"] = '"0"'
    outcome = check("gpu001", PLAN, facts(said), wanted(PLAN))
    assert not outcome.passed
    assert "rail5: " in outcome.detail


def test_a_driver_without_a_switch_of_ecn_is_said_in_the_verdict() -> None:
    outcome = checks.test_adapters_have_one_lossless_class(
        "gpu001", PLAN, facts(changed("roce_rp", None)), wanted(PLAN)
    )
    assert outcome.passed
    assert "not judged, its driver does not show them: roce_rp" in outcome.detail


def test_a_site_that_gives_rails_no_addresses_fails_with_the_keys() -> None:
    outcome = checks.test_adapters_have_one_lossless_class("gpu001", PLAN, facts(healthy()), {})
    assert not outcome.passed
    assert "site addressing.rails" in outcome.detail


AGENT = {"sys_descr": "Cumulus-Linux 5.9.1 (Linux Kernel 6.1.50-2)", "serial": "MT2134X01234", "model": "SN5600"}


def switches(sys_descr: str = AGENT["sys_descr"], **rest: Any) -> Facts:
    return Facts(agents={"rol001": Answer("rol001", "snmp", data={**AGENT, "sys_descr": sys_descr}, **rest)})


def pinned(**versions: str) -> Plan:
    return dataclasses.replace(PLAN, site=PLAN.site.model_copy(update={"versions": {**PLAN.site.versions, **versions}}))


def test_a_compute_switch_runs_the_pinned_version() -> None:
    outcome = fabric.test_compute_switch_software_has_pinned_version("rol001", pinned(cumulus="5.9.1"), switches())
    assert (outcome.passed, outcome.value, outcome.identities) == (True, "5.9.1", ())
    assert outcome.raw is not None
    assert FROM_RAW["S061.applied"](outcome.raw, "rol001", pinned(cumulus="5.9.1")) == Again("5.9.1", [])
    assert FROM_RAW["S061.applied"](outcome.raw, "rol001", pinned(cumulus="5.9.2")).problems


@pytest.mark.parametrize(
    ("versions", "facts", "detail"),
    [
        ({"cumulus": "5.9.2"}, switches(), "runs 5.9.1, pinned 5.9.2"),
        ({}, switches(), "runs 5.9.1, and the site pins no version of cumulus. Fix: versions.cumulus"),
        ({"cumulus": "5.9.1"}, switches("Linux rol001 6.1"), "its agent names no version of cumulus: Linux rol001 6.1"),
        ({"cumulus": "5.9.1"}, switches(error="rol001: no answer"), "rol001: no answer"),
    ],
)
def test_another_version_and_none_are_told(versions: dict[str, str], facts: Facts, detail: str) -> None:
    outcome = fabric.test_compute_switch_software_has_pinned_version("rol001", pinned(**versions), facts)
    assert (outcome.passed, outcome.detail) == (False, detail)


def counters(switch: str, ports: list[str], age_s: float = 5.0) -> Facts:
    """What Prometheus says of one switch that reports counters of these ports."""
    target = {"job": "switch", "instance": switch, "health": "up", "age_s": age_s, "error": ""}
    rows = [{"labels": {"instance": switch, "ifName": port}, "value": 1.0} for port in ports]
    return Facts(
        telemetry={"mgm01": Answer("mgm01", "prometheus", data={"targets": [target], "queries": {"ports": rows}})}
    )


def test_counters_of_compute_switches_are_judged_with_their_split_ports() -> None:
    ports = planned_ports(PLAN)
    cabled = ports.loc[ports["instance"] == "rol001", "ifName"].tolist()
    ask = partial(telemetry.test_every_planned_port_has_fresh_counters_and_none_is_unknown, "rol001", PLAN)
    assert ask(counters("rol001", [*cabled, "eth0", "lo", "swp64"])).passed
    assert ask(counters("rol001", cabled[1:])).detail == f"no counters of planned ports {cabled[0]}"
    assert "does not have: swp65" in ask(counters("rol001", [*cabled, "swp65"])).detail
    assert "s old" in ask(counters("rol001", cabled, age_s=1e6)).detail
