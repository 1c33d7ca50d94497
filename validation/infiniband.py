"""What is wrong with the InfiniBand fabric and its subnet managers, of the facts that their hosts gathered. Pure."""

from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd

from capacity.model import Plan
from inventory.findings import Finding
from network.infiniband import compare, parse
from validation.facts.answer import Answer, Facts


def findings(plan: Plan, guids: Mapping[str, str], facts: Facts, down: Collection[str] = ()) -> list[Finding]:
    """What is wrong with the InfiniBand fabric and its subnet managers. down: devices that are reported elsewhere.

    A manager without power or cut off with its leaf is no finding of its own, nor is a routing engine that gives up
    because cables are wrong.
    """
    if not facts.subnets:
        return []
    found = topology(plan, guids, facts, down)
    lost = {*down, *(f.subject for f in found if f.id == "DEVICE-SILENT")}
    found += errors(plan, guids, facts)
    managers = compare.subnet_managers(plan, guids, managers_seen(facts), lost)
    return found + [f for f in managers if f.id != "SUBNET-ROUTING" or not found]


def best_view(facts: Facts) -> Answer | None:
    """The answer of the host that sees most of the fabric: one that is cut off sees only itself."""
    answers = [answer for answer in facts.subnets.values() if not answer.error]
    return max(answers, key=lambda answer: len(answer.data["nodes"]), default=None)


def discovered(answer: Answer) -> parse.Discovery:
    """The discovery that an answer holds."""
    return parse.Discovery(
        pd.DataFrame(answer.data["nodes"], columns=list(parse.NODE_COLUMNS)),
        pd.DataFrame(answer.data["links"], columns=list(parse.LINK_COLUMNS)),
        answer.data.get("systems", {}),
    )


def topology(plan: Plan, guids: Mapping[str, str], facts: Facts, dark: Collection[str]) -> list[Finding]:
    """Differences between the planned compute cables and those discovered; none when nobody could look."""
    view = best_view(facts)
    return compare.topology(plan, discovered(view), guids, dark) if view else []


def errors(plan: Plan, guids: Mapping[str, str], facts: Facts) -> list[Finding]:
    """Ports whose error counters are above the site's limit; none without a limit, which S060 names as missing."""
    view, limit = best_view(facts), plan.site.limits.get("ib_link_errors_max")
    if limit is None or view is None:
        return []
    counters = {(port.split("/")[0], int(port.split("/")[1])): values for port, values in view.data["errors"].items()}
    source = f"site limits.ib_link_errors_max: {limit.source}"
    return compare.errors(counters, discovered(view), guids, plan, float(limit.value), source)


def managers_seen(facts: Facts) -> dict[str, dict[str, Any]]:
    """{host: state, priority, guid, engine} of each subnet manager that answered; state '' and `error` else."""
    return {
        host: {**(answer.data.get("own") or {}), "engine": answer.data.get("engine", ""), "error": answer.error}
        for host, answer in facts.subnets.items()
    }
