"""One device's answer, and the answers of a whole site. Plain data that can be written, read back and judged in tests."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from network.drivers import answers
from network.drivers.answers import Line, Number, Source, Text
from network.drivers.errors import UnreadableAnswer
from validation.evidence import Identity
from validation.facts.shapes import data_of

SCHEMA_VERSION = 1
PARTS = ("gpus", "storage", "machine")
"""Parts of a node's data that say by themselves why they could not be read."""
KINDS = ("pdus", "bmcs", "switches", "nodes", "subnets", "telemetry", "agents", "roce_switches")
LATER_KINDS = frozenset({"agents", "roce_switches"})
"""Kinds that facts recorded by earlier releases lack."""


UNREADABLE = UnreadableAnswer.__name__
"""error_kind of an answer that could not be read."""


class _Identity(TypedDict):
    device: Line
    channel: Line
    text: Text
    serial: Line
    observer: NotRequired[Line]
    enrolled: NotRequired[Line]
    message: NotRequired[Text]
    signature: NotRequired[Text]


class _Recorded(TypedDict):
    """An Answer as `Facts.write` writes it; its data has a shape of its own."""

    device: Line
    channel: Line
    data: dict[Line, Any]
    error: Text
    error_kind: Line
    identities: list[_Identity]
    channels: NotRequired[list[_Identity]]
    seconds: Number


class FactsError(Exception):
    """A file that does not hold recorded facts; the message names it."""


@dataclass(frozen=True)
class Answer:
    """What one device answered on one channel ('snmp', 'redfish', 'ssh', 'infiniband').

    `data` is empty when `error` says why there is no answer: one line that names the device, what was expected and
    what to do. `error_kind` is the class of that error (DeviceTimeout, LoginRefused, …). `raw` is the answer as text.
    `identities` are those of the device that was asked, `channels` what else was seen on the way, of it and of others.
    """

    device: str
    channel: str
    data: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    error_kind: str = ""
    identities: tuple[Identity, ...] = ()
    seconds: float = 0.0
    channels: tuple[Identity, ...] = ()

    @cached_property
    def raw(self) -> bytes:
        """The answer as canonical JSON: what evidence keeps as raw output. Every check of a device keeps it."""
        return json.dumps(
            {"device": self.device, "channel": self.channel, "data": self.data, "error": self.error},
            sort_keys=True,
            default=str,
            indent=1,
        ).encode()


@dataclass(frozen=True)
class Facts:
    """All answers of one gathering, by device name."""

    pdus: Mapping[str, Answer] = field(default_factory=dict)
    bmcs: Mapping[str, Answer] = field(default_factory=dict)
    switches: Mapping[str, Answer] = field(default_factory=dict)
    nodes: Mapping[str, Answer] = field(default_factory=dict)
    subnets: Mapping[str, Answer] = field(default_factory=dict)
    """The InfiniBand fabric as each host with a subnet manager sees it."""
    telemetry: Mapping[str, Answer] = field(default_factory=dict)
    agents: Mapping[str, Answer] = field(default_factory=dict)
    """What the SNMP agents of the compute switches of an Ethernet fabric say that these are."""
    roce_switches: Mapping[str, Answer] = field(default_factory=dict)
    """Compute switches of a RoCE site, as the drivers of their system read them back."""
    started: str = ""
    ended: str = ""

    def channels(self) -> dict[str, tuple[Identity, ...]]:
        """What was seen of each device beside its own answer, for the ledger (validation.evidence.channels)."""
        found: dict[str, list[Identity]] = {}
        for kind in KINDS:
            for answer in getattr(self, kind).values():
                for one in answer.channels:
                    found.setdefault(one.device, []).append(one)
        return {device: tuple(seen) for device, seen in found.items()}

    def neighbours(self) -> dict[str, Mapping[str, Any]]:
        """{switch: its ports with what they see by LLDP}, of the switches that said it."""
        return {
            name: answer.data["lldp"]
            for name, answer in self.switches.items()
            if not answer.error and not answer.data.get("lldp_error")
        }

    def unreadable(self) -> list[str]:
        """Devices that answered, and whose answer, or a part of it, could not be read."""
        return sorted(
            {
                name
                for kind in KINDS
                for name, answer in getattr(self, kind).items()
                for part in (
                    answer.error_kind,
                    answer.data.get("lldp_error_kind"),
                    *(answer.data.get(key, {}).get("error_kind") for key in PARTS),
                )
                if part == UNREADABLE
            }
        )

    def write(self, folder: Path) -> Path:
        """Write the facts as one JSON file named by their time; returns its path."""
        folder.mkdir(parents=True, exist_ok=True)
        stamp = (self.started or datetime.now(UTC).isoformat()).replace(":", "").replace("+0000", "Z")
        path = folder / f"facts-{stamp}.json"
        path.write_text(json.dumps({"schema_version": SCHEMA_VERSION, **asdict(self)}, indent=1, default=str))
        return path

    @classmethod
    def read(cls, path: Path) -> "Facts":
        """Facts from a file that `write` wrote, or from a recording in the same form. FactsError for any other file."""
        try:
            data = json.loads(path.read_text())
            if data["schema_version"] != SCHEMA_VERSION:
                raise FactsError(
                    f"{path}: schema_version {data['schema_version']}, this program reads {SCHEMA_VERSION}"
                )
            if odd := [name for kind in KINDS for name in data.get(kind, ()) if not name.isprintable()]:
                raise FactsError(
                    f"{path}: {ascii(odd[0])[:80]} is no name of a device, expected printable text; gather the facts again"
                )
            parts = {
                kind: {name: answer_from(answer, kind, name) for name, answer in data[kind].items()}
                for kind in KINDS
                if kind in data or kind not in LATER_KINDS
            }
            return cls(**parts, started=data["started"], ended=data["ended"])
        except OSError as error:
            raise FactsError(f"{path}: recorded facts cannot be read: {error.strerror}") from None
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise FactsError(f"{path}: no recorded facts, or cut short: {type(error).__name__}: {error}") from None


def answer_from(recorded: object, kind: str, name: str) -> Answer:
    """An Answer from its plain form. One that cannot be read becomes an Answer with that error: the others still count."""
    try:
        form = answers.read(_Recorded, recorded, Source(name, "read facts"))
        identities = tuple(Identity(**identity) for identity in form["identities"])
        channels = tuple(Identity(**one) for one in form.get("channels", ()))
        data = {} if form["error"] else data_of(kind, name, form["data"])
    except UnreadableAnswer as error:
        return Answer(name, "recording", error=str(error), error_kind=UNREADABLE)
    return Answer(
        form["device"], form["channel"], data, form["error"], form["error_kind"], identities, form["seconds"], channels
    )
