"""Apply the remedies of findings and plan the site again: for `bringup plan --fix`, and to test the remedies themselves.

    trial = tried(plan, finding, remedy)   # plan the site with one remedy
    trial.resolves                         # the finding is gone, and there is no new error
    fixed = fixes(plan)                    # apply remedies until no error with a working remedy is left

Pure: a plan in, changed sites and their plans out.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from capacity.build import build
from capacity.model import Plan
from capacity.sizes import complete
from inventory.findings import Finding, Remedy, plain
from inventory.site import Site, SiteError
from inventory.site.loading import shown_path
from inventory.site.whatif import Base

MOST_FIXES = 20
"""Most remedies that `fixes` applies. It bounds the run time: each one costs a plan or more. What is left is reported."""


@dataclass(frozen=True)
class Trial:
    """The result of one remedy.

    ``plan``    the plan with the remedy; None if the site file refuses the value
    ``stays``   whether the plan still has the finding
    ``new``     ids with more error findings than before (ids, not subjects: racks may be renumbered)
    ``errors``  number of error findings before the remedy
    ``error``   the site file's error message, if it refuses the value
    """

    finding: Finding
    remedy: Remedy
    plan: Plan | None
    stays: bool = False
    new: tuple[str, ...] = ()
    errors: int = 0
    error: str = ""

    @property
    def reduces_errors(self) -> bool:
        """The finding is gone, and the plan has fewer errors. New ones may have remedies of their own."""
        return self.plan is not None and not self.stays and stands_against(self.plan).total() < self.errors

    @property
    def resolves(self) -> bool:
        """The finding is gone, and the plan has no new error."""
        return self.plan is not None and not self.stays and not self.new


@dataclass
class Fixed:
    """Result of `fixes`.

    ``settings``  new value of each site key
    ``because``   the finding that each key resolves
    ``plan``      the plan with these values
    """

    plan: Plan
    settings: dict[str, Any] = field(default_factory=dict)
    because: dict[str, Finding] = field(default_factory=dict)


def applied(site: Site, settings: Mapping[str, Any]) -> Site:
    """The site with other values of site keys. SiteError if a value is not allowed."""
    base = Base(site, site.given, shown_path(site.path))
    return complete(base.changed([f"{key}={plain(value)}" for key, value in settings.items()]))


def stands_against(plan: Plan) -> Counter[str]:
    """Number of error findings by id."""
    return Counter(one.id for one in plan.findings if one.severity == "error")


def tried(plan: Plan, one: Finding, way: Remedy) -> Trial:
    """Plan the site again with one remedy applied."""
    try:
        after = build(applied(plan.site, way.settings))
    except SiteError as error:
        return Trial(one, way, None, error=str(error))
    stays = any(
        (other.id, other.subject, other.severity) == (one.id, one.subject, one.severity) for other in after.findings
    )
    before, now = stands_against(plan), stands_against(after)
    return Trial(one, way, after, stays, tuple(sorted(now - before)), before.total())


def fixes(plan: Plan, progress: Callable[[str], None] = lambda key: None) -> Fixed:
    """Apply remedies one at a time until no error has one that works.

    Each time the first remedy that resolves an error is taken; if there is none, the first that leaves fewer errors.
    """
    made = Fixed(plan)
    for _ in range(MOST_FIXES):
        found = _next(made, progress)
        if found is None or found.plan is None:
            break
        made.plan = found.plan
        made.settings |= found.remedy.settings
        made.because |= dict.fromkeys(found.remedy.settings, found.finding)
    return made


def _next(made: Fixed, progress: Callable[[str], None]) -> Trial | None:
    """The first remedy that resolves an error of the current plan, else the first that leaves fewer errors."""
    second: Trial | None = None
    for one in made.plan.findings:
        for way in one.remedies:
            if one.severity == "error" and way.settings:
                progress(way.text)
                trial = tried(made.plan, one, way)
                if trial.resolves:
                    return trial
                second = second or (trial if trial.reduces_errors else None)
    return second
