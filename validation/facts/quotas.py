"""Whether Kueue holds accounts to their GPUs: Jobs without work that it must not admit.

    said = ask(plan, over_ssh(plan))       # [{"account": …, "pods": …, "why": …}, …], in the order of `trials`

Each account with a limit asks for one node more than that at once. Where an account has others below it, two Jobs ask for more than
its limit together, each for less: the first runs, the second must wait. They are Jobs as in gangs.py, in the lowest tier of their
account. Kueue orders them below every tier, so that none of them preempts anybody. They are deleted at the end.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from capacity.model import Plan
from capacity.services.platform.sharing import whole_nodes
from capacity.services.platform.tenancy import gpus_allowed
from capacity.services.slurm import design as accounts_of
from validation.facts.gangs import Site
from validation.facts.kube import CallApi
from validation.facts.kueue import priority_class

FIRST, SECOND = "bringup-quota-first", "bringup-quota"
BUDGET_S = 1800.0
"""After it no further trial starts. One takes seconds on an idle cluster, minutes on one in use. A choice of ours."""
BELOW_ALL = priority_class(
    "bringup-below-all-tiers",
    -1_000_000_000,
    "Of acceptance's trials of limits: Kueue preempts nothing for them, and them for everything.",
)
"""Tiers have priorities above 0, and Kueue preempts workloads of lower priority alone (LowerPriority of each queue)."""


@dataclass(frozen=True)
class Trial:
    """Two Jobs, each of so many whole nodes: `limit` GPUs of `account` allow the first and not both. Without a first one the
    second alone is too large. beside, account: whose queues they go to.
    """

    account: str
    limit: int
    second: str
    pods: int
    first: str = ""
    beside: int = 0


def trials(plan: Plan) -> Iterator[Trial]:
    """One for each account that may hold fewer GPUs than the site has; one more for each that has others below it."""
    wanted = accounts_of(plan, plan.catalog)
    gpus = [node.gpus for node in whole_nodes(plan)]
    site_gpus, per_node = sum(gpus), min(gpus)
    allowed = gpus_allowed(wanted.accounts, site_gpus)
    for account in wanted.accounts:
        limit = allowed[account.name]
        if limit + per_node <= site_gpus:
            yield Trial(account.name, limit, account.name, limit // per_node + 1)
    for account in wanted.accounts:
        if account.max_gpus is None or account.max_gpus > allowed[account.name]:
            continue  # a limit above it comes first
        for child in (one for one in wanted.accounts if one.parent == account.name):
            most = account.max_gpus // per_node
            beside = min(allowed[child.name] // per_node, most)
            pods = most - beside + 1
            if beside and pods <= most and (beside + pods) * per_node <= site_gpus:
                yield Trial(account.name, account.max_gpus, account.name, pods, child.name, beside)


def ask(plan: Plan, call: CallApi, sleep: Callable[[float], None] = time.sleep) -> list[dict[str, Any]]:
    """For each trial: how many pods of the first ran, how many the second had at most, why Kueue lets it wait, and how many GPUs of
    the site were reserved for nobody meanwhile.

    Trials end where Kueue says nothing of a Job and makes no pod, or with the budget: those left out are missing.
    """
    site, end = Site(plan, call, sleep), time.monotonic() + BUDGET_S
    said: list[dict[str, Any]] = []
    with site.priority(BELOW_ALL) as label:
        for trial in trials(plan):
            one = _try(site, trial, label)
            said.append({**asdict(trial), **one})
            silent = not (one["ran"] or one["most"] or one["why"])
            if silent or time.monotonic() > end:
                break
    return said


def _try(site: Site, trial: Trial, label: Mapping[str, str]) -> dict[str, Any]:
    second = site.of(trial.second, label)
    if not trial.first:
        with second.job(SECOND, trial.pods):
            most, why = second.refused(SECOND)
        return {"ran": 0, "most": most, "why": why, "free": 0}
    first = site.of(trial.first, label)
    with first.job(FIRST, trial.beside):
        ran = max(running for running, _ in first.until(FIRST, trial.beside))
        if ran < trial.beside:
            _, _, why = first.seen(FIRST)
            return {"ran": ran, "most": 0, "why": why, "free": 0}
        free = site.unreserved()
        with second.job(SECOND, trial.pods):
            most, why = second.refused(SECOND)
            free = min(free, site.unreserved())
    return {"ran": ran, "most": most, "why": why, "free": free}
