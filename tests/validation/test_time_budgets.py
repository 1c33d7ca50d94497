"""Time budgets and limits come from the site file; a limit that it lacks is named before any device is asked."""

import dataclasses
import sys
from collections.abc import Callable

import pytest

from capacity.model import Plan
from infra.provider import servers
from inventory.site import SiteError, parse_site
from inventory.site.sections.timeouts import Timeouts
from tests.full_sites import full_text
from tests.plans import plan_of
from validation.diagnose import topology
from validation.facts import Facts, gather, second_reader, storage
from validation.runners import slurm, training

GATHER = sys.modules[gather.__module__]
"""The module: validation.facts has a function of its name."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


def without(plan: Plan, key: str) -> Plan:
    limits = {name: limit for name, limit in plan.site.limits.items() if name != key}
    return dataclasses.replace(plan, site=plan.site.model_copy(update={"limits": limits}))


@pytest.mark.parametrize("key", ["df_ping_payload_b", "lldp_max_age_s"])
def test_a_limit_of_the_facts_that_the_site_lacks_is_named(plan, key):
    bare = without(plan, key)
    asking: dict[str, Callable[[], object]] = {
        "df_ping_payload_b": lambda: GATHER.probes(bare, "gpu001", {}),
        "lldp_max_age_s": lambda: topology(bare, Facts()),
    }
    with pytest.raises(KeyError, match=rf"site\.yaml: limits\.{key} is missing; the file has "):
        asking[key]()


def test_drivers_wait_as_long_as_the_site_says(plan, monkeypatch):
    """Each budget with a value of its own, as the one who asks hands it on."""
    own = {key: 100.0 + n for n, key in enumerate(Timeouts.model_fields)}
    site = plan.site.model_copy(update={"timeouts": Timeouts.model_validate(own)})
    changed = dataclasses.replace(plan, site=site)
    for module in (slurm, GATHER):
        for name in ("node_credentials", "bmc_credentials", "snmp_credentials"):
            monkeypatch.setattr(module, name, lambda *_: None, raising=False)
    assert servers.call_budget_s(site) == own["bmc_s"]
    scheduler = slurm.connect(changed)
    assert scheduler.controller.budget_s == own["ssh_s"]
    assert second_reader.budget_s(changed) == own["second_reading_s"]
    assert storage.request(changed, "gpu001")["budget_s"] == own["storage_s"]
    assert training.Rehearsal(changed, scheduler, 1).budget_s == own["training_s"]


@pytest.mark.parametrize("value", ["0", "-1", "86401", ".inf", '"10"'])
def test_a_time_budget_is_a_number_of_seconds(value):
    text = full_text("lab").replace("  bmc_s: 10 ", f"  bmc_s: {value} ")
    with pytest.raises(SiteError, match=r"timeouts\.bmc_s"):
        parse_site(text)
