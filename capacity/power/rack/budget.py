"""The power plan of a site: supplies, cords, outlets, circuits and feeds, judged against their limits.

In: site, catalogue, placed devices, rack PDUs and power shelves. Out: frames `feeds`, `circuits`, `outlets` (columns of
capacity.model.frames), the cords, and findings. A rule that many racks break alike gives one finding, which names the worst
and counts the others.

Findings: POWER-PSU-REDUNDANCY (ERR-02), POWER-FEED-LOSS and POWER-CAP (ERR-05), POWER-OUTLETS, POWER-CORD (ERR-16), POWER-BANK,
POWER-VOLTAGE, POWER-PDU-RATING, POWER-PHASE-BALANCE, POWER-PROFILE and POWER-SEED-PROFILE (ERR-01). The circuits
themselves are judged in capacity.power.rack.breakers, when the failures of the supply above them are known.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.least import Tried
from capacity.power.facility import overhead_for_total_pct
from capacity.power.rack import breakers, circuits, distribution, psus
from capacity.power.rack import line_currents as phases
from capacity.power.rack.distribution import Cords, Outlet
from capacity.power.rack.psus import supplies_by_model
from capacity.space.devices import BUSBAR
from capacity.worst import ROUNDING, worst_of
from inventory.catalog import Catalog, CatalogError, DeviceType, Pdu
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from inventory.site.rules import SAME_VOLTAGE

LINE_TO_LINE = 0.9
"""Share of the line-to-line voltage above which an outlet lies between two lines: phase to neutral is 1 / sqrt(3) = 0.577 of
it, and names of one voltage differ by 5 % (SAME_VOLTAGE); anything between these two would do."""
"""Findings of racks and rack power for a changed site, planned anew."""
MOST_TRIALS = 8
"""Plans of the racks after which the search for fewer servers a rack ends: bounds the time of a plan with findings."""
_LEG_PHASE = {"A": "L1", "B": "L2", "C": "L3"}
_LEG_LINE = {"A": "L1-L2", "B": "L2-L3", "C": "L3-L1"}
_OF_END = re.compile("^(pdu|shelf)-")


@dataclass(frozen=True)
class Power:
    """`feeds`, `circuits`, `outlets` as in capacity.model.frames; `cords`: device or busbar, psu, pdu or shelf, inlet and
    connector ('' if none fits, and for shelves). `cord`, `fed` (loads, with lost_w) and `end_w` are what they were
    computed from; `model_of` and `use_of` have the catalogue slug and the use of the rack (one of RACK_USES) of each rack PDU
    and power shelf by its name.
    """

    feeds: pd.DataFrame
    circuits: pd.DataFrame
    outlets: pd.DataFrame
    cords: pd.DataFrame
    findings: tuple[Finding, ...]
    cord: Cords
    fed: pd.DataFrame
    end_w: npt.NDArray[np.float64]
    balance: distribution.Balance
    legs: phases.Legs
    model_of: Mapping[str, str]
    use_of: Mapping[str, str]


def build(
    site: Site,
    catalog: Catalog,
    devices: pd.DataFrame,
    placements: pd.DataFrame,
    ends: pd.DataFrame,
    tried: Tried | None = None,
) -> Power:
    """Power of `devices` in the racks of `placements`; `tried` plans changed sites, and without it the remedies that need
    one are not looked for.

    `ends` are the ends of the circuits, which are not among `devices`: rack PDUs as from equipment.pdu_devices, and
    behind them power shelves as from equipment.shelf_devices.
    """
    common = pdu_facts(catalog, site.power.rack_pdu.model)
    profile = f"{site.power.profile}_w"
    pdus = ends[ends["kind"] == "pdu"]
    kinds = _pdu_kinds(site, catalog, pdus)
    outlets = _outlets(site, kinds, pdus)
    inlets = {slug: catalog.device(slug).inlet_type for slug in devices["model"].unique()}
    fed, cord, fed_w, lost_w = _loads(site, devices, placements, ends, inlets)
    load_w = cord.normal_w(fed_w)
    mates = {inlet: catalog.connector(inlet).mates for inlet in set(inlets.values()) if inlet}
    after_w = cord.after_loss_w(lost_w)
    chosen = distribution.assign_outlets(cord, load_w, pdus, outlets, lambda inlet: mates.get(inlet, ()), after_w)
    states_w = np.column_stack([load_w, after_w])
    outlet_frame = distribution.outlet_frame(cord, chosen, load_w, pdus, outlets)
    connector = np.array([*(outlet.connector for outlet in outlets.listed), ""], dtype=object)[chosen]
    circuit_frame = _circuits(site, cord, fed_w, lost_w, ends, profile)
    usable_w = circuit_frame["usable_kw"].to_numpy(dtype=np.float64)[: len(pdus)] * 1000
    balanced = distribution.balance_by_pdu(cord, chosen, states_w, outlets.listed, usable_w)
    legs = _legs(chosen, outlets.listed, circuit_frame, site.power.power_factor)
    circuit_frame = _with_lines(circuit_frame, site, cord, states_w, legs, ends[profile].to_numpy(dtype=np.float64))
    circuit_frame = circuit_frame.assign(**_padded(balanced, len(ends)))
    feed_frame = distribution.feed_frame(cord, fed, ends, site.power.feeds, site.power.voltage_v, profile)

    findings = _check_supplies(site, catalog, fed)
    findings += _check_profile(site, catalog)
    findings += _check_circuit(site, kinds, tried)
    of_pdus = circuit_frame.iloc[: len(pdus)]
    for number, kind in enumerate(kinds):
        findings += _check_pdu(site, kind, of_pdus[outlets.kind == number])
    findings += _check_voltage(site, catalog, devices, common)
    findings += _check_cords(site, catalog, devices, common, inlets, mates)
    for number, kind in enumerate(kinds):
        findings += _check_outlets(site, cord, chosen, outlets.kind == number, kind, mates, tried)
    for number, kind in enumerate(kinds):
        findings += _check_banks(site, cord, chosen, fed_w, lost_w, outlets, number, pdus, kind, tried)
    findings += _check_phases(site, balanced, pdus)
    return Power(
        feed_frame,
        circuit_frame,
        outlet_frame,
        cord.frame.assign(connector=connector),
        tuple(findings),
        cord,
        fed,
        ends[profile].to_numpy(dtype=np.float64),
        balanced,
        legs,
        dict(zip(ends["name"], ends["model"], strict=True)),
        dict(zip(ends["name"], ends["use"], strict=True)),
    )


def circuit_loads(
    site: Site, catalog: Catalog, devices: pd.DataFrame, placements: pd.DataFrame, ends: pd.DataFrame
) -> pd.DataFrame:
    """The circuits of `build` with their loads alone: no outlets are given, no lines looked at, nothing is judged."""
    inlets = {slug: catalog.device(slug).inlet_type for slug in devices["model"].unique()}
    _, cord, fed_w, lost_w = _loads(site, devices, placements, ends, inlets)
    return _circuits(site, cord, fed_w, lost_w, ends, f"{site.power.profile}_w")


def _loads(
    site: Site, devices: pd.DataFrame, placements: pd.DataFrame, ends: pd.DataFrame, inlets: Mapping[str, str]
) -> tuple[pd.DataFrame, Cords, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """What supplies feed, their cords, and what each cord's load draws: normally, and while a feed is lost."""
    profile = f"{site.power.profile}_w"
    racks = placements.set_index("device")["rack"].reindex(devices["name"]).reset_index(drop=True)
    drawn = devices.assign(lost_w=_lost_w(site, devices, profile))
    fed = distribution.loads(drawn, racks, [*distribution.PROFILES, "lost_w"], ends[ends["kind"] == "shelf"])
    splits = {BUSBAR if site.server.system else "gpu": site.server.supplies.split_by_feed}
    cord = distribution.cords(fed, ends, site.power.feeds, splits, inlets)
    index = cord.frame["device_index"].to_numpy()
    return (
        fed,
        cord,
        fed[profile].to_numpy(dtype=np.float64)[index],
        fed["lost_w"].to_numpy(dtype=np.float64)[index],
    )


def _lost_w(site: Site, devices: pd.DataFrame, profile: str) -> npt.NDArray[np.float64]:
    """What each device draws while a feed is lost: the site's profile, and no more than the power cap of its servers."""
    watts: npt.NDArray[np.float64] = devices[profile].to_numpy(dtype=np.float64)
    cap = site.server.power.cap_w
    return watts if cap is None else np.where(devices["role"] == "gpu", np.minimum(watts, cap), watts)


@dataclass(frozen=True)
class _PduKind:
    """The rack PDUs that one key of the site's power states."""

    key: str
    model: DeviceType
    facts: Pdu


def pdu_facts(catalog: Catalog, slug: str) -> Pdu:
    """Facts of a rack PDU; CatalogError where the entry has none."""
    facts = catalog.device(slug).bringup.pdu
    if facts is None:
        raise CatalogError(f"device type {slug} has no bringup.pdu block: it is no rack PDU")
    return facts


def _pdu_kinds(site: Site, catalog: Catalog, pdus: pd.DataFrame) -> list[_PduKind]:
    """Kinds of the rack PDUs, in the order in which they come; the site's rack_pdu where there is no rack PDU."""
    models = dict(zip(pdus["pdu_key"], pdus["model"], strict=True)) or {"rack_pdu": site.power.rack_pdu.model}
    return [_PduKind(key, catalog.device(slug), pdu_facts(catalog, slug)) for key, slug in models.items()]


def _outlets(site: Site, kinds: list[_PduKind], pdus: pd.DataFrame) -> distribution.Outlets:
    """Outlets of the rack PDUs."""
    listed = [pdu_outlets(kind.model, kind.facts) for kind in kinds]
    volts = [outlet_v(site, kind.facts) for kind in kinds]
    bank_a = [kind.facts.bank_a * site.power.derating for kind in kinds]
    return distribution.Outlets(
        [outlet for outlets in listed for outlet in outlets],
        np.cumsum([0, *(len(outlets) for outlets in listed)]),
        pd.Index([kind.key for kind in kinds]).get_indexer(pd.Index(pdus["pdu_key"])).astype(np.int64),
        np.array([amps * v * site.power.power_factor for amps, v in zip(bank_a, volts, strict=True)]),
    )


def pdu_outlets(model: DeviceType, facts: Pdu) -> list[Outlet]:
    """Outlets of a PDU model; a leg is a phase to neutral, or two lines where the outlet has the line-to-line
    voltage.
    """
    legs = _LEG_LINE if facts.phases == 3 and facts.outlet_v > LINE_TO_LINE * facts.voltage_v else _LEG_PHASE
    return [Outlet(int(outlet.name), outlet.type, legs[outlet.feed_leg], outlet.bank) for outlet in model.power_outlets]


def _circuits(
    site: Site,
    cord: Cords,
    fed_w: npt.NDArray[np.float64],
    lost_w: npt.NDArray[np.float64],
    ends: pd.DataFrame,
    profile: str,
) -> pd.DataFrame:
    """One circuit for each of `ends`: named cb- and the rack and last part of the end's own name."""
    power = site.power
    normal, lost = distribution.circuit_loads_kw(cord, fed_w, lost_w, ends[profile].to_numpy(dtype=np.float64))
    own = pd.Index(power.feeds).get_indexer(pd.Index(ends["feed"]))
    lost[np.arange(len(ends)), own] = 0.0
    kind, keys = pd.factorize(ends["circuit_key"].to_numpy(dtype=object))
    specs = [power.circuit(key) for key in keys.tolist()]
    usable_kw = [
        circuits.usable_kw(one.breaker_a, power.voltage_v, power.derating, one.phases, power.power_factor)
        for one in specs
    ]
    return pd.DataFrame(
        {
            "circuit": ["cb-" + _OF_END.sub("", name) for name in ends["name"].tolist()],
            "rack": ends["rack"],
            "feed": ends["feed"],
            "pdu": ends["name"],
            "breaker_a": np.array([one.breaker_a for one in specs], dtype=np.float64)[kind],
            "voltage_v": power.voltage_v,
            "phases": np.array([one.phases for one in specs], dtype=np.int64)[kind],
            "usable_kw": np.array(usable_kw, dtype=np.float64)[kind].round(6),
            "load_kw": normal.round(6),
            "worst_kw": np.maximum(lost.max(axis=1), normal).round(6),
            "worst_case": _state_names(site, np.column_stack([normal, lost])),
            "circuit_of": keys[kind],
        }
    )


def _state_names(site: Site, by_state: npt.NDArray[np.float64]) -> npt.NDArray[np.object_]:
    """State of the largest value of each row: '' for all feeds up, else the feed that is lost."""
    names = np.array(["", *(f"feed {feed}" for feed in site.power.feeds)], dtype=object)
    return np.where(by_state.max(axis=1) > by_state[:, 0] + 1e-6, names[by_state.argmax(axis=1)], "")


def _legs(
    chosen: npt.NDArray[np.int64], outlets: list[Outlet], frame: pd.DataFrame, power_factor: float
) -> phases.Legs:
    """The legs of all cords; those without an outlet (power shelves) lie on all lines."""
    of_outlet, between = phases.of_outlets([outlet.phase for outlet in outlets])
    return phases.Legs(
        np.append(of_outlet, phases.EVEN)[chosen],
        between,
        frame["voltage_v"].to_numpy(dtype=np.float64),
        frame["phases"].to_numpy(dtype=np.int64),
        power_factor,
    )


def _with_lines(
    frame: pd.DataFrame,
    site: Site,
    cord: Cords,
    states_w: npt.NDArray[np.float64],
    legs: phases.Legs,
    end_w: npt.NDArray[np.float64],
) -> pd.DataFrame:
    """`frame` with the largest line current with all feeds up, and with the largest one with any feed lost: amperes, line
    and state.
    """
    circuit = cord.frame["pdu_index"].to_numpy(dtype=np.int64)
    lines = np.stack(
        [legs.line_a(phases.leg_watts(legs.of_cord, circuit, watts, end_w)) for watts in states_w.T], axis=1
    )
    own = 1 + pd.Index(site.power.feeds).get_indexer(pd.Index(frame["feed"]))
    lines[np.arange(len(frame)), own] = 0.0
    largest = lines.max(axis=2)
    state = largest.argmax(axis=1)
    line = lines[np.arange(len(frame)), state].argmax(axis=1)
    return frame.assign(
        phase_a=largest[:, 0].round(6),
        worst_phase_a=largest.max(axis=1).round(6),
        worst_phase=np.array(phases.LINES, dtype=object)[line],
        phase_case=_state_names(site, largest),
    )


def _padded(balanced: distribution.Balance, ends: int) -> dict[str, npt.NDArray[np.float64]]:
    """The balance of the rack PDUs as columns of all ends; power shelves, which come last, load their lines evenly."""
    given = {
        "imbalance_pct": balanced.normal_pct,
        "imbalance_bound_pct": balanced.bound_pct,
        "loss_imbalance_pct": balanced.loss_pct,
        "loss_imbalance_bound_pct": balanced.loss_bound_pct,
    }
    return {name: np.append(values, np.zeros(ends - len(values))).round(6) + 0.0 for name, values in given.items()}


def _check_supplies(site: Site, catalog: Catalog, fed: pd.DataFrame) -> list[Finding]:
    """Redundancy at nameplate, whatever the profile of the circuits; of busbars the one that draws most.

    Under a power cap the loss of a feed is judged at the cap.
    """
    found = []
    cap = site.server.power.cap_w
    for (role, slug), supplies_of in supplies_by_model(site, catalog).items():
        if role == "gpu":
            load, source, key = site.server.power.nameplate_w, "site server.psu", "server.psu"
            capped, servers = None if cap is None else min(load, cap), 1
        elif role == BUSBAR:
            busbars = fed[fed["role"] == role]
            load, source, key = float(busbars["nameplate_w"].max()), "site server.shelves", "server.shelves"
            saved = site.server.power.nameplate_w - min(cap or np.inf, site.server.power.nameplate_w)
            servers = catalog.system(slug).count("compute")
            capped = None if cap is None else load - saved * servers
        else:
            load, source, key = catalog.device(slug).bringup.power.nameplate_w, f"catalogue {slug} psu", ""
            capped, servers = None, 0
        subject = f"{slug} busbar" if role == BUSBAR else slug
        power = site.server.power
        found += psus.check(
            subject,
            supplies_of,
            load,
            source,
            capped,
            servers,
            power.nameplate_w,
            power.measured_w,
            key,
            site.power.feeds,
        )
    return list(dict.fromkeys(found))


def _check_profile(site: Site, catalog: Catalog) -> list[Finding]:
    """What the profile of the circuits leaves out; and how far the seed figure lies under the nameplate (ERR-01)."""
    power, profile = site.server.power, site.power.profile
    gpus = catalog.device(site.server.model).bringup.gpus * site.gpu.tdp_w
    found = []
    if gpus and power.seed_w < power.nameplate_w:
        seed_pct, nameplate_pct = (overhead_for_total_pct(gpus, w) for w in (power.seed_w, power.nameplate_w))
        found.append(
            finding(
                "POWER-SEED-PROFILE",
                "server.power",
                limit=power.nameplate_w,
                limit_source="site server.power.nameplate_w",
                err="ERR-01",
                gpus_w=gpus,
                seed_w=power.seed_w,
                nameplate_w=power.nameplate_w,
                words={"seed_pct": seed_pct, "nameplate_pct": nameplate_pct},
            )
        )
    if profile != "nameplate":
        load = getattr(power, f"{profile}_w")
        found.append(
            finding(
                "POWER-PROFILE",
                "power.profile",
                limit=power.nameplate_w,
                limit_source="site server.power.nameplate_w",
                err="ERR-01",
                profile_w=load,
                nameplate_w=power.nameplate_w,
                words={"profile": profile},
                remedies=[remedy({"power.profile": "nameplate"}, fix="nameplate"), remedy(fix="waiver")],
            )
        )
    return found


def _check_circuit(site: Site, kinds: list[_PduKind], tried: Tried | None) -> list[Finding]:
    """POWER-VOLTAGE of each model of rack PDU that does not fit its circuit in voltage and phases. Another voltage changes what
    panels and transformers carry.
    """
    circuit = site.power.rack_circuit
    found = []
    for kind in {one.model.slug: one for one in reversed(kinds)}.values():
        facts, slug = kind.facts, kind.model.slug
        differ = abs(facts.voltage_v - site.power.voltage_v) > SAME_VOLTAGE * facts.voltage_v
        if not differ and facts.phases == circuit.phases:
            continue
        as_rated = ({"power.rack_circuit.phases": facts.phases} if facts.phases != circuit.phases else {}) | (
            {"power.voltage_v": facts.voltage_v} if differ else {}
        )
        made = tried.least(as_rated, "POWER-VOLTAGE", slug) if tried else None
        found.append(
            finding(
                "POWER-VOLTAGE",
                slug,
                case="circuit",
                limit=facts.voltage_v,
                limit_source=f"catalogue {slug} pdu",
                err="ERR-04",
                pdu_v=facts.voltage_v,
                circuit_v=site.power.voltage_v,
                words={"pdu_phases": facts.phases, "circuit_phases": circuit.phases},
                remedies=[remedy(fix="other-pdu", pdu_key=kind.key), *([remedy(made)] if made else [])],
            )
        )
    return found


def _check_pdu(site: Site, kind: _PduKind, fed: pd.DataFrame) -> list[Finding]:
    """The breakers of rack PDUs of one kind, whose circuits are `fed`, against what these PDUs are rated."""
    found = []
    for key, alike in fed.groupby("circuit_of", sort=False):
        breaker_a = float(alike["breaker_a"].iloc[0])
        if breaker_a > kind.facts.input_a:
            found.append(_over_rating(site, kind, str(key), alike))
    return found


def _over_rating(site: Site, kind: _PduKind, key: str, fed: pd.DataFrame) -> Finding:
    """POWER-PDU-RATING of the circuits `fed`, which `power.<key>` states. PDUs of racks of one use get a circuit of their own, so
    that the breakers of the others stay.
    """
    breaker_a = float(fed["breaker_a"].iloc[0])
    share = max(
        (fed["worst_kw"] / fed["usable_kw"]).max(),
        (fed["worst_phase_a"] / site.power.derating).max() / breaker_a,
    )
    code = site.power.code
    least = circuits.next_rating_a(code, breaker_a * share)
    most = circuits.rating_below_a(code, kind.facts.input_a)
    own = kind.key.replace("_pdu", "_circuit") if key == "rack_circuit" else key
    sizes = f"{least} to {most}" if least < most else f"{most}"
    smaller = [remedy({f"power.{own}.breaker_a": most}, fix="smaller-breaker", circuit=own, sizes=sizes)]
    return finding(
        "POWER-PDU-RATING",
        f"power.{key}.breaker_a",
        limit=kind.facts.input_a,
        limit_source=f"catalogue {kind.model.slug} pdu.input_a",
        breaker_a=breaker_a,
        remedies=[*(smaller if least <= most else []), remedy(fix="larger-pdu", pdu_key=kind.key)],
    )


def outlet_v(site: Site, facts: Pdu) -> float:
    """Voltage at the outlets: the site's, in the proportion that the PDU states between its own input and its outlets."""
    return site.power.voltage_v * facts.outlet_v / facts.voltage_v


def _check_voltage(site: Site, catalog: Catalog, devices: pd.DataFrame, facts: Pdu) -> list[Finding]:
    """Each supply must accept the voltage at the outlets, and the site's own must be stated at it."""
    found = []
    volts = outlet_v(site, facts)
    for slug in devices["model"].unique():
        psu = catalog.device(slug).bringup.psu
        if psu is None or not catalog.device(slug).inlet_type:
            continue
        if not psu.input_v_min * (1 - SAME_VOLTAGE) <= volts <= psu.input_v_max * (1 + SAME_VOLTAGE):
            found.append(
                finding(
                    "POWER-VOLTAGE",
                    slug,
                    case="supplies",
                    limit=psu.input_v_max,
                    limit_source=f"catalogue {slug} psu",
                    err="ERR-04",
                    outlet_v=round(volts, 1),
                    min_v=psu.input_v_min,
                    max_v=psu.input_v_max,
                    remedies=[remedy(fix="outlets-in-range"), remedy(fix="other-supplies")],
                )
            )
    stated, own = site.server.psu, catalog.device(site.server.model).bringup.psu
    takes = own is None or own.input_v_min <= volts <= own.input_v_max
    if stated is not None and abs(stated.input_v / volts - 1) > SAME_VOLTAGE:
        found.append(
            finding(
                "POWER-VOLTAGE",
                "server.psu.input_v",
                case="stated",
                limit=volts,
                limit_source=f"catalogue {site.power.rack_pdu.model} pdu, site power.voltage_v",
                err="ERR-04",
                input_v=stated.input_v,
                outlet_v=round(volts, 1),
                remedies=[
                    *([remedy({"server.psu.input_v": float(f"{volts:.4g}")}, fix="stated-voltage")] if takes else []),
                    remedy(fix="outlets-as-stated"),
                ],
            )
        )
    return found


def _check_cords(
    site: Site,
    catalog: Catalog,
    devices: pd.DataFrame,
    facts: Pdu,
    inlets: dict[str, str],
    mates: dict[str, tuple[str, ...]],
) -> list[Finding]:
    """Each cord must carry its supply's full input current, at both of its connectors."""
    found = []
    volts = outlet_v(site, facts)
    for slug in devices["model"].unique():
        psu = catalog.device(slug).bringup.psu
        if psu is None or not inlets[slug]:
            continue
        rating = site.server.supplies.rating_w if slug == site.server.model else psu.rating_w
        amps = circuits.supply_input_a(rating, volts, psu.efficiency)
        ends = [catalog.connector(name) for name in (inlets[slug], *mates[inlets[slug]])]
        rated = min(end.nec_a if site.power.code == "nec" else end.iec_a for end in ends)
        limit = circuits.connector_continuous_a(rated, site.power.code)
        if amps > limit + 1e-9:
            connector_a = math.ceil(amps * rated / limit - 1e-9)
            supply_w = math.floor(limit * volts * psu.efficiency)
            own = slug == site.server.model and site.server.psu is not None and _still_carried(site, supply_w)
            found.append(
                finding(
                    "POWER-CORD",
                    slug,
                    limit=limit,
                    limit_source=f"catalogue connector {inlets[slug]}, {site.power.code}",
                    err="ERR-16",
                    amps=round(amps, 2),
                    words={"rating_w": rating, "volts": volts, "inlet": inlets[slug]},
                    remedies=[
                        remedy(fix="connector", connector_a=connector_a),
                        remedy({"server.psu.rating_w": supply_w}, fix="server-supplies")
                        if own
                        else remedy(fix="supplies", supply_w=supply_w),
                    ],
                )
            )
    return found


def _still_carried(site: Site, supply_w: float) -> bool:
    """Whether supplies of that rating carry a server, at its cap where it has one, after the loss of any feed."""
    supplies, power = site.server.supplies, site.server.power
    lost = max(supplies.split_by_feed.values(), default=0)
    return psus.left_after_w(supplies.count, supply_w, lost) >= (power.cap_w or power.nameplate_w)


def _check_outlets(
    site: Site,
    cord: Cords,
    chosen: npt.NDArray[np.int64],
    among: npt.NDArray[np.bool_],
    kind: _PduKind,
    mates: Mapping[str, tuple[str, ...]],
    tried: Tried | None,
) -> list[Finding]:
    """Each cord to one of the rack PDUs of a kind (`among` all of them, the first of the ends) must have found an outlet."""
    at = cord.frame["pdu_index"].to_numpy(dtype=np.int64)
    missing = cord.frame[(chosen < 0) & np.append(among, False)[np.minimum(at, len(among))]]
    if missing.empty:
        return []
    per_pdu = missing.groupby("pdu", sort=True).size()
    worst = str(per_pdu.idxmax())
    inlets = ", ".join(sorted(missing.loc[missing["pdu"] == worst, "inlet"].unique()))
    types = {outlet.type for outlet in kind.model.power_outlets}
    mated = all(types.intersection(mates.get(inlet, ())) for inlet in missing["inlet"].unique())
    return [
        finding(
            "POWER-OUTLETS",
            worst,
            limit=float(len(kind.model.power_outlets)),
            limit_source=f"catalogue {kind.model.slug} power-outlets",
            err="ERR-16",
            ports=tuple(f"{d}:PSU{p}" for d, p in zip(missing["device"].head(8), missing["psu"].head(8), strict=True)),
            supplies=int(per_pdu.max()),
            pdus=len(per_pdu),
            words={"inlets": inlets},
            remedies=[
                remedy(fix="larger-pdu", pdu_key=kind.key),
                *(_more_pdus(site, "POWER-OUTLETS", tried) if mated else []),
                *_fewer_servers(site, kind, "POWER-OUTLETS", tried),
            ],
        )
    ]


def _more_pdus(site: Site, id_: str, tried: Tried | None) -> list[RemedyOf]:
    """The least number of rack PDUs on each feed with which the finding is gone, where a rack may have as many."""
    made = breakers.more_pdus(id_, site.power.rack_pdu.per_feed + 1, tried) if tried else None
    return [remedy(made)] if made else []


def _fewer_servers(site: Site, kind: _PduKind, id_: str, tried: Tried | None) -> list[RemedyOf]:
    """The largest number of servers a rack with which the finding is gone; a rack-scale system keeps its servers, and PDUs of
    racks of another use feed none.
    """
    if tried is None or site.server.system or kind.key != "rack_pdu":
        return []
    for servers in range(site.rack.servers - 1, max(site.rack.servers - 1 - MOST_TRIALS, 0), -1):
        made = tried.least({"rack.servers": servers}, id_)
        if made:
            return [remedy(made, fix="fewer-servers")]
    return []


def _check_banks(
    site: Site,
    cord: Cords,
    chosen: npt.NDArray[np.int64],
    fed_w: npt.NDArray[np.float64],
    lost_w: npt.NDArray[np.float64],
    outlets: distribution.Outlets,
    number: int,
    pdus: pd.DataFrame,
    kind: _PduKind,
    tried: Tried | None,
) -> list[Finding]:
    """The breaker of each bank of the rack PDUs of kind `number`, continuously, with all feeds up and after each loss."""
    own, facts = outlets.of(number), kind.facts
    names = sorted({outlet.bank for outlet in own})
    bank_of = np.array([names.index(outlet.bank) for outlet in own], dtype=np.int64)
    among = outlets.kind == number
    pdus = pdus[among]
    corded = np.flatnonzero(chosen >= 0)
    corded = corded[among[cord.frame["pdu_index"].to_numpy(dtype=np.int64)[corded]]]
    at = (np.cumsum(among) - 1)[cord.frame["pdu_index"].to_numpy(dtype=np.int64)[corded]]
    slot = at * len(names) + bank_of[chosen[corded] - outlets.first[number]]
    scenarios = np.column_stack([cord.normal_w(fed_w), cord.after_loss_w(lost_w)])[corded]
    size = len(pdus) * len(names)
    by_state = np.column_stack([np.bincount(slot, scenarios[:, s], minlength=size) for s in range(scenarios.shape[1])])
    watts, normal = by_state.max(axis=1), by_state[:, 0]
    amps = pd.Series(watts / outlet_v(site, facts) / site.power.power_factor)
    labels = pd.Series(
        np.repeat(pdus["name"].to_numpy(dtype=object), len(names))
        + "/"
        + np.tile(np.array(names, dtype=object), len(pdus))
    )
    limit = facts.bank_a * site.power.derating
    worst = worst_of(amps, limit)
    if worst is None:
        return []
    bank_a = circuits.next_rating_a(site.power.code, worst.value / site.power.derating)
    cord_a = float(scenarios.max()) / outlet_v(site, facts) / site.power.power_factor
    alone = cord_a > limit + ROUNDING  # a single cord is too much for a bank: no number of PDUs or servers changes it
    spread = (
        [remedy(fix="smaller-cords", cord_a=cord_a)]
        if alone
        else [*_more_pdus(site, "POWER-BANK", tried), *_fewer_servers(site, kind, "POWER-BANK", tried)]
    )
    return [
        finding(
            "POWER-BANK",
            str(labels.iloc[worst.at]),
            case="feed-lost" if watts[worst.at] > normal[worst.at] + 1e-6 else "all-feeds",
            limit=limit,
            limit_source=f"catalogue {kind.model.slug} pdu.bank_a x site derating",
            amps=round(worst.value, 3),
            cord_a=round(cord_a, 3),
            count=worst.count,
            remedies=[remedy(fix="larger-banks", bank_a=bank_a, pdu_key=kind.key), *spread],
        )
    ]


def _check_phases(site: Site, balanced: distribution.Balance, pdus: pd.DataFrame) -> list[Finding]:
    """Imbalance of each PDU (as phase_balance.representative_pct) with all feeds up and after the loss of a feed, against the
    site's limit, and the least that any assignment reaches in that state.
    """
    limit = site.limits.get("phase_imbalance_pct")
    if limit is None or pdus.empty:
        return []
    lost = balanced.loss_pct > balanced.normal_pct + 1e-6
    values = np.where(lost, balanced.loss_pct, balanced.normal_pct)
    least = np.where(lost, balanced.loss_bound_pct, balanced.bound_pct)

    worst = worst_of(pd.Series(values), limit.value)
    if worst is None:
        return []
    wider = {"limits.phase_imbalance_pct.value": math.ceil(worst.value - 1e-6)}
    return [
        finding(
            "POWER-PHASE-BALANCE",
            str(pdus["name"].iloc[worst.at]),
            case="feed-lost" if lost[worst.at] else "all-feeds",
            limit=limit.value,
            limit_source="site limits.phase_imbalance_pct",
            imbalance_pct=round(worst.value, 3),
            count=worst.count,
            words={"least_pct": least[worst.at]},
            remedies=[remedy(fix="even-cords"), remedy(wider, fix="wider-limit")],
        )
    ]


def phase_imbalance_pct(outlets: pd.DataFrame, by: str = "pdu") -> pd.Series:
    """Largest less smallest phase load over the mean, in percent, per value of column `by` of the `outlets` frame."""
    phases = outlets.groupby([by, "phase"], sort=False)["load_w"].sum().unstack(fill_value=0)
    mean = phases.mean(axis=1)
    return ((phases.max(axis=1) - phases.min(axis=1)) / mean.where(mean > 0, 1.0) * 100).rename("imbalance_pct")
