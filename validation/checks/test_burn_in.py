"""Burn-in of the GPU nodes, a job of the scheduler on each, in the length that the site asks for (limits.burn_in_run_h)."""

import pytest

from capacity.model import Plan
from validation import burn_in as verdict
from validation import readings
from validation.check import Outcome, check, site_limit
from validation.checks.test_gpus import findings_of, gpu_identities, silent
from validation.facts import Facts
from validation.facts.node_results import left_unsigned
from validation.gpu_faults import GONE
from validation.gpu_health import HEALTH, untold
from validation.runners.burn_in import BurnIn
from validation.runners.engine import Ran, Rank, named, workload_of

SPARE_S = 1.0
"""Clocks of two machines may differ by this much over the run."""


@check(
    "S034.measured",
    inputs=(
        "site.gpu",
        "site.scheduler",
        "site.tiers",
        "site.storage",
        "site.versions",
        "site.limits",
        "site.validation",
        "frame.devices",
        "gpus",
        "site.server",
    ),
)
def test_gpu_burn_in_ends_without_fault(subject: str, plan: Plan, facts: Facts, burn_in: BurnIn) -> Outcome:
    """The register's floor of 48 hours is judged on the time that the load ran: a shorter run is evidence of its length.

    What the GPUs said before the load is judged as well: XIDs since boot or reset, memory errors, row remapping, heat, power brake.
    """
    node = facts.nodes[subject]
    limit = site_limit(plan.site, "burn_in_run_h")
    if why := silent(node):
        return Outcome(False, None, why, limit=limit, identities=node.identities)
    if burn_in.jobs and subject not in burn_in.jobs:
        pytest.skip("the burn-in was started on other nodes")
    result = burn_in.report["nodes"].get(subject)
    if result is None:
        why = burn_in.errors.get(subject, "the burn-in did not run on it")
        return Outcome(False, None, why, limit=limit, identities=gpu_identities(node))
    limits = verdict.Limits(
        drift_pct=float(site_limit(plan.site, "burn_in_drift_pct").value),
        outlier_c=float(site_limit(plan.site, "burn_in_outlier_c").value),
        power_pct=float(site_limit(plan.site, "burn_in_power_pct").value),
    )
    model = str(plan.devices.loc[plan.devices["name"] == subject, "model"].iloc[0])
    each = tuple(Rank.of({**rank, "host": subject}) for rank in result["ranks"])
    workload, ran = workload_of(plan), Ran(result["device"], "none", len(each), each)
    problems = [text for text in (burn_in.errors.get(subject),) if text]
    problems += workload.mismatches(1, ran)
    problems += verdict.problems(
        burn_in.report, subject, plan.catalog.device(model).bringup.gpus, limits, workload.ranks_per_node
    )
    before = findings_of(plan, facts, subject, [*HEALTH, *GONE])
    problems += [f"before the load: {finding.id}: {finding.message}" for finding in before]
    hours, job_s = readings.hours(result["duration_s"]), burn_in.seconds.get(subject)
    if job_s is None:
        problems.append("the scheduler does not say how long its job ran")
    elif result["duration_s"] > job_s + SPARE_S:
        problems.append(f"the report says {hours:.4f} h and its job was over after {job_s / 3600:.4f} h")
    if hours < float(limit.value):
        problems.append(f"the load ran {hours:.4f} h of {limit}")
    not_judged = [*verdict.not_judged(burn_in.report, subject), *untold(subject, node.data["gpus"])]
    value = {"hours": hours, "not_judged": not_judged, **result}
    left_open = [f"not judged: {text}" for text in not_judged]
    left_open += left_unsigned(burn_in.kept.unsigned, [subject])
    good = "; ".join([f"{hours:.4f} h on {result['device']}, no fault", *left_open])
    return Outcome(
        not problems,
        value,
        "; ".join(problems) or good,
        unit="h",
        limit=limit,
        identities=(*gpu_identities(node), *(one for name, one in burn_in.kept.signed.items() if name == subject)),
        raw=burn_in.kept.raw.get(subject),
        command=named(plan, burn_in.jobs.get(subject)),
        measured_s=result["duration_s"],
        limit_since=burn_in.limit_since,
        configuration={**ran.configuration(), **(burn_in.run.configuration() if burn_in.run else {})},
    )
