"""GPU time by account and user, as the site's Prometheus has recorded it (capacity/services/telemetry/rules.yaml, records).

    servers = over_ssh(plan)                       # {telemetry server: how it is asked}
    said = used(servers["mgmt01"], since, until, interval_s(plan.site))      # a Part for each day

Each part of the time is asked by itself, so that no question is about more samples than Prometheus loads at once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capacity.model import Plan
from capacity.services import telemetry
from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.errors import BadAnswer
from validation.facts.gather import address_of
from validation.facts.shapes import Queried
from validation.facts.telemetry import FACTS, PROMETHEUS, server_host

USED, OBSERVED = "bringup:gpu_seconds:used", "bringup:usage_seconds:observed"
"""GPU-seconds by account, user and resource; seconds in which somebody listed pods. Each since the evaluation before."""
HOUR_S = 3600
SAMPLES = 5_760
"""Of each series in one question: a day at 15 s. Prometheus loads 50 million (--query.max-samples): 8,000 series."""
AT_ONCE = 40
"""Parts that one login asks for."""
BUDGET_S = 120.0
"""Of one login: 80 questions, eight at a time, each within 10 s. A choice of ours."""
NEXT_STEP = "look at `systemctl status prometheus` there; playbooks/site.yml writes the rules that record usage"

AskPrometheus = Callable[[Mapping[str, Any]], Queried]
"""A request of telemetry_facts.py (queries, ranges) to its results; DeviceError where any of them failed."""


@dataclass(frozen=True)
class Part:
    """A part of the time, in whole seconds of Unix time. used: GPU-seconds by (account, user, resource); observed: seconds with
    samples, by the end of each hour of it, or of what is left of one.
    """

    since: int
    until: int
    used: Mapping[tuple[str, str, str], float]
    observed: Mapping[int, float]


def over_ssh(plan: Plan) -> dict[str, AskPrometheus]:
    """How each telemetry server of the plan is asked, by its name."""

    def asker(name: str) -> AskPrometheus:
        host = server_host(plan, name, address_of(plan, name, "provisioning"), plan.site.timeouts.ssh_s)

        def ask(request: Mapping[str, Any]) -> Queried:
            asked = {"prometheus": PROMETHEUS, "parts": [], "queries": {}, **request}
            operation = "ask Prometheus for GPU time"
            said = host.program(FACTS, asked, budget_s=BUDGET_S, operation=operation)
            return results(said, Source(name, operation, NEXT_STEP))

        return ask

    return {name: asker(name) for name in telemetry.servers(plan)}


def results(said: Any, source: Source) -> Queried:
    """What telemetry_facts.py printed; DeviceError where a query failed."""
    with answers.reading(source, "facts and errors"):
        errors, facts = dict(said["errors"]), said["facts"]
    if errors:
        name, why = next(iter(errors.items()))
        raise BadAnswer(source.device, source.operation, "an answer to each query", f"{name}: {why}", source.next_step)
    return answers.read(Queried, facts, source)


def parts(since: int, until: int, interval_s: float) -> list[tuple[int, int]]:
    """The time in parts of whole hours, a day at most; the last is what is left."""
    length = HOUR_S * min(24, max(1, int(SAMPLES * interval_s / HOUR_S)))
    found, begin = [], since
    while begin < until:
        found.append((begin, min(begin + length, until)))
        begin += length
    return found


def used(ask: AskPrometheus, since: int, until: int, interval_s: float) -> list[Part]:
    """What one Prometheus has of the time from `since` to `until`, in parts."""
    found: list[Part] = []
    whole = parts(since, until, interval_s)
    for first in range(0, len(whole), AT_ONCE):
        some = whole[first : first + AT_ONCE]
        said = ask({"queries": dict(_queries(some)), "ranges": dict(_ranges(some))})
        found += [_part(said, number, *one) for number, one in enumerate(some)]
    return found


def over(series: str, seconds: float) -> str:
    """PromQL: the sum of a series' samples over the time before. A sample at the very begin is the end of another time."""
    return f"sum_over_time({series}[{round(1000 * seconds) - 1}ms])"


def _queries(some: Sequence[tuple[int, int]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, (begin, end) in enumerate(some):
        yield f"used {number}", {"query": over(USED, end - begin), "time": end}
        if left := (end - begin) % HOUR_S:
            yield f"left {number}", {"query": over(OBSERVED, left), "time": end}


def _ranges(some: Sequence[tuple[int, int]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, (begin, end) in enumerate(some):
        if hours := (end - begin) // HOUR_S:
            times = {"start": begin + HOUR_S, "end": begin + hours * HOUR_S, "step": HOUR_S}
            yield f"hours {number}", {"query": over(OBSERVED, HOUR_S), **times}


def _part(said: Queried, number: int, begin: int, end: int) -> Part:
    gpu_s: dict[tuple[str, str, str], float] = {}
    for row in said["queries"][f"used {number}"]:
        account, user, resource = (row["labels"].get(key, "") for key in ("account", "user", "resource"))
        gpu_s[account, user, resource] = gpu_s.get((account, user, resource), 0.0) + row["value"]
    ends = [begin + HOUR_S * hour for hour in range(1, (end - begin) // HOUR_S + 1)]
    observed = dict.fromkeys([*ends, *([end] if (end - begin) % HOUR_S else [])], 0.0)
    for series in said["ranges"].get(f"hours {number}", ()):
        observed |= {int(at): seconds for at, seconds in series["values"] if at in observed}
    for row in said["queries"].get(f"left {number}", ()):
        observed[end] = row["value"]
    return Part(begin, end, gpu_s, observed)
