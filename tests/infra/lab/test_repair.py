"""Faults of a lab are undone all at once, or one by the words that it was injected with."""

import contextlib
from typing import Any, cast

import pytest

from infra.lab import faults
from infra.lab.fault import Fault
from infra.lab.spec import LabSpec


@pytest.fixture
def undone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was undone, in a lab whose faults do nothing."""
    kept: list[dict[str, Any]] = []
    seen: list[str] = []

    def save(name: str, entries: list[dict[str, Any]]) -> None:
        kept[:] = entries

    made = Fault(
        "a fault", "", lambda spec, arguments: (" ".join(arguments), {}), lambda spec, undo: seen.append("undone")
    )
    monkeypatch.setattr(faults, "FAULTS", {"one": made, "other": made})
    monkeypatch.setattr(faults, "lock", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(faults, "_running", lambda name: cast(LabSpec, None))
    monkeypatch.setattr(faults, "active", lambda name: list(kept))
    monkeypatch.setattr(faults, "_save", save)
    for name, target in (("one", ["gpu001", "4"]), ("one", ["gpu002", "4"]), ("other", ["gpu001", "4"])):
        faults.fault("lab", name, target)
    return seen


@pytest.mark.usefixtures("undone")
def test_all_are_undone_the_latest_first() -> None:
    assert faults.repair("lab") == ["gpu001 4", "gpu002 4", "gpu001 4"]
    assert faults.active("lab") == []


def test_one_is_undone_by_its_name_and_target_and_the_others_stay(undone: list[str]) -> None:
    assert faults.repair("lab", "one", ("gpu001", "4")) == ["gpu001 4"]
    assert [(one["fault"], one["arguments"]) for one in faults.active("lab")] == [
        ("one", ["gpu002", "4"]),
        ("other", ["gpu001", "4"]),
    ]
    assert len(undone) == 1
    assert faults.repair("lab", "one", ["gpu001", "4"]) == []
