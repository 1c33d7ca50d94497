"""Which power factor holds where in the supply: one rule for limits, losses, currents and the load flow.

Behind the UPS (rack circuits, panels, PDU transformers) it is that of IT, site power.power_factor. From the boards up to the
grid it is site electrical.power_factor, 1 by default: the input of a double-conversion UPS and the drives of the plant
correct theirs, whatever IT draws. Ratings in kW (UPS modules, generators) are real power and take none.
"""

from dataclasses import dataclass

from inventory.site import Site

BEHIND_UPS = ("pdu_transformer", "panel", "circuit")


@dataclass(frozen=True)
class PowerFactors:
    """Power factor behind the UPS (`it`) and from the boards up to the grid (`grid`)."""

    it: float = 1.0
    grid: float = 1.0

    def of(self, kind: str) -> float:
        """Power factor of what an element of this kind carries."""
        return self.it if kind in BEHIND_UPS else self.grid


def power_factors(site: Site) -> PowerFactors:
    """Those of a site."""
    return PowerFactors(site.power.power_factor, site.electrical.power_factor if site.electrical else 1.0)
