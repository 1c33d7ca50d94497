"""A node's signature on its own part of a load's result, by its SSH host key.

    message = message_of(place, device, run, nonce, at, sha256)     # what the node signs: ssh-keygen -Y sign -n result@bringup
    why = why_unsigned(record, place, keys, parts)                  # '' or which node did not sign its part, and why

In: a record, the site and store that it belongs to, the pinned host keys of each device, the parts of its raw output. The
signatures are identities of the record on the channel `result-signature`; they count for no other purpose. A message names site,
store, device, run and its nonce, time and the SHA-256 of the part. So a node signs for itself alone, no collector can sign in its
place, and what was signed for one run, one evidence store or one site shows nothing of another.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from validation.evidence.mode import PINNED, Identity
from validation.evidence.record import Record
from validation.evidence.sshsig import verifies
from validation.evidence.strict import Refused, moment

NAMESPACE = "result@bringup"
"""Namespace of the signatures (ssh-keygen -Y sign -n): a signed challenge is no signed result."""
CHANNEL = "result-signature"
RUN = "run"
"""The part of a record's configuration that says for which run the nodes signed: id and nonce."""
OF_ITS_SUBJECT = frozenset({"S034.measured", "S151.measured"})
"""Items about one node: their raw output is what that node signed."""
JOINED = frozenset(
    {
        "P-11.measured",
        "S058.measured",
        "S066.measured",
        "S068.measured",
        "S124.measured",
        "S130.applied",
        "S176.measured",
        "S177.observed",
        "S179.measured",
        "S179.observed",
        "S181.measured",
        "S186.measured",
        "S188.measured",
    }
)
"""Items about a load on several nodes: their raw output holds the parts that the nodes signed, side by side (from_raw.py)."""
ITEMS = OF_ITS_SUBJECT | JOINED
MAX_AGE = timedelta(days=7)
"""Between a node's signature and the end of its record: a load of days is collected when somebody looks. A choice of ours."""
SKEW = timedelta(minutes=5)
"""By how much clocks of node and collector may differ; as in the verdict."""

EARLIER = "bringup result 2\n"
NAMES_NO_STORE = "it names no evidence store, as an earlier version of Bringup let nodes sign. Fix: run the load again"

Part = tuple[str, str]
"""A device, and the SHA-256 of its part of a result."""
_MESSAGE = re.compile(
    r"bringup result 3\nsite ([^\n]*)\nstore ([^\n]*)\n"
    r"device ([^\n]*)\nrun ([^\n]*)\nnonce ([0-9a-f]{32})\nat ([^\n]*)\nsha256 ([0-9a-f]{64})\n"
)


class Place(NamedTuple):
    """Where a result belongs: the name of its site and the id of its evidence store."""

    site: str
    store: str


def message_of(place: Place, device: str, run: str, nonce: str, at: str, sha256: str) -> str:
    """What a node signs."""
    belongs = f"site {place.site}\nstore {place.store}\n"
    return f"bringup result 3\n{belongs}device {device}\nrun {run}\nnonce {nonce}\nat {at}\nsha256 {sha256}\n"


def signed_result(device: str, message: str, signature: str) -> Identity:
    """The signature as a record keeps it."""
    return Identity(device, CHANNEL, enrolled=PINNED, message=message, signature=signature)


def nonce_of(record: Record) -> str:
    """The nonce of the run that a record is about; '' for a record that names none."""
    nonce = record.configuration.get(RUN, {}).get("nonce")
    return nonce if isinstance(nonce, str) else ""


def first_uses(records: Iterable[tuple[int, Record]]) -> dict[tuple[str, str, str], int]:
    """For (item, subject, nonce) the line of the first record about it. In: (line, record)."""
    found: dict[tuple[str, str, str], int] = {}
    for line, record in records:
        if record.item in ITEMS and (nonce := nonce_of(record)):
            key = (record.item, record.subject, nonce)
            found[key] = min(line, found.get(key, line))
    return found


def faults(
    said: Identity, *, place: Place, device: str, nonce: str, sha256: str, at: datetime, keys: Collection[str]
) -> str:
    """Why this is not the device's signature on this part of this run, made shortly before ``at``; '' if it is."""
    found = _MESSAGE.fullmatch(said.message)
    if found is None:
        return NAMES_NO_STORE if said.message.startswith(EARLIER) else "its message is no signed result"
    site, store, named, run, run_nonce, made, digest = found.groups()
    if (site, named) != (place.site, device):
        return f"it was signed for {named} of the site {site}, and the result is about {device} of {place.site}"
    if store != place.store:
        return f"it was signed for the evidence store {store[:8]}, not for {place.store[:8]}. Fix: run the load again"
    if run_nonce != nonce:
        return f"it was signed for another run ({run[:60]})"
    if digest != sha256:
        return "it was signed for another result"
    try:
        age = at - moment(made, "at")
    except Refused as error:
        return str(error)
    if not -SKEW <= age <= MAX_AGE:
        return f"it was signed at {made}, and the result was judged at {at.isoformat()}"
    if not verifies(said.signature, said.message, NAMESPACE, keys):
        return f"no pinned host key of {device} signed it"
    return ""


def why_unsigned(
    record: Record, place: Place, keys: Mapping[str, Collection[str]], parts: Iterable[Part] | None = None
) -> str:
    """Which device did not itself sign its part, and why; '' if all did. parts: None for the subject and its raw output."""
    nonce = nonce_of(record)
    for device, sha256 in [(record.subject, record.raw_sha256)] if parts is None else parts:
        found = [one for one in record.identities if one.channel == CHANNEL and one.device == device]
        why = [
            faults(
                one,
                place=place,
                device=device,
                nonce=nonce,
                sha256=sha256,
                at=record.ended,
                keys=keys.get(device, frozenset()),
            )
            for one in found
        ]
        if "" not in why:
            said = f": {why[0]}" if why else ""
            return f"{device} did not sign its result with its host key{said}"
    return ""
