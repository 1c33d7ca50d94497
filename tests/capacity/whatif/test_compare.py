"""Two plans side by side, and options ranked."""

import pandas as pd
import pytest

from capacity.build import build
from capacity.whatif import compare, optimise
from capacity.whatif import page as comparison
from inventory.site import SiteError
from inventory.site.whatif import Base, axes, changed
from tests.plans import plan_of


def test_a_plan_does_not_differ_from_itself() -> None:
    plan = plan_of("b200-256-roce")
    made = compare.compare(plan, plan)
    assert made.differing.empty
    assert made.bom.empty
    assert made.orders.empty
    assert made.dates.empty
    assert not made.only_a
    assert "No figure differs" in comparison.render(made)


def test_what_a_change_changes_is_named_with_its_amount() -> None:
    a, b = plan_of("lab"), build(changed("lab", ["server.count=3", "leadtimes.gpu.max_weeks=60"]))
    made = compare.compare(a, b)
    figures = made.differing.set_index("what")
    assert figures.loc["GPUs", "change"] == "-8 (-25.0 %)"
    # The range's middle moves by four weeks, and so does the likely date.
    assert figures.loc["go-live, likely", "change"] == "+28 days"
    assert made.orders.set_index("item").loc["gpu", "change"] == "-56 days"
    assert made.dates.set_index("activity").loc["gpu", "moved_days"] == 28
    page = comparison.render(made)
    assert "<td>gpu</td>" in page
    assert a.hash in page
    assert b.hash in page
    lines = made.bom.set_index("item")
    assert lines.loc["gpu", "change"] == -8
    assert made.name_b == "lab server.count=3 leadtimes.gpu.max_weeks=60"


def test_building_and_running_cost_are_compared() -> None:
    base = Base.read("b200-256-roce")
    a, b = build(base.site), build(base.changed(["server.count=16", "electrical.transformers.n_plus=1"]))
    figures = compare.compare(a, b).differing
    more = dict(
        zip(
            figures["what"],
            pd.to_numeric(figures["b"], errors="coerce") > pd.to_numeric(figures["a"], errors="coerce"),
            strict=True,
        )
    )
    assert more["transformers"]
    assert not any(more[what] for what in ("service", "air units", "energy and demand a year"))
    assert {"PUE on the design day", "PUE over the year"} <= set(more)


def test_findings_that_only_one_plan_has() -> None:
    a, b = plan_of("h100-1000-ib"), build(changed("h100-1000-ib", ["rack.servers=4"]))
    made = compare.compare(a, b)
    assert "SPACE-RACK-POWER" in {f.id for f in made.only_b}
    assert not [f.id for f in made.only_b for way in f.remedies if way.settings and not way.sure], "nobody tried it"
    page = comparison.render(made)
    assert "SPACE-RACK-POWER" in page
    assert "<script" not in page


def test_text_of_a_finding_cannot_inject_markup() -> None:
    made = compare.compare(plan_of("lab"), build(changed("lab", ["storage.source=<b>x"])))
    assert "<b>x" not in comparison.render(made)
    assert "&lt;b&gt;x" in comparison.render(made)


def test_options_are_ranked_by_the_given_order_and_the_rest_say_what_rules_them_out() -> None:
    base = Base.read("b200-256-roce")
    result = optimise.explore(base, axes("rack.servers=1..4"), by=("racks", "cost", "power", "date"))
    assert result.ranked["racks"].is_monotonic_increasing
    assert set(result.ranked["rack.servers"]) | set(result.ruled_out["rack.servers"]) == {"1", "2", "3", "4"}
    assert (result.ruled_out["id"] != "").all()
    assert result.ruled_out["why"].str.contains("Fix: .*that verb tries each").any()
    assert not result.ruled_out["why"].str.contains("Fix: rack.servers:").any(), "nobody tried it"
    assert result.ranked["pareto"].iloc[0] == 1


def test_values_that_the_site_file_refuses_are_ruled_out_with_its_words() -> None:
    result = optimise.explore(Base.read("lab"), axes("rack.height_u=48,52"))
    refused = result.ruled_out[result.ruled_out["id"] == "SITE-FILE"]
    assert refused["rack.height_u"].tolist() == ["52"]
    assert "rack.height_u" in refused["why"].iloc[0]


def test_unknown_key_is_an_error_not_an_empty_list() -> None:
    with pytest.raises(SiteError, match="servers"):
        optimise.explore(Base.read("lab"), axes("rack.servrs=2..3"))


def test_undominated_options_by_hand() -> None:
    frame = pd.DataFrame(
        {"cost": [1.0, 2.0, 2.0], "facility_kw": [5.0, 4.0, 5.0], "racks": [1, 1, 1], "go_live_p90": ["2028-01-01"] * 3}
    )
    assert optimise.pareto(frame).tolist() == [1, 1, 0]


def test_a_better_plant_is_the_better_option():
    result = optimise.explore(Base.read("b200-256-roce"), axes("cooling.plant.chiller_cop=3,7"))
    best, other = result.ranked.to_dict("records")
    assert (best["cooling.plant.chiller_cop"], other["cooling.plant.chiller_cop"]) == ("7", "3")
    assert (best["pareto"], other["pareto"]) == (1, 0)
    assert best["it_kw"] == other["it_kw"]
    assert best["facility_kw"] < other["facility_kw"]
    assert best["pue"] < other["pue"]


def test_options_alike_stand_in_the_order_of_their_warnings():
    ranked = optimise.explore(Base.read("b200-256-roce"), axes("cooling.dewpoint_c=17,15")).ranked
    assert ranked["facility_kw"].nunique() == 1
    assert ranked["warnings"].is_monotonic_increasing
    assert ranked["warnings"].nunique() == 2
