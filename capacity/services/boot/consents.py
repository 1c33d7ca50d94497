"""Consent to overwrite a drive: it names server, serial number and content, so that it cannot be used a second time.

    gpu001:S6ABCD:3f0c…     the drive S6ABCD of gpu001 may be overwritten while its content is 3f0c…

The content is the SHA-256 over the first 2 MiB and the last MiB of the drive, as the initramfs reports it when it refuses
(state foreign-content). Each writing leaves a random number among those bytes: after it the consent names nothing any more.
"""

import re
from collections.abc import Iterable, Mapping

from capacity.services.boot.intents import Intents
from capacity.services.boot.life import Report

CONTENT = re.compile(r"[0-9a-f]{64}")
REFUSED = re.compile(r"drive (\S+) holds ([0-9a-f]{64})")


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
        if not CONTENT.fullmatch(content):
            raise ConsentError(f"--overwrite {text}: the content is 64 hex digits, as the refusal names it")
        made.setdefault(server, {})[serial] = content
    return made


def asked_for(reports: Mapping[str, Iterable[Report]]) -> dict[str, str]:
    """By server whose newest report refuses a drive's content: the consent that would let it be overwritten."""
    asked = {}
    for server, said in reports.items():
        newest = max(said, key=lambda report: report.time, default=None)
        match = REFUSED.fullmatch(newest.text) if newest and newest.state == "foreign-content" else None
        if match:
            asked[server] = f"{server}:{match.group(1)}:{match.group(2)}"
    return asked
