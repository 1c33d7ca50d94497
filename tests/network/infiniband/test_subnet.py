"""What the subnet managers are told."""

import pytest
import yaml

from inventory.delivered.assets import load_assets
from inventory.paths import repo_root
from network.infiniband import subnet
from tests.plans import plan_of


@pytest.fixture(scope="module")
def plan():
    return plan_of("lab")


@pytest.fixture(scope="module")
def guids(plan):
    return subnet.guid_book(load_assets(plan.site))


def lines(plan, guids, host, path):
    return subnet.render(plan, guids, host)[path].splitlines()


def test_the_first_role_of_the_site_is_the_master(plan):
    assert subnet.managers(plan) == ["mgm01", "ctl01"]


def test_managers_sit_on_different_leaves(plan):
    rows = plan.cables[plan.cables["stage"] == "manager-leaf"]
    assert rows["b_device"].is_unique


def test_managers_differ_in_port_and_priority_only(plan, guids):
    one, other = (set(lines(plan, guids, host, subnet.CONFIG)) for host in ("mgm01", "ctl01"))
    assert one - other == {f"guid 0x{guids['mgm01:ib0']}", "sm_priority 15"}
    assert other - one == {f"guid 0x{guids['ctl01:ib0']}", "sm_priority 14"}
    for path in (subnet.PARTITIONS, subnet.ROOTS, subnet.UNIT_FILE):
        assert subnet.render(plan, guids, "mgm01")[path] == subnet.render(plan, guids, "ctl01")[path]


def test_roots_are_the_switches_of_the_highest_tier(plan, guids):
    wanted = [f"0x{guids[name]}" for name in ("ibs001", "ibs002", "ibs003", "ibs004")]
    assert lines(plan, guids, "mgm01", subnet.ROOTS) == wanted


def test_partitions_have_one_guid_a_line(plan, guids):
    text = lines(plan, guids, "mgm01", subnet.PARTITIONS)
    assert max(line.count("0x") for line in text) == 1
    compute = text[text.index("compute=0x0001:") + 1 :]
    assert len(compute) == 32
    assert compute[-1].endswith(";")
    assert not any(guids["mgm01:ib0"] in line for line in compute)


def test_expected_keys_are_those_that_the_partitions_give(plan):
    keys = subnet.expected_pkeys(plan)
    assert keys["mgm01:ib0"] == {0xFFFF}
    assert keys["gpu004:ib7"] == {0x7FFF, 0x8001}
    assert len(keys) == 34


def test_every_lane_with_weight_is_one_that_a_service_level_uses():
    lanes = {lane for weights in subnet.expected_arbitration().values() for lane in weights}
    assert lanes == set(subnet.expected_lanes()) == set(range(subnet.DATA_LANES))


def test_a_guid_that_the_asset_list_lacks_is_named(plan, guids):
    known = {name: guid for name, guid in guids.items() if name not in ("ibs002", "gpu003:ib4")}
    with pytest.raises(subnet.MissingGuidsError, match="ibs002, gpu003:ib4"):
        subnet.render(plan, known, "mgm01")


def test_a_host_without_manager_is_refused_with_those_that_have_one(plan, guids):
    with pytest.raises(KeyError, match="mgm01, ctl01"):
        subnet.render(plan, guids, "sto01")


def test_what_pulumi_installs_is_listed_for_mirrors():
    listed = yaml.safe_load((repo_root() / "playbooks" / "packages.yaml").read_text())
    assert listed["by_pulumi"]["subnet_manager"] == list(subnet.PACKAGES)
