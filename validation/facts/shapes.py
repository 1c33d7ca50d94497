"""What the answers of each kind of device look like, down to every field that a finding or a check reads.

    data = data_of("bmcs", "gpu001", said)     # typed and cleaned, or UnreadableAnswer that names the field

Drivers type what they return themselves (network/drivers); here stand what nodes and telemetry servers print as JSON, and
the whole of a recording, which may come from anywhere. Keys that no shape names stay; their texts are cleaned as well.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, Required, cast

from pydantic import PlainValidator, with_config
from typing_extensions import TypedDict

from network.discover import Port
from network.drivers import answers
from network.drivers.answers import EXTRA_KEYS_STAY, Flag, Line, Number, Setting, Source, Text, Whole
from network.drivers.pdu import Outlet, PduIdentity, Phase
from network.drivers.redfish import Account, BmcIdentity, LogEntry, SystemState
from network.drivers.redfish_power import PowerSupplies, Thermal
from network.drivers.redfish_syslog import LogServers
from network.drivers.switch_agent import Chassis


class OtherLogin(TypedDict):
    """A login with another BMC's password: whose it was, and whether it was refused."""

    server: Line
    refused: Flag


# ---- power and BMCs --------------------------------------------------------------------------------------------------
@with_config(EXTRA_KEYS_STAY)
class PduData(TypedDict):
    identity: PduIdentity
    outlets: list[Outlet]
    phases: list[Phase]
    power_w: Number | None


@with_config(EXTRA_KEYS_STAY)
class BmcData(TypedDict):
    identity: BmcIdentity
    state: SystemState
    power_supplies: PowerSupplies
    accounts: list[Account]
    ntp: list[Line]
    protocols: dict[Line, Flag]
    event_log: list[LogEntry]
    firmware: dict[Line, Line]
    ports: dict[Line, Line]
    factory_login_refused: NotRequired[Flag]
    thermal: NotRequired[Thermal]
    thermal_unread: NotRequired[Text]
    login_of_other: NotRequired[OtherLogin]
    log_servers: NotRequired[LogServers]
    log_servers_unread: NotRequired[Text]


# ---- switches --------------------------------------------------------------------------------------------------------
class SwitchPort(TypedDict):
    state: Line
    mtu: Whole


@with_config(EXTRA_KEYS_STAY)
class RoceSwitchData(TypedDict):
    hostname: Line
    mgmt_mac: Line
    version: Line
    banner: Text
    ports: dict[Line, SwitchPort]
    running: Text
    diff: Text
    saved: Flag
    neighbours: dict[Line, Line]
    ends: NotRequired[dict[Line, dict[Line, Line]]]
    """{port: what the system's driver says of its end of a link} (network.switch_ends)."""
    ends_error: NotRequired[Line]


@with_config(EXTRA_KEYS_STAY)
class SwitchData(RoceSwitchData):
    lldp: dict[Line, Port]
    lldp_error: NotRequired[Line]
    lldp_error_kind: NotRequired[Line]
    machine: NotRequired[dict[Line, Any]]


# ---- nodes (node_facts.py, gpu_facts.py, storage_facts.py, machine_facts.py) -----------------------------------------
class NodeIdentity(TypedDict, total=False):
    uuid: Required[Line]
    serial: Line
    boot_id: Line
    hostname: Line


@with_config(EXTRA_KEYS_STAY)
class Link(TypedDict):
    mtu: Whole
    mac: Line
    state: Line
    addresses: list[Line]


@with_config(EXTRA_KEYS_STAY)
class Chrony(TypedDict):
    reference: Line
    stratum: Whole
    offset_s: Number
    rms_offset_s: Number
    leap: Line


@with_config(EXTRA_KEYS_STAY)
class ClockDay(TypedDict):
    """The clock's offsets of the last day (node_facts.py). `largest_s`: the largest hundredth and one more, descending."""

    samples: Whole
    quarters: Whole
    largest_s: list[Number]


@with_config(EXTRA_KEYS_STAY)
class Units(TypedDict, total=False):
    """A node whose systemd hangs says none of these."""

    system: Line
    failed: list[Line]
    services: dict[Line, Line]


class SlurmNode(TypedDict):
    state: Line
    reason: Line


@with_config(EXTRA_KEYS_STAY)
class SlurmState(TypedDict, total=False):
    version: Line
    detected: dict[Line, Line]
    answers: Flag
    accounting_answers: Flag
    nodes: dict[Line, SlurmNode]


@with_config(EXTRA_KEYS_STAY)
class Hardware(TypedDict):
    cpus: Whole | None
    memory_kib: Whole
    machine: Line


@with_config(EXTRA_KEYS_STAY)
class Ping(TypedDict):
    device: Line
    target: Line
    source: Line
    payload_b: Whole
    ok: Flag
    received: Whole


@with_config(EXTRA_KEYS_STAY)
class Connect(TypedDict):
    device: Line
    target: Line
    port: Whole
    seen: Line


@with_config(EXTRA_KEYS_STAY)
class Silent(TypedDict):
    device: Line
    target: Line
    answered: Flag
    error: NotRequired[Line]


class GpuMemory(TypedDict):
    total_b: Whole
    used_b: Whole


class GpuEcc(TypedDict):
    enabled: Flag | None
    corrected: Whole | None
    uncorrected: Whole | None
    corrected_ever: Whole | None
    uncorrected_ever: Whole | None


class RemappedRows(TypedDict):
    corrected: Whole
    uncorrected: Whole
    pending: Whole
    failed: Whole


class GpuClocks(TypedDict):
    sm_mhz: Number | None
    memory_mhz: Number | None
    max_sm_mhz: Number | None
    max_memory_mhz: Number | None
    reasons: list[Line] | None


class GpuPower(TypedDict):
    draw_w: Number | None
    limit_w: Number | None
    default_limit_w: Number | None
    energy_j: Number | None


class GpuTemperature(TypedDict):
    gpu_c: Number | None
    memory_c: Number | None
    slowdown_c: Number | None
    shutdown_c: Number | None
    margin_c: NotRequired[Number | None]
    slowdown_margin_c: NotRequired[Number | None]


class GpuPcie(TypedDict):
    generation: Whole | None
    width: Whole | None
    max_generation: Whole | None
    max_width: Whole | None
    replays: Whole | None
    correctable: Whole | None
    non_fatal: Whole | None
    fatal: Whole | None


class NvLinks(TypedDict):
    up: Whole
    down: list[Whole]
    errors: dict[Line, dict[Line, Whole]]


@with_config(EXTRA_KEYS_STAY)
class Gpu(TypedDict):
    """One GPU; with an error, it says no more."""

    index: Whole
    error: Text
    error_kind: NotRequired[Line]


@with_config(EXTRA_KEYS_STAY)
class AnsweringGpu(Gpu):
    """One GPU that answers. A value that it does not have is null."""

    name: Line
    serial: Line | None
    uuid: Line
    pci_bus_id: Line
    module_id: Whole | None
    minor: Whole | None
    vbios: Line | None
    inforom: Line | None
    part_number: Line | None
    persistence: Flag | None
    mig: Flag | None
    recovery_action: Whole | None
    memory: GpuMemory | None
    utilization_pct: Number | None
    ecc: GpuEcc
    remapped_rows: RemappedRows | None
    clocks: GpuClocks
    power: GpuPower
    temperature: GpuTemperature
    pcie: GpuPcie
    nvlinks: NvLinks
    not_supported: list[Line]


class Xid(TypedDict):
    pci_bus_id: Line
    xid: Whole
    text: Line


@with_config(EXTRA_KEYS_STAY)
class NoGpus(TypedDict):
    """A node whose GPUs could not be asked."""

    error: Text
    error_kind: Line
    devices: list[Gpu]


@with_config(EXTRA_KEYS_STAY)
class Gpus(TypedDict):
    driver: Line
    nvml: Line
    cuda: Line
    count: Whole
    error: Text
    error_kind: Line
    device_files: list[Line]
    module: Line
    module_flavour: Line
    fabric_manager: Line
    nvswitches: Whole
    nccl_conf: dict[Line, Line]
    cuda_toolkits: dict[Line, Line]
    framework_cuda: Line
    container: Line
    nics: dict[Line, dict[Line, Line]]
    held: list[Line]
    xids: list[Xid] | None
    devices: list[Gpu]


class NoMachine(TypedDict):
    """A node that says nothing of what it is built of."""

    error: Text
    error_kind: Line


class MemorySlot(TypedDict):
    locator: Line
    bank: Line
    size_mib: Whole
    speed_mts: Whole
    configured_mts: Whole
    serial: Line
    part: Line


class ControlledModule(TypedDict):
    location: Line
    size_mib: Whole


class MemoryController(TypedDict):
    name: Line
    corrected: Whole
    uncorrected: Whole
    modules: list[ControlledModule]


@with_config(EXTRA_KEYS_STAY)
class PcieFunction(TypedDict):
    path: list[Line]
    numa: Whole
    width: Whole
    max_width: Whole
    speed_gts: Number
    max_speed_gts: Number


class Adapter(TypedDict):
    pcie: Line
    guid: Line


class Interface(TypedDict):
    pcie: Line
    mac: Line


class Drive(TypedDict):
    name: Line
    pcie: Line
    model: Line
    serial: Line
    firmware: Line
    size_b: Whole
    critical_warning: Whole
    percent_used: Whole
    media_errors: Whole


class ArrayMember(TypedDict):
    partition: Line
    disk: Line
    state: Line


class Array(TypedDict):
    name: Line
    level: Line
    state: Line
    disks: Whole
    degraded: Whole
    members: list[ArrayMember]


class BootPartition(TypedDict):
    name: Line
    disk: Line
    uuid: Line
    loaders: dict[Line, Line]


class BootEntry(TypedDict):
    id: Line
    partition: Line
    active: Flag


class Boot(TypedDict):
    firmware: Line
    partitions: list[BootPartition]
    entries: list[BootEntry]


class RoceRail(TypedDict):
    pci: Line
    netdev: Line
    rdma: Line
    values: dict[Line, Text]
    unread: dict[Line, Text]


class Roce(TypedDict, total=False):
    error: Text
    rails: dict[Line, RoceRail]


class Machine(TypedDict, total=False):
    """Answer of machine_facts.py. A part that failed is missing; `errors` says why."""

    container: Required[Line]
    errors: Required[dict[Line, Text]]
    memory: list[MemorySlot]
    controllers: list[MemoryController]
    pcie: dict[Line, PcieFunction]
    adapters: dict[Line, Adapter]
    interfaces: dict[Line, Interface]
    drives: list[Drive]
    arrays: list[Array]
    boot: Boot
    roce: Roce
    links: dict[Line, Text]
    ethtool: dict[Line, dict[Line, Text]]


class Mount(TypedDict):
    source: Line
    type: Line
    options: list[Line]


@with_config(EXTRA_KEYS_STAY)
class Brick(TypedDict):
    name: Line
    online: Flag
    total_b: Whole
    free_b: Whole
    inodes: Whole
    inodes_free: Whole
    file_system: Line


@with_config(EXTRA_KEYS_STAY)
class Volume(TypedDict, total=False):
    status: Line
    type: Line
    replicas: Whole
    options: dict[Line, Line]


@with_config(EXTRA_KEYS_STAY)
class Gluster(TypedDict):
    units: dict[Line, Line]
    listening: list[Line]
    version: Line
    volume: Volume
    bricks: list[Brick]
    clients: list[Line]
    error: NotRequired[Text]


class Route(TypedDict):
    destination: Line
    interfaces: list[Line]


@with_config(EXTRA_KEYS_STAY)
class StorageUnit(TypedDict):
    loaded: Line
    active: Line
    sub: Line
    enabled: Line
    what: Line
    type: Line
    options: Line
    after: list[Line]
    fragment: Line


class StorageNeed(TypedDict):
    active: Line
    requires: Flag
    after: Flag


@with_config(EXTRA_KEYS_STAY)
class NoStorage(TypedDict):
    """A node that could not tell of its mount."""

    error: Text


@with_config(EXTRA_KEYS_STAY)
class Storage(TypedDict):
    mount: dict[Line, Any]
    usage: dict[Line, Setting]
    unit: StorageUnit
    retry: dict[Line, Line]
    needed_by: dict[Line, StorageNeed]
    booted_at: Number
    mounted_at: Number
    installed_at: Number
    server: NotRequired[Gluster]
    routes: NotRequired[list[Route]]


@with_config(EXTRA_KEYS_STAY)
class NodeData(TypedDict, total=False):
    """A part that failed is missing; `errors` says why."""

    os_release: Required[dict[Line, Line]]
    identity: Required[NodeIdentity]
    errors: Required[dict[Line, Text]]
    image: Line
    started_at: Number
    links: dict[Line, Link]
    sshd: dict[Line, Line]
    chrony: Chrony
    clock_day: ClockDay
    packages: dict[Line, Line]
    units: Units
    listening: list[Line]
    listeners: dict[Line, Line]
    keys: dict[Line, list[Line]]
    sudo: list[Line]
    scheduled: dict[Line, Line]
    accounts: list[Line]
    users: dict[Line, Line]
    enabled: dict[Line, Line]
    files: dict[Line, Line]
    sysctls: dict[Line, Line]
    mounts: dict[Line, Line]
    slurm: SlurmState
    hardware: Hardware
    forwards: Flag
    forwarded: list[Line]
    kernel: Line
    command_line: Text
    pings: list[Ping]
    connects: list[Connect]
    silent: list[Silent]
    guids: dict[Line, Line]
    macs: dict[Line, Line]
    gpus: dict[Line, Any]
    storage: dict[Line, Any]
    machine: dict[Line, Any]


# ---- InfiniBand (network.infiniband.parse, by gather.fabric_data) ------------------------------------------------------
def _row(*kinds: type) -> PlainValidator:
    def checked(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple) or len(value) != len(kinds) or not all(map(_fits, value, kinds)):
            raise answers.expected(f"a row of {', '.join(KINDS[kind] for kind in kinds)}")
        return [answers.line(cell) if isinstance(cell, str) else cell for cell in value]

    return PlainValidator(checked)


def _fits(cell: object, kind: type) -> bool:
    return type(cell) is kind or (kind is float and type(cell) is int)


KINDS = {str: "text", int: "whole number", float: "number"}
PORT = re.compile(r"[0-9a-f]{1,16}/[0-9]{1,3}")


def _port(value: Any) -> str:
    if not isinstance(value, str) or not PORT.fullmatch(value):
        raise answers.expected("GUID/PORT")
    return value


GuidPort = Annotated[str, PlainValidator(_port)]
NodeRow = Annotated[list[Any], _row(str, str, str, str, int)]
LinkRow = Annotated[list[Any], _row(str, int, str, int, float)]


@with_config(EXTRA_KEYS_STAY)
class Manager(TypedDict):
    lid: Whole
    guid: Line
    priority: Whole
    state: Line


class FabricEnd(TypedDict):
    """A port as ibdiagnet writes it."""

    state: Line
    physical: Line
    rate_gbps: Number
    lanes: Whole
    fec: Line
    raw_ber: Number | None
    effective_ber: Number | None


class NotDiagnosed(TypedDict):
    """A host whose ibdiagnet said nothing."""

    error: Text


NodeOfTree = Annotated[list[Any], _row(int, str)]


class Diagnosed(TypedDict):
    """network.infiniband.ibdiagnet.facts()."""

    began: Number
    ended: Number
    sharp_am: Line
    ends: dict[GuidPort, FabricEnd]
    adaptive: dict[Line, Whole]
    out_of_order: dict[GuidPort, Whole]
    counters: dict[GuidPort, dict[Line, Whole]]
    trees: dict[Line, list[NodeOfTree]]


@with_config(EXTRA_KEYS_STAY)
class SubnetData(TypedDict):
    nodes: list[NodeRow]
    links: list[LinkRow]
    systems: NotRequired[dict[Line, Line]]
    own: Manager | None
    master: Manager | None
    engine: Line
    errors: dict[GuidPort, dict[Line, Whole]]
    errors_unread: Text
    pkeys: dict[Line, list[Whole]]
    lanes: dict[GuidPort, list[list[Whole]]]
    arbitration: dict[GuidPort, dict[Line, dict[Line, Whole]]]
    diagnosed: NotRequired[dict[Line, Any]]


# ---- Prometheus (telemetry_facts.py) -----------------------------------------------------------------------------------
class Sample(TypedDict):
    labels: dict[Line, Line]
    value: Number


class Samples(TypedDict):
    """Of one series over a time, each with its Unix time."""

    labels: dict[Line, Line]
    values: list[tuple[Number, Number]]


@with_config(EXTRA_KEYS_STAY)
class Queried(TypedDict):
    """Queries alone, of which none failed."""

    queries: dict[Line, list[Sample]]
    ranges: dict[Line, list[Samples]]


@with_config(EXTRA_KEYS_STAY)
class ScrapeTarget(TypedDict):
    job: Line
    instance: Line
    health: Line
    age_s: Number
    interval: Line
    seconds: Number
    error: Text


class Rule(TypedDict):
    alert: Line
    severity: Line
    hold_s: Number
    runbook: Line
    health: Line
    error: Text


class Alert(TypedDict):
    labels: dict[Line, Line]
    state: Line


class GpuFields(TypedDict):
    instance: Line
    fields: list[Line]


@with_config(EXTRA_KEYS_STAY)
class TelemetryData(TypedDict):
    """A part that failed is missing; `errors` says why."""

    targets: list[ScrapeTarget]
    queries: dict[Line, list[Sample]]
    series: NotRequired[dict[Line, dict[Line, dict[Line, Number]]]]
    rules: NotRequired[list[Rule]]
    alerts: NotRequired[list[Alert]]
    files_differing: NotRequired[list[Line]]
    gpus: dict[Line, GpuFields]
    errors: dict[Line, Text]


class DrilledAlert(TypedDict):
    severity: Line
    delivered_s: Number | None
    cleared_s: Number | None


class UnitTests(TypedDict):
    status: Whole | None
    output: Text


class FireDrill(TypedDict):
    """Answer of fire_drill.py."""

    alerts: dict[Line, DrilledAlert]
    unit_tests: UnitTests


SHAPES: Mapping[str, Any] = {
    "pdus": PduData,
    "bmcs": BmcData,
    "switches": SwitchData,
    "nodes": NodeData,
    "subnets": SubnetData,
    "telemetry": TelemetryData,
    "agents": Chassis,
    "roce_switches": RoceSwitchData,
}


def data_of(kind: str, device: str, said: object) -> dict[str, Any]:
    """A device's data of this kind (a key of SHAPES), typed and cleaned. UnreadableAnswer names the field that is not."""
    source = Source(device, "read facts")
    data = cast(dict[str, Any], answers.read(SHAPES[kind], answers.plain(said, source), source))
    if kind == "nodes" and "gpus" in data:
        data["gpus"] = gpus_of(data["gpus"], Source(device, "read facts: GPUs"))
    if kind == "nodes" and "storage" in data:
        data["storage"] = storage_of(data["storage"], Source(device, "read facts: storage"))
    if kind == "subnets" and "diagnosed" in data:
        data["diagnosed"] = diagnosed_of(data["diagnosed"], Source(device, "read facts: ibdiagnet"))
    if kind in ("nodes", "switches") and "machine" in data:
        data["machine"] = machine_of(data["machine"], Source(device, "read facts: machine"))
    return data


def gpus_of(said: object, source: Source) -> dict[str, Any]:
    """What the GPUs of a node say (gpu_facts.py); with an error, no more than that is asked of it."""
    some = answers.read(NoGpus, said, source)
    if some["error"]:
        return cast(dict[str, Any], some)
    whole = answers.read(Gpus, said, source)
    for place, gpu in enumerate(whole["devices"]):
        if not gpu["error"]:
            at = Source(source.device, f"{source.operation} [{place}]", source.next_step)
            whole["devices"][place] = answers.read(AnsweringGpu, gpu, at)
    return cast(dict[str, Any], whole)


def machine_of(said: object, source: Source) -> dict[str, Any]:
    """What a node is built of (machine_facts.py); with an error, no more than that is asked of it."""
    some = answers.read(dict[Line, Any], said, source)
    return cast(dict[str, Any], answers.read(NoMachine if "error" in some else Machine, some, source))


def diagnosed_of(said: object, source: Source) -> dict[str, Any]:
    """What ibdiagnet wrote on a host; with an error, no more than that is asked of it."""
    some = answers.read(dict[Line, Any], said, source)
    return cast(dict[str, Any], answers.read(NotDiagnosed if "error" in some else Diagnosed, some, source))


def storage_of(said: object, source: Source) -> dict[str, Any]:
    """What a node says of shared storage (storage_facts.py); with an error, no more than that is asked of it."""
    some = answers.read(dict[Line, Any], said, source)
    if "error" in some:
        return cast(dict[str, Any], answers.read(NoStorage, some, source))
    whole = answers.read(Storage, some, source)
    if whole["mount"]:
        answers.read(Mount, whole["mount"], source)
    return cast(dict[str, Any], whole)
