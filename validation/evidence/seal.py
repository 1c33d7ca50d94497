"""The seal of a verdict: a signature of the recorder over its files, so that an edited one is noticed.

reports/gate.html, gate.json, gate.junit.xml    the verdict
reports/gate.seal.json                          DSSE envelope over the SHA-256 of each, and their name: a rehearsal is no gate
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


SEALED: Mapping[str, str] = {".html": "html", ".json": "json", ".junit.xml": "junit"}
"""The files of a verdict by their suffix, and how the seal names each."""


class SealError(Exception):
    """A verdict that is not the one that was sealed; the message says why."""


def write(page: Path, site: str, signer: CryptoSigner | None, texts: Mapping[str, str]) -> None:
    """Seal the files of a verdict, given by suffix as they were made: what lies there now may be another's.

    Without a signer there is no seal.
    """
    if signer is None:
        return
    said = {
        "schema_version": 2,
        "site": site,
        "name": page.stem,
        **{SEALED[suffix]: _sha256(text.encode()) for suffix, text in texts.items()},
        "key": openssh_line_of(signer.public_key),
    }
    envelope = Envelope(strict.canonical(said), SEAL_TYPE, {})
    envelope.sign(signer)
    write_file(_path(page), strict.canonical(envelope.to_dict()) + b"\n", follow=False)


def remove(page: Path) -> None:
    """Break the seal of a page that is about to be replaced."""
    _path(page).unlink(missing_ok=True)


def check(file: Path, site: str, recorders: frozenset[str]) -> Mapping[str, Any]:
    """The verdict's JSON, if page and JSON are what one of ``recorders`` sealed for this site. SealError says why not."""
    sealed = file.name.endswith(tuple(SEALED))  # what else stands beside the page, no seal covers
    file = file.with_name(file.name.replace(".junit.xml", ".xml")) if file.name else file
    if not sealed or not file.stem:
        raise SealError(f"{file}: is no verdict; give reports/gate.html or gate.json")
    folder, seal = file.parent, _path(file)
    try:
        envelope = read_envelope(strict.read(folder, seal.name, strict.MAX_SMALL).removesuffix(b"\n"))
        said = strict.loads(envelope.payload)
        if isinstance(said, dict) and said.get("schema_version") == 1:
            raise SealError(
                f"{seal}: an earlier version of Bringup made it, without gate.junit.xml; run bringup gate again"
            )
        said = strict.fields(said, "schema_version", "site", "name", *SEALED.values(), "key")
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
        told = strict.read(folder, f"{file.stem}.json", strict.MAX_LINE)  # once: what is hashed is what is told
        for suffix, name in SEALED.items():
            one = file.with_suffix(suffix)
            if said[name] != (_sha256(told) if name == "json" else strict.sha256_of(folder, one.name)):
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
