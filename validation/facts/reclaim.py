"""Whether an account gets GPUs that another one uses, by priority and never against it: Jobs without work that want one node.

    said = ask(plan, over_ssh(plan))       # plain data; DeviceError when the controller or the API server does not answer

A Job of one account has a node. One of another account, of a higher priority, asks for that node: Kueue must evict the first. A
third, of the lower priority again, asks for it as well: Kueue must let it wait. They are Jobs as in gangs.py, in the accounts' own
queues. Both priorities are below every tier: no job of an account can be evicted for them, and each of theirs can evict them. All
Jobs are deleted at the end.
"""

import time
from collections.abc import Callable
from typing import Any

from capacity.model import Plan
from capacity.services.platform.sharing import whole_nodes
from capacity.services.platform.tenancy import gpus_allowed
from capacity.services.slurm import CHECK_ACCOUNT
from capacity.services.slurm import design as accounts_of
from validation.facts.gangs import HOLD_S, POLL_S, Site
from validation.facts.kube import CallApi
from validation.facts.kueue import priority_class
from validation.facts.quotas import BELOW_ALL

HOLDS, TAKES, WAITS = "bringup-holds", "bringup-takes", "bringup-waits"
LEAST_BUT_ONE = priority_class(
    "bringup-below-all-tiers-but-one",
    BELOW_ALL["value"] + 1,
    "Of acceptance's trials of preemption between accounts: Kueue preempts for them nothing but another trial.",
)


def pair(plan: Plan) -> tuple[str, str] | None:
    """Two accounts that may each hold a node: the one that yields, and the one that takes. None on a site without.

    They are as far apart as the tree of accounts has them: the first and the last, which in most sites have no parent in common.
    None has GPUs of its own: it gets these back against any priority.
    """
    accounts, gpus = accounts_of(plan, plan.catalog).accounts, [node.gpus for node in whole_nodes(plan)]
    allowed = gpus_allowed(accounts, sum(gpus))
    left_out = {CHECK_ACCOUNT, *(one.name for one in plan.site.scheduler.accounts if one.min_gpus is not None)}
    able = [one.name for one in accounts if allowed[one.name] >= max(gpus) and one.name not in left_out]
    return (able[-1], able[0]) if len(able) > 1 else None


def ask(plan: Plan, call: CallApi, sleep: Callable[[float], None] = time.sleep) -> dict[str, Any]:
    """What became of the three; {} for a site without two such accounts. `node`: where the first one ran, '' for nowhere;
    `evicted`: why Kueue took it from there; `took`: where the second ran; `most`: how many pods the third had at most; `stayed`:
    whether the second ran on meanwhile; `why`: Kueue's words for what waits.
    """
    found = pair(plan)
    if found is None:
        return {}
    site, said = Site(plan, call, sleep), {"yields": found[0], "takes": found[1], **NOTHING}
    with site.priority(BELOW_ALL) as low, site.priority(LEAST_BUT_ONE) as high:
        yields, takes = site.of(found[0], low), site.of(found[1], high)
        with yields.job(HOLDS, 1, gpus=site.largest):
            yields.until(HOLDS, 1)
            _, nodes, why = yields.seen(HOLDS)
            if not nodes:
                return said | {"why": why}
            said |= {"node": nodes[0]}
            with takes.job(TAKES, 1, gpus=site.largest, node=nodes[0]):
                takes.until(TAKES, 1)
                _, nodes, why = takes.seen(TAKES)
                said |= {"took": nodes[0] if nodes else "", "evicted": yields.evicted(HOLDS), "why": why}
                if not nodes:
                    return said
                yields.delete(HOLDS)
                with yields.job(WAITS, 1, gpus=site.largest, node=nodes[0]):
                    return said | _waits(yields, takes, sleep)


NOTHING: dict[str, Any] = {"node": "", "took": "", "evicted": "", "most": 0, "stayed": False, "why": ""}


def _waits(yields: Site, takes: Site, sleep: Callable[[float], None]) -> dict[str, Any]:
    """The third Job until Kueue has said why it waits, and for HOLD_S more."""
    most, why = yields.refused(WAITS)
    for _ in range(int(HOLD_S / POLL_S)):
        most = max(most, yields.seen(WAITS)[0][1])
        sleep(POLL_S)
    stayed = takes.seen(TAKES)[0][0] == 1 and not takes.evicted(TAKES)
    return {"most": most, "why": why, "stayed": stayed}
