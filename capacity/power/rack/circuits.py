"""Circuits and cords: what a breaker carries continuously, and which connector carries a supply's current.

Sources: three-phase power sqrt(3) V I; NEC 210.20(A) and 215.3, continuous load at most 80 % of the breaker (the site's
`power.derating`); check value 208 V, 60 A, 80 % = 17,292 VA (HP power basics table). Connector ratings
stand in the catalogue; under NEC a continuous load may take 80 % of them, as of the circuit. Standard ratings of breakers: NEC
240.6(A); IEC 60898-1 up to 125 A, above it the R10 series of IEC 60059, which breakers to IEC 60947-2 come in.
"""

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

Code = Literal["nec", "iec"]

RATINGS_A: Mapping[Code, tuple[int, ...]] = {
    "nec": (
        15,
        20,
        25,
        30,
        35,
        40,
        45,
        50,
        60,
        70,
        80,
        90,
        100,
        110,
        125,
        150,
        175,
        200,
        225,
        250,
        300,
        350,
        400,
        450,
        500,
        600,
        700,
        800,
        1000,
        1200,
        1600,
        2000,
        2500,
        3000,
        4000,
        5000,
        6000,
    ),
    "iec": (
        6,
        8,
        10,
        13,
        16,
        20,
        25,
        32,
        40,
        50,
        63,
        80,
        100,
        125,
        160,
        200,
        250,
        315,
        400,
        500,
        630,
        800,
        1000,
        1250,
        1600,
        2000,
        2500,
        3150,
        4000,
        5000,
        6300,
    ),
}
"""Ratings that breakers come in."""
RATINGS_SOURCE: Mapping[Code, str] = {"nec": "NEC 240.6(A)", "iec": "IEC 60898-1, IEC 60059 R10"}


def next_rating_a(code: Code, amps: float) -> int:
    """The smallest rating that breakers come in and that carries `amps`; whole amperes above the largest."""
    return next((rating for rating in RATINGS_A[code] if rating >= amps - 1e-9), math.ceil(amps - 1e-9))


def rating_below_a(code: Code, amps: float) -> int:
    """The largest rating that breakers come in and that is no more than `amps`; 0 where none is."""
    return max((rating for rating in RATINGS_A[code] if rating <= amps + 1e-9), default=0)


def usable_kva(breaker_a: float, voltage_v: float, derating: float, phases: int = 3) -> float:
    """Continuous apparent power of a circuit in kVA; `voltage_v` is line to line for three phases."""
    return breaker_a * voltage_v * derating * (math.sqrt(3) if phases == 3 else 1.0) / 1000


def usable_kw(breaker_a: float, voltage_v: float, derating: float, phases: int, power_factor: float) -> float:
    """Continuous real power of a circuit in kW."""
    return usable_kva(breaker_a, voltage_v, derating, phases) * power_factor


def pdu_thresholds_a(breaker_a: float, derating: float) -> tuple[int, int]:
    """Load alarms of a rack PDU in whole amperes: (warning at the continuous rating, alarm at the breaker's rating).

    Exact for numbers as a person writes them: 90 A at 0.7 warn at 63 A, where the product of floats is 62.99... A.
    """
    return math.floor(Decimal(str(breaker_a)) * Decimal(str(derating))), math.floor(breaker_a)


def servers_per_circuit(usable: float, server_kw: float) -> int:
    """Servers that one circuit carries alone (after loss of the other feed)."""
    return math.floor(usable / server_kw + 1e-9)


def line_current_a(kw: float, voltage_v: float, power_factor: float = 1.0, phases: int = 3) -> float:
    """Line current of a balanced load in amperes."""
    return kw * 1000 / (voltage_v * power_factor * (math.sqrt(3) if phases == 3 else 1.0))


def supply_input_a(rating_w: float, voltage_v: float, efficiency: float) -> float:
    """Input current of a supply at its full rating in amperes."""
    return rating_w / efficiency / voltage_v


def connector_continuous_a(rated_a: float, code: Code) -> float:
    """Continuous current that a connector may carry: 80 % of its rating under NEC, all of it under IEC."""
    return rated_a * 0.8 if code == "nec" else rated_a
