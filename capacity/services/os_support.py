"""Support of the operating system, judged at the date of go-live."""

import datetime
import math

from inventory.findings import Finding, finding, remedy
from inventory.site import Site

_DAYS_PER_MONTH = 365.25 / 12
STATED = "when the site has to be live (schedule.need_date)"
COMPUTED = (
    "the date of go-live that the plan computes with every lead time and duration at its longest (schedule.need_date)"
)


def check_os_support(site: Site) -> list[Finding]:
    """OS-END-OF-SUPPORT (ERR-21) when support ends before, or too soon after, the date of go-live."""
    limit = site.limits.get("os_eol_min_months")
    left_days = (site.os.eol_date - site.schedule.need_date) / datetime.timedelta(days=1)
    months = left_days / _DAYS_PER_MONTH
    if limit is None or months >= limit.value:
        return []
    origin = site.effective.origin(("schedule", "need_date"))
    computed = origin is not None and origin.kind == "computed"
    least = site.schedule.need_date + datetime.timedelta(days=math.ceil(limit.value * _DAYS_PER_MONTH))
    return [
        finding(
            "OS-END-OF-SUPPORT",
            "os.eol_date",
            case="before" if months < 0 else "after",
            limit=limit.value,
            limit_source="site limits.os_eol_min_months",
            err="ERR-21",
            words={
                "name": site.os.name,
                "version": site.os.version,
                "eol_date": site.os.eol_date,
                "need_date": site.schedule.need_date,
                "date_said": COMPUTED if computed else STATED,
                "short": -months,
            },
            months=round(months, 1),
            remedies=[
                remedy(fix="longer-support", least_date=least),
                *([remedy(fix="own-date")] if computed else []),
                *(
                    [remedy({"limits.os_eol_min_months.value": math.floor(months)}, fix="accepted")]
                    if months >= 0
                    else []
                ),
            ],
        )
    ]
