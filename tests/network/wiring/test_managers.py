"""Subnet managers of an InfiniBand fabric: two of them, or a finding whose remedy gives them a place."""

import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.sizes import complete
from inventory.findings import Finding
from inventory.site import parse_site
from inventory.site.new import Wanted, site_text
from tests.first_sites import first_plan
from tests.plans import plan_of


def planned(wanted: Wanted) -> Plan:
    """A new site with both managers, which `bringup new` leaves to the person."""
    return build(complete(parse_site(f"{site_text(wanted)}fabric: {{subnet_managers: [management, controller]}}\n")))


def said(plan: Plan) -> list[Finding]:
    return [one for one in plan.findings if one.id == "FABRIC-MANAGER-COUNT"]


def cabled(plan: Plan) -> int:
    return int(plan.cables["stage"].eq("manager-leaf").sum())


def test_64_servers_leave_no_place_and_63_as_in_the_published_table_do() -> None:
    """RA-11333-001, table 4: two units have 63 servers, 508 cables of servers and UFM (63 x 8 and four)."""
    (found,) = said(first_plan("h100"))
    assert (found.severity, found.limit, found.numbers["places"]) == ("warning", 2, 0)
    wanted = {"server.count": 63, "fabric.subnet_managers": ["management", "controller"]}
    assert found.remedies[0].settings == wanted
    less = planned(Wanted("first-h100", gpu="h100", fabric="ib", servers=63, power_kw=1200))
    assert not said(less)
    assert cabled(less) == 2
    assert not [one.message for one in less.findings if one.severity == "error"]


def test_a_switch_with_a_port_of_its_own_for_a_manager_has_a_place_for_two() -> None:
    plan = first_plan("gb300")
    assert not said(plan)
    assert plan.cables.loc[plan.cables["stage"] == "manager-leaf", "b_port"].tolist() == ["fnm1", "fnm1"]


def test_one_manager_has_no_standby() -> None:
    plan = planned(Wanted("hall", gpu="h100", fabric="ib", servers=31))
    assert cabled(plan) == 2
    alone = plan.site.fabric.model_copy(update={"subnet_managers": ("controller",)})
    (found,) = said(build(plan.site.model_copy(update={"fabric": alone})))
    assert found.remedies[0].settings == {"fabric.subnet_managers": ["controller", "management"]}


@pytest.mark.parametrize("name", ["lab", "h100-1000-ib", "gb300-nvl72-liquid", "b200-256-roce"])
def test_shipped_sites_have_two_and_ethernet_needs_none(name: str) -> None:
    assert not said(plan_of(name))
