"""Host keys of nodes that were just written: read from their console, where they are shown once, and put into known_hosts.

    enrol(Path("known_hosts"), "10.77.1.11", console_keys(text))     these keys, and no others, are of that address

Lines of other addresses stay as they are.
"""

from collections.abc import Iterable
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from inventory.paths import write_file
from validation.evidence.keys import fingerprint

MARK = "console"
"""Comment of the lines that come from a console."""


class EnrolError(Exception):
    """Keys that cannot be taken; the message says why."""


def fingerprint_of(key: str) -> str:
    """Fingerprint of a host key 'ssh-ed25519 base64', as ssh-keygen prints it. EnrolError for anything else."""
    try:
        public = load_ssh_public_key(key.encode())
    except (ValueError, UnsupportedAlgorithm):
        public = None
    if not isinstance(public, Ed25519PublicKey):
        raise EnrolError(
            f"{key[:40]} is no host key of type ssh-ed25519, which is what nodes make: look at the console once more"
        )
    return fingerprint(public)


def enrol(known_hosts: Path, address: str, keys: Iterable[str]) -> bool:
    """Make these ('type base64' each) the keys of an address, () for none; whether the file has changed. EnrolError for a key that
    another address has: an image must not hold host keys.
    """
    given = list(dict.fromkeys(keys))
    old = known_hosts.read_text(encoding="utf-8").splitlines() if known_hosts.exists() else []
    others = [line for line in old if line.split()[:1] != [address]]
    for line in others:
        words = line.split()
        if len(words) >= 3 and " ".join(words[1:3]) in given:
            raise EnrolError(
                f"the key {words[2][-12:]} of {address} is that of {words[0]} too: its image holds host keys, or the console "
                "is another server's; nothing was written"
            )
    lines = [*others, *(f"{address} {key} {MARK}" for key in given)]
    if lines == old:
        return False
    write_file(known_hosts, "".join(f"{line}\n" for line in lines), durable=True)
    return True
