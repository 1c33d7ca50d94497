"""InfiniBand compute fabric: discovered cables, what the subnet managers set on the switches, and their failover."""

from collections.abc import Mapping, Sequence

from capacity.model import Plan
from inventory.findings import Finding
from network.infiniband import subnet
from validation.check import Limit, Outcome, check, judged, site_limit
from validation.evidence import Identity
from validation.facts import Answer, Facts
from validation.facts.takeover import Takeover
from validation.infiniband import best_view, chips, discovered, findings, managers_seen, of_switch, own_part

NOBODY = "no host with a subnet manager answers: see S060"


def identities(view: Answer, device: str, guid: str) -> tuple[Identity, ...]:
    """Who was asked: the host that looked, and the switch by its own GUID and description."""
    own = chips(view, guid)
    return (*view.identities, *([Identity(device, "guid", own[0][3], guid)] if own else []))


def ports_of(view: Answer, guid: str) -> dict[str, str]:
    """{'GUID/port' of each port of a switch that was read: its number, with the ASIC's GUID where there are several}."""
    own = [row[1] for row in chips(view, guid)]
    said = [(place, *place.split("/")) for place in view.data["lanes"] if place.split("/")[0] in own]
    return {place: port if len(own) == 1 else f"{chip}/{port}" for place, chip, port in said}


def lanes_of(view: Answer, guid: str) -> list[str]:
    """What differs on the ports of a switch that were read from the lanes and weights that the plan asks for."""
    wanted = {which: {str(k): v for k, v in table.items()} for which, table in subnet.expected_arbitration().items()}
    ports = ports_of(view, guid)
    problems = [
        f"port {ports[place]} maps service levels to lanes {tables[0]}"
        for place, tables in view.data["lanes"].items()
        if place in ports and any(list(table) != subnet.expected_lanes() for table in tables)
    ]
    return problems + [
        f"port {ports.get(place, place)} arbitrates {tables}"
        for place, tables in view.data["arbitration"].items()
        if place.startswith(tuple(f"{row[1]}/" for row in chips(view, guid))) and tables != wanted
    ]


def managed(subject: str, facts: Facts, guids: Mapping[str, str], cabling: Sequence[Finding]) -> Outcome:
    """The subnet manager has set the switch up as configured: a LID, service levels, lanes, every planned cable in it."""
    view = best_view(facts)
    if view is None:
        return Outcome(False, None, NOBODY)
    guid = guids.get(subject, "")
    own = chips(view, guid)
    if not own:
        return Outcome(
            False,
            None,
            f"{subject} (GUID {guid or 'unknown'}) is not in the subnet",
            identities=view.identities,
            raw=own_part(view, guid),
        )
    read, lids = sorted(ports_of(view, guid).values()), [row[4] for row in own]
    unread = [row[1] for row in own if not any(place.startswith(f"{row[1]}/") for place in view.data["lanes"])]
    cables = [f"{f.id}: {f.message}" for f in of_switch(subject, cabling)]
    problems = [
        *(["no LID: no subnet manager has set it up"] if not all(lids) else []),
        *(["its service level tables cannot be read"] if unread else []),
        *lanes_of(view, guid),
        *cables,
    ]
    value = {
        "lid": lids[0] if len(lids) == 1 else lids,
        "lanes": problems or subnet.expected_lanes(),
        "ports_read": read,
    }
    detail = (
        "; ".join(problems)
        or f"LID {', '.join(map(str, lids))}, service levels and lanes as planned on ports {', '.join(read)}, cables as planned"
    )
    return Outcome(not problems, value, detail, identities=identities(view, subject, guid), raw=own_part(view, guid))


@check("S048.applied", inputs=("frame.cables", "site.fabric", "assets"), only=("infiniband_switches",))
def test_service_levels_and_virtual_lanes_match_the_plan(
    subject: str, facts: Facts, guids: Mapping[str, str]
) -> Outcome:
    view = best_view(facts)
    if view is None:
        return Outcome(False, None, NOBODY)
    guid = guids.get(subject, "")
    read = sorted(ports_of(view, guid).values())
    problems = lanes_of(view, guid) if read else ["its service level tables cannot be read"]
    detail = "; ".join(problems) or f"service levels and lanes as planned on ports {', '.join(read)}"
    return Outcome(
        not problems,
        {"ports_read": read, "problems": problems},
        detail,
        identities=identities(view, subject, guid),
        raw=own_part(view, guid),
    )


@check("S049.applied", inputs=("frame.cables", "site.fabric", "assets", "frame.devices"), only=("infiniband_switches",))
def test_leaf_is_managed(subject: str, facts: Facts, guids: Mapping[str, str], cabling: Sequence[Finding]) -> Outcome:
    return managed(subject, facts, guids, cabling)


@check("S050.applied", inputs=("frame.cables", "site.fabric", "assets", "frame.devices"), only=("infiniband_switches",))
def test_spine_is_managed_and_reaches_its_leaves(
    subject: str, facts: Facts, guids: Mapping[str, str], cabling: Sequence[Finding]
) -> Outcome:
    return managed(subject, facts, guids, cabling)


@check(
    "S062.measured",
    inputs=("frame.cables", "assets", "frame.devices", "site.fabric", "site.versions"),
    only=("infiniband_switches",),
)
def test_discovered_cables_match_the_plan(
    subject: str, plan: Plan, facts: Facts, guids: Mapping[str, str], cabling: Sequence[Finding]
) -> Outcome:
    view = best_view(facts)
    if view is None:
        return Outcome(False, None, NOBODY)
    planned = plan.cables[plan.cables["fabric"] == "compute"]
    count = int(((planned["a_device"] == subject) | (planned["b_device"] == subject)).sum())
    guid = guids.get(subject, "")
    keys = {row[0] for row in chips(view, guid)}
    links = [row[1:] for row in view.data["links"] if row[0] in keys]
    return judged(
        of_switch(subject, cabling),
        {"links": links},
        f"{count} cables as planned, at the planned rate",
        identities=identities(view, subject, guid),
        raw=own_part(view, guid),
    )


@check(
    "S060.applied",
    inputs=("frame.cables", "frame.devices", "site.fabric", "site.limits", "assets"),
    only=("infiniband_site",),
)
def test_standby_subnet_manager_takes_over(
    subject: str, plan: Plan, facts: Facts, guids: Mapping[str, str], takeover: Takeover
) -> Outcome:
    limit = site_limit(plan.site, "ib_failover_s")
    site_limit(plan.site, "ib_link_errors_max")  # without it no counter is judged
    found = findings(plan, guids, facts)
    names = subnet.managers(plan)
    view = best_view(facts)
    problems = [f"{f.id} {f.subject}: {f.message}" for f in found if f.severity == "error"]
    problems += ([view.data["errors_unread"]] if view.data["errors_unread"] else []) if view else [NOBODY]
    problems += [f"{len(names)} subnet manager planned, two are asked for"] if len(names) < 2 else []
    problems += takeover_problems(takeover, limit)
    size = discovered(view) if view else None
    value = {
        "managers": managers_seen(facts),
        "nodes": 0 if size is None else len(size.nodes),
        "links": 0 if size is None else len(size.links) // 2,
        "takeover": takeover.data,
    }
    detail = "; ".join(problems) or (
        f"{takeover.master} is master and {takeover.standby} standby of {value['nodes']} nodes and {value['links']} links as "
        f"planned; with the master stopped the standby took over after {takeover.seconds:g} s, {takeover.sent} datagrams by "
        "LID meanwhile and none lost; the master is back"
    )
    asked = tuple(identity for answer in facts.subnets.values() for identity in answer.identities)
    return Outcome(
        not problems,
        value,
        detail,
        limit=limit,
        identities=asked,
        raw=view.raw if view else None,
        findings=tuple(found),
    )


def takeover_problems(seen: Takeover, limit: Limit) -> list[str]:
    """What was wrong with a takeover."""
    if seen.error:
        return [seen.error]
    return [
        *([f"the takeover took {seen.seconds:g} s"] if seen.seconds > float(limit.value) else []),
        *(
            [f"{len(seen.lost)} of {seen.sent} datagrams were lost, to LIDs {', '.join(sorted(set(seen.lost)))}"]
            if seen.lost
            else []
        ),
        *(
            [f"{seen.links_before} links before and {seen.links_after} after"]
            if seen.links_before != seen.links_after
            else []
        ),
        *([] if seen.restored else [f"{seen.master} is not master again"]),
    ]
