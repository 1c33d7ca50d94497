"""Telemetry: what Prometheus knows against what the plan has, and a fire drill of the alert rules."""

from collections.abc import Iterable
from typing import Any

from capacity.model import Plan
from capacity.services import telemetry
from inventory.paths import repo_root
from network.roce import breakouts
from validation.check import Limit, Outcome, check
from validation.evidence import Identity
from validation.facts import Answer, Facts
from validation.facts.telemetry import Drill

FRESH_INTERVALS = 2
"""S059: a sample is fresh within two intervals."""
PORTS_OF_EVERY_SWITCH = {"lo"}
SEVERITIES = ("critical", "warning", "info")
NETWORK_RULES = {
    "bandwidth": ("SwitchPortSaturated",),
    "errors": ("SwitchPortErrors", "InfinibandErrors"),
    "latency": ("InbandLatency",),
    "port down": ("SwitchPortDown", "InfinibandLinkDowned"),
}
"""S069: what must be alerted on, and the rules that do."""
RULES = ("site.limits", "site.scheduler", "frame.devices")
"""What rules and a fire drill of them are computed from."""
INPUTS = ("site.limits", "frame.devices", "frame.cables", "frame.addresses", "assets")


def server_answer(facts: Facts) -> Answer:
    """What the first telemetry server said; an Answer with an error where the plan has none."""
    return next(iter(facts.telemetry.values()), Answer("site", "prometheus", error="the plan has no telemetry server"))


def identities(facts: Facts, *names: str) -> tuple[Identity, ...]:
    """Identities of the telemetry server and of the named devices."""
    answers = [
        answer.get(name)
        for name in (server_answer(facts).device, *names)
        for answer in (facts.nodes, facts.switches, facts.agents, facts.pdus)
    ]
    return tuple(identity for answer in answers if answer for identity in answer.identities)


def stale(plan: Plan, target: dict[str, Any] | None, name: str, job: str) -> list[str]:
    """What is wrong with a target: not asked at all, down, or its last sample too old."""
    if target is None:
        return [f"job {job} does not ask {name}"]
    if target["health"] != "up":
        return [f"job {job}: {name} is {target['health']}: {target['error']}"]
    oldest_s = fresh_s(plan, job)
    return [f"job {job}: last sample of {name} is {target['age_s']:.0f} s old"] if target["age_s"] > oldest_s else []


def fresh_s(plan: Plan, job: str) -> float:
    """Age in seconds up to which a sample of a job is fresh."""
    return FRESH_INTERVALS * telemetry.interval_s(plan.site) * telemetry.SLOW_JOBS.get(job, 1)


def by_instance(answer: Answer, job: str) -> dict[str, dict[str, Any]]:
    return {target["instance"]: target for target in answer.data["targets"] if target["job"] == job}


def interval_limit(plan: Plan, job: str) -> Limit:
    source = telemetry.limit(plan.site, "telemetry_interval_s").source
    return Limit(fresh_s(plan, job), "s", f"{FRESH_INTERVALS} intervals of telemetry_interval_s: {source}")


@check("S167.observed", inputs=INPUTS)
def test_host_metrics_are_fresh_and_cover_the_inventory(subject: str, plan: Plan, facts: Facts) -> Outcome:
    answer = server_answer(facts)
    if answer.error:
        return Outcome(False, None, answer.error)
    servers = plan.devices[plan.devices["kind"] == "server"].set_index("name")["role"]
    asked = by_instance(answer, "node")
    extra = sorted(set(asked) - set(servers.index))
    peers = [name for name in servers.index if servers[name] == servers[subject]]
    up = [name for name in peers if name in asked and asked[name]["health"] == "up"]
    problems = [
        *stale(plan, asked.get(subject), subject, "node"),
        *([f"asked, but not in the plan: {', '.join(extra)}"] if extra else []),
    ]
    return Outcome(
        not problems,
        {"role": servers[subject], "up": len(up), "planned": len(peers)},
        "; ".join(problems) or f"{len(up)} of {len(peers)} {servers[subject]} nodes up, none beside the plan",
        limit=interval_limit(plan, "node"),
        identities=identities(facts, subject),
        raw=answer.raw,
    )


@check("S059.observed", inputs=(*INPUTS, "site.fabric"), only=("inband_switches", "roce_switches"))
def test_every_planned_port_has_fresh_counters_and_none_is_unknown(subject: str, plan: Plan, facts: Facts) -> Outcome:
    answer = server_answer(facts)
    if answer.error:
        return Outcome(False, None, answer.error)
    wanted = set(telemetry.ports(plan, subject)["ifName"])
    reported = {
        row["labels"]["ifName"] for row in answer.data["queries"]["ports"] if row["labels"]["instance"] == subject
    }
    model = str(plan.devices.set_index("name").at[subject, "model"])
    switch = plan.catalog.device(model)
    own = {*switch.data_port_names(), *breakouts(switch.data_port_names())}  # of a cage that is not split, its own port
    management = set(plan.addresses.loc[plan.addresses["device"] == subject, "interface"])
    missing, unknown = sorted(wanted - reported), sorted(reported - own - management - PORTS_OF_EVERY_SWITCH)
    problems = [
        *stale(plan, by_instance(answer, "switch").get(subject), subject, "switch"),
        *([f"no counters of planned ports {', '.join(missing)}"] if missing else []),
        *([f"ports that {model} does not have: {', '.join(unknown)}"] if unknown else []),
    ]
    return Outcome(
        not problems,
        {"planned": len(wanted), "reported": len(wanted & reported), "unknown": len(unknown)},
        "; ".join(problems) or f"{len(wanted)} planned ports with fresh counters, no unknown port",
        limit=interval_limit(plan, "switch"),
        identities=identities(facts, subject),
        raw=answer.raw,
    )


def rules_as_planned(plan: Plan, answer: Answer) -> list[str]:
    """What differs between the planned rules and those that Prometheus has loaded, and between the files and the plan's."""
    wanted = {(rule.alert, rule.severity, rule.hold_s, rule.runbook) for rule in telemetry.load(plan.site)}
    loaded = {(one["alert"], one["severity"], one["hold_s"], one["runbook"]) for one in answer.data["rules"]}
    return [
        *(f"{one['alert']}: {one['health']} {one['error']}" for one in answer.data["rules"] if one["health"] == "err"),
        *(f"not loaded as planned: {', '.join(map(str, one))}" for one in sorted(wanted - loaded)),
        *(f"loaded, but not planned: {', '.join(map(str, one))}" for one in sorted(loaded - wanted)),
        *(f"{path} differs from the plan's" for path in answer.data["files_differing"]),
    ]


def without_page(rules: Iterable[telemetry.Rule]) -> list[str]:
    return [f"{rule.alert} has no {rule.runbook}" for rule in rules if not (repo_root() / rule.runbook).is_file()]


def unit_test_problems(drill: Drill) -> list[str]:
    """What is wrong with the unit tests of the rules, as promtool ran them on the server."""
    if drill.error:
        return [drill.error]
    return [] if drill.unit_tests["status"] == 0 else [f"promtool test rules: {drill.unit_tests['output']}"]


@check("S174.generated", inputs=RULES)
def test_alert_rules_have_severities_runbooks_and_passing_unit_tests(
    subject: str, plan: Plan, facts: Facts, fire_drill: Drill
) -> Outcome:
    answer = server_answer(facts)
    if answer.error:
        return Outcome(False, None, answer.error)
    rules = telemetry.load(plan.site)
    problems = [*rules_as_planned(plan, answer), *without_page(rules), *unit_test_problems(fire_drill)]
    counts = {severity: sum(rule.severity == severity for rule in rules) for severity in SEVERITIES}
    return Outcome(
        not problems,
        counts,
        "; ".join(problems) or f"{len(rules)} rules loaded as planned, each with its page and passing unit tests",
        identities=identities(facts),
        raw=answer.raw,
    )


def delivery_limit(plan: Plan) -> Limit:
    one = telemetry.limit(plan.site, "alert_delivery_s")
    return Limit(one.value, one.unit, f"alert_delivery_s: {one.source}")


def slow(plan: Plan, drill: Drill, alerts: Iterable[str], *, clears: bool) -> list[str]:
    """Alerts of a drill that did not come in time or, with `clears`, were not resolved in time."""
    limit_s, problems = float(delivery_limit(plan).value), []
    for alert in alerts:
        seen = drill.alerts.get(alert, {})
        for key, what in (("delivered_s", "delivered"), *((("cleared_s", "cleared"),) if clears else ())):
            seconds = seen.get(key)
            if seconds is None or seconds > limit_s:
                problems.append(f"{alert} not {what} within {limit_s:g} s (took {seconds} s)")
    return problems


@check("S174.measured", inputs=RULES)
def test_every_alert_reaches_the_receiver_in_time(subject: str, plan: Plan, facts: Facts, fire_drill: Drill) -> Outcome:
    if fire_drill.error:
        return Outcome(False, None, fire_drill.error)
    rules = telemetry.load(plan.site)
    problems = slow(plan, fire_drill, [rule.alert for rule in rules], clears=False)
    slowest = {
        severity: max(
            (fire_drill.alerts[rule.alert]["delivered_s"] or 0 for rule in rules if rule.severity == severity),
            default=0,
        )
        for severity in SEVERITIES
    }
    return Outcome(
        not problems,
        slowest,
        "; ".join(problems) or f"{len(rules)} alerts of all severities delivered through Alertmanager to a webhook",
        unit="s, slowest by severity",
        limit=delivery_limit(plan),
        identities=identities(facts),
    )


@check("S069.generated", inputs=RULES)
def test_network_rules_are_there_and_tested(subject: str, plan: Plan, facts: Facts, fire_drill: Drill) -> Outcome:
    known = {rule.alert: rule for rule in telemetry.load(plan.site)}
    chosen = [name for names in NETWORK_RULES.values() for name in names]
    problems = [f"no rule {name}" for name in chosen if name not in known]
    problems += without_page(known[name] for name in chosen if name in known) + unit_test_problems(fire_drill)
    return Outcome(
        not problems,
        {what: list(names) for what, names in NETWORK_RULES.items()},
        "; ".join(problems) or f"{len(chosen)} rules for {', '.join(NETWORK_RULES)}, unit tests pass",
        identities=identities(facts),
    )


@check("S069.observed", inputs=RULES)
def test_network_alerts_come_in_time_and_clear(subject: str, plan: Plan, facts: Facts, fire_drill: Drill) -> Outcome:
    if fire_drill.error:
        return Outcome(False, None, fire_drill.error)
    clearing = {rule.alert for rule in telemetry.load(plan.site) if telemetry.clears_in_a_drill(rule, plan.site)}
    chosen = [name for names in NETWORK_RULES.values() for name in names if name in clearing]
    problems = slow(plan, fire_drill, chosen, clears=True)
    value = {name: fire_drill.alerts.get(name) for name in chosen}
    return Outcome(
        not problems,
        value,
        "; ".join(problems) or f"{', '.join(chosen)}: delivered and cleared in time for a pretended port",
        unit="s",
        limit=delivery_limit(plan),
        identities=identities(facts),
    )
