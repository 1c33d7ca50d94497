"""Short-circuit currents of a radial supply after IEC 60909-0: initial symmetrical current and peak, and what gear is rated for.

Method of the equivalent voltage source c Un / sqrt(3) at the fault: impedances of grid, transformers and conductors
add up along the path, each referred to the voltage of the fault. Loads, shunts and taps do not count. Contributions of
generators (open transition: never beside the grid) and of UPS inverters (the static bypass carries the fault, and its
own impedance is neglected) are left out; both are on the safe side or stated in the report.

Sources: IEC 60909-0:2016 table 1 (voltage factor), equations for the network feeder (Z = c Un^2 / Sk''), the
transformer (Z = uk/100 U^2/S, R from the load loss), its correction factor KT = 0.95 cmax / (1 + 0.6 xT), and the peak
factor kappa = 1.02 + 0.98 exp(-3 R/X). Peak duty of gear that is rated by its symmetrical current: IEC 61439-1 table 7
(factor n, low voltage), IEC 62271-1 (2.5 at 50 Hz, 2.6 at 60 Hz, medium voltage).

Findings: POWER-FAULT-LEVEL, POWER-FAULT-RATING.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.worst import ROUNDING, top_row
from inventory.catalog import Catalog
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site.sections.electrical import Electrical, Panels, Switchgear, UpsBlocks

C_MAX = 1.10
"""Voltage factor for the largest current: medium voltage, and low voltage with a tolerance of +10 % (IEC 60909-0 table
1; 1.05 would do for +6 %, and gives less)."""

PEAK_FACTORS = ((5.0, 1.5), (10.0, 1.7), (20.0, 2.0), (50.0, 2.1))
"""IEC 61439-1 table 7: up to so many kA, peak over symmetrical current; PEAK_FACTOR_ABOVE beyond."""

PEAK_FACTOR_ABOVE = 2.2
MEDIUM_VOLTAGE_PEAK = {50: 2.5, 60: 2.6}
LOW_VOLTAGE_V = 1000.0
RATINGS_KA = (
    6.3,
    8.0,
    10.0,
    12.5,
    16.0,
    20.0,
    25.0,
    31.5,
    40.0,
    50.0,
    63.0,
    65.0,
    80.0,
    85.0,
    100.0,
    125.0,
    160.0,
    200.0,
)
"""Short-circuit ratings that gear comes in: R10 series of IEC 60059 (IEC 62271-1, 5.6.2), and beside them the 65 kA and 85 kA of
low-voltage gear to UL 489 and UL 891 (not confirmed)."""
GEAR_KEYS = {
    "intake": "medium_voltage",
    "switchboard": "switchboards",
    "mechanical": "switchboards",
    "panel": "panels",
    "ups": "ups_blocks",
}
"""Kind of an element: the section of electrical that states its rating."""
Complex = npt.NDArray[np.complex128]
Floats = npt.NDArray[np.float64]


def network_ohm(fault_mva: float, x_over_r: float, voltage_v: float, c: float = C_MAX) -> complex:
    """Impedance of the grid at `voltage_v` for its short-circuit power Sk'' in MVA."""
    size = c * voltage_v**2 / (fault_mva * 1e6)
    resistance = size / math.sqrt(1 + x_over_r**2)
    return complex(resistance, resistance * x_over_r)


def transformer_ohm(kva: float, uk_pct: float, load_loss_kw: float, voltage_v: float) -> complex:
    """Short-circuit impedance of a transformer referred to `voltage_v`, without correction.

    ValueError when the losses are larger than the impedance allows.
    """
    base = voltage_v**2 / (kva * 1000)
    size, resistance = uk_pct / 100, load_loss_kw / kva
    if resistance > size:
        raise ValueError(f"load loss of {load_loss_kw:g} kW is over {uk_pct:g} % of {kva:g} kVA, the impedance itself")
    return complex(resistance, math.sqrt(size**2 - resistance**2)) * base


def transformer_correction(kva: float, uk_pct: float, load_loss_kw: float, c: float = C_MAX) -> float:
    """KT of a two-winding transformer."""
    reactance = transformer_ohm(kva, uk_pct, load_loss_kw, 1.0).imag * kva * 1000
    return 0.95 * c / (1 + 0.6 * reactance)


def initial_ka(ohm: complex | Complex, voltage_v: float | Floats, c: float = C_MAX) -> Floats:
    """Ik'' of a three-phase fault in kA behind the impedance `ohm` at `voltage_v` line to line."""
    return np.asarray(c * voltage_v / math.sqrt(3) / np.abs(ohm) / 1000, dtype=np.float64)


def peak_ka(initial: float | Floats, ohm: complex | Complex) -> Floats:
    """Peak current ip in kA of the fault behind `ohm`."""
    z = np.asarray(ohm, dtype=np.complex128)
    resistance, reactance = z.real, z.imag
    ratio = np.where(reactance > 0, resistance / np.where(reactance > 0, reactance, 1.0), np.inf)
    return np.asarray((1.02 + 0.98 * np.exp(-3 * ratio)) * math.sqrt(2) * initial, dtype=np.float64)


def rated_peak_ka(rating_ka: float, voltage_v: float, frequency_hz: int) -> float:
    """Peak current that gear rated `rating_ka` withstands and makes, where no other figure is given."""
    if voltage_v > LOW_VOLTAGE_V:
        return MEDIUM_VOLTAGE_PEAK[frequency_hz] * rating_ka
    return next((n for top, n in PEAK_FACTORS if rating_ka <= top), PEAK_FACTOR_ABOVE) * rating_ka


def ratings_ka(catalog: Catalog, model_of: Mapping[str, str], elements: pd.DataFrame) -> Floats:
    """Short-circuit rating of each element; of a rack circuit that of the PDU or shelf at its end, 0 where none is known.
    `model_of` is the model of these by name.
    """
    known = {slug: catalog.device(slug).bringup.rating_ka or 0.0 for slug in set(model_of.values())}
    rating = elements["rating_ka"].to_numpy(dtype=np.float64).copy()
    rack = np.flatnonzero(elements["kind"] == "circuit")
    rating[rack] = [known[model_of[end]] for end in elements["end"].iloc[rack].tolist()]
    return rating


def rated_peaks_ka(electrical: Electrical, elements: pd.DataFrame) -> Floats:
    """Rated making and peak withstand current of switchgear and panels, 0 for the others: a PDU or UPS is rated behind its
    breaker, which limits the peak.
    """
    gear: dict[str, Switchgear | Panels] = {
        "intake": electrical.medium_voltage,
        "switchboard": electrical.switchboards,
        "mechanical": electrical.switchboards,
        "panel": electrical.panels,
    }
    peaks = {
        (kind, volts): gear[kind].peak_ka or rated_peak_ka(gear[kind].rating_ka, volts, electrical.frequency_hz)
        for kind, volts in elements[["kind", "voltage_v"]].drop_duplicates().itertuples(index=False, name=None)
        if kind in gear
    }
    keys = zip(elements["kind"], elements["voltage_v"], strict=True)
    return np.array([peaks.get(key, 0.0) for key in keys], dtype=np.float64)


def check_faults(electrical: Electrical, elements: pd.DataFrame) -> list[Finding]:
    """POWER-FAULT-LEVEL: gear breaks and withstands the largest fault current that can flow there, and its peak."""
    rated = elements[elements["rating_ka"] > 0]
    share = rated["fault_ka"] / rated["rating_ka"]
    peak = (rated["peak_ka"] / rated["rating_peak_ka"].where(rated["rating_peak_ka"] > 0, np.inf)).fillna(0.0)
    over = rated.assign(share=share, peak=peak, most=np.maximum(share, peak))
    over = over[over["most"] > 1 + 1e-6]
    found = []
    for kind, alike in over.groupby("kind", sort=False):
        worst = top_row(alike, alike["most"])
        broken = worst["share"] >= worst["peak"] or worst["share"] > 1
        drawn, limit = ("fault_ka", "rating_ka") if broken else ("peak_ka", "rating_peak_ka")
        found.append(
            finding(
                "POWER-FAULT-LEVEL",
                str(worst["name"]),
                case="current" if broken else "peak",
                limit=float(worst[limit]),
                limit_source="IEC 60909-0, rated short-circuit current of the site file or the catalogue",
                **dict[str, Any]({drawn: round(float(worst[drawn]), 3)}),
                count=len(alike),
                words={"place": worst["end"] or worst["name"], "kind": kind, "drawn_ka": worst[drawn]},
                remedies=_fault_remedies(electrical, str(kind), alike),
            )
        )
    return found


def _fault_remedies(electrical: Electrical, kind: str, over: pd.DataFrame) -> list[RemedyOf]:
    """What lowers the current at elements of a kind or makes them stand it. Only the grid stands before the intake: no
    transformer or feeder behind it changes its current.
    """
    needed_ka = float(over["fault_ka"].max())
    remedies = []
    if kind in GEAR_KEYS:
        key, volts = GEAR_KEYS[kind], float(over["voltage_v"].max())
        stated: Switchgear | Panels | UpsBlocks = getattr(electrical, key)
        peak = float(over["peak_ka"].max()) if kind != "ups" else 0.0
        given_peak = getattr(stated, "peak_ka", None)
        rating = next(
            (
                one
                for one in RATINGS_KA
                if one >= needed_ka - ROUNDING
                and (given_peak or rated_peak_ka(one, volts, electrical.frequency_hz) >= peak - ROUNDING)
            ),
            None,
        )
        if rating is None:
            remedies.append(remedy(fix="gear-of-no-rating", needed_ka=needed_ka))
        else:
            settings = {f"electrical.{key}.rating_ka": max(rating, stated.rating_ka or 0.0)}
            if given_peak and peak > given_peak:
                settings[f"electrical.{key}.peak_ka"] = math.ceil(peak * 10 - ROUNDING) / 10
            remedies.append(remedy(settings, fix="stronger-gear"))
    else:
        remedies.append(remedy(fix="stronger-end", needed_ka=needed_ka))
    if kind == "intake":
        weaker = 1 / max(over["most"].max(), 1.0)
        mva = math.floor(electrical.utility.fault_mva * weaker)
        return [*remedies, *([remedy({"electrical.utility.fault_mva": mva}, fix="weaker-grid")] if mva > 0 else [])]
    remedies += [remedy(fix="smaller-transformer"), remedy(fix="more-uk")]
    return remedies if kind in ("switchboard", "mechanical", "ups") else [*remedies, remedy(fix="longer-feeder")]


def check_unrated(model_of: Mapping[str, str], elements: pd.DataFrame) -> list[Finding]:
    """POWER-FAULT-RATING: elements without a known rating at a fault level, for information; circuits once for each model of
    rack PDU and power shelf at their ends.
    """
    bare = elements[(elements["rating_ka"] <= 0) & elements["kind"].isin(["ups", "circuit"])]
    found = []
    kinds = bare["end"].str.split("-").str[0]
    for (kind, model), alike in bare.groupby([kinds, bare["end"].map(dict(model_of)).fillna("")], sort=True):
        worst = top_row(alike, alike["fault_ka"])
        found.append(
            finding(
                "POWER-FAULT-RATING",
                str(worst["name"]),
                case="catalogue" if kind else "ups",
                limit_source="IEC 60909-0",
                fault_ka=round(float(worst["fault_ka"]), 3),
                count=len(alike),
                words={
                    "place": worst["end"] or worst["name"],
                    "drawn_ka": worst["fault_ka"],
                    "model": str(model),
                },
                remedies=[remedy(fix="catalogue" if kind else "ups")],
            )
        )
    return found
