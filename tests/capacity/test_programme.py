"""The programme against networkx, hand-worked networks and the seed's rules."""

import dataclasses
import datetime
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity import programme
from capacity.plan import build as plan_of
from capacity.programme import DRAWS, HOURS_PER_WEEK, Activity, _Network, build, percentile, simulate
from capacity.schedule import FACILITY_ITEMS
from inventory.catalog import load_catalog
from inventory.groups import DELIVERED_TO, GROUPS
from inventory.schema import LEADTIME_ITEMS, LeadTime, Tranche
from inventory.schema import Activity as SiteActivity
from inventory.site import Site, load_site
from tests.capacity.sites import variant
from validation.register import load_register

START = datetime.date(2026, 11, 1)


def work(name: str, hours: int, *after: str, high: int | None = None) -> Activity:
    return Activity(name, "work", "D04", hours, hours, high or hours, after)


def passes(network: list[Activity]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Early start, early finish and late start of one case."""
    index = _Network(network, START)
    duration = np.array([[a.likely_h] for a in network], dtype=np.int64)
    early, finish = index.forward(duration)
    late, _ = index.backward(duration, finish.max(axis=0))
    return early[:, 0], finish[:, 0], late[:, 0]


def given_activity(**values: Any) -> SiteActivity:
    return SiteActivity(**{"min_weeks": 1.0, "max_weeks": 1.0, "source": "test", **values})


def scheduled(site: Site, activities: dict[str, SiteActivity], **leads: tuple[float, float]) -> Site:
    """A site with other activities, and with other lead times where they are given."""
    changed = site.model_copy(update={"schedule": site.schedule.model_copy(update={"activities": activities})})
    if leads:
        times = {n: LeadTime(min_weeks=a, max_weeks=b, as_of=START, source="test") for n, (a, b) in leads.items()}
        changed = changed.model_copy(update={"leadtimes": times})
    return changed


def test_groups_are_those_of_the_step_register() -> None:
    register = load_register()
    assert {g.id: g.after for g in register.groups.values()} == {name: after for name, (_, after) in GROUPS.items()}


def test_every_lead_time_is_delivered_to_a_group() -> None:
    assert set(DELIVERED_TO) == set(LEADTIME_ITEMS)
    assert {item for item, group in DELIVERED_TO.items() if group == "D03"} == set(FACILITY_ITEMS)


def test_hand_worked_network() -> None:
    # a(3) -> c(4); b(2) -> c, b -> d(10); end waits for c and d.
    # early finish: a 3, b 2, c 7, d 12, end 12; c may start at 8 instead of 3: slack 5; a at 5: slack 5; b and d have none.
    network = [work("a", 3), work("b", 2), work("c", 4, "a", "b"), work("d", 10, "b"), work("end", 0, "c", "d")]
    early, finish, late = passes(network)
    assert finish.tolist() == [3, 2, 7, 12, 12]
    assert (late - early).tolist() == [5, 0, 5, 0, 0]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 500), st.sets(st.integers(0, 19), max_size=4)), min_size=1, max_size=20))
def test_longest_path_is_that_of_networkx(nodes: list[tuple[int, set[int]]]) -> None:
    network = [
        work(f"n{i}", hours, *(f"n{b}" for b in sorted(before) if b < i)) for i, (hours, before) in enumerate(nodes)
    ]
    network.append(work("end", 0, *(a.name for a in network)))
    graph = nx.DiGraph()
    graph.add_nodes_from(a.name for a in network)
    duration = {a.name: a.likely_h for a in network}
    graph.add_edges_from((b, a.name, {"weight": duration[b]}) for a in network for b in a.after)
    _, finish, _ = passes(network)
    assert finish[-1] == nx.dag_longest_path_length(graph)


def test_simulation_has_the_mean_of_pert_and_one_answer_everywhere() -> None:
    # PERT: (a + 4m + b)/6 = (100 + 4 x 200 + 600)/6 = 250 h.
    network = [Activity("a", "work", "D04", 100, 200, 600, ())]
    drawn = simulate(network)
    assert drawn.shape == (1, DRAWS)
    assert drawn.mean() == pytest.approx(250, rel=0.005)
    assert (drawn.min(), drawn.max()) >= (100, 0)
    assert drawn.max() <= 600
    assert np.array_equal(drawn, simulate(network))


def test_percentile_is_a_drawn_value() -> None:
    assert percentile(np.arange(1, 11, dtype=np.int64), 0.5) == 5
    assert percentile(np.arange(1, 11, dtype=np.int64), 0.9) == 9


def test_median_of_a_symmetric_range_is_its_middle() -> None:
    site = scheduled(load_site("lab"), {}, gpu=(20, 40))
    result = build(site, load_catalog())
    assert abs((result.finish["p50"] - (START + datetime.timedelta(weeks=30))).days) <= 1


def test_two_like_items_share_the_longest_path() -> None:
    site = scheduled(load_site("lab"), {}, gpu=(20, 40), server=(20, 40))
    frame = build(site, load_catalog()).activities.set_index("activity")
    shares = frame.loc[["gpu", "server"], "criticality_pct"]
    assert shares.sum() == pytest.approx(100, abs=2)
    assert (shares > 45).all()


def test_safe_order_is_need_date_less_lead_time_and_all_that_follows() -> None:
    # Acceptance of 2 weeks behind a lead time of 26 to 52 weeks: 54 weeks before the need date.
    site = scheduled(load_site("lab"), {"acceptance": given_activity(group="D13", max_weeks=2.0)}, gpu=(26, 52))
    frame = build(site, load_catalog()).activities.set_index("activity")
    need = site.schedule.need_date
    assert frame.loc["gpu", "safe_start"] == (need - datetime.timedelta(weeks=54)).isoformat()


def test_new_facility_decides_the_date_and_an_old_one_does_not() -> None:
    # ERR-25: 52 to 78 weeks of building against 26 to 52 of GPUs.
    green = variant("lab", schedule={"greenfield": True})
    frame = build(green, load_catalog()).activities.set_index("activity")
    assert frame.loc["facility", "critical"] == 1
    assert (frame.loc[["facility"], "criticality_pct"] > 95).all()
    brown = build(load_site("lab"), load_catalog()).activities
    assert "facility" not in set(brown["activity"])
    assert brown.set_index("activity").loc["gpu", "criticality_pct"] == 100


def test_what_to_expedite_first_gains_most() -> None:
    site = scheduled(load_site("lab"), {}, gpu=(10, 12), switch=(30, 60), optics=(30, 40))
    result = build(site, load_catalog())
    order = programme.expedite(result.activities)["activity"]
    assert order.iloc[0] == "switch"
    assert "gpu" not in set(order)


def test_promised_delivery_holds_the_date() -> None:
    site = load_site("h100-1000-ib")
    late = datetime.date(2029, 6, 1)
    tranches = tuple(t.model_copy(update={"promised_date": late}) for t in site.purchase.tranches)
    promised = site.model_copy(update={"purchase": site.purchase.model_copy(update={"tranches": tranches})})
    frame = build(promised, load_catalog()).activities.set_index("activity")
    assert frame.loc["gpu", "finish"] == late.isoformat()


def test_of_two_like_gains_the_one_more_often_on_the_longest_path_comes_first() -> None:
    frame = pd.DataFrame(
        {"activity": ["a", "b", "c"], "expedite_days": [5.0, 5.0, 0.0], "criticality_pct": [10.0, 60.0, 90.0]}
    )
    assert programme.expedite(frame)["activity"].tolist() == ["b", "a"]


def test_critical_path_is_a_chain_without_slack() -> None:
    path = programme.critical_path(build(load_site("h100-1000-ib"), load_catalog()).activities)
    assert path[0] == "transformer"
    assert path[-1] == "readiness"


def test_the_summary_says_what_the_programme_says() -> None:
    plan = plan_of(load_site("h100-1000-ib"))
    likes = plan.activities.assign(expedite_days=lambda a: a["expedite_days"].where(a["kind"] != "lead", 7.0))
    same = dataclasses.replace(plan, activities=likes)
    assert same.summary()["go_live"]["expedite_first"] == programme.expedite(likes)["activity"].tolist()
    assert same.summary()["go_live"]["critical_path"] == programme.critical_path(likes)


def promised(*tranches: Tranche) -> pd.DataFrame:
    """Activities of the large site with these tranches."""
    site = load_site("h100-1000-ib")
    changed = site.model_copy(update={"purchase": site.purchase.model_copy(update={"tranches": tranches})})
    return build(changed, load_catalog()).activities.set_index("activity")


LATE = datetime.date(2029, 6, 1)


def test_promised_delivery_of_an_item_holds_the_lead_time_that_it_waits_for() -> None:
    frame = promised(Tranche(name="t1", share_pct=100, items=("transceiver", "drive"), promised_date=LATE))
    on_time = promised()
    held = frame["finish"] == LATE.isoformat()
    assert held[["optics", "server"]].all()
    assert str(frame.loc["switch", "finish"]) == str(on_time.loc["switch", "finish"])


def test_a_tranche_without_items_promises_all_that_no_other_one_names() -> None:
    frame = promised(
        Tranche(name="t1", share_pct=100, items=("gpu",)), Tranche(name="t2", share_pct=100, promised_date=LATE)
    )
    held = frame["finish"] == LATE.isoformat()
    assert held[["switch", "optics", "storage", "server"]].all()
    assert str(frame.loc["gpu", "finish"]) == str(promised().loc["gpu", "finish"])


@pytest.mark.parametrize(
    ("group", "rule"),
    [("D04", "GPU"), ("D09", "FACILITY"), ("D12", "SOFTWARE"), ("D13", "STORAGE")],
)
def test_work_before_what_it_needs_breaks_the_rule_of_the_seed(group: str, rule: str) -> None:
    """ERR-23: each of the planning documents' orders of groups is an assertion."""
    before = {"D04": {}, "D09": {"install": "D03"}, "D12": {"stack": "D06"}, "D13": {"mount": "D10"}}[group]
    activities = {name: given_activity(group=g, max_weeks=30.0, min_weeks=30.0) for name, g in before.items()}
    activities["early"] = given_activity(group=group, start_date=START + datetime.timedelta(weeks=1))
    leads = {"gpu": (20.0, 30.0)} if group == "D04" else {"gpu": (1.0, 1.0)}
    found = build(scheduled(load_site("lab"), activities, **leads), load_catalog()).findings
    ids = {f.id for f in found if f.severity == "warning"}
    assert {"SCHEDULE-ORDER", f"SCHEDULE-RULE-{rule}"} <= ids
    assert all(f.err == "ERR-23" for f in found if f.id.startswith(("SCHEDULE-ORDER", "SCHEDULE-RULE-")))


def test_work_in_its_order_breaks_no_rule() -> None:
    activities = {"late": given_activity(group="D13", start_date=START + datetime.timedelta(weeks=200))}
    found = build(scheduled(load_site("lab"), activities), load_catalog()).findings
    assert not [f for f in found if f.id.startswith(("SCHEDULE-ORDER", "SCHEDULE-RULE-"))]


def test_slower_switches_than_nics_break_the_rule_of_generations() -> None:
    site = variant("h100-1000-ib", fabric={"switch_model": "lab-ib-switch-8"})
    assert "SCHEDULE-RULE-NETWORK" in {f.id for f in programme.check_generations(site, load_catalog())}
    assert not programme.check_generations(load_site("h100-1000-ib"), load_catalog())


def test_schedule_without_a_pilot_says_so() -> None:
    site = scheduled(load_site("lab"), {"stack": given_activity(group="D06")})
    assert [f.id for f in programme.check_pilot(site)] == ["SCHEDULE-RULE-SOFTWARE"]


def test_change_of_one_lead_time_is_shown_as_a_difference() -> None:
    before = scheduled(load_site("lab"), {}, gpu=(20, 20))
    after = scheduled(load_site("lab"), {}, gpu=(22, 22))
    frames = [build(site, load_catalog()).activities for site in (before, after)]
    moved = programme.differences(*frames).set_index("activity")["moved_days"]
    assert moved.to_dict() == {"gpu": 14, "go-live": 14}
    assert programme.differences(frames[0], frames[0]).empty


def test_burn_in_of_the_limit_is_an_activity() -> None:
    site = scheduled(load_site("h100-1000-ib"), {})
    row = build(site, load_catalog()).activities.set_index("activity").loc["burn-in"]
    assert row["max_days"] * 24 == site.limits["burn_in_h"].value
    assert HOURS_PER_WEEK == 168
