"""Evidence: signed records of what was computed, applied, measured, observed or attested, and their store."""

from validation.evidence.keys import SigningKeyError, load_signer
from validation.evidence.mode import Identity, Mode, classify
from validation.evidence.record import Record
from validation.evidence.store import Contents, Entry, IntegrityError, KeyOwner, Store

__all__ = [
    "Contents",
    "Entry",
    "Identity",
    "IntegrityError",
    "KeyOwner",
    "Mode",
    "Record",
    "SigningKeyError",
    "Store",
    "classify",
    "load_signer",
]
