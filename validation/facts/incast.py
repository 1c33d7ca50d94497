"""An incast over the compute fabric of a RoCE site: several servers write to one adapter, and every counter on the way is read
before, meanwhile and after (S055, S056).

    wanted = planned(plan)                  # who sends to whom, and whose counters count
    said = run(plan, wanted)                # plain data, which validation/incast.py judges

The load is perftest's ib_write_bw over the connection manager, marked as all connections of a server are. It disturbs jobs that run
meanwhile, so it comes after all other acts that share the fabric.
"""

import re
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from capacity.model import Plan
from inventory.delivered.assets import load_assets
from inventory.secrets import SecretError
from network import roce
from network.drivers import answers
from network.drivers.answers import Line, Source, Text, Whole
from network.drivers.credentials import node_credentials, public_key
from network.drivers.errors import DeviceError
from network.drivers.parallel import at_once
from network.drivers.ssh import SshHost
from network.infiniband.wire import FABRIC
from network.nos.choose import driver
from network.nos.driver import CountsQueues
from network.push import Target, compute_targets
from network.roce_host import wanted as rails_wanted
from validation.facts.gather import address_of

PROGRAM = Path(__file__).with_name("incast_node.py").read_text()
OPERATION = "try the lossless class"
LOAD = "put a load on the fabric"
SENDERS = 8
"""Two of them overload a port already; eight give a queue that ECN has to hold down."""
SECONDS = 20
"""Of load: counters are read about twenty times meanwhile."""
READY_S, SETTLE_S, SAMPLE_S = 3.0, 5.0, 1.0
"""Until receivers listen; from the end of the load to the last reading; between two readings meanwhile."""
SPARE_S = 30.0
"""For an answer of a server, and for a sender beyond its load: login and start of the program included."""
FIRST_PORT = 18515
"""perftest's own."""
_PRIORITY = re.compile(r"([rt])x_prio([0-7])_(packets|pause|discards|buf_discard)")
_WORDS = {
    ("t", "packets"): "sent",
    ("r", "packets"): "received",
    ("t", "pause"): "pauses_sent",
    ("r", "pause"): "pauses_received",
}
_HARDWARE = {"np_cnp_sent": "notified", "rp_cnp_handled": "slowed", "np_ecn_marked_roce_packets": "arrived_marked"}
READS_NO_QUEUES = "the driver of {0} reads no counters of queues and pauses: read them on the switch by hand"


@dataclass(frozen=True)
class Flow:
    """One sender: its rail, the address that it sends from, and the receiver's TCP port."""

    server: str
    rail: str
    source: str
    port: int


@dataclass(frozen=True)
class Incast:
    """``ports`` {switch: its ports on the way}; ``cables`` ends of the links on the way, both of whose counters are read."""

    receiver: str
    rail: str
    target: str
    flows: tuple[Flow, ...]
    ports: Mapping[str, tuple[str, ...]]
    cables: tuple[tuple[str, str], ...]

    @property
    def rails(self) -> dict[str, list[str]]:
        """{server: its rails that send or receive}."""
        found: dict[str, list[str]] = {self.receiver: [self.rail]}
        for flow in self.flows:
            found.setdefault(flow.server, []).append(flow.rail)
        return {server: sorted(set(rails)) for server, rails in found.items()}


class Counted(TypedDict):
    counters: dict[Line, dict[Line, Whole]]


class Sent(TypedDict):
    status: Whole
    printed: Text


def planned(plan: Plan) -> Incast | None:
    """Half of the senders on the receiver's rail, by its leaf alone, half on the next rail, by the spines. None where the plan
    gives rails no addresses, or has fewer than two GPU servers.
    """
    rails = {
        server: {rail["name"]: str(rail["settings"]["addresses"][0]).partition("/")[0] for rail in one["rails"]}
        for server, one in rails_wanted(plan).items()
    }
    if len(rails) < 2:
        return None
    receiver, *others = rails
    own = list(rails[receiver])
    chosen = [(server, own[number % 2] if len(own) > 1 else own[0]) for number, server in enumerate(others[:SENDERS])]
    flows = tuple(
        Flow(server, rail, rails[server][rail], FIRST_PORT + number) for number, (server, rail) in enumerate(chosen)
    )
    ends = {f"{receiver}:{own[0]}", *(f"{flow.server}:{flow.rail}" for flow in flows)}
    cables = plan.cables[plan.cables["fabric"] == FABRIC]
    every = [
        (f"{a}:{a_port}", f"{b}:{b_port}", a, b)
        for a, a_port, b, b_port in cables[["a_device", "a_port", "b_device", "b_port"]].itertuples(
            index=False, name=None
        )
    ]
    leaves = {b for one, _, _, b in every if one in ends}
    higher = {
        other for _, _, a, b in every for near, other in ((a, b), (b, a)) if near in leaves and other not in rails
    }
    switches = leaves | (higher - leaves if len(leaves) > 1 else set())
    way = tuple((one, other) for one, other, a, b in every if one in ends or (a in switches and b in switches))
    ports: dict[str, list[str]] = {}
    for end in (end for both in way for end in both):
        device, _, port = end.partition(":")
        if device not in rails:
            ports.setdefault(device, []).append(port)
    kept = {switch: tuple(sorted(set(names))) for switch, names in ports.items()}
    return Incast(receiver, own[0], rails[receiver][own[0]], flows, kept, way)


def run(plan: Plan, wanted: Incast) -> dict[str, Any]:
    """The incast, and the counters of all ends on the way: {"before", "after", "later": {end: counters}, "samples": [[seconds,
    sums of counters of the receiver's leaf]], "flows": {sender: what it printed}, "errors": {device: why}}. Seconds are from the
    start of the load.
    """
    system = str(plan.site.fabric.nos)
    errors: dict[str, str] = {}
    try:
        targets = compute_targets(plan, load_assets(plan.site), list(wanted.ports), public_key(plan.site, "switch"))
    except (SecretError, roce.PublicKeyError, ValueError) as error:
        return {"errors": {name: str(error) for name in wanted.ports}}
    by_name = {one.name: one for one in targets}
    if not hasattr(driver(system), "queue_counters"):
        return {"errors": dict.fromkeys(wanted.ports, READS_NO_QUEUES.format(system))}
    hosts = Hosts(plan)
    before = _count(system, by_name, hosts, wanted, errors)
    if errors:
        return {"errors": errors}
    leaf = leaf_of(wanted)
    sampled = _Sampler(system, by_name[leaf], to_servers(wanted, leaf))
    began = time.monotonic()
    printed = _load(hosts, wanted, sampled, errors)
    after = _count(system, by_name, hosts, wanted, errors)
    time.sleep(SETTLE_S)
    later = _count(system, by_name, hosts, wanted, errors)
    samples = [[round(at - began, 3), counters] for at, counters in sampled.seen]
    if sampled.error:
        errors[leaf] = sampled.error
    return {
        "incast": asdict(wanted),
        "before": before,
        "after": after,
        "later": later,
        "samples": samples,
        "flows": printed,
        "errors": errors,
    }


def leaf_of(wanted: Incast) -> str:
    """The receiver's leaf, whose port to it is overloaded."""
    end = next(other for one, other in wanted.cables if one == f"{wanted.receiver}:{wanted.rail}")
    return end.partition(":")[0]


def to_servers(wanted: Incast, leaf: str) -> list[str]:
    """Ports of a leaf on the way to servers: that to the receiver marks, those to senders on its own rail pause."""
    mine = [other.partition(":") for one, other in wanted.cables if one.partition(":")[0] in wanted.rails]
    return [port for device, _, port in mine if device == leaf]


class Hosts:
    """Servers by name, over SSH."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._credentials = plan, node_credentials(plan.site)

    def ask(self, name: str, request: Mapping[str, Any], budget_s: float) -> Any:
        host = SshHost(name, address_of(self._plan, name, "provisioning"), self._credentials, budget_s)
        said = host.program(PROGRAM, dict(request), operation=LOAD)
        source = Source(name, LOAD, "run perftest on the server by hand")
        answer = answers.read(dict[Line, Any], said, source)
        if "error" in answer:
            raise source.unreadable("an answer", answers.line(str(answer["error"])))
        return answer


def _count(
    system: str, targets: Mapping[str, Target], hosts: Hosts, wanted: Incast, errors: dict[str, str]
) -> dict[str, dict[str, int]]:
    """Counters of every end on the way; why one is not known goes to `errors`."""

    def of(name: str) -> dict[str, dict[str, int]] | DeviceError:
        try:
            if name in targets:
                return switch_counters(system, targets[name], wanted.ports[name])
            said = hosts.ask(name, {"do": "count", "rails": wanted.rails[name]}, SPARE_S)
            counted: Any = answers.read(Counted, said, Source(name, OPERATION))["counters"]
            return {rail: in_one_word(counters) for rail, counters in counted.items()}
        except DeviceError as error:
            return error

    found: dict[str, dict[str, int]] = {}
    for name, said in at_once([*targets, *wanted.rails], of).items():
        if isinstance(said, DeviceError):
            errors[name] = str(said)
        else:
            found |= {f"{name}:{port}": counters for port, counters in said.items()}
    return found


def switch_counters(system: str, target: Target, ports: Collection[str]) -> dict[str, dict[str, int]]:
    """Counters of a switch's ports, as its driver reads them."""
    with driver(system)(target.name, target.address, target.credentials, mgmt_mac=target.mgmt_mac) as switch:
        if not isinstance(switch, CountsQueues):
            raise TypeError(READS_NO_QUEUES.format(system))
        return switch.queue_counters(ports)


def in_one_word(counters: Mapping[str, int]) -> dict[str, int]:
    """A server's counters by the names that switches have them by: 'sent/3', 'pauses_received/3', 'dropped/3', 'notified'."""
    found: dict[str, int] = {}
    for name, number in counters.items():
        if (part := _PRIORITY.fullmatch(name)) is None:
            found[_HARDWARE.get(name, name)] = number
        elif part[3] in ("discards", "buf_discard"):
            word = f"dropped/{part[2]}"
            found[word] = found.get(word, 0) + number
        else:
            found[f"{_WORDS[part[1], part[3]]}/{part[2]}"] = number
    return found


class _Sampler:
    """Reads ports of one switch again and again until `stop`, and keeps the sum over them."""

    def __init__(self, system: str, target: Target, ports: list[str]) -> None:
        self.seen: list[tuple[float, dict[str, int]]] = []
        self.error = ""
        self._stop = threading.Event()
        self._asked = (system, target, ports)

    def __call__(self) -> None:
        system, target, ports = self._asked
        while not self._stop.is_set():
            try:
                each = switch_counters(system, target, ports).values()
            except DeviceError as error:
                self.error = str(error)
                return
            names = {name for one in each for name in one}
            self.seen.append(
                (time.monotonic(), {name: sum(one.get(name, 0) for one in each) for name in sorted(names)})
            )
            self._stop.wait(SAMPLE_S)

    def stop(self) -> None:
        self._stop.set()


def _load(hosts: Hosts, wanted: Incast, sampled: _Sampler, errors: dict[str, str]) -> dict[str, str]:
    """Let all senders write at once; what each printed."""
    whole_s = READY_S + SECONDS + SPARE_S
    receiving = {
        "do": "receive",
        "rail": wanted.rail,
        "ports": [flow.port for flow in wanted.flows],
        "seconds": SECONDS,
        "budget_s": whole_s,
    }

    def send(flow: Flow) -> str | DeviceError:
        request = {"do": "send", "rail": flow.rail, "source": flow.source, "target": wanted.target, "port": flow.port}
        try:
            said = hosts.ask(
                flow.server, {**request, "seconds": SECONDS, "budget_s": SECONDS + SPARE_S}, whole_s + SPARE_S
            )
            sent: Any = answers.read(Sent, said, Source(flow.server, OPERATION))
        except DeviceError as error:
            return error
        return (
            str(sent["printed"]) if sent["status"] == 0 else f"exit status {sent['status']}: {sent['printed'][-300:]}"
        )

    def receive() -> None:
        try:
            hosts.ask(wanted.receiver, receiving, whole_s + SPARE_S)
        except DeviceError as error:
            errors[wanted.receiver] = str(error)

    threads = [threading.Thread(target=receive), threading.Thread(target=sampled)]
    try:
        for one in threads:
            one.start()
        time.sleep(READY_S)
        told = at_once(list(wanted.flows), send)
    finally:
        sampled.stop()
        for one in threads:
            one.join()
    errors |= {flow.server: str(said) for flow, said in told.items() if isinstance(said, DeviceError)}
    return {f"{flow.server}:{flow.rail}": str(said) for flow, said in told.items() if not isinstance(said, DeviceError)}


def ends(wanted: Incast) -> Iterator[str]:
    """Every end whose counters count."""
    yield from dict.fromkeys(end for both in wanted.cables for end in both)
