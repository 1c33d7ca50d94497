"""The gate compares value with limit, and limit with its source, again: what a record claims of itself is not enough."""

import ast
import dataclasses
import functools
import hashlib
import json
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from capacity.model import Plan
from inventory.paths import repo_root
from inventory.site import Site
from inventory.site.sections.acceptance import Limit
from tests.plans import plan_of
from tests.validation.bench import TRAINED, answer, kept_by, numbers, raw_of, swept, whole_pings
from tests.validation.test_burn_in import GPU, H100, HOUR_S, RANK
from validation.evidence import Record
from validation.evidence.record import raw_path
from validation.facts.node_results import side_by_side
from validation.from_raw import FROM_RAW, NOT_FROM_RAW, PARTS, Again, Reader, computed, unlike
from validation.program import checked_items
from validation.register import Register, of_platform
from validation.rejudge import COMPARE, fault, limit_changed
from validation.runners.slurm_trials import Preemption
from validation.runners.training import Recording

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
    assert set(judged_items(register)) | set(FROM_RAW) <= checked_items()


def with_limit_and_raw() -> set[str]:
    """Items whose check writes a limit and a raw output, by the source of the checks."""
    found = set()
    for path in sorted((repo_root() / "validation" / "checks").glob("test_*.py")):
        for function in ast.parse(path.read_text()).body:
            if not isinstance(function, ast.FunctionDef):
                continue
            calls = [one for one in ast.walk(function) if isinstance(one, ast.Call)]
            named = {ast.unparse(one.func).rpartition(".")[2] for one in calls}
            words = {word.arg for one in calls for word in one.keywords} & {"limit", "raw"}
            keeps_raw = "raw" in words or named & {"outcome", "node_outcome", "built", "of_stages"}
            if keeps_raw and ("limit" in words or named & {"site_limit", "Limit"}):
                decorators = [one for one in function.decorator_list if isinstance(one, ast.Call)]
                found |= {ast.literal_eval(one.args[0]) for one in decorators if ast.unparse(one.func) == "check"}
    return found


def test_every_item_with_limit_and_raw_output_is_computed_again_or_says_why_not() -> None:
    assert with_limit_and_raw() - set(FROM_RAW) == set(NOT_FROM_RAW)
    assert not set(FROM_RAW) & set(NOT_FROM_RAW)


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
@pytest.fixture(scope="module")
def plan(real_site: Site) -> Plan:
    busbw = real_site.limits["pdu_load_pct"].model_copy(update={"value": 1e-6})
    ber = {key: Limit(value=2.4e-4, unit="errors/bit", source="test") for key in ("link_ber_max", "link_raw_ber_max")}
    limits = {**real_site.limits, "collectives_busbw_pct": busbw, **ber}
    return dataclasses.replace(plan_of("lab"), site=real_site.model_copy(update={"limits": limits}))


def unlike_raw(plan: Plan, record: Record, raw: bytes) -> str | None:
    found = computed(record.item, record.subject, planned_for(plan, record.item), raw)
    return found if isinstance(found, str) else unlike(record, found)


def pings(payload_b: int, last: Mapping[str, Any] = {}) -> dict[str, Any]:
    """What gpu001 says of its pings; `last` replaces values of the last of them."""
    *others, final = whole_pings(plan_of("lab"), "gpu001", payload_b)
    return {"pings": [*others, {**final, **last}]}


def clock(p99_s: float, offset_s: float = 0.0, **day: Any) -> bytes:
    """What gpu001 says of its clock, with this 99th percentile of 150 offsets of a day, and this offset now."""
    chrony = {"reference": "10.0.0.1", "stratum": 3, "offset_s": offset_s, "rms_offset_s": 0.0, "leap": "Normal"}
    return answer({"chrony": chrony, "clock_day": {"samples": 150, "quarters": 90, "largest_s": [9.0, p99_s], **day}})


def currents(*amps: float) -> bytes:
    """What a PDU of the lab says with these currents of its phases."""
    data = json.loads(raw_of("S088.observed", PDU))["data"]
    phases = [{**phase, "amps": one} for phase, one in zip(data["phases"], amps, strict=True)]
    return answer({**data, "phases": phases}, PDU)


PDU = "pdu-r01-a"
RAW = [
    ("S054.measured", 8972, answer(pings(8973, {"payload_b": 8972})), None),
    ("S054.measured", 8972, answer(pings(8972, {"payload_b": 1472})), "it says 8972, its raw output gives 1472"),
    ("S054.measured", 8972, answer(pings(8972, {"ok": False})), "its raw output shows: no whole answer from mgm01"),
    ("S054.measured", 8972, answer(pings(8972), "gpu002"), "it is the answer of gpu002"),
    ("S054.measured", 8972, answer({}), "cannot be computed from its raw output (KeyError"),
    ("S054.measured", 8972, b"", "cannot be computed from its raw output (JSONDecodeError"),
    ("S054.measured", 8972, b"[" * 100_000, "cannot be computed from its raw output"),
    ("S054.measured", 8972, b'"text"', "cannot be computed from its raw output (ValueError"),
    ("S054.measured", 8972, answer({"pings": [None]}), "cannot be computed from its raw output (UnreadableAnswer"),
    ("S144.observed", 0.25, clock(0.00025), None),
    ("S144.observed", 0.25, clock(0.25), "it says 0.25, its raw output gives 250"),
    ("S144.observed", 0.25, clock(float("nan")), "cannot be computed from its raw output (Refused: NaN"),
    ("S144.observed", 0.25, clock(0.00025, -0.25), "its raw output shows: offset 250.000 ms"),
    ("S144.observed", 0.25, clock(0.00025, quarters=0), "samples in 0 quarter hours of the last day, fewer than 72"),
    ("S144.observed", 0.25, clock(0.00025, samples=99), "cannot be computed from its raw output (ValueError"),
    ("S144.observed", 0.25, clock(0.00025, largest_s=[0.00025, 9.0]), "cannot be computed from its raw output (Value"),
    (
        "S088.observed",
        {"imbalance_pct": 20.0, "load_w": 71880, "load_pct": 594.3, "neutral_a": 17.32},
        currents(90, 100, 110),
        None,
    ),
    (
        "S088.observed",
        {"imbalance_pct": 1.0},
        currents(0, 0, 0),
        "cannot be computed from its raw output (ZeroDivisionError",
    ),
]


@pytest.mark.parametrize(("item", "value", "raw", "why"), RAW, ids=range(len(RAW)))
def test_a_value_is_computed_again_from_the_raw_output(
    record: MakeRecord, plan: Plan, item: str, value: Any, raw: bytes, why: str | None
) -> None:
    subject = PDU if item == "S088.observed" else "gpu001"
    found = unlike_raw(plan, record(item, subject, value=value), raw)
    assert (found is None) if why is None else (found is not None and why in found), found


def burnt(hours: float = 50, wrong: int = 0, gpus: int = 8) -> bytes:
    """What a node of the lab keeps of a burn-in: the file of its one rank, which watches all GPUs."""
    others = [{**GPU, "uuid": f"GPU-other-{n}", "slot": n, "serial": f"S{n}"} for n in range(2, gpus + 1)]
    rank = {**RANK, "wrong_words": wrong}
    watch = {"gpus": [GPU, *others], "xids": [], "telemetry_error": ""}
    kept = {"device": H100, "ended": True, "phase": "end", "took_s": hours * HOUR_S, "rank": rank, "watch": watch}
    return json.dumps({"ranks": [json.dumps(kept)], "said": ""}).encode()


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (burnt(), None),
        (burnt(hours=1), "it says hours 50, its raw output gives 1"),
        (burnt(gpus=7), "its raw output shows: telemetry of 7 GPUs, the node has 8"),
        (burnt(wrong=3), "its raw output shows: gpu001 slot 1, serial S1: 3 words of memory came back wrong"),
        (b'{"ranks": []}', "cannot be computed from its raw output"),
        (b'{"ranks": [1]}', "cannot be computed from its raw output (TypeError: ranks is no list of texts)"),
    ],
    ids=["sound", "shorter", "a GPU less", "wrong words", "no ranks", "no texts"],
)
def test_a_burn_in_is_judged_again_from_its_samples(
    record: MakeRecord, plan: Plan, raw: bytes, why: str | None
) -> None:
    found = unlike_raw(plan, record("S034.measured", "gpu001", value={"hours": 50.0}), raw)
    assert (found is None) if why is None else (found is not None and why in found), found


# -- every item --------------------------------------------------------------------------------------------------------
def subject_of(item: str) -> str:
    """A subject of an item on the lab."""
    one = {"S047.measured": "ibl001", "S088.observed": PDU, "S125.applied": "sto01"}
    one |= dict.fromkeys(("S086.observed", "S171.observed"), "r01")
    one |= dict.fromkeys(("S061.applied", "S062.measured", "S170.observed"), "spine01")
    return one.get(item, "lab" if item in PARTS and item != "S130.applied" else "gpu001")


def planned_for(plan: Plan, item: str) -> Plan:
    """The plan with what an item needs: GPUs that compute for NVLink and reduction in switches, limits of links."""
    if item in ("S058.measured", "S151.measured"):
        computing = plan.site.validation.model_copy(update={"workloads_on": "gpu"})
        return dataclasses.replace(plan, site=plan.site.model_copy(update={"validation": computing}))
    if item in ("S047.measured", "S170.observed"):
        wanted = {"link_ber_max": 1e-12, "link_raw_ber_max": 2.4e-4}
        more = {key: Limit(value=value, unit="errors/bit", source="test") for key, value in wanted.items()}
        return dataclasses.replace(plan, site=plan.site.model_copy(update={"limits": {**plan.site.limits, **more}}))
    return plan


def sound(record: MakeRecord, plan: Plan, item: str) -> Record:
    """A record of an item with the value that its raw output gives."""
    subject = subject_of(item)
    found = computed(item, subject, planned_for(plan, item), raw_of(item, subject))
    assert isinstance(found, Again), found
    return record(item, subject, value=json.loads(json.dumps(found.value)), limit=found.limit, limit_source="x")


OF_ROCE = {"S055.measured", "S056.measured"}
"""Nothing of them is on the lab, whose fabric is InfiniBand: test_incast.py computes them again."""
OF_RECORDS = sorted(one for one in set(FROM_RAW) - {"S034.measured", *OF_ROCE} if not of_platform(one))
"""Without the platform's, of which test_kube.py asks the same."""


def other(value: Any) -> Any:
    """The value with its first number, or else its first text, changed."""
    if isinstance(value, dict):
        key = next(iter(value))
        return {**value, key: other(value[key])}
    if isinstance(value, list):
        return [other(value[0]), *value[1:]] if value else ["a part more"]
    return value + 1 if isinstance(value, int | float) else "another"


@pytest.mark.parametrize("item", OF_RECORDS)
def test_a_value_that_was_edited_is_a_failure(record: MakeRecord, plan: Plan, item: str) -> None:
    one = sound(record, plan, item)
    raw = raw_of(item, one.subject)
    assert unlike_raw(plan, one, raw) is None
    edited = dataclasses.replace(one, value=other(one.value))
    assert "its raw output gives" in str(unlike_raw(plan, edited, raw))
    assert unlike_raw(plan, dataclasses.replace(one, value=None), raw) is not None


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"null", b'"text"', b"\xff", b"[" * 100_000, b'{"metrics": 3}'])
@pytest.mark.parametrize("item", OF_RECORDS)
def test_a_raw_output_that_is_none_is_a_failure(record: MakeRecord, plan: Plan, item: str, raw: bytes) -> None:
    assert unlike_raw(plan, record(item, subject_of(item), value=1), raw) is not None


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize(
    ("item", "path"),
    [
        ("S170.observed", ("rates", "leaf01:swp1", "errors")),
        ("S170.observed", ("rates", "leaf01:swp1", "covered_s")),
        ("S170.observed", ("apart_s",)),
        ("S057.measured", ("runs", "adaptive", "sent", "ibl002:p8")),
    ],
    ids=lambda one: one if isinstance(one, str) else one[-1],
)
def test_what_is_no_number_keeps_no_limit(plan: Plan, item: str, path: Sequence[str], number: str) -> None:
    """A comparison with NaN is false: an error rate of NaN was not above its limit."""
    said = json.loads(raw_of(item, subject_of(item)))
    *above, last = path
    functools.reduce(operator.getitem, above, said)[last] = "NUMBER"
    raw = json.dumps(said).replace('"NUMBER"', number).encode()
    assert isinstance(computed(item, subject_of(item), planned_for(plan, item), raw), str)


def test_a_raw_output_with_a_key_twice_is_none(plan: Plan) -> None:
    """Who reads it may see the first one, and the gate judges the last."""
    raw = raw_of("S170.observed", "spine01").replace(b"{", b'{"rates": {}, ', 1)
    assert "stands there twice" in str(computed("S170.observed", "spine01", plan, raw))


def psus(*healths: str, volts: float) -> bytes:
    """What the BMC of gpu001 says of its supplies with these healths, and of redundancy that is lost."""
    supplies = json.loads(raw_of("S020.observed", "gpu001"))["data"]["power_supplies"]
    each = [
        {**supplies["psus"][0], "name": f"PSU{at}", "health": one, "input_v": volts} for at, one in enumerate(healths)
    ]
    lost = [{"name": "", "mode": "N+m", "health": "Warning", "state": "Enabled"}]
    return answer({"power_supplies": {**supplies, "psus": each, "redundancy": lost}})


def test_limits_of_plan_and_catalogue_are_computed_again(
    record: MakeRecord, plan: Plan, register: Register, tmp_path: Path
) -> None:
    one = sound(record, plan, "S020.observed")
    raw = raw_of("S020.observed", one.subject)
    path = tmp_path / raw_path(hashlib.sha256(raw).hexdigest())
    path.parent.mkdir(parents=True)
    path.write_bytes(raw)
    item, reader = register.items["S020.observed"], Reader(plan, tmp_path)
    kept = dataclasses.replace(one, raw=raw)
    assert (reader.doubt(item, kept), reader.limit_changed(item, kept)) == (None, None)
    lower = dataclasses.replace(kept, limit=1)
    assert "it was judged by 1, plan and catalogue give" in str(reader.limit_changed(item, lower))
    path.write_bytes(raw.replace(b"OK", b"Critical"))
    assert "has been changed" in str(Reader(plan, tmp_path).doubt(item, kept))
    assert "keeps no raw output" in str(reader.doubt(item, one))


def test_faults_that_a_raw_output_shows_are_named(record: MakeRecord, plan: Plan) -> None:
    found = computed("S020.observed", "gpu001", plan, psus("OK", "Critical", volts=100))
    assert isinstance(found, Again)
    assert found.value["healthy"] == 1
    assert [text.split(":")[0] for text in found.problems][-1] == "redundancy lost"
    times = {"SubmitTime": "2026-11-21T19:00:57", "StartTime": "2026-11-21T19:00:58"}
    resumed = Preemption("", times, {"Restarts": "2"}, "checkpoint 3\nresumed 4\n").as_json()
    found = computed("S160.measured", "lab", plan, resumed)
    assert isinstance(found, Again)
    assert found.problems == [
        "the victim was restarted 2 times, expected once",
        "the victim resumed at 4, its checkpoint was 3",
    ]
    rack = plan.racks["name"].iloc[0]
    assert "the plan has" in str(computed("S086.observed", rack, plan, currents(9, 9, 9)))
    assert "2 recaps of gpu001" in str(computed("S143.applied", "gpu001", plan, 2 * raw_of("S143.applied", "gpu001")))


@pytest.mark.parametrize("item", sorted(TRAINED))
def test_a_recording_of_no_run_gives_nothing(record: MakeRecord, plan: Plan, item: str) -> None:
    nothing = Recording(["gpu001"]).as_json()
    assert unlike_raw(plan, sound(record, plan, item), nothing) is not None


def test_the_links_of_an_infiniband_switch_are_those_of_its_part_of_the_subnet(record: MakeRecord, plan: Plan) -> None:
    """S062 has two checks: LLDP of in-band switches, and the subnet of the others."""
    raw = raw_of("S062.measured", "ibl001")
    part = json.loads(raw)
    one = record("S062.measured", "ibl001", value={"links": [row[1:] for row in part["links"]]})
    assert unlike_raw(plan, one, raw) is None

    def why(**changes: Any) -> str:
        return str(unlike_raw(plan, one, json.dumps({**part, **changes}).encode()))

    assert "TOPOLOGY-MISSING" in why(links=part["links"][1:]) or "LINK-DOWN" in why(links=part["links"][1:])
    first, second, *others = part["links"]
    assert "TOPOLOGY-SWAPPED" in why(links=[[*first[:2], *second[2:]], [*second[:2], *first[2:]], *others])
    assert "LINK-RATE" in why(links=[[*row[:4], 100.0] for row in part["links"]])
    assert "cannot be computed" in why(nodes=None)
    assert "it is the part of" in why(nodes=[])
    assert "it is the part of" in str(computed("S062.measured", "ibl002", plan, raw))
    assert "cannot be computed" in str(unlike_raw(plan, one, answer({"lldp": []}, "ibl001")))


def test_links_are_judged_again_at_each_planned_adapter(plan: Plan) -> None:
    limited, raw = planned_for(plan, "S047.measured"), raw_of("S047.measured", "ibl001")

    def problems(said: bytes) -> list[str]:
        found = computed("S047.measured", "ibl001", limited, said)
        assert isinstance(found, Again), found
        return list(found.problems)

    assert problems(raw) == []
    assert problems(raw.replace(b"IB-HDR", b"IB-EDR", 1)) == ["gpu001:ib0 runs at 100 Gb/s, planned 200"]
    assert problems(b"{}")[:1] == ["gpu001:ib0 was not asked"]


def test_every_check_of_an_item_that_is_computed_again_is_known() -> None:
    """An item whose checks differ by subject needs a computation for each; those of another workload manager have their own."""
    several = {item for (item, _), count in Counter(checked_by()).items() if count > 1}
    assert several & set(FROM_RAW) == {"S061.applied", "S062.measured"}


def checked_by() -> list[tuple[str, str]]:
    """Item and workload manager of each check, by the source of the checks."""
    found = []
    for path in sorted((repo_root() / "validation" / "checks").glob("test_*.py")):
        functions = [one for one in ast.parse(path.read_text()).body if isinstance(one, ast.FunctionDef)]
        decorators = [one for function in functions for one in function.decorator_list if isinstance(one, ast.Call)]
        for one in (one for one in decorators if ast.unparse(one.func) == "check"):
            manager = [ast.literal_eval(word.value) for word in one.keywords if word.arg == "manager"]
            found.append((ast.literal_eval(one.args[0]), "".join(manager)))
    return found


def test_a_sweep_of_other_ranks_or_with_wrong_results_shows_it(plan: Plan) -> None:
    names = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    twice = side_by_side({node: kept_by(texts) for node, texts in swept(names, per_node=2).items()})
    found = computed("S066.measured", "lab", plan, twice)
    assert isinstance(found, Again)
    assert list(found.problems)[:2] == ["8 ranks, expected 4: 1 on each of 4 nodes", "gpu001: 2 ranks, planned 1"]
    files = {node: list(texts) for node, texts in swept(names).items()}
    rank = json.loads(files["gpu002"][0])
    rank["spans"][0]["wrong"] = [0]
    files["gpu002"] = [json.dumps(rank)]
    found = computed("S066.measured", "lab", plan, side_by_side({one: kept_by(two) for one, two in files.items()}))
    assert isinstance(found, Again)
    assert found.problems == ["rank 1 on gpu002: 1 wrong results, first all_reduce float32 16 B (whole)"]
