"""Links by their ends, on modelled answers of mlxlink, ethtool, Prometheus and ibdiagnet."""

import copy
import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from capacity.model import Plan
from inventory.delivered.assets import load_assets
from inventory.site.sections.acceptance import Limit
from network.drivers.answers import Source
from network.drivers.credentials import SshCredentials
from network.drivers.errors import Unreachable
from network.infiniband.subnet import guid_book
from network.nos.sonic.databases import READ_AT, UNCORRECTED
from tests.plans import plan_of
from tests.validation import modelled_links
from validation import link_pairs
from validation.check import Outcome
from validation.checks import conftest
from validation.checks import test_links as links
from validation.facts import Answer, Facts
from validation.facts.shapes import machine_of
from validation.from_raw import FROM_RAW, Again

gather = import_module("validation.facts.gather")  # its function has the same name
NDR = (Path(__file__).parents[1] / "data/modelled/mlxlink/ndr.json").read_text()
SOURCE = Source("gpu001", "read facts: machine")


def with_limits(plan: Plan) -> Plan:
    given = {
        "link_ber_max": Limit(value=1e-15, unit="errors/bit", source="test"),
        "link_raw_ber_max": Limit(value=2.4e-4, unit="errors/bit", source="test"),
    }
    return dataclasses.replace(plan, site=plan.site.model_copy(update={"limits": {**plan.site.limits, **given}}))


ROCE = with_limits(plan_of("b200-256-roce"))
NAMES = links.names_of_devices(ROCE)
TEXT = NDR.replace("IB-NDR", "400G")


def facts(plan: Plan, text: str = TEXT, **texts: str) -> Facts:
    """Servers whose adapters all say the same, and of `texts` ({server: text}) rail0 another."""
    made = {}
    for host in plan.devices.loc[plan.devices["role"] == "gpu", "name"]:
        said = {f"rail{rail}": texts.get(host, text) if rail == 0 else text for rail in range(8)}
        machine = machine_of({"container": "", "errors": {}, "links": said}, SOURCE)
        made[host] = Answer(host, "ssh", data={"machine": machine})
    return Facts(nodes=made)


def judged(found: Facts, switch: str = "rol001") -> Outcome:
    return links.test_links_are_up_and_without_errors_for_long_enough(switch, ROCE, found, {}, NAMES, {}, {})


def test_links_as_planned_pass_and_the_time_is_named() -> None:
    outcome = judged(facts(ROCE))
    assert (outcome.passed, outcome.value) == (True, {"links": 32, "ends_of_switches": 0, "faults": 0})
    assert "7500 s" in outcome.detail


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXT.replace("LinkUp", "Polling"), "is Active, Polling"),
        (TEXT[:300], "cannot be read"),
        ("mlxlink: exit status 1", "cannot be read"),
    ],
)
def test_a_link_that_is_not_as_planned_is_named_with_both_ends(text: str, words: str) -> None:
    outcome = judged(facts(ROCE, gpu007=text))
    assert not outcome.passed
    assert outcome.detail.startswith("gpu007:rail0 (at rol001:swp4s0) ")
    assert words in outcome.detail


def test_a_server_that_was_not_read_fails_the_switch() -> None:
    found = facts(ROCE)
    lost = Answer("gpu003", "ssh", error="gpu003: no answer")
    outcome = judged(dataclasses.replace(found, nodes={**found.nodes, "gpu003": lost}))
    assert "gpu003:rail0 (at rol001:swp2s0) is not known: gpu003: no answer" in outcome.detail


def test_a_switch_without_adapters_is_skipped() -> None:
    with pytest.raises(pytest.skip.Exception, match="links between switches"):
        judged(facts(ROCE), "ros001")


def test_devices_of_an_infiniband_site_are_known_by_the_names_of_the_catalogue() -> None:
    plan = plan_of("lab")
    assert links.names_of_devices(plan)["gpu001"]["mlx5_3"] == "gpu001:ib3"


# -- both ends of each link --------------------------------------------------------------------------------------------
def answer(device: str, kind: str, **data: Any) -> Answer:
    return Answer(device, kind, data=data)


def ethernet() -> Facts:
    """A RoCE site whose ends all say that they are well."""
    servers = facts(ROCE)
    nodes = {}
    for host in ROCE.devices.loc[ROCE.devices["kind"] == "server", "name"]:
        machine = servers.nodes[host].data["machine"] if host in servers.nodes else {"container": "", "errors": {}}
        nodes[host] = answer(host, "ssh", machine={**machine, "ethtool": modelled_links.kernel(ROCE, host)})
    inband = ROCE.devices.loc[(ROCE.devices["kind"] == "switch") & (ROCE.devices["fabric"] == "inband"), "name"]
    switches = {
        name: answer(name, "ssh", machine={"container": "", "errors": {}, "ethtool": modelled_links.kernel(ROCE, name)})
        for name in inband
    }
    said = {"queries": {}, "series": modelled_links.telemetry_series(ROCE)}
    return Facts(nodes=nodes, switches=switches, telemetry={"mgm01": answer("mgm01", "prometheus", **said)})


WELL = ethernet()
INBAND_LEAF = ROCE.devices.loc[(ROCE.devices["fabric"] == "inband") & (ROCE.devices["role"] == "leaf"), "name"].iloc[0]


def paired(found: Facts, switch: str) -> Outcome:
    return links.test_both_ends_of_each_link_say_the_same(switch, ROCE, found, {}, NAMES, {})


def with_series(name: str, device: str, port: str, value: float | None) -> Facts:
    """The well site with another value of one series of a port; None takes it away."""
    found = copy.deepcopy(WELL.telemetry["mgm01"].data)
    if value is None:
        del found["series"][name][device][port]
    else:
        found["series"][name].setdefault(device, {})[port] = value
    return dataclasses.replace(WELL, telemetry={"mgm01": answer("mgm01", "prometheus", **found)})


def with_text(kind: str, device: str, port: str, **texts: str) -> Facts:
    """The well site with other words of ethtool at a port."""
    answers = dict(getattr(WELL, kind))
    data = copy.deepcopy(answers[device].data)
    data["machine"]["ethtool"][port].update(texts)
    changed: dict[str, Any] = {kind: {**answers, device: Answer(device, "ssh", data=data)}}
    return dataclasses.replace(WELL, **changed)


def test_both_ends_of_all_links_of_a_compute_leaf_are_compared_and_what_is_not_shown_is_said() -> None:
    outcome = paired(WELL, "rol001")
    assert outcome.passed, outcome.detail
    assert outcome.value == {"links": 64, "counters_alike": 64, "counters_began_anew": 0, "drops_s": 0.0, "faults": 0}
    assert "both ends of 64 links alike" in outcome.detail
    assert "FEC at 96 ends" in outcome.detail  # 64 of the leaf itself and 32 of spines: no driver shows it there


def test_both_ends_of_all_links_of_an_inband_leaf_are_compared_by_ethtool() -> None:
    outcome = paired(WELL, INBAND_LEAF)
    assert outcome.passed, outcome.detail
    assert "not shown" not in outcome.detail


def one_cable(switch: str) -> tuple[str, str, str]:
    """(port of the switch, server, port there) of its first cable to a server."""
    rows = link_pairs.cables_of(ROCE, switch)
    far, own = rows.loc[rows["b"].str.startswith(f"{switch}:"), ["a", "b"]].iloc[0]
    device, _, port = far.partition(":")
    return own.partition(":")[2], device, port


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"link": modelled_links.SAID["link"].replace("200000Mb/s", "50000Mb/s")}, "50 and 100 Gb/s"),
        (
            {"link": modelled_links.SAID["link"].replace("200000Mb/s\n\tLanes: 4", "100000Mb/s\n\tLanes: 2")},
            "2 and 4 lanes",
        ),
        ({"fec": modelled_links.SAID["fec"].replace("encoding: RS", "encoding: BaseR")}, "FEC BaseR and RS"),
        ({"module": modelled_links.SAID["module"].replace("0.49 dBm", "-14.2 dBm")}, "receives -14.2 dBm on lane 1"),
        ({"statistics": "rx_bits_phy: 1000000\nrx_corrected_bits_phy: 900\n"}, "9.0e-04 before FEC, limit 2.4e-04"),
        ({"link": "Link detected: no"}, "state Down, no and Up, LinkUp"),
        ({"link": "cut"}, "cannot be read"),
    ],
)
def test_an_end_that_is_otherwise_is_named_with_the_other(texts: dict[str, str], words: str) -> None:
    _, host, port = one_cable(INBAND_LEAF)
    outcome = paired(with_text("nodes", host, port, **texts), INBAND_LEAF)
    assert not outcome.passed
    assert f"{host}:{port}" in outcome.detail
    assert words in outcome.detail


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("node_sent", 8e9, "sends 64 Gb/s and"),
        ("node_received", 0.0, "receives 0 Gb/s"),
        ("node_errors", 7.5, "counts 7.5 errors a second"),
        ("node_sent", None, "counters of both ends are not known"),
        ("node_samples", 10, "a comparison takes"),
    ],
)
def test_counters_that_do_not_agree_are_named(name: str, value: float | None, words: str) -> None:
    _, host, port = one_cable(INBAND_LEAF)
    outcome = paired(with_series(name, host, port, value), INBAND_LEAF)
    assert not outcome.passed
    assert words in outcome.detail


def values(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome.value, dict)
    return outcome.value


def test_a_counter_that_began_anew_is_told_and_drops_are_summed() -> None:
    _, host, port = one_cable(INBAND_LEAF)
    outcome = paired(with_series("node_resets", host, port, 1), INBAND_LEAF)
    assert (outcome.passed, values(outcome)["counters_began_anew"]) == (True, 1)
    outcome = paired(with_series("node_drops", host, port, 2.5), INBAND_LEAF)
    assert (outcome.passed, values(outcome)["drops_s"]) == (True, 2.5)


def test_a_port_of_a_compute_switch_that_is_down_or_slow_is_named() -> None:
    own, host, port = one_cable("rol001")
    outcome = paired(with_series("switch_up", "rol001", own, 2), "rol001")
    assert f"{host}:{port} and rol001:{own}: state Active, LinkUp and Down, LinkDown" in outcome.detail
    outcome = paired(with_series("switch_mbps", "rol001", own, 200_000), "rol001")
    assert "400 and 200 Gb/s" in outcome.detail


def test_an_end_that_nobody_knows_and_a_telemetry_server_that_is_down_fail() -> None:
    own, *_ = one_cable("rol001")
    outcome = paired(with_series("switch_up", "rol001", own, None), "rol001")
    assert f"rol001:{own} is not known: neither mlxlink, ethtool nor the telemetry" in outcome.detail
    down = dataclasses.replace(WELL, telemetry={"mgm01": Answer("mgm01", "prometheus", error="mgm01: no answer")})
    assert "is not known: mgm01: no answer" in paired(down, "rol001").detail


def test_containers_have_no_links_to_compare() -> None:
    node = answer("gpu001", "ssh", machine={"container": "lxc", "errors": {}})
    with pytest.raises(pytest.skip.Exception, match="containers"):
        paired(Facts(nodes={"gpu001": node}), "rol001")


# -- on InfiniBand -----------------------------------------------------------------------------------------------------
LAB = with_limits(plan_of("lab"))
GUIDS = guid_book(load_assets(LAB.site))
VIEW = Facts.read(Path(__file__).parent / "data" / "healthy.json").subnets["mgm01"]
HOUR_OF_WORDS = 10**12


def infiniband(
    first: dict[str, Any] | None = None, again: dict[str, Any] | None = None
) -> tuple[Facts, dict[str, Any]]:
    """The lab's fabric as ibdiagnet would write it, at the begin of a run and an hour later."""
    times = ((0.0, 0), (3600.0, HOUR_OF_WORDS))
    made = [modelled_links.diagnosed(LAB, VIEW, GUIDS, began=began, words=words) for began, words in times]
    seen = dataclasses.replace(VIEW, data={**VIEW.data, "diagnosed": made[0] if first is None else first})
    return Facts(subnets={"mgm01": seen}), made[1] if again is None else again


def diagnosed_pair(found: Facts, again: dict[str, Any], switch: str = "ibl001") -> Outcome:
    return links.test_both_ends_of_each_link_say_the_same(switch, LAB, found, GUIDS, {}, again)


@pytest.mark.parametrize("switch", ["ibl001", "ibs001"])
def test_both_ends_of_infiniband_links_are_compared_between_switches_too(switch: str) -> None:
    outcome = diagnosed_pair(*infiniband(), switch)
    assert outcome.passed, outcome.detail
    assert values(outcome)["counters_alike"] == values(outcome)["links"] > 0
    assert "light at" in outcome.detail  # ibdiagnet is not asked for modules; adapters say it by mlxlink


def end_in(found: dict[str, Any], number: int = 0) -> str:
    """GUID/port of a port of ibl001 in what ibdiagnet wrote."""
    return sorted(one for one in found["ends"] if one.startswith(GUIDS["ibl001"]))[number]


def soaked_on_infiniband(
    began: float,
    errors: int = 0,
    raw_ber: float | None = 2e-9,
    again: Mapping[str, Any] | None = None,
    **first: int,
) -> Outcome:
    """The verdict on ibl001 by adapters that are well and two runs of ibdiagnet: from 0 s, and from `began` with so many symbol
    errors at its first port; `first` are counters of that port in the first run, `again` is another second run.
    """
    runs = [modelled_links.diagnosed(LAB, VIEW, GUIDS, began=at, words=0) for at in (0.0, began)]
    runs[0]["counters"][end_in(runs[0])] |= first
    runs[0]["ends"][end_in(runs[0])] |= {"raw_ber": raw_ber}
    runs[1]["counters"][end_in(runs[1])] |= {"symbol_errors": errors}
    names, text = links.names_of_devices(LAB), modelled_links.adapter("IB-HDR")
    nodes = {
        host: Answer(host, "ssh", data={"machine": machine_of({"container": "", "errors": {}, "links": said}, SOURCE)})
        for host, said in ((host, dict.fromkeys(devices, text)) for host, devices in names.items())
    }
    found = dataclasses.replace(infiniband(first=runs[0], again=runs[1])[0], nodes=nodes)
    judge = links.test_links_are_up_and_without_errors_for_long_enough
    outcome = judge("ibl001", LAB, found, GUIDS, names, runs[1] if again is None else again, {})
    assert outcome.raw is not None
    assert bool(FROM_RAW["S047.measured"](outcome.raw, "ibl001", LAB).problems) != outcome.passed
    return outcome


def test_ends_of_infiniband_switches_count_between_two_runs_of_ibdiagnet() -> None:
    well = soaked_on_infiniband(20_000)
    assert well.passed, well.detail
    # 4 ports to adapters and 1 to a subnet manager, 4 to spines with both ends
    assert well.value == {"links": 4, "ends_of_switches": 13, "faults": 0}


@pytest.mark.parametrize(
    ("began", "errors", "words"),
    [
        (5_002, 0, "has counted for 5000 s: 1.0e-15 takes 15000 s"),
        (20_002, 400, "has 400 wrong bits after FEC in 20000 s"),
    ],
)
def test_an_infiniband_end_that_counts_too_short_or_too_much_is_named(began: float, errors: int, words: str) -> None:
    outcome = soaked_on_infiniband(began, errors)
    assert not outcome.passed
    assert f"ibl001:{words}" in re.sub(r"ibl001:p\d+ ", "ibl001:", outcome.detail)


def test_errors_of_an_infiniband_end_count_without_a_bit_error_rate_before_fec() -> None:
    assert "has 400 wrong bits after FEC in 20000 s" in soaked_on_infiniband(20_002, 400, raw_ber=None).detail
    well = soaked_on_infiniband(20_002, raw_ber=None)
    assert well.passed, well.detail
    assert well.detail.endswith("; 13 ends of switches too; 1 ends of switches show no bit error rate before FEC")


def test_a_second_run_of_ibdiagnet_that_failed_is_named_with_the_switch() -> None:
    why = "mgm01: read facts: ibdiagnet: expected files, saw none; run ibdiagnet on the host by hand"
    outcome = soaked_on_infiniband(20_000, again={"error": why})
    assert not outcome.passed
    assert (
        outcome.detail == f"ibl001: errors were not read twice: {why}. Fix: remove the cause, then run the checks again"
    )


def test_a_counter_of_infiniband_that_was_cleared_gives_no_time() -> None:
    assert (
        "; 1 ends of switches do not show since when they count" in soaked_on_infiniband(20_000, symbol_errors=9).detail
    )


@pytest.mark.parametrize(
    ("part", "values", "words"),
    [
        ("ends", {"rate_gbps": 100.0, "lanes": 2}, "runs at 100 Gb/s, planned 200"),
        ("ends", {"fec": "FC_FEC"}, "FEC"),
        ("ends", {"raw_ber": 1e-3}, "has a bit error rate of 1.0e-03 before FEC, limit 2.4e-04"),
        ("ends", {"effective_ber": 1e-9}, "has a bit error rate of 1.0e-09 after FEC, limit 1.0e-15"),
        ("ends", {"state": "DOWN", "physical": "POLL"}, "is DOWN, POLL"),
    ],
)
def test_an_infiniband_end_that_is_otherwise_is_named(part: str, values: dict[str, Any], words: str) -> None:
    found, again = infiniband()
    diagnosed = copy.deepcopy(found.subnets["mgm01"].data["diagnosed"])
    diagnosed[part][end_in(diagnosed)].update(values)
    outcome = diagnosed_pair(*infiniband(first=diagnosed, again=again))
    assert not outcome.passed
    assert "ibl001:" in outcome.detail
    assert words in outcome.detail


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"sent": HOUR_OF_WORDS // 2}, "sends 4.44 Gb/s"),
        ({"symbol_errors": 36_000_000}, "counts 1e+04 errors a second"),
    ],
)
def test_infiniband_counters_that_do_not_agree_are_named(values: dict[str, int], words: str) -> None:
    found, again = infiniband()
    again = copy.deepcopy(again)
    again["counters"][end_in(again)].update(values)
    outcome = diagnosed_pair(found, again)
    assert not outcome.passed
    assert words in outcome.detail


def test_counters_that_were_cleared_between_two_readings_are_not_compared() -> None:
    found, again = infiniband()
    diagnosed = copy.deepcopy(found.subnets["mgm01"].data["diagnosed"])
    diagnosed["counters"][end_in(diagnosed)]["sent"] = 2 * HOUR_OF_WORDS
    outcome = diagnosed_pair(*infiniband(first=diagnosed, again=again))
    assert "counters were cleared between two readings. Fix: run the checks again" in outcome.detail


def test_readings_too_close_together_say_how_long_it_takes() -> None:
    found, _ = infiniband()
    again = modelled_links.diagnosed(LAB, VIEW, GUIDS, began=30.0, words=0)
    assert "counted for 30 s, a comparison takes 80 s" in diagnosed_pair(found, again).detail


@pytest.mark.parametrize(
    ("first", "again", "words"),
    [
        ({"error": "mgm01: ibdiagnet is not installed"}, {}, "is not known: mgm01: ibdiagnet is not installed"),
        (None, {"error": "mgm01: no answer"}, "counters were read once: mgm01: no answer"),
    ],
)
def test_an_ibdiagnet_that_says_nothing_fails_with_its_reason(
    first: dict[str, Any] | None, again: dict[str, Any], words: str
) -> None:
    assert words in diagnosed_pair(*infiniband(first=first, again=again)).detail


def test_a_second_run_waits_until_a_comparison_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(conftest, "node_credentials", lambda site: SshCredentials("root", Path("key"), Path("hosts")))
    monkeypatch.setattr(conftest, "diagnosed", lambda host, budget_s, **how: asked.update(how, host=host.name) or {})
    found, _ = infiniband()
    conftest.diagnose_again(LAB, found)
    assert (asked["host"], asked["options"]) == ("mgm01", ())
    assert asked["not_before"] == pytest.approx(80)  # two runs of 2 s are 5 % of it
    lost = dataclasses.replace(VIEW, data={**VIEW.data, "diagnosed": {"error": "none"}})
    assert conftest.diagnose_again(LAB, Facts(subnets={"mgm01": lost})) == {"error": "none"}


# ---- switches whose driver tells of links ----------------------------------------------------------------------------
SONIC = dataclasses.replace(
    ROCE,
    site=ROCE.site.model_copy(update={"fabric": ROCE.site.fabric.model_copy(update={"nos": "sonic"})}),
)


def by_databases(**changed: str) -> Facts:
    """The well site whose compute switches run SONiC; `changed` fields at the first port of rol001."""
    rows: dict[str, dict[str, dict[str, str]]] = {}
    for end, rate in modelled_links.ports(SONIC, "compute").items():
        device, _, port = end.partition(":")
        rows.setdefault(device, {})[port] = modelled_links.database_row(rate)
    rows["rol001"][one_cable("rol001")[0]] |= changed
    return dataclasses.replace(
        WELL, roce_switches={name: answer(name, "ssh", ends=ends) for name, ends in rows.items() if name[:2] == "ro"}
    )


def test_ends_of_switches_with_sonic_show_all_that_is_judged() -> None:
    outcome = links.test_both_ends_of_each_link_say_the_same("rol001", SONIC, by_databases(), {}, NAMES, {})
    assert outcome.passed, outcome.detail
    assert "not shown" not in outcome.detail
    assert outcome.raw is not None
    assert link_pairs.judge(SONIC, "rol001", json.loads(outcome.raw)).value == outcome.value


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("fec", "none", "FEC"),
        ("FEC_PRE_BER", "1e-3", "1.0e-03 before FEC, limit 2.4e-04"),
        ("FEC_POST_BER", "1e-9", "1.0e-09 after FEC"),
        ("rx2power", "-14.2", "receives -14.2 dBm on lane 2"),
        ("speed", "200000", "runs at 200 Gb/s, planned 400"),
        ("oper_status", "down", "is Down, LinkDown"),
        ("speed", "fast", "cannot be read"),
    ],
)
def test_what_a_database_shows_that_is_wrong_is_named_at_its_end(field: str, value: str, words: str) -> None:
    found = by_databases(**{field: value})
    outcome = links.test_both_ends_of_each_link_say_the_same("rol001", SONIC, found, {}, NAMES, {})
    assert not outcome.passed
    assert f"rol001:{one_cable('rol001')[0]}" in outcome.detail
    assert words in outcome.detail


NVUE = {
    "oper-status": "up",
    "fec": "rs",
    "raw-ber": "3E-6",
    "effective-ber": "15E-255",
    "effective-errors": "0",
    "time-since-last-clear-min": "395",
}


def by_nvue(end: str = "", **changed: str) -> Facts:
    """The site with adapters and Cumulus Linux well; `changed` fields at one end of a switch."""
    rows: dict[str, dict[str, dict[str, str]]] = {}
    for name, rate in modelled_links.ports(ROCE, "compute").items():
        device, _, port = name.partition(":")
        if device[:2] == "ro":
            row = {**NVUE, "speed": f"{rate:.0f}G"}
            rows.setdefault(device, {})[port] = {**row, **changed} if name == end else row
    return dataclasses.replace(
        facts(ROCE), roce_switches={name: answer(name, "https", ends=ends) for name, ends in rows.items()}
    )


def trunk_of(switch: str) -> tuple[str, str]:
    """Both ends of a cable of this leaf to a spine."""
    cables = ROCE.cables[(ROCE.cables["stage"] == "leaf-spine") & (ROCE.cables["a_device"] == switch)]
    row = cables.iloc[0]
    return f"{row['a_device']}:{row['a_port']}", f"{row['b_device']}:{row['b_port']}"


def test_ends_of_switches_with_cumulus_linux_have_counted_for_as_long() -> None:
    outcome = judged(by_nvue())
    # 32 cables to servers have one end at a switch, 32 to spines have two
    assert (outcome.passed, outcome.value) == (True, {"links": 32, "ends_of_switches": 96, "faults": 0})
    assert outcome.raw is not None
    assert FROM_RAW["S047.measured"](outcome.raw, "rol001", ROCE) == Again(outcome.value, [])


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("time-since-last-clear-min", "60", "has counted for 3600 s: 1.0e-15 takes 7500 s"),
        ("effective-errors", "400", "has 400 wrong bits after FEC"),
        ("raw-ber", "1E-3", "1.0e-03 before FEC"),
        ("speed", "200G", "runs at 200 Gb/s, planned 400"),
        ("oper-status", "down", "is Down, LinkDown"),
        ("speed", "fast", "cannot be read"),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_an_end_of_a_trunk_that_is_not_well_for_long_enough_is_named(
    field: str, value: str, words: str, side: int
) -> None:
    end = trunk_of("rol001")[side]
    outcome = judged(by_nvue(end, **{field: value}))
    assert not outcome.passed
    assert outcome.detail.startswith(f"{end} ")
    assert words in outcome.detail
    assert outcome.raw is not None
    assert len(FROM_RAW["S047.measured"](outcome.raw, "rol001", ROCE).problems) == 1


def test_errors_of_an_end_count_without_a_bit_error_rate_before_fec() -> None:
    end = trunk_of("rol001")[1]
    outcome = judged(by_nvue(end, **{"raw-ber": "N/A", "effective-errors": "400"}))
    assert not outcome.passed
    assert outcome.detail.startswith(f"{end} has 400 wrong bits after FEC")
    assert outcome.raw is not None
    assert len(FROM_RAW["S047.measured"](outcome.raw, "rol001", ROCE).problems) == 1


def test_ends_that_do_not_show_since_when_they_count_are_said_and_judged_by_what_they_show() -> None:
    well = soaked(by_databases(), {})
    assert well.passed
    assert "96 ends of switches do not show since when they count" in well.detail
    found = by_databases(FEC_POST_BER="1e-9")
    assert "1.0e-09 after FEC" in soaked(found, {}).detail


def soaked(found: Facts, later: Mapping[str, Mapping[str, Any]]) -> Outcome:
    judge = links.test_links_are_up_and_without_errors_for_long_enough
    outcome = judge("rol001", SONIC, found, {}, NAMES, {}, later)
    assert outcome.raw is not None
    assert bool(FROM_RAW["S047.measured"](outcome.raw, "rol001", SONIC).problems) != outcome.passed
    return outcome


def counting(count: int, at_s: int) -> dict[str, str]:
    """What the ends of switches with SONiC count at a moment."""
    return {UNCORRECTED: str(count), READ_AT: str(1_764_000_000 + at_s), "last_up_time": "Mon Nov 24 10:00:00 2025"}


Later = dict[str, dict[str, Any]]
"""Second readings, as gather.link_ends_again gives them."""


def read_twice(
    seconds: int,
    count: int = 4,
    before: int = 4,
    change: Callable[[Later], object] = lambda later: None,
    **changed: str,
) -> Outcome:
    """The verdict on SONiC's ends with so many errors from `before`, read again after so many seconds. `change` changes what was
    read then.
    """
    found = by_databases(**changed)
    ends = {name: one.data["ends"] for name, one in found.roce_switches.items()}
    rows = {name: {port: {**row, **counting(before, 0)} for port, row in ports.items()} for name, ports in ends.items()}
    later: Later = {
        name: {"ends": {port: {**row, **counting(count, seconds)} for port, row in rows[name].items()}} for name in rows
    }
    change(later)
    first = {name: answer(name, "ssh", ends=ports) for name, ports in rows.items()}
    return soaked(dataclasses.replace(found, roce_switches=first), later)


def test_ends_of_sonic_count_between_two_readings() -> None:
    long_enough = read_twice(9000)
    assert (long_enough.passed, long_enough.value) == (True, {"links": 32, "ends_of_switches": 96, "faults": 0})
    assert "do not show since when they count" not in long_enough.detail
    assert "has counted for 600 s: 1.0e-15 takes 7500 s" in read_twice(600).detail
    assert "has 396 wrong bits after FEC in 9000 s" in read_twice(9000, count=400).detail
    assert "has 400 wrong bits after FEC in 9000 s" in read_twice(9000, count=400, before=0).detail


def test_an_end_whose_bit_errors_nobody_polls_is_judged_by_what_it_counts() -> None:
    outcome = read_twice(9000, FEC_PRE_BER="N/A")
    assert outcome.passed, outcome.detail
    assert outcome.detail.endswith("; 96 ends of switches too; 1 ends of switches show no bit error rate before FEC")
    assert "has 396 wrong bits after FEC in 9000 s" in read_twice(9000, count=400, FEC_PRE_BER="N/A").detail


def test_a_switch_that_cannot_be_read_again_is_named_once_with_what_to_do() -> None:
    spine = trunk_of("rol001")[1].partition(":")[0]
    why = f"{spine}: connect: expected an SSH server, saw none; look at its power"
    outcome = read_twice(9000, change=lambda later: later.update({spine: {"ends_error": why}}))
    assert not outcome.passed
    assert (
        outcome.detail
        == f"{spine}: errors were not read twice: {why}. Fix: remove the cause, then run the checks again"
    )


def test_a_switch_whose_ends_could_not_be_read_at_first_is_named() -> None:
    spine = trunk_of("rol001")[1].partition(":")[0]
    why = f"{spine}: read links: expected JSON, saw '<'; look at its system"
    found = by_databases()
    found = dataclasses.replace(
        found, roce_switches={**found.roce_switches, spine: answer(spine, "ssh", ends_error=why)}
    )
    outcome = soaked(found, {})
    assert not outcome.passed
    assert (
        outcome.detail
        == f"{spine}: errors were not read twice: {why}. Fix: remove the cause, then run the checks again"
    )


def test_an_end_that_is_gone_at_the_second_reading_is_named() -> None:
    end = trunk_of("rol001")[1]
    device, _, port = end.partition(":")
    outcome = read_twice(9000, change=lambda later: later[device]["ends"].pop(port))
    assert not outcome.passed
    assert outcome.detail.startswith(f"{end}: errors were not read twice: {device} did not name it the second time")


def test_a_link_that_went_down_during_the_run_is_named() -> None:
    end = trunk_of("rol001")[1]
    device, _, port = end.partition(":")
    came_up = {"last_up_time": "Mon Nov 24 22:00:00 2025"}
    outcome = read_twice(9000, change=lambda later: later[device]["ends"][port].update(came_up))
    assert not outcome.passed
    assert outcome.detail == f"{end} went down during the run"


def test_ends_of_sonic_are_read_again_and_a_switch_that_does_not_answer_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Spoken:
        def __init__(self, name: str, *_: object, **more: object) -> None:
            self.name = name

        def __enter__(self) -> "Spoken":
            if self.name == "rol002":
                raise Unreachable(self.name, "connect", "an SSH server", "none", "look at its power")
            return self

        def __exit__(self, *_: object) -> None:
            """Nothing is open."""

        def link_ends(self, ports: list[str]) -> dict[str, dict[str, str]]:
            return {port: {"oper_status": "up"} for port in ports}

    monkeypatch.setattr("network.push.switch_https_credentials", lambda site: None)
    made = gather.compute_targets(ROCE)
    monkeypatch.setattr(gather, "driver", lambda system: {"sonic": Spoken}[system])
    monkeypatch.setattr(gather, "compute_targets", lambda *_, only: [one for one in made if one.name in only])
    found = gather.link_ends_again(SONIC, by_databases())
    assert set(found) == set(by_databases().roce_switches)
    assert set(found["rol001"]["ends"]) == set(by_databases().roce_switches["rol001"].data["ends"])
    assert found["rol002"] == {"ends_error": "rol002: connect: expected an SSH server, saw none; look at its power"}
    assert gather.link_ends_again(ROCE, by_nvue()) == {}
