"""Circuits and cords: what a breaker carries continuously, and which connector carries a supply's current.

Sources: three-phase power sqrt(3) V I; NEC 210.20(A) and 215.3, continuous load at most 80 % of the breaker (the site's
`power.derating`); check value 208 V, 60 A, 80 % = 17,292 VA (HP power basics table). Connector ratings
stand in the catalogue; under NEC a continuous load may take 80 % of them, as of the circuit.
"""

import math
from typing import Literal

Code = Literal["nec", "iec"]


def usable_kva(breaker_a: float, voltage_v: float, derating: float, phases: int = 3) -> float:
    """Continuous apparent power of a circuit in kVA; `voltage_v` is line to line for three phases."""
    return breaker_a * voltage_v * derating * (math.sqrt(3) if phases == 3 else 1.0) / 1000


def usable_kw(breaker_a: float, voltage_v: float, derating: float, phases: int, power_factor: float) -> float:
    """Continuous real power of a circuit in kW."""
    return usable_kva(breaker_a, voltage_v, derating, phases) * power_factor


def pdu_thresholds_a(breaker_a: float, derating: float) -> tuple[int, int]:
    """Load alarms of a rack PDU in whole amperes: (warning at the continuous rating, alarm at the breaker's rating)."""
    return int(breaker_a * derating), int(breaker_a)


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
