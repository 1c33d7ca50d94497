"""Data files that come with the program: what is kept of them is what they say, and only as long as they say it."""

import contextlib
import datetime
import os
import sys
from pathlib import Path

import pytest
import yaml

from inventory import yaml_data
from inventory.yaml_data import handed_in, kept_at, read_data
from tests.hostile import TAGGED

TEXT = "a: [1, 2.5, yes, null]\nb: {c: text, d: &x {e: 1e3}, f: *x}\n"
MEANT = {"a": [1, 2.5, True, None], "b": {"c": "text", "d": {"e": 1000.0}, "f": {"e": 1000.0}}}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data file of a program of its own."""
    monkeypatch.setattr(yaml_data, "repo_root", lambda: tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "data.yaml"
    path.write_text(TEXT.replace("1e3", "1000.0"))
    return path


def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are read as YAML from now on."""
    found, read = list[Path](), yaml_data._read

    def noted(path: Path) -> object:
        found.append(path)
        return read(path)

    monkeypatch.setattr(yaml_data, "_read", noted)
    return found


def test_a_file_is_parsed_once_and_says_the_same_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = parsed(monkeypatch)
    assert [read_data(file), read_data(file)] == [MEANT, MEANT]
    assert read == [file]


@pytest.mark.parametrize("text", ["a: 1\n", TEXT.replace("1e3", "2000.0")], ids=["of another size", "of the same size"])
def test_a_changed_file_is_read_anew(file: Path, text: str) -> None:
    before = read_data(file)
    file.write_text(text)
    later = file.stat().st_mtime_ns + 1
    os.utime(file, ns=(later, later))
    assert read_data(file) != before


@pytest.mark.parametrize(
    ("text", "meant"),
    [("day: 2026-11-26\n", {"day": datetime.date(2026, 11, 26)}), ("1: one\n", {1: "one"}), ("true: x\n", {True: "x"})],
)
def test_what_json_does_not_hold_is_read_each_time(file: Path, text: str, meant: object) -> None:
    file.write_text(text)
    assert [read_data(file), read_data(file)] == [meant, meant]
    assert not kept_at(file).exists()


@pytest.mark.parametrize("left", [b"", b"{", b"[1]", b"\xff", b'{"of": [1, 2, 3], "is": "other"}', b"[" * 100_000])
def test_a_kept_file_that_is_not_of_this_one_is_written_anew(file: Path, left: bytes) -> None:
    read_data(file)
    kept_at(file).write_bytes(left)
    assert read_data(file) == MEANT
    assert kept_at(file).read_bytes() != left


def test_nothing_is_kept_where_python_keeps_no_bytecode(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert read_data(file) == MEANT
    assert not kept_at(file).exists()


def test_nothing_is_kept_of_a_file_that_is_not_the_programs(
    file: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("elsewhere") / file.name
    other.write_text(file.read_text())
    assert read_data(other) == MEANT
    assert not kept_at(other).exists()


def test_a_folder_that_cannot_be_written_keeps_nothing(file: Path) -> None:
    kept_at(file).parent.write_text("a file in the place of the folder")
    assert read_data(file) == MEANT


@pytest.mark.parametrize("value", TAGGED)
def test_what_people_hand_in_is_read_or_refused_with_its_place(value: str) -> None:
    """`!!int` before nothing was an IndexError of PyYAML, `!!bool x` a KeyError, `!!timestamp x` an AttributeError."""
    with contextlib.suppress(yaml.YAMLError):
        assert handed_in("columns: {part: a}").keys() == handed_in(f"columns: {value}").keys()


def test_a_value_that_its_tag_cannot_have_is_named() -> None:
    with pytest.raises(yaml.YAMLError, match=r"(?s)'' is no value of the tag int.*line 2, column 8"):
        handed_in("a: 1\nlast:  !!int\n")


def test_what_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(yaml.YAMLError, match="too deeply nested"):
        handed_in("[" * 2_000)
