"""Records: one JSON line per site and thing, how values become hashes, and the differences between two sets of them."""

import fnmatch
import hashlib
import json
import lzma
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Key = tuple[str, str]
Fields = dict[str, Any]
Records = dict[Key, Fields]

HERE = Path(__file__).parent
BASELINE = HERE / "baseline.jsonl.xz"
ACCEPTED = HERE / "accepted.yaml"
RANDOM_SITES = HERE / "random_sites.jsonl.xz"
DIGITS = 9
"""Significant digits that are compared: what differs after them is how a processor rounds."""
TEXTS = ("message", "detail")
"""Fields that are texts for people, compared only with --messages."""

_LONG = re.compile(r"(?<![\w.])-?\d+\.\d{8,}(?:[eE][-+]?\d+)?(?![\w.])")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def rounded(value: Any) -> Any:
    """Plain data with numbers of nine digits; what JSON does not know becomes text."""
    if isinstance(value, bool) or value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {str(key): rounded(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((rounded(inner) for inner in value), key=str)
    if isinstance(value, Iterable):
        return [rounded(inner) for inner in value]
    return rounded(value.item()) if hasattr(value, "item") else str(value)


def canonical(value: Any) -> str:
    """JSON that depends on the value only."""
    return json.dumps(rounded(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def digest(value: str | bytes) -> str:
    """A short hash: 64 bits tell a few hundred thousand values apart."""
    data = value.encode() if isinstance(value, str) else value
    return hashlib.sha256(data).hexdigest()[:16]


def text_fields(text: str) -> Fields:
    """A hash of a text, and one of the numbers in it in any order, so that rewording can be told from another result."""
    text = _LONG.sub(lambda found: f"{float(found[0]):.{DIGITS}g}", text)
    return {"text": digest(text), "numbers": digest("\n".join(sorted(_NUMBER.findall(text))))}


def dumped(records: Records) -> str:
    """Records as sorted JSON lines."""
    lines = ({"site": site, "thing": thing, **fields} for (site, thing), fields in sorted(records.items()))
    return "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=True) + "\n" for line in lines)


def loaded(text: str) -> Records:
    """Records from JSON lines."""
    records = {}
    for line in text.splitlines():
        fields = json.loads(line)
        records[fields.pop("site"), fields.pop("thing")] = fields
    return records


def read_text(path: Path) -> str:
    """A text file, compressed where its name ends in .xz."""
    data = path.read_bytes()
    return (lzma.decompress(data) if path.suffix == ".xz" else data).decode()


def write_text(path: Path, text: str) -> None:
    """Write a text file, compressed where its name ends in .xz: equal texts give equal bytes."""
    data = text.encode()
    path.write_bytes(lzma.compress(data, preset=9) if path.suffix == ".xz" else data)


@dataclass(frozen=True)
class Difference:
    """A thing of a site that is not as it was, and in which fields; `fields` is empty for what is new or gone."""

    site: str
    thing: str
    what: str
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.site}  {self.thing}  {self.what}"


@dataclass
class Accepted:
    """Differences that a commit wanted: globs of sites and things, and the fields that may differ (none: all)."""

    sites: str
    things: str
    commit: str
    reason: str
    fields: tuple[str, ...] = ()
    used: bool = field(default=False, compare=False)

    def takes(self, difference: Difference) -> bool:
        """Whether it accepts a difference, in all its fields."""
        if not fnmatch.fnmatchcase(difference.site, self.sites) or not fnmatch.fnmatchcase(
            difference.thing, self.things
        ):
            return False
        if not self.fields:
            return True
        return bool(difference.fields) and all(
            any(fnmatch.fnmatchcase(name, wanted) for wanted in self.fields) for name in difference.fields
        )


def read_accepted(path: Path = ACCEPTED) -> list[Accepted]:
    """The accepted differences; KeyError or TypeError for an entry without commit or reason."""
    entries = (yaml.safe_load(path.read_text()) or {}).get("accepted") or []
    made = [Accepted(**{**entry, "fields": tuple(entry.get("fields", ()))}) for entry in entries]
    for entry in made:
        if not entry.commit.strip() or not entry.reason.strip():
            raise ValueError(f"{path}: {entry.sites} {entry.things}: no commit or no reason")
    return made


def differences(before: Records, after: Records, messages: bool = False) -> Iterator[Difference]:
    """What differs, by site and thing. A site that does not load any more is one difference."""
    unloaded = {
        site
        for (site, thing) in before.keys() | after.keys()
        if thing == "load" and before.get((site, thing)) != after.get((site, thing))
    }
    for site, thing in sorted(before.keys() | after.keys()):
        if site in unloaded and thing != "load":
            continue
        old, new = before.get((site, thing)), after.get((site, thing))
        if old is None or new is None:
            shown = _shown(new if old is None else old)
            which = "new" if old is None else "gone"
            yield Difference(site, thing, which + shown, (which,))
            continue
        names = [
            name
            for name in sorted(old.keys() | new.keys())
            if old.get(name) != new.get(name) and (messages or name not in TEXTS)
        ]
        if names:
            what = ", ".join(f"{name} {_value(old.get(name))} -> {_value(new.get(name))}" for name in names[:6])
            more = f" and {len(names) - 6} more" if len(names) > 6 else ""
            yield Difference(site, thing, what + more, tuple(names))


def _shown(fields: Fields | None) -> str:
    told = {name: value for name, value in (fields or {}).items() if name in ("severity", "error", "rows")}
    return f" ({', '.join(f'{name} {value}' for name, value in told.items())})" if told else ""


def _value(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def report(
    before: Records, after: Records, accepted: Iterable[Accepted] = (), messages: bool = False, whole: bool = True
) -> list[str]:
    """A line per difference that nobody wanted, and, of a whole comparison, per accepted entry that nothing needs."""
    entries, lines = list(accepted), []
    for difference in differences(before, after, messages):
        takers = [entry for entry in entries if entry.takes(difference)]
        for entry in takers:
            entry.used = True
        if not takers:
            lines.append(str(difference))
    if whole:
        idle = (entry for entry in entries if not entry.used)
        lines += [f"accepted.yaml  {entry.sites} {entry.things}  superfluous: nothing differs there" for entry in idle]
    return lines
