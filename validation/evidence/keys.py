"""Signing keys: ed25519, from PEM or OpenSSH text, named by their OpenSSH fingerprint.

The fingerprint (``SHA256:...``, as ``ssh-keygen -lf`` prints it) is computed from the public key itself and serves as
key id everywhere, so that one key cannot appear under two ids.
"""

import base64
import hashlib
import shlex
import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
    load_ssh_public_key,
)
from securesystemslib.signer import CryptoSigner, SSlibKey

from inventory.secrets import reference_path, resolve, split

OTHERS = 0o077
"""Permissions of group and others."""


class SigningKeyError(Exception):
    """A key that cannot be used; the message says which and why, never its content."""


def fingerprint(public: Ed25519PublicKey) -> str:
    """``SHA256:<base64>`` over the OpenSSH form of the key, as ``ssh-keygen -lf`` prints it."""
    blob = base64.b64decode(openssh_line(public).split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def openssh_line(public: Ed25519PublicKey) -> str:
    """The one-line OpenSSH form, ``ssh-ed25519 AAAA...``."""
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def file_name(key_id: str) -> str:
    """The file of a key in the evidence folder: the digest of its fingerprint in hex, because base64 may hold ``/``."""
    digest = base64.b64decode(key_id.removeprefix("SHA256:") + "=")
    return f"{digest.hex()}.pub"


def signer_from(reference: str, base: Path, passphrase: bytes | None = None) -> CryptoSigner:
    """The signer of a private key by its reference (``file:PATH``, ``env:NAME``, ``vault:PATH#FIELD``; relative to ``base``).

    SecretError as in `resolve`; SigningKeyError for a file that others can read: then nobody knows whose signature it is.
    """
    if split(reference)[0] == "file":
        path = reference_path(reference, base)
        if path.exists() and (mode := stat.S_IMODE(path.stat().st_mode)) & OTHERS:
            mend = f"chmod 600 {shlex.quote(str(path))}"
            raise SigningKeyError(f"{path}: others can read this private key (mode {mode:04o}). Fix: {mend}")
    return load_signer(resolve(reference, base=base).get_secret_value(), passphrase)


def load_signer(private_key: str | bytes, passphrase: bytes | None = None) -> CryptoSigner:
    """A signer from the text of an ed25519 private key in PKCS8 PEM or OpenSSH form.

    SigningKeyError for anything else, or a wrong or missing passphrase.
    """
    data = private_key.encode() if isinstance(private_key, str) else private_key
    if not data.endswith(b"\n"):
        data += b"\n"
    load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in data else load_pem_private_key
    try:
        key = load(data, password=passphrase)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SigningKeyError(f"not a usable private key in PEM or OpenSSH form: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningKeyError(f"evidence is signed with ed25519; this is a key of another kind ({type(key).__name__})")
    return signer_of(key)


def signer_of(key: Ed25519PrivateKey) -> CryptoSigner:
    """The signer of a private key, its key id set to the fingerprint."""
    return CryptoSigner(key, public_key_of(key.public_key()))


def public_key_of(public: Ed25519PublicKey) -> SSlibKey:
    """The verifying key, its key id set to the fingerprint."""
    return SSlibKey.from_crypto(public, keyid=fingerprint(public))


def load_public(line: str, source: Path | str) -> SSlibKey:
    """A verifying key from its OpenSSH line; SigningKeyError naming ``source`` if it is none."""
    try:
        key = load_ssh_public_key(line.strip().encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SigningKeyError(f"{source}: not an OpenSSH public key: {error}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise SigningKeyError(f"{source}: not an ed25519 key")
    return public_key_of(key)


def openssh_line_of(key: SSlibKey) -> str:
    """The OpenSSH line of a verifying key."""
    return openssh_line(Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.keyval["public"])))
