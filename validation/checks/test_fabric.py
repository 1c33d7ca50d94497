"""In-band Ethernet: switch configuration read back, ports, versions, and the topology that LLDP discovers."""

import json

from capacity.model import Plan
from network import compare
from network.drivers.switch_agent import software
from validation import readings
from validation.check import Limit, Outcome, check, judged, site_limit
from validation.facts import Answer, Facts

TRUNKS = ("leaf-spine", "spine-core")
"""Stages of cables between switches."""


def config_in_force(subject: str, plan: Plan, switch: Answer, fabric: str = "inband") -> Outcome:
    """The running configuration equals the rendered one, is saved for the next boot, and every neighbour is up."""
    if switch.error:
        return Outcome(False, None, switch.error)
    data = switch.data
    trunks = set(trunk_ports(plan, subject, fabric))
    down = sorted(trunks - {n for n, state in data["neighbours"].items() if state == "Established"})
    problems = [
        *([f"running configuration differs: {data['diff']}"] if data["diff"] else []),
        *(["the running configuration is not saved for the next boot"] if not data["saved"] else []),
        *([f"no BGP session on {', '.join(down)}"] if down else []),
    ]
    value = {"diff": data["diff"], "saved": data["saved"], "neighbours": data["neighbours"]}
    detail = "; ".join(problems) or f"as rendered, saved, {len(trunks)} sessions up"
    return Outcome(not problems, value, detail, identities=switch.identities, raw=switch.raw)


def trunk_ports(plan: Plan, switch: str, fabric: str = "inband") -> list[str]:
    """The switch's ports that lead to other switches of its fabric."""
    a, b = (plan.cables[f"{end}_device"] == switch for end in "ab")
    own = plan.cables[a | b]
    trunks = own[(own["fabric"] == fabric) & own["stage"].isin(TRUNKS)]
    return [
        *trunks.loc[trunks["a_device"] == switch, "a_port"],
        *trunks.loc[trunks["b_device"] == switch, "b_port"],
    ]


@check("S048.applied", inputs=("frame.cables", "frame.addresses", "site.inband", "assets"), only=("inband_switches",))
def test_switch_runs_its_configuration(subject: str, plan: Plan, facts: Facts) -> Outcome:
    return config_in_force(subject, plan, facts.switches[subject])


@check("S049.applied", inputs=("frame.cables", "frame.addresses", "site.inband", "assets"), only=("inband_switches",))
def test_leaf_is_configured(subject: str, plan: Plan, facts: Facts) -> Outcome:
    return config_in_force(subject, plan, facts.switches[subject])


@check("S050.applied", inputs=("frame.cables", "frame.addresses", "site.inband", "assets"), only=("inband_switches",))
def test_spine_reaches_every_leaf(subject: str, plan: Plan, facts: Facts) -> Outcome:
    return config_in_force(subject, plan, facts.switches[subject])


COMPUTE = (
    "frame.cables",
    "frame.addresses",
    "frame.devices",
    "site.fabric",
    "site.addressing",
    "site.credentials",
    "site.limits",
    "assets",
)
"""What a rendered configuration of a compute switch is made of."""


@check("S048.applied", inputs=COMPUTE, only=("roce_switches",))
def test_compute_switch_runs_its_configuration(subject: str, plan: Plan, facts: Facts) -> Outcome:
    return config_in_force(subject, plan, compute_switch(facts, subject), "compute")


@check("S049.applied", inputs=COMPUTE, only=("roce_switches",))
def test_compute_leaf_is_configured(subject: str, plan: Plan, facts: Facts) -> Outcome:
    return config_in_force(subject, plan, compute_switch(facts, subject), "compute")


@check("S050.applied", inputs=COMPUTE, only=("roce_switches",))
def test_compute_spine_reaches_every_leaf(subject: str, plan: Plan, facts: Facts) -> Outcome:
    return config_in_force(subject, plan, compute_switch(facts, subject), "compute")


def compute_switch(facts: Facts, name: str) -> Answer:
    """What a compute switch of a RoCE site said; an Answer with an error where the plan gives it no configuration."""
    unplanned = "these facts have no answer of it: the plan gives it no configuration (bringup render says why), or they are older"
    return facts.roce_switches.get(name, Answer(name, "", error=unplanned))


@check("S061.applied", inputs=("site.versions", "assets", "site.inband"), only=("inband_switches",))
def test_switch_software_has_pinned_version(subject: str, plan: Plan, facts: Facts) -> Outcome:
    switch = facts.switches[subject]
    if switch.error:
        return Outcome(False, None, switch.error)
    pin = plan.site.versions[plan.site.inband.nos]
    seen = switch.data["version"]
    limit = Limit(pin, "version", f"site versions.{plan.site.inband.nos}")
    return Outcome(
        seen == pin, seen, f"runs {seen}, pinned {pin}", limit=limit, identities=switch.identities, raw=switch.raw
    )


@check("S061.applied", inputs=("site.versions", "assets", "site.fabric"), only=("roce_switches",))
def test_compute_switch_software_has_pinned_version(subject: str, plan: Plan, facts: Facts) -> Outcome:
    agent, nos = facts.agents[subject], plan.site.fabric.nos
    if agent.error or nos is None:
        return Outcome(
            False, None, agent.error or "site fabric.nos is not set: which system the switch runs is not planned"
        )
    seen, pin = software(nos, agent.data["sys_descr"]), plan.site.versions.get(nos)
    limit = None if pin is None else Limit(pin, "version", f"site versions.{nos}")
    if pin is None:
        detail = f"runs {seen or 'another system'}, and the site pins no version of {nos}. Fix: versions.{nos}"
    elif not seen:
        detail = f"its agent names no version of {nos}: {agent.data['sys_descr']}"
    else:
        detail = f"runs {seen}, pinned {pin}"
    return Outcome(seen == pin, seen, detail, limit=limit, identities=agent.identities, raw=agent.raw)


@check("S062.measured", inputs=("frame.cables", "assets", "site.versions"), only=("inband_switches",))
def test_discovered_cables_match_the_plan(subject: str, plan: Plan, facts: Facts) -> Outcome:
    switch = facts.switches[subject]
    if error := switch.error or switch.data.get("lldp_error"):
        return Outcome(False, None, error, identities=switch.identities)
    answered = facts.neighbours()
    silent = sorted(set(facts.switches) - set(answered))
    limit = site_limit(plan.site, "lldp_max_age_s")
    dark = {name for name, answer in facts.nodes.items() if answer.error}  # reported by the checks of the node
    found = compare.topology(plan.cables, answered, silent, max_age_s=float(limit.value), dark=dark)
    mine = [f for f in found if subject == f.subject or any(port.split(":")[0] == subject for port in f.ports)]
    unjudged = sorted({*silent, *dark})
    mine += [] if mine else readings.neighbour_faults(plan, subject, answered[subject], unjudged)
    planned = plan.cables[(plan.cables["fabric"] == "inband")]
    count = int(((planned["a_device"] == subject) | (planned["b_device"] == subject)).sum())
    return judged(
        mine,
        {"neighbours": answered[subject], "not_judged": unjudged},
        f"{count} cables as planned",
        limit=limit,
        identities=switch.identities,
        raw=json.dumps({**json.loads(switch.raw), "not_judged": unjudged}, sort_keys=True, indent=1).encode(),
    )
