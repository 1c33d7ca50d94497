"""Two plans side by side: the differences that matter, and the bill of materials line by line.

Pure. In: two plans (two sites, or one site with some keys changed). Out: frames of text and numbers, and one HTML page.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from capacity.model import Plan
from capacity.outputs.summary import summarise
from capacity.power.upstream.existing_plant import NOUNS
from capacity.procurement import programme
from capacity.procurement.bom import cost, unpriced
from inventory.findings import Finding, without_untried


@dataclass(frozen=True)
class Comparison:
    """What differs between plans `a` and `b`.

    `figures`   section, what, unit, a, b, change: every figure, also those that are equal (change '')
    `bom`       item, model, a, b, change: quantities with spares, lines that differ only
    `orders`    item, a, b, change: latest safe order dates that differ
    `dates`     activities that move (programme.differences)
    `only_a`, `only_b`  findings that only one of the two has
    """

    name_a: str
    name_b: str
    hash_a: str
    hash_b: str
    figures: pd.DataFrame
    bom: pd.DataFrame
    orders: pd.DataFrame
    dates: pd.DataFrame
    only_a: tuple[Finding, ...]
    only_b: tuple[Finding, ...]

    @property
    def differing(self) -> pd.DataFrame:
        """The figures that are not equal."""
        return self.figures[self.figures["change"] != ""].reset_index(drop=True)

    @property
    def equal(self) -> bool:
        """Whether nothing that is compared differs."""
        frames = (self.differing, self.bom, self.orders, self.dates)
        return all(frame.empty for frame in frames) and not self.only_a and not self.only_b

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "a": self.name_a,
            "b": self.name_b,
            "plan_hash_a": self.hash_a,
            "plan_hash_b": self.hash_b,
            "figures": self.figures.to_dict("records"),
            "bom": self.bom.to_dict("records"),
            "orders": self.orders.to_dict("records"),
            "dates": self.dates.astype(object).where(self.dates.notna(), None).to_dict("records"),
            "findings_only_a": [f.as_dict() for f in self.only_a],
            "findings_only_b": [f.as_dict() for f in self.only_b],
        }


def compare(a: Plan, b: Plan) -> Comparison:
    """Compare two plans."""
    left, right = figures(a), figures(b)
    rows = []
    for key in dict.fromkeys([*left, *right]):
        section, what, unit = key
        x, y = left.get(key, "–"), right.get(key, "–")
        rows.append((section, what, unit, x, y, _change(x, y)))
    said_a, said_b = ({_said(f): f for f in map(without_untried, plan.findings)} for plan in (a, b))
    return Comparison(
        a.label,
        b.label,
        a.hash,
        b.hash,
        pd.DataFrame(rows, columns=["section", "what", "unit", "a", "b", "change"]).astype({"a": object, "b": object}),
        bom_lines(a.bom, b.bom),
        orders(a, b),
        programme.differences(a.activities, b.activities),
        tuple(f for key, f in said_a.items() if key not in said_b),
        tuple(f for key, f in said_b.items() if key not in said_a),
    )


def _said(finding: Finding) -> tuple[str, str, str]:
    return finding.id, finding.subject, finding.message


def _change(x: Any, y: Any) -> str:
    if x == y:
        return ""
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (x, y))
    if not numbers:
        return days_between(x, y)
    difference = y - x
    share = f" ({difference / x * 100:+.1f} %)" if x else ""
    return f"{number(difference, '+')}{share}"


def days_between(x: Any, y: Any) -> str:
    """'+12 days' for two ISO dates, 'changed' for anything else."""
    try:
        days = int((np.datetime64(str(y), "D") - np.datetime64(str(x), "D")).astype(int))
    except ValueError:
        return "changed"
    return f"{days:+d} days"


Key = tuple[str, str, str]


def figures(plan: Plan) -> dict[Key, int | float | str]:
    """(section, what, unit) -> value: what people compare designs by."""
    summary = summarise(plan)
    devices, power, racks = summary["devices"], summary["power_kw"], summary["racks"]
    made: dict[Key, int | float | str] = {
        ("counts", "GPUs", ""): devices["gpus"],
        ("counts", "GPU servers", ""): devices["servers"].get("gpu", 0),
    }
    for fabric, tiers in devices["switches"].items():
        for role, count in tiers.items():
            made["counts", f"{fabric} {role} switches".replace("oob oob", "oob"), ""] = count
    made["counts", "cables", ""] = len(plan.cables)
    made["counts", "cable routed", "km"] = round(float(plan.cables["length_m"].sum()) / 1000, 2)
    made["counts", "rack PDUs and shelves", ""] = int(plan.devices["kind"].isin(["pdu", "shelf"]).sum())
    made["counts", "cords", ""] = int((plan.outlets["device"] != "").sum())
    if summary["fabric"]:
        made["counts", "bisection", "Tb/s"] = summary["fabric"]["bisection_tbps"]
    made["space", "racks", ""] = racks["count"]
    made["space", "racks with GPU servers", ""] = racks["with_gpu_servers"]
    made["space", "rows", ""] = racks["rows"]
    made["space", "heaviest rack", "kg"] = racks["largest_mass_kg"]
    for profile, kw in power["site_it"].items():
        made["power", f"IT load, {profile}", "kW"] = kw
    made["power", "facility at PUE, nameplate", "kW"] = power["site_facility"]["nameplate"]["pue"]
    made["power", "fullest rack, nameplate", "kW"] = power["rack_largest"]["nameplate"]
    made["power", "rack circuit usable", "kW"] = power["circuit"]["usable_kw"]
    made["power", "rack circuit in its worst state", "kW"] = power["circuit"]["worst_kw"]
    made["power", "UPS modules", ""] = power["ups_modules"]
    made |= _electrical(summary["electrical"])
    made["cooling", "heat into the room", "kW"] = summary["heat"]["room_kw"]
    made["cooling", "heat into liquid", "kW"] = summary["heat"]["liquid_kw"]
    made |= _cooling(summary["cooling"])
    own = plan.storage[plan.storage["chosen"] == 1]
    for _, row in own.iterrows():
        made["storage", "enclosures", ""] = int(row["enclosures"])
        made["storage", "usable", "PB"] = round(float(row["usable_pb"]), 3)
        made["storage", "write", "GB/s"] = round(float(row["write_gb_s"]), 1)
        made["storage", "power", "kW"] = round(float(row["kw"]), 1)
    made["cost", "priced items", plan.site.purchase.currency] = cost(plan.bom)
    made["cost", "lines without a price", ""] = unpriced(plan.bom)
    live = programme.go_live(plan.activities)
    made["dates", "go-live, likely", ""] = str(live["finish"])
    made["dates", "go-live, P50", ""] = str(live["p50_finish"])
    made["dates", "go-live, P90", ""] = str(live["p90_finish"])
    made["dates", "critical item", ""] = summary["critical_item"]
    made["findings", "errors", ""] = summary["findings"]["errors"]
    made["findings", "warnings", ""] = summary["findings"]["warnings"]
    return made


def _electrical(facts: Mapping[str, Any] | None) -> dict[Key, int | float | str]:
    """What of the supply above the racks people compare; nothing for a site that plans none."""
    if facts is None:
        return {}
    made: dict[Key, int | float | str] = {
        ("power", "service", "MVA"): facts["service"]["mva"],
        ("power", "service with growth", "MVA"): facts["service"]["with_growth_mva"],
        ("power", "transformers", ""): facts["transformers"]["in_use"] + facts["transformers"]["spare"],
        ("power", "UPS blocks", ""): facts["ups"]["blocks"],
        ("power", "panels", ""): facts["panels"]["count"],
        ("power", "single failures that lose servers", ""): facts["failures"]["that_lose_servers"],
    }
    if "generators" in facts:
        made["power", "generators", ""] = facts["generators"]["sets"]
    for key, counts in facts.get("installed", {}).items():
        noun = f"{NOUNS[key]}s"
        made["power", f"{noun} that stand there", ""] = counts["standing"]
        made["power", f"{noun} to add", ""] = counts["to_add"]
    if "year" in facts:
        made["cost", "energy and demand a year", facts["year"]["currency"]] = facts["year"]["cost_total"]
    return made


def _cooling(facts: Mapping[str, Any]) -> dict[Key, int | float | str]:
    """Units, plant and PUE."""
    made: dict[Key, int | float | str] = {}
    for kind in dict.fromkeys(zone["kind"] for zone in facts["zones"]):
        alike = [zone for zone in facts["zones"] if zone["kind"] == kind]
        made["cooling", f"{kind} units", ""] = sum(zone["installed"] for zone in alike)
        made["cooling", f"{kind} zones", ""] = len(alike)
    wanted = {
        ("plant", "design day: chillers installed, each"): ("chillers", ""),
        ("plant", "design day: towers or dry coolers installed, each"): ("towers or dry coolers", ""),
        ("pue", "design day: PUE, 1"): ("PUE on the design day", ""),
        ("year", "full load: PUE, 1"): ("PUE over the year", ""),
        ("year", "full load: water, m3"): ("water a year", "m3"),
    }
    for (section, key), (what, unit) in wanted.items():
        value = facts["figures"].get(section, {}).get(key)
        if value is not None:
            made["cooling", what, unit] = value
    return made


def bom_lines(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Items and models whose quantity, spares or cost differ, by item and model."""
    keys = ["item", "model"]
    sums = [f.groupby(keys, sort=False)[["quantity", "spares", "cost"]].sum() for f in (a, b)]
    every = pd.MultiIndex.from_tuples(list(dict.fromkeys([*sums[0].index, *sums[1].index])), names=keys)
    ends = zip("ab", (frame.reindex(every, fill_value=0) for frame in sums), strict=True)
    both = pd.concat([frame.add_suffix(f"_{end}") for end, frame in ends], axis=1)
    differs = np.zeros(len(both), dtype=bool)
    for name in ("quantity", "spares", "cost"):
        differs |= (both[f"{name}_a"] != both[f"{name}_b"]).to_numpy()
    kept = both[differs].reset_index()
    whole = {f"{name}_{end}": "int64" for name in ("quantity", "spares") for end in "ab"}
    return kept.astype(whole).assign(
        change=(kept["quantity_b"] - kept["quantity_a"]).astype("int64"), cost_change=kept["cost_b"] - kept["cost_a"]
    )


def orders(a: Plan, b: Plan) -> pd.DataFrame:
    """Items of leadtimes whose latest safe order moves; days is positive where there is more time."""
    left, right = (dict(zip(p.schedule["activity"], p.schedule["safe_order"], strict=True)) for p in (a, b))
    rows = [
        (item, left.get(item, "–"), right.get(item, "–"), days_between(left.get(item, "–"), right.get(item, "–")))
        for item in dict.fromkeys([*left, *right])
        if left.get(item) != right.get(item)
    ]
    return pd.DataFrame(rows, columns=["item", "a", "b", "change"])


def verdict(comparison: Comparison) -> list[str]:
    """The differences in sentences, the ones first that decide: errors, cost, racks, power, date."""
    by: Mapping[Key, tuple[Any, Any, str]] = {
        (r["section"], r["what"], r["unit"]): (r["a"], r["b"], r["change"])
        for r in comparison.figures.to_dict("records")
    }
    said = []
    for (section, what, unit), (x, y, change) in by.items():
        wanted = {
            ("findings", "errors"),
            ("cost", "priced items"),
            ("space", "racks"),
            ("power", "IT load, nameplate"),
            ("dates", "go-live, P90"),
            ("counts", "GPUs"),
        }
        if change and (section, what) in wanted:
            lacks = by["cost", "lines without a price", ""][:2] if section == "cost" else (0, 0)
            without = f", without {lacks[0]} and {lacks[1]} unpriced lines" if any(lacks) else ""
            said.append(f"{what}: {_shown(x)} → {_shown(y)} {unit} ({change}){without}".replace("  ", " "))
    return said


def _shown(value: Any) -> str:
    return number(value) if isinstance(value, (int, float)) else str(value)


def number(value: float, sign: str = "") -> str:
    """A number as people read it: six digits that count, and never an exponent for large ones; `sign` may be '+'."""
    return format(value, f"{sign},.0f" if abs(value) >= 1e6 else f"{sign},.6g")
