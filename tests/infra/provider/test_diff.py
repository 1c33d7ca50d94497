from infra.provider.diff import differences

RACK = {"rack": "r01", "pdus": {"pdu-r01-a": {"outlets": {"1": {"on": True}, "2": {"on": True}}}}}


def shown(old, new):
    return [str(difference) for difference in differences(old, new)]


def test_equal_data_has_no_difference():
    assert shown(RACK, RACK) == []


def test_one_outlet_off_is_one_difference_with_its_path():
    drifted = {"rack": "r01", "pdus": {"pdu-r01-a": {"outlets": {"1": {"on": True}, "2": {"on": False}}}}}
    assert shown(drifted, RACK) == ['~ pdus["pdu-r01-a"].outlets["2"].on: false => true']


def test_a_missing_part_is_named_at_its_top():
    assert shown({"rack": "r01", "pdus": {}}, RACK)[0].startswith('+ pdus["pdu-r01-a"]: ')


def test_a_part_that_goes_is_a_delete():
    assert shown({"a": {"b": 1}, "c": 2}, {"a": {"b": 1}}) == ["- c: 2"]


def test_lists_are_compared_whole():
    assert shown({"ntp": ["10.0.0.1"]}, {"ntp": ["10.0.0.2"]}) == ['~ ntp: ["10.0.0.1"] => ["10.0.0.2"]']
