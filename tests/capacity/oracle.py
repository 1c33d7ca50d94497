"""pandapower as a second solver, in tests only. Its tables are filled whole: its own constructors set rows cell by cell,
which pandas 3 refuses.
"""

from typing import Any

import pandas as pd
import pytest


def network() -> Any:
    """An empty net of 60 Hz; the test is skipped without pandapower."""
    return pytest.importorskip("pandapower").create_empty_network(f_hz=60)


def put(net: Any, table: str, **columns: Any) -> None:
    """Fill a table of `net`: one row a value; what is not given is empty, or 1 for parallel, True for in_service."""
    defaults = {"in_service": True, "parallel": 1, "scaling": 1.0, "df": 1.0, "controllable": False}
    frame = pd.DataFrame(columns)
    types = net[table].dtypes
    for column, kind in types.items():
        if column not in frame:
            blank = {"f": 0.0, "b": False, "i": 0, "u": 0}.get(kind.kind)
            frame[column] = defaults.get(str(column), blank)
        frame[column] = frame[column].astype(kind)
    net[table] = frame


def buses(net: Any, kv: list[float]) -> None:
    """One bus a voltage, numbered from 0."""
    put(net, "bus", vn_kv=kv, type="b", name="")


def grid(net: Any, at: int, mva: float, x_over_r: float) -> None:
    """The source at a bus."""
    put(net, "ext_grid", bus=[at], vm_pu=1.0, va_degree=0.0, name="")
    net["ext_grid"]["s_sc_max_mva"] = mva
    net["ext_grid"]["rx_max"] = 1 / x_over_r


def transformers(
    net: Any,
    high: list[int],
    low: list[int],
    hv_kv: list[float],
    lv_kv: list[float],
    mva: list[float],
    uk_pct: list[float],
    loss_kw: list[float],
    idle_kw: list[float],
) -> None:
    """Transformers with their losses in kW."""
    rows = range(len(high))
    idle_pct = [idle_kw[i] / mva[i] / 10 for i in rows]
    put(
        net,
        "trafo",
        hv_bus=high,
        lv_bus=low,
        vn_hv_kv=hv_kv,
        vn_lv_kv=lv_kv,
        sn_mva=mva,
        vk_percent=uk_pct,
        vkr_percent=[loss_kw[i] / mva[i] / 10 for i in rows],
        pfe_kw=idle_kw,
        i0_percent=idle_pct,
        shift_degree=0.0,
        tap_side="",
        tap_neutral=0.0,
        tap_pos=0.0,
        name="",
        std_type="",
    )


def lines(net: Any, start: list[int], end: list[int], r_ohm: list[float], x_ohm: list[float]) -> None:
    """Lines with their impedance in ohms."""
    put(
        net,
        "line",
        from_bus=start,
        to_bus=end,
        length_km=1.0,
        r_ohm_per_km=r_ohm,
        x_ohm_per_km=x_ohm,
        c_nf_per_km=0.0,
        g_us_per_km=0.0,
        max_i_ka=10.0,
        name="",
        std_type="",
        type="cs",
    )


def loads(net: Any, at: list[int], kw: list[float]) -> None:
    """Loads at power factor 1."""
    put(net, "load", bus=at, p_mw=[value / 1000 for value in kw], q_mvar=0.0, name="", type="")


def voltages(net: Any) -> Any:
    """Per-unit voltage of each bus after a load flow, from the solver's own table: writing the results back fails under
    pandas 3.
    """
    try:
        pytest.importorskip("pandapower").runpp(net, numba=False)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
    return net._ppc["bus"][net._pd2ppc_lookups["bus"], 7]
