"""Lossless class of a RoCE site: its intent, the figures of each compute switch, and findings on what does not fit.

In: site, fat tree and cables with their lengths. The formulas are those of network.lossless.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from network import lossless, nos
from network.fabric import FatTree

_TIERS = ("node-leaf", "leaf-spine", "spine-core")


@dataclass(frozen=True)
class Lossless:
    """Figures of all compute switches of a site; bytes.

    ``ports``     one row per cabled port: device, port, rate_gbps, length_m, headroom
    ``xoff``      fill level at which a port pauses, by switch
    ``path``      what the longest path holds (bandwidth-delay product)
    ``ecn``       thresholds by switch; None where they do not fit below XOFF
    """

    ports: pd.DataFrame
    xoff: Mapping[str, int]
    path: float
    ecn: Mapping[str, lossless.Ecn | None]


def intent(site: Site) -> lossless.Intent | None:
    """The lossless class that the site asks for; None on InfiniBand."""
    fabric, wanted = site.fabric, site.fabric.lossless
    if fabric.congestion_control is None:
        return None
    return lossless.Intent(
        congestion_control=fabric.congestion_control,
        load_balancing=fabric.load_balancing,
        mtu=fabric.mtu,
        dscp=wanted.dscp,
        priority=wanted.priority,
        traffic_class=wanted.traffic_class,
        cnp_dscp=wanted.cnp_dscp,
        cnp_class=wanted.cnp_class,
        share_pct=wanted.share_pct,
        watchdog_ms=wanted.watchdog_ms,
    )


def figures(site: Site, hops: int, cables: pd.DataFrame, mtu: int | None = None) -> Lossless | None:
    """Headroom, XOFF and ECN thresholds of all compute switches; None for a model without figures, or without cables.

    `hops` are the switches of the longest path. `mtu` is another one than the site's.
    """
    chip, mtu = lossless.chips().get(site.fabric.switch_model), mtu or site.fabric.mtu
    compute = cables[(cables["fabric"] == "compute") & cables["stage"].isin(_TIERS)]
    if chip is None or compute.empty:
        return None
    ends = [_ends(compute[compute["stage"] != "node-leaf"], "a"), _ends(compute, "b")]
    ports = pd.concat(ends, ignore_index=True)
    ports["headroom"] = lossless.headrooms(
        ports["rate_gbps"].to_numpy(dtype=float), ports["length_m"].to_numpy(dtype=float), mtu, chip
    )
    total = ports.groupby("device", sort=False)["headroom"].agg(["size", "sum"])
    xoff = {
        str(name): lossless.xoff_bytes(chip.buffer_bytes, int(count), int(headroom))
        for name, count, headroom in total.itertuples(name=None)
    }
    longest = compute.groupby("stage")["length_m"].max()
    rtt = lossless.rtt_ns(hops, 2 * float(longest.sum()), chip, lossless.nic_ns())
    path = lossless.bandwidth_delay_bytes(float(compute["rate_gbps"].max()), rtt)
    ecn = {name: lossless.ecn_thresholds(path, limit, mtu) for name, limit in xoff.items()}
    return Lossless(ports, xoff, path, ecn)


def _ends(cables: pd.DataFrame, end: str) -> pd.DataFrame:
    """The ports at one end of `cables`, with rate and length."""
    columns = [f"{end}_device", f"{end}_port", "rate_gbps", "length_m"]
    return cables[columns].set_axis(["device", "port", "rate_gbps", "length_m"], axis=1)


def check(site: Site, tree: FatTree | None, cables: pd.DataFrame) -> list[Finding]:
    """FABRIC-LOSSLESS-*: a buffer without room for headroom and marking, marking below one bandwidth-delay product, or a
    switch without figures. Nothing on InfiniBand.
    """
    wanted, model = intent(site), site.fabric.switch_model
    if wanted is None or tree is None:
        return []
    found = check_system(site, wanted)
    if model not in lossless.chips():
        unknown = finding(
            "FABRIC-LOSSLESS-UNKNOWN", model, limit_source="network/lossless.yaml", remedies=[remedy(fix="entered")]
        )
        return [*found, unknown]
    made = figures(site, tree.maximum_hops(), cables)
    if made is None or not wanted.marks:
        return found
    source = f"network/lossless.yaml {model}"
    name = min(made.xoff, key=lambda device: made.xoff[device])
    ecn, xoff = made.ecn[name], made.xoff[name]
    if ecn is None:
        own = made.ports[made.ports["device"] == name]
        smaller = next((mtu for mtu in (4200, 2200, 1500) if mtu < wanted.mtu and _fits(site, tree, cables, mtu)), None)
        return [
            *found,
            finding(
                "FABRIC-LOSSLESS-BUFFER",
                name,
                limit_source=source,
                words={"model": model},
                cabled=len(own),
                headroom_kib=int(own["headroom"].sum()) // lossless.KIB,
                buffer_kib=lossless.chips()[model].buffer_bytes // lossless.KIB,
                xoff_kib=xoff // lossless.KIB,
                remedies=[
                    *([remedy({"fabric.mtu": smaller}, fix="smaller-frames")] if smaller else []),
                    remedy(fix="larger-buffer"),
                ],
            ),
        ]
    if ecn.minimum < made.path:
        return [
            *found,
            finding(
                "FABRIC-LOSSLESS-ECN",
                name,
                limit=xoff // lossless.KIB,
                limit_source=source,
                path_kib=int(made.path) // lossless.KIB,
                rate_gbps=float(made.ports["rate_gbps"].max()),
                minimum_kib=ecn.minimum // lossless.KIB,
                remedies=[remedy(fix="larger-buffer")],
            ),
        ]
    return found


def check_system(site: Site, wanted: lossless.Intent) -> list[Finding]:
    """FABRIC-LOSSLESS-SYSTEM for each part of the intent that the site's network OS does not have by its capability table."""
    found, system = [], site.fabric.nos
    if wanted.congestion_control == "spectrum_x" and wanted.load_balancing != "adaptive":
        found.append(_lacks("spectrum-x", "fabric.load_balancing", wanted.load_balancing, "adaptive", "site fabric"))
    if system is None:
        return found
    table, source = nos.capabilities(system), f"network/nos/{system}/capabilities.yaml"
    if not runs_on_switch(site):
        found.append(
            finding(
                "FABRIC-LOSSLESS-SYSTEM",
                "fabric.nos",
                case="layout" if "models" in table else "switch",
                limit_source=source,
                words={"nos": system, "wanted": _switch(site, table), "known": ", ".join(_switches(table))},
                remedies=[remedy(fix="another-switch", nos=system)],
            )
        )
    for case, key, value in (
        ("balancing", "load_balancing", wanted.load_balancing),
        ("control", "congestion_control", wanted.congestion_control),
    ):
        if value not in table[key]:
            instead = "adaptive" if value == "dynamic" and "adaptive" in table[key] else table[key][0]
            found.append(_lacks(case, f"fabric.{key}", value, instead, source, nos=system, known=", ".join(table[key])))
    if not takes_mtu(site):
        most = table["mtu_max"]
        found.append(_lacks("mtu", "fabric.mtu", str(wanted.mtu), most, source, nos=system, known=str(most)))
    for key, value in table["fixed"].items():
        if getattr(wanted, key) != value:
            asked = f"{key} {getattr(wanted, key)}"
            found.append(
                _lacks("fixed", f"fabric.lossless.{key}", asked, value, source, nos=system, known=f"{key} {value}")
            )
    return found


def runs_on_switch(site: Site) -> bool:
    """Whether the network OS of the compute switches runs on their model, as far as its capability table says; True without one."""
    if site.fabric.nos is None:
        return True
    table = nos.capabilities(site.fabric.nos)
    return _switch(site, table) in _switches(table)


def takes_mtu(site: Site) -> bool:
    """Whether the network OS of the compute switches has ports of the site's MTU; True without one, or where no limit is known."""
    if site.fabric.nos is None:
        return True
    return site.fabric.mtu <= int(nos.capabilities(site.fabric.nos).get("mtu_max", site.fabric.mtu))


def _switches(table: Mapping[str, Any]) -> list[str]:
    """Models that a network OS is rendered for, or the makers whose switches all are."""
    found: list[str] = table["models"] if "models" in table else table["makers"]
    return found


def _switch(site: Site, table: Mapping[str, Any]) -> str:
    """What of the site's compute switch `_switches` is about: its model, or its maker."""
    model = site.fabric.switch_model
    return model if "models" in table else site.catalog.device(model).manufacturer


def _lacks(case: str, key: str, wanted: str, instead: str | int, source: str, **words: str) -> Finding:
    return finding(
        "FABRIC-LOSSLESS-SYSTEM",
        key,
        case=case,
        limit_source=source,
        words={"wanted": wanted, **words},
        remedies=[remedy({key: instead}, fix="other")],
    )


def _fits(site: Site, tree: FatTree, cables: pd.DataFrame, mtu: int) -> bool:
    made = figures(site, tree.maximum_hops(), cables, mtu)
    return made is not None and None not in made.ecn.values()
