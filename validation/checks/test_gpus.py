"""GPUs: identity, firmware, links, and the software stack around them, as NVML and the node tell."""

from collections.abc import Mapping, Sequence

import pytest

from capacity.model import Plan
from inventory.delivered.firmware import Bundle
from inventory.findings import Finding
from inventory.gpu_stack import load_stack
from validation import gpu_faults, gpu_health
from validation.bundles import packages_of, unproven
from validation.check import Limit, Outcome, check
from validation.checks.conftest import Sweep
from validation.collectives import links_of, of_node
from validation.evidence import Identity
from validation.facts import Answer, Facts
from validation.facts.node_results import left_unsigned
from validation.gpu_faults import devices
from validation.runners.engine import Ran, Rank, named, workload_of


def silent(node: Answer) -> str:
    """Why the node said nothing of its GPUs, or ''."""
    if node.error:
        return node.error
    reading = node.data["gpus"]
    return f"its GPUs cannot be asked: {reading['error_kind']}: {reading['error']}" if reading["error"] else ""


def gpu_identities(node: Answer) -> tuple[Identity, ...]:
    """The node's identity, and what each of its GPUs says it is."""
    gpus = [gpu for gpu in node.data["gpus"]["devices"] if not gpu["error"]]
    return (*node.identities, *(Identity(node.device, "nvml", gpu["name"], gpu["uuid"]) for gpu in gpus))


def findings_of(plan: Plan, facts: Facts, node: str, ids: Sequence[str]) -> list[Finding]:
    """The node's findings with these ids."""
    return gpu_faults.findings_of(plan, node, facts.nodes[node].data, ids)


def outcome(node: Answer, problems: Sequence[str], value: object, good: str, limit: Limit) -> Outcome:
    return Outcome(
        not problems, value, "; ".join(problems) or good, limit=limit, identities=gpu_identities(node), raw=node.raw
    )


@check(
    "S007.applied",
    inputs=("site.versions", "site.gpu", "site.server", "site.service_nodes", "gpus", "frame.devices", "firmware.*"),
)
def test_gpu_firmware_has_pinned_release(
    subject: str, plan: Plan, facts: Facts, bundles: Mapping[str, Bundle]
) -> Outcome:
    node = facts.nodes[subject]
    if why := silent(node):
        return Outcome(False, None, why, identities=node.identities)
    pins, found = gpu_health.wanted_of(plan).firmware, gpu_faults.firmware(plan, subject, node.data)
    limit = Limit(
        ", ".join(f"{pin} {version}" for pin, version in pins.items()), "", "site versions.vbios, versions.inforom"
    )
    problems, value = list(found.problems), dict(found.value)
    good, judged = f"{len(devices(node.data))} GPUs, one firmware: {limit.value}", packages_of(plan, subject, bundles)
    bmc = facts.bmcs[subject]
    if bmc.error:
        problems.append(f"its BMC lists no firmware: {bmc.error}")
    else:
        problems += unproven(plan, subject, bmc.data["firmware"], bundles)
    if judged:
        value["bundle"] = judged
        good += f"; as in the bundle: {', '.join(judged)}"
    return outcome(node, problems, value, good, limit)


@check("S026.measured", inputs=("site.gpu", "frame.devices", "gpus", "site.versions"))
def test_listed_gpus_are_installed(subject: str, plan: Plan, facts: Facts) -> Outcome:
    node = facts.nodes[subject]
    if why := silent(node):
        return Outcome(False, None, why, identities=node.identities)
    listed, found = gpu_health.listed_on(plan.gpus, subject), gpu_faults.installed(plan, subject, node.data)
    limit = Limit(len(listed), "GPUs", "gpus.csv")
    good = f"{len(listed)} GPUs, each in its slot, without PCIe errors"
    if found.left_open:
        good = "; ".join([f"{len(listed)} GPUs, each in its slot, no PCIe error counted", *found.left_open])
    return outcome(node, found.problems, found.value, good, limit)


@check("S029.measured", inputs=("site.gpu", "frame.cables", "frame.devices", "gpus", "site.versions"))
def test_pcie_links_of_gpus_and_nics_have_full_width(subject: str, plan: Plan, facts: Facts) -> Outcome:
    """A link that runs below its best is a problem, also when idleness may explain it: the step asks for a reading under
    load, so it is repeated beside the burn-in. A container has no PCIe bus of its own; its NICs are not judged."""
    node = facts.nodes[subject]
    if why := silent(node):
        return Outcome(False, None, why, identities=node.identities)
    model, reading = gpu_health.wanted_of(plan).model, node.data["gpus"]
    found = gpu_faults.links(plan, subject, node.data)
    limit = Limit(
        f"x{model.pcie_width} generation {model.pcie_gen}, {model.nvlinks} NVLinks", "", f"catalogue {model.slug}"
    )
    nics = (
        "NICs not judged: a container has no PCIe bus"
        if reading["container"]
        else f"{len(reading['nics'])} NICs at their best"
    )
    good = "; ".join([f"{len(devices(node.data))} GPUs with {limit.value}", nics, *found.left_open])
    return outcome(node, found.problems, found.value, good, limit)


@check("S033.applied", inputs=("site.versions", "site.os", "gpus", "site.gpu"))
def test_gpu_stack_has_pinned_versions(subject: str, plan: Plan, facts: Facts) -> Outcome:
    """In a container the kernel module is the host's: only what is installed in the container is judged."""
    node = facts.nodes[subject]
    if why := silent(node):
        return Outcome(False, None, why, identities=node.identities)
    reading, pins = node.data["gpus"], plan.site.versions
    found = gpu_faults.stack(plan, subject, node.data)
    module = (
        "kernel module not judged: the node is a container"
        if reading["container"]
        else f"module {reading['module_flavour']}"
    )
    limit = Limit(", ".join(f"{pin} {pins[pin]}" for pin in load_stack().pins if pin in pins), "", "site versions")
    good = f"{len(found.value['packages'])} packages as pinned and held; {module}"
    return outcome(node, found.problems, found.value, good, limit)


@check("S148.applied", inputs=("site.versions", "site.validation", "gpus", "site.gpu"))
def test_driver_supports_every_cuda_version_in_use(subject: str, plan: Plan, facts: Facts) -> Outcome:
    node = facts.nodes[subject]
    if why := silent(node):
        return Outcome(False, None, why, identities=node.identities)
    reading, stack = node.data["gpus"], load_stack()
    found = gpu_faults.cuda(plan, subject, node.data)
    limit = Limit(f"CUDA {reading['cuda']}", "", f"inventory/gpu_stack.yaml: {stack.sources['cuda_of_driver_branch']}")
    toolkits = ", ".join(reading["cuda_toolkits"])
    good = f"driver {reading['driver']} serves toolkits {toolkits} and PyTorch's CUDA {reading['framework_cuda']}"
    return outcome(node, found.problems, found.value, f"{good}; persistence mode is on", limit)


@check("S151.applied", inputs=("site.versions", "site.fabric", "frame.devices", "gpus"))
def test_nccl_has_pinned_version_and_rail_settings(subject: str, plan: Plan, facts: Facts) -> Outcome:
    node = facts.nodes[subject]
    if why := silent(node):
        return Outcome(False, None, why, identities=node.identities)
    pin, found = plan.site.versions.get("nccl", ""), gpu_faults.nccl(plan, subject, node.data)
    limit = Limit(f"NCCL {pin}", "", "site versions.nccl, catalogue ports by rail")
    settings = len(gpu_faults.wanted_nccl(plan, subject))
    good = f"NCCL {found.value['version']}, /etc/nccl.conf names {settings} settings as planned"
    return outcome(node, found.problems, found.value, good, limit)


@check(
    "S151.measured",
    inputs=(
        "site.scheduler",
        "site.tiers",
        "site.storage",
        "frame.devices",
        "frame.cables",
        "site.gpu",
        "site.limits",
        "site.validation",
        "gpus",
        "site.server",
        "site.versions",
    ),
)
def test_nccl_joins_the_gpus_of_a_node_over_nvlink(
    subject: str, plan: Plan, facts: Facts, collectives: Sweep
) -> Outcome:
    """All-reduce among the GPUs of one node, from the collectives sweep, and the transports of NCCL's own log."""
    workload = workload_of(plan)
    if workload.computes_on == "cpu":
        pytest.skip("NCCL needs GPUs that compute: validation.workloads_on is cpu")
    node, least_pct = facts.nodes[subject], plan.site.limits.get("collectives_busbw_pct")
    if least_pct is None:
        why = "limits.collectives_busbw_pct is not set: what NVLink must reach on a node is not known"
        return Outcome(False, None, why, identities=node.identities)
    if why := silent(node) or collectives.error:
        return Outcome(False, None, why, identities=node.identities)
    if collectives.report is None or collectives.job is None:
        return Outcome(False, None, "the collectives job has no report", identities=gpu_identities(node))
    report = collectives.report
    each = tuple(Rank.of(rank) for rank in report["ranks"] if rank["host"] == subject)
    ran = Ran(each[0].device if each else report["device"], report["backend"], len(each), each)
    told = report.get("nodes", {}).get(subject)
    found, least = of_node(links_of(plan), told, workload.ranks_per_node, float(least_pct.value))
    problems = [*workload.mismatches(1, ran, "nccl"), *found]
    busbw = told["busbw_mb_s"] / 1e3 if told and told["busbw_mb_s"] is not None else None
    source = (
        f"plan nvlink_busbw_gb_s: {least_pct.value:g} % of what NVLink allows (network/expected.py); {least_pct.source}"
    )
    left_open = [f"; {text}" for text in left_unsigned(collectives.kept.unsigned, [subject])]
    return Outcome(
        not problems,
        {"busbw_gb_s": busbw, **(told or {}), "nvlink_joins": least is not None},
        "; ".join(problems)
        or f"all-reduce of {len(each)} GPUs {busbw:.1f} GB/s over {', '.join(told['transports'])}{''.join(left_open)}",
        unit="GB/s",
        limit=Limit(round(least, 3), "GB/s", source) if least is not None else None,
        identities=(*gpu_identities(node), *(one for name, one in collectives.kept.signed.items() if name == subject)),
        raw=collectives.kept.raw.get(subject),
        command=named(plan, collectives.job.job_id),
        configuration={**ran.configuration(), **collectives.configuration},
    )
