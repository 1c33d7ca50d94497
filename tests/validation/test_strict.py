"""Reading bounded JSON in one form: nesting, and a file that grows."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.evidence import strict

TEXTS = st.text(alphabet='ab[]{}"\\\n ,:é', max_size=6)
DATA = st.recursive(
    st.one_of(st.none(), st.integers(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=60,
)


def levels(data: Any) -> int:
    if isinstance(data, dict):
        return 1 + max(map(levels, data.values()), default=0)
    return 1 + max(map(levels, data), default=0) if isinstance(data, list) else 0


@given(DATA, st.integers(0, 60))
def test_nesting_is_counted_outside_of_texts(data: Any, more: int) -> None:
    for _ in range(more):
        data = [data]
    padded = [data, *([[]] * strict.MAX_DEPTH)]  # more brackets than levels: they are really counted
    assert strict._depth(strict.canonical(padded)) == levels(padded)


@pytest.mark.parametrize("text", ["[" * 200_000, "]" * 200, '["' + "[" * 60, "{[" * 60, "[]" * 100, '"\\"' + "[" * 60])
def test_what_is_no_json_is_refused_whatever_its_brackets_are(text: str) -> None:
    with pytest.raises(strict.Refused):
        strict.loads(text.encode())


@pytest.mark.parametrize(("depth", "read"), [(strict.MAX_DEPTH, True), (strict.MAX_DEPTH + 1, False)])
def test_the_deepest_nesting_that_is_read(depth: int, read: bool) -> None:
    data: Any = 1
    for number in range(depth):
        data = [data] if number % 2 else {"a": data}
    wide = [data["a"] if isinstance(data, dict) else data[0], *([0] * 3)]
    text = json.dumps(wide, separators=(",", ":")).encode()
    if read:
        assert strict.loads(text) == wide
    else:
        with pytest.raises(strict.Refused, match=f"nested {depth} levels deep"):
            strict.loads(text)
