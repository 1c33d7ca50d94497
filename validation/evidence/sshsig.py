"""Signatures that OpenSSH makes with `ssh-keygen -Y sign`, verified against pinned host keys.

In: an armoured signature, the message, its namespace, and the keys that may have signed. Out: True or False. The format is
OpenSSH's PROTOCOL.sshsig, version 1. Only ssh-ed25519 keys are verified: RFC 8709 gives their encoding.
"""

import base64
import binascii
import functools
import hashlib
import re
from collections.abc import Collection
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from inventory.paths import open_file

KEY_TYPE = "ssh-ed25519"
FIRST_USE = "first-use"
"""A word in the comment of a known_hosts line: the key was accepted when it was first seen."""
MAX_SIGNATURE = 4096
"""Most characters of an armoured signature; one of an ed25519 key has about 300."""
MAX_KNOWN_HOSTS = 16 << 20
_MAGIC = b"SSHSIG"
_ARMOUR = re.compile(r"-----BEGIN SSH SIGNATURE-----\s([A-Za-z0-9+/=\s]++)-----END SSH SIGNATURE-----\s*+")
"""Without a way back (`++`): a text of blanks that is no signature took the square of its length."""
_HASHES = {b"sha256": hashlib.sha256, b"sha512": hashlib.sha512}


def verifies(signature: str, message: str, namespace: str, keys: Collection[str]) -> bool:
    """Whether one of the keys signed the message in this namespace. False for anything that is no such signature.

    ``keys`` are public keys in base64, as in the third column of known_hosts.
    """
    found = _ARMOUR.fullmatch(signature) if len(signature) <= MAX_SIGNATURE else None
    if found is None:
        return False
    try:
        blob = base64.b64decode("".join(found[1].split()), validate=True)
        if blob[:10] != _MAGIC + b"\0\0\0\1":
            return False
        key, space, reserved, algorithm, signed = _strings(blob[10:], 5)
        if base64.b64encode(key).decode() not in keys or space != namespace.encode() or reserved:
            return False
        public_type, public = _strings(key, 2)
        signed_type, raw = _strings(signed, 2)
        if public_type != KEY_TYPE.encode() or signed_type != public_type:
            return False
        digest = _HASHES[algorithm](message.encode()).digest()
        text = _MAGIC + b"".join(len(part).to_bytes(4, "big") + part for part in (space, b"", algorithm, digest))
        return _signed(public, raw, text)
    except (binascii.Error, KeyError, ValueError):
        return False


@functools.lru_cache(maxsize=65536)
def _signed(public: bytes, raw: bytes, text: bytes) -> bool:
    """Whether the key signed the text. Remembered: a gate asks of one signature at each item that rests on it."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(raw, text)
    except InvalidSignature:
        return False
    return True


def _strings(data: bytes, count: int) -> list[bytes]:
    """The strings of an SSH wire encoding (RFC 4251, section 5). ValueError unless there are ``count`` and nothing else."""
    found = []
    for _ in range(count):
        length = int.from_bytes(data[:4], "big")
        if len(data) < 4 + length:
            raise ValueError("cut short")
        found.append(data[4 : 4 + length])
        data = data[4 + length :]
    if data:
        raise ValueError("more than expected")
    return found


def pinned_keys(known_hosts: str) -> dict[str, frozenset[str]]:
    """{address: its ed25519 keys in base64} of a known_hosts file, without those whose comment says first-use.

    A hashed or wildcard name and a certificate authority pin no single device and are left out. A key that a line marks
    `@revoked` is left out wherever it stands, for whatever names it was revoked.
    """
    found: dict[str, set[str]] = {}
    lines = known_hosts[:MAX_KNOWN_HOSTS].splitlines()
    revoked = {words[3] for words in map(str.split, lines) if len(words) > 3 and words[0] == "@revoked"}
    for line in lines:
        names, _, rest = line.strip().partition(" ")
        words = rest.split()
        if not names or names[0] in "#@|" or len(words) < 2 or words[0] != KEY_TYPE or FIRST_USE in words[2:]:
            continue
        if words[1] in revoked:
            continue
        for name in names.split(","):
            if not set("*?!|") & set(name):
                found.setdefault(re.sub(r"^\[(.*)\]:22$", r"\1", name), set()).add(words[1])
    return {name: frozenset(keys) for name, keys in found.items()}


def read_pinned(path: Path) -> dict[str, frozenset[str]]:
    """``pinned_keys`` of a file; empty where it cannot be read, so that nothing is proven by it."""
    try:
        with open_file(path) as file:
            return pinned_keys(file.read(MAX_KNOWN_HOSTS).decode("utf-8", errors="replace"))
    except OSError:
        return {}
