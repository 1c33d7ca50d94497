"""One end of a link by mlxlink: modelled answers, every way in which an end is wrong, and texts that are cut or garbled."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.drivers.answers import Source
from network.drivers.errors import UnreadableAnswer
from network.link_ends import LinkEnd, faults, kind_of_fec, parse, seen, soak_s, unlike

NDR = (Path(__file__).parents[1] / "data/modelled/mlxlink/ndr.json").read_text()
SOURCE = Source("gpu001", "read links: mlx5_0")
COUNTERS, LINK, MODULE = "Physical Counters and BER Info", "Operational Info", "Module Info"


def changed(section: str, **fields: Any) -> LinkEnd:
    """The modelled end with other fields; names of fields by their first words."""
    said = json.loads(NDR)
    names = said["result"]["output"][section]
    for start, value in fields.items():
        (name,) = (name for name in names if name.lower().replace(" ", "_").startswith(start))
        names[name] = value
    return parse(json.dumps(said), SOURCE)


def found(end: LinkEnd, rate_gbps: float = 400) -> list[str]:
    return list(faults(end, rate_gbps=rate_gbps, raw_ber=2.4e-4, ber=1e-15))


def test_the_time_that_a_statement_takes() -> None:
    assert soak_s(1e-15, 400) == pytest.approx(7500)  # 3 / (1e-15 x 400e9)
    chance_of_no_error = math.exp(-1e-15 * 400e9 * soak_s(1e-15, 400))
    assert chance_of_no_error < 0.05


def test_a_healthy_end_is_read_and_has_no_fault() -> None:
    end = parse(NDR, SOURCE)
    assert (end.rate_gbps, end.raw_ber, end.errors, end.counted_s) == (400, 3e-9, 0, 480_000)
    assert end.rx_dbm == (1.204, 0.872, 1.031, 0.694)
    assert end.rx_range_dbm == (-9.4, 6.0)
    assert found(end) == []


@pytest.mark.parametrize(
    ("section", "fields", "words"),
    [
        (LINK, {"physical_state": "Polling"}, "is Active, Polling"),
        (LINK, {"width": "2x"}, "runs at 200 Gb/s, planned 400"),
        (LINK, {"speed": "IB-HDR"}, "runs at 200 Gb/s, planned 400"),
        (LINK, {"fec": "No FEC"}, "has no FEC"),
        (COUNTERS, {"raw_physical_ber": "3E-4"}, "before FEC, limit 2.4e-04"),
        (COUNTERS, {"raw_physical_ber": "N/A"}, "counts no bit errors"),
        (COUNTERS, {"effective_physical_errors": "200"}, "200 wrong bits after FEC"),  # of 1.92e17 bits
        (COUNTERS, {"time_since_last_clear": "120.0"}, "counted for 7200 s: 1.0e-15 takes 7500 s"),
        (
            MODULE,
            {"rx_power": "1.2,-40.0,1.0,0.7 [-9.4..6.0]"},
            "receives -40 dBm on lane 2, the module allows -9.4 to 6",
        ),
    ],
)
def test_each_value_outside_its_limit_is_one_fault(section: str, fields: dict[str, str], words: str) -> None:
    (fault,) = found(changed(section, **fields))
    assert words in fault


def test_errors_and_time_are_judged_without_a_bit_error_rate_before_fec() -> None:
    def without_raw(**fields: str) -> list[str]:
        return found(changed(COUNTERS, raw_physical_ber="N/A", **fields))

    assert without_raw() == ["counts no bit errors before FEC"]
    assert "200 wrong bits after FEC" in without_raw(effective_physical_errors="200")[1]
    assert "counted for 7200 s" in without_raw(time_since_last_clear="120.0")[1]
    end = changed(COUNTERS, raw_physical_ber="N/A")
    assert list(faults(end, rate_gbps=400, raw_ber=2.4e-4, ber=1e-15, needs_raw=False)) == []


def test_errors_within_the_limit_over_a_long_time_are_none() -> None:
    assert found(changed(COUNTERS, effective_physical_errors="150")) == []  # 7.8e-16 of 1.92e17 bits


def test_ethernet_names_its_whole_rate_and_copper_has_no_light() -> None:
    assert changed(LINK, speed="400G").rate_gbps == 400
    assert changed(MODULE, cable_type="Passive copper cable", rx_power="N/A").rx_dbm == ()


@pytest.mark.parametrize("field", ["Effective Physical Errors", "Time Since Last Clear [Min]", "Raw Physical BER"])
def test_a_number_that_is_none_is_refused_by_its_name(field: str) -> None:
    said = json.loads(NDR)
    said["result"]["output"][COUNTERS][field] = "many"
    with pytest.raises(UnreadableAnswer, match=r"gpu001.*many"):
        parse(json.dumps(said), SOURCE)


@given(st.integers(0, len(NDR) - 3))
def test_a_text_that_is_cut_short_is_refused(length: int) -> None:
    with pytest.raises(UnreadableAnswer):
        parse(NDR[:length], SOURCE)


def test_what_is_no_json_is_refused_with_its_line() -> None:
    lines = NDR.split("\n")
    garbled = "\n".join([*lines[:4], "\x1b[2J" + lines[4], *lines[5:]])
    with pytest.raises(UnreadableAnswer, match=r"line 5: .*2J"):
        parse(garbled, SOURCE)
    cut = "\n".join(lines[:6]) + "\n"
    with pytest.raises(UnreadableAnswer, match=r"line 7: the end"):
        parse(cut, SOURCE)


KEYS = st.sampled_from(["result", "output", LINK, COUNTERS, MODULE, "State", "Speed", "values"])
PLAIN = st.none() | st.text(max_size=8) | st.integers() | st.floats(allow_nan=False)
ANY_JSON = st.recursive(PLAIN, lambda one: st.lists(one) | st.dictionaries(KEYS, one), max_leaves=12)


@given(ANY_JSON)
def test_json_of_another_shape_is_refused(said: Any) -> None:
    with pytest.raises(UnreadableAnswer, match="gpu001"):
        parse(json.dumps(said), SOURCE)


@given(st.sampled_from([LINK, COUNTERS, MODULE]), ANY_JSON)
def test_a_section_of_another_shape_is_refused_or_read_as_if_it_were_not_there(section: str, given_: Any) -> None:
    said = json.loads(NDR)
    said["result"]["output"][section] = given_
    try:
        end = parse(json.dumps(said), SOURCE)
    except UnreadableAnswer:
        return
    assert section != LINK
    assert found(end) == ([] if section == MODULE else ["counts no bit errors"])


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Standard_RS-FEC - (544,514)", "RS"),
        ("Standard LL RS-FEC - (272,257+1)", "low-latency RS"),
        ("RS_FEC", "RS"),
        ("LLRS", "low-latency RS"),
        ("Firecode FEC", "Firecode"),
        ("BaseR", "Firecode"),
        ("No FEC", "none"),
        ("None", "none"),
        ("Off", "none"),
        ("N/A", "none"),
        ("something new", ""),
    ],
)
def test_words_of_the_tools_for_one_code_are_the_same(said: str, kind: str) -> None:
    assert kind_of_fec(said) == kind


def test_ends_alike_in_other_words_do_not_differ() -> None:
    end = parse(NDR, SOURCE)
    far = dataclasses.replace(end, state="ACT", physical="LINK UP", fec="RS_FEC", lanes=0)
    assert list(unlike(end, far)) == []


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("rate_gbps", 200.0, "400 and 200 Gb/s"),
        ("lanes", 2, "4 and 2 lanes"),
        ("fec", "Firecode FEC", "FEC Standard_RS-FEC - (544,514) and Firecode FEC"),
        ("state", "Down", "state Active, LinkUp and Down, LinkUp"),
    ],
)
def test_what_two_ends_have_otherwise_is_named(field: str, value: object, words: str) -> None:
    end = parse(NDR, SOURCE)
    change: dict[str, Any] = {field: value}
    assert list(unlike(end, dataclasses.replace(end, **change))) == [words]


def test_an_end_is_judged_by_what_it_shows_now() -> None:
    fresh = changed(COUNTERS, time_since_last_clear="1.0")
    assert list(seen(fresh, rate_gbps=400, raw_ber=2.4e-4, ber=1e-15)) == []
    (fault,) = seen(changed(COUNTERS, effective_physical_ber="2E-12"), rate_gbps=400, raw_ber=2.4e-4, ber=1e-15)
    assert fault == "has a bit error rate of 2.0e-12 after FEC, limit 1.0e-15"
