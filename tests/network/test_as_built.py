"""Cables as installed against the lab's plan."""

from typing import Any

import pandas as pd
import pytest

from inventory.delivered.as_built import COLUMNS
from inventory.findings import Finding
from network.as_built import differences
from tests.findings import names
from tests.plans import plan_of

CABLE = "gpu001:ib0"


def found(cable: str = CABLE, **changes: Any) -> list[Finding]:
    """Findings where all cables are recorded as planned, and one line otherwise."""
    cables = plan_of("lab").cables
    built = cables.set_index("cable_id")[["a_device", "a_port", "b_device", "b_port", "part", "length_m"]]
    built = built.assign(serial="", installed_on="2026-11-20", installed_by="Jo")
    for column, value in changes.items():
        built.loc[cable, column] = value
    return differences(cables, built.reindex(columns=list(COLUMNS[1:])))


def test_cables_as_planned_have_no_finding_whichever_end_is_first() -> None:
    cables = plan_of("lab").cables
    turned = cables.rename(
        columns={f"{a}_{what}": f"{b}_{what}" for a, b in ("ab", "ba") for what in ("device", "port")}
    )
    assert found() == []
    assert differences(cables, turned.set_index("cable_id")) == []
    assert differences(cables, turned.set_index("cable_id").iloc[:3]) == []


def test_a_cable_at_another_port_is_named_with_both() -> None:
    (one,) = found(b_port="p9")
    assert (one.id, one.subject, one.ports) == ("AS-BUILT-CABLE", "gpu001", ("gpu001:ib0", "ibl001:p1"))
    assert names(one, CABLE, "ibl001:p9", "ibl001:p1")


def test_a_cable_that_the_plan_does_not_have_is_named() -> None:
    (one,) = found("spare-7", a_device="gpu001", a_port="ib9", b_device="ibl001", b_port="p9", part="x", length_m=1.0)
    assert (one.id, one.subject) == ("AS-BUILT-CABLE", "gpu001")
    assert names(one, "spare-7", "gpu001:ib9", "ibl001:p9")


@pytest.mark.parametrize(("changes", "word"), [({"part": "dac-1m"}, "dac-1m"), ({"length_m": 1.0}, "1 m")])
def test_another_part_and_a_shorter_cable_are_warnings(changes: dict[str, Any], word: str) -> None:
    (one,) = found(**changes)
    assert (one.id, one.severity) == ("AS-BUILT-PART", "warning")
    assert names(one, word)


def test_a_length_that_nobody_wrote_down_is_no_finding() -> None:
    assert found(length_m=float("nan")) == []


def test_the_plan_and_the_list_have_the_same_columns() -> None:
    assert set(COLUMNS[1:5]) <= set(pd.Index(plan_of("lab").cables.columns))
