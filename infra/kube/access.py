"""From a kubeconfig to a connection, and the first question to an API server.

    connection = connect(Path("kubeconfig"))      # ClusterError names the file, what it lacks, and the way out
    version(connection)                           # "v1.36.3", or ClusterError after ANSWER_S

Certificates and tokens are read from the file and stay in this process. A kubeconfig that would start a program, or leave the
server's certificate unchecked, is refused.
"""

import base64
import binascii
import json
import re
import ssl
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import yaml

from inventory.paths import var_dir
from inventory.yaml_data import handed_in

ANSWER_S = 10.0
"""For the first answer of an API server; one that is up answers within a second."""
LARGEST = 1 << 20
"""Bytes of a kubeconfig, and of an answer; a kubeconfig with embedded certificates has about 6 kB."""
VERSION = re.compile(r"v\d+\.\d+\.\d+[-+.0-9A-Za-z]{0,64}")
"""https://semver.org behind a v: v1.36.3, v1.36.3-gke.100."""


class ClusterError(Exception):
    """The cluster cannot be reached or refuses; the text is for the user."""


@dataclass(frozen=True)
class Connection:
    """A server and how to prove who asks."""

    server: str
    tls: ssl.SSLContext = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


def kubeconfig_of(site_name: str) -> Path:
    """Where the kubeconfig of a site is kept; `pulumi up` takes it from there unless bringup:kubeconfig is set."""
    return var_dir(site_name) / "kubeconfig"


def connect(path: Path) -> Connection:
    """The connection of the current context of a kubeconfig."""
    try:
        if path.stat().st_size > LARGEST:
            raise ClusterError(f"{path}: larger than {LARGEST >> 20} MiB, so it is no kubeconfig")
        given = handed_in(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ClusterError(
            f"kubeconfig {path} cannot be read: {error.strerror}. Write the path of a file of the cluster's administrator: "
            "pulumi config set bringup:kubeconfig PATH"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ClusterError(f"kubeconfig {path} is no YAML: {' '.join(str(error).split())[:200]}") from None
    where = f"kubeconfig {path}"
    context = _named(given, "contexts", "context", _text(given, "current-context", where), where)
    cluster = _named(given, "clusters", "cluster", _text(context, "cluster", where), where)
    user = _named(given, "users", "user", _text(context, "user", where), where)
    server = _text(cluster, "server", where).rstrip("/")
    if not _is_https(server):
        raise ClusterError(f"{where}: server {server} is not https://HOST: credentials would travel in the clear")
    if cluster.get("insecure-skip-tls-verify"):
        raise ClusterError(
            f"{where}: insecure-skip-tls-verify is refused. Delete it and give certificate-authority-data"
        )
    if "exec" in user or "auth-provider" in user:
        raise ClusterError(f"{where}: it starts a program for its credentials. Give a client certificate or a token")
    return Connection(server, _tls(cluster, user, path.parent, where), _headers(user, where))


def version(connection: Connection, within_s: float = ANSWER_S) -> str:
    """What the server says it is; ClusterError when it does not answer in time or does not know us."""
    url, headers, end = f"{connection.server}/version", dict(connection.headers), time.monotonic() + within_s
    said = bytearray()
    try:
        with httpx.stream("GET", url, verify=connection.tls, headers=headers, timeout=within_s) as answer:
            for part in answer.iter_raw():
                said += part
                if len(said) > LARGEST or time.monotonic() > end:
                    raise ClusterError(f"{url}: expected Kubernetes' version, got {len(said)} bytes without an end")
            status = answer.status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ClusterError(no_answer(connection, error, within_s)) from None
    if status in (401, 403):
        raise ClusterError(
            f"{connection.server} does not accept the kubeconfig's credentials ({status}): they may have expired. "
            "Take a new one: bringup kubeconfig SITE, or on another's cluster from its administrator"
        )
    try:
        told = json.loads(said)["gitVersion"]
    except (ValueError, KeyError, TypeError, RecursionError):
        told = None
    if status != 200 or not isinstance(told, str) or not VERSION.fullmatch(told):
        raise ClusterError(f"{url}: expected Kubernetes' version, got an answer of status {status} without one")
    return told


def no_answer(connection: Connection, error: Exception, within_s: float) -> str:
    """A server that was not reached, in words."""
    why = " ".join(str(error).split()) or type(error).__name__
    return (
        f"API server {connection.server} gave no answer within {within_s:g} s: {why}. "
        "Check that it runs, and that this machine reaches it and trusts its certificate"
    )


def _is_https(server: str) -> bool:
    try:
        parts = urlsplit(server)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.hostname)


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path, where: str) -> ssl.SSLContext:
    authority = _pem(cluster, "certificate-authority", folder, where)
    if authority is None:
        raise ClusterError(f"{where}: no certificate-authority-data: the server could not be told from another")
    try:
        tls = ssl.create_default_context(cadata=authority.decode("ascii"))
        certificate, key = (_pem(user, f"client-{part}", folder, where) for part in ("certificate", "key"))
        if certificate and key:
            with tempfile.NamedTemporaryFile() as file:  # mode 0600, gone when read: ssl takes files only
                file.write(certificate + b"\n" + key)
                file.flush()
                tls.load_cert_chain(file.name)
    except (ssl.SSLError, ValueError) as error:
        raise ClusterError(f"{where}: its certificates cannot be used: {error}") from None
    return tls


def _headers(user: Mapping[str, Any], where: str) -> dict[str, str]:
    if "token" not in user:
        return {}
    token = _text(user, "token", where)
    if not token.isascii() or not token.isprintable():
        raise ClusterError(f"{where}: its token is no printable text")
    return {"Authorization": f"Bearer {token}"}


def _pem(holder: Mapping[str, Any], key: str, folder: Path, where: str) -> bytes | None:
    try:
        if f"{key}-data" in holder:
            return base64.b64decode(_text(holder, f"{key}-data", where), validate=True)
        return (folder / _text(holder, key, where)).read_bytes() if key in holder else None
    except (binascii.Error, OSError) as error:
        raise ClusterError(f"{where}: {key} cannot be read: {error}") from None


def _named(given: Any, many: str, one: str, name: str, where: str) -> Mapping[str, Any]:
    entries = given.get(many) if isinstance(given, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(one), dict):
            return entry[one]
    raise ClusterError(f"{where}: {many} has no entry {name!r}")


def _text(given: Any, key: str, where: str) -> str:
    value = given.get(key) if isinstance(given, dict) else None
    if not isinstance(value, str) or not value:
        raise ClusterError(f"{where}: {key} is missing")
    return value
