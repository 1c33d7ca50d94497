"""The fabric as several hosts see it: what one is cut off from is one finding, with nothing said of its consequences."""

from typing import Any

from bench.fabric import discovered_text, made_up_guids
from network.infiniband import parse, subnet
from tests.plans import plan_of
from validation.facts import Answer, Facts
from validation.infiniband import findings

FIRST, SECOND = subnet.managers(plan_of("lab"))


def view(plan: Any, guids: dict[str, str], host: str, cables: Any, alone: bool) -> Answer:
    """What a host sees over these cables; `alone`, it is the master of its part."""
    changed = type("Changed", (), {"cables": cables})()
    if cables.empty:
        return Answer(host, "infiniband", error=f"{host}: no port with a link", error_kind="DeviceError")
    seen = parse.discovery(discovered_text(changed, guids, "4xHDR"))
    number = subnet.managers(plan).index(host)
    state = "MASTER" if alone or number == 0 else "STANDBY"
    port = subnet.manager_port(plan, host)
    data = {
        "nodes": seen.nodes.to_numpy().tolist(),
        "links": seen.links.to_numpy().tolist(),
        "systems": dict(seen.systems),
        "errors": {},
        "own": {"state": state, "priority": subnet.HIGHEST_PRIORITY - number, "guid": guids[port]},
        "engine": subnet.ROUTING[0],
    }
    return Answer(host, "infiniband", data)


def found(cut: Any, part: Any) -> list[tuple[str, str]]:
    """Findings where the second host sees `part` of the compute cables, and the first what is not cut."""
    plan = plan_of("lab")
    guids = made_up_guids(plan)
    cables = plan.cables[plan.cables["fabric"] == "compute"]
    leaf = cables.loc[cables["a_device"] == SECOND, "b_device"].item()
    lit, own = cables[~cut(cables, leaf)], part(cables, leaf)
    views = {
        FIRST: view(plan, guids, FIRST, lit[~own[lit.index]], alone=False),
        SECOND: view(plan, guids, SECOND, lit[own[lit.index]], alone=True),
    }
    facts = Facts(subnets=views)
    return [(one.id, one.subject.replace(leaf, "its leaf")) for one in findings(plan, guids, facts)]


def test_a_leaf_without_uplinks_is_one_finding_though_a_manager_is_behind_it() -> None:
    assert found(
        lambda cables, leaf: (cables["a_device"] == leaf) & (cables["stage"] == "leaf-spine"),
        lambda cables, leaf: cables["b_device"] == leaf,
    ) == [("TOPOLOGY-CUT-OFF", "its leaf")]


def test_a_manager_whose_own_cable_is_cut_is_one_finding() -> None:
    assert found(
        lambda cables, leaf: cables["a_device"] == SECOND,
        lambda cables, leaf: cables["a_device"] == SECOND,
    ) == [("LINK-DOWN", SECOND)]


def test_two_hosts_that_see_the_whole_fabric_see_no_more_than_one() -> None:
    plan = plan_of("lab")
    guids = made_up_guids(plan)
    both = {host: view(plan, guids, host, plan.cables, alone=False) for host in (FIRST, SECOND)}
    assert findings(plan, guids, Facts(subnets=both)) == []


def test_a_leaf_that_nobody_sees_is_silent() -> None:
    plan = plan_of("lab")
    guids = made_up_guids(plan)
    cables = plan.cables[(plan.cables["a_device"] != "ibl003") & (plan.cables["b_device"] != "ibl003")]
    both = {one: view(plan, guids, one, cables, alone=False) for one in (FIRST, SECOND)}
    assert [(f.id, f.subject) for f in findings(plan, guids, Facts(subnets=both))] == [("DEVICE-SILENT", "ibl003")]
