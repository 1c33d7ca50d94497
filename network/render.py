"""Switch configuration from the Plan, in two steps of plain data: Plan -> structured config -> text.

    structured_config(plan, "leaf01")   -> {"hostname": "leaf01", "asn": 65102, "fabric": [...], "hosts": [...], ...}
    render(plan, "leaf01")              -> the text for the switch's network OS
    render_filter(plan, "leaf01")       -> the filter beside it: nftables, on Linux routers
    whole(plan, "leaf01")               -> both as one text, which the driver takes

Structured config (what a template may use):
    hostname    str     name of the switch, as in the plan
    asn         int     its autonomous system number
    router_id   str     its loopback address without the prefix length
    loopback    str     its loopback as /32
    loopbacks   str     the prefix that all loopbacks come from; nothing else is announced or accepted
    fabric      list    {port, far, far_port}: ports to other switches, one BGP unnumbered session each
    hosts       list    {port, far, far_port, address, peer, loopback}: ports to servers; address and peer are the two
                        ends of the /31, loopback is the server's /32, routed to it and announced
    networks    list    the /32s that this switch originates, sorted
    ipv6        dict    {loopback, loopbacks, networks} as above with /128s, and {hosts: {port: {address, peer, loopback}}}; None
                        where the site has no IPv6 prefixes
    prefixes_max int    routes that a neighbour may announce before its session ends: PREFIXES_MAX of the planned loopbacks
    own         tuple   prefixes of the network that this switch routes (network/separation.py)
    permits     tuple   Rule: what it forwards; it drops all else
    solicited   list    IPv6 prefixes of the network: from them neighbours are asked for
    management_port     its port in the management network, which no filter touches
    drained     bool    in maintenance: other switches take it only where they have no other way
    mtu         int     bytes; what the ports must have (FRR has no line for it: nos/frr/capabilities.yaml)
    bfd_ms      int     between two BFD packets of a session, of which BFD_MISSED may be missed; None: the default of the
                        network OS
"""

import ipaddress
import re
from functools import cache
from typing import Any, Protocol

import jinja2
import pandas as pd

from inventory.catalog import Catalog
from inventory.site import Site
from network import nos, separation
from network.nos.frr import nftables
from network.wiring import ipv6

INBAND = "inband"
MANAGEMENT_PORT = "eth0"
"""Of the in-band switches, as the plan addresses it."""
PREFIXES_MAX = 2
"""Of the planned loopbacks. Twice as many let a site double before its switches have to learn of it first (decision 0364)."""
BFD_MISSED = 3
"""BFD's detection multiplier (RFC 5880, 6.8.4): the default of FRR, which no template changes."""


class Plan(Protocol):
    """What this layer needs of capacity.build.Plan, which lies above it: the site, its catalogue and three frames."""

    @property
    def site(self) -> Site: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def devices(self) -> pd.DataFrame: ...
    @property
    def cables(self) -> pd.DataFrame: ...
    @property
    def addresses(self) -> pd.DataFrame: ...


def switches(plan: Plan) -> list[str]:
    """Names of the switches that this module configures: the in-band Ethernet's."""
    devices = plan.devices
    return list(devices.loc[(devices["kind"] == "switch") & (devices["fabric"] == INBAND), "name"])


def structured_config(plan: Plan, switch: str) -> dict[str, Any]:
    """Everything that the configuration of one in-band switch says, as plain data (keys: module docstring)."""
    row = plan.devices.loc[plan.devices["name"] == switch]
    if len(row) != 1 or row.iloc[0]["fabric"] != INBAND:
        raise ValueError(f"{switch!r} is no in-band switch of the plan; these are: {', '.join(switches(plan))}")
    cables = _ends(plan, switch)
    addresses = plan.addresses
    loopback = _column(addresses[addresses["network"] == "loopback"], "device", "address")
    own = addresses[(addresses["device"] == switch) & (addresses["network"] == "link")]
    link = _column(own, "interface", "address")
    fabric, hosts = [], []
    for port, far, far_port, stage in cables:
        end = {"port": port, "far": far, "far_port": far_port}
        if stage == "node-leaf":
            address = ipaddress.ip_interface(link[port])
            (peer,) = (a for a in address.network if a != address.ip)
            hosts.append({**end, "address": str(address), "peer": str(peer), "loopback": loopback[far]})
        else:
            fabric.append(end)
    return {
        "hostname": switch,
        "asn": int(row.iloc[0]["asn"]),
        "router_id": loopback[switch].split("/")[0],
        "loopback": loopback[switch],
        "loopbacks": str(plan.site.addressing.loopbacks),
        "fabric": fabric,
        "hosts": hosts,
        "networks": sorted({loopback[switch], *(host["loopback"] for host in hosts)}, key=ipaddress.ip_interface),
        "ipv6": _ipv6(plan, switch, hosts),
        "drained": switch in plan.site.inband.maintenance,
        "prefixes_max": PREFIXES_MAX * len(loopback),
        "own": separation.networks(plan.site)[INBAND],
        "permits": separation.permits(plan.site, INBAND),
        "solicited": [one for one in separation.networks(plan.site)[INBAND] if ":" in one],
        "management_port": MANAGEMENT_PORT,
        "mtu": int(plan.site.inband.mtu),
        "bfd_ms": _bfd_ms(plan.site),
    }


def _ipv6(plan: Plan, switch: str, hosts: list[dict[str, str]]) -> dict[str, Any] | None:
    """The part of the second family of an in-band switch."""
    given = plan.addresses
    known = given["device"].isin([switch, *(host["far"] for host in hosts)])
    at = (given["network"] == "link") & ((given["device"] == switch) | (given["peer_device"] == switch))
    rows = ipv6.addresses(plan.site, plan.catalog, given[at | ((given["network"] == "loopback") & known)])
    loopback = _column(rows[rows["network"] == "loopback"], "device", "address")
    links = rows[rows["network"] == "link"]
    if not loopback:
        return None
    link = dict(zip(zip(links["device"], links["interface"], strict=True), links["address"], strict=True))
    own = {
        host["port"]: {
            "address": link[switch, host["port"]],
            "peer": link[host["far"], host["far_port"]].partition("/")[0],
            "loopback": loopback[host["far"]],
        }
        for host in hosts
    }
    networks = sorted({loopback[switch], *(host["loopback"] for host in own.values())}, key=ipaddress.ip_interface)
    prefix = str(plan.site.addressing.loopbacks_ipv6)
    return {"loopback": loopback[switch], "loopbacks": prefix, "networks": networks, "hosts": own}


def render(plan: Plan, switch: str) -> str:
    """The configuration text of one switch, for the network OS that the site file names."""
    return render_structured(structured_config(plan, switch), plan.site.inband.nos)


def render_filter(plan: Plan, switch: str) -> str:
    """What one in-band switch lets through, as a table of nftables: all network systems of this network are Linux routers."""
    return nftables.render(structured_config(plan, switch))


def whole(plan: Plan, switch: str) -> str:
    """Filter and configuration as one text: what network/nos/frr/driver.py loads, reads and compares."""
    return render_filter(plan, switch) + render(plan, switch)


def render_structured(config: dict[str, Any], os_name: str) -> str:
    """Text from a structured config; an undefined name in the template is an error."""
    return _template(os_name).render(config)


@cache
def _template(os_name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(nos.folder(os_name, "template.j2")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template("template.j2")


def _bfd_ms(site: Site) -> int | None:
    """Time between BFD packets, in whole milliseconds, by which a dead path is seen within the limit `bfd_detect_s`."""
    limit = site.limits.get("bfd_detect_s")
    return int(limit.value * 1000 / BFD_MISSED) if limit else None


def _ends(plan: Plan, switch: str) -> list[tuple[str, str, str, str]]:
    """(own port, far device, far port, stage) of the switch's in-band cables, by port number."""
    cables: pd.DataFrame = plan.cables[plan.cables["fabric"] == INBAND]
    near = cables.loc[cables["a_device"] == switch, ["a_port", "b_device", "b_port", "stage"]].to_numpy().tolist()
    far = cables.loc[cables["b_device"] == switch, ["b_port", "a_device", "a_port", "stage"]].to_numpy().tolist()
    return sorted((tuple(end) for end in near + far), key=lambda end: int(re.sub(r"\D", "", end[0]) or 0))


def _column(frame: pd.DataFrame, key: str, value: str) -> dict[str, str]:
    return dict(zip(frame[key].astype(str), frame[value].astype(str), strict=True))
