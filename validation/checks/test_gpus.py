"""GPUs: identity, firmware, links, and the software stack around them, as NVML and the node tell."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from capacity.model import Plan
from inventory.debian import upstream
from inventory.delivered.firmware import Bundle
from inventory.findings import Finding
from inventory.gpu_stack import load_stack, nccl_settings
from network import roce_host
from validation import access, gpu_health
from validation.bundles import firmware_faults, of_gpus, packages_of
from validation.check import Limit, Outcome, check
from validation.checks.conftest import Sweep
from validation.collectives import links_of, of_node
from validation.evidence import Identity
from validation.facts import Answer, Facts
from validation.facts.node_results import left_unsigned
from validation.runners.slurm import Ran, Rank, workload_of

GONE = ("GPU-LOST", "GPU-HANG", "GPU-IDENTITY")
"""Findings that leave a GPU without an answer that could be judged."""


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
    reading = facts.nodes[node].data["gpus"]
    listed, wanted = gpu_health.listed_on(plan.gpus, node), gpu_health.wanted_of(plan)
    found = gpu_health.of_node(node, reading, listed, wanted, plan.site.versions.get("driver", ""))
    return [finding for finding in found if finding.id in ids]


def outcome(node: Answer, problems: Sequence[str], value: object, good: str, limit: Limit) -> Outcome:
    return Outcome(
        not problems, value, "; ".join(problems) or good, limit=limit, identities=gpu_identities(node), raw=node.raw
    )


def devices(node: Answer) -> list[dict[str, Any]]:
    """What the GPUs that answered said."""
    return [gpu for gpu in node.data["gpus"]["devices"] if not gpu["error"]]


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
    pins = gpu_health.wanted_of(plan).firmware
    limit = Limit(
        ", ".join(f"{pin} {version}" for pin, version in pins.items()), "", "site versions.vbios, versions.inforom"
    )
    problems = [finding.message for finding in findings_of(plan, facts, subject, ["GPU-FIRMWARE", *GONE])]
    problems += [f"versions.{pin} is not pinned" for pin in gpu_health.FIRMWARE_PINS if pin not in pins]
    value: dict[str, Any] = {pin: sorted({str(gpu[pin]) for gpu in devices(node)}) for pin in gpu_health.FIRMWARE_PINS}
    good, judged = f"{len(devices(node))} GPUs, one firmware: {limit.value}", packages_of(plan, subject, bundles)
    if judged:
        bmc = facts.bmcs[subject]
        problems += [f"its BMC lists no firmware: {bmc.error}"] if bmc.error else []
        problems += [] if bmc.error else firmware_faults(plan, subject, bmc.data["firmware"], bundles, of_gpus)
        value["bundle"] = judged
        good += f"; as in the bundle: {', '.join(judged)}"
    return outcome(node, problems, value, good, limit)


@check("S026.measured", inputs=("site.gpu", "frame.devices", "gpus", "site.versions"))
def test_listed_gpus_are_installed(subject: str, plan: Plan, facts: Facts) -> Outcome:
    node = facts.nodes[subject]
    if why := silent(node):
        return Outcome(False, None, why, identities=node.identities)
    listed = gpu_health.listed_on(plan.gpus, subject)
    problems = [finding.message for finding in findings_of(plan, facts, subject, GONE)]
    problems += [] if listed else ["gpus.csv lists no GPU of this node"]
    left_open = []
    for gpu in devices(node):
        counted = {kind: gpu["pcie"][kind] for kind in ("correctable", "non_fatal", "fatal")}
        wrong = {kind: count for kind, count in counted.items() if count}
        problems += [f"{gpu_health.named(gpu)}: PCIe errors {wrong}"] if wrong else []
        lacks = ", ".join(kind for kind, count in counted.items() if count is None)
        left_open += [f"not judged: {gpu_health.named(gpu)} has no counter of PCIe errors {lacks}"] if lacks else []
    value = [{key: gpu[key] for key in ("module_id", "serial", "uuid", "pci_bus_id", "pcie")} for gpu in devices(node)]
    limit = Limit(len(listed), "GPUs", "gpus.csv")
    good = f"{len(listed)} GPUs, each in its slot, without PCIe errors"
    if left_open:
        good = "; ".join([f"{len(listed)} GPUs, each in its slot, no PCIe error counted", *left_open])
    return outcome(node, problems, value, good, limit)


@check("S029.measured", inputs=("site.gpu", "frame.devices", "gpus", "site.versions"))
def test_pcie_links_of_gpus_and_nics_have_full_width(subject: str, plan: Plan, facts: Facts) -> Outcome:
    """A link that runs below its best is a problem, also when idleness may explain it: the step asks for a reading under
    load, so it is repeated beside the burn-in. A container has no PCIe bus of its own; its NICs are not judged."""
    node = facts.nodes[subject]
    if why := silent(node):
        return Outcome(False, None, why, identities=node.identities)
    model, reading = gpu_health.wanted_of(plan).model, node.data["gpus"]
    problems = [finding.message for finding in findings_of(plan, facts, subject, ["GPU-PCIE", "GPU-NVLINK", *GONE])]
    left_open = []
    for gpu in devices(node):
        lacks = [name for name in ("width", "generation", "max_generation") if gpu["pcie"][name] is None]
        if lacks:
            left_open.append(f"; not judged: {gpu_health.named(gpu)} does not tell its PCIe {', '.join(lacks)}")
        elif gpu["pcie"]["generation"] != gpu["pcie"]["max_generation"]:
            problems.append(
                f"{gpu_health.named(gpu)}: generation {gpu['pcie']['generation']} now; read it again under load"
            )
    if not reading["container"]:
        problems += [] if reading["nics"] else ["no RDMA device on the PCIe bus"]
        problems += [
            f"NIC {name}: x{nic['width']} at {nic['speed']}, can x{nic['max_width']} at {nic['max_speed']}"
            for name, nic in reading["nics"].items()
            if (nic["width"], nic["speed"]) != (nic["max_width"], nic["max_speed"])
        ]
    value = {
        "gpus": [
            {
                "serial": gpu["serial"],
                "width": gpu["pcie"]["width"],
                "generation": gpu["pcie"]["generation"],
                "nvlinks_up": gpu["nvlinks"]["up"],
            }
            for gpu in devices(node)
        ],
        "nics": reading["nics"],
    }
    limit = Limit(
        f"x{model.pcie_width} generation {model.pcie_gen}, {model.nvlinks} NVLinks", "", f"catalogue {model.slug}"
    )
    nics = (
        "NICs not judged: a container has no PCIe bus"
        if reading["container"]
        else f"{len(reading['nics'])} NICs at their best"
    )
    good = f"{len(devices(node))} GPUs with {limit.value}; {nics}{''.join(left_open)}"
    return outcome(node, problems, value, good, limit)


@check("S033.applied", inputs=("site.versions", "site.os", "gpus", "site.gpu"))
def test_gpu_stack_has_pinned_versions(subject: str, plan: Plan, facts: Facts) -> Outcome:
    """In a container the kernel module is the host's: only what is installed in the container is judged."""
    node = facts.nodes[subject]
    if why := silent(node):
        return Outcome(False, None, why, identities=node.identities)
    reading, pins = node.data["gpus"], plan.site.versions
    packages = load_stack().packages(plan.site.os.key, pins)
    have = node.data["packages"]
    problems = [finding.message for finding in findings_of(plan, facts, subject, ["GPU-DRIVER", *GONE])]
    problems += [
        f"{name} {have.get(name, 'is not installed')}, pinned {pin}"
        for name, pin in packages.items()
        if name not in have or (pin and upstream(have[name]) != pin)
    ]
    problems += [f"{name} is not held" for name in packages if name in have and name not in reading["held"]]
    if not packages:
        problems.append("the site pins no driver")
    if pins.get("fabricmanager") != reading["fabric_manager"]:
        problems.append(
            f"Fabric Manager {reading['fabric_manager'] or 'says no version'}, pinned {pins.get('fabricmanager')}"
        )
    if not any(toolkit.startswith(pins.get("cuda", "none")) for toolkit in reading["cuda_toolkits"].values()):
        problems.append(f"CUDA toolkits {reading['cuda_toolkits'] or 'are not there'}, pinned {pins.get('cuda')}")
    if not reading["container"] and reading["module"] != reading["driver"]:
        problems.append(f"the loaded kernel module is {reading['module'] or 'unknown'}, the driver {reading['driver']}")
    value = {
        "driver": reading["driver"],
        "module": reading["module"],
        "module_flavour": reading["module_flavour"],
        "fabric_manager": reading["fabric_manager"],
        "cuda_toolkits": reading["cuda_toolkits"],
        "packages": {name: have.get(name, "") for name in packages},
    }
    module = (
        "kernel module not judged: the node is a container"
        if reading["container"]
        else f"module {reading['module_flavour']}"
    )
    limit = Limit(", ".join(f"{pin} {pins[pin]}" for pin in load_stack().pins if pin in pins), "", "site versions")
    return outcome(node, problems, value, f"{len(packages)} packages as pinned and held; {module}", limit)


@check("S148.applied", inputs=("site.versions", "site.validation", "gpus", "site.gpu"))
def test_driver_supports_every_cuda_version_in_use(subject: str, plan: Plan, facts: Facts) -> Outcome:
    node = facts.nodes[subject]
    if why := silent(node):
        return Outcome(False, None, why, identities=node.identities)
    reading, stack = node.data["gpus"], load_stack()
    problems = [finding.message for finding in findings_of(plan, facts, subject, ["GPU-DRIVER"])]
    problems += [str(one) for one in stack.contradictions({**plan.site.versions, "driver": reading["driver"]})]
    for toolkit in reading["cuda_toolkits"].values():
        problems += [str(one) for one in stack.contradictions({"driver": reading["driver"], "cuda": toolkit})]
    framework = reading["framework_cuda"]
    if framework and not stack.runs_framework(reading["driver"], framework):
        problems.append(f"PyTorch is built for CUDA {framework}, which driver {reading['driver']} does not run")
    if reading["fabric_manager"] != reading["driver"]:
        problems.append(
            f"Fabric Manager {reading['fabric_manager'] or 'says no version'}, the driver is {reading['driver']}"
        )
    problems += [f"{gpu_health.named(gpu)}: persistence mode is off" for gpu in devices(node) if not gpu["persistence"]]
    problems += access.told(access.power_limits(plan.site, devices(node)))
    value = {
        "driver": reading["driver"],
        "cuda_of_the_driver": reading["cuda"],
        "toolkits": reading["cuda_toolkits"],
        "framework": framework,
        "fabric_manager": reading["fabric_manager"],
    }
    limit = Limit(f"CUDA {reading['cuda']}", "", f"inventory/gpu_stack.yaml: {stack.sources['cuda_of_driver_branch']}")
    good = f"driver {reading['driver']} serves toolkits {', '.join(reading['cuda_toolkits'])} and PyTorch's CUDA {framework}"
    return outcome(node, problems, value, f"{good}; persistence mode is on", limit)


@check("S151.applied", inputs=("site.versions", "site.fabric", "frame.devices", "gpus"))
def test_nccl_has_pinned_version_and_rail_settings(subject: str, plan: Plan, facts: Facts) -> Outcome:
    node = facts.nodes[subject]
    if why := silent(node):
        return Outcome(False, None, why, identities=node.identities)
    reading, pin = node.data["gpus"], plan.site.versions.get("nccl", "")
    version = upstream(node.data["packages"].get("libnccl2", ""))
    model = str(plan.devices.loc[plan.devices["name"] == subject, "model"].iloc[0])
    settings = nccl_settings(
        plan.catalog.device(model), bool(plan.site.fabric.subnet_managers), roce_host.class_of(plan.site)
    )
    wrong = [
        f"{key} is {reading['nccl_conf'].get(key, 'not set')}, planned {value}"
        for key, value in settings.items()
        if reading["nccl_conf"].get(key) != value
    ]
    problems = [
        *([f"NCCL {version or 'is not installed'}, pinned {pin or 'to nothing'}"] if not pin or version != pin else []),
        *wrong,
    ]
    value = {"version": version, "nccl_conf": reading["nccl_conf"]}
    limit = Limit(f"NCCL {pin}", "", "site versions.nccl, catalogue ports by rail")
    return outcome(
        node, problems, value, f"NCCL {version}, /etc/nccl.conf names {len(settings)} settings as planned", limit
    )


@check(
    "S151.measured",
    inputs=(
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
        command=f"sbatch, job {collectives.job.job_id}",
        configuration={**ran.configuration(), **collectives.configuration},
    )
