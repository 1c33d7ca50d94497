"""May this server be started from the network, so that its drives are written? Decided before its power is touched.

    offer = parse_offer(text)                    what the boot server serves to one MAC, as it was read there
    barred(target, offer, seen)                  None, or (stop, why)
    outlook(target, offer, life, seen)           what an apply would do to it, one line for a preview; '' for nothing

The initramfs looks at the drives once more and refuses by itself (infra/boot/deploy.sh): what is decided here spares a running
server the power cut.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from capacity.services.boot.consents import CONSENTED
from capacity.services.boot.life import Life, way_out

_ASSIGNMENT = re.compile(r"([A-Z][A-Z0-9_]{0,31})='([^'\\\n]{0,4096})'")
_NEEDED = ("DEVICE", "ROLE", "VERSION", "ROOT_SHA256", "SERIALS", "CONSENTS")
MOST_LINES = 100


class OfferError(Exception):
    """Not the plan of one server (capacity/services/boot/scripts.py)."""


@dataclass(frozen=True)
class Target:
    """What a server shall run: image by role, version and SHA-256 of its root, on the drives with these serial numbers."""

    server: str
    role: str
    version: str
    sha256: str
    serials: tuple[str, ...]

    @property
    def note(self) -> str:
        """What the node says when it runs this image."""
        return f"{self.role} {self.version} {self.sha256}"


@dataclass(frozen=True)
class Offer:
    """What the boot server would have written: `consents` by serial number the content that may be overwritten."""

    server: str
    role: str
    version: str
    sha256: str
    serials: tuple[str, ...]
    consents: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Now:
    """A server as it stands. `on`: None where the BMC did not say. `ours`: this program switched it on. `running`: what the node
    says of its image, '' for a system that was not written from an image, None where no node answers. `contents`: by serial number
    of its drives what they hold, as far as the node tells. `had`: version of the image that it was last written with.
    """

    on: bool | None
    ours: bool
    running: str | None
    contents: Mapping[str, str] = field(default_factory=dict)
    had: str = ""


def parse_offer(text: str) -> Offer:
    """The offer in the plan of a server. OfferError for anything else: the text comes from another machine."""
    lines = [line for line in text.splitlines() if line.strip()]
    said: dict[str, str] = {}
    if len(lines) > MOST_LINES:
        raise OfferError(f"at most {MOST_LINES} assignments, not {len(lines)}")
    for number, line in enumerate(lines, start=1):
        match = _ASSIGNMENT.fullmatch(line)
        if match is None or match.group(1) in said:
            raise OfferError(f"line {number} is no assignment, or a second one of its name")
        said[match.group(1)] = match.group(2)
    if missing := [name for name in _NEEDED if name not in said]:
        raise OfferError(f"{', '.join(missing)} missing")
    pairs = [word.partition("=") for word in said["CONSENTS"].split()]
    consents = {serial: content for serial, _, content in pairs}
    if len(consents) != len(pairs) or not all(CONSENTED.fullmatch(content) for content in consents.values()):
        raise OfferError("CONSENTS are no pairs of serial number and content")
    return Offer(
        said["DEVICE"], said["ROLE"], said["VERSION"], said["ROOT_SHA256"], tuple(said["SERIALS"].split()), consents
    )


def differs(target: Target, offer: Offer | None) -> str:
    """How the boot server's offer differs from what is planned; '' for not at all."""
    if offer is None:
        return f"{target.server} is served nothing"
    problems = [
        f"{what} {given}, planned {wanted}"
        for what, given, wanted in (
            ("server", offer.server, target.server),
            ("role", offer.role, target.role),
            ("image", offer.version, target.version),
            ("SHA-256", offer.sha256[:12], target.sha256[:12]),
            ("drives", " ".join(offer.serials), " ".join(target.serials)),
        )
        if given != wanted
    ]
    return f"it is served {'; '.join(problems)}" if problems else ""


def barred(target: Target, offer: Offer | None, now: Now) -> tuple[str, str] | None:
    """Why the server must not be started from the network, as a stop and its reason; None where it may be."""
    if problem := differs(target, offer):
        return "not-offered", problem
    assert offer is not None
    if _holds_something(target, now):
        if unsaid := [serial for serial in target.serials if not _consented(offer, serial, now.contents)]:
            return "no-consent", f"{_named(now)}; {_asked(target, unsaid, now.contents)}"
        return None
    if now.on and not now.ours and now.running is None:
        return "in-use", "it has power, nobody here switched it on, and no node of ours answers"
    return None


def requested(target: Target, offer: Offer | None, now: Now) -> bool:
    """Whether somebody asks that a server be written that has the planned image: consent to all its drives, as they are now. Of a
    server that is off nobody knows that; the initramfs then compares, and starts the drives where they hold something else.
    """
    if differs(target, offer) or offer is None or not set(target.serials) <= set(offer.consents):
        return False
    if now.running is None:
        return now.on is False
    return all(now.contents.get(serial) == offer.consents[serial] for serial in target.serials)


def outlook(target: Target, offer: Offer | None, life: Life, now: Now) -> str:
    """What an apply would do to the server, in one line; '' for nothing."""
    again = requested(target, offer, now)
    if now.running == target.note and not again:
        return ""
    if not again and now.running is None and life.step == "ready" and life.image == target.version:
        return f"{target.server}: ready, and does not answer; would be started from its drives if it is off"
    where = f"stands at {life.step}" + (f", stopped as {life.stopped}" if life.stopped else "")
    if stop := barred(target, offer, now):
        return f"{target.server}: {where}; would not be written ({stop[0]}): {stop[1]}; {way_out(stop[0])}"
    assert offer is not None
    drives = ", ".join(target.serials)
    if again or _holds_something(target, now) or offer.consents:
        given = ", ".join(f"{serial} while it holds {content[:12]}" for serial, content in offer.consents.items())
        what = f"would be RE-IMAGED with {target.role} {target.version}: consent to {given or 'nothing'}"
    else:
        what = f"would be written with {target.role} {target.version} on {drives}, if these drives are empty"
    return f"{target.server}: {where}; {what}"


def _consented(offer: Offer, serial: str, contents: Mapping[str, str]) -> bool:
    """Whether a drive may be overwritten as it is. What it holds is compared where the node tells it."""
    given = offer.consents.get(serial)
    return given is not None and contents.get(serial, given) == given


def _asked(target: Target, serials: Sequence[str], contents: Mapping[str, str]) -> str:
    wanted = " ".join(f"--overwrite {target.server}:{serial}:{contents.get(serial, 'SHA256')}" for serial in serials)
    return f"to overwrite it: {wanted}"


def _holds_something(target: Target, now: Now) -> bool:
    """Whether another system than the planned one is known to be on its drives."""
    if now.running is None:
        return now.had not in ("", target.version)
    return now.running != target.note


def _named(now: Now) -> str:
    if now.running is None:
        return f"it was last written with image {now.had} and does not answer"
    return f"it runs {' '.join(now.running.split()[:2]) or 'a system that was not written from an image'}"
