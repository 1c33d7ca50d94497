"""One device's answer, and the answers of a whole site. Plain data that can be written, read back and judged in tests."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from validation.evidence import Identity

SCHEMA_VERSION = 1
KINDS = ("pdus", "bmcs", "switches", "nodes", "subnets", "telemetry")


class FactsError(Exception):
    """A file that does not hold recorded facts; the message names it."""


@dataclass(frozen=True)
class Answer:
    """What one device answered on one channel ('snmp', 'redfish', 'ssh', 'infiniband').

    `data` is empty when `error` says why there is no answer: one line that names the device, what was expected and
    what to do. `error_kind` is the class of that error (DeviceTimeout, LoginRefused, …). `raw` is the answer as text.
    """

    device: str
    channel: str
    data: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    error_kind: str = ""
    identities: tuple[Identity, ...] = ()
    seconds: float = 0.0

    @cached_property
    def raw(self) -> bytes:
        """The answer as canonical JSON: what evidence keeps as raw output. Every check of a device keeps it."""
        return json.dumps({"device": self.device, "channel": self.channel, "data": self.data, "error": self.error},
                          sort_keys=True, default=str, indent=1).encode()  # fmt: skip


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
    started: str = ""
    ended: str = ""

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
            parts = {kind: {name: answer_from(answer) for name, answer in data[kind].items()} for kind in KINDS}
            return cls(**parts, started=data["started"], ended=data["ended"])
        except OSError as error:
            raise FactsError(f"{path}: recorded facts cannot be read: {error.strerror}") from None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise FactsError(f"{path}: no recorded facts, or cut short: {type(error).__name__}: {error}") from None


def answer_from(data: Mapping[str, Any]) -> Answer:
    """An Answer from its plain form."""
    return Answer(**{**data, "identities": tuple(Identity(**identity) for identity in data["identities"])})
