"""Reference designs and the effective site: order of what says a value, origins, contradictions, misfits."""

from typing import Any

import pytest
import yaml

from inventory.catalog import load_catalog
from inventory.site import Site, SiteError, parse_site
from inventory.site.effective import Origin, offers
from inventory.site.explain import explain, origin_of
from inventory.site.messages import nearest
from inventory.site.references import (
    Reference,
    ReferenceError,
    at,
    joined,
    leaves,
    lineage,
    reference,
    reference_names,
)

BASE: dict[str, Any] = {
    "schema_version": 1,
    "name": "hall",
    "based_on": ["dgx-superpod-h100"],
    "server": {"count": 64},
}


def site(**changes: Any) -> Site:
    """The small site with some top-level keys changed."""
    return parse_site(yaml.safe_dump({**BASE, **changes}))


def problems_of(**changes: Any) -> list[Any]:
    with pytest.raises(SiteError) as caught:
        site(**changes)
    return list(caught.value.problems)


@pytest.mark.parametrize("slug", reference_names())
def test_every_design_reads_and_names_a_source_for_each_value(slug: str) -> None:
    one = reference(slug)
    assert all(one.source_of(path).strip() for path, _ in leaves(one.values))
    assert not joined([slug]).contradictions
    known = joined([slug])
    for key in (*one.sources, *one.ranges):
        path = tuple(key.split("."))
        assert any(place[: len(path)] == path[: len(place)] for place in known.origins), f"{slug}: {key} names no value"


@pytest.mark.parametrize("slug", reference_names())
def test_a_planned_value_stands_in_its_range(slug: str) -> None:
    made = joined([slug])
    for key, span in made.spans().items():
        value = at(made.value, tuple(key.split(".")))
        if isinstance(value, int | float):
            assert span.low <= value <= span.high, key


@pytest.mark.parametrize("slug", sorted(offers().values()))
def test_every_offer_is_a_site_with_a_name_and_a_count(slug: str) -> None:
    trays = at(joined([slug]).value, ("server", "system"))
    made = site(based_on=[slug], server={"count": 72 if trays else 32})
    assert made.gpu.tdp_w > 0
    assert made.fabric.radix > 0
    assert made.name == "hall"


def test_every_leaf_of_the_effective_site_has_an_origin_with_a_source() -> None:
    effective = site().effective
    kinds = set()
    for path, _ in leaves(effective.value):
        origin = effective.origin(path)
        assert origin is not None, path
        assert origin.source.strip(), path
        kinds.add(origin.kind)
    assert kinds == {"given", "reference", "catalogue", "computed"}


def test_the_file_goes_before_the_design_and_the_design_before_the_catalogue() -> None:
    catalog = load_catalog()
    plain = site()
    assert plain.rack.servers == 4
    assert origin_of(plain, ("rack", "servers")).design == "dgx-superpod-h100"
    assert plain.server.power.nameplate_w == catalog.device("nvidia-dgx-h100").bringup.power.nameplate_w
    assert origin_of(plain, ("server", "power", "nameplate_w")).kind == "catalogue"
    said = site(rack={"servers": 2}, server={"count": 64, "power": {"nameplate_w": 9000}})
    assert said.rack.servers == 2
    assert origin_of(said, ("rack", "servers")).kind == "given"
    assert said.rack.model == plain.rack.model
    assert said.server.power.nameplate_w == 9000
    assert said.server.power.measured_w == plain.server.power.measured_w


def test_entries_of_named_lists_are_joined_one_by_one() -> None:
    said = site(service_nodes=[{"role": "management", "count": 4}])
    nodes = {node.role: node for node in said.service_nodes}
    assert nodes["management"].count == 4
    assert nodes["management"].model == {node.role: node for node in site().service_nodes}["management"].model
    assert nodes["controller"].count == 3


def test_null_drops_what_a_design_gives() -> None:
    said = site(schedule={"activities": {"receiving": None, "racking": {"after": []}}}, purchase=None)
    assert "receiving" not in said.schedule.activities
    assert said.schedule.activities["racking"].max_weeks == site().schedule.activities["racking"].max_weeks
    assert said.purchase.prices == ()
    assert site().purchase.prices
    assert not [path for path in said.effective.origins if path[:1] == ("purchase",)]
    assert not [path for path in said.effective.origins if "receiving" in path]


def test_a_key_of_the_file_stands_behind_the_one_before_it() -> None:
    activity = {"group": "D04", "min_weeks": 1, "max_weeks": 2, "source": "ours"}
    said = site(schedule={"activities": {"receiving": {"max_weeks": 3}, "second": activity, "third": {**activity}}})
    names = list(said.schedule.activities)
    assert names[names.index("receiving") :][:4] == ["receiving", "second", "third", "racking"]


def test_null_drops_no_mandatory_section_unseen() -> None:
    (problem,) = problems_of(cooling=None)
    assert (problem.path, problem.what) == (("cooling",), "a mandatory key is missing")


def test_a_key_of_a_design_that_does_not_go_with_the_file_is_dropped_by_null() -> None:
    electrical = {"generators": None}
    (problem,) = problems_of(generator={"present": False}, electrical=electrical)
    assert problem.path == ("generator", "start_s")
    assert problem.do == "write start_s: null, or write present: true"
    assert not site(generator={"present": False, "start_s": None}, electrical=electrical).generator.present


def test_null_where_no_design_gives_a_value_is_a_key_without_its_value() -> None:
    (problem,) = problems_of(server={"count": None})
    assert problem.what == "a key without its value"


def test_a_source_does_not_vouch_for_what_the_file_changes() -> None:
    said = site(electrical={"swing": {"idle_w": 1000}})
    source = at(said.effective.value, ("electrical", "swing", "source"))
    assert source.startswith("site file for idle_w; the rest: ")


def test_the_source_of_a_section_of_the_file_goes_with_its_own_values() -> None:
    """Those that the design gives beside them keep the source of the design, in the effective site and in what explain tells."""
    made = site(
        leadtimes={"transformer": {"max_weeks": 90, "source": "quote 4711 of 2027-01-05"}},
        purchase={"prices": [{"item": "rack", "unit_price": 2000, "source": "quote 12"}]},
        schedule={"calendar": {"working_days": ["mon"], "source": "crew list"}},
        electrical={"swing": {"idle_w": 9}},
    )
    own = {
        "leadtimes.transformer.max_weeks": "site file: quote 4711 of 2027-01-05",
        "leadtimes.transformer.source": "site file",
        "purchase.prices.rack.unit_price": "site file: quote 12",
        "schedule.calendar.working_days": "site file: crew list",
        "electrical.swing.idle_w": "site file",
    }
    for key, source in own.items():
        assert explain(made, key).origins[key] == Origin("given", source)
    key, before = "leadtimes.transformer.min_weeks", site()
    assert explain(made, key).origins[key] == origin_of(before, tuple(key.split(".")))
    assert explain(made, key).origins[key].kind == "reference"
    assert made.leadtimes["transformer"].source == "quote 4711 of 2027-01-05"


def test_the_source_of_a_source_is_itself() -> None:
    """That of the price of a GPU was shown as the reference architecture, which has no prices."""
    path = ("purchase", "prices", "gpu", "source")
    assert origin_of(site(), path).source == at(site().effective.value, path)


@pytest.mark.parametrize(
    ("key", "source"),
    [
        ("purchase.prices.gpu.unit_price", "planning figure of 2026, not a quote"),
        ("limits.os_eol_min_months.value", "ERR-21: warn under twelve months of standard support"),
        ("electrical.swing.idle_w", "planning figure: GPUs idle at about 70 W each, fans and processors stay"),
        ("electrical.rack_conductor.size", "NEC chapter 9 table 9, PVC conduit"),
        ("rack.servers", "planning figure: four of 10.2 kW, what three circuits of 60 A carry with one of them lost"),
    ],
)
def test_a_source_beside_the_value_goes_before_that_of_its_design(key: str, source: str) -> None:
    assert origin_of(site(), tuple(key.split("."))).source == source


def test_a_typo_in_based_on_says_what_was_meant() -> None:
    (problem,) = problems_of(based_on=["dgx-superpod-h10"])
    assert problem.nearest == "dgx-superpod-h100"
    assert problem.path == ("based_on", 0)


def test_a_typo_in_a_file_of_six_lines_says_what_was_meant() -> None:
    (problem,) = problems_of(sever={"count": 64}, server={"count": 64})
    assert problem.nearest == "server"
    (problem,) = problems_of(server={"cuont": 64})
    assert problem.nearest == "count"


@pytest.mark.parametrize(
    ("section", "key", "nearest"),
    [
        ("gpu", "sku", "nvidia-h100-sxm5-80gb"),
        ("server", "model", "nvidia-dgx-h100"),
        ("fabric", "switch_model", "nvidia-qm9700"),
    ],
)
def test_a_typo_in_the_name_of_hardware_is_all_that_is_wrong(section: str, key: str, nearest: str) -> None:
    (problem,) = problems_of(**{section: {**BASE.get(section, {}), key: f"{nearest}x"}})
    assert (problem.path, problem.nearest) == ((section, key), nearest)


def test_two_designs_that_contradict_are_both_named() -> None:
    (problem,) = problems_of(based_on=["dgx-superpod-h100", "b200-spectrum-x"])
    assert problem.what.endswith("dgx-superpod-h100 and b200-spectrum-x")
    assert 'gpu.sku the text "nvidia-h100-sxm5-80gb" and the text "nvidia-b200-sxm-180gb"' in problem.found
    assert "fabric.switch_model" in problem.do


def test_contradicting_designs_are_named_as_the_file_lists_them() -> None:
    (problem,) = problems_of(based_on=["dgx-superpod-h200", "dgx-superpod-b200"])
    assert problem.what.endswith("dgx-superpod-h200 and dgx-superpod-b200")


@pytest.mark.parametrize("order", [1, -1])
def test_a_whole_mapping_contradicts_in_either_order(order: int) -> None:
    designs = ["gb300-nvl72-xdr", "iec-400v"][::order]
    (problem,) = problems_of(based_on=designs, server={"count": 72})
    assert problem.what.endswith(" and ".join(designs))
    assert "electrical.panels.kind" in problem.do
    assert "electrical.rack_conductor" in problem.do


def test_the_file_settles_a_contradiction() -> None:
    (before,) = problems_of(based_on=["dgx-superpod-h100", "b200-spectrum-x"])
    (after,) = problems_of(
        based_on=["dgx-superpod-h100", "b200-spectrum-x"], fabric={"kind": "ib", "switch_model": "nvidia-qm9700"}
    )
    assert "fabric.kind" in before.do
    assert "fabric." not in after.do
    assert "gpu.sku" in after.do


def test_a_design_goes_before_those_that_it_is_made_of() -> None:
    made = joined(["gb300-nvl72-xdr"])
    assert not made.contradictions
    assert at(made.value, ("power", "overhead_pct")) == (10, 20)
    assert at(joined(["nec-415v"]).value, ("power", "overhead_pct")) == (20, 30)


def test_a_plant_that_does_not_fit_the_servers_is_refused_with_one_that_does() -> None:
    found = problems_of(based_on=["gb300-nvl72-xdr", "air-fan-wall"], server={"count": 72})
    fits = [p for p in found if p.what == "a reference design that does not fit the servers"]
    assert fits[0].do == "write liquid-warm-water in place of air-fan-wall"
    assert len(found) == 2
    (alone,) = problems_of(
        based_on=["training-cluster", "nec-415v-busway", "air-fan-wall"],
        gpu={"sku": "nvidia-gb300"},
        server={"count": 72, "system": "nvidia-gb300-nvl72"},
    )
    assert alone.what == "a reference design that does not fit the servers"


def test_sections_that_nothing_gives_are_asked_for_by_name() -> None:
    found = {p.path for p in problems_of(based_on=["training-cluster"])}
    assert ("gpu",) in found
    assert ("cooling",) in found
    assert ("addressing",) not in found


def test_designs_that_are_made_of_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = {
        name: Reference(slug=name, title=name, source="test", based_on=(other,), values={})
        for name, other in (("one", "two"), ("two", "one"))
    }
    monkeypatch.setattr("inventory.site.references.reference", ring.__getitem__)
    with pytest.raises(ReferenceError, match=r"based on itself, by way of one, two"):
        lineage("one")


def test_a_broken_design_stops_only_the_sites_that_use_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "mine.yaml").write_text("title: Mine\nsource: test\nvaleus: {}\n")
    monkeypatch.setattr("inventory.site.references.references_dir", lambda: tmp_path)
    reference.cache_clear()
    with pytest.raises(ReferenceError, match=r"mine\.yaml: not a valid reference design[\s\S]*valeus"):
        reference("mine")
    reference.cache_clear()


@pytest.mark.parametrize("text", ["?", "{}", "? \n", "name:"])
def test_a_file_that_says_nothing_is_asked_for_its_keys(text: str) -> None:
    with pytest.raises(SiteError):
        parse_site(text)


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("nvidia-h1000", "nvidia-h100-sxm5-80gb"),
        ("nvidia-h20", "nvidia-h200-sxm5-141gb"),
        ("nvidia-b20", "nvidia-b200-sxm-180gb"),
        ("nvidia-gb30", "nvidia-gb300"),
        ("amd-mi355", "amd-mi355x"),
        ("intel-gaudi3", ""),
    ],
)
def test_a_mistyped_gpu_is_held_against_the_beginning_of_names(word: str, near: str) -> None:
    assert nearest(word, load_catalog().gpus) == near


def test_a_value_that_follows_from_a_wrong_one_is_no_fault_of_its_own() -> None:
    (only,) = problems_of(power={"voltage_v": 0.415})
    assert only.path == ("power", "voltage_v")


def test_modules_in_megawatts_are_named_and_not_the_panels_that_follow() -> None:
    (only,) = problems_of(ups={"module_kw": 1.25})
    assert only.path == ("ups", "module_kw")
    assert "1250 if 1.25 MW is meant" in only.do
