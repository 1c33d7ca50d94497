"""The seal of a verdict: a signature of the recorder over its page and its JSON, so that an edited one is noticed.

reports/gate.html, gate.json    the verdict
reports/gate.seal.json          DSSE envelope over the SHA-256 of both, and their name: a rehearsal is no gate
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import Error as SecuresystemslibError
from securesystemslib.signer import CryptoSigner

from inventory.paths import write_file
from validation.evidence import strict
from validation.evidence.keys import SigningKeyError, load_public, openssh_line_of
from validation.evidence.store import read_envelope

SEAL_TYPE = "application/vnd.bringup.verdict-seal+json"


class SealError(Exception):
    """A verdict that is not the one that was sealed; the message says why."""


def write(page: Path, site: str, signer: CryptoSigner | None, html: str, data: str) -> None:
    """Seal a page and the JSON beside it, as they were made: what lies there now may be another's. Without a signer no seal."""
    if signer is None:
        return
    said = {
        "schema_version": 1,
        "site": site,
        "name": page.stem,
        "html": _sha256(html.encode()),
        "json": _sha256(data.encode()),
        "key": openssh_line_of(signer.public_key),
    }
    envelope = Envelope(strict.canonical(said), SEAL_TYPE, {})
    envelope.sign(signer)
    write_file(_path(page), strict.canonical(envelope.to_dict()) + b"\n")


def remove(page: Path) -> None:
    """Break the seal of a page that is about to be replaced."""
    _path(page).unlink(missing_ok=True)


def check(file: Path, site: str, recorders: frozenset[str]) -> Mapping[str, Any]:
    """The verdict's JSON, if page and JSON are what one of ``recorders`` sealed for this site. SealError says why not."""
    if not file.stem:
        raise SealError(f"{file}: is no verdict; give reports/gate.html or gate.json")
    folder, seal = file.parent, _path(file)
    try:
        envelope = read_envelope(strict.read(folder, seal.name, strict.MAX_SMALL).removesuffix(b"\n"))
        said = strict.fields(strict.loads(envelope.payload), "schema_version", "site", "name", "html", "json", "key")
        key = load_public(strict.text(said, "key"), seal)
        if key.keyid not in recorders:
            raise SealError(f"{seal}: signed by {key.keyid}, which the site file does not pin for the role recorder")
        if envelope.payload_type != SEAL_TYPE or set(envelope.signatures) != {key.keyid}:
            raise SealError(f"{seal}: is no seal of a verdict")
        key.verify_signature(envelope.signatures[key.keyid], envelope.pae())
        if said["site"] != site:
            raise SealError(f"{seal}: is about the site {said['site']!r}, not {site}")
        if said["name"] != file.stem:
            raise SealError(f"{seal}: was signed as {said['name']!r}, not {file.stem}")
        page, data = file.with_suffix(".html"), file.with_suffix(".json")
        told = strict.read(folder, data.name, strict.MAX_LINE)  # once: what is hashed is what is told
        for one, digest in ((page, strict.sha256_of(folder, page.name)), (data, _sha256(told))):
            if digest != said[one.suffix.removeprefix(".")]:
                raise SealError(f"{one}: was changed since the gate wrote it; run bringup gate again")
        found: Mapping[str, Any] = json.loads(told)
        return found
    except FileNotFoundError as error:
        raise SealError(f"{error.filename}: is not there; only a signed verdict can be verified") from None
    except (ValueError, SigningKeyError, SecuresystemslibError) as error:
        raise SealError(f"{seal}: does not hold: {error}") from None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _path(file: Path) -> Path:
    return file.with_name(f"{file.stem}.seal.json")
