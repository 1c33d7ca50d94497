"""Site variants for the planner's tests."""

from typing import Any

from inventory.site import Site, load_site


def variant(name: str, **sections: dict[str, Any]) -> Site:
    """A shipped site with some keys changed: variant("lab", server={"count": 8})."""
    site = load_site(name)
    changed = {key: getattr(site, key).model_copy(update=values) for key, values in sections.items()}
    return site.model_copy(update=changed)
