"""Which keys of a site file a finding can depend on, traced: `capacity.kept` sees what each stage and function reads.

read = traced(sites)
read.by_function[("capacity.cooling.air", "check_inlets")]     keys read while it runs, by it or by what it calls
read.keys()                                                    keys read by anything
"""

import functools
import itertools
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import pytest
from pydantic import BaseModel

from capacity import kept
from capacity.build import build
from inventory.findings_registry import registry
from inventory.paths import repo_root
from inventory.site import Site
from tests.inventory.remedies_in_code import calls_of, functions, modules

Key = tuple[str, ...]


@dataclass
class Read:
    """Keys that plans have read. ``by_function``: by the functions of the planner that ran at the time."""

    by_function: dict[tuple[str, str], set[Key]] = field(default_factory=lambda: defaultdict(set))
    whole: set[Key] = field(default_factory=set)
    """Sections that were copied or compared, and so read with all their keys."""

    def keys(self) -> set[Key]:
        """All of them, without sections, which are handed on whole: what is read in them counts."""
        found = set().union(*self.by_function.values())
        return found - {key[:length] for key in found for length in range(1, len(key))}


def traced(sites: Iterable[Site]) -> Read:
    """Plan the sites and note who reads what. A section that is only handed on does not count, what is read in it does."""
    read, noted, root = Read(), kept._Reads.noted, f"{repo_root()}/"

    @functools.cache
    def keys_of(code: CodeType) -> set[Key] | None:
        """The set of a function of the planner, and None for all others."""
        if not code.co_filename.startswith((f"{root}capacity/", f"{root}network/")):
            return None
        return read.by_function[code.co_filename[len(root) : -3].replace("/", "."), code.co_name]

    def note(self: Any, key: Key, value: Any) -> Any:
        if key[-1] == kept.CLASS:
            return noted(self, key, value)
        key_of_file = tuple(step.rstrip("_") for step in key)  # `class` is a word of Python
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if (keys := keys_of(frame.f_code)) is not None:
                keys.add(key_of_file)
            frame = frame.f_back
        return noted(self, key, value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept._Reads, "noted", note)
        for site in sites:
            results = kept.Kept()
            build(site, kept=results, what_ifs=False)
            for entry in itertools.chain.from_iterable(results._entries.values()):
                read.whole |= {key for key, value in entry.reads.values.items() if isinstance(value, BaseModel)}
    return read


def asked_by() -> dict[str, set[tuple[str, str]]]:
    """Functions that can make each finding, by its id."""
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for module in modules():
        for name, function in functions(module).items():
            for call in calls_of(function, "finding"):
                id_ = str(getattr(call.args[0], "value", "")) if call.args else ""
                if id_ in registry():
                    found[id_].add((module, name))
    return found


def touches(key: Key, other: Key) -> bool:
    """Whether one of two keys is the other, or a section around it."""
    shorter = min(len(key), len(other))
    return key[:shorter] == other[:shorter]
