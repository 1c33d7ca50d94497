"""Requests between clients of the simulator time out; those that are answered do not."""

import pytest

from infra.lab.ib import PORT
from infra.lab.ib_timeouts import (
    ATTRIBUTE,
    GET,
    METHOD,
    NOTICE,
    REPLY,
    SIZE,
    SM_INFO,
    STATUS,
    TIMED_OUT,
    TIMEOUT_S,
    TRANSACTION,
    TRAP,
    Outstanding,
    packet,
    parse,
)

pytestmark = pytest.mark.clock

SERVER, CLIENT = "10.97.1.254", ("10.97.1.15", 58402)
PLACE = (SERVER, PORT + 1 + 2)


def datagram(method: int, transaction: int, attribute: int = SM_INFO, status: bytes = bytes(4)) -> bytes:
    made = bytearray(SIZE)
    made[METHOD], made[STATUS] = method, status
    made[TRANSACTION], made[ATTRIBUTE] = transaction.to_bytes(8), attribute.to_bytes(2)
    return bytes(made)


@pytest.fixture
def outstanding() -> Outstanding:
    return Outstanding(SERVER)


@pytest.mark.parametrize(("method", "attribute"), [(GET, SM_INFO), (TRAP, NOTICE)])
def test_a_request_without_an_answer_comes_back_to_its_sender_as_timed_out(outstanding, method, attribute):
    outstanding.saw(CLIENT, PLACE, datagram(method, 0x35CA, attribute), 100.0)
    assert outstanding.overdue(100.0 + TIMEOUT_S - 0.1) == []
    [(client, port, back)] = outstanding.overdue(100.0 + TIMEOUT_S)
    assert (client, port) == (CLIENT, PLACE[1])
    assert back == datagram(method, 0x0002_0000_0000_35CA, attribute, TIMED_OUT)
    assert outstanding.overdue(200.0) == []


def test_an_answer_ends_the_wait_though_the_simulator_wrote_the_place_into_the_transaction(outstanding):
    outstanding.saw(CLIENT, PLACE, datagram(GET, 0x35CA), 100.0)
    outstanding.saw(PLACE, CLIENT, datagram(GET | REPLY, 0x0002_0000_0000_35CA), 100.1)
    assert outstanding.overdue(200.0) == []


def test_what_the_simulator_sent_back_itself_is_not_sent_back_again(outstanding):
    outstanding.saw(CLIENT, PLACE, datagram(GET, 0x35CA), 100.0)
    outstanding.saw(PLACE, CLIENT, datagram(GET, 0x0002_0000_0000_35CA, status=TIMED_OUT), 100.1)
    assert outstanding.overdue(200.0) == []


def test_a_request_of_the_other_manager_with_the_same_number_is_no_answer(outstanding):
    outstanding.saw(CLIENT, PLACE, datagram(GET, 0x1442), 100.0)
    outstanding.saw(PLACE, CLIENT, datagram(GET, 0x1442), 100.1)
    assert len(outstanding.overdue(200.0)) == 1


def test_what_the_simulator_answers_by_itself_is_not_waited_for(outstanding):
    outstanding.saw(CLIENT, PLACE, datagram(GET, 1, attribute=0x0011), 100.0)  # NodeInfo
    outstanding.saw(CLIENT, PLACE, b"short", 100.0)
    assert outstanding.overdue(200.0) == []


def test_a_packet_is_read_as_it_was_made():
    assert parse(packet(PLACE, CLIENT, b"payload")) == (PLACE, CLIENT, b"payload")


@pytest.mark.parametrize("seen", [b"", b"\x46" + bytes(60), b"\x45" + bytes(60)])
def test_other_packets_are_passed_over(seen):
    assert parse(seen) is None
