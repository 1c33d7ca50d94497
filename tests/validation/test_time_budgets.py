"""Time budgets come from the site file; one that it lacks is named before any device is asked."""

import dataclasses
import sys
from collections.abc import Callable

import pytest

from capacity.model import Plan
from tests.plans import plan_of
from validation.diagnose import topology
from validation.facts import Facts, gather, probes, storage_acts, telemetry
from validation.runners import outage, slurm

GATHER = sys.modules[gather.__module__]
"""The module: validation.facts has a function of its name."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


def without(plan: Plan, key: str) -> Plan:
    limits = {name: limit for name, limit in plan.site.limits.items() if name != key}
    return dataclasses.replace(plan, site=plan.site.model_copy(update={"limits": limits}))


@pytest.mark.parametrize(
    "key", ["ssh_timeout_s", "bmc_timeout_s", "snmp_timeout_s", "df_ping_payload_b", "lldp_max_age_s"]
)
def test_a_time_budget_that_the_site_lacks_is_named(plan, key, monkeypatch):
    bare = without(plan, key)
    asking: dict[str, list[Callable[[], object]]] = {
        "ssh_timeout_s": [
            lambda: slurm.connect(bare),
            lambda: telemetry.reads(bare, {}),
            lambda: storage_acts.checkpoint_writes(bare, 1, 1.0),
        ],
        "bmc_timeout_s": [lambda: probes.identify_leds(bare), lambda: outage.NodePower.of(bare, "gpu001")],
        "snmp_timeout_s": [lambda: outage.NodePower.of(bare, "gpu001")],
        "df_ping_payload_b": [lambda: GATHER.probes(bare, "gpu001", {})],
        "lldp_max_age_s": [lambda: topology(bare, Facts())],
    }
    for module in (slurm, telemetry, storage_acts, probes, outage, GATHER):
        for name in ("node_credentials", "bmc_credentials", "snmp_credentials"):
            monkeypatch.setattr(module, name, lambda _: None, raising=False)
    for ask in asking[key]:
        with pytest.raises(KeyError, match=rf"site\.yaml: limits\.{key} is missing; the file has "):
            ask()
