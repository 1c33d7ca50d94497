"""Sites with hardware of the catalogue that no shipped site has: they plan, with media that fit every cage."""

import pytest

from capacity.build import build
from inventory.site.whatif import changed

HGX_B300 = (
    "server.model=supermicro-sys-822gs-nb3rt",
    "gpu.sku=nvidia-b300-sxm-288gb",
    "gpu.tdp_w=1100",
    "server.nic.rate_gbps=800",
    "server.nic.pcie_gen=6",
    "server.psu.count=8",
    "server.psu.split_by_feed={A: 3, B: 3, C: 2}",
    "server.psu.redundancy=5+3",
    "server.power={seed_w: 12600, measured_w: 12400, nameplate_w: 15100}",
    "fabric.radix=64",
    "media.reach_table=ethernet-800g",
)
SITES = {
    "sn5600-400g": ("media.reach_table=ethernet-400g",),
    "7060x6-400g": ("media.reach_table=ethernet-400g", "fabric.switch_model=arista-7060x6-64pe"),
    "hgx-b200": (
        "media.reach_table=ethernet-400g",
        "fabric.switch_model=arista-7060x6-64pe",
        "server.model=supermicro-sys-a21ge-nbrt",
    ),
    "hgx-b300-sn5600": (*HGX_B300, "fabric.switch_model=nvidia-sn5600-800g"),
    "hgx-b300-7060x6": (*HGX_B300, "fabric.switch_model=arista-7060x6-64pe-800g"),
    "hgx-h200-infiniband": (
        "server.model=supermicro-sys-821ge-tnhr",
        "server.psu.rating_w=3000",
        "gpu.sku=nvidia-h200-sxm5-141gb",
        "fabric.unit_nodes=32",
    ),
    "gb200-nvl72-infiniband": (
        "server.system=nvidia-gb200-nvl72",
        "server.model=nvidia-gb200-compute-tray",
        "server.nic.rate_gbps=400",
        "server.nic.pcie_gen=5",
        "server.power={seed_w: 5400, measured_w: 5500, nameplate_w: 6020}",
        "server.count=36",
        "gpu.sku=nvidia-gb200",
        "gpu.tdp_w=1200",
        "fabric.switch_model=nvidia-qm9700",
        "fabric.radix=64",
        "fabric.unit_nodes=18",
        "media.reach_table=linkx-400g",
    ),
}


JUDGED = ("CABLE", "CATALOG", "FABRIC", "NIC", "POWER-CORD", "POWER-OUTLETS")


@pytest.mark.parametrize("name", SITES)
def test_a_site_of_it_plans_and_every_fabric_cable_has_a_part(name: str) -> None:
    base = "gb300-nvl72-liquid" if "nvl72" in name else "h100-1000-ib" if "infiniband" in name else "b200-256-roce"
    plan = build(changed(base, SITES[name]))
    compute = plan.cables[plan.cables["fabric"] == "compute"]
    assert len(compute)
    assert (compute["part"] != "").all()
    assert not {
        one.id for one in plan.findings if one.severity == "error" and one.id.startswith(("MEDIA", "FABRIC", "NIC"))
    }
