"""Whatever is done to a valid site file, the parser gives a Site or a SiteError, and no other exception."""

import copy
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.site import Site, SiteError, parse_site
from inventory.yaml_data import LOADER

VALID = (Path(__file__).parents[2] / "errors" / "_valid.yaml").read_text(encoding="utf-8")
TREE: dict[str, Any] = yaml.load(VALID, Loader=LOADER)


def paths_of(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, inner in items for path in [(*prefix, key), *paths_of(inner, (*prefix, key))]]


PATHS = paths_of(TREE)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.dates(),
    st.sampled_from(["8.4 kW", "env:X", "10.0.0.0/8", "1+1", "latest", "A", "file:"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def outcome(text: str) -> Site | SiteError:
    try:
        return parse_site(text, "mutant.yaml")
    except SiteError as caught:
        error = caught
    assert str(error).startswith("mutant.yaml: ")
    assert error.problems
    return error


@settings(max_examples=150, deadline=None)
@given(path=st.sampled_from(PATHS), value=VALUES, action=st.sampled_from(["set", "delete", "add"]))
def test_a_value_set_deleted_or_added_anywhere(path: tuple[Any, ...], value: Any, action: str) -> None:
    tree = copy.deepcopy(TREE)
    target: Any = tree
    for key in path[:-1]:
        target = target[key]
    if action == "delete":
        del target[path[-1]]
    elif action == "add" and isinstance(target, dict):
        target[f"{path[-1]}_x"] = value
    else:
        target[path[-1]] = value
    result = outcome(yaml.safe_dump(tree, allow_unicode=True, sort_keys=False))
    if isinstance(result, SiteError):
        assert "pydantic" not in str(result)


@settings(max_examples=150, deadline=None)
@given(
    start=st.integers(0, len(VALID) - 1),
    length=st.integers(0, 40),
    insert=st.text(st.one_of(st.sampled_from("{}[]:,#&*!|>'\"%@`\t\n -?"), st.characters()), max_size=6),
)
def test_text_cut_out_and_put_in_anywhere(start: int, length: int, insert: str) -> None:
    outcome(VALID[:start] + insert + VALID[start + length :])


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=80))
def test_any_text(text: str) -> None:
    assert isinstance(outcome(text), SiteError)


def test_deep_nesting_is_refused() -> None:
    assert isinstance(outcome("name: " + "[" * 5000), SiteError)
    assert isinstance(outcome("name: " + "[" * 60 + "]" * 60), SiteError)


def test_an_alias_bomb_is_refused_at_once() -> None:
    bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n"
    assert "an alias" in str(outcome(bomb))
