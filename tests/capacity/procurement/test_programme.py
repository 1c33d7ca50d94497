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

from capacity import stages
from capacity.build import build as plan_of
from capacity.outputs.summary import summarise
from capacity.procurement import order_dates, programme
from capacity.procurement.order_dates import FACILITY_ITEMS
from capacity.procurement.programme import DRAWS, HOURS_PER_WEEK, Activity, Tie, _Network, build, percentile, simulate
from inventory.catalog import load_catalog
from inventory.findings import Finding
from inventory.groups import DELIVERED_TO
from inventory.site import Site, load_site
from inventory.site.sections.purchase import Tranche
from inventory.site.sections.schedule import LEADTIME_ITEMS, LeadTime, Link, WorkCalendar
from inventory.site.sections.schedule import Activity as SiteActivity
from tests import plans
from tests.capacity.sites import variant
from tests.findings import names

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
    brown = plans.plan_of("lab").activities
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
    path = programme.critical_path(plans.plan_of("h100-1000-ib").activities)
    assert path[0] == "transformer"
    assert path[-1] == "readiness"


def test_the_summary_says_what_the_programme_says() -> None:
    plan = plan_of(load_site("h100-1000-ib"))
    likes = plan.activities.assign(expedite_days=lambda a: a["expedite_days"].where(a["kind"] != "lead", 7.0))
    same = dataclasses.replace(plan, activities=likes)
    assert summarise(same)["go_live"]["expedite_first"] == programme.expedite(likes)["activity"].tolist()
    assert summarise(same)["go_live"]["critical_path"] == programme.critical_path(likes)


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
    """ERR-23: each order of groups that the rules name is an assertion."""
    before = {"D04": {}, "D09": {"install": "D03"}, "D12": {"stack": "D06"}, "D13": {"mount": "D10"}}[group]
    activities = {name: given_activity(group=g, max_weeks=30.0, min_weeks=30.0) for name, g in before.items()}
    activities["early"] = given_activity(group=group, start_date=START + datetime.timedelta(weeks=1))
    leads = {"gpu": (20.0, 30.0)} if group == "D04" else {"gpu": (1.0, 1.0)}
    found = build(scheduled(load_site("lab"), activities, **leads), load_catalog()).findings
    ids = {f.id for f in found if f.severity == "warning"}
    assert {"SCHEDULE-ORDER", f"SCHEDULE-RULE-{rule}"} <= ids
    assert all(f.err == "ERR-23" for f in found if f.id.startswith(("SCHEDULE-ORDER", "SCHEDULE-RULE-")))


def test_the_start_that_is_named_is_not_a_part_of_a_day_too_early() -> None:
    """What comes before ends within a day: the next day begins after it."""

    def found(start: datetime.date) -> list[Finding]:
        activities = {
            "install": given_activity(group="D03", max_weeks=30.05, min_weeks=30.05),
            "early": given_activity(group="D09", start_date=start),
        }
        site = scheduled(load_site("lab"), activities, gpu=(1.0, 1.0))
        return [one for one in build(site, load_catalog()).findings if one.subject == "schedule.activities.early"]

    early = found(START + datetime.timedelta(weeks=1))
    (named,) = {
        way.settings["schedule.activities.early.start_date"] for one in early for way in one.remedies if way.settings
    }
    assert early
    assert not found(datetime.date.fromisoformat(named))


def test_for_the_need_date_that_is_named_no_order_is_a_part_of_a_day_late() -> None:
    def late(need: datetime.date) -> list[Finding]:
        site = scheduled(load_site("lab"), {"acceptance": given_activity(group="D13", max_weeks=2.05)}, gpu=(26, 52.05))
        site = site.model_copy(update={"schedule": site.schedule.model_copy(update={"need_date": need})})
        built: stages.Built = {}
        return [one for one in stages.dates(site, load_catalog(), built)[1] if one.id == "SCHEDULE-LATE"]

    (one,) = late(START)
    (named,) = [way.settings["schedule.need_date"] for way in one.remedies if "schedule.need_date" in way.settings]
    assert not late(datetime.date.fromisoformat(named))


def test_work_in_its_order_breaks_no_rule() -> None:
    activities = {"late": given_activity(group="D13", start_date=START + datetime.timedelta(weeks=200))}
    found = build(scheduled(load_site("lab"), activities), load_catalog()).findings
    assert not [f for f in found if f.id.startswith(("SCHEDULE-ORDER", "SCHEDULE-RULE-"))]


def test_slower_switches_than_nics_break_the_rule_of_generations() -> None:
    site = variant("h100-1000-ib", fabric={"switch_model": "lab-ib-switch-8"})
    assert "SCHEDULE-RULE-NETWORK" in {f.id for f in programme.check_generations(site, load_catalog())}
    assert not programme.check_generations(load_site("h100-1000-ib"), load_catalog())
    nic = site.server.nic.model_copy(update={"pcie_gen": 3})
    older = site.model_copy(update={"server": site.server.model_copy(update={"nic": nic})})
    (both,) = programme.check_generations(older, load_catalog())
    assert names(both, "Gen3", "Gen5", nic.rate_gbps, both.numbers["switch_gbps"])


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
    assert row["max_days"] * 24 == site.limits["burn_in_required_h"].value
    assert HOURS_PER_WEEK == 168


def test_racking_waits_for_the_room_and_receiving_does_not() -> None:
    # The building takes 60 weeks, GPUs 10: receiving in week 10, racking in week 60.
    activities = {
        "receiving": given_activity(group="D04", needs_room=False),
        "racking": given_activity(group="D04", after=("receiving",)),
    }
    site = scheduled(variant("lab", schedule={"greenfield": True}), activities, gpu=(10, 10), facility=(60, 60))
    frame = build(site, load_catalog()).activities.set_index("activity")
    assert frame.loc[["receiving", "racking"], "start"].tolist() == [
        (START + datetime.timedelta(weeks=weeks)).isoformat() for weeks in (10, 60)
    ]


def test_racking_agreed_for_before_the_room_breaks_the_rule_of_the_room() -> None:
    activities = {
        "install": given_activity(group="D03", min_weeks=30.0, max_weeks=30.0),
        "racking": given_activity(group="D04", start_date=START + datetime.timedelta(weeks=5)),
    }
    found = build(scheduled(load_site("lab"), activities, gpu=(1, 1)), load_catalog()).findings
    assert {"SCHEDULE-ORDER", "SCHEDULE-RULE-ROOM"} <= {f.id for f in found}


def test_delivery_of_the_building_that_holds_the_room_breaks_the_rule_of_the_room() -> None:
    activities = {"racking": given_activity(group="D04", start_date=START + datetime.timedelta(weeks=5))}
    site = scheduled(variant("lab", schedule={"greenfield": True}), activities, gpu=(1, 1), facility=(60, 60))
    assert "SCHEDULE-RULE-ROOM" in {f.id for f in build(site, load_catalog()).findings}


def test_work_of_d04_that_all_needs_no_room_breaks_the_rule_of_the_room() -> None:
    activities = {"racking": given_activity(group="D04", needs_room=False)}
    found = programme.check_room(scheduled(load_site("lab"), activities))
    assert [f.id for f in found] == ["SCHEDULE-RULE-ROOM"]
    assert not programme.check_room(load_site("h100-1000-ib"))


def test_a_promise_that_decides_the_date_is_the_critical_path() -> None:
    gpu = Tranche(name="all", share_pct=100, items=("gpu",), promised_date=LATE)
    site = load_site("b200-256-roce")
    changed = site.model_copy(update={"purchase": site.purchase.model_copy(update={"tranches": (gpu,)})})
    result = build(changed, load_catalog())
    frame = result.activities.set_index("activity")
    assert list(frame.loc["gpu", ["slack_days", "critical", "criticality_pct"]]) == [0.0, 1, 100.0]
    assert programme.critical_path(result.activities)[0] == "gpu"
    assert programme.expedite(result.activities)["activity"].iloc[0] == "gpu"
    late = next(f for f in result.findings if f.id == "SCHEDULE-NEED-DATE")
    assert names(late, "gpu", "2029-06-01")


def test_safe_order_of_a_promised_delivery_counts_the_promise() -> None:
    # Lead time of 10 weeks, promised for week 20: with nothing behind it the order is safe 20 weeks before the need date.
    site = scheduled(load_site("lab"), {}, gpu=(10, 10))
    week_20 = START + datetime.timedelta(weeks=20)
    tranche = Tranche(name="all", share_pct=100, promised_date=week_20)
    changed = site.model_copy(update={"purchase": site.purchase.model_copy(update={"tranches": (tranche,)})})
    frame = build(changed, load_catalog()).activities.set_index("activity")
    assert frame.loc["gpu", "safe_start"] == (site.schedule.need_date - datetime.timedelta(weeks=20)).isoformat()


def test_a_promise_with_a_range_moves_the_late_dates_only() -> None:
    site = scheduled(load_site("lab"), {}, gpu=(10, 10))
    first, last = (START + datetime.timedelta(weeks=weeks) for weeks in (20, 30))
    tranche = Tranche(name="all", share_pct=100, promised_date=first, promised_latest=last)
    changed = site.model_copy(update={"purchase": site.purchase.model_copy(update={"tranches": (tranche,)})})
    finish = build(changed, load_catalog()).finish
    assert (finish["likely"], finish["longest"]) == (first, last)
    assert first < finish["p50"] < finish["p90"] < last


def test_servers_wait_for_their_gpus_where_the_site_says_so() -> None:
    site = scheduled(load_site("lab"), {}, gpu=(20, 20), server=(10, 10))
    leads = site.leadtimes | {"server": site.leadtimes["server"].model_copy(update={"after": ("gpu",)})}
    frame = build(site.model_copy(update={"leadtimes": leads}), load_catalog()).activities.set_index("activity")
    assert frame.loc["server", "finish"] == (START + datetime.timedelta(weeks=30)).isoformat()
    assert frame.loc["gpu", "safe_start"] == (site.schedule.need_date - datetime.timedelta(weeks=30)).isoformat()


def test_lead_times_of_an_old_building_count_where_the_site_gives_them() -> None:
    site = scheduled(load_site("lab"), {}, gpu=(10, 10), transformer=(40, 40), facility=(80, 80))
    frame = build(site, load_catalog()).activities.set_index("activity")
    assert frame.loc["transformer", "critical"] == 1
    assert "facility" not in frame.index


TIES = ("FS", "SS", "FF", "SF")


def relaxed(network: list[Activity], start: datetime.date, days: list[bool] | None) -> tuple[list[int], list[int]]:
    """The oracle: start and finish of each activity in whole days, by trying one day after the other.

    `days` says which days are worked, None all of them. A day is the moment at its beginning.
    """
    starts: dict[str, int] = {}
    ends: dict[str, int] = {}

    def worked(day: int) -> bool:
        return days is None or days[day]

    def shifted(day: int, tie: Tie) -> int:
        day += tie.lag_h // 24
        left = int(tie.lag_days)
        if days is None:
            return day + left * 7 // 5
        while left > 0:
            left -= worked(day)
            day += 1
        return day

    for a in network:
        length = a.likely_h // 24 if days is None else a.likely_h // 24 * 5 // 7

        def end_of(begin: int, length: int = length) -> int:
            left, day = length, begin
            while left > 0:
                left -= worked(day)
                day += 1
            return day

        begin, least = 0, 0
        for tie in a.waits_for:
            moment = shifted((ends if tie.type[0] == "F" else starts)[tie.before], tie)
            if tie.type[1] == "S":
                begin = max(begin, moment)
            else:
                least = max(least, moment)
        if not length:
            begin = max(begin, least)
        while (length and not worked(begin)) or (
            length
            # the finish may wait for its tie over days off, never over days that could be worked
            and end_of(begin) < least
            and any(worked(day) for day in range(end_of(begin), least))
        ):
            begin += 1
        starts[a.name], ends[a.name] = begin, max(end_of(begin), least)
    return [starts[a.name] for a in network], [ends[a.name] for a in network]


ties = st.tuples(st.integers(0, 9), st.sampled_from(TIES), st.integers(0, 9))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.lists(ties, max_size=3)), min_size=1, max_size=10),
    st.sampled_from([None, (), ("2026-11-04", "2026-11-05"), ("2026-11-02", "2026-11-20", "2026-12-25")]),
)
def test_ties_with_lags_are_those_of_an_oracle_that_tries_day_by_day(
    nodes: list[tuple[int, list[tuple[int, str, int]]]], holidays: tuple[str, ...] | None
) -> None:
    network = [
        dataclasses.replace(
            work(f"n{i}", weeks * 168),
            ties=tuple(
                Tie(f"n{b}", kind, 24 * (lag % 5), 0 if holidays is None else lag % 3)
                for b, kind, lag in before
                if b < i
            ),
        )
        for i, (weeks, before) in enumerate(nodes)
    ]
    network.append(work("end", 0, *(a.name for a in network)))
    calendar, days = None, None
    if holidays is not None:
        calendar = WorkCalendar(holidays=tuple(map(datetime.date.fromisoformat, holidays)), source="test")
        every = [START + datetime.timedelta(days=n) for n in range(3000)]
        days = [d.weekday() < 5 and d.isoformat() not in holidays for d in every]
    index = _Network(network, START, calendar)
    duration = np.array([[a.likely_h] for a in network], dtype=np.int64)
    early, finish = index.forward(duration)
    starts, ends = relaxed(network, START, days)
    assert (finish[:, 0] / 24).tolist() == ends
    assert (early[:, 0] / 24).tolist() == starts


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.lists(ties, max_size=3)), min_size=1, max_size=10),
    st.booleans(),
    st.integers(0, 1023),
)
def test_work_may_start_as_late_as_the_backward_pass_says_and_no_later(
    nodes: list[tuple[int, list[tuple[int, str, int]]]], with_calendar: bool, continuous: int
) -> None:
    """An activity that is held until its late start leaves the end where it is; a working day more moves it."""
    network = [
        dataclasses.replace(
            work(f"n{i}", weeks * 72),
            ties=tuple(Tie(f"n{b}", kind, 24 * (lag % 4), lag // 4) for b, kind, lag in before if b < i),
            continuous=bool(continuous >> i & 1),
        )
        for i, (weeks, before) in enumerate(nodes)
    ]
    network.append(work("end", 0, *(a.name for a in network)))
    calendar = WorkCalendar(holidays=(datetime.date(2026, 11, 5),), source="test") if with_calendar else None
    index = _Network(network, START, calendar)
    duration = np.array([[a.likely_h] for a in network], dtype=np.int64)
    early, finish = index.forward(duration)
    late, _ = index.backward(duration, finish[-1])
    decides = index.driving(duration, early, finish)
    assert (late >= early).all()
    if not with_calendar:
        assert np.array_equal(decides, late == early)
    for i in range(len(network) - 1):
        for extra, moves in ((0, False), (24 * 5, True)):
            index.earliest[i] = int(late[i, 0]) + extra
            _, moved = index.forward(duration)
            assert (moved[-1, 0] > finish[-1, 0]) == moves
        index.earliest[i] = 0


def test_a_site_ties_work_with_kind_and_lag() -> None:
    # racking of 4 weeks from day 0; cabling may start 10 days after racking starts, tests end 3 days after cabling ends.
    links = {
        "cabling": (Link(activity="racking", type="SS", lag_days=10),),
        "tests": (Link(activity="cabling", type="FF", lag_days=3),),
    }
    activities = {
        "racking": given_activity(group="D04", min_weeks=4.0, max_weeks=4.0),
        "cabling": given_activity(group="D04", min_weeks=3.0, max_weeks=3.0, links=links["cabling"]),
        "tests": given_activity(group="D04", links=links["tests"]),
    }
    result = build(scheduled(load_site("lab"), activities, gpu=(0, 0)), load_catalog())
    frame = result.activities.set_index("activity")
    first = START
    assert frame.loc["cabling", "start"] == (first + datetime.timedelta(days=10)).isoformat()
    assert frame.loc["tests", "finish"] == (first + datetime.timedelta(days=34)).isoformat()
    assert frame.loc["cabling", "after"] == "D04 room, racking SS +10 d"
    assert result.finish["likely"] == first + datetime.timedelta(days=34)


def test_work_counts_the_days_of_the_calendar_and_lead_times_do_not() -> None:
    # START is a Sunday. A lead time of a week ends on Sunday 8 November; a week of work is Monday to Friday and, with
    # the holiday on the Wednesday, the Monday after: done at the end of 16 November.
    calendar = WorkCalendar(holidays=(datetime.date(2026, 11, 11),), source="test")
    site = scheduled(load_site("lab"), {"racking": given_activity(group="D04")}, gpu=(1, 1))
    site = site.model_copy(update={"schedule": site.schedule.model_copy(update={"calendar": calendar})})
    frame = build(site, load_catalog()).activities.set_index("activity")
    assert frame.loc["gpu", "finish"] == "2026-11-08"
    assert list(frame.loc["racking", ["start", "finish"]]) == ["2026-11-09", "2026-11-17"]
    around = {"racking": given_activity(group="D04", continuous=True)}
    frame = build(scheduled(site, around), load_catalog()).activities.set_index("activity")
    assert frame.loc["racking", "finish"] == "2026-11-15"


def tranched(**racking: Any) -> pd.DataFrame:
    """The lab with GPUs in two tranches, the second promised for week 40, and racking in two parts."""
    activities = {
        "racking-1": given_activity(group="D04", tranche="t1"),
        "racking-2": given_activity(group="D04", tranche="t2", after=("racking-1",)),
        "cabling": given_activity(group="D04", after=("racking-2",)),
    }
    site = scheduled(load_site("lab"), activities, gpu=(20, 20))
    week_40 = START + datetime.timedelta(weeks=40)
    tranches = (
        Tranche(name="t1", share_pct=50),
        Tranche(name="t2", share_pct=50, promised_date=week_40, source="test"),
    )
    changed = site.model_copy(update={"purchase": site.purchase.model_copy(update={"tranches": tranches})})
    return build(changed, load_catalog()).activities.set_index("activity")


def test_racking_of_a_tranche_waits_for_its_own_delivery() -> None:
    frame = tranched()
    weeks = [
        (datetime.date.fromisoformat(day) - START).days // 7 for day in frame.loc[["racking-1", "racking-2"], "start"]
    ]
    assert weeks == [20, 40]


def test_each_tranche_has_its_own_safe_order_and_the_item_that_of_the_first() -> None:
    # t1: 20 weeks and racking-1, racking-2, cabling; t2: 40 weeks as promised, racking-2 and cabling.
    frame = tranched()
    dates = programme.order_dates(frame.reset_index())
    need = load_site("lab").schedule.need_date
    assert dates["gpu", "t1"] == (need - datetime.timedelta(weeks=23)).isoformat()
    assert dates["gpu", "t2"] == dates["gpu", ""] == (need - datetime.timedelta(weeks=42)).isoformat()


def test_tranches_of_one_order_take_equally_long_in_a_draw() -> None:
    network = programme.activities(load_site("h100-1000-ib"))
    at = [i for i, a in enumerate(network) if a.part[0] == "gpu"]
    drawn = simulate(network)
    assert len(at) == 2
    assert np.array_equal(*drawn[at])


def test_work_of_thousands_of_years_has_dates() -> None:
    long = {
        f"w{n}": given_activity(group="D04", max_weeks=520.0, after=(f"w{n - 1}",) if n else ()) for n in range(900)
    }
    site = scheduled(load_site("lab"), long)
    calendar = WorkCalendar(working_days=("mon",), source="test")
    site = site.model_copy(update={"schedule": site.schedule.model_copy(update={"calendar": calendar})})
    result = build(site, load_catalog())
    assert result.finish["longest"] == datetime.date.max
    safe = programme.order_dates(result.activities)
    _, found = order_dates.build(
        site.leadtimes, site.schedule.need_date, result.activities, safe, result.finish["longest"]
    )
    assert "SCHEDULE-LATE" in {f.id for f in found}
