"""The frames of a plan: their columns, types and meaning, and a hash of a frame that depends on its values only.

Every frame has a default RangeIndex and exactly the columns listed here, in this order. Text columns hold '' where
there is nothing to say, integer columns -1 (or 0 where the text says so); there are no missing values.
"""

import functools
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np
import pandas as pd

Columns = Mapping[str, tuple[type, str]]
P = ParamSpec("P")
R = TypeVar("R")

DEVICES: Columns = {
    "name": (str, "unique name of the device"),
    "kind": (str, "server, switch, pdu or shelf"),
    "role": (
        str,
        "gpu, controller, storage, metadata, … (servers); leaf, spine, core, oob, nvlink (switches); rack_pdu; power_shelf",
    ),
    "fabric": (str, "compute, inband, oob or nvlink for switches, '' for others"),
    "model": (str, "catalogue slug"),
    "unit": (int, "scalable unit, 0-based; -1 outside any"),
    "rail": (int, "rail, 0-based; -1 outside any"),
    "index": (int, "1-based within role and fabric"),
    "asn": (int, "BGP autonomous system of an in-band switch, 0 for others"),
    "nvlink_domain": (
        int,
        "NVLink domain that it shares with other servers, 0-based; -1 where that ends at the server",
    ),
    "busbar": (int, "DC busbar that feeds it, or that it feeds (power shelf), 0-based; -1 for none"),
    "psu_count": (int, "power supplies with a cord each; 0 on a busbar, and for PDUs and power shelves"),
    "u_height": (int, "rack units, 0 for PDUs (zero-U)"),
    "mass_kg": (float, "mass"),
    "seed_w": (float, "power by the rule of thumb (profile seed)"),
    "measured_w": (float, "highest power measured in training; nameplate where nothing was measured"),
    "nameplate_w": (float, "rated power"),
    "air_fraction": (float, "share of the heat that goes into the room air, 0..1"),
}
RACKS: Columns = {
    "name": (str, "unique name of the rack"),
    "model": (str, "catalogue slug of the rack type"),
    "row": (int, "row in the room, 0-based"),
    "position": (int, "position in the row, 0-based"),
    "x_m": (float, "centre along the row"),
    "y_m": (float, "centre across the rows"),
    "height_u": (int, "rack units of the rack"),
    "used_u": (int, "rack units in use"),
    "mass_kg": (float, "rack with all that is in it"),
    "seed_kw": (float, "power of all devices in it, seed profile"),
    "measured_kw": (float, "the same, measured profile"),
    "nameplate_kw": (float, "the same, nameplate profile"),
}
PLACEMENTS: Columns = {
    "device": (str, "device"),
    "rack": (str, "rack"),
    "u_bottom": (int, "lowest rack unit that it fills, 1-based; 0 for zero-U devices"),
    "u_height": (int, "rack units, 0 for zero-U devices"),
    "x_m": (float, "centre along the row"),
    "y_m": (float, "centre across the rows"),
    "z_m": (float, "centre above the floor"),
}
CABLES: Columns = {
    "cable_id": (str, "unique, stable while both ends stay: '<a device>:<a port>'"),
    "fabric": (str, "compute, inband or oob"),
    "stage": (
        str,
        "{node,manager}-leaf, leaf-spine, spine-core, {node,switch,pdu,shelf,bmc}-oob, node-provisioning",
    ),
    "a_device": (str, "lower end"),
    "a_port": (str, "port of the lower end"),
    "b_device": (str, "upper end"),
    "b_port": (str, "port of the upper end"),
    "rate_gbps": (float, "line rate"),
    "length_m": (float, "routed length with slack"),
    "medium": (str, "dac, acc, mmf, smf, cat6a; '' when no part reaches"),
    "part": (str, "part of the reach table; '' when no part reaches"),
    "rail": (int, "rail of the compute fabric, -1 elsewhere"),
    "a_cage": (int, "cage of the lower end, numbered from 1 in its device: ports of one number share a plug"),
    "b_cage": (int, "cage of the upper end"),
}
FEEDS: Columns = {
    "feed": (str, "feed of the site"),
    "voltage_v": (float, "line-to-line voltage"),
    "seed_kw": (float, "its share of the IT load with all feeds up, seed profile"),
    "measured_kw": (float, "the same, measured profile"),
    "nameplate_kw": (float, "the same, nameplate profile"),
    "loss_kw": (float, "its load after loss of the other feed whose loss loads it most, in the site's profile"),
}
CIRCUITS: Columns = {
    "circuit": (str, "unique name of the circuit"),
    "rack": (str, "rack that it feeds"),
    "feed": (str, "feed that it comes from"),
    "pdu": (str, "rack PDU or power shelf at its end"),
    "breaker_a": (float, "rating of its breaker"),
    "voltage_v": (float, "line-to-line voltage"),
    "phases": (int, "1 or 3"),
    "usable_kw": (float, "breaker x voltage x derating x power factor"),
    "load_kw": (float, "load with all feeds up, in the site's profile"),
    "worst_kw": (float, "largest load with all feeds up, a feed lost, or in any single failure, in the site's profile"),
    "worst_case": (str, "its state: '' for all feeds up, 'feed A', or the failure"),
    "phase_a": (float, "largest line current with all feeds up, at the outlets' loads"),
    "worst_phase_a": (float, "largest line current with all feeds up, a feed lost, or in any single failure"),
    "worst_phase": (str, "its line: L1, L2 or L3"),
    "phase_case": (str, "its state: '' for all feeds up, 'feed A', or the failure"),
    "imbalance_pct": (
        float,
        "largest less smallest phase load of the rack PDU, of their mean or of half of a full phase, all feeds up; 0: shelf",
    ),
    "imbalance_bound_pct": (float, "what no assignment of its cords to outlets gets below"),
    "loss_imbalance_pct": (float, "the same after the loss of the feed that unbalances it most"),
    "loss_imbalance_bound_pct": (float, "what no assignment of its cords gets below then"),
    "circuit_of": (
        str,
        "key of the site's power that states it: rack_circuit, network_circuit, storage_circuit, shelf_circuit",
    ),
}
OUTLETS: Columns = {
    "pdu": (str, "rack PDU"),
    "outlet": (int, "number on the PDU, 1-based"),
    "rack": (str, "rack of the PDU"),
    "feed": (str, "feed of the PDU"),
    "phase": (str, "L1, L2, L3 (to neutral) or L1-L2, L2-L3, L3-L1"),
    "bank": (str, "bank breaker of the PDU"),
    "connector": (str, "C13 or C19"),
    "device": (str, "device that it feeds, '' when spare"),
    "psu": (int, "power supply of the device, 1-based; 0 when spare"),
    "load_w": (float, "load with all feeds up, in the site's profile"),
}
ELEMENTS: Columns = {
    "name": (str, "unique name of the element; a rack circuit's name for its breaker"),
    "kind": (
        str,
        "utility, intake, transformer, generator, generators (a plant's bus), switchboard, ups, pdu_transformer, panel, …",
    ),
    "upstream": (str, "element that feeds it normally, '' for the grid's lines and for generators"),
    "alternates": (str, "elements that it is switched to when that one is lost, in this order, '; ' between"),
    "feed": (str, "feed that it belongs to, '' for the grid's lines"),
    "domain": (str, "failure domain: the room that it stands in, or grid"),
    "voltage_v": (float, "line-to-line voltage at its output"),
    "phases": (int, "1 or 3"),
    "rating": (float, "rating as on its plate"),
    "unit": (str, "unit of the rating: MVA, kVA, kW, A"),
    "limit_kw": (float, "what it may carry continuously, derated; of UPS blocks without their redundant modules"),
    "load_kw": (float, "load with everything in order, losses below it included, in the site's profile"),
    "worst_kw": (float, "largest load in any single failure"),
    "worst_case": (str, "the failure of that load, '' when it is the normal state"),
    "phase_a": (
        float,
        "largest line current of panels, PDU transformers and rack circuits, all in order; 0 for others",
    ),
    "worst_phase_a": (float, "the same in any single failure"),
    "worst_phase": (str, "its line: L1, L2 or L3; '' for others"),
    "phase_case": (str, "its state as worst_case"),
    "drop_pct": (
        float,
        (
            "largest voltage drop, normal or with a feed or a shared room lost, of a rack circuit on its worst line in any single "
            "failure: from the UPS output, or above it from the grid"
        ),
    ),
    "fault_ka": (
        float,
        "largest initial symmetrical short-circuit current (IEC 60909-0); 0 where only generators feed",
    ),
    "rating_ka": (
        float,
        "rated short-circuit current, of a rack circuit that of the PDU or shelf at its end; 0 where none is known",
    ),
    "peak_ka": (float, "peak of the largest short-circuit current (IEC 60909-0); 0 where only generators feed"),
    "rating_peak_ka": (float, "rated making and peak withstand current of switchgear and panels, 0 for others"),
    "end": (str, "rack PDU or power shelf at the end of a rack circuit, '' for others"),
    "row": (
        int,
        "row at whose head a panel stands, over which busway runs; of a circuit its panel's; -1: not in the rows",
    ),
    "x_m": (float, "centre of the panel along the row, head of busway; 0 where row is -1"),
    "y_m": (float, "the same across the rows"),
    "conductor_m": (
        float,
        "conductor of a rack circuit from its panel, busway before it included; feeder of a panel; else 0",
    ),
    "step_kw": (float, "largest load step when all GPUs stop or start together, normally or after any single failure"),
    "step_case": (str, "the failure of that step, '' for the normal state"),
    "step_limit_kw": (float, "step that its needed modules or sets permit; 0 where the site gives none"),
}
FAILURES: Columns = {
    "failure": (str, "what fails: an element, a room, grid, or a rack circuit"),
    "kind": (str, "kind of the element; room, grid or circuit"),
    "dead_circuits": (int, "rack circuits without power"),
    "loads_affected": (int, "devices (or busbars) that lose some or all supplies"),
    "loads_lost": (int, "of these, how many go dark"),
    "servers_lost": (int, "GPU servers that go dark"),
    "lost_kw": (float, "load that goes dark, with the own draw of dead rack PDUs and shelves"),
    "capped_kw": (float, "load that the power cap saves in this state"),
    "served_kw": (float, "load that is served; with lost and capped the load of the normal state"),
    "tightest_group": (
        str,
        "device (or busbar) whose supplies come nearest to their limit, with GPU servers where such go dark; '' without one",
    ),
    "supplies": (int, "its supplies"),
    "supplies_left": (int, "of these, how many still have power"),
    "left_w": (float, "what those deliver at most"),
    "needed_w": (float, "what it draws at most: nameplate, or its power cap"),
    "circuits_over": (int, "rack circuits above what they may carry"),
    "worst_element": (str, "element above the circuits that is loaded most, '' for the failure of a circuit"),
    "worst_pct": (float, "its load in percent of its limit"),
    "servers_reduced": (int, "GPU servers that go on at reduced performance, on fewer supplies than full load needs"),
}
WAVES: Columns = {
    "wave": (int, "number of the wave, from 1"),
    "first_rack": (str, "first rack"),
    "last_rack": (str, "last rack; those between belong to it"),
    "racks": (int, "racks of the wave, with GPU servers"),
    "servers": (int, "GPU servers that are burnt in"),
    "load_kw": (float, "load of the wave and of the racks that stay on, in the site's profile"),
    "base_kw": (float, "of it, racks without GPU servers, which are on from the first wave to the last"),
    "energised_kw": (float, "IT load that the energised supply is released for"),
    "cooling_kw": (float, "proven cooling in all; 0 where none is planned"),
    "zone": (str, "cooling zone that comes nearest to its limit, '' without one"),
    "zone_kw": (float, "heat of the wave in that zone"),
    "zone_limit_kw": (float, "what the zone moves with its spare units out"),
    "bound": (str, "what ends the wave before the next rack, '' for the last one"),
    "worst_element": (str, "energised element that comes nearest to its limit, normally or after a single failure"),
    "worst_case": (str, "the failure, '' for the normal state"),
    "worst_kw": (float, "its load then"),
    "worst_limit_kw": (float, "what it may carry"),
    "servers_lost": (int, "most GPU servers that a single failure takes down during the wave"),
    "lost_with": (str, "that failure, '' for none"),
    "step_element": (
        str,
        "where the load step of all GPUs of the wave comes nearest to what is permitted, '' without limits",
    ),
    "step_case": (str, "the failure of that step, '' for the normal state"),
    "step_kw": (float, "the step"),
    "step_limit_kw": (float, "the permitted step"),
    "ramp_min": (float, "minutes in which load_kw is brought up, and down again"),
    "burn_in_mwh": (
        float,
        "energy of its GPU servers in limits.burn_in_required_h hours, in the site's profile (RC-034); 0 without that limit",
    ),
}
ADDRESSES: Columns = {
    "device": (str, "device"),
    "interface": (str, "interface"),
    "address": (str, "address with prefix length"),
    "network": (str, "oob, provisioning, loopback, link, bmc, compute-loopback, rail"),
    "peer_device": (str, "other end of a link"),
    "peer_interface": (str, "its interface"),
    "mac": (str, "MAC of the interface where the asset list has it"),
}
BOM: Columns = {
    "item": (str, "one of inventory.site.sections.purchase.BOM_ITEMS"),
    "model": (str, "catalogue slug, part or description"),
    "quantity": (int, "number to buy, without spares"),
    "unit": (str, "unit of the quantity"),
    "step": (str, "commissioning step that buys it"),
    "note": (str, "what it was counted from"),
    "spares": (int, "spares: those of all lines of the model together, shared by quantity"),
    "spares_rule": (str, "how they were counted; '' for items without spares"),
    "supplied_with": (str, "what it comes in, and is paid with; '' for what is ordered by itself"),
    "owner": (str, "who buys it, '' where the site does not say"),
    "tranche": (str, "part of the order, '' where there are none"),
    "lead_item": (str, "item of leadtimes that it waits for, '' where the site has none"),
    "order_by": (str, "ISO date of the latest safe order (see activities.safe_start), '' without lead time"),
    "unit_price": (float, "price of one, in `currency`; 0 without a price"),
    "currency": (str, "currency of the price, '' without a price"),
    "cost": (float, "what is paid for the line with its spares, in the site's currency"),
    "price_source": (str, "source of the price, '' without a price"),
}
SCHEDULE: Columns = {
    "activity": (str, "what is ordered or built"),
    "lead_min_weeks": (float, "shortest lead time"),
    "lead_max_weeks": (float, "longest lead time"),
    "safe_order": (
        str,
        "latest order that keeps the need date with every duration at its longest; of the first tranche",
    ),
    "need_date": (str, "ISO date of go-live"),
    "go_live_day_order_early": (
        str,
        "order for a delivery on the day of go-live, with the longest lead time: no time for work",
    ),
    "go_live_day_order_late": (
        str,
        "order for a delivery on the day of go-live, with the shortest lead time: no time for work",
    ),
    "source": (str, "source of the lead time"),
    "criticality_pct": (float, "share of simulated runs in which it is on the longest path, percent"),
    "expedite_days": (float, "days that go-live gains at P90 if it takes its shortest time"),
}
ACTIVITIES: Columns = {
    "activity": (str, "lead time (with its tranche), work or milestone; a row comes after all that it waits for"),
    "kind": (str, "lead, work, start, end"),
    "group": (str, "dependency group, D00 to D14"),
    "min_days": (float, "shortest duration, days of which seven are a week"),
    "likely_days": (float, "most likely duration"),
    "max_days": (float, "longest duration"),
    "promised": (str, "promised delivery of an order, '' without one"),
    "after": (str, "what it waits for, by comma; with kind and lag where it is not end to start"),
    "start": (str, "ISO date of its early start, with likely durations"),
    "finish": (str, "ISO date of its early finish"),
    "slack_days": (float, "how much later it may start without moving go-live, with likely durations"),
    "critical": (int, "1 on the longest path with likely durations"),
    "latest_start": (str, "latest start that keeps the need date, with likely durations"),
    "safe_start": (str, "latest start that keeps the need date, with every duration at its longest"),
    "margin_days": (float, "days from its early to its safe start, at longest durations; below 0 it is too late"),
    "p50_finish": (str, "date by which half of the simulated runs end it"),
    "p90_finish": (str, "date by which nine of ten do"),
    "criticality_pct": (float, "share of simulated runs in which it is on the longest path, percent"),
    "expedite_days": (float, "lead times: days that go-live gains at P90 if it takes its shortest time"),
    "source": (str, "source of the duration"),
}
STORAGE: Columns = {
    "block": (str, "building block of the catalogue"),
    "title": (str, "what it is"),
    "chosen": (int, "1 for the site's own choice"),
    "shared_posix": (int, "1 where jobs mount it as a file system"),
    "in_servers": (int, "1 where the storage servers of the plan hold it and nothing is bought"),
    "media": (str, "hdd or nvme"),
    "drive_tb": (float, "capacity of one drive, TB"),
    "enclosures": (int, "enclosures that meet every need"),
    "bound": (str, "need that decides their number"),
    "drives": (int, "drives in them"),
    "raw_pb": (float, "space of all drives"),
    "usable_pb": (float, "space after parity, spare drives and file system"),
    "write_gb_s": (float, "sequential write rate"),
    "read_gb_s": (float, "sequential read rate"),
    "metadata_ops_s": (float, "metadata operations per second"),
    "metadata_servers": (int, "metadata servers beside the enclosures"),
    "rebuild_h": (float, "hours until a lost drive is rebuilt"),
    "links": (int, "network links that they have"),
    "link_gbps": (float, "rate of one link"),
    "links_needed": (int, "links that the larger of write and read need"),
    "rack_u": (float, "rack units"),
    "kw": (float, "nameplate power"),
    "mass_kg": (float, "mass with drives"),
}
ZONES: Columns = {
    "zone": (str, "unique name: air-1 …, loop-1 …"),
    "kind": (str, "air: rows that share units; liquid: racks on one coolant loop"),
    "first_row": (int, "first row of the zone, 0-based"),
    "last_row": (int, "last row of the zone, 0-based"),
    "racks": (int, "racks that give heat to it"),
    "air_kw": (float, "heat of its racks that goes to air, nameplate"),
    "liquid_kw": (float, "heat of its racks that goes to coolant, nameplate"),
    "largest_rack_kw": (float, "heat of kind of the rack with most"),
    "supply_c": (float, "supply temperature of air or coolant"),
    "return_c": (float, "its temperature back at the units"),
    "unit": (str, "model of its units, '' where the site gives none"),
    "unit_kw": (float, "what one unit moves at these temperatures"),
    "needed": (int, "units N that carry the heat"),
    "installed": (int, "units in the zone"),
    "capacity_kw": (float, "what all of them move"),
    "reserve_kw": (float, "what they move with the site's spare units (n_plus) out"),
    "flow_unit": (str, "m3/s (air, at supply temperature) or L/min (coolant)"),
    "flow_needed": (float, "flow that carries the heat, leakage past the servers included"),
    "flow_available": (float, "flow of the units with the spare ones out"),
    "flow_needed_cfm": (float, "air in cubic feet per minute, 0 for coolant"),
    "flow_available_cfm": (float, "the same with the spare units out"),
}
COOLING_UNITS: Columns = {
    "name": (str, "unique name of the unit"),
    "zone": (str, "zone that it serves"),
    "model": (str, "model"),
    "at": (str, "row (place of a rack), wall (end of the rows) or door (of the rack in its name)"),
    "row": (int, "row, 0-based; -1 at a wall"),
    "position": (int, "position in the row, 0-based; -1 at a wall"),
    "x_m": (float, "centre along the row"),
    "y_m": (float, "centre across the rows"),
    "kw": (float, "what it moves"),
}
COOLING_FIGURES: Columns = {
    "item": (str, "air, air units, coolant, plant, pue, year, ride-through"),
    "subject": (str, "what the figure is about"),
    "quantity": (str, "what it is"),
    "value": (float, "number in unit; -1 where there is none"),
    "unit": (str, "unit of the value"),
    "source": (str, "formula, site key or data sheet"),
}
COOLING_OPTIONS: Columns = {
    "option": (str, "air, hybrid or liquid"),
    "chosen": (int, "1 for what the site is"),
    "fits": (int, "1 when the densest rack's air heat is possible"),
    "air_kw": (float, "heat of the site that goes to air"),
    "liquid_kw": (float, "heat of the site that goes to coolant"),
    "largest_rack_air_kw": (float, "air heat of the densest rack as it is planned"),
    "rack_air_limit_kw": (float, "air heat that a rack may have"),
    "servers_per_rack": (
        int,
        "GPU servers that a rack may hold under that limit, its power limit and its height; a whole system or 0",
    ),
    "bound": (str, "which of these binds: air, power or height; system where a whole one fits"),
    "gpu_racks": (int, "racks that the GPU servers then take; -1 where a rack takes none"),
    "airflow_m3_s": (float, "air of the site"),
    "pue": (float, "PUE on the design day; 0 where the site gives no plant or no units"),
    "reason": (str, "why it does not fit"),
    "source": (str, "source of the option's figures"),
}
FRAMES: Mapping[str, Columns] = {
    "devices": DEVICES,
    "racks": RACKS,
    "placements": PLACEMENTS,
    "cables": CABLES,
    "feeds": FEEDS,
    "circuits": CIRCUITS,
    "outlets": OUTLETS,
    "elements": ELEMENTS,
    "failures": FAILURES,
    "waves": WAVES,
    "addresses": ADDRESSES,
    "bom": BOM,
    "schedule": SCHEDULE,
    "zones": ZONES,
    "cooling_units": COOLING_UNITS,
    "cooling_figures": COOLING_FIGURES,
    "cooling_options": COOLING_OPTIONS,
    "activities": ACTIVITIES,
    "storage": STORAGE,
}


@functools.cache
def _dtypes() -> Mapping[type, Any]:
    """Types of the columns of a plan. Made when a frame is conformed: `bringup explain` has no Arrow, and conforms none."""
    return {
        str: pd.StringDtype("pyarrow", na_value=np.nan),  # the default of "str", also in `with_python_strings`
        int: np.dtype("int64"),
        float: np.dtype("float64"),
    }


_DECIMALS = 6


def with_python_strings(function: Callable[P, R]) -> Callable[P, R]:
    """`function` with text columns of Python strings instead of Arrow's: planning takes a quarter less time and memory.

    Columns of some hundred names pay for Arrow's calls and gain nothing from its vectors; at 100,000 GPUs too. `conform`
    gives the frames of a plan Arrow's type again, which their readers and files expect.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with pd.option_context("mode.string_storage", "python"):
            return function(*args, **kwargs)

    return wrapped


def conform(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """`frame` with exactly the columns and types of FRAMES[name] and a default index; KeyError when a column is
    missing.
    """
    columns, dtypes = FRAMES[name], _dtypes()
    absent = [column for column in columns if column not in frame.columns]
    if absent:
        raise KeyError(f"frame {name} lacks {', '.join(absent)}")
    taken = {column: _typed(frame[column], dtypes[kind]) for column, (kind, _) in columns.items()}
    conformed = pd.DataFrame(taken, index=pd.RangeIndex(len(frame)), copy=False)
    conformed.columns = pd.Index(list(columns), dtype=dtypes[str])
    return conformed


def _typed(values: pd.Series, dtype: Any) -> Any:
    """The values of a column as an array of `dtype`; text straight to Arrow, in a quarter of the time of `astype`."""
    if values.dtype == dtype:
        return values.array
    if dtype == _dtypes()[str] and isinstance(values.dtype, pd.StringDtype):
        import pyarrow as pa

        return pd.array(pa.array(values.to_numpy(), type=pa.large_string(), from_pandas=True), dtype=dtype)
    return values.astype(dtype).array


def frame_hash(frame: pd.DataFrame) -> str:
    """SHA-256 over column names, types and values in row order.

    Floats count to six decimals, so that the last bit of an addition does not matter. Independent of how pandas stores
    text and of the process that computes it.
    """
    digest = hashlib.sha256()
    for column, values in frame.items():
        kind = values.dtype.kind if isinstance(values.dtype, np.dtype) else "O"
        digest.update(f"{column}\x1f{kind}\x1f{len(values)}\x1e".encode())
        if kind in "iub":
            digest.update(values.to_numpy(dtype="<i8").tobytes())
        elif kind == "f":
            digest.update((np.round(values.to_numpy(dtype="<f8"), _DECIMALS) + 0.0).tobytes())
        else:
            texts = values if isinstance(values.dtype, pd.StringDtype) else values.astype(str)
            digest.update("\x1f".join(texts.to_numpy(dtype=object)).encode())
        digest.update(b"\x1e")
    return digest.hexdigest()


def counts(frame: pd.DataFrame, columns: list[str]) -> list[tuple[tuple[str, ...], int]]:
    """Rows of `frame` per combination of values of text `columns`, in order of first appearance."""
    sizes = frame.groupby(columns, sort=False).size()
    keys = sizes.index.to_frame(index=False).astype(str).itertuples(index=False, name=None)
    return list(zip(keys, sizes.astype(int).tolist(), strict=True))


def digest(text: str) -> str:
    """SHA-256 of a text, hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
