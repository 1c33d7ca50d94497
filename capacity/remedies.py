"""The remedies that findings print, applied: to see that they mend, and for `bringup plan --fix`.

    for tried in trials(plan):        # each remedy of site keys by itself
        tried.mends
    fixed = fixes(plan)               # the fewest of them after which no error is left that one could mend

Pure: a plan in, changed sites and their plans out.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
"""Remedies that are applied one after the other; a site that needs more is another site."""


@dataclass(frozen=True)
class Trial:
    """A remedy that was applied.

    ``plan``    the plan with it; None where the site file refuses it
    ``stays``   whether the finding still stands
    ``new``     ids of which there are more error findings than before; subjects move where racks are numbered anew
    ``errors``  error findings before
    ``error``   what the site file says against it
    """

    finding: Finding
    remedy: Remedy
    plan: Plan | None
    stays: bool = False
    new: tuple[str, ...] = ()
    errors: int = 0
    error: str = ""

    @property
    def lessens(self) -> bool:
        """The finding is gone, and of errors there are fewer than before: what came for it may have a remedy of its own."""
        return self.plan is not None and not self.stays and stands_against(self.plan).total() < self.errors

    @property
    def mends(self) -> bool:
        """The finding is gone, and no error came for it."""
        return self.plan is not None and not self.stays and not self.new


@dataclass
class Fixed:
    """What mends a plan.

    ``settings``  new values of site keys
    ``because``   the finding that each key is changed for
    ``plan``      the plan with them
    """

    plan: Plan
    settings: dict[str, Any] = field(default_factory=dict)
    because: dict[str, Finding] = field(default_factory=dict)


def applied(site: Site, settings: Mapping[str, Any]) -> Site:
    """The site with site keys changed. SiteError where the file may not say so."""
    base = Base(site, site.given, shown_path(site.path))
    return complete(base.changed([f"{key}={plain(value)}" for key, value in settings.items()]))


def stands_against(plan: Plan) -> Counter[str]:
    """How many error findings there are of each id."""
    return Counter(one.id for one in plan.findings if one.severity == "error")


def tried(plan: Plan, one: Finding, way: Remedy) -> Trial:
    """A remedy applied to the plan's site."""
    try:
        after = build(applied(plan.site, way.settings))
    except SiteError as error:
        return Trial(one, way, None, error=str(error))
    stays = any(
        (other.id, other.subject, other.severity) == (one.id, one.subject, one.severity) for other in after.findings
    )
    before, now = stands_against(plan), stands_against(after)
    return Trial(one, way, after, stays, tuple(sorted(now - before)), before.total())


def trials(plan: Plan, severities: Sequence[str] = ("error", "warning")) -> Iterator[Trial]:
    """Every remedy of site keys of the findings of a plan, each by itself."""
    for one in plan.findings:
        for way in one.remedies:
            if one.severity in severities and way.settings:
                yield tried(plan, one, way)


def fixes(plan: Plan, progress: Callable[[str], None] = lambda key: None) -> Fixed:
    """Remedies one after the other: the first that mends an error without a new one, else one after which there are fewer."""
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
    """The first remedy that mends an error finding as the plan stands now, else the first after which there are fewer."""
    second: Trial | None = None
    for one in made.plan.findings:
        for way in one.remedies:
            if one.severity == "error" and way.settings:
                progress(way.text)
                trial = tried(made.plan, one, way)
                if trial.mends:
                    return trial
                second = second or (trial if trial.lessens else None)
    return second
