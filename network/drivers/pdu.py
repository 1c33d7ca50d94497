"""Switched, metered rack PDUs over SNMPv3 (authPriv): outlets, phases, thresholds, identity.

    pdu = Pdu("10.77.0.41", credentials, name="pdu-r01-a", serial="SIM123")
    pdu.outlets()            -> [{"number": 1, "name": "gpu001 psu 1", "on": True, "amps": 2.7, "watts": 620.0}, ...]
    pdu.set_outlet(1, True)  # compares the serial first, reads the state back afterwards
    parallel.many([pdu, other], Pdu.outlets)

The methods are plain calls; underneath, all PDUs of the process share one asyncio loop in a background thread, so that
a hundred of them are asked at the same time. OIDs, units and values are data, one file for each dialect (pdu_dialects/);
the catalogue entry of the PDU's model names the dialect, and the PDU's sysObjectID is compared with it before anything
else is asked. What a model does not meter, switch or limit is None; `lacks` names it. Failures are DeviceErrors
(errors.py).
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pysnmp.proto import rfc1902
from typing_extensions import TypedDict

from network.drivers import answers
from network.drivers.answers import Flag, Line, Number, Whole
from network.drivers.credentials import SnmpCredentials
from network.drivers.errors import BadAnswer, IdentityMismatch, WriteRefused, compare_identity
from network.drivers.snmp import GET_OBJECTS, Agent, article

DIALECTS: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted(Path(__file__).with_name("pdu_dialects").glob("*.yaml"))
}
"""What the files of pdu_dialects/ say, by dialect: the `driver` of a PDU's catalogue entry."""
APC = "apc-rpdu2"
OIDS = DIALECTS[APC]
SYS_OBJECT_ID = "1.3.6.1.2.1.1.2.0"
"""SNMPv2-MIB sysObjectID: which maker's agent this is."""

DEFAULT_BUDGET_S = 10.0
"""Time for one method call. A healthy agent answers a walk of 24 outlets in well under a second."""
STATE_POLL_S = 0.1
"""Pause between two reads of an outlet that has been switched: real relays take up to a second."""


class PduIdentity(TypedDict):
    """What the PDU says it is. `sys_descr` is what evidence is classified by."""

    sys_descr: Line
    sys_name: Line
    name: Line
    firmware: Line
    model: Line
    serial: Line


class Outlet(TypedDict):
    """One outlet. on: None where the PDU tells no state. amps, watts: None where the model does not meter outlets."""

    number: Whole
    name: Line
    on: Flag | None
    amps: Number | None
    watts: Number | None


class Phase(TypedDict):
    """One phase of the input; thresholds in amperes."""

    phase: Whole
    amps: Number | None
    volts: Number | None
    watts: Number | None
    near_overload_a: Number | None
    overload_a: Number | None


class Pdu(Agent):
    """One PDU. `name` appears in errors; `serial`, when given, is compared before every write.

    `dialect` is a key of DIALECTS. ValueError for another one.
    """

    _device = "PDU"

    def __init__(
        self,
        address: str,
        credentials: SnmpCredentials,
        budget_s: float = DEFAULT_BUDGET_S,
        *,
        name: str = "",
        serial: str = "",
        dialect: str = APC,
        port: int = 161,
    ) -> None:
        if dialect not in DIALECTS:
            raise ValueError(f"{name or address}: no PDU dialect {dialect!r}; there are {', '.join(DIALECTS)}")
        super().__init__(address, credentials, budget_s, name=name, port=port)
        self.serial = serial
        self.dialect, self._oids = dialect, DIALECTS[dialect]
        self._serial_compared = self._dialect_compared = False

    @property
    def _kind(self) -> str:
        return f"{self._oids['name']} PDU"

    def __enter__(self) -> "Pdu":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End of use: the next write compares the serial again. The socket belongs to the process (`_engine`)."""
        self._serial_compared = False

    # ---- reading -----------------------------------------------------------------------------------------------
    def identity(self) -> PduIdentity:
        """sysDescr, sysName, name, firmware, model and serial as the PDU presents them."""

        async def read() -> PduIdentity:
            fields = self._oids["identity"]
            values = await self._get("read identity", list(fields.values()))
            said = {field: self._text("read identity", value) for field, value in zip(fields, values, strict=True)}
            return answers.read(PduIdentity, said, self._source("read identity"))

        return self._run("read identity", read())

    def outlets(self) -> list[Outlet]:
        """Every outlet with its name, relay state and meter readings, by number."""
        return self._run("read outlets", self._outlets())

    def phases(self) -> list[Phase]:
        """Every input phase with its load and its current thresholds, by number."""

        return self._run("read phases", self._phases("read phases"))

    def power_w(self) -> float | None:
        """Power drawn through the PDU in watts; None where the model does not meter it."""
        return self._run("read power", self._power())

    def lacks(self) -> list[str]:
        """What this PDU does not do, in words: ['power of outlets', 'switching of outlets 3, 4']. Empty for all of it."""

        async def read() -> list[str]:
            operation = "read abilities"
            outlets, phases = await self._outlets(), await self._phases(operation)
            fixed = await self._unswitched(operation, [outlet["number"] for outlet in outlets])
            absent = {
                "outlets": not outlets,
                f"switching of outlets {', '.join(map(str, fixed))}": bool(fixed),
                "current of outlets": bool(outlets) and all(outlet["amps"] is None for outlet in outlets),
                "power of outlets": bool(outlets) and all(outlet["watts"] is None for outlet in outlets),
                "current of phases": all(phase["amps"] is None for phase in phases),
                "alarm currents of phases": all(phase["overload_a"] is None for phase in phases),
                "total power": await self._power() is None,
            }
            return [what for what, is_absent in absent.items() if is_absent]

        return self._run("read abilities", read())

    # ---- writing -----------------------------------------------------------------------------------------------
    def set_outlet(self, number: int, on: bool) -> None:
        """Switch one outlet and wait until the PDU reports that state."""
        self.set_outlets({number: on})

    def set_outlets(self, wanted: Mapping[int, bool]) -> None:
        """Switch outlets (number -> on), only those in another state, and wait until the PDU reports every state.

        Raises WriteRefused for an outlet that is not there or that this model does not switch, before any is switched.
        """

        async def write() -> None:
            operation = "switch outlets"
            await self._compare_identity()
            now = await self._states(operation)
            if set(wanted) - set(now):  # outlets without switching have a name and no state
                now = dict.fromkeys(await self._walk(operation, self._oids["outlet"]["name"])) | now
            self._require_outlets(operation, wanted, now)
            changes = {n: on for n, on in wanted.items() if now[n] != on}
            if fixed := await self._unswitched(operation, sorted(changes)):
                raise WriteRefused(
                    self.name,
                    operation,
                    f"outlets {fixed} that this PDU switches",
                    "outlets without switching",
                    "plan a switched model for these outlets; nothing was switched",
                )
            for number, on in sorted(changes.items()):
                command = rfc1902.Integer32(self._oids["control_values"]["on" if on else "off"])
                await self._set(f"switch outlet {number}", f"{self._oids['outlet']['control']}.{number}", command)
            deadline = time.monotonic() + self.budget_s / 2
            while changes:
                now = await self._states(operation)
                changes = {n: on for n, on in changes.items() if now.get(n) != on}
                if changes and time.monotonic() > deadline:
                    raise WriteRefused(
                        self.name,
                        operation,
                        ", ".join(f"outlet {n} {_on(on)}" for n, on in sorted(changes.items())),
                        ", ".join(f"outlet {n} {_on(now.get(n))}" for n in sorted(changes)),
                        "look for an outlet lock, a switching delay or a welded relay on the PDU's own page",
                    )
                if changes:
                    await asyncio.sleep(STATE_POLL_S)

        self._run("switch outlets", write())

    def set_name(self, number: int, text: str) -> None:
        """Label one outlet and read the label back."""
        self.set_names({number: text})

    def set_names(self, wanted: Mapping[int, str]) -> None:
        """Label outlets (number -> label), only those that differ, and read all of them back."""

        async def write() -> None:
            operation = "label outlets"
            await self._compare_identity()
            now = await self._walk(operation, self._oids["outlet"]["name"])
            self._require_outlets(operation, wanted, now)
            for number, text in sorted(wanted.items()):
                if self._text(operation, now[number]) != text:
                    label = rfc1902.OctetString(text.encode())
                    await self._set(f"label outlet {number}", f"{self._oids['outlet']['name']}.{number}", label)
            now = await self._walk(operation, self._oids["outlet"]["name"])
            wrong = [n for n, text in sorted(wanted.items()) if self._text(operation, now.get(n)) != text]
            if wrong:
                raise WriteRefused(
                    self.name,
                    operation,
                    ", ".join(f"{n} {wanted[n]!r}" for n in wrong),
                    ", ".join(f"{n} {self._text(operation, now.get(n))!r}" for n in wrong),
                    "shorten the label or allow writes for this SNMP user",
                )

        self._run("label outlets", write())

    def set_thresholds(self, phase: int, near_overload_a: int, overload_a: int) -> None:
        """Set the warning and the alarm current of one phase (whole amperes) and read them back."""

        async def write() -> None:
            operation = f"set thresholds of phase {phase}"
            await self._compare_identity()
            seen = await self._write_thresholds(operation, phase, (near_overload_a, overload_a))
            if seen != [near_overload_a, overload_a]:
                raise WriteRefused(
                    self.name,
                    operation,
                    f"{[near_overload_a, overload_a]} A",
                    f"{seen} A",
                    "the PDU may clamp thresholds to its rating: compare with its breaker",
                )

        self._run("set thresholds", write())

    # ---- protocol ----------------------------------------------------------------------------------------------
    async def _outlets(self) -> list[Outlet]:
        operation, table, states = "read outlets", self._oids["outlet"], self._oids["state_values"]
        state = await self._walk(operation, table["state"])
        names = await self._walk(operation, table["name"])
        known = sorted({*state, *names})
        amps = await self._numbers(operation, table["amps"], known)
        watts = await self._numbers(operation, table["watts"], known)
        numbers = sorted({*known, *amps, *watts})
        meaning = {states["on"]: True, states["off"]: False}
        return [
            Outlet(
                number=n,
                name=self._text(operation, names.get(n)),
                on=meaning.get(self._integer(operation, state[n])) if n in state else None,
                amps=amps.get(n),
                watts=watts.get(n),
            )
            for n in numbers
        ]

    async def _phases(self, operation: str) -> list[Phase]:
        found: dict[str, dict[int, float | None]] = {}
        for table in self._phase_tables():
            rows = await self._phase_rows(operation, table)
            fields = ("amps", "volts", "watts", "near_overload_a", "overload_a")
            found = {field: await self._numbers(operation, table[field], rows) for field in fields}
            if rows is not None:
                found["amps"] = {row: amps for row, amps in found["amps"].items() if row in rows}
            if found["amps"]:
                break
        return [
            Phase(
                phase=row,
                amps=found["amps"].get(row),
                volts=found["volts"].get(row),
                watts=found["watts"].get(row),
                near_overload_a=_whole(found["near_overload_a"].get(row)),
                overload_a=_whole(found["overload_a"].get(row)),
            )
            for row in sorted(found["amps"])
        ]

    def _phase_tables(self) -> list[dict[str, Any]]:
        """Where phases are looked for, in this order: some models of one phase answer another table."""
        return [self._oids[key] for key in ("phase", "single_phase") if key in self._oids]

    async def _phase_rows(self, operation: str, table: Mapping[str, Any]) -> list[int] | None:
        """The rows of a table that are phases; None where all its rows are."""
        if "rows" not in table:
            return None
        kept = table["rows"]
        rows = await self._walk(operation, kept["oid"])
        if "numbers" in kept:
            return sorted(set(rows) & set(kept["numbers"]))
        return sorted(row for row, value in rows.items() if self._integer(operation, value) in kept["values"])

    async def _power(self) -> float | None:
        operation, power = "read power", self._oids["device"]["power"]
        asked = [power["oid"], *([power["digits"]] if "digits" in power else [])]
        value, *digits = await self._ask(operation, asked)
        if value is None or digits == [None]:
            return None
        scale = self._scale(operation, power, digits[0] if digits else None)
        return _scaled(self._integer(operation, value), scale)

    async def _unswitched(self, operation: str, numbers: Sequence[int]) -> list[int]:
        """Those of these outlets that the PDU does not switch: without a state, or declared so by the PDU itself."""
        state = await self._walk(operation, self._oids["outlet"]["state"]) if numbers else {}
        fixed = [n for n in numbers if n not in state]
        if (declared := self._oids["outlet"].get("switched")) is None:
            return fixed
        for n, value in (await self._column(operation, declared["oid"], numbers)).items():
            if "bits" in declared:
                switched = self._bits(operation, value) >= set(declared["bits"])
            else:
                switched = self._integer(operation, value) in declared["values"]
            if not switched and n not in fixed:
                fixed.append(n)
        return sorted(fixed)

    async def _write_thresholds(self, operation: str, phase: int, wanted: Sequence[int]) -> list[float | None]:
        """Write (warning, alarm) current of a phase, enable both where the dialect asks for it, and read them back."""
        for table in self._phase_tables():
            entries = [table["near_overload_a"], table["overload_a"]]
            digits = [await self._digits(operation, entry, [phase]) for entry in entries]
            oids = [_at(entry, phase) for entry in entries]
            if None in await self._ask(operation, oids):
                continue
            for entry, oid, amps, raw_digits in zip(entries, oids, wanted, digits, strict=True):
                raw = round(amps / self._scale(operation, entry, raw_digits.get(phase)))
                kind = entry.get("type", "Integer32") if isinstance(entry, dict) else "Integer32"
                await self._set(operation, oid, getattr(rfc1902, kind)(raw))
            if "enabled" in table:
                await self._enable(operation, table["enabled"]["oid"].format(row=phase), table["enabled"]["bits"])
            seen = [await self._numbers(operation, entry, [phase]) for entry in entries]
            return [column.get(phase) for column in seen]
        raise WriteRefused(
            self.name,
            operation,
            "alarm currents of this phase",
            "none",
            "compare the PDU's model and its phases with the site file",
        )

    async def _enable(self, operation: str, oid: str, bits: Sequence[int]) -> None:
        """Set these bits of a BITS object and leave its other bits as they are."""
        (value,) = await self._get(operation, [oid])
        there = self._bits(operation, value)
        if there >= set(bits):
            return
        octets = bytearray(1)
        for bit in there | set(bits):
            octets[0] |= 0x80 >> bit
        await self._set(operation, oid, rfc1902.OctetString(bytes(octets)))
        (value,) = await self._get(operation, [oid])
        if not self._bits(operation, value) >= set(bits):
            raise WriteRefused(
                self.name,
                operation,
                "thresholds that are enabled",
                "disabled ones",
                "enable them on the PDU's own page",
            )

    async def _states(self, operation: str) -> dict[int, bool | None]:
        """{outlet: on}; None for a state that is neither on nor off, and for an outlet that has only a name."""
        states = self._oids["state_values"]
        meaning = {states["on"]: True, states["off"]: False}
        rows = await self._walk(operation, self._oids["outlet"]["state"])
        return {n: meaning.get(self._integer(operation, value)) for n, value in rows.items()}

    def _require_outlets(self, operation: str, wanted: Iterable[int], there: Mapping[int, object]) -> None:
        missing = sorted(set(wanted) - set(there))
        if missing:
            raise WriteRefused(
                self.name,
                operation,
                f"outlets {missing}",
                f"outlets 1 to {max(there, default=0)}",
                "compare the PDU's model with the site file; nothing was switched",
            )

    async def _numbers(self, operation: str, entry: Any, rows: Sequence[int] | None) -> dict[int, float | None]:
        """{row: number or None} of one column, scaled to A, V, W."""
        found = await self._column(operation, _oid(entry), rows)
        digits = await self._digits(operation, entry, sorted(found))
        return {
            row: _scaled(self._integer(operation, value), self._scale(operation, entry, digits.get(row)))
            for row, value in found.items()
        }

    async def _digits(self, operation: str, entry: Any, rows: Sequence[int]) -> dict[int, Any]:
        """{row: raw decimal digits}; empty where the scale is fixed."""
        if not isinstance(entry, dict) or "digits" not in entry:
            return {}
        return await self._column(operation, entry["digits"], rows)

    def _scale(self, operation: str, entry: Any, digits: Any) -> float:
        """What a raw value is multiplied by. UnreadableAnswer for digits that are missing or outside 0 to 9."""
        if not isinstance(entry, dict):
            return 1
        if "digits" not in entry:
            return float(entry["scale"])
        places = -1 if digits is None else self._integer(operation, digits)
        if not 0 <= places <= 9:
            raise self._source(operation).unreadable("0 to 9 decimal digits", "none" if digits is None else str(places))
        return float(entry["scale"]) / 10**places

    async def _column(self, operation: str, oid: str, rows: Sequence[int] | None) -> dict[int, Any]:
        """{row: raw value} of a column: walked, or asked for each of `rows` where the OID has {row}."""
        if "{row}" not in oid:
            return await self._walk(operation, oid)
        found: dict[int, Any] = {}
        wanted = list(rows or [])
        for start in range(0, len(wanted), GET_OBJECTS):
            part = wanted[start : start + GET_OBJECTS]
            values = await self._ask(operation, [oid.format(row=row) for row in part])
            found |= {row: value for row, value in zip(part, values, strict=True) if value is not None}
        return found

    async def _first(self, operation: str) -> None:
        """Once: is this an agent of the planned dialect? A maker that no dialect knows is no contradiction."""
        if self._dialect_compared:
            return
        (value,) = await self._ask(operation, [SYS_OBJECT_ID])
        said = "" if value is None else f"{value.prettyPrint()}."
        spoken = [
            name for name, oids in DIALECTS.items() if any(said.startswith(f"{o}.") for o in oids["sys_object_id"])
        ]
        if spoken and self.dialect not in spoken:
            raise IdentityMismatch(
                self.name,
                operation,
                f"a PDU that speaks {self._oids['name']} (driver {self.dialect} of its catalogue entry)",
                f"{DIALECTS[spoken[0]]['name']} (driver {spoken[0]}, sysObjectID {said.rstrip('.')})",
                "correct rack_pdu.model in the site file, the driver in the model's catalogue entry, or the address; "
                "nothing was written",
            )
        self._dialect_compared = True

    async def _compare_identity(self) -> None:
        """Before the first write: is this the PDU that the plan means? Without a planned serial nothing is compared."""
        if self.serial and not self._serial_compared:
            (seen,) = await self._get("compare identity", [self._oids["identity"]["serial"]])
            compare_identity(self.name, {"serial": self.serial}, {"serial": self._text("compare identity", seen)})
            self._serial_compared = True

    async def _get(self, operation: str, oids: Sequence[str]) -> list[Any]:
        """The values of these objects, which every PDU of the dialect has."""
        values = await self._ask(operation, oids)
        for oid, value in zip(oids, values, strict=True):
            if value is None:
                raise BadAnswer(
                    self.name,
                    operation,
                    f"a value at {oid}",
                    "no such object",
                    f"check that this is {article(self._kind)} and that the SNMP user may read it",
                )
        return values

    def _bits(self, operation: str, value: Any) -> set[int]:
        """The numbers of the bits that are set in the first octet of a BITS object; bit 0 is its highest."""
        if not isinstance(value, rfc1902.OctetString):
            raise self._source(operation).unreadable("bits", f"{type(value).__name__} {value.prettyPrint()}")
        first = bytes(value)[0] if len(value) else 0
        return {bit for bit in range(8) if first & (0x80 >> bit)}


def _scaled(raw: int, scale: float) -> float | None:
    """Raw meter value in A, V or W; -1 means that the model does not meter it."""
    return None if raw < 0 else round(raw * scale, 3)


def _whole(value: float | None) -> float | None:
    """Whole amperes as an int."""
    return int(value) if value is not None and value == int(value) else value


def _oid(entry: Any) -> str:
    """The OID of an entry of a dialect's file."""
    return str(entry["oid"] if isinstance(entry, dict) else entry)


def _at(entry: Any, row: int) -> str:
    """The OID of one row of an entry."""
    oid = _oid(entry)
    return oid.format(row=row) if "{row}" in oid else f"{oid}.{row}"


def _on(state: bool | None) -> str:
    return {True: "on", False: "off", None: "missing"}[state]
