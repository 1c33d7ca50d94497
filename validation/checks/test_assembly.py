"""How servers are built, read back: memory, drives, boot mirror, PCIe tree, fans (validation/assembly.py judges)."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from capacity.model import Plan
from capacity.services.boot.record import Installed, starts_from_each
from inventory.catalog.devices import DeviceType
from validation import assembly, gpu_faults, gpu_health
from validation.check import Limit, Outcome, check
from validation.checks.test_gpus import outcome, silent
from validation.checks.test_nodes import node_outcome
from validation.facts import Answer, Facts


def built(
    plan: Plan,
    node: Answer,
    parts: Mapping[str, str],
    faults: Callable[[Mapping[str, Any], DeviceType], Iterator[str]],
    good: str,
) -> Outcome:
    """The outcome of a check of what a node is built of. parts: {part of its machine facts: name in the value}."""
    if node.error:
        return Outcome(False, None, node.error)
    machine, device = node.data.get("machine", {"error": "it was not asked"}), _model(plan, node.device)
    if machine.get("container"):
        pytest.skip(f"{node.device} is a container ({machine['container']}): it shows the hardware of its host")
    unread = assembly.unread(machine, *parts)
    problems = unread or list(faults(machine, device))
    value = None if unread else {name: machine[part] for part, name in parts.items()}
    limit = Limit(device.slug, "", f"catalogue {device.slug}")
    return node_outcome(node, problems, value, good, limit=limit)


def _model(plan: Plan, server: str) -> DeviceType:
    return plan.catalog.device(str(plan.devices.loc[plan.devices["name"] == server, "model"].iloc[0]))


def gpu_addresses(node: Answer) -> list[str]:
    """PCI address of each of a node's GPUs as its kernel writes it, in NVML's order, which is that of the addresses."""
    devices = node.data["gpus"]["devices"]
    return [f"{gpu_health.address(gpu['pci_bus_id'])}.0" for gpu in devices if not gpu["error"]]


@check("S014.measured", inputs=("site.server", "frame.devices", "assets"))
def test_memory_is_fitted_evenly_and_runs_at_its_speed(subject: str, plan: Plan, facts: Facts) -> Outcome:
    parts = {"memory": "modules", "controllers": "controllers"}
    good = "memory as planned, every channel alike, trained to its speed, no error counted"
    return built(plan, facts.nodes[subject], parts, assembly.memory_faults, good)


@check("S018.measured", inputs=("site.server", "site.versions", "frame.devices", "assets"))
def test_drives_are_as_planned_and_healthy(
    subject: str, plan: Plan, facts: Facts, delivered_drives: Callable[[str], Mapping[str, str]]
) -> Outcome:
    pinned, delivered = plan.site.versions.get("nvme"), delivered_drives(subject)
    return built(
        plan,
        facts.nodes[subject],
        {"drives": "drives", "pcie": "pcie"},
        lambda machine, device: assembly.drive_faults(machine, device, pinned, delivered),
        "drives as planned, no warning, each on all its lanes, one firmware per model, serial numbers as in assets.csv",
    )


@check("S019.applied", inputs=("site.server", "frame.devices", "assets"))
def test_boot_drives_are_mirrored_and_both_start_the_server(
    subject: str, plan: Plan, facts: Facts, installed: Mapping[str, Installed]
) -> Outcome:
    one = installed.get(subject)
    tried = one is not None and starts_from_each(one, one.drives)
    found = built(
        plan,
        facts.nodes[subject],
        {"arrays": "arrays", "boot": "boot"},
        lambda machine, device: assembly.mirror_faults(machine, device, tried=tried),
        "RAID 1 clean on both boot drives, "
        + (
            "the server was seen to start from each alone"
            if tried
            else "each has the boot program and an entry of the firmware"
        ),
    )
    if one is None or not isinstance(found.value, dict):
        return found
    return dataclasses.replace(found, value={**found.value, "started_alone_from": list(one.alone)})


@check("S022.measured", inputs=("site.server", "site.gpu", "site.versions", "frame.devices", "gpus", "assets"))
def test_gpu_cards_sit_where_the_board_has_them(subject: str, plan: Plan, facts: Facts) -> Outcome:
    node = facts.nodes[subject]
    if why := silent(node):
        return Outcome(False, None, why, identities=node.identities)
    gpus = gpu_addresses(node)
    good = f"{len(gpus)} GPUs on full links, behind the board's PCIe switches as planned"
    return built(
        plan, node, {"pcie": "pcie"}, lambda machine, device: assembly.riser_faults(machine, device, gpus), good
    )


@check("S041.measured", inputs=("site.server", "site.gpu", "site.versions", "frame.devices", "gpus", "assets"))
def test_adapters_sit_beside_the_gpus_of_their_rails(
    subject: str, plan: Plan, facts: Facts, guids: Mapping[str, str]
) -> Outcome:
    node = facts.nodes[subject]
    if why := silent(node):
        return Outcome(False, None, why, identities=node.identities)
    gpus, own = gpu_addresses(node), {}
    for name, guid in guids.items():
        server, _, port = name.rpartition(":")
        if server == subject:
            own[port] = guid
    return built(
        plan,
        node,
        {"adapters": "adapters", "pcie": "pcie"},
        lambda machine, device: assembly.adapter_faults(machine, device, gpus, own),
        f"{len(own)} adapters by GUID, at the rate of their slots, each beside the GPU of its rail",
    )


@check("S027.observed", inputs=("site.gpu", "site.versions", "site.validation", "frame.devices", "gpus", "assets"))
def test_gpu_cards_have_their_full_power(subject: str, plan: Plan, facts: Facts) -> Outcome:
    node = facts.nodes[subject]
    if why := silent(node):
        return Outcome(False, None, why, identities=node.identities)
    found = gpu_faults.power(plan, subject, node.data)
    limit = Limit("default power limit", "", "NVML, nvmlDeviceGetPowerManagementDefaultLimit")
    good = f"{len(found.value)} GPUs at their default power limit, no power brake"
    return outcome(node, found.problems, found.value, good, limit)


@pytest.fixture(scope="session")
def most_fans(plan: Plan, facts: Facts) -> Mapping[str, tuple[str, int]]:
    return assembly.most_fans(plan, {name: bmc.data for name, bmc in facts.bmcs.items() if not bmc.error})


@check("S030.observed", inputs=("frame.devices", "assets", "site.credentials"))
def test_fans_turn_and_the_air_leaves_warmer(
    subject: str, plan: Plan, facts: Facts, most_fans: Mapping[str, tuple[str, int]]
) -> Outcome:
    bmc = facts.bmcs[subject]
    if bmc.error:
        return Outcome(False, None, bmc.error)
    thermal = bmc.data.get("thermal")
    if thermal is None:
        why = bmc.data.get("thermal_unread", "it was not asked for fans and temperatures")
        return Outcome(False, None, why, identities=bmc.identities, raw=bmc.raw)
    value, problems = assembly.air(bmc.data)
    shown = len(value["fans"])
    other, most = most_fans[str(plan.devices.set_index("name").at[subject, "model"])]
    problems += [f"the BMC shows {shown} fans, that of {other}, of the same model, {most}"] if shown < most else []
    inlet, outlet = value["inlet_c"], value["outlet_c"]
    detail = (
        "; ".join(problems) or f"{len(value['fans'])} fans turn, air comes in at {inlet:g} C and leaves at {outlet:g} C"
    )
    limit = Limit("inlet below outlet", "", "S030: the inlet is colder than the exhaust")
    return Outcome(not problems, value, detail, limit=limit, identities=bmc.identities, raw=bmc.raw)
