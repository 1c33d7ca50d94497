"""Files that ibdiagnet of ibutils2 leaves behind, as plain data. Pure; other text raises ValueError with its line.

sections(db_csv, names)    -> {"AR_INFO": rows as {column: text}}
adaptive(db_csv)           -> {switch GUID: mask of the service levels that are routed adaptively}
out_of_order(db_csv)       -> {(node GUID, port): mask of the service levels whose packets may arrive out of order}
trees(sharp)               -> {tree: [(depth, port GUID of its aggregation node)]}
ends(net_dump_ext)         -> frame ENDS_COLUMNS, a row for each port
counted(db_csv)            -> {(node GUID, port): counters COUNTED}
facts(files)               -> all of these as plain data, for validation.facts

Names of files: IBUtils2 Utility Documentation 2.23 of NVIDIA, pages "ibdiagnet Dump Files" and "NVIDIA Scalable Hierarchical
Aggregation and Reduction Protocol (SHARP) Support". Never run on a fabric: texts of the tests are modelled after these pages,
and after ibdiagnet's own header (ibdiag_fabric.h: ARInfoRecord, ExtendedPortInfoRecord).
"""

import csv
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from network.drivers import answers
from network.infiniband.parse import LANE_GBPS

COUNTED = {
    "sent": ("PortXmitDataExtended",),
    "received": ("PortRcvDataExtended",),
    "receive_errors": ("PortRcvErrorsExt", "PortRcvErrors"),
    "symbol_errors": ("SymbolErrorCounterExt", "SymbolErrorCounter"),
    "discards": ("PortXmitDiscardsExt", "PortXmitDiscards"),
    "downed": ("LinkDownedCounterExt", "LinkDownedCounter"),
}
"""Counters of a port and their columns in PM_INFO, the wider one first. Data count in words of 4 bytes (IBA 16.1.4.11)."""
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "AR_INFO": ("NodeGUID", "e", "by_sl_en", "enable_by_sl_mask"),
    "EXTENDED_PORT_INFO": ("NodeGuid", "PortNum", "OOOSLMask"),
    "PM_INFO": ("NodeGUID", "PortNumber", *(name for given in COUNTED.values() for name in given)),
}
"""What of ibdiagnet2.db_csv is read: columns of sections."""
ENDS_COLUMNS = (
    *("guid", "port", "state", "physical", "rate_gbps", "lanes", "fec"),
    *("raw_ber", "effective_ber", "symbol_ber"),
)
ENDS_HEADER = (
    *("Ty", "#", "#IB", "GUID", "LID", "Sta", "PhysSta", "LWA", "LSA", "Conn LID", "FEC mode", "RTR"),
    *("Raw BER", "Effective BER", "Symbol BER", "Symbol Err", "Effective Err", "Node Desc"),
)

ALL_LEVELS = 0xFFFF
ABSENT = ("N/A", "NA", "")
"""What stands where a port does not have a counter."""

_GUID = re.compile(r"0x([0-9a-fA-F]{1,16})")
_INTEGER = re.compile(r"[0-9]{1,20}|0x[0-9a-fA-F]{1,16}")
_BER = re.compile(r"[0-9](?:\.[0-9]{1,9})?[eE][+-]?[0-9]{1,3}|0|N/A|NA")
_WIDTH = re.compile(r"([0-9]{1,2})x")
_TREE = re.compile(r"TreeID:([0-9]{1,5}), Max Radix:[0-9]{1,5}\b")
_NODE_OF_TREE = re.compile(r"\(([0-9]{1,3})\), AN:[^,]{0,64}, lid:[0-9]{1,5}, port guid:0x([0-9a-fA-F]{1,16})\b")


def sections(text: str, names: Collection[str] = SECTIONS) -> dict[str, list[Mapping[str, str]]]:
    """Rows of the named sections of ibdiagnet2.db_csv; sections that the file does not have are absent.

    Raises ValueError for a section that does not end, is there twice, or has a row of another length than its head.
    """
    found: dict[str, list[Mapping[str, str]]] = {}
    inside, head = "", list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("START_"):
            if inside:
                raise ValueError(
                    f"line {number} of ibdiagnet2.db_csv begins a section within {inside}: it is cut short"
                )
            inside, head = line.removeprefix("START_").strip(), []
            if inside in found:
                raise ValueError(
                    f"line {number} of ibdiagnet2.db_csv has the section {answers.line(inside)} a second time"
                )
            if inside in names:
                found[inside] = []
        elif line.startswith("END_"):
            if line.removeprefix("END_").strip() != inside:
                raise ValueError(f"line {number} of ibdiagnet2.db_csv ends another section than {inside or 'any'}")
            inside = ""
        elif inside in found and line.strip():
            try:
                cells = [cell.strip() for cell in next(csv.reader([line]))]
            except csv.Error as error:
                raise ValueError(f"line {number} of ibdiagnet2.db_csv: {error}") from None
            if not head:
                head = cells
            elif len(cells) != len(head):
                raise ValueError(f"line {number} of ibdiagnet2.db_csv has {len(cells)} fields, its section {len(head)}")
            else:
                found[inside].append(dict(zip(head, cells, strict=True)))
    if inside:
        raise ValueError(
            f"line {len(text.splitlines())} of ibdiagnet2.db_csv is the last, within {answers.line(inside)}"
        )
    return found


def adaptive(rows: Sequence[Mapping[str, str]]) -> dict[str, int]:
    """Service levels of each switch that are routed adaptively, bit n for level n: of AR_INFO e is on or off for all, and where
    by_sl_en is on, enable_by_sl_mask has the levels.
    """
    found = {}
    for row in rows:
        by_level = bool(_whole(row, "by_sl_en")) if "by_sl_en" in row else False
        levels = _whole(row, "enable_by_sl_mask") if by_level else ALL_LEVELS
        found[_guid(row, "NodeGUID")] = levels if _whole(row, "e") else 0
    return found


def out_of_order(rows: Sequence[Mapping[str, str]]) -> dict[tuple[str, int], int]:
    """Service levels of each port whose packets its node takes out of order: OOOSLMask of EXTENDED_PORT_INFO, bit n for level n."""
    return {(_guid(row, "NodeGuid"), _whole(row, "PortNum")): _whole(row, "OOOSLMask") for row in rows}


def counted(rows: Sequence[Mapping[str, str]]) -> dict[tuple[str, int], dict[str, int]]:
    """Counters of each port by the names of COUNTED; those that its version of ibdiagnet does not write are absent."""
    found = {}
    for row in rows:
        columns = {name: next((one for one in given if one in row), None) for name, given in COUNTED.items()}
        found[_guid(row, "NodeGUID"), _whole(row, "PortNumber")] = {
            name: _whole(row, column) for name, column in columns.items() if column and row[column] not in ABSENT
        }
    return found


def trees(text: str) -> dict[int, list[tuple[int, str]]]:
    """Trees of ibdiagnet2.sharp: aggregation nodes by depth, the root 0.

    Raises ValueError for a tree that is there twice or has no root, and for nodes without a tree.
    """
    found: dict[int, list[tuple[int, str]]] = {}
    starts = list(_TREE.finditer(text))
    if _NODE_OF_TREE.search(text, 0, starts[0].start() if starts else len(text)):
        raise ValueError("ibdiagnet2.sharp has an aggregation node before its first tree: it is cut short")
    for tree, following in zip(starts, [*starts[1:], None], strict=False):
        number = int(tree[1])
        nodes = _NODE_OF_TREE.findall(text, tree.start(), following.start() if following else len(text))
        line = text.count("\n", 0, tree.start()) + 1
        if number in found:
            raise ValueError(f"line {line} of ibdiagnet2.sharp has tree {number} a second time")
        if not any(int(depth) == 0 for depth, _ in nodes):
            raise ValueError(f"line {line} of ibdiagnet2.sharp: tree {number} has no root")
        found[number] = [(int(depth), guid.lower().zfill(16)) for depth, guid in nodes]
    return found


def ends(text: str) -> pd.DataFrame:
    """Every port of ibdiagnet2.net_dump_ext. Bit error rates are NaN where the port does not say them; rate 0 without a link."""
    rows: list[tuple[object, ...]] = []
    known: set[tuple[str, int]] = set()
    headed = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split(" : ", len(ENDS_HEADER) - 1)]
        if not headed:
            names = [re.sub(r" \(#\)$", "", cell) for cell in cells]
            if tuple(names) != ENDS_HEADER:
                raise ValueError(
                    f"line {number} of ibdiagnet2.net_dump_ext is not its head: {answers.line(line[:80])!r}"
                )
            headed = True
            continue
        try:
            row = _end(dict(zip(ENDS_HEADER, cells, strict=True)))
        except ValueError as error:
            raise ValueError(f"line {number} of ibdiagnet2.net_dump_ext: {error}") from None
        if row[:2] in known:
            raise ValueError(f"line {number} of ibdiagnet2.net_dump_ext shows port {row[1]} of {row[0]} a second time")
        known.add((str(row[0]), int(str(row[1]))))
        rows.append(row)
    if not headed:
        raise ValueError("ibdiagnet2.net_dump_ext has no head: it is empty or cut short")
    return pd.DataFrame(rows, columns=list(ENDS_COLUMNS))


def facts(files: Mapping[str, Any]) -> dict[str, Any]:
    """What the files of a diagnosis say (ManagerHost.diagnose) as plain data; ports are 'GUID/port', what a port does
    not say is null.

    began, ended: seconds since 1970, by the host's clock. sharp_am: state of the aggregation manager's service there.
    """
    database = sections(files["db_csv"])
    dump = ends(files["net_dump_ext"]).to_dict("records") if files["net_dump_ext"] else []

    def by_port(of: Mapping[tuple[str, int], Any]) -> dict[str, Any]:
        return {f"{guid}/{port}": value for (guid, port), value in of.items()}

    return {
        "began": files["began"],
        "ended": files["ended"],
        "sharp_am": files["sharp_am"],
        "ends": by_port(
            {
                (row["guid"], row["port"]): {
                    **{name: row[name] for name in ("state", "physical", "rate_gbps", "lanes", "fec")},
                    **{name: None if math.isnan(row[name]) else row[name] for name in ("raw_ber", "effective_ber")},
                }
                for row in dump
            }
        ),
        "adaptive": adaptive(database.get("AR_INFO", [])),
        "out_of_order": by_port(out_of_order(database.get("EXTENDED_PORT_INFO", []))),
        "counters": by_port(counted(database.get("PM_INFO", []))),
        "trees": {str(tree): [list(node) for node in nodes] for tree, nodes in trees(files["sharp"]).items()},
    }


def _end(said: Mapping[str, str]) -> tuple[object, ...]:
    width = _WIDTH.fullmatch(said["LWA"])
    lane = LANE_GBPS.get(said["LSA"], 0.0)
    if not lane and _INTEGER.fullmatch(said["LSA"]):
        lane = float(said["LSA"])
    rates = [_rate(said[name]) for name in ("Raw BER", "Effective BER", "Symbol BER")]
    rate_gbps = int(width[1]) * lane if width else 0.0
    state, physical, fec = (answers.line(said[name]) for name in ("Sta", "PhysSta", "FEC mode"))
    lanes = int(width[1]) if width else 0
    return (_guid(said, "GUID"), _whole(said, "#IB"), state, physical, rate_gbps, lanes, fec, *rates)


def _rate(text: str) -> float:
    if not _BER.fullmatch(text):
        raise ValueError(f"{answers.line(text[:40])!r} is no bit error rate")
    if not text.startswith("N") and float(text) > 1:
        raise ValueError(f"{text} is no bit error rate: it is above 1")
    return math.nan if text.startswith("N") else float(text)


def _guid(row: Mapping[str, str], column: str) -> str:
    found = _GUID.fullmatch(row.get(column, ""))
    if found is None:
        raise ValueError(f"{column} {answers.line(row.get(column, 'is missing')[:40])!r} is no GUID")
    return found[1].lower().zfill(16)


def _whole(row: Mapping[str, str], column: str) -> int:
    text = row.get(column, "")
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{column} {answers.line(text[:40])!r} is no number")
    return int(text, 0) if text.startswith("0x") else int(text)
