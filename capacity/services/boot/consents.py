"""Consent to overwrite a drive: it names server, serial number and content, so that it cannot be used a second time.

    gpu001:S6ABCD:3f0c…     the drive S6ABCD of gpu001 may be overwritten while its content is 3f0c…

The content is the SHA-256 over the first 2 MiB and the last MiB of the drive, as the initramfs reports it when it refuses
(state foreign-content). Each writing leaves a random number among those bytes: after it the consent names nothing any more.
An empty drive is written without a consent; gpu001:S6ABCD:empty asks for a seed for a server that was written before.
Consents stay in the rendering until they are withdrawn, or another content of the same drive is consented to.
"""

import re
import shlex
from collections.abc import Iterable, Mapping

from capacity.services.boot.intents import Intents
from capacity.services.boot.life import Report, way_out

CONTENT = re.compile(r"[0-9a-f]{64}")
CONSENTED = re.compile(rf"{CONTENT.pattern}|empty")
_DRIVE = re.compile(r"drive (\S+) holds ([0-9a-f]{64})")
_SEPARATOR = ", "


class ConsentError(Exception):
    """A consent that names nothing of the plan; the message says what is wrong with which."""


def parse(texts: Iterable[str], found: Intents) -> dict[str, dict[str, str]]:
    """Server -> serial number -> content that may be overwritten. ConsentError for a server or drive that is not planned."""
    made: dict[str, dict[str, str]] = {}
    for text in texts:
        server, _, rest = text.partition(":")
        serial, _, content = rest.rpartition(":")
        if server not in found.layouts:
            raise ConsentError(f"--overwrite {text}: no server {server} that boots from the network")
        if serial not in found.layouts[server].serials:
            raise ConsentError(
                f"--overwrite {text}: {serial or 'no drive'} is no boot drive of {server}; "
                f"these are: {', '.join(found.layouts[server].serials)}"
            )
        if not CONSENTED.fullmatch(content):
            raise ConsentError(f"--overwrite {text}: the content is 64 hex digits, as the refusal names it, or empty")
        made.setdefault(server, {})[serial] = content
    return made


def kept(
    earlier: Mapping[str, Mapping[str, str]], withdrawn: Iterable[str], found: Intents
) -> dict[str, dict[str, str]]:
    """Consents of an earlier rendering that still name a planned drive, without the withdrawn ones: SERVER, or SERVER:SERIAL.
    ConsentError for one that is not there.
    """
    made = {
        server: {serial: content for serial, content in given.items() if serial in found.layouts[server].serials}
        for server, given in earlier.items()
        if server in found.layouts
    }
    for text in withdrawn:
        server, _, serial = text.partition(":")
        given = made.get(server, {})
        if not given or (serial and serial not in given):
            there = " ".join(f"{name}:{drive}" for name, drives in sorted(made.items()) for drive in sorted(drives))
            raise ConsentError(f"--withdraw {text}: no such consent; there are: {there or 'none'}")
        for drive in [serial] if serial else list(given):
            del given[drive]
    return made


def asked_for(reports: Mapping[str, Iterable[Report]]) -> dict[str, tuple[str, ...]]:
    """By server whose newest report refuses what drives hold: the consents that would let all of them be overwritten."""
    asked = {}
    for server, said in reports.items():
        newest = max(said, key=lambda report: report.time, default=None)
        if newest and (wanted := _asked(server, newest.state, newest.text)):
            asked[server] = wanted
    return asked


def remedy(server: str, stop: str, text: str) -> str:
    """What to do about a stop; for foreign content with the words of the consents."""
    words = overwrites(_asked(server, stop, text))
    return f"{way_out(stop)}: bringup boot render SITE {words}" if words else way_out(stop)


def overwrites(consents: Iterable[str]) -> str:
    """The words of a command line that give these consents."""
    return " ".join(f"--overwrite {shlex.quote(consent)}" for consent in consents)


def _asked(server: str, stop: str, text: str) -> tuple[str, ...]:
    drives = [_DRIVE.fullmatch(drive) for drive in text.split(_SEPARATOR)] if stop == "foreign-content" else []
    return tuple(f"{server}:{drive[1]}:{drive[2]}" for drive in drives if drive)
