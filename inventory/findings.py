"""Findings: what a comparison or a rule of the plan has to say, in one shape everywhere.

A finding names its subject (a device, a cable, a feed), carries the numbers it was judged on, the limit with the source of
that limit, and the remedies that resolve it. Its ``id`` is stable, so that waivers, tests and reports can refer to it. Its
sentences stand in findings.yaml; code gives the figures:

    finding(
        "POWER-PDU-RATING", "power.rack_circuit.breaker_a",
        limit=60.0, limit_source="catalogue rack-pdu-60a-415v pdu.input_a", breaker_a=80.0,
        remedies=[remedy({"power.rack_circuit.breaker_a": 60}), remedy(fix="larger-pdu")],
    )
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from inventory.findings_registry import SEVERITIES, Severity, registry
from inventory.remedy_costs import rank

__all__ = ["FIX", "SEVERITIES", "Finding", "Remedy", "Severity", "finding", "plain", "remedy", "without_untried"]


FIX = " Fix: "
"""What stands between the sentence of a message and its remedies."""
TRIED_ONES = "a remedy that bringup plan prints for it: that verb tries each"


@dataclass(frozen=True)
class Remedy:
    """One change that resolves a finding; remedies of one finding are alternatives.

    ``settings``  values of site keys that resolve it together: ``{"power.rack_circuit.breaker_a": 60}``; empty where the
                  change is not in the site file
    ``text``      the change as it is printed
    ``sure``      it mends by what the finding was judged on, so that `bringup plan` does not try it
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    sure: bool = False

    def __hash__(self) -> int:
        return hash(self.text)

    def as_dict(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {"settings": dict(self.settings), "text": self.text}


@dataclass(frozen=True)
class Finding:
    """One judged statement about the plan or about observed devices.

    ``id``            stable, upper case with hyphens: ``POWER-FEED-LOSS``
    ``severity``      ``error`` blocks an apply, ``warning`` and ``info`` do not
    ``subject``       the asset or key that the finding is about: ``gpu001``, ``r01/A``, ``fabric.bisection``
    ``message``       what is wrong, against which limit, and ``Fix:`` with the remedies
    ``numbers``       the values that it was judged on, unit in each key: ``{"load_kw": 20.4}``
    ``limit``         the limit, in the unit that the message states; None where no number limits
    ``limit_source``  where the limit comes from: ``site limits.pdu_load_pct``, ``catalogue lab-gpu-node psu.rating_w``
    ``err``           the known error that this rule guards against (``ERR-05``, docs/known-errors.md), if any
    ``ports``         the device ports concerned, as ``device:port``
    ``remedies``      the changes of which each resolves it; those of site keys in the order of their cost (remedy_costs.yaml)
    """

    id: str
    severity: Severity
    subject: str
    message: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    limit: float | None = None
    limit_source: str = ""
    err: str | None = None
    ports: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise ValueError(f"finding {self.id}: severity {self.severity!r} is none of {', '.join(SEVERITIES)}")
        object.__setattr__(self, "numbers", MappingProxyType(dict(self.numbers)))

    def __hash__(self) -> int:
        return hash((self.id, self.severity, self.subject, self.message, self.ports))

    def __reduce__(self) -> tuple[type["Finding"], tuple[object, ...]]:
        return Finding, (
            self.id,
            self.severity,
            self.subject,
            self.message,
            dict(self.numbers),
            self.limit,
            self.limit_source,
            self.err,
            self.ports,
            self.remedies,
        )

    def as_dict(self) -> dict[str, object]:
        """Plain data for JSON: numbers and ports as dict and list."""
        return {
            "id": self.id,
            "severity": self.severity,
            "subject": self.subject,
            "message": self.message,
            "numbers": dict(self.numbers),
            "limit": self.limit,
            "limit_source": self.limit_source,
            "err": self.err,
            "ports": list(self.ports),
            "remedies": [one.as_dict() for one in self.remedies],
        }


@dataclass(frozen=True)
class RemedyOf:
    """A remedy before it is printed: `finding` fills the text from the registry. Made by `remedy`."""

    settings: Mapping[str, Any]
    fix: str
    words: Mapping[str, Any]
    sure: bool = False


def remedy(settings: Mapping[str, Any] | None = None, *, fix: str = "", sure: bool = False, **words: Any) -> RemedyOf:
    """A change that resolves a finding: site keys with their values, a fix that the registry words, or both.

    Without `fix` the site keys and values are printed by themselves. `words` fill the names of the fix's text that the
    finding has not. `sure` as in `Remedy`.
    """
    return RemedyOf(dict(settings or {}), fix, words, sure)


def finding(
    id_: str,
    subject: str,
    *,
    case: str = "",
    severity: Severity | None = None,
    limit: float | None = None,
    limit_source: str = "",
    err: str | None = None,
    ports: tuple[str, ...] = (),
    remedies: Iterable[RemedyOf] = (),
    words: Mapping[str, Any] | None = None,
    more_numbers: Mapping[str, float] | None = None,
    **numbers: float,
) -> Finding:
    """The finding `id_` of `subject`, worded by the registry. Its remedies are ordered by cost.

    `numbers` are the values that it was judged on; `more_numbers` those whose names are arguments of this function (ports,
    limit). The sentence of `case` and the texts of fixes may name them, `words`
    (whatever else they state), `subject`, `limit` and `limit_source`. `severity` is needed where the registry has several.
    ValueError for an id, case, severity, fix or name that registry and call do not share.
    """
    entry = registry().get(id_)
    if entry is None:
        raise ValueError(f"finding {id_}: findings.yaml has no such entry")
    if severity is None and len(entry.severity) == 1:
        severity = entry.severity[0]
    if severity not in entry.severity:
        raise ValueError(f"finding {id_}: severity {severity} is none of {', '.join(entry.severity)}")
    numbers |= more_numbers or {}
    values = {"subject": subject, "limit": limit, "limit_source": limit_source, **numbers, **(words or {})}
    message = _filled(id_, "case", entry.message, case, values)
    printed = tuple(
        Remedy(
            one.settings,
            _filled(id_, "fix", entry.fixes, one.fix, {**values, **one.words, "settings": settings})
            if one.fix
            else settings,
            one.sure,
        )
        for one in _cheapest_first(remedies)
        for settings in [" and ".join(f"{key}: {plain(value)}" for key, value in one.settings.items())]
    )
    if printed:
        message += f"{FIX}{', or '.join(one.text for one in printed)}."
    return Finding(id_, severity, subject, message, numbers, limit, limit_source, err, ports, printed)


def without_untried(one: Finding) -> Finding:
    """A finding of a plan as verbs print it that try no remedy: without values of site keys, which may not mend by themselves.

    Remedies in words stay, and those that mend by what the finding was judged on.
    """
    tried = tuple(way for way in one.remedies if way.sure or not way.settings)
    if len(tried) == len(one.remedies):
        return one
    texts = [*(way.text for way in tried), TRIED_ONES]
    return replace(one, remedies=tried, message=f"{one.message.partition(FIX)[0]}{FIX}{', or '.join(texts)}.")


def _cheapest_first(remedies: Iterable[RemedyOf]) -> list[RemedyOf]:
    """Those of site keys by cost, of one cost as they were given; those in words keep their places."""
    given = list(remedies)
    ordered = iter(sorted((one for one in given if one.settings), key=lambda one: rank(one.settings)))
    return [next(ordered) if one.settings else one for one in given]


def _filled(id_: str, kind: str, texts: Mapping[str, str], name: str, values: Mapping[str, Any]) -> str:
    if name not in texts:
        raise ValueError(f"finding {id_}: findings.yaml has no {kind} {name or '(the only one)'}")
    try:
        return texts[name].format_map(values)
    except (KeyError, IndexError, AttributeError, ValueError, TypeError) as problem:
        raise ValueError(f"finding {id_}: {kind} {name or '(the only one)'}: cannot fill {problem}") from problem


def plain(value: Any) -> str:
    """A value as the site file writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {plain(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(plain(one) for one in value) + "]"
    return str(value)
