"""Order dates: the safe ones of the network, and need date less lead time, carried as a range (ERR-25).

    frame, findings = build(leadtimes, need_date, activities, safe, longest)

The building itself counts only for a new facility (greenfield); a transformer or a chiller that is bought for an old one has
its lead time all the same. Pure: no clock; an order cannot be placed before the start of the programme, which is the date of
the latest quote unless the site says otherwise.
"""

import datetime
import math
from collections.abc import Mapping

import pandas as pd

from inventory.findings import Finding, finding, remedy
from inventory.site.sections.schedule import LeadTime

FACILITY_ITEMS = frozenset({"facility", "transformer", "switchgear", "generator", "ups", "cooling"})
"""Items of the building and its supply: they are delivered to D03."""
BUILDING = frozenset({"facility"})
"""Items that a new facility needs and an existing one already has."""


def latest_orders(need_date: datetime.date, min_weeks: float, max_weeks: float) -> tuple[datetime.date, datetime.date]:
    """Order dates (with the longest, with the shortest lead time) for a delivery on `need_date` (RC-001)."""
    return need_date - datetime.timedelta(weeks=max_weeks), need_date - datetime.timedelta(weeks=min_weeks)


def critical_item(leadtimes: Mapping[str, LeadTime], greenfield: bool) -> str:
    """The item with the longest lead time (by its maximum, then its minimum)."""
    counted = {item: lead for item, lead in leadtimes.items() if greenfield or item not in BUILDING} or dict(leadtimes)
    return max(counted, key=lambda item: (counted[item].max_weeks, counted[item].min_weeks, item))


def build(
    leadtimes: Mapping[str, LeadTime],
    need_date: datetime.date,
    activities: pd.DataFrame,
    safe: Mapping[tuple[str, str], str],
    longest: datetime.date,
) -> tuple[pd.DataFrame, list[Finding]]:
    """The `schedule` frame, longest lead time first, and a warning SCHEDULE-LATE per order that is already too late.

    `activities` is the frame of the programme, `safe` the safe order dates by item and tranche, `longest` go-live with every
    duration at its longest.
    """
    leads = activities[activities["kind"] == "lead"]
    leads = leads.assign(item=leads["activity"].str.partition(" ")[0])
    by_item = leads.groupby("item")[["criticality_pct", "expedite_days"]].max()
    rows, findings = [], []
    for item, lead in sorted(leadtimes.items(), key=lambda pair: (-pair[1].max_weeks, -pair[1].min_weeks, pair[0])):
        if (item, "") not in safe:
            continue
        early, late = latest_orders(need_date, lead.min_weeks, lead.max_weeks)
        own = by_item.loc[item]
        rows.append(
            (
                item,
                lead.min_weeks,
                lead.max_weeks,
                safe[item, ""],
                need_date.isoformat(),
                early.isoformat(),
                late.isoformat(),
                lead.source,
                own["criticality_pct"],
                own["expedite_days"],
            )
        )
    for row in leads[leads["margin_days"] < 0].to_dict("records"):
        findings.append(_late({str(k): v for k, v in row.items()}, leadtimes[row["item"]], need_date, longest))
    columns = [
        "activity",
        "lead_min_weeks",
        "lead_max_weeks",
        "safe_order",
        "need_date",
        "go_live_day_order_early",
        "go_live_day_order_late",
        "source",
        "criticality_pct",
        "expedite_days",
    ]
    return pd.DataFrame(rows, columns=columns), findings


def _late(row: Mapping[str, object], lead: LeadTime, need_date: datetime.date, longest: datetime.date) -> Finding:
    """SCHEDULE-LATE of one order, from its row of the activities."""
    late_days = math.ceil(-float(str(row["margin_days"])))
    safe = datetime.date.fromisoformat(str(row["safe_start"])).toordinal()
    possible = datetime.date.fromordinal(min(safe + late_days, datetime.date.max.toordinal()))
    after = str(row["after"]).replace("D00 done, ", "").replace("D00 done", "")
    max_weeks = math.floor((lead.max_weeks - late_days / 7) * 10) / 10
    remedies = [remedy({"schedule.need_date": longest.isoformat()}, fix="later-go-live")]
    if row["promised"]:
        remedies.insert(0, remedy(fix="sooner-delivery", promised=row["promised"]))
    elif max_weeks >= lead.min_weeks:  # nothing is delivered in less
        given = {"max_weeks": lead.max_weeks, "likely_weeks": lead.likely_weeks}
        longer = [key for key, weeks in given.items() if weeks is not None and weeks > max_weeks]
        shorter = {f"leadtimes.{row['item']}.{key}": max_weeks for key in longer}
        remedies.insert(0, remedy(shorter, fix="shorter-lead"))
    return finding(
        "SCHEDULE-LATE",
        f"leadtimes.{row['item']}",
        case="waits" if after else "now",
        limit=0.0,
        limit_source=lead.source,
        err="ERR-25",
        remedies=remedies,
        words={
            "activity": row["activity"],
            "late_days": late_days,
            "due": row["safe_start"],
            "need_date": need_date,
            "after": after,
            "possible": possible,
        },
        slack_days=-late_days,
        max_weeks=lead.max_weeks,
    )
