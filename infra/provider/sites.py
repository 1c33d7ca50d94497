"""The site behind a resource: loaded once per process, and the only source of credentials for the devices."""

import threading
from collections.abc import Callable

from infra.provider.resource import RefusedError
from inventory.site import Site, SiteError, load_site


class Sites:
    """Loads sites by name or path and keeps them; a provider process lives for one operation."""

    def __init__(self, load: Callable[[str], Site] = load_site) -> None:
        self._load, self._sites, self._lock = load, dict[str, Site](), threading.Lock()

    def get(self, reference: str) -> Site:
        """The site of a resource's `site` input. Raises RefusedError with the site file's own message."""
        with self._lock:
            if reference not in self._sites:
                try:
                    self._sites[reference] = self._load(reference)
                except SiteError as error:
                    raise RefusedError(str(error)) from error
            return self._sites[reference]


def limit(site: Site, key: str, default: float) -> float:
    """The value of a limit of the site file, or `default` where the site does not set it."""
    return site.limits[key].value if key in site.limits else default
