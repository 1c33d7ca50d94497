"""Limits that a step states and that a site may only make stricter: `limits` of an item in steps.yaml. Pure.

laxer(item, site)       what to say of each limit of the site that is laxer than the item's step allows
"""

from inventory.site import Site
from validation.register import Item, LimitFloor


def laxer(item: Item, site: Site) -> list[str]:
    """One text a limit of the site that is laxer than the step of the item allows; [] where none is.

    A limit that the site does not have is not named: the check that judges by it fails without it.
    """
    found = []
    for floor in item.limits:
        limit = site.limits.get(floor.site_limit)
        if limit is not None and not floor.holds(limit.value):
            found.append(
                f"limits.{floor.site_limit} is {limit.value:,.10g} {limit.unit}, and the step allows {allowed(floor)} "
                f"({floor.source})"
            )
    return found


def allowed(floor: LimitFloor) -> str:
    """'10 % or less', '9216 B or more'."""
    if floor.most is not None:
        return f"{floor.most:,.10g} {floor.unit} or less"
    return f"{floor.least:,.10g} {floor.unit} or more"
