"""The registry of findings: what each id says and means, how severe it is, what to do, and which site keys influence it.

In: findings.yaml beside this module. Out: `registry()`, by id. Code names findings by the ids of this file only; a test holds
both together. `python -m inventory.findings_page` writes docs/findings.md of it.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from inventory.yaml_data import read_data

Severity = Literal["error", "warning", "info"]

SEVERITIES: tuple[Severity, ...] = get_args(Severity)


FINDINGS_FILE = Path(__file__).with_name("findings.yaml")
_KEYS = {
    "severity",
    "title",
    "message",
    "fixes",
    "meaning",
    "do",
    "related",
    "keys",
    "no_site_key",
    "no_remedy",
    "in_words",
    "formerly",
    "safety",
}


@dataclass(frozen=True)
class Entry:
    """What is known of a finding before it occurs.

    ``severity``  the severities that it occurs with, most severe first
    ``title``     a few words, as a heading
    ``message``   the sentence of each case, with {names} of figures and words; a finding with one sentence has the case ""
    ``fixes``     what each named remedy prints, with the same names and {settings}, its site keys and values
    ``meaning``   what is compared with which limit
    ``do``        what the person who reads it does next
    ``related``   steps (S087) and known errors (ERR-05) that it belongs to
    ``keys``      site keys that influence it
    ``no_site_key``  why no site key resolves it, where none does
    ``no_remedy``    why its findings carry no remedy, though site keys influence it
    ``in_words``     why its remedies are words, without values of site keys
    ``formerly``  earlier ids: waivers that name them still count
    ``safety``    what it does to people or buildings: no waiver accepts such an error; '' for all others
    """

    id: str
    severity: tuple[Severity, ...]
    title: str
    meaning: str
    do: str
    message: Mapping[str, str] = field(default_factory=dict)
    fixes: Mapping[str, str] = field(default_factory=dict)
    related: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    no_site_key: str = ""
    no_remedy: str = ""
    in_words: str = ""
    formerly: tuple[str, ...] = ()
    safety: str = ""


@cache
def registry() -> Mapping[str, Entry]:
    """All findings by id, in the order of their ids. ValueError names the entry that is not complete."""
    raw = read_data(FINDINGS_FILE)
    return MappingProxyType({id_: _entry(id_, value) for id_, value in sorted(raw.items())})


def current(id_: str) -> str | None:
    """The id that stands for `id_` today: itself, or the one that it was renamed to; None when it never existed."""
    if id_ in registry():
        return id_
    return next((entry.id for entry in registry().values() if id_ in entry.formerly), None)


def nearest(id_: str) -> list[str]:
    """Up to three known ids that are spelt most like `id_`."""
    return difflib.get_close_matches(id_.upper(), list(registry()), n=3, cutoff=0.5)


def _entry(id_: str, value: Mapping[str, Any]) -> Entry:
    severity = value.get("severity", ())
    given = tuple([severity] if isinstance(severity, str) else severity)
    texts = [value.get(key) for key in ("title", "meaning", "do")]
    if not given or any(one not in SEVERITIES for one in given) or not all(isinstance(t, str) and t for t in texts):
        raise ValueError(f"{FINDINGS_FILE.name}: {id_} needs severity, title, meaning and do")
    if unknown := set(value) - _KEYS:
        raise ValueError(f"{FINDINGS_FILE.name}: {id_} has unknown keys: {', '.join(sorted(unknown))}")
    lists = {key: tuple(value.get(key, ())) for key in ("related", "keys", "formerly")}
    said = value.get("message", {})
    message = {"": said} if isinstance(said, str) else said
    fixes = value.get("fixes", {})
    if not all(isinstance(one, str) and one for one in (*message.values(), *fixes.values())):
        raise ValueError(f"{FINDINGS_FILE.name}: {id_}: every message and every fix is a text")
    return Entry(
        id_,
        given,
        value["title"],
        value["meaning"],
        value["do"],
        message,
        fixes,
        **lists,
        no_site_key=value.get("no_site_key", ""),
        no_remedy=value.get("no_remedy", ""),
        in_words=value.get("in_words", ""),
        safety=value.get("safety", ""),
    )
