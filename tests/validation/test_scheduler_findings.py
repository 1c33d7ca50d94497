"""Findings of the scheduler: the cause is named once and its consequences are not."""

import copy
import json
from typing import Any, cast

import pytest

from capacity.model import Plan
from inventory.findings import Finding
from tests.findings import names
from tests.plans import plan_of
from tests.validation.test_recorded_facts import HEALTHY
from validation.checks import test_scheduler as scheduler_checks
from validation.facts import Facts
from validation.facts.answer import Answer
from validation.runners.slurm import Slurm
from validation.scheduler_findings import findings

NODES = ("gpu001", "gpu002", "gpu003", "gpu004")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


@pytest.fixture
def recorded() -> dict[str, Any]:
    nodes: dict[str, Any] = json.loads(HEALTHY.read_text())["nodes"]
    return copy.deepcopy(nodes)


def whole(plan: Plan, nodes: dict[str, Any], *others: Finding) -> list[Finding]:
    answers = {name: Answer(name, "ssh", node["data"], error=node["error"]) for name, node in nodes.items()}
    return findings(plan, Facts(nodes=answers), others)


def found(plan: Plan, nodes: dict[str, Any], *others: Finding) -> list[tuple[str, str]]:
    return [(finding.id, finding.subject) for finding in whole(plan, nodes, *others)]


def slurm(nodes: dict[str, Any], name: str = "ctl01") -> dict[str, Any]:
    part: dict[str, Any] = nodes[name]["data"]["slurm"]
    return part


def state(nodes: dict[str, Any], node: str, word: str, reason: str) -> None:
    slurm(nodes)["nodes"][node] = {"state": word, "reason": reason}


def test_a_healthy_scheduler_has_none(plan, recorded):
    assert found(plan, recorded) == []


def test_a_database_that_is_down_hides_the_daemon_that_needs_it(plan, recorded):
    services = recorded["ctl01"]["data"]["units"]["services"]
    services |= {"mariadb": "failed/failed", "slurmdbd": "activating/auto-restart"}
    slurm(recorded)["accounting_answers"] = False
    assert found(plan, recorded) == [("ACCOUNTING-DATABASE-DOWN", "ctl01")]


def test_a_slurmdbd_that_is_stopped_is_named_with_its_state(plan, recorded):
    recorded["ctl01"]["data"]["units"]["services"]["slurmdbd"] = "failed/failed"
    (down,) = whole(plan, recorded)
    assert (down.id, down.subject) == ("ACCOUNTING-DOWN", "ctl01")
    assert names(down, "slurmdbd", "failed/failed", "systemctl start slurmdbd")


@pytest.mark.parametrize(
    ("services", "named"),
    [({"slurmctld": "active/running"}, "active/running"), ({}, "not installed"), (None, "unknown")],
)
def test_a_silent_controller_says_in_what_state_slurmctld_is(plan, recorded, services, named):
    data = recorded["ctl01"]["data"]
    if services is None:
        del data["units"]
    else:
        data["units"]["services"] = services
    slurm(recorded)["answers"] = False
    (silent,) = whole(plan, recorded)
    assert (silent.id, silent.subject) == ("SCHEDULER-SILENT", "ctl01")
    assert names(silent, named, "journalctl -u slurmctld")


def test_a_slurmdbd_that_runs_and_does_not_answer_is_down(plan, recorded):
    slurm(recorded)["accounting_answers"] = False
    assert found(plan, recorded) == [("ACCOUNTING-DOWN", "ctl01")]


def test_a_controller_that_hangs_is_one_finding_and_not_one_for_each_node(plan, recorded):
    for name in ("ctl01", *NODES):
        slurm(recorded, name)["answers"] = False
    del slurm(recorded)["nodes"]
    assert found(plan, recorded) == [("SCHEDULER-SILENT", "ctl01")]


def test_a_controller_without_power_is_somebody_elses_finding(plan, recorded):
    recorded["ctl01"]["error"] = "ctl01: no answer"
    for name in NODES:
        slurm(recorded, name)["answers"] = False
    assert found(plan, recorded, Finding("POWER-LOST", "error", "ctl01", "off")) == []


def test_a_node_that_is_down_since_it_has_no_power_is_not_named_again(plan, recorded):
    recorded["gpu002"]["error"] = "gpu002: no answer"
    state(recorded, "gpu002", "down*", "Not responding")
    assert found(plan, recorded, Finding("POWER-LOST", "error", "gpu002", "off")) == []
    assert found(plan, recorded) == [("NODE-OUT-OF-SERVICE", "gpu002")]


def test_a_person_who_drained_a_node_is_named_whatever_else_is_wrong_with_it(plan, recorded):
    state(recorded, "gpu002", "drained", "fan swap, ticket 7")
    assert found(plan, recorded, Finding("LINK-DOWN", "error", "gpu002", "x")) == [("NODE-OUT-OF-SERVICE", "gpu002")]


def test_what_a_health_check_drained_is_the_finding_only_when_nothing_else_is_found(plan, recorded):
    state(recorded, "gpu002", "drained", "bringup: /shared does not answer within 5 s")
    assert found(plan, recorded, Finding("STORAGE-SILENT", "error", "sto01", "x")) == []
    assert found(plan, recorded) == [("NODE-OUT-OF-SERVICE", "gpu002")]


def test_a_node_with_another_key_is_refused_and_not_also_down(plan, recorded):
    slurm(recorded, "gpu003")["answers"] = False
    state(recorded, "gpu003", "down*", "Not responding")
    assert found(plan, recorded) == [("NODE-REFUSED", "gpu003")]


def test_facts_from_before_these_were_asked_raise_nothing(plan, recorded):
    for name in ("ctl01", *NODES):
        for key in ("answers", "accounting_answers", "nodes"):
            slurm(recorded, name).pop(key, None)
    assert found(plan, recorded) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, ""),
        ({"SchedulerType": "sched/builtin"}, "SchedulerType is sched/builtin, the role writes sched/backfill"),
        ({"SelectType": "select/linear"}, "SelectType is select/linear, the role writes select/cons_tres"),
        ({"SelectType": ""}, "SelectType is not told, the role writes select/cons_tres"),
        ({"PreemptMode": "GANG,REQUEUE"}, "PreemptMode has GANG: jobs would share GPUs in time slices (ERR-22)"),
    ],
)
def test_a_plain_scheduler_does_not_start_large_jobs_whole(change: dict[str, str], problem: str):
    said = {"SchedulerType": "sched/backfill", "SelectType": "select/cons_tres", "PreemptMode": "REQUEUE", **change}

    class Told:
        def config(self) -> dict[str, str]:
            return said

    facts = Facts.read(HEALTHY)
    outcome = scheduler_checks.test_jobs_never_share_nodes_in_time("lab", plan_of("lab"), facts, cast(Slurm, Told()))
    assert outcome.passed is (not problem)
    assert problem in outcome.detail
