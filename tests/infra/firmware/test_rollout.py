"""The order of a roll-out and what is told of versions, from inventories alone."""

import hashlib
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.firmware.rollout import COLUMNS, mixed, outstanding, stages, told, versions
from inventory.delivered.firmware import Bundle


def bundle(**items: str) -> Bundle:
    """A bundle with one package for each item=version, in this order."""
    image = {"file": "x.bin", "sha256": hashlib.sha256(b"").hexdigest(), "folder": Path("/nowhere")}
    packages = [
        {"name": item, "image": image, "versions": {item: version}, "takes_effect": "at_once", "budget_min": 1}
        for item, version in items.items()
    ]
    return Bundle.model_validate({"bundle": "1", "model": "m", "source": "this test", "packages": packages})


def test_packages_that_run_are_not_outstanding_and_absent_items_are_named():
    wanted = bundle(BMC="2", BIOS="5", NIC="7")
    found = outstanding(wanted, {"BMC": "2", "BIOS": "4", "other": "1"})
    assert [(one.package.name, dict(one.behind), one.absent) for one in found] == [
        ("BIOS", {"BIOS": "4"}, ()),
        ("NIC", {}, ("NIC",)),
    ]
    assert outstanding(wanted, {"BMC": "2", "BIOS": "5", "NIC": "7"}) == []


def test_mixed_versions_are_told_with_their_servers():
    inventories = {f"gpu{n}": {"BIOS": "5" if n < 3 else "4"} for n in range(1, 5)} | {"gpu5": {}}
    lines = told(versions(inventories, dict.fromkeys(inventories, bundle(BIOS="5"))))
    assert lines == [
        "m BIOS: 5 on 2 servers (BIOS)",
        "m BIOS: 4 instead of 5 on 2 servers (BIOS): gpu3, gpu4",
        "m BIOS: not in the BMC's inventory instead of 5 on 1 server (BIOS): gpu5",
    ]


def test_one_server_then_its_rack_then_the_others():
    servers = pd.DataFrame(
        [("a", "x", "r2"), ("b", "x", "r1"), ("c", "x", "r2"), ("d", "x", "r2"), ("e", "y", "r1")],
        columns=["name", "model", "rack"],
    )
    assert [(stage.name, stage.servers) for stage in stages(servers, 8)] == [
        ("x: one server", ("a",)),
        ("x: rack r2", ("c", "d")),
        ("x: rack r1", ("b",)),
        ("y: one server", ("e",)),
    ]
    assert stages(servers[:0], 8) == []


@given(
    rows=st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("123456")), max_size=40),
    most=st.integers(1, 9),
)
def test_every_server_is_in_one_stage_of_at_most_so_many(rows, most):
    servers = pd.DataFrame([(f"s{n}", *row) for n, row in enumerate(rows)], columns=["name", "model", "rack"])
    found = stages(servers, most)
    assert sorted(name for stage in found for name in stage.servers) == sorted(servers["name"])
    assert all(1 <= len(stage.servers) <= most for stage in found)
    model = servers.set_index("name")["model"]
    begun = set()
    for stage in found:
        (kind,) = set(model[list(stage.servers)])
        assert kind in begun or len(stage.servers) == 1
        begun.add(kind)


@pytest.mark.parametrize("count", [1000])
def test_a_thousand_servers_are_staged_by_racks(count):
    servers = pd.DataFrame(
        {"name": [f"s{n}" for n in range(count)], "model": "m", "rack": [f"r{n // 4}" for n in range(count)]}
    )
    assert len(stages(servers, 16)) == 1 + count // 4


def test_a_package_that_runs_in_two_versions_is_named_with_the_servers_of_each():
    inventories = {f"gpu{n:03d}": {"BIOS": "5" if n == 1 else "4", "BMC": "2"} for n in range(1, 9)}
    table = versions(inventories, dict.fromkeys(inventories, bundle(BIOS="5", BMC="2")))
    assert [line.partition(" is mixed ")[2] for line in mixed(table)] == [
        "(BIOS): 4 on gpu002, gpu003, gpu004, gpu005, gpu006 and 2 more; 5 on gpu001"
    ]


def test_items_that_are_mixed_alike_share_a_line_and_what_all_run_is_not_mixed():
    rows = [("m", "NIC", server, item, server[-1], "2") for server in ("gpu1", "gpu2") for item in ("NIC_1", "NIC_2")]
    rows += [("m", "BMC", server, "BMC", "1", "2") for server in ("gpu1", "gpu2")]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    assert mixed(table) == ["m NIC is mixed (NIC_1, NIC_2): 1 on gpu1; 2 on gpu2"]
    assert mixed(versions({}, {})) == []
