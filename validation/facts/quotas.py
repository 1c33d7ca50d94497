"""Whether Kueue holds accounts to their GPUs: Jobs without work that it must not admit.

    said = ask(plan, over_ssh(plan))       # [{"account": …, "pods": …, "why": …}, …], in the order of `trials`

Each account with a limit asks for one node more than that at once. Where an account has others below it, two Jobs ask for more than
its limit together, each for less: the first runs, the second must wait. They are Jobs as in gangs.py, with a tier that preempts
none of the other, and are deleted at the end.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from capacity.model import Plan
from capacity.services.platform.tenancy import gpus_allowed
from capacity.services.slurm import Design
from capacity.services.slurm import design as accounts_of
from validation.facts.gangs import Site, lowest_tier
from validation.facts.kube import CallApi

FIRST, SECOND = "bringup-quota-first", "bringup-quota"


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
    site_gpus, per_node = sum(node.gpus for node in wanted.nodes), min(node.gpus for node in wanted.nodes)
    allowed = gpus_allowed(wanted.accounts, site_gpus)
    for account in wanted.accounts:
        limit = allowed[account.name]
        if limit + per_node <= site_gpus:
            yield Trial(account.name, limit, account.name, limit // per_node + 1)
    for account in wanted.accounts:
        if account.max_gpus is None:
            continue
        for child in (one for one in wanted.accounts if one.parent == account.name):
            both = _pair(wanted, account.name, child.name)
            most, nodes = account.max_gpus // per_node, {name: allowed[name] // per_node for name in both}
            beside = min(nodes[both[0]], most)
            pods = most - beside + 1
            if beside and pods <= nodes[both[1]] and (beside + pods) * per_node <= site_gpus:
                yield Trial(account.name, account.max_gpus, both[1], pods, both[0], beside)


def _pair(wanted: Design, *names: str) -> list[str]:
    """Both accounts, first the one whose lowest tier is higher: the second then preempts nothing of it."""
    order = [one.name for one in wanted.qos]
    return sorted(names, key=lambda name: order.index(lowest_tier(wanted, name)))


def ask(plan: Plan, call: CallApi, sleep: Callable[[float], None] = time.sleep) -> list[dict[str, Any]]:
    """For each trial: how many pods of the first ran, how many the second had at most, and why Kueue lets it wait."""
    return [{**asdict(trial), **_try(plan, call, sleep, trial)} for trial in trials(plan)]


def _try(plan: Plan, call: CallApi, sleep: Callable[[float], None], trial: Trial) -> dict[str, Any]:
    second = Site(plan, call, sleep, trial.second)
    if not trial.first:
        with second.job(SECOND, trial.pods):
            most, why = second.refused(SECOND)
        return {"ran": 0, "most": most, "why": why}
    first = Site(plan, call, sleep, trial.first)
    with first.job(FIRST, trial.beside):
        ran = max(running for running, _ in first.until(FIRST, trial.beside))
        with second.job(SECOND, trial.pods):
            most, why = second.refused(SECOND)
    return {"ran": ran, "most": most, "why": why}
