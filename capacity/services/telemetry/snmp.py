"""Modules of Prometheus' SNMP exporter, by OID: no package carries the vendors' MIB files, and Debian's snmp.yml is empty.

OIDs and their sources: snmp.yaml for switches (IF-MIB, RFC 2863), network/drivers/pdu_dialects/apc-rpdu2.yaml for rack PDUs
(PowerNet-MIB), so that driver and telemetry read the same objects. PDUs of other dialects are not asked yet. Metrics carry
the objects' own names, units and scale.
"""

from pathlib import Path
from typing import Any

import yaml

from capacity.services.telemetry.rules import duration
from inventory.site import Site
from network.drivers.pdu import OIDS

SWITCH, PDU = "switch", "pdu"
IF_MIB: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("snmp.yaml").read_text())
PRIV_PROTOCOLS = {"AES128": "AES", "AES192": "AES192", "AES256": "AES256"}
"""Names in the site file and in the exporter's configuration."""
AUTH_PROTOCOLS = {"SHA1": "SHA", "SHA224": "SHA224", "SHA256": "SHA256", "SHA384": "SHA384", "SHA512": "SHA512"}
RPDU2 = {
    "rPDU2DeviceStatusPower": ("device", "power", "Power of the PDU, 0.01 kW"),
    "rPDU2OutletSwitchedStatusState": ("outlet", "state", "State of an outlet: 1 off, 2 on"),
    "rPDU2OutletMeteredStatusPower": ("outlet", "watts", "Power through an outlet, W"),
    "rPDU2PhaseStatusCurrent": ("phase", "amps", "Current of a phase, 0.1 A"),
    "rPDU2PhaseStatusVoltage": ("phase", "volts", "Voltage of a phase, V"),
    "rPDU2PhaseStatusPower": ("phase", "watts", "Power of a phase, 0.01 kW"),
    "rPDU2PhaseStatusLoadState": ("phase", "load_state", "1 low, 2 normal, 3 near overload, 4 overload"),
}
"""Objects that are asked from a PDU: table and key in apc-rpdu2.yaml."""


def modules(site: Site) -> dict[str, Any]:
    """The exporter's modules without their `auth`: {name: {walk, get, metrics, version, …}}."""
    common = {"version": 3, "max_repetitions": 50, "retries": 1, "timeout": duration(_packet_s(site))}
    return {SWITCH: {**_switch(), **common}, PDU: {**_pdu(), **common}}


def auth(site: Site) -> dict[str, str]:
    """The exporter's `auth` without the passphrases (`password`, `priv_password`)."""
    user = site.credentials.snmp
    return {
        "security_level": "authPriv",
        "username": user.user,
        "auth_protocol": AUTH_PROTOCOLS[user.auth_protocol],
        "priv_protocol": PRIV_PROTOCOLS[user.priv_protocol],
    }


def _packet_s(site: Site) -> float:
    """Seconds for one packet: the whole operation, retry included, must fit the site's budget."""
    return site.timeouts.snmp_s / 2


def _switch() -> dict[str, Any]:
    name = IF_MIB["name"]
    return {
        "walk": [entry["oid"] for entry in (name, *IF_MIB["columns"].values())],
        "get": [entry["oid"] for entry in IF_MIB["scalars"].values()],
        "metrics": [
            *({"name": key, **_described(entry)} for key, entry in IF_MIB["scalars"].items()),
            *(
                {
                    "name": key,
                    **_described(entry),
                    "indexes": [{"labelname": "ifIndex", "type": "gauge"}],
                    "lookups": [
                        {"labels": ["ifIndex"], "labelname": "ifName", "oid": name["oid"], "type": "DisplayString"},
                        {"labels": [], "labelname": "ifIndex"},
                    ],
                }
                for key, entry in IF_MIB["columns"].items()
            ),
        ],
    }


def _described(entry: dict[str, str]) -> dict[str, str]:
    return {"oid": entry["oid"], "type": entry["type"], "help": entry["help"]}


def _pdu() -> dict[str, Any]:
    walk, get, metrics = [], [], []
    for name, (table, key, text) in RPDU2.items():
        entry = OIDS[table][key]
        oid = entry["oid"] if isinstance(entry, dict) else entry
        metric: dict[str, Any] = {"name": name, "oid": oid, "type": "gauge", "help": text}
        if table == "device":
            get.append(oid)
        else:
            walk.append(oid)
            metric["indexes"] = [{"labelname": table, "type": "gauge"}]
        metrics.append(metric)
    return {"walk": walk, "get": get, "metrics": metrics}
