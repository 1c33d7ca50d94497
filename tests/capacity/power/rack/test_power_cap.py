"""A power cap: the loss of a feed is judged at it, everything else at nameplate."""

import re
from typing import Any

import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.outputs.summary import summarise
from inventory.site import load_site
from tests.capacity.sites import variant
from tests.findings import names, values
from tests.plans import plan_of

pytestmark = pytest.mark.usefixtures("stages_kept")

SITE = "b200-256-roce"


def capped_at(cap_w: float | None, **psu: Any) -> Plan:
    server = load_site(SITE).server
    changes: dict[str, Any] = {"power": server.power.model_copy(update={"cap_w": cap_w})}
    if psu:
        assert server.psu is not None
        changes["psu"] = server.psu.model_copy(update=psu)
    return build(variant(SITE, server=changes))


def test_without_a_cap_the_loss_of_any_of_three_feeds_fails_at_nameplate() -> None:
    found = [f for f in capped_at(None).findings if f.severity == "error"]
    lost = [f for f in found if f.id == "POWER-FEED-LOSS"]
    assert [f.subject for f in lost] == [f"nvidia-dgx-b200/{feed}" for feed in "ABC"]
    assert {(f.numbers["left_w"], f.numbers["load_w"], f.err) for f in lost} == {(13200, 14300, "ERR-05")}
    assert {f.id for f in found} == {"POWER-FEED-LOSS", "POWER-FAILURE"}


def test_the_shipped_site_holds_under_its_cap_and_says_so() -> None:
    plan = plan_of(SITE)
    assert [f.id for f in plan.findings if f.severity != "info" and f.id.startswith("POWER")] == []
    (cap,) = [f for f in plan.findings if f.id == "POWER-CAP"]
    assert dict(cap.numbers) == {"left_w": 13200, "capped_w": 13000, "load_w": 14300}


def test_a_cap_that_four_supplies_do_not_carry_fails() -> None:
    assert "POWER-FEED-LOSS" in {f.id for f in capped_at(13300.0).findings}


def test_under_the_cap_two_feeds_still_fail() -> None:
    found = capped_at(13000.0, split_by_feed={"A": 3, "B": 3}).findings
    assert [f.subject for f in found if f.id == "POWER-FEED-LOSS"] == ["nvidia-dgx-b200/A", "nvidia-dgx-b200/B"]


def test_the_least_change_under_a_cap_counts_the_supplies_that_the_cap_needs() -> None:
    found = capped_at(13000.0, split_by_feed={"A": 3, "B": 3}).findings
    short = [f for f in found if f.id in ("POWER-FEED-LOSS", "POWER-FAILURE")]
    assert len(short) == 4
    even = {"A": 2, "B": 2, "C": 2}
    assert all(values(f, "server.psu.split_by_feed") == [even] and names(f, 3, 2, 6) for f in short), short
    assert not [
        f for f in capped_at(13000.0, split_by_feed=even).findings if f.id in ("POWER-FEED-LOSS", "POWER-FAILURE")
    ]


def test_the_least_change_at_nameplate_is_a_cap_or_a_feed_for_each_supply() -> None:
    short = [f for f in capped_at(None).findings if f.id in ("POWER-FEED-LOSS", "POWER-FAILURE")]
    assert short
    assert all([one.settings for one in f.remedies] == [{"server.power.cap_w": 13200}, {}] for f in short), short
    assert all(re.search(r"\b6 feeds\D*\b1\D*\b6\b", f.remedies[1].text) for f in short), short
    assert not [f for f in capped_at(13200.0).findings if f.id in ("POWER-FEED-LOSS", "POWER-FAILURE")]


def test_circuits_carry_the_cap_after_a_loss_and_the_nameplate_before() -> None:
    free, capped = capped_at(None), capped_at(13000.0)
    rack, servers = "r01", 2
    worst, normal = (
        [plan.circuits.loc[plan.circuits["rack"] == rack, column].max() for plan in (free, capped)]
        for column in ("worst_kw", "load_kw")
    )
    assert normal[0] == normal[1]
    assert worst[0] - worst[1] == pytest.approx(servers * (14.3 - 13.0) / 2)
    assert (free.feeds["nameplate_kw"] == capped.feeds["nameplate_kw"]).all()
    assert (free.feeds["loss_kw"] > capped.feeds["loss_kw"]).all()


def test_purchase_and_heat_stay_at_nameplate() -> None:
    free, capped = capped_at(None), capped_at(13000.0)
    assert free.bom.equals(capped.bom)
    assert summarise(free)["heat"] == summarise(capped)["heat"]
