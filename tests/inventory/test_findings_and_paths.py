"""Findings are immutable plain data; output folders follow the documented order."""

import json
import os
import pickle
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from inventory.findings import Finding, Remedy, without_untried
from inventory.paths import open_file, read_file, repo_root, var_dir, write_file

LOSS = Finding(
    "POWER-FEED-LOSS", "error", "r01/A", "feed A overloads when B is lost", {"load_kw": 40.8}, 34.5, "circuit", "ERR-05"
)


def test_a_finding_survives_pickling_hashing_and_json() -> None:
    assert pickle.loads(pickle.dumps(LOSS)) == LOSS
    assert len({LOSS, pickle.loads(pickle.dumps(LOSS))}) == 1
    assert json.loads(json.dumps(LOSS.as_dict()))["numbers"] == {"load_kw": 40.8}


UNTRIED = Remedy({"power.rack_circuit.breaker_a": 80}, "power.rack_circuit.breaker_a: 80")
SURE = Remedy({"power.overhead_pct": [20, 45]}, "power.overhead_pct: [20, 45]", sure=True)
WORDS = Remedy({}, "a larger PDU")


@pytest.mark.parametrize(
    ("remedies", "said"),
    [
        ((UNTRIED,), "a remedy that bringup plan prints for it: that verb tries each"),
        ((UNTRIED, WORDS), "a larger PDU, or a remedy that bringup plan prints for it: that verb tries each"),
        ((SURE, WORDS), "power.overhead_pct: [20, 45], or a larger PDU"),
    ],
)
def test_values_that_nobody_tried_are_not_printed(remedies: tuple[Remedy, ...], said: str) -> None:
    texts = ", or ".join(one.text for one in remedies)
    one = replace(LOSS, message=f"{LOSS.message}. Fix: {texts}.", remedies=remedies)
    after = without_untried(one)
    assert after.message == f"{LOSS.message}. Fix: {said}."
    assert UNTRIED not in after.remedies
    assert without_untried(LOSS) is LOSS


def test_a_finding_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        LOSS.severity = "info"  # type: ignore[misc]
    with pytest.raises(TypeError):
        LOSS.numbers["load_kw"] = 1.0  # type: ignore[index]


def test_an_unknown_severity_is_refused() -> None:
    with pytest.raises(ValueError, match="severity"):
        Finding("X", "fatal", "s", "m")  # type: ignore[arg-type]


def test_output_goes_to_out_then_to_the_variable_then_to_var(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRINGUP_VAR", raising=False)
    assert var_dir("lab") == repo_root() / "var" / "lab"
    monkeypatch.setenv("BRINGUP_VAR", "/srv/bringup")
    assert var_dir("lab") == Path("/srv/bringup/lab")
    assert var_dir("lab", Path("/tmp/here")) == Path("/tmp/here")


def test_a_file_is_replaced_in_one_step_with_its_text_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "new" / "page.html"
    write_file(path, "a\r\nb\n\u00b0")
    path.chmod(0o640)
    write_file(path, "a\r\nb\n\u00b0")
    assert path.read_bytes() == b"a\r\nb\n\xc2\xb0"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in path.parent.iterdir()] == ["page.html"]


def test_a_file_that_cannot_be_replaced_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "page.html"
    folder.mkdir()
    with pytest.raises(OSError, match="page.html") as error:
        write_file(folder, "x")
    assert error.value.filename == str(folder)
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


def test_a_link_is_followed_and_a_device_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    link = tmp_path / "link"
    link.symlink_to("real")
    write_file(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    write_file(Path("/dev/null"), "x")
    assert Path("/dev/null").is_char_device()


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A pipe that nobody writes to is not waited for."""
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="no regular file") as error:
            read_file(odd, 100)
        assert error.value.filename == str(odd)
    with pytest.raises(OSError, match="no regular file|directory"):
        open_file(tmp_path)
    (tmp_path / "list").write_bytes(b"a,b\n")
    (tmp_path / "link").symlink_to("list")
    assert read_file(tmp_path / "link", 4) == b"a,b\n"


def test_a_file_beyond_its_bound_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "list"
    with path.open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(OSError, match="3,221,225,472 bytes, more than the 100 that are read"):
        read_file(path, 100)
