"""snmpwalk files of PDUs and UPSs."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.imports.core.source import ImportFault
from inventory.imports.operation.snmpwalk import Walk, imported, numeric, read_walk
from tests.findings import names

DATA = Path(__file__).parents[3] / "data" / "imports"
PATH = Path("walk.txt")


def walk(name: str) -> Walk:
    return read_walk((DATA / name).read_text(), DATA / name)


def value(result: Walk, what: str, index: str = "") -> float:
    rows = result.readings
    return float(rows.loc[(rows["what"] == what) & (rows["index"] == index), "value"].iloc[0])


@pytest.mark.parametrize("name", ["pdu_numeric.txt", "pdu_names.txt"])
def test_numbers_and_names_give_the_same_readings(name: str) -> None:
    result = walk(name)
    assert set(result.readings["device"]) == {"pdu-r01-a"}
    assert value(result, "power") == 8420  # 842 hundredths of a kilowatt
    assert [value(result, "current", f"phase {n}") for n in (1, 2, 3)] == pytest.approx([11.7, 11.6, 11.8])
    assert value(result, "current", "outlet 1") == pytest.approx(7.1)
    assert value(result, "power", "outlet 1") == 1705
    assert math.isnan(value(result, "power", "outlet 2"))
    states = result.readings[result.readings["unit"] == "state"].set_index("what")["text"]
    assert states.to_dict() == {"load_state": "normal", "state": "on"}


def test_unknown_objects_are_counted_by_subtree() -> None:
    result = walk("pdu_numeric.txt")
    assert result.unknown == {"1.3.6.1.2.1.1.3.0": 1, "1.3.6.1.4.1.318.1.1.26": 1}
    assert names(result.findings[0], 2, 14)
    assert walk("pdu_names.txt").unknown == {"PowerNet-MIB::rPDU2SensorSomething": 1}


def test_a_ups_on_battery_is_not_overlooked() -> None:
    result = walk("ups_names.txt")
    assert value(result, "battery_remaining") == 11
    assert value(result, "battery_voltage") == pytest.approx(480.5)
    assert {f.id for f in result.findings} == {"IMPORT-UPS-ON-BATTERY", "IMPORT-UPS-SOURCE", "IMPORT-WALK-ERROR"}
    shown = imported(result, "ups-a1")
    assert shown.summary == "UPS A1: 13 readings, 122.300 kW over 3 lines"
    assert not shown.files


@pytest.mark.parametrize(
    "line",
    [
        ".1.3.6.1.2.1.33.1.2.3.0 = INTEGER: 45",
        "iso.3.6.1.2.1.33.1.2.3.0 = INTEGER: 45",
        "SNMPv2-SMI::mib-2.33.1.2.3.0 = INTEGER: 45",
        "UPS-MIB::upsEstimatedMinutesRemaining.0 = INTEGER: 45 minutes",
        "upsEstimatedMinutesRemaining.0 = 45",
        ".1.3.6.1.2.1.33.1.2.3.0 45",
        "UPS-MIB::upsEstimatedMinutesRemaining.0 = Wrong Type (should be INTEGER): Gauge32: 45",
    ],
)
def test_every_way_of_printing_a_value_is_read(line: str) -> None:
    assert value(read_walk(line, PATH), "battery_remaining") == 45


def test_names_become_numbers() -> None:
    assert numeric("SNMPv2-SMI::enterprises.318.1") == "1.3.6.1.4.1.318.1"
    assert numeric("NO-MIB::thing.0") is None


def test_another_file_is_no_walk() -> None:
    with pytest.raises(ImportFault, match="no line is the answer"):
        read_walk("hello world\n", PATH)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from((DATA / "ups_names.txt").read_text().splitlines()) | st.text(max_size=60), max_size=8))
def test_any_lines_give_readings_or_a_fault(lines: list[str]) -> None:
    try:
        read_walk("\n".join(lines), PATH)
    except ImportFault:
        return
