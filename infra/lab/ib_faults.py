"""What goes wrong with InfiniBand fabrics, done to the lab's simulator and undone: see infra/lab/faults.py.

A port is written DEVICE:PORT, such as ibl003:p2 or gpu002:ib3, and stands for the cable that the plan has in it.
"""

from collections.abc import Sequence

from infra.lab import ib
from infra.lab.client import ask
from infra.lab.fault import Arguments, Fault, Undo
from infra.lab.paths import LabError
from infra.lab.spec import Cable, LabSpec

SYMBOL_ERRORS = 1000
"""What the errored link shows: far above any limit, far below the counter's 16 bits."""
COUNTER = "PortCounters.SymbolErrorCounter"


def cable_of(spec: LabSpec, text: str) -> Cable:
    """The compute cable that has an end at DEVICE:PORT."""
    for cable in spec.ib_cables:
        if text in (f"{cable.a_device}:{cable.a_port}", f"{cable.b_device}:{cable.b_port}"):
            return cable
    raise LabError(f"no InfiniBand cable ends at {text}; write DEVICE:PORT, such as ibl003:p2 or gpu002:ib3")


def _node_cables(spec: LabSpec) -> list[Cable]:
    adapters = {
        adapter.device for adapter in spec.adapters if adapter.port != "ib0" or len(_ports(spec, adapter.device)) > 1
    }
    return [cable for cable in spec.ib_cables if cable.a_device in adapters]


def _ports(spec: LabSpec, device: str) -> list[str]:
    return [adapter.port for adapter in spec.adapters if adapter.device == device]


def _swap(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    """By default the first two rails of a server: each is then on the leaf of the other one."""
    cables = [cable_of(spec, text) for text in arguments] or _node_cables(spec)[:2]
    if len(cables) != 2 or cables[0] == cables[1]:
        raise LabError("ib-cable-swap takes two ports of different cables: DEVICE:PORT DEVICE:PORT")
    one, other = (_quoted(spec, cable) for cable in cables)
    _replug(spec, [one, other], [(one[0], other[1]), (other[0], one[1])])
    ends = " and ".join(f"{cable.b_device}:{cable.b_port}" for cable in cables)
    return f"plugs in {ends} swapped", {"one": one, "other": other}


def _swap_back(spec: LabSpec, undo: Undo) -> None:
    one, other = undo["one"], undo["other"]
    _replug(spec, [(one[0], other[1]), (other[0], one[1])], [one, other])


def _replug(spec: LabSpec, out: Sequence[Sequence[str]], into: Sequence[Sequence[str]]) -> None:
    ib.tell(spec, *(f"Unlink {near}" for near, _ in out), *(f"Link {near} {far}" for near, far in into))


def _quoted(spec: LabSpec, cable: Cable) -> tuple[str, str]:
    """Both ends as the simulator's console takes them: "ibl003"[2]."""
    one, other = ('"{}"[{}]'.format(*ib.place(spec, *end)) for end in cable.ends)
    return one, other


def _switch_dead(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    if len(arguments) > 1:
        raise LabError("ib-switch-dead takes one InfiniBand switch")
    default = next(switch.name for switch in spec.ib_switches if switch.role != "leaf")
    device = spec.ib_switch(arguments[0] if arguments else default).name
    ask(spec.name, op="break_switch", device=device, broken=True)
    return f"{device} has died", {"device": device}


def _switch_repaired(spec: LabSpec, undo: Undo) -> None:
    ask(spec.name, op="break_switch", device=undo["device"], broken=False)


def _errors(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    if len(arguments) > 1:
        raise LabError("ib-link-errors takes one port: DEVICE:PORT")
    between = next(cable for cable in spec.ib_cables if any(s.name == cable.a_device for s in spec.ib_switches))
    text = arguments[0] if arguments else f"{between.a_device}:{between.a_port}"
    cable_of(spec, text)
    device, _, port = text.rpartition(":")
    end = '"{}"[{}]'.format(*ib.place(spec, device, port))
    ib.tell(spec, f"PerformanceSet {end} {COUNTER}={SYMBOL_ERRORS}")
    return f"{SYMBOL_ERRORS} symbol errors at {text}", {"end": end}


def _errors_cleared(spec: LabSpec, undo: Undo) -> None:
    ib.tell(spec, f"PerformanceSet {undo['end']} {COUNTER}=0")


IB_FAULTS = {
    "ib-cable-swap": Fault("the plugs of two InfiniBand cables change places", "[PORT PORT]", _swap, _swap_back),
    "ib-switch-dead": Fault(
        "an InfiniBand switch stops working, though it has power", "[SWITCH]", _switch_dead, _switch_repaired
    ),
    "ib-link-errors": Fault("an InfiniBand port counts symbol errors", "[PORT]", _errors, _errors_cleared),
}
