"""The page of a buyer: what to order by when, what it costs, what decides the date, and a Gantt picture.

In: a Plan. Out: markup. Rendering reads the plan only.
"""

import datetime
from collections.abc import Iterable
from typing import Any

import pandas as pd
from markupsafe import Markup

from capacity.model import Plan
from capacity.outputs.report import svg
from capacity.outputs.report.template import environment
from capacity.outputs.summary import interruption_figures
from capacity.power.operation import standby
from capacity.procurement import bom, programme
from capacity.procurement.programme import GO_LIVE

LABEL_PX, CHART_PX, ROW_PX, HEAD_PX = 190, 900, 19, 34
COST_ROWS = 12
_DAYS_PER_YEAR = 365.25


def page(plan: Plan) -> Markup:
    """The whole section."""
    live = _live(plan)
    orders = order_rows(plan)
    template = environment().get_template("buying.html.j2")
    text = template.render(
        figures=_figures(plan, live, orders),
        orders=orders,
        need=plan.site.schedule.need_date.isoformat(),
        path=programme.critical_path(plan.activities),
        burn_in=_burn_in(plan),
        expedite=programme.expedite(plan.activities).to_dict("records"),
        gantt=Markup(gantt(plan.activities, plan.site.schedule.need_date)),
        costs=Markup(cost_bars(plan)),
        unpriced=bom.unpriced(plan.bom),
        total=bom.total_of(plan.bom, plan.site.purchase.currency),
        estimated=bom.estimated(plan.bom),
        is_estimate=bom.is_estimate,
        currency=plan.site.purchase.currency,
        priced=bool(plan.site.purchase.prices),
        bill=_bill(plan.bom),
        interruptions=interruption_figures(plan),
        storage=plan.storage.to_dict("records"),
    )
    return Markup(text)


def _live(plan: Plan) -> dict[str, Any]:
    return {str(k): v for k, v in programme.go_live(plan.activities).items()}


def _figures(plan: Plan, live: dict[str, Any], orders: list[dict[str, Any]]) -> list[tuple[str, str]]:
    first = min(orders, key=lambda row: row["safe_order"]) if orders else None
    return [
        cost_figure(plan),
        (str(live["p50_finish"]), "go-live, P50"),
        (str(live["p90_finish"]), "go-live, P90"),
        (plan.site.schedule.need_date.isoformat(), "needed on"),
        *([(first["item"], "most urgent order"), (first["safe_order"], "its latest safe date")] if first else []),
    ]


def cost_figure(plan: Plan) -> tuple[str, str]:
    """The total, with what it leaves out and how much of it is estimated, as a figure with its label."""
    cost, open_, currency = bom.cost(plan.bom), bom.unpriced(plan.bom), plan.site.purchase.currency
    said = bom.caveats(cost, open_, bom.estimated(plan.bom), currency) if cost else ""
    return bom.total(cost, open_, currency).partition(" without ")[0], f"cost {said}".rstrip()


def order_rows(plan: Plan) -> list[dict[str, Any]]:
    """One row a lead time, the most urgent first: dates, range, how often it decides, what waits for it and its cost."""
    work = plan.activities[plan.activities["kind"] == "lead"].sort_values("safe_start", kind="stable")
    ordered_as = _orders_of(plan.bom, set(work["activity"]))
    waiting = plan.bom.groupby(ordered_as)["cost"].sum().to_dict()
    items = plan.bom.groupby(ordered_as)["item"].agg(lambda names: ", ".join(dict.fromkeys(names))).to_dict()
    open_ = (bom.ordered(plan.bom) > 0) & (plan.bom["price_source"] == "")
    without = open_.groupby(ordered_as).sum().to_dict()
    owners = (
        plan.bom.groupby(ordered_as)["owner"]
        .agg(lambda names: ", ".join(dict.fromkeys(n for n in names if n)))
        .to_dict()
    )
    rows = []
    for row in work.to_dict("records"):
        margin = float(row["margin_days"])
        rows.append(
            {
                "item": row["activity"],
                "safe_order": row["safe_start"],
                "latest_order": row["latest_start"],
                "weeks": f"{row['min_days'] / 7:g}–{row['max_days'] / 7:g}"
                + (f", promised {row['promised']}" if row["promised"] else ""),
                "margin": f"{margin:+,.0f}",
                "state": "bad" if margin < 0 else "warn" if margin < 30 else "ok",
                "word": "✗ too late" if margin < 0 else "▲ under 30 days" if margin < 30 else "✓ in time",
                "critical": f"{row['criticality_pct']:.0f}",
                "buys": items.get(row["activity"], "not in the bill: the building's"),
                "owner": owners.get(row["activity"], ""),
                "cost": float(waiting.get(row["activity"], 0.0)),
                "unpriced": int(without.get(row["activity"], 0)),
            }
        )
    return rows


def _orders_of(bom: pd.DataFrame, orders: set[str]) -> pd.Series:
    """The order of each line: that of its tranche; of a line without one the first of its item."""
    first = {order.partition(" ")[0]: order for order in sorted(orders, reverse=True)}
    names = [
        name if (name := f"{lead} {tranche}".rstrip()) in orders else first.get(lead, "")
        for lead, tranche in zip(bom["lead_item"], bom["tranche"], strict=True)
    ]
    return pd.Series(names, index=bom.index)


def _burn_in(plan: Plan) -> str:
    """What the burn-in takes from the grid, in a sentence; '' where the site has no limit for it."""
    limit, servers = plan.site.limits.get("burn_in_required_h"), plan.site.server
    if limit is None:
        return ""
    gpus = int(plan.bom.loc[plan.bom["item"] == "gpu", "quantity"].sum()) // servers.count
    low, high = (
        standby.burn_in(servers.count, watts / 1000, limit.value, gpus)
        for watts in (servers.power.measured_w, servers.power.nameplate_w)
    )
    return (
        f"{limit.value:g} h of burn-in take {low['mwh']:,.0f} MWh (measured) to {high['mwh']:,.0f} MWh (nameplate) and "
        f"{low['gpu_hours']:,.0f} GPU-hours."
    )


def _bill(bom: pd.DataFrame) -> list[dict[str, Any]]:
    """Lines grouped by item, with totals."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    lines: list[dict[str, Any]] = [dict(zip(bom.columns, row, strict=True)) for row in bom.itertuples(index=False)]
    for line in lines:
        grouped.setdefault(line["item"], []).append(line)
    return [
        {
            "item": item,
            "quantity": sum(line["quantity"] for line in lines),
            "spares": sum(line["spares"] for line in lines),
            "cost": sum(line["cost"] for line in lines),
            "steps": ", ".join(dict.fromkeys(line["step"] for line in lines)),
            "inside": all(line["supplied_with"] != "" for line in lines),
            "lines": lines,
        }
        for item, lines in grouped.items()
    ]


def _quarters(first: datetime.date, last: datetime.date) -> Iterable[datetime.date]:
    day = datetime.date(first.year, 3 * ((first.month - 1) // 3) + 1, 1)
    while day <= last:
        if day >= first:
            yield day
        day = datetime.date(day.year + (day.month == 10), (day.month + 2) % 12 + 1, 1)


def gantt(activities: pd.DataFrame, need: datetime.date) -> str:
    """Bars from early start to early finish with likely durations, a thin line on to the finish at P90.

    Filled: on the critical path; a diamond: latest safe start; a dashed line: the date on which the cluster is needed.
    """
    shown = activities[activities["kind"].isin(["lead", "work"]) | (activities["activity"] == GO_LIVE)]
    shown = shown.sort_values(["start", "finish", "activity"], kind="stable")
    rows = [{str(k): v for k, v in row.items()} for row in shown.to_dict("records")]
    parse = datetime.date.fromisoformat
    first = min(parse(row["start"]) for row in rows)
    last = max([need, *(parse(row["p90_finish"]) for row in rows), *(parse(row["finish"]) for row in rows)])
    days = max((last - first).days, 1) * 1.02

    def x(day: str | datetime.date) -> float:
        at = parse(day) if isinstance(day, str) else day
        return LABEL_PX + max((at - first).days, 0) / days * CHART_PX

    height = HEAD_PX + ROW_PX * len(rows) + 14
    body = []
    for day in _quarters(first, last):
        body.append(svg.element("path", d=svg.segments([(x(day), HEAD_PX - 8, x(day), height - 12)]), cls="gantt-grid"))
        if day.month == 1 or days < 2 * _DAYS_PER_YEAR:
            body.append(svg.text(x(day) + 3, HEAD_PX - 12, f"{day.year}-{day.month:02d}", cls="gantt-month"))
    for n, row in enumerate(rows):
        y = HEAD_PX + n * ROW_PX
        middle = y + ROW_PX / 2
        label = f"{row['group']}  {row['activity']}" if row["activity"] != GO_LIVE else GO_LIVE
        body.append(svg.text(LABEL_PX - 8, middle + 4, label, cls="gantt-name"))
        words = (
            f"{row['activity']}: {row['start']} to {row['finish']}, P90 {row['p90_finish']}; slack {row['slack_days']:.0f} days; "
            f"latest safe start {row['safe_start']}; on the longest path in {row['criticality_pct']:.0f} % of runs"
        )
        left, right = x(row["start"]), x(row["finish"])
        critical = "gantt-critical" if row["critical"] else "gantt-bar"
        width = max(right - left, 2)
        body.append(
            svg.element("path", d=svg.segments([(right, middle, x(row["p90_finish"]), middle)]), cls="gantt-late")
        )
        if row["activity"] == GO_LIVE:
            body.append(_diamond(right, middle, words, "gantt-critical"))
            continue
        body.append(
            svg.element("rect", svg.title(words), x=left, y=y + 4, width=width, height=ROW_PX - 8, rx=2, cls=critical)
        )
        if row["kind"] == "lead" and row["safe_start"] >= first.isoformat():
            body.append(
                _diamond(
                    x(row["safe_start"]),
                    middle,
                    f"{row['activity']}: latest safe order {row['safe_start']}",
                    "gantt-order",
                )
            )
    body.append(svg.element("path", d=svg.segments([(x(need), HEAD_PX - 8, x(need), height - 12)]), cls="gantt-need"))
    body.append(svg.text(x(need) - 4, height - 2, f"needed {need.isoformat()}", cls="gantt-needed"))
    return svg.picture(LABEL_PX + CHART_PX + 50, height, "Gantt chart from the first order to go-live", body, "gantt")


def _diamond(x: float, y: float, words: str, cls: str) -> str:
    corners = ((x - 5, y), (x, y - 5), (x + 5, y), (x, y + 5))
    points = " ".join(f"{svg.number(a)},{svg.number(b)}" for a, b in corners)
    return svg.element("polygon", svg.title(words), points=points, cls=cls)


def cost_bars(plan: Plan) -> str:
    """Cost by item, the dearest first; '' without prices."""
    sums = plan.bom.groupby("item", sort=False)["cost"].sum().sort_values(ascending=False, kind="stable")
    sums = sums[sums > 0].head(COST_ROWS)
    if sums.empty:
        return ""
    total, most = float(plan.bom["cost"].sum()), float(sums.iloc[0])
    body = []
    for n, (item, cost) in enumerate(sums.items()):
        y = n * ROW_PX
        width = max(cost / most * 620, 1)
        words = f"{cost / 1e6:,.2f} M {plan.site.purchase.currency}, {cost / total:.1%}"
        body.append(svg.text(LABEL_PX - 8, y + ROW_PX / 2 + 4, item, cls="gantt-name"))
        body.append(
            svg.element(
                "rect", svg.title(words), x=LABEL_PX, y=y + 4, width=width, height=ROW_PX - 8, rx=2, cls="gantt-bar"
            )
        )
        body.append(svg.text(LABEL_PX + width + 6, y + ROW_PX / 2 + 4, words))
    return svg.picture(LABEL_PX + CHART_PX + 20, ROW_PX * len(sums) + 6, "Cost by item", body, "costs")
