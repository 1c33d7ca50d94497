"""The discovered fabric against the plan: healthy, and every way in which cables and managers go wrong."""

import re

import pytest

from bench.fabric import discovered_text, made_up_guids
from inventory.delivered.assets import load_assets
from network.infiniband import compare, parse, subnet
from tests.findings import names
from tests.network.infiniband.fabrics import recorded
from tests.plans import plan_of

HEALTHY = recorded("ibnetdiscover.txt")


@pytest.fixture(scope="module")
def plan():
    return plan_of("lab")


@pytest.fixture(scope="module")
def guids(plan):
    return subnet.guid_book(load_assets(plan.site))


def findings(plan, guids, text, **more):
    return compare.topology(plan, parse.discovery(text), guids, **more)


def ids(found):
    return [(f.id, f.subject) for f in found]


def rewired(plan, guids, changes):
    """The lab's fabric with some cables led elsewhere: {(device, port of the upper end): (device, port)}."""
    cables = plan.cables[plan.cables["fabric"] == "compute"].copy()
    ends = [changes.get(end, end) for end in zip(cables["b_device"], cables["b_port"], strict=True)]
    cables[["b_device", "b_port"]] = ends
    changed = type("Changed", (), {"cables": cables})()
    return discovered_text(changed, guids, "4xHDR")


def without(plan, guids, keep):
    changed = type("Changed", (), {"cables": plan.cables[keep(plan.cables)]})()
    return discovered_text(changed, guids, "4xHDR")


def test_the_recorded_fabric_is_as_planned(plan, guids):
    assert findings(plan, guids, HEALTHY) == []


def test_a_made_up_fabric_is_read_as_a_recorded_one(plan, guids):
    assert findings(plan, guids, discovered_text(plan, guids, "4xHDR")) == []


def test_two_swapped_cables_are_one_finding_that_names_the_plugs_and_the_rails(plan, guids):
    text = rewired(plan, guids, {("ibl003", "p1"): ("ibl004", "p1"), ("ibl004", "p1"): ("ibl003", "p1")})
    (finding,) = findings(plan, guids, text)
    assert finding.id == "TOPOLOGY-SWAPPED"
    assert finding.ports == ("gpu001:ib2", "gpu001:ib3", "ibl003:p1", "ibl004:p1")
    assert names(finding, "rails", 2, 3)


def test_swapped_uplinks_are_found_though_the_tree_stays_a_tree(plan, guids):
    text = rewired(plan, guids, {("ibs001", "p1"): ("ibs002", "p1"), ("ibs002", "p1"): ("ibs001", "p1")})
    (finding,) = findings(plan, guids, text)
    assert (finding.id, finding.subject) == ("TOPOLOGY-SWAPPED", "ibl001")
    assert not names(finding, "rails")


def test_a_missing_cable_is_a_link_that_is_down(plan, guids):
    text = without(plan, guids, lambda c: c["cable_id"] != "ibl005:p6")
    (finding,) = findings(plan, guids, text)
    assert finding.id == "LINK-DOWN"
    assert set(finding.ports) == {"ibl005:p6", "ibs002:p5"}


def test_a_dead_switch_is_one_finding_whatever_hangs_on_it(plan, guids):
    text = without(plan, guids, lambda c: ~c[["a_device", "b_device"]].eq("ibl002").any(axis=1))
    assert ids(findings(plan, guids, text)) == [("DEVICE-SILENT", "ibl002")]


def test_nothing_is_said_of_the_cables_of_a_server_that_is_known_to_be_down(plan, guids):
    text = without(plan, guids, lambda c: c["a_device"] != "gpu002")
    assert findings(plan, guids, text, dark=["gpu002"]) == []
    assert len(findings(plan, guids, text)) == 8


def test_a_slow_link_is_named_with_both_rates(plan, guids):
    text = re.sub(r'("gpu002 mlx5_4".*) 4xHDR', r"\1 1xHDR", HEALTHY)
    text = re.sub(r"(\(2420a0003000241\).*) 4xHDR", r"\1 1xHDR", text)
    (finding,) = findings(plan, guids, text)
    assert (finding.id, finding.ports) == ("LINK-RATE", ("gpu002:ib4", "ibl005:p2"))
    assert names(finding, "50 Gb/s", "200 Gb/s")


def test_an_exchanged_adapter_is_named_with_both_guids(plan, guids):
    text = HEALTHY.replace("2420a0003000221", "2420a00030099f1").replace("02420a0003000220", "02420a00030099f0")
    found = findings(plan, guids, text)
    (finding,) = [f for f in found if f.id == "ADAPTER-EXCHANGED"]
    assert finding.subject == "gpu002"
    assert names(finding, "gpu002:ib2", "02420a00030099f1", "02420a0003000221")


def test_devices_without_a_listed_guid_go_by_their_description(plan, guids):
    known = {name: guid for name, guid in guids.items() if name not in ("gpu003:ib5", "ibs004")}
    assert findings(plan, known, HEALTHY) == []


def test_a_managed_switch_is_known_by_the_name_in_its_description(plan, guids):
    known = {name: guid for name, guid in guids.items() if name != "ibs004"}
    assert findings(plan, known, HEALTHY.replace('"ibs004"', '"MF0;ibs004:MQM9700/U1"')) == []


# ---- foreign devices -------------------------------------------------------------------------------------------------
FOREIGN = """vendid=0x2c9
devid=0x1017
sysimgguid=0x506b4b0300f0f0f0
caguid=0x506b4b0300f0f0f0
Ca\t1 "H-506b4b0300f0f0f0"\t\t# "{label}"
[1](506b4b0300f0f0f1) \t"S-02420a0005000030"[{port}]\t\t# lid 99 lmc 0 "ibl003" lid 16 4xHDR
"""


def with_foreign(label, port, instead=""):
    """The lab's fabric with an adapter of another site on leaf ibl003, instead of the adapter with that key."""
    text = HEALTHY
    if instead:
        text = "\n\n".join(block for block in text.split("\n\n") if f'Ca\t1 "{instead}"' not in block)
        text = "\n".join(line for line in text.split("\n") if f'\t"{instead}"[1]' not in line)
    there = f'[{port}]\t"H-506b4b0300f0f0f0"[1](506b4b0300f0f0f1) \t\t# "{label}" lid 99 4xHDR'
    head = next(line for line in text.split("\n") if line.startswith("Switch") and '"S-02420a0005000030"' in line)
    return text.replace(head, f"{head}\n{there}") + "\n" + FOREIGN.format(label=label, port=port)


@pytest.mark.parametrize("label", ["backup07 mlx5_0", "rack 4: spare [2:1]", "", "Quantum: test"])
def test_a_foreign_adapter_on_a_free_port_says_what_is_there(plan, guids, label):
    (found,) = findings(plan, guids, with_foreign(label, 9))
    assert (found.id, found.subject, found.ports) == ("TOPOLOGY-FOREIGN", "ibl003", ("ibl003:p9",))
    assert names(found, "506b4b0300f0f0f1", label or "unnamed")


def test_a_foreign_adapter_on_a_planned_port_names_what_is_planned_there(plan, guids):
    (found,) = findings(plan, guids, with_foreign("backup07 mlx5_0", 2, "H-02420a0003000220"))
    assert (found.id, found.ports) == ("TOPOLOGY-FOREIGN", ("ibl003:p2",))
    assert names(found, "backup07 mlx5_0", "gpu002:ib2")


def test_an_aggregation_node_is_no_foreign_device(plan, guids):
    assert findings(plan, guids, with_foreign("Mellanox Technologies Aggregation Node", 41)) == []


# ---- counters -------------------------------------------------------------------------------------------------------
def test_an_errored_link_is_named_at_both_ends(plan, guids):
    counters = parse.counters(recorded("ibqueryerrors-symbol-errors.txt"))
    found = compare.errors(counters, parse.discovery(HEALTHY), guids, plan, 10, "site limits.ib_link_errors_max")
    assert [(f.id, f.subject, f.ports) for f in found] == [("LINK-ERRORS", "ibl003", ("ibl003:p5", "ibs001:p3"))]
    assert found[0].limit == 10
    assert found[0].numbers == {"SymbolErrorCounter": 1000.0}


def test_errors_within_the_limit_are_no_finding(plan, guids):
    counters = parse.counters(recorded("ibqueryerrors-symbol-errors.txt"))
    assert compare.errors(counters, parse.discovery(HEALTHY), guids, plan, 1000, "limit") == []


# ---- managers -------------------------------------------------------------------------------------------------------
def seen(guids):
    return {
        "mgm01": {"state": "MASTER", "priority": 15, "guid": guids["mgm01:ib0"], "engine": "ftree"},
        "ctl01": {"state": "STANDBY", "priority": 14, "guid": guids["ctl01:ib0"], "engine": ""},
    }


def test_two_managers_in_their_places_are_no_finding(plan, guids):
    assert compare.subnet_managers(plan, guids, seen(guids)) == []


@pytest.mark.parametrize(
    ("host", "change", "named"),
    [
        ("ctl01", {"state": ""}, ["No answer", "STANDBY", 14]),
        ("ctl01", {"state": "", "error": "refused by ctl01"}, ["refused by ctl01", "STANDBY", 14]),
        ("ctl01", {"priority": 0}, [0, 14]),
        ("mgm01", {"state": "STANDBY"}, ["STANDBY", "MASTER", 15]),
        ("mgm01", {"guid": "02420a00030099f1"}, ["02420a00030099f1"]),
    ],
)
def test_a_manager_out_of_its_place_is_named(plan, guids, host, change, named):
    managers = seen(guids)
    managers[host] |= change
    (finding,) = compare.subnet_managers(plan, guids, managers)
    assert (finding.id, finding.subject, finding.ports) == ("SUBNET-MANAGER", host, (f"{host}:ib0",))
    assert names(finding, *named, guids[f"{host}:ib0"])


def test_a_fallback_of_the_routing_engine_is_named(plan, guids):
    managers = seen(guids)
    managers["mgm01"]["engine"] = "updn"
    (finding,) = compare.subnet_managers(plan, guids, managers)
    assert (finding.id, finding.subject) == ("SUBNET-ROUTING", "mgm01")
    assert names(finding, "updn", "ftree")


@pytest.mark.parametrize("lost", ["mgm01", "ibl001"])
def test_without_the_host_or_leaf_of_the_master_the_standby_is_rightly_master(plan, guids, lost):
    managers = {"ctl01": seen(guids)["ctl01"] | {"state": "MASTER", "engine": "ftree"}}
    assert compare.subnet_managers(plan, guids, managers, [lost]) == []


def test_the_large_site_is_compared_as_a_whole():
    plan = plan_of("h100-1000-ib")
    guids = made_up_guids(plan)
    found = compare.topology(plan, parse.discovery(discovered_text(plan, guids)), guids)
    assert found == []


# ---- a fabric that no list knows -------------------------------------------------------------------------------------
def unnamed(text):
    """The fabric whose switches have their factory's description."""
    return re.sub(r'"ib[ls]0[0-9]+"', '"Quantum-2 Mellanox Technologies"', text)


def test_a_fabric_of_unknown_switches_is_one_finding_with_the_way_out(plan):
    (found,) = findings(plan, {}, unnamed(HEALTHY))
    assert (found.id, found.numbers) == ("TOPOLOGY-UNKNOWN", {"switches": 12, "listed": 0, "planned": 12})
    assert names(found, "bringup import ibnetdiscover")


def test_one_known_switch_is_enough_to_compare_by(plan, guids):
    found = findings(plan, {"ibl003": guids["ibl003"]}, unnamed(HEALTHY))
    assert "TOPOLOGY-UNKNOWN" not in {one.id for one in found}
