"""Ask every device of a plan what it is and how it is set: PDUs by SNMP, BMCs by Redfish, switches and nodes by SSH, the
InfiniBand fabric by the hosts with subnet managers, and Prometheus what it knows of them all.

In: a Plan (addresses, assets, limits as time budgets). Out: Facts. One bad device never stops the others; it leaves an
Answer with an error. Nothing is changed on any device, with one exception that leaves no trace: a login with the
BMCs' factory account is tried, because only a refused login proves that it is closed.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NotRequired

import pandas as pd
from typing_extensions import TypedDict

from capacity.model import Plan
from inventory.delivered.assets import load_assets
from inventory.secrets import SecretError
from inventory.site.sections.provisioning import Provisioning
from network import discover, roce, switch_ends
from network.discover import Port
from network.drivers import answers
from network.drivers.answers import Line, Source, reading
from network.drivers.credentials import (
    BmcCredentials,
    bmc_credentials,
    factory_credentials,
    node_credentials,
    public_key,
    snmp_credentials,
    switch_credentials,
)
from network.drivers.errors import DeviceError, LoginNotGiven
from network.drivers.parallel import at_once
from network.drivers.pdu import Pdu
from network.drivers.redfish import Bmc
from network.drivers.ssh import SshHost
from network.drivers.switch_agent import SwitchAgent
from network.infiniband import ibdiagnet, parse, subnet
from network.infiniband.manager import ManagerHost
from network.nos import capabilities
from network.nos.choose import driver
from network.nos.driver import Driver, SwitchFacts, TellsLinks
from network.nos.frr.driver import Switch
from network.push import Target as PushTarget
from network.push import compute_targets
from network.render import switches, whole
from validation import readings
from validation.check import site_limit
from validation.evidence import Identity
from validation.evidence.channels import NAMESPACE, challenge
from validation.evidence.mode import PINNED
from validation.evidence.sshsig import MAX_SIGNATURE
from validation.facts import storage, telemetry
from validation.facts.answer import UNREADABLE, Answer, Facts
from validation.facts.shapes import data_of, gpus_of, machine_of
from validation.host_keys import pinned_host_keys

NODE_FACTS = Path(__file__).with_name("node_facts.py").read_text()
GPU_FACTS = Path(__file__).with_name("gpu_facts.py").read_text()
MACHINE_FACTS = Path(__file__).with_name("machine_facts.py").read_text()
MACHINE_BUDGET_S = 120.0
"""What a node is built of: eight parts, each command of them within 20 s, and ten drives one after the other."""
GPU_PYTHON = "/opt/bringup/venv/bin/python"
"""Python with nvidia-ml-py on GPU nodes: the workloads' environment (role `workloads`)."""
OOB_PROBE_BUDGET_S = 2.0
"""A TCP connect that nobody answers within two seconds on a local network counts as cut off."""
OOB_PROBES = 8
"""Devices of each kind that every node tries to reach: enough to notice a missing filter, few enough for 1,000 nodes."""

MOST_AT_PORT = 4
"""MACs that a port may have learned: one of a device, and some for a device that bridges. A choice of ours."""

WAVES = (("pdus", "bmcs", "agents"), ("switches", "roce_switches", "nodes", "subnets", "telemetry"))
"""Agents with budgets of a few seconds first: the answers of nodes and fabric keep this machine's cores busy."""

Read = Callable[[], tuple[dict[str, Any], tuple[Identity, ...]]]
Seen = list[Identity]
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
SIGN = f'set -- ssh-keygen -Y sign -n {NAMESPACE} -f {HOST_KEY}\n[ "$(id -u)" = 0 ] || set -- sudo -n "$@"\nexec "$@"\n'
"""Sign standard input with the host key. Nothing is written: without a file ssh-keygen prints the signature (ssh-keygen(1))."""
AddressBook = Mapping[tuple[str, str], str]


class _Learned(TypedDict):
    """A row of `bridge -j fdb show` (bridge(8)); learned ones have the state ''."""

    mac: Line
    state: NotRequired[Line]


@dataclass(frozen=True)
class Target:
    """One device to ask and the function that asks it."""

    device: str
    channel: str
    read: Read
    seen: Seen = field(default_factory=list, compare=False)
    """What `read` saw of this device and of others beside its answer."""


def gather(plan: Plan, store: str = "", only: Collection[str] | None = None) -> Facts:
    """Facts of all devices of the plan, or of those named in ``only``, asked at the same time. SecretError when a credential cannot
    be read.

    ``store`` is the id of the evidence store for which the devices are challenged; '': nothing is recorded, and none is.
    """
    site = plan.site
    assets, book = load_assets(site), address_book(plan)
    started = datetime.now(UTC).isoformat()
    targets = {
        "pdus": _pdus(plan, book, assets),
        "bmcs": _bmcs(plan, book, assets),
        "switches": _switches(plan, book, assets, store),
        "nodes": _nodes(plan, book, store),
        "subnets": _subnets(plan, book, assets),
        "agents": _agents(plan, book),
        "roce_switches": _roce_switches(plan, assets),
        "telemetry": [Target(name, "prometheus", read) for name, read in telemetry.reads(plan, book).items()],
    }
    answers: dict[str, dict[str, Answer]] = {}
    for wave in WAVES:
        asked = [(kind, target) for kind in wave for target in targets[kind] if only is None or target.device in only]
        answered = at_once(asked, lambda one: _ask(one[1]))
        answers |= {kind: {} for kind in wave}
        for (kind, target), answer in answered.items():
            answers[kind][target.device] = answer
    return Facts(**answers, started=started, ended=datetime.now(UTC).isoformat())


def _ask(target: Target) -> Answer:
    began = time.monotonic()
    try:
        data, identities = target.read()
    except DeviceError as error:
        message, kind = str(error), type(error).__name__
    except (LookupError, TypeError, ValueError, OSError) as error:  # an answer that no driver foresaw
        message, kind = (
            str(Source(target.device, "read facts").unreadable("facts", f"{type(error).__name__}: {error}")),
            UNREADABLE,
        )
    else:
        took, seen = time.monotonic() - began, tuple(target.seen)
        return Answer(target.device, target.channel, data, identities=identities, seconds=took, channels=seen)
    return Answer(target.device, target.channel, error=message, error_kind=kind, seconds=time.monotonic() - began)


def address_of(plan: Plan, device: str, network: str) -> str:
    """The device's address in a network of the plan, without the prefix length; KeyError when it has none."""
    return _address(address_book(plan), device, network)


def address_book(plan: Plan) -> AddressBook:
    """Every device's first address in each network, without the prefix length: for many look-ups at once."""
    rows = plan.addresses.drop_duplicates(["device", "network"])[["device", "network", "address"]]
    return {
        (device, network): address.split("/")[0] for device, network, address in rows.itertuples(index=False, name=None)
    }


def bmc_factory(plan: Plan, assets: pd.DataFrame, book: AddressBook | None = None) -> Callable[[str], Bmc]:
    """What makes the driver of a server's BMC, which knows the server by serial and UUID among the systems it shows.

    It raises LoginNotGiven for a server whose own password cannot be read.
    """
    login, budget_s = bmc_credentials(plan.site, assets), plan.site.timeouts.bmc_s
    known = address_book(plan) if book is None else book
    return lambda name: Bmc(
        _address(known, name, "bmc"),
        login(name),
        budget_s,
        name=name,
        serial=asset(assets, name, "serial"),
        uuid=asset(assets, name, "uuid"),
    )


def _address(book: AddressBook, device: str, network: str) -> str:
    if (device, network) not in book:
        raise KeyError(f"{device} has no {network} address in the plan")
    return book[device, network]


def asset(assets: pd.DataFrame, device: str, column: str) -> str:
    """What the asset list says of a device; '' where it is not listed."""
    return str(assets.at[device, column]) if device in assets.index else ""


def _pdus(plan: Plan, book: AddressBook, assets: pd.DataFrame) -> list[Target]:
    names = plan.devices.loc[plan.devices["kind"] == "pdu", "name"]
    credentials, budget_s = snmp_credentials(plan.site), plan.site.timeouts.snmp_s
    plugged = _plugged_into(plan, set(names))

    def target(name: str) -> Target:
        seen: Seen = []

        def read() -> tuple[dict[str, Any], tuple[Identity, ...]]:
            serial = asset(assets, name, "serial")
            with Pdu(
                _address(book, name, "oob"), credentials, budget_s, name=name, serial=serial, dialect=plan.pdu_dialect
            ) as pdu:
                identity = pdu.identity()
                data = {
                    "identity": dict(identity),
                    "outlets": [dict(outlet) for outlet in pdu.outlets()],
                    "phases": [dict(phase) for phase in pdu.phases()],
                    "power_w": pdu.power_w(),
                }
            if name in plugged:  # after the PDU has answered: a switch forgets a MAC after minutes of silence
                switch, port = plugged[name]
                host = SshHost(
                    switch, _address(book, switch, "oob"), switch_credentials(plan.site), plan.site.timeouts.ssh_s
                )
                seen.extend(seen_at_port(host, port, name))
            return data, (Identity(name, "snmp", identity["sys_descr"], identity["serial"]),)

        return Target(name, "snmp", read, seen)

    return [target(name) for name in names]


def _plugged_into(plan: Plan, names: Collection[str]) -> dict[str, tuple[str, str]]:
    """The out-of-band switch and port of each of these devices, where the site pins the switch's host key."""
    cables, pinned, found = plan.cables[plan.cables["fabric"] == "oob"], pinned_host_keys(plan), {}
    for near, far in (("a", "b"), ("b", "a")):
        columns = [f"{near}_device", f"{far}_device", f"{far}_port"]
        for device, switch, port in cables[columns].itertuples(index=False, name=None):
            if device in names and pinned.get(switch):
                found[str(device)] = (str(switch), str(port))
    return found


def seen_at_port(switch: SshHost, port: str, device: str) -> Seen:
    """The MACs that a switch with Linux (Cumulus, SONiC) and a pinned host key has learned at the port of a device.

    Nothing where it does not tell: then that channel proves nothing. A port with more than `MOST_AT_PORT` leads to no device alone.
    """
    try:
        source = Source(switch.name, "read the MAC table")
        said = switch.run(["bridge", "-j", "fdb", "show", "brport", port]).out
        rows = answers.read(list[_Learned], answers.load(said, source), source)
    except DeviceError:
        return []
    macs = sorted({row["mac"] for row in rows if row.get("state") != "permanent"})
    if len(macs) > MOST_AT_PORT:
        return []
    return [Identity(device, "fdb", f"seen at {port}", mac, observer=switch.name, enrolled=PINNED) for mac in macs]


def _servers(plan: Plan) -> list[str]:
    return plan.devices.loc[plan.devices["kind"] == "server", "name"].tolist()


def _bmcs(plan: Plan, book: AddressBook, assets: pd.DataFrame) -> list[Target]:
    site = plan.site
    made = bmc_factory(plan, assets, book)
    factory_of, login, names = factory_credentials(site, assets), bmc_credentials(site, assets), _servers(plan)
    after = dict(zip(names, names[1:] + names[:1], strict=True)) if len(names) > 1 else {}

    def target(name: str) -> Target:
        def read() -> tuple[dict[str, Any], tuple[Identity, ...]]:
            with made(name) as bmc:
                identity = bmc.identity()
                data: dict[str, Any] = {
                    "identity": dict(identity),
                    "state": dict(bmc.state()),
                    "power_supplies": dict(bmc.psus()),
                    "accounts": [dict(account) for account in bmc.accounts()],
                    "ntp": bmc.ntp(),
                    "protocols": bmc.protocols(),
                    "event_log": [dict(entry) for entry in bmc.sel()],
                    "firmware": bmc.firmware(),
                    "ports": bmc.nics(),
                    **thermal_of(bmc),
                    **log_servers_of(bmc),
                    **boot_trust_of(bmc, site.provisioning),
                    **login_of_other(bmc, after.get(name, ""), login),
                }
                if factory_of:
                    factory = factory_of(name)
                    data["factory_login_refused"] = bmc.login_refused(factory.user, factory.password)
            return data, (Identity(name, "redfish", identity["manufacturer"], identity["serial"]),)

        return Target(name, "redfish", read)

    return [target(name) for name in names]


def login_of_other(bmc: Bmc, other: str, login: Callable[[str], BmcCredentials]) -> dict[str, Any]:
    """Whether this BMC refuses the password of another server's, which proves that not all have the same; {} without another."""
    if not other:
        return {}
    try:
        theirs = login(other)
    except LoginNotGiven:
        return {}
    return {"login_of_other": {"server": other, "refused": bmc.login_refused(theirs.user, theirs.password)}}


def thermal_of(bmc: Bmc) -> dict[str, Any]:
    """The BMC's fans and temperatures, or why they could not be read: the rest of its answer still counts."""
    try:
        return {"thermal": dict(bmc.thermal())}
    except DeviceError as error:
        return {"thermal_unread": str(error)}


def log_servers_of(bmc: Bmc) -> dict[str, Any]:
    """The BMC's log servers, or why they could not be read: the rest of its answer still counts."""
    try:
        return {"log_servers": dict(bmc.log_servers())}
    except DeviceError as error:
        return {"log_servers_unread": str(error)}


def boot_trust_of(bmc: Bmc, asked: Provisioning) -> dict[str, Any]:
    """Secure boot and TPMs of a server whose site asks for either, or why they could not be read."""
    if asked.secure_boot is None and asked.encrypt is None:
        return {}
    try:
        found = bmc.secure_boot()
        return {"secure_boot": found and dict(found), "tpms": [dict(tpm) for tpm in bmc.tpms()]}
    except DeviceError as error:
        return {"boot_trust_unread": str(error)}


def signed_challenge(site: str, store: str, host: SshHost, serial: str) -> Seen:
    """The device's signature of a new random message by its host key; none where it cannot sign: then nothing is proven."""
    message = challenge(site, store, host.name, datetime.now(UTC))
    try:
        said = host.run(SIGN, stdin=message.encode()).out
    except DeviceError:
        return []
    given = {"enrolled": PINNED, "message": message, "signature": said[: MAX_SIGNATURE + 1]}
    return [Identity(host.name, "ssh-signature", "", serial, **given)]


def seen_in_lldp(observer: str, ports: Mapping[str, Port], known: Collection[str]) -> Seen:
    """What a switch with a pinned host key sees of its neighbours: the chassis MAC that each of them announces."""
    return [
        Identity(port["far"], "lldp", f"seen at {name}", port["far_mac"], observer=observer, enrolled=PINNED)
        for name, port in ports.items()
        if port.get("far_mac") and port["far"] in known and port["far"] != observer
    ]


def seen_by_agent(agent: SwitchAgent) -> Seen:
    """What a switch's SNMP agent says of its chassis; nothing where no agent answers: then that channel proves nothing."""
    try:
        chassis = agent.chassis()
    except DeviceError:
        return []
    return [Identity(agent.name, "snmp", chassis["sys_descr"], chassis["serial"])]


def seen_in_node(node: str, data: Mapping[str, Any], names: Mapping[str, str]) -> Seen:
    """What a node with a pinned host key shows: its GPUs, its host channel adapters as read, and MACs of its neighbours.

    `names` gives the device at each address that it was asked for.
    """
    devices = data.get("gpus", {}).get("devices", [])
    return [
        *(Identity(node, "nvml", gpu["name"], gpu["uuid"], enrolled=PINNED) for gpu in devices if not gpu["error"]),
        *(Identity(node, "guid", port, guid, enrolled=PINNED) for port, guid in data.get("guids", {}).items()),
        *(
            Identity(names[address], "arp", f"seen at {address}", mac, observer=node, enrolled=PINNED)
            for address, mac in data.get("macs", {}).items()
            if address in names
        ),
    ]


def _switches(plan: Plan, book: AddressBook, assets: pd.DataFrame, store: str) -> list[Target]:
    credentials, enrolled = switch_credentials(plan.site), plan.site.credentials.switch.host_keys
    known, snmp = set(plan.devices["name"]), snmp_credentials(plan.site)
    cabled = readings.cabled_ports(plan, "inband")

    def target(name: str) -> Target:
        seen: Seen = []

        def read() -> tuple[dict[str, Any], tuple[Identity, ...]]:
            address = _address(book, name, "oob")
            with Switch(name, address, credentials, mgmt_mac=asset(assets, name, "mgmt_mac")) as switch:
                facts, data = read_back(switch, whole(plan, name))
            host = SshHost(name, address, credentials, plan.site.timeouts.ssh_s)
            data |= neighbours_of(host)
            data["machine"] = machine(host, {"ethtool": cabled.get(name, [])})
            if enrolled == PINNED:
                seen.extend(seen_in_lldp(name, data["lldp"], known))
                if store:
                    seen.extend(signed_challenge(plan.site.name, store, host, facts.mgmt_mac))
                seen.extend(seen_by_agent(SwitchAgent(address, snmp, plan.site.timeouts.snmp_s, name=name)))
            return data, (Identity(name, "ssh", facts.banner, facts.mgmt_mac, enrolled=enrolled),)

        return Target(name, "ssh", read, seen)

    return [target(name) for name in switches(plan)]


def neighbours_of(host: SshHost) -> dict[str, Any]:
    """{"lldp": ports of a switch with their neighbours}; where they cannot be read, none and why."""
    try:
        return {"lldp": discover.lldp(host)}
    except DeviceError as error:
        return {"lldp": {}, "lldp_error": str(error), "lldp_error_kind": type(error).__name__}


def read_back(switch: Driver, config: str) -> tuple[SwitchFacts, dict[str, Any]]:
    """What a switch says of itself, what it runs, and how that differs from a configuration."""
    facts = switch.facts()
    return facts, {
        "hostname": facts.hostname,
        "mgmt_mac": facts.mgmt_mac,
        "version": facts.version,
        "banner": facts.banner,
        "ports": {port: {"state": state, "mtu": mtu} for port, (state, mtu) in facts.ports.items()},
        "held": None if facts.held is None else list(facts.held),
        "running": switch.get(),
        "diff": switch.compare(config),
        "saved": switch.saved(),
        "neighbours": switch.neighbours(),
    }


def _roce_switches(plan: Plan, assets: pd.DataFrame) -> list[Target]:
    """Compute switches of a RoCE site through the driver of their system; none where they get no configuration."""
    system = plan.site.fabric.nos
    if system is None or not roce.is_rendered(plan):
        return []
    over_https = capabilities(system).get("interface") == "https"
    channel, enrolled = ("https", "") if over_https else ("ssh", plan.site.credentials.switch.host_keys)
    try:
        wanted = compute_targets(plan, assets, public_key=public_key(plan.site, "switch"))
    except (SecretError, roce.PublicKeyError) as error:
        return [_without_login(name, str(error)) for name in roce.switches(plan)]

    cabled = readings.cabled_ports(plan, "compute")

    def target(asked: PushTarget) -> Target:
        def read() -> tuple[dict[str, Any], tuple[Identity, ...]]:
            with driver(system)(asked.name, asked.address, asked.credentials, mgmt_mac=asked.mgmt_mac) as switch:
                facts, data = read_back(switch, asked.config)
                data |= _link_ends(switch, cabled.get(asked.name, []))
            shown = data_of("roce_switches", asked.name, data)
            return shown, (Identity(asked.name, channel, facts.version, facts.mgmt_mac, enrolled=enrolled),)

        return Target(asked.name, channel, read)

    return [target(one) for one in wanted]


def link_ends_again(plan: Plan, facts: Facts) -> dict[str, dict[str, Any]]:
    """{switch: {"ends": {port: what its system says of its end now}}} of the compute switches whose ends the facts have, where the
    system does not show since when it counts; {"ends_error": why} of a switch that does not answer any more.
    """
    system = plan.site.fabric.nos
    known = {name: answer.data["ends"] for name, answer in facts.roce_switches.items() if answer.data.get("ends")}
    if system is None or system not in switch_ends.READ_TWICE or not known:
        return {}
    asked = {one.name: one for one in compute_targets(plan, load_assets(plan.site), only=list(known))}

    def read(name: str) -> dict[str, Any]:
        one = asked[name]
        try:
            with driver(system)(name, one.address, one.credentials, mgmt_mac=one.mgmt_mac) as switch:
                return _link_ends(switch, list(known[name]))
        except DeviceError as error:
            return {"ends_error": str(error)}

    return at_once(asked, read)


def _link_ends(switch: Driver, ports: Sequence[str]) -> dict[str, Any]:
    """What a switch says of its ends of links: {} where its driver reads none, the error instead of it where it fails."""
    if not isinstance(switch, TellsLinks):
        return {}
    try:
        return {"ends": switch.link_ends(ports)}
    except DeviceError as error:
        return {"ends_error": str(error)}


def _without_login(name: str, why: str) -> Target:
    def read() -> tuple[dict[str, Any], tuple[Identity, ...]]:
        raise LoginNotGiven(name, "log in", "a login of credentials.switch", why, "correct it in the site file")

    return Target(name, "", read)


def _agents(plan: Plan, book: AddressBook) -> list[Target]:
    """SNMP agents of the compute fabric's switches, where it is Ethernet: no other channel to them is read."""
    if plan.site.fabric.kind != "roce":
        return []
    credentials, budget_s = snmp_credentials(plan.site), plan.site.timeouts.snmp_s
    names = plan.devices.loc[(plan.devices["kind"] == "switch") & (plan.devices["fabric"] == "compute"), "name"]

    def target(name: str) -> Target:
        def read() -> tuple[dict[str, Any], tuple[Identity, ...]]:
            said = SwitchAgent(_address(book, name, "oob"), credentials, budget_s, name=name).chassis()
            return data_of("agents", name, said), (Identity(name, "snmp", said["sys_descr"], said["serial"]),)

        return Target(name, "snmp", read)

    return [target(name) for name in names]


def probes(plan: Plan, node: str, book: AddressBook) -> dict[str, Any]:
    """What a node is asked to try: DF pings to other nodes over the in-band network, and connections to the
    out-of-band network, which must all fail."""
    payload_b = int(site_limit(plan.site, "df_ping_payload_b").value)
    own = _address(book, node, "loopback")
    return {
        "pings": [
            {"device": other, "target": _address(book, other, "loopback"), "source": own, "payload_b": payload_b}
            for other in readings.pinged(plan, node)
        ],
        "connects": [
            {
                "device": device,
                "target": _address(book, device, network),
                "port": port,
                "budget_s": OOB_PROBE_BUDGET_S,
            }
            for devices, network, port in ((_servers(plan), "bmc", 443), (switches(plan), "oob", 22))
            for device in devices[:OOB_PROBES]
        ],
        "silent": [
            {"device": pdu, "target": _address(book, pdu, "oob")}
            for pdu in plan.devices.loc[plan.devices["kind"] == "pdu", "name"].tolist()[:OOB_PROBES]
        ],
    }


def gpus(host: SshHost, budget_s: float | None) -> dict[str, Any]:
    """What the GPUs of a node say (gpu_facts.py has the shape). What hinders all of it is under "error", not raised:
    the rest of the node's answer still counts. budget_s: for one GPU."""
    request = {} if budget_s is None else {"budget_s": budget_s}
    try:
        said = host.program(GPU_FACTS, request, python=(GPU_PYTHON,), operation="GPU facts")
        return gpus_of(said, Source(host.name, "GPU facts", f"run {GPU_PYTHON} on the node by hand"))
    except DeviceError as error:
        return {"error": str(error), "error_kind": type(error).__name__, "count": 0, "devices": []}


def machine(host: SshHost, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a node is built of (machine_facts.py has the shape). As with gpus(), an error stands under "error"."""
    try:
        said = host.program(MACHINE_FACTS, request or {}, budget_s=MACHINE_BUDGET_S, operation="machine facts")
        return machine_of(said, Source(host.name, "machine facts", "run python3 on the node by hand"))
    except DeviceError as error:
        return {"error": str(error), "error_kind": type(error).__name__}


def _nodes(plan: Plan, book: AddressBook, store: str) -> list[Target]:
    credentials, budget_s = node_credentials(plan.site), plan.site.timeouts.ssh_s
    enrolled = plan.site.credentials.ssh.host_keys
    pdus = plan.devices.loc[plan.devices["kind"] == "pdu", "name"]
    neighbours = {book[pdu, "oob"]: pdu for pdu in pdus if (pdu, "oob") in book}
    with_gpus = set(plan.devices.loc[plan.devices["role"] == "gpu", "name"])

    def target(name: str) -> Target:
        seen: Seen = []

        def read() -> tuple[dict[str, Any], tuple[Identity, ...]]:
            host = SshHost(name, _address(book, name, "provisioning"), credentials, budget_s)
            request = probes(plan, name, book)
            if enrolled == PINNED:
                request |= {"guids": True, "macs": list(neighbours) if (name, "oob") in book else []}
            answer = host.program(NODE_FACTS, request, operation="read facts")
            with reading(Source(name, "read facts", "run python3 on the node by hand"), "facts and errors"):
                data = data_of("nodes", name, {**answer["facts"], "errors": answer["errors"]})
            release = "\n".join(f"{key}={value}" for key, value in data["os_release"].items())
            uuid = data["identity"]["uuid"]
            if name in with_gpus:
                data["gpus"] = gpus(host, plan.site.timeouts.gpu_s)
            data["machine"] = machine(host)
            data["storage"] = storage.ask(host, storage.request(plan, name))
            if enrolled == PINNED:
                seen.extend(seen_in_node(name, data, neighbours))
                if store:
                    seen.extend(signed_challenge(plan.site.name, store, host, uuid))
            return data, (Identity(name, "os-release", release, uuid, enrolled=enrolled),)

        return Target(name, "ssh", read, seen)

    return [target(name) for name in _servers(plan)]


def _subnets(plan: Plan, book: AddressBook, assets: pd.DataFrame) -> list[Target]:
    credentials, guids = node_credentials(plan.site), subnet.guid_book(assets)
    budget_s, enrolled = plan.site.timeouts.infiniband_s, plan.site.credentials.ssh.host_keys

    def target(name: str) -> Target:
        def read() -> tuple[dict[str, Any], tuple[Identity, ...]]:
            host = ManagerHost(name, _address(book, name, "provisioning"), credentials)
            with reading(
                Source(name, "read the fabric", "run ibnetdiscover on the host by hand"), "what infiniband-diags print"
            ):
                fabric = fabric_data(host.fabric(budget_s))
            data = data_of("subnets", name, {**fabric, "diagnosed": diagnosed(host, budget_s)})
            port = subnet.manager_port(plan, name)
            read_guid, label = own_adapter(data, guids.get(port, ""))
            return data, (Identity(port, "guid", label, read_guid, enrolled=enrolled),)

        return Target(name, "infiniband", read)

    return [target(name) for name in subnet.managers(plan)]


def diagnosed(host: ManagerHost, budget_s: float, **how: Any) -> dict[str, Any]:
    """What ibdiagnet writes on a host (network.infiniband.ibdiagnet.facts). As with gpus(), an error stands under "error": not
    every host has ibdiagnet, and without it the rest of the fabric's answer still counts.
    """
    source = Source(host.name, "read facts: ibdiagnet", "run ibdiagnet on the host by hand")
    try:
        files = host.diagnose(budget_s, **how)
        with reading(source, "files of ibdiagnet"):
            return ibdiagnet.facts(files)
    except DeviceError as error:
        return {"error": str(error)}


def own_adapter(data: Mapping[str, Any], planned: str) -> tuple[str, str]:
    """(GUID, description) of the adapter through which a host read the fabric, as it was read and never as planned.

    The host's own manager names its port; without one it is the planned port, if the fabric has it; else nothing is known.
    """
    guid = data["own"]["guid"] if data["own"] else planned
    return next(((row[1], row[3]) for row in data["nodes"] if row[1] == guid), ("", ""))


def fabric_data(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What a host's tools said of the fabric, as plain data; ValueError for output that is none.

    nodes, links: rows of parse.Discovery; systems as there. own, master: the host's own manager and the master (None: no answer).
    engine: routing engine that the host's manager used last. errors: {'GUID/port': {counter: value}}; errors_unread: why
    they could not be read. pkeys: {port
    GUID: [keys]}. lanes, arbitration: {'switch GUID/port': tables} of the first and last linked port of each switch; where
    input ports have equal lanes, these are given once.
    """
    found = parse.discovery(answer["ibnetdiscover"])
    try:
        counters, unread = parse.counters(answer["ibqueryerrors"]), ""
    except ValueError as error:  # from a host that is cut off, or while the subnet is set up again
        counters, unread = {}, str(error)

    def manager(text: str) -> dict[str, Any] | None:
        return parse.subnet_manager(text) if text else None

    return {
        "nodes": found.nodes.to_numpy().tolist(),
        "links": found.links.to_numpy().tolist(),
        "systems": dict(found.systems),
        "own": manager(answer["manager"]["own"]),
        "master": manager(answer["manager"]["master"]),
        "engine": answer["engine"],
        "errors": {f"{guid}/{port}": values for (guid, port), values in counters.items()},
        "errors_unread": unread,
        "pkeys": {guid: sorted(parse.pkeys(text)) for guid, text in answer["pkeys"].items() if text},
        "lanes": {port: sorted(set(map(tuple, parse.lanes(text)))) for port, text in answer["lanes"].items() if text},
        "arbitration": {
            port: {
                which: {str(lane): weight for lane, weight in weights.items()}
                for which, weights in parse.arbitration(text).items()
            }
            for port, text in answer["arbitration"].items()
            if text
        },
    }


def identities(answers: Iterable[Answer | None]) -> tuple[Identity, ...]:
    """The identities of all answers that are there."""
    return tuple(identity for answer in answers if answer for identity in answer.identities)
