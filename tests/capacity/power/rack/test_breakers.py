"""Rack circuits in every state: their whole load, each of their lines, and what stands behind their breakers."""

import dataclasses
import functools
import math
import re
from typing import Any

import numpy as np
import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.power.rack import line_currents, psus
from capacity.power.rack.circuits import next_rating_a, rating_below_a
from inventory.catalog import Catalog, load_catalog
from inventory.findings import Finding
from inventory.site import Site, load_site
from inventory.site.sections.power import RackCircuit, rack_pdus_are_alike
from inventory.site.whatif import changed
from tests.capacity.power.upstream.test_tree import with_electrical
from tests.capacity.sites import variant
from tests.findings import as_set, names, offers, values
from tests.plans import plan_of

pytestmark = pytest.mark.usefixtures("stages_kept")

TWO_ROOMS = {"A": "x", "B": "x", "C": "y", "D": "y"}


def found(plan: Plan, *ids: str) -> list[Finding]:
    return [f for f in plan.findings if f.id in ids]


def two_rooms(breaker_a: float = 50.0, rooms: dict[str, str] = TWO_ROOMS) -> Site:
    """gb300 with four feeds in two rooms and all but its shelves' circuits large enough for the loss of one."""
    site = with_electrical(
        "gb300-nvl72-liquid",
        {"ups_blocks": {"permitted_load": 1.0}, "panels": {"rating_a": 1600.0}},
        rooms=rooms,
    )
    server = site.server.model_copy(update={"power": site.server.power.model_copy(update={"cap_w": 6700.0})})
    power = site.power.model_copy(update={"shelf_circuit": RackCircuit(breaker_a=breaker_a, phases=3)})
    return site.model_copy(
        update={"server": server, "power": power, "ups": site.ups.model_copy(update={"module_kw": 800.0})}
    )


@functools.cache
def without_a_room() -> Plan:
    return build(two_rooms())


def test_a_room_that_overloads_breakers_is_named_once_with_a_way_out_that_mends() -> None:
    """18 trays at 6.7 kW and 10.096 kW of switches on the four shelves that are left, and 445.5 W of the shelf: 33.12 kW."""
    plan = without_a_room()
    (over,) = found(plan, "POWER-CIRCUIT", "POWER-PHASE-LOAD", "POWER-PDU-LOAD")
    assert (over.err, over.numbers["count"], over.severity) == ("ERR-45", 64, "error")
    assert over.numbers["kw"] == pytest.approx((18 * 6.7 + 10.096) / 4 + 0.4455, abs=1e-3)
    assert names(over, f"room {plan.circuits.set_index('circuit')['worst_case'].to_dict()[over.subject]}")
    assert values(over, "electrical.rooms") == [{"A": "room-a", "B": "room-b", "C": "room-c", "D": "room-d"}]
    circuits = plan.elements[plan.elements["kind"] == "circuit"]
    assert int((circuits["worst_kw"] > circuits["limit_kw"]).sum()) == over.numbers["count"]
    (breaker,) = values(over, "power.shelf_circuit.breaker_a")
    for amps, short in ((breaker, False), (rating_below_a("nec", breaker - 1), True)):
        assert bool(found(build(two_rooms(amps)), "POWER-CIRCUIT")) == short
    assert not found(build(two_rooms(rooms={})), "POWER-CIRCUIT")


def line_by_hand(plan: Plan, pdu: str, lost: set[str], own_w: float) -> float:
    """Largest line current of a PDU when these feeds are lost: cord by cord, phase to neutral."""
    used = plan.outlets[plan.outlets["device"] != ""]
    drawn = used.groupby("device")["load_w"].sum()
    left = used[~used["feed"].isin(lost)].groupby("device").size()
    lines = dict.fromkeys(line_currents.LINES, 0.0)
    volts = plan.site.power.voltage_v / math.sqrt(3)
    for device, phase in used.loc[used["pdu"] == pdu, ["device", "phase"]].to_numpy():
        lines[phase] += drawn[device] / left[device] / volts
    return max(lines.values()) + own_w / 3 / volts


def test_lines_after_the_loss_of_a_room_are_those_of_a_count_cord_by_cord() -> None:
    plan = without_a_room()
    judged = plan.circuits[plan.circuits["phase_case"].isin(["x", "y"]) & plan.circuits["pdu"].str.startswith("pdu-")]
    assert len(judged) >= 8
    for row in judged.to_dict("records"):
        lost = {feed for feed, room in TWO_ROOMS.items() if room == row["phase_case"]}
        assert row["worst_phase_a"] == pytest.approx(line_by_hand(plan, row["pdu"], lost, 25.0), abs=1e-3)


def test_a_line_above_its_breaker_is_found_though_the_whole_load_fits() -> None:
    """b200: of four cords of 13,000 / 4 W two share L1: 27.13 A, and the PDU's own 25 W; 29 A carry 23.2 A."""
    plan = build(variant("b200-256-roce", power={"rack_circuit": RackCircuit(breaker_a=29.0, phases=3)}))
    assert not found(plan, "POWER-CIRCUIT")
    (over,) = found(plan, "POWER-PHASE-LOAD")
    by_hand = (2 * 13000 / 4 + 25 / 3) / (415 / math.sqrt(3))
    assert over.numbers["amps"] == pytest.approx(by_hand, abs=1e-3)
    assert over.limit == pytest.approx(23.2)
    assert names(over, "L1", "feed")
    (breaker,) = values(over, "power.rack_circuit.breaker_a")
    assert breaker == 35 > by_hand / 0.8 > 30
    for amps, short in ((35, False), (30, True)):
        larger = variant("b200-256-roce", power={"rack_circuit": RackCircuit(breaker_a=amps, phases=3)})
        assert bool(found(build(larger), "POWER-PHASE-LOAD")) == short


@pytest.mark.parametrize(
    ("between", "watts", "expected"),
    [
        (False, [2080, 0, 0, 0], [2080 / (208 / math.sqrt(3)), 0, 0]),
        (True, [2080, 0, 0, 0], [10, 10, 0]),  # L1-L2: the same current in both lines, none in L3
        (True, [2080, 2080, 2080, 0], [10 * math.sqrt(3)] * 3),
        (True, [2080, 0, 4160, 0], [math.sqrt(10**2 + 20**2 + 10 * 20), 10, 20]),
        (False, [0, 0, 0, 3000], [1000 / (208 / math.sqrt(3))] * 3),
        (True, [0, 0, 0, 3000], [1000 / (208 / math.sqrt(3))] * 3),
    ],
)
def test_line_currents_by_hand_at_208_v(between: bool, watts: list[float], expected: list[float]) -> None:
    legs = line_currents.Legs(np.zeros(0, dtype=np.int64), between, np.array([208.0]), np.array([3]), 1.0)
    assert legs.line_a(np.array([watts], dtype=np.float64))[0].tolist() == pytest.approx(expected)
    half = line_currents.Legs(np.zeros(0, dtype=np.int64), between, np.array([208.0]), np.array([3]), 0.5)
    assert half.line_a(np.array([watts], dtype=np.float64))[0].tolist() == pytest.approx([2 * a for a in expected])


def test_outlets_between_lines_load_two_lines_each() -> None:
    """208 V: of four cords of 14,300 / 6 W two share a leg; its fuller line carries sqrt(4 + 1 + 2) of one cord's current, and
    the PDU's own 25 W.
    """
    shipped, slug = load_catalog(), "rack-pdu-60a-415v"
    changed, device = Catalog(shipped.root), shipped.device(slug)
    assert device.bringup.pdu is not None
    facts = device.bringup.pdu.model_copy(update={"voltage_v": 208.0, "outlet_v": 208.0})
    changed.devices[slug] = device.model_copy(update={"bringup": device.bringup.model_copy(update={"pdu": facts})})
    server = load_site("b200-256-roce").server
    assert server.psu is not None
    site = variant(
        "b200-256-roce", power={"voltage_v": 208.0}, server={"psu": server.psu.model_copy(update={"input_v": 208.0})}
    )
    circuits = build(site.model_copy(update={"electrical": None}), changed).circuits.set_index("pdu")
    by_hand = math.sqrt(7) * 14300 / 6 / 208 + 25 / math.sqrt(3) / 208
    assert circuits.loc["pdu-r01-a", "phase_a"] == pytest.approx(by_hand, abs=1e-3)


def test_a_single_phase_circuit_has_all_of_its_load_on_one_line() -> None:
    legs = line_currents.Legs(np.zeros(0, dtype=np.int64), False, np.array([230.0]), np.array([1]), 1.0)
    assert legs.line_a(np.array([[1000.0, 500.0, 200.0, 600.0]]))[0].tolist() == pytest.approx([10, 0, 0])


def test_a_breaker_beyond_the_pdu_is_no_way_out() -> None:
    """Four servers of 10.2 kW behind 60 A: 75 A would carry them, and the PDU takes 60 A."""
    (over,) = found(build(variant("lab", rack={"servers": 4, "power_limit_kw": 60.0})), "POWER-CIRCUIT")
    assert names(over, 60)
    assert offers(over, "power.rack_pdu.per_feed", 2)
    pdu = load_site("lab").power.rack_pdu.model_copy(update={"per_feed": 2})
    mended = variant("lab", rack={"servers": 4, "power_limit_kw": 60.0}, power={"rack_pdu": pdu})
    assert not found(build(mended), "POWER-CIRCUIT", "POWER-PHASE-LOAD", "POWER-PDU-LOAD")


def test_a_larger_breaker_says_what_its_conductor_has_to_carry() -> None:
    thin = {"rack_conductor": {"ampacity_a": 30.0}}
    site = with_electrical("b200-256-roce", thin)
    power = site.power.model_copy(update={"rack_circuit": RackCircuit(breaker_a=29.0, phases=3)})
    (over,) = found(build(site.model_copy(update={"power": power})), "POWER-PHASE-LOAD")
    larger = {"power.rack_circuit.breaker_a": 35, "electrical.rack_conductor.ampacity_a": 35}
    assert [one.settings for one in over.remedies] == [larger, {}]
    assert names(over, 30)


def test_phases_are_judged_after_the_loss_of_a_feed_too() -> None:
    """h100: a rack of service nodes is at 15 % with all feeds up and at 30 % when one is lost."""
    site = load_site("h100-1000-ib")
    limits = dict(site.limits)
    limits["phase_imbalance_pct"] = limits["phase_imbalance_pct"].model_copy(update={"value": 20.0})
    plan = build(site.model_copy(update={"limits": limits}))
    assert plan.circuits["imbalance_pct"].max() <= 20
    (uneven,) = found(plan, "POWER-PHASE-BALANCE")
    assert names(uneven, "feed")
    row = plan.circuits.set_index("pdu").loc[uneven.subject]
    assert row["loss_imbalance_pct"] == pytest.approx(float(str(uneven.numbers["imbalance_pct"])), abs=1e-3)
    assert names(uneven, f"{row['loss_imbalance_bound_pct']:.1f}")
    for kind in ("imbalance", "loss_imbalance"):
        assert (plan.circuits[f"{kind}_bound_pct"] <= plan.circuits[f"{kind}_pct"] + 1e-6).all()


def psu(**values: Any) -> dict[str, Any]:
    return {"psu": variant("lab").server.supplies.model_copy(update=values)}


def test_supplies_stated_at_another_voltage_than_the_outlets_give_are_flagged() -> None:
    """The lab's outlets give 240 V; 230 V is another name of it, 208 V is not."""
    assert not found(build(variant("lab", server=psu(input_v=230.0))), "POWER-VOLTAGE")
    (other,) = found(build(variant("lab", server=psu(input_v=208.0))), "POWER-VOLTAGE")
    assert (other.subject, dict(other.numbers)) == ("server.psu.input_v", {"input_v": 208, "outlet_v": 240})
    (volts,) = values(other, "server.psu.input_v")
    assert not found(build(variant("lab", server=psu(input_v=volts))), "POWER-VOLTAGE")


def test_outlets_follow_the_voltage_of_the_circuits() -> None:
    """480 V between lines on a PDU for 415 V: its outlets give 277.6 V, above the 240 V of the service nodes' supplies."""
    wrong = found(build(variant("lab", power={"voltage_v": 480.0})), "POWER-VOLTAGE")
    assert {"outlet_v": 277.6, "min_v": 100, "max_v": 240} in [dict(one.numbers) for one in wrong]


def test_a_breaker_above_its_pdu_names_one_that_does() -> None:
    site = variant("lab", power={"rack_circuit": RackCircuit(breaker_a=80.0, phases=3)})
    (over,) = found(build(site), "POWER-PDU-RATING")
    assert (over.numbers["breaker_a"], over.limit) == (80, 60)
    assert [one.settings for one in over.remedies] == [{"power.rack_circuit.breaker_a": 60}, {}]
    assert not found(plan_of("lab"), "POWER-PDU-RATING", "POWER-CIRCUIT", "POWER-PHASE-LOAD", "POWER-PDU-LOAD")


def test_each_circuit_of_rack_pdus_is_judged_against_the_pdu_behind_it() -> None:
    """60 A PDUs behind breakers of 100 A in the racks of switches; those of GPU servers have 60 A."""
    site = changed("h100-1000-ib", ["power.network_circuit.breaker_a=100", "server.count=64"])
    (over,) = found(build(site), "POWER-PDU-RATING")
    assert (over.numbers["breaker_a"], over.limit) == (100, 60)
    assert names(over, "power.network_circuit.breaker_a")
    assert over.remedies[0].settings.keys() == {"power.network_circuit.breaker_a"}


@pytest.mark.parametrize(
    ("code", "breaker_a", "sizes"),
    [
        ("nec", 37.0, [40, 35]),
        ("nec", 63.0, [70, 60]),
        ("iec", 60.0, [63, 50]),
        ("nec", 45.0, []),
        ("iec", 63.0, []),
    ],
)
def test_a_breaker_that_does_not_exist_names_the_next_and_the_one_below(
    code: str, breaker_a: float, sizes: list[int]
) -> None:
    circuit = RackCircuit(breaker_a=breaker_a, phases=3)
    odd = found(build(variant("lab", power={"rack_circuit": circuit, "code": code})), "POWER-BREAKER-SIZE")
    assert [(f.severity, f.subject) for f in odd] == ([("warning", "power.rack_circuit.breaker_a")] if sizes else [])
    assert all(values(f, "power.rack_circuit.breaker_a") == sizes for f in odd)


def test_ratings_that_breakers_come_in() -> None:
    """NEC 240.6(A) and the preferred values of IEC 60898-1; nothing is above the largest."""
    assert [next_rating_a("nec", amps) for amps in (40.2, 45, 800.5, 7000.4)] == [45, 45, 1000, 7001]
    assert [next_rating_a("iec", amps) for amps in (40.2, 63, 125.5)] == [50, 63, 160]
    assert (rating_below_a("nec", 44), rating_below_a("nec", 14), rating_below_a("iec", 62)) == (40, 0, 50)


def test_a_profile_below_the_nameplate_says_what_to_do() -> None:
    (low,) = found(build(variant("lab", power={"profile": "measured"})), "POWER-PROFILE")
    assert [one.settings for one in low.remedies] == [{"power.profile": "nameplate"}, {}]
    assert "waiver" in low.remedies[1].text


@pytest.mark.parametrize(
    ("group", "load_w", "settings", "figures"),
    [
        (psus.Supplies(6, 4, 3300, {"A": 2, "B": 2, "C": 2}), 14300, [{"redundancy": "5+1"}], (5, 6)),
        (psus.Supplies(6, 5, 2800, {"A": 2, "B": 2, "C": 2}), 14300, [{"rating_w": 2860}, {}], (7,)),
        (psus.Supplies(6, 6, 2800, {"A": 3, "B": 3}), 14300, [{"rating_w": 2860, "redundancy": "5+1"}, {}], (7,)),
        (psus.Supplies(2, 2, 1200, {"A": 1, "B": 1}), 1000, [{"redundancy": "1+1"}], (1, 2)),
        (psus.Supplies(1, 1, 1200, {"A": 1}), 1000, [{}], (2, "(N+1)")),
    ],
)
def test_too_little_redundancy_names_what_gives_a_spare_supply(
    group: psus.Supplies, load_w: float, settings: list[dict[str, Any]], figures: tuple[int | str, ...]
) -> None:
    """The same with a key of the site and without: figures in its text, or settings that leave no finding."""
    (bare,) = [f for f in psus.check("case", group, load_w, "case") if f.id == "POWER-PSU-REDUNDANCY"]
    assert all(re.search(rf"(?<!\d){re.escape(str(one))}", bare.remedies[-1].text) for one in figures)
    assert len(bare.remedies) == len(settings)
    stated = psus.check("case", group, load_w, "case", key="server.psu")
    (short,) = [f for f in stated if f.id == "POWER-PSU-REDUNDANCY"]
    expected = [{f"server.psu.{key}": value for key, value in one.items()} for one in settings]
    assert [one.settings for one in short.remedies] == expected
    for one in filter(None, settings):
        needed = int(one.get("redundancy", f"{group.needed}+1").split("+")[0])
        mended = dataclasses.replace(group, needed=needed, rating_w=one.get("rating_w", group.rating_w))
        assert "POWER-PSU-REDUNDANCY" not in {f.id for f in psus.check("case", mended, load_w, "case")}


def test_circuits_and_elements_say_the_same_of_the_worst_load_of_a_room() -> None:
    plan = without_a_room()
    circuits = plan.circuits.set_index("circuit")
    ends = plan.elements[plan.elements["kind"] == "circuit"].set_index("name").loc[circuits.index]
    assert circuits["worst_kw"].to_numpy() == pytest.approx(ends["worst_kw"].to_numpy())
    assert (circuits["worst_case"] == ends["worst_case"]).all()
    shelves = circuits[circuits["pdu"].str.startswith("shelf-")]
    assert set(shelves["worst_case"]) == {"x", "y"}
    assert (shelves["worst_case"] == shelves["phase_case"]).all()


def test_racks_of_switches_and_of_storage_have_circuits_of_their_own() -> None:
    """20 A at 415 V carry sqrt3 x 0.415 x 20 x 0.8 = 11.50 kW; the racks of GPU servers keep their 60 A."""
    own = ["power.network_circuit.breaker_a=20", "power.storage_circuit.breaker_a=30", "server.count=64"]
    plan = build(changed("h100-1000-ib", own))
    role = plan.placements.merge(plan.devices[["name", "role"]], left_on="device", right_on="name")
    gpu = set(role.loc[role["role"] == "gpu", "rack"])
    storage = set(role.loc[role["role"].isin(["storage", "metadata"]), "rack"]) - gpu
    by_rack = plan.circuits.groupby("rack")[["breaker_a", "usable_kw"]].first()
    assert set(by_rack.loc[sorted(gpu), "breaker_a"]) == {60}
    assert set(by_rack.loc[sorted(storage), "breaker_a"]) == {30}
    rest = by_rack.drop(index=sorted(gpu | storage))
    assert len(rest)
    assert set(rest["breaker_a"]) == {20}
    assert rest["usable_kw"].max() == pytest.approx(math.sqrt(3) * 0.415 * 20 * 0.8, abs=1e-3)
    bought = plan.bom[plan.bom["item"] == "breaker"]
    assert sorted(bought["model"].str.split(" A").str[0].astype(int)) == [20, 30, 60]
    assert bought["quantity"].sum() == len(plan.circuits)


SMALL_PDU = "power.network_pdu.model=rack-pdu-32a-400v"
"""32 A where rack_pdu takes 60 A; its name of the voltage, 400 V, is within 5 % of 415 V."""


def small_pdus(*more: str) -> Plan:
    """h100-1000-ib with 32 servers, and 32 A PDUs in the racks of switches."""
    return build(changed("h100-1000-ib", [SMALL_PDU, "server.count=32", *more]))


def test_racks_of_switches_have_pdus_of_their_own_with_their_circuit() -> None:
    plan = small_pdus("power.network_circuit.breaker_a=30")
    role = plan.placements.merge(plan.devices[["name", "role", "kind", "model"]], left_on="device", right_on="name")
    other = set(role.loc[role["role"].isin(["gpu", "storage", "metadata"]), "rack"])
    light = set(plan.racks["name"]) - other
    assert light
    pdus = role[role["kind"] == "pdu"]
    assert set(pdus.loc[pdus["rack"].isin(light), "model"]) == {"rack-pdu-32a-400v"}
    assert set(pdus.loc[pdus["rack"].isin(other), "model"]) == {"rack-pdu-60a-415v"}
    assert set(plan.circuits.loc[plan.circuits["rack"].isin(light), "breaker_a"]) == {30}
    assert set(plan.bom["model"]) >= {"rack-pdu-32a-400v", "rack-pdu-60a-415v"}
    assert not found(plan, "POWER-PDU-RATING", "POWER-CIRCUIT", "POWER-PHASE-LOAD", "POWER-OUTLETS", "POWER-BANK")
    unrated = " ".join(one.message for one in found(plan, "POWER-FAULT-RATING"))
    assert "rack-pdu-32a-400v" in unrated
    assert "rack-pdu-60a-415v" in unrated


def test_a_pdu_below_the_common_breaker_gets_a_breaker_for_its_racks() -> None:
    (over,) = found(small_pdus(), "POWER-PDU-RATING")
    assert (over.numbers["breaker_a"], over.limit) == (60, 32)
    (smaller, larger) = over.remedies
    assert smaller.settings == {"power.network_circuit.breaker_a": 30}
    assert "power.network_pdu.model" in larger.text
    assert not found(
        small_pdus(*as_set(smaller)), "POWER-PDU-RATING", "POWER-CIRCUIT", "POWER-PHASE-LOAD", "POWER-PDU-LOAD"
    )


def changed_pdu(**update: Any) -> Catalog:
    """The catalogue with other facts of the 32 A PDU."""
    catalog = Catalog(load_catalog().root)
    device = catalog.device("rack-pdu-32a-400v")
    assert device.bringup.pdu is not None
    facts = device.bringup.pdu.model_copy(update=update)
    catalog.devices[device.slug] = device.model_copy(
        update={"bringup": device.bringup.model_copy(update={"pdu": facts})}
    )
    return catalog


SMALL = [SMALL_PDU, "power.network_circuit.breaker_a=30", "server.count=8"]


def test_outlets_of_racks_of_switches_are_those_of_their_own_pdus() -> None:
    """A PDU of 12 C19 outlets alone, behind switches and service nodes with C14 inlets."""
    catalog = changed_pdu()
    device = catalog.device("rack-pdu-32a-400v")
    large = tuple(outlet for outlet in device.power_outlets if outlet.type == "iec-60320-c19")
    catalog.devices[device.slug] = device.model_copy(update={"power_outlets": large})
    plan = build(changed("h100-1000-ib", SMALL), catalog)
    light = plan.devices.loc[plan.devices["model"] == device.slug, "name"].tolist()
    (over,) = found(plan, "POWER-OUTLETS")
    assert over.subject in light
    assert over.limit == 12
    assert any("power.network_pdu.model" in way.text for way in over.remedies)
    assert not any("rack.servers" in way.settings for way in over.remedies)
    assert plan.outlets.groupby("pdu").size().loc[light].eq(12).all()


def test_banks_of_racks_of_switches_are_those_of_their_own_pdus() -> None:
    """Banks of 1 A, of which 0.8 A count."""
    plan = build(changed("h100-1000-ib", SMALL), changed_pdu(bank_a=1.0))
    (over,) = found(plan, "POWER-BANK")
    assert dict(zip(plan.devices["name"], plan.devices["model"], strict=True))[over.subject.split("/")[0]] == (
        "rack-pdu-32a-400v"
    )
    assert over.limit == pytest.approx(0.8)
    assert any("power.network_pdu.model" in way.text for way in over.remedies)


def test_the_same_pdu_by_its_own_key_changes_nothing() -> None:
    settings = ["server.count=32"]
    plan = build(changed("h100-1000-ib", settings))
    named = build(changed("h100-1000-ib", [*settings, f"power.network_pdu.model={plan.site.power.rack_pdu.model}"]))
    for frame in ("devices", "placements", "circuits", "outlets", "bom"):
        assert getattr(named, frame).equals(getattr(plan, frame))
    assert [str(one) for one in named.findings] == [str(one) for one in plan.findings]


def test_pdus_of_other_legs_than_those_of_the_other_racks_are_refused() -> None:
    """Outlets between two lines beside outlets from line to neutral, and one phase beside three."""
    power = changed("lab", [SMALL_PDU]).power
    assert not list(rack_pdus_are_alike(changed_pdu(), power))
    for catalog in (changed_pdu(outlet_v=400.0), changed_pdu(phases=1)):
        (problem,) = rack_pdus_are_alike(catalog, power)
        assert problem.path == ("power", "network_pdu", "model")


def test_the_breaker_that_is_named_is_that_of_the_racks_that_need_it() -> None:
    plan = build(changed("h100-1000-ib", ["power.network_circuit.breaker_a=6", "server.count=64"]))
    over = found(plan, "POWER-CIRCUIT", "POWER-PHASE-LOAD", "POWER-PDU-LOAD")
    assert over
    for one in over:
        keys = {key for way in one.remedies for key in way.settings}
        assert "power.network_circuit.breaker_a" in keys
        assert "power.rack_circuit.breaker_a" not in keys


def test_breakers_far_above_the_load_of_light_racks_are_named_and_the_smallest_that_do() -> None:
    """All remedies together: the findings go, and nothing is found that was not there. One size less does not do."""
    name = "b200-256-roce"
    plan = plan_of(name)
    light = found(plan, "POWER-CIRCUIT-LIGHT")
    assert {one.subject for one in light} == {"power.network_circuit", "power.storage_circuit"}
    least = {one.subject: int(one.remedies[0].settings[f"{one.subject}.breaker_a"]) for one in light}
    assert all(one.numbers["breaker_a"] >= 2 * least[one.subject] for one in light)
    mended = build(changed(name, [setting for one in light for setting in as_set(one.remedies[0])]))
    assert not found(mended, "POWER-CIRCUIT-LIGHT")
    before = {one.id for one in plan.findings if one.severity != "info"}
    assert {one.id for one in mended.findings if one.severity != "info"} <= before
    below = [f"{key}.breaker_a={rating_below_a('nec', amps - 1)}" for key, amps in least.items()]
    assert found(build(changed(name, below)), "POWER-CIRCUIT", "POWER-PHASE-LOAD", "POWER-PDU-LOAD")


def test_breakers_of_one_size_above_the_need_are_not_named() -> None:
    assert not found(plan_of("lab"), "POWER-CIRCUIT-LIGHT")
