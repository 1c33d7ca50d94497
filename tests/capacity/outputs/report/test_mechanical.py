"""The page for the mechanical engineer says of the hall what the findings say."""

import copy
from dataclasses import replace

from capacity.build import build
from capacity.outputs.report import mechanical
from inventory.catalog import load_catalog
from inventory.site import load_site
from tests.capacity.sites import variant
from tests.plans import plan_of


def test_aisles_are_as_wide_as_the_catalogue_s_racks_leave_them() -> None:
    site = load_site("lab")
    catalog = copy.copy(load_catalog())
    deep = catalog.rack(site.rack.model).model_copy(update={"outer_depth": 1400.0})
    catalog.racks = {**catalog.racks, deep.slug: deep}
    plan = build(variant("lab", room={"rows": 2, "row_pitch_m": 3.0, "aisle_min_m": 1.7}), catalog)
    rows = dict(mechanical.space_rows(plan))
    assert rows["Rows"] == "every 3 m, which leaves aisles of 1.60 m between racks of 1.4 m"
    found = next(f for f in plan.findings if f.id == "SPACE-AISLE")
    assert found.numbers["clear_m"] == 1.6


def test_air_that_lasts_no_time_is_drawn_as_an_upright_line() -> None:
    plan = plan_of("b200-256-roce")
    figures = plan.cooling_figures
    at_once = figures["quantity"] == "no cooling, cold-side air alone"
    gone = replace(plan, cooling_figures=figures.assign(value=figures["value"].where(~at_once, 0.0)))
    assert "cold-side air alone 0.00 min" in mechanical.trip_picture(gone)
