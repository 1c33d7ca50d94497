"""The supply above the rack circuits: its shape, its loads, its failures."""

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacity.build import build
from capacity.model import Plan
from capacity.outputs.summary import summarise
from capacity.power.upstream import double_outages, single_failures, switching
from capacity.power.upstream import tree as trees
from capacity.power.upstream.network import Network
from capacity.sizes import complete
from inventory.site import Site, load_site, parse_site
from inventory.site.new import Wanted, site_text
from inventory.site.whatif import changed
from tests.capacity.sites import variant
from tests.findings import names
from tests.plans import plan_of

pytestmark = pytest.mark.usefixtures("stages_kept")

SITES = ("h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid")


@functools.cache
def plan_without_plant(name: str) -> Plan:
    """Of a site that leaves its mechanical load to power.pue."""
    return build(variant(name, cooling={"plant": None}))


def kw_of(plan: Plan, kind: str) -> float:
    return float(plan.elements.loc[plan.elements["kind"] == kind, "load_kw"].sum())


def with_electrical(name: str, sections: dict[str, dict[str, Any]] | None = None, **changes: Any) -> Site:
    """A shipped site with other values in electrical: whole keys by `changes`, keys of sub-sections by `sections`."""
    site = load_site(name)
    assert site.electrical is not None
    parts = {key: getattr(site.electrical, key).model_copy(update=values) for key, values in (sections or {}).items()}
    return site.model_copy(update={"electrical": site.electrical.model_copy(update={**parts, **changes})})


@pytest.fixture(params=SITES)
def plan(request: pytest.FixtureRequest) -> Plan:
    return plan_of(request.param)


def test_every_circuit_hangs_on_a_panel_and_every_panel_leads_to_the_grid(plan: Plan) -> None:
    elements = plan.elements.set_index("name")
    assert elements.index.is_unique
    assert (elements.loc[plan.circuits["circuit"], "kind"] == "circuit").all()
    wanted = {
        "circuit": {"panel"},
        "panel": {"ups", "pdu_transformer"},
        "pdu_transformer": {"ups"},
        "ups": {"switchboard"},
        "switchboard": {"transformer"},
        "transformer": {"intake"},
        "intake": {"utility"},
        "mechanical": {"ups" if plan.site.ups.scope == "it_and_cooling" else "switchboard"},
    }
    for kind, above in wanted.items():
        of_kind = elements[elements["kind"] == kind]
        assert set(elements.loc[of_kind["upstream"], "kind"]) <= above
        if kind != "intake":
            assert (elements.loc[of_kind["upstream"], "feed"].to_numpy() == of_kind["feed"].to_numpy()).all()


def test_panels_keep_their_places_and_their_rating(plan: Plan) -> None:
    electrical = plan.site.electrical
    assert electrical is not None
    circuits = plan.elements[plan.elements["kind"] == "circuit"]
    assert circuits.groupby("upstream").size().max() <= electrical.panels.circuits
    assert not [f for f in plan.findings if f.id in ("POWER-ELEMENT", "POWER-UPS-REDUNDANCY", "POWER-FAILURE")]


@pytest.mark.parametrize(("gpu", "racks"), [("gb200", 12), ("gb300", 32)])
def test_panels_larger_than_a_ups_block_are_filled_to_what_the_block_carries(gpu: str, racks: int) -> None:
    """A busway of 1,000 A carries 575 kW, and two modules of 250 kW at 90 % of them 450 kW."""
    plan = build(complete(parse_site(site_text(Wanted("hall", gpu=gpu, fabric="ib", racks=racks)))), what_ifs=False)
    assert not [(one.id, one.subject, one.message) for one in plan.findings if one.severity == "error"]
    panels = plan.elements[plan.elements["kind"] == "panel"]
    assert panels["limit_kw"].min() > 570
    assert panels["worst_kw"].max() <= 450


def test_panels_larger_than_a_pdu_transformer_are_filled_to_what_it_carries() -> None:
    plan = build(
        with_electrical("b200-256-roce", {"pdu_transformers": {"kva": 75.0, "load_loss_kw": 1.5, "no_load_kw": 0.2}}),
        what_ifs=False,
    )
    elements = plan.elements.set_index("name")
    above = elements.loc[elements.loc[elements["kind"] == "panel", "upstream"].unique()]
    assert set(above["kind"]) == {"pdu_transformer"}
    assert (above["worst_kw"] <= above["limit_kw"] + 1e-6).all()


def test_load_of_an_element_is_that_of_what_hangs_on_it_and_its_losses(plan: Plan) -> None:
    """By an other way of adding up: each parent from its children in the frame, losses by their formula."""
    electrical = plan.site.electrical
    assert electrical is not None
    elements = plan.elements.set_index("name")
    taken = elements["load_kw"].copy()
    taken[elements["kind"] == "ups"] /= electrical.ups_blocks.efficiency
    for kind, facts in (("transformer", electrical.transformers), ("pdu_transformer", electrical.pdu_transformers)):
        if facts is not None:
            rows = (elements["kind"] == kind) & (elements["load_kw"] > 0)
            taken[rows] += facts.no_load_kw + facts.load_loss_kw * (taken[rows] / facts.kva) ** 2
    sums = taken.groupby(elements["upstream"]).sum()
    inner = elements[~elements["kind"].isin(["circuit", "mechanical", "generator", "generators"])].index
    assert np.allclose(elements.loc[inner, "load_kw"], sums.reindex(inner, fill_value=0.0), atol=1e-3)


@pytest.mark.parametrize("name", ["h100-1000-ib", "b200-256-roce"])
def test_cooling_on_the_ups_gets_blocks_that_carry_it(name: str) -> None:
    """A board on a UPS carries no more than its block; generators carry the losses of these blocks as well."""
    by_pue: dict[str, dict[str, Any]] = {"power": {"pue": 1.6}, "cooling": {"plant": None}}
    plan, plain = build(variant(name, ups={"scope": "it_and_cooling"}, **by_pue)), build(variant(name, **by_pue))
    assert not [f for f in plan.findings if f.id in ("POWER-ELEMENT", "POWER-UPS-REDUNDANCY")]
    rows = plan.elements.set_index("name")
    above = rows.loc[rows.loc[rows["kind"] == "mechanical", "upstream"]]
    assert len(above)
    assert set(above["kind"]) == {"ups"}
    assert (above["worst_kw"] <= above["limit_kw"] + 1e-6).all()
    in_pue = pytest.approx(kw_of(plain, "utility"), rel=0.005)  # power.pue has these losses already
    assert kw_of(plan, "utility") == in_pue
    permitted = [
        {s["subject"]: s["permitted_kw"] for s in summarise(p)["electrical"]["swing"]}["ups"] for p in (plan, plain)
    ]
    assert permitted[0] == permitted[1]  # GPUs do not swing behind the UPS of pumps and fans


def test_a_mechanical_board_on_a_ups_is_no_larger_than_its_block() -> None:
    """2,200 kW a feed: one board of a 2,500 kVA transformer, and two where blocks of five modules carry 4 x 500 kW x 0.9."""
    site = load_site("h100-1000-ib")
    assert site.electrical is not None
    circuits = plan_of("h100-1000-ib").circuits
    for scope, boards in (("it", 1), ("it_and_cooling", 2)):
        ups = site.ups.model_copy(update={"scope": scope})
        made = trees.build(site.model_copy(update={"ups": ups}), site.electrical, circuits, 4400.0)
        assert int((made.elements.loc[made.rows("mechanical"), "feed"] == "A").sum()) == boards


def test_generators_carry_the_losses_of_the_ups_of_cooling() -> None:
    """One feed's plant takes IT and mechanical load, both over the efficiency of their UPS."""
    site = with_electrical("h100-1000-ib", {"generators": {"kw": 10.0, "n_plus": 0}})
    electrical = site.electrical
    assert electrical is not None
    circuits = build(site).circuits
    sets = []
    for scope in ("it", "it_and_cooling"):
        made = trees.build(
            site.model_copy(update={"ups": site.ups.model_copy(update={"scope": scope})}), electrical, circuits, 2000.0
        )
        sets.append(int((made.elements.loc[made.rows("generator"), "feed"] == "A").sum()))
    assert sets[1] - sets[0] == pytest.approx(1000 * (1 / electrical.ups_blocks.efficiency - 1) / 10, abs=1)


def test_grid_load_without_a_planned_plant_is_the_facility_load_by_pue(plan: Plan) -> None:
    plain = plan_without_plant(plan.site.name)
    it_kw = plain.racks["nameplate_kw"].sum()
    assert kw_of(plain, "utility") == pytest.approx(it_kw * plain.site.power.pue, rel=0.01)


def test_grid_load_with_a_planned_plant_is_the_facility_load_by_the_components(plan: Plan) -> None:
    figures = plan.cooling_figures
    parts = figures[(figures["item"] == "pue") & (figures["subject"] == "design day")].set_index("quantity")["value"]
    it_kw = plan.racks["nameplate_kw"].sum()
    assert kw_of(plan, "utility") == pytest.approx(it_kw * parts["PUE"], rel=0.001)
    losses = [name for name in parts.index if "loss" in name]
    assert kw_of(plan, "mechanical") == pytest.approx(it_kw * (parts["PUE"] - 1 - parts[losses].sum()), rel=0.001), (
        f"all but IT and {losses}"
    )


def test_each_failure_accounts_for_all_of_the_load(plan: Plan) -> None:
    frame = plan.failures
    whole = plan.circuits["load_kw"].sum()
    assert np.allclose(frame["served_kw"] + frame["lost_kw"] + frame["capped_kw"], whole, atol=1e-3)
    assert (frame["loads_lost"] <= frame["loads_affected"]).all()
    assert len(frame) == len(plan.elements) + frame["kind"].isin(["room", "grid"]).sum()


def test_no_single_failure_takes_a_server_down_at_the_shipped_sites(plan: Plan) -> None:
    assert plan.failures["servers_lost"].max() == 0
    assert plan.failures["circuits_over"].max() == 0


def brute(plan: Plan, dead: set[str]) -> tuple[float, set[str]]:
    """kW served and servers lost when these circuits are dead, cord by cord in plain Python."""
    site = plan.site
    group, power = site.server.supplies, site.server.power
    pdu_circuit = dict(zip(plan.circuits["pdu"], plan.circuits["circuit"], strict=True))
    used = plan.outlets[plan.outlets["device"] != ""]
    servers = set(plan.devices.loc[plan.devices["role"] == "gpu", "name"])
    count: dict[str, int] = {}
    left: dict[str, int] = {}
    for device, pdu in zip(used["device"], used["pdu"], strict=True):
        count[device] = count.get(device, 0) + 1
        left[device] = left.get(device, 0) + (pdu_circuit[pdu] not in dead)
    lost = set()
    for device in servers:
        need = power.nameplate_w if power.cap_w is None else min(power.nameplate_w, power.cap_w)
        if left[device] * group.rating_w < need or (power.cap_w is None and left[device] < int(group.redundancy[0])):
            lost.add(device)
    return sum(left.values()), lost


@pytest.mark.parametrize("failed", ["ups-A-1", "rpp-B-02", "room", "cb"])
def test_servers_lost_agree_with_a_count_cord_by_cord(failed: str) -> None:
    """b200 without its cap: 5+1 supplies on three feeds, so every loss of two of them takes the server down."""
    site = load_site("b200-256-roce")
    site = site.model_copy(
        update={
            "server": site.server.model_copy(update={"power": site.server.power.model_copy(update={"cap_w": None})})
        }
    )
    plan = build(site)
    elements = plan.elements.set_index("name")
    if failed == "cb":
        name = plan.circuits["circuit"].iloc[0]
        dead = {name}
    elif failed == "room":
        name, circuits = "er-c", elements[elements["kind"] == "circuit"]
        dead = set(circuits.index[circuits["domain"] == "er-c"])
    else:
        name = failed
        circuits = elements[elements["kind"] == "circuit"]
        below = {failed}
        for kind in ("pdu_transformer", "panel"):
            below |= set(elements.index[(elements["kind"] == kind) & elements["upstream"].isin(below)])
        dead = set(circuits.index[circuits["upstream"].isin(below)])
    _, lost = brute(plan, dead)
    row = plan.failures.set_index("failure").loc[name]
    assert (row["dead_circuits"], row["servers_lost"]) == (len(dead), len(lost))
    assert len(lost) > 0


def test_b200_at_nameplate_on_three_feeds_is_flagged_and_the_least_change_named() -> None:
    site = load_site("b200-256-roce")
    power = site.server.power.model_copy(update={"cap_w": None})
    plan = build(site.model_copy(update={"server": site.server.model_copy(update={"power": power})}))
    found = {f.id: f for f in plan.findings if f.severity == "error"}
    assert {"POWER-FEED-LOSS", "POWER-FAILURE"} <= set(found)
    failure = next(f for f in plan.findings if f.id == "POWER-FAILURE" and f.err == "ERR-45")
    assert failure.numbers["servers_lost"] == 32
    assert names(failure, 13200)
    assert names(failure, 6, 1)


def test_two_feeds_in_one_room_are_no_redundancy() -> None:
    """ERR-45: counting feeds says two are left; the room takes both."""
    plan = build(with_electrical("h100-1000-ib", rooms={"A": "er-1", "B": "er-1", "C": "er-2"}))
    rooms = [f for f in plan.findings if f.id == "POWER-FAILURE"]
    assert [(f.subject, f.err, f.numbers["servers_lost"]) for f in rooms] == [("er-1", "ERR-45", 1000)]


def test_a_room_that_darkens_only_switches_storage_and_service_nodes_is_found() -> None:
    """Two of three feeds in one room: the shelves of the third carry the servers, what has two supplies may have both there."""
    settings = (
        "server.power.seed_w=6300",
        "server.power.measured_w=6400",
        "server.power.cap_w=6400",
        "ups.module_kw=700",
        "electrical.rooms.A=er-1",
        "electrical.rooms.B=er-1",
    )
    plan = build(changed("gb300-nvl72-liquid", settings))
    row = plan.failures.set_index("failure").loc["er-1"]
    assert (row["loads_lost"], row["servers_lost"]) == (11, 0)
    (found,) = [f for f in plan.findings if f.id == "POWER-FAILURE"]
    assert (found.subject, found.err, found.severity, found.numbers["loads_lost"]) == ("er-1", "ERR-45", "error", 11)
    outlets = plan.outlets[plan.outlets["device"] != ""]
    held = outlets.groupby("device")["feed"].agg(set)
    gone = plan.devices[plan.devices["name"].isin(held[held.map(lambda feeds: feeds <= {"A", "B"})].index)]
    assert len(gone) == 11
    for role, devices in gone.groupby("role")["name"]:
        assert names(found, f"{len(devices)} {role}", devices.iloc[0])
    assert names(found, "A, B")


def test_grid_lost_leaves_the_generators_and_without_them_everything_is_lost() -> None:
    plan = plan_of("b200-256-roce")
    assert plan.failures.set_index("failure").loc["grid", "servers_lost"] == 0
    plants = plan.elements[plan.elements["kind"] == "generators"]
    assert (plants["load_kw"] == 0).all()
    assert (plants["worst_kw"] > 0).all()
    bare = with_electrical("b200-256-roce", generators=None)
    dark = build(
        bare.model_copy(update={"generator": bare.generator.model_copy(update={"present": False, "start_s": None})})
    )
    assert dark.failures.set_index("failure").loc["grid", "servers_lost"] == 32


def test_too_small_gear_is_flagged_with_what_would_do() -> None:
    weak = build(with_electrical("h100-1000-ib", {"switchboards": {"rating_ka": 42.0}}))
    found = [f for f in weak.findings if f.id == "POWER-FAULT-LEVEL"]
    assert [(f.subject.split("-")[0], f.limit) for f in found] == [("mech", 42.0), ("swb", 42.0)]
    assert found[0].numbers["fault_ka"] == pytest.approx(60.16, rel=0.01)
    thin = build(with_electrical("h100-1000-ib", {"rack_conductor": {"r_ohm_km": 20.0}}))
    assert [f.severity for f in thin.findings if f.id == "POWER-VOLTAGE-DROP"] == ["warning"]


def test_a_service_that_is_too_small_is_an_error_and_one_without_room_for_growth_a_warning() -> None:
    for firm, severity in ((10.0, "error"), (15.0, "warning")):
        plan = build(with_electrical("h100-1000-ib", {"utility": {"firm_mva": firm}}))
        assert [f.severity for f in plan.findings if f.id == "POWER-UTILITY"] == [severity]


def test_without_the_section_nothing_is_planned_and_one_finding_says_so() -> None:
    plan = build(load_site("lab").model_copy(update={"electrical": None}))
    assert plan.elements.empty
    assert plan.failures.empty
    assert plan.waves.empty
    assert [f.severity for f in plan.findings if f.id == "POWER-TREE"] == ["info"]


def test_maintenance_of_one_feed_and_the_loss_of_another_is_told() -> None:
    """4+2 on three feeds: two feeds out leave two of six supplies."""
    found = [f for f in plan_of("h100-1000-ib").findings if f.id == "POWER-MAINTENANCE"]
    assert [f.severity for f in found] == ["warning"]
    assert found[0].numbers["servers_lost"] > 0
    quiet = build(with_electrical("h100-1000-ib", concurrently_maintainable=False))
    assert not [f for f in quiet.findings if f.id == "POWER-MAINTENANCE"]


@pytest.mark.parametrize("kva", [1750, *(pytest.param(kva, marks=pytest.mark.soak) for kva in (2000, 2500)), 3150])
def test_what_two_outages_overload_is_what_trying_each_pair_finds(kva: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each two elements above the panels out at once, against the few pairs that are tried."""
    electrical = load_site("h100-1000-ib").electrical
    assert electrical is not None
    seen: list[Network] = []
    real = double_outages.overload

    def kept(net: Network, single_kw: single_failures.Floats) -> object:
        seen.append(net)
        return real(net, single_kw)

    monkeypatch.setattr(double_outages, "overload", kept)
    plan = build(with_electrical("h100-1000-ib", transformers=electrical.transformers.model_copy(update={"kva": kva})))
    (net,) = seen
    elements = net.tree.elements
    above = np.flatnonzero(~elements["kind"].isin(["panel", "pdu_transformer"]))
    tried = np.array(list(itertools.combinations(above, 2)))
    members = np.stack([np.repeat(np.arange(len(tried)), 2), tried.ravel()])
    kw, _ = single_failures.worst_of(net, switching.normal(net, net.base_kw()), members)
    limit, single = elements["limit_kw"].to_numpy(), plan.elements["worst_kw"].to_numpy()[: len(elements)]
    over = np.flatnonzero((kw > limit + 1e-6) & (single <= limit + 1e-6) & (limit > 0))
    found = [f for f in plan.findings if f.id == "POWER-MAINTENANCE-LOAD"]
    assert len(found) == min(len(over), 1)
    for finding in found:
        assert finding.numbers["count"] == len(over)
        assert finding.limit is not None
        assert finding.numbers["kw"] / finding.limit == pytest.approx((kw[over] / limit[over]).max(), abs=1e-6)


@given(st.lists(st.floats(0.1, 50), max_size=40), st.floats(5, 200), st.integers(1, 12))
def test_bins_keep_order_limit_and_places(sizes: list[float], limit: float, places: int) -> None:
    items = np.array(sizes)
    bins = trees.fill_evenly(items, limit, places)
    assert (np.diff(bins) >= 0).all()
    assert len(bins) == len(sizes)
    fewest = trees.fill(items, limit, places)
    if len(sizes):
        assert bins[-1] == fewest[-1]
        for number in range(int(bins[-1]) + 1):
            members = items[bins == number]
            assert 1 <= len(members) <= places
            assert members.sum() <= limit + 1e-6 or len(members) == 1


def test_a_conductor_over_which_no_load_flow_exists_is_a_finding_and_no_crash() -> None:
    plan = build(with_electrical("b200-256-roce", {"rack_conductor": {"r_ohm_km": 50.0, "length_m": 5000.0}}))
    assert [f.severity for f in plan.findings if f.id == "POWER-FLOW"] == ["error"]


def test_a_site_without_a_rack_circuit_is_planned() -> None:
    """A room too small for a single rack: findings say so, the supply is planned for nothing."""
    site = load_site("h100-1000-ib")
    room = site.room.model_copy(update={"rows": 1, "racks_per_row": 1, "rpps_per_row": 0})
    plan = build(site.model_copy(update={"room": room}))
    assert plan.failures["servers_lost"].max() <= 1000


def test_the_supply_carries_the_cooling_of_the_design_day_and_not_that_of_a_typed_pue() -> None:
    """The service is IT load times the PUE of the components, whatever power.pue says; energy is that of the measured load."""
    for pue in (1.05, 1.28):
        plan = build(variant("b200-256-roce", power={"pue": pue}))
        figures = plan.cooling_figures
        own = figures[(figures["item"] == "pue") & (figures["quantity"] == "PUE")]["value"].iloc[0]
        service = plan.elements.loc[plan.elements["kind"] == "utility", "load_kw"].sum()
        assert service == pytest.approx(plan.racks["nameplate_kw"].sum() * own, rel=1e-3)
        assert (plan.elements["kind"] == "mechanical").any()
        year = summarise(plan)["electrical"]["year"]
        assert year["mwh"] == pytest.approx(
            plan.racks["measured_kw"].sum() * year["pue"] * year["load_factor"] * 8.76, rel=1e-4
        )


def test_losses_of_the_supply_are_in_the_pue_and_add_to_the_service() -> None:
    plans = [build(with_electrical("b200-256-roce", {"ups_blocks": {"efficiency": e}})) for e in (0.965, 0.8)]
    service = [float(p.elements.loc[p.elements["kind"] == "utility", "load_kw"].sum()) for p in plans]
    losses = [
        float(p.cooling_figures.loc[p.cooling_figures["quantity"] == "power losses", "value"].iloc[0]) for p in plans
    ]
    it = float(plans[0].racks["nameplate_kw"].sum())
    assert losses[1] - losses[0] == pytest.approx((service[1] - service[0]) / it, rel=0.01)
    assert losses[1] > losses[0] + 0.15


def test_ups_blocks_are_counted_with_the_losses_of_the_pdu_transformers_behind_them() -> None:
    """24 servers on blocks of 180 kW: their load alone fills one on feed C, the losses of its transformer go over it."""
    plan = build(variant("b200-256-roce", server={"count": 24}, ups={"module_kw": 100.0}))
    assert not [f for f in plan.findings if f.id in ("POWER-ELEMENT", "POWER-UPS-REDUNDANCY")]
