"""Latest order dates: need date less lead time, carried as a range (ERR-25).

The facility path counts only for a new facility (greenfield). Pure: no clock; lateness is judged against the date of
the quote (`as_of`), since an order cannot have been placed on that quote before it.
"""

import datetime
from collections.abc import Mapping

import pandas as pd

from inventory.findings import Finding
from inventory.schema import LeadTime

FACILITY_ITEMS = frozenset({"facility", "transformer", "switchgear", "generator", "ups", "cooling"})
"""Items that a new facility needs and an existing one already has."""


def latest_orders(need_date: datetime.date, min_weeks: float, max_weeks: float) -> tuple[datetime.date, datetime.date]:
    """Latest order dates (with the longest, with the shortest lead time)."""
    return need_date - datetime.timedelta(weeks=max_weeks), need_date - datetime.timedelta(weeks=min_weeks)


def critical_item(leadtimes: Mapping[str, LeadTime], greenfield: bool) -> str:
    """The item with the longest lead time (by its maximum, then its minimum)."""
    counted = {item: lead for item, lead in leadtimes.items() if greenfield or item not in FACILITY_ITEMS} or dict(
        leadtimes
    )
    return max(counted, key=lambda item: (counted[item].max_weeks, counted[item].min_weeks, item))


def build(
    leadtimes: Mapping[str, LeadTime], need_date: datetime.date, greenfield: bool
) -> tuple[pd.DataFrame, list[Finding]]:
    """The `schedule` frame, longest lead time first, and a warning SCHEDULE-LATE per item that is already too late."""
    rows, findings = [], []
    counted = [(item, lead) for item, lead in leadtimes.items() if greenfield or item not in FACILITY_ITEMS]
    for item, lead in sorted(counted, key=lambda pair: (-pair[1].max_weeks, -pair[1].min_weeks, pair[0])):
        early, late = latest_orders(need_date, lead.min_weeks, lead.max_weeks)
        rows.append(
            (
                item,
                lead.min_weeks,
                lead.max_weeks,
                need_date.isoformat(),
                early.isoformat(),
                late.isoformat(),
                lead.source,
            )
        )
        if early < lead.as_of:
            slack = (early - lead.as_of).days
            findings.append(
                Finding(
                    "SCHEDULE-LATE",
                    "warning",
                    f"leadtimes.{item}",
                    f"{item}: with {lead.max_weeks:g} weeks it had to be ordered by {early}, before the quote of "
                    f"{lead.as_of}",
                    {"slack_days": slack, "max_weeks": lead.max_weeks},
                    0.0,
                    lead.source,
                    "ERR-25",
                )
            )
    columns = [
        "activity",
        "lead_min_weeks",
        "lead_max_weeks",
        "need_date",
        "latest_order_early",
        "latest_order_late",
        "source",
    ]
    return pd.DataFrame(rows, columns=columns), findings
