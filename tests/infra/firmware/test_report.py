"""What `bringup firmware apply` says of versions: after each stage, and where it stops."""

import argparse
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from infra.cli import firmware
from infra.firmware import apply
from infra.firmware.apply import Outcome
from tests.infra.firmware.test_rollout import bundle

ARGUMENTS = argparse.Namespace(site="x", server=[], at_once=16, no_scheduler=True)
NAMES = ["gpu001", "gpu002", "gpu003"]


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """BIOS by server, as the BMCs tell it; a server that is taken out does not answer."""
    bios = dict.fromkeys(NAMES, "4")
    servers = pd.DataFrame([(name, "m", "r1") for name in NAMES], columns=["name", "model", "rack"])

    def read(plan: Any, names: list[str]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
        return (
            {name: {"BIOS": bios[name]} for name in names if name in bios},
            {name: "silent" for name in names if name not in bios},
        )

    monkeypatch.setattr(
        firmware, "_chosen", lambda arguments: (SimpleNamespace(), servers, dict.fromkeys(NAMES, bundle(BIOS="5")))
    )
    monkeypatch.setattr(firmware, "_inventories", read)
    monkeypatch.setattr(firmware, "doors_of", lambda *arguments, **more: None)
    return bios


def rolled(
    monkeypatch: pytest.MonkeyPatch, bios: dict[str, str], becomes: Mapping[str, str | None], failed: str
) -> int:
    """A roll-out whose first stage goes well, and the rest of which does what `becomes` says; None: its BMC is silent after."""

    def roll_out(stages: Any, bundles: Any, doors: Any, say: Any, after: Any) -> Outcome:
        bios["gpu001"] = "5"
        after(stages[0])
        for name, version in becomes.items():
            if version is None:
                del bios[name]
            else:
                bios[name] = version
        return Outcome((failed,), 1) if failed else Outcome()

    monkeypatch.setattr(apply, "roll_out", roll_out)
    return firmware.run_apply(ARGUMENTS)


def test_versions_that_are_mixed_after_a_stage_are_named_and_in_the_end_none_is(running, monkeypatch, capsys) -> None:
    def roll_out(stages: Any, bundles: Any, doors: Any, say: Any, after: Any) -> Outcome:
        for stage in stages:
            running.update(dict.fromkeys(stage.servers, "5"))
            after(stage)
        return Outcome()

    monkeypatch.setattr(apply, "roll_out", roll_out)
    assert firmware.run_apply(ARGUMENTS) == 0
    said = capsys.readouterr().out
    assert "after m: one server: m BIOS is mixed (BIOS): 4 on gpu002, gpu003; 5 on gpu001" in said
    assert "no package runs in two versions on 3 servers that answer" in said


def test_where_it_stops_the_versions_that_run_now_are_named(running, monkeypatch, capsys) -> None:
    assert rolled(monkeypatch, running, {"gpu002": "6"}, "gpu002: verifying: BIOS") == 2
    said = capsys.readouterr()
    assert "m BIOS is mixed (BIOS): 4 on gpu003; 5 on gpu001; 6 on gpu002\n" in said.out
    assert "gpu002: verifying: BIOS" in said.err


def test_a_bmc_that_is_silent_after_the_stop_is_named_and_its_old_version_is_not_told(
    running, monkeypatch, capsys
) -> None:
    assert rolled(monkeypatch, running, {"gpu002": None}, "gpu002: activating: BIOS") == 2
    said = capsys.readouterr()
    assert "4 on gpu003; 5 on gpu001\n" in said.out
    assert "gpu002: what it runs now is not known, its BMC does not answer" in said.err
