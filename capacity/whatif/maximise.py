"""How many servers fit: the largest server.count whose plan has no error finding, found by bisection over plans.

    found = maximise(Base.read("h100-1000-ib"), free=("oob.switches", "inband.leaves"))
    found.servers, found.gpus, found.limited_by

Sizes that the site file does not state follow the count by themselves; `free` are keys of stated ones that may follow it too:
they take what the remedies of error findings ask for. More servers are taken to need more of everything: if n do not fit,
n + 1 do not either.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capacity.build import build
from capacity.model import Plan
from capacity.outputs.summary import answers
from capacity.sizes import complete
from inventory.findings import without_untried
from inventory.site import SiteError
from inventory.site.whatif import Base

MOST_SERVERS = 65_536
MOST_ROUNDS = 12
"""Plans of one count in which free keys follow; then the count does not fit."""
GOALS = ("servers", "gpus")


@dataclass(frozen=True)
class Most:
    """`servers` 0 where none fit. `limited_by` is the finding, or SITE-FILE, that one step more has, and `why` its words."""

    settings: tuple[str, ...]
    servers: int
    gpus: int
    answers: dict[str, object]
    freed: tuple[str, ...]
    limited_by: str
    why: str
    plans: int


def maximise(base: Base, settings: Sequence[str] = (), free: Sequence[str] = ()) -> Most:
    """The most servers of the site with `settings`; SiteError for settings that the site file refuses at any count."""
    system = base.site.server.system
    step = base.site.catalog.system(system).count("compute") if system else 1
    tried: dict[int, tuple[Plan | None, tuple[str, ...], str, str]] = {}

    def fits(steps: int) -> bool:
        if steps not in tried:
            tried[steps] = _plan(base, [*settings, f"server.count={steps * step}"], free)
        return tried[steps][0] is not None

    base.changed(settings)
    most = _largest(fits, max(base.site.server.count // step, 1), MOST_SERVERS // step)
    plan, freed = (tried[most][0], tried[most][1]) if most else (None, ())
    _, _, id_, why = tried.get(most + 1, (None, (), "", ""))
    said = answers(plan) if plan is not None else {}
    return Most(tuple(settings), most * step, int(str(said.get("gpus", 0))), said, freed, id_, why, len(tried))


def _largest(fits: Callable[[int], bool], start: int, limit: int) -> int:
    """The largest number up to `limit` that fits, 0 where 1 does not: doubled or halved from `start`, then bisected."""
    low, high = 0, limit + 1
    number = min(start, limit)
    while low < number < high:
        if fits(number):
            low, number = number, min(number * 2, limit)
        else:
            high, number = number, number // 2
        if low and high <= limit:
            break
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _plan(base: Base, settings: list[str], free: Sequence[str]) -> tuple[Plan | None, tuple[str, ...], str, str]:
    """(the plan or None, settings of free keys, id and words of what stands against it)."""
    freed: dict[str, str] = {}
    for _ in range(MOST_ROUNDS):
        now = [*settings, *freed.values()]
        try:
            plan = build(complete(base.changed(now)))
        except SiteError as error:
            first = error.problems[0]
            where = ".".join(map(str, first.path))
            return None, (), "SITE-FILE", f"{where}: {first.what}: {first.found}; expected {first.expected}"
        errors = [f for f in plan.findings if f.severity == "error"]
        if not errors:
            return plan, tuple(freed.values()), "", ""
        asked = {
            key: f"{key}={json.dumps(value)}"
            for one in errors
            for way in one.remedies
            if way.settings and way.settings.keys() <= set(free)
            for key, value in way.settings.items()
        }
        if not asked or asked.items() <= freed.items():
            break
        freed |= asked
    return None, (), errors[0].id, f"{errors[0].subject}: {without_untried(errors[0]).message}"
