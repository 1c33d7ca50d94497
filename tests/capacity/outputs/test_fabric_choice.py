"""The decision record of the compute fabric: the plan's own row has the plan's counts, the others what a design by hand has."""

import math

import pytest

from capacity.model import Plan
from capacity.outputs.documents import fabric_choice
from capacity.outputs.summary import fitted
from inventory.site.sections.purchase import Price
from tests.plans import plan_of

SITES = ("lab", "h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid")


def rows(plan: Plan) -> dict[tuple[str, str], dict[str, object]]:
    table = fabric_choice.options(plan)
    return {
        (str(row["switch_model"]), str(row["ratio"])): {str(column): value for column, value in row.items()}
        for row in table.to_dict("records")
    }


@pytest.mark.parametrize("name", SITES)
def test_the_chosen_option_has_the_counts_of_the_plan(name: str) -> None:
    plan = plan_of(name)
    (own,) = (row for row in rows(plan).values() if row["chosen"])
    of_compute = (plan.cables["fabric"] == "compute") & (plan.cables["stage"] != "manager-leaf")
    made = fitted(plan)
    plugs = made.plugs[of_compute.to_numpy()[made.plugs["cable"]]]
    switches = plan.devices[(plan.devices["kind"] == "switch") & (plan.devices["fabric"] == "compute")]
    assert own["switches"] == len(switches)
    assert own["cables"] == int(of_compute.sum())
    assert own["transceivers"] == int(plugs["fibre"].sum())
    assert own["optics_kw"] == pytest.approx(plugs["power_w"].sum() / 1000)


def test_half_the_bisection_takes_half_of_the_spines() -> None:
    found = rows(plan_of("b200-256-roce"))
    full, half = found["nvidia-sn5600", "1:1"], found["nvidia-sn5600", "2:1"]
    # 32 servers of 8 rails: 8 leaves with 32 or 16 uplinks, spines of 128 ports
    assert (full["leaf"], full["spine"], full["cables"]) == (8, 2, 256 + 256)
    assert (half["leaf"], half["spine"], half["cables"]) == (8, 1, 256 + 128)
    assert float(str(half["price"])) < float(str(full["price"]))


def test_switches_of_the_other_technology_are_compared() -> None:
    found = rows(plan_of("h100-1000-ib"))
    # 1,000 servers in units of 64 on switches of 128 ports: 16 units of 8 rails, 128 x 64 uplinks on 64 spines
    other = found["nvidia-sn5600", "1:1"]
    assert (other["technology"], other["unit_nodes"], other["leaf"], other["spine"]) == ("roce", 64, 128, 64)


def test_a_leaf_with_fewer_ports_takes_a_part_of_a_unit() -> None:
    found = rows(plan_of("gb300-nvl72-liquid"))
    # units of 72 on switches of 64 ports: 24 down, 24 up
    assert found["nvidia-sn5600-800g", "1:1"]["unit_nodes"] == 24
    assert found["nvidia-sn5600-800g", "1:1"]["leaf"] == 6 * 4


def priced(*kept: str) -> Plan:
    """The RoCE site with the prices of these items and models (`switch nvidia-sn5600`) only."""
    plan = plan_of("b200-256-roce")
    prices = tuple(p for p in plan.site.purchase.prices if p.item in kept)
    own = [one.partition(" ")[2] for one in kept if one.startswith("switch ")]
    prices += tuple(Price(item="switch", model=model, unit_price=50_000, source="quote") for model in own)
    vars(plan)["site"] = plan.site.model_copy(
        update={"purchase": plan.site.purchase.model_copy(update={"prices": prices})}
    )
    return plan


def test_what_has_no_price_is_named_and_not_counted() -> None:
    row = rows(priced("switch nvidia-sn5600"))["nvidia-sn5600", "1:1"]
    assert (row["price"], row["without_price"]) == (10 * 50_000, "cable transceiver")


def test_an_option_whose_switch_has_no_price_has_no_total_either() -> None:
    plan = priced("switch nvidia-sn5600", "cable", "transceiver")
    found = rows(plan)
    assert math.isnan(float(str(found["nvidia-qm9700", "1:1"]["price"])))
    assert found["nvidia-qm9700", "1:1"]["without_price"] == "switch"
    (line,) = [
        line for line in fabric_choice.decision(plan).splitlines() if "nvidia-qm9700" in line and "| 1:1" in line
    ]
    assert " - | switch |" in line
    bare = rows(priced())["nvidia-sn5600", "1:1"]
    assert math.isnan(float(str(bare["price"])))
    assert bare["without_price"] == "cable switch transceiver"


def test_the_record_says_what_the_catalogue_lacks() -> None:
    assert "The catalogue has no RoCE switch with ports of 200 Gb/s" in fabric_choice.decision(plan_of("lab"))
