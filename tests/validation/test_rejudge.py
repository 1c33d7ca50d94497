"""The gate compares value with limit, and limit with its source, again: what a record claims of itself is not enough."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from inventory.site import Site
from tests.validation.bench import numbers
from tests.validation.test_burn_in import GPU, H100, HOUR_S, RANK
from validation.evidence import Record
from validation.from_raw import FROM_RAW, unlike_raw
from validation.program import checked_items
from validation.register import Register
from validation.rejudge import COMPARE, fault, limit_changed

MakeRecord = Callable[..., Record]


def made(register: Register, record: MakeRecord, site: Site, item: str, **changes: Any) -> Record:
    return record(item, "gpu001", **{**numbers(register.items[item], site), **changes})


def judged_items(register: Register) -> list[str]:
    return [item.id for item in register.items.values() if item.judged]


def test_what_a_check_writes_passes(register: Register, record: MakeRecord, real_site: Site) -> None:
    for item in judged_items(register):
        assert fault(register.items[item], made(register, record, real_site, item), real_site) is None
        assert limit_changed(made(register, record, real_site, item), real_site) is None


def test_only_items_with_a_check_are_judged_again(register: Register) -> None:
    assert set(judged_items(register)) <= checked_items()
    assert set(FROM_RAW) <= set(judged_items(register))


@pytest.mark.parametrize(
    ("must", "value", "holds"),
    [
        ("at least", 3, False),
        ("at least", 5, True),
        ("at most", 5, True),
        ("at most", 6, False),
        ("below", 5, False),
        ("below", 4, True),
        ("equal", 5, True),
        ("equal", 4, False),
    ],
)
def test_comparisons(must: str, value: float, holds: bool) -> None:
    assert COMPARE[must](value, 5) is holds


@pytest.mark.parametrize(
    ("item", "change", "why"),
    [
        ("S054.measured", {"value": 8000}, "says PASSED with value 8000 B, which is not at least its limit of 8972 B"),
        ("S144.observed", {"value": 1e9}, "which is not at most its limit"),
        ("S086.observed", {"value": {"pdu-a": 1.0, "pdu-b": 1e6}}, "with pdu-b 1e+06, which is not at most"),
        ("S086.observed", {"value": {}}, "its value has no *"),
        ("S086.observed", {"value": {"pdu-a": "1"}}, "its value pdu-a is not a number: '1'"),
        ("S086.observed", {"value": {"pdu-a": True}}, "is not a number: True"),
        ("S086.observed", {"value": {"pdu-a": 10**400}}, "is not a number: 1000"),
        ("S144.observed", {"value": None}, "is not a number: None"),
        ("S144.observed", {"limit": None}, "its limit None is no number"),
        ("S144.observed", {"limit": "5"}, "its limit '5' is no number"),
        (
            "S144.observed",
            {"limit_source": "experience"},
            "its limit is from 'experience', and S144.observed is judged by",
        ),
        ("S144.observed", {"limit_source": "site limits.time_offset_ms2: x"}, "judged by site limits.time_offset_ms;"),
        ("S144.observed", {"limit_source": "site limits.pdu_load_pct: x"}, "judged by site limits.time_offset_ms;"),
        ("S143.applied", {"value": {"changed": 1, "failed": 0, "unreachable": 0}}, "changed 1, which is not equal"),
        ("S143.applied", {"value": {"changed": 0, "failed": 0}}, "its value has no unreachable"),
        ("S143.applied", {"limit": 9}, "it was judged by 9, the step says 0 (S143)"),
        ("S179.measured", {"value": {"0": {"delay_seen_pct": 100.0}, "1": {}}}, "its value 1.delay_seen_pct is not a"),
        ("S186.measured", {"value": {"scales": "none"}}, "its value has no scales.*.loss"),
        ("S034.measured", {"value": {"hours": 1}, "limit": 1}, "it measured hours 1 h, below the floor of 48 h"),
        ("S034.measured", {"value": {"hours": 1}, "limit": 1, "unit": "days"}, "below the floor of 48 h"),
    ],
)
def test_numbers_that_contradict_the_result_are_a_failure(
    register: Register, record: MakeRecord, real_site: Site, item: str, change: dict[str, Any], why: str
) -> None:
    found = fault(register.items[item], made(register, record, real_site, item, **change), real_site)
    assert found is not None
    assert why in found


@pytest.mark.parametrize(
    ("source", "limit", "why"),
    [
        ("site limits.time_offset_ms: x", 1e9, "limits.time_offset_ms of the site file is"),
        ("site limits.time_offset_ms: x", True, "it was judged by True"),
        ("site limits.no_such: x", 1, "limits.no_such, which the site file does not have"),
        ("site inband.mtu", 1500, "it was judged by 1500, inband.mtu of the site file is"),
        ("site versions.frr", "1.0", "it was judged by '1.0', versions.frr of the site file is"),
        ("site cooling.air.tile", 3, None),
        ("site no.such", 3, None),
        ("ERR-14: a sentence", 3, None),
    ],
)
def test_a_limit_is_compared_with_the_site_file_that_it_names(
    record: MakeRecord, real_site: Site, source: str, limit: Any, why: str | None
) -> None:
    found = limit_changed(record(limit=limit, limit_source=source), real_site)
    assert (found is None) if why is None else (found is not None and why in found), found


# -- from raw outputs --------------------------------------------------------------------------------------------------
def answer(data: dict[str, Any], device: str = "gpu001") -> bytes:
    return json.dumps({"device": device, "channel": "ssh", "data": data, "error": ""}).encode()


def pings(*sizes: int, ok: bool = True) -> dict[str, Any]:
    return {"pings": [{"device": f"n{size}", "ok": ok, "payload_b": size} for size in sizes]}


RAW = [
    ("S054.measured", 8972, answer(pings(8972, 8973)), None),
    ("S054.measured", 8972, answer(pings(1472, 8972)), "it says 8972 B, its raw output gives 1472"),
    ("S054.measured", 8972, answer(pings(8972, ok=False)), "its raw output shows: no whole answer from n8972"),
    ("S054.measured", 8972, answer(pings(8972), "gpu002"), "it is the answer of gpu002"),
    ("S054.measured", 8972, answer({}), "cannot be computed from its raw output (KeyError"),
    ("S054.measured", 8972, b"", "cannot be computed from its raw output (JSONDecodeError"),
    ("S054.measured", 8972, b"[" * 100_000, "cannot be computed from its raw output"),
    ("S054.measured", 8972, b'"text"', "cannot be computed from its raw output (TypeError"),
    ("S054.measured", 8972, answer({"pings": [None]}), "cannot be computed from its raw output (TypeError"),
    ("S144.observed", 0.25, answer({"chrony": {"offset_s": -0.00025}}), None),
    ("S144.observed", 0.25, answer({"chrony": {"offset_s": 0.25}}), "it says 0.25 , its raw output gives 250"),
    ("S144.observed", 0.25, answer({"chrony": {"offset_s": float("nan")}}), "its raw output gives nan"),
    ("S088.observed", {"imbalance_pct": 20.0}, answer({"phases": [{"amps": 9}, {"amps": 10}, {"amps": 11}]}), None),
    (
        "S088.observed",
        {"imbalance_pct": 1.0},
        answer({"phases": [{"amps": 0}, {"amps": 0}, {"amps": 0}]}),
        "cannot be computed from its raw output (ZeroDivisionError",
    ),
]


@pytest.mark.parametrize(("item", "value", "raw", "why"), RAW, ids=range(len(RAW)))
def test_a_value_is_computed_again_from_the_raw_output(
    register: Register, record: MakeRecord, real_site: Site, item: str, value: Any, raw: bytes, why: str | None
) -> None:
    one = made(register, record, real_site, item, value=value)
    found = unlike_raw(register.items[item], one, real_site, raw)
    assert (found is None) if why is None else (found is not None and why in found), found


def burnt(hours: float = 50, wrong: int = 0) -> bytes:
    """What a node keeps of a burn-in: the file of its one rank."""
    rank = {**RANK, "wrong_words": wrong}
    watch = {"gpus": [GPU], "xids": [], "telemetry_error": ""}
    kept = {"device": H100, "ended": True, "phase": "end", "took_s": hours * HOUR_S, "rank": rank, "watch": watch}
    return json.dumps({"ranks": [json.dumps(kept)], "said": ""}).encode()


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (burnt(), None),
        (burnt(hours=1), "it says 50 h, its raw output gives 1"),
        (burnt(wrong=3), "its raw output shows: gpu001 slot 1, serial S1: 3 words of memory came back wrong"),
        (b'{"ranks": []}', "cannot be computed from its raw output"),
        (b'{"ranks": [1]}', "cannot be computed from its raw output (TypeError: ranks is no list of texts)"),
    ],
    ids=["sound", "shorter", "wrong words", "no ranks", "no texts"],
)
def test_a_burn_in_is_judged_again_from_its_samples(
    register: Register, record: MakeRecord, real_site: Site, raw: bytes, why: str | None
) -> None:
    one = made(register, record, real_site, "S034.measured", value={"hours": 50.0})
    found = unlike_raw(register.items["S034.measured"], one, real_site, raw)
    assert (found is None) if why is None else (found is not None and why in found), found
