"""The page of a buyer."""

import re

import pytest
from lxml import html

from capacity.build import build
from capacity.outputs.report import buying
from inventory.site.whatif import changed
from tests.capacity.golden import SITES
from tests.plans import plan_of


@pytest.mark.parametrize("name", SITES)
def test_page_names_every_order_with_its_dates(name: str) -> None:
    plan = plan_of(name)
    page = html.fromstring(f"<div>{buying.page(plan)}</div>")
    rows = page.xpath("//table[1]/tbody/tr")
    leads = plan.activities[plan.activities["kind"] == "lead"]
    assert {row.xpath("string(td[1])") for row in rows[: len(leads)]} == set(leads["activity"])
    dates = [row.xpath("string(td[2])") for row in rows[: len(leads)]]
    assert dates == sorted(dates)


def test_an_order_that_is_too_late_is_said_in_words_not_in_colour_alone() -> None:
    plan = plan_of("h100-1000-ib")
    rows = {row["item"]: row for row in buying.order_rows(plan)}
    assert rows["transformer"]["word"] == "✗ too late"
    assert rows["rack"]["word"] == "✓ in time"


def test_gantt_has_a_bar_per_activity_inside_the_picture() -> None:
    plan = plan_of("h100-1000-ib")
    drawn = buying.gantt(plan.activities, plan.site.schedule.need_date)
    bars = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)
    assert len(bars) == int(plan.activities["kind"].isin(["lead", "work"]).sum())
    assert all(float(x) + float(w) <= buying.LABEL_PX + buying.CHART_PX for x, w in bars)


def test_site_without_prices_says_so() -> None:
    assert "has no prices" in buying.page(plan_of("lab"))


def test_names_are_escaped() -> None:
    site = changed("lab", ['purchase.owners={"*": "<i>x</i>"}'])
    assert "<i>x</i>" not in buying.page(build(site))


def test_long_times_between_interruptions_are_written_without_an_exponent() -> None:
    """32 GPUs of the lab: 50,677 / 32 = 1,584 h."""
    page = buying.page(plan_of("lab"))
    rows = page[page.index("Time between interruptions") :]
    assert "1,584 h" in rows
    assert not re.search(r"\de[+]\d", rows)
