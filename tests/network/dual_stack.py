"""A RoCE site, and the lab, with prefixes of both IP families."""

from functools import cache

from capacity.build import build
from capacity.model import Plan
from inventory.site.whatif import changed

SITE = "b200-256-roce"
PREFIXES = {
    "compute_loopbacks_ipv6": "fd00:78::/64",
    "rails_ipv6": "fd00:76::/48",
    "bmc_ipv6": "fd00:72::/64",
}
ARISTA = ("fabric.switch_model=arista-7060x6-64pe", "fabric.nos=eos", "fabric.mtu=9214")


def settings(*more: str) -> list[str]:
    """Of the site file, as `changed` takes them."""
    return [f"addressing.{key}={prefix}" for key, prefix in PREFIXES.items()] + list(more)


@cache
def plan(*more: str) -> Plan:
    """The plan of the site with these settings besides."""
    return build(changed(SITE, settings(*more)))


@cache
def lab() -> Plan:
    """The plan of the lab, whose in-band network has both families."""
    return build(changed("lab", ["addressing.loopbacks_ipv6=fd00:16::/64", "addressing.links_ipv6=fd00:18::/64"]))
