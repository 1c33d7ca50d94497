"""In which order the switches get new software (S061): one row a switch, in windows.

Trunk switches are upgraded under load, one at a time: what hangs on them has other ways. In-band leaves are too, as servers have
two. A compute leaf is the only way of its servers to a rail, so the leaves of a unit share a window in which the unit's servers are
drained by a reservation. A server that would lose its last in-band leaf in a window is drained as well.
"""

import pandas as pd

from capacity.model import Plan

COLUMNS = ("window", "fabric", "role", "switch", "rack", "rack_u", "drained")
FABRICS = ("inband", "compute")
ROLES = ("core", "spine", "leaf")
"""From the top down: the version that a leaf needs of its spine is there when the leaf comes."""


def switch_upgrade(plan: Plan) -> pd.DataFrame:
    """The windows, numbered from 1. `drained`: names of the servers without jobs in this window, '' for none."""
    devices = plan.devices[(plan.devices["kind"] == "switch") & plan.devices["fabric"].isin(FABRICS)]
    place = plan.placements.set_index("device")
    below = plan.cables[plan.cables["stage"] == "node-leaf"]
    rows: list[tuple[object, ...]] = []
    window = 0
    for fabric in FABRICS:
        mine = devices[devices["fabric"] == fabric]
        hosts = below[below["fabric"] == fabric]
        for role in ROLES:
            of_role = mine[mine["role"] == role]
            together = (
                of_role["unit"]
                if (fabric, role) == ("compute", "leaf")
                else pd.Series(range(len(of_role)), of_role.index)
            )
            for _, switches in of_role.groupby(together, sort=False):
                window += 1
                drained = " ".join(cut_off(hosts, set(switches["name"]), every=fabric == "inband"))
                for name in switches["name"]:
                    rack, rack_u = place.loc[name, ["rack", "u_bottom"]] if name in place.index else ("", "")
                    rows.append((window, fabric, role, name, rack, rack_u, drained))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def cut_off(cables: pd.DataFrame, switches: set[str], *, every: bool) -> list[str]:
    """Servers whose cables lead to these leaves: all of them (`every`) or one."""
    there = cables["b_device"].isin(switches).groupby(cables["a_device"], sort=False)
    lost = there.all() if every else there.any()
    return [str(name) for name in lost[lost].index]
