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
import threading
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pysnmp.hlapi.v3arch import asyncio as snmp
from pysnmp.proto import errind, rfc1902, rfc1905
from pysnmp.smi.builder import MibBuilder
from pysnmp.smi.view import MibViewController
from typing_extensions import TypedDict

from network.drivers import answers
from network.drivers.answers import Flag, Line, Number, Source, Whole
from network.drivers.credentials import SnmpCredentials
from network.drivers.errors import (
    BadAnswer,
    DeviceError,
    DeviceTimeout,
    IdentityMismatch,
    LoginRefused,
    Unreachable,
    WriteRefused,
    compare_identity,
)

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
PACKET_TIMEOUT_S, PACKET_RETRIES = 1.5, 4
"""One request is repeated four times, then counts as unanswered: UDP loses packets, and a login costs no retry."""
WALK_REPETITIONS = 25
"""Rows per GETBULK: a whole column of a 24-outlet PDU and the row after it in one packet, a 48-outlet PDU in two. More
rows are read for nothing: an agent answers the columns that follow."""
GET_OBJECTS = 24
"""Objects per GET: an answer of 24 numbers stays below the 1,472 bytes of one Ethernet frame."""
WALK_ROWS = 512
"""Most rows of one column: the largest rack PDUs have 54 outlets. An agent that invents rows is stopped here."""
NUMBER_BYTES = 20
"""Longest number that an agent may send as text."""
STATE_POLL_S = 0.1
"""Pause between two reads of an outlet that has been switched: real relays take up to a second."""

AUTH = {
    "MD5": snmp.USM_AUTH_HMAC96_MD5,
    "SHA": snmp.USM_AUTH_HMAC96_SHA,
    "SHA1": snmp.USM_AUTH_HMAC96_SHA,
    "SHA224": snmp.USM_AUTH_HMAC128_SHA224,
    "SHA256": snmp.USM_AUTH_HMAC192_SHA256,
    "SHA384": snmp.USM_AUTH_HMAC256_SHA384,
    "SHA512": snmp.USM_AUTH_HMAC384_SHA512,
}
PRIV = {
    "DES": snmp.USM_PRIV_CBC56_DES,
    "AES": snmp.USM_PRIV_CFB128_AES,
    "AES128": snmp.USM_PRIV_CFB128_AES,
    "AES192": snmp.USM_PRIV_CFB192_AES,
    "AES256": snmp.USM_PRIV_CFB256_AES,
}
LOGIN_FAULTS = (
    errind.UnknownUserName,
    errind.UnknownSecurityName,
    errind.WrongDigest,
    errind.AuthenticationError,
    errind.AuthenticationFailure,
    errind.DecryptionError,
    errind.UnsupportedAuthProtocol,
    errind.UnsupportedPrivProtocol,
    errind.UnsupportedSecurityLevel,
)
"""Error indications of pysnmp that mean user, passphrase or protocol (RFC 3414 section 3.2)."""

Answer = TypeVar("Answer")

_LOOP_LOCK = threading.Lock()


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


class Pdu:
    """One PDU. `name` appears in errors; `serial`, when given, is compared before every write.

    `dialect` is a key of DIALECTS. ValueError for another one.
    """

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
        self.address, self.port, self.credentials, self.budget_s = address, port, credentials, budget_s
        self.name, self.serial = name or address, serial
        self.dialect, self._oids = dialect, DIALECTS[dialect]
        self._serial_compared = self._dialect_compared = False
        self._peers: set[tuple[str, int]] = set()

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

    async def _compare_dialect(self, operation: str) -> None:
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

    async def _session(self) -> tuple[Any, ...]:
        engine, user, self._peers = _engine(self.credentials)
        target = await snmp.UdpTransportTarget.create(
            (self.address, self.port), timeout=PACKET_TIMEOUT_S, retries=PACKET_RETRIES
        )
        return engine, user, target, snmp.ContextData()

    async def _ask(self, operation: str, oids: Sequence[str]) -> list[Any]:
        """The values of these objects; None for one that the agent does not have."""
        objects = [snmp.ObjectType(snmp.ObjectIdentity(oid)) for oid in oids]
        answer = await snmp.get_cmd(*await self._session(), *objects, lookupMib=False)
        values = [value for _, value in self._checked(operation, answer)]
        if len(values) != len(oids):
            raise self._source(operation).unreadable(f"{len(oids)} values", f"{len(values)}")
        missing = (rfc1905.NoSuchObject, rfc1905.NoSuchInstance)
        return [None if isinstance(value, missing) else value for value in values]

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
                    f"check that this is {_a(self._oids['name'])} PDU and that the SNMP user may read it",
                )
        return values

    async def _walk(self, operation: str, column: str) -> dict[int, Any]:
        """{row index: value} of one table column; rows whose last index is the outlet's or the phase's number."""
        rows: dict[int, Any] = {}
        root = snmp.ObjectType(snmp.ObjectIdentity(column))
        async for answer in snmp.bulk_walk_cmd(
            *await self._session(), 0, WALK_REPETITIONS, root, lookupMib=False, lexicographicMode=False
        ):
            for oid, value in self._checked(operation, answer):
                rows[int(str(oid).rsplit(".", 1)[1])] = value
                if len(rows) > WALK_ROWS:
                    raise self._source(operation).unreadable(f"at most {WALK_ROWS} rows at {column}", "more")
        return rows

    def _source(self, operation: str) -> Source:
        return Source(self.name, operation, f"check that this is {_a(self._oids['name'])} PDU with current firmware")

    def _text(self, operation: str, value: Any) -> str:
        """An OCTET STRING as one cleaned line; '' for None."""
        if value is None:
            return ""
        if not isinstance(value, rfc1902.OctetString):
            raise self._source(operation).unreadable("text", f"{type(value).__name__} {value.prettyPrint()}")
        return answers.line(bytes(value).decode("utf-8", "replace").strip("\x00 "))

    def _bits(self, operation: str, value: Any) -> set[int]:
        """The numbers of the bits that are set in the first octet of a BITS object; bit 0 is its highest."""
        if not isinstance(value, rfc1902.OctetString):
            raise self._source(operation).unreadable("bits", f"{type(value).__name__} {value.prettyPrint()}")
        first = bytes(value)[0] if len(value) else 0
        return {bit for bit in range(8) if first & (0x80 >> bit)}

    def _integer(self, operation: str, value: Any) -> int:
        """A number, which some agents send as text."""
        try:
            if isinstance(value, rfc1902.OctetString) and len(value) > NUMBER_BYTES:
                raise ValueError
            return int(value)
        except (TypeError, ValueError):
            raise self._source(operation).unreadable("a number", f"{value!r}") from None

    async def _set(self, operation: str, oid: str, value: Any) -> None:
        binding = snmp.ObjectType(snmp.ObjectIdentity(oid), value)
        answer = await snmp.set_cmd(*await self._session(), binding, lookupMib=False)
        self._checked(operation, answer, write=True)

    def _checked(self, operation: str, answer: Any, write: bool = False) -> Sequence[Any]:
        """The variable bindings of an answer, or the DeviceError that it stands for."""
        indication, status, index, bindings = answer
        if indication:
            if isinstance(indication, LOGIN_FAULTS):
                raise LoginRefused(
                    self.name,
                    operation,
                    f"SNMPv3 user {self.credentials.user} accepted",
                    str(indication),
                    "check user, passphrases and protocols of credentials.snmp in the site file",
                )
            if isinstance(indication, errind.RequestTimedOut):
                raise self._timeout(operation)
            _engine.cache_clear()  # what is remembered of the agent (boots, time) may be of another one
            raise BadAnswer(
                self.name,
                operation,
                "an SNMP answer",
                str(indication),
                "run the same command again, then restart the PDU",
            )
        if status:
            kind = WriteRefused if write else BadAnswer
            raise kind(
                self.name,
                operation,
                "no error",
                f"{status.prettyPrint()} at {index}",
                "check that the SNMP user may write and that the PDU's model has this object",
            )
        self._peers.add((self.address, self.port))
        return bindings

    def _timeout(self, operation: str) -> DeviceTimeout:
        # An agent that starts again without counting its boots (RFC 3414 section 2.3) is ignored as a replay for ever,
        # so what the engine remembers of one that has answered before is forgotten: the next call starts anew.
        if (self.address, self.port) in self._peers:
            _engine.cache_clear()
        return DeviceTimeout(
            self.name,
            operation,
            f"an SNMP answer from {self.address}:{self.port} in {self.budget_s:g} s",
            "none",
            "check the PDU's power and management cable, then run the same command again",
        )

    def _run(self, operation: str, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run the coroutine on the shared loop within the budget; everything that goes wrong is a DeviceError."""

        async def bounded() -> Answer:
            with closing(work):  # it is never started when the dialect is another one
                async with asyncio.timeout(self.budget_s):
                    await self._compare_dialect(operation)
                    return await work

        try:
            return asyncio.run_coroutine_threadsafe(bounded(), _loop()).result()
        except DeviceError:
            raise
        except TimeoutError:
            raise self._timeout(operation) from None
        except OSError as e:
            raise Unreachable(
                self.name, operation, f"a path to {self.address}:{self.port}", str(e), "check the management network"
            ) from e
        except Exception as e:  # pysnmp passes on whatever its decoder met: to us that is a broken answer
            raise Source(self.name, operation, "check that a PDU answers at this address").unreadable(
                "an SNMP message", f"{type(e).__name__}: {e}"
            ) from e


class _NoMibs:
    """In the place of a MIB compiler. pysnmp makes one before the first numeric OID (4 s, and it may download)."""

    def compile(self, *modules: str, **_: object) -> dict[str, str]:
        """Nothing is ever compiled: every OID here is a number."""
        return dict.fromkeys(modules, "missing")


@cache
def _engine(credentials: SnmpCredentials) -> tuple[Any, Any, set[tuple[str, int]]]:
    """One SNMP engine for all PDUs of a user, the user, and the peers that have answered this engine.

    Making the keys of a passphrase takes up to half a second, hence the sharing.
    """
    engine, mibs = snmp.SnmpEngine(), MibBuilder()
    mibs.set_mib_compiler(_NoMibs(), str(Path(__file__).parent))
    engine.cache["mibViewController"] = MibViewController(mibs)
    user = snmp.UsmUserData(
        credentials.user,
        credentials.auth,
        credentials.priv,
        authProtocol=AUTH[credentials.auth_protocol.upper()],
        privProtocol=PRIV[credentials.priv_protocol.upper()],
    )
    return engine, user, set()


def _loop() -> asyncio.AbstractEventLoop:
    """The process's one event loop for SNMP, in a daemon thread: callers may have a loop of their own."""
    with _LOOP_LOCK:  # two first callers must not start two loops: pysnmp's engine belongs to one thread
        return _start_loop()


@cache
def _start_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="snmp", daemon=True).start()
    return loop


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


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _on(state: bool | None) -> str:
    return {True: "on", False: "off", None: "missing"}[state]
