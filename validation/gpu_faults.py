"""What steps say of a node's GPUs, from the node's own answer and the plan: for the checks and, from raw outputs, for the gate.

    found = links(plan, "gpu001", data)      # Found(value, problems, left_open)

In: the data of a node's answer (facts.answer.Answer), with what its GPUs say. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from capacity.model import Plan
from inventory.debian import upstream
from inventory.findings import Finding
from inventory.gpu_stack import load_stack, nccl_settings
from network import roce_host
from validation import access, gpu_health

GONE = ("GPU-LOST", "GPU-HANG", "GPU-IDENTITY")
"""Findings that leave a GPU without an answer that could be judged."""
Data = Mapping[str, Any]


@dataclass(frozen=True)
class Found:
    """What a node's answer gives for a step: the value of its record, what is wrong, and what could not be judged."""

    value: Any
    problems: Sequence[str]
    left_open: Sequence[str] = field(default=())


def findings_of(plan: Plan, node: str, data: Data, ids: Sequence[str]) -> list[Finding]:
    """The node's findings with these ids."""
    listed, wanted = gpu_health.listed_on(plan.gpus, node), gpu_health.wanted_of(plan)
    found = gpu_health.of_node(node, data["gpus"], listed, wanted, plan.site.versions.get("driver", ""))
    return [finding for finding in found if finding.id in ids]


def messages(plan: Plan, node: str, data: Data, *ids: str) -> list[str]:
    """The words of those findings."""
    return [finding.message for finding in findings_of(plan, node, data, ids)]


def devices(data: Data) -> list[dict[str, Any]]:
    """What the GPUs that answered said."""
    return [gpu for gpu in data["gpus"]["devices"] if not gpu["error"]]


def firmware(plan: Plan, node: str, data: Data) -> Found:
    """VBIOS and InfoROM of each GPU against the pins (S007)."""
    pins = gpu_health.wanted_of(plan).firmware
    problems = messages(plan, node, data, "GPU-FIRMWARE", *GONE)
    problems += [f"versions.{pin} is not pinned" for pin in gpu_health.FIRMWARE_PINS if pin not in pins]
    return Found({pin: sorted({str(gpu[pin]) for gpu in devices(data)}) for pin in gpu_health.FIRMWARE_PINS}, problems)


def installed(plan: Plan, node: str, data: Data) -> Found:
    """The GPUs of gpus.csv, each in its slot, without PCIe errors (S026)."""
    problems = messages(plan, node, data, *GONE)
    problems += [] if gpu_health.listed_on(plan.gpus, node) else ["gpus.csv lists no GPU of this node"]
    left_open = []
    for gpu in devices(data):
        counted = {kind: gpu["pcie"][kind] for kind in ("correctable", "non_fatal", "fatal")}
        wrong = {kind: count for kind, count in counted.items() if count}
        problems += [f"{gpu_health.named(gpu)}: PCIe errors {wrong}"] if wrong else []
        lacks = ", ".join(kind for kind, count in counted.items() if count is None)
        left_open += [f"not judged: {gpu_health.named(gpu)} has no counter of PCIe errors {lacks}"] if lacks else []
    value = [{key: gpu[key] for key in ("module_id", "serial", "uuid", "pci_bus_id", "pcie")} for gpu in devices(data)]
    return Found(value, problems, left_open)


def links(plan: Plan, node: str, data: Data) -> Found:
    """PCIe links of GPUs and NICs at their best, NVLinks up (S029)."""
    reading = data["gpus"]
    problems, left_open = messages(plan, node, data, "GPU-PCIE", "GPU-NVLINK", *GONE), []
    for gpu in devices(data):
        lacks = [name for name in ("width", "generation", "max_generation") if gpu["pcie"][name] is None]
        if lacks:
            left_open.append(f"not judged: {gpu_health.named(gpu)} does not tell its PCIe {', '.join(lacks)}")
        elif gpu["pcie"]["generation"] != gpu["pcie"]["max_generation"]:
            problems.append(
                f"{gpu_health.named(gpu)}: generation {gpu['pcie']['generation']} now; read it again under load"
            )
    if not reading["container"]:
        planned = int(((plan.cables["fabric"] == "compute") & (plan.cables["a_device"] == node)).sum())
        found = len(reading["nics"])
        if not found:
            problems.append("no RDMA device on the PCIe bus")
        elif found < planned:
            problems.append(f"{found} RDMA devices on the PCIe bus, {planned} cables to the compute fabric")
        problems += [
            f"NIC {name}: x{nic['width']} at {nic['speed']}, can x{nic['max_width']} at {nic['max_speed']}"
            for name, nic in reading["nics"].items()
            if (nic["width"], nic["speed"]) != (nic["max_width"], nic["max_speed"])
        ]
    gpus = [
        {
            "serial": gpu["serial"],
            "width": gpu["pcie"]["width"],
            "generation": gpu["pcie"]["generation"],
            "nvlinks_up": gpu["nvlinks"]["up"],
        }
        for gpu in devices(data)
    ]
    return Found({"gpus": gpus, "nics": reading["nics"]}, problems, left_open)


def stack(plan: Plan, node: str, data: Data) -> Found:
    """Driver, Fabric Manager, CUDA and container toolkit as pinned and held (S033)."""
    reading, pins, have = data["gpus"], plan.site.versions, data["packages"]
    packages = load_stack().packages(plan.site.os.key, pins)
    problems = messages(plan, node, data, "GPU-DRIVER", *GONE)
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
    return Found(value, problems)


def cuda(plan: Plan, node: str, data: Data) -> Found:
    """The driver serves every CUDA version in use, persistence mode is on, power limits are the default ones (S148)."""
    reading, known = data["gpus"], load_stack()
    problems = messages(plan, node, data, "GPU-DRIVER", *GONE)
    problems += [str(one) for one in known.contradictions({**plan.site.versions, "driver": reading["driver"]})]
    for toolkit in reading["cuda_toolkits"].values():
        problems += [str(one) for one in known.contradictions({"driver": reading["driver"], "cuda": toolkit})]
    problems += [] if reading["cuda_toolkits"] else ["no CUDA toolkit is installed"]
    framework = reading["framework_cuda"]
    if framework and not known.runs_framework(reading["driver"], framework):
        problems.append(f"PyTorch is built for CUDA {framework}, which driver {reading['driver']} does not run")
    if reading["fabric_manager"] != reading["driver"]:
        problems.append(
            f"Fabric Manager {reading['fabric_manager'] or 'says no version'}, the driver is {reading['driver']}"
        )
    problems += [f"{gpu_health.named(gpu)}: persistence mode is off" for gpu in devices(data) if not gpu["persistence"]]
    problems += access.told(access.power_limits(plan.site, devices(data)))
    value = {
        "driver": reading["driver"],
        "cuda_of_the_driver": reading["cuda"],
        "toolkits": reading["cuda_toolkits"],
        "framework": framework,
        "fabric_manager": reading["fabric_manager"],
    }
    return Found(value, problems)


def wanted_nccl(plan: Plan, node: str) -> dict[str, str]:
    """The settings of /etc/nccl.conf that the plan asks for on a node."""
    model = str(plan.devices.loc[plan.devices["name"] == node, "model"].iloc[0])
    managed = bool(plan.site.fabric.subnet_managers)
    return nccl_settings(plan.catalog.device(model), managed, roce_host.class_of(plan.site))


def nccl(plan: Plan, node: str, data: Data) -> Found:
    """NCCL as pinned, its settings as planned (S151)."""
    conf, pin = data["gpus"]["nccl_conf"], plan.site.versions.get("nccl", "")
    version = upstream(data["packages"].get("libnccl2", ""))
    problems = [
        *([f"NCCL {version or 'is not installed'}, pinned {pin or 'to nothing'}"] if not pin or version != pin else []),
        *(
            f"{key} is {conf.get(key, 'not set')}, planned {value}"
            for key, value in wanted_nccl(plan, node).items()
            if conf.get(key) != value
        ),
    ]
    return Found({"version": version, "nccl_conf": conf}, problems)


def power(plan: Plan, node: str, data: Data) -> Found:
    """GPU cards at their default power limit, without a power brake (S027)."""
    problems = list(access.power_limits(plan.site, devices(data)))
    problems += messages(plan, node, data, "GPU-POWER-BRAKE", *GONE)
    value = [
        {"serial": gpu["serial"], "power": gpu["power"], "reasons": gpu["clocks"]["reasons"]} for gpu in devices(data)
    ]
    return Found(value, problems)
