"""Things that go wrong with clusters, done to a running lab, and undone.

    fault("lab", "cable-swap")                          the default target
    fault("lab", "link-down", ["leaf01:swp1"])          a chosen one
    repair("lab")                                       undo all, also from another process
    repair("lab", "gpu-xid", ["gpu001", "8"])           undo one, given as it was injected

What is needed to undo each fault is kept in the lab's state.
"""

import json
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infra.lab import gpus, net, node, pdu, switch
from infra.lab.client import ask
from infra.lab.fault import Arguments, Fault, Undo
from infra.lab.gpu_faults import GPU_FAULTS
from infra.lab.ib_faults import IB_FAULTS
from infra.lab.lab import is_up, load_spec, lock
from infra.lab.paths import LabError, LabPaths, write_private
from infra.lab.powerd import GARBLED
from infra.lab.scheduler_faults import SCHEDULER_FAULTS
from infra.lab.spec import LabSpec, Outlet
from infra.lab.storage_faults import STORAGE_FAULTS

TOOL_BUDGET_S = 30.0
RETURN_BUDGET_S = 30.0
OTHERS_BUDGET_S = 60.0
"""For faults and repairs that were begun before: a trial of many nodes begins one for each of them at once. A choice of ours."""
# RFC 5737 reserves the prefix for documentation: no cluster routes it.
DRIFT_LINE = "ip route 198.51.100.0/24 blackhole"
OTHER_SERIAL = "SIM-OTHER-0001"
OTHER_UUID = "00000000-0000-4000-8000-00000000beef"
OTHER_MAC = "02:0b:ad:0b:ad:01"
HIDDEN_OS_RELEASE = 'NAME="Example OS"\nID=example\nVERSION_ID="1"\nPRETTY_NAME="Example OS 1"\n'
HIDDEN_BANNER = "Authorised users only"


def fault(name: str, fault_name: str, arguments: Arguments = ()) -> str:
    """Inject a fault and return what was done. LabError for an unknown fault, a wrong target or a lab that is down."""
    if fault_name not in FAULTS:
        raise LabError(f"no fault {fault_name}; there are {', '.join(FAULTS)}")
    with lock(name, OTHERS_BUDGET_S):
        spec = _running(name)
        done, undo = FAULTS[fault_name].inject(spec, arguments)
        entry = {"fault": fault_name, "arguments": list(arguments), "done": done, "undo": undo}
        _save(name, [*active(name), entry])
    return done


def repair(name: str, fault_name: str = "", arguments: Arguments = ()) -> list[str]:
    """Undo all faults of a lab, or those of one name and target, the latest first; returns what each had done. LabError names those
    that could not be undone.
    """
    with lock(name, OTHERS_BUDGET_S):
        spec = _running(name)
        undone, left, problems = list[str](), list[dict[str, Any]](), list[str]()
        for entry in reversed(active(name)):
            if fault_name and (entry["fault"], entry.get("arguments")) != (fault_name, list(arguments)):
                left.insert(0, entry)
                continue
            try:
                FAULTS[entry["fault"]].undo(spec, entry["undo"])
                undone.append(str(entry["done"]))
            except (LabError, OSError, subprocess.SubprocessError) as problem:
                left.insert(0, entry)
                problems.append(f"{entry['fault']}: {problem}")
        _save(name, left)
    if problems:
        raise LabError("not repaired: " + "; ".join(problems))
    return undone


def active(name: str) -> list[dict[str, Any]]:
    """The faults in force, oldest first: [{'fault', 'done', 'undo'}]."""
    path = LabPaths(name).faults
    entries: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return entries


def _save(name: str, entries: list[dict[str, Any]]) -> None:
    write_private(LabPaths(name).faults, json.dumps(entries, indent=1))


def _running(name: str) -> LabSpec:
    spec = load_spec(name)
    if not is_up(name):
        raise LabError(f"lab {name} is not up, or broken: run `bringup lab up`")
    return spec


# ---- targets --------------------------------------------------------------------------------------------------------
def _one(arguments: Arguments, default: str, usage: str) -> str:
    if len(arguments) > 1:
        raise LabError(f"this fault takes {usage}")
    return arguments[0] if arguments else default


def _gpu_server(spec: LabSpec) -> str:
    return next((server.name for server in spec.servers if server.role == "gpu"), spec.servers[0].name)


def _leaf(spec: LabSpec) -> str:
    return next(item.name for item in spec.switches if item.role == "leaf")


def _fabric_port(spec: LabSpec, text: str) -> tuple[str, str]:
    """The switch port at the far (b) end of the in-band cable that `text`, DEVICE:PORT, is an end of."""
    for cable in spec.cables:
        if text in (f"{cable.a_device}:{cable.a_port}", f"{cable.b_device}:{cable.b_port}"):
            if spec.kind(cable.b_device) != "switch" or spec.switch(cable.b_device).role == "oob":
                raise LabError(f"{text} is no port of the in-band fabric")
            return cable.b_device, cable.b_port
    raise LabError(f"no cable ends at {text}; write DEVICE:PORT, such as leaf01:swp1")


def _outlets(spec: LabSpec, device: str) -> list[Outlet]:
    found = [outlet for outlet in spec.outlets if outlet.device == device]
    if not found:
        raise LabError(f"no outlet feeds {device}")
    return found


def _set_outlet(spec: LabSpec, pdu_name: str, number: int, on: bool) -> None:
    command = pdu.DIALECTS[spec.pdu(pdu_name).dialect]["commands"]["on" if on else "off"]
    ask(spec.name, op="pdu_set", pdu=pdu_name, what="control", index=number, value=str(command))


# ---- cables ---------------------------------------------------------------------------------------------------------
def _swap(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    ports = list(arguments)
    if not ports:
        first = next(
            c
            for c in spec.cables
            if spec.kind(c.a_device) == "switch" and c.b_port != "eth0" and spec.switch(c.b_device).role == "spine"
        )
        second = next(c for c in spec.cables if c.b_device == first.b_device and c.a_device != first.a_device)
        ports = [f"{first.a_device}:{first.a_port}", f"{second.a_device}:{second.a_port}"]
    if len(ports) != 2:
        raise LabError("cable-swap takes two ports: DEVICE:PORT DEVICE:PORT")
    one, other = (_fabric_port(spec, text) for text in ports)
    if one == other:
        raise LabError(f"{ports[0]} and {ports[1]} are the same cable")
    net.exchange(spec, one, other)
    return f"plugs in {':'.join(one)} and {':'.join(other)} swapped", {"one": one, "other": other}


def _swap_back(spec: LabSpec, undo: Undo) -> None:
    net.exchange(spec, tuple(undo["one"]), tuple(undo["other"]))


def _link_down(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    default = next(
        f"{c.a_device}:{c.a_port}"
        for c in spec.cables
        if spec.kind(c.a_device) == "switch"
        and spec.kind(c.b_device) == "switch"
        and spec.switch(c.b_device).role == "spine"
    )
    text = _one(arguments, default, "one port: DEVICE:PORT")
    port = _fabric_port(spec, text)
    stump = f"cut{len(active(spec.name))}-{time.monotonic_ns() % 10**6}"
    net.sever(spec, port, stump)
    return f"cable between {text} and {':'.join(port)} unplugged", {"port": port, "stump": stump}


def _link_up(spec: LabSpec, undo: Undo) -> None:
    net.rejoin(spec, tuple(undo["port"]), undo["stump"])


# ---- power ----------------------------------------------------------------------------------------------------------
def _switch_dead(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    device = _one(arguments, next(s.name for s in spec.switches if s.role == "spine"), "one switch")
    spec.switch(device)
    ask(spec.name, op="break_switch", device=device, broken=True)
    return f"{device} has died", {"device": device}


def _switch_repaired(spec: LabSpec, undo: Undo) -> None:
    ask(spec.name, op="break_switch", device=undo["device"], broken=False)
    _until(lambda: switch.is_ready(spec, undo["device"]), f"{undo['device']} does not boot")


def _outlet_off(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    if len(arguments) == 2:
        pdu_name, number = spec.pdu(arguments[0]).name, int(arguments[1])
    else:
        outlet = _outlets(spec, _one(arguments, _gpu_server(spec), "a device, or a PDU and the number of an outlet"))[0]
        pdu_name, number = outlet.pdu, outlet.number
    _set_outlet(spec, pdu_name, number, False)
    return f"outlet {number} of {pdu_name} switched off by hand", {"outlets": [(pdu_name, number)]}


def _power_lost(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    device = _one(arguments, _gpu_server(spec), "one device")
    outlets = [(outlet.pdu, outlet.number) for outlet in _outlets(spec, device)]
    was_on = ask(spec.name, op="view", device=device)["power"] == "On"
    for pdu_name, number in outlets:
        _set_outlet(spec, pdu_name, number, False)
    return f"all {len(outlets)} outlets of {device} switched off", {
        "outlets": outlets,
        "device": device,
        "was_on": was_on,
    }


def _power_back(spec: LabSpec, undo: Undo) -> None:
    for pdu_name, number in undo["outlets"]:
        _set_outlet(spec, pdu_name, number, True)
    device = undo.get("device")
    if not device:
        return
    _until(lambda: ask(spec.name, op="view", device=device)["ac"], f"{device} has no AC again")
    if undo["was_on"] and spec.kind(device) == "server":
        ask(spec.name, op="reset", device=device, kind="On")
        _until(lambda: ask(spec.name, op="view", device=device)["ready"], f"{device} does not boot")


def _feed_lost(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    rack, feed = arguments if len(arguments) == 2 else (spec.pdus[0].rack, spec.pdus[0].feed)
    pdus = [item.name for item in spec.pdus if (item.rack, item.feed) == (rack, feed)]
    if not pdus or len(arguments) not in (0, 2):
        feeds = ", ".join(sorted({f"{item.rack} {item.feed}" for item in spec.pdus}))
        raise LabError(f"feed-lost takes a rack and a feed, one of {feeds}")
    for name in pdus:
        ask(spec.name, op="pdu_input", pdu=name, live=False)
    return f"feed {feed} of rack {rack} has no power: {', '.join(pdus)}", {"pdus": pdus}


def _feed_back(spec: LabSpec, undo: Undo) -> None:
    for name in undo["pdus"]:
        ask(spec.name, op="pdu_input", pdu=name, live=True)


# ---- configuration --------------------------------------------------------------------------------------------------
def _drift(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    device = arguments[0] if arguments else _leaf(spec)
    line = " ".join(arguments[1:]) or DRIFT_LINE
    _vtysh(spec, device, line)
    return f"{device} configured by hand: {line}", {"device": device, "line": line}


def _drift_back(spec: LabSpec, undo: Undo) -> None:
    shown = _run([*switch.inside(spec, undo["device"]), "vtysh", "-c", "show running-config"])
    if any(line.strip() == undo["line"] for line in shown.splitlines()):  # else somebody has repaired it already
        _vtysh(spec, undo["device"], f"no {undo['line']}")


def _vtysh(spec: LabSpec, device: str, line: str) -> None:
    _run([*switch.inside(spec, device), "vtysh", "-c", "configure terminal", "-c", line, "-c", "end"])


def _run(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TOOL_BUDGET_S, check=False)
    if done.returncode:
        raise LabError(f"{shlex.join(argv[-4:])}: {(done.stdout + done.stderr).strip()}")
    return done.stdout


# ---- management -----------------------------------------------------------------------------------------------------
def _bmc_hang(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    device = spec.server(_one(arguments, _gpu_server(spec), "one server")).name
    ask(spec.name, op="update", device=device, key="hangs", value=True)
    return f"BMC of {device} takes connections and does not answer", {"device": device}


def _bmc_answers(spec: LabSpec, undo: Undo) -> None:
    ask(spec.name, op="update", device=undo["device"], key="hangs", value=False)


def _bmc_garbled(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    usage = f"at most one server, and how: {', '.join(GARBLED)}"
    kinds = [word for word in arguments if word in GARBLED]
    servers = [word for word in arguments if word not in GARBLED]
    if len(kinds) > 1:
        raise LabError(f"give {usage}")
    device = spec.server(_one(servers, _gpu_server(spec), usage)).name
    kind = kinds[0] if kinds else next(iter(GARBLED))
    ask(spec.name, op="update", device=device, key="garbles", value=kind)
    return f"BMC of {device} answers {GARBLED[kind]}", {"device": device}


def _bmc_speaks(spec: LabSpec, undo: Undo) -> None:
    ask(spec.name, op="update", device=undo["device"], key="garbles", value="")


def _update_hangs(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    device = spec.server(_one(arguments, _gpu_server(spec), "one server")).name
    ask(spec.name, op="update", device=device, key="update_hangs", value=True)
    return f"firmware updates of {device} do not end", {"device": device}


def _updates_end(spec: LabSpec, undo: Undo) -> None:
    ask(spec.name, op="update", device=undo["device"], key="update_hangs", value=False)
    ask(spec.name, op="reset_bmc", device=undo["device"])


def _other_identity(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    device = _one(arguments, _gpu_server(spec), "one server, PDU or switch")
    _present(spec, device, OTHER_SERIAL, OTHER_UUID, OTHER_MAC)
    what = {"server": f"serial {OTHER_SERIAL}", "pdu": f"serial {OTHER_SERIAL}", "switch": f"MAC {OTHER_MAC}"}
    return f"{device} presents {what[spec.kind(device)]}", {"device": device}


def _own_identity(spec: LabSpec, undo: Undo) -> None:
    device = undo["device"]
    kind = spec.kind(device)
    if kind == "server":
        server = spec.server(device)
        _present(spec, device, server.serial, server.uuid, "")
    elif kind == "pdu":
        _present(spec, device, spec.pdu(device).serial, "", "")
    else:
        _present(spec, device, "", "", spec.switch(device).mac)


def _present(spec: LabSpec, device: str, serial: str, uuid: str, mac: str) -> None:
    kind = spec.kind(device)
    if kind == "server":
        ask(spec.name, op="update", device=device, key="serial", value=serial)
        ask(spec.name, op="update", device=device, key="uuid", value=uuid)
    elif kind == "pdu":
        ask(spec.name, op="pdu_update", pdu=device, serial=serial)
    else:
        interface = "oob" if spec.switch(device).role == "oob" else "eth0"
        net.ip([f"link set {interface} address {mac}"], spec.namespace(device))
        # The workstation would go on sending to the old MAC until its entry ages.
        net.ip([f"neigh flush dev {spec.uplink('oob')}"], force=True)


def _strip(spec: LabSpec, arguments: Arguments) -> tuple[str, Undo]:
    device = _one(arguments, _gpu_server(spec), "one device")
    _hide(spec, device, True)
    return f"{device} hides that it is simulated", {"device": device}


def _restore(spec: LabSpec, undo: Undo) -> None:
    _hide(spec, undo["device"], False)


def without_marker(os_release: str) -> str:
    """os-release without the lines by which a lab node declares itself: what is left is the distribution's own."""
    return "".join(line for line in os_release.splitlines(keepends=True) if not line.startswith("VARIANT"))


def _hide(spec: LabSpec, device: str, hidden: bool) -> None:
    kind = spec.kind(device)
    if kind == "pdu":
        ask(spec.name, op="pdu_update", pdu=device, hides_marker=hidden)
    elif kind == "server":
        ask(spec.name, op="update", device=device, key="hides_marker", value=hidden)
        pid = node.leader_pid(spec, device)
        root = Path(f"/proc/{pid}/root") if pid else LabPaths(spec.name).device(device) / "disk"
        release = root / "usr/lib/os-release"
        release.parent.mkdir(parents=True, exist_ok=True)
        for gpu in spec.server(device).gpus:
            name = spec.gpu_model.name if spec.gpu_model else ""
            hardware = LabPaths(spec.name).hardware(device)
            gpus.change(hardware, gpu.index, {"name": name if hidden else gpus.MARKER + name})
        honest = (Path(spec.base_root) / "usr/lib/os-release").read_text()
        release.write_text(without_marker(honest) if hidden else honest)
    else:
        pid = switch.init_pid(spec, device)
        if pid is None:
            raise LabError(f"{device} has no power: there is nothing to hide")
        etc = Path(f"/proc/{pid}/root/etc")
        version = switch.nos_version()
        (etc / "os-release").write_text(HIDDEN_OS_RELEASE if hidden else switch.os_release(version))
        (etc / "issue.net").write_text((HIDDEN_BANNER if hidden else switch.SIMULATED_BY) + "\n")
        description = "Example OS 1" if hidden else switch.description(version)
        _run([*switch.inside(spec, device), "lldpcli", "configure", "system", "description", description])


def _until(true: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + RETURN_BUDGET_S
    while not true():
        if time.monotonic() > end:
            raise LabError(f"{otherwise} within {RETURN_BUDGET_S:g} s")
        time.sleep(0.1)


FAULTS = {
    "cable-swap": Fault("the plugs of two in-band cables change places", "[PORT PORT]", _swap, _swap_back),
    "link-down": Fault("an in-band cable is unplugged", "[PORT]", _link_down, _link_up),
    "switch-dead": Fault("a switch stops working, though it has power", "[SWITCH]", _switch_dead, _switch_repaired),
    "outlet-off": Fault("one outlet is switched off at the PDU", "[DEVICE | PDU OUTLET]", _outlet_off, _power_back),
    "node-power-lost": Fault("all outlets of a device are switched off", "[DEVICE]", _power_lost, _power_back),
    "feed-lost": Fault("one feed of a rack loses its power, its PDUs with it", "[RACK FEED]", _feed_lost, _feed_back),
    "switch-config-drift": Fault("a line is configured by hand on a switch", "[SWITCH [LINE]]", _drift, _drift_back),
    "bmc-hang": Fault("a BMC takes connections and never answers", "[SERVER]", _bmc_hang, _bmc_answers),
    "bmc-garbled": Fault(
        "a BMC answers what cannot be read", "[SERVER] [page|json|cut|types]", _bmc_garbled, _bmc_speaks
    ),
    "update-hangs": Fault("a BMC's firmware updates stay at 40 %", "[SERVER]", _update_hangs, _updates_end),
    "identity-changed": Fault("a device presents another serial or MAC", "[DEVICE]", _other_identity, _own_identity),
    **GPU_FAULTS,
    **SCHEDULER_FAULTS,
    **STORAGE_FAULTS,
    "strip-marker": Fault("a device hides that it is simulated", "[DEVICE]", _strip, _restore),
    **IB_FAULTS,
}
