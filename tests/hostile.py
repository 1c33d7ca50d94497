"""What a hostile or broken device may say, for tests that fuzz the readers of answers."""

import copy
import unicodedata
from typing import Any

from hypothesis import strategies as st

NASTY = (
    "",
    "\x1b[2J",
    "\n",
    "\r",
    "\x00",
    "\x9b31m",
    "\u202eevil",
    "\u2028",
    "\ud800",
    "[/red]",
    "x" * 5000,
    "-1",
    "0x",
    "٣",
)
"""Texts that move cursors, split lines, turn the reading direction, are no Unicode, or look like numbers."""

TAGGED = tuple(
    f"{tag} {value}".strip()
    for tag in (
        "!!int",
        "!!float",
        "!!bool",
        "!!timestamp",
        "!!null",
        "!!map",
        "!!seq",
        "!!str",
        "!!binary",
        "!!set",
        "!",
    )
    for value in ("", "''", "+", "_", "x", "5", "1:2", "2026-99-99", "[1]", "{a: 1}")
)
"""Values of YAML with a tag before them, most of them such as no value of the tag can be."""

CONTROLS = ("Cc", "Cf", "Cs", "Zl", "Zp")

texts = st.one_of(st.sampled_from(NASTY), st.text(max_size=40))
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63, 2**64, -(2**70), 10**400]),
    st.floats(),
    texts,
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)
"""Any JSON value, numbers beyond 64 bits and texts that are no Unicode among them."""


def places(recorded: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a recording, the recording itself first."""
    inner = (
        recorded.items() if isinstance(recorded, dict) else enumerate(recorded) if isinstance(recorded, list) else ()
    )
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


@st.composite
def mutated(draw: st.DrawFn, recorded: Any, most: int = 3) -> Any:
    """A recording in which one to three places hold another value, or are gone."""
    changed = copy.deepcopy(recorded)
    for _ in range(draw(st.integers(1, most))):
        path = draw(st.sampled_from(places(changed)))
        if not path:
            return draw(values)
        *folders, last = path
        place = changed
        for key in folders:
            place = place[key]
        if draw(st.booleans()):
            place[last] = draw(values)
        else:
            del place[last]
    return changed


@st.composite
def cut_and_pasted(draw: st.DrawFn, recorded: str) -> str:
    """A recorded text that is cut short, has a nasty text put into it, or both."""
    at = draw(st.integers(0, len(recorded)))
    end = draw(st.one_of(st.just(len(recorded)), st.integers(0, len(recorded))))
    return recorded[:at] + draw(texts) + recorded[max(at, end) :]


def controls(said: Any) -> set[str]:
    """Characters in any text of plain data, keys included, that a terminal or a log acts on; newline and tab are none."""
    return {c for text in _texts(said) for c in text if unicodedata.category(c) in CONTROLS} - {"\n", "\t"}


def lines_split(said: Any) -> list[str]:
    """Texts of plain data that would be more than one line."""
    return [text for text in _texts(said) if len(text.splitlines()) > 1]


def _texts(said: Any) -> list[str]:
    if isinstance(said, str):
        return [said]
    if isinstance(said, dict):
        return [text for pair in said.items() for one in pair for text in _texts(one)]
    return [text for one in said for text in _texts(one)] if isinstance(said, list | tuple | set) else []
