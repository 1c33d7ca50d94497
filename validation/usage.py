"""GPU-hours by account and user over a time, from what the site's telemetry servers recorded (facts/usage.py). Pure.

    found = usage(plan, by_server)        # Usage: rows, what nobody is named for, hours without a sample

A part of a GPU counts as that share of it: one of four time slices is a quarter of a GPU.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from capacity.model import Plan
from capacity.services.platform.sharing import GPU_RESOURCE, profiles
from capacity.services.slurm import design as accounts_of
from inventory.site.sections.software import LOADS
from validation.facts.usage import HOUR_S, Part

SEEN_PCT = 95.0
"""Of an hour: with fewer samples it is named. A choice of ours: a Prometheus that is started anew misses less."""


@dataclass(frozen=True)
class Row:
    """GPU-hours of a user in an account. user: '' for all users, or for nobody who is known; why: there is none."""

    account: str
    user: str
    gpu_hours: float
    why: str = ""


@dataclass(frozen=True)
class Gap:
    """Unix times between which samples are missing, and for how many hours of it."""

    since: int
    until: int
    hours: float


@dataclass(frozen=True)
class Usage:
    """since, until: Unix times. observed_h: hours with samples. gpus: of the plan. parents: the account above each account, '' for
    none. other: hours of resources that the plan does not have, which are in no sum.
    """

    since: int
    until: int
    gpus: int
    observed_h: float
    rows: tuple[Row, ...]
    unattributed: tuple[Row, ...]
    other: Mapping[str, float]
    gaps: tuple[Gap, ...]
    parents: Mapping[str, str]

    @property
    def capacity_h(self) -> float:
        """What the site's GPUs could have given in the time with samples."""
        return self.gpus * self.observed_h

    def share_pct(self, gpu_hours: float) -> float:
        """Of the capacity; 0 without any."""
        return 100 * gpu_hours / self.capacity_h if self.capacity_h else 0.0

    def with_below(self, account: str) -> float:
        """GPU-hours of an account and of all accounts below it."""
        own = sum(row.gpu_hours for row in (*self.rows, *self.unattributed) if row.account == account)
        return own + sum(self.with_below(name) for name, parent in self.parents.items() if parent == account)


def usage(plan: Plan, by_server: Sequence[Sequence[Part]]) -> Usage:
    """The same parts of a time, as each server has them. Of each part that server counts which has most samples."""
    parts = [max(several, key=lambda one: sum(one.observed.values())) for several in zip(*by_server, strict=True)]
    wanted = accounts_of(plan, plan.catalog)
    share = {GPU_RESOURCE: 1.0, **{one.resource: 1 / one.per_gpu for one in profiles(plan)}}
    hours: dict[tuple[str, str], float] = {}
    other: dict[str, float] = {}
    for part in parts:
        for (account, user, resource), seconds in part.used.items():
            if resource in share:
                hours[account, user] = hours.get((account, user), 0.0) + seconds * share[resource] / HOUR_S
            else:
                other[resource] = other.get(resource, 0.0) + seconds / HOUR_S
    names = [one.name for one in wanted.accounts]
    rows = [Row(account, user, found) for (account, user), found in hours.items() if account in names and user]
    nobody = [Row(account, user, found) for (account, user), found in hours.items() if account not in names or not user]
    return Usage(
        since=parts[0].since,
        until=parts[-1].until,
        gpus=sum(node.gpus for node in wanted.nodes),
        observed_h=sum(sum(part.observed.values()) for part in parts) / HOUR_S,
        rows=tuple(sorted(rows, key=lambda row: (names.index(row.account), -row.gpu_hours, row.user))),
        unattributed=tuple(
            Row(row.account, row.user, row.gpu_hours, _why(row, names))
            for row in sorted(nobody, key=lambda row: (-row.gpu_hours, row.account, row.user))
        ),
        other=dict(sorted(other.items())),
        gaps=tuple(_joined(_gaps(parts))),
        parents={one.name: one.parent if one.parent in names else "" for one in wanted.accounts},
    )


def by_account(found: Usage) -> Iterator[Row]:
    """A row for each account that used GPUs, or has accounts below it that did: its own hours, with those of nobody."""
    for account in found.parents:
        if found.with_below(account):
            own = [row.gpu_hours for row in (*found.rows, *found.unattributed) if row.account == account]
            yield Row(account, "", sum(own))


def by_user(found: Usage) -> list[Row]:
    """One row for each user, over all accounts, most hours first."""
    hours: dict[str, float] = {}
    for row in found.rows:
        hours[row.user] = hours.get(row.user, 0.0) + row.gpu_hours
    return [Row("", user, of_user) for user, of_user in sorted(hours.items(), key=lambda item: (-item[1], item[0]))]


def _why(row: Row, accounts: Sequence[str]) -> str:
    if row.account == LOADS:
        return "loads of acceptance"
    if row.account not in accounts:
        return "namespace of no account"
    return "no user: pods from before the policies, or made by a program of the cluster"


def _gaps(parts: Sequence[Part]) -> Iterator[Gap]:
    for part in parts:
        begin = part.since
        for end, seconds in part.observed.items():
            if seconds < SEEN_PCT / 100 * (end - begin):
                yield Gap(begin, end, (end - begin - seconds) / HOUR_S)
            begin = end


def _joined(gaps: Iterator[Gap]) -> list[Gap]:
    """Gaps that follow each other as one."""
    found: list[Gap] = []
    for gap in gaps:
        if found and found[-1].until == gap.since:
            gap = Gap(found[-1].since, gap.until, found.pop().hours + gap.hours)
        found.append(gap)
    return found
