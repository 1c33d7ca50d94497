"""`make soak` counts every test that it ran, and is red when one failed or none ran."""

import subprocess

import pytest

from tests import soak

JUNIT = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_one[1]" time="1.5"/>
<testcase classname="tests.a" name="test_one[2]" time="2.5"><failure message="no"/></testcase>
<testcase classname="tests.b" name="test_two" time="3"><skipped message="lab"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def junit(tmp_path):
    (tmp_path / "lab.xml").write_text(JUNIT)
    return tmp_path / "lab.xml"


def test_figures_sum_the_parameters_of_a_test(junit):
    assert soak.rows(junit) == {
        "tests.a::test_one": soak.Row(runs=2, failed=1, seconds=4.0),
        "tests.b::test_two": soak.Row(runs=1, skipped=1, seconds=3.0),
    }
    assert "| `tests.a::test_one` | 2 | 1 | 0 | 4 |" in soak.table(soak.rows(junit))


@pytest.mark.parametrize(("statuses", "ended"), [((0, 0), 0), ((0, 5), 0), ((1, 0), 1), ((0, 2), 1)])
def test_the_status_is_that_of_the_worst_part_and_the_seed_is_said(tmp_path, monkeypatch, capsys, statuses, ended):
    left, seeds = list(statuses), []

    def run(command, env, **_):
        seeds.append(env["SOAK_SEED"])
        (path,) = [word.partition("=")[2] for word in command if word.startswith("--junitxml=")]
        status = left.pop(0)
        if status in (0, 1):
            with open(path, "w") as file:
                file.write(JUNIT)
        return subprocess.CompletedProcess(command, status)

    monkeypatch.setenv("SOAK_SEED", "20260101")
    monkeypatch.setattr(soak, "var_dir", lambda name: tmp_path / name)
    monkeypatch.setattr(subprocess, "run", run)
    assert soak.main() == ended
    assert seeds == ["20260101", "20260101"]
    assert capsys.readouterr().out.startswith("SOAK_SEED=20260101\n")
    assert "SOAK_SEED=20260101" in (tmp_path / "soak" / "figures.md").read_text()


def test_a_run_without_any_test_is_red(tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "var_dir", lambda name: tmp_path / name)
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 5))
    assert soak.main() == 1
