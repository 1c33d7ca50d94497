"""Verbs of the first minute: new, explain, and what they refuse."""

from pathlib import Path

import pytest

from infra import cli
from infra.cli.common import CANNOT, JUDGED_NO, OK
from inventory.paths import SITE_FILE
from inventory.site import load_site
from tests.first_sites import text_of

NEW = ["new", "hall-1", "--gpu", "h100", "--servers", "64", "--fabric", "ib", "--power-kw", "1200"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own as the current one, outputs below it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path / "var"))
    return tmp_path


def test_new_writes_a_file_that_plans(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(NEW) == OK
    said = capsys.readouterr().out
    assert "wrote hall-1/site.yaml" in said
    assert "bringup plan hall-1/site.yaml" in said
    assert cli.main(["plan", "hall-1/site.yaml"]) == OK
    assert (here / "var" / "hall-1" / "plan" / "report.html").exists()


def test_new_leaves_a_file_that_is_there(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "hall-1").mkdir()
    (here / "hall-1" / SITE_FILE).write_text("mine\n")
    assert cli.main(NEW) == CANNOT
    assert "exists, and is left as it is" in capsys.readouterr().err
    assert (here / "hall-1" / SITE_FILE).read_text() == "mine\n"


def test_new_says_which_options_are_missing_where_nobody_can_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["new", "hall-1", "--gpu", "h100"]) == CANNOT
    said = capsys.readouterr().err
    assert "say --fabric, --servers" in said
    assert "--gpu h100 --servers 64" in said


def test_new_asks_on_a_terminal(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["gb300", "ib"])
    asked: list[str] = []

    def answer(text: str) -> str:
        asked.append(text)
        return next(answers)

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert cli.main(["new", "hall-2", "--racks", "8"]) == OK
    assert load_site("hall-2/site.yaml").server.count == 144
    assert len(asked) == 2
    assert "gb300" in asked[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--gpu", "h10", "--servers", "4", "--fabric", "ib"], "nearest: h100"),
        (["--gpu", "h100", "--servers", "4", "--fabric", "roce"], "--fabric ib"),
        (["--gpu", "h100", "--gpus", "12", "--fabric", "ib"], "use 16"),
    ],
)
def test_new_refuses_what_it_has_no_design_for(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["new", "hall-1", *words]) == CANNOT
    assert says in capsys.readouterr().err
    assert not Path("hall-1").exists()


def test_explain_tells_of_a_key(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / SITE_FILE).write_text(text_of("h100"))
    assert cli.main(["explain", SITE_FILE, "cooling.plant.chiller_cop"]) == OK
    said = " ".join(capsys.readouterr().out.split())
    for part in ("air-fan-wall", "5.5", "Plausible: 4.5 to 7", "Not confirmed for this site", "Read by: "):
        assert part in said


def test_explain_without_a_key_lists_what_is_not_confirmed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / SITE_FILE).write_text(text_of("h100"))
    assert cli.main(["explain", SITE_FILE]) == OK
    assert "are not confirmed for this site" in " ".join(capsys.readouterr().out.split())


def test_explain_plans_with_another_value(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / SITE_FILE).write_text(text_of("h100"))
    assert cli.main(["explain", SITE_FILE, "rack.servers", "--to", "2"]) == OK
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    racks = {row[0]: row for row in rows if row and row[0] in ("as", "2")}
    assert "18" in racks["as"]
    assert "34" in racks["2"]


def test_explain_names_the_nearest_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "lab", "rack.servrs"]) == CANNOT
    assert "rack.servers" in capsys.readouterr().err


def test_a_plan_of_the_file_with_an_error_says_so(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / SITE_FILE).write_text(text_of("h100").replace("firm_mva: 1.2", "firm_mva: 0.6"))
    assert cli.main(["plan", SITE_FILE]) == JUDGED_NO
    assert "POWER-UTILITY" in capsys.readouterr().out


def test_what_talks_to_devices_asks_for_credentials_with_lines_to_paste(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / SITE_FILE).write_text(text_of("h100"))
    assert cli.main(["compare", SITE_FILE]) == CANNOT
    said = capsys.readouterr().err
    assert "credentials: a mandatory key is missing" in said
    assert "vault:kv/bringup/first-h100/snmp#auth" in said
