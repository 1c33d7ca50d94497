"""Who is asked for telemetry: one row per exporter or device of the plan, with the labels that its series carry.

    job         what is asked                          at
    node        node exporter of every server          its provisioning address
    gpu         GPU exporter of every GPU server       its provisioning address
    switch      IF-MIB of every Ethernet switch        its out-of-band address, by SNMP
    pdu         PowerNet-MIB of every rack PDU         its out-of-band address, by SNMP
    inband      every server and in-band switch        its loopback, by ICMP over the fabric

Switches and PDUs appear only where a telemetry server has a leg in the out-of-band network.
"""

import pandas as pd

from capacity.model import Plan

PORTS = {
    "prometheus": 9090,
    "alertmanager": 9093,
    "node": 9100,
    "plan": 9101,
    "blackbox": 9115,
    "snmp": 9116,
    "gpu": 9400,
}
"""TCP ports; those that the projects' list of port allocations gives them (9101 and 9400 by custom)."""
COLUMNS = ("job", "instance", "address", "role", "rack", "unit", "rail", "feed", "model")
ROLES = ("management", "controller")
"""Roles whose servers run the telemetry: the first that the site has."""


def servers(plan: Plan) -> list[str]:
    """Servers that run Prometheus: all of role `management`, or the first controller of a site without any."""
    devices = plan.devices[plan.devices["kind"] == "server"]
    for role in ROLES:
        names = devices.loc[devices["role"] == role, "name"].tolist()
        if names:
            return names if role == "management" else names[:1]
    return []


def switches(plan: Plan) -> pd.DataFrame:
    """Rows of the Ethernet switches that are asked: the in-band ones, and the compute fabric's where it is Ethernet."""
    fabrics = ["inband", *(["compute"] if plan.site.fabric.kind == "roce" else [])]
    devices = plan.devices
    return devices[(devices["kind"] == "switch") & devices["fabric"].isin(fabrics)]


def targets(plan: Plan) -> pd.DataFrame:
    """All targets: columns COLUMNS, all strings ('' where a label does not apply), in the plan's order."""
    devices = plan.devices
    nodes, gpus = devices[devices["kind"] == "server"], devices[devices["role"] == "gpu"]
    asked = [
        _job(plan, "node", nodes, "provisioning", PORTS["node"]),
        _job(plan, "gpu", gpus, "provisioning", PORTS["gpu"]),
    ]
    if _reaches_oob(plan):
        asked.append(_job(plan, "switch", switches(plan), "oob"))
        asked.append(_job(plan, "pdu", devices[devices["kind"] == "pdu"], "oob"))
    routed = devices[(devices["kind"] == "server") | (devices["fabric"] == "inband")]
    asked.append(_job(plan, "inband", routed, "loopback"))
    return pd.concat(asked, ignore_index=True)


def _reaches_oob(plan: Plan) -> bool:
    rows = plan.addresses
    return bool(((rows["network"] == "oob") & rows["device"].isin(servers(plan))).any())


def _job(plan: Plan, job: str, devices: pd.DataFrame, network: str, port: int | None = None) -> pd.DataFrame:
    rows = plan.addresses[plan.addresses["network"] == network].drop_duplicates("device")
    address = rows.set_index("device")["address"].str.split("/").str[0]
    rack = plan.placements.set_index("device")["rack"]
    feed = plan.circuits.set_index("pdu")["feed"]
    names = devices["name"]
    table = pd.DataFrame(
        {
            "job": job,
            "instance": names,
            "address": names.map(address) + (f":{port}" if port else ""),
            "role": devices["role"],
            "rack": names.map(rack),
            "unit": _counted(devices["unit"]),
            "rail": _counted(devices["rail"]),
            "feed": names.map(feed),
            "model": devices["model"],
        },
        columns=list(COLUMNS),
    )
    return table[table["address"].notna()].fillna("").astype(str)


def _counted(column: pd.Series) -> pd.Series:
    """Unit and rail are -1 where a device belongs to none."""
    return column.astype(int).astype(str).where(column >= 0, "")
