"""Verbs of the first minute: new, explain, and what they refuse."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from capacity.whatif import sensitivity
from infra import cli
from infra.cli.common import CANNOT, JUDGED_NO, OK
from inventory.paths import SITE_FILE, repo_root
from inventory.site import Site, load_site, parse_site
from inventory.site.explain import assumptions
from inventory.site.new import Wanted, site_text
from inventory.site.references import at
from tests.first_sites import FIRST, first_site, text_of

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


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, answers: Sequence[str]) -> list[str]:
    """Answers that somebody types at a terminal, and then ends the input; returns the questions, as they are asked."""
    left, asked = list(answers), list[str]()

    def answer(text: str) -> str:
        asked.append(text)
        if not left:
            raise EOFError
        return left.pop(0)

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    return asked


def test_new_asks_on_a_terminal(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = on_a_terminal(monkeypatch, ["h100", "ib", "64", "1200"])
    assert cli.main(["new", "hall-2"]) == OK
    site = load_site("hall-2/site.yaml")
    assert site.server.count == 64
    assert at(site.effective.value, ("electrical", "utility", "firm_mva")) == 1.2
    assert "gb300" in asked[0]
    assert len(asked) == 4


def test_new_asks_for_racks_of_a_rack_scale_system_and_for_no_fabric_where_there_is_one(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = on_a_terminal(monkeypatch, ["gb300", "8", ""])
    assert cli.main(["new", "hall-2"]) == OK
    site = load_site("hall-2/site.yaml")
    assert site.server.count == 144
    assert "electrical.utility.firm_mva" in site.effective.open
    assert asked[1].startswith("Racks")
    assert len(asked) == 3


def test_new_asks_again_after_an_answer_that_it_cannot_take(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = on_a_terminal(monkeypatch, ["h10", "H100", "IB", "many", "64", "no", ""])
    assert cli.main(["new", "hall-2"]) == OK
    assert load_site("hall-2/site.yaml").server.count == 64
    assert len(asked) == 7
    said = capsys.readouterr().out
    assert "nearest: h100" in said
    assert "a whole number of at least 1" in said
    assert "more than 0" in said


def test_new_writes_nothing_where_the_answers_end(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_terminal(monkeypatch, ["h100"])
    assert cli.main(["new", "hall-2"]) == CANNOT
    assert "nothing is written" in capsys.readouterr().err
    assert not Path("hall-2").exists()


def test_new_asks_nothing_where_the_options_say_all(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = on_a_terminal(monkeypatch, [])
    assert cli.main(["new", "hall-2", "--gpu", "gb300", "--fabric", "ib", "--racks", "8"]) == OK
    assert not asked


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


def test_explain_shows_lists_of_words(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / SITE_FILE).write_text(text_of("h100"))
    assert cli.main(["explain", SITE_FILE, "based_on"]) == OK
    assert "[dgx-superpod-h100]" in capsys.readouterr().out


def test_explain_without_a_key_has_lines_that_can_be_read_in_a_pipe(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / SITE_FILE).write_text(text_of("h100"))
    assert cli.main(["explain", SITE_FILE]) == OK
    assert max(len(line.rstrip()) for line in capsys.readouterr().out.splitlines()) < 400


def test_explain_without_a_key_names_the_sizes_that_nobody_has_accepted(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / SITE_FILE).write_text(text_of("h100"))
    assert cli.main(["explain", SITE_FILE]) == OK
    said = capsys.readouterr().out
    assert "room.rows" in said
    assert "electrical.transformers" in said
    assert "bringup accept" in said


@pytest.mark.parametrize("key", ["room", "electrical.transformers.kva"])
def test_explain_shows_sizes_as_they_are_worked_out(here: Path, capsys: pytest.CaptureFixture[str], key: str) -> None:
    (here / SITE_FILE).write_text(text_of("h100"))
    assert cli.main(["explain", SITE_FILE, key]) == OK
    sized = first_site("h100")
    shown = {words[0]: words[1] for line in capsys.readouterr().out.splitlines() if len(words := line.split()) > 1}
    for size, now in (
        ("room.rows", sized.room.rows),
        ("room.rpps_per_row", sized.room.rpps_per_row),
        ("electrical.transformers.kva", f"{at(sized.effective.value, ('electrical', 'transformers', 'kva')):g}"),
    ):
        if size.startswith(key):
            assert shown[size] == str(now)


@pytest.mark.parametrize("name", FIRST)
def test_no_assumption_is_a_size_so_that_explain_lists_them_without_planning(name: str) -> None:
    assert list(assumptions(parse_site(text_of(name)))) == list(assumptions(first_site(name)))


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


def test_a_plan_ends_with_the_assumptions_that_matter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(site_text(Wanted("small", gpu="h100", fabric="ib", servers=8)), encoding="utf-8")
    command = ["plan", str(path), "--out", str(tmp_path / "out")]
    assert cli.main(command) == OK
    screen = capsys.readouterr().out
    assert "values that nobody has confirmed for this site" in screen
    assert f"more: bringup explain {path}" in screen
    assert re.search(
        r"leadtimes.transformer.max_weeks = 160, plausible 110 to 210: moves go-live by up to \d+ days", screen
    )
    assert re.search(r"unit_price = 290000, plausible 230000 to 350000: moves cost by up to [\d.]+ (k|M) USD", screen)
    assert "as in a hall of 64 servers of dgx-superpod-h100" in screen
    assert cli.main([*command, "--json"]) == OK
    said = json.loads(capsys.readouterr().out)["assumptions"]
    assert said["count"] > 100
    assert not said["studied"]
    assert len(said["most_important"]) == 5
    assert all(one["effect"] > 0 and one["moves"] for one in said["most_important"])
    assert {one["seen_in"] for one in said["most_important"]} == {"64 servers of dgx-superpod-h100"}


def test_explain_of_a_lead_time_says_what_it_means_and_decides(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(NEW) == OK
    assert cli.main(["explain", "hall-1/site.yaml", "leadtimes.transformer.max_weeks"]) == OK
    screen = capsys.readouterr().out
    assert "Longest quoted lead time, weeks." in screen
    assert "Decides the latest safe date of each order, and the date of go-live." in screen
    assert re.search(
        r"at 110 to 210 in place of 160 moves go-live by -\d+ days to \+\d+ days\.", " ".join(screen.split())
    )


def test_sensitivity_writes_its_file_and_the_next_plan_remembers_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = sensitivity.assumptions

    def only(site: Site) -> list[sensitivity.Assumption]:
        return [one for one in judged(site) if one.key == "purchase.prices.rack.unit_price"]

    monkeypatch.setattr(sensitivity, "assumptions", only)
    monkeypatch.setattr("capacity.whatif.sensitivity.os.cpu_count", lambda: 1)
    path = tmp_path / "site.yaml"
    path.write_text(site_text(Wanted("small", gpu="h100", fabric="ib", servers=8)), encoding="utf-8")
    command = ["plan", str(path), "--out", str(tmp_path / "out")]
    assert cli.main([*command, "--sensitivity"]) == OK
    assert "What matters most" in capsys.readouterr().out
    folder = tmp_path / "out" / "plan"
    assert "sensitivity.csv" in (folder / "SHA256SUMS").read_text()
    assert 'class="tornado"' in (folder / "report.html").read_text()
    assert cli.main([*command, "--json"]) == OK
    said = json.loads(capsys.readouterr().out)["assumptions"]
    assert said["studied"]
    assert said["most_important"][0]["effect"] > 0
    assert said["most_important"][0]["seen_in"] == "this site"
    assert 'class="tornado"' in (folder / "report.html").read_text()
    assert cli.main([*command, "--json", "--set", "rack.servers=3"]) == OK
    assert not json.loads(capsys.readouterr().out)["assumptions"]["studied"]


def test_a_plan_of_a_site_that_assumes_nothing_says_nothing_of_it(
    plans_kept: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main(["plan", "lab", "--out", str(tmp_path)]) == OK
    assert "nobody has confirmed" not in capsys.readouterr().out


def last_line_of(program: str) -> str:
    """What a Python process of its own prints last."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(repo_root())},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()[-1]


def test_explain_of_a_plain_value_imports_nothing_of_the_planner(here: Path) -> None:
    assert cli.main(NEW) == OK
    program = (
        "import sys; from infra import cli; cli.main(['explain', 'hall-1/site.yaml', 'rack.servers']); "
        "print([one for one in sys.modules if one in ('pandas', 'numpy', 'capacity.stages')])"
    )
    assert last_line_of(program) == "[]"


def test_a_process_that_explains_a_size_does_without_arrow(here: Path) -> None:
    assert cli.main(NEW) == OK
    program = (
        "import sys; from infra import cli; sys.argv = ['bringup', 'explain', 'hall-1/site.yaml', 'inband.leaves']; "
        "status = cli.main(); print(status, 'pandas' in sys.modules, sys.modules['pyarrow'])"
    )
    assert last_line_of(program) == f"{OK} True None"


@pytest.mark.parametrize(("given", "threads"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "2"}, "2")])
def test_a_verb_has_one_thread_for_matrices_and_ends_without_looking_through_its_memory(
    here: Path, given: dict[str, str], threads: str
) -> None:
    assert cli.main(NEW) == OK
    program = (
        "import atexit, gc, os; atexit.register(lambda: print(gc.get_freeze_count() > 0)); "
        "from infra import cli; cli.main(['explain', 'hall-1/site.yaml', 'rack.servers']); "
        "print(os.environ['OPENBLAS_NUM_THREADS'], gc.get_freeze_count())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(repo_root()), **given},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines()[-2:] == [f"{threads} 0", "True"]
