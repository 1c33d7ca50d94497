"""What is wrong with Slurm, told by what its controller and nodes say of themselves. Pure: facts in, findings out.

The cause hides its consequences: without MariaDB slurmdbd cannot answer, without slurmctld no node's state is known,
and a node that its own health check took out of service is no finding of its own where something else is found.
"""

from collections.abc import Iterable, Iterator

from capacity.model import Plan
from inventory.findings import Finding, finding, remedy
from validation.facts.answer import Answer, Facts

HEALTH_CHECK = "bringup: "
"""Start of the reason when a node's own health check drained it (playbooks/roles/node_check/files/node_check.py)."""
OUT_OF_SERVICE = ("down", "drain", "fail", "maint", "inval", "unk")


def findings(plan: Plan, facts: Facts, others: Iterable[Finding]) -> list[Finding]:
    """Findings about the scheduler, given those `others` that are known already."""
    known = list(others)
    explained = {one.subject for one in known}
    controllers = plan.devices.loc[plan.devices["role"] == "controller", "name"].tolist()
    answered = [facts.nodes[name] for name in controllers if name in facts.nodes and not facts.nodes[name].error]
    with_slurm = [answer for answer in answered if answer.data.get("slurm")]
    found = [one for answer in with_slurm for one in _accounting(answer)]
    heads = [answer for answer in with_slurm if answer.data["slurm"].get("answers") is not False]
    if with_slurm and not heads:
        return [*found, *(_silent(answer) for answer in with_slurm)]
    refused = {
        name
        for name, answer in facts.nodes.items()
        if heads and not answer.error and answer.data.get("slurm", {}).get("answers") is False and name not in explained
    }
    found += [_refused(name) for name in sorted(refused)]
    for head in heads[:1]:
        found += _out_of_service(head, explained | refused, hide_health=bool(known or found))
    return found


def _services(answer: Answer) -> dict[str, str]:
    """State of each service; {} where systemd did not answer, which S032 reports."""
    services: dict[str, str] = answer.data.get("units", {}).get("services", {})
    return services


def _stopped(answer: Answer, service: str) -> bool:
    """Whether a service that this machine has does not run."""
    state = _services(answer).get(service, "")
    return bool(state) and not state.startswith(("active/", "activating/"))


def _accounting(answer: Answer) -> Iterator[Finding]:
    name, services = answer.device, _services(answer)
    if _stopped(answer, "mariadb"):
        words = {"state": services["mariadb"]}
        yield finding("ACCOUNTING-DATABASE-DOWN", name, words=words, remedies=[remedy(fix="start")])
    elif _stopped(answer, "slurmdbd"):
        words = {"state": services["slurmdbd"]}
        yield finding("ACCOUNTING-DOWN", name, case="stopped", words=words, remedies=[remedy(fix="start")])
    elif answer.data["slurm"].get("accounting_answers") is False:
        yield finding("ACCOUNTING-DOWN", name, case="no-answer", remedies=[remedy(fix="journal")])


def _silent(answer: Answer) -> Finding:
    state = _services(answer).get("slurmctld", "")
    case = "state" if state else "not-installed" if "units" in answer.data else "state-unknown"
    words = {"state": state}
    return finding("SCHEDULER-SILENT", answer.device, case=case, words=words, remedies=[remedy(fix="restart")])


def _refused(name: str) -> Finding:
    return finding("NODE-REFUSED", name, remedies=[remedy(fix="munge")])


def _out_of_service(head: Answer, explained: set[str], hide_health: bool) -> Iterator[Finding]:
    for name, node in head.data["slurm"].get("nodes", {}).items():
        state, reason = node["state"], node["reason"]
        if not any(word in state.lower() for word in OUT_OF_SERVICE):
            continue
        by_health_check = reason.startswith(HEALTH_CHECK)
        if (by_health_check and hide_health) or (name in explained and (by_health_check or state.startswith("down"))):
            continue
        words = {"state": state, "reason": reason}
        yield finding("NODE-OUT-OF-SERVICE", name, words=words, remedies=[remedy(fix="resume")])
