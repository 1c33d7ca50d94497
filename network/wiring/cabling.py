"""Cable plan: routed length of each cable, the part that reaches that far, and cables that no part fits.

In: a frame of cables (network.fabric.LINK_COLUMNS with `rate_gbps`), a frame with the place of each device, and a table
of cable parts. Out: lengths in metres, medium and part per cable, and findings on reach and cages. Vectorised: no Python
object per cable.

Route: within a rack, straight between the two devices. Otherwise up to the tray, along the row, across the rows at
right angles (trays run along every row and cross them at every rack position), and down again. Slack is added once per
cable.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from inventory.findings import Finding, finding, remedy
from network import optics

Floats = npt.NDArray[np.float64]


def names_by_role(devices: pd.DataFrame) -> dict[tuple[str, str], list[str]]:
    """Names of devices by (fabric, role)."""
    found: dict[tuple[str, str], list[str]] = {}
    for fabric, role, name in zip(*(devices[column].tolist() for column in ("fabric", "role", "name")), strict=True):
        found.setdefault((fabric, role), []).append(name)
    return found


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


def check_ports(cables: pd.DataFrame) -> list[Finding]:
    """CABLE-PORT for each fabric in which a port has more than one cable: the first such port, and how many there are."""
    ends = pd.concat(
        pd.DataFrame(
            {
                "fabric": cables["fabric"],
                "port": cables[f"{near}_device"] + ":" + cables[f"{near}_port"],
                "far": cables[f"{far}_device"] + ":" + cables[f"{far}_port"],
            }
        )
        for near, far in ("ab", "ba")
    )
    doubled = ends[ends["port"].duplicated(keep=False)]
    findings = []
    for fabric, rows in doubled.groupby("fabric", sort=True):
        port = str(rows["port"].iloc[0])
        far = ends.loc[ends["port"] == port, "far"].tolist()
        findings.append(
            finding(
                "CABLE-PORT",
                str(fabric),
                limit=1,
                limit_source="a port takes one cable",
                ports=(port, *far),
                cables=len(far),
                words={"port": port, "ends": ", ".join(far)},
                more_numbers={"ports": int(rows["port"].nunique())},
            )
        )
    return findings


def check_reach(cables: pd.DataFrame, table: pd.DataFrame, source: str) -> list[Finding]:
    """CABLE-REACH for each stage with cables that no part of their rate reaches: the longest one, and how many."""
    if not (cables["part"] == "").any():
        return []
    reach_m = cables["rate_gbps"].map({rate: longest_reach(table, rate) for rate in cables["rate_gbps"].unique()})
    short = cables[(cables["part"] == "") & (cables["length_m"] > reach_m)]
    findings = []
    for stage, rate in sorted(set(zip(short["stage"], short["rate_gbps"], strict=True))):
        group = short[(short["stage"] == stage) & (short["rate_gbps"] == rate)]
        worst = group.iloc[int(group["length_m"].to_numpy().argmax())]
        reach = longest_reach(table, rate)
        findings.append(
            finding(
                "CABLE-REACH",
                str(worst["cable_id"]),
                limit=reach,
                limit_source=f"catalogue media {source}",
                err="ERR-15",
                ports=(f"{worst['a_device']}:{worst['a_port']}", f"{worst['b_device']}:{worst['b_port']}"),
                cables=len(group),
                length_m=float(worst["length_m"]),
                remedies=[
                    remedy(fix="longer-part"),
                    remedy(fix="closer", closer_m=round(float(worst["length_m"]) - reach, 2)),
                ],
                words={"stage": stage, "rate_gbps": rate, "far": f"{worst['b_device']}:{worst['b_port']}"},
            )
        )
    return findings


def check_cages(cables: pd.DataFrame, at: optics.Ends, table: pd.DataFrame, source: str) -> list[Finding]:
    """CABLE-CAGE: cables that no part joins though it would reach, by their cages; and cages whose cables are of two parts."""
    limit_source = f"catalogue media {source}, plugs"
    mixed = _check_mixed(cables, at, limit_source)
    if not (cables["part"] == "").any():
        return mixed
    reach_m = cables["rate_gbps"].map({rate: longest_reach(table, rate) for rate in cables["rate_gbps"].unique()})
    apart = np.flatnonzero((cables["part"] == "") & (cables["length_m"] <= reach_m))
    findings = []
    kinds = cables.iloc[apart].assign(a_kind=at.kind[0, apart], b_kind=at.kind[1, apart])
    for _, rows in kinds.groupby(["rate_gbps", "a_kind", "b_kind"], sort=False):
        rate, a_kind, b_kind = (rows[name].iloc[0] for name in ("rate_gbps", "a_kind", "b_kind"))
        worst = rows.iloc[int(rows["length_m"].to_numpy().argmax())]
        a_end, b_end = f"{worst['a_device']}:{worst['a_port']}", f"{worst['b_device']}:{worst['b_port']}"
        findings.append(
            finding(
                "CABLE-CAGE",
                str(worst["cable_id"]),
                case="no-part",
                limit_source=limit_source,
                err="",
                ports=(a_end, b_end),
                cables=len(rows),
                length_m=float(worst["length_m"]),
                words={
                    "rate_gbps": rate,
                    "a_cage": at.kinds[a_kind],
                    "b_cage": at.kinds[b_kind],
                    "a_end": a_end,
                    "b_end": b_end,
                },
                remedies=[remedy(fix="other-cages"), remedy(fix="nearer"), remedy(fix="add-part")],
            )
        )
    return findings + mixed


def check_known(cables: pd.DataFrame, at: optics.Ends, devices: pd.DataFrame) -> list[Finding]:
    """CABLE-CAGE-UNKNOWN: models whose entry does not say the cages of ports in use, so that their optics are a guess."""
    open_ = [i for i, kind in enumerate(at.kinds) if not kind.form]
    end, row = np.nonzero(np.isin(at.kind, open_))
    if not len(row):
        return []
    names = cables[["a_device", "b_device"]].to_numpy()[row, end]
    ports = cables[["a_port", "b_port"]].to_numpy()[row, end]
    known = pd.DataFrame({"device": names, "port": ports})
    known["model"] = known["device"].map(devices.set_index("name")["model"])
    return [
        finding(
            "CABLE-CAGE-UNKNOWN",
            str(model),
            limit_source=f"catalogue {model} interfaces, bringup.cages",
            words={"example": f"{rows['device'].iloc[0]}:{rows['port'].iloc[0]}"},
            remedies=[remedy(fix="interfaces"), remedy(fix="cages")],
            more_numbers={"ports": len(rows)},
        )
        for model, rows in known.groupby("model", sort=True)
    ]


def _check_mixed(cables: pd.DataFrame, at: optics.Ends, limit_source: str) -> list[Finding]:
    """CABLE-CAGE for cages that would need two plugs: the first one, and how many."""
    part = pd.factorize(cables["part"])[0]
    each = pd.DataFrame({"cage": at.code.ravel(), "part": np.tile(part, 2)}).drop_duplicates()
    mixed = each.loc[each["cage"].duplicated() & (np.tile(cables["part"], 2)[each.index] != ""), "cage"].unique()
    if not len(mixed):
        return []
    end, row = np.nonzero(at.code == mixed[0])
    device = cables[["a_device", "b_device"]].to_numpy()[row[0], end[0]]
    ports = cables[["a_port", "b_port"]].to_numpy()[row, end].tolist()
    parts = sorted({part for part in cables["part"].iloc[row] if part})
    rate, length_m = cables["rate_gbps"].to_numpy(), cables["length_m"].to_numpy()
    in_cage = [f"{name} {rate[i]:g} Gb/s over {length_m[i]:g} m" for name, i in zip(ports, row, strict=True)]
    return [
        finding(
            "CABLE-CAGE",
            f"{device}:{ports[0]}",
            case="several-parts",
            limit=1,
            limit_source=limit_source,
            err="",
            ports=tuple(f"{device}:{port}" for port in ports),
            cages=len(mixed),
            words={"in_cage": ", ".join(in_cage), "parts": ", ".join(parts)},
            remedies=[remedy(fix="one-rate"), remedy(fix="nearer-to-both")],
        )
    ]
