"""Device errors: one line that says which device, what was expected, what was seen and what to do."""

import pickle

import pytest

from network.drivers.errors import DeviceTimeout, IdentityMismatch, compare_identity


def test_the_message_is_one_line_with_all_five_parts():
    error = DeviceTimeout("gpu001", "read state", "an answer", "line one\nline two", "reset the BMC")
    assert str(error) == "gpu001: read state: expected an answer, saw line one line two; reset the BMC"


def test_a_page_of_output_is_cut():
    assert len(str(DeviceTimeout("d", "op", "x", "y" * 5000, "z"))) < 400


def test_an_error_survives_a_process_boundary():
    error = pickle.loads(pickle.dumps(DeviceTimeout("d", "op", "x", "y", "z")))
    assert (type(error), error.device, error.next_step) == (DeviceTimeout, "d", "z")


def test_only_planned_fields_are_compared():
    compare_identity("d", {"serial": "", "uuid": "AB-CD"}, {"uuid": "abcd", "serial": "whatever"})
    with pytest.raises(IdentityMismatch, match="expected serial S1, saw serial nothing"):
        compare_identity("d", {"serial": "S1"}, {})
