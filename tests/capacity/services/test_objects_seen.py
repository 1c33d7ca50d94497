from capacity.services.objects_seen import replaced, seen_as


def test_only_what_was_wanted_is_seen() -> None:
    wanted = {"spec": {"a": 1, "list": [{"x": 1}]}}
    live = {"spec": {"a": 2, "b": 3, "list": [{"x": 1, "defaulted": True}]}, "status": {"phase": "Active"}}
    assert seen_as(wanted, live) == {"spec": {"a": 2, "list": [{"x": 1}]}}


def test_a_list_of_another_length_is_seen_whole() -> None:
    assert seen_as({"verbs": ["get"]}, {"verbs": ["get", "delete"]}) == {"verbs": ["get", "delete"]}


def test_zero_values_that_the_server_leaves_out_count_as_seen() -> None:
    assert seen_as({"globalDefault": False, "spec": {"podSelector": {}}}, {"spec": {}}) == {
        "globalDefault": False,
        "spec": {"podSelector": {}},
    }


def test_a_field_that_somebody_removed_is_not_seen() -> None:
    assert seen_as({"spec": {"a": 1}}, {"spec": {}}) == {"spec": {}}


def test_an_identity_or_an_immutable_field_replaces() -> None:
    old = {"apiVersion": "v1", "kind": "PriorityClass", "metadata": {"name": "a"}, "value": 1, "description": "x"}
    assert replaced(old, old | {"description": "y"}) == []
    assert replaced(old, old | {"value": 2}) == ["value"]
    assert replaced(old, old | {"metadata": {"name": "b"}}) == ["metadata.name"]
