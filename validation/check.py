"""A check: a function of plan and facts for one subject, tied to one item of the step register.

    @check("S020.observed", inputs=("frame.outlets", "site.server"))
    def test_power_supplies(subject: str, plan: Plan, facts: Facts) -> Outcome: ...

pytest collects it (validation/plugin.py), calls it once for each subject that the register selects, and writes what it
returns as evidence. A check judges and returns; it never touches a device. `inputs` are the slices of the plan on
which the judgement depends (names of Plan.hashes, `*` matches): when one of them changes, the evidence is stale.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from inventory.findings import Finding, without_untried
from inventory.site import Site
from network.drivers.errors import same_identifier
from validation.evidence import Identity

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__check__"
"""The attribute of a check's function that holds its Check."""


@dataclass(frozen=True)
class Limit:
    """A limit with the source that it was frozen from. `value` is in `unit`."""

    value: float | str
    unit: str
    source: str

    def __str__(self) -> str:
        number = self.value if isinstance(self.value, str) else f"{self.value:g}"
        return f"{number} {self.unit}".strip()


@dataclass(frozen=True)
class Outcome:
    """What a check found for one subject.

    `value` is what was measured or computed (plain data), `unit` its unit, `detail` one sentence for the person who
    reads the report. `identities` are the identities of everything that was asked, `raw` what it answered.
    `measured_s` are the seconds of a measurement that ran before the check was called, such as a job: the record counts them.
    `limit_since` is when the limit was fixed, where a measurement began before this run; None for the begin of the run.
    `configuration` says how the thing was measured, by name: how many ranks on which device.
    """

    passed: bool
    value: object
    detail: str
    unit: str = ""
    limit: Limit | None = None
    identities: tuple[Identity, ...] = ()
    raw: bytes | None = None
    command: str = ""
    findings: tuple[Finding, ...] = ()
    measured_s: float = 0.0
    limit_since: datetime | None = None
    configuration: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """What the decorator knows of a check; `file` is the path of its source."""

    item: str
    inputs: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    file: str = ""
    manager: str = ""

    def runs_on(self, site: Site) -> bool:
        """Whether it can run on a site: whatever its workload manager, or because it has the one that the check asks."""
        return self.manager in ("", site.scheduler.kind)


def check(item: str, inputs: Sequence[str] = (), only: Sequence[str] = (), manager: str = "") -> Callable[[F], F]:
    """Tie a test function to a register item such as 'S034.measured'.

    `only` names selectors of the register that limit the subjects to what this check can ask (say, in-band switches of
    an item about all switches); the others stay without evidence. `manager` is the workload manager (``scheduler.kind``) that the
    check asks; '' for one that asks none. An item may have a check for each.
    """

    def mark(function: F) -> F:
        setattr(function, MARK, Check(item, tuple(inputs), tuple(only), inspect.getfile(function), manager))
        return function

    return mark


def check_of(function: object) -> Check | None:
    """What the decorator wrote on a function; None for one that is no check."""
    made: Check | None = getattr(function, MARK, None)
    return made


def site_limit(site: Site, key: str) -> Limit:
    """The site's limit `key`; KeyError names what is there when the site file lacks it."""
    if key not in site.limits:
        raise KeyError(f"{site.path}: limits.{key} is missing; the file has {', '.join(sorted(site.limits))}")
    limit = site.limits[key]
    return Limit(limit.value, limit.unit, f"site limits.{key}: {limit.source}")


def judged(findings: Sequence[Finding], value: object, good: str, **rest: Any) -> Outcome:
    """An outcome that passes when no finding is an error or a warning; its detail names them all otherwise."""
    bad = [f for f in findings if f.severity in ("error", "warning")]
    detail = "; ".join(f"{f.id} {f.subject}: {f.message}" for f in map(without_untried, bad)) if bad else good
    return Outcome(passed=not bad, value=value, detail=detail, findings=tuple(findings), **rest)


def of_the_planned_assets(outcome: Outcome, known: Mapping[str, Sequence[str]]) -> Outcome:
    """The outcome, FAILED when a touched device says an identifier that the asset list does not have for it.

    `known` gives each device's identifiers (serial, UUID, MAC, GUID); a device without any cannot be judged here and
    stays unproven. What another asset measured is no evidence about this one, however good the value.
    """
    strangers = [
        f"{seen.device} says {seen.serial} by {seen.channel}, the asset list has {', '.join(known[seen.device])}"
        for seen in outcome.identities
        if seen.serial
        and known.get(seen.device)
        and not any(same_identifier(seen.serial, one) for one in known[seen.device])
    ]
    if not strangers:
        return outcome
    way_out = "find which device answers there, then correct the cabling, the address or assets.csv"
    rest = "" if outcome.passed else f"; {outcome.detail}"
    return replace(outcome, passed=False, detail=f"not the planned asset: {'; '.join(strangers)}; {way_out}{rest}")
