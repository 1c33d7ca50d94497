"""The in-band network of the demo: this machine stands for all leaves and spines, and routes between the servers' links.

    ports = inband_ports(plan, ["gpu001", "gpu002", "ctl01"])
    commands(ports, 9000, taps={...})        lines of `ip -batch` in the segment's namespace

A server's end of each link is what Ansible configures. The other end has the address of the leaf's port in the plan.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from capacity.model import Plan
from infra.lab.spec import port_mac


@dataclass(frozen=True)
class Port:
    """A server's in-band port: the leaf's address with prefix length on its link, its own address, and the server's loopback
    address. `tap` is the interface of this machine at the other end.
    """

    device: str
    name: str
    mac: str
    leaf: str
    own: str
    loopback: str
    tap: str


def inband_ports(plan: Plan, devices: Iterable[str]) -> list[Port]:
    """The in-band ports of these servers, in the order of devices and ports."""
    links = plan.addresses[plan.addresses["network"] == "link"]
    loopbacks = plan.addresses[plan.addresses["network"] == "loopback"].set_index("device")["address"]
    by_port = {(row.device, row.interface): str(row.address) for row in links.itertuples(index=False)}
    found = []
    for number, device in enumerate(devices):
        rows = links[links["device"] == device].sort_values("interface")
        for row in rows.itertuples(index=False):
            found.append(
                Port(
                    device,
                    str(row.interface),
                    port_mac(plan.site.name, device, str(row.interface)),
                    by_port[row.peer_device, row.peer_interface],
                    str(row.address).partition("/")[0],
                    str(loopbacks[device]).partition("/")[0],
                    f"ib{number}-{row.interface}",
                )
            )
    return found


def commands(ports: Sequence[Port], mtu: int, peers: Mapping[str, str]) -> list[str]:
    """Lines of `ip -batch`: the ends on this machine, up with their addresses, and a route over all links to each server.

    `peers`: by tap, what is at the other end where it is no virtual machine ("eth1 netns NAME": the peer of a veth).
    """
    lines = []
    for port in ports:
        peer = peers.get(port.tap)
        lines += (
            [f"link add {port.tap} type veth peer name {peer}"] if peer else [f"tuntap add dev {port.tap} mode tap"]
        )
        lines += [f"link set {port.tap} mtu {mtu} up", f"addr add {port.leaf} dev {port.tap}"]
    for loopback in dict.fromkeys(port.loopback for port in ports):
        hops = [f"nexthop via {port.own} dev {port.tap} onlink" for port in ports if port.loopback == loopback]
        lines.append(f"route add {loopback}/32 {' '.join(hops)}")
    return lines
