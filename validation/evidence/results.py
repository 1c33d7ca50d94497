"""A node's signature on the result of its own load, by its SSH host key.

    message = message_of(site, device, at, sha256)         # what the node signs, with `ssh-keygen -Y sign -n result@bringup`
    why = why_unsigned(record, site, keys)                 # '' or why the node itself did not sign what the record rests on

In: a record, the name of its site, the pinned host keys of its subject. The signature is an identity of the record on the channel
`result-signature`; it counts for no other purpose. The message names site, device and the SHA-256 of the result, which is the
record's raw output. So a node signs for itself alone, and a collector cannot sign in its place.
"""

import re
from collections.abc import Collection
from datetime import datetime, timedelta

from validation.evidence.mode import PINNED, Identity
from validation.evidence.record import Record
from validation.evidence.sshsig import verifies
from validation.evidence.strict import Refused, moment

NAMESPACE = "result@bringup"
"""Namespace of the signatures (ssh-keygen -Y sign -n): a signed challenge is no signed result."""
CHANNEL = "result-signature"
ITEMS = frozenset({"S034.measured"})
"""Items whose load keeps a result on each node; those of jobs over several nodes have one result of all (docs/threat-model.md)."""
MAX_AGE = timedelta(days=1)
"""Between a node's signature and the end of its record: the check judges what it has just collected. A choice of ours."""
SKEW = timedelta(minutes=5)
"""By how much clocks of node and collector may differ; as in the verdict."""

_MESSAGE = re.compile(r"bringup result 1\nsite ([^\n]*)\ndevice ([^\n]*)\nat ([^\n]*)\nsha256 ([0-9a-f]{64})\n")


def head_of(site: str, device: str) -> str:
    """The first lines of a message; the node adds time and SHA-256."""
    return f"bringup result 1\nsite {site}\ndevice {device}\n"


def message_of(site: str, device: str, at: datetime, sha256: str) -> str:
    """What a node signs."""
    return f"{head_of(site, device)}at {at.isoformat()}\nsha256 {sha256}\n"


def signed_result(device: str, message: str, signature: str) -> Identity:
    """The signature as a record keeps it."""
    return Identity(device, CHANNEL, enrolled=PINNED, message=message, signature=signature)


def faults(said: Identity, site: str, device: str, sha256: str, at: datetime, keys: Collection[str]) -> str:
    """Why this is not the device's signature on this result, made shortly before ``at``; '' if it is."""
    found = _MESSAGE.fullmatch(said.message)
    if found is None:
        return "its message is no signed result"
    named_site, named, made, digest = found.groups()
    if (named_site, named) != (site, device):
        return f"it was signed for {named} of the site {named_site}, and the result is about {device} of {site}"
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


def why_unsigned(record: Record, site: str, keys: Collection[str]) -> str:
    """Why the record's subject did not itself sign its raw output; '' if it did."""
    found = [one for one in record.identities if one.channel == CHANNEL and one.device == record.subject]
    if not found:
        return f"{record.subject} did not sign its result with its host key"
    why = [faults(one, site, record.subject, record.raw_sha256, record.ended, keys) for one in found]
    return "" if "" in why else f"{record.subject} did not sign its result with its host key: {why[0]}"
