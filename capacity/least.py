"""Remedies of several site values: what else has to change so that a remedy causes no new error.

    values = Tried(site, trial).least({"power.rack_pdu.per_feed": 2}, "POWER-BANK")
    # {"power.rack_pdu.per_feed": 2, "oob.switches": 7}: more rack PDUs need more management ports

`trial` plans a part of the changed site and returns its findings. If one of them is a new error, its remedy is added to the
values, and the site is tried again.
"""

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from inventory.findings import Finding
from inventory.site import Site

Trial = Callable[[Site], Sequence[Finding] | None]
"""Findings of a changed site; None where nobody asks for what-ifs."""
MOST_ROUNDS = 4
"""Most trials of one remedy. It bounds the run time: a trial plans the site from the fabric to the supply."""


class Tried:
    """Trials of one site, each made once."""

    def __init__(self, site: Site, trial: Trial) -> None:
        self._site, self._trial = site, trial
        self._found: dict[str, Sequence[Finding] | None] = {}

    def least(self, values: Mapping[str, Any], id_: str) -> dict[str, Any] | None:
        """`values` (site key to value), and the values that have to change with them.

        None if the plan still has a finding `id_` then, or has a new error that no site key resolves.
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


def _first_way(findings: Iterable[Finding], new: Collection[str], made: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The site values of the first remedy of a new error that changes no key in `made`."""
    for one in findings:
        for way in one.remedies if one.id in new and one.severity == "error" else ():
            if way.settings and made.keys().isdisjoint(way.settings):
                return way.settings
    return None
