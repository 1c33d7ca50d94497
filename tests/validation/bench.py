"""What the evidence and gate tests share: keys, identities, a small plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner

from inventory.findings import Finding
from inventory.site import Site
from validation import freeze
from validation.evidence import Identity
from validation.evidence.keys import signer_of
from validation.evidence.store import Statement
from validation.freeze import Frozen
from validation.register import Item
from validation.verdict import APPROVAL_ITEM

NOW = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
DIGEST = "ab" * 32
CHECK_FILE = "validation/checks/test_fabric.py"
CLEAN = {"version": "1", "commit": "c0ffee", "unclean": ""}

DEVICES = [
    ("gpu001", "server", "gpu", ""),
    ("gpu002", "server", "gpu", ""),
    ("ctl01", "server", "controller", ""),
    ("sto01", "server", "storage", ""),
    ("leaf01", "switch", "leaf", "inband"),
    ("spine01", "switch", "spine", "inband"),
    ("ibl001", "switch", "leaf", "compute"),
    ("ibs001", "switch", "spine", "compute"),
    ("oob01", "switch", "oob", "oob"),
    ("pdu-r01-a", "pdu", "rack_pdu", ""),
    ("pdu-r01-b", "pdu", "rack_pdu", ""),
]


@dataclass(frozen=True)
class SmallPlan:
    """A plan with a handful of devices, in the columns of capacity.build."""

    site: Site
    findings: Sequence[Finding] = ()
    hash: str = DIGEST
    hashes: Mapping[str, str] = field(default_factory=lambda: {"site.fabric": DIGEST, "frame.cables": "cd" * 32})
    devices: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(DEVICES, columns=["name", "kind", "role", "fabric"])
    )
    racks: pd.DataFrame = field(default_factory=lambda: pd.DataFrame({"name": ["r01"]}))
    circuits: pd.DataFrame = field(default_factory=lambda: pd.DataFrame({"circuit": ["cb-r01-a", "cb-r01-b"]}))


def frozen(site: str = "lab", *, program: Mapping[str, str] = CLEAN, **parts: Mapping[str, str]) -> Frozen:
    """A freeze with one check file of two files; keywords replace parts."""
    files = {CHECK_FILE: DIGEST, "validation/xids.yaml": DIGEST}
    made: dict[str, Mapping[str, str]] = {
        "accepted": {"accepted/values.jsonl": DIGEST},
        "tables": {"validation/steps.yaml": DIGEST},
        "items": {},
        "limits": {},
        "catalogue": {},
        "files": files,
        "checks": {CHECK_FILE: DIGEST},
    }
    return Frozen(site, made | parts, {CHECK_FILE: tuple(files)}, program)


def halves(one: Frozen, *keys: str, names: Sequence[str] = ("Jane", "Joe"), line: int = -1) -> tuple[Statement, ...]:
    """The statements of approvers about a freeze, the first with all of it, in lines from ``line`` on."""
    made = []
    for at, (key, name) in enumerate(zip(keys, names, strict=True)):
        said = (freeze.statement if at == 0 else freeze.second)(one, name, NOW - timedelta(days=1))
        made.append(Statement(said["predicateType"], one.site, said["predicate"], frozenset({key}), line + at))
    return tuple(made)


FROZEN = frozen()
RESTS_ON = {freeze.INPUT: FROZEN.digest, f"{freeze.PROGRAM}{CHECK_FILE}": DIGEST}
"""What a record names that was made under ``FROZEN``."""
MADE_BY = {freeze.PROGRAM_STATE: CLEAN}


def make_key() -> CryptoSigner:
    return signer_of(Ed25519PrivateKey.generate())


def with_key(site: Site, path: Path, key: CryptoSigner) -> Site:
    """The site with this key, kept in a file, as credentials.evidence.key."""
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes)
    evidence = site.credentials.evidence.model_copy(update={"key": f"file:{path}"})
    credentials = site.credentials.model_copy(update={"evidence": evidence})
    return site.model_copy(update={"credentials_given": credentials})


def identity(device: str, **changes: str) -> Identity:
    return Identity(**{"device": device, "channel": "ssh", "text": "", "serial": "", **changes})


def simulated(device: str) -> tuple[Identity, ...]:
    return (identity(device, text="SIMULATED by bringup lab"),)


def proven(device: str) -> tuple[Identity, ...]:
    return tuple(identity(device, channel=channel, serial=f"SN-{device}") for channel in ("ssh", "redfish", "lldp"))


def details(item: Item, subject: str, lab: bool) -> dict[str, Any]:
    """What a passing record of the item needs besides the usual fields."""
    made: dict[str, Any] = {"identities": simulated(subject) if lab else proven(subject)}
    if item.kind in ("computed", "generated", "attested"):
        made["identities"] = ()
    if item.kind == "attested":
        made["form"] = {name: "2099-01-01" if name == "expiry" else "yes" for name in item.form}
    if item.id == APPROVAL_ITEM:
        made["inputs"] = {"plan": DIGEST}
    if item.floor and item.floor.quantity == "value":
        made["value"] = item.floor.minimum
    if item.floor and item.floor.quantity == "duration_h":
        made["started"] = NOW - timedelta(hours=2 + item.floor.minimum)
    return made
