"""Apply the remedies of findings and plan the site again: for `bringup plan --fix`, and to test the remedies themselves.

    trial = tried(plan, finding, remedy)   # plan the site with one remedy
    trial.resolves                         # the finding is gone, and there is no new error
    fixed = fixes(plan)                    # apply remedies until no error with a working remedy is left
    plan = proved(plan)                    # plan the site with every remedy; one that fails keeps its text and loses its values

Pure: a plan in, changed sites and their plans out.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from capacity.build import build, planned
from capacity.kept import Kept
from capacity.least import Fault, Tried, stays
from capacity.model import Plan
from capacity.procurement import bom
from capacity.sizes import complete, sized
from inventory.delivered.assets import load_assets
from inventory.findings import FIX, Finding, Remedy, plain
from inventory.remedy_costs import gives_up, rank
from inventory.site import Site, SiteError
from inventory.site.whatif import with_settings

MOST_FIXES = 20
"""Most remedies that `fixes` applies. It bounds the run time: each one costs a plan or more. What is left is reported."""


@dataclass(frozen=True)
class Trial:
    """The result of one remedy.

    ``plan``    the plan with the remedy, without what-ifs of its own; None if the site file refuses the value
    ``stays``   whether the plan still has the finding, or one more of its id at another subject in its place
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
    return complete(with_settings(site, settings))


def stands_against(plan: Plan) -> Counter[str]:
    """Number of error findings by id."""
    return Counter(one.id for one in plan.findings if one.severity == "error")


def tried(plan: Plan, one: Finding, way: Remedy, kept: Kept | None = None) -> Trial:
    """Plan the site again with one remedy applied. `kept` are results of stages of such plans (capacity.kept)."""
    try:
        after = planned(with_settings(plan.site, way.settings), kept=kept, what_ifs=False)
    except SiteError as error:
        return Trial(one, way, None, error=str(error))
    before, now = stands_against(plan), stands_against(after)
    return Trial(one, way, after, _stays(one, plan, after), tuple(sorted(now - before)), before.total())


def _stays(one: Finding, before: Plan, after: Plan) -> bool:
    """Whether a plan still has a finding: at its subject, or at another in its place, as where a device has another name."""
    then, now = (
        [o.subject for o in p.findings if (o.id, o.severity) == (one.id, one.severity)] for p in (before, after)
    )
    return stays(one.subject, then, now)


def proved(plan: Plan, kept: Kept | None = None, progress: Callable[[str], None] = lambda text: None) -> Plan:
    """The plan with every remedy of site keys tried: a remedy that is left with values removes its finding and brings no new error.

    - A remedy that brings new errors gets the values that remove them, as far as the remedies of these errors say.
    - A remedy with values that are not needed loses them.
    - A remedy that still fails keeps its text, followed by the reason, and has no values.
    - A remedy that the site file refuses is left out, unless no other is left.

    `kept` are results of stages of this plan. Remedies that are `sure` are not tried.
    """
    if not any(_to_try(way) for one in plan.findings for way in one.remedies):
        return plan
    site, assets, kept = plan.site, load_assets(plan.site), kept or Kept(most=2)
    trials = Tried(
        site,
        lambda changed: build(changed, plan.catalog, assets, kept=kept, what_ifs=False).findings,
        lambda unchanged, values: sized(with_settings(unchanged, values), plan.catalog, assets, kept),
        plan.findings,
    )
    return replace(plan, findings=tuple(_with_proved(one, trials, progress) for one in plan.findings))


def _with_proved(one: Finding, trials: Tried, progress: Callable[[str], None]) -> Finding:
    """The finding with remedies that mend, and the others in words."""
    made: list[Remedy] = []
    refused: list[Remedy] = []
    for way in one.remedies:
        if _to_try(way):
            progress(way.text)
            fault = trials.fault(way.settings, one)
            values = None if fault.refused else trials.proved(way.settings, one)
            way = Remedy({}, f"{way.text} {_lack(fault)}") if values is None else _said(way, values)
            if fault.refused:
                refused.append(way)
                continue
        if way not in made:
            made.append(way)
    made = made or refused
    if tuple(made) == one.remedies:
        return one
    what = one.message.partition(FIX)[0]
    return replace(one, remedies=tuple(made), message=f"{what}{FIX}{', or '.join(way.text for way in made)}.")


def _to_try(way: Remedy) -> bool:
    return bool(way.settings) and not way.sure


def _lack(fault: Fault) -> str:
    """Why a remedy is no value, behind its text."""
    if fault.refused:
        return "(refused by the site file)"
    return "(not enough alone)" if fault.stays else f"(brings {', '.join(fault.new)})"


def _said(way: Remedy, values: Mapping[str, Any]) -> Remedy:
    """A remedy with the values that mend: its own text, and what goes with it."""
    if values == way.settings:
        return way
    more = {key: value for key, value in values.items() if way.settings.get(key) != value}
    whole = way.settings.items() <= values.items()
    text = " and ".join(f"{key}: {plain(value)}" for key, value in (more if whole else values).items())
    return Remedy(values, f"{way.text} with {text}" if whole else text)


def fixes(plan: Plan, progress: Callable[[str], None] = lambda key: None) -> Fixed:
    """Apply remedies one at a time until no error has one that works, then leave out the values that later ones made needless.

    Each time the cheapest remedy of the first error that one resolves is taken; if none does, the first that leaves fewer errors.
    """
    made, kept, rounds = Fixed(plan), Kept(most=2), 0
    while rounds < MOST_FIXES:
        found = _next(made, progress, kept)
        if found is None or found.plan is None:
            break
        rounds += 1
        made.plan = build(found.plan.site, kept=kept)
        made.settings |= found.remedy.settings
        made.because |= dict.fromkeys(found.remedy.settings, found.finding)
    if rounds > 1 and len((least := _without_needless(plan, made, progress, kept)).settings) < len(made.settings):
        made = replace(least, plan=build(least.plan.site, kept=kept))
    return made


def _next(made: Fixed, progress: Callable[[str], None], kept: Kept) -> Trial | None:
    """The cheapest remedy that resolves the first error of the current plan that any does, else the first that leaves fewer
    errors.
    """
    second: Trial | None = None
    for one in made.plan.findings:
        resolving = []
        for way in one.remedies if one.severity == "error" else ():
            if not way.settings:
                continue
            progress(way.text)
            trial = tried(made.plan, one, way, kept)
            if trial.resolves:
                resolving.append(trial)
            second = second or (trial if trial.reduces_errors else None)
        if resolving:
            return cheapest(resolving, made.plan)
    return second


def cheapest(trials: Sequence[Trial], before: Plan) -> Trial:
    """Of remedies that resolve a finding of the plan `before`, that which adds least to its bill; one that gives something up
    only where no other does. Where a bill lacks prices, the order of remedy_costs.yaml stands; of equal ones the first.
    """
    cost, unpriced = bom.cost(before.bom), bom.unpriced(before.bom)

    def added(trial: Trial) -> float:
        return bom.cost(trial.plan.bom) - cost if trial.plan is not None else 0.0

    priced = cost > 0 and all(one.plan is not None and bom.unpriced(one.plan.bom) <= unpriced for one in trials)
    return min(
        trials,
        key=lambda one: (
            gives_up(one.remedy.settings),
            added(one) if priced else 0.0,
            rank(one.remedy.settings),
        ),
    )


def _without_needless(plan: Plan, made: Fixed, progress: Callable[[str], None], kept: Kept) -> Fixed:
    """The fixes without the values that are not needed beside the others, dearest first: no error more without them."""
    for key in sorted(made.settings, key=lambda one: -rank([one])):
        rest = {other: value for other, value in made.settings.items() if other != key}
        progress(f"the others without {key}")
        try:
            after = planned(with_settings(plan.site, rest), kept=kept, what_ifs=False)
        except SiteError:
            continue
        if stands_against(after) <= stands_against(made.plan):
            made = Fixed(after, rest, {other: made.because[other] for other in rest})
    return made
