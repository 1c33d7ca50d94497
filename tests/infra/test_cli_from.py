"""--from DIR: plan, render and compare start from another accepted state than the one beside the site file."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from capacity.model import Plan
from infra import cli
from infra.cli.common import CANNOT, OK
from inventory.site.new import Wanted, site_text


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a site of eight servers, accepted."""
    folder = tmp_path_factory.mktemp("accepted")
    (folder / "site.yaml").write_text(site_text(Wanted("hall", gpu="h100", fabric="ib", servers=8)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRINGUP_VAR", str(folder / "var"))
        assert cli.main(["accept", str(folder / "site.yaml")]) == OK
    return folder


@pytest.fixture(autouse=True)
def here(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a site of nine servers; `small` holds the accepted state of eight."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path / "var"))
    shutil.copytree(small, tmp_path / "small", ignore=shutil.ignore_patterns("var"))
    (tmp_path / "site.yaml").write_text((small / "site.yaml").read_text().replace("count: 8", "count: 9"))
    return tmp_path


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, without the line breaks of a table."""
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("folder", ["small/accepted", "small"])
def test_a_plan_starts_from_the_state_that_is_named(
    folder: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = json.loads((here / "small/accepted/manifest.json").read_text())["hash"][:16]
    capsys.readouterr()
    assert cli.main(["plan", "site.yaml", "--from", folder, "--set", "electrical.utility.firm_mva=1"]) == OK
    assert f"Against the accepted state {digest}: " in told(capsys)
    growth = pd.read_csv(next((here / "var").rglob("growth.csv")), keep_default_na=False)
    assert "gpu009" in set(growth.loc[(growth["change"] == "add") & (growth["kind"] == "device"), "name"])


def test_the_state_that_is_named_counts_before_the_one_beside_the_site_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["accept", "site.yaml", "--despite", "POWER-UTILITY"]) == OK
    capsys.readouterr()
    cli.main(["plan", "site.yaml"])
    assert ": nothing is added" in told(capsys)
    cli.main(["plan", "site.yaml", "--from", "small"])
    assert " added devices" in told(capsys)


def test_documents_of_a_rendering_start_from_it_too(here: Path) -> None:
    """With 17 servers a plan from nothing has more management switches, whose addresses come before those of the BMCs."""
    (here / "site.yaml").write_text((here / "site.yaml").read_text().replace("count: 9", "count: 17"))

    def bmcs(file: Path) -> set[tuple[str, ...]]:
        frame = pd.read_csv(file, keep_default_na=False)
        return {tuple(row) for row in frame.loc[frame["network"] == "bmc", ["device", "address"]].to_numpy().tolist()}

    def rendered(*words: str) -> set[tuple[str, ...]]:
        assert cli.main(["render", "site.yaml", *words, "--out", "out"]) == OK
        return bmcs(here / "out/render/addresses.csv")

    standing = bmcs(here / "small/accepted/addresses.csv")
    assert standing <= rendered("--from", "small")
    assert not standing <= rendered()


def test_a_comparison_is_with_the_plan_that_starts_from_it(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from validation import facts

    asked = []

    def gather(plan: Plan) -> facts.Facts:
        asked.append(plan)
        return facts.Facts()

    monkeypatch.setattr(facts, "gather", gather)
    cli.main(["compare", "site.yaml", "--from", "small", "--json"])
    assert asked[0].site.accepted_folder == here / "small/accepted"
    cli.main(["compare", "site.yaml", "--from", "small", "--set", "server.count=10", "--html", "page.html"])
    assert (here / "page.html").exists()


def test_a_folder_without_an_accepted_state_is_an_error_that_says_what_to_name(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "empty").mkdir()
    for verb in ("plan", "render", "compare"):
        assert cli.main([verb, "site.yaml", "--from", "empty"]) == CANNOT
        said = capsys.readouterr().err
        assert "empty" in said
        assert "bringup accept" in said


def test_a_state_that_was_edited_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(here / "small/accepted", here / "edited")
    (here / "edited/placements.csv").write_text((here / "small/accepted/placements.csv").read_text() + "x,r1,1,1\n")
    assert cli.main(["plan", "site.yaml", "--from", "edited"]) == CANNOT
    said = " ".join(capsys.readouterr().err.split())
    assert "edited/placements.csv: not the file that manifest.json names" in said


def test_evidence_is_never_about_a_plan_from_another_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "site.yaml", "--from", "small", "--record"]) == CANNOT
    assert "leave out --from or --record" in capsys.readouterr().err
