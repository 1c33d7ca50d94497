"""One end of an Ethernet link by ethtool: modelled answers (tests/data/modelled/ethtool), and texts that are cut or garbled."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.drivers.answers import Source
from network.drivers.errors import UnreadableAnswer
from network.ethtool import link_end
from network.link_ends import LinkEnd, seen

FILES = Path(__file__).parents[1] / "data" / "modelled" / "ethtool"
SAID = {name: (FILES / f"{name}.txt").read_text() for name in ("link", "fec", "module", "statistics")}
NOTHING = dict.fromkeys(SAID, "")
SOURCE = Source("inl001", "read swp1")


def with_text(name: str, old: str, new: str) -> LinkEnd:
    assert old in SAID[name]
    return link_end({**SAID, name: SAID[name].replace(old, new)}, SOURCE)


def found(end: LinkEnd) -> list[str]:
    return list(seen(end, rate_gbps=200, raw_ber=2.4e-4, ber=1e-15))


def test_a_healthy_end_is_read_and_has_no_fault() -> None:
    end = link_end(SAID, SOURCE)
    assert (end.rate_gbps, end.lanes, end.fec) == (200, 4, "RS")
    assert (end.raw_ber, end.effective_ber) == (3e-9, 0)  # 6e6 of 2e15 bits
    assert end.rx_dbm == (0.49, -0.05, 0.05, -0.20)
    assert end.rx_range_dbm == (-9.4, 6.0)
    assert (found(end), end.unshown) == ([], ())


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("link", "Link detected: yes", "Link detected: no (No cable)", "is Down, no (No cable)"),
        ("link", "200000Mb/s", "100000Mb/s", "runs at 100 Gb/s, planned 200"),
        ("fec", "encoding: RS", "encoding: Off", "has no FEC (Off)"),
        ("module", "0.9876 mW / -0.05 dBm", "0.0000 mW / -inf dBm", "receives -inf dBm on lane 2"),
        ("statistics", "bits_phy: 6000000\n", "bits_phy: 600000000000\n", "error rate of 3.0e-04 before FEC"),
        ("statistics", "symbol_err_phy: 0", "symbol_err_phy: 8", "error rate of 4.0e-15 after FEC"),
    ],
)
def test_each_value_outside_its_limit_is_one_fault(name: str, old: str, new: str, words: str) -> None:
    (fault,) = found(with_text(name, old, new))
    assert words in fault


def test_lanes_of_25_gb_s_need_no_fec() -> None:
    said = NOTHING | {
        "link": SAID["link"].replace("200000Mb/s", "100000Mb/s"),
        "fec": SAID["fec"].replace("encoding: RS", "encoding: Off"),
    }
    assert list(seen(link_end(said, SOURCE), rate_gbps=100, raw_ber=2.4e-4, ber=1e-15)) == []


def test_what_a_driver_does_not_show_is_unshown_and_no_fault() -> None:
    end = link_end(NOTHING | {"link": SAID["link"].replace("\tLanes: 4\n", "")}, SOURCE)
    assert end.unshown == ("width", "FEC", "bit errors before FEC", "bit errors after FEC")
    assert found(end) == []


def test_text_of_something_else_is_refused_with_the_device() -> None:
    with pytest.raises(UnreadableAnswer, match="inl001"):
        link_end(NOTHING | {"link": "ethtool: exit status 75: No data available"}, SOURCE)
    with pytest.raises(UnreadableAnswer, match="nothing of fec, module, statistics"):
        link_end({"link": SAID["link"]}, SOURCE)


@given(st.sampled_from(sorted(SAID)), st.integers(0, 700), st.integers(0, 40), st.text(max_size=12))
def test_whatever_stands_there_is_read_or_refused(name: str, at: int, length: int, put: str) -> None:
    garbled = SAID[name][:at] + put + SAID[name][at + length :]
    with contextlib.suppress(UnreadableAnswer):
        found(link_end({**SAID, name: garbled}, SOURCE))
