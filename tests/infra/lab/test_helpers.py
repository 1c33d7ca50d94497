"""The smaller sites that tests of labs build."""

from pathlib import Path

import pytest

from capacity.build import build
from inventory.delivered.assets import load_assets
from inventory.delivered.gpus import load_gpus
from inventory.site import load_site
from tests.infra.lab.helpers import GPU_NODES, small_site


@pytest.mark.parametrize("gpu_nodes", [1, 2, GPU_NODES])
def test_a_small_site_plans_without_errors_and_its_tables_list_what_it_has(tmp_path: Path, gpu_nodes: int) -> None:
    site = load_site(small_site(tmp_path, "small", 203, gpu_nodes))
    plan = build(site)
    assert [finding for finding in plan.findings if finding.severity == "error"] == []
    devices = plan.devices.set_index("name")
    named = {str(asset).partition(":")[0] for asset in load_assets(site).index}
    assert named == set(devices.index)
    nodes = set(devices.index[devices["role"] == "gpu"])
    assert nodes == set(load_gpus(site)["device"])
    assert len(nodes) == gpu_nodes
