"""Devices that speak SNMPv3 (authPriv): what their drivers share.

An `Agent` is asked by coroutines, which `_run` runs within a time budget. All agents of the process share one asyncio loop in a
background thread, so that a hundred of them are asked at the same time. Failures are DeviceErrors (errors.py).
"""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pysnmp.hlapi.v3arch import asyncio as snmp
from pysnmp.proto import errind, rfc1902, rfc1905
from pysnmp.smi.builder import MibBuilder
from pysnmp.smi.view import MibViewController

from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.credentials import SnmpCredentials
from network.drivers.errors import BadAnswer, DeviceError, DeviceTimeout, LoginRefused, Unreachable, WriteRefused

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


class Agent:
    """One agent. `name` appears in errors."""

    _device = "device"
    """What it is, in messages."""
    most_rows = WALK_ROWS
    """Most rows of one column."""

    def __init__(
        self, address: str, credentials: SnmpCredentials, budget_s: float, *, name: str = "", port: int = 161
    ) -> None:
        self.address, self.port, self.credentials, self.budget_s = address, port, credentials, budget_s
        self.name = name or address
        self._peers: set[tuple[str, int]] = set()

    @property
    def _kind(self) -> str:
        """Which kind of device a person has to make sure of."""
        return self._device

    async def _first(self, operation: str) -> None:
        """What is asked before anything else."""

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

    async def _walk(self, operation: str, column: str) -> dict[int, Any]:
        """{row index: value} of one table column; rows whose last index is the outlet's or the phase's number."""
        rows: dict[int, Any] = {}
        root = snmp.ObjectType(snmp.ObjectIdentity(column))
        async for answer in snmp.bulk_walk_cmd(
            *await self._session(), 0, WALK_REPETITIONS, root, lookupMib=False, lexicographicMode=False
        ):
            for oid, value in self._checked(operation, answer):
                rows[int(str(oid).rsplit(".", 1)[1])] = value
                if len(rows) > self.most_rows:
                    raise self._source(operation).unreadable(f"at most {self.most_rows} rows at {column}", "more")
        return rows

    def _source(self, operation: str) -> Source:
        return Source(self.name, operation, f"check that this is {article(self._kind)} with current firmware")

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
                f"run the same command again, then restart the {self._device}",
            )
        if status:
            kind = WriteRefused if write else BadAnswer
            raise kind(
                self.name,
                operation,
                "no error",
                f"{status.prettyPrint()} at {index}",
                f"check that the SNMP user may write and that the {self._device}'s model has this object",
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
            f"check the {self._device}'s power and management cable, then run the same command again",
        )

    def _run(self, operation: str, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run the coroutine on the shared loop within the budget; everything that goes wrong is a DeviceError."""

        async def bounded() -> Answer:
            with closing(work):  # it is never started when what comes first raises
                async with asyncio.timeout(self.budget_s):
                    await self._first(operation)
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
            raise Source(self.name, operation, f"check that a {self._device} answers at this address").unreadable(
                "an SNMP message", f"{type(e).__name__}: {e}"
            ) from e


class _NoMibs:
    """In the place of a MIB compiler. pysnmp makes one before the first numeric OID (4 s, and it may download)."""

    def compile(self, *modules: str, **_: object) -> dict[str, str]:
        """Nothing is ever compiled: every OID here is a number."""
        return dict.fromkeys(modules, "missing")


@cache
def _engine(credentials: SnmpCredentials) -> tuple[Any, Any, set[tuple[str, int]]]:
    """One SNMP engine for all devices of a user, the user, and the peers that have answered this engine.

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


def article(name: str) -> str:
    """'an APC PDU', 'a switch'."""
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
