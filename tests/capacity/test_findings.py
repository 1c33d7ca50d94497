"""Each mistake that a valid site file can hold raises its finding, with the right subject, and no other error."""

import copy
import datetime
from ipaddress import IPv4Network
from typing import Any

import pandas as pd
import pytest

from capacity.build import build
from capacity.kept import Kept
from capacity.outputs.report import buying
from capacity.power.rack import psus
from capacity.power.rack.circuits import rating_below_a
from inventory.catalog import load_catalog
from inventory.findings import Finding
from inventory.site import Site, load_site
from inventory.site.sections.power import RackCircuit
from inventory.site.whatif import changed
from network.wiring import inband
from tests.capacity.sites import variant
from tests.findings import names, offers, only, values

pytestmark = pytest.mark.usefixtures("stages_kept")


def errors(name: str, **sections: dict[str, Any]) -> dict[str, str]:
    """Ids and subjects of the error findings of a site variant."""
    return {f.id: f.subject for f in build(variant(name, **sections)).findings if f.severity == "error"}


def psu(site: str = "lab", **values: Any) -> dict[str, Any]:
    return {"psu": variant(site).server.supplies.model_copy(update=values)}


CASES: list[tuple[str, str, dict[str, dict[str, Any]], dict[str, str]]] = [
    ("too few uplinks", "h100-1000-ib", {"fabric": {"leaf_uplinks": 16}}, {"FABRIC-BISECTION": "fabric/leaf"}),
    ("radix too small", "lab", {"fabric": {"leaf_uplinks": 6}}, {"FABRIC-RADIX": "fabric"}),
    ("too many endpoints", "h100-1000-ib", {"fabric": {"tiers": 2}}, {"FABRIC-TIERS": "fabric"}),
    ("more spines than uplinks", "h100-1000-ib", {"fabric": {"least_spines": 40}}, {"FABRIC-SPINES": "fabric"}),
    ("room too small", "h100-1000-ib", {"room": {"rows": 5}}, {"SPACE-ROOM": "room"}),
    ("floor too weak", "lab", {"room": {"floor_load_kg_m2": 700.0}}, {"SPACE-FLOOR-LOAD": "r01"}),
    (
        "breaker too small",
        "lab",
        {"power": {"rack_circuit": RackCircuit(breaker_a=40.0, phases=3)}},
        {"POWER-CIRCUIT": "cb-r02-a"},
    ),
    (
        "cables too long",
        "h100-1000-ib",
        {"room": {"row_pitch_m": 20.0, "width_m": 600.0, "rows": 30, "racks_per_row": 20}},
        {"CABLE-REACH": "", "CABLE-CAGE": "ctl02:ib0"},
    ),
    (
        "no plug fits the cages",
        "lab",
        {"fabric": {"switch_model": "nvidia-qm9700"}},
        {"CABLE-CAGE": "", "COOLING-RACK-AIR": "r02", "POWER-PHASE-LOAD": "cb-r0"},
    ),
    ("management ports", "h100-1000-ib", {"oob": {"switches": 40}}, {"OOB-PORTS": "oob.switches"}),
]


@pytest.mark.parametrize(("site", "changes", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_mistake_raises_its_finding(site: str, changes: dict[str, dict[str, Any]], expected: dict[str, str]) -> None:
    found = errors(site, **changes)
    assert set(found) == set(expected)
    for key, subject in expected.items():
        assert found[key].startswith(subject)


def test_supplies_that_cannot_carry_the_server_are_refused() -> None:
    found = errors("lab", server=psu(rating_w=3000.0)).keys()
    assert found == {"POWER-PSU-REDUNDANCY", "POWER-FEED-LOSS", "POWER-FAILURE"}


def test_loss_of_a_feed_is_judged_on_the_split_of_the_supplies() -> None:
    server = psu("b200-256-roce", split_by_feed={"A": 3, "B": 2, "C": 1})
    findings = [f for f in build(variant("b200-256-roce", server=server)).findings if f.id == "POWER-FEED-LOSS"]
    assert [f.subject for f in findings] == ["nvidia-dgx-b200/A"]
    assert findings[0].numbers["left_w"] == 3 * 3300
    assert findings[0].err == "ERR-05"


def test_four_servers_of_nameplate_power_do_not_fit_a_60_a_circuit_with_two_feeds() -> None:
    found = errors("lab", rack={"servers": 4, "power_limit_kw": 60.0})
    assert found == {"POWER-CIRCUIT": "cb-r01-a", "COOLING-RACK-AIR": "r01"}


def test_a_cord_that_cannot_carry_its_supply_is_refused() -> None:
    found = build(variant("lab", power={"voltage_v": 400.0})).findings
    cord = next(f for f in found if f.id == "POWER-CORD")
    assert (cord.subject, cord.err) == ("lab-gpu-node", "ERR-16")


def test_a_supply_outside_its_input_voltage_is_refused() -> None:
    found = errors("lab", power={"voltage_v": 208.0})
    assert "POWER-VOLTAGE" in found


def test_a_prefix_that_is_too_small_names_what_does_not_fit() -> None:
    found = errors("lab", addressing={"provisioning": IPv4Network("10.77.1.0/28")})
    assert found == {"ADDRESSING-EXHAUSTED": "addressing/provisioning"}


@pytest.mark.parametrize("key", ["oob", "provisioning", "loopbacks", "links"])
def test_the_prefix_length_that_is_named_holds_all_addresses_and_a_longer_one_does_not(key: str) -> None:
    """One finding for a prefix, whatever shares it."""

    def short(prefix: IPv4Network) -> list[Finding]:
        plan = build(variant("lab", addressing={key: prefix}))
        return [f for f in plan.findings if f.id == "ADDRESSING-EXHAUSTED"]

    (found,) = short(IPv4Network("10.77.8.0/31"))
    larger = IPv4Network(found.remedies[0].settings[f"addressing.{key}"])
    assert names(found, f"/{larger.prefixlen}")
    assert short(larger) == []
    assert short(IPv4Network(f"10.77.8.0/{larger.prefixlen + 1}"))


def test_a_larger_prefix_that_would_overlap_another_one_is_named_by_its_length_alone() -> None:
    plan = build(
        variant("lab", addressing={"oob": IPv4Network("10.77.8.0/31"), "loopbacks": IPv4Network("10.77.8.16/28")})
    )
    (found,) = [f for f in plan.findings if f.id == "ADDRESSING-EXHAUSTED"]
    assert [one.settings for one in found.remedies] == [{}]
    assert names(found, "addressing.oob")


def test_a_slower_profile_than_nameplate_is_a_warning() -> None:
    found = {f.id: f.severity for f in build(variant("lab", power={"profile": "measured"})).findings}
    assert found["POWER-PROFILE"] == "warning"


def test_an_oversubscription_that_the_site_allows_is_information() -> None:
    found = {f.id: f.severity for f in build(variant("lab", fabric={"bisection": 0.5})).findings}
    assert found["FABRIC-OVERSUBSCRIBED"] == "info"


def test_a_feed_that_carries_more_than_its_share_is_a_warning() -> None:
    limits = dict(variant("lab").limits)
    limits["pdu_load_pct"] = limits["pdu_load_pct"].model_copy(update={"value": 20.0})
    site = variant("lab").model_copy(update={"limits": limits})
    assert "POWER-PDU-LOAD" in {f.id for f in build(site).findings if f.severity == "warning"}


def test_a_quote_older_than_the_order_it_needs_is_late() -> None:
    found = build(variant("lab", schedule={"need_date": datetime.date(2027, 6, 1)})).findings
    assert [(f.subject, f.severity) for f in found if f.id == "SCHEDULE-LATE"] == [("leadtimes.gpu", "warning")]


@pytest.mark.parametrize("name", ["h100-1000-ib", "b200-256-roce"])
def test_every_order_that_the_buying_page_calls_too_late_is_a_finding(name: str) -> None:
    plan = build(load_site(name) if name == "h100-1000-ib" else changed(name, ["schedule.need_date=2028-03-01"]))
    late = {row["item"] for row in buying.order_rows(plan) if row["state"] == "bad"}
    found = [f for f in plan.findings if f.id == "SCHEDULE-LATE"]
    assert len(found) == len(late)
    assert all(any(names(f, item) for f in found) for item in late)
    assert {"generator", "switchgear", "ups", "cooling"} <= late


def test_the_lead_time_that_a_late_order_names_resolves_it() -> None:
    plan = build(changed("b200-256-roce", ["schedule.need_date=2028-03-01"]))
    late = [f for f in plan.findings if f.id == "SCHEDULE-LATE"]
    can = [f for f in late if f.remedies[0].settings.keys() & {f"{f.subject}.max_weeks"}]
    shorter = [f"{key}={value}" for f in can for key, value in f.remedies[0].settings.items()]
    assert len(late) > 3
    assert can
    after = build(changed("b200-256-roce", ["schedule.need_date=2028-03-01", *shorter]))
    still = {f.subject for f in after.findings if f.id == "SCHEDULE-LATE"}
    assert not still & {f.subject for f in can}


def test_a_late_order_is_not_told_to_be_delivered_in_less_than_the_shortest_lead_time() -> None:
    site = changed("b200-256-roce", ["schedule.need_date=2027-06-01"])
    late = [f for f in build(site).findings if f.id == "SCHEDULE-LATE"]
    assert late
    for found in late:
        lead = site.leadtimes[found.subject.removeprefix("leadtimes.")]
        assert all(weeks >= lead.min_weeks for weeks in values(found, f"{found.subject}.max_weeks"))
        assert not values(found, f"{found.subject}.min_weeks")
    assert any(not values(f, f"{f.subject}.max_weeks") for f in late)


def test_the_need_date_that_a_late_order_names_mends_it() -> None:
    plan = build(changed("b200-256-roce", ["schedule.need_date=2028-03-01"]))
    late = next(f for f in plan.findings if f.id == "SCHEDULE-LATE")
    (day,) = values(late, "schedule.need_date")
    assert "SCHEDULE-LATE" not in {
        f.id for f in build(changed("b200-256-roce", [f"schedule.need_date={day}"])).findings
    }


def test_a_cage_whose_cables_would_need_two_plugs_is_named() -> None:
    """With a table of copper to 8 m and optics from 9 m, a cage with a near and a far end has no part for both."""
    catalog = copy.copy(load_catalog())
    table = catalog.media("linkx-400g")
    kept = [part for part in table.parts if part.rate_gbps != 400]
    optic = next(part for part in table.parts if part.part == "mmf-400g-sr4-50m")
    near = optic.model_copy(update={"part": "near", "reach_m": 8})
    far = optic.model_copy(update={"part": "far", "min_m": 8.001})
    catalog.media_tables = {**catalog.media_tables, table.slug: table.model_copy(update={"parts": (*kept, near, far)})}
    plan = build(variant("b200-256-roce"), catalog)
    found = [f for f in plan.findings if f.id == "CABLE-CAGE"]
    cables = plan.cables
    ends = pd.concat(
        [cables[[f"{e}_device", f"{e}_cage", "part"]].set_axis(["device", "cage", "part"], axis=1) for e in "ab"]
    )
    mixed = ends.groupby(["device", "cage"])["part"].nunique().gt(1).sum()
    assert [f.numbers["cages"] for f in found] == [mixed]
    assert names(found[0], "far", "near")
    assert (cables["part"] != "").all()


def test_a_port_without_a_known_cage_is_a_warning_that_its_optics_are_a_guess() -> None:
    found = build(variant("b200-256-roce", inband={"leaf_model": "nvidia-sn5600"})).findings
    assert [(f.subject, f.severity) for f in found if f.id == "CABLE-CAGE-UNKNOWN"] == [("nvidia-sn5600", "warning")]


def test_a_port_with_two_cables_is_an_error_of_its_fabric(monkeypatch: pytest.MonkeyPatch) -> None:
    laid = inband.inband_cables

    def doubled(*arguments: Any) -> Any:
        links, findings = laid(*arguments)
        links.loc[links.index[0], ["b_device", "b_port"]] = links.loc[links.index[-1], ["b_device", "b_port"]]
        return links, findings

    site = variant("lab")
    assert "CABLE-PORT" not in {f.id for f in build(site).findings}
    monkeypatch.setattr(inband, "inband_cables", doubled)
    plan = build(site, kept=Kept())
    found = only(plan, "CABLE-PORT", "inband")
    last = plan.cables[plan.cables["fabric"] == "inband"].iloc[-1]
    assert found.severity == "error"
    assert names(found, f"{last['b_device']}:{last['b_port']}", f"{last['a_device']}:{last['a_port']}", 2)


def first(key: str, site: Site) -> Finding:
    return next(f for f in build(site).findings if f.id == key)


def test_a_circuit_that_is_too_small_names_the_breaker_that_does() -> None:
    site = variant("lab", power={"rack_circuit": RackCircuit(breaker_a=40.0, phases=3)})
    found = only(build(site), "POWER-CIRCUIT")
    assert names(found, "feed B")
    (breaker,) = values(found, "power.rack_circuit.breaker_a")
    for amps, short in ((breaker, False), (rating_below_a("nec", breaker - 1), True)):
        larger = variant("lab", power={"rack_circuit": RackCircuit(breaker_a=amps, phases=3)})
        over = {f.id for f in build(larger).findings} & {"POWER-CIRCUIT", "POWER-PHASE-LOAD"}
        assert bool(over) == short


def test_a_circuit_that_is_too_small_with_all_feeds_up_says_so() -> None:
    """One feed has all supplies of the servers, which draw less under their cap when another one is lost."""
    server = psu(split_by_feed={"A": 2, "B": 0})
    drawn = variant("lab").server.power
    server["power"] = drawn.model_copy(update={"cap_w": drawn.measured_w})
    power = {"rack_circuit": RackCircuit(breaker_a=20.0, phases=3)}
    site = variant("lab", server=server, power=power).model_copy(update={"electrical": None})
    plan = build(site)
    found = only(plan, "POWER-CIRCUIT")
    circuit = plan.circuits.set_index("circuit").loc[found.subject]
    assert (circuit["worst_case"], circuit["load_kw"]) == ("", pytest.approx(found.numbers["kw"], abs=1e-3))
    assert names(found, "all feeds")
    assert not names(found, "loss")


def test_a_feed_whose_loss_is_too_much_names_a_way_out_for_servers_and_for_what_cannot_be_capped() -> None:
    lost = first("POWER-FEED-LOSS", variant("lab", server=psu(rating_w=9500.0)))
    assert offers(lost, "server.power.cap_w", 9500)
    weak = first(
        "POWER-FEED-LOSS", variant("lab", server=psu(rating_w=3000.0))
    )  # below what a server was measured to draw
    assert weak.remedies
    assert not values(weak, "server.power.cap_w")
    switch = psus.check("a switch", psus.Supplies(2, 2, 300, {"A": 1, "B": 1}), 400, "case")
    lost_feeds = [f for f in switch if f.id == "POWER-FEED-LOSS"]
    assert lost_feeds
    assert all("higher rating" in f.remedies[0].text and not values(f, "server.power.cap_w") for f in lost_feeds)


def test_every_finding_of_the_rack_power_names_a_way_out() -> None:
    limits = dict(variant("lab").limits)
    limits["pdu_load_pct"] = limits["pdu_load_pct"].model_copy(update={"value": 20.0})
    limits["phase_imbalance_pct"] = limits["phase_imbalance_pct"].model_copy(update={"value": 10.0})
    site = variant("lab").model_copy(update={"limits": limits})
    load = first("POWER-PDU-LOAD", site)
    assert names(load, "pdu-r02-a", 60, 110)
    assert offers(load, "power.rack_pdu.per_feed", 2)
    uneven = first("POWER-PHASE-BALANCE", site)
    (wider,) = values(uneven, "limits.phase_imbalance_pct.value")
    assert 0 <= wider - uneven.numbers["imbalance_pct"] < 1
    low_v = {"voltage_v": 400.0}
    cord = first("POWER-CORD", variant("lab", power=low_v))
    assert "connector" in cord.remedies[0].text
    (supply_w,) = values(cord, "server.psu.rating_w")
    for watts, short in ((supply_w, False), (supply_w + 1, True)):
        plan = build(variant("lab", server=psu(rating_w=watts), power=low_v))
        assert bool([f for f in plan.findings if f.id == "POWER-CORD"]) == short
    low = build(variant("lab", power={"voltage_v": 208.0}))
    assert any(offers(f, "power.voltage_v", 415) for f in low.findings if f.id == "POWER-VOLTAGE")
    many = {
        "server": {"count": 64, **psu("h100-1000-ib", split_by_feed={"A": 6, "B": 0})},
        "rack": {"servers": 4, "power_limit_kw": 60.0},
    }
    full = first("POWER-OUTLETS", variant("h100-1000-ib", **many))
    assert offers(full, "power.rack_pdu.per_feed", 2)
    assert full.numbers["pdus"] >= 1
