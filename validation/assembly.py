"""Is a server built as planned? What its firmware and kernel tell (facts/machine_facts.py) against its catalogue entry.

    memory_faults(said, device)     # ["channel mc0 channel 1 has 64 GiB, others 128 GiB", …]; [] when it is as planned

Each function takes the parts of a node's machine facts that it judges and the server's catalogue entry, and gives its faults as
sentences. A part that could not be read is a fault: nothing is taken for granted.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from capacity.model import Plan
from inventory.catalog.devices import DeviceType
from network.drivers.errors import same_identifier

Said = Mapping[str, Any]
GIB_MIB = 1024
TB = 10**12
CAPACITY_TOLERANCE_PCT = 1.0
"""IDEMA LBA1-03 gives drives a little more than their nominal capacity: 1,920,383,410,176 B for 1.92 TB, 0.02 %."""
BYTES_PER_TRANSFER = 8
"""A DDR channel is 64 bits wide (JESD79): GB/s = MT/s * 8 / 1,000."""
DRIVE_LANES = 4
"""S018: an NVMe drive has a link of four lanes."""
PCIE_GTS = {3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""Transfer rate of one lane by generation, GT/s (PCI Express Base Specification)."""
RUNNING = ("clean", "active", "active-idle", "write-pending")
"""States of an md array that takes reads and writes (Linux, Documentation/admin-guide/md.rst: array_state)."""


def is_container(machine: Said) -> bool:
    """Whether a node is a container, which has no hardware of its own; False where it did not say."""
    return bool(machine.get("container"))


def unread(machine: Said, *parts: str) -> list[str]:
    """Why these parts of a node's machine facts are not there."""
    if "error" in machine:
        return [f"what it is built of cannot be asked: {machine['error']}"]
    return [
        f"{part} could not be read: {machine['errors'].get(part, 'nothing came')}"
        for part in parts
        if part not in machine
    ]


# ---- memory (S014) ---------------------------------------------------------------------------------------------------
def memory_faults(machine: Said, device: DeviceType) -> Iterator[str]:
    """Modules by number and size, every channel alike, trained to their speed, no error counted (S014)."""
    planned, fitted = device.bringup.memory, [slot for slot in machine["memory"] if slot["size_mib"]]
    if planned is None:
        yield f"catalogue entry {device.slug} does not say its memory"
        return
    if not planned.soldered:
        yield from _modules_fitted(fitted, planned.dimms, planned.dimm_gib)
        yield from _channels_alike(machine["controllers"], device.bringup.cpus * planned.channels)
    wanted_mts = round(planned.gb_s * 1000 / BYTES_PER_TRANSFER) if planned.gb_s and not planned.soldered else 0
    for slot in fitted:
        least = wanted_mts or slot["speed_mts"]
        if slot["configured_mts"] < least:
            yield f"{slot['locator']} runs at {slot['configured_mts']} MT/s, planned {least}"
    if not machine["controllers"]:
        yield "the kernel shows no memory controller (EDAC), so memory errors are not counted: load its driver"
    for one in machine["controllers"]:
        if one["corrected"] or one["uncorrected"]:
            yield f"{one['name']} counts {one['corrected']} corrected and {one['uncorrected']} uncorrected errors"


def _modules_fitted(fitted: Sequence[Said], count: int, dimm_gib: float) -> Iterator[str]:
    if len(fitted) != count:
        yield f"{len(fitted)} memory modules, planned {count}"
    for slot in fitted:
        if slot["size_mib"] != dimm_gib * GIB_MIB:
            yield f"{slot['locator']} has {slot['size_mib'] / GIB_MIB:g} GiB, planned {dimm_gib:g}"
    for serial, times in Counter(slot["serial"] for slot in fitted).items():
        if times > 1 and serial.strip(" 0") and serial.lower() not in ("unknown", "not specified"):
            yield f"{times} memory modules say the serial number {serial}"


def _channels_alike(controllers: Sequence[Said], channels: int) -> Iterator[str]:
    """The kernel numbers channels in the same way on every board, which makers' names of slots do not."""
    filled: Counter[str] = Counter()
    for controller in controllers:
        for module in controller["modules"]:
            place = re.sub(r"\b(slot|csrow) \d+", "", module["location"]).strip()
            filled[f"{controller['name']} {place}"] += module["size_mib"]
    used = {place: size for place, size in filled.items() if size}
    if controllers and not used:
        yield "the kernel's memory controllers name no modules: whether channels are alike is not known"
    if not used:
        return
    if len(used) != channels:
        yield f"{len(used)} memory channels have modules, planned {channels}"
    usual = Counter(used.values()).most_common(1)[0][0]
    for place, size in sorted(used.items()):
        if size != usual:
            yield f"channel {place} has {size / GIB_MIB:g} GiB, others {usual / GIB_MIB:g} GiB"


# ---- drives (S018, S019) ---------------------------------------------------------------------------------------------
def drive_faults(machine: Said, device: DeviceType, pinned: str | None, delivered: Mapping[str, str]) -> Iterator[str]:
    """Drives by number, capacity and serial number, healthy, on four lanes, one firmware per model (S018).

    pinned: versions.nvme. delivered: {"boot0": serial number} of the drives in the asset list, by use and number.
    """
    lanes = device.bringup.emulated_lanes or DRIVE_LANES
    drives, planned = machine["drives"], device.bringup.drives
    if not planned:
        yield f"catalogue entry {device.slug} does not say its drives"
        return
    left = sorted(drives, key=lambda drive: drive["name"])
    for kind in planned:
        fitting = [drive for drive in left if _as_large_as(drive["size_b"], kind.tb)][: kind.count]
        left = [drive for drive in left if drive not in fitting]
        if len(fitting) < kind.count:
            yield f"{len(fitting)} of {kind.count} {kind.use} drives of {kind.tb:g} TB"
    for drive in left:
        yield f"{named(drive)} of {drive['size_b'] / TB:.2f} TB is not planned"
    for serial, times in Counter(drive["serial"] for drive in drives).items():
        if times > 1 or not serial:
            yield f"{times} drives say the serial number {serial!r}"
    uses = {use: sum(kind.count for kind in planned if kind.use == use) for use in ("boot", "data")}
    places = [f"{use}{n}" for use, count in uses.items() for n in range(count)]
    if unlisted := [place for place in places if place not in delivered]:
        yield f"assets.csv has no line {', '.join(f'DEVICE:{place}' for place in unlisted)} with the delivered serial number"
    for place, serial in delivered.items():
        if serial not in {drive["serial"] for drive in drives}:
            yield f"no drive has the serial number {serial} of {place} in assets.csv"
    if not unlisted:
        yield from (
            f"{named(drive)} is not in assets.csv" for drive in drives if drive["serial"] not in delivered.values()
        )
    for drive in drives:
        if drive["critical_warning"]:
            yield f"{named(drive)} warns (critical warning 0x{drive['critical_warning']:02x})"
        link = machine["pcie"].get(drive["pcie"])
        if link is None:
            yield f"{named(drive)} has no PCIe link that could be read"
        elif link["width"] < lanes:
            yield f"{named(drive)} has a link of x{link['width']}, planned x{lanes}"
    for model in sorted({drive["model"] for drive in drives}):
        versions = sorted({drive["firmware"] for drive in drives if drive["model"] == model})
        if pinned and versions != [pinned]:
            yield f"{model}: firmware {', '.join(versions)}, pinned {pinned}"
        elif len(versions) > 1:
            yield f"{model}: firmware {', '.join(versions)} on one server"


def _as_large_as(size_b: int, tb: float) -> bool:
    return abs(size_b / (tb * TB) - 1) * 100 <= CAPACITY_TOLERANCE_PCT


def named(drive: Said) -> str:
    """A drive as a person finds it."""
    return f"{drive['name']} ({drive['model']}, serial {drive['serial']})"


def mirror_faults(machine: Said, device: DeviceType, *, tried: bool = False) -> Iterator[str]:
    """The boot drives are one clean RAID 1 of whole disks, and the server starts from either (S019). `tried`: it was seen to start
    from each of them alone, so boot entries, which firmware may make by itself, prove nothing more.
    """
    wanted = sum(kind.count for kind in device.bringup.drives if kind.use == "boot" and kind.raid == "1")
    mirrors = [array for array in machine["arrays"] if array["level"] == "raid1"]
    if not mirrors:
        yield "no RAID 1 of the kernel (md): a controller's array cannot be read here"
        return
    for array in mirrors:
        synced = {member["disk"] for member in array["members"] if member["state"].split(",")[0] == "in_sync"}
        if array["disks"] != wanted or len(synced) != wanted:
            yield f"{array['name']}: {len(synced)} disks in sync of {array['disks']}, planned {wanted}"
        if array["degraded"]:
            yield f"{array['name']} lacks {array['degraded']} members"
        if array["state"] not in RUNNING:
            yield f"{array['name']} is {array['state']}"
    disks = sorted({member["disk"] for array in mirrors for member in array["members"]})
    yield from _bootable(machine["boot"], disks, tried=tried)


def _bootable(boot: Said, disks: Sequence[str], *, tried: bool) -> Iterator[str]:
    if boot["firmware"] != "uefi":
        if not tried:
            yield "it started in BIOS mode: which disks can start it is not known"
        return
    started = {entry["partition"].lower() for entry in boot["entries"] if entry["active"]}
    on = {disk: [part for part in boot["partitions"] if part["disk"] == disk] for disk in disks}
    for disk, parts in on.items():
        if not any(part["loaders"] for part in parts):
            yield f"{disk} has no EFI system partition with a boot program"
        elif not tried and not any(part["uuid"].lower() in started for part in parts):
            yield f"no boot entry of the firmware starts from {disk}"
    kinds = {tuple(sorted(part["loaders"].items())) for parts in on.values() for part in parts if part["loaders"]}
    if len(kinds) > 1:
        yield f"the boot programs on {' and '.join(disks)} differ"


# ---- PCIe (S022, S041) -----------------------------------------------------------------------------------------------
def shared_bridges(machine: Said, one: str, other: str) -> int:
    """PCIe bridges above both functions; two or more are a switch (its root port and its upstream port)."""
    paths = (machine["pcie"][one]["path"][:-1], machine["pcie"][other]["path"][:-1])
    return sum(1 for a, b in zip(*paths, strict=False) if a == b)


def adapter_faults(machine: Said, device: DeviceType, gpus: Sequence[str], guids: Mapping[str, str]) -> Iterator[str]:
    """Fabric adapters by GUID, at the rate of their slot, each beside the GPU of its rail (S041).

    gpus: PCI addresses of the GPUs as the kernel writes them, in the order that they are numbered by. guids: {port: GUID} of the
    server's fabric ports in the asset list. A rail's adapter and GPU are behind one PCIe switch where the catalogue says that
    both are; on other boards they are on one NUMA node.
    """
    facts, ports = device.bringup, device.bringup.fabric_ports
    switches = facts.board.switches if facts.board else ()
    switched = any({"gpu", "nic"} <= switch.down.keys() for switch in switches)
    for rail, port in enumerate(ports):
        wanted = guids.get(port, "")
        if not wanted:
            yield f"assets.csv has no GUID of {port}"
            continue
        found = [name for name, one in machine["adapters"].items() if same_identifier(one["guid"], wanted)]
        if not found:
            yield f"no adapter has the GUID {wanted} of {port}"
            continue
        name, address = found[0], machine["adapters"][found[0]]["pcie"]
        link = machine["pcie"].get(address)
        if link is None:
            yield f"{port} ({name}) has no PCIe link that could be read"
            continue
        yield from _slow(f"{port} ({name}, {address})", link, device)
        for gpu in gpus[rail * len(gpus) // len(ports) : (rail + 1) * len(gpus) // len(ports)]:
            if gpu not in machine["pcie"]:
                yield f"GPU {gpu} has no PCIe link that could be read"
            elif switched and shared_bridges(machine, address, gpu) < 2:
                yield f"{port} ({name}, {address}) is behind another PCIe switch than the GPU of its rail, {gpu}"
            elif not switched and link["numa"] != machine["pcie"][gpu]["numa"]:
                nodes = f"NUMA node {link['numa']}, the GPU of its rail, {gpu}, on {machine['pcie'][gpu]['numa']}"
                yield f"{port} ({name}, {address}) is on {nodes}"


def _slow(what: str, link: Said, device: DeviceType) -> Iterator[str]:
    """A link below what its slot is planned for."""
    slot, board = device.bringup.nic_slot, device.bringup.board
    generation = slot.pcie_gen if slot else board.pcie_gen if board else 0
    if not generation:
        yield f"catalogue entry {device.slug} does not say the PCIe generation of its adapters"
    elif link["speed_gts"] < PCIE_GTS[generation] or link["width"] < 16:
        yield f"{what} runs at {link['speed_gts']:g} GT/s x{link['width']}, planned {PCIE_GTS[generation]:g} GT/s x16"


def riser_faults(machine: Said, device: DeviceType, gpus: Sequence[str]) -> Iterator[str]:
    """GPU cards on x16 links, as many behind each PCIe switch as the board has there (S022). gpus: their PCI addresses."""
    board = device.bringup.board
    if board is None:
        yield f"catalogue entry {device.slug} does not say how its PCIe tree is made"
        return
    in_slot = board.lanes("gpu") // device.bringup.gpus if device.bringup.gpus else 0
    lanes = device.bringup.emulated_lanes or in_slot
    there = [gpu for gpu in gpus if gpu in machine["pcie"]]
    yield from (f"GPU {gpu} has no PCIe link that could be read" for gpu in gpus if gpu not in there)
    for gpu in there:
        if machine["pcie"][gpu]["width"] < lanes:
            yield f"GPU {gpu} has a link of x{machine['pcie'][gpu]['width']}, planned x{lanes}"
    wanted = sorted(
        switch.down["gpu"] // in_slot
        for switch in board.switches
        for _ in range(switch.count)
        if switch.down.get("gpu")
    )
    behind: Counter[str] = Counter()
    for gpu in there:
        bridges = machine["pcie"][gpu]["path"][:-1]
        if len(bridges) > 1:
            behind[bridges[1]] += 1
    if sorted(behind.values()) != wanted:
        yield f"GPUs behind PCIe switches: {sorted(behind.values()) or 'none'}, planned {wanted or 'none'}"


# ---- fans and air (S030) ---------------------------------------------------------------------------------------------
INLET, OUTLET = ("Intake", "Ambient"), ("Exhaust",)
"""DSP0268, PhysicalContext of the air that a server takes in and gives out."""


def air(bmc: Said) -> tuple[dict[str, Any], list[str]]:
    """(value, what is wrong) of a server's fans and of the air that comes in and goes out, from its BMC's data (S030)."""
    thermal = bmc["thermal"]
    fans = fitted(thermal)
    still = [fan["name"] for fan in fans if not (fan["rpm"] or fan["percent"])]
    ill = [
        f"{fan['name']} is {fan['state'] or 'of no state'}, {fan['health'] or 'no health'}"
        for fan in fans
        if (fan["state"], fan["health"]) != ("Enabled", "OK")
    ]
    hot = [f"{one['name']} is {one['health']}" for one in thermal["temperatures"] if one["health"] not in ("", "OK")]
    inlet, outlet = (air_c(thermal, contexts) for contexts in (INLET, OUTLET))
    problems = [
        *([] if fans else ["the BMC shows no fan"]),
        *([f"fans that do not turn: {', '.join(still)}"] if still else []),
        *ill,
        *hot,
    ]
    if inlet is None or outlet is None:
        problems.append("the BMC does not tell the temperature of the air that comes in and that goes out")
    elif outlet <= inlet:
        problems.append(
            f"air leaves at {outlet:g} C and comes in at {inlet:g} C: look for fans that blow the other way"
        )
    value = {
        "inlet_c": inlet,
        "outlet_c": outlet,
        "consumed_w": bmc["power_supplies"]["consumed_w"],
        "fans": [dict(fan) for fan in fans],
    }
    return value, problems


def most_fans(plan: Plan, bmcs: Mapping[str, Said]) -> dict[str, tuple[str, int]]:
    """By model, the server whose BMC shows the most fans, and how many: no catalogue has their number (S030).

    bmcs: by server, the data of its BMC; one that was not asked for its fans does not count.
    """
    models = dict(zip(plan.devices["name"], plan.devices["model"], strict=True))
    most: dict[str, tuple[str, int]] = {}
    for name, bmc in bmcs.items():
        if bmc.get("thermal") is not None:
            fans = len(fitted(bmc["thermal"]))
            if fans > most.get(models[name], ("", -1))[1]:
                most[models[name]] = (name, fans)
    return most


def fitted(thermal: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The fans that a BMC shows, without those that it calls absent."""
    return [fan for fan in thermal["fans"] if fan["state"] != "Absent"]


def air_c(thermal: Mapping[str, Any], contexts: tuple[str, ...]) -> float | None:
    """The mean of the temperatures of the first of these contexts that has any, Celsius."""
    for context in contexts:
        read = [
            one["celsius"]
            for one in thermal["temperatures"]
            if one["context"] == context and one["celsius"] is not None
        ]
        if read:
            return float(sum(read) / len(read))
    return None
