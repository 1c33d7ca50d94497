"""Accepted values of a site: what `bringup accept` froze of its effective values, kept beside the site file.

In: `values.jsonl` of an accepted state, one value a line. Out: path -> `AcceptedValue`. Pure but for `read`.
"""

import datetime
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from inventory.paths import read_file
from inventory.site.references import tupled
from inventory.site.yaml_source import Path

FOLDER = "accepted"
VALUES = "values.jsonl"
MANIFEST = "manifest.json"
FORMAT = 1
MAX_BYTES = 20_000_000
"""Of values: a site has some hundred."""
KINDS = ("given", "reference", "catalogue", "computed", "default")


class AcceptedError(Exception):
    """An accepted state that cannot be used; the message names the file, what is expected, and the way out."""


@dataclass(frozen=True)
class AcceptedValue:
    """A value as it was accepted, and where it came from then."""

    value: Any
    kind: str
    source: str = ""
    design: str = ""


def dumped(values: Mapping[Path, AcceptedValue]) -> str:
    """The file of these values, in the order of their keys."""
    lines = [
        json.dumps(
            {"key": [str(step) for step in path], "value": one.value, "origin": one.kind}
            | ({"design": one.design} if one.design else {})
            | {"source": one.source},
            ensure_ascii=False,
            default=_dated,
        )
        for path, one in sorted(values.items(), key=lambda item: tuple(map(str, item[0])))
    ]
    return "\n".join(lines) + "\n"


def _dated(value: Any) -> Any:
    if isinstance(value, datetime.date):
        return {"date": value.isoformat()}
    raise TypeError(f"{value!r} is no value of a site file")


def parsed(lines: Iterable[str], shown: str) -> dict[Path, AcceptedValue]:
    """The values of a file. AcceptedError names the line that is none."""
    found: dict[Path, AcceptedValue] = {}
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line, object_hook=_undated)
            path = tuple(entry["key"])
            if not path or not all(isinstance(step, str) for step in path) or entry["origin"] not in KINDS:
                raise ValueError("key is a list of names, origin one of " + ", ".join(KINDS))
            design, source = str(entry.get("design", "")), str(entry["source"])
            found[path] = AcceptedValue(tupled(entry["value"]), entry["origin"], source, design)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise AcceptedError(f"{shown}:{number}: no accepted value: {error}; {WAY_OUT}") from None
    return found


WAY_OUT = "restore the folder from version control, or accept anew with `bringup accept`"


def _undated(entry: dict[str, Any]) -> Any:
    return datetime.date.fromisoformat(entry["date"]) if entry.keys() == {"date"} else entry


def folder_of(start: FilePath) -> FilePath:
    """The accepted state that a person names: its own folder, or that of the site file beside which it lies. AcceptedError for
    a folder that has none.
    """
    for folder in (start, start / FOLDER):
        if (folder / MANIFEST).is_file():
            return folder.resolve()
    raise AcceptedError(
        f"{start}: no accepted state: neither {MANIFEST} nor {FOLDER}/{MANIFEST} is there; name a folder that "
        "`bringup accept` wrote"
    )


def read(folder: FilePath) -> dict[Path, AcceptedValue]:
    """The values of an accepted state; {} where there is no such folder."""
    path = folder / VALUES
    if not path.parent.exists():
        return {}
    try:
        text = read_file(path, MAX_BYTES).decode("utf-8")
    except OSError as error:
        raise AcceptedError(f"{path}: cannot be read: {error.strerror}; {WAY_OUT}") from None
    except UnicodeDecodeError as error:
        raise AcceptedError(f"{path}: cannot be read: {error}; {WAY_OUT}") from None
    return parsed(text.splitlines(), str(path))
