"""What a compute switch of a RoCE fabric is configured with, whatever its system: the input of every rendering (`SwitchConfig`) and
the part that every rendering is read back to and compared by (`Model`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from network.lossless import Ecn, Intent
from network.separation import Rule


@dataclass(frozen=True)
class Port:
    """One cabled port. `address` is None on ports to other switches, which have BGP unnumbered; `cable_m` is rounded up.

    ``ipv6``  its second address; None where the site has no IPv6 prefixes
    """

    name: str
    far: str
    far_port: str
    address: str | None
    cable_m: int
    ipv6: str | None = None


@dataclass(frozen=True)
class Management:
    """The management port, and what is reached by it. `user`, `key_type` and `key` are empty without a public key."""

    port: str
    address: str
    ntp: tuple[str, ...]
    dns: tuple[str, ...]
    syslog: tuple[str, ...]
    user: str
    key_type: str
    key: str


@dataclass(frozen=True)
class Ipv6:
    """What a switch says of IPv6. Fields as those of SwitchConfig; the prefix of a leaf has LEAF_IPV6 bits."""

    loopback: str
    loopbacks: str
    rails: str
    aggregate: str


@dataclass(frozen=True)
class SwitchConfig:
    """Everything that the configuration of one compute switch says.

    ``switch_model``  slug of the catalogue
    ``breakouts``   {cage port: ports that it is split into}
    ``aggregate``   the leaf's prefix, announced instead of its links; '' on other switches, and on a single one of all rails
    ``loopbacks``   prefix of all switches' loopbacks, and ``rails`` of all leaves' prefixes of length ``leaf_length``: nothing
                    else is announced or accepted
    ``bfd_ms``      milliseconds between BFD packets, of which three may be missed; None: no BFD
    ``ecn``         None: no marking
    ``permits``     what servers may send into the fabric; their ports drop all other IP packets, of IPv6 where the site has it
    ``drained``     in maintenance: other switches take it only where they have no other way
    ``ipv6``        None: the fabric routes IPv4 only
    """

    hostname: str
    switch_model: str
    asn: int
    loopback: str
    loopbacks: str
    rails: str
    leaf_length: int
    aggregate: str
    ports: tuple[Port, ...]
    breakouts: Mapping[str, int]
    management: Management
    intent: Intent
    ecn: Ecn | None
    bfd_ms: int | None
    permits: tuple[Rule, ...]
    drained: bool = False
    ipv6: Ipv6 | None = None

    @property
    def addresses(self) -> tuple[tuple[str, str], ...]:
        """(port or `lo`, address) of both families."""
        own = [("lo", self.loopback), *((port.name, port.address) for port in self.ports if port.address)]
        if self.ipv6 is not None:
            own += [("lo", self.ipv6.loopback), *((port.name, port.ipv6) for port in self.ports if port.ipv6)]
        return tuple(own)

    @property
    def filtered(self) -> tuple[str, ...]:
        """Ports to servers."""
        return tuple(port.name for port in self.ports if port.address is not None)

    def model(self) -> "Model":
        """What a rendering of this configuration has to be read back as."""
        intent = self.intent
        return Model(
            hostname=self.hostname,
            asn=self.asn,
            router_id=self.loopback.partition("/")[0],
            addresses=frozenset(self.addresses),
            neighbours=frozenset(port.name for port in self.ports if port.address is None),
            aggregates=frozenset(filter(None, [self.aggregate, self.ipv6.aggregate if self.ipv6 else ""])),
            mtu=frozenset((port.name, intent.mtu) for port in self.ports),
            priorities=frozenset({(intent.dscp, intent.priority), (intent.cnp_dscp, intent.cnp_class)}),
            queues=frozenset({(intent.priority, intent.traffic_class), (intent.cnp_class, intent.cnp_class)}),
            shares=frozenset(
                {(intent.traffic_class, intent.share_pct), (0, 100 - intent.share_pct), (intent.cnp_class, None)}
            ),
            lossless=frozenset((port.name, intent.priority, port.cable_m) for port in self.ports),
            ecn=self.ecn,
            watchdog_ms=-(-intent.watchdog_ms // 100) * 100,
            adaptive=intent.load_balancing == "adaptive",
            permits=frozenset(self.permits if self.filtered else ()),
            filtered=frozenset(self.filtered),
            drained=self.drained,
            ipv6=self.ipv6 is not None,
        )


@dataclass(frozen=True)
class Model:
    """What a configuration says, without the words of its system.

    ``priorities``  (DSCP, priority) of all packets that have another priority than 0
    ``queues``      (priority, egress queue) of all priorities that have another queue than 0
    ``shares``      (egress queue, share in percent); None: served first
    ``lossless``    (port, PFC priority, cable length in metres); None: the system has no line for the length
    ``drained``     whether its neighbours are asked to go by others
    ``filtered``    ports that take the packets of ``permits`` and drop all other packets of the IP versions that these have, to
                    the switch itself too
    ``ipv6``        whether its neighbours get IPv6 routes, the planned ones only
    """

    hostname: str
    asn: int
    router_id: str
    addresses: frozenset[tuple[str, str]]
    neighbours: frozenset[str]
    aggregates: frozenset[str]
    mtu: frozenset[tuple[str, int]]
    priorities: frozenset[tuple[int, int]]
    queues: frozenset[tuple[int, int]]
    shares: frozenset[tuple[int, int | None]]
    lossless: frozenset[tuple[str, int, int | None]]
    ecn: Ecn | None
    watchdog_ms: int
    adaptive: bool
    permits: frozenset[Rule]
    filtered: frozenset[str]
    drained: bool = False
    ipv6: bool = False

    def without_lengths(self) -> "Model":
        """The same without cable lengths, which not every system is told."""
        return replace(self, lossless=frozenset((port, priority, None) for port, priority, _ in self.lossless))

    def unlike(self, planned: "Model", names: Iterable[str]) -> Iterator[str]:
        """What differs from the planned one in the named fields; of a set only the members that do."""
        for name in names:
            own, wanted = getattr(self, name), getattr(planned, name)
            if own == wanted:
                continue
            if isinstance(own, frozenset):
                lacks, more = (sorted(map(str, one)) for one in (wanted - own, own - wanted))
                parts = [f"{word} {_shown(found)}" for word, found in (("lacks", lacks), ("has", more)) if found]
                yield f"{name}: {'; '.join(parts)}"
            else:
                yield f"{name}: is {own}, planned {wanted}"


MOST_SHOWN = 4


def _shown(found: list[str]) -> str:
    more = f" and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
    return f"{', '.join(found[:MOST_SHOWN])}{more}"
