"""Filter of a Linux router that runs FRR: a table of nftables, and back.

    text = render(structured_config)    # network/render.py -> what `nft --stateless list table inet bringup` shows of it
    read(text)                          # -> Filter
    cut(running)                        # -> (table, frr.conf) of the text that the driver reads

Text and list are the same line by line (nftables 1.0), so a difference of lines is a difference of filters. It keeps no state: the
way back of a flow may lead over another router. Nothing is forwarded to or from the management port; what is for the router itself
passes there. Of other ports it takes BGP, BFD and neighbour discovery of other switches, and ping from its own network.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import jinja2

from network.separation import Rule

TABLE = "table inet bringup"
"""First words of the table, which no line of frr.conf has."""
CHAIN = re.compile(r"\tchain (input|forward) \{")
HOOK = re.compile(r"\t\ttype filter hook (input|forward) priority filter; policy (drop|accept);")
CLOSED = re.compile(r'\t\t([io])ifname "([^"]+)" drop')
PERMIT = re.compile(
    r"\t\t(?P<family>ip6?) saddr (?P<source>\S+) (?P=family) daddr (?P<destination>\S+)"
    r"(?: (?:ip protocol|meta l4proto) (?P<protocol>[\w-]+)| (?P<with_port>tcp|udp) dport (?P<port>\d+))? accept"
)
ICMPV6 = "ipv6-icmp"
"""Protocol 58 in the words of nft."""


@dataclass(frozen=True)
class Filter:
    """What a table says. permits: what is forwarded; drops: chains that drop all else; own: lines of the chain input.

    closed: ports to and from which nothing is forwarded, whatever its addresses say.
    """

    permits: frozenset[Rule]
    drops: frozenset[str]
    closed: frozenset[str]
    own: tuple[str, ...]


def render(config: Mapping[str, Any]) -> str:
    """The table of one in-band switch, from its structured config."""
    return _template().render(config)


def read(text: str) -> Filter:
    """What a table says. Raises ValueError that names a line in the chain `forward` which is none of this module's."""
    permits, drops, own, chain = set[Rule](), set[str](), list[str](), ""
    closed: dict[str, set[str]] = {"i": set(), "o": set()}
    for line in text.splitlines():
        if opened := CHAIN.fullmatch(line):
            chain = opened[1]
        elif hook := HOOK.fullmatch(line):
            drops |= {hook[1]} if (hook[1], hook[2]) == (chain, "drop") else set()
        elif line.strip() in ("", "}", f"{TABLE} {{"):
            continue
        elif chain == "input":
            own.append(line.strip())
        elif (shut := CLOSED.fullmatch(line)) and not permits:  # behind a permit it would come too late
            closed[shut[1]].add(shut[2])
        elif permit := PERMIT.fullmatch(line):
            protocol = permit["with_port"] or (permit["protocol"] or "any").replace(ICMPV6, "icmp")
            permits.add(
                Rule(permit["source"], permit["destination"], protocol, int(permit["port"]) if permit["port"] else None)
            )
        else:
            raise ValueError(f"chain {chain or 'unknown'}: {line.strip()!r} is no line of this filter")
    return Filter(frozenset(permits), frozenset(drops), frozenset(closed["i"] & closed["o"]), tuple(own))


def cut(text: str) -> tuple[str, str]:
    """The table that a configuration begins with, '' without one, and the rest."""
    if not text.startswith(f"{TABLE} {{\n"):
        return "", text
    table, end, rest = text.partition("\n}\n")
    return table + end, rest


def difference(before: str, after: str) -> str:
    """'- line' and '+ line' of two tables, with their chains; '' for the same filter. Order counts: the first match decides."""
    old, new = (list(_placed(text)) for text in (before, after))
    lines = [f"- {line}" for line in old if line not in new] + [f"+ {line}" for line in new if line not in old]
    return "\n".join(lines) if lines or old == new else f"- {TABLE}: another order of lines"


def _placed(text: str) -> Iterator[str]:
    chain = TABLE
    for line in text.splitlines():
        if opened := CHAIN.fullmatch(line):
            chain = f"{TABLE} / {opened[1]}"
        if line.startswith("\t") and line.strip() != "}":
            yield f"{chain} / {line.strip()}"


def _matched(rule: Rule) -> str:
    """The part of a line that says which packets it takes."""
    family = "ip6" if rule.version == 6 else "ip"
    packets = f"{family} saddr {rule.source} {family} daddr {rule.destination}"
    if rule.port is not None:
        return f"{packets} {rule.protocol} dport {rule.port}"
    if rule.protocol == "any":
        return packets
    if rule.version == 6:
        return f"{packets} meta l4proto {ICMPV6 if rule.protocol == 'icmp' else rule.protocol}"
    return f"{packets} ip protocol {rule.protocol}"


def _pings(prefixes: Iterable[str]) -> list[Rule]:
    """ICMP between all prefixes of one IP version."""
    pairs = product(prefixes, repeat=2)
    rules = [Rule(source, destination, "icmp", None) for source, destination in pairs]
    return [rule for rule in rules if (":" in rule.source) == (":" in rule.destination)]


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {"matched": _matched, "pings": _pings}
    return environment.from_string(Path(__file__).with_name("filter.j2").read_text())
