"""Storage as building blocks: the needs, the sizes, the findings; and the document."""

import copy
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.build import build
from capacity.outputs.documents import installation, procurement
from capacity.outputs.summary import summarise
from capacity.storage import sizing
from inventory.catalog import load_catalog
from inventory.site import load_site
from tests.capacity.sites import variant
from tests.findings import names
from tests.plans import plan_of

BLOCKS = sorted(load_catalog().storage)


def test_a_box_of_capacity_drives_by_hand() -> None:
    # 60 x 20 TB, 8+2: 1.2 PB raw, 0.96 PB after parity, 0.9312 PB of files; 5 PB take 6 boxes (5.37).
    needs = sizing.Needs(5, 1, 1, None, None, None, 6, 20)
    option = sizing.size(load_site("lab"), load_catalog(), load_catalog().storage["lustre-hdd-60"], needs)
    assert (option.enclosures, option.bound, option.drives) == (6, "usable capacity", 360)
    assert option.usable_pb == pytest.approx(6 * 0.9312)
    # A drive of 20 TB at 100 MB/s: 200,000 s.
    assert option.rebuild_h == pytest.approx(200_000 / 3600)


def test_the_busiest_need_decides_and_is_named() -> None:
    block = load_catalog().storage["lustre-hdd-60"]
    write, read = sizing.enclosure_rates(block, 2, 100)
    # 60 drives x 200 MB/s x 8/10 = 9.6 GB/s, controllers 7.5, two links 22.5: the controllers bind.
    assert (write, read) == (7.5, 9.0)
    needs = sizing.Needs(0.5, 1, 16, 100, None, None, 6, 20)
    option = sizing.size(load_site("lab"), load_catalog(), block, needs)
    assert (option.enclosures, option.bound) == (12, "read rate")


def test_a_slow_leaf_port_slows_the_enclosure() -> None:
    # Four ports of 200 Gb/s at leaves of 100: 4 x 12.5 x 0.9 = 45 GB/s, less than the 80 that its controllers read.
    block = load_catalog().storage["lustre-flash"]
    needs = sizing.Needs(0.1, 1, 1, 90, None, None, 6, 20)
    slow, fast = (
        sizing.size(variant("h100-1000-ib", inband={"rate_gbps": rate}), load_catalog(), block, needs)
        for rate in (100, 400)
    )
    assert (slow.link_gbps, slow.enclosures, fast.link_gbps, fast.enclosures) == (100, 2, 200, 2)
    assert [slow.read_gb_s, fast.read_gb_s] == pytest.approx([90, 160])


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(BLOCKS),
    st.floats(0.001, 500),
    st.floats(0.001, 5000),
    st.one_of(st.none(), st.floats(0.001, 20_000)),
    st.one_of(st.none(), st.floats(1, 1e7)),
)
def test_a_design_meets_every_stated_need_with_no_box_too_many(
    slug: str, usable: float, write: float, read: float | None, metadata: float | None
) -> None:
    block = load_catalog().storage[slug]
    needs = sizing.Needs(usable, 1, write, read, metadata, None, 6, 20)
    option = sizing.size(load_site("lab"), load_catalog(), block, needs)
    assert option.usable_pb >= usable * (1 - 1e-9)
    assert option.write_gb_s >= write * (1 - 1e-9)
    assert option.read_gb_s >= (read or 0) * (1 - 1e-9)
    assert option.metadata_ops_s >= (metadata or 0) * (1 - 1e-9)
    fewer = option.enclosures - 1
    each_write, each_read = sizing.enclosure_rates(block, option.links // option.enclosures, option.link_gbps)
    enough = (
        fewer * option.usable_pb / option.enclosures >= usable
        and fewer * each_write >= write
        and fewer * each_read >= (read or 0)
        and (block.metadata.least or fewer * block.metadata.ops_s >= (metadata or 0))
    )
    assert fewer < block.enclosure.least or not enough


def test_checkpoints_that_fill_the_storage_are_found_with_how_many_fit() -> None:
    site = load_site("h100-1000-ib")
    checkpoint = site.storage.checkpoint.model_copy(update={"retained": 5000})
    found = [
        f
        for f in build(variant("h100-1000-ib", storage={"checkpoint": checkpoint})).findings
        if f.id == "STORAGE-RETENTION"
    ]
    # 10 PB hold 4,081 checkpoints of 2.45 TB.
    assert names(found[0], 4081)


def test_rare_checkpoints_are_found() -> None:
    site = load_site("h100-1000-ib")
    checkpoint = site.storage.checkpoint.model_copy(update={"interval_min": 240.0})
    found = build(variant("h100-1000-ib", storage={"checkpoint": checkpoint})).findings
    assert "STORAGE-INTERVAL" in {f.id for f in found}


def test_slow_rebuild_is_found_with_the_rate_that_mends_it() -> None:
    found = build(variant("h100-1000-ib", storage={"block": "lustre-hdd-60"})).findings
    rebuild = next(f for f in found if f.id == "STORAGE-REBUILD")
    assert rebuild.limit == 24
    assert names(rebuild, "231 MB/s")  # 20e6 MB in 86,400 s


def test_needs_that_are_not_given_are_said() -> None:
    site = variant("h100-1000-ib", storage={"read_gb_s_per_gpu": None})
    found = next(f for f in build(site).findings if f.id == "STORAGE-NEEDS")
    assert "read_gb_s_per_gpu" in found.message
    assert "metadata" not in found.message


def test_kind_without_a_block_sizes_nothing_and_still_compares() -> None:
    plan = build(variant("h100-1000-ib", storage={"kind": "nfs", "block": None}))
    assert not plan.storage["chosen"].any()
    assert len(plan.storage) >= 5


def test_document_and_comparison_say_what_falls_short() -> None:
    plan = plan_of("b200-256-roce")
    made = installation.documents(plan)
    assert plan.hash in made["storage-design.md"]
    assert "no file system that jobs mount" in made["storage-comparison.csv"]
    assert made["bill-of-materials.csv"].count("\n") == len(plan.bom) + 1


def test_interval_loses_least() -> None:
    """Young's interval is where write time and lost work together are smallest."""
    write, mtti = 60.0, 6.33

    def lost(interval: float) -> float:
        return write / interval + interval / 2 / (mtti * 3600)

    best = sizing.checkpoint_interval_s(write, mtti)
    assert all(lost(best) <= lost(best * factor) for factor in (0.5, 0.9, 1.1, 2))
    assert math.isclose(best, math.sqrt(2 * 60 * 6.33 * 3600))


def test_documents_read_the_catalogue_of_the_plan() -> None:
    catalog = copy.copy(load_catalog())
    own = catalog.storage["lustre-hdd-60"].model_copy(update={"slug": "own-block", "suits": "what the plan's own says"})
    catalog.storage = {**catalog.storage, "own-block": own}
    plan = build(load_site("b200-256-roce"), catalog)
    compared = procurement.comparison(plan).set_index("block")
    assert compared.loc["own-block", "suits"] == "what the plan's own says"
    assert (compared.loc[compared["chosen"] == 1, "falls_short_in"] == "nothing").all()


@pytest.mark.parametrize("slug", BLOCKS)
def test_the_loss_of_an_enclosure_costs_no_more_chunks_than_parity_makes_up_for(slug: str) -> None:
    block = load_catalog().storage[slug]
    needs = sizing.Needs(1e-6, 1, 1e-6, None, None, None, 6, 20)
    option = sizing.size(load_site("h100-1000-ib"), load_catalog(), block, needs)
    chunks = block.enclosure.data + block.enclosure.parity
    assert option.enclosures == (chunks if block.enclosure.spread else 1)
    assert not block.enclosure.spread or option.bound == "spread of a stripe"


def test_a_block_that_rebuilds_too_slowly_falls_short_in_it() -> None:
    plan = plan_of("gb300-nvl72-liquid")
    table = procurement.comparison(plan)
    short = dict(zip(table["block"], table["falls_short_in"], strict=True))
    assert plan.site.storage.rebuild_limit_h == 24
    assert short["lustre-hdd-60"] == "rebuild_h 55.6 of at most 24"
    assert short["lustre-flash"] == "nothing"


def test_interruptions_are_a_figure_of_the_gpu_with_a_range_that_site_limits_stand_before() -> None:
    said = summarise(plan_of("h100-1000-ib"))["interruptions"]
    assert said["mtti_h"] == pytest.approx(50_677 / 8000, rel=0.02)
    low, high = said["mtti_h_range"]
    assert low < said["mtti_h"] < high
    assert high / low == pytest.approx(6, rel=0.02)
    assert said["source"].startswith("Llama 3")
    assert "not confirmed" in summarise(plan_of("b200-256-roce"))["interruptions"]["source"]
    assert summarise(plan_of("lab"))["interruptions"]["source"].startswith("site limits")
    assert "13,605 to 82,051" in installation.documents(plan_of("b200-256-roce"))["storage-design.md"]
