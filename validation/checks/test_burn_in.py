"""Burn-in of the GPU nodes as one job of the scheduler, in the length that the site asks for (limits.burn_in_run_h)."""

from capacity.model import Plan
from validation import burn_in as verdict
from validation.check import Outcome, check, site_limit
from validation.checks.conftest import BurnIn
from validation.checks.test_gpus import GONE, findings_of, gpu_identities, silent
from validation.facts import Facts
from validation.gpu_health import HEALTH, untold
from validation.runners.slurm import Ran, Rank, workload_of

SPARE_S = 1.0
"""Clocks of two machines may differ by this much over the run."""


@check("S034.measured", inputs=("site.gpu", "site.versions", "site.limits", "site.validation", "frame.devices", "gpus"))
def test_gpu_burn_in_ends_without_fault(subject: str, plan: Plan, facts: Facts, burn_in: BurnIn) -> Outcome:
    """The register's floor of 48 hours is judged on the time that the load ran: a shorter run is evidence of its length.

    What the GPUs said before the load is judged as well: XIDs since boot or reset, memory errors, row remapping, heat, power brake.
    """
    node = facts.nodes[subject]
    limit = site_limit(plan.site, "burn_in_run_h")
    if why := silent(node):
        return Outcome(False, None, why, limit=limit, identities=node.identities)
    if burn_in.report is None or burn_in.job is None:
        return Outcome(False, None, burn_in.error, limit=limit, identities=gpu_identities(node))
    report = burn_in.report
    limits = verdict.Limits(
        drift_pct=float(site_limit(plan.site, "burn_in_drift_pct").value),
        outlier_c=float(site_limit(plan.site, "burn_in_outlier_c").value),
        power_pct=float(site_limit(plan.site, "burn_in_power_pct").value),
    )
    model = str(plan.devices.loc[plan.devices["name"] == subject, "model"].iloc[0])
    each = tuple(Rank.of({**rank, "host": host}) for host, one in report["nodes"].items() for rank in one["ranks"])
    workload, ran = workload_of(plan), Ran(report["device"], report["backend"], report["world_size"], each)
    problems = workload.mismatches(int((plan.devices["role"] == "gpu").sum()), ran)
    problems += verdict.problems(
        report, subject, plan.catalog.device(model).bringup.gpus, limits, workload.ranks_per_node
    )
    before = findings_of(plan, facts, subject, [*HEALTH, *GONE])
    problems += [f"before the load: {finding.id}: {finding.message}" for finding in before]
    hours = report["duration_s"] / 3600
    if report["duration_s"] > burn_in.job.seconds + SPARE_S:
        problems.append(f"the report says {hours:.4f} h and its job was over after {burn_in.job.seconds / 3600:.4f} h")
    if hours < float(limit.value):
        problems.append(f"the load ran {hours:.4f} h of {limit}")
    not_judged = [*verdict.not_judged(report, subject), *untold(subject, node.data["gpus"])]
    value = {
        "hours": round(hours, 6),
        "device": report["device"],
        "not_judged": not_judged,
        **report["nodes"].get(subject, {}),
    }
    left_open = [f"not judged: {text}" for text in not_judged]
    good = "; ".join([f"{hours:.4f} h on {report['device']}, no fault", *left_open])
    return Outcome(
        not problems,
        value,
        "; ".join(problems) or good,
        unit="h",
        limit=limit,
        identities=gpu_identities(node),
        raw=burn_in.job.output,
        command=f"sbatch, job {burn_in.job.job_id}",
        measured_s=report["duration_s"],
        configuration=ran.configuration(),
    )
