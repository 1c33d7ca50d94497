"""What must hold for every plan, judged on plans of random valid sites (tests.capacity.random_sites).

The same 6 sites in each run. `make soak` plans 500 others, which its seed draws;
`RANDOM_SITES=500 SOAK_SEED=1 pytest tests/capacity/test_plan_properties.py` plans 500 others like each base.
"""

import datetime
import ipaddress
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from capacity.build import build
from capacity.model import Plan
from capacity.model.frames import FRAMES
from capacity.outputs.documents import installation
from capacity.outputs.report import page as report
from capacity.outputs.summary import fitted, summarise
from capacity.procurement.bom import LEADS, ordered
from inventory.catalog import U_M
from inventory.findings import Severity
from network.wiring.inband import placed_block
from tests.capacity.random_sites import Drawn, sites
from tests.seed import SEED

PROFILES = ("seed", "measured", "nameplate")
UNHURRIED = settings(
    database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
EVERY_SITE = settings(UNHURRIED, max_examples=2, derandomize=True)
OTHER_SITES = settings(UNHURRIED, max_examples=int(os.environ.get("RANDOM_SITES", "167")))
"""500 in all."""
PAGES_OF_ONE_IN = 16
"""Report and documents take longer than the plan: they are made of one in so many sites, by the plan's hash."""


@pytest.fixture(autouse=True, scope="module")
def _the_same_sites_whatever_else_runs() -> Iterator[None]:
    """Hypothesis draws from the constants of all modules that are imported: those hang on the tests that ran before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(providers, "_get_local_constants", Constants)
        yield


@EVERY_SITE
@given(sites("h100-1000-ib"))
def test_sites_like_h100_1000_ib(drawn: Drawn) -> None:
    judge(drawn)


@EVERY_SITE
@given(sites("b200-256-roce"))
def test_sites_like_b200_256_roce(drawn: Drawn) -> None:
    judge(drawn)


@EVERY_SITE
@given(sites("gb300-nvl72-liquid"))
def test_sites_like_gb300_nvl72_liquid(drawn: Drawn) -> None:
    judge(drawn)


@pytest.mark.soak
@OTHER_SITES
@seed(SEED)
@given(sites("h100-1000-ib"))
def test_other_sites_like_h100_1000_ib(drawn: Drawn) -> None:
    judge(drawn)


@pytest.mark.soak
@OTHER_SITES
@seed(SEED)
@given(sites("b200-256-roce"))
def test_other_sites_like_b200_256_roce(drawn: Drawn) -> None:
    judge(drawn)


@pytest.mark.soak
@OTHER_SITES
@seed(SEED)
@given(sites("gb300-nvl72-liquid"))
def test_other_sites_like_gb300_nvl72_liquid(drawn: Drawn) -> None:
    judge(drawn)


INVARIANTS: list[Callable[[Plan], None]] = []


def invariant(function: Callable[[Plan], None]) -> Callable[[Plan], None]:
    INVARIANTS.append(function)
    return function


def judge(drawn: Drawn) -> None:
    """AssertionError of the first invariant that does not hold; its name stands in the traceback."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # numbers that are none, though no frame may show them
        plan = build(drawn.site)
    for holds in INVARIANTS:
        holds(plan)


def found(plan: Plan, *ids: str) -> bool:
    return any(finding.id in ids for finding in plan.findings)


def by_kind(frame: pd.DataFrame, kind: str, value: str) -> float:
    return float(frame.loc[frame["kind"] == kind, value].sum())


# --- Cables, outlets, racks -----------------------------------------------------------------------------------------


@invariant
def each_cable_has_two_distinct_ends_and_each_port_one_cable(plan: Plan) -> None:
    cables = plan.cables
    assert (cables["a_device"] != cables["b_device"]).all()
    ends = pd.concat(
        [
            cables[["a_device", "a_port"]].set_axis(["device", "port"], axis=1),
            cables[["b_device", "b_port"]].set_axis(["device", "port"], axis=1),
        ]
    )
    assert not ends.duplicated().any()
    assert (ends["port"] != "").all()
    assert set(ends["device"]) <= set(plan.devices["name"])
    assert cables["cable_id"].is_unique


@invariant
def cables_are_as_long_as_their_slack_and_within_a_rack_no_longer_than_it_is_high(plan: Plan) -> None:
    rack = plan.placements.set_index("device")["rack"]
    same = rack.loc[plan.cables["a_device"]].to_numpy() == rack.loc[plan.cables["b_device"]].to_numpy()
    slack_m = plan.site.room.slack_m
    assert (plan.cables.loc[same, "length_m"] <= plan.racks["height_u"].max() * U_M + slack_m + 0.01).all()
    assert (plan.cables["length_m"] >= slack_m - 0.01).all()  # lengths are in whole centimetres
    part_known = plan.cables["part"] != ""
    assert (part_known == (plan.cables["medium"] != "")).all()


@invariant
def each_supply_has_at_most_one_outlet_on_its_feed_and_rack(plan: Plan) -> None:
    used = plan.outlets[plan.outlets["device"] != ""]
    assert not used.duplicated(["device", "psu"]).any()
    assert not plan.outlets.duplicated(["pdu", "outlet"]).any()
    rack = plan.placements.set_index("device")["rack"]
    assert (rack.loc[used["device"]].to_numpy() == used["rack"].to_numpy()).all()
    supplies = plan.devices.set_index("name")["psu_count"]
    assert (used["psu"].to_numpy() >= 1).all()
    assert (used["psu"].to_numpy() <= supplies.loc[used["device"]].to_numpy()).all()
    if not found(plan, "POWER-OUTLETS"):
        assert len(used) == supplies.sum()
    if plan.site.server.psu is not None:
        roles = plan.devices.set_index("name")["role"]
        servers = used[(roles.loc[used["device"]] == "gpu").to_numpy()]
        split = plan.site.server.psu.split_by_feed
        for feed, cords in servers.groupby("feed"):
            assert cords.groupby("device").size().max() <= split[str(feed)]


@invariant
def no_rack_unit_is_filled_twice(plan: Plan) -> None:
    placed = plan.placements[plan.placements["u_height"] > 0]
    units = [
        (rack, u)
        for rack, bottom, height in zip(placed["rack"], placed["u_bottom"], placed["u_height"], strict=True)
        for u in range(bottom, bottom + height)
    ]
    assert len(units) == len(set(units))
    assert min(u for _, u in units) >= 1
    height = plan.racks.set_index("name")["height_u"]
    top = placed["u_bottom"] + placed["u_height"] - 1
    within = top.to_numpy() <= height.loc[placed["rack"]].to_numpy()
    assert within.all() or found(plan, "SPACE-RACK-U")
    assert set(plan.placements["device"]) == set(plan.devices["name"])
    assert plan.placements["device"].is_unique
    assert set(plan.placements["rack"]) == set(plan.racks["name"])
    assert not plan.racks.duplicated(["row", "position"]).any()


# --- Power ----------------------------------------------------------------------------------------------------------


@invariant
def power_of_devices_racks_feeds_circuits_and_outlets_is_one_sum(plan: Plan) -> None:
    for profile in PROFILES:
        devices_kw = plan.devices[f"{profile}_w"].sum() / 1000
        assert plan.racks[f"{profile}_kw"].sum() == pytest.approx(devices_kw)
        assert plan.feeds[f"{profile}_kw"].sum() == pytest.approx(devices_kw)
    chosen = plan.site.power.profile
    assert plan.circuits["load_kw"].sum() == pytest.approx(plan.racks[f"{chosen}_kw"].sum())
    per_rack = plan.circuits.groupby("rack")["load_kw"].sum().reindex(plan.racks["name"])
    assert per_rack.to_numpy() == pytest.approx(plan.racks[f"{chosen}_kw"].to_numpy(), abs=1e-5)
    per_feed = plan.circuits.groupby("feed")["load_kw"].sum().reindex(plan.feeds["feed"], fill_value=0.0)
    assert per_feed.to_numpy() == pytest.approx(plan.feeds[f"{chosen}_kw"].to_numpy(), abs=1e-3)
    if not found(plan, "POWER-OUTLETS"):
        watts = plan.devices.groupby([plan.devices["kind"] == "pdu", plan.devices["busbar"] >= 0])[f"{chosen}_w"].sum()
        assert plan.outlets["load_w"].sum() == pytest.approx(watts.get((False, False), 0.0), abs=1)


@invariant
def no_circuit_feed_or_element_carries_less_after_a_loss_than_before(plan: Plan) -> None:
    assert (plan.circuits["worst_kw"] >= plan.circuits["load_kw"] - 1e-6).all()
    capped = plan.site.server.power.cap_w is not None
    if len(plan.feeds) > 1 and not capped and not found(plan, "POWER-FEED-LOSS"):
        assert (plan.feeds["loss_kw"] >= plan.feeds[f"{plan.site.power.profile}_kw"] - 1e-6).all()
    assert (plan.elements["worst_kw"] >= plan.elements["load_kw"] - 1e-6).all()


def circuits_below(elements: pd.DataFrame) -> dict[str, set[str]]:
    """The rack circuits that hang on each element with everything in order, on a circuit itself."""
    upstream = dict(zip(elements["name"], elements["upstream"], strict=True))
    below: dict[str, set[str]] = {name: set() for name in upstream}
    for circuit in elements.loc[elements["kind"] == "circuit", "name"]:
        at = circuit
        while at and circuit not in below[at]:
            below[at].add(circuit)
            at = upstream[at]
    return below


@invariant
def every_circuit_leads_to_the_grid(plan: Plan) -> None:
    elements = plan.elements
    assert elements.empty == (plan.site.electrical is None)
    if elements.empty:
        return
    assert elements["name"].is_unique
    assert set(elements["upstream"]) <= {"", *elements["name"]}
    circuits = elements[elements["kind"] == "circuit"]
    assert sorted(circuits["name"]) == sorted(plan.circuits["circuit"])
    below = circuits_below(elements)
    of_lines = [below[name] for name in elements.loc[elements["kind"] == "utility", "name"]]
    assert sum(map(len, of_lines)) == len(circuits)
    assert set().union(*of_lines) == set(circuits["name"])
    assert (elements.loc[elements["upstream"] == "", "kind"].isin(["utility", "generator", "generators"])).all()


@invariant
def load_of_an_element_is_that_of_what_hangs_on_it_and_its_losses(plan: Plan) -> None:
    """Each parent from its children in the frame, losses by their formula."""
    electrical = plan.site.electrical
    if electrical is None:
        return
    elements = plan.elements.set_index("name")
    factor = electrical.power_factor
    taken = elements["load_kw"].copy()
    taken[elements["kind"] == "ups"] /= electrical.ups_blocks.efficiency
    for kind, facts in (("transformer", electrical.transformers), ("pdu_transformer", electrical.pdu_transformers)):
        if facts is not None:
            rows = (elements["kind"] == kind) & elements.index.isin(elements["upstream"])  # spare ones are switched off
            kva = taken[rows] / (factor if kind == "transformer" else plan.site.power.power_factor)
            taken[rows] += facts.no_load_kw + facts.load_loss_kw * (kva / facts.kva) ** 2
    sums = taken.groupby(elements["upstream"]).sum()
    inner = elements[~elements["kind"].isin(["circuit", "mechanical", "generator", "generators"])].index
    difference = elements.loc[inner, "load_kw"] - sums.reindex(inner, fill_value=0.0)
    assert difference.abs().max() < 1e-3
    by_circuit = plan.circuits.set_index("circuit")["load_kw"]
    drawn = elements.loc[by_circuit.index, "load_kw"]
    assert drawn.to_numpy() == pytest.approx(by_circuit.to_numpy(), abs=1e-5)


@invariant
def each_failure_accounts_for_all_of_the_load(plan: Plan) -> None:
    frame = plan.failures
    if plan.site.electrical is None:
        assert frame.empty
        return
    whole = plan.circuits["load_kw"].sum()
    assert np.allclose(frame["served_kw"] + frame["lost_kw"] + frame["capped_kw"], whole, atol=1e-3)
    assert (frame[["served_kw", "lost_kw", "capped_kw"]] >= -1e-6).all().all()
    assert (frame["loads_lost"] <= frame["loads_affected"]).all()
    assert (frame["supplies_left"] <= frame["supplies"]).all()
    assert (frame["servers_lost"] <= (plan.devices["role"] == "gpu").sum()).all()
    assert (frame["dead_circuits"] <= len(plan.circuits)).all()
    assert set(plan.elements["name"]) <= set(frame["failure"])
    assert len(frame) == len(plan.elements) + frame["kind"].isin(["room", "grid"]).sum()


@invariant
def a_failure_that_takes_all_circuits_takes_all_servers(plan: Plan) -> None:
    frame = plan.failures
    all_dead = frame[frame["dead_circuits"] == len(plan.circuits)]
    fed = set(plan.outlets["device"]) if plan.site.server.psu is not None else None
    servers = plan.devices.loc[plan.devices["role"] == "gpu", "name"]
    plugged = sum(name in fed for name in servers) if fed is not None else len(servers)
    assert (all_dead["servers_lost"] >= plugged).all()
    assert (all_dead["served_kw"].abs() < 1e-3).all()


@invariant
def servers_lost_agree_with_a_count_cord_by_cord(plan: Plan) -> None:
    """For servers with supplies of their own, and failures after which nothing is switched to another source."""
    elements, group, power = plan.elements, plan.site.server.psu, plan.site.server.power
    if elements.empty or group is None or found(plan, "POWER-OUTLETS"):
        return
    servers = plan.devices.loc[plan.devices["role"] == "gpu", "name"]
    cords = plan.outlets[plan.outlets["device"].isin(servers)]
    circuit = cords["pdu"].map(plan.circuits.set_index("pdu")["circuit"])
    needed_w = power.nameplate_w if power.cap_w is None else min(power.nameplate_w, power.cap_w)
    needed = int(group.redundancy.split("+")[0]) if power.cap_w is None else 1
    sold = plan.catalog.device(plan.site.server.model).bringup.psu
    goes_on = sold.reduced_on if sold is not None and sold.count == group.count else None
    failures = elements[elements["kind"].isin(["circuit", "panel", "pdu_transformer", "ups"])].groupby("kind").head(4)
    said, below = plan.failures.set_index("failure"), circuits_below(elements)
    for name in failures["name"]:
        left = (~circuit.isin(below[name])).groupby(cords["device"]).sum()
        short = (left < group.count) & ((left * group.rating_w < needed_w - 1e-6) | (left < needed))
        slow = short & (left >= goes_on if goes_on is not None else False)
        assert said.loc[name, "servers_lost"] == (short & ~slow).sum(), name
        assert said.loc[name, "servers_reduced"] == slow.sum(), name
        assert said.loc[name, "dead_circuits"] == len(below[name]), name


@invariant
def waves_burn_in_each_server_once(plan: Plan) -> None:
    waves = plan.waves
    if waves.empty:
        return
    assert waves["servers"].sum() <= (plan.devices["role"] == "gpu").sum()
    assert (waves["wave"].to_numpy() == np.arange(1, len(waves) + 1)).all()
    assert (waves["base_kw"] <= waves["load_kw"] + 1e-6).all()


# --- Heat -----------------------------------------------------------------------------------------------------------


@invariant
def heat_of_all_devices_arrives_in_zones_and_loops(plan: Plan) -> None:
    watts, air = plan.devices["nameplate_w"], plan.devices["air_fraction"]
    air_kw, liquid_kw = (watts * air).sum() / 1000, (watts * (1 - air)).sum() / 1000
    assert by_kind(plan.zones, "air", "air_kw") == pytest.approx(air_kw)
    assert air_kw + liquid_kw == pytest.approx(plan.racks["nameplate_kw"].sum())
    if plan.site.cooling.coolant is not None:
        assert by_kind(plan.zones, "liquid", "liquid_kw") == pytest.approx(liquid_kw)
    else:
        assert "liquid" not in set(plan.zones["kind"])
        assert liquid_kw < 1e-6 or found(plan, "COOLING-NO-LOOP")


@invariant
def each_rack_gives_its_heat_to_one_air_zone(plan: Plan) -> None:
    zones = plan.zones[plan.zones["kind"] == "air"]
    assert zones["racks"].sum() == len(plan.racks)
    for row, count in plan.racks["row"].value_counts().items():
        assert ((zones["first_row"] <= row) & (row <= zones["last_row"])).sum() == 1, f"{count} racks of row {row}"
    assert (plan.zones["largest_rack_kw"] <= plan.zones[["air_kw", "liquid_kw"]].max(axis=1) + 1e-6).all()


@invariant
def units_of_a_zone_are_placed_at_most_once(plan: Plan) -> None:
    units = plan.cooling_units
    assert units["name"].is_unique
    assert set(units["zone"]) <= set(plan.zones["zone"])
    installed = plan.zones.set_index("zone")["installed"]
    placed = units.groupby("zone").size()
    assert (placed <= installed.loc[placed.index]).all()
    taken = units[units["at"] == "row"]
    racks = set(zip(plan.racks["row"], plan.racks["position"], strict=True))
    assert not racks & set(zip(taken["row"], taken["position"], strict=True))


# --- Fabric and addresses -------------------------------------------------------------------------------------------


@invariant
def addresses_are_unique_and_inside_their_prefix(plan: Plan) -> None:
    prefixes = plan.site.addressing
    where = {
        "oob": prefixes.oob,
        "bmc": prefixes.oob,
        "provisioning": prefixes.provisioning,
        "loopback": prefixes.loopbacks,
        "link": prefixes.links,
    }
    if prefixes.rails is not None and prefixes.compute_loopbacks is not None and plan.tree is not None:
        where |= {"compute-loopback": prefixes.compute_loopbacks, "rail": prefixes.rails}
    hosts = [ipaddress.IPv4Interface(a).ip for a in plan.addresses["address"]]
    assert len(set(hosts)) == len(hosts)
    assert all(host in where[network] for host, network in zip(hosts, plan.addresses["network"], strict=True))
    missing = set(where) - set(plan.addresses["network"])
    assert not missing or found(plan, "ADDRESSING-EXHAUSTED"), missing
    operator = {prefixes.oob.network_address + 1, prefixes.provisioning.network_address + 1}
    assert not operator & set(hosts)
    assert not plan.addresses.duplicated(["device", "interface"]).any()


@invariant
def a_fabric_that_cannot_be_built_is_an_error(plan: Plan) -> None:
    compute = plan.cables[plan.cables["fabric"] == "compute"]
    if plan.tree is None:
        assert compute.empty
        assert [f.severity for f in plan.findings if f.id in ("FABRIC-RADIX", "FABRIC-TIERS")] == ["error"]
    else:
        assert len(compute[compute["stage"] == "node-leaf"]) == plan.tree.endpoints


@invariant
def a_rail_is_the_same_hca_port_on_every_node_of_a_leaf(plan: Plan) -> None:
    links = plan.cables[(plan.cables["fabric"] == "compute") & (plan.cables["stage"] == "node-leaf")]
    ports = plan.catalog.device(plan.site.server.model).bringup.fabric_ports
    assert (links["a_port"] == links["rail"].map(dict(enumerate(ports)))).all()
    if plan.tree is not None and plan.tree.tiers == 1:
        assert links["b_device"].nunique() == 1
        return
    assert (links.groupby("b_device")["rail"].nunique() == 1).all()
    rails = plan.devices.set_index("name")["rail"]
    assert (rails.loc[links["b_device"]].to_numpy() == links["rail"].to_numpy()).all()


@invariant
def every_leaf_reaches_every_spine_of_its_plane_equally(plan: Plan) -> None:
    tree = plan.tree
    if tree is None:
        return
    trunk = plan.cables[(plan.cables["fabric"] == "compute") & (plan.cables["stage"] == "leaf-spine")]
    if tree.tiers == 1:
        assert trunk.empty
        return
    parallel = trunk.groupby(["a_device", "b_device"]).size()
    assert set(parallel) == {tree.leaf_spine_links}
    assert (trunk.groupby("a_device")["b_device"].nunique() == tree.plane_spines).all()
    assert (trunk.groupby("a_device").size() == tree.leaf_up).all()
    assert trunk["a_device"].nunique() == tree.leaves


# --- Purchase, schedule ---------------------------------------------------------------------------------------------


@invariant
def the_bill_counts_each_device_cable_and_cord_once(plan: Plan) -> None:
    devices, bom = plan.devices, plan.bom
    block = placed_block(plan.site, plan.catalog)
    own = devices["role"].isin(["storage", "metadata"]) & devices["model"].isin(block.devices if block else ())
    standing = devices[~own].groupby(["kind", "model"]).size()
    bought = bom[bom["item"].isin(["server", "switch", "pdu", "shelf"])].groupby(["item", "model"])["quantity"].sum()
    assert bought.to_dict() == standing.to_dict()
    racks = bom[bom["item"] == "rack"].groupby("model")["quantity"].sum()
    assert racks.to_dict() == plan.racks.groupby("model").size().to_dict()
    quantity = bom.groupby("item")["quantity"].sum()
    used = plan.outlets[plan.outlets["device"] != ""]
    assert quantity.get("cord", 0) == len(used)
    assert quantity.get("breaker", 0) == len(plan.circuits)
    assert quantity.get("cable", 0) == len(fitted(plan).pieces)
    assert quantity["gpu"] == plan.site.server.count * plan.catalog.device(plan.site.server.model).bringup.gpus
    units = plan.zones.groupby("kind")["installed"].sum()
    assert quantity.get("cooling unit", 0) == (units.get("air", 0) if plan.site.cooling.air else 0)
    assert quantity.get("cdu", 0) == units.get("liquid", 0)
    for item, kind in (("transformer", "transformer"), ("generator", "generator"), ("panel", "panel")):
        if item != "panel" or (plan.site.electrical and plan.site.electrical.panels.kind == "rpp"):
            assert quantity.get(item, 0) == (plan.elements["kind"] == kind).sum()


@invariant
def the_bill_adds_up(plan: Plan) -> None:
    bom = plan.bom
    assert (bom["quantity"] >= 0).all()
    assert (bom["spares"] >= 0).all()
    assert set(bom["lead_item"]) <= {"", *plan.site.leadtimes}
    assert set(bom["lead_item"]) <= {"", *LEADS.values()}
    if not plan.site.purchase.exchange:
        assert (bom["cost"] - ordered(bom) * bom["unit_price"]).abs().max() < 1e-3
    assert set(bom["tranche"]) <= {"", *(t.name for t in plan.site.purchase.tranches)}


@invariant
def storage_of_a_named_block_is_placed_and_bought_once(plan: Plan) -> None:
    own = plan.storage[(plan.storage["chosen"] == 1) & (plan.storage["in_servers"] == 0)]
    placed = placed_block(plan.site, plan.catalog)
    bought = int(own["enclosures"].sum() + own["metadata_servers"].sum())
    items = plan.bom[plan.bom["item"].isin(["storage enclosure", "metadata server"])]
    assert items["quantity"].sum() == bought
    if placed is None:
        return
    bodies = plan.devices[
        plan.devices["role"].isin(["storage", "metadata"]) & plan.devices["model"].isin(placed.devices)
    ]
    assert len(bodies) == bought
    assert bodies["mass_kg"].sum() == pytest.approx(own["mass_kg"].sum())


TIE = re.compile(
    r"(?P<name>.+?)(?: (?P<type>[FS]{2}))?(?: (?P<days>[+-][\d.e]+) d)?(?: (?P<working>[+-][\d.e]+) working d)?"
)


@invariant
def no_activity_starts_before_what_it_waits_for(plan: Plan) -> None:
    frame = plan.activities.set_index("activity")
    assert frame.index.is_unique
    day = {end: pd.to_datetime(frame[end]) for end in ("start", "finish")}
    position = {name: n for n, name in enumerate(frame.index)}
    for name, after in frame["after"].items():
        for text in filter(None, str(after).split(", ")):
            tie = TIE.fullmatch(text)
            assert tie, text
            kind, working = tie["type"] or "FS", float(tie["working"] or 0)
            assert position[tie["name"]] < position[str(name)]
            if working < 0:
                continue
            lag = datetime.timedelta(days=float(tie["days"] or 0) + working - 1)
            first = day["finish" if kind[0] == "F" else "start"][tie["name"]]
            then = day["finish" if kind[1] == "F" else "start"][str(name)]
            assert then >= first + lag - (datetime.timedelta() if tie["days"] or working else datetime.timedelta(-1)), (
                text
            )


@invariant
def dates_of_an_activity_are_in_order(plan: Plan) -> None:
    frame = plan.activities
    assert (frame["start"] <= frame["finish"]).all()
    assert (frame["p50_finish"] <= frame["p90_finish"]).all()
    assert (frame["slack_days"] >= -1e-6).all()
    assert frame["criticality_pct"].between(0, 100).all()
    assert frame["finish"].max() == frame.loc[frame["activity"] == "go-live", "finish"].item()
    critical = frame["critical"] == 1
    assert critical.any()
    if plan.site.schedule.calendar is None:  # with one, days off are slack
        assert (frame.loc[critical, "slack_days"].abs() < 1e-6).all()
    assert set(plan.schedule["activity"]) <= set(plan.site.leadtimes)


# --- Frames, findings, pages ----------------------------------------------------------------------------------------


@invariant
def frames_have_their_documented_columns_and_no_missing_values(plan: Plan) -> None:
    for name, frame in plan.frames().items():
        assert list(frame.columns) == list(FRAMES[name])
        assert isinstance(frame.index, pd.RangeIndex)
        assert not frame.isna().any().any(), name
        numbers = frame.select_dtypes("number").to_numpy()
        assert np.isfinite(numbers).all(), name


@invariant
def findings_say_what_about_which_subject_with_their_numbers(plan: Plan) -> None:
    for finding in plan.findings:
        assert re.fullmatch(r"[A-Z][A-Z0-9]*(-[A-Z0-9]+)*", finding.id)
        assert finding.severity in get_args(Severity)
        assert finding.subject
        assert finding.message
        assert not re.search(r"\b(nan|inf|None)\b", finding.message), finding
        assert np.isfinite([*finding.numbers.values(), finding.limit or 0.0]).all(), finding
        if finding.limit is not None:
            assert finding.limit_source, finding
            assert finding.numbers, finding
    assert len({(f.id, f.subject, f.message) for f in plan.findings}) == len(plan.findings)


@invariant
def the_summary_is_json(plan: Plan) -> None:
    said = json.loads(json.dumps(summarise(plan), allow_nan=False))
    assert said["site"] == plan.site.name
    assert said["findings"]["errors"] == sum(f.severity == "error" for f in plan.findings)


@invariant
def the_pages_can_be_made(plan: Plan) -> None:
    if int(plan.hash, 16) % PAGES_OF_ONE_IN:
        return
    page = report.render(plan)
    assert not re.search(r"(?<![\w.])nan(?![\w.])", re.sub(r"<style.*?</style>", "", page, flags=re.S))
    assert installation.documents(plan)
