"""Conductors against their breakers, gear against fault current and its peak, and the power factor along the supply."""

import math
from typing import Any

import numpy as np
import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.outputs.summary import summarise
from capacity.power.rack.circuits import Code
from capacity.power.upstream import conductors, fault_level, switching, tree
from capacity.power.upstream.network import Network
from capacity.power.upstream.power_factor import PowerFactors
from inventory.catalog import Catalog, load_catalog
from inventory.findings import Finding
from inventory.site import Site, load_site
from tests.capacity.power.upstream.test_tree import with_electrical
from tests.findings import names, offers
from tests.plans import plan_of

pytestmark = pytest.mark.usefixtures("stages_kept")

SMALL = "b200-256-roce"


def found(plan: Plan, *ids: str) -> list[Finding]:
    return [f for f in plan.findings if f.id in ids]


@pytest.mark.parametrize(
    ("code", "ampacity_a", "breaker_a", "load_a", "holds"),
    [
        ("nec", 20, 60, 10, False),  # 14 AWG behind 60 A
        ("nec", 55, 60, 48, True),  # 240.4(B): 60 A is the next standard rating above 55 A
        ("nec", 55, 60, 56, False),  # and does not carry its load
        ("nec", 50, 60, 48, False),  # 50 A is a standard rating itself
        ("nec", 380, 400, 320, True),
        ("nec", 950, 1000, 700, False),  # above 800 A there is no next rating: 240.4(C)
        ("iec", 60, 63, 40, False),
        ("iec", 63, 63, 40, True),
    ],
)
def test_a_breaker_protects_a_conductor_that_carries_its_rating(
    code: Code, ampacity_a: float, breaker_a: float, load_a: float, holds: bool
) -> None:
    assert conductors.carries(code, ampacity_a, breaker_a, load_a) == holds


def test_14_awg_behind_60_a_is_an_error_that_names_both_ways_out() -> None:
    plan = build(with_electrical(SMALL, {"rack_conductor": {"size": "14 AWG Cu", "ampacity_a": 20.0}}))
    (thin,) = found(plan, "POWER-CONDUCTOR")
    assert (thin.severity, thin.subject, thin.limit) == ("error", "electrical.rack_conductor", 60)
    assert names(thin, "14 AWG Cu", 20, 60, "power.rack_circuit.breaker_a")
    # 20 A x 0.8 does not carry the 27.2 A of the largest line
    assert [one.settings for one in thin.remedies] == [{"electrical.rack_conductor.ampacity_a": 60}]
    thick = build(with_electrical(SMALL, {"rack_conductor": {"ampacity_a": 42.0}}))
    assert offers(found(thick, "POWER-CONDUCTOR")[0], "power.rack_circuit.breaker_a", 40)


def test_a_feeder_below_its_panel_main_is_an_error() -> None:
    electrical = load_site(SMALL).electrical
    assert electrical is not None
    feeder = electrical.panels.feeder.model_copy(update={"ampacity_a": 200.0})
    (thin,) = found(build(with_electrical(SMALL, {"panels": {"feeder": feeder}})), "POWER-CONDUCTOR")
    assert (thin.subject, thin.limit, thin.numbers["ampacity_a"]) == ("electrical.panels.feeder", 400, 200)


def test_a_conductor_without_an_ampacity_is_said_to_be_unjudged() -> None:
    plan = build(with_electrical(SMALL, {"rack_conductor": {"ampacity_a": None, "ampacity_source": None}}))
    assert [(f.severity, f.subject) for f in found(plan, "POWER-CONDUCTOR")] == [("info", "electrical.rack_conductor")]


@pytest.mark.parametrize(
    ("rating_ka", "volts", "hertz", "peak_ka"),
    [
        (5, 415, 60, 7.5),
        (10, 415, 60, 17),
        (20, 415, 50, 40),
        (35, 480, 60, 73.5),
        (65, 415, 60, 143),
        (25, 13800, 50, 62.5),
        (25, 13800, 60, 65),
    ],
)
def test_rated_peaks_are_those_of_the_standards(rating_ka: float, volts: float, hertz: int, peak_ka: float) -> None:
    """IEC 61439-1 table 7 and IEC 62271-1."""
    assert fault_level.rated_peak_ka(rating_ka, volts, hertz) == pytest.approx(peak_ka)


def test_the_peak_of_a_board_is_that_of_the_hand_formula() -> None:
    """kappa = 1.02 + 0.98 exp(-3 R/X) of grid and transformer in series."""
    site = load_site("lab")
    plan, e = build(site), site.electrical
    assert e is not None
    board = plan.elements.set_index("name").loc["swb-A-1"]
    shape = (e.transformers.kva, e.transformers.uk_pct, e.transformers.load_loss_kw)
    ohm = fault_level.network_ohm(e.utility.fault_mva, e.utility.x_over_r, 415)
    ohm += fault_level.transformer_correction(*shape) * fault_level.transformer_ohm(*shape, 415)
    kappa = 1.02 + 0.98 * math.exp(-3 * ohm.real / ohm.imag)
    assert board["peak_ka"] == pytest.approx(kappa * math.sqrt(2) * board["fault_ka"], rel=1e-6)
    assert board["rating_peak_ka"] == pytest.approx(2.1 * 22)


def test_gear_that_breaks_the_current_and_not_its_peak_is_flagged() -> None:
    plan = build(with_electrical(SMALL, {"switchboards": {"peak_ka": 40.0}}))
    over = found(plan, "POWER-FAULT-LEVEL")
    assert {f.subject.split("-")[0] for f in over} == {"swb", "mech"}
    assert all(f.limit == 40.0 and names(f, "peak") for f in over)
    assert not found(plan_of(SMALL), "POWER-FAULT-LEVEL")


def catalog_with(slug: str, rating_ka: float | None) -> Catalog:
    shipped = load_catalog()
    changed = Catalog(shipped.root)
    device = shipped.device(slug)
    changed.devices[slug] = device.model_copy(
        update={"bringup": device.bringup.model_copy(update={"rating_ka": rating_ka})}
    )
    return changed


def test_a_rack_pdu_is_judged_at_the_fault_level_of_its_end() -> None:
    """8.1 kA at the rack that is nearest to its panel; 54 circuits of 18 racks."""
    site, pdu = load_site(SMALL), "rack-pdu-60a-415v"
    (weak,) = found(build(site, catalog_with(pdu, 5.0)), "POWER-FAULT-LEVEL")
    circuits = build(site).elements.query("kind == 'circuit'")
    assert (weak.subject, weak.limit) == (circuits["name"].iloc[int(circuits["fault_ka"].argmax())], 5.0)
    assert names(weak, "pdu-r01-c", 8.1)
    strong = build(site, catalog_with(pdu, 10.0))
    assert not found(strong, "POWER-FAULT-LEVEL", "POWER-FAULT-RATING")
    (unknown,) = found(build(site), "POWER-FAULT-RATING")
    assert unknown.severity == "info"
    assert names(unknown, "rack-pdu-60a-415v", 54)


def test_ups_blocks_are_judged_or_said_to_be_unjudged() -> None:
    weak = build(with_electrical(SMALL, {"ups_blocks": {"rating_ka": 20.0}}))
    assert [(f.subject.split("-")[0], f.limit) for f in found(weak, "POWER-FAULT-LEVEL")] == [("ups", 20.0)]
    bare = build(with_electrical(SMALL, {"ups_blocks": {"rating_ka": None}}))
    assert any(names(f, "electrical.ups_blocks.rating_ka") for f in found(bare, "POWER-FAULT-RATING"))


def at_power_factor(it: float, grid: float) -> Site:
    site = with_electrical(SMALL, power_factor=grid)
    return site.model_copy(update={"power": site.power.model_copy(update={"power_factor": it})})


def limits_of(plan: Plan) -> dict[str, float]:
    return {str(kind): float(part["limit_kw"].max()) for kind, part in plan.elements.groupby("kind")}


def test_its_power_factor_ends_at_the_ups() -> None:
    """IT at 0.9 takes a tenth off panels, PDU transformers and circuits, and nothing off what stands above the UPS."""
    one, nine = limits_of(build(at_power_factor(1.0, 1.0))), limits_of(build(at_power_factor(0.9, 1.0)))
    share = {kind: nine[kind] / one[kind] for kind in one}
    behind = ("circuit", "panel", "pdu_transformer")
    assert [share[kind] for kind in behind] == pytest.approx([0.9] * 3)
    assert [s for kind, s in share.items() if kind not in behind] == pytest.approx([1.0] * (len(share) - 3))
    above = limits_of(build(at_power_factor(1.0, 0.9)))
    assert {kind for kind in one if above[kind] / one[kind] == pytest.approx(0.9)} == {
        "utility",
        "intake",
        "transformer",
        "switchboard",
        "mechanical",
    }


def utility_mva(site: Site) -> tuple[float, Plan]:
    assert site.electrical is not None
    utility = site.electrical.utility.model_copy(update={"firm_mva": 0.1})
    plan = build(site.model_copy(update={"electrical": site.electrical.model_copy(update={"utility": utility})}))
    (short,) = found(plan, "POWER-UTILITY")
    return float(str(short.numbers["mva"])), plan


def test_the_service_is_judged_at_the_power_factor_of_the_grid() -> None:
    for it, grid in ((0.9, 1.0), (1.0, 0.95)):
        mva, plan = utility_mva(at_power_factor(it, grid))
        kw = plan.elements.loc[plan.elements["kind"] == "utility", "load_kw"].sum()
        assert mva == pytest.approx(kw / 1000 / grid, abs=6e-4)
        assert summarise(plan)["electrical"]["service"]["mva"] == pytest.approx(kw / 1000 / grid, abs=6e-4)


def test_a_pdu_transformer_loses_what_its_current_says() -> None:
    """300 kW at 0.9 are 333.3 kVA of 500: 1.2 + 6 x (333.3 / 500)^2 = 3.867 kW; at unity 3.36 kW."""
    site = at_power_factor(0.9, 1.0)
    plan, e = build(site), site.electrical
    assert e is not None
    made = tree.build(site, e, plan.circuits, 0.0)
    unit = int(made.rows("pdu_transformer")[0])
    above = int(made.sources[unit, 0])
    lives, chosen = switching.alive(made, np.zeros((1, len(made.elements)), dtype=bool))
    load = np.zeros((1, len(made.elements)))
    load[0, unit] = 300.0
    none: Any = np.zeros(0)
    for factor, lost in ((0.9, 1.2 + 6 * (300 / 0.9 / 500) ** 2), (1.0, 1.2 + 6 * (300 / 500) ** 2)):
        net = Network(made, e, none, none, none, none, none, 0.0, PowerFactors(factor, 1.0))
        behind = made.sources[made.rows("pdu_transformer"), 0] == above
        others = 1.2 * (int(behind.sum()) - 1)  # what the others lose without load
        taken = switching.element_loads(net, lives, chosen, load)[0, above]
        assert taken - others == pytest.approx(300 + lost)
