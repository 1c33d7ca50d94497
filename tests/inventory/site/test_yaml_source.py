"""libyaml reads what is sound, PyYAML what is not, and nobody can tell from the document which of them it was."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inventory.paths import repo_root
from inventory.site import yaml_source
from inventory.site.yaml_source import Document, Mark, parse
from tests.hostile import TAGGED

SHIPPED = sorted(path for path in (repo_root() / "inventory").rglob("*.yaml") if "__pycache__" not in path.parts)
VALID = (Path(__file__).parents[2] / "errors" / "_valid.yaml").read_text(encoding="utf-8")
PIECES = st.one_of(
    st.sampled_from(
        [*":-#\t \n{}[],&*!|>'\"%@`?=~\\.0\ufeff\u2028", "\n- ", "--- ", "? ", "<<: ", "!!int ", "|#", "a: b"]
    ),
    st.text(max_size=4),
)


def by_pyyaml(text: str, monkeypatch: pytest.MonkeyPatch) -> Document:
    with monkeypatch.context() as patch:
        patch.setattr(yaml_source, "_LIBYAML_DEPTH", -1)
        return parse(text)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(repo_root())))
def test_a_shipped_file_is_the_same_by_both(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_text(encoding="utf-8")
    assert parse(text) == by_pyyaml(text, monkeypatch)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), PIECES, st.integers(0, 2)), min_size=1, max_size=3))
@example([(1.0, "--- ", 0)])
def test_a_mistyped_file_is_the_same_by_both(changes: list[tuple[float, str, int]]) -> None:
    """All but the places of values that are not there, which libyaml puts one token further on."""
    text = VALID
    for where, piece, over in changes:
        at = int(where * len(text))
        text = text[:at] + piece + text[at + over :]
    with pytest.MonkeyPatch.context() as monkeypatch:
        other = by_pyyaml(text, monkeypatch)
    found = parse(text)
    assert (found.value, found.keys, found.texts, found.problems) == (
        other.value,
        other.keys,
        other.texts,
        other.problems,
    )


@pytest.mark.parametrize("place", ["a: 1\nrack_u: {}\n", "rack_u: [1, {} ]\n", "- {}\n"])
@pytest.mark.parametrize("value", TAGGED)
def test_a_value_with_a_tag_is_a_problem_at_its_place(value: str, place: str) -> None:
    """`rack_u: !!int` ended in an IndexError of PyYAML, and `rack_u: !!map` in one of the writer of site files."""
    text = place.replace("{}", value)
    (problem,) = parse(text).problems
    before = text[: text.index("!")]
    assert problem.what == "an explicit YAML tag"
    assert problem.mark == Mark(before.count("\n") + 1, len(before) - before.rfind("\n"))


def test_a_key_with_a_tag_is_a_problem() -> None:
    (problem,) = parse("a: {!!int b: 3}").problems
    assert (problem.what, problem.path, problem.mark) == ("an explicit YAML tag", ("a", "b"), Mark(1, 5))


def test_an_exclamation_mark_within_a_value_is_none() -> None:
    assert parse("a: 'mind! the gap'\nb: x!!int\n# !!int\n").value == {"a": "mind! the gap", "b": "x!!int"}


@pytest.mark.parametrize("text", ["[" * 3_900, "[" * 200_000, "- " * 900, "- " * 90_000, "{a: " * 1_000 + "}" * 1_000])
def test_a_deep_text_is_a_problem_and_ends_no_process(text: str) -> None:
    assert [one.what for one in parse(text).problems] == ["too deeply nested"]
