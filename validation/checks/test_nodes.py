"""Nodes by SSH: operating system, network, time and login settings, as the node itself reports them."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from capacity.model import Plan
from capacity.services.boot.record import Installed
from inventory.debian import upstream
from inventory.site import Site
from inventory.slurm_packages import load_slurm_packages
from network.infiniband import subnet
from network.wiring import ipv6
from validation import access, readings
from validation.check import Limit, Outcome, check, site_limit
from validation.facts import Answer, Facts
from validation.facts.probes import Logins
from validation.facts.revoked import Tried, of_jobs
from validation.facts.second_reader import packages_of
from validation.infiniband import best_view
from validation.second_reading import SecondReadings

MOST_NAMED = 3
"""Packages that a sentence names."""
HARDENED = {
    "passwordauthentication": ("no",),
    "kbdinteractiveauthentication": ("no",),
    "permitrootlogin": ("no", "prohibit-password", "without-password"),
    "permitemptypasswords": ("no",),
    "x11forwarding": ("no",),
}
"""Effective sshd settings (`sshd -T`) that S147 asks for: key logins only, no password for anybody."""


def node_outcome(node: Answer, problems: list[str], value: object, good: str, **rest: Any) -> Outcome:
    """The outcome of a check of one node."""
    return Outcome(not problems, value, "; ".join(problems) or good, identities=node.identities, raw=node.raw, **rest)


def of_another_origin(site: Site, packages: Mapping[str, str]) -> list[str]:
    """Slurm's daemons on a node that come from elsewhere than the site says, as sentences."""
    return [
        f"{name} {packages[name]} is of origin {origin}, planned {site.scheduler.packages}"
        for origin, names in load_slurm_packages().daemons.items()
        if origin != site.scheduler.packages
        for name in names
        if name in packages
    ]


@check(
    "S032.applied",
    inputs=(
        "site.os",
        "site.versions",
        "site.scheduler",
        "site.validation",
        "frame.devices",
        "assets",
        "site.storage",
        "site.provisioning",
    ),
)
def test_base_system_has_pinned_versions(
    subject: str, plan: Plan, facts: Facts, second_readings: SecondReadings, installed: Mapping[str, Installed]
) -> Outcome:
    node = facts.nodes[subject]
    if node.error:
        return Outcome(False, None, node.error)
    # A part that could not be read is one of the errors below.
    release, packages, errors = node.data["os_release"], node.data.get("packages", {}), node.data["errors"]
    failed = node.data.get("units", {}).get("failed", [])
    pins = plan.site.versions
    wrong = [
        f"{package} {packages[package]}, pinned {pins[pin]}"
        for pin, names in packages_of(plan.site).items()
        if pin in pins
        for package in names
        if package in packages and upstream(packages[package]) != pins[pin]
    ]
    problems = [
        *(
            [
                f"runs {release.get('ID')} {release.get('VERSION_ID')}, planned {plan.site.os.name} {plan.site.os.version}"
            ]
            if (release.get("ID"), release.get("VERSION_ID")) != (plan.site.os.name, plan.site.os.version)
            else []
        ),
        *wrong,
        *of_another_origin(plan.site, packages),
        *([f"failed units: {', '.join(failed)}"] if failed else []),
        *([f"could not be read: {errors}"] if errors else []),
        *access.told(access.unplanned_ports(plan, subject, node.data)),
    ]
    image, written = node.data.get("image", ""), installed.get(subject)
    if written is not None and image.split() != [written.role, written.version, written.sha256]:
        problems.append(
            f"runs image {' '.join(image.split()[:2]) or 'of no name'}, installed was {written.role} {written.version}"
        )
    if written is None:
        problems += not_installed_alike(plan, facts, subject)
    again = second_readings.nodes.get(subject)
    found = again.findings if again else ()
    problems += [f"{one.id}: {one.message}" for one in found]
    value: dict[str, Any] = {
        "os": release.get("PRETTY_NAME", ""),
        "kernel": node.data["kernel"],
        "packages": len(packages),
        "listening": node.data.get("listening"),
    }
    good = f"{release.get('PRETTY_NAME')}, pins hold, no failed unit"
    if image:
        value["image"] = image
    if written is not None:
        good += f", image {written.version} as read back when it was written"
    else:
        value["packages_sha256"] = listed(packages)
        good += f", the {len(packages)} packages that others of its role have"
    if again:
        value["read_again"] = {"seed": second_readings.seed, "agreed": again.agreed, "findings": len(found)}
        good += f", testinfra agrees on {again.agreed} items (seed {second_readings.seed})"
    limit = Limit(f"{plan.site.os.name} {plan.site.os.version}", "os", "site os and versions")
    return node_outcome(node, problems, value, good, limit=limit, findings=found)


def listed(packages: Mapping[str, str]) -> str:
    """SHA-256 over names and versions of packages."""
    return hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()


def not_installed_alike(plan: Plan, facts: Facts, subject: str) -> list[str]:
    """What speaks against a known base system on a server without a record of its installation, as sentences.

    A site that installs by Pulumi has a record of each server. Where people install, the package list stands for the image: servers
    of one role have the same one.
    """
    site = plan.site
    if site.provisioning.installed_by == "pulumi":
        return [f"no record says which image was installed: bringup boot collect {site.name}"]
    role = plan.devices.set_index("name")["role"]
    lists: dict[str, list[str]] = {}
    for name, node in facts.nodes.items():
        if role[name] == role[subject] and not node.error and "packages" in node.data:
            lists.setdefault(listed(node.data["packages"]), []).append(name)
    mine = facts.nodes[subject].data.get("packages", {})
    common = max(lists.values(), key=lambda names: (len(names), subject in names), default=[subject])
    if subject in common:
        return []
    theirs = facts.nodes[common[0]].data["packages"]
    differ = sorted(name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name))
    shown = [f"{name} {mine.get(name, 'absent')} for {theirs.get(name, 'absent')}" for name in differ[:MOST_NAMED]]
    more = f" and {len(differ) - MOST_NAMED} more" if len(differ) > MOST_NAMED else ""
    return [f"packages differ from {len(common)} {role[subject]} nodes: {', '.join(shown)}{more}"]


@check("S141.applied", inputs=("site.os", "site.scheduler", "site.validation", "assets", "frame.devices"))
def test_node_configuration_matches_its_role(subject: str, plan: Plan, facts: Facts) -> Outcome:
    node = facts.nodes[subject]
    if node.error:
        return Outcome(False, None, node.error)
    bmc = facts.bmcs.get(subject)
    if bmc and bmc.error:
        return node_outcome(node, [f"the BIOS version is not known: {bmc.error}"], None, "")
    role = plan.devices.set_index("name")["role"]
    peers = [name for name in facts.nodes if role[name] == role[subject] and not facts.nodes[name].error]
    kinds: dict[tuple[str, ...], list[str]] = {}
    for name in peers:
        kinds.setdefault(system_tuple(facts.nodes[name].data, facts.bmcs.get(name)), []).append(name)
    mine = system_tuple(node.data, bmc)
    common = max(kinds, key=lambda kind: (len(kinds[kind]), kind))
    problems = (
        []
        if mine == common
        else [f"{' / '.join(mine)} differs from {len(kinds[common])} {role[subject]} nodes: {' / '.join(common)}"]
    )
    problems += access.told(access.unplanned_jobs(plan.site, node.data))
    limit = Limit(1, "distinct systems per role", "S141")
    return node_outcome(node, problems, list(mine), f"one system on {len(peers)} {role[subject]} nodes", limit=limit)


def system_tuple(data: Mapping[str, Any], bmc: Answer | None) -> tuple[str, ...]:
    """Operating system, kernel, kernel command line and BIOS version of a node."""
    bios = bmc.data["firmware"].get("BIOS", "") if bmc and not bmc.error else ""
    release = data["os_release"]
    return (f"{release.get('ID')} {release.get('VERSION_ID')}", data["kernel"], data["command_line"], f"BIOS {bios}")


@check(
    "S053.applied",
    inputs=(
        *("site.addressing", "site.fabric", "site.name", "site.scheduler", "site.validation", "site.versions"),
        *("frame.addresses", "frame.cables", "frame.devices", "assets"),
    ),
)
def test_node_has_its_addresses_and_cannot_reach_management(
    subject: str, plan: Plan, facts: Facts, guids: Mapping[str, str]
) -> Outcome:
    node = facts.nodes[subject]
    if node.error:
        return Outcome(False, None, node.error)
    rows = plan.addresses[
        (plan.addresses["device"] == subject)
        & plan.addresses["network"].isin(["provisioning", "loopback", "link", "oob"])
    ]
    rows = ipv6.both(plan.site, plan.catalog, rows)
    unread = node.data["errors"].get("links")
    links = node.data.get("links", {})
    absent = (
        [f"its addresses could not be read: {unread}"]
        if unread
        else [
            f"{interface} lacks {address}"
            for interface, address in rows[["interface", "address"]].itertuples(index=False, name=None)
            if address not in links.get(interface, {}).get("addresses", [])
        ]
    )
    answers = {
        f"{c['device']} {c['target']}:{c['port']} {c['seen']}": c["seen"] != "no answer" for c in node.data["connects"]
    }
    untried = [f"{c['device']} {c['target']}: {c['error']}" for c in node.data["silent"] if c.get("error")]
    answers |= {
        f"{c['device']} {c['target']} answers a ping": c["answered"] for c in node.data["silent"] if not c.get("error")
    }
    reached = [text for text, answered in answers.items() if answered]
    value: dict[str, Any] = {"addresses": len(rows), "probes": len(answers), "answered": len(reached)}
    problems = [*absent] if answers else [*absent, "no probe of the out-of-band network was made"]
    problems += [f"could not be pinged: {one}" for one in untried]
    partitions, pkeys = pkeys_of(subject, plan, facts, guids)
    problems += partitions
    problems += access.forwards(plan, subject, node.data)
    if (rows["network"] == "oob").any():
        # Only the allowed way in proves that the network was there to be denied.
        problems += [] if reached or not answers else ["its leg in the out-of-band network reaches nothing there"]
        good = f"{len(rows)} addresses as planned; {len(reached)} of {len(answers)} out-of-band devices answer, none is routed to"
    else:
        problems += [f"out-of-band network is reachable: {one}" for one in reached]
        good = f"{len(rows)} addresses as planned; {len(answers)} probes of the out-of-band network got no answer"
    if pkeys:
        value["pkeys"] = pkeys
        good += f"; P_Keys of {len(pkeys)} InfiniBand ports as planned"
    return node_outcome(node, problems, value, good)


def pkeys_of(server: str, plan: Plan, facts: Facts, guids: Mapping[str, str]) -> tuple[list[str], dict[str, list[str]]]:
    """(what is wrong, {port: P_Keys in its table}) of a server's ports in the InfiniBand fabric; both empty without any."""
    wanted = {port: keys for port, keys in subnet.expected_pkeys(plan).items() if port.rpartition(":")[0] == server}
    if not wanted:
        return [], {}
    view = best_view(facts)
    if view is None:
        return ["P_Keys cannot be read: no host with a subnet manager answers"], {}
    seen = {port: view.data["pkeys"].get(guids.get(port, ""), []) for port in wanted}
    problems = [
        f"P_Keys of {port} are {_hex(seen[port]) or 'not readable'}, planned {_hex(keys)}"
        for port, keys in wanted.items()
        if set(seen[port]) != keys
    ]
    return problems, {port.rpartition(":")[2]: _hex(keys) for port, keys in seen.items()}


def _hex(keys: Iterable[int]) -> list[str]:
    return [f"0x{key:04x}" for key in sorted(keys)]


@check("S054.applied", inputs=("site.inband", "frame.cables", "assets"), only=("inband_switches", "servers"))
def test_every_inband_port_has_jumbo_frames(subject: str, plan: Plan, facts: Facts) -> Outcome:
    cables = plan.cables[plan.cables["fabric"] == "inband"]
    ports = [*cables.loc[cables["a_device"] == subject, "a_port"], *cables.loc[cables["b_device"] == subject, "b_port"]]
    on_switch = subject in facts.switches
    answer = facts.switches[subject] if on_switch else facts.nodes[subject]
    if answer.error:
        return Outcome(False, None, answer.error)
    seen = answer.data["ports" if on_switch else "links"]
    wanted = (
        site_limit(plan.site, "switch_mtu_min_b") if on_switch else Limit(plan.site.inband.mtu, "B", "site inband.mtu")
    )
    # A node's MTU is the planned one: a larger one sends what other nodes drop.
    small = [
        f"{port} {seen.get(port, {}).get('mtu')}"
        for port in ports
        if seen.get(port, {}).get("mtu", 0) < float(wanted.value)
        or (not on_switch and seen[port]["mtu"] > float(wanted.value))
    ]
    smallest = readings.smallest_mtu(seen, ports)
    asked = f"{wanted} or more" if on_switch else str(wanted)
    detail = f"MTU is not {asked}: {', '.join(small)}" if small else f"{len(ports)} ports with MTU {asked}"
    return Outcome(
        not small and bool(ports),
        smallest,
        detail,
        unit="B",
        limit=wanted,
        identities=answer.identities,
        raw=answer.raw,
    )


@check(
    "S054.measured",
    inputs=("site.inband", "site.limits", "frame.cables", "frame.devices", "assets", "site.versions"),
)
def test_jumbo_frames_cross_unfragmented(subject: str, plan: Plan, facts: Facts) -> Outcome:
    node = facts.nodes[subject]
    if node.error:
        return Outcome(False, None, node.error)
    pings = node.data["pings"]
    limit = site_limit(plan.site, "df_ping_payload_b")
    problems = readings.pings_missing(plan, subject, pings)
    crossed = readings.crossed_b(pings)
    good = f"{len(pings)} nodes answer {crossed} B with DF set"
    return node_outcome(node, problems, crossed, good, unit="B", limit=limit)


@check("S144.applied", inputs=("site.addressing", "frame.addresses", "frame.devices", "assets"))
def test_time_source_is_configured(subject: str, plan: Plan, facts: Facts) -> Outcome:
    node = facts.nodes[subject]
    if node.error:
        return Outcome(False, None, node.error)
    if unread := node.data["errors"].get("units"):
        return node_outcome(node, [f"its services could not be read: {unread}"], None, "")
    state = node.data["units"].get("services", {}).get("chrony", "not loaded")
    chrony, planned = node.data.get("chrony", {}), time_sources(plan, subject)
    problems = [
        *([f"chrony is {state}"] if state != "active/running" else []),
        *(["chrony tells no time source"] if not chrony.get("reference") else []),
        *(
            [f"chrony follows {chrony['reference']}, planned {' or '.join(planned)}"]
            if chrony.get("reference") and chrony["reference"] not in planned
            else []
        ),
    ]
    return node_outcome(
        node, problems, chrony, f"chrony follows {chrony.get('reference')}, stratum {chrony.get('stratum')}"
    )


def time_sources(plan: Plan, node: str) -> list[str]:
    """Addresses that a node may take its time from: the site's time servers, and for all but themselves the controllers."""
    controllers = set(plan.devices.loc[plan.devices["role"] == "controller", "name"]) - {node}
    rows = plan.addresses[plan.addresses["device"].isin(controllers) & (plan.addresses["network"] == "provisioning")]
    return [*(str(server) for server in plan.site.addressing.ntp), *(a.partition("/")[0] for a in rows["address"])]


@check("S144.observed", inputs=("site.limits", "assets"))
def test_clock_offset_is_within_limit(subject: str, plan: Plan, facts: Facts) -> Outcome:
    node = facts.nodes[subject]
    if node.error:
        return Outcome(False, None, node.error)
    limit, quarters = site_limit(plan.site, "time_offset_ms"), site_limit(plan.site, "time_offset_samples")
    chrony, day = node.data.get("chrony"), node.data.get("clock_day")
    if not chrony:
        return node_outcome(node, [f"chronyc gave no tracking: {node.data['errors'].get('chrony')}"], None, "")
    if not day or not day["samples"]:
        why = node.data["errors"].get("clock_day") if not day else "chrony's log has no sample of the last day"
        return node_outcome(node, [f"its offsets are not known: {why}"], None, "")
    p99 = readings.p99_ms(day)
    problems = readings.clock_faults(chrony, day, float(limit.value), float(quarters.value))
    problems += [f"99th percentile of its offsets {p99:.3f} ms"] if p99 > float(limit.value) else []
    good = f"99th percentile {p99:.4f} ms of {day['samples']} offsets in {day['quarters']} quarter hours"
    return node_outcome(node, problems, p99, good, unit="ms", limit=limit)


@check("S147.applied", inputs=("site.credentials", "site.validation", "site.os", "site.scheduler", "assets"))
def test_only_keys_log_in(subject: str, plan: Plan, facts: Facts, operator_keys: tuple[str, ...]) -> Outcome:
    node = facts.nodes[subject]
    if node.error:
        return Outcome(False, None, node.error)
    effective = node.data.get("sshd", {})
    wrong = [
        f"{key} is {effective.get(key, 'unset')}" for key, good in HARDENED.items() if effective.get(key) not in good
    ]
    unplanned = access.unplanned_access(plan, subject, node.data, operator_keys)
    value = {**{key: effective.get(key) for key in HARDENED}, "not_planned": unplanned}
    good = "sshd's effective settings allow key logins only; accounts, keys and sudo rules are planned"
    return node_outcome(node, [*wrong, *access.told(unplanned)], value, good)


@check("S147.measured", inputs=("site.credentials", "site.scheduler", "assets", "frame.devices"))
def test_passwords_and_unknown_keys_are_refused(
    subject: str, plan: Plan, facts: Facts, logins: dict[str, Logins], revoked_keys: dict[str, Tried]
) -> Outcome:
    node, tried, again = facts.nodes[subject], logins[subject], revoked_keys[subject]
    if node.error:
        return Outcome(False, None, node.error)
    problems = [
        *([f"a password login was not refused: {tried.password}"] if tried.password != "refused" else []),
        *(
            [f"a key that nobody installed was not refused: {tried.unknown_key}"]
            if tried.unknown_key != "refused"
            else []
        ),
        *again.faults(compute=of_jobs(plan, subject)),
    ]
    value = {"password": tried.password, "unknown_key": tried.unknown_key, "revoked_key": again.revoked}
    good = "a password, an unknown key and a key that was revoked after it had logged in were refused, the site's key logs in"
    if again.user:
        value |= {"without_job": again.without_job}
        good += f"; {again.user}, without a job here, was refused"
    return node_outcome(node, problems, value, good)
