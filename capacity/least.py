"""Remedies of several site values: what else has to change so that a remedy causes no new error.

    values = Tried(site, trial, sized).least({"power.rack_pdu.per_feed": 2}, "POWER-BANK")
    # {"power.rack_pdu.per_feed": 2, "oob.switches": 7}: more rack PDUs need more management ports

`trial` plans a part of the changed site and returns its findings; `sized` works out its open sizes anew. If one of the findings
is a new error, each of its remedies is added to the values, and the site is tried again. Sets of fewer values are tried first,
and cheaper remedies before dearer ones. The set that is returned has no value too many: if one of them is left out, the finding
stays or a new error comes.
"""

import functools
import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from capacity.kept import as_a_whole, unwatched
from inventory.findings import Finding
from inventory.site import Site, SiteError

Trial = Callable[[Site], Sequence[Finding] | None]
"""Findings of a changed site; None where nobody asks for what-ifs."""
Sized = Callable[[Site, Mapping[str, Any]], Site]
"""A site with other values of site keys, its open sizes worked out anew. SiteError for what the site file refuses."""
MOST_ROUNDS = 4
"""Most trials of one remedy on the way to a set. It bounds the run time: a trial plans the site from the fabric to the supply."""
MOST_TRIALS = 8
"""Most trials of one remedy over all ways. It is enough for two ways at each of the first rounds and one at the last."""
MOST_PROOFS = 4
"""Most trials of one remedy as it is printed: each is a plan of the whole site."""


@dataclass(frozen=True)
class Fault:
    """What a remedy lacks: the site file refuses it, the finding stays, it brings these errors."""

    refused: bool = False
    stays: bool = False
    new: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Aim:
    """When a remedy works: no finding of this id is left, and the site has no new error.

    ``subject``   only the finding of this subject; '' for all
    ``severity``  only findings of this severity; '' for errors and warnings
    ``before``    errors of the site without the remedy, by id
    ``subjects``  subjects that have the finding without the remedy
    """

    id_: str
    subject: str
    before: Counter[str]
    subjects: Sequence[str]
    severity: str = ""

    @classmethod
    def of(cls, id_: str, subject: str, as_it_is: Sequence[Finding], severity: str = "") -> "_Aim":
        """The aim, with the findings of the site as it is."""
        return cls(id_, subject, _errors(as_it_is), _subjects(id_, as_it_is, severity), severity)

    def left(self, after: Iterable[Finding]) -> bool:
        """Whether the finding is still there."""
        now = _subjects(self.id_, after, self.severity)
        return stays(self.subject, self.subjects, now) if self.subject else bool(now)

    def new(self, after: Iterable[Finding]) -> Counter[str]:
        """The errors that were not there."""
        return _errors(after) - self.before


class Tried:
    """Trials of one site, each made once. Without `sized` open sizes stay as they are. `as_it_is`: what is found of the site, where
    that is known.
    """

    def __init__(
        self, site: Site, trial: Trial, sized: Sized | None = None, as_it_is: Sequence[Finding] | None = None
    ) -> None:
        self._site, self._changeable, self._trial, self._sized = site, unwatched(site), trial, sized
        self._found: dict[tuple[bool, str], Sequence[Finding] | None] = {}
        if as_it_is is not None:
            self._found[_key({}, anew=False)] = as_it_is

    def least(self, values: Mapping[str, Any], id_: str, subject: str = "") -> dict[str, Any] | None:
        """`values` (site key to value), and the values that have to change with them.

        None if the plan still has a finding `id_` then (of `subject`, where one is given), or has a new error that no site key
        resolves. Where sizes are open, they are first held, which is quicker; what is found so is then tried with sizes that
        are worked out anew, as the site is planned with it.
        """
        as_it_is = self._findings({})
        if as_it_is is None:
            return None
        aim = _Aim.of(id_, subject, as_it_is)
        made = self._first(values, aim)
        if made is None or self._sized is None or not self._site.effective.sized():
            return self._allowed(self._smallest(made, aim))
        stated = self._stated(made)
        return self._smallest(stated, aim, anew=True) or self._smallest(
            self._first(values, aim, anew=True), aim, anew=True
        )

    def _allowed(self, values: dict[str, Any] | None) -> dict[str, Any] | None:
        """These values, where the site file takes them: trials do not ask its rules."""
        if values is None or self._sized is None:
            return values
        try:
            self._sized(as_a_whole(self._site), values)
        except SiteError:
            return None
        return values

    def proved(self, values: Mapping[str, Any], one: Finding) -> dict[str, Any] | None:
        """`least` of a remedy of a finding that stands, by plans of the site file with these values: what it refuses is none, and
        open sizes are worked out anew each time.
        """
        aim = _Aim.of(one.id, one.subject, self._findings({}) or (), one.severity)
        return self._smallest(self._first(values, aim, anew=True, most=MOST_PROOFS), aim, anew=True)

    def fault(self, values: Mapping[str, Any], one: Finding) -> Fault:
        """What a remedy of a finding that stands lacks by itself, planned as `proved` does."""
        aim = _Aim.of(one.id, one.subject, self._findings({}) or (), one.severity)
        after = self._findings(values, anew=True)
        return Fault(after is None, after is not None and aim.left(after), tuple(sorted(aim.new(after or ()))))

    def _stated(self, values: dict[str, Any]) -> dict[str, Any]:
        """The values without sizes that nobody states: these follow by themselves when the site is planned with the others."""
        open_ = {".".join(map(str, path)) for path in self._site.effective.sized()}
        return {key: value for key, value in values.items() if key not in open_} or values

    def _first(
        self, values: Mapping[str, Any], aim: _Aim, anew: bool = False, most: int = MOST_TRIALS
    ) -> dict[str, Any] | None:
        """The fewest values, these among them, with which the remedy works; None if `most` plans show none."""
        waiting = [(len(values), 0, dict(values))]
        number = itertools.count(1)
        for _ in range(most):
            if not waiting:
                break
            size, _, made = heapq.heappop(waiting)
            after = self._findings(made, anew)
            if after is None:
                continue
            new, left = aim.new(after), aim.left(after)
            if not new and not left:
                return made
            if (left and aim.id_ not in new) or size >= len(values) + MOST_ROUNDS - 1:
                continue
            for way in _ways(after, new, made):
                more = {**made, **way}
                heapq.heappush(waiting, (len(more), next(number), more))
        return None

    def _smallest(self, made: Mapping[str, Any] | None, aim: _Aim, anew: bool = False) -> dict[str, Any] | None:
        """The fewest of these values that mend the site; None where all of them do not."""
        sets = [] if made is None else [*parts(made), dict(made)]
        return next((one for one in sets if self._mends(one, aim, anew)), None)

    def _mends(self, values: Mapping[str, Any], aim: _Aim, anew: bool) -> bool:
        """Whether the plan with these values has neither the finding nor a new error."""
        after = self._findings(values, anew)
        return after is not None and not aim.left(after) and not aim.new(after)

    def _findings(self, values: Mapping[str, Any], anew: bool = False) -> Sequence[Finding] | None:
        """Findings with these values; None where nobody asks for what-ifs, or where the site file refuses them."""
        key = _key(values, anew)
        if key not in self._found:
            try:
                site = (
                    self._sized(as_a_whole(self._site), values)  # sizes follow from the whole site
                    if anew and self._sized
                    else with_values(self._changeable, values)
                )
            except SiteError:
                self._found[key] = None
            else:
                self._found[key] = self._trial(site)
        return self._found[key]


def _key(values: Mapping[str, Any], anew: bool) -> tuple[bool, str]:
    """What a trial is kept under."""
    return anew, repr(sorted(values.items()))


def stays(subject: str, then: Sequence[str], now: Sequence[str]) -> bool:
    """Whether a finding of `subject` is still there, by the subjects of its id before and after: at its own, or at another in its
    place, as where a device has another name.
    """
    return subject in now or 0 < len(now) >= len(then)


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


def _subjects(id_: str, findings: Iterable[Finding], severity: str) -> list[str]:
    """Subjects of the findings of an id, of one severity or of all that are no information."""
    return [
        one.subject
        for one in findings
        if one.id == id_ and (one.severity == severity if severity else one.severity != "info")
    ]


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
