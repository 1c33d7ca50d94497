"""Faults of GPUs and their driver. Each is done to one GPU (NODE SLOT) through its state, as hardware would show it, or to
the driver packages of one node."""

from collections.abc import Callable, Mapping, Sequence

from infra.lab import gpus, node, nvidia
from infra.lab.fault import Arguments, Fault, SoftwareFault, Undo
from infra.lab.paths import LabError, LabPaths
from infra.lab.spec import Gpu, LabSpec

Inject = Callable[[LabSpec, Arguments], tuple[str, Undo]]

DEFAULT_SLOT = 4
APT_BUDGET_S = 120.0
CONTAINED, UNCONTAINED, FALLEN_OFF, DOUBLE_BIT, ROW_MARKED = 94, 95, 79, 48, 63  # NVIDIA XID catalogue
RESET_GPU = 1  # nvml.h: NVML_GPU_RECOVERY_ACTION_GPU_RESET
OTHER_VBIOS = "96.00.74.00.0D"
OVERHEATED_C, THROTTLED_MHZ = 94, 1200
SW_AND_HW_THERMAL_SLOWDOWN = 0x60  # nvml.h: nvmlClocksEventReasonSwThermalSlowdown, …HwThermalSlowdown


def on_gpu(what: str, keys: Mapping[str, gpus.Value], xids: Sequence[int] = ()) -> Inject:
    """A fault that sets keys of one GPU and raises XIDs."""

    def inject(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
        server, gpu = target(spec, arguments)
        before = gpus.read(LabPaths(spec.name).hardware(server), gpu.index)
        gpus.change(LabPaths(spec.name).hardware(server), gpu.index, keys, [f"xid={xid}" for xid in xids])
        done = f"GPU in slot {gpu.slot} of {server} (serial {gpu.serial}) {what}"
        return done, {"server": server, "index": gpu.index, "before": {key: before.get(key) for key in keys}}

    return inject


def target(spec: LabSpec, arguments: Arguments) -> tuple[str, Gpu]:
    """Server and GPU of the arguments [NODE [SLOT]]; by default slot 4 of the first GPU node. LabError for another."""
    if len(arguments) > 2:
        raise LabError("this fault takes a GPU: NODE [SLOT]")
    with_gpus = [server for server in spec.servers if server.gpus]
    names = ", ".join(server.name for server in with_gpus)
    server = next((one for one in with_gpus if not arguments or one.name == arguments[0]), None)
    if server is None:
        raise LabError(f"{arguments[0] if arguments else 'no node'} has no GPUs; nodes with GPUs: {names or 'none'}")
    slot = arguments[1] if len(arguments) == 2 else str(DEFAULT_SLOT)
    for gpu in server.gpus:
        if str(gpu.slot) == slot:
            return server.name, gpu
    raise LabError(f"{server.name} has no GPU in slot {slot}; slots: {', '.join(str(gpu.slot) for gpu in server.gpus)}")


def restore(spec: LabSpec, undo: Undo) -> None:
    """Put the changed keys back; XIDs that were raised stay in the past, as they do on hardware."""
    folder = LabPaths(spec.name).hardware(undo["server"])
    gpus.change(folder, undo["index"], {key: value for key, value in undo["before"].items() if value is not None})
    gpus.remove(folder, undo["index"], [key for key, value in undo["before"].items() if value is None])


def wrong_driver(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    """Install another version of the driver's packages on one running node, holds or not."""
    if len(arguments) > 1:
        raise LabError("this fault takes one node")
    server, _ = target(spec, arguments)
    packages = nvidia.driver_packages(spec)
    if not packages:
        raise LabError("the site pins no driver: there is none to replace")
    pinned = next(iter(packages.values()))
    other = nvidia.other_driver(pinned)
    held = [name for name in node.run(spec, server, "apt-mark", "showhold").split() if name in packages]
    _install(spec, server, dict.fromkeys(packages, other))
    undo = {"server": server, "packages": packages, "held": held}
    return f"driver {other} installed on {server} instead of {pinned}", undo


def right_driver(spec: LabSpec, undo: Undo) -> None:
    _install(spec, undo["server"], undo["packages"])
    if undo["held"]:  # apt lets go of them when it changes their version
        node.run(spec, undo["server"], "apt-mark", "hold", *undo["held"])


def _install(spec: LabSpec, server: str, packages: Mapping[str, str]) -> None:
    words = [f"{name}={version}-{nvidia.REVISION}" for name, version in packages.items()]
    allowed = ("--allow-downgrades", "--allow-change-held-packages")
    install = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", *allowed, "install", *words)
    node.run(spec, server, *install, budget_s=APT_BUDGET_S)
    # The daemon keeps the library that it was started with.
    node.run(spec, server, "systemctl", "try-restart", "nvidia-persistenced.service")


XID = on_gpu(f"reports XID {UNCONTAINED} and asks for a reset", {"recovery_action": RESET_GPU}, [UNCONTAINED])
MEMORY = on_gpu(f"reports XID {CONTAINED}", {}, [CONTAINED])
LOST = on_gpu("has fallen off the bus", {"lost": 1}, [FALLEN_OFF])
ROW_REMAP = on_gpu(
    "has a memory row that waits for its remapping",
    {
        "ecc.uncorrected.volatile.dram": 1,
        "ecc.uncorrected.aggregate.dram": 1,
        "remap.uncorrected": 1,
        "remap.pending": 1,
        "recovery_action": RESET_GPU,
    },
    [DOUBLE_BIT, ROW_MARKED],
)
FIRMWARE = on_gpu(f"has VBIOS {OTHER_VBIOS}", {"vbios": OTHER_VBIOS})
THERMAL = on_gpu(
    f"is at {OVERHEATED_C} C and slows down",
    {
        "temperature.gpu": OVERHEATED_C,
        "clock.event_reasons": SW_AND_HW_THERMAL_SLOWDOWN,
        "clock.sm": THROTTLED_MHZ,
        "clock.graphics": THROTTLED_MHZ,
    },
)

GPU_FAULTS = {
    "gpu-xid": Fault("a GPU reports a fatal XID and asks for a reset", "[NODE [SLOT]]", XID, restore),
    "gpu-memory": Fault("a GPU reports a contained memory error", "[NODE [SLOT]]", MEMORY, restore),
    "gpu-lost": Fault("a GPU falls off the bus", "[NODE [SLOT]]", LOST, restore),
    "row-remap-pending": Fault("a memory error leaves a row to be remapped", "[NODE [SLOT]]", ROW_REMAP, restore),
    "wrong-firmware": Fault("a GPU has another VBIOS", "[NODE [SLOT]]", FIRMWARE, restore),
    "wrong-driver": SoftwareFault("a node has another version of the GPU driver", "[NODE]", wrong_driver, right_driver),
    "thermal-alarm": Fault("a GPU overheats and slows down", "[NODE [SLOT]]", THERMAL, restore),
}
