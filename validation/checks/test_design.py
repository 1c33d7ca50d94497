"""Computed and generated items: what the plan says, judged against its own findings and by a second way of counting.

These need no device. Each check recounts from the frames what the plan's formulae claim, by a formula of its own, so that a
wrong formula and a wrong frame cannot agree by accident. That a document has all rows of its frame is proven by the tests
of this repository; at a site its frames are judged, and the document is the raw output.
"""

import io
import itertools
import math
import re

import pandas as pd

from capacity.model import Plan
from capacity.outputs.documents import installation
from capacity.outputs.summary import optics_kw, part
from capacity.power.upstream.board_balance import FEED, PANEL, boards
from capacity.procurement import bom
from capacity.worst import exceeds
from inventory.findings import Finding
from inventory.site.sections.networks import BESIDE, PREFIXES
from network.render import render, switches
from network.wiring import ipv6
from validation.check import Limit, Outcome, check, judged, site_limit

PROFILES = ("seed", "measured", "nameplate")
KW_TOLERANCE = 1e-6
"""Two sums of the same figures in another order: they may differ by rounding only."""
TOLD_KW = 0.002
"""The plan tells kilowatts with three decimals."""
BTU_PER_TON_HOUR = 12_000
"""A ton of refrigeration, by its definition."""
BTU_PER_KWH = 3412.14


def errors(plan: Plan, *ids: str) -> list[Finding]:
    """The plan's error findings with one of these ids (or id prefixes that end with '-')."""
    return [
        f
        for f in plan.findings
        if f.severity == "error" and any(f.id == i or (i.endswith("-") and f.id.startswith(i)) for i in ids)
    ]


def generated(text: str, problems: list[str], value: object, good: str) -> Outcome:
    """The outcome of a generated document: its text is the raw output."""
    return Outcome(not problems, value, "; ".join(problems) or good, raw=text.encode())


def twice(frame: pd.DataFrame, *columns: str) -> list[str]:
    """Entries that a frame has more than once, by these columns: 'gpu001 ib0'."""
    doubled = frame.loc[frame.duplicated(list(columns)), list(columns)].drop_duplicates()
    return [" ".join(map(str, row)) for row in doubled.itertuples(index=False, name=None)]


def first_of(names: list[str], what: str) -> list[str]:
    """One problem that counts these names and says the first; none without names."""
    return [f"{len(names)} {what}, first {names[0]}"] if names else []


def read_document(text: str) -> pd.DataFrame:
    """A generated CSV, read back as a contractor's spreadsheet would."""
    return pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)


def spares_again(plan: Plan, lines: pd.DataFrame) -> int:
    """Spares of one item, by the terms of the Poisson distribution, or as the site's share without a rate."""
    rule, item = plan.site.purchase.spares, str(lines["item"].iloc[0])
    pieces = int(lines["quantity"].sum())
    if plan.site.server.system and item in bom.IN_TRAY:
        return 0
    if item not in rule.rates:
        return max(math.ceil(round(pieces * rule.share_pct / 100, 6)), 1) if rule.share_pct else 0
    leads = [plan.site.leadtimes[name].max_weeks for name in lines["lead_item"] if name]
    weeks = rule.restock_weeks or max(leads, default=bom.DEFAULT_RESTOCK_WEEKS)
    mean = pieces * rule.rates[item].afr_pct * rule.rates[item].replaced_pct / 1e4 * weeks * 7 / 365.25
    if mean <= 0:
        return 0
    terms = (math.exp(count * math.log(mean) - mean - math.lgamma(count + 1)) for count in itertools.count())
    chances = enumerate(itertools.accumulate(terms))
    return next(count for count, chance in chances if chance >= rule.confidence_pct / 100)


def counted_with_spares(plan: Plan, item: str, per_server: int) -> tuple[dict[str, int], list[str]]:
    """What the bill has of an item inside the servers, and where that is not servers x parts + spares."""
    lines = plan.bom[plan.bom["item"] == item]
    have, spares = int(lines["quantity"].sum()), int(lines["spares"].sum())
    wanted = plan.site.server.count * per_server
    value = {"in_servers": have, "spares": spares, "total": have + spares}
    problems = []
    if have != wanted or not have:
        problems.append(f"{wanted} {item}s needed, the bill has {have}")
    if have and (again := spares_again(plan, lines)) != spares:
        problems.append(f"{again} spares counted again, the bill has {spares}")
    return value, problems


def order_dates_again(plan: Plan, item: str) -> list[str]:
    """Where an item's dates are not those of its lead time.

    The safe order is the longest lead time before the first thing that waits for the delivery, and the two dates of the
    schedule without any work are need date less lead time.
    """
    problems = []
    row = plan.schedule[plan.schedule["activity"] == item].iloc[0]
    need, weeks = pd.Timestamp(plan.site.schedule.need_date), plan.site.leadtimes[item]
    for column, lead_weeks in (
        ("go_live_day_order_early", weeks.max_weeks),
        ("go_live_day_order_late", weeks.min_weeks),
    ):
        if abs((need - pd.Timestamp(row[column])).days - 7 * lead_weeks) >= 1:
            problems.append(f"{column} is {row[column]}, {need:%Y-%m-%d} less {lead_weeks:g} weeks is another day")
    orders = plan.activities[
        (plan.activities["kind"] == "lead") & (plan.activities["activity"].str.partition(" ")[0] == item)
    ]
    first = orders["safe_start"].min()
    if row["safe_order"] != first:
        problems.append(f"safe order {row['safe_order']} in the schedule, {first} in the programme")
    for name, safe, promised in orders[["activity", "safe_start", "promised"]].itertuples(index=False, name=None):
        users = plan.activities[[name in after.split(", ") for after in plan.activities["after"]]]
        if promised or users.empty:
            continue
        left = (pd.Timestamp(users["safe_start"].min()) - pd.Timestamp(safe)).days
        if left < 7 * weeks.max_weeks - 1:
            problems.append(
                f"{name} ordered on {safe} has {left} days until it is needed, and takes {weeks.max_weeks:g} weeks"
            )
    return problems


@check(
    "S001.computed",
    inputs=(
        "site.leadtimes",
        "site.schedule",
        "site.server",
        "site.purchase",
        "frame.schedule",
        "frame.activities",
        "frame.bom",
    ),
)
def test_gpu_order_dates(subject: str, plan: Plan) -> Outcome:
    counted, problems = counted_with_spares(plan, "gpu", plan.catalog.device(plan.site.server.model).bringup.gpus)
    row = plan.schedule[plan.schedule["activity"] == "gpu"]
    value: dict[str, object] = {
        **counted,
        **({str(name): cell for name, cell in row.iloc[0].items()} if len(row) else {}),
    }
    late = [f for f in plan.findings if f.id == "SCHEDULE-LATE" and f.subject == "leadtimes.gpu"]
    if row.empty:
        return Outcome(False, value, "the schedule has no row for GPUs: set leadtimes.gpu in the site file")
    lead = Limit(
        f"{row['lead_min_weeks'].iloc[0]:g} to {row['lead_max_weeks'].iloc[0]:g}",
        "weeks",
        f"site leadtimes.gpu: {row['source'].iloc[0]}",
    )
    if problems := [*problems, *order_dates_again(plan, "gpu")]:
        return Outcome(False, value, "; ".join(problems), limit=lead)
    good = (
        f"{counted['in_servers']} GPUs and {counted['spares']} spares: order by {row['safe_order'].iloc[0]} "
        "(every duration at its longest)"
    )
    return judged(late, value, good, limit=lead)


def rack_units_again(plan: Plan, names: pd.Series) -> list[str]:
    """Where these devices have no place, share a rack unit with any device, or stand above their rack's last unit."""
    height = dict(zip(plan.racks["name"], plan.racks["height_u"], strict=True))
    units = pd.DataFrame(
        [
            (device, rack, unit)
            for device, rack, bottom, tall in plan.placements[["device", "rack", "u_bottom", "u_height"]].itertuples(
                index=False, name=None
            )
            for unit in range(bottom, bottom + tall)
        ],
        columns=["device", "rack", "unit"],
    )
    mine = units[units["device"].isin(names)]
    high = mine[(mine["unit"] < 1) | (mine["unit"] > mine["rack"].map(height))]
    shared = units[units.duplicated(["rack", "unit"], keep=False)].merge(mine, on=["rack", "unit", "device"])
    return [
        *first_of(sorted(set(names) - set(mine["device"])), "chassis without a place"),
        *first_of(sorted(set(high["device"])), "chassis outside of their rack's units"),
        *first_of(sorted(set(shared["device"])), "chassis share a rack unit with another device"),
    ]


@check("S009.computed", inputs=("site.server", "site.rack", "frame.placements", "frame.racks", "frame.devices"))
def test_chassis_fit_their_racks(subject: str, plan: Plan) -> Outcome:
    gpu = plan.devices[plan.devices["role"] == "gpu"]
    value = {
        "chassis": len(gpu),
        "rack_units": int(gpu["u_height"].sum()),
        "mass_kg": round(float(gpu["mass_kg"].sum()), 1),
        "racks": int(plan.placements[plan.placements["device"].isin(gpu["name"])]["rack"].nunique()),
    }
    heaviest = float(plan.racks["mass_kg"].max())
    found = errors(plan, "SPACE-")
    if len(gpu) != plan.site.server.count:
        return Outcome(False, value, f"{plan.site.server.count} servers asked for, {len(gpu)} placed")
    limit = Limit(plan.site.rack.mass_limit_kg, "kg", "site rack.mass_limit_kg")
    if problems := rack_units_again(plan, gpu["name"]):
        return Outcome(False, value, "; ".join(problems), limit=limit)
    return judged(found, value, f"{len(gpu)} chassis placed, heaviest rack {heaviest:.0f} kg", limit=limit)


@check("S011.computed", inputs=("site.server", "site.purchase", "site.leadtimes", "frame.bom"))
def test_processors_are_counted(subject: str, plan: Plan) -> Outcome:
    each = plan.catalog.device(plan.site.server.model).bringup.cpus
    value, problems = counted_with_spares(plan, "cpu", each)
    good = f"{value['in_servers']} processors for {plan.site.server.count} servers, {each} each, and {value['spares']} spares"
    return Outcome(not problems, value, "; ".join(problems) or good)


def group_load_w(plan: Plan, column: str) -> float:
    """What one group of supplies feeds, in W: a server, or all devices on the busbar of a rack-scale system."""
    if not plan.site.server.system:
        return float(plan.devices.loc[plan.devices["role"] == "gpu", column].max())
    fed = plan.devices[(plan.devices["busbar"] >= 0) & (plan.devices["kind"] != "shelf")]
    return float(fed.groupby("busbar")[column].sum().max())


def servers_of_a_group(plan: Plan) -> int:
    """GPU servers that one group of supplies feeds."""
    servers = plan.devices[plan.devices["role"] == "gpu"]
    return int(servers.groupby("busbar").size().max()) if plan.site.server.system else 1


@check("S020.computed", inputs=("site.server", "site.power", "frame.outlets", "frame.devices"))
def test_power_supplies_carry_the_server_with_one_lost(subject: str, plan: Plan) -> Outcome:
    group, power = plan.site.server.supplies, plan.site.server.power
    load_w = group_load_w(plan, f"{plan.site.power.profile}_w")
    over_cap_w = 0.0 if power.cap_w is None else max(getattr(power, f"{plan.site.power.profile}_w") - power.cap_w, 0.0)
    needed = math.ceil(load_w / group.rating_w)
    worst_feed = max(group.split_by_feed.values())
    value = {
        "load_w": load_w,
        "capped_w": load_w - over_cap_w * servers_of_a_group(plan),
        "supplies": group.count,
        "needed": needed,
        "left_after_one_w": (group.count - 1) * group.rating_w,
        "left_after_worst_feed_w": (group.count - worst_feed) * group.rating_w,
    }
    wanted = {"left_after_one_w": "load_w", "left_after_worst_feed_w": "capped_w"}
    short = [name for name, load in wanted.items() if value[name] < value[load]]
    found = errors(plan, "POWER-PSU-REDUNDANCY", "POWER-FEED-LOSS")
    if short:
        return Outcome(
            False, value, "; ".join(f"{name} below {wanted[name]}, {value[wanted[name]]:g} W" for name in short)
        )
    good = f"{group.count} supplies of {group.rating_w} W carry {load_w:g} W with one supply or one feed lost"
    return judged(found, value, good, limit=Limit(load_w, "W", f"site server.power, profile {plan.site.power.profile}"))


@check("S021.computed", inputs=("site.server", "site.power", "frame.outlets", "frame.devices"))
def test_every_power_supply_has_an_outlet(subject: str, plan: Plan) -> Outcome:
    used = plan.outlets[plan.outlets["device"] != ""]
    supplies = plan.devices.set_index("name")["psu_count"]
    corded = used.groupby("device").size()
    expected = supplies[supplies > 0]
    bare = sorted(set(expected.index) - set(corded.index))
    wrong = bare + [d for d in corded.index if corded[d] != supplies[d]]
    value = {"cords": len(used), "connectors": used["connector"].value_counts().to_dict()}
    if wrong:
        return Outcome(False, value, f"supplies without exactly one outlet each: {', '.join(wrong[:10])}")
    found = errors(plan, "POWER-CORD", "POWER-VOLTAGE", "POWER-OUTLETS", "POWER-BANK", "POWER-PDU-RATING")
    return judged(found, value, f"{len(used)} cords, each supply on one fitting outlet")


def measured_ratio(plan: Plan, role: str, down_stage: str, up_stage: str) -> pd.Series:
    """Down over up cables for each compute switch of a role, counted from the cable frame."""
    names = plan.devices[(plan.devices["fabric"] == "compute") & (plan.devices["role"] == role)]["name"]
    cables = plan.cables[plan.cables["fabric"] == "compute"]
    down = cables[cables["stage"] == down_stage]["b_device"].value_counts().reindex(names, fill_value=0)
    up = cables[cables["stage"] == up_stage]["a_device"].value_counts().reindex(names, fill_value=0)
    return down / up


@check("S036.computed", inputs=("site.fabric", "frame.cables", "frame.devices", "site.server"))
def test_bisection_is_what_the_site_asks_for(subject: str, plan: Plan) -> Outcome:
    tree = plan.tree
    found = errors(plan, "FABRIC-")
    if tree is None:
        return judged(found, None, "")
    ratios = {}
    if tree.tiers > 1:
        ratios["leaf"] = float(measured_ratio(plan, "leaf", "node-leaf", "leaf-spine").max())
    if tree.tiers == 3:
        ratios["spine"] = float(measured_ratio(plan, "spine", "leaf-spine", "spine-core").max())
    bisection = round(min([1.0, *(1 / ratio for ratio in ratios.values() if ratio > 0)]), 4)
    value = {
        "tiers": tree.tiers,
        "oversubscription": {tier: round(ratio, 4) for tier, ratio in ratios.items()},
        "bisection": bisection,
        "bisection_tbps": round(tree.bisection_gbps(plan.site.server.nic.rate_gbps) / 1000, 3),
        "hops": tree.maximum_hops(),
    }
    limit = Limit(plan.site.fabric.bisection, "share of full bisection", "site fabric.bisection")
    if bisection < plan.site.fabric.bisection:
        return Outcome(False, value, "the cables leave less bisection than the site asks for", limit=limit)
    return judged(found, value, f"{tree.tiers} tiers, bisection {bisection:.2f} by counting cables", limit=limit)


@check("S036.generated", inputs=("site.fabric", "frame.cables", "frame.devices"))
def test_topology_file_is_complete(subject: str, plan: Plan) -> Outcome:
    """The file is the raw output; judged is that the cables which it shows join all of both fabrics."""
    cables = plan.cables[plan.cables["fabric"].isin(["compute", "inband"])]
    problems = first_of(twice(cables, "cable_id"), "cables with the id of another")
    for fabric in ("compute", "inband"):
        switches_of = plan.devices.loc[(plan.devices["kind"] == "switch") & (plan.devices["fabric"] == fabric), "name"]
        servers = plan.devices.loc[plan.devices["role"] == "gpu", "name"]
        lost = unreached(cables[cables["fabric"] == fabric], [*servers, *switches_of])
        problems += first_of(lost, f"devices that no {fabric} cable joins with {servers.iloc[0]}")
    value = {"edges": len(cables)}
    return generated(installation.topology(plan), problems, value, f"{len(cables)} edges join all of both fabrics")


@check("S061.generated", inputs=("frame.cables", "frame.devices", "frame.placements"))
def test_upgrades_of_switches_leave_a_way_to_all_that_is_not_drained(subject: str, plan: Plan) -> Outcome:
    """Every switch in one window; of what is not drained, nobody loses the last of the cables that a window takes away."""
    text = installation.document(plan, "switch-upgrade.csv")
    windows = read_document(text)
    wanted = plan.devices[(plan.devices["kind"] == "switch") & plan.devices["fabric"].isin(["compute", "inband"])]
    problems = first_of(sorted(set(wanted["name"]) ^ set(windows["switch"])), "switches in the plan or the list only")
    problems += first_of(twice(windows, "switch"), "switches in two windows")
    cables = plan.cables[plan.cables["fabric"].isin(["compute", "inband"]) & (plan.cables["stage"] != "manager-leaf")]
    rail = cables["rail"].where(cables["stage"] == "node-leaf", -1)  # a server has ways on each rail
    ways = cables[["fabric", "stage", "a_device", "b_device"]].assign(rail=rail)
    for window, rows in windows.groupby("window", sort=False):
        gone, drained = set(rows["switch"]), set(" ".join(rows["drained"]).split())
        lost = (
            ways.assign(lost=ways["b_device"].isin(gone)).groupby(["a_device", "fabric", "stage", "rail"])["lost"].all()
        )
        names = {str(device) for device, *_ in lost[lost].index} - gone - drained
        problems += first_of(sorted(names), f"devices without a way in window {window}")
    value = {"windows": int(windows["window"].nunique()), "switches": len(windows)}
    return generated(text, problems, value, f"{value['switches']} switches in {value['windows']} windows")


def unreached(cables: pd.DataFrame, names: list[str]) -> list[str]:
    """Those of the names that cannot be reached from the first one over these cables."""
    beside: dict[str, set[str]] = {}
    for a, b in cables[["a_device", "b_device"]].itertuples(index=False, name=None):
        beside.setdefault(a, set()).add(b)
        beside.setdefault(b, set()).add(a)
    seen, left = {names[0]}, [names[0]]
    while left:
        left = list(set().union(*(beside.get(name, set()) for name in left)) - seen)
        seen.update(left)
    return [name for name in names if name not in seen]


@check("S037.computed", inputs=("site.fabric", "frame.cables", "frame.devices", "site.server"))
def test_switch_ports_suffice(subject: str, plan: Plan) -> Outcome:
    cables = plan.cables[plan.cables["fabric"] == "compute"]
    ends = cable_ends(cables)
    doubled = twice(ends, "device", "port")
    names = plan.devices[plan.devices["fabric"] == "compute"]["name"]
    beside = plan.catalog.device(plan.site.fabric.switch_model).bringup.manager_port
    used = ends[ends["device"].isin(names) & ends["port"].ne(beside)].groupby("device").size()
    summary = part(plan, "fabric")
    value = {"most_ports_used": int(used.max()), "alternatives": summary["alternatives"] if summary else None}
    limit = Limit(plan.site.fabric.radix, "ports", "site fabric.radix")
    if doubled:
        return Outcome(False, value, f"ports used twice: {', '.join(doubled[:5])}", limit=limit)
    if int(used.max()) > plan.site.fabric.radix:
        return Outcome(False, value, f"{used.idxmax()} needs {used.max()} ports", limit=limit)
    found = errors(plan, "FABRIC-RADIX", "FABRIC-TIERS", "FABRIC-OVERSUBSCRIBED")
    return judged(found, value, f"at most {used.max()} ports of {plan.site.fabric.radix}", limit=limit)


@check(
    "S038.generated",
    inputs=("site.fabric", "frame.cables", "frame.devices", "site.server", "site.purchase", "site.media", "site.power"),
)
def test_choice_of_the_fabric_is_recorded(subject: str, plan: Plan) -> Outcome:
    """One row is the site's own, with the counts of the plan; both technologies at 1:1 and 2:1, or why not."""
    back = read_document(installation.document(plan, "fabric-options.csv"))
    record = installation.document(plan, "fabric-decision.md")
    own = back[back["chosen"] == "1"]
    switches_of = plan.devices[(plan.devices["kind"] == "switch") & (plan.devices["fabric"] == "compute")]
    cables = plan.cables[(plan.cables["fabric"] == "compute") & (plan.cables["stage"] != "manager-leaf")]
    planned = (plan.site.fabric.switch_model, len(switches_of), len(cables))
    said = [(str(model), int(n), int(m)) for model, n, m in own[["switch_model", "switches", "cables"]].to_numpy()]
    problems = [] if said == [planned] else [f"the record says {said} of the site's own choice, the plan {planned}"]
    for model, rows in back.groupby("switch_model", sort=False):
        lacking = {"1:1", "2:1"} - set(rows["ratio"])
        problems += [f"{model} is not compared at {ratio}" for ratio in sorted(lacking)]
    for technology, name in (("ib", "InfiniBand"), ("roce", "RoCE")):
        if technology not in set(back["technology"]) and f"The catalogue has no {name} switch" not in record:
            problems.append(f"{name} is not compared, and the record does not say why")
    value = {"options": len(back), "built": int((back["not_buildable"] == "").sum())}
    return generated(record, problems, value, f"{len(back)} options, {value['built']} can be built")


@check("S039.computed", inputs=("site.server", "frame.cables", "frame.bom", "frame.devices", "site.fabric"))
def test_network_adapters_are_counted(subject: str, plan: Plan) -> Outcome:
    nic = plan.site.server.nic
    rails = plan.cables[plan.cables["stage"].eq("node-leaf") & plan.cables["fabric"].eq("compute")]
    servers = plan.devices.loc[plan.devices["role"] == "gpu", "name"]
    per_server = rails.groupby("a_device")["rail"].nunique().reindex(servers, fill_value=0)
    value = {"ports_per_server": nic.ports, "cabled_rails": int(per_server.min()), "rate_gbps": nic.rate_gbps}
    if int(per_server.min()) < plan.site.fabric.rails:
        return Outcome(
            False,
            value,
            f"{per_server.idxmin()} has cables on {per_server.min()} rails only, "
            f"{plan.site.fabric.rails} are planned: correct the FABRIC- findings of the plan",
        )
    found = errors(plan, "FABRIC-NIC-PCIE")
    return judged(found, value, f"{nic.ports} ports of {nic.rate_gbps:g} Gb/s on {plan.site.fabric.rails} rails each")


@check("S040.computed", inputs=("site.fabric", "site.inband", "frame.devices", "frame.bom"))
def test_switches_are_counted(subject: str, plan: Plan) -> Outcome:
    made = plan.devices[plan.devices["kind"] == "switch"]
    bought = plan.bom[plan.bom["item"] == "switch"]
    value = (made["fabric"] + " " + made["role"]).value_counts().to_dict()
    by_model = made["model"].value_counts()
    ordered = bought.groupby("model")["quantity"].sum()
    wrong = [m for m in by_model.index if int(ordered.get(m, 0)) != int(by_model[m])]
    detail = f"BOM and plan disagree on {', '.join(wrong)}" if wrong else f"{len(made)} switches, all in the BOM"
    return Outcome(not wrong, value, detail)


@check("S044.computed", inputs=("site.media", "site.room", "frame.cables", "frame.placements"))
def test_cables_are_within_reach(subject: str, plan: Plan) -> Outcome:
    cables = plan.cables
    bare = cables[cables["medium"] == ""]
    value = {
        "cables": len(cables),
        "total_m": round(float(cables["length_m"].sum()), 1),
        "longest_m": round(float(cables["length_m"].max()), 1),
    }
    found = errors(plan, "CABLE-REACH")
    if len(bare):
        return Outcome(False, value, f"{len(bare)} cables that no part reaches, first {bare['cable_id'].iloc[0]}")
    reach_m = {part.part: part.reach_m for part in plan.catalog.media(plan.site.media.reach_table).parts}
    long = cables[cables["part"].ne("") & (cables["length_m"] > cables["part"].map(reach_m))]
    if len(long):
        return Outcome(False, value, f"{len(long)} cables longer than their part, first {long['cable_id'].iloc[0]}")
    return judged(found, value, f"{len(cables)} cables, longest {value['longest_m']} m, each with a part that reaches")


@check("S044.generated", inputs=("frame.cables", "frame.placements", "frame.devices", "site.media"))
def test_cable_schedule_is_complete(subject: str, plan: Plan) -> Outcome:
    """The schedule is the raw output; judged is that each cable stands once in it and both of its ends in racks."""
    cables, placed = plan.cables, set(plan.placements["device"])
    problems = first_of(twice(cables, "cable_id"), "cables with the id of another")
    loose = cables[["cable_id", "a_device", "b_device"]].itertuples(index=False, name=None)
    lost = [f"{cable} at {end}" for cable, a, b in loose for end in (a, b) if end not in placed]
    problems += [
        f"{one}: correct the SPACE- findings of the plan, which say why it was not placed"
        for one in first_of(lost, "ends of cables that stand in no rack")
    ]
    text = installation.document(plan, "cable-schedule.csv")
    return generated(text, problems, {"rows": len(cables)}, f"{len(cables)} routes, both ends placed")


@check("S045.computed", inputs=("site.media", "frame.cables", "frame.bom", "frame.devices"))
def test_cables_are_bought(subject: str, plan: Plan) -> Outcome:
    """Counted here from ports and cages of the cable frame, which the bill does not read that way."""
    bom, cables = plan.bom, plan.cables
    parts = {part.part: part for part in plan.catalog.media(plan.site.media.reach_table).parts}
    known = cables[cables["part"] != ""]
    columns = ["device", "port", "cage", "part"]
    ends = pd.concat(
        [known[[*(f"{end}_{name}" for name in columns[:3]), "part"]].set_axis(columns, axis=1) for end in "ab"]
    )
    slug_of = dict(zip(plan.devices["name"], plan.devices["model"], strict=True))
    cages = {slug: plan.catalog.device(slug).cages() for slug in set(slug_of.values())}
    plugs = ends.assign(model=ends["device"].map(slug_of)).drop_duplicates(["device", "cage"])
    chosen = [
        parts[part].plug(cages[slug][port][1])
        for slug, port, part in zip(plugs["model"], plugs["port"], plugs["part"], strict=True)
    ]
    mixed = ends.groupby(["device", "cage"])["part"].nunique().gt(1)
    watts = sum(plug.power_w for plug in chosen if plug)
    fibre = known["part"].map({name: part.shape == "fibre" for name, part in parts.items()}).astype(bool)
    optics = sum(parts[part].shape == "fibre" for part in plugs["part"])
    lines = {item: bom[bom["item"] == item] for item in ("cable", "transceiver")}
    have = {item: int(frame["quantity"].sum()) for item, frame in lines.items()}
    value = {
        "cables": len(cables),
        "by_medium": cables["medium"].value_counts().to_dict(),
        "bins": len(lines["cable"]),
        "transceivers": optics,
        "spares": {item: int(frame["spares"].sum()) for item, frame in lines.items()},
        "ends_w": round(watts, 1),
    }
    told_w = round(optics_kw(plan), 3) * 1000
    if not math.isclose(told_w, watts, abs_tol=1.0):
        return Outcome(
            False, value, f"the plan says {told_w:.0f} W for what sits in the cages, counted here {watts:.0f} W"
        )
    if None in chosen or mixed.any():
        return Outcome(
            False, value, f"{chosen.count(None)} cages have no plug of their form, {int(mixed.sum())} need two"
        )
    # A copper cable between cages of several ports is one piece for all of the links in its head's cage.
    pieces, heads = int(fibre.sum()), set()
    both = [f"{end}_{name}" for end in "ab" for name in columns[:3]]
    for a, a_port, a_cage, b, b_port, b_cage in known.loc[~fibre, both].itertuples(index=False, name=None):
        a_ports, b_ports = (cages[slug_of[name]][port][1].ports for name, port in ((a, a_port), (b, b_port)))
        if max(a_ports, b_ports) == 1:
            pieces += 1
        else:
            heads.add((a, a_cage) if a_ports >= b_ports else (b, b_cage))
    pieces += len(heads)
    wanted = {"cable": pieces, "transceiver": optics}
    detail = f"{len(cables)} links: {wanted} planned, {have} in the bill of materials"
    return Outcome(have == wanted, value, detail)


@check("S046.generated", inputs=("frame.cables", "frame.placements", "frame.devices", "site.media"))
def test_cable_labels_are_complete(subject: str, plan: Plan) -> Outcome:
    """The labels are the raw output; judged is that a label names one cable end: no port has two cables."""
    ends = cable_ends(plan.cables)
    problems = first_of(twice(ends, "device", "port"), "ports with two cables")
    problems += first_of(ends.loc[ends["port"].eq("") | ends["device"].eq(""), "cable_id"].tolist(), "ends of no port")
    text = installation.document(plan, "cable-labels.csv")
    return generated(text, problems, {"labels": len(ends)}, f"{len(ends)} labels, two a cable, none twice")


def cable_ends(cables: pd.DataFrame) -> pd.DataFrame:
    """Both ends of each cable: cable_id, device, port."""
    columns = ["cable_id", "device", "port"]
    return pd.concat([cables[["cable_id", f"{end}_device", f"{end}_port"]].set_axis(columns, axis=1) for end in "ab"])


@check("S051.computed", inputs=("site.fabric", "site.inband", "frame.cables", "frame.devices"))
def test_uplinks_are_spread_evenly(subject: str, plan: Plan) -> Outcome:
    trunks = plan.cables[plan.cables["stage"].eq("leaf-spine")]
    per_pair = trunks.groupby(["fabric", "a_device", "b_device"]).size()
    uneven = per_pair.groupby(["fabric", "a_device"]).agg(lambda n: n.max() - n.min())
    ratios = measured_ratio(plan, "leaf", "node-leaf", "leaf-spine") if plan.tree else pd.Series(dtype=float)
    value = {
        "uplinks_per_leaf": trunks.groupby("fabric")["a_device"].value_counts().groupby("fabric").max().to_dict(),
        "worst_ratio": round(float(ratios.max()), 4) if len(ratios) else None,
    }
    wrong = uneven[uneven > 0]
    if len(wrong):
        return Outcome(
            False, value, f"{len(wrong)} leaves with unequal cables to their spines, first {wrong.index[0][1]}"
        )
    return judged(errors(plan, "FABRIC-"), value, "every leaf has the same number of cables to each of its spines")


@check("S053.generated", inputs=("site.addressing", "site.fabric", "frame.addresses"))
def test_networks_are_separate(subject: str, plan: Plan) -> Outcome:
    text = installation.document(plan, "networks.csv")
    given = (getattr(plan.site.addressing, key) for key in (*PREFIXES, *BESIDE))
    separate = [prefix for prefix in given if prefix is not None]
    problems = [
        f"{a} overlaps {b}" for a, b in itertools.combinations(separate, 2) if a.version == b.version and a.overlaps(b)
    ]
    addresses = ipv6.both(plan.site, plan.catalog, plan.addresses)
    twice = addresses[addresses["address"].duplicated()]
    problems += [f"address {a} is given twice" for a in twice["address"].head(5)]
    problems += [f"{f.subject}: {f.message}" for f in errors(plan, "ADDRESSING-EXHAUSTED")]
    return generated(text, problems, {"networks": len(separate)}, f"{len(separate)} prefixes, none overlaps another")


@check("S070.generated", inputs=("site.*", "frame.*"))
def test_switch_configurations_carry_the_planned_addresses(subject: str, plan: Plan) -> Outcome:
    """The documents are the raw output; judged is that each switch is configured with the addresses of its ports."""
    configured = {name: render(plan, name) for name in switches(plan)}
    rows = plan.addresses[plan.addresses["network"].isin(["link", "loopback"])]
    rows = ipv6.both(plan.site, plan.catalog, rows)
    lost = [
        f"{address} of {device} {interface}"
        for device, interface, address in rows[["device", "interface", "address"]].itertuples(index=False, name=None)
        if device in configured and not re.search(rf"\b{re.escape(address)}\b", configured[device])
    ]
    problems = first_of(lost, "addresses that their switch's configuration does not set")
    made = installation.documents(plan) | {f"{name}.conf": text for name, text in configured.items()}
    text = "".join(f"### {name}\n{text}\n" for name, text in sorted(made.items()))
    return generated(text, problems, {"documents": sorted(made)}, f"{len(made)} documents from plan {plan.hash[:12]}")


@check("S071.computed", inputs=("site.gpu", "site.server", "site.power", "frame.devices"))
def test_server_power_profiles(subject: str, plan: Plan) -> Outcome:
    power, gpu = plan.site.server.power, plan.site.gpu
    gpus_w = plan.catalog.device(plan.site.server.model).bringup.gpus * gpu.tdp_w
    value = {"gpus_w": gpus_w, **{p: getattr(power, f"{p}_w") for p in PROFILES}}
    value |= {f"overhead_{p}_pct": round((getattr(power, f"{p}_w") / gpus_w - 1) * 100, 1) for p in PROFILES}
    ordered = gpus_w <= power.seed_w <= power.nameplate_w and power.measured_w <= power.nameplate_w
    if not ordered:
        return Outcome(False, value, "the nameplate must be the largest profile, and all must exceed the GPUs alone")
    limit = Limit(power.nameplate_w, "W", f"site server.power.nameplate_w, catalogue {plan.site.server.model}")
    found = [f for f in plan.findings if f.id == "POWER-PROFILE"]
    return judged(found, value, f"{gpus_w} W of GPUs in {power.nameplate_w} W", limit=limit)


@check("S072.computed", inputs=("site.server", "frame.devices"))
def test_total_server_power(subject: str, plan: Plan) -> Outcome:
    gpu = plan.devices[plan.devices["role"] == "gpu"]
    value = {f"{p}_kw": round(float(gpu[f"{p}_w"].sum()) / 1000, 3) for p in PROFILES}
    wanted = {
        f"{p}_kw": round(plan.site.server.count * getattr(plan.site.server.power, f"{p}_w") / 1000, 3) for p in PROFILES
    }
    detail = (
        f"{plan.site.server.count} servers: {value['nameplate_kw']} kW nameplate, {value['measured_kw']} kW measured"
    )
    return Outcome(
        value == wanted, value, detail if value == wanted else f"frame gives {value}, site file {wanted}", unit="kW"
    )


@check(
    "S073.computed",
    inputs=(
        "site.power",
        "frame.devices",
        "frame.racks",
        "frame.elements",
        "frame.bom",
        "frame.cables",
        "frame.circuits",
        "frame.feeds",
        "site.electrical",
        "site.gpu",
        "site.media",
        "site.server",
        "site.ups",
    ),
)
def test_facility_power_agrees_both_ways(subject: str, plan: Plan) -> Outcome:
    it_kw = float(plan.devices[f"{plan.site.power.profile}_w"].sum()) / 1000
    racks_kw = float(plan.racks[f"{plan.site.power.profile}_kw"].sum())
    flat = [it_kw + it_kw * share / 100 for share in plan.site.power.overhead_pct]
    at_grid = plan.elements.loc[plan.elements["kind"] == "utility", "load_kw"]
    by_pue = float(at_grid.sum()) if len(at_grid) else it_kw * plan.site.power.pue
    value = {"it_kw": round(it_kw, 3), "flat_kw": [round(kw, 3) for kw in flat], "itemised_kw": round(by_pue, 3)}
    told = part(plan, "power_kw")["site_facility"][plan.site.power.profile]
    apart = [
        f"the plan tells {one} kW, counted again {other:.3f} kW"
        for one, other in zip([*told["flat"], told["pue"]], [*flat, by_pue], strict=True)
        if abs(one - other) > TOLD_KW
    ]
    if apart:
        return Outcome(False, value, "; ".join(apart), unit="kW")
    closes = abs(it_kw - racks_kw) <= KW_TOLERANCE * len(plan.devices)
    detail = f"{it_kw:.1f} kW IT; +{plan.site.power.overhead_pct[0]:g}-{plan.site.power.overhead_pct[1]:g} % and PUE both shown"
    return Outcome(
        closes, value, detail if closes else f"devices add up to {it_kw} kW, racks to {racks_kw} kW", unit="kW"
    )


@check("S085.computed", inputs=("site.power", "frame.circuits", "frame.outlets", "frame.elements", "frame.devices"))
def test_circuit_carries_its_worst_load(subject: str, plan: Plan) -> Outcome:
    row = plan.circuits[plan.circuits["circuit"] == subject].iloc[0]
    legs = math.sqrt(3) if row["phases"] == 3 else 1.0
    continuous_a = row["breaker_a"] * plan.site.power.derating
    usable_kw = legs * row["voltage_v"] * continuous_a * plan.site.power.power_factor / 1000
    failed = plan.elements.loc[plan.elements["name"] == subject, "worst_kw"]
    worst_kw = max(float(row["worst_kw"]), *failed)
    carries_a = row["breaker_a"] * plan.site.power.derating
    value = {
        "usable_kw": round(usable_kw, 3),
        "load_kw": round(row["load_kw"], 3),
        "worst_kw": round(worst_kw, 3),
        "worst_line_a": round(row["worst_phase_a"], 2),
        "carries_a": round(carries_a, 2),
    }
    source = (
        f"{row['breaker_a']:g} A x {row['voltage_v']:g} V, derating {plan.site.power.derating} ({plan.site.power.code})"
    )
    limit = Limit(round(usable_kw, 3), "kW", source)
    corded = plan.outlets.loc[plan.outlets["pdu"] == row["pdu"], "load_w"]
    own_w = plan.devices.loc[plan.devices["name"] == row["pdu"], f"{plan.site.power.profile}_w"]
    # A power shelf has no outlets: its load is a share of its busbar.
    corded_kw = float(corded.sum() + own_w.sum()) / 1000 if len(corded) else float(row["load_kw"])
    apart = [
        f"{what} is {told:.3f} kW in the plan, {again:.3f} kW counted again"
        for what, told, again in (("usable", row["usable_kw"], usable_kw), ("load", row["load_kw"], corded_kw))
        if abs(told - again) > TOLD_KW
    ]
    if apart:
        return Outcome(False, value, "; ".join(apart), unit="kW", limit=limit)
    fits = not exceeds(worst_kw, usable_kw) and not exceeds(row["worst_phase_a"], carries_a)
    detail = f"{worst_kw:.2f} kW and {row['worst_phase_a']:.1f} A on one line in the worst state"
    return Outcome(bool(fits), value, detail, unit="kW", limit=limit)


@check(
    "S086.computed",
    inputs=("site.power", "site.rack", "frame.circuits", "frame.outlets", "frame.devices", "frame.racks"),
)
def test_rack_survives_the_loss_of_a_feed(subject: str, plan: Plan) -> Outcome:
    rack = plan.circuits[plan.circuits["rack"] == subject]
    used = plan.outlets[(plan.outlets["rack"] == subject) & (plan.outlets["device"] != "")]
    single = used.groupby("device")["feed"].nunique()
    dual = plan.devices.set_index("name")["psu_count"].reindex(single.index) > 1
    alone = sorted(single[(single < 2) & dual].index)
    load_kw = float(plan.racks.loc[plan.racks["name"] == subject, f"{plan.site.power.profile}_kw"].sum())
    value = {
        "feeds": int(rack["feed"].nunique()),
        "load_kw": round(load_kw, 3),
        "usable_kw_without_one_feed": round(float(rack["usable_kw"].sum() - rack["usable_kw"].max()), 3),
    }
    limit = Limit(
        value["usable_kw_without_one_feed"], "kW", "circuits of the rack that are left, site power.rack_circuit"
    )
    if alone:
        return Outcome(False, value, f"all supplies on one feed: {', '.join(alone)}", limit=limit)
    over = [c["circuit"] for c in rack.to_dict("records") if exceeds(c["worst_kw"], c["usable_kw"])]
    detail = (
        f"overloaded in the worst state: {', '.join(over)}" if over else f"{value['feeds']} feeds, {load_kw:.1f} kW"
    )
    return Outcome(not over and value["feeds"] >= 2, value, detail, unit="kW", limit=limit)


@check("S087.generated", inputs=("frame.outlets", "frame.devices", "frame.placements", "frame.racks"))
def test_outlet_map_is_complete(subject: str, plan: Plan) -> Outcome:
    """The map is the raw output; judged is that each supply has one outlet, and each outlet one supply."""
    used = plan.outlets[plan.outlets["device"] != ""]
    wanted = {
        f"{name} {psu}"
        for name, count in plan.devices[["name", "psu_count"]].itertuples(index=False, name=None)
        for psu in range(1, count + 1)
    }
    have = set(used["device"] + " " + used["psu"].astype(str))
    problems = [
        *first_of(sorted(wanted - have), "supplies without an outlet"),
        *first_of(sorted(have - wanted), "cords of supplies that no device has"),
        *first_of(twice(used, "pdu", "outlet"), "outlets with two supplies"),
        *first_of(twice(used, "device", "psu"), "supplies on two outlets"),
    ]
    text = installation.document(plan, "outlet-map.csv")
    return generated(text, problems, {"cords": len(used)}, f"{len(used)} cords, one for each supply")


@check(
    "S088.computed",
    inputs=("site.limits", "site.power", "frame.outlets", "frame.circuits", "frame.elements"),
)
def test_phases_of_a_pdu_are_balanced(subject: str, plan: Plan) -> Outcome:
    """The phases of the PDU by the site's limit; the lines of its panel and of its feed by that of boards."""
    limit = site_limit(plan.site, "phase_imbalance_pct")
    mine = plan.outlets[plan.outlets["pdu"] == subject]
    circuit = plan.circuits[plan.circuits["pdu"] == subject].iloc[0]
    if mine.empty:
        return Outcome(
            False,
            None,
            f"the outlet map has no outlet of {subject}: its phases cannot be judged; give its model "
            "outlets in the catalogue and plan again",
            unit="%",
            limit=limit,
        )
    loads = [float(mine.loc[mine["phase"] == phase, "load_w"].sum()) for phase in mine["phase"].unique()]
    half_w = float(circuit["usable_kw"]) * 1000 / len(loads) / 2
    normal = 100 * (max(loads) - min(loads)) / max(sum(loads) / len(loads), half_w)
    after = float(circuit["loss_imbalance_pct"])
    detail = f"phases differ by {normal:.1f} %, by {after:.1f} % after the loss of a feed"
    worst = max(normal, after)
    uneven = _uneven_boards(plan, circuit)
    return Outcome(
        not exceeds(worst, float(limit.value)) and not uneven,
        round(worst, 2),
        "; ".join([detail, *uneven]),
        unit="%",
        limit=limit,
    )


def _uneven_boards(plan: Plan, circuit: pd.Series) -> list[str]:
    """What to say of the panel and the feed of a circuit where their lines differ by more than the limit of boards."""
    feed = str(circuit["feed"])
    of_feed = [frame[frame["feed"] == feed] for frame in (plan.outlets, plan.circuits, plan.elements)]
    judged = boards(plan.site, *of_feed)
    if judged.empty:
        return []
    limit = site_limit(plan.site, "board_imbalance_pct")
    elements = of_feed[2].set_index("name")["upstream"]
    above = (judged["kind"] == FEED) | (judged["name"] == elements[str(circuit["circuit"])])
    return [
        f"the lines of {name if kind == PANEL else f'all panels of feed {name}'} differ by {pct:.1f} % "
        f"(limit {limit.value:g} %, {limit.source})"
        for name, kind, pct in judged.loc[above, ["name", "kind", "imbalance_pct"]].itertuples(index=False, name=None)
        if exceeds(float(pct), float(limit.value))
    ]


@check("S089.generated", inputs=("frame.outlets", "frame.circuits", "frame.elements"))
def test_power_labels_are_complete(subject: str, plan: Plan) -> Outcome:
    """The labels are the raw output; judged is that what they name is one thing, and each cord has a source circuit."""
    used = plan.outlets[plan.outlets["device"] != ""]
    if unfed := first_of(sorted(set(used["pdu"]) - set(plan.circuits["pdu"])), "PDUs without a source circuit"):
        return Outcome(False, {"cords": len(used)}, unfed[0])
    problems = [
        *first_of(twice(plan.circuits, "circuit"), "circuits with the name of another"),
        *first_of(twice(plan.elements, "name"), "elements of the supply with the name of another"),
        *first_of(twice(used, "device", "psu"), "supplies on two outlets"),
    ]
    labels = len(used) + len(plan.circuits) + int((plan.elements["kind"] != "circuit").sum())
    text = installation.document(plan, "power-labels.csv")
    return generated(text, problems, {"labels": labels}, f"{labels} labels, each names its source circuit")


@check("S096.computed", inputs=("frame.devices", "site.room", "site.cooling", "frame.cooling_figures", "frame.zones"))
def test_room_heat(subject: str, plan: Plan) -> Outcome:
    devices = plan.devices
    total_kw = float(devices["nameplate_w"].sum()) / 1000
    room_kw = float((devices["nameplate_w"] * devices["air_fraction"]).sum()) / 1000
    value = {
        "room_kw": round(room_kw, 3),
        "liquid_kw": round(total_kw - room_kw, 3),
        "room_tons": round(room_kw * BTU_PER_KWH / BTU_PER_TON_HOUR, 2),
        "room_btu_h": round(room_kw * BTU_PER_KWH),
    }
    told = part(plan, "heat")
    agrees = (
        told["room_kw"] == value["room_kw"]
        and math.isclose(told["room_tons"], value["room_tons"], rel_tol=1e-4, abs_tol=0.01)
        and math.isclose(told["room_btu_h"], value["room_btu_h"], rel_tol=1e-5, abs_tol=1)
        and 0 < room_kw <= total_kw + KW_TOLERANCE
    )
    detail = f"{room_kw:.1f} kW into the room = {value['room_tons']} tons" if agrees else "summary and frames disagree"
    return Outcome(agrees, value, detail, unit="kW")
