"""BMCs by Redfish: identity LED, management settings, power supplies, power-on self-test."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from capacity.model import Plan
from inventory.delivered.firmware import Bundle
from inventory.delivered.power_acts import PowerAct
from inventory.site.sections.provisioning import Provisioning
from network.drivers.errors import same_identifier
from network.drivers.redfish import UNUSED_PROTOCOLS
from network.drivers.redfish_boot import TPM_2
from network.drivers.redfish_syslog import as_planned
from validation import access, readings
from validation.bundles import firmware_faults, of_gpus
from validation.check import Limit, Outcome, check, site_limit
from validation.facts import Facts


@check("S016.applied", inputs=("assets", "site.credentials", "frame.devices"))
def test_identify_led_and_power_follow(
    subject: str, facts: Facts, identify_leds: dict[str, str], last_power_acts: Mapping[str, PowerAct]
) -> Outcome:
    bmc = facts.bmcs[subject]
    if bmc.error:
        return Outcome(False, None, bmc.error)
    led, power, act = identify_leds[subject], bmc.data["state"]["power"], last_power_acts.get(subject)
    problems = [
        *([led] if led else []),
        *([f"the BMC tells the power state {power!r}"] if power not in ("On", "Off") else []),
        *power_act_faults(subject, act, bmc.data["identity"]["serial"]),
    ]
    value = {"led": led or "follows", "power": power, "power_act": asdict(act) if act else None}
    followed = f"{act.reset} took it from {act.before} to {act.after}" if act else ""
    detail = "; ".join(problems) or f"identify LED set, read back and put back; power is {power}, {followed}"
    return Outcome(not problems, value, detail, identities=bmc.identities, raw=bmc.raw)


def power_act_faults(server: str, act: PowerAct | None, serial: str) -> list[str]:
    """What is wrong with the recorded power action of a server, whose BMC tells this serial number."""
    remedy = f"take its jobs off and run `bringup bmc restart SITE --server {server}`"
    if act is None:
        return [f"no power action is recorded; `pulumi up` switches only servers on that are off: {remedy}"]
    if not same_identifier(act.serial, serial):
        return [f"the recorded power action was of serial {act.serial}, this is {serial}: {remedy}"]
    if {act.before, act.after} != {"On", "Off"}:
        return [f"the recorded power action led from {act.before} to {act.after}: {remedy}"]
    return []


@check(
    "S017.applied",
    inputs=(
        "assets",
        "site.credentials",
        "site.addressing",
        "site.versions",
        "site.validation",
        "site.server",
        "site.service_nodes",
        "site.provisioning",
        "frame.devices",
        "firmware.*",
    ),
)
def test_bmc_is_set_up(subject: str, plan: Plan, facts: Facts, bundles: Mapping[str, Bundle]) -> Outcome:
    bmc = facts.bmcs[subject]
    if bmc.error:
        return Outcome(False, None, bmc.error)
    data, site = bmc.data, plan.site
    on = [name for name in UNUSED_PROTOCOLS if data["protocols"].get(name)]
    enabled = [account["user"] for account in data["accounts"] if account["enabled"]]
    pin = site.versions.get("bmc")
    wanted_ntp = [str(server) for server in site.addressing.ntp]
    problems = [
        *([f"protocols on that must be off: {', '.join(on)}"] if on else []),
        *([f"time servers {data['ntp']}, planned {wanted_ntp}"] if data["ntp"] != wanted_ntp else []),
        *log_server_faults([str(server) for server in site.addressing.syslog], data),
        *([f"account {site.credentials.bmc.user} is missing"] if site.credentials.bmc.user not in enabled else []),
        *(["the factory login still works"] if data.get("factory_login_refused") is False else []),
        *(
            ["the factory login was not tried: name the account of the delivered BMCs in credentials.bmc.factory"]
            if data.get("factory_login_refused") is None
            else []
        ),
        *shared_password_faults(plan, data),
        *boot_trust_faults(site.provisioning, data),
        *access.told(access.unplanned_bmc_accounts(site, data["accounts"])),
        *(
            [f"firmware {data['identity']['bmc_firmware']}, pinned {pin}"]
            if pin and data["identity"]["bmc_firmware"] != pin
            else []
        ),
        *firmware_faults(plan, subject, bmc.data["firmware"], bundles, lambda package: not of_gpus(package)),
    ]
    value = {
        "accounts": enabled,
        "factory_login_refused": data.get("factory_login_refused"),
        "login_of_other": data.get("login_of_other"),
        "ntp": data["ntp"],
        "log_servers": data.get("log_servers", {}).get("servers"),
        "firmware": data["identity"]["bmc_firmware"],
        **{key: data[key] for key in ("secure_boot", "tpms") if key in data},
        "certificate": f"signed by {'credentials.bmc.ca' if site.credentials.bmc.ca else 'a system CA'}",
    }
    good = "account, time and log servers, protocols as planned, factory login and another BMC's password refused, certificate"
    detail = "; ".join(problems) or f"{good} {value['certificate']}"
    return Outcome(not problems, value, detail, identities=bmc.identities, raw=bmc.raw)


def shared_password_faults(plan: Plan, data: Mapping[str, Any]) -> list[str]:
    """What is wrong where another server's password opens this BMC, or none was tried though there is another server."""
    tried = data.get("login_of_other")
    if tried is None:
        others = int((plan.devices["kind"] == "server").sum()) > 1
        return ["the password of another BMC was not tried"] if others else []
    if tried["refused"]:
        return []
    remedy = "give each BMC its own, by {device}, {serial} or a table in credentials.bmc.password"
    return [f"the password of {tried['server']} opens it as well: {remedy}"]


def boot_trust_faults(asked: Provisioning, data: Mapping[str, Any]) -> list[str]:
    """What is wrong with secure boot and the TPM, of a server whose site asks for them."""
    if asked.secure_boot is None and asked.encrypt is None:
        return []
    if "tpms" not in data:
        why = data.get("boot_trust_unread", "they were not asked for")
        return [f"its secure boot and its TPM could not be read: {why}"]
    problems, seen = [], data["secure_boot"]
    wanted = "on" if asked.secure_boot else "off"
    if asked.secure_boot is not None and seen is None:
        problems.append(f"secure boot must be {wanted}, and its BMC shows none: update its firmware")
    elif asked.secure_boot is not None and seen["enabled"] is not asked.secure_boot:
        problems.append(f"secure boot must be {wanted}, SecureBootEnable is {seen['enabled']}: pulumi up")
    elif asked.secure_boot is not None and seen["in_force"] is not asked.secure_boot:
        problems.append(f"secure boot is {wanted} from the next boot on, not in this one: bringup bmc restart")
    if asked.encrypt and not any(tpm["kind"] == TPM_2 and tpm["state"] == "Enabled" for tpm in data["tpms"]):
        there = ", ".join(f"{tpm['kind']} {tpm['state']}" for tpm in data["tpms"]) or "none"
        problems.append(f"disks are unlocked by a TPM 2.0, its BMC shows {there}: switch it on in the BIOS profile")
    return problems


def log_server_faults(planned: list[str], data: Mapping[str, Any]) -> list[str]:
    """What is wrong with the log servers of a BMC. One that takes fewer than are planned has to send to the first ones."""
    seen = data.get("log_servers")
    if not planned:
        return ["no log servers are planned: name them in addressing.syslog"]
    if seen is None:
        return [f"its log servers could not be read: {data.get('log_servers_unread', 'they were not asked for')}"]
    if not seen["most"]:
        return ["it shows no way to set log servers: neither a syslog subscription of EventService nor a maker's own"]
    wanted = planned[: seen["most"]]
    return [] if as_planned(seen, planned) else [f"log servers {seen['servers']}, planned {wanted}"]


@check("S020.observed", inputs=("site.server", "frame.outlets", "assets", "frame.devices"))
def test_every_power_supply_is_present(subject: str, plan: Plan, facts: Facts) -> Outcome:
    bmc = facts.bmcs[subject]
    if bmc.error:
        return Outcome(False, None, bmc.error)
    supplies = bmc.data["power_supplies"]
    row = plan.devices[plan.devices["name"] == subject].iloc[0]
    model, wanted = plan.catalog.device(str(row["model"])), int(row["psu_count"])
    rating_w = model.bringup.psu.rating_w if model.bringup.psu else 0
    tolerance = site_limit(plan.site, "psu_input_tolerance_pct")
    nominal_v = plan.site.server.supplies.input_v
    live = readings.healthy(supplies["psus"])
    problems = [
        *([f"{len(live)} of {wanted} supplies are healthy and have input"] if len(live) != wanted else []),
        *readings.supply_faults(supplies, rating_w=rating_w, nominal_v=nominal_v, tolerance_pct=float(tolerance.value)),
    ]
    value = {"healthy": len(live), "supplies": [dict(psu) for psu in supplies["psus"]]}
    detail = "; ".join(problems) or f"{wanted} supplies of {rating_w} W, redundant"
    limit = Limit(wanted, "supplies", f"plan supplies: catalogue {model.slug}")
    return Outcome(not problems, value, detail, limit=limit, identities=bmc.identities, raw=bmc.raw)


@check("S031.measured", inputs=("assets", "frame.devices", "frame.cables", "site.server"))
def test_server_has_completed_its_self_test(
    subject: str, plan: Plan, facts: Facts, last_power_acts: Mapping[str, PowerAct]
) -> Outcome:
    bmc, node = facts.bmcs[subject], facts.nodes[subject]
    if bmc.error:
        return Outcome(False, None, bmc.error)
    value, problems = readings.self_test(plan, subject, bmc.data)
    limit = site_limit(plan.site, "node_ready_s")
    if node.error:
        problems.append(node.error)
    else:
        counts, faults = shown_to_the_system(plan, subject, node.data)
        value, problems = value | counts, problems + faults
    start_s, problem = start_of(subject, bmc.data, node.data, last_power_acts.get(subject), float(limit.value))
    problems += [problem] if problem else []
    good = "past its self-test in {:,.0f} s, event log clean, processors, memory, GPUs and ports as planned, system answers"
    detail = "; ".join(problems) or good.format(start_s)
    both = (*bmc.identities, *node.identities)
    return Outcome(not problems, value | {"start_s": start_s}, detail, limit=limit, identities=both, raw=bmc.raw)


def start_of(
    server: str, bmc: Mapping[str, Any], node: Mapping[str, Any], act: PowerAct | None, most_s: float
) -> tuple[float | None, str]:
    """(seconds that the last start took, what is wrong with it): as the BMC tells, else from the recorded power-on until the
    operating system began.
    """
    remedy = f"run `bringup bmc restart SITE --server {server}`"
    took_s, told = bmc["state"].get("boot_s"), ""
    if took_s is None:
        began, on = node.get("started_at"), act.at if act is not None and act.after == "On" else None
        if began is None or on is None or began < on:
            return None, f"how long its start took is not known, its BMC does not tell: {remedy}"
        took_s, told = round(began - on, 1), f" from the recorded power-on (if it started again since, {remedy})"
    return took_s, f"its start took {took_s:,.1f} s{told}, limit {most_s:,.0f} s" if took_s > most_s else ""


def shown_to_the_system(plan: Plan, server: str, node: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(value, what is wrong) of the GPUs and cabled Ethernet ports that the operating system of a server finds, by their number."""
    gpus = readings.built_of(plan, server).gpus
    there = len(node["gpus"].get("devices", [])) if gpus else 0
    ports = readings.cabled_ports(plan, "inband").get(server, [])
    lost = [port for port in ports if port not in node["links"]]
    return {"gpus": there, "ports": len(ports) - len(lost)}, [
        *([f"its system finds {there} GPUs, planned {gpus}"] if there != gpus else []),
        *([f"its system finds no port {', '.join(lost)}"] if lost else []),
    ]
