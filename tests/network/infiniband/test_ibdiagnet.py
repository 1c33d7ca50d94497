"""Files of ibdiagnet, whole and broken. All modelled: tests/data/modelled/ibdiagnet says after what."""

import contextlib
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network.infiniband.ibdiagnet import adaptive, counted, ends, out_of_order, sections, trees

FILES = Path(__file__).parents[2] / "data" / "modelled" / "ibdiagnet"
DB_CSV, SHARP, DUMP = ((FILES / f"{name}.txt").read_text() for name in ("db_csv", "sharp", "net_dump_ext"))


def test_sections_that_are_asked_for_are_read_and_others_left() -> None:
    found = sections(DB_CSV)
    assert set(found) == {"AR_INFO", "EXTENDED_PORT_INFO", "PM_INFO"}
    levels = {"0002c90300000001": 0xFFFF, "0002c90300000002": 0, "0002c90300000003": 2}
    assert adaptive(found["AR_INFO"]) == levels
    masks = {("0002c90300000011", 1): 0xFFFF, ("0002c90300000012", 1): 0}
    assert out_of_order(found["EXTENDED_PORT_INFO"]) == masks


def test_counters_of_ports_are_read_in_either_base_and_by_the_wider_column() -> None:
    found = counted(sections(DB_CSV)["PM_INFO"])
    switch, adapter = found["0002c90300000001", 1], found["0002c90300000011", 1]
    assert (switch["sent"], switch["received"], switch["discards"]) == (1_000_000_000, 900_000_000, 3)
    assert (adapter["downed"], "symbol_errors" in adapter) == (1, False)
    with pytest.raises(ValueError, match="PortXmitDataExtended 'many' is no number"):
        counted([{"NodeGUID": "0x1", "PortNumber": "1", "PortXmitDataExtended": "many"}])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("END_PM_INFO\n", "", "line 23 of ibdiagnet2.db_csv is the last, within PM_INFO"),
        ("END_AR_INFO\n", "", "line 13 of ibdiagnet2.db_csv begins a section within AR_INFO"),
        ("END_AR_INFO", "END_NODES", "line 12 of ibdiagnet2.db_csv ends another section than AR_INFO"),
        ("START_EXTENDED_PORT_INFO", "START_AR_INFO", "line 14 of ibdiagnet2.db_csv has the section AR_INFO a second"),
        ("0002,0,1,1,0,0,0", "0002,0,1,1", "line 10 of ibdiagnet2.db_csv has 4 fields, its section 7"),
    ],
)
def test_a_database_that_is_cut_short_or_garbled_is_refused_with_its_line(old: str, new: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sections(DB_CSV.replace(old, new))


def test_a_field_that_is_no_guid_or_number_is_named() -> None:
    with pytest.raises(ValueError, match="NodeGUID 'leaf' is no GUID"):
        adaptive([{"NodeGUID": "leaf", "e": "1"}])
    with pytest.raises(ValueError, match="e 'on' is no number"):
        adaptive([{"NodeGUID": "0x1", "e": "on"}])
    with pytest.raises(ValueError, match="OOOSLMask '' is no number"):
        out_of_order([{"NodeGuid": "0x1", "PortNum": "1"}])


def test_trees_have_their_aggregation_nodes_by_depth() -> None:
    root, node = "0002c90300000021", "0002c90300000022"
    assert trees(SHARP) == {0: [(0, root), (1, node)], 1: [(0, node)]}
    assert trees("") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SHARP.replace("TreeID:1", "TreeID:0"), "line 5 of ibdiagnet2.sharp has tree 0 a second time"),
        (SHARP[: SHARP.index("(0)")], "line 2 of ibdiagnet2.sharp: tree 0 has no root"),
        (SHARP[SHARP.index("(0)") :], "an aggregation node before its first tree"),
    ],
)
def test_trees_that_are_cut_short_or_doubled_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        trees(text)


def test_ends_of_links_have_rate_fec_and_bit_error_rates() -> None:
    rows = {(row["guid"], row["port"]): row for row in ends(DUMP).to_dict("records")}
    switch, adapter = rows["0002c90300000001", 1], rows["0002c90300000011", 1]
    assert (switch["rate_gbps"], switch["lanes"], switch["fec"], switch["raw_ber"]) == (400.0, 4, "RS_FEC", 2e-9)
    assert (adapter["rate_gbps"], adapter["effective_ber"]) == (400.0, 2e-15)
    dark = rows["0002c90300000001", 2]
    assert (dark["state"], dark["rate_gbps"]) == ("DOWN", 0.0)
    assert math.isnan(dark["raw_ber"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty or cut short"),
        (DUMP.replace("FEC mode", "FEC"), "line 2 of ibdiagnet2.net_dump_ext is not its head"),
        (
            DUMP.replace("3e-09", "3e+09"),
            "line 5 of ibdiagnet2.net_dump_ext: 3e\\+09 is no bit error rate: it is above 1",
        ),
        (DUMP.replace("3e-09", "few"), "line 5 of ibdiagnet2.net_dump_ext: 'few' is no bit error rate"),
        (DUMP[: DUMP.rindex(" : 0 :")], "line 5 of ibdiagnet2.net_dump_ext"),
        (
            DUMP.replace("1/1/2 : 2 :", "1/1/2 : 1 :"),
            "line 4 of ibdiagnet2.net_dump_ext shows port 1 of .* a second time",
        ),
    ],
)
def test_a_dump_that_is_cut_short_or_garbled_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ends(text)


@settings(max_examples=100)
@given(st.sampled_from([DB_CSV, SHARP, DUMP]), st.integers(0, 1200), st.integers(0, 40), st.text(max_size=12))
def test_whatever_stands_there_is_read_or_refused(text: str, at: int, length: int, put: str) -> None:
    """Any damage gives an answer or a ValueError, and nothing else."""
    garbled = text[:at] + put + text[at + length :]
    for read in (sections, trees, ends):
        with contextlib.suppress(ValueError):
            assert read(garbled) is not None
