"""Log servers of a BMC: where each maker keeps them in Redfish, as data in, changes out. Pure but for `get`.

The ways, of which a BMC has at most one (the first that is there counts):
    NVIDIA       NetworkProtocol, Oem.Nvidia.Rsyslog      one server   (NVIDIA/bmcweb, nvidia_rsyslog: NvidiaNetworkProtocol v1.1.0)
    HPE iLO 5/6  NetworkProtocol, Oem.Hpe.RemoteSyslog…   one server   (HPE, iLO 5: HpeiLOManagerNetworkService)
    Supermicro   Managers/1/Oem/Supermicro/Syslog         one as text, or a list (stmcginnis/gofish, oem/smc/syslog.go)
    Dell         DellAttributes iDRAC.Embedded.1          three: SysLog.1.Server1 to 3 (dell/dellemc-openmanage-ansible-modules,
                                                          plugins/modules/idrac_attributes.py, examples)
    DMTF         EventService, Subscriptions of           as many as it takes (DSP0268, schema EventDestination 1.9 and later;
                 SubscriptionType Syslog                  HPE, iLO event services: from iLO 6 1.68)

Messages go by UDP to port 514 (RFC 5426). None of these was tried on a BMC of its maker.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import TypedDict

from network.drivers.answers import Line, Whole

Json = Mapping[str, Any]
PORT = 514
MANY = 8
"""Log servers of a site: what a BMC with a list of subscriptions is asked to take."""
DELL_SERVERS = ("SysLog.1.Server1", "SysLog.1.Server2", "SysLog.1.Server3")


class LogServers(TypedDict):
    """`servers` get the BMC's messages now; it takes at most `most`, 0 where no way to set them is known."""

    servers: list[Line]
    most: Whole


@dataclass(frozen=True)
class Place:
    """Where a BMC keeps its log servers. `kind`: nvidia, hpe, supermicro, dell, subscriptions or '' for no known way."""

    kind: str
    path: str
    body: Json

    @property
    def most(self) -> int:
        """How many it takes."""
        if self.kind == "supermicro" and isinstance(self.body.get("SyslogServer"), list):
            return max(1, len(self.body["SyslogServer"]))
        return {"": 0, "dell": len(DELL_SERVERS), "subscriptions": MANY}.get(self.kind, 1)


def place(root: Json, manager: Json, protocols: tuple[str, Json], get: Callable[[str], Json]) -> Place:
    """The first of the ways that the BMC has; `protocols` is its NetworkProtocol with its path."""
    path, body = protocols
    oem = _object(body, "Oem")
    if _object(oem, "Nvidia").get("Rsyslog") is not None:
        return Place("nvidia", path, _object(oem, "Nvidia", "Rsyslog"))
    if "RemoteSyslogServer" in _object(oem, "Hpe"):
        return Place("hpe", path, _object(oem, "Hpe"))
    if link := _link(_object(manager, "Oem", "Supermicro", "Syslog")):
        return Place("supermicro", link, get(link))
    for one in _object(manager, "Links", "Oem", "Dell").get("DellAttributes") or []:
        if (link := _link(one)).rpartition("/")[2].startswith("iDRAC."):
            return Place("dell", link, _object(get(link), "Attributes"))
    if (link := _link(root.get("EventService"))) and (members := _link(get(link).get("Subscriptions"))):
        return Place("subscriptions", members, {})
    return Place("", "", {})


def servers(of: Place, subscriptions: Sequence[Json] = ()) -> list[Any]:
    """The log servers in force, as the BMC says them. subscriptions: members of that collection."""
    body = of.body
    if of.kind == "nvidia":
        return [body.get("Address")] if body.get("State") == "Enabled" and body.get("Address") else []
    if of.kind == "hpe":
        return [body["RemoteSyslogServer"]] if body.get("RemoteSyslogEnabled") and body["RemoteSyslogServer"] else []
    if of.kind == "supermicro":
        said = body.get("SyslogServer")
        listed = [one.get("ServerIP") for one in said] if isinstance(said, list) else [said]
        return [one for one in listed if one] if body.get("EnableSyslog") else []
    if of.kind == "dell":
        on = body.get("SysLog.1.SysLogEnable") == "Enabled"
        return [body[key] for key in DELL_SERVERS if body.get(key)] if on else []
    return [host(one) for one in subscriptions if is_syslog(one)]


def change(of: Place, wanted: Sequence[str]) -> dict[str, Any]:
    """The PATCH that sets these servers, at most `of.most`, or switches sending off where there is none. Not for subscriptions."""
    first = wanted[0] if wanted else ""
    if of.kind == "nvidia":
        one = {"State": "Enabled", "Address": first, "Port": PORT, "TransportProtocol": "UDP"}
        return {"Oem": {"Nvidia": {"Rsyslog": one if wanted else {"State": "Disabled"}}}}
    if of.kind == "hpe":
        on = {"RemoteSyslogEnabled": True, "RemoteSyslogServer": first, "RemoteSyslogPort": PORT}
        return {"Oem": {"Hpe": on if wanted else {"RemoteSyslogEnabled": False}}}
    if of.kind == "supermicro":
        if not wanted:
            return {"EnableSyslog": False}
        if isinstance(of.body.get("SyslogServer"), list):
            rest: list[dict[str, Any]] = [{"ServerIP": None, "Port": PORT}] * (of.most - len(wanted))
            return {"EnableSyslog": True, "SyslogServer": [{"ServerIP": one, "Port": PORT} for one in wanted] + rest}
        return {"EnableSyslog": True, "SyslogServer": first, "SyslogPortNumber": PORT}
    if of.kind == "dell":
        slots = dict(zip(DELL_SERVERS, [*wanted, "", "", ""], strict=False))
        enabled = {"SysLog.1.SysLogEnable": "Enabled" if wanted else "Disabled", "SysLog.1.Port": PORT}
        return {"Attributes": {**enabled, **slots}}
    raise ValueError(f"no PATCH sets log servers of kind {of.kind!r}")


def subscription(server: str) -> dict[str, Any]:
    """The EventDestination that sends a log server the BMC's messages."""
    return {
        "Destination": f"syslog://{server}:{PORT}",
        "Protocol": "SyslogUDP",
        "SubscriptionType": "Syslog",
        "Context": "bringup",
    }


def is_syslog(member: Json) -> bool:
    """Whether a subscription sends messages to a log server; others (Redfish events, SNMP traps) are no business of ours."""
    return member.get("SubscriptionType") == "Syslog" or str(member.get("Protocol", "")).startswith("Syslog")


def host(member: Json) -> Any:
    """The address in a subscription's destination, 'syslog://10.0.0.1:514' or the address alone."""
    said = member.get("Destination")
    try:
        return (urlsplit(said).hostname if isinstance(said, str) and "://" in said else None) or said
    except ValueError:
        return said


def as_planned(seen: LogServers, planned: Sequence[str]) -> bool:
    """Whether a BMC sends to the planned log servers: to all, or to as many of the first ones as it takes."""
    return seen["most"] > 0 and sorted(seen["servers"]) == sorted(planned[: seen["most"]])


def _object(body: Any, *keys: str) -> Json:
    """The object below these keys; {} where one of them is missing or holds something else."""
    for key in keys:
        body = body.get(key) if isinstance(body, Mapping) else None
    return body if isinstance(body, Mapping) else {}


def _link(said: Any) -> str:
    found = said.get("@odata.id") if isinstance(said, Mapping) else None
    return found if isinstance(found, str) else ""
