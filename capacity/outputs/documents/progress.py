"""How far the cabling of a hall is, by row, by bundle and by day: what is recorded as installed, and what is seen.

    progress(plan, findings, built, observers)      one row a row of racks, a bundle, a day

In: the plan, the findings of a comparison, as_built.csv, the devices that said what they see. Out: a frame of COLUMNS. Pure.
"""

from collections.abc import Collection, Iterable

import pandas as pd

from capacity.model import Plan
from inventory.findings import Finding

COLUMNS = ("by", "what", "planned", "recorded", "as_planned", "wrong", "no_link", "not_judged")
NO_LINK = ("LINK-DOWN", "TOPOLOGY-MISSING", "TOPOLOGY-CUT-OFF")
SILENT = ("DEVICE-SILENT", "POWER-LOST", "LOGIN-REFUSED", "ANSWER-UNREADABLE", "BMC-TIMEOUT", "IDENTITY-MISMATCH")
"""Findings of a device of whose cables nothing is said."""
NETWORKS = ("compute", "inband")
"""Networks whose cables are compared with what is seen."""


def progress(plan: Plan, findings: Iterable[Finding], built: pd.DataFrame, observers: Collection[str]) -> pd.DataFrame:
    """COLUMNS. `by` is 'hall', 'row', 'bundle' or 'day'.

    A cable belongs to the row of its first end's rack. A bundle is all cables of one network between the same two racks. A day is
    one on which cables were recorded as installed; its columns count these. `as_planned`, `wrong`, `no_link` and `not_judged` are
    what is seen now, and add up to `planned`. Not judged are cables that end at none of `observers`, or at a silent device, and
    those of networks that nobody compares.
    """
    cables = plan.cables
    found = list(findings)
    dark = {port for one in found if one.id in NO_LINK for port in one.ports}
    wrong = {port for one in found if one.id.startswith("TOPOLOGY-") and one.severity == "error" for port in one.ports}
    a, b = (cables[f"{end}_device"] + ":" + cables[f"{end}_port"] for end in "ab")
    silent = {one.subject for one in found if one.id in SILENT}
    seen = cables["a_device"].isin(observers) | cables["b_device"].isin(observers)
    seen &= ~(cables["a_device"].isin(silent) | cables["b_device"].isin(silent))
    judged = cables["fabric"].isin(NETWORKS) & seen
    no_link = judged & a.isin(dark) & b.isin(dark)
    is_wrong = judged & ~no_link & (a.isin(wrong) | b.isin(wrong))
    rack = plan.placements.set_index("device")["rack"]
    racks = pd.DataFrame({end: cables[f"{end}_device"].map(rack).fillna("") for end in "ab"})
    row = racks["a"].map(plan.racks.set_index("name")["row"])
    recorded = (
        cables["cable_id"].map(built["installed_on"]) if len(built) else pd.Series(None, cables.index, dtype=object)
    )
    counted = pd.DataFrame(
        {
            "planned": 1,
            "recorded": recorded.notna().astype(int),
            "as_planned": (judged & ~no_link & ~is_wrong).astype(int),
            "wrong": is_wrong.astype(int),
            "no_link": no_link.astype(int),
            "not_judged": (~judged).astype(int),
        }
    )
    in_order = racks["a"] <= racks["b"]
    pair = {"a": racks["a"].where(in_order, racks["b"]), "b": racks["b"].where(in_order, racks["a"])}
    kinds = {
        "hall": pd.Series(plan.site.name, cables.index),
        "row": "row " + (row + 1).astype("Int64").astype(str).str.zfill(2),
        "bundle": cables["fabric"] + " " + pair["a"] + " - " + pair["b"],
        "day": recorded,
    }
    parts = [
        counted.groupby(kind.rename("what")).sum().reset_index().assign(by=by)
        for by, kind in kinds.items()
        if kind.notna().any()
    ]
    return pd.concat(parts, ignore_index=True)[list(COLUMNS)]


def in_words(made: pd.DataFrame) -> str:
    """The line of the hall in one sentence."""
    hall = made.iloc[0]
    return (
        f"{hall['as_planned']:,} of {hall['planned']:,} cables are as planned, {hall['wrong']:,} wrong, "
        f"{hall['no_link']:,} without a link, {hall['not_judged']:,} not judged; {hall['recorded']:,} recorded as installed"
    )
