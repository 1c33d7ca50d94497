"""Air, hybrid and liquid cooling compared for the same servers in the same hall (S097).

Each option takes the site's own plant and air units, the share of a server's heat that goes to air, and the air heat that
a rack may have. Its racks follow from that heat, the rack's power limit and its rack units, less what else stands in a rack
with as many servers; a rack-scale system fits whole or not at all. Its PUE follows from the plant. All other devices keep
their own heat split. A server model that is sold for another option than its own is an assumption of
the comparison, not a product of the catalogue.
"""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.cooling import plant, units
from capacity.cooling.air import airflow_m3_s, hall_air, rise_and_leakage
from capacity.cooling.not_planned import not_given
from capacity.model import frames
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from inventory.site.sections.cooling import CoolingOption


def compare(
    site: Site, devices: pd.DataFrame, placements: pd.DataFrame, one: units.Capacity | None, losses_kw: float
) -> pd.DataFrame:
    """The frame `cooling_options`: one row an option of the site, in the order air, hybrid, liquid; all lose `losses_kw` in the
    distribution of power.
    """
    order = {"air": 0, "hybrid": 1, "liquid": 2}
    gpu = (devices["role"] == "gpu").to_numpy()
    at = pd.Index(placements["device"]).get_indexer(pd.Index(devices["name"]))
    rack = np.append(pd.factorize(placements["rack"])[0], -1)[at]
    alike = {
        "power": (*_rest(devices["nameplate_w"] / 1000, gpu, rack), site.rack.power_limit_kw),
        "height": (*_rest(devices["u_height"], gpu, rack), site.rack.height_u),
    }
    rows = [
        _option(site, option, devices, rack, alike, one, losses_kw)
        for option in sorted(site.cooling.options, key=lambda option: order[option.kind])
    ]
    return pd.DataFrame(rows, columns=list(frames.COOLING_OPTIONS))


def _option(
    site: Site,
    option: CoolingOption,
    devices: pd.DataFrame,
    rack: npt.NDArray[np.int64],
    alike: Mapping[str, tuple[float, float, float]],
    one: units.Capacity | None,
    losses_kw: float,
) -> dict[str, object]:
    """The row of one option; `rack` is that of each device as a number, -1 for none, `alike` what all options take of
    a rack (see `_per_rack`).
    """
    gpu = (devices["role"] == "gpu").to_numpy()
    share = devices["air_fraction"].where(~gpu, option.air_fraction)
    air_w = devices["nameplate_w"] * share
    air_kw, it_kw = float(air_w.sum()) / 1000, float(devices["nameplate_w"].sum()) / 1000
    liquid_kw = it_kw - air_kw
    largest = float(_by_rack(air_w.to_numpy(dtype=np.float64), rack).max()) / 1000
    fits = largest <= option.rack_air_kw + 1e-6
    air_of = (*_rest(air_w / 1000, gpu, rack), option.rack_air_kw)
    per, bound = _per_rack(site, {"power": alike["power"], "air": air_of, "height": alike["height"]}, gpu, rack)
    air = hall_air(site)
    rise_k, leak = rise_and_leakage(site.cooling.air)
    reason = ""
    if not fits:
        densest = f"{largest:.1f} kW of air heat in the densest rack, {option.rack_air_kw:g} kW possible"
        reason = f"{densest}; at most {per} servers a rack"
        if site.server.system is not None:
            reason = f"{densest}; a rack of {site.server.system} stands whole or not at all"
    return {
        "option": option.kind,
        "chosen": int(option.kind == chosen(site, devices)),
        "fits": int(fits),
        "air_kw": air_kw,
        "liquid_kw": liquid_kw,
        "largest_rack_air_kw": largest,
        "rack_air_limit_kw": option.rack_air_kw,
        "servers_per_rack": per,
        "bound": bound,
        "gpu_racks": math.ceil(int(gpu.sum()) / per) if per else -1,
        "airflow_m3_s": airflow_m3_s(air_kw, rise_k, air) / (1 - leak / 100),
        "pue": _pue(site, option, it_kw, air_kw, liquid_kw, one, losses_kw),
        "reason": reason,
        "source": option.source,
    }


def _by_rack(of: npt.NDArray[np.float64], rack: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Sum of each rack."""
    return np.bincount(rack[rack >= 0], of[rack >= 0]).astype(np.float64)


def _rest(of: pd.Series, gpu: npt.NDArray[np.bool_], rack: npt.NDArray[np.int64]) -> tuple[float, float]:
    """What a GPU server takes, and what all else takes in those racks that hold most servers."""
    values, servers = of.to_numpy(dtype=np.float64), _by_rack(gpu.astype(np.float64), rack)
    rest = _by_rack(np.where(gpu, 0.0, values), rack)[servers == servers.max()]
    return float(values[gpu].max()), float(rest.max())


def _per_rack(
    site: Site,
    taken: Mapping[str, tuple[float, float, float]],
    gpu: npt.NDArray[np.bool_],
    rack: npt.NDArray[np.int64],
) -> tuple[int, str]:
    """GPU servers that a rack holds and what binds. `taken`: of a server, of all else in its rack, and the limit."""
    most = {
        name: (limit - rest) / each if each > 0 else math.inf if rest <= limit + 1e-6 else 0.0
        for name, (each, rest, limit) in taken.items()
    }
    if site.server.system is not None:
        whole = int(_by_rack(gpu.astype(np.float64), rack).max())
        short = [name for name in ("power", "air") if most[name] + 1e-9 < whole]
        return (0, short[0]) if short else (whole, "system")
    bound = min(most, key=lambda name: most[name])
    return max(int(most[bound] + 1e-9), 0), bound


def chosen(site: Site, devices: pd.DataFrame) -> str:
    """Which option the site is: liquid, hybrid where a fifth or more of its heat goes to air all the same, or air."""
    if site.cooling.kind == "air":
        return "air"
    total = float(devices["nameplate_w"].sum())
    share = float((devices["nameplate_w"] * devices["air_fraction"]).sum()) / total
    return "hybrid" if share >= HYBRID_SHARE else "liquid"


HYBRID_SHARE = 0.2
"""Share of air heat from which a liquid-cooled site is called hybrid: the name only, no result depends on it."""


def _pue(
    site: Site,
    option: CoolingOption,
    it_kw: float,
    air_kw: float,
    liquid_kw: float,
    one: units.Capacity | None,
    losses_kw: float,
) -> float:
    """PUE on the design day; 0 where the site gives neither plant nor units."""
    given, air = site.cooling.plant, site.cooling.air
    if given is None or air is None or one is None or one.kw <= 0:
        return 0.0
    n = units.needed(air_kw, one.kw)
    fans = plant.fan_power_kw(air.fan_kw, n, n + site.cooling.n_plus) if n else 0.0
    pumps = liquid_kw * option.cdu_pump_w_per_kw / 1000
    water_c = given.water_c if option.liquid_water_c is None else option.liquid_water_c
    loop = site.cooling.coolant.loop if site.cooling.coolant else None
    rise_k = loop.facility_rise_k if loop else given.water_rise_k
    loads = plant.Loads(it_kw, air_kw + fans, liquid_kw + pumps, fans, pumps, water_c, rise_k)
    cooling = plant.power(loads, plant.design_day(given, loads, plant.spare(site.cooling)))
    return sum(plant.pue(it_kw, cooling, losses_kw, given.other_pct).values())


def check_options(site: Site, frame: pd.DataFrame) -> list[Finding]:
    """COOLING-OPTION when the site's own option does not fit, although another one of the comparison does."""
    if frame.empty:
        return [not_given("cooling.options")]
    own = frame[frame["chosen"] == 1]
    if own.empty or bool(own["fits"].iloc[0]):
        return []
    other = frame.loc[frame["fits"] == 1, "option"].tolist()
    row = own.iloc[0]
    system = site.server.system
    if other:
        remedies = [remedy(fix="other-option", options=", ".join(other))]
    elif system is None:
        remedies = [remedy(fix="fewer-servers")]
    else:
        remedies = [remedy(fix="other-system"), remedy(fix="more-air")]
    return [
        finding(
            "COOLING-OPTION",
            f"cooling.options {row['option']}",
            case="servers" if system is None else "system",
            limit=float(row["rack_air_limit_kw"]),
            limit_source=str(row["source"]),
            err="ERR-46",
            remedies=remedies,
            words={"servers_per_rack": int(row["servers_per_rack"]), "system": system},
            largest_rack_air_kw=round(float(row["largest_rack_air_kw"]), 3),
        )
    ]
