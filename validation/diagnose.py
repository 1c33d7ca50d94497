"""What is wrong with the devices of a site: every difference between plan and facts, each named once, at its cause.

In: a Plan, its assets, Facts. Out: Findings. Pure. A cause hides its consequences: a server that lost all its feeds is
one POWER-LOST, not also a silent BMC, a silent node, dead outlets and dark cables.
"""

from collections.abc import Iterable

import pandas as pd

from capacity.model import Plan
from inventory.findings import Finding, finding, remedy
from network import compare
from network.drivers.errors import LoginNotGiven
from network.infiniband.subnet import guid_book
from network.infiniband.wire import FABRIC
from validation import gpu_health, infiniband, roce_ends, storage
from validation import scheduler_findings as scheduler
from validation.check import site_limit
from validation.facts.answer import Answer, Facts

NO_ANSWER = {"DeviceTimeout", "Unreachable"}
"""Errors of a device that does not answer at all, unlike one that refuses a login or answers garbage."""


def diagnose(plan: Plan, assets: pd.DataFrame, facts: Facts) -> list[Finding]:
    """All findings about the observed devices, causes only, sorted by id and subject."""
    dead = {f.subject: f for f in power_lost(plan, facts)}
    fed_by_dead = {port for finding in dead.values() for port in finding.ports}
    found = list(dead.values())
    found += [f for f in outlet_states(plan, facts) if not set(f.ports) & fed_by_dead]
    found += supplies_without_input(plan, facts)
    found += identities(assets, facts)
    feeds = feeds_lost(plan, facts)
    found += feeds
    unpowered = {name for finding in feeds for name in finding.ports if name in facts.pdus}
    quiet = silences(facts, {*dead, *unpowered})
    found += quiet
    down = {*dead, *(f.subject for f in quiet)}
    found += storage.findings(plan, facts, down)
    found += [
        finding("TELEMETRY-SILENT", name, words={"problem": answer.error})
        for name, answer in facts.telemetry.items()
        if answer.error and name not in down
    ]
    found += [f for f in topology(plan, facts, dark=down) if f.id != "DEVICE-SILENT"]
    found += gpu_health.find(plan, facts)
    found += [
        finding
        for name, switch in {**facts.switches, **facts.roce_switches}.items()
        if not switch.error
        for finding in compare.config(name, switch.data["diff"], switch.data["saved"])
    ]
    found += infiniband.findings(plan, guid_book(assets), facts, down)
    found += roce_ends.findings(plan, facts, down)
    found += scheduler.findings(plan, facts, found)
    return sorted(dict.fromkeys(found), key=lambda f: (f.id, f.subject, f.ports))


def power_lost(plan: Plan, facts: Facts) -> list[Finding]:
    """Devices all of whose planned outlets are off, as their PDUs say."""
    off = {
        (name, outlet["number"])
        for name, pdu in facts.pdus.items()
        if not pdu.error
        for outlet in pdu.data["outlets"]
        if not outlet["on"]
    }
    used = plan.outlets[plan.outlets["device"] != ""]
    found = []
    for device, rows in used[used["device"].isin(_judged_devices(plan, facts))].groupby("device", sort=False):
        cords = list(zip(rows["pdu"], rows["outlet"], strict=True))
        if cords and all(cord in off for cord in cords):
            ports = tuple(f"{pdu}:{outlet}" for pdu, outlet in cords)
            found.append(
                finding(
                    "POWER-LOST",
                    str(device),
                    ports=ports,
                    feeds_live=0,
                    words={"outlets": ", ".join(ports)},
                    remedies=[remedy(fix="switch-on")],
                )
            )
    return found


def feeds_lost(plan: Plan, facts: Facts) -> list[Finding]:
    """Feeds of racks that have no power: all PDUs silent, and every BMC that can tell sees its supplies there without input.

    `ports` names the PDUs and the supplies. PDUs that are silent while their supplies live are only cut off.
    """
    silent = {name for name, pdu in facts.pdus.items() if pdu.error_kind in NO_ANSWER}
    found = []
    for (rack, feed), rows in plan.outlets.groupby(["rack", "feed"], sort=False):
        pdus = sorted(rows["pdu"].unique())
        if not set(pdus) <= silent:
            continue
        used = rows[rows["device"].isin([name for name, bmc in facts.bmcs.items() if not bmc.error])]
        cords = list(used[["device", "psu"]].itertuples(index=False, name=None))
        if cords and all(_without_input(facts.bmcs[device], psu) for device, psu in cords):
            supplies = [f"{device}:psu{psu}" for device, psu in cords]
            found.append(
                finding(
                    "FEED-LOST",
                    f"{rack}/{feed}",
                    ports=(*pdus, *supplies),
                    supplies_dark=len(cords),
                    words={"pdus": ", ".join(pdus)},
                    remedies=[remedy(fix="breaker")],
                )
            )
    return found


def _without_input(bmc: Answer, psu: int) -> bool:
    supplies = bmc.data["power_supplies"]["psus"]
    return 0 < psu <= len(supplies) and supplies[psu - 1]["state"] != "Enabled"


def outlet_states(plan: Plan, facts: Facts) -> list[Finding]:
    """Outlets that are off and should be on."""
    return [
        finding
        for name, pdu in facts.pdus.items()
        if not pdu.error
        for finding in compare.outlets(
            name, plan.outlets[plan.outlets["pdu"] == name].set_index("outlet"), pdu.data["outlets"]
        )
    ]


def supplies_without_input(plan: Plan, facts: Facts) -> list[Finding]:
    """Supplies that their BMC calls dead though their outlet is on: a pulled cord, a tripped bank, a broken supply.

    A supply whose outlet is off or whose PDU is silent is the finding of that PDU.
    """
    live = {
        (name, outlet["number"])
        for name, pdu in facts.pdus.items()
        if not pdu.error
        for outlet in pdu.data["outlets"]
        if outlet["on"]
    }
    used = plan.outlets[plan.outlets["device"].isin(list(facts.bmcs))]
    cord = {
        (device, psu): (pdu, outlet)
        for device, psu, pdu, outlet in used[["device", "psu", "pdu", "outlet"]].itertuples(index=False, name=None)
    }
    found = []
    for device, bmc in facts.bmcs.items():
        supplies = [] if bmc.error else bmc.data["power_supplies"]["psus"]
        for number, supply in enumerate(supplies, start=1):
            source = cord.get((device, number))
            if supply["state"] == "Enabled" or source not in live:
                continue
            outlet = f"{source[0]}:{source[1]}"
            found.append(
                finding(
                    "SUPPLY-DARK",
                    device,
                    ports=(f"{device}:psu{number}", outlet),
                    words={"supply": supply["name"], "state": supply["state"], "outlet": outlet},
                    remedies=[remedy(fix="cord")],
                )
            )
    return found


def identities(assets: pd.DataFrame, facts: Facts) -> list[Finding]:
    """Devices that are others than the asset list says, whichever channel tells it."""
    seen: list[tuple[str, dict[str, str]]] = []
    for name, answer in facts.pdus.items():
        if not answer.error:
            seen.append((name, {"serial": answer.data["identity"]["serial"]}))
    for name, answer in facts.bmcs.items():
        if not answer.error:
            seen.append((name, {key: answer.data["identity"][key] for key in ("serial", "uuid")}))
    for name, answer in facts.agents.items():
        if not answer.error and answer.data["serial"]:
            seen.append((name, {"serial": answer.data["serial"]}))
    for name, answer in {**facts.switches, **facts.roce_switches}.items():
        if not answer.error:
            seen.append((name, {"mgmt_mac": answer.data["mgmt_mac"]}))
    for name, answer in facts.nodes.items():
        if not answer.error:
            seen.append((name, {"uuid": answer.data["identity"]["uuid"]}))
    found: dict[str, Finding] = {}
    for name, fields in seen:
        if name in assets.index and name not in found:
            expected = {key: str(assets.at[name, key]) for key in fields}
            for finding in compare.identity(name, expected, fields):
                found[name] = finding
    return list(found.values())


def silences(facts: Facts, explained: Iterable[str]) -> list[Finding]:
    """Devices that did not answer, and switches that do not say what they see by LLDP. A server whose BMC and system are silent is
    one finding, and so are all compute switches that the site gives no login for.
    """
    known, found = set(explained), []
    without = [answer for answer in facts.roce_switches.values() if answer.error_kind == LoginNotGiven.__name__]
    if without:
        problem = without[0].error.removeprefix(f"{without[0].device}: ")
        found.append(finding("LOGIN-NOT-GIVEN", "compute", devices=len(without), words={"problem": problem}))
    known.update(answer.device for answer in without)
    for answers in (facts.pdus, facts.bmcs, facts.switches, facts.agents, facts.roce_switches, facts.nodes):
        for name, answer in answers.items():
            if answer.error and name not in known:
                known.add(name)
                found.append(_no_answer(answer))
    for name, answer in facts.switches.items():
        if answer.data.get("lldp_error") and name not in known:
            found.append(compare.no_answer(name, "lldp", answer.data["lldp_error_kind"], answer.data["lldp_error"]))
    return found


def topology(plan: Plan, facts: Facts, dark: Iterable[str] = ()) -> list[Finding]:
    """Differences between the planned in-band cables and what LLDP sees."""
    limit = float(site_limit(plan.site, "lldp_max_age_s").value)
    return compare.topology(plan.cables, facts.neighbours(), max_age_s=limit, dark=set(dark))


def observers(plan: Plan, facts: Facts) -> set[str]:
    """Switches whose cables are compared: those that said what they see, and those of a fabric that was discovered."""
    switches = set(facts.neighbours())
    view = infiniband.joined_view(facts)
    if view is None:
        return switches
    compute = plan.devices.loc[plan.devices["fabric"] == FABRIC, "name"]
    return switches | set(compute)


def _no_answer(answer: Answer) -> Finding:
    return compare.no_answer(answer.device, answer.channel, answer.error_kind, answer.error)


def _asked(facts: Facts) -> set[str]:
    return {*facts.bmcs, *facts.switches, *facts.agents, *facts.nodes}


def _judged_devices(plan: Plan, facts: Facts) -> set[str]:
    """Devices of which it was asked whether they are there; compute switches are, where the fabric was discovered."""
    compute = plan.devices.loc[plan.devices["fabric"] == "compute", "name"].tolist()
    return {*_asked(facts), *(compute if infiniband.best_view(facts) else [])}
