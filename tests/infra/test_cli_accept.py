"""The verb accept: what it writes, what it refuses, and what later plans say of it."""

from pathlib import Path

import pandas as pd
import pytest

from infra import cli
from infra.cli.common import CANNOT, JUDGED_NO, OK
from inventory.delivered.as_built import COLUMNS, ENDS
from inventory.site.new import Wanted, site_text


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own with a site of eight servers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path / "var"))
    (tmp_path / "site.yaml").write_text(site_text(Wanted("hall", gpu="h100", fabric="ib", servers=8)))
    return tmp_path


def test_a_grown_site_says_what_it_adds(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["accept", "site.yaml"]) == OK
    said = capsys.readouterr().out
    assert "commit the folder with the site file" in said
    digest = said.partition("accepted state ")[2][:16]
    assert cli.main(["plan", "site.yaml"]) == OK
    assert f"Against the accepted state {digest}: nothing is added" in capsys.readouterr().out
    text = (here / "site.yaml").read_text().replace("count: 8", "count: 9")
    (here / "site.yaml").write_text(text)
    assert cli.main(["plan", "site.yaml", "--set", "electrical.utility.firm_mva=1"]) == OK
    said = capsys.readouterr().out
    assert f"Against the accepted state {digest}: " in said
    assert " added devices" in said
    growth = pd.read_csv(next((here / "var").rglob("growth.csv")), keep_default_na=False)
    added = growth[growth["change"] == "add"]
    assert "gpu009" in set(added.loc[added["kind"] == "device", "name"])
    assert set(growth.loc[growth["name"] == "gpu001", "change"]) == {"stay"}


def test_what_has_errors_is_not_accepted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (here / "site.yaml").open("a") as file:
        file.write("electrical: {utility: {firm_mva: 0.02}}\n")
    assert cli.main(["accept", "site.yaml"]) == JUDGED_NO
    assert "POWER-UTILITY" in capsys.readouterr().out
    assert not (here / "accepted").exists()
    assert cli.main(["accept", "site.yaml", "--despite", "POWER-UTILITY", "--despite", "POWER-ELEMENT"]) == OK
    assert (
        '"despite": [\n    "POWER-ELEMENT",\n    "POWER-UTILITY"\n  ]' in (here / "accepted/manifest.json").read_text()
    )


def test_only_a_value_that_is_another_today_can_be_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["accept", "site.yaml"]) == OK
    assert cli.main(["accept", "site.yaml", "--take", "cooling.supply_c"]) == CANNOT
    assert "--take cooling.supply_c: not an accepted value that is another today" in capsys.readouterr().err


def as_built(
    here: Path, stage: str, exchanged: tuple[int, int], recorded: int = 2
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(cables before, as_built.csv) where the far plugs of two accepted cables are exchanged, and so many of them recorded."""
    before = pd.read_csv(here / "accepted" / "cables.csv", keep_default_na=False)
    cables = before[before["stage"] == stage].iloc[list(exchanged)].copy()
    ends = ["b_device", "b_port"]
    cables[ends] = cables[ends].to_numpy()[::-1]
    more = {"serial": "", "length_m": "", "installed_on": "2027-01-04", "installed_by": "crew 1", "part": "as-ordered"}
    built = cables.assign(**more)[list(COLUMNS)].iloc[:recorded]
    built.to_csv(here / "as_built.csv", index=False)
    return before, built


def test_exchanged_uplinks_are_accepted_as_built_and_stay(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["accept", "site.yaml"]) == OK
    _, built = as_built(here, "leaf-spine", (0, 5))
    assert cli.main(["accept", "site.yaml", "--as-built"]) == OK
    assert "as built: 2 cables where " in capsys.readouterr().out
    after = pd.read_csv(here / "accepted" / "cables.csv", keep_default_na=False)
    there = {frozenset(((a, p), (b, q))) for a, p, b, q in after[list(ENDS)].itertuples(index=False, name=None)}
    for a, p, b, q in built[list(ENDS)].itertuples(index=False, name=None):
        assert frozenset(((a, p), (b, q))) in there
    assert cli.main(["plan", "site.yaml"]) == OK
    assert "nothing is added" in capsys.readouterr().out


def test_what_cannot_stay_is_not_accepted_as_built(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["accept", "site.yaml"]) == OK
    assert cli.main(["accept", "site.yaml", "--as-built"]) == CANNOT
    assert "as_built.csv records no cable" in capsys.readouterr().err
    before, _ = as_built(here, "node-leaf", (0, 1))
    assert cli.main(["accept", "site.yaml", "--as-built"]) == CANNOT
    assert "2 cables cannot stay where they are: " in capsys.readouterr().err, "a server's rails"
    _, built = as_built(here, "leaf-spine", (0, 5), recorded=1)
    assert cli.main(["accept", "site.yaml", "--as-built"]) == CANNOT
    end = ":".join(built.iloc[0][["b_device", "b_port"]])
    assert f"{end} would have two cables, " in capsys.readouterr().err, "half an exchange"
    assert before.equals(pd.read_csv(here / "accepted" / "cables.csv", keep_default_na=False))
