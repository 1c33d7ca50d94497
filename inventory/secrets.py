"""The one resolver of references and paths in a site file. Secrets become values only here, at the moment of use.

A path in a site file is relative to the folder of that file, and ``~`` is the home of whoever runs the command.

``env:NAME`` reads an environment variable, ``file:PATH`` a file (relative paths: beside the site file),
``vault:PATH#FIELD`` asks the ``vault`` command, which finds its server and token in the usual environment variables.
The value comes back wrapped, so that it cannot reach a log, a traceback or a state file by accident.
"""

import os
import subprocess
from pathlib import Path

from pydantic import SecretStr

from inventory.paths import open_file, read_file

SCHEMES = ("env", "file", "vault")
VAULT_BUDGET_S = 15.0
MAX_SECRET = 1 << 20
"""Bytes of a secret's file: a key has a few thousand."""


class SecretError(Exception):
    """A reference that cannot be resolved; the message names the reference and the way out, never a value."""


def split(reference: str) -> tuple[str, str]:
    """(scheme, rest) of a reference; SecretError (which does not show the text) if it is not one."""
    scheme, colon, rest = reference.partition(":")
    if not colon or scheme not in SCHEMES or not rest.strip():
        raise SecretError("not a secret reference: expected env:NAME, file:PATH or vault:PATH#FIELD (value not shown)")
    return scheme, rest


def reference_path(reference: str, base: Path) -> Path:
    """The path behind a ``file:`` reference, for tools that want a key file rather than its content.

    ``base`` is the folder that relative paths start from. SecretError for any other kind of reference.
    """
    scheme, rest = split(reference)
    if scheme != "file":
        raise SecretError(f"{scheme}:{rest} is not a file: reference, but this tool reads its key from a file")
    return site_path(rest, base)


def site_path(text: str, base: Path) -> Path:
    """A path as a site file gives it: ``~`` expanded, relative ones below ``base`` (``site.dir``). It need not exist."""
    try:
        return base / Path(text).expanduser()
    except RuntimeError:
        raise SecretError(f"{text}: no home directory for ~; write the whole path") from None


def readable(path: Path, key: str) -> Path:
    """``path`` if it is a file that can be read; SecretError, which names the site key and the path, if not."""
    try:
        with open_file(path):
            return path
    except OSError as error:
        raise SecretError(
            f"{key}: cannot read {path}: {error.strerror}; put the file there, or correct {key} in the site file"
        ) from None


def resolve(reference: str, base: Path) -> SecretStr:
    """The secret behind a reference, without its trailing newline.

    ``base`` is the folder that relative ``file:`` paths start from (``site.dir``). Raises SecretError when the
    variable, file or vault entry is missing, unreadable or empty.
    """
    scheme, rest = split(reference)
    if scheme == "env":
        value = os.environ.get(rest)
        if value is None:
            raise SecretError(f"env:{rest}: the environment variable {rest} is not set; export it and run again")
    elif scheme == "file":
        value = _read(reference_path(reference, base), reference)
    else:
        value = _vault(rest)
    value = value.rstrip("\r\n")
    if not value:
        raise SecretError(f"{reference}: the secret is empty")
    return SecretStr(value)


def _read(path: Path, reference: str) -> str:
    try:
        return read_file(path, MAX_SECRET).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SecretError(f"{reference}: cannot read {path}: {reason}") from None


def _vault(rest: str) -> str:
    path, hash_sign, name = rest.partition("#")
    if not hash_sign or not path or not name:
        raise SecretError(f"vault:{rest}: expected vault:PATH#FIELD, for example vault:kv/bringup/bmc#password")
    command = ["vault", "kv", "get", f"-field={name}", path]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=VAULT_BUDGET_S, check=False)
    except FileNotFoundError:
        raise SecretError(f"vault:{rest}: the vault command is not installed") from None
    except subprocess.TimeoutExpired:
        raise SecretError(f"vault:{rest}: no answer from vault within {VAULT_BUDGET_S:g} s") from None
    if done.returncode != 0:
        raise SecretError(f"vault:{rest}: vault exited {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout
