"""Addresses in the forms that other systems read: DNS records, reservations of DHCP, and NetBox's import of IP addresses.

    documents(plan) -> {"dns-records.zone": text, "dns-reverse.zone": text, "dhcp-reservations.csv": text, "netbox-…": text}

Management ports, BMCs, provisioning ports, loopbacks, in-band links and rails: IPv4 addresses, and IPv6 addresses of networks for
which the site has a prefix. Both have one name. Names are relative: the zone file that includes the records says under which domain
they are.

    NAME          provisioning port of a server          NAME-lo        loopback of a server or switch
    NAME-oob      management port                        NAME-bmc       BMC
    NAME-rail0    end of a rail or an in-band link, by its port
"""

import ipaddress

import pandas as pd

from capacity.model import Plan
from capacity.outputs.tables import csv_text
from network.wiring import ipv6

OWN_NAME = {"provisioning": "", "oob": "-oob", "bmc": "-bmc", "loopback": "-lo", "compute-loopback": "-lo"}
"""{network: what follows the device's name}; ends of links have their port's name."""
BY_DHCP = ("oob", "bmc", "provisioning")
"""Networks in which addresses are leased by MAC."""
NETBOX_ROLE = {"loopback": "loopback", "compute-loopback": "loopback"}
"""{network: NetBox's role of an IP address}; others have none."""


def documents(plan: Plan) -> dict[str, str]:
    """All tables of addresses by file name."""
    addresses = _named(ipv6.both(plan.site, plan.catalog, plan.addresses))
    return {
        "dns-records.zone": f"; Site {plan.site.name}, plan {plan.hash}\n{_forward(addresses)}",
        "dns-reverse.zone": f"; Site {plan.site.name}, plan {plan.hash}\n{_reverse(addresses)}",
        "dhcp-reservations.csv": csv_text(_reservations(addresses)),
        "netbox-ip-addresses.csv": csv_text(_netbox(addresses)),
    }


def _named(addresses: pd.DataFrame) -> pd.DataFrame:
    """The address plan with a column `name`: a label of DNS, one for each address."""
    suffix = addresses["network"].map(OWN_NAME)
    ports = "-" + addresses["interface"].str.lower().str.replace(r"[^a-z0-9]+", "-", regex=True)
    return addresses.assign(name=addresses["device"] + suffix.where(suffix.notna(), ports))


def _forward(addresses: pd.DataFrame) -> str:
    lines = ["; Addresses of the plan. In a zone file: $INCLUDE dns-records.zone cluster.example."]
    lines += [
        f"{name} IN {'AAAA' if ':' in address else 'A'} {address.partition('/')[0]}"
        for name, address in zip(addresses["name"], addresses["address"], strict=True)
    ]
    return "\n".join(lines) + "\n"


def _reverse(addresses: pd.DataFrame) -> str:
    lines = [
        "; Names of the plan's addresses. In the zone file of a reverse zone: $INCLUDE dns-reverse.zone cluster.example."
    ]
    lines += [
        f"{ipaddress.ip_interface(address).ip.reverse_pointer}. IN PTR {name}"
        for name, address in zip(addresses["name"], addresses["address"], strict=True)
    ]
    return "\n".join(lines) + "\n"


def _reservations(addresses: pd.DataFrame) -> pd.DataFrame:
    """One row for each leased address; `mac` is empty until assets.csv has it. A server of DHCPv6 knows it from the link or from a
    relay that tells it (RFC 6939).
    """
    leased = addresses[addresses["network"].isin(BY_DHCP)]
    return leased.assign(address=leased["address"].str.partition("/")[0])[
        ["network", "device", "interface", "mac", "address", "name"]
    ].rename(columns={"name": "hostname"})


def _netbox(addresses: pd.DataFrame) -> pd.DataFrame:
    """Columns of NetBox's bulk import of IP addresses (NetBox 4, IPAM, IP addresses)."""
    far = addresses["peer_device"] + " " + addresses["peer_interface"]
    return pd.DataFrame(
        {
            "address": addresses["address"],
            "status": "reserved",
            "role": addresses["network"].map(NETBOX_ROLE).fillna(""),
            "device": addresses["device"],
            "interface": addresses["interface"],
            "dns_name": addresses["name"],
            "description": (addresses["network"] + " " + far).str.strip(),
        }
    )
