"""Connections that the matrix of networks allows or denies, tried from every server past its own routes.

    found = probe(plan)                    # one answer a server, signed by it where the site pins host keys
    faults(plan, "gpu001", found.parts["gpu001"])

A server sends the first packet of a TCP connection as a frame to the router that it names, so no route, rule or firewall of its own
decides, and nothing is configured on it. It counts as reached what answers, be it with a refusal. Only what could answer shows
anything: the targets are switches, which know a way back to a server's loopback, and other servers. BMCs and PDUs know none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from typing_extensions import TypedDict

from capacity.model import Plan
from network import separation
from network.drivers import answers
from network.drivers.answers import Line, Source
from network.drivers.credentials import node_credentials
from network.drivers.errors import DeviceError
from network.drivers.parallel import at_once
from network.drivers.ssh import SshHost
from network.render import INBAND, MANAGEMENT_PORT, switches
from validation.evidence.mode import Identity
from validation.facts import node_results
from validation.facts.gather import address_of

PORT = 22
"""SSH: what filters protect first, and open on switches and servers."""
MOST_SWITCHES = 8
"""Other switches that a server tries to reach, those of its own links beside them; on larger sites every n-th."""
ROUNDS, ROUND_S = 3, 1.0
"""How often a packet is sent, and how long an answer is waited for: one that a busy node loses is sent again."""
ACT_BUDGET_S = 20.0
OPERATION = "probe the separation of networks"

PROBE = f"""
import json, os, socket, struct, sys, time
request = json.loads(sys.argv[1])
def total(data):
    number = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    number = (number >> 16) + (number & 0xFFFF)
    return ~(number + (number >> 16)) & 0xFFFF
def mac_of(gateway, device):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        end = time.monotonic() + 2
        while time.monotonic() < end:
            asking.sendto(b"", (gateway, 9))
            time.sleep(0.1)
            for line in open("/proc/net/arp").read().splitlines()[1:]:
                words = line.split()
                if (words[0], words[5]) == (gateway, device) and words[2] != "0x0":
                    return bytes.fromhex(words[3].replace(":", ""))
    raise OSError("no answer to ARP from " + gateway)
def first_packet(one, source_port):
    ends = socket.inet_aton(one["source"]) + socket.inet_aton(one["target"])
    tcp = struct.pack("!HHIIBBHHH", source_port, one["port"], source_port, 0, 5 << 4, 2, 64240, 0, 0)
    tcp = tcp[:16] + struct.pack("!H", total(ends + struct.pack("!BBH", 0, 6, 20) + tcp)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 40, source_port, 0, 64, 6, 0) + ends
    return ip[:10] + struct.pack("!H", total(ip)) + ip[12:] + tcp
hearing = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
sending, unsent, reached = dict(), dict(), set()
first = 20000 + int.from_bytes(os.urandom(2), "big") % 10000
for number, (name, one) in enumerate(request["probes"].items()):
    try:
        sending[name] = (mac_of(one["gateway"], one["device"]), first_packet(one, first + number), first + number)
    except OSError as error:
        unsent[name] = str(error)
for _ in range({ROUNDS}):
    for name in sending.keys() - reached:
        mac, packet, _port = sending[name]
        hearing.sendto(packet, (request["probes"][name]["device"], 0x0800, 0, 0, mac))
    end = time.monotonic() + {ROUND_S}
    while (left := end - time.monotonic()) > 0 and sending.keys() - reached:
        hearing.settimeout(left)
        try:
            data, about = hearing.recvfrom(2048)
        except OSError:
            break
        if about[2] == 4 or len(data) < 40 or data[9] != 6:
            continue
        head = (data[0] & 15) * 4
        if len(data) < head + 14:
            continue
        ports = struct.unpack("!HH", data[head:head + 4])
        for name, (_mac, _packet, source_port) in sending.items():
            one = request["probes"][name]
            if (socket.inet_ntoa(data[12:16]), *ports) == (one["target"], one["port"], source_port):
                reached.add(name)
print(json.dumps(dict(nonce=request["nonce"], reached=sorted(reached), silent=sorted(sending.keys() - reached), unsent=unsent)))
"""


class Probe(NamedTuple):
    """One connection. `device` is the server's interface, `gateway` the address on its segment that the frame goes to."""

    source_network: str
    destination_network: str
    device: str
    gateway: str
    source: str
    target: str


class _Told(TypedDict):
    """What PROBE prints: names of probes."""

    nonce: Line
    reached: list[Line]
    silent: list[Line]
    unsent: dict[Line, Line]


@dataclass(frozen=True)
class Probed:
    """What each server printed, as it signed it; why others printed nothing."""

    parts: Mapping[str, bytes] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    signed: Mapping[str, Identity] = field(default_factory=dict)
    unsigned: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def servers(plan: Plan) -> list[str]:
    """Who is asked."""
    return plan.devices.loc[plan.devices["kind"] == "server", "name"].tolist()


def probes(plan: Plan) -> dict[str, dict[str, Probe]]:
    """{server: {name of a probe: probe}}."""
    rows = plan.addresses[["device", "interface", "address", "network", "peer_device", "peer_interface"]]
    address = {
        (network, device, interface): text.partition("/")[0]
        for device, interface, text, network, _, _ in rows.itertuples(index=False, name=None)
    }
    links: dict[str, list[tuple[str, str, str]]] = {}
    for device, interface, _, network, far, far_port in rows.itertuples(index=False, name=None):
        if network == "link":
            links.setdefault(device, []).append((interface, far, address["link", far, far_port]))
    legs = {device: interface for network, device, interface in address if network == "oob"}
    names, routers = servers(plan), switches(plan)
    managed = {name: address["oob", name, MANAGEMENT_PORT] for name in routers}
    found = {}
    for number, name in enumerate(names):
        own, other = address["loopback", name, "lo"], names[(number + 1) % len(names)]
        far = address["loopback", other, "lo"]
        mine: dict[str, Probe] = {}
        for device, leaf, gateway in links.get(name, []):
            some = {leaf: None, **dict.fromkeys(routers[:: max(1, len(routers) // MOST_SWITCHES)])}
            mine[f"{other} by {leaf}"] = Probe(INBAND, INBAND, device, gateway, own, far)
            for switch in some:
                mine[f"management of {switch} by {leaf}"] = Probe(
                    INBAND, "management", device, gateway, own, managed[switch]
                )
        if name in legs:
            for switch in routers[:: max(1, len(routers) // MOST_SWITCHES)]:
                gateway, leg = managed[switch], address["oob", name, legs[name]]
                mine[f"management of {switch}"] = Probe("management", "management", legs[name], gateway, leg, gateway)
                mine[f"{other} by management of {switch}"] = Probe("management", INBAND, legs[name], gateway, own, far)
        found[name] = mine
    return found


def faults(plan: Plan, name: str, raw: bytes, planned: Mapping[str, Probe]) -> Iterator[str]:
    """What a server's answer shows against the matrix. Raises UnreadableAnswer for what is no answer."""
    source = Source(name, OPERATION)
    told: Any = answers.read(_Told, answers.load(raw.decode(errors="replace"), source), source)
    reached, silent = set(told["reached"]), set(told["silent"])
    if strangers := sorted((reached | silent | set(told["unsent"])) - set(planned)):
        yield f"{name}: tells of {strangers[0]}, which it was not asked"
    shown = set()
    for what, one in planned.items():
        allowed = separation.allows(plan.site, one.source_network, one.destination_network, "tcp", PORT)
        flow = f"{name}: {one.source_network} to {one.destination_network}, {what}"
        if what not in reached | silent:
            yield f"{flow}: not tried: {told['unsent'].get(what, 'it says nothing of it')}"
        elif allowed and what in silent:
            yield f"{flow}: allowed and not reached"
        elif not allowed and what in reached:
            yield f"{flow}: denied and reached"
        elif allowed:
            shown.add(one.device)
    for device in sorted({one.device for one in planned.values()} - shown):
        yield f"{name}: nothing that is allowed was reached by {device}, so silence shows nothing there"


def counted(plan: Plan, planned: Mapping[str, Mapping[str, Probe]]) -> dict[str, int]:
    """How many servers try how many connections that are allowed and denied."""
    flows = [one for mine in planned.values() for one in mine.values()]
    allowed = sum(
        separation.allows(plan.site, one.source_network, one.destination_network, "tcp", PORT) for one in flows
    )
    return {"servers": len(planned), "allowed": allowed, "denied": len(flows) - allowed}


def probe(plan: Plan, store: str = "") -> Probed:
    """Every server tries its connections at once and says what answered.

    store: id of the evidence store that they sign for; '': they sign nothing.
    """
    run, planned = node_results.begin(plan, "separation", store), probes(plan)
    credentials, ssh_s = node_credentials(plan.site), plan.site.timeouts.ssh_s

    def act(name: str) -> Any:
        asked = {what: {**one._asdict(), "port": PORT} for what, one in planned[name].items()}
        host = SshHost(name, address_of(plan, name, "provisioning"), credentials, ACT_BUDGET_S + ssh_s)
        order = run.ordered(name, PROBE, {"nonce": run.nonce, "probes": asked})
        timeout = ("timeout", "--kill-after=1", f"{ACT_BUDGET_S:g}", "python3")
        try:
            said = host.program(node_results.PROGRAM.read_text(), order, python=timeout, operation=OPERATION)
            told: Any = answers.read(node_results.Answer, said, Source(name, OPERATION))
            return node_results.result_of(told, Source(name, OPERATION)), node_results.signature_of(name, told)
        except DeviceError as error:
            return error

    told = at_once(list(planned), act)
    errors = {name: str(one) for name, one in told.items() if isinstance(one, DeviceError)}
    answered = {name: one for name, one in told.items() if not isinstance(one, DeviceError)}
    parts = {name: part for name, (part, _) in answered.items()}
    signed, unsigned = node_results.judged(plan, run, parts, {name: said for name, (_, said) in answered.items()})
    return Probed(parts, errors, signed, unsigned, run.configuration())
