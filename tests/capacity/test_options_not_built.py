"""A site that names an option which nothing configures gets a finding that says so."""

import pytest

from inventory.site import site_names
from network.render import switches
from tests.plans import plan_of


@pytest.mark.parametrize("name", site_names())
def test_congestion_control_that_no_switch_gets_is_a_finding(name: str) -> None:
    plan = plan_of(name)
    compute = set(plan.devices.loc[(plan.devices["kind"] == "switch") & (plan.devices["fabric"] == "compute"), "name"])
    not_built = bool(plan.site.fabric.congestion_control) and not compute & set(switches(plan))
    found = [(f.severity, f.subject) for f in plan.findings if f.id == "FABRIC-CONGESTION-CONTROL"]
    assert found == ([("warning", "fabric.congestion_control")] if not_built else [])
    assert not_built == (plan.site.fabric.kind == "roce")
