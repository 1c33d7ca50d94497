"""Shared storage: what is mounted, and what checkpoints ask of it."""

import pytest

from capacity.model import Plan
from capacity.storage.load import checkpoint_load, shared, storage_links
from tests.capacity.sites import variant
from tests.plans import plan_of


@pytest.fixture(scope="module")
def h100() -> Plan:
    return plan_of("h100-1000-ib")


def test_the_lab_mounts_the_volume_of_its_first_storage_server():
    plan = plan_of("lab")
    found = shared(plan.site, plan.devices)
    assert (found.kind, found.source, found.mount_point, found.servers) == (
        "glusterfs",
        "sto01:/shared",
        "/shared",
        ("sto01",),
    )


def test_what_the_roles_do_not_build_comes_from_the_site_file(h100):
    assert h100.site.storage.kind == "lustre"
    assert shared(h100.site, h100.devices).source == (h100.site.storage.source or "")


def test_a_checkpoint_of_175_billion_parameters(h100):
    load = checkpoint_load(h100.site)
    assert load.checkpoint_b == pytest.approx(2.45e12)  # 175e9 x 14 B
    assert load.write_gb_s == pytest.approx(40.83, abs=0.01)  # RC-125: 41 GB/s
    assert int(load.held) == 4081  # 10 PB / 2.45 TB


def test_41_gb_s_need_four_links_of_100_gb_s(h100):
    links = storage_links(h100.site, h100.catalog, h100.devices, checkpoint_load(h100.site).write_gb_s)
    rate = h100.site.inband.rate_gbps
    assert links.gb_s_each == pytest.approx(rate / 8 * 0.9)
    assert links.needed == {100: 4, 200: 2, 400: 1}[rate]  # RC-125: 4 x 100G or 1 x 400G
    assert (len(links.servers), links.links) == (35, 4 * 35)  # without the metadata servers


def test_rounding_of_a_rate_adds_no_link(h100):
    """Parameters written with nine decimals, for a rate that four links carry exactly: 2e-10 above it is rounding."""
    checkpoint, each = h100.site.storage.checkpoint, h100.site.inband.rate_gbps / 8 * 0.9
    params = round(4 * each * checkpoint.stall_s / checkpoint.bytes_per_param, 9) + 1e-9
    more = checkpoint.model_copy(update={"params_b": params})
    site = variant("h100-1000-ib", storage={"checkpoint": more})
    assert checkpoint_load(site).write_gb_s > 4 * each
    assert storage_links(site, h100.catalog, h100.devices, checkpoint_load(site).write_gb_s).needed == 4
