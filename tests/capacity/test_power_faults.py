"""Fault levels by hand and against pandapower."""

import math

import pytest

from capacity.power import faults
from tests.capacity import oracle


def test_board_behind_a_transformer_is_the_hand_worked_case() -> None:
    """500 MVA at 13.8 kV, 2.5 MVA, 5.75 %, to 480 V, c = 1.10.

    Z grid = 1.1 x 0.48^2 / 500 = 0.5069 mOhm; Z transformer = 0.0575 x 0.48^2 / 2.5 = 5.2992 mOhm, xT = 0.0570, KT = 0.95 x
    1.1 / (1 + 0.6 x 0.0570) = 1.0104. Were all of it reactance: 1.1 x 480 / sqrt3 / (0.5069 + 5.3545) mOhm = 52.01 kA.
    """
    grid = faults.network_ohm(500, 1e6, 480)
    unit = faults.transformer_ohm(2500, 5.75, 1e-6, 480)
    assert abs(grid) == pytest.approx(0.5069e-3, rel=1e-4)
    assert abs(unit) == pytest.approx(5.2992e-3, rel=1e-4)
    correction = faults.transformer_correction(2500, 5.75, 1e-6)
    assert correction == pytest.approx(0.95 * 1.1 / (1 + 0.6 * 0.0575), rel=1e-4)
    assert float(faults.initial_ka(grid + correction * unit, 480)) == pytest.approx(52.011, rel=1e-3)


def test_peak_of_a_pure_reactance_is_two_root_two_times_the_initial_current() -> None:
    """R/X = 0: kappa = 1.02 + 0.98 = 2."""
    assert faults.peak_ka(10.0, complex(0.0, 1.0)) == pytest.approx(20 * math.sqrt(2))
    assert faults.peak_ka(10.0, complex(1.0, 0.0)) == pytest.approx(1.02 * math.sqrt(2) * 10)


def test_losses_above_the_impedance_are_refused_with_the_numbers() -> None:
    with pytest.raises(ValueError, match=r"load loss of 100 kW is over 5 % of 1000 kVA"):
        faults.transformer_ohm(1000, 5, 100, 415)


@pytest.mark.parametrize("x_over_r", [3.0, 10.0, 30.0])
@pytest.mark.parametrize("length_m", [1.0, 25.0, 120.0])
@pytest.mark.filterwarnings("ignore")
def test_a_chain_agrees_with_pandapower(x_over_r: float, length_m: float) -> None:
    """Grid, transformer with KT, cable: three-phase Ik'' within 1 % of a second implementation of IEC 60909."""
    net = oracle.network()
    oracle.buses(net, [13.8, 0.48, 0.48])
    oracle.grid(net, 0, 500, x_over_r)
    oracle.transformers(net, [0], [1], [13.8], [0.48], [2.5], [5.75], [20.0], [3.0])
    oracle.lines(net, [1], [2], [0.075 * length_m / 1000], [0.128 * length_m / 1000])
    pytest.importorskip("pandapower.shortcircuit").calc_sc(net, fault="3ph", case="max", lv_tol_percent=10)
    grid = faults.network_ohm(500, x_over_r, 480)
    unit = faults.transformer_correction(2500, 5.75, 20) * faults.transformer_ohm(2500, 5.75, 20, 480)
    cable = complex(0.075, 0.128) * length_m / 1000
    ours = [float(faults.initial_ka(z, 480)) for z in (grid + unit, grid + unit + cable)]
    assert ours == pytest.approx(net.res_bus_sc["ikss_ka"].to_numpy()[1:].tolist(), rel=0.01)
