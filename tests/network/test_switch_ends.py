"""Ends of links by SONiC's databases, read into what every tool says of an end."""

import pytest

from network import link_ends
from network.drivers.answers import Source
from network.drivers.errors import UnreadableAnswer
from network.nos.sonic.databases import READ_AT, UNCORRECTED
from network.switch_ends import again, cumulus, eos, sonic

SOURCE = Source("rol001", "read ends of links")
ROW = {
    "oper_status": "up",
    "speed": "400000",
    "lanes": "9,10,11,12",
    "fec": "rs",
    "rx1power": "0.3802",
    "rx2power": "-0.4871",
    "rx10power": "-20.5",
    "rxpowerlowalarm": "-13.5067",
    "rxpowerhighalarm": "3.4001",
    "FEC_PRE_BER": "1.48e-20",
    "FEC_POST_BER": "0.00e+00",
}


def test_an_end_is_read_whole():
    end = sonic(ROW, SOURCE)
    assert (end.rate_gbps, end.lanes, end.fec, end.raw_ber, end.effective_ber) == (400.0, 4, "rs", 1.48e-20, 0.0)
    assert (end.rx_dbm, end.rx_range_dbm, end.unshown) == ((0.3802, -0.4871, -20.5), (-13.5067, 3.4001), ())
    assert link_ends.end_is_up(end)


def test_what_is_wrong_with_it_is_said_in_the_same_words():
    low = sonic({**ROW, "FEC_PRE_BER": "1e-3", "fec": "none"}, SOURCE)
    said = list(link_ends.seen(low, rate_gbps=400, raw_ber=2.4e-4, ber=1e-15))
    assert [one.split(" ")[0:3] for one in said] == [
        ["has", "no", "FEC"],
        ["has", "a", "bit"],
        ["receives", "-20.5", "dBm"],
    ]


def test_copper_and_an_end_without_polling_show_less_and_no_fault():
    end = sonic({"oper_status": "up", "speed": "400000", "lanes": "1,2,3,4", "fec": "N/A", "rx1power": "N/A"}, SOURCE)
    assert (end.fec, end.rx_dbm, end.raw_ber) == ("", (), None)
    assert end.unshown == ("FEC", "bit errors before FEC", "bit errors after FEC")


def test_a_port_that_is_down_has_no_rate():
    end = sonic({**ROW, "oper_status": "down"}, SOURCE)
    assert (link_ends.end_is_up(end), end.rate_gbps) == (False, 0.0)


def test_no_light_is_below_any_alarm():
    end = sonic({**ROW, "rx1power": "-inf"}, SOURCE)
    assert end.rx_dbm[0] == float("-inf")


NOW = 1764020000
UP = {"last_up_time": "Mon Nov 24 16:00:00 2025"}
"""1764000000 seconds after 1970, 20,000 before NOW."""


def counted(count: int, at: int, **more: str) -> dict[str, str]:
    return {**ROW, **UP, UNCORRECTED: str(count), READ_AT: str(at), **more}


@pytest.mark.parametrize(
    ("first", "second", "errors", "counted_s"),
    [
        (counted(0, NOW), None, 0, 20_000),
        (counted(4, NOW), None, 4, None),
        (counted(0, NOW), counted(0, NOW + 600), 0, 20_600),
        (counted(4, NOW), counted(4, NOW + 9000), 0, 9000),
        (counted(4, NOW), counted(7, NOW + 9000), 3, 9000),
        (counted(0, NOW), counted(3, NOW + 9000), 3, 9000),
        (counted(4, NOW), counted(4, NOW + 9000, last_up_time="Mon Nov 24 22:00:00 2025"), 4, None),
        (counted(4, NOW), counted(1, NOW + 9000), 1, None),
        (ROW, ROW, None, None),
        ({**ROW, UNCORRECTED: "0", READ_AT: str(NOW)}, None, 0, None),
    ],
)
def test_an_end_of_sonic_counts_since_its_link_is_up_or_between_two_readings(first, second, errors, counted_s):
    end = sonic(again(first, second) if second else first, SOURCE)
    assert (end.errors, end.counted_s) == (errors, counted_s)


@pytest.mark.parametrize(
    ("later", "went_down"),
    [
        ({}, False),
        ({"last_up_time": "Mon Nov 24 22:00:00 2025"}, True),
        ({"oper_status": "down"}, True),
    ],
)
def test_a_link_of_sonic_that_went_down_between_two_readings_is_a_fault(later, went_down):
    end = sonic(again(counted(0, NOW), counted(0, NOW + 9000, **later)), SOURCE)
    for judge_end in (link_ends.faults, link_ends.seen):
        said = list(judge_end(end, rate_gbps=400, raw_ber=2.4e-4, ber=1e-15))
        assert ("went down during the run" in said) == went_down


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ("oper_status", "oper_status"),
        (UNCORRECTED, f"{UNCORRECTED}: nothing the second time"),
        (READ_AT, f"{READ_AT}: nothing the second time"),
        ("last_up_time", "last_up_time: nothing the second time"),
    ],
)
@pytest.mark.parametrize("said", [None, "", "N/A"])
def test_a_second_reading_that_lacks_what_the_first_one_has_is_an_error_that_names_the_switch(lost, words, said):
    second = {name: value for name, value in counted(4, NOW + 9000).items() if name != lost}
    second |= {} if said is None else {lost: said}
    with pytest.raises(UnreadableAnswer, match=f"rol001.*{words}"):
        sonic(again(counted(4, NOW), second), SOURCE)


@pytest.mark.parametrize("wrong", [{"last_up_time": "yesterday"}, {UNCORRECTED: "many"}, {READ_AT: "noon"}])
def test_a_garbled_time_of_sonic_is_an_error_that_names_the_switch(wrong):
    with pytest.raises(UnreadableAnswer, match="rol001"):
        sonic({**counted(0, NOW), **wrong}, SOURCE)


@pytest.mark.parametrize(
    "wrong", [{"oper_status": ""}, {"speed": "fast"}, {"FEC_PRE_BER": "1e9999"}, {"rx1power": "0.1; 2"}]
)
def test_a_garbled_end_is_an_error_that_names_the_switch(wrong):
    with pytest.raises(UnreadableAnswer, match="rol001"):
        sonic({**ROW, **wrong}, SOURCE)


ARISTA = {
    "lineProtocolStatus": "up",
    "bandwidth": "400000000000",
    "lanes": "4",
    "preFecBer": "5.378509864228316e-10",
    "rxPower1": "-1.46",
    "rxPower2": "-40.3",
    "lowAlarm": "-13.3",
    "highAlarm": "4.5",
}


def test_an_end_of_eos_is_read_and_says_what_it_does_not_show():
    end = eos(ARISTA, SOURCE)
    assert (end.rate_gbps, end.lanes, end.raw_ber, end.rx_dbm) == (400.0, 4, 5.378509864228316e-10, (-1.46, -40.3))
    assert end.unshown == ("FEC", "bit errors after FEC")
    said = list(link_ends.seen(end, rate_gbps=400, raw_ber=2.4e-4, ber=1e-15))
    assert said == ["receives -40.3 dBm on lane 2, the module allows -13.3 to 4.5"]
    assert eos({**ARISTA, "lineProtocolStatus": "lowerLayerDown"}, SOURCE).rate_gbps == 0.0


@pytest.mark.parametrize(("since_up_s", "since_error_s", "counted_s"), [(20_000, NOW, 20_000), (20_000, 500, 500)])
def test_an_end_of_eos_is_without_error_since_its_link_is_up_or_since_the_last_one(
    since_up_s, since_error_s, counted_s
):
    times = {
        "lastStatusChange": str(NOW - since_up_s),
        "lastUncorrected": str(NOW - since_error_s),
        "counterRefresh": f"{NOW}.0",
    }
    end = eos({**ARISTA, "fec": "reedSolomon", "rxPower2": "-1", **times}, SOURCE)
    assert (end.errors, end.counted_s, end.unshown) == (0, counted_s, ())
    said = list(link_ends.faults(end, rate_gbps=400, raw_ber=2.4e-4, ber=1e-15))
    assert [one for one in said if "has counted for" in one] == said
    assert bool(said) == (counted_s < 7500)
    assert link_ends.kind_of_fec(end.fec) == "RS"
    assert eos({**ARISTA, **times, "lastUncorrected": "N/A"}, SOURCE).counted_s is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"lineProtocolStatus": ""},
        {"bandwidth": "fast"},
        {"preFecBer": "unreadable"},
        {"lastUncorrected": "never", "lastStatusChange": "1", "counterRefresh": "2"},
    ],
)
def test_a_garbled_end_of_eos_is_an_error_that_names_the_switch(wrong):
    with pytest.raises(UnreadableAnswer, match="rol001"):
        eos({**ARISTA, **wrong}, SOURCE)


NVUE = {
    "oper-status": "up",
    "speed": "400G",
    "fec": "rs",
    "raw-ber": "3E-6",
    "effective-ber": "15E-255",
    "effective-errors": "0",
    "time-since-last-clear-min": "395",
}


def test_an_end_of_cumulus_linux_is_read_with_the_time_that_it_has_counted():
    end = cumulus(NVUE, SOURCE)
    assert (end.rate_gbps, end.fec, end.raw_ber, end.errors, end.counted_s) == (400.0, "rs", 3e-6, 0, 395 * 60)
    assert end.unshown == ("width",)
    assert list(link_ends.faults(end, rate_gbps=400, raw_ber=2.4e-4, ber=1e-15)) == []
    assert cumulus({**NVUE, "fec": "auto"}, SOURCE).fec == ""
    assert cumulus({"oper-status": "down"}, SOURCE).rate_gbps == 0.0


@pytest.mark.parametrize(
    "wrong", [{"oper-status": ""}, {"speed": "auto"}, {"raw-ber": "low"}, {"effective-errors": "-"}]
)
def test_a_garbled_end_of_cumulus_linux_is_an_error_that_names_the_switch(wrong):
    with pytest.raises(UnreadableAnswer, match="rol001"):
        cumulus({**NVUE, **wrong}, SOURCE)
