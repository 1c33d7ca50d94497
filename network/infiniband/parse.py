"""Output of infiniband-diags (44.0) as plain data. Pure; a text that is something else raises ValueError.

Whoever calls these parsers turns that into UnreadableAnswer (network.drivers.answers.reading). Node descriptions are what
an adapter's owner wrote there: they come as one printable line. Numbers have bounded digits.

discovery(ibnetdiscover)   -> Discovery: frames `nodes` and `links`
subnet_manager(sminfo)     -> {"lid": 1, "guid": "0242…", "priority": 15, "state": "MASTER"}
counters(ibqueryerrors)    -> {(GUID, port): {"SymbolErrorCounter": 12}}
pkeys(smpquery pkeys)      -> {0x7fff, 0x8001}
lanes(smpquery sl2vl), arbitration(smpquery vlarb)
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from network.drivers import answers

LANE_GBPS = {
    "SDR": 2.5,
    "DDR": 5.0,
    "QDR": 10.0,
    "FDR10": 10.0,
    "FDR": 14.0,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}
"""Gb/s of one lane by the name of its rate, as products are named (4x NDR: 400; IBTA roadmap)."""

NODE_COLUMNS = ("key", "guid", "kind", "label", "lid")
LINK_COLUMNS = ("key", "port", "far_key", "far_port", "rate_gbps")

_BLOCK = re.compile(
    r'^(?P<kind>Switch|Ca|Rt)[ \t]+[0-9]+ "(?P<key>[SHR]-[0-9a-f]{1,16})"[ \t]+# "(?P<label>.*?)"'
    r"(?: .*? port 0 lid (?P<lid>[0-9]{1,5}))?",
    re.M,
)
_PORT = re.compile(
    r"^\[(?P<port>[0-9]{1,3})\](?:\((?P<guid>[0-9a-f]{1,16})\))?[ \t]+"
    r'"(?P<far>[SHR]-[0-9a-f]{1,16})"\[(?P<far_port>[0-9]{1,3})\](?:\([0-9a-f]{1,16}\))?[ \t]+'
    r'# (?:lid (?P<lid>[0-9]{1,5}) lmc [0-9] )?".*?" lid [0-9]{1,5} (?P<width>[0-9]{1,2})x(?P<speed>[A-Z0-9]{1,8})',
    re.M,
)
_OTHER_LINE = re.compile(r"(?:#.*|[a-z]+(?:id|guid)=0x[0-9a-f]{1,16}(?:\([0-9a-f]{1,16}\))?)?[ \t\r]*")
"""Comments, empty lines, and vendid, devid, sysimgguid, switchguid, caguid, rtguid (infiniband-diags, ibnetdiscover.c)."""
_SYSTEM = re.compile(r"^sysimgguid=0x([0-9a-f]{1,16})", re.M)
_SM = re.compile(
    r"sm lid ([0-9]{1,5}) sm guid 0x([0-9a-f]{1,16}), activity count [0-9]{1,10} priority ([0-9]{1,2}) "
    r"state [0-9] SMINFO_([A-Z]{1,16})"
)
_ERRORS = re.compile(r"^[ \t]+GUID 0x([0-9a-f]{1,16}) port ([0-9]{1,3}): (\[.*\])", re.M)
_COUNTER = re.compile(r"\[([A-Za-z0-9]{1,64}) == ([0-9]{1,20})[^0-9]")


@dataclass(frozen=True)
class Discovery:
    """What `ibnetdiscover` found.

    nodes: one row per switch and per port of an adapter or router: key ('S-…', 'H-…' or 'R-…', the tool's own name of the
    node), guid (node GUID of a switch, port GUID else), kind ('switch', 'adapter' or 'router'), label (node description), lid.
    links: every link twice, once from each end: key, port, far_key, far_port, rate_gbps.
    systems: {key of a switch: GUID of its system image}, which the ASICs of one switch share.
    """

    nodes: pd.DataFrame
    links: pd.DataFrame
    systems: Mapping[str, str] = field(default_factory=dict)


def discovery(text: str) -> Discovery:
    """`ibnetdiscover`. An adapter that is alone on its port gives one node and no link.

    Raises ValueError with the number of the line for a line that the tool does not write, for a node or port that is there
    twice, and for a link that only one of its ends shows: the text was cut short, joined or damaged.
    """
    nodes: list[tuple[str, str, str, str, int]] = []
    links: list[tuple[str, int, str, int, float]] = []
    systems: dict[str, str] = {}
    _refuse_unknown_lines(text)
    blocks = list(_BLOCK.finditer(text))
    if not blocks:
        raise ValueError(f"no node in the output of ibnetdiscover: {text[:80]!r}")
    before = 0
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        key, switch = block["key"], block["kind"] == "Switch"
        if switch:
            said = _SYSTEM.findall(text, before, block.start())
            systems |= {key: _guid(said[-1])} if said else {}
            nodes.append((key, _guid(key[2:]), "switch", answers.line(block["label"]), int(block["lid"] or 0)))
        for row in _PORT.finditer(text, block.end(), following.start() if following else len(text)):
            rate = int(row["width"]) * LANE_GBPS.get(row["speed"], 0.0)
            links.append((key, int(row["port"]), row["far"], int(row["far_port"]), rate))
            if not switch:
                kind = "router" if block["kind"] == "Rt" else "adapter"
                nodes.append(
                    (key, _guid(row["guid"] or key[2:]), kind, answers.line(block["label"]), int(row["lid"] or 0))
                )
        before = block.end()
    _refuse_incomplete(text, blocks, links)
    return Discovery(
        pd.DataFrame(nodes, columns=list(NODE_COLUMNS)), pd.DataFrame(links, columns=list(LINK_COLUMNS)), systems
    )


def _refuse_unknown_lines(text: str) -> None:
    """ValueError for the first line that ibnetdiscover does not write."""
    at = 0
    for number, line in enumerate(text.split("\n"), 1):
        known = _BLOCK if line.startswith(("Switch", "Ca", "Rt")) else _PORT if line.startswith("[") else _OTHER_LINE
        if not known.match(text, at) if known is not _OTHER_LINE else not known.fullmatch(line):
            raise ValueError(f"line {number} of ibnetdiscover is not one that it writes: {answers.line(line[:80])!r}")
        at += len(line) + 1


def _refuse_incomplete(text: str, blocks: list[re.Match[str]], links: list[tuple[str, int, str, int, float]]) -> None:
    """ValueError for a node or port that is there twice and for a link that its far end does not show."""
    keys: set[str] = set()
    for block in blocks:
        if block["key"] in keys:
            line = text.count("\n", 0, block.start()) + 1
            raise ValueError(f"line {line} of ibnetdiscover shows {block['key']} a second time: ask the fabric again")
        keys.add(block["key"])
    far: dict[tuple[str, int], tuple[str, int]] = {}
    for key, port, other_key, other_port, _ in links:
        if (key, port) in far:
            raise ValueError(
                f"{_line_of(text, blocks, key, port)} of ibnetdiscover shows port {port} of {key} a second time: ask the "
                "fabric again"
            )
        far[key, port] = (other_key, other_port)
    for near, other in far.items():
        if far.get(other) != near:
            raise ValueError(
                f"{_line_of(text, blocks, *near)} of ibnetdiscover: port {near[1]} of {near[0]} leads to port {other[1]} of "
                f"{other[0]}, which does not show it: the text is cut short or the fabric changed meanwhile; ask it again"
            )


def _line_of(text: str, blocks: list[re.Match[str]], key: str, port: int) -> str:
    """'line N', N of the last line of a node's port."""
    block = next(block for block in blocks if block["key"] == key)
    following = next((other.start() for other in blocks if other.start() > block.start()), len(text))
    rows = [row for row in _PORT.finditer(text, block.end(), following) if int(row["port"]) == port]
    return f"line {text.count(chr(10), 0, rows[-1].start()) + 1}"


def subnet_manager(text: str) -> dict[str, str | int]:
    """`sminfo`: lid, guid, priority and state (MASTER, STANDBY, DISCOVERING, NOTACTIVE) of the manager asked."""
    found = _SM.search(text)
    if not found:
        raise ValueError(f"no answer of a subnet manager: {text[:120]!r}")
    lid, guid, priority, state = found.groups()
    return {"lid": int(lid), "guid": _guid(guid), "priority": int(priority), "state": state}


def counters(text: str) -> dict[tuple[str, int], dict[str, int]]:
    """`ibqueryerrors`: error counters above the tool's thresholds by (GUID, port); {} when there are none."""
    if "nodes checked" not in text:
        raise ValueError(f"ibqueryerrors did not finish: {text[-120:]!r}")
    return {
        (_guid(guid), int(port)): {name: int(value) for name, value in _COUNTER.findall(rest)}
        for guid, port, rest in _ERRORS.findall(text)
    }


def pkeys(text: str) -> set[int]:
    """`smpquery pkeys`: the keys of a port's table, empty places left out."""
    words = re.findall(r"0x([0-9a-f]{4})\b", text)
    if not words:
        raise ValueError(f"no P_Key table: {text[:120]!r}")
    return {int(word, 16) for word in words} - {0}


def lanes(text: str) -> list[list[int]]:
    """`smpquery sl2vl`: for each input port, the virtual lane of each service level."""
    rows = re.findall(r"^ports: in +[0-9]{1,3}, out +[0-9]{1,3}: \|([ 0-9|]{1,200})\|", text, re.M)
    if not rows:
        raise ValueError(f"no SL2VL table: {text[:120]!r}")
    return [[int(cell) for cell in row.split("|")] for row in rows]


def arbitration(text: str) -> dict[str, dict[int, int]]:
    """`smpquery vlarb`: {'low': {lane: weight}, 'high': {…}}, lanes of weight 0 left out."""
    tables = re.findall(r"^# (Low|High) priority .*\n^VL +: \|(.{1,600})\|\n^WEIGHT: \|(.{1,600})\|", text, re.M)
    if {which for which, _, _ in tables} != {"Low", "High"}:
        raise ValueError(f"no VL arbitration tables: {text[:120]!r}")
    return {which.lower(): _weights(lane_row, weights) for which, lane_row, weights in tables}


def _weights(lane_row: str, weights: str) -> dict[int, int]:
    cells = zip(lane_row.split("|"), weights.split("|"), strict=True)
    return {int(lane, 16): int(weight, 16) for lane, weight in cells if int(weight, 16)}


def _guid(text: str) -> str:
    return text.removeprefix("0x").zfill(16)
