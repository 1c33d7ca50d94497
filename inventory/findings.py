"""Findings: what a comparison or a rule of the plan has to say, in one shape everywhere.

A finding names its subject (a device, a cable, a feed), carries the numbers it was judged on, and the limit with the
source of that limit. Its ``id`` is stable, so that waivers, tests and reports can refer to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, get_args

Severity = Literal["error", "warning", "info"]

SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True)
class Finding:
    """One judged statement about the plan or about observed devices.

    ``id``            stable, upper case with hyphens: ``POWER-FEED-LOSS``
    ``severity``      ``error`` blocks an apply, ``warning`` and ``info`` do not
    ``subject``       the asset or key that the finding is about: ``gpu001``, ``r01/A``, ``fabric.bisection``
    ``message``       one sentence for the person who has to act
    ``numbers``       the values that it was judged on, unit in each key: ``{"load_kw": 20.4}``
    ``limit``         the limit, in the unit that the message states; None where no number limits
    ``limit_source``  where the limit comes from: ``site limits.pdu_load_pct``, ``catalogue lab-gpu-node psu.rating_w``
    ``err``           the error of the requirements that this rule guards against (``ERR-05``), if any
    ``ports``         the device ports concerned, as ``device:port``
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
        }
