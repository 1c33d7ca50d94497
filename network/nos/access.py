"""What an out-of-band switch is configured with, whatever its system: the input of its rendering (`AccessConfig`) and what that is
read back to and compared by (`AccessModel`).

Two networks share the switches, each as a VLAN: management (BMCs, PDUs, switches) and provisioning (the servers' first port).
Nothing routes between them. The switch itself has an address in the first.
"""

from dataclasses import dataclass

from network.nos.model import Management

PRIORITY = 32768
"""Of a bridge that nobody gave one (IEEE 802.1D-2004, table 17-2)."""
ROOT_PRIORITY = 4096
"""Of the root: the lowest but 0, in the steps of 4096 that the table allows."""


@dataclass(frozen=True)
class AccessPort:
    """One cabled port. `vlan` of what is plugged in, untagged; None on ports to other out-of-band switches, which carry all."""

    name: str
    far: str
    far_port: str
    vlan: int | None


@dataclass(frozen=True)
class AccessConfig:
    """Everything that the configuration of one out-of-band switch says.

    ``management``  its port is the interface of the management VLAN
    ``vlans``       numbers of all VLANs
    ``ports``       cabled ones
    ``unused``      ports without a planned cable, which are taken down
    ``priority``    of the switch in the spanning tree; the lowest of all is its root
    """

    hostname: str
    switch_model: str
    management: Management
    management_vlan: int
    vlans: tuple[int, ...]
    ports: tuple[AccessPort, ...]
    unused: tuple[str, ...]
    priority: int = PRIORITY

    def model(self) -> "AccessModel":
        """What a rendering of this configuration has to be read back as."""
        return AccessModel(
            hostname=self.hostname,
            addresses=frozenset({(self.management_vlan, self.management.address)}),
            vlans=frozenset(self.vlans),
            access=frozenset((port.name, port.vlan) for port in self.ports if port.vlan is not None),
            trunks=frozenset(port.name for port in self.ports if port.vlan is None),
            down=frozenset(self.unused),
            priority=self.priority,
        )


@dataclass(frozen=True)
class AccessModel:
    """What a configuration says, without the words of its system.

    ``addresses``  (VLAN, address of the switch in it)
    ``vlans``      those that ports to other out-of-band switches carry, tagged
    ``access``     (port, its VLAN) of ports that take untagged frames only and go down where they hear another switch's
                   spanning tree
    ``trunks``     ports that take tagged frames of all VLANs and no untagged ones
    ``down``       ports that are taken down
    ``priority``   in the spanning tree
    """

    hostname: str
    addresses: frozenset[tuple[int, str]]
    vlans: frozenset[int]
    access: frozenset[tuple[str, int]]
    trunks: frozenset[str]
    down: frozenset[str]
    priority: int
