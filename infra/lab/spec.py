"""What the lab builds, as plain data: a LabSpec that survives JSON, so that every daemon of the lab reads the same one.

planned.py makes it from a site and its Plan. This module knows neither, so that the daemons start fast.
"""

import hashlib
import ipaddress
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from infra.lab.paths import LabError

SERVER, SWITCH, PDU = "server", "switch", "pdu"
# A server that is off still feeds its BMC. The share is a modelled value that stands for no product.
STANDBY_SHARE = 0.02
SSH_KEY_EXCHANGE = "curve25519-sha256,curve25519-sha256@libssh.org"
"""All that devices of the lab offer, by both of its names: OpenSSH's default, sntrup761x25519, costs a client 0.1 s of
processor time for each connection, curve25519 0.01 s. The lab's traffic never leaves the machine."""


@dataclass(frozen=True)
class Network:
    """A bridge of the lab with the operator's workstation on it. `host` carries no prefix length."""

    prefix: str
    host: str

    @property
    def length(self) -> int:
        return ipaddress.ip_network(self.prefix).prefixlen

    def cidr(self, address: str) -> str:
        return f"{address}/{self.length}"


@dataclass(frozen=True)
class Gpu:
    """A GPU of a server. index: as the driver counts; slot: the module ID; vbios and inforom: its firmware."""

    index: int
    slot: int
    serial: str
    uuid: str
    pci_bus_id: str
    vbios: str
    inforom: str


@dataclass(frozen=True)
class GpuModel:
    """What all GPUs of the site have in common, from the catalogue."""

    name: str
    tdp_w: float
    memory_gib: float
    pcie_gen: int
    pcie_width: int
    nvlinks: int


@dataclass(frozen=True)
class Server:
    """A server: a BMC that lives on standby power, and an operating system behind it. `components`: what its BMC lists of firmware
    beside its own and the BIOS, with the versions as delivered.
    """

    name: str
    role: str
    model: str
    serial: str
    uuid: str
    bmc_address: str
    bmc_mac: str
    address: str
    mac: str
    ports: tuple[str, ...]
    psus: int
    psus_needed: int
    psu_rating_w: float
    input_v: float
    load_w: float
    bios_version: str
    bmc_version: str
    gpus: tuple[Gpu, ...] = ()
    components: tuple[tuple[str, str], ...] = ()
    cpus: int = 1
    memory_gib: int = 1

    @property
    def standby_w(self) -> float:
        return STANDBY_SHARE * self.load_w


@dataclass(frozen=True)
class Switch:
    """An Ethernet switch. role: spine, leaf or oob (the management switch, which bridges instead of routing)."""

    name: str
    role: str
    model: str
    serial: str
    mac: str
    address: str
    ports: tuple[str, ...]
    psus: int
    psus_needed: int
    input_v: float
    load_w: float


@dataclass(frozen=True)
class IbSwitch:
    """An InfiniBand switch: a node of the simulator, fed by outlets like any other. ports: how many it has."""

    name: str
    role: str
    model: str
    guid: str
    ports: int
    psus_needed: int
    load_w: float


@dataclass(frozen=True)
class Adapter:
    """A host channel adapter with one port: port of the plan, GUID of the port, and its name in the server's system."""

    device: str
    port: str
    guid: str
    rdma_device: str

    @property
    def label(self) -> str:
        """Its node description, as rdma-ndd writes it on a server."""
        return f"{self.device} {self.rdma_device}"


@dataclass(frozen=True)
class Pdu:
    """A switched, metered rack PDU. breaker_a: rating of its circuit; volts: at the outlets; dialect: of its agent."""

    name: str
    model: str
    serial: str
    mac: str
    address: str
    rack: str
    feed: str
    breaker_a: float
    volts: float
    dialect: str = "apc-rpdu2"


@dataclass(frozen=True)
class Outlet:
    """One outlet. device is '' and psu 0 for a spare one."""

    pdu: str
    number: int
    feed: str
    phase: str
    device: str
    psu: int


@dataclass(frozen=True)
class Cable:
    """A cable of the plan; ends are (device, port)."""

    cable_id: str
    a_device: str
    a_port: str
    b_device: str
    b_port: str

    @property
    def ends(self) -> tuple[tuple[str, str], tuple[str, str]]:
        return (self.a_device, self.a_port), (self.b_device, self.b_port)


@dataclass(frozen=True)
class SnmpUser:
    """The SNMPv3 user that the PDUs know; its passphrases are in the lab's secrets."""

    user: str
    auth_protocol: str
    priv_protocol: str


@dataclass(frozen=True)
class LabSpec:
    """Everything `up` builds. Addresses are plain, without prefix length. `workers`: servers that run pods of Kubernetes."""

    name: str
    oob: Network
    provisioning: Network
    snmp: SnmpUser
    bmc_factory_user: str
    switch_user: str
    servers: tuple[Server, ...]
    switches: tuple[Switch, ...]
    pdus: tuple[Pdu, ...]
    outlets: tuple[Outlet, ...]
    cables: tuple[Cable, ...]
    gpu_model: GpuModel | None = None
    gpu_packages: tuple[tuple[str, str], ...] = ()
    cuda: str = ""
    ib_switches: tuple[IbSwitch, ...] = ()
    adapters: tuple[Adapter, ...] = ()
    ib_cables: tuple[Cable, ...] = ()
    ib_address: str = ""
    base_root: str = ""
    debs: str = ""
    gpu_debs: str = ""
    workers: tuple[str, ...] = ()
    kubernetes_debs: str = ""
    bind_read_only: tuple[str, ...] = ()

    # ---- look-ups ------------------------------------------------------------------------------------------
    @property
    def management_switch(self) -> Switch:
        return next(switch for switch in self.switches if switch.role == "oob")

    def server(self, name: str) -> Server:
        return _named(self.servers, name, "server")

    def switch(self, name: str) -> Switch:
        return _named(self.switches, name, "switch")

    def pdu(self, name: str) -> Pdu:
        return _named(self.pdus, name, "PDU")

    def ib_switch(self, name: str) -> IbSwitch:
        return _named(self.ib_switches, name, "InfiniBand switch")

    def kind(self, device: str) -> Literal["server", "switch", "ib_switch", "pdu"]:
        """What a device is; LabError naming the devices there are when it is none."""
        if any(server.name == device for server in self.servers):
            return "server"
        if any(switch.name == device for switch in self.switches):
            return "switch"
        if any(pdu.name == device for pdu in self.pdus):
            return "pdu"
        if any(switch.name == device for switch in self.ib_switches):
            return "ib_switch"
        known = ", ".join(self.names())
        raise LabError(f"lab {self.name} has no device {device}; it has {known}")

    def names(self) -> list[str]:
        """Every device: servers, switches, InfiniBand switches, PDUs."""
        groups: tuple[tuple[Any, ...], ...] = (self.servers, self.switches, self.ib_switches, self.pdus)
        return [item.name for group in groups for item in group]

    # ---- names in the kernel -------------------------------------------------------------------------------
    @property
    def scope(self) -> str:
        """Prefix of every kernel object of this lab."""
        return f"bringup-{self.name}"

    def namespace(self, device: str) -> str:
        """Network namespace of a switch, a running node, `bay` (unpowered ports) or `standby` (PDUs and BMCs)."""
        return f"{self.scope}-{device}"

    def uplink(self, network: Literal["oob", "prv"]) -> str:
        """Interface of the operator's workstation (the root namespace): unique per lab, within the 15 characters."""
        return f"{self.name[:6]}{hashlib.sha256(self.name.encode()).hexdigest()[:4]}-{network}"

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def from_json(text: str) -> "LabSpec":
        data = json.loads(text)
        rows: dict[str, Any] = {
            "servers": Server,
            "switches": Switch,
            "pdus": Pdu,
            "outlets": Outlet,
            "cables": Cable,
            "ib_switches": IbSwitch,
            "adapters": Adapter,
            "ib_cables": Cable,
        }
        for key, kind in rows.items():
            for row in data[key]:
                if isinstance(row.get("ports"), list):
                    row["ports"] = tuple(row["ports"])
                if "components" in row:
                    row["components"] = tuple((item, version) for item, version in row["components"])
                if "gpus" in row:
                    row["gpus"] = tuple(Gpu(**gpu) for gpu in row["gpus"])
            data[key] = tuple(kind(**row) for row in data[key])
        data["oob"], data["provisioning"] = Network(**data["oob"]), Network(**data["provisioning"])
        data["snmp"] = SnmpUser(**data["snmp"])
        data["bind_read_only"] = tuple(data["bind_read_only"])
        data["workers"] = tuple(data["workers"])
        data["gpu_model"] = GpuModel(**data["gpu_model"]) if data["gpu_model"] else None
        data["gpu_packages"] = tuple((name, version) for name, version in data["gpu_packages"])
        return LabSpec(**data)


def _named(items: Iterable[Any], name: str, what: str) -> Any:
    for item in items:
        if item.name == name:
            return item
    raise LabError(f"no {what} {name} in this lab")


def port_mac(lab: str, device: str, port: str) -> str:
    """A stable, locally administered MAC for a port that the plan knows none for (IEEE 802: bit 1 of octet 0 set)."""
    digest = hashlib.sha256(f"{lab}/{device}/{port}".encode()).digest()
    return "02:" + digest[:5].hex(":")
