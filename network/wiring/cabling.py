"""Cable plan: routed length of each cable and the part that reaches that far.

In: a frame of cables (network.fabric.LINK_COLUMNS with `rate_gbps`), a frame with the place of each device, and a table
of cable parts. Out: lengths in metres, and medium and part per cable. Vectorised: no Python object per cable.

Route: within a rack, straight between the two devices. Otherwise up to the tray, along the row, across the rows at
right angles (trays run along every row and cross them at every rack position), and down again. Slack is added once per
cable.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]


def routed_lengths(cables: pd.DataFrame, places: pd.DataFrame, tray_height_m: float, slack_m: float) -> Floats:
    """Length in metres of each cable.

    `places` has columns device, rack, x_m, y_m, z_m (height above the floor). Raises KeyError naming a device without a
    place.
    """
    index = pd.Index(places["device"])
    a, b = (index.get_indexer(pd.Index(cables[column])) for column in ("a_device", "b_device"))
    for ends, column in ((a, "a_device"), (b, "b_device")):
        if (ends < 0).any():
            raise KeyError(f"device {cables[column].iloc[int(np.argmax(ends < 0))]} has cables and no place in a rack")
    x, y, z = (places[column].to_numpy(dtype=np.float64) for column in ("x_m", "y_m", "z_m"))
    rack = pd.factorize(places["rack"])[0]
    within = np.abs(z[a] - z[b])
    rise = np.abs(tray_height_m - z)  # a tray under the floor is reached from above
    over = rise[a] + rise[b] + np.abs(x[a] - x[b]) + np.abs(y[a] - y[b])
    return np.round(np.where(rack[a] == rack[b], within, over) + slack_m, 2)


def select_parts(
    rate_gbps: pd.Series,
    lengths_m: Floats,
    parts: pd.DataFrame,
    allowed: npt.NDArray[np.bool_] | None = None,
    group: npt.NDArray[np.int64] | None = None,
) -> pd.DataFrame:
    """The part of the cable's rate with the shortest reach that suffices: columns medium, part ('' where none reaches).

    `parts` has columns rate_gbps, medium, part, reach_m, min_m (metres; a part fits from min_m to reach_m). `allowed` says
    which part (rows) goes into the cages of which cable (columns). Cables of a `group` share cages and get one part that suits
    all of them; where there is none, each gets its own.
    """
    chosen = np.full(len(lengths_m), -1, dtype=np.int64)
    rates = rate_gbps.to_numpy(dtype=np.float64)
    rate, shortest, reach = (parts[name].to_numpy(dtype=np.float64) for name in ("rate_gbps", "min_m", "reach_m"))
    order = np.argsort(reach, kind="stable").tolist()
    for together in (group, None) if group is not None else (None,):
        for i in order:
            fits = (rates == rate[i]) & (chosen < 0)
            if not fits.any():
                continue
            fits &= (lengths_m >= shortest[i]) & (lengths_m <= reach[i])
            if allowed is not None:
                fits &= allowed[i]
            if together is not None:
                fits &= np.bincount(together[~fits], minlength=int(together.max()) + 1)[together] == 0
            chosen[fits] = i
    names = np.array([("", ""), *zip(parts["medium"], parts["part"], strict=True)], dtype=object)
    return pd.DataFrame(names[chosen + 1], columns=["medium", "part"])


def longest_reach(parts: pd.DataFrame, rate_gbps: float) -> float:
    """Longest reach in metres of any part for this rate; 0.0 when there is no such part."""
    reach = parts.loc[parts["rate_gbps"] == rate_gbps, "reach_m"]
    return float(reach.max()) if len(reach) else 0.0
