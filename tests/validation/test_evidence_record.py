"""Records and their in-toto statements."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.validation.bench import NOW, identity, proven, simulated
from validation.evidence import Record
from validation.evidence.record import Attachment, from_statement, to_statement

SHA256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
DIGEST_SET = {"type": "object", "minProperties": 1, "properties": {"sha256": SHA256}}
# in-toto attestation framework: spec/v1/resource_descriptor.md, statement.md and predicates/test-result.md (v0.1)
RESOURCE_DESCRIPTOR = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "uri": {"type": "string"},
        "digest": DIGEST_SET,
        "content": {"type": "string"},
        "downloadLocation": {"type": "string"},
        "mediaType": {"type": "string"},
        "annotations": {"type": "object"},
    },
    "additionalProperties": False,
    "anyOf": [{"required": ["uri"]}, {"required": ["digest"]}, {"required": ["content"]}],
}
TEST_LIST = {"type": "array", "items": {"type": "string"}}
STATEMENT_SCHEMA = {
    "type": "object",
    "required": ["_type", "subject", "predicateType", "predicate"],
    "additionalProperties": False,
    "properties": {
        "_type": {"const": "https://in-toto.io/Statement/v1"},
        "subject": {
            "type": "array",
            "minItems": 1,
            "items": {"allOf": [RESOURCE_DESCRIPTOR, {"required": ["digest"]}]},
        },
        "predicateType": {"const": "https://in-toto.io/attestation/test-result/v0.1"},
        "predicate": {
            "type": "object",
            "required": ["result", "configuration"],
            "properties": {
                "result": {"enum": ["PASSED", "WARNED", "FAILED"]},
                "configuration": {"type": "array", "items": RESOURCE_DESCRIPTOR},
                "url": {"type": "string"},
                "passedTests": TEST_LIST,
                "warnedTests": TEST_LIST,
                "failedTests": TEST_LIST,
                "bringup_record": {"type": "object"},
            },
            "additionalProperties": False,
        },
    },
}

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(value=JSON_VALUES, detail=st.text(max_size=30), result=st.sampled_from(["PASSED", "WARNED", "FAILED"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_statement_has_the_shape_of_the_in_toto_specification(
    record: Callable[..., Record], value: Any, detail: str, result: str
) -> None:
    made = record(value=value, detail=detail, result=result, raw=b"out", attachments=(Attachment("a.pdf", "12" * 32),))
    jsonschema.validate(json.loads(json.dumps(to_statement(made))), STATEMENT_SCHEMA)


@given(
    value=JSON_VALUES,
    unit=st.text(max_size=5),
    command=st.text(max_size=30),
    subject=st.text(min_size=1, max_size=12),
    hours=st.floats(0, 100),
    serial=st.text(max_size=8),
    raw=st.none() | st.binary(max_size=20),
)
def test_a_record_survives_its_statement(
    record: Callable[..., Record],
    value: Any,
    unit: str,
    command: str,
    subject: str,
    hours: float,
    serial: str,
    raw: bytes | None,
) -> None:
    made = record(
        subject=subject,
        value=value,
        unit=unit,
        command=command,
        raw=raw,
        ended=NOW + timedelta(hours=hours),
        limit=3.5,
        limit_source="site limits.x",
        limit_frozen=NOW - timedelta(days=1),
        identities=(identity("leaf01", serial=serial),),
        aliases={"leaf01": ("a", "b")},
        attachments=(Attachment("photo.jpg", "34" * 32),),
        form={"name": "Jane"},
    )
    read, mode = from_statement(json.loads(json.dumps(to_statement(made))))
    assert read == made
    assert mode == made.mode


def test_the_weaker_of_recorded_and_recomputed_mode_counts(record: Callable[..., Record]) -> None:
    statement = to_statement(record(identities=proven("leaf01")))
    statement["predicate"]["bringup_record"]["mode"] = "simulated"
    assert from_statement(statement)[1] == "simulated"
    statement = to_statement(record(identities=simulated("leaf01")))
    statement["predicate"]["bringup_record"]["mode"] = "real"
    assert from_statement(statement)[1] == "simulated"


def test_the_raw_output_is_named_by_its_digest(record: Callable[..., Record]) -> None:
    statement = to_statement(record(raw=b"hello"))
    parts = {part["name"]: part for part in statement["predicate"]["configuration"]}
    digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    assert parts["raw output"] == {"name": "raw output", "uri": f"raw/2c/{digest}", "digest": {"sha256": digest}}


def test_an_input_that_is_named_like_the_raw_output_is_still_an_input(record: Callable[..., Record]) -> None:
    read, _ = from_statement(to_statement(record(inputs={"raw output": "ab" * 32}, raw=b"x")))
    assert read.inputs == {"raw output": "ab" * 32}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step": "62"}, "is not of the form S034"),
        ({"kind": "guessed"}, "kind 'guessed' is none of"),
        ({"result": "OK"}, "result 'OK' is none of PASSED, WARNED, FAILED"),
        ({"subject": ""}, "the subject is empty"),
        ({"started": datetime(2027, 1, 1)}, "started has no time zone"),
        ({"ended": datetime(2020, 1, 1, tzinfo=UTC)}, "ended before it started"),
        ({"limit": 3}, "a limit without a source"),
        ({"value": {1, 2}}, "value is not plain JSON data: Object of type set"),
        ({"value": float("nan")}, "value is not plain JSON data: Out of range float"),
        ({"form": {"when": NOW}}, "form is not plain JSON data"),
        ({"inputs": {"site.fabric": "short"}}, "input site.fabric is not given by a lower-case SHA-256"),
    ],
)
def test_what_cannot_be_evidence_is_refused(
    record: Callable[..., Record], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        record(**changes)


def test_an_attachment_cannot_pose_as_the_raw_output() -> None:
    with pytest.raises(ValueError, match="needs a name of its own"):
        Attachment("raw output", "12" * 32)
