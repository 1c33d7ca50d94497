"""Networks that are larger than needed, and what a single lost switch takes with it. Each printed remedy is applied."""

from typing import Any

import pytest

from capacity.build import build
from capacity.model import Plan
from inventory.site.whatif import changed
from network.wiring.single_failures import losses
from tests.findings import as_set, only
from tests.plans import plan_of

pytestmark = pytest.mark.usefixtures("stages_kept")


def with_remedy(site: str, settings: list[str], plan: Plan, id_: str) -> Plan:
    """The plan with the finding's first remedy applied."""
    return build(changed(site, [*settings, *as_set(only(plan, id_).remedies[0])]))


CASES = [
    ("INBAND-TOO-MANY", "b200-256-roce", ["inband.leaves=48"], {"leaves": 48}),
    ("INBAND-SPINE", "lab", ["inband.spines=1"], {"leaves": 4}),
    ("INBAND-OVERSUBSCRIBED", "gb300-nvl72-liquid", ["inband.spines=3"], {}),
    ("INBAND-SINGLE", "lab", ["inband.links_per_node=1"], {"leaves": 4}),
    ("OOB-TOO-MANY", "b200-256-roce", ["oob.switches=98"], {"switches": 98}),
    ("OOB-PORTS", "gb300-nvl72-liquid", ["oob.switches=1"], {}),
    ("OOB-PORTS", "b200-256-roce", ["oob.switches=1"], {}),
]


@pytest.mark.parametrize(("id_", "site", "settings", "numbers"), CASES, ids=[f"{c[0]} {c[1]}" for c in CASES])
def test_the_finding_goes_with_its_remedy_and_no_error_comes(
    id_: str, site: str, settings: list[str], numbers: dict[str, Any]
) -> None:
    plan = build(changed(site, settings))
    found = only(plan, id_)
    assert numbers.items() <= found.numbers.items()
    after = with_remedy(site, settings, plan, id_)
    assert id_ not in {f.id for f in after.findings}
    before = {f.id for f in plan_of(site).findings if f.severity == "error"}
    assert {f.id for f in after.findings if f.severity == "error"} <= before


def test_too_few_management_switches_names_the_number_that_its_remedy_sets() -> None:
    found = only(build(changed("h100-1000-ib", ["oob.switches=40"])), "OOB-PORTS")
    needed = found.numbers["switches_needed"]
    assert found.remedies[0].settings == {"oob.switches": needed}
    assert found.limit == 40
    assert needed > 40


@pytest.mark.parametrize("site", ["lab", "h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid"])
def test_shipped_sites_have_networks_of_the_needed_size(site: str) -> None:
    ids = {f.id for f in plan_of(site).findings}
    assert not ids & {"INBAND-TOO-MANY", "INBAND-SPINE", "INBAND-OVERSUBSCRIBED", "INBAND-SINGLE", "OOB-TOO-MANY"}


def test_a_lost_aggregation_switch_takes_the_management_behind_it() -> None:
    plan = plan_of("b200-256-roce")
    lost = losses(plan.cables, plan.devices)
    oob = lost[lost["fabric"] == "oob"]
    managed = int((plan.devices["role"] != "oob").sum())
    assert oob["devices_unmanaged"].max() == managed
    assert not lost.loc[lost["fabric"] == "inband", "servers_cut_off"].any()
    assert only(plan, "OOB-SINGLE").numbers["lost"] == managed
