"""Paths that a running FRR configuration keeps open beside each other: what stands in the place of link aggregation, as servers and
switches are attached by routing. Pure.

    said = read(running)
    said.hosts["172.16.0.7/32"]     # next hops of a server's loopback at this leaf
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_BGP = re.compile(r"^router bgp [0-9]{1,10}$", re.M)
_HOST = re.compile(r"^ip(?:v6)? route (\S{1,64}) (\S{1,64})$", re.M)
_NETWORK = re.compile(r"^ {2}network (\S{1,64})$", re.M)
_NEIGHBOUR = re.compile(r"^ neighbor (\S{1,32}) interface peer-group \S{1,32}$", re.M)
_MOST = re.compile(r"^ {2}maximum-paths ([0-9]{1,4})$", re.M)
_RELAXED = re.compile(r"^ bgp bestpath as-path multipath-relax$", re.M)
_DRAINED = re.compile(r"^ bgp graceful-shutdown$", re.M)
_BFD = re.compile(r"^ neighbor \S{1,32} bfd(?: .*)?$", re.M)


@dataclass(frozen=True)
class Paths:
    """``relaxed``: paths through different AS numbers are equal. ``most``: of equal paths that are used; None for FRR's own limit,
    which is that of its build. ``bfd``: a dead neighbour is noticed in less than a second.
    """

    relaxed: bool
    most: int | None
    bfd: bool
    hosts: dict[str, frozenset[str]] = field(default_factory=dict)
    announced: frozenset[str] = frozenset()
    neighbours: frozenset[str] = frozenset()
    drained: bool = False

    def unlike(self, planned: "Paths") -> Iterator[str]:
        """What a switch keeps open otherwise than planned."""
        if planned.relaxed and not self.relaxed:
            yield "uses one path of several: bgp bestpath as-path multipath-relax is missing"
        if self.most is not None and self.most < len(planned.neighbours):
            yield f"uses {self.most} of {len(planned.neighbours)} equal paths (maximum-paths)"
        if planned.bfd and not self.bfd:
            yield "has no BFD with its neighbours: a dead path is used until BGP's hold time is over"
        if self.drained != planned.drained:
            said, wanted = ("is" if one else "is not" for one in (self.drained, planned.drained))
            yield f"{said} in maintenance (bgp graceful-shutdown), planned: {wanted}"
        for name in sorted(planned.neighbours - self.neighbours):
            yield f"has no BGP neighbour on {name}"
        for loopback, hops in planned.hosts.items():
            if self.hosts.get(loopback) != hops:
                said = ", ".join(sorted(self.hosts.get(loopback, ()))) or "nothing"
                yield f"has {said} as next hop of {loopback}, planned {', '.join(sorted(hops))}"
            elif loopback not in self.announced:
                yield f"does not announce {loopback}: no other path leads here"


def read(text: str) -> Paths:
    """The paths of a configuration. ValueError for text without BGP, which is none of an in-band switch."""
    if not _BGP.search(text):
        raise ValueError("no `router bgp` in its running configuration")
    hosts: dict[str, set[str]] = {}
    for loopback, hop in _HOST.findall(text):
        hosts.setdefault(loopback, set()).add(hop)
    most = _MOST.search(text)
    return Paths(
        relaxed=bool(_RELAXED.search(text)),
        most=int(most[1]) if most else None,
        bfd=bool(_BFD.search(text)),
        hosts={loopback: frozenset(hops) for loopback, hops in hosts.items()},
        announced=frozenset(_NETWORK.findall(text)),
        neighbours=frozenset(_NEIGHBOUR.findall(text)),
        drained=bool(_DRAINED.search(text)),
    )
