"""Pure differences between nested plain data, as Pulumi property paths.

`differences(old, new)` yields only leaves that differ, or the topmost key that one side lacks, so that a preview of a
rack with 96 outlets names the one outlet that is off and nothing else.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["add", "delete", "update"]


@dataclass(frozen=True)
class Difference:
    """One differing property: `path` in Pulumi's syntax, what `old` and `new` hold there (None where absent)."""

    path: str
    kind: Kind
    old: Any
    new: Any

    def __str__(self) -> str:
        if self.kind == "add":
            return f"+ {self.path}: {_shown(self.new)}"
        if self.kind == "delete":
            return f"- {self.path}: {_shown(self.old)}"
        return f"~ {self.path}: {_shown(self.old)} => {_shown(self.new)}"


def differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> Iterator[Difference]:
    """Every place where `new` differs from `old`, in key order. Lists are compared whole."""
    for key in sorted(old.keys() | new.keys()):
        path = join(prefix, key)
        if key not in new:
            yield Difference(path, "delete", old[key], None)
        elif key not in old:
            yield Difference(path, "add", None, new[key])
        elif isinstance(old[key], Mapping) and isinstance(new[key], Mapping):
            yield from differences(old[key], new[key], path)
        elif old[key] != new[key]:
            yield Difference(path, "update", old[key], new[key])


def join(prefix: str, key: str) -> str:
    """Property path of `key` below `prefix`: dotted for identifiers, `["…"]` for other keys."""
    if key.isidentifier():
        return f"{prefix}.{key}" if prefix else key
    return f'{prefix}["{key}"]'


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
