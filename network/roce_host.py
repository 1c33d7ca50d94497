"""What the servers of a RoCE site set their compute ports to: Plan -> plain data, one object per server.

    wanted(plan)["gpu001"]      what playbooks/roles/roce/files/roce_host.py sets on the server and reads back

Marks, priorities and queues are those of network.lossless.Intent, as the switches at the other end have them. Nothing here talks to
a server.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from inventory.site import Site
from network.lossless import Intent
from network.render import Plan
from network.roce import missing_keys
from network.wiring import ipv6, lossless, rails

HOST_MTU = 9000
"""Of an interface that carries RDMA messages of 4096 bytes, B (planning figure RC-054: hosts 9000, switches 9216)."""
ECT = 0b10
"""ECN capable transport, the two low bits of the traffic class: without them a switch drops instead of marking (RFC 3168)."""


def tos(dscp: int) -> int:
    """IPv4's type of service, or IPv6's traffic class, of RoCE packets with this DSCP that switches may mark."""
    return dscp << 2 | ECT


def class_of(site: Site) -> int | None:
    """The traffic class that NCCL marks its packets with; None on InfiniBand."""
    return None if site.fabric.congestion_control is None else tos(site.fabric.lossless.dscp)


def wanted(plan: Plan) -> dict[str, dict[str, Any]]:
    """{server: {"rails": [{name, rail (counted from 0), settings}]}}; {} on InfiniBand and where rails have no addresses.

    ``settings``  value of each setting, as playbooks/roles/roce/files/roce_host.py reads it: MTU in B, addresses and routes,
                  priority by DSCP, PFC by priority, queue by priority, share in percent and way of service by queue
    """
    site, intent = plan.site, lossless.intent(plan.site)
    if intent is None or rails.rails_of(site, plan.catalog) is None or missing_keys(site):
        return {}
    common = class_settings(intent)
    found: dict[str, dict[str, Any]] = {}
    routes = _routes(rails.host_routes(site, plan.catalog, plan.addresses, plan.devices), "", 31)
    second = _routes(ipv6.host_routes(site, plan.catalog, plan.addresses, plan.devices), "_ipv6", 127)
    for (device, interface), (rail, own) in routes.items():
        settings = {**own, **common}
        if (device, interface) in second:
            settings |= {**second[device, interface][1], "accept_ra_ipv6": "0"}
        one = {"name": interface, "rail": rail, "settings": settings}
        found.setdefault(device, {"rails": []})["rails"].append(one)
    return found


def _routes(routes: pd.DataFrame, suffix: str, length: int) -> dict[tuple[str, str], tuple[int, dict[str, Any]]]:
    """{(server, interface): (rail, settings of its address, routes and rule)} of one family, from its table of routes."""
    found: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
    main = routes[routes["table"] == "main"]
    of_rail = dict(zip(zip(main["device"], main["interface"], strict=True), main["destination"], strict=True))
    own = routes[routes["table"] != "main"].astype(str)
    for device, interface, source, destination, gateway, table in own.itertuples(index=False, name=None):
        hop = {"gateway": gateway, "source": source}
        settings = {
            "addresses": [f"{source}/{length}"],
            "route_rail": {"prefix": str(of_rail[device, interface]), "table": "main", **hop},
            "route_fabric": {"prefix": destination, "table": table, **hop},
            "rule": {"source": source, "table": table},
        }
        named = {f"{name}{suffix}": value for name, value in settings.items()}
        found[device, interface] = (int(table) - rails.FIRST_TABLE, named)
    return found


def class_settings(intent: Intent) -> dict[str, Any]:
    """Settings that are the same on every rail.

    Every DSCP but two has priority 0: an adapter's own table puts eight DSCPs on each priority, so that other traffic would be
    in the lossless class.
    """
    priority, queue, cnp = intent.priority, intent.traffic_class, intent.cnp_class
    mapped = dict.fromkeys(range(64), 0) | {intent.dscp: priority, intent.cnp_dscp: cnp}
    queues = dict.fromkeys(range(8), 0) | {priority: queue, cnp: cnp}
    ways = dict.fromkeys(range(8), "strict") | {0: "ets", queue: "ets"}
    shares = dict.fromkeys(range(8), 0) | {0: 100 - intent.share_pct, queue: intent.share_pct}
    reacts = ECN[intent.congestion_control]
    flag = {str(priority): "1" if reacts else "0"}
    any_path = {"adaptive_routing": True} if intent.load_balancing == "adaptive" else {}
    ecn = {} if reacts is None else {"roce_np": flag, "roce_rp": flag}
    return {
        "mtu": min(HOST_MTU, intent.mtu),
        "up": True,
        "arp_ignore": "1",
        "arp_announce": "2",
        "rp_filter": "2",
        "dcbx": ["host", "ieee"],
        "dscp_priority": {str(dscp): one for dscp, one in mapped.items()},
        "global_pause": {"rx": False, "tx": False},
        "pfc": [one == priority for one in range(8)],
        "queues": {"prio-tc": list(queues.values()), "tc-bw": list(shares.values()), "tc-tsa": list(ways.values())},
        "default_roce_mode": "RoCE v2",
        "default_roce_tos": str(tos(intent.dscp)),
        "traffic_class": str(tos(intent.dscp)),
        **ecn,
        "cnp_dscp": str(intent.cnp_dscp),
        **any_path,
    }


ECN: Mapping[str, bool | None] = {"dcqcn": True, "pfc_only": False, "spectrum_x": None}
"""{fabric.congestion_control: whether adapters react to ECN}. The adapters of Spectrum-X have a congestion control of their own."""
