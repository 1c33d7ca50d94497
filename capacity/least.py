"""Remedies of several site values: what else has to change so that a remedy causes no new error.

    values = Tried(site, trial).least({"power.rack_pdu.per_feed": 2}, "POWER-BANK")
    # {"power.rack_pdu.per_feed": 2, "oob.switches": 7}: more rack PDUs need more management ports

`trial` plans a part of the changed site and returns its findings. If one of them is a new error, each of its remedies is added
to the values, and the site is tried again. Sets of fewer values are tried first, and cheaper remedies before dearer ones. The set
that is returned has no value too many: if one of them is left out, the finding stays or a new error comes.
"""

import functools
import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from capacity.kept import unwatched
from inventory.findings import Finding
from inventory.site import Site

Trial = Callable[[Site], Sequence[Finding] | None]
"""Findings of a changed site; None where nobody asks for what-ifs."""
MOST_ROUNDS = 4
"""Most trials of one remedy on the way to a set. It bounds the run time: a trial plans the site from the fabric to the supply."""
MOST_TRIALS = 8
"""Most trials of one remedy over all ways. It is enough for two ways at each of the first rounds and one at the last."""


class Tried:
    """Trials of one site, each made once."""

    def __init__(self, site: Site, trial: Trial) -> None:
        self._site, self._changeable, self._trial = site, unwatched(site), trial
        self._found: dict[str, Sequence[Finding] | None] = {}

    def least(self, values: Mapping[str, Any], id_: str) -> dict[str, Any] | None:
        """`values` (site key to value), and the values that have to change with them.

        None if the plan still has a finding `id_` then, or has a new error that no site key resolves.
        """
        as_it_is = self._findings({})
        if as_it_is is None:
            return None
        before = _errors(as_it_is)
        made = self._first(values, id_, before)
        if made is None:
            return None
        return self._stated(next((part for part in parts(made) if self._mends(part, id_, before)), made))

    def _stated(self, values: dict[str, Any]) -> dict[str, Any]:
        """The values without sizes that nobody states: these follow by themselves when the site is planned with the others."""
        open_ = {".".join(map(str, path)) for path in self._site.effective.sized()}
        return {key: value for key, value in values.items() if key not in open_} or values

    def _first(self, values: Mapping[str, Any], id_: str, before: Counter[str]) -> dict[str, Any] | None:
        """These values and as few others as mend the site together; None if MOST_TRIALS trials find no such set."""
        waiting = [(len(values), 0, dict(values))]
        number = itertools.count(1)
        for _ in range(MOST_TRIALS):
            if not waiting:
                break
            size, _, made = heapq.heappop(waiting)
            after = self._findings(made) or ()
            new = _errors(after) - before
            left = any(one.id == id_ for one in after)
            if not new and not left:
                return made
            if (left and id_ not in new) or size >= len(values) + MOST_ROUNDS - 1:
                continue
            for way in _ways(after, new, made):
                more = {**made, **way}
                heapq.heappush(waiting, (len(more), next(number), more))
        return None

    def _mends(self, values: Mapping[str, Any], id_: str, before: Counter[str]) -> bool:
        """Whether the plan with these values has neither the finding nor a new error."""
        after = self._findings(values) or ()
        return not any(one.id == id_ for one in after) and not _errors(after) - before

    def _findings(self, values: Mapping[str, Any]) -> Sequence[Finding] | None:
        key = repr(sorted(values.items()))
        if key not in self._found:
            self._found[key] = self._trial(with_values(self._changeable, values))
        return self._found[key]


def parts(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every proper part of some values, those of the fewest first; the empty one is none."""
    for size in range(1, len(values)):
        for keys in itertools.combinations(values, size):
            yield {key: values[key] for key in keys}


def with_values(site: Site, values: Mapping[str, Any]) -> Site:
    """A copy of the site with other values. They are not checked. AttributeError if a key names an entry of a list."""
    for key, value in values.items():
        site = _put(site, key.split("."), value)
    return site


def _put(model: Any, path: Sequence[str], value: Any) -> Any:
    """A copy of a section with the value at `path`; a section on the way that the site lacks is made of this value alone."""
    name, *rest = path
    inner = getattr(model, name)
    if rest and inner is None:
        given = functools.reduce(lambda made, key: {key: made}, reversed(rest), value)
        return model.model_copy(
            update={name: TypeAdapter(type(model).model_fields[name].annotation).validate_python(given)}
        )
    return model.model_copy(update={name: _put(inner, rest, value) if rest else value})


def _errors(findings: Iterable[Finding]) -> Counter[str]:
    """Number of error findings by id."""
    return Counter(one.id for one in findings if one.severity == "error")


def _ways(findings: Iterable[Finding], new: Collection[str], made: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The site values of the remedies that change no key in `made`: those of the first new error that has any."""
    for one in findings:
        ways = [way.settings for way in one.remedies if way.settings and made.keys().isdisjoint(way.settings)]
        if ways and one.id in new and one.severity == "error":
            return ways
    return []
