"""Support of the operating system, judged at the date of go-live."""

import datetime

from inventory.findings import Finding
from inventory.site import Site

_DAYS_PER_MONTH = 365.25 / 12


def check_os_support(site: Site) -> list[Finding]:
    """OS-END-OF-SUPPORT (ERR-21) when support ends before, or too soon after, the date of go-live."""
    limit = site.limits.get("os_eol_min_months")
    left_days = (site.os.eol_date - site.schedule.need_date) / datetime.timedelta(days=1)
    months = left_days / _DAYS_PER_MONTH
    if limit is None or months >= limit.value:
        return []
    return [
        Finding(
            "OS-END-OF-SUPPORT",
            "warning",
            "os.eol_date",
            f"support of {site.os.name} {site.os.version} ends on {site.os.eol_date}, {months:.1f} months after go-live on "
            f"{site.schedule.need_date}; limit {limit.value:g} months",
            {"months": round(months, 1)},
            limit.value,
            "site limits.os_eol_min_months",
            "ERR-21",
        )
    ]
