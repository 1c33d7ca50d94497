"""Switched, metered rack PDUs over SNMPv3 (authPriv): outlets, phases, thresholds, identity.

    pdu = Pdu("10.77.0.41", credentials, name="pdu-r01-a", serial="SIM123")
    pdu.outlets()            -> [{"number": 1, "name": "gpu001 psu 1", "on": True, "amps": 2.7, "watts": 620.0}, ...]
    pdu.set_outlet(1, True)  # compares the serial first, reads the state back afterwards
    parallel.many([pdu, other], Pdu.outlets)

The methods are plain calls; underneath, all PDUs of the process share one asyncio loop in a background thread, so that
a hundred of them are asked at the same time. OIDs are data: rpdu2.yaml. Failures are DeviceErrors (errors.py).
"""

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
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
    LoginRefused,
    Unreachable,
    WriteRefused,
    compare_identity,
)

OIDS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("rpdu2.yaml").read_text())

DEFAULT_BUDGET_S = 10.0
"""Time for one method call. A healthy agent answers a walk of 24 outlets in well under a second."""
PACKET_TIMEOUT_S, PACKET_RETRIES = 1.5, 4
"""One request is repeated four times, then counts as unanswered: UDP loses packets, and a login costs no retry."""
WALK_REPETITIONS = 25
"""Rows per GETBULK: a whole column of a 24-outlet PDU and the row after it in one packet, a 48-outlet PDU in two. More
rows are read for nothing: an agent answers the columns that follow."""
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
    """One outlet. amps, watts: None where the model does not meter outlets."""

    number: Whole
    name: Line
    on: Flag
    amps: Number | None
    watts: Number | None


class Phase(TypedDict):
    """One phase of the input; thresholds in amperes."""

    phase: Whole
    amps: Number | None
    volts: Number | None
    watts: Number | None
    near_overload_a: Whole | None
    overload_a: Whole | None


class Pdu:
    """One PDU. `name` appears in errors; `serial`, when given, is compared before every write."""

    def __init__(
        self,
        address: str,
        credentials: SnmpCredentials,
        budget_s: float = DEFAULT_BUDGET_S,
        *,
        name: str = "",
        serial: str = "",
        port: int = 161,
    ) -> None:
        self.address, self.port, self.credentials, self.budget_s = address, port, credentials, budget_s
        self.name, self.serial = name or address, serial
        self._serial_compared = False
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
            fields = OIDS["identity"]
            values = await self._get("read identity", list(fields.values()))
            said = {field: self._text("read identity", value) for field, value in zip(fields, values, strict=True)}
            return answers.read(PduIdentity, said, self._source("read identity"))

        return self._run("read identity", read())

    def outlets(self) -> list[Outlet]:
        """Every outlet with its name, relay state and meter readings, by number."""
        return self._run("read outlets", self._outlets())

    def phases(self) -> list[Phase]:
        """Every input phase with its load and its current thresholds, by number."""

        async def read() -> list[Phase]:
            columns = await self._columns(
                "read phases", "phase", ("amps", "volts", "watts", "near_overload_a", "overload_a")
            )
            return [
                Phase(
                    phase=row,
                    amps=columns["amps"].get(row),
                    volts=columns["volts"].get(row),
                    watts=columns["watts"].get(row),
                    near_overload_a=_whole(columns["near_overload_a"].get(row)),
                    overload_a=_whole(columns["overload_a"].get(row)),
                )
                for row in sorted(columns["amps"])
            ]

        return self._run("read phases", read())

    def power_w(self) -> float | None:
        """Power drawn through the PDU in watts; None where the model does not meter it."""

        async def read() -> float | None:
            (value,) = await self._get("read power", [OIDS["device"]["power"]["oid"]])
            return _scaled(self._integer("read power", value), OIDS["device"]["power"]["scale"])

        return self._run("read power", read())

    # ---- writing -----------------------------------------------------------------------------------------------
    def set_outlet(self, number: int, on: bool) -> None:
        """Switch one outlet and wait until the PDU reports that state."""
        self.set_outlets({number: on})

    def set_outlets(self, wanted: Mapping[int, bool]) -> None:
        """Switch outlets (number -> on), only those in another state, and wait until the PDU reports every state."""

        async def write() -> None:
            operation = "switch outlets"
            await self._compare_identity()
            now = await self._states(operation)
            self._require_outlets(operation, wanted, now)
            changes = {n: on for n, on in wanted.items() if now[n] != on}
            for number, on in sorted(changes.items()):
                command = rfc1902.Integer32(OIDS["control_values"]["on" if on else "off"])
                await self._set(f"switch outlet {number}", f"{OIDS['outlet']['control']}.{number}", command)
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
            now = await self._walk(operation, OIDS["outlet"]["name"])
            self._require_outlets(operation, wanted, now)
            for number, text in sorted(wanted.items()):
                if self._text(operation, now[number]) != text:
                    label = rfc1902.OctetString(text.encode())
                    await self._set(f"label outlet {number}", f"{OIDS['outlet']['name']}.{number}", label)
            now = await self._walk(operation, OIDS["outlet"]["name"])
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
            wanted = {
                f"{OIDS['phase']['near_overload_a']}.{phase}": near_overload_a,
                f"{OIDS['phase']['overload_a']}.{phase}": overload_a,
            }
            for oid, amps in wanted.items():
                await self._set(operation, oid, rfc1902.Integer32(amps))
            seen = [self._integer(operation, v) for v in await self._get(operation, list(wanted))]
            if seen != list(wanted.values()):
                raise WriteRefused(
                    self.name,
                    operation,
                    f"{list(wanted.values())} A",
                    f"{seen} A",
                    "the PDU may clamp thresholds to its rating: compare with its breaker",
                )

        self._run("set thresholds", write())

    # ---- protocol ----------------------------------------------------------------------------------------------
    async def _outlets(self) -> list[Outlet]:
        columns = await self._columns("read outlets", "outlet", ("state", "amps", "watts"))
        names = await self._walk("read outlets", OIDS["outlet"]["name"])
        if not columns["state"]:
            raise BadAnswer(
                self.name,
                "read outlets",
                "a table of switched outlets",
                "no outlet",
                "check the PDU's model: it may not switch outlets",
            )
        return [
            Outlet(
                number=n,
                name=self._text("read outlets", names.get(n)),
                on=columns["state"][n] == OIDS["state_values"]["on"],
                amps=columns["amps"].get(n),
                watts=columns["watts"].get(n),
            )
            for n in sorted(columns["state"])
        ]

    async def _states(self, operation: str) -> dict[int, bool]:
        rows = await self._walk(operation, OIDS["outlet"]["state"])
        return {n: self._integer(operation, v) == OIDS["state_values"]["on"] for n, v in rows.items()}

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

    async def _columns(self, operation: str, table: str, names: Sequence[str]) -> dict[str, dict[int, float | None]]:
        """{column: {row: number or None}} of one table, scaled to A, V, W."""
        found: dict[str, dict[int, float | None]] = {}
        for name in names:
            entry = OIDS[table][name]
            oid, scale = (entry["oid"], entry["scale"]) if isinstance(entry, dict) else (entry, 1)
            rows = await self._walk(operation, oid)
            found[name] = {row: _scaled(self._integer(operation, value), scale) for row, value in rows.items()}
        return found

    async def _compare_identity(self) -> None:
        """Before the first write: is this the PDU that the plan means? Without a planned serial nothing is compared."""
        if self.serial and not self._serial_compared:
            (seen,) = await self._get("compare identity", [OIDS["identity"]["serial"]])
            compare_identity(self.name, {"serial": self.serial}, {"serial": self._text("compare identity", seen)})
            self._serial_compared = True

    async def _session(self) -> tuple[Any, ...]:
        engine, user, self._peers = _engine(self.credentials)
        target = await snmp.UdpTransportTarget.create(
            (self.address, self.port), timeout=PACKET_TIMEOUT_S, retries=PACKET_RETRIES
        )
        return engine, user, target, snmp.ContextData()

    async def _get(self, operation: str, oids: Sequence[str]) -> list[Any]:
        objects = [snmp.ObjectType(snmp.ObjectIdentity(oid)) for oid in oids]
        answer = await snmp.get_cmd(*await self._session(), *objects, lookupMib=False)
        values = [value for _, value in self._checked(operation, answer)]
        for oid, value in zip(oids, values, strict=True):
            if isinstance(value, (rfc1905.NoSuchObject, rfc1905.NoSuchInstance)):
                raise BadAnswer(
                    self.name,
                    operation,
                    f"a value at {oid}",
                    "no such object",
                    "check that this is an rPDU2 PDU and that the SNMP user may read it",
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
        return Source(self.name, operation, "check that this is an rPDU2 PDU with current firmware")

    def _text(self, operation: str, value: Any) -> str:
        """An OCTET STRING as one cleaned line; '' for None."""
        if value is None:
            return ""
        if not isinstance(value, rfc1902.OctetString):
            raise self._source(operation).unreadable("text", f"{type(value).__name__} {value.prettyPrint()}")
        return answers.line(bytes(value).decode("utf-8", "replace").strip("\x00 "))

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
            async with asyncio.timeout(self.budget_s):
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


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _on(state: bool | None) -> str:
    return {True: "on", False: "off", None: "missing"}[state]
