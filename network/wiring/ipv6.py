"""IPv6 addresses: one beside each IPv4 address of the networks whose IPv6 prefix the site gives.

    both(plan.site, plan.catalog, plan.addresses)      # the address plan, then its IPv6 addresses: columns ADDRESS_COLUMNS

An IPv6 address lies in its prefix where the IPv4 address of the same port lies in its own. So IPv6 has no allocation that growth
could move, and needs no place in the accepted state. On rails unit, rail and port count, as for IPv4: each leaf has a /64, and its
port i the pair 2i, 2i + 1 as a /127 (RFC 6164).
"""

import ipaddress
from collections.abc import Callable, Mapping

import pandas as pd

from inventory.catalog import Catalog
from inventory.site import Site
from network.wiring import rails
from network.wiring.rails import LOOPBACK, RAIL, Rails

BMC = "bmc"


def addresses(site: Site, catalog: Catalog, given: pd.DataFrame) -> pd.DataFrame:
    """Rows of the address plan `given` (columns ADDRESS_COLUMNS) whose network has an IPv6 prefix, with their IPv6 addresses."""
    parts = []
    for network, beside in _beside(site, catalog).items():
        rows = given[given["network"] == network]
        parts.append(rows.assign(address=[beside(text) for text in rows["address"]]))
    return pd.concat(parts, ignore_index=True) if parts else given.iloc[:0]


def both(site: Site, catalog: Catalog, given: pd.DataFrame) -> pd.DataFrame:
    """The address plan with the rows of IPv6 behind it; the same frame where the site has no IPv6 prefix."""
    more = addresses(site, catalog, given)
    return pd.concat([given, more], ignore_index=True) if len(more) else given


def host_routes(site: Site, catalog: Catalog, given: pd.DataFrame, devices: pd.DataFrame) -> pd.DataFrame:
    """Routes of the servers into the compute fabric by IPv6, as network.wiring.rails.host_routes has those of IPv4."""
    return rails.host_routes(site, catalog, addresses(site, catalog, given), devices, split=rails.rails_of_ipv6(site))


def beside_management(site: Site, address: str) -> str:
    """IPv6 address, with its length, beside an IPv4 address of the management network; '' without an IPv6 prefix there."""
    given = site.addressing
    if given.bmc_ipv6 is None:
        return ""
    return _at_the_same_place(given.oob, given.bmc_ipv6, given.bmc_ipv6.prefixlen)(address)


def _beside(site: Site, catalog: Catalog) -> Mapping[str, Callable[[str], str]]:
    """{network: IPv6 address beside an IPv4 address with its length} of the networks that have both prefixes."""
    given = site.addressing
    found: dict[str, Callable[[str], str]] = {}
    if given.bmc_ipv6 is not None:
        found[BMC] = _at_the_same_place(given.oob, given.bmc_ipv6, given.bmc_ipv6.prefixlen)
    if given.loopbacks_ipv6 is not None:
        found["loopback"] = _at_the_same_place(given.loopbacks, given.loopbacks_ipv6, 128)
    if given.links_ipv6 is not None:
        found["link"] = _at_the_same_place(given.links, given.links_ipv6, 127)
    if given.compute_loopbacks is not None and given.compute_loopbacks_ipv6 is not None:
        found[LOOPBACK] = _at_the_same_place(given.compute_loopbacks, given.compute_loopbacks_ipv6, 128)
    wider = rails.rails_of_ipv6(site)
    if wider is not None and (split := rails.rails_of(site, catalog)) is not None:
        found[RAIL] = _on_the_same_port(split, wider)
    return found


def _at_the_same_place(
    prefix: ipaddress.IPv4Network, wider: ipaddress.IPv6Network, length: int
) -> Callable[[str], str]:
    moved = int(wider.network_address) - int(prefix.network_address)
    return lambda text: f"{ipaddress.IPv6Address(_number(text) + moved)}/{length}"


def _on_the_same_port(split: Rails, wider: Rails) -> Callable[[str], str]:
    base, own = int(split.prefix.network_address), int(wider.prefix.network_address)

    def beside(text: str) -> str:
        rail, place = divmod(_number(text) - base, split.rail_size)
        unit, end = divmod(place, split.leaf_size)
        return f"{ipaddress.IPv6Address(own + rail * wider.rail_size + unit * wider.leaf_size + end)}/127"

    return beside


def _number(text: str) -> int:
    return int(ipaddress.IPv4Interface(text).ip)
