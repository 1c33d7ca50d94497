"""Sites that are broken in one or two keys, for the property of remedies: a shipped site or one of a few lines, and settings."""

import random
from collections.abc import Iterator

from capacity.sizes import complete
from inventory.site import Site, SiteError, load_site
from inventory.site.loading import shown_path
from inventory.site.whatif import Base
from tests.first_sites import FIRST, first_site

BASES = ("h100", "b200", "gb300", "lab")
BREAKS = (
    *(f"electrical.utility.firm_mva={mva}" for mva in (0.3, 0.6)),
    *(
        f"room.{one}"
        for one in ("rows=1", "racks_per_row=4", "floor_load_kg_m2=400", "height_m=2.5", "altitude_m=2500")
    ),
    *(f"room.{one}" for one in ("tray_height_m=2.0", "rpps_per_row=0")),
    *(
        f"power.{one}"
        for one in ("rack_circuit.breaker_a=30", "rack_circuit.breaker_a=20", "feeds=[A]", "feeds=[A, B]")
    ),
    *(
        f"power.{one}"
        for one in ("derating=0.5", "voltage_v=208", "pue=1.05", "overhead_pct=[5, 8]", "power_factor=0.7")
    ),
    *(f"rack.{one}" for one in ("servers=6", "servers=8", "power_limit_kw=20", "mass_limit_kg=400", "height_u=20")),
    *(f"fabric.{one}" for one in ("bisection=0.5", "leaf_uplinks=8", "tiers=1")),
    *(f"inband.{one}" for one in ("leaves=1", "spines=1")),
    *("oob.switches=1", "limits.pdu_load_pct.value=20", "server.psu.redundancy=6+0"),
    *(
        f"cooling.{one}"
        for one in ("supply_c=30", "supply_c=45", "dewpoint_c=25", "air.spare_units=0", "air.sensible_kw=20")
    ),
    *(f"cooling.{one}" for one in ("ride_through.trip_c=25", "ride_through.restart_s=600")),
    *(f"ups.{one}" for one in ("module_kw=20", "autonomy_min=0.1", "redundancy=n")),
    *(f"electrical.{one}" for one in ("transformers.kva=100", "switchboards.rating_a=100", "panels.rating_a=60")),
    *(f"electrical.{one}" for one in ("panels.circuits=3", "medium_voltage.rating_a=20", "medium_voltage.rating_ka=5")),
    *(f"electrical.{one}" for one in ("switchboards.rating_ka=5", "generators.kw=50", "utility.growth_pct=100")),
    *(
        f"electrical.{one}"
        for one in ("utility.fault_mva=5000", "panels.feeder.length_m=300", "rack_conductor.length_m=60")
    ),
    *(f"schedule.need_date={day}" for day in ("2026-12-01", "2027-10-01", "2029-01-01")),
    *(f"storage.{one}" for one in ("usable_pb=100", "read_gb_s_per_gpu=5")),
    *("generator.start_s=120", "addressing.oob=10.64.0.0/28", "addressing.loopbacks=10.66.0.0/29"),
)
"""One setting each, of every section that the planner judges."""


def base(name: str) -> Base:
    """A site to be broken."""
    site = first_site(name) if name in FIRST else load_site(name)
    return Base(site, site.given, shown_path(site.path))


def broken(seed: int, count: int) -> Iterator[Site]:
    """Sites with one or two of the settings, by a seed; those that the site file refuses are drawn anew."""
    draw = random.Random(seed)
    while count:
        settings = draw.sample(BREAKS, draw.choice((1, 1, 2)))
        try:
            site = complete(base(draw.choice(BASES)).changed(settings))
        except SiteError:
            continue
        count -= 1
        yield site
