"""Findings are immutable plain data; output folders follow the documented order."""

import json
import pickle
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from inventory.findings import Finding
from inventory.paths import repo_root, var_dir

LOSS = Finding(
    "POWER-FEED-LOSS", "error", "r01/A", "feed A overloads when B is lost", {"load_kw": 40.8}, 34.5, "circuit", "ERR-05"
)


def test_a_finding_survives_pickling_hashing_and_json() -> None:
    assert pickle.loads(pickle.dumps(LOSS)) == LOSS
    assert len({LOSS, pickle.loads(pickle.dumps(LOSS))}) == 1
    assert json.loads(json.dumps(LOSS.as_dict()))["numbers"] == {"load_kw": 40.8}


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
