"""What is wrong with the GPUs of a site: plan, list of GPUs and facts in, Findings out. Pure.

Each GPU has at most the findings of its causes, with node, slot and serial; a cause hides its consequences (a GPU that is
lost has no firmware to complain about, a row that waits for its remapping explains the memory error behind it).

    GPU-UNREADABLE     a node whose GPUs cannot be asked: no library, driver not loaded, hang, garbage
    GPU-DRIVER         a node whose driver is not the pinned one
    GPU-LOST           a listed GPU that the driver no longer reaches, or that is not there
    GPU-HANG           a GPU that does not answer in its time budget, or answers nonsense
    GPU-IDENTITY       a GPU that the list does not have, or has at another address or slot
    GPU-FIRMWARE       VBIOS or InfoROM other than the pinned one
    GPU-ROW-REMAP      a memory row that waits for its remapping, or could not be remapped
    GPU-ECC            uncorrectable memory errors since the driver was loaded
    GPU-XID            a hardware XID in the kernel's log since boot or reset, or a recovery that the driver asks for
    GPU-THERMAL        over its slowdown temperature, or slowed down by heat
    GPU-POWER-BRAKE    slowed down by the power brake of the system
    GPU-PCIE           a PCIe link narrower or slower than the model's, or with fatal errors
    GPU-NVLINK         NVLink links that are down
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from capacity.model import Plan
from inventory.catalog import Gpu
from inventory.findings import Finding, RemedyOf, finding, remedy
from validation.facts.answer import Facts

XIDS_FILE = Path(__file__).with_name("xids.yaml")
THERMAL = ("hw_thermal_slowdown", "sw_thermal_slowdown", "hw_slowdown")
"""Clock event reasons that heat causes; hw_slowdown alone covers heat and power brake, on GPUs that do not tell them apart."""
POWER_BRAKE = "hw_power_brake"
RECOVERY_CHANGED = 154
NO_RECOVERY = re.compile(r"to 0x0 \(none\)", re.IGNORECASE)
"""End of XID 154 after a reset: "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)". Form as in
NVIDIA/open-gpu-kernel-modules issue 1045; the change back to None is not confirmed on hardware."""
PCI_ADDRESS = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-9a-f])?")
RECOVERY = {1: "GPU reset", 2: "node reboot", 3: "drain of its peers", 4: "drain and GPU reset"}
"""nvmlDeviceGpuRecoveryAction, nvml.h."""
FIRMWARE_PINS = ("vbios", "inforom")
LOST_KINDS = ("GpuIsLost", "NotFound", "GpuNotFound", "NoPermission", "Unknown", "ResetRequired")
UNREADABLE_FIX = {
    "LibraryNotFound": "libraries",
    "DriverNotLoaded": "module",
    "LibRmVersionMismatch": "reboot",
    "Hang": "xid-and-reboot",
}
"""Fix of GPU-UNREADABLE by the error kind of the reading; `nvidia-smi` for others."""
Reading = Mapping[str, Any]


@dataclass(frozen=True)
class Listed:
    """A GPU of the list (gpus.csv)."""

    slot: str
    serial: str
    uuid: str
    pci_bus_id: str


@dataclass(frozen=True)
class Fault:
    """What a judgement finds wrong with a GPU: the case of the finding's sentence, what it names, and the ways out."""

    case: str = ""
    words: Mapping[str, Any] = field(default_factory=dict)
    remedies: tuple[RemedyOf, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """What the GPUs of a site must be: the catalogue's model and the site's firmware pins."""

    model: Gpu
    firmware: Mapping[str, str]


def wanted_of(plan: Plan) -> Wanted:
    """The model and the pins of a plan's site."""
    pins = {pin: plan.site.versions[pin] for pin in FIRMWARE_PINS if pin in plan.site.versions}
    return Wanted(plan.catalog.gpu(plan.site.gpu.sku), pins)


def listed_on(gpus: pd.DataFrame, node: str) -> list[Listed]:
    """The GPUs that the list has for a node, in the order of their PCI addresses."""
    mine = (gpus["device"] == node).to_numpy()
    columns = (gpus[name].to_numpy()[mine].tolist() for name in ("slot", "serial", "uuid", "pci_bus_id"))
    return sorted((Listed(*row) for row in zip(*columns, strict=True)), key=lambda one: one.pci_bus_id)


def find(plan: Plan, facts: Facts) -> list[Finding]:
    """Findings of all nodes whose GPUs were asked."""
    wanted, driver = wanted_of(plan), plan.site.versions.get("driver", "")
    return [
        finding
        for name, node in facts.nodes.items()
        if not node.error and "gpus" in node.data
        for finding in of_node(name, node.data["gpus"], listed_on(plan.gpus, name), wanted, driver)
    ]


def of_node(node: str, reading: Reading, listed: Sequence[Listed], wanted: Wanted, driver: str) -> list[Finding]:
    """Findings of one node. reading: validation.facts.gpu_facts; driver: the pin, '' for none."""
    if reading["error"]:
        words = {"kind": reading["error_kind"], "problem": reading["error"]}
        fix = UNREADABLE_FIX.get(reading["error_kind"], "nvidia-smi")
        return [finding("GPU-UNREADABLE", node, words=words, remedies=[remedy(fix=fix)])]
    found = []
    if driver and reading["driver"] != driver:
        words = {"driver": reading["driver"], "pinned": driver}
        found.append(finding("GPU-DRIVER", node, words=words, remedies=[remedy(fix="playbooks")]))
    answering = [gpu for gpu in reading["devices"] if not gpu["error"]]
    found += _absent(node, reading, answering, listed)
    mine = matched(answering, listed)
    xids = hardware_xids(reading["xids"] or [])
    for gpu in answering:
        found += _identity(node, gpu, mine[gpu["index"]], listed) if listed else []
        found += of_gpu(node, gpu, wanted, xids.get(address(gpu["pci_bus_id"]), []))
    return found


def of_gpu(node: str, gpu: Reading, wanted: Wanted, xids: Sequence[int] = ()) -> list[Finding]:
    """Findings about one GPU that answers. xids: its hardware XIDs in the kernel's log."""

    def finding_of(id_: str, fault: Fault) -> Finding:
        return finding(
            id_,
            node,
            case=fault.case,
            ports=(port(node, gpu),),
            words={"gpu": named(gpu), **fault.words},
            remedies=fault.remedies,
        )

    found = [finding_of(id_, fault) for id_, judge in _JUDGES if (fault := judge(gpu, wanted))]
    memory = any(one.id in ("GPU-ROW-REMAP", "GPU-ECC") for one in found)
    recovery = RECOVERY.get(gpu["recovery_action"] or 0)
    if (xids or recovery) and not memory:
        words = {"xids": ", ".join(f"XID {xid} ({meaning(xid)})" for xid in xids), "recovery": recovery}
        case = "xid-and-recovery" if xids and recovery else "xid" if xids else "recovery"
        fault = Fault(case, words, (remedy(fix="recover" if recovery else "drain"),))
        found.append(finding_of("GPU-XID", fault))
    return found


def named(gpu: Reading) -> str:
    """How messages call a GPU: slot, serial and address."""
    slot = f"slot {gpu['module_id']}, " if gpu.get("module_id") is not None else ""
    return f"GPU {gpu['index']} ({slot}serial {gpu['serial']}, PCI {gpu['pci_bus_id']})"


def placed(node: str, slot: object, serial: str) -> str:
    """How verdicts of jobs call a GPU: node, slot and serial."""
    return f"{node}{'' if slot is None else f' slot {slot},'} serial {serial}"


def port(node: str, gpu: Reading) -> str:
    """The place of a GPU in a finding's ports: 'gpu003:slot4'; by index where the GPU knows no slot."""
    return f"{node}:slot{gpu['module_id']}" if gpu.get("module_id") is not None else f"{node}:gpu{gpu['index']}"


# ---- presence and identity --------------------------------------------------------------------------------------------
def _absent(node: str, reading: Reading, answering: Sequence[Reading], listed: Sequence[Listed]) -> Iterator[Finding]:
    """Listed GPUs that nobody answers for, and devices that the driver counts and that do not answer.

    The driver counts in the order of PCI addresses, so an unanswered index is the listed GPU at that place, as long as
    the driver counts as many as are listed.
    """
    silent = {gpu["index"]: gpu for gpu in reading["devices"] if gpu["error"]}
    mine, taken = matched(answering, listed).values(), {gpu["pci_bus_id"] for gpu in answering}
    missing = [one for one in listed if one not in mine and one.pci_bus_id not in taken]  # taken: GPU-IDENTITY
    places = {index: listed[index] for index in silent if len(listed) == reading["count"] and listed[index] in missing}
    for index, gpu in silent.items():
        one = places.get(index)
        lost = gpu["error_kind"] in LOST_KINDS
        yield finding(
            "GPU-LOST" if lost else "GPU-HANG",
            node,
            case="no-answer" if one else "no-answer-not-listed",
            ports=(f"{node}:slot{one.slot}" if one else f"{node}:gpu{index}",),
            words={
                "gpu": f"GPU {index} (slot {one.slot}, serial {one.serial}, PCI {one.pci_bus_id})"
                if one
                else f"GPU {index}",
                "kind": gpu["error_kind"],
                "problem": gpu["error"],
            },
            remedies=[remedy(fix="reboot")],
        )
    unnamed = len(silent) - len(places)
    for one in [one for one in missing if one not in places.values()][unnamed:]:
        yield finding(
            "GPU-LOST",
            node,
            case="absent",
            ports=(f"{node}:slot{one.slot}",),
            words={
                "slot": one.slot,
                "serial": one.serial,
                "pci": one.pci_bus_id,
                "count": reading["count"],
                "listed": len(listed),
            },
            remedies=[remedy(fix="reseat")],
        )


def matched(answering: Sequence[Reading], listed: Sequence[Listed]) -> dict[int, Listed | None]:
    """The entry of the list that each answering GPU is, by its index; None for one that the list does not have.

    By UUID, then by serial and address, then by serial. The serial alone does not do: the two GPUs of a Grace superchip
    report the serial of their board (nvidia-smi -q of GB200 and GB300 trays, NVIDIA/k8s-test-infra pull request 727).
    """
    ways: tuple[Callable[[Reading, Listed], bool], ...] = (
        lambda gpu, one: gpu["uuid"] == one.uuid and gpu["serial"] == one.serial,
        lambda gpu, one: gpu["serial"] == one.serial and address(gpu["pci_bus_id"]) == address(one.pci_bus_id),
        lambda gpu, one: gpu["serial"] == one.serial,
    )
    found: dict[int, Listed | None] = {gpu["index"]: None for gpu in answering}
    left = list(listed)
    for way in ways:
        for gpu in answering:
            if found[gpu["index"]] is None and (one := next((one for one in left if way(gpu, one)), None)):
                found[gpu["index"]] = one
                left.remove(one)
    return found


def _identity(node: str, gpu: Reading, one: Listed | None, listed: Sequence[Listed]) -> Iterator[Finding]:
    if one is None:
        there = next((other.serial for other in listed if other.pci_bus_id == gpu["pci_bus_id"]), "")
        case, words = ("another-listed" if there else "not-listed"), {"listed": there}
    else:
        differs = [
            (f"{key} {is_}", f"{key} {was}")
            for key, is_, was in (
                ("UUID", gpu["uuid"], one.uuid),
                ("PCI", gpu["pci_bus_id"], one.pci_bus_id),
                ("slot", str(gpu["module_id"]) if gpu["module_id"] is not None else one.slot, one.slot),
            )
            if is_ != was
        ]
        if not differs:
            return
        case, words = "differs", _joined(differs, "seen", "listed")
    yield finding(
        "GPU-IDENTITY",
        node,
        case=case,
        ports=(port(node, gpu),),
        words={"gpu": named(gpu), **words},
        remedies=[remedy(fix="put-back"), remedy(fix="correct-list")],
    )


HEALTH = ("GPU-XID", "GPU-ECC", "GPU-ROW-REMAP", "GPU-THERMAL", "GPU-POWER-BRAKE")
"""Findings about a GPU's health: those that no link, version or place explains."""


def untold(node: str, reading: Reading) -> list[str]:
    """What of its health a node does not tell, by name: judged neither as good nor as bad."""
    open_ = [] if reading["xids"] is not None else [f"{node} does not show its kernel's log: XIDs before this run"]
    for gpu in reading["devices"]:
        if gpu["error"]:
            continue
        lacks = [
            name
            for name, value in (
                ("uncorrected memory errors", gpu["ecc"]["uncorrected"]),
                ("row remapping", gpu["remapped_rows"]),
                ("clock event reasons", gpu["clocks"]["reasons"]),
                ("temperature", gpu["temperature"]["gpu_c"]),
                ("slowdown temperature", slowdown_of(gpu["temperature"])),
                ("recovery action", gpu["recovery_action"]),
            )
            if value is None
        ]
        open_ += [f"{placed(node, gpu['module_id'], gpu['serial'] or 'unknown')}: {', '.join(lacks)}"] if lacks else []
    return open_


def slowdown_of(temperature: Reading) -> float | None:
    """What a GPU tells of where it slows down: a margin to its limit (T.LIMIT), or a temperature; None where neither is read."""
    margin = temperature.get("slowdown_margin_c") if temperature.get("margin_c") is not None else None
    return temperature["slowdown_c"] if margin is None else margin


def _joined(pairs: Sequence[tuple[str, str]], first: str, second: str) -> dict[str, str]:
    """What is seen and what is wanted, each as a list in a line."""
    return {first: ", ".join(one for one, _ in pairs), second: ", ".join(other for _, other in pairs)}


# ---- judgements of one GPU: what is wrong, or None --------------------------------------------------------------------
def firmware(gpu: Reading, wanted: Wanted) -> Fault | None:
    """VBIOS and InfoROM against their pins."""
    differs = [
        (f"{pin} {gpu[pin]}", f"{pin} {version}") for pin, version in wanted.firmware.items() if gpu[pin] != version
    ]
    return Fault(words=_joined(differs, "seen", "pinned"), remedies=(remedy(fix="flash"),)) if differs else None


def row_remap(gpu: Reading, wanted: Wanted) -> Fault | None:
    """Rows that wait for their remapping or could not be remapped."""
    rows = gpu["remapped_rows"] or {}
    if rows.get("failed"):
        return Fault("failed", remedies=(remedy(fix="replace"),))
    return Fault("pending", remedies=(remedy(fix="reset"),)) if rows.get("pending") else None


def ecc(gpu: Reading, wanted: Wanted) -> Fault | None:
    """Uncorrectable memory errors, unless a row remapping explains them, and ECC that is off."""
    if gpu["ecc"]["enabled"] is False:
        return Fault("off", remedies=(remedy(fix="reset"),))
    count = gpu["ecc"]["uncorrected"] or 0
    if not count or row_remap(gpu, wanted):
        return None
    return Fault("errors", {"count": count}, (remedy(fix="reset"),))


def thermal(gpu: Reading, wanted: Wanted) -> Fault | None:
    """Heat: slowed down, or at the temperature at which the GPU slows itself down.

    From Hopper on a GPU tells how far it is from its limit (T.LIMIT), and at which margin, often below 0, it slows down; older ones
    tell that temperature.
    """
    reasons = gpu["clocks"]["reasons"] or []
    temperature_c, limit_c = gpu["temperature"]["gpu_c"], gpu["temperature"]["slowdown_c"]
    slowed = [reason for reason in THERMAL if reason in reasons]
    if slowed == ["hw_slowdown"] and POWER_BRAKE in reasons:
        slowed = []
    hot = None not in (temperature_c, limit_c) and temperature_c >= limit_c
    margin_c, least_c = (gpu["temperature"].get(key) for key in ("margin_c", "slowdown_margin_c"))
    if None not in (margin_c, least_c) and margin_c <= least_c and not slowed:
        words = {"margin_c": margin_c, "slowdown_margin_c": least_c}
        return Fault("no-margin", words, (remedy(fix="airflow"),))
    if not (slowed or hot):
        return None
    read = None not in (temperature_c, limit_c)
    words = {"temperature_c": temperature_c, "slowdown_c": limit_c, "reasons": ", ".join(slowed)}
    case = "hot" if not slowed else "slowed" if read else "slowed-not-read"
    return Fault(case, words, (remedy(fix="airflow"),))


def power_brake(gpu: Reading, wanted: Wanted) -> Fault | None:
    """The system's power brake. A software power cap is normal under load and no problem."""
    return Fault(remedies=(remedy(fix="supplies"),)) if POWER_BRAKE in (gpu["clocks"]["reasons"] or []) else None


def pcie(gpu: Reading, wanted: Wanted) -> Fault | None:
    """Width and generation against the catalogue, and fatal errors. An idle link may run at a lower generation; what the GPU does
    not tell is not judged here."""
    link, model = gpu["pcie"], wanted.model
    differs = []
    if model.pcie_width and link["width"] not in (None, model.pcie_width):
        differs.append((f"x{link['width']}", f"x{model.pcie_width}"))
    idle = "gpu_idle" in (gpu["clocks"]["reasons"] or [])
    generation = link["max_generation"] if idle else link["generation"]
    if model.pcie_gen and generation not in (None, model.pcie_gen):
        differs.append((f"generation {generation}", f"generation {model.pcie_gen}"))
    errors = [f"{link[kind]} {kind.replace('_', '-')}" for kind in ("non_fatal", "fatal") if link.get(kind)]
    if not (differs or errors):
        return None
    case = "link-and-errors" if differs and errors else "link" if differs else "errors"
    words = {**_joined(differs, "seen", "wanted"), "errors": ", ".join(errors)}
    return Fault(case, words, (remedy(fix="reseat"),))


def nvlink(gpu: Reading, wanted: Wanted) -> Fault | None:
    """NVLink links that are down or absent."""
    up, down = gpu["nvlinks"]["up"], gpu["nvlinks"]["down"]
    if down:
        return Fault("down", {"links": ", ".join(map(str, down))}, (remedy(fix="fabric-manager"),))
    if up >= wanted.model.nvlinks:
        return None
    return Fault("fewer", {"up": up, "wanted": wanted.model.nvlinks}, (remedy(fix="fabric-manager"),))


_JUDGES: tuple[tuple[str, Callable[[Reading, Wanted], Fault | None]], ...] = (
    ("GPU-FIRMWARE", firmware),
    ("GPU-ROW-REMAP", row_remap),
    ("GPU-ECC", ecc),
    ("GPU-THERMAL", thermal),
    ("GPU-POWER-BRAKE", power_brake),
    ("GPU-PCIE", pcie),
    ("GPU-NVLINK", nvlink),
)


# ---- XIDs -------------------------------------------------------------------------------------------------------------
@functools.cache
def xid_classes() -> Mapping[str, Mapping[int, str]]:
    data = yaml.safe_load(XIDS_FILE.read_text(encoding="utf-8"))
    return {kind: data[kind] for kind in ("application", "informational", "hardware")}


def is_hardware(xid: int) -> bool:
    """Whether an XID counts against the GPU; one that is not classed does."""
    return xid not in xid_classes()["application"] and xid not in xid_classes()["informational"]


def meaning(xid: int) -> str:
    """A few words on an XID."""
    return next((known[xid] for known in xid_classes().values() if xid in known), "not classed here")


def hardware_xids(seen: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """The hardware XIDs of a kernel's log by PCI address, each number once, in the order of the log.

    A reset of the GPU clears those before it: the driver then takes back the recovery that it asked for (XID 154).
    """
    found: dict[str, list[int]] = {}
    for one in seen:
        numbers = found.setdefault(address(one["pci_bus_id"]), [])
        if one["xid"] == RECOVERY_CHANGED and NO_RECOVERY.search(one.get("text", "")):
            numbers.clear()
        elif is_hardware(one["xid"]) and one["xid"] not in numbers:
            numbers.append(one["xid"])
    return found


def address(pci_bus_id: str) -> str:
    """'0008:01:00' of 00000008:01:00.0 (NVML) and of 0008:01:00 (the kernel's log); other texts in small letters.

    The domain counts: the GPUs of a GB300 tray are all at 01:00, each in a domain of its own.
    """
    found = PCI_ADDRESS.fullmatch(pci_bus_id.strip().lower())
    return f"{int(found[1] or '0', 16):04x}:{found[2]}:{found[3]}" if found else pci_bus_id.lower()
