"""Node configuration by Ansible: what a run would change now, and whether drift is reported by a schedule."""

from collections.abc import Sequence
from datetime import UTC, datetime

from capacity.model import Plan
from validation.check import Limit, Outcome, check, site_limit
from validation.drift_reports import Report, faults
from validation.facts import Facts
from validation.runners.ansible import Drift


@check("S143.applied", inputs=("site.*", "frame.addresses", "frame.cables", "assets"))
def test_second_run_changes_nothing(
    subject: str, plan: Plan, facts: Facts, drift: Drift, drift_reports: Sequence[Report]
) -> Outcome:
    node = facts.nodes[subject]
    limit = Limit(0, "changes", "S143: second run changed = 0, failed = 0")
    if drift.error or node.error:
        return Outcome(False, None, drift.error or node.error, limit=limit, raw=drift.output or None)
    counts = drift.hosts.get(subject)
    if counts is None:
        return Outcome(False, None, f"{subject} was not in the run", limit=limit, raw=drift.output)
    changed = [f"{c['role']}: {c['task']}" for c in drift.changes if c["host"] == subject]
    failed = [f"{f['role']}: {f['task']}: {f['message']}" for f in drift.failures if f["host"] == subject]
    bad = counts["changed"] + counts["failed"] + counts["unreachable"]
    apart_s = float(site_limit(plan.site, "drift_reports_apart_s").value)
    lacks = faults(drift_reports, plan.hash, subject, apart_s, datetime.now(UTC))
    detail = (
        "; ".join([*failed, *(f"would change: {one}" for one in changed), *lacks])
        or f"{counts['ok']} tasks, none would change; nor in the scheduled reports of drift"
    )
    if bad and not (changed or failed):
        detail = f"counts of the run: {dict(counts)}"
    return Outcome(
        bad == 0 and counts["ok"] > 0 and not lacks,
        {**counts, "reports_of_drift": [one.ended.isoformat() for one in drift_reports if one.plan_hash == plan.hash]},
        detail,
        limit=limit,
        identities=node.identities,
        raw=drift.output,
        command="ansible-playbook playbooks/site.yml --check --diff",
    )
