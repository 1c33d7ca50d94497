"""The bill of materials: complete, conserved over tranches, priced once."""

import dataclasses
import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.build import build
from capacity.cooling.aisles import aisle_layout
from capacity.model import Plan
from capacity.outputs import workbook
from capacity.outputs.documents import installation
from capacity.outputs.documents.power import power_labels
from capacity.outputs.report import buying
from capacity.outputs.summary import fitted, summarise
from capacity.procurement import bom, programme
from capacity.procurement import cooling_lines as purchase
from capacity.procurement.cords import SOLD_M
from capacity.whatif.compare import figures
from inventory.groups import DELIVERED_TO
from inventory.site import load_site
from inventory.site.sections.purchase import BOM_ITEMS, ExchangeRate, FailureRate, Price, Purchase, Spares, Tranche
from tests.capacity.golden import SITES
from tests.capacity.power.upstream.test_tree import with_electrical
from tests.first_sites import first_plan
from tests.plans import plan_of
from validation.register import load_register


@pytest.fixture(scope="module", params=SITES)
def plan(request: pytest.FixtureRequest) -> Plan:
    return plan_of(request.param)


def total(plan: Plan, item: str) -> int:
    return int(plan.bom.loc[plan.bom["item"] == item, "quantity"].sum())


def test_ups_modules_are_those_of_the_planned_blocks_everywhere(plan: Plan) -> None:
    """ERR-45: redundancy by block, and not once for the site."""
    electrical = plan.site.electrical
    assert electrical is not None
    wanted = int((plan.elements["kind"] == "ups").sum()) * electrical.ups_blocks.frame_modules
    assert total(plan, "ups module") == wanted
    assert summarise(plan)["power_kw"]["ups_modules"] == wanted
    assert figures(plan)["power", "UPS modules", ""] == wanted


def test_without_a_planned_supply_ups_modules_are_one_block_for_the_it_load() -> None:
    bare = build(load_site("lab").model_copy(update={"electrical": None}))
    assert total(bare, "ups module") == 2  # 500 kW and one spare
    labels = power_labels(bare.outlets, bare.circuits, bare.elements)
    assert len(labels) == bare.bom.loc[bare.bom["model"] == "power", "quantity"].item() > 0


def test_every_line_is_of_a_known_item_and_of_a_step(plan: Plan) -> None:
    assert set(plan.bom["item"]) <= set(BOM_ITEMS)
    assert plan.bom["step"].str.fullmatch(r"S\d{3}").all()
    assert (plan.bom["quantity"] > 0).all()


def test_what_the_plan_places_and_connects_is_bought(plan: Plan) -> None:
    for kind in ("switch", "pdu", "shelf"):
        assert total(plan, kind) == int((plan.devices["kind"] == kind).sum()), kind
    bought = plan.storage[(plan.storage["chosen"] == 1) & (plan.storage["in_servers"] == 0)]
    storage = int(bought["enclosures"].sum() + bought["metadata_servers"].sum())
    assert total(plan, "server") + storage == int((plan.devices["kind"] == "server").sum())
    assert total(plan, "rack") == len(plan.racks)
    pieces = fitted(plan)
    assert (pieces.piece_of >= 0).all()
    assert total(plan, "cable") == len(pieces.pieces) <= len(plan.cables)
    assert total(plan, "blanking panel") == int((plan.racks["height_u"] - plan.racks["used_u"]).sum())
    assert total(plan, "cord") == int((plan.outlets["device"] != "").sum())
    labels = plan.bom[plan.bom["item"] == "label"].set_index("model")["quantity"]
    assert labels["cable end"] == len(installation.cable_labels(plan))
    assert labels["power"] == len(power_labels(plan.outlets, plan.circuits, plan.elements))


def test_optics_cover_exactly_the_ports_cabled_with_fibre(plan: Plan) -> None:
    """Each cage has one optic with as many ports as the cage, and no port with fibre is without one."""
    cables = plan.cables
    shape = {part.part: part.shape for part in plan.catalog.media(plan.site.media.reach_table).parts}
    fibre = cables[cables["part"].map(shape) == "fibre"]
    cages = pd.concat(
        [fibre[[f"{e}_device", f"{e}_cage", "part"]].set_axis(["device", "cage", "part"], axis=1) for e in "ab"]
    )
    assert total(plan, "transceiver") == len(cages.drop_duplicates(["device", "cage"]))
    assert cages.groupby(["device", "cage"])["part"].nunique().eq(1).all()
    models = plan.devices.set_index("name")["model"]
    ports = {
        slug: {n: cage.ports for n, cage in plan.catalog.device(slug).cages().values()} for slug in models.unique()
    }
    sizes = cages.groupby(["device", "cage"]).size().reset_index(name="used")
    assert all(used <= ports[models[d]][cage] for d, cage, used in sizes.itertuples(index=False, name=None))


def test_the_h100_cluster_buys_twin_port_optics_and_none_for_a_single_port_of_a_switch() -> None:
    plan = plan_of("h100-1000-ib")
    optics = plan.bom[plan.bom["item"] == "transceiver"].set_index("model")["quantity"]
    links = plan.cables[(plan.cables["fabric"] == "compute") & (plan.cables["medium"] == "mmf")]
    twin = optics["osfp-2x400g-sr4-finned"] + optics["osfp-2x400g-sr4-flat"]
    managers = int((links["stage"] == "manager-leaf").sum())  # one port of a switch cage, and a card of one port
    assert optics["osfp-400g-sr4-flat"] == managers
    assert optics["osfp-2x400g-sr4-flat"] == 4 * 1000
    assert 2 * twin == 2 * (len(links) - managers) + 2 * managers
    watts = {p.name: p.power_w for part in plan.catalog.media("linkx-400g").parts for p in part.plugs}
    copper = plan.bom[(plan.bom["item"] == "cable") & plan.bom["model"].str.startswith("acc-400g-5m")]["quantity"].sum()
    kw = (sum(n * watts[str(name)] for name, n in optics.items()) + 2 * 1.5 * copper) / 1000
    assert summarise(plan)["power_kw"]["optics"] == pytest.approx(kw, abs=0.001)


def test_conductors_are_the_metres_whose_voltage_drop_is_planned(plan: Plan) -> None:
    e = plan.site.electrical
    assert e is not None
    lines = plan.bom[plan.bom["unit"] == "m"].groupby(["item", "model"])["quantity"].sum()
    circuits = plan.elements[plan.elements["kind"] == "circuit"]
    if e.panels.kind == "rpp":
        assert lines["conductor", e.rack_conductor.size] == math.ceil(circuits["conductor_m"].sum())
    kind = "busway" if e.panels.kind == "busway" else "conductor"
    panels = int((plan.elements["kind"] == "panel").sum())
    assert lines[kind, e.panels.feeder.size] == math.ceil(panels * (e.panels.feeder.length_m or 0))


def test_busway_runs_from_the_head_of_the_row_with_a_tap_off_for_each_circuit() -> None:
    """A run on each of four feeds past 12 racks of 0.8 m: 38.4 m. With ten tap-offs a run there are two a feed, to the eighth rack
    and to the twelfth: 4 x (6.4 + 9.6) = 64 m, since all start at the head.
    """
    plan = plan_of("gb300-nvl72-liquid")
    lines = plan.bom.set_index(["item", "model"])["quantity"]
    assert lines["busway", "1000 A, plug-in"] == 39
    twice = build(with_electrical("gb300-nvl72-liquid", {"panels": {"circuits": 10}}))
    assert total(twice, "busway") - 200 == 64  # and 8 feeders of 25 m
    assert total(plan, "tap-off box") == len(plan.circuits)
    assert "tap-off box" not in set(plan_of("h100-1000-ib").bom["item"])


def test_batteries_pumps_sensors_and_coolant_are_in_the_bill(plan: Plan) -> None:
    assert total(plan, "ups battery") == int((plan.elements["kind"] == "ups").sum())
    pumps = plan.cooling_figures.query("item == 'plant' and quantity == 'pumps installed'")["value"]
    assert total(plan, "water pump") == (pumps.iloc[0] if len(pumps) and pumps.iloc[0] else total(plan, "chiller"))
    sensors = plan.bom[plan.bom["item"] == "room sensor"].set_index("model")["quantity"]
    assert sensors["temperature"] == 3 * len(plan.racks)
    assert sensors["humidity and temperature"] == int((plan.zones["kind"] == "air").sum())
    coolant = plan.site.cooling.coolant
    assert total(plan, "coolant") == (coolant.loop.volume_l if coolant and coolant.loop else 0)


def test_each_loop_is_filled() -> None:
    """Eight racks on loops of three: 2,000 L in each of two, and two thirds of it, rounded up, in the third."""
    site = load_site("gb300-nvl72-liquid")
    assert site.cooling.coolant is not None
    coolant = site.cooling.coolant.model_copy(update={"racks_per_loop": 3})
    plan = build(site.model_copy(update={"cooling": site.cooling.model_copy(update={"coolant": coolant})}))
    assert total(plan, "coolant") == 5334


def test_storage_of_the_plan_is_in_the_bill(plan: Plan) -> None:
    own = plan.storage[(plan.storage["chosen"] == 1) & (plan.storage["in_servers"] == 0)]
    assert total(plan, "storage drive") == int(own["drives"].sum())


def test_containment_is_bought_for_the_closed_aisles(plan: Plan) -> None:
    assert total(plan, "containment") == int((aisle_layout(plan)["containment"] == "closed").sum())


@pytest.mark.parametrize(
    ("closed", "aisles"),
    # Aisles before, between and behind the rows, cold and hot in turn: of one row cold, hot; of two cold, hot, cold; …
    [("hot", [1, 1, 2, 2]), ("cold", [1, 2, 2, 3])],
)
def test_closed_aisles_of_one_to_four_rows(closed: str, aisles: list[int]) -> None:
    plan = plan_of("lab")
    cooling = plan.site.cooling
    assert cooling.air is not None
    air = cooling.air.model_copy(update={"containment": closed})
    site = plan.site.model_copy(update={"cooling": cooling.model_copy(update={"air": air})})
    counted = []
    for rows in (1, 2, 3, 4):
        racks = pd.DataFrame({"row": range(rows)})
        bought = purchase.lines(site, racks, {"zones": plan.zones, "cooling_figures": plan.cooling_figures})
        counted.append(next(line.quantity for line in bought if line.item == "containment"))
    assert counted == aisles


def test_nothing_is_paid_twice() -> None:
    plan = plan_of("h100-1000-ib")
    inside = plan.bom[(plan.bom["item"] == "gpu")]
    assert (inside["supplied_with"] != "").all()
    assert inside["cost"].sum() == pytest.approx(28_000 * inside["spares"].sum())
    servers = plan.bom[(plan.bom["model"] == "nvidia-dgx-h100") & (plan.bom["item"] == "server")]
    assert servers["cost"].sum() == pytest.approx(290_000 * (servers["quantity"] + servers["spares"]).sum())


def test_tranches_split_an_item_and_lose_nothing() -> None:
    plan = plan_of("h100-1000-ib")
    gpus = plan.bom[plan.bom["item"] == "gpu"].set_index("tranche")["quantity"]
    assert gpus.to_dict() == {"t1": 4000, "t2": 4000}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 99), min_size=1, max_size=6))
def test_split_adds_up(quantity: int, weights: list[int]) -> None:
    shares = [100 * w / sum(weights) for w in weights]
    tranches = tuple(Tranche(name=f"t{n}", share_pct=share) for n, share in enumerate(shares))
    parts = bom.split(Purchase(tranches=tranches), "server", quantity)
    assert sum(n for _, n in parts) == quantity
    assert all(n >= 0 for _, n in parts)


def test_price_of_a_model_goes_before_that_of_the_item_and_is_converted() -> None:
    euro = ExchangeRate(rate=1.1, as_of=load_site("lab").schedule.need_date, source="test")
    purchase = Purchase(
        prices=(
            Price(item="switch", unit_price=10.0, source="all"),
            Price(item="switch", model="nvidia-qm", unit_price=20.0, currency="EUR", source="one"),
        ),
        exchange={"EUR": euro},
    )
    assert bom.unit_price(purchase, "switch", "nvidia-qm9700") == (20.0, "EUR", 1.1, "one")
    assert bom.unit_price(purchase, "switch", "other") == (10.0, "USD", 1.0, "all")
    assert bom.unit_price(purchase, "rack", "any")[3] == ""


def test_each_item_waits_for_its_lead_time() -> None:
    given = {"gpu", "switch", "optics"}
    assert bom.lead_of("transceiver", "", given) == "optics"
    assert bom.lead_of("supply", "switch nvidia-qm9700", given) == "switch"
    assert bom.lead_of("cpu", "server x", given) == "gpu"
    assert bom.lead_of("cpu", "server x", {*given, "server"}) == "server"
    assert bom.lead_of("rack", "", given) == ""


def test_what_a_step_of_the_building_buys_arrives_before_the_building_is_done(plan: Plan) -> None:
    group = {item.step: item.group for item in load_register().items.values()}
    lines = plan.bom[[group[step] == "D03" for step in plan.bom["step"]]]
    assert "panel" in set(lines["item"])
    waits = lines[lines["lead_item"] != ""]
    assert {DELIVERED_TO[lead] for lead in waits["lead_item"]} <= {"D03"}
    assert {DELIVERED_TO[bom.LEADS[item]] for item in lines["item"]} == {"D03"}


def test_what_the_branch_circuits_end_in_arrives_with_the_panels() -> None:
    assert bom.LEADS["breaker"] == bom.LEADS["panel"] == bom.LEADS["pdu transformer"] == bom.LEADS["conductor"]


def test_spares_follow_the_failure_rate_or_the_stated_rule() -> None:
    rate = FailureRate(afr_pct=9.1, source="paper")
    purchase = Purchase(spares=Spares(rates={"gpu": rate}))
    # Mean over a year: 8,000 x 9.1 % x 52/52.18 = 725.5; the 95 % level of a Poisson variable is about 770.
    spares, why = bom.spare_count(purchase, "gpu", 8000, 52)
    assert 765 <= spares <= 775
    assert "paper" in why
    assert bom.spare_count(purchase, "switch", 640, None) == (13, "2 % without a failure rate")
    assert bom.spare_count(purchase, "blanking panel", 1000, None) == (0, "")


def test_spares_follow_parts_replaced_and_not_interruptions() -> None:
    half = FailureRate(afr_pct=9.1, replaced_pct=50, replaced_source="own records", source="paper")
    some, why = bom.spare_count(Purchase(spares=Spares(rates={"gpu": half})), "gpu", 8000, 52)
    # Mean 362.7 instead of 725.5: 95 % level about 394.
    assert 390 <= some <= 398
    assert "50 % of it replaced (own records)" in why


def test_a_gpu_of_a_rack_scale_system_is_spared_as_its_tray() -> None:
    plan = plan_of("gb300-nvl72-liquid")
    bill, site = plan.bom, plan.site
    assert bill.loc[bill["item"].isin(["gpu", "cpu"]), "spares"].sum() == 0
    trays = bill[(bill["item"] == "server") & (bill["model"] == site.server.model)]
    rates = site.purchase.spares.rates
    weeks = site.purchase.spares.restock_weeks or 12
    gpus = int(bill.loc[bill["item"] == "gpu", "quantity"].sum())
    assert weeks is not None
    assert int(trays["spares"].sum()) > gpus * rates["gpu"].replaced_afr_pct / 100 * weeks / 52.18
    assert trays["spares_rule"].str.contains("gpu 6.19 %").all()


def test_spares_of_a_part_are_one_pool_for_all_its_lines(plan: Plan) -> None:
    purchase, lead = plan.site.purchase, plan.site.leadtimes
    for (item, model), lines in plan.bom.groupby(["item", "model"]):
        if plan.site.server.system and (item in bom.IN_TRAY or model == plan.site.server.model):
            continue  # counted by the tray
        weeks = max((lead[name].max_weeks for name in lines["lead_item"] if name), default=None)
        wanted, why = bom.spare_count(purchase, str(item), int(lines["quantity"].sum()), weeks)
        assert (int(lines["spares"].sum()), set(lines["spares_rule"])) == (wanted, {why}), (item, model)


@pytest.mark.parametrize(
    ("name", "model", "spares"),
    [
        # 12 switches x 2.0 % x 12 weeks: mean 0.055, no failure with 94.6 % only, where 95 % is asked for
        ("gb300-nvl72-liquid", "nvidia-q3400-ra", 1),
        ("h100-1000-ib", "nvidia-qm9700", 6),
        ("h100-1000-ib", "generic-service-node-2u", 1),
    ],
)
def test_spares_of_shipped_sites(name: str, model: str, spares: int) -> None:
    bill = plan_of(name).bom
    assert bill.loc[bill["model"] == model, "spares"].sum() == spares


def test_lines_without_a_price_are_counted_in_a_finding() -> None:
    site = load_site("h100-1000-ib")
    few = site.purchase.model_copy(update={"prices": site.purchase.prices[:1]})
    found = [f for f in build(site.model_copy(update={"purchase": few})).findings if f.id == "BOM-UNPRICED"]
    assert len(found) == 1
    assert "rack" in found[0].message


def test_spares_go_with_the_tranches_and_each_tranche_has_its_own_order_date() -> None:
    plan = plan_of("h100-1000-ib")
    gpus = plan.bom[plan.bom["item"] == "gpu"].set_index("tranche")
    # Two equal tranches: the first has the odd one.
    whole = int(gpus["spares"].sum())
    assert gpus["spares"].tolist() == [-(-whole // 2), whole // 2]
    safe = programme.order_dates(plan.activities)
    assert gpus["order_by"].tolist() == [safe["gpu", "t1"], safe["gpu", "t2"]]
    assert safe["gpu", "t1"] < safe["gpu", "t2"]


@pytest.mark.parametrize("name", ["h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid"])
def test_all_that_a_large_site_orders_has_an_order_date(name: str) -> None:
    plan = plan_of(name)
    ordered = plan.bom[(plan.bom["supplied_with"] == "") & (plan.bom["item"] != "label")]
    assert (ordered["order_by"] != "").all(), ordered[ordered["order_by"] == ""]
    assert "BOM-NO-LEAD" not in {f.id for f in plan.findings}


def test_what_is_bought_without_a_lead_time_is_named() -> None:
    found = [f for f in plan_of("lab").findings if f.id == "BOM-NO-LEAD"]
    assert {"leadtimes.transformer", "leadtimes.cooling", "leadtimes.switch"} <= {f.subject for f in found}
    assert "leadtimes.gpu" not in {f.subject for f in found}


def test_total_says_how_many_lines_it_leaves_out() -> None:
    assert bom.total(4.0e8, 16, "USD") == "400.0 M USD without 16 unpriced lines"
    assert bom.total(950.0, 1, "EUR") == "950 EUR without 1 unpriced line"
    assert bom.total(2.5e6, 0, "USD") == "2.5 M USD"
    assert bom.total(0.0, 16, "USD") == "no prices"


def test_total_says_how_much_of_it_is_estimated() -> None:
    assert bom.total(4.0e8, 16, "USD", 3.8e8) == "400.0 M USD without 16 unpriced lines, 380.0 M USD of it estimated"
    assert bom.total(4.0e8, 0, "USD", 4.0e8) == "400.0 M USD, all of it estimated"
    assert bom.total(4.0e8, 0, "USD", 0.0) == "400.0 M USD"


@pytest.mark.parametrize(
    ("source", "estimate"),
    [
        ("planning figure of 2026, not a quote", True),
        ("site choice: planning figure of 2026, not a quote", True),
        ("Not confirmed: usual street price", True),
        ("quote 4711 of 2026-03-01, valid to 2026-06-30", False),
        ("", False),
    ],
)
def test_a_price_is_an_estimate_by_the_words_of_its_source(source: str, estimate: bool) -> None:
    assert bom.is_estimate(source) is estimate


def test_a_quote_leaves_the_estimates_and_the_report_marks_what_is_left() -> None:
    plan = first_plan("mi355x")
    said = summarise(plan)["purchase"]
    assert said["estimated"] == said["cost"]
    assert said["total"].endswith("all of it estimated")
    quoted = plan.bom.assign(
        price_source=plan.bom["price_source"].where(plan.bom["item"] != "server", "quote 4711 of 2026-03-01")
    )
    servers = quoted.loc[quoted["item"] == "server", "cost"].sum()
    assert bom.estimated(quoted) == pytest.approx(said["cost"] - servers, abs=0.02)
    page = str(buying.page(dataclasses.replace(plan, bom=quoted)))
    assert "≈ 52,000.00 USD" in page
    assert "M USD of it estimated" in page
    assert "≈ 330,000.00 USD" not in page
    assert "330,000.00 USD" in page


def test_summary_report_and_bill_do_not_count_an_unpriced_line_as_nothing() -> None:
    plan = plan_of("h100-1000-ib")
    said = summarise(plan)["purchase"]
    words = f"without {said['lines_without_price']} unpriced lines"
    assert words in said["total"]
    assert words in buying.cost_figure(plan)[1]
    bill = workbook.bill(plan)
    assert bill.loc[bill["price_source"] == "", "cost"].isna().all()


def test_cords_have_lengths_and_reach_from_each_supply_to_its_outlet() -> None:
    plan = plan_of("h100-1000-ib")
    lines = plan.bom[plan.bom["item"] == "cord"]
    assert lines["model"].str.fullmatch(r"iec-60320-c\d+ to iec-60320-c\d+, [\d.]+ m").all()
    listed = installation.outlet_map(plan)
    counted = listed["length_m"].map("{:g} m".format).value_counts()
    bought = lines.groupby(lines["model"].str.rpartition(", ")[2])["quantity"].sum()
    assert counted.sort_index().to_dict() == bought.sort_index().to_dict()
    assert set(listed["length_m"]) <= set(SOLD_M)


@pytest.mark.parametrize("name", ["lab", "b200-256-roce", "h100-1000-ib", "gb300-nvl72-liquid"])
def test_the_cable_schedule_says_which_of_the_bought_lengths_a_link_takes(name: str) -> None:
    plan = plan_of(name)
    schedule = installation.cable_schedule(plan)
    assert (schedule["order_m"] >= schedule["length_m"]).all()
    lines = plan.bom[plan.bom["item"] == "cable"]
    bought = lines.groupby(lines["model"].str.rpartition(", ")[2])["quantity"].sum()
    pieces = schedule.drop_duplicates("piece")["order_m"].map("{:g} m".format).value_counts()
    assert pieces.sort_index().to_dict() == bought.sort_index().to_dict()


def test_fibres_have_polarity_gender_and_polish_in_bill_schedule_and_labels() -> None:
    plan = plan_of("h100-1000-ib")
    notes = plan.bom.loc[plan.bom["model"].str.startswith("mmf-mpo12-apc-straight"), "note"]
    assert len(notes)
    assert notes.str.contains("MPO-12/APC, female, Type B").all()
    schedule, labels = installation.cable_schedule(plan), installation.cable_labels(plan)
    fibre = schedule["part"].str.startswith("mmf-400g")
    ends = schedule.loc[fibre, ["connector", "polish", "gender", "polarity"]].drop_duplicates()
    assert ends.to_numpy().tolist() == [["MPO-12", "APC", "female", "Type B"]]
    assert (labels.loc[labels["cable_id"].isin(schedule.loc[fibre, "cable_id"]), "fibre"] != "").all()
    assert (schedule.loc[schedule["medium"] == "dac", "connector"] == "").all()
