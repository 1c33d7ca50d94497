"""The smallest set of site values that mends a finding and brings no other error: for remedies that one value does not make.

    values = Tried(site, trial).least({"power.rack_pdu.per_feed": 2}, "POWER-BANK")

More rack PDUs take more management ports, a circuit more on a panel takes another place: `trial` plans the changed site as far
as such things go and gives its findings, and what a new one names is added.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from inventory.findings import Finding
from inventory.site import Site

Trial = Callable[[Site], Sequence[Finding] | None]
"""Findings of a changed site; None where nobody asks for what-ifs."""
MOST_ROUNDS = 4
"""Most values that are added to those that mend the finding: each costs the better part of a plan."""


class Tried:
    """Trials of one site, each made once."""

    def __init__(self, site: Site, trial: Trial) -> None:
        self._site, self._trial = site, trial
        self._found: dict[str, Sequence[Finding] | None] = {}

    def least(self, values: Mapping[str, Any], id_: str) -> dict[str, Any] | None:
        """`values`, by site key, with those that they need beside them; None where a finding `id_` is left, or another error
        comes that no value mends.
        """
        as_it_is = self._findings({})
        if as_it_is is None:
            return None
        before = _errors(as_it_is)
        made = dict(values)
        for _ in range(MOST_ROUNDS):
            after = self._findings(made) or ()
            new = _errors(after) - before
            left = any(one.id == id_ for one in after)
            if not new and not left:
                return made
            more = _first_way(after, new, made)
            if more is None or (left and id_ not in new):
                return None
            made |= more
        return None

    def _findings(self, values: Mapping[str, Any]) -> Sequence[Finding] | None:
        key = repr(sorted(values.items()))
        if key not in self._found:
            self._found[key] = self._trial(with_values(self._site, values))
        return self._found[key]


def with_values(site: Site, values: Mapping[str, Any]) -> Site:
    """A copy of the site with other values by key, as they are: nothing is judged. KeyError for an entry of a list."""
    for key, value in values.items():
        site = _put(site, key.split("."), value)
    return site


def _put(model: Any, path: Sequence[str], value: Any) -> Any:
    name, *rest = path
    return model.model_copy(update={name: _put(getattr(model, name), rest, value) if rest else value})


def _errors(findings: Iterable[Finding]) -> Counter[str]:
    """Number of error findings by id."""
    return Counter(one.id for one in findings if one.severity == "error")


def _first_way(findings: Iterable[Finding], new: Collection[str], made: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The first remedy of a new error that is made of site keys which are not chosen yet."""
    for one in findings:
        for way in one.remedies if one.id in new and one.severity == "error" else ():
            if way.settings and made.keys().isdisjoint(way.settings):
                return way.settings
    return None
