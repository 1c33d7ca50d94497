"""Alert rules with the site's limits, and recorded series: data in rules.yaml, here the forms that Prometheus and promtool read.

rules = load(site)               Rules with every placeholder filled in
records(site)                    the same of recorded series
rule_file(rules, site)           content of a Prometheus rule file, with the site's recorded series
unit_tests(rules, site, path)    content of a promtool test file: each rule fires on its drill, and only then
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from inventory.site import Site
from inventory.site.sections.acceptance import Limit

DATA = Path(__file__).with_name("rules.yaml")
RUNBOOKS = "docs/runbooks"
UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0}
WINDOW_INTERVALS = 4
"""A rate needs two samples; four intervals still hold two when one scrape is lost, and one more for the edges."""
TEST_INTERVALS = 10
"""A unit test looks this many intervals after the hold: enough for the longest drill, which has seven values."""
SERIES = re.compile(r"(?P<name>\w+)\{(?P<labels>.*)\} (?P<values>-?[0-9. ]+?)(?:\+(?P<step>[0-9.]+))?")


@dataclass(frozen=True)
class Series:
    """One series of a drill: its values, one per interval; afterwards the last goes on, growing by `step`."""

    name: str
    labels: Mapping[str, str]
    values: tuple[float, ...]
    step: float

    def at(self, interval: int) -> float:
        """The value after so many intervals."""
        last = len(self.values) - 1
        return self.values[min(interval, last)] + self.step * max(0, interval - last)

    @property
    def selector(self) -> str:
        """The series as Prometheus writes it."""
        labels = ",".join(f'{key}="{value}"' for key, value in self.labels.items())
        return f"{self.name}{{{labels}}}"


@dataclass(frozen=True)
class Expected:
    """An alert that must fire: its labels, beside alertname and severity, and its summary."""

    labels: Mapping[str, str]
    summary: str


@dataclass(frozen=True)
class Rule:
    """One alert rule. `hold_s`: seconds that its condition must last."""

    alert: str
    severity: Literal["critical", "warning", "info"]
    expr: str
    hold_s: float
    summary: str
    limits: Mapping[str, Limit]
    drill: tuple[Series, ...]
    expect: tuple[Expected, ...]
    quiet: tuple[Series, ...]

    @property
    def memory_s(self) -> float:
        """The longest range that the expression looks back over: an event keeps the alert firing for so long."""
        return max(
            (UNIT_S[unit] * float(number) for number, unit in re.findall(r"\[(\d+)(ms|s|m)\]", self.expr)), default=0
        )

    @property
    def runbook(self) -> str:
        """Path of the alert's page in the clone."""
        return f"{RUNBOOKS}/{self.alert}.md"

    @property
    def annotations(self) -> dict[str, str]:
        """What is sent along with the alert; `limit` names the numbers that it judges by, with their sources."""
        limits = "; ".join(f"{key} {one.value:g} {one.unit} ({one.source})" for key, one in self.limits.items())
        return {"summary": self.summary, "runbook": self.runbook, **({"limit": limits} if limits else {})}


@dataclass(frozen=True)
class Record:
    """A series that Prometheus computes at each interval. values: what its unit test expects, by labels, in intervals."""

    name: str
    expr: str
    given: tuple[Series, ...]
    values: tuple[tuple[Mapping[str, str], float], ...]


@cache
def _data() -> dict[str, Any]:
    return dict(yaml.safe_load(DATA.read_text()))


def limit(site: Site, key: str) -> Limit:
    """A limit of the site file, or the one that rules.yaml gives where the site has none. KeyError for neither."""
    return site.limits.get(key) or Limit(**_data()["limits"][key])


def interval_s(site: Site) -> float:
    """Seconds between two samples of a series, and between two evaluations of a rule."""
    return float(limit(site, "telemetry_interval_s").value)


def window_s(site: Site) -> float:
    """Seconds that a rate looks back."""
    return WINDOW_INTERVALS * interval_s(site)


def duration(seconds: float) -> str:
    """A duration as Prometheus writes it: whole seconds or, where they are not whole, milliseconds."""
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{1000 * seconds:.0f}ms"


def load(site: Site) -> tuple[Rule, ...]:
    """The rules for the site's scheduler, with its limits."""
    kind = site.scheduler.kind
    return tuple(_rule(entry, site) for entry in _data()["rules"] if entry.get("scheduler", kind) == kind)


def records(site: Site) -> tuple[Record, ...]:
    """The recorded series for the site's scheduler."""
    kind, interval = site.scheduler.kind, interval_s(site)
    return tuple(
        Record(
            entry["record"],
            _filled(entry["expr"], site)[0],
            tuple(series(text, interval) for text in entry["given"]),
            tuple((one["labels"], one["value"]) for one in entry["expect"]),
        )
        for entry in _data()["records"]
        if entry.get("scheduler", kind) == kind
    )


def _filled(expr: str, site: Site) -> tuple[str, dict[str, Limit]]:
    """An expression with the site's numbers, and the limits among them."""
    own = {"window": duration(window_s(site)), "interval_s": f"{interval_s(site):g}"}
    limits = {key: limit(site, key) for key in re.findall(r"<(\w+)>", expr) if key not in own}
    numbers = own | {key: f"{one.value:g}" for key, one in limits.items()}
    return re.sub(r"<(\w+)>", lambda found: numbers[found[1]], expr), limits


def _rule(entry: Mapping[str, Any], site: Site) -> Rule:
    expr, limits = _filled(entry["expr"], site)
    return Rule(
        alert=entry["alert"],
        severity=entry["severity"],
        expr=expr,
        hold_s=float(limit(site, "alert_hold_s").value) if entry["hold"] else 0.0,
        summary=entry["summary"],
        limits=limits,
        drill=tuple(series(text, interval_s(site)) for text in entry["drill"]),
        expect=tuple(Expected(one["labels"], one["summary"]) for one in entry["expect"]),
        quiet=tuple(series(text, interval_s(site)) for text in entry["quiet"]),
    )


def series(text: str, interval: float) -> Series:
    """A Series from the notation of rules.yaml; ValueError for any other text."""
    per_interval = re.sub(r"<([0-9.]+)/s>", lambda found: f"{float(found[1]) * interval:.0f}", text)
    found = SERIES.fullmatch(per_interval)
    if not found:
        raise ValueError(f"{text!r}: expected name{{labels}} and values, such as '0 1' or '0+5'")
    labels = dict(re.findall(r'(\w+)="([^"]*)"', found["labels"]))
    return Series(found["name"], labels, tuple(map(float, found["values"].split())), float(found["step"] or 0))


def rule_file(rules: tuple[Rule, ...], site: Site) -> dict[str, Any]:
    """Content of the rule file: one group, evaluated as often as series are sampled. Recorded series come first."""
    return {
        "groups": [
            {
                "name": "bringup",
                "interval": duration(interval_s(site)),
                "rules": [
                    *({"record": one.name, "expr": one.expr} for one in records(site)),
                    *(
                        {
                            "alert": rule.alert,
                            "expr": rule.expr,
                            **({"for": duration(rule.hold_s)} if rule.hold_s else {}),
                            "labels": {"severity": rule.severity},
                            "annotations": rule.annotations,
                        }
                        for rule in rules
                    ),
                ],
            }
        ]
    }


def unit_tests(rules: tuple[Rule, ...], site: Site, path: str) -> dict[str, Any]:
    """Content of a promtool test file for the rule file at `path`: two tests a rule, for its drill and its quiet series, and one
    for each recorded series.
    """
    return {
        "rule_files": [path],
        "evaluation_interval": duration(interval_s(site)),
        "tests": [
            *(_record_test(one, site) for one in records(site)),
            *(_test(rule, site, drill) for rule in rules for drill in (True, False)),
        ],
    }


def _test(rule: Rule, site: Site, drill: bool) -> dict[str, Any]:
    interval = interval_s(site)
    end = rule.hold_s + TEST_INTERVALS * interval
    samples = math.ceil(end / interval) + 1
    fired = [
        {
            "exp_labels": {"severity": rule.severity, **one.labels},
            "exp_annotations": {**rule.annotations, "summary": one.summary},
        }
        for one in rule.expect
    ]
    return {
        "name": f"{rule.alert} {'fires on its drill' if drill else 'stays quiet'}",
        "interval": duration(interval),
        "input_series": [_input(one, samples) for one in (rule.drill if drill else rule.quiet)],
        "alert_rule_test": [
            {"eval_time": duration(end), "alertname": rule.alert, "exp_alerts": fired if drill else []}
        ],
    }


def _record_test(one: Record, site: Site) -> dict[str, Any]:
    interval, samples = interval_s(site), TEST_INTERVALS
    wanted = [
        {"labels": Series(one.name, labels, (), 0).selector, "value": value * interval} for labels, value in one.values
    ]
    return {
        "name": f"{one.name} has the values of its data",
        "interval": duration(interval),
        "input_series": [_input(given, samples) for given in one.given],
        "promql_expr_test": [
            {"expr": one.name, "eval_time": duration(TEST_INTERVALS * interval), "exp_samples": wanted}
        ],
    }


def _input(one: Series, samples: int) -> dict[str, str]:
    values = " ".join(f"{one.at(number):g}" for number in range(len(one.values) - 1))
    rest = f"{one.values[-1]:.15g}+{one.step:.15g}x{samples}"
    return {"series": one.selector, "values": f"{values} {rest}".strip()}
