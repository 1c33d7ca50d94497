"""The sites behind the resources: each loaded once per process, and its secrets resolved once, when first needed."""

import threading
from collections.abc import Callable
from typing import TypeVar

import pandas as pd

from capacity.sizes import load_site
from infra.provider.resource import RefusedError
from inventory.delivered.assets import AssetError, load_assets
from inventory.secrets import SecretError
from inventory.site import Site, SiteError
from network.drivers import credentials
from network.drivers.credentials import BmcCredentials, SnmpCredentials, SshCredentials

Value = TypeVar("Value")


class Sites:
    """Sites by reference (name or path), with the credentials of their devices.

    A provider process lives for one operation, so nothing is read twice: a vault is asked once per secret and not once
    per device. The credential methods raise SecretError (the same one again) when a reference cannot be resolved.
    """

    def __init__(self, load: Callable[[str], Site] = load_site) -> None:
        self._load = load
        self._known: dict[tuple[str, str], object] = {}
        self._lock = threading.Lock()

    def get(self, reference: str) -> Site:
        """The site of a resource's `site` input. Raises RefusedError with the site file's own message."""
        try:
            return self._once(reference, "site", lambda: self._load(reference))
        except SiteError as error:
            raise RefusedError(str(error)) from error

    def snmp(self, reference: str) -> SnmpCredentials:
        """The SNMPv3 user of the site's PDUs."""
        site = self.get(reference)
        return self._once(reference, "snmp", lambda: credentials.snmp_credentials(site))

    def bmc(self, reference: str, server: str) -> BmcCredentials:
        """The site's own account on the BMC of a server. LoginNotGiven where that server's own secret cannot be read."""
        site = self.get(reference)
        return self._once(reference, "bmc", lambda: credentials.bmc_credentials(site, self._assets(site)))(server)

    def factory(self, reference: str, server: str) -> BmcCredentials | None:
        """The BMC's account as delivered, or None when the site names none."""
        site = self.get(reference)
        made = self._once(reference, "factory", lambda: credentials.factory_credentials(site, self._assets(site)))
        return made(server) if made else None

    def _assets(self, site: Site) -> pd.DataFrame:
        try:
            return load_assets(site)
        except (AssetError, OSError) as error:
            raise SecretError(f"which secret is whose cannot be told: {error}") from error

    def switch(self, reference: str) -> SshCredentials:
        """The account of the site's network operating systems."""
        site = self.get(reference)
        return self._once(reference, "switch", lambda: credentials.switch_credentials(site))

    def node(self, reference: str) -> SshCredentials:
        """The account inside the servers' operating system."""
        site = self.get(reference)
        return self._once(reference, "node", lambda: credentials.node_credentials(site))

    def _once(self, reference: str, what: str, make: Callable[[], Value]) -> Value:
        with self._lock:
            if (reference, what) not in self._known:
                try:
                    self._known[reference, what] = make()
                except SecretError as error:
                    self._known[reference, what] = error
            known = self._known[reference, what]
        if isinstance(known, SecretError):
            raise SecretError(str(known))
        return known  # type: ignore[return-value]  # what make() returned for this key


def limit(site: Site, key: str, default: float) -> float:
    """The value of a limit of the site file, or `default` where the site does not set it."""
    return site.limits[key].value if key in site.limits else default
