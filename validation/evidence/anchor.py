"""The anchor: length and last line of the evidence log, kept where nobody who can write the evidence folder can write.

The signed head notices a log that was cut. It cannot notice an older copy of the whole folder, which has an older head. The
gate compares the log with its anchor and then moves the anchor on: a log that does not extend its anchor is broken.

    FILE                  a JSON file, on a share or a stick that the evidence host only appends to
    http:// or https://   GET reads it, PUT writes it; 404 means that there is none yet. A proxy of the environment is used for
                          https alone: who sets one for http would give another anchor
    git:REPOSITORY        a local repository: one commit per move on refs/bringup/anchors/<site>
"""

import http.client
import os
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from inventory.paths import write_file
from network.drivers.budget import within
from validation.evidence import strict
from validation.evidence.store import Contents

TIMEOUT_S = 20
FILE_NAME = "anchor.json"
_SITE = re.compile(r"[a-z0-9][a-z0-9-]*")


class AnchorError(Exception):
    """An anchor that cannot be read or written; the message says which and why."""


@dataclass(frozen=True)
class Anchor:
    """Lines of a log, the SHA-256 of the last one, and the id of its store."""

    site: str
    store: str
    lines: int
    last: str

    def as_bytes(self) -> bytes:
        """Its file."""
        data = {"schema_version": 1, "site": self.site, "store": self.store, "lines": self.lines, "last": self.last}
        return strict.canonical(data) + b"\n"


def parse(data: bytes, place: str) -> Anchor:
    """An anchor from its file; AnchorError if it is none."""
    try:
        found = strict.loads(data.removesuffix(b"\n"), limit=strict.MAX_SMALL)
        strict.fields(found, "schema_version", "site", "store", "lines", "last")
        return Anchor(
            strict.text(found, "site"),
            strict.text(found, "store"),
            strict.number(found, "lines"),
            strict.digest(found, "last"),
        )
    except ValueError as error:
        raise AnchorError(f"anchor {place}: {error}") from None


def compare(anchor: Anchor | None, contents: Contents) -> list[str]:
    """Why a log does not extend its anchor; nothing if it does, or there is no anchor yet."""
    if anchor is None:
        return []
    if anchor.lines > len(contents.digests):
        return [
            f"the log has {len(contents.digests)} lines, but its anchor {anchor.lines}: the folder is cut, or an older copy"
        ]
    if anchor.store != contents.store:
        return [
            f"the log belongs to the store {contents.store!r}, but its anchor to {anchor.store!r}: the folder was replaced"
        ]
    if anchor.lines and contents.digests[anchor.lines - 1] != anchor.last:
        return [f"line {anchor.lines} of the log is not the one of its anchor: the log was written anew"]
    return []


class Place(ABC):
    """Where one site's anchor is kept."""

    def __init__(self, where: str, site: str) -> None:
        self.where, self.site = where, site

    def read(self) -> Anchor | None:
        """The anchor; None if there is none yet. AnchorError if it cannot be read, or is another site's."""
        data = self.fetch()
        if data is None:
            return None
        found = parse(data, self.shown)
        if found.site != self.site:
            raise AnchorError(f"anchor {self.shown}: is of the site {found.site!r}, not of {self.site}")
        return found

    @property
    def shown(self) -> str:
        """The place as messages name it."""
        return self.where

    def write(self, contents: Contents) -> None:
        """Move the anchor on to the end of a log that extends it. One that another gate has moved further meanwhile stays."""
        if not contents.digests:
            return
        now, new = self.read(), Anchor(self.site, contents.store, len(contents.digests), contents.last)
        if now != new and not compare(now, contents):
            self.store(new.as_bytes())

    @abstractmethod
    def fetch(self) -> bytes | None:
        """Its bytes, at most ``strict.MAX_SMALL``."""

    @abstractmethod
    def store(self, data: bytes) -> None:
        """Replace it."""


class _File(Place):
    def fetch(self) -> bytes | None:
        path = Path(self.where)
        try:
            return strict.read(path.parent, path.name, strict.MAX_SMALL)
        except FileNotFoundError:
            if not path.parent.is_dir():
                raise AnchorError(f"anchor {self.where}: there is no folder {path.parent}") from None
            return None
        except strict.Refused as error:
            raise AnchorError(f"anchor {self.where}: {error}") from None

    def store(self, data: bytes) -> None:
        try:
            write_file(Path(self.where), data, durable=True, follow=False)
        except OSError as error:
            raise AnchorError(f"anchor {self.where}: cannot be written: {error.strerror}") from None


class _Url(Place):
    def fetch(self) -> bytes | None:
        return self._ask(urllib.request.Request(self.where), absent=404)

    def store(self, data: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        self._ask(urllib.request.Request(self.where, data=data, method="PUT", headers=headers))

    @property
    def shown(self) -> str:
        """The address without what may be a secret."""
        parts = urllib.parse.urlsplit(self.where)
        return f"{parts.scheme}://{parts.netloc}{parts.path}"

    def _ask(self, request: urllib.request.Request, absent: int = 0) -> bytes | None:
        """What the server answers within TIMEOUT_S; None where its status is ``absent``."""
        method = request.get_method()
        try:
            return within(TIMEOUT_S, lambda: _answer(request))
        except urllib.error.HTTPError as error:
            if error.code == absent:
                return None
            raise AnchorError(f"anchor {self.shown}: {method} answers {error.code}") from None
        except TimeoutError:
            raise AnchorError(f"anchor {self.shown}: no whole answer to {method} within {TIMEOUT_S} s") from None
        except (OSError, ValueError) as error:
            raise AnchorError(f"anchor {self.shown}: {method} fails: {error}") from None
        except http.client.HTTPException as error:  # its text is the server's, or has what stands before the host
            raise AnchorError(
                f"anchor {self.shown}: {method} gets no answer of HTTP ({type(error).__name__})"
            ) from None


def _answer(request: urllib.request.Request) -> bytes:
    proxies = {scheme: address for scheme, address in urllib.request.getproxies().items() if scheme == "https"}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    with opener.open(request, timeout=TIMEOUT_S) as answer:
        return bytes(answer.read(strict.MAX_SMALL + 1))


class _Git(Place):
    @property
    def _ref(self) -> str:
        return f"refs/bringup/anchors/{self.site}"

    def fetch(self) -> bytes | None:
        self._git("rev-parse", "--git-dir")
        if not self._git("for-each-ref", "--format=%(objectname)", self._ref).strip():
            return None
        return self._git("cat-file", "blob", f"{self._ref}:{FILE_NAME}")

    def store(self, data: bytes) -> None:
        before = self._git("for-each-ref", "--format=%(objectname)", self._ref).decode().strip()
        if before and self._git("cat-file", "blob", f"{before}:{FILE_NAME}") == data:
            return
        blob = self._git("hash-object", "-w", "--stdin", given=data).decode().strip()
        tree = self._git("mktree", given=f"100644 blob {blob}\t{FILE_NAME}\n".encode()).decode().strip()
        parent = ("-p", before) if before else ()
        commit = (
            self._git("commit-tree", tree, *parent, "-m", f"Anchor of the evidence of {self.site}").decode().strip()
        )
        self._git("update-ref", self._ref, commit, before or "0" * len(commit))

    def _git(self, *arguments: str, given: bytes = b"") -> bytes:
        repository = self.where.removeprefix("git:")
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        who = {f"GIT_{one}_{what}": text for one in ("AUTHOR", "COMMITTER") for what, text in _WHO.items()}
        argv: Sequence[str] = ("git", "-C", repository, *arguments)
        try:
            done = subprocess.run(
                argv, input=given, capture_output=True, timeout=TIMEOUT_S, check=False, env=clean | who
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise AnchorError(f"anchor {self.where}: git {arguments[0]}: {error}") from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
            raise AnchorError(f"anchor {self.where}: git {arguments[0]}: {said}")
        return done.stdout


def _inside(path: Path, folder: Path) -> bool:
    """Whether a path leads into a folder. A path that nobody can follow does not."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):
        return False


def _has_host(address: str) -> bool:
    """Whether an address names a host, its port is a number, and nothing else stands before its path."""
    try:
        parts = urllib.parse.urlsplit(address)
        return bool(parts.hostname) and "@" not in parts.netloc and (parts.port or 1) > 0
    except ValueError:
        return False


_WHO = {"NAME": "bringup gate", "EMAIL": "bringup@localhost"}


def place(where: str, site: str, guards: Sequence[Path] = ()) -> Place:
    """The place that a person names: a file, an http(s) address, or ``git:`` and the folder of a local repository.

    AnchorError for one inside a folder that it ``guards``: who can change the one can change the other.
    """
    for folder in guards if "://" not in where else ():
        if _inside(Path(where.removeprefix("git:")), folder):
            raise AnchorError(
                f"anchor {where}: lies in {folder}, which it guards; keep it where nobody can write who can write there"
            )
    if where.startswith("git:"):
        if not _SITE.fullmatch(site):
            raise AnchorError(f"anchor {where}: {site!r} cannot be part of a reference of git")
        return _Git(where, site)
    if where.startswith(("http://", "https://")):
        if not _has_host(where):
            raise AnchorError("anchor: an address needs a host, and no name or password before it: nothing sends these")
        return _Url(where, site)
    if "://" in where:
        raise AnchorError(f"anchor {where}: give a file, an http(s) address, or git:REPOSITORY")
    return _File(where, site)
