"""docs/quickstart.md: every command in it runs, in its order, and says what the page says."""

import shlex
from pathlib import Path

import pytest

from infra import cli
from infra.cli.common import JUDGED_NO, OK
from inventory.paths import repo_root

TEXT = (repo_root() / "docs" / "quickstart.md").read_text(encoding="utf-8")
COMMANDS = [line.strip() for line in TEXT.splitlines() if line.startswith("    bringup ")]
NO = ("bringup plan hall-2/site.yaml", "bringup plan hall-2/site.yaml --fix")
"""Commands of which the page says that the answer is no."""


def test_every_command_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path / "var"))
    said = {}
    for command in COMMANDS:
        status = cli.main(shlex.split(command)[1:])
        said[command] = capsys.readouterr().out
        assert status == (JUDGED_NO if command in NO else OK), f"{command}\n{said[command]}"
    assert set(NO) <= said.keys()
    assert len((tmp_path / "hall-1" / "site.yaml").read_text().splitlines()) == 10
    assert "POWER-UTILITY" in said[NO[0]]
    assert "electrical.utility.firm_mva" in said[NO[1]]
    assert "Plausible" in said["bringup explain hall-1/site.yaml cooling.plant.chiller_cop"]
    assert list((tmp_path / "var" / "hall-1").rglob("*.svg"))


def test_every_file_and_folder_that_the_page_names_exists() -> None:
    for name in ("inventory/references", "tests/test_quickstart.py"):
        assert name in TEXT
        assert (repo_root() / name).exists()
