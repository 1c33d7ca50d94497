"""Minutes until it is too hot after fans or pumps stop, against the time until cooling is back.

The hall is adiabatic in those minutes: C dT/dt = Q. C is the air of the zone (density x cp x volume), then also the metal
of racks and equipment (0.49 kJ/kgK, carbon steel; site's share of it that follows). The truth lies between the two: the
first is a lower bound. Coolant: loop volume x density x heat capacity, pumps running and facility water gone. With the
coolant's own pumps stopped, cold plates run dry of flow and GPUs trip within seconds (ERR-19); no buffer counts then.
"""

from dataclasses import dataclass

from capacity.cooling import coolant
from capacity.cooling.air import Air
from capacity.cooling.heat import WATER_KJ_KGK
from capacity.power.standby import carried_after_s
from inventory.site import Site

STEEL_KJ_KGK = 0.49
"""Heat capacity of carbon steel, kJ/kgK (Engineering ToolBox, specific heat of metals)."""


@dataclass(frozen=True)
class Warming:
    """How a body of air or coolant warms: heat in kW, capacity in kJ/K, from `start_c` to `trip_c`."""

    heat_kw: float
    capacity_kj_k: float
    start_c: float
    trip_c: float

    @property
    def rate_k_min(self) -> float:
        """Kelvin per minute."""
        return self.heat_kw / self.capacity_kj_k * 60

    @property
    def minutes(self) -> float:
        """Minutes to the trip temperature; infinite without heat."""
        return (self.trip_c - self.start_c) / self.rate_k_min if self.heat_kw > 0 else float("inf")


def air_capacity_kj_k(volume_m3: float, air: Air) -> float:
    """Heat capacity of the air of a hall, kJ/K."""
    return volume_m3 * air.density * air.cp / 1000


def metal_capacity_kj_k(mass_kg: float, share: float) -> float:
    """Heat capacity of the racks' metal that follows the air, kJ/K."""
    return mass_kg * share * STEEL_KJ_KGK


def coolant_capacity_kj_k(volume_l: float, mean_c: float) -> float:
    """Heat capacity of the coolant loop, kJ/K."""
    return volume_l / 1000 * coolant.density_kg_m3(mean_c) * coolant.heat_capacity_j_kgk(mean_c) / 1000


def storage_minutes(volume_m3: float, rise_k: float, heat_kw: float) -> float:
    """Minutes that a store of chilled water carries `heat_kw` with a rise of `rise_k`."""
    return volume_m3 * 1000 * WATER_KJ_KGK * rise_k / heat_kw / 60 if heat_kw > 0 else float("inf")


def outage_min(site: Site) -> tuple[float, str]:
    """Minutes without cooling after a loss of the utility, and why so many: until the generators carry the load and cooling
    has restarted; without generators until the load is drained.
    """
    given = site.cooling.ride_through
    restart_s = given.restart_s if given is not None else 0.0
    carried_s, _, _ = carried_after_s(site)
    if site.generator.present and site.generator.start_s is not None:
        return (carried_s + restart_s) / 60, "generators start and take over, then cooling restarts"
    return carried_s / 60, "without generators, until a checkpoint is written and the load is drained"


def outage_source(site: Site) -> str:
    """The keys of the site file that `outage_min` comes from."""
    _, _, source = carried_after_s(site)
    restarts = site.generator.present and site.generator.start_s is not None
    return f"{source} + cooling.ride_through.restart_s" if restarts else source
