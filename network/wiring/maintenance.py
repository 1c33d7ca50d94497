"""Switches that the site file puts in maintenance: what it says of them, and who has no other way meanwhile.

In: site, devices, cables. Out: findings.
"""

from collections.abc import Iterator

import pandas as pd

from inventory.findings import Finding, finding, remedy
from inventory.site import Site

NETWORKS = {"inband": "inband.maintenance", "compute": "fabric.maintenance"}
"""{network: the key that names its switches in maintenance}."""


def check(site: Site, devices: pd.DataFrame, cables: pd.DataFrame) -> Iterator[Finding]:
    """SWITCH-MAINTENANCE for each switch in maintenance, for a name that is no switch, and where there is no other way."""
    for network, key in NETWORKS.items():
        named = dict.fromkeys((site.inband if network == "inband" else site.fabric).maintenance)
        if not named:
            continue
        switches = devices[(devices["kind"] == "switch") & (devices["fabric"] == network)]
        known = set(switches["name"])
        if network == "compute" and site.fabric.kind != "roce":
            for name in named:
                yield finding("SWITCH-MAINTENANCE", name, severity="error", case="infiniband", words={"key": key})
            continue
        for name in named:
            words = {"key": key, "network": network}
            if name in known:
                done = remedy(fix="done", key=key)
                yield finding("SWITCH-MAINTENANCE", name, severity="info", case="drained", words=words, remedies=[done])
            else:
                words["known"] = ", ".join(sorted(known)[:3]) or "none"
                yield finding("SWITCH-MAINTENANCE", name, severity="error", case="unknown", words=words)
        yield from _without_other_way(network, set(named) & known, switches, cables)


def _without_other_way(
    network: str, drained: set[str], switches: pd.DataFrame, cables: pd.DataFrame
) -> Iterator[Finding]:
    for role, names in switches.groupby("role", sort=False)["name"]:
        if role != "leaf" and set(names) <= drained:
            words = {"network": network, "role": str(role), "switches": ", ".join(sorted(names))}
            yield finding("SWITCH-MAINTENANCE", network, severity="warning", case="tier", words=words)
    links = cables[(cables["fabric"] == network) & (cables["stage"] == "node-leaf")]
    way = links["a_device"] + (":" + links["rail"].astype(str) if network == "compute" else "")
    left = ~links["b_device"].isin(drained)
    cut = sorted(set(links.loc[~left.groupby(way).transform("any"), "a_device"]))
    if cut:
        yield finding(
            "SWITCH-MAINTENANCE",
            network,
            severity="warning",
            case="servers",
            servers=len(cut),
            words={"network": network, "first": cut[0]},
            remedies=[remedy(fix="drain")],
        )
