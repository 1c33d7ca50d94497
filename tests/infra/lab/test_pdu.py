"""Readings of a simulated PDU in the units of its MIB."""

from dataclasses import replace

import pytest

from infra.lab.paths import LabError
from infra.lab.pdu import DIALECTS, OFF, ON, REBOOT, PduState, records
from infra.lab.spec import Outlet, Pdu

RPDU2 = "1.3.6.1.4.1.318.1.1.26"


@pytest.fixture
def pdu() -> PduState:
    outlets = [Outlet("pdu-a", number, "A", f"L{(number - 1) % 3 + 1}", "", 0) for number in range(1, 7)]
    return PduState.factory(Pdu("pdu-a", "m", "S1", "02:00:00:00:00:01", "192.0.2.9", "r01", "A", 60.0, 240.0), outlets)


WATTS = {1: 4800.0, 2: 0.0, 3: 0.0, 4: 7200.0, 5: 0.0, 6: 0.0}


def test_phase_current_is_the_sum_of_its_outlets_in_tenths_of_an_ampere(pdu):
    assert pdu.reading("phase_amps", 1, WATTS) == 500  # (4800 + 7200) W / 240 V = 50 A
    assert pdu.reading("phase_amps", 2, WATTS) == 0


def test_power_is_in_hundredths_of_a_kilowatt(pdu):
    assert pdu.reading("device_power", 0, WATTS) == 1200
    assert pdu.reading("phase_power", 1, WATTS) == 1200


def test_load_state_follows_the_thresholds(pdu):
    assert pdu.reading("phase_load", 1, WATTS) == 3  # 50 A: over 48 A (80 % of 60 A), under 60 A
    pdu.write("near_a", 1, "55")
    assert pdu.reading("phase_load", 1, WATTS) == 2
    pdu.write("overload_a", 1, "50")
    assert pdu.reading("phase_load", 1, WATTS) == 4


def test_threshold_above_the_rating_is_refused(pdu):
    with pytest.raises(LabError, match="61 A is outside 0 to 60 A"):
        pdu.write("overload_a", 1, "61")


def test_state_and_control_use_different_numbers(pdu):
    pdu.on[2] = False
    assert [pdu.reading("state", n, WATTS) for n in (1, 2)] == [2, 1]
    assert [pdu.reading("control", n, WATTS) for n in (1, 2)] == [1, 2]


def test_serial_cannot_be_written(pdu):
    with pytest.raises(LabError, match="serial cannot be written"):
        pdu.write("serial", 0, "x")


def test_records_are_in_oid_order_and_unique(pdu):
    oids = [tuple(map(int, row[0].split("."))) for row in records(pdu)]
    assert oids == sorted(set(oids))


def test_every_asked_object_has_a_reading(pdu):
    asked = [value.split("/") for _, tag, value in records(pdu) if tag.endswith(":outlet")]
    assert len(asked) > 6 * 5
    for _, what, index in asked:
        assert pdu.reading(what, int(index), WATTS) is not None


def test_outlet_count_object_is_the_number_of_outlets(pdu):
    assert (f"{RPDU2}.4.2.1.4.1", "2", "6") in list(records(pdu))


def test_without_input_no_outlet_feeds_and_relays_stay_as_they_are(pdu):
    pdu.has_input = False
    assert not any(pdu.feeds(number) for number in pdu.outlets)
    assert all(pdu.on.values())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_answers_every_asked_object_and_takes_every_command(pdu, dialect):
    pdu.pdu = replace(pdu.pdu, dialect=dialect)
    oids = [tuple(map(int, row[0].split("."))) for row in records(pdu)]
    assert oids == sorted(set(oids))
    assert all(value is not None for value in pdu.readings(WATTS).values())
    commands = DIALECTS[dialect]["commands"]
    assert [pdu.command(commands[what]) for what in ("on", "off", "reboot")] == [ON, OFF, REBOOT]
    with pytest.raises(LabError, match="9 is no outlet command"):
        pdu.command(9)
