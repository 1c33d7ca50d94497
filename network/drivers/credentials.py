"""Credentials that the drivers take, and how they come from a site file's references.

Secrets are resolved here, late, and never shown: every secret field is excluded from `repr`.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from inventory.secrets import reference_path, resolve

if TYPE_CHECKING:
    from inventory.site import Site


@dataclass(frozen=True)
class SnmpCredentials:
    """An SNMPv3 authPriv user (RFC 3414). Protocol names: MD5, SHA, SHA224..SHA512; DES, AES128, AES192, AES256."""

    user: str
    auth: str = field(repr=False)
    priv: str = field(repr=False)
    auth_protocol: str = "SHA256"
    priv_protocol: str = "AES128"


@dataclass(frozen=True)
class BmcCredentials:
    """A Redfish account and the CA (PEM file) that signed the BMCs' certificates."""

    user: str
    password: str = field(repr=False)
    ca: Path | None = None


@dataclass(frozen=True)
class SshCredentials:
    """A user with a private key file; known_hosts pins the device's host key and is never written to."""

    user: str
    key: Path
    known_hosts: Path


def snmp_credentials(site: "Site") -> SnmpCredentials:
    """The site's SNMPv3 user. Raises inventory.secrets.SecretError when a reference cannot be read."""
    snmp = site.credentials.snmp
    return SnmpCredentials(
        snmp.user, _reveal(snmp.auth, site), _reveal(snmp.priv, site), snmp.auth_protocol, snmp.priv_protocol
    )


def bmc_credentials(site: "Site") -> BmcCredentials:
    """The site's BMC account. Raises inventory.secrets.SecretError when a reference cannot be read."""
    bmc = site.credentials.bmc
    return BmcCredentials(bmc.user, _reveal(bmc.password, site), Path(bmc.ca))


def switch_credentials(site: "Site") -> SshCredentials:
    """The account of the network operating systems. SSH takes its key as a file: it never passes through our memory."""
    switch = site.credentials.switch
    return SshCredentials(switch.user, reference_path(switch.key, site.dir), Path(switch.known_hosts))


def node_credentials(site: "Site") -> SshCredentials:
    """The account inside the servers' operating system."""
    ssh = site.credentials.ssh
    return SshCredentials(ssh.user, reference_path(ssh.key, site.dir), Path(ssh.known_hosts))


def _reveal(reference: str, site: "Site") -> str:
    return resolve(reference, base=site.dir).get_secret_value()
