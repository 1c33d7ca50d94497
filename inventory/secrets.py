"""The one resolver of references and paths in a site file. Secrets become values only here, at the moment of use.

A path in a site file is relative to the folder of that file, and ``~`` is the home of whoever runs the command.

``env:NAME`` reads an environment variable, ``file:PATH`` a file (relative paths: beside the site file),
``vault:PATH#FIELD`` asks the ``vault`` command, which finds its server and token in the usual environment variables.
The value comes back wrapped, so that it cannot reach a log, a traceback or a state file by accident.

A secret of which each device has its own is named by ``{device}`` or ``{serial}`` in one of these references, or it stands in
a table, ``table:PATH#COLUMN`` (inventory/secret_tables.py). `for_devices` resolves both kinds, for one device after the other.
"""

import os
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from pydantic import SecretStr

from inventory.paths import open_file, read_file
from inventory.secret_tables import Owner, TableError, read_table

SCHEMES = ("env", "file", "vault")
TABLE = "table"
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
OF_THE_DEVICE = ("device", "serial")
"""What may stand in a reference between braces."""
PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
"""A name or serial that may become part of a path, a variable's name or a vault's path: it leads to no other folder."""
VAULT_BUDGET_S = 15.0
MAX_SECRET = 1 << 20
"""Bytes of a secret's file: a key has a few thousand."""


class SecretError(Exception):
    """A reference that cannot be resolved; the message names the reference and the way out, never a value."""


def split(reference: str) -> tuple[str, str]:
    """(scheme, rest) of a reference; SecretError (which does not show the text) if it is not one."""
    scheme, colon, rest = reference.partition(":")
    if not colon or scheme not in (*SCHEMES, TABLE) or not rest.strip():
        raise SecretError("not a secret reference: expected env:NAME, file:PATH or vault:PATH#FIELD (value not shown)")
    return scheme, rest


def is_per_device(reference: str) -> bool:
    """Whether the devices of a site may have different secrets behind this reference."""
    return reference.startswith(f"{TABLE}:") or any(name in OF_THE_DEVICE for name in PLACEHOLDER.findall(reference))


def for_devices(reference: str, base: Path) -> Callable[[Owner], SecretStr]:
    """What gives a device the secret that is behind a reference for it; each is looked up once.

    What all devices share is read now: a secret without placeholders, and a table. SecretError as of `resolve`, now or when a
    device is asked for; also where the table has no row of it.
    """
    if not is_per_device(reference):
        shared = resolve(reference, base)
        return lambda owner: shared
    scheme, rest = split(reference)
    if scheme != TABLE:
        find = _named(reference, base)
    else:
        path, hash_sign, column = rest.partition("#")
        if not hash_sign or not path or not column or PLACEHOLDER.search(rest):
            raise SecretError(
                f"{reference}: expected table:PATH#COLUMN, for example table:/etc/bringup/bmc.csv#password"
            )
        try:
            table = read_table(site_path(path, base), column, reference)
        except TableError as error:
            raise SecretError(str(error)) from None

        def find(owner: Owner) -> SecretStr:
            try:
                return SecretStr(table.secret(owner))
            except TableError as error:
                raise SecretError(str(error)) from None

    known: dict[Owner, SecretStr] = {}
    locks: dict[Owner, threading.Lock] = {}

    def once(owner: Owner) -> SecretStr:
        with locks.setdefault(owner, threading.Lock()):
            if owner not in known:
                known[owner] = find(owner)
            return known[owner]

    return once


def _named(reference: str, base: Path) -> Callable[[Owner], SecretStr]:
    def find(owner: Owner) -> SecretStr:
        def part(match: re.Match[str]) -> str:
            name = match[1]
            if name not in OF_THE_DEVICE:
                return match[0]
            said = str(getattr(owner, name))
            if not said:
                raise SecretError(f"{reference}: {owner.device} has no {name}; add it to assets.csv")
            if not PART.fullmatch(said):
                raise SecretError(
                    f"{reference}: the {name} of {owner.device} has characters other than letters, digits, '.', '_' and '-' "
                    "or begins with '.' or '-'; write the secrets into a table and refer to it by table:PATH#COLUMN"
                )
            return said

        return resolve(PLACEHOLDER.sub(part, reference), base)

    return find


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
    if is_per_device(reference):
        raise SecretError(f"{reference}: each device has its own secret there, but this one is the same for all")
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
