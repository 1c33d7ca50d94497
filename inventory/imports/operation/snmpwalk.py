"""Text of snmpwalk runs against PDUs and UPSs as a table of readings in plain units.

    walk = read_walk(text, path)      one row per value that oids.yaml knows: what, index, value, unit, text, oid
    walk.unknown                      OID subtrees that it does not know, with how many values each had

Any way in which net-snmp prints names is read: numeric (-On), iso.3.6.1…, SNMPv2-SMI::enterprises.318…, MIB names, and
values with or without type (-Oq, -OQ), enumerations as normal(2) or 2, units behind the number.
"""

import functools
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from inventory.findings import Finding, finding, remedy
from inventory.imports.core.result import Imported, some
from inventory.imports.core.source import ImportFault
from inventory.imports.core.tables import records

OIDS_FILE = Path(__file__).parent / "oids.yaml"
COLUMNS = ("device", "what", "index", "value", "unit", "text", "oid", "object")
"""index: '' for the device as a whole, else phase 1, bank 2, outlet 7, line 3. value: NaN for text and for not metered."""
SUBTREE_ARCS = 10
"""Arcs of an OID by which unknown values are counted: an enterprise and the first levels below it."""

_TYPES = (
    "INTEGER|Integer32|UInteger32|Gauge32|Counter32|Counter64|Unsigned32|STRING|Hex-STRING|OID|Timeticks|IpAddress|"
    "Network Address|BITS|Opaque|OCTET STRING"
)
_LINE = re.compile(
    r"^(?P<name>\.?(?:\d+(?:\.\d+)+|[A-Za-z][\w-]*(?:::[A-Za-z][\w-]*)?(?:\.[\w.\"'-]*)?))\s*(?:=\s*|\s)(?P<value>.*)$"
)
_TYPED = re.compile(rf"^(?:Wrong Type \(should be [^)]*\): )?(?:{_TYPES}): ?(?P<value>.*)$")
_ENUM = re.compile(r"^[A-Za-z][\w-]*\((-?\d+)\)$")
_NUMBER = re.compile(r"^(-?\d+(?:\.\d+)?)(?:\s+[A-Za-z0-9%/. -]+)?$")
_NO_VALUE = re.compile(r"^(?:No Such (?:Object|Instance)|No more variables|NULL$)")
_NOISE = re.compile(
    r"^(?:Timeout:|snmpwalk:|snmpbulkwalk:|Error in packet|Reason:|End of MIB|No log handling|MIB search path|Cannot find module)"
)


@dataclass(frozen=True)
class Walk:
    """Readings (COLUMNS), unknown OID subtrees with their number of values, and findings."""

    readings: pd.DataFrame
    unknown: Mapping[str, int]
    findings: tuple[Finding, ...]


def read_walk(text: str, path: Path, device: str = "") -> Walk:
    """The readings of one device. `device` names it; without it the walk's own sysName, else the name of the file.

    ImportFault when no line is the answer of an agent.
    """
    known = _objects()
    rows: list[list[Any]] = []
    unknown: Counter[str] = Counter()
    findings: list[Finding] = []
    named = ""
    lines = 0
    for n, line in enumerate(text.splitlines(), start=1):
        if _NOISE.match(line.strip()):
            findings.append(
                finding(
                    "IMPORT-WALK-ERROR",
                    f"line {n}",
                    words={"printed": line.strip()[:120]},
                    remedies=[remedy(fix="again")],
                )
            )
            continue
        match = _LINE.match(line.strip())
        if match is None:
            continue  # the rest of a text of several lines
        oid = numeric(match["name"])
        typed = _TYPED.match(match["value"])
        if oid is None and "=" not in line:
            continue
        lines += 1
        value = (typed["value"] if typed else match["value"]).strip()
        if oid is None:
            unknown[match["name"].split(".")[0]] += 1
            continue
        if _NO_VALUE.match(value):
            continue
        found = _find(oid)
        if found is None:
            unknown[".".join(oid.split(".")[:SUBTREE_ARCS])] += 1
            continue
        name, index = found
        spec = known[name]
        number, said = _value(value, name, spec)
        if spec["what"] == "name" and said and (not named or name == "SNMPv2-MIB::sysName"):
            named = said
        place = "" if spec["index"] == "device" else f"{spec['index']} {index}"
        rows.append([device, spec["what"], place, number, spec["unit"], said, oid, name])
    if not lines:
        do = "give the output of snmpwalk: lines such as .1.3.6.1.2.1.33.1.2.3.0 = INTEGER: 45"
        raise ImportFault(path, "no line is the answer of an SNMP agent", do, 1)
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame["value"] = pd.to_numeric(frame["value"])
    frame["device"] = device or named or path.stem
    if unknown:
        parts = [f"{subtree} ({count})" for subtree, count in unknown.most_common()]
        findings.append(
            finding(
                "IMPORT-UNKNOWN-OID",
                path.name,
                values=sum(unknown.values()),
                lines=lines,
                words={"subtrees": some(parts)},
                remedies=[remedy(fix="extend")],
            )
        )
    findings += _judge(frame)
    return Walk(frame, dict(unknown), tuple(findings))


def numeric(name: str) -> str | None:
    """The numeric OID of a printed name, without a leading point; None for a name that oids.yaml does not know.

    >>> numeric("SNMPv2-SMI::enterprises.318.1.1")
    '1.3.6.1.4.1.318.1.1'
    """
    bare = name.strip().lstrip(".")
    if re.fullmatch(r"\d+(\.\d+)+", bare):
        return bare
    head, _, tail = bare.partition(".")
    prefix = _file()["prefixes"].get(head)
    spec = None if prefix else _by_name().get(head)
    base = prefix or (spec["oid"] if spec else None)
    if base is None or (tail and not re.fullmatch(r"\d+(\.\d+)*", tail)):
        return None
    return f"{base}.{tail}" if tail else str(base)


def imported(walk: Walk, name: str) -> Imported:
    """The readings as what an import shows. It writes no file: nothing judges a walk later."""
    frame = walk.readings
    device = frame["device"].iloc[0] if len(frame) else name
    power = frame[(frame["what"].isin(["power", "output_power"])) & (frame["index"].str.startswith(("outlet", "line")))]
    total = (
        f", {power['value'].sum() / 1000:.3f} kW over {len(power)} {power['index'].iloc[0].split()[0]}s"
        if len(power)
        else ""
    )
    table = frame.assign(value=[f"{value:.10g}" if value == value else "" for value in frame["value"]])
    summary = f"{device}: {len(frame)} readings{total}"
    return Imported(table, summary, walk.findings)


def _judge(frame: pd.DataFrame) -> list[Finding]:
    """What a UPS or PDU says of itself that nobody should overlook."""
    found = []
    for row in records(frame):
        device, what, text = row["device"], row["what"], row["text"]
        value = float(row["value"])
        if what == "on_battery" and value > 0:
            found.append(finding("IMPORT-UPS-ON-BATTERY", device, on_battery_s=value))
        if what == "output_source" and text in ("bypass", "battery", "none"):
            found.append(finding("IMPORT-UPS-SOURCE", device, words={"source": text}))
        if what == "battery_status" and text in ("low", "depleted"):
            found.append(finding("IMPORT-UPS-BATTERY", device, words={"state": text}))
        if what == "output_load" and value > 100:
            words = {"place": row["index"]}
            found.append(
                finding("IMPORT-UPS-OVERLOAD", device, limit=100, limit_source="RFC 1628", words=words, load_pct=value)
            )
        if what == "load_state" and text in ("near overload", "overload"):
            found.append(finding("IMPORT-PDU-LOAD", device, words={"place": row["index"], "state": text}))
    return found


def _value(value: str, name: str, spec: Mapping[str, Any]) -> tuple[float, str]:
    """(number in the spec's unit or NaN, text). -1 of a metering object is NaN: not metered."""
    nothing = float("nan")
    bare = value.strip('"')
    if spec["unit"] == "text":
        return nothing, bare
    enum, plain = _ENUM.match(bare), _NUMBER.match(bare)
    raw = enum[1] if enum else plain[1] if plain else None
    if raw is None:
        return nothing, bare
    if spec["unit"] == "state":
        return float(raw), str(_file()["states"].get(name, {}).get(int(float(raw)), bare))
    return (nothing, "not metered") if raw == "-1" else (float(raw) * float(spec.get("scale", 1)), "")


def _find(oid: str) -> tuple[str, str] | None:
    """(object, last arc of its index) of the object that an OID belongs to."""
    by_oid = _by_oid()
    arcs = oid.split(".")
    for length in range(len(arcs), 6, -1):
        name = by_oid.get(".".join(arcs[:length]))
        if name is not None:
            return name, arcs[-1] if length < len(arcs) else ""
    return None


@functools.cache
def _file() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(OIDS_FILE.read_text(encoding="utf-8"))
    return loaded


def _objects() -> dict[str, dict[str, Any]]:
    objects: dict[str, dict[str, Any]] = _file()["objects"]
    return objects


@functools.cache
def _by_name() -> dict[str, dict[str, Any]]:
    """Objects by MIB::name and by bare name; of a bare name that two MIBs have, the first."""
    names: dict[str, dict[str, Any]] = {}
    for name, spec in _objects().items():
        names[name] = spec
        names.setdefault(name.partition("::")[2], spec)
    return names


@functools.cache
def _by_oid() -> dict[str, str]:
    return {str(spec["oid"]): name for name, spec in _objects().items()}
