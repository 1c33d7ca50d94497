"""Whether a node that failed a part of acceptance may run jobs again. Pure.

    drain = scheduler.drain("gpu007")                        # state, reason and time, from Slurm or Kubernetes
    why_not(drain, contents, verdict)                        # [] when the node may return

A reason such as 'bringup: S026.measured: 7 of 8 GPUs are there' names the items that failed: the node's health check writes it
(playbooks/roles/node_check/files/node_check.py), and a person may. The node returns when each of them has passed in a check
that began after the drain and that the gate counts.
"""

from collections.abc import Sequence

from validation.evidence.store import Contents
from validation.runners.engine import Drain, failed_items
from validation.verdict import Verdict

COUNTS = ("pass", "partial")


def why_not(drain: Drain, contents: Contents, verdict: Verdict) -> list[str]:
    """One text for each thing that keeps the node out of service; [] when it may return."""
    if not drain.drained:
        return [f"{drain.node} is {drain.state} and not drained: there is nothing to return"]
    items = failed_items(drain.reason)
    if not items:
        by_hand = "a person decides, and resumes the node in the scheduler"
        return [f"the reason {drain.reason!r} names no item of the register, so no evidence is about it: {by_hand}"]
    return [text for item in items for text in _not_passed(item, drain, contents, verdict)]


def _not_passed(item: str, drain: Drain, contents: Contents, verdict: Verdict) -> Sequence[str]:
    again = f"pytest validation --site {verdict.site} checks it"
    judged = next((one for one in verdict.items if one.item == item), None)
    found = next((one for one in judged.subjects if one.subject == drain.node), None) if judged else None
    if judged is None:
        return [f"{item} is not judged for {drain.node}: the register has no such item"]
    if found is None:
        return [f"{item} is not judged for {drain.node}: {judged.detail or 'it is not about this node'}"]
    if found.status not in COUNTS:
        return [f"{item} of {drain.node} is {found.status}: {found.detail or 'no detail'}; {again}"]
    records = [entry for entry in contents.entries if (entry.record.item, entry.record.subject) == (item, drain.node)]
    last = max(records, key=lambda entry: entry.line, default=None)
    if last is None or last.record.result != "PASSED":
        return [f"the last record of {item} of {drain.node} is no pass; {again}"]
    if last.record.started <= drain.since:
        passed, since = f"{last.record.started:%Y-%m-%d %H:%M:%S %Z}", f"{drain.since:%Y-%m-%d %H:%M:%S %Z}"
        order = f"the check began at {passed} and the node was drained at {since}: it has to pass after that"
        return [f"{item} of {drain.node}: {order}; {again}"]
    return []
