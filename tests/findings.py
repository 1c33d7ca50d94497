"""What tests ask of findings, free of the words of their messages.

    only(plan, "POWER-UPS-REDUNDANCY", subject="ups-A-1")      the one finding of this id
    names(finding, "gpu001", 13200)                             each stands in its message, as a word or a figure of its own
    offers(finding, "ups.autonomy_min", 5)                      its message gives this site key this value
    values(finding, "ups.autonomy_min")                         the values that its remedies give this site key
    as_set(remedy)                                              ["ups.autonomy_min=5"]: its settings, for `changed`

Wording may change; ids, site keys, devices and figures may not.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from capacity.model import Plan
from inventory.findings import Finding, Remedy

_MOST_WORDS = 30
"""Characters between a site key and the value that it is to have: " of at least ", " to "."""


def only(plan: Plan, wanted: str, subject: str | None = None) -> Finding:
    """The one finding of this id, and of this subject where one is given; AssertionError where there is none or more."""
    return only_of(plan.findings, wanted, subject)


def only_of(findings: Iterable[Finding], wanted: str, subject: str | None = None) -> Finding:
    """The one of these findings with this id, as `only`."""
    found = [f for f in findings if f.id == wanted and subject in (None, f.subject)]
    assert len(found) == 1, f"{len(found)} findings {wanted} {subject or ''}: {[f.subject for f in found]}"
    return found[0]


def names(finding: Finding, *things: str | float) -> bool:
    """Whether each text or number stands in the message, and not as part of another word or number."""
    return all(re.search(_alone(thing), finding.message) for thing in things)


def offers(finding: Finding, key: str, value: str | float) -> bool:
    """Whether a remedy gives the site key this value; for findings without remedies as data, whether the message does: the
    key, words without a figure or a comma, the value.
    """
    if finding.remedies:
        return any(key in one.settings and one.settings[key] == value for one in finding.remedies)
    return bool(re.search(f"{_alone(key)}[^0-9,;]{{1,{_MOST_WORDS}}}?{_alone(value)}", finding.message))


def values(finding: Finding, key: str) -> list[Any]:
    """The values that the remedies give a site key, in their order."""
    return [one.settings[key] for one in finding.remedies if key in one.settings]


def as_set(remedy: Remedy) -> list[str]:
    """The settings of a remedy as `--set` takes them, for `changed`."""
    return [f"{key}={json.dumps(value)}" for key, value in remedy.settings.items()]


def _alone(thing: str | float) -> str:
    text = thing if isinstance(thing, str) else f"{thing:.10g}"
    return rf"(?<![\w.]){re.escape(text)}(?!\w|\.\d)"
