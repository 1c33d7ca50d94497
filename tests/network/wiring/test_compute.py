"""Findings on the compute fabric, and what they offer: applied to the counts alone, which are what they are about."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.build import build
from capacity.outputs.summary import part
from inventory.findings import Finding
from inventory.site import Site, SiteError, load_site, parse_site
from inventory.site.whatif import changed
from network.wiring.compute import check_small, compute_tree


@pytest.mark.parametrize(
    ("id_", "site", "values"),
    [
        ("FABRIC-RADIX", "h100-1000-ib", ["fabric.unit_nodes=40"]),
        ("FABRIC-RADIX", "h100-1000-ib", ["fabric.leaf_uplinks=40"]),
        ("FABRIC-TIERS", "h100-1000-ib", ["fabric.tiers=2"]),
        ("FABRIC-BISECTION", "h100-1000-ib", ["fabric.leaf_uplinks=16"]),
        ("FABRIC-TIERS", "h100-1000-ib", ["fabric.tiers=1"]),
        ("FABRIC-RADIX", "h100-1000-ib", ["fabric.radix=32"]),
        ("FABRIC-SINGLE-SPINE", "b200-256-roce", ["server.count=8", "fabric.unit_nodes=8"]),
        ("FABRIC-SINGLE-SWITCH", "b200-256-roce", ["server.count=8", "fabric.tiers=1"]),
    ],
)
def test_each_remedy_of_a_fabric_resolves_its_finding(id_: str, site: str, values: list[str]) -> None:
    (found,) = [one for one in found_of(changed(site, values)) if one.id == id_]
    remedies = [remedy.settings for remedy in found.remedies if remedy.settings]
    assert remedies
    for settings_of_remedy in remedies:
        remedy_values = [f"{key}={value}" for key, value in settings_of_remedy.items()]
        left = found_of(changed(site, values + remedy_values))
        assert not [one for one in left if one.severity != "info" and one.id.startswith("FABRIC-")], remedy_values


def found_of(site: Site) -> list[Finding]:
    return compute_tree(site, site.catalog)[1]


def test_the_shipped_fabrics_have_more_than_one_spine() -> None:
    for name in ("h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid"):
        assert "FABRIC-SINGLE-SPINE" not in {one.id for one in found_of(load_site(name))}


def test_a_tier_that_uses_few_ports_says_what_fills_it_and_what_the_next_step_costs() -> None:
    site = changed("b200-256-roce", ["server.count=288"])
    (found,) = [one for one in found_of(site) if one.subject == "fabric/spine"]
    assert (found.id, found.severity) == ("FABRIC-PORTS-IDLE", "info")
    fill = int(found.numbers["fill"])
    full, larger = (changed("b200-256-roce", [f"server.count={count}"]) for count in (fill, fill + 1))
    one, after, before = (compute_tree(each, each.catalog)[0] for each in (full, larger, site))
    assert one is not None
    assert after is not None
    assert before is not None
    assert one.spines + one.cores == before.spines + before.cores
    assert (after.spines - one.spines, after.cores - one.cores) == (found.numbers["spine"], found.numbers["core"])


def test_leaves_of_small_units_say_which_units_fill_them() -> None:
    (found,) = [one for one in found_of(load_site("b200-256-roce")) if one.id == "FABRIC-PORTS-IDLE"]
    assert (found.subject, found.numbers["fill"]) == ("fabric/leaf", 64)


@pytest.mark.parametrize(
    ("radix", "fill", "text"),
    [
        (64, 7, "One more takes two tiers of 8 leaf and 4 spine switches."),
        (32, 3, "the most that this fabric can have."),
    ],
)
def test_one_switch_that_uses_few_ports_says_what_one_server_more_takes(radix: int, fill: int, text: str) -> None:
    """Leaves of 32 ports have none left for spines beside a unit of 32 servers."""
    site = changed("h100-1000-ib", ["fabric.tiers=1", "server.count=1", f"fabric.radix={radix}"])
    (found,) = [one for one in found_of(site) if one.id == "FABRIC-PORTS-IDLE"]
    assert found.numbers["fill"] == fill
    assert text in found.message


FABRICS = st.fixed_dictionaries(
    {
        "server.count": st.sampled_from([1, 2, 5, 18, 36, 128, 1024, 4000]),
        "fabric.radix": st.sampled_from([8, 16, 32, 40, 64]),
        "fabric.tiers": st.sampled_from(["auto", 1, 2, 3]),
        "fabric.unit_nodes": st.sampled_from([1, 4, 16, 32, 72, 200]),
    },
    optional={
        "fabric.bisection": st.sampled_from([0.25, 0.5, 0.9, 1.0]),
        "fabric.leaf_uplinks": st.integers(1, 40),
        "fabric.least_spines": st.integers(1, 4),
    },
)


@settings(max_examples=40)
@given(st.sampled_from(["h100-1000-ib", "b200-256-roce"]), FABRICS)
def test_any_fabric_is_planned_or_refused_with_a_finding(name: str, values: dict[str, Any]) -> None:
    try:
        site = changed(name, [f"{key}={value}" for key, value in values.items()])
    except SiteError:
        return
    tree, found = compute_tree(site, site.catalog)
    assert tree is not None or [one for one in found if one.severity == "error"]


def test_a_refusal_for_few_ports_names_the_ports_of_the_model() -> None:
    (found,) = found_of(changed("h100-1000-ib", ["fabric.radix=32"]))
    assert {"fabric.radix": 64} in [dict(way.settings) for way in found.remedies]


def test_a_small_cluster_is_planned_on_one_switch_with_its_subnet_managers() -> None:
    plan = build(changed("h100-1000-ib", ["fabric.tiers=1", "server.count=7"]))
    compute = plan.cables[plan.cables["fabric"] == "compute"]
    assert plan.tree is not None
    assert plan.tree.tiers == 1
    assert (compute["b_device"] == "ibl001").all()
    assert not compute["b_port"].duplicated().any()
    assert compute["stage"].value_counts().to_dict() == {"node-leaf": 56, "manager-leaf": 2}
    assert not [one for one in plan.findings if one.severity == "error" and one.id.startswith("FABRIC-")]
    assert part(plan, "fabric")["tiers"] == 1


@pytest.mark.parametrize(
    ("settings", "offered"),
    [
        (["fabric.least_spines=40"], [{"fabric.least_spines": 31}]),
        (["fabric.least_spines=9", "fabric.leaf_uplinks=8"], [{"fabric.leaf_uplinks": 9}, {"fabric.least_spines": 8}]),
        (
            ["fabric.least_spines=2", "fabric.tiers=1", "server.count=7"],
            [{"fabric.least_spines": 1}, {"fabric.tiers": 2}],
        ),
    ],
)
def test_spines_that_a_leaf_cannot_reach_are_refused_with_what_mends(
    settings: list[str], offered: list[dict[str, int]]
) -> None:
    site = changed("h100-1000-ib", [*settings, "fabric.bisection=0.25"])
    (found,) = [one for one in found_of(site) if one.id == "FABRIC-SPINES"]
    assert found.severity == "error"
    assert [dict(way.settings) for way in found.remedies] == offered
    for way in offered:
        after = changed(
            "h100-1000-ib", [*settings, "fabric.bisection=0.25", *(f"{key}={value}" for key, value in way.items())]
        )
        assert "FABRIC-SPINES" not in {one.id for one in found_of(after)}


def test_spines_that_only_a_design_asks_for_do_not_count_on_one_switch() -> None:
    text = "schema_version: 1\nname: small\nbased_on: [mi355x-ethernet]\nserver: {count: 2}\nfabric: {tiers: 1}\n"
    site = parse_site(text)
    assert site.fabric.least_spines == 2
    assert "FABRIC-SPINES" not in {one.id for one in found_of(site)}


@pytest.mark.parametrize(
    ("servers", "managers", "small"), [(1, "[]", True), (8, "[]", True), (8, "[management]", False), (9, "[]", False)]
)
def test_more_switches_than_one_for_few_servers_are_named(servers: int, managers: str, small: bool) -> None:
    settings = [f"server.count={servers}", f"fabric.subnet_managers={managers}"]
    found = small_of(changed("h100-1000-ib", settings))
    assert len(found) == small
    for one in found:
        assert one.numbers["switches"] > 1
        assert one.numbers["fill"] == 64 // 8
        (way,) = one.remedies
        after = changed("h100-1000-ib", [*settings, *(f"{key}={value}" for key, value in way.settings.items())])
        assert small_of(after) == []


def small_of(site: Site) -> list[Finding]:
    tree, _ = compute_tree(site, site.catalog)
    assert tree is not None
    return check_small(site, tree)


def test_servers_added_to_one_switch_move_no_cable() -> None:
    before = build(changed("h100-1000-ib", ["fabric.tiers=1", "server.count=6"]))
    after = build(changed("h100-1000-ib", ["fabric.tiers=1", "server.count=7"]), baseline=before)
    ends = ["a_device", "a_port", "b_device", "b_port"]
    old, new = (plan.cables[plan.cables["fabric"] == "compute"][ends] for plan in (before, after))
    assert len(old.merge(new)) == len(old)


@pytest.mark.parametrize(("written", "share"), [("'2:1'", 0.5), ("'1:1'", 1.0), ("'3:2'", 2 / 3), ("0.5", 0.5)])
def test_a_ratio_of_ports_is_read_as_share_of_bisection(written: str, share: float) -> None:
    assert changed("h100-1000-ib", [f"fabric.bisection={written}"]).fabric.bisection == pytest.approx(share)
