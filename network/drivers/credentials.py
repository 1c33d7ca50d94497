"""Credentials that the drivers take, and how they come from a site file's references.

Secrets are resolved here, late, and never shown: every secret field is excluded from `repr`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pandas as pd

from inventory.secret_tables import Owner
from inventory.secrets import SecretError, for_devices, readable, reference_path, resolve, site_path
from inventory.site import Site
from network.drivers.errors import LoginNotGiven


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
    """A Redfish account and the CA (PEM file) that signed the BMCs' certificates.

    pin: SHA-256, in hex, of the one certificate that is trusted in place of any CA's; '' for none.
    """

    user: str
    password: str = field(repr=False)
    ca: Path | None = None
    pin: str = ""


@dataclass(frozen=True)
class SshCredentials:
    """A user with a private key file; known_hosts pins the device's host key and is never written to."""

    user: str
    key: Path
    known_hosts: Path


@dataclass(frozen=True)
class HttpsCredentials:
    """A user with a password on a device's HTTPS interface, and the CA (PEM file) that signed the device's certificate."""

    user: str
    password: str = field(repr=False)
    ca: Path


def snmp_credentials(site: Site) -> SnmpCredentials:
    """The site's SNMPv3 user. Raises inventory.secrets.SecretError when a reference cannot be read."""
    snmp = site.credentials.snmp
    return SnmpCredentials(
        snmp.user, _reveal(snmp.auth, site), _reveal(snmp.priv, site), snmp.auth_protocol, snmp.priv_protocol
    )


def bmc_credentials(site: Site, assets: pd.DataFrame) -> Callable[[str], BmcCredentials]:
    """What gives the site's account on the BMC of a server. `assets` are as of `load_assets`.

    Raises inventory.secrets.SecretError when a reference that all BMCs share, or a table, cannot be read. What it returns
    raises LoginNotGiven for a server whose own secret cannot be.
    """
    bmc = site.credentials.bmc
    return _per_bmc(site, assets, bmc.user, bmc.password, "credentials.bmc.password")


def factory_credentials(site: Site, assets: pd.DataFrame) -> Callable[[str], BmcCredentials] | None:
    """As `bmc_credentials`, for the BMCs' account as delivered; None when the site names none."""
    factory = site.credentials.bmc.factory
    if factory is None:
        return None
    return _per_bmc(site, assets, factory.user, factory.password, "credentials.bmc.factory.password")


def _per_bmc(site: Site, assets: pd.DataFrame, user: str, reference: str, key: str) -> Callable[[str], BmcCredentials]:
    ca, secret = _ca(site), for_devices(reference, site.dir)

    def of(server: str) -> BmcCredentials:
        listed = assets.loc[server] if server in assets.index else {"serial": "", "mgmt_mac": ""}
        try:
            password = secret(Owner(server, str(listed["serial"]), str(listed["mgmt_mac"])))
        except SecretError as error:
            raise LoginNotGiven(
                server, "log in", f"a password at {key}", str(error), "then run the same command again"
            ) from None
        return BmcCredentials(user, password.get_secret_value(), ca)

    return of


def switch_credentials(site: Site) -> SshCredentials:
    """The account of the network operating systems. SSH takes its key as a file: it never passes through our memory."""
    switch = site.credentials.switch
    return _ssh_credentials("switch", switch.user, switch.key, switch.known_hosts, site.dir)


def switch_https_credentials(site: Site) -> HttpsCredentials:
    """The same account on switches that are configured over HTTPS. Raises SecretError, also where the site gives no password."""
    switch = site.credentials.switch
    if switch.password is None or switch.ca is None:
        raise SecretError("credentials.switch: no password and ca, which switches that are configured over HTTPS need")
    ca = readable(site_path(switch.ca, site.dir), "credentials.switch.ca")
    return HttpsCredentials(switch.user, _reveal(switch.password, site), ca)


def public_key(site: Site, of: Literal["ssh", "switch"]) -> str:
    """The line beside the private key of credentials.ssh or credentials.switch, which the site must have; '' where there is
    no such file. Raises SecretError for a file that cannot be read.
    """
    key = reference_path(getattr(site.credentials, of).key, site.dir)
    path = key.with_name(key.name + ".pub")
    if not path.is_file():
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SecretError(f"credentials.{of}.key: cannot read the public key {path}: {error}") from None


def node_credentials(site: Site) -> SshCredentials:
    """The account inside the servers' operating system."""
    ssh = site.credentials.ssh
    return _ssh_credentials("ssh", ssh.user, ssh.key, ssh.known_hosts, site.dir)


def _ssh_credentials(section: str, user: str, key: str, known_hosts: str, base: Path) -> SshCredentials:
    return SshCredentials(
        user,
        readable(reference_path(key, base), f"credentials.{section}.key"),
        readable(site_path(known_hosts, base), f"credentials.{section}.known_hosts"),
    )


def _ca(site: Site) -> Path:
    return readable(site_path(site.credentials.bmc.ca, site.dir), "credentials.bmc.ca")


def _reveal(reference: str, site: Site) -> str:
    return resolve(reference, base=site.dir).get_secret_value()
